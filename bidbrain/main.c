/* The bidbrain program: finds the command on its command line and runs it. */
#include "agileml/base/log.h"
#include "bidbrain/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"run", command_run, "the daemon: buys machines for a job and gives them back"},
    {"check-config", command_check_config, "checks a configuration of 'run', and prints what it means"},
    {"status", command_status, "prints what 'run' holds and what it has cost"},
    {"prices", command_fetch_prices, "reads the provider's prices into a store (.db)"},
    {"user-data", command_user_data, "prints the script that starts a node, for a launch template"},
    {"simulate", command_simulate, "computes what jobs would have cost on recorded prices, scheme by scheme"},
    {"advise", command_advise, "prints what to buy now, why, and what it should cost"},
    {"calibrate", command_calibrate, "compares eviction estimates with recorded prices"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

static void print_help(void) {
    printf("usage: bidbrain COMMAND [OPTIONS]\n\n");
    for (int c = 0; c < COMMAND_COUNT; c++) {
        printf("  %-14s%s\n", COMMANDS[c].name, COMMANDS[c].help);
    }
    printf("\n'bidbrain COMMAND --help' lists a command's options.\n"
           "  --help      print this\n"
           "  --version   print the version\n");
}

static int run_command(int argc, char **argv) {
    if (argc < 2) {
        log_error("no command; see --help for the list");
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("bidbrain %s\n", PROTEUS_VERSION);
        return 0;
    }
    for (int c = 0; c < COMMAND_COUNT; c++) {
        if (strcmp(argv[1], COMMANDS[c].name) == 0) {
            return COMMANDS[c].run(argc - 1, argv + 1);
        }
    }
    log_error("unknown %s '%.100s'; see --help for the list", argv[1][0] == '-' ? "option" : "command", argv[1]);
    return 2;
}

int main(int argc, char **argv) {
    struct error error = {0};
    log_set_name("bidbrain");
    if (log_set_up(NULL, &error) != 0) {
        log_error("%s", error.text);
        return error_exit_status(error.code);
    }
    int status = run_command(argc, argv);
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        log_error("can't write to standard output%s%s", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        status = status == 0 ? 1 : status;
    }
    return status;
}
