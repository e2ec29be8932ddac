/* See cluster.h. First the nodes' hooks, then mistakes, then what is drawn from the seed, then the run. */
#include "tests/sim/cluster_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mistake_names[MISTAKES] = {"none",          "flush-without-rows", "flush-twice", "push-without-rows",
                                             "stale-worker",  "two-owners",         "two-servers", "deaf-server",
                                             "progress-twice"};

static const char CONTROLLER_ENDPOINT[] = "tcp://controller:7000";

static uint64_t draw(struct cluster *cluster) {
    return hash_mix(cluster->random++);
}

/* least..most, both included. */
static uint64_t draw_between(struct cluster *cluster, uint64_t least, uint64_t most) {
    return least + draw(cluster) % (most - least + 1);
}

static bool draw_one_in(struct cluster *cluster, unsigned many) {
    return draw(cluster) % many == 0;
}

/* ---- The app, in place of a process's threads ---- */

static void at_later(struct cluster_node *node, uint64_t after_us, void (*function)(void *context)) {
    sim_schedule(node->cluster->sim, node->machine, sim_now(node->cluster->sim) + after_us, function, node);
}

static void own_shard(struct cluster_node *node, unsigned shard) {
    node->shards = memory_resized(node->shards, node->shard_count + 1, sizeof *node->shards);
    node->shards[node->shard_count++] = shard;
    node->items += node->cluster->adder.shards[shard].items;
}

/* Adds the rows of every `step`th shard to the cache. */
static void add_rows(struct cluster_node *node, unsigned step) {
    struct cluster *cluster = node->cluster;
    for (unsigned s = 0; s < node->shard_count; s += step) {
        const struct adder_shard *shard = &cluster->adder.shards[node->shards[s]];
        for (unsigned k = 0; k < shard->touch_count; k++) {
            unsigned number = shard->touches[k].row;
            const struct adder_row *row = &cluster->adder.rows[number];
            if (node->slots[number] >= 0) {
                continue;
            }
            int64_t slot = cache_add(&node->node.cache, row->table, row->key);
            if (slot < 0) {
                cluster_violation(cluster, "app", "cache_add: %lld", (long long)slot);
                return;
            }
            node->slots[number] = slot;
            node->rows[row->table] = memory_resized(node->rows[row->table], (size_t)slot + 1, sizeof(unsigned));
            node->rows[row->table][slot] = number;
        }
    }
}

static void load_done(void *context) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (node->ended) {
        return;
    }
    node->slots = memory_resized(NULL, cluster->adder.row_count, sizeof *node->slots);
    memset(node->slots, 0xFF, cluster->adder.row_count * sizeof *node->slots);
    add_rows(node, node->lazy ? 2 : 1);
    double totals[WIRE_TOTALS] = {(double)node->items};
    totals[WIRE_TOTALS / 2] = node->number;
    node_loaded(&node->node, node->items, totals);
}

static void hook_load(void *context, const struct message *plan) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    const actor_id *owners = (const void *)plan->frames[2]->data;
    if (cluster->plan_shards == NULL) {
        cluster->plan_placement = buffer_hold(plan->frames[1]);
        cluster->plan_shards = buffer_hold(plan->frames[2]);
    }
    if (memcmp(cluster->plan_shards->data, plan->frames[2]->data, plan->frames[2]->size) != 0 ||
        memcmp(cluster->plan_placement->data, plan->frames[1]->data, plan->frames[1]->size) != 0) {
        cluster_violation(cluster, "I6", "%s goes by another plan of the same epoch", node->node.name);
    }
    for (unsigned s = 0; s < plan->plan.shards; s++) {
        bool wrong = cluster->options.mistake == MISTAKE_TWO_OWNERS && s == cluster->mistake_left % plan->plan.shards &&
                     node->number == cluster->mistake_left % cluster->node_count;
        if (owners[s] == node->id) {
            own_shard(node, s);
        } else if (wrong) {
            cluster->result->mistaken = true;
            own_shard(node, s);
        }
    }
    at_later(node, node->load_us, load_done);
}

