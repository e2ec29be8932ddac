/* See ends.h. */
#include "agileml/net/ends.h"

#include "agileml/base/memory.h"

#include <stdlib.h>
#include <string.h>

void ends_close(struct ends *ends) {
    free(ends->actors);
    *ends = (struct ends){0};
}

actor_id ends_note(struct ends *ends, int descriptor, actor_id actor) {
    if (descriptor < 0) {
        return ACTOR_NONE;
    }
    if ((size_t)descriptor >= ends->count) {
        size_t count = 2 * (size_t)descriptor + 1;
        ends->actors = memory_resized(ends->actors, count, sizeof *ends->actors);
        memset(ends->actors + ends->count, 0, (count - ends->count) * sizeof *ends->actors);
        ends->count = count;
    }
    actor_id before = ends->actors[descriptor];
    ends->actors[descriptor] = actor;
    return before == actor ? ACTOR_NONE : before;
}

actor_id ends_take(struct ends *ends, int descriptor) {
    if (descriptor < 0 || (size_t)descriptor >= ends->count) {
        return ACTOR_NONE;
    }
    actor_id actor = ends->actors[descriptor];
    ends->actors[descriptor] = ACTOR_NONE;
    return actor;
}
