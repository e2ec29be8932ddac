/* See cluster.h. */
#include "bench/feeders/cluster.h"

#include "agileml/base/memory.h"
#include "bench/feeders/policy.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEEDER_CPUS 8.0 /* most CPUs of one feeder: the paper's initial container */
#define DONE        1e-9
#define GPUS        ((double)MACHINES * MACHINE_GPUS)
#define CPUS        ((double)MACHINES * MACHINE_CPUS)

struct machine {
    unsigned gpus; /* free GPUs */
    double cpus;
};

/* What a job holds of each machine. */
struct held {
    unsigned gpus[MACHINES];
    double cpus[MACHINES];
};

enum phase { WAITING, RUNNING, ENDED };

struct running {
    const struct job *job;
    enum phase phase;
    double left;    /* minutes of training at full rate that are left */
    double feeders; /* CPUs of its feeders. Under a policy these are on any machine, and not counted in `held` */
    double started, ended;
    struct held held;
};

struct cluster {
    enum schedule schedule;
    struct machine machines[MACHINES];
    struct running *jobs;
    size_t count, submitted, ended;
    size_t first; /* no job before it is waiting */
    double now;
    double gpu_minutes, cpu_minutes; /* allocated in the first CLUSTER_BUSY minutes */
    struct cluster_points *points;
};

static bool has_policy(enum schedule schedule) {
    return schedule >= SCHEDULE_FAIR;
}

const char *schedule_name(enum schedule schedule) {
    static const char *const names[] = {
        [SCHEDULE_TUNED] = "no feeders (tuned)",
        [SCHEDULE_HARDWARE] = "no feeders (hardware)",
        [SCHEDULE_FIXED] = "fixed feeders",
        [SCHEDULE_FAIR] = "Fair",
        [SCHEDULE_MAXTP] = "MaxTP",
        [SCHEDULE_SRTF] = "SRTF",
    };
    return names[schedule];
}

static enum feed_policy policy_of(enum schedule schedule) {
    return schedule == SCHEDULE_FAIR ? FEED_FAIR : schedule == SCHEDULE_MAXTP ? FEED_MAXTP : FEED_SRTF;
}

/* ---- Places ---- */

/* Returns the CPUs of a trainer for each GPU. */
static double trainer_cpus(enum schedule schedule, const struct job *job) {
    if (schedule == SCHEDULE_HARDWARE) {
        return (double)MACHINE_CPUS / MACHINE_GPUS;
    }
    if (schedule == SCHEDULE_TUNED) { /* as many as it needs, but no more than the empty cluster has */
        unsigned each = (job->gpus + MACHINES - 1) / MACHINES;
        return fmin(job->model->cpus, floor((double)MACHINE_CPUS / each));
    }
    return job->model->trainer;
}

static double feeder_cpus(const struct job *job) {
    return fmin((job->model->cpus - job->model->trainer) * job->gpus, CPUS - job->model->trainer * job->gpus);
}

/* Returns the free share of a machine's GPUs and CPUs, added. */
static double free_part(const struct machine *machine) {
    return (double)machine->gpus / MACHINE_GPUS + machine->cpus / MACHINE_CPUS;
}

/* Sorts machines: the least free first. */
static void order_machines(const struct cluster *cluster, unsigned order[MACHINES]) {
    for (unsigned m = 0; m < MACHINES; m++) {
        unsigned place = m;
        for (; place > 0 && free_part(&cluster->machines[order[place - 1]]) > free_part(&cluster->machines[m]);
             place--) {
            order[place] = order[place - 1];
        }
        order[place] = m;
    }
}

/* Places one GPU with `cpus` CPUs for each trainer of the job. A trainer is whole on one machine. Returns whether all
 * were placed. */
