/* The mean and standard deviation of ratings, from sums over all nodes; which ratings mf rejects; and how well a
 * constant predicts. Pure functions of totals: no files, no rows. */
#ifndef APPS_MF_SPREAD_H
#define APPS_MF_SPREAD_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Sums over ratings, each of which is a float. If ratings are far from 0 but differ little, their squares agree in
 * the leading digits, and the variance depends on the others. So each square is added in two parts, whose sums are
 * exact. */
struct mf_sums {
    double count;
    double ratings;
    double squares_high, squares_low; /* sums of both parts; the sum of the squares is their sum */
};

/* Returns the leading 26 bits of a square. The rest is exactly square - mf_square_high(square). */
double mf_square_high(double square);

/* Adds one rating. */
void mf_sums_add(struct mf_sums *sums, float rating);

/* Returns the root mean square of rating - center; 0 without ratings. */
double mf_sums_deviation(const struct mf_sums *sums, double center);

/* The distribution of the training ratings, with which a model begins. Rows learn (rating - mean) / unit, which has
 * standard deviation 1 and its longer tail above the mean. So k x rating + c trains like the rating, for any k. */
struct mf_spread {
    float mean;
    float unit; /* the standard deviation; negative if the lowest is further from the mean than the highest */
    float minimum, maximum; /* the lowest and the highest rating */
};

/* Ratings with a larger range, or a smaller deviation, are rejected: predictions would overflow, or lose precision
 * as subnormal numbers. */
#define MF_RANGE_MAX     1e37
#define MF_DEVIATION_MIN 1e-35

/* Fills `spread`. Returns 0, or AML_EINPUT with a line that says what was found and what to do. The ratings are
 * rejected if all are equal, or if they are too large or too small for floats. */
int mf_spread_of(const struct mf_sums *sums, double minimum, double maximum, struct mf_spread *spread,
                 struct error *error);

/* Whether the highest rating is further above the mean than on any rating scale. Such ratings are counts or amounts,
 * of which a few decide what is learned. Then writes a line that says so to `text`. */
bool mf_spread_has_tail(const struct mf_spread *spread, char *text, size_t size);

#endif
