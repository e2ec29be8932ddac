/* How the values of samples are scaled, the same way in training and in predictions. */
#ifndef APPS_MLR_SCALE_H
#define APPS_MLR_SCALE_H

#include "apps/mlr/samples.h"

enum scale_kind {
    SCALE_NONE = 0,
    SCALE_BYTE, /* by 1/255 */
    SCALE_MAX,  /* each feature by its largest absolute value in the training data: -1..1 */
    SCALE_UNIT, /* each sample to length 1 */
    SCALE_AUTO  /* SCALE_BYTE for idx data, else SCALE_NONE; of options alone */
};

const char *scale_name(enum scale_kind kind);
bool scale_parse(const char *name, enum scale_kind *kind);

struct scale {
    enum scale_kind kind;
    uint32_t features;   /* of the training data: others' values are left out */
    const float *maxima; /* [features], for SCALE_MAX */
};

/* Writes the sample's values, scaled, to values[sample->count]; returns how many of them count (they are the first). */
uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values);

#endif
