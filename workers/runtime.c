/* See runtime.h. */
#include "workers/runtime.h"

#include "agileml/base/log.h"
#include "agileml/net/endpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum runtime_command { COMMAND_LOAD, COMMAND_COMPUTE, COMMAND_EVALUATE, COMMAND_SAVE };

static uint64_t monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000U + (uint64_t)now.tv_nsec / 1000U;
}

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

/* ---- The pool's threads: the app's functions ---- */

static bool runtime_failed(const struct runtime *runtime) {
    return atomic_load_explicit(&runtime->failed, memory_order_acquire);
}

/* Keeps the first failure of the process, and has no more of the app called. */
static void runtime_fail(struct runtime *runtime, int code, const char *text) {
    pthread_mutex_lock(&runtime->lock);
    error_set(&runtime->error, code, "%s", text);
    pthread_mutex_unlock(&runtime->lock);
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
}

/* The result of one of the app's functions, which may have said more by aml_error. */
static void check_result(struct runtime *runtime, int result, const char *function) {
    if (result < 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "the app's %s function failed with code %d", function, result);
        runtime_fail(runtime, result, text);
    }
}

static void run_load(struct runtime *runtime, struct aml_worker *worker) {
    struct error error = {0};
    struct aml_app *app = runtime->app;
    worker->chunk = data_chunk_open(&runtime->data, UINT64_MAX); /* for items that `read` emits itself */
    int result = app->read(worker, app->context);
    worker->chunk = NULL;
    check_result(runtime, result, "read");
    if (result < 0) {
        return;
    }
    struct cache *cache = &runtime->node.cache;
    result = data_arrange(&runtime->data, cache, (unsigned)runtime->options.clocks_per_iteration, runtime->pool.threads,
                          (uint64_t)runtime->options.seed, &error);
    for (unsigned t = 0; t < runtime->job.table_count && result == 0; t++) {
        uint64_t rows = runtime->job.tables[t].rows;
        uint64_t room = cache->tables[t].count + (uint64_t)RUNTIME_CACHE_SLACK;
        if (rows > 0 && rows < RUNTIME_CACHE_DENSE) {
            room = rows;
        }
        result = cache_reserve(cache, t, room);
        if (result != 0) {
            error_set(&error, result, "table %s: no memory for the cache of %llu rows", runtime->job.tables[t].name,
                      (unsigned long long)room);
        }
    }
    memory_give_back(); /* the input's text and the records made of it */
    if (result != 0) {
        runtime_fail(runtime, result, error.text);
    }
}

static void run_compute(struct runtime *runtime, struct aml_worker *worker) {
    struct aml_app *app = runtime->app;
    uint64_t start_us = monotonic_us();
    unsigned part = (unsigned)((runtime->clock - 1) % (uint64_t)runtime->options.clocks_per_iteration);
    worker->clock = runtime->clock;
    memset(worker->metrics, 0, sizeof worker->metrics);
    if (!runtime->begun) {
        if (worker->thread == 0 && app->begin != NULL) {
            check_result(runtime, app->begin(worker, app->context), "begin");
        }
        pthread_barrier_wait(&runtime->pool.barrier);
    }
    for (unsigned round = 0; round < runtime->data.bins; round++) {
        const void *items;
        size_t count = data_block(&runtime->data, part, worker->thread, round, &items);
        if (count > 0 && !runtime_failed(runtime)) {
            check_result(runtime, app->clock(worker, items, count, app->context), "clock");
        }
        pthread_barrier_wait(&runtime->pool.barrier); /* bins change hands; and all are through before the flush */
    }
    if (worker->thread == 0) {
        runtime->compute_us = monotonic_us() - start_us;
        runtime->begun = true;
    }
    if (runtime_failed(runtime)) {
        return;
    }
    struct client *client = &runtime->node.client;
    for (uint32_t p = worker->thread; p < client->partition_count; p += runtime->pool.threads) {
        struct error error = {0};
        if (client_gather(client, p, &error) != 0) {
            runtime_fail(runtime, error.code, error.text);
        }
    }
}

static void run_evaluate(struct runtime *runtime, struct aml_worker *worker) {
    const void *items;
    size_t count = data_tests(&runtime->data, worker->thread, &items);
    if (count > 0 && !runtime_failed(runtime)) {
        check_result(runtime, runtime->app->evaluate(worker, items, count, runtime->app->context), "evaluate");
    }
}

