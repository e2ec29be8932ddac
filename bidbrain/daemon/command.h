/* The daemon's commands. Each reads its own command line and returns the exit status. */
#ifndef BIDBRAIN_DAEMON_COMMAND_H
#define BIDBRAIN_DAEMON_COMMAND_H

#include "bidbrain/daemon/daemon.h"

int command_run(int argc, char **argv);
/* Like command_run, for tests of crashes: `launch_step` is that of daemon_options. */
int command_run_watched(int argc, char **argv, void (*launch_step)(enum daemon_launch_step step));
int command_check_config(int argc, char **argv);
int command_status(int argc, char **argv);
int command_fetch_prices(int argc, char **argv);
int command_user_data(int argc, char **argv);

#endif
