/* See scale.h. */
#include "apps/samples/scale.h"

#include <math.h>
#include <string.h>

const char *const scale_kinds[] = {"none", "byte", "max", "unit", "standard", "auto", NULL};

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

/* Clips a standardized value. Otherwise a few values far from all others would decide a model, and a single one in a
 * test sample its prediction. */
static float limited(double value) {
    value = value < SCALE_STANDARD_LIMIT ? value : SCALE_STANDARD_LIMIT;
    return (float)(value > -SCALE_STANDARD_LIMIT ? value : -SCALE_STANDARD_LIMIT);
}

static void scale_features(const struct scale *scale, const struct sample *sample, uint32_t count, float *values) {
    if (sample->features == NULL &&
        scale->centres != NULL) { /* the usual case, as a loop that the compiler vectorizes */
        for (uint32_t i = 0; i < count; i++) {
            values[i] = limited((sample->values[i] - scale->centres[i]) * scale->factors[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t feature = sample->features != NULL ? sample->features[i] : i;
        double centre = scale->centres != NULL ? scale->centres[feature] : 0;
        values[i] = limited((sample->values[i] - centre) * scale->factors[feature]);
    }
}

/* Scales values[count] to length 1. */
static void scale_length(float *values, uint32_t count) {
    double squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        squares += (double)values[i] * (double)values[i];
    }
    float factor = squares > 0 ? (float)(1 / sqrt(squares)) : 1;
    for (uint32_t i = 0; i < count; i++) {
        values[i] *= factor;
    }
}

uint32_t scale_sample(const struct scale *scale, const struct sample *sample, float *values) {
    uint32_t count = scale_known(scale, sample);
    if (scale->kind == SCALE_STANDARD) {
        scale_features(scale, sample, count, values);
    } else {
        for (uint32_t i = 0; i < count; i++) {
            values[i] = (float)sample->values[i];
        }
    }
    if (scale->kind == SCALE_UNIT) {
        scale_length(values, count);
    }
    for (uint32_t i = 0; i < count && scale->kind == SCALE_BYTE; i++) {
        values[i] *= 1.0F / 255;
    }
    for (uint32_t i = 0; i < count && scale->kind == SCALE_MAX; i++) {
        float maximum = scale->maxima[sample->features != NULL ? sample->features[i] : i];
        values[i] = maximum > 0 ? values[i] / maximum : 0;
    }
    return count;
}

void scale_zeros(const struct scale *scale, float *values) {
    bool moved = scale->kind == SCALE_STANDARD && scale->centres != NULL;
    for (uint32_t i = 0; i < scale->features; i++) {
        values[i] = moved ? limited(-scale->centres[i] * scale->factors[i]) : 0;
    }
}

void scale_all(const struct scale *scale, const struct sample *sample, float *scaled, float *values) {
    uint32_t count = scale_sample(scale, sample, scaled);
    scale_zeros(scale, values);
    for (uint32_t i = 0; i < count; i++) {
        values[sample->features != NULL ? sample->features[i] : i] = scaled[i];
    }
}

void scale_pixels(const struct scale *scale, const unsigned char *pixels, float *values) {
    float factor = scale->kind == SCALE_BYTE ? 1.0F / 255 : 1;
    for (uint32_t i = 0; i < scale->features; i++) {
        values[i] = (float)pixels[i] * factor;
    }
    if (scale->kind == SCALE_UNIT) {
        scale_length(values, scale->features);
    }
}
