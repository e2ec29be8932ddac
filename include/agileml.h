/* AgileML: write a machine-learning app against a parameter server, and run it on a mix of reliable and revocable
 * machines. An app includes only this header; docs/api.md explains a complete app.
 *
 * An app is one struct aml_app: its tables of parameters, how its data is read, and a function that is called with the
 * data items of each clock. main is `return aml_main(&app, argc, argv);`. `proteus run -- ./app ...` starts the program
 * once per node. In each process one worker thread per --threads runs the functions of the app.
 *
 * A first app needs the twelve calls of the first half: aml_main, aml_error, aml_emit, aml_read_ratings,
 * aml_input_file, aml_table_rows, aml_row, aml_row_read, aml_read_param, aml_update_param, aml_metric_add, aml_scan.
 * The rest is under "Advanced", each group with the reason to use it.
 *
 * Words. An *iteration* is one pass over the data, a *clock* a part of one (--clocks-per-iteration). The updates
 * that a process makes during a clock are summed and sent at the clock's end. In clock c, a read sees all updates of
 * all workers up to some clock, c - 1 - staleness or later. It sees no newer updates of other processes, but all of
 * its own process (except with aml_table.apply). (Stale synchronous parallel: Proteus (EuroSys 2017), section 2.1.)
 *
 * Nodes may join and leave while the job runs. So a process's data may change between clocks. Then `begin` is called
 * again, and perhaps `read`. Everything that must outlive a process belongs in tables.
 *
 * Errors: functions return 0 or a negative aml_error_code. Functions of the app do the same; a negative code ends
 * the job on all nodes, with the line set by aml_error. Memory: the library owns all memory that its functions
 * return.
 *
 * Misuse: a call that breaks the rules in this header ends the job with exit status 2 and a line that names the
 * call. With PROTEUS_CHECK=1 in the environment, so do most mistakes with rows in place (docs/api.md, "Checks"). */
#ifndef AGILEML_H
#define AGILEML_H

#include "agileml/optimizers.h"
#include "agileml/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== A first app ==== */

/* A worker thread's handle. It is valid only during the call of the app's function that received it, and only in
 * that thread. */
typedef struct aml_worker aml_worker;
struct aml_app;
struct aml_row_checks;

enum {
    AML_ITEM_ROWS_MAX = 2,
    AML_ITEM_BYTES_MAX = 1 << 20,  /* bytes that an item carries */
    AML_VARIED_ROWS_MAX = 1 << 20, /* rows that a varied item names, in all its runs together */
    AML_VARIED_RUNS_MAX = 16,      /* number of runs of a varied item */
    AML_TRANSFORMS_MAX = 16,
    AML_PHASES_MAX = 32,
    AML_INPUT_MARKS_MAX = 8, /* marks that a process reports */
    AML_INPUT_MARK_BYTES_MAX = 31,
    AML_NOTES_MAX = 64,      /* different notes shown for a job */
    AML_NOTE_BYTES_MAX = 400 /* bytes of a note; longer notes are cut */
};

/* A table of parameters: rows of `width` elements, named by 64-bit keys. */
struct aml_table {
    const char *name; /* at most 31 bytes */
    enum aml_type type;
    enum aml_mode mode; /* AML_ADD: a clock's updates are summed. AML_PUT: a row has one writer at a time */
    uint32_t width;
    uint64_t rows; /* dense: keys are 0..rows-1 and all exist. 0: sparse, any key; a row appears when first used */
    /* Advanced. 1: a replicated table. Use it when each clock reads most rows. It must be dense. Each process that
     * works on data holds all its rows in its cache from its first `begin` on, in order: slot == key, so
     * aml_table_rows is a matrix of `rows` rows, `stride` bytes apart. Items need not name the rows. A row that any
     * worker changes in a clock is sent to every process. `finish` must use aml_scan, as its process may have none
     * of the rows. */
    int whole;
    /* Advanced. 1: the app itself reports its changes in place (aml_give_changes). Use it for wide rows of which a
     * clock changes a few elements, in tables of whole numbers with AML_ADD. Rows take half the memory, as the
     * library needs no second copy for comparison. A clock's exchange takes time only for the changes.
     * aml_update_param reports by itself. aml_row and aml_touch must not be used on such a table. */
    int changes_given;
    /* Advanced. Above 0: the app says what part of a row's change the servers add, by so many shares for each row
     * (aml_rows.shares). Use it where all nodes change the same rows by so many steps in a clock that their sum would
     * go too far. The first share is that of all elements but the last shares - 1, of which each has its own. At most
     * `width`. For tables of floats with AML_ADD and without an optimizer. */
    uint32_t shares;
    /* Advanced. Fills `row`, which contains zeros, with its start value. It must be a pure function of its
     * arguments, as any thread of any node calls it, perhaps often. NULL: zeros. `context` is aml_app.context. */
    void (*start)(void *context, uint64_t key, void *row);
    /* Advanced. An optimizer, which runs in the servers. Use it for updates such as gradients, whose step depends on
     * earlier updates. agileml/optimizers.h has optimizers such as Adam; an app may have its own.
     *
     * `apply` changes a row, and the row's state, by the sum of a clock's updates of all workers. It is called once
     * for each row and each clock in which some worker has updated the row, even if the sum is zero. Calls for a row
     * are in the order of the clocks, which count from 1. Whatever nodes fail, rows and states are as if each sum
     * had been applied once. `apply` must be a pure function of its arguments: any server thread of any node calls
     * it, and after a failure perhaps for the same clock again. It can't fail, and must not call the library. Row,
     * state and sum are aligned as their elements are. `parameters` must stay as they are from the end of
     * `configure` until aml_main returns, in every process, whether it has items or not.
     *
     * Workers see the rows, not the states. Their own updates are not part of a row until a server has applied them.
     * So in clock c a read sees all updates up to some clock, c - 1 - staleness or later. It sees no others, not
     * even this process's own. aml_update_param adds to the sum of this process's updates; for rows in place use
     * aml_row_sum. aml_row and aml_touch must not be used on such a table. With local steps (see "Strategies")
     * the workers call `apply`, for the updates of one call of `clock`.
     *
     * Requires AML_ADD, and excludes changes_given. NULL: row += sum. */
    void (*apply)(const struct aml_step *step, const void *parameters);
    const void *parameters;
    uint32_t state_width; /* elements of a row's state, of the table's type; initially zeros. May be 0. A table with
                      * states counts as two of the 16 */
    /* Advanced. Replaces `apply`, with the same rules, but is called for many rows at once: up to some thousands, in
     * any order and in any division of a clock's rows. Use it for optimizers whose call costs more than a row's
     * step, such as those in other languages. It may fail: it returns 0, or a negative code, which ends the job with
     * the line that it has written to steps->error. */
    int (*apply_rows)(const struct aml_steps *steps, const void *parameters);
};

