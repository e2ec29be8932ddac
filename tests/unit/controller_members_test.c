/* The controller and members: failures of members that answer in part, and of silent ones. */
#include "tests/unit/controller_fixture.h"

/* Plays until the controller removes a member with `text` as the reason. */
static void play_to_failure(struct fake *fake, const char *text) {
    for (unsigned r = 0; lines_with(fake, text) == 0; r++) {
        assert_true(r < ROUNDS_MAX && fake->end.ended == 0);
        play(fake);
    }
    assert_int_equal(lines_with(fake, "\"event\":\"failure\""), 1);
}

static struct fake *deaf_cluster(enum message_type deaf) {
    struct fake *fake = cluster_at(STAGE_2, 1000, 1, 3, 5);
    fake->players[2].deaf = deaf;
    return fake;
}

/* A node answers everything except a fence, barrier or plan: the others go on without it. */
TEST(who_is_heard_has_to_answer) {
    static const struct {
        enum message_type deaf;
        const char *text;
    } cases[] = {{MESSAGE_HEARTBEAT_ACK, "has not answered a barrier"},
                 {MESSAGE_PLAN, "has not answered a plan"},
                 {MESSAGE_FENCE, "has not answered a fence"}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = deaf_cluster(cases[c].deaf);
        if (cases[c].deaf == MESSAGE_FENCE) {
            fake->players[3].there = false;
            ask(fake, OPERATOR, MESSAGE_GONE, "n3");
            fake->controller.progress.failures = 0;
            play_rounds(fake, 2);
            for (unsigned r = 0; lines_with(fake, cases[c].text) == 0; r++) {
                assert_true(r < ROUNDS_MAX);
                play(fake);
            }
        } else {
            enter(fake, 4, TIER_TRANSIENT);
            play_to_failure(fake, cases[c].text);
        }
        assert_int_equal(lines_with(fake, "n2 (host, pid 1) sends heartbeats, but for 9."), 1);
        play_to(fake, fake->clock + 20);
        assert_true(fake->players[2].rejoin);
    }
}

/* A node that ignores plans may cause the loss of others. Each loss makes a new plan but does not extend the wait. */
TEST(a_plan_is_owed_through_recoveries) {
    struct fake *fake = deaf_cluster(MESSAGE_PLAN);
    enter(fake, 4, TIER_TRANSIENT);
    play_rounds(fake, ANSWER_MS * 2 / 3 * UINT64_C(1000) / ROUND_US);
    fake->players[4].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n4");
    play_rounds(fake, ANSWER_MS / 2 * UINT64_C(1000) / ROUND_US);
    assert_int_equal(lines_with(fake, "has not answered a plan"), 1);
}

/* All nodes wait for a node that may be computing a long clock. A barrier without a clock shows whether it still
 * receives messages; if it answers, it may compute on. */
TEST(a_long_clock_is_no_failure) {
    for (unsigned deaf = 0; deaf < 2; deaf++) {
        struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
        fake_start(fake);
        begin(fake);
        uint64_t number = fake->controller.barrier.number;
        for (unsigned r = 0; r < 40 * TIMEOUT_MS / HEARTBEAT_MS && fake->controller.member_count == 2; r++) {
            tick(fake, HEARTBEAT_MS * UINT64_C(500));
            tick(fake, HEARTBEAT_MS * UINT64_C(500));
            heartbeat(fake, 0, NODE_STARTED, 1);
            struct message message = {.type = MESSAGE_HEARTBEAT};
            message.heartbeat = (struct message_heartbeat){.state = NODE_STARTED,
                                                           .clock = 1,
                                                           .barrier = deaf ? number : fake->controller.barrier.number,
                                                           .version = fake->controller.plan.version,
                                                           .ready = fake->controller.plan.version};
            give(fake, 1, &message);
            forget(fake);
        }
        assert_true(fake->controller.barrier.number > number);
        assert_int_equal(fake->controller.member_count, deaf ? 1 : 2);
        assert_int_equal(lines_with(fake, "has not answered a barrier"), deaf);
    }
}

