/* The row cache of one process (docs/design.md, "Memory and copies"). It has the rows that the process's data touches,
 * which the app reads and changes in place. For each row it has the *base*: the version last received or flushed, from
 * which deltas are computed. In tables with an optimizer the app only reads rows, and beside each row is the *sum* of
 * its updates. If the servers make the steps, they get the sum in the flush, and there is no base. If this process
 * makes them (client_step), a step changes the row by the sum, and the row is flushed as a delta. Sends no messages:
 * see client.h.
 *
 * Threads. Rows are added under the caller's lock (runtime.h). Rows are found under that lock, or without it as long as
 * no row can move (cache_reserve): cache_find and cache_arrived may run beside cache_add and while a row's first state
 * arrives. The worker threads use the rows' values during a clock, the client between clocks. */
#ifndef AGILEML_WORKERS_CACHE_H
#define AGILEML_WORKERS_CACHE_H

#include "agileml/ps/table.h"

/* In place of a row's clock: its state is void, and is requested again. Above WIRE_CLOCK_MAX. */
#define CACHE_CLOCK_VOID UINT32_MAX

/* In place of a set's number: the app has used the row by key, so the row stays in use. */
#define CACHE_NAMED_ALWAYS UINT32_MAX

/* In place of a slot: the key has none. */
#define CACHE_SLOT_NONE SLOT_INDEX_NONE

enum {
    CACHE_AHEAD = 4,            /* how many rows before its use a row is prefetched into the processor's cache */
    CACHE_FETCHED_BYTES = 1024, /* of a row that are prefetched */
    CACHE_LINE_BYTES = 64
};

struct cache_table {
    const struct table_spec *spec;
    const struct row_shape *shape; /* the job's */
    uint32_t count;                /* stored atomically, as cache_find reads it without the lock in replicated tables */
    uint32_t capacity;             /* so many slots fit without moving rows */
    size_t stride;                 /* bytes from row to row in `rows` and `base`: row_bytes rounded up to 16 */
    struct arena rows;             /* as the app sees them */
    struct arena base; /* only with cache_based: the rows as last received or flushed. With a rounding encoding the base
                          is what was sent, and rows - base is what rounding has left unsent */
    struct arena sums; /* only with cache_summed: the sums of updates, with what rounding has left unsent */
    struct arena touched; /* a byte per slot: the row, or its sum for the servers, was changed since the last flush */
    struct arena
        shares; /* only with shares, so many floats per slot: what part of the row's change is flushed; 0: all */
    struct arena updated; /* only with table_steps_locally, a byte per slot: the sum was changed since the last step */
    struct arena given;   /* with changes_given, a byte per slot: changes were given since the last flush */
    struct arena keys;    /* uint64_t per slot */
    struct arena named;   /* uint32_t per slot: the highest number of a set of data that names the row; 0: not in use */
    struct arena stamps;  /* uint32_t per slot: number of the push that wrote the row last; 0: no state */
    struct arena clocks;  /* uint32_t per slot: the clock of that push, or CACHE_CLOCK_VOID */
    struct arena arrived; /* a byte per slot: the row has its first state with all own updates, which are added after
                             the stamp is set; see cache_arrived */
    struct slot_index index; /* of `keys`; unused for replicated tables */
};

/* The slots of one table in one partition that are in use, in the order in which they were added. */
struct cache_list {
    uint32_t *slots;
    uint32_t count, capacity;
};

/* The changes of one table with changes_given in one partition since the last flush: a list of entries, each a uint32_t
 * slot and a row as WIRE_SPARSE. Entries of the same slot are summed now and then, so the list takes at most about four
 * times as much memory as the sums. */
struct cache_changes {
    struct arena bytes; /* as it grows without copying, malloc's heap gets no holes */
    size_t size, capacity;
    uint32_t rows;  /* entries */
    uint32_t slots; /* different slots in them */
};

struct cache {
    const struct job *job;
    uint32_t partitions;
    struct cache_table tables[WIRE_TABLES_MAX];
    struct cache_list *lists;      /* partitions x table_count */
    struct cache_changes *changes; /* partitions x table_count */
};

void cache_open(struct cache *cache, const struct job *job, uint32_t partitions);
void cache_close(struct cache *cache);

/* Makes room for `capacity` slots in all; until they are used up, adding moves no row. */
int cache_reserve(struct cache *cache, unsigned table, uint64_t capacity);

/* The slot of a key, or INDEX_NONE. */
int64_t cache_find(const struct cache *cache, unsigned table, uint64_t key);
/* Sets slots[i] to the slot of keys[i], or to CACHE_SLOT_NONE. */
void cache_find_all(const struct cache *cache, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count);
/* Frees old versions of the indices, which cache_find may read while rows are added. Call it when no thread finds rows
 * without the lock. */
void cache_trim(struct cache *cache);
/* Returns the slot of a key, and marks the row as in use for good. A new row is added: zeros, not subscribed to; in a
 * replicated table together with all other rows. AML_EINPUT beyond a dense table's rows, AML_ELIMIT when there is no
 * room. */
