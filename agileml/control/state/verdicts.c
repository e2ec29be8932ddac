/* The phases of the job, and the verdict that it ends. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <stdio.h>

void controller_set_phase(struct controller *controller, enum controller_phase to) {
    static const unsigned legal[] = {[PHASE_GATHER] = 1 << PHASE_LOAD | 1 << PHASE_LEAVE,
                                     [PHASE_LOAD] = 1 << PHASE_TRAIN | 1 << PHASE_LEAVE,
                                     [PHASE_TRAIN] = 1 << PHASE_SAVE | 1 << PHASE_LEAVE,
                                     [PHASE_SAVE] = 1 << PHASE_TRAIN | 1 << PHASE_LEAVE,
                                     [PHASE_LEAVE] = 1 << PHASE_ENDED,
                                     [PHASE_ENDED] = 1 << PHASE_LEAVE};
    assert((legal[controller->phase] >> to & 1) != 0);
    controller->phase = to;
}

void verdict_end(struct controller *controller, int code, const char *text) {
    struct controller_end *end = &controller->end;
    bool ended = controller->phase >= PHASE_LEAVE;
    if (!ended || (code != 0 && end->code == 0 && !end->told)) {
        controller->verdicts.end = controller->verdicts.end || !ended;
        if (!ended) {
            controller_set_phase(controller, PHASE_LEAVE);
        }
        end->code = code;
        snprintf(end->text, sizeof end->text, "%s", text);
    }
}
