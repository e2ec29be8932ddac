/* What the ratings' mean and standard deviation are, from sums over all nodes; which ratings mf refuses; and how good a
 * constant is. Pure functions of totals: no files, no rows. */
#ifndef APPS_MF_SPREAD_H
#define APPS_MF_SPREAD_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Sums over ratings, each of which is a float. The squares of ratings far from 0 that differ by little agree in their
 * leading digits, and the variance is in the others: each square is taken in two parts, whose sums are exact then. */
struct mf_sums {
    double count;
    double ratings;
    double squares_high, squares_low; /* the squares' sum is that of both */
};

/* Returns the leading 26 bits of a square; the rest is square - mf_square_high(square), exactly. */
double mf_square_high(double square);

/* Adds one rating. */
void mf_sums_add(struct mf_sums *sums, float rating);

/* Returns the root mean square of rating - center; 0 without ratings. */
double mf_sums_deviation(const struct mf_sums *sums, double center);

/* The ratings that a job trains on: what a model begins with. Rows learn (rating - mean) / unit, whose standard
 * deviation is 1 and whose longer side is the upper one: so k x rating + c trains as the rating does, for any k. */
struct mf_spread {
    float mean;
    float unit;             /* the standard deviation, or its negative if the lowest is further from the mean */
    float minimum, maximum; /* the lowest and the highest rating */
};

/* Ratings further apart than this, or with a smaller deviation than this, are refused: predictions would overflow, or
 * lose digits as subnormal numbers. */
#define MF_RANGE_MAX     1e37
#define MF_DEVIATION_MIN 1e-35

/* Fills `spread`. Returns 0, or AML_EINPUT with a line that says what was found and what to do: all ratings are equal,
 * or they are too large or too small for floats. */
int mf_spread_of(const struct mf_sums *sums, double minimum, double maximum, struct mf_spread *spread,
                 struct error *error);

/* Whether the highest rating is further above the mean than the ratings of any scale: counts or amounts, of which a few
 * decide what is learned. Then writes a line that says so to `text`. */
bool mf_spread_has_tail(const struct mf_spread *spread, char *text, size_t size);

#endif
