/* See train.h. The process's threads meet between the phases of a clock (aml_parallel), where the words' rows pass
 * to other threads: only one thread changes a row, without atomics. */
#include "apps/lda/train.h"

#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "apps/lda/likelihood.h"
#include "apps/lda/prior.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A document of a block. The item has its words and their counts. */
struct document {
    const struct aml_item *item;
    uint64_t number;
    size_t first_chunk; /* index in the part's `chunks` */
};

/* The documents of one clock of the iteration, arranged for sampling. */
struct part {
    const void *items; /* the clock's items, which identify the part */
    size_t count;
    struct document *documents;
    uint32_t *chunks; /* slots of the documents' chunks, copied here as the items are too far apart in memory */
    struct lda_block block;
};

/* A thread's sums in a phase. */
struct sums {
    uint32_t fresh;
    double likelihood;
    uint64_t measured; /* number of tokens measured */
    struct lda_spread spread;
    struct lda_completion completion; /* for test documents */
};

struct lda_training {
    struct part *parts; /* parts for the items since the last `begin` */
    size_t part_count, part_capacity;
    struct lda_clock clock;
    unsigned threads;
    struct lda_thread *memory; /* [threads] */
    struct sums *sums;         /* [threads] */
    int64_t *totals;           /* [K] */
    float *bases;              /* [bases_count], indexed by slot of `words`; see likelihood.h */
    uint32_t bases_count;
};

void lda_tables(struct aml_table *tables, uint32_t topics) {
    tables[WORDS] = (struct aml_table){
        .name = "words", .type = AML_INT32, .mode = AML_ADD, .width = topics + 1, .changes_given = 1};
    tables[TOPICS] = (struct aml_table){
        .name = "topics", .type = AML_INT64, .mode = AML_ADD, .width = topics, .rows = 1, .whole = 1};
    tables[DOCUMENTS] =
        (struct aml_table){.name = "documents", .type = AML_INT32, .mode = AML_PUT, .width = LDA_CHUNK / 2};
    tables[SPREAD] = (struct aml_table){.name = "spread", .type = AML_INT64, .mode = AML_ADD, .width = 2};
}

/* ---- Items: the document's number, then its words' counts; the rows of its words, then of its chunks ---- */

enum { NUMBER_SIZE = sizeof(uint64_t) };

static struct lda_document item_words(const struct aml_item *item) {
    const unsigned char *bytes = aml_item_bytes(item);
    return (struct lda_document){.slots = aml_item_slots(item),
                                 .counts = (const uint32_t *)(const void *)(bytes + NUMBER_SIZE),
                                 .count = (item->size - NUMBER_SIZE) / (uint32_t)sizeof(uint32_t)};
}

int lda_emit(aml_worker *worker, enum aml_item_use use, const struct lda_bag *bag) {
    uint32_t chunks = use == AML_TRAIN ? (bag->tokens + LDA_CHUNK - 1) / LDA_CHUNK : 0;
    size_t size = NUMBER_SIZE + bag->count * sizeof(uint32_t);
    uint64_t *keys = malloc((bag->count + (size_t)chunks) * sizeof *keys);
    unsigned char *bytes = malloc(size);
    if (keys == NULL || bytes == NULL) {
        free(keys);
        free(bytes);
        return aml_error(worker, AML_ENOMEM, "no memory for a document of %u words", bag->count);
    }
    for (uint32_t i = 0; i < bag->count; i++) {
        keys[i] = bag->words[i];
    }
    for (uint32_t c = 0; c < chunks; c++) {
        keys[bag->count + c] = bag->number << LDA_CHUNK_BITS | c;
    }
    memcpy(bytes, &bag->number, NUMBER_SIZE);
    memcpy(bytes + NUMBER_SIZE, bag->counts, bag->count * sizeof(uint32_t));
    const struct aml_keys runs[] = {{WORDS, bag->count, keys}, {DOCUMENTS, chunks, keys + bag->count}};
    int kept = aml_emit_varied(worker, use, bag->number, runs, chunks > 0 ? 2 : 1, bytes, size);
    free(keys);
    free(bytes);
    return kept;
}

/* ---- Memory ---- */

static void forget_parts(struct lda_training *training) {
    for (size_t p = 0; p < training->part_count; p++) {
        free(training->parts[p].documents);
        free(training->parts[p].chunks);
        lda_block_close(&training->parts[p].block);
    }
    training->part_count = 0;
}

