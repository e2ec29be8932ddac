/* See links.h. */
#include "agileml/net/links.h"

#include "agileml/base/memory.h"

#include <stdlib.h>

void links_forget_absent(struct io *io, actor_id self, const struct plan_view *old, const struct plan_view *new) {
    actor_id *actors = memory_resized(NULL, new->endpoint_count + 1, sizeof *actors);
    for (size_t e = 0; e < new->endpoint_count; e++) {
        actors[e] = new->endpoints[e].actor;
    }
    qsort(actors, new->endpoint_count, sizeof *actors, actor_compare);
    for (size_t e = 0; e < old->endpoint_count; e++) {
        actor_id before = old->endpoints[e].actor;
        if (actor_node(before) != actor_node(self) &&
            bsearch(&before, actors, new->endpoint_count, sizeof *actors, actor_compare) == NULL) {
            io->connect(io, before, NULL);
        }
    }
    free(actors);
}