/* Lets `us` pass, in which node 0 waits for rows of node 1, and node 1 says that it `waits`; with `reads`, node 0 reads
 * more and more bytes. */
static void stand(struct fake *fake, uint64_t us, enum node_waits waits, bool reads) {
    for (uint64_t passed = 0; passed < us; passed += HEARTBEAT_MS * UINT64_C(1000)) {
        for (unsigned n = 0; n < 2; n++) {
            struct message message = {.type = MESSAGE_HEARTBEAT};
            message.heartbeat = (struct message_heartbeat){.state = NODE_STARTED,
                                                           .clock = 1,
                                                           .barrier = fake->controller.barrier.number,
                                                           .version = fake->controller.plan.version,
                                                           .ready = fake->controller.plan.version,
                                                           .waits = n == 0 ? NODE_WAITS_ROWS : (uint8_t)waits,
                                                           .waits_on = n == 0 ? node(1) : ACTOR_NONE};
            message.heartbeat.numbers.bytes_read = reads && n == 0 ? fake->io.now_us : 0;
            give(fake, n, &message);
            forget(fake);
        }
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
        tick(fake, HEARTBEAT_MS * UINT64_C(500));
        forget(fake);
    }
}

static void stand_still(struct fake *fake, uint64_t us, enum node_waits waits) {
    stand(fake, us, waits, false);
}

static bool status_has(struct fake *fake, const char *text) {
    char *status = report_status(&fake->controller);
    bool has = strstr(status, text) != NULL;
    free(status);
    return has;
}

/* When nothing moves, the report says after a failure timeout what is awaited of whom, and again when it has lasted
 * twice as long. A node that works may take six timeouts. */
TEST(a_standstill_is_told) {
    const uint64_t timeout_us = TIMEOUT_MS * UINT64_C(1000);
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    fake_start(fake);
    begin(fake);
    progress(fake, 0, 1);
    stand_still(fake, timeout_us * 5, NODE_WAITS_NOT);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 0);
    assert_true(status_has(fake, "\"waiting_for\":\"clock 1: two (works)\""));
    stand_still(fake, timeout_us * 2, NODE_WAITS_NOT);
    assert_int_equal(lines_with(fake, "for clock 1: two (works)"), 1);
    stand_still(fake, timeout_us * 4, NODE_WAITS_NOT);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 1);
    progress(fake, 1, 1);
    stand_still(fake, timeout_us / 4, NODE_WAITS_COMMIT);
    assert_false(status_has(fake, "waiting_for"));
    stand_still(fake, timeout_us * 3 / 2, NODE_WAITS_COMMIT);
    assert_int_equal(lines_with(fake, "for clock 2: node-1 (waits for rows of two), two (waits for a commit)"), 1);
    stand_still(fake, timeout_us, NODE_WAITS_COMMIT);
    assert_int_equal(lines_with(fake, "for clock 2: node-1"), 2);
    assert_int_equal(fake->controller.member_count, 2);
}

/* It also is one when things move, but no clock is completed. */
TEST(a_job_without_clocks_stands_still) {
    const uint64_t timeout_us = TIMEOUT_MS * UINT64_C(1000);
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 1000});
    fake_start(fake);
    begin(fake);
    stand(fake, timeout_us * 5, NODE_WAITS_COMMIT, true);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 0);
    assert_false(status_has(fake, "waiting_for"));
    stand(fake, timeout_us * 2, NODE_WAITS_COMMIT, true);
    assert_int_equal(lines_with(fake, "for clock 1: node-1 (waits for rows of two), two (waits for a commit)"), 1);
    assert_true(status_has(fake, "\"waiting_for\":\"clock 1: "));
    stand(fake, timeout_us * 4, NODE_WAITS_COMMIT, true);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 1);
    stand(fake, timeout_us * 3, NODE_WAITS_COMMIT, true);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 2);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    stand(fake, timeout_us * 5, NODE_WAITS_COMMIT, true);
    assert_int_equal(lines_with(fake, "\"event\":\"waiting\""), 2);
}

