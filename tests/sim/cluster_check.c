/* Checks a simulated cluster step by step: invariants I1 to I7 of docs/design.md, and the bounds. See
 * cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BOUND_SLACK = 4 };

void cluster_violation(struct cluster *cluster, const char *invariant, const char *format, ...) {
    char *text = cluster->result->violation;
    if (text[0] != '\0' || (cluster->run.forged && strcmp(invariant, "ended") != 0)) {
        return;
    }
    size_t size = sizeof cluster->result->violation;
    int used = snprintf(text, size, "at %.6f s: %s: ", cluster->sim != NULL ? (double)sim_now(cluster->sim) / 1e6 : 0.0,
                        invariant);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - (size_t)used, format, arguments);
    va_end(arguments);
}

double cluster_objective(uint64_t clock) {
    return 1.0 + ldexp(1.0, -(int)(clock < 1000 ? clock : 1000));
}

double cluster_figure(const struct cluster *cluster, unsigned shard, uint64_t clock) {
    bool works = cluster->app.kind->items(&cluster->app, shard, clock) > 0;
    return works ? (double)(hash_mix(hash_mix(shard) + clock) % 1000) : 0;
}

/* ---- Plans ---- */

bool cluster_plan_has(const struct plan_view *plan, actor_id actor) {
    for (size_t n = 0; n < plan->node_count; n++) {
        if (plan->nodes[n].actor == actor_node(actor)) {
            return true;
        }
    }
    return false;
}

static int clock_order(const void *a, const void *b) {
    const uint64_t *left = a;
    const uint64_t *right = b;
    return *left < *right ? -1 : *left > *right;
}

/* I6: no shard has two owners at `clock`; if `complete`, each has one. */
static void check_owners_at(struct cluster *cluster, const struct plan_view *plan, uint64_t clock, bool complete) {
    const struct wire_assignment *assignments = plan->assignments;
    const uint32_t *shards = plan->shards;
    unsigned char *owned = memory_zeroed(plan->terms.shards, 1);
    for (size_t d = 0; d < plan->assignment_count; d++) {
        if (assignments[d].from_clock > clock || assignments[d].until_clock < clock) {
            continue;
        }
        for (uint32_t s = 0; s < assignments[d].count; s++) {
            uint32_t shard = shards[assignments[d].first + s];
            if (owned[shard]++ != 0) {
                cluster_violation(cluster, "I6", "in plan %llu shard %u has two owners at clock %llu",
                                  (unsigned long long)plan->terms.version, shard, (unsigned long long)clock);
            }
        }
        if (!cluster_plan_has(plan, assignments[d].origin)) {
            cluster_violation(cluster, "I6", "in plan %llu a node without a part in it has a duty at clock %llu",
                              (unsigned long long)plan->terms.version, (unsigned long long)clock);
        }
    }
    for (uint32_t s = 0; complete && s < plan->terms.shards; s++) {
        if (owned[s] == 0) {
            cluster_violation(cluster, "I6", "in plan %llu shard %u has no owner at clock %llu",
                              (unsigned long long)plan->terms.version, s, (unsigned long long)clock);
        }
    }
    free(owned);
}

/* I6: each data shard has exactly one owner at each clock that is still to be worked on. */
static void check_owners(struct cluster *cluster, const struct plan_view *plan, bool new_epoch) {
    const struct wire_assignment *assignments = plan->assignments;
    size_t count = plan->assignment_count;
    uint64_t *clocks = memory_zeroed(2 * count + 2, sizeof *clocks);
    size_t used = 0;
    for (size_t d = 0; d < count; d++) {
        if (assignments[d].from_clock < WIRE_CLOCK_NEVER) {
            clocks[used++] = assignments[d].from_clock;
        }
        if (assignments[d].until_clock < WIRE_CLOCK_NEVER) {
            clocks[used++] = assignments[d].until_clock + 1;
        }
    }
    bool restored = new_epoch || plan->terms.restore > cluster->seen.begun;
    uint64_t from = (restored ? plan->terms.restore : cluster->seen.begun) + 1;
    clocks[used++] = from;
    qsort(clocks, used, sizeof *clocks, clock_order);
    for (size_t c = 0; c < used; c++) {
        if (c == 0 || clocks[c] != clocks[c - 1]) {
            check_owners_at(cluster, plan, clocks[c], clocks[c] >= from);
        }
    }
    free(clocks);
}

