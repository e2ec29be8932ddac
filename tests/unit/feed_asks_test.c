/* workers/feed_asks: credits are kept, the least loaded feeder is asked first, and late batches are requested from
 * another feeder. Each batch is accepted once, whichever feeders die. */
#include "bench/feeders/asks.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <math.h>

enum { SEEDS = 150, BATCHES = 300, FEEDERS = 6, STEPS = 100000 };

static uint64_t random_state;

static uint64_t random_below(uint64_t bound) {
    return hash_mix(random_state++) % bound;
}

static struct feed_ask next(struct feed_asks *asks, double now) {
    struct feed_ask ask = {0};
    assert_true(feed_asks_next(asks, now, &ask));
    return ask;
}

static enum feed_answer answer(struct feed_asks *asks, const struct feed_ask *ask, uint64_t bytes, double now) {
    return feed_asks_answer(asks, ask->feeder, ask->batch, bytes, now);
}

TEST(least_loaded_first) {
    struct feed_asks *asks = feed_asks_open(1000, 190);
    struct feed_ask ask[6] = {0};
    for (uint64_t feeder = 1; feeder <= 2; feeder++) {
        assert_int_equal(feed_asks_add_feeder(asks, feeder), 0);
    }
    for (uint32_t shard = 0; shard < 6; shard++) {
        assert_int_equal(feed_asks_want(asks, (struct feed_batch){shard, 1}, shard == 0 ? 60 : 70), 0);
    }
    for (unsigned a = 0; a < 4; a++) {
        ask[a] = next(asks, 0);
        assert_int_equal(ask[a].batch.shard, a); /* in order */
        assert_false(ask[a].again);
    }
    assert_true(ask[0].feeder != ask[1].feeder);
    assert_int_equal(ask[2].feeder, ask[0].feeder); /* 60 bytes, not 70 */
    assert_int_equal(ask[3].feeder, ask[1].feeder);
    assert_false(feed_asks_next(asks, 0, &ask[4])); /* credit is 190; 130 and 140 are in use */
    assert_int_equal(feed_asks_feeder_bytes(asks, ask[0].feeder), 130);
    assert_int_equal(answer(asks, &ask[0], 10, 1), FEED_TAKEN);
    assert_int_equal(feed_asks_bytes(asks), 220);
    assert_int_equal(next(asks, 1).feeder, ask[0].feeder);
    feed_asks_close(asks);
}

TEST(the_queue_has_credit) {
    struct feed_asks *asks = feed_asks_open(100, 100);
    struct feed_ask ask;
    feed_asks_add_feeder(asks, 7);
    feed_asks_want(asks, (struct feed_batch){0, 1}, 80);
    feed_asks_want(asks, (struct feed_batch){1, 1}, 80);
    ask = next(asks, 0);
    assert_int_equal(answer(asks, &ask, 50, 1), FEED_TAKEN);
    assert_false(feed_asks_next(asks, 1, &ask)); /* 50 of 100 are used */
    assert_int_equal(feed_asks_used(asks, (struct feed_batch){0, 1}), 0);
    assert_int_equal(feed_asks_bytes(asks), 0);
    assert_int_equal(next(asks, 1).batch.shard, 1);
    feed_asks_close(asks);
}

/* Makes answers within a second known, so that an answer after 3 s is late. */
static void learn(struct feed_asks *asks) {
    for (uint32_t shard = 100; shard < 100 + FEED_TIMES_LEAST; shard++) {
        feed_asks_want(asks, (struct feed_batch){shard, 1}, 1);
        struct feed_ask ask = next(asks, 0);
        assert_true(isinf(feed_asks_due(asks)));
        answer(asks, &ask, 1, 1);
        feed_asks_used(asks, ask.batch);
    }
}

TEST(late_answers) {
    struct feed_asks *asks = feed_asks_open(1000, 1000);
    struct feed_ask again;
    feed_asks_add_feeder(asks, 1);
    feed_asks_add_feeder(asks, 2);
    learn(asks);
    feed_asks_want(asks, (struct feed_batch){5, 2}, 10);
    struct feed_ask first = next(asks, 10);
    assert_true(fabs(feed_asks_due(asks) - 13) < 1e-9);
    assert_false(feed_asks_next(asks, 12.9, &again));
    again = next(asks, 13);
    assert_true(again.again);
    assert_true(again.feeder != first.feeder);
    assert_false(feed_asks_next(asks, 100, &again)); /* no other feeder is there */
    assert_int_equal(answer(asks, &first, 10, 14), FEED_TAKEN);
    again.feeder = 3 - first.feeder;
    again.batch = first.batch;
    assert_int_equal(answer(asks, &again, 10, 15), FEED_REPEATED);
    assert_int_equal(answer(asks, &again, 10, 15), FEED_UNASKED); /* a second time: not a late answer */
    assert_int_equal(feed_asks_bytes(asks), 10);
    feed_asks_close(asks);
}

