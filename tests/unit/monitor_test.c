/* agileml/control/decide/monitor: speeds over windows, slowness at any shares, the fixed part of a clock, bursts,
 * and clocks that are not counted. */
#include "agileml/control/decide/monitor.h"
#include "tests/test.h"

#include <math.h>

enum { SECOND = 1000000, CLOCK_US = 100000 };

/* A node whose clocks follow each other. */
struct node {
    actor_id actor;
    uint64_t clock;
};

static void report(struct monitor *monitor, struct node *node, uint64_t now_us, uint64_t items, uint64_t compute_us) {
    const struct monitor_sample sample = {.node = node->actor,
                                          .version = 1,
                                          .now_us = now_us,
                                          .items = items,
                                          .compute_us = compute_us,
                                          .clock_us = CLOCK_US};
    monitor_add(monitor, &sample);
}

static double slowness(const struct monitor *monitor, actor_id node, enum monitor_span span, uint64_t now_us) {
    double all[8];
    assert_true(monitor->count <= 8);
    monitor_slowness(monitor, span, now_us, all);
    size_t place = monitor_find(monitor, node);
    return place != SIZE_MAX ? all[place] : NAN;
}

static void assert_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected))) {
        fail_msg("%.12g, expected %.12g", value, expected);
    }
}

/* With shares that fit the speeds all clocks take equally long, but the slowness still shows the speeds. */
TEST(slowness_whatever_the_shares) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    struct node a = {.actor = 7};
    struct node b = {.actor = 3};
    uint64_t now = SECOND;
    monitor_init(&monitor, 0, 0);
    assert_true(isnan(slowness(&monitor, a.actor, MONITOR_SHORT, now)));
    for (int i = 0; i < 30; i++, now += CLOCK_US) {
        report(&monitor, &a, now, 300, 60000);
        report(&monitor, &b, now, 100, 60000);
    }
    assert_int_equal(monitor.nodes[0].node, 3);
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        assert_near(slowness(&monitor, a.actor, (enum monitor_span)span, now), 0.5);
        assert_near(slowness(&monitor, b.actor, (enum monitor_span)span, now), 1.5);
    }
    struct monitor_speed speed = monitor_speed(&monitor, a.actor, MONITOR_LONG, now);
    assert_near(speed.items_per_second, 3000); /* with waiting */
    assert_near(speed.item_seconds, 0.0002);
    assert_near(speed.clock_seconds, 0.06);
    assert_near(speed.clocks, 30 - MONITOR_SETTLING);
    monitor_forget(&monitor, b.actor);
    assert_near(slowness(&monitor, a.actor, MONITOR_SHORT, now), 1);
    assert_true(isnan(slowness(&monitor, b.actor, MONITOR_SHORT, now)));
}

/* The short window forgets sooner than the long window; both keep at least MONITOR_CLOCKS clocks. */
TEST(windows) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    struct node node = {.actor = 1};
    uint64_t now = SECOND;
    monitor_init(&monitor, 5, 60);
    for (int i = 0; i < 300; i++, now += CLOCK_US) { /* 30 s */
        report(&monitor, &node, now, 100, 10000);
    }
    for (int i = 0; i < 100; i++, now += CLOCK_US) { /* 10 s at half the speed */
        report(&monitor, &node, now, 100, 20000);
    }
    assert_near(monitor_speed(&monitor, 1, MONITOR_SHORT, now).clock_seconds, 0.02);
    double mean = monitor_speed(&monitor, 1, MONITOR_LONG, now).clock_seconds;
    assert_near(mean, (298 * 0.01 + 100 * 0.02) / 398);
    uint64_t much_later = now + (uint64_t)3600 * SECOND; /* with slow clocks or none, the last clocks still count */
    struct monitor_speed kept = monitor_speed(&monitor, 1, MONITOR_SHORT, much_later);
    assert_true(kept.clocks >= MONITOR_CLOCKS && kept.clocks < 20);
    assert_near(kept.clock_seconds, 0.02);
    /* each clock is longer than the window */
    for (int i = 0; i < MONITOR_CLOCKS; i++, much_later += (uint64_t)60 * SECOND) {
        report(&monitor, &node, much_later, 100, 30000);
    }
    assert_near(monitor_speed(&monitor, 1, MONITOR_SHORT, much_later).clock_seconds, 0.03);
}

