/* See cuda_kernels.h. Compiled without fast-math: results differ from the CPU's by rounding.
 *
 * In most kernels a thread computes whole values of the output, one at a time. So no sum needs atomics, and results
 * are reproducible. Indexes of values have 32 bits, as divisions by shapes are slow otherwise. */
#include "apps/nn/cuda_kernels.h"

#include <cuda_runtime.h>
#include <math.h>

enum { WARP = 32, WARPS_MAX = 8, THREADS = WARPS_MAX * WARP, BLOCKS_MAX = 4096 };

/* Returns the number of blocks for a kernel that divides `count` values among its threads. */
static unsigned blocks_of(size_t count) {
    const size_t blocks = (count + THREADS - 1) / THREADS;
    return blocks < 1 ? 1 : blocks < BLOCKS_MAX ? (unsigned)blocks : (unsigned)BLOCKS_MAX;
}

/* Returns the number of blocks for a kernel that divides `count` rows among its blocks. */
static unsigned blocks_of_rows(size_t count, unsigned most) {
    return count < 1 ? 1 : count < most ? (unsigned)count : most;
}

/* Returns the number of threads in a block that divides the values of a row among its threads. */
static unsigned threads_of(size_t values) {
    return values <= 128 ? WARP : values <= 1024 ? 4 * WARP : WARPS_MAX * WARP;
}

__device__ static uint32_t first_value() {
    return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ static uint32_t value_step() {
    return gridDim.x * blockDim.x;
}

/* ---- Reductions over a block of whole warps; each thread gets the result ---- */

struct best {
    float value;
    uint32_t index;
};

/* Returns the larger value, or the first of equal ones. NaN is never better. */
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
    __syncthreads(); /* before the next write to `of_warp` */
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

/* ---- Copies ---- */

__global__ static void fill_kernel(float *values, uint32_t count, float value) {
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        values[i] = value;
    }
}

__global__ static void copy_rows_kernel(const float *from, size_t stride, uint32_t count, uint32_t size, float *to) {
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        to[i] = from[i / size * stride + i % size];
    }
}

/* ---- Convolution ---- */

struct image {
    uint32_t height, width, channels, k, before;
};

static image image_of(const nn_conv *conv) {
    return {(uint32_t)conv->height, (uint32_t)conv->width, (uint32_t)conv->channels, (uint32_t)conv->k,
            (uint32_t)(conv->k - 1) / 2};
}

/* A block handles one pixel at a time, and its threads the values of the patch. Rows and columns above the image
 * wrap around to huge numbers. */
__global__ static void patches_kernel(image image, const float *x, uint32_t pixels, float *patches) {
    const uint32_t depth = image.k * image.k * image.channels + 1;
    for (uint32_t pixel = blockIdx.x; pixel < pixels; pixel += gridDim.x) {
        const uint32_t first = pixel / image.width / image.height * image.height;
        const uint32_t top = pixel / image.width % image.height - image.before;
        const uint32_t left = pixel % image.width - image.before;
        for (uint32_t e = threadIdx.x; e < depth; e += blockDim.x) {
            const uint32_t row = top + e / image.channels / image.k;
            const uint32_t column = left + e / image.channels % image.k;
            float value = 0;
            if (e == depth - 1) {
                value = 1;
            } else if (row < image.height && column < image.width) {
                value = x[((size_t)(first + row) * image.width + column) * image.channels + e % image.channels];
            }
            patches[(size_t)pixel * depth + e] = value;
        }
    }
}

