/* misuse: an app that misuses the library in the way that --mistake names; without --mistake it does not. Each item
 * names a row of `sums`. `puts`, `tallies`, `given`, `dense` and `stepped` are for mistakes with other kinds of tables.
 * An app for tests, not an example. */
#include "agileml.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS, PUTS, TALLIES, GIVEN, DENSE, STEPPED, TABLES };
enum { WIDTH = 4, ITEMS = 2000, DENSE_ROWS = 10, TALLIES_ROWS = 4096 };
enum { LOSS, TESTED, METRICS };

struct misuse {
    const char *mistake, *data;
    aml_worker *kept_worker;
    struct aml_rows kept_rows;
    uint32_t *kept_slots;
    size_t kept_count;
};

struct item {
    uint32_t slot;
    float value;
};

static bool makes(const struct misuse *misuse, const char *mistake) {
    return misuse->mistake != NULL && strcmp(misuse->mistake, mistake) == 0;
}

/* ---- Start values ---- */

static void dense_start(void *context, uint64_t key, void *row) {
    static uint32_t calls;
    const struct misuse *misuse = context;
    float *values = row;
    values[0] = (float)key;
    if (makes(misuse, "start-impure")) {
        values[1] = (float)__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    }
    if (makes(misuse, "start-behind")) {
        values[WIDTH] = 1;
    }
}

/* ---- Threads of the app's own ---- */

struct call {
    aml_worker *worker;
    int (*function)(aml_worker *worker);
    int result;
};

static void *call_main(void *context) {
    struct call *call = context;
    call->result = call->function(call->worker);
    return NULL;
}

static int in_a_thread(aml_worker *worker, int (*function)(aml_worker *worker)) {
    struct call call = {.worker = worker, .function = function};
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_main, &call) != 0) {
        return AML_EFAIL;
    }
    pthread_join(thread, NULL);
    return call.result;
}

static int emit_one(aml_worker *worker) {
    uint64_t key = 1;
    float value = 1;
    int kept = aml_emit(worker, AML_TRAIN, &key, &value);
    return kept < 0 ? kept : 0;
}

static int read_one(aml_worker *worker) {
    float values[WIDTH];
    return aml_read_param(worker, DENSE, 1, values);
}

/* ---- Reading ---- */

static int misuse_configure(aml_worker *worker, struct aml_app *app) {
    struct misuse *misuse = app->context;
    misuse->kept_worker = worker;
    if (makes(misuse, "mark")) {
        aml_input_mark(worker, NULL, 1);
    }
    for (unsigned m = 0; makes(misuse, "mark-twice") && m < 2; m++) {
        aml_input_mark(worker, "labels", m);
    }
    for (unsigned m = 0; makes(misuse, "marks") && m <= AML_INPUT_MARKS_MAX; m++) {
        const char what[] = {(char)('a' + (int)m), '\0'};
        aml_input_mark(worker, what, m);
    }
    return 0;
}

static int read_some(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context) {
    const struct misuse *misuse = context;
    aml_worker *used = makes(misuse, "outer-worker") ? misuse->kept_worker : worker;
    int kept = 0;
    for (size_t i = 0; i < count && kept >= 0; i++) {
        kept = aml_emit(used, AML_TRAIN, &ratings[i].user, &ratings[i].value);
    }
    return kept; /* of the last rating: 1 when it is kept */
}

static int take_lines(aml_worker *worker, const struct aml_lines *lines, void *context) {
    (void)worker;
    (void)lines;
    (void)context;
    return 0;
}

static uint64_t group_of(const char *line) {
    return (uint64_t)*line;
}

/* Makes the mistake if it is one of reading. Returns 1 if it is not. */
static int read_mistake(aml_worker *worker, struct misuse *misuse) {
    uint64_t key = 1;
    float value = 1;
    if (makes(misuse, "keys")) {
        return aml_emit(worker, AML_TRAIN, NULL, &value);
    }
    if (makes(misuse, "bytes")) {
        return aml_emit(worker, AML_TRAIN, &key, NULL);
    }
    if (makes(misuse, "emit-numbered")) {
        return aml_emit_numbered(worker, AML_TRAIN, key, &value);
    }
    if (makes(misuse, "group")) {
        return aml_read_groups(worker, misuse->data, NULL, take_lines, NULL);
    }
    if (makes(misuse, "groups-each")) {
        return aml_read_groups(worker, misuse->data, group_of, NULL, NULL);
    }
    if (makes(misuse, "use")) {
        return aml_emit(worker, (enum aml_item_use)5, &key, &value);
    }
    if (makes(misuse, "emit-thread")) {
        return in_a_thread(worker, emit_one);
    }
    if (makes(misuse, "path")) {
        return aml_read_ratings(worker, NULL, read_some, misuse);
    }
    if (makes(misuse, "input-file")) {
        aml_input_file(worker, NULL);
        return 0;
    }
    if (makes(misuse, "mark-in-read")) {
        aml_input_mark(worker, "labels", 1);
        return 0;
    }
    if (makes(misuse, "each")) {
        return aml_read_ratings(worker, misuse->data, NULL, misuse);
    }
    if (makes(misuse, "outer-worker") || makes(misuse, "each-positive")) {
        misuse->kept_worker = worker;
        return aml_read_ratings(worker, misuse->data, read_some, misuse);
    }
    return 1;
}

