/* The spread of ratings of any scale, refused ratings, and the learning rate's schedule. */
#include "apps/mf/schedule.h"
#include "apps/mf/spread.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>

/* Ratings 1 to 5 in the proportions 1, 1, 3, 3, 2; times `factor`, plus `offset`. */
enum { TURNS = 100000 };
static const double MEAN = 3.4;
static const double DEVIATION = 1.2;

static int spread_of(double factor, double offset, unsigned turns, struct mf_spread *spread, struct error *error) {
    static const int ratings[] = {1, 2, 3, 3, 3, 4, 4, 4, 5, 5};
    struct mf_sums sums = {0};
    double minimum = INFINITY;
    double maximum = -INFINITY;
    for (unsigned i = 0; i < turns * 10; i++) {
        float rating = (float)(factor * ratings[i % 10] + offset);
        mf_sums_add(&sums, rating);
        minimum = fmin(minimum, (double)rating);
        maximum = fmax(maximum, (double)rating);
    }
    return mf_spread_of(&sums, minimum, maximum, spread, error);
}

static void assert_near(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * fabs(expected))) {
        fail_msg("%.9g, expected %.9g", got, expected);
    }
}

TEST(any_scale) {
    static const struct {
        double factor, offset;
    } scales[] = {{1, 0},    {1e-20, 0}, {1e20, 0},     {1e-34, 0}, {1e36, 0},      {20, 0},      {0.01, 0},
                  {1, 1000}, {1, 1e6},   {1, 16777210}, {1, -1e6},  {1e-20, 1e-15}, {1e20, 1e25}, {1e10, -1e12}};
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        struct mf_spread spread;
        struct error error = {0};
        assert_int_equal(spread_of(scales[s].factor, scales[s].offset, TURNS, &spread, &error), 0);
        double scale = fabs(scales[s].offset) + scales[s].factor;
        assert_true(fabs((double)spread.mean - (scales[s].factor * MEAN + scales[s].offset)) < 1e-6 * scale);
        /* Ratings far from 0 have been rounded to floats. */
        assert_near((double)spread.unit, -scales[s].factor * DEVIATION, scales[s].offset == 0 ? 1e-6 : 0.02);
    }
}

/* The unit has the sign of the longer side, so r and -r are learned alike. */
TEST(the_longer_side_is_up) {
    struct mf_spread spread;
    struct error error = {0};
    assert_int_equal(spread_of(-1, 0, 1, &spread, &error), 0);
    assert_near((double)spread.unit, DEVIATION, 1e-6);
    assert_near((double)spread.mean, -MEAN, 1e-6);
    assert_int_equal(spread_of(1, 0, 1, &spread, &error), 0);
    assert_near((double)spread.unit, -DEVIATION, 1e-6);
}

TEST(squares_in_two_parts) {
    static const double squares[] = {0, 1, 2, 16777215.0 * 16777215.0, 1e76, 1e-75, 0.1 * 0.1};
    for (size_t s = 0; s < sizeof squares / sizeof squares[0]; s++) {
        double high = mf_square_high(squares[s]);
        double low = squares[s] - high;
        assert_true(high + low == squares[s] && low >= 0 && low <= squares[s] * 0x1p-25);
    }
}

/* The deviation around the mean, and around another constant. */
TEST(deviation_around_a_constant) {
    struct mf_sums sums = {0};
    assert_true(mf_sums_deviation(&sums, 1) == 0);
    for (int i = 1; i <= 5; i++) {
        mf_sums_add(&sums, (float)i);
    }
    assert_near(mf_sums_deviation(&sums, 3), sqrt(2), 1e-12);
    assert_near(mf_sums_deviation(&sums, 0), sqrt(11), 1e-12);
}

TEST(refused_ratings) {
    static const struct {
        double factor, offset;
        const char *line;
    } cases[] = {
        {0, 4, "all ratings (10) are 4: expected ratings that differ"},
        {0, 0, "all ratings (10) are 0 (numbers below 1.2e-38 count as 0)"},
        {1e-3, 1e6, "all ratings (10) are 1e+06"}, /* equal as floats */
        {1e-36, 0, "standard deviation is 1.2e-36: expected at least 1e-35; multiply them all"},
        {6e37, 0, "go from 6e+37 to 3e+38: expected numbers between -1e+37 and 1e+37; divide them all"},
        {1, 3e37, "expected ratings that differ"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct mf_spread spread;
        struct error error = {0};
        assert_int_equal(spread_of(cases[c].factor, cases[c].offset, 1, &spread, &error), AML_EINPUT);
        if (strstr(error.text, cases[c].line) == NULL) {
            fail_msg("'%s', expected '%s'", error.text, cases[c].line);
        }
    }
}

TEST(long_tails) {
    char text[256];
    struct mf_spread spread = {.mean = 3, .unit = 10, .minimum = 0, .maximum = 304};
    assert_true(mf_spread_has_tail(&spread, text, sizeof text));
    assert_non_null(strstr(text, "the highest, 304, is 30 standard deviations (10) above the mean, 3"));
    assert_non_null(strstr(text, "--log1p"));
    spread.minimum = -1;
    assert_true(mf_spread_has_tail(&spread, text, sizeof text));
    assert_null(strstr(text, "--log1p"));
    spread.maximum = 302;
    assert_false(mf_spread_has_tail(&spread, text, sizeof text));
    spread = (struct mf_spread){.mean = 0, .unit = -1, .minimum = -40, .maximum = 2};
    assert_false(mf_spread_has_tail(&spread, text, sizeof text));
}

TEST(rates) {
    struct mf_schedule schedule = {.iterations = 20};
    assert_near(mf_schedule_rate(&schedule, 1), 0.04, 1e-12);
    assert_near(mf_schedule_rate(&schedule, 11), 0.02, 1e-12);
    assert_near(mf_schedule_rate(&schedule, 20), 0.002, 1e-12);
    assert_near(mf_schedule_rate(&schedule, 25), 0.002, 1e-12); /* beyond the last iteration */
    double sum = 0;
    schedule.iterations = 200;
    for (uint64_t i = 1; i <= 200; i++) {
        sum += mf_schedule_rate(&schedule, i);
    }
    assert_near(sum, 0.4, 0.01);
    schedule.iterations = 1;
    assert_near(mf_schedule_rate(&schedule, 1), 0.1, 1e-12); /* not 0.8 */
    schedule.iterations = 0;
    assert_near(mf_schedule_rate(&schedule, 1), 0.04, 1e-12);
    assert_near(mf_schedule_rate(&schedule, 3), 0.04 * 0.92 * 0.92, 1e-12);
    assert_true(mf_schedule_rate(&schedule, UINT64_MAX) >= 0);
    schedule.iterations = 100000000; /* more than any job needs */
    assert_near(mf_schedule_rate(&schedule, 3), 0.04 * 0.92 * 0.92, 1e-12);
    schedule = (struct mf_schedule){.rate = 0.025, .decay = 0.9, .iterations = 10};
    assert_near(mf_schedule_rate(&schedule, 3), 0.025 * 0.81, 1e-12);
    schedule.decay = 0;
    assert_near(mf_schedule_rate(&schedule, 6), 0.0125, 1e-12);
}
