/* agileml/control/decide/balance: shares that make all nodes equally fast and rarely change; stragglers that are
 * worth replacing. */
#include "agileml/control/decide/balance.h"
#include "tests/test.h"

#include "agileml/base/hash.h"
#include "agileml/control/decide/monitor.h"

#include <math.h>

enum { NODES_MAX = 8, SHARDS = 64, SEEDS = 200, CLOCKS = 1000 };

/* Nodes as the controller measured them over both windows. */
struct sight {
    struct aml_balance_view view;
    struct aml_balance_node nodes[NODES_MAX];
    struct aml_balance_action actions[NODES_MAX];
    struct balance balance;
    char reason[AML_BALANCE_REASON];
};

static void sight_open(struct sight *sight) {
    *sight = (struct sight){.view = {.windows = {5, 60}, .now = 100, .seconds_left = 1000, .pending_seconds = 30}};
    sight->view.nodes = sight->nodes;
}

static void add(struct sight *sight, double shard_seconds, double fixed_seconds) {
    struct aml_balance_node *node = &sight->nodes[sight->view.count++];
    *node = (struct aml_balance_node){.shards = 64, .threads = 1, .transient = true, .replaceable = true};
    snprintf(node->name, sizeof node->name, "node-%zu", sight->view.count);
    for (unsigned span = 0; span < AML_BALANCE_SPANS; span++) {
        node->speeds[span] = (struct aml_balance_speed){.clocks = 100,
                                                        .seconds = sight->view.windows[span],
                                                        .shard_seconds = shard_seconds,
                                                        .fixed_seconds = fixed_seconds,
                                                        .clock_seconds = fixed_seconds + 64 * shard_seconds};
    }
}

static bool shares(struct sight *sight) {
    return balance_shares(&sight->view, &sight->balance, sight->actions, sight->reason);
}

/* ---- Weights ---- */

TEST(weights_go_by_speeds) {
    struct sight sight;
    sight_open(&sight);
    add(&sight, 0.01, 0);
    add(&sight, 0.01, 0);
    add(&sight, 0.02, 0);
    double left = balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions);
    assert_int_equal(sight.actions[0].weight, 77); /* 2, 2 and 1 parts of 3 * 64 */
    assert_int_equal(sight.actions[1].weight, 77);
    assert_int_equal(sight.actions[2].weight, 38);
    assert_true(fabs(left - 0.6) < 0.01);
}

/* Half of each clock's time is fixed, so shares differ more than speeds. */
TEST(a_fixed_part_is_not_shared) {
    struct sight sight;
    sight_open(&sight);
    add(&sight, 0.01, 0.64);
    add(&sight, 0.02, 0.64);
    balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions);
    assert_in_range(sight.actions[0].weight, 85, 86); /* 2 : 1 */
    assert_in_range(sight.actions[1].weight, 42, 43);
    sight_open(&sight);
    add(&sight, 0.01, 0);
    add(&sight, 0.01, 5);
    balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions);
    /* slower than all others, but still given some shards to be measured */
    assert_int_equal(sight.actions[1].weight, BALANCE_LEAST);
}

/* No other split of the shards between two nodes is better by more than the weights' rounding. */
TEST(no_other_split_is_better) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct sight sight;
        double shard[2];
        double fixed[2];
        sight_open(&sight);
        for (unsigned n = 0; n < 2; n++) {
            shard[n] = 0.01 * (1 + (double)(hash_mix(seed * 4 + n) % 400) / 100);
            fixed[n] = 0.01 * (double)(hash_mix(seed * 4 + 2 + n) % 10);
            add(&sight, shard[n], fixed[n]);
        }
        double present = fmax(fixed[0] + 64 * shard[0], fixed[1] + 64 * shard[1]);
        double chosen = balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions) * present;
        double best = INFINITY;
        for (unsigned first = 0; first <= 1280; first++) {
            best = fmin(best, fmax(fixed[0] + shard[0] * first / 10, fixed[1] + shard[1] * (1280 - first) / 10));
        }
        assert_true(chosen <= best * 1.04);
    }
}

