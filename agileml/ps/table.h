/* Tables of parameters: what an app declares, how keys map to partitions, and one partition's rows of one table. Knows
 * nothing of the order of clocks, of origins or of messages (partition.h does). */
#ifndef AGILEML_PS_TABLE_H
#define AGILEML_PS_TABLE_H

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/slot_index.h"
#include "agileml/optimizers.h"
#include "agileml/wire/rows.h"

#include <assert.h>

/* Fills `row` (width elements, zeroed before) with the start value of row `key`. Must be a pure function of its
 * arguments, so that all nodes compute the same value at any time. Called from any thread. */
typedef void table_start(void *context, uint64_t key, void *row);

/* Changes a row and its state by the sum of a clock's updates: aml_table.apply. Called from any server thread. */
typedef void table_apply(const struct aml_step *step, const void *parameters);
/* Does the same for many rows at once: aml_table.apply_rows. */
typedef int table_apply_rows(const struct aml_steps *steps, const void *parameters);

struct table_spec {
    char name[WIRE_NAME_MAX];
    enum aml_type type;
    enum aml_mode mode;
    uint32_t width;            /* elements of a row */
    uint32_t row_bytes;        /* width x element size, at most WIRE_ROW_BYTES_MAX */
    uint64_t rows;             /* dense: keys are 0..rows-1; 0: sparse, any 64-bit key */
    bool whole;                /* workers' caches hold all rows or none, in order: slot == key */
    bool compressed;           /* flushed and pushed as WIRE_BF16: for float32 add tables only */
    bool sparse;               /* sent as WIRE_SPARSE: for add tables of whole numbers only */
    bool averaged;             /* under S-MA, rows become the mean of all nodes' rows; add tables of floats only. The
                                  steps of an optimizer are then made by the workers, under any strategy */
    uint32_t shares;           /* of a row: its change is multiplied by them in the worker's cache, then summed */
    bool given;                /* with `sparse`: the app reports its changes; workers' caches keep no `base` */
    uint32_t row_guard;        /* bytes of zeros behind each row of a worker's cache, which nobody may write */
    struct arena_files *files; /* of put tables: for rows, keys and clocks that don't fit in memory; NULL: none */
    table_start *start;        /* NULL: rows start as zeros */
    void *context;
    table_apply *apply; /* an optimizer, for add tables. Without an optimizer, the sum of a clock's updates is added */
    table_apply_rows *apply_rows; /* an optimizer instead of `apply` */
    const void *parameters;
    unsigned state; /* with an optimizer: the number, above its own, of its rows' table of states; 0: none */
    bool states;    /* a table of an optimizer's states: apps do not see it */
};

/* Add tables of whole numbers travel sparse from this width on, in elements: narrower rows gain little. */
enum { TABLE_SPARSE_WIDTH = 16 };

/* How FLUSH and PUSH travel (ps/ring.h). */
enum exchange { EXCHANGE_DIRECT, EXCHANGE_RING, EXCHANGE_AUTO };

/* What servers and workers of one job agree on. Read-only once the job runs. */
struct job {
    unsigned table_count;
    struct table_spec tables[WIRE_TABLES_MAX];
    struct row_shape shapes[WIRE_TABLES_MAX]; /* of the tables: table_shape */
    uint32_t staleness;
    struct strategy_clocks clocks;
    enum exchange exchange; /* direct if ring_unfit_table finds a table */
    bool checked;           /* search for an app's mistakes also where that takes time (workers/process/check.h) */
    bool reject_nan;        /* a node that sends a NaN or an infinity in an update has failed */
};

/* Whether an optimizer changes the table's rows by the sums of updates. */
static inline bool table_optimized(const struct table_spec *spec) {
    return spec->apply != NULL || spec->apply_rows != NULL;
}
/* Whether the servers make the optimizer's steps. */
static inline bool table_stepped(const struct table_spec *spec) {
    return table_optimized(spec) && !spec->averaged;
}
/* Whether each worker makes the optimizer's steps, on its own rows and states. */
static inline bool table_steps_locally(const struct table_spec *spec) {
    return table_optimized(spec) && spec->averaged;
}

/* Whether the job has tables whose optimizer's steps the workers make (table_steps_locally). */
static inline bool job_steps_locally(const struct job *job) {
    unsigned t = 0;
    while (t < job->table_count && !table_steps_locally(&job->tables[t])) {
        t++;
    }
    return t < job->table_count;
}

/* Returns the most bytes of one message to a server of the job, with room to spare: rows of all tables, each with its
 * key and in the longest encoding, or what the nodes' services send. A sparse table may have any number of rows. */
static inline uint64_t job_message_bytes(const struct job *job) {
    uint64_t bytes = WIRE_FEED_BYTES_MAX;
    for (unsigned t = 0; t < job->table_count; t++) {
        const struct table_spec *spec = &job->tables[t];
        uint64_t row_bytes = 2 * (sizeof(uint64_t) + spec->row_bytes);
        uint64_t most = 2 * WIRE_FRAME_BYTES_MAX; /* keys and values */
        bytes += spec->rows > 0 && spec->rows < most / row_bytes ? spec->rows * row_bytes : most;
    }
    return bytes;
}

/* Whether the job has put tables: then a node's work may depend on single rows that another node has put. */
static inline bool job_has_put_tables(const struct job *job) {
    unsigned t = 0;
    while (t < job->table_count && job->tables[t].mode != AML_PUT) {
        t++;
    }
    return t < job->table_count;
}

/* Returns the first table whose rows workers' caches lack, so that no partition can be restored from a cache. Returns
 * the number of tables when there is no such table. A cache has all rows of whole tables. It lacks what rounded pushes
 * leave out, what its own node puts, and the states of servers' steps. */
