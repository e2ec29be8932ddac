/* Restores partitions whose replicas are all lost from what this node's client has kept (client_kept.c). Reports the
 * clocks for which the client has a partition's rows, and gives the rows to our server. See node_private.h. */
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>

/* Whether one of our servers has reported, when it was fenced, that it can restore its replica at the clock. */
static bool servers_can_restore(const struct node *node, uint32_t partition, uint64_t clock) {
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct buffer *own = node->servers[s].restore_points;
        const struct wire_restore_point *points = own != NULL ? (const void *)own->data : NULL;
        for (size_t r = 0; own != NULL && r < own->size / sizeof *points; r++) {
            if (points[r].partition == partition && points[r].clock == clock) {
                return true;
            }
        }
    }
    return false;
}

struct buffer *node_cache_points(const struct node *node) {
    struct wire_restore_point *points = NULL;
    size_t count = 0;
    for (uint32_t p = 0; p < node->client.partition_count && node->options.server_count > 0; p++) {
        uint64_t *clocks;
        unsigned found = client_kept_clocks(&node->client, p, &clocks);
        points = memory_resized(points, count + found + 1, sizeof *points);
        for (unsigned c = 0; c < found; c++) {
            if (!servers_can_restore(node, p, clocks[c])) {
                points[count++] =
                    (struct wire_restore_point){.server = node->options.servers[p % node->options.server_count].actor,
                                                .partition = p,
                                                .cache = 1,
                                                .clock = clocks[c]};
            }
        }
        free(clocks);
    }
    struct buffer *frame = buffer_copy(points, count * sizeof *points);
    free(points);
    return frame;
}

void node_give_cached(struct node *node, const struct plan_view *plan) {
    uint64_t restore = plan->terms.restore;
    assert(node->client.partition_count == 0 || node->client.partition_count == plan->terms.partitions);
    for (uint32_t p = 0; p < node->client.partition_count; p++) {
        actor_id server = plan_server_at(plan, restore + 1, p);
        if (actor_node(server) != node->options.self || servers_can_restore(node, p, restore)) {
            continue;
        }
        uint64_t *clocks;
        unsigned count = client_kept_clocks(&node->client, p, &clocks);
        while (count > 0 && clocks[count - 1] != restore) {
            count--;
        }
        free(clocks);
        if (count > 0) {
            struct message update;
            client_kept_state(&node->client, p, restore, &update);
            update.epoch = plan->epoch;
            node->io->send(node->io, server, &update);
        }
    }
}
