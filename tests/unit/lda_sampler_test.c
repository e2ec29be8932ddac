/* Tests of apps/lda's arithmetic. Enumeration shows that both kinds of the sampler's proposals lead to the right
 * distribution. Counts stay exact, with the same result in one or several threads. After 100 iterations the
 * likelihood is that of exact sampling. Also likelihood, new documents and alpha. */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "apps/lda/corpus.h"
#include "apps/lda/likelihood.h"
#include "apps/lda/prior.h"
#include "tests/test.h"
#include "tests/unit/lda_reference.h"

enum { THREADS_MAX = 4, SEED = 5 };

/* ---- Training without a parameter server ---- */

struct trainer {
    const struct lda_texts *texts;
    struct lda_state *state;
    struct lda_block block;
    struct lda_clock clock;
    struct lda_thread memory[THREADS_MAX];
    unsigned threads;
    pthread_barrier_t barrier;
    unsigned iterations;
    uint64_t seed;
};

static void trainer_open(struct trainer *trainer, const struct lda_texts *texts, struct lda_state *state, double alpha,
                         double beta, unsigned proposals, unsigned threads) {
    *trainer = (struct trainer){.texts = texts, .state = state, .threads = threads, .seed = SEED};
    assert_int_equal(
        lda_block_open(&trainer->block, proposals, texts->document_count, texts->vocabulary, lda_texts_document, texts),
        0);
    assert_int_equal(lda_clock_open(&trainer->clock, state->topics), 0);
    trainer->clock.vocabulary = texts->vocabulary;
    trainer->clock.alpha = (float)alpha;
    trainer->clock.beta = (float)beta;
    trainer->clock.words = (unsigned char *)state->words;
    trainer->clock.stride = (state->topics + 1U) * sizeof *state->words;
    for (unsigned t = 0; t < threads; t++) {
        assert_int_equal(lda_thread_open(&trainer->memory[t], state->topics), 0);
    }
    pthread_barrier_init(&trainer->barrier, NULL, threads);
}

static void trainer_close(struct trainer *trainer) {
    lda_block_close(&trainer->block);
    lda_clock_close(&trainer->clock);
    for (unsigned t = 0; t < trainer->threads; t++) {
        lda_thread_close(&trainer->memory[t]);
    }
    pthread_barrier_destroy(&trainer->barrier);
}

static void take_changes(struct trainer *trainer) {
    for (unsigned t = 0; t < trainer->threads; t++) {
        for (uint32_t k = 0; k < trainer->state->topics; k++) {
            trainer->state->totals[k] += trainer->memory[t].changes[k];
            trainer->memory[t].changes[k] = 0;
        }
    }
}

struct trainer_thread {
    struct trainer *trainer;
    unsigned number;
};

static void *train_thread(void *context) {
    const struct trainer_thread *thread = context;
    struct trainer *trainer = thread->trainer;
    struct lda_block *block = &trainer->block;
    struct lda_thread *memory = &trainer->memory[thread->number];
    const uint32_t documents[2] = {block->document_count * thread->number / trainer->threads,
                                   block->document_count * (thread->number + 1) / trainer->threads};
    const uint32_t words[2] = {block->word_count * thread->number / trainer->threads,
                               block->word_count * (thread->number + 1) / trainer->threads};
    const uint32_t first = block->document_starts[documents[0]];
    const uint32_t end = block->document_starts[documents[1]];
    for (unsigned i = 0; i < trainer->iterations; i++) {
        for (uint32_t d = documents[0]; d < documents[1]; d++) {
            uint32_t start = block->document_starts[d];
            lda_load(block, memory, trainer->state->topics, trainer->seed, d, 0, start,
                     block->document_starts[d + 1] - start, trainer->state->assigned + start);
        }
        pthread_barrier_wait(&trainer->barrier);
        if (thread->number == 0) {
            take_changes(trainer);
            block->fresh = i == 0;
            trainer->clock.seed = hash_mix(trainer->seed + i);
            lda_clock_totals(&trainer->clock, memory, trainer->state->totals);
        }
        pthread_barrier_wait(&trainer->barrier);
        lda_propose(&trainer->clock, memory, block, words[0], words[1]);
        pthread_barrier_wait(&trainer->barrier);
        lda_documents(&trainer->clock, memory, block, documents[0], documents[1]);
        pthread_barrier_wait(&trainer->barrier);
        lda_words(&trainer->clock, memory, block, words[0], words[1]);
        pthread_barrier_wait(&trainer->barrier);
        lda_store(block, first, end - first, trainer->state->assigned + first);
        if (thread->number == 0) {
            take_changes(trainer);
        }
        pthread_barrier_wait(&trainer->barrier);
    }
    return NULL;
}

