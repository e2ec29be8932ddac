/* EC2's token buckets, one per kind of call, shared by all callers. Times are real. No I/O, one thread. */
#ifndef SPOTMARKET_THROTTLE_H
#define SPOTMARKET_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

enum { THROTTLE_BUCKETS = 24, THROTTLE_NAME_MAX = 48 };

struct throttle {
    struct throttle_bucket {
        char name[THROTTLE_NAME_MAX];
        double tokens, size, per_second;
        int64_t filled_us;
    } buckets[THROTTLE_BUCKETS];
    unsigned count;
};

/* Takes a token for a call of `action` at `now_us`. Returns false when its bucket is empty. `unfiltered`: the call is a
 * Describe without ids or filters, for which machines and spot requests have separate buckets. A zeroed struct has full
 * buckets. */
bool throttle_take(struct throttle *throttle, const char *action, bool unfiltered, int64_t now_us);

#endif