/* A thread adds up all copies of its value. */
__global__ static void sum_patches_kernel(image image, const float *patches, uint32_t count, float *dx) {
    const size_t depth = (size_t)image.k * image.k * image.channels;
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        const uint32_t c = i % image.channels;
        const uint32_t q = i / image.channels % image.width;
        const uint32_t r = i / image.channels / image.width % image.height;
        const uint32_t first = i / image.channels / image.width / image.height * image.height;
        float sum = 0;
        for (uint32_t u = 0; u < image.k; u++) {
            const uint32_t row = r + image.before - u; /* row of the pixel whose patch has the value at u, v */
            for (uint32_t v = 0; v < image.k && row < image.height; v++) {
                const uint32_t column = q + image.before - v;
                if (column < image.width) {
                    const size_t pixel = (size_t)(first + row) * image.width + column;
                    sum += patches[pixel * depth + (u * image.k + v) * image.channels + c];
                }
            }
        }
        dx[i] = sum;
    }
}

/* ---- Max-pool ---- */

struct windows {
    uint32_t height, width, channels, size; /* of the input */
};

static windows windows_of(const nn_pool *pool) {
    return {(uint32_t)pool->height, (uint32_t)pool->width, (uint32_t)pool->channels, (uint32_t)pool->size};
}

__global__ static void pool_forward_kernel(windows w, const float *x, uint32_t count, float *y, unsigned char *at) {
    const uint32_t height = w.height / w.size;
    const uint32_t width = w.width / w.size;
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        const uint32_t c = i % w.channels;
        const uint32_t q = i / w.channels % width;
        const uint32_t r = i / w.channels / width % height;
        const uint32_t image = i / w.channels / width / height;
        const float *window = x + ((size_t)(image * w.height + r * w.size) * w.width + q * w.size) * w.channels + c;
        float largest = window[0];
        uint32_t place = 0;
        for (uint32_t p = 1; p < w.size * w.size; p++) {
            const float value = window[(size_t)(p / w.size * w.width + p % w.size) * w.channels];
            if (value > largest) {
                largest = value;
                place = p;
            }
        }
        y[i] = largest;
        at[i] = (unsigned char)place;
    }
}

__global__ static void pool_backward_kernel(windows w, const float *dy, const unsigned char *at, uint32_t count,
                                            float *dx) {
    const uint32_t height = w.height / w.size;
    const uint32_t width = w.width / w.size;
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        const uint32_t c = i % w.channels;
        const uint32_t q = i / w.channels % w.width;
        const uint32_t r = i / w.channels / w.width % w.height;
        const uint32_t image = i / w.channels / w.width / w.height;
        float value = 0;
        if (r / w.size < height && q / w.size < width) {
            const size_t window = ((size_t)(image * height + r / w.size) * width + q / w.size) * w.channels + c;
            value = at[window] == r % w.size * w.size + q % w.size ? dy[window] : 0;
        }
        dx[i] = value;
    }
}

/* ---- Functions of single values ---- */

__global__ static void relu_forward_kernel(float *values, uint32_t count) {
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        values[i] = values[i] < 0 ? 0 : values[i]; /* NaN stays NaN */
    }
}

__global__ static void relu_backward_kernel(const float *y, float *dy, uint32_t count) {
    for (uint32_t i = first_value(); i < count; i += value_step()) {
        dy[i] = y[i] <= 0 ? 0 : dy[i];
    }
}

/* hash_mix of base/hash.h, which device code can't call. */
__device__ static uint64_t mix(uint64_t key) {
    key += 0x9E3779B97F4A7C15U;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9U;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBU;
    return key ^ (key >> 31);
}

/* A thread handles two neighbouring values of a row at a time, as one random number has the bits for both. */
__global__ static void dropout_kernel(float *values, uint32_t n, uint32_t size, const uint64_t *keys, uint64_t number,
                                      uint32_t limit, float factor) {
    const uint32_t pairs = size / 2 + size % 2;
    for (uint32_t p = first_value(); p < n * pairs; p += value_step()) {
        const uint32_t i = p % pairs * 2;
        const uint64_t bits = mix(mix(mix(keys[p / pairs] + number)) + i);
        float *two = values + (size_t)(p / pairs) * size + i;
        two[0] = (uint32_t)bits < limit ? 0 : two[0] * factor;
        if (i + 1 < size) {
            two[1] = (uint32_t)(bits >> 32) < limit ? 0 : two[1] * factor;
        }
    }
}

