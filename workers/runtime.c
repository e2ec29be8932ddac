/* See runtime.h. */
#include "workers/runtime.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/net/endpoint.h"
#include "agileml/ps/checkpoint.h"
#include "workers/crash.h"
#include "workers/params.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum runtime_command { COMMAND_COMPUTE, COMMAND_EVALUATE, COMMAND_SAVE };

static void event_raise(int event) {
    uint64_t one = 1;
    while (write(event, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void event_clear(int event) {
    uint64_t count;
    while (read(event, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* ---- The app's functions ---- */

bool runtime_failed(const struct runtime *runtime) {
    return atomic_load_explicit(&runtime->failed, memory_order_acquire);
}

/* Keeps the first failure of the process, and has no more of the app called. */
static void runtime_fail(struct runtime *runtime, int code, const char *text) {
    pthread_mutex_lock(&runtime->lock);
    error_set(&runtime->error, code, "%s", text);
    pthread_mutex_unlock(&runtime->lock);
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
}

/* Under the lock. */
static void runtime_forget_failure(struct runtime *runtime) {
    runtime->error = (struct error){0};
    atomic_store_explicit(&runtime->failed, false, memory_order_release);
}

/* One of the app's functions, which may have said more by aml_error, is back with this result. Returns 0 or a negative
 * code. */
static int function_done(struct aml_worker *worker, int result, const char *function) {
    check_leave(worker);
    int checked = check_returned(worker, result, function);
    if (checked < 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "the app's %s function failed with code %d", function, checked);
        runtime_fail(worker->runtime, checked, text);
    }
    return checked;
}

static unsigned clock_part(const struct runtime *runtime) {
    return (unsigned)((runtime->clock - 1) % (uint64_t)runtime->options.clocks_per_iteration);
}

static void run_gather(struct runtime *runtime, unsigned thread) {
    struct client *client = &runtime->node.client;
    for (uint32_t p = thread; p < client->partition_count; p += runtime->pool.threads) {
        struct error error = {0};
        pthread_rwlock_rdlock(&runtime->lists);
        int result = client_gather(client, p, &error);
        if (result == 0 && runtime->job.reject_nan) {
            result = client_check_numbers(client, p, runtime->node.name, &error);
        }
        pthread_rwlock_unlock(&runtime->lists);
        if (result != 0) {
            runtime_fail(runtime, error.code, error.text);
        }
    }
}

/* Thread 0 calls `function` of the app, the others help it with aml_parallel. Returns when all are through. */
static void run_leading(struct aml_worker *worker, const char *function, void (*call)(struct aml_worker *worker)) {
    struct pool *pool = &worker->runtime->pool;
    crash_enter(function, worker->runtime->clock);
    if (worker->thread > 0) {
        pool_help(pool, worker->thread);
    } else {
        worker->leads = true;
        call(worker);
        worker->leads = false;
        pool_dismiss(pool);
    }
    crash_leave();
}

static void call_begin(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    check_enter(worker, CALL_BEGIN);
    function_done(worker, runtime->app->begin(worker, runtime->app->context), "begin");
    runtime->check.call++; /* what follows is another call */
}

static void call_clock(struct aml_worker *worker, unsigned round) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_block(&runtime->set->items, clock_part(runtime), worker->thread, round, &items);
    if (count > 0 && !runtime_failed(runtime)) {
        check_enter(worker, CALL_CLOCK);
        function_done(worker, runtime->app->clock(worker, items, count, runtime->app->context), "clock");
    }
}

/* The set is arranged for one thread: all items of the clock. */
static void call_clock_alone(struct aml_worker *worker) {
    call_clock(worker, 0);
}

/* With PROTEUS_CHECK=1: thread 0 looks at the rows while no thread is in the app. All threads call it. */
static void run_check(struct aml_worker *worker, void (*check)(struct runtime *runtime)) {
    struct runtime *runtime = worker->runtime;
    if (runtime->check.on) {
        pthread_barrier_wait(&runtime->pool.barrier);
        if (worker->thread == 0 && !runtime_failed(runtime)) {
            check(runtime);
        }
        pthread_barrier_wait(&runtime->pool.barrier);
    }
}

static void check_begun(struct runtime *runtime) {
    check_after(runtime, CALL_BEGIN);
}

static void check_computed(struct runtime *runtime) {
    check_round(runtime);
    check_after(runtime, CALL_CLOCK);
}

static void check_evaluated(struct runtime *runtime) {
    check_after(runtime, CALL_EVALUATE);
}

static void check_finished(struct runtime *runtime) {
    check_after(runtime, CALL_FINISH);
}

static void run_compute(struct runtime *runtime, struct aml_worker *worker) {
    const struct aml_app *app = runtime->app;
    uint64_t start_us = monotonic_us();
    worker->clock = runtime->clock;
    memset(worker->metrics, 0, sizeof worker->metrics);
    run_check(worker, check_before);
    if (runtime->begin && app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    if (app->clock_alone) {
        run_leading(worker, "clock", call_clock_alone);
    }
    crash_enter("clock", runtime->clock);
    for (unsigned round = 0; round < runtime->set->items.bins && !app->clock_alone; round++) {
        call_clock(worker, round);
        pthread_barrier_wait(&runtime->pool.barrier); /* bins change hands; and all are through before the flush */
        run_check(worker, check_round);
    }
    crash_leave();
    run_check(worker, check_computed);
    if (worker->thread == 0) {
        runtime->compute_us = monotonic_us() - start_us;
    }
    if (!runtime_failed(runtime)) {
        run_gather(runtime, worker->thread);
    }
}

static void call_evaluate(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    const void *items;
    size_t count = data_tests(&runtime->set->items, worker->thread, &items);
    if ((count > 0 || runtime->app->evaluate_always) && !runtime_failed(runtime)) {
        check_enter(worker, CALL_EVALUATE);
        function_done(worker, runtime->app->evaluate(worker, items, count, runtime->app->context), "evaluate");
    }
}

static void run_evaluate(const struct runtime *runtime, struct aml_worker *worker) {
    worker->clock = runtime->clock;
    if (runtime->again) {
        memset(worker->metrics, 0, sizeof worker->metrics);
    }
    run_check(worker, check_before);
    if (runtime->begin && runtime->app->begin != NULL) {
        run_leading(worker, "begin", call_begin);
        run_check(worker, check_begun);
    }
    if (runtime->app->clock_alone) {
        run_leading(worker, "evaluate", call_evaluate);
    } else {
        crash_enter("evaluate", runtime->clock);
        call_evaluate(worker);
        crash_leave();
    }
    run_check(worker, check_evaluated);
}

static void call_finish(struct aml_worker *worker) {
    struct runtime *runtime = worker->runtime;
    struct aml_app *app = runtime->app;
    worker->clock = runtime->clock;
    check_enter(worker, CALL_FINISH);
    int result = app->finish != NULL ? app->finish(worker, app->context) : 0;
    pthread_mutex_lock(&runtime->lock);
    bool unsaving = runtime->unsaving;
    pthread_mutex_unlock(&runtime->lock);
    function_done(worker, unsaving ? 0 : result, "finish");
}

static void run_finish(struct aml_worker *worker) {
    run_check(worker, check_before);
    run_leading(worker, "finish", call_finish);
    run_check(worker, check_finished);
}

static void runtime_pool_run(void *context, unsigned thread, int command) {
    struct runtime *runtime = context;
    struct aml_worker *worker = &runtime->workers[thread];
    switch (command) {
    case COMMAND_COMPUTE:
        run_compute(runtime, worker);
        break;
    case COMMAND_EVALUATE:
        run_evaluate(runtime, worker);
        break;
    case COMMAND_SAVE:
        run_finish(worker);
        break;
    default:
        break;
    }
}

/* ---- Asked of the main thread by the others ---- */

void runtime_wake(struct runtime *runtime) {
    if (runtime->agent != NULL) {
        event_raise(runtime->wake);
    }
}

/* When to ask again. */
static struct timespec ask_main_thread(struct runtime *runtime) {
    event_raise(runtime->wake);
    return clock_after_ms(CLOCK_MONOTONIC, RUNTIME_RETRY_MS);
}

/* The app's function is to return: nothing that it waits for will come. */
static bool wait_is_over(const struct runtime *runtime) {
    return runtime->stopping || runtime->unsaving;
}

/* Whether `more` rows can be added without moving any; in a whole table that is all of them. */
static bool rows_fit(const struct cache_table *rows, uint64_t more) {
    if (rows->spec->whole) {
        return rows->capacity >= rows->spec->rows;
    }
    return rows->capacity - rows->count >= more || (rows->spec->rows > 0 && rows->capacity >= rows->spec->rows);
}

/* How many rows to make room for when `more` must fit: the double at least, so that it is seldom asked for. */
static uint64_t room_wanted(const struct cache_table *rows, uint64_t more) {
    uint64_t room = rows->spec->whole ? rows->spec->rows : rows->count + more;
    room = room > 2 * (uint64_t)rows->capacity ? room : 2 * (uint64_t)rows->capacity;
    room = rows->spec->rows > 0 && rows->spec->rows < room ? rows->spec->rows : room;
    return room < TABLE_SLOTS_MAX ? room : TABLE_SLOTS_MAX;
}

/* Beyond the items' rows the app may name others by key, in the middle of a clock. */
static uint64_t room_for_others(const struct cache_table *rows) {
    uint64_t dense = rows->spec->rows;
    return dense > 0 && dense < RUNTIME_CACHE_DENSE ? dense - rows->count : RUNTIME_CACHE_SLACK;
}

/* Under the lock: adds a row when it is new or no item names it any more. 0 or a negative code. */
static int add_row(struct runtime *runtime, unsigned table, uint64_t key) {
    struct cache *cache = &runtime->node.cache;
    const struct cache_table *rows = &cache->tables[table];
    int64_t slot = cache_find(cache, table, key);
    if (slot != INDEX_NONE && cache_arrived(rows, (uint32_t)slot)) {
        return 0;
    }
    if (rows->capacity == 0) { /* the process never had items; no rows are there that could move */
        cache_reserve(cache, table, room_wanted(rows, room_for_others(rows)));
    }
    slot = slot != INDEX_NONE || rows->count < rows->capacity ? cache_add(cache, table, key) : AML_ELIMIT;
    if (slot == AML_ELIMIT) {
        error_set(&runtime->error, AML_ELIMIT, "table %s: more than %u rows on one node", rows->spec->name,
                  rows->capacity);
    } else if (slot == AML_ENOMEM) {
        error_set(&runtime->error, AML_ENOMEM, "table %s: no memory for its rows", rows->spec->name);
    }
    return slot < 0 ? (int)slot : 0;
}

/* How many of keys[count], from the first on, have their state. The first `known` were found to have it before. */
static size_t count_arrived(const struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count,
                            size_t known) {
    const struct cache *cache = &runtime->node.cache;
    while (known < count) {
        int64_t slot = cache_find(cache, table, keys[known]);
        if (slot == INDEX_NONE || !cache_arrived(&cache->tables[table], (uint32_t)slot)) {
            break;
        }
        known++;
    }
    return known;
}

/* Under the lock, which is given up meanwhile: waits until all rows have their state. */
static int await_rows(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count) {
    size_t arrived = count_arrived(runtime, table, keys, count, 0);
    runtime->waiting++;
    while (arrived < count && !wait_is_over(runtime)) {
        runtime->want_rows = true;
        struct timespec again = ask_main_thread(runtime);
        int waited = 0;
        while (arrived < count && !wait_is_over(runtime) && waited != ETIMEDOUT) {
            waited = pthread_cond_timedwait(&runtime->answered, &runtime->lock, &again);
            arrived = count_arrived(runtime, table, keys, count, arrived);
        }
    }
    runtime->waiting--;
    return arrived == count ? 0 : AML_ESTOP;
}

int runtime_fetch(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count) {
    int result = 0;
    pthread_mutex_lock(&runtime->lock);
    for (size_t i = 0; i < count && result == 0; i++) {
        result = add_row(runtime, table, keys[i]);
    }
    result = result != 0 ? result : await_rows(runtime, table, keys, count);
    pthread_mutex_unlock(&runtime->lock);
    return result;
}

int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece) {
    pthread_mutex_lock(&runtime->lock);
    runtime->scan.partition = partition;
    runtime->scan.table = table;
    runtime->scan.cursor = cursor;
    runtime->scan.arrived = false;
    runtime->waiting++;
    while (!runtime->scan.arrived && !wait_is_over(runtime)) {
        runtime->scan.wanted = true;
        struct timespec again = ask_main_thread(runtime);
        while (!runtime->scan.arrived && !wait_is_over(runtime) &&
               pthread_cond_timedwait(&runtime->answered, &runtime->lock, &again) != ETIMEDOUT) {
        }
    }
    runtime->waiting--;
    int result = AML_ESTOP;
    if (runtime->scan.arrived && !wait_is_over(runtime)) {
        *piece = runtime->scan.piece;
        runtime->scan.piece.frame_count = 0;
        result = 0;
    }
    pthread_mutex_unlock(&runtime->lock);
    return result;
}

/* The server's answer to a scan. */
static void client_rows(void *context, const struct message *message) {
    struct runtime *runtime = context;
    if (runtime->scan.arrived || message->rows.partition != runtime->scan.partition ||
        message->rows.table != runtime->scan.table || message->rows.cursor != runtime->scan.cursor) {
        return;
    }
    message_close(&runtime->scan.piece); /* one that nobody took */
    runtime->scan.piece = message_share(message);
    runtime->scan.arrived = true;
}

/* ---- The loader: sets of data ---- */

/* Under the lock, which it gives up while it waits for the main thread. */
static int make_room(struct runtime *runtime, unsigned table, uint64_t more, struct error *error) {
    const struct cache_table *rows = &runtime->node.cache.tables[table];
    while (!rows_fit(rows, more) && !runtime->stopping) {
        uint64_t wanted = room_wanted(rows, more);
        if (wanted <= rows->capacity) {
            return error_set(error, AML_ELIMIT, "table %s: more than %u rows on one node", rows->spec->name,
                             rows->capacity);
        }
        runtime->room[table] = wanted;
        runtime->waiting++;
        event_raise(runtime->wake);
        while (runtime->room[table] != 0 && !runtime->stopping) {
            pthread_cond_wait(&runtime->answered, &runtime->lock);
        }
        runtime->waiting--;
        if (rows->capacity < wanted && !runtime->stopping) {
            return error_set(error, AML_ENOMEM, "table %s: no memory for the cache of %llu rows", rows->spec->name,
                             (unsigned long long)wanted);
        }
    }
    return runtime->stopping ? error_set(error, AML_ESTOP, "the job ended while its data was arranged") : 0;
}

/* The slots of the rows that some items name. */
static int loader_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                        struct error *error) {
    struct runtime *runtime = context;
    struct cache *cache = &runtime->node.cache;
    int result = 0;
    for (size_t done = 0; done < count && result == 0;) {
        pthread_mutex_lock(&runtime->lock);
        result = make_room(runtime, table, count - done, error);
        pthread_mutex_unlock(&runtime->lock);
        pthread_rwlock_wrlock(&runtime->lists);
        pthread_mutex_lock(&runtime->lock);
        while (done < count && result == 0 && rows_fit(&cache->tables[table], 1)) { /* others may have used the room */
            int64_t slot = cache_add_for(cache, table, keys[done], runtime->preparing->number);
            if (slot < 0) {
                result = error_set(error, (int)slot, "table %s: there is no room for row %llu",
                                   runtime->job.tables[table].name, (unsigned long long)keys[done]);
            } else {
                slots[done++] = (uint32_t)slot;
            }
        }
        pthread_mutex_unlock(&runtime->lock);
        pthread_rwlock_unlock(&runtime->lists);
    }
    return result;
}

/* Whole tables come into the cache before the first items. */
static int loader_whole(struct runtime *runtime, struct error *error) {
    int result = 0;
    for (unsigned t = 0; t < runtime->job.table_count && result == 0; t++) {
        if (runtime->job.tables[t].whole) {
            uint64_t key = 0;
            uint32_t slot;
            result = loader_slots(runtime, t, &key, &slot, 1, error);
        }
    }
    return result;
}

/* Rows that some items name, whose slots are known. */
static void loader_use(void *context, unsigned table, const uint32_t *slots, size_t count) {
    struct runtime *runtime = context;
    pthread_rwlock_wrlock(&runtime->lists);
    pthread_mutex_lock(&runtime->lock);
    for (size_t i = 0; i < count; i++) {
        cache_use(&runtime->node.cache, table, slots[i], runtime->preparing->number);
    }
    pthread_mutex_unlock(&runtime->lock);
    pthread_rwlock_unlock(&runtime->lists);
}

/* The size of a file, or of the files in a folder together. */
static uint64_t input_bytes(const char *path) {
    struct stat status;
    if (stat(path, &status) != 0) {
        return 0; /* opening it fails too, and the app says so */
    }
    if (!S_ISDIR(status.st_mode)) {
        return (uint64_t)status.st_size;
    }
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode)) {
            bytes += (uint64_t)status.st_size;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return bytes;
}

void runtime_input_file(struct runtime *runtime, const char *path) {
    struct runtime_input *input = &runtime->input;
    uint64_t bytes = input_bytes(path);
    size_t length = strlen(path);
    pthread_mutex_lock(&runtime->lock);
    if (input->file_count < WIRE_INPUT_FILES_MAX) {
        input->files = memory_resized(input->files, input->file_count + 1U, sizeof *input->files);
        struct wire_input_file *file = &input->files[input->file_count++];
        *file = (struct wire_input_file){.bytes = bytes};
        size_t cut = length < sizeof file->path ? 0 : length + 1 - sizeof file->path;
        memcpy(file->path, path + cut, length - cut);
    } else {
        struct wire_input_file *last = &input->files[input->file_count - 1];
        input->more++;
        last->bytes += bytes;
        snprintf(last->path, sizeof last->path, "%u more files", input->more + 1);
    }
    pthread_mutex_unlock(&runtime->lock);
}

/* Forgets the files of the last reading: each reading names its own. */
static void forget_files(struct runtime *runtime) {
    free(runtime->input.files);
    runtime->input = (struct runtime_input){0};
}

static int loader_read(struct runtime *runtime) {
    struct aml_app *app = runtime->app;
    struct aml_worker *reader = &runtime->reader;
    forget_files(runtime);
    data_read_begin(&runtime->data);
    reader->chunk = data_chunk_open(&runtime->data, 0); /* for items that `read` emits itself */
    crash_enter("read", 0);
    check_enter(reader, CALL_READ);
    int result = function_done(reader, app->read(reader, app->context), "read");
    crash_leave();
    data_chunk_close(&runtime->data, reader->chunk);
    reader->chunk = NULL;
    runtime->input.news = data_read_end(&runtime->data, result >= 0);
    memory_give_back(); /* the input's text and what was made of it on the way */
    return result;
}

static void loader_arrange(struct runtime *runtime) {
    struct runtime_set *set = runtime->preparing;
    struct data_rows rows = {.slots = loader_slots, .use = loader_use, .context = runtime};
    struct error error = {0};
    unsigned threads = runtime->app->clock_alone ? 1 : runtime->pool.threads;
    int result = loader_whole(runtime, &error);
    result = result != 0 ? result
                         : data_arrange(&runtime->data, set->shards, set->shard_count,
                                        (unsigned)runtime->options.clocks_per_iteration, threads,
                                        (uint64_t)runtime->options.seed, &rows, &set->items, &error);
    for (unsigned t = 0; t < runtime->job.table_count && result == 0; t++) {
        pthread_mutex_lock(&runtime->lock);
        result = make_room(runtime, t, room_for_others(&runtime->node.cache.tables[t]), &error);
        pthread_mutex_unlock(&runtime->lock);
    }
    if (result != 0) {
        runtime_fail(runtime, result, error.text);
    }
}

/* Reads and arranges; whoever works on this machine meanwhile goes first. A thread of its own, since a priority that
 * was lowered stays so: it and the threads that `read` starts end with the reading. */
static void *loader_read_main(void *context) {
    struct runtime *runtime = context;
    crash_thread_begin();
    setpriority(PRIO_PROCESS, 0, RUNTIME_READ_NICE); /* in Linux: this thread's */
    if (loader_read(runtime) == 0) {
        loader_arrange(runtime);
        memory_give_back(); /* records that the set has taken over, what arranging took */
    }
    crash_thread_end();
    return NULL;
}

static void loader_run(void *context, unsigned thread, int command) {
    (void)thread;
    (void)command; /* there is only one of each */
    struct runtime *runtime = context;
    const struct runtime_set *set = runtime->preparing;
    pthread_t reader;
    if (data_pin(&runtime->data, set->shards, set->shard_count)) {
        loader_arrange(runtime);
    } else if (pthread_create(&reader, NULL, loader_read_main, runtime) == 0) {
        pthread_join(reader, NULL);
    } else {
        runtime_fail(runtime, AML_EFAIL, "can't start a thread to read the input");
    }
}

/* ---- The main thread: the node agent ---- */

/* The node runs under the lock; whoever waits for an answer looks again afterwards. */
static void node_enter(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->lock);
}

static void node_leave(struct runtime *runtime) {
    if (runtime->waiting > 0) {
        pthread_cond_broadcast(&runtime->answered);
    }
    pthread_mutex_unlock(&runtime->lock);
}

static void agent_receive(void *self, actor_id from, struct message *message) {
    struct runtime *runtime = self;
    if (runtime->crashed) {
        if (from == ACTOR_CONTROLLER && (message->type == MESSAGE_DONE || message->type == MESSAGE_ABORT)) {
            crash_told();
        }
        return;
    }
    node_enter(runtime);
    node_receive(&runtime->node, from, message);
    if (!runtime->welcomed && runtime->node.heartbeat_ms != 0) {
        char name[LOG_NAME_MAX];
        snprintf(name, sizeof name, "%s[%s]", runtime->app->name, runtime->node.name);
        log_set_name(name);
        crash_set_name(name);
        runtime->welcomed = true;
    }
    node_leave(runtime);
}

static void agent_timer(void *self) {
    struct runtime *runtime = self;
    node_enter(runtime);
    node_timer(&runtime->node);
    node_leave(runtime);
}

static void agent_refused(void *self, const char *endpoint, const char *why) {
    struct runtime *runtime = self;
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s: %s", endpoint, why);
    if (strcmp(endpoint, runtime->options.controller) != 0) {
        log_warn("%s", text); /* a server, or who has its port by now: the node reports it as silent */
        return;
    }
    node_enter(runtime);
    node_fail(&runtime->node, AML_EINPUT, text);
    node_leave(runtime);
}

static void agent_connected(void *self, actor_id peer) {
    struct runtime *runtime = self;
    node_enter(runtime);
    runtime->connected |= peer == ACTOR_CONTROLLER;
    node_connected(&runtime->node, peer);
    node_leave(runtime);
}

static void agent_warning(void *self, const char *text) {
    (void)self;
    log_warn("%s", text);
}

/* The last clock of the job, when it is known. */
static uint64_t last_clock(const struct node *node) {
    return node->final != 0 ? node->final : node->client.flushed;
}

/* Makes the room that the loader waits for, when rows may move: nobody works on them. */
static void grow_cache(struct runtime *runtime) {
    for (unsigned t = 0; t < runtime->job.table_count && !runtime->busy; t++) {
        if (runtime->room[t] != 0) {
            cache_reserve(&runtime->node.cache, t, runtime->room[t]); /* the loader sees whether it went well */
            runtime->room[t] = 0;
        }
    }
}

/* Asks for the piece of a table that the app's finish function waits for. */
static void send_scan(struct runtime *runtime) {
    struct node *node = &runtime->node;
    struct message scan = {.type = MESSAGE_SCAN, .epoch = node->client.epoch};
    scan.scan.partition = runtime->scan.partition;
    scan.scan.table = runtime->scan.table;
    scan.scan.cursor = runtime->scan.cursor;
    scan.scan.min_clock = last_clock(node);
    actor_id server = client_server(&node->client, scan.scan.partition, scan.scan.min_clock);
    node->io->send(node->io, server, &scan);
}

/* A misuse of the library ends the job at once: the app's function may not come back. */
static void fail_misused(struct runtime *runtime) {
    struct error error = {0};
    if (runtime->check.misused) {
        error = runtime->error;
    } else if (!check_start_failed(&runtime->check, &error)) {
        return;
    }
    node_fail(&runtime->node, error.code, error.text);
}

static void agent_woken(void *context) {
    struct runtime *runtime = context;
    event_clear(runtime->wake);
    node_enter(runtime);
    struct node *node = &runtime->node;
    fail_misused(runtime);
    if (runtime->want_rows) {
        struct error error = {0};
        runtime->want_rows = false;
        if (client_subscribe(&node->client, &error) != 0) {
            node_fail(node, error.code, error.text);
        }
    }
    if (runtime->scan.wanted && !node->ended && !node->client.fenced) {
        runtime->scan.wanted = false;
        send_scan(runtime);
    }
    grow_cache(runtime);
    node_wake(node);
    node_leave(runtime);
}

/* Without the lock: the thread that has crashed may hold it. */
static void app_crashed(void *context) {
    struct runtime *runtime = context;
    const struct message_crashed facts = crash_facts();
    net_io_watch(runtime->agent, crash_descriptor(), NULL, NULL);
    runtime->crashed = true;
    if (!node_crashed(&runtime->node, &facts)) {
        crash_told();
    }
}

static void sum_metrics(const struct runtime *runtime, struct wire_metric_sum *sums) {
    memset(sums, 0, WIRE_METRICS_MAX * sizeof *sums);
    for (unsigned t = 0; t < runtime->pool.threads; t++) {
        for (unsigned m = 0; m < runtime->app->metric_count; m++) {
            sums[m].sum += runtime->workers[t].metrics[m].sum;
            sums[m].weight += runtime->workers[t].metrics[m].weight;
        }
    }
}

static void command_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    node_enter(runtime);
    int command = runtime->pool.command; /* nobody else gives commands */
    runtime->busy = false;
    cache_trim(&node->cache);
    grow_cache(runtime);
    if (node->ended) {
        /* nobody waits for the result */
    } else if (command == COMMAND_SAVE) {
        bool unsaving = runtime->unsaving;
        runtime->saving = runtime->unsaving = false;
        node_saved(node, unsaving ? AML_ESTOP : runtime->error.code, unsaving ? "" : runtime->error.text);
        runtime_forget_failure(runtime); /* the controller says what follows: perhaps another attempt */
    } else if (runtime->error.code != 0) {
        node_fail(node, runtime->error.code, runtime->error.text);
    } else if (command == COMMAND_COMPUTE) {
        node_computed(node, data_part_count(&runtime->set->items, clock_part(runtime)), runtime->compute_us);
    } else {
        sum_metrics(runtime, metrics);
        node_evaluated(node, metrics);
    }
    node_leave(runtime);
}

