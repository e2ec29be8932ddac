/* agileml/base/trial: the judgement of a trial, and the pauses between trials. */
#include "agileml/base/trial.h"
#include "tests/test.h"

#include <math.h>

static const struct trial_rule rule = {
    .samples = 8, .least = 2, .most = 8, .margin = 0.05, .clear = 0.2, .hopeless = 2};

static void measure_usual(struct trial *trial, double sample) {
    for (unsigned i = 0; i < 2 * TRIAL_SAMPLES_MAX; i++) {
        trial_run_add(&trial->usual, rule.samples, sample);
    }
}

/* A clear difference ends the trial early, a smaller one later, and a hopeless change at once. */
TEST(verdicts) {
    static const struct {
        double tried;
        unsigned samples;
        enum trial_verdict verdict;
    } cases[] = {{0.7, 2, TRIAL_KEPT},        {0.89, 7, TRIAL_KEPT},     {0.94, 8, TRIAL_KEPT},
                 {0.96, 8, TRIAL_TAKEN_BACK}, {1, 8, TRIAL_TAKEN_BACK},  {1.11, 7, TRIAL_TAKEN_BACK},
                 {1.5, 2, TRIAL_TAKEN_BACK},  {2.5, 1, TRIAL_TAKEN_BACK}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct trial trial = {0};
        measure_usual(&trial, 1);
        trial_begin(&trial);
        for (unsigned i = 1; i < cases[c].samples; i++) {
            assert_int_equal(trial_add_tried(&trial, &rule, cases[c].tried), TRIAL_OPEN);
            assert_int_equal(trial.state, TRIAL_TRIED);
        }
        assert_int_equal(trial_add_tried(&trial, &rule, cases[c].tried), cases[c].verdict);
        assert_int_equal(trial.state, TRIAL_USUAL);
        assert_int_equal(trial.usual.count, 0); /* whatever is usual now is measured anew */
    }
}

/* The median of the last samples counts: neither old ones nor single large ones do. */
TEST(medians) {
    struct trial trial = {0};
    measure_usual(&trial, 100);
    for (unsigned i = 0; i < rule.samples; i++) {
        trial_run_add(&trial.usual, rule.samples, i == 3 ? 1000 : 1);
    }
    assert_true(trial_run_median(&trial.usual, rule.samples) == 1);
    trial_begin(&trial);
    assert_int_equal(trial_add_tried(&trial, &rule, 1), TRIAL_OPEN);
    trial_drop(&trial);
    assert_int_equal(trial.state, TRIAL_USUAL);
    assert_int_equal(trial.usual.count + trial.tried.count, 0);
}

TEST(gains) {
    assert_true(trial_gains(0.9, 1, 0.05));
    assert_true(trial_gains(1, 1, 0));
    assert_false(trial_gains(0.96, 1, 0.05));
}

TEST(pauses) {
    struct trial_pause pause = {0};
    assert_true(trial_pause_is_over(&pause, 0));
    static const uint64_t waits[] = {20, 40, 80, 100, 100};
    for (unsigned i = 0; i < sizeof waits / sizeof *waits; i++) {
        trial_pause_begin(&pause, 1000, TRIAL_WAIT_LONGER, 20, 100);
        assert_int_equal(pause.failures, i + 1);
        assert_false(trial_pause_is_over(&pause, 1000 + waits[i] - 1));
        assert_true(trial_pause_is_over(&pause, 1000 + waits[i]));
    }
    trial_pause_begin(&pause, 1000, TRIAL_WAIT_SAME, 20, 100);
    assert_int_equal(pause.wait, 100);
    trial_pause_begin(&pause, 1000, TRIAL_WAIT_FIRST, 20, 100);
    assert_int_equal(pause.wait, 20);
    assert_int_equal(pause.failures, 0);
    trial_pause_begin(&pause, 1000, TRIAL_WAIT_LONGER, 20, 100);
    assert_int_equal(pause.wait, 40);
    pause = (struct trial_pause){0};
    trial_pause_begin(&pause, 1000, TRIAL_WAIT_SAME, 20, UINT64_MAX);
    assert_int_equal(pause.wait, 20);
    assert_true(trial_longer(UINT64_MAX - 1, 20, UINT64_MAX) == UINT64_MAX);
}
