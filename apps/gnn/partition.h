/* Divides a graph's vertices into *intervals*: the pieces that one task works on (Dorylus, section 2.4). Intervals have
 * about equal numbers of vertices and few edges between them; neighbouring intervals have more edges in common. */
#ifndef APPS_GNN_PARTITION_H
#define APPS_GNN_PARTITION_H

#include "apps/gnn/graph.h"

struct graph_partition {
    uint32_t *order;  /* [vertices]: the vertex at each place; interval k has places firsts[k]..firsts[k + 1] - 1 */
    uint32_t *place;  /* [vertices]: the place of each vertex: order[place[v]] == v */
    uint32_t *firsts; /* [intervals + 1] */
    uint32_t intervals;
    uint64_t cut;    /* entries of the `in` lists whose vertices lie in different intervals */
    uint64_t ghosts; /* sum over intervals of the vertices elsewhere that their lists, `in` and `out`, name */
};

/* Divides the graph into `intervals` intervals (1 to vertices), whose sizes differ by a few percent, or by 2. The same
 * graph has the same result. `progress` (may be NULL) is told the part done, 0 to 1. Takes 12 bytes a vertex, of which
 * the partition keeps 8. Returns 0, and graph_partition_close must follow; or AML_ENOMEM. */
int graph_partition_make(const struct graph *graph, uint32_t intervals, struct graph_partition *partition,
                         void (*progress)(void *context, double done), void *context, struct error *error);
/* A zeroed partition is empty. */
void graph_partition_close(struct graph_partition *partition);

/* Splits interval k, which has at least two vertices, into two of equal numbers of vertices, in their order. `cut` and
 * `ghosts` are not changed. Returns 0 or AML_ENOMEM. */
int graph_partition_split(struct graph_partition *partition, uint32_t k, struct error *error);

#endif
