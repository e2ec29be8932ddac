/* What the files behind data.h share: records, as shards keep them, and what data_arrange works with. */
#ifndef AGILEML_WORKERS_DATA_PRIVATE_H
#define AGILEML_WORKERS_DATA_PRIVATE_H

#include "workers/data.h"

#include <math.h>
#include <string.h>

/* A record is item_rows keys, then the bytes; without rows it is the item. A varied one begins with this, then come
 * `runs` pairs of table and count (uint32_t), `rows` keys, and `size` bytes, padded to 4. Not aligned. */
struct record_head {
    uint32_t bytes; /* of the record in all */
    uint32_t runs, rows, size;
};

/* The items of a set of fixed items without rows, which are their records too. Guarded by data.lock: refs. */
struct data_store {
    unsigned refs; /* the set, and each shard whose records these are */
    unsigned char *items[2];
    uint32_t *places[2]; /* which item each record is, in the order of the set's shards */
};

/* A shard's items that name fixed rows, with their slots. A row's slot is the same for as long as the process runs, and
 * parts and seed are, so this is made once. */
struct data_order {
    unsigned char *items[2]; /* by enum aml_item_use; training items by group, test items in the order of the input */
    uint32_t *groups;        /* the first item of each group of training items, and beyond the last */
    uint32_t *parts;         /* the first group of each part of an iteration, and beyond the last */
};

/* What data_arrange works with. */
struct arranging {
    struct data *data;
    const uint32_t *shards;
    uint32_t shard_count;
    const struct data_rows *rows;
    uint64_t seed;
    struct data_set *set;
};

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

static inline size_t record_size(const struct data *data, const unsigned char *record) {
    return data->varied ? record_head(record).bytes : data->record_size;
}

/* Record `i` of a shard, of one size with all others. */
static inline const unsigned char *shard_record(const struct data *data, const struct data_shard *shard,
                                                enum aml_item_use use, size_t i) {
    const struct data_store *store = shard->store;
    return store != NULL ? store->items[use] + store->places[use][shard->first[use] + i] * data->item_size
                         : shard->runs[use].records + i * data->record_size;
}

void data_order_close(struct data_order *order); /* NULL is fine */

/* Items that name fixed rows, in groups. */
int data_arrange_groups(const struct arranging *arranging, struct error *error);

/* Under the lock. */
void data_store_release(struct data_store *store);

/* Items that name no rows or any, one by one: to parts, threads, and into the set. */
int data_arrange_solo(const struct arranging *arranging, struct error *error);

#endif
