/* See params.h. */
#include "workers/params.h"

#include <stdlib.h>
#include <string.h>

enum {
    PARAMS_LOCKS = 1024,
    PARAMS_CHUNK = 64,           /* rows that are found before the first of them is used */
    PARAMS_AHEAD = 3,            /* so many rows before it is used a row is fetched into the processor's cache ... */
    PARAMS_FETCHED_BYTES = 1024, /* ... the first of its bytes: after those the processor does so by itself */
    PARAMS_LINE_BYTES = 64
};

/* ---- Locks ---- */

/* Guards the rows that fall to it. Threads that take different locks don't write to the same line of a cache. */
struct row_lock {
    _Alignas(PARAMS_LINE_BYTES) pthread_mutex_t mutex;
};

void params_open(struct runtime *runtime) {
    pthread_mutexattr_t attributes;
    if (runtime->options.threads == 1) {
        return;
    }
    const size_t bytes = PARAMS_LOCKS * sizeof *runtime->row_locks;
    runtime->row_locks = aligned_alloc(_Alignof(struct row_lock), bytes);
    if (runtime->row_locks == NULL) {
        memory_exhausted(bytes);
    }
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes,
                              PTHREAD_MUTEX_ADAPTIVE_NP); /* a row is held for less than a thread's sleep */
    for (unsigned l = 0; l < PARAMS_LOCKS; l++) {
        pthread_mutex_init(&runtime->row_locks[l].mutex, &attributes);
    }
    pthread_mutexattr_destroy(&attributes);
}

void params_close(struct runtime *runtime) {
    for (unsigned l = 0; l < PARAMS_LOCKS && runtime->row_locks != NULL; l++) {
        pthread_mutex_destroy(&runtime->row_locks[l].mutex);
    }
    free(runtime->row_locks);
    runtime->row_locks = NULL;
}

/* Which lock guards a row. Given changes of one partition are kept together, so its rows share a lock. */
static pthread_mutex_t *row_mutex(struct runtime *runtime, unsigned table, uint32_t slot) {
    const struct cache *cache = &runtime->node.cache;
    const struct cache_table *rows = &cache->tables[table];
    uint32_t number = rows->spec->given ? table_partition(rows->spec, cache_key(rows, slot), cache->partitions) : slot;
    number += table * (PARAMS_LOCKS / WIRE_TABLES_MAX); /* rows that were first seen are most used, in each table */
    return &runtime->row_locks[number % PARAMS_LOCKS].mutex;
}

/* Locks a row if there is anybody else who may use it; else NULL. */
static pthread_mutex_t *row_lock(struct runtime *runtime, unsigned table, uint32_t slot) {
    pthread_mutex_t *mutex = runtime->row_locks != NULL ? row_mutex(runtime, table, slot) : NULL;
    if (mutex != NULL) {
        pthread_mutex_lock(mutex);
    }
    return mutex;
}

static void row_unlock(pthread_mutex_t *mutex) {
    if (mutex != NULL) {
        pthread_mutex_unlock(mutex);
    }
}

/* ---- Finding ---- */

/* Finds the slots of rows that are in the cache; false when one is not. */
static bool find_cached(const struct cache *cache, unsigned table, const uint64_t *keys, size_t count,
                        uint32_t *slots) {
    const struct cache_table *rows = &cache->tables[table];
    for (size_t i = 0; i < count && count > 1; i++) {
        index_map_prefetch(&rows->index, keys[i]);
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

/* Finds the slots of the next rows, keys[count] or fewer, and has all of keys[count] fetched that are not there. Returns
 * how many were found, at most PARAMS_CHUNK, or a negative code. */
static int find_next(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, uint32_t *slots) {
    const struct cache *cache = &runtime->node.cache;
    size_t next = count < PARAMS_CHUNK ? count : PARAMS_CHUNK;
    int result = 0;
    while (result == 0 && !find_cached(cache, table, keys, next, slots)) {
        result = runtime_fetch(runtime, table, keys, count);
    }
    return result != 0 ? result : (int)next;
}

static void prefetch_row(const struct cache_table *rows, uint32_t slot) {
    const unsigned char *row = cache_row(rows, slot);
    size_t bytes = rows->stride < PARAMS_FETCHED_BYTES ? rows->stride : PARAMS_FETCHED_BYTES;
    for (size_t at = 0; at < bytes; at += PARAMS_LINE_BYTES) {
        __builtin_prefetch(row + at);
    }
}

/* ---- Reading and updating ---- */

static void read_row(struct runtime *runtime, unsigned table, uint32_t slot, void *values) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    pthread_mutex_t *mutex = row_lock(runtime, table, slot);
    memcpy(values, cache_row(rows, slot), rows->spec->row_bytes);
    row_unlock(mutex);
}

/* Marks a row for the flush. Most often it is marked already, and only read: other threads have its neighbours' marks in
 * their processors' caches. */
static void touch_row(const struct cache_table *rows, uint32_t slot) {
    unsigned char *touched = &rows->touched.base[slot];
    if (__atomic_load_n(touched, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(touched, (unsigned char)1, __ATOMIC_RELAXED);
    }
}

static void update_row(struct runtime *runtime, unsigned table, uint32_t slot, const void *delta) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    const struct table_spec *spec = rows->spec;
    pthread_mutex_t *mutex = row_lock(runtime, table, slot);
    if (spec->mode == AML_PUT) {
        memcpy(cache_row(rows, slot), delta, spec->row_bytes);
    } else {
        table_add(spec->type, cache_row(rows, slot), delta, spec->width);
    }
    if (spec->given) {
        cache_give_row(&runtime->node.cache, table, slot, delta);
    } else {
        touch_row(rows, slot);
    }
    row_unlock(mutex);
}

int params_read(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, void *values) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    uint32_t slots[PARAMS_CHUNK];
    unsigned char *row = values;
    for (size_t done = 0; done < count;) {
        int found = find_next(runtime, table, keys + done, count - done, slots);
        if (found < 0) {
            return found;
        }
        for (int i = 0; i < found; i++, row += rows->spec->row_bytes) {
            if (i + PARAMS_AHEAD < found) {
                prefetch_row(rows, slots[i + PARAMS_AHEAD]);
            }
            read_row(runtime, table, slots[i], row);
        }
        done += (size_t)found;
    }
    return 0;
}

int params_update(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count, const void *deltas) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    uint32_t slots[PARAMS_CHUNK];
    const unsigned char *delta = deltas;
    for (size_t done = 0; done < count;) {
        int found = find_next(runtime, table, keys + done, count - done, slots);
        if (found < 0) {
            return found;
        }
        for (int i = 0; i < found; i++, delta += rows->spec->row_bytes) {
            if (i + PARAMS_AHEAD < found) {
                prefetch_row(rows, slots[i + PARAMS_AHEAD]);
            }
            update_row(runtime, table, slots[i], delta);
        }
        done += (size_t)found;
    }
    return 0;
}

void params_give(struct runtime *runtime, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                 const void *changes) {
    pthread_mutex_t *mutex = row_lock(runtime, table, slot);
    cache_give(&runtime->node.cache, table, slot, count, columns, changes);
    row_unlock(mutex);
}
