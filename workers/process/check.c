/* Checks an app's use of the library. See check.h. */
#include "workers/process/check.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "workers/process/runtime_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_MAX = 160, START_GUARD = 64 };

int check_open(struct check *check, struct error *error) {
    const char *value = getenv("PROTEUS_CHECK");
    pthread_mutex_init(&check->lock, NULL);
    check->on = value != NULL && strcmp(value, "1") == 0;
    if (value != NULL && value[0] != '\0' && strcmp(value, "0") != 0 && !check->on) {
        return error_set(error, AML_EINPUT, "PROTEUS_CHECK=%s in the environment: expected 1 or 0", value);
    }
    return 0;
}

static void table_close_check(struct check_table *table, unsigned threads) {
    for (unsigned t = 0; t < threads && table->marks != NULL; t++) {
        free(table->marks[t]);
        free(table->copies[t]);
    }
    free(table->marks);
    free(table->copies);
    free(table->rows);
    free(table->stamps);
    free(table->usable);
    free(table->copied);
}

void check_close(struct check *check) {
    for (unsigned t = 0; t < WIRE_TABLES_MAX; t++) {
        table_close_check(&check->tables[t], check->threads);
    }
    pthread_mutex_destroy(&check->lock);
}

/* ---- Errors ---- */

static int misuse_set(struct runtime *runtime, bool stop, const char *format, va_list arguments) {
    char text[ERROR_TEXT_MAX];
    vsnprintf(text, sizeof text, format, arguments);
    pthread_mutex_lock(&runtime->lock);
    error_set(&runtime->error, AML_EINPUT, "%s", text);
    runtime->check.misused = true;
    runtime->check.stopped = runtime->check.stopped || stop;
    pthread_mutex_unlock(&runtime->lock);
    runtime_wake(runtime);
    return AML_EINPUT;
}

int check_misuse(struct runtime *runtime, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int code = misuse_set(runtime, false, format, arguments);
    va_end(arguments);
    return code;
}

/* Ends the process for a misuse before the job runs, or with NULL as worker: no other thread could end it. */
static _Noreturn void end_process(const char *text) {
    log_error("%s", text);
    fflush(NULL);
    _exit(error_exit_status(AML_EINPUT));
}

void check_stop(struct runtime *runtime, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    misuse_set(runtime, true, format, arguments);
    va_end(arguments);
    if (runtime->agent == NULL) {
        end_process(runtime->error.text);
    }
    for (;;) {
        pause();
    }
}

/* ---- Calls ---- */

static const struct {
    enum check_calls call;
    const char *name;
} FUNCTIONS[] = {{CALL_CONFIGURE, "configure"},   {CALL_READ, "read"},
                 {CALL_BEGIN, "begin"},           {CALL_CLOCK, "clock"},
                 {CALL_EVALUATE, "evaluate"},     {CALL_FINISH, "finish"},
                 {CALL_TRANSFORM, "a transform"}, {CALL_TRANSFORM_STATE, "a transform with AML_TRANSFORM_STATE"}};
enum { FUNCTION_COUNT = sizeof FUNCTIONS / sizeof FUNCTIONS[0] };

/* Writes the names of the calls into `text`, such as "begin, clock or evaluate". */
static const char *function_names(unsigned calls, char text[TEXT_MAX]) {
    unsigned left = 0;
    size_t used = 0;
    for (size_t f = 0; f < FUNCTION_COUNT; f++) {
        left += (calls & FUNCTIONS[f].call) != 0 ? 1 : 0;
    }
    text[0] = '\0';
    for (size_t f = 0; f < FUNCTION_COUNT && used < TEXT_MAX; f++) {
        if ((calls & FUNCTIONS[f].call) != 0) {
            left--;
            used += (size_t)snprintf(text + used, TEXT_MAX - used, "%s%s", FUNCTIONS[f].name,
                                     left > 1    ? ", "
                                     : left == 1 ? " or "
                                                 : "");
        }
    }
    return text;
}

void check_enter(struct aml_worker *worker, enum check_calls calls) {
    worker->check.calls = calls;
    worker->check.owner = pthread_self();
}

