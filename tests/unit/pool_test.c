/* workers/process/pool.c: every thread runs every command once, the descriptor reports the end, and closing ends the
 * threads. In a command led by thread 0 every thread runs every part once, whether it spun or slept before. */
#include "tests/test.h"
#include "workers/process/pool.h"

#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 5, COMMANDS = 200, MEETINGS = 10 /* in each command */ };

struct record {
    struct pool pool;
    atomic_uint runs[THREADS];
    atomic_int last;
    atomic_uint have_come, have_met;
    atomic_bool early; /* a thread left the meeting before all had come */
};

static void record_run(void *context, unsigned thread, int command) {
    struct record *record = context;
    atomic_fetch_add(&record->runs[thread], 1);
    atomic_store(&record->last, command);
    unsigned meetings = (atomic_load(&record->runs[thread]) - 1) * MEETINGS; /* meetings before this command */
    for (unsigned m = 0; m < MEETINGS; m++) {
        atomic_fetch_add(&record->have_come, 1);
        pool_meet(&record->pool);
        if (atomic_load(&record->have_come) < ++meetings * record->pool.threads) {
            atomic_store(&record->early, true);
        }
    }
    atomic_fetch_add(&record->have_met, 1);
}

static void wait_done(struct pool *pool) {
    struct pollfd done = {.fd = pool->done, .events = POLLIN};
    uint64_t count;
    assert_int_equal(poll(&done, 1, -1), 1);
    assert_int_equal(read(pool->done, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
}

TEST(every_thread_runs_every_command) {
    static const unsigned spins[] = {0, 10, POOL_SPINS};
    for (unsigned s = 0; s < sizeof spins / sizeof spins[0]; s++) {
        struct error error = {0};
        struct record record = {0};
        assert_int_equal(pool_open(&record.pool, THREADS, record_run, &record, &error), 0);
        record.pool.team.spins = spins[s]; /* effective from the first command on */
        for (int c = 1; c <= COMMANDS; c++) {
            pool_begin(&record.pool, c);
            wait_done(&record.pool);
            assert_int_equal(atomic_load(&record.last), c);
            assert_int_equal(atomic_load(&record.have_met), c * THREADS);
            assert_false(atomic_load(&record.early));
            for (unsigned t = 0; t < THREADS; t++) {
                assert_int_equal(atomic_load(&record.runs[t]), c);
            }
        }
        assert_true(pool_close(&record.pool, 60000));
    }
}

static void count_run(void *context, unsigned thread, int command) {
    struct record *record = context;
    atomic_fetch_add(&record->runs[thread], 1);
}

/* Commands for more and for fewer threads, in any order: participating threads run them once, others never. */
TEST(some_threads_run_a_command) {
    struct error error = {0};
    struct record record = {0};
    unsigned expected[THREADS] = {0};
    assert_int_equal(pool_open(&record.pool, THREADS, count_run, &record, &error), 0);
    for (unsigned c = 1; c <= COMMANDS; c++) {
        unsigned threads = 1 + c * c % THREADS;
        if (c % 7 == 0) {
            threads = THREADS;
            pool_begin(&record.pool, (int)c);
        } else {
            pool_begin_some(&record.pool, (int)c, threads);
        }
        wait_done(&record.pool);
        for (unsigned t = 0; t < THREADS; t++) {
            expected[t] += t < threads ? 1 : 0;
            assert_int_equal(atomic_load(&record.runs[t]), expected[t]);
        }
    }
    pool_begin_some(&record.pool, 0, 1); /* closing also ends sleeping threads */
    wait_done(&record.pool);
    assert_true(pool_close(&record.pool, 60000));
}

/* The last thread starts the next command itself; the descriptor reports only the last command. */
static bool record_handle_end(void *context) {
    struct record *record = context;
    int next = atomic_load(&record->last) + 1;
    if (next > COMMANDS) {
        return false;
    }
    pool_begin(&record->pool, next);
    return true;
}

TEST(the_last_thread_goes_on) {
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
        struct error error = {0};
        struct record record = {0};
        assert_int_equal(pool_open(&record.pool, threads, record_run, &record, &error), 0);
        record.pool.handle_end = record_handle_end;
        pool_begin(&record.pool, 1);
        wait_done(&record.pool);
        assert_int_equal(atomic_load(&record.last), COMMANDS);
        assert_int_equal(atomic_load(&record.have_met), COMMANDS * threads);
        assert_false(atomic_load(&record.early));
        assert_true(pool_close(&record.pool, 60000));
    }
}

/* A thread that returns after the pool was abandoned must not use it. */
struct late {
    struct pool pool;
    atomic_bool running, released, went_on;
};

static void late_run(void *context, unsigned thread, int command) {
    struct late *late = context;
    atomic_store(&late->running, true);
    while (!atomic_load(&late->released)) {
        usleep(100);
    }
}

static bool late_handle_end(void *context) {
    struct late *late = context;
    atomic_store(&late->went_on, true);
    return false;
}

TEST(a_thread_that_is_late_does_not_go_on) {
    struct error error = {0};
    struct late late = {0};
    assert_int_equal(pool_open(&late.pool, 1, late_run, &late, &error), 0);
    late.pool.handle_end = late_handle_end;
    pool_begin(&late.pool, 1);
    while (!atomic_load(&late.running)) {
        usleep(100);
    }
    assert_false(pool_close(&late.pool, 1));
    atomic_store(&late.released, true);
    wait_done(&late.pool);
    assert_false(atomic_load(&late.went_on));
    assert_true(pool_close(&late.pool, 60000));
}

TEST(closing_without_a_command) {
    struct error error = {0};
    struct record record = {0};
    assert_int_equal(pool_open(&record.pool, 1, record_run, &record, &error), 0);
    assert_true(pool_close(&record.pool, 60000));
    assert_true(pool_close(&record.pool, 60000)); /* a second close has no effect */
}

/* ---- Leading ---- */

enum { CALLS = 300, PAUSE_US = 300 /* longer than threads spin */ };

struct team {
    struct pool pool;
    unsigned parts[THREADS]; /* each written by its thread, and read by the leader between calls */
    unsigned wrong;          /* threads with too few or too many parts after a call */
    unsigned pause_us;
};

static void team_part(void *context, unsigned thread, unsigned threads) {
    struct team *team = context;
    team->parts[thread] += threads == team->pool.threads ? 1 : 0;
}

static void team_run(void *context, unsigned thread, int command) {
    struct team *team = context;
    if (thread > 0) {
        pool_help(&team->pool, thread);
        return;
    }
    for (unsigned c = 1; c <= CALLS; c++) {
        pool_parallel(&team->pool, team_part, team);
        for (unsigned t = 0; t < team->pool.threads; t++) {
            team->wrong += team->parts[t] == (unsigned)(command - 1) * CALLS + c ? 0 : 1;
        }
        if (c % 16 == 0 && team->pause_us > 0) {
            usleep(team->pause_us);
        }
    }
    pool_dismiss(&team->pool);
}

static void check_team(unsigned threads, unsigned spins, unsigned pause_us) {
    struct error error = {0};
    struct team team = {.pause_us = pause_us};
    assert_int_equal(pool_open(&team.pool, threads, team_run, &team, &error), 0);
    team.pool.team.spins = spins; /* effective from the first command on */
    for (int c = 1; c <= 20; c++) {
        pool_begin(&team.pool, c);
        wait_done(&team.pool);
    }
    assert_int_equal(team.wrong, 0);
    assert_true(pool_close(&team.pool, 60000));
}

TEST(a_team_runs_every_part_once) {
    check_team(1, POOL_SPINS, 0);
    check_team(2, POOL_SPINS, PAUSE_US);
    check_team(THREADS, 10, 0);
    check_team(THREADS, 0, PAUSE_US);
}
