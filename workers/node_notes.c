/* The lines that the app says to the people who run the job, on their way to the controller. See node_private.h. */
#include "workers/node_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void node_notes_close(struct node *node) {
    free(node->notes.list);
}

static void send_note(struct node *node, const struct message_app_note *note) {
    struct message message = {.type = MESSAGE_APP_NOTE, .app_note = *note};
    if (node->contact.heartbeat_ms != 0) {
        node_send(node, &message);
    }
}

void node_note(struct node *node, const char *text) {
    struct node_notes *notes = &node->notes;
    if (node->ended || notes->said == NODE_NOTES_MAX) {
        return;
    }
    notes->list = memory_resized(notes->list, notes->count + 1U, sizeof *notes->list);
    struct message_app_note *note = &notes->list[notes->count++];
    *note = (struct message_app_note){.request = NODE_NOTE_REQUEST + notes->said++};
    snprintf(note->text, sizeof note->text, "%s", text);
    send_note(node, note);
}

void node_notes_send(struct node *node) {
    for (unsigned n = 0; n < node->notes.count; n++) {
        send_note(node, &node->notes.list[n]);
    }
}

void node_notes_answered(struct node *node, uint64_t request) {
    struct node_notes *notes = &node->notes;
    for (unsigned n = 0; n < notes->count; n++) {
        if (notes->list[n].request == request) {
            memmove(&notes->list[n], &notes->list[n + 1], (--notes->count - n) * sizeof *notes->list);
            return;
        }
    }
}
