/* A simulation by events of GoldMiner's cluster (Zhao et al., SIGMOD 2023, section 5.6): 8 machines with 8 GPUs and 64
 * vCPUs each, jobs in order of submission (FIFO), packed onto the machines with the least free. Rates are constant
 * between events. Who gets feeders under GoldMiner is said by agileml/control/feed_policy. */
#ifndef BENCH_FEEDERS_CLUSTER_H
#define BENCH_FEEDERS_CLUSTER_H

#include "bench/feeders/jobs.h"

#include <stdint.h>

enum { MACHINES = 8, MACHINE_GPUS = 8, MACHINE_CPUS = 64 };

/* The rows of table 5. */
enum schedule {
    SCHEDULE_TUNED,    /* no feeders, each trainer with the CPUs that its model needs */
    SCHEDULE_HARDWARE, /* no feeders, 8 CPUs for each GPU */
    SCHEDULE_FIXED,    /* feeders anywhere, as many as the model needs, or the job waits */
    SCHEDULE_FAIR,     /* these three: feeders by a policy, shared out anew at each round */
    SCHEDULE_MAXTP,
    SCHEDULE_SRTF,
    SCHEDULES
};
const char *schedule_name(enum schedule schedule);

#define CLUSTER_ROUND 0.5   /* minutes between rounds of a policy: the paper's tuning interval of 30 s */
#define CLUSTER_BUSY  500.0 /* minutes over which figure 14 averages utilization */

struct cluster_result {
    double completion, queuing; /* minutes, mean of all jobs */
    double makespan;            /* minutes until the last job has ended */
    double gpus, cpus;          /* parts of all that are allocated, mean of the first CLUSTER_BUSY minutes */
    double slowdown;            /* a job's time from its start to its end by its time at full rate, mean of all jobs */
};

/* Utilization at points of time, summed over traces. */
enum { CLUSTER_POINTS = 200 };
#define CLUSTER_POINT 10.0 /* minutes between two of them */
struct cluster_points {
    double gpus[CLUSTER_POINTS], cpus[CLUSTER_POINTS]; /* parts of all that are allocated */
};

/* Runs one trace. Adds to `points` what was allocated. */
void cluster_run(enum schedule schedule, const struct job *jobs, size_t count, struct cluster_result *result,
                 struct cluster_points *points);

#endif
