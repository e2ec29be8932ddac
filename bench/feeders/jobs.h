/* The jobs of GoldMiner's cluster experiment (Zhao et al., SIGMOD 2023, section 5.6): what their models need of a
 * machine, and traces drawn from a seed. docs/feed.md says which numbers are the paper's and which are assumed. */
#ifndef BENCH_FEEDERS_JOBS_H
#define BENCH_FEEDERS_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODELS = 10, JOBS_MAX = 1000 };

struct model {
    const char *name;
    double cpus;    /* CPUs per GPU for the full rate, of trainer and feeders together */
    double trainer; /* the trainer's own share of these CPUs when feeders do the rest */
    double peak;    /* highest rate with feeders, as a part of the rate without a limit by input (table 2, figure 9) */
    bool local;     /* scales badly in one process; the paper lets it use feeders on its own machine in all schedules */
    bool intensive;
};
extern const struct model models[MODELS];

struct job {
    const struct model *model;
    unsigned gpus;             /* GPUs, one for each trainer */
    double submitted, minutes; /* arrival time; duration when input is no limit */
};

/* Parameters from which a trace is drawn. */
struct trace_options {
    size_t jobs;
    double hours;   /* hours within which the jobs arrive, uniformly distributed */
    double minutes; /* mean duration at full rate; log-normal */
    double sigma;   /* standard deviation of the duration's logarithm */
    double longest; /* minutes; longer durations are drawn again */
};

/* Fills `jobs` (options->jobs of them), in order of submission. */
void trace_draw(const struct trace_options *options, uint64_t seed, struct job *jobs);

#endif