/* Returns what differs between two plans of the same version; NULL: nothing. */
static const char *plan_difference(const struct plan_view *a, const struct plan_view *b) {
    static const char *const frames[PLAN_FRAMES] = {"nodes", "placement", "duties", "shards", "endpoints"};
    if (a->epoch != b->epoch || a->terms.from_clock != b->terms.from_clock || a->terms.restore != b->terms.restore) {
        return "epoch or clocks";
    }
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        if (a->frames[f] != b->frames[f] && (a->frames[f]->size != b->frames[f]->size ||
                                             memcmp(a->frames[f]->data, b->frames[f]->data, a->frames[f]->size) != 0)) {
            return frames[f];
        }
    }
    return NULL;
}

/* Counts the items that recoveries repeat at most: those of all catch-up assignments. */
static void count_redone(struct cluster *cluster, const struct plan_view *plan) {
    const struct wire_assignment *assignments = plan->assignments;
    const uint32_t *shards = plan->shards;
    for (size_t d = 0; d < plan->assignment_count; d++) {
        if (!origin_is_catch_up(assignments[d].origin)) {
            continue;
        }
        for (uint32_t s = 0; s < assignments[d].count; s++) {
            cluster->seen.redone_most += app_shard_items(&cluster->app, shards[assignments[d].first + s],
                                                         assignments[d].from_clock, assignments[d].until_clock);
        }
    }
}

/* Returns the highest commit that a node of the new plan has heard of. Nodes that were given up may have heard of
 * higher ones. */
static uint64_t committed_by_survivors(const struct cluster *cluster, const struct plan_view *plan) {
    uint64_t committed = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        if (!node->fate.gone && cluster_plan_has(plan, node->id) && node->node.client.committed > committed) {
            committed = node->node.client.committed;
        }
    }
    return committed;
}

/* Whether the oracle's states hold for the epoch. Where strategies change, a past epoch's clocks may have had other
 * parts than the repeated ones. */
bool cluster_state_stands(const struct cluster *cluster, uint64_t epoch) {
    bool repeatable = cluster->app.kind->repeatable && !cluster_strategy_is_drawn(cluster);
    return repeatable || epoch == cluster->seen.plan.epoch;
}

/* Returns the highest clock that a node of the new plan has begun. Later clocks, done by lost nodes alone, are void and
 * may be repeated by another strategy. */
static uint64_t begun_by_survivors(const struct cluster *cluster, const struct plan_view *plan) {
    uint64_t begun = plan->terms.restore;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        if (!node->fate.gone && cluster_plan_has(plan, node->id)) {
            begun = node->node.client.clock > begun ? node->node.client.clock : begun;
            begun = node->node.client.flushed > begun ? node->node.client.flushed : begun;
        }
    }
    return begun;
}

