/* The ring: its nodes and their order, the sums that relays compute and pass on, the pushes that return, and the
 * comparison of `auto`. */
#include "agileml/ps/server.h"
#include "tests/fake_io.h"
#include "tests/test.h"

enum { NODES = 4, PARTITIONS = 4, ROWS = 8, WIDTH = 2 };

static actor_id node_id(unsigned n) {
    return actor_of_part((actor_id)(n + 1) << 20, 0);
}

static actor_id server_id(unsigned n) {
    return actor_of_part(node_id(n), 1);
}

static unsigned node_of(actor_id actor) {
    return (unsigned)(actor >> 20) - 1;
}

/* ---- Plans ---- */

struct made_plan {
    uint64_t version, epoch, restore;
    unsigned nodes, servers; /* the first `servers` nodes serve */
    unsigned groups;         /* node n is in group n % groups */
    actor_id catch_up;       /* an additional origin in clock 1 */
};

/* A plan in which all nodes work in all clocks. */
static struct plan_view plan_make(const struct made_plan *made) {
    struct message_plan terms = {.version = made->version,
                                 .restore = made->restore,
                                 .commit_every = 1,
                                 .next_commit_every = 1,
                                 .window = 4,
                                 .partitions = PARTITIONS,
                                 .shards = 1,
                                 .recoverable = 1};
    struct wire_node nodes[NODES] = {{0}};
    struct wire_endpoint endpoints[NODES] = {{0}};
    struct wire_placement placement[PARTITIONS];
    struct wire_assignment assignments[NODES + 1] = {{0}};
    unsigned count = 0;
    for (unsigned n = 0; n < made->nodes; n++) {
        nodes[n] = (struct wire_node){.actor = node_id(n), .group = n % made->groups, .tier = TIER_RELIABLE};
        endpoints[n].actor = server_id(n);
        assignments[count++] = (struct wire_assignment){
            .origin = node_id(n), .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1};
    }
    if (made->catch_up != ACTOR_NONE) {
        assignments[count++] =
            (struct wire_assignment){.origin = made->catch_up, .from_clock = 1, .until_clock = 1, .count = 1};
    }
    for (unsigned p = 0; p < PARTITIONS; p++) {
        actor_id server = server_id(p % made->servers);
        placement[p] = (struct wire_placement){.server = server, .next_server = server};
    }
    struct buffer *frames[PLAN_FRAMES] = {
        buffer_copy(nodes, made->nodes * sizeof *nodes), buffer_copy(placement, sizeof placement),
        buffer_copy(assignments, count * sizeof *assignments), buffer_copy(&(uint32_t){0}, sizeof(uint32_t)),
        buffer_copy(endpoints, made->nodes * sizeof *endpoints)};
    return plan_of_frames(made->epoch, &terms, frames);
}

static struct job job_make(enum exchange exchange) {
    struct job job = {.table_count = 1, .exchange = exchange};
    job.tables[0] = (struct table_spec){.name = "weights",
                                        .type = AML_FLOAT32,
                                        .mode = AML_ADD,
                                        .width = WIDTH,
                                        .row_bytes = WIDTH * sizeof(float),
                                        .rows = ROWS,
                                        .whole = true};
    job.shapes[0] = table_shape(&job.tables[0]);
    return job;
}

static const struct made_plan even = {.version = 1, .epoch = 1, .nodes = NODES, .servers = NODES, .groups = 2};

/* ---- Nodes of the ring ---- */

