/* agileml/control/balance: shares that make all nodes equally fast, and that change rarely. */
#include "agileml/control/balance.h"

#include "agileml/base/hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NODES_MAX = 8, SHARDS = 64, SEEDS = 200, CLOCKS = 1000 };

static struct balance_node node_of(double shards, double item_seconds, double fixed_seconds) {
    struct balance_node node = {.shards = shards, .items = 10 * shards};
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        node.speeds[span] = (struct monitor_speed){.clocks = 100,
                                                   .items = node.items,
                                                   .item_seconds = item_seconds,
                                                   .fixed_seconds = fixed_seconds,
                                                   .clock_seconds = fixed_seconds + node.items * item_seconds};
    }
    return node;
}

/* ---- Weights ---- */

static void test_weights_go_by_speeds(void **state) {
    (void)state;
    struct balance_node nodes[] = {node_of(64, 0.001, 0), node_of(64, 0.001, 0), node_of(64, 0.002, 0)};
    double left = balance_weigh(nodes, 3, MONITOR_LONG);
    assert_int_equal(nodes[0].weight, 77); /* 2, 2 and 1 parts of 3 * 64 */
    assert_int_equal(nodes[1].weight, 77);
    assert_int_equal(nodes[2].weight, 38);
    assert_true(fabs(left - 0.6) < 0.01);
}

/* Every clock takes half of its time whatever the share: shares differ more than speeds. */
static void test_a_fixed_part_is_not_shared(void **state) {
    (void)state;
    struct balance_node nodes[] = {node_of(64, 0.001, 0.64), node_of(64, 0.002, 0.64)};
    balance_weigh(nodes, 2, MONITOR_LONG);
    assert_in_range(nodes[0].weight, 85, 86); /* 2 : 1 */
    assert_in_range(nodes[1].weight, 42, 43);
    struct balance_node late[] = {node_of(64, 0.001, 0), node_of(64, 0.001, 5)};
    balance_weigh(late, 2, MONITOR_LONG);
    assert_int_equal(late[1].weight, BALANCE_LEAST); /* later than all others: still some, to be measured */
}

/* No split of the shards between two nodes is better by more than the weights' rounding. */
static void test_no_other_split_is_better(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double item[2];
        double fixed[2];
        for (unsigned n = 0; n < 2; n++) {
            item[n] = 0.001 * (1 + (double)(hash_mix(seed * 4 + n) % 400) / 100);
            fixed[n] = 0.01 * (double)(hash_mix(seed * 4 + 2 + n) % 10);
        }
        struct balance_node nodes[] = {node_of(64, item[0], fixed[0]), node_of(64, item[1], fixed[1])};
        double present = fmax(nodes[0].speeds[MONITOR_LONG].clock_seconds, nodes[1].speeds[MONITOR_LONG].clock_seconds);
        double chosen = balance_weigh(nodes, 2, MONITOR_LONG) * present;
        double best = INFINITY;
        for (unsigned first = 0; first <= 1280; first++) {
            best = fmin(best, fmax(fixed[0] + item[0] * first, fixed[1] + item[1] * (1280 - first)));
        }
        assert_true(chosen <= best * 1.04);
    }
}

static void test_unknown_speeds(void **state) {
    (void)state;
    struct balance_node nodes[] = {node_of(64, 0.001, 0), node_of(64, 0.004, 0)};
    struct balance balance = {0};
    double gain;
    assert_false(balance_decide(&balance, nodes, 1, 60, 1, &gain));
    nodes[1].speeds[MONITOR_LONG].clocks = MONITOR_CLOCKS - 1;
    assert_true(isnan(balance_weigh(nodes, 2, MONITOR_LONG)));
    assert_false(balance_decide(&balance, nodes, 2, 60, 1, &gain));
    nodes[1].speeds[MONITOR_LONG].clocks = MONITOR_CLOCKS;
    assert_true(balance_decide(&balance, nodes, 2, 60, 1, &gain));
    assert_false(balance_decide(&balance, nodes, 2, 60, 60 * 1000 * 1000, &gain)); /* a window later at the earliest */
}

