/* The controller and announced changes of the plan: evictions, nodes that come and go, stages. */
#include "tests/unit/controller_fixture.h"

/* Whether every partition's server, or with `next` its next server, is on a node of that tier. */
static bool placed_on(const struct message *plan, enum node_tier tier, bool next) {
    const struct wire_placement *place = (const void *)plan->frames[1]->data;
    const struct wire_node *nodes = (const void *)plan->frames[0]->data;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        actor_id server = actor_node(next ? place[p].next_server : place[p].server);
        for (size_t n = 0; n < plan->frames[0]->size / sizeof *nodes; n++) {
            if (nodes[n].actor == server && nodes[n].tier != (uint32_t)tier) {
                return false;
            }
        }
    }
    return true;
}

/* Prepare, set a barrier, raise it, switch, settle. The third node changes stage 1 to stage 2. */
TEST(a_node_joins_while_training) {
    struct fake *fake = fake_new((struct job_terms){.staleness = 1, .clocks_per_iteration = 2, .iterations = 100});
    struct message message;
    fake->options.policy.stage = STAGE_AUTO;
    fake_start(fake);
    begin(fake);
    assert_int_equal(fake->controller.plan.stage, STAGE_1);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    join(fake, 2, "three", TIER_TRANSIENT, &fake->terms);
    assert_int_equal(sent(fake, node(2), MESSAGE_WELCOME, NULL), 1);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE); /* more nodes may be joining */
    tick(fake, CONTROLLER_JOIN_WAIT_US + 1);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE);
    for (unsigned n = 0; n < 3; n++) {
        assert_int_equal(sent(fake, node(n), MESSAGE_PLAN, &message), 1);
        assert_int_equal(message.plan.version, 2);
        assert_int_equal(message.plan.from_clock, WIRE_CLOCK_NEVER);
        assert_true(placed_on(&message, TIER_RELIABLE, false) && placed_on(&message, TIER_TRANSIENT, true));
        assert_int_equal(message.epoch, 1);
    }
    bool prepared = false; /* the new node has an assignment without a clock */
    for (unsigned d = 0; d < assignment_count(&message); d++) {
        const struct wire_assignment *assignment = assignment_of(&message, d);
        prepared = prepared || (assignment->origin == node(2) && assignment->from_clock == WIRE_CLOCK_NEVER);
        assert_true(assignment->origin != node(2) || assignment->from_clock == WIRE_CLOCK_NEVER);
    }
    assert_true(prepared);
    heartbeat(fake, 2, NODE_LOADED, 0);
    assert_int_equal(sent(fake, node(2), MESSAGE_START, &message), 1);
    assert_int_equal(message.start.items, SHARDS * SHARD_ITEMS);
    heartbeat(fake, 0, NODE_STARTED, 2);
    heartbeat(fake, 1, NODE_STARTED, 2);
    assert_int_equal(fake->controller.change.state, CHANGE_PREPARE); /* the new node is not ready */
    heartbeat(fake, 2, NODE_STARTED, 0);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    uint64_t held = fake->controller.barrier.clock;
    assert_true(held > 2 && held < 100);
    assert_true(sent(fake, node(0), MESSAGE_HEARTBEAT_ACK, &message) > 0);
    assert_int_equal(message.heartbeat_ack.barrier_clock, held);

    heartbeat(fake, 1, NODE_STARTED, held + 1); /* the barrier came too late for this node */
    heartbeat(fake, 2, NODE_STARTED, 0);
    heartbeat(fake, 0, NODE_STARTED, held);
    assert_int_equal(fake->controller.change.state, CHANGE_BARRIER);
    assert_true(fake->controller.barrier.clock > held);
    uint64_t last = fake->controller.barrier.clock;
    forget(fake);
    heartbeat(fake, 0, NODE_STARTED, last);
    heartbeat(fake, 1, NODE_STARTED, last);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    heartbeat(fake, 2, NODE_STARTED, 0);
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, &message), 1);
    assert_int_equal(message.plan.version, 3);
    assert_int_equal(message.plan.from_clock, last + 1);
    assert_int_equal(assignment_items(&message, node(2), last), 0);
    assert_true(assignment_items(&message, node(2), last + 1) > 0);

    uint64_t number = fake->controller.barrier.number;
    for (unsigned n = 0; n < 3; n++) { /* the barrier remains until all nodes know the clock of the switch */
        assert_int_equal(fake->controller.barrier.number, number);
        heartbeat(fake, n, NODE_STARTED, n == 2 ? 0 : last);
    }
    assert_int_equal(fake->controller.barrier.number, number + 1);
    assert_int_equal(fake->controller.barrier.clock, WIRE_CLOCK_NEVER);
    fake->clock = last;
    heartbeat(fake, 0, NODE_STARTED, last + 1);
    assert_int_equal(fake->controller.plan.stage, STAGE_1);
    fake->clock = last + 1;
    heartbeat(fake, 0, NODE_STARTED, last + 2);
    /* the stage changes only when all have reported the clock */
    assert_int_equal(fake->controller.plan.stage, STAGE_1);

    /* The controller still knows the owners of the shards before the switch. */
    for (uint64_t c = 2; c <= last + 1; c++) {
        for (unsigned n = 0; n < (c > last ? 3 : 2); n++) {
            assert_int_equal(fake->controller.progress.completed, c - 1);
            progress(fake, n, c);
        }
    }
    assert_int_equal(fake->controller.progress.completed, last + 1);
    assert_int_equal(fake->controller.plan.stage, STAGE_2);
    assert_int_equal(sent(fake, node(1), MESSAGE_PLAN, &message), 2);
    assert_true(placed_on(&message, TIER_TRANSIENT, false) && placed_on(&message, TIER_TRANSIENT, true));
    assert_int_equal(lines_with(fake, "\"event\":\"stage\""), 1);
}

