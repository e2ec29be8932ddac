/* The built-in policies for uneven machines (agileml/balance.h). Pure functions: no sockets, no clock reads.
 *
 * `shares`: chooses how much of the data each node works on, so that all nodes take equally long for a clock. AntDT
 * (Xiao et al.), equations 2 and 3: finds the least z with z >= fixed_i + B_i * t_i. B_i is the number of node i's data
 * shards, and the B_i add up to all shards. t_i is the node's time for one of its shards.
 *
 * Shares change rarely: only when the speeds of all nodes are known and all these conditions hold.
 * - By the measurements of both windows the clock would get shorter by more than BALANCE_GAIN. By those of the long
 *   window it would also get shorter by more than chance explains (BALANCE_ERRORS).
 * - The saved time is more than a change of plan costs. It is counted over one long window, or until the job's end if
 *   that comes first.
 * - The wait after the last change is over. Each wait is twice as long as the previous one, up to BALANCE_WAITS_MAX
 *   windows. After nodes have joined or left, the wait is one window.
 * - The gain is more than half of the last prediction's error. Shards differ in how much work they are, so a change may
 *   save less than was predicted.
 *
 * A node that works in slices takes slices * s_i + B_i * t_i for a clock (equation 4), with as few slices as hold B_i
 * shards. s_i, the cost of a slice, is known after a first change of shares.
 *
 * `dd`, for a job's own machines of different kinds: as `shares`, but a change waits only for short windows, as the
 * speeds of such machines do not change.
 *
 * `nd`: as `shares`, and also replaces a lasting straggler if that saves more of the remaining time than it costs
 * (AntDT's KILL_RESTART). That pays only where shares can't make up for the node's slowness.
 *
 * Servers (all three policies): takes the partitions of a slow server away (AntDT restarts it). A server is slow if
 * nodes wait for it longer than for others, by more than BALANCE_GAIN of a clock in both windows, and by more than
 * chance explains. At least half of the servers keep their partitions. Partitions move at least a long window after the
 * last change, and not in the same change as shares. */
#ifndef AGILEML_CONTROL_BALANCE_H
#define AGILEML_CONTROL_BALANCE_H

#include "agileml/balance.h"

enum {
    BALANCE_CLOCKS = 8,   /* the fewest clocks from which a speed is computed */
    BALANCE_SERVE = 1,    /* a slow server's weight: gives it no partition, unless there are over 64 per node */
    BALANCE_SETTLED = 12, /* clocks after a change until the new shares are measured (BALANCE_CLOCKS) */
    BALANCE_LEAST = 4,    /* the least weight: a node without data could not be measured */
    BALANCE_MOST = 64 * AML_BALANCE_EVEN,
    BALANCE_WAITS_MAX = 16,
};
#define BALANCE_COST      0.5  /* seconds that a change of plan costs, besides the time of a clock */
#define BALANCE_GAIN      0.05 /* the least gain, as a part of the clock's time */
#define BALANCE_DOUBT     0.25 /* the largest prediction error that counts */
#define BALANCE_FILLED    0.97 /* how full slices are planned */
#define BALANCE_ERRORS    3.0  /* a gain of fewer standard errors, beyond BALANCE_GAIN, counts as chance */
#define BALANCE_STRAGGLER 1.5  /* the slowness from which on a node is a straggler */
#define BALANCE_MEASURED  0.75 /* the part of the long window after which a straggler counts as lasting */
#define BALANCE_CERTAIN   2.0  /* how many times its cost a replacement must save */

/* A policy's memory. */
struct balance {
    double changed;   /* when shares were last changed: seconds of training */
    double waits;     /* windows that the next change waits; 0: there was no change yet */
    double predicted; /* the clock's time predicted for the last change; 0: none, or already compared */
    double doubt;     /* the error of the last prediction, as a part of the clock's time */
    uint64_t nodes;   /* a hash of the nodes' names at the last change */
};

aml_balance_policy balance_shares, balance_nd, balance_dd;

/* Sets the weights from the speeds of a window. Returns the clock's predicted time with these weights, divided by its
 * time with the present shares; NaN: a speed is not known. */
double balance_weigh(const struct aml_balance_view *view, enum aml_balance_span span,
                     struct aml_balance_action *actions);

#endif