/* Changes the cache's rows as half of the shards demand. */
static void compute_half(struct cluster_node *node, unsigned half) {
    struct adder *adder = &node->cluster->adder;
    struct adder_change *own = &node->own[node->clock % node->own_count];
    struct adder_change *now = &adder->scratch;
    adder_change_clear(adder, now);
    for (unsigned s = half; s < node->shard_count; s += 2) {
        adder_contribute(adder, node->shards[s], node->clock, now);
    }
    for (unsigned r = 0; r < adder->row_count; r++) {
        if (now->touched[r] == 0) {
            continue;
        }
        struct cache_table *table = &node->node.cache.tables[adder->rows[r].table];
        uint32_t slot = (uint32_t)node->slots[r];
        adder_apply(adder, r, now->elements, cache_row(table, slot));
        table->touched.base[slot] = 1;
        own->touched[r] = 1;
        for (unsigned e = 0; e < table->spec->width; e++) {
            own->elements[adder->rows[r].first + e] += now->elements[adder->rows[r].first + e];
        }
    }
}

static void compute_done(void *context) {
    struct cluster_node *node = context;
    struct error error = {0};
    if (node->ended) {
        return;
    }
    if (node->lazy) {
        node->lazy = false;
        add_rows(node, 1);
        if (client_subscribe(&node->node.client, &error) != 0) {
            cluster_violation(node->cluster, "app", "client_subscribe: %s", error.text);
        }
        node_wake(&node->node);
    }
    if (!client_subscribed(&node->node.client)) {
        at_later(node, 1000, compute_done);
        return;
    }
    compute_half(node, 1);
    for (uint32_t p = 0; p < node->node.client.partition_count; p++) {
        if (client_gather(&node->node.client, p, &error) != 0) {
            cluster_violation(node->cluster, "app", "client_gather: %s", error.text);
        }
    }
    node_computed(&node->node, node->items, sim_now(node->cluster->sim) - node->computed_us);
}

static void hook_compute(void *context, uint64_t clock) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    cluster_check_begin(node, clock);
    const double *totals = node->node.totals;
    if (totals[0] != (double)cluster->adder.items || totals[WIRE_TOTALS / 2] != cluster->node_count - 1 ||
        node->node.total_items != cluster->adder.items) {
        cluster_violation(cluster, "app", "%s began with totals %g and %g over %llu items", node->node.name, totals[0],
                          totals[WIRE_TOTALS / 2], (unsigned long long)node->node.total_items);
    }
    node->clock = clock;
    node->computed_us = sim_now(cluster->sim);
    adder_change_clear(&cluster->adder, &node->own[clock % node->own_count]);
    compute_half(node, 0);
    uint64_t duration = draw_between(cluster, node->compute_us / 2, node->compute_us * 3 / 2);
    at_later(node, draw_one_in(cluster, 40) ? 8 * duration : duration, compute_done);
}

static void evaluate_done(void *context) {
    struct cluster_node *node = context;
    if (node->ended) {
        return;
    }
    if (node->evaluate_stamp != node->node.client.stamp) {
        cluster_violation(node->cluster, "I2", "%s: the cache changed while clock %llu was evaluated", node->node.name,
                          (unsigned long long)node->clock);
    }
    double items = (double)node->items;
    struct wire_metric_sum sums[CLUSTER_METRICS] = {{.sum = cluster_objective(node->clock) * items, .weight = items},
                                                    {.sum = items, .weight = 1}};
    node_evaluated(&node->node, sums);
}

static void hook_evaluate(void *context, uint64_t clock) {
    struct cluster_node *node = context;
    if (clock != node->clock) {
        cluster_violation(node->cluster, "app", "%s evaluates clock %llu after clock %llu", node->node.name,
                          (unsigned long long)clock, (unsigned long long)node->clock);
    }
    node->evaluate_stamp = node->node.client.stamp;
    at_later(node, draw_between(node->cluster, 0, node->compute_us / 4), evaluate_done);
}

static void save_done(void *context) {
    struct cluster_node *node = context;
    if (!node->ended) {
        node_saved(&node->node, 0, "");
    }
}

