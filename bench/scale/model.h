/* The job that is simulated: matrix factorization of a data set of the Netflix data's shape. Which rows a node
 * touches in a clock, how long it computes, and what the tables look like; no values. A user's ratings are in one data
 * shard and one clock of each iteration; users have equally many ratings, items as many as their popularity says. */
#ifndef BENCH_SCALE_MODEL_H
#define BENCH_SCALE_MODEL_H

#include "agileml/ps/table.h"
#include "workers/cache.h"

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
    double rating_ns;      /* of one worker thread, for one rating */
    double load_rating_ns; /* to load and arrange one */
    double gather_byte_ns; /* to take a byte of deltas, of one worker thread */
    unsigned threads;      /* worker threads of a node */
    bool whole;            /* a dense model instead: every node has all items and changes all of them in each clock */
    enum exchange exchange;
    double jitter;        /* computing takes up to this part longer or shorter */
    double *item_ratings; /* by item */
    struct job job;
};

void model_open(struct model *model);
void model_close(struct model *model);

/* What a node works on. */
struct model_set {
    unsigned number; /* the node's */
    uint32_t *shards;
    uint32_t shard_count;
    double ratings;
    struct model_rows {
        uint32_t *slots; /* of the cache */
        uint64_t *parts; /* a bit for each part of an iteration in which it is touched */
        uint32_t count;
    } rows[2]; /* by table */
};

/* Of `shards` in all. Adds the rows to the cache. False when it has no room. */
bool model_set_open(const struct model *model, unsigned number, const uint32_t *shards, uint32_t count,
                    uint32_t shards_of_job, struct cache *cache, struct model_set *set);
void model_set_close(struct model_set *set);

/* Changes the rows that the set touches in a clock. Returns the microseconds that it takes; `chance` from 0 to 1. */
double model_compute(const struct model *model, const struct model_set *set, uint64_t clock, struct cache *cache,
                     double chance);
/* Training items of a clock. */
uint64_t model_items(const struct model *model, const struct model_set *set);
/* How long loading so many takes. */
double model_load_us(const struct model *model, double ratings);

#endif
