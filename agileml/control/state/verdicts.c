/* Records that the job ends. See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include <stdio.h>

void verdict_end(struct controller *controller, int code, const char *text) {
    struct controller_end *end = &controller->end;
    bool ended = controller->phase >= PHASE_LEAVE;
    if (!ended || (code != 0 && end->code == 0 && !end->told)) {
        controller->verdicts.end = controller->verdicts.end || !ended;
        controller->phase = ended ? controller->phase : PHASE_LEAVE;
        end->code = code;
        snprintf(end->text, sizeof end->text, "%s", text);
    }
}