int check_returned(struct aml_worker *worker, int result, const char *function) {
    worker->check.calls = CALL_NONE;
    return result <= 0 ? result
                       : check_misuse(worker->runtime, "%s returned %d: expected 0, or a negative aml_error_code",
                                      function, result);
}

int check_function(struct aml_worker *worker, int result, const char *function) {
    int checked = check_returned(worker, result, function);
    if (checked < 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "the app's %s function failed with code %d", function, checked);
        runtime_fail(worker->runtime, checked, text);
    }
    return checked;
}

bool check_refuse(const struct aml_worker *worker, unsigned calls, const char *function) {
    char text[TEXT_MAX];
    char now[TEXT_MAX];
    if (worker == NULL) {
        snprintf(text, sizeof text, "%s: the worker is NULL", function);
        end_process(text);
    }
    unsigned use = worker->check.calls;
    /* Transforms are named only in messages about a transform. */
    function_names(use == CALL_TRANSFORM ? calls : calls & ~(unsigned)(CALL_TRANSFORM | CALL_TRANSFORM_STATE), text);
    function_names(use, now);
    if (use == CALL_NONE) {
        check_misuse(worker->runtime,
                     "%s: called with a worker that was kept: a worker is valid until the function returns that it was "
                     "passed to",
                     function);
    } else if ((use & CALL_RATINGS & ~calls) != 0) {
        check_misuse(worker->runtime,
                     "%s: called with the worker of read within aml_read_ratings: expected the worker passed to the "
                     "function that aml_read_ratings calls",
                     function);
    } else if ((use & CALL_PART & ~calls) != 0 && (use & ~(unsigned)CALL_PART & ~calls) == 0) {
        check_misuse(worker->runtime, "%s: called in a part of aml_parallel: expected in %s itself", function, now);
    } else {
        check_misuse(worker->runtime, "%s: called in %s: expected in %s", function, now, text);
    }
    return false;
}

/* Returns the number of this thread in the pool; for a thread outside the pool, the number of the pool's threads. */
static unsigned pool_thread(const struct runtime *runtime) {
    unsigned thread = 0;
    while (thread < runtime->pool.threads && !pthread_equal(runtime->pool.handles[thread], pthread_self())) {
        thread++;
    }
    return thread;
}

bool check_thread(const struct aml_worker *worker, const char *function) {
    if (pthread_equal(worker->check.owner, pthread_self())) {
        return true;
    }
    if ((worker->check.calls & CALL_PART) != 0 && pool_thread(worker->runtime) < worker->runtime->pool.threads) {
        return true;
    }
    check_misuse(worker->runtime,
                 "%s: called with the worker of another thread: a worker is for the thread of the call that it was "
                 "passed to, and for parts of aml_parallel",
                 function);
    return false;
}

/* ---- Start values ---- */

static void start_fail(struct runtime *runtime, const struct table_spec *spec, uint64_t key, const char *what) {
    pthread_mutex_lock(&runtime->check.lock);
    error_set(&runtime->check.start_error, AML_EINPUT, "start of table %s: %s (row %" PRIu64 ")", spec->name, what,
              key);
    pthread_mutex_unlock(&runtime->check.lock);
    runtime_wake(runtime);
}

/* Makes a start value. False when the app has written behind the row. */
static bool start_once(const struct check_start *start, uint64_t key, unsigned char *row) {
    static const unsigned char PATTERN = 0xA5;
    unsigned char *guard = row + start->spec->row_bytes;
    memset(row, 0, start->spec->row_bytes);
    memset(guard, PATTERN, START_GUARD);
    start->start(start->context, key, row);
    size_t kept = 0;
    while (kept < START_GUARD && guard[kept] == PATTERN) {
        kept++;
    }
    return kept == START_GUARD;
}

