/* See ec2_throttle.h. */
#include "bidbrain/cloud/aws/ec2_throttle.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The first rule counts whose `beginning` is the start of the call's name. */
static const struct {
    const char *beginning;
    bool unfiltered; /* applies only to calls without filters */
    double capacity, per_second;
} ec2_rates[] = {
    {"DescribeInstances", true, 50, 10},
    {"DescribeSpotInstanceRequests", true, 50, 10},
    {"Describe", false, 100, 20},
    {"RunInstances", false, 5, 2},
    {"TerminateInstances", false, 100, 5},
    {"CreateTags", false, 100, 10},
    {"", false, 50, 5},
};

static struct ec2_bucket *ec2_throttle_bucket(struct ec2_throttle *throttle, const char *action, bool filtered,
                                              uint64_t now_us) {
    for (size_t i = 0; i < throttle->count; i++) {
        struct ec2_bucket *bucket = &throttle->buckets[i];
        if (bucket->filtered == filtered && strcmp(bucket->action, action) == 0) {
            double seconds = now_us > bucket->at_us ? (double)(now_us - bucket->at_us) / 1e6 : 0;
            bucket->tokens += seconds * bucket->per_second;
            bucket->tokens = bucket->tokens > bucket->capacity ? bucket->capacity : bucket->tokens;
            bucket->at_us = now_us > bucket->at_us ? now_us : bucket->at_us;
            return bucket;
        }
    }
    assert(throttle->count < EC2_BUCKETS_MAX && strlen(action) < EC2_ACTION_TEXT);
    size_t rate = 0;
    while (strncmp(action, ec2_rates[rate].beginning, strlen(ec2_rates[rate].beginning)) != 0 ||
           (ec2_rates[rate].unfiltered && filtered)) {
        rate++;
    }
    struct ec2_bucket *bucket = &throttle->buckets[throttle->count++];
    *bucket = (struct ec2_bucket){.filtered = filtered,
                                  .tokens = ec2_rates[rate].capacity,
                                  .capacity = ec2_rates[rate].capacity,
                                  .per_second = ec2_rates[rate].per_second,
                                  .at_us = now_us};
    snprintf(bucket->action, sizeof bucket->action, "%s", action);
    return bucket;
}

uint64_t ec2_throttle_take(struct ec2_throttle *throttle, const char *action, bool filtered, uint64_t now_us) {
    struct ec2_bucket *bucket = ec2_throttle_bucket(throttle, action, filtered, now_us);
    if (bucket->tokens >= 1) {
        bucket->tokens -= 1;
        return 0;
    }
    return (uint64_t)((1 - bucket->tokens) / bucket->per_second * 1e6) + 1;
}

void ec2_throttle_drain(struct ec2_throttle *throttle, const char *action, bool filtered, uint64_t now_us) {
    ec2_throttle_bucket(throttle, action, filtered, now_us)->tokens = 0;
}
