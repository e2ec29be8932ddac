/* The file that holds a trained topic model. The writer takes rows as they come and leaves either the whole file or
 * none; the reader believes nothing that it has not checked.
 *
 * The format, version 1. All numbers are little-endian.
 *
 *     bytes  what
 *     8      magic: "AMLLDAMD"
 *     4      version: 1
 *     4      0
 *     4      K, the number of topics, 1..LDA_TOPICS_MAX
 *     4      V, the number of words, 1..LDA_VOCABULARY_MAX
 *     8      alpha, 8 beta: IEEE 754 binary64, finite and positive
 *     then a row for each word that any topic has, each word once, in no particular order:
 *     4      the word's number, from 0
 *     4      the number of topics that have it, 1..K
 *     8 each topic (4; ascending) and how many of the word's tokens have it (4; 1..2^31 - 1)
 *     then, if the words have names, V times: the name's bytes and a line feed
 *     at the end of the file:
 *     8      number of rows, 8 number of (topic, count) pairs in all, 8 bytes of names
 *     4      CRC-32 (zlib's) of all bytes before */
#ifndef APPS_LDA_MODEL_H
#define APPS_LDA_MODEL_H

#include "agileml/base/error.h"
#include "apps/lda/vocabulary.h"

#include <stdbool.h>

struct lda_model_header {
    uint32_t topics, vocabulary;
    double alpha, beta;
};

/* Writing, by the rules of model_file.h. */
struct lda_model_writer;

/* Starts a file. 0 and a writer, which _close or _abandon frees; or AML_EFAIL. */
int lda_model_writer_open(struct lda_model_writer **writer, const char *path, const struct lda_model_header *header,
                          struct error *error);
/* Adds a word's row, once each: counts[topics], none negative. A row of zeros is left out. 0 or AML_EFAIL. */
int lda_model_writer_row(struct lda_model_writer *writer, uint32_t word, const int32_t *counts, struct error *error);
/* Completes the file, with the words' names (V or more) unless `names` is NULL or empty, and frees the writer, also
 * when it fails. */
int lda_model_writer_close(struct lda_model_writer *writer, const struct lda_vocabulary *names, struct error *error);
/* Removes what was written and frees the writer. NULL is allowed. */
void lda_model_writer_abandon(struct lda_model_writer *writer);

/* A loaded model; read-only. */
struct lda_model {
    struct lda_model_header header;
    unsigned char *bytes;        /* the file */
    size_t *rows;                /* [vocabulary]: where a word's row is in `bytes`; 0: there is none */
    double *totals;              /* [topics]: n_k */
    struct lda_vocabulary names; /* empty when there are none */
};

/* Reads and checks a whole file. 0 and a model that lda_model_close frees; or AML_EINPUT (one line: path, what is
 * wrong), AML_EFAIL, AML_ENOMEM, and nothing to free. */
int lda_model_load(const char *path, struct lda_model *model, struct error *error);
void lda_model_close(struct lda_model *model);

/* Sets phi[topics] to the word's probability in each topic. word < vocabulary. */
void lda_model_phi(const struct lda_model *model, uint32_t word, float *phi);

#endif
