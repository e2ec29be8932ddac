/* The model file is read as written, any damage is refused, a failed write leaves no file; and a model's
 * predictions. */
#include "apps/mf/model.h"
#include "tests/files.h"
#include "tests/test.h"

#include "apps/mf/kernel.h"
#include "apps/mf/names.h"
#include "workers/data/rating_ids.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { FILE_SIZE_MAX = 4096 };

static const char path[] = "model";

struct fixture {
    struct error error;
};

static int fixture_open(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    return files_open(state);
}

static int fixture_close(void **state) {
    free(*state);
    return files_close_one(state); /* also fails if a file was left behind */
}

/* A model of rank 2 with biases: users 7 and 1 << 40, items 7, 8 and UINT64_MAX. The stride exceeds the rows' size. */
static const struct mf_model_header small_header = {
    .rank = 2, .biases = true, .mean = 3.0F, .rating_min = 1.0F, .rating_max = 5.0F};
static const uint64_t small_users[2] = {7, UINT64_C(1) << 40};
static const float small_user_rows[2][4] = {{1.0F, 2.0F, 0.25F, NAN}, {-1.0F, 0.5F, -0.5F, NAN}};
static const uint64_t small_items[3] = {7, 8, UINT64_MAX};
static const float small_item_rows[3][4] = {{0.5F, -0.25F, 0.125F, NAN}, {3.0F, 3.0F, 1.0F, NAN}, {-3, -3, -1, NAN}};

static void write_small(struct fixture *f) {
    struct mf_model_writer *writer;
    assert_int_equal(mf_model_writer_open(&writer, path, &small_header, &f->error), 0);
    /* In parts, as from a server's partitions. */
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_USERS, small_users, small_user_rows,
                                          sizeof small_user_rows[0], 2, &f->error),
                     0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, small_items, small_item_rows,
                                          sizeof small_item_rows[0], 1, &f->error),
                     0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, small_items + 1, small_item_rows + 1,
                                          sizeof small_item_rows[0], 2, &f->error),
                     0);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    assert_int_equal(files_in("."), 1);
}

/* Loading fails with `code`; the error names the file and contains `text`. */
static void assert_refused(struct fixture *f, int code, const char *text) {
    struct mf_model model;
    struct error error = {0};
    int got = mf_model_load(path, &model, &error);
    if (got == 0) {
        mf_model_close(&model);
    }
    assert_int_equal(got, code);
    assert_int_equal(error.code, code);
    assert_non_null(strstr(error.text, path));
    if (strstr(error.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error.text, text);
    }
}

static void assert_predicts(const struct mf_model *model, uint64_t user, uint64_t item, double expected) {
    double got = (double)mf_model_predict(model, user, item);
    if (!(fabs(got - expected) < 1e-6)) {
        fail_msg("user %llu, item %llu: %g, expected %g", (unsigned long long)user, (unsigned long long)item, got,
                 expected);
    }
}

TEST(predictions) {
    struct fixture *f = *state;
    write_small(f);
    CLOSED_BY(mf_model_close) struct mf_model model;
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    assert_int_equal(model.header.rank, 2);
    assert_true(model.header.biases);
    assert_int_equal(model.maps[MF_MODEL_USERS].count, 2);
    assert_int_equal(model.maps[MF_MODEL_ITEMS].count, 3);
    assert_predicts(&model, 7, 7, 3.0 + 0.25 + 0.125 + (0.5 - 0.5));
    assert_predicts(&model, UINT64_C(1) << 40, 7, 3.0 - 0.5 + 0.125 + (-0.5 - 0.125));
    assert_predicts(&model, 7, 8, 5.0);          /* clipped */
    assert_predicts(&model, 7, UINT64_MAX, 1.0); /* clipped */
    assert_predicts(&model, 7, 9, 3.25);         /* unknown item */
    assert_predicts(&model, 9, 8, 4.0);          /* unknown user */
    assert_predicts(&model, 9, 9, 3.0);          /* both unknown */
}

