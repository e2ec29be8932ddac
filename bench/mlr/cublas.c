/* See cublas.h. */
#include "bench/mlr/cublas.h"

#if defined(BENCH_CUBLAS)

#include "bench/measure.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stddef.h>

enum { WARM_UP = 3, PRODUCTS_MIN = 5 };

struct products {
    int features, classes, batch;
    float *samples, *weights, *logits; /* [batch][features], [features][classes], [batch][classes], in rows */
    cublasHandle_t handle;
};

static int cuda_result(cudaError_t code, const char *call, struct error *error) {
    return code == cudaSuccess ? 0 : error_set(error, AML_EFAIL, "CUDA: %s: %s", call, cudaGetErrorString(code));
}

static int cublas_result(cublasStatus_t status, const char *call, struct error *error) {
    return status == CUBLAS_STATUS_SUCCESS
               ? 0
               : error_set(error, AML_EFAIL, "CUDA: %s: %s", call, cublasGetStatusString(status));
}

/* Zeros: their product takes as long as that of other values. */
static int matrix_open(float **matrix, int rows, int columns, struct error *error) {
    size_t bytes = (size_t)rows * (size_t)columns * sizeof(float);
    void *memory = NULL;
    int result = cuda_result(cudaMalloc(&memory, bytes), "cudaMalloc", error);
    *matrix = memory;
    return result == 0 ? cuda_result(cudaMemset(memory, 0, bytes), "cudaMemset", error) : result;
}

static int products_open(struct products *p, struct error *error) {
    int result = matrix_open(&p->samples, p->batch, p->features, error);
    result = result == 0 ? matrix_open(&p->weights, p->features, p->classes, error) : result;
    result = result == 0 ? matrix_open(&p->logits, p->batch, p->classes, error) : result;
    return result == 0 ? cublas_result(cublasCreate(&p->handle), "cublasCreate", error) : result;
}

static void products_close(struct products *p) {
    if (p->handle != NULL) {
        cublasDestroy(p->handle);
    }
    cudaFree(p->samples);
    cudaFree(p->weights);
    cudaFree(p->logits);
}

/* A matrix in rows is its transpose in columns, as in apps/mlr/cuda.c. */
static int products_run(const struct products *p, struct error *error) {
    const float one = 1;
    const float zero = 0;
    const float small = -1e-9F;
    cublasStatus_t status = cublasSgemm(p->handle, CUBLAS_OP_N, CUBLAS_OP_N, p->classes, p->batch, p->features, &one,
                                        p->weights, p->classes, p->samples, p->features, &zero, p->logits, p->classes);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasSgemm(p->handle, CUBLAS_OP_N, CUBLAS_OP_T, p->classes, p->features, p->batch, &small, p->logits,
                             p->classes, p->samples, p->features, &one, p->weights, p->classes);
    }
    int result = cublas_result(status, "cublasSgemm", error);
    return result == 0 ? cuda_result(cudaDeviceSynchronize(), "cublasSgemm", error) : result;
}

int cublas_products(uint32_t features, uint32_t classes, uint32_t batch, double seconds, double *median,
                    struct error *error) {
    struct products products = {.features = (int)features, .classes = (int)classes, .batch = (int)batch};
    struct series series = {0};
    int result = products_open(&products, error);
    for (int i = 0; i < WARM_UP && result == 0; i++) {
        result = products_run(&products, error);
    }
    double begun = measure_wall();
    while (result == 0 && (series.count < PRODUCTS_MIN || measure_wall() - begun < seconds)) {
        double start = measure_wall();
        result = products_run(&products, error);
        series_add(&series, measure_wall() - start);
    }
    *median = result == 0 ? series_median(&series) : 0;
    series_close(&series);
    products_close(&products);
    return result;
}

#else

int cublas_products(uint32_t features, uint32_t classes, uint32_t batch, double seconds, double *median,
                    struct error *error) {
    (void)features;
    (void)classes;
    (void)batch;
    (void)seconds;
    *median = 0;
    return error_set(error, AML_EFAIL, "this program was built without CUDA");
}

#endif
