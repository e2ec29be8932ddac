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

/* The clock's number in its group, from 0. */
static uint32_t in_group(const struct strategy_clocks *clocks, uint64_t clock) {
    return (uint32_t)((clock - 1) % clocks->per_iteration) % clocks->local_steps;
}

uint32_t strategy_idle(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock) {
    return strategy == STRATEGY_SSGD ? 0 : in_group(clocks, clock);
}

uint32_t strategy_parts(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock) {
    if (strategy == STRATEGY_SSGD) {
        return 1;
    }
    uint32_t left = clocks->per_iteration - (uint32_t)((clock - 1) % clocks->per_iteration);
    return in_group(clocks, clock) != 0 ? 0 : left < clocks->local_steps ? left : clocks->local_steps;
}

uint64_t strategy_boundary(const struct strategy_clocks *clocks, uint64_t clock) {
    uint64_t left = clocks->per_iteration - (clock - 1) % clocks->per_iteration; /* to the next iteration */
    uint32_t within = in_group(clocks, clock);
    uint64_t wait = within == 0 ? 0 : clocks->local_steps - within;
    return clock + (wait < left ? wait : left);
}

unsigned strategy_peer(uint64_t node, uint64_t step, unsigned count) {
    return (unsigned)(hash_mix(node ^ hash_mix(step)) % count);
}