/* The start function that a table has in place of the app's. */
static void check_start_row(void *context, uint64_t key, void *row) {
    const struct check_start *start = context;
    const size_t bytes = start->spec->row_bytes;
    unsigned char *first = memory_resized(NULL, bytes + START_GUARD, 2);
    unsigned char *second = first + bytes + START_GUARD;
    char text[TEXT_MAX];
    bool inside = start_once(start, key, first);
    inside = start_once(start, key, second) && inside;
    if (!inside) {
        snprintf(text, sizeof text, "wrote behind the row: its width is %u", start->spec->width);
        start_fail(start->runtime, start->spec, key, text);
    } else if (memcmp(first, second, bytes) != 0) {
        start_fail(start->runtime, start->spec, key,
                   "made another value when it was called again: expected a pure function of its arguments");
    }
    memcpy(row, first, bytes);
    free(first);
}

bool check_start_failed(struct check *check, struct error *error) {
    pthread_mutex_lock(&check->lock);
    *error = check->start_error;
    pthread_mutex_unlock(&check->lock);
    return error->code != 0;
}

void check_tables(struct runtime *runtime) {
    struct check *check = &runtime->check;
    runtime->job.checked = check->on;
    for (unsigned t = 0; t < runtime->job.table_count && check->on; t++) {
        struct table_spec *spec = &runtime->job.tables[t];
        spec->row_guard = CHECK_ROW_GUARD;
        if (spec->start != NULL) {
            check->starts[t] =
                (struct check_start){.runtime = runtime, .spec = spec, .start = spec->start, .context = spec->context};
            spec->start = check_start_row;
            spec->context = &check->starts[t];
        }
    }
    check->threads = (unsigned)runtime->options.threads;
}

/* ---- Rows: before a call ---- */

static void table_reserve(struct check_table *table, uint32_t count, size_t stride, unsigned threads) {
    if (table->marks == NULL) {
        table->marks = memory_zeroed(threads, sizeof *table->marks);
        table->copies = memory_zeroed(threads, sizeof *table->copies);
    }
    if (count <= table->capacity) {
        return;
    }
    table->capacity = count;
    table->rows = memory_resized(table->rows, count, stride);
    table->stamps = memory_resized(table->stamps, count, sizeof *table->stamps);
    table->usable = memory_resized(table->usable, count, 1);
    table->copied = memory_resized(table->copied, count, 1);
    for (unsigned t = 0; t < threads; t++) {
        table->marks[t] = memory_resized(table->marks[t], count, 1);
        table->copies[t] = memory_resized(table->copies[t], count, 1);
    }
}

static void table_before(const struct check *check, struct check_table *table, const struct cache_table *rows,
                         unsigned set) {
    uint32_t count = rows->count;
    table->count = count;
    if (count == 0) {
        return;
    }
    table_reserve(table, count, rows->stride, check->threads);
    assert(count <= table->capacity && count <= rows->capacity);
    memcpy(table->rows, rows->rows.base, count * rows->stride);
    memcpy(table->stamps, cache_stamps(rows), count * sizeof *table->stamps);
    for (uint32_t slot = 0; slot < count; slot++) {
        table->usable[slot] = table->stamps[slot] != 0 && cache_named(rows)[slot] >= set;
    }
    memset(table->copied, 0, count);
    for (unsigned t = 0; t < check->threads; t++) {
        memset(table->marks[t], 0, count);
        memset(table->copies[t], 0, count);
    }
}

void check_before(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->lock);
    for (unsigned t = 0; t < runtime->job.table_count && runtime->node.cache.job != NULL; t++) {
        table_before(&runtime->check, &runtime->check.tables[t], &runtime->node.cache.tables[t],
                     runtime->command.set != NULL ? runtime->command.set->number : 1);
    }
    pthread_mutex_unlock(&runtime->lock);
}

/* ---- Rows: after a call ---- */

/* Sets the error, and stops further calls of the app. */
__attribute__((format(printf, 2, 3))) static void rows_fail(struct runtime *runtime, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    misuse_set(runtime, false, format, arguments);
    va_end(arguments);
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
}

/* The threads that have changed a row in a round. */
struct writers {
    unsigned in_place, by_copy, all; /* how many threads */
    unsigned first, last;            /* the lowest and the highest thread of all */
};

