/* The jobs of GoldMiner's cluster experiment (Zhao et al., SIGMOD 2023, section 5.6): what its models need of a
 * machine, and traces drawn from a seed. docs/feed.md says which of the numbers are the paper's and which are
 * assumed. */
#ifndef BENCH_FEEDERS_JOBS_H
#define BENCH_FEEDERS_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODELS = 10, JOBS_MAX = 1000 };

struct model {
    const char *name;
    double cpus;    /* for a GPU, with which the model trains at its full rate, feeders' and trainer's together */
    double trainer; /* of these, the trainer's own when feeders do the rest */
    double peak;    /* the highest rate with feeders by the rate without any limit by input (table 2, figure 9) */
    bool local;     /* scales badly in one process: the paper lets it use feeders on its own machine in all schedules */
    bool intensive;
};
extern const struct model models[MODELS];

struct job {
    const struct model *model;
    unsigned gpus;             /* one for each trainer */
    double submitted, minutes; /* the time it comes, and what it takes at the rate without any limit by input */
};

/* What a trace is drawn from. */
struct trace_options {
    size_t jobs;
    double hours;   /* within which jobs come, each moment as likely */
    double minutes; /* the mean duration at full rate: log-normal */
    double sigma;   /* of the logarithm */
    double longest; /* minutes; longer ones are drawn again */
};

/* Fills `jobs` (options->jobs of them), in order of submission. */
void trace_draw(const struct trace_options *options, uint64_t seed, struct job *jobs);

#endif
