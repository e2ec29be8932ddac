/* bench/feeders/policy: which job gets the next feeder under each policy, and how a cluster's threads are divided. */
#include "bench/feeders/policy.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { JOBS = 6, SEEDS = 2000 };

static uint64_t random_state;

static double random_part(void) {
    return (double)hash_mix(random_state++) / (double)UINT64_MAX;
}

/* A job whose full rate needs `needs` threads. */
static struct feed_job job_needing(double needs, double devices, double left) {
    return (struct feed_job){.full_rate = 1, .step = 1 / needs, .next = 8, .devices = devices, .left = left};
}

TEST(throughput) {
    struct feed_job jobs[] = {job_needing(40, 1, 10), job_needing(16, 1, 100), job_needing(40, 4, 1000)};
    /* 8 threads bring four devices 8 / 40 each, in all more than 8 / 16 */
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 3, 8), 2);
    jobs[2].devices = 2;
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 3, 8), 1);
    jobs[1].rate = 1; /* this job has enough */
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 3, 8), 2);
}

TEST(remaining_time) {
    struct feed_job jobs[] = {job_needing(8, 1, 100), job_needing(16, 1, 10), job_needing(40, 8, 30)};
    assert_int_equal(feed_next(FEED_SRTF, jobs, 3, 8), 1);
    jobs[1].left = 60;
    assert_int_equal(feed_next(FEED_SRTF, jobs, 3, 8), 0);
}

TEST(fairness) {
    struct feed_job jobs[] = {job_needing(40, 1, 1), job_needing(16, 1, 1), job_needing(80, 1, 1)};
    double shares[3];
    assert_int_equal(feed_next(FEED_FAIR, jobs, 3, 8), 2);
    assert_true(feed_share(FEED_FAIR, jobs, 3, 68, shares) < 1);
    for (unsigned j = 0; j < 3; j++) { /* half of each job's need, within a feeder */
        assert_true(fabs(jobs[j].rate - 0.5) <= 8 * jobs[j].step);
        assert_true(fabs(jobs[j].rate - shares[j] * jobs[j].step) < 1e-9);
    }
}

/* A job without a feeder has no measured step: one feeder is assumed to be enough, so it gets one soon. */
TEST(a_new_job) {
    struct feed_job jobs[] = {job_needing(16, 1, 10), job_needing(40, 1, 10)};
    jobs[1].step = 0;
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 2, 8), 1);
    assert_true(fabs(feed_expected(&jobs[1], 4) - 0.5) < 1e-12);
    jobs[1].rate = jobs[1].full_rate;
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 2, 8), 0);
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 2, 0), SIZE_MAX);
    assert_int_equal(feed_next(FEED_MAXTP, jobs, 0, 8), SIZE_MAX);
}

/* For any jobs, no thread is given twice, and none is left while a job has room. No job gets a feeder more than it
 * needs. */
TEST(shares) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct feed_job jobs[JOBS];
        double shares[JOBS];
        double needs[JOBS];
        random_state = seed << 20;
        for (unsigned j = 0; j < JOBS; j++) {
            needs[j] = 1 + 60 * random_part();
            jobs[j] = job_needing(needs[j], 1 + floor(8 * random_part()), 1000 * random_part());
            jobs[j].least = floor(2 * random_part());
        }
        double threads = floor(300 * random_part());
        enum feed_policy policy = (enum feed_policy)(seed % FEED_POLICIES);
        double left = feed_share(policy, jobs, JOBS, threads, shares);
        double sum = left;
        bool room = false;
        for (unsigned j = 0; j < JOBS; j++) {
            sum += shares[j];
            room = room || jobs[j].rate < 1 - 1e-6;
            assert_true(shares[j] >= 0 && shares[j] < needs[j] + 1);
            assert_true(fabs(shares[j] - jobs[j].threads) < 1e-9);
        }
        assert_true(fabs(sum - threads) < 1e-9);
        assert_true(left < 1 || !room);
    }
}

/* Each of the three policies is the best by its own measure. */
TEST(each_serves_its_aim) {
    double throughput[FEED_POLICIES] = {0};
    double least[FEED_POLICIES] = {0};
    double first[FEED_POLICIES] = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        for (enum feed_policy policy = 0; policy < FEED_POLICIES; policy++) {
            struct feed_job jobs[JOBS];
            double shares[JOBS];
            double slowest = 1;
            double time = INFINITY;
            random_state = seed << 20;
            for (unsigned j = 0; j < JOBS; j++) {
                jobs[j] = job_needing(8 + 60 * random_part(), 1, 10 + 1000 * random_part());
            }
            feed_share(policy, jobs, JOBS, 64, shares);
            for (unsigned j = 0; j < JOBS; j++) {
                throughput[policy] += jobs[j].rate / JOBS / SEEDS;
                slowest = fmin(slowest, jobs[j].rate);
                time = fmin(time, jobs[j].left / fmax(jobs[j].rate, 1e-9));
            }
            least[policy] += slowest / SEEDS;
            first[policy] += time / SEEDS;
        }
    }
    assert_true(throughput[FEED_MAXTP] > 1.05 * throughput[FEED_SRTF] &&
                throughput[FEED_MAXTP] > throughput[FEED_FAIR]);
    assert_true(first[FEED_SRTF] < 0.95 * first[FEED_MAXTP] && first[FEED_SRTF] < first[FEED_FAIR]);
    assert_true(least[FEED_FAIR] > 2 * least[FEED_MAXTP] && least[FEED_FAIR] > 2 * least[FEED_SRTF]);
}
