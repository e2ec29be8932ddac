/* Sets of items with fixed rows. Each shard is put in order by itself, once: its records become items in groups of the
 * same first row, and the groups are ordered by the parts of an iteration. (All items of a group are in one shard.) A
 * set then copies the shards' items, part by part. See data.h. */
#include "workers/data/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

static uint64_t record_key(const unsigned char *record, unsigned row) {
    uint64_t key;
    memcpy(&key, record + row * sizeof key, sizeof key);
    return key;
}

static uint32_t item_slot(const unsigned char *item, unsigned row) {
    uint32_t slot;
    memcpy(&slot, item + row * sizeof slot, sizeof slot);
    return slot;
}

/* ---- A shard in order ---- */

/* Turns at most DATA_ROWS_BATCH records into items. */
static int batch_to_items(const struct arranging *arranging, const unsigned char *records, size_t count,
                          unsigned char *items, struct error *error) {
    const struct data *data = arranging->data;
    uint64_t keys[DATA_ROWS_BATCH];
    uint32_t slots[DATA_ROWS_BATCH];
    for (unsigned r = 0; r < data->item_rows; r++) {
        for (size_t i = 0; i < count; i++) {
            keys[i] = record_key(records + i * data->record_size, r);
        }
        int result = arranging->rows->slots(arranging->rows->context, data->item_tables[r], keys, slots, count, error);
        if (result != 0) {
            return result;
        }
        for (size_t i = 0; i < count; i++) {
            memcpy(items + i * data->item_size + r * sizeof *slots, &slots[i], sizeof *slots);
        }
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(items + i * data->item_size + data->item_rows * sizeof *slots,
               records + i * data->record_size + data->item_rows * sizeof *keys, data->item_bytes);
    }
    return 0;
}

/* Turns a shard's records of one use into items, in their order. The caller frees *items. */
static int records_to_items(const struct arranging *arranging, const struct data_extent *records, unsigned char **items,
                            struct error *error) {
    const struct data *data = arranging->data;
    *items = memory_resized(NULL, records->count, data->item_size);
    for (size_t first = 0; first < records->count; first += DATA_ROWS_BATCH) {
        size_t count = records->count - first < DATA_ROWS_BATCH ? records->count - first : DATA_ROWS_BATCH;
        int result = batch_to_items(arranging, records->records + first * data->record_size, count,
                                    *items + first * data->item_size, error);
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

/* A record's place in the order of groups. Different first keys have different values of `hash`. */
struct place {
    uint64_t hash;
    uint32_t part, record;
};

static int place_order(const void *a, const void *b) {
    const struct place *left = a;
    const struct place *right = b;
    if (left->part != right->part) {
        return left->part < right->part ? -1 : 1;
    }
    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    return left->record < right->record ? -1 : left->record > right->record;
}

static struct place *places_make(const struct arranging *arranging, const struct data_extent *records) {
    const struct data *data = arranging->data;
    struct place *places = memory_resized(NULL, records->count, sizeof *places);
    for (size_t i = 0; i < records->count; i++) {
        uint64_t key = record_key(records->records + i * data->record_size, 0);
        uint64_t hash = hash_mix(arranging->seed ^ hash_mix(key));
        places[i] = (struct place){
            .hash = hash, .part = (uint32_t)(hash >> 33) % arranging->set->clocks, .record = (uint32_t)i};
    }
    if (records->count > 0) { /* qsort takes no NULL */
        qsort(places, records->count, sizeof *places, place_order);
    }
    return places;
}

/* Shuffles the places of a group (Fisher-Yates). */
static void group_shuffle(struct place *places, uint32_t count) {
    uint64_t random = places[0].hash;
    for (uint32_t i = count; i > 1; i--) {
        random = hash_mix(random);
        uint32_t other = (uint32_t)(random % i);
        struct place swap = places[i - 1];
        places[i - 1] = places[other];
        places[other] = swap;
    }
}

/* Finds the groups and the first group of each part, and shuffles each group. */
static void groups_find(const struct arranging *arranging, struct place *places, uint32_t count,
                        struct data_order *order) {
    unsigned parts = arranging->set->clocks;
    uint32_t used = 0;
    order->parts = memory_zeroed(parts + 1U, sizeof *order->parts);
    order->groups = memory_resized(NULL, count + 1U, sizeof *order->groups);
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && places[end].hash == places[first].hash; end++) {
        }
        order->parts[places[first].part + 1]++;
        order->groups[used++] = first;
        group_shuffle(places + first, end - first);
    }
    order->groups[used] = count;
    order->groups = memory_resized(order->groups, used + 1U, sizeof *order->groups);
    for (unsigned p = 0; p < parts; p++) {
        order->parts[p + 1] += order->parts[p];
    }
    assert(order->parts[parts] == used);
}

