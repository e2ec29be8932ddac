/* See rating_ids.h. */
#include "workers/data/rating_ids.h"

#include "agileml/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Begins the hash of every text. It must never change. */
#define TEXT_SEED UINT64_C(0x7261746564206279)

enum { MANTISSA_DIGITS_MAX = 16 };

static bool is_digit(char c) {
    return (unsigned char)(c - '0') < 10;
}

/* Skips the zeros at p. */
static const char *skip_zeros(const char *p, const char *end) {
    while (p < end && *p == '0') {
        p++;
    }
    return p;
}

/* Takes digits with no more behind them than a point and zeros. */
static bool take_whole(const char *p, const char *end, uint64_t *number) {
    bool leading_zero = end - p > 1 && p[0] == '0' && is_digit(p[1]);
    if (p == end || !is_digit(*p) || leading_zero) {
        return false;
    }
    for (*number = 0; p < end && is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (*number > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *number = *number * 10 + digit;
    }
    return p == end || (*p == '.' && skip_zeros(p + 1, end) == end);
}

/* Takes DIGIT[.DIGITS]e+DIGITS, if that is a whole number up to 2^53. */
static bool take_power(const char *p, const char *end, uint64_t *number) {
    const uint64_t most = UINT64_C(1) << 53;
    uint64_t exponent = 0;
    int64_t decimals = -1; /* before the point */
    *number = 0;
    for (int digits = 0; p < end && (is_digit(*p) || *p == '.'); p++) {
        bool digit = is_digit(*p);
        if (digit ? digits == MANTISSA_DIGITS_MAX || (digits == 1 && decimals < 0) : digits != 1 || decimals >= 0) {
            return false;
        }
        *number = digit ? *number * 10 + (uint64_t)(*p - '0') : *number;
        digits += digit;
        decimals += digit ? decimals >= 0 : 1;
    }
    if (*number == 0 || end - p != 4 || p[0] != 'e' || p[1] != '+' || !is_digit(p[2]) || !is_digit(p[3])) {
        return false;
    }
    exponent = (uint64_t)(p[2] - '0') * 10 + (uint64_t)(p[3] - '0');
    for (; decimals > 0 && exponent > 0; decimals--) {
        exponent--;
    }
    for (; exponent > 0 && *number <= most; exponent--) {
        *number *= 10;
    }
    return decimals <= 0 && exponent == 0 && *number <= most;
}

static bool take_number(const struct text_field *field, uint64_t *number) {
    const char *end = field->text + field->length;
    return take_whole(field->text, end, number) || take_power(field->text, end, number);
}

const char *rating_number_end(const char *p) {
    p += *p == '-' || *p == '+';
    size_t digits = 0;
    for (; is_digit(*p); p++) {
        digits++;
    }
    if (*p == '.') {
        for (p++; is_digit(*p); p++) {
            digits++;
        }
    }
    if (digits == 0) {
        return NULL;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        if (!is_digit(*p)) {
            return NULL;
        }
        while (is_digit(*p)) {
            p++;
        }
    }
    return p;
}

bool rating_is_missing(const struct text_field *field) {
    static const char words[][5] = {"nan", "na", "n/a", "<na>", "null", "none", "\\n", "?", "-"};
    if (field->length == 0 || field->quoted || field->length >= sizeof words[0]) {
        return field->length == 0;
    }
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        if (words[w][field->length] == '\0' && strncasecmp(field->text, words[w], field->length) == 0) {
            return true;
        }
    }
    return false;
}

/* Hashes a text, 8 bytes at a time, the first in the lowest bits. As hash_mix is bijective, different texts of the same
 * length up to 8 bytes have different hashes, except for the bit that is set. The length is mixed in first, since ids
 * often differ in it alone. */
static uint64_t hash_text(const char *text, size_t length) {
    uint64_t hash = hash_mix(TEXT_SEED + length);
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        for (size_t b = 0; b < 8 && i + b < length; b++) {
            word |= (uint64_t)(unsigned char)text[i + b] << (8 * b);
        }
        hash = hash_mix(hash ^ word);
    }
    return hash | RATING_ID_TEXT;
}

static bool has_control_characters(const struct text_field *field) {
    for (size_t i = 0; i < field->length; i++) {
        unsigned char c = (unsigned char)field->text[i];
        if ((c < ' ' && c != '\t') || c == 0x7F) {
            return true;
        }
    }
    return false;
}

bool rating_id_key(const struct text_field *field, uint64_t *key) {
    if (take_number(field, key)) {
        return field->length <= RATING_ID_MAX;
    }
    if (rating_is_missing(field) || has_control_characters(field)) {
        return false;
    }
    if (!field->quoted || memchr(field->text, '"', field->length) == NULL) {
        *key = hash_text(field->text, field->length);
        return field->length <= RATING_ID_MAX;
    }
    char copy[RATING_ID_MAX];
    size_t length = text_field_copy(field, copy, sizeof copy);
    if (length > sizeof copy) {
        return false;
    }
    *key = hash_text(copy, length);
    return true;
}

size_t rating_id_text(const struct text_field *field, char *to) {
    uint64_t number;
    if (!take_number(field, &number)) {
        return text_field_copy(field, to, RATING_ID_MAX);
    }
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
    memcpy(to, digits, (size_t)length);
    return (size_t)length;
}
