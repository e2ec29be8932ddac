/* See table.h. */
#include "agileml/ps/table.h"

#include <string.h>

/* Plain loops over restrict pointers: the compiler vectorises them, and memory is the limit. Whole numbers are
 * added as unsigned, which wraps where signed addition would be undefined. */
#define TABLE_ADD(name, type)                                                                                          \
    static void name(void *restrict target, const void *restrict source, size_t count) {                               \
        type *restrict to = target;                                                                                    \
        const type *restrict from = source;                                                                            \
        for (size_t i = 0; i < count; i++) {                                                                           \
            to[i] += from[i];                                                                                          \
        }                                                                                                              \
    }
TABLE_ADD(table_add_float32, float)
TABLE_ADD(table_add_float64, double)
TABLE_ADD(table_add_int32, uint32_t)
TABLE_ADD(table_add_int64, uint64_t)

void table_add(enum aml_type type, void *target, const void *source, size_t count) {
    switch (type) {
    case AML_FLOAT32:
        table_add_float32(target, source, count);
        break;
    case AML_FLOAT64:
        table_add_float64(target, source, count);
        break;
    case AML_INT32:
        table_add_int32(target, source, count);
        break;
    case AML_INT64:
        table_add_int64(target, source, count);
        break;
    }
}

void table_add_rows(const struct table_spec *spec, void *target, const void *source, enum wire_encoding encoding,
                    size_t rows) {
    if (encoding == WIRE_BF16) {
        bfloat16_add(target, source, rows * spec->width);
    } else {
        table_add(spec->type, target, source, rows * spec->width);
    }
}

void table_copy_rows(const struct table_spec *spec, void *target, const void *source, enum wire_encoding encoding,
                     size_t rows) {
    if (encoding == WIRE_BF16) {
        bfloat16_decode(target, source, rows * spec->width);
    } else {
        memcpy(target, source, rows * spec->row_bytes);
    }
}

/* Whether an exponent of a floating point number is all ones: then the number is infinite or none. */
#define TABLE_FINITE(name, type, exponent)                                                                             \
    static bool name(const void *source, size_t count) {                                                               \
        const type *from = source;                                                                                     \
        type bad = 0;                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            bad |= (type)((from[i] & (type)(exponent)) == (type)(exponent));                                           \
        }                                                                                                              \
        return bad == 0;                                                                                               \
    }
TABLE_FINITE(finite_bf16, uint16_t, 0x7F80)
TABLE_FINITE(finite_float32, uint32_t, 0x7F800000)
TABLE_FINITE(finite_float64, uint64_t, UINT64_C(0x7FF0000000000000))

size_t table_not_finite(const struct table_spec *spec, const void *source, enum wire_encoding encoding, size_t rows) {
    bool (*finite)(const void *source, size_t count) = encoding == WIRE_BF16         ? finite_bf16
                                                       : spec->type == AML_FLOAT32 ? finite_float32
                                                       : spec->type == AML_FLOAT64 ? finite_float64
                                                                                   : NULL;
    size_t row_bytes = encoding == WIRE_BF16 ? spec->width * sizeof(uint16_t) : spec->row_bytes;
    if (finite == NULL || finite(source, rows * spec->width)) {
        return rows; /* most often all are looked at once */
    }
    size_t row = 0;
    while (finite((const unsigned char *)source + row * row_bytes, spec->width)) {
        row++;
    }
    return row;
}

#define TABLE_DELTA(name, type)                                                                                        \
    static void name(void *restrict delta, const void *restrict row, const void *restrict base, size_t count) {        \
        type *restrict difference = delta;                                                                             \
        const type *restrict new = row;                                                                                \
        const type *restrict old = base;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            difference[i] = new[i] - old[i];                                                                           \
        }                                                                                                              \
    }
TABLE_DELTA(table_delta_float32, float)
TABLE_DELTA(table_delta_float64, double)
TABLE_DELTA(table_delta_int32, uint32_t)
TABLE_DELTA(table_delta_int64, uint64_t)

