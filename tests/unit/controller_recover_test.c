/* The controller and failures, suspected nodes, and reports after a failure. */
#include "tests/unit/controller_fixture.h"

#include <math.h>

/* ---- Failures ---- */

TEST(a_transient_node_dies) {
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3};
    for (unsigned s = 0; s < 3; s++) {
        struct fake *fake = cluster_new(stages[s], 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        fake->players[1].there = false; /* in stages 2 and 3 the first transient node serves */
        uint64_t before = fake->clock;
        play_to(fake, 30);
        assert_int_equal(fake->controller.progress.failures, 1);
        assert_int_equal(fake->controller.plan.epoch, 2);
        assert_true(fake->controller.plan.restore >= before);
        for (unsigned n = 0; n < 4; n++) {
            assert_int_equal(fake->players[n].fences, n == 1 ? 0 : 1);
        }
        assert_int_equal(lines_with(fake, "no heartbeat for"), 1);
        assert_int_equal(lines_with(fake, "\"event\":\"recover\""), 1);
        expect_good_end(fake, 20);
    }
}

/* Each silence gives one line after half of the timeout, and one when the node is heard again. */
TEST(a_silent_node_is_reported_before_it_is_given_up) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 3, 5);
    assert_int_equal(lines_with(fake, "\"event\":\"silent\""), 0);
    for (unsigned silences = 1; silences <= 2; silences++) {
        fake->players[1].stopped = true;
        for (unsigned r = 0; lines_with(fake, "\"event\":\"silent\"") < silences; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
        play_rounds(fake, 10);
        assert_int_equal(lines_with(fake, "\"event\":\"silent\""), silences);
        assert_int_equal(lines_with(fake, "\"nodes\":[\"n1\"],\"silent_seconds\":1."), silences);
        assert_int_equal(lines_with(fake, "\"left_seconds\":1."), silences);
        fake->players[1].stopped = false;
        for (unsigned r = 0; lines_with(fake, "\"event\":\"heard\"") < silences; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
        }
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[1].there = false;
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "\"event\":\"silent\""), 3);
    assert_int_equal(lines_with(fake, "\"event\":\"heard\""), 2);
}

/* ---- Suspected nodes ---- */

enum { PROBE_MS = 25, PROBE_US = PROBE_MS * 1000 };

/* Four nodes in training whose pulses were heard; one node is reliable. */
static struct fake *with_pulses(void) {
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->options.probe_ms = PROBE_MS;
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned n = 0; n < 4; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0);
        controller_dialed(&fake->controller, actor_pulse(node(n)), fake->io.now_us, true);
    }
    forget(fake);
    memset(fake->dials, 0, sizeof fake->dials);
    return fake;
}

/* The first `nodes` nodes answer their pulses' last requests, except those whose bits are set in `silent`. */
static void pulses_answer(struct fake *fake, unsigned nodes, unsigned silent) {
    for (unsigned n = 0; n < nodes; n++) {
        uint64_t number = (silent >> n & 1) == 0 ? asked(fake, n) : 0;
        if (number != 0) {
            pulse(fake, n, PULSE_ANSWER, number, 0);
        }
    }
}

/* For so many intervals, node 1 repeats its suspicion and the others answer. */
static void suspect_on(struct fake *fake, unsigned ticks, unsigned suspect) {
    for (unsigned t = 0; t < ticks; t++) {
        pulse(fake, 1, PULSE_SUSPECT, 2, suspect);
        pulses_answer(fake, 4, 1U << suspect);
        tick(fake, PROBE_US);
    }
}

TEST(a_suspected_node_that_answers_stays) {
    struct fake *fake = with_pulses();
    for (unsigned round = 0; round < 10; round++) {
        suspect_on(fake, SUSPECT_TICKS - 1, 2);
        uint64_t number = asked(fake, 2);
        assert_true(number > 0);
        pulse(fake, 2, PULSE_ANSWER, number, 0);
        forget(fake);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
}

TEST(a_suspected_node_that_does_not_answer_is_lost) {
    struct fake *fake = with_pulses();
    suspect_on(fake, SUSPECT_TICKS + 1, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "does not answer other nodes"), 1);
    assert_null(controller_find_member(&fake->controller, node(2)));
    fake->players[2].there = false;
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 1);
}

/* Some of the nodes lost at once may have watched the others: the first suspicion makes the controller ask all
 * nodes. */
TEST(nodes_that_are_lost_with_those_who_watched_them) {
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->options.probe_ms = PROBE_MS;
    cluster_open(fake, 2, 4);
    play_to(fake, 5);
    for (unsigned n = 0; n < 6; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0);
    }
    for (unsigned t = 0; t < SUSPECT_UNACCUSED_TICKS; t++) {
        assert_int_equal(fake->controller.progress.failures, t < SUSPECT_TICKS ? 0 : 1);
        pulse(fake, 1, PULSE_SUSPECT, 2, 2);
        pulses_answer(fake, 6, 1U << 2 | 1U << 3);
        tick(fake, PROBE_US);
    }
    assert_int_equal(fake->controller.progress.failures, 2);
}