/* Frees what was made from a clock's documents, if the items of all clocks don't fit in memory. */
static void end_part(const aml_worker *worker, struct lda_training *training) {
    if (aml_items_on_disk(worker)) {
        forget_parts(training);
    }
}

void lda_train_close(struct lda *lda) {
    struct lda_training *training = lda->training;
    if (training == NULL) {
        return;
    }
    forget_parts(training);
    for (unsigned t = 0; t < training->threads; t++) {
        lda_thread_close(&training->memory[t]);
    }
    lda_clock_close(&training->clock);
    free(training->parts);
    free(training->memory);
    free(training->sums);
    free(training->totals);
    free(training->bases);
    free(training);
    lda->training = NULL;
}

static int train_open(aml_worker *worker, struct lda *lda) {
    const uint32_t topics = (uint32_t)lda->topics;
    struct lda_training *training = memory_zeroed(1, sizeof *training);
    int result = lda_clock_open(&training->clock, topics);
    lda->training = training;
    training->threads = aml_threads(worker);
    training->memory = memory_zeroed(training->threads, sizeof *training->memory);
    training->sums = memory_zeroed(training->threads, sizeof *training->sums);
    training->totals = memory_zeroed(topics, sizeof *training->totals);
    for (unsigned t = 0; t < training->threads && result == 0; t++) {
        result = lda_thread_open(&training->memory[t], topics);
    }
    return result == 0 ? 0 : aml_error(worker, result, "no memory for %u topics", topics);
}

int lda_begin(aml_worker *worker, void *context) {
    struct lda *lda = context;
    if (aml_clocks_per_iteration(worker) <= aml_staleness(worker)) {
        return aml_error(worker, AML_EINPUT, "--clocks-per-iteration %u: expected more than --staleness %u",
                         aml_clocks_per_iteration(worker), aml_staleness(worker));
    }
    int result = lda->training == NULL ? train_open(worker, lda) : 0;
    if (result == 0) {
        struct lda_training *training = lda->training;
        forget_parts(training);
        training->clock.vocabulary = (uint32_t)aml_total_maximum(worker, MAXIMUM_WORDS);
        training->clock.beta = (float)lda->beta;
    }
    return result;
}

static struct lda_document part_document(const void *context, uint32_t i) {
    const struct document *documents = context;
    return item_words(documents[i].item);
}

static uint32_t item_chunks(const struct aml_item *item) {
    return item->row_count - item_words(item).count;
}

/* Fills part->documents and part->chunks. */
static int find_documents(struct part *part) {
    size_t chunks = 0;
    part->documents = malloc(part->count * sizeof *part->documents);
    const struct aml_item *item = part->items;
    for (size_t i = 0; i < part->count && part->documents != NULL; i++) {
        part->documents[i] = (struct document){.item = item, .first_chunk = chunks};
        memcpy(&part->documents[i].number, aml_item_bytes(item), NUMBER_SIZE);
        chunks += item_chunks(item);
        item = i + 1 < part->count ? aml_item_next(item) : item;
    }
    part->chunks = malloc(chunks * sizeof *part->chunks + 1);
    if (part->documents == NULL || part->chunks == NULL) {
        return AML_ENOMEM;
    }
    for (size_t i = 0; i < part->count; i++) {
        const struct document *document = &part->documents[i];
        memcpy(part->chunks + document->first_chunk, aml_item_slots(document->item) + item_words(document->item).count,
               item_chunks(document->item) * sizeof *part->chunks);
    }
    return 0;
}

/* Returns the part for these items, and makes it at their first clock since `begin`. Returns NULL after aml_error. */
static struct part *find_part(aml_worker *worker, const struct lda *lda, const void *items, size_t count) {
    struct lda_training *training = lda->training;
    for (size_t p = 0; p < training->part_count; p++) {
        if (training->parts[p].items == items && training->parts[p].count == count) {
            return &training->parts[p];
        }
    }
    if (training->part_count == training->part_capacity) {
        training->part_capacity = 2 * training->part_capacity + 8;
        training->parts = memory_resized(training->parts, training->part_capacity, sizeof *training->parts);
    }
    struct part *part = &training->parts[training->part_count];
    *part = (struct part){.items = items, .count = count};
    int result = count > UINT32_MAX ? AML_ELIMIT : find_documents(part);
    if (result == 0) {
        result = lda_block_open(&part->block, (unsigned)lda->proposals, (uint32_t)count,
                                aml_table_rows(worker, WORDS).count, part_document, part->documents);
    }
    if (result != 0) {
        free(part->documents);
        free(part->chunks);
        aml_error(worker, result,
                  result == AML_ENOMEM ? "no memory for the tokens of %zu documents"
                                       : "%zu documents have 2^32 tokens or more in one clock: "
                                         "expected fewer: use more --clocks-per-iteration",
                  count);
        return NULL;
    }
    training->part_count++;
    return part;
}

