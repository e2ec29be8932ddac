/* The parts of the data that a clock works on by each strategy, where strategies may change, and when `auto` changes
 * them. */
#include "agileml/collective/strategy.h"
#include "agileml/control/decide/strategy_auto.h"
#include "tests/test.h"

#include "agileml/base/hash.h"
#include "agileml/wire/plan.h"

TEST(parts_of_each_clock) {
    const struct strategy_clocks clocks = {.per_iteration = 7, .local_steps = 3};
    static const uint32_t parts[] = {0, 0, 3, 0, 0, 3, 1};
    static const uint32_t idle[] = {0, 1, 2, 0, 1, 2, 0};
    static const uint32_t after[] = {2, 1, 0, 2, 1, 0, 0}; /* clocks up to the next one with work */
    for (uint64_t clock = 1; clock <= 21; clock++) {
        assert_int_equal(strategy_parts(STRATEGY_SSGD, &clocks, clock), 1);
        assert_int_equal(strategy_idle(STRATEGY_SSGD, &clocks, clock), 0);
        assert_int_equal(strategy_parts(STRATEGY_SMA, &clocks, clock), parts[(clock - 1) % 7]);
        assert_int_equal(strategy_idle(STRATEGY_SMA, &clocks, clock), idle[(clock - 1) % 7]);
        assert_int_equal(strategy_work(STRATEGY_SSGD, &clocks, clock), clock);
        assert_int_equal(strategy_work(STRATEGY_SMA, &clocks, clock), clock + after[(clock - 1) % 7]);
        assert_int_equal(strategy_parts(STRATEGY_ADPSGD, &clocks, clock), parts[(clock - 1) % 7]);
        assert_int_equal(strategy_idle(STRATEGY_ADPSGD, &clocks, clock), idle[(clock - 1) % 7]);
    }
}

/* In any sequence of strategies each part of an iteration is worked on once, as strategies change at boundaries. */
TEST(each_part_once) {
    for (uint32_t per = 1; per <= 9; per++) {
        for (uint32_t steps = 1; steps <= 5; steps++) {
            const struct strategy_clocks clocks = {.per_iteration = per, .local_steps = steps};
            unsigned worked[64] = {0};
            enum strategy strategy = STRATEGY_SSGD;
            for (uint64_t clock = 1; clock <= 4U * per; clock++) {
                if (strategy_boundary(&clocks, clock) == clock) {
                    strategy = (enum strategy)((clock * 7 + per) % STRATEGY_AUTO);
                }
                for (uint32_t p = 0; p < strategy_parts(strategy, &clocks, clock); p++) {
                    worked[clock - p]++;
                }
            }
            for (uint64_t clock = 1; clock <= 4U * per; clock++) {
                assert_int_equal(worked[clock], 1);
            }
            assert_int_equal(worked[4U * per + 1], 0);
        }
    }
}

TEST(boundaries) {
    const struct strategy_clocks clocks = {.per_iteration = 7, .local_steps = 3};
    static const uint64_t next[] = {1, 4, 4, 4, 7, 7, 7, 8, 11};
    for (uint64_t clock = 1; clock <= sizeof next / sizeof *next; clock++) {
        assert_int_equal(strategy_boundary(&clocks, clock), next[clock - 1]);
    }
}

TEST(names) {
    enum strategy strategy;
    for (unsigned s = STRATEGY_SSGD; s <= STRATEGY_AUTO; s++) {
        assert_true(strategy_of_name(strategy_name((enum strategy)s), &strategy));
        assert_int_equal(strategy, s);
    }
    assert_false(strategy_of_name("easgd", &strategy));
}

/* In each step each node has one partner, and is that partner's partner; with an odd number of nodes one node has
 * none. All pairs are drawn about equally often. The order of the nodes does not matter. */
