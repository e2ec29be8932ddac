/* The same transfers by bare ZeroMQ, without a copy where it has a say: frames of the same sizes in the same number of
 * messages between a DEALER and a ROUTER, each message answered. What AgileML's transfers are compared with. */
#ifndef BENCH_PS_BARE_H
#define BENCH_PS_BARE_H

#include "agileml/base/error.h"
#include "bench/ps/shape.h"

#include <pthread.h>

enum { BARE_ENDPOINT_MAX = 128 };

/* Messages of a shape, and where they go. */
struct bare {
    struct shape shape;
    void *context, *socket;
    unsigned char *keys, *values; /* of the largest partition */
    pthread_t thread;
    bool started;
};

/* ---- The server's process: a thread that answers until the context ends ---- */
int bare_server_open(struct bare *bare, const struct shape *shape, char endpoint[BARE_ENDPOINT_MAX],
                     struct error *error);
void bare_server_close(struct bare *bare);

/* ---- The worker's process ---- */
int bare_worker_open(struct bare *bare, const struct shape *shape, const char *endpoint, struct error *error);
void bare_worker_close(struct bare *bare);
/* Sends a message per partition, waits for as many short ones. */
int bare_push(struct bare *bare, struct error *error);
/* Sends a short message per partition, waits for as many long ones. */
int bare_pull(struct bare *bare, struct error *error);

#endif
