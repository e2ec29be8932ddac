/* See cuda_layers.h. A convolution multiplies a matrix of all patches (im2col). It takes as many images at a time as
 * fit into a bounded workspace. */
#include "apps/nn/cuda_layers.h"

enum { PATCHES_TOGETHER = 16 << 20 /* floats of patches, unless one image has more */ };

/* ---- Dense ---- */

int nn_cuda_dense_forward(struct nn_cuda *cuda, const struct nn_dense *dense, const float *x, const float *w, size_t n,
                          float *y, struct error *error) {
    const float *bias = w + dense->in * dense->out;
    const struct nn_cuda_product product = {.m = n,
                                            .n = dense->out,
                                            .k = dense->in,
                                            .a = {.values = x, .stride = dense->in},
                                            .b = {.values = w, .stride = dense->out},
                                            .c = y,
                                            .c_stride = dense->out,
                                            .scale = 1,
                                            .keep = 1};
    TRY_CUDA(error, nn_kernel_copy_rows(cuda->stream, bias, 0, n, dense->out, y));
    return nn_cuda_multiply(cuda, &product, error);
}

/* to[n] += the sum of the rows of values[rows][n]. */
static int add_rows(struct nn_cuda *cuda, const float *values, size_t rows, size_t n, float *to, struct error *error) {
    const struct nn_cuda_sum sum = {
        .rows = rows, .n = n, .values = values, .stride = n, .to = to, .scale = 1, .keep = 1};
    return nn_cuda_sum_rows(cuda, &sum, error);
}

int nn_cuda_dense_weights(struct nn_cuda *cuda, const struct nn_dense *dense, const float *x, const float *dy, size_t n,
                          float *dw, struct error *error) {
    const struct nn_cuda_product product = {.m = dense->in,
                                            .n = dense->out,
                                            .k = n,
                                            .a = {.values = x, .stride = dense->in, .transposed = true},
                                            .b = {.values = dy, .stride = dense->out},
                                            .c = dw,
                                            .c_stride = dense->out,
                                            .scale = 1,
                                            .keep = 1};
    TRY(nn_cuda_multiply(cuda, &product, error));
    return add_rows(cuda, dy, n, dense->out, dw + dense->in * dense->out, error);
}

int nn_cuda_dense_inputs(struct nn_cuda *cuda, const struct nn_dense *dense, const float *dy, const float *w, size_t n,
                         float *dx, struct error *error) {
    const struct nn_cuda_product product = {.m = n,
                                            .n = dense->in,
                                            .k = dense->out,
                                            .a = {.values = dy, .stride = dense->out},
                                            .b = {.values = w, .stride = dense->out, .transposed = true},
                                            .c = dx,
                                            .c_stride = dense->in,
                                            .scale = 1};
    return nn_cuda_multiply(cuda, &product, error);
}

/* ---- Convolution ---- */

static size_t pixels_of(const struct nn_conv *conv) {
    return conv->height * conv->width;
}

/* Returns how many of n images are processed at a time. */
static size_t images_together(const struct nn_conv *conv, size_t n) {
    size_t images = PATCHES_TOGETHER / nn_conv_workspace(conv, 1);
    images = images > 1 ? images : 1;
    return images < n ? images : n;
}

size_t nn_cuda_conv_workspace(const struct nn_conv *conv, size_t n) {
    return nn_conv_workspace(conv, images_together(conv, n));
}

/* A part of a convolution: images first..first + count - 1. */
struct part {
    size_t first, count;
};

/* Moves to the next part; *part must be zeros at first. Returns whether there is one. */
static bool next_part(const struct nn_conv *conv, size_t n, struct part *part) {
    size_t together = images_together(conv, n);
    part->first += part->count;
    part->count = n - part->first < together ? n - part->first : together;
    return part->count > 0;
}

