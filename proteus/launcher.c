/* See launcher.h. One loop, all state in struct launcher: signals (a child's end is one), messages of the controller and
 * the timer are what it reacts to. */
#include "proteus/launcher.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/controller.h"
#include "proteus/process.h"
#include "proteus/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum launcher_phase {
    LAUNCHER_CHECK, /* the app checks its options and input */
    LAUNCHER_START, /* the controller starts */
    LAUNCHER_JOB,   /* the nodes run */
    LAUNCHER_END    /* the summary has come, or everything is being killed: wait for the processes */
};

struct launcher {
    const struct launcher_options *options;
    struct events *events;
    struct report_file *report;
    struct progress *progress;
    struct net *net;
    struct net_io *io;
    int signal_fd, ready_fd;           /* -1: none */
    char ready[WIRE_ENDPOINT_MAX + 1]; /* what the controller has said of its endpoint */
    size_t ready_size;

    enum launcher_phase phase;
    struct process check, controller;
    struct process *nodes; /* reliable ones first */
    unsigned node_count, reliable;
    bool *joined; /* of each node */
    unsigned joined_count;

    uint64_t lines_read;    /* of the report */
    uint64_t lines_asked;   /* when we last asked for more */
    bool summary;           /* has come */
    uint64_t iteration;     /* the last that ended ... */
    json_t *iteration_line; /* ... and what was reported of it; NULL: none */
    uint64_t training_us;   /* when training began; 0: not known yet */

    struct message_text stop; /* why we want the job to end; code 0: we don't */
    unsigned signals;         /* that asked us to end */
    /* Times of what is to be done then; 0: nothing. */
    uint64_t start_us;   /* every node should have joined */
    uint64_t failure_us; /* tell the controller of nodes that ended */
    uint64_t silence_us; /* the controller has ended without a summary */
    uint64_t kill_us;    /* kill what still runs */

    struct error error; /* why the job failed */
    int status;         /* the exit status that goes with it, or that a child printed the reason for; 0: none */
};

static uint64_t launcher_now(const struct launcher *launcher) {
    struct io *io = net_io_of(launcher->io);
    return io->now_us(io);
}

static uint64_t launcher_after(const struct launcher *launcher, unsigned ms) {
    return launcher_now(launcher) + ms * UINT64_C(1000);
}

/* ---- All children ---- */

static void launcher_signal_all(const struct launcher *launcher, int number) {
    process_signal(&launcher->check, number);
    for (unsigned n = 0; n < launcher->node_count; n++) {
        process_signal(&launcher->nodes[n], number);
    }
    process_signal(&launcher->controller, number);
}

static bool launcher_any_runs(const struct launcher *launcher) {
    bool any = launcher->check.running || launcher->controller.running;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        any = any || launcher->nodes[n].running;
    }
    return any;
}

static void launcher_kill_all(struct launcher *launcher) {
    launcher->phase = LAUNCHER_END;
    launcher->start_us = launcher->failure_us = launcher->kill_us = 0;
    launcher_signal_all(launcher, SIGKILL);
}

