/* The data items of one node. Does not read files, does not call the app, knows no cache.
 *
 * While the app reads its input, in several threads, items are kept as *records* (keys and bytes), by data shard. The
 * node keeps the shards that it needs. Within a budget it also keeps others, which then need not be read again if they
 * become its own.
 *
 * A *set* is the data that the app works on: the items of some shards, as compact arrays of row slots and bytes. They
 * are ordered so that each thread's part of each clock is contiguous and no two threads work on the same rows at once.
 *
 *   items with fixed rows      replace their shard's records when the shard is first in a set; later sets copy them
 *   rowless items              are the same as their records: a set takes the records over, and gives them back when
 *                              the node leaves the shard. Fixed items without rows, and varied ones for transforms
 *   other varied items         are made from the records for each set
 *
 * Data beyond a limit is on disk (data_limit_memory). While the input is read, records are written out whenever there
 * are too many: of each shard, extent after extent. A set whose items and records are more than the limit is a file,
 * with the same blocks in the same order, which is mapped; a thread reads it ahead of the clocks.
 *
 * The *fingerprint* of the input is made while it is read. For each data shard it has the number of items and a hash of
 * them, whether the node keeps the shard or not. */
#ifndef AGILEML_WORKERS_DATA_H
#define AGILEML_WORKERS_DATA_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "agileml/base/hash.h"
#include "agileml/wire/message.h"
#include "workers/data/spill.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    DATA_ROWS_BATCH = 1024,     /* keys whose slots data_arrange requests at once */
    DATA_CHUNK_BYTES = 4 << 20, /* bytes of emitted records with which a chunk is full */
};

/* Records from an extent of the input, one behind the other: of one shard, or of all that a thread emits. */
struct data_extent {
    unsigned char *records; /* NULL: there are none in memory */
    size_t count;
    size_t bytes, capacity; /* size of the records; size of the memory */
    uint32_t stretch;       /* of a divided reading (data_stretch_begin), else 0 */
    uint32_t part;          /* of a divided input, while a shard is put together */
    bool on_disk;           /* or on their way there */
    uint64_t offset, hash;  /* on disk: place in data_limit.records; hash of the bytes */
};

/* All records of one use that a shard, or its piece, has: in memory, or on disk. */
struct data_records {
    struct data_extent open;     /* what the present reading appends, not counted; data_records_end adds it */
    struct data_extent *extents; /* in the order of the input. Of a shard: those on disk, then one in memory. None when
                                    a store or an order has the records */
    uint32_t extent_count;
    size_t count, bytes; /* of the extents' records, or of the items made of them */
    size_t on_disk;      /* those of `bytes` that are not in memory */
};

/* A training record, and the part of an iteration that it was dealt to. */
struct data_dealt {
    uint32_t part, record;
};

/* The records that a shard has from one part of a divided input. */
struct data_piece {
    struct data_records records[2]; /* by enum aml_item_use; in memory */
    bool here;                      /* the whole piece is here */
    bool gone;                      /* the node that has read the part does not have the piece any more */
    struct wire_input_shard tally;
    double totals[WIRE_TOTALS];
};

struct data_shard {
    struct data_records records[2]; /* by enum aml_item_use */
    struct data_order *order;       /* the items made from records with fixed rows; NULL: `records` has them */
    struct data_store *store;       /* the set's store that has taken the records over; NULL: `records` has them */
    uint32_t first[2];              /* place of this shard's first record in `store`, by enum aml_item_use */
    struct data_dealt *dealt;       /* the training records by part, for batches; NULL: not listed yet */
    double totals[WIRE_TOTALS];     /* over the records */
    unsigned pins;                  /* sets of this node that have, or will have, the shard */
    uint64_t left;                  /* when the last pin was removed, counted in data.departures; 0: the shard was never
                                       pinned */
    bool held;                      /* all its records are here */
    struct data_piece piece;        /* from the part that this node reads for all nodes */
    struct data_piece *pieces;      /* by part, while the shard is put together; NULL: none is here */
    bool piece_wish;                /* the present reading of a part keeps this shard's items */
    /* What the present reading does with its items. */
    enum data_wish { DATA_IGNORED, DATA_WELCOME /* within the budget */, DATA_WANTED } wish;
};

