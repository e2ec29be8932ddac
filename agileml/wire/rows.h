/* Rows in messages: the encodings in which their values are written, and the frames that hold them. Rows travel as a
 * directory frame (which tables, how many rows of each, in which encoding), then for each table a frame of 64-bit keys
 * and a frame of values; SUBSCRIBE has keys alone. Nobody else indexes into these frames. Knows nothing of clocks or
 * partitions. No state; any thread.
 *
 * An encoding is one row of the table in rows.c. */
#ifndef AGILEML_WIRE_ROWS_H
#define AGILEML_WIRE_ROWS_H

#include "agileml/wire/message.h"

/* ---- Encodings ---- */

/* How the values of a table's rows are written in a message. */
enum wire_encoding {
    WIRE_FULL = 0,   /* as they are in memory; every message may have rows so */
    WIRE_BF16 = 1,   /* float32 rounded to bfloat16 (bfloat16.h) */
    WIRE_SPARSE = 2, /* whole numbers: the elements that are not 0 (sparse.h) */
    WIRE_ENCODINGS
};

/* The rows of one table, and how messages may have them besides WIRE_FULL. */
struct row_shape {
    enum aml_type type;
    uint32_t width;     /* elements of a row */
    uint32_t row_bytes; /* in memory: width x element size */
    enum wire_encoding flushed, pushed;
};

/* What a row and its base, which a delta is taken against, are afterwards. */
enum rows_after {
    ROWS_AFTER_UNCHANGED, /* both as before */
    ROWS_AFTER_ROW,       /* the base is the row */
    ROWS_AFTER_SUM        /* both are the old base plus the delta, rounded as by `add` */
};

/* One encoding. Rows in memory stand one behind the other, and so do encoded rows; the two never overlap. What reads
 * encoded rows has had them checked. A function that returns a size returns the bytes of the encoded rows. */
struct rows_codec {
    const char *name; /* for people */
    bool varies;      /* rows have different sizes */
    /* The bytes that no encoded row exceeds, and those of the row that begins at `encoded`. */
    size_t (*bytes_max)(const struct row_shape *shape);
    size_t (*bytes)(const struct row_shape *shape, const unsigned char *encoded);
    /* Whether `size` bytes are `count` encoded rows and nothing else. */
    bool (*check)(const struct row_shape *shape, const unsigned char *encoded, size_t size, uint32_t count);
    /* Encodes row - base. An encoding that rounds adds what it sends to the base, whatever `after` says: row - base is
     * then what has not been sent. */
    size_t (*delta)(const struct row_shape *shape, unsigned char *to, void *row, void *base, enum rows_after after);
    /* Encodes rows; `errors` is what `feed` has kept. NULL: this encoding is for deltas only. */
    size_t (*write)(const struct row_shape *shape, unsigned char *to, const void *rows, const void *errors,
                    size_t count);
    /* Adds encoded rows to those in memory, or replaces these by them. */
    size_t (*add)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    size_t (*copy)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    /* Takes away what `add` has added, to the bit. NULL: encoded rows are no smaller than old values. */
    size_t (*subtract)(const struct row_shape *shape, void *rows, const unsigned char *encoded, size_t count);
    /* Whether no element is a NaN or an infinity. NULL: none can be. */
    bool (*finite)(const struct row_shape *shape, const unsigned char *encoded, size_t count);
    /* Both NULL: this encoding does not round. Before rows change: keeps in `errors` what `write` leaves out of them;
     * and row -= base: what `delta` has not sent of a row. */
    void (*feed)(const struct row_shape *shape, void *errors, const void *rows, size_t count);
    void (*unsent)(const struct row_shape *shape, void *row, const void *base);
};

const struct rows_codec *rows_codec(enum wire_encoding encoding);

static inline bool rows_rounded(enum wire_encoding encoding) {
    return rows_codec(encoding)->feed != NULL;
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
    struct buffer *key_frame, *value_frame; /* the message's, in which the two lie */
};

/* Checks that a message of rows has the frames that its directory announces: 0 or AML_EPROTOCOL. */
int rows_frames_check(const struct message *message, struct error *error);

/* Checks the rows of a SUBSCRIBE, PUSH, FLUSH, UPDATE or ROWS, whose frames were checked, against the job's tables and
 * gives a view of each table's rows. `views` has room for WIRE_TABLES_MAX. The number of views, or AML_EPROTOCOL. */
int rows_check(const struct message *message, const struct row_shape *shapes, unsigned table_count,
               struct rows_view *views, struct error *error);

/* Finds the rows of `table` in a message whose rows were checked, or are our own. */
bool rows_find(const struct message *message, uint32_t table, struct rows_view *view);

/* The first of a view's rows that has a NaN or an infinity; view->count: none has. */
size_t rows_not_finite(const struct row_shape *shape, const struct rows_view *view);

/* Appends the rows of one more table to a message, which has none or was made so. Takes over the frames of `count` keys
 * and of their values, NULL in SUBSCRIBE. */
void rows_append(struct message *message, uint32_t table, enum wire_encoding encoding, struct buffer *keys,
                 struct buffer *values);

#endif
