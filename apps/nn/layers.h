/* The layers of neural networks as plain functions on arrays: forward and backward, in the caller's thread, without
 * allocation. No graph and no automatic differentiation: a caller runs the layers forward in their order and backward
 * in the opposite one.
 *
 * All values are float32, all arrays row-major and dense. n is the number of samples. An image is [height][width]
 * [channels] (NHWC): a convolution is then one matrix product, and each of its outputs a row of all filters' values.
 * dx, dy and dw are the gradients of the loss by x, y and w. Arrays that a function reads and writes must not
 * overlap, except where its comment allows it. */
#ifndef APPS_NN_LAYERS_H
#define APPS_NN_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* A dense layer: y[n][out] = x[n][in] w + b. Row `in` of w[in + 1][out] is b. */
struct nn_dense {
    size_t in, out;
};

/* A convolution with stride 1, whose output has the input's height and width: values from outside the image are 0. The
 * k rows and columns of a patch begin (k - 1) / 2 before the pixel.
 *
 *     y[i][r][q][f] = b[f] + sum over u, v, c of x[i][r + u - (k - 1) / 2][q + v - (k - 1) / 2][c] w[u][v][c][f]
 *
 * The last row of w[k k channels + 1][filters] is b. */
struct nn_conv {
    size_t height, width, channels; /* size of the input */
    size_t k, filters;
};

static inline size_t nn_conv_patch(const struct nn_conv *conv) {
    return conv->k * conv->k * conv->channels;
}

/* Returns the floats of workspace that the convolution's functions need for n images. */
static inline size_t nn_conv_workspace(const struct nn_conv *conv, size_t n) {
    return n * conv->height * conv->width * (nn_conv_patch(conv) + 1);
}

/* One implementation of the layers with weights. Samples of x are x_stride floats apart; in all other arrays they
 * are contiguous.
 *
 * dense_weights: adds `scale` times rows first..end-1 of (x 1)^T dy to those of dw[in + 1][out]. Several threads may
 * compute different rows of the same dw.
 *
 * conv_weights: adds to dw[k k channels + 1][filters].
 *
 * The others overwrite their output. */
struct nn_products {
    void (*dense_forward)(const struct nn_dense *dense, const float *x, size_t x_stride, const float *w, size_t n,
                          float *y);
    void (*dense_weights)(const struct nn_dense *dense, const float *x, size_t x_stride, const float *dy, size_t n,
                          size_t first, size_t end, float scale, float *dw);
    void (*dense_inputs)(const struct nn_dense *dense, const float *dy, const float *w, size_t n, float *dx);
    void (*conv_forward)(const struct nn_conv *conv, const float *x, size_t x_stride, const float *w, size_t n,
                         float *workspace, float *y);
    void (*conv_weights)(const struct nn_conv *conv, const float *x, size_t x_stride, const float *dy, size_t n,
                         float *workspace, float *dw);
    void (*conv_inputs)(const struct nn_conv *conv, const float *dy, const float *w, size_t n, float *workspace,
                        float *dx);
};

extern const struct nn_products nn_blas; /* matrix products in OpenBLAS */

/* Makes OpenBLAS run each call in the caller's thread, as the callers have threads of their own, and by kernels for
 * this processor's vectors. Call it before other threads use OpenBLAS. */
void nn_blas_begin(void);

/* ---- Products of matrices, whose rows are `pitch` floats apart ---- */

struct nn_matrix {
    float *values; /* not changed where a function only reads the matrix */
    size_t pitch;
};

/* y[n][out] = beta y + x[n][in] w[in][out]; with beta 0 y need not have values. */
void nn_multiply(size_t n, size_t in, size_t out, struct nn_matrix x, struct nn_matrix w, float beta,
                 struct nn_matrix y);
/* dw[in][out] += x[n][in]^T dy[n][out]. */
void nn_multiply_weights(size_t n, size_t in, size_t out, struct nn_matrix x, struct nn_matrix dy, struct nn_matrix dw);
/* dx[n][in] = beta dx + dy[n][out] w[in][out]^T. */
void nn_multiply_inputs(size_t n, size_t in, size_t out, struct nn_matrix dy, struct nn_matrix w, float beta,
                        struct nn_matrix dx);

/* ---- Layers without matrix products ---- */

/* Maxima of adjacent windows of size x size pixels. Remaining pixels at the right and at the bottom are ignored:
 * y[n][height / size][width / size][channels]. */
struct nn_pool {
    size_t height, width, channels;
    size_t size; /* at most NN_POOL_MAX, height and width */
};

enum { NN_POOL_MAX = 16 };

/* Sets at[n][height / size][width / size][channels] to the places of the maxima in their windows, for
 * nn_pool_backward; of equal values, to the first. */
void nn_pool_forward(const struct nn_pool *pool, const float *x, size_t n, float *y, unsigned char *at);
void nn_pool_backward(const struct nn_pool *pool, const float *dy, const unsigned char *at, size_t n, float *dx);

/* The biases of a dense layer. Sets y[n][out] to the biases, so that products can be added. */
void nn_biases_forward(const struct nn_dense *dense, const float *w, size_t n, float *y);
/* Adds `scale` times the sum of dy's rows to row `in` of dw[in + 1][out]. */
void nn_biases_backward(const struct nn_dense *dense, const float *dy, size_t n, float scale, float *dw);

/* y = max(x, 0), in place. */
void nn_relu_forward(float *values, size_t count);
/* dx = dy where y > 0, else 0, in place of dy. */
void nn_relu_backward(const float *y, float *dy, size_t count);

/* Sets a part `drop` (at least 0, below 1) of the values to 0, chosen only by `key`, and divides the others by 1 -
 * drop. With the same key the function serves both values forward and errors backward. */
void nn_dropout(float *values, size_t count, uint64_t key, float drop);

/* Added to the variances of layer norm. */
#define NN_NORM_EPSILON 1e-5F

/* Layer norm: shifts and scales each of x's n rows of `size` values to mean 0 and variance 1, then y = gain *
 * normalized + bias. scales[2][size]: gain, bias. */
void nn_norm_forward(const float *x, const float *scales, size_t n, size_t size, float *y);
/* Adds to dscales[2][size]. dx may be dy. */
void nn_norm_backward(const float *x, const float *scales, const float *dy, size_t n, size_t size, float *dscales,
                      float *dx);

struct nn_loss {
    double loss;      /* the sum over samples */
    uint64_t correct; /* samples whose label has the largest logit (of equal logits, the first) */
};

/* Softmax and cross-entropy: p_k = exp(z_k) / sum_j exp(z_j), loss -log p_label. Turns z[n][classes] into p in place,
 * and adds up the losses. */
void nn_softmax_forward(float *z, const uint32_t *labels, size_t n, size_t classes, struct nn_loss *loss);
/* Replaces p by the gradient of the loss's sum by z: p - onehot(label). */
void nn_softmax_backward(float *p, const uint32_t *labels, size_t n, size_t classes);

#endif
