/* Rows whose updates are complete before the clock ends, as the app declares by aml_rows_done. Takes these rows out of
 * the cache in pieces of the clock's flush (client.h), for the main thread to send. With PROTEUS_CHECK=1 sends no
 * pieces, but detects later changes of such rows. See runtime_private.h. */
#include "workers/process/runtime_private.h"

#include "agileml/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* In place of the number of threads: the row was taken for a piece. */
enum { DONE_TAKEN = POOL_THREADS_MAX + 1 };

void runtime_done_open(struct runtime *runtime) {
    pthread_mutex_init(&runtime->command.done.lock, NULL);
}

void runtime_done_close(struct runtime *runtime) {
    struct runtime_done *done = &runtime->command.done;
    for (unsigned t = 0; t < WIRE_TABLES_MAX; t++) {
        free(done->tables[t].rows);
        free(done->tables[t].said);
        free(done->tables[t].hashes);
    }
    free(done->ranges);
    pthread_mutex_destroy(&done->lock);
}

void runtime_done_begin(struct runtime *runtime, bool own_clock) {
    struct runtime_done *done = &runtime->command.done;
    bool possible = own_clock && runtime->options.lots == 0 && runtime->command.strategy == STRATEGY_SSGD &&
                    !job_steps_locally(&runtime->job);
    done->sends =
        possible && runtime->options.flush_early && !runtime->check.on && client_may_piece(&runtime->node.client);
    done->counts = done->sends || (possible && runtime->check.on);
    done->needed = runtime->app->clock_alone ? 1 : runtime->pool.threads;
    done->range_count = 0;
    done->bytes = 0;
    done->pieces = 0;
    for (unsigned t = 0; t < runtime->job.table_count; t++) {
        struct done_table *table = &done->tables[t];
        if (table->used) {
            memset(table->rows, 0, table->count);
            memset(table->said, 0, table->count * done->needed);
            table->used = false;
        }
    }
}

/* ---- What threads declare ---- */

static struct done_table *open_table(struct runtime *runtime, unsigned t) {
    struct runtime_done *done = &runtime->command.done;
    struct done_table *table = &done->tables[t];
    assert(table->rows == NULL || table->count == runtime->job.tables[t].rows);
    if (table->rows == NULL) {
        table->count = runtime->job.tables[t].rows;
        table->rows = memory_zeroed(table->count, 1);
        table->said = memory_zeroed(table->count, done->needed);
        table->hashes = runtime->check.on ? memory_zeroed(table->count, sizeof *table->hashes) : NULL;
    }
    __atomic_store_n(&table->used, true, __ATOMIC_RELEASE);
    return table;
}

/* Hashes what updates of the row change. */
static uint64_t row_hash(const struct cache_table *rows, uint32_t slot) {
    const unsigned char *row = cache_summed(rows) ? cache_sum(rows, slot) : cache_row(rows, slot);
    return hash_bytes(row, rows->spec->row_bytes, slot);
}

static void add_range(struct runtime *runtime, unsigned table, uint64_t row) {
    struct runtime_done *done = &runtime->command.done;
    struct client_range *last = done->range_count > 0 ? &done->ranges[done->range_count - 1] : NULL;
    done->bytes += runtime->job.tables[table].row_bytes;
    if (last != NULL && last->table == table && (last->first + last->count == row || row + 1 == last->first)) {
        last->first = row < last->first ? row : last->first;
        last->count++;
        return;
    }
    if (done->range_count == done->range_capacity) {
        done->range_capacity = done->range_capacity > 0 ? 2 * done->range_capacity : 16;
        done->ranges = memory_resized(done->ranges, done->range_capacity, sizeof *done->ranges);
    }
    done->ranges[done->range_count++] = (struct client_range){.table = table, .first = row, .count = 1};
}

/* Counts a thread's declarations. Rows that all threads have declared are done. Under `done.lock`. */
static void count_rows(struct aml_worker *worker, unsigned t, uint64_t first, uint64_t count) {
    struct runtime *runtime = worker->runtime;
    const struct runtime_done *done = &runtime->command.done;
    const struct cache_table *rows = &runtime->node.cache.tables[t];
    struct done_table *table = open_table(runtime, t);
    unsigned char *said = table->said + (done->needed > 1 ? worker->thread * table->count : 0);
    for (uint64_t row = first; row < first + count; row++) {
        if (said[row] != 0) {
            continue;
        }
        said[row] = 1;
        unsigned threads = table->rows[row] + 1U;
        if (threads == done->needed && table->hashes != NULL) {
            table->hashes[row] = row_hash(rows, (uint32_t)row);
        }
        __atomic_store_n(&table->rows[row], (unsigned char)threads, __ATOMIC_RELEASE);
        if (threads == done->needed && done->sends) {
            add_range(runtime, t, row);
        }
    }
}

/* ---- Pieces ---- */

/* A piece of each partition's flush. */
struct round {
    struct runtime *runtime;
    struct client_range *ranges; /* owned */
    unsigned range_count;
    struct round_piece {
        struct retained_flush flush;
        bool there;
    } * pieces; /* by partition */
};

