/* See plain.h. */
#include "bench/mf/plain.h"

#include "workers/ratings.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USERS = 0, ITEMS = 1 };
static const actor_id PLAIN_SELF = 0x10000;

static int plain_ratings(void *context, unsigned thread, uint64_t chunk_number, const struct rating *ratings,
                         size_t count) {
    struct plain *plain = context;
    struct data_chunk *chunk = data_chunk_open(&plain->data, chunk_number);
    for (size_t i = 0; i < count; i++) {
        uint64_t keys[2] = {ratings[i].user, ratings[i].item};
        data_emit(&plain->data, chunk, AML_TRAIN, keys, &ratings[i].value);
        plain->rating_sums[thread] += ratings[i].value;
    }
    return 0;
}

static void plain_run(void *context, unsigned thread, int command) {
    struct plain *plain = context;
    double squared_error = 0;
    (void)command;
    for (unsigned round = 0; round < plain->data.bins; round++) {
        const void *ratings;
        size_t count = data_block(&plain->data, 0, thread, round, &ratings);
        squared_error += plain->kernel.sgd_pass(&plain->sgd, ratings, count);
        pthread_barrier_wait(&plain->pool.barrier);
    }
    plain->squared_errors[thread] = squared_error;
}

static void plain_count_runs(struct plain *plain) {
    const struct mf_item *ratings = (const void *)plain->data.items;
    for (size_t i = 0; i < plain->data.count; i++) {
        plain->runs += i == 0 || ratings[i].user != ratings[i - 1].user;
    }
}

int plain_open(struct plain *plain, const char *path, unsigned threads, struct error *error) {
    const struct aml_app app = {.item_rows = 2, .item_tables = {USERS, ITEMS}, .item_bytes = sizeof(float)};
    *plain = (struct plain){.kernel = mf_kernel_choose()};
    plain->job.table_count = 2;
    for (unsigned t = 0; t < 2; t++) {
        plain->job.tables[t] = (struct table_spec){.width = 1, .row_bytes = sizeof(float), .mode = AML_PUT};
    }
    cache_open(&plain->cache, &plain->job, 1);
    plain->plan = (struct message){.type = MESSAGE_PLAN, .plan = {.shards = 1}};
    plain->plan.frames[2] = buffer_copy(&PLAIN_SELF, sizeof PLAIN_SELF); /* the one shard is ours */
    data_init(&plain->data, &app, &plain->plan, PLAIN_SELF);
    plain->data_open = true;
    plain->rating_sums = memory_zeroed(threads, sizeof(double));
    plain->squared_errors = memory_zeroed(threads, sizeof(double));
    int result = ratings_read(path, threads, plain_ratings, plain, error);
    if (result == 0) {
        result = data_arrange(&plain->data, &plain->cache, 1, threads, PLAIN_SEED, error);
    }
    if (result == 0) {
        result = pool_open(&plain->pool, threads, plain_run, plain, error);
    }
    if (result != 0) {
        return result;
    }
    double sum = 0;
    for (unsigned t = 0; t < threads; t++) {
        sum += plain->rating_sums[t];
    }
    plain->mean = (float)(sum / (double)plain->data.count);
    plain_count_runs(plain);
    return 0;
}

void plain_close(struct plain *plain) {
    pool_close(&plain->pool, 1000);
    if (plain->data_open) {
        data_close(&plain->data);
        buffer_drop(plain->plan.frames[2]);
    }
    cache_close(&plain->cache);
    arena_close(&plain->users);
    arena_close(&plain->items);
    free(plain->rating_sums);
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
                                 .mean = plain->mean,
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
    return sqrt(squared_error / (double)plain->data.count);
}
