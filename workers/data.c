/* See data.h. */
#include "workers/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Shards are cut by other bits than partitions and hash tables use. */
static const uint64_t DATA_SHARD_SALT = UINT64_C(0x5368617264696E67);

static size_t round_up(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

void data_init(struct data *data, const struct aml_app *app, const struct message *plan, actor_id self) {
    *data = (struct data){.item_rows = app->item_rows,
                          .item_tables = app->item_tables,
                          .item_bytes = app->item_bytes,
                          .owners = (const void *)plan->frames[2]->data,
                          .shards = plan->plan.shards,
                          .self = self};
    data->record_size = round_up(app->item_rows * sizeof(uint64_t) + app->item_bytes, 8);
    data->item_size = round_up(app->item_rows * sizeof(uint32_t) + app->item_bytes, 4);
    pthread_mutex_init(&data->lock, NULL);
}

static void chunk_close(struct data_chunk *chunk) {
    free(chunk->runs[AML_TRAIN].records);
    free(chunk->runs[AML_TEST].records);
    free(chunk);
}

static void data_close_chunks(struct data *data) {
    for (size_t c = 0; c < data->chunk_count; c++) {
        chunk_close(data->chunks[c]);
    }
    free(data->chunks);
    data->chunks = NULL;
    data->chunk_count = 0;
}

void data_close(struct data *data) {
    if (data->record_size == 0 && data->item_size == 0 && data->owners == NULL) {
        return; /* never opened */
    }
    data_close_chunks(data);
    pthread_mutex_destroy(&data->lock);
    free(data->items);
    free(data->starts);
    free(data->tests);
    free(data->test_starts);
    memset(data, 0, sizeof *data);
}

struct data_chunk *data_chunk_open(struct data *data, uint64_t order) {
    struct data_chunk *chunk = memory_zeroed(1, sizeof *chunk);
    chunk->order = order;
    for (unsigned t = WIRE_TOTALS / 2; t < WIRE_TOTALS; t++) {
        chunk->totals[t] = -INFINITY;
    }
    pthread_mutex_lock(&data->lock);
    data->chunks = memory_resized(data->chunks, data->chunk_count + 1, sizeof(struct data_chunk *));
    data->chunks[data->chunk_count++] = chunk;
    pthread_mutex_unlock(&data->lock);
    return chunk;
}

int data_emit(struct data *data, struct data_chunk *chunk, enum aml_item_use use, const uint64_t *keys,
              const void *bytes) {
    struct data_run *run = &chunk->runs[use];
    uint64_t group = data->item_rows > 0 ? keys[0] : hash_mix(chunk->order) + run->count;
    if (data->owners[(hash_mix(group ^ DATA_SHARD_SALT) >> 16) % data->shards] != data->self) {
        return 0;
    }
    if (run->count == run->capacity) {
        run->capacity = run->capacity > 0 ? 2 * run->capacity : 256;
        run->records = memory_resized(run->records, run->capacity, data->record_size);
    }
    unsigned char *record = run->records + run->count++ * data->record_size;
    if (data->item_rows > 0) {
        memcpy(record, keys, data->item_rows * sizeof *keys);
    }
    if (data->item_bytes > 0) {
        memcpy(record + data->item_rows * sizeof *keys, bytes, data->item_bytes);
    }
    return 1;
}

/* ---- From records to items ---- */

static int chunk_order(const void *a, const void *b) {
    uint64_t left = (*(struct data_chunk *const *)a)->order;
    uint64_t right = (*(struct data_chunk *const *)b)->order;
    return left < right ? -1 : left > right;
}

static int run_to_items(struct data *data, struct cache *cache, const struct data_run *run, unsigned char *items,
                        struct error *error) {
    for (size_t i = 0; i < run->count; i++) {
        const unsigned char *record = run->records + i * data->record_size;
        uint64_t keys[AML_ITEM_ROWS_MAX];
        uint32_t slots[AML_ITEM_ROWS_MAX];
        memcpy(keys, record, data->item_rows * sizeof *keys);
        for (unsigned r = 0; r < data->item_rows; r++) {
            unsigned table = data->item_tables[r];
            int64_t slot = cache_add(cache, table, keys[r]);
            if (slot < 0) {
                return error_set(error, (int)slot, "table %s: there is no room for row %llu",
                                 cache->job->tables[table].name, (unsigned long long)keys[r]);
            }
            slots[r] = (uint32_t)slot;
        }
        unsigned char *item = items + i * data->item_size;
        memcpy(item, slots, data->item_rows * sizeof *slots);
        memcpy(item + data->item_rows * sizeof *slots, record + data->item_rows * sizeof *keys, data->item_bytes);
    }
    return 0;
}

/* All chunks, in order, as items; frees the records as it goes. */
static int data_collect(struct data *data, struct cache *cache, unsigned char **items, unsigned char **tests,
                        struct error *error) {
    if (data->chunk_count > 0) { /* qsort takes no NULL */
        qsort(data->chunks, data->chunk_count, sizeof(struct data_chunk *), chunk_order);
    }
    for (unsigned t = WIRE_TOTALS / 2; t < WIRE_TOTALS; t++) {
        data->totals[t] = -INFINITY;
    }
    for (size_t c = 0; c < data->chunk_count; c++) {
        data->count += data->chunks[c]->runs[AML_TRAIN].count;
        data->test_count += data->chunks[c]->runs[AML_TEST].count;
        for (unsigned t = 0; t < WIRE_TOTALS; t++) {
            double total = data->chunks[c]->totals[t];
            data->totals[t] = t < WIRE_TOTALS / 2 ? data->totals[t] + total : fmax(data->totals[t], total);
        }
    }
    if (data->count > UINT32_MAX) {
        return error_set(error, AML_ELIMIT, "%zu items on one node, more than %u: use more nodes", data->count,
                         UINT32_MAX);
    }
    *items = memory_resized(NULL, data->count, data->item_size);
    *tests = memory_resized(NULL, data->test_count, data->item_size);
    size_t done[2] = {0, 0};
    unsigned char *targets[2] = {*items, *tests};
    for (size_t c = 0; c < data->chunk_count; c++) {
        for (unsigned use = AML_TRAIN; use <= AML_TEST; use++) {
            struct data_run *run = &data->chunks[c]->runs[use];
            int result = run_to_items(data, cache, run, targets[use] + done[use] * data->item_size, error);
            if (result != 0) {
                return result;
            }
            done[use] += run->count;
            free(run->records);
            *run = (struct data_run){0};
        }
    }
    data_close_chunks(data);
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

static uint32_t item_slot(const unsigned char *item, unsigned row) {
    uint32_t slot;
    memcpy(&slot, item + row * sizeof slot, sizeof slot);
    return slot;
}

/* Sorts items by group (stable) into `sorted` and returns the groups. */
static struct group *make_groups(const struct data *data, const struct cache *cache, const unsigned char *items,
                                 unsigned char *sorted, unsigned clocks, uint64_t seed, size_t *group_count) {
    bool by_row = data->item_rows > 0;
    const struct cache_table *table = by_row ? &cache->tables[data->item_tables[0]] : NULL;
    size_t slots = by_row ? table->count : data->count;
    struct group *groups = memory_zeroed(slots, sizeof *groups);
    for (size_t i = 0; i < data->count; i++) {
        groups[by_row ? item_slot(items + i * data->item_size, 0) : i].count++;
    }
    uint32_t first = 0;
    for (size_t g = 0; g < slots; g++) {
        groups[g].first = first;
        first += groups[g].count;
        groups[g].hash = hash_mix(seed ^ hash_mix(by_row ? cache_key(table, (uint32_t)g) : g));
        groups[g].part = (uint32_t)(groups[g].hash >> 33) % clocks;
        groups[g].count = 0;
    }
    for (size_t i = 0; i < data->count; i++) {
        const unsigned char *item = items + i * data->item_size;
        struct group *group = &groups[by_row ? item_slot(item, 0) : i];
        memcpy(sorted + (size_t)(group->first + group->count++) * data->item_size, item, data->item_size);
    }
    size_t kept = 0;
    for (size_t g = 0; g < slots; g++) {
        if (groups[g].count > 0) {
            groups[kept++] = groups[g]; /* rows that only test items name have no training items */
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

/* Deals the rows of the items' second table to bins of about equal numbers of items: bin of each slot. */
static uint8_t *make_bins(const struct data *data, const struct cache *cache, const unsigned char *items,
                          unsigned bins) {
    size_t slots = cache->tables[data->item_tables[1]].count;
    uint64_t *weights = memory_zeroed(slots, sizeof *weights);
    uint64_t *loads = memory_zeroed(bins, sizeof *loads);
    uint8_t *bin_of = memory_zeroed(slots, 1);
    for (size_t i = 0; i < data->count; i++) {
        weights[item_slot(items + i * data->item_size, 1)]++;
    }
    for (size_t s = 0; s < slots; s++) {
        unsigned bin = least_loaded(loads, bins);
        bin_of[s] = (uint8_t)bin;
        loads[bin] += weights[s];
    }
    free(weights);
    free(loads);
    return bin_of;
}

/* Copies the groups' items to data->items, block by block. `groups` are in order of parts. */
static void fill_blocks(struct data *data, const struct group *groups, size_t group_count, const unsigned char *sorted,
                        const uint8_t *bin_of) {
    size_t at = 0;
    size_t block = 0;
    size_t first = 0;
    for (unsigned part = 0; part < data->clocks; part++) {
        size_t end = first;
        while (end < group_count && groups[end].part == part) {
            end++;
        }
        for (unsigned thread = 0; thread < data->threads; thread++) {
            for (unsigned bin = 0; bin < data->bins; bin++) {
                data->starts[block++] = at;
                for (size_t g = first; g < end; g++) {
                    if (groups[g].thread != thread) {
                        continue;
                    }
                    for (uint32_t i = groups[g].first; i < groups[g].first + groups[g].count; i++) {
                        const unsigned char *item = sorted + (size_t)i * data->item_size;
                        if (bin_of == NULL || bin_of[item_slot(item, 1)] == bin) {
                            memcpy(data->items + at++ * data->item_size, item, data->item_size);
                        }
                    }
                }
            }
        }
        first = end;
    }
    data->starts[block] = at;
}

/* Test items go to threads by their first row, as training items do, in the order of the input. */
static void arrange_tests(struct data *data, unsigned char *tests, unsigned threads) {
    data->test_starts = memory_zeroed((size_t)threads + 1, sizeof *data->test_starts);
    data->tests = memory_resized(NULL, data->test_count, data->item_size);
    size_t at = 0;
    for (unsigned thread = 0; thread < threads; thread++) {
        data->test_starts[thread] = at;
        for (size_t i = 0; i < data->test_count; i++) {
            const unsigned char *item = tests + i * data->item_size;
            uint64_t group = data->item_rows > 0 ? item_slot(item, 0) : i;
            if (hash_mix(group) % threads == thread) {
                memcpy(data->tests + at++ * data->item_size, item, data->item_size);
            }
        }
    }
    data->test_starts[threads] = at;
    free(tests);
}

int data_arrange(struct data *data, struct cache *cache, unsigned clocks, unsigned threads, uint64_t seed,
                 struct error *error) {
    unsigned char *items = NULL;
    unsigned char *tests = NULL;
    int result = data_collect(data, cache, &items, &tests, error);
    if (result != 0) {
        free(items);
        free(tests);
        return result;
    }
    data->clocks = clocks;
    data->threads = threads;
    data->bins = data->item_rows == 2 ? threads : 1;
    data->starts = memory_zeroed((size_t)clocks * threads * data->bins + 1, sizeof *data->starts);
    unsigned char *sorted = memory_resized(NULL, data->count, data->item_size);
    size_t group_count;
    struct group *groups = make_groups(data, cache, items, sorted, clocks, seed, &group_count);
    data->items = items; /* its order is no longer needed: it becomes the target */
    if (group_count > 0) {
        qsort(groups, group_count, sizeof *groups, group_order);
    }
    uint64_t *loads = memory_zeroed(threads, sizeof *loads);
    unsigned char *swap = memory_zeroed(1, data->item_size);
    for (size_t g = 0; g < group_count; g++) {
        if (g > 0 && groups[g].part != groups[g - 1].part) {
            memset(loads, 0, threads * sizeof *loads);
        }
        groups[g].thread = least_loaded(loads, threads);
        loads[groups[g].thread] += groups[g].count;
        group_shuffle(data, &groups[g], sorted, swap);
    }
    uint8_t *bin_of = data->bins > 1 ? make_bins(data, cache, sorted, data->bins) : NULL;
    fill_blocks(data, groups, group_count, sorted, bin_of);
    free(bin_of);
    free(swap);
    free(loads);
    free(groups);
    free(sorted);
    arrange_tests(data, tests, threads);
    return 0;
}

size_t data_block(const struct data *data, unsigned part, unsigned thread, unsigned round, const void **items) {
    unsigned bin = (thread + round) % data->bins;
    size_t block = ((size_t)part * data->threads + thread) * data->bins + bin;
    *items = data->items + data->starts[block] * data->item_size;
    return data->starts[block + 1] - data->starts[block];
}

size_t data_tests(const struct data *data, unsigned thread, const void **items) {
    *items = data->tests + data->test_starts[thread] * data->item_size;
    return data->test_starts[thread + 1] - data->test_starts[thread];
}
