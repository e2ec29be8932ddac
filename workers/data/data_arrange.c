/* Sets: the parts that are common to all kinds of items. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* ---- Sets ---- */

/* Moves the shards' records to the store, and frees the shards' own. */
static void shards_move(struct data *data, const uint32_t *shards, uint32_t count, struct data_store *store) {
    uint32_t first[2] = {0, 0};
    pthread_mutex_lock(&data->lock);
    for (uint32_t s = 0; s < count; s++) {
        struct data_shard *shard = &data->shards[shards[s]];
        data_store_release(shard->store);
        shard->store = store;
        store->refs++;
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            struct data_records *records = &shard->records[use];
            data_records_replace(data, records, records->bytes);
            shard->first[use] = first[use];
            first[use] += (uint32_t)records->count;
        }
    }
    pthread_mutex_unlock(&data->lock);
}

/* Counts the items in memory that are the set's own. */
static void count_set(struct data *data, struct data_set *set) {
    size_t blocks = (size_t)set->clocks * set->slices * set->threads * set->bins;
    assert(set->starts[blocks] == set->count && set->test_starts[set->threads] == set->test_count);
    if (set->store != NULL || set->disk != NULL) {
        return;
    }
    set->own_bytes = set->offsets != NULL ? set->offsets[blocks] + set->test_offsets[set->threads]
                                          : (set->count + set->test_count) * set->item_size;
    pthread_mutex_lock(&data->lock);
    data->set_bytes += set->own_bytes;
    pthread_mutex_unlock(&data->lock);
}

int data_arrange(struct data *data, const uint32_t *shards, uint32_t count, const struct data_dealing *dealing,
                 const struct data_rows *rows, struct data_set *set, struct error *error) {
    struct arranging arranging = {
        .data = data, .shards = shards, .shard_count = count, .rows = rows, .seed = dealing->seed, .set = set};
    *set = (struct data_set){.item_size = data->item_size,
                             .clocks = dealing->clocks,
                             .slices = 1 + lots_count(count, dealing->lots),
                             .threads = dealing->threads,
                             .bins = data->item_rows == 2 ? dealing->threads : 1};
    totals_clear(set->totals);
    for (uint32_t s = 0; s < count; s++) {
        const struct data_shard *shard = &data->shards[shards[s]];
        set->count += shard->records[AML_TRAIN].count;
        set->test_count += shard->records[AML_TEST].count;
        totals_add(set->totals, shard->totals);
    }
    if (set->count > UINT32_MAX || set->test_count > UINT32_MAX) {
        return error_set(error, AML_ELIMIT, "%zu items on one node, more than %u: use more nodes",
                         set->count > set->test_count ? set->count : set->test_count, UINT32_MAX);
    }
    int result = data->item_rows > 0            ? data_arrange_groups(&arranging, error)
                 : data_is_for_disk(&arranging) ? data_arrange_disk(&arranging, error)
                                                : data_arrange_solo(&arranging, error);
    data_spill_give_back(data);
    if (result == 0) {
        count_set(data, set);
    }
    if (result == 0 && set->store != NULL) {
        shards_move(data, shards, count, set->store);
    } else if (result != 0) {
        data_set_close(data, set);
    }
    return result;
}

void data_set_close(struct data *data, struct data_set *set) {
    if (set->own_bytes > 0) {
        pthread_mutex_lock(&data->lock);
        assert(data->set_bytes >= set->own_bytes);
        data->set_bytes -= set->own_bytes;
        pthread_mutex_unlock(&data->lock);
    }
    if (set->store != NULL) {
        pthread_mutex_lock(&data->lock);
        data_store_release(set->store);
        pthread_mutex_unlock(&data->lock);
    } else {
        if (set->disk != NULL) {
            data_disk_close(set->disk);
        } else {
            free(set->items);
            free(set->tests);
        }
        free(set->item_offsets[AML_TRAIN]);
        free(set->item_offsets[AML_TEST]);
    }
    free(set->ids[AML_TRAIN]);
    free(set->ids[AML_TEST]);
    free(set->starts);
    free(set->offsets);
    free(set->test_starts);
    free(set->test_offsets);
    memset(set, 0, sizeof *set);
}

/* The first byte of block i. */
static size_t set_offset(const struct data_set *set, const size_t *starts, const size_t *offsets, size_t i) {
    return offsets != NULL ? offsets[i] : starts[i] * set->item_size;
}

size_t data_block(const struct data_set *set, unsigned part, unsigned slice, unsigned thread, unsigned round,
                  const void **items) {
    assert(part < set->clocks && slice < set->slices && thread < set->threads);
    unsigned bin = (thread + round) % set->bins;
    size_t block = (((size_t)part * set->slices + slice) * set->threads + thread) * set->bins + bin;
    *items = set->items + set_offset(set, set->starts, set->offsets, block);
    return set->starts[block + 1] - set->starts[block];
}

/* The number of items in `count` slices from `first` on, with slices counted over all parts. */
static size_t slices_count(const struct data_set *set, size_t first, size_t count) {
    size_t blocks = (size_t)set->threads * set->bins;
    return set->starts[(first + count) * blocks] - set->starts[first * blocks];
}

size_t data_slice_count(const struct data_set *set, unsigned part, unsigned slice) {
    return slices_count(set, (size_t)part * set->slices + slice, 1);
}

size_t data_part_count(const struct data_set *set, unsigned part) {
    return slices_count(set, (size_t)part * set->slices, set->slices);
}

size_t data_part_first(const struct data_set *set, unsigned part) {
    return set->starts[(size_t)part * set->slices * set->threads * set->bins];
}

const void *data_item(const struct data_set *set, enum aml_item_use use, size_t place) {
    return (use == AML_TRAIN ? set->items : set->tests) + item_offset(set->item_offsets[use], set->item_size, place);
}

size_t data_item_place(const struct data_set *set, enum aml_item_use use, const void *item) {
    const size_t *offsets = set->item_offsets[use];
    size_t offset = (size_t)((const unsigned char *)item - (use == AML_TRAIN ? set->items : set->tests));
    if (offsets == NULL) {
        return offset / set->item_size;
    }
    size_t first = 0;
    for (size_t end = use == AML_TRAIN ? set->count : set->test_count; first < end;) {
        size_t middle = first + (end - first) / 2;
        if (offsets[middle] < offset) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

size_t data_tests(const struct data_set *set, unsigned thread, const void **items) {
    *items = set->tests + set_offset(set, set->test_starts, set->test_offsets, thread);
    return set->test_starts[thread + 1] - set->test_starts[thread];
}