static void hook_save(void *context) {
    struct cluster_node *node = context;
    struct cluster *cluster = node->cluster;
    if (++node->saves > 1) {
        cluster_violation(cluster, "app", "%s is asked to save twice", node->node.name);
    }
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        for (unsigned n = 0; n < cluster->node_count; n++) {
            for (unsigned s = 0; s < cluster->nodes[n].server_count; s++) {
                const struct server *server = &cluster->nodes[n].servers[s].server;
                if (server->partitions != NULL && server->partitions[p] != NULL &&
                    server->partitions[p]->clock != cluster->controller.final) {
                    cluster_violation(cluster, "I1", "the model is saved at clock %llu with partition %u at clock %llu",
                                      (unsigned long long)cluster->controller.final, p,
                                      (unsigned long long)server->partitions[p]->clock);
                }
            }
        }
    }
    at_later(node, draw_between(cluster, 0, 2 * cluster->heartbeat_ms * UINT64_C(1000)), save_done);
}

static void hook_end(void *context, int code, const char *text) {
    struct cluster_node *node = context;
    if (node->ended) {
        cluster_violation(node->cluster, "app", "%s ends twice", node->node.name);
    }
    node->ended = true;
    node->code = code;
    snprintf(node->text, sizeof node->text, "%s", text);
    sim_remove(node->cluster->sim, node->machine); /* the process leaves, and its servers with it */
}

static void controller_end(void *context, int code, const char *text) {
    struct cluster *cluster = context;
    cluster->controller_ended = true;
    cluster->code = code;
    snprintf(cluster->text, sizeof cluster->text, "%s", text);
    sim_remove(cluster->sim, CLUSTER_CONTROLLER);
}

/* ---- Mistakes ---- */

static bool mistake_due(struct cluster *cluster, enum mistake mistake) {
    if (cluster->options.mistake != mistake || cluster->result->mistaken) {
        return false;
    }
    if (cluster->mistake_left > 0) {
        cluster->mistake_left--;
        return false;
    }
    cluster->result->mistaken = true;
    return true;
}

