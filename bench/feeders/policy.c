/* See policy.h. */
#include "bench/feeders/policy.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

#define ROOM 1e-9 /* a job has no room if its room is below this part of its full rate */

static bool has_room(const struct feed_job *job) {
    return job->full_rate - job->rate > ROOM * job->full_rate;
}

/* Returns the items per second that a thread adds. For a job without a step, assumes that one feeder is enough, so that
 * it is tried soon. */
static double step_of(const struct feed_job *job) {
    return job->step > 0 ? job->step : job->full_rate / job->next;
}

double feed_expected(const struct feed_job *job, double threads) {
    return fmin(job->full_rate, job->rate + step_of(job) * threads);
}

/* Returns the policy's metric for a feeder of `threads` threads; the smallest is the best. */
static double metric(enum feed_policy policy, const struct feed_job *job, double threads) {
    double expected = feed_expected(job, threads);
    switch (policy) {
    case FEED_MAXTP: /* compares different models by parts of their full rates */
        return -(expected - job->rate) / job->full_rate / threads * job->devices;
    case FEED_SRTF:
        return job->left * (job->threads + threads) / expected;
    default:
        return expected / job->full_rate;
    }
}

/* Returns the whole threads of the job's next feeder: no more than the job has room for. */
static double feeder_threads(const struct feed_job *job, double threads) {
    double room = ceil((job->full_rate - job->rate) / step_of(job) - ROOM);
    return fmin(fmin(job->next, threads), fmax(room, 1));
}

size_t feed_next(enum feed_policy policy, const struct feed_job *jobs, size_t count, double threads) {
    size_t best = SIZE_MAX;
    double least = INFINITY;
    for (size_t j = 0; j < count && threads > 0; j++) {
        assert(jobs[j].full_rate > 0 && jobs[j].next > 0);
        if (!has_room(&jobs[j])) {
            continue;
        }
        double value = metric(policy, &jobs[j], feeder_threads(&jobs[j], threads));
        if (best == SIZE_MAX || value < least) {
            best = j;
            least = value;
        }
    }
    return best;
}

double feed_share(enum feed_policy policy, struct feed_job *jobs, size_t count, double threads, double *shares) {
    for (size_t j = 0; j < count; j++) {
        struct feed_job *job = &jobs[j];
        shares[j] = fmin(job->least, threads);
        threads -= shares[j];
        job->threads = shares[j];
        job->rate = 0;
        job->rate = feed_expected(job, shares[j]);
    }
    while (threads >= 1) {
        size_t best = feed_next(policy, jobs, count, floor(threads));
        if (best == SIZE_MAX) {
            break;
        }
        struct feed_job *job = &jobs[best];
        double given = feeder_threads(job, floor(threads));
        job->rate = feed_expected(job, given);
        job->threads += given;
        shares[best] += given;
        threads -= given;
    }
    return threads;
}
