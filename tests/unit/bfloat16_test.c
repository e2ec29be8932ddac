/* Rounding to bfloat16, against the definition; and that error feedback loses nothing. */
#include "agileml/wire/bfloat16.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HALVES = 1 << 16, INFINITE = 0x7F80, LARGEST = 0x7F7F, SIGN = 0x8000 };

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t encoded(float value) {
    uint16_t half;
    bfloat16_encode(&half, &value, 1);
    return half;
}

static float decoded(uint16_t half) {
    float value;
    bfloat16_decode(&value, &half, 1);
    return value;
}

static uint32_t chance(uint64_t *seed) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 32);
}

static void test_every_bfloat16_comes_back(void **state) {
    (void)state;
    for (uint32_t half = 0; half < HALVES; half++) {
        float value = decoded((uint16_t)half);
        uint16_t again = encoded(value);
        if (isnan(value)) {
            assert_true(isnan(decoded(again)));
        } else {
            assert_int_equal(again, half);
        }
    }
}

/* Between each two neighbours: below the middle, the middle, above it; both signs. */
static void test_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t half = 0; half < LARGEST; half++) {
        for (uint32_t sign = 0; sign <= SIGN; sign += SIGN) {
            uint32_t low = half | sign, high = (half + 1) | sign;
            uint32_t even = (half & 1) == 0 ? low : high;
            assert_int_equal(encoded(of_bits(low << 16 | 1)), low);
            assert_int_equal(encoded(of_bits(low << 16 | 0x7FFF)), low);
            assert_int_equal(encoded(of_bits(low << 16 | 0x8000)), even);
            assert_int_equal(encoded(of_bits(low << 16 | 0x8001)), high);
            assert_int_equal(encoded(of_bits(low << 16 | 0xFFFF)), high);
        }
    }
}

static void test_finite_stays_finite_and_the_rest_stays_what_it_is(void **state) {
    (void)state;
    assert_int_equal(encoded(FLT_MAX), LARGEST);
    assert_int_equal(encoded(-FLT_MAX), LARGEST | SIGN);
    assert_int_equal(encoded(of_bits(0x7F7F8000)), LARGEST); /* the middle to infinity */
    assert_int_equal(encoded(of_bits(0x7F7F7FFF)), LARGEST);
    assert_int_equal(encoded(INFINITY), INFINITE);
    assert_int_equal(encoded(-INFINITY), INFINITE | SIGN);
    assert_int_equal(encoded(0.0F), 0);
    assert_int_equal(encoded(-0.0F), SIGN);
    static const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF};
    for (unsigned n = 0; n < sizeof nans / sizeof nans[0]; n++) {
        assert_true(isnan(decoded(encoded(of_bits(nans[n])))));
    }
}

/* Whatever the compiler makes of the loops: all lengths and alignments do the same as one element after the other. */
static void test_arrays_are_done_element_by_element(void **state) {
    (void)state;
    enum { MOST = 37 };
    uint64_t seed = 1;
    for (unsigned round = 0; round < 400; round++) {
        float values[MOST], added[MOST], back[MOST];
        uint16_t halves[MOST + 1];
        unsigned first = round % 4, count = round % (MOST - 3);
        for (unsigned i = 0; i < MOST; i++) {
            values[i] = of_bits(chance(&seed) & 0xBFFFFFFF); /* below 2 in magnitude */
            added[i] = 1.0F;
        }
        halves[count] = 0xABCD;
        bfloat16_encode(halves, values + first, count);
        assert_int_equal(halves[count], 0xABCD);
        bfloat16_decode(back + first, halves, count);
        bfloat16_add(added + first, halves, count);
        for (unsigned i = 0; i < count; i++) {
            assert_int_equal(halves[i], encoded(values[first + i]));
            assert_true(fabsf(back[first + i] - values[first + i]) <= fabsf(values[first + i]) / 256 + FLT_MIN);
            assert_true(added[first + i] == 1.0F + back[first + i]);
        }
        assert_true(added[first + count] == 1.0F);
    }
}

/* ---- Error feedback ---- */

