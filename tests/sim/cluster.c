/* See cluster.h. Draws the job from the seed, opens the actors with the checks after each step, and runs the job. */
#include "tests/sim/cluster_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECOND_US = 1000 * 1000,
    SAVES_FAIL_MAX = 3,
    PHASES_MAX = 4,
    LARGE_BY_CHANCE = 500 /* nodes, in other campaigns */
};

static const uint64_t SAVE_SALT = UINT64_C(0x534156454D4F4445);

const char *const campaign_names[CAMPAIGNS] = {"faults", "missing", "elastic", "mad", "uneven"};
const char *const app_names[APPS] = {"adder", "lda"};

static const char CONTROLLER_ENDPOINT[] = "tcp://controller:7000";

uint64_t cluster_draw(struct cluster *cluster) {
    return hash_mix(cluster->random++);
}

uint64_t cluster_between(struct cluster *cluster, uint64_t least, uint64_t most) {
    return most <= least ? least : least + cluster_draw(cluster) % (most - least + 1);
}

bool cluster_one_in(struct cluster *cluster, unsigned many) {
    return cluster_draw(cluster) % many == 0;
}

/* ---- Nodes ---- */

struct cluster_node *cluster_node_of(const struct cluster *cluster, actor_id actor) {
    int64_t number = index_map_find(&cluster->node_index, actor_node(actor));
    return number == INDEX_NONE ? NULL : cluster->nodes[number];
}

bool cluster_node_lives(const struct cluster_node *node) {
    return !node->fate.gone && node->fate.leave_us == 0 && node->node.contact.heartbeat_ms != 0;
}

void cluster_not_calm(struct cluster *cluster, uint64_t until_us) {
    cluster->faults.calm_us = until_us > cluster->faults.calm_us ? until_us : cluster->faults.calm_us;
}

/* Whether the remaining nodes have a reliable replica of every partition; in stage transient, whether a node
 * remains. */
static bool replicas_left(const struct cluster *cluster) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct cluster_node *node = cluster->nodes[n];
        bool keeps =
            cluster->options.transient ? node->threads > 0 && node->tier != TIER_FEEDER : node->tier == TIER_RELIABLE;
        if (!node->fate.gone && keeps) {
            return true;
        }
    }
    return false;
}

void cluster_kill(struct cluster_node *node) {
    struct cluster *cluster = node->cluster;
    if (node->fate.gone) {
        return;
    }
    node->fate.gone = true;
    cluster->result->counts.kills++;
    cluster->faults.may_fail = cluster->faults.may_fail ||
                               (node->tier == TIER_RELIABLE && !cluster->options.transient) || !replicas_left(cluster);
    node->pulse.gone_us = sim_now(cluster->sim);
    if (hash_mix(cluster->options.seed ^ node->id) % 2 == 0) {
        sim_end(cluster->sim, node->machine);
    } else {
        sim_remove(cluster->sim, node->machine);
    }
    cluster_not_calm(cluster, sim_now(cluster->sim));
}

/* ---- Actors, with the checks after each step ---- */

/* Returns how many pieces of the message's flush the server has. */
static uint32_t pieces_here(const struct cluster_server *server, const struct message *message) {
    const struct partition *partition =
        message->type == MESSAGE_FLUSH && message->flush.partition < server->server.partition_count
            ? server->server.replicas[message->flush.partition].partition
            : NULL;
    return partition != NULL ? partition_pieces(partition, message->flush.origin, message->flush.clock) : 0;
}

static void server_receive_now(struct cluster_server *server, actor_id from, struct message *message) {
    struct cluster *cluster = server->node->cluster;
    struct undo_skipped kept;
    cluster_schedule_see(cluster, server->node, from, message);
    if (server->node->fate.gone || !cluster_mad_server(server->node, message) ||
        !cluster_mistake_server(server, from, message)) {
        return;
    }
    cluster_mad_peer(server->node, from, message);
    cluster_mistake_keep_row(server, message, &kept);
    const struct relay before = server->server.relay;
    struct relay relayed;
    cluster_mistake_keep_relayed(server, message, &relayed);
    cluster_check_ring(cluster, message);
    uint32_t pieces = pieces_here(server, message);
    server_receive(&server->server, from, message);
    bool taken = pieces_here(server, message) > pieces;
    cluster->result->counts.ring.pieces += taken;
    if (taken && cluster_mistake_again(server, message)) {
        server_receive(&server->server, from, message);
    }
    cluster_mistake_put_relayed(server, &relayed);
    cluster->result->counts.ring.sums += server->server.relay.sums_taken - before.sums_taken;
    cluster->result->counts.ring.overlaps += server->server.relay.sums_overlapped - before.sums_overlapped;
    cluster->result->counts.ring.pushes += message->type == MESSAGE_PUSH;
    cluster_mistake_put_row(server, &kept);
    cluster_strategy_server(server);
    cluster_check_server(server);
}