static bool place_trainers(const struct cluster *cluster, const struct job *job, double cpus, struct held *held) {
    unsigned order[MACHINES];
    unsigned left = job->gpus;
    order_machines(cluster, order);
    *held = (struct held){0};
    for (unsigned o = 0; o < MACHINES; o++) {
        const struct machine *machine = &cluster->machines[order[o]];
        while (left > 0 && held->gpus[order[o]] < machine->gpus && held->cpus[order[o]] + cpus <= machine->cpus) {
            held->gpus[order[o]]++;
            held->cpus[order[o]] += cpus;
            left--;
        }
    }
    return left == 0;
}

/* Adds CPUs for feeders, on the trainers' machines first. Returns whether there were enough. */
static bool place_feeders(const struct cluster *cluster, double cpus, struct held *held) {
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned m = 0; m < MACHINES; m++) {
            double free = cluster->machines[m].cpus - held->cpus[m];
            double taken = pass == 1 || held->gpus[m] > 0 ? fmin(free, cpus) : 0;
            held->cpus[m] += taken;
            cpus -= taken;
        }
    }
    return cpus < DONE;
}

static void hold(struct cluster *cluster, const struct held *held, int sign) {
    for (unsigned m = 0; m < MACHINES; m++) {
        cluster->machines[m].gpus += (unsigned)sign * held->gpus[m];
        cluster->machines[m].cpus += sign * held->cpus[m];
    }
}

/* Starts waiting jobs in their order, until one does not fit. */
static void start_jobs(struct cluster *cluster) {
    for (; cluster->first < cluster->submitted; cluster->first++) {
        struct running *next = &cluster->jobs[cluster->first];
        struct held held;
        bool fits = place_trainers(cluster, next->job, trainer_cpus(cluster->schedule, next->job), &held);
        if (fits && cluster->schedule == SCHEDULE_FIXED) {
            next->feeders = feeder_cpus(next->job);
            fits = place_feeders(cluster, next->feeders, &held);
        }
        if (!fits) {
            return;
        }
        hold(cluster, &held, -1);
        next->held = held;
        next->phase = RUNNING;
        next->started = cluster->now;
    }
}

/* ---- Rates ---- */

/* Returns the job's rate as a part of the rate that it would have if input were no limit. */
static double rate_of(const struct cluster *cluster, const struct running *running) {
    const struct model *model = running->job->model;
    if (cluster->schedule <= SCHEDULE_HARDWARE) {
        double peak = model->local ? model->peak : 1;
        return fmin(peak, trainer_cpus(cluster->schedule, running->job) / model->cpus);
    }
    double needed = (model->cpus - model->trainer) * running->job->gpus;
    return fmin(model->peak, running->feeders / needed);
}

static double free_cpus(const struct cluster *cluster) {
    double cpus = 0;
    for (unsigned m = 0; m < MACHINES; m++) {
        cpus += cluster->machines[m].cpus;
    }
    return cpus;
}

/* Shares out among the running jobs all CPUs that no trainer holds. */
static void share_feeders(struct cluster *cluster) {
    struct feed_job feed[JOBS_MAX];
    double shares[JOBS_MAX];
    size_t count = 0;
    for (size_t j = 0; j < cluster->submitted; j++) {
        const struct running *running = &cluster->jobs[j];
        const struct model *model = running->job->model;
        if (running->phase == RUNNING) {
            double gpus = running->job->gpus;
            feed[count++] = (struct feed_job){.full_rate = model->peak,
                                              .step = 1 / ((model->cpus - model->trainer) * gpus),
                                              .least = gpus,
                                              .next = FEEDER_CPUS,
                                              .devices = gpus,
                                              .left = running->left};
        }
    }
    feed_share(policy_of(cluster->schedule), feed, count, free_cpus(cluster), shares);
    count = 0;
    for (size_t j = 0; j < cluster->submitted; j++) {
        if (cluster->jobs[j].phase == RUNNING) {
            cluster->jobs[j].feeders = shares[count++];
        }
    }
}

/* ---- Time ---- */

