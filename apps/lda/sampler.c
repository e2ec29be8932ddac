/* See sampler.h. */
#include "apps/lda/sampler.h"

#include "agileml/base/hash.h"
#include "agileml/types.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    PREFETCH_DISTANCE = 12, /* tokens between a prefetch and the use */
    RETRIES_MAX = 64        /* most repeated draws when a proposal draws the token itself */
};
enum phase { PHASE_PROPOSE = 1, PHASE_DOCUMENTS, PHASE_WORDS };

#define LDA_INLINE static inline __attribute__((always_inline))

/* ---- Random numbers: splitmix64, whose steps are independent ---- */

struct random {
    uint64_t state;
};

static struct random random_start(uint64_t seed, enum phase phase, uint64_t number) {
    return (struct random){hash_mix(seed + (uint64_t)phase * UINT64_C(0x632BE59BD9B4E019)) ^ hash_mix(number)};
}

LDA_INLINE uint64_t random_next(struct random *random) {
    uint64_t value = random->state += UINT64_C(0x9E3779B97F4A7C15);
    value = (value ^ (value >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94D049BB133111EB);
    return value ^ (value >> 31);
}

/* Returns a number in [0, 1). */
LDA_INLINE float unit(uint32_t bits) {
    return (float)(int32_t)(bits >> 8) * 0x1p-24F;
}

/* Returns a number in [0, count). */
LDA_INLINE uint32_t below(uint32_t bits, uint32_t count) {
    return (uint32_t)(((uint64_t)bits * count) >> 32);
}

/* Chooses without a branch. A branch would often be mispredicted, as acceptance is random. */
LDA_INLINE uint32_t choose(bool first, uint32_t a, uint32_t b) {
    return b ^ ((a ^ b) & (0U - (uint32_t)first));
}
LDA_INLINE float choose_float(bool first, float a, float b) {
    uint32_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    bits[0] = choose(first, bits[0], bits[1]);
    memcpy(&a, &bits[0], sizeof a);
    return a;
}

/* ---- Blocks ---- */

/* Counts the tokens of each row, in counts[row_count], and of each document. */
static int block_count(struct lda_block *block, uint32_t *counts,
                       struct lda_document (*document)(const void *context, uint32_t i), const void *context) {
    uint64_t tokens = 0;
    for (uint32_t d = 0; d < block->document_count; d++) {
        struct lda_document words = document(context, d);
        block->document_starts[d] = (uint32_t)tokens;
        for (uint32_t i = 0; i < words.count; i++) {
            block->word_count += counts[words.slots[i]] == 0 ? 1 : 0;
            counts[words.slots[i]] += words.counts[i];
            tokens += words.counts[i];
        }
        if (tokens >= UINT32_MAX) {
            return AML_ELIMIT;
        }
    }
    block->document_starts[block->document_count] = (uint32_t)tokens;
    block->token_count = (uint32_t)tokens;
    return 0;
}

/* Sets the words and the order of the tokens. counts[] becomes the rows' places in `order`. */
static void block_order(struct lda_block *block, uint32_t *counts, uint32_t row_count,
                        struct lda_document (*document)(const void *context, uint32_t i), const void *context) {
    uint32_t word = 0;
    uint32_t place = 0;
    for (uint32_t slot = 0; slot < row_count; slot++) {
        if (counts[slot] > 0) {
            block->slots[word] = slot;
            block->word_starts[word++] = place;
            place += counts[slot];
            counts[slot] = place - counts[slot];
        }
    }
    block->word_starts[word] = place;
    uint32_t token = 0;
    for (uint32_t d = 0; d < block->document_count; d++) {
        struct lda_document words = document(context, d);
        for (uint32_t i = 0; i < words.count; i++) {
            for (uint32_t n = 0; n < words.counts[i]; n++) {
                block->order[counts[words.slots[i]]++] = token++;
            }
        }
    }
}

int lda_block_open(struct lda_block *block, unsigned proposals, uint32_t document_count, uint32_t row_count,
                   struct lda_document (*document)(const void *context, uint32_t i), const void *context) {
    assert(proposals >= 1 && proposals <= LDA_PROPOSALS_MAX);
    *block = (struct lda_block){.document_count = document_count, .proposals = proposals};
    uint32_t *counts = calloc((size_t)row_count + 1, sizeof *counts);
    block->document_starts = malloc(((size_t)document_count + 1) * sizeof *block->document_starts);
    int result = counts == NULL || block->document_starts == NULL ? AML_ENOMEM : 0;
    if (result == 0) {
        result = block_count(block, counts, document, context);
    }
    if (result == 0) {
        size_t token_size = (LDA_TOKEN_FIELDS + proposals) * sizeof *block->tokens;
        block->slots = malloc((size_t)block->word_count * sizeof *block->slots + 1);
        block->word_starts = malloc(((size_t)block->word_count + 1) * sizeof *block->word_starts);
        block->order = malloc((size_t)block->token_count * sizeof *block->order + 1);
        block->tokens = malloc((size_t)block->token_count * token_size + 1);
        if (block->slots == NULL || block->word_starts == NULL || block->order == NULL || block->tokens == NULL) {
            result = AML_ENOMEM;
        }
    }
    if (result == 0) {
        block_order(block, counts, row_count, document, context);
    } else {
        lda_block_close(block);
    }
    free(counts);
    return result;
}

void lda_block_close(struct lda_block *block) {
    free(block->document_starts);
    free(block->slots);
    free(block->word_starts);
    free(block->order);
    free(block->tokens);
    *block = (struct lda_block){0};
}

/* ---- Memory of a clock and a thread ---- */

int lda_clock_open(struct lda_clock *clock, uint32_t topics) {
    assert(topics >= 1 && topics <= LDA_TOPICS_MAX);
    clock->topics = topics;
    clock->inverse = malloc(topics * sizeof *clock->inverse);
    clock->smoothing = malloc(topics * sizeof *clock->smoothing);
    return clock->inverse == NULL || clock->smoothing == NULL ? AML_ENOMEM : 0;
}

void lda_clock_close(struct lda_clock *clock) {
    free(clock->inverse);
    free(clock->smoothing);
    *clock = (struct lda_clock){0};
}

int lda_thread_open(struct lda_thread *thread, uint32_t topics) {
    *thread = (struct lda_thread){.changes = calloc(topics, sizeof *thread->changes),
                                  .row_changes = calloc(topics + 1U, sizeof *thread->row_changes),
                                  .given = malloc((topics + 1U) * sizeof *thread->given),
                                  .columns = malloc((topics + 1U) * sizeof *thread->columns),
                                  .document = malloc(topics * sizeof *thread->document),
                                  .weights = malloc((topics + 1U) * sizeof *thread->weights),
                                  .stack = malloc((topics + 1U) * sizeof *thread->stack),
                                  .alias = malloc((topics + 1U) * sizeof *thread->alias)};
    bool complete = thread->changes != NULL && thread->row_changes != NULL && thread->given != NULL &&
                    thread->columns != NULL && thread->document != NULL && thread->weights != NULL &&
                    thread->stack != NULL && thread->alias != NULL;
    return complete ? 0 : AML_ENOMEM;
}

void lda_thread_close(struct lda_thread *thread) {
    free(thread->changes);
    free(thread->row_changes);
    free(thread->given);
    free(thread->columns);
    free(thread->document);
    free(thread->weights);
    free(thread->stack);
    free(thread->alias);
    *thread = (struct lda_thread){0};
}

/* ---- Alias tables ---- */

/* Completes `count` entries, whose topics are set, for weights[] with the sum `sum`. Changes the weights. Vose's
 * algorithm: fills each entry below the mean from an entry above it. */
static void alias_build(struct lda_alias *entries, float *weights, uint32_t count, float sum, uint32_t *stack) {
    float scale = (float)count / sum;
    uint32_t small = 0;     /* entries below the mean are stack[0 .. small) */
    uint32_t large = count; /* the others are stack[large .. count) */
    for (uint32_t i = 0; i < count; i++) {
        weights[i] *= scale;
        uint32_t is_small = weights[i] < 1.0F ? 1 : 0;
        stack[is_small ? small : large - 1] = i;
        small += is_small;
        large -= 1 - is_small;
    }
    while (small > 0 && large < count) {
        uint32_t to = stack[--small];
        uint32_t from = stack[large];
        entries[to].threshold = (uint32_t)(weights[to] * 0x1p32F);
        entries[to].alias = entries[from].topic;
        weights[from] -= 1.0F - weights[to];
        if (weights[from] < 1.0F) {
            large++;
            stack[small++] = from;
        }
    }
    while (small > 0) { /* remaining entries are 1, up to rounding */
        uint32_t i = stack[--small];
        entries[i].threshold = UINT32_MAX;
        entries[i].alias = entries[i].topic;
    }
    for (; large < count; large++) {
        uint32_t i = stack[large];
        entries[i].threshold = UINT32_MAX;
        entries[i].alias = entries[i].topic;
    }
}

LDA_INLINE uint32_t alias_draw(const struct lda_alias *entries, uint32_t count, uint64_t random) {
    const struct lda_alias entry = entries[below((uint32_t)random, count)];
    return (uint32_t)(random >> 32) < entry.threshold ? entry.topic : entry.alias;
}

void lda_clock_totals(struct lda_clock *clock, struct lda_thread *thread, const int64_t *totals) {
    float smoothing = (float)clock->vocabulary * clock->beta;
    double sum = 0;
    for (uint32_t k = 0; k < clock->topics; k++) {
        clock->inverse[k] = 1.0F / ((float)(totals[k] > 0 ? totals[k] : 0) + smoothing);
        sum += (double)clock->inverse[k];
        thread->weights[k] = clock->inverse[k];
        clock->smoothing[k].topic = (uint16_t)k;
    }
    clock->smoothing_weight = (float)(clock->beta * sum);
    alias_build(clock->smoothing, thread->weights, clock->topics, (float)sum, thread->stack);
}

/* ---- Loading and storing ---- */

/* Returns the first topic of token number `token` of document `key`. A pure function. */
static uint16_t first_topic(uint64_t seed, uint64_t key, uint32_t token, uint32_t topics) {
    return (uint16_t)below((uint32_t)(hash_mix(hash_mix(seed ^ hash_mix(key)) + token) >> 32), topics);
}

uint32_t lda_load(const struct lda_block *block, struct lda_thread *thread, uint32_t topics, uint64_t seed,
                  uint64_t key, uint32_t first_token, uint32_t first, uint32_t count, const uint16_t *assigned) {
    const size_t size = LDA_TOKEN_FIELDS + block->proposals;
    uint16_t *token = lda_token(block, first);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < count; i++, token += size) {
        uint16_t counted = lda_topic_of(assigned[i], topics);
        token[LDA_TOKEN_COUNTED] = counted;
        token[LDA_TOKEN_TOPIC] = counted;
        if (counted == LDA_NO_TOPIC) {
            uint16_t topic = first_topic(seed, key, first_token + i, topics);
            token[LDA_TOKEN_TOPIC] = topic;
            thread->changes[topic]++;
            fresh++;
        }
    }
    return fresh;
}

