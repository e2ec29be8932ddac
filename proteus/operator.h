/* A command's conversation with the controller of a running job. Reads the command line, connects, and repeats requests
 * until the answer comes. Gives up when the controller is silent. The command decides what to request. */
#ifndef PROTEUS_OPERATOR_H
#define PROTEUS_OPERATOR_H

#include "agileml/base/options.h"
#include "agileml/control/state/observer.h"

#include <stdbool.h>

struct net_io;

enum {
    OPERATOR_REPEAT_MS = 500,       /* time between requests */
    OPERATOR_SILENCE_MS = 5 * 1000, /* a controller silent for so long counts as absent */
};

struct operator_call {
    const char *usage;            /* printed by --help before the options */
    const struct aml_option *own; /* the command's own options */
    uint64_t lines_from;          /* first line of the report that `ask` needs */
    /* Checks and takes the operands; `key` is the path of --key, NULL: none. NULL: the command has no operands. */
    int (*take_operands)(void *context, char *const *operands, int count, const char *key, struct error *error);
    /* `begin` is called when the command is connected, before the first request, and returns 0 or an error. `end` is
     * called after the last answer, before anything is printed. NULL: nothing to do. */
    int (*begin)(void *context, struct net_io *io, struct error *error);
    void (*end)(void *context);
    unsigned repeat_ms; /* time between requests; 0: OPERATOR_REPEAT_MS */
    /* Called every repeat_ms with the time since the controller's last message. Returns whether to keep waiting. NULL:
     * gives up after OPERATOR_SILENCE_MS. */
    bool (*wait)(void *context, unsigned silent_ms);
    /* Sends to the controller. Called at once, then every repeat_ms. The observer repeats its own requests. */
    void (*ask)(void *context, struct observer *observer);
    /* Takes a message of the controller. Returns true when it is the answer. */
    bool (*answer)(void *context, struct observer *observer, const struct message *message);
    /* Prints the answer, or returns its error code. */
    int (*tell)(void *context, struct error *error);
    void *context;
};

/* For `tell` of a command whose answer is an OUTCOME: prints its text, or returns its error. */
int operator_print_outcome(struct message_outcome *outcome, struct error *error);

/* Runs the command: reads its command line, sends requests, prints the answer, logs an error. Returns the exit
 * status. */
int operator_main(const struct operator_call *call, int argc, char **argv);

#endif