/* The first clocks of an assignment include `begin`, after joining and after a change of plan: they are not counted. */
TEST(first_clocks_do_not_count) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    uint64_t now = SECOND;
    monitor_init(&monitor, 0, 0);
    struct monitor_sample sample = {.node = 1, .version = 1, .items = 100, .clock_us = CLOCK_US};
    for (unsigned change = 0; change < 2; change++) {
        for (unsigned i = 0; i < 10; i++, now += CLOCK_US) {
            sample.now_us = now;
            sample.compute_us = i < MONITOR_SETTLING ? 5 * SECOND : 10000;
            monitor_add(&monitor, &sample);
        }
        sample.version++;
    }
    struct monitor_speed speed = monitor_speed(&monitor, 1, MONITOR_LONG, now);
    assert_near(speed.clocks, 2 * (10 - MONITOR_SETTLING));
    assert_near(speed.clock_seconds, 0.01);
}

/* Two assignments of different sizes show the fixed part of a clock, even with even clocks, unless the machine's
 * speed changed in between. */
TEST(the_fixed_part_by_assignments) {
    static const struct {
        uint64_t first_us, second_us; /* for 200 items; for 100 items */
        double fixed_seconds, item_seconds;
    } cases[] = {{50000, 35000, 0.02, 0.00015},
                 {50000, 25000, 0, 0.00025},
                 {50000, 60000, 0, 0.0006},
                 {50000, 10000, 0, 0.0001},
                 {50000, 49000, 0, 0.00049}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        CLOSED_BY(monitor_close) struct monitor monitor;
        struct monitor_sample sample = {.node = 1, .version = 1, .items = 200, .clock_us = CLOCK_US};
        uint64_t now = SECOND;
        monitor_init(&monitor, 1, 2);
        for (unsigned i = 0; i < 80; i++, now += CLOCK_US) {
            sample.now_us = now;
            sample.version = i < 40 ? 1 : 2;
            sample.items = i < 40 ? 200 : 100;
            sample.compute_us = i < 40 ? cases[c].first_us : cases[c].second_us;
            monitor_add(&monitor, &sample);
        }
        struct monitor_speed speed = monitor_speed(&monitor, 1, MONITOR_LONG, now);
        assert_near(speed.fixed_seconds + 1, cases[c].fixed_seconds + 1);
        assert_near(speed.item_seconds, cases[c].item_seconds);
    }
}

/* A node that holds 100 items at once: a slice takes 3 ms, an item 10 us. Clocks of different sizes show this, as do
 * two assignments of different sizes. */
TEST(the_fixed_part_of_slices) {
    static const uint64_t items[2][2] = {{110, 190}, {300, 300}};
    for (unsigned by_clocks = 0; by_clocks <= 1; by_clocks++) {
        CLOSED_BY(monitor_close) struct monitor monitor;
        monitor_init(&monitor, 1, 10);
        struct monitor_sample sample = {.node = 1, .slice = 100, .clock_us = CLOCK_US};
        for (unsigned clock = 0; clock < 60; clock++) {
            unsigned second = clock >= 30 ? 1 : 0;
            sample.version = by_clocks != 0 ? 1 : 1 + second;
            sample.items = items[second][by_clocks != 0 ? clock % 2 : 0];
            sample.now_us += CLOCK_US;
            sample.compute_us = (sample.items + 99) / 100 * 3000 + 10 * sample.items;
            monitor_add(&monitor, &sample);
        }
        struct monitor_speed speed = monitor_speed(&monitor, 1, MONITOR_LONG, sample.now_us);
        assert_true(fabs(speed.slice_seconds - 0.003) < 1e-4);
        assert_true(fabs(speed.item_seconds - 10e-6) < 1e-6);
        assert_true(speed.fixed_seconds > speed.slice_seconds * 2 && speed.fixed_seconds < speed.slice_seconds * 3);
    }
}

TEST(the_fixed_part) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    struct node a = {.actor = 1};
    struct node b = {.actor = 2};
    uint64_t now = SECOND;
    monitor_init(&monitor, 0, 0);
    for (int i = 0; i < 40; i++, now += CLOCK_US) {
        uint64_t items = 100 + 50 * (uint64_t)(i % 5);
        report(&monitor, &a, now, items, 4000 + 20 * items);
        report(&monitor, &b, now, 200, 8000); /* always the same size, so the fixed part is unknown */
    }
    struct monitor_speed speed = monitor_speed(&monitor, 1, MONITOR_SHORT, now);
    assert_true(fabs(speed.fixed_seconds - 0.004) < 1e-6 && fabs(speed.item_seconds - 20e-6) < 1e-9);
    speed = monitor_speed(&monitor, 2, MONITOR_SHORT, now);
    assert_near(speed.fixed_seconds, 0);
    assert_near(speed.item_seconds, 40e-6);
}

TEST(bursts) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    struct node node = {.actor = 1};
    uint64_t now = SECOND;
    monitor_init(&monitor, 0, 0);
    for (int i = 0; i < 200; i++, now += CLOCK_US) {
        bool slow = i % 50 >= 47; /* three of fifty clocks are four times as slow */
        report(&monitor, &node, now, 100, slow ? 40000 : 10000);
    }
    const struct monitor_bursts *bursts = &monitor.nodes[0].bursts;
    assert_int_equal(bursts->count, 4);
    assert_near(bursts->seconds, 4 * 3 * 0.04);
    assert_near(bursts->gap_seconds, 3 * (48 * 0.1 - 0.04)); /* from a burst's last report to the next burst's begin */
}

