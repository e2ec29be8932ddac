/* See hash.h. */
#include "apps/samples/criteo_hash.h"

#include "agileml/base/hash.h"
#include "agileml/base/text_fields.h"
#include "apps/little_endian.h"
#include "apps/samples/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_DIGITS = 18, SEEN_MASK = (1 << 12) - 1, TEXT_MAX = 512, OCTAVES = 64 };

/* ---- The spec ---- */

static int compare_crosses(const void *one, const void *other) {
    const struct criteo_hash_cross *a = one;
    const struct criteo_hash_cross *b = other;
    return a->first != b->first ? a->first - b->first : a->second - b->second;
}

static bool crosses_ascend(const struct criteo_hash *hash) {
    for (uint32_t c = 1; c < hash->cross_count; c++) {
        if (compare_crosses(&hash->crosses[c - 1], &hash->crosses[c]) >= 0) {
            return false;
        }
    }
    return true;
}

/* Parses "C1xC2" of `length` bytes. Returns false for any other text. */
static bool take_cross(const char *text, size_t length, struct criteo_hash_cross *cross) {
    const char *x = memchr(text, 'x', length);
    int first = x != NULL ? criteo_field(text, (size_t)(x - text)) : -1;
    int second = x != NULL ? criteo_field(x + 1, length - (size_t)(x + 1 - text)) : -1;
    if (first < 0 || second < 0 || first == second) {
        return false;
    }
    cross->first = (unsigned char)(first < second ? first : second);
    cross->second = (unsigned char)(first < second ? second : first);
    return true;
}

int criteo_hash_add_crosses(struct criteo_hash *hash, const char *text, struct error *error) {
    for (const char *next = text; next != NULL;) {
        size_t length = strcspn(next, ",");
        struct criteo_hash_cross cross;
        if (!take_cross(next, length, &cross)) {
            return error_set(error, AML_EINPUT,
                             "--cross: expected pairs of different fields such as C1xC2,I5xC3, got '%.*s'",
                             text_shown(length), next);
        }
        if (hash->cross_count == CRITEO_HASH_CROSSES_MAX) {
            return error_set(error, AML_EINPUT, "--cross: expected each pair once");
        }
        hash->crosses[hash->cross_count++] = cross;
        next = next[length] == ',' ? next + length + 1 : NULL;
    }
    qsort(hash->crosses, hash->cross_count, sizeof *hash->crosses, compare_crosses);
    return crosses_ascend(hash) ? 0 : error_set(error, AML_EINPUT, "--cross: expected each pair once");
}

bool criteo_hash_valid(const struct criteo_hash *hash) {
    bool good = hash->bits >= CRITEO_HASH_BITS_MIN && hash->bits <= CRITEO_HASH_BITS_MAX &&
                hash->cross_count <= CRITEO_HASH_CROSSES_MAX && crosses_ascend(hash);
    for (uint32_t c = 0; good && c < hash->cross_count; c++) {
        good = hash->crosses[c].first < hash->crosses[c].second && hash->crosses[c].second < CRITEO_FIELDS;
    }
    return good;
}

/* ---- Fields ---- */

static inline uint64_t load64(const char *text) {
    return get64((const unsigned char *)text);
}

/* Hashes the text of a field. Words are little-endian on every machine. */
static inline uint64_t hash_category(uint64_t field, const char *text, uint32_t length) {
    uint64_t first = 0;
    uint64_t last = 0;
    const char *end = text + length;
    for (; end - text > HASH_SHORT; text += HASH_SHORT) {
        field = hash_pair(load64(text) ^ field, load64(text + 8));
    }
    if (length >= 8) {
        text = length > HASH_SHORT ? end - HASH_SHORT : text;
        first = load64(text);
        last = load64(end - 8);
    } else if (length >= 4) {
        first = get32((const unsigned char *)text);
        last = get32((const unsigned char *)end - 4);
    } else {
        for (uint32_t i = 0; i < length; i++) {
            first = first << 8 | (unsigned char)text[i];
        }
    }
    return hash_pair(hash_pair(first ^ field, last + length), field);
}

