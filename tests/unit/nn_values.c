/* See nn_values.h. */
#include "tests/unit/nn_values.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

float *nn_values(size_t count, uint64_t seed) {
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(int32_t)(hash_pair(seed, i) >> 40) * 0x1p-23F - 1;
    }
    return values;
}

void nn_values_assert_close(const float *values, const float *expected, size_t count, double tolerance) {
    double scale = 1e-3;
    for (size_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs((double)expected[i]));
    }
    for (size_t i = 0; i < count; i++) {
        if (!(fabs((double)values[i] - (double)expected[i]) <= tolerance * scale)) {
            fail_msg("value %zu is %g, expected %g", i, (double)values[i], (double)expected[i]);
        }
    }
}
