/* proteus revoke: has a job's controller let nobody in by a token any more, and cut off who came by it. */
#include "agileml/net/key.h"
#include "proteus/command.h"
#include "proteus/operator.h"

#include <stdlib.h>
#include <string.h>

enum { SERIAL_DIGITS = 16 };

struct revoke_call {
    uint64_t serial;
    struct message_outcome outcome;
};

static const char USAGE[] = "usage: proteus revoke --controller tcp://HOST:PORT --key JOB.KEY TOKEN\n\n"
                            "Revokes a token of a running job: a token's file, or its serial number, which\n"
                            "'proteus keygen' and 'proteus status --json' show. From now on nobody is let in\n"
                            "by it. Nodes that came by it are not trusted any more: they are cut off at once,\n"
                            "as lost ones, and others do their work again (with --stage traditional the job\n"
                            "then ends). Commands and observers that came by it are cut off, too. --key must\n"
                            "be the job's key: no token lets its holder revoke.";

static void ask_revoke(void *context, struct observer *observer) {
    const struct revoke_call *call = context;
    if (observer->requests_made == 0) {
        observer_request(observer, &(struct message){.type = MESSAGE_REVOKE, .revoke.serial = call->serial});
    }
}

static bool take_outcome(void *context, struct observer *observer, const struct message *message) {
    struct revoke_call *call = context;
    bool ours = observer_take_outcome(observer, message, NULL);
    if (ours) {
        call->outcome = message->outcome;
    }
    return ours;
}

static bool parse_serial(const char *text, uint64_t *serial) {
    char *end;
    *serial = strtoull(text, &end, 16);
    return strlen(text) == SERIAL_DIGITS && strspn(text, "0123456789abcdef") == SERIAL_DIGITS && *serial != 0;
}

/* Reads the serial number from a token's file. The token must be of the job of `key`. */
static int read_serial(const char *path, const struct net_key *job, uint64_t *serial, struct error *error) {
    struct net_key token;
    int result = net_key_load(path, &token, error);
    if (result != 0) {
        return result;
    }
    if (!net_key_is_token(&token)) {
        result = error_set(error, AML_EINPUT, "%s: a job's key can't be revoked, expected a token", path);
    } else if (!net_token_genuine(token.token, job)) {
        result = error_set(error, AML_EINPUT, "%s: a token of another job than --key is of", path);
    } else {
        *serial = net_token_terms(token.token).serial;
    }
    explicit_bzero(&token, sizeof token);
    return result;
}

static int take_token(void *context, char *const *operands, int count, const char *key, struct error *error) {
    struct revoke_call *call = context;
    struct net_key job;
    if (count != 1) {
        return error_set(error, AML_EINPUT, "revoke: %d tokens, expected one: its file or its serial number", count);
    }
    if (key == NULL) {
        return error_set(error, AML_EINPUT, "revoke: --key is missing, expected the job's key");
    }
    int result = net_key_load(key, &job, error);
    if (result == 0 && net_key_is_token(&job)) {
        result = error_set(error, AML_EINPUT, "--key %s: a token, expected the job's key", key);
    }
    if (result == 0 && !parse_serial(operands[0], &call->serial)) {
        result = read_serial(operands[0], &job, &call->serial, error);
    }
    explicit_bzero(&job, sizeof job);
    return result;
}

static int tell_outcome(void *context, struct error *error) {
    return operator_print_outcome(&((struct revoke_call *)context)->outcome, error);
}

int command_revoke(int argc, char **argv) {
    struct revoke_call revoke = {0};
    const struct aml_option own[] = {{0}};
    const struct operator_call call = {.usage = USAGE,
                                       .own = own,
                                       .take_operands = take_token,
                                       .ask = ask_revoke,
                                       .answer = take_outcome,
                                       .tell = tell_outcome,
                                       .context = &revoke};
    return operator_main(&call, argc, argv);
}
