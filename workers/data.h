/* The data items of one node. While the app reads its input (in several threads) items are kept as *records*, keys and
 * bytes, by data shard: those of the shards that the node needs, and within a budget of others that may become its own,
 * so that they need not be read again. A *set* is what the app works on: some shards' records turned into
 * compact arrays of row slots and bytes, ordered so that each thread's part of each clock is contiguous and no two
 * threads work on the same rows at once. Records of items that name fixed rows are replaced by these items when their
 * shard is in a set for the first time: later sets copy them. Fixed items without rows are the same as their records,
 * so a set takes these over, and gives them back when the node leaves the shard. While the input is read its
 * *fingerprint* is made: by data shard, how many items there are and a hash of them, kept or not. Does not read files,
 * does not call the app, knows no cache. */
#ifndef AGILEML_WORKERS_DATA_H
#define AGILEML_WORKERS_DATA_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "agileml/base/hash.h"
#include "agileml/wire/message.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    DATA_ROWS_BATCH = 1024,     /* keys that data_arrange asks the slots of at once */
    DATA_CHUNK_BYTES = 4 << 20, /* of records given: a chunk that may be ended is full */
};

/* Records, one behind the other. */
struct data_run {
    unsigned char *records;
    size_t count;
    size_t bytes, capacity; /* of the records; of the memory */
};

struct data_shard {
    struct data_run runs[2];    /* by enum aml_item_use, in the order of the input */
    struct data_order *order;   /* items that name fixed rows: what was made of the records, which are not there then */
    struct data_store *store;   /* fixed items without rows, pinned: where the records are now, if not in `runs`; ... */
    uint32_t first[2];          /* ... from which place on */
    double totals[WIRE_TOTALS]; /* over the records */
    unsigned pins;              /* this node works on it, or is about to: so many sets */
    uint64_t left;              /* when it last ceased to, counted in such events; 0: it never did */
    bool held;                  /* all its records are here */
    /* What the reading under way does with it. */
    enum data_wish { DATA_IGNORED, DATA_WELCOME /* within the budget */, DATA_WANTED } wish;
};

/* A thread's share of the fingerprint. */
struct data_tally {
    struct data_tally *next;
    hash_product shards[]; /* by shard: the low word counts its items, the high word sums their hashes */
};

/* What one thread makes of a piece of the input; data_chunk_close puts it into the shards. */
struct data_chunk {
    struct data_tally *tally; /* this thread's while the chunk is open */
    uint64_t order;           /* chunks are put together in this order, whatever thread was faster */
    struct data_run run[2];   /* by enum aml_item_use: the shard's number (uint32_t), then the record */
    uint64_t emitted[2];      /* items given, kept or not */
    size_t given;             /* bytes of their records */
    int64_t shard;            /* of the last item; -1: it was not kept */
    uint32_t *places;         /* of each shard: 1 + its place in totals; 0: none. NULL until there are totals */
    struct {
        uint32_t shard;
        double values[WIRE_TOTALS];
    } * totals;
    uint32_t total_count;
    struct data_chunk *next; /* closed before its turn */
};

struct data {
    unsigned item_rows;
    const unsigned *item_tables;
    size_t item_bytes;
    bool varied;
    size_t record_size; /* keys and bytes; without rows as item_size; varied: 0 */
    size_t item_size;   /* slots and bytes, padded to 4; varied: 0 */
    size_t budget;      /* bytes of records beyond which only those of pinned shards are kept */
    uint32_t shard_count;
    uint64_t shard_inverse; /* 2^64 / shard_count, rounded up: see data_shard_of */

    pthread_mutex_t lock; /* guards what follows; but records of shards that are pinned and held stay as they are */
    struct data_shard *shards;
    size_t bytes;        /* of all records */
    uint64_t departures; /* see data_shard.left */
    uint64_t turn;       /* the order of the chunk that is put into the shards next */
    struct data_chunk *early;
    struct data_tally *tallies;     /* of the reading under way, those that no open chunk has */
    struct wire_input_shard *input; /* the fingerprint of the last whole reading, by shard; NULL: none yet */
    bool complete;                  /* the whole input has been read once */
    atomic_bool welcome_over;       /* the budget is exhausted: shards that are only DATA_WELCOME are not kept */
};

