/* See balance.h. */
#include "agileml/control/balance.h"

#include <math.h>

enum { BISECTIONS = 60 };

/* The time for one shard. */
static double shard_seconds(const struct balance_node *node, enum monitor_span span) {
    return node->speeds[span].item_seconds * node->items / node->shards;
}

/* The shards of all nodes that take at most z for a clock. */
static double shards_within(const struct balance_node *nodes, size_t count, enum monitor_span span, double z) {
    double shards = 0;
    for (size_t n = 0; n < count; n++) {
        shards += fmax(0, z - nodes[n].speeds[span].fixed_seconds) / shard_seconds(&nodes[n], span);
    }
    return shards;
}

static double clock_seconds(const struct balance_node *node, enum monitor_span span, double shards) {
    return node->speeds[span].fixed_seconds + shard_seconds(node, span) * shards;
}

double balance_weigh(struct balance_node *nodes, size_t count, enum monitor_span span) {
    double shards = 0;
    double low = 0;
    double present = 0;
    for (size_t n = 0; n < count; n++) {
        const struct monitor_speed *speed = &nodes[n].speeds[span];
        if (!(speed->item_seconds > 0) || speed->clocks < MONITOR_CLOCKS || !(nodes[n].items > 0)) {
            return NAN;
        }
        shards += nodes[n].shards;
        present = fmax(present, clock_seconds(&nodes[n], span, nodes[n].shards));
    }
    double high = present; /* in so much time the present shares are done: there is room for all shards */
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        *(shards_within(nodes, count, span, middle) < shards ? &low : &high) = middle;
    }
    double weights = 0;
    for (size_t n = 0; n < count; n++) {
        double mine = fmax(0, high - nodes[n].speeds[span].fixed_seconds) / shard_seconds(&nodes[n], span);
        double weight = round(mine / shards * (double)count * BALANCE_EVEN);
        nodes[n].weight = (uint32_t)fmin(fmax(weight, BALANCE_LEAST), BALANCE_MOST);
        weights += nodes[n].weight;
    }
    double longest = 0;
    for (size_t n = 0; n < count; n++) {
        longest = fmax(longest, clock_seconds(&nodes[n], span, shards * nodes[n].weight / weights));
    }
    return longest / present;
}

static bool is_time(const struct balance *balance, double seconds, uint64_t now_us) {
    return balance->changed_us == 0 || (double)(now_us - balance->changed_us) / 1e6 >= seconds * balance->waits;
}

/* Sets the doubt, once after each change. */
static void compare(struct balance *balance, double clock) {
    if (balance->predicted > 0) {
        balance->doubt = fmin(fmax(1 - balance->predicted / clock, 0), BALANCE_DOUBT);
        balance->predicted = 0;
    }
}

bool balance_decide(struct balance *balance, struct balance_node *nodes, size_t count, double seconds, uint64_t now_us,
                    double *gain) {
    if (count < 2 || !is_time(balance, seconds, now_us)) {
        return false;
    }
    double now = balance_weigh(nodes, count, MONITOR_SHORT);
    double lasting = balance_weigh(nodes, count, MONITOR_LONG); /* its weights are the result */
    if (isnan(now) || isnan(lasting)) {
        return false;
    }
    double clock = 0;
    double error = 0;
    for (size_t n = 0; n < count; n++) {
        clock = fmax(clock, nodes[n].speeds[MONITOR_LONG].clock_seconds);
        error = fmax(error, nodes[n].speeds[MONITOR_LONG].error);
    }
    compare(balance, clock);
    *gain = 1 - lasting;
    double least = fmax(BALANCE_GAIN + BALANCE_ERRORS * error, balance->doubt);
    bool pays = *gain * fmax(seconds, MONITOR_CLOCKS * clock) > BALANCE_COST + clock;
    if (1 - now <= BALANCE_GAIN || *gain <= least || !pays) {
        return false;
    }
    balance->changed_us = now_us;
    balance->predicted = clock * lasting;
    balance->waits = balance->waits == 0 ? 1 : balance->waits * 2;
    balance->waits = balance->waits > BALANCE_WAITS_MAX ? BALANCE_WAITS_MAX : balance->waits;
    return true;
}