TEST(unknown_speeds) {
    struct sight sight;
    sight_open(&sight);
    assert_false(shares(&sight));
    add(&sight, 0.01, 0);
    assert_false(shares(&sight));
    add(&sight, 0.04, 0);
    sight.nodes[1].speeds[AML_BALANCE_LONG].clocks = BALANCE_CLOCKS - 1;
    assert_true(isnan(balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions)));
    assert_false(shares(&sight));
    sight.nodes[1].speeds[AML_BALANCE_LONG].clocks = BALANCE_CLOCKS;
    assert_true(shares(&sight));
    sight.view.now += 59;
    assert_false(shares(&sight)); /* the next change comes a window later at the earliest */
}

TEST(one_window_is_not_enough) {
    struct sight sight;
    sight_open(&sight);
    add(&sight, 0.01, 0);
    add(&sight, 0.04, 0);
    sight.nodes[1].speeds[AML_BALANCE_SHORT].shard_seconds = 0.01; /* slow over the long window only */
    assert_false(shares(&sight));
    sight.nodes[1].speeds[AML_BALANCE_SHORT].shard_seconds = 0.04;
    sight.nodes[1].speeds[AML_BALANCE_LONG].error = 0.3; /* too uncertain: the node may be slow by chance */
    assert_false(shares(&sight));
    sight.nodes[1].speeds[AML_BALANCE_LONG].error = 0.1;
    assert_true(shares(&sight));
    assert_string_equal(sight.reason,
                        "shares of 0.41 (node-2) to 1.59 (node-1) of the mean are to make clocks 59 % shorter");
}

TEST(a_short_job) {
    struct sight sight;
    sight_open(&sight);
    add(&sight, 0.01, 0);
    add(&sight, 0.02, 0); /* shares would shorten clocks of 1.28 s by a third, at a cost of 1.78 s */
    sight.view.seconds_left = 5;
    assert_false(shares(&sight));
    sight.view.seconds_left = 6;
    assert_true(shares(&sight));
}

/* ---- Slices ---- */

/* A node that processes up to 32 shards in a slice; each slice costs a second besides the shards' time. */
static void add_sliced(struct sight *sight, double shard_seconds) {
    add(sight, shard_seconds, 2);
    struct aml_balance_node *node = &sight->nodes[sight->view.count - 1];
    node->slice_shards = 32;
    for (unsigned span = 0; span < AML_BALANCE_SPANS; span++) {
        node->speeds[span].slice_seconds = 1;
    }
}

/* The time of a clock by equation 4. */
static double sliced_seconds(double shard_seconds, double shards) {
    return fmax(ceil(shards / 32), 1) + shard_seconds * shards;
}

/* No other split of the shards between two sliced nodes is better by more than the free room in slices. */
TEST(slices_cost_their_fixed_time) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct sight sight;
        double by[2] = {0.01 * (1 + (double)(hash_mix(seed) % 400) / 100), 0.02};
        sight_open(&sight);
        add_sliced(&sight, by[0]);
        add_sliced(&sight, by[1]);
        sight.nodes[0].shards = sight.nodes[1].shards = 55;
        assert_true(balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions) > 0);
        double first = 110.0 * sight.actions[0].weight / (sight.actions[0].weight + sight.actions[1].weight);
        double chosen = fmax(sliced_seconds(by[0], first), sliced_seconds(by[1], 110 - first));
        double best = INFINITY;
        for (unsigned shards = 0; shards <= 1100; shards++) {
            double split = fmax(sliced_seconds(by[0], shards / 10.0), sliced_seconds(by[1], 110 - shards / 10.0));
            best = fmin(best, split);
        }
        assert_true(chosen <= best * 1.06);
    }
}

/* Where slices cost much, their number decides. */
TEST(a_slice_is_filled) {
    struct sight sight;
    sight_open(&sight);
    add_sliced(&sight, 0.001);
    add_sliced(&sight, 0.001);
    sight.nodes[0].shards = 96;
    sight.nodes[1].shards = 20; /* 3 slices and 1; two each are better */
    balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions);
    assert_int_equal(sight.actions[0].weight, sight.actions[1].weight);
    /* 2 slices of the first take as long as 1 of the second: 62 and 31 of 93 shards */
    sight.nodes[1].speeds[AML_BALANCE_LONG].slice_seconds = 2;
    sight.nodes[0].shards = 73;
    balance_weigh(&sight.view, AML_BALANCE_LONG, sight.actions);
    double of_first = (double)sight.actions[0].weight / (sight.actions[0].weight + sight.actions[1].weight);
    assert_true(of_first * 93 > 61 && of_first * 93 < 64);
}

