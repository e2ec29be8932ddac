/* See rows.h. */
#include "agileml/wire/rows.h"

#include "agileml/wire/bfloat16.h"
#include "agileml/wire/sparse.h"

#include <string.h>

/* ---- Arithmetic over elements ---- */

/* Plain loops over restrict pointers, which the compiler vectorises; memory bandwidth is the limit. Whole numbers are
 * added as unsigned numbers, which wrap where signed addition would be undefined. */
#define ROWS_ARITHMETIC(name, type)                                                                                    \
    static void add_##name(void *restrict target, const void *restrict source, size_t count) {                         \
        type *restrict to = target;                                                                                    \
        const type *restrict from = source;                                                                            \
        for (size_t i = 0; i < count; i++) {                                                                           \
            to[i] += from[i];                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void delta_##name(void *restrict delta, const void *restrict row, const void *restrict base,                \
                             size_t count) {                                                                           \
        type *restrict difference = delta;                                                                             \
        const type *restrict new = row;                                                                                \
        const type *restrict old = base;                                                                               \
        for (size_t i = 0; i < count; i++) {                                                                           \
            difference[i] = new[i] - old[i];                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void take_##name(void *restrict delta, void *restrict row, void *restrict base, size_t count) {             \
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
ROWS_ARITHMETIC(float32, float)
ROWS_ARITHMETIC(float64, double)
ROWS_ARITHMETIC(int32, uint32_t)
ROWS_ARITHMETIC(int64, uint64_t)

static const struct arithmetic {
    void (*add)(void *restrict target, const void *restrict source, size_t count);
    void (*delta)(void *restrict delta, const void *restrict row, const void *restrict base, size_t count);
    void (*take)(void *restrict delta, void *restrict row, void *restrict base, size_t count); /* ROWS_AFTER_SUM */
} ARITHMETIC[] = {[AML_FLOAT32] = {add_float32, delta_float32, take_float32},
                  [AML_FLOAT64] = {add_float64, delta_float64, take_float64},
                  [AML_INT32] = {add_int32, delta_int32, take_int32},
                  [AML_INT64] = {add_int64, delta_int64, take_int64}};

/* Defines a function that returns whether all numbers are finite. NaNs and infinities have an exponent of all ones. */
#define ROWS_FINITE(name, type, exponent)                                                                              \
    static bool name(const void *source, size_t count) {                                                               \
        const type *from = source;                                                                                     \
        type bad = 0;                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            bad |= (type)((from[i] & (type)(exponent)) == (type)(exponent));                                           \
        }                                                                                                              \
        return bad == 0;                                                                                               \
    }
ROWS_FINITE(finite_bf16, uint16_t, 0x7F80)
ROWS_FINITE(finite_float32, uint32_t, 0x7F800000)
ROWS_FINITE(finite_float64, uint64_t, UINT64_C(0x7FF0000000000000))

/* ---- WIRE_FULL ---- */

static size_t full_bytes_max(const struct row_shape *shape) {
    return shape->row_bytes;
}

static size_t full_bytes(const struct row_shape *shape, const unsigned char *encoded) {
    (void)encoded;
    return shape->row_bytes;
}

static bool full_check(const struct row_shape *shape, const unsigned char *encoded, size_t size, uint32_t count) {
    (void)encoded;
    return size == (size_t)count * shape->row_bytes;
}

static size_t full_delta(const struct row_shape *shape, unsigned char *to, void *row, void *base,
                         enum rows_after after) {
    const struct arithmetic *arithmetic = &ARITHMETIC[shape->type];
    if (after == ROWS_AFTER_SUM) {
        arithmetic->take(to, row, base, shape->width);
    } else {
        arithmetic->delta(to, row, base, shape->width);
    }
    if (after == ROWS_AFTER_ROW) {
        memcpy(base, row, shape->row_bytes);
    }
    return shape->row_bytes;
}

static size_t full_write(const struct row_shape *shape, unsigned char *to, const void *rows, const void *errors,
                         size_t count) {
    (void)errors;
    size_t bytes = count * shape->row_bytes;
    memcpy(to, rows, bytes);
    return bytes;
}

static size_t full_add(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    ARITHMETIC[shape->type].add(rows, encoded, count * shape->width);
    return count * shape->row_bytes;
}

static size_t full_copy(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    return full_write(shape, rows, encoded, NULL, count);
}

static bool full_finite(const struct row_shape *shape, const unsigned char *encoded, size_t count) {
    return shape->type == AML_FLOAT32   ? finite_float32(encoded, count * shape->width)
           : shape->type == AML_FLOAT64 ? finite_float64(encoded, count * shape->width)
                                        : true;
}

/* ---- WIRE_BF16 ---- */

static size_t bf16_bytes_max(const struct row_shape *shape) {
    return shape->width * sizeof(uint16_t);
}

static size_t bf16_bytes(const struct row_shape *shape, const unsigned char *encoded) {
    (void)encoded;
    return bf16_bytes_max(shape);
}

static bool bf16_check(const struct row_shape *shape, const unsigned char *encoded, size_t size, uint32_t count) {
    (void)encoded;
    return size == count * bf16_bytes_max(shape);
}

static size_t bf16_delta(const struct row_shape *shape, unsigned char *to, void *row, void *base,
                         enum rows_after after) {
    (void)after;
    bfloat16_send((uint16_t *)(void *)to, base, row, shape->width);
    return bf16_bytes_max(shape);
}

static size_t bf16_write(const struct row_shape *shape, unsigned char *to, const void *rows, const void *errors,
                         size_t count) {
    bfloat16_encode_fed((uint16_t *)(void *)to, rows, errors, count * shape->width);
    return count * bf16_bytes_max(shape);
}

static size_t bf16_add(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    bfloat16_add(rows, (const uint16_t *)(const void *)encoded, count * shape->width);
    return count * bf16_bytes_max(shape);
}

static size_t bf16_copy(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    bfloat16_decode(rows, (const uint16_t *)(const void *)encoded, count * shape->width);
    return count * bf16_bytes_max(shape);
}

static bool bf16_finite(const struct row_shape *shape, const unsigned char *encoded, size_t count) {
    return finite_bf16(encoded, count * shape->width);
}

static void bf16_feed(const struct row_shape *shape, void *errors, const void *rows, size_t count) {
    bfloat16_feed(errors, rows, count * shape->width);
}

static void bf16_unsent(const struct row_shape *shape, void *row, const void *base) {
    bfloat16_unsent(row, base, shape->width);
}

/* ---- WIRE_SPARSE ---- */

static uint32_t element_bytes(const struct row_shape *shape) {
    return shape->type == AML_INT64 ? sizeof(int64_t) : sizeof(int32_t);
}

static size_t sparse_rows_bytes_max(const struct row_shape *shape) {
    return sparse_most(shape->width, element_bytes(shape));
}

static size_t sparse_rows_bytes(const struct row_shape *shape, const unsigned char *encoded) {
    return sparse_bytes(element_bytes(shape), encoded, shape->width);
}

static bool sparse_rows_check(const struct row_shape *shape, const unsigned char *encoded, size_t size,
                              uint32_t count) {
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = sparse_check(element_bytes(shape), encoded + at, size - at, shape->width);
        if (bytes == 0) {
            return false;
        }
        at += bytes;
    }
    return at == size;
}

