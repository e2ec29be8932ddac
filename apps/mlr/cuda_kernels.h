/* The parts of mlr's dense steps on a GPU that are not matrix products: three kernels, queued on `stream`. All pointers
 * are the device's. Each function returns the error of its launch; a later call returns an error of the run. */
#ifndef APPS_MLR_CUDA_KERNELS_H
#define APPS_MLR_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MLR_CUDA_SUMS = 2048 /* blocks of the softmax, at most */ };

/* The sums of one block. No other block adds to them, and launches on a stream follow one another: so sums need no
 * atomics, and are the same each time. */
struct mlr_cuda_sums {
    double loss;
    unsigned long long correct;
};

/* Returns cudaSuccess when the device can run these kernels. */
cudaError_t mlr_cuda_usable(void);

/* Turns logits[count][stride], of which `classes` are used, into errors in place: softmax(logits + bias) -
 * onehot(label). Adds the losses, and the samples whose label has the largest logit (of equal logits the first), to
 * sums. The label of sample s is the uint32_t at samples[s * (features + 1) + features]. */
cudaError_t mlr_cuda_softmax(cudaStream_t stream, float *logits, size_t stride, uint32_t classes, const float *bias,
                             const float *samples, uint32_t features, size_t count,
                             struct mlr_cuda_sums sums[MLR_CUDA_SUMS]);

/* Ends a step with momentum, for rows 0..bias of both: v += decay w (not in row `bias`); w -= v. */
cudaError_t mlr_cuda_momentum(cudaStream_t stream, float *weights, float *velocity, size_t stride, uint32_t bias,
                              uint32_t classes, float decay);

cudaError_t mlr_cuda_fill(cudaStream_t stream, float *values, size_t count, float value);

#ifdef __cplusplus
}
#endif

#endif
