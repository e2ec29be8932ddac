/* See actors.h. */
#include "tests/actors.h"

#include "agileml/wire/plan_pack.h"
#include "workers/node/feed/node_feed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HEARTBEAT_MS = 100, TIMEOUT_MS = 1000, CLOCKS = 3, ITEMS = 10 };

actor_id actors_node(unsigned number) {
    return (actor_id)(number + 2) << ACTOR_PART_BITS;
}

actor_id actors_server(unsigned number) {
    return actor_of_part(actors_node(number), 1);
}

static void give(struct actors *actors, actor_id from, struct message *message) {
    message->epoch = ACTORS_EPOCH;
    actors_receive(actors, from, message);
    message_close(message);
}

void actors_receive(struct actors *actors, actor_id from, struct message *message) {
    switch (actors->kind) {
    case ACTORS_CONTROLLER:
        controller_receive(&actors->controller, from, message);
        break;
    case ACTORS_SERVER:
        server_receive(&actors->server, from, message);
        break;
    default:
        node_receive(&actors->node, from, message);
        break;
    }
}

void actors_pass(struct actors *actors, uint64_t us) {
    actors->io.now_us += us;
    switch (actors->kind) {
    case ACTORS_CONTROLLER:
        controller_timer(&actors->controller);
        break;
    case ACTORS_SERVER:
        server_timer(&actors->server);
        break;
    default:
        node_timer(&actors->node);
        break;
    }
}

/* ---- The plan that a server and a node receive ---- */

static struct message make_plan(void) {
    struct message plan = {.type = MESSAGE_PLAN, .epoch = ACTORS_EPOCH, .frame_count = 5};
    struct wire_node nodes[ACTORS_NODES];
    struct wire_placement placement[FORGE_PARTITIONS];
    struct wire_assignment assignments[2];
    uint32_t shards[FORGE_SHARDS];
    struct wire_endpoint feeder = {.actor = actors_server(2), .endpoint = "tcp://feeder:1"};
    memset(nodes, 0, sizeof nodes);
    for (unsigned n = 0; n < ACTORS_NODES; n++) {
        nodes[n].actor = actors_node(n);
        nodes[n].tier = n == 1 ? TIER_RELIABLE : n == 2 ? TIER_FEEDER : TIER_TRANSIENT;
        nodes[n].threads = 1;
    }
    for (unsigned p = 0; p < FORGE_PARTITIONS; p++) {
        actor_id server = actors_server(p % 2);
        actor_id backup = p < 2 ? actors_server(1 - p % 2) : ACTOR_NONE;
        placement[p] =
            (struct wire_placement){.server = server, .backup = backup, .next_server = server, .next_backup = backup};
    }
    for (unsigned d = 0; d < 2; d++) {
        assignments[d] = (struct wire_assignment){.origin = actors_node(d),
                                                  .from_clock = 1,
                                                  .until_clock = WIRE_CLOCK_NEVER,
                                                  .first = d * FORGE_SHARDS / 2,
                                                  .count = FORGE_SHARDS / 2};
    }
    for (uint32_t s = 0; s < FORGE_SHARDS; s++) {
        shards[s] = s;
    }
    plan.plan = (struct message_plan){.version = 1,
                                      .commit_every = 1,
                                      .next_commit_every = 1,
                                      .window = 4,
                                      .partitions = FORGE_PARTITIONS,
                                      .shards = FORGE_SHARDS,
                                      .recoverable = 1};
    plan.frames[0] = buffer_copy(nodes, sizeof nodes);
    plan.frames[1] = buffer_copy(placement, sizeof placement);
    plan.frames[2] = buffer_copy(assignments, sizeof assignments);
    plan.frames[3] = buffer_copy(shards, sizeof shards);
    plan.frames[4] = buffer_copy(&feeder, sizeof feeder);
    return plan;
}

/* Sets the message's rows to one dense row `key` of table 0 with the value. */
static void add_row(struct message *message, uint64_t key, int64_t value) {
    static const struct wire_directory_entry entry = {.table = 0, .rows = 1};
    message->frames[0] = buffer_copy(&entry, sizeof entry);
    message->frames[1] = buffer_copy(&key, sizeof key);
    message->frames[2] = buffer_copy(&value, sizeof value);
    message->frame_count = 3;
}

