/* varied: like sum_app.c, for items that differ (invariant I1). Each document counts itself in its own row, its words
 * in rows that many documents share, and its tokens in a replicated table. Shared rows are changed in place by atomic
 * adds: in every thread or, with --alone, in parts that one thread distributes to all. With --samples documents are
 * fixed items without rows: they have no words, and their own rows are a replicated table, too. With --given words are
 * changed in place and reported by aml_give_changes, topics by copy, and neither table has a second copy. `finish`
 * makes the documents again, scans all tables and fails the job when a number differs. An app for tests, not an
 * example. */
#include "agileml.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DOCUMENTS, WORDS, TOPICS, TABLES };
enum { WORDS_MAX = 12, TOKENS_MAX = 90, SAMPLE_TOKENS = 8, VOCABULARY = 300, TOPIC_COUNT = 64, TOPIC_WIDTH = 5 };
static const uint64_t WORD_STEP = 977, DOCUMENT_STEP = 31;

struct varied {
    int64_t documents;
    int64_t slow_us; /* pause of each call, to make a run last */
    bool alone, samples, given;
    bool miscount;       /* a deliberate mistake, which the check must find */
    const char *mistake; /* a mistake that the library must find */
};

/* A document; its number determines it. Every seventh document is a test item. */
struct document {
    uint64_t words[WORDS_MAX];
    uint32_t tokens[TOKENS_MAX];
    uint32_t word_count, token_count;
};

/* An item of --samples. */
struct sample {
    uint32_t number, token_count;
    uint32_t tokens[SAMPLE_TOKENS];
};

static void make_document(const struct varied *varied, uint64_t number, struct document *document) {
    uint64_t random = aml_mix(1, number);
    document->word_count = varied->samples || number % 5 == 0 ? 0 : (uint32_t)(random % WORDS_MAX);
    document->token_count = (uint32_t)(random >> 32) % (number % 9 == 0 ? TOKENS_MAX : 10);
    document->token_count %= varied->samples ? SAMPLE_TOKENS : TOKENS_MAX;
    for (uint32_t w = 0; w < document->word_count; w++) {
        document->words[w] = aml_mix(random, w) % VOCABULARY * WORD_STEP;
    }
    for (uint32_t t = 0; t < document->token_count; t++) {
        document->tokens[t] = (uint32_t)aml_mix(random, 1000 + t);
    }
}

static bool is_test(uint64_t number) {
    return number % 7 == 3;
}

static unsigned token_topic(uint32_t token) {
    return token % TOPIC_COUNT;
}

/* Returns a token's column. The last column is the row's label. */
static unsigned token_column(uint32_t token) {
    return token / TOPIC_COUNT % (TOPIC_WIDTH - 1);
}

static void start_topic(void *context, uint64_t key, void *row) {
    (void)context;
    ((int32_t *)row)[TOPIC_WIDTH - 1] = (int32_t)key;
}

static int varied_configure(aml_worker *worker, struct aml_app *app) {
    const struct varied *varied = app->context;
    (void)worker;
    app->clock_alone = varied->alone;
    app->tables[WORDS].changes_given = app->tables[TOPICS].changes_given = varied->given;
    app->tables[DOCUMENTS].changes_given = varied->mistake != NULL && strcmp(varied->mistake, "put") == 0;
    if (varied->samples) {
        app->item_varied = 0;
        app->item_bytes = sizeof(struct sample);
        app->tables[DOCUMENTS].mode = AML_ADD;
        app->tables[DOCUMENTS].whole = 1;
        app->tables[DOCUMENTS].rows = (uint64_t)varied->documents * DOCUMENT_STEP;
    }
    return 0;
}

static int emit_document(aml_worker *worker, uint64_t number, const struct document *document) {
    uint64_t own = number * DOCUMENT_STEP;
    const struct aml_keys runs[2] = {
        {.table = DOCUMENTS, .count = 1, .keys = &own},
        {.table = WORDS, .count = document->word_count, .keys = document->words},
    };
    return aml_emit_varied(worker, is_test(number) ? AML_TEST : AML_TRAIN, number, runs, 2, document->tokens,
                           document->token_count * sizeof document->tokens[0]);
}

static int emit_sample(aml_worker *worker, uint64_t number, const struct document *document) {
    struct sample sample = {.number = (uint32_t)number, .token_count = document->token_count};
    memcpy(sample.tokens, document->tokens, document->token_count * sizeof sample.tokens[0]);
    return aml_emit(worker, is_test(number) ? AML_TEST : AML_TRAIN, NULL, &sample);
}