static void train(struct trainer *trainer, unsigned iterations) {
    pthread_t threads[THREADS_MAX];
    struct trainer_thread contexts[THREADS_MAX];
    trainer->iterations = iterations;
    for (unsigned t = 0; t < trainer->threads; t++) {
        contexts[t] = (struct trainer_thread){trainer, t};
        assert_int_equal(pthread_create(&threads[t], NULL, train_thread, &contexts[t]), 0);
    }
    for (unsigned t = 0; t < trainer->threads; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    }
}

/* Recomputes the counts from the assignments. */
static void assert_counts_are_exact(const struct trainer *trainer) {
    const struct lda_texts *texts = trainer->texts;
    CLOSED_BY(lda_state_close) struct lda_state counted;
    const uint16_t *assigned = trainer->state->assigned;
    lda_state_open(&counted, texts, trainer->state->topics);
    for (uint32_t d = 0; d < texts->document_count; d++) {
        struct lda_document words = lda_texts_document(texts, d);
        for (uint32_t w = 0; w < words.count; w++) {
            int32_t *row = counted.words + (size_t)words.slots[w] * (counted.topics + 1U);
            for (uint32_t n = 0; n < words.counts[w]; n++, assigned++) {
                assert_in_range(*assigned, 1, counted.topics);
                row[*assigned - 1]++;
                row[counted.topics]++;
                counted.totals[*assigned - 1]++;
            }
        }
    }
    assert_memory_equal(counted.words, trainer->state->words,
                        (size_t)texts->vocabulary * (counted.topics + 1U) * sizeof *counted.words);
    assert_memory_equal(counted.totals, trainer->state->totals, counted.topics * sizeof *counted.totals);
}

/* Makes documents on one of four subjects each. Subjects have words of their own, and all use some common words. */
static void make_texts(struct lda_texts *texts, uint32_t documents) {
    *texts = (struct lda_texts){0};
    for (uint32_t d = 0; d < documents; d++) {
        uint32_t words[24];
        uint32_t counts[24];
        uint32_t count = 0;
        for (uint32_t w = 0; w < 40 && count < 24; w++) {
            uint64_t random = hash_mix(d * UINT64_C(1000) + w);
            if (random % 4 == 0 || (w / 8 == d % 4 && random % 2 == 0)) {
                words[count] = w;
                counts[count++] = 1 + (uint32_t)(random >> 60) / 5;
            }
        }
        lda_texts_add(texts, words, counts, count);
    }
}

TEST(counts_are_exact_in_threads) {
    CLOSED_BY(lda_texts_close) struct lda_texts texts;
    make_texts(&texts, 300);
    const uint32_t topics[] = {1, 2, 7, 20, 1000};
    for (size_t t = 0; t < sizeof topics / sizeof topics[0]; t++) {
        for (unsigned proposals = 1; proposals <= LDA_PROPOSALS_MAX; proposals++) {
            CLOSED_BY(trainer_close) struct trainer trainer;
            CLOSED_BY(lda_state_close) struct lda_state counts;
            lda_state_open(&counts, &texts, topics[t]);
            trainer_open(&trainer, &texts, &counts, 0.1, 0.01, proposals, 3);
            for (unsigned i = 0; i < 3; i++) {
                train(&trainer, 2);
                assert_counts_are_exact(&trainer);
                trainer.seed++;
            }
        }
    }
}

TEST(threads_do_not_change_the_result) {
    CLOSED_BY(lda_texts_close) struct lda_texts texts;
    FREED uint16_t *first = NULL;
    make_texts(&texts, 200);
    for (unsigned threads = 1; threads <= THREADS_MAX; threads++) {
        CLOSED_BY(trainer_close) struct trainer trainer;
        CLOSED_BY(lda_state_close) struct lda_state counts;
        lda_state_open(&counts, &texts, 12);
        trainer_open(&trainer, &texts, &counts, 0.5, 0.05, 2, threads);
        train(&trainer, 5);
        if (first != NULL) {
            assert_memory_equal(first, counts.assigned, texts.tokens * sizeof *first);
        } else {
            first = memory_zeroed(texts.tokens, sizeof *first);
            memcpy(first, counts.assigned, texts.tokens * sizeof *first);
        }
    }
}

