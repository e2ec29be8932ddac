/* The formats with numbers for words, and their counts: uci, MatrixMarket and lda-c (corpus.h). */
#include "agileml/base/matrix_market.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/source_text.h"
#include "apps/lda/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char lda_counts_end[] = "the end of the file, after as many lines as its header says";

/* ---- Headers ---- */

static int check_header(struct lda_reader *reader, const uint64_t numbers[3]) {
    if (numbers[0] > LDA_DOCUMENTS_MAX || numbers[1] > LDA_VOCABULARY_MAX) {
        return error_set(reader->error, AML_ELIMIT, "%s: %llu documents, %llu words: expected at most %d and %d",
                         reader->corpus->path, (unsigned long long)numbers[0], (unsigned long long)numbers[1],
                         LDA_DOCUMENTS_MAX, LDA_VOCABULARY_MAX);
    }
    uint32_t named = reader->corpus->vocabulary != NULL ? reader->corpus->vocabulary->count : 0;
    if (named == 0 || named == numbers[1]) {
        return 0;
    }
    bool turned = named == numbers[0];
    return error_set(reader->error, AML_EINPUT, "%s: %llu documents of %llu words, but the vocabulary has %u words%s",
                     reader->corpus->path, (unsigned long long)numbers[0], (unsigned long long)numbers[1], named,
                     turned ? ": expected documents as rows and words as columns: transpose it" : "");
}

/* Reads uci's header, whose first line has been read: three numbers, in one line or three. */
static int uci_header(struct lda_reader *reader, uint64_t numbers[3]) {
    static const char *const expected[3] = {"the number of documents, alone (uci)", "the number of words, alone (uci)",
                                            "the number of lines that follow, alone (uci)"};
    if (lda_take_numbers(reader, numbers, 3)) {
        return 0;
    }
    for (unsigned i = 0; i < 3; i++) {
        int result = i == 0 ? 1 : lda_next_line(reader);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            return error_set(reader->error, AML_EINPUT, "%s: ends after line %llu: expected %s", reader->corpus->path,
                             (unsigned long long)reader->lines.number, expected[i]);
        }
        if (!lda_take_numbers(reader, &numbers[i], 1)) {
            return lda_bad_line(reader, expected[i]);
        }
    }
    return 0;
}

/* Reads MatrixMarket's header up to the size line; the banner has been read. */
static int matrix_header(struct lda_reader *reader, struct matrix_market *matrix) {
    struct error error = {0};
    int result = matrix_market_take(matrix, reader->line, reader->line + reader->length, &error);
    while (result == 0) {
        result = lda_next_line(reader);
        if (result == 0) {
            return error_set(reader->error, AML_EINPUT, "%s: ends before MatrixMarket's size line",
                             reader->corpus->path);
        }
        if (result < 0) {
            return result;
        }
        result = matrix_market_take(matrix, reader->line, reader->line + reader->length, &error);
    }
    return result < 0 ? lda_line_error(reader, "%s", error.text) : 0;
}

int lda_counts_header(struct lda_reader *reader, enum lda_format format, struct lda_head *head) {
    uint64_t numbers[3] = {0};
    struct matrix_market matrix = {0};
    int result = 0;
    if (format == LDA_FORMAT_UCI) {
        result = uci_header(reader, numbers);
    } else {
        result = matrix_header(reader, &matrix);
        numbers[0] = matrix.rows;
        numbers[1] = matrix.columns;
        numbers[2] = matrix.entries;
    }
    result = result != 0 ? result : check_header(reader, numbers);
    *head = (struct lda_head){.format = format,
                              .begin = reader->lines.start + reader->length,
                              .documents = numbers[0],
                              .words = (uint32_t)numbers[1],
                              .counts = numbers[2],
                              .pattern = matrix.field == MATRIX_MARKET_PATTERN};
    if (result == 0 && format == LDA_FORMAT_MATRIX_MARKET) {
        lda_note(reader->corpus, "MatrixMarket, its %llu rows taken for documents and its %llu columns for words",
                 (unsigned long long)numbers[0], (unsigned long long)numbers[1]);
    }
    return result;
}

int lda_check_counts(const char *path, const struct lda_head *head, uint64_t count, struct error *error) {
    return count == head->counts
               ? 0
               : error_set(error, AML_EINPUT, "%s: ends after %llu counts: expected %llu, as its header says", path,
                           (unsigned long long)count, (unsigned long long)head->counts);
}

/* ---- Lines of counts ---- */

/* The count of a word in a document. */
struct cell {
    uint32_t document, word; /* from 0 */
    uint32_t count;
};