/* The others need two intervals for an answer: the suspected node gets six. */
TEST(a_slow_answer_of_another_gives_a_suspected_node_time) {
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 2, 2);
    uint64_t late = asked(fake, 3);
    assert_true(late > 0);
    pulse(fake, 1, PULSE_ANSWER, asked(fake, 1), 0);
    pulse(fake, 0, PULSE_ANSWER, asked(fake, 0), 0);
    tick(fake, PROBE_US);
    tick(fake, PROBE_US);
    pulse(fake, 3, PULSE_ANSWER, late, 0);
    suspect_on(fake, 3, 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    suspect_on(fake, 3, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
}

/* The suspected node's answer may wait in the controller's socket behind other messages. So the node is judged only
 * while other nodes' answers to later requests arrive. */
TEST(a_controller_that_is_busy_gives_up_nobody) {
    struct fake *fake = with_pulses();
    for (unsigned t = 0; t < 10 * SUSPECT_TICKS; t++) {
        pulse(fake, 1, PULSE_SUSPECT, 2, 2);
        tick(fake, PROBE_US + t % 4 * PROBE_US / 2);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
    pulses_answer(fake, 4, 1U << 2);
    suspect_on(fake, SUSPECT_TICKS + 1, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
}

/* No node counts as lost while the controller itself is stopped, or while most nodes do not answer. */
TEST(a_controller_that_hears_nobody_gives_up_nobody) {
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 2, 2);
    tick(fake, 20 * PROBE_US);
    tick(fake, 2 * PROBE_US + 1);
    tick(fake, PROBE_US);
    assert_int_equal(fake->controller.progress.failures, 0);
    pulse(fake, 2, PULSE_ANSWER, asked(fake, 2), 0);
    for (unsigned t = 0; t < 2 * SUSPECT_TICKS; t++) {
        for (unsigned n = 1; n < 4; n++) {
            pulse(fake, 0, PULSE_SUSPECT, 2, n);
        }
        tick(fake, PROBE_US);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
}

TEST(a_process_that_ends_is_lost_soon) {
    struct fake *fake = with_pulses();
    controller_broken(&fake->controller, actor_pulse(node(2)));
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->io.now_us, true); /* its listener is closed last */
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->io.now_us, false);
    assert_int_equal(fake->controller.progress.failures, 0);
    refuse(fake, 2);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "the process of n2 "), 1);
    fake->players[2].there = false;
    expect_good_end(fake, 30);
}

/* The controller did not notice that the connection was closed. */
TEST(a_suspected_process_is_dialed) {
    struct fake *fake = with_pulses();
    pulse(fake, 1, PULSE_SUSPECT, 0, 2);
    pulses_answer(fake, 4, 1U << 2);
    tick(fake, PROBE_US);
    assert_int_equal(fake->dials[2], 1);
    assert_int_equal(fake->dials[1] + fake->dials[3], 0);
    refuse(fake, 2); /* the machine may refuse only new connections: the node can still answer over the old one */
    assert_int_equal(fake->controller.progress.failures, 0);
    tick(fake, SUSPECT_TICKS * PROBE_US - SUSPECT_REFUSED_US);
    controller_dialed(&fake->controller, actor_pulse(node(2)), fake->io.now_us, false);
    assert_int_equal(fake->controller.progress.failures, 1);
    assert_int_equal(lines_with(fake, "the process of n2 "), 1);
    fake->players[2].there = false;
    expect_good_end(fake, 30);
}

/* A firewall that is being reloaded refuses connections to healthy nodes. */
TEST(a_refusal_costs_no_node_that_answers) {
    struct fake *fake = with_pulses();
    for (unsigned round = 0; round < 5; round++) {
        controller_broken(&fake->controller, actor_pulse(node(2)));
        controller_dialed(&fake->controller, actor_pulse(node(2)), fake->io.now_us, false);
        pulse(fake, 2, PULSE_ANSWER, asked(fake, 2), 0);
        refuse(fake, 2);
    }
    assert_int_equal(fake->controller.progress.failures, 0);
}

/* A pulse that the controller can't reach is dialed more and more rarely, and reported once. */
TEST(a_pulse_that_cannot_be_reached) {
    struct fake *fake = cluster_at(STAGE_1, 30, 1, 3, 5);
    for (unsigned second = 0; second < 100; second++) {
        fake->io.now_us += 1000 * 1000;
        pulse(fake, 2, PULSE_ANSWER, 0, 0);
        controller_dialed(&fake->controller, actor_pulse(node(2)), fake->io.now_us, false);
    }
    assert_int_equal(fake->dials[2], 7); /* after 0, 1, 3, 7, 15, 31 and 63 seconds */
    assert_int_equal(lines_with(fake, "\"event\":\"unreachable\""), 1);
    assert_int_equal(fake->controller.progress.failures, 0);
}

TEST(a_broken_connection_costs_no_node) {
    struct fake *fake = with_pulses();
    for (unsigned n = 0; n < 4; n++) {
        controller_broken(&fake->controller, actor_pulse(node(n)));
        controller_dialed(&fake->controller, actor_pulse(node(n)), fake->io.now_us, true);
    }
    for (unsigned t = 0; t < 10; t++) {
        tick(fake, PROBE_US);
    }
    for (unsigned n = 0; n < 4; n++) {
        pulse(fake, n, PULSE_ANSWER, 0, 0); /* the answer comes over the new connection and brings the next request */
        pulse(fake, n, PULSE_ANSWER, asked(fake, n), 0);
    }
    expect_good_end(fake, 30);
    assert_int_equal(fake->controller.progress.failures, 0);
}

