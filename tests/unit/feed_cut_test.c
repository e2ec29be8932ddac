/* workers/process/feed_cut: how many of an app's first transforms feeders run. */
#include "tests/test.h"
#include "workers/process/feed_cut.h"

/* Three transforms that feeders may run, and a transform with state. Decode enlarges its items, blur takes long, crop
 * reduces them. */
static const struct aml_transform chain[] = {
    {.name = "decode", .bytes = 100000},
    {.name = "blur", .from = "decode", .bytes = 100000},
    {.name = "crop", .from = "blur", .bytes = 1000},
    {.name = "look", .from = "crop", .flags = AML_TRANSFORM_STATE, .bytes = 1000},
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

TEST(transforms_with_state_stay) {
    struct feed_cut cut = {0};
    feed_cut_open(&cut, chain);
    assert_int_equal(cut.count, 4);
    assert_int_equal(cut.feedable, 3);
    assert_int_equal(cut.wanted, 3); /* all that feeders may run, while no costs are known */
    struct feed_cut none = {0};
    feed_cut_open(&none, NULL);
    assert_int_equal(none.wanted, 0);
    struct feed_cut kept = {0};
    feed_cut_open(&kept, chain + 3);
    assert_int_equal(kept.feedable, 0);
}

/* With one transform there is nothing to choose, whatever is measured. */
TEST(one_transform_is_one_cut) {
    static const struct aml_transform one[] = {{.name = "shift", .bytes = 784}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, one);
    measure(&cut, (const double[]){10});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 1);
}

/* The last transform is cheap and enlarges its items: feeders leave it to the trainers, for which receiving its output
 * takes longer. */
TEST(what_is_cheap_and_large_stays) {
    static const struct aml_transform wide[] = {{.name = "parse", .bytes = 100},
                                                {.name = "crop", .from = "parse", .bytes = 50},
                                                {.name = "widen", .from = "crop", .bytes = 1000000},
                                                {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, wide);
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 3); /* nothing is measured yet */
    measure(&cut, (const double[]){200, 200, 20});
    choose(&cut, 1, 0, 1);
    assert_int_equal(cut.wanted, 3); /* no feeder works */
    choose(&cut, 1, 4, 1);
    assert_int_equal(cut.wanted, 2); /* the transform takes 20 us here; receiving its output takes 500 */
    choose(&cut, 1, 4, 1);
    assert_int_equal(cut.wanted, 2);
}

/* With few feeders for many nodes, trainers keep transforms that they have time for; with more feeders they don't. */
TEST(the_slower_side_counts) {
    static const struct aml_transform alike[] = {
        {.name = "one", .bytes = 100}, {.name = "two", .from = "one", .bytes = 100}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, alike);
    measure(&cut, (const double[]){100, 80});
    choose(&cut, 2, 1, 1);
    assert_int_equal(cut.wanted, 1); /* 40 us at trainers, 50 at feeders */
    choose(&cut, 2, 16, 1);
    assert_int_equal(cut.wanted, 2);
    choose(&cut, 2, 16, 16);
    assert_int_equal(cut.wanted, 1);
}

/* The fastest cut would send more bytes than the output of all transforms. */
TEST(no_cut_sends_more) {
    struct feed_cut cut = {0};
    feed_cut_open(&cut, chain);
    measure(&cut, (const double[]){500, 500, 1000, 10});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 3);
}

/* The cut follows changing costs, but does not change for a small gain. */
TEST(costs_change) {
    static const struct aml_transform alike[] = {
        {.name = "one", .bytes = 100}, {.name = "two", .from = "one", .bytes = 100}, {.name = NULL}};
    struct feed_cut cut = {0};
    feed_cut_open(&cut, alike);
    measure(&cut, (const double[]){100, 5});
    choose(&cut, 1, 1, 1);
    assert_int_equal(cut.wanted, 2); /* 100 us instead of 105 */
    for (unsigned turn = 0; turn < 10 * FEED_CUT_SAMPLES_MAX / FEED_CUT_SAMPLES; turn++) {
        measure(&cut, (const double[]){100, 90});
        choose(&cut, 1, 1, 1);
    }
    assert_int_equal(cut.wanted, 1);
    assert_true(cut.transforms[1].us > 85 && cut.transforms[1].us < 90.001);
}
