/* The app of a simulated job: its tables, its data by shards, what a node does in a clock, and the oracle, which tells
 * every element as of every clock. Two kinds: adder.c, whose contributions follow from item and clock alone, and
 * lda_job.c, whose contributions depend on what a node sees. Knows nothing of nodes or messages. One thread. */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "agileml/ps/table.h"
#include "workers/cache.h"

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
    unsigned *rows; /* that its items name, perhaps repeated */
    unsigned row_count;
};

/* What somebody changed in a clock: rows, each once, and their elements, as whole numbers modulo 2^64: what was added,
 * or what was put. */
struct app_changes {
    unsigned *rows;
    unsigned *starts; /* where its elements begin */
    unsigned count;
    uint64_t *elements;
    unsigned element_count;
};

/* A node at work on a clock. */
struct app_work {
    struct cache *cache;  /* NULL: another node has changed the rows */
    const int64_t *slots; /* by row: the cache's slot */
    const uint32_t *shards;
    uint32_t shard_count;
    unsigned set; /* the number of the set that these shards are; a node never uses one twice */
    unsigned threads, nodes;
    uint64_t clock;
    unsigned parts;  /* that it works on: app_parts */
    uint64_t origin; /* under which it works */
    void **process;  /* what the kind keeps for the node's process; NULL at first */
    struct app_changes *changes;
};

struct app;

struct app_kind {
    const char *name;
    /* What is computed again, by whoever, is the same: a clock's state does not depend on what was lost before. */
    bool repeatable;
    /* A node may get the rows of half of a set's shards in the middle of a clock only. */
    bool lazy;
    void (*close)(struct app *app);
    /* Training items of a shard that a clock works on. */
    unsigned (*items)(const struct app *app, unsigned shard, uint64_t clock);
    /* Changes the cache's rows, marks them as touched and adds to `changes`: a clock's first half, later its second. */
    void (*compute)(struct app *app, const struct app_work *work, unsigned half);
    /* Makes the state of `clock` out of that of the clock before. */
    void (*advance)(struct app *app, uint64_t clock, uint64_t *state);
    /* The app's end, after `clock`: `state` is every element as it was read from the servers. May be NULL. */
    void (*finish)(struct app *app, uint64_t clock, const uint64_t *state);
    void (*process_close)(void *process); /* may be NULL */
};

struct app {
    const struct app_kind *kind;
    void *own; /* the kind's */
    uint64_t seed;
    unsigned clocks_per_iteration;
    struct job job;
    struct app_row *rows;
    unsigned row_count;
    unsigned table_rows[APP_TABLES_MAX + 1]; /* the first row of each table, then row_count */
    struct index_map row_index[APP_TABLES_MAX];
    unsigned element_count;
    struct app_shard *shards;
    unsigned shard_count;
    unsigned shard_items; /* adder: of each shard; 0: drawn */
    bool averages;        /* adder: one more table, of floats that are averaged */
    bool whole;           /* adder: all tables are whole, and none has states, so caches can replace lost copies */
    bool pieces;          /* adder: dense add tables are whole, and flushed in pieces */
    bool ring;            /* adder: all tables are such that a ring can be used (agileml/ps/ring.h) */
    uint64_t items;
    unsigned char *parts; /* by clock: 1 more than the parts of the iteration that it works on; 0: not known */
    uint64_t part_clocks;
    uint64_t **states; /* by clock: every element as of it */
    uint64_t state_count;
    uint64_t *scratch; /* element_count elements */
    /* Set by the owner. Whose work on a shard in a clock counts, 0: nobody's yet; a rule that is broken; whether a
     * mistake is to be made now (cluster.h). */
    uint64_t (*origin_of)(void *context, unsigned shard, uint64_t clock);
    void (*violation)(void *context, const char *invariant, const char *text);
    bool (*mistake_due)(void *context, enum app_mistake mistake);
    void *context;
};

/* The kinds. `app` is zeroed but for seed, clocks_per_iteration, shard_items, averages, whole, pieces,
 * ring and job.staleness. */
void adder_open(struct app *app, unsigned shards);
void lda_job_open(struct app *app, unsigned shards);
void app_close(struct app *app);

/* For the kinds. `spec` needs name, type, mode, width, rows and whole; its rows are added next. */
struct table_spec *app_add_table(struct app *app, const struct table_spec *spec);
/* A row of the newest table; its number. */
unsigned app_add_row(struct app *app, uint64_t key);
void app_shard_names(struct app_shard *shard, unsigned row);
/* When tables and shards are there. */
void app_complete(struct app *app);
static inline uint64_t app_random(uint64_t *state) {
    return hash_mix((*state)++);
}

/* How many parts of the iteration a clock works on, from its own one on: what app_set_parts has noted, or 1. */
unsigned app_parts(const struct app *app, uint64_t clock);
/* Notes it. False: something else is noted. */
bool app_set_parts(struct app *app, uint64_t clock, unsigned parts);
/* Another job goes on from `clock`. */
void app_forget_parts(struct app *app, uint64_t clock);

/* Of all shards, in clocks from..until. */
uint64_t app_items(const struct app *app, uint64_t from_clock, uint64_t until_clock);
uint64_t app_shard_items(const struct app *app, unsigned shard, uint64_t from_clock, uint64_t until_clock);
/* Every element as of `clock`. */
const uint64_t *app_state(struct app *app, uint64_t clock);
/* The clocks after `clock` are done again. */
void app_restore(struct app *app, uint64_t clock);
/* The number of a row, or -1 when the app has no such row. */
int64_t app_find(const struct app *app, unsigned table, uint64_t key);
unsigned app_width(const struct app *app, unsigned row);

/* A row in memory as elements, and the other way: adds to or sets it, as an app does. */
void app_elements(const struct app *app, unsigned row, const void *memory, uint64_t *elements);
void app_apply(const struct app *app, unsigned row, const uint64_t *elements, void *memory);
/* Whether the row is averaged: its elements are none that app_state knows (cluster_check_replica). */
static inline bool app_averages(const struct app *app, unsigned row) {
    return app->job.tables[app->rows[row].table].averaged;
}
/* Whether a row in memory holds these of all elements; else which one differs, and both values as text. */
bool app_equal(const struct app *app, unsigned row, const uint64_t *state, const void *memory, char *text, size_t size);

/* Adds a row's elements to what was changed. */
void app_changes_add(const struct app *app, struct app_changes *changes, unsigned row, const uint64_t *elements);
/* Applies all changes, or those of one row (-1: all), to a state. */
void app_changes_apply(const struct app *app, const struct app_changes *changes, int64_t row, uint64_t *state);
void app_changes_close(struct app_changes *changes);

#endif