static void test_one_window_is_not_enough(void **state) {
    (void)state;
    struct balance_node nodes[] = {node_of(64, 0.001, 0), node_of(64, 0.004, 0)};
    struct balance balance = {0};
    double gain;
    nodes[1].speeds[MONITOR_SHORT].item_seconds = 0.001; /* it was slow, and is not any more */
    assert_false(balance_decide(&balance, nodes, 2, 60, 1, &gain));
    nodes[1].speeds[MONITOR_SHORT].item_seconds = 0.004;
    nodes[1].speeds[MONITOR_LONG].error = 0.3; /* it is slow, or chance is */
    assert_false(balance_decide(&balance, nodes, 2, 60, 1, &gain));
    nodes[1].speeds[MONITOR_LONG].error = 0.1;
    assert_true(balance_decide(&balance, nodes, 2, 60, 1, &gain));
    assert_true(gain > 0.5);
}

/* ---- A job, clock by clock ---- */

/* Nodes that take as long as their speeds and shares say, give or take `jitter`. */
struct job {
    uint64_t seed;
    unsigned count;
    double item_us[NODES_MAX], jitter;
    unsigned shards[NODES_MAX];
    double extra; /* items that the first node has whatever its shards */
    struct monitor monitor;
    struct balance balance;
    uint64_t now_us, clock, version;
    unsigned changes;
    double last_us; /* the last clocks' mean time */
};

static double random_of(struct job *job) {
    return (double)(hash_mix(job->seed++) >> 11) / (double)(UINT64_C(1) << 53);
}

static void job_open(struct job *job) {
    job->now_us = 1;
    job->version = 1;
    monitor_init(&job->monitor, 1, 10);
    for (unsigned n = 0; n < job->count; n++) {
        job->shards[n] = SHARDS;
    }
}

static double items_of(const struct job *job, unsigned n) {
    return job->shards[n] * 10 + (n == 0 ? job->extra : 0);
}

static void share(struct job *job, const struct balance_node *nodes) {
    unsigned weights = 0;
    unsigned left = job->count * SHARDS;
    for (unsigned n = 0; n < job->count; n++) {
        weights += nodes[n].weight;
    }
    for (unsigned n = 0; n < job->count; n++) {
        job->shards[n] = job->count * SHARDS * nodes[n].weight / weights;
        left -= job->shards[n];
    }
    for (unsigned n = 0; n < left; n++) {
        job->shards[n % job->count]++;
    }
    job->version++;
    job->changes++;
}

static void job_clock(struct job *job) {
    double times[NODES_MAX];
    double longest = 0;
    job->clock++;
    for (unsigned n = 0; n < job->count; n++) {
        times[n] = items_of(job, n) * job->item_us[n] * (1 + job->jitter * (2 * random_of(job) - 1));
        longest = fmax(longest, times[n]);
    }
    job->now_us += (uint64_t)longest;
    struct balance_node nodes[NODES_MAX];
    for (unsigned n = 0; n < job->count; n++) {
        const struct monitor_sample sample = {.node = n + 1,
                                              .version = job->version,
                                              .now_us = job->now_us,
                                              .items = (uint64_t)items_of(job, n),
                                              .compute_us = (uint64_t)times[n],
                                              .clock_us = (uint64_t)longest};
        monitor_add(&job->monitor, &sample);
    }
    for (unsigned n = 0; n < job->count; n++) {
        nodes[n] = (struct balance_node){.shards = job->shards[n]};
        for (unsigned span = 0; span < MONITOR_SPANS; span++) {
            nodes[n].speeds[span] = monitor_speed(&job->monitor, n + 1, (enum monitor_span)span, job->now_us);
        }
        nodes[n].items = nodes[n].speeds[MONITOR_SHORT].items;
    }
    double gain;
    if (balance_decide(&job->balance, nodes, job->count, job->monitor.seconds[MONITOR_LONG], job->now_us, &gain)) {
        share(job, nodes);
    }
}

