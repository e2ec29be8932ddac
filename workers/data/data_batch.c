/* Batches: the training items of one data shard in one part of an iteration, for feeders and the nodes that they feed.
 * Only rowless items have batches. See data.h. */
#include "workers/data/data_solo.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

static int order_of_parts(const void *a, const void *b) {
    const struct data_dealt *one = a;
    const struct data_dealt *other = b;
    if (one->part != other->part) {
        return one->part < other->part ? -1 : 1;
    }
    return one->record < other->record ? -1 : one->record > other->record;
}

/* Lists the shard's training records by their part, once. Under the lock. */
static const struct data_dealt *dealt_of(struct data *data, uint32_t number, const struct data_dealing *dealing) {
    struct data_shard *shard = &data->shards[number];
    size_t count = shard->records[AML_TRAIN].count;
    if (shard->dealt != NULL || count == 0) {
        return shard->dealt;
    }
    struct data_set set = {.clocks = dealing->clocks, .slices = 1};
    const struct arranging arranging = {
        .data = data, .shards = &number, .shard_count = 1, .seed = dealing->seed, .set = &set};
    struct solo *items = memory_resized(NULL, count, sizeof *items);
    solo_list(&arranging, AML_TRAIN, 0, 1, 0, items);
    shard->dealt = memory_resized(NULL, count, sizeof *shard->dealt);
    for (size_t i = 0; i < count; i++) {
        shard->dealt[i] = (struct data_dealt){.part = items[i].part, .record = items[i].number};
    }
    qsort(shard->dealt, count, sizeof *shard->dealt, order_of_parts);
    free(items);
    return shard->dealt;
}

/* Returns the index of the first dealt record that is of this part or a later one. */
static size_t first_of_part(const struct data_dealt *dealt, size_t count, uint32_t part) {
    size_t first = 0;
    for (size_t end = count; first < end;) {
        size_t middle = first + (end - first) / 2;
        if (dealt[middle].part < part) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

/* Copies the batch's items, as the shard may leave its store. Under the lock. */
static void copy_items(const struct data *data, const struct data_shard *shard, struct data_batch *batch) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        bytes += record_size(data, shard_record(data, shard, AML_TRAIN, batch->records[i]));
    }
    batch->copies = memory_resized(NULL, bytes, 1);
    batch->items = memory_resized(NULL, batch->count, sizeof *batch->items);
    bytes = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const unsigned char *record = shard_record(data, shard, AML_TRAIN, batch->records[i]);
        size_t size = record_size(data, record);
        batch->items[i] = memcpy(batch->copies + bytes, record, size);
        bytes += size;
    }
}

bool data_batch_open(struct data *data, uint32_t number, const struct data_dealing *dealing, unsigned part,
                     const struct data_set *set, struct data_batch *batch) {
    *batch = (struct data_batch){0};
    pthread_mutex_lock(&data->lock);
    assert(number < data->shard_count && part < dealing->clocks);
    const struct data_shard *shard = &data->shards[number];
    bool stored =
        set != NULL ? set->store != NULL && shard->store == set->store : !data->varied || shard->store != NULL;
    bool here = shard->held && shard->records[AML_TRAIN].on_disk == 0 && data->rowless && stored;
    if (here) {
        const struct data_dealt *dealt = dealt_of(data, number, dealing);
        size_t all = shard->records[AML_TRAIN].count;
        size_t first = first_of_part(dealt, all, part);
        batch->count = (uint32_t)(first_of_part(dealt, all, part + 1) - first);
        batch->records = memory_resized(NULL, batch->count, sizeof *batch->records);
        batch->places = set != NULL ? memory_resized(NULL, batch->count, sizeof *batch->places) : NULL;
        for (uint32_t i = 0; i < batch->count; i++) {
            uint32_t record = dealt[first + i].record;
            batch->records[i] = record;
            if (set != NULL) {
                batch->places[i] = shard->store->places[AML_TRAIN][shard->first[AML_TRAIN] + record];
            }
        }
        if (set == NULL) {
            copy_items(data, shard, batch);
        }
    }
    pthread_mutex_unlock(&data->lock);
    return here;
}

void data_batch_close(struct data_batch *batch) {
    free(batch->records);
    free(batch->places);
    free(batch->items);
    free(batch->copies);
    *batch = (struct data_batch){0};
}
