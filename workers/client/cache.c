/* The row cache of one process. See cache.h. */
#include "workers/client/cache.h"

#include "agileml/wire/sparse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_ROW_ALIGNMENT = 16 };

void cache_open(struct cache *cache, const struct job *job, uint32_t partitions) {
    *cache = (struct cache){.job = job, .partitions = partitions};
    cache->lists = memory_zeroed((size_t)partitions * job->table_count, sizeof *cache->lists);
    cache->changes = memory_zeroed((size_t)partitions * job->table_count, sizeof *cache->changes);
    for (unsigned t = 0; t < job->table_count; t++) {
        struct cache_table *table = &cache->tables[t];
        table->spec = &job->tables[t];
        struct arena *arenas[] = {&table->rows, &table->keys, &table->named, &table->stamps, &table->clocks};
        for (unsigned a = 0; a < sizeof arenas / sizeof *arenas; a++) {
            arenas[a]->files = table->spec->files;
        }
        table->shape = &job->shapes[t];
        size_t room = (size_t)table->spec->row_bytes + table->spec->row_guard;
        slot_index_bound(&table->index, table->spec->rows);
        table->stride = (room + CACHE_ROW_ALIGNMENT - 1) / CACHE_ROW_ALIGNMENT * CACHE_ROW_ALIGNMENT;
    }
}

void cache_close(struct cache *cache) {
    if (cache->job == NULL) {
        return;
    }
    for (unsigned t = 0; t < cache->job->table_count; t++) {
        struct cache_table *table = &cache->tables[t];
        arena_close(&table->rows);
        arena_close(&table->base);
        arena_close(&table->sums);
        arena_close(&table->touched);
        arena_close(&table->shares);
        arena_close(&table->updated);
        arena_close(&table->given);
        arena_close(&table->keys);
        arena_close(&table->named);
        arena_close(&table->stamps);
        arena_close(&table->clocks);
        arena_close(&table->arrived);
        slot_index_close(&table->index);
    }
    for (size_t l = 0; l < (size_t)cache->partitions * cache->job->table_count; l++) {
        free(cache->lists[l].slots);
        arena_close(&cache->changes[l].bytes);
    }
    free(cache->lists);
    free(cache->changes);
    memset(cache, 0, sizeof *cache);
}

/* Calls `make` (arena_reserve or arena_grow) for each of the table's arenas, with the bytes of so many slots. */
static int each_arena(struct cache_table *table, int (*make)(struct arena *arena, size_t bytes), size_t slots) {
    int result = make(&table->rows, slots * table->stride);
    if (result == 0 && cache_based(table)) {
        result = make(&table->base, slots * table->stride);
    }
    if (result == 0 && cache_summed(table)) {
        result = make(&table->sums, slots * table->stride);
    }
    if (result == 0 && table->spec->shares > 0) {
        result = make(&table->shares, slots * table->spec->shares * sizeof(float));
    }
    if (result == 0 && table_steps_locally(table->spec)) {
        result = make(&table->updated, slots);
    }
    if (result == 0 && table->spec->given) {
        result = make(&table->given, slots);
    }
    result = result != 0 ? result : make(&table->touched, slots);
    result = result != 0 ? result : make(&table->keys, slots * sizeof(uint64_t));
    result = result != 0 ? result : make(&table->named, slots * sizeof(uint32_t));
    result = result != 0 ? result : make(&table->stamps, slots * sizeof(uint32_t));
    result = result != 0 ? result : make(&table->clocks, slots * sizeof(uint32_t));
    return result != 0 ? result : make(&table->arrived, slots);
}

int cache_reserve(struct cache *cache, unsigned table_number, uint64_t capacity) {
    struct cache_table *table = &cache->tables[table_number];
    if (capacity > TABLE_SLOTS_MAX) {
        return AML_ELIMIT;
    }
    if (capacity <= table->capacity) {
        return 0;
    }
    int result = each_arena(table, table->spec->whole ? arena_grow : arena_reserve, (size_t)capacity);
    if (result == 0) {
        table->capacity = (uint32_t)capacity;
    }
    return result;
}

