/* See data.h. */
#include "workers/data.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shards are cut by other bits than partitions and hash tables use. */
static const uint64_t DATA_SHARD_SALT = UINT64_C(0x5368617264696E67);

static size_t round_up(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

static void totals_clear(double totals[WIRE_TOTALS]) {
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        totals[t] = t < WIRE_TOTALS / 2 ? 0 : -INFINITY;
    }
}

static void totals_add(double totals[WIRE_TOTALS], const double more[WIRE_TOTALS]) {
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        totals[t] = t < WIRE_TOTALS / 2 ? totals[t] + more[t] : fmax(totals[t], more[t]);
    }
}

/* Room for one more entry of `size` bytes. */
static unsigned char *run_append(struct data_run *run, size_t size) {
    if (run->count == run->capacity) {
        run->capacity = run->capacity > 0 ? 2 * run->capacity : 16;
        run->records = memory_resized(run->records, run->capacity, size);
    }
    return run->records + run->count++ * size;
}

void data_open(struct data *data, const struct aml_app *app, uint32_t shards, size_t budget) {
    *data = (struct data){.item_rows = app->item_rows,
                          .item_tables = app->item_tables,
                          .item_bytes = app->item_bytes,
                          .record_keys = app->item_rows > 0 ? app->item_rows : 1,
                          .budget = budget,
                          .shard_count = shards};
    data->record_size = data->record_keys * sizeof(uint64_t) + app->item_bytes;
    data->item_size = round_up(app->item_rows * sizeof(uint32_t) + app->item_bytes, 4);
    data->shards = memory_zeroed(shards, sizeof *data->shards);
    for (uint32_t s = 0; s < shards; s++) {
        totals_clear(data->shards[s].totals);
    }
    pthread_mutex_init(&data->lock, NULL);
}

/* ---- Shards ---- */

static void shard_drop(struct data *data, struct data_shard *shard) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        data->bytes -= shard->runs[use].count * data->record_size;
        free(shard->runs[use].records);
        shard->runs[use] = (struct data_run){0};
    }
    totals_clear(shard->totals);
    shard->held = false;
}

static void chunk_free(struct data_chunk *chunk) {
    free(chunk->run[AML_TRAIN].records);
    free(chunk->run[AML_TEST].records);
    free(chunk->places);
    free(chunk->totals);
    free(chunk);
}

void data_close(struct data *data) {
    if (data->shards == NULL) {
        return; /* never opened */
    }
    for (uint32_t s = 0; s < data->shard_count; s++) {
        shard_drop(data, &data->shards[s]);
    }
    while (data->early != NULL) {
        struct data_chunk *next = data->early->next;
        chunk_free(data->early);
        data->early = next;
    }
    free(data->shards);
    pthread_mutex_destroy(&data->lock);
    memset(data, 0, sizeof *data);
}

uint32_t data_shard_of(const struct data *data, uint64_t key) {
    return (uint32_t)((hash_mix(key ^ DATA_SHARD_SALT) >> 16) % data->shard_count);
}

/* Keeps to the budget: what was never this node's goes first and altogether, then what it left longest ago. */
static void data_trim(struct data *data) {
    if (data->bytes <= data->budget) {
        return;
    }
    atomic_store_explicit(&data->welcome_over, true, memory_order_relaxed);
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (shard->pins == 0 && shard->left == 0) {
            shard_drop(data, shard);
        }
    }
    while (data->bytes > data->budget) {
        struct data_shard *oldest = NULL;
        for (uint32_t s = 0; s < data->shard_count; s++) {
            struct data_shard *shard = &data->shards[s];
            if (shard->held && shard->pins == 0 && (oldest == NULL || shard->left < oldest->left)) {
                oldest = shard;
            }
        }
        if (oldest == NULL) {
            return; /* what is needed stays, whatever it takes */
        }
        shard_drop(data, oldest);
    }
}

