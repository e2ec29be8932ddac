/* agileml/control/cut: the chosen cut beside all cuts, on random trees and other pipelines; trials by measured
 * rates. */
#include "agileml/control/cut.h"
#include "agileml/control/cut_trials.h"

#include "agileml/base/hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEEDS = 3000, STAGES = 10, WINDOWS = 1000 };

static uint64_t random_state;

/* From 0 to 1. */
static double random_part(void) {
    return (double)hash_mix(random_state++) / (double)UINT64_MAX;
}

static unsigned random_below(unsigned bound) {
    return (unsigned)(hash_mix(random_state++) % bound);
}

/* From 1 to 1000, each decade as likely. */
static double random_cost(void) {
    return pow(10, 3 * random_part());
}

struct pipeline {
    struct cut_tree tree;
    struct cut_machines machines;
    struct cut_stage stages[CUT_STAGES];
};

/* A random pipeline: a tree, where each stage reads from at most one, or any graph. Some costs are 0. */
static void draw(struct pipeline *pipeline, uint64_t seed, size_t count, bool tree) {
    random_state = seed << 20;
    *pipeline = (struct pipeline){.tree = {.stages = pipeline->stages, .count = count}};
    for (size_t s = 0; s < count; s++) {
        struct cut_stage *stage = &pipeline->stages[s];
        *stage = (struct cut_stage){.us = random_below(8) == 0 ? 0 : random_cost(),
                                    .bytes = random_below(8) == 0 ? 0 : random_cost(),
                                    .state = random_below(6) == 0};
        for (unsigned reads = tree ? 1 : random_below(3); s > 0 && reads > 0; reads--) {
            stage->from |= random_below(6) == 0 ? 0 : (cut_set)1 << random_below((unsigned)s);
        }
    }
    pipeline->machines = (struct cut_machines){.trainer_cpus = 1 + random_below(8),
                                               .feeder_cpus = 1 + random_below(4),
                                               .feeders = random_below(10) == 0 ? 0 : 1 + random_below(12),
                                               .link_bytes_us = random_below(4) == 0 ? INFINITY : random_cost() / 10,
                                               .receive_us = random_below(2) == 0 ? 0 : random_part() / 100,
                                               .send_us = random_below(2) == 0 ? 0 : random_part() / 100};
}

/* Written apart from cut.c: the time of a cut, or INFINITY if it is none. */
static double plain_time(const struct pipeline *pipeline, cut_set feeders) {
    const struct cut_machines *machines = &pipeline->machines;
    double trainer = 0;
    double work = 0;
    double bytes = 0;
    for (size_t s = 0; s < pipeline->tree.count; s++) {
        const struct cut_stage *stage = &pipeline->stages[s];
        bool at_feeders = (feeders >> s & 1) != 0;
        bool read_by_trainer = false;
        *(at_feeders ? &work : &trainer) += stage->us;
        if (at_feeders && (stage->state || (stage->from & ~feeders) != 0 || machines->feeders == 0)) {
            return INFINITY;
        }
        for (size_t r = s + 1; r < pipeline->tree.count; r++) {
            read_by_trainer = read_by_trainer || ((pipeline->stages[r].from >> s & 1) != 0 && (feeders >> r & 1) == 0);
        }
        bytes += at_feeders && read_by_trainer ? stage->bytes : 0;
    }
    double time = (trainer + bytes * machines->receive_us) / machines->trainer_cpus;
    time = fmax(time, bytes / machines->link_bytes_us);
    return feeders == 0 ? time
                        : fmax(time, (work + bytes * machines->send_us) / machines->feeder_cpus / machines->feeders);
}

static double brute_force(const struct pipeline *pipeline) {
    double best = INFINITY;
    for (cut_set feeders = 0; feeders < (cut_set)1 << pipeline->tree.count; feeders++) {
        best = fmin(best, plain_time(pipeline, feeders));
    }
    return best;
}

static void check_best(const struct pipeline *pipeline, uint64_t seed) {
    struct cut cut;
    struct error error = {0};
    assert_int_equal(cut_choose(&pipeline->tree, &pipeline->machines, &cut, &error), 0);
    double best = brute_force(pipeline);
    double time = plain_time(pipeline, cut.feeders);
    if (time > best * (1 + 2 * CUT_TOLERANCE) || fabs(time - cut.time_us) > 1e-9 * time || cut.bound_us > best ||
        cut.bound_us < best * (1 - 2 * CUT_TOLERANCE)) {
        fail_msg("seed %llu: cut %llx takes %g us (said: %g, bound %g), the best one %g", (unsigned long long)seed,
                 (unsigned long long)cut.feeders, time, cut.time_us, cut.bound_us, best);
    }
    assert_true(cut_possible(&pipeline->tree, cut.feeders));
}

