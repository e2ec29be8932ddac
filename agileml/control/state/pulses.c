/* See pulses.h. */
#include "agileml/control/state/pulses.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"
#include "agileml/base/trial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PULSES_TICK_MS = 250, /* the interval in a job without probes, where no question has a deadline */
    /* The wait before the controller dials a broken pulse again; it doubles with each dial. A process that ends closes
     * its connections a little before it stops listening, so the first dial may still succeed. */
    PULSES_DIAL_US = 4000,
    PULSES_DIAL_MAX_US = 256 * 1000,
    /* Other pulses that are asked in each interval: their answers show that this controller can receive answers.
     * Several, as some of them may be lost and not suspected yet. */
    PULSES_WITNESSES = 3,
    /* A question stays open for PULSES_PATIENCE times the slowest other answer's time, if that is longer than
     * SUSPECT_TICKS intervals, but for at most PULSES_PATIENCE_TICKS intervals. */
    PULSES_PATIENCE = 3,
    PULSES_PATIENCE_TICKS = 8,
    /* The wait before the controller again dials a pulse to which it could never connect; it doubles with each
     * attempt. */
    PULSES_REACH_US = 1000 * 1000,
    PULSES_REACH_DOUBLINGS = 8,
    PULSES_REACH_REPORTED = 3 /* failed attempts after which the report gets a line */
};
static_assert((int)PULSES_PATIENCE_TICKS <= (int)SUSPECT_STALE_TICKS &&
                  (int)SUSPECT_UNACCUSED_TICKS < (int)SUSPECT_STALE_TICKS,
              "a question is judged before it is stale");

static uint64_t period_us(const struct controller *controller) {
    uint64_t period_ms = controller->options.probe_ms > 0 ? controller->options.probe_ms : PULSES_TICK_MS;
    return period_ms * UINT64_C(1000);
}

/* Whether this controller judges pulses now. Before the first plan, the launcher reports lost nodes. */
static bool judges(const struct controller *controller) {
    return controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE;
}

/* Sends the question, or repeats it. */
static void ask(struct controller *controller, struct member *member, uint64_t number) {
    if (member->pulse.asked != number) {
        member->pulse.asked = number;
        member->pulse.asked_us = controller_now(controller);
    }
    struct message question = {.type = MESSAGE_PULSE, .pulse = {.kind = PULSE_ASK, .number = number}};
    controller_send(controller, actor_pulse(member->node.actor), &question);
}

/* Asks some pulses that nobody suspects, different ones in each interval. Does not soon ask a pulse again that has not
 * answered, as a new question would void its late answer to the earlier one. */
static void ask_witnesses(struct controller *controller, uint64_t now_us) {
    struct pulses *pulses = &controller->features.pulses;
    uint64_t old_us = PULSES_PATIENCE_TICKS * period_us(controller);
    unsigned asked = 0;
    for (unsigned m = 0; m < controller->member_count && asked < PULSES_WITNESSES; m++) {
        struct member *member = &controller->members[pulses->witness++ % controller->member_count];
        bool asked_now = member->pulse.asked != 0 && now_us < member->pulse.asked_us + old_us;
        if (member->pulse.suspect.there && member->pulse.suspect.number == 0 && !member->left && !asked_now) {
            ask(controller, member, ++pulses->number);
            asked++;
        }
    }
}

/* Begins an interval. */
static void begin_interval(struct controller *controller, uint64_t now_us) {
    struct pulses *pulses = &controller->features.pulses;
    pulses->began_us = now_us;
    pulses->tick_us = now_us + period_us(controller);
    pulses->answered = 0;
    if (controller->options.probe_ms > 0) {
        ask_witnesses(controller, now_us);
    }
}

/* Asks all pulses: several nodes may be lost at once, together with the nodes that probe them. */
static void ask_all(struct controller *controller, uint64_t now_us) {
    uint64_t number = ++controller->features.pulses.number;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (!member->left && suspect_asked(&member->pulse.suspect, now_us, number) == SUSPECT_ASK) {
            ask(controller, member, number);
        }
    }
}

