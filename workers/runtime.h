/* One node's process: its threads and what they share. app.c fills in the app's side. The threads are:
 *
 *   main thread      runs the node agent and the client on ZeroMQ
 *   server threads   each runs a partition server, with a thread beside it that writes checkpoints
 *   pool             runs the app's functions
 *   loader           reads the input and arranges sets of data, in the background
 *
 * While the main thread sleeps, the last thread of the pool that ends a command borrows its loop (net_io_borrow). So
 * nothing that is "the main thread's" here may depend on the identity of the thread.
 *
 * Access to the cache:
 *
 *   main thread   under `lock`
 *   pool          uses rows in place during a command, finds rows without a lock (params.c), adds rows under `lock`
 *   loader        adds rows under `lock` and `lists`, since client_gather reads the lists of rows under `lists` alone
 *
 * Rows move in memory only when the main thread makes room for the loader (runtime_grow_cache), which it does while the
 * pool has no command. */
#ifndef AGILEML_WORKERS_RUNTIME_H
#define AGILEML_WORKERS_RUNTIME_H

#include "agileml.h"
#include "agileml/base/log.h"
#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "workers/check.h"
#include "workers/data.h"
#include "workers/feed_cut.h"
#include "workers/node.h"
#include "workers/notice.h"
#include "workers/pool.h"
#include "workers/pulse.h"
#include "workers/spill.h"
#include "workers/splits.h"

#include <stdatomic.h>

enum {
    RUNTIME_FAREWELL_MS = 1000,    /* how long the controller may take to answer that this node has failed */
    RUNTIME_CLOSE_MS = 2000,       /* how long the app's functions may take to return at the end */
    RUNTIME_READ_NICE = 10,        /* the nice value of the threads that read the input */
    RUNTIME_MEMORY_MS = 100,       /* the greatest age of a reported resident size; to measure it takes 20 us */
    RUNTIME_PIECE_KIB = 16,        /* of rows for each partition make a piece of a flush (--flush-early) */
    RUNTIME_RETRY_MS = 1000,       /* after so long a thread repeats its request to the main thread */
    RUNTIME_CACHE_SLACK = 1 << 20, /* a sparse table's cache has room for so many rows beyond those of the items */
    RUNTIME_CACHE_DENSE = 1 << 24  /* the cache of a dense table has room for all rows, if there are fewer than this */
};

/* The part of the machine's or cgroup's memory that a process may use without --memory; the part of that for data. */
#define RUNTIME_MEMORY_SHARE 0.6
#define RUNTIME_DATA_SHARE   0.75
/* The part of it that rows of put tables may take with their keys and clocks, in the cache and on the servers
 * together. */
#define RUNTIME_ROWS_SHARE 0.0625

/* The options that the library adds to an app's own. */
struct runtime_options {
    struct log_options log;
    const char *controller, *tier, *name, *group, *listen, *advertise, *key, *compress, *exchange, *strategy_name;
    enum strategy strategy;     /* of strategy_name */
    const char *memory, *spill; /* NULL: not given */
    bool iterations_open; /* neither --iterations nor another end is given: `iterations` is a default */
    bool insecure, supervised, check, help, version, leave_on_rebalance, reject_nan, flush_early;
    int64_t threads;     /* of the pool */
    int64_t threads_max; /* of a feeder whose threads the controller may choose: `threads`; else 0 */
    int64_t server_threads, lots, slice, local_steps;
    int64_t iterations, staleness, clocks_per_iteration, tolerance_iterations, evaluate_every, seed;
    int64_t standby_memory; /* MiB */
    double seconds, tolerance, connect_timeout, notice, patience;
    double poll_notice; /* seconds; below 0: the option was not given */
};

/* A partition that is to be written to a file. */
struct checkpoint_job {
    struct partition *partition;
    bool copy; /* the server thread owns the partition and closes it after the write */
    struct message_checkpoint checkpoint;
};

struct server_thread {
    struct runtime *runtime;
    struct net_io *io;
    struct server server;
    pthread_t handle;
    int stop; /* eventfd */
    bool started;
    struct pool writer;          /* one thread; started with the first checkpoint */
    struct checkpoint_job *jobs; /* waiting for the writer, oldest first */
    unsigned job_count;
    struct checkpoint_job writing;  /* under way; no partition: none */
    struct message_written written; /* the writer's result */
};

struct pulse_thread {
    struct net_io *io;
    struct pulse pulse;
    struct wire_endpoint endpoint;
    pthread_t handle;
    int stop; /* eventfd */
    bool opened, started;
};