void lda_store(const struct lda_block *block, uint32_t first, uint32_t count, uint16_t *assigned) {
    const size_t size = LDA_TOKEN_FIELDS + block->proposals;
    const uint16_t *token = lda_token(block, first);
    for (uint32_t i = 0; i < count; i++, token += size) {
        assigned[i] = (uint16_t)(token[LDA_TOKEN_TOPIC] + 1U);
    }
}

/* ---- Phases over words ---- */

LDA_INLINE int32_t *clock_row(const struct lda_clock *clock, uint32_t slot) {
    return (int32_t *)(void *)(clock->words + slot * clock->stride);
}

/* 64 bits mark the changed columns of a row: column k has bit k >> columns_shift. */
static unsigned columns_shift(uint32_t topics) {
    unsigned shift = 4; /* a cache line */
    while (topics >> shift >= 64) {
        shift++;
    }
    return shift;
}

/* Passes the changes in the columns of the set bits to clock->give, and sets them to zero. Returns the number of
 * changes, which remain in thread->columns and thread->given. */
static uint32_t give_changes(const struct lda_clock *clock, struct lda_thread *thread, uint32_t slot, uint64_t bits) {
    const unsigned shift = columns_shift(clock->topics);
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) {
        uint32_t first = (uint32_t)__builtin_ctzll(bits) << shift;
        uint32_t end = clock->topics + 1 - first < 1U << shift ? clock->topics + 1 : first + (1U << shift);
        for (uint32_t k = first; k < end; k++) {
            thread->columns[count] = k;
            thread->given[count] = thread->row_changes[k];
            count += thread->row_changes[k] != 0 ? 1 : 0;
            thread->row_changes[k] = 0;
        }
    }
    if (count > 0 && clock->give != NULL) {
        clock->give(clock->give_context, slot, count, thread->columns, thread->given);
    }
    return count;
}

