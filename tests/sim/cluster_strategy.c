/* Synchronization strategies in a simulated run (agileml/collective/strategy.h). See cluster_private.h. */
#include "tests/sim/cluster_private.h"
#include "workers/node/gossip/node_gossip.h"

#include <string.h>

enum { LOCAL_STEPS_MAX = 5, MOMENT_US = 100 * 1000 };

bool cluster_strategy_is_drawn(const struct cluster *cluster) {
    return cluster->terms.local_steps > 1;
}

void cluster_strategy_draw(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0x57A7);
    enum campaign campaign = cluster->options.campaign;
    bool possible = cluster->options.app == APP_ADDER && campaign != CAMPAIGN_UNEVEN && campaign != CAMPAIGN_MISSING;
    enum mistake mistake = cluster->options.mistake;
    bool kept = mistake == MISTAKE_STRATEGY_KEPT;
    bool averages = mistake == MISTAKE_GOSSIP_LATE || mistake == MISTAKE_REPLICA_APART;
    bool wanted = kept || averages || (mistake == MISTAKE_NONE && drawn % 3 == 0);
    if (!possible || !wanted) {
        return;
    }
    cluster->terms.strategy = (uint8_t)(drawn / 3 % (STRATEGY_AUTO + 1));
    cluster->terms.strategy = kept ? STRATEGY_AUTO : averages ? STRATEGY_ADPSGD : cluster->terms.strategy;
    cluster->terms.local_steps = 2 + (uint32_t)(drawn / 16 % (LOCAL_STEPS_MAX - 1));
    cluster->terms.clocks_per_iteration *= 1 + (uint32_t)(drawn / 64 % 3);
    cluster->terms.ssgd_iterations = (uint32_t)(drawn / 192 % 3);
}

void cluster_strategy_control(struct cluster *cluster) {
    struct cluster_controller *control = &cluster->control;
    uint64_t moment = sim_now(cluster->sim) / MOMENT_US;
    if (cluster_strategy_is_drawn(cluster) && cluster->terms.strategy == STRATEGY_AUTO && control->running &&
        control->controller.phase == PHASE_TRAIN && moment != control->strategy_moment) {
        control->strategy_moment = moment;
        uint64_t drawn = hash_mix(cluster->options.seed ^ hash_mix(moment));
        if (drawn % 4 == 0) {
            controller_want_strategy(&control->controller, (enum strategy)(drawn / 4 % STRATEGY_AUTO));
        }
    }
}

unsigned cluster_strategy_parts(struct cluster_node *node, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    const struct plan_view *plan = &node->node.plan;
    const struct strategy_clocks *clocks = &cluster->app.job.clocks;
    enum strategy strategy = plan_strategy_at(plan, clock);
    unsigned parts = strategy_parts(strategy, clocks, clock);
    unsigned before = strategy_parts((enum strategy)plan->terms.strategy, clocks, clock);
    if (clock == plan->terms.strategy_from && before != parts && cluster->drawn.first_clock + 1 < clock &&
        cluster_mistake_due(cluster, MISTAKE_STRATEGY_KEPT)) {
        parts = before;
    }
    bool counts = node->node.client.epoch == cluster->seen.plan.epoch; /* else its work is void */
    if (counts && !app_set_parts(&cluster->app, clock, parts) && !cluster->run.forged) {
        cluster_violation(cluster, "S5", "%s works on %u parts in clock %llu by %s, another one on others",
                          node->node.name, parts, (unsigned long long)clock, strategy_name(strategy));
    }
    return parts;
}

uint64_t cluster_strategy_idle(const struct cluster_node *node, uint64_t clock) {
    const struct plan_view *plan = &node->node.client.plan;
    return strategy_idle(plan_strategy_at(plan, clock), &node->cluster->app.job.clocks, clock);
}

/* ---- Averages between local steps ---- */

void cluster_strategy_offered(struct cluster_node *node) {
    const struct node_gossip *gossip = node_gossip(&node->node);
    struct node_offer *offer = &node->work.offers[gossip->claim % CLUSTER_OFFERS_SEEN];
    if (gossip->claim != 0 && offer->claim != gossip->claim) {
        *offer = (struct node_offer){
            .claim = gossip->claim, .clock = node->node.work.clock, .epoch = node->node.client.epoch};
    }
}