static bool makes(const struct varied *varied, const char *mistake) {
    return varied->mistake != NULL && strcmp(varied->mistake, mistake) == 0;
}

/* Emits an item that the library must refuse, if `mistake` says so. */
static int emit_mistake(aml_worker *worker, const struct varied *varied) {
    static const uint64_t keys[AML_VARIED_ROWS_MAX / 2 + 1] = {TOPIC_COUNT};
    struct aml_keys runs[AML_VARIED_RUNS_MAX + 1] = {0};
    unsigned count = 1;
    size_t size = 0;
    runs[0] = (struct aml_keys){.table = WORDS, .count = 1, .keys = keys};
    if (makes(varied, "emit")) {
        return aml_emit(worker, AML_TRAIN, keys, keys);
    }
    if (makes(varied, "table")) {
        runs[0].table = TABLES;
    } else if (makes(varied, "key")) {
        runs[0].table = TOPICS;
    } else if (makes(varied, "runs")) {
        count = AML_VARIED_RUNS_MAX + 1;
    } else if (makes(varied, "rows")) {
        runs[0].count = AML_VARIED_ROWS_MAX / 2 + 1;
        runs[1] = runs[0];
        count = 2;
    } else if (makes(varied, "bytes")) {
        size = AML_ITEM_BYTES_MAX + 1;
    } else {
        return 0;
    }
    return aml_emit_varied(worker, AML_TRAIN, 77, runs, count, keys, size);
}

static int varied_read(aml_worker *worker, void *context) {
    const struct varied *varied = context;
    struct document document;
    int refused = emit_mistake(worker, varied);
    if (refused < 0) {
        return refused;
    }
    for (uint64_t number = 0; number < (uint64_t)varied->documents; number++) {
        if (varied->mistake != NULL && strcmp(varied->mistake, "process") == 0 &&
            number == (uint64_t)getpid() % (uint64_t)varied->documents) {
            continue; /* another document is missing in each process */
        }
        make_document(varied, number, &document);
        int kept = varied->samples ? emit_sample(worker, number, &document) : emit_document(worker, number, &document);
        if (kept < 0) {
            return kept;
        }
        if (!is_test(number)) {
            aml_total_add(worker, 0, document.token_count);
        }
    }
    return 0;
}

/* ---- Work ---- */

/* The items of one call. */
struct work {
    aml_worker *worker;
    const struct varied *varied;
    struct aml_rows rows[TABLES];
    aml_worker *nested; /* for the mistake of a part within a part */
    const struct aml_item *items;
    const struct sample *samples; /* in place of `items` */
    size_t count;
    uint64_t tokens; /* shared by threads: atomic adds */
    int wrong;       /* a replicated table's row has a wrong label; shared by threads */
};

/* Counts a token. Returns whether its row has the right label. */
static bool count_token(const struct work *work, uint32_t token) {
    int32_t row[TOPIC_WIDTH] = {0};
    if (work->varied->given) {
        row[token_column(token)] = 1;
        aml_update_param(work->worker, TOPICS, token_topic(token), row);
        aml_read_param(work->worker, TOPICS, token_topic(token), row);
        return row[TOPIC_WIDTH - 1] == (int32_t)token_topic(token);
    }
    int32_t *topic = aml_row(&work->rows[TOPICS], token_topic(token));
    __atomic_fetch_add(&topic[token_column(token)], 1, __ATOMIC_RELAXED);
    return topic[TOPIC_WIDTH - 1] == (int32_t)token_topic(token);
}

static void count_word(const struct work *work, uint32_t slot, uint32_t tokens) {
    static const uint32_t columns[] = {0, 1};
    const int64_t changes[] = {1, tokens + INT64_C(1)};
    unsigned char *row = work->rows[WORDS].base + slot * work->rows[WORDS].stride;
    __atomic_fetch_add((int64_t *)(void *)row, changes[0], __ATOMIC_RELAXED);
    __atomic_fetch_add((int64_t *)(void *)row + 1, changes[1], __ATOMIC_RELAXED);
    if (!work->varied->given) {
        aml_touch(&work->rows[WORDS], slot);
    } else if (slot % 2 == 0) {
        aml_give_changes(work->worker, WORDS, slot, 2, columns, changes);
    } else { /* in two calls, the second with an unchanged element */
        aml_give_changes(work->worker, WORDS, slot, 1, columns, changes);
        aml_give_changes(work->worker, WORDS, slot, 2, columns, (const int64_t[]){0, changes[1]});
    }
}

