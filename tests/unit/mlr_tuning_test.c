/* mlr's choices by its samples: sums of features, drawn samples, cross-validation, scales. */
#include "agileml.h"
#include "apps/app.h"
#include "apps/mlr/tuning.h"
#include "tests/test.h"

#include <math.h>

static unsigned random_state = 1;

static double random_uniform(void) {
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 8) / 16777216.0;
}

/* About normally distributed. */
static double random_normal(void) {
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += random_uniform();
    }
    return sum;
}

/* ---- Statistics ---- */

static void take(struct statistics *statistics, struct labels *labels, unsigned label, const uint32_t *features,
                 const double *values, uint32_t count) {
    struct sample sample = {
        .place = statistics->seen * 100, .labelled = true, .features = features, .values = values, .count = count};
    struct error error = {0};
    char text[16];
    snprintf(text, sizeof text, "%u", label);
    assert_true(label_make(&sample.label, text, strlen(text)));
    assert_true(labels_add(labels, &sample.label));
    assert_int_equal(statistics_take(statistics, &sample, &error), 0);
}

TEST(sums_keep_their_digits) {
    CLOSED_BY(statistics_close) struct statistics statistics = {.seed = 1, .sums_alone = true};
    CLOSED_BY(labels_close) struct labels labels = {0};
    enum { ROWS = 1000 };
    for (unsigned r = 0; r < ROWS; r++) {
        const double values[] = {1e9 + (r % 2 == 0 ? 1 : -1), 7, 1e-20 * (r % 4), r == 900 ? 5 : 0};
        take(&statistics, &labels, r % 2, NULL, values, 4);
    }
    labels_sort(&labels);
    statistics_end(&statistics, NULL, 0, 5, &labels);
    assert_int_equal(statistics.samples, ROWS);
    assert_int_equal(statistics.label_counts[0], ROWS / 2);
    struct feature_moments moments = statistics_moments(&statistics, 0);
    assert_true(fabs(moments.mean - 1e9) < 1e-3 && fabs(moments.variance - 1) < 1e-6 && moments.part == 1);
    moments = statistics_moments(&statistics, 1);
    assert_true(moments.mean == 7 && moments.variance == 0);
    moments = statistics_moments(&statistics, 2);
    assert_true(fabs(moments.variance / 1.25e-40 - 1) < 1e-6 && moments.part == 0.75);
    moments = statistics_moments(&statistics, 3);
    assert_true(fabs(moments.variance - (25 - 25.0 / ROWS) / ROWS) < 1e-9 && fabs(moments.part - 0.001) < 1e-12);
    assert_true(statistics_size(&statistics, 3) == 5);
    assert_true(statistics_size(&statistics, 4) == 0); /* in no sample */
    assert_int_equal(statistics.drawn_count, 0);
    double *centres;
    double *factors;
    assert_int_equal(statistics_standardize(&statistics, 5, true, &centres, &factors), 2);
    assert_true(fabs(centres[0] - 1e9) < 1e-3 && fabs(factors[0] - 1) < 1e-6);
    assert_true(centres[1] == 7 && factors[1] == 0 && factors[4] == 0);
    free(centres);
    free(factors);
    assert_int_equal(statistics_standardize(&statistics, 5, false, &centres, &factors), 1);
    assert_true(centres == NULL && factors[3] == 0.2 && factors[4] == 0 && fabs(factors[1] * 7 - 1) < 1e-9);
    free(factors);
}

/* Values that are not stored count as 0; indexes may count from 1. */
TEST(zeros_that_are_not_written_count) {
    CLOSED_BY(statistics_close) struct statistics statistics = {.seed = 1};
    CLOSED_BY(labels_close) struct labels labels = {0};
    const uint32_t features[] = {3};
    for (unsigned r = 0; r < 10; r++) {
        const double value[] = {1e6 + r % 2};
        take(&statistics, &labels, 1, features, value, r < 4 ? 1 : 0);
    }
    labels_sort(&labels);
    statistics_end(&statistics, NULL, 1, 3, &labels);
    struct feature_moments moments = statistics_moments(&statistics, 2);
    assert_true(fabs(moments.mean - 400000.2) < 1e-6 && moments.part == 0.4);
    assert_true(fabs(moments.variance / (0.24 * 1e12) - 1) < 1e-5);
    assert_int_equal(statistics.drawn_count, 10);
    for (size_t i = 0; i < statistics.drawn_count; i++) {
        assert_true(statistics.drawn[i].count == 0 || statistics.drawn[i].features[0] == 2);
    }
}

