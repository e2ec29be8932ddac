/* proteus checkpoint: has a job's controller write a checkpoint now, and waits for it. */
#include "proteus/command.h"
#include "proteus/operator.h"

/* A checkpoint may take long. Meanwhile the answers to STATUS show that the controller is alive. */
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
                            "Has a running job that was started with --checkpoint write one now. Waits for\n"
                            "it, and prints its iteration, clock and folder.";

static int tell_outcome(void *context, struct error *error) {
    return operator_print_outcome(context, error);
}

int command_checkpoint(int argc, char **argv) {
    struct message_outcome outcome = {0};
    const struct aml_option own[] = {{0}};
    const struct operator_call call = {.usage = USAGE,
                                       .own = own,
                                       .ask = ask_checkpoint,
                                       .answer = take_outcome,
                                       .tell = tell_outcome,
                                       .context = &outcome};
    return operator_main(&call, argc, argv);
}
