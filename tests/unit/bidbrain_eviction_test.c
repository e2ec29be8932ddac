/* bidbrain/policy/eviction: estimates from small series match computations by hand and use nothing of the future.
 * They do not depend on how often they are updated, probabilities are ordered, and the calibration report counts
 * right. */

#include "agileml/base/memory.h"
#include "bidbrain/policy/eviction.h"
#include "tests/test.h"

#include <math.h>

enum { DAY = 24 * HOUR };
#define START INT64_C(1458000000) /* a multiple of a day */

static void add(struct markets *markets, const char *type, int64_t time, int64_t price) {
    assert_int_equal(markets_add(markets, type, "z", "p", (struct market_point){START + time, price}, NULL), 0);
}

/* Two markets of `days` days: a quiet market, and a market with spikes at random moments. */
static void random_markets(struct markets *markets, int64_t days, uint64_t seed) {
    for (int64_t t = 0; t < days * DAY; t += 60 + (int64_t)(seed % 1200)) {
        seed = hash_mix(seed);
        add(markets, "quiet", t, 20000 + (int64_t)(seed >> 40) % 200);
        seed = hash_mix(seed);
        add(markets, "wild", t, 20000 + ((seed >> 30) % 9 == 0 ? 500000 : (int64_t)((seed >> 40) % 20000)));
    }
    markets_finish(markets);
}

static const int64_t on_demand[2] = {100000, 100000};

TEST(probabilities_follow_the_counts) {
    /* The price is $0.02, and $0.05 for five minutes from every third hour on. Samples in the hour before a spike
     * see it. */
    CLOSED_BY(markets_close) struct markets markets = {0};
    for (int64_t t = 0; t < 60 * DAY; t += 3 * HOUR) {
        add(&markets, "t", t, 50000);
        add(&markets, "t", t + 300, 20000);
    }
    markets_finish(&markets);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 60 * DAY);
    eviction_table_open(&table, &eviction, EVICTION_CHOSEN, START + 60 * DAY);
    /* 12 of the 36 samples in three hours see the next spike within the hour; the sample in the spike sees no higher
     * price. The prior of one day is weighed against the days that the longest memory counts. */
    double all = eviction_estimate(&table, 0, EVICTION_ANY, EVICTION_DELTA[8], HOUR).probability;
    assert_true(fabs(all - 12.0 / 36) < 0.01);
    double half = eviction_estimate(&table, 0, EVICTION_ANY, EVICTION_DELTA[8], HOUR / 2).probability;
    assert_true(fabs(half - 6.0 / 36) < 0.01);
    double high = eviction_estimate(&table, 0, EVICTION_ANY, EVICTION_DELTA[12], HOUR).probability;
    assert_true(high < 0.01);
    double median = eviction_estimate(&table, 0, EVICTION_ANY, EVICTION_DELTA[8], HOUR).median;
    assert_true(fabs(median - HOUR / 2.0) < 120);
    assert_true(eviction_estimate(&table, 0, EVICTION_ANY, -1, HOUR).probability == 1);
    assert_true(eviction_estimate(&table, 0, EVICTION_ANY, 5000, 0).probability == 0);
}

TEST(a_regime_tells_more_than_the_average) {
    /* A price that has just moved a lot rises again within the hour. A price that was still for an hour stays so all
     * day. */
    CLOSED_BY(markets_close) struct markets markets = {0};
    for (int64_t day = 0; day < 40; day++) {
        add(&markets, "t", day * DAY, 20000);
        for (int64_t i = 0; i < 6; i++) {
            add(&markets, "t", day * DAY + 12 * HOUR + i * 1800, i % 2 == 0 ? 25000 : 20000);
        }
    }
    markets_finish(&markets);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 40 * DAY);
    eviction_table_open(&table, &eviction, EVICTION_CHOSEN, START + 40 * DAY);
    const struct market *market = markets.list[0];
    unsigned still = eviction_regime(market, on_demand[0], START + 5 * HOUR);
    unsigned moved = eviction_regime(market, on_demand[0], START + 13 * HOUR);
    assert_true(still != moved);
    double average = eviction_estimate(&table, 0, EVICTION_ANY, 1588, HOUR).probability;
    assert_true(eviction_estimate(&table, 0, still, 1588, HOUR).probability < average);
    assert_true(eviction_estimate(&table, 0, moved, 1588, HOUR).probability > 2 * average);
}