static void server_receive_delayed(void *context) {
    struct cluster_server *server = context;
    if (server->node->fate.gone || server->delayed_count == 0) {
        return;
    }
    struct delayed next = server->delayed[0];
    server->delayed_count--;
    memmove(server->delayed, server->delayed + 1, server->delayed_count * sizeof *server->delayed);
    server_receive_now(server, next.from, &next.message);
    message_close(&next.message);
}

/* Receives a message; a slow server handles it later, in order. */
static void server_actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster_server *server = self;
    struct cluster *cluster = server->node->cluster;
    if (server->node->fate.gone) {
        return;
    }
    uint64_t due_us = sim_now(cluster->sim) + cluster_uneven_serve_us(server->node);
    if (server->delayed_count == 0 && due_us == sim_now(cluster->sim)) {
        server_receive_now(server, from, message);
        return;
    }
    server->delayed = memory_resized(server->delayed, server->delayed_count + 1, sizeof *server->delayed);
    server->delayed[server->delayed_count++] = (struct delayed){.from = from, .message = message_share(message)};
    server->delayed_until_us = due_us > server->delayed_until_us ? due_us : server->delayed_until_us;
    sim_schedule(cluster->sim, server->node->machine, server->delayed_until_us, server_receive_delayed, server);
}

static void server_actor_timer(void *self) {
    struct cluster_server *server = self;
    if (!server->node->fate.gone) {
        server_timer(&server->server);
        cluster_check_server(server);
    }
}

static void node_actor_receive(void *self, actor_id from, struct message *message) {
    struct cluster_node *node = self;
    if (node->fate.gone) {
        return;
    }
    cluster_schedule_see(node->cluster, node, from, message);
    if (node->fate.gone || !cluster_mad_node(node, from, message)) {
        return;
    }
    cluster_mad_peer(node, from, message);
    cluster_mistake_node(node, message);
    cluster_strategy_receive(node, from, message);
    if (cluster_feed_mistake_node(node, message)) {
        node_receive(&node->node, from, message);
    }
    cluster_check_node(node);
}

static void node_actor_timer(void *self) {
    struct cluster_node *node = self;
    if (!node->fate.gone) {
        node_timer(&node->node);
        cluster_check_node(node);
    }
}

static void node_begin(void *context) {
    struct cluster_node *node = context;
    if (!node->fate.gone) {
        node_start(&node->node);
    }
}

static void open_servers(struct cluster_node *node) {
    struct cluster *cluster = node->cluster;
    for (unsigned s = 0; s < node->server_count; s++) {
        struct cluster_server *server = &node->servers[s];
        struct server_hooks hooks = cluster_disk_hooks(server);
        struct io *io;
        node->endpoints[s].actor = actor_of_part(node->id, s + 1);
        snprintf(node->endpoints[s].endpoint, WIRE_ENDPOINT_MAX, "tcp://host-%u:%u", node->number, 7001 + s);
        server->node = node;
        sim_actor(cluster->sim, node->machine, node->endpoints[s].actor, node->endpoints[s].endpoint,
                  (struct actor){.receive = server_actor_receive, .timer = server_actor_timer, .self = server}, &io);
        server_init(&server->server, io, node->endpoints[s].actor, &cluster->app.job, &hooks);
    }
}

/* Returns how many bytes of rows a node requests at a time: one row of each partition, a few, or all. */
static size_t ask_bytes(const struct cluster *cluster) {
    static const size_t bytes[] = {1, 512, CLIENT_ASK_BYTES};
    return bytes[hash_mix(cluster->options.seed ^ 0xA5C) % (sizeof bytes / sizeof *bytes)];
}

static void open_node(struct cluster_node *node) {
    static const struct wire_metric metrics[CLUSTER_METRICS] = {
        [METRIC_OBJECTIVE] = {.name = "objective", .kind = 1, .evaluated = 1},
        [METRIC_ITEMS] = {.name = "items_seen", .kind = 0},
        [METRIC_FIGURES] = {.name = "figures", .kind = 0},
        [METRIC_EVALUATED] = {.name = "shards", .kind = 0, .evaluated = 1},
        [METRIC_LAST] = {.name = "last_shards", .kind = 0, .evaluated = 1}};
    struct cluster *cluster = node->cluster;
    const struct job *job = &cluster->app.job;
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
                                                    .threads_max = cluster_feed_threads_max(node),
                                                    .job = cluster->terms},
                                   .servers = node->endpoints,
                                   .server_count = node->server_count,
                                   .pulse = &node->pulse.endpoint,
                                   .lots = cluster->drawn.lots,
                                   .fetches = cluster->drawn.fetches,
                                   .fetch_piece = hash_mix(cluster->options.seed ^ 0x91EC) % 2 == 0 ? 64 : 512,
                                   .feed_credit = cluster_feed_credit(cluster),
                                   .metrics = metrics,
                                   .metric_count = CLUSTER_METRICS,
                                   .timeout_ms = cluster->drawn.patience_ms,
                                   .patience_ms = cluster->drawn.patience_ms,
                                   .hooks = cluster_app_hooks(node)};
    snprintf(options.registration.host, sizeof options.registration.host, "host-%u", node->number);
    cluster_groups_register(node, &options.registration);
    if (node->number % 3 != 0) {
        snprintf(options.registration.name, sizeof options.registration.name, "worker-%u", node->number);
    }
    open_servers(node);
    cluster_pulse_open(node);
    sim_actor(cluster->sim, node->machine, node->id, "",
              (struct actor){.receive = node_actor_receive, .timer = node_actor_timer, .self = node}, &node->io);
    node_init(&node->node, node->io, &options, job);
    node->node.client.asking.bytes = ask_bytes(cluster);
    cluster_app_open(node);
}