/* The data of one of the node's sets (node.h), which the app works on. */
struct runtime_set {
    unsigned number;
    uint32_t *shards;
    uint32_t shard_count;
    bool asked; /* for by hooks.prepare */
    bool prepared;
    bool released; /* the node released it while it was being prepared */
    struct data_set items;
};

struct aml_worker {
    struct runtime *runtime;
    unsigned thread;
    uint64_t clock;
    bool leads;               /* aml_parallel may be called, since the pool's other threads help this one */
    struct data_chunk *chunk; /* takes the emitted items; NULL: not in `read` */
    struct file_call *file;   /* the file that the chunk's items are from; NULL: none */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    struct check_worker check;
};

/* The result of reading the input, for the main thread. */
struct runtime_input {
    struct wire_input_file *files; /* the files that `read` has named, in order; under `lock` while `read` runs */
    unsigned file_count;
    unsigned more;  /* further files that the last record stands for, when there are more than records */
    uint64_t bytes; /* that the present reading has read of them */
};

/* Which rows the app has declared done in the clock under way (aml_rows_done). The main thread resets it before a
 * command; then the pool's threads use it under `lock`, and read a row's entry without it. */
struct runtime_done {
    pthread_mutex_t lock;
    bool sends;      /* such rows are flushed before the clock ends */
    bool counts;     /* declarations count: for that, or for the checks */
    unsigned needed; /* threads that must declare a row */
    struct done_table {
        uint64_t count;      /* rows; 0: never used */
        bool used;           /* in this clock */
        unsigned char *rows; /* by row: how many threads have declared it, or DONE_TAKEN */
        unsigned char *said; /* [needed][count]: this thread has */
        uint64_t *hashes;    /* with checks: of rows as they were when they were done; else NULL */
    } tables[WIRE_TABLES_MAX];
    struct client_range *ranges; /* that are done, and in no piece yet */
    unsigned range_count, range_capacity;
    size_t bytes;    /* of their rows */
    unsigned pieces; /* of this clock so far */
    uint64_t sent;   /* pieces of all partitions and clocks */
};

/* The pool's present command, or its last one. The main thread sets the fields before the command begins. */
struct runtime_command {
    bool busy;               /* the pool works on it */
    struct runtime_set *set; /* NULL: none */
    uint64_t clock;
    enum strategy strategy;
    double share;     /* of the clock's origin in the data */
    uint32_t parts;   /* of the iteration that the clock works on */
    uint32_t step;    /* which of them the threads work on, from 0 */
    uint64_t lag;     /* of the rows that the clock sees (client_lag) */
    unsigned origins; /* nodes that work in this clock */
    bool again;       /* an evaluation that does not follow the clock's compute (node_hooks) */
    bool last;        /* an evaluation of the job's last clock */
    bool begin;       /* the app's begin is called first */
    bool lots;        /* other nodes may do some of the clock's lots (node_lots.h) */
    bool lots_alone;  /* what is in no lot is done already */
    bool stepwise;    /* the clock's local steps are a command each (node_gossip.h) */
    unsigned slice;   /* of the set that the threads work on */
    uint64_t items;   /* worked on by this command */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX]; /* of another node's lot */
    unsigned begun_set, begun_origins; /* set and origins of begin's last call; begun_origins 0: never called */
    uint64_t compute_us;               /* how long the app's clock functions took */
    struct runtime_done done;
};

/* What the stages have made of the items of one clock. */
struct runtime_staged {
    struct runtime_staged *next;
    unsigned set; /* its number */
    uint64_t clock;
    unsigned part;
    size_t first, count; /* the items: a range of the set's */
    unsigned stages;     /* how many of the app's first ones made it; 0: feeders may run none */
    unsigned char *made; /* by item: what these stages have made; NULL: 0 stages */
    unsigned char *here; /* by item; 1: `made` has it */
    uint64_t fed;        /* items that feeders have made */
};

/* The batches that this process makes: a feeder for another one, a node that works for a coming clock of its own. */
struct runtime_feeding {
    struct feed_made made; /* its bytes: [batches[b].count], of these stages' outputs */
    unsigned stages, threads;
    struct data_batch batches[WIRE_FEED_SHARDS_MAX];
    size_t items;        /* of all of them */
    _Atomic uint64_t us; /* that the threads took, all together */
    atomic_bool failed;  /* a stage has failed */
};

/* The app's stages, and their outputs. Only runtime_stages.c changes it: the main thread between commands, the pool's
 * threads during a command. */
