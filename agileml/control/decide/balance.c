/* See balance.h. */
#include "agileml/control/decide/balance.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BISECTIONS = 60 };

/* ---- Shares ---- */

/* Returns the time of a clock with this many shards. AntDT's equation 4: each slice takes its fixed time. */
static double seconds_for(const struct aml_balance_node *node, enum aml_balance_span span, double shards) {
    const struct aml_balance_speed *speed = &node->speeds[span];
    double fixed = speed->fixed_seconds;
    if (node->slice_shards > 0) {
        fixed = speed->slice_seconds * fmax(ceil(shards / node->slice_shards), 1);
    }
    return fixed + speed->shard_seconds * shards;
}

/* Returns the most shards with which a clock takes at most z. Fills slices only to BALANCE_FILLED: shards differ in
 * size, and a few more items would need one more slice. */
static double shards_in(const struct aml_balance_node *node, enum aml_balance_span span, double z) {
    const struct aml_balance_speed *speed = &node->speeds[span];
    if (!(node->slice_shards > 0)) {
        return fmax(0, z - speed->fixed_seconds) / speed->shard_seconds;
    }
    double filled = BALANCE_FILLED * node->slice_shards;
    double slice = speed->slice_seconds + speed->shard_seconds * filled;
    double slices = floor(z / slice);
    double left = z - slices * slice - speed->slice_seconds;
    return slices * filled + fmin(fmax(0, left) / speed->shard_seconds, filled);
}

/* Returns how many shards all nodes but `without` do in a clock of at most z. SIZE_MAX: all nodes. */
static double shards_within(const struct aml_balance_view *view, enum aml_balance_span span, double z, size_t without) {
    double shards = 0;
    for (size_t n = 0; n < view->count; n++) {
        shards += n != without ? shards_in(&view->nodes[n], span, z) : 0;
    }
    return shards;
}

static bool is_known(const struct aml_balance_view *view, enum aml_balance_span span) {
    for (size_t n = 0; n < view->count; n++) {
        const struct aml_balance_speed *speed = &view->nodes[n].speeds[span];
        if (!(speed->shard_seconds > 0) || speed->clocks < BALANCE_CLOCKS) {
            return false;
        }
    }
    return view->count > 0;
}

static double all_shards(const struct aml_balance_view *view) {
    double shards = 0;
    for (size_t n = 0; n < view->count; n++) {
        shards += view->nodes[n].shards;
    }
    return shards;
}

/* Returns the time of a clock with the present shares. */
static double present_seconds(const struct aml_balance_view *view, enum aml_balance_span span) {
    double longest = 0;
    for (size_t n = 0; n < view->count; n++) {
        longest = fmax(longest, seconds_for(&view->nodes[n], span, view->nodes[n].shards));
    }
    return longest;
}

/* Equations 3 and 4: returns the least time in which all nodes but `without` do all shards. */
static double least_seconds(const struct aml_balance_view *view, enum aml_balance_span span, size_t without) {
    double shards = all_shards(view);
    double low = 0;
    double high = present_seconds(view, span);
    while (shards_within(view, span, high, without) < shards && high < 1e12) {
        high *= 2; /* happens only without a node or with partly filled slices: the present shares fit in `high` */
    }
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = (low + high) / 2;
        *(shards_within(view, span, middle, without) < shards ? &low : &high) = middle;
    }
    return high;
}

double balance_weigh(const struct aml_balance_view *view, enum aml_balance_span span,
                     struct aml_balance_action *actions) {
    if (!is_known(view, span)) {
        return NAN;
    }
    double shards = all_shards(view);
    double z = least_seconds(view, span, SIZE_MAX);
    double weights = 0;
    for (size_t n = 0; n < view->count; n++) {
        double weight = round(shards_in(&view->nodes[n], span, z) / shards * (double)view->count * AML_BALANCE_EVEN);
        actions[n].weight = (uint32_t)fmin(fmax(weight, BALANCE_LEAST), BALANCE_MOST);
        weights += actions[n].weight;
    }
    double longest = 0;
    for (size_t n = 0; n < view->count; n++) {
        longest = fmax(longest, seconds_for(&view->nodes[n], span, shards * actions[n].weight / weights));
    }
    return longest / present_seconds(view, span);
}