/* Whether the node reads other input. Depends on the machine: a restarted process reads the same input again. */
static bool reads_other_input(const struct cluster *cluster, const struct cluster_node *node) {
    unsigned first = CLUSTER_FIRST_NODE + cluster->drawn.initial_reliable + cluster->drawn.initial_transient;
    return cluster->other_input.who == OTHER_INPUT_AT_START
               ? node->machine == CLUSTER_FIRST_NODE + 1
               : cluster->other_input.who == OTHER_INPUT_JOINS && node->machine >= first && node->machine % 2 == 0;
}

struct cluster_node *cluster_node_add(struct cluster *cluster, enum node_tier tier, unsigned machine,
                                      uint64_t after_us) {
    if (machine == 0 && cluster->machine_count == CLUSTER_MACHINES) {
        return NULL;
    }
    struct cluster_node *node = memory_zeroed(1, sizeof *node);
    bool elastic = cluster->policy.stage != STAGE_TRADITIONAL;
    bool first = cluster->node_count == 0;
    node->cluster = cluster;
    node->number = cluster->node_count;
    node->machine = machine != 0 ? machine : cluster->machine_count++;
    node->group = cluster->groups.joins;
    for (unsigned n = 0; machine != 0 && n < cluster->node_count; n++) { /* a restarted process */
        node->group = cluster->nodes[n]->machine == machine ? cluster->nodes[n]->group : node->group;
    }
    node->id = (cluster_draw(cluster) | (UINT64_C(1) << 40)) & ~(uint64_t)ACTOR_PART_MAX;
    node->tier = tier;
    node->threads =
        (unsigned)cluster_between(cluster, cluster->node_count > 1 && cluster_one_in(cluster, 8) ? 0 : 1, 4);
    node->threads += node->tier == TIER_FEEDER && node->threads == 0 ? 1 : 0;
    unsigned least = first || elastic || tier != TIER_TRANSIENT ? 1 : 0;
    node->server_count = (unsigned)cluster_between(cluster, least, CLUSTER_SERVERS_MAX);
    node->start_us = sim_now(cluster->sim) + after_us;
    node->load_us = cluster_between(cluster, 0, cluster_one_in(cluster, 10) ? 6 * SECOND_US : 200 * 1000);
    node->compute_us = cluster_between(cluster, cluster->drawn.compute_us / 2, cluster->drawn.compute_us * 2);
    node->input.lazy = cluster_one_in(cluster, 4) && cluster->drawn.lots == 0;
    node->input.conceals = node->number > 0 && cluster_mistake_due(cluster, MISTAKE_INPUT_CONCEALED);
    node->input.other = node->input.conceals || reads_other_input(cluster, node);
    cluster_uneven_node(node);
    uint64_t slowest_us = node->compute_us * (node->speed.slowness > 1 ? node->speed.slowness : 1);
    cluster->drawn.slowest_us = slowest_us > cluster->drawn.slowest_us ? slowest_us : cluster->drawn.slowest_us;
    cluster->drawn.load_us = node->load_us > cluster->drawn.load_us ? node->load_us : cluster->drawn.load_us;
    cluster->nodes = memory_resized(cluster->nodes, cluster->node_count + 1, sizeof(struct cluster_node *));
    index_map_add(&cluster->node_index, node->id, cluster->node_count);
    cluster->nodes[cluster->node_count++] = node;
    open_node(node);
    sim_schedule(cluster->sim, node->machine, node->start_us, node_begin, node);
    return node;
}

static void close_node(struct cluster_node *node) {
    for (unsigned s = 0; s < node->server_count; s++) {
        struct cluster_server *server = &node->servers[s];
        for (unsigned d = 0; d < server->delayed_count; d++) {
            message_close(&server->delayed[d].message);
        }
        free(server->delayed);
        server_close(&server->server);
    }
    node_close(&node->node);
    cluster_pulse_close(node);
    cluster_app_close(node);
    free(node);
}

/* ---- What is drawn from the seed ---- */

