/* See hash.h. */
#include "agileml/base/hash.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

/* Four lanes of 16 bytes each, so that their multiplications overlap; the last 16 bytes may be hashed twice. */
uint64_t hash_long(const unsigned char *bytes, size_t size, uint64_t seed) {
    enum { LANES = 4 };
    const unsigned char *end = bytes + size;
    uint64_t lanes[LANES] = {seed, seed, seed, seed};
    for (; (size_t)(end - bytes) > LANES * HASH_SHORT; bytes += LANES * HASH_SHORT) {
        for (size_t l = 0; l < LANES; l++) {
            const unsigned char *at = bytes + l * HASH_SHORT;
            lanes[l] = hash_pair(hash_word(at) ^ lanes[l], hash_word(at + 8));
        }
    }
    uint64_t hash = hash_pair(hash_pair(lanes[0], lanes[1]), hash_pair(lanes[2], lanes[3]));
    for (; (size_t)(end - bytes) > HASH_SHORT; bytes += HASH_SHORT) {
        hash = hash_pair(hash_word(bytes) ^ hash, hash_word(bytes + 8));
    }
    hash = hash_pair(hash_word(end - HASH_SHORT) ^ hash, hash_word(end - 8));
    return hash_pair(hash ^ seed, size);
}

enum { INDEX_CAPACITY_MIN = 64 };

struct index_entry {
    uint64_t key;
    uint32_t value_plus_one; /* 0: free */
};

/* Returns the entry of the key, or the free entry where the key belongs. */
static struct index_entry *entry_of(const struct index_map *map, uint64_t key) {
    size_t at = hash_mix(key) & (map->capacity - 1);
    while (map->entries[at].value_plus_one != 0 && map->entries[at].key != key) {
        at = (at + 1) & (map->capacity - 1);
    }
    return &map->entries[at];
}

int64_t index_map_find(const struct index_map *map, uint64_t key) {
    return map->capacity > 0 ? (int64_t)entry_of(map, key)->value_plus_one - 1 : INDEX_NONE;
}

static void map_grow(struct index_map *map) {
    const struct index_map old = *map;
    map->capacity = old.capacity > 0 ? 2 * old.capacity : INDEX_CAPACITY_MIN;
    map->entries = memory_zeroed(map->capacity, sizeof *map->entries);
    for (size_t i = 0; i < old.capacity; i++) {
        if (old.entries[i].value_plus_one != 0) {
            *entry_of(map, old.entries[i].key) = old.entries[i];
        }
    }
    free(old.entries);
}

void index_map_add(struct index_map *map, uint64_t key, uint32_t value) {
    if ((map->count + 1) * 8 > map->capacity * 5) {
        map_grow(map);
    }
    *entry_of(map, key) = (struct index_entry){.key = key, .value_plus_one = value + 1};
    map->count++;
}

void index_map_close(struct index_map *map) {
    free(map->entries);
    memset(map, 0, sizeof *map);
}
