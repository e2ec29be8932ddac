/* One node's process: its threads and what they share. app.c fills in the app's side. The threads are:
 *
 *   main thread      runs the node agent and the client on ZeroMQ
 *   server threads   each runs a partition server, with a thread beside it that writes checkpoints
 *   pool             runs the app's functions
 *   loader           reads the input and arranges sets of data, in the background
 *
 * While the main thread sleeps, the last thread of the pool that ends a command borrows the main thread's loop
 * (net_io_borrow). So code "of the main thread" must not depend on the thread's identity.
 *
 * Access to the cache:
 *
 *   main thread   under `lock`
 *   pool          uses rows in place during a command, finds rows without a lock (params.c), adds rows under `lock`
 *   loader        adds rows under `lock` and `lists`, since client_gather reads the lists of rows under `lists` alone
 *
 * Rows move in memory only when the main thread makes room for the loader (runtime_grow_cache), while the pool has no
 * command. */
#ifndef AGILEML_WORKERS_RUNTIME_H
#define AGILEML_WORKERS_RUNTIME_H

#include "agileml.h"
#include "agileml/base/log.h"
#include "agileml/net/zmq.h"
#include "agileml/ps/server.h"
#include "workers/data/data.h"
#include "workers/data/input_deal.h"
#include "workers/data/input_range.h"
#include "workers/data/spill.h"
#include "workers/node/feed/node_feed.h"
#include "workers/node/node.h"
#include "workers/process/check.h"
#include "workers/process/feed_cut.h"
#include "workers/process/notice.h"
#include "workers/process/pool.h"
#include "workers/process/pulse.h"

#include <stdatomic.h>

enum {
    RUNTIME_FAREWELL_MS = 1000,    /* how long the controller may take to answer that this node has failed */
    RUNTIME_CLOSE_MS = 2000,       /* how long the app's functions may take to return at the end */
    RUNTIME_READ_NICE = 10,        /* the nice value of the threads that read the input */
    RUNTIME_MEMORY_MS = 100,       /* the greatest age of a reported resident size; measuring it takes 20 us */
    RUNTIME_PIECE_KIB = 16,        /* KiB of rows, for each partition, that make a piece of a flush (--flush-early) */
    RUNTIME_RETRY_MS = 1000,       /* the time after which a thread repeats its request to the main thread */
    RUNTIME_CACHE_SLACK = 1 << 20, /* rows beyond those of the items for which a sparse table's cache has room */
    RUNTIME_CACHE_DENSE = 1 << 24  /* a dense table's cache has room for all rows, if the table has fewer than this */
};

/* The part of the machine's or cgroup's memory that a process may use without --memory. The part of this memory that
 * data may use. */
#define RUNTIME_MEMORY_SHARE 0.6
#define RUNTIME_DATA_SHARE   0.75
/* The part of the process's memory that rows of put tables, with their keys and clocks, may use, in the cache and on
 * the servers together. */
#define RUNTIME_ROWS_SHARE 0.0625