/* ---- Layer norm: a block handles one row at a time ---- */

struct moments {
    float mean, scale; /* scale: 1 / standard deviation */
};

__device__ static moments moments_of(const float *x, uint32_t size) {
    double sum = 0;
    double squares = 0;
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        sum += (double)x[i];
    }
    const float mean = (float)(block_sum(sum) / size);
    for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
        squares += (double)((x[i] - mean) * (x[i] - mean));
    }
    const float variance = (float)(block_sum(squares) / size);
    return {mean, 1 / sqrtf(variance + NN_NORM_EPSILON)};
}

__global__ static void norm_forward_kernel(const float *x, const float *scales, uint32_t n, uint32_t size, float *y) {
    for (uint32_t s = blockIdx.x; s < n; s += gridDim.x) {
        const float *of = x + (size_t)s * size;
        const moments m = moments_of(of, size);
        for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
            y[(size_t)s * size + i] = (of[i] - m.mean) * m.scale * scales[i] + scales[size + i];
        }
    }
}

/* With the normalized values h and e = gain dy:  dx = scale (e - mean(e) - h mean(e h)). */
__global__ static void norm_backward_kernel(const float *x, const float *gain, uint32_t n, uint32_t size,
                                            float *products, float *errors) {
    for (uint32_t s = blockIdx.x; s < n; s += gridDim.x) {
        const float *of = x + (size_t)s * size;
        float *dy = errors + (size_t)s * size;
        float *product = products + (size_t)s * size;
        const moments m = moments_of(of, size);
        double e_sum = 0;
        double eh_sum = 0;
        for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
            product[i] = dy[i] * (of[i] - m.mean) * m.scale;
            e_sum += (double)(gain[i] * dy[i]);
            eh_sum += (double)(gain[i] * product[i]);
        }
        const float e_mean = (float)(block_sum(e_sum) / size);
        const float eh_mean = (float)(block_sum(eh_sum) / size);
        for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
            const float h = (of[i] - m.mean) * m.scale;
            dy[i] = m.scale * (gain[i] * dy[i] - e_mean - h * eh_mean);
        }
    }
}

/* ---- Softmax ---- */

/* A block handles one sample at a time. A thread reads and writes the same classes in all three loops. */
__global__ static void softmax_kernel(nn_kernel_logits logits, nn_kernel_sums *sums) {
    __shared__ float of_label;
    const uint32_t classes = (uint32_t)logits.classes;
    double loss = 0;                /* used by thread 0 only */
    unsigned long long correct = 0; /* used by thread 0 only */
    for (size_t s = blockIdx.x; s < logits.count; s += gridDim.x) {
        float *z = logits.values + s * logits.stride;
        const uint32_t label = logits.labels[s * logits.label_stride];
        best largest = {-INFINITY, UINT32_MAX};
        for (uint32_t k = threadIdx.x; k < classes; k += blockDim.x) {
            best here = {z[k] + (logits.bias != NULL ? logits.bias[k] : 0.0F), k};
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
        __syncthreads(); /* before the next write to `of_label` */
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x].loss += loss;
        sums[blockIdx.x].correct += correct;
    }
}

/* ---- Launching them ---- */

cudaError_t nn_kernel_usable(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, softmax_kernel);
}

cudaError_t nn_kernel_fill(cudaStream_t stream, float *values, size_t count, float value) {
    fill_kernel<<<blocks_of(count), THREADS, 0, stream>>>(values, (uint32_t)count, value);
    return cudaGetLastError();
}

cudaError_t nn_kernel_copy_rows(cudaStream_t stream, const float *from, size_t stride, size_t n, size_t size,
                                float *to) {
    copy_rows_kernel<<<blocks_of(n * size), THREADS, 0, stream>>>(from, stride, (uint32_t)(n * size), (uint32_t)size,
                                                                  to);
    return cudaGetLastError();
}

