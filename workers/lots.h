/* Lots: which of a node's data shards another node may work on in its place. The last shards of a node's list, up to
 * half of them, are in lots of equal numbers of shards. */
#ifndef AGILEML_WORKERS_LOTS_H
#define AGILEML_WORKERS_LOTS_H

#include <stdint.h>

/* How many lots there are in a list of so many shards: `lots`, or fewer if a lot would be empty. */
static inline unsigned lots_count(uint32_t shards, unsigned lots) {
    return lots < shards / 2 ? lots : shards / 2;
}

/* The index of the first shard of a slice, in a list that has lots_count lots. Slice 0 is what is in no lot, slice
 * 1 + L is lot L. For slice 1 + `lots`: the end. */
static inline uint32_t lots_slice_first(uint32_t shards, unsigned lots, unsigned slice) {
    uint32_t each = lots > 0 ? shards / (2 * lots) : 0;
    return slice == 0 ? 0 : shards - (1 + lots - slice) * each;
}

#endif