/* Ends everything at once. Only the first reason is kept. */
__attribute__((format(printf, 3, 4))) static void launcher_fail(struct launcher *launcher, int code, const char *format,
                                                                ...) {
    char text[ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    error_set(&launcher->error, code, "%s", text);
    launcher_kill_all(launcher);
}

/* ---- Talking to the controller ---- */

static void send_observe(struct launcher *launcher) {
    struct io *io = net_io_of(launcher->io);
    struct message observe = {.type = MESSAGE_OBSERVE, .observe = {.from = launcher->lines_read}};
    launcher->lines_asked = launcher->lines_read;
    io->send(io, ACTOR_CONTROLLER, &observe);
}

static void send_stop(const struct launcher *launcher) {
    struct io *io = net_io_of(launcher->io);
    struct message stop = {.type = MESSAGE_STOP, .text = launcher->stop};
    io->send(io, ACTOR_CONTROLLER, &stop);
}

/* Has the controller end the job, so that every process hears the reason. */
static void launcher_stop(struct launcher *launcher, int code, const char *text) {
    launcher->stop.code = code;
    snprintf(launcher->stop.text, sizeof launcher->stop.text, "%s", text);
    launcher->start_us = launcher->failure_us = 0;
    launcher->kill_us = launcher_after(launcher, LAUNCHER_STOP_WAIT_MS);
    send_stop(launcher);
}

/* ---- Starting ---- */

/* Seconds that the nodes have to join. */
static double start_timeout(const struct launcher *launcher) {
    double least = fmax(launcher->options->job->failure_timeout, LAUNCHER_START_MIN_S);
    return least + (double)launcher->node_count / LAUNCHER_STARTS_PER_S;
}

static void start_check(struct launcher *launcher) {
    const struct launcher_options *options = launcher->options;
    struct arguments arguments = {0};
    for (int a = 0; a < options->app_count; a++) {
        arguments_add(&arguments, "%s", options->app[a]);
    }
    arguments_add(&arguments, "--check");
    if (process_start(&launcher->check, options->app_path, &arguments, -1, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    arguments_close(&arguments);
}

static void add_net_arguments(const struct launcher *launcher, struct arguments *arguments) {
    if (launcher->options->job->key != NULL) {
        arguments_add(arguments, "--key=%s", launcher->options->job->key);
    }
    if (launcher->options->job->insecure) {
        arguments_add(arguments, "--insecure");
    }
}

static void start_node(struct launcher *launcher, unsigned index, const char *endpoint) {
    const struct launcher_options *options = launcher->options;
    struct arguments arguments = {0};
    for (int a = 0; a < options->app_count; a++) {
        arguments_add(&arguments, "%s", options->app[a]);
    }
    arguments_add(&arguments, "--controller=%s", endpoint);
    arguments_add(&arguments, "--tier=%s", index < launcher->reliable ? "reliable" : "transient");
    arguments_add(&arguments, "--name=node-%u", index + 1);
    arguments_add(&arguments, "--threads=%lld", (long long)options->threads);
    arguments_add(&arguments, "--listen=%s", options->host);
    arguments_add(&arguments, "--supervised"); /* the controller hears of errors: no need to print them too */
    add_net_arguments(launcher, &arguments);
    if (process_start(&launcher->nodes[index], options->app_path, &arguments, -1, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    arguments_close(&arguments);
}

static void launcher_start_nodes(struct launcher *launcher, const char *endpoint) {
    if (net_io_connect(launcher->io, ACTOR_CONTROLLER, endpoint, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    launcher->phase = LAUNCHER_JOB;
    launcher->start_us = launcher_now(launcher) + (uint64_t)(start_timeout(launcher) * 1e6);
    send_observe(launcher);
    for (unsigned n = 0; n < launcher->node_count && launcher->phase == LAUNCHER_JOB; n++) {
        start_node(launcher, n, endpoint);
    }
}

static void close_ready(struct launcher *launcher) {
    if (launcher->ready_fd >= 0) {
        net_io_watch(launcher->io, launcher->ready_fd, NULL, NULL);
        close(launcher->ready_fd);
        launcher->ready_fd = -1;
    }
}

/* The controller writes where it listens, one line, or ends. */
static void launcher_ready(void *context) {
    struct launcher *launcher = context;
    char *end = launcher->ready + launcher->ready_size;
    ssize_t size = read(launcher->ready_fd, end, sizeof launcher->ready - 1 - launcher->ready_size);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    launcher->ready_size += size > 0 ? (size_t)size : 0;
    char *newline = memchr(launcher->ready, '\n', launcher->ready_size);
    if (newline != NULL) {
        *newline = '\0';
        close_ready(launcher);
        if (launcher->phase == LAUNCHER_START) {
            launcher_start_nodes(launcher, launcher->ready);
        }
    } else if (size <= 0 || launcher->ready_size == sizeof launcher->ready - 1) {
        close_ready(launcher); /* it has ended, or will soon: that is told by SIGCHLD */
    }
}

static void launcher_start_controller(struct launcher *launcher) {
    const struct job_options *job = launcher->options->job;
    struct arguments arguments = {0};
    char path[PATH_MAX];
    int ready[2];
    launcher->phase = LAUNCHER_START;
    if (process_self(path, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    if (pipe2(ready, O_CLOEXEC | O_NONBLOCK) != 0) {
        launcher_fail(launcher, AML_EFAIL, "can't make a pipe: %s", strerror(errno));
        return;
    }
    arguments_add(&arguments, "proteus");
    arguments_add(&arguments, "controller");
    arguments_add(&arguments, "--listen=tcp://%s:0", launcher->options->host);
    arguments_add(&arguments, "--reliable=%lld", (long long)job->reliable);
    arguments_add(&arguments, "--transient=%lld", (long long)job->transient);
    arguments_add(&arguments, "--partitions=%lld", (long long)job->partitions);
    arguments_add(&arguments, "--stage=%s", job->stage);
    arguments_add(&arguments, "--failure-timeout=%.17g", job->failure_timeout);
    /* We know the missing nodes' names, and should be the first to tell. */
    arguments_add(&arguments, "--start-timeout=%.17g", start_timeout(launcher) + LAUNCHER_START_MIN_S);
    arguments_add(&arguments, "--ready-fd=%d", ready[1]);
    add_net_arguments(launcher, &arguments);
    launcher->ready_fd = ready[0];
    if (process_start(&launcher->controller, path, &arguments, ready[1], &launcher->error) != 0) {
        launcher_kill_all(launcher);
    } else if (net_io_watch(launcher->io, ready[0], launcher_ready, launcher) != 0) {
        launcher_fail(launcher, AML_EFAIL, "can't wait for the controller");
    }
    close(ready[1]);
    arguments_close(&arguments);
}

/* ---- Events ---- */

/* "node-1 to node-N" are in the order of their start: the last ones of a tier go first. */
static void signal_tier(const struct launcher *launcher, const struct event *event, int number) {
    unsigned first = event->tier == TIER_RELIABLE ? 0 : launcher->reliable;
    unsigned end = event->tier == TIER_RELIABLE ? launcher->reliable : launcher->node_count;
    unsigned left = event->count == 0 ? end - first : event->count;
    for (unsigned n = end; n-- > first && left > 0;) {
        if (launcher->nodes[n].running) {
            process_signal(&launcher->nodes[n], number);
            left--;
        }
    }
}

static void carry_out(struct launcher *launcher, const struct event *event) {
    int number = event->action == EVENT_PAUSE ? SIGSTOP : event->action == EVENT_RESUME ? SIGCONT : SIGKILL;
    progress_note(launcher->progress, "event: %s", event->text);
    switch (event->target) {
    case EVENT_CONTROLLER:
        process_signal(&launcher->controller, number);
        break;
    case EVENT_TIER:
        signal_tier(launcher, event, number);
        break;
    case EVENT_NODES:
        for (size_t n = 0; n < event->node_count; n++) {
            process_signal(&launcher->nodes[event->nodes[n] - 1], number);
        }
        break;
    }
}

/* Carries out what is due, and returns when the next one is; 0: none whose time is known. */
static uint64_t launcher_run_events(struct launcher *launcher) {
    uint64_t next_us = 0;
    for (size_t e = 0; e < launcher->events->count && launcher->phase == LAUNCHER_JOB; e++) {
        struct event *event = &launcher->events->list[e];
        if (event->done || (event->by_seconds && launcher->training_us == 0)) {
            continue;
        }
        uint64_t at_us = launcher->training_us + (uint64_t)(event->seconds * 1e6);
        event->done = event->by_seconds ? launcher_now(launcher) >= at_us : launcher->iteration >= event->iteration;
        if (event->done) {
            carry_out(launcher, event);
        } else if (event->by_seconds && (next_us == 0 || at_us < next_us)) {
            next_us = at_us;
        }
    }
    return next_us;
}

/* ---- The report ---- */

static void read_summary(struct launcher *launcher, const json_t *line) {
    const char *text = json_string_value(json_object_get(line, "error"));
    const json_t *status = json_object_get(line, "status");
    launcher->summary = true;
    launcher->phase = LAUNCHER_END;
    launcher->start_us = launcher->failure_us = launcher->silence_us = 0;
    bool ok = json_is_true(json_object_get(line, "ok"));
    launcher->kill_us = launcher_after(launcher, ok ? LAUNCHER_END_WAIT_MS : LAUNCHER_ABORT_WAIT_MS);
    if (!ok) {
        launcher->status = json_integer_value(status) == 2 ? 2 : 1;
        error_set(&launcher->error, AML_EFAIL, "%s", text != NULL ? text : "the job failed");
    }
}

static void read_join(struct launcher *launcher, const json_t *line) {
    const char *name = json_string_value(json_array_get(json_object_get(line, "nodes"), 0));
    unsigned number;
    if (name != NULL && sscanf(name, "node-%u", &number) == 1 && number >= 1 && number <= launcher->node_count &&
        !launcher->joined[number - 1]) {
        launcher->joined[number - 1] = true;
        launcher->joined_count++;
    }
    if (launcher->joined_count == launcher->node_count) {
        launcher->start_us = 0;
    }
}

static void read_line(struct launcher *launcher, json_t *line) {
    const char *type = json_string_value(json_object_get(line, "type"));
    const char *event = json_string_value(json_object_get(line, "event"));
    const json_t *iteration = json_object_get(line, "iteration");
    if (type == NULL) {
        return;
    }
    bool progressed = strcmp(type, "clock") == 0 || strcmp(type, "iteration") == 0;
    if (launcher->training_us == 0 && (progressed || (event != NULL && strcmp(event, "start") == 0))) {
        double seconds = json_number_value(json_object_get(line, "seconds"));
        launcher->training_us = launcher_now(launcher) - (uint64_t)(fmax(seconds, 0) * 1e6);
    }
    if (strcmp(type, "iteration") == 0 && json_is_integer(iteration)) {
        launcher->iteration = (uint64_t)json_integer_value(iteration);
        json_decref(launcher->iteration_line);
        launcher->iteration_line = json_incref(line);
    } else if (event != NULL && strcmp(event, "join") == 0) {
        read_join(launcher, line);
    } else if (strcmp(type, "summary") == 0) {
        read_summary(launcher, line);
    }
}

/* The report's last line, when the controller could not write it: as much as we know. */
static void write_summary(struct launcher *launcher, int status) {
    static const char *const not_of_the_job[] = {"iteration",        "clock",      "items",
                                                 "items_per_second", "bytes_sent", "bytes_received"};
    const json_t *last = launcher->iteration_line;
    json_t *line = json_pack("{s:s, s:I, s:I, s:f}", "type", "summary", "iterations", (json_int_t)launcher->iteration,
                             "clocks", json_integer_value(json_object_get(last, "clock")), "seconds",
                             json_number_value(json_object_get(last, "seconds")));
    json_t *metrics = json_copy(launcher->iteration_line);
    for (size_t k = 0; k < sizeof not_of_the_job / sizeof *not_of_the_job; k++) {
        json_object_del(metrics, not_of_the_job[k]);
    }
    json_object_update_missing(line, metrics);
    json_object_set_new(line, "ok", json_false());
    json_object_set_new(line, "status", json_integer(status));
    json_t *text = json_string(launcher->error.text);
    json_object_set_new(line, "error", text != NULL ? text : json_string("(not text)"));
    char *bytes = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (bytes == NULL) {
        memory_exhausted(0);
    }
    report_file_write(launcher->report, bytes, strlen(bytes));
    free(bytes);
    json_decref(metrics);
    json_decref(line);
}

static void launcher_settle(struct launcher *launcher);

static void launcher_receive(void *self, actor_id from, struct message *message) {
    struct launcher *launcher = self;
    if (from != ACTOR_CONTROLLER || message->type != MESSAGE_REPORT || launcher->summary) {
        return;
    }
    uint64_t number = message->report.number;
    if (number != launcher->lines_read && (number < launcher->lines_read || number != message->report.oldest)) {
        return; /* what we have already, or what is beyond a gap that can be closed: we ask for what we lack */
    }
    const char *text = (const char *)message->frames[0]->data;
    json_t *line = json_loadb(text, message->frames[0]->size, 0, NULL);
    if (line == NULL) {
        launcher_fail(launcher, AML_EPROTOCOL, "the controller sent a report that is not JSON");
        return;
    }
    launcher->lines_read = number + 1;
    report_file_write(launcher->report, text, message->frames[0]->size);
    progress_report(launcher->progress, line);
    read_line(launcher, line);
    json_decref(line);
    if (launcher->summary || launcher->lines_read - launcher->lines_asked >= CONTROLLER_BURST_MAX) {
        send_observe(launcher); /* the controller waits to hear that we have them */
    }
    launcher_settle(launcher);
}

/* ---- Children that end ---- */

static void check_ended(struct launcher *launcher) {
    char end[PROCESS_END_TEXT];
    process_describe_end(&launcher->check, end);
    if (launcher->phase != LAUNCHER_CHECK) {
        return;
    }
    if (process_succeeded(&launcher->check)) {
        launcher_start_controller(launcher);
    } else if (WIFEXITED(launcher->check.status)) {
        launcher->status = WEXITSTATUS(launcher->check.status); /* it has said why */
        launcher->phase = LAUNCHER_END;
    } else {
        launcher_fail(launcher, AML_EFAIL, "'%.200s --check' %s", launcher->options->app[0], end);
    }
}

static void controller_ended(struct launcher *launcher) {
    char end[PROCESS_END_TEXT];
    int status = launcher->controller.status;
    process_describe_end(&launcher->controller, end);
    if (launcher->phase == LAUNCHER_START && WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        launcher->status = WEXITSTATUS(status); /* it has said why */
        launcher->phase = LAUNCHER_END;
    } else if (launcher->phase == LAUNCHER_JOB && WIFEXITED(status)) {
        launcher->silence_us = launcher_after(launcher, LAUNCHER_SUMMARY_WAIT_MS);
    } else if (launcher->phase == LAUNCHER_START || launcher->phase == LAUNCHER_JOB) {
        launcher_fail(launcher, AML_EFAIL, "the controller %s", end);
    }
}

static void node_ended(struct launcher *launcher) {
    if (launcher->phase == LAUNCHER_JOB && launcher->failure_us == 0 && launcher->stop.code == 0) {
        launcher->failure_us = launcher_after(launcher, LAUNCHER_FAILURE_WAIT_MS);
    }
}

static void launcher_reap(struct launcher *launcher) {
    if (process_ended(&launcher->check)) {
        check_ended(launcher);
    }
    for (unsigned n = 0; n < launcher->node_count; n++) {
        if (process_ended(&launcher->nodes[n])) {
            node_ended(launcher);
        }
    }
    if (process_ended(&launcher->controller)) {
        controller_ended(launcher);
    }
}

/* "node-2 was killed by signal 9 (Killed), node-3 ended with exit status 1" for the nodes that didn't end well;
 * all that ended when `any`. False when there are none. */
static bool describe_nodes(const struct launcher *launcher, bool any, char *text, size_t size) {
    unsigned count = 0;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned n = 0; n < launcher->node_count; n++) {
        const struct process *node = &launcher->nodes[n];
        if (node->running || node->pid == 0 || (!any && process_succeeded(node))) {
            continue;
        }
        char end[PROCESS_END_TEXT];
        process_describe_end(node, end);
        if (count++ < LAUNCHER_NAMED_MAX) {
            used += (size_t)snprintf(text + used, size - used, "%snode-%u %s", used > 0 ? ", " : "", n + 1, end);
        }
    }
    if (count > LAUNCHER_NAMED_MAX) {
        snprintf(text + used, size - used, ", and %u more", count - LAUNCHER_NAMED_MAX);
    }
    return count > 0;
}

/* The nodes' ends become the job's. One that ended with exit status 2 was given what it can't use. */
static void stop_for_nodes(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT];
    char reason[LAUNCHER_REASON_TEXT];
    int code = AML_EFAIL;
    bool strangers = true;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        const struct process *node = &launcher->nodes[n];
        bool refused = node->pid != 0 && !node->running && WIFEXITED(node->status) && WEXITSTATUS(node->status) == 2;
        code = refused ? AML_EINPUT : code;
        strangers = strangers && (node->running || (process_succeeded(node) && !launcher->joined[n]));
    }
    describe_nodes(launcher, true, text, sizeof text);
    if (strangers) { /* what calls aml_main joins, or says why it doesn't */
        snprintf(reason, sizeof reason, "%s and never joined the job: is '%.100s' an app?", text,
                 launcher->options->app[0]);
    } else {
        snprintf(reason, sizeof reason, "%s before the job was over", text);
    }
    launcher_stop(launcher, code, reason);
}

static void stop_for_missing(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT] = "";
    char reason[LAUNCHER_REASON_TEXT];
    size_t used = 0;
    unsigned count = 0;
    for (unsigned n = 0; n < launcher->node_count; n++) {
        if (!launcher->joined[n] && count++ < LAUNCHER_NAMED_MAX) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%snode-%u", used > 0 ? ", " : "", n + 1);
        }
    }
    if (count > LAUNCHER_NAMED_MAX) {
        snprintf(text + used, sizeof text - used, " and %u more", count - LAUNCHER_NAMED_MAX);
    }
    snprintf(reason, sizeof reason, "after %.0f s %s %s not joined", start_timeout(launcher), text,
             count == 1 ? "has" : "have");
    launcher_stop(launcher, AML_EFAIL, reason);
}

/* ---- Signals ---- */

static void launcher_interrupt(struct launcher *launcher, int number) {
    char text[64];
    snprintf(text, sizeof text, "interrupted by SIG%s", sigabbrev_np(number));
    if (launcher->signals++ == 0 && launcher->phase == LAUNCHER_JOB) {
        launcher_stop(launcher, AML_ESTOP, text);
    } else {
        launcher_fail(launcher, AML_ESTOP, "%s", text);
    }
}

/* Ctrl-Z stops the whole job, and what is due waits for as long. */
static void launcher_suspend(struct launcher *launcher) {
    uint64_t *const times[] = {&launcher->start_us, &launcher->failure_us, &launcher->silence_us, &launcher->kill_us};
    uint64_t began_us = launcher_now(launcher);
    progress_clear(launcher->progress);
    launcher_signal_all(launcher, SIGSTOP);
    raise(SIGSTOP);
    launcher_signal_all(launcher, SIGCONT);
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        *times[t] += *times[t] != 0 ? launcher_now(launcher) - began_us : 0;
    }
}

static void launcher_signalled(void *context) {
    struct launcher *launcher = context;
    int number;
    while ((number = signals_next(launcher->signal_fd)) != 0) {
        if (number == SIGCHLD) {
            launcher_reap(launcher);
        } else if (number == SIGTSTP) {
            launcher_suspend(launcher);
        } else {
            launcher_interrupt(launcher, number);
        }
    }
    launcher_settle(launcher);
}

/* ---- Time ---- */

static bool is_due(const struct launcher *launcher, uint64_t at_us) {
    return at_us != 0 && launcher_now(launcher) >= at_us;
}

/* Ends each callback: carries out events, sees whether all is over, sets the timer. */
static void launcher_settle(struct launcher *launcher) {
    const uint64_t times[] = {launcher->start_us, launcher->failure_us, launcher->silence_us, launcher->kill_us,
                              launcher_run_events(launcher)};
    uint64_t next_us = launcher_after(launcher, LAUNCHER_OBSERVE_MS);
    for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
        next_us = times[t] != 0 && times[t] < next_us ? times[t] : next_us;
    }
    if (launcher->phase == LAUNCHER_END && !launcher_any_runs(launcher)) {
        net_io_stop(launcher->io);
    }
    struct io *io = net_io_of(launcher->io);
    io->set_timer(io, next_us);
}

static void launcher_timer(void *self) {
    struct launcher *launcher = self;
    if (is_due(launcher, launcher->failure_us)) {
        stop_for_nodes(launcher);
    } else if (is_due(launcher, launcher->start_us)) {
        stop_for_missing(launcher);
    }
    if (is_due(launcher, launcher->silence_us)) {
        char end[PROCESS_END_TEXT];
        process_describe_end(&launcher->controller, end);
        launcher_fail(launcher, AML_EFAIL, "the controller %s before the job's summary came", end);
    }
    if (is_due(launcher, launcher->kill_us)) {
        if (launcher->phase == LAUNCHER_JOB) {
            error_set(&launcher->error, launcher->stop.code, "the controller does not answer; %s", launcher->stop.text);
        }
        launcher_kill_all(launcher);
    }
    if (launcher->controller.running && (launcher->phase == LAUNCHER_JOB || launcher->summary)) {
        send_observe(launcher);
        if (launcher->stop.code != 0 && !launcher->summary) {
            send_stop(launcher);
        }
    }
    launcher_settle(launcher);
}

/* ---- Life cycle ---- */

static void launcher_refused(void *self, const char *endpoint, const char *why) {
    struct launcher *launcher = self;
    launcher_fail(launcher, AML_EFAIL, "the controller at %s: %s", endpoint, why);
    launcher_settle(launcher);
}

static void launcher_warning(void *self, const char *text) {
    struct launcher *launcher = self;
    progress_clear(launcher->progress);
    log_warn("%s", text);
}

static actor_id random_actor(void) {
    actor_id actor = 0;
    while (actor_node(actor) == 0) {
        if (getrandom(&actor, sizeof actor, 0) != sizeof actor) {
            actor = (actor_id)getpid() << ACTOR_PART_BITS;
        }
    }
    return actor_of_part(actor, 0);
}

static int launcher_open(struct launcher *launcher, struct error *error) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP, 0};
    const struct net_io_options io_options = {
        .self = random_actor(),
        .actor = {.receive = launcher_receive, .timer = launcher_timer, .self = launcher},
        .refused = launcher_refused,
        .warning = launcher_warning,
    };
    int result = signals_open(&launcher->signal_fd, numbers, error);
    if (result == 0) {
        result = job_open_net(launcher->options->job, &launcher->net, error);
    }
    if (result == 0) {
        result = net_io_open(&launcher->io, launcher->net, &io_options, error);
    }
    if (result == 0 && net_io_watch(launcher->io, launcher->signal_fd, launcher_signalled, launcher) != 0) {
        result = error_set(error, AML_EFAIL, "can't wait for signals");
    }
    return result;
}

