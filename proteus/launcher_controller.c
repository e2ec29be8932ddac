/* The launcher's controller: its process, requests to it, and its report. */
#include "proteus/launcher_private.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/controller.h"
#include "agileml/control/report.h"
#include "proteus/answer.h"
#include "proteus/balance_option.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Requests ---- */

static void request(struct launcher *launcher, struct message message, const unsigned *nodes, unsigned count) {
    char(*names)[WIRE_NAME_MAX] = memory_zeroed(count, sizeof *names);
    const char **each = memory_zeroed(count, sizeof *each);
    for (unsigned n = 0; n < count; n++) {
        snprintf(names[n], sizeof names[n], "node-%u", nodes[n] + 1);
        each[n] = names[n];
    }
    observer_request_nodes(&launcher->observer, message, each, count);
    free(each);
    free(names);
}

void launcher_evict(struct launcher *launcher, const unsigned *nodes, unsigned count, double notice) {
    struct message evict = {.type = MESSAGE_EVICT, .evict.notice_ms = (uint32_t)fmin(notice * 1e3, UINT32_MAX)};
    request(launcher, evict, nodes, count);
}

void launcher_gone(struct launcher *launcher, const unsigned *nodes, unsigned count, int signal) {
    struct message gone = {.type = MESSAGE_GONE, .gone.signal = (uint32_t)signal};
    request(launcher, gone, nodes, count);
}

void launcher_remind(struct launcher *launcher) {
    if (!launcher->controller.process.running || (launcher->phase != LAUNCHER_JOB && !launcher->observer.ended)) {
        return;
    }
    observer_ask_lines(&launcher->observer);
    observer_repeat_requests(&launcher->observer);
    if (launcher->stop.code != 0 && !launcher->observer.ended) {
        struct io *io = net_io_of(launcher->io);
        struct message stop = {.type = MESSAGE_STOP, .text = launcher->stop};
        io->send(io, ACTOR_CONTROLLER, &stop);
    }
}

/* ---- Its process ---- */

