/* Chooses how strongly logistic regression is regularized: cross-validation of a grid of C on a few samples, with
 * L-BFGS (Nocedal, Updating quasi-Newton matrices with limited storage, 1980). C is LIBLINEAR's and scikit-learn's: the
 * loss is C sum_i loss_i + ||w||^2 / 2, of two classes with one weight vector for both. Arithmetic on arrays, in one
 * thread; the same samples give the same result in every process on the same kind of machine. */
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
    double c;        /* of the least loss */
    double loss;     /* mean loss of samples that are left out */
    double constant; /* the same of a model that knows the shares of the classes alone */
};

/* Returns whether the samples allow a cross-validation (two rows and two classes at least, and not so many columns and
 * classes that it would take minutes), with its result. */
bool validate(const struct validate_set *set, struct validated *result);

/* How long steps are: of a column that a part p of the rows have, rate x p^-rare times a row's error (the probability
 * of class 1 less 1 or 0) and value, in the logit of class 1; at first, they get shorter. */
struct validate_pace {
    double rate, rare;
};

/* The same for two classes and columns of which most are rare: C from 0.01 to 2, three to a power of ten, with a step
 * for each row instead of L-BFGS. A fraction of the time; and the C that goes with few passes of such steps, as their
 * number regularizes too. */
bool validate_by_steps(const struct validate_set *set, const struct validate_pace *pace, struct validated *result);

/* Returns lambda, the factor of ||W||^2 / 2 beside the mean loss of `samples` samples, of a model with a weight vector
 * for each class. */
double validate_lambda(double c, double samples, uint32_t classes);

/* Returns the largest eigenvalue of the matrix of second moments of the rows, each with a 1 behind it for the bias: the
 * loss's curvature is at most half of it. */
double validate_curvature(const struct validate_set *set);

#endif
