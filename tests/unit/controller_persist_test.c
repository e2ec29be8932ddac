/* The controller is killed, and another goes on from its store. */
#include "tests/unit/controller_fixture.h"

#include <jansson.h>
#include <math.h>

/* A run with every kind of event; its end must not depend on a kill of the controller. */
static void eventful_run(struct fake *fake, bool failure) {
    cluster_open(fake, 1, 2);
    play_to(fake, 3);
    enter(fake, 3, TIER_TRANSIENT);
    play_to(fake, 9);
    /* a killed controller may not have received the request */
    for (unsigned a = 0; a < 3 && fake->players[2].there; a++) {
        ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    }
    deliver(fake);
    play_to(fake, 14);
    if (failure) {
        fake->players[3].there = false;
        ask(fake, OPERATOR, MESSAGE_GONE, "n3");
        deliver(fake);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.ended, 1);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(fake->clock, 24);
    expect_report(fake, 12, !failure);
    const char *summary = fake->observed.lines[fake->observed.read - 1];
    assert_true(line_number(summary, "evictions") == 1);
    assert_true(line_number(summary, "failures") == (failure ? 1 : 0));
}

TEST(a_killed_controller_goes_on) {
    static const enum kill kills[] = {KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE};
    for (unsigned run = 0; run < 6; run++) {
        bool killed = true;
        for (unsigned at = 1; killed; at++) {
            struct fake *fake = stored_cluster(STAGE_2, 12);
            fake->kill.where = kills[run % 3];
            fake->kill.at = at;
            eventful_run(fake, run >= 3);
            killed = fake->kill.count > 0;
        }
    }
}

TEST(progress_is_acknowledged_when_it_is_stored) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    struct message ack;
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    forget(fake);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    assert_int_equal(fake->controller.progress.completed, 1);
    assert_int_equal(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, NULL), 0);
    tick(fake, CONTROLLER_STORE_US);
    assert_true(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack) > 0);
    assert_int_equal(ack.heartbeat_ack.progress, 1);
    forget(fake);
    progress(fake, 1, 1); /* the acknowledgement was lost */
    assert_int_equal(sent(fake, node(1), MESSAGE_HEARTBEAT_ACK, &ack), 1);
    assert_int_equal(ack.heartbeat_ack.progress, 1);
}

static double last_line_number(const struct fake *fake, const char *key) {
    return line_number(controller_line(&fake->controller, fake->controller.report.count - 1), key);
}

/* A clock of 2 s, reported by both nodes. */
static void report_clock_of_2_s(struct fake *fake, uint64_t clock) {
    for (unsigned n = 0; n < 2; n++) { /* node 1 is a little late in even clocks and catches up */
        uint64_t clock_us = clock % 2 == 0 ? 2100 * 1000 : 1900 * 1000;
        progress_timed(fake, n, node(n), clock, SHARDS / 2 * SHARD_ITEMS, 1, n == 0 ? 2000 * 1000 : clock_us);
    }
}

/* Training went on without a controller. The clocks reported at once afterwards took time nevertheless. */
TEST(time_without_a_controller) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 2, .iterations = 100});
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    for (uint64_t c = 1; c <= 4; c++) {
        tick(fake, 2000 * 1000);
        report_clock_of_2_s(fake, c);
        tick(fake, CONTROLLER_STORE_US);
        fake->io.now_us -= CONTROLLER_STORE_US;
    }
    assert_true(last_line_number(fake, "iteration") == 2);
    assert_true(fabs(last_line_number(fake, "seconds") - 8) < 0.01);
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
    controller_close(&fake->controller);
    fake->io.now_us += 13 * 1000 * 1000; /* six clocks, and half of the next */
    fake_start(fake);
    fake->io.now_us += 1000;
    for (uint64_t c = 5; c <= 10; c++) {
        report_clock_of_2_s(fake, c);
        assert_int_equal(fake->controller.progress.completed, c);
        assert_true(fabs(last_line_number(fake, "seconds") - 2.0 * (double)c) < 0.2);
    }
    assert_true(last_line_number(fake, "iteration") == 5);
    assert_int_equal(lines_with(fake, "\"bytes_sent\":400,"), 5); /* 2 nodes, 2 clocks, 100 bytes each */
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
    fake->io.now_us += 999 * 1000;
    report_clock_of_2_s(fake, 11);
    fake->io.now_us += 2000 * 1000;
    report_clock_of_2_s(fake, 12);
    assert_true(fabs(last_line_number(fake, "seconds") - 24) < 0.2);
    assert_true(fabs(last_line_number(fake, "items_per_second") - SHARDS * SHARD_ITEMS / 2.0) < 1);
}