/* ---- Controller ---- */

static void end_controller(void *context, int code, const char *text) {
    (void)code;
    (void)text;
    ((struct actors *)context)->ended++;
}

static void enter(struct actors *actors, unsigned number) {
    static const struct wire_metric metric = {.name = "loss", .evaluated = 1};
    struct message message = {.type = MESSAGE_REGISTER, .frame_count = 3};
    struct wire_endpoint endpoint = {.actor = actors_server(number), .endpoint = "tcp://host:1"};
    message.registration.tier = number == 1 ? TIER_RELIABLE : TIER_TRANSIENT;
    message.registration.threads = 1;
    message.registration.process_id = number;
    memcpy(message.registration.host, "host", sizeof "host");
    memcpy(message.registration.job.app, "app", sizeof "app");
    message.registration.job.clocks_per_iteration = 1;
    message.registration.job.local_steps = 1;
    message.registration.job.ssgd_iterations = 0;
    message.registration.job.iterations = 1000;
    message.frames[0] = buffer_copy(&endpoint, sizeof endpoint);
    message.frames[1] = buffer_copy(&metric, sizeof metric);
    message.frames[2] = buffer_new(0);
    give(actors, actors_node(number), &message);
}

static void beat(struct actors *actors, unsigned number, enum node_state state, uint64_t clock) {
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat.state = (uint8_t)state;
    message.heartbeat.clock = clock;
    message.heartbeat.barrier = actors->controller.barrier.number;
    message.heartbeat.version = message.heartbeat.ready = actors->controller.plan.version;
    message.heartbeat.committed = clock > 1 ? clock - 1 : 0;
    give(actors, actors_node(number), &message);
}

static void open_controller(struct actors *actors) {
    const struct controller_options options = {
        .reliable = 1,
        .transient = 2,
        .policy = {.stage = STAGE_1, .partitions = FORGE_PARTITIONS, .shards = FORGE_SHARDS},
        .thresholds = {PLAN_THRESHOLD_2, PLAN_THRESHOLD_3},
        .heartbeat_ms = HEARTBEAT_MS,
        .timeout_ms = TIMEOUT_MS,
        .answer_ms = TIMEOUT_MS,
        .start_timeout_ms = TIMEOUT_MS,
        .end = end_controller,
        .context = actors};
    struct error error = {0};
    int result = controller_init(&actors->controller, &actors->io.io, &options, &error);
    assert(result == 0);
    (void)result;
    for (unsigned n = 0; n < ACTORS_NODES; n++) {
        enter(actors, n);
    }
    for (unsigned n = 0; n < ACTORS_NODES; n++) {
        struct message loaded = {.type = MESSAGE_LOADED, .frame_count = 1};
        double totals[WIRE_TOTALS] = {0};
        beat(actors, n, NODE_LOADED, 0);
        loaded.loaded.version = actors->controller.plan.version;
        loaded.loaded.items = ITEMS;
        loaded.frames[0] = buffer_copy(totals, sizeof totals);
        give(actors, actors_node(n), &loaded);
    }
    assert(actors->controller.phase == PHASE_TRAIN);
    for (uint64_t clock = 1; clock <= CLOCKS; clock++) {
        for (unsigned n = 0; n < ACTORS_NODES; n++) {
            static const struct wire_metric_sum sum = {.sum = 1, .weight = 1};
            struct message progress = {.type = MESSAGE_PROGRESS, .frame_count = 1};
            progress.progress.origin = actors_node(n);
            progress.progress.clock = clock;
            progress.progress.items = ITEMS;
            progress.frames[0] = buffer_copy(&sum, sizeof sum);
            give(actors, actors_node(n), &progress);
            beat(actors, n, NODE_STARTED, clock);
        }
    }
    assert(actors->controller.progress.completed == CLOCKS);
}

/* ---- Server ---- */

static void flush(struct actors *actors, unsigned origin, uint32_t partition, uint64_t clock) {
    struct message message = {.type = MESSAGE_FLUSH};
    message.flush.partition = partition;
    message.flush.origin = actors_node(origin);
    message.flush.clock = clock;
    add_row(&message, partition, (int64_t)clock);
    give(actors, actors_node(origin), &message);
}

