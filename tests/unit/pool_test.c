/* workers/pool.c: every thread runs every command once, the descriptor tells when, and closing ends the threads. */
#include "workers/pool.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 5, COMMANDS = 200 };

struct record {
    struct pool pool;
    atomic_uint runs[THREADS];
    atomic_int last;
    atomic_uint behind_barrier;
};

static void record_run(void *context, unsigned thread, int command) {
    struct record *record = context;
    atomic_fetch_add(&record->runs[thread], 1);
    atomic_store(&record->last, command);
    pthread_barrier_wait(&record->pool.barrier);
    atomic_fetch_add(&record->behind_barrier, 1);
}

static void wait_done(struct pool *pool) {
    struct pollfd done = {.fd = pool->done, .events = POLLIN};
    uint64_t count;
    assert_int_equal(poll(&done, 1, -1), 1);
    assert_int_equal(read(pool->done, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
}

static void test_every_thread_runs_every_command(void **state) {
    (void)state;
    struct error error = {0};
    struct record record = {0};
    assert_int_equal(pool_open(&record.pool, THREADS, record_run, &record, &error), 0);
    for (int c = 1; c <= COMMANDS; c++) {
        pool_begin(&record.pool, c);
        wait_done(&record.pool);
        assert_int_equal(atomic_load(&record.last), c);
        assert_int_equal(atomic_load(&record.behind_barrier), c * THREADS);
        for (unsigned t = 0; t < THREADS; t++) {
            assert_int_equal(atomic_load(&record.runs[t]), c);
        }
    }
    assert_true(pool_close(&record.pool, 60000));
}

static void test_closing_without_a_command(void **state) {
    (void)state;
    struct error error = {0};
    struct record record = {0};
    assert_int_equal(pool_open(&record.pool, 1, record_run, &record, &error), 0);
    assert_true(pool_close(&record.pool, 60000));
    assert_true(pool_close(&record.pool, 60000)); /* again: nothing to do */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_thread_runs_every_command),
        cmocka_unit_test(test_closing_without_a_command),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
