/* What sets of items that are arranged one by one share, in memory (data_solo.c) and on disk (data_disk.c). */
#ifndef AGILEML_WORKERS_DATA_SOLO_H
#define AGILEML_WORKERS_DATA_SOLO_H

#include "workers/data/data_private.h"

/* An item that is to be dealt to a part and a thread. */
struct solo {
    const unsigned char *record;
    uint64_t hash;
    uint32_t weight;       /* in dealing: of a varied item with rows its bytes in memory, of others 1 */
    uint32_t number;       /* in the order of the set's records */
    uint32_t part, thread; /* `part`: first that of the iteration, later the slice of the part, counted over all
                              parts */
};

/* The item's bytes in memory. */
static inline size_t solo_bytes(const struct data *data, const struct solo *item) {
    return !data->varied ? data->item_size : data->rowless ? rowless_size(item->record) : item->weight;
}

/* Lists the items of those of the set's shards with the indices [first, end), in the order of their records. Deals
 * training items to the set's parts and slices: each item's `part` is then that of the set's blocks. The first item
 * gets the number `number`. The records on disk must be mapped. */
void solo_list(const struct arranging *arranging, enum aml_item_use use, uint32_t first, uint32_t end, uint32_t number,
               struct solo *items);

/* Orders items as the set has them: by part and thread, then by hash, which shuffles them. */
void solo_sort(struct solo *items, size_t count);
/* Deals the items to threads, part by part, and orders them as the set has them. */
void solo_deal_threads(struct solo *items, size_t count, unsigned threads);
/* Writes the items of these records, one behind the other: `placed` has room for their bytes (solo_bytes). New rows get
 * slots in the items' order. */
int solo_place(const struct arranging *arranging, const struct solo *items, size_t count, unsigned char *placed,
               struct error *error);

/* The set's blocks of one use, as data_set has them. While items are counted, each block's count stands one place after
 * the block. */
struct solo_blocks {
    size_t *starts;
    size_t *offsets; /* NULL: items are not varied */
    size_t count;
};
struct solo_blocks solo_blocks_make(const struct arranging *arranging, enum aml_item_use use);
void solo_blocks_add(const struct arranging *arranging, const struct solo_blocks *blocks, const struct solo *items,
                     size_t count);
void solo_blocks_end(const struct solo_blocks *blocks);

/* In an app with transforms. solo_number_items takes the numbers of the set's items from `place` on, and the offsets of
 * varied ones. Once all items have numbers, solo_name_items makes ids of them (data_set.ids). */
void solo_number_items(const struct arranging *arranging, enum aml_item_use use, const struct solo *items, size_t count,
                       size_t place);
void solo_name_items(const struct arranging *arranging, enum aml_item_use use);

#endif
