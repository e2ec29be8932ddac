/* An NVIDIA GPU, the process's device 0 (chosen by CUDA_VISIBLE_DEVICES): its memory, copies to and from it, and
 * products of matrices by cuBLAS. All matrices are row-major. Used by mlr, and by net's layers (cuda_layers.h).
 *
 * Work is queued on a stream, so a later call may report its failure. After a failure only nn_cuda_close may follow.
 * Calls of one struct do not overlap; any thread.
 *
 * Errors: 0, AML_ENOMEM (the device's memory, or the host's) or AML_EFAIL; the text names the failed call and the
 * reason. */
#ifndef APPS_NN_CUDA_H
#define APPS_NN_CUDA_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "apps/nn/cuda_kernels.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

typedef cublasStatus_t nn_cublas_create(cublasHandle_t *handle);
typedef cublasStatus_t nn_cublas_destroy(cublasHandle_t handle);
typedef cublasStatus_t nn_cublas_stream(cublasHandle_t handle, cudaStream_t stream);
typedef cublasStatus_t nn_cublas_sgemm(cublasHandle_t handle, cublasOperation_t a_operation,
                                       cublasOperation_t b_operation, int m, int n, int k, const float *alpha,
                                       const float *a, int a_stride, const float *b, int b_stride, const float *beta,
                                       float *c, int c_stride);
typedef cublasStatus_t nn_cublas_sgemv(cublasHandle_t handle, cublasOperation_t operation, int m, int n,
                                       const float *alpha, const float *a, int a_stride, const float *x, int x_step,
                                       const float *beta, float *y, int y_step);
typedef const char *nn_cublas_status(cublasStatus_t status);

struct nn_cublas {
    nn_cublas_create *create;
    nn_cublas_destroy *destroy;
    nn_cublas_stream *set_stream;
    nn_cublas_sgemm *sgemm;
    nn_cublas_sgemv *sgemv;
    nn_cublas_status *status_text;
};

/* A pinned buffer that a copy passes through. */
struct nn_cuda_staging {
    void *bytes;
    cudaEvent_t done;
};

struct nn_cuda {
    struct nn_cublas cublas;
    cublasHandle_t handle;
    cudaStream_t stream; /* all work is queued on this stream, except uploads that name another */
    struct nn_cuda_staging staging[2];
    unsigned next_staging;
    float *ones; /* [ones_room] on the device */
    size_t ones_room;
    struct nn_kernel_sums *sums;                     /* [NN_KERNEL_SUMS] on the device, of nn_kernel_softmax */
    struct nn_kernel_sums sums_here[NN_KERNEL_SUMS]; /* the host's copy */
};

/* Opens the device. nn_cuda_close must follow, even after an error. */
int nn_cuda_open(struct nn_cuda *cuda, struct error *error);
/* Waits for queued work, and ignores errors. A zeroed struct may be closed. */
void nn_cuda_close(struct nn_cuda *cuda);

/* Allocates memory on the device, to be freed by cudaFree. *memory is NULL after an error. `what` is its purpose,
 * for the message. */
int nn_cuda_allocate(void **memory, size_t bytes, const char *what, struct error *error);
int nn_cuda_floats(float **memory, size_t count, const char *what, struct error *error);

/* Queues a copy of bytes[size] to the device. The caller may change the bytes afterwards. */
int nn_cuda_upload(struct nn_cuda *cuda, void *to, const void *bytes, size_t size, cudaStream_t stream,
                   struct error *error);
/* Waits for the stream, and copies to the host. */
int nn_cuda_download(struct nn_cuda *cuda, void *to, const void *from, size_t size, struct error *error);
/* Like nn_cuda_download, but adds: to[count] += scale from. */
int nn_cuda_download_sum(struct nn_cuda *cuda, float *to, const float *from, size_t count, float scale,
                         struct error *error);

/* A matrix whose rows are `stride` floats apart, or its transpose. */
struct nn_cuda_matrix {
    const float *values;
    size_t stride;
    bool transposed;
};

/* c = keep c + scale a b, with a[m][k], b[k][n] and c[m][n]. With keep = 0, c need not be initialized. All sizes are
 * at most INT32_MAX. */
struct nn_cuda_product {
    size_t m, n, k;
    struct nn_cuda_matrix a, b;
    float *c;
    size_t c_stride;
    float scale, keep;
};
int nn_cuda_multiply(struct nn_cuda *cuda, const struct nn_cuda_product *product, struct error *error);

/* Makes room for sums of up to `rows` rows; may be called again for more. */
int nn_cuda_sum_room(struct nn_cuda *cuda, size_t rows, struct error *error);
/* to[n] = keep to + scale times the sum of the rows of values[rows][n], which are `stride` floats apart. */
struct nn_cuda_sum {
    size_t rows, n;
    const float *values;
    size_t stride;
    float *to;
    float scale, keep;
};
int nn_cuda_sum_rows(struct nn_cuda *cuda, const struct nn_cuda_sum *sum, struct error *error);

/* Sets the sums of losses to 0. */
int nn_cuda_losses_begin(struct nn_cuda *cuda, struct error *error);
/* Waits for all queued work, and sets *loss to the sums. */
int nn_cuda_losses_end(struct nn_cuda *cuda, struct nn_loss *loss, struct error *error);

/* ---- Errors: every call is checked ---- */

/* Reports a failed call. `call` is its source text, whose arguments the message leaves out. Returns `code`. */
int nn_cuda_failed(struct error *error, const char *call, int code, const char *reason);

#define TRY_CUDA(error, call)                                                                                          \
    do {                                                                                                               \
        cudaError_t code_ = (call);                                                                                    \
        if (code_ != cudaSuccess) {                                                                                    \
            return nn_cuda_failed(error, #call, AML_EFAIL, cudaGetErrorString(code_));                                 \
        }                                                                                                              \
    } while (0)

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int result_ = (call);                                                                                          \
        if (result_ != 0) {                                                                                            \
            return result_;                                                                                            \
        }                                                                                                              \
    } while (0)

#endif