static void check_new_epoch(struct cluster *cluster, const struct plan_view *plan) {
    cluster_groups_restore(cluster, plan->terms.restore);
    app_restore(&cluster->app, plan->terms.restore);
    cluster_strategy_restore(cluster, plan->terms.restore);
    if (cluster->seen.first_epoch == 0) {
        cluster->seen.first_epoch = plan->epoch;
        cluster->drawn.first_clock = plan->terms.restore;
        app_forget_parts(&cluster->app, plan->terms.restore);
        cluster->seen.begun = cluster->seen.committed = plan->terms.restore;
        return;
    }
    cluster->result->counts.recoveries++;
    cluster->seen.recovery_begun = cluster->seen.begun;
    cluster->seen.restored_most =
        plan->terms.restore > cluster->seen.restored_most ? plan->terms.restore : cluster->seen.restored_most;
    count_redone(cluster, plan);
    app_forget_parts(&cluster->app, begun_by_survivors(cluster, plan));
    /* A commit is lost if all nodes that had heard of it are lost. */
    if (cluster->faults.may_fail || cluster_groups_may_lose(cluster)) {
        cluster->seen.committed = committed_by_survivors(cluster, plan);
    }
    if (plan->terms.restore < cluster->seen.committed) {
        cluster_violation(cluster, "I5", "epoch %llu goes back to clock %llu, clock %llu was committed",
                          (unsigned long long)plan->epoch, (unsigned long long)plan->terms.restore,
                          (unsigned long long)cluster->seen.committed);
    }
}

static void check_plan(struct cluster *cluster, const struct plan_view *plan) {
    const struct plan_view *newest = &cluster->seen.plan;
    if (plan_is_there(newest) && plan->terms.version <= newest->terms.version) {
        const char *difference = plan_difference(plan, newest);
        if (plan->terms.version < newest->terms.version || difference != NULL) {
            cluster_violation(cluster, "I6", "plan %llu of epoch %llu is sent after plan %llu of epoch %llu: other %s",
                              (unsigned long long)plan->terms.version, (unsigned long long)plan->epoch,
                              (unsigned long long)newest->terms.version, (unsigned long long)newest->epoch,
                              difference != NULL ? difference : "version");
        }
        return;
    }
    if (plan->epoch < newest->epoch && plan_is_there(newest)) {
        cluster_violation(cluster, "I7", "plan %llu goes back to epoch %llu", (unsigned long long)plan->terms.version,
                          (unsigned long long)plan->epoch);
    }
    bool new_epoch = !plan_is_there(newest) || plan->epoch > newest->epoch;
    cluster_groups_plan(cluster, plan);
    if (new_epoch) {
        check_new_epoch(cluster, plan);
    }
    check_owners(cluster, plan, new_epoch);
    cluster->result->counts.plans++;
    plan_close(&cluster->seen.plan);
    cluster->seen.plan = plan_share(plan);
}

void cluster_check_plan(struct cluster *cluster) {
    check_plan(cluster, &cluster->control.controller.plan.view);
    cluster_uneven_planned(cluster);
}

const struct plan_view *cluster_plan_in(const struct cluster *cluster, const struct message *message) {
    const struct plan_view *newest = &cluster->seen.plan;
    bool is_newest = (message->type == MESSAGE_PLAN && message->plan.version == newest->terms.version) ||
                     (message->type == MESSAGE_PACKED_PLAN && message->packed_plan.version == newest->terms.version);
    return is_newest ? newest : NULL;
}

struct cluster_server *cluster_serving(struct cluster *cluster, uint32_t partition, uint64_t clock) {
    if (!plan_is_there(&cluster->seen.plan)) {
        return NULL;
    }
    actor_id actor = plan_server_at(&cluster->seen.plan, clock, partition);
    struct cluster_node *node = cluster_node_of(cluster, actor);
    unsigned part = actor_part(actor);
    return node != NULL && part >= 1 && part <= node->server_count ? &node->servers[part - 1] : NULL;
}

/* ---- Servers ---- */

