/* Every encoding of rows, through the table of codecs: written rows are accepted, have the stated size, and add up
 * to the row. wire_test.c tests frames of rows, bfloat16_test.c rounding. */
#include "agileml/wire/rows.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>

enum { WIDTH = 21, ROWS = 5, ROOM = ROWS * (4 + 8 * WIDTH) };

/* The types that each encoding supports. */
static const struct {
    enum wire_encoding encoding;
    struct row_shape shape;
} CASES[] = {
    {WIRE_FULL, {.type = AML_FLOAT32, .width = WIDTH, .row_bytes = 4 * WIDTH}},
    {WIRE_FULL, {.type = AML_FLOAT64, .width = WIDTH, .row_bytes = 8 * WIDTH}},
    {WIRE_FULL, {.type = AML_INT32, .width = WIDTH, .row_bytes = 4 * WIDTH}},
    {WIRE_FULL, {.type = AML_INT64, .width = WIDTH, .row_bytes = 8 * WIDTH}},
    {WIRE_BF16, {.type = AML_FLOAT32, .width = WIDTH, .row_bytes = 4 * WIDTH}},
    {WIRE_SPARSE, {.type = AML_INT32, .width = WIDTH, .row_bytes = 4 * WIDTH}},
    {WIRE_SPARSE, {.type = AML_INT64, .width = WIDTH, .row_bytes = 8 * WIDTH}},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

/* Sets element i to `value`, a number that every type and encoding can represent. */
static void set(const struct row_shape *shape, unsigned char *row, unsigned i, int value) {
    float single = (float)value;
    double twice = value;
    int32_t word = value;
    int64_t wide = value;
    const void *from = shape->type == AML_FLOAT32   ? (const void *)&single
                       : shape->type == AML_FLOAT64 ? (const void *)&twice
                       : shape->type == AML_INT32   ? (const void *)&word
                                                    : (const void *)&wide;
    size_t bytes = shape->row_bytes / shape->width;
    memcpy(row + i * bytes, from, bytes);
}

/* Makes rows and bases; in row r every (r + 1)st element differs. */
static void fill(const struct row_shape *shape, unsigned char *rows, unsigned char *bases) {
    for (unsigned r = 0; r < ROWS; r++) {
        for (unsigned i = 0; i < WIDTH; i++) {
            int base = (int)(r + i);
            set(shape, bases + r * shape->row_bytes, i, base);
            set(shape, rows + r * shape->row_bytes, i, i % (r + 1) == 0 ? base - 40 : base);
        }
    }
}

/* Writes the deltas of all rows. Returns their size in bytes. */
static size_t write_deltas(const struct rows_codec *codec, const struct row_shape *shape, unsigned char *rows,
                           unsigned char *bases, enum rows_after after, unsigned char *to) {
    size_t at = 0;
    for (unsigned r = 0; r < ROWS; r++) {
        size_t bytes = codec->delta(shape, to + at, rows + r * shape->row_bytes, bases + r * shape->row_bytes, after);
        assert_int_equal(codec->bytes(shape, to + at), bytes);
        assert_true(bytes <= codec->bytes_max(shape));
        assert_true(codec->varies || bytes == codec->bytes_max(shape));
        at += bytes;
    }
    return at;
}

TEST(deltas_add_up_to_the_rows) {
    for (unsigned c = 0; c < CASE_COUNT; c++) {
        const struct row_shape *shape = &CASES[c].shape;
        const struct rows_codec *codec = rows_codec(CASES[c].encoding);
        size_t size = (size_t)ROWS * shape->row_bytes;
        uint64_t rows[ROOM / 8 + 1], bases[ROOM / 8 + 1], sums[ROOM / 8 + 1], copies[ROOM / 8 + 1],
            encoded[ROOM / 8 + 1];
        for (enum rows_after after = ROWS_AFTER_UNCHANGED; after <= ROWS_AFTER_SUM; after++) {
            fill(shape, (unsigned char *)rows, (unsigned char *)bases);
            memcpy(sums, bases, size);
            unsigned char *bytes = (unsigned char *)encoded;
            size_t at = write_deltas(codec, shape, (unsigned char *)rows, (unsigned char *)bases, after, bytes);
            bool settles = after != ROWS_AFTER_UNCHANGED || rows_rounded(CASES[c].encoding);
            assert_memory_equal(bases, settles ? rows : sums, size);
            assert_true(codec->check(shape, bytes, at, ROWS));
            assert_false(codec->check(shape, bytes, at - 1, ROWS));
            assert_false(codec->check(shape, bytes, at, ROWS - 1));
            assert_false(codec->check(shape, bytes, at, ROWS + 1));
            memcpy(copies, sums, size);
            assert_int_equal(codec->add(shape, sums, bytes, ROWS), at);
            assert_memory_equal(sums, rows, size);
            if (codec->subtract != NULL) {
                assert_int_equal(codec->subtract(shape, sums, bytes, ROWS), at);
                assert_memory_equal(sums, copies, size);
            }
            memset(sums, 0, sizeof sums); /* adding to zeros makes a copy */
            codec->add(shape, sums, bytes, ROWS);
            assert_int_equal(codec->copy(shape, copies, bytes, ROWS), at);
            assert_memory_equal(copies, sums, size);
            const struct rows_view view = {.count = ROWS, .values = bytes, .encoding = CASES[c].encoding};
            assert_int_equal(rows_not_finite(shape, &view), ROWS);
        }
    }
}

TEST(written_rows_are_read) {
    for (unsigned c = 0; c < CASE_COUNT; c++) {
        const struct row_shape *shape = &CASES[c].shape;
        const struct rows_codec *codec = rows_codec(CASES[c].encoding);
        uint64_t rows[ROOM / 8 + 1], bases[ROOM / 8 + 1], copies[ROOM / 8 + 1], encoded[ROOM / 8 + 1];
        uint64_t errors[ROOM / 8 + 1] = {0};
        if (codec->write == NULL) {
            continue;
        }
        fill(shape, (unsigned char *)rows, (unsigned char *)bases);
        size_t size = codec->write(shape, (unsigned char *)encoded, rows, errors, ROWS);
        assert_true(codec->check(shape, (const unsigned char *)encoded, size, ROWS));
        assert_int_equal(codec->copy(shape, copies, (const unsigned char *)encoded, ROWS), size);
        assert_memory_equal(copies, rows, (size_t)ROWS * shape->row_bytes);
        assert_true((codec->feed == NULL) == (codec->unsent == NULL));
        if (codec->feed != NULL) { /* no element of these numbers is left unsent */
            codec->feed(shape, errors, rows, ROWS);
            for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
                assert_int_equal(errors[i], 0);
            }
        }
    }
}