/* Counts the tokens that are not counted yet. */
static void count_fresh(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                        uint32_t word) {
    int32_t *row = clock_row(clock, block->slots[word]);
    int32_t fresh = 0;
    for (uint32_t j = block->word_starts[word]; j < block->word_starts[word + 1]; j++) {
        uint16_t *token = lda_token(block, block->order[j]);
        if (token[LDA_TOKEN_COUNTED] == LDA_NO_TOPIC) {
            token[LDA_TOKEN_COUNTED] = token[LDA_TOKEN_TOPIC];
            row[token[LDA_TOKEN_TOPIC]]++;
            thread->row_changes[token[LDA_TOKEN_TOPIC]]++;
            fresh++;
        }
    }
    if (fresh > 0) {
        row[clock->topics] += fresh;
        thread->row_changes[clock->topics] += fresh;
        give_changes(clock, thread, block->slots[word],
                     UINT64_MAX >> (63 - (clock->topics >> columns_shift(clock->topics))));
    }
}

/* Builds a word's alias table: the topics with n_wk > 0, and an entry LDA_NO_TOPIC that stands for a draw from
 * clock->smoothing. Returns the number of entries. */
static uint32_t word_alias(const struct lda_clock *clock, struct lda_thread *thread, const int32_t *row) {
    const uint32_t topics = clock->topics;
    uint32_t count = 0;
    float sum = 0;
    uint32_t k = 0;
    while (k < topics) {
        if (k + 8 <= topics &&
            (row[k] | row[k + 1] | row[k + 2] | row[k + 3] | row[k + 4] | row[k + 5] | row[k + 6] | row[k + 7]) == 0) {
            k += 8;
            continue;
        }
        uint32_t end = k + 8 < topics ? k + 8 : topics;
        for (; k < end; k++) {
            float weight = (float)row[k] * clock->inverse[k];
            thread->alias[count].topic = (uint16_t)k;
            thread->weights[count] = weight;
            sum += row[k] > 0 ? weight : 0.0F;
            count += row[k] > 0 ? 1 : 0;
        }
    }
    thread->alias[count].topic = LDA_NO_TOPIC;
    thread->weights[count] = clock->smoothing_weight;
    sum += clock->smoothing_weight;
    count++;
    alias_build(thread->alias, thread->weights, count, sum, thread->stack);
    return count;
}