static void pool_done(void *context) {
    struct runtime *runtime = context;
    event_clear(runtime->pool.done);
    command_done(runtime);
}

static bool pool_is_busy(const void *context) {
    return ((const struct runtime *)context)->busy;
}

/* In the pool's last thread. Until the next command, which may come of it, this is as good a main thread as any. */
static bool pool_through(void *context) {
    struct runtime *runtime = context;
    return net_io_stand_in(runtime->agent, command_done, pool_is_busy, runtime);
}

/* The first SIGTERM is a warning: this machine is about to go. */
static void signal_arrived(void *context) {
    struct runtime *runtime = context;
    struct signalfd_siginfo info;
    if (read(runtime->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    if (info.ssi_signo == SIGTERM && runtime->connected && !runtime->warned) {
        runtime->warned = true;
        node_enter(runtime);
        node_leave_soon(&runtime->node, (uint32_t)(runtime->options.notice * 1000));
        node_leave(runtime);
        return;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s was stopped by %s", runtime->node.name[0] != '\0' ? runtime->node.name : "the node",
             info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    node_enter(runtime);
    node_fail(&runtime->node, AML_ESTOP, text);
    node_leave(runtime);
}

/* The cloud's notice. SIGTERM may still come, and is a warning then too. */
static void notice_leave(void *context, uint32_t left_ms, const char *text) {
    struct runtime *runtime = context;
    log_warn("%s: leaving the job", text);
    runtime->noticed = true;
    node_enter(runtime);
    node_leave_soon(&runtime->node, left_ms);
    node_leave(runtime);
}

static void notice_rebalance(void *context, const char *text) {
    const struct runtime *runtime = context;
    if (runtime->options.leave_on_rebalance) {
        notice_leave(context, (uint32_t)(runtime->options.notice * 1000), text);
    } else {
        log_warn("%s", text);
    }
}

static void notice_warn(void *context, const char *text) {
    (void)context;
    log_warn("%s", text);
}

static int open_notice(struct runtime *runtime, struct error *error) {
    const struct notice_hooks hooks = {
        .leave = notice_leave, .rebalance = notice_rebalance, .warn = notice_warn, .context = runtime};
    double seconds = runtime->options.poll_notice;
    if (seconds < 0) {
        seconds = notice_is_likely(NULL) ? NOTICE_POLL_S_DEFAULT : 0;
    }
    runtime->on_cloud = seconds > 0;
    return seconds > 0 ? notice_open(&runtime->notice, runtime->agent, (uint32_t)(seconds * 1000), &hooks, error) : 0;
}

/* ---- The node's hooks; called under the lock ---- */

static struct runtime_set *find_set(const struct runtime *runtime, unsigned number) {
    for (unsigned s = 0; s < runtime->set_count; s++) {
        if (runtime->sets[s]->number == number) {
            return runtime->sets[s];
        }
    }
    return NULL;
}

static void set_free(struct runtime *runtime, struct runtime_set *set) {
    data_set_close(&runtime->data, &set->items);
    free(set->shards);
    free(set);
}

/* Its shards' records may go when others need the room. */
static void drop_set(struct runtime *runtime, struct runtime_set *set) {
    unsigned s = 0;
    while (runtime->sets[s] != set) {
        s++;
    }
    memmove(&runtime->sets[s], &runtime->sets[s + 1], (--runtime->set_count - s) * sizeof(struct runtime_set *));
    if (set->prepared) {
        data_unpin(&runtime->data, set->shards, set->shard_count);
    }
    if (runtime->set == set) { /* not while the pool is at work on it, which reads this */
        runtime->set = NULL;
    }
    set_free(runtime, set);
}

/* Has the loader prepare the oldest set that waits for it. */
static void prepare_next(struct runtime *runtime) {
    for (unsigned s = 0; s < runtime->set_count && runtime->preparing == NULL; s++) {
        if (!runtime->sets[s]->prepared) {
            runtime->preparing = runtime->sets[s];
            pool_begin(&runtime->loader, 0);
        }
    }
}

/* Tells the node what the loader has read, if it is news. */
static void tell_input(struct runtime *runtime) {
    struct runtime_input *input = &runtime->input;
    if (input->news) {
        input->news = false;
        node_read(&runtime->node,
                  buffer_copy(runtime->data.input, runtime->data.shard_count * sizeof *runtime->data.input),
                  buffer_copy(input->files, input->file_count * sizeof *input->files));
    }
}

static void loader_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    event_clear(runtime->loader.done);
    node_enter(runtime);
    struct runtime_set *set = runtime->preparing;
    runtime->preparing = NULL;
    set->prepared = true;
    if (node->ended) {
        /* nobody waits for it */
    } else if (runtime->error.code != 0) {
        node_fail(node, runtime->error.code, runtime->error.text);
    } else if (set->released) {
        tell_input(runtime);
        drop_set(runtime, set);
        prepare_next(runtime);
    } else {
        tell_input(runtime); /* before the loader reads again */
        prepare_next(runtime);
        node_prepared(node, set->number, set->items.count, set->items.totals);
    }
    node_leave(runtime);
}

static void hook_prepare(void *context, const struct node_set *wanted) {
    struct runtime *runtime = context;
    struct runtime_set *set = memory_zeroed(1, sizeof *set);
    *set = (struct runtime_set){.number = wanted->number, .shard_count = wanted->count};
    set->shards = memory_resized(NULL, wanted->count, sizeof *set->shards);
    memcpy(set->shards, wanted->shards, wanted->count * sizeof *set->shards);
    if (runtime->data.shards == NULL) {
        data_open(&runtime->data, runtime->app, runtime->node.plan.terms.shards,
                  (size_t)runtime->options.standby_memory << 20);
    }
    runtime->sets = memory_resized(runtime->sets, runtime->set_count + 1, sizeof(struct runtime_set *));
    runtime->sets[runtime->set_count++] = set;
    prepare_next(runtime);
}

static void hook_release(void *context, unsigned number) {
    struct runtime *runtime = context;
    struct runtime_set *set = find_set(runtime, number);
    if (set == runtime->preparing) {
        set->released = true; /* the loader is at work on it */
    } else {
        drop_set(runtime, set);
    }
}

static void begin_command(struct runtime *runtime, int command) {
    runtime->busy = true;
    runtime->check.call++;
    pool_begin(&runtime->pool, command);
}

static void hook_compute(void *context, unsigned set, uint64_t clock) {
    struct runtime *runtime = context;
    runtime->set = find_set(runtime, set);
    runtime->clock = clock;
    runtime->origins = node_origins(&runtime->node, clock);
    runtime->begin = runtime->begun_origins != runtime->origins || runtime->begun_set != set;
    runtime->begun_set = set;
    runtime->begun_origins = runtime->origins;
    begin_command(runtime, COMMAND_COMPUTE);
}

/* Has the app's begin called first, if these items are not those of its last call. */
static void begin_evaluation(struct runtime *runtime, unsigned set, uint64_t clock, bool again) {
    runtime->set = find_set(runtime, set);
    runtime->clock = clock;
    runtime->again = again;
    runtime->last = runtime->node.work.last;
    runtime->begin = again && (runtime->begun_set != set || runtime->begun_origins == 0);
    if (runtime->begin) {
        runtime->origins = runtime->begun_origins > 0 ? runtime->origins : node_origins(&runtime->node, clock);
        runtime->begun_set = set;
        runtime->begun_origins = runtime->origins;
    }
    begin_command(runtime, COMMAND_EVALUATE);
}

static void hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    struct runtime *runtime = context;
    uint64_t each = (uint64_t)runtime->options.evaluate_every;
    bool due = clock % each == 0 || clock % (uint64_t)runtime->options.clocks_per_iteration == 0;
    if (runtime->app->evaluate != NULL && due) {
        begin_evaluation(runtime, set, clock, again);
        return;
    }
    struct wire_metric_sum metrics[WIRE_METRICS_MAX] = {0};
    if (!again) {
        sum_metrics(runtime, metrics);
    }
    node_evaluated(&runtime->node, metrics);
}

static void hook_save(void *context) {
    struct runtime *runtime = context;
    runtime->saving = true;
    runtime->set = NULL; /* sets may be released meanwhile */
    runtime->clock = last_clock(&runtime->node);
    begin_command(runtime, COMMAND_SAVE);
}

static void hook_unsave(void *context) {
    struct runtime *runtime = context;
    runtime->unsaving = runtime->saving;
}

static void hook_end(void *context, int code, const char *text) {
    struct runtime *runtime = context;
    runtime->end_code = code;
    snprintf(runtime->end_text, sizeof runtime->end_text, "%s", text);
    runtime->stopping = true;
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
    net_io_stop(runtime->agent);
}

static void hook_rejoin(void *context, const char *why) {
    struct runtime *runtime = context;
    runtime->rejoin = !runtime->warned && !runtime->noticed; /* one that was to leave has left */
    if (runtime->rejoin) {
        log_warn("%s: starting anew as a new node", why);
    }
    hook_end(runtime, 0, "");
}

static uint64_t resident_bytes(void) {
    unsigned long long total;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%llu %llu", &total, &resident) != 2) {
        resident = 0;
    }
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t hook_memory(void *context) {
    struct runtime *runtime = context;
    uint64_t now_us = monotonic_us();
    if (runtime->memory_us == 0 || now_us >= runtime->memory_us + RUNTIME_MEMORY_MS * UINT64_C(1000)) {
        runtime->memory_bytes = resident_bytes();
        runtime->memory_us = now_us;
    }
    return runtime->memory_bytes;
}

static void hook_bytes(void *context, uint64_t *sent, uint64_t *received) {
    struct runtime *runtime = context;
    uint64_t s;
    uint64_t r;
    net_io_count(runtime->agent, sent, received, NULL);
    for (int64_t i = 0; i < runtime->options.server_threads; i++) {
        net_io_count(runtime->servers[i].io, &s, &r, NULL);
        *sent += s;
        *received += r;
    }
}

/* ---- Checkpoints: a server's thread and its writer ---- */

static void writer_run(void *context, unsigned thread, int command) {
    (void)thread;
    (void)command;
    struct server_thread *server = context;
    const struct checkpoint_job *job = &server->writing;
    server->written = (struct message_written){.number = job->checkpoint.number};
    checkpoint_write(job->partition, job->checkpoint.clock, job->checkpoint.path, &server->written);
}

static void write_next(struct server_thread *thread) {
    if (thread->writing.partition != NULL || thread->job_count == 0) {
        return;
    }
    thread->writing = thread->jobs[0];
    memmove(thread->jobs, thread->jobs + 1, --thread->job_count * sizeof *thread->jobs);
    pool_begin(&thread->writer, 0);
}

static void job_close(struct checkpoint_job *job) {
    if (job->copy && job->partition != NULL) {
        partition_close(job->partition);
    }
    job->partition = NULL;
}

static void writer_done(void *context) {
    struct server_thread *thread = context;
    event_clear(thread->writer.done);
    job_close(&thread->writing);
    struct message_written written = thread->written;
    write_next(thread);
    server_written(&thread->server, &written);
}

static int writer_open(struct server_thread *thread, struct error *error) {
    if (thread->writer.handles != NULL) {
        return 0;
    }
    int result = pool_open(&thread->writer, 1, writer_run, thread, error);
    if (result == 0 && net_io_watch(thread->io, thread->writer.done, writer_done, thread) != 0) {
        pool_close(&thread->writer, RUNTIME_CLOSE_MS);
        return error_set(error, AML_EFAIL, "can't watch a descriptor");
    }
    return result;
}

static void hook_write(void *context, struct partition *partition, const struct message_checkpoint *checkpoint,
                       bool copy) {
    struct server_thread *thread = context;
    struct checkpoint_job job = {.partition = partition, .copy = copy, .checkpoint = *checkpoint};
    struct error error = {0};
    if (writer_open(thread, &error) != 0) {
        struct message_written written = {.number = checkpoint->number,
                                          .partition = partition->id,
                                          .state = WRITTEN_FAILED,
                                          .clock = checkpoint->clock};
        memcpy(written.text, error.text, sizeof written.text);
        job_close(&job);
        server_written(&thread->server, &written);
        return;
    }
    thread->jobs = memory_resized(thread->jobs, thread->job_count + 1, sizeof *thread->jobs);
    thread->jobs[thread->job_count++] = job;
    write_next(thread);
}

static int hook_read(void *context, struct partition *partition, const char *path, uint64_t clock,
                     struct error *error) {
    (void)context;
    return checkpoint_read(partition, path, clock, error);
}

/* False when a file is still being written. */
static bool writer_close(struct server_thread *thread) {
    if (!pool_close(&thread->writer, RUNTIME_CLOSE_MS)) {
        return false;
    }
    job_close(&thread->writing);
    for (unsigned j = 0; j < thread->job_count; j++) {
        job_close(&thread->jobs[j]);
    }
    free(thread->jobs);
    return true;
}

/* ---- Server threads ---- */

static void server_stop(void *context) {
    struct server_thread *thread = context;
    net_io_stop(thread->io);
}

static void *server_main(void *argument) {
    struct server_thread *thread = argument;
    struct error error = {0};
    crash_thread_begin(); /* tables' start functions */
    if (net_io_run(thread->io, &error) != 0) {
        struct message fail = {.type = MESSAGE_FAIL};
        struct io *io = net_io_of(thread->io);
        fail.text.code = error.code;
        memcpy(fail.text.text, error.text, sizeof fail.text.text);
        io->send(io, thread->runtime->self, &fail);
    }
    crash_thread_end();
    return NULL;
}

static int server_open(struct server_thread *thread, struct runtime *runtime, unsigned part, struct error *error) {
    char bind[WIRE_ENDPOINT_MAX];
    snprintf(bind, sizeof bind, "tcp://%s:*", runtime->options.listen);
    thread->runtime = runtime;
    thread->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread->stop < 0) {
        return error_set(error, AML_EFAIL, "eventfd: %s", strerror(errno));
    }
    struct net_io_options options = {
        .self = actor_of_part(runtime->self, part),
        .bind = bind,
        .actor = {.receive = server_receive, .timer = server_timer, .self = &thread->server},
        .lent_for = MESSAGE_FLUSH, /* of the main thread */
        .warning = agent_warning,
    };
    int result = net_io_open(&thread->io, runtime->net, &options, error);
    if (result != 0) {
        return result;
    }
    struct server_hooks hooks = {.write = hook_write, .read = hook_read, .context = thread};
    server_init(&thread->server, net_io_of(thread->io), options.self, &runtime->job, &hooks);
    result = net_io_watch(thread->io, thread->stop, server_stop, thread);
    if (result == 0) {
        int failed = pthread_create(&thread->handle, NULL, server_main, thread);
        result = failed != 0 ? error_set(error, AML_EFAIL, "can't start a server thread: %s", strerror(failed)) : 0;
    }
    thread->started = result == 0;
    return result;
}

