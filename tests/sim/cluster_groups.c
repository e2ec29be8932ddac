/* Jobs in stage transient, where no machine counts as reliable: which machines fail together, and what their loss may
 * cost. A committed clock is lost only after the loss of both groups that had a copy of a partition. See
 * cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SALT = 0x6E0B5 /* the salt of choices that use no random number of other faults */ };

static uint64_t salted(const struct cluster *cluster, uint64_t number) {
    return hash_mix(hash_mix(cluster->options.seed ^ SALT) + number);
}

void cluster_groups_shape(struct cluster *cluster) {
    struct cluster_groups *groups = &cluster->groups;
    if (!cluster->options.transient) {
        return;
    }
    groups->count = 1 + (unsigned)(salted(cluster, 0) % 5); /* one group: then each host is a group */
    cluster->policy.stage = STAGE_TRANSIENT;
    cluster->faults.loss_intended = false;
    if (salted(cluster, 1) % 4 != 0) {
        cluster->drawn.initial_transient += cluster->drawn.initial_reliable;
        cluster->drawn.initial_reliable = 0;
    }
}

static unsigned group_of(const struct cluster_node *node) {
    const struct cluster_groups *groups = &node->cluster->groups;
    if (node->group != 0) {
        return node->group - 1;
    }
    return groups->count > 1 ? (unsigned)(salted(node->cluster, 100 + node->number) % groups->count) : node->number;
}

void cluster_groups_register(const struct cluster_node *node, struct message_register *registration) {
    if (node->cluster->groups.count > 1) {
        snprintf(registration->group, sizeof registration->group, "group-%u", group_of(node));
    }
}

/* ---- Who is hit ---- */

unsigned cluster_groups_only(struct cluster_node **nodes, unsigned count, unsigned group) {
    unsigned kept = 0;
    for (unsigned n = 0; n < count; n++) {
        if (group_of(nodes[n]) == group) {
            nodes[kept++] = nodes[n];
        }
    }
    return kept;
}

unsigned cluster_groups_pick(struct cluster *cluster, struct cluster_node **nodes, unsigned count) {
    if (!cluster->options.transient || count < 2) {
        return count;
    }
    unsigned chosen = (unsigned)(cluster_draw(cluster) % 4);
    if (chosen == 0) {
        return count; /* any of the drawn nodes, maybe all */
    }
    if (chosen == 1) {
        return 1;
    }
    return cluster_groups_only(nodes, count, group_of(nodes[0]));
}

/* ---- What may be lost ---- */

/* Returns how weak a plan's placement is against losses. 2: a partition has no follower; 1: a partition's follower is
 * in its server's group; 0: neither. */
static unsigned weakness(const struct cluster *cluster, const struct plan_view *plan) {
    unsigned weak = 0;
    for (uint32_t p = 0; p < plan->terms.partitions; p++) {
        const struct wire_placement *place = &plan->placement[p];
        const actor_id pairs[][2] = {{place->server, place->backup}, {place->next_server, place->next_backup}};
        for (unsigned i = 0; i < 2; i++) {
            const struct cluster_node *server = cluster_node_of(cluster, pairs[i][0]);
            const struct cluster_node *backup =
                pairs[i][1] == ACTOR_NONE ? NULL : cluster_node_of(cluster, pairs[i][1]);
            unsigned here = backup == NULL || server == backup ? 2 : group_of(server) == group_of(backup) ? 1 : 0;
            weak = here > weak ? here : weak;
        }
    }
    return weak;
}

static void add_lost(struct cluster *cluster, const struct cluster_node *node) {
    struct cluster_groups *groups = &cluster->groups;
    if (groups->lost_count > 0 && group_of(node) != groups->lost_group) {
        groups->lost_several = true;
    }
    groups->lost_group = group_of(node);
    groups->lost_count++;
}

/* Whether the node can restore its replica of the partition to the clock. */
static bool has_copy(const struct cluster_node *node, uint32_t partition, uint64_t clock) {
    bool has = false;
    for (unsigned s = 0; s < node->server_count && !has; s++) {
        has = cluster_can_put(&node->servers[s], partition, clock);
    }
    return has;
}

/* Whether the controller has asked the node for its restore points. Nodes without a part in the previous plan are not
 * asked. */
