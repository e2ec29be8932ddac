/* What the parts of the provider `ec2` share: ec2.c (life cycle), ec2_check.c, ec2_launch.c, ec2_list.c, ec2_prices.c
 * and ec2_terminate.c (terminating and withdrawing). One thread. */
#ifndef BIDBRAIN_CLOUD_EC2_PRIVATE_H
#define BIDBRAIN_CLOUD_EC2_PRIVATE_H

#include "bidbrain/cloud/aws/ec2.h"
#include "bidbrain/cloud/provider.h"

enum {
    PROVIDER_EC2_FRESH_S = 300, /* after a launch, EC2's listings may lack its instances for so long */
    PROVIDER_EC2_FRESH_MAX = 4 * PROVIDER_COUNT_MAX,
    PROVIDER_EC2_FOUND_MAX = 100000, /* most instances, and most requests, in a listing */
    PROVIDER_EC2_PAGES_MAX = 10000,  /* most pages of a listing or history */
    PROVIDER_EC2_PAGE = 1000,        /* items per page: the most that EC2 returns */
    PROVIDER_EC2_BATCH = 100,        /* ids per call; filters take up to 200 values */
};

/* An operation of several calls, one at a time. It is the first member of each operation's struct, and the context of
 * its calls. It is freed when it ends, or with the provider. */
struct operation {
    struct provider *of;
    struct operation *next;
    void (*free)(struct operation *operation);
};

/* A machine that a launch has reported and no listing has shown yet. */
struct fresh_machine {
    struct provider_machine machine;
    uint64_t until_us;
};

struct provider {
    struct ec2 *ec2;
    struct provider_options options; /* texts and lists are copies */
    struct operation *operations;
    struct operation *prices, *list; /* the operation under way; NULL: none */
    struct fresh_machine *fresh;
    size_t fresh_count, fresh_capacity;
    struct provider_outcome *deferred; /* reported by the next step */
    size_t deferred_count;
};

/* ---- ec2.c ---- */

void operation_begin(struct provider *of, struct operation *operation, void (*free)(struct operation *operation));
void operation_end(struct operation *operation);
/* Reports a call that failed to the listener: "ACTION: CODE: TEXT". */
void provider_ec2_failed(struct provider *of, const char *action, const struct ec2_failure *failure);
void provider_ec2_failed_text(struct provider *of, const char *action, const char *text);
void provider_ec2_machine(struct provider *of, const struct provider_machine *machine);
void provider_ec2_outcome(struct provider *of, const struct provider_outcome *outcome);
void provider_ec2_defer(struct provider *of, const struct provider_outcome *outcome);
/* Returns a request with a filter, the page size and, from the second page on, the page's token. */
struct ec2_request *provider_ec2_page(const char *action, const char *filter, const char *value, const char *token);
/* Adds the job's tags, as parameters that begin with `prefix`, such as "TagSpecification.1.Tag" or "Tag". */
void provider_ec2_tags(struct provider *of, struct ec2_request *request, const char *prefix, const char *token,
                       const char *tier);

/* ---- ec2_terminate.c ---- */

/* Cancels the launch's requests that have no machine, then calls `withdrawn`. */
void provider_ec2_withdraw(struct provider *of, const char *token,
                           void (*withdrawn)(struct provider *of, const char *token));

/* ---- ec2_launch.c ---- */

/* Whether an error code of a launch means that the request itself is wrong. False for failures that may pass. */
bool provider_ec2_ours(const char *code);
/* Returns the call that requests these machines. NULL when the launch can't be written as a call; the next step then
 * reports the refusal. */
struct ec2_request *provider_ec2_launch_request(struct provider *of, const struct provider_launch *launch);
/* Returns the subnet for the launch's zone; NULL: none. */
const char *provider_ec2_subnet(const struct provider *of, const struct provider_launch *launch);

/* ---- ec2_list.c ---- */

/* Reports the machines and requests of one launch. `carried_out` is EC2's code that says that the launch was carried
 * out before, a static text; an outcome is then always reported. NULL: no such code. */
void provider_ec2_list_token(struct provider *of, const char *token, const char *carried_out);
/* Returns the outcome of one launch's spot requests. */
struct provider_outcome provider_ec2_outcome_of(const struct ec2_spot_request *requests, size_t count);
struct provider_machine provider_ec2_machine_of_request(const struct ec2_spot_request *request);

#endif
