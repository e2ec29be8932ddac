/* The controller and feeders: when they are requested, their work, and when they are released. */
#include "tests/unit/controller_fixture.h"

#include <jansson.h>
#include <math.h>

/* Whether the newest plan contains the node, with its server's endpoint. */
static bool is_named(const struct fake *fake, unsigned number) {
    CLOSED_BY(plan_close) struct plan_view plan = plan_open(&fake->newest);
    bool named = false;
    for (size_t n = 0; n < plan.node_count; n++) {
        named = named || plan.nodes[n].actor == node(number);
    }
    assert_true((plan_endpoint(&plan, actor_of_part(node(number), 1)) != NULL) == named);
    return named;
}

/* The newest plan contains the feeder and assigns nothing to it. */
static void expect_feeder(const struct fake *fake, unsigned number) {
    CLOSED_BY(plan_close) struct plan_view plan = plan_open(&fake->newest);
    assert_true(is_named(fake, number));
    for (size_t n = 0; n < plan.node_count; n++) {
        assert_true(plan.nodes[n].actor != node(number) || plan.nodes[n].tier == TIER_FEEDER);
    }
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        assert_false(placement_names_node(&plan.placement[p], node(number)));
    }
    for (size_t a = 0; a < plan.assignment_count; a++) {
        assert_true(actor_node(plan.assignments[a].origin) != node(number));
    }
}

/* The job begins without its feeders, and no clock waits for a joining feeder. A plan with no other change adds it. */
TEST(feeders_are_not_waited_for) {
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 4; s++) {
        struct fake *fake = cluster_new(stages[s], 40);
        enter(fake, 3, TIER_FEEDER);
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        expect_feeder(fake, 3);
        uint64_t version = fake->newest.plan.version;
        uint64_t barrier = fake->controller.barrier.number;
        enter(fake, 4, TIER_FEEDER);
        play_rounds(fake, 10);
        expect_feeder(fake, 4);
        assert_int_equal(fake->newest.plan.version, version + 1);
        assert_int_equal(fake->controller.barrier.number, barrier);
        assert_int_equal(fake->newest.plan.from_clock, 0);
        assert_int_equal(lines_with(fake, "\"tier\":\"feeder\""), 2);
        play_rounds(fake, 10);
        assert_int_equal(fake->newest.plan.version, version + 1); /* one new plan */
        expect_good_end(fake, 40);
        assert_true(lines_with(fake, "\"feeders\":2") > 0);
        assert_int_equal(fake->saves.saver_count, 1);
        assert_int_equal(fake->saves.savers[0], 0);
    }
}

