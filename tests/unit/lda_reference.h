/* The simplest right version of apps/lda, for comparison in tests: exact collapsed Gibbs sampling, token by token.
 * All counts are up to date, and every topic's probability is computed. */
#ifndef TESTS_UNIT_LDA_REFERENCE_H
#define TESTS_UNIT_LDA_REFERENCE_H

#include "apps/lda/sampler.h"

/* Documents as lda_block_open takes them: `words.slots` are the words' numbers, below `vocabulary`. */
struct lda_texts {
    uint32_t document_count, vocabulary;
    uint64_t tokens;
    uint32_t *starts;         /* [document_count + 1]; start of each document in the next two arrays */
    uint32_t *words, *counts; /* words and counts of all documents */
    uint64_t size, capacity;
};

/* Adds a document; also as lda_corpus_read's callback. */
void lda_texts_add(struct lda_texts *texts, const uint32_t *words, const uint32_t *counts, uint32_t count);
void lda_texts_close(struct lda_texts *texts);
/* A document for lda_block_open; `context` is the lda_texts. */
struct lda_document lda_texts_document(const void *context, uint32_t i);

/* The result of both samplers: n_wk in the layout of the app's rows, [vocabulary][topics + 1], with the word's
 * tokens in the last column. Also n_k, and the topics of all tokens in the block's order. Closed by lda_state_close. */
struct lda_state {
    uint32_t topics;
    int32_t *words;
    int64_t *totals;
    uint16_t *assigned; /* topic + 1 */
};
void lda_state_open(struct lda_state *state, const struct lda_texts *texts, uint32_t topics);
void lda_state_close(struct lda_state *state);

/* Runs `iterations` of exact sampling from random topics. */
void lda_reference(struct lda_state *state, const struct lda_texts *texts, double alpha, double beta,
                   unsigned iterations, uint64_t seed);

/* (1/N) sum over tokens of log sum_k theta_dk phi_kw, computed densely. */
double lda_reference_likelihood(const struct lda_state *state, const struct lda_texts *texts, double alpha,
                                double beta);

#endif