/* False when its writer is still at work: it uses the partitions. */
static bool server_end(struct server_thread *thread) {
    if (thread->started) {
        event_raise(thread->stop);
        pthread_join(thread->handle, NULL);
    }
    if (thread->io != NULL) {
        net_io_close(thread->io);
    }
    bool ended = writer_close(thread);
    if (thread->io != NULL && ended) {
        server_close(&thread->server);
    }
    if (thread->runtime != NULL && thread->stop >= 0) {
        close(thread->stop);
    }
    return ended;
}

/* ---- The whole process ---- */

/* Other nodes connect to --listen, so it must be an address that they can reach. */
static int check_listen(const struct runtime_options *options, struct error *error) {
    struct endpoint controller;
    struct endpoint own;
    char text[WIRE_ENDPOINT_MAX];
    const char *listen = options->listen;
    snprintf(text, sizeof text, "tcp://%s:0", listen);
    int result = endpoint_parse(&controller, options->controller, false, error);
    result = result != 0 ? result : endpoint_parse(&own, text, true, error);
    if (result != 0) {
        return result;
    }
    if (strcmp(listen, "*") == 0 || strcmp(listen, "0.0.0.0") == 0 || strcmp(listen, "[::]") == 0 ||
        (own.loopback && !controller.loopback)) {
        return error_set(error, AML_EINPUT,
                         "--listen %s: other nodes can't reach that; expected this machine's address", listen);
    }
    return 0;
}

