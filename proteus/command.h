/* The subcommands of the proteus program. Each takes its own command line, its name at argv[0], prints its one error
 * line itself, and returns the exit status that docs/proteus.md names. */
#ifndef PROTEUS_COMMAND_H
#define PROTEUS_COMMAND_H

int command_checkpoint(int argc, char **argv);
int command_controller(int argc, char **argv);
int command_evict(int argc, char **argv);
int command_follow(int argc, char **argv);
int command_join(int argc, char **argv);
int command_keygen(int argc, char **argv);
int command_report(int argc, char **argv);
int command_run(int argc, char **argv);
int command_status(int argc, char **argv);
int command_stop(int argc, char **argv);
int command_top(int argc, char **argv);

#endif
