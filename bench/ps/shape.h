/* One table as it is transferred: `rows` rows of `width` floats, dealt to `partitions`, one message each. */
#ifndef BENCH_PS_SHAPE_H
#define BENCH_PS_SHAPE_H

#include "agileml/net/key.h"
#include "agileml/wire/message.h"

#include <stdint.h>

struct shape {
    uint32_t rows, width, partitions;
    unsigned repeats; /* transfers of the whole table in one sample, so that a sample takes some milliseconds */
    const struct net_key *key; /* of AgileML's connections; NULL: none */
};

/* Rows of partition `number`: keys are dealt in turn. */
static inline uint32_t shape_rows(const struct shape *shape, uint32_t number) {
    return shape->rows / shape->partitions + (number < shape->rows % shape->partitions ? 1 : 0);
}

/* In this process a worker that changes the rows and another that only reads them; the server's node in the other. */
static const actor_id SHAPE_WORKER = 0x10000;
static const actor_id SHAPE_READER = 0x30000;
static const actor_id SHAPE_SERVER_AGENT = 0x20000;
static const actor_id SHAPE_SERVER = 0x20001;

#endif
