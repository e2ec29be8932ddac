/* workers/feed_cut: which of an app's first stages feeders run. */
#include "workers/feed_cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Three stages that feeders may run, and one with state: decode makes many bytes of few, blur takes long, crop makes
 * few bytes again. */
static const struct aml_stage chain[] = {{.name = "decode", .bytes = 100000},
                                         {.name = "blur", .from = "decode", .bytes = 100000},
                                         {.name = "crop", .from = "blur", .bytes = 1000},
                                         {.name = "look", .from = "crop", .flags = AML_STAGE_STATE, .bytes = 1000},
                                         {.name = NULL}};

static void measure(struct feed_cut *cut, const double *us) {
    for (unsigned i = 0; i < FEED_CUT_SAMPLES; i++) {
        for (unsigned s = 0; s < cut->count; s++) {
            feed_cut_measure(cut, s, us[s] / 1e6);
        }
    }
}

static void choose(struct feed_cut *cut, unsigned threads, unsigned feeders, unsigned nodes) {
    const struct feed_cut_job job = {.threads = threads, .feeders = feeders, .nodes = nodes};
    feed_cut_choose(cut, &job);
}

static void test_stages_with_state_stay(void **state) {
    (void)state;
    struct feed_cut cut = {0};
    feed_cut_open(&cut, chain);
    assert_int_equal(cut.count, 4);
    assert_int_equal(cut.feedable, 3);
    assert_int_equal(cut.wanted, 3); /* all that feeders may run, while nothing is known */
    struct feed_cut none = {0};
    feed_cut_open(&none, NULL);
    assert_int_equal(none.wanted, 0);
    struct feed_cut kept = {0};
    feed_cut_open(&kept, chain + 3);
    assert_int_equal(kept.feedable, 0);
}

/* One stage: there is nothing to choose, whatever is measured. */
static void test_one_stage_is_one_cut(void **state) {
    (void)state;
    static const struct aml_stage one[] = {{.name = "shift", .bytes = 784}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, one);
    measure(&cut, (const double[]){10});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 1);
}

/* The last stage makes much of little: feeders leave it to the trainers, which would take longer to receive it. */
static void test_what_is_cheap_and_large_stays(void **state) {
    (void)state;
    static const struct aml_stage wide[] = {{.name = "parse", .bytes = 100},
                                            {.name = "crop", .from = "parse", .bytes = 50},
                                            {.name = "widen", .from = "crop", .bytes = 1000000},
                                            {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, wide);
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 3); /* nothing is measured yet */
    measure(&cut, (const double[]){200, 200, 20});
    choose(&cut, 1, 0, 1);
    assert_int_equal(cut.wanted, 3); /* nobody would make anything */
    choose(&cut, 1, 4, 1);
    assert_int_equal(cut.wanted, 2); /* 20 us here, 500 for the bytes */
    choose(&cut, 1, 4, 1);
    assert_int_equal(cut.wanted, 2);
}

/* Few feeders for many nodes: these keep what they can do themselves meanwhile; with more feeders they don't. */
static void test_the_slower_side_counts(void **state) {
    (void)state;
    static const struct aml_stage alike[] = {
        {.name = "one", .bytes = 100}, {.name = "two", .from = "one", .bytes = 100}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, alike);
    measure(&cut, (const double[]){100, 80});
    choose(&cut, 2, 1, 1);
    assert_int_equal(cut.wanted, 1); /* 40 us here, 50 there */
    choose(&cut, 2, 16, 1);
    assert_int_equal(cut.wanted, 2);
    choose(&cut, 2, 16, 16);
    assert_int_equal(cut.wanted, 1);
}

/* The cut with the least time would send more than all stages do. */
static void test_no_cut_sends_more(void **state) {
    (void)state;
    struct feed_cut cut = {0};
    feed_cut_open(&cut, chain);
    measure(&cut, (const double[]){500, 500, 1000, 10});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 3);
}

/* Costs follow the job; a cut that is hardly better is not worth a change. */
static void test_costs_change(void **state) {
    (void)state;
    static const struct aml_stage alike[] = {
        {.name = "one", .bytes = 100}, {.name = "two", .from = "one", .bytes = 100}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, alike);
    measure(&cut, (const double[]){100, 5});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 2); /* 100 us in place of 105 */
    for (unsigned turn = 0; turn < 10 * FEED_CUT_SAMPLES_MAX / FEED_CUT_SAMPLES; turn++) {
        measure(&cut, (const double[]){100, 90});
        choose(&cut, 1, 1, 1);
    }
    assert_int_equal(cut.wanted, 1);
    assert_true(cut.stages[1].us > 85 && cut.stages[1].us < 90.001);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_with_state_stay),
        cmocka_unit_test(test_one_stage_is_one_cut),
        cmocka_unit_test(test_what_is_cheap_and_large_stays),
        cmocka_unit_test(test_the_slower_side_counts),
        cmocka_unit_test(test_no_cut_sends_more),
        cmocka_unit_test(test_costs_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
