/* The layers with weights, and layer norm, on a GPU. Shapes and formulas are those of layers.h, except that samples
 * are contiguous. All arrays are in device memory; work is queued on cuda's stream. An array has at most INT32_MAX
 * values, and n is at least 1. Functions called `weights` add their result to dw. Errors: see cuda.h. */
#ifndef APPS_NN_CUDA_LAYERS_H
#define APPS_NN_CUDA_LAYERS_H

#include "apps/nn/cuda.h"
#include "apps/nn/layers.h"

int nn_cuda_dense_forward(struct nn_cuda *cuda, const struct nn_dense *dense, const float *x, const float *w, size_t n,
                          float *y, struct error *error);
/* Call nn_cuda_sum_room for n before. */
int nn_cuda_dense_weights(struct nn_cuda *cuda, const struct nn_dense *dense, const float *x, const float *dy, size_t n,
                          float *dw, struct error *error);
int nn_cuda_dense_inputs(struct nn_cuda *cuda, const struct nn_dense *dense, const float *dy, const float *w, size_t n,
                         float *dx, struct error *error);

/* Returns the floats of workspace that the convolution's functions need for n images: enough for some images at a
 * time, or for one large image. */
size_t nn_cuda_conv_workspace(const struct nn_conv *conv, size_t n);
int nn_cuda_conv_forward(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *w, size_t n,
                         float *workspace, float *y, struct error *error);
int nn_cuda_conv_weights(struct nn_cuda *cuda, const struct nn_conv *conv, const float *x, const float *dy, size_t n,
                         float *workspace, float *dw, struct error *error);
int nn_cuda_conv_inputs(struct nn_cuda *cuda, const struct nn_conv *conv, const float *dy, const float *w, size_t n,
                        float *workspace, float *dx, struct error *error);

/* Layer norm, backward: adds to dscales[2][size], and turns errors[n][size] from dy into dx. workspace[n][size].
 * Call nn_cuda_sum_room for n before. The forward function is a kernel. */
int nn_cuda_norm_backward(struct nn_cuda *cuda, const float *x, const float *scales, size_t n, size_t size,
                          float *workspace, float *dscales, float *errors, struct error *error);

#endif
