/* The layers with weights as matrix products in OpenBLAS. A convolution multiplies a matrix of all patches (im2col).
 *
 * With one channel the patches' matrix is transposed: neighbours in an image's row are then neighbours in memory, and a
 * row of the matrix is made of rows of the image. With more channels, a patch's row is k channels neighbouring floats.
 */
#include "apps/nn/layers.h"

#include "apps/vectors.h"

#include <cblas.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* OpenBLAS's choice of kernels by the processor, which it makes when it is loaded. Not in its header. */
extern void gotoblas_dynamic_init(void) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));

/* Returns the kernels for this processor's vectors. NULL: the choice stays OpenBLAS's. */
static const char *kernels_of_processor(void) {
#if defined(__x86_64__)
    if (vectors_wide() == 2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        return "SkylakeX";
    }
    return vectors_wide() > 0 ? "Haswell" : NULL;
#else
    return NULL;
#endif
}

/* OpenBLAS takes the kernels of 2004, a quarter as fast, on processors that are newer than itself: Debian's 0.3.21 on
 * Emerald Rapids. */
static void choose_kernels(void) {
    static const char variable[] = "OPENBLAS_CORETYPE";
    const char *kernels = kernels_of_processor();
    if (kernels != NULL && strcmp(openblas_get_corename(), "Prescott") == 0 && getenv(variable) == NULL &&
        gotoblas_dynamic_init != NULL && gotoblas_dynamic_quit != NULL && setenv(variable, kernels, 0) == 0) {
        gotoblas_dynamic_quit();
        gotoblas_dynamic_init();
    }
}

void nn_blas_begin(void) {
    choose_kernels();
    openblas_set_num_threads(1);
}

/* ---- Products ---- */

void nn_multiply(size_t n, size_t in, size_t out, struct nn_matrix x, struct nn_matrix w, float beta,
                 struct nn_matrix y) {
    if (n > 0 && out > 0) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)out, (blasint)in, 1, x.values,
                    (blasint)x.pitch, w.values, (blasint)w.pitch, beta, y.values, (blasint)y.pitch);
    }
}

void nn_multiply_weights(size_t n, size_t in, size_t out, struct nn_matrix x, struct nn_matrix dy,
                         struct nn_matrix dw) {
    if (n > 0 && in > 0 && out > 0) {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)in, (blasint)out, (blasint)n, 1, x.values,
                    (blasint)x.pitch, dy.values, (blasint)dy.pitch, 1, dw.values, (blasint)dw.pitch);
    }
}

void nn_multiply_inputs(size_t n, size_t in, size_t out, struct nn_matrix dy, struct nn_matrix w, float beta,
                        struct nn_matrix dx) {
    if (n > 0 && in > 0) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)in, (blasint)out, 1, dy.values,
                    (blasint)dy.pitch, w.values, (blasint)w.pitch, beta, dx.values, (blasint)dx.pitch);
    }
}

/* ---- Dense ---- */

static void dense_forward(const struct nn_dense *dense, const float *x, size_t x_stride, const float *w, size_t n,
                          float *y) {
    if (n == 0) {
        return;
    }
    nn_biases_forward(dense, w, n, y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)n, (blasint)dense->out, (blasint)dense->in, 1, x,
                (blasint)x_stride, w, (blasint)dense->out, 1, y, (blasint)dense->out);
}

static void dense_weights(const struct nn_dense *dense, const float *x, size_t x_stride, const float *dy, size_t n,
                          size_t first, size_t end, float scale, float *dw) {
    size_t out = dense->out;
    size_t rows = (end < dense->in ? end : dense->in) - (first < dense->in ? first : dense->in);
    if (n > 0 && rows > 0) {
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)rows, (blasint)out, (blasint)n, scale, x + first,
                    (blasint)x_stride, dy, (blasint)out, 1, dw + first * out, (blasint)out);
    }
    if (end > dense->in) {
        nn_biases_backward(dense, dy, n, scale, dw);
    }
}

static void dense_inputs(const struct nn_dense *dense, const float *dy, const float *w, size_t n, float *dx) {
    if (n > 0) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)n, (blasint)dense->in, (blasint)dense->out, 1, dy,
                    (blasint)dense->out, w, (blasint)dense->out, 0, dx, (blasint)dense->in);
    }
}