static void work_document(struct work *work, uint32_t slot, const uint32_t *tokens, uint32_t count) {
    int64_t *own = aml_row(&work->rows[DOCUMENTS], slot);
    own[0]++;
    own[1] += count;
    for (uint32_t t = 0; t < count; t++) {
        if (!count_token(work, tokens[t])) {
            __atomic_fetch_add(&work->wrong, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_fetch_add(&work->tokens, count, __ATOMIC_RELAXED);
}

static void work_item(struct work *work, const struct aml_item *item) {
    const uint32_t *slots = aml_item_slots(item);
    uint32_t count = item->size / sizeof(uint32_t);
    for (uint32_t w = 1; w < item->row_count; w++) {
        count_word(work, slots[w], count);
    }
    work_document(work, slots[0], aml_item_bytes(item), count);
}

static void work_part(void *context, unsigned thread, unsigned threads) {
    struct work *work = context;
    if (thread == 0 && work->nested != NULL) { /* only thread 0 writes `nested`; others may not even read it */
        aml_worker *worker = work->nested;
        work->nested = NULL;
        aml_parallel(worker, work_part, work);
    }
    const struct aml_item *item = work->items;
    for (size_t i = thread; i < work->count && work->samples != NULL; i += threads) {
        const struct sample *sample = &work->samples[i];
        work_document(work, sample->number * (uint32_t)DOCUMENT_STEP, sample->tokens, sample->token_count);
    }
    for (size_t i = 0; i < work->count && item != NULL; i++, item = aml_item_next(item)) {
        if (i % threads == thread) {
            work_item(work, item);
        }
    }
}

/* Makes a mistake that aml_give_changes, or a table with changes_given, must refuse, if `mistake` says so. */
static int give_mistake(aml_worker *worker, const struct varied *varied, const struct aml_rows *words) {
    static const uint32_t columns[2][2] = {{1, 0}, {0, 2}};
    static const int64_t changes[2] = {1, 1};
    if (makes(varied, "columns")) {
        return aml_give_changes(worker, WORDS, 0, 2, columns[0], changes);
    }
    if (makes(varied, "width")) {
        return aml_give_changes(worker, WORDS, 0, 2, columns[1], changes);
    }
    if (makes(varied, "give")) {
        return aml_give_changes(worker, DOCUMENTS, 0, 1, columns[1], changes);
    }
    if (makes(varied, "touch")) {
        aml_touch(words, 0);
    }
    return 0;
}

static int varied_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct varied *varied = context;
    struct work work = {.worker = worker,
                        .varied = varied,
                        .items = varied->samples ? NULL : items,
                        .samples = varied->samples ? items : NULL,
                        .count = count};
    for (unsigned t = 0; t < TABLES; t++) {
        work.rows[t] = aml_table_rows(worker, t);
    }
    if (makes(varied, "nested")) {
        work.nested = worker;
    }
    if (give_mistake(worker, varied, &work.rows[WORDS]) != 0) {
        return AML_EINPUT;
    }
    if (varied->alone || makes(varied, "parallel")) {
        aml_parallel(worker, work_part, &work);
    } else {
        work_part(&work, 0, 1);
    }
    if (work.wrong > 0 || work.rows[TOPICS].count != TOPIC_COUNT) {
        return aml_error(worker, AML_EFAIL, "the whole table has %u rows, %d not in their places",
                         work.rows[TOPICS].count, work.wrong);
    }
    if (varied->miscount && !varied->samples && aml_clock(worker) == 2) {
        ((int64_t *)aml_row(&work.rows[WORDS], 0))[0]++;
    }
    if (varied->slow_us > 0) {
        struct timespec pause = {.tv_sec = varied->slow_us / 1000000, .tv_nsec = varied->slow_us % 1000000 * 1000};
        nanosleep(&pause, NULL);
    }
    aml_metric_add(worker, 0, (double)work.tokens, (double)count);
    return 0;
}

/* Items that `threads` parts count, each some of them. */
struct tally {
    bool samples;
    const void *items;
    size_t count;
    uint64_t counted; /* shared by threads: atomic adds */
};

static void tally_part(void *context, unsigned thread, unsigned threads) {
    struct tally *tally = context;
    const struct aml_item *item = tally->items;
    const struct sample *sample = tally->items;
    uint64_t counted = 0;
    for (size_t i = thread; i < tally->count && tally->samples; i += threads) {
        counted += sample[i].token_count < SAMPLE_TOKENS ? 1 : 0;
    }
    for (size_t i = 0; i < tally->count && !tally->samples; i++, item = aml_item_next(item)) {
        counted += i % threads == thread && item->row_count > 0 ? 1 : 0;
    }
    __atomic_fetch_add(&tally->counted, counted, __ATOMIC_RELAXED);
}

static int varied_begin(aml_worker *worker, void *context) {
    const struct varied *varied = context;
    struct tally tally = {.samples = varied->samples};
    tally.items = aml_items(worker, &tally.count);
    aml_parallel(worker, tally_part, &tally);
    return tally.counted == aml_node_items(worker)
               ? 0
               : aml_error(worker, AML_EFAIL, "%" PRIu64 " items of %" PRIu64 " in begin", tally.counted,
                           aml_node_items(worker));
}

static int varied_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct varied *varied = context;
    struct tally tally = {.samples = varied->samples, .items = items, .count = count};
    if (varied->alone) {
        aml_parallel(worker, tally_part, &tally);
    } else {
        tally_part(&tally, 0, 1);
    }
    aml_metric_add(worker, 1, (double)tally.counted, 1);
    return 0;
}

/* ---- The check ---- */

struct check {
    aml_worker *worker;
    const struct varied *varied;
    uint64_t documents;
    int64_t *times; /* by document: clocks that worked on it; -1: its row was not scanned */
    int64_t words[VOCABULARY][2];
    int32_t topics[TOPIC_COUNT][TOPIC_WIDTH];
    uint64_t documents_seen;
    int table;
};

static int check_document(struct check *check, uint64_t key, const int64_t *row) {
    uint64_t number = key / DOCUMENT_STEP;
    uint64_t clocks = aml_clocks_per_iteration(check->worker);
    int64_t least = (int64_t)(aml_clock(check->worker) / clocks);
    int64_t most = least + (aml_clock(check->worker) % clocks != 0 ? 1 : 0);
    struct document document;
    if (check->varied->samples && key % DOCUMENT_STEP != 0) {
        return row[0] == 0 && row[1] == 0 ? 0 : aml_error(check->worker, AML_EFAIL, "row %" PRIu64 " is not 0", key);
    }
    if (key % DOCUMENT_STEP != 0 || number >= check->documents || check->times[number] != -1) {
        return aml_error(check->worker, AML_EFAIL, "document %" PRIu64 " is none, or came twice", number);
    }
    check->documents_seen += is_test(number) ? 0 : 1; /* a document without work may lack its row */
    make_document(check->varied, number, &document);
    least = is_test(number) ? 0 : least;
    most = is_test(number) ? 0 : most;
    if (row[0] < least || row[0] > most || row[1] != row[0] * document.token_count) {
        return aml_error(check->worker, AML_EFAIL,
                         "document %" PRIu64 ": %" PRId64 " times, %" PRId64 " tokens of %u, expected %" PRId64
                         " to %" PRId64 " times",
                         number, row[0], row[1], document.token_count, least, most);
    }
    check->times[number] = row[0];
    for (uint32_t w = 0; w < document.word_count; w++) {
        check->words[document.words[w] / WORD_STEP][0] += row[0];
        check->words[document.words[w] / WORD_STEP][1] += row[0] * (document.token_count + 1);
    }
    for (uint32_t t = 0; t < document.token_count; t++) {
        check->topics[token_topic(document.tokens[t])][token_column(document.tokens[t])] += (int32_t)row[0];
    }
    return 0;
}

static int check_row(struct check *check, uint64_t key, const void *row) {
    bool right = true;
    if (check->table == DOCUMENTS) {
        return check_document(check, key, row);
    }
    if (check->table == WORDS) {
        right = key / WORD_STEP < VOCABULARY && memcmp(row, check->words[key / WORD_STEP], 2 * sizeof(int64_t)) == 0;
    } else {
        right = memcmp(row, check->topics[key], TOPIC_WIDTH * sizeof(int32_t)) == 0;
    }
    return right ? 0
                 : aml_error(check->worker, AML_EFAIL, "table %d: row %" PRIu64 " is not what the documents say",
                             check->table, key);
}

static int check_rows(void *context, const uint64_t *keys, const void *rows, size_t count) {
    static const size_t row_bytes[TABLES] = {2 * sizeof(int64_t), 2 * sizeof(int64_t), TOPIC_WIDTH * sizeof(int32_t)};
    struct check *check = context;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        result = check_row(check, keys[i], (const unsigned char *)rows + i * row_bytes[check->table]);
    }
    return result;
}

