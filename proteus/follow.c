/* proteus follow: prints the report of a running job, line by line, until the job ends. */
#include "proteus/answer.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdio.h>

enum {
    FOLLOW_CONNECT_MS = 30 * 1000,   /* by default nodes wait as long for a controller */
    FOLLOW_PATIENCE_MS = 300 * 1000, /* patience with a controller that is restarted: by default nodes wait as long */
};

struct follow_call {
    bool heard;      /* the controller has answered */
    bool leaving;    /* the job has ended; the controller only waits until its report has been read */
    struct report_line *summary; /* NULL until it comes */
};

static void ask_lines(void *context, struct observer *observer) {
    (void)context;
    observer_ask_lines(observer);
    observer_ask_status(observer, 0); /* the answer shows that a silent controller runs */
}

static bool take_lines(void *context, struct observer *observer, const struct message *message) {
    struct follow_call *call = context;
    struct report_line *line = NULL;
    call->heard = true;
    if (message->type == MESSAGE_STATUS) {
        struct report_line *status = observer_status(message);
        call->leaving = answer_job_is_over(status);
        report_line_drop(status);
    }
    if (observer_take_line(observer, message, &line) && line != NULL) {
        answer_print(stdout, line);
    }
    if (observer->ended) {
        call->summary = report_line_hold(line);
    }
    report_line_drop(line);
    return observer->ended;
}

static bool bear_silence(void *context, unsigned silent_ms) {
    const struct follow_call *call = context;
    unsigned patience_ms = call->heard ? FOLLOW_PATIENCE_MS : FOLLOW_CONNECT_MS;
    return silent_ms < (call->leaving ? (unsigned)OPERATOR_SILENCE_MS : patience_ms);
}

static int tell_end(void *context, struct error *error) {
    const struct follow_call *call = context;
    return answer_result(call->summary, error);
}

static const char USAGE[] = "usage: proteus follow --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Prints the report of a running job, lines of JSON: those that the controller\n"
                            "still has, and the others as they come, until the job ends. Exit status and\n"
                            "error line are the job's.";

int command_follow(int argc, char **argv) {
    struct follow_call follow = {0};
    const struct aml_option own[] = {{0}};
    const struct operator_call call = {.usage = USAGE,
                                       .own = own,
                                       .ask = ask_lines,
                                       .answer = take_lines,
                                       .wait = bear_silence,
                                       .tell = tell_end,
                                       .context = &follow};
    int code = operator_main(&call, argc, argv);
    report_line_drop(follow.summary);
    return code;
}