TEST(a_market_without_history_gets_the_prior) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    add(&markets, "new", 0, 20000);
    markets_finish(&markets);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 60);
    eviction_table_open(&table, &eviction, EVICTION_CHOSEN, START + 60);
    assert_true(fabs(eviction_estimate(&table, 0, EVICTION_ANY, 1000, HOUR).probability - 0.5) < 1e-6);
    assert_true(fabs(eviction_estimate(&table, 0, 0, 1000, HOUR / 2).probability - 0.25) < 1e-6);
}

/* `days` days of prices. If `spiky` > 0, each hour of the first `spiky` days has a spike; else a random quarter of
 * all hours. */
static void changing_market(struct markets *markets, const char *type, int64_t days, int64_t spiky, uint64_t seed) {
    for (int64_t t = 0; t < days * DAY; t += HOUR) {
        seed = hash_mix(seed);
        bool spike = spiky > 0 ? t < spiky * DAY : seed >> 62 == 0;
        add(markets, type, t, spike ? 60000 : 20000);
        add(markets, type, t + 600, 20000);
    }
}

/* A short memory predicts a changed market better; a long memory predicts an unchanged market better, as a short
 * memory follows chance. Estimates use the better memory. */
TEST(the_memory_is_chosen_by_what_it_predicts) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    changing_market(&markets, "changed", 60, 50, 1);
    changing_market(&markets, "same", 60, 0, 2);
    markets_finish(&markets);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table all;
    CLOSED_BY(eviction_table_close) struct eviction_table chosen;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 60 * DAY);
    for (int average = 0; average < 2; average++) {
        assert_true(EVICTION_HALF_LIFE[eviction_chosen(&eviction, 0, average != 0)] <= 5);
        assert_true(EVICTION_HALF_LIFE[eviction_chosen(&eviction, 0, average != 0)] > 0);
        double length = EVICTION_HALF_LIFE[eviction_chosen(&eviction, 1, average != 0)];
        assert_true(length <= 0 || length > 5);
    }
    eviction_table_open(&all, &eviction, EVICTION_ALL, START + 60 * DAY);
    eviction_table_open(&chosen, &eviction, EVICTION_CHOSEN, START + 60 * DAY);
    assert_true(eviction_estimate(&all, 0, EVICTION_ANY, 25213, HOUR).probability > 0.6);
    assert_true(eviction_estimate(&chosen, 0, EVICTION_ANY, 25213, HOUR).probability < 0.3);
    assert_true(fabs(eviction_estimate(&all, 1, EVICTION_ANY, 25213, HOUR).probability -
                     eviction_estimate(&chosen, 1, EVICTION_ANY, 25213, HOUR).probability) < 0.05);
}

/* The paper's estimate by hand: 50 days with a spike each hour and 10 days without, all weighed alike. */
TEST(all_history_counts_alike) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    changing_market(&markets, "changed", 60, 50, 1);
    markets_finish(&markets);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 60 * DAY);
    eviction_table_open(&table, &eviction, EVICTION_ALL, START + 60 * DAY);
    /* Ten of an hour's twelve samples see the spike; those within a spike see no higher price. */
    double expected = 50.0 / 60 * 10 / 12;
    assert_true(fabs(eviction_estimate(&table, 0, EVICTION_ANY, 25213, HOUR).probability - expected) < 0.01);
}

static void check_equal(const struct eviction_table *a, const struct eviction_table *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->markets, b->markets, a->count * sizeof *a->markets);
}

