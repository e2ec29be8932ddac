/* Strategies by which workers agree on a model (Spotnik, HotCloud 2020, section 3.2), and the parts of an iteration
 * that each clock works on under each strategy. Pure functions.
 *
 *   S-SGD    A clock works on one part of the iteration. The updates of all nodes are summed.
 *   S-MA     Clocks come in groups of up to `local_steps`. The last clock of a group works on the parts of the whole
 *            group, one after the other, each node on its own copy of the model. At its end the model becomes the mean
 *            of the copies. The other clocks of the group have no work: a node ends them together with the last one,
 *            if no change of plan cuts the group.
 *   AD-PSGD  As S-MA. In addition, nodes are paired at random after each part but a clock's last. A pair moves its
 *            copies to the mean of the two (Lian et al., ICML 2018), without waiting for other nodes.
 *
 * A group begins at every `local_steps`th clock of an iteration. So a clock's work follows from the clock and its
 * strategy, which the plan names. A strategy can change where a group begins. */
#ifndef AGILEML_COLLECTIVE_STRATEGY_H
#define AGILEML_COLLECTIVE_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The same numbers as AML_SSGD and so on; also used on the wire. A job may request STRATEGY_AUTO; no plan has it. */
enum strategy { STRATEGY_SSGD, STRATEGY_SMA, STRATEGY_ADPSGD, STRATEGY_AUTO };

#define STRATEGY_NAMES "ssgd, sma, adpsgd"

/* The job's numbers that all strategies need. */
struct strategy_clocks {
    uint32_t per_iteration; /* >= 1 */
    uint32_t local_steps;   /* >= 1 */
};

bool strategy_of_name(const char *name, enum strategy *strategy);
const char *strategy_name(enum strategy strategy);

/* Returns the number of clocks without work just before `clock`. */
uint32_t strategy_idle(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock);

/* Returns the first clock with work, not before `clock`. */
uint64_t strategy_work(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock);

/* Returns how many parts of the iteration the clock works on, the last of which has its own number; 0: none. */
uint32_t strategy_parts(enum strategy strategy, const struct strategy_clocks *clocks, uint64_t clock);

/* Returns the first clock, not before `clock`, at which the strategy can change. */
uint64_t strategy_boundary(const struct strategy_clocks *clocks, uint64_t clock);

/* Returns the node with which `node`, one of `count` different nodes, is paired in a step; 0: none, as the number of
 * nodes is odd. Each step has other random pairs. All nodes compute the same pairs. */
uint64_t strategy_partner(const uint64_t *nodes, size_t count, uint64_t node, uint64_t step);

#endif