/* The oldest batch is late, and later batches use up all credit: only the oldest is requested again. */
TEST(the_oldest_batch_is_not_stuck) {
    struct feed_asks *asks = feed_asks_open(30, 20);
    struct feed_ask ask[3];
    struct feed_ask again;
    feed_asks_add_feeder(asks, 1);
    feed_asks_add_feeder(asks, 2);
    learn(asks);
    for (uint32_t shard = 0; shard < 3; shard++) {
        feed_asks_want(asks, (struct feed_batch){shard, 2}, 10);
        ask[shard] = next(asks, 10);
    }
    unsigned late = ask[0].feeder == ask[2].feeder ? 2 : 1; /* a later batch, still on its way from either feeder */
    assert_int_equal(answer(asks, &ask[3 - late], 10, 11), FEED_TAKEN);
    assert_int_equal(feed_asks_bytes(asks), 30);
    again = next(asks, 13);
    assert_int_equal(again.batch.shard, 0);
    assert_true(again.again);
    assert_false(feed_asks_next(asks, 13, &again)); /* the other late batch has to wait for credit */
    assert_int_equal(feed_asks_bytes(asks), 40);
    feed_asks_close(asks);
}

TEST(lost_feeders) {
    struct feed_asks *asks = feed_asks_open(1000, 1000);
    struct feed_batch own;
    struct feed_ask none;
    feed_asks_add_feeder(asks, 1);
    feed_asks_add_feeder(asks, 2);
    feed_asks_want(asks, (struct feed_batch){0, 1}, 10);
    feed_asks_want(asks, (struct feed_batch){1, 1}, 10);
    struct feed_ask first = next(asks, 0);
    struct feed_ask second = next(asks, 0);
    assert_int_equal(feed_asks_remove_feeder(asks, first.feeder), 0);
    assert_int_equal(feed_asks_remove_feeder(asks, first.feeder), AML_EINPUT);
    assert_int_equal(answer(asks, &first, 10, 1), FEED_UNASKED);
    struct feed_ask third = next(asks, 1);
    assert_int_equal(third.batch.shard, 0);
    assert_int_equal(third.feeder, second.feeder);
    assert_int_equal(feed_asks_remove_feeder(asks, second.feeder), 0);
    assert_false(feed_asks_next(asks, 2, &none));
    assert_int_equal(feed_asks_bytes(asks), 0);
    assert_true(feed_asks_take_back(asks, &own)); /* the trainer makes the batches itself */
    assert_int_equal(own.shard, 0);
    assert_true(feed_asks_take_back(asks, &own));
    assert_false(feed_asks_take_back(asks, &own));
    feed_asks_close(asks);
}

TEST(what_is_refused) {
    struct feed_asks *asks = feed_asks_open(100, 50);
    struct feed_batch batch = {1, 1};
    assert_int_equal(feed_asks_want(asks, batch, 51), AML_EINPUT);
    assert_int_equal(feed_asks_want(asks, batch, 50), 0);
    assert_int_equal(feed_asks_want(asks, batch, 50), AML_EINPUT);
    assert_int_equal(feed_asks_used(asks, (struct feed_batch){2, 1}), AML_EINPUT);
    assert_int_equal(feed_asks_answer(asks, 1, batch, 1, 0), FEED_UNASKED);
    for (uint64_t feeder = 0; feeder < FEED_FEEDERS; feeder++) {
        assert_int_equal(feed_asks_add_feeder(asks, feeder), 0);
    }
    assert_int_equal(feed_asks_add_feeder(asks, 0), AML_EINPUT);
    assert_int_equal(feed_asks_add_feeder(asks, FEED_FEEDERS), AML_ELIMIT);
    struct feed_ask ask = next(asks, 0);
    assert_int_equal(answer(asks, &ask, 51, 1), FEED_LARGER);
    assert_int_equal(next(asks, 1).batch.shard, 1); /* requested again */
    for (uint32_t shard = 2; shard <= FEED_BATCHES; shard++) {
        assert_int_equal(feed_asks_want(asks, (struct feed_batch){shard, 1}, 0), 0);
    }
    assert_int_equal(feed_asks_want(asks, (struct feed_batch){0, 2}, 0), AML_ELIMIT);
    feed_asks_close(asks);
}