/* I1: a partition at a clock holds every contribution up to that clock, once. */
void cluster_check_partition(struct cluster *cluster, const struct partition *partition, uint64_t clock,
                             const char *what) {
    if (cluster->run.forged) {
        return;
    }
    const uint64_t *state = app_state(&cluster->app, clock);
    const uint64_t *start = app_state(&cluster->app, 0);
    const unsigned *rows = cluster->run.partition_rows[partition->id];
    char text[256];
    for (unsigned r = 0; r < cluster->run.partition_row_counts[partition->id]; r++) {
        const struct app_row *row = &cluster->app.rows[rows[r]];
        const struct table *table = &partition->tables[row->table];
        int64_t slot = table_find(table, row->key);
        if (slot < 0) {
            if (memcmp(state + row->first, start + row->first, table->spec->width * sizeof *state) != 0) {
                cluster_violation(cluster, "I1", "%s: partition %u at clock %llu lacks row %llu of table %s", what,
                                  partition->id, (unsigned long long)clock, (unsigned long long)row->key,
                                  table->spec->name);
                return;
            }
        } else if (app_averages(&cluster->app, rows[r])) {
            cluster_check_replica(cluster, rows[r], clock, partition_row(partition, row->table, (uint32_t)slot), what);
        } else if (!app_equal(&cluster->app, rows[r], state, partition_row(partition, row->table, (uint32_t)slot), text,
                              sizeof text)) {
            cluster_violation(cluster, "I1", "%s: partition %u at clock %llu: %s", what, partition->id,
                              (unsigned long long)clock, text);
            return;
        }
    }
}

/* I7, when a serving replica has advanced its clock: no other server of the epoch did so for this clock. */
static void check_served(struct cluster_server *server, uint32_t number) {
    struct cluster *cluster = server->node->cluster;
    const struct partition *partition = server->server.replicas[number].partition;
    if (server->server.fenced || !server_serves(&server->server, number, partition->clock)) {
        return;
    }
    uint64_t epoch = server->server.epoch;
    if (cluster->seen.served[number].epoch == epoch && cluster->seen.served[number].server != server->server.self &&
        cluster->seen.served[number].clock >= partition->clock) {
        cluster_violation(cluster, "I7", "two servers took partition %u to clock %llu in epoch %llu, the second of %s",
                          number, (unsigned long long)partition->clock, (unsigned long long)epoch,
                          server->node->node.name);
    }
    if (epoch >= cluster->seen.served[number].epoch) {
        cluster->seen.served[number].epoch = epoch;
        cluster->seen.served[number].clock = partition->clock;
        cluster->seen.served[number].server = server->server.self;
    }
}

/* I7, when a server has received a plan: no other server with that plan serves the same partition. */
static void check_roles(struct cluster_server *server) {
    struct cluster *cluster = server->node->cluster;
    const struct server *mine = &server->server;
    uint64_t boundary = mine->plan.terms.from_clock;
    for (uint32_t p = 0; p < mine->partition_count; p++) {
        const uint64_t clocks[] = {boundary > 0 ? boundary - 1 : 0, boundary};
        for (unsigned c = 0; c < 2; c++) {
            if (!server_serves(mine, p, clocks[c])) {
                continue;
            }
            for (unsigned n = 0; n < cluster->node_count; n++) {
                const struct cluster_node *node = cluster->nodes[n];
                for (unsigned s = 0; s < node->server_count && !node->fate.gone; s++) {
                    const struct server *other = &node->servers[s].server;
                    if (other != mine && !other->fenced && other->epoch == mine->epoch &&
                        node->servers[s].version == server->version && server_serves(other, p, clocks[c])) {
                        cluster_violation(cluster, "I7", "partition %u is served by two, %s and %s, at clock %llu", p,
                                          server->node->node.name, node->node.name, (unsigned long long)clocks[c]);
                    }
                }
            }
        }
    }
}

const struct partition *cluster_replica(const struct cluster_server *server, uint32_t partition) {
    const struct server_replica *replica =
        partition < server->server.partition_count ? &server->server.replicas[partition] : NULL;
    return replica != NULL && replica->state != REPLICA_COPYING ? replica->partition : NULL;
}

/* I4: after a recovery a serving replica is at the restored clock or a later one. */
static void check_restored(const struct cluster_server *server, uint32_t number) {
    const struct server *mine = &server->server;
    const struct partition *partition = mine->replicas[number].partition;
    if (partition->clock < mine->plan.terms.restore && server_serves(mine, number, partition->clock + 1)) {
        cluster_violation(server->node->cluster, "I4", "partition %u serves at clock %llu, restored was clock %llu",
                          number, (unsigned long long)partition->clock, (unsigned long long)mine->plan.terms.restore);
    }
}

