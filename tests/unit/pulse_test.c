/* Tests of pulses (workers/process/pulse.h), and of when a suspected node counts as lost
 * (agileml/control/decide/suspect.h). */
#include "agileml/control/decide/suspect.h"
#include "tests/fake_io.h"
#include "tests/test.h"
#include "workers/process/pulse.h"

enum { NODES = 6, PERIOD_US = 25 * 1000, RECONNECT_US = 1500 * 1000 };

static actor_id node(unsigned number) {
    return ((actor_id)number + 1) << ACTOR_PART_BITS;
}

/* ---- Suspects ---- */

/* A tick after an interval in which another pulse has answered request `answered`; 0: none has. */
static enum suspect_step tick_after(struct suspect *suspect, uint64_t now_us, uint64_t late_us, uint64_t answered) {
    const struct suspect_interval interval = {.began_us = now_us - PERIOD_US - late_us,
                                              .period_us = PERIOD_US,
                                              .late_us = late_us,
                                              .reconnect_us = RECONNECT_US,
                                              .answered = answered};
    return suspect_tick(suspect, now_us, &interval, 100);
}

/* A tick after an interval in which the controller would have received an answer. */
static enum suspect_step tick(struct suspect *suspect, uint64_t now_us, uint64_t late_us) {
    return tick_after(suspect, now_us, late_us, 1000);
}

/* A node whose pulse was heard before, suspected at time 0. */
static struct suspect suspected(void) {
    struct suspect suspect = {0};
    assert_int_equal(suspect_heard(&suspect, 0, 0, 1), SUSPECT_WAIT);
    assert_int_equal(suspect_suspected(&suspect, 0, 7), SUSPECT_ASK);
    assert_int_equal(suspect_suspected(&suspect, 0, 8), SUSPECT_WAIT); /* the earlier request is still open */
    return suspect;
}

TEST(an_unanswered_question_loses_the_node) {
    struct suspect suspect = suspected();
    for (unsigned t = 1; t < SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    assert_int_equal(tick(&suspect, SUSPECT_TICKS * PERIOD_US, 0), SUSPECT_LOST);
}

/* A request sent within an interval gets SUSPECT_TICKS further intervals. */
TEST(only_whole_intervals_count) {
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    assert_int_equal(suspect_suspected(&suspect, PERIOD_US / 2, 7), SUSPECT_ASK);
    for (unsigned t = 1; t <= SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    assert_int_equal(tick(&suspect, (SUSPECT_TICKS + 1) * PERIOD_US, 0), SUSPECT_LOST);
}

/* The node's messages may wait unread in the controller's socket, or the request may not have left. The node is
 * judged only while another pulse's answers to requests of the same age arrive. */
TEST(only_intervals_in_which_another_pulse_answers_count) {
    struct suspect suspect = suspected();
    for (unsigned t = 1; t < 100; t++) {
        assert_int_equal(suspect_suspected(&suspect, 0, 8), SUSPECT_WAIT);
        assert_int_equal(tick_after(&suspect, t * PERIOD_US, t % 3 * PERIOD_US, t % 2 == 0 ? 0 : 6), SUSPECT_WAIT);
    }
    for (unsigned t = 100; t < 99 + SUSPECT_TICKS; t++) {
        assert_int_equal(tick_after(&suspect, t * PERIOD_US, 0, 8), SUSPECT_WAIT);
    }
    assert_int_equal(tick_after(&suspect, (99 + SUSPECT_TICKS) * PERIOD_US, 0, 8), SUSPECT_LOST);
}

/* A node gets more time if others, on overloaded machines, answer late too. */
TEST(a_node_has_time_where_others_answer_late) {
    struct suspect suspect = suspected();
    struct suspect_interval interval = {.period_us = PERIOD_US, .patience_us = 8 * PERIOD_US, .answered = 8};
    for (unsigned t = 1; t < 8; t++) {
        interval.began_us = (t - 1) * PERIOD_US;
        assert_int_equal(suspect_tick(&suspect, t * PERIOD_US, &interval, 100), SUSPECT_WAIT);
    }
    assert_int_equal(suspect_tick(&suspect, 8 * PERIOD_US, &interval, 100), SUSPECT_LOST);
}

/* A node that no other node suspects gets more time, as a lost packet alone may cost a suspected node's number of
 * intervals. */
TEST(a_node_that_nobody_suspects_has_more_time) {
    for (unsigned accused_at = 1; accused_at <= SUSPECT_UNACCUSED_TICKS; accused_at++) {
        struct suspect suspect = {0};
        suspect_heard(&suspect, 0, 0, 1);
        assert_int_equal(suspect_asked(&suspect, 0, 7), SUSPECT_ASK);
        unsigned lost_at = accused_at > SUSPECT_TICKS ? accused_at : SUSPECT_TICKS;
        for (unsigned t = 1; t <= lost_at; t++) {
            if (t == accused_at) {
                assert_int_equal(suspect_suspected(&suspect, t * PERIOD_US, 8), SUSPECT_WAIT);
            }
            assert_int_equal(tick(&suspect, t * PERIOD_US, 0), t < lost_at ? SUSPECT_WAIT : SUSPECT_LOST);
        }
    }
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    assert_int_equal(suspect_asked(&suspect, 0, 7), SUSPECT_ASK);
    for (unsigned t = 1; t <= SUSPECT_UNACCUSED_TICKS; t++) {
        bool last = t == SUSPECT_UNACCUSED_TICKS;
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), last ? SUSPECT_LOST : SUSPECT_WAIT);
    }
}

