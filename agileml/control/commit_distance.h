/* How many clocks lie between two commit points, chosen by how long clocks take (docs/design.md, "Commit points"). Pure
 * state: no sockets, no clock reads. One thread.
 *
 * Clocks are measured in windows: the time in which the controller completed some clocks, divided by their number. The
 * median of three windows counts, so that neither a clock with an evaluation nor a pause changes the distance. */
#ifndef AGILEML_CONTROL_COMMIT_DISTANCE_H
#define AGILEML_CONTROL_COMMIT_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    COMMIT_DISTANCE_US = 125 * 1000, /* commit points are at most this far apart, if a clock is not longer */
    COMMIT_DISTANCE_LEAST_US = COMMIT_DISTANCE_US / 3,    /* a distance is kept from this time, exclusively ... */
    COMMIT_DISTANCE_MOST_US = COMMIT_DISTANCE_US * 3 / 2, /* ... up to this time */
    COMMIT_DISTANCE_WINDOWS = 3,
    COMMIT_DISTANCE_CLOCKS = 16,     /* the fewest clocks of a window */
    COMMIT_DISTANCE_CLOCKS_MAX = 64, /* a window with as many clocks need not end with an iteration */
};

struct commit_distance {
    bool open;                                  /* a window is under way */
    uint64_t version;                           /* of the plan under which it began */
    uint64_t clock;                             /* it began when this clock was completed */
    uint64_t from_us;                           /* and at this time */
    uint64_t clock_ns[COMMIT_DISTANCE_WINDOWS]; /* the mean clock of each of the last windows */
    unsigned count;                             /* of these windows */
};

/* A clock that was completed. */
struct commit_distance_clock {
    uint64_t clock;
    uint64_t version; /* of the plan in force */
    uint64_t now_us;
    uint32_t per_iteration; /* clocks of an iteration */
    bool changing;          /* a change of plan is under way */
};

/* Adds a completed clock. A window in which the plan changes is dropped. Returns whether a window has ended, and enough
 * of them are there for commit_distance_choose. */
bool commit_distance_add(struct commit_distance *distance, const struct commit_distance_clock *completed);

/* Returns the distance in clocks, a power of two up to WIRE_COMMIT_EVERY_MAX: the longest that takes at most
 * COMMIT_DISTANCE_US, else 1. Returns `present` if that takes neither much longer nor much less time. `present`: the
 * distance that was chosen before; 0: none was. If the distance is another one, forgets the windows, as clocks may take
 * another time under it. Call it only after commit_distance_add has returned true. */
uint32_t commit_distance_choose(struct commit_distance *distance, uint32_t present);

#endif
