/* proteus evict: announces to a job's controller that nodes will go, so that they leave in time. */
#include "proteus/command.h"
#include "proteus/events.h"
#include "proteus/operator.h"

#include <stdlib.h>
#include <string.h>

enum { EVICT_NOTICE_MAX_S = 86400 };

struct evict_call {
    const char *notice; /* text of the command line */
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

static const char USAGE[] = "usage: proteus evict --controller tcp://HOST:PORT [OPTIONS] NODE...\n\n"
                            "Gives a running job notice that nodes are about to go. They leave as soon as\n"
                            "others have taken over what they did: nothing is lost, and nothing is done\n"
                            "again. 'proteus status' shows the nodes' names.";

/* Parses "120s" or "120". */
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

static int take_names(void *context, char *const *names, int count, const char *key, struct error *error) {
    struct evict_call *call = context;
    (void)key;
    if (count == 0) {
        return error_set(error, AML_EINPUT, "evict: no node; expected 'proteus evict [OPTIONS] NODE...'");
    }
    if (count > WIRE_NODES_MAX) {
        return error_set(error, AML_ELIMIT, "evict: %d nodes, expected at most %d", count, WIRE_NODES_MAX);
    }
    for (int n = 0; n < count; n++) {
        if (names[n][0] == '\0' || strlen(names[n]) >= WIRE_NAME_MAX) {
            return error_set(error, AML_EINPUT, "evict: '%.100s' is no node's name", names[n]);
        }
    }
    call->names = names;
    call->name_count = count;
    return parse_notice(call->notice, &call->notice_ms, error);
}

static int tell_outcome(void *context, struct error *error) {
    const struct message_outcome *outcome = &((struct evict_call *)context)->outcome;
    if (outcome->code != 0) {
        return error_set(error, outcome->code, "%s", outcome->text);
    }
    return outcome->text[0] == '\0' ? 0 : error_set(error, AML_EINPUT, "%s; the other nodes leave", outcome->text);
}

int command_evict(int argc, char **argv) {
    struct evict_call evict = {.notice = "120s"};
    const struct aml_option own[] = {
        {"notice", "SECONDS", AML_OPTION_STRING, &evict.notice, 0, 0, "until the nodes' machines go away"},
        {0},
    };
    const struct operator_call call = {.usage = USAGE,
                                       .own = own,
                                       .take_operands = take_names,
                                       .ask = ask_evict,
                                       .answer = take_outcome,
                                       .tell = tell_outcome,
                                       .context = &evict};
    return operator_main(&call, argc, argv);
}