/* ---- Convolution ---- */

/* The range first..end-1 of a row or column of outputs, whose input at distance `offset` - before lies in the image. */
struct span {
    size_t first, end;
};

static struct span span_of(size_t length, size_t offset, size_t before) {
    size_t first = before > offset ? before - offset : 0;
    size_t beyond = offset > before ? offset - before : 0;
    first = first < length ? first : length;
    size_t end = beyond < length ? length - beyond : 0;
    return (struct span){.first = first, .end = end > first ? end : first};
}

/* Copies a row of pixels [width][channels], shifted by v - before pixels, into rows of patches. */
static void row_to_patches(const struct nn_conv *conv, const float *row, size_t u, float *patches) {
    size_t channels = conv->channels;
    size_t stride = nn_conv_patch(conv) + 1;
    size_t before = (conv->k - 1) / 2;
    for (size_t q = 0; q < conv->width; q++) {
        float *to = patches + q * stride + u * conv->k * channels;
        /* The columns of the patch that lie in the image. */
        size_t first = before > q ? before - q : 0;
        size_t end = conv->k < conv->width + before - q ? conv->k : conv->width + before - q;
        if (row == NULL || first >= end) {
            memset(to, 0, conv->k * channels * sizeof *to);
            continue;
        }
        memset(to, 0, first * channels * sizeof *to);
        memcpy(to + first * channels, row + (q + first - before) * channels, (end - first) * channels * sizeof *to);
        memset(to + end * channels, 0, (conv->k - end) * channels * sizeof *to);
    }
}

/* Fills patches[n pixels][k k channels + 1]; the last column is all 1. */
static void wide_patches(const struct nn_conv *conv, const float *x, size_t x_stride, size_t n, float *patches) {
    size_t stride = nn_conv_patch(conv) + 1;
    size_t row_values = conv->width * conv->channels;
    size_t before = (conv->k - 1) / 2;
    for (size_t r = 0; r < n * conv->height; r++) {
        const float *image = x + r / conv->height * x_stride;
        float *to = patches + r * conv->width * stride;
        for (size_t u = 0; u < conv->k; u++) {
            size_t row = r % conv->height + u; /* plus `before` */
            bool inside = row >= before && row - before < conv->height;
            row_to_patches(conv, inside ? image + (row - before) * row_values : NULL, u, to);
        }
        for (size_t q = 0; q < conv->width; q++) {
            to[q * stride + stride - 1] = 1;
        }
    }
}

/* Adds patches[n pixels][k k channels] to the values from which wide_patches would copy them. */
static void add_wide_patches(const struct nn_conv *conv, const float *patches, size_t n, float *dx) {
    size_t stride = nn_conv_patch(conv);
    size_t channels = conv->channels;
    size_t before = (conv->k - 1) / 2;
    for (size_t i = 0; i < n * conv->height * conv->width; i++) {
        size_t q = i % conv->width;
        size_t r = i / conv->width % conv->height;
        float *image = dx + i / conv->width / conv->height * conv->height * conv->width * channels;
        size_t first = before > q ? before - q : 0;
        size_t end = conv->k < conv->width + before - q ? conv->k : conv->width + before - q;
        for (size_t u = 0; u < conv->k && first < end; u++) {
            if (r + u < before || r + u - before >= conv->height) {
                continue;
            }
            float *to = image + ((r + u - before) * conv->width + q + first - before) * channels;
            const float *from = patches + i * stride + (u * conv->k + first) * channels;
            for (size_t c = 0; c < (end - first) * channels; c++) {
                to[c] += from[c];
            }
        }
    }
}

