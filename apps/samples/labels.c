/* See labels.h. */
#include "apps/samples/labels.h"

#include "agileml/base/memory.h"
#include "apps/samples/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 320,     /* digits of a whole number, with a final 0 */
    MISSING_MAX = 12,     /* bytes of the longest word for a missing label */
    FEW_LABELS = 20,      /* up to this many labels can always be classes */
    REPEATED_NUMBERS = 3, /* least mean count of a number that is a class */
    REPEATED_WORDS = 2,   /* least mean count of a word that is a class */
};

static const double EXACT_INTEGER_MAX = 9007199254740992.0; /* 2^53: doubles hold whole numbers up to here */

bool label_make(struct label *label, const char *text, size_t length) {
    if (length == 0 || length > LABEL_MAX) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == '\x7f') {
            return false;
        }
    }
    memset(label, 0, sizeof *label);
    memcpy(label->text, text, length);
    const char *end = number_take(label->text, &label->number);
    if (end != label->text + length) {
        label->number = NAN;
    }
    label->number += 0.0; /* -0 becomes 0 */
    return true;
}

/* Whether the label is a number too large for a double, which is treated like inf. */
static bool is_too_large(const char *text, size_t length) {
    char copy[LABEL_MAX + 1];
    double value;
    if (length > LABEL_MAX || (memchr(text, 'e', length) == NULL && memchr(text, 'E', length) == NULL)) {
        return false; /* a label without an exponent can't be so large */
    }
    memcpy(copy, text, length);
    copy[length] = '\0';
    return number_end(copy) == copy + length && number_take(copy, &value) == NULL;
}

bool label_is_missing(const char *text, size_t length) {
    static const char *const words[] = {"nan",     "na",     "n/a",     "#n/a", "#na", "<na>",     "null",
                                        "none",    "?",      "\\n",     ".",    "inf", "infinity", "1.#ind",
                                        "1.#qnan", "1.#inf", "missing", "-",    NULL};
    char lower[MISSING_MAX + 1];
    if (length > 0 && (*text == '-' || *text == '+')) {
        text++;
        length--;
        if (length == 0) {
            return false; /* "+" and "-" are labels */
        }
    }
    /* Most labels are numbers, and need no search. */
    bool number = length > 0 && *text >= '0' && *text <= '9' && memchr(text, '#', length) == NULL;
    if (number || length > MISSING_MAX) {
        return is_too_large(text, length);
    }
    for (size_t i = 0; i < length; i++) {
        lower[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
    }
    lower[length] = '\0';
    bool found = length == 0;
    for (size_t w = 0; words[w] != NULL && !found; w++) {
        found = strcmp(lower, words[w]) == 0;
    }
    found = found || strncmp(lower, "nan(", 4) == 0; /* as C prints NaN on some systems: nan(ind) */
    return found || is_too_large(text, length);
}

static bool is_word(const struct label *label) {
    return isnan(label->number);
}

/* Sets `digits` to the digits of a label that is a whole number, without leading zeros. These are the digits as
 * written, so that neighbours beyond 2^53 differ. For a number with an exponent or a fraction they are the double's. */
static void whole_digits(const struct label *label, char digits[DIGITS_MAX]) {
    const char *p = label->text + (*label->text == '-' || *label->text == '+');
    p += strspn(p, "0");
    size_t length = strspn(p, "0123456789");
    const char *rest = p + length;
    rest += *rest == '.';
    rest += strspn(rest, "0");
    if (*rest == '\0') {
        memcpy(digits, p, length);
        digits[length] = '\0';
    } else {
        snprintf(digits, DIGITS_MAX, "%.0f", fabs(label->number));
    }
}

/* Compares whole numbers that are equal as doubles. */
static int whole_order(const struct label *left, const struct label *right) {
    char digits[2][DIGITS_MAX];
    whole_digits(left, digits[0]);
    whole_digits(right, digits[1]);
    size_t lengths[] = {strlen(digits[0]), strlen(digits[1])};
    int order = lengths[0] != lengths[1] ? (lengths[0] < lengths[1] ? -1 : 1) : strcmp(digits[0], digits[1]);
    return left->number < 0 ? -order : order;
}

static int label_order(const void *a, const void *b) {
    const struct label *left = a;
    const struct label *right = b;
    if (is_word(left) || is_word(right)) {
        return is_word(left) && is_word(right) ? strcmp(left->text, right->text) : is_word(left) - is_word(right);
    }
    if (left->number == right->number && fabs(left->number) >= EXACT_INTEGER_MAX) {
        return whole_order(left, right);
    }
    return left->number < right->number ? -1 : left->number > right->number;
}

/* Returns the key in the map. A label whose key is taken gets the next free key. */
static uint64_t label_hash(const struct label *label) {
    return is_word(label) ? hash_bytes((const unsigned char *)label->text, strlen(label->text), 0)
                          : hash_bytes((const unsigned char *)&label->number, sizeof label->number, 1);
}

int64_t labels_find(const struct labels *labels, const struct label *label) {
    for (uint64_t hash = label_hash(label);; hash++) {
        int64_t place = index_map_find(&labels->places, hash);
        if (place == INDEX_NONE || label_order(&labels->items[place], label) == 0) {
            return place;
        }
    }
}

static void labels_index(struct labels *labels, uint32_t place) {
    uint64_t hash = label_hash(&labels->items[place]);
    while (index_map_find(&labels->places, hash) != INDEX_NONE) {
        hash++;
    }
    index_map_add(&labels->places, hash, place);
}

bool labels_add(struct labels *labels, const struct label *label) {
    int64_t found = labels_find(labels, label);
    if (found != INDEX_NONE) {
        labels->items[found].count++;
        return true;
    }
    if (labels->count == LABELS_MAX) {
        return false;
    }
    if (labels->count == labels->capacity) {
        labels->capacity = labels->capacity > 0 ? 2 * labels->capacity : 16;
        labels->items = memory_resized(labels->items, labels->capacity, sizeof *labels->items);
    }
    labels->items[labels->count] = *label;
    labels->items[labels->count].count = 1;
    labels_index(labels, labels->count++);
    return true;
}

void labels_sort(struct labels *labels) {
    if (labels->count > 1) {
        qsort(labels->items, labels->count, sizeof *labels->items, label_order);
    }
    index_map_close(&labels->places);
    for (uint32_t place = 0; place < labels->count; place++) {
        labels_index(labels, place);
    }
}

enum labels_doubt labels_check(const struct labels *labels) {
    uint64_t samples = 0;
    uint64_t numbers = 0; /* samples whose label is a number */
    uint32_t different = 0;
    bool fraction = false;
    for (uint32_t k = 0; k < labels->count; k++) {
        const struct label *label = &labels->items[k];
        samples += label->count;
        if (!is_word(label)) {
            numbers += label->count;
            different++;
            fraction = fraction || trunc(label->number) != label->number;
        }
    }
    if (fraction && different > FEW_LABELS) {
        return LABELS_REAL;
    }
    bool rare = (different > FEW_LABELS && (uint64_t)different * REPEATED_NUMBERS > numbers) ||
                (labels->count > FEW_LABELS && (uint64_t)labels->count * REPEATED_WORDS > samples);
    return rare ? LABELS_UNIQUE : LABELS_FINE;
}

void labels_close(struct labels *labels) {
    free(labels->items);
    index_map_close(&labels->places);
    memset(labels, 0, sizeof *labels);
}
