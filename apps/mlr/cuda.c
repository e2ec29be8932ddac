/* device.h on NVIDIA's GPUs: the process's device 0 (CUDA_VISIBLE_DEVICES chooses). Both products of a step in cuBLAS,
 * the rest in cuda_kernels.cu.
 *
 * cuBLAS's matrices are in columns, ours in rows. A matrix A in rows, r x c with rows `stride` apart, is in columns
 * A^T, c x r with leading dimension `stride`. So, for samples X (n x d), weights W (d x K), logits and then errors Z
 * (n x K):
 *     Z = X W                 is asked for as  Z^T = W^T X^T,                K x n, a sum over d; both as they lie
 *     W = beta W - r X^T Z    is asked for as  W^T = beta W^T - r Z^T X,     K x d, a sum over n; X lies transposed
 *     b = b - r Z^T 1         is a product of Z^T, K x n as it lies, with a vector of ones.
 *
 * Two streams: `compute` copies weights in, multiplies and copies weights out; `copy` fills one of two slots with
 * samples that are not kept, while `compute` works on the other slot. Copies pass through two pinned buffers: the CPU
 * fills or empties one while the device transfers the other. Each clock begins with a copy of all weights: to find only
 * the rows that other nodes have changed, the CPU would read as much as it copies.
 *
 * cuBLAS is loaded only after a device was found, so a program that was built with CUDA also runs without a device. */
#include "apps/mlr/device.h"

#include "apps/mlr/cuda_kernels.h"

#include <assert.h>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 8 << 20 };

/* The largest part of the free memory that training samples are kept in. The rest is for logits, test samples, cuBLAS
 * and other processes. */
static const double KEPT_PART = 0.75;

typedef cublasStatus_t create_function(cublasHandle_t *handle);
typedef cublasStatus_t destroy_function(cublasHandle_t handle);
typedef cublasStatus_t stream_function(cublasHandle_t handle, cudaStream_t stream);
typedef cublasStatus_t sgemm_function(cublasHandle_t handle, cublasOperation_t a_operation,
                                      cublasOperation_t b_operation, int m, int n, int k, const float *alpha,
                                      const float *a, int a_stride, const float *b, int b_stride, const float *beta,
                                      float *c, int c_stride);
typedef cublasStatus_t sgemv_function(cublasHandle_t handle, cublasOperation_t operation, int m, int n,
                                      const float *alpha, const float *a, int a_stride, const float *x, int x_step,
                                      const float *beta, float *y, int y_step);
typedef const char *status_function(cublasStatus_t status);

struct cublas {
    create_function *create;
    destroy_function *destroy;
    stream_function *set_stream;
    sgemm_function *sgemm;
    sgemv_function *sgemv;
    status_function *status_text;
};

/* Samples of a step that are not kept. */
struct slot {
    float *samples; /* on the device */
    size_t room;    /* floats */
    cudaEvent_t filled, used;
};

struct staging {
    void *bytes; /* STAGING_BYTES, pinned */
    cudaEvent_t done;
};

struct mlr_device {
    struct cublas cublas;
    cublasHandle_t handle;
    cudaStream_t compute, copy;
    uint32_t features, classes;
    size_t stride;   /* floats, of weights, velocity and logits */
    float *weights;  /* [features + 1][stride] */
    float *velocity; /* likewise; NULL without momentum */
    float *before;   /* likewise, the weights before a step in slices; NULL: not needed yet */
    float *logits;   /* [room][stride] */
    float *ones;     /* [room] */
    size_t room;
    struct mlr_cuda_sums *sums;                    /* [MLR_CUDA_SUMS] */
    struct mlr_cuda_sums sums_here[MLR_CUDA_SUMS]; /* the host's copy, made in mlr_device_end */
    struct slot slots[2];
    unsigned next_slot;
    struct staging staging[2];
    unsigned next_staging;
    const float *items; /* the training samples on the host, of which `kept` is a copy */
    float *kept;        /* [item_floats] on the device; NULL: not kept */
    size_t item_floats;
};

/* ---- Errors: every call is checked ---- */

/* `call` is the source text of the call; the message leaves out its arguments. */
static int call_failed(struct error *error, const char *call, int code, const char *reason) {
    return error_set(error, code, "CUDA: %.*s: %s", (int)strcspn(call, "("), call, reason);
}

