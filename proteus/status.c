/* proteus status: requests a job's state from its controller, and shows it. */
#include "proteus/answer.h"
#include "proteus/command.h"
#include "proteus/operator.h"
#include "proteus/status_text.h"

struct status_call {
    bool json;
    uint64_t request;
    struct report_line *answer; /* NULL: none yet */
};

static void ask_status(void *context, struct observer *observer) {
    const struct status_call *call = context;
    observer_ask_status(observer, call->request);
}

static bool take_status(void *context, struct observer *observer, const struct message *message) {
    struct status_call *call = context;
    (void)observer;
    if (message->type == MESSAGE_STATUS && message->status.request == call->request && call->answer == NULL) {
        call->answer = observer_status(message);
    }
    return call->answer != NULL;
}

static const char USAGE[] = "usage: proteus status --controller tcp://HOST:PORT [OPTIONS]\n\n"
                            "Shows a running job: how far it is, its nodes, and who serves how many of the\n"
                            "partitions (ParamServ on reliable nodes, ActivePS on transient ones, BackupPS:\n"
                            "keeps a copy).";

static int tell_status(void *context, struct error *error) {
    const struct status_call *call = context;
    (void)error;
    if (call->json) {
        answer_print(stdout, call->answer);
    } else {
        status_print(stdout, call->answer);
    }
    return 0;
}

int command_status(int argc, char **argv) {
    struct status_call status = {.request = 1};
    const struct aml_option own[] = {
        {"json", NULL, AML_OPTION_FLAG, &status.json, 0, 0, "print all that is known, one JSON object"},
        {0},
    };
    const struct operator_call call = {
        .usage = USAGE, .own = own, .ask = ask_status, .answer = take_status, .tell = tell_status, .context = &status};
    int code = operator_main(&call, argc, argv);
    report_line_drop(status.answer);
    return code;
}