static bool can_be_put(const struct partition *partition, uint64_t clock) {
    uint64_t *clocks;
    bool found = false;
    unsigned count = partition_restore_points(partition, &clocks);
    for (unsigned c = 0; c < count; c++) {
        found = found || clocks[c] == clock;
    }
    free(clocks);
    return found;
}

bool cluster_can_put(const struct cluster_server *server, uint32_t partition, uint64_t clock) {
    const struct partition *replica = cluster_replica(server, partition);
    return replica != NULL && can_be_put(replica, clock);
}

static bool reliable_can_put(const struct cluster *cluster, uint32_t p, uint64_t clock) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        for (unsigned s = 0; s < node->server_count && node->tier == TIER_RELIABLE && !node->fate.gone; s++) {
            if (cluster_can_put(&node->servers[s], p, clock)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the first partition that no reliable machine can restore to `clock`; if there is none, the number of
 * partitions. */
static uint32_t first_out_of_reach(const struct cluster *cluster, uint64_t clock) {
    uint32_t p = 0;
    while (p < cluster->policy.partitions && reliable_can_put(cluster, p, clock)) {
        p++;
    }
    return p;
}

/* I5: reliable machines can restore each clock that counts as committed, or the later clock that was restored. A node
 * that was given up may be the only one that ever knew of a clock: then that clock does not count. */
static void check_committed(const struct cluster_node *node, uint64_t committed) {
    struct cluster *cluster = node->cluster;
    if (committed <= cluster->seen.committed || !cluster_plan_has(&cluster->seen.plan, node->id)) {
        return;
    }
    cluster->seen.committed = committed;
    const struct cluster_controller *control = &cluster->control;
    if (control->ended || (control->running && control->controller.phase >= PHASE_LEAVE)) {
        return; /* the reliable nodes may have left */
    }
    if (cluster->faults.may_fail || !cluster->seen.plan.terms.recoverable) {
        return;
    }
    cluster_groups_committed(cluster);
    if (cluster->options.transient) {
        return;
    }
    uint32_t missing = first_out_of_reach(cluster, committed);
    uint64_t restored = cluster->seen.plan.terms.restore;
    bool kept = restored > committed && first_out_of_reach(cluster, restored) == cluster->policy.partitions;
    if (missing < cluster->policy.partitions && !kept) {
        cluster_violation(cluster, "I5",
                          "clock %llu counts as committed, no reliable machine can put partition %u at it",
                          (unsigned long long)committed, missing);
    }
}

/* Checks what waits at a relay: S3, no message of an older epoch, and the bound on its size. */
static void check_relay(struct cluster *cluster, const struct server *server) {
    for (uint32_t p = 0; p < server->relay.partition_count && !server->fenced; p++) {
        const struct relay_partition *partition = &server->relay.partitions[p];
        if (partition->count > 2 * (server->job->staleness + 1)) {
            cluster_violation(cluster, "bound", "%u clocks of partition %u wait at a relay", partition->count, p);
        }
        for (unsigned e = 0; e < partition->count; e++) {
            const struct relay_entry *entry = &partition->entries[e];
            if (!entry->sent && ((entry->has_own && entry->own.epoch != server->epoch) ||
                                 (entry->has_sum && entry->sum.epoch != server->epoch))) {
                cluster_violation(cluster, "S3", "a flush of clock %llu waits at a relay in epoch %llu, but is older",
                                  (unsigned long long)entry->clock, (unsigned long long)server->epoch);
            }
        }
    }
}

void cluster_check_ring(struct cluster *cluster, const struct message *message) {
    bool flush = message->type == MESSAGE_FLUSH;
    uint64_t digest = flush ? message->flush.ring : message->type == MESSAGE_PUSH ? message->push.ring : 0;
    uint64_t clock = flush ? message->flush.clock : message->push.clock;
    if (digest == 0) {
        return;
    }
    uint32_t partition = flush ? message->flush.partition : message->push.partition;
    struct seen_ring *seen = &cluster->seen.rings[clock % CLUSTER_RINGS_SEEN][partition % CLUSTER_CHAINS_SEEN];
    bool same = seen->epoch == message->epoch && seen->clock == clock && seen->partition == partition;
    if (same && seen->digest != digest) {
        cluster_violation(cluster, "S3", "two rings for clock %llu of epoch %llu", (unsigned long long)clock,
                          (unsigned long long)message->epoch);
    }
    if (message->epoch >= seen->epoch) {
        *seen = (struct seen_ring){.epoch = message->epoch, .clock = clock, .digest = digest, .partition = partition};
    }
}

void cluster_check_server(struct cluster_server *server) {
    struct cluster *cluster = server->node->cluster;
    const struct server *mine = &server->server;
    bool new_plan = !mine->fenced && plan_is_there(&mine->plan) && mine->plan.terms.version != server->version;
    if (new_plan) {
        server->version = mine->plan.terms.version;
        check_roles(server);
    }
    for (uint32_t p = 0; p < mine->partition_count; p++) {
        const struct partition *partition = cluster_replica(server, p);
        if (partition == NULL || mine->fenced) {
            server->checked[p].epoch = 0;
            continue;
        }
        bool new_epoch = server->checked[p].epoch != mine->epoch;
        if (!new_epoch && server->checked[p].clock == partition->clock) {
            continue;
        }
        server->checked[p].epoch = mine->epoch;
        server->checked[p].clock = partition->clock;
        if (new_epoch) {
            check_restored(server, p);
        } else {
            check_served(server, p);
        }
        if (cluster_state_stands(cluster, mine->epoch)) {
            cluster_check_partition(cluster, partition, partition->clock, server->node->node.name);
        }
    }
    check_committed(server->node, mine->committed);
    check_relay(cluster, mine);
    if (mine->scan_count > SERVER_SCANS_MAX || mine->early_count > SERVER_EARLY_MAX) {
        cluster_violation(cluster, "bound", "%u scans and %u early messages wait", mine->scan_count, mine->early_count);
    }
}

/* ---- Nodes ---- */

/* Computes the row expected at `clock`, with the node's own later changes. A table with an optimizer has no such
 * changes. */
static void expected_row(struct cluster_node *node, unsigned number, uint64_t clock, uint64_t *expected) {
    struct app *app = &node->cluster->app;
    const struct app_row *row = &app->rows[number];
    memcpy(expected + row->first, app_state(app, clock) + row->first, app_width(app, number) * sizeof *expected);
    bool plain = !table_stepped(&app->job.tables[row->table]);
    for (unsigned o = 0; o < node->app.own_count && plain; o++) {
        if (node->app.own[o].clock > clock) {
            app_changes_apply(app, &node->app.own[o].changes, number, expected);
        }
    }
}

/* S2, for a row of an averaged table that the node has not changed since. */
static void check_replica_row(const struct cluster_node *node, unsigned row, uint64_t clock, const void *memory) {
    for (unsigned o = 0; o < node->app.own_count; o++) {
        if (node->app.own[o].clock > clock) {
            return;
        }
    }
    cluster_check_replica(node->cluster, row, clock, memory, node->node.name);
}

/* I2: a worker sees the partition at its clock plus the worker's own later changes. Rows new to the cache may have a
 * later state until the pushes in between arrive. */
void cluster_check_row_state(void *context, uint32_t partition, uint64_t clock) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    struct app *app = &cluster->app;
    const struct client *client = &node->node.client;
    uint64_t *expected = app->scratch;
    char text[256];
    cluster_groups_state(node, partition, clock);
    if (cluster->run.forged || !cluster_state_stands(cluster, client->epoch)) { /* a forged clock may have any value */
        return;
    }
    for (unsigned t = 0; t < app->job.table_count; t++) {
        struct cache_table *table = &node->node.cache.tables[t];
        const struct cache_list *list = cache_list(&node->node.cache, partition, t);
        for (uint32_t i = 0; i < client->partitions[partition].filled[t]; i++) {
            uint32_t slot = list->slots[i];
            uint32_t brought = cache_clocks(table)[slot];
            if (brought == CACHE_CLOCK_VOID) {
                continue;
            }
            unsigned row = node->app.row_of[t][slot];
            if (app_averages(app, row)) {
                check_replica_row(node, row, brought > clock ? brought : clock, cache_row(table, slot));
                continue;
            }
            expected_row(node, row, brought > clock ? brought : clock, expected);
            if (!app_equal(app, row, expected, cache_row(table, slot), text, sizeof text)) {
                cluster_violation(cluster, "I2", "%s, clock %llu flushed, sees partition %u at clock %llu: %s",
                                  node->node.name, (unsigned long long)client->flushed, partition,
                                  (unsigned long long)clock, text);
                return;
            }
        }
    }
}

void cluster_check_node(struct cluster_node *node) {
    struct cluster *cluster = node->cluster;
    const struct client *client = &node->node.client;
    if (node->fate.gone) {
        return;
    }
    cluster_feed_check_node(node);
    cluster_strategy_offered(node);
    unsigned origins = 1 + (unsigned)(client->epoch - cluster->seen.first_epoch < BOUND_SLACK
                                          ? client->epoch - cluster->seen.first_epoch
                                          : BOUND_SLACK);
    uint64_t most = 1 + cluster->terms.staleness + (plan_is_there(&client->plan) ? client->plan.terms.window : 0) +
                    BOUND_SLACK + cluster->terms.local_steps;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        unsigned flushes = 0;
        for (unsigned r = 0; r < partition->retained_count; r++) {
            flushes += partition->retained[r].message.flush.piece == 0;
        }
        if (flushes > most * origins) {
            cluster_violation(cluster, "bound", "%s retains %u flushes of partition %u", node->node.name, flushes, p);
        }
        if (partition->waiting_count > 2 * most) {
            cluster_violation(cluster, "bound", "%s has %u pushes of partition %u waiting", node->node.name,
                              partition->waiting_count, p);
        }
    }
    check_committed(node, client->committed);
    if (node->node.reports.count > WIRE_PROGRESS_MAX) {
        cluster_violation(cluster, "bound", "%s has %u PROGRESS waiting", node->node.name, node->node.reports.count);
    }
}

