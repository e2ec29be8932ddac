/* See plan.h. */
#include "agileml/control/plan.h"

static bool plan_serves(const struct plan_node *node, const struct plan_policy *policy) {
    return node->servers > 0 && (policy->stage == STAGE_TRADITIONAL || node->tier == TIER_RELIABLE);
}

int plan(const struct plan_node *nodes, unsigned node_count, const struct plan_policy *policy, actor_id *placement,
         actor_id *shards, struct error *error) {
    unsigned serving = 0;
    uint64_t threads = 0;
    for (unsigned n = 0; n < node_count; n++) {
        serving += plan_serves(&nodes[n], policy) ? 1 : 0;
        threads += nodes[n].threads;
    }
    if (serving == 0) {
        return error_set(error, AML_EINPUT, "no node may serve the parameters: stage 1 needs a reliable node");
    }
    if (threads == 0) {
        return error_set(error, AML_EINPUT, "no node works on the data: every node has 0 worker threads");
    }
    /* Partitions are dealt in turn over the serving nodes, and on each node over its server threads. */
    uint32_t dealt = 0;
    while (dealt < policy->partitions) {
        uint32_t round = dealt / serving;
        for (unsigned n = 0; n < node_count && dealt < policy->partitions; n++) {
            if (plan_serves(&nodes[n], policy)) {
                placement[dealt++] = actor_of_part(nodes[n].actor, 1 + round % nodes[n].servers);
            }
        }
    }
    /* Shards are cut in contiguous runs in proportion to threads. */
    uint64_t before = 0;
    for (unsigned n = 0; n < node_count; n++) {
        uint64_t first = before * policy->shards / threads;
        before += nodes[n].threads;
        for (uint64_t s = first; s < before * policy->shards / threads; s++) {
            shards[s] = nodes[n].actor;
        }
    }
    return 0;
}
