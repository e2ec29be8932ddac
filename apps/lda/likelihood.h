/* What a topic model says of documents: the likelihood of those it is trained on, and topics of new ones.
 *
 *     theta_dk = (n_dk + alpha) / (n_d + K alpha)      phi_kw = (n_wk + beta) / (n_k + V beta)
 *     log p(d) = sum over the tokens of d of log sum_k theta_dk phi_kw */
#ifndef APPS_LDA_LIKELIHOOD_H
#define APPS_LDA_LIKELIHOOD_H

#include "apps/lda/sampler.h"

enum { LDA_FOLD_IN_ROUNDS = 30 };

/* Sets bases[slot] = alpha sum_k phi_kw for the words' rows first..end - 1: what lda_log_likelihood needs of them.
 * lda_clock_totals must have been called with the counts as they are. */
void lda_word_bases(const struct lda_clock *clock, uint32_t first, uint32_t end, float *bases);

/* log p(d) of one document of `tokens` tokens, whose topics are assigned[tokens], each one more than its number; takes
 * time for each of its topics, not for each there is. */
double lda_log_likelihood(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_document *document,
                          const uint16_t *assigned, uint32_t tokens, const float *bases);

/* The topics of a document that the model was not trained on: theta[topics] becomes the fixed point of
 * theta_k ~ alpha + sum_w count_w theta_k phi_kw / (theta . phi_w), after LDA_FOLD_IN_ROUNDS rounds (expectation
 * maximization; sums to 1). phi[word_count][topics]; counts may be 0; scratch[topics]. */
void lda_fold_in(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, double alpha,
                 float *theta, float *scratch);

/* The sum of counts[w] log (theta . phi_w). */
double lda_score(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, const float *theta);

/* Document completion: splits counts into `known` and `hidden`, every other token each. A document of one token hides
 * none. Returns the number of hidden tokens. */
uint32_t lda_split(const uint32_t *counts, uint32_t word_count, uint32_t *known, uint32_t *hidden);

#endif
