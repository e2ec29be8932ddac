/* Rows by key (workers/process/params.c and the functions of agileml.h that use it). No update of several threads is
 * lost, and a row is read as a whole. Also: calls with many keys, rows read for the first time, keys out of range.
 * The test plays the main thread, which fetches new rows. */
#include "tests/test.h"
#include "workers/process/params.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SUMS, FLOATS, DENSE, PUT, GIVEN, REPLICATED, TABLES };
enum { WIDTH = 5, DENSE_ROWS = 50, PARTITIONS = 3, ROOM = 20000, THREADS = 4 };

static const uint64_t SPREAD = UINT64_C(0x123456789ABC); /* sparse keys are multiples of this */

struct fixture {
    struct runtime runtime;
    struct aml_app app;
    struct aml_worker workers[THREADS];
    pthread_t main_thread;
    int stop;
    unsigned trips; /* how often new rows were fetched */
    bool ends;      /* the job ends instead of a fetch */
};

/* The start value of element `element` of row `key`. */
static int64_t start_value(uint64_t key, uint32_t element) {
    return (int64_t)(key % 1000) + element;
}

static void add_table(struct job *job, const char *name, enum aml_type type, enum aml_mode mode) {
    struct table_spec *spec = &job->tables[job->table_count++];
    *spec = (struct table_spec){.type = type, .mode = mode, .width = WIDTH};
    spec->row_bytes = WIDTH * (uint32_t)aml_type_size(type);
    snprintf(spec->name, sizeof spec->name, "%s", name);
}

static void set_element(const struct table_spec *spec, void *row, uint32_t element, int64_t value) {
    if (spec->type == AML_INT64) {
        ((int64_t *)row)[element] = value;
    } else if (spec->type == AML_INT32) {
        ((int32_t *)row)[element] = (int32_t)value;
    } else {
        ((float *)row)[element] = (float)value;
    }
}

/* Gives every row without a state its start value, like an answer of the servers. */
static bool fetch_rows(struct fixture *fixture) {
    struct cache *cache = &fixture->runtime.node.cache;
    bool fetched = false;
    for (unsigned t = 0; t < TABLES; t++) {
        const struct cache_table *rows = &cache->tables[t];
        for (uint32_t slot = 0; slot < rows->count; slot++) {
            if (cache_arrived(rows, slot)) {
                continue;
            }
            for (uint32_t e = 0; e < WIDTH; e++) {
                set_element(rows->spec, cache_row(rows, slot), e, start_value(cache_key(rows, slot), e));
            }
            cache_set_arrived(rows, slot, true);
            fetched = true;
        }
    }
    return fetched;
}

static void *main_thread(void *context) {
    struct fixture *fixture = context;
    struct runtime *runtime = &fixture->runtime;
    struct pollfd ends[2] = {{.fd = runtime->asked.wake, .events = POLLIN}, {.fd = fixture->stop, .events = POLLIN}};
    while (poll(ends, 2, -1) > 0 && ends[1].revents == 0) {
        uint64_t count;
        if (read(runtime->asked.wake, &count, sizeof count) != (ssize_t)sizeof count) {
            break;
        }
        pthread_mutex_lock(&runtime->lock);
        if (fixture->ends) {
            runtime->stopping = true;
        } else if (runtime->asked.rows && fetch_rows(fixture)) {
            fixture->trips++;
        }
        runtime->asked.rows = false;
        pthread_cond_broadcast(&runtime->asked.answered);
        pthread_mutex_unlock(&runtime->lock);
    }
    return NULL;
}

/* A node with `threads` worker threads, whose cache is empty and has room for ROOM rows of each table. */
static struct fixture *open_node_with(unsigned threads, table_apply *apply_sums) {
    struct fixture *fixture = memory_zeroed(1, sizeof *fixture);
    struct runtime *runtime = &fixture->runtime;
    struct job *job = &runtime->job;
    runtime_init(runtime);
    runtime->app = &fixture->app;
    runtime->options.threads = threads;
    add_table(job, "sums", AML_INT64, AML_ADD);
    add_table(job, "floats", AML_FLOAT32, AML_ADD);
    add_table(job, "dense", AML_INT32, AML_ADD);
    add_table(job, "put", AML_INT64, AML_PUT);
    add_table(job, "given", AML_INT64, AML_ADD);
    add_table(job, "replicated", AML_INT64, AML_ADD);
    job->tables[DENSE].rows = job->tables[REPLICATED].rows = DENSE_ROWS;
    job->tables[REPLICATED].whole = true;
    job->tables[GIVEN].sparse = job->tables[GIVEN].given = true;
    job->tables[SUMS].apply = apply_sums;
    for (unsigned t = 0; t < TABLES; t++) {
        job->shapes[t] = table_shape(&job->tables[t]);
    }
    cache_open(&runtime->node.cache, job, PARTITIONS);
    for (unsigned t = 0; t < TABLES; t++) {
        assert_int_equal(cache_reserve(&runtime->node.cache, t, ROOM), 0);
    }
    runtime->asked.wake = eventfd(0, EFD_CLOEXEC);
    fixture->stop = eventfd(0, EFD_CLOEXEC);
    for (unsigned t = 0; t < THREADS; t++) {
        fixture->workers[t] = (struct aml_worker){.runtime = runtime, .thread = t};
    }
    runtime->workers = fixture->workers;
    params_open(runtime);
    assert_int_equal(pthread_create(&fixture->main_thread, NULL, main_thread, fixture), 0);
    return fixture;
}

