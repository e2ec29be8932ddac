/* The end of a job of lda: the invariants of the counts, the topics' words, and the model's file. */
#ifndef APPS_LDA_FINISH_H
#define APPS_LDA_FINISH_H

#include "agileml.h"
#include "apps/lda/vocabulary.h"

/* The numbers that the tables must agree with, and the requested output. */
struct lda_finish {
    unsigned words_table, topics_table;
    uint32_t topics, vocabulary; /* K, V */
    double tokens;               /* tokens of the training data */
    double alpha, beta;
    uint32_t top_words;                 /* words to print for each topic; 0: none */
    const char *model_out;              /* NULL: none */
    const struct lda_vocabulary *names; /* empty: words are printed as numbers */
};

/* Scans the tables once, writes the model and prints the top words to standard output. Checks that no count is negative
 * and that the sums agree: each word's counts with its tokens, the counts of all words with the topics' totals, and
 * the totals with the data's tokens. Returns 0, or what aml_error or aml_scan returned. */
int lda_finish(aml_worker *worker, const struct lda_finish *finish);

#endif
