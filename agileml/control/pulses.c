/* The elasticity controller's questions to nodes that are suspected: it receives PULSE, watches its own connections to
 * pulses, and gives up the nodes that are lost by the rules of suspect.h. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PULSES_TICK_MS = 250, /* in a job without probes, where no question has a deadline */
    /* The wait before the controller dials a broken pulse again; it doubles with each dial. A process that ends closes
     * its connections a little before it stops listening, so the first dial may still succeed. */
    PULSES_DIAL_US = 4000,
    PULSES_DIAL_MAX_US = 256 * 1000
};

static uint64_t period_us(const struct controller *controller) {
    uint64_t period_ms = controller->options.probe_ms > 0 ? controller->options.probe_ms : PULSES_TICK_MS;
    return period_ms * UINT64_C(1000);
}

/* Whether this controller judges pulses now. Before the first plan the launcher reports nodes that are lost. */
static bool judges(const struct controller *controller) {
    return controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE;
}

static void ask(struct controller *controller, const struct member *member) {
    struct message question = {.type = MESSAGE_PULSE, .pulse = {.kind = PULSE_ASK, .number = member->suspect.number}};
    controller_send(controller, actor_pulse(member->node.actor), &question);
}

/* Has the timer called for the next tick. */
static void begin_ticks(struct controller *controller) {
    struct controller_pulses *pulses = &controller->answers.pulses;
    if (pulses->tick_us == 0) {
        pulses->tick_us = controller_now(controller) + period_us(controller);
        controller_tick_before(controller, pulses->tick_us);
    }
}

static void lose(struct controller *controller, struct member *member, const char *text) {
    if (member->stay == MEMBER_DISMISSED) {
        controller_remove_member(controller, member);
    } else {
        crashes_ended(controller, member);
        recover_lost(controller, member, text);
    }
}

/* Carries out a step other than SUSPECT_LOST. */
static void take_step(struct controller *controller, const struct member *member, enum suspect_step step) {
    if (step == SUSPECT_ASK) {
        ask(controller, member);
    }
    if (member->suspect.number != 0) {
        begin_ticks(controller);
    }
}

static const char *endpoint_of(const struct member *member) {
    const struct wire_endpoint *endpoints = (const void *)member->endpoints->data;
    for (size_t e = 0; e < member->endpoints->size / sizeof *endpoints; e++) {
        if (actor_is_pulse(endpoints[e].actor)) {
            return endpoints[e].endpoint;
        }
    }
    return NULL;
}

/* Finds out whether the member's pulse still listens. */
static void dial(struct controller *controller, const struct member *member) {
    const char *endpoint = endpoint_of(member);
    if (endpoint != NULL && controller->io->dial != NULL) {
        controller->io->dial(controller->io, actor_pulse(member->node.actor), endpoint);
    }
}

/* Has the timer called for the next dials. */
static void dial_again(struct controller *controller) {
    struct controller_pulses *pulses = &controller->answers.pulses;
    uint64_t wait_us = pulses->dial_wait_us == 0 ? PULSES_DIAL_US : 2 * pulses->dial_wait_us;
    pulses->dial_wait_us = wait_us < PULSES_DIAL_MAX_US ? wait_us : PULSES_DIAL_MAX_US;
    pulses->dial_us = controller_now(controller) + pulses->dial_wait_us;
    controller_tick_before(controller, pulses->dial_us);
}

static void dial_broken(struct controller *controller, uint64_t now_us) {
    bool any = false;
    if (controller->answers.pulses.dial_us == 0 || now_us < controller->answers.pulses.dial_us) {
        return;
    }
    controller->answers.pulses.dial_us = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->suspect.broken && member->suspect.number != 0) {
            dial(controller, member);
            any = true;
        }
    }
    if (any) {
        dial_again(controller);
    }
}

/* Returns the member whose pulse this is; NULL: none. */
static struct member *member_of(struct controller *controller, actor_id pulse) {
    return actor_is_pulse(pulse) ? controller_find_member(controller, actor_node(pulse)) : NULL;
}

void pulses_receive(struct controller *controller, actor_id from, const struct message *message) {
    struct member *sender = member_of(controller, from);
    if (sender == NULL || !judges(controller)) {
        return;
    }
    if (message->pulse.kind == PULSE_ANSWER) {
        bool first = !sender->suspect.listens;
        take_step(controller, sender,
                  suspect_heard(&sender->suspect, message->pulse.number, controller->answers.pulses.number + 1));
        controller->answers.pulses.number++;
        if (first && message->pulse.number == 0) {
            dial(controller, sender);
        }
        return;
    }
    struct member *accused = controller_find_member(controller, message->pulse.suspect);
    if (message->pulse.kind == PULSE_SUSPECT && accused != NULL && accused != sender && !accused->left) {
        take_step(controller, accused, suspect_suspected(&accused->suspect, ++controller->answers.pulses.number));
    }
}

