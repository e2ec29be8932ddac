/* The data items of one node: collected while the app reads its input (in several threads), then turned into compact
 * arrays of row slots and bytes, ordered so that each thread's part of each clock is contiguous and no two threads
 * work on the same rows at once. Does not read files, does not call the app. */
#ifndef AGILEML_WORKERS_DATA_H
#define AGILEML_WORKERS_DATA_H

#include "agileml.h"
#include "workers/cache.h"

#include <pthread.h>

enum { DATA_ITEM_BYTES_MAX = 1 << 20 };

/* Items as the reader gives them: keys, then bytes; one chunk is filled by one thread. */
struct data_chunk {
    uint64_t order; /* chunks are put together in this order, whatever thread was faster */
    struct data_run {
        unsigned char *records;
        size_t count, capacity;
    } runs[2]; /* by enum aml_item_use */
    double totals[WIRE_TOTALS];
};

struct data {
    unsigned item_rows;
    const unsigned *item_tables;
    size_t item_bytes;
    size_t record_size;     /* keys and bytes, padded to 8 */
    size_t item_size;       /* slots and bytes, padded to 4 */
    const actor_id *owners; /* of each shard */
    uint32_t shards;
    actor_id self;

    pthread_mutex_t lock; /* guards the next three */
    struct data_chunk **chunks;
    size_t chunk_count;

    /* After data_arrange. Block (clock part, thread, bin) is items[starts[b]..starts[b + 1]). */
    unsigned char *items;
    size_t count;
    size_t *starts;
    unsigned clocks, threads, bins;
    unsigned char *tests;
    size_t test_count;
    size_t *test_starts; /* per thread */
    double totals[WIRE_TOTALS];
};

/* `plan` is in force for as long as `data` is used. */
void data_init(struct data *data, const struct aml_app *app, const struct message *plan, actor_id self);
void data_close(struct data *data);

/* A chunk to fill; orders are unique. Any thread. Belongs to `data`. */
struct data_chunk *data_chunk_open(struct data *data, uint64_t order);
/* Keeps the item if its shard is this node's: 1 or 0. The chunk's thread. */
int data_emit(struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes);

/* Puts the chunks together, adds every row that the items name to `cache`, and orders the training items for `clocks`
 * parts of an iteration and `threads` threads: groups (items with the same first row) are dealt to clocks and threads
 * by a hash of `seed` and their key, and shuffled. */
int data_arrange(struct data *data, struct cache *cache, unsigned clocks, unsigned threads, uint64_t seed,
                 struct error *error);

/* The training items of clock part `part` that `thread` works on in round `round` (0..bins-1), while the other threads
 * are in the same round. Returns their number. */
size_t data_block(const struct data *data, unsigned part, unsigned thread, unsigned round, const void **items);
size_t data_tests(const struct data *data, unsigned thread, const void **items);

#endif
