/* The file of a trained topic model. The writer takes rows in any order and leaves a whole file or none. The reader
 * checks everything.
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
 *     then a row for each word with a token, each word once, in any order:
 *     4      the word's number, from 0
 *     4      the number of topics among its tokens, 1..K
 *     8 each topic (4; ascending) and the number of the word's tokens that have it (4; 1..2^31 - 1)
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

/* Starts a file. Returns 0 and a writer, which lda_model_writer_close frees; or a code of model_file_begin. */
int lda_model_writer_open(struct lda_model_writer **writer, const char *path, const struct lda_model_header *header,
                          struct error *error);
/* Adds the row of a word, each word once: counts[topics], none negative. Leaves out a row of zeros. Returns 0 or
 * AML_EFAIL. */
int lda_model_writer_row(struct lda_model_writer *writer, uint32_t word, const int32_t *counts, struct error *error);
/* Ends the file and frees the writer, like model_file_end. `names` has at least V names; NULL or empty: the words
 * have no names. */
int lda_model_writer_close(struct lda_model_writer *writer, int result, const struct lda_vocabulary *names,
                           struct error *error);

/* A loaded model; read-only. */
struct lda_model {
    struct lda_model_header header;
    unsigned char *bytes;        /* the file */
    size_t *rows;                /* [vocabulary]: place of a word's row in `bytes`; 0: no row */
    double *totals;              /* [topics]: n_k */
    struct lda_vocabulary names; /* empty when there are none */
};

/* Reads and checks a whole file. Returns 0 and a model that lda_model_close frees; or, with nothing to free, AML_EINPUT
 * (one line: path, what is wrong), AML_EFAIL or AML_ENOMEM. */
int lda_model_load(const char *path, struct lda_model *model, struct error *error);
void lda_model_close(struct lda_model *model);

/* Sets phi[topics] to the word's probability in each topic. word < vocabulary. */
void lda_model_phi(const struct lda_model *model, uint32_t word, float *phi);

#endif
