/* apps/lda/survey.c and the runs of apps/lda/corpus.c: documents read in parts have the contents and numbers of a
 * whole reading, whoever reads which part. Also what a survey refuses. */
#include "apps/lda/survey.h"
#include "tests/files.h"
#include "tests/test.h"

#include "agileml/base/hash.h"
#include "workers/data/line_chunks.h"

#include <inttypes.h>
#include <unistd.h>

enum { FILES = 4, DOCUMENTS = 3000, LONG = 40000 /* words of a document longer than an extent */ };

static const char *const paths[FILES] = {"0", "1", "2", "3"};

/* ---- Files ---- */

static uint32_t words_of(uint64_t seed, uint32_t document) {
    uint64_t random = hash_mix(seed * 1000003 + document);
    return document == 1500 ? LONG : random % 20 == 0 ? 0 : (uint32_t)(random >> 32) % 90;
}

/* Writes documents with line ends `ends`; the last `empty` documents have no words. */
static void write_file(unsigned f, enum lda_format format, uint64_t seed, uint32_t empty, const char *ends) {
    FILE *file = open_file(paths[f], "we");
    uint64_t counts = 0;
    for (uint32_t d = 0; d < DOCUMENTS - empty; d++) {
        counts += words_of(seed, d);
    }
    if (format == LDA_FORMAT_UCI) {
        fprintf(file, "%d%s%d%s%" PRIu64 "%s", DOCUMENTS, ends, 2 * LONG, ends, counts, ends);
    }
    for (uint32_t d = 0; d < DOCUMENTS; d++) {
        uint32_t words = d < DOCUMENTS - empty ? words_of(seed, d) : 0;
        if (format == LDA_FORMAT_LDA_C) {
            fprintf(file, "%u", words);
        }
        for (uint32_t w = 0; w < words; w++) {
            if (format == LDA_FORMAT_UCI) {
                fprintf(file, "%u %u %u%s", d + 1, 2 * w + d % 2 + 1, 1 + w % 3, ends);
            } else {
                fprintf(file, " %u:%u", 2 * w + d % 2, 1 + w % 3);
            }
        }
        fprintf(file, "%s", format == LDA_FORMAT_LDA_C || d % 700 == 0 ? ends : "");
    }
    assert_int_equal(fclose(file), 0);
}

/* ---- Documents ---- */

/* The documents of a reading, by number: a hash of words and counts. */
struct documents {
    uint64_t hashes[FILES * DOCUMENTS];
    uint64_t count;
};

static int add_bag(void *context, const struct lda_bag *bag) {
    struct documents *documents = context;
    assert_true(bag->number < FILES * DOCUMENTS && documents->hashes[bag->number] == 0);
    uint64_t hash = hash_bytes((const void *)bag->words, bag->count * sizeof *bag->words, bag->tokens);
    documents->hashes[bag->number] = hash_bytes((const void *)bag->counts, bag->count * sizeof *bag->counts, hash) | 1;
    documents->count++;
    return 0;
}

struct part {
    const struct lda_survey *survey;
    struct lda_corpus corpus;
    uint32_t file;
    struct documents *documents;
};

static int take_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct part *part = context;
    struct error error = {0};
    const char *at;
    const struct lda_chunk *found = lda_survey_find(part->survey, part->file, chunk->extent, chunk->offset);
    const struct lda_head *head = &part->survey->files[part->file].head;
    size_t skip = chunk->extent == 0 && chunk->offset < head->begin ? (size_t)(head->begin - chunk->offset) : 0;
    assert_true(thread == 0 && found != NULL);
    const struct lda_run run = {.text = chunk->text, .size = chunk->size, .skip = skip, .number = found->line};
    assert_int_equal(lda_read_run(&part->corpus, head, &run, add_bag, part->documents, &at, &error), 0);
    return 0;
}

static int survey_as(const struct input_list *list, enum lda_format format, struct lda_survey *survey,
                     struct error *error) {
    const struct lda_corpus corpus = {.format = format};
    return lda_survey(list, &corpus, 0, survey, error);
}

