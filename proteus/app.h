/* The app on a command line, behind "--", and the options that belong to the proteus program rather than to it. */
#ifndef PROTEUS_APP_H
#define PROTEUS_APP_H

#include "agileml/base/error.h"
#include "agileml/net/endpoint.h"

#include <limits.h>
#include <stdbool.h>

struct app {
    char path[PATH_MAX];
    char *const *arguments; /* its name first */
    int count;
};

/* Finds the app at argv[operand], for `command`. AML_EINPUT when there is none, or its arguments have an option that
 * `command` gives to each node. */
int app_find(struct app *app, const char *command, int operand, int argc, char **argv, struct error *error);

/* The nodes can listen on the host, and without a key nobody else can reach them. 0 or AML_EINPUT. */
int app_check_host(const char *host, const char *key, bool insecure, struct error *error);

#endif
