/* Hashing of 64-bit keys and of bytes, and a map from such keys to 32-bit indexes. Not for hostile keys. */
#ifndef AGILEML_BASE_HASH_H
#define AGILEML_BASE_HASH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A bijective mix of all bits (the finaliser of splitmix64). */
static inline uint64_t hash_mix(uint64_t key) {
    key += 0x9E3779B97F4A7C15U;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9U;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBU;
    return key ^ (key >> 31);
}

__extension__ typedef unsigned __int128 hash_product;

/* Returns the upper half of a product. */
static inline uint64_t hash_product_high(uint64_t one, uint64_t other) {
    return (uint64_t)((hash_product)one * other >> 64);
}

/* Mixes two words by one multiplication, as wyhash does: folds the two halves of the product into one word. If one word
 * is 0 the other has no effect, so neither may be 0 except by chance. */
static inline uint64_t hash_folded(uint64_t one, uint64_t other) {
    hash_product product = (hash_product)one * other;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Mixes any two words into one. */
static inline uint64_t hash_pair(uint64_t one, uint64_t other) {
    return hash_folded(one ^ 0xA0761D6478BD642FU, other ^ 0xE7037ED1A0B428DBU);
}

/* Hashes more than HASH_SHORT bytes. */
uint64_t hash_long(const unsigned char *bytes, size_t size, uint64_t seed);

enum { HASH_SHORT = 16 };

static inline uint64_t hash_word(const unsigned char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint64_t hash_half_word(const unsigned char *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Hashes bytes; `seed` may be the hash of the bytes before them. */
static inline uint64_t hash_bytes(const unsigned char *bytes, size_t size, uint64_t seed) {
    uint64_t first = 0;
    uint64_t last = 0;
    if (size > HASH_SHORT) {
        return hash_long(bytes, size, seed);
    }
    if (size >= 8) {
        first = hash_word(bytes);
        last = hash_word(bytes + size - 8);
    } else if (size >= 4) {
        first = hash_half_word(bytes);
        last = hash_half_word(bytes + size - 4);
    } else if (size > 0) {
        first = (uint64_t)bytes[0] << 16 | (uint64_t)bytes[size / 2] << 8 | bytes[size - 1];
    }
    return hash_pair(hash_pair(first ^ seed, last + size), seed);
}

enum { INDEX_NONE = -1 };

struct index_entries;

/* In place of a value: the key is not in the map. */
#define INDEX_VALUE_NONE UINT32_MAX

/* A map with open addressing and linear probing, at most 5/8 full; of bounded keys (index_map_bound) an array by key as
 * soon as that takes no more memory. Values are indexes that the caller chooses, below INDEX_VALUE_NONE. A zeroed
 * struct is an empty map.
 *
 * Threads: lookups may run in parallel. index_map_add_shared may run beside them, in one thread at a time; every other
 * function needs the map to itself. */
struct index_map {
    size_t count;                            /* the first field, as clang 14 rejects {0} for an atomic pointer */
    _Atomic(struct index_entries *) entries; /* NULL: empty */
    struct index_entries *outgrown; /* old arrays that lookups may still be reading; each points to the one before */
    uint64_t bound;                 /* 0: none */
};

/* Promises that the empty map will have keys below `bound` alone. Any key can be looked up. */
void index_map_bound(struct index_map *map, uint64_t bound);

/* Returns the value of `key`, or INDEX_NONE. */
int64_t index_map_find(const struct index_map *map, uint64_t key);
/* Sets values[i] to the value of keys[i], or to INDEX_VALUE_NONE. */
void index_map_find_all(const struct index_map *map, const uint64_t *keys, size_t count, uint32_t *values);
/* Has the processor fetch what index_map_find(key) will read. */
void index_map_prefetch(const struct index_map *map, uint64_t key);
/* Adds `key`, which is not in the map. */
void index_map_add(struct index_map *map, uint64_t key, uint32_t value);
/* Adds `key` while other threads look up. A lookup finds either nothing or `value`; a thread that finds `value` also
 * sees everything that this thread wrote before. Entries that the map has outgrown remain until index_map_trim, and at
 * most double the map's memory. */
void index_map_add_shared(struct index_map *map, uint64_t key, uint32_t value);
void index_map_trim(struct index_map *map);
/* Makes `copy`, which is zeroed, equal to `map`. */
void index_map_copy(struct index_map *copy, const struct index_map *map);
void index_map_close(struct index_map *map);

#endif