static bool dd(struct sight *sight) {
    return balance_dd(&sight->view, &sight->balance, sight->actions, sight->reason);
}

/* On dedicated machines shares change without a wait, and no machine is replaced. */
TEST(dedicated_machines) {
    struct sight sight;
    sight_open(&sight);
    add_sliced(&sight, 0.01);
    add_sliced(&sight, 0.2);
    assert_true(dd(&sight));
    for (unsigned n = 0; n < 2; n++) {
        sight.nodes[n].speeds[AML_BALANCE_LONG].clock_seconds = 5;
        sight.nodes[n].speeds[AML_BALANCE_SHORT].clock_seconds = 0.1;
    }
    sight.view.now += 4;
    assert_false(dd(&sight)); /* the next change comes a short window later at the earliest */
    sight.view.now += 1;
    /* the short window still has clocks from before the change */
    sight.nodes[1].speeds[AML_BALANCE_SHORT].clock_seconds = 1;
    assert_false(dd(&sight));
    sight.view.now += 7;
    assert_true(dd(&sight));
    assert_false(sight.actions[0].replace || sight.actions[1].replace);
}

/* ---- Replacement ---- */

/* Eight nodes with shares that fit their speeds; a shard takes the sixth node `slow` times as long. */
static void add_eight(struct sight *sight, double slow) {
    sight_open(sight);
    double speeds = 7 + 1 / slow;
    for (unsigned n = 0; n < 8; n++) {
        double by = n == 5 ? slow : 1;
        add(sight, 0.01 * by, 0);
        sight->nodes[n].shards = 512 / by / speeds;
        for (unsigned span = 0; span < AML_BALANCE_SPANS; span++) {
            sight->nodes[n].speeds[span].slowness = by / ((7 + slow) / 8);
        }
    }
}

static bool nd(struct sight *sight) {
    for (unsigned n = 0; n < NODES_MAX; n++) {
        sight->actions[n] = (struct aml_balance_action){0};
    }
    return balance_nd(&sight->view, &sight->balance, sight->actions, sight->reason);
}

TEST(a_straggler_is_replaced) {
    struct sight sight;
    add_eight(&sight, 4);
    assert_true(nd(&sight));
    for (unsigned n = 0; n < 8; n++) {
        assert_int_equal(sight.actions[n].replace, n == 5);
        assert_int_equal(sight.actions[n].weight, 0); /* unchanged */
    }
    assert_non_null(strstr(sight.reason, "node-6 takes 2.9 times the mean; another in its place is to save 9 % of"));
}

/* No node is replaced if that costs more than it saves, if the node was slow too briefly, or if the controller
 * forbids it. */
TEST(who_is_not_replaced) {
    struct sight sight;
    add_eight(&sight, 1.4); /* too little slower to be a straggler */
    assert_false(nd(&sight));
    add_eight(&sight, 4);
    sight.view.seconds_left = 40; /* the job ends soon */
    assert_false(nd(&sight));
    add_eight(&sight, 4);
    sight.view.pending_seconds = 900; /* a busy cluster as in AntDT */
    assert_false(nd(&sight));
    add_eight(&sight, 4);
    sight.nodes[5].replaceable = false;
    assert_false(nd(&sight));
    add_eight(&sight, 4);
    sight.nodes[5].speeds[AML_BALANCE_SHORT].slowness = 1;
    assert_false(nd(&sight));
    add_eight(&sight, 4);
    sight.nodes[5].speeds[AML_BALANCE_LONG].seconds = 40; /* 40 of the window's 60 s */
    assert_false(nd(&sight));
}

