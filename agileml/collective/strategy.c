/* See strategy.h. */
#include "agileml/collective/strategy.h"

#include "agileml/base/hash.h"

#include <string.h>

static const char *const NAMES[] = {
    [STRATEGY_SSGD] = "ssgd", [STRATEGY_SMA] = "sma", [STRATEGY_ADPSGD] = "adpsgd", [STRATEGY_AUTO] = "auto"};

bool strategy_of_name(const char *name, enum strategy *strategy) {
    for (unsigned s = 0; s < sizeof NAMES / sizeof *NAMES; s++) {
        if (strcmp(name, NAMES[s]) == 0) {
            *strategy = (enum strategy)s;
            return true;
        }
    }
    return false;
}

const char *strategy_name(enum strategy strategy) {
    return NAMES[strategy];
}

/* Returns the clock's number in its group, from 0. */
static uint32_t in_group(const struct strategy_clocks *clocks, uint64_t clock) {
    return (uint32_t)((clock - 1) % clocks->per_iteration) % clocks->local_steps;
}

uint32_t strategy_idle(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock) {
    return strategy == STRATEGY_SSGD ? 0 : in_group(clocks, clock);
}

uint64_t strategy_work(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock) {
    return strategy == STRATEGY_SSGD ? clock : strategy_boundary(clocks, clock + 1) - 1;
}

uint32_t strategy_parts(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock) {
    return strategy_work(strategy, clocks, clock) == clock ? strategy_idle(strategy, clocks, clock) + 1 : 0;
}

uint64_t strategy_boundary(const struct strategy_clocks *clocks, uint64_t clock) {
    uint64_t left = clocks->per_iteration - (clock - 1) % clocks->per_iteration; /* to the next iteration */
    uint32_t within = in_group(clocks, clock);
    uint64_t wait = within == 0 ? 0 : clocks->local_steps - within;
    return clock + (wait < left ? wait : left);
}

/* Returns the node's place in the step's random order; it differs from node to node. */
static uint64_t place_of(uint64_t node, uint64_t step) {
    return hash_mix(node ^ hash_mix(step));
}

/* In the step's order the first two nodes are a pair, the next two are a pair, and so on. */
uint64_t strategy_partner(const uint64_t *nodes, size_t count, uint64_t node, uint64_t step) {
    uint64_t place = place_of(node, step);
    uint64_t before = 0; /* the node just before `node` in that order; 0: none */
    uint64_t after = 0;  /* the node just after it; 0: none */
    size_t rank = 0;
    for (size_t n = 0; n < count; n++) {
        uint64_t other = place_of(nodes[n], step);
        if (other < place) {
            before = rank++ == 0 || other > place_of(before, step) ? nodes[n] : before;
        } else if (other > place) {
            after = after == 0 || other < place_of(after, step) ? nodes[n] : after;
        }
    }
    return rank % 2 == 0 ? after : before;
}