/* Draws a topic from (n_wk + beta) / (n_k + V beta), where n_wk excludes the token itself. The token has topic
 * `own`, and `own_share` / 2^32 = 1 / n_w,own. A draw of the token itself is repeated. */
LDA_INLINE uint16_t word_draw(const struct lda_clock *clock, const struct lda_alias *alias, uint32_t count,
                              struct random *random, uint32_t own, uint32_t own_share) {
    for (unsigned retries = 0; retries < RETRIES_MAX; retries++) {
        uint64_t bits = random_next(random);
        uint64_t place = (bits & UINT32_MAX) * count;
        const struct lda_alias entry = alias[place >> 32];
        uint32_t topic = choose((uint32_t)(bits >> 32) < entry.threshold, entry.topic, entry.alias);
        /* The low half of `place` serves as another random number. */
        bool itself = (topic == own) & ((uint32_t)place <= own_share);
        if (__builtin_expect(!(itself | (topic == LDA_NO_TOPIC)), 1)) {
            return (uint16_t)topic;
        }
        if (topic == LDA_NO_TOPIC) {
            break;
        }
    }
    return (uint16_t)alias_draw(clock->smoothing, clock->topics, random_next(random));
}

LDA_INLINE void prefetch_token(const struct lda_block *block, uint32_t j, uint32_t end, size_t size) {
    if (end - j > PREFETCH_DISTANCE) {
        __builtin_prefetch(block->tokens + (size_t)block->order[j + PREFETCH_DISTANCE] * size, 1);
    }
}

