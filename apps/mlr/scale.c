/* See scale.h. */
#include "apps/mlr/scale.h"

#include <math.h>

const char *const scale_kinds[] = {"none", "byte", "max", "unit", "auto", NULL};

uint32_t scale_known(const struct scale *scale, const struct sample *sample) {
    uint32_t count = sample->count;
    if (sample->features == NULL) {
        return count < scale->features ? count : scale->features;
    }
    while (count > 0 && sample->features[count - 1] >= scale->features) {
        count--;
    }
    return count;
}

uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values) {
    uint32_t count = scale_known(scale, sample);
    float factor = scale->kind == SCALE_BYTE ? 1.0F / 255 : 1;
    if (scale->kind == SCALE_UNIT) {
        double squares = 0;
        for (uint32_t i = 0; i < count; i++) {
            squares += (double)sample->values[i] * (double)sample->values[i];
        }
        factor = squares > 0 ? (float)(1 / sqrt(squares)) : 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        values[i] = sample->values[i] * factor;
    }
    for (uint32_t i = 0; i < count && scale->kind == SCALE_MAX; i++) {
        float maximum = scale->maxima[sample->features != NULL ? sample->features[i] : i];
        values[i] = maximum > 0 ? values[i] / maximum : 0;
    }
    return count;
}
