/* Transfers by AgileML: a partition server (agileml/ps/server.h) in one process, a worker's client (workers/client.h)
 * in another, both on the ZeroMQ io. No controller: each is given the plan by its own process. */
#ifndef BENCH_PS_PROTOCOL_H
#define BENCH_PS_PROTOCOL_H

#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "bench/ps/shape.h"
#include "workers/client.h"

#include <pthread.h>

/* ---- The server's process ---- */

struct protocol_server {
    struct job job;
    struct net *net;
    struct net_io *agent, *io;
    struct server server;
    pthread_t thread;
    int stop; /* eventfd */
    bool started;
};

/* Starts the server's thread and hands it the plan. */
int protocol_server_open(struct protocol_server *server, const struct shape *shape, struct error *error);
void protocol_server_close(struct protocol_server *server);

/* ---- The worker's process ---- */

struct protocol_worker {
    struct job job;
    struct net *net;
    struct net_io *io;
    struct cache cache;
    struct client client;
    bool (*done)(const struct protocol_worker *worker); /* what net_io_run waits for */
    uint64_t wanted;                                    /* the clock, if that is it */
    double deadline;
    struct error error;
};

/* Connects `self`, and follows the partitions' clocks. The cache has all rows, but pushes of them are not asked for
 * yet. */
int protocol_worker_open(struct protocol_worker *worker, const struct shape *shape, actor_id self, const char *endpoint,
                         struct error *error);
void protocol_worker_close(struct protocol_worker *worker);

/* SHAPE_WORKER. What the app would do before a clock's flush: changes every row. */
void protocol_change_rows(struct protocol_worker *worker);
/* Then: begins a clock and takes the deltas of all rows. */
int protocol_gather(struct protocol_worker *worker, struct error *error);
/* Then: flushes them, and waits until every partition has applied them. */
int protocol_push(struct protocol_worker *worker, struct error *error);

/* SHAPE_READER. Asks for pushes of all rows, and for their state; once, before protocol_pull. */
int protocol_subscribe(struct protocol_worker *worker, struct error *error);
/* Asks for what changed since clock 0, which is every row, and waits until all of it is in the cache. */
int protocol_pull(struct protocol_worker *worker, struct error *error);

#endif
