/* Collapsed Gibbs sampling of latent Dirichlet allocation, as plain functions over arrays, without parameter server
 * or files. The time for a token does not depend on the number of topics.
 *
 * The letters: document d, word w, topic k, K topics, V words. n_dk, n_wk and n_k are the numbers of tokens with
 * topic k in d, of w, and in all. alpha and beta are the Dirichlet priors. A token's conditional distribution,
 * without its own topic in the counts, is
 *
 *     p(k) ~ (n_dk + alpha) (n_wk + beta) / (n_k + V beta)                                                       (1)
 *
 * Metropolis-Hastings draws from (1) by two proposals, each accepted by only the other factor (LightLDA, Yuan et al.
 * 2015). The proposals visit the tokens in two orders. So only one document's or one word's counts are in use at a
 * time, and fit the first-level cache (WarpLDA, Chen et al. 2016):
 *
 *     by words      (propose)   k' ~ (n_wk + beta) / (n_k + V beta), from the word's alias table
 *     by documents  (documents) accept with (n_dk' + alpha) / (n_dk + alpha);
 *                               then k' ~ n_dk + alpha: the topic of another token of the document, or any topic
 *     by words      (words)     accept with (n_wk' + beta) (n_k + V beta) / ((n_wk + beta) (n_k' + V beta))
 *
 * Unlike in WarpLDA, a token's own topic is never counted in (1). n_dk is always current within a document, and n_wk
 * within `words`. n_wk in `documents`, and n_k, are those at the beginning of the clock.
 *
 * Threads: several threads may run a phase on disjoint ranges of documents or words. Only the phases over words
 * change a word's row, each row in one thread. All threads must meet between phases. The results do not depend on
 * the number of threads, as random numbers are functions of (seed, clock, phase, document or word). */
#ifndef APPS_LDA_SAMPLER_H
#define APPS_LDA_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LDA_TOPICS_MAX = 65535,
    LDA_PROPOSALS = 3, /* per token; 3 are as good as exact sampling, 2 are a little worse and a third faster */
    LDA_PROPOSALS_MAX = 4,
    LDA_NO_TOPIC = 65535 /* topic of a token that is not counted yet */
};

/* A token of a block is uint16_t[LDA_TOKEN_FIELDS + proposals]: the topic under which the rows count it, its current
 * topic, and its proposed topics. */
enum { LDA_TOKEN_COUNTED = 0, LDA_TOKEN_TOPIC = 1, LDA_TOKEN_FIELDS = 2 };

/* The documents of one clock, in both orders. Tokens are numbered by document, and within a document by word. */
struct lda_block {
    uint32_t document_count, word_count, token_count;
    unsigned proposals;
    bool fresh;                /* set by the caller if lda_load found tokens that are not counted yet */
    uint32_t *document_starts; /* [document_count + 1]: a document's first token */
    uint32_t *slots;           /* [word_count]: the words' rows, in ascending order */
    uint32_t *word_starts;     /* [word_count + 1]: a word's first place in `order` */
    uint32_t *order;           /* [token_count]: the tokens by words */
    uint16_t *tokens;          /* [token_count][LDA_TOKEN_FIELDS + proposals] */
};

/* One document's distinct words: their rows, and their numbers of tokens (at least 1). */
struct lda_document {
    const uint32_t *slots, *counts;
    uint32_t count;
};

/* Allocates and fills a block. Calls `document` twice for each document i of `document_count`, in order. row_count
 * must be above all slots. Returns 0, AML_ENOMEM, or AML_ELIMIT for 2^32 tokens or more. After success
 * lda_block_close frees the block. */
int lda_block_open(struct lda_block *block, unsigned proposals, uint32_t document_count, uint32_t row_count,
                   struct lda_document (*document)(const void *context, uint32_t i), const void *context);
void lda_block_close(struct lda_block *block);

static inline uint16_t *lda_token(const struct lda_block *block, uint32_t token) {
    return block->tokens + (size_t)token * (LDA_TOKEN_FIELDS + block->proposals);
}

