/* Tests of apps/lda's readers: each format, plain and gzip; refused input with its line; the tokenizer;
 * vocabularies. */
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "apps/lda/corpus.h"
#include "apps/lda/tokens.h"
#include "tests/files.h"
#include "tests/test.h"

static const char path[] = "input";

/* Collects read documents as text: "number: word*count word*count; ..." */
struct read_text {
    char text[4096];
    size_t length;
};

static int add_bag(void *context, const struct lda_bag *bag) {
    struct read_text *read = context;
    uint32_t tokens = 0;
    read->length +=
        (size_t)snprintf(read->text + read->length, sizeof read->text - read->length, "%" PRIu64 ":", bag->number);
    for (uint32_t i = 0; i < bag->count && i < 200; i++) {
        assert_true(i == 0 || bag->words[i] > bag->words[i - 1]);
        tokens += bag->counts[i];
        read->length += (size_t)snprintf(read->text + read->length, sizeof read->text - read->length, " %u*%u",
                                         bag->words[i], bag->counts[i]);
    }
    assert_true(tokens == bag->tokens || bag->count > 200);
    read->length += (size_t)snprintf(read->text + read->length, sizeof read->text - read->length, ";");
    /* for long documents only sizes are checked */
    read->length = read->length < sizeof read->text / 2 ? read->length : 0;
    return 0;
}

static struct lda_vocabulary vocabulary;

static int read_as(enum lda_format format, const char *text, struct read_text *read, struct lda_corpus_size *size,
                   struct error *error) {
    struct lda_corpus corpus = {
        .path = path, .format = format, .vocabulary = &vocabulary, .closed = vocabulary.count > 0, .minimum_length = 3};
    write_text(path, text);
    *read = (struct read_text){.length = 0};
    return lda_corpus_read(&corpus, add_bag, read, size, error);
}

static void assert_reads(const char *text, const char *expected, uint32_t words) {
    struct read_text read;
    struct lda_corpus_size size;
    struct error error = {0};
    if (read_as(LDA_FORMAT_AUTO, text, &read, &size, &error) != 0) {
        fail_msg("%s", error.text);
    }
    assert_string_equal(read.text, expected);
    assert_int_equal(size.words, words);
}

static void assert_refused_as(enum lda_format format, const char *text, const char *part, int code) {
    struct read_text read;
    struct error error = {0};
    int result = read_as(format, text, &read, NULL, &error);
    if (result != code || strstr(error.text, part) == NULL || strchr(error.text, '\n') != NULL ||
        strncmp(error.text, path, strlen(path)) != 0) {
        fail_msg("'%s': %d, '%s'; expected %d, '%s'", text, result, error.text, code, part);
    }
}

static void assert_refused(const char *text, const char *part) {
    assert_refused_as(LDA_FORMAT_AUTO, text, part, AML_EINPUT);
}

static void forget_words(void) {
    lda_vocabulary_close(&vocabulary);
}

TEST(uci) {
    assert_reads("3\n5\n4\n1 2 3\n1 5 1\n3 1 2\n3 2 1\n", "0: 1*3 4*1;2: 0*2 1*1;", 5);
    assert_reads(" 2 \n9\n3\r\n1 2 3\r\n2\t1  1\n\n2 1 4", "0: 1*3;1: 0*5;", 9);
    assert_refused("3\n5\n4\n1 2 3\n1 5 1\n3 1 2\n", "ends after 3 counts: expected 4");
    assert_refused("3\n5\n1\n1 2 3\n1 5 1\n", ":5: expected the end of the file");
    assert_refused("3\n5\n2\n1 2 3\n4 5 1\n", ":5: expected document 1 to 3, word 1 to 5");
    assert_refused("3\n5\n2\n1 2 3\n1 6 1\n", ":5:");
    assert_refused("3\n5\n2\n1 0 3\n1 5 1\n", ":4:");
    assert_refused("3\n5\n2\n1 1 0\n1 5 1\n", ":4:");
    assert_refused("3\n5\n2\n2 1 1\n1 5 1\n", ":5: expected documents in ascending order");
    assert_refused("3\n5\n2\n1 1\n1 5 1\n", ":4: expected 'document word count', got '1 1'");
    assert_refused("3\n5\n2\n1 1 1 1\n1 5 1\n", ":4:");
    assert_refused("3\n5\n2\n1 1 x\n1 5 1\n", ":4:");
    assert_refused("3\n5\n2\n1 1 18446744073709551617\n1 5 1\n", ":4:");
    assert_refused("3\nfive\n2\n1 1 1\n", ":2: expected the number of words");
    assert_refused("3\n5\n", "ends after line 2: expected the number of lines");
    assert_refused("3\n5\n0\n", "no document has a word");
    assert_refused("", "the file is empty");
    assert_refused_as(LDA_FORMAT_AUTO, "99999999999\n5\n0\n", "at most", AML_ELIMIT);
    assert_refused_as(LDA_FORMAT_AUTO, "1\n5\n2\n1 1 33554432\n1 2 33554432\n", "document 1 has 67108864 tokens",
                      AML_ELIMIT);
    assert_refused_as(LDA_FORMAT_UCI, "2 0:1 1:1\n", ":1: expected the number of documents", AML_EINPUT);
}

