/* A command's conversation with the controller of a running job: reads the command line, connects, asks until the
 * answer comes, and gives up when the controller is silent. The command decides what to ask. */
#ifndef PROTEUS_OPERATOR_H
#define PROTEUS_OPERATOR_H

#include "agileml/base/options.h"
#include "agileml/control/observer.h"

#include <stdbool.h>

struct net_io;

enum {
    OPERATOR_REPEAT_MS = 500,       /* between requests */
    OPERATOR_SILENCE_MS = 5 * 1000, /* after which a silent controller counts as absent */
};

struct operator_call {
    const char *usage;            /* what --help prints before the options */
    const struct aml_option *own; /* the command's own options */
    uint64_t lines_from;          /* the first line of the report that `ask` needs */
    /* Checks and takes the operands. NULL: the command has none. */
    int (*take_operands)(void *context, char *const *operands, int count, struct error *error);
    /* Called when the command is connected, before the first request; 0 or an error. `end` is called after the last
     * answer, before anything is printed. NULL: nothing to do. */
    int (*begin)(void *context, struct net_io *io, struct error *error);
    void (*end)(void *context);
    unsigned repeat_ms; /* between requests; 0: OPERATOR_REPEAT_MS */
    /* Called every repeat_ms with the time since the controller's last message. Returns whether to go on waiting. NULL:
     * the command waits for OPERATOR_SILENCE_MS. */
    bool (*wait)(void *context, unsigned silent_ms);
    /* Sends to the controller. Called at once, then every repeat_ms. The observer repeats its requests
     * itself. */
    void (*ask)(void *context, struct observer *observer);
    /* Takes a message of the controller. Returns true when it is the answer. */
    bool (*answer)(void *context, struct observer *observer, const struct message *message);
    /* Prints the answer; or returns the code of the error that it is. */
    int (*tell)(void *context, struct error *error);
    void *context;
};

/* Runs the command: reads its line, asks the controller, tells the answer, logs an error. Returns the exit status. */
int operator_main(const struct operator_call *call, int argc, char **argv);

#endif