static struct fixture *open_node(unsigned threads) {
    return open_node_with(threads, NULL);
}

static void close_node(struct fixture *fixture) {
    uint64_t one = 1;
    assert_int_equal(write(fixture->stop, &one, sizeof one), sizeof one);
    pthread_join(fixture->main_thread, NULL);
    params_close(&fixture->runtime);
    cache_close(&fixture->runtime.node.cache);
    close(fixture->runtime.asked.wake);
    close(fixture->stop);
    free(fixture);
}

static void run_threads(struct fixture *fixture, unsigned threads, void *(*run)(void *worker)) {
    pthread_t handles[THREADS];
    for (unsigned t = 0; t < threads; t++) {
        assert_int_equal(pthread_create(&handles[t], NULL, run, &fixture->workers[t]), 0);
    }
    for (unsigned t = 0; t < threads; t++) {
        void *failed;
        pthread_join(handles[t], &failed);
        assert_null(failed);
    }
}

static void assert_row(struct fixture *fixture, unsigned table, uint64_t key, int64_t added) {
    int64_t row[WIDTH];
    assert_int_equal(aml_read_param(&fixture->workers[0], table, key, row), 0);
    for (uint32_t e = 0; e < WIDTH; e++) {
        assert_int_equal(row[e], start_value(key, e) + added);
    }
}

static void assert_error(const struct fixture *fixture, const char *text) {
    if (strcmp(fixture->runtime.error.text, text) != 0) {
        fail_msg("'%s', expected '%s'", fixture->runtime.error.text, text);
    }
}

/* ---- Several threads ---- */

enum { UPDATES = 400, KEYS = 300, BATCH = 100 };

/* The keys of a thread's n-th call. All threads use the same rows repeatedly, and some keys occur twice in a call. */
static void nth_keys(unsigned thread, unsigned n, uint64_t *keys) {
    for (unsigned i = 0; i < BATCH; i++) {
        keys[i] = aml_mix(thread, (uint64_t)n * BATCH + i) % KEYS * SPREAD;
    }
}

static void *add_everywhere(void *context) {
    static const unsigned tables[] = {SUMS, GIVEN};
    aml_worker *worker = context;
    uint64_t keys[BATCH];
    int64_t deltas[BATCH][WIDTH];
    int result = 0;
    for (unsigned n = 0; n < UPDATES; n++) {
        nth_keys(worker->thread, n, keys);
        for (unsigned i = 0; i < BATCH; i++) {
            for (uint32_t e = 0; e < WIDTH; e++) {
                deltas[i][e] = worker->thread + n + i;
            }
        }
        for (unsigned t = 0; t < 2; t++) {
            result = result != 0 ? result : aml_update_params(worker, tables[t], keys, BATCH, deltas);
            result = result != 0 ? result : aml_update_param(worker, tables[t], keys[n % BATCH], deltas[0]);
        }
    }
    return result == 0 ? NULL : worker;
}

TEST(what_several_threads_add_is_exact) {
    struct fixture *fixture = open_node(THREADS);
    int64_t expected[KEYS] = {0};
    uint64_t keys[BATCH];
    run_threads(fixture, THREADS, add_everywhere);
    for (unsigned thread = 0; thread < THREADS; thread++) {
        for (unsigned n = 0; n < UPDATES; n++) {
            nth_keys(thread, n, keys);
            for (unsigned i = 0; i < BATCH; i++) {
                expected[keys[i] / SPREAD] += thread + n + i;
            }
            expected[keys[n % BATCH] / SPREAD] += thread + n;
        }
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        assert_row(fixture, SUMS, k * SPREAD, expected[k]);
        assert_row(fixture, GIVEN, k * SPREAD, expected[k]);
    }
    close_node(fixture);
}