int64_t cache_find(const struct cache *cache, unsigned table_number, uint64_t key) {
    const struct cache_table *table = &cache->tables[table_number];
    if (table->spec->whole) {
        return key < __atomic_load_n(&table->count, __ATOMIC_ACQUIRE) ? (int64_t)key : INDEX_NONE;
    }
    return slot_index_find(&table->index, cache_keys(table), key);
}

void cache_find_all(const struct cache *cache, unsigned table_number, const uint64_t *keys, uint32_t *slots,
                    size_t count) {
    const struct cache_table *table = &cache->tables[table_number];
    if (!table->spec->whole) {
        slot_index_find_all(&table->index, cache_keys(table), keys, count, slots);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t slot = cache_find(cache, table_number, keys[i]);
        slots[i] = slot == INDEX_NONE ? CACHE_SLOT_NONE : (uint32_t)slot;
    }
}

void cache_trim(struct cache *cache) {
    for (unsigned t = 0; t < cache->job->table_count; t++) {
        slot_index_trim(&cache->tables[t].index);
    }
}

/* Adds a row behind the others, where there must be room. The row is not in use yet: see cache_use. */
static uint32_t add_slot(struct cache *cache, unsigned table_number, uint64_t key) {
    struct cache_table *table = &cache->tables[table_number];
    uint32_t slot = table->count;
    assert(slot < table->capacity);
    ((uint64_t *)(void *)table->keys.base)[slot] = key;
    __atomic_store_n(&table->count, slot + 1, __ATOMIC_RELEASE);
    if ((slot & (slot + 1)) == 0) { /* each time the number of rows has doubled */
        each_arena(table, arena_grow, (size_t)slot + 1);
    }
    return slot;
}

void cache_use(struct cache *cache, unsigned table_number, uint32_t slot, uint32_t set) {
    const struct cache_table *table = &cache->tables[table_number];
    uint32_t *named = &cache_named(table)[slot];
    if (*named == 0) {
        uint32_t partition = table_partition(table->spec, cache_key(table, slot), cache->partitions);
        struct cache_list *list = cache_list(cache, partition, table_number);
        if (list->count == list->capacity) {
            list->capacity = list->capacity > 0 ? 2 * list->capacity : 64;
            list->slots = memory_resized(list->slots, list->capacity, sizeof *list->slots);
        }
        list->slots[list->count++] = slot;
    }
    *named = set > *named ? set : *named;
}

/* Returns the slot of a key, and makes one for a new key. */
static int64_t slot_of(struct cache *cache, unsigned table_number, uint64_t key) {
    struct cache_table *table = &cache->tables[table_number];
    int64_t found = cache_find(cache, table_number, key);
    if (found != INDEX_NONE) {
        return found;
    }
    if (table->spec->rows > 0 && key >= table->spec->rows) {
        return AML_EINPUT;
    }
    uint64_t wanted = table->capacity > 0 ? 2 * (uint64_t)table->capacity : 1024;
    int result = table->spec->whole ? cache_reserve(cache, table_number, table->spec->rows) : 0;
    if (result == 0 && table->count == table->capacity) {
        result = cache_reserve(cache, table_number, wanted);
    }
    if (result != 0) {
        return result;
    }
    if (table->spec->whole) {
        for (uint64_t k = 0; k < table->spec->rows; k++) {
            cache_use(cache, table_number, add_slot(cache, table_number, k), CACHE_NAMED_ALWAYS);
        }
        assert(table->count == table->spec->rows);
        return (int64_t)key;
    }
    uint32_t slot = add_slot(cache, table_number, key);
    slot_index_add_shared(&table->index, cache_keys(table));
    assert(table->index.count == table->count);
    return slot;
}

int64_t cache_add_for(struct cache *cache, unsigned table, uint64_t key, uint32_t set) {
    int64_t slot = slot_of(cache, table, key);
    if (slot >= 0) {
        cache_use(cache, table, (uint32_t)slot, set);
    }
    return slot;
}

