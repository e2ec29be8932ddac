/* See operator.h. */
#include "proteus/operator.h"

#include "agileml/base/log.h"
#include "agileml/base/printable.h"
#include "agileml/net/zmq.h"
#include "proteus/job_options.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct operator_options {
    const char *controller; /* endpoint of the controller */
    const char *key;        /* path of the key file; NULL: none */
    bool insecure, help;
};

struct conversation {
    const struct operator_options *options;
    const struct operator_call *call;
    struct net *net;
    struct net_io *io;
    struct observer observer;
    /* time of the last message, or of our start; moved forward by any time in which we were held up */
    uint64_t heard_us;
    uint64_t due_us; /* when the timer is due */
    struct error error;
};

/* Reads the command line. Returns 0, AML_EINPUT, or 1 after --help, which it prints. */
static int operator_parse(struct operator_options *options, const struct operator_call *call, int argc, char **argv,
                          struct error *error) {
    const struct aml_option shared[] = {
        {"controller", "ENDPOINT", AML_OPTION_STRING, &options->controller, 0, 0,
         "tcp://HOST:PORT of the job's controller"},
        {"key", "FILE", AML_OPTION_STRING, &options->key, 0, 0, "a token or the job's key, see 'proteus keygen'"},
        {"insecure", NULL, AML_OPTION_FLAG, &options->insecure, 0, 0, "allow other machines without a key"},
        {"help", NULL, AML_OPTION_FLAG, &options->help, 0, 0, "this text"},
        {0},
    };
    const struct aml_option *const tables[] = {call->own, shared};
    int first;
    int result = options_parse_mixed(tables, 2, argc, argv, &first, error);
    if (result == 0 && options->help) {
        options_write_help(stdout, call->usage, tables, 2, NULL, error);
        return 1;
    }
    if (result == 0 && call->take_operands != NULL) {
        return call->take_operands(call->context, argv + first, argc - first, options->key, error);
    }
    if (result == 0 && first < argc) {
        return error_set(error, AML_EINPUT, "%s: unexpected '%.100s', expected options only", argv[0], argv[first]);
    }
    return result;
}

static void operator_receive(void *self, actor_id from, struct message *message) {
    struct conversation *conversation = self;
    struct io *io = net_io_of(conversation->io);
    if (from == ACTOR_CONTROLLER) {
        conversation->heard_us = io->now_us(io);
        if (message->type == MESSAGE_ABORT) { /* our key does not allow the request */
            error_set(&conversation->error, message->text.code, "%s", message->text.text);
            net_io_stop(conversation->io);
        } else if (conversation->call->answer(conversation->call->context, &conversation->observer, message)) {
            net_io_stop(conversation->io);
        }
    }
}

static void operator_timer(void *self) {
    struct conversation *conversation = self;
    struct io *io = net_io_of(conversation->io);
    uint64_t now_us = io->now_us(io);
    const struct operator_call *call = conversation->call;
    if (now_us > conversation->due_us) { /* we were held up, for instance by a full pipe; messages may be waiting */
        uint64_t heard_us = conversation->heard_us + (now_us - conversation->due_us);
        conversation->heard_us = heard_us < now_us ? heard_us : now_us;
    }
    unsigned silent_ms = (unsigned)((now_us - conversation->heard_us) / 1000);
    if (call->wait != NULL ? !call->wait(call->context, silent_ms) : silent_ms >= OPERATOR_SILENCE_MS) {
        error_set(&conversation->error, AML_EFAIL, "no answer from a controller at %.128s for %u s",
                  conversation->options->controller, silent_ms / 1000);
        net_io_stop(conversation->io);
        return;
    }
    observer_repeat_requests(&conversation->observer);
    call->ask(call->context, &conversation->observer);
    conversation->due_us = now_us + (call->repeat_ms > 0 ? call->repeat_ms : OPERATOR_REPEAT_MS) * UINT64_C(1000);
    io->set_timer(io, conversation->due_us);
}

static void operator_refused(void *self, const char *endpoint, const char *why) {
    struct conversation *conversation = self;
    error_set(&conversation->error, AML_EINPUT, "the controller at %s: %s", endpoint, why);
    net_io_stop(conversation->io);
}

static int conversation_open(struct conversation *conversation, struct error *error) {
    const struct operator_options *options = conversation->options;
    const struct net_io_options io_options = {
        .self = net_observer_id(),
        .actor = {.receive = operator_receive, .timer = operator_timer, .self = conversation},
        .refused = operator_refused,
    };
    if (options->controller == NULL) {
        return error_set(error, AML_EINPUT, "--controller tcp://HOST:PORT is missing");
    }
    int result =
        net_open_by_file(&conversation->net, options->key, (struct net_options){.insecure = options->insecure}, error);
    result = result == 0 ? net_io_open(&conversation->io, conversation->net, &io_options, error) : result;
    return result == 0 ? net_io_connect(conversation->io, ACTOR_CONTROLLER, options->controller, error) : result;
}

static int operator_run(const struct operator_options *options, const struct operator_call *call, struct error *error) {
    struct conversation conversation = {.options = options, .call = call};
    int result = conversation_open(&conversation, error);
    if (result == 0) {
        struct io *io = net_io_of(conversation.io);
        conversation.heard_us = conversation.due_us = io->now_us(io);
        observer_open(&conversation.observer, io, call->lines_from);
        result = call->begin != NULL ? call->begin(call->context, conversation.io, error) : 0;
    }
    if (result == 0) {
        operator_timer(&conversation);
        result = net_io_run(conversation.io, error);
    }
    if (call->end != NULL) {
        call->end(call->context);
    }
    if (result == 0 && conversation.error.code != 0) {
        result = error_set(error, conversation.error.code, "%s", conversation.error.text);
    }
    observer_close(&conversation.observer);
    if (conversation.io != NULL) {
        net_io_close(conversation.io);
    }
    if (conversation.net != NULL) {
        net_close(conversation.net);
    }
    return result;
}

int operator_print_outcome(struct message_outcome *outcome, struct error *error) {
    if (outcome->code != 0) {
        return error_set(error, outcome->code, "%s", outcome->text);
    }
    text_make_printable(outcome->text);
    printf("%s\n", outcome->text);
    return 0;
}

int operator_main(const struct operator_call *call, int argc, char **argv) {
    struct operator_options options = {0};
    struct error error = {0};
    int result = operator_parse(&options, call, argc, argv, &error);
    if (result > 0) {
        return 0;
    }
    result = result != 0 ? result : operator_run(&options, call, &error);
    result = result != 0 ? result : call->tell(call->context, &error);
    if (result != 0) {
        log_error("%s", error.text);
    }
    return error_exit_status(result);
}