static void draw_terms(struct cluster *cluster) {
    struct job_terms *terms = &cluster->terms;
    bool elastic = cluster->options.campaign == CAMPAIGN_ELASTIC;
    snprintf(terms->app, sizeof terms->app, "%s", app_names[cluster->options.app]);
    terms->digest = cluster_draw(cluster);
    terms->staleness =
        (uint32_t)(cluster_one_in(cluster, 16) ? cluster_between(cluster, 4, 8) : cluster_draw(cluster) % 4);
    terms->clocks_per_iteration = (uint32_t)cluster_between(cluster, 1, 3);
    terms->local_steps = 1;
    terms->iterations = elastic ? cluster_between(cluster, 4, 10) : cluster_between(cluster, 1, 5);
    terms->tolerance_iterations = (uint32_t)cluster_between(cluster, 1, 2);
    unsigned stop = (unsigned)(cluster_draw(cluster) % (elastic ? 30 : 10));
    if (stop == 0 || stop == 1) {
        terms->seconds = (double)cluster_between(cluster, 1, 3000) / 1000;
    } else if (stop == 2 || stop == 3) {
        terms->tolerance = ldexp(1.0, -(int)cluster_between(cluster, 1, 8));
    }
    if (stop == 0 || stop == 2) {
        terms->iterations = 0;
    } else if (stop == 1 || stop == 3) {
        terms->iterations += 3;
    }
    if (cluster->options.app == APP_LDA) { /* apps/lda/train.h */
        terms->staleness %= 4;
        terms->clocks_per_iteration += terms->staleness;
    }
    if (cluster->options.campaign == CAMPAIGN_MISSING) { /* long enough for the fault to come first */
        terms->seconds = terms->tolerance = 0;
        terms->iterations = 1000 * 1000;
    }
}

static enum stage draw_stage(struct cluster *cluster) {
    static const enum stage stages[] = {STAGE_AUTO, STAGE_AUTO, STAGE_1, STAGE_2, STAGE_2, STAGE_3};
    switch (cluster->options.campaign) {
    case CAMPAIGN_MISSING:
        return STAGE_TRADITIONAL;
    case CAMPAIGN_FAULTS:
        return cluster_one_in(cluster, 3) ? STAGE_TRADITIONAL : stages[cluster_draw(cluster) % 6];
    default:
        return stages[cluster_draw(cluster) % 6];
    }
}

static unsigned draw_size(struct cluster *cluster) {
    if (cluster->options.campaign != CAMPAIGN_ELASTIC) {
        /* A lone node receives no pushes, so it is rare. CAMPAIGN_MISSING needs two nodes. */
        unsigned least = cluster->options.campaign == CAMPAIGN_FAULTS && cluster_one_in(cluster, 10) ? 1 : 2;
        return (unsigned)cluster_between(cluster, least, least == 1 ? 2 : cluster_one_in(cluster, 4) ? 32 : 8);
    }
    if (cluster_one_in(cluster, 400) || cluster->options.large) {
        return (unsigned)cluster_between(cluster, 200, cluster->options.large ? CLUSTER_NODES_MAX : LARGE_BY_CHANCE);
    }
    return (unsigned)cluster_between(cluster, 2,
                                     cluster_one_in(cluster, 20)  ? 60
                                     : cluster_one_in(cluster, 4) ? 20
                                                                  : 8);
}

static void draw_cluster(struct cluster *cluster) {
    unsigned size = draw_size(cluster);
    bool big = size > 64;
    unsigned reliable = (unsigned)cluster_between(cluster, 1, cluster_one_in(cluster, 2) ? size : size < 2 ? 1 : 2);
    cluster->drawn.initial_reliable = big ? size / 16 : reliable;
    cluster->drawn.initial_transient = size - cluster->drawn.initial_reliable;
    cluster->policy.stage = draw_stage(cluster);
    cluster->policy.partitions =
        (uint32_t)cluster_between(cluster, 1, big || cluster_one_in(cluster, 4) ? CLUSTER_PARTITIONS_MAX : 8);
    cluster->policy.shards =
        (uint32_t)(big ? cluster_between(cluster, size, 2 * size) : cluster_between(cluster, 16, 128));
    if (cluster->options.campaign == CAMPAIGN_MISSING) { /* each node serves and works, in any order of registration */
        cluster->policy.partitions = CLUSTER_PARTITIONS_MAX;
        cluster->policy.shards = 128;
    }
    if (cluster->policy.stage == STAGE_AUTO && cluster_one_in(cluster, 2)) {
        cluster->drawn.thresholds = (struct plan_thresholds){.to_2 = (double)cluster_between(cluster, 5, 20) / 10,
                                                             .to_3 = (double)cluster_between(cluster, 3, 8)};
    }
    static const uint32_t every[] = {0, 1, 2, 5};
    cluster->drawn.commit_every = every[cluster_draw(cluster) % 4];
    bool elastic = cluster->options.campaign == CAMPAIGN_ELASTIC;
    uint64_t salted = hash_mix(cluster->options.seed ^ SAVE_SALT); /* uses no random number of other faults */
    cluster->run.saves_fail = elastic && salted % 4 == 0 ? 1 + (unsigned)(salted >> 8) % SAVES_FAIL_MAX : 0;
    cluster->drawn.heartbeat_ms = (uint32_t)cluster_between(cluster, elastic ? 50 : 100, elastic ? 300 : 700);
    cluster->drawn.timeout_ms = (uint32_t)cluster_between(cluster, elastic ? 1500 : 4000, elastic ? 4000 : 12000);
    if (cluster->options.mistake == MISTAKE_IMPATIENT_RESTART) {
        cluster->drawn.timeout_ms = IO_RECONNECT_MS; /* a longer timeout would hide the mistake */
    }
    cluster->drawn.patience_ms =
        cluster->options.campaign == CAMPAIGN_MISSING ? 2 * cluster->drawn.timeout_ms : 300 * 1000;
    cluster->drawn.compute_us = UINT64_C(1000) << (cluster_draw(cluster) % 9);
    if (elastic && cluster_one_in(cluster, 3)) {
        cluster->drawn.checkpoint_every = (uint32_t)cluster_between(cluster, 1, 3);
        cluster->faults.loss_intended = cluster_one_in(cluster, 2);
        cluster->run.checkpoint_at_end = !cluster_one_in(cluster, 4);
    }
}