static void open_server(struct actors *actors) {
    struct message plan = make_plan();
    server_init(&actors->server, &actors->io.io, actors_server(0), &actors->job, NULL);
    give(actors, actors_node(0), &plan);
    for (uint32_t p = 0; p < FORGE_PARTITIONS; p += 2) {
        struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .subscribe = {.partition = p, .request = 1}};
        give(actors, actors_node(1), &subscribe);
        for (uint64_t clock = 1; clock <= CLOCKS; clock++) {
            flush(actors, 0, p, clock);
            flush(actors, 1, p, clock);
        }
        flush(actors, 0, p, CLOCKS + 1); /* the flush of node 1 is yet to come */
    }
    struct message update = {.type = MESSAGE_UPDATE, .update = {.partition = 1, .clock = 1}};
    add_row(&update, 1, 7);
    give(actors, actors_server(1), &update);
    assert(actors->server.replicas[0].partition->clock == CLOCKS);
    assert(partition_reached(actors->server.replicas[1].partition) == 1);
}

/* ---- Node ---- */

static void hook_prepare(void *context, const struct node_set *set) {
    (void)context;
    (void)set;
}

static void hook_set(void *context, unsigned set) {
    (void)context;
    (void)set;
}

static void hook_compute(void *context, unsigned set, uint64_t clock) {
    (void)context;
    (void)set;
    (void)clock;
}

static void hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    (void)context;
    (void)set;
    (void)clock;
    (void)again;
}

/* Feeders count only once the job runs, so that it begins without waiting for batches. */
static unsigned hook_feeds(void *context) {
    return ((struct actors *)context)->fed ? 2 : 0;
}

static unsigned hook_feed_transforms(void *context) {
    (void)context;
    return 1;
}

/* Accepts even clocks and never finishes their batches; refuses odd clocks. */
static bool hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                           unsigned count) {
    (void)context;
    (void)transforms;
    (void)set;
    (void)shards;
    (void)count;
    return clock % 2 == 0;
}

static bool hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned transforms,
                           const void *bytes, size_t size, bool own) {
    (void)transforms;
    (void)own;
    (void)context;
    (void)set;
    (void)shard;
    (void)clock;
    (void)bytes;
    return size % 2 == 0;
}

static void hook_feed_drop(void *context, uint64_t clock_below) {
    (void)context;
    (void)clock_below;
}

static void hook_nothing(void *context) {
    (void)context;
}

static void hook_rejoin(void *context, const char *why) {
    (void)why;
    ((struct actors *)context)->ended++;
}

/* Answers the client's request for each partition. */
static void answer_subscriptions(struct actors *actors) {
    for (uint32_t p = 0; p < FORGE_PARTITIONS; p++) {
        struct message push = {.type = MESSAGE_PUSH};
        push.push.partition = p;
        push.push.request = actors->node.client.partitions[p].now.request;
        add_row(&push, p, 5);
        give(actors, actors_server(p % 2), &push);
    }
}