/* ---- Distributions ---- */

enum { TINY_TOPICS = 3, TINY_TOKENS = 4, TINY_STATES = 81, TINY_DRAWS = 200000 };

/* The largest difference between a state's frequency and its probability, in standard deviations of independent
 * draws. As consecutive draws depend on each other, a few more deviations are allowed. */
static void assert_distribution(const double *weights, const double *seen) {
    double sum = 0;
    double distance = 0;
    for (unsigned s = 0; s < TINY_STATES; s++) {
        sum += weights[s];
    }
    for (unsigned s = 0; s < TINY_STATES; s++) {
        distance += fabs(weights[s] / sum - seen[s] / TINY_DRAWS) / 2;
    }
    if (distance > 0.015) {
        fail_msg("the distribution differs by %f in total variation", distance);
    }
}

/* Tokens of one document, each of another word, whose rows have counts of other documents. The words' proposals must
 * lead to p(z) ~ prod_i (n_wi,zi + beta) / (n_zi + V beta) times prod_k gamma(n_dk + alpha). */
TEST(proposals_of_words_lead_to_the_posterior) {
    static const int32_t others[TINY_TOKENS][TINY_TOPICS] = {{5, 0, 1}, {0, 0, 0}, {1, 7, 2}, {2, 1, 0}};
    static const int64_t totals[TINY_TOPICS] = {1000000, 2000000, 1500000};
    const double alpha = 0.4;
    const double beta = 0.2;
    CLOSED_BY(lda_texts_close) struct lda_texts texts = {0};
    CLOSED_BY(lda_state_close) struct lda_state counts;
    CLOSED_BY(trainer_close) struct trainer trainer;
    double weights[TINY_STATES] = {0};
    double seen[TINY_STATES] = {0};
    lda_texts_add(&texts, (const uint32_t[]){0, 1, 2, 3}, (const uint32_t[]){1, 1, 1, 1}, TINY_TOKENS);
    lda_state_open(&counts, &texts, TINY_TOPICS);
    trainer_open(&trainer, &texts, &counts, alpha, beta, 2, 1);
    lda_load(&trainer.block, trainer.memory, TINY_TOPICS, SEED, 0, 0, 0, TINY_TOKENS, counts.assigned);
    trainer.block.fresh = true;
    for (unsigned i = 0; i < TINY_TOKENS; i++) {
        for (unsigned k = 0; k < TINY_TOPICS; k++) {
            counts.words[i * (TINY_TOPICS + 1) + k] = others[i][k];
        }
    }
    lda_clock_totals(&trainer.clock, trainer.memory, totals);
    for (unsigned draw = 0; draw < TINY_DRAWS; draw++) {
        unsigned at = 0;
        trainer.clock.seed = draw;
        lda_propose(&trainer.clock, trainer.memory, &trainer.block, 0, TINY_TOKENS);
        lda_documents(&trainer.clock, trainer.memory, &trainer.block, 0, 1);
        for (unsigned i = 0; i < TINY_TOKENS; i++) {
            at = at * TINY_TOPICS + lda_token(&trainer.block, i)[LDA_TOKEN_TOPIC];
        }
        seen[at] += 1;
        trainer.block.fresh = false;
    }
    for (unsigned s = 0; s < TINY_STATES; s++) {
        unsigned in_document[TINY_TOPICS] = {0};
        unsigned rest = s;
        weights[s] = 1;
        for (int i = TINY_TOKENS - 1; i >= 0; i--, rest /= TINY_TOPICS) {
            unsigned k = rest % TINY_TOPICS;
            weights[s] *= (others[i][k] + beta) / (double)totals[k] * (in_document[k]++ + alpha);
        }
    }
    assert_distribution(weights, seen);
}