/* A launcher may report a crash signal late: a second node with the same crash ends the job. */
TEST(a_crash_that_is_told_late) {
    struct fake *fake = with_pulses();
    for (unsigned n = 2; n < 4; n++) {
        assert_int_equal(fake->end.ended, 0);
        controller_broken(&fake->controller, actor_pulse(node(n)));
        refuse(fake, n);
        fake->players[n].there = false;
        char name[8];
        snprintf(name, sizeof name, "n%u", n);
        CLOSED_BY(message_close)
        struct message gone = {.type = MESSAGE_GONE, .gone = {.request = n, .signal = 11}, .frame_count = 1};
        char frame[WIRE_NAME_MAX] = {0};
        snprintf(frame, sizeof frame, "%s", name);
        gone.frames[0] = buffer_copy(frame, sizeof frame);
        controller_receive(&fake->controller, OPERATOR, &gone);
    }
    assert_true(lines_with(fake, " and then n3 ") > 0);
    assert_true(fake->controller.phase >= PHASE_LEAVE);
}

/* A node can't make the controller connect to any machine but that of its servers. */
TEST(a_pulse_on_another_host_is_not_dialed) {
    struct fake *fake = cluster_new(STAGE_1, 30);
    fake->joining.elsewhere = 1U << 2;
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    for (unsigned second = 0; second < 10; second++) {
        fake->io.now_us += 1000 * 1000;
        pulse(fake, 2, PULSE_ANSWER, 0, 0);
    }
    controller_broken(&fake->controller, actor_pulse(node(2)));
    assert_int_equal(fake->dials[2], 0);
    assert_int_equal(lines_with(fake, "so the controller does not connect to it"), 1);
}

/* ---- Metrics after a failure ---- */

/* The number of shards that the node is asked to evaluate for clock 5 since the last failure. */
static unsigned asked_to_evaluate(const struct fake *fake, unsigned number) {
    unsigned shards = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        const struct message *message = &fake->io.sent[m].message;
        if (fake->io.sent[m].to == node(number) && message->type == MESSAGE_EVALUATE &&
            message->evaluate.origin == origin_catch_up(node(number), fake->controller.plan.epoch)) {
            assert_int_equal(message->evaluate.clock, 5);
            shards = (unsigned)(message->frames[0]->size / sizeof(uint32_t));
        }
    }
    return shards;
}

static void evaluate_all(struct fake *fake, double loss) {
    for (unsigned n = 0; n < 2; n++) {
        if (asked_to_evaluate(fake, n) > 0) {
            evaluation(fake, n, origin_catch_up(node(n), fake->controller.plan.epoch), 5, loss);
        }
    }
}

TEST(what_a_lost_node_had_reported_counts) {
    for (int stored = 0; stored < 2; stored++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, true, stored != 0);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), 0);
        /* another controller reads from its store what the third node reported, and gets the others' reports again */
        if (stored != 0) {
            restart(fake);
            progress_as(fake, 0, node(0), 5, THIRD_ITEMS, 1);
        }
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        assert_int_equal(fake->controller.progress.completed, 5);
        assert_int_equal(lines_with(fake, "\"iteration\":5,"), 1);
        assert_true(fake->controller.progress.objective == 3);
        assert_int_equal(lines_with(fake, "\"partial\""), 0);
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
        assert_int_equal(fake->controller.progress.items_redone, 0);
    }
}

/* The lost node's sums are unknown: the line states the share of the items that the others' sums cover. Evaluations
 * are still completed: the nodes that take over are asked until they have done them. */
TEST(what_a_lost_node_had_not_reported_is_said) {
    for (int stored = 0; stored < 2; stored++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, stored != 0);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), SHARDS / 3);
        if (stored != 0) {
            restart(fake);
            progress_as(fake, 0, node(0), 5, THIRD_ITEMS, 1);
        }
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        assert_int_equal(fake->controller.progress.completed, 4);
        forget(fake);
        heartbeat(fake, 0, NODE_STARTED, 5);
        heartbeat(fake, 1, NODE_STARTED, 5);
        assert_int_equal(asked_to_evaluate(fake, 0) + asked_to_evaluate(fake, 1), SHARDS / 3); /* a repeated request */
        evaluation(fake, 0, origin_catch_up(node(0), 7), 5, 100); /* an evaluation that was not requested */
        assert_int_equal(fake->controller.progress.completed, 4);
        double takers = (asked_to_evaluate(fake, 0) > 0 ? 1 : 0) + (asked_to_evaluate(fake, 1) > 0 ? 1 : 0);
        evaluate_all(fake, 0.25);
        assert_int_equal(fake->controller.progress.completed, 5);
        assert_true(fake->controller.progress.objective == 2 + 0.25 * takers);
        assert_int_equal(lines_with(fake, "\"items\":80,"), 1);
        assert_int_equal(lines_with(fake, "\"partial\":0.66666666"), 1);
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS); /* all were processed */
        for (unsigned n = 0; n < 2; n++) {
            progress_as(fake, n, node(n), 6, SHARDS / 2 * SHARD_ITEMS, 1);
        }
        assert_int_equal(lines_with(fake, "\"iteration\":6,"), 1);
        assert_int_equal(lines_with(fake, "\"partial\""), 1);
    }
}

/* The node that was to evaluate in a lost node's place is lost too: before it evaluated, afterwards, or such that
 * clock 5 is repeated. */