/* Begins the first interval, if none is under way, and sets the timer for its tick. */
static void begin_ticks(struct controller *controller) {
    uint64_t now_us = controller_now(controller);
    if (controller->features.pulses.tick_us != 0) {
        return;
    }
    controller->features.pulses.slowest_us = 0;
    if (controller->options.probe_ms > 0) {
        ask_all(controller, now_us);
    }
    begin_interval(controller, now_us);
    controller_tick_before(controller, controller->features.pulses.tick_us);
}

/* Carries out a step other than SUSPECT_LOST. */
static void take_step(struct controller *controller, struct member *member, enum suspect_step step) {
    if (step == SUSPECT_ASK) {
        ask(controller, member, member->pulse.suspect.number);
    }
    if (member->pulse.suspect.number != 0) {
        begin_ticks(controller);
    }
}

static bool is_on_host_of(const char *endpoint, const char *other) {
    const char *end = strrchr(endpoint, ':');
    const char *other_end = strrchr(other, ':');
    return end != NULL && other_end != NULL && end - endpoint == other_end - other &&
           strncmp(endpoint, other, (size_t)(end - endpoint)) == 0;
}

/* Returns the endpoint of the member's pulse; NULL: the member has named none. Sets *own to whether its servers listen
 * at the same host: a node must not make this controller connect to other machines. */
static const char *endpoint_of(const struct member *member, bool *own) {
    const struct wire_endpoint *endpoints = (const void *)member->endpoints->data;
    size_t count = member->endpoints->size / sizeof *endpoints;
    const char *pulse = NULL;
    for (size_t e = 0; e < count; e++) {
        pulse = actor_is_pulse(endpoints[e].actor) ? endpoints[e].endpoint : pulse;
    }
    *own = pulse != NULL;
    for (size_t e = 0; e < count && *own; e++) {
        *own = is_on_host_of(pulse, endpoints[e].endpoint);
    }
    return pulse;
}

/* Finds out whether the member's pulse still listens. */
static void dial(struct controller *controller, const struct member *member) {
    bool own;
    const char *endpoint = endpoint_of(member, &own);
    if (own && controller->io->dial != NULL) {
        controller->io->dial(controller->io, actor_pulse(member->node.actor), endpoint);
    }
}

/* Sets the timer for the next dials: `wait_us` from now, or earlier. */
static void dial_within(struct controller *controller, uint64_t wait_us) {
    struct pulses *pulses = &controller->features.pulses;
    uint64_t due_us = controller_now(controller) + wait_us;
    if (pulses->dial_us == 0 || pulses->dial_us > due_us) {
        pulses->dial_wait_us = wait_us;
        pulses->dial_us = due_us;
        controller_tick_before(controller, due_us);
    }
}

/* Dials the pulses that have an open question and have listened before: a refusal shows that they have ended. */
static void dial_suspects(struct controller *controller, uint64_t now_us) {
    struct pulses *pulses = &controller->features.pulses;
    bool any = false;
    if (pulses->dial_us == 0 || now_us < pulses->dial_us) {
        return;
    }
    pulses->dial_us = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->pulse.suspect.listens && member->pulse.suspect.number != 0) {
            dial(controller, member);
            any = true;
        }
    }
    if (any) {
        dial_within(controller, trial_longer(pulses->dial_wait_us, PULSES_DIAL_US, PULSES_DIAL_MAX_US));
    }
}

/* Dials a pulse that was heard but to which this controller could not connect so far, at growing intervals. Only after
 * a success does a refused connection show that the process has ended. */
static void reach(struct controller *controller, struct member *member) {
    uint64_t now_us = controller_now(controller);
    struct member_pulse *pulse = &member->pulse;
    if (member->pulse.suspect.listens || now_us < pulse->reach_us || controller->io->dial == NULL) {
        return;
    }
    if (pulse->reach_attempts == PULSES_REACH_REPORTED) {
        char text[ERROR_TEXT_MAX];
        bool own;
        const char *endpoint = endpoint_of(member, &own);
        snprintf(
            text, sizeof text,
            own ? "the controller can't connect to the node's pulse at %s: if the node's process ends, this is "
                  "noticed only by its silence; check whether a firewall blocks that port"
                : "the node's pulse listens at %s, on another machine than its servers, so the controller does not "
                  "connect to it: if the node's process ends, this is noticed only by its silence",
            endpoint != NULL ? endpoint : "no endpoint");
        controller_report(controller, report_event(controller, "unreachable", member->name, text));
    }
    unsigned doublings =
        pulse->reach_attempts < PULSES_REACH_DOUBLINGS ? pulse->reach_attempts : PULSES_REACH_DOUBLINGS;
    pulse->reach_us = now_us + ((uint64_t)PULSES_REACH_US << doublings);
    pulse->reach_attempts += pulse->reach_attempts < UINT32_MAX ? 1 : 0;
    dial(controller, member);
}

