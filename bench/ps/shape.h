/* A table to transfer: `rows` rows of `width` floats, dealt to `partitions`, one message each. */
#ifndef BENCH_PS_SHAPE_H
#define BENCH_PS_SHAPE_H

#include "agileml/net/key.h"
#include "agileml/wire/message.h"

#include <stdint.h>

struct shape {
    uint32_t rows, width, partitions;
    unsigned repeats;          /* transfers of the whole table in one sample, so that a sample takes milliseconds */
    const struct net_key *key; /* key for AgileML's connections; NULL: no encryption */
};

/* Returns the rows of partition `number`. Keys are dealt to the partitions in turn. */
static inline uint32_t shape_rows(const struct shape *shape, uint32_t number) {
    return shape->rows / shape->partitions + (number < shape->rows % shape->partitions ? 1 : 0);
}

/* This process has a worker that changes the rows, and another that only reads them. The other process has the server's
 * node. */
static const actor_id SHAPE_WORKER = 0x10000;
static const actor_id SHAPE_READER = 0x30000;
static const actor_id SHAPE_SERVER_AGENT = 0x20000;
static const actor_id SHAPE_SERVER = 0x20001;

#endif
