/* Forecasts a job's end from its stop criteria and its course so far. Pure calculation. Times are seconds of training,
 * as in the report. */
#ifndef PROTEUS_FORECAST_H
#define PROTEUS_FORECAST_H

#include "agileml/wire/report_line.h"

/* The pace of the last iterations: sums in which older iterations weigh less. */
struct forecast_pace {
    double seconds, iterations;
};

/* How the objective's relative change falls: a least-squares fit of its logarithm over iterations, in which recent
 * changes weigh most. Iterations are counted from the present one. */
struct forecast_trend {
    double objective;    /* the latest; NaN: none yet */
    double iteration;    /* iteration of that objective */
    double count;        /* number of changes so far */
    double weight;       /* sum of the weights */
    double x, y, xx, xy; /* weighted sums of iterations and logarithms */
    double interval;     /* iterations between the last two objectives */
    double calm;         /* latest successive changes below the tolerance */
};

struct forecast {
    double iterations;           /* criterion: number of iterations; 0: no limit, or unknown */
    double seconds;              /* criterion: seconds; 0: no limit */
    double tolerance;            /* criterion: relative change stays below; 0: none */
    double tolerance_iterations; /* successive changes that must be below it */
    double iteration, at;        /* the latest iteration, and its time; 0: none */
    struct forecast_pace pace;
    struct forecast_trend trend;
};

/* What is left of a job. */
struct forecast_left {
    double share;   /* done, from 0 to 1; NaN: unknown */
    double seconds; /* seconds left; NaN: unknown */
    bool estimated; /* `seconds` is an estimate */
};

void forecast_begin(struct forecast *forecast);
/* Reads the stop criteria from a line of the report, or a STATUS. */
void forecast_terms(struct forecast *forecast, const struct report_line *line);
/* Adds an iteration that ended after `seconds`. `objective`: NaN if not evaluated. `changes`: the number of evaluations
 * since the last given objective. */
void forecast_take(struct forecast *forecast, double iteration, double seconds, double objective, double changes);
/* Returns what is left after `seconds`, by the criterion that will be met first. */
struct forecast_left forecast_left(const struct forecast *forecast, double seconds);

#endif