TEST(lda_c) {
    assert_reads("2 7:1 3:2\n0\n1 3:1\n", "0: 3*2 7*1;2: 3*1;", 8);
    assert_reads("2  7:1\t7:2 \r\n", "0: 7*3;", 8);
    assert_refused("2 7:1\n", ":1: 1 words, expected 2");
    assert_refused("1 7:1 8:1\n", ":1: 2 words, expected 1");
    assert_refused("1 7:1\n1 8:0\n", ":2: expected 'word:count'");
    assert_refused("1 7:1\n1 8\n", "got '8'");
    assert_refused("1 7:1\n1 8:1x\n", "got '8:1x'");
    assert_refused("1 7:1\n1 -8:1\n", ":2:");
    assert_refused("1 7:1\n1 99999999999:1\n", ":2:");
    assert_refused("1 7:1\nword\n", ":2: expected 'M word:count");
    assert_refused("1 7:1\n\n", ":2: expected 'M word:count");
}

TEST(a_vocabulary_bounds_the_words) {
    lda_vocabulary_add(&vocabulary, "first", 5);
    lda_vocabulary_add(&vocabulary, "second", 6);
    assert_reads("1 1:4\n", "0: 1*4;", 2);
    assert_refused("1 2:4\n", "word up to 1");
    assert_refused("1\n3\n1\n1 1 1\n", "1 documents of 3 words, but the vocabulary has 2 words");
    forget_words();
}

TEST(text) {
    assert_reads("The cat, the DOG.\n\nDog's 42 dog x2y to; dogs' 'cat'\n", "0: 0*2 1*1 2*1;2: 1*1 2*1 3*1 4*1 5*1;",
                 6);
    assert_string_equal(lda_vocabulary_word(&vocabulary, 2), "dog");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 3), "dog's");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 4), "x2y");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 5), "dogs");
    assert_null(lda_vocabulary_word(&vocabulary, 6));
    /* The vocabulary is now closed: other words are skipped. */
    assert_reads("a mouse and the cat\n", "0: 0*1 1*1;", 6);
    forget_words();
    assert_reads("\xC3\x84hre \xC3\xA4hre na\xC3\xAFve \xD0\x9F\xD0\xA0\xD0\x98 l\xE2\x80\x99"
                 "eau\n",
                 "0: 0*2 1*1 2*1 3*1;", 4);
    assert_string_equal(lda_vocabulary_word(&vocabulary, 0), "\xC3\xA4hre");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 2), "\xD0\xBF\xD1\x80\xD0\xB8");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 3), "l'eau");
    forget_words();
    assert_refused("fine\nna\xEFve\n", ":2: byte 3 (0xEF): expected text in UTF-8");
    forget_words();
    assert_refused("cut \xC3", ":1: byte 5");
    assert_refused("long \xC0\xAF", ":1: byte 6");
    assert_refused("surrogate \xED\xA0\x80", ":1: byte 11");
    forget_words();
    assert_refused("it is so\n", "no document has a word");
    assert_refused_as(LDA_FORMAT_LDA_C, "some words here\n", ":1:", AML_EINPUT);
}

TEST(stop_words) {
    struct lda_vocabulary stop_words = {0};
    struct lda_corpus corpus = {
        .path = path, .vocabulary = &vocabulary, .stop_words = &stop_words, .minimum_length = 1};
    struct read_text read = {.length = 0};
    struct error error = {0};
    const char *text = "I don't think that the topic of THIS is a word\n";
    assert_int_equal(lda_stop_words_read(&stop_words, NULL, true, &error), 0);
    write_text(path, text);
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, NULL, &error), 0);
    assert_string_equal(read.text, "0: 0*1 1*1 2*1;");
    assert_string_equal(lda_vocabulary_word(&vocabulary, 1), "topic");
    lda_vocabulary_close(&stop_words);
    forget_words();
}

TEST(a_folder_of_texts) {
    struct read_text read = {.length = 0};
    struct error error = {0};
    assert_int_equal(mkdir("texts", 0700), 0);
    write_bytes("texts/b", "second file\nof two lines", 24);
    write_bytes("texts/a", "first file", 10);
    write_bytes("texts/c", "", 0);
    write_bytes("texts/.hidden", "\xFF", 1);
    struct lda_corpus corpus = {.path = "texts", .vocabulary = &vocabulary, .minimum_length = 3};
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, NULL, &error), 0);
    assert_string_equal(read.text, "0: 0*1 1*1;1: 1*1 2*1 3*1 4*1;");
    corpus.format = LDA_FORMAT_UCI;
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, NULL, &error), AML_EINPUT);
    forget_words();
}

