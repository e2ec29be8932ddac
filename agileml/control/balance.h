/* The policies for uneven machines that are built in (agileml/balance.h). Pure functions: no sockets, no clock reads.
 *
 * `shares`: how much of the data each node is to work on, so that all take equally long for a clock. AntDT (Xiao et
 * al.), equations 2 and 3: the least z with z >= fixed_i + B_i * t_i, where the B_i, the nodes' shards of the data, add
 * up to all, and t_i is the node's time for one of the shards that it has.
 *
 * Shares change rarely: only when the speeds of all nodes are known, over the long window and over the short one the
 * clock would get shorter by more than BALANCE_GAIN, over the long one also by more than chance explains
 * (BALANCE_ERRORS), and what that saves within the long window, or until the job's end if it comes first, is more than
 * a change of plan costs. After each change the next one waits twice as long, up to BALANCE_WAITS_MAX windows, but one
 * window only if nodes have come or gone. Shards differ in how much work they are, so that a change may save less than
 * was predicted: the next one has to save more than half of what this one did not.
 *
 * A node that works in slices takes slices * s_i + B_i * t_i for a clock (equation 4), with as few slices as hold
 * B_i. What a slice costs is known after a first change of shares.
 *
 * `dd`, for machines that are the job's own: the same, but changes wait for short windows. Such machines are of
 * different kinds, and stay as fast as they are.
 *
 * Servers: those for which nodes wait longer than for others, by more than BALANCE_GAIN of a clock over both windows,
 * get no partitions any more (AntDT restarts them). Half of the servers keep theirs in any case. Under the same
 * conditions as shares, and not at the same time.
 *
 * `nd`: as `shares`, and a node that is a straggler over a whole long window is replaced, if that saves more of the
 * time left than it costs (AntDT's KILL_RESTART). Only nodes whose slowness shares don't make up for are worth that. */
#ifndef AGILEML_CONTROL_BALANCE_H
#define AGILEML_CONTROL_BALANCE_H

#include "agileml/balance.h"

enum {
    BALANCE_CLOCKS = 8,   /* the fewest clocks by which a speed is known */
    BALANCE_SERVE = 1,    /* the weight of a slow server: it has partitions only if there are more than 64 a node */
    BALANCE_SETTLED = 12, /* clocks until all of BALANCE_CLOCKS are with new shares, the first ones not counted */
    BALANCE_LEAST = 4,    /* the least weight: a node without any data could not be measured any more */
    BALANCE_MOST = 64 * AML_BALANCE_EVEN,
    BALANCE_WAITS_MAX = 16,
};
#define BALANCE_COST      0.5 /* seconds that a change of plan costs, besides the time of a clock */
#define BALANCE_GAIN      0.05
#define BALANCE_DOUBT     0.25 /* whatever earlier predictions were worth, a gain above this counts */
#define BALANCE_FILLED    0.97 /* of what a slice holds, by the mean */
#define BALANCE_ERRORS    3.0  /* standard errors of the speed that is known worst, which come on top of BALANCE_GAIN */
#define BALANCE_STRAGGLER 1.5  /* the slowness from which on a node is a straggler */
#define BALANCE_MEASURED  0.75 /* of the long window, before a straggler counts as one that lasts */
#define BALANCE_CERTAIN   2.0  /* what a replacement saves has to be so many times what it costs */

/* A policy's memory. */
struct balance {
    double changed;   /* when shares were last changed: seconds of training */
    double waits;     /* windows that the next change waits; 0: there was none yet */
    double predicted; /* the clock's time that the last change was to bring; 0: none, or compared already */
    double doubt;     /* by how much the last prediction failed, as a part of the clock's time */
    uint64_t nodes;   /* which ones there were at the last change: a hash of their names */
};

aml_balance_policy balance_shares, balance_nd, balance_dd;

/* Sets the weights by the speeds of a window. Returns the clock's predicted time with these weights by its time with
 * the present shares; NaN: a speed is not known. */
double balance_weigh(const struct aml_balance_view *view, enum aml_balance_span span,
                     struct aml_balance_action *actions);

#endif