/* ---- The phases, each in all threads ---- */

struct phase {
    const struct lda *lda;
    struct lda_training *training;
    struct part *part;
    struct aml_rows documents;
    uint64_t seed;
};

/* Divides 0..count - 1 into `threads` ranges of about equal cost. The cost of element i is `extra` plus its
 * tokens, starts[i + 1] - starts[i]. Returns the start of range `thread`. */
static uint32_t cut(const uint32_t *starts, uint32_t count, double extra, unsigned thread, unsigned threads) {
    double all = starts[count] + extra * count;
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (starts[middle] + extra * middle < all * thread / threads) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static uint32_t cut_documents(const struct lda_block *block, unsigned thread, unsigned threads) {
    return cut(block->document_starts, block->document_count, 8, thread, threads);
}

static uint32_t cut_words(const struct lda_block *block, uint32_t topics, unsigned thread, unsigned threads) {
    return cut(block->word_starts, block->word_count, 8 + topics / 64.0, thread, threads);
}

static void load_part(void *context, unsigned thread, unsigned threads) {
    struct phase *phase = context;
    const struct lda_block *block = &phase->part->block;
    struct sums *sums = &phase->training->sums[thread];
    uint32_t end = cut_documents(block, thread + 1, threads);
    *sums = (struct sums){0};
    for (uint32_t d = cut_documents(block, thread, threads); d < end; d++) {
        const struct document *document = &phase->part->documents[d];
        const uint32_t *slots = phase->part->chunks + document->first_chunk;
        uint32_t first = block->document_starts[d];
        uint32_t count = block->document_starts[d + 1] - first;
        for (uint32_t at = 0; at < count; at += LDA_CHUNK, slots++) {
            uint32_t size = count - at < LDA_CHUNK ? count - at : LDA_CHUNK;
            sums->fresh += lda_load(block, &phase->training->memory[thread], (uint32_t)phase->lda->topics, phase->seed,
                                    document->number, at, first + at, size, aml_row_read(&phase->documents, *slots));
        }
    }
}

static void propose_part(void *context, unsigned thread, unsigned threads) {
    struct phase *phase = context;
    const struct lda_block *block = &phase->part->block;
    uint32_t topics = (uint32_t)phase->lda->topics;
    lda_propose(&phase->training->clock, &phase->training->memory[thread], block,
                cut_words(block, topics, thread, threads), cut_words(block, topics, thread + 1, threads));
}

static void documents_part(void *context, unsigned thread, unsigned threads) {
    struct phase *phase = context;
    const struct lda_block *block = &phase->part->block;
    lda_documents(&phase->training->clock, &phase->training->memory[thread], block,
                  cut_documents(block, thread, threads), cut_documents(block, thread + 1, threads));
}

static void words_part(void *context, unsigned thread, unsigned threads) {
    struct phase *phase = context;
    const struct lda_block *block = &phase->part->block;
    uint32_t topics = (uint32_t)phase->lda->topics;
    lda_words(&phase->training->clock, &phase->training->memory[thread], block,
              cut_words(block, topics, thread, threads), cut_words(block, topics, thread + 1, threads));
}

/* Adds the counts of a document's topics to the sums for alpha. */
static void spread_document(const struct phase *phase, unsigned thread, uint32_t first, uint32_t count) {
    const struct lda_clock *clock = &phase->training->clock;
    const struct lda_block *block = &phase->part->block;
    uint32_t *counts = phase->training->memory[thread].stack;
    for (uint32_t i = 0; i < count; i++) {
        counts[lda_token(block, first + i)[LDA_TOKEN_TOPIC]] = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        counts[lda_token(block, first + i)[LDA_TOKEN_TOPIC]]++;
    }
    uint32_t *spread = (uint32_t *)(void *)phase->training->memory[thread].weights; /* the counts, without zeros */
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t topic = lda_token(block, first + i)[LDA_TOKEN_TOPIC];
        spread[found] = counts[topic];
        found += counts[topic] > 0 ? 1 : 0;
        counts[topic] = 0;
    }
    lda_spread_add(&phase->training->sums[thread].spread, (double)clock->alpha, clock->topics, spread, found);
}