/* Each change waits twice as long as the one before; with other nodes the waits start from the beginning. */
TEST(waits_begin_anew_with_other_nodes) {
    struct sight sight;
    sight_open(&sight);
    add(&sight, 0.01, 0);
    add(&sight, 0.02, 0);
    for (unsigned change = 0; change < 3; change++) {
        assert_true(shares(&sight));
        assert_true(sight.balance.waits == 1 << change);
        sight.view.now += sight.view.windows[AML_BALANCE_LONG] * sight.balance.waits - 1;
        sight.balance.predicted = sight.balance.doubt = 0;
        assert_false(shares(&sight));
        sight.view.now += 1;
    }
    sight.view.now -= 3.5 * sight.view.windows[AML_BALANCE_LONG]; /* half a window after the last change */
    add(&sight, 0.02, 0);
    assert_false(shares(&sight));
    sight.view.now += sight.view.windows[AML_BALANCE_LONG];
    assert_true(shares(&sight));
    assert_true(sight.balance.waits == 1);
}

/* Eight equal nodes that serve two partitions each; all nodes wait `wait` seconds a clock for node-3. */
static void add_servers(struct sight *sight, double wait) {
    add_eight(sight, 1);
    for (unsigned n = 0; n < 8; n++) {
        sight->nodes[n].partitions = 2;
        for (unsigned span = 0; span < AML_BALANCE_SPANS; span++) {
            double seconds = (n == 2 ? wait : 0.001) + (double)n / 1e5;
            sight->nodes[n].waits[span] = (struct aml_balance_wait){.clocks = 100, .seconds = seconds};
            sight->nodes[n].speeds[span].seconds = 100; /* clocks of a second */
        }
    }
}

TEST(a_slow_server_loses_its_partitions) {
    struct sight sight;
    add_servers(&sight, 0.2);
    assert_true(nd(&sight));
    for (unsigned n = 0; n < 8; n++) {
        assert_int_equal(sight.actions[n].serve_weight, n == 2 ? BALANCE_SERVE : 0);
        assert_int_equal(sight.actions[n].weight, 0);
        assert_false(sight.actions[n].replace);
    }
    assert_non_null(strstr(sight.reason, " ms longer for node-3, 20 % of a clock"));
    sight.nodes[5].waits[AML_BALANCE_LONG].seconds = 0.03;
    memset(&sight.balance, 0, sizeof sight.balance);
    assert_true(nd(&sight));
    assert_non_null(strstr(sight.reason, "nodes wait 170.0 ms longer for node-3, 17 % of a clock"));
}

/* Servers that keep their partitions: about as fast as the others, slow only lately, measured over too few clocks,
 * slow by chance, or without partitions. So does each where most servers are slow. */