TEST(partners) {
    enum { MOST = 7, PAIRINGS = 7000 };
    static const uint64_t nodes[MOST] = {7, 1, 9, 4, 12, 5, 20};
    static const uint64_t turned[MOST] = {20, 5, 12, 4, 9, 1, 7};
    for (unsigned count = 1; count <= MOST; count++) {
        unsigned drawn[MOST][21] = {{0}};
        for (uint64_t step = 0; step < PAIRINGS; step++) {
            unsigned alone = 0;
            for (unsigned n = 0; n < count; n++) {
                uint64_t partner = strategy_partner(nodes, count, nodes[n], step);
                assert_true(partner != nodes[n] && partner <= 20);
                assert_true(partner == 0 || strategy_partner(nodes, count, partner, step) == nodes[n]);
                assert_int_equal(strategy_partner(turned + MOST - count, count, nodes[n], step), partner);
                drawn[n][partner]++;
                alone += partner == 0 ? 1 : 0;
            }
            assert_int_equal(alone, count % 2);
        }
        for (unsigned n = 0; n < count; n++) {
            for (unsigned o = 0; o < count; o++) {
                unsigned mean = PAIRINGS / (count % 2 == 0 ? count - 1 : count);
                unsigned times = drawn[n][nodes[o]];
                assert_true(n == o ? times == 0 : times > mean * 8 / 10 && times < mean * 12 / 10);
            }
        }
    }
}

/* The shares of a clock's origins add up to 1, also when two catch-up origins have a lost node's data. */
TEST(shares) {
    static const uint32_t shards[] = {0, 1, 2, 3, 4, 5, 2, 3, 4, 5};
    static const struct wire_assignment assignments[] = {
        {.origin = 0x10000, .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .first = 0, .count = 2},
        {.origin = 0x20000, .from_clock = 1, .until_clock = 5, .first = 2, .count = 4},
        {.origin = 0x18001, .from_clock = 6, .until_clock = 8, .first = 6, .count = 1},
        {.origin = 0x38001, .from_clock = 6, .until_clock = 8, .first = 7, .count = 3}};
    const struct plan_view plan = {
        .terms = {.shards = 6, .strategy = STRATEGY_SSGD, .next_strategy = STRATEGY_SMA, .strategy_from = 4},
        .assignments = assignments,
        .assignment_count = 4,
        .shards = shards};
    assert_true(plan_origin_share(&plan, 0x20000, 5) == 4.0 / 6);
    assert_true(plan_origin_share(&plan, 0x20000, 6) == 0);
    for (uint64_t clock = 1; clock <= 8; clock++) {
        double sum = 0;
        for (unsigned a = 0; a < 4; a++) {
            sum += plan_origin_share(&plan, assignments[a].origin, clock);
        }
        assert_true(sum > 1 - 1e-12 && sum < 1 + 1e-12);
        assert_int_equal(plan_strategy_at(&plan, clock), clock < 4 ? STRATEGY_SSGD : STRATEGY_SMA);
    }
}

/* ---- `auto` on made-up traces ---- */

/* A job whose iterations compute for a second, and whose exchanges each take a 32nd of `exchange` seconds. */
struct trace {
    struct strategy_auto chooser;
    enum strategy present;
    unsigned nodes, stage;
    double exchange, noise;
    uint64_t seed;
    unsigned changes;
};

static struct trace trace_open(void) {
    static const struct strategy_clocks clocks = {.per_iteration = 32, .local_steps = 8};
    struct trace trace = {.nodes = 4};
    strategy_auto_open(&trace.chooser, &clocks, STRATEGY_SSGD);
    return trace;
}

static void trace_run(struct trace *trace, unsigned iterations) {
    for (unsigned i = 0; i < iterations; i++) {
        double random = (double)(hash_mix(trace->seed++) % 2001) / 1000 - 1;
        double waited = trace->exchange * (1 + trace->noise * random) / (trace->present == STRATEGY_SMA ? 8 : 1);
        const struct strategy_sample sample = {.strategy = trace->present,
                                               .nodes = trace->nodes,
                                               .threads = trace->nodes,
                                               .stage = trace->stage,
                                               .seconds = 1 + waited,
                                               .computed = 1 / (1 + waited)};
        strategy_auto_add(&trace->chooser, &sample);
        trace->changes += trace->chooser.wanted != trace->present ? 1 : 0;
        trace->present = trace->chooser.wanted;
    }
}

TEST(auto_stays_on_a_fast_network) {
    struct trace trace = trace_open();
    trace.exchange = 0.8; /* computing takes 56 % */
    trace.noise = 0.3;
    trace_run(&trace, 10000);
    assert_int_equal(trace.changes, 0);
}