/* One thread's share of the fingerprint. */
struct data_tally {
    struct data_tally *next;
    hash_product shards[]; /* by shard: the low word counts its items, the high word sums their hashes */
};

/* The items that one thread emits from a piece of the input; data_chunk_close puts them into the shards. */
struct data_chunk {
    struct data_tally *tally;   /* used by this thread while the chunk is open */
    uint64_t order;             /* chunks are put into the shards in this order, whichever is closed first */
    uint64_t place;             /* in the input: see data_place */
    struct data_extent kept[2]; /* by enum aml_item_use: for each item the shard's number (uint32_t), then the record */
    uint64_t emitted[2];        /* items emitted, whether kept or not */
    size_t given;               /* bytes of the records of the emitted items */
    size_t expected;            /* expected bytes of kept[AML_TRAIN]: those of the chunk before; 0: not known */
    int64_t shard;              /* of the last item; -1: it was not kept */
    uint32_t *places;           /* by shard: 1 + its place in totals; 0: it has none. NULL until there are totals */
    struct {
        uint32_t shard;
        double values[WIRE_TOTALS];
    } * totals;
    uint32_t total_count;
    struct data_chunk *next; /* in data.early */
};

/* Bytes of a file. */
struct data_range {
    uint64_t from, until;
};

/* How much of the data may be in memory, and the state of the rest, which is on disk. */
struct data_limit {
    size_t bytes;              /* of records and items; SIZE_MAX: no limit */
    struct spill *spill;       /* the caller's; NULL: nothing is kept on disk */
    struct spill_file records; /* of all shards; opened when it is needed */
    bool spilling;             /* a thread writes to `records` without the lock */
    pthread_cond_t spilled;    /* signaled when `spilling` ends */
    struct data_range *unused; /* ranges of `records` whose room on the disk is to be freed */
    size_t unused_count;
    bool exceeded;      /* the log has the warning that data which can't be on disk exceeds the limit */
    struct error error; /* of the first write that failed */
    atomic_bool failed; /* `error` is set */
};

/* How an input is divided: each of `count` nodes reads one part of each file that the library reads (input_deal_part).
 * The items that `read` emits itself belong to part 0, since every node's `read` emits them. */
struct data_division {
    uint32_t count, index; /* the number of parts, and the part that this node reads for all; count 0: the input is not
                              divided */
    uint32_t reading;      /* the part that the present reading reads; `count`: all */
    bool divided;          /* the present reading has come to a file */
    bool settled;          /* all nodes have loaded, so the pieces count towards the budget */
    bool over;             /* pieces did not fit in memory, so there are none */
    size_t bytes;          /* of the records of all pieces */
    bool *empty;           /* [count]: nothing of the files is in that part, so nobody is asked for its pieces */
};

struct data {
    unsigned item_rows;
    const unsigned *item_tables;
    size_t item_bytes;
    bool varied;
    bool rowless; /* items have no rows, and so are the same as their records */
    unsigned table_count;
    size_t record_size; /* keys and bytes; item_size if items have no rows; 0 if they are varied */
    size_t item_size;   /* slots and bytes, padded to 4; 0 if items are varied */
    bool transformed;   /* the app has transforms, so sets have the ids of their items */
    size_t budget;      /* bytes of records; beyond them only the records of pinned shards are kept */
    uint32_t shard_count;
    uint64_t shard_inverse; /* 2^64 / shard_count, rounded up: see shard_of_hash */

    pthread_mutex_t lock; /* guards the fields below; records of pinned and held shards are read without it */
    struct data_shard *shards;
    size_t bytes;             /* of all records in memory */
    size_t set_bytes;         /* of items in memory that are not their shards' records, of all sets */
    uint64_t departures;      /* calls of data_unpin; see data_shard.left */
    uint64_t turn;            /* the order of the chunk that is put into the shards next */
    uint32_t stretch;         /* of the reading: see data_stretch_begin */
    uint32_t own_chunks;      /* chunks that data_chunk_open_own has opened in this stretch */
    struct data_chunk *early; /* chunks that were closed before their turn, by order */
    struct data_division division;
    /* Tallies of the present reading that no open chunk uses. [0]: for items that `read` emits itself; [1]: for items
     * of files that the library reads. */
    struct data_tally *tallies[2];
    /* The fingerprint, by shard; items WIRE_ITEMS_UNKNOWN: not known yet, as the shard was not put together. NULL: the
     * whole fingerprint is not known yet. */
    struct wire_input_shard *input;
    struct wire_input_shard own; /* the fingerprint of what `read` emits itself, over all shards; items
                                    WIRE_ITEMS_UNKNOWN: not known yet */
    bool news;                   /* the fingerprint has changed since data_input_news */
    bool complete;               /* the input has been read completely at least once */
    _Atomic size_t chunk_bytes;  /* data_chunk.expected of the next chunk; any thread */
    atomic_bool welcome_over;    /* the budget is exhausted: shards that are only DATA_WELCOME are not kept */
    struct data_limit limit;
};

