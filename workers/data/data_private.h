/* What the files behind data.h share: the form of records, and the arguments of data_arrange's parts. */
#ifndef AGILEML_WORKERS_DATA_PRIVATE_H
#define AGILEML_WORKERS_DATA_PRIVATE_H

#include "workers/data/data.h"
#include "workers/data/lots.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <string.h>

/* The head of a varied item's record. It is followed by `runs` pairs of table and count (uint32_t), `rows` keys
 * (uint32_t if all of them fit, else uint64_t), and `size` bytes, padded to 4. A record is never smaller than its item.
 * A fixed item's record has no head: it is item_rows keys, then the bytes. A rowless item's record is the item itself;
 * if varied, a struct aml_item, then its bytes, padded to 4. Records are not aligned. */
struct record_head {
    uint32_t bytes; /* of the whole record */
    uint16_t runs;
    uint16_t key_bytes; /* 4 or 8 */
    uint32_t rows, size;
};

/* The items of a set of rowless items, which are also their shards' records. */
struct data_store {
    unsigned refs; /* the set, and each shard whose records these are; guarded by data.lock */
    unsigned char *items[2];
    uint32_t *places[2]; /* the index in `items` of each record, in the order of the set's shards */
    size_t *offsets[2];  /* of the items, by that index: data_set.item_offsets */
};

/* A shard's items with fixed rows. They are made once, since a row's slot, the parts and the seed stay the same for as
 * long as the process runs. */
struct data_order {
    unsigned char *items[2]; /* [use]: training items by group, test items in the order of the input */
    uint32_t *groups;        /* the first training item of each group, and the end of the last */
    uint32_t *parts;         /* the first group of each part of an iteration, and the end of the last */
    uint64_t seed;           /* by which groups were shuffled */
};

/* The arguments of data_arrange, for its parts. */
struct arranging {
    struct data *data;
    const uint32_t *shards;
    uint32_t shard_count;
    const struct data_rows *rows;
    uint64_t seed;
    struct data_set *set;
};

/* Index of the first of the set's shards that is in a slice. With set->slices as slice: the number of shards. */
static inline uint32_t slice_first(const struct arranging *arranging, unsigned slice) {
    return lots_slice_first(arranging->shard_count, arranging->set->slices - 1, slice);
}

enum { DATA_EXTENT_BYTES_MIN = 512 };

static inline size_t round_up(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

static inline void totals_clear(double totals[WIRE_TOTALS]) {
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        totals[t] = t < WIRE_TOTALS / 2 ? 0 : -INFINITY;
    }
}

static inline void totals_add(double totals[WIRE_TOTALS], const double more[WIRE_TOTALS]) {
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        totals[t] = t < WIRE_TOTALS / 2 ? totals[t] + more[t] : fmax(totals[t], more[t]);
    }
}

static inline struct record_head record_head(const unsigned char *record) {
    struct record_head head;
    memcpy(&head, record, sizeof head);
    return head;
}

/* The size of a varied item that is its own record. */
static inline size_t rowless_size(const unsigned char *record) {
    struct aml_item item;
    memcpy(&item, record, sizeof item);
    return sizeof item + round_up(item.size, 4);
}

static inline size_t record_size(const struct data *data, const unsigned char *record) {
    return !data->varied ? data->record_size : data->rowless ? rowless_size(record) : record_head(record).bytes;
}

/* Where item `place` of a set or store begins. `offsets`: NULL if all items have this size. */
static inline size_t item_offset(const size_t *offsets, size_t item_size, size_t place) {
    return offsets != NULL ? offsets[place] : place * item_size;
}

/* Returns record `i` of a shard. The items are fixed, with all records in memory, or rowless, with a store. */
static inline const unsigned char *shard_record(const struct data *data, const struct data_shard *shard,
                                                enum aml_item_use use, size_t i) {
    const struct data_store *store = shard->store;
    return store == NULL ? shard->records[use].extents[0].records + i * data->record_size
                         : store->items[use] + item_offset(store->offsets[use], data->item_size,
                                                           store->places[use][shard->first[use] + i]);
}

void data_order_close(struct data_order *order); /* NULL is fine */

/* Arranges items with fixed rows, in groups. */
int data_arrange_groups(const struct arranging *arranging, struct error *error);

/* Writes the records, of one use, from which the shard's items in order were made: groups in their present order, and
 * each group's records in the order of the input. */
void data_order_records(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                        const struct data_keys *keys, unsigned char *to);

/* ---- data_records.c: records in memory and on disk. Under the lock, but for reading ---- */

/* Appends an entry of `size` bytes, and returns its memory. */
static inline unsigned char *data_extent_append(struct data_extent *extent, size_t size) {
    if (extent->capacity - extent->bytes < size) {
        size_t more = extent->capacity > DATA_EXTENT_BYTES_MIN ? extent->capacity : DATA_EXTENT_BYTES_MIN;
        extent->capacity += more > size ? more : size;
        extent->records = memory_resized(extent->records, extent->capacity, 1);
    }
    unsigned char *entry = extent->records + extent->bytes;
    extent->bytes += size;
    extent->count++;
    return entry;
}
/* Appends an extent, without counting it, and returns its place. */
struct data_extent *data_records_add(struct data_records *records, struct data_extent extent);
/* Makes an extent of the records that were appended, if there are any. */
void data_records_end(struct data_records *records);

/* Appends a record of `size` bytes, and returns its memory. */
static inline unsigned char *data_records_append(struct data_records *records, uint32_t stretch, size_t size) {
    if (records->open.stretch != stretch) {
        data_records_end(records);
        records->open.stretch = stretch;
    }
    return data_extent_append(&records->open, size);
}
/* Appends a copy of an extent, whose records are elsewhere in memory, and counts its bytes. One of a shard goes to the
 * file if there is too little memory. */
