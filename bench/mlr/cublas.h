/* A step's two matrix products in cuBLAS, and nothing else: the peak for mlr on a GPU. */
#ifndef BENCH_MLR_CUBLAS_H
#define BENCH_MLR_CUBLAS_H

#include "agileml/base/error.h"

#include <stdint.h>

/* The median time of X W and W - small X^T E, for `seconds` of repetitions after some that are not counted: from the
 * queueing of both to their end, matrices on the device. AML_EFAIL in a build without CUDA. */
int cublas_products(uint32_t features, uint32_t classes, uint32_t batch, double seconds, double *median,
                    struct error *error);

#endif
