/* Tests of proteus/forecast.h: the remaining time by iterations, by seconds and by the objective's trend. */
#include "proteus/forecast.h"
#include "tests/test.h"

#include <math.h>

static struct forecast begin(const char *terms) {
    struct forecast forecast;
    struct report_line *line = report_line_read(terms, strlen(terms), NULL);
    assert_non_null(line);
    forecast_begin(&forecast);
    forecast_terms(&forecast, line);
    report_line_drop(line);
    return forecast;
}

static void assert_near(double value, double expected, double apart) {
    if (!(fabs(value - expected) <= apart)) {
        fail_msg("%g, expected %g", value, expected);
    }
}

TEST(nothing_known) {
    struct forecast forecast = begin("{}");
    struct forecast_left left = forecast_left(&forecast, 5);
    assert_true(isnan(left.share) && isnan(left.seconds));
    forecast_take(&forecast, 1, 5, 0.5, 1);
    left = forecast_left(&forecast, 5);
    assert_true(isnan(left.share) && isnan(left.seconds));
}

TEST(iterations) {
    struct forecast forecast = begin("{\"iterations\":10}");
    struct forecast_left left = forecast_left(&forecast, 1);
    assert_near(left.share, 0, 0);
    assert_true(isnan(left.seconds)); /* no pace yet */
    for (int i = 1; i <= 4; i++) {
        forecast_take(&forecast, i, 2.0 * i, NAN, 1);
    }
    left = forecast_left(&forecast, 8);
    assert_near(left.share, 0.4, 1e-9);
    assert_near(left.seconds, 12, 1e-9);
    assert_true(left.estimated);
    assert_near(forecast_left(&forecast, 9.5).seconds, 10.5, 1e-9); /* time passes within an iteration */
    assert_near(forecast_left(&forecast, 1000).seconds, 0, 0);
}

/* The pace follows recent iterations after a cluster has become faster or slower. */
TEST(pace_is_the_recent_one) {
    struct forecast forecast = begin("{\"iterations\":200}");
    double seconds = 0;
    for (int i = 1; i <= 100; i++) {
        seconds += i <= 50 ? 10 : 1;
        forecast_take(&forecast, i, seconds, NAN, 1);
    }
    assert_near(forecast_left(&forecast, seconds).seconds, 100, 20);
}

/* A resumed job begins with a later iteration, which does not count for the pace. */
TEST(resumed) {
    struct forecast forecast = begin("{\"iterations\":100}");
    forecast_take(&forecast, 91, 2, NAN, 1);
    assert_true(isnan(forecast_left(&forecast, 2).seconds));
    assert_near(forecast_left(&forecast, 2).share, 0.91, 1e-9);
    forecast_take(&forecast, 92, 4, NAN, 1);
    assert_near(forecast_left(&forecast, 4).seconds, 16, 1e-9);
}

TEST(seconds_are_exact) {
    struct forecast forecast = begin("{\"until_seconds\":90}");
    struct forecast_left left = forecast_left(&forecast, 30);
    assert_near(left.seconds, 60, 0);
    assert_near(left.share, 1.0 / 3, 1e-9);
    assert_false(left.estimated);
    left = forecast_left(&forecast, 95);
    assert_near(left.seconds, 0, 0);
    assert_near(left.share, 1, 0);
}

TEST(the_first_criterion_counts) {
    struct forecast forecast = begin("{\"until_seconds\":90,\"iterations\":1000}");
    forecast_take(&forecast, 1, 1, NAN, 1);
    assert_false(forecast_left(&forecast, 1).estimated);
    assert_near(forecast_left(&forecast, 1).seconds, 89, 0);
    forecast = begin("{\"until_seconds\":90,\"iterations\":10}");
    forecast_take(&forecast, 1, 1, NAN, 1);
    assert_true(forecast_left(&forecast, 1).estimated);
    assert_near(forecast_left(&forecast, 1).seconds, 9, 1e-9);
}

/* An objective whose relative change falls by a tenth with each evaluation. */
struct series {
    struct forecast forecast;
    double objective, change;
    int iteration;
};

static void go_on(struct series *series, int evaluations, int every) {
    for (int e = 0; e < evaluations; e++) {
        for (int i = 1; i < every; i++) {
            series->iteration++;
            forecast_take(&series->forecast, series->iteration, series->iteration * 0.5, NAN, 1);
        }
        series->iteration++;
        series->objective *= 1 - series->change;
        series->change *= 0.9;
        forecast_take(&series->forecast, series->iteration, series->iteration * 0.5, series->objective, 1);
    }
}

/* 0.1 * 0.9^n is below 0.001 from n = 43.7 on: the 44th change and the two after it are small enough. */
static void check_trend(int every) {
    struct series series = {begin("{\"tolerance\":0.001,\"tolerance_iterations\":3}"), 1000, 0.1, 0};
    go_on(&series, 3, every);
    assert_true(isnan(forecast_left(&series.forecast, series.iteration * 0.5).seconds));
    go_on(&series, 22, every);
    double seconds = series.iteration * 0.5;
    struct forecast_left left = forecast_left(&series.forecast, seconds);
    double expected = (48 - 25) * every * 0.5;
    assert_near(left.seconds, expected, expected / 10);
    assert_true(left.estimated);
    assert_near(left.share, seconds / (seconds + expected), 0.05);
    go_on(&series, 22, every); /* two small changes; a third is missing */
    assert_near(forecast_left(&series.forecast, series.iteration * 0.5).seconds, every * 0.5, every);
}

TEST(tolerance) {
    check_trend(1);
    check_trend(4);
}

/* An objective that does not settle gives no forecast. */
TEST(no_trend) {
    struct forecast forecast = begin("{\"tolerance\":0.001,\"tolerance_iterations\":3}");
    for (int i = 1; i <= 50; i++) {
        forecast_take(&forecast, i, i, i % 2 == 0 ? 1 : 2, 1);
    }
    assert_true(isnan(forecast_left(&forecast, 50).seconds));
}

/* A late observer sees the objective in larger steps. */
TEST(tolerance_seen_by_steps) {
    struct series series = {begin("{\"tolerance\":0.001,\"tolerance_iterations\":3}"), 1000, 0.1, 0};
    struct forecast late = begin("{\"tolerance\":0.001,\"tolerance_iterations\":3}");
    for (int s = 0; s < 12; s++) {
        go_on(&series, 2, 1);
        forecast_take(&late, series.iteration, series.iteration * 0.5, series.objective, 2);
    }
    assert_near(forecast_left(&late, series.iteration * 0.5).seconds, (48 - 24) * 0.5, 2.5);
}
