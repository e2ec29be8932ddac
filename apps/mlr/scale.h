/* How the values of samples are scaled, the same way in training and in predictions. */
#ifndef APPS_MLR_SCALE_H
#define APPS_MLR_SCALE_H

#include "apps/mlr/samples.h"

enum scale_kind {
    SCALE_NONE = 0,
    SCALE_BYTE, /* by 1/255 */
    SCALE_MAX,  /* each feature by its largest absolute value in the training data: -1..1 */
    SCALE_UNIT, /* each sample to length 1 */
    SCALE_AUTO  /* for options only: SCALE_BYTE for idx data, else SCALE_NONE */
};

/* The kinds' names, in the order of the enum; NULL ends them. */
extern const char *const scale_kinds[];

struct scale {
    enum scale_kind kind;
    uint32_t features;   /* of the training data; values of other features are left out */
    const float *maxima; /* [features], for SCALE_MAX */
};

/* Returns how many of the sample's values, from the first on, are of features of the training data. */
uint32_t scale_known(const struct scale *scale, const struct sample *sample);
/* Writes the sample's scaled values to values[sample->count]. Returns scale_known. */
uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values);

#endif