TEST(an_evaluation_in_place_of_another_is_lost_too) {
    enum { BEFORE, AFTER, UNDONE, CASES };
    for (int c = 0; c < CASES; c++) {
        struct fake *fake =
            lose_the_third((struct job_terms){.clocks_per_iteration = 1, .iterations = 100}, false, false);
        unsigned shards = asked_to_evaluate(fake, 1);
        assert_true(shards > 0);
        progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
        if (c != BEFORE) {
            evaluation(fake, 1, origin_catch_up(node(1), 2), 5, 0.25);
        }
        assert_int_equal(fake->controller.progress.completed, 4);
        forget(fake);
        ask(fake, OPERATOR, MESSAGE_GONE, "two");
        expect_outcome(fake, OPERATOR, 0, "");
        answer_fence(fake, 0, 5, c == UNDONE ? 4 : 5);
        struct message plan = {0};
        if (c == UNDONE) { /* clock 5 is repeated with the lost nodes' shards */
            assert_int_equal(asked_to_evaluate(fake, 0), 0);
            assert_true(sent(fake, node(0), MESSAGE_PLAN, &plan) > 0);
            uint64_t items = assignment_items(&plan, origin_catch_up(node(0), 3), 5);
            assert_int_equal(items, 2 * THIRD_ITEMS);
            progress_as(fake, 0, origin_catch_up(node(0), 3), 5, items, 0.5);
            assert_int_equal(fake->controller.progress.completed, 5);
            assert_true(fake->controller.progress.objective == 1 + 0.5);
            assert_int_equal(lines_with(fake, "\"partial\""), 0);
        } else {
            unsigned mine = asked_to_evaluate(fake, 0);
            assert_int_equal(mine, c == BEFORE ? shards : 0);
            if (mine > 0) {
                evaluation(fake, 0, origin_catch_up(node(0), 3), 5, 0.75);
            }
            /* the evaluation requested after the first failure */
            evaluation(fake, 0, origin_catch_up(node(0), 2), 5, 0.5);
            assert_int_equal(fake->controller.progress.completed, 5);
            double first = shards < SHARDS / 3 ? 0.5 : 0;
            assert_true(fake->controller.progress.objective == 2 + first + (c == BEFORE ? 0.75 : 0.25));
            assert_int_equal(lines_with(fake, "\"partial\":0.66666666"), 1);
        }
        assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
    }
}

/* Metrics over part of the items are not compared for --tolerance. */
TEST(partial_objectives_are_not_compared) {
    struct fake *fake = lose_the_third(
        (struct job_terms){.clocks_per_iteration = 1, .iterations = 100, .tolerance = 0.4, .tolerance_iterations = 4},
        false, false);
    assert_int_equal(fake->controller.progress.calm, 3); /* iterations 2 to 4 */
    progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
    evaluate_all(fake, 0.5);
    assert_int_equal(fake->controller.progress.completed, 5); /* objective 3 or 2.5; before, 3 */
    assert_int_equal(fake->controller.progress.calm, 3);
    assert_false(fake->controller.job.stopping);
    progress_as(fake, 0, node(0), 6, SHARDS / 2 * SHARD_ITEMS, 1.5);
    progress_as(fake, 1, node(1), 6, SHARDS / 2 * SHARD_ITEMS, 1.5);
    assert_int_equal(fake->controller.progress.calm, 4);
    assert_int_equal(fake->controller.job.final, 100);
    assert_true(fake->controller.barrier.purpose == BARRIER_STOP);
}

/* Evaluations made before the clock was known as the last do not complete it. */
TEST(the_last_clock_is_evaluated_as_the_last) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 2});
    begin(fake);
    progress(fake, 0, 1);
    progress(fake, 1, 1);
    struct message_progress told = {.origin = node(0), .clock = 2, .items = SHARDS / 2 * SHARD_ITEMS};
    struct message_progress again = {.origin = node(0), .clock = 2, .evaluation = 1, .last = 1};
    progress_told(fake, 0, &again, 7); /* arrives before the PROGRESS sent earlier */
    progress_told(fake, 0, &told, 5);
    progress(fake, 1, 2);
    assert_int_equal(fake->controller.progress.completed, 1);
    progress_told(fake, 0, &again, 7);
    assert_int_equal(fake->controller.progress.completed, 2);
    assert_true(fake->controller.progress.objective == 7 + 1);
    assert_int_equal(fake->controller.progress.items_processed, 2 * SHARDS * SHARD_ITEMS);
}

