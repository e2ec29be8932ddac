/* See sparse.h. */
#include "agileml/wire/sparse.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BLOCK = 16 }; /* 4-byte words that are compared together */

static uint32_t count_at(const unsigned char *row) {
    uint32_t count;
    memcpy(&count, row, sizeof count);
    return count;
}

/* Compares two blocks of BLOCK words. Returns a mask with a bit for each word that differs. */
static unsigned words_differ(const unsigned char *one, const unsigned char *other) {
#ifdef __SSE2__
    __m128i same[4];
    for (int i = 0; i < 4; i++) {
        same[i] = _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)(one + 16 * i)),
                                  _mm_loadu_si128((const __m128i *)(const void *)(other + 16 * i)));
    }
    __m128i low = _mm_packs_epi32(same[0], same[1]);
    __m128i high = _mm_packs_epi32(same[2], same[3]);
    return ~(unsigned)_mm_movemask_epi8(_mm_packs_epi16(low, high)) & 0xFFFFU;
#else
    unsigned mask = 0;
    for (unsigned i = 0; i < BLOCK; i++) {
        mask |= (unsigned)(memcmp(one + 4 * i, other + 4 * i, 4) != 0) << i;
    }
    return mask;
#endif
}

/* Compares the first `words` words of two blocks, as words_differ does. */
static unsigned rest_differs(const unsigned char *one, const unsigned char *other, uint32_t words) {
    unsigned mask = 0;
    for (uint32_t i = 0; i < words; i++) {
        mask |= (unsigned)(memcmp(one + 4 * (size_t)i, other + 4 * (size_t)i, 4) != 0) << i;
    }
    return mask;
}

/* The functions below are inline so that the compiler sees `element_bytes` as a constant. */

/* Writes row[column] - base[column] to `at`. `base` NULL: zeros. */
static inline void element_delta(uint32_t element_bytes, unsigned char *at, uint32_t column, const unsigned char *row,
                                 const unsigned char *base) {
    uint64_t new = 0;
    uint64_t old = 0;
    memcpy(&new, row + (size_t)column * element_bytes, element_bytes);
    if (base != NULL) {
        memcpy(&old, base + (size_t)column * element_bytes, element_bytes);
    }
    new -= old;
    memcpy(at, &new, element_bytes);
}

/* Writes an entry for each column in which row and base differ. Returns the end of the entries; NULL when they would
 * take more room than SPARSE_ALL does. */
static inline unsigned char *delta_entries(uint32_t element_bytes, unsigned char *to, const unsigned char *row,
                                           const unsigned char *base, uint32_t width) {
    static const unsigned char zeros[sizeof(uint32_t) * BLOCK];
    const uint32_t per_element = element_bytes / (uint32_t)sizeof(uint32_t); /* words */
    const uint32_t words = width * per_element;
    const unsigned char *end = to + (size_t)width * element_bytes;
    unsigned char *at = to;
    for (uint32_t first = 0; first < words; first += BLOCK) {
        const unsigned char *one = row + sizeof(uint32_t) * first;
        const unsigned char *other = base != NULL ? base + sizeof(uint32_t) * first : zeros;
        unsigned differ = words - first >= BLOCK ? words_differ(one, other) : rest_differs(one, other, words - first);
        while (differ != 0) {
            uint32_t column = (first + (uint32_t)__builtin_ctz(differ)) / per_element;
            if (at + sizeof column + element_bytes > end) {
                return NULL;
            }
            memcpy(at, &column, sizeof column);
            element_delta(element_bytes, at + sizeof column, column, row, base);
            at += sizeof column + element_bytes;
            differ &= ~((per_element == 1 ? 1U : 3U) << (column * per_element - first));
        }
    }
    return at;
}

static inline size_t delta_of(uint32_t element_bytes, unsigned char *to, const unsigned char *row, unsigned char *base,
                              uint32_t width, bool settle) {
    unsigned char *entries = to + sizeof(uint32_t);
    const size_t entry_bytes = sizeof(uint32_t) + element_bytes;
    const unsigned char *end = delta_entries(element_bytes, entries, row, base, width);
    uint32_t count = SPARSE_ALL;
    if (end == NULL) {
        for (uint32_t i = 0; i < width; i++) {
            element_delta(element_bytes, entries + (size_t)i * element_bytes, i, row, base);
        }
        if (settle) {
            memcpy(base, row, (size_t)width * element_bytes);
        }
        memcpy(to, &count, sizeof count);
        return sparse_most(width, element_bytes);
    }
    count = (uint32_t)((size_t)(end - entries) / entry_bytes);
    memcpy(to, &count, sizeof count);
    for (uint32_t i = 0; settle && i < count; i++) {
        size_t at = (size_t)count_at(entries + i * entry_bytes) * element_bytes;
        memcpy(base + at, row + at, element_bytes);
    }
    return (size_t)(end - to);
}