/* Returns the octave of a whole number: 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4..7 ... */
static inline uint64_t octave_of(uint64_t magnitude) {
    return magnitude == 0 ? 0 : 64 - (uint64_t)__builtin_clzll(magnitude);
}

/* Sets *octave for a number not written as a few digits: one with a point, an exponent, or more digits. */
static int take_other_number(const struct criteo_text *field, unsigned number, uint64_t *octave, bool *negative,
                             struct error *error) {
    char text[TEXT_MAX];
    double value = 0;
    bool fits = field->length < sizeof text;
    if (fits) {
        memcpy(text, field->text, field->length);
        text[field->length] = '\0';
    }
    if (!fits || number_take(text, &value) != text + field->length) {
        char name[CRITEO_NAME_MAX];
        criteo_name(number, name);
        return error_set(error, AML_EINPUT, "expected a whole number in %s, got '%.*s'%s", name,
                         text_shown(field->length), field->text, text_shown_end(field->length));
    }
    double magnitude = floor(fabs(value));
    *negative = value < 0 && magnitude > 0;
    *octave = magnitude < 0x1p63 ? octave_of((uint64_t)magnitude) : OCTAVES;
    return 0;
}

/* Sets *hash for an integer field that is present. */
static inline int hash_integer(unsigned number, uint64_t seed, const struct criteo_text *field, uint64_t *hash,
                               struct error *error) {
    const char *p = field->text;
    const char *end = p + field->length;
    bool negative = *p == '-';
    uint64_t magnitude = 0;
    uint64_t octave = 0;
    p += negative;
    bool plain = p < end && end - p <= SHORT_DIGITS;
    for (; plain && p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');
        plain = digit < 10;
        magnitude = magnitude * 10 + digit;
    }
    if (plain) {
        octave = octave_of(magnitude);
        negative = negative && magnitude > 0;
    } else {
        int result = take_other_number(field, number, &octave, &negative, error);
        if (result != 0) {
            return result;
        }
    }
    *hash = hash_mix(seed ^ (octave << 1 | negative));
    return 0;
}

/* ---- The transform ---- */

static inline void add_slot(struct criteo_hash_features *features, uint32_t slot) {
    uint16_t *seen = &features->seen[slot & SEEN_MASK];
    if (*seen != 0) {
        for (uint32_t i = 0; i < features->count; i++) {
            if (features->slots[i] == slot) {
                features->values[i] += 1;
                features->added = true;
                return;
            }
        }
    }
    features->slots[features->count] = slot;
    features->values[features->count] = 1;
    features->count++;
    *seen = (uint16_t)features->count;
}

int criteo_hash_run(const struct criteo_hash *hash, const struct criteo_record *record,
                    struct criteo_hash_features *features, struct error *error) {
    uint64_t hashes[CRITEO_FIELDS];
    unsigned shift = 64 - hash->bits;
    features->count = 0;
    features->added = false;
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        const struct criteo_text *field = &record->fields[f];
        uint64_t seed = hash_mix(f + 1);
        if (f < CRITEO_INTEGERS && field->length > 0) {
            int result = hash_integer(f, seed, field, &hashes[f], error);
            if (result != 0) {
                return result;
            }
        } else {
            hashes[f] = hash_category(seed, field->text, field->length);
        }
    }
    for (unsigned f = 0; f < CRITEO_FIELDS; f++) {
        add_slot(features, (uint32_t)(hashes[f] >> shift));
    }
    for (uint32_t c = 0; c < hash->cross_count; c++) {
        const struct criteo_hash_cross *cross = &hash->crosses[c];
        add_slot(features, (uint32_t)(hash_pair(hashes[cross->first], hashes[cross->second]) >> shift));
    }
    for (uint32_t i = 0; i < features->count; i++) {
        features->seen[features->slots[i] & SEEN_MASK] = 0;
    }
    return 0;
}