/* Three nodes; two are at clock 7 when the third, which has reported 6 and begun 7, dies. */
TEST(recovery_step_by_step) {
    struct fake *fake = fake_new((struct job_terms){.staleness = 2, .clocks_per_iteration = 1, .iterations = 100});
    struct message message;
    begin_with_three(fake, 4);
    for (uint64_t c = 5; c <= 6; c++) {
        progress_as(fake, 0, node(0), c, THIRD_ITEMS, 1);
        progress_as(fake, 2, node(2), c, THIRD_ITEMS, 1);
    }
    progress_as(fake, 1, node(1), 6, THIRD_ITEMS, 1); /* 5 arrives later */
    assert_int_equal(fake->controller.progress.completed, 4);
    heartbeat(fake, 2, NODE_STARTED, 7);
    forget(fake);
    ask(fake, OPERATOR, MESSAGE_GONE, "three");
    expect_outcome(fake, OPERATOR, 0, "");
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_int_equal(fake->controller.plan.epoch, 2);
    tick(fake, HEARTBEAT_MS * UINT64_C(1000)); /* repeated until they answer */
    for (unsigned n = 0; n < 2; n++) {
        assert_true(sent(fake, node(n), MESSAGE_FENCE, &message) > 0);
        assert_int_equal(message.epoch, 2);
    }
    /* Partition 0 can be restored to 5 and 6, but partition 3 only to 5. */
    struct wire_restore_point restore_points[2 * PARTITIONS];
    unsigned count = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        actor_id server = actor_of_part(node(0), 1);
        restore_points[count++] = (struct wire_restore_point){.server = server, .partition = p, .clock = 5};
        if (p < 3) {
            restore_points[count++] = (struct wire_restore_point){.server = server, .partition = p, .clock = 6};
        }
    }
    struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 8, .committed = 4}};
    fenced.frames[0] = buffer_copy(restore_points, 0);
    give(fake, 1, &fenced);
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    struct message old = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 7, .committed = 4}};
    old.frames[0] = buffer_copy(restore_points, count * sizeof restore_points[0]);
    give_as(fake, 0, 1, &old); /* an answer of an earlier epoch */
    assert_int_equal(sent(fake, node(0), MESSAGE_PLAN, NULL), 0);
    struct message last = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 7, .committed = 4}};
    last.frames[0] = buffer_copy(restore_points, count * sizeof restore_points[0]);
    give(fake, 0, &last);
    assert_true(sent(fake, node(0), MESSAGE_PLAN, &message) > 0);
    assert_int_equal(message.epoch, 2);
    assert_int_equal(message.plan.restore, 5);
    assert_true(fake->controller.change.state == CHANGE_NONE || fake->controller.change.state == CHANGE_PREPARE);
    /* in 6 to 8 the dead node's shards are a catch-up; from 9 on they are assigned to the others */
    for (uint64_t c = 6; c <= 9; c++) {
        uint64_t late = assignment_items(&message, origin_catch_up(node(0), 2), c) +
                        assignment_items(&message, origin_catch_up(node(1), 2), c);
        uint64_t own = assignment_items(&message, node(0), c) + assignment_items(&message, node(1), c);
        assert_int_equal(late, c <= 8 ? SHARDS / 3 * SHARD_ITEMS : 0);
        assert_int_equal(late + own, SHARDS * SHARD_ITEMS);
    }
    /* Clock 5, restored, includes the dead node's flush and report; 6 is repeated. */
    progress_as(fake, 1, node(1), 5, THIRD_ITEMS, 1);
    assert_int_equal(fake->controller.progress.completed, 5);
    assert_int_equal(fake->controller.progress.items_processed, 5 * SHARDS * SHARD_ITEMS);
    for (uint64_t c = 6; c <= 8; c++) {
        for (unsigned n = 0; n < 2; n++) {
            actor_id late = origin_catch_up(node(n), 2);
            if (assignment_items(&message, late, c) > 0) {
                progress_as(fake, n, late, c, assignment_items(&message, late, c), 1);
                progress_as(fake, n, late, c, assignment_items(&message, late, c), 1); /* a repeat */
            }
            if (c > 6) {
                progress_as(fake, n, node(n), c, SHARDS / 3 * SHARD_ITEMS, 1);
            }
        }
    }
    assert_int_equal(fake->controller.progress.completed, 8);
    assert_int_equal(lines_with(fake, "\"items\":120,"), 8);
    assert_int_equal(fake->controller.progress.items_redone, 2 * SHARDS / 3 * SHARD_ITEMS); /* 6 and 7 */
    forget(fake);
    join(fake, 3, "four", TIER_TRANSIENT, &fake->terms); /* the contents of START have not changed */
    heartbeat(fake, 3, NODE_LOADED, 0);
    assert_int_equal(sent(fake, node(3), MESSAGE_START, &message), 1);
    assert_int_equal(message.start.items, SHARDS * SHARD_ITEMS);
}

/* Answers the fence with replicas of all partitions, each with these clocks. */
static void fenced_with(struct fake *fake, unsigned number, const uint64_t *clocks, unsigned count) {
    struct wire_restore_point points[2 * PARTITIONS];
    for (unsigned i = 0; i < count * PARTITIONS; i++) {
        points[i] = (struct wire_restore_point){
            .server = actor_of_part(node(number), 1), .partition = i % PARTITIONS, .clock = clocks[i / PARTITIONS]};
    }
    struct message fenced = {.type = MESSAGE_FENCED, .frame_count = 1, .fenced = {.begun = 7, .committed = 4}};
    fenced.frames[0] = buffer_copy(points, count * PARTITIONS * sizeof *points);
    give(fake, number, &fenced);
}

/* Clock 6 is restored from a transient node, and no reliable node may have it before the next loss. So the followers
 * are those that have the committed clock 4, although others have later ones. */
TEST(followers_keep_the_committed_clock) {
    struct fake *fake = fake_new((struct job_terms){.staleness = 2, .clocks_per_iteration = 1, .iterations = 100});
    fake->options.reliable = fake->options.transient = 2;
    fake->options.policy.stage = STAGE_2;
    fake_start(fake);
    for (unsigned n = 0; n < 4; n++) {
        join(fake, n, player_names[n], n < 2 ? TIER_RELIABLE : TIER_TRANSIENT, &fake->terms);
    }
    for (unsigned n = 0; n < 4; n++) {
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, 1, SHARDS / 4 * SHARD_ITEMS);
    }
    ask(fake, OPERATOR, MESSAGE_GONE, player_names[3]);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    fenced_with(fake, 0, (const uint64_t[]){6, 5}, 2);
    fenced_with(fake, 1, (const uint64_t[]){5, 4}, 2);
    fenced_with(fake, 2, (const uint64_t[]){6}, 1);
    assert_int_equal(fake->controller.plan.restore, 6);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        assert_int_equal(actor_node(fake->controller.plan.placement[p].server), node(2));
        assert_int_equal(actor_node(fake->controller.plan.placement[p].backup), node(1));
    }
}