static void store_part(void *context, unsigned thread, unsigned threads) {
    struct phase *phase = context;
    const struct lda_block *block = &phase->part->block;
    uint32_t end = cut_documents(block, thread + 1, threads);
    for (uint32_t d = cut_documents(block, thread, threads); d < end; d++) {
        const uint32_t *slots = phase->part->chunks + phase->part->documents[d].first_chunk;
        uint32_t first = block->document_starts[d];
        uint32_t count = block->document_starts[d + 1] - first;
        for (uint32_t at = 0; at < count; at += LDA_CHUNK, slots++) {
            uint32_t size = count - at < LDA_CHUNK ? count - at : LDA_CHUNK;
            lda_store(block, first + at, size, aml_row(&phase->documents, *slots));
        }
        if (phase->lda->optimize_alpha) {
            spread_document(phase, thread, first, count);
        }
    }
}

/* ---- A clock ---- */

/* Chooses alpha for this clock, the same on all nodes, from the iterations that every node has seen completely. */
static int choose_alpha(aml_worker *worker, const struct lda *lda, double *alpha) {
    uint64_t seen = aml_clock(worker) - 1; /* clocks completed before */
    uint64_t behind = aml_staleness(worker);
    uint64_t iterations = seen > behind ? (seen - behind) / aml_clocks_per_iteration(worker) : 0;
    *alpha = lda->alpha;
    for (uint64_t i = LDA_SPREAD_FROM + 1; lda->optimize_alpha && i <= iterations; i++) {
        struct lda_spread spread;
        int result = aml_read_param(worker, SPREAD, i, &spread);
        if (result != 0) {
            return result;
        }
        *alpha = lda_alpha_next(*alpha, (uint32_t)lda->topics, &spread);
    }
    return 0;
}

/* Returns the sums of all threads. */
static struct sums sum_threads(const struct lda_training *training) {
    struct sums all = {0};
    for (unsigned t = 0; t < training->threads; t++) {
        const struct sums *sums = &training->sums[t];
        all.fresh += sums->fresh;
        all.likelihood += sums->likelihood;
        all.measured += sums->measured;
        all.spread.topics += sums->spread.topics;
        all.spread.tokens += sums->spread.tokens;
        all.completion.score += sums->completion.score;
        all.completion.hidden += sums->completion.hidden;
        all.completion.unigram += sums->completion.unigram;
    }
    return all;
}

/* Moves the threads' changes into n_k. */
static void take_changes(struct lda_training *training, int64_t *totals) {
    for (unsigned t = 0; t < training->threads; t++) {
        int64_t *changes = training->memory[t].changes;
        for (uint32_t k = 0; k < training->clock.topics; k++) {
            totals[k] += changes[k];
            changes[k] = 0;
        }
    }
}

static void give_word(void *context, uint32_t slot, uint32_t count, const uint32_t *columns, const int32_t *changes) {
    aml_give_changes(context, WORDS, slot, count, columns, changes); /* any error ends the job */
}

/* Sets the clock's alpha and the rows of words, for training and evaluation. */
static int prepare_model(aml_worker *worker, const struct lda *lda) {
    struct lda_clock *clock = &lda->training->clock;
    struct aml_rows words = aml_table_rows(worker, WORDS);
    double alpha;
    int result = choose_alpha(worker, lda, &alpha);
    clock->alpha = (float)alpha;
    clock->words = words.base;
    clock->stride = words.stride;
    return result;
}

static int prepare_clock(aml_worker *worker, const struct lda *lda, const struct part *part) {
    struct lda_training *training = lda->training;
    int result = prepare_model(worker, lda);
    if (result != 0) {
        return result;
    }
    /* Nodes draw different numbers, as no two nodes have the same document. */
    training->clock.seed = aml_mix(aml_mix(aml_seed(worker), aml_clock(worker)), part->documents[0].number);
    training->clock.give = give_word;
    training->clock.give_context = worker;
    return 0;
}

/* Returns n_k for reading. */
static const int64_t *topic_totals(aml_worker *worker) {
    struct aml_rows rows = aml_table_rows(worker, TOPICS); /* replicated: its one row is slot 0 */
    return aml_row_read(&rows, 0);
}