static void runtime_pool_run(void *context, unsigned thread, int command) {
    struct runtime *runtime = context;
    struct aml_worker *worker = &runtime->workers[thread];
    switch (command) {
    case COMMAND_LOAD:
        if (thread == 0) {
            run_load(runtime, worker);
        }
        break;
    case COMMAND_COMPUTE:
        run_compute(runtime, worker);
        break;
    case COMMAND_EVALUATE:
        run_evaluate(runtime, worker);
        break;
    case COMMAND_SAVE:
        if (thread == 0 && runtime->app->finish != NULL) {
            check_result(runtime, runtime->app->finish(worker, runtime->app->context), "finish");
        }
        break;
    default:
        break;
    }
}

/* ---- Asked of the main thread by the pool's ---- */

static bool rows_missing(const struct runtime *runtime) {
    return !client_subscribed(&runtime->node.client);
}

int64_t runtime_slot(struct runtime *runtime, unsigned table, uint64_t key) {
    pthread_mutex_lock(&runtime->lock);
    struct cache *cache = &runtime->node.cache;
    int64_t slot = cache_find(cache, table, key);
    if (slot == INDEX_NONE) {
        const struct cache_table *rows = &cache->tables[table];
        slot = rows->count < rows->capacity ? cache_add(cache, table, key) : AML_ELIMIT;
        runtime->new_rows = runtime->new_rows || slot >= 0;
        if (slot == AML_ELIMIT) {
            error_set(&runtime->error, AML_ELIMIT, "table %s: more than %u rows on one node", rows->spec->name,
                      rows->capacity);
        } else if (slot == AML_EINPUT) {
            error_set(&runtime->error, AML_EINPUT, "table %s: row %llu, expected 0 to %llu", rows->spec->name,
                      (unsigned long long)key, (unsigned long long)rows->spec->rows - 1);
        }
    }
    if (slot >= 0 && runtime->new_rows) {
        runtime->want_rows = true;
        runtime->waiting++;
        event_raise(runtime->wake);
        while (rows_missing(runtime) && !runtime->stopping) {
            pthread_cond_wait(&runtime->answered, &runtime->lock);
        }
        runtime->waiting--;
        runtime->new_rows = rows_missing(runtime);
        slot = runtime->stopping ? AML_ESTOP : slot;
    }
    pthread_mutex_unlock(&runtime->lock);
    return slot;
}

int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece) {
    pthread_mutex_lock(&runtime->lock);
    runtime->scan.partition = partition;
    runtime->scan.table = table;
    runtime->scan.cursor = cursor;
    runtime->scan.arrived = false;
    runtime->waiting++;
    while (!runtime->scan.arrived && !runtime->stopping) {
        struct timespec again;
        runtime->scan.wanted = true;
        event_raise(runtime->wake);
        clock_gettime(CLOCK_MONOTONIC, &again);
        again.tv_sec += RUNTIME_SCAN_RETRY_MS / 1000;
        while (!runtime->scan.arrived && !runtime->stopping &&
               pthread_cond_timedwait(&runtime->answered, &runtime->lock, &again) != ETIMEDOUT) {
        }
    }
    runtime->waiting--;
    int result = runtime->scan.arrived ? 0 : AML_ESTOP;
    if (result == 0) {
        *piece = runtime->scan.piece;
        runtime->scan.piece.frame_count = 0;
    }
    pthread_mutex_unlock(&runtime->lock);
    return result;
}

static void client_rows(void *context, const struct message *message) {
    struct runtime *runtime = context;
    if (runtime->scan.arrived || message->rows.partition != runtime->scan.partition ||
        message->rows.table != runtime->scan.table || message->rows.cursor != runtime->scan.cursor) {
        return;
    }
    runtime->scan.piece = message_share(message);
    runtime->scan.arrived = true;
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
    node_enter(runtime);
    node_receive(&runtime->node, from, message);
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
    node_enter(runtime);
    node_fail(&runtime->node, AML_EINPUT, text);
    node_leave(runtime);
}

static void agent_warning(void *self, const char *text) {
    (void)self;
    log_warn("%s", text);
}