static void count_answer(struct controller *controller, struct member *member, uint64_t number) {
    struct pulses *pulses = &controller->features.pulses;
    if (number != 0 && number == member->pulse.asked) {
        uint64_t took_us = controller_now(controller) - member->pulse.asked_us;
        pulses->slowest_us = took_us > pulses->slowest_us ? took_us : pulses->slowest_us;
        pulses->answered = number > pulses->answered ? number : pulses->answered;
        member->pulse.asked = 0;
    }
}

static uint64_t patience_us(const struct controller *controller) {
    uint64_t most_us = PULSES_PATIENCE_TICKS * period_us(controller);
    uint64_t wanted_us = PULSES_PATIENCE * controller->features.pulses.slowest_us;
    return wanted_us < most_us ? wanted_us : most_us;
}

/* Returns the member whose pulse this is; NULL: none. */
static struct member *member_of(struct controller *controller, actor_id pulse) {
    return actor_is_pulse(pulse) ? controller_find_member(controller, actor_node(pulse)) : NULL;
}

static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    (void)member; /* a pulse is no node's agent */
    struct member *sender = message->type == MESSAGE_PULSE ? member_of(controller, from) : NULL;
    if (sender == NULL || !judges(controller)) {
        return;
    }
    struct pulses *pulses = &controller->features.pulses;
    uint64_t now_us = controller_now(controller);
    uint64_t number = message->pulse.number;
    if (message->pulse.kind == PULSE_ANSWER) {
        count_answer(controller, sender, number);
        pulses->number++;
        take_step(controller, sender, suspect_heard(&sender->pulse.suspect, now_us, number, pulses->number));
        if (number == 0) {
            reach(controller, sender);
        }
        return;
    }
    struct member *accused = controller_find_member(controller, message->pulse.suspect);
    if (message->pulse.kind == PULSE_SUSPECT && accused != NULL && accused != sender && !accused->left) {
        bool again = accused->pulse.suspect.accused;
        take_step(controller, accused, suspect_suspected(&accused->pulse.suspect, now_us, ++pulses->number));
        if (!again) {
            dial_within(controller, PULSES_DIAL_US); /* its connection to this controller may have ended unnoticed */
        }
    }
}

static void broke(struct controller *controller, actor_id peer) {
    struct member *member = member_of(controller, peer);
    if (member == NULL || !judges(controller) || member->left) {
        return;
    }
    uint64_t now_us = controller_now(controller);
    take_step(controller, member, suspect_broke(&member->pulse.suspect, now_us, ++controller->features.pulses.number));
    dial(controller, member);
    dial_within(controller, PULSES_DIAL_US);
}

/* Whether the launcher should report the node's end. In stage traditional the loss of a node ends the job, and the
 * launcher knows the node's signal or exit status, which makes a better error message. */
static bool leaves_it_to_launcher(const struct controller *controller) {
    return controller->options.observed && controller->plan.stage == STAGE_TRADITIONAL;
}

/* Returns how far two refusals must be apart. A pulse whose connection stands has as much time to answer as a silent
 * pulse: its machine may refuse only new connections. */
static uint64_t refusals_apart_us(const struct controller *controller, const struct member *member) {
    uint64_t silent_us = SUSPECT_TICKS * period_us(controller);
    uint64_t patient_us = patience_us(controller);
    uint64_t answer_us = silent_us > patient_us ? silent_us : patient_us;
    return member->pulse.suspect.broken || answer_us < SUSPECT_REFUSED_US ? SUSPECT_REFUSED_US : answer_us;
}

