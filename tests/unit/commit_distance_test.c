/* agileml/control/commit_distance: what windows measure, which distance follows, and when it is kept. */
#include "agileml/control/commit_distance.h"

#include "agileml/wire/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A job under one plan, with 8 clocks an iteration. */
struct job {
    struct commit_distance distance;
    struct commit_distance_clock last;
    uint32_t chosen;
    unsigned choices; /* how often there was something to choose by */
};

static struct job job_begin(void) {
    return (struct job){.last = {.version = 3, .now_us = 1000, .per_iteration = 8}};
}

/* Completes so many clocks, each after `clock_us`, an iteration's last one after `evaluate_us` more. */
static void complete(struct job *job, unsigned clocks, uint64_t clock_us, uint64_t evaluate_us) {
    for (unsigned c = 0; c < clocks; c++) {
        job->last.clock++;
        job->last.now_us += clock_us + (job->last.clock % job->last.per_iteration == 0 ? evaluate_us : 0);
        if (commit_distance_add(&job->distance, &job->last)) {
            job->choices++;
            job->chosen = commit_distance_choose(&job->distance, job->chosen);
        }
    }
}

static uint32_t chosen_for(uint64_t clock_us) {
    struct job job = job_begin();
    complete(&job, clock_us < 1000 ? 100000 : 1000, clock_us, 0);
    return job.chosen;
}

static void test_the_distance_follows_from_the_time(void **state) {
    (void)state;
    assert_int_equal(chosen_for(10), WIRE_COMMIT_EVERY_MAX);
    assert_int_equal(chosen_for(COMMIT_DISTANCE_US / 64), 64);
    assert_int_equal(chosen_for(COMMIT_DISTANCE_US / 64 + 1), 32);
    assert_int_equal(chosen_for(COMMIT_DISTANCE_US / 8), 8);
    assert_int_equal(chosen_for(COMMIT_DISTANCE_US / 8 + 1), 4);
    assert_int_equal(chosen_for(COMMIT_DISTANCE_US / 2 + 1), 1);
    assert_int_equal(chosen_for(UINT64_C(3600) * 1000 * 1000), 1);
}

/* The first clock begins the first window. Each window has two iterations here. */
static void test_three_windows_are_measured_first(void **state) {
    (void)state;
    struct job job = job_begin();
    complete(&job, 8 + 16 + 16 + 15, 20000, 0);
    assert_int_equal(job.choices, 0);
    complete(&job, 1, 20000, 0);
    assert_int_equal(job.choices, 1);
    assert_int_equal(job.chosen, 4);
}

/* Clocks that are completed within no time are measured all the same. */
static void test_a_window_takes_some_time(void **state) {
    (void)state;
    struct job job = job_begin();
    complete(&job, 500, 0, 0);
    assert_int_equal(job.choices, 0);
    complete(&job, 3000, 0, 8000); /* 1 ms a clock in all */
    assert_true(job.choices > 0);
    assert_int_equal(job.chosen, 64);
}

/* 16 clocks of 7 ms take 112 ms. The distance is kept while they take 42 to 187 ms. */
static void test_it_does_not_change_back_and_forth(void **state) {
    (void)state;
    static const uint64_t kept_us[] = {7000, 11700, 2700, 11700, 2700};
    struct job job = job_begin();
    complete(&job, 200, 7000, 0);
    assert_int_equal(job.chosen, 16);
    for (unsigned k = 0; k < sizeof kept_us / sizeof *kept_us; k++) {
        unsigned choices = job.choices;
        complete(&job, 400, kept_us[k], 0);
        assert_true(job.choices > choices);
        assert_int_equal(job.chosen, 16);
    }
    complete(&job, 400, 11800, 0); /* 189 ms, more than one and a half times as long */
    assert_int_equal(job.chosen, 8);
    complete(&job, 400, 5300, 0); /* 42.4 ms, more than a third */
    assert_int_equal(job.chosen, 8);
    complete(&job, 400, 5200, 0);
    assert_int_equal(job.chosen, 16);
}

/* A clock is measured with its part of the evaluation; a single long one, as when a process was stopped, counts for
 * nothing. */
static void test_clocks_of_different_lengths(void **state) {
    (void)state;
    struct job job = job_begin();
    complete(&job, 200, 5000, 40000); /* 10 ms a clock */
    assert_int_equal(job.chosen, 8);
    for (unsigned pause = 0; pause < 5; pause++) {
        complete(&job, 1, 60 * 1000 * 1000, 0);
        complete(&job, 63, 5000, 40000);
        assert_int_equal(job.chosen, 8);
    }
}

/* An iteration may have so many clocks that its end does not come soon. */
static void test_a_long_iteration(void **state) {
    (void)state;
    struct job job = job_begin();
    job.last.per_iteration = 1000000;
    complete(&job, 1 + 3 * COMMIT_DISTANCE_CLOCKS_MAX, 10000, 0);
    assert_int_equal(job.choices, 1);
    assert_int_equal(job.chosen, 8);
}

/* Neither while the plan changes, nor by windows in which it did. */
static void test_no_window_has_a_change(void **state) {
    (void)state;
    struct job job = job_begin();
    for (unsigned change = 0; change < 50; change++) {
        complete(&job, 14, 20000, 0);
        job.last.changing = true;
        complete(&job, 100, 20000, 0);
        job.last.changing = false;
    }
    for (unsigned change = 0; change < 50; change++) {
        complete(&job, 14, 20000, 0);
        job.last.version++;
    }
    assert_int_equal(job.choices, 0);
    complete(&job, 100, 20000, 0);
    assert_int_equal(job.chosen, 4);
}

/* What was measured under another distance does not count any more. */
static void test_another_distance_is_measured_anew(void **state) {
    (void)state;
    struct job job = job_begin();
    complete(&job, 8 + 48, 2000, 0);
    while (job.chosen == 0) {
        complete(&job, 1, 2000, 0);
    }
    assert_int_equal(job.choices, 1);
    assert_int_equal(job.distance.count, 0);
    complete(&job, 64, 30000, 0); /* 4 windows would fit in, one of them has begun before */
    assert_true(job.choices <= 3);
    assert_int_equal(job.chosen, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_distance_follows_from_the_time),
        cmocka_unit_test(test_three_windows_are_measured_first),
        cmocka_unit_test(test_a_window_takes_some_time),
        cmocka_unit_test(test_it_does_not_change_back_and_forth),
        cmocka_unit_test(test_clocks_of_different_lengths),
        cmocka_unit_test(test_a_long_iteration),
        cmocka_unit_test(test_no_window_has_a_change),
        cmocka_unit_test(test_another_distance_is_measured_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
