/* The life of a node's process: its main thread, from opening to closing. See runtime.h. */
#include "workers/process/runtime_private.h"

#include "agileml/base/clock.h"
#include "agileml/base/log.h"
#include "agileml/net/endpoint.h"
#include "workers/data/crash.h"
#include "workers/node/gossip/node_gossip.h"
#include "workers/process/params.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- The main thread: the node agent ---- */

static void agent_receive(void *self, actor_id from, struct message *message) {
    struct runtime *runtime = self;
    bool told = from == ACTOR_CONTROLLER && (message->type == MESSAGE_DONE || message->type == MESSAGE_ABORT);
    if (runtime->end.crashed || runtime->end.untold) {
        if (told && runtime->end.crashed) {
            crash_told();
        } else if (told) {
            net_io_stop(runtime->agent);
        }
        return;
    }
    runtime_enter(runtime);
    node_receive(&runtime->node, from, message);
    if (runtime->contact != CONTACT_WELCOMED && runtime->node.contact.heartbeat_ms != 0) {
        log_set_node(runtime->node.name);
        crash_take_frame();
        log_info("joined the job at %s as a %s node", runtime->options.controller, runtime->options.tier);
        runtime->contact = CONTACT_WELCOMED;
    }
    runtime_leave(runtime);
}

static void agent_timer(void *self) {
    struct runtime *runtime = self;
    if (runtime->end.untold) {
        net_io_stop(runtime->agent);
        return;
    }
    runtime_enter(runtime);
    node_timer(&runtime->node);
    struct client_ring *ring = &runtime->node.client.waits.ring;
    bool tell = !ring->told && ring->losses >= CLIENT_RING_LOSSES_TOLD;
    ring->told = ring->told || tell;
    runtime_leave(runtime);
    if (tell) {
        log_warn("--exchange: messages by the ring are lost in clock after clock, or take more than %d s: most clocks "
                 "are exchanged directly",
                 CLIENT_RING_MAX_US / (1000 * 1000));
    }
}

static void agent_refused(void *self, const char *endpoint, const char *why) {
    struct runtime *runtime = self;
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s: %s", endpoint, why);
    if (strcmp(endpoint, runtime->options.controller) != 0) {
        log_warn("%s", text); /* a server, or another process on its old port; the node reports the server as silent */
        return;
    }
    runtime_enter(runtime);
    node_fail(&runtime->node, AML_EINPUT, text);
    runtime_leave(runtime);
}

static void agent_connected(void *self, actor_id peer) {
    struct runtime *runtime = self;
    runtime_enter(runtime);
    if (peer == ACTOR_CONTROLLER && runtime->contact == CONTACT_NONE) {
        runtime->contact = CONTACT_CONNECTED;
    }
    node_connected(&runtime->node, peer);
    runtime_leave(runtime);
}

/* Fails the node at once after a misuse of the library: the app's function may never return. */
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
    event_clear(runtime->asked.wake);
    runtime_enter(runtime);
    struct node *node = &runtime->node;
    fail_misused(runtime);
    if (runtime->asked.rows && !node->ended) {
        struct error error = {0};
        runtime->asked.rows = false;
        if (client_subscribe(&node->client, &error) != 0) {
            node_fail(node, error.code, error.text);
        }
    }
    if (runtime->asked.pieces && !node->ended) {
        runtime->asked.pieces = false;
        client_send_pieces(&node->client);
    }
    if (runtime->asked.scan.wanted && !node->ended && !node->client.fenced) {
        runtime->asked.scan.wanted = false;
        runtime_send_scan(runtime);
    }
    runtime_grow_cache(runtime);
    node_wake(node);
    runtime_leave(runtime);
}

/* Reports a crash to the controller. Takes no lock, since the thread that has crashed may hold it. */
static void app_crashed(void *context) {
    struct runtime *runtime = context;
    const struct message_crashed facts = crash_facts();
    net_io_watch(runtime->agent, crash_descriptor(), NULL, NULL);
    runtime->end.crashed = true;
    if (!node_crashed(&runtime->node, &facts)) {
        crash_told();
    }
}

/* Handles SIGINT and SIGTERM. The first SIGTERM is a warning that this machine is about to go; any other signal ends
 * the job. */