/* Two histories that differ only after a moment give the same estimates at that moment. */
TEST(the_future_is_not_used) {
    for (uint64_t seed = 1; seed <= 5; seed++) {
        CLOSED_BY(markets_close) struct markets whole = {0};
        CLOSED_BY(markets_close) struct markets other = {0};
        random_markets(&whole, 12, seed);
        int64_t now = START + 7 * DAY + (int64_t)seed * 4321;
        for (size_t m = 0; m < whole.count; m++) {
            for (size_t i = 0; i < whole.list[m]->count; i++) {
                struct market_point point = whole.list[m]->points[i];
                point.price = point.time > now ? 900000 - point.price : point.price;
                assert_int_equal(markets_add(&other, whole.list[m]->type, "z", "p", point, NULL), 0);
            }
        }
        markets_finish(&other);
        CLOSED_BY(eviction_close) struct eviction a;
        CLOSED_BY(eviction_close) struct eviction b;
        CLOSED_BY(eviction_table_close) struct eviction_table of_a;
        CLOSED_BY(eviction_table_close) struct eviction_table of_b;
        eviction_open(&a, &whole, on_demand);
        eviction_open(&b, &other, on_demand);
        for (int64_t t = START; t <= now; t += 5000) { /* one side is advanced in steps */
            eviction_advance(&a, t);
        }
        eviction_advance(&a, now);
        eviction_advance(&b, now);
        eviction_table_open(&of_a, &a, EVICTION_CHOSEN, now);
        eviction_table_open(&of_b, &b, EVICTION_CHOSEN, now);
        check_equal(&of_a, &of_b);
        for (size_t m = 0; m < whole.count; m++) {
            assert_int_equal(eviction_regime(whole.list[m], on_demand[m], now),
                             eviction_regime(other.list[m], on_demand[m], now));
        }
    }
}

TEST(estimates_are_ordered) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    random_markets(&markets, 10, 77);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 10 * DAY);
    eviction_table_open(&table, &eviction, EVICTION_CHOSEN, START + 10 * DAY);
    for (size_t m = 0; m < 2; m++) {
        for (unsigned r = 0; r <= EVICTION_REGIMES; r++) {
            double higher_bid = 1;
            for (int64_t delta = 0; delta < 500000; delta = delta * 5 / 4 + 30) {
                double before = 0;
                for (int64_t seconds = 0; seconds <= HOUR; seconds += 150) {
                    struct eviction_estimate estimate = eviction_estimate(&table, m, r, delta, seconds);
                    assert_true(estimate.probability >= before - 1e-12 && estimate.probability <= 1);
                    assert_true(estimate.median >= 0 && estimate.median <= (double)seconds);
                    before = estimate.probability;
                }
                assert_true(before <= higher_bid + 1e-6);
                higher_bid = before;
            }
        }
    }
}

/* In steady markets, predictions from two weeks' history hold in the next weeks. Predictions that know the regime
 * beat the average. */
TEST(predictions_come_true) {
    CLOSED_BY(markets_close) struct markets markets = {0};
    random_markets(&markets, 50, 5);
    CLOSED_BY(eviction_close) struct eviction eviction;
    CLOSED_BY(eviction_table_close) struct eviction_table table;
    struct calibration average = {0};
    struct calibration by_regime = {0};
    eviction_open(&eviction, &markets, on_demand);
    eviction_advance(&eviction, START + 14 * DAY);
    eviction_table_open(&table, &eviction, EVICTION_CHOSEN, START + 14 * DAY);
    const size_t wild = 1;
    const struct market *market = markets.list[wild];
    for (int64_t t = START + 14 * DAY; t < START + 49 * DAY; t += 700) {
        unsigned regime = eviction_regime(market, on_demand[wild], t);
        for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
            int64_t above = market_first_above(market, t, market_price(market, t) + EVICTION_DELTA[d]);
            bool evicted = above != MARKET_NEVER && above <= t + HOUR;
            calibration_add(
                &average, eviction_estimate(&table, wild, EVICTION_ANY, EVICTION_DELTA[d], HOUR).probability, evicted);
            calibration_add(&by_regime, eviction_estimate(&table, wild, regime, EVICTION_DELTA[d], HOUR).probability,
                            evicted);
        }
    }
    /* The quiet market is half of the known data, so the prior shifts estimates by up to a day in seven. */
    assert_true(calibration_worst(&average, 1000) < 0.08);
    assert_true(by_regime.brier < 0.9 * average.brier);
}

TEST(calibration_counts) {
    struct calibration calibration = {0};
    for (int i = 0; i < 200; i++) {
        calibration_add(&calibration, 0.25, i % 4 == 0);
        calibration_add(&calibration, 1, i % 2 == 0);
    }
    assert_int_equal(calibration.deciles[2].cases, 200);
    assert_int_equal(calibration.deciles[9].cases, 200);
    assert_true(fabs(calibration_worst(&calibration, 100) - 0.5) < 1e-9);
    assert_true(calibration_worst(&calibration, 200) == 0);
    assert_true(fabs(calibration.brier - (50 * 0.5625 + 150 * 0.0625 + 100)) < 1e-9);
}
