/* The CUDA C++ that kernels use. A block's threads are fibers of one thread, which switches between them where CUDA's
 * threads wait for each other. See cuda_runtime_api.h. A kernel launch k<<<blocks, threads, shared, stream>>>(...) is
 * not C++: the build replaces it by CUDA_LAUNCH(k, blocks, threads, shared, stream)(...). */
#ifndef TESTS_CUDA_CUDA_RUNTIME_H
#define TESTS_CUDA_CUDA_RUNTIME_H

#include "cuda_runtime_api.h"

#include <functional>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __shared__ static /* one block runs at a time */

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_of = 1, unsigned y_of = 1, unsigned z_of = 1) : x(x_of), y(y_of), z(z_of) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct cudaFuncAttributes {
    int numRegs;
};
template <typename Kernel> cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel *) {
    attributes->numRegs = 0;
    return cudaSuccess;
}

/* Queues a kernel, each of whose threads calls `thread`. */
void emulation_launch(cudaStream_t stream, dim3 blocks, dim3 threads, std::function<void()> thread);
/* Returns when all threads of the block have called it. All must give the same `reason`. */
void emulation_meet(const char *reason);
/* Returns the 8 bytes of a thread of the block, for shuffles. */
uint64_t *emulation_lane(unsigned thread);

static inline void __syncthreads() {
    emulation_meet("__syncthreads");
}

template <typename Value> Value __shfl_xor_sync(unsigned, Value mine, int distance) {
    Value other;
    memcpy(emulation_lane(threadIdx.x), &mine, sizeof mine);
    emulation_meet("__shfl_xor_sync");
    memcpy(&other, emulation_lane(threadIdx.x ^ (unsigned)distance), sizeof other);
    emulation_meet("__shfl_xor_sync, read");
    return other;
}

static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

template <typename... Parameters> struct EmulatedLaunch {
    void (*kernel)(Parameters...);
    dim3 blocks, threads;
    cudaStream_t stream;
    void operator()(Parameters... values) const {
        auto function = kernel;
        emulation_launch(stream, blocks, threads, [=]() { function(values...); });
    }
};
template <typename... Parameters>
EmulatedLaunch<Parameters...> emulated_launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, size_t,
                                              cudaStream_t stream) {
    return {kernel, blocks, threads, stream};
}
#define CUDA_LAUNCH(kernel, blocks, threads, shared, stream) emulated_launch(kernel, blocks, threads, shared, stream)

#endif
