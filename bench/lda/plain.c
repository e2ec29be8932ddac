/* See plain.h. */
#include "bench/lda/plain.h"

#include "agileml/base/memory.h"
#include "apps/lda/corpus.h"

#include <pthread.h>
#include <stdlib.h>

static int add_bag(void *context, const struct lda_bag *bag) {
    struct plain_texts *texts = context;
    if (texts->document_count + UINT64_C(2) > texts->starts_capacity) {
        texts->starts_capacity = 2 * texts->starts_capacity + 1024;
        texts->starts = memory_resized(texts->starts, texts->starts_capacity, sizeof *texts->starts);
    }
    if (texts->size + bag->count > texts->capacity) {
        texts->capacity = 2 * (texts->size + bag->count);
        texts->words = memory_resized(texts->words, texts->capacity, sizeof *texts->words);
        texts->counts = memory_resized(texts->counts, texts->capacity, sizeof *texts->counts);
    }
    texts->starts[texts->document_count++] = texts->size;
    for (uint32_t i = 0; i < bag->count; i++) {
        texts->words[texts->size] = bag->words[i];
        texts->counts[texts->size++] = bag->counts[i];
    }
    texts->starts[texts->document_count] = texts->size;
    return 0;
}

int plain_open(struct plain_texts *texts, const char *path, struct error *error) {
    const struct lda_corpus corpus = {.path = path};
    struct lda_corpus_size size;
    *texts = (struct plain_texts){0};
    int result = lda_corpus_read(&corpus, add_bag, texts, &size, error);
    texts->vocabulary = size.words;
    texts->tokens = size.tokens;
    return result;
}

void plain_close(struct plain_texts *texts) {
    free(texts->starts);
    free(texts->words);
    free(texts->counts);
    *texts = (struct plain_texts){0};
}

static struct lda_document plain_document(const void *context, uint32_t i) {
    const struct plain_texts *texts = context;
    return (struct lda_document){.slots = texts->words + texts->starts[i],
                                 .counts = texts->counts + texts->starts[i],
                                 .count = (uint32_t)(texts->starts[i + 1] - texts->starts[i])};
}

struct plain {
    const struct plain_texts *texts;
    struct lda_block block;
    struct lda_clock clock;
    struct lda_thread *memory; /* one element per thread */
    unsigned threads, passes;
    int64_t *totals;
    uint16_t *assigned; /* topic + 1 of each token */
    pthread_barrier_t barrier;
    struct series *wall, *cpu;
};

struct plain_thread {
    struct plain *plain;
    unsigned number;
};

static void take_changes(struct plain *plain) {
    for (unsigned t = 0; t < plain->threads; t++) {
        for (uint32_t k = 0; k < plain->clock.topics; k++) {
            plain->totals[k] += plain->memory[t].changes[k];
            plain->memory[t].changes[k] = 0;
        }
    }
}

/* Returns the first document (or word) of this thread. All threads have about as many tokens. */
static uint32_t cut(const uint32_t *starts, uint32_t count, unsigned thread, unsigned threads) {
    uint32_t at = 0;
    while (at < count && starts[at] < (uint64_t)starts[count] * thread / threads) {
        at++;
    }
    return at;
}

static void plain_pass(struct plain *plain, unsigned thread, const uint32_t documents[2], const uint32_t words[2],
                       unsigned pass) {
    struct lda_block *block = &plain->block;
    struct lda_thread *memory = &plain->memory[thread];
    for (uint32_t d = documents[0]; d < documents[1]; d++) {
        uint32_t start = block->document_starts[d];
        lda_load(block, memory, plain->clock.topics, 1, d, 0, start, block->document_starts[d + 1] - start,
                 plain->assigned + start);
    }
    pthread_barrier_wait(&plain->barrier);
    if (thread == 0) {
        take_changes(plain);
        block->fresh = pass == 0;
        plain->clock.seed = pass;
        lda_clock_totals(&plain->clock, memory, plain->totals);
    }
    pthread_barrier_wait(&plain->barrier);
    lda_propose(&plain->clock, memory, block, words[0], words[1]);
    pthread_barrier_wait(&plain->barrier);
    lda_documents(&plain->clock, memory, block, documents[0], documents[1]);
    pthread_barrier_wait(&plain->barrier);
    lda_words(&plain->clock, memory, block, words[0], words[1]);
    pthread_barrier_wait(&plain->barrier);
    for (uint32_t d = documents[0]; d < documents[1]; d++) {
        uint32_t start = block->document_starts[d];
        lda_store(block, start, block->document_starts[d + 1] - start, plain->assigned + start);
    }
    if (thread == 0) {
        take_changes(plain);
    }
    pthread_barrier_wait(&plain->barrier);
}