/* The arranged items of some shards. Block b (a clock part, slice, thread and bin) is items[starts[b]..starts[b + 1]).
 * Slices are worked on one after the other: first the items in no lot, then the lots (node_lots.h). */
struct data_set {
    size_t item_size; /* 0 if items are varied */
    unsigned char *items;
    size_t count;
    size_t *starts;  /* first item of each block */
    size_t *offsets; /* first byte of each block, if items are varied; else NULL */
    unsigned clocks, slices, threads, bins;
    unsigned char *tests;
    size_t test_count;
    size_t *test_starts, *test_offsets; /* like starts and offsets, by thread */
    double totals[WIRE_TOTALS];
    size_t own_bytes;         /* this set's share of data.set_bytes */
    struct data_store *store; /* owns items and tests; NULL: the set owns them, or `disk` */
    struct data_disk *disk;   /* maps items and tests, which are on disk; NULL: they are in memory */
    uint64_t *ids[2];         /* by enum aml_item_use, in an app with transforms: see data_item_id; else NULL */
    size_t *item_offsets[2];  /* if items are varied and rowless: where each item begins in items and tests, and where
                                 the last one ends; else NULL. Owned by the store, if there is one */
};

/* Names an item that has no rows for as long as the job runs, in every process: its shard, and its place among the
 * shard's records of this use. */
static inline uint64_t data_item_id(uint32_t shard, uint32_t record) {
    return (uint64_t)shard << 32 | record;
}

void data_open(struct data *data, const struct aml_app *app, uint32_t shards, size_t budget);
void data_close(struct data *data);
/* Limits records and items in memory to `bytes`; the rest goes to files of `spill`. At most once, right after
 * data_open. Items with fixed rows stay in memory even so, but their records do not. */
void data_limit_memory(struct data *data, size_t bytes, struct spill *spill);
/* Whether records could not be written. The present reading is then worthless, and *error has the reason. Any
 * thread. */
bool data_failed(struct data *data, struct error *error);

/* ---- Which shards ---- */

/* Pins shards that the node is to work on: their records are kept once they are here. True when all are here, so that
 * no reading is needed. */
bool data_pin(struct data *data, const uint32_t *shards, uint32_t count);
/* Undoes one data_pin. The records of shards without a pin may be dropped when the budget is exceeded. */
void data_unpin(struct data *data, const uint32_t *shards, uint32_t count);

/* ---- Shards from other nodes, and for them ---- */

/* The keys of rows by their cache slots. */
struct data_keys {
    uint64_t (*key)(const void *context, unsigned table, uint32_t slot);
    const void *context;
};

/* Whether all records of the shard are here. */
bool data_has(struct data *data, uint32_t shard);
/* Returns the shard's records as bytes; NULL: they are not here. Also while a reading or data_arrange runs. */
struct buffer *data_pack(struct data *data, uint32_t shard, const struct data_keys *keys);
/* Takes the records of a pinned shard, unless they are here. Not during a reading. False when the bytes are not what
 * data_pack makes of this shard and of such items. */
bool data_unpack(struct data *data, uint32_t shard, const unsigned char *bytes, size_t size);

/* ---- Pieces of shards: a divided input (docs/design.md, "An input is parsed once") ---- */

/* Divides the input into `count` parts, of which this node reads number `index` for all. Before the first reading. */
void data_divide(struct data *data, uint32_t count, uint32_t index);
/* Whether the input has parts, and so shards have pieces. False before data_divide. False again after a reading of a
 * part that came to no file: such a reading has read all of the input. */
bool data_is_divided(struct data *data);
/* Lists those of the shards that lack their piece of `part`, if the part's node may have it. Returns their number. The
 * input must be divided. */
