/* The end of a job of lda: the invariants of the counts, the topics' words, and the model's file. */
#ifndef APPS_LDA_FINISH_H
#define APPS_LDA_FINISH_H

#include "agileml.h"
#include "apps/lda/vocabulary.h"

/* What the tables and the data must agree on, and what is wanted. */
struct lda_finish {
    unsigned words_table, topics_table;
    uint32_t topics, vocabulary; /* K, V */
    double tokens;               /* of the training data */
    double alpha, beta;
    uint32_t top_words;                 /* of each topic to print; 0: none */
    const char *model_out;              /* NULL: none */
    const struct lda_vocabulary *names; /* empty: words are printed as numbers */
};

/* Scans the tables once. Checks that no count is negative, that each word's counts add up to its tokens, over all words
 * to the topics' totals, and these to the data's tokens; writes the model; prints the top words onto standard output.
 * 0, or what aml_error or aml_scan returned. */
int lda_finish(aml_worker *worker, const struct lda_finish *finish);

#endif