/* Features get their final numbers from a survey: here in reverse order, and one feature never occurs. */
TEST(features_get_their_final_numbers) {
    CLOSED_BY(statistics_close) struct statistics statistics = {.seed = 1};
    CLOSED_BY(labels_close) struct labels labels = {0};
    const uint32_t features[] = {2, 7};
    const uint32_t numbers[] = {0, 0, 1, 0, 0, 0, 0, 0};
    for (unsigned r = 0; r < 10; r++) {
        const double values[] = {3, r};
        take(&statistics, &labels, r % 2, features, values, r < 5 ? 1 : 2);
    }
    labels_sort(&labels);
    statistics_end(&statistics, numbers, 0, 2, &labels);
    assert_int_equal(statistics.feature_count, 2);
    struct feature_moments moments = statistics_moments(&statistics, 1);
    assert_true(moments.mean == 3 && moments.part == 1);
    moments = statistics_moments(&statistics, 0);
    assert_true(fabs(moments.mean - 3.5) < 1e-12 && moments.part == 0.5);
    for (size_t i = 0; i < statistics.drawn_count; i++) {
        assert_true(statistics.drawn[i].features[0] == 1);
        assert_true(statistics.drawn[i].count == 1 || statistics.drawn[i].features[1] == 0);
    }
}

/* The same samples are drawn at any scale of values, up to a limit, and no held-out sample. */
TEST(samples_are_drawn_alike) {
    struct statistics all[2] = {{.seed = 3, .test_fraction = 0.25}, {.seed = 3, .test_fraction = 0.25}};
    CLOSED_BY(labels_close) struct labels labels = {0};
    enum { ROWS = 3000, FEATURES = 1000 };
    FREED double *values = calloc(FEATURES, sizeof *values);
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned s = 0; s < 2; s++) {
            values[0] = s == 0 ? r : r * 1e7;
            take(&all[s], &labels, r % 3, NULL, values, FEATURES);
        }
    }
    labels_sort(&labels);
    for (unsigned s = 0; s < 2; s++) {
        statistics_end(&all[s], NULL, 0, FEATURES, &labels);
        assert_int_equal(all[s].drawn_count, STATISTICS_DRAWN_MIN);
        assert_true(all[s].samples > 0.7 * ROWS && all[s].samples < 0.8 * ROWS);
    }
    for (size_t i = 0; i < all[0].drawn_count; i++) {
        unsigned row = (unsigned)lround(all[0].drawn[i].values[0]);
        assert_true(all[1].drawn[i].values[0] == row * 1e7);
        assert_int_equal(all[0].drawn[i].label, row % 3);
        assert_false(app_held_out(aml_mix(3, row * 100), 0.25));
    }
    statistics_close(&all[0]);
    statistics_close(&all[1]);
}

/* ---- Cross-validation ---- */

struct made_set {
    struct validate_set set;
    size_t *starts;
    uint32_t *places, *labels;
    float *values;
};

/* Makes two classes, `shift` apart in the first `useful` of `columns` columns. `more` columns of zeros follow. */
static struct made_set make_set(size_t rows, uint32_t columns, uint32_t useful, double shift, uint32_t more) {
    struct made_set made = {.starts = calloc(rows + 1, sizeof *made.starts),
                            .places = calloc(rows * columns, sizeof *made.places),
                            .labels = calloc(rows, sizeof *made.labels),
                            .values = calloc(rows * columns, sizeof *made.values)};
    random_state = 5;
    for (size_t r = 0; r < rows; r++) {
        made.labels[r] = random_uniform() < 0.3;
        for (uint32_t c = 0; c < columns; c++) {
            made.places[r * columns + c] = c;
            made.values[r * columns + c] = (float)(random_normal() + (c < useful && made.labels[r] ? shift : 0));
        }
        made.starts[r + 1] = (r + 1) * columns;
    }
    made.set = (struct validate_set){.rows = rows,
                                     .columns = columns + more,
                                     .classes = 2,
                                     .labels = made.labels,
                                     .starts = made.starts,
                                     .places = made.places,
                                     .values = made.values};
    return made;
}

static void made_close(struct made_set *made) {
    free(made->starts);
    free(made->places);
    free(made->labels);
    free(made->values);
}

TEST(noise_is_no_better_than_the_constant) {
    CLOSED_BY(made_close) struct made_set made = make_set(400, 600, 0, 0, 0);
    struct validated result;
    assert_true(validate(&made.set, &result));
    assert_true(result.loss > result.constant - 0.02);
    assert_true(result.constant > 0.5 && result.constant < 0.7);
    assert_true(result.c < 0.1);
}

/* With the true logits, the loss for two normal classes at this distance is about 0.30. */
TEST(what_can_be_learned_is_found) {
    CLOSED_BY(made_close) struct made_set made = make_set(2000, 5, 1, 2, 0);
    struct validated result;
    assert_true(validate(&made.set, &result));
    double loss = 0;
    for (size_t r = 0; r < made.set.rows; r++) {
        double logit = 2 * (double)made.values[r * 5] - 2 + log(0.3 / 0.7);
        loss += log(1 + exp(made.labels[r] ? -logit : logit)) / (double)made.set.rows;
    }
    assert_true(fabs(result.loss - loss) < 0.01);
    assert_true(result.c >= 0.01);
}