uint32_t data_lacks_piece(struct data *data, const uint32_t *shards, uint32_t count, uint32_t part, uint32_t *lacking);
/* Lists the parts, in parts[division.count], of which a piece is missing. Returns their number. */
uint32_t data_missing_parts(struct data *data, const uint32_t *shards, uint32_t count, uint32_t *parts);
/* Packs pieces of this node's part: those of the first of these shards, up to about `limit` bytes, at least one
 * piece. */
struct buffer *data_pack_pieces(struct data *data, const uint32_t *shards, uint32_t count, size_t limit);
/* Takes packed pieces of `part`, which are those of the first of these pinned shards. Puts together each shard that
 * then has all its pieces. Not during a reading. False when the bytes are not what data_pack_pieces makes of such
 * shards and items. */
bool data_take_pieces(struct data *data, uint32_t part, const uint32_t *shards, uint32_t count,
                      const unsigned char *bytes, size_t size);
/* Call it when all nodes have loaded. The part stays here for nodes that take shards over, but only within the
 * budget. */
void data_settle(struct data *data);
/* Whether to read with one thread alone, since the other threads may work on clocks. */
bool data_is_settled(struct data *data);

/* ---- Reading. One reading at a time, and no data_pin meanwhile ---- */

/* Begins a reading of the input, which keeps the pinned shards that are not here. The first reading also keeps the
 * other shards as long as the budget lasts. */
void data_read_begin(struct data *data);
/* Begins a reading of one part. The first reading of this node's own part keeps the items of all shards. Any other
 * keeps those of the pinned shards that lack their piece of the part. */
void data_read_part_begin(struct data *data, uint32_t part);
/* Call it when the present reading comes to a file that the library reads. Returns the number of the part to read;
 * *count becomes the number of parts. */
uint32_t data_read_file(struct data *data, uint32_t *count);
/* Says, while a part is read, that a part other than the first has nothing of any file. */
void data_part_is_empty(struct data *data, uint32_t part);
/* Ends a reading; all chunks must be closed. Without `whole` the reading has failed, and its items are dropped. */
void data_read_end(struct data *data, bool whole);
/* Makes a fingerprint that knows no shard, unless there is one. */
void data_input_open(struct data *data);
/* Whether the input's fingerprint differs from that at the last call: more of it is known, or the input has changed. */
bool data_input_news(struct data *data);

/* A reading consists of stretches. Odd numbers are what a file's reader emits. Even numbers, from 0, are what `read`
 * emits itself before, between and after files. Begins the next stretch and returns its number. All chunks must be
 * closed. */
uint32_t data_stretch_begin(struct data *data);
enum { DATA_STRETCHES_MAX = 1 << 16, DATA_EXTENTS_MAX = 1 << 24, DATA_EXTENT_CHUNKS_MAX = 1 << 24 };

/* The place of a chunk in the input, which is the same in every process that reads the chunk. */
static inline uint64_t data_place(uint32_t stretch, uint32_t extent, uint32_t chunk) {
    return (uint64_t)stretch << 48 | (uint64_t)(extent % DATA_EXTENTS_MAX) << 24 | chunk % DATA_EXTENT_CHUNKS_MAX;
}

/* Opens a chunk, which one thread fills. Orders count from 0; a missing order delays all later chunks until
 * data_read_end. Any thread. */
struct data_chunk *data_chunk_open(struct data *data, uint64_t order, uint64_t place);
/* Opens the next chunk of items that `read` emits itself. All chunks must be closed. */
struct data_chunk *data_chunk_open_own(struct data *data);
/* The order for the next chunk. All chunks must be closed. */
uint64_t data_next_order(struct data *data);
void data_chunk_close(struct data *data, struct data_chunk *chunk);
/* Whether to close the chunk and open the next one: at the same item in every process. */
bool data_chunk_full(const struct data_chunk *chunk);
/* Keeps an item if the reading keeps its shard. Returns 1 if so, else 0. In the chunk's thread. */
int data_emit(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes);
/* data_emit for an item without rows, whose shard follows from `number`. */
int data_emit_numbered(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t number,
                       const void *bytes);
/* data_emit for a varied item, which must be within the limits of agileml.h. */
int data_emit_varied(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, uint64_t key,
                     const struct aml_keys *runs, unsigned run_count, const void *bytes, size_t size);
