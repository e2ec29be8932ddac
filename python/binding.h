/* The C side of the Python package: what would be too slow, or must not wait for Python's lock, in Python. Included by
 * the module that binding.py generates. */
#ifndef PROTEUS_PYTHON_BINDING_H
#define PROTEUS_PYTHON_BINDING_H

#include <agileml.h>

#include <math.h>
#include <string.h>

enum { BINDING_TABLES_MAX = 16 };

/* How rows begin: a kind with its two numbers. */
enum start_kind { START_ZERO, START_CONSTANT, START_UNIFORM, START_NORMAL, START_PYTHON };

struct start {
    int kind;
    enum aml_type type;
    uint32_t width;
    uint64_t seed;
    double a, b; /* constant: a; uniform: from a to b; normal: mean a, standard deviation b */
};

/* aml_app.context of every app in Python. */
struct binding {
    struct start starts[BINDING_TABLES_MAX];
};

/* ---- Start values ---- */

static void start_set(const struct start *start, uint32_t at, double value, void *row) {
    switch (start->type) {
    case AML_FLOAT32:
        ((float *)row)[at] = (float)value;
        break;
    case AML_FLOAT64:
        ((double *)row)[at] = value;
        break;
    case AML_INT32:
        ((int32_t *)row)[at] = (int32_t)value;
        break;
    case AML_INT64:
        ((int64_t *)row)[at] = (int64_t)value;
        break;
    }
}

/* In (0, 1), from the upper 53 bits. */
static double start_unit(uint64_t random) {
    return ((double)(random >> 11) + 0.5) / 9007199254740992.0;
}

static double start_value(const struct start *start, uint64_t key, uint32_t at) {
    if (start->kind == START_CONSTANT) {
        return start->a;
    }
    uint64_t random = aml_mix(aml_mix(start->seed, key), at);
    double unit = start_unit(random);
    if (start->kind == START_UNIFORM) {
        return start->a + (start->b - start->a) * unit;
    }
    double angle = 6.283185307179586 * start_unit(aml_mix(random, 1)); /* Box and Muller, 1958 */
    return start->a + start->b * sqrt(-2 * log(unit)) * cos(angle);
}

/* The generated module's: */
static void start_python(unsigned table, uint64_t key, void *row);
static int run_transform(aml_worker *worker, unsigned transform, uint64_t random, const void *in, void *out);

static void start_row(void *context, unsigned table, uint64_t key, void *row) {
    const struct binding *binding = context;
    const struct start *start = &binding->starts[table];
    if (start->kind == START_PYTHON) {
        start_python(table, key, row);
        return;
    }
    for (uint32_t at = 0; at < start->width; at++) {
        start_set(start, at, start_value(start, key, at), row);
    }
}

/* The library does not tell a start function which table it is for, nor a transform's function which transform: so each
 * table and each transform has a C function of its own. */
#define START(table)                                                                                                   \
    static void start_of_##table(void *context, uint64_t key, void *row) {                                             \
        start_row(context, table, key, row);                                                                           \
    }
#define TRANSFORM(transform)                                                                                           \
    static int transform_##transform(aml_worker *worker, uint64_t random, const void *in, void *out, void *context) {  \
        (void)context;                                                                                                 \
        return run_transform(worker, transform, random, in, out);                                                      \
    }
#define EACH(n) START(n) TRANSFORM(n)
EACH(0)
EACH(1)
EACH(2)
EACH(3)
EACH(4)
EACH(5)
EACH(6)
EACH(7)
EACH(8)
EACH(9)
EACH(10)
EACH(11)
EACH(12)
EACH(13)
EACH(14)
EACH(15)
#undef EACH
#undef START
#undef TRANSFORM

typedef void start_function(void *context, uint64_t key, void *row);

static start_function *start_for(unsigned table) {
    static start_function *const all[BINDING_TABLES_MAX] = {
        start_of_0, start_of_1, start_of_2,  start_of_3,  start_of_4,  start_of_5,  start_of_6,  start_of_7,
        start_of_8, start_of_9, start_of_10, start_of_11, start_of_12, start_of_13, start_of_14, start_of_15};
    return all[table];
}

typedef int transform_function(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);

static transform_function *transform_for(unsigned transform) {
    static transform_function *const all[AML_TRANSFORMS_MAX] = {
        transform_0, transform_1, transform_2,  transform_3,  transform_4,  transform_5,  transform_6,  transform_7,
        transform_8, transform_9, transform_10, transform_11, transform_12, transform_13, transform_14, transform_15};
    return all[transform];
}

/* ---- Emitting many items by one call ---- */

struct batch {
    size_t count;
    const uint64_t *keys; /* [count][item_rows]; NULL */
    unsigned item_rows;
    const unsigned char *data; /* [count][item_bytes]; NULL */
    size_t item_bytes;
    const unsigned char *test; /* [count]: 1 for test items; NULL: training items */
    const uint64_t *numbers;   /* [count]; NULL: items have no numbers */
    const double *totals;      /* [count][total_count] */
    unsigned total_count;
    const double *maxima; /* [count][maximum_count] */
    unsigned maximum_count;
};