static int extents_to_order(const struct arranging *arranging, const struct data_extent extents[2],
                            struct data_order *order, struct error *error) {
    const struct data_extent *train = &extents[AML_TRAIN];
    size_t size = arranging->data->item_size;
    unsigned char *items;
    int result = records_to_items(arranging, train, &items, error);
    result = result != 0 ? result : records_to_items(arranging, &extents[AML_TEST], &order->items[AML_TEST], error);
    if (result == 0) {
        struct place *places = places_make(arranging, train);
        groups_find(arranging, places, (uint32_t)train->count, order);
        order->items[AML_TRAIN] = memory_resized(NULL, train->count, size);
        for (size_t i = 0; i < train->count; i++) {
            memcpy(order->items[AML_TRAIN] + i * size, items + places[i].record * size, size);
        }
        free(places);
    }
    free(items);
    return result;
}

static void write_record(const struct data *data, const unsigned char *item, const struct data_keys *keys,
                         unsigned char *record) {
    for (unsigned r = 0; r < data->item_rows; r++) {
        uint64_t key = keys->key(keys->context, data->item_tables[r], item_slot(item, r));
        memcpy(record + r * sizeof key, &key, sizeof key);
    }
    memcpy(record + data->item_rows * sizeof(uint64_t), item + data->item_rows * sizeof(uint32_t), data->item_bytes);
}

/* Undoes the shuffle of a group: places[p].record becomes the rank of its p-th item in the order of the input. */
static void group_ranks(const struct data *data, const struct data_order *order, const struct data_keys *keys,
                        const unsigned char *items, struct place *places, uint32_t count) {
    uint64_t key = keys->key(keys->context, data->item_tables[0], item_slot(items, 0));
    uint64_t hash = hash_mix(order->seed ^ hash_mix(key));
    for (uint32_t i = 0; i < count; i++) {
        places[i] = (struct place){.hash = hash, .record = i};
    }
    group_shuffle(places, count);
}

void data_order_records(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                        const struct data_keys *keys, unsigned char *to) {
    const struct data_order *order = shard->order;
    size_t count = shard->records[use].count;
    struct place *places = use == AML_TRAIN ? memory_resized(NULL, count, sizeof *places) : NULL;
    for (size_t i = 0, g = 0; use == AML_TRAIN && i < count; i = order->groups[++g]) {
        group_ranks(data, order, keys, order->items[use] + i * data->item_size, places + i,
                    order->groups[g + 1] - (uint32_t)i);
        for (size_t p = i; p < order->groups[g + 1]; p++) {
            places[p].record += (uint32_t)i;
        }
    }
    for (size_t i = 0; i < count; i++) {
        size_t place = places != NULL ? places[i].record : i;
        write_record(data, order->items[use] + i * data->item_size, keys, to + place * data->record_size);
    }
    free(places);
}

void data_order_close(struct data_order *order) {
    if (order != NULL) {
        free(order->items[AML_TRAIN]);
        free(order->items[AML_TEST]);
        free(order->groups);
        free(order->parts);
        free(order);
    }
}

/* Finds all of a shard's records of one use as one extent: the shard's own, or one that the caller frees, when some
 * are on disk. */
static int shard_load(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                      struct data_extent *whole, struct error *error) {
    const struct data_records *records = &shard->records[use];
    assert(records->open.count == 0);
    if (records->on_disk == 0) {
        assert(records->count == 0 || (records->extent_count == 1 && records->extents[0].count == records->count));
        *whole = records->count > 0 ? records->extents[0] : (struct data_extent){.count = 0};
        return 0;
    }
    *whole = (struct data_extent){.count = records->count, .bytes = records->bytes, .capacity = records->bytes};
    whole->records = memory_resized(NULL, whole->bytes, 1);
    return data_records_read(data, records, whole->records, error);
}

static int loaded_to_order(const struct arranging *arranging, const struct data_shard *shard, struct data_order *order,
                           struct error *error) {
    struct data_extent extents[2] = {{.count = 0}};
    int result = shard_load(arranging->data, shard, AML_TRAIN, &extents[AML_TRAIN], error);
    result = result != 0 ? result : shard_load(arranging->data, shard, AML_TEST, &extents[AML_TEST], error);
    result = result != 0 ? result : extents_to_order(arranging, extents, order, error);
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        if (shard->records[use].on_disk > 0) {
            free(extents[use].records);
        }
    }
    return result;
}