/* A faulty node may have written any number into a document's row. */
TEST(topics_that_are_none_are_sampled_anew) {
    static const uint16_t assigned[TINY_TOKENS] = {TINY_TOPICS + 1, 65535, 0, TINY_TOPICS};
    CLOSED_BY(lda_texts_close) struct lda_texts texts = {0};
    CLOSED_BY(lda_state_close) struct lda_state counts;
    CLOSED_BY(trainer_close) struct trainer trainer;
    lda_texts_add(&texts, (const uint32_t[]){0, 1, 2, 3}, (const uint32_t[]){1, 1, 1, 1}, TINY_TOKENS);
    lda_state_open(&counts, &texts, TINY_TOPICS);
    trainer_open(&trainer, &texts, &counts, 0.4, 0.2, 2, 1);
    uint32_t fresh = lda_load(&trainer.block, trainer.memory, TINY_TOPICS, SEED, 0, 0, 0, TINY_TOKENS, assigned);
    assert_int_equal(fresh, TINY_TOKENS - 1);
    for (unsigned i = 0; i < TINY_TOKENS; i++) {
        assert_true(lda_token(&trainer.block, i)[LDA_TOKEN_TOPIC] < TINY_TOPICS);
    }
    assert_int_equal(lda_token(&trainer.block, TINY_TOKENS - 1)[LDA_TOKEN_TOPIC], TINY_TOPICS - 1);
}

/* Documents of one token each, all of the same word. The documents' proposals, here any topic, must lead to p(z) ~
 * prod_k gamma(n_wk + beta) / (n_k + V beta)^n_wk. */
TEST(proposals_of_documents_lead_to_the_posterior) {
    static const int64_t totals[TINY_TOPICS] = {1000000, 2000000, 1500000};
    const double beta = 0.7;
    CLOSED_BY(lda_texts_close) struct lda_texts texts = {0};
    CLOSED_BY(lda_state_close) struct lda_state counts;
    CLOSED_BY(trainer_close) struct trainer trainer;
    double weights[TINY_STATES] = {0};
    double seen[TINY_STATES] = {0};
    for (unsigned d = 0; d < TINY_TOKENS; d++) {
        lda_texts_add(&texts, (const uint32_t[]){0}, (const uint32_t[]){1}, 1);
    }
    lda_state_open(&counts, &texts, TINY_TOPICS);
    trainer_open(&trainer, &texts, &counts, 0.3, beta, 2, 1);
    lda_load(&trainer.block, trainer.memory, TINY_TOPICS, SEED, 0, 0, 0, TINY_TOKENS, counts.assigned);
    trainer.block.fresh = true;
    lda_clock_totals(&trainer.clock, trainer.memory, totals);
    lda_propose(&trainer.clock, trainer.memory, &trainer.block, 0, 1); /* counts the tokens */
    for (unsigned draw = 0; draw < TINY_DRAWS; draw++) {
        unsigned at = 0;
        for (unsigned i = 0; i < TINY_TOKENS; i++) { /* the words' proposals change nothing */
            uint16_t *token = lda_token(&trainer.block, i);
            token[LDA_TOKEN_COUNTED] = token[LDA_TOKEN_TOPIC];
            token[LDA_TOKEN_FIELDS] = token[LDA_TOKEN_FIELDS + 1] = token[LDA_TOKEN_TOPIC];
        }
        trainer.clock.seed = draw;
        lda_documents(&trainer.clock, trainer.memory, &trainer.block, 0, TINY_TOKENS);
        lda_words(&trainer.clock, trainer.memory, &trainer.block, 0, 1);
        for (unsigned i = 0; i < TINY_TOKENS; i++) {
            at = at * TINY_TOPICS + lda_token(&trainer.block, i)[LDA_TOKEN_TOPIC];
        }
        seen[at] += 1;
    }
    for (unsigned s = 0; s < TINY_STATES; s++) {
        unsigned of_word[TINY_TOPICS] = {0};
        unsigned rest = s;
        weights[s] = 1;
        for (int i = TINY_TOKENS - 1; i >= 0; i--, rest /= TINY_TOPICS) {
            unsigned k = rest % TINY_TOPICS;
            weights[s] *= (of_word[k]++ + beta) / (double)totals[k];
        }
    }
    assert_distribution(weights, seen);
}

/* ---- Likelihood ---- */

static int add_bag(void *context, const struct lda_bag *bag) {
    lda_texts_add(context, bag->words, bag->counts, bag->count);
    return 0;
}

