/* Lots: which of a node's data shards another node may work on in the node's place. The last shards of a node's list,
 * up to half of the list, are in lots of equal numbers of shards. */
#ifndef AGILEML_WORKERS_LOTS_H
#define AGILEML_WORKERS_LOTS_H

#include <stdint.h>

/* Returns the number of lots in a list of `shards` shards: `lots`, or fewer if a lot would be empty. */
static inline unsigned lots_count(uint32_t shards, unsigned lots) {
    return lots < shards / 2 ? lots : shards / 2;
}

/* Returns the index of the first shard of a slice, in a list with `lots` lots (lots_count). Slice 0 has the shards in
 * no lot, slice 1 + L those of lot L. For slice 1 + `lots`: the list's end. These slices are not those of --slice. */
static inline uint32_t lots_slice_first(uint32_t shards, unsigned lots, unsigned slice) {
    uint32_t each = lots > 0 ? shards / (2 * lots) : 0;
    return slice == 0 ? 0 : shards - (1 + lots - slice) * each;
}

#endif
