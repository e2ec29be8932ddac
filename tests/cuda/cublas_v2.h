/* The part of cuBLAS that apps/nn/cuda.c uses. See cuda_runtime_api.h. */
#ifndef TESTS_CUDA_CUBLAS_V2_H
#define TESTS_CUDA_CUBLAS_V2_H

#include "cuda_runtime_api.h"

#define CUBLAS_VER_MAJOR 0 /* libcublas.so.0 is the emulation */

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_ALLOC_FAILED = 3 } cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef struct cublasContext *cublasHandle_t;

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation,
                              int m, int n, int k, const float *alpha, const float *a, int a_stride, const float *b,
                              int b_stride, const float *beta, float *c, int c_stride);
cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t operation, int m, int n, const float *alpha,
                              const float *a, int a_stride, const float *x, int x_step, const float *beta, float *y,
                              int y_step);
const char *cublasGetStatusString(cublasStatus_t status);

#ifdef __cplusplus
}
#endif

#endif