TEST(an_answer_ends_the_suspicion) {
    struct suspect suspect = suspected();
    for (unsigned t = 1; t < SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    assert_int_equal(suspect_heard(&suspect, 0, 7, 9), SUSPECT_WAIT);
    for (unsigned t = 0; t < 100; t++) {
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), SUSPECT_WAIT);
    }
}

/* Messages sent before the request do not answer it. */
TEST(only_the_answer_counts) {
    struct suspect suspect = suspected();
    assert_int_equal(suspect_heard(&suspect, 0, 6, 9), SUSPECT_WAIT); /* to an earlier request */
    assert_int_equal(suspect.number, 7);
    assert_int_equal(suspect_heard(&suspect, 0, 0, 9), SUSPECT_ASK); /* not an answer; the connection may be new */
    assert_int_equal(suspect.number, 9);
}

TEST(a_pulse_that_was_never_heard_is_not_judged) {
    struct suspect suspect = {0};
    assert_int_equal(suspect_suspected(&suspect, 0, 7), SUSPECT_WAIT);
    for (unsigned t = 0; t < 100; t++) {
        assert_int_equal(tick(&suspect, t, 0), SUSPECT_WAIT);
    }
}

TEST(a_suspicion_that_nobody_repeats_is_over) {
    struct suspect suspect = suspected();
    for (unsigned t = 1; t <= SUSPECT_STALE_TICKS + 1; t++) {
        assert_int_equal(tick_after(&suspect, t * PERIOD_US, 0, 0), SUSPECT_WAIT);
    }
    assert_int_equal(suspect.number, 0);
}