/* `expected`: what exact sampling reaches, if known; 0: it is run here. */
static void compare_with_reference(const struct lda_texts *texts, const char *name, uint32_t topics,
                                   unsigned iterations, double expected) {
    CLOSED_BY(lda_state_close) struct lda_state counts;
    CLOSED_BY(trainer_close) struct trainer trainer;
    const double alpha = 50.0 / topics;
    const double beta = 0.01;
    if (expected == 0) {
        CLOSED_BY(lda_state_close) struct lda_state exact;
        lda_state_open(&exact, texts, topics);
        lda_reference(&exact, texts, alpha, beta, iterations, SEED);
        expected = lda_reference_likelihood(&exact, texts, alpha, beta);
    }
    lda_state_open(&counts, texts, topics);
    trainer_open(&trainer, texts, &counts, alpha, beta, LDA_PROPOSALS, 2);
    train(&trainer, iterations);
    assert_counts_are_exact(&trainer);
    double reached = lda_reference_likelihood(&counts, texts, alpha, beta);
    print_message("%s: %u topics, %u iterations: log-likelihood per token %.4f, exact sampling %.4f (%.2f %%)\n", name,
                  topics, iterations, reached, expected, 100 * (reached - expected) / fabs(expected));
    assert_true(reached > expected - 0.005 * fabs(expected));
}

TEST(likelihood_is_that_of_exact_sampling) {
    /* With 100 topics and 100 iterations exact sampling takes half a minute for the last two: what it printed. */
    static const struct {
        const char *path;
        double expected;
    } files[] = {
        {"bow-reuters395/reuters.ldac", 0}, {"bow-ap/ap.dat.gz", -7.3997}, {"bow-kos/docword.kos.txt.gz", -7.0264}};
    const char *source = getenv("PROTEUS_SOURCE");
    bool slow = getenv("PROTEUS_SANITIZED") != NULL;
    char path[512];
    for (size_t f = 0; f < (slow ? 1 : sizeof files / sizeof files[0]); f++) {
        CLOSED_BY(lda_texts_close) struct lda_texts texts = {0};
        struct error error = {0};
        snprintf(path, sizeof path, "%s/../shared/data/%s", source != NULL ? source : ".", files[f].path);
        if (access(path, R_OK) != 0) {
            print_message("skipped: %s is not at hand\n", path);
            skip();
        }
        const struct lda_corpus corpus = {.path = path};
        assert_int_equal(lda_corpus_read(&corpus, add_bag, &texts, NULL, &error), 0);
        compare_with_reference(&texts, files[f].path, slow ? 20 : 100, slow ? 20 : 100, files[f].expected);
    }
}

/* The sparse formula agrees with the dense formula. */
TEST(likelihood_of_documents) {
    CLOSED_BY(lda_texts_close) struct lda_texts texts;
    CLOSED_BY(lda_state_close) struct lda_state counts;
    CLOSED_BY(trainer_close) struct trainer trainer;
    make_texts(&texts, 60);
    lda_state_open(&counts, &texts, 21);
    trainer_open(&trainer, &texts, &counts, 0.3, 0.02, 2, 1);
    train(&trainer, 3);
    FREED float *bases = memory_zeroed(texts.vocabulary, sizeof *bases);
    double sum = 0;
    lda_clock_totals(&trainer.clock, trainer.memory, counts.totals);
    lda_word_bases(&trainer.clock, 0, texts.vocabulary, bases);
    for (uint32_t d = 0; d < texts.document_count; d++) {
        struct lda_document document = lda_texts_document(&texts, d);
        uint32_t first = trainer.block.document_starts[d];
        uint32_t tokens = trainer.block.document_starts[d + 1] - first;
        FREED uint16_t *assigned = memory_zeroed(tokens + 1U, sizeof *assigned);
        lda_store(&trainer.block, first, tokens, assigned);
        sum += lda_log_likelihood(&trainer.clock, trainer.memory, &document, assigned, tokens, bases);
    }
    double expected = lda_reference_likelihood(&counts, &texts, 0.3, 0.02);
    assert_true(fabs(sum / (double)texts.tokens - expected) < 1e-5);
}

/* ---- New documents ---- */