TEST(without_biases_and_without_rows) {
    struct fixture *f = *state;
    struct mf_model_header header = {.rank = 1, .mean = 0.0F, .rating_min = -2.0F, .rating_max = 2.0F};
    struct mf_model_writer *writer;
    struct mf_model model;
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    assert_predicts(&model, 1, 1, 0.0);
    mf_model_close(&model);

    float p = 0.5F;
    float q = -3.0F;
    uint64_t key = 1;
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_USERS, &key, &p, sizeof p, 1, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, &key, &q, sizeof q, 1, &f->error), 0);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    assert_false(model.header.biases);
    assert_predicts(&model, 1, 1, -1.5);
    assert_predicts(&model, 1, 2, 0.0);
    mf_model_close(&model);
}

/* A model of log(1 + rating) predicts ratings within their range. */
TEST(of_logarithms) {
    struct fixture *f = *state;
    struct mf_model_header header = {
        .rank = 1, .log1p = true, .mean = 1.0F, .rating_min = 0.0F, .rating_max = (float)log1p(1000)};
    struct mf_model_writer *writer;
    CLOSED_BY(mf_model_close) struct mf_model model;
    const float p[3] = {0.5F, -4.0F, 4.0F};
    const float q = 2.0F;
    const uint64_t keys[3] = {1, 2, 3};
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_USERS, keys, p, sizeof p[0], 3, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, keys, &q, sizeof q, 1, &f->error), 0);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    assert_true(model.header.log1p && !model.header.biases);
    assert_predicts(&model, 1, 1, (double)(float)expm1(2));
    assert_predicts(&model, 2, 1, 0);
    assert_true(fabs((double)mf_model_predict(&model, 3, 1) - 1000) < 1e-3);
}

/* Models larger than the writer's buffer, also at the largest rank. */
static void write_and_compare(struct fixture *f, uint32_t rank, size_t users, size_t items) {
    struct mf_model_header header = {
        .rank = rank, .biases = true, .mean = 3.0F, .rating_min = -1000.0F, .rating_max = 1000.0F};
    struct mf_model_writer *writer;
    FREED float *row = calloc(rank + 1, sizeof *row);
    FREED float *other = calloc(rank + 1, sizeof *other);
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    for (uint64_t key = 0; key < users + items; key++) {
        unsigned table = key < users ? MF_MODEL_USERS : MF_MODEL_ITEMS;
        mf_initial_row(1, table, key * 3, rank, true, row);
        row[rank] = (float)key;
        uint64_t stored = key * 3;
        assert_int_equal(mf_model_writer_rows(writer, table, &stored, row, 0, 1, &f->error), 0);
    }
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    CLOSED_BY(mf_model_close) struct mf_model model;
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    assert_int_equal(model.maps[MF_MODEL_USERS].count, users);
    assert_int_equal(model.maps[MF_MODEL_ITEMS].count, items);
    for (uint64_t user = 0; user < users; user += 1 + users / 10) {
        for (uint64_t item = users; item < users + items; item += 1 + items / 10) {
            mf_initial_row(1, MF_MODEL_USERS, user * 3, rank, true, row);
            mf_initial_row(1, MF_MODEL_ITEMS, item * 3, rank, true, other);
            double expected = 3.0 + (double)user + (double)item;
            for (uint32_t k = 0; k < rank; k++) {
                expected += (double)row[k] * (double)other[k];
            }
            expected = expected > 1000 ? 1000 : expected;
            assert_true(fabs((double)mf_model_predict(&model, user * 3, item * 3) - expected) < 1e-3);
        }
    }
}

TEST(many_rows) {
    write_and_compare(*state, 16, 20000, 10000);
    write_and_compare(*state, MF_RANK_MAX, 70, 70);
}

