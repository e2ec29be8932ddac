/* agileml/control/feeders on simulated jobs whose best number of feeders is known: it is found in few steps, kept under
 * jitter, and found again when feeders are lost. */
#include "agileml/control/feeders.h"

#include "agileml/base/hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 2000, MOST = 24, THREADS = 8, TUNING = 1000, CALM = 1000, COMING = 3 };

#define JITTER 0.05

static uint64_t random_state;

/* From 0 to 1. */
static double random_part(void) {
    return (double)hash_mix(random_state++) / (double)UINT64_MAX;
}

/* A job whose rate is that of the slowest of trainers, link and feeders. Rates are items a second. */
struct job {
    double trainers; /* that never wait */
    double link;
    double thread;    /* of one feeder's thread */
    double baseline;  /* without feeders */
    unsigned scaling; /* threads of a feeder up to which it gets faster */
    unsigned most;    /* feeders that there may be */
    unsigned all;     /* threads of all feeders that there may be; 0: THREADS of each */
    unsigned delay;   /* windows until a feeder comes that was asked for */
    bool dead;        /* feeders don't come any more */
    bool shares;      /* trainers make items while they wait, as in a job; in the paper they don't */
    struct feeders feeders;
    unsigned present, threads, coming, changed;
    unsigned actions, adds;
    double jitter;
};

static void job_draw(struct job *job, uint64_t seed) {
    random_state = seed << 20;
    *job = (struct job){.trainers = 1000, .most = MOST, .jitter = JITTER};
    double feeder = 1000 / (0.3 + 17 * random_part() * random_part());
    job->scaling = 1u << (hash_mix(random_state++) % 4); /* 1 to 8 threads */
    job->thread = feeder / job->scaling;
    job->link = hash_mix(random_state++) % 3 != 0 ? 1e9 : 1000 * (0.1 + 1.2 * random_part());
    job->baseline = 1000 * (0.02 + 0.9 * random_part());
    job->delay = (unsigned)(hash_mix(random_state++) % (2 * COMING));
}

static double feeder_rate(const struct job *job, unsigned threads) {
    return job->thread * (threads < job->scaling ? threads : job->scaling);
}

/* What so many feeders bring where trainers take all. */
static double feeders_rate(const struct job *job, unsigned feeders, unsigned threads) {
    return fmin(job->link, feeders * feeder_rate(job, threads));
}

/* Trainers need 1 / trainers for an item, and 1 / own more for one that they make, in the time that is left. */
static double rate_with(const struct job *job, unsigned feeders, unsigned threads) {
    double fed = feeders_rate(job, feeders, threads);
    if (feeders == 0) {
        return job->baseline;
    }
    double own = job->shares ? 1 / (1 / job->baseline - 1 / job->trainers) : 0;
    return fmin(job->trainers, (fed + own) / (1 + own / job->trainers));
}

/* The highest rate that feeders can give. */
static double best_rate(const struct job *job) {
    return rate_with(job, job->most, job->scaling);
}

static unsigned threads_max(const struct job *job, unsigned feeders) {
    unsigned each = job->all > 0 && feeders > 0 ? job->all / feeders : THREADS;
    return each > THREADS ? THREADS : each > 0 ? each : 1;
}

static struct feeders_view view_of(const struct job *job) {
    double rate = rate_with(job, job->present, job->threads);
    double made = job->present * feeder_rate(job, job->threads);
    double fed = fmin(rate, feeders_rate(job, job->present, job->threads));
    double noise = 1 + job->jitter * (2 * random_part() - 1);
    double waiting = 1 + job->jitter * (2 * random_part() - 1);
    return (struct feeders_view){.feeders = job->present,
                                 .feeders_max = job->most,
                                 .coming = job->coming > 0,
                                 .threads = job->threads,
                                 .threads_max = threads_max(job, job->present),
                                 .threads_next = threads_max(job, job->present + 1),
                                 .changed = job->changed > 0,
                                 .rate = rate * noise,
                                 .starved = fmin((1 - rate / job->trainers) * waiting, 1),
                                 .busy = made > 0 ? fmin(fed / made * waiting, 1) : 0,
                                 .fed = fed / rate};
}

