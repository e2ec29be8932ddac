/* An event simulation of GoldMiner's cluster (Zhao et al., SIGMOD 2023, section 5.6): 8 machines with 8 GPUs and 64
 * vCPUs each. Jobs start in the order of submission (FIFO), packed onto the machines with the least free. Rates are
 * constant between events. Under GoldMiner, bench/feeders/policy.h decides which job gets feeders. */
#ifndef BENCH_FEEDERS_CLUSTER_H
#define BENCH_FEEDERS_CLUSTER_H

#include "bench/feeders/jobs.h"

#include <stdint.h>

enum { MACHINES = 8, MACHINE_GPUS = 8, MACHINE_CPUS = 64 };

/* The rows of table 5. */
enum schedule {
    SCHEDULE_TUNED,    /* no feeders; each trainer has the CPUs that its model needs */
    SCHEDULE_HARDWARE, /* no feeders; 8 CPUs for each GPU */
    SCHEDULE_FIXED,    /* as many feeders as the model needs, on any machine; until they fit, the job waits */
    SCHEDULE_FAIR,     /* this one and the next two: a policy shares feeders out anew in each round */
    SCHEDULE_MAXTP,
    SCHEDULE_SRTF,
    SCHEDULES
};
const char *schedule_name(enum schedule schedule);

#define CLUSTER_ROUND 0.5   /* minutes between two rounds of a policy: the paper's tuning interval of 30 s */
#define CLUSTER_BUSY  500.0 /* length in minutes of the first part, over which figure 14 averages utilization */

struct cluster_result {
    double completion, queuing; /* minutes, mean of all jobs */
    double makespan;            /* minutes until the last job ends */
    double gpus, cpus;          /* allocated share of the whole cluster, mean of the first CLUSTER_BUSY minutes */
    double slowdown;            /* a job's run time divided by its time at full rate, mean of all jobs */
};

/* Utilization at points of time, summed over traces. */
enum { CLUSTER_POINTS = 200 };
#define CLUSTER_POINT 10.0 /* minutes between two points */
struct cluster_points {
    double gpus[CLUSTER_POINTS], cpus[CLUSTER_POINTS]; /* allocated shares of the whole cluster */
};

/* Runs one trace. Adds the allocated shares to `points`. */
void cluster_run(enum schedule schedule, const struct job *jobs, size_t count, struct cluster_result *result,
                 struct cluster_points *points);

#endif
