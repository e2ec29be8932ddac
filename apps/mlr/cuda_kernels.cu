/* See cuda_kernels.h. Compiled without fast-math: results differ from the CPU's by rounding. */
#include "apps/mlr/cuda_kernels.h"

#include <cuda_runtime.h>
#include <math.h>

enum { WARP = 32, WARPS_MAX = 8, ROWS_MAX = 1024 /* blocks that share the rows of a table */ };

/* Returns the threads of a block, which are spread over the classes. */
static unsigned threads_of(uint32_t classes) {
    return classes <= 128 ? WARP : classes <= 1024 ? 4 * WARP : WARPS_MAX * WARP;
}

/* ---- Reductions over a block of whole warps: each thread gets the result ---- */

struct best {
    float value;
    uint32_t index;
};

/* Returns the larger value, of equal ones the first. NaN is never better. */
__device__ static best better(best a, best b) {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
}

__device__ static best block_best(best mine) {
    __shared__ best of_warp[WARPS_MAX];
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        best other;
        other.value = __shfl_xor_sync(0xffffffffU, mine.value, distance);
        other.index = __shfl_xor_sync(0xffffffffU, mine.index, distance);
        mine = better(mine, other);
    }
    if (threadIdx.x % WARP == 0) {
        of_warp[threadIdx.x / WARP] = mine;
    }
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / WARP; w++) {
        mine = better(mine, of_warp[w]);
    }
    __syncthreads(); /* before `of_warp` is written again */
    return mine;
}

__device__ static double block_sum(double mine) {
    __shared__ double of_warp[WARPS_MAX];
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        mine += __shfl_xor_sync(0xffffffffU, mine, distance);
    }
    if (threadIdx.x % WARP == 0) {
        of_warp[threadIdx.x / WARP] = mine;
    }
    __syncthreads();
    double sum = 0;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) {
        sum += of_warp[w];
    }
    __syncthreads();
    return sum;
}

/* ---- The kernels ---- */

/* A block handles one sample at a time. A thread reads and writes the same classes in all three loops. */
__global__ static void softmax_kernel(float *logits, size_t stride, uint32_t classes, const float *bias,
                                      const float *samples, uint32_t features, size_t count, mlr_cuda_sums *sums) {
    __shared__ float of_label;
    double loss = 0;                /* of thread 0 */
    unsigned long long correct = 0; /* likewise */
    for (size_t s = blockIdx.x; s < count; s += gridDim.x) {
        float *z = logits + s * stride;
        const uint32_t label = __float_as_uint(samples[s * ((size_t)features + 1) + features]);
        best largest = {-INFINITY, UINT32_MAX};
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            best here = {z[k] + bias[k], k};
            z[k] = here.value;
            largest = better(largest, here);
            if (k == label) {
                of_label = here.value;
            }
        }
        largest = block_best(largest); /* its barrier also makes `of_label` visible */
        double sum = 0;
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            z[k] = expf(z[k] - largest.value);
            sum += (double)z[k];
        }
        sum = block_sum(sum);
        const float scale = (float)(1 / sum);
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            z[k] = z[k] * scale - (k == label ? 1.0F : 0.0F);
        }
        if (threadIdx.x == 0) {
            loss += log(sum) - ((double)of_label - (double)largest.value);
            correct += largest.index == label ? 1 : 0;
        }
        __syncthreads(); /* before `of_label` is written again */
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x].loss += loss;
        sums[blockIdx.x].correct += correct;
    }
}

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

__global__ static void fill_kernel(float *values, size_t count, float value) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        values[i] = value;
    }
}

/* ---- Launching them ---- */

cudaError_t mlr_cuda_usable(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, softmax_kernel);
}

cudaError_t mlr_cuda_softmax(cudaStream_t stream, float *logits, size_t stride, uint32_t classes, const float *bias,
                             const float *samples, uint32_t features, size_t count, mlr_cuda_sums sums[MLR_CUDA_SUMS]) {
    const unsigned blocks = count < MLR_CUDA_SUMS ? (unsigned)count : (unsigned)MLR_CUDA_SUMS;
    softmax_kernel<<<blocks, threads_of(classes), 0, stream>>>(logits, stride, classes, bias, samples, features, count,
                                                               sums);
    return cudaGetLastError();
}

cudaError_t mlr_cuda_momentum(cudaStream_t stream, float *weights, float *velocity, size_t stride, uint32_t bias,
                              uint32_t classes, float decay) {
    const unsigned threads = threads_of(classes);
    const dim3 blocks((classes + threads - 1) / threads, bias < ROWS_MAX ? bias + 1 : (unsigned)ROWS_MAX);
    momentum_kernel<<<blocks, threads, 0, stream>>>(weights, velocity, stride, bias, classes, decay);
    return cudaGetLastError();
}

cudaError_t mlr_cuda_fill(cudaStream_t stream, float *values, size_t count, float value) {
    const unsigned threads = WARPS_MAX * WARP;
    fill_kernel<<<(unsigned)((count + threads - 1) / threads), threads, 0, stream>>>(values, count, value);
    return cudaGetLastError();
}