static struct writers find_writers(const struct check *check, const struct check_table *table, uint32_t slot) {
    struct writers writers = {0};
    for (unsigned t = 0; t < check->threads; t++) {
        bool marked = table->marks[t][slot] != 0;
        bool copied = table->copies[t][slot] != 0;
        writers.in_place += marked ? 1 : 0;
        writers.by_copy += copied ? 1 : 0;
        if (marked || copied) {
            writers.first = writers.all == 0 ? t : writers.first;
            writers.last = t;
            writers.all++;
        }
    }
    return writers;
}

/* Whether two threads have changed a row without protection. In tables of whole numbers with AML_ADD several threads
 * may use atomic adds in place; whether they did can't be checked. */
static bool writers_race(const struct table_spec *spec, const struct writers *writers) {
    bool atomics = spec->mode == AML_ADD && (spec->type == AML_INT32 || spec->type == AML_INT64);
    if (writers->all < 2) {
        return false;
    }
    return spec->mode == AML_PUT || (writers->in_place > 0 && (!atomics || writers->by_copy > 0));
}

static bool round_row(struct runtime *runtime, unsigned t, uint32_t slot) {
    struct check *check = &runtime->check;
    struct check_table *table = &check->tables[t];
    const struct cache_table *rows = &runtime->node.cache.tables[t];
    const struct table_spec *spec = rows->spec;
    struct writers writers = find_writers(check, table, slot);
    if (writers.all == 0) {
        return true;
    }
    for (unsigned k = 0; k < check->threads; k++) {
        table->marks[k][slot] = table->copies[k][slot] = 0;
    }
    table->copied[slot] |= writers.by_copy > 0 ? 1 : 0;
    if (writers.in_place > 0) {
        cache_marks(rows)[slot] = 1;
    }
    if (writers_race(spec, &writers)) {
        rows_fail(runtime,
                  "clock: table %s: row %" PRIu64 " was changed by threads %u and %u at once: expected one thread%s",
                  spec->name, cache_key(rows, slot), writers.first, writers.last,
                  spec->mode == AML_PUT ? "" : ", or aml_update_param in all");
        return false;
    }
    if (writers.in_place > 0 && !table->usable[slot]) {
        rows_fail(runtime,
                  "clock: table %s: slot %u was changed, but no item names its row (%" PRIu64
                  ") since the last begin: expected slots of the present items",
                  spec->name, slot, cache_key(rows, slot));
        return false;
    }
    return true;
}

void check_round(struct runtime *runtime) {
    for (unsigned t = 0; t < runtime->job.table_count; t++) {
        for (uint32_t slot = 0; slot < runtime->check.tables[t].count; slot++) {
            if (!round_row(runtime, t, slot)) {
                return;
            }
        }
    }
}

/* Sets the error for a row that differs from what its given changes make of it. Names the first wrong element. */
static void given_fail(struct runtime *runtime, const struct cache_table *rows, uint32_t slot,
                       const unsigned char *expected) {
    const struct table_spec *spec = rows->spec;
    const unsigned char *row = cache_row(rows, slot);
    uint32_t element = 0;
    size_t size = spec->row_bytes / spec->width;
    while (memcmp(row + element * size, expected + element * size, size) == 0) {
        element++;
    }
    int64_t is = 0;
    int64_t should = 0;
    if (spec->type == AML_INT32) {
        is = ((const int32_t *)(const void *)row)[element];
        should = ((const int32_t *)(const void *)expected)[element];
    } else {
        is = ((const int64_t *)(const void *)row)[element];
        should = ((const int64_t *)(const void *)expected)[element];
    }
    rows_fail(runtime,
              "aml_give_changes: table %s: row %" PRIu64 ": element %u is %" PRId64 " after clock, but %" PRId64
              " by the changes that were given",
              spec->name, cache_key(rows, slot), element, is, should);
}

static bool guard_is_clean(const struct cache_table *rows, uint32_t slot) {
    const unsigned char *row = cache_row(rows, slot);
    size_t at = rows->spec->row_bytes;
    while (at < rows->stride && row[at] == 0) {
        at++;
    }
    return at == rows->stride;
}

