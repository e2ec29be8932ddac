/* Sets: items that name fixed rows, and what all sets have. See data.h. */
#include "workers/data_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <stdlib.h>

/* ---- From records to items ---- */

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

/* At most DATA_ROWS_BATCH records as items. */
static int batch_to_items(struct arranging *arranging, const unsigned char *records, size_t count, unsigned char *items,
                          struct error *error) {
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
            arranging->slots[r] = slots[i] >= arranging->slots[r] ? slots[i] + 1 : arranging->slots[r];
        }
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(items + i * data->item_size + data->item_rows * sizeof *slots,
               records + i * data->record_size + data->item_rows * sizeof *keys, data->item_bytes);
    }
    return 0;
}

/* All the shards' records of one use, in order. */
static int records_to_items(struct arranging *arranging, enum aml_item_use use, unsigned char *items,
                            struct error *error) {
    const struct data *data = arranging->data;
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_run *run = &data->shards[arranging->shards[s]].runs[use];
        for (size_t first = 0; first < run->count; first += DATA_ROWS_BATCH) {
            size_t count = run->count - first < DATA_ROWS_BATCH ? run->count - first : DATA_ROWS_BATCH;
            int result = batch_to_items(arranging, run->records + first * data->record_size, count, items, error);
            if (result != 0) {
                return result;
            }
            items += count * data->item_size;
        }
    }
    return 0;
}

/* ---- Groups, threads, bins ---- */

/* The items with one first row, contiguous after sorting. */
struct group {
    uint64_t hash;
    uint32_t first, count;
    uint32_t part, thread;
};

static int group_order(const void *a, const void *b) {
    const struct group *left = a;
    const struct group *right = b;
    if (left->part != right->part) {
        return left->part < right->part ? -1 : 1;
    }
    return left->hash < right->hash ? -1 : left->hash > right->hash;
}

/* Counts the groups' items and hashes their keys: `groups` by slot of the first row. */
static void count_groups(const struct arranging *arranging, const unsigned char *items, struct group *groups) {
    const struct data *data = arranging->data;
    size_t n = 0;
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_run *run = &data->shards[arranging->shards[s]].runs[AML_TRAIN];
        for (size_t i = 0; i < run->count; i++, n++) {
            struct group *group = &groups[item_slot(items + n * data->item_size, 0)];
            if (group->count++ == 0) {
                group->hash = hash_mix(arranging->seed ^ hash_mix(record_key(run->records + i * data->record_size, 0)));
            }
        }
    }
}

/* Sorts items by group (stable) into `sorted` and returns the groups. */
static struct group *make_groups(const struct arranging *arranging, const unsigned char *items, unsigned char *sorted,
                                 size_t *group_count) {
    const struct data *data = arranging->data;
    const struct data_set *set = arranging->set;
    size_t slots = arranging->slots[0];
    struct group *groups = memory_zeroed(slots, sizeof *groups);
    count_groups(arranging, items, groups);
    uint32_t first = 0;
    for (size_t g = 0; g < slots; g++) {
        groups[g].first = first;
        first += groups[g].count;
        groups[g].part = (uint32_t)(groups[g].hash >> 33) % set->clocks;
        groups[g].count = 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        const unsigned char *item = items + i * data->item_size;
        struct group *group = &groups[item_slot(item, 0)];
        memcpy(sorted + (size_t)(group->first + group->count++) * data->item_size, item, data->item_size);
    }
    size_t kept = 0;
    for (size_t g = 0; g < slots; g++) {
        if (groups[g].count > 0) {
            groups[kept++] = groups[g]; /* other rows have no training items here */
        }
    }
    *group_count = kept;
    return groups;
}

/* Fisher-Yates over a group's items. */
static void group_shuffle(const struct data *data, const struct group *group, unsigned char *sorted,
                          unsigned char *swap) {
    unsigned char *items = sorted + (size_t)group->first * data->item_size;
    uint64_t random = group->hash;
    for (uint32_t i = group->count; i > 1; i--) {
        random = hash_mix(random);
        uint32_t other = (uint32_t)(random % i);
        unsigned char *a = items + (size_t)(i - 1) * data->item_size;
        unsigned char *b = items + (size_t)other * data->item_size;
        memcpy(swap, a, data->item_size);
        memmove(a, b, data->item_size);
        memcpy(b, swap, data->item_size);
    }
}

