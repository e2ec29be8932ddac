/* The transfers by AgileML: a partition server (agileml/ps/server.h) in one process, a worker's client
 * (workers/client/client.h) in another, both on ZeroMQ. There is no controller: each process gives its part the
 * plan. */
#ifndef BENCH_PS_PROTOCOL_H
#define BENCH_PS_PROTOCOL_H

#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "bench/ps/shape.h"
#include "workers/client/client.h"

#include <pthread.h>

/* ---- The server's process ---- */

struct protocol_server {
    struct job job;
    struct net *net;
    struct net_io *agent, *io;
    struct server server;
    pthread_t thread;
    int stop; /* eventfd that ends the server */
    bool started;
};

/* Starts the server's thread and gives it the plan. */
int protocol_server_open(struct protocol_server *server, const struct shape *shape, struct error *error);
void protocol_server_close(struct protocol_server *server);

/* ---- The worker's process ---- */

struct protocol_worker {
    struct job job;
    struct net *net;
    struct net_io *io;
    struct cache cache;
    struct client client;
    bool (*done)(const struct protocol_worker *worker); /* the condition that net_io_run waits for */
    uint64_t wanted;                                    /* the clock that `done` waits for, if it waits for a clock */
    double deadline;
    struct error error;
};

/* Connects `self` and follows the clocks of the partitions. The cache has all rows, but has not yet subscribed to
 * pushes of them. */
int protocol_worker_open(struct protocol_worker *worker, const struct shape *shape, actor_id self, const char *endpoint,
                         struct error *error);
void protocol_worker_close(struct protocol_worker *worker);

/* SHAPE_WORKER: changes every row, as an app does before a clock's flush. */
void protocol_change_rows(struct protocol_worker *worker);
/* After protocol_change_rows: begins a clock and takes the deltas of all rows. */
int protocol_gather(struct protocol_worker *worker, struct error *error);
/* After protocol_gather: flushes the deltas and waits until every partition has applied them. */
int protocol_push(struct protocol_worker *worker, struct error *error);

/* SHAPE_READER: subscribes to pushes of all rows and requests their state. Call it once, before protocol_pull. */
int protocol_subscribe(struct protocol_worker *worker, struct error *error);
/* Requests the changes since clock 0 (all rows), and waits until all are in the cache. */
int protocol_pull(struct protocol_worker *worker, struct error *error);

#endif
