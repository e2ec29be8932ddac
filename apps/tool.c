/* See tool.h. */
#include "apps/tool.h"

#include "agileml/base/log.h"
#include "agileml/base/options.h"

#include <errno.h>
#include <string.h>

int tool_output_open(struct tool_output *output, struct error *error) {
    output->file = output->path != NULL ? fopen(output->path, "we") : stdout;
    return output->file != NULL ? 0 : error_set(error, AML_EINPUT, "--out: %s: %s", output->path, strerror(errno));
}

int tool_output_failed(const struct tool_output *output, struct error *error) {
    return error_set(error, AML_EFAIL, "%s: %s", output->path != NULL ? output->path : "standard output",
                     strerror(errno));
}

int tool_output_close(struct tool_output *output, int result, struct error *error) {
    bool failed = (output->path != NULL ? fclose(output->file) : fflush(stdout)) != 0;
    return failed && result == 0 ? tool_output_failed(output, error) : result;
}

bool tool_is_asked(const char *option, int argc, char **argv) {
    size_t length = strlen(option);
    for (int i = 1; i < argc; i++) {
        const char *name = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        if (strncmp(name, option, length) == 0 && (name[length] == '\0' || name[length] == '=')) {
            return true;
        }
    }
    return false;
}

static int parse(const struct tool *tool, int argc, char **argv, struct error *error) {
    int operand;
    if (tool_is_asked("check", argc, argv) || tool_is_asked("controller", argc, argv)) {
        return error_set(error, AML_EINPUT, "--%s needs no job: run '%s --%s ...' itself, without 'proteus run --'",
                         tool->option, tool->app, tool->option);
    }
    int result = options_parse(&tool->options, 1, argc, argv, &operand, error);
    if (result == 0 && operand < argc) {
        result = error_set(error, AML_EINPUT, "unexpected argument '%s': expected options only; see '%s --%s --help'",
                           argv[operand], tool->app, tool->option);
    }
    return result;
}

int tool_main(const struct tool *tool, int argc, char **argv) {
    struct error error = {0};
    log_set_name(tool->app);
    int result = options_help(tool->usage, &tool->options, 1, argc, argv, &error);
    if (result == 1) {
        return 0;
    }
    result = result != 0 ? result : log_set_up(NULL, &error);
    result = result != 0 ? result : parse(tool, argc, argv, &error);
    result = result != 0 ? result : tool->run(tool->context, &error);
    if (result != 0) {
        log_error("%s", error.text);
    }
    return error_exit_status(result);
}
