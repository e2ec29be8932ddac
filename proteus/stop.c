/* proteus stop: has a job's controller end the job, and waits for the end. */
#include "proteus/answer.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdio.h>

struct stop_call {
    bool now;
    struct report_line *summary; /* NULL until it comes */
};

/* The end may take long. Meanwhile the answers to STATUS show that the controller is alive. */
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
    struct report_line *line = NULL;
    if (observer_take_line(observer, message, &line) && observer->ended) {
        call->summary = report_line_hold(line);
    }
    report_line_drop(line);
    return call->summary != NULL;
}

/* A job ended by --now counts as failed, as requested. */
static int tell_summary(void *context, struct error *error) {
    const struct stop_call *call = context;
    int result = call->now ? 0 : answer_result(call->summary, error);
    if (result != 0) {
        return result;
    }
    double iterations = call->summary->iterations;
    printf("the job has ended after %.0f iteration%s\n", iterations, iterations == 1 ? "" : "s");
    return 0;
}

static const char USAGE[] = "usage: proteus stop --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Ends a running job well: at a clock soon, and the model is saved. Waits for it.\n"
                            "The exit status is the job's: 0, 1 when it failed, 2 for bad input; with --now 0.";

int command_stop(int argc, char **argv) {
    struct stop_call stop = {0};
    const struct aml_option own[] = {
        {"now", NULL, AML_OPTION_FLAG, &stop.now, 0, 0, "end it at once, as failed: nothing is saved"},
        {0},
    };
    const struct operator_call call = {.usage = USAGE,
                                       .own = own,
                                       .lines_from = OBSERVER_AT_END,
                                       .ask = ask_stop,
                                       .answer = take_report,
                                       .tell = tell_summary,
                                       .context = &stop};
    int code = operator_main(&call, argc, argv);
    report_line_drop(stop.summary);
    return code;
}
