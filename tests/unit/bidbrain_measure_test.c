/* bidbrain/daemon/measure: characteristics of made-up runs whose true values are known. */

#include "bidbrain/daemon/measure.h"
#include "tests/test.h"

#include <math.h>

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)))) {
        fail_msg("%.9g is not %.9g", a, b);
    }
}

enum { ITEMS = 12000 };

/* Adds `count` iterations of ITEMS items at `rate` items a second; the first takes `lost` seconds longer. */
static void run(struct measure *measure, int count, double work, double rate, double lost, bool joined, bool left) {
    for (int i = 0; i < count; i++) {
        const struct measure_iteration iteration = {.seconds = ITEMS / rate + (i == 0 ? lost : 0),
                                                    .items = ITEMS,
                                                    .work = work,
                                                    .joined = joined && i == 0,
                                                    .left = left && i == 0};
        measure_add(measure, &iteration);
    }
}

TEST(nothing_is_known_at_first) {
    struct measure measure = {0};
    double value = 7;
    double reference = 8;
    assert_false(measure_throughput(&measure, &value));
    assert_false(measure_phi(&measure, &value, &reference));
    assert_false(measure_loss(&measure.joins, &value));
    run(&measure, 2, 8, 800, 0, false, false);
    assert_false(measure_throughput(&measure, &value));
    run(&measure, 1, 8, 800, 0, false, false);
    assert_true(measure_throughput(&measure, &value));
    assert_near(value, 100);
    assert_false(measure_phi(&measure, &value, &reference)); /* one size gives no slope */
    assert_near(reference, 8);
}

TEST(phi_is_the_slope_beyond_the_smallest_size) {
    struct measure measure = {0};
    double phi;
    double reference;
    /* 100 items a second for each of the first 8 vCPUs, 70 for each further vCPU. */
    run(&measure, 6, 8, 800, 0, false, false);
    run(&measure, 6, 16, 800 + 8 * 70, 0, true, false);
    run(&measure, 6, 32, 800 + 24 * 70, 0, true, false);
    assert_true(measure_phi(&measure, &phi, &reference));
    assert_near(phi, 0.7);
    assert_near(reference, 8);
    run(&measure, 2, 16, 5, 0, false, true); /* a few outliers, fewer than half of this size's samples, are ignored */
    assert_true(measure_phi(&measure, &phi, &reference));
    assert_near(phi, 0.7);
    /* Scaling better than ideal, or none at all, gives values within bounds. */
    struct measure worse = {0};
    run(&worse, 6, 8, 800, 0, false, false);
    run(&worse, 6, 16, 600, 0, true, false);
    assert_true(measure_phi(&worse, &phi, &reference));
    assert_near(phi, MEASURE_PHI_MIN);
}

TEST(losses_are_those_of_changes) {
    struct measure measure = {0};
    double lost;
    run(&measure, 5, 8, 800, 0, false, false);
    /* Nodes join three times: each costs 3 s without progress, and two iterations at the old pace. */
    for (int j = 0; j < 3; j++) {
        run(&measure, 2, 8, 800, 3, true, false);
        run(&measure, 5, 8, 800, 0, false, false);
        assert_int_equal(measure.joins.count, j + 1);
    }
    assert_true(measure_loss(&measure.joins, &lost));
    assert_near(lost, 3);
    assert_false(measure_loss(&measure.evictions, &lost));
    /* Half of the vCPUs leave: the halved pace is no loss, the 5 s are. */
    for (int e = 0; e < 3; e++) {
        run(&measure, 5, 8, 800, 0, false, false);
        run(&measure, 2, 4, 400, 5, false, true);
        run(&measure, 4, 4, 400, 0, false, false);
        run(&measure, 2, 8, 800, 0, true, false);
    }
    assert_true(measure_loss(&measure.evictions, &lost));
    assert_near(lost, 5);
    assert_true(measure_loss(&measure.joins, &lost));
    assert_true(lost >= 0);
}

TEST(changes_close_to_each_other_are_one) {
    struct measure measure = {0};
    run(&measure, 5, 8, 800, 0, false, false);
    run(&measure, 1, 12, 800, 2, true, false);
    run(&measure, 1, 8, 800, 2, false, true);
    run(&measure, 1, 8, 800, 0, false, false);
    assert_int_equal(measure.joins.count, 0);
    assert_int_equal(measure.evictions.count, 1);
    assert_near(measure.evictions.seconds[0], 4);
    run(&measure, 1, 8, 0, 0, false, false); /* an infinitely long iteration, or one of no length, is no measurement */
    assert_int_equal(measure.count, 5);
}
