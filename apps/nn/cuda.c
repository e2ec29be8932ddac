/* See cuda.h. cuBLAS is loaded only after a device was found, so a program that was built with CUDA also runs without
 * a device.
 *
 * cuBLAS's matrices are column-major, ours row-major. An r x c matrix A with rows `stride` apart is, for cuBLAS, the
 * c x r matrix A^T with leading dimension `stride`. So C = A B is computed as C^T = B^T A^T without copies. A sum of
 * rows is computed as the product of Z^T and a vector of ones.
 *
 * Copies pass through two pinned buffers: the CPU fills or empties one while the device transfers the other. */
#include "apps/nn/cuda.h"

#include "apps/nn/device.h"

#include <assert.h>
#include <dlfcn.h>
#include <string.h>

enum { STAGING_BYTES = 8 << 20 };

int nn_cuda_failed(struct error *error, const char *call, int code, const char *reason) {
    return error_set(error, code, "CUDA: %.*s: %s", (int)strcspn(call, "("), call, reason);
}

#define TRY_CUBLAS(error, cuda, name, ...)                                                                             \
    do {                                                                                                               \
        cublasStatus_t status_ = (cuda)->cublas.name(__VA_ARGS__);                                                     \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                        \
            return nn_cuda_failed(error, "cuBLAS " #name,                                                              \
                                  status_ == CUBLAS_STATUS_ALLOC_FAILED ? AML_ENOMEM : AML_EFAIL,                      \
                                  (cuda)->cublas.status_text(status_));                                                \
        }                                                                                                              \
    } while (0)

/* ---- The library ---- */

#define STRING_OF(x)   #x
#define VALUE_OF(x)    STRING_OF(x)
#define CUBLAS_LIBRARY "libcublas.so." VALUE_OF(CUBLAS_VER_MAJOR)

/* Checks that our function types match the header's. */
_Static_assert(_Generic(&cublasCreate_v2, nn_cublas_create * : 1, default : 0), "cublasCreate");
_Static_assert(_Generic(&cublasDestroy_v2, nn_cublas_destroy * : 1, default : 0), "cublasDestroy");
_Static_assert(_Generic(&cublasSetStream_v2, nn_cublas_stream * : 1, default : 0), "cublasSetStream");
_Static_assert(_Generic(&cublasSgemm_v2, nn_cublas_sgemm * : 1, default : 0), "cublasSgemm");
_Static_assert(_Generic(&cublasSgemv_v2, nn_cublas_sgemv * : 1, default : 0), "cublasSgemv");
_Static_assert(_Generic(&cublasGetStatusString, nn_cublas_status * : 1, default : 0), "cublasGetStatusString");

/* Loads cuBLAS for the life of the process. ISO C does not convert the object pointers of dlsym to function
 * pointers, so they are copied byte by byte, as POSIX suggests. */
static int load_cublas(struct nn_cublas *cublas, struct error *error) {
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
    struct nn_cublas cublas;
    TRY_CUDA(error, cudaGetDeviceCount(&count));
    if (count < 1) {
        return error_set(error, AML_EINPUT, "CUDA: no device");
    }
    TRY_CUDA(error, nn_kernel_usable());
    return load_cublas(&cublas, error);
}

int nn_device_check(struct error *error) {
    struct error reason = {0};
    return check(&reason) == 0 ? 0 : error_set(error, AML_EINPUT, "%s", reason.text);
}

/* ---- Life cycle ---- */

static int open_all(struct nn_cuda *cuda, struct error *error) {
    TRY(load_cublas(&cuda->cublas, error));
    TRY_CUDA(error, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking));
    for (unsigned i = 0; i < 2; i++) {
        TRY_CUDA(error, cudaEventCreateWithFlags(&cuda->staging[i].done, cudaEventDisableTiming));
        TRY_CUDA(error, cudaMallocHost(&cuda->staging[i].bytes, STAGING_BYTES));
    }
    TRY_CUBLAS(error, cuda, create, &cuda->handle);
    TRY_CUBLAS(error, cuda, set_stream, cuda->handle, cuda->stream);
    void *sums;
    TRY(nn_cuda_allocate(&sums, sizeof cuda->sums_here, "losses", error));
    cuda->sums = sums;
    return 0;
}