static int open_net(struct runtime *runtime, struct error *error) {
    const struct net_options options = {.insecure = runtime->options.insecure};
    int result = check_listen(&runtime->options, error);
    result = result != 0 ? result : net_open_by_file(&runtime->net, runtime->options.key, options, error);
    if (result != 0) {
        return result;
    }
    struct net_io_options agent = {.self = runtime->self,
                                   .actor = {.receive = agent_receive, .timer = agent_timer, .self = runtime},
                                   .refused = agent_refused,
                                   .connected = agent_connected,
                                   .warning = agent_warning};
    result = net_io_open(&runtime->agent, runtime->net, &agent, error);
    /* The node connects too, but can't say why it can't. */
    return result != 0 ? result : net_io_connect(runtime->agent, ACTOR_CONTROLLER, runtime->options.controller, error);
}

static int open_signals(struct runtime *runtime, struct error *error) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    runtime->signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    runtime->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runtime->signals < 0 || runtime->wake < 0) {
        return error_set(error, AML_EFAIL, "signalfd or eventfd: %s", strerror(errno));
    }
    return 0;
}

static void open_node(struct runtime *runtime, const struct wire_endpoint *endpoints) {
    const struct runtime_options *options = &runtime->options;
    struct node_options node = {
        .self = runtime->self,
        .controller = options->controller,
        .servers = endpoints,
        .server_count = (unsigned)options->server_threads,
        .metrics = runtime->metrics,
        .settings = runtime->settings,
        .metric_count = runtime->app->metric_count,
        .timeout_ms = (uint32_t)(options->connect_timeout * 1000),
        .patience_ms = (uint32_t)(options->patience * 1000),
        .hooks = {.prepare = hook_prepare,
                  .release = hook_release,
                  .compute = hook_compute,
                  .evaluate = hook_evaluate,
                  .save = hook_save,
                  .unsave = hook_unsave,
                  .end = hook_end,
                  .rejoin = hook_rejoin,
                  .memory_bytes = hook_memory,
                  .bytes = hook_bytes,
                  .context = runtime},
    };
    node.registration = runtime->registration;
    snprintf(node.registration.key, sizeof node.registration.key, "%s", net_public_key(runtime->net));
    node_init(&runtime->node, net_io_of(runtime->agent), &node, &runtime->job);
    runtime->node.client.rows = client_rows;
    runtime->node.client.context = runtime;
}