/* All feeders die at once, or one is evicted: no epoch ends, and no work is repeated. */
TEST(the_loss_of_feeders_needs_no_recovery) {
    static const enum stage stages[] = {STAGE_1, STAGE_3, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 3; s++) {
        struct fake *fake = cluster_new(stages[s], 400);
        enter(fake, 3, TIER_FEEDER);
        enter(fake, 4, TIER_FEEDER);
        enter(fake, 5, TIER_FEEDER);
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        ask(fake, OPERATOR, MESSAGE_EVICT, "n5");
        expect_outcome(fake, OPERATOR, 0, "");
        play_rounds(fake, 5);
        assert_true(fake->players[5].done);
        assert_int_equal(fake->controller.progress.evictions, 1);
        fake->players[3].there = fake->players[4].there = false;
        for (unsigned r = 0; fake->controller.member_count > 3; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
        play_rounds(fake, 5);
        assert_false(is_named(fake, 3) || is_named(fake, 4) || is_named(fake, 5));
        assert_int_equal(fake->controller.progress.failures, 2);
        assert_int_equal(fake->controller.plan.epoch, 1);
        assert_int_equal(fake->players[0].fences, 0);
        expect_good_end(fake, 400);
        assert_int_equal(fake->controller.progress.items_redone, 0);
    }
}

/* A feeder that hangs delays neither a change of plan nor a recovery. */
TEST(a_feeder_that_hangs_holds_up_nothing) {
    struct fake *fake = cluster_new(STAGE_1, 400);
    enter(fake, 3, TIER_FEEDER);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[3].stopped = true;
    uint64_t stopped_us = fake->io.now_us;
    enter(fake, 4, TIER_TRANSIENT);
    for (unsigned r = 0; assignment_items(&fake->newest, node(4), fake->clock) == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    die(fake, 2, 0);
    for (unsigned r = 0; fake->controller.plan.restore == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_true(fake->io.now_us < stopped_us + TIMEOUT_MS * UINT64_C(1000)); /* the feeder is still a member */
    assert_int_equal(fake->controller.member_count, 4);
    fake->players[3].stopped = false;
    play_rounds(fake, 20);
    assert_int_equal(fake->players[3].fences, 0);
    assert_int_equal(fake->players[3].epoch, 2); /* by its plan it knows the new epoch */
    expect_feeder(fake, 3);
    expect_good_end(fake, 400);
}

/* A feeder that reports what only a node with clocks can know is removed. Feeders' accusations are ignored;
 * accusations of feeders are believed. */
TEST(feeders_are_not_believed) {
    struct fake *fake = cluster_new(STAGE_2, 400);
    enter(fake, 3, TIER_FEEDER);
    enter(fake, 4, TIER_FEEDER);
    cluster_open(fake, 1, 2);
    play_to(fake, 5);
    fake->players[3].accuses = node(1);
    accuse(fake, 3, 1, 1);
    play_rounds(fake, 3 * TIMEOUT_MS / 20);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[3].clock = 1;
    play_rounds(fake, 5);
    assert_int_equal(lines_with(fake, "HEARTBEAT with clock 1, at most 0 is possible"), 1);
    accuse(fake, 2, 4, 1);
    play_rounds(fake, 5);
    assert_int_equal(fake->controller.progress.failures, 2);
    assert_int_equal(fake->controller.plan.epoch, 1);
    assert_false(is_named(fake, 3) || is_named(fake, 4));
    expect_good_end(fake, 400);
}

/* A feeder reports a failure, for example because its app has no transforms. Before training this ends the job; later
 * only the feeder goes. */
TEST(a_feeder_that_fails) {
    for (unsigned late = 0; late < 2; late++) {
        struct message failure = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT, .text = "no transforms"}};
        struct fake *fake = cluster_new(STAGE_TRADITIONAL, 40);
        enter(fake, 2, TIER_FEEDER);
        cluster_open(fake, 1, 1);
        while (late ? fake->clock < 5 : !fake->players[2].welcomed) {
            play(fake);
        }
        give(fake, 2, &failure);
        fake->players[2].there = false;
        if (late) {
            expect_good_end(fake, 40);
        } else {
            play_to_end(fake);
            assert_int_equal(fake->end.code, AML_ELIMIT);
            assert_string_equal(fake->end.text, "no transforms");
        }
    }
}

/* A stage that fails at a feeder ends the job with the stage's error. */
TEST(a_stage_fails_at_a_feeder) {
    struct message failure = {.type = MESSAGE_FAIL, .text = {.code = AML_EINPUT, .text = "damaged image"}};
    struct fake *fake = cluster_new(STAGE_TRADITIONAL, 40);
    enter(fake, 2, TIER_FEEDER);
    cluster_open(fake, 1, 1);
    while (fake->clock < 5) {
        play(fake);
    }
    give(fake, 2, &failure);
    fake->players[2].there = false;
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EINPUT);
    assert_string_equal(fake->end.text, "damaged image");
}

/* A job that chooses its feeders: one trainer, whose clocks take 10 rounds, of which feeders can't do 2. It can use
 * at most 4 feeders. */
static struct fake *fed_cluster(unsigned feeders_max) {
    struct fake *fake = stored_cluster(STAGE_1, 100000);
    fake->options.feeders_max = feeders_max;
    fake->feed = (struct fake_feed){.alone = 10, .rest = 2, .launched = 1, .launches = true, .round_trips = 5};
    cluster_open(fake, 1, 0);
    return fake;
}

static unsigned events(const struct fake *fake, const char *event) {
    char text[64];
    snprintf(text, sizeof text, "\"event\":\"%s\"", event);
    return lines_with(fake, text);
}

