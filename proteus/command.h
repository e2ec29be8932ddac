/* The subcommands of the proteus program. Each reads its own command line, whose argv[0] is its name. It prints its own
 * error line, and returns the exit status given in docs/proteus.md. */
#ifndef PROTEUS_COMMAND_H
#define PROTEUS_COMMAND_H

int command_checkpoint(int argc, char **argv);
int command_controller(int argc, char **argv);
int command_evict(int argc, char **argv);
int command_follow(int argc, char **argv);
int command_join(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_report(int argc, char **argv);
int command_revoke(int argc, char **argv);
int command_run(int argc, char **argv);
int command_status(int argc, char **argv);
int command_stop(int argc, char **argv);
int command_top(int argc, char **argv);

#endif