TEST(servers_that_keep_their_partitions) {
    struct sight sight;
    add_servers(&sight, 0.04);
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[2].waits[AML_BALANCE_LONG].seconds = 0.03;
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[2].waits[AML_BALANCE_LONG].clocks = 8 * BALANCE_CLOCKS - 1; /* a clock too few, for eight nodes */
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[2].speeds[AML_BALANCE_LONG].seconds = 40; /* 40 of the window's 60 s */
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[2].waits[AML_BALANCE_LONG].error = 0.051;
    assert_false(nd(&sight));
    sight.nodes[2].waits[AML_BALANCE_LONG].error = 0.04;
    assert_true(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[4].waits[AML_BALANCE_LONG].seconds = 0.19; /* another server is about as slow, over the long window */
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    sight.nodes[2].partitions = 0;
    assert_false(nd(&sight));
    add_servers(&sight, 0.2);
    for (unsigned n = 3; n < 7; n++) { /* five of eight are slow */
        sight.nodes[n].waits[AML_BALANCE_SHORT].seconds = sight.nodes[n].waits[AML_BALANCE_LONG].seconds = 0.2;
    }
    assert_false(nd(&sight));
}

/* The slowest node is changed first, and shares are changed before anything else. */
TEST(one_at_a_time) {
    struct sight sight;
    add_eight(&sight, 4);
    sight.nodes[2].speeds[AML_BALANCE_SHORT].slowness = sight.nodes[2].speeds[AML_BALANCE_LONG].slowness = 2;
    assert_true(nd(&sight));
    assert_true(sight.actions[5].replace && !sight.actions[2].replace);
    sight.nodes[5].shards = 64;
    assert_true(nd(&sight));
    assert_true(sight.actions[5].weight > 0 && !sight.actions[5].replace);
}

/* ---- A job, clock by clock ---- */

/* Simulated nodes whose times follow their speeds and shares, give or take `jitter`. */
struct job {
    uint64_t seed;
    unsigned count;
    double item_us[NODES_MAX], jitter;
    unsigned shards[NODES_MAX];
    double extra; /* items of the first node beside its shards */
    struct monitor monitor;
    struct balance balance;
    uint64_t now_us, clock, version;
    unsigned changes;
    double last_us; /* mean time of the last clocks */
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

static void share(struct job *job, const struct aml_balance_action *actions) {
    unsigned weights = 0;
    unsigned left = job->count * SHARDS;
    for (unsigned n = 0; n < job->count; n++) {
        weights += actions[n].weight;
    }
    for (unsigned n = 0; n < job->count; n++) {
        job->shards[n] = job->count * SHARDS * actions[n].weight / weights;
        left -= job->shards[n];
    }
    for (unsigned n = 0; n < left; n++) {
        job->shards[n % job->count]++;
    }
    job->version++;
    job->changes++;
}

static bool asked(struct job *job, struct aml_balance_action *actions) {
    struct aml_balance_node nodes[NODES_MAX] = {0};
    char reason[AML_BALANCE_REASON];
    for (unsigned n = 0; n < job->count; n++) {
        nodes[n].shards = job->shards[n];
        double items = monitor_speed(&job->monitor, n + 1, MONITOR_SHORT, job->now_us).items / job->shards[n];
        for (unsigned span = 0; span < MONITOR_SPANS; span++) {
            struct monitor_speed speed = monitor_speed(&job->monitor, n + 1, (enum monitor_span)span, job->now_us);
            nodes[n].speeds[span] = (struct aml_balance_speed){.clocks = speed.clocks,
                                                               .clock_seconds = speed.clock_seconds,
                                                               .fixed_seconds = speed.fixed_seconds,
                                                               .shard_seconds = speed.item_seconds * items,
                                                               .error = speed.error};
        }
    }
    const struct aml_balance_view view = {.count = job->count,
                                          .nodes = nodes,
                                          .now = (double)job->now_us / 1e6,
                                          .seconds_left = 1000,
                                          .windows = {job->monitor.seconds[0], job->monitor.seconds[1]}};
    return balance_shares(&view, &job->balance, actions, reason);
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
    for (unsigned n = 0; n < job->count; n++) {
        const struct monitor_sample sample = {.node = n + 1,
                                              .version = job->version,
                                              .now_us = job->now_us,
                                              .items = (uint64_t)items_of(job, n),
                                              .compute_us = (uint64_t)times[n],
                                              .clock_us = (uint64_t)longest};
        monitor_add(&job->monitor, &sample);
    }
    struct aml_balance_action actions[NODES_MAX] = {0};
    if (asked(job, actions)) {
        share(job, actions);
    }
}

static void job_run(struct job *job, unsigned clocks) {
    for (unsigned c = 0; c < clocks; c++) {
        uint64_t begin = c + clocks / 4 > clocks ? job->now_us : 0;
        job_clock(job);
        job->last_us = begin == 0 ? 0 : job->last_us + (double)(job->now_us - begin) / (clocks / 4 - 1);
    }
}

/* The time of a clock in which no node waits. */
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
TEST(jitter_changes_nothing) {
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

/* Invariants I10 and I12: under steady speeds there are at most two plans, and no node waits for more than a tenth
 * of the time. */
TEST(steady_speeds) {
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

/* A node becomes slow and fast again; shares follow with a delay. */
TEST(speeds_that_change) {
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

/* A change brings only half of the promised gain, as the slow node keeps the shards with most work. Changes stop
 * after some tries. */
TEST(uneven_shards) {
    struct job job = {.seed = 9, .count = 4, .item_us = {50, 50, 50, 50}, .jitter = 0.02, .extra = 320};
    job_open(&job);
    job_run(&job, 4 * CLOCKS);
    assert_in_range(job.changes, 1, 3);
    monitor_close(&job.monitor);
}
