/* Arrays of random values for tests of layers, and their comparison. */
#ifndef TESTS_UNIT_NN_VALUES_H
#define TESTS_UNIT_NN_VALUES_H

#include <stddef.h>
#include <stdint.h>

/* Returns uniform random values in -1..1; the caller frees them. */
float *nn_values(size_t count, uint64_t seed);

/* Fails the test if values differ by more than `tolerance` times the largest expected value. */
void nn_values_assert_close(const float *values, const float *expected, size_t count, double tolerance);

#endif