static struct cluster_work *work_at(struct cluster *cluster, uint32_t shard, uint64_t clock) {
    uint64_t clocks = clock - cluster->drawn.first_clock;
    if (clocks > cluster->seen.work_clocks) {
        size_t shards = cluster->policy.shards;
        cluster->seen.works = memory_resized(cluster->seen.works, clocks * shards, sizeof *cluster->seen.works);
        memset(cluster->seen.works + cluster->seen.work_clocks * shards, 0,
               (clocks - cluster->seen.work_clocks) * shards * sizeof *cluster->seen.works);
        cluster->seen.work_clocks = clocks;
    }
    return &cluster->seen.works[(clocks - 1) * cluster->policy.shards + shard];
}

/* I6: a shard is worked on once in each clock. Another node may repeat the work only after the first one was lost, and
 * only in clocks after the restored one. */
static void check_shards(struct cluster_node *node, const struct cluster_set *set, actor_id origin, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    for (uint32_t s = 0; s < set->count; s++) {
        struct cluster_work *work = work_at(cluster, set->shards[s], clock);
        if (work->origin != ACTOR_NONE &&
            (cluster_plan_has(&cluster->seen.plan, work->origin) || clock <= cluster->seen.plan.terms.restore)) {
            cluster_violation(cluster, "I6", "%s works on shard %u in clock %llu, on which another node has worked",
                              node->node.name, set->shards[s], (unsigned long long)clock);
        }
        work->origin = origin;
    }
}