static void signal_arrived(void *context) {
    struct runtime *runtime = context;
    struct signalfd_siginfo info;
    if (read(runtime->signals, &info, sizeof info) != (ssize_t)sizeof info) {
        return;
    }
    if (info.ssi_signo == SIGTERM && runtime->contact != CONTACT_NONE && !runtime->cloud.warned) {
        runtime->cloud.warned = true;
        runtime_enter(runtime);
        node_leave_soon(&runtime->node, (uint32_t)(runtime->options.notice * 1000));
        runtime_leave(runtime);
        return;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s was stopped by %s", runtime->node.name[0] != '\0' ? runtime->node.name : "the node",
             info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM");
    runtime_enter(runtime);
    node_fail(&runtime->node, AML_ESTOP, text);
    runtime_leave(runtime);
}

/* Handles the cloud's notice. A SIGTERM that follows is a warning too. */
static void notice_leave(void *context, uint32_t left_ms, const char *text) {
    struct runtime *runtime = context;
    log_warn("%s: leaving the job", text);
    runtime->cloud.noticed = true;
    runtime_enter(runtime);
    node_leave_soon(&runtime->node, left_ms);
    runtime_leave(runtime);
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
    runtime->cloud.asked = seconds > 0;
    return seconds > 0 ? notice_open(&runtime->cloud.notice, runtime->agent, (uint32_t)(seconds * 1000), &hooks, error)
                       : 0;
}

/* ---- The node's hooks; called under the lock ---- */

static void hook_end(void *context, int code, const char *text) {
    struct runtime *runtime = context;
    runtime->end.code = code;
    snprintf(runtime->end.text, sizeof runtime->end.text, "%s", text);
    if (code == 0 && !runtime->end.rejoin) {
        log_info("the controller needs this node no more: it ends");
    }
    uint64_t averaged = node_gossip(&runtime->node)->averaged;
    if (averaged > 0) {
        log_info("averaged %llu times with other nodes between local steps", (unsigned long long)averaged);
    }
    if (runtime->command.done.sent > 0) {
        log_info("flushed %llu times before a clock's end (--flush-early)",
                 (unsigned long long)runtime->command.done.sent);
    }
    runtime->stopping = true;
    atomic_store_explicit(&runtime->failed, true, memory_order_release);
    /* The process waits until the controller has read its FAIL. Otherwise the controller might first notice refused
     * connections, and report those instead of the FAIL. */
    runtime->end.untold = runtime->node.departure.failed && runtime->contact == CONTACT_WELCOMED;
    if (runtime->end.untold) {
        struct io *io = net_io_of(runtime->agent);
        io->set_timer(io, io->now_us(io) + RUNTIME_FAREWELL_MS * UINT64_C(1000));
    } else {
        net_io_stop(runtime->agent);
    }
}

static void hook_rejoin(void *context, const char *why) {
    struct runtime *runtime = context;
    /* after a warning the node leaves for good */
    runtime->end.rejoin = !runtime->cloud.warned && !runtime->cloud.noticed;
    if (runtime->end.rejoin) {
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

static uint64_t memory_now(struct runtime *runtime) {
    uint64_t now_us = monotonic_us();
    if (runtime->memory.us == 0 || now_us >= runtime->memory.us + RUNTIME_MEMORY_MS * UINT64_C(1000)) {
        runtime->memory.bytes = resident_bytes();
        runtime->memory.us = now_us;
    }
    return runtime->memory.bytes;
}

static void hook_count(void *context, struct node_numbers *numbers) {
    struct runtime *runtime = context;
    net_io_count(runtime->agent, &numbers->bytes_sent, &numbers->bytes_received, NULL);
    for (int64_t i = 0; i < runtime->options.server_threads; i++) {
        uint64_t sent;
        uint64_t received;
        net_io_count(runtime->servers.list[i].thread.io, &sent, &received, NULL);
        numbers->bytes_sent += sent;
        numbers->bytes_received += received;
    }
    numbers->memory_bytes = memory_now(runtime);
    numbers->bytes_read = atomic_load(&runtime->loader.bytes_read);
    numbers->disk_bytes =
        atomic_load(&runtime->memory.spill.data.bytes) + atomic_load(&runtime->memory.spill.rows.bytes);
    numbers->disk_wait_us = atomic_load(&runtime->memory.spill.data.waited_us);
}

/* ---- The whole process ---- */

/* Checks that other nodes can reach the address that is given to them: that of --advertise, or else of --listen. */
static int check_listen(const struct runtime_options *options, struct error *error) {
    struct endpoint controller;
    struct endpoint own;
    char text[WIRE_ENDPOINT_MAX];
    const char *listen = options->listen;
    int result = endpoint_parse(&controller, options->controller, false, error);
    result = result != 0 ? result : endpoint_parse_host(&own, listen, error);
    if (result == 0 && options->advertise != NULL && endpoint_host_has_port(options->advertise)) {
        return error_set(error, AML_EINPUT,
                         "--advertise %.100s: expected a host without a port: a node has several ports, chosen by the "
                         "kernel, and others must reach them under the same numbers",
                         options->advertise);
    }
    if (result == 0 && options->advertise != NULL) {
        return endpoint_advertise(text, "tcp://*:1", options->advertise, error);
    }
    if (result == 0 && (endpoint_host_is_any(listen) || (own.loopback && !controller.loopback))) {
        result = error_set(error, AML_EINPUT,
                           "--listen %s: other nodes can't reach that; expected this machine's address, or --advertise "
                           "HOST with the one at which they reach it",
                           listen);
    }
    return result;
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
                                   .warning = runtime_warning};
    result = net_io_open(&runtime->agent, runtime->net, &agent, error);
    /* Connects here too, as the node's own later connect could not report an error. */
    return result != 0 ? result : net_io_connect(runtime->agent, ACTOR_CONTROLLER, runtime->options.controller, error);
}

/* Handles a signal in a thread that was started before aml_main, such as a thread of OpenBLAS, and does not block the
 * signal. Blocks it in this thread from now on, and sends it again: to the next such thread, or at last to signalfd. */
static void pass_signal_on(int number, siginfo_t *info, void *context) {
    int before = errno;
    ucontext_t *thread = context;
    (void)info;
    sigaddset(&thread->uc_sigmask, number); /* restored when we return */
    kill(getpid(), number);
    errno = before;
}

static int open_signals(struct runtime *runtime, struct error *error) {
    static const int numbers[] = {SIGINT, SIGTERM};
    sigset_t stop;
    sigemptyset(&stop);
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
        struct sigaction action;
        sigaddset(&stop, numbers[n]);
        if (sigaction(numbers[n], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            action = (struct sigaction){.sa_sigaction = pass_signal_on, .sa_flags = SA_SIGINFO | SA_RESTART};
            sigaction(numbers[n], &action, NULL);
        }
    }
    pthread_sigmask(SIG_BLOCK, &stop, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a write beyond a limit of file sizes fails instead */
    runtime->signals = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    runtime->asked.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runtime->signals < 0 || runtime->asked.wake < 0) {
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
        .pulse = &runtime->servers.pulse.endpoint,
        .metrics = runtime->terms.metrics,
        .settings = runtime->terms.settings,
        .metric_count = runtime->app->metric_count,
        .lots = (unsigned)options->lots,
        .fetches = runtime->app->read_only_emits != 0,
        .timeout_ms = (uint32_t)(options->connect_timeout * 1000),
        .patience_ms = (uint32_t)(options->patience * 1000),
        .hooks = {.lacks = runtime_hook_lacks,
                  .has = runtime_hook_has,
                  .pack = runtime_hook_pack,
                  .unpack = runtime_hook_unpack,
                  .read_part = runtime_hook_read_part,
                  .lacks_pieces = runtime_hook_lacks_pieces,
                  .pack_pieces = runtime_hook_pack_pieces,
                  .take_pieces = runtime_hook_take_pieces,
                  .settle = runtime_hook_settle,
                  .prepare = runtime_hook_prepare,
                  .release = runtime_hook_release,
                  .compute = runtime_hook_compute,
                  .compute_lots = runtime_hook_compute_lots,
                  .gather = runtime_hook_gather,
                  .help = runtime_hook_help,
                  .evaluate = runtime_hook_evaluate,
                  .feeds = runtime_hook_feeds,
                  .feed_transforms = runtime_hook_feed_transforms,
                  .feed_make = runtime_hook_feed_make,
                  .feed_take = runtime_hook_feed_take,
                  .feed_drop = runtime_hook_feed_drop,
                  .save = runtime_hook_save,
                  .unsave = runtime_hook_unsave,
                  .end = hook_end,
                  .rejoin = hook_rejoin,
                  .count = hook_count,
                  .context = runtime},
    };
    node.registration = runtime->terms.registration;
    snprintf(node.registration.key, sizeof node.registration.key, "%s", net_public_key(runtime->net));
    node_init(&runtime->node, net_io_of(runtime->agent), &node, &runtime->job);
    runtime->node.client.rows = runtime_take_rows;
    runtime->node.client.context = runtime;
}

static int runtime_open(struct runtime *runtime, struct wire_endpoint *endpoints, struct error *error) {
    const struct runtime_options *options = &runtime->options;
    int result = open_signals(runtime, error);
    result = result != 0 ? result : open_net(runtime, error);
    for (unsigned s = 0; s < (unsigned)options->server_threads && result == 0; s++) {
        result = server_thread_open(&runtime->servers.list[s], runtime, s + 1, error);
        if (result == 0) {
            endpoints[s].actor = actor_of_part(runtime->self, s + 1);
            snprintf(endpoints[s].endpoint, sizeof endpoints[s].endpoint, "%s",
                     net_io_endpoint(runtime->servers.list[s].thread.io));
        }
    }
    result = result != 0 ? result : pulse_thread_open(&runtime->servers.pulse, runtime, error);
    result = result != 0 ? result
                         : pool_open(&runtime->pool, (unsigned)options->threads, runtime_command_run, runtime, error);
    runtime->pool.handle_end = runtime_handle_command_end;
    result = result != 0 ? result : pool_open(&runtime->loader.pool, 1, runtime_loader_run, runtime, error);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->pool.done, runtime_commands_done, runtime);
    result =
        result != 0 ? result : net_io_watch(runtime->agent, runtime->loader.pool.done, runtime_loader_done, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->asked.wake, agent_woken, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, runtime->signals, signal_arrived, runtime);
    result = result != 0 ? result : net_io_watch(runtime->agent, crash_descriptor(), app_crashed, runtime);
    if (result != 0) {
        return error_set(error, result, "can't watch a descriptor");
    }
    open_node(runtime, endpoints);
    return open_notice(runtime, error);
}

static void runtime_close(struct runtime *runtime) {
    notice_close(runtime->cloud.notice);
    pthread_mutex_lock(&runtime->lock);
    runtime->stopping = true;
    pthread_cond_broadcast(&runtime->asked.answered);
    unsigned wait_ms = runtime->check.stopped ? 0 : RUNTIME_CLOSE_MS; /* the thread in check_stop never returns */
    pthread_mutex_unlock(&runtime->lock);
    bool ended = pool_close(&runtime->pool, wait_ms);
    ended = pool_close(&runtime->loader.pool, wait_ms) && ended;
    for (int64_t s = 0; s < runtime->options.server_threads; s++) {
        ended = server_thread_end(&runtime->servers.list[s]) && ended;
    }
    if (runtime->agent != NULL) {
        net_io_close(runtime->agent);
    }
    pulse_thread_end(&runtime->servers.pulse); /* last, as the pulse answers as long as the process lives */
    if (runtime->net != NULL) {
        if (runtime->end.rejoin) {
            net_leave_key(runtime->net);
        }
        net_close(runtime->net); /* sends the last messages */
    }
    runtime->end.stuck = !ended;
    if (!ended) {
        return; /* a thread still uses the memory that would be freed below; the process ends now anyway */
    }
    message_close(&runtime->asked.scan.piece);
    if (runtime->node.io != NULL) {
        node_close(&runtime->node);
    }
    runtime_transforms_close(runtime);
    runtime_loader_close(runtime);
    params_close(runtime);
    runtime_done_close(runtime);
    pthread_rwlock_destroy(&runtime->lists);
    pthread_cond_destroy(&runtime->asked.answered);
    pthread_mutex_destroy(&runtime->lock);
    check_close(&runtime->check);
    free(runtime->servers.list);
    free(runtime->workers);
    close(runtime->asked.wake);
    close(runtime->signals);
}

void runtime_init_worker(struct aml_worker *worker, struct runtime *runtime, unsigned thread) {
    *worker = (struct aml_worker){.runtime = runtime, .thread = thread, .check.calls = CALL_NONE};
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
    pthread_cond_init(&runtime->asked.answered, &monotonic);
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
    runtime->servers.list = memory_zeroed((size_t)runtime->options.server_threads, sizeof *runtime->servers.list);
    runtime->workers = memory_zeroed((size_t)runtime->options.threads, sizeof *runtime->workers);
    for (unsigned t = 0; t < (unsigned)runtime->options.threads; t++) {
        runtime_init_worker(&runtime->workers[t], runtime, t);
    }
    runtime_init_worker(&runtime->loader.reader, runtime, 0);
    params_open(runtime);
    runtime_done_open(runtime);
    runtime_transforms_open(runtime);
    int result = runtime_open(runtime, endpoints, error);
    if (result == 0) {
        runtime_enter(runtime);
        node_start(&runtime->node);
        runtime_leave(runtime);
        crash_listen(true);
        result = net_io_run(runtime->agent, error);
        crash_listen(false);
    }
    if (result == 0 && runtime->end.code != 0) {
        result = error_set(error, runtime->end.code, "%s", runtime->end.text);
    }
    runtime_close(runtime);
    free(endpoints);
    /* A process without a supervisor keeps the machine up until the cloud takes it: its last hour may then be free. */
    bool alone = !runtime->options.supervised;
    if (result == 0 && runtime->cloud.asked && alone && !runtime->end.rejoin && !runtime->end.stuck) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        notice_stay();
    }
    return result;
}