TEST(auto_follows_the_network) {
    struct trace trace = trace_open();
    trace.exchange = 0.1;
    trace_run(&trace, 10);
    assert_int_equal(trace.present, STRATEGY_SSGD);
    for (unsigned turn = 0; turn < 3; turn++) {
        trace.exchange = 4; /* computing takes 20 % */
        trace_run(&trace, 10);
        assert_int_equal(trace.present, STRATEGY_SMA);
        trace_run(&trace, 1000);
        assert_int_equal(trace.changes, 2 * turn + 1);
        trace.exchange = 0.2;
        trace_run(&trace, 10);
        assert_int_equal(trace.present, STRATEGY_SSGD);
        trace_run(&trace, 1000);
        assert_int_equal(trace.changes, 2 * turn + 2);
    }
}

/* Each change that must be undone doubles the wait for the next. */
TEST(auto_does_not_flap) {
    for (unsigned e = 5; e < 40; e++) {
        struct trace trace = trace_open();
        trace.exchange = e / 10.0;
        trace.noise = 0.9;
        trace_run(&trace, 10000);
        assert_true(trace.changes <= 20);
    }
}

TEST(auto_gives_up_what_is_not_faster) {
    struct trace trace = trace_open();
    for (unsigned i = 0; i < 2000; i++) { /* an iteration takes as long by any strategy */
        const struct strategy_sample sample = {
            .strategy = trace.chooser.wanted, .nodes = 4, .threads = 4, .seconds = 1, .computed = 0.1};
        enum strategy before = trace.chooser.wanted;
        strategy_auto_add(&trace.chooser, &sample);
        trace.changes += trace.chooser.wanted != before ? 1 : 0;
    }
    assert_int_equal(trace.chooser.wanted, STRATEGY_SSGD);
    assert_true(trace.changes >= 4 && trace.changes <= 16);
}

TEST(auto_begins_anew_with_other_nodes) {
    struct trace trace = trace_open();
    trace.exchange = 4;
    trace_run(&trace, 2);
    trace.nodes = 8;
    trace_run(&trace, 2);
    assert_int_equal(trace.present, STRATEGY_SSGD); /* two iterations of either strategy are too few */
    trace_run(&trace, 1);
    assert_int_equal(trace.present, STRATEGY_SMA);
    trace.nodes = 1; /* no other node to wait for */
    trace.exchange = 0;
    trace_run(&trace, 3);
    assert_int_equal(trace.present, STRATEGY_SSGD);
}

/* A membership that begins under S-MA tries S-SGD once; S-MA stays only if it is faster. */
TEST(auto_tries_sums_under_other_nodes) {
    for (unsigned other = 0; other < 2; other++) {
        struct trace trace = trace_open();
        trace.exchange = 4;
        trace_run(&trace, 30);
        assert_int_equal(trace.present, STRATEGY_SMA);
        trace.nodes = other == 0 ? 5 : trace.nodes;
        trace.stage = other == 1 ? 1 : trace.stage;
        trace_run(&trace, STRATEGY_AUTO_LEAST);
        assert_int_equal(trace.present, STRATEGY_SSGD);
        trace_run(&trace, STRATEGY_AUTO_LEAST);
        assert_int_equal(trace.present, STRATEGY_SMA);
        trace_run(&trace, 1000);
        assert_int_equal(trace.present, STRATEGY_SMA);
        assert_int_equal(trace.changes, 3);

        trace.nodes++; /* now both are equally slow, and most of the time is not computing */
        unsigned ssgd = 0;
        for (unsigned i = 0; i < 1000; i++) {
            const struct strategy_sample sample = {.strategy = trace.chooser.wanted,
                                                   .nodes = trace.nodes,
                                                   .threads = trace.nodes,
                                                   .stage = trace.stage,
                                                   .seconds = 1,
                                                   .computed = 0.1};
            strategy_auto_add(&trace.chooser, &sample);
            ssgd += trace.chooser.wanted == STRATEGY_SSGD ? 1 : 0;
        }
        assert_true(ssgd > 900);
    }
}

/* If nodes come and go often, each membership has its trial. The first membership for which S-SGD is better is found
 * by its trial. */
TEST(auto_tries_each_membership) {
    struct trace trace = trace_open();
    trace.exchange = 4;
    trace_run(&trace, 30);
    for (unsigned membership = 0; membership < 10; membership++) {
        trace.nodes++;
        trace_run(&trace, STRATEGY_AUTO_LEAST);
        assert_int_equal(trace.present, STRATEGY_SSGD);
        trace_run(&trace, 30);
        assert_int_equal(trace.present, STRATEGY_SMA);
    }
    trace.nodes = 1;
    trace.exchange = 0;
    trace_run(&trace, 50);
    assert_int_equal(trace.present, STRATEGY_SSGD);
}