void table_delta(enum aml_type type, void *delta, const void *row, const void *base, size_t count) {
    switch (type) {
    case AML_FLOAT32:
        table_delta_float32(delta, row, base, count);
        break;
    case AML_FLOAT64:
        table_delta_float64(delta, row, base, count);
        break;
    case AML_INT32:
        table_delta_int32(delta, row, base, count);
        break;
    case AML_INT64:
        table_delta_int64(delta, row, base, count);
        break;
    }
}

#define TABLE_TAKE(name, type)                                                                                         \
    static void name(void *restrict delta, void *restrict row, void *restrict base, size_t count) {                    \
        type *restrict difference = delta;                                                                             \
        type *restrict new = row;                                                                                      \
        type *restrict old = base;                                                                                     \
        for (size_t i = 0; i < count; i++) {                                                                           \
            type change = new[i] - old[i];                                                                             \
            type sum = old[i] + change;                                                                                \
            difference[i] = change;                                                                                    \
            old[i] = sum;                                                                                              \
            new[i] = sum;                                                                                              \
        }                                                                                                              \
    }
TABLE_TAKE(table_take_float32, float)
TABLE_TAKE(table_take_float64, double)
TABLE_TAKE(table_take_int32, uint32_t)
TABLE_TAKE(table_take_int64, uint64_t)

void table_take(enum aml_type type, void *delta, void *row, void *base, size_t count) {
    switch (type) {
    case AML_FLOAT32:
        table_take_float32(delta, row, base, count);
        break;
    case AML_FLOAT64:
        table_take_float64(delta, row, base, count);
        break;
    case AML_INT32:
        table_take_int32(delta, row, base, count);
        break;
    case AML_INT64:
        table_take_int64(delta, row, base, count);
        break;
    }
}

/* Makes room for `count` slots; the new rows are zero, then get their start values. */
static int table_grow(struct table *table, uint32_t count) {
    const struct table_spec *spec = table->spec;
    int result = arena_grow(&table->rows, (size_t)count * spec->row_bytes);
    if (result == 0) {
        result = arena_grow(&table->clocks, (size_t)count * sizeof(uint32_t));
    }
    if (result == 0 && spec->compressed) {
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
    table->partition = partition;
    table->partitions = partitions;
    uint64_t slots = TABLE_SLOTS_MAX;
    if (spec->rows > 0) {
        slots = spec->rows / partitions + (partition < spec->rows % partitions ? 1 : 0);
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
    index_map_close(&table->index);
    table->count = 0;
}

int table_copy(struct table *copy, const struct table *table, struct error *error) {
    *copy = (struct table){.spec = table->spec, .partition = table->partition, .partitions = table->partitions};
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
        index_map_copy(&copy->index, &table->index);
    }
    return 0;
}

bool table_holds(const struct table *table, uint64_t key) {
    return table_partition(table->spec, key, table->partitions) == table->partition &&
           (table->spec->rows == 0 || key < table->spec->rows);
}

int64_t table_find(const struct table *table, uint64_t key) {
    return table->spec->rows > 0 ? (int64_t)(key / table->partitions) : index_map_find(&table->index, key);
}

int64_t table_slot(struct table *table, uint64_t key) {
    const struct table_spec *spec = table->spec;
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
    if (result != 0) {
        return result;
    }
    table->count++;
    ((uint64_t *)(void *)table->keys.base)[slot] = key;
    index_map_add(&table->index, key, slot);
    if (spec->start != NULL) {
        spec->start(spec->context, key, table_row(table, slot));
    }
    return slot;
}

uint64_t table_key(const struct table *table, uint32_t slot) {
    return table->spec->rows > 0 ? (uint64_t)slot * table->partitions + table->partition
                                 : ((const uint64_t *)(const void *)table->keys.base)[slot];
}