TEST(many_nodes_join) {
    struct fake *fake = cluster_at(STAGE_AUTO, 30, 1, 1, 5);
    enter(fake, 2, TIER_TRANSIENT);
    play_rounds(fake, 2); /* the next node joins while the change is prepared */
    enter(fake, 3, TIER_TRANSIENT);
    enter(fake, 4, TIER_RELIABLE);
    play_to(fake, 40);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    for (unsigned n = 0; n < 5; n++) {
        assert_true(assignment_items(&fake->newest, node(n), fake->clock + 1) > 0);
    }
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
}

TEST(an_operator_evicts) {
    struct fake *fake = cluster_at(STAGE_2, 40, 1, 3, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "nobody");
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no node of the job is called 'nobody'");
    ask(fake, OPERATOR, MESSAGE_EVICT, NULL);
    assert_int_equal(sent(fake, node(OPERATOR), MESSAGE_DONE, NULL), 1); /* a node that is not in the job may go */
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no reliable node would be left");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    expect_outcome(fake, OPERATOR, 0, "");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* a repeat has no effect */
    expect_outcome(fake, OPERATOR, 0, "");
    uint64_t asked = fake->clock;
    for (unsigned r = 0; !fake->players[1].done; r++) {
        assert_true(r < ROUNDS_MAX);
        assert_true(fake->players[1].there);
        play(fake);
    }
    assert_true(fake->clock > asked); /* the node went on working until others had taken over */
    assert_int_equal(assignment_items(&fake->newest, node(1), fake->clock), 0);
    play_rounds(fake, 3);
    assert_int_equal(fake->controller.member_count, 3);
    assert_int_equal(fake->controller.progress.evictions, 1);
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    assert_int_equal(lines_with(fake, "\"event\":\"evicted\""), 1);
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.items_redone, 0);
}

/* A market evicts many nodes at once, each by its own notice of no length: several evictions share a plan. */
TEST(evictions_one_by_one_share_plans) {
    struct fake *fake = cluster_at(STAGE_2, 40, 2, 8, 5);
    uint64_t before = fake->controller.plan.version;
    for (unsigned n = 2; n < 9; n++) {
        ask(fake, n, MESSAGE_EVICT, NULL);
        fake->io.now_us += 10;
    }
    assert_true(fake->controller.plan.version <= before + 1);
    play_to(fake, 20);
    for (unsigned n = 2; n < 9; n++) {
        assert_true(fake->players[n].done);
    }
    assert_true(fake->controller.plan.version <= before + 8); /* two changes of at most four versions each */
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
}