/* Whole numbers, so all sums are exact: what was sent plus what was not is what was added. */
static void test_nothing_of_a_delta_is_lost(void **state) {
    (void)state;
    enum { WIDTH = 19 };
    float row[WIDTH] = {0}, base[WIDTH] = {0};
    double added[WIDTH] = {0}, sums[WIDTH] = {0};
    uint64_t seed = 2;
    bool rounded = false;
    for (unsigned clock = 0; clock < 1000; clock++) {
        uint16_t sent[WIDTH];
        for (unsigned i = 0; i < WIDTH; i++) {
            float delta = (float)(chance(&seed) % 8001) - 4000;
            row[i] += delta;
            added[i] += (double)delta;
        }
        bfloat16_send(sent, base, row, WIDTH);
        for (unsigned i = 0; i < WIDTH; i++) {
            sums[i] += (double)decoded(sent[i]);
            assert_true((double)base[i] == sums[i]);
            assert_true(sums[i] + (double)(row[i] - base[i]) == added[i]);
            assert_true(fabsf(row[i] - base[i]) <= 16); /* 4000 + 16 rounded */
            rounded = rounded || row[i] != base[i];
        }
        /* A push: base is replaced, and the row is on top of it again what it was. */
        float unsent[WIDTH];
        memcpy(unsent, row, sizeof unsent);
        bfloat16_unsent(unsent, base, WIDTH);
        for (unsigned i = 0; i < WIDTH; i++) {
            assert_true(unsent[i] == row[i] - base[i]);
        }
    }
    assert_true(rounded);
}

static void test_a_delta_that_is_no_number_does_not_stay_unsent(void **state) {
    (void)state;
    float row[] = {INFINITY, -INFINITY, NAN, 5, FLT_MAX}, base[] = {1, 2, 3, NAN, 0};
    uint16_t sent[5];
    bfloat16_send(sent, base, row, 5);
    assert_int_equal(sent[0], INFINITE);
    assert_int_equal(sent[1], INFINITE | SIGN);
    assert_true(isnan(decoded(sent[2])) && isnan(decoded(sent[3])));
    assert_int_equal(sent[4], LARGEST);
    bfloat16_unsent(row, base, 5);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(row[i] == 0);
    }
    assert_true(row[4] == FLT_MAX - decoded(LARGEST));
}

/* A value near 1 that hardly changes: alone each rounding errs by up to 1 / 256 the same way. */
static void test_what_is_pushed_is_right_on_average(void **state) {
    (void)state;
    for (unsigned start = 0; start < 50; start++) {
        float value = 1.0F + (float)start / 5000;
        float error = 0;
        double pushed_sum = 0, value_sum = 0;
        for (unsigned clock = 0; clock < 1000; clock++) {
            uint16_t pushed;
            bfloat16_encode_fed(&pushed, &value, &error, 1);
            pushed_sum += (double)decoded(pushed);
            value_sum += (double)value;
            assert_true(fabsf(decoded(pushed) - value) <= value / 127);
            bfloat16_feed(&error, &value, 1);
            assert_true(fabsf(error) <= value / 255);
            value += 1e-6F;
        }
        assert_true(fabs(pushed_sum - value_sum) <= 0.01);
    }
}

static void test_an_error_does_not_outgrow_the_value(void **state) {
    (void)state;
    uint64_t seed = 3;
    float error = 0;
    for (unsigned n = 0; n < 200000; n++) {
        float value = of_bits(chance(&seed)); /* any magnitude, infinities and NaNs among them */
        value = n % 50 == 0 ? FLT_MAX : n % 50 == 1 ? -FLT_MAX : n % 50 == 2 ? INFINITY : value;
        uint16_t pushed;
        bfloat16_encode_fed(&pushed, &value, &error, 1);
        if (isnan(value)) {
            assert_true(isnan(decoded(pushed)));
        } else if (isinf(value)) {
            assert_true(decoded(pushed) == value);
        } else {
            assert_true(fabs((double)decoded(pushed) - (double)value) <= fabs((double)value) / 127 + 1e-40);
        }
        bfloat16_feed(&error, &value, 1);
        assert_true(isfinite(error));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bfloat16_comes_back),
        cmocka_unit_test(test_rounds_to_nearest_even),
        cmocka_unit_test(test_finite_stays_finite_and_the_rest_stays_what_it_is),
        cmocka_unit_test(test_arrays_are_done_element_by_element),
        cmocka_unit_test(test_nothing_of_a_delta_is_lost),
        cmocka_unit_test(test_a_delta_that_is_no_number_does_not_stay_unsent),
        cmocka_unit_test(test_what_is_pushed_is_right_on_average),
        cmocka_unit_test(test_an_error_does_not_outgrow_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
