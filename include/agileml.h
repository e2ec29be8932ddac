/* AgileML: write a machine-learning app against a parameter server, and run it on a mix of reliable and
 * revocable machines. This is all that an app includes; docs/api.md walks through a complete app.
 *
 * An app is one struct aml_app: its tables of parameters, how its data is read, and one function that is
 * called with the data items of each clock. main is `return aml_main(&app, argc, argv);`. The program is then started
 * by `proteus run -- ./app ...`, once per node; in each process one worker thread per --threads runs the functions
 * below.
 *
 * Words. An *iteration* is one pass over the data, a *clock* a part of one (--clocks-per-iteration). What a worker adds
 * during a clock is summed over its process and sent at the clock's end; every read sees all updates of all workers up
 * to some clock c - 1 - staleness or later, nothing newer from others, and all of its own process's. (Stale
 * synchronous parallel; paper section 2.1.)
 *
 * Nodes may join and leave while the job runs, so a process's data may change between clocks: `begin` is called
 * again then, and `read` may be. Everything that must outlive a process belongs in tables.
 *
 * Errors: functions return 0 or a negative aml_error_code. Functions of the app return the same; a negative one ends
 * the job on all nodes with the line set by aml_error. Memory: whatever a function hands out is the library's.
 *
 * Misuse: a call that is not as described here ends the job, exit status 2, with a line that names the call. With
 * PROTEUS_CHECK=1 in the environment, most mistakes with rows in place end the job likewise (docs/api.md, "Checks"). */
#ifndef AGILEML_H
#define AGILEML_H

#include "agileml/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A worker thread's handle (also the reader's): valid during the call it was passed to, in the thread of that call. */
typedef struct aml_worker aml_worker;
struct aml_app;
struct aml_row_checks;

enum {
    AML_ITEM_ROWS_MAX = 2,
    AML_ITEM_BYTES_MAX = 1 << 20,  /* that an item carries */
    AML_VARIED_ROWS_MAX = 1 << 20, /* that a varied item names, in all */
    AML_VARIED_RUNS_MAX = 16       /* ... in so many runs */
};

/* A table of parameters: rows of `width` elements, named by 64-bit keys. */
struct aml_table {
    const char *name; /* at most 31 bytes */
    enum aml_type type;
    enum aml_mode mode; /* AML_ADD: updates of a clock are summed. AML_PUT: the row has one writer at a time */
    uint32_t width;
    uint64_t rows; /* keys are 0..rows-1 and all exist; 0: sparse, any key, rows appear when first used */
    /* 1: dense, and each process that works on data holds all of its rows in its cache, from its first `begin` on, in
     * order: slot == key, so aml_table_rows is a matrix of `rows` rows, `stride` bytes apart. Items need not name them.
     * The rows that any worker changed in a clock are sent to every process: for tables that each clock reads most of.
     * `finish` uses aml_scan: its process may have none of them. */
    int whole;
    /* 1: the app itself says which elements it changed in place and by how much (aml_give_changes), for AML_ADD and
     * whole numbers. Else the library finds that by a second copy of every row in the cache; without it rows take half
     * the memory, and a clock's exchange takes time for what was changed alone: for wide rows of which a clock changes
     * a few elements. aml_update_param sees to that by itself; aml_row and aml_touch are not for such a table. */
    int changes_given;
    /* Fills `row` (zeros before) with its start value: a pure function of its arguments, called in any thread of any
     * node, perhaps often. NULL: zeros. `context` is aml_app.context. */
    void (*start)(void *context, uint64_t key, void *row);
};

/* How a metric's value is made of what aml_metric_add summed over all workers. */
enum aml_metric_kind {
    AML_SUM = 0,       /* sum */
    AML_MEAN = 1,      /* sum / weight */
    AML_ROOT_MEAN = 2, /* sqrt(sum / weight), such as RMSE of squared errors */
    AML_EXP_MEAN = 3   /* exp(sum / weight), such as perplexity of negated log-likelihoods */
};

/* A number in the report's lines. The first metric is the objective: --tolerance looks at it. */
struct aml_metric {
    const char *name; /* its key in the report: a-z, 0-9 and _, at most 31 bytes */
    enum aml_metric_kind kind;
    int evaluated; /* 1: only `evaluate` adds to it, and the latest clock counts; 0: only `clock` adds to it, and it is
                    * summed over the iteration */
};