TEST(order) {
    struct job job = job_make(EXCHANGE_RING);
    struct plan_view plan = plan_make(&even);
    CLOSED_BY(rings_close) struct rings rings = {0};
    const struct ring *ring = rings_at(&rings, &job, &plan, 1);
    assert_non_null(ring);
    assert_int_equal(ring->count, NODES);
    const unsigned order[NODES] = {0, 2, 1, 3}; /* by group, then as in the plan */
    for (unsigned m = 0; m < NODES; m++) {
        assert_int_equal(ring->members[m].node, node_id(order[m]));
    }
    struct ring_chain chain = ring_chain(ring, 1, server_id(1)); /* the chain begins after the server's node */
    assert_int_equal(chain.length, NODES - 1);
    assert_int_equal(ring_node(&chain, 0), node_id(3));
    assert_int_equal(ring_node(&chain, 1), node_id(0));
    assert_int_equal(ring_node(&chain, 2), node_id(2));
    assert_int_equal(ring_relay(&chain, 2), server_id(2));
    assert_int_equal(ring_place(&chain, server_id(2)), 2);
    assert_int_equal(ring_place(&chain, server_id(1)), -1);
    assert_int_not_equal(chain.digest, ring_chain(ring, 1, server_id(3)).digest); /* a plan with another server */
    chain = ring_chain(ring, 2, server_id(NODES));                                /* the server's node does not work */
    assert_int_equal(chain.length, NODES);
    assert_true(ring_place(&chain, node_id(1)) >= 0);
    uint64_t digest = ring->digest;
    assert_int_equal(rings_at(&rings, &job, &plan, 2)->digest, digest);
    struct made_plan other = even;
    other.version++;
    other.groups = 1;
    plan_close(&plan);
    plan = plan_make(&other);
    assert_int_not_equal(rings_at(&rings, &job, &plan, 1)->digest, digest);
    plan_close(&plan);
}

TEST(no_ring) {
    struct job job = job_make(EXCHANGE_RING);
    struct job direct = job_make(EXCHANGE_DIRECT);
    CLOSED_BY(rings_close) struct rings rings = {0};
    struct made_plan made = even;
    struct plan_view plan = plan_make(&made);
    assert_null(rings_at(&rings, &direct, &plan, 1));
    plan_close(&plan);
    made.version++;
    made.catch_up = origin_catch_up(node_id(1), 1); /* a node's second origin in clock 1 */
    plan = plan_make(&made);
    assert_null(rings_at(&rings, &job, &plan, 1));
    assert_non_null(rings_at(&rings, &job, &plan, 2));
    plan_close(&plan);
    made = (struct made_plan){.version = 9, .epoch = 1, .nodes = 2, .servers = 2, .groups = 1};
    plan = plan_make(&made);
    assert_null(rings_at(&rings, &job, &plan, 1));
    plan_close(&plan);
}

TEST(unfit) {
    struct job job = job_make(EXCHANGE_RING);
    assert_int_equal(ring_unfit_table(&job), 1);
    job.tables[0].whole = false;
    assert_int_equal(ring_unfit_table(&job), 0);
    job = job_make(EXCHANGE_RING);
    job.tables[0].mode = AML_PUT;
    assert_int_equal(ring_unfit_table(&job), 0);
    job = job_make(EXCHANGE_RING);
    job.tables[0].compressed = true;
    job.shapes[0] = table_shape(&job.tables[0]);
    assert_int_equal(ring_unfit_table(&job), 0);
}

/* ---- Ring or direct exchange ---- */

TEST(crossing) {
    /* Counts bytes between groups with the ring's own functions: 12 nodes in 3 groups, and one partition of one byte
     * at each node. */
    enum { N = 12, Z = 3 };
    struct ring_member members[N];
    struct ring ring = {.members = members, .count = N};
    for (unsigned n = 0; n < N; n++) {
        members[n] = (struct ring_member){.node = node_id(n), .group = n / (N / Z), .servers = 1};
    }
    unsigned direct = 0;
    unsigned by_ring = 0;
    for (unsigned p = 0; p < N; p++) {
        struct ring_chain chain = ring_chain(&ring, p, server_id(p));
        for (unsigned place = 0; place < chain.length; place++) {
            unsigned here = node_of(ring_node(&chain, place));
            unsigned next = place + 1 < chain.length ? node_of(ring_node(&chain, place + 1)) : p; /* FLUSH */
            unsigned last = place > 0 ? node_of(ring_node(&chain, place - 1)) : p;                /* PUSH */
            by_ring += members[here].group != members[next].group;
            by_ring += members[here].group != members[last].group;
            direct += members[here].group != members[p].group ? 2 : 0;
        }
    }
    struct ring_job job = {.bytes = N, .nodes = N, .serving = N, .groups = Z, .partitions = N};
    assert_int_equal(direct, (int)ring_crossing_bytes(&job, false));
    assert_int_equal(by_ring, (int)(ring_crossing_bytes(&job, true) + 0.5));
}