TEST(a_second_failure_while_fenced) {
    struct fake *fake = cluster_at(STAGE_2, 20, 1, 4, 11);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    assert_int_equal(fake->controller.plan.epoch, 2);
    fake->players[3].there = false; /* dies before it answers the fence */
    play_rounds(fake, 10);
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    play_to(fake, 30);
    assert_int_equal(fake->controller.plan.epoch, 3);
    assert_int_equal(fake->controller.progress.failures, 2);
    assert_int_equal(fake->players[2].fences, 2);
    expect_good_end(fake, 20);
}

/* A joining node that prepares may have copies already. A restarted controller does not know the node's plan and
 * asks it. In stage transient the recovery keeps all existing copies. */
TEST(a_new_node_is_fenced_by_a_restarted_controller) {
    struct fake *fake = stored_cluster(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 3);
    play_to(fake, 5);
    enter(fake, 3, TIER_TRANSIENT);
    fake->players[2].stopped = true; /* delays the change */
    for (unsigned r = 0; fake->controller.change.state != CHANGE_PREPARE; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    fake->players[2].stopped = false;
    restart(fake);
    forget(fake);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    assert_true(sent(fake, node(3), MESSAGE_FENCE, NULL) > 0);
    expect_good_end(fake, 40);
}

/* Loses players first..last at once. */
static void lose(struct fake *fake, unsigned first, unsigned last) {
    for (unsigned n = first; n <= last; n++) {
        fake->players[n].there = false;
    }
    for (unsigned n = first; n <= last; n++) {
        ask(fake, OPERATOR, MESSAGE_GONE, player_names[n]);
    }
}

/* Stage transient: both copies of some partitions are lost; the remaining nodes have these partitions in their
 * caches. */
TEST(lost_partitions_come_from_caches) {
    struct fake *fake = stored_cluster(STAGE_TRANSIENT, 40);
    cluster_open(fake, 0, 5);
    play_to(fake, 9);
    fake->players[3].caches = fake->players[4].caches = true;
    uint64_t clock = fake->clock;
    lose(fake, 0, 2);
    play_recovery(fake);
    assert_int_equal(fake->controller.plan.restore, clock);
    assert_true(fake->controller.recovery.cached > 0);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 1);
    assert_int_equal(lines_with(fake, "out of workers' caches, as all copies were lost"), 1);
    unsigned served[2] = {0};
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        const struct wire_placement *place = &fake->controller.plan.placement[p];
        served[0] += actor_node(place->server) == node(3) ? 1 : 0;
        served[1] += actor_node(place->server) == node(4) ? 1 : 0;
        assert_true(actor_node(place->backup) != actor_node(place->server));
    }
    assert_int_equal(served[0] + served[1], PARTITIONS);
    assert_true(served[0] > 0 && served[1] > 0);
    expect_good_end(fake, 40);
}

/* A single node is left without copies of some partitions: it goes on with its cache. */
TEST(one_is_left_with_a_cache) {
    struct fake *fake = cluster_at(STAGE_TRANSIENT, 40, 0, 6, 9);
    fake->players[5].caches = true;
    lose(fake, 0, 4);
    expect_good_end(fake, 40);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 1);
}

/* Caches older than the last commit are useless. In a job with reliable machines no node was asked to keep its
 * cache. */
TEST(what_caches_can_not_replace) {
    const struct {
        enum stage stage;
        bool caches;
        uint64_t behind;
        const char *error;
    } cases[] = {{STAGE_TRANSIENT, false, 0, "were lost with their nodes, and no node's cache has it"},
                 {STAGE_TRANSIENT, true, 1, "were lost with their nodes, and nodes' caches have it only up to clock"},
                 {STAGE_2, true, 0, "the only copy of partition"}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = cluster_new(cases[c].stage, 40);
        cluster_open(fake, cases[c].stage == STAGE_2 ? 1 : 0, cases[c].stage == STAGE_2 ? 4 : 5);
        play_to(fake, 9);
        fake->controller.commit.clock = fake->clock;
        fake->players[4].caches = cases[c].caches;
        fake->players[4].behind = cases[c].behind;
        lose(fake, 0, 3);
        play_to_end(fake);
        assert_int_equal(fake->end.code, AML_EFAIL);
        assert_non_null(strstr(fake->end.text, cases[c].error));
    }
}

/* Copies are used before caches. A node with neither takes no part. */
TEST(copies_go_before_caches) {
    struct fake *fake = cluster_at(STAGE_TRANSIENT, 40, 0, 4, 9);
    for (unsigned n = 1; n < 4; n++) {
        fake->players[n].caches = true;
    }
    lose(fake, 0, 0);
    expect_good_end(fake, 40);
    assert_int_equal(lines_with(fake, "\"event\":\"recover\""), 1);
    assert_int_equal(lines_with(fake, "\"partitions_from_caches\""), 0);
}

/* Whether the node serves or follows a partition. */
static bool has_partitions(const struct fake *fake, unsigned number) {
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        const struct wire_placement *place = &fake->controller.plan.placement[p];
        if (actor_node(place->server) == node(number) || actor_node(place->backup) == node(number)) {
            return true;
        }
    }
    return false;
}

/* A recovery gives no copies to a node that must leave, even if its cache has them or no other node is in another
 * group. */