static struct sim_config draw_network(struct cluster *cluster) {
    static const uint64_t latencies_us[] = {50, 500, 5000, 50 * 1000};
    uint64_t latency_us = latencies_us[cluster_draw(cluster) % 4];
    unsigned size = cluster->drawn.initial_reliable + cluster->drawn.initial_transient;
    /* A plan's bytes grow with the square of the number of nodes. */
    uint64_t least_mb = size > 256 ? 1000 : size > 16 ? 200 : 4;
    if (cluster->options.campaign == CAMPAIGN_UNEVEN) { /* the nodes are measured, not the network */
        return (struct sim_config){.nodes = CLUSTER_MACHINES,
                                   .latency_min_us = 50,
                                   .latency_max_us = 200,
                                   .bytes_per_second_min = 1000 * 1000 * 1000,
                                   .bytes_per_second_max = 1000 * 1000 * 1000,
                                   .hold_max_us = 1000,
                                   .reconnect_max_us = 20 * 1000,
                                   .admission = true,
                                   .trace = cluster->options.trace};
    }
    bool large = cluster->options.large;
    return (struct sim_config){.nodes = CLUSTER_MACHINES,
                               .message_us = large ? cluster_between(cluster, 5, 50) : 0,
                               .megabyte_us = large ? cluster_between(cluster, 500, 5000) : 0,
                               .latency_min_us = latency_us / 2,
                               .latency_max_us = 4 * latency_us,
                               .tail_per_million = (uint32_t)(cluster_draw(cluster) % 3 * 5000),
                               .tail_max_us = 300 * 1000,
                               .bytes_per_second_min = least_mb * 1000 * 1000,
                               .bytes_per_second_max = 1000 * 1000 * 1000,
                               .hold_max_us = 1000 * 1000,
                               .reconnect_max_us = cluster_one_in(cluster, 2) ? 20 * 1000 : 300 * 1000,
                               .admission = true,
                               .trace = cluster->options.trace};
}

/* ---- Construction ---- */

static void sort_rows(struct cluster *cluster) {
    const struct app *app = &cluster->app;
    uint32_t partitions = cluster->policy.partitions;
    cluster->run.partition_rows = memory_zeroed(partitions, sizeof(unsigned *));
    cluster->run.partition_row_counts = memory_zeroed(partitions, sizeof(unsigned));
    for (unsigned r = 0; r < app->row_count; r++) {
        uint32_t p = table_partition(&app->job.tables[app->rows[r].table], app->rows[r].key, partitions);
        unsigned count = cluster->run.partition_row_counts[p]++;
        cluster->run.partition_rows[p] = memory_resized(cluster->run.partition_rows[p], count + 1, sizeof(unsigned));
        cluster->run.partition_rows[p][count] = r;
    }
}

static uint64_t app_origin_of(void *context, unsigned shard, uint64_t clock) {
    const struct cluster *cluster = context;
    uint64_t at = clock - cluster->drawn.first_clock - 1;
    return clock > cluster->drawn.first_clock && at < cluster->seen.work_clocks
               ? cluster->seen.works[at * cluster->policy.shards + shard].origin
               : ACTOR_NONE;
}

static void app_violation(void *context, const char *invariant, const char *text) {
    cluster_violation(context, invariant, "%s", text);
}

static bool app_mistake_due(void *context, enum app_mistake mistake) {
    return cluster_mistake_due(context, mistake == APP_STEP_TWICE ? MISTAKE_STEP_TWICE : MISTAKE_TOPICS_FORGOTTEN);
}

/* Whether the job exchanges by a ring: one job of three, but not where a slow server is to be found, as a ring hides
 * it. */
static bool draw_ring(const struct cluster *cluster) {
    return !cluster->uneven.slow_server && hash_mix(cluster->options.seed ^ 0x4116) % 3 == 0;
}

/* Whether flushes go in pieces: in one job of three, if its tables and its exchange allow that. */
static bool draw_pieces(const struct cluster *cluster) {
    const enum mistake mistake = cluster->options.mistake;
    bool always = mistake == MISTAKE_FLUSH_PIECE_WHOLE || mistake == MISTAKE_FLUSH_PIECE_TWICE;
    return cluster->options.campaign != CAMPAIGN_UNEVEN &&
           (always || hash_mix(cluster->options.seed ^ 0x91ECE5) % 3 == 0);
}