static unsigned least_loaded(const uint64_t *loads, unsigned count) {
    unsigned least = 0;
    for (unsigned i = 1; i < count; i++) {
        least = loads[i] < loads[least] ? i : least;
    }
    return least;
}

/* Deals the groups of each part to threads, so that all have about the same number of items. */
static void deal_groups(struct group *groups, size_t group_count, unsigned threads) {
    uint64_t *loads = memory_zeroed(threads, sizeof *loads);
    for (size_t g = 0; g < group_count; g++) {
        if (g > 0 && groups[g].part != groups[g - 1].part) {
            memset(loads, 0, threads * sizeof *loads);
        }
        groups[g].thread = least_loaded(loads, threads);
        loads[groups[g].thread] += groups[g].count;
    }
    free(loads);
}

/* Deals the rows of the items' second table to bins of about equal numbers of items: bin of each slot. */
static uint8_t *make_bins(const struct arranging *arranging, const unsigned char *items) {
    const struct data_set *set = arranging->set;
    size_t slots = arranging->slots[1];
    uint64_t *weights = memory_zeroed(slots, sizeof *weights);
    uint64_t *loads = memory_zeroed(set->bins, sizeof *loads);
    uint8_t *bin_of = memory_zeroed(slots, 1);
    for (size_t i = 0; i < set->count; i++) {
        weights[item_slot(items + i * set->item_size, 1)]++;
    }
    for (size_t s = 0; s < slots; s++) {
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

/* Copies the groups' items to set->items, block by block. `groups` are in order of parts. */
static void fill_blocks(struct data_set *set, const struct group *groups, size_t group_count,
                        const unsigned char *sorted, const uint8_t *bin_of) {
    size_t at = 0;
    size_t block = 0;
    size_t first = 0;
    set->starts = memory_zeroed((size_t)set->clocks * set->threads * set->bins + 1, sizeof *set->starts);
    for (unsigned part = 0; part < set->clocks; part++) {
        size_t end = first;
        while (end < group_count && groups[end].part == part) {
            end++;
        }
        for (unsigned thread = 0; thread < set->threads; thread++) {
            for (unsigned bin = 0; bin < set->bins; bin++) {
                set->starts[block++] = at;
                for (size_t g = first; g < end; g++) {
                    if (groups[g].thread != thread) {
                        continue;
                    }
                    for (uint32_t i = groups[g].first; i < groups[g].first + groups[g].count; i++) {
                        const unsigned char *item = sorted + (size_t)i * set->item_size;
                        if (bin_of == NULL || bin_of[item_slot(item, 1)] == bin) {
                            memcpy(set->items + at++ * set->item_size, item, set->item_size);
                        }
                    }
                }
            }
        }
        first = end;
    }
    set->starts[block] = at;
}

/* Orders set->items, so far in the order of the records. */
static void arrange_items(const struct arranging *arranging) {
    const struct data *data = arranging->data;
    struct data_set *set = arranging->set;
    unsigned char *sorted = memory_resized(NULL, set->count, set->item_size);
    size_t group_count;
    struct group *groups = make_groups(arranging, set->items, sorted, &group_count);
    if (group_count > 0) { /* qsort takes no NULL */
        qsort(groups, group_count, sizeof *groups, group_order);
    }
    deal_groups(groups, group_count, set->threads);
    unsigned char *swap = memory_zeroed(1, set->item_size);
    for (size_t g = 0; g < group_count; g++) {
        group_shuffle(data, &groups[g], sorted, swap);
    }
    uint8_t *bin_of = set->bins > 1 ? make_bins(arranging, sorted) : NULL;
    fill_blocks(set, groups, group_count, sorted, bin_of);
    free(bin_of);
    free(swap);
    free(groups);
    free(sorted);
}

/* Test items go to threads by their first row, as training items do, in the order of the records. */
static void arrange_tests(const struct arranging *arranging, const unsigned char *tests) {
    struct data_set *set = arranging->set;
    set->test_starts = memory_zeroed((size_t)set->threads + 1, sizeof *set->test_starts);
    set->tests = memory_resized(NULL, set->test_count, set->item_size);
    size_t at = 0;
    for (unsigned thread = 0; thread < set->threads; thread++) {
        set->test_starts[thread] = at;
        for (size_t i = 0; i < set->test_count; i++) {
            const unsigned char *item = tests + i * set->item_size;
            if (hash_mix(item_slot(item, 0)) % set->threads == thread) {
                memcpy(set->tests + at++ * set->item_size, item, set->item_size);
            }
        }
    }
    set->test_starts[set->threads] = at;
}

/* Items that name fixed rows: slots at first, in the order of the records, then in blocks. */
static int arrange_rows(struct arranging *arranging, struct error *error) {
    struct data_set *set = arranging->set;
    set->items = memory_resized(NULL, set->count, set->item_size);
    unsigned char *tests = memory_resized(NULL, set->test_count, set->item_size);
    int result = records_to_items(arranging, AML_TRAIN, set->items, error);
    result = result != 0 ? result : records_to_items(arranging, AML_TEST, tests, error);
    if (result == 0) {
        arrange_items(arranging);
        arrange_tests(arranging, tests);
    }
    free(tests);
    return result;
}

/* ---- Sets ---- */

/* The shards' records are the store's from now on. */
static void shards_move(struct data *data, const uint32_t *shards, uint32_t count, struct data_store *store) {
    uint32_t first[2] = {0, 0};
    pthread_mutex_lock(&data->lock);
    for (uint32_t s = 0; s < count; s++) {
        struct data_shard *shard = &data->shards[shards[s]];
        store_release(shard->store);
        shard->store = store;
        store->refs++;
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            struct data_run *run = &shard->runs[use];
            free(run->records);
            run->records = NULL;
            run->capacity = 0;
            shard->first[use] = first[use];
            first[use] += (uint32_t)run->count;
        }
    }
    pthread_mutex_unlock(&data->lock);
}

int data_arrange(struct data *data, const uint32_t *shards, uint32_t count, unsigned clocks, unsigned threads,
                 uint64_t seed, const struct data_rows *rows, struct data_set *set, struct error *error) {
    struct arranging arranging = {
        .data = data, .shards = shards, .shard_count = count, .rows = rows, .seed = seed, .set = set};
    *set = (struct data_set){
        .item_size = data->item_size, .clocks = clocks, .threads = threads, .bins = data->item_rows == 2 ? threads : 1};
    totals_clear(set->totals);
    for (uint32_t s = 0; s < count; s++) {
        const struct data_shard *shard = &data->shards[shards[s]];
        set->count += shard->runs[AML_TRAIN].count;
        set->test_count += shard->runs[AML_TEST].count;
        totals_add(set->totals, shard->totals);
    }
    if (set->count > UINT32_MAX || set->test_count > UINT32_MAX) {
        return error_set(error, AML_ELIMIT, "%zu items on one node, more than %u: use more nodes",
                         set->count > set->test_count ? set->count : set->test_count, UINT32_MAX);
    }
    int result = data->item_rows > 0 ? arrange_rows(&arranging, error) : arrange_solo(&arranging, error);
    if (result == 0 && set->store != NULL) {
        shards_move(data, shards, count, set->store);
    } else if (result != 0) {
        data_set_close(data, set);
    }
    return result;
}

void data_set_close(struct data *data, struct data_set *set) {
    if (set->store != NULL) {
        pthread_mutex_lock(&data->lock);
        store_release(set->store);
        pthread_mutex_unlock(&data->lock);
    } else {
        free(set->items);
        free(set->tests);
    }
    free(set->starts);
    free(set->offsets);
    free(set->test_starts);
    free(set->test_offsets);
    memset(set, 0, sizeof *set);
}

/* Where item starts[i] begins, in bytes. */
static size_t set_offset(const struct data_set *set, const size_t *starts, const size_t *offsets, size_t i) {
    return offsets != NULL ? offsets[i] : starts[i] * set->item_size;
}

size_t data_block(const struct data_set *set, unsigned part, unsigned thread, unsigned round, const void **items) {
    unsigned bin = (thread + round) % set->bins;
    size_t block = ((size_t)part * set->threads + thread) * set->bins + bin;
    *items = set->items + set_offset(set, set->starts, set->offsets, block);
    return set->starts[block + 1] - set->starts[block];
}

size_t data_part_count(const struct data_set *set, unsigned part) {
    size_t blocks = (size_t)set->threads * set->bins;
    return set->starts[(part + 1) * blocks] - set->starts[part * blocks];
}

size_t data_tests(const struct data_set *set, unsigned thread, const void **items) {
    *items = set->tests + set_offset(set, set->test_starts, set->test_offsets, thread);
    return set->test_starts[thread + 1] - set->test_starts[thread];
}