static inline unsigned job_unkept_table(const struct job *job) {
    unsigned t = 0;
    while (t < job->table_count && job->tables[t].whole && job->tables[t].mode == AML_ADD &&
           (job->tables[t].state == 0 || job->tables[t].averaged) && !rows_rounded(job->shapes[t].encoding)) {
        t++;
    }
    return t;
}

/* Whether workers' caches must have all rows while a plan with these terms is in force, so that partitions can be
 * restored from them. */
static inline bool job_is_kept(const struct job *job, const struct message_plan *terms) {
    return terms->transient != 0 && job_unkept_table(job) == job->table_count;
}

/* Returns the number of tables that the app has declared. The tables of states come after them. */
static inline unsigned job_app_tables(const struct job *job) {
    unsigned count = job->table_count;
    while (count > 0 && job->tables[count - 1].states) {
        count--;
    }
    return count;
}

/* Whether only servers, their followers and checkpoints have the table: it has states of steps that servers make. */
static inline bool table_hidden(const struct table_spec *spec) {
    return spec->states && !spec->averaged;
}

/* Returns the form of the table's rows in messages. */
static inline struct row_shape table_shape(const struct table_spec *spec) {
    enum wire_encoding encoding = spec->compressed ? WIRE_BF16 : spec->sparse ? WIRE_SPARSE : WIRE_FULL;
    return (struct row_shape){.type = spec->type,
                              .width = spec->width,
                              .row_bytes = spec->row_bytes,
                              .encoding = encoding,
                              .hidden = table_hidden(spec)};
}

/* Returns the spec of the table of states of a table with an optimizer. For each row of the table it has a row of
 * `width` elements of the same type. */
struct table_spec table_state_spec(const struct table_spec *spec, uint32_t width);

/* Returns the partition of a key. Dense keys are dealt in turn, sparse keys by hash. */
static inline uint32_t table_partition(const struct table_spec *spec, uint64_t key, uint32_t partitions) {
    return (uint32_t)((spec->rows > 0 ? key : hash_mix(key) >> 32) % partitions);
}

/* Return how many rows of a dense table the partition has, and the key of each slot there. */
static inline uint64_t table_dense_rows(const struct table_spec *spec, uint32_t partition, uint32_t partitions) {
    return spec->rows / partitions + (partition < spec->rows % partitions ? 1 : 0);
}
static inline uint64_t table_dense_key(uint32_t slot, uint32_t partition, uint32_t partitions) {
    return (uint64_t)slot * partitions + partition;
}
/* Returns the slot of a dense table's key in its partition. */
static inline uint32_t table_dense_slot(uint64_t key, uint32_t partitions) {
    return (uint32_t)(key / partitions);
}

/* The rows of one table in one partition: slot i holds one row, packed. */
struct table {
    const struct table_spec *spec;
    struct row_shape shape;
    uint32_t partition, partitions;
    uint32_t count;          /* slots in use */
    struct arena rows;       /* count x row_bytes */
    struct arena clocks;     /* uint32_t per slot: the last clock that changed the row */
    struct arena errors;     /* if pushes round: count x row_bytes, the rounding errors from the codec's `feed` */
    struct arena writers;    /* put tables: uint32_t per slot, the last writer (struct contribution) */
    struct arena keys;       /* sparse tables: uint64_t per slot */
    struct slot_index index; /* sparse tables: of `keys` */
    /* a table with optimizer states and the hidden table of these states are partners; NULL: none. Partners have
     * the same rows in the same slots: a new row is made in both */
    struct table *partner;
};

enum { TABLE_SLOTS_MAX = SLOT_INDEX_MAX };

/* Opens the partition's part of the table. Dense rows get their start values now, sparse rows when they are made. */
int table_open(struct table *table, const struct table_spec *spec, uint32_t partition, uint32_t partitions,
               struct error *error);
void table_close(struct table *table);

/* Makes two tables with the same rows partners. From then on neither may move in memory. */
static inline void table_pair(struct table *table, struct table *states) {
    assert(table->count == states->count && table->partition == states->partition && table_hidden(states->spec));
    table->partner = states;
    states->partner = table;
}

/* Makes `copy` a table with the same rows, without a partner. After AML_ENOMEM `copy` is closed. */
int table_copy(struct table *copy, const struct table *table, struct error *error);

/* Whether `key` names a row of this partition's part. */
bool table_holds(const struct table *table, uint64_t key);

/* Returns the slot of `key`, for which table_holds must be true; INDEX_NONE: the sparse row does not exist yet. */
int64_t table_find(const struct table *table, uint64_t key);

/* Returns the slot of `key`. Makes a sparse row that does not exist yet, with its start value. Returns AML_EPROTOCOL
 * when table_holds is false, AML_ELIMIT when the table is full, AML_ENOMEM. */
int64_t table_slot(struct table *table, uint64_t key);
static inline const uint64_t *table_keys(const struct table *table) {
    return (const uint64_t *)(const void *)table->keys.base;
}
static inline uint64_t table_key(const struct table *table, uint32_t slot) {
    return table->spec->rows > 0 ? table_dense_key(slot, table->partition, table->partitions) : table_keys(table)[slot];
}
static inline unsigned char *table_row(const struct table *table, uint32_t slot) {
    return table->rows.base + (size_t)slot * table->spec->row_bytes;
}
/* Returns the slot's rounding errors; NULL: pushes do not round. */
static inline void *table_errors(const struct table *table, uint32_t slot) {
    return table->errors.base != NULL ? table->errors.base + (size_t)slot * table->spec->row_bytes : NULL;
}
static inline uint32_t *table_clocks(const struct table *table) {
    return (uint32_t *)(void *)table->clocks.base;
}
static inline uint32_t *table_writers(const struct table *table) {
    return (uint32_t *)(void *)table->writers.base;
}

#endif