/* A varied item in memory; its slots and bytes follow, aligned to 4 bytes. */
struct aml_item {
    uint32_t row_count; /* slots, in the order in which aml_emit_varied named the rows */
    uint32_t size;      /* bytes after the slots */
};
/* Its slots, see aml_table_rows: row_count of them. */
static inline const uint32_t *aml_item_slots(const struct aml_item *item) {
    return (const uint32_t *)(const void *)(item + 1);
}
/* Its `size` bytes. */
static inline const void *aml_item_bytes(const struct aml_item *item) {
    return aml_item_slots(item) + item->row_count;
}
/* The one behind it: of `count` items, `count - 1` times. */
static inline const struct aml_item *aml_item_next(const struct aml_item *item) {
    const uint32_t *bytes = aml_item_slots(item) + item->row_count;
    return (const struct aml_item *)(const void *)(bytes + (item->size + 3) / 4);
}

/* Everything about an app. A zero field is a sensible default: "none". */
struct aml_app {
    const char *name;                 /* at most 31 bytes */
    const char *summary;              /* one line for --help */
    const struct aml_option *options; /* the app's own, ended by a NULL name; the library adds its own */
    /* Names of the app's options that only steer (a learning rate, how often something is evaluated), ended by NULL. A
     * job that goes on from a checkpoint may have other values of these; all other numbers and flags must be those of
     * the checkpoint. All nodes of a job must have the same numbers and flags. NULL: no option steers. Text, such as a
     * path, is never compared. */
    const char *const *steering;
    struct aml_table *tables;
    unsigned table_count; /* at most 16 */
    const struct aml_metric *metrics;
    unsigned metric_count; /* at most 16 */

    /* Data items. Each names `item_rows` rows, one of each of the tables item_tables[0..item_rows-1], and carries
     * `item_bytes` bytes. In memory an item is uint32_t slots[item_rows] (see aml_table_rows), then the bytes, padded
     * to 4. Items with the same first row (say, one user's ratings) always go to the same thread (until the next
     * `begin`) and to the same part of every iteration, and no two threads of a process work at once on items that
     * share their first or their second row: both may be changed in place. Items without rows (item_rows 0: samples
     * for tables that are `whole`, say) are dealt to the parts of an iteration and to threads in equal numbers, and
     * lie one behind the other, so that the items of a call are a matrix. */
    unsigned item_rows; /* 0, 1 or 2 */
    unsigned item_tables[AML_ITEM_ROWS_MAX];
    size_t item_bytes; /* at most AML_ITEM_BYTES_MAX */
    /* 1: items differ: each names any rows and carries any bytes (aml_emit_varied, struct aml_item); item_rows and
     * item_bytes are 0. An item stays in one part of every iteration and, until the next `begin`, with one thread;
     * parts and threads get about equal sizes (rows and bytes), not numbers, of items. Several threads may have items
     * that name the same rows: rows that one item alone names may be changed in place, others as aml_table_rows
     * says. */
    int item_varied;

    /* 1: `clock` and `evaluate` are called in one thread (number 0), with all of the process's items of the clock at
     * once; aml_parallel runs what they like in all threads. */
    int clock_alone;

    /* 1: `evaluate` is called in threads without test items, too: to measure on training items (aml_items). */
    int evaluate_always;

    int64_t iterations;           /* default of --iterations; 0: 20 */
    int64_t clocks_per_iteration; /* default of --clocks-per-iteration; `configure` may set it; 0: 1 */
    int64_t evaluate_every;       /* default of --evaluate-every; 0: 1 */

