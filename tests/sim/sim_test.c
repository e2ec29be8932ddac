/* The simulated network itself: order, time, and the effect of breaks, pauses and separations on messages. */
#include "tests/sim/sim.h"
#include "tests/test.h"

enum { ACTORS = 3, RECEIVED_MAX = 4096, MESSAGES = 200 };

/* An actor that records the numbers in the messages it receives. */
struct recorder {
    struct io *io;
    actor_id from[RECEIVED_MAX];
    uint64_t numbers[RECEIVED_MAX];
    uint64_t at_us[RECEIVED_MAX];
    unsigned count;
    uint64_t timer_us;
    struct sim *sim;
};

struct fixture {
    struct sim *sim;
    struct recorder actors[ACTORS]; /* 0 and 1 on nodes of their own; 2 on the node of 1 */
};

static actor_id actor(unsigned number) {
    return (actor_id)(number + 1) << ACTOR_PART_BITS;
}

static void record(void *self, actor_id from, struct message *message) {
    struct recorder *recorder = self;
    assert_true(recorder->count < RECEIVED_MAX);
    recorder->from[recorder->count] = from;
    recorder->at_us[recorder->count] = sim_now(recorder->sim);
    recorder->numbers[recorder->count++] = message->observe.from;
}

static void record_timer(void *self) {
    ((struct recorder *)self)->timer_us = sim_now(((struct recorder *)self)->sim);
}

static struct fixture *fixture_open(uint64_t seed) {
    static const struct sim_config config = {.nodes = 2,
                                             .latency_min_us = 100,
                                             .latency_max_us = 2000,
                                             .tail_per_million = 50000,
                                             .tail_max_us = 50000,
                                             .bytes_per_second_min = 1000 * 1000,
                                             .bytes_per_second_max = 1000 * 1000,
                                             .hold_max_us = 100 * 1000,
                                             .reconnect_max_us = 10 * 1000};
    static const char *const endpoints[] = {"tcp://zero:1", "tcp://one:1", "tcp://one:2"};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->sim = sim_open(seed, &config);
    for (unsigned a = 0; a < ACTORS; a++) {
        struct recorder *recorder = &fixture->actors[a];
        recorder->sim = fixture->sim;
        sim_actor(fixture->sim, a > 0 ? 1 : 0, actor(a), endpoints[a],
                  (struct actor){.receive = record, .timer = record_timer, .self = recorder}, &recorder->io);
    }
    fixture->actors[0].io->connect(fixture->actors[0].io, actor(1), endpoints[1]);
    return fixture;
}

static void fixture_close(struct fixture *fixture) {
    sim_close(fixture->sim);
    free(fixture);
}

static void send_number(struct fixture *fixture, unsigned from, unsigned to, uint64_t number) {
    struct message message = {.type = MESSAGE_OBSERVE};
    message.observe.from = number;
    fixture->actors[from].io->send(fixture->actors[from].io, actor(to), &message);
}

static void run(struct fixture *fixture) {
    while (sim_step(fixture->sim)) {
    }
}

TEST(a_connection_keeps_order_both_ways) {
    struct fixture *fixture = fixture_open(1);
    for (uint64_t n = 0; n < MESSAGES; n++) {
        send_number(fixture, 0, 1, n);
        send_number(fixture, 1, 0, n);
    }
    run(fixture);
    for (unsigned a = 0; a < 2; a++) {
        assert_int_equal(fixture->actors[a].count, MESSAGES);
        for (uint64_t n = 0; n < MESSAGES; n++) {
            assert_int_equal(fixture->actors[a].numbers[n], n);
            assert_int_equal(fixture->actors[a].from[n], actor(1 - a));
        }
    }
    assert_int_equal(sim_statistics(fixture->sim)->lost, 0);
    assert_int_equal(sim_statistics(fixture->sim)->duplicated, 0);
    fixture_close(fixture);
}

TEST(only_connected_actors_are_reached) {
    struct fixture *fixture = fixture_open(1);
    send_number(fixture, 0, 2, 1); /* never connected */
    send_number(fixture, 0, 9, 1); /* unknown */
    fixture->actors[0].io->connect(fixture->actors[0].io, actor(2), "tcp://elsewhere:1");
    send_number(fixture, 0, 2, 1);
    send_number(fixture, 1, 2, 7); /* on the same node */
    uint64_t before_us = sim_now(fixture->sim);
    assert_true(sim_step(fixture->sim));
    assert_int_equal(sim_now(fixture->sim), before_us);
    assert_int_equal(fixture->actors[2].count, 1);
    assert_int_equal(fixture->actors[2].numbers[0], 7);
    assert_false(sim_step(fixture->sim));
    fixture->actors[0].io->connect(fixture->actors[0].io, actor(1), NULL); /* forgotten */
    send_number(fixture, 0, 1, 1);
    send_number(fixture, 1, 0, 1);
    assert_false(sim_step(fixture->sim));
    assert_int_equal(sim_statistics(fixture->sim)->unreachable, 5);
    fixture_close(fixture);
}