static bool after_row(struct runtime *runtime, unsigned t, uint32_t slot, enum check_calls call) {
    const struct check_table *table = &runtime->check.tables[t];
    const struct cache_table *rows = &runtime->node.cache.tables[t];
    const struct table_spec *spec = rows->spec;
    const unsigned char *expected = table->rows + slot * rows->stride;
    char name[TEXT_MAX];
    function_names(call, name);
    if (!guard_is_clean(rows, slot)) {
        rows_fail(runtime, "%s: table %s: what lies behind row %" PRIu64 " was written: its width is %u", name,
                  spec->name, cache_key(rows, slot), spec->width);
        return false;
    }
    bool same = memcmp(cache_row(rows, slot), expected, spec->row_bytes) == 0;
    if (call != CALL_CLOCK && !same) {
        rows_fail(runtime, "%s: table %s: row %" PRIu64 " was changed: expected in clock only", name, spec->name,
                  cache_key(rows, slot));
        return false;
    }
    if (!same && table_stepped(spec)) {
        rows_fail(runtime,
                  "clock: table %s: row %" PRIu64
                  " was changed in place, but the table has an optimizer: expected aml_row_sum or aml_update_param",
                  spec->name, cache_key(rows, slot));
        return false;
    }
    if (same || table->copied[slot] != 0 || (rows->touched.base[slot] != 0 && !spec->given)) {
        return true;
    }
    if (spec->given) {
        given_fail(runtime, rows, slot, expected);
    } else {
        rows_fail(runtime,
                  "clock: table %s: row %" PRIu64
                  " was changed, but not marked as changed: expected aml_row, not aml_row_read (or aml_touch)",
                  spec->name, cache_key(rows, slot));
    }
    return false;
}

/* Checks that a function that must change no rows has not marked the row as changed. */
static bool unmarked(struct runtime *runtime, unsigned t, uint32_t slot, enum check_calls call) {
    char name[TEXT_MAX];
    struct writers writers = find_writers(&runtime->check, &runtime->check.tables[t], slot);
    if (call == CALL_CLOCK || writers.all == 0) {
        return true;
    }
    const struct cache_table *rows = &runtime->node.cache.tables[t];
    rows_fail(runtime, "%s: table %s: row %" PRIu64 " was marked as changed: expected in clock only",
              function_names(call, name), rows->spec->name, cache_key(rows, slot));
    return false;
}

void check_after(struct runtime *runtime, enum check_calls call) {
    for (unsigned t = 0; t < runtime->job.table_count && !runtime_failed(runtime); t++) {
        const struct check_table *table = &runtime->check.tables[t];
        const struct cache_table *rows = &runtime->node.cache.tables[t];
        for (uint32_t slot = 0; slot < table->count; slot++) {
            /* A row that has come from its server meanwhile was not changed by the app. */
            bool ours = table->stamps[slot] != 0 && table->stamps[slot] == cache_stamps(rows)[slot];
            if (!unmarked(runtime, t, slot, call) || (ours && !after_row(runtime, t, slot, call))) {
                return;
            }
        }
    }
}

/* ---- Rows: in a call ---- */

/* Returns the thread in whose arrays this thread marks rows: itself, or the worker's thread if this thread is not of
 * the pool. */
static unsigned marking_thread(const struct aml_worker *worker) {
    unsigned thread = pool_thread(worker->runtime);
    return thread < worker->runtime->pool.threads ? thread : worker->thread;
}

struct aml_rows check_rows(struct aml_worker *worker, unsigned table, struct aml_rows rows) {
    const struct check_table *checked = &worker->runtime->check.tables[table];
    rows.count = checked->count;
    rows.touched = checked->count > 0 ? checked->marks[worker->thread] : NULL;
    rows.unchecked = 0;
    rows.changeable = 0;
    return rows;
}