/* I2: every row that the set's items name has a state and is part of the flush. */
static void check_rows(const struct cluster_node *node, const struct cluster_set *set, uint64_t clock) {
    const struct app *app = &node->cluster->app;
    for (uint32_t s = 0; s < set->count; s += set->lazy ? 2 : 1) {
        const struct app_shard *shard = &app->shards[set->shards[s]];
        for (unsigned k = 0; k < shard->row_count; k++) {
            const struct app_row *row = &app->rows[shard->rows[k]];
            const struct cache_table *table = &node->node.cache.tables[row->table];
            int64_t slot = node->app.slots[shard->rows[k]];
            if (cache_stamps(table)[slot] == 0 || cache_named(table)[slot] == 0) {
                cluster_violation(node->cluster, "I2", "%s begins clock %llu without row %llu of table %u",
                                  node->node.name, (unsigned long long)clock, (unsigned long long)row->key, row->table);
                return;
            }
        }
    }
}

/* Checks I2, I3 and I6 when a worker begins a clock. */
void cluster_check_begin(struct cluster_node *node, const struct cluster_set *set, actor_id origin, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    const struct client *client = &node->node.client;
    uint64_t idle = cluster_strategy_idle(node, clock);
    uint64_t lag = idle > cluster->terms.staleness ? idle : cluster->terms.staleness;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (client->partitions[p].clock + 1 + lag < clock) {
            cluster_violation(cluster, "I3", "%s begins clock %llu with partition %u at clock %llu, staleness %u",
                              node->node.name, (unsigned long long)clock, p,
                              (unsigned long long)client->partitions[p].clock, cluster->terms.staleness);
        }
        if (client->partitions[p].restoring) {
            cluster_violation(cluster, "I2", "%s begins clock %llu while partition %u is being restored",
                              node->node.name, (unsigned long long)clock, p);
        }
    }
    uint64_t restore = client->plan.terms.restore;
    uint64_t settled = client->committed > restore ? client->committed : restore;
    if (clock > settled + 1 + cluster->terms.staleness + client->plan.terms.window + idle) {
        cluster_violation(cluster, "bound", "%s begins clock %llu, only clock %llu is committed", node->node.name,
                          (unsigned long long)clock, (unsigned long long)settled);
    }
    if (node->fate.fenced > client->epoch ||
        (node->fate.fenced == client->epoch && client->plan.epoch < node->fate.fenced)) {
        cluster_violation(cluster, "I6", "%s begins clock %llu after it has said that it stands still", node->node.name,
                          (unsigned long long)clock);
    }
    cluster->other_input.began[cluster_app_has_other(node, set)] = true;
    if (cluster->other_input.began[1] && (cluster->other_input.began[0] || cluster->other_input.unseen)) {
        cluster_violation(cluster, "I9", "%s begins clock %llu: two nodes that work have different input",
                          node->node.name, (unsigned long long)clock);
    }
    const struct controller *controller = &cluster->control.controller;
    if (cluster->control.running && controller->checkpoint.state == CHECKPOINT_ASK &&
        controller->plan.epoch == client->epoch && clock > controller->checkpoint.clock) {
        cluster_violation(cluster, "checkpoint",
                          "%s begins clock %llu, before all who are to write clock %llu have promised", node->node.name,
                          (unsigned long long)clock, (unsigned long long)controller->checkpoint.clock);
    }
    check_rows(node, set, clock);
    for (uint64_t c = clock - client->part.idle; c <= clock && client->epoch == cluster->seen.plan.epoch; c++) {
        check_shards(node, set, origin, c); /* of another epoch, the node was given up, and its work is void */
    }
    cluster->seen.begun = clock > cluster->seen.begun ? clock : cluster->seen.begun;
}