static void test_best_of_all_cuts(void **state) {
    (void)state;
    unsigned cut = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct pipeline pipeline;
        draw(&pipeline, seed, 1 + seed % STAGES, seed % 4 != 0);
        check_best(&pipeline, seed);
        struct cut best;
        cut_choose(&pipeline.tree, &pipeline.machines, &best, NULL);
        cut += best.feeders != 0;
    }
    assert_true(cut > SEEDS / 4); /* most pipelines gain something */
}

/* What may be at feeders, by the definition: no state above it. */
static void test_algorithm_1(void **state) {
    (void)state;
    /*            0: parse -> 1: hash -> 3: look up (state) -> 4: scale
     *                     -> 2: labels                     */
    struct cut_stage stages[] = {
        {.us = 1}, {.from = 1, .us = 1}, {.from = 1, .us = 1}, {.from = 2, .state = true}, {.from = 8, .us = 1}};
    struct cut_tree tree = {stages, 5};
    assert_int_equal(cut_stateless(&tree), 7);
    assert_true(cut_possible(&tree, 0));
    assert_true(cut_possible(&tree, 5));
    assert_false(cut_possible(&tree, 2));  /* without what it reads */
    assert_false(cut_possible(&tree, 23)); /* behind a state */
    stages[0].state = true;
    assert_int_equal(cut_stateless(&tree), 0);
}

/* A resnet in numbers: decoding pays although images become larger, until the link is the limit. */
static void test_where_the_link_decides(void **state) {
    (void)state;
    const struct cut_stage stages[] = {{.us = 10, .bytes = 110e3},              /* read */
                                       {.from = 1, .us = 6000, .bytes = 150e3}, /* decode, crop */
                                       {.from = 2, .us = 2000, .bytes = 600e3}, /* augment, to floats */
                                       {.from = 4, .us = 800, .state = true}};  /* train */
    const struct cut_tree tree = {stages, 4};
    struct cut_machines machines = {.trainer_cpus = 1, .feeder_cpus = 8, .feeders = 4, .link_bytes_us = 1250};
    struct cut cut;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), 0);
    assert_int_equal(cut.feeders, 7);
    machines.link_bytes_us = 125;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), 0);
    assert_int_equal(cut.feeders, 3);
    machines.link_bytes_us = 10;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), 0);
    assert_int_equal(cut.feeders, 0);
    machines.feeders = 0;
    machines.link_bytes_us = 1250;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), 0);
    assert_int_equal(cut.feeders, 0);
}

/* An output that two stages at the trainer read is sent once. */
static void test_an_output_is_sent_once(void **state) {
    (void)state;
    const struct cut_stage stages[] = {{.us = 5, .bytes = 100}, {.from = 1, .state = true}, {.from = 1, .state = true}};
    const struct cut_tree tree = {stages, 3};
    const struct cut_machines machines = {.trainer_cpus = 1, .feeder_cpus = 1, .feeders = 1, .link_bytes_us = 50};
    struct cut_cost cost = cut_cost(&tree, &machines, 1);
    assert_true(fabs(cost.link_us - 2) < 1e-12);
}

/* Forty-eight stages side by side, of which half are to be at feeders: the search ends by its limit, if at all, with a
 * cut that is provably nearly the best. */
static void test_many_stages(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct pipeline pipeline;
        draw(&pipeline, seed, CUT_STAGES, true);
        for (size_t s = 0; s < CUT_STAGES; s++) {
            pipeline.stages[s].from = s < CUT_STAGES / 2 ? 0 : (cut_set)1 << (s - CUT_STAGES / 2);
            pipeline.stages[s].state = s >= CUT_STAGES / 2;
        }
        pipeline.machines =
            (struct cut_machines){.trainer_cpus = 2, .feeder_cpus = 1, .feeders = 2, .link_bytes_us = 2};
        struct cut cut;
        assert_int_equal(cut_choose(&pipeline.tree, &pipeline.machines, &cut, NULL), 0);
        assert_true(cut.time_us <= cut.bound_us * 1.01);
    }
}

static void test_candidates(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 4; seed++) {
        struct pipeline pipeline;
        struct cut cuts[CUT_CANDIDATES];
        size_t count = 0;
        draw(&pipeline, seed, 1 + seed % STAGES, true);
        assert_int_equal(cut_candidates(&pipeline.tree, &pipeline.machines, cuts, &count, NULL), 0);
        assert_in_range(count, 1, CUT_CANDIDATES);
        bool alone = false;
        for (size_t c = 0; c < count; c++) {
            alone = alone || cuts[c].feeders == 0;
            assert_true(cut_possible(&pipeline.tree, cuts[c].feeders));
            assert_true(c == 0 || cuts[c].time_us >= cuts[c - 1].time_us);
            for (size_t other = 0; other < c; other++) {
                assert_true(cuts[other].feeders != cuts[c].feeders);
            }
        }
        assert_true(alone);
        assert_true(cuts[0].time_us <= brute_force(&pipeline) * (1 + 2 * CUT_TOLERANCE));
    }
}