/* How a metric's value follows from the sums of aml_metric_add over all workers. */
enum aml_metric_kind {
    AML_SUM = 0,       /* sum */
    AML_MEAN = 1,      /* sum / weight */
    AML_ROOT_MEAN = 2, /* sqrt(sum / weight), such as RMSE of squared errors */
    AML_EXP_MEAN = 3   /* exp(sum / weight), such as perplexity of negated log-likelihoods */
};

/* A number in the lines of the report. The first metric is the objective, which --tolerance watches. */
struct aml_metric {
    const char *name; /* its key in the report: a-z, 0-9 and _, at most 31 bytes */
    enum aml_metric_kind kind;
    int evaluated; /* 0: only `clock` adds to the metric, which is summed over the iteration. 1: only `evaluate` adds
                    * to it, and only the latest evaluated clock counts */
};

/* Advanced. A transform changes each item, anew in each iteration, before `clock` gets it. For instance, it shifts
 * images a little. They form a chain: each takes the output of the transform before it.
 *
 * A transform gets its item, and random bits that depend only on --seed, the item and the iteration. So a transform
 * makes the same output wherever and whenever it runs. It may call only aml_error and aml_seed. A transform with
 * AML_TRANSFORM_STATE may also read rows by key (aml_read_param, aml_read_params), aml_iteration, aml_total and
 * aml_total_maximum; then it runs in the process that trains on the item. (GoldMiner, Zhao et al., 2023, section 3.2.)
 * */
enum {
    AML_TRANSFORM_STATE = 1, /* the transform depends on more than its item */
    AML_TRANSFORM_TRAIN = 2, /* the transform is skipped for test items; its output has as many bytes as its input */

    /* Earlier names. */
    AML_STAGES_MAX = AML_TRANSFORMS_MAX,
    AML_STAGE_STATE = AML_TRANSFORM_STATE,
    AML_STAGE_TRAIN = AML_TRANSFORM_TRAIN
};

#define aml_stage aml_transform /* an earlier name */

struct aml_transform {
    const char *name; /* at most 31 bytes */
    const char *from; /* the transform before; NULL: the transform takes the item as `read` emitted it */
    unsigned flags;
    size_t bytes; /* of the output, at most AML_ITEM_BYTES_MAX */
    /* Makes `out` (aligned to 4 bytes, not initialized) from `in`, which is the item (for varied items, a struct
     * aml_item) or the output of the transform before. Called in every thread, at once for different items. `context`
     * is aml_app.context. */
    int (*run)(aml_worker *worker, uint64_t random, const void *in, void *out, void *context);
};

/* Everything about an app. A field that is 0 has a default: none, or the one named. */
struct aml_app {
    const char *name;                 /* at most 31 bytes */
    const char *summary;              /* one line for --help */
    const struct aml_option *options; /* the app's own options, ended by a NULL name; the library adds its own */
    /* Advanced. Names of the app's options that only steer (a learning rate, the frequency of evaluations), ended by
     * NULL. A job that resumes from a checkpoint may change them. All other numbers, flags and words must equal the
     * checkpoint's. Within a job, all nodes must have the same numbers, flags and words. Text, such as a path, is
     * never compared. NULL: no option steers. */
    const char *const *steering;
    struct aml_table *tables;
    unsigned table_count; /* at most 16 */
    const struct aml_metric *metrics;
    unsigned metric_count; /* at most 16 */

    /* Data items. Each item names `item_rows` rows, one in each of the tables item_tables[0..item_rows-1], and carries
     * `item_bytes` bytes. In memory an item is uint32_t slots[item_rows] (see aml_table_rows), then the bytes, padded
     * to 4.
     *
     * Items with rows: all items with the same first row (say, one user's ratings) go to the same thread until the
     * next `begin`. They are in the same part of every iteration. No two threads of a process work at once on items
     * that share their first or their second row. So the app may change both rows in place.
     *
     * Items without rows (item_rows 0; say, samples for replicated tables) are dealt to the parts of an iteration
     * and to threads in equal numbers. They are contiguous, so the items of a call are a matrix. */
    unsigned item_rows; /* 0, 1 or 2 */
    unsigned item_tables[AML_ITEM_ROWS_MAX];
    size_t item_bytes; /* at most AML_ITEM_BYTES_MAX */
    /* Advanced. 1: items differ in size, such as documents: each names any rows and carries any bytes
     * (aml_emit_varied, struct aml_item); item_rows and item_bytes are 0. An item stays in one part of every
     * iteration and, until the next `begin`, with one thread. Parts and threads get about equal sizes (rows and
     * bytes), not numbers, of items. Threads may work at once on items that name the same rows. So the app may
     * freely change in place only rows that a single item names; for other rows see struct aml_rows. */
    int item_varied;

