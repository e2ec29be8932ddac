/* See pulse.h. Silence is counted in questions, not in time. Of all questions that fall due while this process is
 * stopped, only one is sent, so at most one can be missed. After a late tick missed questions are forgotten, as their
 * answers may wait here unread. So a process that was stopped accuses no other. */
#include "workers/process/pulse.h"

#include <assert.h>
#include <string.h>

void pulse_init(struct pulse *pulse, struct io *io, actor_id self, const char *controller) {
    *pulse = (struct pulse){.io = io, .self = self};
    io->connect(io, ACTOR_CONTROLLER, controller);
}

void pulse_close(struct pulse *pulse) {
    plan_close(&pulse->plan);
    memset(pulse, 0, sizeof *pulse);
}

static uint64_t pulse_now(const struct pulse *pulse) {
    return pulse->io->now_us(pulse->io);
}

static void pulse_send(const struct pulse *pulse, actor_id to, enum pulse_kind kind, uint64_t number,
                       actor_id suspect) {
    struct message message = {.type = MESSAGE_PULSE,
                              .epoch = pulse->plan.epoch,
                              .pulse = {.kind = (uint8_t)kind, .number = number, .suspect = suspect}};
    pulse->io->send(pulse->io, to, &message);
}

/* ---- Whom it watches ---- */

static const char *pulse_endpoint(const struct plan_view *plan, actor_id node) {
    return plan_endpoint(plan, actor_pulse(node));
}

static bool chosen(const actor_id *targets, unsigned count, actor_id pulse) {
    for (unsigned t = 0; t < count; t++) {
        if (targets[t] == pulse) {
            return true;
        }
    }
    return false;
}

/* Writes the pulses that node `self` watches by the plan, and returns their number. */
static unsigned choose_targets(const struct plan_view *plan, actor_id self, actor_id targets[PULSE_TARGETS_MAX]) {
    size_t at = 0;
    while (at < plan->node_count && plan->nodes[at].actor != self) {
        at++;
    }
    unsigned count = 0;
    bool other_group = false;
    for (size_t step = 1; at < plan->node_count && step < plan->node_count; step++) {
        const struct wire_node *node = &plan->nodes[(at + step) % plan->node_count];
        bool other = node->group != plan->nodes[at].group;
        bool wanted = count < PULSE_RING || (other && !other_group);
        if (wanted && pulse_endpoint(plan, node->actor) != NULL) {
            targets[count++] = actor_pulse(node->actor);
            other_group = other_group || other;
        }
        if (count == PULSE_TARGETS_MAX || (count >= PULSE_RING && other_group)) {
            break;
        }
    }
    assert(count <= PULSE_TARGETS_MAX && !chosen(targets, count, actor_pulse(self)));
    return count;
}

static void take_targets(struct pulse *pulse, const struct plan_view *plan) {
    struct pulse_target old[PULSE_TARGETS_MAX];
    unsigned old_count = pulse->target_count;
    actor_id targets[PULSE_TARGETS_MAX];
    memcpy(old, pulse->targets, sizeof old);
    pulse->target_count = choose_targets(plan, actor_node(pulse->self), targets);
    for (unsigned t = 0; t < pulse->target_count; t++) {
        pulse->targets[t] = (struct pulse_target){.pulse = targets[t]};
        for (unsigned o = 0; o < old_count; o++) {
            pulse->targets[t] = old[o].pulse == targets[t] ? old[o] : pulse->targets[t];
        }
        pulse->io->connect(pulse->io, targets[t], plan_endpoint(plan, targets[t]));
    }
    for (unsigned o = 0; o < old_count; o++) {
        if (!chosen(targets, pulse->target_count, old[o].pulse)) {
            pulse->io->connect(pulse->io, old[o].pulse, NULL);
        }
    }
}

static struct pulse_target *find_target(struct pulse *pulse, actor_id peer) {
    for (unsigned t = 0; t < pulse->target_count; t++) {
        if (pulse->targets[t].pulse == peer) {
            return &pulse->targets[t];
        }
    }
    return NULL;
}

/* ---- Time ---- */

static uint64_t question_us(const struct pulse *pulse) {
    bool broken = false;
    for (unsigned t = 0; t < pulse->target_count; t++) {
        broken = broken || pulse->targets[t].broken;
    }
    return pulse->target_count == 0 ? 0
           : pulse->period_us > 0   ? pulse->period_us
           : broken                 ? PULSE_BROKEN_MS * UINT64_C(1000)
                                    : 0;
}