bool data_pin(struct data *data, const uint32_t *shards, uint32_t count) {
    bool held = true;
    pthread_mutex_lock(&data->lock);
    for (uint32_t i = 0; i < count; i++) {
        data->shards[shards[i]].pins++;
        held = held && data->shards[shards[i]].held;
    }
    pthread_mutex_unlock(&data->lock);
    return held;
}

void data_unpin(struct data *data, const uint32_t *shards, uint32_t count) {
    pthread_mutex_lock(&data->lock);
    data->departures++;
    for (uint32_t i = 0; i < count; i++) {
        struct data_shard *shard = &data->shards[shards[i]];
        shard->left = --shard->pins == 0 ? data->departures : shard->left;
    }
    data_trim(data);
    pthread_mutex_unlock(&data->lock);
}

/* ---- Reading ---- */

void data_read_begin(struct data *data) {
    pthread_mutex_lock(&data->lock);
    bool all = !data->complete && data->budget > 0;
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        bool here = shard->held;
        shard->wish = here ? DATA_IGNORED : shard->pins > 0 ? DATA_WANTED : all ? DATA_WELCOME : DATA_IGNORED;
    }
    data->turn = 0;
    atomic_store_explicit(&data->welcome_over, false, memory_order_relaxed);
    pthread_mutex_unlock(&data->lock);
}

static bool shard_kept(const struct data *data, const struct data_shard *shard) {
    return shard->wish == DATA_WANTED ||
           (shard->wish == DATA_WELCOME && !atomic_load_explicit(&data->welcome_over, memory_order_relaxed));
}

/* Puts a chunk's records and totals into the shards, and frees it. */
static void chunk_fold(struct data *data, struct data_chunk *chunk) {
    for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
        const unsigned char *entry = chunk->run[use].records;
        size_t size = sizeof(uint32_t) + data->record_size;
        for (size_t i = 0; i < chunk->run[use].count; i++, entry += size) {
            uint32_t number;
            memcpy(&number, entry, sizeof number);
            struct data_shard *shard = &data->shards[number];
            if (shard_kept(data, shard)) {
                memcpy(run_append(&shard->runs[use], data->record_size), entry + sizeof number, data->record_size);
                data->bytes += data->record_size;
            }
        }
    }
    for (uint32_t t = 0; t < chunk->total_count; t++) {
        struct data_shard *shard = &data->shards[chunk->totals[t].shard];
        if (shard_kept(data, shard)) {
            totals_add(shard->totals, chunk->totals[t].values);
        }
    }
    chunk_free(chunk);
    data_trim(data);
}

/* Folds the early chunks whose turn it is; all of them at the end of the reading. */
static void fold_early(struct data *data, bool all) {
    while (data->early != NULL && (all || data->early->order == data->turn)) {
        struct data_chunk *chunk = data->early;
        data->early = chunk->next;
        data->turn = chunk->order + 1;
        chunk_fold(data, chunk);
    }
}

void data_read_end(struct data *data, bool whole) {
    pthread_mutex_lock(&data->lock);
    fold_early(data, true);
    for (uint32_t s = 0; s < data->shard_count; s++) {
        struct data_shard *shard = &data->shards[s];
        if (shard->wish == DATA_IGNORED) {
            continue;
        }
        shard->held = whole && shard_kept(data, shard);
        if (!shard->held) {
            shard_drop(data, shard);
        }
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            struct data_run *run = &shard->runs[use];
            if (run->count < run->capacity) {
                run->capacity = run->count;
                run->records = memory_resized(run->records, run->count, data->record_size);
            }
        }
        shard->wish = DATA_IGNORED;
    }
    data->complete = data->complete || whole;
    pthread_mutex_unlock(&data->lock);
}

struct data_chunk *data_chunk_open(uint64_t order) {
    struct data_chunk *chunk = memory_zeroed(1, sizeof *chunk);
    chunk->order = order;
    chunk->shard = -1;
    return chunk;
}

