/* How samples' values are scaled, in the same way for training and prediction. */
#ifndef APPS_SAMPLES_SCALE_H
#define APPS_SAMPLES_SCALE_H

#include "apps/samples/samples.h"

enum scale_kind {
    SCALE_NONE = 0,
    SCALE_BYTE,     /* by 1/255 */
    SCALE_MAX,      /* each feature by its largest absolute value in the training data: -1..1 */
    SCALE_UNIT,     /* each sample is scaled to length 1 */
    SCALE_STANDARD, /* each feature minus its centre, if any, times its factor, clipped to -5..5 */
    SCALE_AUTO      /* only for options: chosen by the data */
};

enum { SCALE_STANDARD_LIMIT = 5 }; /* standardized values are clipped to this */

/* The kinds' names, in the order of the enum; NULL ends them. */
extern const char *const scale_kinds[];

struct scale {
    enum scale_kind kind;
    uint32_t features;     /* number of features in the training data; values of other features are dropped */
    const float *maxima;   /* [features], for SCALE_MAX */
    const double *centres; /* [features], for SCALE_STANDARD; NULL: all are 0, as for sparse samples */
    const double *factors; /* [features], for SCALE_STANDARD; 0: the feature is dropped */
};

/* Returns how many leading values of the sample belong to features of the training data. */
uint32_t scale_known(const struct scale *scale, const struct sample *sample);
/* Writes the sample's scaled values to values[sample->count]. Returns scale_known. With centres the sample must have
 * all features of the training data; scale_zeros provides the values of missing ones. */
uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values);
/* Writes the scaled values of a sample of zeros to values[features]: 0 unless there are centres. */
void scale_zeros(const struct scale *scale, float *values);
/* Writes the scaled values of all features of a sample to values[features]. `scaled` has room for sample->count. */
void scale_all(const struct scale *scale, const struct sample *sample, float *scaled, float *values);
/* Like scale_sample, for a sample of pixels[features], with SCALE_NONE, SCALE_BYTE or SCALE_UNIT. */
void scale_pixels(const struct scale *scale, const unsigned char *pixels, float *values);

#endif