/* Takes over the rows that are done, if there are enough of them for a message to each server. Otherwise they wait for
 * more, or for the clock's end. Under `done.lock`. */
static bool take_round(struct runtime *runtime, struct round *round) {
    struct runtime_done *done = &runtime->command.done;
    uint32_t partitions = runtime->node.client.partition_count;
    assert(done->pieces <= WIRE_PIECES_MAX - 1 && (done->bytes == 0 || done->range_count > 0));
    if (!done->sends || done->bytes < (size_t)RUNTIME_PIECE_KIB * 1024 * partitions ||
        done->pieces == WIRE_PIECES_MAX - 1) {
        return false;
    }
    *round = (struct round){.runtime = runtime, .ranges = done->ranges, .range_count = done->range_count};
    round->pieces = memory_zeroed(partitions, sizeof *round->pieces);
    for (unsigned r = 0; r < round->range_count; r++) {
        const struct client_range *range = &round->ranges[r];
        for (uint64_t row = range->first; row < range->first + range->count; row++) {
            __atomic_store_n(&done->tables[range->table].rows[row], DONE_TAKEN, __ATOMIC_RELEASE);
        }
    }
    done->ranges = NULL;
    done->range_count = done->range_capacity = 0;
    done->bytes = 0;
    done->pieces++;
    return true;
}

/* Gathers the pieces of a thread's part of the partitions (pool_part). */
static void gather_round(void *context, unsigned thread, unsigned threads) {
    const struct round *round = context;
    struct runtime *runtime = round->runtime;
    const struct client *client = &runtime->node.client;
    for (uint32_t p = thread; p < client->partition_count; p += threads) {
        struct round_piece *piece = &round->pieces[p];
        struct error error = {0};
        piece->there = client_gather_piece(client, p, round->ranges, round->range_count, &piece->flush);
        if (piece->there && runtime->job.reject_nan &&
            client_check_numbers(client, &piece->flush, runtime->node.name, &error) != 0) {
            runtime_fail(runtime, error.code, error.text);
        }
    }
}

/* Hands the pieces over to the main thread, or drops them when the app has failed. */
static void send_round(struct round *round) {
    struct runtime *runtime = round->runtime;
    struct client *client = &runtime->node.client;
    pthread_mutex_lock(&runtime->lock);
    bool failed = runtime_failed(runtime);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct round_piece *piece = &round->pieces[p];
        if (piece->there && failed) {
            client_drop_piece(client, &piece->flush);
        } else if (piece->there) {
            client_add_piece(client, p, &piece->flush);
            runtime->command.done.sent++;
        }
    }
    runtime->asked.pieces = true;
    pthread_mutex_unlock(&runtime->lock);
    runtime_wake(runtime);
    free(round->ranges);
    free(round->pieces);
}

int runtime_done_say(struct aml_worker *worker, unsigned table, uint64_t first, uint64_t count) {
    struct runtime *runtime = worker->runtime;
    struct runtime_done *done = &runtime->command.done;
    struct round round;
    if (!done->counts || count == 0) {
        return 0;
    }
    pthread_mutex_lock(&done->lock);
    count_rows(worker, table, first, count);
    bool due = take_round(runtime, &round);
    pthread_mutex_unlock(&done->lock);
    if (due && worker->leads) {
        pool_parallel(&runtime->pool, gather_round, &round);
    } else if (due) {
        gather_round(&round, 0, 1);
    }
    if (due) {
        send_round(&round);
    }
    return runtime_failed(runtime) ? AML_ESTOP : 0;
}

/* ---- Updates of rows that are done ---- */

bool runtime_is_done(const struct runtime *runtime, unsigned t, uint64_t row) {
    const struct runtime_done *done = &runtime->command.done;
    const struct done_table *table = &done->tables[t];
    return done->counts && __atomic_load_n(&table->used, __ATOMIC_ACQUIRE) && row < table->count &&
           __atomic_load_n(&table->rows[row], __ATOMIC_ACQUIRE) >= done->needed;
}

static int updated_later(const struct runtime *runtime, unsigned t, uint64_t row, struct error *error) {
    return error_set(error, AML_EINPUT,
                     "clock: table %s: row %llu was updated in clock %llu after aml_rows_done had declared it done: "
                     "expected no update of the row until the next clock",
                     runtime->job.tables[t].name, (unsigned long long)row, (unsigned long long)runtime->command.clock);
}

int runtime_done_check(const struct runtime *runtime, uint32_t partition, struct error *error) {
    const uint64_t step = runtime->node.client.partition_count;
    for (unsigned t = 0; t < runtime->job.table_count; t++) {
        const struct done_table *table = &runtime->command.done.tables[t];
        const struct cache_table *rows = &runtime->node.cache.tables[t];
        bool changed = false;
        for (uint64_t row = partition; table->used && row < table->count; row += step) {
            if (table->hashes != NULL) {
                changed = table->rows[row] >= runtime->command.done.needed &&
                          table->hashes[row] != row_hash(rows, (uint32_t)row);
            } else {
                changed = table->rows[row] == DONE_TAKEN && rows->touched.base[row] != 0;
            }
            if (changed) {
                return updated_later(runtime, t, row, error);
            }
        }
    }
    return 0;
}