struct runtime_stages {
    const struct aml_stage *list;
    unsigned count;
    bool train_only;                /* all have AML_STAGE_TRAIN */
    size_t out_size;                /* of what all stages make */
    struct runtime_staged *present; /* of the last clock that was computed; NULL: none */
    struct runtime_staged *coming;  /* what feeders have made for coming clocks; used by the main thread */
    struct runtime_feeding feeding;
    struct feed_cut cut;
    /* In the command under way: for how many items this process ran the batches' stages, and how long that took in all
     * threads together. */
    _Atomic uint64_t made_items, made_us;
    unsigned char *outputs; /* of all stages, where `made` does not have them; of test items */
    size_t outputs_room;    /* items */
    unsigned char *between; /* [threads][2][between_size]: outputs of stages that another stage takes */
    size_t between_size;
};

/* Only runtime_loader.c changes it. */
struct runtime_loader {
    struct pool pool;          /* one thread */
    struct runtime_set **sets; /* in the order in which they were requested; used by the main thread */
    unsigned set_count;
    struct runtime_set *preparing; /* used by the loader while it has a command, else by the main thread */
    /* By table: the rows of the cache before the set was arranged. Later ones are in use for the set, or for good. */
    uint32_t rows_before[WIRE_TABLES_MAX];
    bool reads_part;             /* the loader's command is to read this node's part, and to prepare no set */
    struct runtime_input input;  /* used by the loader while it has a command, else by the main thread */
    struct splits_deal deal;     /* of the present reading's files; used by the loader */
    _Atomic uint64_t bytes_read; /* of the files of all readings that have ended */
    struct aml_worker reader;
    struct aml_worker *reading; /* [POOL_THREADS_MAX], for the threads of aml_read_ratings; NULL: not called yet */
};

/* The state of the app's finish function:
 *
 *   NONE --hooks.save--> RUNNING --hooks.unsave--> TO_RETURN
 *
 * When finish returns, the state is NONE again. */
enum runtime_finish { FINISH_NONE, FINISH_RUNNING, FINISH_TO_RETURN };

/* NONE --a connection comes about--> CONNECTED --WELCOME--> WELCOMED. From CONNECTED on the node may be a member. */
enum runtime_contact { CONTACT_NONE, CONTACT_CONNECTED, CONTACT_WELCOMED };

/* Warnings that the cloud will take this machine away. Used by the main thread. */
struct runtime_cloud {
    struct notice *notice; /* polls the cloud's metadata service; NULL: no polls */
    bool asked;            /* the metadata service is polled */
    bool noticed;          /* the metadata service has given notice */
    bool warned;           /* SIGTERM has come */
};

/* How the process ends. Used by the main thread. */
struct runtime_end {
    int code;
    char text[ERROR_TEXT_MAX];
    bool rejoin;  /* the process starts anew */
    bool crashed; /* the app has crashed; the process dies when the controller has answered */
    bool untold;  /* the node has failed; the process ends when the controller has answered, or soon */
    bool stuck;   /* a thread did not return */
};

/* A request for a piece of a table, for the app's aml_scan; under `lock`. */
struct runtime_scan {
    bool wanted, arrived; /* SCAN is to be sent; `piece` has the answer */
    uint32_t partition, table;
    uint64_t cursor;
    struct message piece;
};

/* What the app has said (aml_note). Under `lock`. */
struct runtime_notes {
    uint64_t hashes[NODE_NOTES_MAX]; /* of all different texts */
    unsigned count;
    char *texts[NODE_NOTES_MAX]; /* that the node does not have yet */
    unsigned waiting;
};

/* Requests of other threads to the main thread. */
struct runtime_asked {
    int wake;                       /* eventfd: raised when there is a request */
    pthread_cond_t answered;        /* signaled when rows or a scan's piece have arrived, or the job ends */
    unsigned waiting;               /* threads that wait for `answered` */
    bool rows;                      /* rows were added to the cache: subscribe to them */
    bool pieces;                    /* there are pieces of flushes to be sent */
    uint64_t room[WIRE_TABLES_MAX]; /* slots that the loader wants each table to have in all; 0: no request */
    struct runtime_scan scan;
    struct runtime_notes notes;
};

/* The node's description of the app, for the controller. */
struct runtime_terms {
    struct wire_metric metrics[WIRE_METRICS_MAX];
    struct wire_option marks[AML_INPUT_MARKS_MAX]; /* aml_input_mark */
    unsigned mark_count;
    struct buffer *settings; /* struct wire_option each: options, then marks */
    struct message_register registration;
};

/* Where data and rows beyond runtime_memory.limit are. */
struct runtime_spill {
    struct spill data;
    struct arena_files rows; /* of put tables */
};

/* How much memory the process uses, and may use. */
struct runtime_memory {
    uint64_t bytes, us; /* the last measured resident size, and when it was measured */
    uint64_t limit;     /* bytes that the process is to keep to; 0: not known, no limit */
    struct runtime_spill spill;
};

