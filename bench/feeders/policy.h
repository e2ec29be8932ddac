/* Policies across jobs: which job of a cluster gets the next feeder. See GoldMiner (Zhao et al., SIGMOD 2023), section
 * 3.4.2. Pure functions: no sockets, no clock reads. Only bench/feed-cluster uses them, not jobs.
 *
 * A job has room while its feeders make items more slowly than its trainers could use them. Each thread of the next
 * feeder is assumed to add as much to the rate as a thread of the last feeder did, up to the full rate. Each policy
 * gives the next feeder to the job with the best metric:
 *
 * FEED_MAXTP throughput of the cluster: the largest gain / threads * devices FEED_SRTF shortest remaining time first:
 * the smallest left * (threads of all feeders) / rate, both with the feeder FEED_FAIR fairness: the smallest rate /
 * full_rate, the rate with the feeder */
#ifndef BENCH_FEEDERS_POLICY_H
#define BENCH_FEEDERS_POLICY_H

#include <stdbool.h>
#include <stddef.h>

enum feed_policy { FEED_MAXTP, FEED_SRTF, FEED_FAIR, FEED_POLICIES };

struct feed_job {
    double rate;      /* items per second with the present feeders */
    double full_rate; /* items per second that its trainers take when feeders are no limit; above 0 */
    double step;      /* items per second that each thread of the last feeder added; 0: no feeder yet */
    double threads;   /* threads of all its feeders */
    double least;     /* threads that feed_share leaves it; with fewer, the job is slower than without feeders */
    double next;      /* threads of its next feeder; above 0 */
    double devices;   /* GPUs or machines that its trainers hold while they wait */
    double left;      /* items not yet trained on */
};

/* Returns the expected rate of the job with a next feeder of `threads` threads. */
double feed_expected(const struct feed_job *job, double threads);

/* Returns the job that gets the next feeder, of at most `threads` threads. SIZE_MAX: no job has room. Of equal jobs the
 * first wins. */
size_t feed_next(enum feed_policy policy, const struct feed_job *jobs, size_t count, double threads);

/* Shares out `threads` among the jobs anew. Each job in turn gets its `least` first. Then feeders go one by one to the
 * job that feed_next returns. A feeder gets whole threads: at most the threads that are left, and no more than its job
 * has room for.
 *
 * Sets shares[j]; updates `rate` and `threads` of each job to the expected values. Returns the threads that are
 * left. */
double feed_share(enum feed_policy policy, struct feed_job *jobs, size_t count, double threads, double *shares);

#endif
