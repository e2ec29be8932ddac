/* The dense part of kernel.h: matrix products in OpenBLAS, row by row. A step's products write directly into the
 * cached rows of the parameter server, whose stride is the leading dimension. */
#include "apps/mlr/kernel.h"

#include <cblas.h>
#include <string.h>

void mlr_dense_logits(const struct mlr_weights *weights, const struct mlr_dense *dense, size_t first, size_t end,
                      float *logits) {
    size_t classes = weights->classes;
    const float *bias = weights->rows + weights->bias * weights->stride;
    if (first == end) {
        return;
    }
    for (size_t s = first; s < end; s++) {
        memcpy(logits + s * classes, bias, classes * sizeof *logits);
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)(end - first), (blasint)classes,
                (blasint)dense->features, 1, dense->samples + first * dense->stride, (blasint)dense->stride,
                weights->rows, (blasint)weights->stride, 1, logits + first * classes, (blasint)classes);
}

/* Returns the step of a later slice, without decay. A later slice adds its gradient to the velocity and, by this
 * step, to the weights, which the first slice has already moved by the velocity. */
static struct mlr_step later_step(const struct mlr_step *step, struct mlr_weights *weights) {
    struct mlr_step later = {.scale = step->scale};
    if (weights != NULL) {
        later.scale = -step->scale;
        weights->rows = step->velocity;
    }
    return later;
}

void mlr_dense_update(const struct mlr_weights *weights, const struct mlr_dense *dense, const float *errors,
                      const struct mlr_step *step, uint32_t first, uint32_t end) {
    if (step->slice > 0 && step->velocity != NULL) {
        struct mlr_weights velocity = *weights;
        struct mlr_step later = later_step(step, &velocity);
        mlr_dense_update(&velocity, dense, errors, &later, first, end);
        later = later_step(step, NULL);
        mlr_dense_update(weights, dense, errors, &later, first, end);
        return;
    }
    uint32_t classes = weights->classes;
    bool direct = step->velocity == NULL;
    float *to = direct ? weights->rows : step->velocity;
    if (first == end) {
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)(end - first), (blasint)classes,
                (blasint)dense->count, direct ? -step->scale : step->scale, dense->samples + first,
                (blasint)dense->stride, errors, (blasint)classes, direct ? 1 - step->decay : step->momentum,
                to + first * weights->stride, (blasint)weights->stride);
    for (size_t f = first; f < end && !direct; f++) {
        float *w = weights->rows + f * weights->stride;
        float *v = step->velocity + f * weights->stride;
        for (uint32_t k = 0; k < classes; k++) {
            v[k] += step->decay * w[k];
            w[k] -= v[k];
        }
    }
}

void mlr_bias_update(const struct mlr_weights *weights, const float *errors, size_t count,
                     const struct mlr_step *step) {
    if (step->slice > 0 && step->velocity != NULL) {
        struct mlr_weights velocity = *weights;
        struct mlr_step later = later_step(step, &velocity);
        mlr_bias_update(&velocity, errors, count, &later);
        later = later_step(step, NULL);
        mlr_bias_update(weights, errors, count, &later);
        return;
    }
    float *b = weights->rows + weights->bias * weights->stride;
    float *v = step->velocity != NULL ? step->velocity + weights->bias * weights->stride : NULL;
    for (uint32_t k = 0; k < weights->classes && v != NULL; k++) {
        v[k] *= step->momentum;
    }
    for (size_t s = 0; s < count; s++) {
        const float *e = errors + s * weights->classes;
        float *to = v != NULL ? v : b;
        float scale = v != NULL ? step->scale : -step->scale;
        for (uint32_t k = 0; k < weights->classes; k++) {
            to[k] += scale * e[k];
        }
    }
    for (uint32_t k = 0; k < weights->classes && v != NULL; k++) {
        b[k] -= v[k];
    }
}