    /* Advanced. 1: `clock` and `evaluate` are called in one thread (number 0), with all of the process's items of the
     * clock at once; aml_parallel then runs parts of the work in all threads. Use it where a clock's work is a few
     * large operations rather than many items. */
    int clock_alone;

    /* Advanced. 1: `evaluate` is called even in threads without test items, so that it can measure on training items
     * (aml_items). */
    int evaluate_always;

    /* Advanced. 1: the app supports --lots: when a process is late in a clock, other processes work on some of its
     * items. Then `clock` is called several times in a clock, also for items of another process that `begin` and
     * aml_items did not show. `clock` may use rows, items, metrics and data that is the same in every process, but
     * nothing that the app keeps for its process's own items. In tables with AML_PUT it may change only rows that
     * the call's items name. No table may have changes_given. */
    int lots;

    /* Advanced. 1: the app supports --strategy (see "Strategies"). `configure` may set this field. When aml_averages
     * is 1, tables of floats with an optimizer must be replicated (aml_table.whole). */
    int strategies;

    /* Advanced. 1: `clock` works in slices (aml_slice), so the app can be used with --slice. `configure` may set this
     * field. */
    int slices;

    /* Advanced. The transforms of an item, ended by a NULL name, for items without rows. `clock` and `evaluate` get the
     * last transform's output, padded to 4 bytes; aml_items returns items as `read` emitted them. A process keeps the
     * transforms' output for the items of one clock. Varied items are dealt as if they had equal sizes, as their
     * outputs have. `configure` may set this field. NULL: no transforms. */
    union {
        const struct aml_transform *transforms;
        const struct aml_transform *stages; /* an earlier name */
    };

    /* 1: `read` only emits items, adds to totals and names files; no other function depends on other data that
     * `read` leaves in memory. Then a node that takes over data receives it from nodes that have it, if there are
     * any. `read` may never be called in its process. */
    int read_only_emits;

    /* Default of --iterations; 0: 20. `configure` finds here how many the job has, 0: no limit, and may set it where
     * the option is not given (aml_iterations). */
    int64_t iterations;
    /* Default of --clocks-per-iteration; 0: 1. `configure` may set it. If the option is given, `configure` finds its
     * value here, and the option takes precedence. */
    int64_t clocks_per_iteration;
    /* Advanced. How many clocks in turn work on each part of an iteration, at most AML_PHASES_MAX: its phases
     * (aml_phase). Use it where a step needs what other items' steps before it have changed, as in a graph's layers.
     * 0: 1. clocks_per_iteration counts all these clocks: it must be a multiple, and is by default the number of
     * phases. Each phase calls `clock` with the same items; an item counts once in the report. Clocks are evaluated
     * only after a part's last phase. `configure` may set it. Excludes transforms, and all strategies but ssgd. */
    unsigned phases;
    int64_t evaluate_every; /* default of --evaluate-every; 0: 1 */
    /* Default of --strategy, with `strategies`; NULL: ssgd. `configure` may set it. It gives way to ssgd where an
     * option excludes it: --lots, --compress, --flush-early. */
    const char *strategy;
    /* The first iterations, in which every strategy is ssgd (post-local SGD; Lin et al., ICLR 2020): while a model is
     * new, nodes that rarely exchange would learn models that do not go together. `configure` may set it. */
    int64_t ssgd_iterations;

    /* The functions, in the order in which they are called. All but `read` and `clock` may be NULL. A function that
     * crashes or calls exit ends the process, with a backtrace on standard error. When a second process ends so at
     * the same clock, the job ends. */

    /* Called in every process, once, after the options have their values. Checks them (for example, that an input
     * file can be read), and may complete the tables (their width). Must be quick, since it also runs for --check. */
    int (*configure)(aml_worker *worker, struct aml_app *app);
    /* Reads the whole input and calls aml_emit for each item, for the same items in every process. The library keeps
     * its node's items, and as many others as fit --standby-memory. Called in one thread; aml_read_ratings and
     * aml_read_lines call back in several. `read` is called again when the node gets data that was not kept. The
     * other functions may run meanwhile, so `read` must not change what they use. With read_only_emits the processes
     * divide the files of aml_read_ratings and aml_read_lines at the beginning of a job: `read` is called in each
     * process, but `each` gets different lines in each, and every line once in the job. The controller compares the
     * items that the processes have emitted, kept or not, in any order: all items with their keys and bytes, but for
     * divided files only sizes, and bytes that two processes have read (docs/design.md, "The same input"). If they
     * differ, the job ends before its first clock; a node that joins later is rejected. So the app must set every byte
     * of an item, even those between a struct's fields. */
    int (*read)(aml_worker *worker, void *context);
    /* Advanced. Prepares what depends on this process's items (aml_items), on the number of nodes (aml_nodes) or on
     * the totals over all nodes. Called before the process's first clock, and again before each clock or evaluation
     * for which items or nodes have changed. Called in one thread; no other function runs meanwhile, except perhaps
     * `read`. */
    int (*begin)(aml_worker *worker, void *context);
    /* Does the worker's part of one clock, in one or more calls with different items. Called in every thread that
     * has items (but see clock_alone). */
    int (*clock)(aml_worker *worker, const void *items, size_t count, void *context);
    /* Advanced. Measures on the thread's test items after a clock (--evaluate-every), and changes no rows. Not
     * called without test items (but see evaluate_always). The job's last clock is always evaluated in its complete
     * state, and aml_last then returns 1. So if a clock becomes the last one only after its evaluation, it is
     * evaluated again. When a node is lost before it could report, the nodes that take over its items evaluate them
     * in the present state, without `clock`. */
    int (*evaluate)(aml_worker *worker, const void *items, size_t count, void *context);
    /* Saves the model (aml_scan), after the last clock. Called in one thread of one process. That process may never
     * have had items, nor a call of `begin`. When a node is lost meanwhile, aml_scan and aml_read_param return
     * AML_ESTOP. `finish` must return that code, and is called again, perhaps in another process. After AML_EFAIL (a
     * full disk, say), it is called again too: at most four times, twice in one process, then twice on the next
     * reliable node, if there is one. After that, and after any other error, the job has failed. */
    int (*finish)(aml_worker *worker, void *context);

