/* Hashing of 64-bit keys and of bytes, and a map from such keys to 32-bit indexes. Not for hostile keys. */
#ifndef AGILEML_BASE_HASH_H
#define AGILEML_BASE_HASH_H

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

/* Returns pseudo-random bits for a value; the seed chooses the sequence. */
static inline uint64_t hash_seeded(uint64_t seed, uint64_t value) {
    return hash_mix(seed ^ hash_mix(value));
}

__extension__ typedef unsigned __int128 hash_product;

/* Returns the upper half of a product. */
static inline uint64_t hash_product_high(uint64_t one, uint64_t other) {
    return (uint64_t)((hash_product)one * other >> 64);
}

/* Mixes two words by one multiplication, as wyhash does: folds the two halves of the product into one word. If one
 * word is 0 the other has no effect. So callers avoid words that are often 0. */
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

enum { HASH_SHORT = 16, HASH_LANES = 4, HASH_BLOCK = HASH_LANES * HASH_SHORT };

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

/* Hashes bytes that come in pieces. The hash does not depend on where the pieces end. A zeroed struct is empty. */
struct hash_stream {
    uint64_t size; /* bytes so far */
    uint64_t lanes[HASH_LANES];
    unsigned char rest[HASH_BLOCK]; /* the last size % HASH_BLOCK bytes */
};
void hash_stream_add(struct hash_stream *stream, const unsigned char *bytes, size_t size);
uint64_t hash_stream_end(const struct hash_stream *stream);

enum { INDEX_NONE = -1 };

struct index_entry;

/* A map with open addressing and linear probing, at most 5/8 full. Values are indexes that the caller chooses, below
 * UINT32_MAX. A zeroed struct is an empty map. Lookups may run in parallel. For rows there is slot_index.h, which takes
 * a quarter of the memory. */
struct index_map {
    size_t count, capacity;
    struct index_entry *entries;
};

/* Returns the value of `key`, or INDEX_NONE. */
int64_t index_map_find(const struct index_map *map, uint64_t key);
/* Adds `key`, which is not in the map. */
void index_map_add(struct index_map *map, uint64_t key, uint32_t value);
void index_map_close(struct index_map *map);

#endif
