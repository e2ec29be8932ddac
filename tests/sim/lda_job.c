/* apps/lda as the app of a simulated job (app.h), with its own tables, training and end, on made-up documents. Sampled
 * topics depend on what a node sees, so the oracle sums what the owners of each clock have changed. It also checks what
 * lda relies on in every clock: no count is negative. A word's counts over the topics add up to its tokens, and a
 * topic's counts over the words to its total. Counting the topics in the documents' rows gives the same tables. This
 * file has the functions that an app calls, in place of workers/process/app.c. */
#include "tests/sim/app.h"

#include "apps/lda/finish.h"
#include "apps/lda/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 40, TOKENS_LONG_MAX = 3 * LDA_CHUNK, TEXT_MAX = 256 };

struct document {
    unsigned shard;
    uint64_t number;
    unsigned part; /* part of an iteration, from 0 */
    uint32_t words[WORDS_MAX], counts[WORDS_MAX];
    uint32_t word_count, token_count;
    unsigned chunks[TOKENS_LONG_MAX / LDA_CHUNK]; /* rows of the document */
    unsigned chunk_count;
};

/* What an origin changed in a clock. */
struct record {
    uint64_t origin, clock;
    struct app_changes changes;
};

struct lda_job {
    uint32_t topics, vocabulary;
    unsigned proposals;
    double alpha, beta;
    struct document *documents; /* by shard */
    unsigned document_count;
    unsigned *shard_documents; /* [shard_count + 1]: first document of each shard */
    struct record *records;
    unsigned record_count;
};

/* State of a node's process. */
struct process {
    struct lda lda;
    unsigned begun_set, begun_nodes; /* arguments of the last lda_begin */
    struct part {
        unsigned char *items;
        size_t size, count;
    } * parts; /* by part of an iteration: the set's items */
    unsigned part_count;
};

struct aml_worker {
    struct app *app;
    const struct app_work *work; /* NULL in `finish`, which has `state` instead */
    const uint64_t *state;
    uint64_t clock;
    double tokens;
};

static void lda_violation(const struct app *app, const char *format, ...) {
    char text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    app->violation(app->context, "LDA", text);
}

/* ---- The functions that lda calls (agileml.h) ---- */

