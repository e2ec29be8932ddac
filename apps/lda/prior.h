/* The symmetric alpha that best fits how topics are spread over documents: Minka's fixed point for a
 * Dirichlet-multinomial ("Estimating a Dirichlet distribution", 2000, equation 55, for one alpha):
 *
 *     alpha' = alpha  (sum_d sum_k digamma(n_dk + alpha) - digamma(alpha))
 *                    / (K sum_d digamma(n_d + K alpha) - digamma(K alpha))
 *
 * The sums are integers in units of 2^-16, so that their total does not depend on the order of addition. */
#ifndef APPS_LDA_PRIOR_H
#define APPS_LDA_PRIOR_H

#include <stdint.h>

#define LDA_ALPHA_MIN 1e-4
#define LDA_ALPHA_MAX 1e3

/* The two sums over the documents so far: that of the numerator, and that of the denominator without the factor K. */
struct lda_spread {
    int64_t topics, tokens;
};

/* Adds a document by the counts of its topics, whose sum is n_d. Zeros have no effect. */
void lda_spread_add(struct lda_spread *spread, double alpha, uint32_t topics, const uint32_t *counts, uint32_t count);

/* Returns alpha' within LDA_ALPHA_MIN..LDA_ALPHA_MAX; alpha itself without documents. */
double lda_alpha_next(double alpha, uint32_t topics, const struct lda_spread *spread);

/* Returns the derivative of log gamma, for x > 0. */
double lda_digamma(double x);

#endif
