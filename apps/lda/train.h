/* Training of lda on AgileML: the app's tables and items, and the work of a process in a clock.
 *
 * Tables:
 *     words      a row for each word: the number of its tokens with topic k, then the number of its tokens
 *     topics     one row: n_k
 *     documents  overwrite mode: the topics of a document's tokens. After a move or a recovery another node finds here
 *                under which topics the other two tables count the tokens.
 *     spread     a row for each iteration: the sums from which alpha is chosen
 *
 * Counts stay exact because a token's topic and its counts change in the same clock, which is kept or undone as a
 * whole. For that, a node must see a document's row as the last visit to the document left it. So an iteration has
 * more clocks than the staleness. */
#ifndef APPS_LDA_TRAIN_H
#define APPS_LDA_TRAIN_H

#include "agileml.h"
#include "apps/lda/corpus.h"
#include "apps/lda/sampler.h"
#include "apps/lda/survey.h"

enum { WORDS, TOPICS, DOCUMENTS, SPREAD, TABLES };
enum { METRIC_LIKELIHOOD, METRIC_PERPLEXITY, METRIC_SPEED, METRIC_ALPHA, METRIC_UNIGRAM, METRICS };
/* Totals over the training documents, and the number of test documents. */
enum { TOTAL_TOKENS = 0, TOTAL_DOCUMENTS, TOTAL_TEST_DOCUMENTS };
enum { MAXIMUM_WORDS = 0 }; /* maxima: the number of words */
enum {
    LDA_CHUNK = 64,       /* tokens in a row of `documents`: uint16_t[], each topic + 1, or 0 */
    LDA_CHUNK_BITS = 20,  /* a row's key is the document's number << LDA_CHUNK_BITS, plus the chunk's number */
    LDA_SPREAD_FROM = 10, /* iterations after which alpha is adapted */
};

/* Sets tables[TABLES] for K topics. */
void lda_tables(struct aml_table *tables, uint32_t topics);

/* The app's options and state. */
struct lda {
    struct aml_strings data, test;
    struct input_list data_files, test_files;   /* files of these options, if they are not folders of texts */
    struct lda_survey data_survey, test_survey; /* surveys of the files */
    const char *vocabulary, *stop_words, *model_out, *format_name, *columns, *name_space;
    int64_t topics, proposals, top_words, minimum_length, likelihood_every;
    double given_alpha; /* --alpha; 0: not given */
    double alpha, beta, test_fraction;
    bool optimize_given, optimize_alpha, english;
    enum lda_format format;
    struct lda_vocabulary names; /* set by the first call of `read`, or by `finish`; then unchanged */
    bool names_ready;
    struct lda_training *training; /* used by train.c */
};

/* Emits a document as an item. Returns what aml_emit_varied returns. */
int lda_emit(aml_worker *worker, enum aml_item_use use, const struct lda_bag *bag);

/* The app's functions; see agileml.h. */
int lda_begin(aml_worker *worker, void *context);
int lda_clock(aml_worker *worker, const void *items, size_t count, void *context);
int lda_evaluate(aml_worker *worker, const void *items, size_t count, void *context);
void lda_train_close(struct lda *lda);

#endif