/* Once after each change, compares the clock's time with the prediction and sets the doubt. */
static void compare(struct balance *balance, double clock) {
    if (balance->predicted > 0) {
        balance->doubt = fmin(fmax(1 - balance->predicted / clock, 0), BALANCE_DOUBT);
        balance->predicted = 0;
    }
}

static uint64_t nodes_hash(const struct aml_balance_view *view) {
    uint64_t hash = 0;
    for (size_t n = 0; n < view->count; n++) {
        const char *name = view->nodes[n].name;
        hash += hash_bytes((const unsigned char *)name, strlen(name), 0); /* a sum does not depend on the order */
    }
    return hash;
}

/* Returns whether the wait after the last change is over, and all speeds are those with the present shares. */
static bool is_time(const struct balance *balance, const struct aml_balance_view *view, enum aml_balance_span window) {
    double waits = balance->nodes == nodes_hash(view) ? balance->waits : fmin(balance->waits, 1);
    double clock = 0;
    for (size_t n = 0; n < view->count && waits > 0; n++) {
        clock = fmax(clock, view->nodes[n].speeds[AML_BALANCE_SHORT].clock_seconds);
    }
    return view->now - balance->changed >= fmax(view->windows[window] * waits, BALANCE_SETTLED * clock);
}

static void note_change(struct balance *balance, const struct aml_balance_view *view, double predicted, double waits) {
    balance->changed = view->now;
    balance->nodes = nodes_hash(view);
    balance->predicted = predicted;
    balance->waits = waits;
}

static void describe(const struct aml_balance_view *view, const struct aml_balance_action *actions, double gain,
                     char reason[AML_BALANCE_REASON]) {
    size_t least = 0;
    size_t most = 0;
    double weights = 0;
    for (size_t n = 0; n < view->count; n++) {
        weights += actions[n].weight;
        least = actions[n].weight < actions[least].weight ? n : least;
        most = actions[n].weight > actions[most].weight ? n : most;
    }
    double mean = weights / (double)view->count;
    snprintf(reason, AML_BALANCE_REASON,
             "shares of %.2f (%.30s) to %.2f (%.30s) of the mean are to make clocks %.0f %% shorter",
             actions[least].weight / mean, view->nodes[least].name, actions[most].weight / mean, view->nodes[most].name,
             100 * gain);
}

/* ---- Servers ---- */

static bool serves(const struct aml_balance_node *node) {
    return node->partitions > 0 && node->serve_weight != BALANCE_SERVE;
}

/* Returns how long nodes certainly wait for this server in a clock: the smaller of both windows' waits, minus what may
 * be chance; 0: not known. */
static double wait_for(const struct aml_balance_view *view, const struct aml_balance_node *node) {
    double clocks = BALANCE_CLOCKS * (double)view->count;
    bool lasts = node->speeds[AML_BALANCE_LONG].seconds >= BALANCE_MEASURED * view->windows[AML_BALANCE_LONG];
    const struct aml_balance_wait *now = &node->waits[AML_BALANCE_SHORT];
    const struct aml_balance_wait *lasting = &node->waits[AML_BALANCE_LONG];
    bool known = lasts && serves(node) && now->clocks >= BALANCE_CLOCKS && lasting->clocks >= clocks;
    return known ? fmax(fmin(now->seconds, lasting->seconds) - BALANCE_ERRORS * lasting->error, 0) : 0;
}

/* Returns the time of a clock, waiting included: the mean over the nodes. */
static double whole_seconds(const struct aml_balance_view *view) {
    double sum = 0;
    for (size_t n = 0; n < view->count; n++) {
        const struct aml_balance_speed *speed = &view->nodes[n].speeds[AML_BALANCE_LONG];
        sum += speed->clocks > 0 ? speed->seconds / speed->clocks : 0;
    }
    return sum / (double)view->count;
}