/* Returns how many items this process keeps, or a negative error code. */
static int64_t emit_batch(aml_worker *worker, const struct batch *batch) {
    int64_t kept = 0;
    for (size_t i = 0; i < batch->count; i++) {
        enum aml_item_use use = batch->test != NULL && batch->test[i] ? AML_TEST : AML_TRAIN;
        const unsigned char *data = batch->data != NULL ? batch->data + i * batch->item_bytes : NULL;
        const uint64_t *keys = batch->keys != NULL ? batch->keys + i * batch->item_rows : NULL;
        int result = batch->numbers != NULL ? aml_emit_numbered(worker, use, batch->numbers[i], data)
                                            : aml_emit(worker, use, keys, data);
        if (result < 0) {
            return result;
        }
        kept += result;
        for (unsigned t = 0; t < batch->total_count; t++) {
            aml_total_add(worker, t, batch->totals[i * batch->total_count + t]);
        }
        for (unsigned m = 0; m < batch->maximum_count; m++) {
            aml_total_raise(worker, m, batch->maxima[i * batch->maximum_count + m]);
        }
    }
    return kept;
}

/* ---- Rows ---- */

/* The number of the first slot of slots[count] that the table does not have; count if there is none. */
static size_t rows_check(const struct aml_rows *rows, const uint32_t *slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (slots[i] >= rows->count) {
            return i;
        }
    }
    return count;
}

/* Marks a row as changed, or as updated if its table has an optimizer. */
static void row_touch(const struct aml_rows *rows, uint32_t slot) {
    if (rows->sums != NULL) {
        aml_row_sum(rows, slot);
    } else {
        aml_touch(rows, slot);
    }
}

static void rows_touch(const struct aml_rows *rows, const uint32_t *slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        row_touch(rows, slots[i]);
    }
}

static void rows_touch_all(const struct aml_rows *rows) {
    for (uint32_t slot = 0; slot < rows->count; slot++) {
        row_touch(rows, slot);
    }
}

/* row[width] += delta[width] */
static void add_row(enum aml_type type, uint32_t width, void *row, const void *delta) {
#define ADD(element)                                                                                                   \
    for (uint32_t c = 0; c < width; c++) {                                                                             \
        ((element *)row)[c] += ((const element *)delta)[c];                                                            \
    }
    switch (type) {
    case AML_FLOAT32:
        ADD(float)
        break;
    case AML_FLOAT64:
        ADD(double)
        break;
    case AML_INT32: /* unsigned: an overflow wraps, as in the servers */
        ADD(uint32_t)
        break;
    case AML_INT64:
        ADD(uint64_t)
        break;
    }
#undef ADD
}

/* Adds deltas[count][width] to the rows of slots[count], in their order, or to their sums if the table has an
 * optimizer. A slot that appears more than once gets all its deltas. */
static void rows_add(const struct aml_rows *rows, enum aml_type type, uint32_t width, const uint32_t *slots,
                     size_t count, const void *deltas) {
    const size_t bytes = width * aml_type_size(type);
    for (size_t i = 0; i < count; i++) {
        add_row(type, width, rows->sums != NULL ? aml_row_sum(rows, slots[i]) : aml_row(rows, slots[i]),
                (const unsigned char *)deltas + i * bytes);
    }
}

static void rows_put(const struct aml_rows *rows, size_t row_bytes, const uint32_t *slots, size_t count,
                     const void *values) {
    for (size_t i = 0; i < count; i++) {
        memcpy(aml_row(rows, slots[i]), (const unsigned char *)values + i * row_bytes, row_bytes);
    }
}

/* Adds deltas[count] to the elements columns[count] of the rows slots[count]: ascending by slot and column, none twice.
 * `given`: the table has changes_given. */
static int rows_add_elements(aml_worker *worker, unsigned table, int given, const struct aml_rows *rows,
                             enum aml_type type, const uint32_t *slots, const uint32_t *columns, const void *deltas,
                             size_t count) {
    size_t size = aml_type_size(type);
    int result = 0;
    for (size_t first = 0, end; first < count && result == 0; first = end) {
        const unsigned char *changes = (const unsigned char *)deltas + first * size;
        for (end = first; end < count && slots[end] == slots[first]; end++) {
        }
        unsigned char *row = rows->base + slots[first] * rows->stride;
        if (!given) {
            row = rows->sums != NULL ? aml_row_sum(rows, slots[first]) : aml_row(rows, slots[first]);
        }
        for (size_t i = 0; i < end - first; i++) {
            add_row(type, 1, row + columns[first + i] * size, changes + i * size);
        }
        if (given) {
            result = aml_give_changes(worker, table, slots[first], (uint32_t)(end - first), columns + first, changes);
        }
    }
    return result;
}

/* ---- Lines that belong together ---- */

/* aml_read_groups' group: a hash of the line's first field, which ends at a blank, tab, comma or semicolon. */
static uint64_t group_of_field(const char *line) {
    uint64_t hash = 0;
    for (; strchr(" \t,;\r\n", *line) == NULL; line++) { /* finds a 0, too */
        hash = aml_mix(hash, (unsigned char)*line);
    }
    return hash == AML_GROUP_SAME ? 0 : hash;
}

static int read_groups(aml_worker *worker, const char *path,
                       int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context) {
    return aml_read_groups(worker, path, group_of_field, each, context);
}

/* ---- Varied items ---- */

/* The offsets of `count` varied items in bytes, from `items`; places[count] is behind the last one. */
static void items_places(const void *items, size_t count, uint64_t *places) {
    const struct aml_item *item = items;
    for (size_t i = 0; i < count; i++) {
        places[i] = (uint64_t)((const unsigned char *)item - (const unsigned char *)items);
        item = aml_item_next(item);
    }
    places[count] = (uint64_t)((const unsigned char *)item - (const unsigned char *)items);
}

static int error_text(aml_worker *worker, int code, const char *text) {
    return aml_error(worker, code, "%s", text);
}

static void note_text(aml_worker *worker, const char *text) {
    aml_note(worker, "%s", text);
}

#endif
