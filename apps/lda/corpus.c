/* See corpus.h: files, folders, runs of lines and several files. The formats are in the files that reader.h lists. */
#include "apps/lda/corpus.h"

#include "agileml/base/folder.h"
#include "agileml/base/text_fields.h"
#include "agileml/input/list.h"
#include "agileml/input/source_text.h"
#include "apps/lda/reader.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const lda_formats[] = {"auto", "uci", "lda-c", "matrix-market", "text", "vw", "table", "mallet", NULL};

bool lda_format_numbers_words(enum lda_format format) {
    return format == LDA_FORMAT_UCI || format == LDA_FORMAT_LDA_C || format == LDA_FORMAT_MATRIX_MARKET;
}

/* ---- Files and folders ---- */

/* Reads documents, one per line, from a file whose first line has been read. */
static int read_document_lines(struct lda_reader *reader, enum lda_format format) {
    int result = 1;
    while (result > 0) {
        result = 0;
        if (format == LDA_FORMAT_LDA_C) {
            result = lda_lda_c_line(reader, reader->lines.number - 1);
        } else if (reader->corpus->empty || !lda_blank_line(reader)) {
            result = lda_add_text(reader, reader->line, reader->length);
            result = result != 0 ? result : lda_end_document(reader, reader->lines.number - 1);
        }
        result = result != 0 ? result : lda_next_line(reader);
    }
    return result;
}

/* Reads the documents of the open file, whose first line has been read. */
static int read_documents(struct lda_reader *reader, enum lda_format format) {
    switch (format) {
    case LDA_FORMAT_UCI:
    case LDA_FORMAT_MATRIX_MARKET:
        return lda_read_counts(reader, format);
    case LDA_FORMAT_VW:
        return lda_read_vw(reader);
    case LDA_FORMAT_TABLE:
        return lda_read_table(reader);
    case LDA_FORMAT_MALLET:
        return lda_read_mallet(reader);
    default:
        return read_document_lines(reader, format);
    }
}

/* Reads the file's first line. Returns the format, or an error's code. */
static int begin_file(struct lda_reader *reader) {
    const struct lda_corpus *corpus = reader->corpus;
    int result = lda_next_line(reader);
    if (result == 0) {
        return error_set(reader->error, AML_EINPUT, "%s: the file is empty, expected documents", corpus->path);
    }
    if (result < 0 || corpus->format != LDA_FORMAT_AUTO) {
        return result < 0 ? result : (int)corpus->format;
    }
    return corpus->columns != NULL      ? LDA_FORMAT_TABLE
           : corpus->name_space != NULL ? LDA_FORMAT_VW
                                        : lda_recognize(reader);
}

static int read_file(struct lda_reader *reader) {
    const struct lda_corpus *corpus = reader->corpus;
    int result = source_lines_open(&reader->lines, corpus->path, LDA_LINE_MAX_BYTES, reader->error);
    if (result != 0) {
        return result;
    }
    int format = begin_file(reader);
    result = format < 0 ? format : 0;
    bool names = result == 0 && !lda_format_numbers_words((enum lda_format)format);
    if (names && corpus->vocabulary == NULL) {
        result = error_set(reader->error, AML_EINPUT,
                           "%s: words (%s), but here they have numbers alone: expected uci, lda-c or MatrixMarket",
                           corpus->path, lda_formats[format]);
    } else if (result == 0) {
        reader->words = !names && corpus->vocabulary != NULL ? corpus->vocabulary->count : 0;
        result = read_documents(reader, (enum lda_format)format);
        if (result == 0 && names && reader->left_out > 0) {
            lda_note(corpus, "%llu of %llu documents are left out, as they have no word; the first is document %llu",
                     (unsigned long long)reader->left_out,
                     (unsigned long long)(reader->left_out + reader->size.documents),
                     (unsigned long long)reader->first_left_out + 1);
        }
        reader->size.words = names ? corpus->vocabulary->count : reader->size.words;
    }
    text_lines_close(&reader->lines);
    return result;
}