static int misuse_read(aml_worker *worker, void *context) {
    struct misuse *misuse = context;
    int result = read_mistake(worker, misuse);
    if (result <= 0) {
        return result;
    }
    for (uint64_t i = 0; i < ITEMS; i++) {
        float value = (float)i;
        int kept = aml_emit(worker, i % 10 == 0 ? AML_TEST : AML_TRAIN, &i, &value);
        if (kept < 0) {
            return kept;
        }
    }
    if (makes(misuse, "total-add")) {
        aml_total_add(worker, 8, 1);
    } else if (makes(misuse, "total-raise")) {
        aml_total_raise(worker, 9, 1);
    } else if (makes(misuse, "total-early")) {
        return aml_total(worker, 0) > 0 ? AML_EFAIL : 0;
    }
    return makes(misuse, "read-positive") ? 3 : 0;
}

/* ---- Work ---- */

static void part_thread(void *context, unsigned thread, unsigned threads) {
    (void)threads;
    if (thread == 0) {
        aml_thread(context);
    }
}

static void write_quietly(aml_worker *worker, const struct aml_rows *rows) {
    (void)worker;
    ((float *)(void *)aml_row_read(rows, 0))[1] += 1;
}

static int misuse_begin(aml_worker *worker, void *context) {
    struct misuse *misuse = context;
    size_t count;
    const struct item *items = aml_items(worker, &count);
    float values[WIDTH] = {0};
    struct aml_rows dense = aml_table_rows(worker, DENSE);
    misuse->kept_rows = dense;
    if (misuse->kept_slots == NULL) {
        misuse->kept_slots = malloc((count + 1) * sizeof *misuse->kept_slots);
        for (size_t i = 0; i < count && misuse->kept_slots != NULL; i++) {
            misuse->kept_slots[i] = items[i].slot;
        }
        misuse->kept_count = misuse->kept_slots != NULL ? count : 0;
    }
    if (makes(misuse, "metric-in-begin")) {
        aml_metric_add(worker, LOSS, 1, 1);
    } else if (makes(misuse, "update-in-begin")) {
        return aml_update_param(worker, DENSE, 0, values);
    } else if (makes(misuse, "thread-in-part")) {
        aml_parallel(worker, part_thread, worker);
    } else if (makes(misuse, "part")) {
        aml_parallel(worker, NULL, worker);
    } else if (makes(misuse, "write-in-begin")) {
        write_quietly(worker, &dense);
    }
    return makes(misuse, "begin-positive") ? 1 : 0;
}

/* Makes the mistake if it is a wrong argument. Returns 1 if it is not. */
static int argument_mistake(aml_worker *worker, const struct misuse *misuse) {
    static const uint32_t columns[1] = {0};
    static const int64_t changes[1] = {1};
    float values[WIDTH] = {0};
    if (makes(misuse, "metric")) {
        aml_metric_add(worker, 3, 1, 1);
        return 0;
    }
    if (makes(misuse, "metric-evaluated")) {
        aml_metric_add(worker, TESTED, 1, 1);
        return 0;
    }
    if (makes(misuse, "table")) {
        return aml_table_rows(worker, 7).count > 0 ? AML_EFAIL : 0;
    }
    if (makes(misuse, "read-table")) {
        return aml_read_param(worker, TABLES, 0, values);
    }
    if (makes(misuse, "read-values")) {
        return aml_read_param(worker, DENSE, 0, NULL);
    }
    if (makes(misuse, "read-key")) {
        return aml_read_param(worker, DENSE, DENSE_ROWS, values);
    }
    if (makes(misuse, "read-keys")) {
        return aml_read_params(worker, DENSE, NULL, 3, values);
    }
    if (makes(misuse, "update-keys")) {
        return aml_update_params(worker, DENSE, NULL, 3, values);
    }
    if (makes(misuse, "update-table")) {
        return aml_update_param(worker, TABLES, 0, values);
    }
    if (makes(misuse, "update-delta")) {
        return aml_update_param(worker, DENSE, 0, NULL);
    }
    if (makes(misuse, "give-table")) {
        return aml_give_changes(worker, 9, 0, 1, columns, changes);
    }
    if (makes(misuse, "give-slot")) {
        return aml_give_changes(worker, GIVEN, 1 << 30, 1, columns, changes);
    }
    if (makes(misuse, "give-columns")) {
        return aml_give_changes(worker, GIVEN, 0, 1, NULL, changes);
    }
    if (makes(misuse, "items")) {
        return aml_items(worker, NULL) != NULL ? AML_EFAIL : 0;
    }
    if (makes(misuse, "total")) {
        return aml_total_maximum(worker, 8) > 0 ? AML_EFAIL : 0;
    }
    if (makes(misuse, "error")) {
        return aml_error(worker, 4, "the file ends");
    }
    return 1;
}