int aml_error(aml_worker *worker, int code, const char *format, ...) {
    char text[TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    worker->app->violation(worker->app->context, "LDA", text);
    return code;
}

uint64_t aml_mix(uint64_t seed, uint64_t value) {
    return hash_mix(seed ^ hash_mix(value));
}

uint64_t aml_seed(const aml_worker *worker) {
    return worker->app->seed;
}

unsigned aml_staleness(const aml_worker *worker) {
    return worker->app->job.staleness;
}

unsigned aml_clocks_per_iteration(const aml_worker *worker) {
    return worker->app->clocks_per_iteration;
}

uint64_t aml_clock(const aml_worker *worker) {
    return worker->clock;
}

uint64_t aml_iteration(const aml_worker *worker) {
    return (worker->clock - 1) / worker->app->clocks_per_iteration + 1;
}

unsigned aml_threads(const aml_worker *worker) {
    return worker->work->threads;
}

unsigned aml_nodes(const aml_worker *worker) {
    return worker->work->nodes;
}

void aml_note(aml_worker *worker, const char *format, ...) {
    (void)worker;
    (void)format;
}

double aml_total_maximum(const aml_worker *worker, unsigned index) {
    const struct lda_job *job = worker->app->own;
    return index == MAXIMUM_WORDS ? job->vocabulary : 0;
}

void aml_parallel(aml_worker *worker, void (*part)(void *context, unsigned thread, unsigned threads), void *context) {
    for (unsigned t = 0; t < worker->work->threads; t++) {
        part(context, t, worker->work->threads);
    }
}

struct aml_rows aml_table_rows(aml_worker *worker, unsigned table) {
    const struct cache_table *rows = &worker->work->cache->tables[table];
    return (struct aml_rows){.base = rows->rows.base,
                             .stride = rows->stride,
                             .touched = rows->touched.base,
                             .count = rows->count,
                             .unchecked = rows->count,
                             .changeable = rows->count};
}

void aml_check_row(struct aml_row_checks *checks, uint64_t call, uint32_t slot, int change, const char *function) {
    (void)checks;
    (void)call;
    (void)change;
    fprintf(stderr, "%s: slot %u is not there\n", function, slot);
    abort();
}

/* Returns no items: simulated clocks train, but evaluate nothing. */
const void *aml_items(const aml_worker *worker, size_t *count) {
    (void)worker;
    *count = 0;
    return NULL;
}

int aml_items_on_disk(const aml_worker *worker) {
    (void)worker;
    return 0;
}

int aml_last(const aml_worker *worker) {
    (void)worker;
    return 0;
}

void aml_metric_add(aml_worker *worker, unsigned index, double sum, double weight) {
    if (!isfinite(sum) || !isfinite(weight)) {
        lda_violation(worker->app, "metric %u: %g over %g", index, sum, weight);
    }
}

/* Fails: a row that no item names would come from its server, which nothing here can wait for. So alpha is not
 * adapted. */
int aml_read_param(aml_worker *worker, unsigned table, uint64_t key, void *values) {
    (void)values;
    return aml_error(worker, AML_EFAIL, "row %" PRIu64 " of table %u is read", key, table);
}

int aml_update_param(aml_worker *worker, unsigned table, uint64_t key, const void *delta) {
    (void)delta;
    return aml_error(worker, AML_EFAIL, "row %" PRIu64 " of table %u is updated", key, table);
}

int aml_give_changes(aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                     const void *changes) {
    cache_give(worker->work->cache, table, slot, count, columns, changes);
    return 0;
}

/* Does nothing: documents are made up, not read. */
int aml_emit_varied(aml_worker *worker, enum aml_item_use use, uint64_t key, const struct aml_keys *runs,
                    unsigned run_count, const void *bytes, size_t size) {
    (void)use;
    (void)runs;
    (void)run_count;
    (void)bytes;
    (void)size;
    return aml_error(worker, AML_EFAIL, "document %" PRIu64 " is emitted", key);
}

int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context) {
    const struct app *app = worker->app;
    const struct table_spec *spec = &app->job.tables[table];
    unsigned char *memory = memory_zeroed(1, spec->row_bytes);
    uint64_t *zeros = memory_zeroed(spec->width, sizeof *zeros);
    int result = 0;
    for (unsigned r = app->table_rows[table]; r < app->table_rows[table + 1] && result == 0; r++) {
        memset(memory, 0, spec->row_bytes);
        app_apply(app, r, worker->state + app->rows[r].first, memory);
        result = each(context, &app->rows[r].key, memory, 1);
    }
    free(memory);
    free(zeros);
    return result;
}

/* ---- A node's work ---- */

static unsigned clock_part(const struct app *app, uint64_t clock) {
    return (unsigned)((clock - 1) % app->clocks_per_iteration);
}

static unsigned lda_job_items(const struct app *app, unsigned shard, uint64_t clock) {
    const struct lda_job *job = app->own;
    unsigned items = 0;
    for (unsigned d = job->shard_documents[shard]; d < job->shard_documents[shard + 1]; d++) {
        items += job->documents[d].part == clock_part(app, clock) ? 1 : 0;
    }
    return items;
}

static void part_append(struct part *part, const void *bytes, size_t size) {
    part->items = memory_resized(part->items, part->size + size, 1);
    memcpy(part->items + part->size, bytes, size);
    part->size += size;
}

/* Adds a document's item as lda_emit would: its rows, by the process's slots, and its content. */
static void part_add(struct part *part, const struct app *app, const struct document *document, const int64_t *slots) {
    const struct aml_item item = {.row_count = document->word_count + document->chunk_count,
                                  .size =
                                      (uint32_t)(sizeof document->number + document->word_count * sizeof(uint32_t))};
    part_append(part, &item, sizeof item);
    for (uint32_t i = 0; i < item.row_count; i++) {
        unsigned row = i < document->word_count ? app->table_rows[WORDS] + document->words[i]
                                                : document->chunks[i - document->word_count];
        part_append(part, &(uint32_t){(uint32_t)slots[row]}, sizeof(uint32_t));
    }
    part_append(part, &document->number, sizeof document->number);
    part_append(part, document->counts, document->word_count * sizeof *document->counts);
    part->count++;
}

