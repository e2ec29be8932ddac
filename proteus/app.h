/* Finds the app on a command line, after "--", and rejects options that its arguments must not have. */
#ifndef PROTEUS_APP_H
#define PROTEUS_APP_H

#include "agileml/base/process.h"
#include "agileml/net/endpoint.h"

struct app {
    char path[PATH_MAX];
    char *const *arguments; /* begins with the app's name */
    int count;
};

/* Finds the app at argv[operand], for `command`. Returns AML_EINPUT when there is no app, or when its arguments have an
 * option that `command` sets for each node. */
int app_find(struct app *app, const char *command, int operand, int argc, char **argv, struct error *error);

/* Adds the app's arguments, and those for the job's key; `key` may be NULL. */
void app_arguments(const struct app *app, const char *key, bool insecure, struct arguments *arguments);

/* Checks that the nodes can listen on the host. Without a key and --insecure, it must be a loopback address. Returns 0
 * or AML_EINPUT. */
int app_check_host(const char *host, const char *key, bool insecure, struct error *error);

#endif
