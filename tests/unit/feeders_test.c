/* agileml/control/decide/feeders on simulated jobs whose best number of feeders is known. The number is found in few
 * steps, kept under jitter, and found again after feeders are lost. */
#include "agileml/control/decide/feeders.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { SEEDS = 2000, MOST = 24, THREADS = 8, TUNING = 1000, CALM = 1000, COMING = 3 };

#define JITTER 0.05

static uint64_t random_state;

/* A random number from 0 to 1. */
static double random_part(void) {
    return (double)hash_mix(random_state++) / (double)UINT64_MAX;
}

/* A job whose rate is that of the slowest of trainers, link and feeders. Rates are items a second. */
struct job {
    double trainers; /* rate of trainers that never wait */
    double link;
    double thread;    /* rate of one thread of a feeder */
    double baseline;  /* rate without feeders */
    unsigned scaling; /* number of threads up to which a feeder gets faster */
    unsigned most;    /* limit of feeders */
    unsigned all;     /* limit of all feeders' threads; 0: only THREADS for each */
    unsigned delay;   /* windows from the request for a feeder until it comes */
    bool dead;        /* no more feeders come */
    bool shares;      /* trainers make items while they wait, as in a real job, but not in the paper */
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

/* Draws a job, whose fields are as in `given` where that has no 0. Its link is no limit unless given. */
static void job_draw_as(struct job *job, uint64_t seed, struct job given) {
    job_draw(job, seed);
    job->shares = given.shares;
    job->thread = given.thread > 0 ? given.thread : job->thread;
    job->scaling = given.scaling > 0 ? given.scaling : job->scaling;
    job->link = given.link > 0 ? given.link : 1e9;
    job->baseline = given.baseline > 0 ? given.baseline : job->baseline;
    job->trainers = given.trainers > 0 ? given.trainers : job->trainers;
    job->most = given.most > 0 ? given.most : job->most;
    job->all = given.all;
}

static double feeder_rate(const struct job *job, unsigned threads) {
    return job->thread * (threads < job->scaling ? threads : job->scaling);
}

/* The rate of `feeders` feeders, limited by the link, if trainers take all items. */
static double feeders_rate(const struct job *job, unsigned feeders, unsigned threads) {
    return fmin(job->link, feeders * feeder_rate(job, threads));
}

/* An item takes trainers 1 / trainers; an item that they make themselves takes 1 / own more, in the time left. */
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

/* Whether the job ended with nearly the best rate, and with no feeder more than this rate needs. */
static bool is_best(const struct job *job, uint64_t seed) {
    double rate = rate_with(job, job->present, job->threads);
    double best = fmax(best_rate(job), job->baseline);
    double feeder = feeder_rate(job, job->scaling);
    unsigned enough = 1;
    while (enough < job->most && rate_with(job, enough, job->scaling) < best_rate(job) * (1 - 1e-9)) {
        enough++;
    }
    /* Feeders hardly change the rate: they are kept only if they gain FEEDERS_MARGIN or trainers wait. */
    bool unsure = fabs(best_rate(job) / job->baseline - 1) < (1 + FEEDERS_MARGIN) / (1 - FEEDERS_STARVED) - 1 + 0.02;
    bool wasted = job->present > enough + 1;
    /* Where the link is the limit, a last feeder that would gain less than 0.9 of its own rate is not kept. */
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

/* At most `most` jobs may end otherwise, as a feeder's gain may be below the jitter. */
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

TEST(finds_the_best_number) {
    find_the_best_number(false, 0);
}

TEST(finds_the_best_number_where_trainers_share) {
    find_the_best_number(true, SEEDS / 200);
}

/* Trainers make 100 items a second themselves, and each feeder adds 100 more. */
TEST(trainers_make_as_much_as_a_feeder) {
    struct job job;
    job_draw_as(&job, 1,
                (struct job){.shares = true, .thread = 100, .scaling = 1, .trainers = 1e6, .baseline = 100, .most = 6});
    job_run(&job, 400);
    assert_int_equal(job.present, 6);
    assert_true(fabs(rate_with(&job, 1, 1) - 200) < 1 && fabs(rate_with(&job, 6, 1) - 700) < 1);
}

/* Feeders that make almost nothing are given back, whatever the limit. */
TEST(feeders_that_make_nothing) {
    struct job job;
    job_draw_as(&job, 1, (struct job){.shares = true, .thread = 0.01, .scaling = 1, .baseline = 100});
    job_run(&job, 200);
    assert_int_equal(job.present, 0);
    assert_int_equal(job.adds, 1);
}

TEST(few_steps) {
    struct job job;
    /* 400 with 8 threads, so that 3 feeders are enough */
    job_draw_as(&job, 1, (struct job){.thread = 50, .scaling = 8, .baseline = 100});
    job_run(&job, 200);
    assert_int_equal(job.present, 3);
    assert_int_equal(job.threads, 8);
    assert_int_equal(job.actions, 1 + 3 + 2); /* the first feeder, 2, 4 and 8 threads, two more feeders */
}

/* After tuning, jitter changes nothing in any job. */
TEST(calm) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job;
        job_draw(&job, seed);
        job.shares = seed % 2 == 0;
        job_run(&job, TUNING);
        job.feeders.pause.since = job.feeders.windows; /* no repeated try is due */
        unsigned actions = job.actions;
        job_run(&job, CALM);
        assert_int_equal(job.actions, actions);
    }
}