#define TRY_CUDA(error, call)                                                                                          \
    do {                                                                                                               \
        cudaError_t code_ = (call);                                                                                    \
        if (code_ != cudaSuccess) {                                                                                    \
            return call_failed(error, #call, AML_EFAIL, cudaGetErrorString(code_));                                    \
        }                                                                                                              \
    } while (0)

#define TRY_CUBLAS(error, device, name, ...)                                                                           \
    do {                                                                                                               \
        cublasStatus_t status_ = (device)->cublas.name(__VA_ARGS__);                                                   \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                        \
            return call_failed(error, "cuBLAS " #name, status_ == CUBLAS_STATUS_ALLOC_FAILED ? AML_ENOMEM : AML_EFAIL, \
                               (device)->cublas.status_text(status_));                                                 \
        }                                                                                                              \
    } while (0)

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int result_ = (call);                                                                                          \
        if (result_ != 0) {                                                                                            \
            return result_;                                                                                            \
        }                                                                                                              \
    } while (0)

/* *memory is NULL after an error. */
static int allocate(float **memory, size_t floats, const char *what, struct error *error) {
    void *bytes = NULL;
    cudaError_t code = cudaMalloc(&bytes, floats * sizeof(float));
    *memory = code == cudaSuccess ? bytes : NULL;
    if (code == cudaSuccess) {
        return 0;
    }
    (void)cudaGetLastError(); /* clears the error: the caller may go on without this memory */
    return error_set(error, code == cudaErrorMemoryAllocation ? AML_ENOMEM : AML_EFAIL,
                     "CUDA: cudaMalloc of %.1f MB for %s: %s", (double)floats * sizeof(float) / 1e6, what,
                     cudaGetErrorString(code));
}

/* ---- The library ---- */

#define STRING_OF(x)   #x
#define VALUE_OF(x)    STRING_OF(x)
#define CUBLAS_LIBRARY "libcublas.so." VALUE_OF(CUBLAS_VER_MAJOR)

/* Checks that the types above are those of the header. */
_Static_assert(_Generic(&cublasCreate_v2, create_function * : 1, default : 0), "cublasCreate");
_Static_assert(_Generic(&cublasDestroy_v2, destroy_function * : 1, default : 0), "cublasDestroy");
_Static_assert(_Generic(&cublasSetStream_v2, stream_function * : 1, default : 0), "cublasSetStream");
_Static_assert(_Generic(&cublasSgemm_v2, sgemm_function * : 1, default : 0), "cublasSgemm");
_Static_assert(_Generic(&cublasSgemv_v2, sgemv_function * : 1, default : 0), "cublasSgemv");
_Static_assert(_Generic(&cublasGetStatusString, status_function * : 1, default : 0), "cublasGetStatusString");

/* Loads cuBLAS for good. C does not convert the object pointers of dlsym to function pointers, so they are copied byte
 * by byte, as POSIX suggests. */
static int load_cublas(struct cublas *cublas, struct error *error) {
    void *library = dlopen(CUBLAS_LIBRARY, RTLD_NOW | RTLD_NODELETE);
    if (library == NULL) {
        return error_set(error, AML_EFAIL, "CUDA: can't load cuBLAS: %s", dlerror());
    }
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"cublasCreate_v2", &cublas->create},        {"cublasDestroy_v2", &cublas->destroy},
        {"cublasSetStream_v2", &cublas->set_stream}, {"cublasSgemm_v2", &cublas->sgemm},
        {"cublasSgemv_v2", &cublas->sgemv},          {"cublasGetStatusString", &cublas->status_text},
    };
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        void *function = dlsym(library, functions[f].name);
        if (function == NULL) {
            return error_set(error, AML_EFAIL, "CUDA: %s has no %s", CUBLAS_LIBRARY, functions[f].name);
        }
        memcpy(functions[f].to, &function, sizeof function);
    }
    return 0;
}

static int check(struct error *error) {
    int count = 0;
    struct cublas cublas;
    TRY_CUDA(error, cudaGetDeviceCount(&count));
    if (count < 1) {
        return error_set(error, AML_EINPUT, "CUDA: no device");
    }
    TRY_CUDA(error, mlr_cuda_usable());
    return load_cublas(&cublas, error);
}

int mlr_device_check(struct error *error) {
    struct error reason = {0};
    return check(&reason) == 0 ? 0 : error_set(error, AML_EINPUT, "%s", reason.text);
}

/* ---- Copying ---- */

/* Queues a copy of bytes[size] to the device. The caller may change the bytes afterwards. */
static int upload(struct mlr_device *device, void *to, const void *bytes, size_t size, cudaStream_t stream,
                  struct error *error) {
    for (size_t done = 0; done < size; done += STAGING_BYTES) {
        size_t part = size - done < STAGING_BYTES ? size - done : STAGING_BYTES;
        struct staging *staging = &device->staging[device->next_staging];
        device->next_staging ^= 1;
        TRY_CUDA(error, cudaEventSynchronize(staging->done));
        memcpy(staging->bytes, (const unsigned char *)bytes + done, part);
        TRY_CUDA(error,
                 cudaMemcpyAsync((unsigned char *)to + done, staging->bytes, part, cudaMemcpyHostToDevice, stream));
        TRY_CUDA(error, cudaEventRecord(staging->done, stream));
    }
    return 0;
}