    void *context; /* passed to all of these functions */
};

/* Runs the program: parses the command line (--help lists the options), takes part in the job, and returns main's exit
 * status. 0: done; 1: the job has failed; 2: bad usage or bad input. A failure prints one line on standard error. May
 * change `app`. */
int aml_main(struct aml_app *app, int argc, char **argv);

/* Sets the error line that ends the job, and returns `code`: `return aml_error(worker, AML_EINPUT, ...)`. Only the
 * first error of a process counts. Allowed in any function of the app. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
int aml_error(aml_worker *worker, int code, const char *format, ...);

/* ---- In `read` ---- */

/* Test items are only for apps with an `evaluate`. */
enum aml_item_use { AML_TRAIN = 0, AML_TEST = 1 };

/* Emits one item. keys[item_rows] name its rows (NULL when item_rows is 0). item_bytes bytes at `bytes` are copied
 * (NULL when item_bytes is 0). Returns 1 when this process keeps the item, for itself or in case it takes over
 * another node's data; 0 when it does not. Returns a negative code on an error (a key beyond a dense table's rows). */
int aml_emit(aml_worker *worker, enum aml_item_use use, const uint64_t *keys, const void *bytes);

/* Advanced. Like aml_emit, for items without rows that have numbers, such as a sample's number in the input. Any 64
 * bits are allowed, but only few items may share a number. Which items share a clock then depends only on their
 * numbers and their order. With aml_emit it also depends on their places in the bytes of a file. */
int aml_emit_numbered(aml_worker *worker, enum aml_item_use use, uint64_t number, const void *bytes);

struct aml_rating {
    /* A number is its own key. Any other id (an ISBN, a name, 007) is a text. Its key is a hash of its bytes, the
     * same in all processes and versions, with the highest bit set. */
    uint64_t user;
    uint64_t item;
    float value;
};

/* Reads files of ratings in parallel, plain, gzip or zstd: lines `user item rating [time]`, separated by tabs,
 * commas, semicolons, spaces or `::`, with line ends of any system; A header may name the columns (userId, movieId,
 * rating, ...; docs/mf.md), in any order. MatrixMarket files are read too. `path` names a file, a folder or a
 * pattern, or several of these (aml_files). Calls `each` with runs of ratings, in several threads, each with a
 * worker of its own. Returns AML_EINPUT for a malformed line or one without a rating, with the file, the line and
 * what was expected. */
int aml_read_ratings(aml_worker *worker, const char *path,
                     int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                     void *context);

/* Advanced. The values of an app's options --columns and --missing-ratings, which messages name. */
struct aml_ratings_options {
    const char *columns; /* user=NAME,item=2,rating=NAME or some of these: names in the header, or numbers from 1 */
    int skip_missing;    /* 1: skip lines without a rating */
};
int aml_read_ratings_by(aml_worker *worker, const char *path, const struct aml_ratings_options *options,
                        int (*each)(aml_worker *worker, const struct aml_rating *ratings, size_t count, void *context),
                        void *context);

/* Reports that the input is read from this file, or from the files in this folder. If the nodes' inputs differ, the
 * error line names the path and its size. aml_read_ratings and aml_read_lines report their own files. Allowed in
 * `read`, in any of its threads. */
void aml_input_file(aml_worker *worker, const char *path);

/* ---- In `clock`: rows in place, for the rows that items name ---- */

/* The rows of a table in this process's cache, for use in place, as fast as a plain array. Row `slot` of an item is
 * at base + slot * stride. The struct is valid until the app's function returns; a slot names the same row for as
 * long as the process runs.
 *
 * A row that several threads may change at once needs aml_update_param. In tables of whole numbers (AML_INT32,
 * AML_INT64) with AML_ADD, relaxed atomic adds in place are another way, if all threads that change the row in this
 * clock use them. */
struct aml_rows {
    unsigned char *base;
    size_t stride; /* bytes; a multiple of 16, as is base */
    /* A byte per slot; 1: the row was changed. Set by aml_row, aml_touch, or the app itself. The library looks for
     * changes between calls of the app; during a call only in rows that are declared done (aml_rows_done). Several
     * threads may set the same byte, by relaxed atomic stores or aml_touch. */
    unsigned char *touched;
    uint32_t count; /* rows */
    /* In tables with an optimizer, else NULL: the sums of this process's updates. Row `slot` is at sums + slot *
     * stride. An app that adds to it sets touched[slot], as aml_row_sum does. */
    unsigned char *sums;
    /* In tables with `shares`, else NULL: so many per slot, from `shares` x slot on. At a clock's end, unless this
     * process works alone, a row's change is multiplied by them, here and in the servers. 0, at first: by 1. */
    float *shares;
    /* For the library only. aml_check_row checks slots from `unchecked` on, and for
     * changes slots from `changeable` on. */
    uint32_t unchecked;
    uint32_t changeable;
    struct aml_row_checks *checks;
    uint64_t call;
};

/* Returns the table's rows. In `begin`, `clock`, `evaluate` and `finish`. */
struct aml_rows aml_table_rows(aml_worker *worker, unsigned table);