int64_t cache_add(struct cache *cache, unsigned table, uint64_t key) {
    return cache_add_for(cache, table, key, CACHE_NAMED_ALWAYS);
}

uint32_t cache_forget(struct cache *cache, uint32_t partition, unsigned table_number, uint32_t oldest) {
    const struct cache_table *table = &cache->tables[table_number];
    struct cache_list *list = cache_list(cache, partition, table_number);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t slot = list->slots[i];
        if (cache_named(table)[slot] >= oldest) {
            list->slots[kept++] = slot;
        } else {
            cache_named(table)[slot] = 0;
            cache_stamps(table)[slot] = 0;
            cache_set_arrived(table, slot, false);
        }
    }
    uint32_t forgotten = list->count - kept;
    list->count = kept;
    return forgotten;
}

/* ---- Given changes ---- */

struct given_row {
    uint32_t slot;
    size_t at; /* place of the row in cache_changes.bytes */
};

static int given_order(const void *one, const void *other) {
    const struct given_row *a = one;
    const struct given_row *b = other;
    return a->slot != b->slot ? (a->slot > b->slot ? 1 : -1) : (a->at > b->at) - (a->at < b->at);
}

/* Lists the given rows in the order of their slots. */
static struct given_row *given_rows(const struct cache_changes *changes, const struct table_spec *spec) {
    struct given_row *rows = memory_resized(NULL, changes->rows, sizeof *rows);
    size_t at = 0;
    for (uint32_t i = 0; i < changes->rows; i++) {
        memcpy(&rows[i].slot, changes->bytes.base + at, sizeof rows[i].slot);
        rows[i].at = at + sizeof rows[i].slot;
        at = rows[i].at + sparse_bytes(spec->row_bytes / spec->width, changes->bytes.base + rows[i].at, spec->width);
    }
    assert(at == changes->size);
    qsort(rows, changes->rows, sizeof *rows, given_order);
    return rows;
}

/* Writes the sum of rows[count], all of one slot, to `to`. Returns the sum's size, at most that of the rows. */
static size_t given_sum(const struct cache_changes *changes, const struct table_spec *spec,
                        const struct given_row *rows, uint32_t count, unsigned char *to) {
    const uint32_t element_bytes = spec->row_bytes / spec->width;
    if (count == 1) {
        size_t bytes = sparse_bytes(element_bytes, changes->bytes.base + rows->at, spec->width);
        memcpy(to, changes->bytes.base + rows->at, bytes);
        return bytes;
    }
    unsigned char *sum = memory_zeroed(2, spec->row_bytes);
    unsigned char *written = memory_resized(NULL, sparse_most(spec->width, element_bytes), 1);
    for (uint32_t i = 0; i < count; i++) {
        sparse_add(element_bytes, sum, changes->bytes.base + rows[i].at, spec->width);
    }
    size_t bytes = sparse_delta(element_bytes, written, sum, sum + spec->row_bytes, spec->width, false);
    memcpy(to, written, bytes);
    free(sum);
    free(written);
    return bytes;
}

/* Sums the entries of each slot, so that each slot has one entry. */
static void changes_sum(struct cache_changes *changes, const struct table_spec *spec) {
    if (changes->rows == changes->slots) {
        return;
    }
    struct given_row *rows = given_rows(changes, spec);
    unsigned char *sums = memory_resized(NULL, changes->size, 1);
    size_t size = 0;
    uint32_t summed = 0;
    for (uint32_t i = 0, end; i < changes->rows; i = end) {
        for (end = i + 1; end < changes->rows && rows[end].slot == rows[i].slot;) {
            end++;
        }
        memcpy(sums + size, &rows[i].slot, sizeof rows[i].slot);
        size += sizeof rows[i].slot;
        size += given_sum(changes, spec, rows + i, end - i, sums + size);
        summed++;
    }
    assert(summed == changes->slots && size <= changes->size);
    memcpy(changes->bytes.base, sums, size);
    changes->size = size;
    changes->rows = summed;
    free(rows);
    free(sums);
}

