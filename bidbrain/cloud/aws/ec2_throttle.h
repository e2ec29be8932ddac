/* A model of EC2's token buckets, so that EC2 need not reject calls for their rate. Each kind of call has a bucket per
 * account and region, with a capacity and a refill rate. Pure: the caller passes the time. One thread. */
#ifndef BIDBRAIN_CLOUD_AWS_EC2_THROTTLE_H
#define BIDBRAIN_CLOUD_AWS_EC2_THROTTLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EC2_ACTION_TEXT = 64, EC2_BUCKETS_MAX = 32 };

struct ec2_bucket {
    char action[EC2_ACTION_TEXT];
    bool filtered;
    double tokens, capacity, per_second;
    uint64_t at_us; /* time for which `tokens` holds */
};

/* A zeroed struct has full buckets. */
struct ec2_throttle {
    struct ec2_bucket buckets[EC2_BUCKETS_MAX];
    size_t count;
};

/* Takes a token for a call and returns 0, or returns the microseconds until there is a token. `filtered`: the call has
 * filters or ids; other calls have smaller buckets. */
uint64_t ec2_throttle_take(struct ec2_throttle *throttle, const char *action, bool filtered, uint64_t now_us);
/* EC2 rejected a call for its rate: empties the bucket. Other programs use the same one at EC2. */
void ec2_throttle_drain(struct ec2_throttle *throttle, const char *action, bool filtered, uint64_t now_us);

#endif
