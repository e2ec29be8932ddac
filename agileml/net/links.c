/* See links.h. */
#include "agileml/net/links.h"

#include "agileml/base/memory.h"

#include <stdlib.h>

size_t links_endpoints(const struct message *plan, const struct wire_endpoint **endpoints) {
    *endpoints = plan->frame_count > 0 ? (const void *)plan->frames[4]->data : NULL;
    return plan->frame_count > 0 ? plan->frames[4]->size / sizeof **endpoints : 0;
}

void links_forget_absent(struct io *io, actor_id self, const struct message *old, const struct message *new) {
    const struct wire_endpoint *before;
    const struct wire_endpoint *now;
    size_t before_count = links_endpoints(old, &before);
    size_t now_count = links_endpoints(new, &now);
    actor_id *actors = memory_resized(NULL, now_count + 1, sizeof *actors);
    for (size_t e = 0; e < now_count; e++) {
        actors[e] = now[e].actor;
    }
    qsort(actors, now_count, sizeof *actors, actor_compare);
    for (size_t e = 0; e < before_count; e++) {
        if (actor_node(before[e].actor) != actor_node(self) &&
            bsearch(&before[e].actor, actors, now_count, sizeof *actors, actor_compare) == NULL) {
            io->connect(io, before[e].actor, NULL);
        }
    }
    free(actors);
}
