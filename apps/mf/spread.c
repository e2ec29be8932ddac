/* See spread.h. */
#include "apps/mf/spread.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    LOW_BITS = 27,       /* of the 53 bits of a double's fraction; the highest bit is not stored */
    TAIL_DEVIATIONS = 30 /* above the mean; a rating scale with that spread would have its mean at its lowest value */
};

double mf_square_high(double square) {
    uint64_t bits;
    memcpy(&bits, &square, sizeof bits);
    bits &= ~(((uint64_t)1 << LOW_BITS) - 1);
    memcpy(&square, &bits, sizeof square);
    return square;
}

void mf_sums_add(struct mf_sums *sums, float rating) {
    double square = (double)rating * (double)rating;
    double high = mf_square_high(square);
    sums->count += 1;
    sums->ratings += (double)rating;
    sums->squares_high += high;
    sums->squares_low += square - high;
}

double mf_sums_deviation(const struct mf_sums *sums, double center) {
    if (sums->count <= 0) {
        return 0;
    }
    /* E (x - c)^2 = E x^2 - 2 c E x + c^2 = E x^2 - E^2 x + (E x - c)^2. Only the first difference can cancel. */
    long double count = sums->count;
    long double mean = (long double)sums->ratings / count;
    long double variance =
        ((long double)sums->squares_high - count * mean * mean + (long double)sums->squares_low) / count;
    long double offset = mean - (long double)center;
    long double square = (variance > 0 ? variance : 0) + offset * offset;
    return (double)sqrtl(square);
}

int mf_spread_of(const struct mf_sums *sums, double minimum, double maximum, struct mf_spread *spread,
                 struct error *error) {
    double mean = sums->ratings / sums->count;
    double deviation = mf_sums_deviation(sums, mean);
    if (minimum == maximum) {
        return error_set(error, AML_EINPUT,
                         "all ratings (%.0f) are %g%s: expected ratings that differ, as equal ones say nothing about "
                         "taste. Of what people used or bought (implicit feedback) give how often or how long, with "
                         "--log1p, or add pairs of the other kind with the rating 0",
                         sums->count, minimum, minimum == 0 ? " (numbers below 1.2e-38 count as 0)" : "");
    }
    if (maximum - minimum > MF_RANGE_MAX || maximum > MF_RANGE_MAX || minimum < -MF_RANGE_MAX) {
        return error_set(
            error, AML_EINPUT,
            "the ratings go from %g to %g: expected numbers between %g and %g; divide them all by some number", minimum,
            maximum, -MF_RANGE_MAX, MF_RANGE_MAX);
    }
    if (deviation < MF_DEVIATION_MIN) {
        return error_set(
            error, AML_EINPUT,
            "the ratings' standard deviation is %g: expected at least %g; multiply them all by some number", deviation,
            MF_DEVIATION_MIN);
    }
    *spread = (struct mf_spread){.mean = (float)mean,
                                 .unit = (float)(mean - minimum > maximum - mean ? -deviation : deviation),
                                 .minimum = (float)minimum,
                                 .maximum = (float)maximum};
    return 0;
}

bool mf_spread_has_tail(const struct mf_spread *spread, char *text, size_t size) {
    double above = ((double)spread->maximum - (double)spread->mean) / (double)spread->unit;
    if (above <= TAIL_DEVIATIONS) {
        return false;
    }
    snprintf(
        text, size,
        "ratings: the highest, %g, is %.0f standard deviations (%.3g) above the mean, %.3g: counts or amounts with a "
        "long tail, of which a few decide what is learned%s",
        (double)spread->maximum, above, (double)spread->unit, (double)spread->mean,
        spread->minimum >= 0 ? "; --log1p learns log(1 + rating) instead" : "; give their logarithms");
    return true;
}
