/* bidbrain/daemon/measure: characteristics of made-up runs whose true values are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bidbrain/daemon/measure.h"

#include <math.h>

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)))) {
        fail_msg("%.9g is not %.9g", a, b);
    }
}

enum { ITEMS = 12000 };

/* `count` iterations of ITEMS items at `rate` items per second, the first of which lasts `lost` seconds longer. */
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

static void nothing_is_known_at_first(void **state) {
    (void)state;
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
    assert_false(measure_phi(&measure, &value, &reference)); /* one size tells no slope */
    assert_near(reference, 8);
}

static void phi_is_the_slope_beyond_the_smallest_size(void **state) {
    (void)state;
    struct measure measure = {0};
    double phi;
    double reference;
    /* 100 items a second each of the first 8 vCPUs, 70 each of those beyond. */
    run(&measure, 6, 8, 800, 0, false, false);
    run(&measure, 6, 16, 800 + 8 * 70, 0, true, false);
    run(&measure, 6, 32, 800 + 24 * 70, 0, true, false);
    assert_true(measure_phi(&measure, &phi, &reference));
    assert_near(phi, 0.7);
    assert_near(reference, 8);
    run(&measure, 2, 16, 5, 0, false, true); /* a few odd ones do not count: fewer than half of the size's samples */
    assert_true(measure_phi(&measure, &phi, &reference));
    assert_near(phi, 0.7);
    /* Scaling beyond the ideal, and none at all, stay within bounds. */
    struct measure worse = {0};
    run(&worse, 6, 8, 800, 0, false, false);
    run(&worse, 6, 16, 600, 0, true, false);
    assert_true(measure_phi(&worse, &phi, &reference));
    assert_near(phi, MEASURE_PHI_MIN);
}

static void losses_are_those_of_changes(void **state) {
    (void)state;
    struct measure measure = {0};
    double lost;
    run(&measure, 5, 8, 800, 0, false, false);
    /* Three times nodes join: 3 s without progress, then still the old pace in the change's two iterations. */
    for (int j = 0; j < 3; j++) {
        run(&measure, 2, 8, 800, 3, true, false);
        run(&measure, 5, 8, 800, 0, false, false);
        assert_int_equal(measure.joins.count, j + 1);
    }
    assert_true(measure_loss(&measure.joins, &lost));
    assert_near(lost, 3);
    assert_false(measure_loss(&measure.evictions, &lost));
    /* Half of the vCPUs leave: the half pace that follows is no loss, the 5 s are. */
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

static void changes_close_to_each_other_are_one(void **state) {
    (void)state;
    struct measure measure = {0};
    run(&measure, 5, 8, 800, 0, false, false);
    run(&measure, 1, 12, 800, 2, true, false);
    run(&measure, 1, 8, 800, 2, false, true);
    run(&measure, 1, 8, 800, 0, false, false);
    assert_int_equal(measure.joins.count, 0);
    assert_int_equal(measure.evictions.count, 1);
    assert_near(measure.evictions.seconds[0], 4);
    run(&measure, 1, 8, 0, 0, false, false); /* infinitely long, or of no length: not a measurement */
    assert_int_equal(measure.count, 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(phi_is_the_slope_beyond_the_smallest_size),
        cmocka_unit_test(losses_are_those_of_changes),
        cmocka_unit_test(changes_close_to_each_other_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
