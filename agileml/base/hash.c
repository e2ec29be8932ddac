/* See hash.h. */
#include "agileml/base/hash.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdbool.h>
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

/* Behind the head come the entries of a hash table, or (`bound` > 0) value_plus_one of each key below `bound`. */
struct index_entries {
    _Alignas(sizeof(struct index_entry)) size_t mask; /* the number of entries, a power of two, less one */
    size_t bound;                                     /* 0: a hash table */
    struct index_entries *outgrown;                   /* see struct index_map */
};

static struct index_entries *entries_of(const struct index_map *map) {
    return atomic_load_explicit(&map->entries, memory_order_acquire);
}

static inline struct index_entry *entries_hashed(const struct index_entries *entries) {
    return (struct index_entry *)(uintptr_t)(entries + 1);
}

static inline _Atomic uint32_t *entries_direct(const struct index_entries *entries) {
    return (_Atomic uint32_t *)(uintptr_t)(entries + 1);
}

static size_t entries_bytes(size_t capacity, size_t bound) {
    return sizeof(struct index_entries) +
           (bound > 0 ? bound * sizeof(_Atomic uint32_t) : capacity * sizeof(struct index_entry));
}

/* Returns the key's value plus one, or 0. */
static inline uint32_t hashed_find(const struct index_entries *entries, uint64_t key) {
    for (size_t at = hash_mix(key) & entries->mask;; at = (at + 1) & entries->mask) {
        const struct index_entry *entry = &entries_hashed(entries)[at];
        uint32_t value_plus_one = atomic_load_explicit(&entry->value_plus_one, memory_order_acquire);
        if (value_plus_one == 0 || entry->key == key) {
            return value_plus_one;
        }
    }
}

static inline uint32_t direct_find(const struct index_entries *entries, uint64_t key) {
    return key < entries->bound ? atomic_load_explicit(&entries_direct(entries)[key], memory_order_acquire) : 0;
}

int64_t index_map_find(const struct index_map *map, uint64_t key) {
    const struct index_entries *entries = entries_of(map);
    if (entries == NULL) {
        return INDEX_NONE;
    }
    return (int64_t)(entries->bound > 0 ? direct_find(entries, key) : hashed_find(entries, key)) - 1;
}

static inline void entries_prefetch(const struct index_entries *entries, uint64_t key) {
    if (entries->bound == 0) {
        __builtin_prefetch(&entries_hashed(entries)[hash_mix(key) & entries->mask]);
    } else if (key < entries->bound) {
        __builtin_prefetch((const void *)(uintptr_t)&entries_direct(entries)[key]);
    }
}

void index_map_prefetch(const struct index_map *map, uint64_t key) {
    const struct index_entries *entries = entries_of(map);
    if (entries != NULL) {
        entries_prefetch(entries, key);
    }
}

void index_map_find_all(const struct index_map *map, const uint64_t *keys, size_t count, uint32_t *values) {
    enum { AHEAD = 16 }; /* keys that are fetched before they are looked up */
    const struct index_entries *entries = entries_of(map);
    for (size_t i = 0; i < count && entries != NULL && entries->bound > 0; i++) {
        values[i] = direct_find(entries, keys[i]) - 1;
    }
    for (size_t i = 0; i < count && entries != NULL && entries->bound == 0; i++) {
        if (i + AHEAD < count) {
            entries_prefetch(entries, keys[i + AHEAD]);
        }
        values[i] = hashed_find(entries, keys[i]) - 1;
    }
    for (size_t i = 0; i < count && entries == NULL; i++) {
        values[i] = INDEX_VALUE_NONE;
    }
}

static void entries_place(struct index_entries *entries, uint64_t key, uint32_t value_plus_one) {
    if (entries->bound > 0) {
        assert(key < entries->bound);
        atomic_store_explicit(&entries_direct(entries)[key], value_plus_one, memory_order_release);
        return;
    }
    struct index_entry *at = entries_hashed(entries);
    size_t place = hash_mix(key) & entries->mask;
    while (atomic_load_explicit(&at[place].value_plus_one, memory_order_relaxed) != 0) {
        place = (place + 1) & entries->mask;
    }
    at[place].key = key;
    atomic_store_explicit(&at[place].value_plus_one, value_plus_one, memory_order_release);
}

/* Returns a copy with twice as many entries, or by key if that takes no more memory. The caller keeps the old ones. */
static struct index_entries *entries_grown(const struct index_map *map, const struct index_entries *old) {
    size_t capacity = old != NULL ? 2 * (old->mask + 1) : INDEX_CAPACITY_MIN;
    bool direct = map->bound > 0 && map->bound <= capacity * sizeof(struct index_entry) / sizeof(_Atomic uint32_t);
    size_t bound = direct ? (size_t)map->bound : 0;
    struct index_entries *grown = memory_zeroed(1, entries_bytes(capacity, bound));
    grown->mask = capacity - 1;
    grown->bound = bound;
    for (size_t i = 0; old != NULL && i <= old->mask; i++) {
        const struct index_entry *entry = &entries_hashed(old)[i];
        uint32_t value_plus_one = atomic_load_explicit(&entry->value_plus_one, memory_order_relaxed);
        if (value_plus_one != 0) {
            entries_place(grown, entry->key, value_plus_one);
        }
    }
    return grown;
}

void index_map_bound(struct index_map *map, uint64_t bound) {
    assert(entries_of(map) == NULL);
    map->bound = bound;
}

void index_map_add_shared(struct index_map *map, uint64_t key, uint32_t value) {
    struct index_entries *entries = entries_of(map);
    if (entries == NULL || (entries->bound == 0 && (map->count + 1) * 8 > (entries->mask + 1) * 5)) {
        struct index_entries *old = entries;
        entries = entries_grown(map, old);
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
        size_t bytes = entries_bytes(entries->mask + 1, entries->bound);
        struct index_entries *copied = memory_resized(NULL, 1, bytes);
        memcpy(copied, entries, bytes);
        copied->outgrown = NULL;
        atomic_store_explicit(&copy->entries, copied, memory_order_release);
    }
    copy->count = map->count;
    copy->bound = map->bound;
}

void index_map_close(struct index_map *map) {
    index_map_trim(map);
    free(entries_of(map));
    memset(map, 0, sizeof *map);
}
