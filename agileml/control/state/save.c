/* Has one node save the model of the last clock. After a failure the same node tries once more, then another node. Part
 * of the elasticity controller; see controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

enum {
    SAVE_ATTEMPTS_MAX = 4,
    SAVE_ATTEMPTS_EACH = 2,      /* attempts of one node before the next node tries */
    SAVE_RETRY_US = 1000 * 1000, /* wait after the first failure; doubles with each failure */
};

/* Whether the member can save: servers must answer it, and they answer only nodes that the plan names. */
static bool can_save(const struct member *member) {
    return member->named && member->stay != MEMBER_DISMISSED && !controller_feeds(member);
}

/* Returns the node that runs the app's finish function in this attempt. It is the first reliable node, as users look
 * for the model there; after each SAVE_ATTEMPTS_EACH attempts the next one. Without reliable nodes, a transient
 * node. */
static const struct member *saver(const struct controller *controller) {
    unsigned count[TIERS] = {0};
    assert(controller->save.attempt > 0);
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        count[member->node.tier] += can_save(member) ? 1 : 0;
    }
    enum node_tier tier = count[TIER_RELIABLE] > 0 ? TIER_RELIABLE : TIER_TRANSIENT;
    unsigned number = count[tier] > 0 ? (controller->save.attempt - 1) / SAVE_ATTEMPTS_EACH % count[tier] : 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
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
        double values[WIRE_METRICS_MAX];
        for (unsigned i = 0; i < controller->job.metric_count; i++) {
            values[i] = controller->progress.evaluated > 0 ? controller->progress.values[i] : NAN;
        }
        message_add_copy(&save, values, controller->job.metric_count * sizeof *values);
        controller_send(controller, member->node.actor, &save);
    }
}

bool save_is_asked_of(const struct controller *controller, const struct member *member) {
    return controller->save.attempt > 0 && member == saver(controller);
}

/* Whether all nodes with work in the last clock have completed it and received its state. So all partitions are at that
 * clock. */
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
    controller_set_phase(controller, PHASE_SAVE);
    assert(controller->job.final != 0 && controller->checkpoint.state == CHECKPOINT_NONE);
    controller->save.attempt = controller->save.attempt > 0 ? controller->save.attempt : 1;
    const struct member *member = saver(controller);
    if (persist_all(controller) && member != NULL) {
        controller_send_acks(controller);
        save_send(controller, member);
    }
}

static void try_again(struct controller *controller, const struct member *member, const char *why) {
    char text[ERROR_TEXT_MAX];
    controller->save.retry_us =
        controller_now(controller) + (SAVE_RETRY_US * UINT64_C(1) << (controller->save.attempt - 1));
    controller->save.attempt++;
    const struct member *next = saver(controller);
    assert(controller->save.attempt <= SAVE_ATTEMPTS_MAX && next != NULL); /* `member` itself can save */
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
    verdict_end(controller, saved->code != 0 ? saved->code : error.code, saved->code != 0 ? saved->text : error.text);
}