static bool was_asked(struct cluster *cluster, const struct cluster_node *node) {
    const struct member *member = controller_find_member(&cluster->control.controller, node->id);
    return member != NULL && (member->settled || member->fence.restore_points != NULL);
}

/* I5: a recovery keeps existing copies of the restored clock, up to two of each partition. The controller can't know
 * that a node with a copy has gone since. */
static void check_copies_kept(struct cluster *cluster, const struct plan_view *plan) {
    for (uint32_t p = 0; p < plan->terms.partitions; p++) {
        const struct wire_placement *place = &plan->placement[p];
        unsigned there = 0;
        unsigned kept = 0;
        for (size_t n = 0; n < plan->node_count; n++) {
            const struct cluster_node *node = cluster_node_of(cluster, plan->nodes[n].actor);
            if (has_copy(node, p, plan->terms.restore)) {
                there += !node->fate.gone && was_asked(cluster, node) ? 1 : 0;
                kept += placement_names_node(place, node->id) ? 1 : 0;
            }
        }
        if (kept < there && kept < 2) {
            cluster_violation(cluster, "I5", "plan %llu keeps %u of %u copies of partition %u at clock %llu",
                              (unsigned long long)plan->terms.version, kept, there, p,
                              (unsigned long long)plan->terms.restore);
            return;
        }
    }
}

void cluster_groups_plan(struct cluster *cluster, const struct plan_view *plan) {
    const struct plan_view *before = &cluster->seen.plan;
    struct cluster_groups *groups = &cluster->groups;
    if (!cluster->options.transient) {
        return;
    }
    for (size_t n = 0; plan_is_there(before) && plan->epoch > before->epoch && n < before->node_count; n++) {
        if (!cluster_plan_has(plan, before->nodes[n].actor)) {
            add_lost(cluster, cluster_node_of(cluster, before->nodes[n].actor));
        }
    }
    if (plan_is_there(before) && plan->epoch > before->epoch && plan->terms.restore > cluster->drawn.first_clock) {
        check_copies_kept(cluster, plan);
    }
    unsigned weak = weakness(cluster, plan);
    groups->weak = weak > groups->weak ? weak : groups->weak;
}

/* Whether the losses since the last commit explain the loss of a committed clock. */
bool cluster_groups_may_lose(const struct cluster *cluster) {
    const struct cluster_groups *groups = &cluster->groups;
    return cluster->options.transient && (groups->lost_several || (groups->weak == 1 && groups->lost_count > 1) ||
                                          (groups->weak == 2 && groups->lost_count > 0));
}

/* Whether the cache has every row of the partition, and none of a later clock. */
static bool has_all_rows(const struct cluster_node *node, uint32_t partition, uint64_t clock) {
    const struct job *job = node->node.job;
    for (unsigned t = 0; t < job->table_count; t++) {
        const struct cache_list *list = cache_list(&node->node.cache, partition, t);
        uint32_t filled = node->node.client.partitions[partition].filled[t];
        uint64_t rows = job->tables[t].rows;
        uint64_t own = rows > partition ? (rows - partition - 1) / node->node.client.partition_count + 1 : 0;
        for (uint32_t i = 0; i < filled; i++) {
            if (cache_clocks(&node->node.cache.tables[t])[list->slots[i]] > clock) {
                return false;
            }
        }
        if (filled != own) {
            return false;
        }
    }
    return true;
}

void cluster_groups_state(struct cluster_node *node, uint32_t partition, uint64_t clock) {
    struct cluster_node_states *states = &node->states;
    uint64_t epoch = node->node.client.plan.epoch;
    if (!node->cluster->options.caches) {
        return;
    }
    if (epoch > states->epoch + 1) { /* the node missed an epoch: earlier states do not count */
        memset(states, 0, sizeof *states);
    }
    states->epoch = epoch;
    if (has_all_rows(node, partition, clock)) {
        states->clocks[partition][clock % CLUSTER_STATES_SEEN] = clock + 1;
    }
}

void cluster_groups_restore(struct cluster *cluster, uint64_t restore) {
    for (unsigned n = 0; n < cluster->node_count && cluster->options.caches; n++) {
        for (uint32_t p = 0; p < CLUSTER_PARTITIONS_MAX; p++) {
            for (unsigned i = 0; i < CLUSTER_STATES_SEEN; i++) {
                uint64_t *clock = &cluster->nodes[n]->states.clocks[p][i];
                *clock = *clock > restore + 1 ? 0 : *clock;
            }
        }
    }
}

