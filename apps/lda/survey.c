/* See survey.h. */
#include "apps/lda/survey.h"

#include "agileml.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "workers/data/line_chunks.h"

#include <stdlib.h>
#include <string.h>

/* The survey of one file. */
struct surveying {
    struct lda_survey *survey;
    const struct lda_survey_file *file;
    uint32_t number; /* number of the file */
    uint64_t lines;  /* lines so far */
    uint64_t end;    /* number in the file of the last document that is not empty, + 1 */
    uint64_t counts; /* uci and MatrixMarket: number of lines of counts */
    uint64_t latest; /* group of the latest line of counts */
    bool unsorted;   /* MatrixMarket: the rows are not in order, so the file can't be divided */
    struct error *error;
};

/* Returns the group of a line of uci or MatrixMarket (aml_read_groups): its document. */
static uint64_t uci_group(const char *line) {
    uint64_t group = 0;
    const char *p = text_skip_blanks(line);
    if (text_is_line_end(*p)) {
        return LINE_GROUP_SAME;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        group = (group * 10 + (uint64_t)(*p - '0')) & (UINT64_MAX >> 1);
    }
    return group;
}

uint64_t (*lda_head_group(const struct lda_head *head))(const char *line) {
    return head->format == LDA_FORMAT_LDA_C ? NULL : uci_group;
}

static int bad_line(const struct surveying *surveying, const char *line, const char *expected) {
    size_t length = strcspn(line, "\r\n");
    return error_set(surveying->error, AML_EINPUT, "%s:%llu: expected %s, got '%.*s'%s", surveying->file->path,
                     (unsigned long long)surveying->lines + 1, expected, text_shown(length), line,
                     text_shown_end(length));
}

/* Whether a line of lda-c has words, or is not a line of lda-c. */
static bool has_words(const char *line) {
    const char *p = text_skip_blanks(line);
    bool zero = *p == '0';
    while (*p == '0') {
        p++;
    }
    return !zero || !(text_is_blank(*p) || text_is_line_end(*p));
}

/* Takes a line of counts. *document is that of the line of counts before it in its chunk; 0: there is none. */
static int take_counts(struct surveying *surveying, const char *line, uint64_t *document) {
    const struct lda_head *head = &surveying->file->head;
    uint64_t group = uci_group(line);
    if (group == LINE_GROUP_SAME) {
        return 0;
    }
    if (surveying->counts++ == head->counts) {
        return bad_line(surveying, line, lda_counts_end);
    }
    surveying->unsorted = surveying->unsorted || group < surveying->latest;
    surveying->latest = group;
    if (head->format == LDA_FORMAT_MATRIX_MARKET) {
        *document = group;
        return 0;
    }
    /* The reader of the chunk compares its other lines. */
    if (*document == 0 && group > 0 && group <= surveying->end) {
        return bad_line(surveying, line, "documents in ascending order");
    }
    *document = group;
    return 0;
}

static int take_lines(struct surveying *surveying, const struct line_chunk *chunk, size_t skip) {
    const char *end = chunk->text + chunk->size;
    bool with_cr = memchr(chunk->text, '\r', chunk->size) != NULL;
    bool counts = surveying->file->head.format != LDA_FORMAT_LDA_C;
    uint64_t document = 0;
    int result = 0;
    for (const char *line = chunk->text; line < end && result == 0; surveying->lines++) {
        if (!counts && has_words(line)) {
            surveying->end = surveying->lines + 1;
        } else if (counts && line >= chunk->text + skip) {
            result = take_counts(surveying, line, &document);
        }
        const char *line_end = with_cr ? line + strcspn(line, "\r\n") : memchr(line, '\n', (size_t)(end - line));
        if (line_end == NULL || line_end >= end || *line_end == '\0') {
            break; /* a zero byte; the reader of the line rejects it */
        }
        line = text_next_line(line_end);
    }
    surveying->end = document > surveying->end ? document : surveying->end;
    return result;
}