static void parts_close(struct process *process) {
    for (unsigned p = 0; p < process->part_count; p++) {
        free(process->parts[p].items);
    }
    free(process->parts);
    process->parts = NULL;
}

static void process_begin(struct process *process, const struct app *app, const struct app_work *work) {
    const struct lda_job *job = app->own;
    parts_close(process);
    process->part_count = app->clocks_per_iteration;
    process->parts = memory_zeroed(process->part_count, sizeof *process->parts);
    for (uint32_t s = 0; s < work->shard_count; s++) {
        unsigned shard = work->shards[s];
        for (unsigned d = job->shard_documents[shard]; d < job->shard_documents[shard + 1]; d++) {
            part_add(&process->parts[job->documents[d].part], app, &job->documents[d], work->slots);
        }
    }
    process->begun_set = work->set;
    process->begun_nodes = work->nodes;
}

static struct process *process_open(const struct lda_job *job) {
    struct process *process = memory_zeroed(1, sizeof *process);
    process->lda = (struct lda){.topics = job->topics,
                                .proposals = job->proposals,
                                .alpha = job->alpha,
                                .beta = job->beta,
                                .likelihood_every = 3};
    return process;
}

static void lda_job_process_close(void *context) {
    struct process *process = context;
    lda_train_close(&process->lda);
    parts_close(process);
    free(process);
}

/* Copies the rows in use, to find what a clock changes. */
static uint64_t *rows_copy(const struct app *app, const struct app_work *work) {
    uint64_t *copy = memory_zeroed(app->element_count, sizeof *copy);
    for (unsigned r = 0; r < app->row_count; r++) {
        const struct cache_table *table = &work->cache->tables[app->rows[r].table];
        if (work->slots[r] >= 0) {
            app_elements(app, r, cache_row(table, (uint32_t)work->slots[r]), copy + app->rows[r].first);
        }
    }
    return copy;
}

/* Checks that every changed row is touched: nothing else is flushed. */
static void rows_compare(const struct app *app, const struct app_work *work, const uint64_t *before) {
    uint64_t *after = rows_copy(app, work);
    for (unsigned r = 0; r < app->row_count; r++) {
        const struct app_row *row = &app->rows[r];
        const struct cache_table *table = &work->cache->tables[row->table];
        uint32_t width = table->spec->width;
        uint64_t *elements = after + row->first;
        bool changed = memcmp(elements, before + row->first, width * sizeof *elements) != 0;
        const struct arena *marks = table->spec->given ? &table->given : &table->touched;
        bool touched = work->slots[r] >= 0 && marks->base[work->slots[r]] != 0;
        if (changed && !touched) {
            lda_violation(app, "row %" PRIu64 " of table %s is changed and not touched", row->key, table->spec->name);
        }
        for (unsigned e = 0; e < width && table->spec->mode == AML_ADD; e++) {
            elements[e] -= before[row->first + e];
        }
        if (touched) {
            app_changes_add(app, work->changes, r, elements);
        }
    }
    free(after);
}

static void record_add(struct lda_job *job, const struct app *app, const struct app_work *work) {
    for (unsigned r = 0; r < job->record_count; r++) {
        if (job->records[r].origin == work->origin && job->records[r].clock == work->clock) {
            lda_violation(app, "clock %" PRIu64 " is computed twice under one origin", work->clock);
        }
    }
    job->records = memory_resized(job->records, job->record_count + 1, sizeof *job->records);
    struct record *record = &job->records[job->record_count++];
    *record = (struct record){.origin = work->origin, .clock = work->clock};
    for (unsigned c = 0; c < work->changes->count; c++) {
        app_changes_add(app, &record->changes, work->changes->rows[c],
                        work->changes->elements + work->changes->starts[c]);
    }
}