/* Makes the mistake if it is a call where the call is not allowed. Returns 1 if it is not. */
static int call_mistake(aml_worker *worker, const struct misuse *misuse) {
    static const uint64_t key = 1;
    static const float value = 1;
    if (makes(misuse, "emit-in-clock")) {
        return aml_emit(worker, AML_TRAIN, &key, &value);
    }
    if (makes(misuse, "scan-in-clock")) {
        return aml_scan(worker, SUMS, NULL, NULL);
    }
    if (makes(misuse, "kept-worker")) {
        aml_metric_add(misuse->kept_worker, LOSS, 1, 1);
        return 0;
    }
    if (makes(misuse, "clock-positive")) {
        return 1;
    }
    if (makes(misuse, "clock-thread")) {
        return in_a_thread(worker, read_one);
    }
    return 1;
}

/* Makes the mistake if it is about rows declared done, in a process of one thread. Returns 1 if it is not. */
static int done_mistake(aml_worker *worker, const struct misuse *misuse) {
    static const float values[WIDTH] = {1};
    struct aml_rows dense = aml_table_rows(worker, DENSE);
    struct aml_rows tallies = aml_table_rows(worker, TALLIES);
    if (makes(misuse, "done-table")) {
        return aml_rows_done(worker, SUMS, 0, 1);
    }
    if (makes(misuse, "done-given")) {
        return aml_rows_done(worker, GIVEN, 0, 1);
    }
    if (makes(misuse, "done-rows")) {
        return aml_rows_done(worker, DENSE, 5, 6);
    }
    if (misuse->mistake == NULL || strncmp(misuse->mistake, "done-", 5) != 0) {
        return 1;
    }
    float *row = aml_row(&dense, 3);
    row[0] += makes(misuse, "done-nan") && aml_clock(worker) == 3 ? NAN : 1;
    for (uint32_t slot = 0; slot < TALLIES_ROWS; slot++) {
        __atomic_fetch_add((int64_t *)aml_row(&tallies, slot), 1, __ATOMIC_RELAXED);
    }
    int result = aml_rows_done(worker, DENSE, 0, DENSE_ROWS);
    if (result == 0 && !makes(misuse, "done-few")) { /* too few are sent at the clock's end */
        result = aml_rows_done(worker, TALLIES, 0, TALLIES_ROWS);
    }
    if (makes(misuse, "done-row")) {
        aml_row(&dense, 3);
    } else if (makes(misuse, "done-kept")) {
        row[0] += 1;
    } else if (makes(misuse, "done-update") && result == 0) {
        return aml_update_param(worker, DENSE, 3, values);
    }
    return result;
}