static void start_job(struct launcher *launcher) {
    const struct job_options *job = launcher->options->job;
    if (net_io_connect(launcher->io, ACTOR_CONTROLLER, launcher->endpoint, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    log_info("controller at %s", launcher->endpoint);
    progress_note(launcher->progress, "controller at %s", launcher->endpoint);
    if (launcher->page[0] != '\0') {
        log_info("page at %s", launcher->page);
        progress_note(launcher->progress, "page at %s", launcher->page);
    }
    launcher->phase = LAUNCHER_JOB;
    observer_ask_lines(&launcher->observer);
    if (launcher->market != NULL) {
        launcher_market_buy(launcher);
        return;
    }
    launcher->start_us = launcher_now(launcher) + (uint64_t)(launcher_start_timeout(launcher) * 1e6);
    launcher_add_nodes(launcher, TIER_RELIABLE, (unsigned)job->reliable);
    launcher_add_nodes(launcher, TIER_TRANSIENT, (unsigned)job->transient);
    launcher_add_nodes(launcher, TIER_FEEDER, (unsigned)launcher->options->feeders);
}

static void controller_ready(void *context, const char *line) {
    struct launcher *launcher = context;
    child_lines_close(&launcher->controller.ready);
    launcher->controller.is_ready = true;
    launcher->controller.lost_us = 0;
    if (launcher->phase == LAUNCHER_START) { /* "ENDPOINT PAGE" */
        size_t size = strcspn(line, " ");
        snprintf(launcher->endpoint, sizeof launcher->endpoint, "%.*s", (int)size, line);
        snprintf(launcher->page, sizeof launcher->page, "%s", line + size + (line[size] == ' ' ? 1 : 0));
        start_job(launcher);
    }
}

static void add_page_arguments(const struct launcher *launcher, struct arguments *arguments) {
    const struct web_options *http = &launcher->options->job->http;
    const char *const files[][2] = {
        {"token", http->token}, {"cert", http->certificate}, {"cert-key", http->key}, {"client-ca", http->client_ca}};
    const char *first = strstr(launcher->page, "://"); /* http://HOST:PORT/ of the first controller */
    if (first != NULL) {
        first += strlen("://");
        arguments_add(arguments, "--http=%.*s", (int)strcspn(first, "/"), first);
    } else if (http->listen != NULL) {
        arguments_add(arguments, "--http=%s", http->listen);
    }
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        if (files[f][1] != NULL) {
            arguments_add(arguments, "--http-%s=%s", files[f][0], files[f][1]);
        }
    }
}

/* A restarted controller listens at the endpoint of the first. */
static void add_controller_arguments(const struct launcher *launcher, struct arguments *arguments) {
    const struct job_options *job = launcher->options->job;
    arguments_add(arguments, "proteus");
    arguments_add(arguments, "controller");
    if (launcher->endpoint[0] != '\0') {
        arguments_add(arguments, "--listen=%s", launcher->endpoint);
    } else {
        arguments_add(arguments, "--listen=tcp://%s:0", launcher->options->host);
    }
    arguments_add(arguments, "--store=%s/store", launcher->folder.path);
    arguments_add(arguments, "--reliable=%lld", (long long)job->reliable);
    arguments_add(arguments, "--transient=%lld", (long long)job->transient);
    arguments_add(arguments, "--partitions=%lld", (long long)job->partitions);
    arguments_add(arguments, "--stage=%s", job->stage);
    arguments_add(arguments, "--threshold-2=%.17g", job->threshold_2);
    arguments_add(arguments, "--threshold-3=%.17g", job->threshold_3);
    arguments_add(arguments, "--commit-every=%lld", (long long)job->commit_every);
    if (job->checkpoint != NULL) {
        arguments_add(arguments, "--checkpoint=%s", job->checkpoint);
        arguments_add(arguments, "--checkpoint-every=%lld", (long long)job->checkpoint_every);
        arguments_add(arguments, job->checkpoint_at_end ? "--checkpoint-at-end" : "--no-checkpoint-at-end");
    }
    if (job->resume != NULL) {
        arguments_add(arguments, "--resume=%s", job->resume);
    }
    arguments_add(arguments, "--balance=%s", job->balance);
    arguments_add(arguments, "--replacements=%lld", (long long)job->replacements);
    if (launcher->options->feeders_max > 0) {
        arguments_add(arguments, "--feeders=auto:%lld", (long long)launcher->options->feeders_max);
        arguments_add(arguments, "--feeder-threads=%lld", (long long)launcher->options->feeder_threads);
    }
    arguments_add(arguments, "--window-short=%.17g", job->window_short);
    arguments_add(arguments, "--window-long=%.17g", job->window_long);
    arguments_add(arguments, "--failure-timeout=%.17g", job->failure_timeout);
    arguments_add(arguments, "--probe=%lld", (long long)job->probe);
    arguments_add(arguments, "--answer-timeout=%.17g", job->answer_timeout);
    /* Longer than this program waits: its message names the missing nodes. It also sees which of them still compute,
     * and waits longer for those; but not for nodes on machines of a market. */
    double longest =
        launcher->market != NULL ? launcher_start_timeout(launcher) + LAUNCHER_START_MIN_S : LAUNCHER_STARTS_MAX_S;
    arguments_add(arguments, "--start-timeout=%.17g", longest);
    launcher_add_net_arguments(launcher, arguments);
    add_page_arguments(launcher, arguments);
}

void launcher_start_controller(struct launcher *launcher) {
    struct arguments arguments = {0};
    char path[PATH_MAX];
    int ready_fd;
    launcher->controller.is_ready = launcher->controller.killed = false;
    launcher->controller.ready.line = controller_ready;
    launcher->controller.ready.context = launcher;
    if (process_self(path, &launcher->error) != 0 ||
        child_lines_open(&launcher->controller.ready, launcher->io, &ready_fd, &launcher->error) != 0) {
        launcher_kill_all(launcher);
        return;
    }
    add_controller_arguments(launcher, &arguments);
    arguments_add(&arguments, "--ready-fd=%d", ready_fd);
    struct process_setting setting = {.inherited_fd = ready_fd, .output_fd = -1};
    if (process_start(&launcher->controller.process, path, &arguments, setting, &launcher->error) != 0) {
        launcher_kill_all(launcher);
    }
    close(ready_fd);
    arguments_close(&arguments);
}

enum { POLICY_TEXT = 256 };

/* Names the policy that the controller may have crashed in: one out of a shared library runs in its process. */
static void describe_policy(const struct launcher *launcher, char text[POLICY_TEXT]) {
    const char *policy = launcher->options->job->balance;
    int status = launcher->controller.process.status;
    bool crashed = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL && WTERMSIG(status) != SIGTERM;
    text[0] = '\0';
    if (crashed && balance_option_is_library(policy)) {
        snprintf(text, POLICY_TEXT, ", perhaps in the policy of --balance %.200s", policy);
    }
}

/* Restarts a controller that was killed, which hardly delays the job. */
static void controller_lost(struct launcher *launcher) {
    char end[PROCESS_END_TEXT];
    process_describe_end(&launcher->controller.process, end);
    char policy[POLICY_TEXT];
    describe_policy(launcher, policy);
    launcher->controller.lost_us = launcher_now(launcher);
    if (launcher->controller.killed && launcher_events_start_controller(launcher)) {
        return;
    }
    if (launcher->controller.killed || launcher->stop.code != 0 || launcher->phase != LAUNCHER_JOB ||
        ++launcher->controller.restarts > LAUNCHER_RESTARTS_MAX) {
        launcher_fail(launcher, AML_EFAIL, "the controller %s%s", end, policy);
        return;
    }
    progress_clear(launcher->progress);
    log_warn("the controller %s%s; starting it again", end, policy);
    launcher_start_controller(launcher);
}

void launcher_controller_ended(struct launcher *launcher) {
    int status = launcher->controller.process.status;
    child_lines_close(&launcher->controller.ready);
    if (launcher->phase != LAUNCHER_START && launcher->phase != LAUNCHER_JOB) {
        return;
    }
    if (!WIFEXITED(status)) {
        controller_lost(launcher);
    } else if (!launcher->controller.is_ready && WEXITSTATUS(status) != 0) {
        launcher->status = WEXITSTATUS(status); /* the controller has printed why */
        launcher_kill_all(launcher);
    } else {
        launcher->silence_us = launcher_after(launcher, LAUNCHER_SUMMARY_WAIT_MS);
    }
}

/* ---- The report ---- */

static void read_summary(struct launcher *launcher, const json_t *line) {
    progress_warn(launcher->progress, line);
    int result = answer_result(line, &launcher->error);
    launcher->phase = LAUNCHER_END;
    launcher->start_us = launcher->silence_us = 0;
    launcher_end_others(launcher);
    launcher->kill_us = launcher_after(launcher, result == 0 ? LAUNCHER_END_WAIT_MS : LAUNCHER_ABORT_WAIT_MS);
    if (result != 0) {
        launcher->status = error_exit_status(result);
    }
    if (launcher->market != NULL) {
        launcher_market_finish(launcher);
    }
}

/* Calls `call` for each node that an event names. */
static void each_node(struct launcher *launcher, const json_t *names,
                      void (*call)(struct launcher *launcher, const char *name)) {
    for (size_t n = 0; n < json_array_size(names); n++) {
        const char *name = json_string_value(json_array_get(names, n));
        if (name != NULL) {
            call(launcher, name);
        }
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
    if (launcher->training.began_us == 0 && (progressed || (event != NULL && strcmp(event, "start") == 0))) {
        double seconds = json_number_value(json_object_get(line, "seconds"));
        launcher->training.began_us = launcher_now(launcher) - (uint64_t)(fmax(seconds, 0) * 1e6);
    }
    if (strcmp(type, "iteration") == 0 && json_is_integer(iteration)) {
        const json_t *before = json_object_get(launcher->training.line, "seconds");
        double lasted = json_number_value(json_object_get(line, "seconds")) - json_number_value(before);
        launcher->training.pace = before != NULL && lasted > 0 ? lasted : launcher->training.pace;
        launcher->training.iteration = (uint64_t)json_integer_value(iteration);
        json_decref(launcher->training.line);
        launcher->training.line = json_incref(line);
    } else if (event != NULL && strcmp(event, "join") == 0) {
        each_node(launcher, json_object_get(line, "nodes"), launcher_node_joined);
    } else if (event != NULL && strcmp(event, "refused") == 0) {
        each_node(launcher, json_object_get(line, "nodes"), launcher_node_refused);
    } else if (event != NULL && strcmp(event, "replace") == 0) {
        each_node(launcher, json_object_get(line, "nodes"), launcher_node_replaced);
    } else if (event != NULL && strcmp(event, "add-feeder") == 0) {
        launcher_add_feeder(launcher);
    } else if (event != NULL && strcmp(event, "failure") == 0) {
        each_node(launcher, json_object_get(line, "nodes"), launcher_node_given_up);
    } else if (strcmp(type, "summary") == 0) {
        read_summary(launcher, line);
    }
}

static void write_line(struct launcher *launcher, const json_t *line) {
    char *text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text == NULL) {
        memory_exhausted(0);
    }
    report_file_write(launcher->report, text, strlen(text));
    progress_write(launcher->progress, text, strlen(text));
    free(text);
}

void launcher_show(struct launcher *launcher, const json_t *line) {
    write_line(launcher, line);
    progress_report(launcher->progress, line);
}

struct missed {
    struct launcher *launcher;
    double seconds; /* length of the job */
};

static void report_missed_event(void *context, const char *event) {
    const struct missed *missed = context;
    json_t *line = json_pack("{s:s, s:s, s:[], s:I, s:f, s:o}", "type", "event", "event", "missed", "nodes",
                             "iteration", (json_int_t)missed->launcher->training.iteration, "seconds", missed->seconds,
                             "reason", report_text(event));
    write_line(missed->launcher, line);
    json_decref(line);
}

/* Writes events that were not due before the job's end into the report; launcher_run warns of them. */
static void report_missed_events(struct launcher *launcher, const json_t *summary) {
    struct missed missed = {launcher, json_number_value(json_object_get(summary, "seconds"))};
    launcher_visit_missed(launcher, report_missed_event, &missed);
}

void launcher_write_summary(struct launcher *launcher, int status) {
    static const char *const not_of_the_job[] = {"iteration",  "clock",          "items",    "items_per_second",
                                                 "bytes_sent", "bytes_received", "imbalance"};
    const json_t *last = launcher->training.line;
    json_t *line =
        json_pack("{s:s, s:I, s:I, s:f}", "type", "summary", "iterations", (json_int_t)launcher->training.iteration,
                  "clocks", json_integer_value(json_object_get(last, "clock")), "seconds",
                  json_number_value(json_object_get(last, "seconds")));
    json_t *metrics = json_copy(launcher->training.line);
    for (size_t k = 0; k < sizeof not_of_the_job / sizeof *not_of_the_job; k++) {
        json_object_del(metrics, not_of_the_job[k]);
    }
    json_object_update_missing(line, metrics);
    json_object_set_new(line, "ok", json_false());
    json_object_set_new(line, "status", json_integer(status));
    json_object_set_new(line, "error", report_text(launcher->error.text));
    report_missed_events(launcher, line);
    launcher_show(launcher, line);
    json_decref(metrics);
    json_decref(line);
}

/* Notes what the controller refuses. Ignores answers to GONE, whose node the controller may no longer know. */
static void receive_outcome(const struct launcher *launcher, const struct message_outcome *outcome,
                            struct message *request) {
    if (outcome->code != 0 && request->type == MESSAGE_EVICT) {
        progress_note(launcher->progress, "the controller refuses: %s", outcome->text);
    } else if (outcome->text[0] != '\0' && request->type == MESSAGE_EVICT) {
        progress_note(launcher->progress, "%s: evicting the others", outcome->text);
    }
    message_close(request);
}

static void receive_line(struct launcher *launcher, const struct buffer *text, json_t *line) {
    if (line == NULL) {
        launcher_fail(launcher, AML_EPROTOCOL, "the controller sent a report that is not JSON");
        return;
    }
    if (launcher->observer.ended) {
        report_missed_events(launcher, line);
    }
    if (launcher->market == NULL || !launcher_market_holds(launcher, line)) {
        report_file_write(launcher->report, (const char *)text->data, text->size);
        progress_write(launcher->progress, (const char *)text->data, text->size);
        progress_report(launcher->progress, line);
    }
    read_line(launcher, line);
    json_decref(line);
    launcher_settle(launcher);
}

void launcher_receive(void *self, actor_id from, struct message *message) {
    struct launcher *launcher = self;
    struct message request;
    json_t *line;
    if (from != ACTOR_CONTROLLER) {
        return;
    }
    if (observer_take_outcome(&launcher->observer, message, &request)) {
        receive_outcome(launcher, &message->outcome, &request);
    } else if (observer_take_line(&launcher->observer, message, &line)) {
        receive_line(launcher, message->frames[RECORDS_FRAME], line);
    } else if (message->type == MESSAGE_ABORT && !launcher->observer.ended) {
        launcher_fail(launcher, message->text.code, "%s", message->text.text);
    }
}
