/* The feature that chooses the number of feeders and of their threads, by the policy in feeders.h. It forms windows of
 * completed clocks, lets the policy decide after each window, and carries out its answer. The event `add-feeder`
 * requests a feeder, which `proteus run` starts. Superfluous feeders are evicted. HEARTBEAT_ACK has the wanted number
 * of a feeder's threads, HEARTBEAT the present number. */
#ifndef AGILEML_CONTROL_FEEDING_H
#define AGILEML_CONTROL_FEEDING_H

#include "agileml/control/decide/feeders.h"
#include "agileml/control/state/feature.h"

/* What a feeder's heartbeats report. Not stored. */
struct member_feeding {
    unsigned threads;                /* threads with which it makes batches; 0: not reported yet */
    uint64_t us, heard_us;           /* the last HEARTBEAT's feed_us, and when it came; 0: none yet */
    uint64_t from_us, from_heard_us; /* the same of the heartbeat at which the present measurement of `busy` began */
    double busy;                     /* part of the time in which it made batches, as last measured */
};

/* The window of whole clocks that is being measured. Not stored. */
struct feeding {
    uint64_t since_us;                                      /* 0: no window has begun */
    uint64_t version;                                       /* of the plan, when the window began */
    unsigned feeders, threads;                              /* feeders that worked then, and the threads of each */
    uint64_t clocks, reports, items, items_fed, starved_us; /* sums; `reports` counts reports of nodes */
    uint64_t unsteady; /* clocks up to this one don't count: their batches were requested before a change */
    uint64_t asked_us; /* when the last feeder was requested */
};

/* What was chosen; part of the job's progress. */
struct feeding_kept {
    struct feeders policy;
    uint32_t coming;             /* feeders that were requested and have not joined */
    uint32_t trainers;           /* nodes that worked on data in the last measured window */
    char reason[FEEDERS_REASON]; /* of the last decision; empty: no decision yet */
};

extern const struct feature feeding_feature;

/* Returns how many feeders were requested and have not joined, or have joined and don't work yet. */
unsigned feeding_coming(const struct controller *controller);

#endif
