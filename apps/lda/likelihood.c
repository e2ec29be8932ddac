/* See likelihood.h. */
#include "apps/lda/likelihood.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 8 }; /* partial sums that the compiler may keep in a vector */

static const int32_t *word_row(const struct lda_clock *clock, uint32_t slot) {
    return (const int32_t *)(const void *)(clock->words + slot * clock->stride);
}

void lda_word_bases(const struct lda_clock *clock, uint32_t first, uint32_t end, float *bases) {
    for (uint32_t slot = first; slot < end; slot++) {
        const int32_t *row = word_row(clock, slot);
        float sums[LANES] = {0};
        uint32_t k = 0;
        for (; k + LANES <= clock->topics; k += LANES) {
            for (uint32_t lane = 0; lane < LANES; lane++) {
                sums[lane] += ((float)row[k + lane] + clock->beta) * clock->inverse[k + lane];
            }
        }
        float sum = 0;
        for (; k < clock->topics; k++) {
            sum += ((float)row[k] + clock->beta) * clock->inverse[k];
        }
        for (uint32_t lane = 0; lane < LANES; lane++) {
            sum += sums[lane];
        }
        bases[slot] = clock->alpha * sum;
    }
}

double lda_log_likelihood(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_document *document,
                          const uint16_t *assigned, uint32_t tokens, const float *bases) {
    float *counts = thread->document; /* n_dk / (n_k + V beta), in the order of `topics` */
    uint32_t *topics = thread->stack; /* topics with n_dk > 0 */
    float *places = thread->weights;  /* n_dk, indexed by topic */
    uint32_t topic_count = 0;
    for (uint32_t i = 0; i < tokens; i++) {
        places[assigned[i] - 1U] = 0;
    }
    for (uint32_t i = 0; i < tokens; i++) {
        uint32_t topic = assigned[i] - 1U;
        topics[topic_count] = topic;
        topic_count += places[topic] == 0.0F ? 1 : 0;
        places[topic] += 1.0F;
    }
    for (uint32_t t = 0; t < topic_count; t++) {
        counts[t] = places[topics[t]] * clock->inverse[topics[t]];
    }
    double sum = 0;
    for (uint32_t w = 0; w < document->count; w++) {
        const int32_t *row = word_row(clock, document->slots[w]);
        float probability = bases[document->slots[w]];
        for (uint32_t t = 0; t < topic_count; t++) {
            probability += counts[t] * ((float)row[topics[t]] + clock->beta);
        }
        sum += (double)document->counts[w] * log((double)probability);
    }
    return sum - tokens * log(tokens + (double)clock->alpha * clock->topics);
}

static float product(const float *a, const float *b, uint32_t count) {
    float sums[LANES] = {0};
    float sum = 0;
    uint32_t k = 0;
    for (; k + LANES <= count; k += LANES) {
        for (uint32_t lane = 0; lane < LANES; lane++) {
            sums[lane] += a[k + lane] * b[k + lane];
        }
    }
    for (; k < count; k++) {
        sum += a[k] * b[k];
    }
    for (uint32_t lane = 0; lane < LANES; lane++) {
        sum += sums[lane];
    }
    return sum;
}

void lda_fold_in(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, double alpha,
                 float *theta, float *scratch) {
    double tokens = 0;
    for (uint32_t w = 0; w < word_count; w++) {
        tokens += counts[w];
    }
    const double sum = tokens + alpha * topics;
    for (uint32_t k = 0; k < topics; k++) {
        theta[k] = 1.0F / (float)topics;
    }
    for (unsigned round = 0; round < LDA_FOLD_IN_ROUNDS; round++) {
        memset(scratch, 0, topics * sizeof *scratch);
        for (uint32_t w = 0; w < word_count; w++) {
            const float *word = phi + (size_t)w * topics;
            float share = counts[w] > 0 ? (float)counts[w] / product(theta, word, topics) : 0;
            for (uint32_t k = 0; k < topics && share > 0; k++) {
                scratch[k] += share * word[k];
            }
        }
        for (uint32_t k = 0; k < topics; k++) {
            theta[k] = (float)((alpha + (double)(theta[k] * scratch[k])) / sum);
        }
    }
}

double lda_score(const float *phi, const uint32_t *counts, uint32_t word_count, uint32_t topics, const float *theta) {
    double sum = 0;
    for (uint32_t w = 0; w < word_count; w++) {
        if (counts[w] > 0) {
            sum += counts[w] * log((double)product(theta, phi + (size_t)w * topics, topics));
        }
    }
    return sum;
}

uint32_t lda_split(const uint32_t *counts, uint32_t word_count, uint32_t *known, uint32_t *hidden) {
    uint32_t before = 0; /* tokens before this word */
    uint32_t all_hidden = 0;
    for (uint32_t w = 0; w < word_count; w++) {
        uint32_t end = before + counts[w];
        hidden[w] = end / 2 - before / 2; /* tokens 1, 3, 5, ... of the document */
        known[w] = counts[w] - hidden[w];
        all_hidden += hidden[w];
        before = end;
    }
    return all_hidden;
}

void lda_complete(struct lda_completion *completion, const float *phi, const uint32_t *counts, uint32_t word_count,
                  uint32_t topics, double alpha, const double *frequencies, float *theta, float *scratch) {
    uint32_t *known = memory_resized(NULL, 2 * (size_t)word_count, sizeof *known);
    uint32_t *hidden = known + word_count;
    completion->hidden += lda_split(counts, word_count, known, hidden);
    lda_fold_in(phi, known, word_count, topics, alpha, theta, scratch);
    completion->score += lda_score(phi, hidden, word_count, topics, theta);
    for (uint32_t w = 0; w < word_count && frequencies != NULL; w++) {
        completion->unigram += hidden[w] * log(frequencies[w]);
    }
    free(known);
}
