/* libFuzzer target for apps/lda's readers. The first byte of the input has the format (FORMAT) and whether words have
 * names, documents without words count, and columns are chosen by number. The rest is the file, plain or gzip. Besides
 * crashes it finds documents without tokens, words out of order or beyond the vocabulary, wrong sums, and failures
 * without a message. A survey and a reading in runs of lines must accept and reject the same files, with the same
 * content. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "apps/lda/survey.h"
#include "workers/data/line_chunks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

enum { FORMAT = 7, NAMES = 8, EMPTY = 16, COLUMNS = 32 };

struct fuzz_sums {
    bool empty; /* documents may have no words */
    struct lda_corpus_size size;
    uint32_t highest;
    uint64_t last; /* the last document's number + 1 */
};

static int fuzz_bag(void *context, const struct lda_bag *bag) {
    struct fuzz_sums *sums = context;
    uint64_t tokens = 0;
    FUZZ_CHECK((bag->count > 0 || sums->empty) && bag->number >= sums->last);
    for (uint32_t i = 0; i < bag->count; i++) {
        FUZZ_CHECK(bag->counts[i] > 0 && (i == 0 || bag->words[i] > bag->words[i - 1]));
        tokens += bag->counts[i];
    }
    FUZZ_CHECK(tokens == bag->tokens);
    sums->last = bag->number + 1;
    sums->size.documents += bag->count > 0 ? 1 : 0;
    sums->size.tokens += tokens;
    FUZZ_CHECK(bag->id == NULL || bag->id_length > 0);
    if (bag->count > 0 && bag->words[bag->count - 1] >= sums->highest) {
        sums->highest = bag->words[bag->count - 1] + 1;
    }
    return 0;
}

static void fuzz_note(void *context, const char *text) {
    (void)context;
    FUZZ_CHECK(strlen(text) > 0);
}

/* State of reading a file in runs of lines. */
struct fuzz_runs {
    const struct lda_corpus *corpus;
    const struct lda_survey *survey;
    struct fuzz_sums sums;
};

static int fuzz_run(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct fuzz_runs *runs = context;
    const struct lda_head *head = &runs->survey->files[0].head;
    const struct lda_chunk *found = lda_survey_find(runs->survey, 0, chunk->extent, chunk->offset);
    uint64_t begin = chunk->extent == 0 && head->begin > chunk->offset ? head->begin - chunk->offset : 0;
    const char *at;
    struct error error = {0};
    FUZZ_CHECK(thread == 0 && found != NULL && !chunk->cut && begin <= chunk->size);
    const struct lda_run run = {.text = chunk->text, .size = chunk->size, .skip = (size_t)begin, .number = found->line};
    int code = lda_read_run(runs->corpus, head, &run, fuzz_bag, &runs->sums, &at, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : (code == AML_EINPUT || code == AML_ELIMIT) && error.code == code);
    FUZZ_CHECK(at == NULL || code == 0 || (at >= chunk->text && at < chunk->text + chunk->size));
    return code;
}

/* Reads the file by a survey and in runs. Returns the reading's code. */
static int fuzz_parts(const struct lda_corpus *corpus, const struct lda_survey *survey, struct fuzz_runs *runs) {
    struct extents extents;
    struct error error = {0};
    *runs = (struct fuzz_runs){.corpus = corpus, .survey = survey};
    int code = extents_make(&extents, corpus->path, 0, &error);
    FUZZ_CHECK(code == 0);
    const struct line_reading lines = {.extents = &extents,
                                       .part = extents_all(&extents),
                                       .threads = 1,
                                       .line_max = 1 << 26,
                                       .group = lda_head_group(&survey->files[0].head),
                                       .sink = fuzz_run,
                                       .context = runs};
    code = line_chunks_read(&lines, &error);
    extents_close(&extents);
    return code;
}

/* For uci and lda-c: compares a whole reading with a reading in runs. */
static void fuzz_compare(const struct lda_corpus *corpus, int whole, const struct fuzz_sums *sums) {
    struct input_list list = {0};
    struct lda_survey survey;
    struct fuzz_runs runs;
    struct error error = {0};
    FUZZ_CHECK(input_list_add(&list, corpus->path, &error) == 0);
    int code = lda_survey(&list, corpus, 0, &survey, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : (code == AML_EINPUT || code == AML_ELIMIT) && error.code == code);
    FUZZ_CHECK(code == 0 || (strstr(error.text, corpus->path) == error.text && strchr(error.text, '\n') == NULL));
    if (code == 0 && survey.parts) {
        code = fuzz_parts(corpus, &survey, &runs);
        FUZZ_CHECK((code == 0) == (whole == 0));
        FUZZ_CHECK(code != 0 || memcmp(&runs.sums, sums, sizeof runs.sums) == 0);
        lda_survey_close(&survey);
    } else {
        FUZZ_CHECK(code == 0 || whole != 0);
    }
    input_list_close(&list);
}

static void fuzz_words(const struct lda_vocabulary *words) {
    for (uint32_t w = 0; w < words->count; w++) {
        const char *word = lda_vocabulary_word(words, w);
        size_t length = strlen(word);
        FUZZ_CHECK(length > 0 && length <= LDA_WORD_MAX && lda_vocabulary_find(words, word, length) == w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    int file = memfd_create("corpus", MFD_CLOEXEC);
    FUZZ_CHECK(file >= 0 && write(file, data + 1, size - 1) == (ssize_t)(size - 1));
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct lda_vocabulary words = {0};
    struct fuzz_sums sums = {.empty = (data[0] & EMPTY) != 0};
    struct lda_corpus_size found = {0};
    struct error error = {0};
    const struct lda_corpus corpus = {.path = path,
                                      .format = (enum lda_format)(data[0] & FORMAT),
                                      .vocabulary = data[0] & NAMES ? &words : NULL,
                                      .minimum_length = 1 + data[0] / 64,
                                      .empty = sums.empty,
                                      .columns = data[0] & COLUMNS ? "text=2,id=1" : NULL,
                                      .note = fuzz_note};
    int code = lda_corpus_read(&corpus, fuzz_bag, &sums, &found, &error);
    FUZZ_CHECK(code == 0 ? error.code == 0 : (code == AML_EINPUT || code == AML_ELIMIT) && error.code == code);
    FUZZ_CHECK(code == 0 || (strncmp(error.text, path, strlen(path)) == 0 && strchr(error.text, '\n') == NULL));
    FUZZ_CHECK(code != 0 || (found.documents == sums.size.documents && found.tokens == sums.size.tokens &&
                             sums.highest <= found.words && (found.documents > 0 || (sums.empty && found.end > 0))));
    if (words.count == 0 && !sums.empty) { /* else the file may be text */
        fuzz_compare(&corpus, code, &sums);
    }
    fuzz_words(&words);
    lda_vocabulary_close(&words);
    error = (struct error){0};
    code = lda_vocabulary_read(&words, path, &error);
    FUZZ_CHECK(code == 0 ? words.count > 0 : code == AML_EINPUT && error.code == code);
    fuzz_words(&words);
    lda_vocabulary_close(&words);
    close(file);
    return 0;
}
