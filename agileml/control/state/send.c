/* The messages that several files of the elasticity controller send, and its timer. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/wire/plan_pack.h"

#include <stdio.h>
#include <string.h>

void controller_tick_at(struct controller *controller, uint64_t at_us) {
    /* May be past after a slow write to the store: silence.c counts that as the controller's own delay. */
    controller->times.tick_us = at_us;
    controller->io->set_timer(controller->io, at_us);
}

void controller_tick_before(struct controller *controller, uint64_t at_us) {
    if (at_us < controller->times.tick_us) {
        controller_tick_at(controller, at_us);
    }
}

void controller_send(struct controller *controller, actor_id to, struct message *message) {
    message->epoch = controller->plan.epoch;
    controller->io->send(controller->io, to, message);
}

void controller_send_ack(struct controller *controller, struct member *member) {
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK};
    member->reported.acknowledged = controller->stored.completed;
    ack.heartbeat_ack.progress = controller->stored.completed;
    ack.heartbeat_ack.catch_up = member->reported.catch_up_stored < controller->stored.completed
                                     ? member->reported.catch_up_stored
                                     : controller->stored.completed;
    ack.heartbeat_ack.barrier = controller->barrier.number;
    ack.heartbeat_ack.barrier_clock = controller->barrier.clock;
    ack.heartbeat_ack.final = controller->job.final;
    ack.heartbeat_ack.input = member->input;
    features_acknowledge(controller, &ack.heartbeat_ack);
    controller_send(controller, member->node.actor, &ack);
}

void controller_send_acks(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller_send_ack(controller, &controller->members[m]);
    }
}

void controller_send_welcome(struct controller *controller, actor_id to, const char *name) {
    struct message welcome = {.type = MESSAGE_WELCOME};
    memcpy(welcome.welcome.name, name, sizeof welcome.welcome.name);
    welcome.welcome.heartbeat_ms = controller->options.heartbeat_ms;
    welcome.welcome.timeout_ms = controller->options.timeout_ms;
    welcome.welcome.probe_ms = controller->options.probe_ms;
    controller_send(controller, to, &welcome);
}

void controller_send_plan(struct controller *controller, struct member *member) {
    struct controller_plan *plan = &controller->plan;
    bool changed = plan_is_there(&plan->before) && member->goes_by.sent == plan->before.terms.version;
    struct message *packed = changed ? &plan->changed : &plan->whole;
    if (packed->frame_count == 0) {
        *packed = plan_pack(&plan->view, changed ? &plan->before : NULL);
    }
    struct message copy = message_share(packed);
    member->goes_by.sent = plan->view.terms.version;
    member->goes_by.plan_us = controller_now(controller);
    controller->io->send(controller->io, member->node.actor, &copy);
}

void controller_send_start(struct controller *controller, const struct member *member) {
    struct message start = {.type = MESSAGE_START};
    start.start.items = controller->job.items;
    message_add_copy(&start, controller->job.totals, sizeof controller->job.totals);
    controller_send(controller, member->node.actor, &start);
}

void controller_send_empty(struct controller *controller, actor_id to, enum message_type type) {
    struct message message = {.type = type};
    controller_send(controller, to, &message);
}

void controller_send_abort(struct controller *controller, actor_id to, int code, const char *text) {
    struct message abort_message = {.type = MESSAGE_ABORT};
    abort_message.text.code = code;
    snprintf(abort_message.text.text, sizeof abort_message.text.text, "%s", text);
    controller_send(controller, to, &abort_message);
}

void controller_send_end(struct controller *controller, actor_id to) {
    if (controller->end.code == 0) {
        controller_send_empty(controller, to, MESSAGE_DONE);
    } else {
        controller_send_abort(controller, to, controller->end.code, controller->end.text);
    }
}

void controller_send_outcome(struct controller *controller, actor_id to, uint64_t request, int code, const char *text) {
    struct message outcome = {.type = MESSAGE_OUTCOME};
    outcome.outcome.request = request;
    outcome.outcome.code = code;
    snprintf(outcome.outcome.text, sizeof outcome.outcome.text, "%s", text);
    controller_send(controller, to, &outcome);
}
