/* A job of the real programs, proteus and an app, with one node: starts it, reads its report as it comes, and measures
 * what each iteration took. */
#ifndef BENCH_TRIAL_H
#define BENCH_TRIAL_H

#include "agileml/base/error.h"
#include "bench/measure.h"

enum { TRIAL_ARGUMENTS_MAX = 32 };

/* A number of the report's iteration lines, and its value in each of the job's iterations; 0 where a line lacks it. */
struct trial_number {
    const char *name;
    struct series values;
};

/* The command line of a job: trial_open begins it, trial_argument adds to it, trial_close frees it. */
struct trial {
    char *arguments[TRIAL_ARGUMENTS_MAX + 1]; /* ended by NULL */
    unsigned passes;
    struct trial_number *numbers; /* the caller's, to be filled; set after trial_open, if at all */
    unsigned number_count;
};

/* Finds the folder of the programs, $PROTEUS_BIN or ../bin seen from this program, into folder[size]; false when
 * proteus or `app` is not there. */
bool trial_find_programs(const char *app, char *folder, size_t size);

/* How many passes to measure: `asked`, or if that is 0 as many as do `enough` work, 6 to 200. CPU time is read when the
 * report's line of an iteration comes, up to some 20 ms late, so that a job of a few short passes tells little. */
unsigned trial_passes(int64_t asked, double work_of_pass, double enough);

/* One job of `app` with `passes` iterations to be measured, one before, and one after: when the last one is told of,
 * the processes and their CPU time may be gone. */
void trial_open(struct trial *trial, const char *folder, unsigned threads, unsigned partitions, const char *app,
                unsigned passes);
__attribute__((format(printf, 2, 3))) void trial_argument(struct trial *trial, const char *format, ...);
void trial_close(struct trial *trial);

/* Runs the job and adds the wall and CPU seconds (of all the job's processes) of each iteration that is to be
 * measured; *objective is the last one's of these. AML_EFAIL when the job fails. */
int trial_run(const struct trial *trial, struct series *wall, struct series *cpu, double *objective,
              struct error *error);

#endif