void data_records_copy(struct data *data, struct data_records *records, struct data_extent extent, bool piece);
/* data_records_end, and gives back what memory the records do not use. */
void data_records_fit(struct data_records *records);
/* Frees the extents, also on disk. `count` stays, and `bytes` becomes that of what stands for the records. */
void data_records_replace(struct data *data, struct data_records *records, size_t bytes);
/* Frees the records. */
void data_records_drop(struct data *data, struct data_records *records);
/* Copies the records of all extents, one behind the other, to to[records->bytes]. Those on disk are checked, and
 * dropped from the page cache. */
int data_records_read(const struct data *data, const struct data_records *records, unsigned char *to,
                      struct error *error);
/* data_records_check reads what is on disk into the page cache only, and checks it. data_records_forget drops it from
 * the page cache. */
int data_records_check(const struct data *data, const struct data_records *records, struct error *error);
void data_records_forget(const struct data *data, const struct data_records *records);
/* The extent's records, in memory or mapped. */
static inline const unsigned char *data_extent_records(const struct data *data, const struct data_extent *extent) {
    return extent->on_disk ? data->limit.records.map + extent->offset : extent->records;
}

/* Writes records out if they take too much memory. Releases the lock meanwhile. */
void data_spill_excess(struct data *data);
/* At the end of a reading: writes the rest of the records, if any were written. Releases the lock meanwhile. */
void data_spill_rest(struct data *data);
/* Frees the dropped extents' room on the disk, which may take some milliseconds for each. Takes the lock. In the thread
 * that arranges. */
void data_spill_give_back(struct data *data);
/* Warns once in the log that data which can't be on disk exceeds the limit. */
void data_warn_exceeded(struct data *data);

/* ---- data_pack.c: records as bytes, for another node ---- */

/* A packed shard, or a piece of one: this head, a packed_extent for each extent, the extents' records. All of training
 * come before those of tests. */
struct packed_head {
    char magic[4]; /* "PSH3" */
    uint32_t shard;
    uint32_t part, parts; /* of a piece; parts 0: the whole shard */
    uint32_t extents[2];  /* by enum aml_item_use; of a whole shard 1 */
    uint64_t hash;        /* of all bytes, with 0 here */
    uint64_t bytes;       /* of the records */
    struct wire_input_shard
        tally; /* items WIRE_ITEMS_UNKNOWN: the piece is not here. Of a whole shard only the items */
    double totals[WIRE_TOTALS];
};

struct packed_extent {
    uint32_t stretch, count;
    uint64_t bytes;
};

uint64_t data_packed_bytes(const struct packed_head *head);
uint64_t data_packed_hash(const struct packed_head *head, const unsigned char *bytes);
/* Whether bytes[size] begin with this shard, or its piece, and its records are such as this job has. Sets *head. */
bool data_packed_is_good(const struct data *data, const unsigned char *bytes, size_t size, uint32_t shard,
                         uint32_t part, uint32_t parts, struct packed_head *head);
/* Copies the records of good bytes to `records`. */
void data_packed_take(struct data *data, const struct packed_head *head, const unsigned char *bytes,
                      struct data_records records[2]);

/* ---- Shards. Under the lock ---- */

/* Copies the shard's records of one use, wherever they are, one behind the other in the order of the input.
 * data_shard_bytes returns how many bytes they take. */
int data_shard_read(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                    const struct data_keys *keys, unsigned char *to, struct error *error);
size_t data_shard_bytes(const struct data *data, const struct data_shard *shard, enum aml_item_use use);

/* Drops all of a shard that is here, except its pieces. */
void data_shard_drop(struct data *data, struct data_shard *shard);
/* Adds a shard to the fingerprint, or replaces what was known of it. */
void data_input_add(struct data *data, uint32_t shard, struct wire_input_shard tally);

/* Whether the present reading is one of a part. */
static inline bool data_reads_part(const struct data *data) {
    return data->division.reading < data->division.count;
}

void data_piece_close(struct data *data, struct data_piece *piece);
/* Frees the shard's pieces of all parts, except the piece that this node has read for all. */
void data_pieces_drop(struct data *data, struct data_shard *shard);
/* Frees the pieces that this node has read for all. */
void data_part_drop(struct data *data);
/* Drops all pieces, and keeps none from now on, if records and pieces take too much memory. */
void data_pieces_fit(struct data *data);
/* The shard's piece of a part; it may not be here. */
struct data_piece *data_piece_of(struct data *data, struct data_shard *shard, uint32_t part);
/* Ends a reading of a part that has come to a file. `own` and `file` are the sums of the tallies, by shard. */
void data_part_reading_end(struct data *data, bool whole, const struct wire_input_shard *own,
                           const struct wire_input_shard *file);

/* Drops shards without a pin until the budget is kept. Under the lock. */
void data_trim(struct data *data);

/* Drops a reference to the store. Under the lock. */
void data_store_release(struct data_store *store);

/* Arranges items without rows or varied items, one by one. */
int data_arrange_solo(const struct arranging *arranging, struct error *error);

/* ---- data_disk.c: sets on disk ---- */

/* Whether the set, with the memory that arranging takes, exceeds the memory for data. */
bool data_is_for_disk(const struct arranging *arranging);
/* data_arrange_solo for a set on disk. */
int data_arrange_disk(const struct arranging *arranging, struct error *error);
void data_disk_close(struct data_disk *disk); /* NULL is fine */
#endif