/* Fills patches[k k + 1][n pixels] from images with one channel; the last row is all 1. */
static void flat_patches(const struct nn_conv *conv, const float *x, size_t x_stride, size_t n, float *patches) {
    size_t pixels = conv->height * conv->width;
    size_t before = (conv->k - 1) / 2;
    for (size_t p = 0; p < conv->k * conv->k; p++) {
        size_t u = p / conv->k;
        size_t v = p % conv->k;
        struct span rows = span_of(conv->height, u, before);
        struct span columns = span_of(conv->width, v, before);
        size_t values = columns.end - columns.first;
        float *all = patches + p * n * pixels;
        for (size_t i = 0; i < n; i++) {
            float *image = all + i * pixels;
            if (values < conv->width || rows.end - rows.first < conv->height) {
                memset(image, 0, pixels * sizeof *image);
            }
            for (size_t r = rows.first; r < rows.end && values > 0; r++) {
                memcpy(image + r * conv->width + columns.first,
                       x + i * x_stride + (r + u - before) * conv->width + columns.first + v - before,
                       values * sizeof *image);
            }
        }
    }
    float *ones = patches + conv->k * conv->k * n * pixels;
    for (size_t i = 0; i < n * pixels; i++) {
        ones[i] = 1;
    }
}

/* Adds patches[k k][n pixels] to the values from which flat_patches would copy them. */
static void add_flat_patches(const struct nn_conv *conv, const float *patches, size_t n, float *dx) {
    size_t pixels = conv->height * conv->width;
    size_t before = (conv->k - 1) / 2;
    for (size_t p = 0; p < conv->k * conv->k; p++) {
        size_t u = p / conv->k;
        size_t v = p % conv->k;
        struct span rows = span_of(conv->height, u, before);
        struct span columns = span_of(conv->width, v, before);
        for (size_t i = 0; i < n; i++) {
            const float *image = patches + (p * n + i) * pixels;
            for (size_t r = rows.first; r < rows.end; r++) {
                for (size_t q = columns.first; q < columns.end; q++) {
                    dx[i * pixels + (r + u - before) * conv->width + q + v - before] += image[r * conv->width + q];
                }
            }
        }
    }
}

/* Fills the workspace with the matrix of all patches, and multiplies it, or with `transposed` its transpose, by b with
 * rows of filters: c = keep c + the product. */
static void multiply_patches(const struct nn_conv *conv, const float *x, size_t x_stride, size_t n, float *workspace,
                             bool transposed, const float *b, float keep, float *c) {
    blasint outputs = (blasint)(n * conv->height * conv->width);
    blasint depth = (blasint)(nn_conv_patch(conv) + 1);
    blasint filters = (blasint)conv->filters;
    bool flat = conv->channels == 1;
    if (n > 0) {
        (flat ? flat_patches : wide_patches)(conv, x, x_stride, n, workspace);
        cblas_sgemm(CblasRowMajor, flat != transposed ? CblasTrans : CblasNoTrans, CblasNoTrans,
                    transposed ? depth : outputs, filters, transposed ? outputs : depth, 1, workspace,
                    flat ? outputs : depth, b, filters, keep, c, filters);
    }
}

static void conv_forward(const struct nn_conv *conv, const float *x, size_t x_stride, const float *w, size_t n,
                         float *workspace, float *y) {
    multiply_patches(conv, x, x_stride, n, workspace, false, w, 0, y);
}

static void conv_weights(const struct nn_conv *conv, const float *x, size_t x_stride, const float *dy, size_t n,
                         float *workspace, float *dw) {
    multiply_patches(conv, x, x_stride, n, workspace, true, dy, 1, dw);
}

static void conv_inputs(const struct nn_conv *conv, const float *dy, const float *w, size_t n, float *workspace,
                        float *dx) {
    size_t outputs = n * conv->height * conv->width;
    size_t patch = nn_conv_patch(conv);
    if (n == 0) {
        return;
    }
    memset(dx, 0, outputs * conv->channels * sizeof *dx);
    if (conv->channels == 1) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)patch, (blasint)outputs, (blasint)conv->filters,
                    1, w, (blasint)conv->filters, dy, (blasint)conv->filters, 0, workspace, (blasint)outputs);
        add_flat_patches(conv, workspace, n, dx);
    } else {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)outputs, (blasint)patch, (blasint)conv->filters,
                    1, dy, (blasint)conv->filters, w, (blasint)conv->filters, 0, workspace, (blasint)patch);
        add_wide_patches(conv, workspace, n, dx);
    }
}

const struct nn_products nn_blas = {
    .dense_forward = dense_forward,
    .dense_weights = dense_weights,
    .dense_inputs = dense_inputs,
    .conv_forward = conv_forward,
    .conv_weights = conv_weights,
    .conv_inputs = conv_inputs,
};