static bool has_changes(const struct message *message) {
    for (unsigned f = 2; f < message->frame_count; f += 2) {
        for (size_t b = 0; b < message->frames[f]->size; b++) {
            if (message->frames[f]->data[b] != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Makes the server forget that it has this flush, and gives it once more. */
static void flush_again(struct server *server, actor_id from, struct message *message) {
    struct partition *partition = server->partitions[message->flush.partition];
    if (partition == NULL || partition->clock >= message->flush.clock) {
        return;
    }
    struct pending *pending = &partition->ring[message->flush.clock % (partition->job->staleness + 1)];
    for (unsigned o = 0; o < partition->origin_count; o++) {
        if (partition->origins[o].actor == message->flush.origin && pending->clock == message->flush.clock &&
            pending->delivered[o]) {
            pending->delivered[o] = 0;
            pending->delivered_count--;
            partition->origins[o].received = message->flush.clock - 1;
            server_receive(server, from, message);
        }
    }
}

/* ---- Actors, with the checks after each step ---- */

static void server_actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster_server *server = self;
    struct cluster *cluster = server->node->cluster;
    if (message->type == MESSAGE_FLUSH && cluster->options.mistake != MISTAKE_NONE) {
        const struct partition *partition =
            server->server.partitions != NULL ? server->server.partitions[message->flush.partition] : NULL;
        bool taken = partition != NULL && has_changes(message) && message->flush.clock == partition->clock + 1;
        if (taken && mistake_due(cluster, MISTAKE_FLUSH_WITHOUT_ROWS)) {
            message_close(message);
        } else if (cluster->options.mistake == MISTAKE_DEAF_SERVER &&
                   (cluster->result->mistaken || mistake_due(cluster, MISTAKE_DEAF_SERVER))) {
            return;
        }
        bool again = taken && cluster->adder.job.tables[0].mode == AML_ADD &&
                     ((const struct wire_directory_entry *)(const void *)message->frames[0]->data)->table == 0 &&
                     partition->ring[message->flush.clock % (partition->job->staleness + 1)].delivered_count + 1 <
                         partition->origin_count &&
                     mistake_due(cluster, MISTAKE_FLUSH_TWICE);
        server_receive(&server->server, from, message);
        if (again) {
            flush_again(&server->server, from, message);
        }
    } else {
        server_receive(&server->server, from, message);
    }
    if (message->type == MESSAGE_PLAN && cluster->node_count > 1 && server->server.partition_count > 0 &&
        server->server.partitions[0] == NULL && mistake_due(cluster, MISTAKE_TWO_SERVERS)) {
        server->server.partitions[0] = partition_open(&cluster->adder.job, 0, server->server.partition_count, NULL);
    }
    cluster_check_server(server);
}

static void server_actor_timer(void *self) {
    server_timer(&((struct cluster_server *)self)->server);
}

static void controller_actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster *cluster = self;
    struct controller *controller = &cluster->controller;
    controller_receive(controller, from, message);
    for (unsigned m = 0; m < controller->member_count && message->type == MESSAGE_PROGRESS; m++) {
        struct member *member = &controller->members[m];
        if (member->node.actor == from && member->origin && member->progress == message->progress.clock &&
            member->progress > controller->completed && message->progress.items > 0 &&
            mistake_due(cluster, MISTAKE_PROGRESS_TWICE)) {
            member->progress--;
            controller_receive(controller, from, message);
        }
    }
}

static void controller_actor_timer(void *self) {
    controller_timer(&((struct cluster *)self)->controller);
}

static void node_actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster_node *node = self;
    if (node->cluster->options.mistake == MISTAKE_PUSH_WITHOUT_ROWS && message->type == MESSAGE_PUSH &&
        message->push.request == 0 && has_changes(message) &&
        message->push.from_clock <= node->node.client.partitions[message->push.partition].clock &&
        message->push.clock > node->node.client.partitions[message->push.partition].clock &&
        mistake_due(node->cluster, MISTAKE_PUSH_WITHOUT_ROWS)) {
        message_close(message);
    }
    node_receive(&node->node, from, message);
    cluster_check_node(node);
}

static void node_actor_timer(void *self) {
    struct cluster_node *node = self;
    node_timer(&node->node);
    cluster_check_node(node);
}

static void node_begin(void *context) {
    struct cluster_node *node = context;
    node->started = true;
    node_start(&node->node);
}

/* ---- What is drawn from the seed ---- */

static void draw_job(struct cluster *cluster) {
    struct job_terms *terms = &cluster->terms;
    memcpy(terms->app, "adder", sizeof "adder");
    terms->digest = draw(cluster);
    terms->staleness = (uint32_t)(draw_one_in(cluster, 16) ? draw_between(cluster, 4, 8) : draw(cluster) % 4);
    terms->clocks_per_iteration = (uint32_t)draw_between(cluster, 1, 3);
    terms->iterations = draw_between(cluster, 1, 5);
    terms->tolerance_iterations = (uint32_t)draw_between(cluster, 1, 2);
    unsigned stop = (unsigned)(draw(cluster) % 10);
    if (stop == 0 || stop == 1) {
        terms->seconds = (double)draw_between(cluster, 1, 3000) / 1000;
    } else if (stop == 2 || stop == 3) {
        terms->tolerance = ldexp(1.0, -(int)draw_between(cluster, 1, 8));
    }
    if (stop == 0 || stop == 2) {
        terms->iterations = 0;
    } else if (stop == 1 || stop == 3) {
        terms->iterations += 3;
    }
    if (cluster->options.campaign == CAMPAIGN_MISSING) { /* long enough that the fault comes first */
        terms->seconds = terms->tolerance = 0;
        terms->iterations = 1000 * 1000;
    }
}

static unsigned draw_nodes(struct cluster *cluster) {
    /* One node alone gets nothing pushed back; that one of several is missing takes two. */
    unsigned least = cluster->options.campaign == CAMPAIGN_FAULTS && draw_one_in(cluster, 10) ? 1 : 2;
    return (unsigned)draw_between(cluster, least, least == 1 ? 2 : draw_one_in(cluster, 4) ? CLUSTER_NODES_MAX : 8);
}

static void draw_cluster(struct cluster *cluster) {
    cluster->node_count = draw_nodes(cluster);
    cluster->reliable = (unsigned)draw_between(cluster, 1, draw_one_in(cluster, 2) ? cluster->node_count : 2);
    cluster->policy.stage = draw_one_in(cluster, 3) ? STAGE_TRADITIONAL : STAGE_1;
    cluster->policy.partitions =
        (uint32_t)draw_between(cluster, 1, draw_one_in(cluster, 4) ? CLUSTER_PARTITIONS_MAX : 8);
    cluster->policy.shards = (uint32_t)draw_between(cluster, 16, 128);
    cluster->heartbeat_ms = (uint32_t)draw_between(cluster, 100, 700);
    cluster->timeout_ms = (uint32_t)draw_between(cluster, 4000, 12000);
    uint64_t compute_us = UINT64_C(1000) << (draw(cluster) % 9);
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node *node = &cluster->nodes[n];
        node->cluster = cluster;
        node->number = n;
        node->machine = n + 1;
        node->id = (draw(cluster) | (UINT64_C(1) << 40)) & ~(uint64_t)ACTOR_PART_MAX;
        node->tier = n < cluster->reliable ? TIER_RELIABLE : TIER_TRANSIENT;
        node->threads = (unsigned)draw_between(cluster, n > 0 && draw_one_in(cluster, 8) ? 0 : 1, 4);
        node->server_count = (unsigned)draw_between(cluster, node->tier == TIER_TRANSIENT ? 0 : 1, CLUSTER_SERVERS_MAX);
        node->start_us = sim_now(cluster->sim) + draw_between(cluster, 0, 500 * 1000);
        node->load_us = draw_between(cluster, 0, draw_one_in(cluster, 10) ? 6 * 1000 * 1000 : 200 * 1000);
        node->compute_us = draw_between(cluster, compute_us / 2, compute_us * 2);
        node->lazy = draw_one_in(cluster, 4);
    }
    if (cluster->policy.stage == STAGE_TRADITIONAL && cluster->nodes[0].server_count == 0) {
        cluster->nodes[0].server_count = 1;
    }
}

