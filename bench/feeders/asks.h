/* A trainer's requests to its feeders. A batch of records is made by the transforms that run on feeders, from one data
 * shard for one clock. Chooses the feeder for each batch, limits the bytes that may be on their way or unused, asks
 * another feeder when an answer is late, and takes each batch once. Pure state: no sockets, no clock reads. Only the
 * simulation bench/feed (docs/feed.md) uses it; in jobs workers/node/feed/node_feed.c decides.
 *
 * A batch is WANTED until a feeder is asked for it, ASKED until the first answer, HERE until it is used. When a feeder
 * is lost, its batches are WANTED again. A second answer is dropped.
 *
 * The bytes of all open asks and of all batches that are here stay within the queue's credit. The bytes of a feeder's
 * open asks stay within the feeder's credit. Only a repeated ask for the oldest batch may exceed the queue's credit:
 * all other batches may be waiting for it. */
#ifndef BENCH_FEEDERS_ASKS_H
#define BENCH_FEEDERS_ASKS_H

#include "agileml/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FEED_FEEDERS = 512,  /* most feeders of a trainer */
    FEED_BATCHES = 4096, /* most batches that are wanted, asked for or here */
    FEED_ASKS = 8192,    /* most open asks, late ones included */
    FEED_TRIES = 3,      /* most feeders that are asked for one batch */
    FEED_TIMES = 63,     /* latest answers, from which the median time is computed */
    FEED_TIMES_LEAST = 9 /* with fewer answers, nothing counts as late */
};
#define FEED_LATE 3.0 /* an answer is late after this multiple of the median time */

struct feed_batch {
    uint32_t shard, clock;
};

/* An ask to be sent. */
struct feed_ask {
    uint64_t feeder;
    struct feed_batch batch;
    bool again; /* another feeder was asked before */
};

enum feed_answer {
    FEED_TAKEN,    /* the batch is here */
    FEED_REPEATED, /* another feeder's answer was taken: drop this one */
    FEED_UNASKED,  /* protocol error, drop it: this feeder was not asked for the batch */
    FEED_LARGER    /* protocol error, drop it: more bytes than the batch may have. Another feeder is asked */
};

struct feed_asks;

/* Bytes of credit for the whole queue and for each feeder. Ends the program when out of memory. */
struct feed_asks *feed_asks_open(uint64_t queue_bytes, uint64_t feeder_bytes);
void feed_asks_close(struct feed_asks *asks);

/* Returns AML_ELIMIT when there are FEED_FEEDERS, AML_EINPUT when the feeder was added before. */
int feed_asks_add_feeder(struct feed_asks *asks, uint64_t feeder);
/* Other feeders are asked for its batches. Returns AML_EINPUT when there is no such feeder. */
int feed_asks_remove_feeder(struct feed_asks *asks, uint64_t feeder);

/* Adds a batch of at most `bytes`. Batches are asked for in the order in which they are added. Returns AML_ELIMIT when
 * there are FEED_BATCHES. Returns AML_EINPUT when the batch was added before or is larger than either credit. */
int feed_asks_want(struct feed_asks *asks, struct feed_batch batch, uint64_t bytes);

/* Fills `ask` with the next ask to send, which then counts as sent. Returns false when nothing is to be sent; call it
 * until then. `now` is in seconds. */
bool feed_asks_next(struct feed_asks *asks, double now, struct feed_ask *ask);
/* Returns when the next answer becomes late; INFINITY: never. */
double feed_asks_due(const struct feed_asks *asks);

enum feed_answer feed_asks_answer(struct feed_asks *asks, uint64_t feeder, struct feed_batch batch, uint64_t bytes,
                                  double now);

/* Frees the bytes of a batch that was used, or that the trainer made itself. Later answers for it are repeats. Returns
 * AML_EINPUT when it was not wanted. */
int feed_asks_used(struct feed_asks *asks, struct feed_batch batch);

/* Takes a batch that no feeder has been asked for, so that the trainer makes it. Returns whether there is one. */
bool feed_asks_take_back(struct feed_asks *asks, struct feed_batch *batch);

/* Bytes of all open asks and of the batches that are here; bytes of one feeder's open asks. */
uint64_t feed_asks_bytes(const struct feed_asks *asks);
uint64_t feed_asks_feeder_bytes(const struct feed_asks *asks, uint64_t feeder);

#endif