/* A controller that was stopped sends a new request. */
TEST(a_very_late_tick_begins_the_question_anew) {
    struct suspect suspect = suspected();
    const uint64_t late_us = SUSPECT_LATE_TICKS * PERIOD_US + 1;
    for (unsigned t = 1; t < SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    uint64_t now_us = SUSPECT_TICKS * PERIOD_US + late_us;
    assert_int_equal(tick(&suspect, now_us, late_us), SUSPECT_ASK);
    for (unsigned t = 1; t < SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, now_us + t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    assert_int_equal(tick(&suspect, now_us + SUSPECT_TICKS * PERIOD_US, 0), SUSPECT_LOST);
}

/* ---- Refused connections ---- */

/* A connection attempt that is answered at once. */
static enum suspect_step dial(struct suspect *suspect, uint64_t now_us, bool listens) {
    const struct suspect_dial dial = {.began_us = now_us, .apart_us = SUSPECT_REFUSED_US, .listens = listens};
    return suspect_dialed(suspect, now_us, &dial);
}

/* A suspected node whose pulse listened before. */
static struct suspect dialed(void) {
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    assert_int_equal(dial(&suspect, 0, true), SUSPECT_WAIT);
    assert_int_equal(dial(&suspect, 1, false), SUSPECT_WAIT); /* no node suspects it */
    assert_int_equal(suspect_broke(&suspect, 1000, 7), SUSPECT_ASK);
    assert_int_equal(dial(&suspect, 1000, true), SUSPECT_WAIT); /* the process has not closed everything yet */
    return suspect;
}

TEST(a_process_that_has_ended_is_lost_soon) {
    struct suspect suspect = dialed();
    assert_int_equal(dial(&suspect, 5000, false), SUSPECT_WAIT);
    assert_int_equal(dial(&suspect, 5000 + SUSPECT_REFUSED_US - 1, false), SUSPECT_WAIT);
    assert_int_equal(dial(&suspect, 5000 + SUSPECT_REFUSED_US, false), SUSPECT_LOST);
}

/* An attempt counts from its begin: if that is too soon after the first refusal, it proves no more, however late its
 * answer is seen. */
TEST(a_refusal_counts_from_when_it_was_asked_for) {
    struct suspect suspect = dialed();
    assert_int_equal(dial(&suspect, 5000, false), SUSPECT_WAIT);
    struct suspect_dial second = {.began_us = 8000, .apart_us = SUSPECT_REFUSED_US};
    assert_int_equal(suspect_dialed(&suspect, 10 * SUSPECT_REFUSED_US, &second), SUSPECT_WAIT);
    second.began_us = 5000 + SUSPECT_REFUSED_US;
    assert_int_equal(suspect_dialed(&suspect, 10 * SUSPECT_REFUSED_US, &second), SUSPECT_LOST);
}

/* A connection whose end was missed does not protect a process that has ended. */
TEST(a_suspected_process_that_has_ended_is_lost_without_a_break) {
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    dial(&suspect, 0, true);
    assert_int_equal(suspect_suspected(&suspect, 1000, 7), SUSPECT_ASK);
    assert_int_equal(dial(&suspect, 5000, false), SUSPECT_WAIT);
    assert_int_equal(dial(&suspect, 5000 + SUSPECT_REFUSED_US, false), SUSPECT_LOST);
}

/* A firewall that is being reloaded refuses connections for a while. */
TEST(refusals_do_not_count_if_the_process_is_heard_in_between) {
    struct suspect suspect = dialed();
    uint64_t now_us = 5000;
    for (unsigned round = 0; round < 10; round++) {
        assert_int_equal(dial(&suspect, now_us, false), SUSPECT_WAIT);
        now_us += SUSPECT_REFUSED_US;
        if (round % 2 == 0) {
            assert_int_equal(dial(&suspect, now_us, true), SUSPECT_WAIT);
        } else {
            assert_int_equal(suspect_heard(&suspect, now_us, suspect.number, 1), SUSPECT_WAIT);
            assert_int_equal(suspect_suspected(&suspect, now_us, 20 + round), SUSPECT_ASK);
        }
    }
}

/* If the controller never reached the pulse, for example behind address translation, a refusal proves nothing. */
TEST(a_refusal_counts_only_after_a_success) {
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    assert_int_equal(suspect_broke(&suspect, 1000, 7), SUSPECT_ASK);
    assert_int_equal(dial(&suspect, 1000, false), SUSPECT_WAIT);
    assert_int_equal(dial(&suspect, 1000 + 2 * SUSPECT_REFUSED_US, false), SUSPECT_WAIT);
}

TEST(a_broken_connection_has_time_to_stand_again) {
    struct suspect suspect = {0};
    suspect_heard(&suspect, 0, 0, 1);
    suspect_broke(&suspect, 1000, 7);
    assert_int_equal(suspect_heard(&suspect, 0, 0, 8), SUSPECT_ASK); /* may have been sent before the break */
    for (uint64_t us = 1000; us < 1000 + RECONNECT_US; us += PERIOD_US) {
        assert_int_equal(suspect_suspected(&suspect, 0, 9), SUSPECT_WAIT);
        assert_int_equal(tick(&suspect, us, 0), SUSPECT_WAIT);
    }
    uint64_t asked_us = 1000 + RECONNECT_US;
    assert_int_equal(tick(&suspect, asked_us, 0), SUSPECT_ASK);
    for (unsigned t = 1; t < SUSPECT_TICKS; t++) {
        assert_int_equal(tick(&suspect, asked_us + t * PERIOD_US, 0), SUSPECT_WAIT);
    }
    assert_int_equal(tick(&suspect, asked_us + SUSPECT_TICKS * PERIOD_US, 0), SUSPECT_LOST);
}

/* ---- A pulse ---- */

struct fake {
    struct fake_io io;
    struct pulse pulse;
};

/* A plan of `count` nodes from `first` on, in groups of `group_size` consecutive nodes. */
static void give_plan(struct fake *fake, uint64_t version, unsigned first, unsigned count, unsigned group_size) {
    CLOSED_BY(message_close)
    struct message plan = {.type = MESSAGE_PLAN, .epoch = 1, .plan = {.version = version, .partitions = 1}};
    struct wire_node nodes[NODES] = {{0}};
    struct wire_endpoint endpoints[2 * NODES] = {{0}};
    const struct wire_placement placement = {.server = node(0) + 1};
    for (unsigned n = 0; n < count; n++) {
        nodes[n].actor = node(first + n);
        nodes[n].group = (first + n) / group_size;
        endpoints[2 * n] = (struct wire_endpoint){.actor = node(first + n) + 1, .endpoint = "tcp://server:1"};
        endpoints[2 * n + 1] =
            (struct wire_endpoint){.actor = actor_pulse(node(first + n)), .endpoint = "tcp://pulse:1"};
    }
    plan.frames[PLAN_NODES] = buffer_copy(nodes, count * sizeof *nodes);
    plan.frames[PLAN_PLACEMENT] = buffer_copy(&placement, sizeof placement);
    plan.frames[PLAN_ASSIGNMENTS] = buffer_new(0);
    plan.frames[PLAN_SHARDS] = buffer_new(0);
    plan.frames[PLAN_ENDPOINTS] = buffer_copy(endpoints, 2 * count * sizeof *endpoints);
    plan.frame_count = PLAN_FRAMES;
    pulse_receive(&fake->pulse, node(0), &plan);
}

static void give(struct fake *fake, actor_id from, enum pulse_kind kind, uint64_t number) {
    struct message message = {.type = MESSAGE_PULSE, .pulse = {.kind = (uint8_t)kind, .number = number}};
    pulse_receive(&fake->pulse, from, &message);
}

static void fake_close(void *context) {
    FREED struct fake *fake = context;
    fake_io_forget(&fake->io);
    pulse_close(&fake->pulse);
}

/* The pulse of node 0 in a ring of `count` nodes. */
static struct fake *fake_open(unsigned count, unsigned group_size, uint32_t probe_ms) {
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    at_end(fake_close, fake);
    fake_io_open(&fake->io);
    pulse_init(&fake->pulse, &fake->io.io, actor_pulse(node(0)), "tcp://controller:1");
    struct message welcome = {.type = MESSAGE_WELCOME, .welcome = {.probe_ms = probe_ms}};
    pulse_receive(&fake->pulse, node(0), &welcome);
    give_plan(fake, 1, 0, count, group_size);
    return fake;
}

/* The number of messages of a kind sent to an actor, or about a suspect. Forgets all messages. */
static unsigned sent(struct fake *fake, actor_id to, enum pulse_kind kind, actor_id suspect) {
    unsigned found = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        const struct message *message = &fake->io.sent[m].message;
        assert_int_equal(message->type, MESSAGE_PULSE);
        found += fake->io.sent[m].to == to && message->pulse.kind == kind && message->pulse.suspect == suspect;
    }
    fake_io_forget(&fake->io);
    return found;
}

/* The next tick, `late_us` late. With `answered`, all targets answer first. */
static void next(struct fake *fake, uint64_t late_us, bool answered) {
    for (unsigned t = 0; answered && t < fake->pulse.target_count; t++) {
        give(fake, fake->pulse.targets[t].pulse, PULSE_ANSWER, fake->pulse.number);
    }
    assert_true(fake->io.timer_us != 0);
    fake->io.now_us = fake->io.timer_us + late_us;
    pulse_timer(&fake->pulse);
    assert_true(fake->io.timer_us > fake->io.now_us);
}

TEST(a_ring_and_another_group) {
    struct fake *fake = fake_open(6, 3, 25);
    assert_int_equal(fake->pulse.target_count, 3);
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(fake->pulse.targets[n].pulse, actor_pulse(node(1 + n)));
    }
    assert_int_equal(fake->pulse.targets[2].pulse, actor_pulse(node(3))); /* the next node of another group */
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_ANSWER, 0), 1);   /* so that the controller can send requests */
    give_plan(fake, 2, 0, 2, 1);
    assert_int_equal(fake->pulse.target_count, 1);
    assert_int_equal(fake->io.forgotten_count, 2);
    give_plan(fake, 3, 0, 1, 1);
    assert_int_equal(fake->pulse.target_count, 0);
    give_plan(fake, 2, 0, 2, 1); /* late */
    assert_int_equal(fake->pulse.target_count, 0);
    fake = fake_open(6, 1, 25);
    assert_int_equal(fake->pulse.target_count, 2);
}

