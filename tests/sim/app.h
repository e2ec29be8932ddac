/* The app of a simulated job: its tables, its shards of data, a node's work in a clock, and the oracle, which knows
 * every element at every clock. adder.c's contributions depend on item and clock alone, lda_job.c's on what a node
 * sees. Knows nothing of nodes or messages. One thread. */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "agileml/ps/table.h"
#include "workers/client/cache.h"

#include <stdbool.h>

enum { APP_TABLES_MAX = 8, APP_REPLICA_ROWS = 4, APP_REPLICA_WIDTH = 3 };

/* Mistakes that an app makes on purpose (cluster.h). */
enum app_mistake { APP_TOPICS_FORGOTTEN, APP_STEP_TWICE };

struct app_row {
    unsigned table;
    uint64_t key;
    unsigned first; /* index of its first element among all elements */
};

struct app_shard {
    unsigned items;
    unsigned *rows; /* rows that its items name, perhaps repeated */
    unsigned row_count;
};

/* What a node or an origin changed in a clock: rows, each once, and their elements, as whole numbers modulo 2^64. An
 * element was added or set, as its table's mode says. */
struct app_changes {
    unsigned *rows;
    unsigned *starts; /* by row: index of its first element in `elements` */
    unsigned count;
    uint64_t *elements;
    unsigned element_count;
};

/* A node at work on a clock. */
struct app_work {
    struct cache *cache;  /* NULL: these changes were made by another node */
    const int64_t *slots; /* by row of the app: its slot in the cache */
    const uint32_t *shards;
    uint32_t shard_count;
    unsigned set; /* number of the set of these shards; a node never reuses a number */
    unsigned threads, nodes;
    uint64_t clock;
    unsigned parts;  /* parts of the iteration in this clock: app_parts */
    uint64_t origin; /* the origin of this work */
    void **process;  /* memory of the app's kind for this process; NULL at first */
    struct app_changes *changes;
};

struct app;

struct app_kind {
    const char *name;
    /* Repeated work gives the same result on any node: a clock's state does not depend on what was lost before. */
    bool repeatable;
    /* Half of a set's shards may get their rows only in the middle of a clock. */
    bool lazy;
    void (*close)(struct app *app);
    /* Returns the training items of a shard in a clock. */
    unsigned (*items)(const struct app *app, unsigned shard, uint64_t clock);
    /* Works on one half of a clock, first 0, then 1: changes the cache's rows, marks them as touched and adds to
     * `changes`. */
    void (*compute)(struct app *app, const struct app_work *work, unsigned half);
    /* Turns the state of the clock before into that of `clock`. */
    void (*advance)(struct app *app, uint64_t clock, uint64_t *state);
    /* Ends the app after `clock`. `state` has every element as read from the servers. May be NULL. */
    void (*finish)(struct app *app, uint64_t clock, const uint64_t *state);
    void (*process_close)(void *process); /* may be NULL */
};

struct app {
    const struct app_kind *kind;
    void *own; /* memory of the kind */
    uint64_t seed;
    unsigned clocks_per_iteration;
    unsigned phases; /* clocks in turn that work on each part of an iteration, of which the last one counts items */
    struct job job;
    struct app_row *rows;
    unsigned row_count;
    unsigned table_rows[APP_TABLES_MAX + 1]; /* the first row of each table, then row_count */
    struct index_map row_index[APP_TABLES_MAX];
    unsigned element_count;
    struct app_shard *shards;
    unsigned shard_count;
    unsigned shard_items; /* adder: items of each shard; 0: drawn */
    bool averages;        /* adder: has an averaged table of floats */
    bool whole;           /* adder: all tables are replicated and none has states, so caches can replace lost copies */
    bool pieces;          /* adder: dense add tables are replicated, and flushed in pieces */
    bool ring;            /* adder: all tables are fit for a ring (agileml/ps/ring.h) */
    uint64_t items;
    unsigned char *parts; /* by clock: parts of the iteration + 1; 0: not known */
    uint64_t part_clocks;
    uint64_t **states; /* by clock: the state, which is every element */
    uint64_t state_count;
    uint64_t *scratch; /* element_count elements */
    /* Set by the owner. `origin_of` returns the origin whose work on a shard counts in a clock; 0: none yet.
     * `violation` reports a broken rule. `mistake_due` returns whether to make the mistake now (cluster.h). */
    uint64_t (*origin_of)(void *context, unsigned shard, uint64_t clock);
    void (*violation)(void *context, const char *invariant, const char *text);
    bool (*mistake_due)(void *context, enum app_mistake mistake);
    void *context;
};

