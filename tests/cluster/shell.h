/* For tests with real processes: a folder of the test's own, command lines of the shell run in it, what they wrote, and
 * the summary of a job's report. Failures are cmocka's. One test program at a time uses it, on one thread. */
#ifndef TESTS_CLUSTER_SHELL_H
#define TESTS_CLUSTER_SHELL_H

#include <stdbool.h>
#include <stdio.h>

/* Makes the folder, /tmp/NAME.XXXXXX; finds the programs by PROTEUS_BIN. 0, or -1 as cmocka's set-up functions
 * return. */
int shell_open(const char *name);
/* Removes the folder: a group's tear-down function. */
int shell_close(void **state);

/* Whether the thread sanitizer runs: then a test of an app leaves out what shows it no new threads. */
bool only_threads(void);

/* Runs a command line in the folder: $bin, $tests and $examples are the build's folders, $run is "$bin/proteus run
 * --report report"; the output goes to the files `out` and `err`. Returns the exit status, 128 + the signal's
 * number. */
__attribute__((format(printf, 1, 2))) int run(const char *format, ...);
/* ... which must be 0. */
__attribute__((format(printf, 1, 2))) void run_well(const char *format, ...);
/* ... which must be 2, with `message` on standard error. */
void run_refused(const char *command, const char *message);

/* The folder's file `name`, opened as fopen does; must work. */
FILE *open_file(const char *name, const char *mode);
/* What it holds, a string from malloc; "" when there is no such file. */
char *read_text(const char *name);
/* The folder's file `name` has the text `expected` in it, or has no `unexpected`. */
void assert_text(const char *name, const char *expected);
void assert_no_text(const char *name, const char *unexpected);
/* A number of the summary in the folder's file `report`, of a job that ended well. */
double summary(const char *key);

/* A metric of an iteration in the folder's file `name`, a job's report. False: the iteration has no line, or its
 * line says that its metrics are of a part of the items. */
bool whole_metric(const char *name, unsigned iteration, const char *key, double *value);
/* Checks in `report`, of a job that ended well, that each iteration worked on all of `items`, and that its metrics
 * are of all items or its line says of which part. Returns how many iterations have metrics of a part. */
unsigned check_iterations(double items);

#endif