/* Returns a row for reading and changing in place, and marks it as changed. In `clock`. */
static inline void *aml_row(const struct aml_rows *rows, uint32_t slot);

/* Returns a row for reading in place. */
static inline const void *aml_row_read(const struct aml_rows *rows, uint32_t slot);

/* Advanced. Returns the sum of this process's updates of a row in this clock, and marks the row as updated. Add to
 * the sum in place and never assign, as it includes the updates for other items and by other threads. Use
 * aml_update_param for a row that several threads may update at once. Only for tables with an optimizer. In `clock`. */
static inline void *aml_row_sum(const struct aml_rows *rows, uint32_t slot);

/* ---- In `begin`, `clock`, `evaluate` and `finish`: rows by key, for rows that no item names ----
 *
 * These functions, and those for several rows (see "Advanced"), copy rows out of this process's cache and add to them
 * there. Any of the process's worker threads may call them, several at once, even for the same rows.
 *
 * New rows. The first call for a row that no item names fetches the row from its server, in one round trip for all
 * new rows of the call. With staleness such a row may be newer than rows that were read before. The row stays in the
 * cache.
 *
 * Threads. A read copies a whole row, never half of an update. It sees every update of this process whose call has
 * returned (but see aml_table.apply). No update is lost: sums of whole numbers are exact; floats are added in the order
 * in which the threads come, so with several threads the last bits differ from run to run. A call with several keys
 * treats one row after the other; other threads may update rows in between. These functions do not protect rows that
 * other threads change in place at the same time (struct aml_rows).
 *
 * Results. 0, or a negative code that the app's function must return:
 *
 *   AML_EINPUT   no such table, or a key beyond a dense table's rows; no row was copied or changed
 *   AML_ELIMIT   the cache has no room for the new rows
 *   AML_ENOMEM   there is no memory for the new rows
 *   AML_ESTOP    the job ends before the new rows come
 *
 * With the last three, some of the rows may have been copied or changed. */

/* Copies row `key` into values[width]. */
int aml_read_param(aml_worker *worker, unsigned table, uint64_t key, void *values);

/* Adds delta[width] to row `key`. With AML_PUT overwrites the row; with aml_table.apply adds to the sum that the
 * server applies. In `clock` only. */
int aml_update_param(aml_worker *worker, unsigned table, uint64_t key, const void *delta);

/* ---- In `clock` and `evaluate` ---- */

/* Adds to metric `index` (in aml_app.metrics) for this clock: `clock` to metrics with `evaluated` 0, `evaluate` to the
 * others. */
void aml_metric_add(aml_worker *worker, unsigned index, double sum, double weight);

/* ---- In `finish` ---- */

/* Calls `each` with all rows of a table, from all servers, some thousands at a time: keys[count] and packed
 * rows[count][width]. Rows that no clock has changed may be missing. A non-zero result of `each` ends the scan and
 * is returned. */
int aml_scan(aml_worker *worker, unsigned table,
             int (*each)(void *context, const uint64_t *keys, const void *rows, size_t count), void *context);

/* ==== Advanced ==== */

/* ---- Notes: for what users should know about a job that continues ---- */

/* Writes one line for the people who run the job. Examples: which line of the input is its header, or that the
 * result is no better than a constant. `proteus run` and the report show each text once for the job, however many
 * threads, processes and calls write it. So the text must not depend on the process. A note is no error: the job
 * continues. Notes are not for progress: after AML_NOTES_MAX different texts one line says that more were left out.
 * In any function of the app but its transforms, any thread. With --check nothing is shown, as the job's nodes call
 * `configure` again. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void aml_note(aml_worker *worker, const char *format, ...);

/* ---- Slices: for a device whose memory holds fewer items than a clock has (aml_app.slices) ---- */

/* Returns the number of items in the next slice of a call with `count` items, of which `done` are done; 0 at the
 * end. Slices have about equal numbers of items, at most --slice; without that option one slice has all items.
 *
 *     for (size_t done = 0, next; (next = aml_slice(worker, count, done)) > 0; done += next) ...
 *
 * The app computes all slices of a step from the same weights, and sums their gradients. So slices change only
 * rounding. Nodes may have different slices. Policies see the slices and the fixed time that each costs
 * (docs/stragglers.md; gradient accumulation in AntDT-DD, Xiao et al., section VI-B). In `clock`. */
size_t aml_slice(const aml_worker *worker, size_t count, size_t done);

/* ---- Where the job stands: for schedules, such as a step size that shrinks, and for reports ----
 *
 * In `begin`, `clock`, `evaluate` and `finish`. */

uint64_t aml_clock(const aml_worker *worker);     /* the clock worked on (with local steps, the first of these) or
                                                     evaluated, from 1; in `finish` the last */
uint64_t aml_iteration(const aml_worker *worker); /* the iteration that the clock belongs to, from 1 */
unsigned aml_clocks_per_iteration(const aml_worker *worker); /* with aml_app.phases, those of all phases */
unsigned aml_phase(const aml_worker *worker); /* the clock's phase, from 0 to aml_app.phases - 1; 0 without phases */
/* In `evaluate`: returns 1 when this is the evaluation of the job's last clock, in all processes. An app that
 * measures something only in some iterations should also measure it then, so that the job ends with metrics of its
 * final state. */
int aml_last(const aml_worker *worker);

/* Returns by how many clocks the rows that this clock sees lag, at most --staleness. 0: all rows have all nodes'
 * updates up to the clock before. n: some rows miss updates of the last n clocks. The lag differs from clock to
 * clock and from node to node; the slowest node, which waits for nobody, has 0. It applies to rows that items name
 * or that are already in the cache. For learning rates by staleness (AntDT, Xiao et al., section V: ADJUST_LR). In
 * `clock`. */
