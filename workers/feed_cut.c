/* See feed_cut.h. */
#include "workers/feed_cut.h"

#include <math.h>
#include <stdbool.h>

void feed_cut_open(struct feed_cut *cut, const struct aml_stage *list) {
    for (unsigned s = 0; list != NULL && list[s].name != NULL; s++) {
        bool state = (list[s].flags & AML_STAGE_STATE) != 0;
        cut->stages[s] = (struct cut_stage){
            .from = s > 0 ? (cut_set)1 << (s - 1) : 0, .bytes = (double)list[s].bytes, .state = state};
        cut->feedable += cut->feedable == s && !state ? 1 : 0;
        cut->count++;
    }
    if (cut->count > 0) {
        cut->stages[cut->count] = (struct cut_stage){.from = (cut_set)1 << (cut->count - 1), .state = true};
    }
    cut->wanted = cut->feedable;
}

void feed_cut_measure(struct feed_cut *cut, unsigned stage, double seconds) {
    struct feed_cut_cost *cost = &cut->costs[stage];
    atomic_fetch_add_explicit(&cost->ns, (uint64_t)(1e9 * seconds), memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->samples, 1, memory_order_relaxed);
}

/* Sets the stages' costs. False: there are too few samples of some. */
static bool take_costs(struct feed_cut *cut) {
    bool all = true;
    for (unsigned s = 0; s < cut->count; s++) {
        struct feed_cut_cost *cost = &cut->costs[s];
        uint64_t samples = atomic_load_explicit(&cost->samples, memory_order_relaxed);
        uint64_t ns = atomic_load_explicit(&cost->ns, memory_order_relaxed);
        all = all && samples >= FEED_CUT_SAMPLES;
        cut->stages[s].us = samples > 0 ? (double)ns / 1000 / (double)samples : 0;
        if (samples >= FEED_CUT_SAMPLES_MAX) {
            atomic_store_explicit(&cost->samples, samples / 2, memory_order_relaxed);
            atomic_store_explicit(&cost->ns, ns / 2, memory_order_relaxed);
        }
    }
    return all;
}

/* Microseconds for an item if feeders run the first `count` stages. */
static double time_of(const struct feed_cut *cut, const struct cut_machines *machines, unsigned count) {
    const struct cut_tree tree = {.stages = cut->stages, .count = cut->count + 1U};
    const struct cut_cost cost = cut_cost(&tree, machines, ((cut_set)1 << count) - 1);
    return cut_time(&cost);
}

void feed_cut_choose(struct feed_cut *cut, const struct feed_cut_job *job) {
    if (cut->feedable < 2 || job->feeders == 0 || !take_costs(cut)) {
        return;
    }
    double feeder_threads = job->feeder_threads > 0 ? job->feeder_threads : job->threads;
    const struct cut_machines machines = {.trainer_cpus = job->threads,
                                          .feeder_cpus = feeder_threads / job->nodes,
                                          .feeders = job->feeders,
                                          .link_bytes_us = INFINITY, /* no cut takes more of it than the first one */
                                          .receive_us = FEED_CUT_BYTE_US,
                                          .send_us = FEED_CUT_BYTE_US};
    unsigned best = cut->wanted;
    double limit = time_of(cut, &machines, cut->wanted) * (1 - FEED_CUT_MARGIN);
    for (unsigned count = 1; count <= cut->feedable; count++) {
        double time = time_of(cut, &machines, count);
        if (cut->stages[count - 1].bytes <= cut->stages[cut->feedable - 1].bytes && time < limit) {
            best = count;
            limit = time;
        }
    }
    cut->wanted = best;
}