/* Draws phases (aml_app.phases) for a quarter of the jobs that can have them. */
static void draw_phases(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0x9A5E5);
    enum mistake mistake = cluster->options.mistake;
    bool possible = cluster->options.app == APP_ADDER && cluster->options.campaign != CAMPAIGN_UNEVEN &&
                    !cluster_strategy_is_drawn(cluster);
    bool wanted = mistake == MISTAKE_PHASE_AGAIN || (mistake == MISTAKE_NONE && drawn % 4 == 0);
    if (possible && wanted) {
        cluster->terms.phases = 1 + (uint32_t)(drawn / 4 % PHASES_MAX);
        cluster->terms.clocks_per_iteration *= cluster->terms.phases;
    }
}

static void app_open(struct cluster *cluster) {
    cluster->app = (struct app){.seed = cluster->options.seed,
                                .clocks_per_iteration = cluster->terms.clocks_per_iteration,
                                .phases = job_phases(&cluster->terms),
                                .job.staleness = cluster->terms.staleness,
                                .job.clocks = job_clocks(&cluster->terms),
                                .origin_of = app_origin_of,
                                .violation = app_violation,
                                .mistake_due = app_mistake_due,
                                .context = cluster};
    if (cluster->options.app == APP_LDA) {
        lda_job_open(&cluster->app, cluster->policy.shards);
    } else {
        cluster->app.shard_items = cluster->options.campaign == CAMPAIGN_UNEVEN ? 2 : 0;
        cluster->app.ring = draw_ring(cluster);
        cluster->app.averages = cluster_strategy_is_drawn(cluster);
        cluster->app.whole = cluster->options.caches;
        cluster->app.pieces = draw_pieces(cluster);
        adder_open(&cluster->app, cluster->policy.shards);
        cluster->app.job.exchange = cluster->app.ring ? EXCHANGE_RING : EXCHANGE_DIRECT;
    }
}

/* Draws lots for half of the jobs whose app supports them. */
static void draw_lots(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0x1075);
    bool possible = cluster->options.app == APP_ADDER && cluster->options.campaign != CAMPAIGN_UNEVEN &&
                    !cluster_strategy_is_drawn(cluster) && !cluster->app.pieces;
    for (unsigned t = 0; t < cluster->app.job.table_count; t++) {
        possible = possible && !cluster->app.job.tables[t].given;
    }
    cluster->drawn.lots = possible && drawn % 2 == 0 ? (unsigned)(1 + drawn / 2 % 5) : 0;
}

/* Draws whether nodes fetch data shards from each other and read the input in parts: half of the jobs. Not with nodes
 * that join with other input, which they might never read. Not with a slow server, as fetching takes no simulated
 * time. */
static void draw_fetches(struct cluster *cluster) {
    cluster->drawn.fetches =
        cluster->other_input.who != OTHER_INPUT_JOINS && !cluster->uneven.slow_server &&
        (hash_mix(cluster->options.seed ^ 0xFE7C) % 2 == 0 || cluster->options.mistake == MISTAKE_SHARD_MIXED ||
         cluster->options.mistake == MISTAKE_PIECE_TWICE || cluster->options.mistake == MISTAKE_PIECE_LEFT_OUT);
}

/* Draws and opens what all jobs of a run share. */
static void run_open(struct cluster *cluster) {
    cluster->random = hash_mix(cluster->options.seed ^ 0xC105);
    cluster->schedule.mistake_left = cluster_draw(cluster) % 8;
    draw_terms(cluster);
    draw_cluster(cluster);
    cluster_schedule_shape(cluster);
    cluster_groups_shape(cluster);
    cluster_trace_shape(cluster);
    cluster_uneven_shape(cluster);
    if (cluster->drawn.checkpoint_every > 0) {
        cluster_disk_open(cluster);
    }
    cluster_strategy_draw(cluster);
    draw_phases(cluster);
    app_open(cluster);
    draw_lots(cluster);
    draw_fetches(cluster);
    cluster_feed_draw(cluster);
    sort_rows(cluster);
}

static void run_close(struct cluster *cluster) {
    cluster_disk_close(cluster);
    for (uint32_t p = 0; p < cluster->policy.partitions; p++) {
        free(cluster->run.partition_rows[p]);
    }
    free(cluster->run.partition_rows);
    free(cluster->run.partition_row_counts);
    app_close(&cluster->app);
}