unsigned aml_lag(const aml_worker *worker);

/* ---- Strategies: fewer exchanges, when steps are short in comparison (aml_app.strategies) ----
 *
 * By --strategy, nodes agree on the tables of floats in one of these ways. Other tables are always summed.
 *
 *   AML_SSGD   a clock is one step: the updates of all nodes are summed
 *   AML_SMA    several clocks are worked on together, as local steps. Each step is a call of `clock` for the part of
 *              one clock, and continues from the process's own earlier steps. At the end each row becomes the mean over
 *              all processes, weighted by their shares of the data; in tables with aml_table.shares, changes are summed
 *              as these say
 *   AML_ADPSGD like AML_SMA; but between two local steps the processes are paired at random, and each pair moves its
 *              rows to their mean. So rows may change between two calls of `clock`, and each call must fetch them
 *              again. No process waits: rows that arrive late are ignored. Tables of floats must be replicated
 *
 * With --strategy auto the strategy changes while the job runs. (Spotnik, HotCloud 2020, section 3.2.)
 *
 * When aml_averages is 1, each process makes the steps of a float table's optimizer itself: after each call of `clock`,
 * on its own rows and states, by the updates of this call alone. The states become means as the rows do. Under AML_SSGD
 * there is one such step a clock. (Chen et al., Toward Communication Efficient Adaptive Gradient Method, FODS 2020, for
 * AMSGrad. That the states are averaged too costs bytes, but so a process that joins has them.) So the update is a
 * gradient of the process's own items under every strategy: the app divides by their number, not by that of all nodes'
 * items. */
enum aml_strategy { AML_SSGD = 0, AML_SMA = 1, AML_ADPSGD = 2 };

int aml_averages(const aml_worker *worker);               /* 1: --strategy is not ssgd; in any function */
enum aml_strategy aml_strategy(const aml_worker *worker); /* of this clock; in `clock` */
unsigned aml_local_step(const aml_worker *worker);        /* the call's number among these steps, from 0; in `clock` */
unsigned aml_local_steps(const aml_worker *worker);       /* how many there are; in `clock` */

/* Returns this process's share of the data in this clock, from 0 to 1. The shares of all processes that work on the
 * clock add up to 1, even when they redo the work of a lost process. Multiply a step that is the mean over the
 * process's own items by the share with AML_SSGD. With the other strategies the library does that. In `clock`. */
double aml_share(const aml_worker *worker);

/* Returns a metric's value in the job's last iteration, over all nodes; NaN when it has none. In `finish`. */
double aml_metric_value(const aml_worker *worker, unsigned metric);

/* ---- Options on the command line: for defaults that `configure` chooses by the data ---- */

/* Returns --iterations. 0: the job has no number of iterations and ends by --seconds or --tolerance. -1: no such
 * option is given, so aml_app.iterations counts as `configure` leaves it. In any function. */
int64_t aml_iterations(const aml_worker *worker);
/* Returns 1 when the process only checks options and input (--check, with which `proteus run` begins). Then
 * `configure` may skip work that is slow and can't fail. In any function but a transform. */
int aml_only_checks(const aml_worker *worker);

/* ---- Randomness: for choices that must be the same in every process, such as test items or start values ---- */

uint64_t aml_seed(const aml_worker *worker); /* --seed; in any function */

/* Returns 64 well-mixed bits of both arguments: a random number that depends only on them. */
uint64_t aml_mix(uint64_t seed, uint64_t value);

/* ---- Size of the job: to divide steps by, as nodes' updates add up (docs/api.md, "Steps add up") ----
 *
 * From `begin` on; aml_staleness in any function. */

uint64_t aml_total_items(const aml_worker *worker); /* training items of all nodes, of the whole input */
uint64_t aml_node_items(const aml_worker *worker);  /* training items of this node: the number of aml_items */
unsigned aml_nodes(const aml_worker *worker);       /* nodes that work on the data in this clock */
unsigned aml_staleness(const aml_worker *worker);   /* --staleness */

/* ---- Files of lines in other formats ---- */

/* Calls `each` for each file that an option's value names, in the same order in every process. The value is a file,
 * a folder (its regular files), a pattern such as data/part-*.tsv, or several of these separated by commas. Ends at
 * the first result of `each` that is not 0, and returns it. Returns AML_EINPUT when nothing is there, or a file
 * can't be read or is named twice. For options that may be given several times see AML_OPTION_STRINGS. In
 * `configure` and `read`. */
int aml_files(aml_worker *worker, const char *value, int (*each)(aml_worker *worker, const char *path, void *context),
              void *context);

/* Whole lines of a file. */
struct aml_lines {
    const char *text; /* [size], and a final 0. Lines end in LF, CR LF or CR; the library ends a file's last line */
    size_t size;
    /* (file, split, offset + i) identifies the line at text[i]: no other line of the input has the same values, and
     * they do not depend on the process that reads the line. */
    uint32_t file;   /* counts the files that the library reads in `read`, from 0 */
    uint32_t split;  /* the number of an extent: a part of the file */
    uint64_t offset; /* of text[0], in the text of the split's lines, or of the groups of aml_read_groups */
    int first;       /* 1: the file begins with these lines */
};

enum {
    AML_LINE_BYTES_MAX = 1 << 26,      /* bytes of a line, without its end */
    AML_READ_FILES_MAX = (1 << 15) - 1 /* files that one `read` may read by aml_read_lines and aml_read_ratings */
};

/* Reads files of lines in any format, in parallel, plain, gzip or zstd. `path` names files as in aml_read_ratings. A
 * byte order mark is skipped. Calls `each` with runs of lines, in several threads, each with a worker of its own.
 * Nothing may depend on the order of these calls or on their threads. If all lines need something, such as a header,
 * `read` must take it from the file before. */