uint64_t data_next_order(struct data *data) {
    pthread_mutex_lock(&data->lock);
    uint64_t order = data->turn;
    pthread_mutex_unlock(&data->lock);
    return order;
}

void data_chunk_close(struct data *data, struct data_chunk *chunk) {
    pthread_mutex_lock(&data->lock);
    struct data_chunk **place = &data->early;
    while (*place != NULL && (*place)->order < chunk->order) {
        place = &(*place)->next;
    }
    chunk->next = *place;
    *place = chunk;
    fold_early(data, false);
    pthread_mutex_unlock(&data->lock);
}

int data_emit(const struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes) {
    uint64_t number = hash_mix(hash_mix(2 * chunk->order + use) + chunk->emitted[use]++);
    const uint64_t *record_keys = data->item_rows > 0 ? keys : &number;
    uint32_t shard = data_shard_of(data, record_keys[0]);
    chunk->shard = -1;
    if (!shard_kept(data, &data->shards[shard])) {
        return 0;
    }
    chunk->shard = shard;
    unsigned char *entry = run_append(&chunk->run[use], sizeof shard + data->record_size);
    memcpy(entry, &shard, sizeof shard);
    memcpy(entry + sizeof shard, record_keys, data->record_keys * sizeof *record_keys);
    if (data->item_bytes > 0) {
        memcpy(entry + sizeof shard + data->record_keys * sizeof *record_keys, bytes, data->item_bytes);
    }
    return 1;
}

double *data_totals(const struct data *data, struct data_chunk *chunk) {
    if (chunk->shard < 0) {
        return NULL;
    }
    if (chunk->places == NULL) {
        chunk->places = memory_zeroed(data->shard_count, sizeof *chunk->places);
    }
    uint32_t *place = &chunk->places[chunk->shard];
    if (*place == 0) {
        uint32_t count = chunk->total_count++;
        if ((count & (count - 1)) == 0) { /* a power of two: full */
            chunk->totals = memory_resized(chunk->totals, count > 0 ? 2 * (size_t)count : 1, sizeof *chunk->totals);
        }
        chunk->totals[count].shard = (uint32_t)chunk->shard;
        totals_clear(chunk->totals[count].values);
        *place = count + 1;
    }
    return chunk->totals[*place - 1].values;
}

/* ---- From records to items ---- */

/* What data_arrange works with. */
struct arranging {
    const struct data *data;
    const uint32_t *shards;
    uint32_t shard_count;
    const struct data_rows *rows;
    struct data_set *set;
    uint32_t slots[AML_ITEM_ROWS_MAX]; /* beyond the highest slot of each of the items' tables */
};

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
               records + i * data->record_size + data->record_keys * sizeof *keys, data->item_bytes);
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

/* The items with one first row (or one item, where items name no rows), contiguous after sorting. */
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

/* Counts the groups' items and hashes their keys: `groups` by slot of the first row, or by number of the item. */
static void count_groups(const struct arranging *arranging, const unsigned char *items, uint64_t seed,
                         struct group *groups) {
    const struct data *data = arranging->data;
    size_t n = 0;
    for (uint32_t s = 0; s < arranging->shard_count; s++) {
        const struct data_run *run = &data->shards[arranging->shards[s]].runs[AML_TRAIN];
        for (size_t i = 0; i < run->count; i++, n++) {
            struct group *group = &groups[data->item_rows > 0 ? item_slot(items + n * data->item_size, 0) : n];
            if (group->count++ == 0) {
                group->hash = hash_mix(seed ^ hash_mix(record_key(run->records + i * data->record_size, 0)));
            }
        }
    }
}

