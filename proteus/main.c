/* The proteus program: finds the subcommand and leaves the rest to it. */
#include "agileml/base/program.h"
#include "proteus/command.h"

#include <stdio.h>

int main(int argc, char **argv) {
    static const struct program_command commands[] = {
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
        {"revoke", command_revoke, "have a running job let nobody in by a token any more"},
        {"keygen", command_keygen, "make a job's key, and tokens that give a part of its rights"},
        {0},
    };
    static const struct program program = {.name = "proteus",
                                           .version = PROTEUS_VERSION,
                                           .commands = commands,
                                           .column = 12,
                                           .help = "'proteus COMMAND --help' lists a command's options.\n"
                                                   "  --help      this text\n"
                                                   "  --version   the version\n",
                                           .expected = "expected run, controller, join, status, top, follow, evict, "
                                                       "checkpoint, stop, report, revoke or keygen, see --help"};
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that a pipe's reader gets progress at once */
    return program_main(&program, argc, argv);
}