/* A repeated try without a change ends as before, and tries get rarer. */
TEST(tries_are_bounded) {
    struct job job;
    /* a link at which the trainers still wait, whatever the number of feeders */
    job_draw_as(&job, 1, (struct job){.scaling = 1, .thread = 300, .link = 500, .baseline = 100});
    job_run(&job, 100000);
    assert_in_range(job.present, 1, 2);
    /* each try: 2 threads and back, a feeder and back */
    assert_in_range(job.actions, 4, 4 + 4 * (FEEDERS_RETRIES + 1));
    unsigned actions = job.actions;
    job_run(&job, 100000);
    assert_int_equal(job.actions, actions);
}

TEST(baseline_is_better) {
    struct job job;
    job_draw_as(&job, 1, (struct job){.scaling = 4, .thread = 100, .link = 300, .baseline = 600});
    job_run(&job, 300);
    assert_int_equal(job.present, 0);
    assert_in_range(job.actions, 2, 8);
    assert_true(fabs(job.feeders.baseline - 600) < 30);
}

/* Trainers that never wait for input get no feeder. */
TEST(nothing_to_gain) {
    struct job job;
    job_draw(&job, 1);
    job.baseline = 950;
    job_run(&job, CALM);
    assert_int_equal(job.actions, 0);
}

/* All feeders are lost at once: as many come back one at a time, and the job's rate is the same at the end. */
TEST(all_are_lost) {
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        struct job job;
        job_draw(&job, seed);
        job.shares = seed % 2 == 0;
        job_run(&job, TUNING);
        unsigned before = job.present;
        unsigned adds = job.adds;
        job.present = 0;
        job.feeders.pause.since = job.feeders.windows; /* no repeated try is due */
        job_run(&job, MOST * (2 * COMING + 4));
        assert_int_equal(job.present, before);
        assert_int_equal(job.adds, adds + before);
    }
}

/* Feeders that never come are requested a limited number of times, and again much later. */
TEST(none_come) {
    struct job job;
    job_draw_as(&job, 1, (struct job){.thread = 100, .scaling = 1, .baseline = 100});
    job_run(&job, TUNING);
    assert_in_range(job.present, 9, 11);
    unsigned before = job.present;
    unsigned adds = job.adds;
    job.present = 0;
    job.dead = true;
    job_run(&job, 4000);
    assert_in_range(job.adds, adds + 5, adds + 2 * FEEDERS_REQUESTS);
    assert_int_equal(job.feeders.state, FEEDERS_HOLD);
    assert_int_equal(job.feeders.wanted, 0); /* the job goes on without feeders */
    job.dead = false;
    job_run(&job, 20 * FEEDERS_AGAIN);
    assert_in_range(job.present, before - 1, before + 1);
}

/* Feeders die as soon as they come. */
TEST(none_stay) {
    struct job job;
    job_draw_as(&job, 2, (struct job){.thread = 100, .scaling = 1, .baseline = 100});
    for (unsigned turn = 0; turn < 3000; turn++) {
        job_run(&job, 1);
        job.present = 0;
    }
    assert_in_range(job.adds, 2, 60);
}

/* Slower trainers leave feeders idle: these are given back. Faster trainers get more feeders. */
TEST(the_job_changes) {
    struct job job;
    job_draw_as(&job, 3, (struct job){.thread = 100, .scaling = 1, .baseline = 50});
    job_run(&job, TUNING);
    assert_in_range(job.present, 9, 11);
    job.trainers = 400;
    job_run(&job, TUNING);
    assert_in_range(job.present, 4, 5);
    job.trainers = 800;
    job_run(&job, TUNING);
    assert_in_range(job.present, 7, 9);
    job.link = 20; /* now no feeder pays off */
    job_run(&job, TUNING);
    assert_int_equal(job.present, 0);
}

/* Threads are raised before another feeder is requested, and lowered before a feeder is given back. */
TEST(threads_before_feeders) {
    struct job job;
    job_draw_as(&job, 3, (struct job){.thread = 50, .scaling = THREADS, .baseline = 20, .trainers = 150});
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
    job_run(&job, 200); /* long enough for FEEDERS_WAIT and the windows of HOLD and SHRINK */
    assert_int_equal(job.actions, actions + 2);
    assert_int_equal(job.present, 2);
    assert_int_equal(job.threads, 8);
}

/* Feeders that share processors have at most as many threads as there are processors, but at least one each. */
TEST(feeders_share_processors) {
    struct job job;
    job_draw_as(&job, 1, (struct job){.thread = 20, .scaling = 2, .baseline = 10, .all = 7});
    job_run(&job, TUNING);
    assert_int_equal(job.present, 3); /* with four feeders, each would have only one thread */
    assert_int_equal(job.threads, 2);
    job_draw_as(&job, 1, (struct job){.thread = 20, .scaling = 8, .baseline = 10, .all = 7});
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
        /* Jitter of 5 % may make the job look faster than it is. */
        assert_true(rate_with(&job, job.present, job.threads) > 0.93 * job.baseline);
    }
}

/* Feeders seem idle but are needed: a feeder that was taken away comes back. */
TEST(shrinking_may_fail) {
    struct feeders feeders = {.state = FEEDERS_HOLD, .wanted = 3, .threads = 4, .pause.wait = FEEDERS_WAIT};
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
    assert_int_equal(action.act, FEEDERS_SET_THREADS); /* the threads for one feeder fewer */
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
    assert_int_equal(feeders.pause.wait, 2 * FEEDERS_WAIT);
}

/* After a change of trainers, feeders are tuned from their present number, without the earlier rate. */
TEST(other_trainers) {
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

TEST(odd_numbers) {
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
    for (unsigned w = 0; w < FEEDERS_PATIENCE; w++) { /* three feeders were added by hand */
        assert_int_equal(feeders_decide(&feeders, &view, reason).act, FEEDERS_NONE);
    }
    assert_int_equal(feeders.wanted, 3);
    assert_int_equal(feeders.threads, 2);
}