/* A catch-up's progress is acknowledged when it is stored, and counted once, across a restart of the controller. */
TEST(catch_ups_are_acknowledged_when_they_are_stored) {
    struct fake *fake = fake_new((struct job_terms){.staleness = 2, .clocks_per_iteration = 1, .iterations = 100});
    struct message message;
    fake->options.store = &fake->store.store;
    begin_with_three(fake, 6);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    forget(fake);
    answer_fence(fake, 0, 6, 5);
    answer_fence(fake, 1, 6, 0);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, &message), 1);
    assert_int_equal(message.plan.restore, 5);
    unsigned late = assignment_items(&message, origin_catch_up(node(0), 2), 6) > 0 ? 0 : 1;
    uint64_t items = assignment_items(&message, origin_catch_up(node(late), 2), 6);
    assert_true(items > 0);
    for (unsigned round = 0; round < 3; round++) { /* the third time, to a restarted controller */
        forget(fake);
        progress_as(fake, late, origin_catch_up(node(late), 2), 6, items, 1);
        assert_true(sent(fake, node(late), MESSAGE_HEARTBEAT_ACK, &message) > 0);
        assert_int_equal(message.heartbeat_ack.progress, 6);
        assert_int_equal(message.heartbeat_ack.catch_up, round == 0 ? 5 : 6);
        tick(fake, CONTROLLER_STORE_US);
        assert_int_equal(fake->controller.progress.items_redone, items);
        if (round == 1) {
            controller_close(&fake->controller);
            fake_start(fake);
        }
    }
}

/* A barrier keeps its number and clock in a restarted controller, as nodes have both from the controller before. */
TEST(a_hold_outlives_the_controller) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.store = &fake->store.store;
    fake_start(fake);
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    for (unsigned n = 0; n < 3; n++) {
        heartbeat(fake, n, NODE_STARTED, 0);
    }
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    struct barrier barrier = fake->controller.barrier;
    controller_close(&fake->controller);
    fake_start(fake);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    assert_int_equal(fake->controller.barrier.number, barrier.number);
    assert_int_equal(fake->controller.barrier.clock, barrier.clock);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
        heartbeat(fake, n, NODE_STARTED, barrier.clock);
    }
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(fake->controller.plan.from_clock, barrier.clock + 1);
}

/* The report names the clock from which joined nodes take part, and the time that each phase took. */
TEST(nodes_that_take_part_are_reported) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned round = 0; round < 3; round++) { /* ready, at the barrier, and with the plan that names the switch */
        fake->io.now_us += 100 * 1000;
        for (unsigned n = 0; n < 3; n++) {
            heartbeat(fake, n, NODE_STARTED, 0);
        }
    }
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(fake->controller.plan.from_clock, 2);
    assert_int_equal(lines_with(fake, "\"event\":\"take-part\""), 0);
    for (uint64_t clock = 1; clock <= 2; clock++) {
        fake->clock = clock;
        for (unsigned n = 0; n < 3; n++) {
            if (clock == 2 || n < 2) {
                progress(fake, n, clock);
            }
            heartbeat(fake, n, NODE_STARTED, clock == 2 || n < 2 ? clock : 0);
        }
    }
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    assert_int_equal(lines_with(fake, "\"event\":\"take-part\""), 1);
    assert_int_equal(lines_with(fake,
                                "\"nodes\":[\"three\"],\"reason\":\"from clock 2 on; gathered in 50 ms, prepared in "
                                "100 ms, switched in 200 ms\",\"first_clock\":2"),
                     1);
}