/* The file has the documented bytes, for readers in other languages and later versions. */
TEST(the_format_is_the_documented_one) {
    struct fixture *f = *state;
    write_small(f);
    unsigned char bytes[FILE_SIZE_MAX];
    size_t size = read_bytes(path, bytes, FILE_SIZE_MAX);
    assert_int_equal(size, 48 + 5 * (8 + 3 * 4) + 4);
    static const unsigned char start[48 + 20] = {
        'A', 'M', 'L',  'M',  'F', 'M', 'D',  'L',  1, 0, 0,    0,    /* magic, version */
        1,   0,   0,    0,    2,   0,   0,    0,                      /* flags, rank */
        0,   0,   0x40, 0x40, 0,   0,   0x80, 0x3F, 0, 0, 0xA0, 0x40, /* 3.0, 1.0, 5.0 */
        2,   0,   0,    0,    0,   0,   0,    0,                      /* users */
        3,   0,   0,    0,    0,   0,   0,    0,                      /* items */
        7,   0,   0,    0,    0,   0,   0,    0,                      /* the first user */
        0,   0,   0x80, 0x3F, 0,   0,   0,    0x40, 0, 0, 0x80, 0x3E  /* 1.0, 2.0, 0.25 */
    };
    assert_memory_equal(bytes, start, sizeof start);
    unsigned long checksum = crc32(0, bytes, (unsigned)size - 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(bytes[size - 4 + i], checksum >> (8 * i) & 0xFF);
    }
}

TEST(a_changed_byte_anywhere_is_refused) {
    struct fixture *f = *state;
    write_small(f);
    unsigned char bytes[FILE_SIZE_MAX];
    size_t size = read_bytes(path, bytes, FILE_SIZE_MAX);
    static const unsigned char changes[] = {0x01, 0x80, 0xFF};
    for (size_t at = 0; at < size; at++) {
        for (size_t c = 0; c < sizeof changes; c++) {
            bytes[at] ^= changes[c];
            write_bytes(path, bytes, size);
            assert_refused(f, AML_EINPUT, "");
            bytes[at] ^= changes[c];
        }
    }
    bytes[60] ^= 1;
    write_bytes(path, bytes, size);
    assert_refused(f, AML_EINPUT, "checksum");
}

TEST(every_other_length_is_refused) {
    struct fixture *f = *state;
    write_small(f);
    unsigned char bytes[FILE_SIZE_MAX] = {0};
    size_t size = read_bytes(path, bytes, FILE_SIZE_MAX);
    for (size_t length = 0; length < size; length++) {
        write_bytes(path, bytes, length);
        assert_refused(f, AML_EINPUT, "truncated");
    }
    write_bytes(path, bytes, size + 1);
    assert_refused(f, AML_EINPUT, "checksum");
}

/* Writes `bytes` with a matching checksum. */
static void write_sealed(struct fixture *f, unsigned char *bytes, size_t size) {
    unsigned long checksum = crc32(0, bytes, (unsigned)size - 4);
    for (size_t i = 0; i < 4; i++) {
        bytes[size - 4 + i] = (unsigned char)(checksum >> (8 * i));
    }
    write_bytes(path, bytes, size);
}