TEST(imbalance) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    struct node a = {.actor = 1};
    struct node b = {.actor = 2};
    monitor_init(&monitor, 0, 0);
    monitor_end_iteration(&monitor);
    assert_true(isnan(monitor.imbalance));
    for (int i = 0; i < 2; i++) {
        report(&monitor, &a, SECOND, 10, 30000);
        report(&monitor, &b, SECOND, 10, 10000);
    }
    monitor_end_iteration(&monitor);
    assert_near(monitor.imbalance, 1.5);
    report(&monitor, &a, SECOND, 10, 10000);
    report(&monitor, &b, SECOND, 10, 10000);
    monitor_end_iteration(&monitor);
    assert_near(monitor.imbalance, 1);
}

/* Several nodes report waits for a server: the result is the mean of all clocks. */
TEST(waits_for_servers) {
    CLOSED_BY(monitor_close) struct monitor monitor;
    monitor_init(&monitor, 5, 60);
    struct monitor_wait wait = monitor_wait(&monitor, 7, MONITOR_SHORT, SECOND);
    assert_true(wait.clocks == 0 && wait.seconds == 0 && wait.error == 0);
    for (unsigned second = 1; second <= 30; second++) {
        monitor_add_wait(&monitor, 7, 10, 10 * 2000, second * SECOND); /* one node reports 2 ms */
        monitor_add_wait(&monitor, 7, 10, 10 * 4000, second * SECOND);
        monitor_add_wait(&monitor, 8, 10, 0, second * SECOND);
    }
    for (unsigned second = 31; second <= 40; second++) {
        monitor_add_wait(&monitor, 7, 10, 10 * 9000, second * SECOND);
    }
    wait = monitor_wait(&monitor, 7, MONITOR_SHORT, 40 * SECOND);
    assert_near(wait.seconds, 0.009);
    assert_near(wait.error, 0);
    wait = monitor_wait(&monitor, 7, MONITOR_LONG, 40 * SECOND);
    assert_near(wait.seconds, (600 * 0.003 + 100 * 0.009) / 700);
    assert_near(wait.clocks, 700);
    assert_near(monitor_wait(&monitor, 8, MONITOR_LONG, 40 * SECOND).seconds, 0);
    assert_near(monitor_speed(&monitor, 7, MONITOR_LONG, 40 * SECOND).clocks, 0); /* the server is not a worker */
    monitor_forget(&monitor, 7);
    assert_near(monitor_wait(&monitor, 7, MONITOR_LONG, 40 * SECOND).clocks, 0);
}

/* The error of a mean over n reports of a clock each is their deviation divided by the root of n - 1. Equal reports
 * of two nodes about the same clocks count once. A single report gives no error. */
TEST(the_error_of_waits) {
    CLOSED_BY(monitor_close) struct monitor one;
    CLOSED_BY(monitor_close) struct monitor two;
    monitor_init(&one, 5, 60);
    monitor_init(&two, 5, 60);
    for (unsigned c = 0; c < 100; c++) {
        uint64_t wait_us = c % 4 == 0 ? 8000 : 0; /* mean 2 ms, deviation sqrt(12) ms */
        monitor_add_wait(&one, 7, 1, wait_us, (c / 4 + 1) * SECOND);
        monitor_add_wait(&two, 7, 1, wait_us, (c / 4 + 1) * SECOND);
        monitor_add_wait(&two, 7, 1, wait_us, (c / 4 + 1) * SECOND);
        monitor_add_wait(&two, 8, 1, 0, (c / 4 + 1) * SECOND);
    }
    struct monitor_wait wait = monitor_wait(&one, 7, MONITOR_LONG, 25 * SECOND);
    assert_near(wait.seconds, 0.002);
    assert_near(wait.error, sqrt(12) / 1000 / sqrt(99));
    wait = monitor_wait(&two, 7, MONITOR_LONG, 25 * SECOND);
    assert_near(wait.seconds, 0.002);
    assert_near(wait.error, sqrt(12) / 1000 / sqrt(99));
    assert_near(monitor_wait(&two, 8, MONITOR_LONG, 25 * SECOND).error, 0);
    monitor_forget(&one, 7);
    monitor_add_wait(&one, 7, 200, 200 * 5000, 26 * SECOND);
    wait = monitor_wait(&one, 7, MONITOR_LONG, 26 * SECOND);
    assert_near(wait.seconds, 0.005);
    assert_near(wait.error, 0.005);
}
