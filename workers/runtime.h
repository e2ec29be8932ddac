/* One node's process: its threads and what they share. The main thread runs the node agent and the client on ZeroMQ,
 * each server thread a partition server, the pool's threads the app's functions. app.c fills in the app's side. */
#ifndef AGILEML_WORKERS_RUNTIME_H
#define AGILEML_WORKERS_RUNTIME_H

#include "agileml.h"
#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "workers/data.h"
#include "workers/node.h"
#include "workers/pool.h"

#include <stdatomic.h>

enum {
    RUNTIME_ROW_LOCKS = 64,
    RUNTIME_CLOSE_MS = 2000,       /* how long the app's functions may take to return at the end */
    RUNTIME_SCAN_RETRY_MS = 1000,  /* a scan's piece is asked for again after so long */
    RUNTIME_CACHE_SLACK = 1 << 20, /* rows beyond those of the items that a sparse table's cache has room for */
    RUNTIME_CACHE_DENSE = 1 << 24  /* ... and a dense table's, at most */
};

/* The options that the library adds to an app's own. */
struct runtime_options {
    const char *controller, *tier, *name, *listen, *key;
    bool insecure, supervised, check, help, version;
    int64_t threads, server_threads;
    int64_t iterations, staleness, clocks_per_iteration, tolerance_iterations, evaluate_every, seed;
    double seconds, tolerance, connect_timeout;
};

struct server_thread {
    struct runtime *runtime;
    struct net_io *io;
    struct server server;
    pthread_t handle;
    int stop; /* eventfd */
    bool started;
};

struct aml_worker {
    struct runtime *runtime;
    unsigned thread;
    uint64_t clock;
    struct data_chunk *chunk; /* while reading */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

struct runtime {
    struct aml_app *app;
    struct runtime_options options;
    struct job job;
    struct wire_metric metrics[WIRE_METRICS_MAX];
    struct message_register registration; /* sent to the controller */
    actor_id self;

    struct net *net;
    struct net_io *agent;
    struct node node; /* the main thread's; its client and cache too, but for what `lock` guards */
    struct server_thread *servers;
    struct pool pool;
    struct aml_worker *workers; /* one per thread of the pool */
    struct data data;
    unsigned origins;    /* nodes that own data shards */
    unsigned data_files; /* that the app has read so far */
    bool begun;          /* the app's begin was called */
    bool saving;         /* the app's finish was called */
    uint64_t clock;
    uint64_t compute_us;
    int wake;    /* eventfd: the pool's threads ask the main thread for something */
    int signals; /* signalfd */

    pthread_mutex_t lock;    /* held by the main thread while it runs the node, by others while they add rows or ask */
    pthread_cond_t answered; /* rows or a scan's piece have come, or the job ends */
    unsigned waiting;        /* threads that wait for it */
    bool want_rows;
    bool new_rows; /* were added in a clock, and may not have their state yet */
    struct {
        bool wanted, arrived;
        uint32_t partition, table;
        uint64_t cursor;
        struct message piece;
    } scan;
    bool stopping;
    struct error error; /* of the app's functions, under `lock` */
    atomic_bool failed; /* error is set, or the job ends: no more calls of the app */

    pthread_mutex_t row_locks[RUNTIME_ROW_LOCKS]; /* rows changed by copy, by slot */

    bool stuck;
    bool welcomed; /* the controller was there */
    int end_code;
    char end_text[ERROR_TEXT_MAX];
};

/* Makes a zeroed runtime ready for the app's configure and aml_error. */
void runtime_init(struct runtime *runtime);

/* Takes part in the job and returns how it ended: AML_OK, or a code with *error set. `runtime` has its app, options,
 * job and metrics; everything else is as runtime_init
 * left it. When `stuck` is set afterwards a thread is still in one of the app's functions: end with _exit. */
int runtime_run(struct runtime *runtime, struct error *error);

/* For app.c: the row of `key`, fetched when new. A slot, or a negative code. */
int64_t runtime_slot(struct runtime *runtime, unsigned table, uint64_t key);
/* The next piece of a scan, into *piece, which the caller closes. */
int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece);

#endif
