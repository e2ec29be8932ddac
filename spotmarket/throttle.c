/* See throttle.h. */
#include "spotmarket/throttle.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The capacity of each bucket, and the tokens added per second. The first rule that matches applies. */
static const struct {
    const char *name; /* an action, or the beginning of its name */
    bool begins, unfiltered;
    double size, per_second;
} RULES[] = {
    {"DescribeInstances", false, true, 50, 10},
    {"DescribeSpotInstanceRequests", false, true, 50, 10},
    {"Describe", true, false, 100, 20},
    {"RunInstances", false, false, 5, 2},
    {"TerminateInstances", false, false, 100, 5},
    {"CreateTags", false, false, 100, 10},
    {"", true, false, 50, 5}, /* all other changes */
};

static size_t throttle_rule(const char *action, bool unfiltered) {
    size_t r = 0;
    while ((RULES[r].unfiltered && !unfiltered) ||
           (RULES[r].begins ? strncmp(RULES[r].name, action, strlen(RULES[r].name)) : strcmp(RULES[r].name, action)) !=
               0) {
        r++;
    }
    return r;
}

bool throttle_take(struct throttle *throttle, const char *action, bool unfiltered, int64_t now_us) {
    size_t rule = throttle_rule(action, unfiltered);
    const char *name = RULES[rule].unfiltered ? RULES[rule].name : action;
    struct throttle_bucket *bucket = NULL;
    for (unsigned b = 0; b < throttle->count; b++) {
        struct throttle_bucket *other = &throttle->buckets[b];
        if (strcmp(other->name, name) == 0 && other->size == RULES[rule].size) {
            bucket = other;
        }
    }
    if (bucket == NULL && throttle->count < THROTTLE_BUCKETS) {
        bucket = &throttle->buckets[throttle->count++];
        *bucket = (struct throttle_bucket){
            .tokens = RULES[rule].size, .size = RULES[rule].size, .per_second = RULES[rule].per_second};
        snprintf(bucket->name, sizeof bucket->name, "%s", name);
        bucket->filled_us = now_us;
    }
    if (bucket == NULL) {
        return true;
    }
    bucket->tokens += bucket->per_second * (double)(now_us - bucket->filled_us) / 1e6;
    bucket->tokens = bucket->tokens < bucket->size ? bucket->tokens : bucket->size;
    bucket->filled_us = now_us;
    if (bucket->tokens < 1) {
        return false;
    }
    bucket->tokens -= 1;
    return true;
}
