/* Reads and updates rows by key. See params.h. */
#include "workers/process/params.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    PARAMS_LOCKS = 1024,
    PARAMS_SPINS = 200,          /* looks at a lock (some microseconds) before the thread yields the processor */
    PARAMS_CHUNK = 64,           /* rows that are found before the first of them is used */
    PARAMS_AHEAD = 6,            /* how many rows before its use a row is prefetched into the processor's cache */
    PARAMS_FETCHED_BYTES = 1024, /* bytes of a row that are prefetched; the processor prefetches the rest by itself */
    PARAMS_LINE_BYTES = 64
};

/* ---- Locks ---- */

/* A spin lock for a share of the rows, held for the time of a copy. Each lock has a cache line of its own, so threads
 * with different locks don't write to the same line. */
struct row_lock {
    _Alignas(PARAMS_LINE_BYTES) atomic_bool held;
};

void params_open(struct runtime *runtime) {
    const size_t bytes = PARAMS_LOCKS * sizeof *runtime->row_locks;
    if (runtime->options.threads == 1) {
        return;
    }
    runtime->row_locks = aligned_alloc(_Alignof(struct row_lock), bytes);
    if (runtime->row_locks == NULL) {
        memory_exhausted(bytes);
    }
    for (unsigned l = 0; l < PARAMS_LOCKS; l++) {
        atomic_init(&runtime->row_locks[l].held, false);
    }
}

void params_close(struct runtime *runtime) {
    free(runtime->row_locks);
    runtime->row_locks = NULL;
}

/* The lock of a row; NULL when there is only one thread. With changes_given, the rows of a partition share a lock,
 * since their changes are kept together. */
static struct row_lock *row_lock(const struct runtime *runtime, unsigned table, uint32_t slot) {
    const struct cache *cache = &runtime->node.cache;
    const struct cache_table *rows = &cache->tables[table];
    if (runtime->row_locks == NULL) {
        return NULL;
    }
    uint32_t number = rows->spec->given ? table_partition(rows->spec, cache_key(rows, slot), cache->partitions) : slot;
    /* In each table the rows with the lowest slots are used most: they get different locks in different tables. */
    number += table * (PARAMS_LOCKS / WIRE_TABLES_MAX);
    return &runtime->row_locks[number % PARAMS_LOCKS];
}

static void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void row_lock_take(struct row_lock *lock) {
    while (lock != NULL && atomic_exchange_explicit(&lock->held, true, memory_order_acquire)) {
        for (unsigned looks = 1; atomic_load_explicit(&lock->held, memory_order_relaxed); looks++) {
            if (looks % PARAMS_SPINS == 0) {
                sched_yield(); /* the holder may lack a processor */
            }
            spin_pause();
        }
    }
}

static void row_lock_leave(struct row_lock *lock) {
    if (lock != NULL) {
        atomic_store_explicit(&lock->held, false, memory_order_release);
    }
}

/* ---- Finding ---- */

/* Finds the slots of rows that are in the cache; false when one is not. */
static bool find_cached(const struct cache *cache, unsigned table, const uint64_t *keys, size_t count,
                        uint32_t *slots) {
    const struct cache_table *rows = &cache->tables[table];
    for (size_t i = 0; i < count && count > 1; i++) {
        slot_index_prefetch(&rows->index, keys[i]);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t slot = cache_find(cache, table, keys[i]);
        if (slot == INDEX_NONE || !cache_arrived(rows, (uint32_t)slot)) {
            return false;
        }
        slots[i] = (uint32_t)slot;
    }
    return true;
}

/* Finds the slots of the first rows of keys[count], at most PARAMS_CHUNK. If one of these is new, fetches all new rows
 * of keys[count]. Returns the number of slots, or a negative code. */
static int find_next(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, uint32_t *slots) {
    const struct cache *cache = &runtime->node.cache;
    size_t next = count < PARAMS_CHUNK ? count : PARAMS_CHUNK;
    int result = 0;
    while (result == 0 && !find_cached(cache, table, keys, next, slots)) {
        result = runtime_fetch(runtime, table, keys, count);
    }
    return result != 0 ? result : (int)next;
}

/* Prefetches a cache line for writing, so that other processors drop their copies now, not when the line is written.
 * The compiler's builtin is this instruction only with -mprfchw. On processors without it, the instruction does
 * nothing. */
