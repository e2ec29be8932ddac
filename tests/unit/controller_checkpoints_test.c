/* The controller and checkpoints: when they begin, what ends them, and resuming. */
#include "tests/unit/controller_fixture.h"

/* "A checkpoint names a clock that all can still give", however short clocks are. */
TEST(checkpoints_always_succeed) {
    static const enum stage stages[] = {STAGE_TRADITIONAL, STAGE_1, STAGE_2, STAGE_3};
    static const unsigned speeds[] = {1, 3, 40};
    static const uint64_t iterations[] = {30, 90, 400};
    for (unsigned run = 0; run < 12; run++) {
        char root[ROOT_BYTES];
        struct fake *fake = checkpointed(stages[run % 4], iterations[run / 4], root);
        fake->speed = speeds[run / 4];
        cluster_open(fake, stages[run % 4] == STAGE_3 ? 1 : 2, stages[run % 4] == STAGE_TRADITIONAL ? 0 : 2);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->checkpoints.passed, 0);
        assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
        assert_true(lines_with(fake, "\"event\":\"checkpoint\"") >= 3);
        assert_int_equal(newest_checkpoint(root), fake->clock); /* --checkpoint-at-end */
        remove_tree(root);
    }
}

/* Without disturbances, checkpoints are of exactly the requested iterations. */
TEST(checkpoints_are_of_whole_iterations) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 22, root);
    cluster_open(fake, 2, 0);
    play_to_end(fake);
    static const char *const expected[] = {"iteration 5, clock 10,", "iteration 10, clock 20,",
                                           "iteration 15, clock 30,", "iteration 20, clock 40,",
                                           "iteration 22, clock 44,"};
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 5);
    for (unsigned e = 0; e < 5; e++) {
        assert_int_equal(lines_with(fake, expected[e]), 1);
    }
    remove_tree(root);
}

TEST(a_slow_disk_makes_checkpoints_rarer) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 60, root);
    fake->options.checkpoint_every = 1;
    fake->checkpoints.rounds = 9;
    cluster_open(fake, 1, 2);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-slow\""), 1);
    assert_int_equal(lines_with(fake, "takes longer than 1 iterations"), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
    assert_in_range(lines_with(fake, "\"event\":\"checkpoint\""), 5, 30);
    assert_int_equal(newest_checkpoint(root), 120);
    remove_tree(root);
}

/* "Failed ones leave nothing; a job asked for checkpoints that could write none ends with status 1" */
TEST(a_job_that_could_write_no_checkpoint_fails) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_2, 20, root);
    cluster_open(fake, 1, 2);
    fake->checkpoints.state = WRITTEN_FAILED;
    play_to(fake, 15);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 1);
    assert_int_equal(newest_checkpoint(root), 0);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "no checkpoint could be written into"));
    assert_non_null(strstr(fake->end.text, root));
    assert_non_null(strstr(fake->end.text, "the disk is full"));
    assert_int_equal(fake->clock, 40);
    assert_int_equal(newest_checkpoint(root), 0);
    remove_tree(root);

    fake = checkpointed(STAGE_2, 20, root); /* the first is written, the last fails: the job succeeds with a warning */
    cluster_open(fake, 1, 2);
    play_to(fake, 15);
    assert_true(newest_checkpoint(root) > 0);
    fake->checkpoints.state = WRITTEN_FAILED;
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"checkpoint_failed\":\"clock 40: "), 1);
    assert_int_equal(lines_with(fake, "; the newest checkpoint is of clock "), 1);
    remove_tree(root);

    fake = checkpointed(STAGE_2, 3, root); /* no checkpoint was due, and none is requested at the end */
    fake->options.checkpoint_at_end = false;
    cluster_open(fake, 1, 2);
    expect_good_end(fake, 3);
    assert_int_equal(newest_checkpoint(root), 0);
    remove_tree(root);
}

/* Plays until the operator gets an answer. */
static struct message_outcome play_to_outcome(struct fake *fake) {
    fake->observed.outcome = (struct message_outcome){0};
    for (unsigned r = 0; r < 100 && fake->observed.outcome.request == 0; r++) {
        play(fake);
    }
    return fake->observed.outcome;
}