static void set_timer(struct pulse *pulse) {
    uint64_t now_us = pulse_now(pulse);
    uint64_t interval_us = question_us(pulse);
    pulse->tick_us = interval_us == 0                                               ? 0
                     : pulse->tick_us == 0 || pulse->tick_us > now_us + interval_us ? now_us + interval_us
                                                                                    : pulse->tick_us;
    uint64_t next_us = pulse->greet_us;
    next_us = pulse->tick_us != 0 && (next_us == 0 || pulse->tick_us < next_us) ? pulse->tick_us : next_us;
    if (next_us != pulse->timer_us) {
        pulse->timer_us = next_us;
        pulse->io->set_timer(pulse->io, next_us);
    }
}

static void suspect(const struct pulse *pulse, const struct pulse_target *target) {
    pulse_send(pulse, ACTOR_CONTROLLER, PULSE_SUSPECT, target->missed, actor_node(target->pulse));
}

static void ask(struct pulse *pulse, struct pulse_target *target) {
    target->awaited = true;
    pulse_send(pulse, target->pulse, PULSE_ASK, ++pulse->number, ACTOR_NONE);
}

static void ask_targets(struct pulse *pulse, uint64_t late_us) {
    bool stopped = late_us > question_us(pulse);
    for (unsigned t = 0; t < pulse->target_count; t++) {
        struct pulse_target *target = &pulse->targets[t];
        if (pulse->period_us == 0 && !target->broken) {
            continue;
        }
        target->missed = stopped ? 0 : target->awaited ? target->missed + 1 : target->missed;
        if (!stopped && (target->missed >= PULSE_MISSED || target->broken)) {
            suspect(pulse, target);
        }
        ask(pulse, target);
    }
}

static void greet(struct pulse *pulse) {
    pulse_send(pulse, ACTOR_CONTROLLER, PULSE_ANSWER, 0, ACTOR_NONE);
    pulse->greet_us = pulse_now(pulse) + PULSE_GREET_US;
}

void pulse_timer(void *self) {
    struct pulse *pulse = self;
    uint64_t now_us = pulse_now(pulse);
    assert(pulse->tick_us == 0 || pulse->target_count > 0);
    pulse->timer_us = 0;
    if (pulse->tick_us != 0 && now_us >= pulse->tick_us) {
        ask_targets(pulse, now_us - pulse->tick_us);
        pulse->tick_us = now_us + question_us(pulse);
    }
    if (pulse->greet_us != 0 && now_us >= pulse->greet_us) {
        greet(pulse);
    }
    set_timer(pulse);
}

/* ---- Messages ---- */

static void receive_plan(struct pulse *pulse, const struct message *message) {
    struct plan_view plan = plan_open(message);
    if (plan_is_there(&pulse->plan) && plan.terms.version <= pulse->plan.terms.version) {
        plan_close(&plan);
        return;
    }
    take_targets(pulse, &plan);
    plan_close(&pulse->plan);
    pulse->plan = plan;
    if (pulse->greet_us == 0) {
        greet(pulse);
    }
}

static void receive_pulse(struct pulse *pulse, actor_id from, const struct message_pulse *message) {
    struct pulse_target *target = find_target(pulse, from);
    if (message->kind == PULSE_ASK) {
        pulse_send(pulse, from, PULSE_ANSWER, message->number, ACTOR_NONE);
    } else if (message->kind == PULSE_ANSWER && target != NULL) { /* any answer shows that the process lives */
        target->awaited = target->broken = false;
        target->missed = 0;
    }
}

void pulse_receive(void *self, actor_id from, struct message *message) {
    struct pulse *pulse = self;
    bool agent = from == actor_node(pulse->self);
    if (agent && message->type == MESSAGE_WELCOME) {
        pulse->period_us = message->welcome.probe_ms * UINT64_C(1000);
    } else if (agent && message->type == MESSAGE_PLAN) {
        receive_plan(pulse, message);
    } else if (message->type == MESSAGE_PULSE) {
        receive_pulse(pulse, from, &message->pulse);
    }
    set_timer(pulse);
}

void pulse_broken(void *self, actor_id peer) {
    struct pulse *pulse = self;
    struct pulse_target *target = find_target(pulse, peer);
    if (target != NULL) {
        target->broken = true;
        suspect(pulse, target);
    } else if (actor_is_pulse(peer) && plan_is_there(&pulse->plan) && pulse_endpoint(&pulse->plan, peer) != NULL) {
        pulse_send(pulse, ACTOR_CONTROLLER, PULSE_SUSPECT, 0, actor_node(peer));
    }
    set_timer(pulse);
}

void pulse_connected(struct pulse *pulse, actor_id peer) {
    struct pulse_target *target = find_target(pulse, peer);
    if (peer == ACTOR_CONTROLLER && pulse->greet_us != 0) {
        greet(pulse);
    } else if (target != NULL && target->broken) {
        ask(pulse, target);
    }
    set_timer(pulse);
}