static int read_text_file(struct lda_reader *reader, const char *path, uint64_t number) {
    int result = source_lines_open(&reader->lines, path, LDA_LINE_MAX_BYTES, reader->error);
    if (result != 0) {
        return result;
    }
    while ((result = lda_next_line(reader)) > 0) {
        result = lda_add_text(reader, reader->line, reader->length);
        if (result != 0) {
            break;
        }
    }
    text_lines_close(&reader->lines);
    return result != 0 ? result : lda_end_document(reader, number);
}

static int read_folder(struct lda_reader *reader) {
    const struct lda_corpus *corpus = reader->corpus;
    struct dirent **names;
    char left_out[NAME_MAX + 1]; /* the first file without words */
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
        if (reader->left_out == 0) {
            snprintf(left_out, sizeof left_out, "%s", names[i]->d_name);
        }
        free(names[i]);
        if (result != 0) {
            continue;
        }
        if (length >= (int)sizeof path || stat(path, &status) != 0) {
            result = error_set(reader->error, AML_EINPUT, "%s: %s", path,
                               strerror(length >= (int)sizeof path ? ENAMETOOLONG : errno));
        } else if (S_ISREG(status.st_mode)) {
            result = read_text_file(reader, path, number++);
        }
    }
    free(names);
    if (result == 0 && reader->left_out > 0) {
        lda_note(corpus, "%llu of %llu files are left out, as they have no word; the first is %s",
                 (unsigned long long)reader->left_out, (unsigned long long)number, left_out);
    }
    reader->size.words = corpus->vocabulary->count;
    return result;
}

int lda_no_document(const char *path, struct error *error) {
    return error_set(error, AML_EINPUT, "%s: no document has a word, expected some", path);
}

int lda_corpus_read(const struct lda_corpus *corpus, int (*each)(void *context, const struct lda_bag *bag),
                    void *context, struct lda_corpus_size *size, struct error *error) {
    struct lda_reader reader = {.corpus = corpus, .each = each, .context = context, .error = error};
    struct tokenizer tokenizer;
    reader.tokenizer = &tokenizer;
    struct stat status;
    int result = tokenizer_open(&tokenizer, corpus->minimum_length, error);
    if (result != 0) {
        return result;
    }
    if (stat(corpus->path, &status) == 0 && S_ISDIR(status.st_mode)) {
        result = read_folder(&reader);
    } else {
        result = read_file(&reader);
    }
    tokenizer_close(&tokenizer);
    free(reader.entries);
    free(reader.bag);
    if (result == 0 && reader.size.documents == 0 && reader.size.end == 0) {
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
    struct lda_reader reader = {.corpus = corpus, .error = error};
    *head = (struct lda_head){.format = corpus->format};
    int result = source_lines_open(&reader.lines, corpus->path, LDA_LINE_MAX_BYTES, error);
    if (result != 0) {
        return result;
    }
    int format = begin_file(&reader);
    result = format < 0 ? format : 0;
    head->format = format < 0 ? LDA_FORMAT_AUTO : (enum lda_format)format;
    if (format == LDA_FORMAT_UCI || format == LDA_FORMAT_MATRIX_MARKET) {
        result = lda_counts_header(&reader, head->format, head);
    }
    text_lines_close(&reader.lines);
    return result;
}

static int read_run(struct lda_reader *reader, const struct lda_head *head) {
    uint64_t number = reader->run->number;
    uint64_t count;
    int result = 0;
    if (head->format != LDA_FORMAT_LDA_C) {
        return lda_counts_lines(reader, head, UINT64_MAX, &count);
    }
    while (result == 0 && (result = lda_next_line(reader)) > 0) {
        result = lda_lda_c_line(reader, number++);
    }
    return result;
}

int lda_read_run(const struct lda_corpus *corpus, const struct lda_head *head, const struct lda_run *run,
                 int (*each)(void *context, const struct lda_bag *bag), void *context, const char **at,
                 struct error *error) {
    const char *zero = memchr(run->text, '\0', run->size);
    struct lda_reader reader = {.corpus = corpus,
                                .each = each,
                                .context = context,
                                .run = run,
                                .next = run->text + run->skip,
                                .words = head->format != LDA_FORMAT_LDA_C ? head->words
                                         : corpus->vocabulary != NULL     ? corpus->vocabulary->count
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

/* Reads the corpus `file`, and continues its numbers after the last document's. */
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