TEST(auto) {
    struct ring_job job = {.bytes = 100e6, .nodes = 64, .serving = 32, .groups = 1, .partitions = 256};
    assert_true(ring_is_cheaper(&job)); /* stage 1: half of the nodes serve, so their links carry twice as much */
    job.serving = 64;
    /* traditional: as many bytes in both exchanges, but more latencies by the ring */
    assert_false(ring_is_cheaper(&job));
    job.groups = 4;
    assert_true(ring_is_cheaper(&job)); /* bytes between zones are billed */
    job = (struct ring_job){.bytes = 1e3, .nodes = 64, .serving = 32, .groups = 1, .partitions = 256};
    assert_false(ring_is_cheaper(&job)); /* small messages: latencies count */
    job = (struct ring_job){.bytes = 100e6, .nodes = 2, .serving = 1, .groups = 2, .partitions = 8};
    assert_false(ring_is_cheaper(&job));
}

/* ---- Relays and servers ---- */

struct world {
    struct job job;
    struct fake_io network, ios[NODES];
    struct server servers[NODES];
    unsigned flushes[NODES][NODES]; /* number of flushes from a node's server to another's */
    unsigned pushes[NODES][PARTITIONS];
    float pushed[NODES][ROWS][WIDTH]; /* each agent's rows as pushed */
    unsigned accusations;
    unsigned lose_to; /* flushes to this node's server are lost; NODES: none */
};

static void agent_receive(struct world *world, unsigned node, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    world->accusations += message->type == MESSAGE_ACCUSE;
    assert_int_not_equal(message->type, MESSAGE_FAIL);
    if (message->type != MESSAGE_PUSH || message->push.request != 0) {
        return;
    }
    world->pushes[node][message->push.partition]++;
    int count = rows_check(message, world->job.shapes, world->job.table_count, views, NULL);
    for (uint32_t i = 0; count == 1 && i < views[0].count; i++) {
        memcpy(world->pushed[node][views[0].keys[i]], views[0].values + i * sizeof world->pushed[node][0],
               sizeof world->pushed[node][0]);
    }
}

static void settle(struct world *world) {
    for (struct fake_sent next; fake_io_next(&world->network, &next);) {
        bool flush = next.message.type == MESSAGE_FLUSH;
        if (actor_part(next.to) == 0) {
            agent_receive(world, node_of(next.to), &next.message);
        } else {
            world->flushes[node_of(next.from)][node_of(next.to)] += flush && actor_part(next.from) != 0;
            if (!flush || node_of(next.to) != world->lose_to) {
                server_receive(&world->servers[node_of(next.to)], next.from, &next.message);
            }
        }
        message_close(&next.message);
    }
}

static void world_plan(struct world *world, const struct made_plan *made) {
    struct plan_view plan = plan_make(made);
    for (unsigned n = 0; n < NODES; n++) {
        CLOSED_BY(message_close) struct message message = plan_message(&plan);
        server_receive(&world->servers[n], node_id(n), &message);
    }
    plan_close(&plan);
    settle(world);
}

static void subscribe(struct world *world, unsigned node, uint64_t epoch) {
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        CLOSED_BY(message_close) struct message message = {.type = MESSAGE_SUBSCRIBE, .epoch = epoch};
        struct buffer *keys = buffer_new(ROWS / PARTITIONS * sizeof(uint64_t));
        for (uint64_t k = 0; k < ROWS / PARTITIONS; k++) {
            ((uint64_t *)(void *)keys->data)[k] = k * PARTITIONS + p;
        }
        message.subscribe.partition = p;
        message.subscribe.request = 1;
        rows_append(&message, 0, WIRE_FULL, keys, NULL);
        server_receive(&world->servers[p], node_id(node), &message);
    }
    settle(world);
}

