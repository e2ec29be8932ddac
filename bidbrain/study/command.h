/* The commands that compute from recorded prices. Each reads its own command line and returns the exit status. */
#ifndef BIDBRAIN_STUDY_COMMAND_H
#define BIDBRAIN_STUDY_COMMAND_H

int command_simulate(int argc, char **argv);
int command_advise(int argc, char **argv);
int command_calibrate(int argc, char **argv);

#endif
