/* The row cache of one process: the rows its data touches, as the app reads and changes them in place, and the
 * version last received or flushed that deltas are taken against (DESIGN section 4). No messages: client.h.
 *
 * Threads: rows are added under the caller's lock (runtime.c). They are found under it too, or without it as long as no
 * row can move (cache_reserve): cache_find and cache_arrived may run beside cache_add and beside a row's first state.
 * Rows' values belong to the worker threads during a clock and to the client between clocks. */
#ifndef AGILEML_WORKERS_CACHE_H
#define AGILEML_WORKERS_CACHE_H

#include "agileml/ps/table.h"

/* In place of a row's clock: its state is not to be gone by any more and is asked for again. Above WIRE_CLOCK_MAX. */
#define CACHE_CLOCK_VOID UINT32_MAX

/* In place of a set's number: the app named the row itself, so it stays in use. */
#define CACHE_NAMED_ALWAYS UINT32_MAX

struct cache_table {
    const struct table_spec *spec;
    const struct row_shape *shape; /* the job's */
    uint32_t count;       /* stored atomically: in replicated tables it is what cache_find goes by */
    uint32_t capacity;    /* slots that fit without moving anything */
    size_t stride;        /* bytes from row to row in `rows` and `base`: row_bytes rounded up to 16 */
    struct arena rows;    /* what the app sees */
    struct arena base;    /* cache_based: the rows when they were last received or flushed; of rounded ones plus what
                             was sent since: rows - base is what was not */
    struct arena touched; /* a byte per slot: changed since the last flush */
    struct arena given;   /* given tables: a byte per slot: changes were given since the last flush */
    struct arena keys;    /* uint64_t per slot */
    struct arena named;   /* uint32_t per slot: the highest number of a set of data that names it; 0: not in use */
    struct arena stamps;  /* uint32_t per slot: which push wrote it last (client.c), 0: it has no state ... */
    struct arena clocks;  /* uint32_t per slot: ... and the clock of that push, or CACHE_CLOCK_VOID */
    struct arena arrived; /* a byte per slot: its first state stands in the row, own updates included, which are added
                             after the stamp is set; see cache_arrived */
    struct index_map index; /* key -> slot; not for whole tables */
};

/* Slots of one table in one partition that are in use, in the order in which they were added. */
struct cache_list {
    uint32_t *slots;
    uint32_t count, capacity;
};

/* The changes of one given table in one partition since the last flush: uint32_t slot and a row as WIRE_SPARSE, again
 * and again. A slot's may be summed before that: they take about four times as much as their sums at the most. */
struct cache_changes {
    unsigned char *bytes;
    size_t size, capacity;
    uint32_t rows;  /* as many are there ... */
    uint32_t slots; /* ... of so many slots */
};

struct cache {
    const struct job *job;
    uint32_t partitions;
    struct cache_table tables[WIRE_TABLES_MAX];
    struct cache_list *lists;      /* partitions x table_count */
    struct cache_changes *changes; /* likewise */
};

void cache_open(struct cache *cache, const struct job *job, uint32_t partitions);
void cache_close(struct cache *cache);

/* Makes room for `capacity` slots in all: until then adding moves no row. */
int cache_reserve(struct cache *cache, unsigned table, uint64_t capacity);

/* The slot of a key, or INDEX_NONE. */
int64_t cache_find(const struct cache *cache, unsigned table, uint64_t key);
/* Frees what cache_find may have been reading while rows were added: nobody finds rows without the lock now. */
void cache_trim(struct cache *cache);
/* The slot of a key, added when new (zeroed, not yet subscribed; in a whole table with all other rows), and in use from
 * now on. AML_EINPUT beyond a dense table's rows, AML_ELIMIT when there is no room. */
int64_t cache_add(struct cache *cache, unsigned table, uint64_t key);
/* The same for a row that the set of data with this number, from 1, names: in use until cache_forget. */
int64_t cache_add_for(struct cache *cache, unsigned table, uint64_t key, uint32_t set);
/* The same for a row that has a slot. */
void cache_use(struct cache *cache, unsigned table, uint32_t slot, uint32_t set);
/* Rows of one partition and table that only sets below `oldest` named are in use no more: they leave the list and have
 * no state. A row keeps its slot, for when it is added again. Returns how many. */
uint32_t cache_forget(struct cache *cache, uint32_t partition, unsigned table, uint32_t oldest);

/* Keeps what was changed in a row of a given table: elements columns[count], ascending; cache_give_row: all of them.
 * Callers see to it that nobody else does so in the same partition at the same time. */
void cache_give(struct cache *cache, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                const void *changes);
void cache_give_row(struct cache *cache, unsigned table, uint32_t slot, const void *changes);

/* Takes the changes away, of a slot that has some one row as WIRE_SPARSE: their sum. slots[cache_changes()->slots] are
 * filled; the rows are the caller's to drop. */
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
/* Whether changes are found by comparing a row with its base. */
static inline bool cache_based(const struct cache_table *table) {
    return table->spec->mode == AML_ADD && !table->spec->given;
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
/* Whether the row has a state. The thread that finds it so sees that state, without the lock too. */
static inline bool cache_arrived(const struct cache_table *table, uint32_t slot) {
    return __atomic_load_n(&table->arrived.base[slot], __ATOMIC_ACQUIRE) != 0;
}
static inline void cache_set_arrived(const struct cache_table *table, uint32_t slot, bool arrived) {
    __atomic_store_n(&table->arrived.base[slot], (unsigned char)arrived, __ATOMIC_RELEASE);
}
static inline uint64_t cache_key(const struct cache_table *table, uint32_t slot) {
    return ((const uint64_t *)(const void *)table->keys.base)[slot];
}

#endif