/* The options that the library adds to an app's own. */
struct runtime_options {
    struct log_options log;
    const char *controller, *tier, *name, *group, *listen, *advertise, *key, *compress, *exchange, *strategy_name;
    enum strategy strategy;     /* of strategy_name */
    const char *memory, *spill; /* NULL: not given */
    bool iterations_open;       /* neither --iterations nor another end was given, so `iterations` is a default */
    bool insecure, supervised, check, help, version, leave_on_rebalance, reject_nan, flush_early;
    int64_t threads;     /* of the pool */
    int64_t threads_max; /* for a feeder whose number of threads the controller chooses: the same as `threads`; else
                            0 */
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

/* A thread that runs another actor of this process. */
struct actor_thread {
    struct net_io *io;
    pthread_t handle;
    int stop; /* eventfd */
    bool opened, started;
};

struct server_thread {
    struct actor_thread thread;
    actor_id node;
    struct server server;
    struct pool writer;          /* one thread; started with the first checkpoint */
    struct checkpoint_job *jobs; /* waiting for the writer, oldest first */
    unsigned job_count;
    struct checkpoint_job writing;  /* the job under way; partition NULL: none */
    struct message_written written; /* the writer's result */
};

struct pulse_thread {
    struct actor_thread thread;
    struct pulse pulse;
    struct wire_endpoint endpoint;
};

/* The data of one of the node's sets (node.h), which the app works on. */
struct runtime_set {
    unsigned number;
    uint32_t *shards;
    uint32_t shard_count;
    bool asked; /* hooks.prepare has requested it */
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
    struct file_call *file;   /* the file that the chunk's items come from; NULL: none */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
    struct check_worker check;
};

/* The result of reading the input, for the main thread. */
struct runtime_input {
    struct wire_input_file *files; /* the files that `read` has named, in order; under `lock` while `read` runs */
    unsigned file_count;
    unsigned more;  /* further files, which the last record stands for, when there are more files than records */
    uint64_t bytes; /* bytes that the present reading has read of the files */
};

/* The rows that the app has declared done in the clock under way (aml_rows_done). The main thread resets this before a
 * command. Then the pool's threads use it under `lock`, but read a row's entry without the lock. */
struct runtime_done {
    pthread_mutex_t lock;
    bool sends;      /* rows that are done are flushed before the clock ends */
    bool counts;     /* declarations count, for early flushes or for the checks */
    unsigned needed; /* the number of threads that must declare a row done */
    struct done_table {
        uint64_t count;      /* rows; 0: never used */
        bool used;           /* in this clock */
        unsigned char *rows; /* by row: how many threads have declared it done, or DONE_TAKEN */
        unsigned char *said; /* [needed][count]: whether this thread has declared the row done */
        uint64_t *hashes;    /* with checks: hashes of rows when they became done; else NULL */
    } tables[WIRE_TABLES_MAX];
    struct client_range *ranges; /* rows that are done and in no piece yet */
    unsigned range_count, range_capacity;
    size_t bytes;    /* bytes of the rows in `ranges` */
    unsigned pieces; /* pieces in this clock so far */
    uint64_t sent;   /* pieces of all partitions and clocks, so far */
};

/* The pool's present command, or its last one. The main thread sets the fields before the command begins. */
struct runtime_command {
    bool busy;               /* the pool works on the command */
    struct runtime_set *set; /* NULL: none */
    uint64_t clock;
    enum strategy strategy;
    double share;     /* the share of the clock's origin in the data */
    uint32_t parts;   /* the number of parts of an iteration that the command works on */
    uint64_t first;   /* the clock that the first of them has the number of */
    uint32_t step;    /* which of these parts the threads work on, from 0 */
    uint64_t lag;     /* of the rows that the clock sees: see client_lag */
    unsigned origins; /* nodes that work in this clock */
    bool again;       /* an evaluation that does not follow the clock's compute (node_hooks) */
    bool last;        /* an evaluation of the job's last clock */
    bool begin;       /* the app's begin is called before the clock */
    bool lots;        /* other nodes may do some of the clock's lots (node_lots.h) */
    bool lots_alone;  /* the items in no lot are done already */
    bool stepwise;    /* each local step of the clock is a command (node_gossip.h) */
    unsigned slice;   /* the set's slice that the threads work on */
    uint64_t items;   /* items that this command has worked on */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX]; /* of another node's lot */
    unsigned begun_set, begun_origins; /* set and origins of begin's last call; begun_origins 0: never called */
    uint64_t compute_us;               /* how long the app's clock functions took */
    struct runtime_done done;
};

/* What the transforms have made of the items of one clock. */
struct runtime_transformed {
    struct runtime_transformed *next;
    unsigned set; /* its number */
    uint64_t clock;
    unsigned part;
    size_t first, count; /* the items: a range of the set's items */
    unsigned transforms; /* number of the app's first transforms that made this; 0: feeders may run none */
    unsigned char *made; /* by item: the output of these transforms; NULL: 0 transforms */
    unsigned char *here; /* by item; 1: `made` has the item's output */
    uint64_t fed;        /* items that feeders have made */
};

/* The batches that this process makes: as a feeder for another node, or as a working node for a coming clock of its
 * own. */
struct runtime_feeding {
    struct feed_made made; /* the result. Its bytes: [batches[b].count] outputs of these transforms */
    unsigned transforms, threads;
    struct data_batch batches[WIRE_FEED_SHARDS_MAX];
    size_t items;        /* items of all batches */
    _Atomic uint64_t us; /* time of all threads, summed */
    atomic_bool failed;  /* a transform has failed */
};

/* The app's transforms, and their outputs. The main thread changes them between commands, the pool's threads during a
 * command. */