/* The old base plus the delta is the row, to the bit. */
static size_t sparse_rows_delta(const struct row_shape *shape, unsigned char *to, void *row, void *base,
                                enum rows_after after) {
    return sparse_delta(element_bytes(shape), to, row, base, shape->width, after != ROWS_AFTER_UNCHANGED);
}

static size_t sparse_rows_write(const struct row_shape *shape, unsigned char *to, const void *rows, const void *errors,
                                size_t count) {
    (void)errors;
    const unsigned char *row = rows;
    size_t at = 0;
    for (size_t i = 0; i < count; i++, row += shape->row_bytes) {
        at += sparse_delta(element_bytes(shape), to + at, row, NULL, shape->width, false);
    }
    return at;
}

static size_t sparse_rows_add(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    const uint32_t element = element_bytes(shape);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        at += sparse_add(element, (unsigned char *)rows + i * shape->row_bytes, encoded + at, shape->width);
    }
    return at;
}

static size_t sparse_rows_copy(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count) {
    const uint32_t element = element_bytes(shape);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        at += sparse_copy(element, (unsigned char *)rows + i * shape->row_bytes, encoded + at, shape->width);
    }
    return at;
}

static size_t sparse_rows_subtract(const struct row_shape *shape, void *rows, const unsigned char *encoded,
                                   size_t count) {
    const uint32_t element = element_bytes(shape);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        at += sparse_subtract(element, (unsigned char *)rows + i * shape->row_bytes, encoded + at, shape->width);
    }
    return at;
}