static void job_run(struct job *job, unsigned clocks) {
    for (unsigned c = 0; c < clocks; c++) {
        uint64_t begin = c + clocks / 4 > clocks ? job->now_us : 0;
        job_clock(job);
        job->last_us = begin == 0 ? 0 : job->last_us + (double)(job->now_us - begin) / (clocks / 4 - 1);
    }
}

/* What a clock takes if no node waits. */
static double ideal_us(const struct job *job) {
    double speed = 0;
    double items = 0;
    for (unsigned n = 0; n < job->count; n++) {
        speed += 1 / job->item_us[n];
        items += SHARDS * 10;
    }
    return items / speed;
}

/* Invariant I10: 5 % of jitter are no reason for a plan. */
static void test_jitter_changes_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = {.seed = seed * 1000003, .count = 2 + (unsigned)(seed % (NODES_MAX - 1)), .jitter = 0.05};
        for (unsigned n = 0; n < job.count; n++) {
            job.item_us[n] = 50;
        }
        job_open(&job);
        job_run(&job, CLOCKS);
        assert_int_equal(job.changes, 0);
        monitor_close(&job.monitor);
    }
}

/* Invariants I10 and I12: under steady speeds at most two plans, and nobody waits for more than a tenth of the time. */
static void test_steady_speeds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = {.seed = seed * 1000003, .count = 2 + (unsigned)(seed % (NODES_MAX - 1)), .jitter = 0.02};
        for (unsigned n = 0; n < job.count; n++) {
            job.item_us[n] = 50 * (1 + 3 * random_of(&job));
        }
        job_open(&job);
        job_run(&job, CLOCKS);
        assert_in_range(job.changes, 0, 2);
        if (job.last_us > 1.1 * ideal_us(&job)) {
            fail_msg("seed %d: %.0f us, ideal %.0f us", (int)seed, job.last_us, ideal_us(&job));
        }
        monitor_close(&job.monitor);
    }
}

/* A node becomes slow, and well again: shares follow, though not at once. */
static void test_speeds_that_change(void **state) {
    (void)state;
    struct job job = {.seed = 7, .count = 4, .item_us = {50, 50, 50, 50}, .jitter = 0.02};
    job_open(&job);
    job_run(&job, CLOCKS);
    job.item_us[2] = 200;
    job_run(&job, CLOCKS);
    assert_in_range(job.changes, 1, 3);
    assert_true(job.last_us <= 1.1 * ideal_us(&job));
    job.item_us[2] = 50;
    job_run(&job, 4 * CLOCKS);
    assert_in_range(job.changes, 2, 6);
    assert_true(job.last_us <= 1.1 * ideal_us(&job));
    monitor_close(&job.monitor);
}

/* Half of what a change promises does not come true, as the node keeps those shards that are most work: the next one is
 * not tried. */
static void test_uneven_shards(void **state) {
    (void)state;
    struct job job = {.seed = 9, .count = 4, .item_us = {50, 50, 50, 50}, .jitter = 0.02, .extra = 320};
    job_open(&job);
    job_run(&job, 4 * CLOCKS);
    assert_int_equal(job.changes, 1);
    monitor_close(&job.monitor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_go_by_speeds),
        cmocka_unit_test(test_a_fixed_part_is_not_shared),
        cmocka_unit_test(test_no_other_split_is_better),
        cmocka_unit_test(test_unknown_speeds),
        cmocka_unit_test(test_one_window_is_not_enough),
        cmocka_unit_test(test_jitter_changes_nothing),
        cmocka_unit_test(test_steady_speeds),
        cmocka_unit_test(test_speeds_that_change),
        cmocka_unit_test(test_uneven_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