/* An entry of an alias table (Walker 1974), whose entries are equally likely. A draw gives `topic` with probability
 * `threshold` / 2^32, else `alias`. */
struct lda_alias {
    uint32_t threshold;
    uint16_t topic, alias;
};

/* The data that a clock's phases share. Read-only while a phase runs, except the rows. */
struct lda_clock {
    uint32_t topics, vocabulary; /* K, V */
    float alpha, beta;
    uint64_t seed; /* differs from clock to clock */
    /* The words' rows, int32_t[K + 1] at words + slot * stride: n_wk, then the number of the word's tokens. Only one
     * thread changes a row. */
    unsigned char *words;
    size_t stride;
    /* Called after changes[count] were added to columns[count], ascending, of a word's row, in the thread that added
     * them. NULL: not wanted. */
    void (*give)(void *context, uint32_t slot, uint32_t count, const uint32_t *columns, const int32_t *changes);
    void *give_context;
    /* Made by lda_clock_totals: */
    float *inverse;              /* [K]: 1 / (n_k + V beta) */
    struct lda_alias *smoothing; /* [K]: alias table of topics in proportion to `inverse` */
    float smoothing_weight;      /* beta times the sum of `inverse` */
};

/* A thread's own memory. */
struct lda_thread {
    int64_t *changes;        /* [K]: changes of n_k by `load` and `words`; the caller takes them and sets zeros */
    int32_t *row_changes;    /* [K + 1]: changes of the present word's row; zeros between words */
    int32_t *given;          /* [K + 1] */
    uint32_t *columns;       /* [K + 1] */
    float *document;         /* [K] */
    float *weights;          /* [K + 1] */
    uint32_t *stack;         /* [K + 1] */
    struct lda_alias *alias; /* [K + 1] */
};

/* Allocate memory for K topics. Return 0 or AML_ENOMEM. Close both even after a failure; closing zeroed structs is
 * allowed. */
int lda_clock_open(struct lda_clock *clock, uint32_t topics);
void lda_clock_close(struct lda_clock *clock);
int lda_thread_open(struct lda_thread *thread, uint32_t topics);
void lda_thread_close(struct lda_thread *thread);

/* Returns the topic of `assigned`, an element of a document's row. Returns LDA_NO_TOPIC for 0, and for values out of
 * range, which a faulty node may have written. Such a token gets a first topic again. */
static inline uint16_t lda_topic_of(uint16_t assigned, uint32_t topics) {
    uint16_t topic = (uint16_t)(assigned - 1U); /* 0 becomes LDA_NO_TOPIC */
    return topic < topics ? topic : LDA_NO_TOPIC;
}

/* Sets tokens first..first + count - 1 to their state at the beginning of a clock. `assigned` holds their topics +
 * 1; tokens with 0 get a first topic now and are not counted yet. `key` and `first_token` (the number in the
 * document of the first of these tokens) determine the first topics. Returns the number of new tokens. */
uint32_t lda_load(const struct lda_block *block, struct lda_thread *thread, uint32_t topics, uint64_t seed,
                  uint64_t key, uint32_t first_token, uint32_t first, uint32_t count, const uint16_t *assigned);
/* Stores the tokens' topics + 1 in `assigned`. */
void lda_store(const struct lda_block *block, uint32_t first, uint32_t count, uint16_t *assigned);

/* Sets n_k, including the changes of all threads' lda_load. Call it before lda_propose. `thread` is any thread, for
 * its memory. */
void lda_clock_totals(struct lda_clock *clock, struct lda_thread *thread, const int64_t *totals);

/* The phases, in this order, each over a range of words (indexes in block->slots) or documents. After each phase the
 * counts in the words' rows equal the tokens' counted topics. */
void lda_propose(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                 uint32_t first_word, uint32_t end_word);
void lda_documents(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
                   uint32_t first_document, uint32_t end_document);
void lda_words(const struct lda_clock *clock, struct lda_thread *thread, const struct lda_block *block,
               uint32_t first_word, uint32_t end_word);

#endif