/* Plays until `feeders` feeders work and the policy has nothing more to try. */
static void play_to_feeders(struct fake *fake, unsigned feeders) {
    unsigned kept = events(fake, "keep-feeders");
    for (unsigned r = 0; working_feeders(fake) != feeders || events(fake, "keep-feeders") == kept; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.feeding.policy.state, FEEDERS_HOLD);
    assert_int_equal(fake->controller.progress.feeding.policy.wanted, feeders);
}

TEST(feeders_are_added_while_they_help) {
    for (unsigned most = 2; most <= 8; most += 6) {
        unsigned best = most < 4 ? most : 4;
        struct fake *fake = fed_cluster(most);
        play_to_feeders(fake, best);
        assert_int_equal(events(fake, "add-feeder"), best);
        play_rounds(fake, 1000);
        assert_int_equal(working_feeders(fake), best);
        assert_int_equal(events(fake, "add-feeder"), best);
        assert_int_equal(events(fake, "remove-feeders"), 0);
        assert_int_equal(fake->controller.plan.epoch, 1);
        FREED char *status = report_status(&fake->controller);
        assert_int_equal(line_number(status, "feeders_wanted"), best);
        assert_int_equal(line_number(status, "feeders_max"), most);
        assert_int_equal(line_number(status, "feeders_coming"), 0);
        assert_non_null(strstr(status, "\"feeders_reason\":\"trainers wait for "));
        assert_true((strstr(status, "2 feeders are kept, as many as there may be\"") != NULL) == (most == best));
    }
}

/* No feeder is added where transforms take little time, or where feeders were not requested. */
TEST(no_feeder_is_added_where_none_helps) {
    for (unsigned asked = 0; asked < 2; asked++) {
        struct fake *fake = fed_cluster(asked == 0 ? 0 : 8);
        fake->feed.rest = asked == 0 ? 2 : 9.5;
        play_rounds(fake, 1000);
        assert_int_equal(events(fake, "add-feeder"), 0);
        assert_int_equal(events(fake, "keep-feeders"), asked);
        assert_int_equal(lines_with(fake, "input takes 5 % of trainers' time: no feeder is needed"), asked);
        FREED char *status = report_status(&fake->controller);
        assert_int_equal(strstr(status, "feeders_wanted") != NULL, asked);
    }
}

/* A launcher that never starts a feeder gets rarer and rarer requests, and the job goes on. */
TEST(feeders_that_never_come) {
    struct fake *fake = fed_cluster(8);
    fake->feed.launches = false;
    fake->feed.alone = 50; /* so that the report has fewer lines */
    while (events(fake, "keep-feeders") == 0) {
        assert_true(fake->io.now_us < UINT64_C(3600) * 1000 * 1000);
        play_rounds(fake, 100);
    }
    assert_int_equal(events(fake, "add-feeder"), FEEDERS_REQUESTS);
    assert_int_equal(lines_with(fake, "10 requests brought no feeder that stayed: the job goes on with 0"), 1);
    assert_int_equal(feeding_coming(&fake->controller), 0);
}

/* Feeders that die are requested again, one at a time; no epoch ends. */
TEST(feeders_that_die_come_again) {
    struct fake *fake = fed_cluster(8);
    play_to_feeders(fake, 4);
    die(fake, 1, 0);
    die(fake, 3, 0);
    for (unsigned r = 0; working_feeders(fake) < 4; r++) {
        assert_true(r < ROUNDS_MAX);
        assert_true(feeding_coming(&fake->controller) <= 1);
        play(fake);
    }
    play_rounds(fake, 500);
    assert_int_equal(working_feeders(fake), 4);
    assert_int_equal(events(fake, "add-feeder"), 6);
    assert_int_equal(fake->controller.plan.epoch, 1);
    assert_int_equal(fake->controller.progress.items_redone, 0);
}

/* The controller is killed repeatedly, also while a feeder is joining: no feeder is requested twice. */
TEST(a_restarted_controller_goes_on_with_its_feeders) {
    struct fake *fake = fed_cluster(8);
    unsigned kills = 0;
    for (unsigned r = 0; events(fake, "keep-feeders") == 0; r++) {
        assert_true(r < 3 * ROUNDS_MAX);
        play(fake);
        if (r % 600 == 599 || (fake->feed.pending == 3 && kills < 3)) {
            fake->io.mute = true;
            called(fake);
            kills++;
        }
    }
    assert_true(kills >= 4);
    play_rounds(fake, 200);
    assert_int_equal(working_feeders(fake), 4);
    assert_int_equal(events(fake, "add-feeder"), 4);
    assert_int_equal(events(fake, "remove-feeders"), 0);
}

