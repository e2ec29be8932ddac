/* Reading documents as bags of words, from the formats that topic models come in. The same input gives the same
 * documents, words and numbers in every process. Plain or gzip:
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
    /* The words. uci and lda-c: NULL or empty when they have no names; else a word beyond it is an error. text: not
     * NULL; words that are not in it are added, or passed over when it is `closed`. */
    struct lda_vocabulary *vocabulary;
    bool closed;
    const struct lda_vocabulary *stop_words; /* text: not counted; NULL: none */
    unsigned minimum_length;                 /* text: characters of a word */
};

/* A document with at least one token. The arrays are the reader's. */
struct lda_bag {
    uint64_t number;        /* its line or docID - 1, or its file's place in the folder: from 0, ascending */
    const uint32_t *words;  /* [count], ascending */
    const uint32_t *counts; /* [count], at least 1 */
    uint32_t count;
    uint32_t tokens; /* the sum of counts */
};

/* What the whole input holds. */
struct lda_corpus_size {
    uint64_t documents; /* not empty */
    uint64_t tokens;
    uint32_t words; /* number of words: of the vocabulary, or as the file says, or the highest plus 1 */
};

/* The formats' names, in the order of the enum; NULL ends them. */
extern const char *const lda_formats[];

/* Calls `each` for each document; a non-zero result of it ends reading and is returned. 0; AML_EINPUT with file, line
 * and what was expected; AML_ELIMIT; AML_EFAIL. `format` auto: a folder is text, a file is what its first line looks
 * like. *size may be NULL. */
int lda_corpus_read(const struct lda_corpus *corpus, int (*each)(void *context, const struct lda_bag *bag),
                    void *context, struct lda_corpus_size *size, struct error *error);

#endif
