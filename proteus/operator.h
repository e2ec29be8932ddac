/* What a command says to the controller of a running job: connects, asks until it is answered, gives up when it hears
 * nothing. What is asked is the command's business. */
#ifndef PROTEUS_OPERATOR_H
#define PROTEUS_OPERATOR_H

#include "agileml/base/options.h"
#include "agileml/control/observer.h"

#include <stdbool.h>

enum {
    OPERATOR_REPEAT_MS = 500,       /* between requests */
    OPERATOR_SILENCE_MS = 5 * 1000, /* without a word from the controller: it isn't there */
};

struct operator_options {
    const char *controller; /* its endpoint */
    const char *key;        /* file; NULL: none */
    bool insecure, help;
};

/* Reads a command's line: its own options (a table) and these. `usage` is what --help shows before the options.
 * *operand: the first argument that is no option; NULL: there may be none. 0; 1 when --help was given and is printed;
 * AML_EINPUT. */
int operator_parse(struct operator_options *options, const char *usage, const struct aml_option *own, int argc,
                   char **argv, int *operand, struct error *error);

struct operator_call {
    uint64_t lines_from; /* the first line of the report that is wanted, should `ask` ask for lines */
    /* Sends to the controller; called at once, and every OPERATOR_REPEAT_MS. The observer's requests are repeated
     * without it. */
    void (*ask)(void *context, struct observer *observer);
    /* Takes a message of the controller. True: all is said. */
    bool (*answer)(void *context, struct observer *observer, const struct message *message);
    void *context;
};

/* 0, AML_EINPUT (no such endpoint, another key), AML_EFAIL (no answer). */
int operator_run(const struct operator_options *options, const struct operator_call *call, struct error *error);

#endif