int aml_read_lines(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context);

/* The result of `group` (aml_read_groups) for a line in the same group as the line before. */
#define AML_GROUP_SAME UINT64_MAX

/* Like aml_read_lines, for formats in which adjacent lines belong together, such as those of a document. `group`
 * returns the group of a line, or AML_GROUP_SAME. Adjacent lines of one group, at most AML_LINE_BYTES_MAX bytes,
 * come in one call of `each`, whichever process reads them. `group` must be a pure function of the line, which ends
 * in LF or CR; it is called in any thread. */
int aml_read_groups(aml_worker *worker, const char *path, uint64_t (*group)(const char *line),
                    int (*each)(aml_worker *worker, const struct aml_lines *lines, void *context), void *context);

/* A file that is read as a whole. */
struct aml_file {
    const char *path;
    uint32_t file;    /* as in aml_lines */
    unsigned threads; /* the number of threads that reading may use: --threads, or 1 while the others work on clocks */
};

/* For files in formats other than lines, such as archives. Divides the files among the processes like
 * aml_read_lines, but as whole files, and reads none of them. Calls `each` for those that this process must read,
 * one after the other, in the calling thread, with a worker for aml_emit. */
int aml_read_files(aml_worker *worker, const char *path,
                   int (*each)(aml_worker *worker, const struct aml_file *file, void *context), void *context);

/* Returns the number within its file, from 1, of the line that contains the byte `at` of `lines`; 0 if the file
 * can't be read any more. For texts of errors, as it reads the file up to there. Only within the call that received
 * `lines`. */
uint64_t aml_line_number(aml_worker *worker, const struct aml_lines *lines, const char *at);

/* Reports a hash of data that this process has read from the input by itself and that must be the same in all
 * processes, such as the samples' labels. A process with a different hash is rejected, with an error line that
 * includes `what`: "labels", at most AML_INPUT_MARK_BYTES_MAX bytes. Call it once for each `what`. Items that `read`
 * emits need no mark. In `configure`. */
void aml_input_mark(aml_worker *worker, const char *what, uint64_t hash);

/* ---- Totals of the input: for values that the app needs from all data before its first clock, such as a mean ---- */

/* Adds `value` to sum `index` (0..7), or raises maximum `index` (0..7), of the totals over all nodes. The value
 * belongs to the item that this worker emitted last, and counts once in the job, whichever processes keep the item.
 * So the call does nothing when aml_emit returned 0. In `read`. */
void aml_total_add(aml_worker *worker, unsigned index, double value);
void aml_total_raise(aml_worker *worker, unsigned index, double value);

/* The totals over the whole input; every call returns the same. From `begin` on. */
double aml_total(const aml_worker *worker, unsigned index);         /* the sum */
double aml_total_maximum(const aml_worker *worker, unsigned index); /* the maximum; -infinity when never raised */

/* ---- The node's items: to prepare them in `begin`, or to measure on training items in `evaluate` ---- */

/* Returns this node's training items: those of all clocks of an iteration, in memory until the next `begin`. For
 * some clocks after a failure they are only the items that a lost node had not finished. In `finish` there are none. */
const void *aml_items(const aml_worker *worker, size_t *count);

/* Returns 1 when this node's items don't fit --memory and are read from disk for each clock. Then free data made
 * from a clock's items at the clock's end, rather than keep it for the next iteration. From `begin` on. */
int aml_items_on_disk(const aml_worker *worker);

/* ---- Items of different sizes: for documents and the like (aml_app.item_varied) ---- */

/* A run of rows that a varied item names. */
struct aml_keys {
    unsigned table;
    uint32_t count;
    const uint64_t *keys;
};

/* Like aml_emit, for varied items. The item names the rows of `runs`, in order, and carries `size` bytes; all are
 * copied. `key` (a sample's or a document's number, say) decides the item's data shard; it need not be a row's key,
 * nor unique. Returns AML_EINPUT also for more rows, runs or bytes than the limits above. */
int aml_emit_varied(aml_worker *worker, enum aml_item_use use, uint64_t key, const struct aml_keys *runs,
                    unsigned run_count, const void *bytes, size_t size);

/* A varied item in memory; its slots and bytes follow, aligned to 4 bytes. */
struct aml_item {
    uint32_t row_count; /* number of slots, in the order in which aml_emit_varied named the rows */
    uint32_t size;      /* bytes after the slots */
};
/* The item's slots, row_count of them (see aml_table_rows). */
static inline const uint32_t *aml_item_slots(const struct aml_item *item) {
    return (const uint32_t *)(const void *)(item + 1);
}
/* The item's bytes, `size` of them. */
static inline const void *aml_item_bytes(const struct aml_item *item) {
    return aml_item_slots(item) + item->row_count;
}
/* Returns the item after this one. The last of `count` items has none. */
static inline const struct aml_item *aml_item_next(const struct aml_item *item) {
    const uint32_t *bytes = aml_item_slots(item) + item->row_count;
    return (const struct aml_item *)(const void *)(bytes + (item->size + 3) / 4);
}

/* ---- Many rows by key at once: two to three times as fast, and one round trip for all new rows ---- */

/* Copies the rows keys[count] into the caller's values[count][width], in the order of the keys. A key may appear more
 * than once; each time gets a copy. Does nothing when count is 0. */
int aml_read_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, void *values);
/* Adds deltas[count][width] to the rows keys[count], in the order of the keys. A key that appears more than once gets
 * all its deltas; with AML_PUT the last one stands. In `clock` only. Does nothing when count is 0. */
int aml_update_params(aml_worker *worker, unsigned table, const uint64_t *keys, size_t count, const void *deltas);

