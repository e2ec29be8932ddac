/* Sets of items that are arranged one by one: varied items, and rowless ones. See data.h. */
#include "workers/data/data_solo.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* The size of a varied item in memory: struct aml_item, the slots, the bytes. */
static size_t varied_size(const struct record_head *head) {
    return sizeof(struct aml_item) + head->rows * sizeof(uint32_t) + round_up(head->size, 4);
}

/* ---- Dealing: each item to the taker (a part or a thread) with the least load so far ---- */

struct taker {
    uint64_t load;
    uint32_t number;
};

static bool taker_before(const struct taker *one, const struct taker *other) {
    return one->load != other->load ? one->load < other->load : one->number < other->number;
}

static void takers_clear(struct taker *takers, uint32_t count) {
    for (uint32_t t = 0; t < count; t++) {
        takers[t] = (struct taker){.load = 0, .number = t};
    }
}

/* Adds `weight` to the least loaded taker, the first of a heap. Returns the taker's number. */
static uint32_t deal_out(struct taker *takers, uint32_t count, uint32_t weight) {
    struct taker taken = takers[0];
    uint32_t number = taken.number;
    taken.load += weight;
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && taker_before(&takers[child + 1], &takers[child]) ? 1 : 0;
        if (taker_before(&taken, &takers[child])) {
            break;
        }
        takers[at] = takers[child];
        at = child;
    }
    takers[at] = taken;
    return number;
}

static int order_numbers(uint64_t one, uint64_t other) {
    return one < other ? -1 : one > other;
}

/* Orders items for dealing: by part, then the largest first, which makes the loads most equal. */
static int order_to_deal(const void *a, const void *b) {
    const struct solo *one = a;
    const struct solo *other = b;
    int order = order_numbers(one->part, other->part);
    order = order != 0 ? order : order_numbers(other->weight, one->weight);
    order = order != 0 ? order : order_numbers(one->hash, other->hash);
    return order != 0 ? order : order_numbers(one->number, other->number);
}

/* Orders items as the set has them: by part and thread, then by hash, which shuffles them. */
static int order_of_set(const void *a, const void *b) {
    const struct solo *one = a;
    const struct solo *other = b;
    int order = order_numbers(one->part, other->part);
    order = order != 0 ? order : order_numbers(one->thread, other->thread);
    order = order != 0 ? order : order_numbers(one->hash, other->hash);
    return order != 0 ? order : order_numbers(one->number, other->number);
}

static void sort_items(struct solo *items, size_t count, int (*order)(const void *a, const void *b)) {
    if (count > 0) { /* qsort takes no NULL */
        qsort(items, count, sizeof *items, order);
    }
}

/* Sorts items of which each is near its place. */
static void sort_near(struct solo *items, size_t count) {
    for (size_t i = 1; i < count; i++) {
        struct solo item = items[i];
        size_t at = i;
        for (; at > 0 && order_of_set(&item, &items[at - 1]) < 0; at--) {
            items[at] = items[at - 1];
        }
        items[at] = item;
    }
}

/* About where an item belongs: hashes are spread evenly, so each block's items fill its places in their order. */
static inline size_t place_near(const struct solo *item, const size_t *starts, unsigned threads) {
    size_t block = (size_t)item->part * threads + item->thread;
    return starts[block] + (size_t)hash_product_high(item->hash, starts[block + 1] - starts[block]);
}