/* The items of some shards, arranged. Block (clock part, thread, bin) is items[starts[b]..starts[b + 1]). */
struct data_set {
    size_t item_size; /* varied: 0 */
    unsigned char *items;
    size_t count;
    size_t *starts;
    size_t *offsets; /* varied: in bytes what `starts` is in items; else NULL */
    unsigned clocks, threads, bins;
    unsigned char *tests;
    size_t test_count;
    size_t *test_starts, *test_offsets; /* per thread */
    double totals[WIRE_TOTALS];
    struct data_store *store; /* items and tests are its; NULL: our own */
};

void data_open(struct data *data, const struct aml_app *app, uint32_t shards, size_t budget);
void data_close(struct data *data);

/* ---- Which shards ---- */

/* The shard of items whose first key (or number) this is. */
uint32_t data_shard_of(const struct data *data, uint64_t key);
/* The node is to work on these shards: their records stay once they are here. True when they are: no reading needed. */
bool data_pin(struct data *data, const uint32_t *shards, uint32_t count);
/* It no longer does: the records may go when the budget is exceeded. Once for each data_pin. */
void data_unpin(struct data *data, const uint32_t *shards, uint32_t count);

/* ---- Reading. One reading at a time, and no data_pin meanwhile ---- */

/* The input is read from its beginning: keeps what is pinned and not here, the first time also the rest, as long as the
 * budget lasts. */
void data_read_begin(struct data *data);
/* The whole input was read; or not, then nothing of it counts. All chunks are closed. Returns true when the input's
 * fingerprint is another than before: after the first reading, or because the input has changed. */
bool data_read_end(struct data *data, bool whole);

/* A chunk to fill, by one thread. Orders count from 0 without gaps; what leaves a gap is put together at the end. Any
 * thread. */
struct data_chunk *data_chunk_open(struct data *data, uint64_t order);
/* The order after that of the chunks so far, when all are closed. */
uint64_t data_next_order(struct data *data);
void data_chunk_close(struct data *data, struct data_chunk *chunk);
/* It has as many items as one should: the same for every process. */
bool data_chunk_full(const struct data_chunk *chunk);
/* Keeps the item if the reading wants its shard: 1 or 0. The chunk's thread. */
int data_emit(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes);
/* ... a varied one, within the limits of agileml.h. */
int data_emit_varied(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t key,
                     const struct aml_keys *runs, unsigned run_count, const void *bytes, size_t size);
/* The WIRE_TOTALS totals that the chunk's last item counts in; NULL when it was not kept. */
double *data_totals(const struct data *data, struct data_chunk *chunk);

/* ---- Arranging ---- */

/* The rows that a set's items name. */
struct data_rows {
    /* Finds their cache slots; they are in use from now on. */
    int (*slots)(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                 struct error *error);
    /* Rows whose slots were found for an earlier set are in use again. */
    void (*use)(void *context, unsigned table, const uint32_t *slots, size_t count);
    void *context;
};

/* Makes a set of these shards, which are pinned and held. The training items are ordered for `clocks` parts of an
 * iteration and `threads` threads: groups (items with the same first row) are dealt to clocks by a hash of `seed` and
 * their key, dealt to threads in equal parts, and shuffled. Items without rows and varied ones are dealt to clocks and
 * threads one by one, in parts of equal size: to clocks those of each shard by themselves. Either way an item is in the
 * same part in every set. `clocks` and `seed` are the same each time. One set at a time is made; sets may be
 * closed meanwhile. */
int data_arrange(struct data *data, const uint32_t *shards, uint32_t count, unsigned clocks, unsigned threads,
                 uint64_t seed, const struct data_rows *rows, struct data_set *set, struct error *error);
/* After the data_unpin of its shards. */
void data_set_close(struct data *data, struct data_set *set);

/* The training items of clock part `part` that `thread` works on in round `round` (0..bins-1), while the other threads
 * are in the same round. Returns their number. */
size_t data_block(const struct data_set *set, unsigned part, unsigned thread, unsigned round, const void **items);
/* How many training items the part has. */
size_t data_part_count(const struct data_set *set, unsigned part);
size_t data_tests(const struct data_set *set, unsigned thread, const void **items);

#endif