    /* The functions, in the order in which they are called. All but `read` and `clock` may be NULL. A function
     * that crashes or calls exit ends the process, with a backtrace on standard error; when the same happens in a
     * second process at the same clock, the job ends.
     *
     * configure: in every process, once, when the options have their values: checks them (that an input file can be
     * read, say) and may complete the tables (their width). Keep it quick: it also runs for --check. */
    int (*configure)(aml_worker *worker, struct aml_app *app);
    /* read: reads the whole input and calls aml_emit for each item, the same ones in every process; the library keeps
     * those of its node, and as many others as fit --standby-memory. In one thread; aml_read_ratings calls back in
     * several. Called again when the node is to work on data that was not kept, while the other functions go on: it
     * must not change what they use.
     * The controller compares what each process's `read` has emitted, kept or not, in whatever order: all items with
     * their keys and bytes. If that differs, the job ends before its first clock; a node that joins later is refused.
     * So the app must set every byte of an item, also those between a struct's fields. */
    int (*read)(aml_worker *worker, void *context);
    /* begin: before the process's first clock, when totals over all nodes are known, and again before each clock with
     * other items (aml_items) or another number of nodes (aml_nodes) than at the last call, and before an evaluation of
     * other items: replaces what depends on them. In one thread, while no other function but perhaps `read` runs. */
    int (*begin)(aml_worker *worker, void *context);
    /* clock: the worker's part of one clock, in one or more calls with different items; every thread (but see
     * clock_alone). Not called without items. */
    int (*clock)(aml_worker *worker, const void *items, size_t count, void *context);
    /* evaluate: after a clock, with the thread's test items (--evaluate-every); changes no rows. Not called without
     * items (but see evaluate_always). The job's last clock is always evaluated, in its whole state, and aml_last
     * returns 1 then; a clock that had been evaluated before it was named the last is evaluated once more. When a node
     * was lost before it could report, the nodes that have its items now evaluate them, in the state at hand, without
     * `clock`. */
    int (*evaluate)(aml_worker *worker, const void *items, size_t count, void *context);
    /* finish: after the last clock, in one thread of one process: save the model (aml_scan). The process may never have
     * had any items, and so no call of `begin`. When a node is lost meanwhile, aml_scan and aml_read_param fail with
     * AML_ESTOP; finish is to return that, and is called again, perhaps in another process. When finish returns
     * AML_EFAIL it is called again too, four times at most: twice in one process, then twice in that of the next
     * reliable node, if there is another. After that, and after any other error, the job has failed. */
    int (*finish)(aml_worker *worker, void *context);

    void *context; /* passed to all of them */
};

/* Runs the program: parses the command line (--help lists it), takes part in the job, and returns the exit status for
 * main: 0 done, 1 the job failed, 2 bad usage or bad input, with one line on standard error. `app` may change
 * meanwhile. */
int aml_main(struct aml_app *app, int argc, char **argv);

/* Sets the line for people that ends the job and returns `code`, for `return aml_error(worker, AML_EINPUT, ...)`. The
 * first error of a process counts. Any function of the app. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int aml_error(aml_worker *worker, int code, const char *format, ...);

/* ---- In `read` ---- */

enum aml_item_use { AML_TRAIN = 0, AML_TEST = 1 };

/* Gives one item: keys[item_rows] (NULL when item_rows is 0) name its rows; `bytes` (NULL when item_bytes is 0) are
 * copied. Returns 1 when this process keeps the item, for itself or in case it takes over another node's, 0 when not,
 * negative on an error (a key beyond a dense table's rows). Test items are for apps with an `evaluate`. */
int aml_emit(aml_worker *worker, enum aml_item_use use, const uint64_t *keys, const void *bytes);

/* A run of rows that a varied item names. */
struct aml_keys {
    unsigned table;
    uint32_t count;
    const uint64_t *keys;
};

/* aml_emit for an app with item_varied: names the rows of `runs`, all of them in order, and carries `size` bytes, all
 * copied. Data is cut into shards by `key` (a sample's or a document's number, say), which need not be a row's and need
 * not be unique. AML_EINPUT also for more rows, runs or bytes than the limits above. */
int aml_emit_varied(aml_worker *worker, enum aml_item_use use, uint64_t key, const struct aml_keys *runs,
                    unsigned run_count, const void *bytes, size_t size);

/* Says that the input is read from this file, or from the files in this folder. If the nodes' inputs differ, the
 * message names the path and its size. aml_read_ratings calls this for its own file. In `read`; any of its threads. */
void aml_input_file(aml_worker *worker, const char *path);

/* Adds to sum `index` (0..7), or raises maximum `index` (0..7), of the totals over all nodes. The value belongs to the
 * item that this worker emitted last, and counts once in the job, whichever processes keep the item; nothing happens
 * when aml_emit returned 0 for it. */
void aml_total_add(aml_worker *worker, unsigned index, double value);
void aml_total_raise(aml_worker *worker, unsigned index, double value);