LDA_INLINE void propose(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                        uint32_t first_word, uint32_t end_word, const unsigned proposals) {
    const size_t size = LDA_TOKEN_FIELDS + proposals;
    const uint32_t end = block->word_starts[end_word];
    for (uint32_t word = first_word; word < end_word; word++) {
        const int32_t *row = clock_row(clock, block->slots[word]);
        struct random random = random_start(clock->seed, PHASE_PROPOSE, block->slots[word]);
        if (block->fresh) {
            count_fresh(clock, thread, block, word);
        }
        uint32_t count = word_alias(clock, thread, row);
        for (uint32_t j = block->word_starts[word]; j < block->word_starts[word + 1]; j++) {
            prefetch_token(block, j, end, size);
            uint16_t *token = block->tokens + (size_t)block->order[j] * size;
            uint32_t own = token[LDA_TOKEN_COUNTED];
            uint32_t own_share = UINT32_MAX / (uint32_t)(row[own] > 0 ? row[own] : 1);
            for (unsigned m = 0; m < proposals; m++) {
                token[LDA_TOKEN_FIELDS + m] = word_draw(clock, thread->alias, count, &random, own, own_share);
            }
        }
    }
}

/* Returns (n_wk - less + beta) / (n_k + V beta). */
LDA_INLINE float word_weight(const struct lda_clock *clock, const int32_t *row, uint32_t topic, int32_t less) {
    return ((float)(row[topic] - less) + clock->beta) * clock->inverse[topic];
}

LDA_INLINE void words(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                      uint32_t first_word, uint32_t end_word, const unsigned proposals) {
    const size_t size = LDA_TOKEN_FIELDS + proposals;
    const uint32_t all_end = block->word_starts[end_word];
    const unsigned shift = columns_shift(clock->topics);
    for (uint32_t word = first_word; word < end_word; word++) {
        int32_t *row = clock_row(clock, block->slots[word]);
        struct random random = random_start(clock->seed, PHASE_WORDS, block->slots[word]);
        const uint32_t end = block->word_starts[word + 1];
        uint64_t changed = 0;
        for (uint32_t j = block->word_starts[word]; j < end; j++) { /* counts the changes of `documents` */
            prefetch_token(block, j, all_end, size);
            const uint16_t *token = block->tokens + (size_t)block->order[j] * size;
            row[token[LDA_TOKEN_COUNTED]]--;
            row[token[LDA_TOKEN_TOPIC]]++;
        }
        for (uint32_t j = block->word_starts[word]; j < end; j++) {
            prefetch_token(block, j, end, size);
            uint16_t *token = block->tokens + (size_t)block->order[j] * size;
            const uint32_t own = token[LDA_TOKEN_TOPIC];
            uint32_t topic = own;
            float weight = word_weight(clock, row, own, 1);
            uint64_t bits = 0;
            for (unsigned m = 0; m < proposals; m++) {
                bits = m % 2 == 0 ? random_next(&random) : bits >> 32;
                uint32_t proposed = token[LDA_TOKEN_FIELDS + m];
                float proposed_weight = word_weight(clock, row, proposed, proposed == own ? 1 : 0);
                bool accepted = unit((uint32_t)bits) * weight < proposed_weight;
                topic = choose(accepted, proposed, topic);
                weight = choose_float(accepted, proposed_weight, weight);
            }
            if (topic != own) {
                row[own]--;
                row[topic]++;
                token[LDA_TOKEN_TOPIC] = (uint16_t)topic;
            }
            uint32_t counted = token[LDA_TOKEN_COUNTED];
            thread->row_changes[counted]--;
            thread->row_changes[topic]++;
            uint64_t moved = counted != topic ? 1 : 0;
            changed |= moved << (counted >> shift) | moved << (topic >> shift);
        }
        uint32_t count = give_changes(clock, thread, block->slots[word], changed);
        for (uint32_t i = 0; i < count; i++) {
            thread->changes[thread->columns[i]] += thread->given[i];
        }
    }
}

/* ---- The phase over documents ---- */