/* Takes the partitions of slow servers away, if that pays. Returns whether it has done so. */
static bool relieve_servers(const struct aml_balance_view *view, struct aml_balance_action *actions,
                            char reason[AML_BALANCE_REASON]) {
    double clock = whole_seconds(view);
    double longest = 0;
    double others = 0; /* the longest wait for a server that keeps its partitions, as measured */
    size_t slowest = 0;
    unsigned serving = 0;
    unsigned slow = 0;
    for (size_t n = 0; n < view->count; n++) {
        double wait = wait_for(view, &view->nodes[n]);
        serving += serves(&view->nodes[n]) ? 1 : 0;
        slow += wait > BALANCE_GAIN * clock ? 1 : 0;
        slowest = wait > longest ? n : slowest;
        longest = fmax(longest, wait);
        bool keeps = wait <= BALANCE_GAIN * clock && serves(&view->nodes[n]);
        others = keeps ? fmax(others, view->nodes[n].waits[AML_BALANCE_LONG].seconds) : others;
    }
    assert(slow <= serving);
    double gain = clock > 0 ? (longest - others) / clock : 0;
    double holds = fmin(fmax(view->windows[AML_BALANCE_LONG], BALANCE_CLOCKS * clock), view->seconds_left);
    if (slow == 0 || 2 * slow > serving || gain <= BALANCE_GAIN || gain * holds <= BALANCE_COST + clock) {
        return false;
    }
    for (size_t n = 0; n < view->count; n++) {
        actions[n].weight = view->nodes[n].weight;
        actions[n].serve_weight =
            wait_for(view, &view->nodes[n]) > BALANCE_GAIN * clock ? BALANCE_SERVE : view->nodes[n].serve_weight;
    }
    snprintf(reason, AML_BALANCE_REASON,
             "partitions leave %u of %u servers: nodes wait %.1f ms longer for %.30s, %.0f %% of a clock", slow,
             serving, 1000 * (longest - others), view->nodes[slowest].name, 100 * gain);
    return true;
}

/* ---- Shares and servers ---- */

/* Changes shares, or relieves slow servers. A change first waits for the length of `window`. */
static bool share(const struct aml_balance_view *view, enum aml_balance_span window, void *memory,
                  struct aml_balance_action *actions, char reason[AML_BALANCE_REASON]) {
    static_assert(sizeof(struct balance) <= AML_BALANCE_MEMORY, "a policy's memory");
    struct balance *balance = memory;
    if (view->count < 2) {
        return false;
    }
    bool measured = view->now - balance->changed >= view->windows[AML_BALANCE_LONG]; /* since the last change */
    if (measured && relieve_servers(view, actions, reason)) {
        note_change(balance, view, 0, 1); /* shares that didn't pay may pay now */
        return true;
    }
    if (!is_time(balance, view, window)) {
        return false;
    }
    double now = balance_weigh(view, AML_BALANCE_SHORT, actions);
    double lasting = balance_weigh(view, AML_BALANCE_LONG, actions); /* its weights are the result */
    if (isnan(now) || isnan(lasting)) {
        return false;
    }
    double clock = 0;
    double error = 0;
    for (size_t n = 0; n < view->count; n++) {
        clock = fmax(clock, view->nodes[n].speeds[AML_BALANCE_LONG].clock_seconds);
        error = fmax(error, view->nodes[n].speeds[AML_BALANCE_LONG].error);
    }
    compare(balance, clock);
    double gain = 1 - lasting;
    double least = fmax(BALANCE_GAIN + BALANCE_ERRORS * error, balance->doubt / 2);
    double holds = fmin(fmax(view->windows[AML_BALANCE_LONG], BALANCE_CLOCKS * clock), view->seconds_left);
    if (1 - now <= BALANCE_GAIN || gain <= least || gain * holds <= BALANCE_COST + clock) {
        return false;
    }
    bool others = balance->waits == 0 || balance->nodes != nodes_hash(view);
    note_change(balance, view, clock * lasting, others ? 1 : fmin(balance->waits * 2, BALANCE_WAITS_MAX));
    describe(view, actions, gain, reason);
    return true;
}