/* Intact files with wrong contents: a writer's mistake, or a malicious file. */
TEST(wrong_contents_are_refused) {
    struct fixture *f = *state;
    static const unsigned char nan_bytes[4] = {0, 0, 0xC0, 0x7F};
    static const unsigned char infinity_bytes[4] = {0, 0, 0x80, 0x7F};
    static const struct {
        size_t at, length;
        unsigned char bytes[8];
        const char *text;
    } cases[] = {
        {0, 1, {'a'}, "not a model file"},
        {8, 1, {3}, "version 3, expected at most 2"},
        {12, 1, {3}, "unknown flags 0x3"}, /* names need version 2 */
        {12, 1, {0}, "too long"},
        {16, 1, {0}, "rank 0, expected 1..4096"},
        {16, 2, {1, 0x10}, "rank 4097"},
        {16, 4, {0xFF, 0xFF, 0xFF, 0xFF}, "rank 4294967295"},
        {16, 1, {3}, "truncated"},
        {24, 4, {0, 0, 0xC0, 0x40}, "range of ratings 6..5"},
        {32, 1, {3}, "truncated"},
        {32, 1, {1}, "too long"},
        {32, 8, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}, "at most"},
        {40, 8, {0, 0, 0, 0, 0, 0, 0, 0x80}, "at most"},
        {40, 4, {0, 0, 0, 0x40}, "truncated"},
        {48 + 20, 8, {7, 0, 0, 0, 0, 0, 0, 0}, "user 7 twice"},
        {48 + 60, 1, {7}, "item 7 twice"},
    };
    write_small(f);
    unsigned char whole[FILE_SIZE_MAX];
    unsigned char bytes[FILE_SIZE_MAX];
    size_t size = read_bytes(path, whole, FILE_SIZE_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(bytes, whole, size);
        memcpy(bytes + cases[i].at, cases[i].bytes, cases[i].length);
        write_sealed(f, bytes, size);
        assert_refused(f, AML_EINPUT, cases[i].text);
    }
    for (size_t at = 20; at < size - 4; at += 4) {
        bool header_float = at < 32;
        bool row_float = at >= 48 && (at - 48) % 20 >= 8;
        if (header_float || row_float) {
            memcpy(bytes, whole, size);
            memcpy(bytes + at, nan_bytes, 4);
            write_sealed(f, bytes, size);
            assert_refused(f, AML_EINPUT, header_float ? "nan" : "not finite");
            memcpy(bytes + at, infinity_bytes, 4);
            write_sealed(f, bytes, size);
            assert_refused(f, AML_EINPUT, header_float ? "inf" : "not finite");
        }
    }
    write_sealed(f, whole, size); /* unchanged, the file is accepted */
    CLOSED_BY(mf_model_close) struct mf_model model;
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
}

/* ---- Names ---- */

/* Writes a model of rank 1 with users 7 and "alice", and items "007", "T, \"X\"" and 2^64 - 1. Copies the file to
 * `bytes` and returns its size. */
static size_t write_named(struct fixture *f, unsigned char bytes[FILE_SIZE_MAX]) {
    static const char *const texts[] = {"alice", "007", "T, \"X\"", "18446744073709551615"};
    static const float rows[3] = {1, 2, 3};
    const struct mf_model_header header = {.rank = 1, .mean = 3, .rating_min = 1, .rating_max = 5};
    uint64_t keys[4];
    struct mf_names names[2] = {{0}, {0}};
    for (size_t i = 0; i < 4; i++) {
        assert_true(rating_id_key(&(struct text_field){.text = texts[i], .length = strlen(texts[i])}, &keys[i]));
    }
    const uint64_t users[2] = {7, keys[0]};
    for (size_t i = 0; i < 2; i++) {
        mf_names_want(&names[MF_MODEL_USERS], users[i]);
    }
    for (size_t i = 1; i < 4; i++) {
        mf_names_want(&names[MF_MODEL_ITEMS], keys[i]);
    }
    assert_int_equal(mf_names_check(names, &f->error), AML_EINPUT);
    f->error = (struct error){0};
    for (size_t i = 0; i < 4; i++) {
        struct mf_names *of = &names[i == 0 ? MF_MODEL_USERS : MF_MODEL_ITEMS];
        assert_int_equal(mf_names_set(of, keys[i], texts[i], strlen(texts[i]), &f->error), 0);
        assert_int_equal(mf_names_set(of, keys[i], texts[i], strlen(texts[i]), &f->error), 0);
        assert_int_equal(mf_names_set(of, 99, "not wanted", 10, &f->error), 0);
    }
    assert_int_equal(names[MF_MODEL_USERS].count, 1);
    assert_int_equal(names[MF_MODEL_ITEMS].count, 3);
    assert_int_equal(mf_names_check(names, &f->error), 0);
    struct mf_model_writer *writer;
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_USERS, users, rows, sizeof rows[0], 2, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, keys + 1, rows, sizeof rows[0], 3, &f->error), 0);
    assert_int_equal(mf_model_writer_names(writer, names, &f->error), 0);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), 0);
    mf_names_close(&names[MF_MODEL_USERS]);
    mf_names_close(&names[MF_MODEL_ITEMS]);
    return read_bytes(path, bytes, FILE_SIZE_MAX);
}

