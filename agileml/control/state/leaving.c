/* Handles members that leave, are lost or fail, and records the consequences for the job as verdicts. See
 * controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Members that are gone ---- */

void controller_count_eviction(struct controller *controller, const struct member *member) {
    if (member->stay == MEMBER_DISMISSED) {
        controller->progress.evictions++;
        controller_report(controller, report_event(controller, "evicted", member->name, NULL));
    }
}

void controller_remove_member(struct controller *controller, struct member *member) {
    unsigned index = (unsigned)(member - controller->members);
    assert(index < controller->member_count);
    numbers_add(&controller->progress.gone, &member->usage.numbers);
    controller->removed.last[controller->removed.count++ % CONTROLLER_REMOVED_MAX] = member->node.actor;
    controller_count_eviction(controller, member);
    nodes_removed(controller, member);
    monitor_forget(&controller->clocks.monitor, member->node.actor);
    controller->plan.names_absent = controller->plan.names_absent || member->stay != MEMBER_DISMISSED;
    buffer_drop(member->endpoints);
    buffer_drop(member->fence.restore_points);
    controller->member_count--;
    memmove(member, member + 1, (controller->member_count - index) * sizeof *member);
    controller_admit_members(controller);
}

void controller_lose(struct controller *controller, struct member *member, const char *text) {
    assert(controller->phase < PHASE_LEAVE);
    if (member->stay == MEMBER_DISMISSED) {
        controller_remove_member(controller, member);
        return;
    }
    controller->progress.failures++;
    controller_report(controller, report_event(controller, "failure", member->name, text));
    if (controller->phase == PHASE_GATHER) {
        controller_remove_member(controller, member);
        return;
    }
    if (controller_is_outside(controller, member)) { /* the others need no recovery */
        if (!controller_feeds(member)) { /* feeders have no part in a plan; the next plan does not name this one */
            controller->change.due = true;
            controller->change.due_us = 0;
            controller->verdicts.cancel = true;
        }
        controller_remove_member(controller, member);
        return;
    }
    if (controller->plan.stage == STAGE_TRADITIONAL) {
        member->left = true;
        verdict_end(controller, AML_EFAIL, text);
        return;
    }
    controller->progress.reliable_lost |= controller_trusted_tier(controller, member) == TIER_RELIABLE;
    controller->recovery.redone_until = member->reported.clock > controller->recovery.redone_until
                                            ? member->reported.clock
                                            : controller->recovery.redone_until;
    if (controller->change.state != CHANGE_RECOVER) {
        controller->recovery.lost_us = controller_now(controller);
    }
    controller_remove_member(controller, member);
    controller->verdicts.fence = true;
}

void controller_fail(struct controller *controller, const char *name, int code, const char *text) {
    if (controller->phase < PHASE_LEAVE) {
        controller->progress.failures++;
        controller_report(controller, report_event(controller, "failure", name, text));
        verdict_end(controller, code, text);
    }
}

/* ---- Members that are to leave ---- */

/* Sets when the next plan is made after an eviction: after a small part of the notice at the latest. */
static void replan_after_eviction(struct controller *controller, uint64_t notice_us) {
    uint64_t most_us = controller_now(controller) + notice_us / CONTROLLER_NOTICE_PART;
    uint64_t at_us = controller_replan_us(controller);
    at_us = at_us < most_us ? at_us : most_us;
    uint64_t sent_us = controller_plan_sent_us(controller);
    at_us = at_us > sent_us ? at_us : sent_us; /* even if the notice is shorter */
    if (!controller->change.due || controller->change.due_us > at_us) {
        controller->change.due_us = at_us;
    }
    controller->change.due = true;
}

void controller_give_notice(struct controller *controller, const unsigned char *chosen, uint64_t notice_us) {
    const char **names = memory_zeroed(controller->member_count, sizeof *names);
    unsigned named = 0;
    bool feeders = true; /* only feeders leave, which does not change the plan */
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (chosen[m] != 0 && member->stay == MEMBER_STAYS) {
            member_set_stay(member, MEMBER_LEAVING);
            member->evicted_us = controller_now(controller);
            names[named++] = member->name;
            feeders = feeders && controller_feeds(member);
        }
    }
    if ((named > 0 && !feeders) || controller->change.due) { /* a later notice may leave less time */
        replan_after_eviction(controller, notice_us);
    }
    if (named > 0) {
        controller_report(controller, report_event_nodes(controller, "evict", names, named));
    }
    free(names);
}

void controller_evict(struct controller *controller, struct member *member) {
    assert(member->stay == MEMBER_STAYS);
    unsigned char *chosen = memory_zeroed(controller->member_count, 1);
    chosen[member - controller->members] = 1;
    controller_give_notice(controller, chosen, CONTROLLER_REPLACE_NOTICE_MS * UINT64_C(1000));
    free(chosen);
    persist_soon(controller);
}
