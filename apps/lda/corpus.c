/* See corpus.h. */
#include "apps/lda/corpus.h"

#include "agileml/base/folder.h"
#include "agileml/base/memory.h"
#include "agileml/base/text_fields.h"
#include "agileml/base/text_lines.h"
#include "agileml/input/list.h"
#include "agileml/input/source_text.h"
#include "apps/lda/tokens.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    SHOWN_MAX = 40,          /* bytes of a bad line in a message */
    LINE_MAX_BYTES = 1 << 26 /* bytes of a line */
};

const char lda_uci_end[] = "the end of the file, after as many lines as line 3 says";
const char *const lda_formats[] = {"auto", "uci", "lda-c", "text", NULL};

/* A word of the document that is read. */
struct entry {
    uint32_t word, count;
};

struct reader {
    const struct lda_corpus *corpus;
    struct text_lines lines;
    const char *line; /* the line that next_line found */
    size_t length;
    const struct lda_run *run; /* NULL: a file is read */
    const char *next;          /* of the run */
    const char *feed;          /* the run's first LF from `next` on */
    int (*each)(void *context, const struct lda_bag *bag);
    void *context;
    struct lda_corpus_size size;
    uint32_t words; /* number of words by uci's header or the vocabulary; 0: not known */
    struct entry *entries;
    size_t entry_count, entry_capacity;
    uint32_t *bag; /* words and counts */
    size_t bag_capacity;
    struct error *error;
};

/* Sets *error to what is wrong with the line. Who passes a run adds its file and number. */
__attribute__((format(printf, 2, 3))) static int line_error(const struct reader *reader, const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return reader->run != NULL ? error_set(reader->error, AML_EINPUT, "%s", text)
                               : error_set(reader->error, AML_EINPUT, "%s:%llu: %s", reader->lines.path,
                                           (unsigned long long)reader->lines.number, text);
}

/* Takes the next line of the run. */
static int next_run_line(struct reader *reader) {
    const struct lda_run *run = reader->run;
    const char *end = run->text + run->size;
    if (reader->next == end) {
        return 0;
    }
    if (reader->feed == NULL || reader->feed < reader->next) {
        const char *feed = memchr(reader->next, '\n', (size_t)(end - reader->next));
        reader->feed = feed != NULL ? feed : end;
    }
    const char *cr = memchr(reader->next, '\r', (size_t)(reader->feed - reader->next));
    const char *line_end = cr != NULL ? cr : reader->feed;
    reader->line = reader->next;
    reader->length = (size_t)(line_end - reader->next);
    reader->next = text_next_line(line_end);
    return 1;
}

/* Returns 1 with a line, 0 at the end of the file, or an error's code. */
static int next_line(struct reader *reader) {
    if (reader->run != NULL) {
        return next_run_line(reader);
    }
    char *line;
    int result = text_lines_next(&reader->lines, &line, &reader->length, reader->error);
    reader->line = line;
    return result != 0 ? result : line != NULL;
}

static int bad_line(const struct reader *reader, const char *expected) {
    int shown = reader->length < SHOWN_MAX ? (int)reader->length : SHOWN_MAX;
    return line_error(reader, "expected %s, got '%.*s'%s", expected, shown, reader->line,
                      reader->length > SHOWN_MAX ? "..." : "");
}

/* ---- A document ---- */

static void add_word(struct reader *reader, uint32_t word, uint32_t count) {
    if (reader->entry_count == reader->entry_capacity) {
        reader->entry_capacity = reader->entry_capacity > 0 ? 2 * reader->entry_capacity : 1024;
        reader->entries = memory_resized(reader->entries, reader->entry_capacity, sizeof *reader->entries);
    }
    reader->entries[reader->entry_count++] = (struct entry){word, count};
}

static int entry_order(const void *a, const void *b) {
    const struct entry *left = a;
    const struct entry *right = b;
    return left->word < right->word ? -1 : left->word > right->word;
}