struct runtime_transforms {
    const struct aml_transform *list;
    unsigned count;
    bool train_only;                     /* all have AML_TRANSFORM_TRAIN */
    size_t out_size;                     /* bytes of the last transform's output for an item */
    struct runtime_transformed *present; /* for the last clock that was computed; NULL: none */
    struct runtime_transformed *coming;  /* outputs of feeders for coming clocks; used by the main thread */
    struct runtime_feeding feeding;
    struct feed_cut cut;
    /* In the command under way: the number of items for which this process ran the batches' transforms, and the summed
     * time of all threads for that. */
    _Atomic uint64_t made_items, made_us;
    unsigned char *outputs; /* of all transforms, for items that `made` lacks and for test items */
    size_t outputs_room;    /* items for which `outputs` has room */
    unsigned char *between; /* [threads][2][between_size]: outputs that the next transform takes */
    size_t between_size;
};

/* What the loader does. SETS --runtime_hook_read_part--> PART --the part is read--> SAMPLE --> SETS */
enum loader_task {
    LOADER_SETS = 0, /* it prepares sets, if there are any to prepare */
    LOADER_PART,     /* it reads this node's part */
    LOADER_SAMPLE,   /* it reads a sample of another node's part, while the node takes pieces of its shards */
};

struct runtime_loader {
    struct pool pool;          /* one thread */
    struct runtime_set **sets; /* in the order in which they were requested; used by the main thread */
    unsigned set_count;
    struct runtime_set *preparing; /* used by the loader while it has a command, else by the main thread */
    /* By table: the number of rows in the cache before the set was arranged. Later rows are in use for the set, or for
     * good. */
    uint32_t rows_before[WIRE_TABLES_MAX];
    enum loader_task task;
    struct runtime_input input;  /* used by the loader while it has a command, else by the main thread */
    struct input_deal deal;      /* deals the present reading's files to parts; used by the loader */
    struct input_ranges ranges;  /* used as `input` is */
    _Atomic uint64_t bytes_read; /* bytes of files, of all readings that have ended */
    struct aml_worker reader;
    struct aml_worker *reading; /* [POOL_THREADS_MAX], for the threads of aml_read_ratings; NULL: not called yet */
};

/* The state of the app's finish function:
 *
 *   NONE --hooks.save--> RUNNING --hooks.unsave--> TO_RETURN
 *
 * When finish returns, the state is NONE again. */
enum runtime_finish { FINISH_NONE, FINISH_RUNNING, FINISH_TO_RETURN };

/* NONE --a connection is made--> CONNECTED --WELCOME--> WELCOMED. From CONNECTED on the node may be a member. */
enum runtime_contact { CONTACT_NONE, CONTACT_CONNECTED, CONTACT_WELCOMED };

/* Warnings that the cloud will take this machine away. Used by the main thread. */
struct runtime_cloud {
    struct notice *notice; /* polls the cloud's metadata service; NULL: no polls */
    bool asked;            /* the metadata service was polled */
    bool noticed;          /* the metadata service has given notice */
    bool warned;           /* SIGTERM has come */
};

/* How the process ends. Used by the main thread. */
struct runtime_end {
    int code;
    char text[ERROR_TEXT_MAX];
    bool rejoin;  /* the process executes its program again */
    bool crashed; /* the app has crashed; the process dies when the controller has answered */
    bool untold;  /* the node has failed; the process ends when the controller has answered, or RUNTIME_FAREWELL_MS
                     later */
    bool stuck;   /* a thread did not return */
};

/* A request for a piece of a table, for the app's aml_scan. Under `lock`. */
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
    char *texts[NODE_NOTES_MAX]; /* the texts that the node does not have yet */
    unsigned waiting;
};

/* Requests of other threads to the main thread. */
struct runtime_asked {
    int wake;                       /* eventfd: raised when there is a request */
    pthread_cond_t answered;        /* signaled when rows or a scan's piece have arrived, or the job ends */
    unsigned waiting;               /* threads that wait for `answered` */
    bool rows;                      /* rows were added to the cache: subscribe to them */
    bool pieces;                    /* there are pieces of flushes to be sent */
    uint64_t room[WIRE_TABLES_MAX]; /* slots in all that the loader requests for each table; 0: no request */
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

/* Where data and rows go that exceed runtime_memory.limit. */
struct runtime_spill {
    struct spill data;
    struct arena_files rows; /* of put tables */
};

/* How much memory the process uses, and may use. */
struct runtime_memory {
    uint64_t bytes, us; /* the last measured resident size, and when it was measured */
    uint64_t limit;     /* bytes that the process should not exceed; 0: not known, no limit */
    struct runtime_spill spill;
};

/* The actors that other processes connect to. Each has a thread of its own. */
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
    struct runtime_transforms transforms;
    struct runtime_loader loader;
    struct data data; /* opened with the first set */
    enum runtime_contact contact;
    struct runtime_cloud cloud;
    struct runtime_memory memory;
    int signals; /* signalfd */