static void leave_in(struct fake *fake, unsigned number, uint32_t notice_ms) {
    struct message message = {
        .type = MESSAGE_EVICT, .evict = {.request = 17, .notice_ms = notice_ms}, .frame_count = 1};
    message.frames[0] = buffer_new(0);
    give(fake, number, &message);
}

/* Nodes that join or leave one by one get a plan together, as each plan goes to every node: the next plan waits for
 * more of them, the longer the more nodes there are. It does not wait if a notice is short, nor without end. */
TEST(changes_one_by_one_wait_for_each_other) {
    struct fake *fake = cluster_at(STAGE_2, 100, 2, 8, 5);
    struct controller *controller = &fake->controller;
    uint64_t gap_us = 10 * UINT64_C(10) * 1000;
    play_rounds(fake, 20);
    assert_int_equal(controller->change.state, CHANGE_NONE);
    leave_in(fake, 2, 60000); /* long after the last plan */
    assert_int_equal(controller->change.due_us, fake->io.now_us + CONTROLLER_JOIN_WAIT_US);
    controller->change.due = false;
    controller->plan.published_us = fake->io.now_us;
    leave_in(fake, 3, 60000); /* just after it */
    assert_int_equal(controller->change.due_us, fake->io.now_us + gap_us);
    leave_in(fake, 4, 120000); /* a later one moves nothing */
    assert_int_equal(controller->change.due_us, controller->plan.published_us + gap_us);
    leave_in(fake, 5, 400); /* a short notice */
    assert_int_equal(controller->change.due_us, fake->io.now_us + 400 * 1000 / CONTROLLER_NOTICE_PART);
    uint64_t due_us = controller->change.due_us;
    enter(fake, 10, TIER_TRANSIENT); /* who joins meanwhile does not delay who leaves */
    play(fake);
    assert_true(controller->change.due_us <= due_us);
    play_rounds(fake, 50);
    for (unsigned n = 2; n < 6; n++) {
        assert_true(fake->players[n].done);
    }
    assert_true(assignment_items(&fake->newest, node(10), fake->clock + 1) > 0);
    controller->plan.published_us = fake->io.now_us + UINT64_C(60) * 1000 * 1000; /* as with thousands of nodes */
    enter(fake, 11, TIER_TRANSIENT);
    play(fake);
    uint64_t joined_us = controller_find_member(controller, node(11))->joined_us;
    assert_int_equal(controller->change.due_us, joined_us + CONTROLLER_EXPECTED_WAIT_US);
    expect_good_end(fake, 100);
}

