/* proteus evict: has a job's controller let nodes leave in time. */
#include "agileml/base/log.h"
#include "proteus/command.h"
#include "proteus/events.h"
#include "proteus/operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVICT_NOTICE_MAX_S = 86400 };

struct evict_call {
    char *const *names;
    int name_count;
    uint32_t notice_ms;
    struct message_outcome outcome;
};

static void ask_evict(void *context, struct observer *observer) {
    const struct evict_call *call = context;
    if (observer->requests_made == 0) {
        struct message evict = {.type = MESSAGE_EVICT, .evict.notice_ms = call->notice_ms};
        observer_request_nodes(observer, evict, (const char *const *)call->names, (size_t)call->name_count);
    }
}

static bool take_outcome(void *context, struct observer *observer, const struct message *message) {
    struct evict_call *call = context;
    bool ours = observer_take_outcome(observer, message, NULL);
    if (ours) {
        call->outcome = message->outcome;
    }
    return ours;
}

static const char USAGE[] =
    "usage: proteus evict --controller tcp://HOST:PORT [OPTIONS] NODE...\n\n"
    "Tells a running job that these nodes are about to go. They leave as soon as others have taken over what they\n"
    "did: nothing is lost, and nothing is done again. 'proteus status' shows the nodes' names.\n\n";

/* "120s" or "120". */
static int parse_notice(const char *text, uint32_t *notice_ms, struct error *error) {
    char *end;
    double seconds = strtod(text, &end);
    if (end == text || (*end != '\0' && strcmp(end, "s") != 0) || !(seconds >= 0 && seconds <= EVICT_NOTICE_MAX_S)) {
        return error_set(error, AML_EINPUT, "--notice: expected seconds from 0 to %d, such as 120s, got '%.100s'",
                         EVICT_NOTICE_MAX_S, text);
    }
    *notice_ms = (uint32_t)(seconds * 1e3);
    return 0;
}

static int check_names(const struct evict_call *call, struct error *error) {
    if (call->name_count == 0) {
        return error_set(error, AML_EINPUT, "evict: no node; expected 'proteus evict [OPTIONS] NODE...'");
    }
    if (call->name_count > WIRE_NODES_MAX) {
        return error_set(error, AML_ELIMIT, "evict: %d nodes, expected at most %d", call->name_count, WIRE_NODES_MAX);
    }
    for (int n = 0; n < call->name_count; n++) {
        if (call->names[n][0] == '\0' || strlen(call->names[n]) >= WIRE_NAME_MAX) {
            return error_set(error, AML_EINPUT, "evict: '%.100s' is no node's name", call->names[n]);
        }
    }
    return 0;
}

int command_evict(int argc, char **argv) {
    struct operator_options options = {0};
    struct evict_call evict = {0};
    const struct operator_call call = {.ask = ask_evict, .answer = take_outcome, .context = &evict};
    const char *notice = "120s";
    const struct aml_option own[] = {
        {"notice", "SECONDS", AML_OPTION_STRING, &notice, 0, 0, "until the nodes' machines go away"},
        {0},
    };
    struct error error = {0};
    int operand;
    int result = operator_parse(&options, USAGE, own, argc, argv, &operand, &error);
    if (result > 0) {
        return 0;
    }
    if (result == 0) {
        evict.names = argv + operand;
        evict.name_count = argc - operand;
        result = parse_notice(notice, &evict.notice_ms, &error);
    }
    if (result == 0) {
        result = check_names(&evict, &error);
    }
    if (result == 0) {
        result = operator_run(&options, &call, &error);
    }
    if (result == 0 && evict.outcome.code != 0) {
        result = error_set(&error, evict.outcome.code, "%s", evict.outcome.text);
    } else if (result == 0 && evict.outcome.text[0] != '\0') {
        result = error_set(&error, AML_EINPUT, "%s; the other nodes leave", evict.outcome.text);
    }
    if (result != 0) {
        log_error("%s", error.text);
    }
    return error_exit_status(result);
}