static void world_close(void *context) {
    FREED struct world *world = context;
    for (unsigned n = 0; n < NODES; n++) {
        server_close(&world->servers[n]);
    }
    fake_io_forget(&world->network);
}

static struct world *world_open(void) {
    struct world *world = memory_zeroed(1, sizeof *world);
    at_end(world_close, world);
    world->job = job_make(EXCHANGE_RING);
    world->lose_to = NODES;
    fake_io_open(&world->network);
    for (unsigned n = 0; n < NODES; n++) {
        fake_io_join(&world->ios[n], &world->network, server_id(n));
        server_init(&world->servers[n], &world->ios[n].io, server_id(n), &world->job, NULL);
    }
    world_plan(world, &even);
    for (unsigned n = 0; n < NODES; n++) {
        subscribe(world, n, 1);
    }
    return world;
}

/* A node's addend for each element of a row; sums depend on the order. */
static float delta(unsigned node, uint64_t clock) {
    static const float deltas[NODES] = {1e8F, 1.25F, -1e8F, 3.5F};
    return deltas[node] * (float)clock;
}

/* A node's flush of a partition. It touches the first row; nodes with even numbers touch all rows. */
static struct message flush_make(unsigned node, uint32_t partition, uint64_t clock, uint64_t epoch) {
    struct message message = {.type = MESSAGE_FLUSH, .epoch = epoch};
    uint32_t rows = node % 2 == 0 ? ROWS / PARTITIONS : 1;
    struct buffer *keys = buffer_new(rows * sizeof(uint64_t));
    struct buffer *values = buffer_new(rows * WIDTH * sizeof(float));
    for (uint32_t i = 0; i < rows; i++) {
        ((uint64_t *)(void *)keys->data)[i] = i * PARTITIONS + partition;
    }
    for (uint32_t e = 0; e < rows * WIDTH; e++) {
        ((float *)(void *)values->data)[e] = delta(node, clock);
    }
    message.flush = (struct message_flush){.partition = partition, .origin = node_id(node), .clock = clock};
    rows_append(&message, 0, WIRE_FULL, keys, values);
    return message;
}

/* Sends a node's flushes as its client does: by the ring, but directly to a server of its own node. */
static void flush_by_ring(struct world *world, unsigned node, uint64_t clock, uint64_t epoch) {
    struct rings rings = {0};
    const struct plan_view *plan = &world->servers[node].plan;
    const struct ring *ring = rings_at(&rings, &world->job, plan, clock);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        CLOSED_BY(message_close) struct message message = flush_make(node, p, clock, epoch);
        actor_id server = plan_server_at(plan, clock, p);
        message.flush.ring = server != server_id(node) ? ring_chain(ring, p, server).digest : 0;
        server_receive(&world->servers[node], node_id(node), &message);
    }
    rings_close(&rings);
    settle(world);
}

static void flush_directly(struct world *world, unsigned node, uint32_t partition, uint64_t clock, uint64_t epoch) {
    struct message message = flush_make(node, partition, clock, epoch);
    server_receive(&world->servers[partition], node_id(node), &message);
    message_close(&message);
    settle(world);
}

static uint64_t clock_of(const struct world *world, uint32_t partition) {
    return world->servers[partition].replicas[partition].partition->clock;
}

static float element_of(const struct world *world, uint32_t partition) {
    return *(const float *)(const void *)partition_row(world->servers[partition].replicas[partition].partition, 0, 0);
}