/* "`proteus checkpoint` asks for one now" */
TEST(an_operator_asks_for_a_checkpoint) {
    struct message message;
    struct fake *fake = cluster_at(STAGE_2, 20, 1, 2, 3);
    ask_now(fake, 1);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_int_equal(message.outcome.code, AML_EINPUT);
    assert_non_null(strstr(message.outcome.text, "without --checkpoint"));

    char root[ROOT_BYTES];
    fake = checkpointed(STAGE_2, 100, root);
    fake->options.checkpoint_every = 1000;
    cluster_open(fake, 1, 2);
    ask_now(fake, 1);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_int_equal(message.outcome.code, AML_EINPUT);
    assert_non_null(strstr(message.outcome.text, "training has not begun"));
    forget(fake);
    play_to(fake, 9);
    ask_now(fake, 2);
    ask_now(fake, 2); /* a repeat starts no second checkpoint */
    struct message_outcome outcome = play_to_outcome(fake);
    assert_int_equal(outcome.request, 2);
    assert_int_equal(outcome.code, 0);
    uint64_t clock = newest_checkpoint(root);
    char text[64];
    snprintf(text, sizeof text, "clock %llu: %s", (unsigned long long)clock, root);
    assert_true(clock >= 9);
    assert_non_null(strstr(outcome.text, text));
    ask_now(fake, 2); /* the answer was lost; the operator asks again */
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_OUTCOME, &message), 1);
    assert_string_equal(message.outcome.text, outcome.text);
    forget(fake);
    fake->checkpoints.state = WRITTEN_FAILED;
    ask_now(fake, 3);
    outcome = play_to_outcome(fake);
    assert_int_equal(outcome.request, 3);
    assert_int_equal(outcome.code, AML_EFAIL);
    assert_non_null(strstr(outcome.text, "the disk is full"));
    fake->checkpoints.state = WRITTEN_DONE;
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 1);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(newest_checkpoint(root), 200);
    remove_tree(root);
}

/* During a checkpoint a node is lost, the job is stopped, or a node that writes is evicted. */
TEST(checkpoints_under_way_when_things_go_wrong) {
    enum { LOST, STOPPED, EVICTED, CASES };
    for (unsigned run = 0; run < CASES * 16; run++) {
        char root[ROOT_BYTES];
        struct fake *fake = checkpointed(STAGE_2, 60, root);
        fake->options.checkpoint_every = 2;
        fake->checkpoints.rounds = run % 16 < 8 ? 0 : 5;
        cluster_open(fake, 2, 2);
        play_to(fake, 8 + run % 8);
        struct message stop = {.type = MESSAGE_STOP};
        switch (run / 16) {
        case LOST:
            fake->players[3].there = false;
            ask(fake, OPERATOR, MESSAGE_GONE, "n3");
            break;
        case STOPPED:
            give(fake, OPERATOR, &stop);
            break;
        default:
            ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
            break;
        }
        deliver(fake);
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->checkpoints.passed, 0);
        assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
        assert_int_equal(newest_checkpoint(root), fake->clock);
        remove_tree(root);
    }
}

/* The controller is killed at every moment of a checkpoint; the job's checkpoints are written nevertheless. */
TEST(a_controller_is_killed_while_a_checkpoint_is_under_way) {
    static const enum kill kills[] = {KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE};
    for (unsigned run = 0; run < 3; run++) {
        bool killed = true;
        for (unsigned at = 1; killed; at += 1 + at / 40) {
            char root[ROOT_BYTES];
            struct fake *fake = checkpointed(STAGE_2, 12, root);
            fake->options.checkpoint_every = 3;
            fake->kill.where = kills[run];
            fake->kill.at = at;
            cluster_open(fake, 1, 2);
            expect_good_end(fake, 12);
            assert_int_equal(fake->checkpoints.passed, 0);
            assert_int_equal(lines_with(fake, "\"event\":\"checkpoint-failed\""), 0);
            assert_int_equal(newest_checkpoint(root), 24);
            killed = fake->kill.count > 0;
            remove_tree(root);
        }
    }
}

/* A node that does not answer delays the others by at most a second. */
TEST(a_checkpoint_waits_for_nobody_who_is_silent) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 40, root);
    cluster_open(fake, 2, 0);
    play_to(fake, 3);
    fake->players[1].deaf = MESSAGE_HEARTBEAT_ACK;
    ask_now(fake, 1);
    play_rounds(fake, 3);
    assert_true(fake->controller.barrier.clock != WIRE_CLOCK_NEVER);
    play_rounds(fake, 1000 * 1000 / ROUND_US + 1);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    fake->players[1].deaf = 0;
    expect_good_end(fake, 40);
    assert_int_equal(newest_checkpoint(root), 80);
    remove_tree(root);
}

