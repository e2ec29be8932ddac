/* Reads the job's report line by line from the controller. Writes the last line if the controller could not. */
#include "proteus/launcher_private.h"

#include "agileml/control/state/report.h"
#include "proteus/answer.h"

#include <math.h>
#include <string.h>

static void read_summary(struct launcher *launcher, const json_t *line) {
    progress_warn(launcher->progress, line);
    int result = answer_result(line, &launcher->error);
    launcher_set_phase(launcher, LAUNCHER_END);
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

/* Calls `call` for each node named in an event. */
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

struct missed {
    struct launcher *launcher;
    double seconds; /* length of the job */
};

static void report_missed_event(void *context, const char *event) {
    const struct missed *missed = context;
    json_t *line = json_pack("{s:s, s:s, s:[], s:I, s:f, s:o}", "type", "event", "event", "missed", "nodes",
                             "iteration", (json_int_t)missed->launcher->training.iteration, "seconds", missed->seconds,
                             "reason", report_text(event));
    launcher_write_line(missed->launcher, line);
    json_decref(line);
}

/* Writes events that were not due before the job's end into the report; launcher_run warns about them. */
static void report_missed_events(struct launcher *launcher, const json_t *summary) {
    struct missed missed = {launcher, json_number_value(json_object_get(summary, "seconds"))};
    events_visit_missed(missed.launcher->events, report_missed_event, &missed);
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

/* Handles rejections by the controller. Ignores answers to GONE: the controller may no longer know the node. */
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
}

void launcher_receive(struct launcher *launcher, actor_id from, struct message *message) {
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
