/* See bfloat16.h. */
#include "agileml/wire/bfloat16.h"

#include <string.h>

static const uint32_t EXPONENT = 0x7F800000;     /* the bits of an infinity; those of a NaN are larger */
static const uint32_t MAGNITUDE = 0x7FFFFFFF;    /* all bits but the sign */
static const float ERROR_PER_VALUE = 1.0F / 256; /* the largest relative error of rounding */

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float to_float(uint16_t half) {
    return of_bits((uint32_t)half << 16);
}

/* Rounds to nearest, ties to even: adds just below half of the last kept bit, and one more where that bit is odd. The
 * carry then rounds. Selects values instead of branching, so that loops vectorize. */
static inline uint16_t to_half(float value) {
    uint32_t bits = bits_of(value);
    uint32_t magnitude = bits & MAGNITUDE;
    uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
    rounded = (rounded & MAGNITUDE) >= EXPONENT ? bits : rounded; /* no finite number becomes infinite */
    rounded = magnitude > EXPONENT ? bits | 0x400000 : rounded;   /* a NaN stays a NaN, even without its lower half */
    return (uint16_t)(rounded >> 16);
}

static inline float finite_or_zero(float value) {
    uint32_t bits = bits_of(value);
    return of_bits((bits & EXPONENT) == EXPONENT ? 0 : bits);
}

/* Returns value + error, to be rounded and sent. Limits |error| to |value| / 256; returns `value` when the sum is not
 * finite. Compares magnitudes by their bits, which have the same order. */
static inline float fed(float value, float error) {
    uint32_t most = bits_of(value * ERROR_PER_VALUE) & MAGNITUDE;
    uint32_t bits = bits_of(error);
    uint32_t magnitude = bits & MAGNITUDE;
    magnitude = magnitude > most ? most : magnitude;
    uint32_t sum = bits_of(value + of_bits(magnitude | (bits & ~MAGNITUDE)));
    return of_bits((sum & EXPONENT) == EXPONENT ? bits_of(value) : sum);
}

void bfloat16_decode(float *restrict to, const uint16_t *restrict from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = to_float(from[i]);
    }
}

void bfloat16_add(float *restrict target, const uint16_t *restrict source, size_t count) {
    for (size_t i = 0; i < count; i++) {
        target[i] += to_float(source[i]);
    }
}

void bfloat16_send(uint16_t *restrict sent, float *restrict base, const float *restrict row, size_t count) {
    for (size_t i = 0; i < count; i++) {
        sent[i] = to_half(row[i] - base[i]);
        base[i] += to_float(sent[i]);
    }
}

void bfloat16_unsent(float *restrict row, const float *restrict base, size_t count) {
    for (size_t i = 0; i < count; i++) {
        row[i] = finite_or_zero(row[i] - base[i]);
    }
}

void bfloat16_encode_fed(uint16_t *restrict to, const float *restrict value, const float *restrict error,
                         size_t count) {
    for (size_t i = 0; i < count; i++) {
        to[i] = to_half(fed(value[i], error[i]));
    }
}

void bfloat16_feed(float *restrict error, const float *restrict value, size_t count) {
    for (size_t i = 0; i < count; i++) {
        float sent = fed(value[i], error[i]);
        error[i] = finite_or_zero(sent - to_float(to_half(sent)));
    }
}
