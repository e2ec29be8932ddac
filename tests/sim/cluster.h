/* A whole job in the simulation: the real controller, nodes and servers, an adder as the app (adder.h), everything else
 * drawn from the seed: the cluster, the job, the network and what goes wrong. The invariants of DESIGN section 3 are
 * checked after every step that could break them. */
#ifndef TESTS_SIM_CLUSTER_H
#define TESTS_SIM_CLUSTER_H

#include "agileml/control/controller.h"
#include "agileml/net/sim.h"
#include "agileml/ps/server.h"
#include "tests/sim/adder.h"
#include "workers/node.h"

enum campaign {
    CAMPAIGN_FAULTS, /* breaks, pauses, separations, all shorter than the timeout: the job ends well */
    CAMPAIGN_MISSING /* a machine or a way to it is missing for longer: the job ends with an error that names it */
};

/* Mistakes that are put into a run to see that the checks find them. */
enum mistake {
    MISTAKE_NONE,
    MISTAKE_FLUSH_WITHOUT_ROWS, /* a server loses a flush's rows */
    MISTAKE_FLUSH_TWICE,        /* a server adds a flush twice */
    MISTAKE_PUSH_WITHOUT_ROWS,  /* a worker loses a push's rows */
    MISTAKE_STALE_WORKER,       /* a worker waits for less than the staleness demands */
    MISTAKE_TWO_OWNERS,         /* two nodes work on one shard */
    MISTAKE_TWO_SERVERS,        /* two servers hold one partition */
    MISTAKE_DEAF_SERVER,        /* a server ignores every flush from some time on */
    MISTAKE_PROGRESS_TWICE,     /* the controller counts a clock's items twice */
    MISTAKES
};
extern const char *const mistake_names[MISTAKES];

struct cluster_options {
    uint64_t seed;
    enum campaign campaign;
    enum mistake mistake;
    FILE *trace;
};

struct cluster_result {
    char violation[1024]; /* empty: none. Otherwise when, which invariant, what differs */
    uint64_t virtual_us;
    struct sim_statistics statistics;
    uint64_t clocks;
    unsigned nodes;
    bool mistaken; /* the mistake was made */
};

/* Runs one seed. True when nothing was violated. */
bool cluster_run(const struct cluster_options *options, struct cluster_result *result);

#endif
