/* `--balance shares`: how much of the data each node is to work on, so that all take equally long for a clock. AntDT
 * (Xiao et al.), equations 2 and 3: the least z with z >= fixed_i + B_i * t_i, where the B_i, the nodes' shards of
 * the data, add up to all, and t_i is the node's time for one of the shards that it has. Pure functions: no sockets, no
 * clock reads.
 *
 * Shares change rarely: only when the speeds of all nodes are known, over the long window and over the short one the
 * clock would get shorter by more than BALANCE_GAIN, over the long one also by more than chance explains
 * (BALANCE_ERRORS), and what that saves within the long window is more than a change of plan costs. After each change
 * the next one waits twice as long, up to BALANCE_WAITS_MAX windows. Shards differ in how much work they are, so that
 * a change may save less than was predicted: the next one has to save more than by how much this prediction failed. */
#ifndef AGILEML_CONTROL_BALANCE_H
#define AGILEML_CONTROL_BALANCE_H

#include "agileml/control/monitor.h"

enum {
    BALANCE_EVEN = 64, /* the weight of a node with the mean share */
    BALANCE_LEAST = 4, /* the least weight: a node without any data could not be measured any more */
    BALANCE_MOST = 64 * BALANCE_EVEN,
    BALANCE_WAITS_MAX = 16,
};
#define BALANCE_COST   0.5 /* seconds that a change of plan costs, besides the time of a clock */
#define BALANCE_GAIN   0.05
#define BALANCE_DOUBT  0.25 /* whatever earlier predictions were worth, a gain above this counts */
#define BALANCE_ERRORS 3.0 /* standard errors of the speed that is known worst, which come on top of BALANCE_GAIN */

/* A node that works. */
struct balance_node {
    double shards; /* that it has */
    double items;  /* of its clocks, at present; shards differ in their numbers of items */
    struct monitor_speed speeds[MONITOR_SPANS];
    uint32_t weight; /* result: its share by the mean share, times BALANCE_EVEN */
};

struct balance {
    uint64_t changed_us; /* when shares were last changed; 0: never */
    unsigned waits;      /* windows that the next change waits */
    double predicted;    /* the clock's time that the last change was to bring; 0: none, or compared already */
    double doubt;        /* by how much the last prediction failed, as a part of the clock's time */
};

/* Sets the nodes' weights by these speeds. Returns the clock's predicted time with these weights by its time with the
 * present items; NaN: a speed is not known. */
double balance_weigh(struct balance_node *nodes, size_t count, enum monitor_span span);

/* Sets the weights, and returns whether shares are to be changed by them now: then `balance` takes it as done. *gain is
 * the predicted share of a clock's time that is saved. `seconds` is the long window's length. */
bool balance_decide(struct balance *balance, struct balance_node *nodes, size_t count, double seconds, uint64_t now_us,
                    double *gain);

#endif