static size_t not_finite(enum aml_type type, enum wire_encoding encoding, const void *values) {
    const struct row_shape shape = {.type = type, .width = 3, .row_bytes = 12};
    const struct rows_view view = {.count = 4, .values = values, .encoding = encoding};
    return rows_not_finite(&shape, &view);
}

TEST(finite_numbers_are_told_from_others) {
    float values[4][3] = {{1, -FLT_MAX, FLT_MIN}, {0, -0.0F, FLT_TRUE_MIN}, {1, 1, 1}, {1, 1, 1}};
    uint16_t half[4][3] = {{0x3F80, 0xFF7F, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}};
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_FULL, values), 4);
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_BF16, half), 4);
    values[3][2] = -INFINITY;
    half[3][0] = 0xFF80; /* minus infinity */
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_FULL, values), 3);
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_BF16, half), 3);
    values[1][1] = NAN;
    half[2][2] = 0x7FC0; /* a NaN */
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_FULL, values), 1);
    assert_int_equal(not_finite(AML_FLOAT32, WIRE_BF16, half), 2);
    assert_int_equal(not_finite(AML_INT32, WIRE_FULL, values), 4);
}

/* Appended rows are found in the message and by rows_check. */
TEST(appended_rows_are_found) {
    const struct row_shape shapes[] = {CASES[0].shape, CASES[2].shape};
    CLOSED_BY(message_close) struct message message = {.type = MESSAGE_FLUSH};
    struct rows_view views[WIRE_TABLES_MAX], found;
    assert_int_equal(rows_check(&message, shapes, 2, views, NULL), 0);
    assert_false(rows_find(&message, 0, &found));
    for (unsigned t = 2; t-- > 0;) {
        struct buffer *keys = buffer_new((t + 1) * sizeof(uint64_t));
        struct buffer *values = buffer_new((size_t)(t + 1) * shapes[t].row_bytes);
        memset(keys->data, (int)t, keys->size);
        memset(values->data, 0, values->size);
        rows_append(&message, t, WIRE_FULL, keys, values);
    }
    assert_int_equal(rows_frames_check(&message, message.frame_count, "PUSH", NULL), 0);
    assert_int_equal(rows_check(&message, shapes, 2, views, NULL), 2);
    for (uint32_t t = 0; t < 2; t++) {
        assert_true(rows_find(&message, t, &found));
        assert_int_equal(found.table, t);
        assert_int_equal(views[1 - t].table, t);
        assert_ptr_equal(found.keys, views[1 - t].keys);
        assert_ptr_equal(found.values, views[1 - t].values);
        assert_int_equal(found.count, t + 1);
        assert_ptr_equal(found.keys, found.key_frame->data);
        assert_ptr_equal(found.values, found.value_frame->data);
    }
    assert_false(rows_find(&message, 2, &found));
}
