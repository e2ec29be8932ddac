/* See number.h. For most numbers the digits and the power of ten are exact as doubles, so one multiplication or
 * division rounds correctly. The C library converts the others. */
#include "apps/samples/number.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXACT_POWER_MAX = 22, /* 10^22 is exact as a double */
    DIGITS_MAX = 18,      /* digits that fit any uint64_t */
    EXPONENT_MAX = 100000 /* a larger exponent gives 0 or infinity, whatever the digits */
};

static const uint64_t EXACT_INTEGER_MAX = UINT64_C(1) << 53;

static inline bool is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* The parts of a number. */
struct parts {
    uint64_t digits; /* all digits, without the point, unless there are more than DIGITS_MAX */
    size_t digit_count;
    int64_t exponent; /* of ten, including the places after the point */
    bool negative;
};

static const char *take_digits(const char *p, struct parts *parts) {
    for (; is_digit(*p); p++) {
        parts->digits = parts->digits * 10 + (uint64_t)(*p - '0'); /* may wrap: digit_count then exceeds DIGITS_MAX */
        parts->digit_count += parts->digits != 0;                  /* leading zeros do not count */
    }
    return p;
}

static const char *take_exponent(const char *p, struct parts *parts) {
    int64_t exponent = 0;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    if (!is_digit(*p)) {
        return NULL;
    }
    for (; is_digit(*p); p++) {
        exponent = exponent < EXPONENT_MAX ? exponent * 10 + (*p - '0') : exponent;
    }
    parts->exponent += negative ? -exponent : exponent;
    return p;
}

static const char *take_parts(const char *p, struct parts *parts) {
    *parts = (struct parts){.negative = *p == '-'};
    p += *p == '-' || *p == '+';
    const char *start = p;
    p = take_digits(p, parts);
    ptrdiff_t written = p - start;
    if (*p == '.') {
        const char *point = p + 1;
        p = take_digits(point, parts);
        written += p - point;
        parts->exponent = -(p - point);
    }
    if (written == 0) {
        return NULL;
    }
    return *p == 'e' || *p == 'E' ? take_exponent(p + 1, parts) : p;
}

/* Converts any number with strtod. strtod's decimal point depends on the locale, so the copy has no point. */
static double convert_slowly(const char *text, const char *end, int64_t exponent) {
    size_t length = (size_t)(end - text);
    char *copy = malloc(length + 32);
    if (copy == NULL) {
        return NAN;
    }
    size_t used = 0;
    for (const char *p = text; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p != '.') {
            copy[used++] = *p;
        }
    }
    snprintf(copy + used, 32, "e%lld", (long long)exponent);
    double value = strtod(copy, NULL);
    free(copy);
    return value;
}

const char *number_take(const char *text, double *value) {
    static const double power_of_ten[EXACT_POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                             1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                             1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct parts parts;
    const char *end = take_parts(text, &parts);
    if (end == NULL) {
        return NULL;
    }
    double result;
    bool exact = parts.digit_count <= DIGITS_MAX && parts.digits <= EXACT_INTEGER_MAX &&
                 parts.exponent >= -EXACT_POWER_MAX && parts.exponent <= EXACT_POWER_MAX;
    if (exact) {
        double digits = (double)parts.digits;
        result = parts.exponent < 0 ? digits / power_of_ten[-parts.exponent] : digits * power_of_ten[parts.exponent];
        result = parts.negative ? -result : result;
    } else {
        result = convert_slowly(text, end, parts.exponent);
    }
    if (!isfinite(result)) {
        return NULL;
    }
    *value = result;
    return end;
}

const char *number_end(const char *text) {
    struct parts parts;
    return take_parts(text, &parts);
}