static int survey_chunk(void *context, unsigned thread, const struct line_chunk *chunk) {
    struct surveying *surveying = context;
    struct lda_survey *survey = surveying->survey;
    const struct lda_head *head = &surveying->file->head;
    uint64_t before = chunk->extent == 0 && head->begin > chunk->offset ? head->begin - chunk->offset : 0;
    (void)thread;
    if (survey->chunk_count == survey->chunk_capacity) {
        survey->chunk_capacity = 2 * survey->chunk_capacity + 16;
        survey->chunks = memory_resized(survey->chunks, survey->chunk_capacity, sizeof *survey->chunks);
    }
    survey->chunks[survey->chunk_count++] = (struct lda_chunk){
        .file = surveying->number, .split = chunk->extent, .offset = chunk->offset, .line = surveying->lines};
    survey->text += hash_bytes((const void *)chunk->text, chunk->size,
                               hash_pair((uint64_t)surveying->number << 32 | chunk->extent, chunk->offset));
    if (chunk->cut) {
        return error_set(surveying->error, AML_EINPUT,
                         "%s:%llu: expected lines that belong together of at most %d bytes", surveying->file->path,
                         (unsigned long long)surveying->lines + 1, AML_LINE_BYTES_MAX);
    }
    int result = take_lines(surveying, chunk, before < chunk->size ? (size_t)before : chunk->size);
    if (result == 0 && head->format == LDA_FORMAT_LDA_C && surveying->lines > LDA_DOCUMENTS_MAX) {
        result =
            error_set(surveying->error, AML_ELIMIT, "%s: more than %d lines", surveying->file->path, LDA_DOCUMENTS_MAX);
    }
    return result;
}

static int survey_file(struct surveying *surveying) {
    const struct lda_survey_file *file = surveying->file;
    struct extents extents;
    int result = extents_make(&extents, file->path, 0, surveying->error);
    if (result != 0) {
        return result;
    }
    const struct line_reading lines = {.extents = &extents,
                                       .part = extents_all(&extents),
                                       .threads = 1, /* one thread, so chunks come in order */
                                       .line_max = AML_LINE_BYTES_MAX,
                                       .group = lda_head_group(&file->head),
                                       .sink = survey_chunk,
                                       .context = surveying};
    result = line_chunks_read(&lines, surveying->error);
    extents_close(&extents);
    if (result == 0 && file->head.format != LDA_FORMAT_LDA_C) {
        result = lda_check_counts(file->path, &file->head, surveying->counts, surveying->error);
    }
    return result == 0 && surveying->end == 0 ? lda_no_document(file->path, surveying->error) : result;
}

/* Reads the beginnings of the files, up to the first file that can't be divided. */
static int read_heads(const struct input_list *list, const struct lda_corpus *corpus, struct lda_survey *survey,
                      struct error *error) {
    int result = 0;
    survey->files = memory_resized(NULL, list->count + 1, sizeof *survey->files);
    for (size_t n = 0; n < list->count && result == 0 && survey->parts; n++) {
        struct lda_survey_file *file = &survey->files[survey->file_count++];
        struct lda_corpus part = *corpus;
        part.path = list->names[n].path;
        *file = (struct lda_survey_file){.path = part.path};
        result = lda_read_head(&part, &file->head, error);
        survey->format = n == 0 ? file->head.format : survey->format;
        survey->parts = lda_format_numbers_words(file->head.format) && file->head.begin <= LDA_PARTS_HEADER_MAX;
    }
    return result;
}

int lda_survey(const struct input_list *list, const struct lda_corpus *corpus, uint32_t first,
               struct lda_survey *survey, struct error *error) {
    uint64_t number = 0;
    *survey = (struct lda_survey){.parts = true, .format = corpus->format};
    int result = read_heads(list, corpus, survey, error);
    enum lda_format format = survey->format;
    bool parts = survey->parts;
    for (size_t f = 0; f < survey->file_count && parts && result == 0; f++) {
        struct surveying surveying = {
            .survey = survey, .file = &survey->files[f], .number = first + (uint32_t)f, .error = error};
        survey->files[f].first_number = number;
        result = survey_file(&surveying);
        number += surveying.end;
        parts = survey->files[f].head.format != LDA_FORMAT_MATRIX_MARKET || !surveying.unsorted;
    }
    if (result != 0 || !parts) {
        lda_survey_close(survey);
        survey->format = format;
    }
    return result;
}

void lda_survey_close(struct lda_survey *survey) {
    free(survey->files);
    free(survey->chunks);
    *survey = (struct lda_survey){.parts = false};
}

static int chunk_order(const void *a, const void *b) {
    const struct lda_chunk *left = a;
    const struct lda_chunk *right = b;
    return left->file != right->file     ? (left->file < right->file ? -1 : 1)
           : left->split != right->split ? (left->split < right->split ? -1 : 1)
                                         : (left->offset > right->offset) - (left->offset < right->offset);
}

const struct lda_chunk *lda_survey_find(const struct lda_survey *survey, uint32_t file, uint32_t split,
                                        uint64_t offset) {
    const struct lda_chunk wanted = {.file = file, .split = split, .offset = offset};
    return survey->chunk_count > 0
               ? bsearch(&wanted, survey->chunks, survey->chunk_count, sizeof *survey->chunks, chunk_order)
               : NULL;
}
