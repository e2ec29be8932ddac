/* Policies across jobs: which job of a cluster gets the next feeder. GoldMiner (Zhao et al., SIGMOD 2023), section
 * 3.4.2. Pure functions: no sockets, no clock reads. No daemon calls them at present; bench/feed-cluster does.
 *
 * A job has room while feeders make items more slowly than its trainers take them. The next feeder is assumed to add as
 * much to the rate as the last one did for each of its threads, up to what the trainers take. Each policy gives the
 * next feeder to the job with the best metric:
 *
 * FEED_MAXTP  throughput of the cluster: the largest gain / threads * devices
 * FEED_SRTF   shortest remaining time first: the smallest left * (threads of all feeders) / rate, both with the feeder
 * FEED_FAIR   fairness: the smallest rate / full_rate, the rate with the feeder */
#ifndef AGILEML_CONTROL_FEED_POLICY_H
#define AGILEML_CONTROL_FEED_POLICY_H

#include <stdbool.h>
#include <stddef.h>

enum feed_policy { FEED_MAXTP, FEED_SRTF, FEED_FAIR, FEED_POLICIES };

struct feed_job {
    double rate;      /* items a second, with the present feeders */
    double full_rate; /* that its trainers take when feeders are no limit; above 0 */
    double step;      /* by which a thread of the last feeder raised the rate: items a second; 0: no feeder yet */
    double threads;   /* of all its feeders */
    double least;     /* threads that it keeps in feed_share; it is slower than it would be without feeders below */
    double next;      /* threads that the next feeder is to have; above 0 */
    double devices;   /* what its trainers hold while they wait: GPUs, or machines */
    double left;      /* items that it has still to train on */
};

/* The rate that the job is assumed to have with a next feeder of `threads` threads. */
double feed_expected(const struct feed_job *job, double threads);

/* Returns the job that gets the next feeder, of at most `threads` threads; SIZE_MAX: no job has room. Of equal jobs the
 * first. */
size_t feed_next(enum feed_policy policy, const struct feed_job *jobs, size_t count, double threads);

/* Shares out `threads` among the jobs anew: each gets its `least` first, in their order, then one feeder after the
 * other goes to the job that feed_next returns. Sets shares[j], and updates `rate` and `threads` of the jobs to what is
 * expected. A feeder gets what threads are left, and no more than its job has room for; a part of a thread is given
 * only as part of `least`. Returns the threads that are left. */
double feed_share(enum feed_policy policy, struct feed_job *jobs, size_t count, double threads, double *shares);

const char *feed_policy_name(enum feed_policy policy);

#endif
