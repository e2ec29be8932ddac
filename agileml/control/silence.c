/* Says in the report which nodes are silent before they are given up, so that whoever watches a job that stands still learns
 * what it waits for. Decides nothing: check_silence and recover.c do. One line for all nodes that become silent between two
 * ticks, and one for all that are heard again, so that a lost network does not fill the report. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <stdlib.h>

enum { SILENCE_TOLD = 2 }; /* a node is silent after the timeout divided by this */

void silence_watch(struct controller *controller) {
    uint64_t now = controller_now(controller);
    uint64_t timeout_us = controller->options.timeout_ms * UINT64_C(1000);
    uint64_t longest_us = 0;
    unsigned silent = 0;
    unsigned heard = 0;
    const char **names = memory_zeroed(2 * controller->member_count + 1, sizeof *names);
    const char **heard_names = names + controller->member_count;
    for (unsigned m = 0; m < controller->member_count && controller->phase < PHASE_LEAVE; m++) {
        struct member *member = &controller->members[m];
        uint64_t silent_us = now - member->heard_us;
        bool was_silent = member->unheard;
        member->unheard = !member->dismissed && silent_us > timeout_us / SILENCE_TOLD;
        if (member->unheard && !was_silent) {
            names[silent++] = member->name;
            longest_us = silent_us > longest_us ? silent_us : longest_us;
        } else if (was_silent && !member->unheard && !member->dismissed) {
            heard_names[heard++] = member->name;
        }
    }
    if (heard > 0) {
        controller_report(controller, report_event_nodes(controller, "heard", heard_names, heard));
    }
    if (silent > 0) {
        uint64_t left_us = longest_us < timeout_us ? timeout_us - longest_us : 0;
        controller_report(controller,
                          report_silence(controller, names, silent, (double)longest_us / 1e6, (double)left_us / 1e6));
    }
    free(names);
}
