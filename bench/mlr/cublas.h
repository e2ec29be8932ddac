/* The two matrix products of a step in cuBLAS alone: the peak speed of mlr on a GPU. */
#ifndef BENCH_MLR_CUBLAS_H
#define BENCH_MLR_CUBLAS_H

#include "agileml/base/error.h"

#include <stdint.h>

/* Measures the time of X W and W - small X^T E, from queueing both to their end, with matrices on the device. Repeats
 * them for `seconds`, after a warm-up, and returns the median. Returns AML_EFAIL in a build without CUDA. */
int cublas_products(uint32_t features, uint32_t classes, uint32_t batch, double seconds, double *median,
                    struct error *error);

#endif