static void open_node(struct actors *actors) {
    static const struct wire_metric metric = {.name = "loss"};
    const double totals[WIRE_TOTALS] = {0};
    actors->endpoint = (struct wire_endpoint){.actor = actors_server(0)};
    struct node_options options = {.self = actors_node(0),
                                   .controller = "tcp://controller:1",
                                   .servers = &actors->endpoint,
                                   .server_count = 1,
                                   .metrics = &metric,
                                   .metric_count = 1,
                                   .timeout_ms = TIMEOUT_MS,
                                   .patience_ms = 100 * TIMEOUT_MS,
                                   .hooks = {.prepare = hook_prepare,
                                             .release = hook_set,
                                             .compute = hook_compute,
                                             .evaluate = hook_evaluate,
                                             .save = hook_nothing,
                                             .unsave = hook_nothing,
                                             .end = end_controller,
                                             .rejoin = hook_rejoin,
                                             .feeds = hook_feeds,
                                             .feed_transforms = hook_feed_transforms,
                                             .feed_make = hook_feed_make,
                                             .feed_take = hook_feed_take,
                                             .feed_drop = hook_feed_drop,
                                             .context = actors}};
    options.registration.job.clocks_per_iteration = 1;
    node_init(&actors->node, &actors->io.io, &options, &actors->job);
    node_start(&actors->node);
    struct message welcome = {.type = MESSAGE_WELCOME, .welcome = {.name = "n", .heartbeat_ms = HEARTBEAT_MS}};
    welcome.welcome.timeout_ms = TIMEOUT_MS;
    give(actors, ACTOR_CONTROLLER, &welcome);
    struct message plan = make_plan();
    struct plan_view view = plan_open(&plan);
    struct message packed = plan_pack(&view, NULL);
    plan_close(&view);
    message_close(&plan);
    give(actors, ACTOR_CONTROLLER, &packed);
    for (uint32_t p = 0; p < FORGE_PARTITIONS; p++) {
        cache_add(&actors->node.cache, 0, p);
    }
    node_prepared(&actors->node, 1, ITEMS, totals);
    answer_subscriptions(actors);
    struct message start = {.type = MESSAGE_START, .frame_count = 1};
    start.frames[0] = buffer_copy(totals, sizeof totals);
    give(actors, ACTOR_CONTROLLER, &start);
    for (uint32_t p = 0; p < FORGE_PARTITIONS; p++) {
        client_gather(&actors->node.client, p, NULL);
    }
    node_computed(&actors->node, ITEMS, 1);
    static const struct wire_metric_sum sum = {.sum = 1, .weight = 1};
    node_evaluated(&actors->node, &sum);
    assert(actors->node.work.activity == NODE_COMPUTING && actors->node.work.clock == 2);
    actors->fed = true;
    node_wake(&actors->node); /* requests the batches of clock 3 */
    assert(node_feed(&actors->node)->used > 0);
}

/* ---- All kinds ---- */

void actors_open(struct actors *actors, enum actors_kind kind) {
    memset(actors, 0, sizeof *actors);
    fake_io_open(&actors->io);
    actors->io.mute = true;
    actors->kind = kind;
    actors->job = (struct job){.table_count = 1, .staleness = 1};
    actors->job.tables[0] = (struct table_spec){
        .name = "t", .type = AML_INT64, .mode = AML_ADD, .width = 1, .row_bytes = 8, .rows = 4 * FORGE_PARTITIONS};
    actors->job.shapes[0] = table_shape(&actors->job.tables[0]);
    switch (kind) {
    case ACTORS_CONTROLLER:
        open_controller(actors);
        break;
    case ACTORS_SERVER:
        open_server(actors);
        break;
    default:
        open_node(actors);
        break;
    }
}

void actors_close(struct actors *actors) {
    switch (actors->kind) {
    case ACTORS_CONTROLLER:
        controller_close(&actors->controller);
        break;
    case ACTORS_SERVER:
        server_close(&actors->server);
        break;
    default:
        node_close(&actors->node);
        break;
    }
}

/* ---- Digests ---- */

static void add(uint64_t *digest, uint64_t value) {
    *digest = hash_mix(*digest ^ value) + 1;
}

static void add_bytes(uint64_t *digest, const void *data, size_t size) {
    for (size_t b = 0; b < size; b++) {
        add(digest, ((const unsigned char *)data)[b]);
    }
}