/* A server does not promise its part of a checkpoint. Each attempt is put off, but the wait is not extended. */
TEST(a_checkpoint_has_to_be_promised) {
    char root[ROOT_BYTES];
    struct fake *fake = checkpointed(STAGE_1, 1000, root);
    cluster_open(fake, 2, 1);
    play_to(fake, 3);
    fake->players[1].deaf = MESSAGE_CHECKPOINT;
    ask_now(fake, 1);
    play_to_failure(fake, "n1 (host, pid 1) sends heartbeats, but for 9.");
    assert_int_equal(lines_with(fake, "has not answered the request for a checkpoint"), 1);
    remove_tree(root);
}

/* Time in which the controller was busy, stopped or down does not count as the members' delay. */
TEST(own_delays_are_no_missing_answers) {
    struct fake *fake = stored_cluster(STAGE_2, 1000);
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    fake->players[2].deaf = MESSAGE_HEARTBEAT_ACK;
    enter(fake, 4, TIER_TRANSIENT);
    /* each tick is late, but by too little to count as a stop; 100 of them are 100 s */
    for (unsigned r = 0; r < 100; r++) {
        fake->io.now_us += 950 * 1000;
        play(fake);
    }
    assert_int_equal(lines_with(fake, "has not answered"), 0);
    for (unsigned r = 0; r < 3; r++) {
        play_rounds(fake, 100);
        restart(fake);
        fake->io.now_us += 20 * TIMEOUT_MS * UINT64_C(1000);
    }
    play_rounds(fake, 100);
    assert_int_equal(lines_with(fake, "has not answered"), 0);
    play_to_failure(fake, "n2 (host, pid 1) sends heartbeats, but for 9.");
}

/* Without a controller nodes go on up to WIRE_PROGRESS_MAX clocks beyond what is stored, and of a group of clocks
 * another node may have reported more. */
TEST(a_group_beyond_the_limit_is_possible) {
    for (unsigned beyond = 0; beyond < 2; beyond++) {
        struct fake *fake = fake_open((struct job_terms){
            .clocks_per_iteration = 8, .local_steps = 8, .strategy = STRATEGY_SMA, .iterations = 1000});
        begin(fake);
        heartbeat(fake, 1, NODE_STARTED, WIRE_PROGRESS_MAX + 2 * 8 + beyond);
        assert_int_equal(fake->controller.member_count, beyond > 0 ? 1 : 2);
    }
}

/* Impossible heartbeats are refused. */
TEST(impossible_heartbeats) {
    static const struct {
        struct message_heartbeat beat;
        const char *text;
    } cases[] = {
        {{.clock = WIRE_CLOCK_MAX}, "HEARTBEAT with clock 4294967280, at most 10 is possible"},
        {{.committed = WIRE_CLOCK_MAX}, "HEARTBEAT with committed clock 4294967280, at most 10 is possible"},
        {{.version = 2}, "HEARTBEAT with plan 2, at most 1 is possible"},
        {{.version = 1, .ready = 2}, "HEARTBEAT with ready for plan 2, at most 1 is possible"},
        {{.barrier = 1000}, "HEARTBEAT with barrier 1000, at most 1 is possible"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
        begin(fake);
        struct message message = {.type = MESSAGE_HEARTBEAT, .heartbeat = cases[c].beat};
        message.heartbeat.state = NODE_STARTED;
        give(fake, 1, &message);
        expect_impossible(fake, cases[c].text);
        give(fake, 1, &message); /* repeated: logged once */
        expect_impossible(fake, cases[c].text);
        assert_true(sent(fake, node(1), MESSAGE_REJOIN, NULL) > 0);
        assert_int_equal(fake->controller.commit.clock, 0);
    }
}

TEST(impossible_progress) {
    static const struct {
        struct message_progress told;
        const char *text;
    } cases[] = {
        {{.clock = WIRE_CLOCK_MAX}, "PROGRESS with clock 4294967280, at most 4098 is possible"},
        {{.clock = 3, .idle = 3}, "PROGRESS with clocks without work 3, at most 2 is possible"},
        {{.clock = 1, .committed = 5000}, "PROGRESS with committed clock 5000, at most 4098 is possible"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10000});
        begin(fake);
        struct message_progress told = cases[c].told;
        told.origin = node(1);
        progress_told(fake, 1, &told, 1);
        expect_impossible(fake, cases[c].text);
    }
}

