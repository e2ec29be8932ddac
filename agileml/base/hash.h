/* Hashing of 64-bit keys, and a map from such keys to 32-bit indexes. Not for hostile keys. */
#ifndef AGILEML_BASE_HASH_H
#define AGILEML_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A bijective mix of all bits (the finaliser of splitmix64). */
static inline uint64_t hash_mix(uint64_t key) {
    key += 0x9E3779B97F4A7C15U;
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9U;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBU;
    return key ^ (key >> 31);
}

enum { INDEX_NONE = -1 };

/* Open addressing, linear probing, at most 5/8 full. Values are indexes the caller chose, below
 * UINT32_MAX. A zeroed struct is an empty map. Not thread-safe; lookups alone may run in parallel. */
struct index_map {
    struct index_entry {
        uint64_t key;
        uint32_t value_plus_one; /* 0: free */
    } * entries;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* The value of `key`, or INDEX_NONE. */
int64_t index_map_find(const struct index_map *map, uint64_t key);
/* Adds `key`, which is not in the map. */
void index_map_add(struct index_map *map, uint64_t key, uint32_t value);
void index_map_close(struct index_map *map);

#endif