/* "--rank 64, was 16": also if it differs between nodes. */
TEST(the_option_that_differs_is_named) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    forget(fake);
    set_option(fake, 0, "rank", "64", false);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app on host was started with other options than one on host: --rank 64, one has 16:");
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.25", true); /* within a job the option must be the same on all nodes */
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--rate 0.25, one has 0.5");
    fake->joining.setting_count = 1;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--rate not there, one has 0.5");
    set_option(fake, 1, "rate", "0.5", true);
    set_option(fake, 2, "decay", "1", true);
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "--decay 1, one has not there");
    fake->joining.setting_count = 2;
    struct job_terms other = fake->terms;
    other.digest++;
    join(fake, 1, "two", TIER_TRANSIENT, &other);
    expect_refused(fake, 1, "tables, metrics, items or phases differ, as between versions of the app");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
}

/* Before training, a node whose copy of the input differs is refused, with the difference. Checkpoints do not store
 * these findings. */
TEST(what_was_found_in_the_input_is_compared) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 1});
    set_option(fake, 0, "labels", "16", false); /* an option of the same name is independent */
    set_mark(fake, 1, "labels", "00000000000000a1");
    set_mark(fake, 2, "lines", "00000000000000b1");
    join(fake, 0, "one", TIER_RELIABLE, &fake->terms);
    forget(fake);
    set_mark(fake, 1, "labels", "00000000000000a2");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "the input differs: app two on host has found other labels than one on host: give all");
    set_mark(fake, 2, "lines", "00000000000000b2");
    join(fake, 1, "", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "the input differs: app on host has found other labels, lines than one on host");
    set_mark(fake, 1, "labels", "00000000000000a1");
    fake->joining.setting_count = 2;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app two on host has found other lines than one on host");
    set_mark(fake, 2, "lines", "00000000000000b1");
    set_mark(fake, 3, "maxima", "0000000000000000");
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    expect_refused(fake, 1, "app two on host has found other maxima than one on host");
    fake->joining.setting_count = 3;
    join(fake, 1, "two", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(1), MESSAGE_WELCOME, NULL), 1);
}

/* A resumed job reports iteration and clock, and its summary includes earlier work. Options that only steer may
 * change; other changed options are named. */
TEST(what_a_resumed_job_says) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 7, root);
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    set_mark(fake, 2, "lines", "00000000000000a1");
    cluster_open(fake, 1, 1);
    expect_good_end(fake, 7);

    fake = stored_cluster(STAGE_1, 10);
    fake->options.resume = root;
    set_option(fake, 0, "rank", "64", false);
    set_option(fake, 1, "rate", "0.25", true);
    fake_start(fake);
    join(fake, 0, "", TIER_RELIABLE, &fake->terms);
    expect_refused(fake, 0, ": --rank 64, was 16");
    set_option(fake, 0, "rank", "16", false);
    fake->clock = 14;
    for (unsigned n = 0; n < 2; n++) {
        enter(fake, n, n == 0 ? TIER_RELIABLE : TIER_TRANSIENT);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    char text[128];
    snprintf(text, sizeof text, "from iteration 7, clock 14: %s/clock-14; --rate 0.25, was 0.5", root);
    assert_int_equal(lines_with(fake, "\"event\":\"resume\""), 1);
    assert_int_equal(lines_with(fake, text), 1);
    const char *summary = fake->observed.lines[fake->observed.read - 1];
    assert_true(line_number(summary, "iterations") == 10);
    assert_true(line_number(summary, "resumed_iteration") == 7);
    assert_true(line_number(summary, "resumed_clock") == 14);
    assert_true(line_number(summary, "items_before") == 14.0 * SHARDS * SHARD_ITEMS);
    assert_true(line_number(summary, "items_processed") == 6.0 * SHARDS * SHARD_ITEMS);
    assert_true(line_number(summary, "seconds_before") > 0);

    fake = stored_cluster(STAGE_1, 7); /* the checkpoint is of the last clock: nothing is left to do */
    fake->options.resume = fake->options.checkpoint = root;
    fake->options.checkpoint_at_end = true;
    fake->clock = 14;
    set_option(fake, 0, "rank", "16", false);
    set_option(fake, 1, "rate", "0.5", true);
    cluster_open(fake, 1, 1);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"event\":\"checkpoint\""), 0);
    assert_int_equal(newest_checkpoint(root), 14);
    remove_tree(root);
}