/* Parses the line as a cell. */
static int take_cell(const struct lda_reader *reader, const struct lda_head *head, struct cell *cell) {
    bool matrix = head->format == LDA_FORMAT_MATRIX_MARKET;
    const char *p = text_skip_blanks(reader->line);
    uint64_t document = 0;
    uint64_t word = 0;
    uint32_t count = 1;
    bool fits = lda_take_number(&p, UINT64_MAX / 16, &document) && text_is_blank(*p);
    p = text_skip_blanks(p);
    fits = fits && lda_take_number(&p, UINT64_MAX / 16, &word) && (head->pattern || text_is_blank(*p));
    p = text_skip_blanks(p);
    int result = fits && !head->pattern ? lda_take_count(reader, &p, &count) : 0;
    if (result < 0) {
        return result;
    }
    if (!fits || result != 0 || text_skip_blanks(p) != reader->line + reader->length) {
        return lda_bad_line(reader, head->pattern ? "'document word'" : "'document word count'");
    }
    if (document < 1 || document > head->documents || word < 1 || word > head->words || (count < 1 && !matrix)) {
        char expected[128];
        snprintf(expected, sizeof expected, "document 1 to %llu, word 1 to %u, count %d to %d",
                 (unsigned long long)head->documents, head->words, matrix ? 0 : 1, LDA_DOCUMENT_TOKENS_MAX);
        return lda_bad_line(reader, expected);
    }
    *cell = (struct cell){(uint32_t)document - 1, (uint32_t)word - 1, count};
    return 0;
}

/* Calls `take` for up to `most` cells, to the end. Sets *count to their number. */
static int read_cells(struct lda_reader *reader, const struct lda_head *head, uint64_t most, uint64_t *count,
                      int (*take)(void *context, const struct cell *cell), void *context) {
    struct cell cell = {0};
    int result;
    *count = 0;
    while ((result = lda_next_line(reader)) > 0) {
        if (lda_blank_line(reader)) {
            continue;
        }
        if (*count == most) {
            return lda_bad_line(reader, lda_counts_end);
        }
        result = take_cell(reader, head, &cell);
        result = result != 0 ? result : take(context, &cell);
        if (result != 0) {
            return result;
        }
        ++*count;
    }
    return result;
}

/* The state while documents are passed on in their order. */
struct passing {
    struct lda_reader *reader;
    uint64_t document; /* number + 1; 0: none */
};

static int pass_cell(void *context, const struct cell *cell) {
    struct passing *passing = context;
    uint64_t document = (uint64_t)cell->document + 1;
    if (document < passing->document) {
        return lda_bad_line(passing->reader, "documents in ascending order");
    }
    int result = document > passing->document && passing->document > 0
                     ? lda_end_document(passing->reader, passing->document - 1)
                     : 0;
    passing->document = document;
    if (result == 0 && cell->count > 0) {
        lda_add_word(passing->reader, cell->word, cell->count);
    }
    return result;
}

int lda_counts_lines(struct lda_reader *reader, const struct lda_head *head, uint64_t most, uint64_t *count) {
    struct passing passing = {.reader = reader};
    int result = read_cells(reader, head, most, count, pass_cell, &passing);
    return result == 0 && passing.document > 0 ? lda_end_document(reader, passing.document - 1) : result;
}

/* ---- Matrices whose rows are in any order ---- */

/* The cells of a file, to be sorted in memory. */
struct cells {
    struct lda_reader *reader;
    struct cell *cells;
    size_t count, capacity;
    bool sorted; /* the cells so far are in order */
};

static int keep_cell(void *context, const struct cell *cell) {
    struct cells *cells = context;
    if (cells->count == LDA_SORTED_CELLS_MAX) {
        return error_set(cells->reader->error, AML_ELIMIT,
                         "%s: more than %d entries that are not in the order of rows: sort them by the row first",
                         cells->reader->corpus->path, LDA_SORTED_CELLS_MAX);
    }
    if (cells->count == cells->capacity) {
        cells->capacity = 2 * cells->capacity + 1024;
        cells->cells = memory_resized(cells->cells, cells->capacity, sizeof *cells->cells);
    }
    cells->sorted = cells->sorted && (cells->count == 0 || cells->cells[cells->count - 1].document <= cell->document);
    cells->cells[cells->count++] = *cell;
    return 0;
}

static int cell_order(const void *a, const void *b) {
    const struct cell *left = a;
    const struct cell *right = b;
    return (left->document > right->document) - (left->document < right->document);
}

