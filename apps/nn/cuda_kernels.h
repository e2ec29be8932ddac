/* The layers of layers.h on a GPU, except matrix products, queued on `stream`. Shapes and formulas are those of
 * layers.h; results differ by rounding. All pointers are to device memory. An array has at most INT32_MAX values.
 * Each function returns the error of its launch. An error while the kernel runs is returned by a later call. */
#ifndef APPS_NN_CUDA_KERNELS_H
#define APPS_NN_CUDA_KERNELS_H

#include "apps/nn/layers.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns cudaSuccess when the device can run these kernels. */
cudaError_t nn_kernel_usable(void);

cudaError_t nn_kernel_fill(cudaStream_t stream, float *values, size_t count, float value);

/* to[n][size] = from, whose rows are `stride` floats apart. With stride 0 all rows equal the first. */
cudaError_t nn_kernel_copy_rows(cudaStream_t stream, const float *from, size_t stride, size_t n, size_t size,
                                float *to);

/* Fills patches[n pixels][nn_conv_patch + 1]: a row for each pixel, with the values of its patch and a 1. */
cudaError_t nn_kernel_patches(cudaStream_t stream, const struct nn_conv *conv, const float *x, size_t n,
                              float *patches);
/* The reverse of nn_kernel_patches, for patches[n pixels][nn_conv_patch]: each value of dx becomes the sum of its
 * copies. */
cudaError_t nn_kernel_sum_patches(cudaStream_t stream, const struct nn_conv *conv, const float *patches, size_t n,
                                  float *dx);

cudaError_t nn_kernel_pool_forward(cudaStream_t stream, const struct nn_pool *pool, const float *x, size_t n, float *y,
                                   unsigned char *at);
cudaError_t nn_kernel_pool_backward(cudaStream_t stream, const struct nn_pool *pool, const float *dy,
                                    const unsigned char *at, size_t n, float *dx);

cudaError_t nn_kernel_relu_forward(cudaStream_t stream, float *values, size_t count);
cudaError_t nn_kernel_relu_backward(cudaStream_t stream, const float *y, float *dy, size_t count);

/* nn_dropout of values[n][size]; the key of row s is hash_mix(keys[s] + number). */
cudaError_t nn_kernel_dropout(cudaStream_t stream, float *values, size_t n, size_t size, const uint64_t *keys,
                              uint64_t number, float drop);

cudaError_t nn_kernel_norm_forward(cudaStream_t stream, const float *x, const float *scales, size_t n, size_t size,
                                   float *y);
/* Turns errors[n][size] from dy into dx. products[n][size] becomes dy times the normalized values. The sum of its
 * rows is the gradient of the gains; the sum of dy's rows is the gradient of the biases. */
cudaError_t nn_kernel_norm_backward(cudaStream_t stream, const float *x, const float *scales, size_t n, size_t size,
                                    float *products, float *errors);

enum { NN_KERNEL_SUMS = 2048 /* most blocks of the softmax */ };

/* The sums of one block. No other block adds to them, and launches on a stream run one after the other. So sums need
 * no atomics, and are reproducible. */
struct nn_kernel_sums {
    double loss;
    unsigned long long correct;
};

struct nn_kernel_logits {
    float *values; /* [count][stride], of which the first `classes` are used */
    size_t count, stride, classes;
    const float *bias;      /* [classes], added before the softmax; NULL: none */
    const uint32_t *labels; /* label_stride words apart */
    size_t label_stride;
};

/* Softmax and cross-entropy, forward and backward: turns logits into errors in place, softmax(logits + bias) -
 * onehot(label). Adds the losses to sums, and the number of samples whose label has the largest logit (of equal
 * logits, the first). */
cudaError_t nn_kernel_softmax(cudaStream_t stream, const struct nn_kernel_logits *logits,
                              struct nn_kernel_sums sums[NN_KERNEL_SUMS]);

#ifdef __cplusplus
}
#endif

#endif