/* Sorts items by group (stable) into `sorted` and returns the groups. */
static struct group *make_groups(const struct arranging *arranging, const unsigned char *items, unsigned char *sorted,
                                 uint64_t seed, size_t *group_count) {
    const struct data *data = arranging->data;
    const struct data_set *set = arranging->set;
    bool by_row = data->item_rows > 0;
    size_t slots = by_row ? arranging->slots[0] : set->count;
    struct group *groups = memory_zeroed(slots, sizeof *groups);
    count_groups(arranging, items, seed, groups);
    uint32_t first = 0;
    for (size_t g = 0; g < slots; g++) {
        groups[g].first = first;
        first += groups[g].count;
        groups[g].part = (uint32_t)(groups[g].hash >> 33) % set->clocks;
        groups[g].count = 0;
    }
    for (size_t i = 0; i < set->count; i++) {
        const unsigned char *item = items + i * data->item_size;
        struct group *group = &groups[by_row ? item_slot(item, 0) : i];
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
static void arrange_items(const struct arranging *arranging, uint64_t seed) {
    const struct data *data = arranging->data;
    struct data_set *set = arranging->set;
    unsigned char *sorted = memory_resized(NULL, set->count, set->item_size);
    size_t group_count;
    struct group *groups = make_groups(arranging, set->items, sorted, seed, &group_count);
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
            uint64_t group = arranging->data->item_rows > 0 ? item_slot(item, 0) : i;
            if (hash_mix(group) % set->threads == thread) {
                memcpy(set->tests + at++ * set->item_size, item, set->item_size);
            }
        }
    }
    set->test_starts[set->threads] = at;
}

int data_arrange(const struct data *data, const uint32_t *shards, uint32_t count, unsigned clocks, unsigned threads,
                 uint64_t seed, const struct data_rows *rows, struct data_set *set, struct error *error) {
    struct arranging arranging = {.data = data, .shards = shards, .shard_count = count, .rows = rows, .set = set};
    *set = (struct data_set){
        .item_size = data->item_size, .clocks = clocks, .threads = threads, .bins = data->item_rows == 2 ? threads : 1};
    totals_clear(set->totals);
    for (uint32_t s = 0; s < count; s++) {
        const struct data_shard *shard = &data->shards[shards[s]];
        set->count += shard->runs[AML_TRAIN].count;
        set->test_count += shard->runs[AML_TEST].count;
        totals_add(set->totals, shard->totals);
    }
    if (set->count > UINT32_MAX) {
        return error_set(error, AML_ELIMIT, "%zu items on one node, more than %u: use more nodes", set->count,
                         UINT32_MAX);
    }
    set->items = memory_resized(NULL, set->count, set->item_size);
    unsigned char *tests = memory_resized(NULL, set->test_count, set->item_size);
    int result = records_to_items(&arranging, AML_TRAIN, set->items, error);
    result = result != 0 ? result : records_to_items(&arranging, AML_TEST, tests, error);
    if (result == 0) {
        arrange_items(&arranging, seed);
        arrange_tests(&arranging, tests);
    } else {
        data_set_close(set);
    }
    free(tests);
    return result;
}

void data_set_close(struct data_set *set) {
    free(set->items);
    free(set->starts);
    free(set->tests);
    free(set->test_starts);
    memset(set, 0, sizeof *set);
}

size_t data_block(const struct data_set *set, unsigned part, unsigned thread, unsigned round, const void **items) {
    unsigned bin = (thread + round) % set->bins;
    size_t block = ((size_t)part * set->threads + thread) * set->bins + bin;
    *items = set->items + set->starts[block] * set->item_size;
    return set->starts[block + 1] - set->starts[block];
}

size_t data_part_count(const struct data_set *set, unsigned part) {
    size_t blocks = (size_t)set->threads * set->bins;
    return set->starts[(part + 1) * blocks] - set->starts[part * blocks];
}

size_t data_tests(const struct data_set *set, unsigned thread, const void **items) {
    *items = set->tests + set->test_starts[thread] * set->item_size;
    return set->test_starts[thread + 1] - set->test_starts[thread];
}
