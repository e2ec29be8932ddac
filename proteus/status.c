/* proteus status: asks a job's controller how the job is, and shows it. */
#include "agileml/base/log.h"
#include "agileml/wire/records.h"
#include "proteus/command.h"
#include "proteus/operator.h"
#include "proteus/status_text.h"

struct status_call {
    uint64_t request;
    json_t *answer; /* NULL: none yet */
};

static void ask_status(void *context, struct observer *observer) {
    const struct status_call *call = context;
    observer_ask_status(observer, call->request);
}

static bool take_status(void *context, struct observer *observer, const struct message *message) {
    struct status_call *call = context;
    (void)observer;
    if (message->type == MESSAGE_STATUS && message->status.request == call->request && call->answer == NULL) {
        size_t size;
        const char *text = records_text(message, &size);
        call->answer = json_loadb(text, size, 0, NULL);
    }
    return call->answer != NULL;
}

static const char USAGE[] =
    "usage: proteus status --controller tcp://HOST:PORT [OPTIONS]\n\n"
    "Shows a running job: how far it is, its nodes, and who serves how many of the partitions (ParamServ on\n"
    "reliable nodes, ActivePS on transient ones, BackupPS: keeps a copy).\n\n";

int command_status(int argc, char **argv) {
    struct operator_options options = {0};
    struct status_call status = {.request = 1};
    const struct operator_call call = {.ask = ask_status, .answer = take_status, .context = &status};
    bool json = false;
    const struct aml_option own[] = {
        {"json", NULL, AML_OPTION_FLAG, &json, 0, 0, "print all that is known, one JSON object"},
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
    if (result != 0) {
        log_error("%s", error.text);
    } else if (json) {
        /* ASCII, so that no name orders the terminal about. */
        json_dumpf(status.answer, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        status_print(stdout, status.answer);
    }
    json_decref(status.answer);
    return error_exit_status(result);
}