int nn_cuda_open(struct nn_cuda *cuda, struct error *error) {
    *cuda = (struct nn_cuda){0};
    return open_all(cuda, error);
}

void nn_cuda_close(struct nn_cuda *cuda) {
    cudaDeviceSynchronize();
    if (cuda->handle != NULL) {
        cuda->cublas.destroy(cuda->handle);
    }
    cudaFree(cuda->ones);
    cudaFree(cuda->sums);
    for (unsigned i = 0; i < 2; i++) {
        if (cuda->staging[i].done != NULL) {
            cudaEventDestroy(cuda->staging[i].done);
        }
        cudaFreeHost(cuda->staging[i].bytes);
    }
    if (cuda->stream != NULL) {
        cudaStreamDestroy(cuda->stream);
    }
    *cuda = (struct nn_cuda){0};
    (void)cudaGetLastError(); /* clears the error, as the caller may open a device again */
}

int nn_cuda_allocate(void **memory, size_t bytes, const char *what, struct error *error) {
    *memory = NULL;
    cudaError_t code = cudaMalloc(memory, bytes);
    if (code == cudaSuccess) {
        return 0;
    }
    *memory = NULL;
    (void)cudaGetLastError(); /* clears the error, as the caller may continue without this memory */
    return error_set(error, code == cudaErrorMemoryAllocation ? AML_ENOMEM : AML_EFAIL,
                     "CUDA: cudaMalloc of %.1f MB for %s: %s", (double)bytes / 1e6, what, cudaGetErrorString(code));
}

int nn_cuda_floats(float **memory, size_t count, const char *what, struct error *error) {
    void *bytes;
    int result = nn_cuda_allocate(&bytes, count * sizeof **memory, what, error);
    *memory = bytes;
    return result;
}

/* ---- Copying ---- */

static size_t part_of(size_t size, size_t start) {
    return size - start < STAGING_BYTES ? size - start : STAGING_BYTES;
}

int nn_cuda_upload(struct nn_cuda *cuda, void *to, const void *bytes, size_t size, cudaStream_t stream,
                   struct error *error) {
    for (size_t done = 0; done < size; done += STAGING_BYTES) {
        size_t part = part_of(size, done);
        struct nn_cuda_staging *staging = &cuda->staging[cuda->next_staging];
        cuda->next_staging ^= 1;
        TRY_CUDA(error, cudaEventSynchronize(staging->done));
        memcpy(staging->bytes, (const unsigned char *)bytes + done, part);
        TRY_CUDA(error,
                 cudaMemcpyAsync((unsigned char *)to + done, staging->bytes, part, cudaMemcpyHostToDevice, stream));
        TRY_CUDA(error, cudaEventRecord(staging->done, stream));
    }
    return 0;
}

/* The target of a download: copies to `to`; with `sum` adds the floats, multiplied by `scale`. */
struct destination {
    void *to;
    bool sum;
    float scale;
};

static void take_part(const struct destination *destination, size_t start, const void *bytes, size_t size) {
    if (!destination->sum) {
        memcpy((unsigned char *)destination->to + start, bytes, size);
        return;
    }
    float *restrict to = (float *)destination->to + start / sizeof(float);
    const float *restrict from = bytes;
    for (size_t i = 0; i < size / sizeof(float); i++) {
        to[i] += destination->scale * from[i];
    }
}