static void prefetch_to_write(const void *line) {
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/* Prefetches a row and its lock. With `update`, prefetches what an update changes. A row that was updated in this clock
 * is prefetched for writing, even by reads: most readers update the row next. That saves a second transfer from another
 * processor. */
static void prefetch_row(const struct runtime *runtime, unsigned table, uint32_t slot, bool update) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    const unsigned char *row = update && cache_summed(rows) ? cache_sum(rows, slot) : cache_row(rows, slot);
    const struct row_lock *lock = row_lock(runtime, table, slot);
    bool updated = __atomic_load_n(&cache_marks(rows)[slot], __ATOMIC_RELAXED) != 0;
    size_t bytes = rows->stride < PARAMS_FETCHED_BYTES ? rows->stride : PARAMS_FETCHED_BYTES;
    if (lock != NULL) {
        prefetch_to_write(lock);
    }
    for (size_t at = 0; at < bytes; at += PARAMS_LINE_BYTES) {
        if (updated) {
            prefetch_to_write(row + at);
        } else {
            __builtin_prefetch(row + at);
        }
    }
}

/* Call before the use of row i of `found`: prefetches row i + PARAMS_AHEAD; at i = 0 all rows up to that one. */
static void prefetch_ahead(const struct runtime *runtime, unsigned table, const uint32_t *slots, int i, int found,
                           bool update) {
    for (int at = i > 0 ? i + PARAMS_AHEAD : 0; at <= i + PARAMS_AHEAD && at < found; at++) {
        prefetch_row(runtime, table, slots[at], update);
    }
}

/* ---- Reading and updating ---- */

static void read_row(struct runtime *runtime, unsigned table, uint32_t slot, void *values) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    struct row_lock *lock = row_lock(runtime, table, slot);
    row_lock_take(lock);
    memcpy(values, cache_row(rows, slot), rows->spec->row_bytes);
    row_lock_leave(lock);
}

/* Marks a row for the flush. Does not write a mark that is set already: a write would take the cache line away from
 * other processors, whose threads use neighbouring marks. */
static void touch_row(const struct cache_table *rows, uint32_t slot) {
    unsigned char *touched = &cache_marks(rows)[slot];
    if (__atomic_load_n(touched, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(touched, (unsigned char)1, __ATOMIC_RELAXED);
    }
}

static void update_row(struct runtime *runtime, unsigned table, uint32_t slot, const void *delta) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    const struct table_spec *spec = rows->spec;
    struct row_lock *lock = row_lock(runtime, table, slot);
    row_lock_take(lock);
    if (spec->mode == AML_PUT) {
        memcpy(cache_row(rows, slot), delta, spec->row_bytes);
    } else {
        unsigned char *to = cache_summed(rows) ? cache_sum(rows, slot) : cache_row(rows, slot);
        rows_codec(WIRE_FULL)->add(rows->shape, to, delta, 1);
    }
    if (spec->given) {
        cache_give_row(&runtime->node.cache, table, slot, delta);
    } else {
        touch_row(rows, slot);
    }
    row_lock_leave(lock);
}

/* Copies the rows keys[count] into `values`, or, with `values` NULL, updates them by `deltas`. */
static inline int use_rows(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count,
                           unsigned char *values, const unsigned char *deltas) {
    const size_t bytes = runtime->node.cache.tables[table].spec->row_bytes;
    uint32_t slots[PARAMS_CHUNK];
    for (size_t done = 0; done < count;) {
        int found = find_next(runtime, table, keys + done, count - done, slots);
        if (found < 0) {
            return found;
        }
        for (int i = 0; i < found; i++, done++) {
            prefetch_ahead(runtime, table, slots, i, found, values == NULL);
            if (values != NULL) {
                read_row(runtime, table, slots[i], values + done * bytes);
            } else {
                update_row(runtime, table, slots[i], deltas + done * bytes);
            }
        }
    }
    return 0;
}

int params_read(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, void *values) {
    return use_rows(runtime, table, keys, count, values, NULL);
}

int params_update(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, const void *deltas) {
    return use_rows(runtime, table, keys, count, NULL, deltas);
}

void params_give(struct runtime *runtime, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                 const void *changes) {
    struct row_lock *lock = row_lock(runtime, table, slot);
    row_lock_take(lock);
    cache_give(&runtime->node.cache, table, slot, count, columns, changes);
    row_lock_leave(lock);
}
