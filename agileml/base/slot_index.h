/* Finds rows by key: a map from the 64-bit keys of an array to their places in it, the slots. The array belongs to
 * the caller, who passes it as `keys`: keys[slot] is the slot's key. So the map itself takes 6 to 11 bytes a row.
 * Not for hostile keys.
 *
 * Threads: lookups may run in parallel. slot_index_add_shared may run beside them, in one thread at a time; every other
 * function needs the index to itself. */
#ifndef AGILEML_BASE_SLOT_INDEX_H
#define AGILEML_BASE_SLOT_INDEX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct slot_entries;

/* Returned in place of a slot when the array has no such key. */
#define SLOT_INDEX_NONE UINT32_MAX

/* The most slots that can be added. */
enum { SLOT_INDEX_MAX = 1 << 30 };

/* Open addressing with linear probing, at most 3/4 full. With bounded keys (slot_index_bound) it becomes an array
 * indexed by key, once that array is at most SLOT_INDEX_DIRECT times as long as the hash table. A zeroed struct is
 * an empty index. */
struct slot_index {
    uint32_t count;                         /* slots: 0 .. count - 1 */
    _Atomic(struct slot_entries *) entries; /* NULL: empty */
    struct slot_entries *outgrown; /* old entries that lookups may still be reading; each points to the one before */
    uint64_t bound;                /* 0: none */
};

enum { SLOT_INDEX_DIRECT = 4 };

/* Promises that all keys added to the empty index will be below `bound`. Lookups may use any key. */
void slot_index_bound(struct slot_index *index, uint64_t bound);

/* Returns the slot of `key`, or INDEX_NONE (hash.h). */
int64_t slot_index_find(const struct slot_index *index, const uint64_t *keys, uint64_t key);
/* Sets slots[i] to the slot of wanted[i], or to SLOT_INDEX_NONE. */
void slot_index_find_all(const struct slot_index *index, const uint64_t *keys, const uint64_t *wanted, size_t count,
                         uint32_t *slots);
/* Prefetches what slot_index_find(key) will read first. */
void slot_index_prefetch(const struct slot_index *index, uint64_t key);
/* Adds the next slot, index->count. Its key, keys[index->count], is new. */
void slot_index_add(struct slot_index *index, const uint64_t *keys);
/* Adds the next slot while other threads look up keys. A lookup finds either nothing or the slot; a thread that
 * finds it also sees everything that this thread wrote before. Outgrown entries stay allocated until
 * slot_index_trim, and at most double the index's memory. */
void slot_index_add_shared(struct slot_index *index, const uint64_t *keys);
void slot_index_trim(struct slot_index *index);
/* Makes `copy`, which is zeroed, equal to `index`. */
void slot_index_copy(struct slot_index *copy, const struct slot_index *index);
void slot_index_close(struct slot_index *index);

#endif