/* ---- The encodings ---- */

const struct rows_codec ROWS_CODECS[WIRE_ENCODINGS] = {
    [WIRE_FULL] = {.name = "full",
                   .bytes_max = full_bytes_max,
                   .bytes = full_bytes,
                   .check = full_check,
                   .delta = full_delta,
                   .write = full_write,
                   .add = full_add,
                   .copy = full_copy,
                   .finite = full_finite},
    [WIRE_BF16] = {.name = "bfloat16",
                   .bytes_max = bf16_bytes_max,
                   .bytes = bf16_bytes,
                   .check = bf16_check,
                   .delta = bf16_delta,
                   .write = bf16_write,
                   .add = bf16_add,
                   .copy = bf16_copy,
                   .finite = bf16_finite,
                   .feed = bf16_feed,
                   .unsent = bf16_unsent},
    [WIRE_SPARSE] = {.name = "sparse",
                     .varies = true,
                     .bytes_max = sparse_rows_bytes_max,
                     .bytes = sparse_rows_bytes,
                     .check = sparse_rows_check,
                     .delta = sparse_rows_delta,
                     .write = sparse_rows_write,
                     .add = sparse_rows_add,
                     .copy = sparse_rows_copy,
                     .subtract = sparse_rows_subtract},
};

size_t rows_not_finite(const struct row_shape *shape, const struct rows_view *view) {
    const struct rows_codec *codec = rows_codec(view->encoding);
    if (codec->finite == NULL || codec->finite(shape, view->values, view->count)) {
        return view->count; /* the usual case, after one pass over all rows */
    }
    const unsigned char *encoded = view->values;
    size_t row = 0;
    for (; codec->finite(shape, encoded, 1); row++) {
        encoded += codec->bytes(shape, encoded);
    }
    return row;
}

/* ---- Frames ---- */

/* Returns the number of payload frames per table, without the directory. */
static unsigned frames_per_table(const struct message *message) {
    return message->type == MESSAGE_SUBSCRIBE ? 1 : 2;
}

static size_t directory_entries(const struct message *message) {
    return message->frame_count > 0 ? message->frames[0]->size / sizeof(struct wire_directory_entry) : 0;
}

int rows_frames_check(const struct message *message, unsigned count, const char *name, struct error *error) {
    if (count == 0) {
        return 0;
    }
    size_t tables = directory_entries(message);
    if (message->frames[0]->size % sizeof(struct wire_directory_entry) != 0 || tables == 0 ||
        tables > WIRE_TABLES_MAX || count != 1 + frames_per_table(message) * tables) {
        return error_set(error, AML_EPROTOCOL, "%s: %u payload frames do not fit a directory of %zu bytes", name, count,
                         message->frames[0]->size);
    }
    return 0;
}

