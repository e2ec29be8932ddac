/* See forecast.h. */
#include "proteus/forecast.h"

#include <math.h>

enum {
    TREND_COUNT_MIN = 5,    /* changes before the trend is extrapolated */
    TREND_WINDOW_MIN = 8,   /* least number of changes in the window */
    TREND_WINDOW_SHARE = 3, /* a longer job's window is the last third of its changes */
    TREND_REACH = 10,       /* longest extrapolation, in multiples of the iterations seen */
};

#define PACE_SECONDS    10.0   /* older iterations count little */
#define PACE_KEPT       0.8    /* least weight of an iteration after the next one, however long that takes */
#define LEFT_MAX        3.15e7 /* a year: a longer forecast counts as unknown */
#define CHANGE_LEAST    1e-3   /* least change that counts, in parts of the tolerance */
#define OBJECTIVE_LEAST 1e-300

void forecast_begin(struct forecast *forecast) {
    *forecast = (struct forecast){.trend.objective = NAN};
}

void forecast_terms(struct forecast *forecast, const struct report_line *line) {
    forecast->iterations = line->iterations >= 0 ? line->iterations : forecast->iterations;
    forecast->seconds = line->until_seconds >= 0 ? line->until_seconds : forecast->seconds;
    forecast->tolerance = line->tolerance >= 0 ? line->tolerance : forecast->tolerance;
    forecast->tolerance_iterations =
        line->tolerance_iterations >= 0 ? line->tolerance_iterations : forecast->tolerance_iterations;
}

static void take_pace(struct forecast_pace *pace, double iterations, double seconds) {
    double kept = fmin(exp(-seconds / PACE_SECONDS), 1);
    kept = fmax(kept, pow(PACE_KEPT, iterations)); /* so that several iterations count even if they are long */
    pace->seconds = pace->seconds * kept + seconds;
    pace->iterations = pace->iterations * kept + iterations;
}

/* Moves the origin of the sums by `iterations`, and adds a change there. */
static void add_change(struct forecast_trend *trend, double iterations, double change) {
    double window = fmax(TREND_WINDOW_MIN, trend->count / TREND_WINDOW_SHARE);
    double kept = 1 - 1 / window;
    double x = (trend->x - trend->weight * iterations) * kept;
    trend->xx = (trend->xx - 2 * iterations * trend->x + trend->weight * iterations * iterations) * kept;
    trend->xy = (trend->xy - iterations * trend->y) * kept;
    trend->x = x;
    trend->y = trend->y * kept + log(change);
    trend->weight = trend->weight * kept + 1;
    trend->count++;
}

static void take_objective(struct forecast *forecast, double iteration, double objective, double changes) {
    struct forecast_trend *trend = &forecast->trend;
    double iterations = iteration - trend->iteration;
    if (!isnan(trend->objective) && iterations > 0 && changes > 0) {
        double change = fabs(objective - trend->objective) / fmax(fabs(trend->objective), OBJECTIVE_LEAST) / changes;
        trend->calm = change < forecast->tolerance ? trend->calm + changes : 0;
        trend->interval = iterations / changes;
        add_change(trend, iterations, fmax(change, forecast->tolerance * CHANGE_LEAST));
    }
    trend->objective = objective;
    trend->iteration = iteration;
}

void forecast_take(struct forecast *forecast, double iteration, double seconds, double objective, double changes) {
    if (iteration > forecast->iteration && seconds >= forecast->at && (forecast->iteration > 0 || iteration == 1)) {
        take_pace(&forecast->pace, iteration - forecast->iteration, seconds - forecast->at);
    }
    forecast->iteration = iteration;
    forecast->at = seconds;
    if (forecast->tolerance > 0 && isfinite(objective)) {
        take_objective(forecast, iteration, objective, changes);
    }
}

/* ---- What is left ---- */

/* Returns the number of iterations until the objective has been calm for long enough; NaN: unknown. */
static double iterations_to_calm(const struct forecast *forecast) {
    const struct forecast_trend *trend = &forecast->trend;
    double determinant = trend->weight * trend->xx - trend->x * trend->x;
    double calm = fmax(forecast->tolerance_iterations, 1);
    if (trend->calm > 0) {
        return fmax(calm - trend->calm, 0) * trend->interval;
    }
    if (trend->count < TREND_COUNT_MIN || !(determinant > 0)) {
        return NAN;
    }
    double slope = (trend->weight * trend->xy - trend->x * trend->y) / determinant;
    double present = (trend->y * trend->xx - trend->x * trend->xy) / determinant;
    double iterations = (log(forecast->tolerance) - present) / slope;
    bool falls = slope < 0 && iterations <= TREND_REACH * trend->count * trend->interval;
    return falls ? fmax(iterations, 0) + calm * trend->interval : NAN;
}

/* Replaces *left by this criterion if it is met earlier. */
static void consider(struct forecast_left *left, double seconds, double share, bool estimated) {
    seconds = fmax(seconds, 0);
    if (seconds <= LEFT_MAX && !(left->seconds <= seconds)) {
        *left = (struct forecast_left){.share = share, .seconds = seconds, .estimated = estimated};
    }
}

struct forecast_left forecast_left(const struct forecast *forecast, double seconds) {
    struct forecast_left left = {.share = NAN, .seconds = NAN};
    double since = fmax(seconds - forecast->at, 0);
    bool paced = forecast->pace.iterations > 0;
    double pace = paced ? forecast->pace.seconds / forecast->pace.iterations : NAN;
    double done = forecast->iterations > 0 ? fmin(forecast->iteration / forecast->iterations, 1) : NAN;
    if (forecast->seconds > 0) {
        consider(&left, forecast->seconds - seconds, fmin(seconds / forecast->seconds, 1), false);
    }
    if (forecast->iterations > 0 && paced) {
        consider(&left, (forecast->iterations - forecast->iteration) * pace - since, done, true);
    }
    double calm = forecast->tolerance > 0 && paced ? iterations_to_calm(forecast) : NAN;
    if (!isnan(calm)) {
        double rest = fmax(calm * pace - since, 0);
        consider(&left, rest, seconds / fmax(seconds + rest, OBJECTIVE_LEAST), true);
    }
    left.share = isnan(left.share) ? done : left.share;
    return left;
}