static void launcher_close(struct launcher *launcher) {
    if (launcher->io != NULL) {
        close_ready(launcher);
        net_io_close(launcher->io);
    }
    if (launcher->net != NULL) {
        net_close(launcher->net);
    }
    if (launcher->signal_fd >= 0) {
        close(launcher->signal_fd);
    }
    json_decref(launcher->iteration_line);
    free(launcher->joined);
    free(launcher->nodes);
}

/* After everything has ended. */
static int launcher_verdict(struct launcher *launcher) {
    char text[LAUNCHER_NODES_TEXT];
    if (launcher->status == 0 && launcher->error.code == 0 && describe_nodes(launcher, false, text, sizeof text)) {
        error_set(&launcher->error, AML_EFAIL, "the job was done, but %s", text);
    }
    return launcher->status != 0 ? launcher->status : error_exit_status(launcher->error.code);
}

int launcher_run(const struct launcher_options *options, struct events *events, struct report_file *report,
                 struct progress *progress, struct error *error) {
    struct launcher launcher = {
        .options = options,
        .events = events,
        .report = report,
        .progress = progress,
        .signal_fd = -1,
        .ready_fd = -1,
        .reliable = (unsigned)options->job->reliable,
        .node_count = (unsigned)(options->job->reliable + options->job->transient),
    };
    launcher.nodes = memory_zeroed(launcher.node_count, sizeof *launcher.nodes);
    launcher.joined = memory_zeroed(launcher.node_count, sizeof *launcher.joined);
    if (launcher_open(&launcher, &launcher.error) == 0) {
        start_check(&launcher);
        if (launcher_any_runs(&launcher)) {
            launcher_settle(&launcher);
            net_io_run(launcher.io, &launcher.error);
        }
    }
    int status = launcher_verdict(&launcher);
    if (!launcher.summary && process_succeeded(&launcher.check)) {
        write_summary(&launcher, status);
    }
    progress_clear(progress);
    launcher_close(&launcher);
    *error = launcher.error;
    return status;
}
