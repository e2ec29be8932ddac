/* The end of the job: stores the outcome, sends it to nodes and observers, and waits for them. Called only by
 * controller.c. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>

void end_announce(struct controller *controller) {
    assert(controller->phase == PHASE_LEAVE && !controller->end.told);
    checkpoints_stop(controller);
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller_count_eviction(controller, &controller->members[m]); /* a dismissed member may have left already */
    }
    nodes_finish(controller);
    controller_report(controller, report_summary(controller, controller_seconds(controller)));
    uint64_t now = controller_now(controller);
    uint64_t timeout_us = controller->options.timeout_ms * UINT64_C(1000);
    controller->end.observers_us = controller->end.members_us = now + CONTROLLER_END_WAIT_US;
    if (controller->end.code == 0 && timeout_us > CONTROLLER_END_WAIT_US) {
        controller->end.members_us = now + timeout_us; /* no node may conclude that the controller has failed */
    }
    if (!persist_all(controller)) { /* a failed write makes the outcome a failure */
        lines_drop_last(&controller->report);
        controller_report(controller, report_summary(controller, controller_seconds(controller)));
    }
    controller->end.told = true;
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller_send_end(controller, controller->members[m].node.actor);
    }
}

void end_try(struct controller *controller) {
    if (controller->phase != PHASE_LEAVE) {
        return;
    }
    uint64_t now = controller_now(controller);
    /* Time in which this controller was stopped does not count. */
    now = now < controller->times.tick_us ? now : controller->times.tick_us;
    bool waiting =
        controller->options.observed && controller->report.observer_count == 0 && now < controller->end.observers_us;
    for (unsigned m = 0; m < controller->member_count && now < controller->end.members_us; m++) {
        waiting = waiting || !controller->members[m].left;
    }
    for (unsigned o = 0; o < controller->report.observer_count && now < controller->end.observers_us; o++) {
        waiting = waiting || controller->report.observers[o].read < controller->report.count;
    }
    if (!waiting) {
        controller_set_phase(controller, PHASE_ENDED);
        checkpoints_stop(controller);
        controller->io->set_timer(controller->io, 0);
        controller->options.end(controller->options.context, controller->end.code, controller->end.text);
    }
}