/* Makes the node take an offer of an earlier clock for one of the present clock. */
static void mistake_late(struct cluster_node *node, struct message *message) {
    struct cluster *cluster = node->cluster;
    const struct node_work *work = &node->node.work;
    bool open = node_gossip(&node->node)->model.type != 0 && message->epoch == node->node.client.epoch;
    if (open && message->peer.gossip.clock < work->clock && cluster_mistake_due(cluster, MISTAKE_GOSSIP_LATE)) {
        message->peer.gossip.clock = work->clock;
    }
}

void cluster_strategy_receive(struct cluster_node *node, actor_id from, struct message *message) {
    struct cluster *cluster = node->cluster;
    const struct node_gossip *gossip = node_gossip(&node->node);
    const struct message_peer said = message->peer;
    if (message->type != MESSAGE_PEER || said.service != SERVICE_GOSSIP || cluster->run.forged) {
        node_receive(&node->node, from, message);
        return;
    }
    if (said.kind == GOSSIP_OFFER) {
        mistake_late(node, message);
    }
    uint64_t averaged = gossip->averaged;
    node_receive(&node->node, from, message);
    if (gossip->averaged == averaged) {
        return;
    }
    cluster->result->counts.averages++;
    const struct cluster_node *asker = said.kind == GOSSIP_OFFER ? cluster_node_of(cluster, said.sender) : node;
    const struct node_offer *offer = &asker->work.offers[said.gossip.claim % CLUSTER_OFFERS_SEEN];
    if (offer->claim > said.gossip.claim) {
        return; /* a newer offer has this place in `offers`: the node was paused */
    }
    if (offer->claim != said.gossip.claim || offer->clock != node->node.work.clock ||
        offer->epoch != node->node.client.epoch) {
        cluster_violation(
            cluster, "S6", "%s, at clock %llu of epoch %llu, averages by %s's offer %llu of clock %llu of epoch %llu",
            node->node.name, (unsigned long long)node->node.work.clock, (unsigned long long)node->node.client.epoch,
            asker->node.name, (unsigned long long)said.gossip.claim, (unsigned long long)offer->clock,
            (unsigned long long)offer->epoch);
    }
}

void cluster_strategy_restore(struct cluster *cluster, uint64_t clock) {
    uint64_t kept = clock >= cluster->drawn.first_clock ? clock - cluster->drawn.first_clock + 1 : 0;
    cluster->seen.replica_clocks = kept < cluster->seen.replica_clocks ? kept : cluster->seen.replica_clocks;
}

/* Returns the averaged rows seen at the clock; allocates them if needed. */
static struct seen_replica *replica_at(struct cluster *cluster, uint64_t clock) {
    struct cluster_seen *seen = &cluster->seen;
    uint64_t at = clock - cluster->drawn.first_clock;
    if (at >= seen->replica_clocks) {
        seen->replicas = memory_resized(seen->replicas, at + 1, sizeof *seen->replicas);
        memset(seen->replicas + seen->replica_clocks, 0, (at + 1 - seen->replica_clocks) * sizeof *seen->replicas);
        seen->replica_clocks = at + 1;
    }
    return &seen->replicas[at];
}

void cluster_strategy_server(struct cluster_server *server) {
    struct cluster *cluster = server->node->cluster;
    for (uint32_t p = 0; p < server->server.partition_count && cluster->app.averages; p++) {
        const struct partition *partition = server->server.replicas[p].partition;
        unsigned table = 0;
        while (!cluster->app.job.tables[table].averaged) {
            table++;
        }
        if (partition == NULL || partition->clock <= server->checked[p].clock || partition->tables[table].count == 0 ||
            server->server.epoch != cluster->seen.plan.epoch || !cluster_mistake_due(cluster, MISTAKE_REPLICA_APART)) {
            continue;
        }
        double first;
        unsigned char *row = partition->tables[table].rows.base;
        memcpy(&first, row, sizeof first);
        first += 1;
        memcpy(row, &first, sizeof first);
    }
}

void cluster_check_replica(struct cluster *cluster, unsigned row, uint64_t clock, const void *memory, const char *who) {
    if (clock < cluster->drawn.first_clock) {
        return;
    }
    struct seen_replica *replica = replica_at(cluster, clock);
    uint64_t r = cluster->app.rows[row].key;
    double *first = replica->rows[r];
    if (!replica->known[r]) {
        replica->known[r] = true;
        memcpy(first, memory, sizeof replica->rows[r]);
    } else if (memcmp(first, memory, sizeof replica->rows[r]) != 0) {
        cluster_violation(cluster, "S2", "%s has row %llu of the averaged table at clock %llu with other bits", who,
                          (unsigned long long)r, (unsigned long long)clock);
    }
}
