/* Strategies by which workers agree on a model (Spotnik, HotCloud 2020, section 3.2), and which part of the data each
 * clock works on under each of them. Pure.
 *
 *   S-SGD  each clock works on one part of the iteration, and the updates of all nodes are summed
 *   S-MA   a clock works on up to `local_steps` parts, one after the other, each node on its own copy of the model; at
 *          its end the model becomes the mean of these copies. Then come clocks without work, so that clocks go on
 *          naming parts: part p of an iteration is done in clock p + 1 or before, whatever the strategy
 *   AD-PSGD  S-MA; and after each part but a clock's last one nodes, paired at random, move their copies to the mean of
 *          the two (Lian et al., ICML 2018), without waiting for each other
 *
 * Such a group of clocks begins at every `local_steps`th clock of an iteration. So what a clock works on depends on the
 * clock and on the strategy alone, which is the plan's for this clock, and a strategy can change where a group begins.
 */
#ifndef AGILEML_COLLECTIVE_STRATEGY_H
#define AGILEML_COLLECTIVE_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As AML_SSGD and so on, and on the wire. STRATEGY_AUTO is only requested, and in no plan. */
enum strategy { STRATEGY_SSGD, STRATEGY_SMA, STRATEGY_ADPSGD, STRATEGY_AUTO };

#define STRATEGY_NAMES "ssgd, sma, adpsgd"

/* How clocks follow each other in a job. */
struct strategy_clocks {
    uint32_t per_iteration; /* >= 1 */
    uint32_t local_steps;   /* >= 1 */
};

bool strategy_of_name(const char *name, enum strategy *strategy);
const char *strategy_name(enum strategy strategy);

/* Returns how many clocks without work have come since the last one with work, up to `clock`; 0: it has work. */
uint32_t strategy_idle(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock);

/* Returns how many parts of the iteration the clock works on, from its own one on; 0: none. */
uint32_t strategy_parts(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock);

/* Returns the first clock from `clock` on from which another strategy can hold. */
uint64_t strategy_boundary(const struct strategy_clocks *clocks, uint64_t clock);

/* Returns the node with which `node`, one of `count` different nodes, is paired in a step; 0: with none, as the number
 * of nodes is odd. The pairs are drawn anew for each step, and all nodes draw the same ones. */
uint64_t strategy_partner(const uint64_t *nodes, size_t count, uint64_t node, uint64_t step);

#endif
