/* See nn_reference.h. Sums are in double. */
#include "tests/unit/nn_reference.h"

#include <stdbool.h>
#include <string.h>

static void dense_forward(const struct nn_dense *dense, const float *x, size_t x_stride, const float *w, size_t n,
                          float *y) {
    for (size_t s = 0; s < n; s++) {
        for (size_t o = 0; o < dense->out; o++) {
            double sum = (double)w[dense->in * dense->out + o];
            for (size_t i = 0; i < dense->in; i++) {
                sum += (double)x[s * x_stride + i] * (double)w[i * dense->out + o];
            }
            y[s * dense->out + o] = (float)sum;
        }
    }
}

static void dense_weights(const struct nn_dense *dense, const float *x, size_t x_stride, const float *dy, size_t n,
                          size_t first, size_t end, float scale, float *dw) {
    for (size_t i = first; i < end; i++) {
        for (size_t o = 0; o < dense->out; o++) {
            double sum = 0;
            for (size_t s = 0; s < n; s++) {
                sum += (i < dense->in ? (double)x[s * x_stride + i] : 1) * (double)dy[s * dense->out + o];
            }
            dw[i * dense->out + o] += scale * (float)sum;
        }
    }
}

static void dense_inputs(const struct nn_dense *dense, const float *dy, const float *w, size_t n, float *dx) {
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < dense->in; i++) {
            double sum = 0;
            for (size_t o = 0; o < dense->out; o++) {
                sum += (double)dy[s * dense->out + o] * (double)w[i * dense->out + o];
            }
            dx[s * dense->in + i] = (float)sum;
        }
    }
}

/* Finds the input value that is element `patch` of the patch of output `pixel`. Returns false if it is outside the
 * image. */
static bool place_of(const struct nn_conv *conv, size_t pixel, size_t patch, size_t *input) {
    size_t c = patch % conv->channels;
    size_t v = patch / conv->channels % conv->k;
    size_t u = patch / conv->channels / conv->k;
    size_t before = (conv->k - 1) / 2;
    size_t row = pixel / conv->width + u; /* plus `before` */
    size_t column = pixel % conv->width + v;
    if (row < before || row - before >= conv->height || column < before || column - before >= conv->width) {
        return false;
    }
    *input = ((row - before) * conv->width + column - before) * conv->channels + c;
    return true;
}

static void conv_forward(const struct nn_conv *conv, const float *x, size_t x_stride, const float *w, size_t n,
                         float *workspace, float *y) {
    size_t pixels = conv->height * conv->width;
    size_t patch = nn_conv_patch(conv);
    (void)workspace;
    for (size_t i = 0; i < n * pixels; i++) {
        for (size_t f = 0; f < conv->filters; f++) {
            double sum = (double)w[patch * conv->filters + f];
            for (size_t p = 0; p < patch; p++) {
                size_t input;
                if (place_of(conv, i % pixels, p, &input)) {
                    sum += (double)x[i / pixels * x_stride + input] * (double)w[p * conv->filters + f];
                }
            }
            y[i * conv->filters + f] = (float)sum;
        }
    }
}

static void conv_weights(const struct nn_conv *conv, const float *x, size_t x_stride, const float *dy, size_t n,
                         float *workspace, float *dw) {
    size_t pixels = conv->height * conv->width;
    size_t patch = nn_conv_patch(conv);
    (void)workspace;
    for (size_t p = 0; p <= patch; p++) {
        for (size_t f = 0; f < conv->filters; f++) {
            double sum = 0;
            for (size_t i = 0; i < n * pixels; i++) {
                size_t input;
                if (p == patch) {
                    sum += (double)dy[i * conv->filters + f];
                } else if (place_of(conv, i % pixels, p, &input)) {
                    sum += (double)x[i / pixels * x_stride + input] * (double)dy[i * conv->filters + f];
                }
            }
            dw[p * conv->filters + f] += (float)sum;
        }
    }
}

static void conv_inputs(const struct nn_conv *conv, const float *dy, const float *w, size_t n, float *workspace,
                        float *dx) {
    size_t pixels = conv->height * conv->width;
    size_t patch = nn_conv_patch(conv);
    (void)workspace;
    memset(dx, 0, n * pixels * conv->channels * sizeof *dx);
    for (size_t i = 0; i < n * pixels; i++) {
        for (size_t p = 0; p < patch; p++) {
            size_t input;
            double sum = 0;
            for (size_t f = 0; f < conv->filters; f++) {
                sum += (double)dy[i * conv->filters + f] * (double)w[p * conv->filters + f];
            }
            if (place_of(conv, i % pixels, p, &input)) {
                dx[i / pixels * pixels * conv->channels + input] += (float)sum;
            }
        }
    }
}

const struct nn_products nn_reference = {
    .dense_forward = dense_forward,
    .dense_weights = dense_weights,
    .dense_inputs = dense_inputs,
    .conv_forward = conv_forward,
    .conv_weights = conv_weights,
    .conv_inputs = conv_inputs,
};