TEST(a_cache_makes_nobody_a_follower) {
    enum { NODES = 2 * PARTITIONS + 1 }; /* so that at least one node has no partition */
    struct fake *fake = cluster_at(STAGE_TRANSIENT, 40, 0, NODES, 9);
    unsigned idle = 0;
    while (idle < NODES && has_partitions(fake, idle)) {
        idle++;
    }
    assert_true(idle < NODES);
    unsigned lost = 0;
    while (lost < NODES && !has_partitions(fake, lost)) {
        lost++;
    }
    assert_true(lost < NODES);
    fake->players[idle].caches = true;
    fake->controller.members[idle].node.group = fake->controller.members[lost].node.group + 1;
    ask(fake, OPERATOR, MESSAGE_EVICT, player_names[idle]);
    expect_outcome(fake, OPERATOR, 0, "");
    lose(fake, lost, lost);
    play_recovery(fake);
    assert_false(has_partitions(fake, idle));
    expect_good_end(fake, 40);
}

/* Several failures; each recovery ends before the next failure. */
TEST(catch_ups_are_taken_over) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 4, 11);
    for (unsigned n = 4; n > 1; n--) {
        fake->players[n].there = false;
        ask(fake, OPERATOR, MESSAGE_GONE, player_names[n]);
        deliver(fake);
        play_recovery(fake);
    }
    assert_int_equal(fake->controller.plan.epoch, 4);
    expect_good_end(fake, 20);
}

/* Stage 3: all workers die at once, before some of their work was reported. The reliable node goes on alone. */
TEST(all_transient_nodes_die) {
    static const uint64_t lost[] = {0, WIRE_CLOCK_NEVER};
    for (unsigned l = 0; l < 2; l++) {
        struct fake *fake = cluster_at(STAGE_3, 20, 1, 3, 11);
        for (unsigned n = 1; n <= 3; n++) {
            fake->players[n].lost_until = lost[l];
        }
        play_to(fake, 13);
        for (unsigned n = 1; n <= 3; n++) {
            fake->players[n].there = false;
        }
        play_to_end(fake);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->clock, 40);
        assert_int_equal(fake->controller.progress.failures, 3);
        expect_report(fake, 20, l == 0);
    }
}

TEST(the_only_replica_is_lost) {
    static const char *const checkpoints[] = {NULL, "/nowhere/checkpoints"};
    for (unsigned c = 0; c < 2; c++) {
        struct fake *fake = cluster_new(STAGE_1, 20);
        fake->options.checkpoint = checkpoints[c];
        fake->options.checkpoint_every = 1000;
        cluster_open(fake, 1, 2);
        play_to(fake, 5);
        fake->players[0].there = false;
        play_to_end(fake);
        assert_int_equal(fake->end.code, AML_EFAIL);
        assert_non_null(strstr(fake->end.text, "the only copy of partition 0 was lost"));
        assert_true((strstr(fake->end.text, "--resume /nowhere/checkpoints") != NULL) == (c == 1));
        assert_int_equal(fake->players[1].aborted, AML_EFAIL);
    }
}

/* The remaining nodes can serve but not work; a joining node without an assignment can work. */
TEST(a_newcomer_works_when_all_workers_are_lost) {
    struct fake *fake = cluster_new(STAGE_1, 20);
    fake->joining.threadless = 1 << 0;
    cluster_open(fake, 1, 1);
    play_to(fake, 5);
    enter(fake, 2, TIER_RELIABLE);
    play(fake);
    assert_int_equal(fake->controller.member_count, 3);
    assert_false(fake->controller.members[2].settled);
    fake->players[1].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n1");
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 1);
}

TEST(all_nodes_are_lost) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 2, 5);
    for (unsigned n = 0; n < 3; n++) {
        fake->players[n].there = false;
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "the only copy of partition 0 was lost"));
}

/* A node that was declared dead and wakes up is refused; it may register as a new node. */
TEST(the_dead_rejoin) {
    struct fake *fake = cluster_at(STAGE_1, 40, 1, 2, 5);
    fake->players[2].stopped = true;
    play_to(fake, 9);
    assert_int_equal(fake->controller.progress.failures, 1);
    fake->players[2].stopped = false;
    play(fake);
    assert_true(fake->players[2].rejoin);
    enter(fake, 5, TIER_TRANSIENT);
    play_to(fake, 60);
    assert_true(assignment_items(&fake->newest, node(5), fake->clock + 1) > 0);
    expect_good_end(fake, 40);
}

/* A plan with one node is not recoverable, except in stage transient, where caches may have copies. */
TEST(a_node_alone_keeps_nothing_to_go_back) {
    static const struct {
        enum stage stage;
        unsigned reliable;
        bool alone, both; /* whether the job is recoverable with one node, with two */
    } cases[] = {{STAGE_1, 1, false, true},
                 {STAGE_AUTO, 1, false, true},
                 {STAGE_TRADITIONAL, 1, false, false},
                 {STAGE_TRANSIENT, 0, true, true}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_new(cases[c].stage, 60);
        cluster_open(fake, cases[c].reliable, 1 - cases[c].reliable);
        play_to(fake, 5);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].alone);
        enter(fake, 1, TIER_TRANSIENT);
        play_to(fake, 30);
        assert_true(assignment_items(&fake->newest, node(1), fake->clock + 1) > 0);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].both);
        fake->players[1].stopped = cases[c].both;
        play_to(fake, 40);
        assert_int_equal(fake->controller.progress.failures, cases[c].both);
        assert_int_equal(fake->newest.plan.recoverable, cases[c].both && cases[c].alone);
        expect_good_end(fake, 60);
    }
}