/* No message follows the last registration, so only the timer can make the plan. */
TEST(a_plan_is_made_when_it_is_due) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.heartbeat_ms = 1000;
    fake_start(fake);
    begin(fake);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    uint64_t due_us = fake->controller.change.due_us;
    assert_int_equal(due_us, fake->io.now_us + CONTROLLER_JOIN_WAIT_US);
    while (fake->io.now_us < due_us) {
        assert_int_equal(fake->controller.change.state, CHANGE_NONE);
        tick(fake, fake->controller.times.tick_us - fake->io.now_us);
    }
    assert_int_equal(fake->io.now_us, due_us);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
}

/* The present clock is the last of the old plan, unless it is about to end or an origin has begun a later clock. */
TEST(a_plan_changes_after_the_clock_under_way) {
    static const struct {
        uint64_t clock_us; /* how long the previous clock took */
        uint64_t begun;    /* the latest clock that a node has begun */
        uint64_t last;     /* the last clock of the old plan */
    } cases[] = {{1000 * 1000, 2, 2},
                 {1000 * 1000, 1, 2},
                 {CONTROLLER_JOIN_WAIT_US + 10 * 1000, 2, 3},
                 {10 * 1000, 2, 3},
                 {1000 * 1000, 3, 4}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100, .staleness = 1});
        begin(fake);
        fake->io.now_us += cases[c].clock_us;
        for (unsigned n = 0; n < 2; n++) {
            progress_timed(fake, n, node(n), 1, SHARDS / 2 * SHARD_ITEMS, 1, cases[c].clock_us);
        }
        assert_int_equal(fake->controller.progress.completed, 1);
        join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
        tick(fake, CONTROLLER_JOIN_WAIT_US);
        assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
        heartbeat(fake, 0, NODE_STARTED, 1);
        heartbeat(fake, 1, NODE_STARTED, cases[c].begun);
        heartbeat(fake, 2, NODE_STARTED, 0);
        assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
        assert_int_equal(fake->controller.barrier.clock, cases[c].last);
    }
}

/* A cluster of two in training that expects these machines. */
static struct fake *expecting(const char *names) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake_start(fake);
    begin(fake);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    allocate(fake, names);
    return fake;
}

/* Observers get the job's stop criteria to show its progress. */
TEST(the_stop_criteria_are_known) {
    struct fake *fake = fake_new((struct job_terms){
        .clocks_per_iteration = 2, .iterations = 100, .seconds = 90.5, .tolerance = 1e-4, .tolerance_iterations = 3});
    fake_start(fake);
    begin(fake);
    assert_int_equal(lines_with(fake, "\"event\":\"start\",\"iteration\":0,"), 1);
    assert_int_equal(lines_with(fake, "\"nodes\":[],\"iterations\":100,\"until_seconds\":90.5,\"tolerance\":0.0001,"
                                      "\"tolerance_iterations\":3}"),
                     1);
    char *text = report_status(&fake->controller);
    json_auto_t *status = json_loads(text, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(status, "iterations")), 100);
    assert_true(json_number_value(json_object_get(status, "until_seconds")) == 90.5);
    assert_true(json_number_value(json_object_get(status, "tolerance")) == 1e-4);
    assert_int_equal(json_integer_value(json_object_get(status, "tolerance_iterations")), 3);
    free(text);
    fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 7});
    fake_start(fake);
    begin(fake);
    text = report_status(&fake->controller);
    assert_non_null(strstr(text, "\"iterations\":7"));
    assert_null(strstr(text, "until_seconds"));
    assert_null(strstr(text, "tolerance"));
    free(text);
}

