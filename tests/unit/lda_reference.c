/* See lda_reference.h. */
#include "tests/unit/lda_reference.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void lda_texts_add(struct lda_texts *texts, const uint32_t *words, const uint32_t *counts, uint32_t count) {
    texts->starts = memory_resized(texts->starts, texts->document_count + 2U, sizeof *texts->starts);
    texts->starts[0] = 0;
    if (texts->size + count > texts->capacity) {
        texts->capacity = 2 * (texts->size + count);
        texts->words = memory_resized(texts->words, texts->capacity, sizeof *texts->words);
        texts->counts = memory_resized(texts->counts, texts->capacity, sizeof *texts->counts);
    }
    for (uint32_t i = 0; i < count; i++) {
        texts->words[texts->size] = words[i];
        texts->counts[texts->size++] = counts[i];
        texts->tokens += counts[i];
        texts->vocabulary = words[i] >= texts->vocabulary ? words[i] + 1 : texts->vocabulary;
    }
    texts->starts[++texts->document_count] = (uint32_t)texts->size;
}

void lda_texts_close(struct lda_texts *texts) {
    free(texts->starts);
    free(texts->words);
    free(texts->counts);
    *texts = (struct lda_texts){0};
}

struct lda_document lda_texts_document(const void *context, uint32_t i) {
    const struct lda_texts *texts = context;
    return (struct lda_document){.slots = texts->words + texts->starts[i],
                                 .counts = texts->counts + texts->starts[i],
                                 .count = texts->starts[i + 1] - texts->starts[i]};
}

void lda_state_open(struct lda_state *state, const struct lda_texts *texts, uint32_t topics) {
    state->topics = topics;
    state->words = memory_zeroed((size_t)texts->vocabulary * (topics + 1U), sizeof *state->words);
    state->totals = memory_zeroed(topics, sizeof *state->totals);
    state->assigned = memory_zeroed(texts->tokens, sizeof *state->assigned);
}

void lda_state_close(struct lda_state *state) {
    free(state->words);
    free(state->totals);
    free(state->assigned);
    *state = (struct lda_state){0};
}

static double uniform(uint64_t *random) {
    return (double)(hash_mix((*random)++) >> 11) * 0x1p-53;
}

struct reference {
    struct lda_state *state;
    const struct lda_texts *texts;
    double alpha, beta;
    uint64_t random;
    int32_t *document;   /* n_dk */
    double *probability; /* cumulative */
};

static void sample_token(struct reference *reference, uint32_t word, uint16_t *assigned) {
    const uint32_t topics = reference->state->topics;
    int32_t *row = reference->state->words + (size_t)word * (topics + 1U);
    double sum = 0;
    uint32_t k = *assigned - 1U;
    row[k]--;
    reference->document[k]--;
    reference->state->totals[k]--;
    for (k = 0; k < topics; k++) {
        sum += (reference->document[k] + reference->alpha) * (row[k] + reference->beta) /
               ((double)reference->state->totals[k] + reference->beta * reference->texts->vocabulary);
        reference->probability[k] = sum;
    }
    double at = uniform(&reference->random) * sum;
    for (k = 0; k + 1 < topics && reference->probability[k] <= at; k++) {
    }
    row[k]++;
    reference->document[k]++;
    reference->state->totals[k]++;
    *assigned = (uint16_t)(k + 1);
}

/* Goes through all tokens. With `first`, gives them random topics, else draws new ones. */
static void sweep(struct reference *reference, int first) {
    const struct lda_texts *texts = reference->texts;
    struct lda_state *state = reference->state;
    uint16_t *assigned = state->assigned;
    for (uint32_t d = 0; d < texts->document_count; d++) {
        struct lda_document words = lda_texts_document(texts, d);
        uint64_t count = 0;
        for (uint32_t w = 0; w < words.count; w++) {
            count += words.counts[w];
        }
        memset(reference->document, 0, state->topics * sizeof *reference->document);
        for (uint64_t i = 0; i < count && !first; i++) {
            reference->document[assigned[i] - 1]++;
        }
        for (uint32_t w = 0; w < words.count; w++) {
            int32_t *row = state->words + (size_t)words.slots[w] * (state->topics + 1U);
            for (uint32_t n = 0; n < words.counts[w]; n++, assigned++) {
                if (!first) {
                    sample_token(reference, words.slots[w], assigned);
                    continue;
                }
                uint32_t k = (uint32_t)(uniform(&reference->random) * state->topics);
                row[k]++;
                row[state->topics]++;
                state->totals[k]++;
                *assigned = (uint16_t)(k + 1);
            }
        }
    }
}

void lda_reference(struct lda_state *state, const struct lda_texts *texts, double alpha, double beta,
                   unsigned iterations, uint64_t seed) {
    struct reference reference = {
        .state = state, .texts = texts, .alpha = alpha, .beta = beta, .random = hash_mix(seed)};
    reference.document = memory_zeroed(state->topics, sizeof *reference.document);
    reference.probability = memory_zeroed(state->topics, sizeof *reference.probability);
    sweep(&reference, 1);
    for (unsigned i = 0; i < iterations; i++) {
        sweep(&reference, 0);
    }
    free(reference.document);
    free(reference.probability);
}

double lda_reference_likelihood(const struct lda_state *state, const struct lda_texts *texts, double alpha,
                                double beta) {
    double *theta = memory_zeroed(state->topics, sizeof *theta);
    const uint16_t *assigned = state->assigned;
    double sum = 0;
    for (uint32_t d = 0; d < texts->document_count; d++) {
        struct lda_document words = lda_texts_document(texts, d);
        uint64_t count = 0;
        for (uint32_t w = 0; w < words.count; w++) {
            count += words.counts[w];
        }
        for (uint32_t k = 0; k < state->topics; k++) {
            theta[k] = alpha;
        }
        for (uint64_t i = 0; i < count; i++) {
            theta[*assigned++ - 1] += 1;
        }
        for (uint32_t w = 0; w < words.count; w++) {
            const int32_t *row = state->words + (size_t)words.slots[w] * (state->topics + 1U);
            double probability = 0;
            for (uint32_t k = 0; k < state->topics; k++) {
                probability += theta[k] * (row[k] + beta) / ((double)state->totals[k] + beta * texts->vocabulary);
            }
            sum += words.counts[w] * log(probability / ((double)count + alpha * state->topics));
        }
    }
    free(theta);
    return sum / (double)texts->tokens;
}