/* MISTAKE_TOPICS_FORGOTTEN: makes documents with topics look like new ones. */
static void forget_topics(const struct app *app, const struct app_work *work) {
    const struct lda_job *job = app->own;
    for (uint32_t s = 0; s < work->shard_count; s++) {
        for (unsigned d = job->shard_documents[work->shards[s]]; d < job->shard_documents[work->shards[s] + 1]; d++) {
            const struct document *document = &job->documents[d];
            struct cache_table *table = &work->cache->tables[DOCUMENTS];
            unsigned char *row = cache_row(table, (uint32_t)work->slots[document->chunks[0]]);
            uint16_t first;
            memcpy(&first, row, sizeof first);
            if (document->part == clock_part(app, work->clock) && first != 0 &&
                app->mistake_due(app->context, APP_TOPICS_FORGOTTEN)) {
                memset(row, 0, table->spec->row_bytes);
            }
        }
    }
}

/* Does all work in the first half, so that a flush also shows harm done to the cache later in the clock. */
static void lda_job_compute(struct app *app, const struct app_work *work, unsigned half) {
    struct lda_job *job = app->own;
    struct aml_worker worker = {.app = app, .work = work, .clock = work->clock};
    if (half != 0) {
        return;
    }
    if (*work->process == NULL) {
        *work->process = process_open(job);
    }
    struct process *process = *work->process;
    if (process->begun_set != work->set || process->begun_nodes != work->nodes) {
        process_begin(process, app, work);
        lda_begin(&worker, &process->lda);
    }
    const struct part *part = &process->parts[clock_part(app, work->clock)];
    if (part->count > 0) {
        forget_topics(app, work);
        uint64_t *before = rows_copy(app, work);
        lda_clock(&worker, part->items, part->count, &process->lda);
        rows_compare(app, work, before);
        free(before);
    }
    record_add(job, app, work);
}

/* ---- The oracle ---- */

/* Counts a document's topics into words[V][K + 1]. Reports a violation when its rows are wrong. */
static bool count_document(const struct app *app, const struct document *document, uint64_t clock,
                           const uint64_t *state, int64_t *words) {
    const struct lda_job *job = app->own;
    bool visited = clock > document->part; /* the first iteration visits the parts in order */
    uint32_t word = 0;
    uint32_t left = document->counts[0];
    for (uint32_t t = 0; t < document->chunk_count * LDA_CHUNK; t++) {
        uint32_t topics[LDA_CHUNK / 2];
        const uint64_t *elements = state + app->rows[document->chunks[t / LDA_CHUNK]].first;
        for (unsigned e = 0; e < LDA_CHUNK / 2; e++) {
            topics[e] = (uint32_t)elements[e];
        }
        uint16_t topic;
        memcpy(&topic, (const unsigned char *)topics + t % LDA_CHUNK * sizeof topic, sizeof topic);
        bool counts = visited && t < document->token_count;
        if (topic > job->topics || (topic != 0) != counts) {
            lda_violation(app, "at clock %" PRIu64 " token %u of document %" PRIu64 " has topic %d", clock, t,
                          document->number, topic - 1);
            return false;
        }
        if (counts) {
            words[document->words[word] * (job->topics + 1) + topic - 1U]++;
            words[document->words[word] * (job->topics + 1) + job->topics]++;
            left--;
            word += left == 0 ? 1 : 0;
            left = left == 0 && word < document->word_count ? document->counts[word] : left;
        }
    }
    return true;
}

/* Checks a word's row: it equals what was counted, no count is negative, and the counts add up to the word's tokens. */
static bool check_word(const struct app *app, uint32_t word, uint64_t clock, const uint64_t *state,
                       const int64_t *counted, int64_t *totals) {
    const struct lda_job *job = app->own;
    const int64_t *row = (const int64_t *)state + app->rows[app->table_rows[WORDS] + word].first;
    int64_t sum = 0;
    for (uint32_t k = 0; k <= job->topics; k++) {
        int64_t count = (int32_t)row[k]; /* the table has 32-bit counts */
        if (count < 0 || count != counted[word * (job->topics + 1) + k]) {
            lda_violation(app,
                          "at clock %" PRIu64 " word %u has %" PRId64 " tokens of topic %u of %u, %" PRId64
                          " in the documents",
                          clock, word, count, k, job->topics, counted[word * (job->topics + 1) + k]);
            return false;
        }
        if (k < job->topics) {
            sum += count;
            totals[k] += count;
        } else if (sum != count) {
            lda_violation(app, "at clock %" PRIu64 " word %u has %" PRId64 " tokens, over its topics %" PRId64, clock,
                          word, count, sum);
            return false;
        }
    }
    return true;
}