struct aml_rating {
    uint64_t user;
    uint64_t item;
    float value;
};

/* Reads a file of lines `user item rating [time]`, separated by tabs, commas, semicolons, spaces or `::`, with or
 * without a header and quotes, with line ends of any system, plain or gzip, in parallel. `each` is called in several
 * threads, with a worker of its own, for runs of ratings. A line that does not fit is refused: AML_EINPUT, with file,
 * line and what was expected. */
int aml_read_ratings(aml_worker *worker, const char *path,
                     int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                     void *context);

/* --seed, --staleness. In any function. */
uint64_t aml_seed(const aml_worker *worker);
unsigned aml_staleness(const aml_worker *worker);

/* 64 well-mixed bits of both: for choosing test items at random but the same way in every process. */
uint64_t aml_mix(uint64_t seed, uint64_t value);

/* ---- From `begin` on ---- */

/* Totals are over the whole input: the same in every call. */
double aml_total(const aml_worker *worker, unsigned index);         /* the sum over all nodes */
double aml_total_maximum(const aml_worker *worker, unsigned index); /* -infinity when never raised */
uint64_t aml_total_items(const aml_worker *worker);                 /* training items of all nodes */
uint64_t aml_node_items(const aml_worker *worker);                  /* training items of aml_items */
unsigned aml_nodes(const aml_worker *worker);                       /* nodes that work on the data in this clock */
unsigned aml_threads(const aml_worker *worker);                     /* worker threads of this process */
/* This node's training items, those of all clocks of an iteration, in memory until the next `begin`; for preparing in
 * `begin`, and for `evaluate`. Now and then these are, for some clocks, only what a lost node has left undone. None in
 * `finish`. */
const void *aml_items(const aml_worker *worker, size_t *count);

/* Runs part(context, t, threads) for each t below threads = aml_threads(worker), at once in the process's worker
 * threads (t = 0 in the caller), and returns when all are through. Takes some microseconds. In `begin` and `finish`,
 * and with clock_alone in `clock` and `evaluate`; not within a part. Parts may use `worker` for rows by key, for
 * aml_give_changes and for what is known from `begin` on, and may use rows in place that were taken from aml_table_rows
 * before. */
void aml_parallel(aml_worker *worker, void (*part)(void *context, unsigned thread, unsigned threads), void *context);

/* ---- In `begin`, `clock`, `evaluate` and `finish` ---- */

unsigned aml_thread(const aml_worker *worker);    /* this thread's number, from 0; not in parts of aml_parallel */
uint64_t aml_clock(const aml_worker *worker);     /* worked on or evaluated, from 1; in `finish` the job's last one */
uint64_t aml_iteration(const aml_worker *worker); /* the iteration it belongs to, from 1 */
unsigned aml_clocks_per_iteration(const aml_worker *worker);
/* In `evaluate`: 1 when this is the evaluation of the job's last clock. An app that measures something only in some
 * iterations should measure it now too, so that the job ends with metrics of its final state. The same in all
 * processes. */
int aml_last(const aml_worker *worker);

/* Adds to metric `index` (in aml_app.metrics) for this clock: `evaluate` adds to metrics that are `evaluated`, `clock`
 * to the others. */
void aml_metric_add(aml_worker *worker, unsigned index, double sum, double weight);

/* ---- Rows by key, in `begin`, `clock`, `evaluate` and `finish` ----
 *
 * These functions copy rows out of this process's cache and add to them there. Any of the process's worker threads may
 * call them, several at once, also for the same rows.
 *
 * New rows. The first call for a row that no item names fetches the row from its server: one trip for all new rows of
 * the call. With staleness such a row may be newer than rows that were read before. It stays in the cache.
 *
 * What threads see. A read copies a whole row, never half of an update. It returns every update that a call in any
 * thread of this process has finished. Updates by several threads all count: sums of whole numbers are exact; floats
 * are added in the order in which the threads come, so that with several threads the last bits differ from run to run.
 * A call with several keys treats one row after the other: other threads may update rows in between. No lock protects a
 * row that other threads change in place at the same time (aml_table_rows).
 *
 * Results. 0, or a negative code that the app's function is to return. AML_EINPUT: no such table, or a key beyond a
 * dense table's rows; no row was copied or changed. AML_ELIMIT or AML_ENOMEM: the cache has no room for the new rows.
 * AML_ESTOP: the job ends before they come. With the last three, some of the rows may have been copied or changed. */

