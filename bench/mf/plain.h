/* Matrix factorization without a parameter server, to compare AgileML with. Runs the kernel of apps/mf on plain arrays,
 * by the threads of one process, in the same blocks and rounds as AgileML's worker runtime (workers/data/data.h). */
#ifndef BENCH_MF_PLAIN_H
#define BENCH_MF_PLAIN_H

#include "agileml/base/memory.h"
#include "agileml/control/state/controller.h"
#include "apps/mf/kernel.h"
#include "apps/mf/spread.h"
#include "workers/client/cache.h"
#include "workers/data/data.h"
#include "workers/process/pool.h"

/* The app gets the same settings, so that both do the same steps. */
#define PLAIN_RATE        0.025
#define PLAIN_DECAY       0.92
#define PLAIN_LAMBDA      0.035
#define PLAIN_LAMBDA_BIAS 0.01
#define PLAIN_BIAS_PRIOR  0
#define PLAIN_CLIP        2
enum { PLAIN_SEED = 1, PLAIN_SHARDS = CONTROLLER_SHARDS_DEFAULT /* the order of ratings depends on them */ };

/* Sums over a parser thread's ratings. */
struct plain_sums {
    struct mf_sums sums;
    double minimum, maximum;
};

struct plain {
    struct job job;
    struct cache cache; /* maps users and items to slots; its rows are not used */
    struct data data;
    uint32_t shards[PLAIN_SHARDS]; /* all shards of the job */
    bool data_open;
    struct data_set ratings; /* the ratings of all shards, arranged */
    struct pool pool;
    struct mf_kernel kernel;
    struct mf_spread spread;
    struct plain_sums *sums; /* sums of each parser thread */
    struct arena users, items;
    struct mf_sgd sgd;
    double *squared_errors; /* sum of each thread */
    double runs;            /* runs of ratings by the same user in one pass */
};

/* Reads the ratings of `path` and starts the threads. */
int plain_open(struct plain *plain, const char *path, unsigned threads, struct error *error);
void plain_close(struct plain *plain);
/* Sets the start values. */
int plain_begin(struct plain *plain, uint32_t rank, bool biases, struct error *error);
/* Runs pass `iteration` (from 1) over all ratings. Returns the root mean square error. */
double plain_pass(struct plain *plain, unsigned iteration);

#endif