static void agent_woken(void *context) {
    struct runtime *runtime = context;
    event_clear(runtime->wake);
    node_enter(runtime);
    struct node *node = &runtime->node;
    if (runtime->want_rows) {
        struct error error = {0};
        runtime->want_rows = false;
        if (client_subscribe(&node->client, &error) != 0) {
            node_fail(node, error.code, error.text);
        }
    }
    if (runtime->scan.wanted && !node->ended) {
        struct message scan = {.type = MESSAGE_SCAN, .epoch = node->client.epoch};
        runtime->scan.wanted = false;
        scan.scan.partition = runtime->scan.partition;
        scan.scan.table = runtime->scan.table;
        scan.scan.cursor = runtime->scan.cursor;
        scan.scan.min_clock = node->client.flushed;
        node->io->send(node->io, node->client.partitions[runtime->scan.partition].server, &scan);
    }
    node_wake(node);
    node_leave(runtime);
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

static void pool_done(void *context) {
    struct runtime *runtime = context;
    struct node *node = &runtime->node;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    event_clear(runtime->pool.done);
    node_enter(runtime);
    int command = runtime->pool.command; /* ours: only this thread gives commands */
    if (node->ended) {
        /* nobody waits for the result */
    } else if (runtime->error.code != 0 && command != COMMAND_SAVE) {
        node_fail(node, runtime->error.code, runtime->error.text);
    } else if (command == COMMAND_LOAD) {
        node_loaded(node, runtime->data.count, runtime->data.totals);
    } else if (command == COMMAND_COMPUTE) {
        size_t items = 0;
        unsigned part = (unsigned)((runtime->clock - 1) % (uint64_t)runtime->options.clocks_per_iteration);
        for (unsigned t = 0; t < runtime->pool.threads; t++) {
            for (unsigned round = 0; round < runtime->data.bins; round++) {
                const void *unused;
                items += data_block(&runtime->data, part, t, round, &unused);
            }
        }
        node_computed(node, items, runtime->compute_us);
    } else if (command == COMMAND_EVALUATE) {
        sum_metrics(runtime, metrics);
        node_evaluated(node, metrics);
    } else {
        node_saved(node, runtime->error.code, runtime->error.text);
    }
    node_leave(runtime);
}

static void signal_arrived(void *context) {
    struct runtime *runtime = context;
    struct signalfd_siginfo info;
    if (read(runtime->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s was stopped by %s", runtime->node.name[0] != '\0' ? runtime->node.name : "the node",
             info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    node_enter(runtime);
    node_fail(&runtime->node, AML_ESTOP, text);
    node_leave(runtime);
}

/* ---- The node's hooks; called under the lock ---- */

/* How many different owners the plan's shards have; each owns one contiguous run. */
static unsigned plan_origin_count(const struct message *plan) {
    const actor_id *owners = (const void *)plan->frames[2]->data;
    unsigned count = 0;
    for (uint32_t s = 0; s < plan->plan.shards; s++) {
        count += s == 0 || owners[s] != owners[s - 1] ? 1 : 0;
    }
    return count;
}

static void hook_load(void *context, const struct message *plan) {
    struct runtime *runtime = context;
    char name[LOG_NAME_MAX];
    snprintf(name, sizeof name, "%s[%s]", runtime->app->name, runtime->node.name);
    log_set_name(name);
    data_init(&runtime->data, runtime->app, plan, runtime->self);
    runtime->origins = plan_origin_count(plan);
    pool_begin(&runtime->pool, COMMAND_LOAD);
}

static void hook_compute(void *context, uint64_t clock) {
    struct runtime *runtime = context;
    runtime->clock = clock;
    pool_begin(&runtime->pool, COMMAND_COMPUTE);
}

static void hook_evaluate(void *context, uint64_t clock) {
    struct runtime *runtime = context;
    uint64_t each = (uint64_t)runtime->options.evaluate_every;
    bool due = clock % each == 0 || clock % (uint64_t)runtime->options.clocks_per_iteration == 0;
    if (runtime->app->evaluate != NULL && due) {
        pool_begin(&runtime->pool, COMMAND_EVALUATE);
        return;
    }
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    sum_metrics(runtime, metrics);
    node_evaluated(&runtime->node, metrics);
}

static void hook_save(void *context) {
    struct runtime *runtime = context;
    runtime->saving = true;
    pool_begin(&runtime->pool, COMMAND_SAVE);
}

static void hook_end(void *context, int code, const char *text) {
    struct runtime *runtime = context;
    runtime->end_code = code;
    runtime->welcomed = runtime->node.heartbeat_ms != 0;
    snprintf(runtime->end_text, sizeof runtime->end_text, "%s", text);
    runtime->stopping = true;
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
    net_io_stop(runtime->agent);
}

static uint64_t hook_memory(void *context) {
    (void)context;
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

/* ---- Server threads ---- */

static void server_stop(void *context) {
    struct server_thread *thread = context;
    net_io_stop(thread->io);
}

static void *server_main(void *argument) {
    struct server_thread *thread = argument;
    struct error error = {0};
    if (net_io_run(thread->io, &error) != 0) {
        struct message fail = {.type = MESSAGE_FAIL};
        struct io *io = net_io_of(thread->io);
        fail.text.code = error.code;
        memcpy(fail.text.text, error.text, sizeof fail.text.text);
        io->send(io, thread->runtime->self, &fail);
    }
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
        .warning = agent_warning,
    };
    int result = net_io_open(&thread->io, runtime->net, &options, error);
    if (result != 0) {
        return result;
    }
    server_init(&thread->server, net_io_of(thread->io), options.self, &runtime->job);
    result = net_io_watch(thread->io, thread->stop, server_stop, thread);
    if (result == 0) {
        int failed = pthread_create(&thread->handle, NULL, server_main, thread);
        result = failed != 0 ? error_set(error, AML_EFAIL, "can't start a server thread: %s", strerror(failed)) : 0;
    }
    thread->started = result == 0;
    return result;
}

static void server_end(struct server_thread *thread) {
    if (thread->started) {
        event_raise(thread->stop);
        pthread_join(thread->handle, NULL);
    }
    if (thread->io != NULL) {
        net_io_close(thread->io);
        server_close(&thread->server);
    }
    if (thread->runtime != NULL && thread->stop >= 0) {
        close(thread->stop);
    }
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
    struct net_key key;
    struct net_options options = {.insecure = runtime->options.insecure};
    if (runtime->options.key != NULL) {
        int result = net_key_load(runtime->options.key, &key, error);
        if (result != 0) {
            return result;
        }
        options.key = &key;
    }
    int result = check_listen(&runtime->options, error);
    result = result != 0 ? result : net_open(&runtime->net, &options, error);
    memset(&key, 0, sizeof key);
    if (result != 0) {
        return result;
    }
    struct net_io_options agent = {.self = runtime->self,
                                   .actor = {.receive = agent_receive, .timer = agent_timer, .self = runtime},
                                   .refused = agent_refused,
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
        .metric_count = runtime->app->metric_count,
        .timeout_ms = (uint32_t)(options->connect_timeout * 1000),
        .hooks = {.load = hook_load,
                  .compute = hook_compute,
                  .evaluate = hook_evaluate,
                  .save = hook_save,
                  .end = hook_end,
                  .memory_bytes = hook_memory,
                  .bytes = hook_bytes,
                  .context = runtime},
    };
    node.registration = runtime->registration;
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
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->pool.done, pool_done, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->wake, agent_woken, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->signals, signal_arrived, runtime);
    if (result != 0) {
        return error_set(error, result, "can't watch a descriptor");
    }
    open_node(runtime, endpoints);
    return 0;
}

static void runtime_close(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->lock);
    runtime->stopping = true;
    pthread_cond_broadcast(&runtime->answered);
    pthread_mutex_unlock(&runtime->lock);
    bool ended = pool_close(&runtime->pool, RUNTIME_CLOSE_MS);
    for (int64_t s = 0; s < runtime->options.server_threads; s++) {
        server_end(&runtime->servers[s]);
    }
    if (runtime->agent != NULL) {
        net_io_close(runtime->agent);
    }
    if (runtime->net != NULL) {
        net_close(runtime->net); /* what was sent last leaves now */
    }
    runtime->stuck = !ended;
    if (!ended) {
        return; /* the app is still in one of its functions and uses what would be freed here; the process ends now */
    }
    message_close(&runtime->scan.piece);
    if (runtime->node.io != NULL) {
        node_close(&runtime->node);
    }
    data_close(&runtime->data);
    for (unsigned l = 0; l < RUNTIME_ROW_LOCKS; l++) {
        pthread_mutex_destroy(&runtime->row_locks[l]);
    }
    pthread_cond_destroy(&runtime->answered);
    pthread_mutex_destroy(&runtime->lock);
    free(runtime->servers);
    free(runtime->workers);
    close(runtime->wake);
    close(runtime->signals);
}

void runtime_init(struct runtime *runtime) {
    pthread_mutex_init(&runtime->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&runtime->answered, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (unsigned l = 0; l < RUNTIME_ROW_LOCKS; l++) {
        pthread_mutex_init(&runtime->row_locks[l], NULL);
    }
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
        runtime->workers[t] = (struct aml_worker){.runtime = runtime, .thread = t};
    }
    int result = runtime_open(runtime, endpoints, error);
    if (result == 0) {
        node_enter(runtime);
        node_start(&runtime->node);
        node_leave(runtime);
        result = net_io_run(runtime->agent, error);
    }
    if (result == 0 && runtime->end_code != 0) {
        result = error_set(error, runtime->end_code, "%s", runtime->end_text);
    }
    runtime_close(runtime);
    free(endpoints);
    return result;
}
