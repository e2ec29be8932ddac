/* bidbrain's commands. Each reads its own command line and returns the exit status. */
#ifndef BIDBRAIN_COMMAND_H
#define BIDBRAIN_COMMAND_H

#include "agileml/base/options.h"
#include "bidbrain/daemon/daemon.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/market.h"
#include "bidbrain/policy/speeds.h"

int command_simulate(int argc, char **argv);
int command_advise(int argc, char **argv);
int command_calibrate(int argc, char **argv);
int command_run(int argc, char **argv);
/* The same for tests of crashes: `launch_step` is daemon_options'. */
int command_run_watched(int argc, char **argv, void (*launch_step)(enum daemon_launch_step step));
int command_check_config(int argc, char **argv);
int command_status(int argc, char **argv);
int command_fetch_prices(int argc, char **argv);
int command_user_data(int argc, char **argv);

/* Reads options, acts on --help (`usage` is the line behind "usage: "). 0: go on; 1: help was printed; else a code of
 * *error. */
int command_options(const struct aml_option *options, const char *usage, int argc, char **argv, struct error *error);
/* Ends a command: logs the error of a code other than 0. Returns the exit status. */
int command_end(int code, const struct error *error);
/* Reads and finishes the prices of `product` in `prices`: a file, a folder, or an SQLite store, whose name ends in .db.
 * Opens the catalog, with the types of the file `extra` unless it is NULL. Warns on the log about flaws of the data.
 * The caller closes both after success. */
int command_prices(const char *prices, const char *product, const char *extra, enum catalog_year year,
                   struct markets *markets, struct catalog *catalog, struct error *error);
/* Reads --speeds FILE, {"m1.large": 0.5}: the speeds of types' vCPUs, each above 0. The caller frees *list, also after
 * an error. AML_EINPUT with one line. */
int command_speeds(const char *path, struct type_speed **list, size_t *count, struct error *error);

#endif
