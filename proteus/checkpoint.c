/* proteus checkpoint: has a job's controller write a checkpoint now, and waits for it. */
#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdio.h>

enum { CHECKPOINT_REQUEST = 1 }; /* this process asks for one thing only */

/* To write a checkpoint may take long: the answers to STATUS show that the controller is still there. */
static void ask_checkpoint(void *context, struct io *io) {
    (void)context;
    struct message now = {.type = MESSAGE_CHECKPOINT_NOW, .checkpoint_now = {.request = CHECKPOINT_REQUEST}};
    struct message status = {.type = MESSAGE_STATUS, .frame_count = 1, .frames = {buffer_new(0)}};
    io->send(io, ACTOR_CONTROLLER, &now);
    io->send(io, ACTOR_CONTROLLER, &status);
}

static bool take_outcome(void *context, struct io *io, const struct message *message) {
    struct message_outcome *outcome = context;
    (void)io;
    if (message->type != MESSAGE_OUTCOME || message->outcome.request != CHECKPOINT_REQUEST) {
        return false;
    }
    *outcome = message->outcome;
    return true;
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