/* A sort by counting places, in about linear time. */
void solo_sort(struct solo *items, size_t count) {
    unsigned parts = 0;
    unsigned threads = 0;
    for (size_t i = 0; i < count; i++) {
        parts = items[i].part >= parts ? items[i].part + 1 : parts;
        threads = items[i].thread >= threads ? items[i].thread + 1 : threads;
    }
    if ((size_t)parts * threads > count) { /* the starts would take more memory than the items */
        sort_items(items, count, order_of_set);
        return;
    }
    size_t *starts = memory_zeroed((size_t)parts * threads + 1, sizeof *starts);
    uint32_t *places = memory_zeroed(count + 1, sizeof *places); /* at first how many items belong near the place
                                                                    before */
    struct solo *sorted = memory_resized(NULL, count, sizeof *sorted);
    for (size_t i = 0; i < count; i++) {
        starts[(size_t)items[i].part * threads + items[i].thread + 1]++;
    }
    for (size_t b = 0; b < (size_t)parts * threads; b++) {
        starts[b + 1] += starts[b];
    }
    for (size_t i = 0; i < count; i++) {
        places[place_near(&items[i], starts, threads) + 1]++;
    }
    for (size_t i = 0; i < count; i++) {
        places[i + 1] += places[i];
    }
    for (size_t i = 0; i < count; i++) {
        sorted[places[place_near(&items[i], starts, threads)]++] = items[i];
    }
    if (count > 0) {
        memcpy(items, sorted, count * sizeof *items);
    }
    sort_near(items, count);
    free(sorted);
    free(places);
    free(starts);
}

/* Deals a shard's items to the parts of an iteration, beginning with another part in each shard. The result depends on
 * this shard alone, so an item is in the same part on every node. */
static void deal_parts(struct solo *items, size_t count, unsigned parts, struct taker *takers, uint64_t salt) {
    if (parts == 1 || count == 0) {
        return;
    }
    uint32_t first = (uint32_t)(hash_mix(salt) % parts);
    sort_items(items, count, order_to_deal);
    takers_clear(takers, parts);
    for (size_t i = 0; i < count; i++) {
        items[i].part = (first + deal_out(takers, parts, items[i].weight)) % parts;
    }
}

/* Deals the items to threads, part by part. */
static void deal_threads(struct solo *items, size_t count, unsigned threads) {
    struct taker *takers = memory_zeroed(threads, sizeof *takers);
    sort_items(items, count, order_to_deal);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || items[i].part != items[i - 1].part) {
            takers_clear(takers, threads);
        }
        items[i].thread = deal_out(takers, threads, items[i].weight);
    }
    free(takers);
}

void solo_deal_threads(struct solo *items, size_t count, unsigned threads) {
    if (threads > 1) {
        deal_threads(items, count, threads);
    }
    solo_sort(items, count);
}

/* Lists records that are one behind the other. */
static struct solo *list_records(const struct data *data, const unsigned char *records, size_t count,
                                 struct solo *item) {
    for (size_t i = 0; i < count; i++, item++) {
        item->record = records;
        item->weight = 1;
        if (data->varied && !data->rowless) {
            struct record_head head = record_head(records);
            item->weight = (uint32_t)varied_size(&head);
        }
        records += record_size(data, records);
    }
    return item;
}

static struct solo *list_stored(const struct data *data, const struct data_shard *shard, enum aml_item_use use,
                                struct solo *item) {
    for (size_t i = 0; i < shard->records[use].count; i++, item++) {
        item->record = shard_record(data, shard, use, i);
        item->weight = 1;
    }
    return item;
}

/* Lists a shard's items in the order of its records. The first item gets the number `number`. */
static void list_shard(const struct arranging *arranging, uint32_t shard_number, enum aml_item_use use, uint32_t number,
                       struct solo *items) {
    const struct data *data = arranging->data;
    const struct data_shard *shard = &data->shards[shard_number];
    const struct data_records *records = &shard->records[use];
    uint64_t salt = hash_mix(arranging->seed ^ hash_mix(2 * (uint64_t)shard_number + use));
    for (size_t i = 0; i < records->count; i++) {
        items[i] = (struct solo){.hash = hash_mix(salt + i), .number = number + (uint32_t)i};
    }
    struct solo *item = items;
    for (uint32_t e = 0; e < records->extent_count; e++) {
        const struct data_extent *extent = &records->extents[e];
        item = list_records(data, data_extent_records(data, extent), extent->count, item);
    }
    item = shard->store != NULL ? list_stored(data, shard, use, item) : item;
    assert(item == items + records->count);
}