TEST(whoever_asks_is_answered) {
    struct fake *fake = fake_open(3, 1, 0);
    fake_io_forget(&fake->io);
    give(fake, ACTOR_CONTROLLER, PULSE_ASK, 12);
    assert_int_equal(fake->io.sent[0].to, ACTOR_CONTROLLER);
    assert_int_equal(fake->io.sent[0].message.pulse.kind, PULSE_ANSWER);
    assert_int_equal(fake->io.sent[0].message.pulse.number, 12);
    give(fake, actor_pulse(node(2)), PULSE_ASK, 13);
    assert_int_equal(fake->io.sent[1].to, actor_pulse(node(2)));
}

TEST(silence_is_a_suspicion) {
    struct fake *fake = fake_open(3, 1, 25);
    for (unsigned t = 0; t < 20; t++) {
        next(fake, 0, true);
    }
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
    for (unsigned t = 0; t < PULSE_MISSED; t++) {
        assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
        next(fake, 0, false);
    }
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 1);
    next(fake, 0, false);
    /* repeated as long as the silence lasts */
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(2)), 1);
    next(fake, 0, true);
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
}

/* A pulse that was stopped finds no answers at first: they wait behind its timer. */
TEST(whoever_was_stopped_suspects_nobody) {
    struct fake *fake = fake_open(3, 1, 25);
    for (unsigned round = 0; round < 10; round++) {
        next(fake, 0, true);
        next(fake, 0, false);
        next(fake, 10 * 1000 * 1000, false);
        next(fake, 0, false);
        assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
    }
    for (unsigned t = 0; t < 50; t++) { /* always late, as on an overloaded machine */
        next(fake, 2 * PERIOD_US, false);
    }
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
}