/* Accepts or rejects the proposals of the phases over words. document[k] is n_dk + alpha. */
LDA_INLINE void document_accept(uint16_t *tokens, uint32_t count, float *document, struct random *random,
                                const unsigned proposals) {
    const size_t size = LDA_TOKEN_FIELDS + proposals;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t *token = tokens + i * size;
        const uint32_t own = token[LDA_TOKEN_TOPIC];
        uint32_t topic = own;
        float weight = document[own] - 1.0F;
        uint64_t bits = 0;
        for (unsigned m = 0; m < proposals; m++) {
            bits = m % 2 == 0 ? random_next(random) : bits >> 32;
            uint32_t proposed = token[LDA_TOKEN_FIELDS + m];
            float proposed_weight = document[proposed] - (proposed == own ? 1.0F : 0.0F);
            bool accepted = unit((uint32_t)bits) * weight < proposed_weight;
            topic = choose(accepted, proposed, topic);
            weight = choose_float(accepted, proposed_weight, weight);
        }
        if (topic != own) {
            document[own] -= 1.0F;
            document[topic] += 1.0F;
            token[LDA_TOKEN_TOPIC] = (uint16_t)topic;
        }
    }
}

/* Proposes topics from n_dk + alpha, excluding the token itself: the topic of another token, or any topic. */
LDA_INLINE void document_propose(const struct lda_clock *clock, uint16_t *tokens, uint32_t count, struct random *random,
                                 const unsigned proposals) {
    const size_t size = LDA_TOKEN_FIELDS + proposals;
    const double others = count - 1.0;
    const uint32_t threshold = (uint32_t)(others / (others + (double)clock->alpha * clock->topics) *
                                          4294967295.0); /* probability of another token's topic, times 2^32 */
    for (uint32_t i = 0; i < count; i++) {
        for (unsigned m = 0; m < proposals; m++) {
            uint64_t bits = random_next(random);
            uint32_t other = below((uint32_t)(bits >> 32), count - 1);
            other += other >= i && count > 1 ? 1 : 0;
            uint32_t topic = tokens[other * size + LDA_TOKEN_TOPIC];
            uint32_t any = below((uint32_t)(bits >> 32), clock->topics);
            tokens[i * size + LDA_TOKEN_FIELDS + m] = (uint16_t)choose((uint32_t)bits < threshold, topic, any);
        }
    }
}

LDA_INLINE void documents(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                          uint32_t first_document, uint32_t end_document, const unsigned proposals) {
    const size_t size = LDA_TOKEN_FIELDS + proposals;
    float *document = thread->document;
    for (uint32_t k = 0; k < clock->topics; k++) {
        document[k] = clock->alpha;
    }
    for (uint32_t d = first_document; d < end_document; d++) {
        uint32_t count = block->document_starts[d + 1] - block->document_starts[d];
        uint16_t *tokens = block->tokens + block->document_starts[d] * size;
        struct random random = random_start(clock->seed, PHASE_DOCUMENTS, d);
        for (uint32_t i = 0; i < count; i++) {
            document[tokens[i * size + LDA_TOKEN_TOPIC]] += 1.0F;
        }
        document_accept(tokens, count, document, &random, proposals);
        document_propose(clock, tokens, count, &random, proposals);
        for (uint32_t i = 0; i < count; i++) {
            document[tokens[i * size + LDA_TOKEN_TOPIC]] = clock->alpha;
        }
    }
}

/* ---- The loops, compiled for each number of proposals ---- */

#define LDA_SPECIALIZED(function, ...)                                                                                 \
    switch (block->proposals) {                                                                                        \
    case 1:                                                                                                            \
        function(__VA_ARGS__, 1);                                                                                      \
        break;                                                                                                         \
    case 2:                                                                                                            \
        function(__VA_ARGS__, 2);                                                                                      \
        break;                                                                                                         \
    case 3:                                                                                                            \
        function(__VA_ARGS__, 3);                                                                                      \
        break;                                                                                                         \
    default:                                                                                                           \
        function(__VA_ARGS__, LDA_PROPOSALS_MAX);                                                                      \
        break;                                                                                                         \
    }

void lda_propose(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                 uint32_t first_word, uint32_t end_word) {
    LDA_SPECIALIZED(propose, clock, thread, block, first_word, end_word)
}

void lda_documents(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                   uint32_t first_document, uint32_t end_document) {
    LDA_SPECIALIZED(documents, clock, thread, block, first_document, end_document)
}

void lda_words(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
               uint32_t first_word, uint32_t end_word) {
    LDA_SPECIALIZED(words, clock, thread, block, first_word, end_word)
}