static struct sim_config draw_network(struct cluster *cluster) {
    static const uint64_t latencies_us[] = {50, 500, 5000, 50 * 1000};
    uint64_t latency_us = latencies_us[draw(cluster) % 4];
    return (struct sim_config){.nodes = CLUSTER_NODES_MAX + 1,
                               .latency_min_us = latency_us / 2,
                               .latency_max_us = 4 * latency_us,
                               .tail_per_million = (uint32_t)(draw(cluster) % 3 * 5000),
                               .tail_max_us = 300 * 1000,
                               .bytes_per_second_min = 4 * 1000 * 1000,
                               .bytes_per_second_max = 1000 * 1000 * 1000,
                               .hold_max_us = 1000 * 1000,
                               .reconnect_max_us = draw_one_in(cluster, 2) ? 20 * 1000 : 300 * 1000,
                               .trace = cluster->options.trace};
}

static struct fault *fault_add(struct cluster *cluster, enum fault_kind kind, uint64_t at_us, uint64_t until_us) {
    struct fault *fault = &cluster->faults[cluster->fault_count++];
    *fault = (struct fault){.cluster = cluster, .kind = kind, .at_us = at_us, .until_us = until_us};
    fault->machine = (unsigned)(draw(cluster) % (cluster->node_count + 1));
    fault->other = draw_one_in(cluster, 2) ? SIM_ALL_NODES : (int)(draw(cluster) % (cluster->node_count + 1));
    for (unsigned m = 0; m <= cluster->node_count; m++) {
        fault->sides[m] = (unsigned char)(draw(cluster) % 3);
    }
    cluster->calm_us = until_us > cluster->calm_us ? until_us : cluster->calm_us;
    return fault;
}

