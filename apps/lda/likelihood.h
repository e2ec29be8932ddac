/* The likelihood of training documents in a topic model, and the topics of new documents.
 *
 *     theta_dk = (n_dk + alpha) / (n_d + K alpha)      phi_kw = (n_wk + beta) / (n_k + V beta)
 *     log p(d) = sum over the tokens of d of log sum_k theta_dk phi_kw */
#ifndef APPS_LDA_LIKELIHOOD_H
#define APPS_LDA_LIKELIHOOD_H

#include "apps/lda/sampler.h"

enum { LDA_FOLD_IN_ROUNDS = 30 };

/* Sets bases[slot] = alpha sum_k phi_kw for the words' rows first..end - 1, for lda_log_likelihood. Call
 * lda_clock_totals with the current counts before. */
void lda_word_bases(const struct lda_clock *clock, uint32_t first, uint32_t end, float *bases);

/* Returns log p(d) of a document of `tokens` tokens, whose topics + 1 are assigned[tokens]. The time is proportional
 * to the number of the document's own topics. */
double lda_log_likelihood(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_document *document,
                          const uint16_t *assigned, uint32_t tokens, const float *bases);

/* Finds the topics of a document that the model was not trained on, by LDA_FOLD_IN_ROUNDS rounds of expectation
 * maximization: theta[topics], with the sum 1, approaches the fixed point of
 * theta_k ~ alpha + sum_w count_w theta_k phi_kw / (theta . phi_w). phi[word_count][topics]; counts may be 0;
 * scratch[topics]. */
void lda_fold_in(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, double alpha,
                 float *theta, float *scratch);

/* Returns the sum of counts[w] log (theta . phi_w). */
double lda_score(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, const float *theta);

/* Splits counts into `known` and `hidden`: tokens go to both in turn. A document of one token hides none. Returns
 * the number of hidden tokens. */
uint32_t lda_split(const uint32_t *counts, uint32_t word_count, uint32_t *known, uint32_t *hidden);

/* How well half of each document's tokens predicts the other half. */
struct lda_completion {
    double score;   /* the sum of log p over the hidden tokens */
    double hidden;  /* their number */
    double unigram; /* the sum of log p by only the words' frequencies, for callers that know them */
};

/* Adds a document: splits its tokens, infers its topics from the known half, and scores the hidden half. theta and
 * scratch are memory of [topics]. frequencies[word_count] are the words' probabilities regardless of topic, for
 * `unigram`; NULL: none. */
void lda_complete(struct lda_completion *completion, const float *phi, const uint32_t *counts, uint32_t word_count,
                  uint32_t topics, double alpha, const double *frequencies, float *theta, float *scratch);

#endif