TEST(a_broken_connection_is_told_at_once) {
    struct fake *fake = fake_open(4, 1, 0);
    fake_io_forget(&fake->io);
    pulse_broken(&fake->pulse, actor_pulse(node(3))); /* node 3 watches this node */
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(3)), 1);
    pulse_broken(&fake->pulse, actor_pulse(node(5))); /* node 5 is not in the plan */
    pulse_broken(&fake->pulse, ACTOR_CONTROLLER);
    assert_int_equal(fake->io.count, 0);
    pulse_broken(&fake->pulse, actor_pulse(node(1)));
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 1);
    next(fake, 0, false); /* repeated until the node answers */
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 1);
    pulse_connected(&fake->pulse, actor_pulse(node(1)));
    assert_int_equal(sent(fake, actor_pulse(node(1)), PULSE_ASK, 0), 1);
    give(fake, actor_pulse(node(1)), PULSE_ANSWER, fake->pulse.number);
    next(fake, 0, false);
    assert_int_equal(sent(fake, ACTOR_CONTROLLER, PULSE_SUSPECT, node(1)), 0);
}

TEST(without_probes_nobody_is_asked) {
    struct fake *fake = fake_open(3, 1, 0);
    for (unsigned t = 0; t < 10; t++) {
        next(fake, 0, false);
        assert_int_equal(sent(fake, actor_pulse(node(1)), PULSE_ASK, 0), 0);
    }
}