/* All elements of a row are equal at all times. */
static void *add_or_read_whole_rows(void *context) {
    aml_worker *worker = context;
    uint64_t keys[2] = {SPREAD, 2 * SPREAD};
    float ones[2][WIDTH];
    float rows[2][WIDTH];
    float before[2] = {0};
    for (unsigned i = 0; i < 2 * WIDTH; i++) {
        ones[i / WIDTH][i % WIDTH] = 1;
    }
    for (unsigned n = 0; n < 20000; n++) {
        bool adds = worker->thread % 2 == 0;
        int result =
            adds ? aml_update_params(worker, FLOATS, keys, 2, ones) : aml_read_params(worker, FLOATS, keys, 2, rows);
        for (unsigned r = 0; r < 2 && !adds; r++) {
            for (uint32_t e = 1; e < WIDTH; e++) {
                result = rows[r][e] == rows[r][0] + (float)e ? result : AML_EFAIL;
            }
            result = rows[r][0] >= before[r] ? result : AML_EFAIL; /* an update that was seen stays visible */
            before[r] = rows[r][0];
        }
        if (result != 0) {
            return worker;
        }
    }
    return NULL;
}

TEST(a_row_is_read_as_a_whole) {
    struct fixture *fixture = open_node(THREADS);
    float row[WIDTH];
    run_threads(fixture, THREADS, add_or_read_whole_rows);
    assert_int_equal(aml_read_param(&fixture->workers[0], FLOATS, SPREAD, row), 0);
    assert_float_equal(row[0], (float)(start_value(SPREAD, 0) + 2 * 20000), 0); /* whole numbers in float32: exact */
    close_node(fixture);
}

/* Some calls find rows while others add rows and the index grows. */
static void *see_rows(void *context) {
    aml_worker *worker = context;
    static const unsigned each = ROOM / 2 / BATCH;
    for (unsigned n = 0; n < each; n++) {
        uint64_t keys[BATCH];
        int64_t rows[BATCH][WIDTH];
        /* half of the rows are shared by all threads, half are the thread's own */
        for (unsigned i = 0; i < BATCH; i++) {
            keys[i] = (i % 2 == 0 ? i : (n * THREADS + worker->thread) * BATCH + i) * SPREAD;
        }
        if (aml_read_params(worker, SUMS, keys, BATCH, rows) != 0) {
            return worker;
        }
        for (unsigned i = 0; i < BATCH; i++) {
            if (rows[i][WIDTH - 1] != start_value(keys[i], WIDTH - 1)) {
                return worker;
            }
        }
    }
    return NULL;
}

TEST(rows_are_found_while_others_are_added) {
    struct fixture *fixture = open_node(THREADS);
    struct cache *cache = &fixture->runtime.node.cache;
    assert_int_equal(cache_reserve(cache, SUMS, (uint64_t)THREADS * ROOM), 0);
    run_threads(fixture, THREADS, see_rows);
    assert_int_equal(cache->tables[SUMS].count, BATCH / 2 + THREADS * ROOM / 2 / 2);
    cache_trim(cache);
    for (unsigned n = 0; n < ROOM / 2 / BATCH * THREADS; n++) {
        assert_row(fixture, SUMS, (n * BATCH + 1) * SPREAD, 0);
    }
    close_node(fixture);
}

/* ---- Calls with many keys ---- */

TEST(duplicates_each_count) {
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
        struct fixture *fixture = open_node(threads);
        aml_worker *worker = &fixture->workers[0];
        const uint64_t keys[] = {7, 8, 7, 7, 9};
        int64_t deltas[5][WIDTH];
        int64_t rows[5][WIDTH];
        for (unsigned i = 0; i < 5 * WIDTH; i++) {
            deltas[i / WIDTH][i % WIDTH] = 1 << i / WIDTH;
        }
        assert_int_equal(aml_update_params(worker, SUMS, keys, 5, deltas), 0);
        assert_row(fixture, SUMS, 7, 1 + 4 + 8);
        assert_row(fixture, SUMS, 8, 2);
        assert_row(fixture, SUMS, 9, 16);
        assert_int_equal(aml_read_params(worker, SUMS, keys, 5, rows), 0);
        for (uint32_t e = 0; e < WIDTH; e++) {
            assert_int_equal(rows[0][e], start_value(7, e) + 13);
            assert_int_equal(rows[1][e], start_value(8, e) + 2);
            assert_int_equal(rows[2][e], rows[0][e]);
            assert_int_equal(rows[3][e], rows[0][e]);
            assert_int_equal(rows[4][e], start_value(9, e) + 16);
        }
        assert_int_equal(aml_update_params(worker, PUT, keys, 5, deltas), 0); /* the last value prevails */
        assert_int_equal(aml_read_params(worker, PUT, keys, 5, rows), 0);
        assert_memory_equal(rows[0], deltas[3], sizeof rows[0]);
        assert_memory_equal(rows[1], deltas[1], sizeof rows[1]);
        assert_memory_equal(rows[4], deltas[4], sizeof rows[4]);
        close_node(fixture);
    }
}