TEST(gzip) {
    struct read_text read = {.length = 0};
    struct error error = {0};
    unsigned char bytes[4096];
    gzFile file = gzopen("input.gz", "wb");
    assert_non_null(file);
    for (unsigned i = 0; i < 200; i++) {
        gzprintf(file, "1 %u:%u\n", i * 7919 % 1000, i + 1);
    }
    assert_int_equal(gzclose(file), Z_OK);
    struct lda_corpus corpus = {.path = "input.gz"};
    struct lda_corpus_size size;
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, &size, &error), 0);
    assert_int_equal(size.documents, 200);
    assert_int_equal(size.tokens, 200 * 201 / 2);
    write_bytes("cut.gz", bytes, read_bytes("input.gz", bytes, sizeof bytes) - 100);
    corpus.path = "cut.gz";
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, &size, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "truncated gzip data"));
    error = (struct error){0};
    corpus.path = ".";
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, &size, &error), AML_EINPUT); /* words have no names */
    error = (struct error){0};
    corpus.path = "/nonexistent";
    assert_int_equal(lda_corpus_read(&corpus, add_bag, &read, &size, &error), AML_EINPUT);
    assert_string_equal(error.text, "/nonexistent: cannot open: No such file or directory");
}

static void assert_vocabulary(const char *text, const char *part) {
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary words = {0};
    struct error error = {0};
    write_text("words", text);
    int result = lda_vocabulary_read(&words, "words", &error);
    if (part != NULL && (result != AML_EINPUT || strstr(error.text, part) == NULL)) {
        fail_msg("%d: %s", result, error.text);
    }
    assert_true(part != NULL || result == 0);
}

TEST(vocabularies) {
    char long_word[LDA_WORD_MAX + 2];
    memset(long_word, 'x', sizeof long_word);
    long_word[LDA_WORD_MAX + 1] = '\0';
    assert_vocabulary("one\ntwo\r\nthree", NULL);
    assert_vocabulary("\xEF\xBB\xBFone \r\ttwo\rthree\r \r\r", NULL);
    assert_vocabulary("\xEF\xBB\xBFone\none \n", ":2: the word 'one' is in line 1 already");
    assert_vocabulary("one\r\r\rtwo\r", ":2: expected one word of 1 to 128 bytes, got 0 bytes");
    assert_vocabulary("one\ntwo\none\n", ":3: the word 'one' is in line 1 already");
    assert_vocabulary("one\n\ntwo\n", ":2: expected one word");
    assert_vocabulary(long_word, ":1: expected one word of 1 to 128 bytes");
    assert_vocabulary("", "no words");
    CLOSED_BY(lda_vocabulary_close) struct lda_vocabulary words = {0};
    char word[16];
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(lda_vocabulary_add(&words, word, (size_t)snprintf(word, sizeof word, "w%u", i)), i);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(lda_vocabulary_find(&words, word, (size_t)snprintf(word, sizeof word, "w%u", i)), i);
        assert_string_equal(lda_vocabulary_word(&words, i), word);
    }
    assert_int_equal(lda_vocabulary_find(&words, "w", 1), -1);
}

/* Line ends, byte order marks and blanks as other systems and editors write them. The same code reads the gzip of
 * all files. */
TEST(line_ends_marks_and_blanks) {
    assert_reads("\xEF\xBB\xBF"
                 "3\r5\r4\r1 2 3\r1 5 1 \r3 1 2\r3 2 1",
                 "0: 1*3 4*1;2: 0*2 1*1;", 5);
    assert_reads("3 \r\n5\n4\r1 2 3\t\r\n1 5 1\n3 1 2\r3 2 1\r\n\r\n", "0: 1*3 4*1;2: 0*2 1*1;", 5);
    assert_reads("\xEF\xBB\xBF"
                 "2 7:1 3:2 \r0\r1 3:1\r",
                 "0: 3*2 7*1;2: 3*1;", 8);
    assert_reads("\xEF\xBB\xBFthe cat\rthe dog \r\ncat\n", "0: 0*1 1*1;1: 0*1 2*1;2: 1*1;", 3);
    forget_words();
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        char text[64];
        snprintf(text, sizeof text, "3%s5%s2%s%s1 2 3%s1 6 1%s", ends[e], ends[e], ends[e], ends[e], ends[e], ends[e]);
        assert_refused(text, ":6: expected document 1 to 3, word 1 to 5");
    }
    assert_refused("1 7:1\n\xff\xfe", ":2: expected");
    assert_refused("\xff\xfe"
                   "1 7:1\n",
                   ": text in UTF-16: expected UTF-8");
    assert_refused("BZh91AY&SY data", ": bzip2 data: expected plain text, gzip or zstd");
}

/* Lines longer than the reader's buffer. */
TEST(long_lines) {
    enum { WORDS = 100000 };
    FREED char *text = malloc(WORDS * 10 + 20);
    struct read_text read = {.length = 0};
    struct lda_corpus_size size;
    struct error error = {0};
    assert_non_null(text);
    size_t length = (size_t)sprintf(text, "%d", WORDS);
    for (unsigned i = 0; i < WORDS; i++) {
        length += (size_t)sprintf(text + length, " %u:1", i);
    }
    assert_int_equal(read_as(LDA_FORMAT_AUTO, text, &read, &size, &error), 0);
    assert_int_equal(size.tokens, WORDS);
}

int main(void) {
    return tests_run(files_open, files_close);
}