static void sample(aml_worker *worker, struct phase *phase) {
    struct lda_training *training = phase->training;
    struct aml_rows rows = aml_table_rows(worker, TOPICS);
    int64_t *totals = aml_row(&rows, 0);
    aml_parallel(worker, load_part, phase);
    take_changes(training, totals);
    phase->part->block.fresh = sum_threads(training).fresh > 0;
    lda_clock_totals(&training->clock, &training->memory[0], totals);
    aml_parallel(worker, propose_part, phase);
    aml_parallel(worker, documents_part, phase);
    aml_parallel(worker, words_part, phase);
    take_changes(training, totals);
    aml_parallel(worker, store_part, phase);
}

int lda_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct lda *lda = context;
    struct lda_training *training = lda->training;
    struct part *part = find_part(worker, lda, items, count);
    if (part == NULL) {
        return AML_ENOMEM;
    }
    int result = prepare_clock(worker, lda, part);
    if (result != 0) {
        return result;
    }
    struct phase phase = {.lda = lda,
                          .training = training,
                          .part = part,
                          .documents = aml_table_rows(worker, DOCUMENTS),
                          .seed = aml_seed(worker)};
    uint64_t start_us = monotonic_us();
    sample(worker, &phase);
    double seconds = (double)(monotonic_us() - start_us) * 1e-6;
    aml_metric_add(worker, METRIC_SPEED, part->block.token_count, seconds / aml_nodes(worker));
    aml_metric_add(worker, METRIC_ALPHA, (double)training->clock.alpha, 1);
    end_part(worker, training);
    if (lda->optimize_alpha && aml_iteration(worker) > LDA_SPREAD_FROM) {
        struct lda_spread spread = sum_threads(training).spread;
        result = aml_update_param(worker, SPREAD, aml_iteration(worker), &spread);
    }
    return result;
}

/* ---- Likelihood and perplexity ---- */

/* The state for evaluating documents after an iteration. */
struct evaluation {
    const struct lda_clock *clock;
    struct lda_training *training;
    const struct aml_item **items;
    size_t count;
    struct aml_rows documents; /* the documents' topics */
    uint32_t word_rows;
    double tokens; /* tokens of all training documents */
};

static void find_items(struct evaluation *evaluation, const void *items, size_t count) {
    const struct aml_item *item = items;
    evaluation->count = count;
    evaluation->items = memory_resized(evaluation->items, count + 1, sizeof *evaluation->items);
    for (size_t i = 0; i < count; i++) {
        evaluation->items[i] = item;
        item = i + 1 < count ? aml_item_next(item) : item;
    }
}

static void bases_part(void *context, unsigned thread, unsigned threads) {
    const struct evaluation *evaluation = context;
    uint64_t rows = evaluation->word_rows;
    lda_word_bases(evaluation->clock, (uint32_t)(rows * thread / threads), (uint32_t)(rows * (thread + 1) / threads),
                   evaluation->training->bases);
}

/* Finds the topics and the number of a document's tokens. Returns false when some token has no topic yet. */
static bool find_topics(const struct evaluation *evaluation, const struct aml_item *item, uint16_t **topics,
                        uint32_t *tokens) {
    struct lda_document words = item_words(item);
    const uint32_t *slots = aml_item_slots(item) + words.count;
    uint32_t chunks = item_chunks(item);
    *tokens = 0;
    for (uint32_t w = 0; w < words.count; w++) {
        *tokens += words.counts[w];
    }
    *topics = memory_resized(*topics, (size_t)chunks * LDA_CHUNK + 1, sizeof **topics);
    for (uint32_t c = 0; c < chunks; c++) {
        memcpy(*topics + (size_t)c * LDA_CHUNK, aml_row_read(&evaluation->documents, slots[c]),
               LDA_CHUNK * sizeof **topics);
    }
    for (uint32_t i = 0; i < *tokens; i++) {
        if (lda_topic_of((*topics)[i], evaluation->clock->topics) == LDA_NO_TOPIC) {
            return false;
        }
    }
    return true;
}

static void likelihood_part(void *context, unsigned thread, unsigned threads) {
    const struct evaluation *evaluation = context;
    struct sums *sums = &evaluation->training->sums[thread];
    uint16_t *topics = NULL;
    uint32_t tokens;
    *sums = (struct sums){0};
    for (size_t i = thread; i < evaluation->count; i += threads) {
        if (find_topics(evaluation, evaluation->items[i], &topics, &tokens)) {
            struct lda_document words = item_words(evaluation->items[i]);
            sums->likelihood += lda_log_likelihood(evaluation->clock, &evaluation->training->memory[thread], &words,
                                                   topics, tokens, evaluation->training->bases);
            sums->measured += tokens;
        }
    }
    free(topics);
}