static void digest_controller(const struct controller *c, uint64_t *d) {
    const uint64_t numbers[] = {c->phase,
                                c->plan.stage,
                                c->member_count,
                                c->expected.count,
                                c->job.items,
                                c->plan.epoch,
                                c->plan.version,
                                c->change.state,
                                c->plan.from_clock,
                                c->plan.restore,
                                c->commit.clock,
                                c->commit.claimed,
                                c->barrier.number,
                                c->barrier.clock,
                                c->barrier.purpose,
                                c->change.due,
                                c->verdicts.fence,
                                c->job.stopping,
                                c->job.final,
                                c->report.count,
                                c->crashes.known.count,
                                c->report.observer_count,
                                (uint64_t)c->end.code,
                                c->save.attempt,
                                c->checkpoint.state,
                                c->checkpoint.requests[0].from,
                                c->input.stored,
                                c->input.job.shards != NULL};
    add_bytes(d, numbers, sizeof numbers);
    add(d, c->progress.completed);
    add(d, c->progress.items_processed);
    add(d, c->progress.failures);
    for (unsigned m = 0; m < c->member_count; m++) {
        const struct member *member = &c->members[m];
        const uint64_t own[] = {member->node.actor,
                                member->state,
                                member->goes_by.epoch,
                                member->goes_by.version,
                                member->goes_by.ready,
                                member->loaded,
                                member->left,
                                member->stay,
                                member->settled,
                                member->reported.clock,
                                member->goes_by.barrier,
                                member->reported.catch_up,
                                member->input,
                                member->fence.answered,
                                member->silence.accuses,
                                member->usage.numbers.bytes_sent,
                                member->usage.numbers.memory_bytes};
        add_bytes(d, own, sizeof own);
    }
}

static void digest_partition(struct partition *partition, uint64_t *d) {
    add(d, partition->clock);
    add(d, partition_reached(partition));
    add(d, partition->subscription_count);
    add(d, partition->tables[0].count);
    add(d, partition->point_count);
    add_bytes(d, partition->tables[0].rows.base, partition->tables[0].count * sizeof(int64_t));
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        add(d, partition->subscriptions[s].request);
        add(d, partition->subscriptions[s].sent_clock);
    }
    for (unsigned o = 0; o < partition->origin_count; o++) {
        add(d, partition_received(partition, partition->origins[o].actor));
    }
}

static void digest_server(const struct server *server, uint64_t *d) {
    const uint64_t numbers[] = {server->epoch,   server->fenced,     server->plan.terms.version, server->committed,
                                server->lagging, server->scan_count, server->early_count,        server->in_step};
    add_bytes(d, numbers, sizeof numbers);
    for (uint32_t p = 0; p < server->partition_count; p++) {
        const struct server_replica *replica = &server->replicas[p];
        const uint64_t own[] = {replica->state,
                                replica->durable,
                                replica->durable_from,
                                replica->follower_count,
                                replica->following.heard,
                                replica->following.cursor,
                                replica->checkpoint.asked != NULL};
        add_bytes(d, own, sizeof own);
        for (unsigned f = 0; f < replica->follower_count; f++) {
            add(d, replica->followers[f].reached);
            add(d, replica->followers[f].sent);
            add(d, replica->followers[f].state);
        }
        if (replica->partition != NULL) {
            digest_partition(replica->partition, d);
        }
    }
}

static void digest_node(const struct node *node, uint64_t *d) {
    const struct client *client = &node->client;
    const uint64_t numbers[] = {node->state,
                                node->contact.heartbeat_ms,
                                node->plan.terms.version,
                                node->work.set_count,
                                node->work.assignment_count,
                                node->work.begun,
                                node->work.evaluation_count,
                                node->work.activity,
                                node->work.clock,
                                node->barrier.number,
                                node->final,
                                node->barrier.clock,
                                node->reports.count,
                                node->save.state,
                                node->departure.requested,
                                node->ended,
                                node->input.compared,
                                node->checkpoint.number,
                                client->epoch,
                                client->fenced,
                                client->committed,
                                client->flushed,
                                client->wanted,
                                client->requests,
                                node->servers[0].version};
    add_bytes(d, numbers, sizeof numbers);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        const uint64_t own[] = {partition->now.server,     partition->now.request, partition->now.open,
                                partition->clock,          partition->durable,     partition->waiting_count,
                                partition->retained_count, partition->restoring,   partition->subscribed};
        add_bytes(d, own, sizeof own);
    }
    add_bytes(d, node->cache.tables[0].rows.base, node->cache.tables[0].count * sizeof(int64_t));
}

uint64_t actors_digest(struct actors *actors) {
    uint64_t digest = actors->ended;
    switch (actors->kind) {
    case ACTORS_CONTROLLER:
        digest_controller(&actors->controller, &digest);
        break;
    case ACTORS_SERVER:
        digest_server(&actors->server, &digest);
        break;
    default:
        digest_node(&actors->node, &digest);
        break;
    }
    return digest;
}