struct buffer *cache_take_changes(struct cache *cache, uint32_t partition, unsigned table_number, uint32_t *slots) {
    const struct cache_table *table = &cache->tables[table_number];
    struct cache_changes *changes = cache_changes(cache, partition, table_number);
    changes_sum(changes, table->spec);
    struct buffer *values = buffer_new(changes->size - changes->rows * sizeof *slots);
    const unsigned char *row = changes->bytes.base;
    unsigned char *value = values->data;
    for (uint32_t i = 0; i < changes->rows; i++) {
        memcpy(&slots[i], row, sizeof *slots);
        row += sizeof *slots;
        size_t bytes = sparse_bytes(table->spec->row_bytes / table->spec->width, row, table->spec->width);
        memcpy(value, row, bytes);
        row += bytes;
        value += bytes;
        table->given.base[slots[i]] = 0;
    }
    assert(row == changes->bytes.base + changes->size && (size_t)(value - values->data) == values->size);
    if (changes->size < changes->capacity / 4) { /* earlier clocks changed much more than this one: free the memory */
        arena_close(&changes->bytes);
        *changes = (struct cache_changes){0};
    }
    changes->size = 0;
    changes->rows = changes->slots = 0;
    return values;
}

/* Makes room for so many bytes more. If slots have many entries, sums these first, so that memory depends on the number
 * of changed rows and not on the number of changes. */
static void changes_grow(struct cache_changes *changes, const struct table_spec *spec, size_t room) {
    if (changes->rows / 2 >= changes->slots) {
        changes_sum(changes, spec);
    }
    if (changes->size + room > changes->capacity / 2) { /* else the sums have made enough room */
        changes->capacity = 2 * changes->capacity + room;
        if (arena_reserve(&changes->bytes, changes->capacity) != 0) {
            memory_exhausted(changes->capacity);
        }
    }
    assert(changes->size + room <= changes->capacity && changes->slots <= changes->rows);
}

/* Begins an entry for this slot. The caller appends the row, of at most `room` bytes, and adds its size. */
static struct cache_changes *changes_begin(struct cache *cache, unsigned table_number, uint32_t slot, size_t room) {
    const struct cache_table *table = &cache->tables[table_number];
    uint32_t partition = table_partition(table->spec, cache_key(table, slot), cache->partitions);
    struct cache_changes *changes = cache_changes(cache, partition, table_number);
    if (changes->size + sizeof slot + room > changes->capacity) {
        changes_grow(changes, table->spec, sizeof slot + room);
    }
    changes->rows++;
    changes->slots += table->given.base[slot] == 0 ? 1 : 0;
    table->given.base[slot] = 1;
    memcpy(changes->bytes.base + changes->size, &slot, sizeof slot);
    changes->size += sizeof slot;
    return changes;
}

void cache_give(struct cache *cache, unsigned table_number, uint32_t slot, uint32_t count, const uint32_t *columns,
                const void *values) {
    const struct table_spec *spec = cache->tables[table_number].spec;
    uint32_t element_bytes = spec->row_bytes / spec->width;
    size_t entries = sizeof(uint32_t) + count * (sizeof(uint32_t) + (size_t)element_bytes);
    size_t most = sparse_most(spec->width, element_bytes);
    struct cache_changes *changes = changes_begin(cache, table_number, slot, entries < most ? entries : most);
    changes->size +=
        sparse_write(element_bytes, changes->bytes.base + changes->size, spec->width, count, columns, values);
}

void cache_give_row(struct cache *cache, unsigned table_number, uint32_t slot, const void *values) {
    const struct table_spec *spec = cache->tables[table_number].spec;
    size_t most = sparse_most(spec->width, spec->row_bytes / spec->width);
    struct cache_changes *changes = changes_begin(cache, table_number, slot, most);
    memcpy(changes->bytes.base + changes->size, &(uint32_t){SPARSE_ALL}, sizeof(uint32_t));
    memcpy(changes->bytes.base + changes->size + sizeof(uint32_t), values, spec->row_bytes);
    changes->size += most;
}
