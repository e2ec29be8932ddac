/* See revoked.h. */
#include "agileml/control/state/revoked.h"

#include "agileml/control/state/controller_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* Sends the process the reason for which it is cut off. */
static void dismiss(struct controller *controller, actor_id actor, uint64_t serial) {
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "the controller cut this process off: its --key, the token %016" PRIx64 ", was revoked",
             serial);
    controller_send_abort(controller, actor, AML_EINPUT, text);
}

/* Returns how many nodes came by the token. */
static unsigned lose_members(struct controller *controller, uint64_t serial) {
    unsigned count = 0;
    for (unsigned m = controller->member_count; m-- > 0 && controller->phase < PHASE_LEAVE;) {
        struct member *member = &controller->members[m];
        char text[ERROR_TEXT_MAX];
        if (member->pass.token != serial) {
            continue;
        }
        snprintf(text, sizeof text, "%s (%s, pid %llu) came by the token %016" PRIx64 ", which was revoked",
                 member->name, member->host, (unsigned long long)member->process_id, serial);
        dismiss(controller, member->node.actor, serial);
        controller_lose(controller, member, text);
        count++;
    }
    return count;
}

/* Returns how many observers came by the token. */
static unsigned lose_observers(struct controller *controller, uint64_t serial) {
    unsigned count = 0;
    for (unsigned o = controller->report.observer_count; o-- > 0;) {
        actor_id actor = controller->report.observers[o].actor;
        if (controller->io->token_of(controller->io, actor) == serial) {
            dismiss(controller, actor, serial);
            lines_forget_observer(&controller->report, o);
            count++;
        }
    }
    return count;
}

/* Adds the token, unless it is in the list. Returns false when there is no room. */
static bool list_add(struct revoked *revoked, uint64_t serial) {
    for (uint32_t r = 0; r < revoked->count; r++) {
        if (revoked->serials[r] == serial) {
            return true;
        }
    }
    if (revoked->count == REVOKED_MAX) {
        return false;
    }
    revoked->serials[revoked->count++] = serial;
    return true;
}

int revoked_add(struct controller *controller, uint64_t serial, char *text, size_t size) {
    if (controller->io->revoke == NULL) {
        snprintf(text, size, "this job has no key, and so no tokens");
        return AML_EINPUT;
    }
    if (serial == 0) {
        snprintf(text, size, "the job's key can't be revoked, only tokens");
        return AML_EINPUT;
    }
    if (controller->phase >= PHASE_LEAVE) {
        snprintf(text, size, "the job is over");
        return AML_EINPUT;
    }
    uint32_t before = controller->features.revoked.count;
    if (!list_add(&controller->features.revoked, serial)) {
        snprintf(text, size, "%d tokens of this job are revoked already: end it, and resume it with a new key",
                 REVOKED_MAX);
        return AML_ELIMIT;
    }
    if (controller->features.revoked.count > before) {
        char reason[64];
        snprintf(reason, sizeof reason, "token %016" PRIx64, serial);
        controller_report(controller, report_event(controller, "revoke", NULL, reason));
    }
    unsigned nodes = lose_members(controller, serial);
    unsigned observers = lose_observers(controller, serial);
    if (nodes + observers == 0) {
        snprintf(text, size, "revoked: nobody in the job came by it");
    } else {
        snprintf(text, size, "revoked: cut off %u node%s and %u observer%s", nodes, nodes == 1 ? "" : "s", observers,
                 observers == 1 ? "" : "s");
    }
    return 0;
}

void revoked_cut(const struct controller *controller) {
    const struct revoked *revoked = &controller->features.revoked;
    assert(revoked->count <= REVOKED_MAX);
    controller->io->revoke(controller->io, revoked->serials, revoked->count);
}

static void open(struct controller *controller) {
    if (controller->features.revoked.count > 0 && controller->io->revoke != NULL) {
        revoked_cut(controller);
    }
}

const struct feature revoked_feature = {.open = open};