static void act(struct job *job, struct feeders_action action) {
    job->actions++;
    job->changed = 2;
    switch (action.act) {
    case FEEDERS_ADD:
        job->adds++;
        job->coming = job->dead ? 0 : 1 + job->delay;
        break;
    case FEEDERS_REMOVE:
        assert_true(job->present > action.feeders);
        job->present = action.feeders;
        break;
    case FEEDERS_BASELINE:
        job->present = 0;
        break;
    default:
        break;
    }
    job->threads = action.threads;
}

static void job_run(struct job *job, unsigned windows) {
    for (unsigned w = 0; w < windows; w++) {
        char reason[FEEDERS_REASON];
        struct feeders_view view = view_of(job);
        struct feeders_action action = feeders_decide(&job->feeders, &view, reason);
        job->changed -= job->changed > 0 ? 1 : 0;
        if (job->coming > 0 && --job->coming == 0) {
            job->present++;
            job->changed = 1;
        }
        assert_true(action.act == FEEDERS_NONE || reason[0] != 0);
        if (action.act != FEEDERS_NONE) {
            assert_int_equal(job->coming, 0); /* one at a time */
            act(job, action);
        }
    }
}

/* Whether a job ended as it should: with nearly the best rate, and no feeder more than that needs. */
static bool is_best(const struct job *job, uint64_t seed) {
    double rate = rate_with(job, job->present, job->threads);
    double best = fmax(best_rate(job), job->baseline);
    double feeder = feeder_rate(job, job->scaling);
    unsigned enough = 1;
    while (enough < job->most && rate_with(job, enough, job->scaling) < best_rate(job) * (1 - 1e-9)) {
        enough++;
    }
    /* Feeders or not is much the same: they have to win by FEEDERS_MARGIN when trainers hardly wait. */
    bool unsure = fabs(best_rate(job) / job->baseline - 1) < (1 + FEEDERS_MARGIN) / (1 - FEEDERS_STARVED) - 1 + 0.02;
    bool wasted = job->present > enough + 1;
    /* A last feeder that would gain less than 0.9 of its own rate is not kept where the link is the limit. */
    double last = job->link < job->trainers ? feeder : 0;
    if (wasted || (!unsure && rate < best * (1 - FEEDERS_STARVED - 0.02) - last)) {
        print_error(
            "seed %llu: %u feeders of %u threads, %g items a second; best %g, baseline %g, %u of %g, %u threads\n",
            (unsigned long long)seed, job->present, job->threads, rate, best, job->baseline, enough, feeder,
            job->scaling);
        return false;
    }
    return true;
}

/* `most`: jobs that may end otherwise, as a feeder's gain may be less than the jitter. */
static void find_the_best_number(bool shares, unsigned most) {
    unsigned wrong = 0;
    unsigned with = 0;
    unsigned without = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        job_draw(&job, seed);
        job.shares = shares;
        job_run(&job, TUNING);
        wrong += is_best(&job, seed) ? 0 : 1;
        with += job.present > 0;
        without += job.present == 0;
        unsigned threads = 4; /* doublings to 8 threads, and a step back */
        assert_in_range(job.actions, 0, MOST + 1 + threads + 1);
    }
    assert_in_range(wrong, 0, most);
    assert_true(with > SEEDS / 4 && without > SEEDS / 20);
}

static void test_finds_the_best_number(void **state) {
    (void)state;
    find_the_best_number(false, 0);
}

static void test_finds_the_best_number_where_trainers_share(void **state) {
    (void)state;
    find_the_best_number(true, SEEDS / 200);
}

/* Trainers that make 100 items a second themselves, and feeders that are as fast: each adds a hundred. */
static void test_trainers_make_as_much_as_a_feeder(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.shares = true;
    job.thread = 100;
    job.scaling = 1;
    job.link = 1e9;
    job.trainers = 1e6;
    job.baseline = 100;
    job.most = 6;
    job_run(&job, 400);
    assert_int_equal(job.present, 6);
    assert_true(fabs(rate_with(&job, 1, 1) - 200) < 1 && fabs(rate_with(&job, 6, 1) - 700) < 1);
}