/* Reads rows by key, which a process without them must be able to do, too. */
static int check_read(struct check *check) {
    int32_t row[TOPIC_WIDTH];
    for (uint64_t key = 0; key < TOPIC_COUNT; key += TOPIC_COUNT - 1) {
        int result = aml_read_param(check->worker, TOPICS, key, row);
        if (result != 0) {
            return result;
        }
        if (memcmp(row, check->topics[key], sizeof row) != 0) {
            return aml_error(check->worker, AML_EFAIL, "topic %" PRIu64 " is read otherwise than scanned", key);
        }
    }
    return 0;
}

static int check_totals(const struct check *check) {
    uint64_t items = 0;
    double tokens = 0;
    struct document document;
    for (uint64_t number = 0; number < check->documents; number++) {
        make_document(check->varied, number, &document);
        items += is_test(number) ? 0 : 1;
        tokens += is_test(number) ? 0 : document.token_count;
    }
    return items == aml_total_items(check->worker) && tokens == aml_total(check->worker, 0)
               ? 0
               : aml_error(check->worker, AML_EFAIL,
                           "totals: %" PRIu64 " items with %.0f tokens, expected %" PRIu64 " with %.0f",
                           aml_total_items(check->worker), aml_total(check->worker, 0), items, tokens);
}

