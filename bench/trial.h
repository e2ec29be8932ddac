/* Runs a job of the real programs, proteus and an app, with one node. Reads its report as it comes, and measures each
 * iteration. */
#ifndef BENCH_TRIAL_H
#define BENCH_TRIAL_H

#include "agileml/base/error.h"
#include "bench/measure.h"

enum { TRIAL_ARGUMENTS_MAX = 32 };

/* A number of the report's iteration lines, with its value in each iteration of the job; 0 where a line lacks it. */
struct trial_number {
    const char *name;
    struct series values;
};

/* The command line of a job: trial_open begins it, trial_argument adds to it, trial_close frees it. */
struct bench_trial {
    char *arguments[TRIAL_ARGUMENTS_MAX + 1]; /* ends with NULL */
    unsigned passes;
    struct trial_number *numbers; /* the caller's, filled by trial_run; set after trial_open if wanted */
    unsigned number_count;
};

/* Finds the folder of the programs, $PROTEUS_BIN or ../bin seen from this program, and writes it into folder[size].
 * Returns false when proteus or `app` is not there. */
bool trial_find_programs(const char *app, char *folder, size_t size);

/* Returns how many passes to measure: `asked`, or if that is 0 as many as do `enough` work, from 6 to 200. CPU time is
 * read up to some 20 ms after an iteration, so that a job of a few short passes is inaccurate. */
unsigned trial_passes(int64_t asked, double work_of_pass, double enough);

/* Prepares a job of `app` with `passes` measured iterations, one before them and one after. At the report of the very
 * last iteration, the processes and their CPU time may be gone. */
void trial_open(struct bench_trial *trial, const char *folder, unsigned threads, unsigned partitions, const char *app,
                unsigned passes);
__attribute__((format(printf, 2, 3))) void trial_argument(struct bench_trial *trial, const char *format, ...);
void trial_close(struct bench_trial *trial);

/* Runs the job. Adds the wall and CPU seconds (of all the job's processes) of each measured iteration. Sets *objective
 * to that of the last measured iteration. Returns AML_EFAIL when the job fails. */
int trial_run(const struct bench_trial *trial, struct series *wall, struct series *cpu, double *objective,
              struct error *error);

#endif