static void test_bad_numbers(void **state) {
    (void)state;
    struct cut_stage stages[] = {{.us = 1, .bytes = 1}, {.from = 1, .us = 1}};
    struct cut_tree tree = {stages, 2};
    struct cut_machines machines = {.trainer_cpus = 1, .feeder_cpus = 1, .feeders = 1, .link_bytes_us = 1};
    struct error error = {0};
    struct cut cut;
    assert_int_equal(cut_check(&tree, &machines, &error), 0);
    stages[1].from = 2;
    assert_int_equal(cut_choose(&tree, &machines, &cut, &error), AML_EINPUT);
    assert_string_equal(error.text, "cut: stage 1 reads from itself or from a later stage");
    stages[1].from = 1;
    stages[1].us = NAN;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), AML_EINPUT);
    stages[1].us = -1;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), AML_EINPUT);
    stages[1].us = 1;
    machines.link_bytes_us = 0;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), AML_EINPUT);
    machines.link_bytes_us = 1;
    tree.count = 0;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), AML_EINPUT);
    tree.count = CUT_STAGES + 1;
    assert_int_equal(cut_choose(&tree, &machines, &cut, NULL), AML_EINPUT);
}

/* ---- Trials ---- */

/* Runs windows of trials in which candidate c has the rate rates[c], with 5 % of jitter. Returns how often the wanted
 * cut changed; sets `stale` to how often costs were. */
static unsigned run_trials(struct cut_trials *trials, const double *rates, unsigned windows, unsigned *stale) {
    unsigned changes = 0;
    for (unsigned w = 0; w < windows; w++) {
        const struct cut *wanted = cut_trials_wanted(trials);
        double rate = rates[wanted - trials->cuts] * (1 + 0.05 * (2 * random_part() - 1));
        *stale += cut_trials_add(trials, wanted->feeders, rate);
        changes += cut_trials_wanted(trials) != wanted;
    }
    return changes;
}

static void test_trials_keep_the_fastest(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        const struct cut cuts[CUT_CANDIDATES] = {{.feeders = 3}, {.feeders = 1}, {.feeders = 7}, {.feeders = 0}};
        double rates[CUT_CANDIDATES];
        double best = 0;
        unsigned stale = 0;
        struct cut_trials trials = {0};
        random_state = seed << 20;
        for (unsigned c = 0; c < CUT_CANDIDATES; c++) {
            rates[c] = random_cost();
            best = fmax(best, rates[c]);
        }
        cut_trials_begin(&trials, cuts, CUT_CANDIDATES);
        assert_in_range(run_trials(&trials, rates, CUT_CANDIDATES * CUT_TRIALS_SAMPLES, &stale), 0, CUT_CANDIDATES);
        assert_true(rates[trials.best] >= best / (1 + 2 * CUT_TRIALS_MARGIN));
        assert_int_equal(run_trials(&trials, rates, WINDOWS, &stale), 0); /* calm */
        assert_int_equal(stale, 0);
    }
}

static void test_costs_become_stale(void **state) {
    (void)state;
    const struct cut cuts[] = {{.feeders = 3}, {.feeders = 0}};
    double rates[] = {100, 50};
    unsigned stale = 0;
    struct cut_trials trials = {0};
    random_state = 1;
    cut_trials_begin(&trials, cuts, 2);
    run_trials(&trials, rates, 2 * CUT_TRIALS_SAMPLES, &stale);
    assert_int_equal(cut_trials_wanted(&trials)->feeders, 3);
    assert_false(cut_trials_add(&trials, 0, 1000)); /* another cut's window */
    assert_false(cut_trials_add(&trials, 3, NAN));
    rates[0] = 30;
    run_trials(&trials, rates, CUT_TRIALS_WAIT - 1, &stale);
    assert_int_equal(stale, 0);
    run_trials(&trials, rates, 2, &stale);
    assert_int_equal(stale, 1);
    cut_trials_begin(&trials, cuts, 2);
    run_trials(&trials, rates, 2 * CUT_TRIALS_SAMPLES, &stale);
    assert_int_equal(cut_trials_wanted(&trials)->feeders, 0);
    for (unsigned turn = 0; turn < 100; turn++) { /* rates that never stay: bounded all the same */
        rates[1] = turn % 2 == 0 ? 100 : 50;
        run_trials(&trials, rates, WINDOWS, &stale);
    }
    assert_int_equal(stale, CUT_TRIALS_STALE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_of_all_cuts),
        cmocka_unit_test(test_algorithm_1),
        cmocka_unit_test(test_where_the_link_decides),
        cmocka_unit_test(test_an_output_is_sent_once),
        cmocka_unit_test(test_many_stages),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_trials_keep_the_fastest),
        cmocka_unit_test(test_costs_become_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