/* Replaces a shard's records by its items in order. */
static int shard_put_in_order(const struct arranging *arranging, uint32_t number, struct error *error) {
    struct data *data = arranging->data;
    struct data_shard *shard = &data->shards[number];
    struct data_order *order = memory_zeroed(1, sizeof *order);
    order->seed = arranging->seed;
    int result = loaded_to_order(arranging, shard, order, error);
    if (result != 0) {
        data_order_close(order);
        return result;
    }
    pthread_mutex_lock(&data->lock);
    shard->order = order;
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        struct data_records *records = &shard->records[use];
        data->bytes -= records->bytes - records->on_disk;
        data_records_replace(data, records, records->count * data->item_size);
        data->bytes += records->bytes;
    }
    data_warn_exceeded(data);
    pthread_mutex_unlock(&data->lock);
    return 0;
}

/* Marks the rows that a shard's items name as in use. */
static void shard_use_rows(const struct arranging *arranging, const struct data_shard *shard) {
    const struct data *data = arranging->data;
    uint32_t slots[DATA_ROWS_BATCH];
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        for (unsigned r = 0; r < data->item_rows; r++) {
            const unsigned char *item = shard->order->items[use];
            for (size_t left = shard->records[use].count, count; left > 0; left -= count) {
                count = left < DATA_ROWS_BATCH ? left : DATA_ROWS_BATCH;
                for (size_t i = 0; i < count; i++, item += data->item_size) {
                    slots[i] = item_slot(item, r);
                }
                arranging->rows->use(arranging->rows->context, data->item_tables[r], slots, count);
            }
        }
    }
}

/* ---- Threads and bins ---- */

static unsigned least_loaded(const uint64_t *loads, unsigned count) {
    unsigned least = 0;
    for (unsigned i = 1; i < count; i++) {
        least = loads[i] < loads[least] ? i : least;
    }
    return least;
}

/* Deals the rows of the items' second table to bins of about equal numbers of items. Returns the bin of each slot. */
static uint8_t *make_bins(const struct arranging *arranging) {
    const struct data_set *set = arranging->set;
    size_t capacity = 0;
    uint32_t *weights = NULL;
    assert(set->bins <= UINT8_MAX);
    uint64_t *loads = memory_zeroed(set->bins, sizeof *loads);
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_shard *shard = &arranging->data->shards[arranging->shards[s]];
        for (size_t i = 0; i < shard->records[AML_TRAIN].count; i++) {
            size_t slot = item_slot(shard->order->items[AML_TRAIN] + i * set->item_size, 1);
            if (slot >= capacity) {
                size_t more = slot + 1 > 2 * capacity ? slot + 1 : 2 * capacity;
                weights = memory_resized(weights, more, sizeof *weights);
                memset(weights + capacity, 0, (more - capacity) * sizeof *weights);
                capacity = more;
            }
            weights[slot]++;
        }
    }
    uint8_t *bin_of = memory_zeroed(capacity, 1);
    for (size_t s = 0; s < capacity; s++) {
        if (weights[s] > 0) {
            unsigned bin = least_loaded(loads, set->bins);
            bin_of[s] = (uint8_t)bin;
            loads[bin] += weights[s];
        }
    }
    free(weights);
    free(loads);
    return bin_of;
}

/* Deals the groups of a part's slice to threads, so that all have about the same number of items. Calls `each` with
 * runs of items of one thread. Another call of this function makes the same calls of `each`. */
static void deal_slice(const struct arranging *arranging, unsigned part, unsigned slice, uint64_t *loads,
                       void (*each)(void *context, unsigned thread, const unsigned char *items, size_t count),
                       void *context) {
    unsigned threads = arranging->set->threads;
    memset(loads, 0, threads * sizeof *loads);
    for (uint32_t s = slice_first(arranging, slice); s < slice_first(arranging, slice + 1); s++) {
        const struct data_order *order = arranging->data->shards[arranging->shards[s]].order;
        const uint32_t *groups = order->groups;
        uint32_t end = order->parts[part + 1];
        for (uint32_t g = order->parts[part], next; g < end; g = next) {
            next = threads == 1 ? end : g + 1;
            unsigned thread = least_loaded(loads, threads);
            loads[thread] += groups[next] - groups[g];
            each(context, thread, order->items[AML_TRAIN] + groups[g] * arranging->set->item_size,
                 groups[next] - groups[g]);
        }
    }
}

