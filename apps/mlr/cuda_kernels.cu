/* See cuda_kernels.h. Compiled without fast-math: results differ from the CPU's by rounding. */
#include "apps/mlr/cuda_kernels.h"

#include <cuda_runtime.h>

enum { THREADS = 128, ROWS_MAX = 1024 /* blocks that divide the rows of a table */ };

__global__ static void momentum_kernel(float *weights, float *velocity, size_t stride, uint32_t bias, uint32_t classes,
                                       float decay) {
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= classes) {
        return;
    }
    for (size_t f = blockIdx.y; f <= bias; f += gridDim.y) {
        const size_t i = f * stride + k;
        const float v = velocity[i] + (f < bias ? decay * weights[i] : 0.0F);
        velocity[i] = v;
        weights[i] -= v;
    }
}

cudaError_t mlr_cuda_momentum(cudaStream_t stream, float *weights, float *velocity, size_t stride, uint32_t bias,
                              uint32_t classes, float decay) {
    const dim3 blocks((classes + THREADS - 1) / THREADS, bias < ROWS_MAX ? bias + 1 : (unsigned)ROWS_MAX);
    momentum_kernel<<<blocks, THREADS, 0, stream>>>(weights, velocity, stride, bias, classes, decay);
    return cudaGetLastError();
}
