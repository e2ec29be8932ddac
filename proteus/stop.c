/* proteus stop: has a job's controller end the job, and waits for that. */
#include "agileml/base/log.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdio.h>

struct stop_call {
    bool now;
    json_t *summary; /* NULL: has not come yet */
};

/* STATUS only has the controller say that it is there: the end may take long. */
static void ask_stop(void *context, struct observer *observer) {
    const struct stop_call *call = context;
    struct message stop = {.type = MESSAGE_STOP, .text = {.code = call->now ? AML_ESTOP : 0}};
    snprintf(stop.text.text, sizeof stop.text.text, "stopped by 'proteus stop'");
    observer_ask_lines(observer);
    observer->io->send(observer->io, ACTOR_CONTROLLER, &stop);
    observer_ask_status(observer, 0);
}

static bool take_report(void *context, struct observer *observer, const struct message *message) {
    struct stop_call *call = context;
    json_t *line = NULL;
    if (observer_take_line(observer, message, &line) && observer->ended) {
        call->summary = json_incref(line);
    }
    json_decref(line);
    return call->summary != NULL;
}

/* The job's end is as asked, or its own. */
static int tell_summary(const struct stop_call *call, struct error *error) {
    bool ok = json_is_true(json_object_get(call->summary, "ok"));
    const char *text = json_string_value(json_object_get(call->summary, "error"));
    if (!ok && !call->now) {
        return error_set(error, AML_EFAIL, "%s", text != NULL ? text : "the job failed");
    }
    long long iterations = json_integer_value(json_object_get(call->summary, "iterations"));
    printf("the job has ended after %lld iteration%s\n", iterations, iterations == 1 ? "" : "s");
    return 0;
}

static const char USAGE[] = "usage: proteus stop --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Ends a running job well: at a clock soon, and the model is saved. Waits for it.\n\n";

int command_stop(int argc, char **argv) {
    struct operator_options options = {0};
    struct stop_call stop = {0};
    const struct operator_call call = {
        .lines_from = OBSERVER_AT_END, /* only the end is wanted */
        .ask = ask_stop,
        .answer = take_report,
        .context = &stop,
    };
    const struct aml_option own[] = {
        {"now", NULL, AML_OPTION_FLAG, &stop.now, 0, 0, "end it at once, as failed: nothing is saved"},
        {0},
    };
    struct error error = {0};
    int result = operator_parse(&options, USAGE, own, argc, argv, NULL, &error);
    if (result > 0) {
        return 0;
    }
    if (result == 0) {
        result = operator_run(&options, &call, &error);
    }
    if (result == 0) {
        result = tell_summary(&stop, &error);
    }
    if (result != 0) {
        log_error("%s", error.text);
    }
    json_decref(stop.summary);
    return error_exit_status(result);
}