/* Make an app. `app` is zeroed but for seed, clocks_per_iteration, phases, shard_items, averages, whole, pieces, ring
 * and job.staleness. */
void adder_open(struct app *app, unsigned shards);
void lda_job_open(struct app *app, unsigned shards);
void app_close(struct app *app);

/* Adds a table, for the kinds. `spec` needs name, type, mode, width, rows and whole. Its rows are added next. */
struct table_spec *app_add_table(struct app *app, const struct table_spec *spec);
/* Adds a row to the newest table. Returns the row's number. */
unsigned app_add_row(struct app *app, uint64_t key);
void app_shard_names(struct app_shard *shard, unsigned row);
/* Completes the app, after the last table and shard. */
void app_complete(struct app *app);
static inline uint64_t app_random(uint64_t *state) {
    return hash_mix((*state)++);
}

/* Returns how many parts of the iteration a clock works on, up to its own part: as set by app_set_parts, or 1. */
unsigned app_parts(const struct app *app, uint64_t clock);
/* Sets a clock's parts. Returns false when it has another number of parts already. */
bool app_set_parts(struct app *app, uint64_t clock, unsigned parts);
/* Forgets the parts of clocks after `clock`, from which another job goes on. */
void app_forget_parts(struct app *app, uint64_t clock);

/* Returns the items of all shards that count in clocks from..until. */
uint64_t app_items(const struct app *app, uint64_t from_clock, uint64_t until_clock);
uint64_t app_shard_items(const struct app *app, unsigned shard, uint64_t from_clock, uint64_t until_clock);
/* Returns the items of all shards in clocks from..until, once for each clock that works on them. */
uint64_t app_worked(const struct app *app, uint64_t from_clock, uint64_t until_clock);
/* Returns every element at `clock`. */
const uint64_t *app_state(struct app *app, uint64_t clock);
/* Forgets the states after `clock`: these clocks are repeated. */
void app_restore(struct app *app, uint64_t clock);
/* Returns the number of a row, or -1 when the app has no such row. */
int64_t app_find(const struct app *app, unsigned table, uint64_t key);
unsigned app_width(const struct app *app, unsigned row);

/* Read a row's memory as elements, and apply elements to a row's memory by its table's mode, as an app does. */
void app_elements(const struct app *app, unsigned row, const void *memory, uint64_t *elements);
void app_apply(const struct app *app, unsigned row, const uint64_t *elements, void *memory);
/* Whether the row is averaged. Then app_state does not have its elements (cluster_check_replica). */
static inline bool app_averages(const struct app *app, unsigned row) {
    return app->job.tables[app->rows[row].table].averaged;
}
/* Returns whether a row's memory equals the state. If not, `text` names the differing element with both values. */
bool app_equal(const struct app *app, unsigned row, const uint64_t *state, const void *memory, char *text, size_t size);

/* Adds a row's elements to the changes. */
void app_changes_add(const struct app *app, struct app_changes *changes, unsigned row, const uint64_t *elements);
/* Applies the changes of one row, or of all rows (-1), to a state. */
void app_changes_apply(const struct app *app, const struct app_changes *changes, int64_t row, uint64_t *state);
void app_changes_close(struct app_changes *changes);

#endif