/* In any order of arrival the sum is the same to the bit: in the order of the chain, then the server's own addend. */
TEST(sums) {
    const unsigned orders[][NODES] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};
    const unsigned chains[PARTITIONS][NODES - 1] = {{2, 1, 3}, {3, 0, 2}, {1, 3, 0}, {0, 2, 1}};
    for (unsigned o = 0; o < sizeof orders / sizeof *orders; o++) {
        struct world *world = world_open();
        for (unsigned n = 0; n < NODES; n++) {
            assert_int_equal(clock_of(world, 0), 0);
            flush_by_ring(world, orders[o][n], 1, 1);
        }
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            float sum = 0;
            for (unsigned place = 0; place < NODES - 1; place++) {
                sum = place == 0 ? delta(chains[p][0], 1) : sum + delta(chains[p][place], 1);
            }
            sum += delta(p, 1);
            assert_int_equal(clock_of(world, p), 1);
            float row = element_of(world, p);
            assert_memory_equal(&row, &sum, sizeof sum);
            for (unsigned n = 0; n < NODES; n++) {
                assert_int_equal(world->pushes[n][p], 1);
                assert_memory_equal(world->pushed[n][p], &sum, sizeof sum);
            }
        }
        for (unsigned from = 0; from < NODES; from++) { /* each server sends to one other server */
            unsigned others = 0;
            for (unsigned to = 0; to < NODES; to++) {
                others += world->flushes[from][to] > 0;
            }
            assert_int_equal(others, 1);
        }
        assert_int_equal(world->accusations, 0);
    }
}

/* A relay's message is lost: the origins send directly, and no flush counts twice. */
TEST(lost) {
    struct world *world = world_open();
    world->lose_to = 0; /* partition 1: 3 -> 0 -> 2 -> 1 */
    for (unsigned n = 0; n < NODES - 1; n++) {
        flush_by_ring(world, n, 1, 1);
    }
    flush_by_ring(world, 3, 1, 1);
    assert_int_equal(clock_of(world, 1), 0);
    world->lose_to = NODES;
    flush_directly(world, 3, 1, 1, 1);
    flush_directly(world, 0, 1, 1, 1);
    assert_int_equal(clock_of(world, 1), 0);
    flush_directly(world, 2, 1, 1, 1);
    assert_int_equal(clock_of(world, 1), 1);
    flush_directly(world, 2, 1, 1, 1);     /* a repeat */
    float sum = delta(1, 1) + delta(3, 1); /* in order of arrival */
    sum += delta(0, 1);
    sum += delta(2, 1);
    assert_float_equal(element_of(world, 1), sum, 0);
}

/* A sum that includes an origin's earlier flush is dropped as a whole; the other origins send directly. */
TEST(overlap) {
    struct world *world = world_open();
    flush_by_ring(world, 0, 1, 1);
    flush_by_ring(world, 1, 1, 1);
    flush_by_ring(world, 2, 1, 1);
    flush_directly(world, 0, 1, 1, 1); /* node 0 did not wait for node 3 */
    flush_by_ring(world, 3, 1, 1);
    assert_int_equal(world->servers[1].relay.sums_overlapped, 1);
    assert_int_equal(clock_of(world, 1), 0);
    assert_int_equal(clock_of(world, 2), 1);
    flush_directly(world, 3, 1, 1, 1);
    flush_directly(world, 2, 1, 1, 1);
    assert_int_equal(clock_of(world, 1), 1);
}

/* Sums of a new epoch contain no flush of the old one. */
TEST(epoch) {
    struct world *world = world_open();
    flush_by_ring(world, 0, 1, 1);
    flush_by_ring(world, 3, 1, 1);
    struct made_plan next = even;
    next.version = 2;
    next.epoch = 2;
    world_plan(world, &next);
    for (unsigned n = 0; n < NODES; n++) {
        assert_int_equal(world->servers[n].relay.partition_count, 0);
        subscribe(world, n, 2);
    }
    for (unsigned n = 0; n < NODES; n++) {
        flush_by_ring(world, n, 1, 1); /* late messages */
    }
    assert_int_equal(clock_of(world, 1), 0);
    for (unsigned n = 0; n < NODES; n++) {
        flush_by_ring(world, n, 1, 2);
    }
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        assert_int_equal(clock_of(world, p), 1);
    }
}

/* Messages that are not from the preceding node, name another ring or are malformed add nothing. Only malformed
 * messages lead to an accusation. */