/* What other processes connect to: each part has a thread of its own. */
struct runtime_servers {
    struct server_thread *list;
    struct pulse_thread pulse;
};

struct runtime {
    struct aml_app *app;
    struct runtime_options options;
    struct job job;
    struct runtime_terms terms;
    actor_id self;

    struct net *net;
    struct net_io *agent;
    struct node node; /* used by the main thread, under `lock`; for the cache's rows see above */
    struct runtime_servers servers;
    struct pool pool;
    struct aml_worker *workers; /* one per thread of the pool */
    struct aml_worker configuring;
    struct runtime_command command;
    struct runtime_stages stages;
    struct runtime_loader loader;
    struct data data; /* opened with the first set */
    enum runtime_contact contact;
    struct runtime_cloud cloud;
    struct runtime_memory memory;
    int signals; /* signalfd */

    pthread_mutex_t lock;       /* the main thread holds it while it runs the node; others while they add rows or ask */
    pthread_rwlock_t lists;     /* guards the cache's lists of rows, see above; taken before `lock` */
    struct runtime_asked asked; /* under `lock` */
    enum runtime_finish finish; /* under `lock` */
    bool stopping;              /* the job ends; under `lock` */
    struct error error;         /* of the app's functions; under `lock` */
    atomic_bool failed;         /* `error` is set, or the job ends: the app is not called any more */

    struct check check;
    struct row_lock *row_locks; /* params.c */
    struct runtime_end end;
};

/* The part of an iteration, from 0, and the iteration, from 1, that a clock belongs to. */
static inline unsigned runtime_part(const struct runtime *runtime, uint64_t clock) {
    return (unsigned)((clock - 1) % (uint64_t)runtime->options.clocks_per_iteration);
}

static inline uint64_t runtime_iteration(const struct runtime *runtime, uint64_t clock) {
    return (clock - 1) / (uint64_t)runtime->options.clocks_per_iteration + 1;
}

/* The part that the present command works on. */
static inline unsigned runtime_command_part(const struct runtime *runtime) {
    return runtime_part(runtime, runtime->command.clock + runtime->command.step);
}

/* Makes a worker that is in no call of the app. */
void runtime_init_worker(struct aml_worker *worker, struct runtime *runtime, unsigned thread);
/* Makes a zeroed runtime ready for the app's configure and aml_error. */
void runtime_init(struct runtime *runtime);

/* Takes part in the job and returns its result: AML_OK, or a code with *error set. The caller has filled in the app,
 * options, job and terms; everything else must be as runtime_init left it. Afterwards:
 *
 *   end.stuck    a thread is still in one of the app's functions, or writes a file: end the process with _exit
 *   end.rejoin   the process must execute itself anew */
int runtime_run(struct runtime *runtime, struct error *error);

/* Records that the input is read from this file, or from this folder's files. In `read`, any of its threads. */
void runtime_input_file(struct runtime *runtime, const char *path);
/* Reports a file that the library reads, and deals it to the `parts` parts of the input. Returns what the part `index`
 * has of it, which this process reads. In `read` itself. */
struct split_part runtime_input_splits(struct runtime *runtime, const struct splits *splits, uint32_t index,
                                       uint32_t parts);
/* Says a line of the app to the people who run the job, unless this process has said it. Any thread, in `configure`
 * too. */
void runtime_note(struct runtime *runtime, const char *text);
/* Frees the notes that did not get to a node, as with --check. No thread may be at work. */
void runtime_notes_close(struct runtime *runtime);
/* Whether the app's functions are to return soon, as their results are not needed any more. */
bool runtime_failed(const struct runtime *runtime);
/* A thread declares rows first..first + count - 1 of a table done, for aml_rows_done, which has checked the arguments.
 * Returns 0 or a negative code. */
int runtime_done_say(struct aml_worker *worker, unsigned table, uint64_t first, uint64_t count);
/* Whether all threads have declared the row done in the clock under way, and that counts. */
bool runtime_is_done(const struct runtime *runtime, unsigned table, uint64_t row);
/* Wakes the main thread to handle the requests in `asked`, if it runs already. Any thread. */
void runtime_wake(struct runtime *runtime);
/* Adds the rows that are not in the cache, fetches them in one trip, and returns when all have their state. For
 * params.c, in the pool's threads. Keys must be in range. Returns 0; AML_ELIMIT or AML_ENOMEM when there is no room;
 * AML_ESTOP when the job ends first. */
int runtime_fetch(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count);
/* Fetches the next piece of a scan into *piece, which the caller closes. Returns 0 or AML_ESTOP. */
int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece);

#endif