/* Pauses and separations follow one another with time to breathe, so that no silence reaches the timeout. */
static void draw_faults(struct cluster *cluster) {
    uint64_t timeout_us = cluster->timeout_ms * UINT64_C(1000);
    uint64_t begin_us = sim_now(cluster->sim);
    unsigned breaks = draw_one_in(cluster, 3) ? 0 : (unsigned)draw_between(cluster, 1, 12);
    for (unsigned b = 0; b < breaks; b++) {
        uint64_t at_us = begin_us + draw_between(cluster, 0, 6 * 1000 * 1000);
        fault_add(cluster, FAULT_BREAK, at_us, at_us);
    }
    unsigned longer = draw_one_in(cluster, 3) ? 0 : (unsigned)draw_between(cluster, 1, 3);
    uint64_t at_us = begin_us + draw_between(cluster, 0, 4 * 1000 * 1000);
    for (unsigned f = 0; f < longer; f++) {
        uint64_t most_us = timeout_us * (draw_one_in(cluster, 2) ? 4 : 1) / 10;
        uint64_t until_us = at_us + draw_between(cluster, 1000, most_us);
        fault_add(cluster, draw_one_in(cluster, 2) ? FAULT_PAUSE : FAULT_SEPARATE, at_us, until_us);
        at_us = until_us + timeout_us / 2 + draw_between(cluster, 0, 2 * 1000 * 1000);
    }
}

/* One machine, or the way between two, is missing for longer than anyone waits. */
static void draw_missing(struct cluster *cluster) {
    uint64_t timeout_us = cluster->timeout_ms * UINT64_C(1000);
    uint64_t at_us = sim_now(cluster->sim) + draw_between(cluster, 0, 4 * 1000 * 1000);
    uint64_t until_us = at_us + draw_between(cluster, 5 * timeout_us / 2, 4 * timeout_us);
    unsigned machine = (unsigned)(draw(cluster) % (cluster->node_count + 1));
    unsigned kind = (unsigned)(draw(cluster) % 4);
    if (kind == 3) { /* one node does not reach the server on node 0, the controller reaches both */
        struct fault *cut = fault_add(cluster, FAULT_SEPARATE, at_us, until_us + 15 * 1000 * 1000);
        memset(cut->sides, 0, sizeof cut->sides);
        cut->sides[1] = 1;
        cut->sides[draw_between(cluster, 2, cluster->node_count)] = 2;
        cluster->missing = 0;
        cluster->policy.partitions = CLUSTER_PARTITIONS_MAX; /* so that it serves some, whoever registers first */
        return;
    }
    struct fault *fault = fault_add(cluster,
                                    kind == 0   ? FAULT_REMOVE
                                    : kind == 1 ? FAULT_PAUSE
                                                : FAULT_SEPARATE,
                                    at_us, until_us);
    fault->machine = machine;
    memset(fault->sides, 2, sizeof fault->sides);
    fault->sides[machine] = 1;
    cluster->missing = machine == CLUSTER_CONTROLLER ? (int)cluster->node_count : (int)machine - 1;
    cluster->removed = kind == 0;
}

static void fault_happen(void *context) {
    const struct fault *fault = context;
    switch (fault->kind) {
    case FAULT_BREAK:
        sim_break(fault->cluster->sim, fault->machine, fault->other);
        break;
    case FAULT_PAUSE:
        sim_pause(fault->cluster->sim, fault->machine, fault->until_us);
        break;
    case FAULT_SEPARATE:
        sim_separate(fault->cluster->sim, fault->sides, fault->until_us);
        break;
    case FAULT_REMOVE:
        sim_remove(fault->cluster->sim, fault->machine);
        break;
    }
}

/* ---- Putting it together ---- */

static void open_controller(struct cluster *cluster) {
    struct error error = {0};
    struct controller_options options = {.reliable = cluster->reliable,
                                         .transient = cluster->node_count - cluster->reliable,
                                         .policy = cluster->policy,
                                         .heartbeat_ms = cluster->heartbeat_ms,
                                         .timeout_ms = cluster->timeout_ms,
                                         .start_timeout_ms = 2 * cluster->timeout_ms,
                                         .end = controller_end,
                                         .context = cluster};
    struct actor actor = {.receive = controller_actor_receive, .timer = controller_actor_timer, .self = cluster};
    sim_actor(cluster->sim, CLUSTER_CONTROLLER, ACTOR_CONTROLLER, CONTROLLER_ENDPOINT, actor, &cluster->controller_io);
    if (controller_init(&cluster->controller, cluster->controller_io, &options, &error) != 0) {
        cluster_violation(cluster, "app", "controller_init: %s", error.text);
    }
}

