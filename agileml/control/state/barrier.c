/* The barrier: the clock that members are asked not to pass, until a change of plan, a checkpoint or the job's end is
 * settled. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>

void barrier_lift(struct controller *controller) {
    controller->barrier = (struct barrier){.number = controller->barrier.number + 1, .clock = WIRE_CLOCK_NEVER};
}

uint64_t barrier_clock_reached(const struct controller *controller) {
    uint64_t reached = schedule_named(&controller->plan.schedule) - 1; /* before the last named part begins */
    reached = controller->progress.completed > reached ? controller->progress.completed : reached;
    for (unsigned m = 0; m < controller->member_count; m++) {
        reached = controller->members[m].reported.clock > reached ? controller->members[m].reported.clock : reached;
    }
    return reached;
}

uint64_t barrier_clock_ahead(const struct controller *controller) {
    uint64_t reached = barrier_clock_reached(controller);
    uint64_t done = controller->progress.completed - controller->progress.first;
    uint64_t trained_us = controller_trained_us(controller);
    uint64_t ahead = 1;
    assert(reached >= controller->progress.completed);
    if (trained_us > 0 && done > 0) {
        ahead += CONTROLLER_HOLD_AHEAD_MS * UINT64_C(1000) * done / trained_us;
    }
    ahead = ahead < CONTROLLER_HOLD_AHEAD_MAX ? ahead : CONTROLLER_HOLD_AHEAD_MAX;
    uint64_t limit =
        controller->commit.clock + 1 + controller->job.terms.staleness + controller->plan.view.terms.window;
    uint64_t clock = reached + ahead < limit ? reached + ahead : limit;
    return clock > reached ? clock : reached;
}

void barrier_tell(struct controller *controller) {
    if (persist_all(controller)) {
        controller_send_acks(controller);
    }
}

void barrier_none(struct controller *controller) {
    barrier_lift(controller);
    barrier_tell(controller);
}

void barrier_at(struct controller *controller, uint64_t clock, enum barrier_purpose purpose) {
    assert(controller->phase == PHASE_TRAIN && clock != WIRE_CLOCK_NEVER && clock >= controller->progress.completed);
    assert(controller->change.state != CHANGE_RECOVER);
    controller->barrier =
        (struct barrier){.number = controller->barrier.number + 1, .clock = clock, .purpose = purpose};
    barrier_tell(controller);
}

bool barrier_is_held(const struct controller *controller, bool *passed) {
    *passed = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->goes_by.barrier != controller->barrier.number && member->stay != MEMBER_DISMISSED &&
            !controller_is_outside(controller, member)) {
            return false;
        }
        *passed = *passed || member->reported.clock > controller->barrier.clock;
    }
    return true;
}