/* Feeders that make hardly anything are given back, however many there may be. */
static void test_feeders_that_make_nothing(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.shares = true;
    job.thread = 0.01;
    job.scaling = 1;
    job.link = 1e9;
    job.baseline = 100;
    job_run(&job, 200);
    assert_int_equal(job.present, 0);
    assert_int_equal(job.adds, 1);
}

static void test_few_steps(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.thread = 50; /* 8 threads: 400, so that 3 feeders are enough */
    job.scaling = 8;
    job.link = 1e9;
    job.baseline = 100;
    job_run(&job, 200);
    assert_int_equal(job.present, 3);
    assert_int_equal(job.threads, 8);
    assert_int_equal(job.actions, 1 + 3 + 2); /* the first, 2, 4 and 8 threads, two more */
}

/* After tuning nothing changes under jitter, whatever the job is like. */
static void test_calm(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        job_draw(&job, seed);
        job.shares = seed % 2 == 0;
        job_run(&job, TUNING);
        job.feeders.since = job.feeders.windows; /* no repeated try is due */
        unsigned actions = job.actions;
        job_run(&job, CALM);
        assert_int_equal(job.actions, actions);
    }
}

/* Where a try is repeated though nothing has changed, it ends as before, and tries get rarer. */
static void test_tries_are_bounded(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.scaling = 1;
    job.thread = 300;
    job.link = 500; /* the trainers go on waiting, whatever feeders do */
    job.baseline = 100;
    job_run(&job, 100000);
    assert_in_range(job.present, 1, 2);
    assert_in_range(job.actions, 4, 4 + 4 * (FEEDERS_RETRIES + 1)); /* 2 threads and back, a feeder and back */
    unsigned actions = job.actions;
    job_run(&job, 100000);
    assert_int_equal(job.actions, actions);
}

static void test_baseline_is_better(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.scaling = 4;
    job.thread = 100;
    job.link = 300;
    job.baseline = 600;
    job_run(&job, 300);
    assert_int_equal(job.present, 0);
    assert_in_range(job.actions, 2, 8);
    assert_true(fabs(job.feeders.baseline - 600) < 30);
}

/* Trainers that never wait for input get no feeder at all. */
static void test_nothing_to_gain(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.baseline = 950;
    job_run(&job, CALM);
    assert_int_equal(job.actions, 0);
}

/* All feeders are lost at once: as many come back, one at a time, and the job ends with the same. */
static void test_all_are_lost(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        struct job job;
        job_draw(&job, seed);
        job.shares = seed % 2 == 0;
        job_run(&job, TUNING);
        unsigned before = job.present;
        unsigned adds = job.adds;
        job.present = 0;
        job.feeders.since = job.feeders.windows; /* no repeated try is due */
        job_run(&job, MOST * (2 * COMING + 4));
        assert_int_equal(job.present, before);
        assert_int_equal(job.adds, adds + before);
    }
}

/* Feeders that don't come are asked for a bounded number of times, and again much later. */
static void test_none_come(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.thread = 100;
    job.scaling = 1;
    job.link = 1e9;
    job.baseline = 100;
    job_run(&job, TUNING);
    assert_in_range(job.present, 9, 11);
    unsigned before = job.present;
    unsigned adds = job.adds;
    job.present = 0;
    job.dead = true;
    job_run(&job, 4000);
    assert_in_range(job.adds, adds + 5, adds + 2 * FEEDERS_REQUESTS);
    assert_int_equal(job.feeders.state, FEEDERS_HOLD);
    assert_int_equal(job.feeders.wanted, 0); /* the job makes do without */
    job.dead = false;
    job_run(&job, 20 * FEEDERS_AGAIN);
    assert_in_range(job.present, before - 1, before + 1);
}

/* Feeders that die as soon as they come. */
static void test_none_stay(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 2);
    job.thread = 100;
    job.scaling = 1;
    job.link = 1e9;
    job.baseline = 100;
    for (unsigned turn = 0; turn < 3000; turn++) {
        job_run(&job, 1);
        job.present = 0;
    }
    assert_in_range(job.adds, 2, 60);
}