/* With an optimizer a read does not show the process's own updates, which are summed beside the rows. */
static void step_nothing(const struct aml_step *step, const void *parameters) {}

TEST(updates_for_an_optimizer_are_summed_aside) {
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
        struct fixture *fixture = open_node_with(threads, step_nothing);
        aml_worker *worker = &fixture->workers[0];
        const uint64_t keys[] = {7, 8, 7};
        int64_t deltas[3][WIDTH];
        for (unsigned i = 0; i < 3 * WIDTH; i++) {
            deltas[i / WIDTH][i % WIDTH] = 1 << i / WIDTH;
        }
        assert_int_equal(aml_update_params(worker, SUMS, keys, 3, deltas), 0);
        assert_row(fixture, SUMS, 7, 0);
        assert_row(fixture, SUMS, 8, 0);
        const struct cache_table *rows = &fixture->runtime.node.cache.tables[SUMS];
        for (unsigned k = 0; k < 2; k++) {
            int64_t slot = cache_find(&fixture->runtime.node.cache, SUMS, keys[k]);
            assert_int_equal(((const int64_t *)(const void *)cache_sum(rows, (uint32_t)slot))[WIDTH - 1],
                             k == 0 ? 5 : 2);
            assert_int_equal(rows->touched.base[slot], 1);
        }
        close_node(fixture);
    }
}

TEST(no_keys_are_no_work) {
    struct fixture *fixture = open_node(1);
    assert_int_equal(aml_read_params(&fixture->workers[0], SUMS, NULL, 0, NULL), 0);
    assert_int_equal(aml_update_params(&fixture->workers[0], SUMS, NULL, 0, NULL), 0);
    assert_int_equal(fixture->runtime.node.cache.tables[SUMS].count, 0);
    close_node(fixture);
}

/* Only changed rows are marked, and a flush takes the marked rows. */
TEST(updated_rows_are_marked) {
    struct fixture *fixture = open_node(2);
    const struct cache_table *rows = &fixture->runtime.node.cache.tables[SUMS];
    const uint64_t keys[] = {1, 2, 3};
    const int64_t deltas[2][WIDTH] = {{1}, {1}};
    int64_t values[3][WIDTH];
    assert_int_equal(aml_read_params(&fixture->workers[0], SUMS, keys, 3, values), 0);
    assert_int_equal(aml_update_params(&fixture->workers[0], SUMS, keys + 1, 2, deltas), 0);
    assert_int_equal(rows->count, 3);
    for (uint32_t slot = 0; slot < 3; slot++) {
        assert_int_equal(rows->touched.base[slot], cache_key(rows, slot) != 1);
    }
    close_node(fixture);
}

/* ---- Rows seen for the first time ---- */

TEST(new_rows_of_a_call_take_one_trip) {
    struct fixture *fixture = open_node(1);
    aml_worker *worker = &fixture->workers[0];
    enum { MANY = 3000 };
    FREED uint64_t *keys = memory_zeroed(MANY, sizeof *keys);
    int64_t(*rows)[WIDTH] = memory_zeroed(MANY, sizeof *rows);
    for (unsigned i = 0; i < MANY; i++) {
        keys[i] = i * SPREAD;
        rows[i][0] = 1;
    }
    assert_int_equal(aml_read_param(worker, SUMS, keys[5], rows[5]), 0);
    assert_int_equal(fixture->trips, 1);
    assert_int_equal(aml_read_params(worker, SUMS, keys, MANY, rows), 0);
    assert_int_equal(fixture->trips, 2);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(rows[i][1], start_value(keys[i], 1));
        memset(rows[i], 0, sizeof rows[i]);
        rows[i][0] = 1;
    }
    assert_int_equal(aml_update_params(worker, SUMS, keys, MANY, rows), 0);
    assert_int_equal(fixture->trips, 2);
    keys[MANY - 1] = UINT64_MAX; /* a new row among known rows */
    assert_int_equal(aml_update_params(worker, SUMS, keys, MANY, rows), 0);
    assert_int_equal(fixture->trips, 3);
    assert_int_equal(aml_read_params(worker, SUMS, keys, MANY, rows), 0);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(rows[i][0], start_value(keys[i], 0) + (i < MANY - 1 ? 2 : 1));
    }
    free(rows);
    close_node(fixture);
}

