/* A client of EC2's Query API (version 2016-11-15): calls that don't block, on http.h. It signs, waits for room in the
 * token buckets, tries again what may be tried again, and reads the answer's XML. ec2_request.h is a call's request,
 * ec2_answer.h what answers say.  Tried again, each time signed anew, after a random part of a delay that doubles (at
 * most 20 s): broken connections, time outs, 5xx, answers that can't be read, throttling (that empties the call's
 * bucket here), credentials that can't be had or have expired (they are read anew first), and, once the clock is
 * corrected by the answer's Date, signatures that were out of time. Never another 4xx, and never a lack of capacity,
 * which EC2 tells by a 500. After `attempts` the last failure is told; after EC2_ATTEMPTS_LASTING one that time is not
 * likely to mend (no credentials, no such host, a certificate that is refused).  A call that changes something may be
 * sent again because EC2 knows it again: RunInstances, RequestSpotInstances and CreateFleet by the ClientToken, which
 * they must have; terminating, cancelling and tagging twice is as once.  Transport: TLS with the certificate verified;
 * plain http to loopback addresses alone. No secret (key, session token, signature, user data) is in any text. One
 * thread.  The rights (IAM actions) that BidBrain's calls need:     DescribeSpotPriceHistory
 * ec2:DescribeSpotPriceHistory     DescribeInstances              ec2:DescribeInstances
 * DescribeSpotInstanceRequests   ec2:DescribeSpotInstanceRequests     RunInstances                   ec2:RunInstances
 * on instance, image, subnet, security-group, network-interface,                                    volume, key-pair,
 * launch-template; ec2:CreateTags (ec2:CreateAction                                    RunInstances);
 * iam:PassRole for the instance profile's role     RequestSpotInstances           ec2:RequestSpotInstances,
 * ec2:RunInstances, ec2:CreateTags, iam:PassRole     CreateFleet                    ec2:CreateFleet, ec2:RunInstances,
 * ec2:CreateTags, iam:PassRole, and what the                                    launch template needs:
 * ec2:DescribeLaunchTemplateVersions     CreateTags                     ec2:CreateTags on instances (those of
 * RequestSpotInstances)     CancelSpotInstanceRequests     ec2:CancelSpotInstanceRequests     TerminateInstances
 * ec2:TerminateInstances; may be limited to ec2:ResourceTag/proteus:job and once per account the service-linked role
 * AWSServiceRoleForEC2Spot (iam:CreateServiceLinkedRole). */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_H
#define BIDBRAIN_CLOUD_AWS_EC2_H

#include "bidbrain/cloud/aws/ec2_answer.h"
#include "bidbrain/cloud/aws/ec2_request.h"

enum {
    EC2_CALLS_MAX = 4096, /* waiting and under way */
    EC2_ATTEMPTS_DEFAULT = 8,
    EC2_ATTEMPTS_LASTING = 2,
    EC2_TIMEOUT_MS_DEFAULT = 30 * 1000, /* of one attempt */
    EC2_DELAY_MS_DEFAULT = 200,         /* the first; four times that after throttling */
    EC2_DELAY_MS_MAX = 20 * 1000,
    EC2_SKEW_S = 240, /* clocks that differ by less are not the reason why a signature is refused */
};

struct ec2;

/* Zero and NULL: the default. */
struct ec2_options {
    const char *region;   /* or as the environment and the profile say */
    const char *endpoint; /* or likewise; or https://ec2.REGION.amazonaws.com (.com.cn in China) */
    unsigned attempts;
    uint32_t timeout_ms, delay_ms;
};

/* Has an http and a credentials chain of its own. 0; AML_EINPUT: no region, an endpoint that is no URL or is neither
 * https nor a loopback address, broken files of credentials; AML_EFAIL. */
int ec2_open(struct ec2 **ec2, const struct ec2_options *options, struct error *error);
/* Calls under way are dropped: their `done` is not called. NULL is allowed. */
void ec2_close(struct ec2 *ec2);
const char *ec2_region(const struct ec2 *ec2);
const char *ec2_endpoint(const struct ec2 *ec2);
/* By how many seconds EC2's clock is ahead of ours, by the last answer's date. False: no answer has told. */
bool ec2_clock_ahead(const struct ec2 *ec2, int64_t *seconds);

/* As http_fd, http_wait_ms and http_step. */
int ec2_fd(const struct ec2 *ec2);
int ec2_wait_ms(struct ec2 *ec2);
void ec2_step(struct ec2 *ec2);

struct ec2_answer {
    struct xml_element root;           /* "no element" when the call has failed; lives until `done` returns */
    const struct ec2_failure *failure; /* NULL: it has not */
    /* EC2 refused: no attempt of this call was carried out. Without it, a failed call may have been carried out. */
    bool refused;
};

/* Called from ec2_step; may start calls. */
typedef void ec2_done(void *context, const struct ec2_answer *answer);
/* Takes the request over. A failure comes by `done`, never at once. */
void ec2_start(struct ec2 *ec2, struct ec2_request *request, ec2_done *done, void *context);

#endif
