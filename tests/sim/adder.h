/* The app of the simulated clusters: every data item adds whole numbers, chosen by item and clock, to a few rows, so
 * that a contribution that is lost, repeated or in the wrong clock makes a row differ. Also the oracle, which
 * adds the same up in one place. Knows nothing of nodes or messages. */
#ifndef TESTS_SIM_ADDER_H
#define TESTS_SIM_ADDER_H

#include "agileml/ps/table.h"

#include <stdbool.h>

enum { ADDER_TABLES_MAX = 5, ADDER_WIDTH_MAX = 4 };

struct adder_row {
    unsigned table;
    uint64_t key;
    unsigned first; /* index of its first element among all elements */
};

/* An item of data (`put` false) adds to a row; a shard's own rows are put. */
struct adder_touch {
    unsigned row;
    bool put;
    bool read_only; /* a row that the shard only wants to see */
    uint64_t seed;
};

struct adder_shard {
    unsigned items;
    struct adder_touch *touches;
    unsigned touch_count;
};

/* Elements of all rows, as whole numbers modulo 2^64. */
struct adder_change {
    uint64_t *elements;
    unsigned char *touched; /* a byte a row */
};

struct adder {
    uint64_t seed;
    struct job job;
    struct adder_row *rows;
    unsigned row_count;
    unsigned table_rows[ADDER_TABLES_MAX + 1]; /* the first row of each table, then row_count */
    struct index_map row_index[ADDER_TABLES_MAX];
    unsigned element_count;
    struct adder_shard *shards;
    unsigned shard_count;
    uint64_t items;
    uint64_t **states; /* by clock: every element as of it */
    uint64_t state_count;
    struct adder_change scratch;
};

void adder_open(struct adder *adder, uint64_t seed, unsigned shards, uint32_t staleness);
void adder_close(struct adder *adder);

/* What `shard` contributes to a clock: put rows are set, others added to. */
void adder_contribute(const struct adder *adder, unsigned shard, uint64_t clock, struct adder_change *change);
/* Every element as of `clock`. */
const uint64_t *adder_state(struct adder *adder, uint64_t clock);
/* The number of a row, or -1 when the app has no such row. */
int64_t adder_find(const struct adder *adder, unsigned table, uint64_t key);

/* Adds to or sets a row in memory, as an app does. */
void adder_apply(const struct adder *adder, unsigned row, const uint64_t *elements, void *memory);
/* Whether a row in memory holds these elements; else which one differs, and both values as text. */
bool adder_equal(const struct adder *adder, unsigned row, const uint64_t *elements, const void *memory, char *text,
                 size_t size);

void adder_change_open(const struct adder *adder, struct adder_change *change);
void adder_change_clear(const struct adder *adder, struct adder_change *change);
void adder_change_close(struct adder_change *change);

#endif