static int forward_part(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *w, size_t n,
                        float *workspace, float *y, struct error *error) {
    size_t depth = nn_conv_patch(conv) + 1;
    const struct nn_cuda_product product = {.m = n * pixels_of(conv),
                                            .n = conv->filters,
                                            .k = depth,
                                            .a = {.values = workspace, .stride = depth},
                                            .b = {.values = w, .stride = conv->filters},
                                            .c = y,
                                            .c_stride = conv->filters,
                                            .scale = 1};
    TRY_CUDA(error, nn_kernel_patches(cuda->stream, conv, x, n, workspace));
    return nn_cuda_multiply(cuda, &product, error);
}

static int weights_part(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *dy, size_t n,
                        float *workspace, float *dw, struct error *error) {
    size_t depth = nn_conv_patch(conv) + 1;
    const struct nn_cuda_product product = {.m = depth,
                                            .n = conv->filters,
                                            .k = n * pixels_of(conv),
                                            .a = {.values = workspace, .stride = depth, .transposed = true},
                                            .b = {.values = dy, .stride = conv->filters},
                                            .c = dw,
                                            .c_stride = conv->filters,
                                            .scale = 1,
                                            .keep = 1};
    TRY_CUDA(error, nn_kernel_patches(cuda->stream, conv, x, n, workspace));
    return nn_cuda_multiply(cuda, &product, error);
}

static int inputs_part(struct nn_cuda *cuda, const struct nn_conv *conv, const float *dy, const float *w, size_t n,
                       float *workspace, float *dx, struct error *error) {
    size_t patch = nn_conv_patch(conv);
    const struct nn_cuda_product product = {.m = n * pixels_of(conv),
                                            .n = patch,
                                            .k = conv->filters,
                                            .a = {.values = dy, .stride = conv->filters},
                                            .b = {.values = w, .stride = conv->filters, .transposed = true},
                                            .c = workspace,
                                            .c_stride = patch,
                                            .scale = 1};
    TRY(nn_cuda_multiply(cuda, &product, error));
    TRY_CUDA(error, nn_kernel_sum_patches(cuda->stream, conv, workspace, n, dx));
    return 0;
}

int nn_cuda_conv_forward(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *w, size_t n,
                         float *workspace, float *y, struct error *error) {
    for (struct part part = {0}; next_part(conv, n, &part);) {
        size_t pixel = part.first * pixels_of(conv);
        TRY(forward_part(cuda, conv, x + pixel * conv->channels, w, part.count, workspace, y + pixel * conv->filters,
                         error));
    }
    return 0;
}

int nn_cuda_conv_weights(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *dy, size_t n,
                         float *workspace, float *dw, struct error *error) {
    for (struct part part = {0}; next_part(conv, n, &part);) {
        size_t pixel = part.first * pixels_of(conv);
        TRY(weights_part(cuda, conv, x + pixel * conv->channels, dy + pixel * conv->filters, part.count, workspace, dw,
                         error));
    }
    return 0;
}

int nn_cuda_conv_inputs(struct nn_cuda *cuda, const struct nn_conv *conv, const float *dy, const float *w, size_t n,
                        float *workspace, float *dx, struct error *error) {
    for (struct part part = {0}; next_part(conv, n, &part);) {
        size_t pixel = part.first * pixels_of(conv);
        TRY(inputs_part(cuda, conv, dy + pixel * conv->filters, w, part.count, workspace, dx + pixel * conv->channels,
                        error));
    }
    return 0;
}

/* ---- Layer norm ---- */

int nn_cuda_norm_backward(struct nn_cuda *cuda, const float *x, const float *scales, size_t n, size_t size,
                          float *workspace, float *dscales, float *errors, struct error *error) {
    TRY(add_rows(cuda, errors, n, size, dscales + size, error));
    TRY_CUDA(error, nn_kernel_norm_backward(cuda->stream, x, scales, n, size, workspace, errors));
    return add_rows(cuda, workspace, n, size, dscales, error);
}
