/* The other process. It is forked, holds both servers of one shape, and ends when this process closes `control` or
 * dies. */
#ifndef BENCH_PS_PEER_H
#define BENCH_PS_PEER_H

#include "agileml/wire/message.h"
#include "bench/ps/bare.h"
#include "bench/ps/shape.h"

#include <sys/types.h>

struct peer {
    pid_t process;
    int control; /* closing it ends the process */
    char protocol[WIRE_ENDPOINT_MAX];
    char bare[BARE_ENDPOINT_MAX];
};

/* This process must have no other threads. */
int peer_open(struct peer *peer, const struct shape *shape, struct error *error);
void peer_close(struct peer *peer);

#endif
