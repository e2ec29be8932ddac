/* Chooses how strongly logistic regression is regularized: cross-validation of a grid of C on a few samples, with
 * L-BFGS (Nocedal, Updating quasi-Newton matrices with limited storage, 1980). C is as in LIBLINEAR and
 * scikit-learn: the objective is C sum_i loss_i + ||w||^2 / 2, for two classes with one weight vector for both.
 * Arithmetic on arrays, in one thread; the same samples give the same result in every process on the same kind of
 * machine. */
#ifndef APPS_MLR_VALIDATE_H
#define APPS_MLR_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Samples in a random order. */
struct validate_set {
    size_t rows;
    uint32_t columns, classes;
    const uint32_t *labels; /* [rows] */
    /* The values: row r has values[i] in column places[i] for i from starts[r] to starts[r + 1] - 1. */
    const size_t *starts; /* [rows + 1] */
    const uint32_t *places;
    const float *values;
};

struct validated {
    double c;        /* the C with the least loss */
    double loss;     /* mean loss of left-out samples */
    double constant; /* the same for a model that knows only the classes' shares */
};

/* Cross-validates, and returns whether the samples allow it. They must have at least two rows and two classes, and
 * not so many columns and classes that it would take minutes. */
bool validate(const struct validate_set *set, struct validated *result);

/* The length of steps. A step changes the logit of class 1 by a row's error, times its value, times the rate of the
 * column. The error is the probability of class 1 minus 1 or 0. For a column in a part p of the rows the first rate
 * is rate x p^-rare; later rates are lower. */
struct validate_pace {
    double rate, rare;
};

/* Like validate, for two classes and mostly rare columns. Tries C from 0.01 to 2, three to a power of ten, with a
 * step for each row instead of L-BFGS. Takes a fraction of the time. It finds the C that suits few passes of such
 * steps, as their number regularizes too. */
bool validate_by_steps(const struct validate_set *set, const struct validate_pace *pace, struct validated *result);

/* Returns lambda, the factor of ||W||^2 / 2 relative to the mean loss of `samples` samples, for a model with a
 * weight vector for each class. */
double validate_lambda(double c, double samples, uint32_t classes);

/* Returns the largest eigenvalue of the matrix of second moments of the rows, each extended by a 1 for the bias. The
 * loss's curvature is at most half of it. */
double validate_curvature(const struct validate_set *set);

#endif
