/* A non-blocking client of EC2's Query API (version 2016-11-15), on http.h. It signs calls, waits for room in the token
 * buckets, retries, and reads the XML of answers. ec2_request.h is a call's request, ec2_answer.h the content of
 * answers. One thread.
 *
 * Retries come after a random part of a delay that doubles, at most 20 s; each is signed anew. A call is retried after:
 *  - a broken connection, a timeout, a 5xx, or an answer that can't be read;
 *  - throttling, which also empties the call's bucket here;
 *  - missing or expired credentials, which are read anew first;
 *  - a signature rejected for its time, after the clock was corrected by the answer's Date.
 * Other 4xx are final, and so is a lack of capacity, which EC2 reports as a 500. The last failure is reported after
 * `attempts`. A failure that time is not likely to mend (no credentials, no such host, a rejected certificate) is
 * reported after EC2_ATTEMPTS_LASTING.
 *
 * It is safe to retry calls that change something. RunInstances, RequestSpotInstances and CreateFleet must have a
 * ClientToken, by which EC2 recognizes a retry. Terminating, cancelling and tagging are idempotent.
 *
 * Transport is TLS with a verified certificate; plain http only to loopback addresses. No text has a secret (key,
 * session token, signature, user data).
 *
 * Rights (IAM actions) that BidBrain's calls need:
 *     DescribeSpotPriceHistory       ec2:DescribeSpotPriceHistory
 *     DescribeInstances              ec2:DescribeInstances
 *     DescribeSpotInstanceRequests   ec2:DescribeSpotInstanceRequests
 *     RunInstances                   ec2:RunInstances on instance, image, subnet, security-group, network-interface,
 *                                    volume, key-pair, launch-template; ec2:CreateTags (ec2:CreateAction
 *                                    RunInstances); iam:PassRole for the instance profile's role
 *     RequestSpotInstances           ec2:RequestSpotInstances, ec2:RunInstances, ec2:CreateTags, iam:PassRole
 *     CreateFleet                    ec2:CreateFleet, ec2:RunInstances, ec2:CreateTags, iam:PassRole, and for the
 *                                    launch template ec2:DescribeLaunchTemplateVersions
 *     CreateTags                     ec2:CreateTags on instances (those of RequestSpotInstances)
 *     CancelSpotInstanceRequests     ec2:CancelSpotInstanceRequests
 *     TerminateInstances             ec2:TerminateInstances; may be limited to ec2:ResourceTag/proteus:job
 * Each account also needs the service-linked role AWSServiceRoleForEC2Spot once (iam:CreateServiceLinkedRole). */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_H
#define BIDBRAIN_CLOUD_AWS_EC2_H

#include "bidbrain/cloud/aws/ec2_answer.h"
#include "bidbrain/cloud/aws/ec2_request.h"

enum {
    EC2_CALLS_MAX = 4096, /* calls that have not ended */
    EC2_ATTEMPTS_DEFAULT = 8,
    EC2_ATTEMPTS_LASTING = 2,
    EC2_TIMEOUT_MS_DEFAULT = 30 * 1000, /* limit of one attempt */
    /* limit of the delay before the first retry; four times as long after throttling */
    EC2_DELAY_MS_DEFAULT = 200,
    EC2_DELAY_MS_MAX = 20 * 1000,
    EC2_SKEW_S = 240, /* EC2 does not reject signatures for smaller differences of the clocks */
};

struct ec2;

/* 0 or NULL: the default. */
struct ec2_options {
    const char *region; /* NULL: from the environment or the profile */
    /* NULL: from the environment or the profile, else https://ec2.REGION.amazonaws.com (.com.cn in China) */
    const char *endpoint;
    unsigned attempts;
    uint32_t timeout_ms, delay_ms;
};

/* Opens a client with its own http and its own credentials chain. Returns 0 or AML_EFAIL. Returns AML_EINPUT for a
 * missing region, broken files of credentials, or an endpoint that is neither https nor a loopback address. */
int ec2_open(struct ec2 **ec2, const struct ec2_options *options, struct error *error);
/* Drops calls under way without calling `done`. NULL is allowed. */
void ec2_close(struct ec2 *ec2);
const char *ec2_region(const struct ec2 *ec2);
const char *ec2_endpoint(const struct ec2 *ec2);
/* Sets *seconds to how far EC2's clock is ahead of ours, by the date of the last answer. Returns false if no answer had
 * a date. */
bool ec2_clock_ahead(const struct ec2 *ec2, int64_t *seconds);

/* Like http_fd, http_wait_ms and http_step. */
int ec2_fd(const struct ec2 *ec2);
int ec2_wait_ms(struct ec2 *ec2);
void ec2_step(struct ec2 *ec2);

struct ec2_answer {
    struct xml_element root;           /* no element after a failure; lives until `done` returns */
    const struct ec2_failure *failure; /* NULL: the call succeeded */
    /* EC2 rejected the call, and no attempt was carried out. If false, a failed call may have been carried out. */
    bool refused;
};

/* Called from ec2_step. May start calls. */
typedef void ec2_done(void *context, const struct ec2_answer *answer);
/* Takes ownership of the request. Failures, too, are reported by `done`, from ec2_step. */
void ec2_start(struct ec2 *ec2, struct ec2_request *request, ec2_done *done, void *context);

#endif
