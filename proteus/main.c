/* The proteus program: finds the subcommand and leaves the rest to it. */
#include "agileml/base/log.h"
#include "proteus/command.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} COMMANDS[] = {
    {"run", command_run, "start a job on this machine, watch it, and end with it"},
    {"controller", command_controller, "the controller of a job whose nodes are started by hand"},
    {"join", command_join, "start nodes on this machine that join a running job"},
    {"status", command_status, "show a running job, its nodes and what they do"},
    {"top", command_top, "show a running job's nodes, live"},
    {"follow", command_follow, "print a running job's report, line by line"},
    {"evict", command_evict, "have nodes leave a running job in time"},
    {"checkpoint", command_checkpoint, "have a running job write a checkpoint now"},
    {"stop", command_stop, "end a running job well, before its time"},
    {"report", command_report, "make a page of finished or running jobs' reports, to look at in a browser"},
    {"keygen", command_keygen, "make a job's key, and tokens that give a part of its rights"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };
static const char EXPECTED[] =
    "expected run, controller, join, status, top, follow, evict, checkpoint, stop, report or keygen, see --help";

static void print_help(void) {
    printf("usage: proteus COMMAND [OPTIONS]\n\n");
    for (int c = 0; c < COMMAND_COUNT; c++) {
        printf("  %-12s%s\n", COMMANDS[c].name, COMMANDS[c].help);
    }
    printf("\n'proteus COMMAND --help' tells a command's options.\n"
           "  --help      this text\n"
           "  --version   the version\n");
}

static int run_command(int argc, char **argv) {
    if (argc < 2) {
        log_error("no command; %s", EXPECTED);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("proteus %s\n", PROTEUS_VERSION);
        return 0;
    }
    for (int c = 0; c < COMMAND_COUNT; c++) {
        if (strcmp(argv[1], COMMANDS[c].name) == 0) {
            return COMMANDS[c].run(argc - 1, argv + 1);
        }
    }
    log_error("unknown %s '%.100s'; %s", argv[1][0] == '-' ? "option" : "command", argv[1], EXPECTED);
    return 2;
}

int main(int argc, char **argv) {
    struct error error = {0};
    log_set_name("proteus");
    if (log_set_up(NULL, &error) != 0) {
        log_error("%s", error.text);
        return error_exit_status(error.code);
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a pipe's reader also gets progress at once */
    int status = run_command(argc, argv);
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) != 0 || failed) {
        log_error("can't write to standard output%s%s", errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
        status = status == 0 ? 1 : status;
    }
    return status;
}