/* I5: no job is lost while a remaining node has the committed state in its cache. The controller's committed clock may
 * lag behind the commit point, and then no cache need have its state. A new controller may have ended before its first
 * plan. */
static void check_caches(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    uint64_t committed = controller->commit.clock;
    if (!cluster->options.caches || committed <= cluster->drawn.first_clock || !plan_is_there(&controller->plan.view) ||
        !plan_is_commit_point(&controller->plan.view, committed) ||
        strstr(cluster->control.text, " lost with") == NULL) {
        return;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        const struct member *member = controller_find_member(controller, node->id);
        uint32_t p = 0;
        while (p < cluster->policy.partitions &&
               node->states.clocks[p][committed % CLUSTER_STATES_SEEN] == committed + 1) {
            p++;
        }
        bool asked = member != NULL && member->stay != MEMBER_DISMISSED; /* a dismissed member may be gone */
        if (asked && member->fence.answered && !node->fate.mad && p == cluster->policy.partitions &&
            node->states.epoch + 1 >= controller->plan.view.epoch) {
            cluster_violation(cluster, "I5", "the job is lost, though %s's cache has the committed clock %llu: %s",
                              node->node.name, (unsigned long long)committed, cluster->control.text);
        }
    }
}

/* Called when the job has failed: nodes of the last plan that the controller has given up since are lost, too. */
void cluster_groups_end(struct cluster *cluster) {
    const struct plan_view *plan = &cluster->seen.plan;
    if (!cluster->options.transient || !plan_is_there(plan)) {
        return;
    }
    check_caches(cluster);
    for (size_t n = 0; n < plan->node_count; n++) {
        struct cluster_node *node = cluster_node_of(cluster, plan->nodes[n].actor);
        if (node->fate.gone || controller_find_member(&cluster->control.controller, node->id) == NULL) {
            add_lost(cluster, node);
        }
    }
}

/* Returns how many nodes can restore their replica of the partition to the clock. A lost node counts while the plan
 * names it, as its copy did. */
static unsigned copies(const struct cluster *cluster, uint32_t partition, uint64_t clock) {
    unsigned count = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        count +=
            has_copy(node, partition, clock) && (!node->fate.gone || cluster_plan_has(&cluster->seen.plan, node->id))
                ? 1
                : 0;
    }
    return count;
}

/* Whether the partition has no backup from `from_clock` on and its server has reached that clock. Then the server's
 * copy alone counts, for earlier clocks too. */
static bool backup_has_left(const struct cluster *cluster, uint32_t partition, uint64_t from_clock) {
    const struct wire_placement *place = &cluster->seen.plan.placement[partition];
    if (from_clock == 0 || place->next_backup != ACTOR_NONE) {
        return false;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        for (unsigned s = 0; s < node->server_count; s++) {
            const struct partition *replica = cluster_replica(&node->servers[s], partition);
            if (node->servers[s].server.self == place->next_server && replica != NULL && replica->clock >= from_clock) {
                return true;
            }
        }
    }
    return false;
}

void cluster_groups_committed(struct cluster *cluster) {
    struct cluster_groups *groups = &cluster->groups;
    const struct plan_view *plan = &cluster->seen.plan;
    uint64_t committed = cluster->seen.committed;
    if (!cluster->options.transient || committed <= plan->terms.restore) {
        return;
    }
    bool next = plan->terms.from_clock != 0 && committed >= plan->terms.from_clock;
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        const struct wire_placement *place = &plan->placement[p];
        bool alone = (next ? place->next_backup : place->backup) == ACTOR_NONE ||
                     backup_has_left(cluster, p, plan->terms.from_clock);
        unsigned least = alone ? 1 : 2;
        if (copies(cluster, p, committed) < least) {
            cluster_violation(cluster, "I5",
                              "clock %llu counts as committed, partition %u can be put at it by %u nodes",
                              (unsigned long long)committed, p, copies(cluster, p, committed));
            return;
        }
    }
    groups->lost_count = 0;
    groups->lost_several = false;
    groups->weak = weakness(cluster, plan);
}