TEST(names) {
    struct fixture *f = *state;
    unsigned char bytes[FILE_SIZE_MAX];
    size_t size = write_named(f, bytes);
    assert_int_equal(bytes[8], 2);  /* version */
    assert_int_equal(bytes[12], 2); /* flags */
    struct mf_model model;
    assert_int_equal(mf_model_load(path, &model, &f->error), 0);
    uint64_t key;
    assert_true(rating_id_key(&(struct text_field){.text = "007", .length = 3}, &key));
    assert_true(mf_model_knows(&model, MF_MODEL_ITEMS, key));
    assert_false(mf_model_knows(&model, MF_MODEL_USERS, key));
    assert_true(mf_model_knows(&model, MF_MODEL_USERS, 7));
    mf_model_close(&model);
    /* Damaged names with a right checksum. */
    const size_t names = 48 + 5 * 12;
    static const struct {
        size_t at;
        unsigned char byte;
        const char *text;
    } cases[] = {{8, 1, "unknown flags 0x2"},     {12, 0, "too long"},           {48 + 5 * 12, 2, "damaged"},
                 {48 + 5 * 12 + 8, 2, "damaged"}, {48 + 5 * 12 + 16, 0, "key"},  {48 + 5 * 12 + 24, 0, "too long"},
                 {48 + 5 * 12 + 27, 1, "long"},   {48 + 5 * 12 + 28, 'A', "key"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char damaged[FILE_SIZE_MAX];
        memcpy(damaged, bytes, size);
        damaged[cases[i].at] = cases[i].byte;
        write_sealed(f, damaged, size);
        assert_refused(f, AML_EINPUT, cases[i].text);
    }
    for (size_t end = names; end < size - 4; end++) {
        unsigned char damaged[FILE_SIZE_MAX];
        memcpy(damaged, bytes, size);
        write_sealed(f, damaged, end + 4);
        assert_refused(f, AML_EINPUT, "the model file is");
    }
}

TEST(two_texts_of_one_hash_are_refused) {
    struct fixture *f = *state;
    CLOSED_BY(mf_names_close) struct mf_names names = {0};
    mf_names_want(&names, RATING_ID_TEXT | 5);
    assert_int_equal(mf_names_set(&names, RATING_ID_TEXT | 5, "one", 3, &f->error), 0);
    assert_int_equal(mf_names_set(&names, RATING_ID_TEXT | 5, "other", 5, &f->error), AML_EINPUT);
    assert_string_equal(f->error.text, "the ids 'one' and 'other' have the same 64-bit hash: rename one of them");
}

TEST(no_file_and_no_regular_file) {
    struct fixture *f = *state;
    assert_refused(f, AML_EINPUT, strerror(ENOENT));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused(f, AML_EINPUT, "not a regular file");
    struct mf_model_writer *writer;
    assert_int_equal(mf_model_writer_open(&writer, path, &small_header, &f->error), AML_EINPUT);
    assert_null(writer);
    assert_non_null(strstr(f->error.text, "a folder: expected the path of a file"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_refused(f, AML_EINPUT, "not a regular file");
    assert_int_equal(unlink(path), 0);
    struct error error = {0};
    assert_int_equal(mf_model_writer_open(&writer, "none/model", &small_header, &error), AML_EFAIL);
    assert_non_null(strstr(error.text, "none/model"));
    assert_non_null(strstr(error.text, strerror(ENOENT)));
}

/* Readers see no change until the writer is closed, and none if it is abandoned. */
TEST(an_older_file_stands_until_the_end) {
    struct fixture *f = *state;
    write_small(f);
    unsigned char before[FILE_SIZE_MAX];
    unsigned char after[FILE_SIZE_MAX];
    size_t size = read_bytes(path, before, FILE_SIZE_MAX);
    struct mf_model_writer *writer;
    struct mf_model_header header = small_header;
    header.mean = 4.0F;
    assert_int_equal(mf_model_writer_open(&writer, path, &header, &f->error), 0);
    assert_int_equal(read_bytes(path, after, FILE_SIZE_MAX), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(mf_model_writer_close(writer, AML_EFAIL, &f->error), AML_EFAIL);
    assert_int_equal(files_in("."), 1);
    assert_int_equal(read_bytes(path, after, FILE_SIZE_MAX), size);
    assert_memory_equal(before, after, size);
}

TEST(a_diverged_model_is_not_written) {
    struct fixture *f = *state;
    write_small(f);
    struct mf_model_writer *writer;
    static const float row[3] = {1, INFINITY, 0};
    assert_int_equal(mf_model_writer_open(&writer, path, &small_header, &f->error), 0);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_USERS, small_users, row, sizeof row, 1, &f->error),
                     AML_EFAIL);
    assert_int_equal(mf_model_writer_rows(writer, MF_MODEL_ITEMS, small_items, small_item_rows,
                                          sizeof small_item_rows[0], 1, &f->error),
                     AML_EFAIL);
    assert_int_equal(mf_model_writer_close(writer, 0, &f->error), AML_EFAIL);
    assert_non_null(strstr(f->error.text, "not finite"));
    assert_int_equal(files_in("."), 1);
    CLOSED_BY(mf_model_close) struct mf_model model;
    struct error error = {0};
    assert_int_equal(mf_model_load(path, &model, &error), 0); /* the older model */
}

/* Writes `rows` user rows to the file `name`. Returns the result of closing. */
static int write_rows(const char *name, size_t rows, struct error *error) {
    struct mf_model_writer *writer;
    int code = mf_model_writer_open(&writer, name, &small_header, error);
    if (code != 0) {
        return code;
    }
    for (uint64_t key = 0; key < rows; key++) {
        (void)mf_model_writer_rows(writer, MF_MODEL_USERS, &key, small_user_rows, 0, 1, error);
    }
    return mf_model_writer_close(writer, 0, error);
}

TEST(a_device_is_not_replaced) {
    struct error error = {0};
    struct stat status;
    assert_int_equal(write_rows("/dev/null", 10, &error), AML_EINPUT);
    assert_string_equal(error.text, "/dev/null: a device or pipe: expected the path of a file");
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_int_equal(files_in("."), 0);
}

/* A disk that fills up at any point, simulated by the limit on file sizes in a child process. */
TEST(a_full_disk_leaves_nothing) {
    struct fixture *f = *state;
    write_small(f);
    unsigned char before[FILE_SIZE_MAX];
    unsigned char after[FILE_SIZE_MAX];
    size_t size = read_bytes(path, before, FILE_SIZE_MAX);
    static const rlim_t limits[] = {0, 10, 60, 250, 1500000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct rlimit limit = {limits[i], limits[i]};
            struct error error = {0};
            (void)signal(SIGXFSZ, SIG_IGN);
            bool right = setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                         write_rows(path, limits[i] > 1000 ? 100000 : 10, &error) == AML_EFAIL &&
                         strstr(error.text, path) != NULL && strstr(error.text, strerror(EFBIG)) != NULL;
            _exit(right ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(files_in("."), 1);
        assert_int_equal(read_bytes(path, after, FILE_SIZE_MAX), size);
        assert_memory_equal(before, after, size);
    }
}

int main(void) {
    return tests_run_each(fixture_open, fixture_close);
}