static int runtime_open(struct runtime *runtime, struct wire_endpoint *endpoints, struct error *error) {
    const struct runtime_options *options = &runtime->options;
    int result = open_signals(runtime, error);
    result = result != 0 ? result : open_net(runtime, error);
    for (unsigned s = 0; s < (unsigned)options->server_threads && result == 0; s++) {
        result = server_open(&runtime->servers[s], runtime, s + 1, error);
        if (result == 0) {
            endpoints[s].actor = actor_of_part(runtime->self, s + 1);
            snprintf(endpoints[s].endpoint, sizeof endpoints[s].endpoint, "%s",
                     net_io_endpoint(runtime->servers[s].io));
        }
    }
    result =
        result != 0 ? result : pool_open(&runtime->pool, (unsigned)options->threads, runtime_pool_run, runtime, error);
    runtime->pool.through = pool_through;
    result = result != 0 ? result : pool_open(&runtime->loader, 1, loader_run, runtime, error);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->pool.done, pool_done, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->loader.done, loader_done, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->wake, agent_woken, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->signals, signal_arrived, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, crash_descriptor(), app_crashed, runtime);
    if (result != 0) {
        return error_set(error, result, "can't watch a descriptor");
    }
    open_node(runtime, endpoints);
    return open_notice(runtime, error);
}