/* Passes the words that add_word has collected to `each`. */
static int end_document(struct reader *reader, uint64_t number) {
    size_t count = 0;
    uint64_t tokens = 0;
    if (reader->entry_count == 0) {
        return 0;
    }
    qsort(reader->entries, reader->entry_count, sizeof *reader->entries, entry_order);
    for (size_t i = 0; i < reader->entry_count; i++) { /* joins the counts of equal words */
        tokens += reader->entries[i].count;
        if (count > 0 && reader->entries[count - 1].word == reader->entries[i].word) {
            uint64_t sum = (uint64_t)reader->entries[count - 1].count + reader->entries[i].count;
            reader->entries[count - 1].count = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
        } else {
            reader->entries[count++] = reader->entries[i];
        }
    }
    reader->entry_count = 0;
    if (count > LDA_DOCUMENT_WORDS_MAX || tokens > LDA_DOCUMENT_TOKENS_MAX) {
        return error_set(reader->error, AML_ELIMIT,
                         "%s: document %llu has %llu tokens of %zu words: expected at most %d tokens of %d words",
                         reader->corpus->path, (unsigned long long)number + 1, (unsigned long long)tokens, count,
                         LDA_DOCUMENT_TOKENS_MAX, LDA_DOCUMENT_WORDS_MAX);
    }
    if (2 * count > reader->bag_capacity) {
        reader->bag_capacity = 4 * count;
        reader->bag = memory_resized(reader->bag, reader->bag_capacity, sizeof *reader->bag);
    }
    for (size_t i = 0; i < count; i++) {
        reader->bag[i] = reader->entries[i].word;
        reader->bag[count + i] = reader->entries[i].count;
    }
    if (reader->words == 0 && reader->bag[count - 1] >= reader->size.words) {
        reader->size.words = reader->bag[count - 1] + 1;
    }
    reader->size.documents++;
    reader->size.tokens += tokens;
    number += reader->corpus->first_number;
    reader->size.end = number + 1;
    const struct lda_bag bag = {number, reader->bag, reader->bag + count, (uint32_t)count, (uint32_t)tokens};
    return reader->each(reader->context, &bag);
}

/* ---- Numbers ---- */

