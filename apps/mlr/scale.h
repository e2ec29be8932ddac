/* How the values of samples are scaled, the same way in training and in predictions. */
#ifndef APPS_MLR_SCALE_H
#define APPS_MLR_SCALE_H

#include "apps/mlr/samples.h"

enum scale_kind {
    SCALE_NONE = 0,
    SCALE_BYTE,     /* by 1/255 */
    SCALE_MAX,      /* each feature by its largest absolute value in the training data: -1..1 */
    SCALE_UNIT,     /* each sample to length 1 */
    SCALE_STANDARD, /* each feature by `factors`, less its centre when there are `centres`, to -5..5 */
    SCALE_AUTO      /* for options only: chosen by the data */
};

enum { SCALE_STANDARD_LIMIT = 5 }; /* standardized values beyond this have it */

/* The kinds' names, in the order of the enum; NULL ends them. */
extern const char *const scale_kinds[];

struct scale {
    enum scale_kind kind;
    uint32_t features;     /* of the training data; values of other features are left out */
    const float *maxima;   /* [features], for SCALE_MAX */
    const double *centres; /* [features], for SCALE_STANDARD; NULL: all are 0, as of sparse samples */
    const double *factors; /* [features], for SCALE_STANDARD; 0: the feature is left out */
};

/* Returns how many of the sample's values, from the first on, are of features of the training data. */
uint32_t scale_known(const struct scale *scale, const struct sample *sample);
/* Writes the sample's scaled values to values[sample->count]. Returns scale_known. With centres the sample must have
 * all features of the training data (scale_zeros gives those that it lacks their values). */
uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values);
/* Writes the scaled values of a sample of zeros to values[features]: 0 unless there are centres. */
void scale_zeros(const struct scale *scale, float *values);
/* scale_sample for a sample of pixels[features], with SCALE_NONE, SCALE_BYTE or SCALE_UNIT. */
void scale_pixels(const struct scale *scale, const unsigned char *pixels, float *values);

#endif
