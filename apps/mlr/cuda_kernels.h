/* What of mlr's dense steps on a GPU is no matrix product: three kernels, queued on `stream`. All pointers are the
 * device's. Each returns the error of its launch; one while it runs shows in a later call. */
#ifndef APPS_MLR_CUDA_KERNELS_H
#define APPS_MLR_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MLR_CUDA_SUMS = 2048 /* blocks of the softmax, at most */ };

/* What one block has summed. Only it adds to these, and launches on a stream follow one another: no atomics needed, and
 * the same sums each time. */
struct mlr_cuda_sums {
    double loss;
    unsigned long long correct;
};

/* Whether the device can run these kernels. */
cudaError_t mlr_cuda_usable(void);

/* logits[count][stride], of which `classes` are used, become errors in place: softmax(logits + bias) - onehot(label).
 * The loss of each sample and whether its label has the largest logit (the first one of equal ones) go to sums. The
 * label of sample s is the uint32_t at samples[s * (features + 1) + features]. */
cudaError_t mlr_cuda_softmax(cudaStream_t stream, float *logits, size_t stride, uint32_t classes, const float *bias,
                             const float *samples, uint32_t features, size_t count,
                             struct mlr_cuda_sums sums[MLR_CUDA_SUMS]);

/* The end of a step with momentum, for rows 0..bias of both: v += decay w (not in row `bias`); w -= v. */
cudaError_t mlr_cuda_momentum(cudaStream_t stream, float *weights, float *velocity, size_t stride, uint32_t bias,
                              uint32_t classes, float decay);

cudaError_t mlr_cuda_fill(cudaStream_t stream, float *values, size_t count, float value);

#ifdef __cplusplus
}
#endif

#endif