/* Reads each file in `parts` parts, from the last part to the first. */
static void read_parts(const struct lda_survey *survey, uint32_t parts, struct documents *documents) {
    CLOSED_BY(input_deal_close) struct input_deal deal;
    input_deal_open(&deal, parts, 0);
    for (uint32_t f = 0; f < survey->file_count; f++) {
        struct error error;
        CLOSED_BY(extents_close) struct extents extents;
        struct part part = {.survey = survey, .file = f, .documents = documents};
        part.corpus.path = survey->files[f].path;
        part.corpus.first_number = survey->files[f].first_number;
        assert_int_equal(extents_make(&extents, survey->files[f].path, 0, &error), 0);
        assert_true(extents.count > 2);
        input_deal_file(&deal, &extents);
        for (uint32_t p = parts; p > 0; p--) {
            const struct line_reading reading = {.extents = &extents,
                                                 .part = input_deal_part(&deal, p - 1),
                                                 .threads = 1,
                                                 .line_max = 1 << 26,
                                                 .group = lda_head_group(&survey->files[f].head),
                                                 .sink = take_chunk,
                                                 .context = &part};
            assert_int_equal(line_chunks_read(&reading, &error), 0);
        }
    }
}

static void list_files(struct input_list *list, unsigned count) {
    struct error error;
    *list = (struct input_list){0};
    for (unsigned f = 0; f < count; f++) {
        assert_int_equal(input_list_add(list, paths[f], &error), 0);
    }
}

TEST(parts_are_the_whole) {
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    for (unsigned e = 0; e < 3; e++) {
        struct error error = {0};
        CLOSED_BY(input_list_close) struct input_list list;
        CLOSED_BY(lda_survey_close) struct lda_survey survey;
        struct aml_strings values = {.count = FILES};
        write_file(0, LDA_FORMAT_UCI, 1, 7, ends[e]);
        write_file(1, LDA_FORMAT_LDA_C, 2, 0, ends[e]);
        write_file(2, LDA_FORMAT_LDA_C, 3, 5, ends[e]);
        write_file(3, LDA_FORMAT_UCI, 4, 0, ends[e]);
        list_files(&list, FILES);
        for (unsigned f = 0; f < FILES; f++) {
            values.values[f] = paths[f];
        }
        FREED struct documents *whole = calloc(1, sizeof *whole);
        assert_non_null(whole);
        const struct lda_corpus corpus = {.minimum_length = 3};
        assert_int_equal(lda_corpora_read(&corpus, &values, add_bag, whole, &error), 0);
        assert_int_equal(survey_as(&list, LDA_FORMAT_AUTO, &survey, &error), 0);
        assert_true(survey.parts && survey.file_count == FILES);
        for (uint32_t parts = 1; parts <= 9; parts += 4) {
            FREED struct documents *found = calloc(1, sizeof *found);
            assert_non_null(found);
            read_parts(&survey, parts, found);
            assert_true(found->count == whole->count && whole->count > 3 * DOCUMENTS);
            assert_memory_equal(found->hashes, whole->hashes, sizeof whole->hashes);
        }
    }
}

/* ---- Refused inputs ---- */

static void assert_refused(enum lda_format format, const char *expected) {
    struct error error = {0};
    CLOSED_BY(input_list_close) struct input_list list;
    struct lda_survey survey;
    list_files(&list, 1);
    int result = survey_as(&list, format, &survey, &error);
    if ((result != AML_EINPUT && result != AML_ELIMIT) || strstr(error.text, expected) == NULL ||
        strncmp(error.text, paths[0], strlen(paths[0])) != 0) {
        fail_msg("%d, '%s': expected '%s'", result, error.text, expected);
    }
}