/* Makes the mistake if it is about changes of rows: in one thread, unless it needs two. */
static int row_mistake(aml_worker *worker, const struct misuse *misuse, const struct item *items) {
    static const uint32_t columns[1] = {1};
    static const int64_t changes[1] = {5};
    static const float values[WIDTH] = {1};
    if (aml_thread(worker) > 0 && misuse->mistake != NULL && strncmp(misuse->mistake, "two-", 4) != 0 &&
        strncmp(misuse->mistake, "row-sum-", 8) != 0) {
        return 0;
    }
    struct aml_rows sums = aml_table_rows(worker, SUMS);
    struct aml_rows dense = aml_table_rows(worker, DENSE);
    struct aml_rows tallies = aml_table_rows(worker, TALLIES);
    struct aml_rows given = aml_table_rows(worker, GIVEN);
    struct aml_rows stepped = aml_table_rows(worker, STEPPED);
    if (makes(misuse, "slot")) {
        *(float *)aml_row(&sums, sums.count) = 1;
    } else if (makes(misuse, "slot-read")) {
        return *(const float *)aml_row_read(&dense, UINT32_MAX) > 0 ? AML_EFAIL : 0;
    } else if (makes(misuse, "nan") && aml_clock(worker) == 3 && aml_thread(worker) == 0) {
        *(float *)aml_row(&dense, 3) = NAN;
    } else if (makes(misuse, "touch")) {
        aml_touch(&dense, DENSE_ROWS);
    } else if (makes(misuse, "unmarked")) {
        *(float *)(void *)aml_row_read(&dense, 3) += 1;
    } else if (makes(misuse, "two-threads")) {
        aml_row(&dense, 3);
    } else if (makes(misuse, "two-threads-touched")) {
        dense.touched[3] = 1;
    } else if (makes(misuse, "two-threads-put")) {
        return aml_update_param(worker, PUTS, 5, values);
    } else if (makes(misuse, "two-nodes-put")) {
        return aml_thread(worker) == 0 ? aml_update_param(worker, PUTS, 5, values) : 0;
    } else if (makes(misuse, "two-threads-mixed")) {
        aml_row(&dense, 3 + aml_thread(worker));
        return aml_update_param(worker, DENSE, 4 - aml_thread(worker), values);
    } else if (makes(misuse, "two-threads-well")) {
        __atomic_fetch_add((int64_t *)aml_row(&tallies, 3), 1, __ATOMIC_RELAXED);
        return aml_update_param(worker, DENSE, 3, values);
    } else if (makes(misuse, "behind")) {
        ((float *)aml_row(&sums, items[0].slot))[WIDTH] = 1;
    } else if (makes(misuse, "kept-rows")) {
        aml_row(&misuse->kept_rows, 3);
    } else if (makes(misuse, "stepped-row")) {
        aml_row(&stepped, 3);
    } else if (makes(misuse, "stepped-touch")) {
        aml_touch(&stepped, 3);
    } else if (makes(misuse, "stepped-in-place")) {
        __atomic_fetch_add((int32_t *)(void *)aml_row_read(&stepped, 3), 1 << 23, __ATOMIC_RELAXED);
    } else if (makes(misuse, "row-sum")) {
        aml_row_sum(&dense, 3);
    } else if (makes(misuse, "row-sum-slot")) {
        aml_row_sum(&stepped, DENSE_ROWS);
    } else if (makes(misuse, "row-sum-threads")) {
        __atomic_fetch_add((int32_t *)aml_row_sum(&stepped, 3), 1 << 23, __ATOMIC_RELAXED);
    } else if (makes(misuse, "row-sum-well")) {
        *(float *)aml_row_sum(&stepped, aml_thread(worker)) += 1;
        return aml_update_param(worker, STEPPED, 3, values);
    } else if (makes(misuse, "given-row")) {
        aml_row(&given, 0);
    } else if (makes(misuse, "given")) {
        __atomic_fetch_add((int64_t *)(void *)aml_row_read(&given, 2) + 1, 4, __ATOMIC_RELAXED);
        return aml_give_changes(worker, GIVEN, 2, 1, columns, changes);
    } else if (makes(misuse, "given-well")) {
        __atomic_fetch_add((int64_t *)(void *)aml_row_read(&given, 2) + 1, 5, __ATOMIC_RELAXED);
        return aml_give_changes(worker, GIVEN, 2, 1, columns, changes);
    }
    float sum = 0;
    for (size_t i = 0; i < misuse->kept_count && makes(misuse, "kept-slots"); i++) {
        sum += *(const float *)aml_row_read(&sums, misuse->kept_slots[i]);
    }
    return sum < 0 ? AML_EFAIL : 0;
}

static int misuse_clock(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct misuse *misuse = context;
    const struct item *item = items;
    struct aml_rows sums = aml_table_rows(worker, SUMS);
    int result = argument_mistake(worker, misuse);
    result = result == 1 ? call_mistake(worker, misuse) : result;
    result = result == 1 && !makes(misuse, "clock-positive") ? done_mistake(worker, misuse) : result;
    result = result == 1 && !makes(misuse, "clock-positive") ? row_mistake(worker, misuse, items) : result;
    for (size_t i = 0; i < count; i++) {
        float *sum = aml_row(&sums, item[i].slot);
        sum[0] += item[i].value;
    }
    if (aml_clock(worker) > 0) {
        aml_metric_add(worker, LOSS, 1, 1);
    }
    return result;
}

