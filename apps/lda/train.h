/* Training of lda on AgileML: the app's tables and items, and what a process does in a clock.
 *
 * Tables: `words`, a row for each word: how many of its tokens have topic k, then the number of its tokens. `topics`,
 * one row: n_k. `documents`, put rows: the topics of a document's tokens, so that whoever works on a document next,
 * after a move or after a recovery, finds the topics under which its tokens are counted in the other two. `spread`, a
 * row for each iteration: what alpha is chosen by.
 *
 * The sums stay exact because a token's topic and its counts change in the same clock, and a clock is undone or kept as
 * a whole. That takes a view in which the document's row is not older than the last visit: iterations of more clocks
 * than the staleness. */
#ifndef APPS_LDA_TRAIN_H
#define APPS_LDA_TRAIN_H

#include "agileml.h"
#include "apps/lda/corpus.h"
#include "apps/lda/sampler.h"

enum { WORDS, TOPICS, DOCUMENTS, SPREAD, TABLES };
enum { METRIC_LIKELIHOOD, METRIC_PERPLEXITY, METRIC_SPEED, METRIC_ALPHA, METRICS };
enum { TOTAL_TOKENS = 0 };  /* totals: the sum of training tokens ... */
enum { MAXIMUM_WORDS = 0 }; /* ... and the number of words */
enum {
    LDA_CHUNK = 64,       /* tokens in a row of `documents`: uint16_t[], topic + 1, or 0 */
    LDA_CHUNK_BITS = 20,  /* its key is the document's number << this, plus the chunk's */
    LDA_SPREAD_FROM = 10, /* iterations after which alpha is adapted */
};

/* Sets tables[TABLES] for K topics. */
void lda_tables(struct aml_table *tables, uint32_t topics);

/* What main.c sets. */
struct lda {
    const char *data, *test, *vocabulary, *stop_words, *model_out, *format_name;
    int64_t topics, proposals, top_words, minimum_length, likelihood_every;
    double alpha, beta, test_fraction; /* alpha 0: 50 / K */
    bool optimize_alpha, english;
    enum lda_format format;
    struct lda_vocabulary names; /* filled by the first call of `read`, or by `finish`; then unchanged */
    bool names_ready;
    struct lda_training *training; /* train.c's */
};

/* Emits a document; for lda_corpus_read. `key` and what the app's items are is train.c's business alone. */
int lda_emit(aml_worker *worker, enum aml_item_use use, const struct lda_bag *bag);

/* The app's functions; see agileml.h. */
int lda_begin(aml_worker *worker, void *context);
int lda_clock(aml_worker *worker, const void *items, size_t count, void *context);
int lda_evaluate(aml_worker *worker, const void *items, size_t count, void *context);
void lda_train_close(struct lda *lda);

#endif