void controller_broken(void *self, actor_id peer) {
    struct controller *controller = self;
    struct member *member = member_of(controller, peer);
    if (member == NULL || !judges(controller) || member->left) {
        return;
    }
    uint64_t now_us = controller_now(controller);
    take_step(controller, member, suspect_broke(&member->suspect, now_us, ++controller->answers.pulses.number));
    dial(controller, member);
    controller->answers.pulses.dial_wait_us = 0;
    dial_again(controller);
}

/* In stage traditional a node's end ends the job. A launcher reports the signal or exit status of its node, which makes
 * the better error line. */
static bool leaves_it_to_launcher(const struct controller *controller) {
    return controller->options.observed && controller->plan.stage == STAGE_TRADITIONAL;
}

void controller_dialed(void *self, actor_id actor, bool listens) {
    struct controller *controller = self;
    struct member *member = member_of(controller, actor);
    if (member == NULL || !judges(controller)) {
        return;
    }
    enum suspect_step step = suspect_dialed(&member->suspect, listens);
    if (step == SUSPECT_LOST && !member->left && !leaves_it_to_launcher(controller)) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text,
                 "the process of %s (%s, pid %llu) has ended: its connections broke, and it does not "
                 "listen any more",
                 member->name, member->host, (unsigned long long)member->process_id);
        lose(controller, member, text);
        controller_settle(controller);
    }
}

/* Asks the members that a recovery waits for: several may be lost at once, and with them those who watched them. */
static void ask_unfenced(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count && controller->options.probe_ms > 0; m++) {
        struct member *member = &controller->members[m];
        if (controller->change.state == CHANGE_RECOVER && !member->fence.answered) {
            take_step(controller, member, suspect_suspected(&member->suspect, ++controller->answers.pulses.number));
        }
    }
}

/* Whether so many members leave questions unanswered that this controller must suspect itself. */
static bool doubts_itself(const struct controller *controller, const bool *lost) {
    unsigned present = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        present += controller->members[m].stay != MEMBER_DISMISSED ? 1 : 0;
        count += controller->members[m].stay != MEMBER_DISMISSED && lost[m] ? 1 : 0;
    }
    return 2 * count > present;
}

static void lose_unanswering(struct controller *controller, bool *lost) {
    bool doubt = doubts_itself(controller, lost);
    for (unsigned m = controller->member_count; m-- > 0 && judges(controller);) {
        struct member *member = &controller->members[m];
        if (lost[m] && doubt) {
            member->suspect.unanswered = 0; /* the failure timeout decides about this member */
        } else if (lost[m]) {
            char text[ERROR_TEXT_MAX];
            snprintf(text, sizeof text,
                     "%s (%s, pid %llu) does not answer other nodes, and has not answered for %.2f s", member->name,
                     member->host, (unsigned long long)member->process_id,
                     (double)(SUSPECT_TICKS * period_us(controller)) / 1e6);
            lose(controller, member, text);
        }
    }
}

void pulses_check(struct controller *controller, uint64_t now_us) {
    struct controller_pulses *pulses = &controller->answers.pulses;
    if (!judges(controller)) {
        pulses->tick_us = pulses->dial_us = 0;
        return;
    }
    ask_unfenced(controller);
    dial_broken(controller, now_us);
    if (pulses->tick_us == 0 || now_us < pulses->tick_us) {
        return;
    }
    uint64_t late_us = now_us - pulses->tick_us;
    bool *lost = memory_zeroed(controller->member_count + 1, sizeof *lost);
    bool open = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        enum suspect_step step =
            suspect_tick(&member->suspect, now_us, late_us, period_us(controller), IO_RECONNECT_US, ++pulses->number);
        bool unanswered = step == SUSPECT_LOST;
        lost[m] = unanswered && !member->left && controller->options.probe_ms > 0; /* else silence decides */
        member->suspect.unanswered = unanswered ? SUSPECT_TICKS - 1 : member->suspect.unanswered;
        take_step(controller, member, step);
        open = open || member->suspect.number != 0;
    }
    lose_unanswering(controller, lost);
    free(lost);
    pulses->tick_us = open ? now_us + period_us(controller) : 0;
}

uint64_t pulses_due_us(const struct controller *controller) {
    uint64_t tick_us = controller->answers.pulses.tick_us != 0 ? controller->answers.pulses.tick_us : UINT64_MAX;
    uint64_t dial_us = controller->answers.pulses.dial_us != 0 ? controller->answers.pulses.dial_us : UINT64_MAX;
    return tick_us < dial_us ? tick_us : dial_us;
}
