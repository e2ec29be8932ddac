/* apps/mlr/shift.c: each pixel of the shifted image is the one that many places away, or 0 where it comes from outside;
 * all shifts occur, about equally often. */
#include "apps/mlr/shift.h"

#include "agileml/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { WIDTH = 7, HEIGHT = 5 };

static float pixel(const float *image, int x, int y) {
    return x >= 0 && x < WIDTH && y >= 0 && y < HEIGHT ? image[y * WIDTH + x] : 0;
}

static bool is_shifted(const float *in, const float *out, int right, int down) {
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++) {
            if (pixel(out, x, y) != pixel(in, x - right, y - down)) {
                return false;
            }
        }
    }
    return true;
}

static void test_every_shift(void **state) {
    (void)state;
    float in[WIDTH * HEIGHT];
    float out[WIDTH * HEIGHT];
    for (unsigned i = 0; i < WIDTH * HEIGHT; i++) {
        in[i] = (float)(i + 1);
    }
    for (int most = 0; most < HEIGHT; most++) {
        unsigned counts[2 * HEIGHT][2 * HEIGHT] = {{0}};
        unsigned shifts = (unsigned)((2 * most + 1) * (2 * most + 1));
        for (unsigned n = 0; n < 200 * shifts; n++) {
            unsigned found = 0;
            mlr_shift(in, out, WIDTH, HEIGHT, (uint32_t)most, hash_mix(n));
            for (int right = -most; right <= most; right++) {
                for (int down = -most; down <= most; down++) {
                    bool fits = is_shifted(in, out, right, down);
                    counts[right + most][down + most] += fits ? 1 : 0;
                    found += fits ? 1 : 0;
                }
            }
            assert_int_equal(found, 1);
        }
        for (unsigned n = 0; n < shifts; n++) {
            unsigned count = counts[n % (unsigned)(2 * most + 1)][n / (unsigned)(2 * most + 1)];
            assert_true(count > 120 && count < 280);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_shift)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