static void runtime_close(struct runtime *runtime) {
    notice_close(runtime->notice);
    pthread_mutex_lock(&runtime->lock);
    runtime->stopping = true;
    pthread_cond_broadcast(&runtime->answered);
    unsigned wait_ms = runtime->check.stopped ? 0 : RUNTIME_CLOSE_MS; /* its thread does not come back */
    pthread_mutex_unlock(&runtime->lock);
    bool ended = pool_close(&runtime->pool, wait_ms);
    ended = pool_close(&runtime->loader, wait_ms) && ended;
    for (int64_t s = 0; s < runtime->options.server_threads; s++) {
        ended = server_end(&runtime->servers[s]) && ended;
    }
    if (runtime->agent != NULL) {
        net_io_close(runtime->agent);
    }
    if (runtime->net != NULL) {
        if (runtime->rejoin) {
            net_leave_key(runtime->net);
        }
        net_close(runtime->net); /* what was sent last leaves now */
    }
    runtime->stuck = !ended;
    if (!ended) {
        return; /* a thread is still at work and uses what would be freed here; the process ends now */
    }
    message_close(&runtime->scan.piece);
    if (runtime->node.io != NULL) {
        node_close(&runtime->node);
    }
    for (unsigned set = 0; set < runtime->set_count; set++) {
        set_free(runtime, runtime->sets[set]);
    }
    free(runtime->sets);
    data_close(&runtime->data);
    forget_files(runtime);
    params_close(runtime);
    pthread_rwlock_destroy(&runtime->lists);
    pthread_cond_destroy(&runtime->answered);
    pthread_mutex_destroy(&runtime->lock);
    check_close(&runtime->check);
    free(runtime->servers);
    free(runtime->workers);
    free(runtime->reading);
    close(runtime->wake);
    close(runtime->signals);
}

