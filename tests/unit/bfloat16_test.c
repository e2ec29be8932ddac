/* Rounding to bfloat16 is checked against its definition; error feedback must lose nothing. */
#include "agileml/wire/bfloat16.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>

enum { HALVES = 1 << 16, INFINITE = 0x7F80, LARGEST = 0x7F7F, SIGN = 0x8000 };

static float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t encoded(float value) {
    uint16_t half;
    float base = 0;
    bfloat16_send(&half, &base, &value, 1);
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

TEST(every_bfloat16_comes_back) {
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
TEST(rounds_to_nearest_even) {
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

TEST(finite_stays_finite_and_the_rest_stays_what_it_is) {
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

/* However the compiler vectorizes the loops, arrays of all lengths and alignments give the same as single elements. */
TEST(arrays_are_done_element_by_element) {
    enum { MOST = 37 };
    uint64_t seed = 1;
    for (unsigned round = 0; round < 400; round++) {
        float values[MOST], added[MOST], back[MOST], sent[MOST] = {0};
        uint16_t halves[MOST + 1];
        unsigned first = round % 4, count = round % (MOST - 3);
        for (unsigned i = 0; i < MOST; i++) {
            values[i] = of_bits(chance(&seed) & 0xBFFFFFFF); /* below 2 in magnitude */
            added[i] = 1.0F;
        }
        halves[count] = 0xABCD;
        bfloat16_send(halves, sent, values + first, count);
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

/* Whole numbers make all sums exact: what was sent plus what is unsent equals what was added. */
TEST(nothing_of_a_delta_is_lost) {
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
        /* A push replaces the base; the row is again base plus unsent. */
        float unsent[WIDTH];
        memcpy(unsent, row, sizeof unsent);
        bfloat16_unsent(unsent, base, WIDTH);
        for (unsigned i = 0; i < WIDTH; i++) {
            assert_true(unsent[i] == row[i] - base[i]);
        }
    }
    assert_true(rounded);
}

TEST(a_delta_that_is_no_number_does_not_stay_unsent) {
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

/* A value near 1 that hardly changes: without error feedback each rounding errs by up to 1 / 256 in the same
 * direction. */
TEST(what_is_pushed_is_right_on_average) {
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

TEST(an_error_does_not_outgrow_the_value) {
    uint64_t seed = 3;
    float error = 0;
    for (unsigned n = 0; n < 200000; n++) {
        float value = of_bits(chance(&seed)); /* any magnitude, infinities and NaNs too */
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
