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

/* Lists a shard's items in the order of its records, and deals training items to the set's parts and slices. Each
 * item's `part` is then that of the set's blocks. `slice` is the shard's, and the first item gets the number `number`.
 * The records on disk must be mapped. `hands` has an entry for each of `parts` parts of the iteration. */
struct hand;
void solo_list_shard(const struct arranging *arranging, uint32_t shard, enum aml_item_use use, unsigned slice,
                     uint32_t number, struct hand *hands, unsigned parts, struct solo *items);
struct hand *solo_hands(unsigned count); /* the caller frees it */
/* Returns the slice of the s-th of the set's shards. `slice` is the slice of the shard before. */
unsigned solo_slice(const struct arranging *arranging, enum aml_item_use use, unsigned slice, uint32_t s);

/* Orders items as the set has them: by part and thread, then by hash, which shuffles them. */
void solo_sort(struct solo *items, size_t count);
/* Deals the items to threads, part by part, and orders them as the set has them. */
void solo_deal_threads(struct solo *items, size_t count, unsigned threads);
/* Writes the items of these records, one behind the other: `placed` has room for their bytes (solo_bytes). New rows get
 * slots in the items' order. */
int solo_place(const struct arranging *arranging, const struct solo *items, size_t count, unsigned char *placed,
               struct error *error);

/* In an app with stages. solo_number_items takes the numbers of the set's items from `place` on, and the offsets of
 * varied ones. Once all items have numbers, solo_name_items makes ids of them (data_set.ids). */
void solo_number_items(const struct arranging *arranging, enum aml_item_use use, const struct solo *items, size_t count,
                       size_t place);
void solo_name_items(const struct arranging *arranging, enum aml_item_use use);

#endif