/* Takes a part out of its buffer while the next part is transferred. */
static int download(struct nn_cuda *cuda, const struct destination *destination, const void *from, size_t size,
                    struct error *error) {
    size_t parts = (size + STAGING_BYTES - 1) / STAGING_BYTES;
    for (size_t p = 0; p <= parts; p++) {
        size_t start = p * STAGING_BYTES;
        if (p < parts) {
            struct nn_cuda_staging *staging = &cuda->staging[p % 2];
            TRY_CUDA(error, cudaEventSynchronize(staging->done));
            TRY_CUDA(error, cudaMemcpyAsync(staging->bytes, (const unsigned char *)from + start, part_of(size, start),
                                            cudaMemcpyDeviceToHost, cuda->stream));
            TRY_CUDA(error, cudaEventRecord(staging->done, cuda->stream));
        }
        if (p > 0) {
            struct nn_cuda_staging *staging = &cuda->staging[(p - 1) % 2];
            start -= STAGING_BYTES;
            TRY_CUDA(error, cudaEventSynchronize(staging->done));
            take_part(destination, start, staging->bytes, part_of(size, start));
        }
    }
    return 0;
}

int nn_cuda_download(struct nn_cuda *cuda, void *to, const void *from, size_t size, struct error *error) {
    const struct destination destination = {.to = to};
    return download(cuda, &destination, from, size, error);
}

int nn_cuda_download_sum(struct nn_cuda *cuda, float *to, const float *from, size_t count, float scale,
                         struct error *error) {
    const struct destination destination = {.to = to, .sum = true, .scale = scale};
    return download(cuda, &destination, from, count * sizeof *from, error);
}

/* ---- Products ---- */

static cublasOperation_t operation_of(const struct nn_cuda_matrix *matrix) {
    return matrix->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

int nn_cuda_multiply(struct nn_cuda *cuda, const struct nn_cuda_product *p, struct error *error) {
    assert(p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX);
    assert(p->a.stride <= INT32_MAX && p->b.stride <= INT32_MAX && p->c_stride <= INT32_MAX);
    TRY_CUBLAS(error, cuda, sgemm, cuda->handle, operation_of(&p->b), operation_of(&p->a), (int)p->n, (int)p->m,
               (int)p->k, &p->scale, p->b.values, (int)p->b.stride, p->a.values, (int)p->a.stride, &p->keep, p->c,
               (int)p->c_stride);
    return 0;
}

int nn_cuda_sum_room(struct nn_cuda *cuda, size_t rows, struct error *error) {
    if (rows <= cuda->ones_room) {
        return 0;
    }
    TRY_CUDA(error, cudaStreamSynchronize(cuda->stream));
    TRY_CUDA(error, cudaFree(cuda->ones));
    cuda->ones = NULL;
    cuda->ones_room = 0;
    TRY(nn_cuda_floats(&cuda->ones, rows, "a step", error));
    TRY_CUDA(error, nn_kernel_fill(cuda->stream, cuda->ones, rows, 1));
    cuda->ones_room = rows;
    return 0;
}

int nn_cuda_sum_rows(struct nn_cuda *cuda, const struct nn_cuda_sum *s, struct error *error) {
    assert(s->rows <= cuda->ones_room && s->rows <= INT32_MAX && s->n <= INT32_MAX && s->stride <= INT32_MAX);
    TRY_CUBLAS(error, cuda, sgemv, cuda->handle, CUBLAS_OP_N, (int)s->n, (int)s->rows, &s->scale, s->values,
               (int)s->stride, cuda->ones, 1, &s->keep, s->to, 1);
    return 0;
}

/* ---- Losses ---- */

int nn_cuda_losses_begin(struct nn_cuda *cuda, struct error *error) {
    TRY_CUDA(error, cudaMemsetAsync(cuda->sums, 0, sizeof cuda->sums_here, cuda->stream));
    return 0;
}

int nn_cuda_losses_end(struct nn_cuda *cuda, struct nn_loss *loss, struct error *error) {
    *loss = (struct nn_loss){0};
    TRY(nn_cuda_download(cuda, cuda->sums_here, cuda->sums, sizeof cuda->sums_here, error));
    for (unsigned b = 0; b < NN_KERNEL_SUMS; b++) {
        loss->loss += cuda->sums_here[b].loss;
        loss->correct += cuda->sums_here[b].correct;
    }
    return 0;
}
