/* Rows in messages: the encodings of their values, and the frames that hold them. The first frame is a directory: which
 * tables, how many rows of each, in which encoding. Then each table has a frame of 64-bit keys and a frame of values;
 * SUBSCRIBE has only the keys. No other file indexes into these frames. Knows nothing of clocks or partitions. No
 * state; any thread.
 *
 * An encoding is one row of the table in rows.c. */
#ifndef AGILEML_WIRE_ROWS_H
#define AGILEML_WIRE_ROWS_H

#include "agileml/wire/message.h"

/* ---- Encodings ---- */

/* How the values of a table's rows are written in a message. */
enum wire_encoding {
    WIRE_FULL = 0,   /* as in memory; allowed in every message */
    WIRE_BF16 = 1,   /* float32 rounded to bfloat16 (bfloat16.h) */
    WIRE_SPARSE = 2, /* whole numbers: the elements that are not 0 (sparse.h) */
    WIRE_ENCODINGS
};

/* The form of one table's rows, in memory and in messages. */
struct row_shape {
    enum aml_type type;
    uint32_t width;              /* elements of a row */
    uint32_t row_bytes;          /* in memory: width x element size */
    enum wire_encoding encoding; /* allowed besides WIRE_FULL in FLUSH, LOT_DONE and PUSH; in UPDATE if it is exact */
    bool hidden;                 /* table_hidden (ps/table.h): its rows are allowed in UPDATE alone */
};

/* What encoding a delta (row - base) does to the row and the base. */
enum rows_after {
    ROWS_AFTER_UNCHANGED, /* nothing */
    ROWS_AFTER_ROW,       /* base = row */
    ROWS_AFTER_SUM        /* row = base = base + delta, rounded as by `add` */
};

/* One encoding. Rows in memory follow each other without gaps, and so do encoded rows. Arrays of rows in memory and of
 * encoded rows never overlap. Encoded rows must be checked before any function but `check` reads them. Returned sizes
 * are bytes of the encoded rows. */
struct rows_codec {
    const char *name; /* for people */
    bool varies;      /* rows have different sizes */
    /* Returns the bytes that no encoded row exceeds. */
    size_t (*bytes_max)(const struct row_shape *shape);
    /* Returns the bytes of the row at `encoded`. */
    size_t (*bytes)(const struct row_shape *shape, const unsigned char *encoded);
    /* Whether `size` bytes are `count` encoded rows and nothing else. */
    bool (*check)(const struct row_shape *shape, const unsigned char *encoded, size_t size, uint32_t count);
    /* Encodes row - base. An encoding that rounds ignores `after` and adds the encoded delta to the base. So row - base
     * becomes the rounding error, which has not been sent. */
    size_t (*delta)(const struct row_shape *shape, unsigned char *to, void *row, void *base, enum rows_after after);
    /* Encodes rows. `errors` are the rounding errors that `feed` has kept. */
    size_t (*write)(const struct row_shape *shape, unsigned char *to, const void *rows, const void *errors,
                    size_t count);
    /* Adds encoded rows to the rows in memory. */
    size_t (*add)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    /* Decodes rows into memory. */
    size_t (*copy)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    /* Subtracts exactly what `add` has added. NULL: the old rows are kept instead, as they take no more memory. */
    size_t (*subtract)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    /* Whether all elements are finite. NULL: they always are. */
    bool (*finite)(const struct row_shape *shape, const unsigned char *encoded, size_t count);
    /* Sets `errors` to the rounding errors that `write` makes for these rows. Call it before the rows change. NULL (and
     * `unsent` too): this encoding does not round. */
    void (*feed)(const struct row_shape *shape, void *errors, const void *rows, size_t count);
    /* row -= base: the part of the row that `delta` has not sent. */
    void (*unsent)(const struct row_shape *shape, void *row, const void *base);
};

extern const struct rows_codec ROWS_CODECS[WIRE_ENCODINGS];

static inline const struct rows_codec *rows_codec(enum wire_encoding encoding) {
    return &ROWS_CODECS[encoding];
}

static inline bool rows_rounded(enum wire_encoding encoding) {
    return rows_codec(encoding)->feed != NULL;
}

/* Returns the encoding in which rows travel that must arrive bit for bit. */
static inline enum wire_encoding rows_exact(const struct row_shape *shape) {
    return rows_rounded(shape->encoding) ? WIRE_FULL : shape->encoding;
}

/* ---- Frames ---- */

struct wire_directory_entry {
    uint32_t table;
    uint32_t rows;     /* >= 1 */
    uint32_t encoding; /* enum wire_encoding; 0 in SUBSCRIBE */
};

/* The rows of one table in a message. */
struct rows_view {
    uint32_t table;
    uint32_t count;
    const uint64_t *keys;        /* count */
    const unsigned char *values; /* count encoded rows; NULL in SUBSCRIBE */
    enum wire_encoding encoding;
    struct buffer *key_frame, *value_frame; /* the message's frames with the keys and the values */
};

/* Checks that the first `count` frames of a message are those that its directory announces; 0: it has no rows. Returns
 * 0 or AML_EPROTOCOL. */
int rows_frames_check(const struct message *message, unsigned count, const char *name, struct error *error);

/* Checks the rows of a message against the job's tables. The message's frames must have been checked. Sets `views`,
 * which has room for WIRE_TABLES_MAX, to a view of each table's rows. Returns the number of views, or AML_EPROTOCOL. */
int rows_check(const struct message *message, const struct row_shape *shapes, unsigned table_count,
               struct rows_view *views, struct error *error);

/* Sets *view to the message's rows of `table`. The message's rows must have been checked, or made by this process.
 * Returns false when the message has no rows of the table. */
bool rows_find(const struct message *message, uint32_t table, struct rows_view *view);

/* Returns the index of the first row that has a NaN or an infinity, or view->count when no row has. */
size_t rows_not_finite(const struct row_shape *shape, const struct rows_view *view);

/* Appends the rows of one more table to a message, whose earlier frames, if any, this function has appended. Takes over
 * the frames of the keys and of their values; `values` is NULL in SUBSCRIBE. */
void rows_append(struct message *message, uint32_t table, enum wire_encoding encoding, struct buffer *keys,
                 struct buffer *values);

#endif