/* A job that also chooses its feeders' threads, and raises these before it requests another feeder. */
static struct fake *fed_cluster_with_threads(unsigned feeders_max, unsigned threads_max, unsigned all) {
    struct fake *fake = fed_cluster(feeders_max);
    fake->options.feeder_threads = all;
    fake->controller.options.feeder_threads = all;
    fake->feed.threads_max = threads_max;
    return fake;
}

/* The job can use four threads at most: one feeder of four, or two of two. */
TEST(threads_are_raised_before_feeders_are_added) {
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        unsigned best = threads < 4 ? 4 / threads : 1;
        struct fake *fake = fed_cluster_with_threads(8, threads, 8);
        play_to_feeders(fake, best);
        play_rounds(fake, 500);
        assert_int_equal(events(fake, "add-feeder"), best);
        assert_int_equal(events(fake, "feeder-threads"), threads >= 4 ? 2 : threads / 2);
        assert_int_equal(working_threads(fake), 4);
        FREED char *status = report_status(&fake->controller);
        assert_int_equal(line_number(status, "feeder_threads"), threads < 4 ? threads : 4);
        assert_int_equal(line_number(status, "feeder_threads_max"), threads < 8 / best ? threads : 8 / best);
    }
}

/* All feeders together have no more threads than the job allows, whatever each could have. */
TEST(feeders_share_threads) {
    struct fake *fake = fed_cluster_with_threads(8, 16, 3);
    play_to_feeders(fake, 1);
    assert_int_equal(working_threads(fake), 3);
    enter(fake, 11, TIER_FEEDER); /* a feeder that the launcher did not start */
    for (unsigned r = 0; fake->controller.progress.feeding.policy.wanted < 2; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        assert_in_range(working_threads(fake), 1, 4); /* 3 and the new feeder's */
    }
    assert_int_equal(working_threads(fake), 2);
    assert_int_equal(fake->controller.progress.feeding.policy.threads, 1);
}