/* Measures the likelihood of the node's training documents. */
static void measure_likelihood(aml_worker *worker, struct evaluation *evaluation) {
    struct lda_training *training = evaluation->training;
    size_t count;
    const void *items = aml_items(worker, &count);
    find_items(evaluation, items, count);
    if (training->bases_count < evaluation->word_rows) {
        training->bases = memory_resized(training->bases, evaluation->word_rows, sizeof *training->bases);
        training->bases_count = evaluation->word_rows;
    }
    aml_parallel(worker, bases_part, evaluation);
    aml_parallel(worker, likelihood_part, evaluation);
    struct sums sums = sum_threads(training);
    aml_metric_add(worker, METRIC_LIKELIHOOD, sums.likelihood, (double)sums.measured);
}

/* Adds a test document to the thread's sums. */
static void evaluate_document(const struct evaluation *evaluation, const struct aml_item *item,
                              struct lda_thread *memory, struct sums *sums) {
    const struct lda_clock *clock = evaluation->clock;
    struct lda_document words = item_words(item);
    const uint32_t topics = clock->topics;
    const double smoothing = (double)clock->beta * topics; /* of a word, over all topics */
    float *phi = memory_resized(NULL, (size_t)words.count * topics, sizeof *phi);
    double *frequencies = memory_resized(NULL, words.count, sizeof *frequencies);
    for (uint32_t w = 0; w < words.count; w++) {
        const int32_t *row = (const int32_t *)(const void *)(clock->words + words.slots[w] * clock->stride);
        for (uint32_t k = 0; k < topics; k++) {
            phi[(size_t)w * topics + k] = ((float)row[k] + clock->beta) * clock->inverse[k];
        }
        frequencies[w] = (row[topics] + smoothing) / (evaluation->tokens + smoothing * clock->vocabulary);
    }
    lda_complete(&sums->completion, phi, words.counts, words.count, topics, (double)clock->alpha, frequencies,
                 memory->document, memory->weights);
    free(phi);
    free(frequencies);
}

static void evaluate_part(void *context, unsigned thread, unsigned threads) {
    struct evaluation *evaluation = context;
    struct sums *sums = &evaluation->training->sums[thread];
    *sums = (struct sums){0};
    for (size_t i = thread; i < evaluation->count; i += threads) {
        evaluate_document(evaluation, evaluation->items[i], &evaluation->training->memory[thread], sums);
    }
}

/* Measures the perplexity of the node's test documents. */
static void measure_perplexity(aml_worker *worker, struct evaluation *evaluation, const void *items, size_t count) {
    find_items(evaluation, items, count);
    aml_parallel(worker, evaluate_part, evaluation);
    struct sums sums = sum_threads(evaluation->training);
    aml_metric_add(worker, METRIC_PERPLEXITY, -sums.completion.score, sums.completion.hidden);
    aml_metric_add(worker, METRIC_UNIGRAM, -sums.completion.unigram, sums.completion.hidden);
}

static bool evaluation_is_due(const aml_worker *worker, const struct lda *lda) {
    uint64_t iteration = aml_iteration(worker);
    bool ends = aml_clock(worker) % aml_clocks_per_iteration(worker) == 0;
    return ends && (iteration == 1 || iteration % (uint64_t)lda->likelihood_every == 0 || aml_last(worker) != 0);
}

int lda_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct lda *lda = context;
    struct lda_training *training = lda->training;
    if (!evaluation_is_due(worker, lda)) {
        return 0;
    }
    int result = prepare_model(worker, lda);
    if (result != 0) {
        return result;
    }
    lda_clock_totals(&training->clock, &training->memory[0], topic_totals(worker));
    struct evaluation evaluation = {.clock = &training->clock,
                                    .training = training,
                                    .documents = aml_table_rows(worker, DOCUMENTS),
                                    .word_rows = aml_table_rows(worker, WORDS).count,
                                    .tokens = aml_total(worker, TOTAL_TOKENS)};
    measure_likelihood(worker, &evaluation);
    measure_perplexity(worker, &evaluation, items, count);
    free(evaluation.items);
    return 0;
}