TEST(new_documents) {
    enum { K = 9 };
    float phi[3 * K];
    float theta[K];
    float scratch[K];
    const uint32_t counts[3] = {7, 0, 2};
    for (unsigned k = 0; k < K; k++) { /* word 0 belongs to topic 4, word 1 to topic 5, word 2 to all topics */
        phi[k] = k == 4 ? 0.9F : 0.001F;
        phi[K + k] = k == 5 ? 0.9F : 0.001F;
        phi[2 * K + k] = 0.05F;
    }
    lda_fold_in(phi, counts, 3, K, 0.1, theta, scratch);
    double sum = 0;
    for (unsigned k = 0; k < K; k++) {
        sum += (double)theta[k];
        assert_true(k == 4 ? theta[k] > 0.85F : theta[k] < 0.02F && theta[k] > 0);
    }
    assert_true(fabs(sum - 1) < 1e-4);
    double expected = 7 * log(0.9 * (double)theta[4] + 0.001 * (1 - (double)theta[4])) + 2 * log(0.05);
    assert_true(fabs(lda_score(phi, counts, 3, K, theta) - expected) < 1e-3);
}

TEST(completion_hides_every_other_token) {
    const uint32_t counts[5] = {1, 3, 1, 1, 2};
    uint32_t known[5];
    uint32_t hidden[5];
    assert_int_equal(lda_split(counts, 5, known, hidden), 4);
    const uint32_t expected[5] = {0, 2, 0, 1, 1};
    assert_memory_equal(hidden, expected, sizeof expected);
    for (unsigned w = 0; w < 5; w++) {
        assert_int_equal(known[w] + hidden[w], counts[w]);
    }
    assert_int_equal(lda_split(counts, 1, known, hidden), 0);
}

/* ---- alpha ---- */

static double gamma_draw(double shape, uint64_t *random) {
    /* Marsaglia and Tsang's method for shape + 1, then multiplied by a power of a uniform number. */
    double d = shape + 1 - 1.0 / 3;
    for (;;) {
        double u1 = (double)((hash_mix((*random)++) >> 11) + 1) * 0x1p-53;
        double u2 = (double)(hash_mix((*random)++) >> 11) * 0x1p-53;
        double u3 = (double)((hash_mix((*random)++) >> 11) + 1) * 0x1p-53;
        double x = sqrt(-2 * log(u1)) * cos(2 * 3.14159265358979 * u2);
        double v = pow(1 + x / sqrt(9 * d), 3);
        if (v > 0 && log(u3) < 0.5 * x * x + d - d * v + d * log(v)) {
            double u4 = (double)((hash_mix((*random)++) >> 11) + 1) * 0x1p-53;
            return d * v * pow(u4, 1 / shape);
        }
    }
}

TEST(alpha_is_found) {
    enum { K = 10, DOCUMENTS = 3000, TOKENS = 100 };
    static uint32_t counts[DOCUMENTS][K];
    const double truth = 0.3;
    uint64_t random = 1;
    memset(counts, 0, sizeof counts);
    for (unsigned d = 0; d < DOCUMENTS; d++) {
        double shares[K];
        double sum = 0;
        for (unsigned k = 0; k < K; k++) {
            shares[k] = gamma_draw(truth, &random);
            sum += shares[k];
        }
        for (unsigned i = 0; i < TOKENS; i++) {
            double at = (double)(hash_mix(random++) >> 11) * 0x1p-53 * sum;
            unsigned k = 0;
            for (; k + 1 < K && at >= shares[k]; k++) {
                at -= shares[k];
            }
            counts[d][k]++;
        }
    }
    double alpha = 5;
    for (unsigned i = 0; i < 200; i++) {
        struct lda_spread spread = {0};
        for (unsigned d = 0; d < DOCUMENTS; d++) {
            lda_spread_add(&spread, alpha, K, counts[d], K);
        }
        alpha = lda_alpha_next(alpha, K, &spread);
    }
    assert_true(fabs(alpha - truth) < 0.02);
    assert_true(lda_alpha_next(0.7, K, &(struct lda_spread){0}) == 0.7);
    assert_true(fabs(lda_digamma(1) + 0.57721566490153286) < 1e-8);
    assert_true(fabs(lda_digamma(0.001) + 1000.5755719318) < 1e-6);
    assert_true(fabs(lda_digamma(100) - 4.6001618527) < 1e-8);
}
