/* See table.h. */
#include "agileml/ps/table.h"

#include <stdio.h>
#include <string.h>

struct table_spec table_state_spec(const struct table_spec *spec, uint32_t width) {
    struct table_spec states = {.type = spec->type,
                                .mode = AML_ADD,
                                .width = width,
                                .row_bytes = width * (uint32_t)aml_type_size(spec->type),
                                .rows = spec->rows,
                                .whole = spec->averaged && spec->whole,
                                .averaged = spec->averaged,
                                .states = true};
    snprintf(states.name, sizeof states.name, "%.*s/state", (int)(sizeof states.name - sizeof "/state"), spec->name);
    return states;
}

/* Makes room for `count` slots. New rows are zeros: the caller sets their start values. */
static int table_grow(struct table *table, uint32_t count) {
    const struct table_spec *spec = table->spec;
    table->rows.files = spec->files;
    table->clocks.files = spec->files;
    table->writers.files = spec->files;
    table->keys.files = spec->files;
    int result = arena_grow(&table->rows, (size_t)count * spec->row_bytes);
    if (result == 0) {
        result = arena_grow(&table->clocks, (size_t)count * sizeof(uint32_t));
    }
    if (result == 0 && rows_rounded(table->shape.encoding)) {
        result = arena_grow(&table->errors, (size_t)count * spec->row_bytes);
    }
    if (result == 0 && spec->mode == AML_PUT) {
        result = arena_grow(&table->writers, (size_t)count * sizeof(uint32_t));
    }
    if (result == 0 && spec->rows == 0) {
        result = arena_grow(&table->keys, (size_t)count * sizeof(uint64_t));
    }
    return result;
}

int table_open(struct table *table, const struct table_spec *spec, uint32_t partition, uint32_t partitions,
               struct error *error) {
    memset(table, 0, sizeof *table);
    table->spec = spec;
    table->shape = table_shape(spec);
    table->partition = partition;
    table->partitions = partitions;
    uint64_t slots = TABLE_SLOTS_MAX;
    if (spec->rows > 0) {
        slots = table_dense_rows(spec, partition, partitions);
        if (slots > TABLE_SLOTS_MAX) {
            return error_set(error, AML_ELIMIT, "table %s: %llu rows in %u partitions are more than %d each",
                             spec->name, (unsigned long long)spec->rows, partitions, TABLE_SLOTS_MAX);
        }
    }
    if (spec->rows > 0) {
        int result = table_grow(table, (uint32_t)slots);
        if (result != 0) {
            table_close(table);
            return error_set(error, result, "table %s: no memory for %llu rows", spec->name, (unsigned long long)slots);
        }
        table->count = (uint32_t)slots;
        for (uint32_t slot = 0; spec->start != NULL && slot < table->count; slot++) {
            spec->start(spec->context, table_key(table, slot), table_row(table, slot));
        }
    }
    return 0;
}

void table_close(struct table *table) {
    arena_close(&table->rows);
    arena_close(&table->clocks);
    arena_close(&table->errors);
    arena_close(&table->writers);
    arena_close(&table->keys);
    slot_index_close(&table->index);
    table->count = 0;
}

int table_copy(struct table *copy, const struct table *table, struct error *error) {
    *copy = (struct table){
        .spec = table->spec, .shape = table->shape, .partition = table->partition, .partitions = table->partitions};
    int result = table_grow(copy, table->count);
    if (result != 0) {
        table_close(copy);
        return error_set(error, result, "table %s: no memory for a copy of %u rows", table->spec->name, table->count);
    }
    copy->count = table->count;
    if (table->count == 0) {
        return 0;
    }
    memcpy(copy->rows.base, table->rows.base, (size_t)table->count * table->spec->row_bytes);
    memcpy(copy->clocks.base, table->clocks.base, table->count * sizeof(uint32_t));
    if (table->spec->mode == AML_PUT) {
        memcpy(copy->writers.base, table->writers.base, table->count * sizeof(uint32_t));
    }
    if (table->spec->rows == 0) {
        memcpy(copy->keys.base, table->keys.base, table->count * sizeof(uint64_t));
        slot_index_copy(&copy->index, &table->index);
    }
    return 0;
}

bool table_holds(const struct table *table, uint64_t key) {
    return table_partition(table->spec, key, table->partitions) == table->partition &&
           (table->spec->rows == 0 || key < table->spec->rows);
}

int64_t table_find(const struct table *table, uint64_t key) {
    return table->spec->rows > 0 ? (int64_t)table_dense_slot(key, table->partitions)
                                 : slot_index_find(&table->index, table_keys(table), key);
}

/* Makes a sparse row in the next free slot, for which there must be room. */
static void table_make_row(struct table *table, uint64_t key) {
    const struct table_spec *spec = table->spec;
    uint32_t slot = table->count++;
    ((uint64_t *)(void *)table->keys.base)[slot] = key;
    slot_index_add(&table->index, table_keys(table));
    if (spec->start != NULL) {
        spec->start(spec->context, key, table_row(table, slot));
    }
}

int64_t table_slot(struct table *table, uint64_t key) {
    if (!table_holds(table, key)) {
        return AML_EPROTOCOL;
    }
    int64_t found = table_find(table, key);
    if (found != INDEX_NONE) {
        return found;
    }
    if (table->count == TABLE_SLOTS_MAX) {
        return AML_ELIMIT;
    }
    uint32_t slot = table->count;
    int result = table_grow(table, slot + 1);
    if (result == 0 && table->partner != NULL) {
        result = table_grow(table->partner, slot + 1);
    }
    if (result != 0) {
        return result;
    }
    table_make_row(table, key);
    if (table->partner != NULL) {
        table_make_row(table->partner, key);
    }
    assert(table->index.count == table->count && (table->partner == NULL || table->partner->count == table->count));
    return slot;
}