/* With more columns than rows, a factor of X X' replaces X; the result is the same. */
TEST(a_factor_is_as_good_as_the_columns) {
    struct validated results[2];
    for (uint32_t turn = 0; turn < 2; turn++) {
        CLOSED_BY(made_close) struct made_set made = make_set(300, 80, 2, 1, turn * 300);
        assert_true(validate(&made.set, &results[turn]));
    }
    assert_true(results[0].c == results[1].c);
    assert_true(fabs(results[0].loss - results[1].loss) < 1e-3 * results[0].loss);
}

/* With steps instead of L-BFGS, noise gives no better loss than the constant, and learnable data as good a loss. */
TEST(by_steps) {
    const struct validate_pace pace = {.rate = 0.015, .rare = 0.5};
    struct validated by_steps;
    struct validated exact;
    struct made_set made = make_set(400, 600, 0, 0, 0);
    assert_true(validate_by_steps(&made.set, &pace, &by_steps));
    assert_true(by_steps.loss > by_steps.constant - 0.02);
    assert_true(by_steps.constant > 0.5 && by_steps.constant < 0.7);
    assert_true(by_steps.c < 0.1);
    made_close(&made);
    made = make_set(2000, 5, 1, 2, 0);
    assert_true(validate(&made.set, &exact) && validate_by_steps(&made.set, &pace, &by_steps));
    assert_true(fabs(by_steps.loss - exact.loss) < 0.01);
    assert_true(by_steps.c >= 0.01 && by_steps.c < 3);
    made.set.rows = 2;
    assert_true(validate_by_steps(&made.set, &pace, &by_steps) && isfinite(by_steps.loss) && isfinite(by_steps.c));
    made.set.rows = 1;
    assert_false(validate_by_steps(&made.set, &pace, &by_steps));
    made.set.rows = 100;
    made.set.classes = 3;
    assert_false(validate_by_steps(&made.set, &pace, &by_steps));
    made_close(&made);
}

TEST(few_rows) {
    struct validated result;
    CLOSED_BY(made_close) struct made_set made = make_set(2, 3, 3, 1, 0);
    assert_true(validate(&made.set, &result));
    assert_true(isfinite(result.constant));
    made.set.rows = 1;
    assert_false(validate(&made.set, &result));
}

TEST(curvature) {
    const size_t starts[] = {0, 1, 2};
    const uint32_t places[] = {0, 1};
    const float values[] = {10, 1};
    const struct validate_set set = {
        .rows = 2, .columns = 2, .classes = 2, .starts = starts, .places = places, .values = values};
    /* Half of (10, 0, 1)(10, 0, 1)' + (0, 1, 1)(0, 1, 1)': between 50 and the trace, 51.5. */
    assert_true(validate_curvature(&set) > 50 && validate_curvature(&set) < 51.5);
}

/* ---- Tuning ---- */

/* The model is the same for any units and offsets of features; a constant feature is left out. */
TEST(units_do_not_matter) {
    static const double scales[2][4] = {{1, 1, 1, 1}, {1e-6, 1e6, -37, 1e12}};
    static const double offsets[2][4] = {{0, 0, 0, 3}, {1e-5, -1e9, 1e6, 3e12}};
    struct tuning tuned[2];
    for (unsigned turn = 0; turn < 2; turn++) {
        CLOSED_BY(statistics_close) struct statistics statistics = {.seed = 1};
        CLOSED_BY(labels_close) struct labels labels = {0};
        random_state = 9;
        for (unsigned r = 0; r < 400; r++) {
            double values[4];
            for (unsigned f = 0; f < 4; f++) {
                double value = f < 3 ? random_normal() + (r % 2) * f : 0;
                values[f] = offsets[turn][f] + scales[turn][f] * value;
            }
            take(&statistics, &labels, r % 2, NULL, values, 4);
        }
        labels_sort(&labels);
        statistics_end(&statistics, NULL, 0, 4, &labels);
        const struct scale given = {.kind = SCALE_AUTO, .features = 4};
        tuning_make(&tuned[turn], &statistics, &given, true, 2, true);
        assert_int_equal(tuned[turn].scale.kind, SCALE_STANDARD);
        assert_int_equal(tuned[turn].dropped, 1);
        assert_true(fabs(tuned[turn].length - 3) < 0.2);
    }
    assert_true(tuned[0].validated && tuned[0].validation.c == tuned[1].validation.c);
    assert_true(fabs(tuned[0].validation.loss - tuned[1].validation.loss) < 1e-3);
    tuning_close(&tuned[0]);
    tuning_close(&tuned[1]);
}
