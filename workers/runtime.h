/* One node's process: its threads and what they share. The main thread runs the node agent and the client on ZeroMQ,
 * each server thread a partition server (and, when it is to write checkpoints, a thread beside it), the pool's threads
 * the app's functions; the loader has the input read and gets sets of data ready in the background. app.c fills in the
 * app's side.
 * While the main thread sleeps, the pool's last thread that is through with a command stands in for it
 * (net_io_stand_in): nothing that is called the main thread's here may depend on which of the two threads does it.
 *
 * Who may touch the cache: the main thread under `lock`. The pool's threads use rows' values in place while they have a
 * command, find rows without a lock (params.c), and add rows under `lock`. The loader adds rows under `lock` and
 * `lists`, as client_gather goes through the lists of rows under `lists` alone. Rows move in memory only when the main
 * thread makes room (grow_cache), which it does for the loader and while the pool has no command. */
#ifndef AGILEML_WORKERS_RUNTIME_H
#define AGILEML_WORKERS_RUNTIME_H

#include "agileml.h"
#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "workers/check.h"
#include "workers/data.h"
#include "workers/node.h"
#include "workers/notice.h"
#include "workers/pool.h"

#include <stdatomic.h>

enum {
    RUNTIME_CLOSE_MS = 2000,       /* how long the app's functions may take to return at the end */
    RUNTIME_READ_NICE = 10,        /* how far reading the input stands back */
    RUNTIME_MEMORY_MS = 100,       /* how old the resident size that is reported may be: asking takes 20 us */
    RUNTIME_RETRY_MS = 1000,       /* the main thread is asked again for what has not come after so long */
    RUNTIME_CACHE_SLACK = 1 << 20, /* rows beyond those of the items that a sparse table's cache has room for */
    RUNTIME_CACHE_DENSE = 1 << 24  /* ... and a dense table's, at most */
};

/* The options that the library adds to an app's own. */
struct runtime_options {
    const char *controller, *tier, *name, *listen, *key, *compress;
    bool insecure, supervised, check, help, version, leave_on_rebalance, reject_nan;
    int64_t threads, server_threads;
    int64_t iterations, staleness, clocks_per_iteration, tolerance_iterations, evaluate_every, seed;
    int64_t standby_memory; /* MiB */
    double seconds, tolerance, connect_timeout, notice, patience;
    double poll_notice; /* seconds; below 0: nobody has said */
};

/* A partition that is to be written to a file. */
struct checkpoint_job {
    struct partition *partition;
    bool copy; /* the partition is ours to close */
    struct message_checkpoint checkpoint;
};

struct server_thread {
    struct runtime *runtime;
    struct net_io *io;
    struct server server;
    pthread_t handle;
    int stop; /* eventfd */
    bool started;
    struct pool writer;          /* one thread, from the first checkpoint on */
    struct checkpoint_job *jobs; /* that wait for it, oldest first */
    unsigned job_count;
    struct checkpoint_job writing; /* under way; no partition: none */
    struct message_written written;
};

/* Data that the app works on: what the node calls a set. */
struct runtime_set {
    unsigned number;
    uint32_t *shards;
    uint32_t shard_count;
    bool prepared;
    bool released; /* while it was being prepared */
    struct data_set items;
};

struct aml_worker {
    struct runtime *runtime;
    unsigned thread;
    uint64_t clock;
    bool leads;               /* aml_parallel may be called: the pool's other threads help this one */
    struct data_chunk *chunk; /* while reading */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    struct check_worker check;
};

/* What a reading of the input leaves for the main thread. */
struct runtime_input {
    struct wire_input_file *files; /* that `read` has named, in order; under `lock` while it is called */
    unsigned file_count;
    unsigned more; /* files that the last record stands for, beyond the first */
    bool news;     /* the fingerprint differs from that of the reading before: the node is to send INPUT */
};

/* The command that the pool works on, or did last. The main thread sets it before the command begins. */
struct runtime_command {
    bool busy;               /* the pool works on it */
    struct runtime_set *set; /* NULL: none */
    uint64_t clock;
    unsigned origins;                  /* nodes that work in this clock */
    bool again;                        /* it evaluates what was not just computed (node_hooks.evaluate) */
    bool last;                         /* it evaluates the job's last clock */
    bool begin;                        /* the app's begin is called first */
    unsigned begun_set, begun_origins; /* what begin was called for last; begun_origins 0: it was never called */
    uint64_t compute_us;
};

/* Only runtime_loader.c changes it. */
struct runtime_loader {
    struct pool pool;          /* one thread */
    struct runtime_set **sets; /* in the order in which they are to be prepared; the main thread's */
    unsigned set_count;
    struct runtime_set *preparing; /* the loader's, while it has a command */
    struct runtime_input input;    /* likewise */
    struct aml_worker reader;
    struct aml_worker *reading; /* [POOL_THREADS_MAX], for the threads of aml_read_ratings; NULL: not called yet */
};