TEST(large_messages_take_time) {
    struct fixture *fixture = fixture_open(1);
    uint64_t before_us = sim_now(fixture->sim);
    struct message message = {.type = MESSAGE_REPORT, .frame_count = 1};
    message.frames[0] = buffer_new(500 * 1000); /* half a second at this bandwidth, out and in */
    memset(message.frames[0]->data, 'x', message.frames[0]->size);
    fixture->actors[0].io->send(fixture->actors[0].io, actor(1), &message);
    run(fixture);
    assert_true(sim_now(fixture->sim) - before_us >= 500 * 1000);
    fixture_close(fixture);
}

TEST(breaks_lose_and_repeat_some) {
    uint64_t lost = 0;
    uint64_t duplicated = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fixture *fixture = fixture_open(seed);
        unsigned seen[MESSAGES + 1] = {0};
        for (uint64_t n = 0; n < MESSAGES; n++) {
            send_number(fixture, 0, 1, n);
        }
        sim_break(fixture->sim, 0, 1);
        send_number(fixture, 0, 1, MESSAGES); /* the side that dialed keeps its messages */
        send_number(fixture, 1, 0, 0);        /* the other side drops them */
        run(fixture);
        for (unsigned i = 0; i < fixture->actors[1].count; i++) {
            seen[fixture->actors[1].numbers[i]]++;
        }
        assert_int_equal(seen[MESSAGES], 1);
        assert_int_equal(fixture->actors[0].count, 0);
        uint64_t missing = 0;
        for (unsigned n = 0; n < MESSAGES; n++) {
            missing += seen[n] == 0 ? 1 : 0;
            assert_true(seen[n] <= 2);
        }
        lost += missing;
        duplicated += sim_statistics(fixture->sim)->duplicated;
        send_number(fixture, 1, 0, 1); /* the connection stands again */
        run(fixture);
        assert_int_equal(fixture->actors[0].count, 1);
        fixture_close(fixture);
    }
    assert_true(lost > 0 && duplicated > 0);
}

TEST(pauses_delay_everything) {
    struct fixture *fixture = fixture_open(1);
    uint64_t until_us = sim_now(fixture->sim) + 1000 * 1000;
    for (uint64_t n = 0; n < 10; n++) {
        send_number(fixture, 0, 1, n);
        send_number(fixture, 2, 1, 100 + n); /* also within the node */
    }
    fixture->actors[1].io->set_timer(fixture->actors[1].io, sim_now(fixture->sim) + 1);
    fixture->actors[0].io->set_timer(fixture->actors[0].io, sim_now(fixture->sim) + 1);
    sim_pause(fixture->sim, 1, until_us);
    run(fixture);
    assert_int_equal(fixture->actors[1].count, 20);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(fixture->actors[1].at_us[i] >= until_us);
    }
    assert_true(fixture->actors[1].timer_us >= until_us);
    assert_true(fixture->actors[0].timer_us < until_us);
    fixture_close(fixture);
}

TEST(short_separations_hold_long_ones_break) {
    static const unsigned char sides[] = {1, 2};
    static const uint64_t durations_us[] = {100 * 1000, 2000 * 1000};
    for (unsigned d = 0; d < 2; d++) {
        struct fixture *fixture = fixture_open(3);
        uint64_t until_us = sim_now(fixture->sim) + durations_us[d];
        sim_separate(fixture->sim, sides, until_us);
        for (uint64_t n = 0; n < 10; n++) {
            send_number(fixture, 0, 1, n);
            send_number(fixture, 1, 0, n);
        }
        run(fixture);
        assert_int_equal(fixture->actors[1].count, 10);
        assert_int_equal(fixture->actors[0].count, d == 0 ? 10 : 0); /* the answering side dropped them */
        for (unsigned i = 0; i < 10; i++) {
            assert_int_equal(fixture->actors[1].numbers[i], i);
            assert_true(fixture->actors[1].at_us[i] >= until_us);
        }
        fixture_close(fixture);
    }
}

static void count_call(void *context) {
    ++*(unsigned *)context;
}

TEST(timers_calls_and_removal) {
    struct fixture *fixture = fixture_open(1);
    struct io *io = fixture->actors[0].io;
    unsigned calls = 0;
    uint64_t now_us = sim_now(fixture->sim);
    assert_int_equal(io->now_us(io), now_us);
    io->set_timer(io, now_us + 10);
    io->set_timer(io, now_us + 50000); /* replaces the first timer */
    run(fixture);
    assert_true(fixture->actors[0].timer_us >= now_us + 50000);
    uint64_t rang_us = fixture->actors[0].timer_us;
    io->set_timer(io, sim_now(fixture->sim) + 10);
    io->set_timer(io, 0); /* cancels the timer */
    sim_schedule(fixture->sim, 0, 0, count_call, &calls);
    run(fixture);
    assert_int_equal(fixture->actors[0].timer_us, rang_us);
    assert_int_equal(calls, 1);
    sim_schedule(fixture->sim, 1, sim_now(fixture->sim) + 10, count_call, &calls);
    send_number(fixture, 1, 0, 4);
    send_number(fixture, 0, 1, 5);
    sim_remove(fixture->sim, 1);
    run(fixture);
    assert_int_equal(calls, 1);
    assert_int_equal(fixture->actors[0].count, 1); /* sent before the removal */
    assert_int_equal(fixture->actors[1].count, 0);
    fixture_close(fixture);
}
