/* The controller's part that has the model of the last clock saved: by one node, after a failure again by that node,
 * then by the next. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include <stdio.h>

enum {
    SAVE_ATTEMPTS_MAX = 4,
    SAVE_ATTEMPTS_EACH = 2,      /* by one node, before the next one tries */
    SAVE_RETRY_US = 1000 * 1000, /* after the first failure; doubles */
};

/* The servers answer only nodes that the plan names; one that came after it, at the job's end, is in none. */
static bool can_save(const struct member *member) {
    return member->named && member->stay != MEMBER_DISMISSED;
}

/* The node that runs the app's finish function in this attempt: the first reliable one, so that the model is where
 * people look for it, after two attempts the next. Without reliable nodes, a transient one. */
static struct member *saver(struct controller *controller) {
    unsigned count[TIER_TRANSIENT + 1] = {0};
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        count[member->node.tier] += can_save(member) ? 1 : 0;
    }
    enum node_tier tier = count[TIER_RELIABLE] > 0 ? TIER_RELIABLE : TIER_TRANSIENT;
    unsigned number = count[tier] > 0 ? (controller->save.attempt - 1) / SAVE_ATTEMPTS_EACH % count[tier] : 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (member->node.tier == tier && can_save(member) && number-- == 0) {
            return member;
        }
    }
    return NULL;
}

void save_send(struct controller *controller, const struct member *member) {
    if (controller->phase == PHASE_SAVE && member == saver(controller) &&
        controller_now(controller) >= controller->save.retry_us) {
        struct message save = {.type = MESSAGE_SAVE, .save = {.attempt = controller->save.attempt}};
        controller_send(controller, member->node.actor, &save);
    }
}

/* All nodes with work in the last clock have done it and seen its state, so every partition has reached it. */
static bool last_clock_is_done(const struct controller *controller) {
    bool done = controller->phase == PHASE_TRAIN && controller->job.final != 0 &&
                controller->change.state != CHANGE_RECOVER && controller->progress.completed >= controller->job.final;
    for (unsigned m = 0; m < controller->member_count && done; m++) {
        const struct member *member = &controller->members[m];
        bool works = schedule_count(&controller->plan.schedule, member->node.actor, controller->job.final) > 0;
        done = !works || (member->state == NODE_FINISHED && member->goes_by.epoch == controller->plan.epoch);
    }
    return done;
}

void save_step(struct controller *controller) {
    if (!last_clock_is_done(controller) || !checkpoints_end(controller)) {
        return;
    }
    controller->phase = PHASE_SAVE;
    controller->save.attempt = controller->save.attempt > 0 ? controller->save.attempt : 1;
    const struct member *member = saver(controller);
    if (persist_all(controller) && member != NULL) {
        send_acks(controller);
        save_send(controller, member);
    }
}

static void try_again(struct controller *controller, const struct member *member, const char *why) {
    char text[ERROR_TEXT_MAX];
    controller->save.retry_us =
        controller_now(controller) + (SAVE_RETRY_US * UINT64_C(1) << (controller->save.attempt - 1));
    controller->save.attempt++;
    const struct member *next = saver(controller);
    snprintf(text, sizeof text, "%.400s; %s tries again", why, next->name);
    controller_report(controller, report_event(controller, "save-failed", member->name, text));
    persist_all(controller);
}

void save_receive(struct controller *controller, const struct member *member, const struct message *message) {
    const struct message_saved *saved = &message->saved;
    struct error error = {0};
    if (controller->phase != PHASE_SAVE || controller->change.state == CHANGE_RECOVER ||
        message->epoch != controller->plan.epoch || member != saver(controller) ||
        saved->attempt != controller->save.attempt) {
        return;
    }
    if (saved->code == AML_EFAIL && saved->attempt < SAVE_ATTEMPTS_MAX) {
        try_again(controller, member, saved->text);
        return;
    }
    if (saved->code == 0) {
        checkpoints_check(controller, &error);
    }
    controller_finish(controller, saved->code != 0 ? saved->code : error.code,
                      saved->code != 0 ? saved->text : error.text);
}