/* A replicated table is fetched with all its rows. */
TEST(rows_of_replicated_tables) {
    struct fixture *fixture = open_node(2);
    const uint64_t keys[] = {DENSE_ROWS - 1, 0};
    int64_t rows[2][WIDTH];
    assert_int_equal(aml_read_params(&fixture->workers[0], REPLICATED, keys, 2, rows), 0);
    assert_int_equal(rows[0][0], start_value(DENSE_ROWS - 1, 0));
    assert_int_equal(rows[1][0], start_value(0, 0));
    assert_int_equal(fixture->runtime.node.cache.tables[REPLICATED].count, DENSE_ROWS);
    close_node(fixture);
}

/* The process never had items, as may be in `finish`: the cache has no room yet. */
TEST(the_first_row_of_all_makes_room) {
    struct fixture *fixture = open_node(1);
    struct cache *cache = &fixture->runtime.node.cache;
    cache_close(cache);
    cache_open(cache, &fixture->runtime.job, PARTITIONS);
    for (unsigned t = 0; t < TABLES; t++) {
        if (t != FLOATS && t != DENSE) {
            assert_row(fixture, t, t == REPLICATED ? 3 : SPREAD, 0);
        }
    }
    close_node(fixture);
}

/* ---- Errors ---- */

TEST(keys_beyond_a_dense_table) {
    struct fixture *fixture = open_node(2);
    aml_worker *worker = &fixture->workers[0];
    const uint64_t keys[] = {3, DENSE_ROWS, 4};
    const int32_t deltas[3][WIDTH] = {{1}, {1}, {1}};
    int32_t rows[3][WIDTH] = {{-1}, {-1}, {-1}};
    assert_int_equal(aml_update_params(worker, DENSE, keys, 3, deltas), AML_EINPUT);
    assert_error(fixture, "aml_update_params: table dense: row 50, expected 0 to 49");
    assert_int_equal(aml_read_params(worker, DENSE, keys, 3, rows), AML_EINPUT);
    assert_int_equal(rows[0][0], -1);
    assert_int_equal(aml_read_param(worker, DENSE, UINT64_MAX, rows), AML_EINPUT);
    assert_int_equal(aml_update_param(worker, DENSE, DENSE_ROWS, deltas), AML_EINPUT);
    assert_int_equal(fixture->runtime.node.cache.tables[DENSE].count, 0); /* not even requested */
    assert_int_equal(aml_read_param(worker, DENSE, 3, rows), 0);
    assert_int_equal(rows[0][0], start_value(3, 0));
    close_node(fixture);
}

TEST(tables_that_are_not_there) {
    struct fixture *fixture = open_node(1);
    const uint64_t key = 0;
    int64_t row[WIDTH] = {0};
    assert_int_equal(aml_read_params(&fixture->workers[0], TABLES, &key, 1, row), AML_EINPUT);
    assert_int_equal(aml_update_params(&fixture->workers[0], TABLES, &key, 1, row), AML_EINPUT);
    close_node(fixture);
}

TEST(a_cache_without_room) {
    struct fixture *fixture = open_node(1);
    FREED uint64_t *keys = memory_zeroed(ROOM + 1, sizeof *keys);
    int64_t(*rows)[WIDTH] = memory_zeroed(ROOM + 1, sizeof *rows);
    for (unsigned i = 0; i <= ROOM; i++) {
        keys[i] = i;
    }
    assert_int_equal(aml_read_params(&fixture->workers[0], SUMS, keys, ROOM + 1, rows), AML_ELIMIT);
    assert_error(fixture, "table sums: more than 20000 rows on one node");
    free(rows);
    close_node(fixture);
}

TEST(the_job_ends_before_rows_come) {
    struct fixture *fixture = open_node(1);
    const uint64_t keys[] = {1, 2};
    int64_t rows[2][WIDTH];
    fixture->ends = true;
    assert_int_equal(aml_read_params(&fixture->workers[0], SUMS, keys, 2, rows), AML_ESTOP);
    close_node(fixture);
}