static void job_open(struct cluster *cluster) {
    struct sim_config network = draw_network(cluster);
    cluster_pulse_draw(cluster, &network);
    cluster->sim = sim_open(cluster->options.seed + (uint64_t)cluster->run.jobs * 0x10001, &network);
    cluster->run.jobs++;
    cluster->machine_count = CLUSTER_FIRST_NODE;
    cluster_control_open(cluster);
    for (unsigned n = 0; n < cluster->drawn.initial_reliable + cluster->drawn.initial_transient; n++) {
        cluster_trace_initial(cluster, n);
        cluster_node_add(cluster, n < cluster->drawn.initial_reliable ? TIER_RELIABLE : TIER_TRANSIENT, 0,
                         cluster_between(cluster, 0, 500 * 1000));
    }
    cluster->groups.joins = 0;
    switch (cluster->options.campaign) {
    case CAMPAIGN_FAULTS:
        cluster_draw_faults(cluster);
        break;
    case CAMPAIGN_MISSING:
        cluster_draw_missing(cluster);
        break;
    case CAMPAIGN_UNEVEN:
        cluster_uneven_begin(cluster);
        break;
    default:
        if (cluster->options.traces != NULL) {
            cluster_trace_draw(cluster);
        } else if (cluster->options.schedule == SCHEDULE_NONE) {
            cluster_draw_elastic(cluster);
        }
        break;
    }
    cluster_faults_begin(cluster);
    cluster_feed_begin(cluster);
}

static void job_close(struct cluster *cluster) {
    struct cluster_result *result = cluster->result;
    const struct sim_statistics *statistics = sim_statistics(cluster->sim);
    result->virtual_us += sim_now(cluster->sim);
    result->statistics.events += statistics->events;
    result->statistics.messages += statistics->messages;
    result->statistics.bytes += statistics->bytes;
    result->statistics.local += statistics->local;
    result->statistics.lost += statistics->lost;
    result->statistics.duplicated += statistics->duplicated;
    result->statistics.refused += statistics->refused;
    result->statistics.trace = hash_mix(result->statistics.trace ^ statistics->trace);
    result->counts.nodes += cluster->node_count;
    result->counts.clocks += cluster->seen.work_clocks;
    cluster_disk_cancel(cluster);
    cluster_control_close(cluster);
    for (unsigned n = 0; n < cluster->node_count; n++) {
        close_node(cluster->nodes[n]);
    }
    plan_close(&cluster->seen.plan);
    sim_close(cluster->sim);
    for (unsigned a = 0; a < cluster->faults.action_count; a++) {
        free(cluster->faults.actions[a].sides);
    }
    free(cluster->nodes);
    free(cluster->seen.works);
    free(cluster->seen.replicas);
    free(cluster->report.due);
    index_map_close(&cluster->node_index);
}

/* ---- The run ---- */

bool cluster_node_counts(const struct cluster_node *node) {
    const struct cluster *cluster = node->cluster;
    bool removed =
        cluster->options.campaign == CAMPAIGN_MISSING && node == cluster->faults.missing && cluster->faults.removed;
    bool planned = cluster->options.campaign == CAMPAIGN_MISSING ||
                   (plan_is_there(&cluster->seen.plan) && cluster_plan_has(&cluster->seen.plan, node->id));
    return planned && !removed;
}

/* Whether the controller and all nodes that take part have ended. After a network fault some nodes may not hear of the
 * end. */
static bool job_ended(const struct cluster *cluster) {
    bool gone =
        cluster->options.campaign == CAMPAIGN_MISSING && cluster->faults.missing == NULL && cluster->faults.removed;
    if (!cluster->control.ended && !gone) {
        return false;
    }
    uint64_t heard_us =
        cluster->control.ended_us > cluster->faults.calm_us ? cluster->control.ended_us : cluster->faults.calm_us;
    if (cluster->faults.disturbed && sim_now(cluster->sim) > heard_us + 10 * SECOND_US) {
        return true;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        if (!cluster->nodes[n]->fate.gone && cluster_node_counts(cluster->nodes[n])) {
            return false;
        }
    }
    return true;
}

/* Returns when the job must be over, given that no fault is active any more. */
static uint64_t deadline_us(const struct cluster *cluster) {
    uint64_t timeout_us = cluster->drawn.timeout_ms * UINT64_C(1000);
    if (cluster->options.campaign == CAMPAIGN_MISSING) {
        return cluster->faults.calm_us + 8 * timeout_us;
    }
    uint64_t iterations = cluster->terms.iterations > 0 ? cluster->terms.iterations : 12;
    uint64_t clocks = iterations * cluster->terms.clocks_per_iteration;
    uint64_t rings_us = cluster->app.ring ? 2 * cluster->node_count * cluster->drawn.far_us : 0; /* in each clock */
    return cluster->faults.calm_us + 8 * cluster->drawn.load_us + (uint64_t)(cluster->terms.seconds * 1e6) +
           30 * SECOND_US + 20 * timeout_us + clocks * (14 * cluster->drawn.slowest_us + 2 * SECOND_US + rings_us);
}

