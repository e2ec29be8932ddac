/* See slot_index.h. */
#include "agileml/base/slot_index.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 64 };

/* The head is followed by `mask` + 1 entries of a hash table, or by `bound` entries indexed by key. An entry is 0
 * (free) or a slot plus one.
 *
 * In a hash table of 2^n entries a slot plus one has n bits. The bits above are the tag: bits of the key's hash. The
 * tag rules out most other keys without a look at the array of keys. */
struct slot_entries {
    uint32_t mask;                 /* mask: the number of entries, a power of two, minus one */
    uint64_t bound;                /* 0: a hash table */
    struct slot_entries *outgrown; /* see struct slot_index */
    _Atomic uint32_t entries[];
};

static struct slot_entries *entries_of(const struct slot_index *index) {
    return atomic_load_explicit(&index->entries, memory_order_acquire);
}

static size_t entries_bytes(const struct slot_entries *entries) {
    uint64_t count = entries->bound > 0 ? entries->bound : (uint64_t)entries->mask + 1;
    return sizeof *entries + (size_t)count * sizeof *entries->entries;
}

/* ---- Lookups: all return the slot plus one, or 0 ---- */

static inline uint32_t hashed_find(const struct slot_entries *entries, const uint64_t *keys, uint64_t key) {
    const uint64_t hash = hash_mix(key);
    const uint32_t mask = entries->mask;
    const uint32_t tag = (uint32_t)(hash >> 32) & ~mask;
    for (uint32_t at = (uint32_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t entry = atomic_load_explicit(&entries->entries[at], memory_order_acquire);
        if (entry == 0) {
            return 0;
        }
        if ((entry & ~mask) == tag && keys[(entry & mask) - 1] == key) {
            return entry & mask;
        }
    }
}

static inline uint32_t direct_find(const struct slot_entries *entries, uint64_t key) {
    return key < entries->bound ? atomic_load_explicit(&entries->entries[key], memory_order_acquire) : 0;
}

int64_t slot_index_find(const struct slot_index *index, const uint64_t *keys, uint64_t key) {
    const struct slot_entries *entries = entries_of(index);
    if (entries == NULL) {
        return INDEX_NONE;
    }
    return (int64_t)(entries->bound > 0 ? direct_find(entries, key) : hashed_find(entries, keys, key)) - 1;
}

static inline void entries_prefetch(const struct slot_entries *entries, uint64_t key) {
    if (entries->bound == 0) {
        __builtin_prefetch((const void *)(uintptr_t)&entries->entries[(uint32_t)hash_mix(key) & entries->mask]);
    } else if (key < entries->bound) {
        __builtin_prefetch((const void *)(uintptr_t)&entries->entries[key]);
    }
}

void slot_index_prefetch(const struct slot_index *index, uint64_t key) {
    const struct slot_entries *entries = entries_of(index);
    if (entries != NULL) {
        entries_prefetch(entries, key);
    }
}

/* Prefetches the key that a lookup will probably compare first. The entry must have been prefetched before. */
static inline void keys_prefetch(const struct slot_entries *entries, const uint64_t *keys, uint64_t key) {
    uint32_t place = (uint32_t)hash_mix(key) & entries->mask;
    uint32_t slot = atomic_load_explicit(&entries->entries[place], memory_order_acquire) & entries->mask;
    if (slot > 0) {
        __builtin_prefetch(&keys[slot - 1]);
    }
}

void slot_index_find_all(const struct slot_index *index, const uint64_t *keys, const uint64_t *wanted, size_t count,
                         uint32_t *slots) {
    enum { AHEAD = 16 }; /* keys between a prefetch and its use */
    const struct slot_entries *entries = entries_of(index);
    for (size_t i = 0; i < count && entries != NULL && entries->bound > 0; i++) {
        slots[i] = direct_find(entries, wanted[i]) - 1;
    }
    for (size_t i = 0; i < count && entries != NULL && entries->bound == 0; i++) {
        if (i + 2 * AHEAD < count) {
            entries_prefetch(entries, wanted[i + 2 * AHEAD]);
        }
        if (i + AHEAD < count) {
            keys_prefetch(entries, keys, wanted[i + AHEAD]);
        }
        slots[i] = hashed_find(entries, keys, wanted[i]) - 1;
    }
    for (size_t i = 0; i < count && entries == NULL; i++) {
        slots[i] = SLOT_INDEX_NONE;
    }
}

/* ---- Additions ---- */

static void entries_place(struct slot_entries *entries, uint64_t key, uint32_t slot) {
    if (entries->bound > 0) {
        assert(key < entries->bound);
        atomic_store_explicit(&entries->entries[key], slot + 1, memory_order_release);
        return;
    }
    const uint64_t hash = hash_mix(key);
    uint32_t at = (uint32_t)hash & entries->mask;
    while (atomic_load_explicit(&entries->entries[at], memory_order_relaxed) != 0) {
        at = (at + 1) & entries->mask;
    }
    uint32_t tag = (uint32_t)(hash >> 32) & ~entries->mask;
    atomic_store_explicit(&entries->entries[at], tag | (slot + 1), memory_order_release);
}

/* Returns entries for twice as many slots. The caller must keep the old entries. */
static struct slot_entries *entries_grown(const struct slot_index *index, const struct slot_entries *old,
                                          const uint64_t *keys) {
    uint64_t capacity = old != NULL ? 2 * ((uint64_t)old->mask + 1) : CAPACITY_MIN;
    bool direct = index->bound > 0 && index->bound <= capacity * SLOT_INDEX_DIRECT;
    struct slot_entries head = {.mask = (uint32_t)(capacity - 1), .bound = direct ? index->bound : 0};
    struct slot_entries *grown = memory_zeroed(1, entries_bytes(&head));
    grown->mask = head.mask;
    grown->bound = head.bound;
    for (uint32_t slot = 0; slot < index->count; slot++) {
        entries_place(grown, keys[slot], slot);
    }
    return grown;
}

void slot_index_bound(struct slot_index *index, uint64_t bound) {
    assert(entries_of(index) == NULL);
    index->bound = bound;
}

void slot_index_add_shared(struct slot_index *index, const uint64_t *keys) {
    struct slot_entries *entries = entries_of(index);
    assert(index->count < SLOT_INDEX_MAX);
    if (entries == NULL ||
        (entries->bound == 0 && (uint64_t)(index->count + 1) * 4 > ((uint64_t)entries->mask + 1) * 3)) {
        struct slot_entries *old = entries;
        entries = entries_grown(index, old, keys);
        if (old != NULL) {
            old->outgrown = index->outgrown;
            index->outgrown = old;
        }
        atomic_store_explicit(&index->entries, entries, memory_order_release);
    }
    entries_place(entries, keys[index->count], index->count);
    index->count++;
}

void slot_index_trim(struct slot_index *index) {
    while (index->outgrown != NULL) {
        struct slot_entries *entries = index->outgrown;
        index->outgrown = entries->outgrown;
        free(entries);
    }
}

void slot_index_add(struct slot_index *index, const uint64_t *keys) {
    slot_index_add_shared(index, keys);
    slot_index_trim(index);
}

void slot_index_copy(struct slot_index *copy, const struct slot_index *index) {
    const struct slot_entries *entries = entries_of(index);
    if (entries != NULL) {
        size_t bytes = entries_bytes(entries);
        struct slot_entries *copied = memory_resized(NULL, 1, bytes);
        memcpy(copied, entries, bytes);
        copied->outgrown = NULL;
        atomic_store_explicit(&copy->entries, copied, memory_order_release);
    }
    copy->count = index->count;
    copy->bound = index->bound;
}

void slot_index_close(struct slot_index *index) {
    slot_index_trim(index);
    free(entries_of(index));
    memset(index, 0, sizeof *index);
}