static double counted_tokens(const struct lda_job *job, uint64_t clock) {
    double tokens = 0;
    for (unsigned d = 0; d < job->document_count; d++) {
        tokens += clock > job->documents[d].part ? job->documents[d].token_count : 0;
    }
    return tokens;
}

/* All simulated documents are training documents. */
double aml_total(const aml_worker *worker, unsigned index) {
    const struct lda_job *job = worker->app->own;
    return index == TOTAL_TOKENS ? counted_tokens(job, UINT64_MAX) : 0;
}

static void check_state(const struct app *app, uint64_t clock, const uint64_t *state) {
    const struct lda_job *job = app->own;
    int64_t *counted = memory_zeroed((size_t)job->vocabulary * (job->topics + 1), sizeof *counted);
    int64_t *totals = memory_zeroed(job->topics, sizeof *totals);
    bool right = true;
    for (unsigned d = 0; d < job->document_count && right; d++) {
        right = count_document(app, &job->documents[d], clock, state, counted);
    }
    for (uint32_t w = 0; w < job->vocabulary && right; w++) {
        right = check_word(app, w, clock, state, counted, totals);
    }
    const int64_t *row = (const int64_t *)state + app->rows[app->table_rows[TOPICS]].first;
    double tokens = 0;
    for (uint32_t k = 0; k < job->topics && right; k++) {
        tokens += (double)row[k];
        right = row[k] == totals[k];
        if (!right) {
            lda_violation(app, "at clock %" PRIu64 " topic %u has %" PRId64 " tokens, over the words %" PRId64, clock,
                          k, row[k], totals[k]);
        }
    }
    if (right && tokens != counted_tokens(job, clock)) {
        lda_violation(app, "at clock %" PRIu64 " %.0f tokens have a topic, expected %.0f", clock, tokens,
                      counted_tokens(job, clock));
    }
    free(counted);
    free(totals);
}

/* Applies what the owners of the clock's shards changed, each once. */
static void lda_job_advance(struct app *app, uint64_t clock, uint64_t *state) {
    const struct lda_job *job = app->own;
    for (unsigned r = 0; r < job->record_count; r++) {
        const struct record *record = &job->records[r];
        bool counts = false;
        for (unsigned s = 0; s < app->shard_count && record->clock == clock && !counts; s++) {
            counts = app->origin_of(app->context, s, clock) == record->origin;
        }
        if (counts) {
            app_changes_apply(app, &record->changes, -1, state);
        }
    }
    check_state(app, clock, state);
}

/* The app's own end has the same result: at the end of an iteration or, if the job ends during the first one, for what
 * was counted by then. */
static void lda_job_finish(struct app *app, uint64_t clock, const uint64_t *state) {
    const struct lda_job *job = app->own;
    static const struct lda_vocabulary no_names;
    struct aml_worker worker = {.app = app, .state = state, .clock = clock};
    const struct lda_finish finish = {.words_table = WORDS,
                                      .topics_table = TOPICS,
                                      .topics = job->topics,
                                      .vocabulary = job->vocabulary,
                                      .tokens = counted_tokens(job, clock),
                                      .alpha = job->alpha,
                                      .beta = job->beta,
                                      .names = &no_names};
    lda_finish(&worker, &finish);
}

/* ---- Construction ---- */

static void add_tables(struct app *app) {
    const struct lda_job *job = app->own;
    struct aml_table tables[TABLES];
    lda_tables(tables, job->topics);
    for (unsigned t = 0; t < TABLES; t++) {
        struct table_spec spec = {.type = tables[t].type,
                                  .mode = tables[t].mode,
                                  .width = tables[t].width,
                                  .rows = tables[t].rows,
                                  .whole = tables[t].whole != 0,
                                  .sparse = tables[t].changes_given != 0,
                                  .given = tables[t].changes_given != 0};
        snprintf(spec.name, sizeof spec.name, "%s", tables[t].name);
        app_add_table(app, &spec);
        for (uint32_t w = 0; t == WORDS && w < job->vocabulary; w++) {
            app_add_row(app, w);
        }
        for (unsigned d = 0; t == DOCUMENTS && d < job->document_count; d++) {
            struct document *document = &job->documents[d];
            for (unsigned c = 0; c < document->chunk_count; c++) {
                document->chunks[c] = app_add_row(app, document->number << LDA_CHUNK_BITS | c);
            }
        }
        if (t == TOPICS) {
            app_add_row(app, 0);
        }
    }
}

