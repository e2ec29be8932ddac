/* For tests with real processes: shell command lines in the test's own folder (tests/files.h), and the summary of a
 * job's report. Failures are cmocka's. Only one thread of a test program may use it. */
#ifndef TESTS_CLUSTER_SHELL_H
#define TESTS_CLUSTER_SHELL_H

#include "tests/files.h"

#include <stdbool.h>

/* Like files_open; also finds the programs, by PROTEUS_BIN. */
int shell_open(void **state);
/* Like shell_open, and writes 20 ratings of 5 users to ratings.csv. */
int shell_open_with_ratings(void **state);

/* Whether a sanitizer runs. Then tests may leave out cases that run the same code as others. */
bool sanitized(void);
/* Skips the test with sanitizers, under which other tests run the same code. */
void skip_sanitized(void);
/* Whether the thread sanitizer runs. Then tests of an app skip what starts no new threads. */
bool only_threads(void);

/* Runs a command line in the folder. $bin, $tests and $examples are the build's folders, $run is "$bin/proteus run
 * --report report". The output goes to the files `out` and `err`. Returns the exit status, or 128 + the signal's
 * number. */
__attribute__((format(printf, 1, 2))) int run(const char *format, ...);
/* Runs a command line, which must end with status 0. */
__attribute__((format(printf, 1, 2))) void run_well(const char *format, ...);
/* Runs a command line, which must end with status 2 and `message` on standard error. */
void run_refused(const char *command, const char *message);

/* Returns a number of the summary in the file `report`, of a successful job. */
double summary(const char *key);

/* Reads a metric of an iteration from the report `name`. Returns false when the iteration has no line, or its metrics
 * are of a part of the items. */
bool whole_metric(const char *name, unsigned iteration, const char *key, double *value);
/* Checks in `report`, of a successful job, that each iteration worked on all of `items`. Its metrics must be of all
 * items, or its line must say of which part. Returns how many iterations have metrics of a part. */
unsigned check_iterations(double items);

#endif
