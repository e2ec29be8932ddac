/* The same transfers by ZeroMQ alone, without copies of our own, to compare AgileML with. A DEALER and a ROUTER
 * exchange as many messages with frames of the same sizes. Each message is answered. */
#ifndef BENCH_PS_BARE_H
#define BENCH_PS_BARE_H

#include "agileml/base/error.h"
#include "bench/ps/shape.h"

#include <pthread.h>

enum { BARE_ENDPOINT_MAX = 128 };

/* The messages of a shape, and the socket. */
struct bare {
    struct shape shape;
    void *context, *socket;
    unsigned char *keys, *values; /* contents of the largest partition, which all partitions send */
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
/* Sends one message per partition and waits for as many short answers. */
int bare_push(struct bare *bare, struct error *error);
/* Sends a short message per partition and waits for as many long answers. */
int bare_pull(struct bare *bare, struct error *error);

#endif