/* Copies row `key` into values[width]. */
int aml_read_param(aml_worker *worker, unsigned table, uint64_t key, void *values);
/* Adds delta[width] to row `key` (AML_PUT: replaces the row). In `clock` only. */
int aml_update_param(aml_worker *worker, unsigned table, uint64_t key, const void *delta);

/* Copies the rows keys[count] into the caller's values[count][width], in the order of the keys. A key may appear more
 * than once; each time gets a copy. Faster than as many calls with one key. Does nothing when count is 0. */
int aml_read_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, void *values);
/* Adds deltas[count][width] to the rows keys[count], in the order of the keys. A key that appears more than once gets
 * all its deltas; in a table with AML_PUT the last one stands. In `clock` only. Does nothing when count is 0. */
int aml_update_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const void *deltas);

/* ---- Rows in place ---- */

/* For tables with changes_given: says that the elements columns[count] of a row, ascending, have been changed in place,
 * by changes[count] (of the table's type). Any thread, any number of times for a row, but once for each change; in
 * `clock` only. AML_EINPUT for columns that don't ascend or are not there, and for other tables. */
int aml_give_changes(aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                     const void *changes);

/* The rows of a table in this process's cache, for use in place: as fast as a plain array. Row `slot` of an item is at
 * base + slot * stride, until the app's function returns (a slot names the same row for as long as the process runs).
 * Rows that more than one thread may change at once need aml_update_param; or, in tables of whole numbers (AML_INT32,
 * AML_INT64) with AML_ADD, relaxed atomic adds in place, if all that change them in this clock use those: what a clock
 * has added is found between calls of the app, never during one. `touched` may be set by several threads all the same,
 * by relaxed atomic stores or aml_touch. */
struct aml_rows {
    unsigned char *base;
    size_t stride;          /* bytes; a multiple of 16, base too */
    unsigned char *touched; /* a byte per slot: set it to 1 when the row was changed, or use aml_row */
    uint32_t count;
    /* The library's own: slots from `unchecked` on go to aml_check_row. */
    uint32_t unchecked;
    struct aml_row_checks *checks;
    uint64_t call;
};
struct aml_rows aml_table_rows(aml_worker *worker, unsigned table);

/* Not for apps. aml_touch, aml_row and aml_row_read call it for a slot that the table does not have, which ends the
 * job, and for every slot with PROTEUS_CHECK=1. `function` is the caller's name, `change` 1 if the caller marks the row
 * as changed. */
#if defined(__GNUC__)
__attribute__((cold))
#endif
void aml_check_row(struct aml_row_checks *checks, uint64_t call, uint32_t slot, int change, const char *function);

static inline void aml_mark_row(const struct aml_rows *rows, uint32_t slot, const char *function) {
    if (slot >= rows->unchecked) {
        aml_check_row(rows->checks, rows->call, slot, 1, function);
    } else {
#if defined(__GNUC__)
        __atomic_store_n(&rows->touched[slot], (unsigned char)1, __ATOMIC_RELAXED);
#else
        rows->touched[slot] = 1;
#endif
    }
}

/* Says that a row was, or is about to be, changed in place; any number of threads at once. */
static inline void aml_touch(const struct aml_rows *rows, uint32_t slot) {
    aml_mark_row(rows, slot, "aml_touch");
}

/* A row for reading and changing in place. */
static inline void *aml_row(const struct aml_rows *rows, uint32_t slot) {
    aml_mark_row(rows, slot, "aml_row");
    return rows->base + slot * rows->stride;
}
/* A row for reading in place. */
static inline const void *aml_row_read(const struct aml_rows *rows, uint32_t slot) {
    if (slot >= rows->unchecked) {
        aml_check_row(rows->checks, rows->call, slot, 0, "aml_row_read");
    }
    return rows->base + slot * rows->stride;
}

/* In `finish`: calls `each` with all rows of a table, from all servers, some thousands at a time: keys[count], packed
 * rows[count][width]. Rows that no clock has changed may be missing. A non-zero result of `each` ends the scan and is
 * returned. */
int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context);

#ifdef __cplusplus
}
#endif

#endif