/* Trainers became slower: feeders that have nothing to do are given back; and faster: more come. */
static void test_the_job_changes(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 3);
    job.thread = 100;
    job.scaling = 1;
    job.link = 1e9;
    job.baseline = 50;
    job_run(&job, TUNING);
    assert_in_range(job.present, 9, 11);
    job.trainers = 400;
    job_run(&job, TUNING);
    assert_in_range(job.present, 4, 5);
    job.trainers = 800;
    job_run(&job, TUNING);
    assert_in_range(job.present, 7, 9);
    job.link = 20; /* now no feeder pays */
    job_run(&job, TUNING);
    assert_int_equal(job.present, 0);
}

/* Threads are raised before another feeder is asked for, and tried lower before one is given back. */
static void test_threads_before_feeders(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 3);
    job.thread = 50;
    job.scaling = THREADS;
    job.link = 1e9;
    job.baseline = 20;
    job.trainers = 150;
    job_run(&job, TUNING);
    assert_int_equal(job.present, 1);
    assert_int_equal(job.threads, 4);
    job.trainers = 380;
    job_run(&job, TUNING);
    assert_int_equal(job.adds, 1);
    assert_int_equal(job.threads, 8);
    job.trainers = 1000;
    job_run(&job, TUNING);
    assert_int_equal(job.present, 3);
    assert_int_equal(job.threads, 8);
    unsigned actions = job.actions;
    job.trainers = 600;
    job_run(&job, 200); /* FEEDERS_WAIT, blocks of HOLD and of SHRINK */
    assert_int_equal(job.actions, actions + 2);
    assert_int_equal(job.present, 2);
    assert_int_equal(job.threads, 8);
}

/* Feeders that share processors never have more threads than these; with fewer processors than feeders one each. */
static void test_feeders_share_processors(void **state) {
    (void)state;
    struct job job;
    job_draw(&job, 1);
    job.thread = 20;
    job.scaling = 2;
    job.link = 1e9;
    job.baseline = 10;
    job.all = 7;
    job_run(&job, TUNING);
    assert_int_equal(job.present, 3); /* four would have a thread each */
    assert_int_equal(job.threads, 2);
    job_draw(&job, 1);
    job.thread = 20;
    job.scaling = 8;
    job.link = 1e9;
    job.baseline = 10;
    job.all = 7;
    job_run(&job, TUNING);
    assert_int_equal(job.present, 1);
    assert_int_equal(job.threads, 7);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        job_draw(&job, seed);
        job.shares = seed % 2 == 0;
        job.all = 1 + (unsigned)(seed / 2 % (2 * THREADS));
        for (unsigned w = 0; w < TUNING / 2; w++) {
            job_run(&job, 1);
            unsigned most = job.all > job.feeders.wanted ? job.all : job.feeders.wanted;
            assert_in_range(job.feeders.wanted * job.feeders.threads, 0, most);
        }
        /* With jitter of 5 % the job may be taken for faster than it is. */
        assert_true(rate_with(&job, job.present, job.threads) > 0.93 * job.baseline);
    }
}