static void open_node(struct cluster *cluster, struct cluster_node *node) {
    static const struct wire_metric metrics[CLUSTER_METRICS] = {{.name = "objective", .kind = 1, .evaluated = 1},
                                                                {.name = "items_seen", .kind = 0}};
    const struct job *job = &cluster->adder.job;
    if (cluster->options.mistake == MISTAKE_STALE_WORKER && node->number == 0) {
        node->job = *job;
        node->job.staleness += CLUSTER_STALE_EXTRA;
        job = &node->job;
        cluster->result->mistaken = true;
    }
    struct node_options options = {.self = node->id,
                                   .controller = CONTROLLER_ENDPOINT,
                                   .registration = {.process_id = 1000 + node->number,
                                                    .tier = (uint8_t)node->tier,
                                                    .threads = node->threads,
                                                    .job = cluster->terms},
                                   .servers = node->endpoints,
                                   .server_count = node->server_count,
                                   .metrics = metrics,
                                   .metric_count = CLUSTER_METRICS,
                                   .timeout_ms = 2 * cluster->timeout_ms,
                                   .hooks = {.load = hook_load,
                                             .compute = hook_compute,
                                             .evaluate = hook_evaluate,
                                             .save = hook_save,
                                             .end = hook_end,
                                             .context = node}};
    snprintf(options.registration.host, sizeof options.registration.host, "host-%u", node->number);
    if (node->number % 3 != 0) {
        snprintf(options.registration.name, sizeof options.registration.name, "worker-%u", node->number);
    }
    node->own_count = cluster->terms.staleness + 2 + CLUSTER_STALE_EXTRA;
    node->own = memory_zeroed(node->own_count, sizeof *node->own);
    for (unsigned c = 0; c < node->own_count; c++) {
        adder_change_open(&cluster->adder, &node->own[c]);
    }
    for (unsigned s = 0; s < node->server_count; s++) {
        struct cluster_server *server = &node->servers[s];
        struct io *io;
        node->endpoints[s].actor = actor_of_part(node->id, s + 1);
        snprintf(node->endpoints[s].endpoint, WIRE_ENDPOINT_MAX, "tcp://host-%u:%u", node->number, 7001 + s);
        server->node = node;
        sim_actor(cluster->sim, node->machine, node->endpoints[s].actor, node->endpoints[s].endpoint,
                  (struct actor){.receive = server_actor_receive, .timer = server_actor_timer, .self = server}, &io);
        server_init(&server->server, io, node->endpoints[s].actor, &cluster->adder.job);
    }
    sim_actor(cluster->sim, node->machine, node->id, "",
              (struct actor){.receive = node_actor_receive, .timer = node_actor_timer, .self = node}, &node->io);
    node_init(&node->node, node->io, &options, job);
    node->node.client.row_state = cluster_check_row_state;
    node->node.client.context = node;
    sim_schedule(cluster->sim, node->machine, node->start_us, node_begin, node);
}

static void cluster_open(struct cluster *cluster) {
    cluster->random = hash_mix(cluster->options.seed ^ 0xC105);
    cluster->mistake_left = draw(cluster) % 8;
    struct sim_config network = draw_network(cluster);
    cluster->sim = sim_open(cluster->options.seed, &network);
    draw_job(cluster);
    draw_cluster(cluster);
    if (cluster->options.campaign == CAMPAIGN_FAULTS) {
        draw_faults(cluster);
    } else {
        draw_missing(cluster);
    }
    adder_open(&cluster->adder, cluster->options.seed, cluster->policy.shards, cluster->terms.staleness);
    cluster->worked = memory_zeroed(cluster->policy.shards, sizeof *cluster->worked);
    open_controller(cluster);
    for (unsigned n = 0; n < cluster->node_count; n++) {
        open_node(cluster, &cluster->nodes[n]);
    }
    for (unsigned f = 0; f < cluster->fault_count; f++) { /* on a machine of its own: faults happen in time */
        sim_schedule(cluster->sim, CLUSTER_NODES_MAX, cluster->faults[f].at_us, fault_happen, &cluster->faults[f]);
    }
}