static int misuse_evaluate(aml_worker *worker, const void *items, size_t count, void *context) {
    const struct misuse *misuse = context;
    static const float values[WIDTH] = {1};
    (void)items;
    struct aml_rows dense = aml_table_rows(worker, DENSE);
    if (makes(misuse, "update-in-evaluate")) {
        return aml_update_param(worker, DENSE, 0, values);
    }
    // By one thread: two that change a row at once would be a data race of the app's own.
    bool first = aml_thread(worker) == 0;
    if (first && makes(misuse, "write-in-evaluate")) {
        write_quietly(worker, &dense);
    } else if (first && makes(misuse, "row-in-evaluate")) {
        aml_row(&dense, 0);
    } else if (first && makes(misuse, "touched-in-evaluate")) {
        dense.touched[0] = 1;
    } else if (makes(misuse, "metric-in-evaluate")) {
        aml_metric_add(worker, LOSS, 1, 1);
    }
    aml_metric_add(worker, TESTED, (double)count, 1);
    return 0;
}

static int misuse_finish(aml_worker *worker, void *context) {
    const struct misuse *misuse = context;
    if (makes(misuse, "metric-in-finish")) {
        aml_metric_add(worker, LOSS, 1, 1);
    } else if (makes(misuse, "scan")) {
        return aml_scan(worker, SUMS, NULL, NULL);
    } else if (makes(misuse, "scan-table")) {
        return aml_scan(worker, TABLES, NULL, NULL);
    }
    return makes(misuse, "finish-positive") ? 2 : 0;
}

int main(int argc, char **argv) {
    struct misuse misuse = {0};
    const struct aml_option options[] = {
        {"mistake", "NAME", AML_OPTION_STRING, &misuse.mistake, 0, 0, "what to do wrong"},
        {"data", "FILE", AML_OPTION_STRING, &misuse.data, 0, 0, "ratings, for mistakes with them"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct aml_table tables[TABLES] = {
        [SUMS] = {.name = "sums", .type = AML_FLOAT32, .mode = AML_ADD, .width = WIDTH},
        [PUTS] = {.name = "puts", .type = AML_FLOAT32, .mode = AML_PUT, .width = WIDTH, .rows = DENSE_ROWS, .whole = 1},
        [TALLIES] =
            {.name = "tallies", .type = AML_INT64, .mode = AML_ADD, .width = WIDTH, .rows = TALLIES_ROWS, .whole = 1},
        [GIVEN] = {.name = "given",
                   .type = AML_INT64,
                   .mode = AML_ADD,
                   .width = WIDTH,
                   .rows = DENSE_ROWS,
                   .whole = 1,
                   .changes_given = 1},
        [DENSE] = {.name = "dense",
                   .type = AML_FLOAT32,
                   .mode = AML_ADD,
                   .width = WIDTH,
                   .rows = DENSE_ROWS,
                   .whole = 1,
                   .start = dense_start},
    };
    static const struct aml_adagrad adagrad = {.rate = 0.1, .epsilon = 1e-6};
    tables[STEPPED] = (struct aml_table){.name = "stepped",
                                         .type = AML_FLOAT32,
                                         .width = WIDTH,
                                         .rows = DENSE_ROWS,
                                         .whole = 1,
                                         .apply = aml_apply_adagrad,
                                         .parameters = &adagrad,
                                         .state_width = aml_adagrad_state(WIDTH)};
    const struct aml_metric metrics[METRICS] = {
        [LOSS] = {.name = "loss", .kind = AML_MEAN}, [TESTED] = {.name = "tested", .kind = AML_SUM, .evaluated = 1}};
    struct aml_app app = {.name = "misuse",
                          .summary = "uses the library as one may not",
                          .options = options,
                          .tables = tables,
                          .table_count = TABLES,
                          .metrics = metrics,
                          .metric_count = METRICS,
                          .item_rows = 1,
                          .item_tables = {SUMS},
                          .item_bytes = sizeof(float),
                          .iterations = 4,
                          .configure = misuse_configure,
                          .read = misuse_read,
                          .begin = misuse_begin,
                          .clock = misuse_clock,
                          .evaluate = misuse_evaluate,
                          .finish = misuse_finish,
                          .context = &misuse};
    int status = aml_main(&app, argc, argv);
    free(misuse.kept_slots);
    return status;
}
