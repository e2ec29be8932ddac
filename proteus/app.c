/* See app.h. */
#include "proteus/app.h"

#include <stdio.h>
#include <string.h>

static bool is_option(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, length) == 0 &&
           (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

/* Rejects options that each node also gets from us: ours come last and would override them. */
static int check_arguments(const struct app *app, const char *command, struct error *error) {
    static const char *const ours[] = {"threads", "listen", "advertise", "key", "insecure"};
    static const char *const of_nodes[] = {"controller", "tier", "name", "supervised"};
    for (int a = 1; a < app->count; a++) {
        for (size_t n = 0; n < sizeof ours / sizeof *ours; n++) {
            if (is_option(app->arguments[a], ours[n])) {
                return error_set(error, AML_EINPUT, "--%s belongs to 'proteus %s': write it before '--'", ours[n],
                                 command);
            }
        }
        for (size_t n = 0; n < sizeof of_nodes / sizeof *of_nodes; n++) {
            if (is_option(app->arguments[a], of_nodes[n])) {
                return error_set(error, AML_EINPUT, "--%s belongs to 'proteus %s', which chooses it for each node",
                                 of_nodes[n], command);
            }
        }
    }
    return 0;
}

int app_find(struct app *app, const char *command, int operand, int argc, char **argv, struct error *error) {
    if (operand == argc) {
        return error_set(error, AML_EINPUT, "%s: no app; expected 'proteus %s [OPTIONS] -- APP [ARGUMENTS]'", command,
                         command);
    }
    app->arguments = argv + operand;
    app->count = argc - operand;
    while (app->count > 1 && strcmp(app->arguments[app->count - 1], "--") == 0) {
        app->count--; /* nodes get more options after these arguments */
    }
    int result = process_find(argv[operand], app->path, error);
    return result == 0 ? check_arguments(app, command, error) : result;
}

void app_arguments(const struct app *app, const char *key, bool insecure, struct arguments *arguments) {
    for (int a = 0; a < app->count; a++) {
        arguments_add(arguments, "%s", app->arguments[a]);
    }
    if (key != NULL) {
        arguments_add(arguments, "--key=%s", key);
    }
    if (insecure) {
        arguments_add(arguments, "--insecure");
    }
}

int app_check_host(const char *host, const char *key, bool insecure, struct error *error) {
    struct endpoint endpoint;
    int result = endpoint_parse_host(&endpoint, host, error);
    if (result == 0 && !endpoint.loopback && key == NULL && !insecure) {
        result = error_set(error, AML_EINPUT,
                           "--listen %s: other machines can reach it: expected --key FILE too, or --insecure", host);
    }
    return result;
}