void aml_check_row(struct aml_row_checks *checks, uint64_t call, uint32_t slot, int change, const char *function) {
    const struct aml_worker *worker = checks->worker;
    struct runtime *runtime = worker->runtime;
    const struct cache_table *rows = &runtime->node.cache.tables[checks->table];
    struct check_table *table = &runtime->check.tables[checks->table];
    uint32_t count = runtime->check.on ? table->count : rows->count;
    if ((worker->check.calls & ~(unsigned)(CALLS_WORKING | CALL_PART)) != 0 || call != runtime->check.call) {
        check_stop(runtime,
                   "%s: rows of table %s that were kept: what aml_table_rows returns is valid until the app's function "
                   "returns",
                   function, rows->spec->name);
    }
    if (slot >= count) {
        check_stop(runtime, "%s: slot %u: table %s has %u rows in this process", function, slot, rows->spec->name,
                   count);
    }
    if (change == 1 && cache_summed(rows)) {
        check_stop(runtime, "%s: table %s has an optimizer: expected aml_row_read to read and aml_row_sum to update",
                   function, rows->spec->name);
    }
    if (change == 2 && !cache_summed(rows)) {
        check_stop(runtime, "%s: table %s has no optimizer: expected aml_row", function, rows->spec->name);
    }
    if (!runtime->check.on) {
        return; /* without checks, only rows added after aml_table_rows come here */
    }
    if (!table->usable[slot]) {
        check_misuse(runtime,
                     "%s: slot %u of table %s: no item names its row (%" PRIu64
                     ") since the last begin: expected slots of the present items",
                     function, slot, rows->spec->name, cache_key(rows, slot));
    } else if (change && (worker->check.calls & CALL_CLOCK) == 0) {
        check_refuse(worker, CALL_CLOCK | CALL_PART, function);
    } else if (change && rows->spec->given) {
        check_misuse(runtime, "%s: table %s has changes_given: expected aml_row_read and aml_give_changes", function,
                     rows->spec->name);
    } else if (change && runtime_is_done(runtime, checks->table, slot)) {
        check_misuse(runtime,
                     "%s: table %s: row %" PRIu64 " was declared done (aml_rows_done): expected no update of the row "
                     "until the next clock",
                     function, rows->spec->name, cache_key(rows, slot));
    } else if (change) {
        __atomic_store_n(&table->marks[marking_thread(worker)][slot], (unsigned char)1, __ATOMIC_RELAXED);
    }
}

int check_update(struct aml_worker *worker, unsigned t, const uint64_t *keys, size_t count) {
    struct check_table *table = &worker->runtime->check.tables[t];
    unsigned char *copies = table->count > 0 ? table->copies[marking_thread(worker)] : NULL;
    for (size_t i = 0; i < count; i++) {
        int64_t slot = cache_find(&worker->runtime->node.cache, t, keys[i]);
        if (runtime_is_done(worker->runtime, t, keys[i])) {
            return check_misuse(worker->runtime,
                                "aml_update_param: table %s: row %" PRIu64 " was declared done (aml_rows_done): "
                                "expected no update of the row until the next clock",
                                worker->runtime->job.tables[t].name, keys[i]);
        }
        if (slot != INDEX_NONE && (uint64_t)slot < table->count) { /* else it is new */
            copies[slot] = 1;
        }
    }
    return 0;
}

int check_give(struct aml_worker *worker, unsigned t, uint32_t slot, uint32_t count, const uint32_t *columns,
               const void *changes) {
    struct check *check = &worker->runtime->check;
    struct check_table *table = &check->tables[t];
    const struct cache_table *rows = &worker->runtime->node.cache.tables[t];
    if (slot >= table->count || !table->usable[slot]) {
        return check_misuse(
            worker->runtime,
            "aml_give_changes: slot %u of table %s: no item names its row since the last begin: expected "
            "slots of the present items",
            slot, rows->spec->name);
    }
    unsigned char *row = table->rows + slot * rows->stride;
    pthread_mutex_lock(&check->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (rows->spec->type == AML_INT32) {
            ((uint32_t *)(void *)row)[columns[i]] += ((const uint32_t *)changes)[i];
        } else {
            ((uint64_t *)(void *)row)[columns[i]] += ((const uint64_t *)changes)[i];
        }
    }
    pthread_mutex_unlock(&check->lock);
    return 0;
}
