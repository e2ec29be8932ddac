/* Tests of apps/lda's model file: it is read as written, every damaged byte and every shorter file is refused in one
 * line, and an incomplete file is removed. */
#include <math.h>
#include <unistd.h>
#include <zlib.h>

#include "apps/lda/model.h"
#include "tests/files.h"
#include "tests/test.h"

enum { TOPICS = 5, WORDS = 4, FILE_MAX = 1024 };

static const char path[] = "model";
static const int32_t rows[WORDS][TOPICS] = {
    {0, 3, 0, 0, 1}, {0, 0, 0, 0, 0}, {7, 0, 0, 0, 0}, {1, 1, 1, 1, 2147483647}};
static const struct lda_model_header header = {TOPICS, WORDS, 0.5, 0.01};

static void write_model(const char *const *names) {
    struct lda_model_writer *writer;
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary vocabulary = {0};
    struct error error = {0};
    static const uint32_t order[WORDS] = {2, 0, 1, 3};
    assert_int_equal(lda_model_writer_open(&writer, path, &header, &error), 0);
    for (unsigned w = 0; w < WORDS; w++) {
        assert_int_equal(lda_model_writer_row(writer, order[w], rows[order[w]], &error), 0);
        if (names != NULL) {
            lda_vocabulary_add(&vocabulary, names[w], strlen(names[w]));
        }
    }
    assert_int_equal(lda_model_writer_close(writer, 0, &vocabulary, &error), 0);
}

static void assert_refused(const char *part) {
    struct lda_model model;
    struct error error = {0};
    int result = lda_model_load(path, &model, &error);
    if (result != AML_EINPUT || strstr(error.text, part) == NULL || strncmp(error.text, path, strlen(path)) != 0) {
        fail_msg("%d '%s', expected '%s'", result, error.text, part);
    }
}

TEST(what_is_written_is_read) {
    static const char *const names[WORDS] = {"alpha", "b", "gr\xC3\xBC\xC3\x9F", "omega"};
    for (unsigned named = 0; named < 2; named++) {
        CLOSED_BY(lda_model_close) struct lda_model model;
        struct error error = {0};
        float phi[TOPICS];
        write_model(named ? names : NULL);
        assert_int_equal(lda_model_load(path, &model, &error), 0);
        assert_int_equal(model.header.topics, TOPICS);
        assert_int_equal(model.header.vocabulary, WORDS);
        assert_true(model.header.alpha == 0.5 && model.header.beta == 0.01);
        assert_int_equal(model.names.count, named ? WORDS : 0);
        assert_true(!named || strcmp(lda_vocabulary_word(&model.names, 2), names[2]) == 0);
        for (uint32_t w = 0; w < WORDS; w++) {
            lda_model_phi(&model, w, phi);
            for (unsigned k = 0; k < TOPICS; k++) {
                double total = 0;
                for (unsigned v = 0; v < WORDS; v++) {
                    total += rows[v][k];
                }
                double expected = (rows[w][k] + 0.01) / (total + 0.01 * WORDS);
                assert_true(fabs((double)phi[k] - expected) < 1e-6);
            }
        }
    }
}

TEST(every_damage_is_found) {
    static const char *const names[WORDS] = {"one", "two", "three", "four"};
    unsigned char bytes[FILE_MAX];
    write_model(names);
    size_t size = read_bytes(path, bytes, FILE_MAX);
    for (size_t i = 0; i < size; i++) {
        for (unsigned bit = 0; bit < 8; bit += 3) {
            bytes[i] ^= (unsigned char)(1U << bit);
            write_bytes(path, bytes, size);
            assert_refused("model file");
            bytes[i] ^= (unsigned char)(1U << bit);
        }
    }
    for (size_t length = 0; length < size; length++) {
        write_bytes(path, bytes, length);
        assert_refused("model file");
    }
}

/* Wrong contents with a right checksum. */
TEST(contents_are_checked) {
    static const char *const names[WORDS] = {"one", "two", "three", "four"};
    static const struct {
        size_t at;
        unsigned char value;
        const char *part;
    } changes[] = {
        {8, 2, "version"},         {16, 0, "topics, words"},  {16, 1, "topic"},          {20, 3, "word"},
        {31, 0x80, "alpha"},       {39, 0xFF, "beta"},        {40, 3, "word"},           {44, 0, "number of topics"},
        {44, 200, "out of range"}, {48, 5, "topic or count"}, {52, 0, "topic or count"}, {55, 0x80, "topic or count"},
        {12, 1, "topics, words"},
    };
    unsigned char bytes[FILE_MAX];
    write_model(names);
    size_t size = read_bytes(path, bytes, FILE_MAX);
    for (size_t c = 0; c < sizeof changes / sizeof changes[0]; c++) {
        unsigned char before = bytes[changes[c].at];
        bytes[changes[c].at] = changes[c].value;
        uint32_t checksum = (uint32_t)crc32(crc32(0, NULL, 0), bytes, (uInt)size - 4);
        for (unsigned i = 0; i < 4; i++) {
            bytes[size - 4 + i] = (unsigned char)(checksum >> (8 * i));
        }
        write_bytes(path, bytes, size);
        assert_refused(changes[c].part);
        bytes[changes[c].at] = before;
    }
    unlink(path);
    assert_refused("No such file");
}

TEST(an_abandoned_file_leaves_the_old_one) {
    struct lda_model_writer *writer;
    struct error error = {0};
    unsigned char before[FILE_MAX];
    unsigned char after[FILE_MAX];
    write_model(NULL);
    size_t size = read_bytes(path, before, FILE_MAX);
    assert_int_equal(lda_model_writer_open(&writer, path, &header, &error), 0);
    assert_int_equal(lda_model_writer_row(writer, 0, rows[0], &error), 0);
    assert_int_equal(lda_model_writer_close(writer, AML_EFAIL, NULL, &error), AML_EFAIL);
    assert_int_equal(read_bytes(path, after, FILE_MAX), size);
    assert_memory_equal(before, after, size);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(files_in("."), 0); /* no other file is left */
    assert_int_equal(lda_model_writer_open(&writer, "/nonexistent/model", &header, &error), AML_EFAIL);
}

int main(void) {
    return tests_run(files_open, files_close_one);
}
