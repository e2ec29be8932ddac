/* See app_notes.h. */
#include "agileml/control/state/app_notes.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/printable.h"

#include <stdio.h>
#include <string.h>

static bool is_known(const struct app_notes_kept *kept, uint64_t hash) {
    for (uint32_t n = 0; n < kept->count; n++) {
        if (kept->hashes[n] == hash) {
            return true;
        }
    }
    return false;
}

/* Adds the text to the report. If there are too many texts, adds one line that says so, and no further text. Returns
 * whether the report has a new line. */
static bool add(struct controller *controller, const char *node, const char *text) {
    struct app_notes_kept *kept = &controller->progress.notes;
    uint64_t hash = hash_bytes((const unsigned char *)text, strlen(text), 0);
    if (is_known(kept, hash) || kept->left_out != 0) {
        return false;
    }
    if (kept->count < WIRE_APP_NOTES_MAX) {
        kept->hashes[kept->count++] = hash;
        controller_report(controller, report_app_note(controller, node, text));
        return true;
    }
    char more[WIRE_TEXT_MAX];
    kept->left_out = 1;
    snprintf(more, sizeof more, "the app has said %d different lines: further ones are left out", WIRE_APP_NOTES_MAX);
    controller_report(controller, report_app_note(controller, NULL, more));
    return true;
}

static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    char text[WIRE_TEXT_MAX];
    if (member == NULL || message->type != MESSAGE_APP_NOTE) {
        return;
    }
    snprintf(text, sizeof text, "%s", message->app_note.text);
    text_make_printable(text);
    bool new = controller->phase < PHASE_LEAVE &&add(controller, member->name, text);
    if (!new || persist_progress(controller)) { /* only a stored line is answered, so that it can't be lost */
        controller_send_outcome(controller, from, message->app_note.request, 0, "");
    }
}

const struct feature app_notes_feature = {.receive = receive};