TEST(surveys_refuse_what_no_part_shows) {
    write_text(paths[0], "3\n5\n4\n1 2 3\n1 5 1\n3 1 2\n");
    assert_refused(LDA_FORMAT_AUTO, "ends after 3 counts: expected 4");
    write_text(paths[0], "3\n5\n1\n1 2 3\n\n1 5 1\n");
    assert_refused(LDA_FORMAT_AUTO,
                   ":6: expected the end of the file, after as many lines as its header says, got '1 5 1'");
    write_text(paths[0], "3\n5\n0\n");
    assert_refused(LDA_FORMAT_AUTO, "no document has a word");
    write_text(paths[0], "0\n0\n 00 \n");
    assert_refused(LDA_FORMAT_LDA_C, "no document has a word");
    write_text(paths[0], "3\nfive\n0\n");
    assert_refused(LDA_FORMAT_AUTO, ":2: expected the number of words");
    write_text(paths[0], "");
    assert_refused(LDA_FORMAT_AUTO, "the file is empty");
}

/* The lines of a chunk have lower numbers than those of the chunk before. */
TEST(documents_must_ascend_from_chunk_to_chunk) {
    enum { LINES = 90000 };
    FILE *file = open_file(paths[0], "we");
    fprintf(file, "%d\n9\n%d\n", LINES, LINES);
    for (int line = 0; line < LINES; line++) {
        fprintf(file, "%05d 1 1\n", line < LINES / 2 ? LINES / 2 + line : line - LINES / 2 + 1);
    }
    assert_int_equal(fclose(file), 0);
    struct error error = {0};
    CLOSED_BY(input_list_close) struct input_list list;
    struct lda_survey survey;
    list_files(&list, 1);
    int result = survey_as(&list, LDA_FORMAT_AUTO, &survey, &error);
    if (result != AML_EINPUT || strstr(error.text, ": expected documents in ascending order, got '") == NULL) {
        fail_msg("%d, '%s'", result, error.text);
    }
}

TEST(text_is_not_divided) {
    struct error error = {0};
    CLOSED_BY(input_list_close) struct input_list list;
    struct lda_survey survey;
    write_text(paths[0], "1 0:1\n");
    write_text(paths[1], "the cat\n");
    list_files(&list, 2);
    assert_int_equal(survey_as(&list, LDA_FORMAT_AUTO, &survey, &error), 0);
    assert_true(!survey.parts && survey.file_count == 0);
    assert_int_equal(survey_as(&list, LDA_FORMAT_TEXT, &survey, &error), 0);
    assert_true(!survey.parts && survey.file_count == 0);
}

TEST(runs_name_the_place_of_an_error) {
    static const struct {
        enum lda_format format;
        const char *text, *rest, *message;
    } cases[] = {
        {LDA_FORMAT_LDA_C, "1 7:1\r\n1 8\r\n", "1 8\r\n", "expected 'word:count', word up to 268435455, count from 1"},
        {LDA_FORMAT_LDA_C, "1 7:1\r2 8:1\r", "2 8:1\r", "1 words, expected 2, the number that the line begins with"},
        {LDA_FORMAT_LDA_C, "1 7:1\n\n", "\n", "expected 'M word:count ...' (lda-c), got ''"},
        {LDA_FORMAT_UCI, "1 1 1\n1 1\n", "1 1\n", "expected 'document word count', got '1 1'"},
        {LDA_FORMAT_UCI, "2 1 1\n\n1 1 1\n", "1 1 1\n", "expected documents in ascending order, got '1 1 1'"},
        {LDA_FORMAT_UCI, "2 1 1\r4 1 1\r", "4 1 1\r", "expected document 1 to 3, word 1 to 5, count 1 to 33554432"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct error error = {0};
        const char *at = NULL;
        FREED struct documents *documents = calloc(1, sizeof *documents);
        assert_non_null(documents);
        const struct lda_corpus corpus = {.path = "file"};
        const struct lda_head head = {.format = cases[c].format, .documents = 3, .words = 5, .counts = 9};
        const struct lda_run run = {.text = cases[c].text, .size = strlen(cases[c].text)};
        assert_int_equal(lda_read_run(&corpus, &head, &run, add_bag, documents, &at, &error), AML_EINPUT);
        assert_non_null(at);
        assert_string_equal(at, cases[c].rest);
        assert_non_null(strstr(error.text, cases[c].message));
    }
}

int main(void) {
    return tests_run(files_open, files_close);
}