/* A server is accused that the controller can reach, but other nodes can't. */
TEST(accusations) {
    static const struct {
        unsigned accusers, accused, victim;
    } cases[] = {{1 << 3 | 1 << 0, 1, 1}, {1 << 0, 1, 1}, {1 << 3, 0, 3}, {1 << 3, 1, 3}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_at(STAGE_2, 200, 1, 3, 5);
        for (unsigned n = 0; n < 4; n++) {
            fake->players[n].accuses = (cases[c].accusers >> n & 1) != 0 ? node(cases[c].accused) : ACTOR_NONE;
        }
        play_rounds(fake, 1);
        for (unsigned r = 0; !fake->players[cases[c].victim].rejoin; r++) {
            assert_true(r < ROUNDS_MAX);
            play(fake);
            for (unsigned n = 0; n < 4; n++) { /* a fenced node starts a new wait before it accuses */
                fake->players[n].accuses = fake->players[n].fences > 0 ? ACTOR_NONE : fake->players[n].accuses;
            }
        }
        assert_int_equal(fake->controller.progress.failures, 1);
        assert_int_equal(lines_with(fake, "can't reach"), 1);
        expect_good_end(fake, 200);
    }
}

/* A reliable node may have the only copy of a state: it may take as long to answer other nodes as to answer the
 * controller. */
TEST(a_reliable_node_is_given_up_late) {
    enum { LATE_MS = TIMEOUT_MS + TIMEOUT_MS / 4 };
    struct fake *fake = cluster_new(STAGE_2, 350);
    fake->options.answer_ms = LATE_MS;
    cluster_open(fake, 2, 2);
    play_to(fake, 5);
    fake->players[0].accuses = node(1);
    play_rounds(fake, LATE_MS * 1000 / ROUND_US - 2);
    assert_int_equal(fake->controller.progress.failures, 0);
    fake->players[0].accuses = ACTOR_NONE;
    play_rounds(fake, 2); /* the node has answered */
    fake->players[0].accuses = node(1);
    for (unsigned r = 0; !fake->players[1].rejoin; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
        fake->players[0].accuses = fake->players[0].fences > 0 ? ACTOR_NONE : fake->players[0].accuses;
    }
    assert_int_equal(fake->controller.progress.failures, 1);
    expect_good_end(fake, 350);
}

/* An accused node that is silent towards the controller too is removed for its silence; its accuser stays. */
TEST(who_accuses_a_dead_node_is_well) {
    struct fake *fake = cluster_at(STAGE_2, 200, 1, 3, 5);
    fake->players[1].stopped = true;
    fake->players[3].accuses = node(1);
    for (unsigned r = 0; fake->controller.progress.failures == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    fake->players[3].accuses = ACTOR_NONE;
    assert_int_equal(lines_with(fake, "no heartbeat for"), 1);
    assert_int_equal(lines_with(fake, "can't reach"), 0);
    assert_false(fake->players[3].rejoin);
    expect_good_end(fake, 200);
}

/* Accusations made before a fence are void after it. */
TEST(old_accusations_are_void) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 3, 5);
    fake->players[3].there = false;
    ask(fake, OPERATOR, MESSAGE_GONE, "n3");
    play_to(fake, 9);
    struct message beat = {.type = MESSAGE_HEARTBEAT, .heartbeat = {.state = NODE_STARTED, .silent = node(2)}};
    give_as(fake, 1, 1, &beat);
    tick(fake, ROUND_US);
    assert_int_equal(fake->controller.progress.failures, 1);
    expect_good_end(fake, 20);
}

/* A dismissed node's silence is no failure either, nor is its accusation of others. */
TEST(who_was_dismissed_is_not_accused) {
    struct fake *fake = cluster_at(STAGE_2, 60, 1, 3, 5);
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    for (unsigned r = 0; fake->controller.change.state != CHANGE_SWITCH; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    play_to(fake, fake->controller.plan.from_clock - 1);
    fake->players[1].stopped = true; /* DONE does not arrive */
    play_rounds(fake, 4);
    assert_int_equal(fake->controller.member_count, 4);
    assert_int_equal(fake->controller.members[1].stay, MEMBER_DISMISSED);
    fake->players[3].accuses = node(1);
    struct message beat = {.type = MESSAGE_HEARTBEAT, .heartbeat = {.state = NODE_STARTED, .silent = node(0)}};
    give_as(fake, 1, 1, &beat);
    play_rounds(fake, TIMEOUT_MS * 1000 / ROUND_US);
    fake->players[3].accuses = ACTOR_NONE;
    expect_good_end(fake, 60);
    assert_int_equal(fake->controller.progress.failures, 0);
    assert_int_equal(fake->controller.progress.evictions, 1);
}

/* Whether the present PLAN names the node or its servers. */
static bool plan_has(const struct fake *fake, unsigned number) {
    const struct plan_view *plan = &fake->controller.plan.view;
    actor_id other = node(number);
    bool named = false;
    for (unsigned m = 0; m < fake->controller.member_count; m++) {
        assert_int_equal(fake->controller.members[m].goes_by.version, plan->terms.version);
    }
    for (size_t n = 0; n < plan->node_count; n++) {
        named = named || plan->nodes[n].actor == other;
    }
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        named = named || actor_node(plan->endpoints[e].actor) == other;
    }
    return named;
}

/* The other nodes would try to connect to the node forever. */
TEST(no_plan_names_who_has_left) {
    struct fake *fake = cluster_at(STAGE_2, 60, 1, 3, 5);
    assert_true(plan_has(fake, 1));
    ask(fake, OPERATOR, MESSAGE_EVICT, "n1");
    for (unsigned r = 0; fake->controller.progress.evictions == 0; r++) {
        assert_true(r < ROUNDS_MAX);
        play(fake);
    }
    play_rounds(fake, 2);
    assert_false(plan_has(fake, 1));
    assert_true(plan_has(fake, 2));
    expect_good_end(fake, 60);
}
