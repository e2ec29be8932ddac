/* The kernels that mlr's dense steps need in addition to apps/nn's (apps/nn/cuda_kernels.h): momentum. */
#ifndef APPS_MLR_CUDA_KERNELS_H
#define APPS_MLR_CUDA_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ends a step with momentum, for rows 0..bias of both tables: v += decay w (not in row `bias`); w -= v. Pointers are
 * to device memory. Queued on `stream`; returns the error of the launch. */
cudaError_t mlr_cuda_momentum(cudaStream_t stream, float *weights, float *velocity, size_t stride, uint32_t bias,
                              uint32_t classes, float decay);

#ifdef __cplusplus
}
#endif

#endif