/* The slice of the s-th of the set's shards. */
static unsigned slice_of(const struct arranging *arranging, uint32_t s) {
    unsigned slice = 0;
    while (slice + 1 < arranging->set->slices && s >= slice_first(arranging, slice + 1)) {
        slice++;
    }
    return slice;
}

void solo_list(const struct arranging *arranging, enum aml_item_use use, uint32_t first, uint32_t end, uint32_t number,
               struct solo *items) {
    unsigned parts = use == AML_TRAIN ? arranging->set->clocks : 1;
    struct taker *takers = memory_zeroed(parts, sizeof *takers);
    for (uint32_t s = first; s < end; s++) {
        uint32_t shard = arranging->shards[s];
        size_t count = arranging->data->shards[shard].records[use].count;
        unsigned slice = slice_of(arranging, s);
        list_shard(arranging, shard, use, number, items);
        deal_parts(items, count, parts, takers, arranging->seed ^ hash_mix(shard));
        for (size_t i = 0; i < count && use == AML_TRAIN; i++) {
            items[i].part = items[i].part * arranging->set->slices + slice;
        }
        items += count;
        number += (uint32_t)count;
    }
    free(takers);
}

/* ---- Blocks ---- */

struct solo_blocks solo_blocks_make(const struct arranging *arranging, enum aml_item_use use) {
    struct data_set *set = arranging->set;
    size_t parts = use == AML_TRAIN ? (size_t)set->clocks * set->slices : 1;
    struct solo_blocks blocks = {.count = parts * set->threads};
    blocks.starts = memory_zeroed(blocks.count + 1, sizeof *blocks.starts);
    blocks.offsets = arranging->data->varied ? memory_zeroed(blocks.count + 1, sizeof *blocks.offsets) : NULL;
    *(use == AML_TRAIN ? &set->starts : &set->test_starts) = blocks.starts;
    *(use == AML_TRAIN ? &set->offsets : &set->test_offsets) = blocks.offsets;
    return blocks;
}

void solo_blocks_add(const struct arranging *arranging, const struct solo_blocks *blocks, const struct solo *items,
                     size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t block = (size_t)items[i].part * arranging->set->threads + items[i].thread;
        blocks->starts[block + 1]++;
        if (blocks->offsets != NULL) {
            blocks->offsets[block + 1] += solo_bytes(arranging->data, &items[i]);
        }
    }
}

void solo_blocks_end(const struct solo_blocks *blocks) {
    for (size_t b = 0; b < blocks->count; b++) {
        blocks->starts[b + 1] += blocks->starts[b];
        if (blocks->offsets != NULL) {
            blocks->offsets[b + 1] += blocks->offsets[b];
        }
    }
}

/* ---- The ids of items, in an app with transforms ---- */

static size_t use_count(const struct arranging *arranging, enum aml_item_use use) {
    return use == AML_TRAIN ? arranging->set->count : arranging->set->test_count;
}

void solo_number_items(const struct arranging *arranging, enum aml_item_use use, const struct solo *items, size_t count,
                       size_t place) {
    uint64_t **ids = &arranging->set->ids[use];
    if (!arranging->data->transformed) {
        return;
    }
    if (*ids == NULL) {
        *ids = memory_resized(NULL, use_count(arranging, use), sizeof **ids);
    }
    for (size_t i = 0; i < count; i++) {
        (*ids)[place + i] = items[i].number;
    }
    size_t **offsets = &arranging->set->item_offsets[use];
    if (arranging->data->varied && *offsets == NULL) {
        *offsets = memory_zeroed(use_count(arranging, use) + 1, sizeof **offsets);
    }
    for (size_t i = 0; i < count && arranging->data->varied; i++) {
        (*offsets)[place + i + 1] = (*offsets)[place + i] + solo_bytes(arranging->data, &items[i]);
    }
}

