/* A job in the simulator: the real controller, node agents, clients and partition servers on machines (machine.h) that
 * work on a model (model.h) without computing anything. */
#ifndef BENCH_SCALE_CLUSTER_H
#define BENCH_SCALE_CLUSTER_H

#include "agileml/control/plan.h"
#include "bench/scale/machine.h"
#include "bench/scale/model.h"

#include <stdio.h>

/* Nodes that are lost without notice, again and again, at times that are drawn; others join in their place. The run
 * ends after the last recovery. */
struct cluster_losses {
    unsigned times;    /* 0: none is lost, and processes have no pulses */
    unsigned at_once;  /* transient nodes, fewer than the job has */
    bool silent;       /* the machines are gone; else processes end, and their machines close the connections */
    uint32_t probe_ms; /* between two probes of a pulse */
};

struct cluster_options {
    const struct model *model;
    struct machine_costs costs;
    unsigned reliable, transient;
    enum stage stage;
    unsigned active;       /* transient nodes that may serve: the plan takes half of them; 0: all may */
    uint32_t partitions;   /* and data shards: as the controller chooses them */
    uint32_t commit_every; /* clocks; 0: as the controller chooses */
    unsigned iterations;
    unsigned join;            /* transient nodes that join later */
    unsigned join_iteration;  /* when this one begins; 0: never */
    unsigned evict_iteration; /* they are evicted when this one begins; 0: never */
    struct cluster_losses losses;
    unsigned layers;     /* a dense model's, flushed one by one while those before are computed; 0: none are */
    double layers_share; /* of a clock's computing time, the last part of it, in which they are computed */
    uint64_t seed;
    FILE *report; /* where the job's report goes, docs/proteus.md; NULL: nowhere */
};

struct cluster_iteration {
    double seconds; /* that it took */
    double bytes;   /* that all links sent in it */
    unsigned stage; /* 0: traditional */
    unsigned nodes;
};

/* Seconds after a loss. */
struct cluster_recovery {
    double noticed;   /* the controller has given up all nodes that were lost */
    double planned;   /* it has sent the plan without them */
    double completed; /* the first clock is completed that was not before the loss */
};

struct cluster_result {
    struct cluster_iteration *iterations;
    unsigned count;
    struct cluster_recovery *recoveries; /* options.losses.times of them */
    unsigned recovery_count;
    double link_share; /* how much of the time the busiest link was busy, in its busier direction */
    uint64_t events;
    uint64_t items_redone;
};

/* 0, or AML_EFAIL when the job did not end well. The caller frees result->iterations and
 * result->recoveries. */
int cluster_run(const struct cluster_options *options, struct cluster_result *result, struct error *error);

#endif
