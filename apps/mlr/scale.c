/* See scale.h. */
#include "apps/mlr/scale.h"

#include <math.h>
#include <string.h>

static const char *const SCALE_NAMES[] = {"none", "byte", "max", "unit", "auto"};

const char *scale_name(enum scale_kind kind) {
    return SCALE_NAMES[kind];
}

bool scale_parse(const char *name, enum scale_kind *kind) {
    for (unsigned k = SCALE_NONE; k <= SCALE_AUTO; k++) {
        if (strcmp(name, SCALE_NAMES[k]) == 0) {
            *kind = (enum scale_kind)k;
            return true;
        }
    }
    return false;
}

static uint32_t count_known(const struct scale *scale, const struct sample *sample) {
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
    uint32_t count = count_known(scale, sample);
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
