/* The simulated job: matrix factorization of a data set of the shape of the Netflix data. Says which rows a node
 * updates in a clock, how long it computes, and what the tables look like; there are no values. A user's ratings are in
 * one data shard and in one clock of each iteration. All users have equally many ratings; those of an item depend on
 * its popularity. */
#ifndef BENCH_SCALE_MODEL_H
#define BENCH_SCALE_MODEL_H

#include "agileml/ps/table.h"
#include "workers/client/cache.h"

enum {
    MODEL_USERS = 0,
    MODEL_ITEMS = 1 /* tables */,
    MODEL_WIDTH = 4 /* floats of a row here */,
    MODEL_CLOCKS_MAX = 64
};

struct model {
    uint32_t users, items;
    double ratings;
    uint32_t rank; /* each float of a row stands for rank / MODEL_WIDTH */
    unsigned clocks, staleness;
    double rating_ns;      /* time of a worker thread for one rating */
    double load_rating_ns; /* time to load and arrange one rating */
    double gather_byte_ns; /* time of a worker thread to take a byte of deltas */
    unsigned threads;      /* worker threads per node */
    bool whole;            /* a dense model instead of a factorization: in each clock every node changes all items */
    enum exchange exchange;
    double jitter;        /* computing takes longer or shorter by up to this part */
    double *item_ratings; /* ratings of each item */
    struct job job;
};

void model_open(struct model *model);
void model_close(struct model *model);

/* The work of a node. */
struct model_set {
    unsigned number; /* number of the node */
    uint32_t *shards;
    uint32_t shard_count;
    double ratings;
    struct model_rows {
        uint32_t *slots; /* slots of these rows in the cache */
        uint64_t *parts; /* one bit per part of an iteration, set if the row is touched in it */
        uint32_t count;
    } rows[2]; /* indexed by table */
};

/* Opens a node's set with `count` of the job's shards, and adds its rows to the cache. Returns false when the cache is
 * full. */
bool model_set_open(const struct model *model, unsigned number, const uint32_t *shards, uint32_t count,
                    uint32_t shards_of_job, struct cache *cache, struct model_set *set);
void model_set_close(struct model_set *set);

/* Changes the rows that the set touches in a clock. Returns the microseconds that computing takes. `chance` is from 0
 * to 1. */
double model_compute(const struct model *model, const struct model_set *set, uint64_t clock, struct cache *cache,
                     double chance);
/* Returns the training items of a clock. */
uint64_t model_items(const struct model *model, const struct model_set *set);
/* Returns how long it takes to load `ratings` ratings. */
double model_load_us(const struct model *model, double ratings);

#endif