/* A false but possible commit has no effect before its clocks are reported, and the next failure reveals it. */
TEST(a_commit_counts_when_its_clocks_are_reported) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin_with_three(fake, 4);
    fake->clock = 50;
    heartbeat(fake, 1, NODE_STARTED, 5);
    assert_int_equal(fake->controller.commit.clock, 4);
    for (unsigned n = 0; n < 3; n++) {
        progress_as(fake, n, node(n), 5, THIRD_ITEMS, 1);
    }
    assert_int_equal(fake->controller.commit.clock, 5);
}

/* FENCED with restore points of other servers, or with clocks that cannot have begun. */
TEST(impossible_restore_points) {
    static const struct {
        struct message_fenced fenced;
        struct wire_restore_point reach;
        const char *text;
    } cases[] = {
        {{.begun = 5}, {.server = 7, .partition = 0, .clock = 5}, "a restore point of a server that is not"},
        {{.begun = 5}, {.partition = PARTITIONS, .clock = 5}, "FENCED with partition 4, at most 3 is possible"},
        {{.begun = 5}, {.clock = 101}, "FENCED with restore point 101, at most 100 is possible"},
        {{.begun = 5000}, {.clock = 5}, "FENCED with begun clock 5000, at most 100 is possible"},
        {{.begun = 5, .committed = 5000}, {.clock = 5}, "FENCED with committed clock 5000, at most 100 is possible"},
        {{.begun = 3}, {.clock = 3}, "FENCED with begun clock 3, but the node reported clock 4 before"},
        {{.begun = 5, .committed = 6}, {.clock = 5}, "FENCED with the state of clock 6, but one has not begun clock 6"},
        {{.begun = 9}, {.clock = 9}, "FENCED with the state of clock 9, but one has not begun clock 6"},
    };
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
        begin_with_three(fake, 4);
        ask(fake, OPERATOR, MESSAGE_GONE, "three");
        struct wire_restore_point reach = cases[c].reach;
        reach.server = reach.server != 0 ? reach.server : actor_of_part(node(1), 1);
        struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = cases[c].fenced};
        fenced.frames[0] = buffer_copy(&reach, sizeof reach);
        give(fake, 1, &fenced);
        answer_fence(fake, 0, 5, 5);
        assert_int_equal(lines_with(fake, cases[c].text), 1);
        assert_int_equal(fake->controller.member_count, 1);
        answer_fence(fake, 0, 5, 5); /* for the next epoch */
        assert_int_equal(fake->controller.plan.restore, 5);
        assert_true(fake->controller.phase == PHASE_TRAIN && fake->controller.change.state != CHANGE_RECOVER);
    }
}

/* A node denies to have begun a clock whose state others have. It is removed, not the others. */
TEST(who_denies_what_others_have_is_given_up) {
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    begin_with_three(fake, 4);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    /* a controller that has just started knows no more */
    controller_find_member(&fake->controller, node(1))->reported.clock = 0;
    answer_fence(fake, 1, 0, 0);
    answer_fence(fake, 0, 5, 5);
    assert_int_equal(lines_with(fake, "FENCED with clock 1 not begun, but one has the state of clock 5"), 1);
    assert_int_equal(fake->controller.member_count, 1);
    assert_non_null(controller_find_member(&fake->controller, node(0)));
    answer_fence(fake, 0, 5, 5); /* for the next epoch */
    assert_int_equal(fake->controller.plan.restore, 5);
}