void solo_name_items(const struct arranging *arranging, enum aml_item_use use) {
    uint64_t *ids = arranging->set->ids[use];
    if (ids == NULL) {
        return;
    }
    uint64_t *named = memory_resized(NULL, use_count(arranging, use), sizeof *named); /* by number */
    size_t number = 0;
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        uint32_t shard = arranging->shards[s];
        for (uint32_t i = 0; i < arranging->data->shards[shard].records[use].count; i++) {
            named[number++] = data_item_id(shard, i);
        }
    }
    assert(number == use_count(arranging, use));
    for (size_t i = 0; i < number; i++) {
        ids[i] = named[ids[i]];
    }
    free(named);
}

/* ---- Rowless items ---- */

static void place_rowless(const struct data *data, const struct solo *items, size_t count, unsigned char *placed) {
    for (size_t i = 0; i < count; i++) {
        size_t size = solo_bytes(data, &items[i]);
        if (size > 0) {
            memcpy(placed, items[i].record, size);
        }
        placed += size;
    }
}

/* Makes the items of one use the store's. `bytes` is the size of all of them. */
static unsigned char *store_items(const struct arranging *arranging, enum aml_item_use use, const struct solo *items,
                                  size_t count, size_t bytes) {
    struct data_store *store = arranging->set->store;
    store->offsets[use] = arranging->set->item_offsets[use];
    store->places[use] = memory_resized(NULL, count, sizeof *store->places[use]);
    store->items[use] = memory_resized(NULL, bytes, 1);
    place_rowless(arranging->data, items, count, store->items[use]);
    for (size_t i = 0; i < count; i++) {
        store->places[use][items[i].number] = (uint32_t)i;
    }
    return store->items[use];
}

/* ---- Varied items with rows ---- */

/* Where slots of a batch go. */
struct span {
    uint32_t *target;
    uint32_t count;
};

/* Rows whose slots are requested together. */
struct batch {
    size_t count, span_count;
    uint64_t keys[DATA_ROWS_BATCH];
    struct span spans[DATA_ROWS_BATCH];
};

struct batches {
    const struct data_rows *rows;
    struct batch tables[WIRE_TABLES_MAX];
};

static int batch_end(struct batches *batches, unsigned table, struct error *error) {
    struct batch *batch = &batches->tables[table];
    uint32_t slots[DATA_ROWS_BATCH];
    if (batch->count == 0) {
        return 0;
    }
    int result = batches->rows->slots(batches->rows->context, table, batch->keys, slots, batch->count, error);
    const uint32_t *from = slots;
    for (size_t s = 0; s < batch->span_count && result == 0; s++) {
        memcpy(batch->spans[s].target, from, batch->spans[s].count * sizeof *from);
        from += batch->spans[s].count;
    }
    assert(result != 0 || from == slots + batch->count);
    batch->count = batch->span_count = 0;
    return result;
}

static void read_keys(const unsigned char *from, size_t key_bytes, uint64_t *keys, uint32_t count) {
    if (key_bytes == sizeof *keys) {
        memcpy(keys, from, count * sizeof *keys);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t half;
        memcpy(&half, from + i * sizeof half, sizeof half);
        keys[i] = half;
    }
}

/* Adds `count` keys whose slots go to target[count]. */
static int batch_add(struct batches *batches, unsigned table, const unsigned char *keys, size_t key_bytes,
                     uint32_t *target, uint32_t count, struct error *error) {
    struct batch *batch = &batches->tables[table];
    int result = 0;
    for (uint32_t done = 0, next; done < count && result == 0; done += next) {
        size_t room = DATA_ROWS_BATCH - batch->count;
        next = count - done < room ? count - done : (uint32_t)room;
        read_keys(keys + done * key_bytes, key_bytes, batch->keys + batch->count, next);
        batch->spans[batch->span_count++] = (struct span){.target = target + done, .count = next};
        batch->count += next;
        result = batch->count == DATA_ROWS_BATCH ? batch_end(batches, table, error) : 0;
    }
    return result;
}