/* The totals, WIRE_TOTALS of them, to which the chunk's last item adds; NULL when it was not kept. */
double *data_totals(const struct data *data, struct data_chunk *chunk);

/* ---- Arranging ---- */

/* Access to the cache, for the rows that a set's items name. */
struct data_rows {
    /* Finds the rows' cache slots, and marks the rows as in use. */
    int (*slots)(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                 struct error *error);
    /* Marks rows as in use whose slots were found for an earlier set. */
    void (*use)(void *context, unsigned table, const uint32_t *slots, size_t count);
    void *context;
};

/* How the items of a set are dealt. `clocks` and `seed` must be the same for every set. */
struct data_dealing {
    unsigned clocks, threads;
    unsigned lots; /* slices of about the same number of shards at the set's end (lots.h), besides the first slice */
    uint64_t seed;
};

/* Makes a set of these shards, which must be pinned and held. The training items are ordered for `clocks` parts of an
 * iteration, for slices, and for `threads` threads:
 *
 *   items with fixed rows   in groups of the same first row. A hash of `seed` and the row's key chooses the group's
 *                           part; threads get about equal numbers of items; each group is shuffled.
 *   all other items         one by one. Each shard's items are dealt to the parts in equal sizes, then the set's to
 *                           threads.
 *
 * Either way an item is in the same part in every set. One set is made at a time; other sets may be closed
 * meanwhile. */
int data_arrange(struct data *data, const uint32_t *shards, uint32_t count, const struct data_dealing *dealing,
                 const struct data_rows *rows, struct data_set *set, struct error *error);
/* Frees a set, after the data_unpin of its shards. */
void data_set_close(struct data *data, struct data_set *set);

/* Finds the training items of one slice of clock part `part` for `thread` in round `round` (0..bins-1). All threads
 * must be in the same round, so that no two share a row. Returns the number of items. */
size_t data_block(const struct data_set *set, unsigned part, unsigned slice, unsigned thread, unsigned round,
                  const void **items);
/* The number of training items in one slice of the part; in all slices of the part. */
size_t data_slice_count(const struct data_set *set, unsigned part, unsigned slice);
size_t data_part_count(const struct data_set *set, unsigned part);
/* The set's first training item of the part. The part's other items follow it. */
size_t data_part_first(const struct data_set *set, unsigned part);
/* The item at this place in `items` or `tests`; the place of an item. Only for rowless items in an app with transforms.
 * */
const void *data_item(const struct data_set *set, enum aml_item_use use, size_t place);
size_t data_item_place(const struct data_set *set, enum aml_item_use use, const void *item);
/* Finds the thread's test items. Returns their number. */
size_t data_tests(const struct data_set *set, unsigned thread, const void **items);

/* ---- Sets on disk. With a set in memory these do nothing. One thread, while no other uses the set's items ---- */

/* Waits until the part's items are in memory, and has the next parts' items read ahead. If the part does not fit in
 * memory, its rest is read while items are used. Adds the time to spill.waited_us. */
int data_part_begin(struct data_set *set, unsigned part, struct error *error);
/* Call it after the part's items were used. AML_EFAIL when some differ from what was written. */
int data_part_end(struct data_set *set, struct error *error);
/* Checks the test items when they are used first. They stay on disk, and the kernel reads what is used. */
int data_tests_begin(struct data_set *set, struct error *error);
/* Drops the set's items from memory, after a function that has used them all. */
void data_set_forget(struct data_set *set);

/* ---- Batches: the training items of one shard in one part of an iteration, for feeders (node_feed.h) ---- */

struct data_batch {
    uint32_t count;
    uint32_t *records;           /* places among the shard's records, ascending */
    uint32_t *places;            /* places of the items in the set; NULL without a set */
    const unsigned char **items; /* the items, in `copies` */
    unsigned char *copies;       /* with a set, this and `items` are NULL */
};

/* Finds a batch. With a set, finds the items' places in it; without, copies the items. False: the shard's records are
 * not in memory, or do not belong to this set. data_batch_close must follow in any case. */
bool data_batch_open(struct data *data, uint32_t shard, const struct data_dealing *dealing, unsigned part,
                     const struct data_set *set, struct data_batch *batch);
void data_batch_close(struct data_batch *batch);

#endif
