/* The bidbrain program: finds the command on its command line and runs it. */
#include "agileml/base/program.h"
#include "bidbrain/daemon/command.h"
#include "bidbrain/study/command.h"

int main(int argc, char **argv) {
    static const struct program_command commands[] = {
        {"run", command_run, "the daemon: buys machines for a job and gives them back"},
        {"check-config", command_check_config, "checks a configuration of 'run', and prints what it means"},
        {"status", command_status, "prints what 'run' holds and what it has cost"},
        {"prices", command_fetch_prices, "reads the provider's prices into a store (.db)"},
        {"user-data", command_user_data, "prints the script that starts a node, for a launch template"},
        {"simulate", command_simulate, "computes what jobs would have cost on recorded prices, scheme by scheme"},
        {"advise", command_advise, "prints what to buy now, why, and what it should cost"},
        {"calibrate", command_calibrate, "compares eviction estimates with recorded prices"},
        {0},
    };
    static const struct program program = {.name = "bidbrain",
                                           .version = PROTEUS_VERSION,
                                           .commands = commands,
                                           .column = 14,
                                           .help = "'bidbrain COMMAND --help' lists a command's options.\n"
                                                   "  --help      print this\n"
                                                   "  --version   print the version\n",
                                           .expected = "see --help for the list"};
    return program_main(&program, argc, argv);
}