/* ---- Random events ---- */

/* A trainer whose feeders come and go, and answer in any order, late, never or twice. */
struct world {
    struct feed_asks *asks;
    struct feed_ask open[FEED_ASKS];
    size_t count;
    unsigned taken[BATCHES], used[BATCHES];
    bool here[FEEDERS];
    uint64_t queue_bytes, most;
};

static void drop_open(struct world *world, size_t ask) {
    world->open[ask] = world->open[--world->count];
}

static void some_answer(struct world *world, double now) {
    if (world->count == 0) {
        return;
    }
    size_t chosen = random_below(world->count);
    struct feed_ask ask = world->open[chosen];
    enum feed_answer result = answer(world->asks, &ask, 1 + random_below(world->most), now);
    if (result == FEED_TAKEN) {
        world->taken[ask.batch.shard]++;
    }
    assert_true(world->here[ask.feeder] ? result != FEED_UNASKED : result == FEED_UNASKED);
    assert_true(result != FEED_LARGER);
    drop_open(world, chosen);
}

static void some_feeder(struct world *world) {
    uint64_t feeder = random_below(FEEDERS);
    if (world->here[feeder]) {
        assert_int_equal(feed_asks_remove_feeder(world->asks, feeder), 0);
        for (size_t a = world->count; a-- > 0;) { /* some answers on their way still arrive */
            if (world->open[a].feeder == feeder) {
                assert_int_equal(answer(world->asks, &world->open[a], 1, 0), FEED_UNASKED);
                drop_open(world, a);
            }
        }
    } else {
        assert_int_equal(feed_asks_add_feeder(world->asks, feeder), 0);
    }
    world->here[feeder] = !world->here[feeder];
}

static unsigned use_some(struct world *world) {
    unsigned used = 0;
    for (uint32_t b = 0; b < BATCHES && used == 0; b++) {
        if (world->taken[b] > world->used[b]) {
            assert_int_equal(feed_asks_used(world->asks, (struct feed_batch){b, 1}), 0);
            used += ++world->used[b];
        }
    }
    return used;
}

static void check_credits(const struct world *world) {
    /* repeated requests for the oldest batch may exceed the queue's credit */
    assert_true(feed_asks_bytes(world->asks) <= world->queue_bytes + (FEED_TRIES - 1) * world->most);
    for (uint64_t feeder = 0; feeder < FEEDERS; feeder++) {
        assert_true(feed_asks_feeder_bytes(world->asks, feeder) <= world->queue_bytes / 2);
    }
}

TEST(each_batch_once) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        static struct world world;
        random_state = seed << 20;
        world = (struct world){.most = 100, .queue_bytes = 200 + 2 * random_below(2000)};
        world.asks = feed_asks_open(world.queue_bytes, world.queue_bytes / 2);
        for (uint32_t b = 0; b < BATCHES; b++) {
            assert_int_equal(feed_asks_want(world.asks, (struct feed_batch){b, 1}, world.most), 0);
        }
        unsigned used = 0;
        uint64_t churn = 5 + random_below(100);
        for (unsigned s = 0; s < STEPS && used < BATCHES; s++) {
            double now = s * 0.01;
            if (random_below(churn) == 0) {
                some_feeder(&world);
            }
            while (world.count < FEED_ASKS && feed_asks_next(world.asks, now, &world.open[world.count])) {
                world.count++;
            }
            some_answer(&world, now);
            used += random_below(2) == 0 ? use_some(&world) : 0;
            check_credits(&world);
        }
        assert_int_equal(used, BATCHES); /* no batch is stuck */
        for (uint32_t b = 0; b < BATCHES; b++) {
            assert_int_equal(world.taken[b], 1);
        }
        while (world.count > 0) {
            some_answer(&world, STEPS);
        }
        assert_int_equal(feed_asks_bytes(world.asks), 0);
        feed_asks_close(world.asks);
    }
}
