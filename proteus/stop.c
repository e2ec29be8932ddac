/* proteus stop: has a job's controller end the job, and waits for that. */
#include "agileml/base/log.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct stop_call {
    bool now;
    uint64_t lines_read; /* of the report; at first more than it can have: only what comes is wanted */
    json_t *summary;     /* NULL: has not come yet */
};

static void observe(const struct stop_call *call, struct io *io) {
    struct message message = {.type = MESSAGE_OBSERVE, .observe = {.from = call->lines_read}};
    io->send(io, ACTOR_CONTROLLER, &message);
}

/* STATUS only has the controller say that it is there: the end may take long. */
static void ask_stop(void *context, struct io *io) {
    const struct stop_call *call = context;
    struct message stop = {.type = MESSAGE_STOP, .text = {.code = call->now ? AML_ESTOP : 0}};
    struct message status = {.type = MESSAGE_STATUS, .frame_count = 1, .frames = {buffer_new(0)}};
    snprintf(stop.text.text, sizeof stop.text.text, "stopped by 'proteus stop'");
    observe(call, io);
    io->send(io, ACTOR_CONTROLLER, &stop);
    io->send(io, ACTOR_CONTROLLER, &status);
}

static bool take_report(void *context, struct io *io, const struct message *message) {
    struct stop_call *call = context;
    if (message->type != MESSAGE_REPORT) {
        return false;
    }
    json_t *line = json_loadb((const char *)message->frames[0]->data, message->frames[0]->size, 0, NULL);
    const char *type = json_string_value(json_object_get(line, "type"));
    bool over = type != NULL && strcmp(type, "summary") == 0;
    call->lines_read = message->report.number + 1;
    if (over) {
        observe(call, io); /* the controller waits to hear that we have it */
        call->summary = json_incref(line);
    }
    json_decref(line);
    return over;
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
    struct stop_call stop = {.lines_read = UINT64_MAX};
    const struct operator_call call = {.ask = ask_stop, .answer = take_report, .context = &stop};
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
