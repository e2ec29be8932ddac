/* When a job will be over, by its stop criteria and by how it has gone so far. Only calculates; seconds are those of
 * training, as in the report. */
#ifndef PROTEUS_FORECAST_H
#define PROTEUS_FORECAST_H

#include <jansson.h>
#include <stdbool.h>

/* The last iterations' pace: sums in which older iterations count less. */
struct forecast_pace {
    double seconds, iterations;
};

/* How the objective's relative change falls: least squares of its logarithm over iterations, where recent ones count
 * most. Iterations are counted from the present one. */
struct forecast_trend {
    double objective;    /* the last one; NaN: none yet */
    double iteration;    /* of that objective */
    double count;        /* changes so far */
    double weight;       /* sum of the weights */
    double x, y, xx, xy; /* weighted sums of iterations and logarithms */
    double interval;     /* iterations between the last two objectives */
    double calm;         /* changes in a row that were below the tolerance */
};

struct forecast {
    double iterations;           /* stop after so many; 0: not limited, or not known */
    double seconds;              /* stop after so many; 0: not limited */
    double tolerance;            /* stop when the relative change stays below; 0: never */
    double tolerance_iterations; /* for so many changes in a row */
    double iteration, at;        /* the last iteration, and its time; 0: none */
    struct forecast_pace pace;
    struct forecast_trend trend;
};

/* What is left of a job. */
struct forecast_left {
    double share;   /* done, 0 to 1; NaN: not known */
    double seconds; /* left; NaN: not known */
    bool estimated; /* `seconds` is an estimate */
};

void forecast_begin(struct forecast *forecast);
/* Takes the stop criteria that the report's line or STATUS names. */
void forecast_terms(struct forecast *forecast, const json_t *line);
/* Takes an iteration that has ended after `seconds`. `objective`: NaN if not evaluated; `changes`: in how many
 * evaluations it has changed from the last one given. */
void forecast_take(struct forecast *forecast, double iteration, double seconds, double objective, double changes);
/* Returns what is left after `seconds`, by the criterion that comes first. */
struct forecast_left forecast_left(const struct forecast *forecast, double seconds);

#endif
