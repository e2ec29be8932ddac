/* See program.h. */
#include "agileml/base/program.h"

#include "agileml/base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void print_help(const struct program *program) {
    printf("usage: %s COMMAND [OPTIONS]\n\n", program->name);
    for (const struct program_command *command = program->commands; command->name != NULL; command++) {
        printf("  %-*s%s\n", program->column, command->name, command->help);
    }
    printf("\n%s", program->help);
}

static int run_command(const struct program *program, int argc, char **argv) {
    if (argc < 2) {
        log_error("no command; %s", program->expected);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(program);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("%s %s\n", program->name, program->version);
        return 0;
    }
    for (const struct program_command *command = program->commands; command->name != NULL; command++) {
        if (strcmp(argv[1], command->name) == 0) {
            return command->run(argc - 1, argv + 1);
        }
    }
    log_error("unknown %s '%.100s'; %s", argv[1][0] == '-' ? "option" : "command", argv[1], program->expected);
    return 2;
}

int program_main(const struct program *program, int argc, char **argv) {
    struct error error = {0};
    log_set_name(program->name);
    if (log_set_up(NULL, &error) != 0) {
        log_error("%s", error.text);
        return error_exit_status(error.code);
    }
    int status = run_command(program, argc, argv);
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0 || failed) {
        log_error("can't write to standard output%s%s", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        status = status == 0 ? 1 : status;
    }
    return status;
}