TEST(strangers) {
    struct world *world = world_open();
    CLOSED_BY(rings_close) struct rings rings = {0};
    const struct ring *ring = rings_at(&rings, &world->job, &world->servers[0].plan, 1);
    uint64_t digest = ring_chain(ring, 1, server_id(1)).digest;
    struct message message = flush_make(3, 1, 1, 1); /* partition 1: 3 -> 0 -> 2 -> 1 */
    message.flush.ring = digest + 2;
    server_receive(&world->servers[0], server_id(3), &message);
    message.flush.ring = digest;
    server_receive(&world->servers[0], server_id(1), &message);
    server_receive(&world->servers[2], server_id(3), &message);
    assert_int_equal(world->servers[0].relay.partition_count + world->servers[2].relay.partition_count, 0);
    ((uint64_t *)(void *)message.frames[1]->data)[0] = 0; /* a row of another partition */
    server_receive(&world->servers[0], server_id(3), &message);
    message_close(&message);
    settle(world);
    assert_int_equal(world->accusations, 1);
    assert_int_equal(world->servers[0].relay.partition_count, 0);
}

/* A repeated message is added once, and a relay keeps a bounded number of clocks. */
TEST(repeated) {
    struct world *world = world_open();
    flush_by_ring(world, 3, 1, 1);
    flush_by_ring(world, 3, 1, 1);
    flush_by_ring(world, 0, 1, 1);
    flush_by_ring(world, 0, 1, 1);
    flush_by_ring(world, 2, 1, 1);
    flush_by_ring(world, 1, 1, 1);
    assert_int_equal(clock_of(world, 1), 1);
    for (uint64_t clock = 2; clock < 9; clock++) { /* node 0 is ahead of the other nodes */
        flush_by_ring(world, 0, clock, 1);
        for (uint32_t p = 0; p < PARTITIONS && world->servers[0].relay.partition_count > 0; p++) {
            assert_true(world->servers[0].relay.partitions[p].count <= 2);
        }
    }
}

/* If another plan of the epoch ends the ring for a clock, its waiting flushes are dropped. */
TEST(ring_ends) {
    struct world *world = world_open();
    flush_by_ring(world, 0, 1, 1);
    assert_int_equal(world->servers[0].relay.partitions[1].count, 1);
    struct made_plan next = even;
    next.version = 2;
    next.catch_up = origin_catch_up(node_id(1), 1);
    world_plan(world, &next);
    assert_int_equal(world->servers[0].relay.partitions[1].count, 0);
}

/* The preceding node sends sums, and a push, of impossible clocks. Our node's flushes still find room, and waiting
 * flushes stay. */
TEST(mad_node_before) {
    struct world *world = world_open();
    CLOSED_BY(rings_close) struct rings rings = {0};
    const struct ring *ring = rings_at(&rings, &world->job, &world->servers[0].plan, 1);
    uint64_t digest = ring_chain(ring, 1, server_id(1)).digest; /* partition 1: 3 -> 0 -> 2 -> 1 */
    for (uint64_t clock = 50; clock < 60; clock++) {
        struct message sum = flush_make(3, 1, clock, 1);
        sum.flush.ring = digest;
        server_receive(&world->servers[0], server_id(3), &sum);
        message_close(&sum);
        assert_true(world->servers[0].relay.partitions[1].count <= 2);
    }
    flush_by_ring(world, 0, 1, 1);
    assert_int_equal(world->servers[0].relay.partitions[1].count, 1);
    struct message push = {.type = MESSAGE_PUSH, .epoch = 1};
    push.push = (struct message_push){.partition = 1, .clock = 20, .ring = digest};
    server_receive(&world->servers[0], server_id(3), &push);
    settle(world);
    assert_int_equal(world->servers[0].relay.partitions[1].count, 1);
    for (unsigned n = 1; n < NODES; n++) {
        flush_by_ring(world, n, 1, 1);
    }
    assert_int_equal(world->servers[1].relay.sums_taken, 1);
    assert_int_equal(clock_of(world, 1), 1);
}