/* Reads the entries of a matrix in any order, and sorts them if needed. */
static int sort_cells(struct lda_reader *reader, const struct lda_head *head, uint64_t *count) {
    struct cells cells = {.reader = reader, .sorted = true};
    struct passing passing = {.reader = reader};
    int result = read_cells(reader, head, head->counts, count, keep_cell, &cells);
    if (result == 0 && !cells.sorted) {
        lda_note(reader->corpus, "its entries are not in the order of rows: each process sorts them in memory");
        qsort(cells.cells, cells.count, sizeof *cells.cells, cell_order);
    }
    for (size_t i = 0; i < cells.count && result == 0; i++) {
        result = pass_cell(&passing, &cells.cells[i]);
    }
    free(cells.cells);
    return result == 0 && passing.document > 0 ? lda_end_document(reader, passing.document - 1) : result;
}

static int compare_cell(void *context, const struct cell *cell) {
    struct passing *passing = context;
    bool sorted = cell->document >= passing->document;
    passing->document = cell->document;
    return sorted ? 0 : 1;
}

/* Returns whether the rows of a file are in order: 1, 0 or an error's code. The file must allow a second reading. */
static int is_sorted(const struct lda_reader *reader, const struct lda_head *head) {
    struct lda_reader first = {.corpus = reader->corpus, .error = reader->error};
    struct passing passing = {.document = 0};
    struct stat status;
    uint64_t count;
    if (stat(reader->corpus->path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return 0;
    }
    int result = source_lines_open(&first.lines, reader->corpus->path, LDA_LINE_MAX_BYTES, reader->error);
    if (result != 0) {
        return result;
    }
    for (uint64_t line = 0; line < reader->lines.number && result >= 0; line++) {
        result = lda_next_line(&first);
    }
    result = result < 0 ? result : read_cells(&first, head, head->counts, &count, compare_cell, &passing);
    text_lines_close(&first.lines);
    return result < 0 ? result : result == 0;
}

int lda_read_counts(struct lda_reader *reader, enum lda_format format) {
    struct lda_head head;
    uint64_t count;
    int sorted = 1;
    int result = lda_counts_header(reader, format, &head);
    if (result == 0 && format == LDA_FORMAT_MATRIX_MARKET) {
        sorted = is_sorted(reader, &head);
        result = sorted < 0 ? sorted : 0;
    }
    if (result != 0) {
        return result;
    }
    reader->words = head.words;
    result = sorted != 0 ? lda_counts_lines(reader, &head, head.counts, &count) : sort_cells(reader, &head, &count);
    result = result == 0 ? lda_check_counts(reader->corpus->path, &head, count, reader->error) : result;
    return result == 0 ? lda_pass_empty(reader, head.documents) : result;
}

/* ---- lda-c ---- */

/* Reports that the line's first number is not the number of its words. */
static int wrong_number(const struct lda_reader *reader, uint64_t found, uint64_t expected) {
    return lda_line_error(
        reader,
        "%llu words, expected %llu, the number that the line begins with (lda-c); if it is a label, as "
        "libsvm has it: awk '{ $1 = NF - 1; print }' makes lda-c of such a file",
        (unsigned long long)found, (unsigned long long)expected);
}

int lda_lda_c_line(struct lda_reader *reader, uint64_t number) {
    const char *p = text_skip_blanks(reader->line);
    const char *end = reader->line + reader->length;
    uint64_t count;
    uint64_t found = 0;
    uint64_t highest = reader->words > 0 ? reader->words - 1 : LDA_VOCABULARY_MAX - 1;
    if (!lda_take_number(&p, LDA_DOCUMENT_WORDS_MAX, &count) || (!text_is_blank(*p) && p != end)) {
        return lda_bad_line(reader, "'M word:count ...' (lda-c)");
    }
    for (p = text_skip_blanks(p); p < end; p = text_skip_blanks(p)) {
        uint64_t word;
        uint32_t times = 0;
        const char *pair = p;
        bool fits = lda_take_number(&p, highest, &word) && *p == ':';
        if (fits) {
            p++;
            int result = lda_take_count(reader, &p, &times);
            if (result < 0) {
                return result;
            }
            fits = result == 0 && times > 0 && (text_is_blank(*p) || p == end);
        }
        if (!fits) {
            size_t length = strcspn(pair, " \t\r\n");
            return lda_line_error(reader, "expected 'word:count', word up to %llu, count from 1, got '%.*s'",
                                  (unsigned long long)highest, text_shown(length), pair);
        }
        lda_add_word(reader, (uint32_t)word, times);
        found++;
    }
    return found == count ? lda_end_document(reader, number) : wrong_number(reader, found, count);
}