static void job_run(struct cluster *cluster) {
    struct cluster_result *result = cluster->result;
    uint64_t steps = 0;
    cluster_not_calm(cluster, sim_now(cluster->sim));
    while (result->violation[0] == '\0' && !job_ended(cluster)) {
        if (!sim_step(cluster->sim) || sim_now(cluster->sim) > deadline_us(cluster) || ++steps > CLUSTER_STEPS_MAX) {
            const struct controller *controller = &cluster->control.controller;
            char waits[WAITING_TEXT_MAX] = "";
            if (cluster->control.running) {
                waiting_describe(controller, waits);
            }
            cluster_violation(cluster, cluster->run.forged ? "ended" : "I8",
                              "not ended after %llu steps, begun clock %llu, committed %llu; controller: phase %u, "
                              "change %u, epoch %llu, version %llu, completed %llu, final %llu, waiting for %s",
                              (unsigned long long)steps, (unsigned long long)cluster->seen.begun,
                              (unsigned long long)cluster->seen.committed, controller->phase, controller->change.state,
                              (unsigned long long)controller->plan.epoch, (unsigned long long)controller->plan.version,
                              (unsigned long long)controller->progress.completed,
                              (unsigned long long)controller->job.final, waits);
        }
    }
    if (sim_statistics(cluster->sim)->refused > 0) {
        cluster_violation(cluster, "wire", "the decoder refused %llu messages",
                          (unsigned long long)sim_statistics(cluster->sim)->refused);
    }
    if (result->violation[0] != '\0' || cluster->run.forged) {
        return; /* no crash, and the job has ended */
    }
    if (cluster->control.code != 0) {
        cluster_groups_end(cluster);
    }
    if (cluster->options.campaign == CAMPAIGN_MISSING) {
        cluster_check_bad_end(cluster);
    } else if (cluster->control.code == 0 || cluster_lacks_checkpoints(cluster)) {
        cluster_check_good_end(cluster);
    } else if (cluster->other_input.who == OTHER_INPUT_AT_START && cluster->other_input.reported) {
        cluster_check_input_end(cluster);
    } else if (cluster->faults.may_fail || cluster_groups_may_lose(cluster)) {
        cluster_check_lost_end(cluster);
    } else {
        cluster_violation(cluster, "I8", "the job failed: %s", cluster->control.text);
    }
    cluster_check_crash(cluster);
}

/* Starts another job from the lost job's checkpoint, on another cluster. Returns false when the job was not lost or has
 * no checkpoint. */
static bool next_job(struct cluster *cluster) {
    if (cluster->run.jobs > 1 || cluster->result->violation[0] != '\0' || cluster->control.code == 0 ||
        cluster->result->counts.checkpoints == 0 || cluster->options.campaign != CAMPAIGN_ELASTIC) {
        return false;
    }
    struct cluster next = {.options = cluster->options,
                           .result = cluster->result,
                           .random = cluster->random,
                           .app = cluster->app,
                           .terms = cluster->terms,
                           .policy = cluster->policy,
                           .feed.feeders = cluster->feed.feeders,
                           .run.partition_rows = cluster->run.partition_rows,
                           .run.partition_row_counts = cluster->run.partition_row_counts,
                           .run.jobs = cluster->run.jobs,
                           .drawn.heartbeat_ms = cluster->drawn.heartbeat_ms,
                           .drawn.timeout_ms = cluster->drawn.timeout_ms,
                           .drawn.patience_ms = cluster->drawn.patience_ms,
                           .drawn.commit_every = cluster->drawn.commit_every,
                           .drawn.checkpoint_every = cluster->drawn.checkpoint_every,
                           .run.checkpoint_at_end = cluster->run.checkpoint_at_end,
                           .run.disk_failed = cluster->run.disk_failed,
                           .run.mad_certain = cluster->run.mad_certain,
                           .run.forged = cluster->run.forged,
                           .drawn.thresholds = cluster->drawn.thresholds,
                           .drawn.compute_us = cluster->drawn.compute_us,
                           .drawn.resume_clock = cluster->seen.begun / 2};
    job_close(cluster);
    memcpy(next.run.disk, cluster->run.disk, sizeof next.run.disk);
    *cluster = next;
    cluster->result->counts.resumes++;
    cluster->drawn.initial_reliable = (unsigned)cluster_between(cluster, 1, 3);
    cluster->drawn.initial_transient = (unsigned)cluster_between(cluster, 0, 6);
    cluster_trace_shape(cluster);
    memcpy(cluster->drawn.resume, cluster->run.disk, sizeof cluster->run.disk);
    job_open(cluster);
    return true;
}

bool cluster_run(const struct cluster_options *options, struct cluster_result *result) {
    struct cluster *cluster = memory_zeroed(1, sizeof *cluster);
    *result = (struct cluster_result){0};
    cluster->options = *options;
    cluster->run.mad_certain = options->campaign == CAMPAIGN_MAD;
    if (cluster->run.mad_certain) {
        cluster->options.campaign = CAMPAIGN_ELASTIC; /* apart from its mad node the campaign is elastic */
    }
    cluster->result = result;
    run_open(cluster);
    job_open(cluster);
    do {
        job_run(cluster);
    } while (next_job(cluster));
    job_close(cluster);
    run_close(cluster);
    free(cluster);
    return result->violation[0] == '\0';
}