void worker_init(struct aml_worker *worker, struct runtime *runtime, unsigned thread) {
    *worker = (struct aml_worker){.runtime = runtime, .thread = thread};
    check_leave(worker);
    for (unsigned t = 0; t < WIRE_TABLES_MAX; t++) {
        worker->check.rows[t] = (struct aml_row_checks){.worker = worker, .table = t};
    }
}

void runtime_init(struct runtime *runtime) {
    pthread_mutex_init(&runtime->lock, NULL);
    pthread_rwlock_init(&runtime->lists, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&runtime->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int runtime_run(struct runtime *runtime, struct error *error) {
    struct wire_endpoint *endpoints = memory_zeroed((size_t)runtime->options.server_threads, sizeof *endpoints);
    while (actor_node(runtime->self) <= actor_node(ACTOR_CONTROLLER)) {
        if (getrandom(&runtime->self, sizeof runtime->self, 0) != (ssize_t)sizeof runtime->self) {
            runtime->self = monotonic_us() * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)getpid() << 17;
        }
        runtime->self = actor_node(runtime->self);
    }
    runtime->servers = memory_zeroed((size_t)runtime->options.server_threads, sizeof *runtime->servers);
    runtime->workers = memory_zeroed((size_t)runtime->options.threads, sizeof *runtime->workers);
    for (unsigned t = 0; t < (unsigned)runtime->options.threads; t++) {
        worker_init(&runtime->workers[t], runtime, t);
    }
    worker_init(&runtime->reader, runtime, 0);
    params_open(runtime);
    int result = runtime_open(runtime, endpoints, error);
    if (result == 0) {
        node_enter(runtime);
        node_start(&runtime->node);
        node_leave(runtime);
        crash_listen(true);
        result = net_io_run(runtime->agent, error);
        crash_listen(false);
    }
    if (result == 0 && runtime->end_code != 0) {
        result = error_set(error, runtime->end_code, "%s", runtime->end_text);
    }
    runtime_close(runtime);
    free(endpoints);
    bool alone = !runtime->options.supervised; /* with it the machine ends: its last hour may be free */
    if (result == 0 && runtime->on_cloud && alone && !runtime->rejoin && !runtime->stuck) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        notice_stay();
    }
    return result;
}