/* The app's finish function: NONE --hooks.save--> RUNNING --hooks.unsave--> TO_RETURN; NONE once it has returned. */
enum runtime_finish { FINISH_NONE, FINISH_RUNNING, FINISH_TO_RETURN };

/* NONE --a connection comes about--> CONNECTED --WELCOME--> WELCOMED. From CONNECTED on the node may be a member. */
enum runtime_contact { CONTACT_NONE, CONTACT_CONNECTED, CONTACT_WELCOMED };

/* Who has told the node that its machine goes. The main thread's. */
struct runtime_cloud {
    struct notice *notice; /* NULL: the cloud is not asked */
    bool asked;            /* the cloud is */
    bool noticed;          /* it has given notice */
    bool warned;           /* SIGTERM has come */
};

/* How the process ends. The main thread's. */
struct runtime_end {
    int code;
    char text[ERROR_TEXT_MAX];
    bool rejoin;  /* it is to start anew */
    bool crashed; /* it dies as soon as the controller knows */
    bool stuck;   /* a thread did not return */
};

/* What a thread asks of a table, for the app's aml_scan; under `lock`. */
struct runtime_scan {
    bool wanted, arrived;
    uint32_t partition, table;
    uint64_t cursor;
    struct message piece;
};

/* What other threads ask of the main thread. */
struct runtime_asked {
    int wake;                       /* eventfd: there is something */
    pthread_cond_t answered;        /* rows or a scan's piece have come, or the job ends */
    unsigned waiting;               /* threads that wait for it */
    bool rows;                      /* rows were added to the cache: subscribe to them */
    uint64_t room[WIRE_TABLES_MAX]; /* slots that the loader wants the cache to have in all; 0: as it is */
    struct runtime_scan scan;
};

/* What the node tells the controller of the app. */
struct runtime_terms {
    struct wire_metric metrics[WIRE_METRICS_MAX];
    struct buffer *settings; /* struct wire_option each */
    struct message_register registration;
};

struct runtime_memory {
    uint64_t bytes, us; /* the resident size, as of then */
};

struct runtime {
    struct aml_app *app;
    struct runtime_options options;
    struct job job;
    struct runtime_terms terms;
    actor_id self;

    struct net *net;
    struct net_io *agent;
    struct node node; /* the main thread's; its client and cache too, but for what `lock` guards */
    struct server_thread *servers;
    struct pool pool;
    struct aml_worker *workers; /* one per thread of the pool */
    struct aml_worker configuring;
    struct runtime_command command;
    struct runtime_loader loader;
    struct data data; /* opened with the first set */
    enum runtime_contact contact;
    struct runtime_cloud cloud;
    struct runtime_memory memory;
    int signals; /* signalfd */

    pthread_mutex_t lock;   /* held by the main thread while it runs the node, by others while they add rows or ask */
    pthread_rwlock_t lists; /* of the cache, taken before `lock`: see above */
    struct runtime_asked asked; /* under `lock` */
    enum runtime_finish finish; /* under `lock` */
    bool stopping;              /* likewise: the job ends */
    struct error error;         /* of the app's functions, under `lock` */
    atomic_bool failed;         /* error is set, or the job ends: no more calls of the app */

    struct check check;
    struct row_lock *row_locks; /* params.c */
    struct runtime_end end;
};

/* A worker that is in no call of the app. */
void runtime_init_worker(struct aml_worker *worker, struct runtime *runtime, unsigned thread);
/* Makes a zeroed runtime ready for the app's configure and aml_error. */
void runtime_init(struct runtime *runtime);

/* Takes part in the job and returns how it ended: AML_OK, or a code with *error set. `runtime` has its app, options,
 * job and metrics; everything else is as runtime_init left it. When `end.stuck` is set afterwards a thread is still in
 * one of the app's functions, or writes a file: end with _exit. When `end.rejoin` is set the process is to execute
 * itself anew. */
int runtime_run(struct runtime *runtime, struct error *error);

/* For app.c. The input is read from this file, or this folder's files. In `read`, any of its threads. */
void runtime_input_file(struct runtime *runtime, const char *path);
/* No more of the app's functions are to be called: its data is not needed any more. */
bool runtime_failed(const struct runtime *runtime);
/* Has the main thread look at what others want of it, once it is there. Any thread. */
void runtime_wake(struct runtime *runtime);
/* For params.c, in the pool's threads. Adds rows to the cache where they are new, and returns when all have their
 * state: all of them take one trip. Keys are in range. 0, AML_ELIMIT or AML_ENOMEM when there is no room, AML_ESTOP
 * when the job ends first. */
int runtime_fetch(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count);
/* The next piece of a scan, into *piece, which the caller closes. */
int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece);

#endif
