/* Measures how fast each node computes, from its reports of clocks: the Monitor of AntDT (Xiao et al.), section V. Pure
 * state: no sockets, no clock reads. One thread.
 *
 * A node's time for a clock is the time in the app's functions, without waiting for other nodes: with waiting, all
 * nodes take as long as the slowest. Servers are measured by how long nodes wait for them (struct client_waits).
 *
 * There are two windows of time: a short one for the present, and a long one for what lasts. A window has at least
 * MONITOR_CLOCKS clocks; if necessary it includes older clocks. The first clocks of an assignment don't count, since
 * they include the app's `begin`. Catch-ups don't count either. */
#ifndef AGILEML_CONTROL_MONITOR_H
#define AGILEML_CONTROL_MONITOR_H

#include "agileml/wire/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MONITOR_BINS = 16,    /* equal parts of a window's time */
    MONITOR_CLOCKS = 8,   /* the fewest clocks of a window */
    MONITOR_SETTLING = 2, /* the first clocks after a change of plan, which don't count */
};
#define MONITOR_SHORT_S   5.0
#define MONITOR_LONG_S    60.0
#define MONITOR_STRAGGLER 1.5 /* the slowness from which on a node is a straggler */
/* The fixed part of a clock's time can be computed from clocks with different numbers of items. They may be of one
 * window, if these numbers spread by more than MONITOR_SPREAD of their mean. Or they may be of two assignments whose
 * numbers differ by more than MONITOR_APART. */
#define MONITOR_SPREAD 0.1
#define MONITOR_APART  0.2
#define MONITOR_SLOPE  0.2 /* the least part of a clock's time that depends on its items */

enum monitor_span { MONITOR_SHORT, MONITOR_LONG, MONITOR_SPANS };

/* One clock of one node. */
struct monitor_sample {
    actor_id node;
    uint64_t version; /* of the plan */
    uint64_t now_us;  /* when the report came */
    uint64_t items;
    uint64_t slice;      /* the most items that the node works on at once; 0: no limit */
    uint64_t compute_us; /* in the app's function */
    uint64_t clock_us;   /* of the whole clock, waiting included */
};

/* Sums over clocks of values, squares and products; times in microseconds. `whole` includes waiting. */
struct monitor_sums {
    double clocks, items, compute, whole, items_squared, items_compute, compute_squared;
    double slices, slices_squared, slices_items, slices_compute; /* a clock is at least one slice */
};

/* Means over the clocks of an assignment. */
struct monitor_mean {
    double items, slices, compute; /* microseconds */
};

/* The clocks whose reports came within one part of the window's time. */
struct monitor_bin {
    uint64_t number; /* of the part of time, counted from time 0 */
    struct monitor_sums sums;
};

struct monitor_window {
    struct monitor_bin bins[MONITOR_BINS]; /* a ring */
    unsigned first, count;
};

struct monitor_node {
    actor_id node;
    uint64_t version;            /* of the plan, at the last report */
    unsigned settling;           /* next reports that don't count */
    struct monitor_mean earlier; /* an earlier assignment with another number of items; 0: none */
    double iteration_us;         /* time computed in the iteration under way */
    struct monitor_window windows[MONITOR_SPANS];
    /* Of the node as a server. Here `items` counts reports and `compute` is the time that workers waited for it. The
     * squares and products are of a report's number of clocks and its wait. */
    struct monitor_window waits[MONITOR_SPANS];
    /* Bursts: clocks in a row, each at least MONITOR_STRAGGLER times as long as the long window makes expect. */
    struct monitor_bursts {
        uint64_t count;
        double seconds, gap_seconds; /* duration of all bursts; of all times between two bursts */
        uint64_t since_us, ended_us; /* the present burst's beginning, the last burst's end; 0: none */
    } bursts;
};

struct monitor {
    double seconds[MONITOR_SPANS];
    struct monitor_node *nodes; /* ascending by node */
    size_t count, capacity;
    /* The longest time that a node computed in the last iteration, divided by the mean over the nodes. 1 for equal
     * nodes; NaN: not known. */
    double imbalance;
};

/* Begins with windows of these lengths; 0: MONITOR_SHORT_S, MONITOR_LONG_S. */
void monitor_init(struct monitor *monitor, double short_seconds, double long_seconds);
void monitor_close(struct monitor *monitor);

void monitor_add(struct monitor *monitor, const struct monitor_sample *sample);
/* Adds how long a node has waited for a server: `wait_us` in all `clocks` clocks together, beyond its wait for the
 * earliest server. */
void monitor_add_wait(struct monitor *monitor, actor_id server, uint64_t clocks, uint64_t wait_us, uint64_t now_us);
/* Forgets a node that is gone. */
void monitor_forget(struct monitor *monitor, actor_id node);
/* Sets `imbalance` at the end of an iteration. */
void monitor_end_iteration(struct monitor *monitor);

struct monitor_speed {
    double clocks;           /* number of measured clocks; 0: nothing is known, and all other fields are 0 */
    double items;            /* mean per clock */
    double items_per_second; /* waiting included */
    double whole_seconds;    /* of all these clocks together, waiting included */
    double clock_seconds;    /* the mean time of computing a clock */
    double item_seconds;     /* time per item, beyond the fixed part */
    double error;            /* the standard error of clock_seconds, as a part of clock_seconds */
    double slice_seconds;    /* fixed part of each slice; 0: not known, as slices have similar numbers of items */
    double fixed_seconds;    /* mean fixed part of a clock, of all its slices together */
};
struct monitor_speed monitor_speed(const struct monitor *monitor, actor_id node, enum monitor_span span,
                                   uint64_t now_us);

struct monitor_wait {
    double clocks;  /* number of measured clocks, summed over the waiting nodes; 0: nothing is known */
    double seconds; /* mean time that a node waits for the server in a clock */
    double error;   /* the standard error of `seconds`; nodes that wait in the same clock count as one */
};
struct monitor_wait monitor_wait(const struct monitor *monitor, actor_id server, enum monitor_span span,
                                 uint64_t now_us);

/* Sets slowness[n] for monitor->nodes[n]: the node's time for an equal share of the items, divided by the mean of all
 * nodes' times. 1 for equal nodes; NaN: not known. */
void monitor_slowness(const struct monitor *monitor, enum monitor_span span, uint64_t now_us, double *slowness);
/* Returns the node's index in monitor->nodes; SIZE_MAX: it has not reported yet. */
size_t monitor_find(const struct monitor *monitor, actor_id node);

#endif