static bool is_expected(struct fake *fake, const char *name) {
    FREED char *text = report_status(&fake->controller);
    json_auto_t *status = json_loads(text, 0, NULL);
    json_t *expected = json_object_get(status, "expected");
    bool found = false;
    for (size_t e = 0; e < json_array_size(expected); e++) {
        json_t *machine = json_array_get(expected, e);
        assert_string_equal(json_string_value(json_object_get(machine, "tier")), "transient");
        found = found || strcmp(json_string_value(json_object_get(machine, "name")), name) == 0;
    }
    return found;
}

TEST(allocated_machines_are_expected_until_they_join) {
    struct fake *fake = expecting("c a b a two");
    assert_int_equal(fake->controller.expected.count, 3); /* each name once; 'two' has joined already */
    assert_true(is_expected(fake, "a") && is_expected(fake, "b") && is_expected(fake, "c"));
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 1);
    assert_int_equal(lines_with(fake, "\"nodes\":[\"a\",\"b\",\"c\"]"), 1);
    tick(fake, 7 * 1000 * 1000);
    join(fake, 2, "b", TIER_TRANSIENT, &fake->terms);
    assert_true(is_expected(fake, "a") && !is_expected(fake, "b") && is_expected(fake, "c"));
    assert_true(fabs(fake->controller.features.rebalance.pending_seconds - 7) < 0.1);
    allocate(fake, "b c d"); /* an older list: 'b' has joined since it was sent */
    assert_true(!is_expected(fake, "a") && !is_expected(fake, "b") && is_expected(fake, "c") && is_expected(fake, "d"));
    /* only of the machine that joined again */
    assert_true(fabs(fake->controller.features.rebalance.pending_seconds - 7) < 0.1);
    /* only if the list has new machines */
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 2);
    assert_int_equal(lines_with(fake, "\"nodes\":[\"d\"]"), 1);
    allocate(fake, "c d");
    assert_int_equal(lines_with(fake, "\"event\":\"allocation\""), 2);
    allocate(fake, "");
    assert_int_equal(fake->controller.expected.count, 0);
}

TEST(one_plan_takes_in_all_that_are_expected) {
    struct fake *fake = expecting("a b");
    uint64_t version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_EXPECTED_WAIT_US / 2);
    assert_int_equal(fake->controller.plan.version, version); /* waits for b */
    join(fake, 3, "b", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1); /* waits for no other machine */
    assert_int_equal(fake->controller.plan.version, version + 1);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned m = 0; m < 4; m++) {
        assert_true(fake->controller.members[m].planned);
    }
}

TEST(a_machine_that_never_comes_is_not_waited_for_long) {
    struct fake *fake = expecting("a b c");
    uint64_t version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    tick(fake, CONTROLLER_EXPECTED_WAIT_US - CONTROLLER_JOIN_WAIT_US);
    join(fake, 3, "b", TIER_TRANSIENT, &fake->terms); /* the wait counts from the first machine */
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.plan.version, version + 1);
    fake = expecting("a b"); /* no wait once the machines are known not to come */
    version = fake->controller.plan.version;
    join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
    allocate(fake, "");
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.plan.version, version + 1);
}

TEST(who_leaves_does_not_wait_for_who_is_expected) {
    for (unsigned order = 0; order < 2; order++) { /* the notice comes before or after the first machine has joined */
        struct fake *fake = expecting("a b");
        uint64_t version = fake->controller.plan.version;
        if (order == 0) {
            ask(fake, OPERATOR, MESSAGE_EVICT, "two");
        }
        join(fake, 2, "a", TIER_TRANSIENT, &fake->terms);
        if (order == 1) {
            ask(fake, OPERATOR, MESSAGE_EVICT, "two");
        }
        tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
        assert_true(fake->controller.plan.version > version);
    }
}

