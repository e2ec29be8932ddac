/* Arrays of random values for tests of layers, and their comparison. */
#ifndef TESTS_UNIT_NN_VALUES_H
#define TESTS_UNIT_NN_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Uniform in -1..1. The caller frees them. */
float *nn_values(size_t count, uint64_t seed);

/* Fails the test where values differ by more than `tolerance` times the largest expected one. */
void nn_values_assert_close(const float *values, const float *expected, size_t count, double tolerance);

#endif
