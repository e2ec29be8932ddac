/* See feed_cut.h. */
#include "workers/process/feed_cut.h"

#include "agileml/base/trial.h"

#include <assert.h>
#include <math.h>

void feed_cut_open(struct feed_cut *cut, const struct aml_transform *list) {
    for (unsigned s = 0; list != NULL && list[s].name != NULL; s++) {
        cut->transforms[s].bytes = (double)list[s].bytes;
        cut->feedable += cut->feedable == s && (list[s].flags & AML_TRANSFORM_STATE) == 0 ? 1 : 0;
        cut->count++;
    }
    cut->wanted = cut->feedable;
}

void feed_cut_measure(struct feed_cut *cut, unsigned transform, double seconds) {
    atomic_fetch_add_explicit(&cut->transforms[transform].ns, (uint64_t)(1e9 * seconds), memory_order_relaxed);
    atomic_fetch_add_explicit(&cut->transforms[transform].samples, 1, memory_order_relaxed);
}

/* Sets the transforms' costs. False: there are too few samples of some. */
static bool take_costs(struct feed_cut *cut) {
    bool all = true;
    for (unsigned s = 0; s < cut->count; s++) {
        struct feed_cut_transform *transform = &cut->transforms[s];
        uint64_t samples = atomic_load_explicit(&transform->samples, memory_order_relaxed);
        uint64_t ns = atomic_load_explicit(&transform->ns, memory_order_relaxed);
        all = all && samples >= FEED_CUT_SAMPLES;
        transform->us = samples > 0 ? (double)ns / 1000 / (double)samples : 0;
        if (samples >= FEED_CUT_SAMPLES_MAX) {
            atomic_store_explicit(&transform->samples, samples / 2, memory_order_relaxed);
            atomic_store_explicit(&transform->ns, ns / 2, memory_order_relaxed);
        }
    }
    return all;
}

/* Returns microseconds for an item if feeders run the first `count` transforms, at least one: the time of the slower
 * side. */
static double time_of(const struct feed_cut *cut, const struct feed_cut_job *job, unsigned count) {
    assert(count >= 1 && count <= cut->feedable && cut->feedable <= cut->count);
    double here = FEED_CUT_BYTE_US * cut->transforms[count - 1].bytes;
    double there = here;
    for (unsigned s = 0; s < cut->count; s++) {
        *(s < count ? &there : &here) += cut->transforms[s].us;
    }
    double feeder_threads = job->feeder_threads > 0 ? job->feeder_threads : job->threads;
    return fmax(here / job->threads, there * job->nodes / (feeder_threads * job->feeders));
}

void feed_cut_choose(struct feed_cut *cut, const struct feed_cut_job *job) {
    if (cut->feedable < 2 || job->feeders == 0 || !take_costs(cut)) {
        return;
    }
    unsigned best = cut->wanted;
    for (unsigned count = 1; count <= cut->feedable; count++) {
        bool allowed = cut->transforms[count - 1].bytes <= cut->transforms[cut->feedable - 1].bytes;
        best = allowed && time_of(cut, job, count) < time_of(cut, job, best) ? count : best;
    }
    if (trial_gains(time_of(cut, job, best), time_of(cut, job, cut->wanted), FEED_CUT_MARGIN)) {
        cut->wanted = best;
    }
    assert(cut->wanted >= 1 && cut->wanted <= cut->feedable);
}