static void draw_document(struct app *app, unsigned shard, uint64_t *random) {
    struct lda_job *job = app->own;
    job->documents = memory_resized(job->documents, job->document_count + 1, sizeof *job->documents);
    struct document *document = &job->documents[job->document_count];
    *document = (struct document){.shard = shard, .number = app_random(random) >> LDA_CHUNK_BITS};
    document->part = (unsigned)(app_random(random) % app->clocks_per_iteration);
    document->token_count =
        1 + (uint32_t)(app_random(random) % (app_random(random) % 8 == 0 ? TOKENS_LONG_MAX : LDA_CHUNK / 2));
    uint32_t counts[WORDS_MAX] = {0};
    uint32_t words = 1 + (uint32_t)(app_random(random) % job->vocabulary); /* the first words are in most documents */
    for (uint32_t t = 0; t < document->token_count; t++) {
        counts[app_random(random) % words]++;
    }
    for (uint32_t w = 0; w < words; w++) {
        if (counts[w] > 0) {
            document->words[document->word_count] = w;
            document->counts[document->word_count++] = counts[w];
        }
    }
    document->chunk_count = (document->token_count + LDA_CHUNK - 1) / LDA_CHUNK;
    job->document_count++;
}

static void lda_job_close(struct app *app) {
    struct lda_job *job = app->own;
    for (unsigned r = 0; r < job->record_count; r++) {
        app_changes_close(&job->records[r].changes);
    }
    free(job->records);
    free(job->documents);
    free(job->shard_documents);
    free(job);
}

static const struct app_kind lda_kind = {.name = "lda",
                                         .close = lda_job_close,
                                         .items = lda_job_items,
                                         .compute = lda_job_compute,
                                         .advance = lda_job_advance,
                                         .finish = lda_job_finish,
                                         .process_close = lda_job_process_close};

void lda_job_open(struct app *app, unsigned shards) {
    uint64_t random = hash_mix(app->seed ^ 0x1DA);
    struct lda_job *job = memory_zeroed(1, sizeof *job);
    app->kind = &lda_kind;
    app->own = job;
    job->topics = 2 + (uint32_t)(app_random(&random) % 7);
    job->vocabulary = 3 + (uint32_t)(app_random(&random) % (WORDS_MAX - 2));
    job->proposals = 1 + (unsigned)(app_random(&random) % LDA_PROPOSALS_MAX);
    job->alpha = 0.1 * (double)(1 + app_random(&random) % 10);
    job->beta = 0.01 * (double)(1 + app_random(&random) % 10);
    job->shard_documents = memory_zeroed(shards + 1, sizeof *job->shard_documents);
    app->shard_count = shards;
    app->shards = memory_zeroed(shards, sizeof *app->shards);
    for (unsigned s = 0; s < shards; s++) {
        app->shards[s].items = (unsigned)(app_random(&random) % 3) + (s == 0 ? 1 : 0);
        for (unsigned i = 0; i < app->shards[s].items; i++) {
            draw_document(app, s, &random);
        }
        job->shard_documents[s + 1] = job->document_count;
    }
    add_tables(app);
    for (unsigned d = 0; d < job->document_count; d++) {
        const struct document *document = &job->documents[d];
        struct app_shard *shard = &app->shards[document->shard];
        for (uint32_t w = 0; w < document->word_count; w++) {
            app_shard_names(shard, app->table_rows[WORDS] + document->words[w]);
        }
        for (unsigned c = 0; c < document->chunk_count; c++) {
            app_shard_names(shard, document->chunks[c]);
        }
    }
    for (unsigned s = 0; s < shards; s++) { /* replicated: in the cache of every node that works */
        app_shard_names(&app->shards[s], app->table_rows[TOPICS]);
    }
    app_complete(app);
}