/* Stage transient: a market may give notice to all nodes at once. They work until a new node has taken over. */
TEST(all_transient_nodes_get_notice) {
    struct fake *fake = cluster_at(STAGE_TRANSIENT, 40, 0, 2, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, 0, "");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* an operator's eviction is refused */
    expect_outcome(fake, OPERATOR, AML_EINPUT, "no node would be left");
    ask(fake, 1, MESSAGE_EVICT, NULL);
    expect_outcome(fake, 1, 0, "");
    uint64_t asked = fake->clock;
    play_to(fake, asked + 4);
    enter(fake, 2, TIER_TRANSIENT);
    for (unsigned r = 0; !fake->players[0].done || !fake->players[1].done; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    assert_true(assignment_items(&fake->newest, node(2), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
    assert_int_equal(fake->controller.progress.failures, 0);
}

/* Some named nodes have already gone; the others are evicted. */
TEST(a_missing_node_does_not_cancel_an_eviction) {
    struct fake *fake = cluster_at(STAGE_2, 40, 1, 3, 5);
    static const char names[][WIRE_NAME_MAX] = {"gone", "n1", "never", "n2"};
    struct message message = {.type = MESSAGE_EVICT, .frame_count = 1};
    message.evict.request = 17;
    message.evict.notice_ms = 60000;
    message.frames[0] = buffer_copy(names, sizeof names);
    give(fake, OPERATOR, &message);
    expect_outcome(fake, OPERATOR, 0, "no node of the job is called 'gone', 'never'");
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    expect_good_end(fake, 40);
    assert_true(fake->players[1].done);
    assert_true(fake->players[2].done);
    assert_int_equal(fake->controller.progress.evictions, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
}

/* A plan without an evicted node waits for further notices no longer than the shortest notice allows. */
TEST(a_shorter_notice_counts) {
    struct fake *fake = cluster_at(STAGE_1, 60, 1, 2, 5);
    const uint32_t notices_ms[] = {60000, 200, 60000};
    uint64_t waits_us[3];
    for (unsigned n = 0; n < 3; n++) {
        struct message message = {.type = MESSAGE_EVICT, .frame_count = 1};
        message.evict.request = 17;
        message.evict.notice_ms = notices_ms[n];
        message.frames[0] = buffer_copy("", 0);
        give(fake, 2, &message);
        expect_outcome(fake, 2, 0, "");
        assert_true(fake->controller.change.due);
        waits_us[n] = fake->controller.change.due_us;
    }
    assert_true(waits_us[1] < waits_us[0]);
    assert_true(waits_us[2] == waits_us[1]);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "\"event\":\"evict\""), 1);
    assert_int_equal(fake->controller.progress.evictions, 1);
}

TEST(a_node_asks_to_leave) {
    struct fake *fake = cluster_at(STAGE_1, 60, 1, 2, 5);
    ask(fake, 2, MESSAGE_EVICT, NULL);
    expect_outcome(fake, 2, 0, "");
    expect_good_end(fake, 60);
    assert_true(fake->players[2].done);
    assert_int_equal(fake->controller.progress.evictions, 1);
}

/* A node that must leave does not wait for a joining node, which is taken in afterwards. */
TEST(a_node_joins_while_another_leaves) {
    struct fake *fake = cluster_at(STAGE_1, 40, 1, 2, 5);
    enter(fake, 3, TIER_TRANSIENT);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    play_to(fake, 60);
    assert_true(fake->players[2].done);
    assert_true(assignment_items(&fake->newest, node(3), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
}

/* A leaving node waits for a joining node if only that node could keep the parameters. */
TEST(the_only_keeper_leaves_when_another_has_come) {
    struct fake *fake = cluster_at(STAGE_2, 60, 1, 2, 5);
    enter(fake, 3, TIER_RELIABLE);
    play(fake);
    assert_true(fake->players[3].welcomed);
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    expect_outcome(fake, OPERATOR, 0, "");
    play_to(fake, 60);
    assert_true(fake->players[0].done);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "traditional"), 0); /* the state was never on transient machines alone */
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.evictions, 1);
}

/* The node that was to take over is lost: the leaving node keeps the parameters until another joins. */
TEST(the_only_keeper_stays_when_the_other_is_lost) {
    struct fake *fake = cluster_at(STAGE_2, 60, 1, 2, 5);
    enter(fake, 3, TIER_RELIABLE);
    play(fake);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n0");
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1"); /* this node has nothing to wait for */
    fake->players[3].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n3");
    play_to(fake, 60);
    assert_true(fake->players[0].there && !fake->players[0].done);
    assert_true(fake->players[1].done);
    assert_true(placed_on(&fake->newest, TIER_TRANSIENT, false));
    assert_int_equal(fake->controller.change.state, CHANGE_NONE);
    enter(fake, 4, TIER_RELIABLE);
    play_to(fake, 100);
    assert_true(fake->players[0].done);
    expect_good_end(fake, 60);
    assert_int_equal(lines_with(fake, "traditional"), 0);
}

/* A node's progress must be reported before an evicted node may go. */
TEST(late_progress_keeps_a_node) {
    struct fake *fake = cluster_at(STAGE_1, 40, 1, 2, 5);
    fake->players[1].lost_until = WIRE_CLOCK_NEVER; /* no PROGRESS of n1 arrives */
    ask(fake, OPERATOR, MESSAGE_EVICT, "n2");
    enter(fake, 3, TIER_TRANSIENT);
    play_rounds(fake, 50);
    assert_int_equal(fake->controller.change.state, CHANGE_SWITCH); /* clocks not reported do not count as committed */
    assert_true(fake->players[2].there && !fake->players[2].done);
    fake->players[1].lost_until = 0;
    play_to(fake, 75);
    /* the node that joined meanwhile is taken in */
    assert_true(assignment_items(&fake->newest, node(3), fake->clock) > 0);
    expect_good_end(fake, 40);
    assert_true(fake->players[2].done);
}