/* Waits for `compute` and copies to the host. Copies a part out of its buffer while the next part arrives. */
static int download(struct mlr_device *device, void *to, const void *from, size_t size, struct error *error) {
    size_t parts = (size + STAGING_BYTES - 1) / STAGING_BYTES;
    for (size_t p = 0; p <= parts; p++) {
        size_t start = p * STAGING_BYTES;
        if (p < parts) {
            struct staging *staging = &device->staging[p % 2];
            TRY_CUDA(error, cudaEventSynchronize(staging->done));
            TRY_CUDA(error, cudaMemcpyAsync(staging->bytes, (const unsigned char *)from + start,
                                            size - start < STAGING_BYTES ? size - start : STAGING_BYTES,
                                            cudaMemcpyDeviceToHost, device->compute));
            TRY_CUDA(error, cudaEventRecord(staging->done, device->compute));
        }
        if (p > 0) {
            struct staging *staging = &device->staging[(p - 1) % 2];
            start -= STAGING_BYTES;
            TRY_CUDA(error, cudaEventSynchronize(staging->done));
            memcpy((unsigned char *)to + start, staging->bytes,
                   size - start < STAGING_BYTES ? size - start : STAGING_BYTES);
        }
    }
    return 0;
}

/* ---- Life cycle ---- */

static size_t table_floats(const struct mlr_device *device) {
    return ((size_t)device->features + 1) * device->stride;
}

static int open_events(struct mlr_device *device, struct error *error) {
    for (unsigned i = 0; i < 2; i++) {
        struct slot *slot = &device->slots[i];
        struct staging *staging = &device->staging[i];
        TRY_CUDA(error, cudaEventCreateWithFlags(&slot->filled, cudaEventDisableTiming));
        TRY_CUDA(error, cudaEventCreateWithFlags(&slot->used, cudaEventDisableTiming));
        TRY_CUDA(error, cudaEventCreateWithFlags(&staging->done, cudaEventDisableTiming));
        TRY_CUDA(error, cudaMallocHost(&staging->bytes, STAGING_BYTES));
    }
    return 0;
}

static int open_all(struct mlr_device *device, bool momentum, struct error *error) {
    float *sums = NULL;
    TRY(load_cublas(&device->cublas, error));
    TRY_CUDA(error, cudaStreamCreateWithFlags(&device->compute, cudaStreamNonBlocking));
    TRY_CUDA(error, cudaStreamCreateWithFlags(&device->copy, cudaStreamNonBlocking));
    TRY(open_events(device, error));
    TRY_CUBLAS(error, device, create, &device->handle);
    TRY_CUBLAS(error, device, set_stream, device->handle, device->compute);
    TRY(allocate(&sums, MLR_CUDA_SUMS * sizeof *device->sums / sizeof(float), "losses", error));
    device->sums = (struct mlr_cuda_sums *)(void *)sums;
    TRY(allocate(&device->weights, table_floats(device), "the weights", error));
    if (momentum) {
        TRY(allocate(&device->velocity, table_floats(device), "the momentum", error));
        TRY_CUDA(error, cudaMemsetAsync(device->velocity, 0, table_floats(device) * sizeof(float), device->compute));
    }
    return 0;
}

int mlr_device_open(struct mlr_device **device, const struct mlr_weights *weights, bool momentum, struct error *error) {
    struct mlr_device *made = calloc(1, sizeof *made);
    *device = NULL;
    if (made == NULL) {
        return error_set(error, AML_ENOMEM, "no memory for a device");
    }
    made->features = weights->bias;
    made->classes = weights->classes;
    made->stride = weights->stride;
    int result = open_all(made, momentum, error);
    if (result != 0) {
        mlr_device_close(made);
        (void)cudaGetLastError();
        return result;
    }
    *device = made;
    return 0;
}

