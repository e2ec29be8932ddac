/* See plain.h. */
#include "bench/mf/plain.h"

#include "workers/data/ratings.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USERS = 0, ITEMS = 1 };

static int plain_ratings(void *context, unsigned thread, const struct line_chunk *lines, const struct rating *ratings,
                         size_t count) {
    struct plain *plain = context;
    struct data_chunk *chunk = data_chunk_open(&plain->data, lines->sequence, lines->sequence);
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        data_emit(&plain->data, chunk, AML_TRAIN, keys, &ratings[i].value);
        struct plain_sums *sums = &plain->sums[thread];
        mf_sums_add(&sums->sums, ratings[i].value);
        sums->minimum = fmin(sums->minimum, (double)ratings[i].value);
        sums->maximum = fmax(sums->maximum, (double)ratings[i].value);
    }
    data_chunk_close(&plain->data, chunk);
    return 0;
}

static int plain_slots(void *context, unsigned table, const uint64_t *keys, uint32_t *slots, size_t count,
                       struct error *error) {
    struct plain *plain = context;
    for (size_t i = 0; i < count; i++) {
        int64_t slot = cache_add(&plain->cache, table, keys[i]);
        if (slot < 0) {
            return error_set(error, (int)slot, "no memory for the rows");
        }
        slots[i] = (uint32_t)slot;
    }
    return 0;
}

static void plain_run(void *context, unsigned thread, int command) {
    struct plain *plain = context;
    double squared_error = 0;
    (void)command;
    for (unsigned round = 0; round < plain->ratings.bins; round++) {
        const void *ratings;
        size_t count = data_block(&plain->ratings, 0, 0, thread, round, &ratings);
        squared_error += plain->kernel.sgd_pass(&plain->sgd, ratings, count);
        pool_meet(&plain->pool);
    }
    plain->squared_errors[thread] = squared_error;
}

static void plain_count_runs(struct plain *plain) {
    const struct mf_item *ratings = (const void *)plain->ratings.items;
    for (size_t i = 0; i < plain->ratings.count; i++) {
        plain->runs += i == 0 || ratings[i].user != ratings[i - 1].user;
    }
}

static int plain_spread(struct plain *plain, unsigned threads, struct error *error) {
    struct plain_sums all = plain->sums[0];
    for (unsigned t = 1; t < threads; t++) {
        const struct plain_sums *more = &plain->sums[t];
        all.sums.count += more->sums.count;
        all.sums.ratings += more->sums.ratings;
        all.sums.squares_high += more->sums.squares_high;
        all.sums.squares_low += more->sums.squares_low;
        all.minimum = fmin(all.minimum, more->minimum);
        all.maximum = fmax(all.maximum, more->maximum);
    }
    return mf_spread_of(&all.sums, all.minimum, all.maximum, &plain->spread, error);
}

int plain_open(struct plain *plain, const char *path, unsigned threads, struct error *error) {
    const struct aml_app app = {.item_rows = 2, .item_tables = {USERS, ITEMS}, .item_bytes = sizeof(float)};
    *plain = (struct plain){.kernel = mf_kernels[vectors_wide()]};
    plain->job.table_count = 2;
    for (unsigned t = 0; t < 2; t++) {
        plain->job.tables[t] = (struct table_spec){.width = 1, .row_bytes = sizeof(float), .mode = AML_PUT};
    }
    cache_open(&plain->cache, &plain->job, 1);
    data_open(&plain->data, &app, PLAIN_SHARDS, 0);
    plain->data_open = true;
    for (uint32_t s = 0; s < PLAIN_SHARDS; s++) {
        plain->shards[s] = s;
    }
    data_pin(&plain->data, plain->shards, PLAIN_SHARDS);
    data_read_begin(&plain->data);
    plain->sums = memory_zeroed(threads, sizeof *plain->sums);
    for (unsigned t = 0; t < threads; t++) {
        plain->sums[t] = (struct plain_sums){.minimum = INFINITY, .maximum = -INFINITY};
    }
    plain->squared_errors = memory_zeroed(threads, sizeof(double));
    const struct ratings_reader reader = {.threads = threads, .sink = plain_ratings, .context = plain};
    int result = ratings_read(&reader, path, error);
    data_read_end(&plain->data, result == 0);
    if (result == 0) {
        const struct data_rows rows = {.slots = plain_slots, .context = plain};
        const struct data_dealing dealing = {.clocks = 1, .threads = threads, .seed = PLAIN_SEED};
        result = data_arrange(&plain->data, plain->shards, PLAIN_SHARDS, &dealing, &rows, &plain->ratings, error);
    }
    if (result == 0) {
        result = pool_open(&plain->pool, threads, plain_run, plain, error);
    }
    if (result != 0) {
        return result;
    }
    plain_count_runs(plain);
    return plain_spread(plain, threads, error);
}

void plain_close(struct plain *plain) {
    pool_close(&plain->pool, 1000);
    if (plain->data_open) {
        data_set_close(&plain->data, &plain->ratings);
        data_close(&plain->data);
    }
    cache_close(&plain->cache);
    arena_close(&plain->users);
    arena_close(&plain->items);
    free(plain->sums);
    free(plain->squared_errors);
}

static int start_rows(struct plain *plain, struct arena *rows, unsigned table, uint32_t rank, bool biases,
                      size_t stride, struct error *error) {
    const struct cache_table *slots = &plain->cache.tables[table];
    if (arena_grow(rows, slots->count * stride) != 0) {
        return error_set(error, AML_ENOMEM, "no memory for %u rows of rank %u", slots->count, rank);
    }
    for (uint32_t slot = 0; slot < slots->count; slot++) {
        float *row = (float *)(void *)(rows->base + slot * stride);
        mf_initial_row(PLAIN_SEED, table, cache_key(slots, slot), rank, biases, row);
    }
    return 0;
}

int plain_begin(struct plain *plain, uint32_t rank, bool biases, struct error *error) {
    size_t stride = ((rank + biases) * sizeof(float) + 15) / 16 * 16;
    int result = start_rows(plain, &plain->users, USERS, rank, biases, stride, error);
    if (result == 0) {
        result = start_rows(plain, &plain->items, ITEMS, rank, biases, stride, error);
    }
    plain->sgd = (struct mf_sgd){.users = plain->users.base,
                                 .user_stride = stride,
                                 .items = plain->items.base,
                                 .item_stride = stride,
                                 .rank = rank,
                                 .biases = biases,
                                 .mean = plain->spread.mean,
                                 .scale = 1 / plain->spread.unit,
                                 .clip = PLAIN_CLIP,
                                 .lambda = (float)PLAIN_LAMBDA,
                                 .lambda_bias = (float)PLAIN_LAMBDA_BIAS};
    return result;
}

double plain_pass(struct plain *plain, unsigned iteration) {
    plain->sgd.rate = (float)(PLAIN_RATE * pow(PLAIN_DECAY, (double)iteration - 1));
    pool_begin(&plain->pool, 0);
    struct pollfd done = {.fd = plain->pool.done, .events = POLLIN};
    uint64_t count;
    while (poll(&done, 1, -1) < 0 && errno == EINTR) {
    }
    while (read(plain->pool.done, &count, sizeof count) < 0 && errno == EINTR) {
    }
    double squared_error = 0;
    for (unsigned t = 0; t < plain->pool.threads; t++) {
        squared_error += plain->squared_errors[t];
    }
    return fabs((double)plain->spread.unit) * sqrt(squared_error / (double)plain->ratings.count);
}
