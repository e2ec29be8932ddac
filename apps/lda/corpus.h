/* Reads documents as bags of words, from the usual formats of topic models. The same input gives the same documents,
 * words and numbers in every process. Plain or gzip:
 *
 *     uci    UCI's bag of words: three lines with the numbers of documents, words and lines that follow; then lines
 *            `document word count`, numbers from 1, in the order of documents
 *     lda-c  Blei's: a document a line, `M word:count word:count ...`, M distinct words, numbers from 0
 *     text   a document a line, or a folder of files of which each is one (in the order of their names): words are runs
 *            of letters and digits of any alphabet with at least one letter, apostrophes inside included, made lower
 *            case */
#ifndef APPS_LDA_CORPUS_H
#define APPS_LDA_CORPUS_H

#include "apps/lda/vocabulary.h"

#include <stdbool.h>

enum {
    LDA_DOCUMENT_WORDS_MAX = 1 << 17,      /* distinct words of a document */
    LDA_DOCUMENT_TOKENS_MAX = 1 << 25,     /* tokens of a document */
    LDA_DOCUMENTS_MAX = 2000 * 1000 * 1000 /* of a file */
};

enum lda_format { LDA_FORMAT_AUTO = 0, LDA_FORMAT_UCI, LDA_FORMAT_LDA_C, LDA_FORMAT_TEXT };

struct lda_corpus {
    const char *path;
    enum lda_format format;
    /* The words. uci and lda-c: NULL or empty when words have no names; otherwise a word beyond it is an error. text:
     * not NULL; other words are added, or skipped when it is `closed`. */
    struct lda_vocabulary *vocabulary;
    bool closed;
    const struct lda_vocabulary *stop_words; /* text: not counted; NULL: none */
    unsigned minimum_length;                 /* text: characters of a word */
    uint64_t first_number;                   /* added to the documents' numbers */
};

/* A document with at least one token. The reader owns the arrays. */
struct lda_bag {
    uint64_t number;        /* its line or docID - 1, or its file's place in the folder: from 0, ascending */
    const uint32_t *words;  /* [count], ascending */
    const uint32_t *counts; /* [count], at least 1 */
    uint32_t count;
    uint32_t tokens; /* the sum of counts */
};

/* The size of the whole input. */
struct lda_corpus_size {
    uint64_t documents; /* not empty */
    uint64_t end;       /* the last document's number + 1 */
    uint64_t tokens;
    uint32_t words; /* number of words: the vocabulary's, or the file's header's, or the highest plus 1 */
};

/* The formats' names, in the order of the enum; NULL ends them. */
extern const char *const lda_formats[];

/* Calls `each` for each document of `corpus`; ends at its first result other than 0 and returns it. Returns 0;
 * AML_EINPUT with file, line and what was expected; AML_ELIMIT; AML_EFAIL. `format` auto: a folder is text, and a
 * file's first line decides. `size` may be NULL. */
int lda_corpus_read(const struct lda_corpus *corpus, int (*each)(void *context, const struct lda_bag *bag),
                    void *context, struct lda_corpus_size *size, struct error *error);

/* ---- Files of lines in parts: uci and lda-c ---- */

/* What the beginning of a file says of it. */
struct lda_head {
    enum lda_format format; /* not LDA_FORMAT_AUTO */
    /* uci, the header: */
    uint64_t begin;     /* bytes of the text up to the end of its last line */
    uint64_t documents; /* at most LDA_DOCUMENTS_MAX */
    uint32_t words;
    uint64_t counts; /* lines that follow */
};

/* Whole lines of a file, each with its end; of uci whole documents. */
struct lda_run {
    const char *text; /* [size], and a 0 behind */
    size_t size;
    size_t skip;     /* bytes at its beginning that are the file's header */
    uint64_t number; /* lda-c: of the run's first document, without corpus->first_number */
};

/* Reads the beginning of the file corpus->path. Returns as lda_corpus_read. */
int lda_read_head(const struct lda_corpus *corpus, struct lda_head *head, struct error *error);

/* Passes the documents of a run to `each`, in any thread: no other thread may change the vocabulary meanwhile. Returns
 * as lda_corpus_read; with *at not NULL the message is of the line there and lacks file and number. Not for text. */
int lda_read_run(const struct lda_corpus *corpus, const struct lda_head *head, const struct lda_run *run,
                 int (*each)(void *context, const struct lda_bag *bag), void *context, const char **at,
                 struct error *error);

/* Refuses a file that has not as many lines of counts as its header says. Returns 0 or AML_EINPUT. */
int lda_check_counts(const char *path, const struct lda_head *head, uint64_t count, struct error *error);
/* What is expected where there are more of them. */
extern const char lda_uci_end[];
/* Returns AML_EINPUT: the file has no document that is not empty. */
int lda_no_document(const char *path, struct error *error);

/* ---- Several files ---- */

/* lda_corpus_read for the files of an option's values (agileml/input/list.h), with documents numbered from file to
 * file. A folder that is a value by itself is a folder of texts, each a document. corpus->path and first_number are
 * not used. */
int lda_corpora_read(const struct lda_corpus *corpus, const struct aml_strings *values,
                     int (*each)(void *context, const struct lda_bag *bag), void *context, struct error *error);

#endif
