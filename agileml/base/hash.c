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
    uint64_t key;                    /* written before value_plus_one, and never again */
    _Atomic uint32_t value_plus_one; /* 0: free */
};

struct index_entries {
    size_t mask;                    /* their number, a power of two, less one */
    struct index_entries *outgrown; /* see struct index_map */
    struct index_entry at[];
};

static struct index_entries *entries_of(const struct index_map *map) {
    return atomic_load_explicit(&map->entries, memory_order_acquire);
}

static size_t entries_bytes(size_t capacity) {
    return sizeof(struct index_entries) + capacity * sizeof(struct index_entry);
}

int64_t index_map_find(const struct index_map *map, uint64_t key) {
    const struct index_entries *entries = entries_of(map);
    if (entries == NULL) {
        return INDEX_NONE;
    }
    for (size_t at = hash_mix(key) & entries->mask;; at = (at + 1) & entries->mask) {
        const struct index_entry *entry = &entries->at[at];
        uint32_t value_plus_one = atomic_load_explicit(&entry->value_plus_one, memory_order_acquire);
        if (value_plus_one == 0) {
            return INDEX_NONE;
        }
        if (entry->key == key) {
            return (int64_t)value_plus_one - 1;
        }
    }
}

void index_map_prefetch(const struct index_map *map, uint64_t key) {
    const struct index_entries *entries = entries_of(map);
    if (entries != NULL) {
        __builtin_prefetch(&entries->at[hash_mix(key) & entries->mask]);
    }
}

static void entries_place(struct index_entries *entries, uint64_t key, uint32_t value_plus_one) {
    size_t at = hash_mix(key) & entries->mask;
    while (atomic_load_explicit(&entries->at[at].value_plus_one, memory_order_relaxed) != 0) {
        at = (at + 1) & entries->mask;
    }
    entries->at[at].key = key;
    atomic_store_explicit(&entries->at[at].value_plus_one, value_plus_one, memory_order_release);
}

/* Returns a copy with twice as many entries. The caller keeps the old ones. */
static struct index_entries *entries_grown(const struct index_entries *old) {
    size_t capacity = old != NULL ? 2 * (old->mask + 1) : INDEX_CAPACITY_MIN;
    struct index_entries *grown = memory_zeroed(1, entries_bytes(capacity));
    grown->mask = capacity - 1;
    for (size_t i = 0; old != NULL && i <= old->mask; i++) {
        uint32_t value_plus_one = atomic_load_explicit(&old->at[i].value_plus_one, memory_order_relaxed);
        if (value_plus_one != 0) {
            entries_place(grown, old->at[i].key, value_plus_one);
        }
    }
    return grown;
}

void index_map_add_shared(struct index_map *map, uint64_t key, uint32_t value) {
    struct index_entries *entries = entries_of(map);
    if (entries == NULL || (map->count + 1) * 8 > (entries->mask + 1) * 5) {
        struct index_entries *old = entries;
        entries = entries_grown(old);
        if (old != NULL) {
            old->outgrown = map->outgrown;
            map->outgrown = old;
        }
        atomic_store_explicit(&map->entries, entries, memory_order_release);
    }
    entries_place(entries, key, value + 1);
    map->count++;
}

void index_map_trim(struct index_map *map) {
    while (map->outgrown != NULL) {
        struct index_entries *entries = map->outgrown;
        map->outgrown = entries->outgrown;
        free(entries);
    }
}

void index_map_add(struct index_map *map, uint64_t key, uint32_t value) {
    index_map_add_shared(map, key, value);
    index_map_trim(map);
}

void index_map_copy(struct index_map *copy, const struct index_map *map) {
    const struct index_entries *entries = entries_of(map);
    if (entries != NULL) {
        size_t bytes = entries_bytes(entries->mask + 1);
        struct index_entries *copied = memory_resized(NULL, 1, bytes);
        memcpy(copied, entries, bytes);
        copied->outgrown = NULL;
        atomic_store_explicit(&copy->entries, copied, memory_order_release);
    }
    copy->count = map->count;
}

void index_map_close(struct index_map *map) {
    index_map_trim(map);
    free(entries_of(map));
    memset(map, 0, sizeof *map);
}