/* Also closes a device that is open in part or has failed. Ignores errors. */
void mlr_device_close(struct mlr_device *device) {
    if (device == NULL) {
        return;
    }
    cudaDeviceSynchronize();
    if (device->handle != NULL) {
        device->cublas.destroy(device->handle);
    }
    cudaFree(device->sums);
    cudaFree(device->weights);
    cudaFree(device->velocity);
    cudaFree(device->before);
    cudaFree(device->logits);
    cudaFree(device->ones);
    cudaFree(device->kept);
    for (unsigned i = 0; i < 2; i++) {
        const cudaEvent_t events[] = {device->slots[i].filled, device->slots[i].used, device->staging[i].done};
        for (unsigned e = 0; e < 3; e++) {
            if (events[e] != NULL) {
                cudaEventDestroy(events[e]);
            }
        }
        cudaFree(device->slots[i].samples);
        cudaFreeHost(device->staging[i].bytes);
    }
    if (device->copy != NULL) {
        cudaStreamDestroy(device->copy);
    }
    if (device->compute != NULL) {
        cudaStreamDestroy(device->compute);
    }
    free(device);
}

/* ---- Samples ---- */

int mlr_device_items(struct mlr_device *device, const float *items, size_t count, struct error *error) {
    size_t floats = count * ((size_t)device->features + 1);
    size_t available = 0;
    size_t total = 0;
    TRY_CUDA(error, cudaDeviceSynchronize());
    TRY_CUDA(error, cudaFree(device->kept));
    device->kept = NULL;
    TRY_CUDA(error, cudaMemGetInfo(&available, &total));
    if (floats == 0 || (double)floats * sizeof(float) > KEPT_PART * (double)available) {
        return 0;
    }
    struct error other = {0}; /* another process may have taken the memory meanwhile */
    int result = allocate(&device->kept, floats, "samples", &other);
    if (result == AML_ENOMEM) {
        return 0;
    }
    if (result != 0) {
        return error_set(error, result, "%s", other.text);
    }
    device->items = items;
    device->item_floats = floats;
    TRY(upload(device, device->kept, items, floats * sizeof *items, device->copy, error));
    TRY_CUDA(error, cudaStreamSynchronize(device->copy));
    return 0;
}

/* Returns the samples' place among the kept ones, or NULL. */
static const float *find_kept(const struct mlr_device *device, const struct mlr_dense *samples) {
    uintptr_t first = (uintptr_t)device->items;
    uintptr_t wanted = (uintptr_t)samples->samples;
    uintptr_t end = wanted + samples->count * samples->stride * sizeof(float);
    if (device->kept == NULL || wanted < first || end > first + device->item_floats * sizeof(float)) {
        return NULL;
    }
    return device->kept + (wanted - first) / sizeof(float);
}

/* Queues a copy of the samples into the next slot; `compute` waits for it. */
static int fill_slot(struct mlr_device *device, const struct mlr_dense *samples, struct slot **filled,
                     struct error *error) {
    struct slot *slot = &device->slots[device->next_slot];
    size_t floats = samples->count * samples->stride;
    device->next_slot ^= 1;
    if (slot->room < floats) {
        TRY_CUDA(error, cudaStreamSynchronize(device->compute));
        slot->room = 0;
        TRY_CUDA(error, cudaFree(slot->samples));
        TRY(allocate(&slot->samples, floats, "the samples of a step", error));
        slot->room = floats;
    }
    TRY_CUDA(error, cudaStreamWaitEvent(device->copy, slot->used, 0));
    TRY(upload(device, slot->samples, samples->samples, floats * sizeof(float), device->copy, error));
    TRY_CUDA(error, cudaEventRecord(slot->filled, device->copy));
    TRY_CUDA(error, cudaStreamWaitEvent(device->compute, slot->filled, 0));
    *filled = slot;
    return 0;
}

/* Makes room for the logits of `count` samples. */
static int make_room(struct mlr_device *device, size_t count, struct error *error) {
    if (count <= device->room) {
        return 0;
    }
    device->room = 0;
    TRY_CUDA(error, cudaStreamSynchronize(device->compute));
    TRY_CUDA(error, cudaFree(device->logits));
    device->logits = NULL;
    TRY_CUDA(error, cudaFree(device->ones));
    TRY(allocate(&device->ones, count, "a step", error));
    TRY_CUDA(error, mlr_cuda_fill(device->compute, device->ones, count, 1));
    TRY(allocate(&device->logits, count * device->stride, "the logits of a step", error));
    device->room = count;
    return 0;
}

/* ---- Steps ---- */

int mlr_device_begin(struct mlr_device *device, const struct mlr_weights *weights, struct error *error) {
    assert(weights->stride == device->stride && weights->bias == device->features);
    TRY_CUDA(error, cudaMemsetAsync(device->sums, 0, sizeof device->sums_here, device->compute));
    return upload(device, device->weights, weights->rows, table_floats(device) * sizeof(float), device->compute, error);
}