static int check_all(struct check *check) {
    for (check->table = DOCUMENTS; check->table < TABLES; check->table++) {
        int result = aml_scan(check->worker, (unsigned)check->table, check_rows, check);
        if (result != 0) {
            return result;
        }
        if (check->table == DOCUMENTS && check->documents_seen != aml_total_items(check->worker)) {
            return aml_error(check->worker, AML_EFAIL, "%" PRIu64 " documents of %" PRIu64, check->documents_seen,
                             aml_total_items(check->worker));
        }
    }
    int result = check_totals(check);
    return result != 0 ? result : check_read(check);
}

static int varied_finish(aml_worker *worker, void *context) {
    const struct varied *varied = context;
    struct check *check = calloc(1, sizeof *check);
    int64_t *times = malloc((size_t)varied->documents * sizeof *times);
    int result = AML_ENOMEM;
    if (check != NULL && times != NULL) {
        *check = (struct check){
            .worker = worker, .varied = varied, .documents = (uint64_t)varied->documents, .times = times};
        for (uint64_t number = 0; number < check->documents; number++) {
            times[number] = -1;
        }
        for (int topic = 0; topic < TOPIC_COUNT; topic++) {
            check->topics[topic][TOPIC_WIDTH - 1] = topic;
        }
        result = check_all(check);
    }
    free(times);
    free(check);
    return result;
}

int main(int argc, char **argv) {
    struct varied varied = {.documents = 700};
    const struct aml_option options[] = {
        {"documents", "N", AML_OPTION_INTEGER, &varied.documents, 1, 1e9, "how many there are"},
        {"slow-us", "N", AML_OPTION_INTEGER, &varied.slow_us, 0, 1e9, "pause in each call"},
        {"alone", NULL, AML_OPTION_FLAG, &varied.alone, 0, 0, "clocks in one thread, with parts in all"},
        {"samples", NULL, AML_OPTION_FLAG, &varied.samples, 0, 0, "fixed items without rows"},
        {"given", NULL, AML_OPTION_FLAG, &varied.given, 0, 0, "tell changes of words and topics"},
        {"mistake", "NAME", AML_OPTION_STRING, &varied.mistake, 0, 0, "use the library as one may not"},
        {"miscount", NULL, AML_OPTION_FLAG, &varied.miscount, 0, 0, "count a word twice"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[TABLES] = {
        [DOCUMENTS] = {.name = "documents", .type = AML_INT64, .mode = AML_PUT, .width = 2},
        [WORDS] = {.name = "words", .type = AML_INT64, .mode = AML_ADD, .width = 2},
        [TOPICS] = {.name = "topics",
                    .type = AML_INT32,
                    .mode = AML_ADD,
                    .width = TOPIC_WIDTH,
                    .rows = TOPIC_COUNT,
                    .whole = 1,
                    .start = start_topic},
    };
    const struct aml_metric metrics[] = {{.name = "tokens", .kind = AML_SUM},
                                         {.name = "tested", .kind = AML_SUM, .evaluated = 1}};
    struct aml_app app = {.name = "varied",
                          .summary = "counts documents, words and tokens and checks the sums",
                          .options = options,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = 2,
                          .item_varied = 1,
                          .configure = varied_configure,
                          .read_only_emits = 1,
                          .read = varied_read,
                          .begin = varied_begin,
                          .clock = varied_clock,
                          .evaluate = varied_evaluate,
                          .finish = varied_finish,
                          .context = &varied};
    return aml_main(&app, argc, argv);
}