size_t sparse_delta(uint32_t element_bytes, unsigned char *to, const void *row, void *base, uint32_t width,
                    bool settle) {
    return element_bytes == sizeof(uint32_t) ? delta_of(sizeof(uint32_t), to, row, base, width, settle)
                                             : delta_of(sizeof(uint64_t), to, row, base, width, settle);
}

static inline size_t write_row(uint32_t element_bytes, unsigned char *to, uint32_t width, uint32_t count,
                               const uint32_t *columns, const unsigned char *values) {
    const size_t entry_bytes = sizeof(uint32_t) + element_bytes;
    unsigned char *at = to + sizeof count;
    if (count * entry_bytes > (size_t)width * element_bytes) {
        memcpy(to, &(uint32_t){SPARSE_ALL}, sizeof(uint32_t));
        memset(at, 0, (size_t)width * element_bytes);
        for (uint32_t i = 0; i < count; i++) {
            memcpy(at + (size_t)columns[i] * element_bytes, values + (size_t)i * element_bytes, element_bytes);
        }
        return sparse_most(width, element_bytes);
    }
    memcpy(to, &count, sizeof count);
    for (uint32_t i = 0; i < count; i++, at += entry_bytes) {
        memcpy(at, &columns[i], sizeof columns[i]);
        memcpy(at + sizeof columns[i], values + (size_t)i * element_bytes, element_bytes);
    }
    return (size_t)(at - to);
}

size_t sparse_write(uint32_t element_bytes, unsigned char *to, uint32_t width, uint32_t count, const uint32_t *columns,
                    const void *values) {
    return element_bytes == sizeof(uint32_t) ? write_row(sizeof(uint32_t), to, width, count, columns, values)
                                             : write_row(sizeof(uint64_t), to, width, count, columns, values);
}

size_t sparse_bytes(uint32_t element_bytes, const unsigned char *row, uint32_t width) {
    uint32_t count = count_at(row);
    return count == SPARSE_ALL ? sparse_most(width, element_bytes)
                               : sizeof count + count * (sizeof(uint32_t) + (size_t)element_bytes);
}

size_t sparse_check(uint32_t element_bytes, const unsigned char *row, size_t left, uint32_t width) {
    if (left < sizeof(uint32_t)) {
        return 0;
    }
    uint32_t count = count_at(row);
    if (count != SPARSE_ALL && count > width) {
        return 0;
    }
    size_t bytes = sparse_bytes(element_bytes, row, width);
    if (bytes > left) {
        return 0;
    }
    const unsigned char *entry = row + sizeof count;
    uint64_t least = 0; /* the next entry's column must be at least this, as columns ascend */
    for (uint32_t i = 0; count != SPARSE_ALL && i < count; i++, entry += sizeof(uint32_t) + element_bytes) {
        uint32_t column = count_at(entry);
        if (column < least || column >= width) {
            return 0;
        }
        least = (uint64_t)column + 1;
    }
    return bytes;
}

/* Defines a function that adds a checked row to `target`, or subtracts it, and returns its encoded size. */
#define SPARSE_CHANGE(name, type, operation)                                                                           \
    static size_t name(type *restrict target, const unsigned char *restrict row, uint32_t width) {                     \
        uint32_t count = count_at(row);                                                                                \
        const unsigned char *at = row + sizeof count;                                                                  \
        bool all = count == SPARSE_ALL;                                                                                \
        uint32_t entries = all ? width : count;                                                                        \
        for (uint32_t i = 0; i < entries; i++) {                                                                       \
            uint32_t column = i;                                                                                       \
            type value;                                                                                                \
            if (!all) {                                                                                                \
                memcpy(&column, at, sizeof column);                                                                    \
                at += sizeof column;                                                                                   \
            }                                                                                                          \
            memcpy(&value, at, sizeof value);                                                                          \
            at += sizeof value;                                                                                        \
            target[column] operation value;                                                                            \
        }                                                                                                              \
        return (size_t)(at - row);                                                                                     \
    }
SPARSE_CHANGE(add_32, uint32_t, +=)
SPARSE_CHANGE(add_64, uint64_t, +=)
SPARSE_CHANGE(subtract_32, uint32_t, -=)
SPARSE_CHANGE(subtract_64, uint64_t, -=)

size_t sparse_add(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width) {
    return element_bytes == sizeof(uint32_t) ? add_32(target, row, width) : add_64(target, row, width);
}

size_t sparse_copy(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width) {
    const size_t row_bytes = (size_t)width * element_bytes;
    if (count_at(row) == SPARSE_ALL) {
        memcpy(target, row + sizeof(uint32_t), row_bytes);
        return sizeof(uint32_t) + row_bytes;
    }
    memset(target, 0, row_bytes);
    return sparse_add(element_bytes, target, row, width);
}

size_t sparse_subtract(uint32_t element_bytes, void *target, const unsigned char *row, uint32_t width) {
    return element_bytes == sizeof(uint32_t) ? subtract_32(target, row, width) : subtract_64(target, row, width);
}