/* Keeps the weights from before a step in slices. */
static int keep_weights(struct mlr_device *device, struct error *error) {
    size_t floats = table_floats(device);
    if (device->before == NULL) {
        TRY(allocate(&device->before, floats, "the weights before a step", error));
    }
    TRY_CUDA(error, cudaMemcpyAsync(device->before, device->weights, floats * sizeof(float), cudaMemcpyDeviceToDevice,
                                    device->compute));
    return 0;
}

/* From samples x[count], on the device, and weights to errors. */
static int forward(struct mlr_device *device, const float *weights, const float *x, size_t count, struct error *error) {
    const float one = 1;
    const float zero = 0;
    int stride = (int)device->stride;
    int features = (int)device->features;
    const float *bias = weights + device->features * device->stride;
    TRY_CUBLAS(error, device, sgemm, device->handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)device->classes, (int)count,
               features, &one, weights, stride, x, features + 1, &zero, device->logits, stride);
    TRY_CUDA(error, mlr_cuda_softmax(device->compute, device->logits, device->stride, device->classes, bias, x,
                                     device->features, count, device->sums));
    return 0;
}

/* to = keep * to + scale * the gradient; of the biases, keep_bias. */
struct addition {
    float *to;
    float scale, keep, keep_bias;
};

static int add_gradient(struct mlr_device *device, const float *x, size_t count, const struct addition *addition,
                        struct error *error) {
    int stride = (int)device->stride;
    int classes = (int)device->classes;
    int features = (int)device->features;
    TRY_CUBLAS(error, device, sgemm, device->handle, CUBLAS_OP_N, CUBLAS_OP_T, classes, features, (int)count,
               &addition->scale, device->logits, stride, x, features + 1, &addition->keep, addition->to, stride);
    TRY_CUBLAS(error, device, sgemv, device->handle, CUBLAS_OP_N, classes, (int)count, &addition->scale, device->logits,
               stride, device->ones, 1, &addition->keep_bias, addition->to + device->features * device->stride, 1);
    return 0;
}

/* From errors to new weights. A later slice adds its gradient to the velocity and to the weights, which the first slice
 * has moved by the velocity already. */
static int backward(struct mlr_device *device, const float *x, size_t count, const struct mlr_step *step,
                    struct error *error) {
    if (device->velocity == NULL || step->slice > 0) {
        const struct addition to_weights = {
            .to = device->weights, .scale = -step->scale, .keep = 1 - step->decay, .keep_bias = 1};
        TRY(add_gradient(device, x, count, &to_weights, error));
    }
    if (device->velocity != NULL) {
        float keep = step->slice > 0 ? 1 : step->momentum;
        const struct addition to_velocity = {
            .to = device->velocity, .scale = step->scale, .keep = keep, .keep_bias = keep};
        TRY(add_gradient(device, x, count, &to_velocity, error));
    }
    if (device->velocity != NULL && step->slice == 0) {
        TRY_CUDA(error, mlr_cuda_momentum(device->compute, device->weights, device->velocity, device->stride,
                                          device->features, device->classes, step->decay));
    }
    return 0;
}

int mlr_device_step(struct mlr_device *device, const struct mlr_dense *samples, const struct mlr_step *step,
                    struct error *error) {
    struct slot *slot = NULL;
    assert(samples->features == device->features && samples->stride == (size_t)device->features + 1);
    if (samples->count == 0) {
        return 0;
    }
    TRY(make_room(device, samples->count, error));
    const float *x = find_kept(device, samples);
    if (x == NULL) {
        TRY(fill_slot(device, samples, &slot, error));
        x = slot->samples;
    }
    bool sliced = step != NULL && step->sliced;
    if (sliced && step->slice == 0) {
        TRY(keep_weights(device, error));
    }
    TRY(forward(device, sliced ? device->before : device->weights, x, samples->count, error));
    if (step != NULL) {
        TRY(backward(device, x, samples->count, step, error));
    }
    if (slot != NULL) {
        TRY_CUDA(error, cudaEventRecord(slot->used, device->compute));
    }
    return 0;
}

int mlr_device_end(struct mlr_device *device, const struct mlr_weights *weights, struct mlr_loss *loss,
                   struct error *error) {
    *loss = (struct mlr_loss){0};
    TRY(download(device, device->sums_here, device->sums, sizeof device->sums_here, error));
    for (unsigned b = 0; b < MLR_CUDA_SUMS; b++) {
        loss->loss += device->sums_here[b].loss;
        loss->correct += device->sums_here[b].correct;
    }
    if (weights != NULL) {
        assert(weights->stride == device->stride && weights->bias == device->features);
        TRY(download(device, weights->rows, device->weights, table_floats(device) * sizeof(float), error));
    }
    return 0;
}
