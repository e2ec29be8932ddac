/* The policies for uneven machines that are built in (agileml/balance.h). Pure functions: no sockets, no clock reads.
 *
 * `shares`: how much of the data each node is to work on, so that all take equally long for a clock. AntDT (Xiao et
 * al.), equations 2 and 3: the least z with z >= fixed_i + B_i * t_i, where the B_i, the nodes' shards of the data, add
 * up to all, and t_i is the node's time for one of the shards that it has.
 *
 * Shares change rarely: only when the speeds of all nodes are known, and all of this holds.
 * - Over both windows the clock would get shorter by more than BALANCE_GAIN; over the long one also by more than chance
 *   explains (BALANCE_ERRORS).
 * - The time saved is more than a change of plan costs. It is counted over one long window, or until the job's end if
 *   that comes first.
 * - The wait after the last change is over. Each wait is twice as long as the one before, up to BALANCE_WAITS_MAX
 *   windows; after nodes have joined or left it is one window.
 * - The gain is more than half of the last prediction's error. Shards differ in how much work they are, so a change may
 *   save less than was predicted.
 *
 * A node that works in slices takes slices * s_i + B_i * t_i for a clock (equation 4), with as few slices as hold
 * B_i. s_i, what a slice costs, is known after a first change of shares.
 *
 * `dd`, for machines of different kinds that are the job's own: as `shares`, but changes wait for short windows, since
 * such machines stay as fast as they are.
 *
 * Servers (all three): a server for which nodes wait longer than for others, by more than BALANCE_GAIN of a clock over
 * both windows and by more than chance explains, loses its partitions (AntDT restarts it). At least half of the servers
 * keep theirs. Partitions move at least a long window after the last change, and not in the same change as shares.
 *
 * `nd`: as `shares`, and a lasting straggler is replaced, if that saves more of the time left than it costs (AntDT's
 * KILL_RESTART). That pays only where shares don't make up for the node's slowness. */
#ifndef AGILEML_CONTROL_BALANCE_H
#define AGILEML_CONTROL_BALANCE_H

#include "agileml/balance.h"

enum {
    BALANCE_CLOCKS = 8,   /* the fewest clocks by which a speed is known */
    BALANCE_SERVE = 1,    /* the weight of a slow server: without partitions, unless there are more than 64 a node */
    BALANCE_SETTLED = 12, /* clocks after a change until BALANCE_CLOCKS were measured with the new shares */
    BALANCE_LEAST = 4,    /* the least weight: a node without any data could not be measured any more */
    BALANCE_MOST = 64 * AML_BALANCE_EVEN,
    BALANCE_WAITS_MAX = 16,
};
#define BALANCE_COST      0.5  /* seconds that a change of plan costs, besides the time of a clock */
#define BALANCE_GAIN      0.05 /* the least gain, as a part of the clock's time */
#define BALANCE_DOUBT     0.25 /* the most that a prediction's error counts for */
#define BALANCE_FILLED    0.97 /* the part of a slice that is planned to be filled */
#define BALANCE_ERRORS    3.0  /* standard errors that count as chance: more gain than BALANCE_GAIN, less wait */
#define BALANCE_STRAGGLER 1.5  /* the slowness from which on a node is a straggler */
#define BALANCE_MEASURED  0.75 /* the part of the long window after which a straggler is a lasting one */
#define BALANCE_CERTAIN   2.0  /* how many times its cost a replacement must save */

/* A policy's memory. */
struct balance {
    double changed;   /* when shares were last changed: seconds of training */
    double waits;     /* how many windows the next change waits; 0: there was no change yet */
    double predicted; /* the clock's time predicted for the last change; 0: none, or already compared */
    double doubt;     /* the error of the last prediction, as a part of the clock's time */
    uint64_t nodes;   /* a hash of the nodes' names at the last change */
};

aml_balance_policy balance_shares, balance_nd, balance_dd;

/* Sets the weights by the speeds of a window. Returns the clock's predicted time with these weights, divided by its
 * time with the present shares; NaN: a speed is not known. */
double balance_weigh(const struct aml_balance_view *view, enum aml_balance_span span,
                     struct aml_balance_action *actions);

#endif
