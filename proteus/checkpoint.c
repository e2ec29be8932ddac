/* proteus checkpoint: has a job's controller write a checkpoint now, and waits for it. */
#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdio.h>

/* To write a checkpoint may take long: the answers to STATUS show that the controller is still there. */
static void ask_checkpoint(void *context, struct observer *observer) {
    (void)context;
    if (observer->requests_made == 0) {
        observer_request(observer, &(struct message){.type = MESSAGE_CHECKPOINT_NOW});
    }
    observer_ask_status(observer, 0);
}

static bool take_outcome(void *context, struct observer *observer, const struct message *message) {
    struct message_outcome *outcome = context;
    bool ours = observer_take_outcome(observer, message, NULL);
    if (ours) {
        *outcome = message->outcome;
    }
    return ours;
}

static const char USAGE[] = "usage: proteus checkpoint --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Has a running job that was started with --checkpoint write one now. Waits for it, and\n"
                            "prints its iteration, clock and folder.\n\n";

int command_checkpoint(int argc, char **argv) {
    struct operator_options options = {0};
    struct message_outcome outcome = {0};
    const struct operator_call call = {.ask = ask_checkpoint, .answer = take_outcome, .context = &outcome};
    const struct aml_option own[] = {{0}};
    struct error error = {0};
    int result = operator_parse(&options, USAGE, own, argc, argv, NULL, &error);
    if (result > 0) {
        return 0;
    }
    if (result == 0) {
        result = operator_run(&options, &call, &error);
    }
    if (result == 0 && outcome.code != 0) {
        result = error_set(&error, outcome.code, "%s", outcome.text);
    }
    if (result != 0) {
        log_error("%s", error.text);
    } else {
        text_make_printable(outcome.text);
        printf("%s\n", outcome.text);
    }
    return error_exit_status(result);
}