/* ---- Into the set ---- */

/* The state of filling one slice of one part of a set. */
struct filling {
    struct data_set *set;
    const uint8_t *bin_of; /* NULL: one bin */
    size_t *blocks;        /* by thread and bin: first the number of items, then the place of the next item */
};

static size_t *block_of(const struct filling *filling, unsigned thread, const unsigned char *item) {
    unsigned bin = filling->bin_of != NULL ? filling->bin_of[item_slot(item, 1)] : 0;
    return &filling->blocks[(size_t)thread * filling->set->bins + bin];
}

static void count_items(void *context, unsigned thread, const unsigned char *items, size_t count) {
    const struct filling *filling = context;
    if (filling->bin_of == NULL) {
        *block_of(filling, thread, items) += count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (*block_of(filling, thread, items + i * filling->set->item_size))++;
    }
}

static void copy_items(void *context, unsigned thread, const unsigned char *items, size_t count) {
    const struct filling *filling = context;
    size_t size = filling->set->item_size;
    if (filling->bin_of == NULL) {
        size_t *at = block_of(filling, thread, items);
        memcpy(filling->set->items + *at * size, items, count * size);
        *at += count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        size_t at = (*block_of(filling, thread, items + i * size))++;
        memcpy(filling->set->items + at * size, items + i * size, size);
    }
}

static void fill_set(const struct arranging *arranging) {
    struct data_set *set = arranging->set;
    size_t blocks = (size_t)set->threads * set->bins;
    uint8_t *bin_of = set->bins > 1 ? make_bins(arranging) : NULL;
    uint64_t *loads = memory_zeroed(set->threads, sizeof *loads);
    struct filling filling = {.set = set, .bin_of = bin_of, .blocks = memory_zeroed(blocks, sizeof *filling.blocks)};
    size_t at = 0;
    set->items = memory_resized(NULL, set->count, set->item_size);
    size_t slices = (size_t)set->clocks * set->slices;
    set->starts = memory_zeroed(slices * blocks + 1, sizeof *set->starts);
    for (size_t s = 0; s < slices; s++) {
        unsigned part = (unsigned)(s / set->slices);
        unsigned slice = (unsigned)(s % set->slices);
        memset(filling.blocks, 0, blocks * sizeof *filling.blocks);
        deal_slice(arranging, part, slice, loads, count_items, &filling);
        for (size_t b = 0; b < blocks; b++) {
            size_t count = filling.blocks[b];
            filling.blocks[b] = set->starts[s * blocks + b] = at;
            at += count;
        }
        deal_slice(arranging, part, slice, loads, copy_items, &filling);
    }
    set->starts[slices * blocks] = at;
    assert(at == set->count);
    free(filling.blocks);
    free(loads);
    free(bin_of);
}

/* Gives test items to threads: those with the same first row to the same thread, in the order of the records. */
static void fill_tests(const struct arranging *arranging) {
    struct data_set *set = arranging->set;
    set->test_starts = memory_zeroed((size_t)set->threads + 1, sizeof *set->test_starts);
    set->tests = memory_resized(NULL, set->test_count, set->item_size);
    size_t at = 0;
    for (unsigned thread = 0; thread < set->threads; thread++) {
        set->test_starts[thread] = at;
        for (uint32_t s = 0; s < arranging->shard_count; s++) {
            const struct data_shard *shard = &arranging->data->shards[arranging->shards[s]];
            for (size_t i = 0; i < shard->records[AML_TEST].count; i++) {
                const unsigned char *item = shard->order->items[AML_TEST] + i * set->item_size;
                if (hash_mix(item_slot(item, 0)) % set->threads == thread) {
                    memcpy(set->tests + at++ * set->item_size, item, set->item_size);
                }
            }
        }
    }
    set->test_starts[set->threads] = at;
    assert(at == set->test_count);
}

int data_arrange_groups(const struct arranging *arranging, struct error *error) {
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_shard *shard = &arranging->data->shards[arranging->shards[s]];
        if (shard->order != NULL) {
            shard_use_rows(arranging, shard);
            continue;
        }
        int result = shard_put_in_order(arranging, arranging->shards[s], error);
        if (result != 0) {
            return result;
        }
    }
    fill_set(arranging);
    fill_tests(arranging);
    return 0;
}