static void cluster_close(struct cluster *cluster) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        struct cluster_node *node = &cluster->nodes[n];
        for (unsigned s = 0; s < node->server_count; s++) {
            server_close(&node->servers[s].server);
        }
        node_close(&node->node);
        for (unsigned c = 0; c < node->own_count; c++) {
            adder_change_close(&node->own[c]);
        }
        for (unsigned t = 0; t < ADDER_TABLES_MAX; t++) {
            free(node->rows[t]);
        }
        free(node->own);
        free(node->slots);
        free(node->shards);
    }
    controller_close(&cluster->controller);
    sim_close(cluster->sim);
    adder_close(&cluster->adder);
    buffer_drop(cluster->plan_shards);
    buffer_drop(cluster->plan_placement);
    free(cluster->worked);
}

/* ---- The run ---- */

static bool cluster_ended(const struct cluster *cluster) {
    bool controller_gone = cluster->removed && cluster->missing == (int)cluster->node_count;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        if (!cluster->nodes[n].ended && !(cluster->removed && cluster->missing == (int)n)) {
            return false;
        }
    }
    return cluster->controller_ended || controller_gone;
}

/* I8: how long the job may take after the last fault. */
static uint64_t deadline_us(const struct cluster *cluster) {
    uint64_t slowest_us = 0;
    uint64_t load_us = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = &cluster->nodes[n];
        slowest_us = node->compute_us > slowest_us ? node->compute_us : slowest_us;
        load_us = node->load_us > load_us ? node->load_us : load_us;
    }
    uint64_t calm_us = cluster->calm_us > sim_now(cluster->sim) ? cluster->calm_us : sim_now(cluster->sim);
    if (cluster->options.campaign == CAMPAIGN_MISSING) {
        return calm_us + 5 * cluster->timeout_ms * UINT64_C(1000);
    }
    uint64_t clocks =
        (cluster->terms.iterations > 0 ? cluster->terms.iterations : 12) * cluster->terms.clocks_per_iteration;
    return calm_us + load_us + (uint64_t)(cluster->terms.seconds * 1e6) + 20 * 1000 * 1000 +
           clocks * (14 * slowest_us + 2 * 1000 * 1000);
}

bool cluster_run(const struct cluster_options *options, struct cluster_result *result) {
    struct cluster *cluster = memory_zeroed(1, sizeof *cluster);
    *result = (struct cluster_result){0};
    cluster->options = *options;
    cluster->result = result;
    cluster_open(cluster);
    uint64_t deadline = deadline_us(cluster);
    uint64_t steps = 0;
    while (result->violation[0] == '\0' && !cluster_ended(cluster)) {
        if (!sim_step(cluster->sim) || sim_now(cluster->sim) > deadline || ++steps > CLUSTER_STEPS_MAX) {
            cluster_violation(cluster, "I8", "not ended after %llu steps, controller in phase %u at clock %llu",
                              (unsigned long long)steps, cluster->controller.phase,
                              (unsigned long long)cluster->controller.completed);
        }
    }
    if (result->violation[0] == '\0') {
        if (options->campaign == CAMPAIGN_FAULTS) {
            cluster_check_good_end(cluster);
        } else {
            cluster_check_bad_end(cluster);
        }
    }
    result->virtual_us = sim_now(cluster->sim);
    result->statistics = *sim_statistics(cluster->sim);
    result->clocks = cluster->controller.completed;
    result->nodes = cluster->node_count;
    if (result->statistics.refused > 0) {
        cluster_violation(cluster, "wire", "the decoder refused %llu messages",
                          (unsigned long long)result->statistics.refused);
    }
    cluster_close(cluster);
    free(cluster);
    return result->violation[0] == '\0';
}
