/* A job of the real programs, proteus and mf, with one node: starts it, reads its report as it comes, and
 * measures what each iteration took. */
#ifndef BENCH_MF_AGILE_H
#define BENCH_MF_AGILE_H

#include "agileml/base/error.h"
#include "bench/measure.h"

struct agile_options {
    const char *folder; /* of the programs */
    const char *data;
    unsigned threads, rank, passes, partitions;
    unsigned clocks; /* of an iteration; 0: the app's choice */
    bool biases;
};

/* Runs one job of 1 + `passes` iterations and adds the wall and CPU seconds (of all the job's processes) of each but
 * the first; *objective is the last one's. AML_EFAIL when the job fails. */
int agile_run(const struct agile_options *options, struct series *wall, struct series *cpu, double *objective,
              struct error *error);

#endif