/* Turns a record into an item. Its slots are written when their batch ends. */
static int write_varied(struct batches *batches, const unsigned char *record, struct aml_item *item,
                        struct error *error) {
    struct record_head head = record_head(record);
    const unsigned char *runs = record + sizeof head;
    const unsigned char *keys = runs + head.runs * 2 * sizeof(uint32_t);
    uint32_t *target = (uint32_t *)(item + 1);
    int result = 0;
    *item = (struct aml_item){.row_count = head.rows, .size = head.size};
    for (uint32_t r = 0; r < head.runs && result == 0; r++) {
        uint32_t run[2]; /* table, count */
        memcpy(run, runs + r * sizeof run, sizeof run);
        result = batch_add(batches, run[0], keys, head.key_bytes, target, run[1], error);
        keys += run[1] * (size_t)head.key_bytes;
        target += run[1];
    }
    if (result == 0) {
        memcpy(target, keys, round_up(head.size, 4));
    }
    return result;
}

/* Has the processor fetch the beginning of a record: records are read in a random order. */
static void prefetch_record(const struct solo *item) {
    enum { LINE = 64, LINES_MAX = 8 };
    for (uint32_t at = 0; at < item->weight && at < LINE * LINES_MAX; at += LINE) {
        __builtin_prefetch(item->record + at);
    }
}

/* Turns the records into items, in the set's order. So new rows get slots in the order in which they will be
 * visited. */
static int place_varied(const struct arranging *arranging, const struct solo *items, size_t count,
                        unsigned char *placed, struct error *error) {
    enum { AHEAD = 8 }; /* records that are fetched before they are read */
    struct batches *batches = memory_resized(NULL, 1, sizeof *batches);
    int result = 0;
    batches->rows = arranging->rows;
    for (unsigned t = 0; t < WIRE_TABLES_MAX; t++) {
        batches->tables[t].count = batches->tables[t].span_count = 0;
    }
    for (size_t i = 0; i < count && result == 0; i++) {
        if (i + AHEAD < count) {
            prefetch_record(&items[i + AHEAD]);
        }
        result = write_varied(batches, items[i].record, (struct aml_item *)(void *)placed, error);
        placed += items[i].weight;
    }
    for (unsigned t = 0; t < WIRE_TABLES_MAX && result == 0; t++) {
        result = batch_end(batches, t, error);
    }
    free(batches);
    return result;
}

/* ---- Both kinds ---- */

int solo_place(const struct arranging *arranging, const struct solo *items, size_t count, unsigned char *placed,
               struct error *error) {
    if (!arranging->data->rowless) {
        return place_varied(arranging, items, count, placed, error);
    }
    place_rowless(arranging->data, items, count, placed);
    return 0;
}

static int arrange_use(const struct arranging *arranging, enum aml_item_use use, struct error *error) {
    struct data_set *set = arranging->set;
    const struct data *data = arranging->data;
    const struct solo_blocks blocks = solo_blocks_make(arranging, use);
    size_t count = use_count(arranging, use);
    struct solo *items = memory_resized(NULL, count, sizeof *items);
    unsigned char *placed;
    int result = 0;
    solo_list(arranging, use, 0, arranging->shard_count, 0, items);
    solo_deal_threads(items, count, set->threads);
    solo_blocks_add(arranging, &blocks, items, count);
    solo_blocks_end(&blocks);
    assert(blocks.starts[blocks.count] == count);
    size_t bytes = blocks.offsets != NULL ? blocks.offsets[blocks.count] : count * data->item_size;
    solo_number_items(arranging, use, items, count, 0);
    solo_name_items(arranging, use);
    if (data->rowless) {
        placed = store_items(arranging, use, items, count, bytes);
    } else {
        placed = memory_resized(NULL, bytes, 1);
        result = place_varied(arranging, items, count, placed, error);
    }
    free(items);
    *(use == AML_TRAIN ? &set->items : &set->tests) = placed;
    return result;
}

int data_arrange_solo(const struct arranging *arranging, struct error *error) {
    if (arranging->data->rowless) {
        arranging->set->store = memory_zeroed(1, sizeof(struct data_store));
        arranging->set->store->refs = 1;
    }
    int result = arrange_use(arranging, AML_TRAIN, error);
    return result != 0 ? result : arrange_use(arranging, AML_TEST, error);
}
