/* What a trainer has asked of which feeder: batches of records, each made by the stages that run on feeders from one
 * data shard for one clock. Chooses the feeder for each batch, limits the bytes that may be on their way or unused,
 * asks elsewhere when an answer is late, and takes each batch once. Pure state: no sockets, no clock reads. For the
 * simulation bench/feed (docs/feed.md); in jobs workers/node_feed.c decides this.
 *
 * A batch is WANTED until a feeder is asked for it, ASKED until the first answer, HERE until it is used. A feeder that
 * is lost makes its batches WANTED again. An answer that comes second is dropped.
 *
 * Bytes of all open asks and of all batches that are here stay within the queue's credit; those of a feeder's open asks
 * within the feeder's. Only a repeated ask for the oldest batch may go beyond the queue's credit: everything else may
 * be waiting for this batch. */
#ifndef BENCH_FEEDERS_ASKS_H
#define BENCH_FEEDERS_ASKS_H

#include "agileml/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FEED_FEEDERS = 512,  /* the most feeders of a trainer */
    FEED_BATCHES = 4096, /* the most batches that are wanted, asked for or here */
    FEED_ASKS = 8192,    /* the most open asks, late ones included */
    FEED_TRIES = 3,      /* feeders that are asked for one batch, at most */
    FEED_TIMES = 63,     /* answers by which the median time is known */
    FEED_TIMES_LEAST = 9 /* before, nothing is late */
};
#define FEED_LATE 3.0 /* an answer is late after so many times the median */

struct feed_batch {
    uint32_t shard, clock;
};

/* A message that is to be sent. */
struct feed_ask {
    uint64_t feeder;
    struct feed_batch batch;
    bool again; /* another feeder was asked before */
};

enum feed_answer {
    FEED_TAKEN,    /* the batch is here */
    FEED_REPEATED, /* it was taken from another feeder: drop this one */
    FEED_UNASKED,  /* this feeder was not asked for it: drop it, the feeder breaks the protocol */
    FEED_LARGER    /* more bytes than the batch may have: likewise. The batch is asked for elsewhere */
};

struct feed_asks;

/* Bytes of credit for all, and of one feeder. Ends the program when out of memory. */
struct feed_asks *feed_asks_open(uint64_t queue_bytes, uint64_t feeder_bytes);
void feed_asks_close(struct feed_asks *asks);

/* Returns AML_ELIMIT when there are FEED_FEEDERS, AML_EINPUT when this one is among them. */
int feed_asks_add_feeder(struct feed_asks *asks, uint64_t feeder);
/* What it was asked for is asked of others. Returns AML_EINPUT when there is no such feeder. */
int feed_asks_remove_feeder(struct feed_asks *asks, uint64_t feeder);

/* Adds a batch of at most `bytes`. Batches are asked for in the order in which they are added. Returns AML_ELIMIT when
 * there are FEED_BATCHES, AML_EINPUT when it is among them or larger than either credit. */
int feed_asks_want(struct feed_asks *asks, struct feed_batch batch, uint64_t bytes);

/* Returns whether an ask is to be sent now, and which; it counts as sent. To be called until it returns false. `now`:
 * in seconds. */
bool feed_asks_next(struct feed_asks *asks, double now, struct feed_ask *ask);
/* The moment at which an answer becomes late; INFINITY: none. */
double feed_asks_due(const struct feed_asks *asks);

enum feed_answer feed_asks_answer(struct feed_asks *asks, uint64_t feeder, struct feed_batch batch, uint64_t bytes,
                                  double now);

/* The batch has been used, or made by the trainer itself: its bytes are free. Its answers that are still to come are
 * repeats. Returns AML_EINPUT when it was not wanted. */
int feed_asks_used(struct feed_asks *asks, struct feed_batch batch);

/* Takes a batch for which nobody has been asked yet, to be made by the trainer itself. Returns whether there is one. */
bool feed_asks_take_back(struct feed_asks *asks, struct feed_batch *batch);

/* Bytes of open asks and of batches that are here; of one feeder's open asks. */
uint64_t feed_asks_bytes(const struct feed_asks *asks);
uint64_t feed_asks_feeder_bytes(const struct feed_asks *asks, uint64_t feeder);

#endif
