/* The lines that the app says: any thread adds them, the main thread gives them to the node. See runtime_private.h. */
#include "workers/runtime_private.h"

#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

static bool is_known(const struct runtime_notes *notes, uint64_t hash) {
    for (unsigned n = 0; n < notes->count; n++) {
        if (notes->hashes[n] == hash) {
            return true;
        }
    }
    return false;
}

void runtime_note(struct runtime *runtime, const char *text) {
    struct runtime_notes *notes = &runtime->asked.notes;
    uint64_t hash = hash_bytes((const unsigned char *)text, strlen(text), 0);
    pthread_mutex_lock(&runtime->lock);
    bool new = notes->count < NODE_NOTES_MAX && !is_known(notes, hash);
    if (new) {
        notes->hashes[notes->count++] = hash;
        notes->texts[notes->waiting++] = memory_string(text);
    }
    pthread_mutex_unlock(&runtime->lock);
    if (new) {
        runtime_wake(runtime);
    }
}

void runtime_notes_give(struct runtime *runtime) {
    struct runtime_notes *notes = &runtime->asked.notes;
    for (unsigned n = 0; n < notes->waiting; n++) {
        log_info("note: %s", notes->texts[n]);
        node_note(&runtime->node, notes->texts[n]);
        free(notes->texts[n]);
    }
    notes->waiting = 0;
}

void runtime_notes_close(struct runtime *runtime) {
    for (unsigned n = 0; n < runtime->asked.notes.waiting; n++) {
        free(runtime->asked.notes.texts[n]);
    }
    runtime->asked.notes.waiting = 0;
}