static bool dialed(struct controller *controller, actor_id actor, uint64_t began_us, bool listens) {
    struct member *member = member_of(controller, actor);
    if (member == NULL || !judges(controller)) {
        return false;
    }
    uint64_t now_us = controller_now(controller);
    const struct suspect_dial answer = {
        .began_us = began_us, .apart_us = refusals_apart_us(controller, member), .listens = listens};
    enum suspect_step step = suspect_dialed(&member->pulse.suspect, now_us, &answer);
    uint64_t confirm_us = member->pulse.suspect.refused_us + answer.apart_us;
    if (step == SUSPECT_WAIT && member->pulse.suspect.refused_us != 0) {
        dial_within(controller, confirm_us > now_us + PULSES_DIAL_US ? confirm_us - now_us : PULSES_DIAL_US);
    }
    bool lost = step == SUSPECT_LOST && !member->left && !leaves_it_to_launcher(controller);
    if (lost) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text,
                 "the process of %s (%s, pid %llu) has ended: it answers nobody, and does not listen any more",
                 member->name, member->host, (unsigned long long)member->process_id);
        crashes_ended(controller, member);
        controller_lose(controller, member, text);
    }
    return lost;
}

/* Asks the members for which a recovery waits: they may have been lost without being suspected. */
static void ask_unfenced(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count && controller->options.probe_ms > 0; m++) {
        struct member *member = &controller->members[m];
        if (controller->change.state == CHANGE_RECOVER && !member->fence.answered) {
            uint64_t number = ++controller->features.pulses.number;
            take_step(controller, member, suspect_asked(&member->pulse.suspect, controller_now(controller), number));
        }
    }
}

/* Whether so many members leave questions unanswered that this controller's own network may be the cause. */
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
            member->pulse.suspect.unanswered = 0; /* the failure timeout decides about this member */
        } else if (lost[m]) {
            char text[ERROR_TEXT_MAX];
            snprintf(text, sizeof text,
                     "%s (%s, pid %llu) does not answer other nodes, and has not answered for %.2f s", member->name,
                     member->host, (unsigned long long)member->process_id,
                     (double)(controller_now(controller) - member->pulse.suspect.asked_us) / 1e6);
            crashes_ended(controller, member);
            controller_lose(controller, member, text);
        }
    }
}

static void check(struct controller *controller, uint64_t now_us) {
    struct pulses *pulses = &controller->features.pulses;
    if (!judges(controller)) {
        pulses->tick_us = pulses->dial_us = 0;
        return;
    }
    ask_unfenced(controller);
    dial_suspects(controller, now_us);
    if (pulses->tick_us == 0 || now_us < pulses->tick_us) {
        return;
    }
    const struct suspect_interval interval = {.began_us = pulses->began_us,
                                              .period_us = period_us(controller),
                                              .late_us = now_us - pulses->tick_us,
                                              .reconnect_us = IO_RECONNECT_US,
                                              .patience_us = patience_us(controller),
                                              .answered = pulses->answered};
    bool *lost = memory_zeroed(controller->member_count + 1, sizeof *lost);
    bool open = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        enum suspect_step step = suspect_tick(&member->pulse.suspect, now_us, &interval, ++pulses->number);
        bool unanswered = step == SUSPECT_LOST;
        lost[m] = unanswered && !member->left && controller->options.probe_ms > 0; /* else silence.c decides */
        member->pulse.suspect.unanswered -= unanswered ? 1 : 0;
        take_step(controller, member, step);
        if (step == SUSPECT_WAIT && member->pulse.suspect.number != 0 && !member->pulse.suspect.broken) {
            ask(controller, member, member->pulse.suspect.number); /* the question may have been lost, or be late */
        }
        open = open || member->pulse.suspect.number != 0;
    }
    lose_unanswering(controller, lost);
    free(lost);
    pulses->tick_us = 0;
    if (open) {
        begin_interval(controller, now_us);
    }
}

static uint64_t next_us(const struct controller *controller, uint64_t now_us) {
    (void)now_us;
    uint64_t tick_us = controller->features.pulses.tick_us != 0 ? controller->features.pulses.tick_us : UINT64_MAX;
    uint64_t dial_us = controller->features.pulses.dial_us != 0 ? controller->features.pulses.dial_us : UINT64_MAX;
    return tick_us < dial_us ? tick_us : dial_us;
}

const struct feature pulses_feature = {
    .receive = receive, .check = check, .due_us = next_us, .broke = broke, .dialed = dialed};