/* Feeders that seem idle and are needed all the same: one that was taken away comes back. */
static void test_shrinking_may_fail(void **state) {
    (void)state;
    struct feeders feeders = {.state = FEEDERS_HOLD, .wanted = 3, .threads = 4, .wait = FEEDERS_WAIT};
    char reason[FEEDERS_REASON];
    struct feeders_view view = {.feeders = 3,
                                .feeders_max = 8,
                                .threads = 4,
                                .threads_max = 4,
                                .threads_next = 4,
                                .rate = 100,
                                .starved = 0.01,
                                .busy = 0.4,
                                .fed = 1};
    struct feeders_action action = {0};
    unsigned windows = 0;
    for (; windows < 100 && action.act == FEEDERS_NONE; windows++) {
        action = feeders_decide(&feeders, &view, reason);
    }
    assert_int_equal(action.act, FEEDERS_SET_THREADS); /* as if there were one fewer */
    assert_int_equal(action.threads, 2);
    assert_int_equal(action.feeders, 3);
    assert_string_equal(reason, "feeders are busy for 40 % of their time: 2 threads instead of 4 are tried");
    view.threads = 2;
    action.act = FEEDERS_NONE;
    for (windows = 0; windows < 100 && action.act == FEEDERS_NONE; windows++) {
        action = feeders_decide(&feeders, &view, reason);
    }
    assert_int_equal(action.act, FEEDERS_REMOVE);
    assert_int_equal(action.threads, 4);
    view.feeders = 2;
    view.threads = 4;
    view.rate = 80;
    view.starved = 0.2;
    action.act = FEEDERS_NONE;
    for (windows = 0; windows < 100 && action.act == FEEDERS_NONE; windows++) {
        action = feeders_decide(&feeders, &view, reason);
    }
    assert_int_equal(action.act, FEEDERS_ADD);
    assert_string_equal(reason, "with one feeder fewer 80 items a second instead of 100: it comes back");
    assert_int_equal(feeders.wait, 2 * FEEDERS_WAIT);
}

/* With other trainers, feeders are tuned from those that are there, whatever the rate was before. */
static void test_other_trainers(void **state) {
    (void)state;
    struct feeders feeders = {.state = FEEDERS_HOLD, .wanted = 2, .threads = 1, .baseline = 1000, .seen = 2};
    struct feeders_view view = {.feeders = 2,
                                .feeders_max = 4,
                                .threads = 1,
                                .threads_max = 1,
                                .threads_next = 1,
                                .rate = 100,
                                .starved = 0.5,
                                .busy = 1,
                                .fed = 1};
    char reason[FEEDERS_REASON];
    feeders_begin_anew(&feeders);
    for (unsigned w = 0; w + 1 < FEEDERS_WINDOWS; w++) {
        assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    }
    struct feeders_action action = feeders_decide(&feeders, &view, reason);
    assert_int_equal(action.act, FEEDERS_ADD);
    assert_int_equal(action.feeders, 3);
    feeders = (struct feeders){.state = FEEDERS_HOLD, .baseline = 1000};
    feeders_begin_anew(&feeders);
    view.feeders = 0;
    for (unsigned w = 0; w + 1 < FEEDERS_WINDOWS; w++) {
        assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    }
    assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_ADD);
    assert_true(feeders.baseline == 100);
}

static void test_odd_numbers(void **state) {
    (void)state;
    struct feeders feeders = {0};
    char reason[FEEDERS_REASON];
    struct feeders_view view = {.feeders_max = 4, .threads_max = 4, .rate = NAN, .starved = 0.5};
    for (unsigned w = 0; w < 100; w++) {
        assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    }
    view.rate = 100;
    view.starved = 2;
    assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    assert_int_equal(feeders.run.count, 0);
    view = (struct feeders_view){.feeders = 3, .feeders_max = 4, .threads = 2, .threads_max = 4, .rate = 100};
    for (unsigned w = 0; w < FEEDERS_PATIENCE; w++) { /* somebody has added three */
        assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    }
    assert_int_equal(feeders.wanted, 3);
    assert_int_equal(feeders.threads, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_the_best_number),
        cmocka_unit_test(test_finds_the_best_number_where_trainers_share),
        cmocka_unit_test(test_trainers_make_as_much_as_a_feeder),
        cmocka_unit_test(test_feeders_that_make_nothing),
        cmocka_unit_test(test_few_steps),
        cmocka_unit_test(test_calm),
        cmocka_unit_test(test_tries_are_bounded),
        cmocka_unit_test(test_baseline_is_better),
        cmocka_unit_test(test_nothing_to_gain),
        cmocka_unit_test(test_all_are_lost),
        cmocka_unit_test(test_none_come),
        cmocka_unit_test(test_none_stay),
        cmocka_unit_test(test_the_job_changes),
        cmocka_unit_test(test_threads_before_feeders),
        cmocka_unit_test(test_feeders_share_processors),
        cmocka_unit_test(test_shrinking_may_fail),
        cmocka_unit_test(test_other_trainers),
        cmocka_unit_test(test_odd_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