/* Finds a sequence of numbers in the stored cluster. */
static unsigned char *find_stored(const struct fake *fake, const uint64_t *numbers, unsigned count) {
    for (unsigned e = 0; e < fake->store.count; e++) {
        const struct memory_entry *entry = &fake->store.entries[e];
        for (size_t at = 0; strcmp(entry->key, "cluster") == 0 && at + count * sizeof *numbers <= entry->size; at++) {
            if (memcmp(entry->bytes + at, numbers, count * sizeof *numbers) == 0) {
                return entry->bytes + at;
            }
        }
    }
    fail_msg("the stored cluster does not hold these numbers");
    return NULL;
}

static void expect_store_refused(struct fake *fake, const char *why) {
    struct controller other;
    struct error error = {0};
    assert_int_equal(controller_init(&other, &fake->io.io, &fake->options, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, why));
}

/* Overwrites a stored number by `wrong`: a controller that starts with this store must refuse it. */
static void expect_checked(struct fake *fake, unsigned char *stored, uint32_t wrong, const char *why) {
    uint32_t right;
    memcpy(&right, stored, sizeof right);
    memcpy(stored, &wrong, sizeof wrong);
    expect_store_refused(fake, why);
    memcpy(stored, &right, sizeof right);
}

TEST(a_damaged_store_is_refused) {
    struct fake *fake = lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, true);
    assert_true(fake->controller.lost.evaluation_count > 0);
    const struct lost_evaluation *evaluation = &fake->controller.lost.evaluations[0];
    const uint64_t evaluates[] = {evaluation->origin, evaluation->clock, evaluation->count};
    unsigned char *stored = find_stored(fake, evaluates, 3);
    expect_checked(fake, stored + sizeof evaluates, SHARDS, "the store is damaged: ");
    expect_checked(fake, stored + sizeof evaluates, UINT32_MAX, "the store is damaged: ");
    /* a shard listed twice */
    expect_checked(fake, stored + sizeof evaluates, evaluation->shards[1], "the store is damaged: ");
    /* too many shards */
    expect_checked(fake, stored + 2 * sizeof(uint64_t), SHARDS + 1, "the store is damaged: ");
    assert_true(fake->controller.plan.schedule.catch_up_count > 0);
    const struct schedule_catch_up *late = &fake->controller.plan.schedule.catch_ups[0];
    const uint64_t catches_up[] = {late->origin, late->from_clock, late->until_clock, late->count};
    stored = find_stored(fake, catches_up, 4);
    expect_checked(fake, stored + sizeof catches_up, SHARDS, "the store is damaged: ");
    restart(fake); /* the undamaged store is accepted */
}

/* A build with other fields in its structs refuses this store. */
TEST(a_store_of_another_build_is_refused) {
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->options.store = &fake->store.store;
    cluster_open(fake, 1, 1);
    play_to(fake, 5);
    const uint64_t sizes[] = {sizeof fake->controller.phase, sizeof fake->controller.plan.stage};
    unsigned char *stored = find_stored(fake, sizes, 2);
    expect_checked(fake, stored, sizeof fake->controller.phase + 1, "another version of this program");
    expect_checked(fake, stored - sizeof(uint64_t), 0, "another version of this program");
    restart(fake);
    expect_good_end(fake, 20);
}

TEST(a_store_that_fails_ends_the_job) {
    bool failed = true;
    for (unsigned at = 1; failed; at++) {
        struct fake *fake = stored_cluster(STAGE_1, 3);
        fake->store.fail_at = at;
        cluster_open(fake, 1, 2);
        play_to_end(fake);
        assert_int_equal(fake->end.ended, 1);
        failed = fake->end.code != 0;
        if (failed) {
            assert_int_equal(fake->end.code, AML_EFAIL);
            assert_string_equal(fake->end.text, "the store is full");
            assert_int_equal(lines_with(fake, "\"type\":\"summary\""), 1);
            assert_int_equal(lines_with(fake, "the store is full"), 1);
            assert_int_equal(fake->store.writes, at); /* earlier writes stay intact */
        }
        for (unsigned n = 0; n < 3; n++) { /* nodes end like the job */
            assert_true(!failed || !fake->players[n].done);
        }
        assert_true(at > 1 || failed);
    }
}