int64_t cache_add(struct cache *cache, unsigned table, uint64_t key);
/* cache_add for a row that a set of data names; numbers of sets count from 1. The row is in use until cache_forget. */
int64_t cache_add_for(struct cache *cache, unsigned table, uint64_t key, uint32_t set);
/* cache_add_for for a row that has a slot. */
void cache_use(struct cache *cache, unsigned table, uint32_t slot, uint32_t set);
/* Ends the use of the rows of one partition and table that only sets below `oldest` named: they leave the list and lose
 * their state. A row keeps its slot, for when it is added again. Returns the number of rows. */
uint32_t cache_forget(struct cache *cache, uint32_t partition, unsigned table, uint32_t oldest);

/* Add changes of a row of a table with changes_given. cache_give: of the elements columns[count], ascending.
 * cache_give_row: of all elements. Only one thread at a time may call them for rows of the same partition. */
void cache_give(struct cache *cache, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                const void *changes);
void cache_give_row(struct cache *cache, unsigned table, uint32_t slot, const void *changes);

/* Takes the changes out of the cache: for each slot with changes their sum, a row as WIRE_SPARSE. Fills
 * slots[cache_changes()->slots]. The caller drops the returned buffer. */
struct buffer *cache_take_changes(struct cache *cache, uint32_t partition, unsigned table, uint32_t *slots);

static inline struct cache_changes *cache_changes(const struct cache *cache, uint32_t partition, unsigned table) {
    return &cache->changes[(size_t)partition * cache->job->table_count + table];
}
static inline struct cache_list *cache_list(const struct cache *cache, uint32_t partition, unsigned table) {
    return &cache->lists[(size_t)partition * cache->job->table_count + table];
}
static inline unsigned char *cache_row(const struct cache_table *table, uint32_t slot) {
    return table->rows.base + slot * table->stride;
}
static inline unsigned char *cache_base(const struct cache_table *table, uint32_t slot) {
    return table->base.base + slot * table->stride;
}
/* Call before the use of row i of slots[count]: prefetches the row CACHE_AHEAD places later, and its base or sum. The
 * processor can't predict the next row of a partition, since these are scattered over the cache. It does predict
 * consecutive rows, and all but the first lines of a long row. */
static inline void cache_prefetch(const struct cache_table *table, const uint32_t *slots, uint32_t i, uint32_t count) {
    if (count - i <= CACHE_AHEAD || slots[i + CACHE_AHEAD] == slots[i] + CACHE_AHEAD) {
        return;
    }
    size_t bytes = table->stride < CACHE_FETCHED_BYTES ? table->stride : CACHE_FETCHED_BYTES;
    const unsigned char *beside = table->base.base != NULL ? table->base.base : table->sums.base;
    for (size_t at = 0; at < bytes; at += CACHE_LINE_BYTES) {
        __builtin_prefetch(cache_row(table, slots[i + CACHE_AHEAD]) + at, 1);
        if (beside != NULL) {
            __builtin_prefetch(beside + slots[i + CACHE_AHEAD] * table->stride + at, 1);
        }
    }
}
/* Whether a row's changes are found by comparison with its base. */
static inline bool cache_based(const struct cache_table *table) {
    return table->spec->mode == AML_ADD && !table->spec->given && !table_stepped(table->spec);
}
/* Whether the app's updates are kept beside the row, as their sum. */
static inline bool cache_summed(const struct cache_table *table) {
    return table_optimized(table->spec);
}
static inline unsigned char *cache_sum(const struct cache_table *table, uint32_t slot) {
    return table->sums.base + slot * table->stride;
}
/* Returns the bytes, one per slot, in which the app marks what it has changed. */
static inline unsigned char *cache_marks(const struct cache_table *table) {
    return table_steps_locally(table->spec) ? table->updated.base : table->touched.base;
}
static inline uint32_t *cache_named(const struct cache_table *table) {
    return (uint32_t *)(void *)table->named.base;
}
static inline uint32_t *cache_stamps(const struct cache_table *table) {
    return (uint32_t *)(void *)table->stamps.base;
}
static inline uint32_t *cache_clocks(const struct cache_table *table) {
    return (uint32_t *)(void *)table->clocks.base;
}
/* Whether the row has a state. If so, the calling thread sees that state, even without the lock. */
static inline bool cache_arrived(const struct cache_table *table, uint32_t slot) {
    return __atomic_load_n(&table->arrived.base[slot], __ATOMIC_ACQUIRE) != 0;
}
static inline void cache_set_arrived(const struct cache_table *table, uint32_t slot, bool arrived) {
    __atomic_store_n(&table->arrived.base[slot], (unsigned char)arrived, __ATOMIC_RELEASE);
}
static inline const uint64_t *cache_keys(const struct cache_table *table) {
    return (const uint64_t *)(const void *)table->keys.base;
}
static inline uint64_t cache_key(const struct cache_table *table, uint32_t slot) {
    return cache_keys(table)[slot];
}

#endif