/* Reads a decimal number of at most `maximum` at *text and moves it behind; false when there is none. */
static bool take_number(const char **text, uint64_t maximum, uint64_t *number) {
    const char *p = *text;
    uint64_t value = 0;
    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (maximum - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    *text = p;
    return value <= maximum;
}

/* Reads `count` numbers with blanks between them; the line has nothing else. */
static bool take_line(const struct reader *reader, uint64_t *numbers, unsigned count) {
    const char *p = text_skip_blanks(reader->line);
    for (unsigned i = 0; i < count; i++) {
        const char *before = p;
        if (!take_number(&p, UINT64_MAX / 16, &numbers[i])) {
            return false;
        }
        if (i + 1 < count && p == before) {
            return false;
        }
        const char *behind = text_skip_blanks(p);
        if (i + 1 < count && behind == p) {
            return false;
        }
        p = behind;
    }
    return p == reader->line + reader->length;
}

/* ---- uci ---- */

/* Reads the header, whose first line is read. */
static int uci_header(struct reader *reader, struct lda_head *head) {
    static const char *const expected[3] = {"the number of documents, alone (uci)", "the number of words, alone (uci)",
                                            "the number of lines that follow, alone (uci)"};
    uint64_t numbers[3] = {0};
    for (unsigned i = 0; i < 3; i++) {
        int result = i == 0 ? 1 : next_line(reader);
        if (result < 0) {
            return result;
        }
        if (result == 0) {
            return error_set(reader->error, AML_EINPUT, "%s: ends after line %llu: expected %s", reader->corpus->path,
                             (unsigned long long)reader->lines.number, expected[i]);
        }
        if (!take_line(reader, &numbers[i], 1)) {
            return bad_line(reader, expected[i]);
        }
    }
    if (numbers[0] > LDA_DOCUMENTS_MAX || numbers[1] > LDA_VOCABULARY_MAX) {
        return error_set(reader->error, AML_ELIMIT, "%s: %llu documents, %llu words: expected at most %d and %d",
                         reader->corpus->path, (unsigned long long)numbers[0], (unsigned long long)numbers[1],
                         LDA_DOCUMENTS_MAX, LDA_VOCABULARY_MAX);
    }
    uint32_t named = reader->corpus->vocabulary != NULL ? reader->corpus->vocabulary->count : 0;
    if (named > 0 && named != numbers[1]) {
        return error_set(reader->error, AML_EINPUT, "%s:2: %llu words, but the vocabulary has %u", reader->corpus->path,
                         (unsigned long long)numbers[1], named);
    }
    *head = (struct lda_head){.format = LDA_FORMAT_UCI,
                              .begin = reader->lines.start + reader->length,
                              .documents = numbers[0],
                              .words = (uint32_t)numbers[1],
                              .counts = numbers[2]};
    return 0;
}

static int uci_line(struct reader *reader, const struct lda_head *head, uint64_t *document) {
    uint64_t fields[3];
    if (!take_line(reader, fields, 3)) {
        return bad_line(reader, "'document word count'");
    }
    if (fields[0] < 1 || fields[0] > head->documents || fields[1] < 1 || fields[1] > head->words || fields[2] < 1 ||
        fields[2] > LDA_DOCUMENT_TOKENS_MAX) {
        char expected[128];
        snprintf(expected, sizeof expected, "document 1 to %llu, word 1 to %u, count 1 to %d",
                 (unsigned long long)head->documents, head->words, LDA_DOCUMENT_TOKENS_MAX);
        return bad_line(reader, expected);
    }
    if (fields[0] < *document) {
        return bad_line(reader, "documents in ascending order");
    }
    int result = fields[0] > *document && *document > 0 ? end_document(reader, *document - 1) : 0;
    *document = fields[0];
    add_word(reader, (uint32_t)fields[1] - 1, (uint32_t)fields[2]);
    return result;
}

/* Reads up to `most` lines of counts, to the end. *count: how many there are. */
static int uci_lines(struct reader *reader, const struct lda_head *head, uint64_t most, uint64_t *count) {
    uint64_t document = 0;
    int result;
    *count = 0;
    while ((result = next_line(reader)) > 0) {
        if (text_skip_blanks(reader->line) == reader->line + reader->length) {
            continue;
        }
        if (*count == most) {
            return bad_line(reader, lda_uci_end);
        }
        result = uci_line(reader, head, &document);
        if (result != 0) {
            return result;
        }
        ++*count;
    }
    return result == 0 && document > 0 ? end_document(reader, document - 1) : result;
}

static int read_uci(struct reader *reader) {
    struct lda_head head;
    uint64_t count;
    int result = uci_header(reader, &head);
    if (result != 0) {
        return result;
    }
    reader->words = head.words;
    result = uci_lines(reader, &head, head.counts, &count);
    return result == 0 ? lda_check_counts(reader->corpus->path, &head, count, reader->error) : result;
}

int lda_check_counts(const char *path, const struct lda_head *head, uint64_t count, struct error *error) {
    return count == head->counts
               ? 0
               : error_set(error, AML_EINPUT, "%s: ends after %llu counts: expected %llu, as line 3 says", path,
                           (unsigned long long)count, (unsigned long long)head->counts);
}

/* ---- lda-c ---- */

static int lda_c_line(struct reader *reader, uint64_t number) {
    const char *p = text_skip_blanks(reader->line);
    const char *end = reader->line + reader->length;
    uint64_t count;
    uint64_t found = 0;
    uint64_t highest = reader->words > 0 ? reader->words - 1 : LDA_VOCABULARY_MAX - 1;
    if (!take_number(&p, LDA_DOCUMENT_WORDS_MAX, &count) || (!text_is_blank(*p) && p != end)) {
        return bad_line(reader, "'M word:count ...' (lda-c)");
    }
    for (p = text_skip_blanks(p); p < end; p = text_skip_blanks(p)) {
        uint64_t word;
        uint64_t times;
        const char *pair = p;
        bool fits = take_number(&p, highest, &word) && *p == ':';
        if (fits) {
            p++;
            fits = take_number(&p, LDA_DOCUMENT_TOKENS_MAX, &times) && times > 0 && (text_is_blank(*p) || p == end);
        }
        if (!fits) {
            size_t length = strcspn(pair, " \t\r\n");
            return line_error(reader, "expected 'word:count', word up to %llu, count from 1, got '%.*s'",
                              (unsigned long long)highest, length < SHOWN_MAX ? (int)length : SHOWN_MAX, pair);
        }
        add_word(reader, (uint32_t)word, (uint32_t)times);
        found++;
    }
    if (found != count) {
        return line_error(reader, "%llu words, expected %llu, the number that the line begins with",
                          (unsigned long long)found, (unsigned long long)count);
    }
    return end_document(reader, number);
}

/* ---- text ---- */

static int text_word(void *context, const char *word, size_t length) {
    struct reader *reader = context;
    const struct lda_corpus *corpus = reader->corpus;
    if (corpus->stop_words != NULL && lda_vocabulary_find(corpus->stop_words, word, length) >= 0) {
        return 0;
    }
    int64_t number = lda_vocabulary_find(corpus->vocabulary, word, length);
    if (number < 0 && corpus->closed) {
        return 0;
    }
    if (number < 0 && corpus->vocabulary->count == LDA_VOCABULARY_MAX) {
        return error_set(reader->error, AML_ELIMIT, "%s: more than %d different words", reader->lines.path,
                         LDA_VOCABULARY_MAX);
    }
    add_word(reader, number >= 0 ? (uint32_t)number : lda_vocabulary_add(corpus->vocabulary, word, length), 1);
    return 0;
}

static int text_line(struct reader *reader, struct tokenizer *tokenizer) {
    size_t at = 0;
    int result = tokenize(tokenizer, reader->line, reader->length, text_word, reader, &at);
    if (result == AML_EINPUT) {
        return line_error(reader, "byte %zu (0x%02X): expected text in UTF-8", at + 1, (unsigned char)reader->line[at]);
    }
    return result;
}

/* ---- Files and folders ---- */

static enum lda_format guess(const struct reader *reader) {
    uint64_t number;
    const char *p = text_skip_blanks(reader->line);
    if (take_line(reader, &number, 1) && number > 0) {
        return LDA_FORMAT_UCI;
    }
    if (!take_number(&p, UINT32_MAX, &number)) {
        return LDA_FORMAT_TEXT;
    }
    p = text_skip_blanks(p);
    return (take_number(&p, UINT32_MAX, &number) && *p == ':') || (number == 0 && *p == '\0') ? LDA_FORMAT_LDA_C
                                                                                              : LDA_FORMAT_TEXT;
}

/* Reads the documents of the open file, whose first line is read. */
static int read_lines(struct reader *reader, enum lda_format format, struct tokenizer *tokenizer) {
    int result = 1;
    if (format == LDA_FORMAT_UCI) {
        return read_uci(reader);
    }
    while (result > 0) {
        if (reader->lines.number > LDA_DOCUMENTS_MAX) {
            return error_set(reader->error, AML_ELIMIT, "%s: more than %d lines", reader->lines.path,
                             LDA_DOCUMENTS_MAX);
        }
        if (format == LDA_FORMAT_LDA_C) {
            result = lda_c_line(reader, reader->lines.number - 1);
        } else {
            result = text_line(reader, tokenizer);
            result = result != 0 ? result : end_document(reader, reader->lines.number - 1);
        }
        result = result != 0 ? result : next_line(reader);
    }
    return result;
}

/* Returns 1 with the file's first line, or an error's code. */
static int first_line(struct reader *reader) {
    int result = next_line(reader);
    return result != 0 ? result
                       : error_set(reader->error, AML_EINPUT, "%s: the file is empty, expected documents",
                                   reader->corpus->path);
}

static int read_file(struct reader *reader, struct tokenizer *tokenizer) {
    const struct lda_corpus *corpus = reader->corpus;
    int result = source_lines_open(&reader->lines, corpus->path, LINE_MAX_BYTES, reader->error);
    if (result != 0) {
        return result;
    }
    result = first_line(reader);
    if (result > 0) {
        enum lda_format format = corpus->format != LDA_FORMAT_AUTO ? corpus->format : guess(reader);
        if (format == LDA_FORMAT_TEXT && corpus->vocabulary == NULL) {
            result = error_set(reader->error, AML_EINPUT,
                               "%s: text, but the words have no names here: expected uci or "
                               "lda-c",
                               corpus->path);
        } else {
            uint32_t named = corpus->vocabulary != NULL ? corpus->vocabulary->count : 0;
            reader->words = format == LDA_FORMAT_TEXT ? 0 : named;
            result = read_lines(reader, format, tokenizer);
            if (format == LDA_FORMAT_TEXT) {
                reader->size.words = corpus->vocabulary->count;
            }
        }
    }
    text_lines_close(&reader->lines);
    return result;
}

static int read_text_file(struct reader *reader, const char *path, uint64_t number, struct tokenizer *tokenizer) {
    int result = source_lines_open(&reader->lines, path, LINE_MAX_BYTES, reader->error);
    if (result != 0) {
        return result;
    }
    while ((result = next_line(reader)) > 0) {
        result = text_line(reader, tokenizer);
        if (result != 0) {
            break;
        }
    }
    text_lines_close(&reader->lines);
    return result != 0 ? result : end_document(reader, number);
}

static int read_folder(struct reader *reader, struct tokenizer *tokenizer) {
    const struct lda_corpus *corpus = reader->corpus;
    struct dirent **names;
    int result = 0;
    uint64_t number = 0;
    if (corpus->vocabulary == NULL || (corpus->format != LDA_FORMAT_AUTO && corpus->format != LDA_FORMAT_TEXT)) {
        return error_set(reader->error, AML_EINPUT, "%s: a folder is for text alone: expected a file", corpus->path);
    }
    int count = folder_list(corpus->path, &names);
    if (count < 0) {
        return error_set(reader->error, AML_EINPUT, "%s: %s", corpus->path, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct stat status;
        int length = snprintf(path, sizeof path, "%s/%s", corpus->path, names[i]->d_name);
        free(names[i]);
        if (result != 0) {
            continue;
        }
        if (length >= (int)sizeof path || stat(path, &status) != 0) {
            result = error_set(reader->error, AML_EINPUT, "%s: %s", path,
                               strerror(length >= (int)sizeof path ? ENAMETOOLONG : errno));
        } else if (S_ISREG(status.st_mode)) {
            result = read_text_file(reader, path, number++, tokenizer);
        }
    }
    free(names);
    reader->size.words = corpus->vocabulary->count;
    return result;
}

int lda_no_document(const char *path, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: no document has a word, expected some", path);
}

int lda_corpus_read(const struct lda_corpus *corpus, int (*each)(void *context, const struct lda_bag *bag),
                    void *context, struct lda_corpus_size *size, struct error *error) {
    struct reader reader = {.corpus = corpus, .each = each, .context = context, .error = error};
    struct tokenizer tokenizer;
    struct stat status;
    int result = tokenizer_open(&tokenizer, corpus->minimum_length, error);
    if (result != 0) {
        return result;
    }
    if (stat(corpus->path, &status) == 0 && S_ISDIR(status.st_mode)) {
        result = read_folder(&reader, &tokenizer);
    } else {
        result = read_file(&reader, &tokenizer);
    }
    tokenizer_close(&tokenizer);
    free(reader.entries);
    free(reader.bag);
    if (result == 0 && reader.size.documents == 0) {
        result = lda_no_document(corpus->path, error);
    }
    if (reader.words > 0) {
        reader.size.words = reader.words;
    }
    if (size != NULL) {
        *size = reader.size;
    }
    return result;
}

/* ---- Runs of lines ---- */

int lda_read_head(const struct lda_corpus *corpus, struct lda_head *head, struct error *error) {
    struct reader reader = {.corpus = corpus, .error = error};
    *head = (struct lda_head){.format = corpus->format};
    int result = source_lines_open(&reader.lines, corpus->path, LINE_MAX_BYTES, error);
    if (result != 0) {
        return result;
    }
    result = first_line(&reader);
    if (result > 0) {
        head->format = corpus->format != LDA_FORMAT_AUTO ? corpus->format : guess(&reader);
        result = head->format == LDA_FORMAT_UCI ? uci_header(&reader, head) : 0;
    }
    text_lines_close(&reader.lines);
    return result;
}

static int read_run(struct reader *reader, const struct lda_head *head) {
    uint64_t number = reader->run->number;
    uint64_t count;
    int result = 0;
    if (head->format == LDA_FORMAT_UCI) {
        return uci_lines(reader, head, UINT64_MAX, &count);
    }
    while (result == 0 && (result = next_line(reader)) > 0) {
        result = lda_c_line(reader, number++);
    }
    return result;
}

int lda_read_run(const struct lda_corpus *corpus, const struct lda_head *head, const struct lda_run *run,
                 int (*each)(void *context, const struct lda_bag *bag), void *context, const char **at,
                 struct error *error) {
    const char *zero = memchr(run->text, '\0', run->size);
    struct reader reader = {.corpus = corpus,
                            .each = each,
                            .context = context,
                            .run = run,
                            .next = run->text + run->skip,
                            .words = head->format == LDA_FORMAT_UCI ? head->words
                                     : corpus->vocabulary != NULL   ? corpus->vocabulary->count
                                                                    : 0,
                            .error = error};
    *at = zero;
    if (zero != NULL) {
        return error_set(error, AML_EINPUT, "expected text, got a zero byte");
    }
    int result = read_run(&reader, head);
    *at = result == AML_EINPUT ? reader.line : NULL;
    free(reader.entries);
    free(reader.bag);
    return result;
}

/* ---- Several files ---- */

/* Reads the corpus `file`, and moves its numbers behind its documents. */
static int read_next(struct lda_corpus *file, int (*each)(void *context, const struct lda_bag *bag), void *context,
                     struct error *error) {
    struct lda_corpus_size size = {0};
    int result = lda_corpus_read(file, each, context, &size, error);
    file->first_number = size.end > file->first_number ? size.end : file->first_number;
    return result;
}

int lda_corpora_read(const struct lda_corpus *corpus, const struct aml_strings *values,
                     int (*each)(void *context, const struct lda_bag *bag), void *context, struct error *error) {
    struct lda_corpus file = *corpus;
    int result = 0;
    file.first_number = 0;
    for (unsigned v = 0; v < values->count && result == 0; v++) {
        struct input_list list = {0};
        struct stat status;
        if (stat(values->values[v], &status) == 0 && S_ISDIR(status.st_mode)) {
            file.path = values->values[v];
            result = read_next(&file, each, context, error);
            continue;
        }
        result = input_list_add(&list, values->values[v], error);
        input_list_drop_empty(&list);
        for (size_t n = 0; n < list.count && result == 0; n++) {
            file.path = list.names[n].path;
            result = read_next(&file, each, context, error);
        }
        input_list_close(&list);
    }
    return result;
}