/* ---- Changes in place without aml_row: for atomic adds by several threads, and for a few elements of wide rows
 * ---- */

/* Marks a row as changed in place, before or after the change. Any number of threads at once. In `clock`. */
static inline void aml_touch(const struct aml_rows *rows, uint32_t slot);

/* For tables with changes_given: reports that the elements columns[count] of a row, ascending, have been changed in
 * place, by changes[count] (of the table's type). In any thread, any number of times for a row, but once for each
 * change; in `clock` only. Returns AML_EINPUT for columns that don't ascend or don't exist, and for other tables. */
int aml_give_changes(aml_worker *worker, unsigned table, uint32_t slot, uint32_t count, const uint32_t *columns,
                     const void *changes);

/* ---- Updates that are complete before the clock ends: their exchange proceeds while `clock` computes ---- */

/* Declares that this thread will make no more updates to rows first..first + count - 1 of a table in this clock,
 * neither by key nor in place. The thread may still read these rows, but not their sums (aml_row_sum,
 * aml_rows.sums), which may be zero from now on. A network of several layers declares a layer's rows when the
 * layer's gradient is complete, beginning with the last layer.
 *
 * With --flush-early, rows that all threads of the process have declared done are sent while `clock` continues: one
 * message for each partition, once the rows take 16 KiB a partition on average. Fewer rows wait for the clock's end.
 *
 * Nothing is sent early without --flush-early, with PROTEUS_CHECK=1, with --lots, with strategies other than
 * AML_SSGD or with a ring (--exchange). Nor is anything sent early by a process that works on the clock alone or
 * redoes the work of a lost process. An app may call this function in all these cases. The clock's result is the
 * same, except for the order in which floats are added.
 *
 * Where rows are sent early, and with PROTEUS_CHECK=1, an update of a row that all threads have declared done ends
 * the job with exit status 2. An update by aml_row or by key is rejected at once. A change in place is found at the
 * clock's end if the row was marked and had been sent; with PROTEUS_CHECK=1 it is found even without a mark. Without
 * PROTEUS_CHECK=1 an unmarked change of a row that was sent is lost.
 *
 * Use it with clock_alone, or for items without rows. Otherwise `clock` is called several times in a clock, and a
 * later call may update the row. A thread without items does not call `clock`; then all of the clock's updates are
 * sent at its end.
 *
 * The table must be replicated (aml_table.whole), with AML_ADD and without changes_given; its width and optimizer
 * may be any. In `clock`, any thread; with clock_alone once for the process, and not in parts of aml_parallel.
 * Returns 0, or a negative code that `clock` must return: AML_EINPUT for other tables and for rows that don't exist;
 * AML_ESTOP when the job ends. */
int aml_rows_done(aml_worker *worker, unsigned table, uint64_t first, uint64_t count);

/* ---- Threads: for work that is a few large operations rather than many items (aml_app.clock_alone) ---- */

/* Runs part(context, t, threads) for each t below threads = aml_threads(worker), at once in the process's worker
 * threads (t = 0 in the caller), and returns when all are through. Takes some microseconds. In `begin` and `finish`,
 * and with clock_alone in `clock` and `evaluate`; not within a part.
 *
 * Parts may use `worker` for rows by key, for aml_give_changes, and for the calls that are allowed from `begin` on.
 * They may use rows in place that were taken from aml_table_rows before. */
void aml_parallel(aml_worker *worker, void (*part)(void *context, unsigned thread, unsigned threads), void *context);

unsigned aml_threads(const aml_worker *worker); /* worker threads of this process; from `begin` on */
unsigned aml_thread(const aml_worker *worker);  /* this thread's number, from 0; not in parts of aml_parallel */

/* ==== Not for apps: the inside of the functions above ==== */

/* Ends the job if the table does not have the slot; with PROTEUS_CHECK=1 checks every slot. `function` is the
 * caller's name. `change` is 1 if the caller marks the row as changed, 2 if it changes the row's sum. */
#if defined(__GNUC__)
__attribute__((cold))
#endif
void aml_check_row(struct aml_row_checks *checks, uint64_t call, uint32_t slot, int change, const char *function);

/* Several threads may mark the same row at once. */
static inline void aml_set_touched(const struct aml_rows *rows, uint32_t slot) {
#if defined(__GNUC__)
    __atomic_store_n(&rows->touched[slot], (unsigned char)1, __ATOMIC_RELAXED);
#else
    rows->touched[slot] = 1;
#endif
}

static inline void aml_mark_row(const struct aml_rows *rows, uint32_t slot, const char *function) {
    if (slot >= rows->changeable) {
        aml_check_row(rows->checks, rows->call, slot, 1, function);
    } else {
        aml_set_touched(rows, slot);
    }
}

static inline void aml_touch(const struct aml_rows *rows, uint32_t slot) {
    aml_mark_row(rows, slot, "aml_touch");
}

static inline void *aml_row(const struct aml_rows *rows, uint32_t slot) {
    aml_mark_row(rows, slot, "aml_row");
    return rows->base + slot * rows->stride;
}

static inline void *aml_row_sum(const struct aml_rows *rows, uint32_t slot) {
    if (slot >= rows->unchecked || rows->sums == NULL) {
        aml_check_row(rows->checks, rows->call, slot, 2, "aml_row_sum");
    } else {
        aml_set_touched(rows, slot);
    }
    return rows->sums + slot * rows->stride;
}

static inline const void *aml_row_read(const struct aml_rows *rows, uint32_t slot) {
    if (slot >= rows->unchecked) {
        aml_check_row(rows->checks, rows->call, slot, 0, "aml_row_read");
    }
    return rows->base + slot * rows->stride;
}

#ifdef __cplusplus
}
#endif

#endif
