/* Reads the job's report line by line from the controller. Writes the last line if the controller could not. */
#include "proteus/launcher_private.h"

#include "agileml/wire/records.h"
#include "agileml/wire/report_line.h"
#include "proteus/answer.h"

#include <math.h>
#include <string.h>

static void read_summary(struct launcher *launcher, const struct report_line *line) {
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

static void read_iteration(struct launcher *launcher, const struct report_line *line) {
    struct launched_training *training = &launcher->training;
    double lasted = training->line != NULL ? line->seconds - training->line->seconds : 0;
    training->pace = lasted > 0 ? lasted : training->pace;
    training->iteration = (uint64_t)fmax(line->iteration, 0);
    report_line_drop(training->line);
    training->line = report_line_hold(line);
}

/* Calls `call` for each node named in an event. */
static void each_node(struct launcher *launcher, const struct report_line *event,
                      void (*call)(struct launcher *launcher, const char *name)) {
    for (size_t n = 0; n < event->nodes.count; n++) {
        if (event->nodes.list[n].name != NULL) {
            call(launcher, event->nodes.list[n].name);
        }
    }
}

static void read_event(struct launcher *launcher, const struct report_line *line) {
    switch (line->happened) {
    case HAPPENED_JOIN:
        each_node(launcher, line, launcher_node_joined);
        break;
    case HAPPENED_REFUSED:
        each_node(launcher, line, launcher_node_refused);
        break;
    case HAPPENED_REPLACE:
        each_node(launcher, line, launcher_node_replaced);
        break;
    case HAPPENED_ADD_FEEDER:
        launcher_add_feeder(launcher);
        break;
    case HAPPENED_FAILURE:
        each_node(launcher, line, launcher_node_given_up);
        break;
    default:
        break;
    }
}

static void read_line(struct launcher *launcher, const struct report_line *line) {
    bool trains = line->is == REPORT_CLOCK || line->is == REPORT_ITERATION || line->happened == HAPPENED_START;
    if (launcher->training.began_us == 0 && trains) {
        launcher->training.began_us = launcher_now(launcher) - (uint64_t)(fmax(line->seconds, 0) * 1e6);
    }
    if (line->is == REPORT_ITERATION && !isnan(line->iteration)) {
        read_iteration(launcher, line);
    } else if (line->is == REPORT_EVENT) {
        read_event(launcher, line);
    } else if (line->is == REPORT_SUMMARY) {
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
}

/* Writes events that were not due before the job's end into the report; launcher_run warns about them. */
static void report_missed_events(struct launcher *launcher, double seconds) {
    struct missed missed = {launcher, seconds};
    events_visit_missed(missed.launcher->events, report_missed_event, &missed);
}

void launcher_write_summary(struct launcher *launcher, int status) {
    static const char *const not_of_the_job[] = {"iteration",  "clock",          "items",     "items_per_second",
                                                 "bytes_sent", "bytes_received", "imbalance", "items_fed",
                                                 "feed_wait_seconds"};
    const struct report_line *last = launcher->training.line;
    double seconds = last != NULL ? fmax(last->seconds, 0) : 0;
    json_t *line =
        json_pack("{s:s, s:I, s:I, s:f}", "type", "summary", "iterations", (json_int_t)launcher->training.iteration,
                  "clocks", (json_int_t)(last != NULL ? fmax(last->clock, 0) : 0), "seconds", seconds);
    json_t *metrics = last != NULL ? json_copy(last->json) : json_object();
    for (size_t k = 0; k < sizeof not_of_the_job / sizeof *not_of_the_job; k++) {
        json_object_del(metrics, not_of_the_job[k]);
    }
    json_object_update_missing(line, metrics);
    json_object_set_new(line, "ok", json_false());
    json_object_set_new(line, "status", json_integer(status));
    json_object_set_new(line, "error", report_text(launcher->error.text));
    report_missed_events(launcher, seconds);
    launcher_show(launcher, line);
    json_decref(metrics);
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

static void receive_line(struct launcher *launcher, const struct buffer *text, struct report_line *line) {
    if (line == NULL) {
        launcher_fail(launcher, AML_EPROTOCOL, "the controller sent a report that is not JSON");
        return;
    }
    if (launcher->observer.ended) {
        report_missed_events(launcher, fmax(line->seconds, 0));
    }
    if (launcher->market == NULL || !launcher_market_holds(launcher, line)) {
        report_file_write(launcher->report, (const char *)text->data, text->size);
        progress_write(launcher->progress, (const char *)text->data, text->size);
        progress_report(launcher->progress, line);
    }
    read_line(launcher, line);
    report_line_drop(line);
}

void launcher_receive(struct launcher *launcher, actor_id from, struct message *message) {
    struct message request;
    struct report_line *line;
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