static void count_minutes(struct cluster *cluster, double until) {
    double gpus = 0;
    double cpus = CPUS - free_cpus(cluster);
    for (size_t j = 0; j < cluster->submitted; j++) {
        const struct running *running = &cluster->jobs[j];
        gpus += running->phase == RUNNING ? running->job->gpus : 0;
        cpus += running->phase == RUNNING && has_policy(cluster->schedule) ? running->feeders : 0;
    }
    double busy = fmin(until, CLUSTER_BUSY) - fmin(cluster->now, CLUSTER_BUSY);
    cluster->gpu_minutes += gpus * busy;
    cluster->cpu_minutes += cpus * busy;
    for (size_t p = (size_t)ceil(cluster->now / CLUSTER_POINT); p < CLUSTER_POINTS && (double)p * CLUSTER_POINT < until;
         p++) {
        cluster->points->gpus[p] += gpus / GPUS;
        cluster->points->cpus[p] += cpus / CPUS;
    }
}

/* Returns the time of the next change. */
static double next_event(const struct cluster *cluster) {
    double next = cluster->submitted < cluster->count ? cluster->jobs[cluster->submitted].job->submitted : INFINITY;
    for (size_t j = 0; j < cluster->submitted; j++) {
        const struct running *running = &cluster->jobs[j];
        if (running->phase == RUNNING) {
            double rate = rate_of(cluster, running);
            next = rate > 0 ? fmin(next, cluster->now + running->left / rate) : next;
            next = has_policy(cluster->schedule) ? fmin(next, cluster->now + CLUSTER_ROUND) : next;
        }
    }
    return next;
}

static void advance(struct cluster *cluster, double until) {
    count_minutes(cluster, until);
    for (size_t j = 0; j < cluster->submitted; j++) {
        struct running *running = &cluster->jobs[j];
        if (running->phase != RUNNING) {
            continue;
        }
        running->left -= rate_of(cluster, running) * (until - cluster->now);
        if (running->left <= DONE) {
            running->phase = ENDED;
            running->ended = until;
            hold(cluster, &running->held, 1);
            cluster->ended++;
        }
    }
    cluster->now = until;
    while (cluster->submitted < cluster->count && cluster->jobs[cluster->submitted].job->submitted <= until) {
        cluster->submitted++;
    }
}

static void sum_up(const struct cluster *cluster, struct cluster_result *result) {
    *result = (struct cluster_result){.makespan = cluster->now,
                                      .gpus = cluster->gpu_minutes / GPUS / CLUSTER_BUSY,
                                      .cpus = cluster->cpu_minutes / CPUS / CLUSTER_BUSY};
    for (size_t j = 0; j < cluster->count; j++) {
        const struct running *running = &cluster->jobs[j];
        double count = (double)cluster->count;
        result->completion += (running->ended - running->job->submitted) / count;
        result->queuing += (running->started - running->job->submitted) / count;
        result->slowdown += (running->ended - running->started) / running->job->minutes / count;
    }
}

void cluster_run(enum schedule schedule, const struct job *jobs, size_t count, struct cluster_result *result,
                 struct cluster_points *points) {
    struct cluster cluster = {.schedule = schedule, .count = count, .points = points};
    assert(count <= JOBS_MAX);
    cluster.jobs = memory_zeroed(count, sizeof *cluster.jobs);
    for (unsigned m = 0; m < MACHINES; m++) {
        cluster.machines[m] = (struct machine){MACHINE_GPUS, MACHINE_CPUS};
    }
    for (size_t j = 0; j < count; j++) {
        cluster.jobs[j] = (struct running){.job = &jobs[j], .left = jobs[j].minutes};
    }
    while (cluster.ended < count) {
        double next = next_event(&cluster);
        assert(isfinite(next)); /* every job fits into the empty cluster */
        advance(&cluster, next);
        start_jobs(&cluster);
        if (has_policy(schedule)) {
            share_feeders(&cluster);
        }
    }
    sum_up(&cluster, result);
    free(cluster.jobs);
}