static struct rows_view view_at(const struct message *message, size_t entry) {
    const struct wire_directory_entry *directory = (const void *)message->frames[0]->data;
    const unsigned per_table = frames_per_table(message);
    struct buffer *keys = message->frames[1 + per_table * entry];
    struct buffer *values = per_table == 2 ? message->frames[2 + per_table * entry] : NULL;
    return (struct rows_view){.table = directory[entry].table,
                              .count = directory[entry].rows,
                              .keys = (const void *)keys->data,
                              .values = values != NULL ? values->data : NULL,
                              .encoding = directory[entry].encoding,
                              .key_frame = keys,
                              .value_frame = values};
}

static bool encoding_allowed(const struct message *message, const struct row_shape *shape, unsigned encoding) {
    bool changes = message->type == MESSAGE_FLUSH || message->type == MESSAGE_PUSH ||
                   (message->type == MESSAGE_PEER && message->peer.service == SERVICE_LOTS);
    return encoding == WIRE_FULL || (changes && encoding == (unsigned)shape->encoding) ||
           (message->type == MESSAGE_UPDATE && encoding == (unsigned)rows_exact(shape));
}

int rows_check(const struct message *message, const struct row_shape *shapes, unsigned table_count,
               struct rows_view *views, struct error *error) {
    size_t tables = directory_entries(message);
    uint32_t seen = 0;
    for (size_t t = 0; t < tables; t++) {
        const struct rows_view view = view_at(message, t);
        if (view.table >= table_count || (seen & (1U << view.table)) != 0 || view.count == 0) {
            return error_set(error, AML_EPROTOCOL, "table %u is unknown, repeated or empty", view.table);
        }
        seen |= 1U << view.table;
        const struct row_shape *shape = &shapes[view.table];
        if (shape->hidden && message->type != MESSAGE_UPDATE) {
            return error_set(error, AML_EPROTOCOL, "table %u is of states, which only UPDATE has", view.table);
        }
        if (!encoding_allowed(message, shape, view.encoding)) {
            return error_set(error, AML_EPROTOCOL, "table %u: encoding %u is not allowed here", view.table,
                             (unsigned)view.encoding);
        }
        const struct rows_codec *codec = rows_codec(view.encoding);
        bool keys_fit = view.key_frame->size == view.count * sizeof(uint64_t);
        bool values_fit = view.values == NULL || codec->check(shape, view.values, view.value_frame->size, view.count);
        if (!keys_fit || (!values_fit && !codec->varies)) {
            return error_set(error, AML_EPROTOCOL, "frames of table %u do not hold %u rows of %zu bytes", view.table,
                             view.count, codec->bytes_max(shape));
        }
        if (!values_fit) {
            return error_set(error, AML_EPROTOCOL, "the values of table %u are not %u %s rows", view.table, view.count,
                             codec->name);
        }
        views[t] = view;
    }
    return (int)tables;
}

bool rows_find(const struct message *message, uint32_t table, struct rows_view *view) {
    for (size_t t = 0; t < directory_entries(message); t++) {
        *view = view_at(message, t);
        if (view->table == table) {
            return true;
        }
    }
    return false;
}

void rows_append(struct message *message, uint32_t table, enum wire_encoding encoding, struct buffer *keys,
                 struct buffer *values) {
    const struct wire_directory_entry entry = {
        .table = table, .rows = (uint32_t)(keys->size / sizeof(uint64_t)), .encoding = encoding};
    if (message->frame_count == 0) {
        message->frames[message->frame_count++] = buffer_new(WIRE_TABLES_MAX * sizeof entry);
        message->frames[0]->size = 0;
    }
    struct buffer *directory = message->frames[0];
    memcpy(directory->data + directory->size, &entry, sizeof entry);
    directory->size += sizeof entry;
    message->frames[message->frame_count++] = keys;
    if (values != NULL) {
        message->frames[message->frame_count++] = values;
    }
}