    pthread_mutex_t lock;       /* the main thread holds it while it runs the node; others while they add rows or make a
                                   request */
    pthread_rwlock_t lists;     /* guards the cache's lists of rows, see above; taken before `lock` */
    struct runtime_asked asked; /* under `lock` */
    enum runtime_finish finish; /* under `lock` */
    bool stopping;              /* the job ends; under `lock` */
    struct error error;         /* of the app's functions; under `lock` */
    atomic_bool failed;         /* `error` is set, or the job ends: the app's functions are not called any more */

    struct check check;
    struct row_lock *row_locks; /* params.c */
    struct runtime_end end;
};

/* Returns in how many clocks in turn each part of an iteration is worked on. It divides clocks_per_iteration. */
static inline unsigned runtime_phases(const struct runtime *runtime) {
    return runtime->app->phases > 0 ? runtime->app->phases : 1;
}

/* Returns the number of parts of an iteration. */
static inline unsigned runtime_parts(const struct runtime *runtime) {
    return (unsigned)runtime->options.clocks_per_iteration / runtime_phases(runtime);
}

/* The phase, from 0, the part of an iteration, from 0, and the iteration, from 1, that a clock belongs to. */
static inline unsigned runtime_phase(const struct runtime *runtime, uint64_t clock) {
    return (unsigned)((clock - 1) % runtime_phases(runtime));
}

static inline unsigned runtime_part(const struct runtime *runtime, uint64_t clock) {
    return (unsigned)((clock - 1) / runtime_phases(runtime) % runtime_parts(runtime));
}

static inline uint64_t runtime_iteration(const struct runtime *runtime, uint64_t clock) {
    return (clock - 1) / (uint64_t)runtime->options.clocks_per_iteration + 1;
}

/* The part that the present command works on. */
static inline unsigned runtime_command_part(const struct runtime *runtime) {
    return runtime_part(runtime, runtime->command.first + runtime->command.step);
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
/* Records a file that the library reads, and deals it to the `parts` parts of the input. Returns the extents that part
 * `index`, which this process reads, has of the file. Only in the thread that calls `read`. */
struct extent_range runtime_input_extents(struct runtime *runtime, const struct extents *extents, uint32_t index,
                                          uint32_t parts);
/* Begins to hash what part `index` has of a file, after runtime_input_extents and before its lines are read; and
 * records its hashes. */
void runtime_range_begin(struct runtime *runtime, const struct extents *extents, uint32_t index,
                         struct input_range *range);
void runtime_range_end(struct runtime *runtime, uint32_t index, const struct input_range *range);
/* Reports a line of the app to the people who run the job, unless this process has reported the line before. Any
 * thread, in `configure` too. */
void runtime_note(struct runtime *runtime, const char *text);
/* Frees the notes that no node took, as with --check. No other thread may be at work. */
void runtime_notes_close(struct runtime *runtime);
/* Whether the app's functions should return soon, as their results are not needed any more. */
static inline bool runtime_failed(const struct runtime *runtime) {
    return atomic_load_explicit(&runtime->failed, memory_order_acquire);
}
/* Declares rows first..first + count - 1 of a table done in this thread, for aml_rows_done, which has checked the
 * arguments. Returns 0 or a negative code. */
int runtime_done_say(struct aml_worker *worker, unsigned table, uint64_t first, uint64_t count);
/* Whether all threads have declared the row done in the clock under way, if declarations count. */
bool runtime_is_done(const struct runtime *runtime, unsigned table, uint64_t row);
/* Wakes the main thread to handle the requests in `asked`, if the thread runs already. Any thread. */
void runtime_wake(struct runtime *runtime);
/* Adds the rows that are not in the cache, fetches them in one trip, and returns when all have their state. For
 * params.c, in the pool's threads. Keys must be in range. Returns 0; AML_ELIMIT or AML_ENOMEM when there is no room;
 * AML_ESTOP when the job ends first. */
int runtime_fetch(struct runtime *runtime, unsigned table, const uint64_t *keys, size_t count);
/* Fetches the next piece of a scan into *piece, which the caller closes. Returns 0 or AML_ESTOP. */
int runtime_scan(struct runtime *runtime, uint32_t partition, uint32_t table, uint64_t cursor, struct message *piece);

#endif