cudaError_t nn_kernel_patches(cudaStream_t stream, const nn_conv *conv, const float *x, size_t n, float *patches) {
    const size_t pixels = n * conv->height * conv->width;
    patches_kernel<<<blocks_of_rows(pixels, BLOCKS_MAX), threads_of(nn_conv_patch(conv) + 1), 0, stream>>>(
        image_of(conv), x, (uint32_t)pixels, patches);
    return cudaGetLastError();
}

cudaError_t nn_kernel_sum_patches(cudaStream_t stream, const nn_conv *conv, const float *patches, size_t n, float *dx) {
    const size_t count = n * conv->height * conv->width * conv->channels;
    sum_patches_kernel<<<blocks_of(count), THREADS, 0, stream>>>(image_of(conv), patches, (uint32_t)count, dx);
    return cudaGetLastError();
}

cudaError_t nn_kernel_pool_forward(cudaStream_t stream, const nn_pool *pool, const float *x, size_t n, float *y,
                                   unsigned char *at) {
    const size_t count = n * (pool->height / pool->size) * (pool->width / pool->size) * pool->channels;
    pool_forward_kernel<<<blocks_of(count), THREADS, 0, stream>>>(windows_of(pool), x, (uint32_t)count, y, at);
    return cudaGetLastError();
}

cudaError_t nn_kernel_pool_backward(cudaStream_t stream, const nn_pool *pool, const float *dy, const unsigned char *at,
                                    size_t n, float *dx) {
    const size_t count = n * pool->height * pool->width * pool->channels;
    pool_backward_kernel<<<blocks_of(count), THREADS, 0, stream>>>(windows_of(pool), dy, at, (uint32_t)count, dx);
    return cudaGetLastError();
}

cudaError_t nn_kernel_relu_forward(cudaStream_t stream, float *values, size_t count) {
    relu_forward_kernel<<<blocks_of(count), THREADS, 0, stream>>>(values, (uint32_t)count);
    return cudaGetLastError();
}

cudaError_t nn_kernel_relu_backward(cudaStream_t stream, const float *y, float *dy, size_t count) {
    relu_backward_kernel<<<blocks_of(count), THREADS, 0, stream>>>(y, dy, (uint32_t)count);
    return cudaGetLastError();
}

cudaError_t nn_kernel_dropout(cudaStream_t stream, float *values, size_t n, size_t size, const uint64_t *keys,
                              uint64_t number, float drop) {
    const uint32_t limit = (uint32_t)((double)drop * 4294967296.0);
    dropout_kernel<<<blocks_of(n * (size / 2 + size % 2)), THREADS, 0, stream>>>(values, (uint32_t)n, (uint32_t)size,
                                                                                 keys, number, limit, 1 / (1 - drop));
    return cudaGetLastError();
}

cudaError_t nn_kernel_norm_forward(cudaStream_t stream, const float *x, const float *scales, size_t n, size_t size,
                                   float *y) {
    norm_forward_kernel<<<blocks_of_rows(n, BLOCKS_MAX), threads_of(size), 0, stream>>>(x, scales, (uint32_t)n,
                                                                                        (uint32_t)size, y);
    return cudaGetLastError();
}

cudaError_t nn_kernel_norm_backward(cudaStream_t stream, const float *x, const float *scales, size_t n, size_t size,
                                    float *products, float *errors) {
    norm_backward_kernel<<<blocks_of_rows(n, BLOCKS_MAX), threads_of(size), 0, stream>>>(
        x, scales, (uint32_t)n, (uint32_t)size, products, errors);
    return cudaGetLastError();
}

cudaError_t nn_kernel_softmax(cudaStream_t stream, const nn_kernel_logits *logits,
                              nn_kernel_sums sums[NN_KERNEL_SUMS]) {
    softmax_kernel<<<blocks_of_rows(logits->count, NN_KERNEL_SUMS), threads_of(logits->classes), 0, stream>>>(*logits,
                                                                                                              sums);
    return cudaGetLastError();
}
