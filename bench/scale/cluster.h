/* A simulated job: the real controller, node agents, clients and partition servers on simulated machines (machine.h).
 * They work on a model (model.h) that computes nothing. */
#ifndef BENCH_SCALE_CLUSTER_H
#define BENCH_SCALE_CLUSTER_H

#include "agileml/control/decide/plan.h"
#include "bench/scale/machine.h"
#include "bench/scale/model.h"

#include <stdio.h>

/* Repeated losses of nodes without notice, at random times; other nodes join in their place. The run ends after the
 * last recovery. */
struct cluster_losses {
    unsigned times;   /* number of losses; 0: none */
    unsigned at_once; /* transient nodes lost at once; fewer than the job has */
    /* whole machines fail silently; else only processes end, and their machines close the connections */
    bool silent;
    uint32_t probe_ms; /* time between two probes of a pulse; 0: processes have no pulses */
};

struct cluster_options {
    const struct model *model;
    struct machine_costs costs;
    unsigned reliable, transient;
    enum stage stage;
    unsigned active;       /* transient nodes that may serve, of which the plan takes half; 0: all may */
    uint32_t partitions;   /* also the number of data shards; 0: the controller's choice */
    uint32_t commit_every; /* in clocks; 0: the controller's choice */
    unsigned iterations;
    unsigned join;            /* transient nodes that join later */
    unsigned join_iteration;  /* iteration at whose start they join; 0: never */
    unsigned evict_iteration; /* iteration at whose start they are evicted; 0: never */
    struct cluster_losses losses;
    bool changes; /* the changes of struct cluster_change, one after the other; the run ends after that */
    unsigned layers;     /* layers of a dense model, each flushed while the earlier ones are computed; 0: no layers */
    double layers_share; /* last part of a clock's computing time, in which the layers are computed */
    uint64_t seed;
    FILE *report; /* receives the job's report (docs/proteus.md); NULL: none */
};

struct cluster_iteration {
    double seconds; /* duration of the iteration */
    double bytes;   /* sent by all links during the iteration */
    unsigned stage; /* 0: traditional */
    unsigned nodes;
};

/* Times of a recovery, in seconds after the loss. */
struct cluster_recovery {
    double noticed;   /* when the controller has given up all lost nodes */
    double planned;   /* when it has sent the plan without them */
    double completed; /* when the first clock is completed that was not before the loss */
};

/* What a change costs, from when nodes join, are evicted or end until no plan is under way. */
struct cluster_change {
    double seconds;
    double plans;
    double sent_bytes, ack_bytes; /* by the controller: without its answers to heartbeats, and these */
    double most_bytes;            /* of sent_bytes, to one node that was there before */
    double new_bytes;             /* to the node that joined */
    double cpu_ms;                /* of the controller */
};
enum {
    CLUSTER_CHANGES = 4,          /* a join, an eviction, a loss, and half of the nodes that leave one by one */
    CLUSTER_LEAVES_EACH_MS = 240, /* as 250 of them in a minute */
};

struct cluster_result {
    struct cluster_iteration *iterations;
    unsigned count;
    struct cluster_recovery *recoveries; /* an array of options.losses.times */
    unsigned recovery_count;
    struct cluster_change changes[CLUSTER_CHANGES];
    double link_share; /* part of the time in which the busiest link was busy, in its busier direction */
    uint64_t events;
    uint64_t items_redone;
};

/* Returns 0, or AML_EFAIL when the job did not end well. The caller frees result->iterations and result->recoveries. */
int cluster_run(const struct cluster_options *options, struct cluster_result *result, struct error *error);

#endif