bool balance_shares(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                    char reason[AML_BALANCE_REASON]) {
    return share(view, AML_BALANCE_LONG, memory, actions, reason);
}

bool balance_dd(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                char reason[AML_BALANCE_REASON]) {
    return share(view, AML_BALANCE_SHORT, memory, actions, reason);
}

/* ---- Replacement ---- */

/* Returns whether the node is a straggler in both windows, and was measured for most of the long window. */
static bool lasts(const struct aml_balance_view *view, const struct aml_balance_node *node) {
    const struct aml_balance_speed *speed = &node->speeds[AML_BALANCE_LONG];
    return node->speeds[AML_BALANCE_SHORT].slowness >= BALANCE_STRAGGLER && speed->slowness >= BALANCE_STRAGGLER &&
           speed->seconds >= BALANCE_MEASURED * view->windows[AML_BALANCE_LONG];
}

/* Returns the slowest straggler that may be replaced; SIZE_MAX: there is none. */
static size_t straggler(const struct aml_balance_view *view) {
    size_t slowest = SIZE_MAX;
    for (size_t n = 0; n < view->count; n++) {
        const struct aml_balance_node *node = &view->nodes[n];
        if (node->replaceable && lasts(view, node) &&
            (slowest == SIZE_MAX ||
             node->speeds[AML_BALANCE_LONG].slowness > view->nodes[slowest].speeds[AML_BALANCE_LONG].slowness)) {
            slowest = n;
        }
    }
    return slowest;
}

/* Returns how many shards another node computes in a second, without its fixed part: the mean over the others. */
static double usual_speed(const struct aml_balance_view *view, size_t without) {
    double speeds = 0;
    assert(view->count >= 2);
    for (size_t n = 0; n < view->count; n++) {
        speeds += n != without ? 1 / view->nodes[n].speeds[AML_BALANCE_LONG].shard_seconds : 0;
    }
    return speeds / (double)(view->count - 1);
}

/* Returns the least time of a clock with a node of usual speed in this node's place. */
static double replaced_seconds(const struct aml_balance_view *view, size_t node) {
    double alone = least_seconds(view, AML_BALANCE_LONG, node); /* the clock's time of the other nodes alone */
    double fixed = 0;
    for (size_t n = 0; n < view->count; n++) {
        fixed += n != node ? view->nodes[n].speeds[AML_BALANCE_LONG].fixed_seconds : 0;
    }
    fixed /= (double)(view->count - 1);
    double others = all_shards(view) / fmax(alone - fixed, 1e-12);
    return fixed + all_shards(view) / (others + usual_speed(view, node));
}

bool balance_nd(const struct aml_balance_view *view, void *memory, struct aml_balance_action *actions,
                char reason[AML_BALANCE_REASON]) {
    if (balance_shares(view, memory, actions, reason)) {
        return true;
    }
    size_t slow = view->count >= 2 && is_known(view, AML_BALANCE_LONG) ? straggler(view) : SIZE_MAX;
    for (size_t n = 0; n < view->count; n++) {
        actions[n].weight = view->nodes[n].weight;
    }
    if (slow == SIZE_MAX) {
        return false;
    }
    double kept = least_seconds(view, AML_BALANCE_LONG, SIZE_MAX);
    double meanwhile = least_seconds(view, AML_BALANCE_LONG, slow);
    double saved = 1 - replaced_seconds(view, slow) / kept; /* part of the remaining time */
    double cost = view->pending_seconds * (meanwhile / kept - 1) + 2 * (BALANCE_COST + kept);
    if (saved <= BALANCE_GAIN || saved * (view->seconds_left - view->pending_seconds) <= BALANCE_CERTAIN * cost) {
        return false;
    }
    actions[slow].replace = true;
    snprintf(reason, AML_BALANCE_REASON,
             "%.30s takes %.1f times the mean; another in its place is to save %.0f %% of %.0f s, and costs %.1f s",
             view->nodes[slow].name, view->nodes[slow].speeds[AML_BALANCE_LONG].slowness, 100 * saved,
             view->seconds_left, cost);
    return true;
}