/* A restarted controller, and feeders in place of lost ones, go on with the same number of threads. */
TEST(threads_outlive_controllers_and_feeders) {
    struct fake *fake = fed_cluster_with_threads(8, 2, 8);
    unsigned kills = 0;
    for (unsigned r = 0; events(fake, "keep-feeders") == 0; r++) {
        assert_true(r < 3 * ROUNDS_MAX);
        play(fake);
        if (r % 600 == 599 || (kills == 0 && events(fake, "feeder-threads") == 1)) {
            fake->io.mute = true;
            called(fake);
            kills++;
        }
    }
    assert_true(kills >= 2);
    assert_int_equal(working_feeders(fake), 2);
    assert_int_equal(working_threads(fake), 4);
    assert_int_equal(events(fake, "feeder-threads"), 1);
    die(fake, 1, 0);
    for (unsigned r = 0; working_threads(fake) < 4; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(working_feeders(fake), 2);
    assert_int_equal(events(fake, "feeder-threads"), 1);
}

/* Windows with a change of plan are not used. After a change of trainers, the search starts from the present number
 * of feeders. */
TEST(other_trainers_need_other_feeders) {
    struct fake *fake = fed_cluster(10);
    play_to_feeders(fake, 4);
    enter(fake, 11, TIER_TRANSIENT);
    play_to_feeders(fake, 7); /* then trainers wait for 10 % of their time */
    assert_int_equal(fake->controller.progress.feeding.trainers, 2);
    assert_int_equal(events(fake, "add-feeder"), 7);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n11"); /* half of the feeders are now too many */
    for (unsigned r = 0; working_feeders(fake) > 6; r++) {
        assert_true(r < 2 * ROUNDS_MAX);
        play(fake);
    }
    assert_int_equal(fake->controller.progress.feeding.trainers, 1);
    assert_int_equal(lines_with(fake, "% of their time: 6 are enough"), 1);
    assert_int_equal(events(fake, "remove-feeders"), 1);
    assert_int_equal(fake->controller.progress.failures, 0);
}

TEST(status_is_json) {
    static const char *const keys[] = {"app",      "phase",     "change",      "stage",       "epoch",
                                       "version",  "iteration", "clock",       "committed",   "final",
                                       "seconds",  "objective", "threshold_2", "threshold_3", "items_redone",
                                       "failures", "evictions", "nodes",       "partitions"};
    static const char *const node_keys[] = {
        "name",   "host",   "pid",     "tier",       "threads",        "state",        "leaving",  "clock",
        "shards", "serves", "follows", "bytes_sent", "bytes_received", "memory_bytes", "silent_ms"};
    struct fake *fake = cluster_new(STAGE_2, 20);
    struct message ask_status = {.type = MESSAGE_STATUS, .frame_count = 1, .status = {.request = 3}};
    struct message status;
    cluster_open(fake, 1, 3);
    for (unsigned round = 0; round < 2; round++) { /* before there is any progress, and during training */
        ask_status.frame_count = 1;
        ask_status.frames[0] = buffer_copy("", 0);
        give(fake, OPERATOR, &ask_status);
        assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_STATUS, &status), 1);
        assert_int_equal(status.status.request, 3);
        json_auto_t *object = json_loadb((const char *)status.frames[0]->data, status.frames[0]->size, 0, NULL);
        assert_non_null(object);
        for (unsigned k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            assert_non_null(json_object_get(object, keys[k]));
        }
        assert_int_equal(json_array_size(json_object_get(object, "nodes")), round == 0 ? 0 : 4);
        assert_int_equal(json_integer_value(json_object_get(object, "lines")), fake->controller.report.stored);
        assert_true(round == 0 || fake->controller.report.stored > 0);
        assert_int_equal(json_array_size(json_object_get(object, "partitions")), round == 0 ? 0 : PARTITIONS);
        for (size_t n = 0; n < json_array_size(json_object_get(object, "nodes")); n++) {
            for (unsigned k = 0; k < sizeof node_keys / sizeof node_keys[0]; k++) {
                assert_non_null(json_object_get(json_array_get(json_object_get(object, "nodes"), n), node_keys[k]));
            }
        }
        forget(fake);
        play_to(fake, 5);
    }
}

/* A node's heartbeat brings its numbers into the status, in the units of their keys. */
TEST(the_status_has_each_nodes_numbers) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin(fake);
    struct message beat = {.type = MESSAGE_HEARTBEAT,
                           .heartbeat = {.state = NODE_STARTED,
                                         .numbers = {.bytes_read = 12, .shards_taken = 7, .disk_wait_us = 1500000}}};
    give(fake, 1, &beat);
    struct message ask_status = {.type = MESSAGE_STATUS, .frame_count = 1, .status = {.request = 3}};
    struct message status;
    ask_status.frames[0] = buffer_copy("", 0);
    forget(fake);
    give(fake, OPERATOR, &ask_status);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_STATUS, &status), 1);
    struct report_line *line = report_line_read((const char *)status.frames[0]->data, status.frames[0]->size, NULL);
    assert_non_null(line);
    assert_int_equal(line->nodes.count, 2);
    assert_true(line->nodes.list[0].shards_taken == 0 && line->nodes.list[0].disk_wait_seconds == 0);
    assert_true(line->nodes.list[1].bytes_read == 12 && line->nodes.list[1].shards_taken == 7);
    assert_true(line->nodes.list[1].disk_wait_seconds == 1.5 && line->nodes.list[1].feed_threads == 0);
    report_line_drop(line);
}

TEST(gone_nodes_are_not_waited_for) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_EINPUT, .text = "two: no such file"}};
    begin(fake);
    give(fake, 1, &fail);
    expect_failure(fake, "no such file");
    assert_int_equal(fake->end.ended, 0);
    ask(fake, OPERATOR, MESSAGE_GONE, "node-1");
    assert_int_equal(fake->end.ended, 1);
    assert_int_equal(fake->end.code, AML_EINPUT);
}
