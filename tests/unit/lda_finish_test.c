/* Tests of the end of an lda job on made-up tables: wrong counts of every kind are found and named, and right counts
 * pass. An incomplete model leaves no file. */
#include <unistd.h>

#include "apps/lda/finish.h"
#include "apps/lda/model.h"
#include "tests/files.h"
#include "tests/test.h"

enum { TOPICS = 3, WORDS = 4 };

/* Contents of the tables that aml_scan reads. */
static int32_t words[WORDS][TOPICS + 1];
static uint64_t keys[WORDS];
static int64_t topics[TOPICS];
static char said[256];

int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context) {
    if (table == 1) {
        return each(context, (const uint64_t[]){0}, topics, 1);
    }
    int result = each(context, keys, words, WORDS / 2); /* in two calls */
    return result != 0 ? result : each(context, keys + WORDS / 2, words + WORDS / 2, WORDS - WORDS / 2);
}

int aml_error(aml_worker *worker, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    return code;
}

static void make_tables(void) {
    static const int32_t right[WORDS][TOPICS + 1] = {{1, 2, 0, 3}, {0, 0, 4, 4}, {5, 1, 1, 7}, {0, 0, 1, 1}};
    memcpy(words, right, sizeof words);
    memset(topics, 0, sizeof topics);
    for (unsigned w = 0; w < WORDS; w++) {
        keys[w] = WORDS - 1 - w;
        for (unsigned k = 0; k < TOPICS; k++) {
            topics[k] += words[w][k];
        }
    }
    said[0] = '\0';
}

static const char path[] = "model";

static int finish(void) {
    static const struct lda_vocabulary no_names;
    const struct lda_finish wanted = {.words_table = 0,
                                      .topics_table = 1,
                                      .topics = TOPICS,
                                      .vocabulary = WORDS,
                                      .tokens = 15,
                                      .alpha = 0.1,
                                      .beta = 0.01,
                                      .top_words = 2,
                                      .model_out = path,
                                      .names = &no_names};
    return lda_finish(NULL, &wanted);
}

static void assert_wrong(const char *part) {
    assert_int_equal(finish(), AML_EFAIL);
    if (strstr(said, part) == NULL) {
        fail_msg("'%s', expected '%s'", said, part);
    }
    assert_int_not_equal(access(path, F_OK), 0);
}

TEST(right_counts_pass) {
    struct lda_model model;
    struct error error = {0};
    make_tables();
    assert_int_equal(finish(), 0);
    assert_int_equal(lda_model_load(path, &model, &error), 0);
    for (unsigned k = 0; k < TOPICS; k++) {
        assert_true(model.totals[k] == (double)topics[k]);
    }
    lda_model_close(&model);
    assert_int_equal(unlink(path), 0);
}

TEST(wrong_counts_are_found) {
    make_tables();
    words[0][0] = -1;
    words[0][1] = 4;
    assert_wrong("word 3 has topic 0 -1 times");
    make_tables();
    words[1][2] = 3;
    assert_wrong("word 2 has 4 tokens, its topics sum up to 3");
    make_tables();
    words[2][0]--;
    words[2][1]++;
    assert_wrong("topic 0 has 6 tokens, over the words 5");
    make_tables();
    words[2][0]++;
    words[2][TOPICS]++;
    topics[0]++;
    assert_wrong("16 tokens have a topic, the data has 15");
    make_tables();
    keys[3] = WORDS;
    assert_wrong("word 4 of 4");
}

int main(void) {
    return tests_run(files_open, files_close);
}