static void *plain_thread(void *context) {
    const struct plain_thread *thread = context;
    struct plain *plain = thread->plain;
    const struct lda_block *block = &plain->block;
    uint32_t documents[2];
    uint32_t words[2];
    for (unsigned end = 0; end < 2; end++) {
        documents[end] = cut(block->document_starts, block->document_count, thread->number + end, plain->threads);
        words[end] = cut(block->word_starts, block->word_count, thread->number + end, plain->threads);
    }
    for (unsigned pass = 0; pass <= plain->passes; pass++) {
        double start = measure_wall();
        double cpu_start = measure_own_cpu();
        plain_pass(plain, thread->number, documents, words, pass);
        if (thread->number == 0 && pass > 0) {
            series_add(plain->wall, measure_wall() - start);
            series_add(plain->cpu, measure_own_cpu() - cpu_start);
        }
    }
    return NULL;
}

static int plain_allocate(struct plain *plain, uint32_t topics, unsigned proposals, struct error *error) {
    const struct plain_texts *texts = plain->texts;
    size_t stride = ((topics + 1U) * sizeof(int32_t) + 15) / 16 * 16;
    int result =
        lda_block_open(&plain->block, proposals, texts->document_count, texts->vocabulary, plain_document, texts);
    result = result != 0 ? result : lda_clock_open(&plain->clock, topics);
    for (unsigned t = 0; t < plain->threads && result == 0; t++) {
        result = lda_thread_open(&plain->memory[t], topics);
    }
    plain->clock.vocabulary = texts->vocabulary;
    plain->clock.alpha = 50.0F / (float)topics;
    plain->clock.beta = 0.01F;
    plain->clock.stride = stride;
    plain->clock.words = memory_zeroed(texts->vocabulary, stride);
    plain->totals = memory_zeroed(topics, sizeof *plain->totals);
    plain->assigned = memory_zeroed(texts->tokens, sizeof *plain->assigned);
    return result == 0 ? 0 : error_set(error, result, "no memory for %u topics", topics);
}

int plain_run(const struct plain_texts *texts, uint32_t topics, unsigned proposals, unsigned threads, unsigned passes,
              struct series *wall, struct series *cpu, struct error *error) {
    struct plain plain = {.texts = texts, .threads = threads, .passes = passes, .wall = wall, .cpu = cpu};
    struct plain_thread *contexts = memory_zeroed(threads, sizeof *contexts);
    pthread_t *others = memory_zeroed(threads, sizeof *others);
    plain.memory = memory_zeroed(threads, sizeof *plain.memory);
    int result = plain_allocate(&plain, topics, proposals, error);
    pthread_barrier_init(&plain.barrier, NULL, threads);
    for (unsigned t = 0; t < threads && result == 0; t++) {
        contexts[t] = (struct plain_thread){&plain, t};
        if (t > 0 && pthread_create(&others[t], NULL, plain_thread, &contexts[t]) != 0) {
            memory_exhausted(0);
        }
    }
    if (result == 0) {
        plain_thread(&contexts[0]);
    }
    for (unsigned t = 1; t < threads && result == 0; t++) {
        pthread_join(others[t], NULL);
    }
    pthread_barrier_destroy(&plain.barrier);
    for (unsigned t = 0; t < threads; t++) {
        lda_thread_close(&plain.memory[t]);
    }
    lda_block_close(&plain.block);
    free(plain.clock.words);
    lda_clock_close(&plain.clock);
    free(plain.memory);
    free(plain.totals);
    free(plain.assigned);
    free(contexts);
    free(others);
    return result;
}
