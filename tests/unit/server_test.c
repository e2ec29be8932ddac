/* Servers that serve and follow one partition: two or three servers, a queue as the network, and agents and workers
 * whose messages the tests write and read. Replicas are compared, to the bit, with a partition that got the same
 * flushes without any server. */
#include "agileml/ps/server.h"
#include "tests/fake_io.h"
#include "tests/test.h"

#include <float.h>
#include <math.h>

enum { SERVERS = 3, ORIGINS = 2, TABLES = 3, KEYS = 9, WIDTH = 2, ROWS = 40, CLOCKS = 40, NEVER = -1 };

static actor_id server_id(unsigned s) {
    return ((actor_id)(s + 10) << ACTOR_PART_BITS) | 1;
}
static const actor_id origins[ORIGINS] = {1 << ACTOR_PART_BITS, 2 << ACTOR_PART_BITS};

struct image {
    unsigned char rows[TABLES][KEYS][WIDTH * 8];
};

/* The last message that an agent or a worker received. */
struct heard {
    bool any;
    struct message message; /* without frames, except for REPLICAS */
    unsigned rows;          /* number of rows in all PUSHes received */
};

/* Messages under way, and messages to be lost. */
struct world_network {
    struct fake_io io;
    enum message_type lose; /* type of messages that are lost */
    unsigned lose_count;    /* number of messages still to be lost */
    unsigned sent[64];      /* messages sent, by type */
};

/* Messages received by agents and workers. */
struct world_heard {
    struct heard replicas[SERVERS], written[SERVERS], accused[SERVERS], pushed[ORIGINS][SERVERS];
    unsigned failures;    /* number of FAILs */
    int failure;          /* code of the last FAIL */
    unsigned accusations; /* number of ACCUSEs */
    unsigned scanned;     /* number of ROWS sent */
};

/* The plan of all servers. */
struct world_plan {
    uint64_t version, epoch;
    struct wire_placement placement;
    uint64_t restore;
    bool reliable[SERVERS];
    bool traditional, transient;
    actor_id guest; /* a further node in the plans, without assignments */
    uint64_t joins; /* first clock of the second origin, if it joins later */
    uint64_t final;
    uint64_t checkpoint_number, checkpoint_committed;
};

/* The writing of a checkpoint's file. */
struct world_write {
    struct partition *partition;
    uint64_t number, clock;
    bool copy;
    unsigned count;
};

struct world {
    struct job job;
    struct fake_io ios[SERVERS];
    struct server servers[SERVERS];
    bool down[SERVERS];
    const char *resume;
    struct partition *reference;
    struct image images[CLOCKS + 1]; /* by clock */
    struct world_network network;
    struct world_heard heard;
    struct world_plan plan;
    struct world_write write;
};

/* ---- The network ---- */

static unsigned server_number(actor_id actor) {
    for (unsigned s = 0; s < SERVERS; s++) {
        if (actor_node(actor) == actor_node(server_id(s))) {
            return s;
        }
    }
    return SERVERS;
}

static void hear(struct heard *heard, const struct message *message) {
    message_close(&heard->message);
    heard->message = message_share(message);
    heard->any = true;
}

static void outside_receive(struct world *world, actor_id from, actor_id to, const struct message *message) {
    unsigned server = server_number(from);
    struct rows_view views[WIRE_TABLES_MAX];
    switch ((unsigned)message->type) {
    case MESSAGE_REPLICAS:
        assert_int_equal(to, actor_node(from));
        hear(&world->heard.replicas[server], message);
        break;
    case MESSAGE_WRITTEN:
        hear(&world->heard.written[server], message);
        break;
    case MESSAGE_FAIL:
        world->heard.failures++;
        world->heard.failure = message->text.code;
        break;
    case MESSAGE_ACCUSE:
        assert_int_equal(to, actor_node(from));
        hear(&world->heard.accused[server], message);
        world->heard.accusations++;
        break;
    case MESSAGE_ROWS:
        world->heard.scanned++;
        break;
    default:
        assert_int_equal(message->type, MESSAGE_PUSH);
        struct heard *heard = &world->heard.pushed[to == origins[0] ? 0 : 1][server];
        hear(heard, message);
        int count = rows_check(message, world->job.shapes, TABLES, views, NULL);
        assert_true(count >= 0);
        while (count-- > 0) {
            heard->rows += views[count].count;
        }
    }
}

/* Delivers messages until none is under way. */
static void settle(struct world *world) {
    unsigned steps = 0;
    for (struct fake_sent next; fake_io_next(&world->network.io, &next); steps++) {
        assert_true(steps < 100000);
        actor_id from = next.from, to = next.to;
        CLOSED_BY(message_close) struct message message = next.message;
        world->network.sent[message.type]++;
        unsigned s = server_number(to);
        if (message.type == world->network.lose && world->network.lose_count > 0) {
            world->network.lose_count--;
        } else if (s == SERVERS || to != server_id(s)) {
            outside_receive(world, from, to, &message);
        } else if (!world->down[s]) {
            server_receive(&world->servers[s], from, &message);
        }
    }
}

static void pass(struct world *world, uint64_t us) {
    uint64_t until = world->network.io.now_us + us;
    for (;;) {
        unsigned next = SERVERS;
        for (unsigned s = 0; s < SERVERS; s++) {
            uint64_t at = world->ios[s].timer_us;
            if (!world->down[s] && at != 0 && at <= until && (next == SERVERS || at < world->ios[next].timer_us)) {
                next = s;
            }
        }
        if (next == SERVERS) {
            break;
        }
        world->network.io.now_us =
            world->ios[next].timer_us > world->network.io.now_us ? world->ios[next].timer_us : world->network.io.now_us;
        world->ios[next].timer_us = 0;
        server_timer(&world->servers[next]);
        settle(world);
    }
    world->network.io.now_us = until;
}

/* ---- The job ---- */

static void hook_write(void *context, struct partition *partition, const struct message_checkpoint *checkpoint,
                       bool copy) {
    struct world *world = context;
    assert_string_equal(checkpoint->path, "/checkpoint");
    world->write.partition = partition;
    world->write.clock = checkpoint->clock;
    world->write.number = checkpoint->number;
    world->write.copy = copy;
    world->write.count++;
}

/* Reads a checkpoint whose rows are the reference's. */
static int hook_read(void *context, struct partition *partition, const char *path, uint64_t clock,
                     struct error *error) {
    struct world *world = context;
    assert_string_equal(path, "/resume");
    assert_int_equal(clock, world->reference->clock);
    for (unsigned t = 0; t < TABLES; t++) {
        partition_settle(world->reference, t);
        const struct table *from = &world->reference->tables[t];
        for (uint32_t slot = 0; slot < from->count; slot++) {
            int64_t to = table_slot(&partition->tables[t], table_key(from, slot));
            assert_true(to >= 0);
            memcpy(table_row(&partition->tables[t], (uint32_t)to), table_row(from, slot), from->spec->row_bytes);
            table_clocks(&partition->tables[t])[to] = table_clocks(from)[slot];
        }
    }
    partition_loaded(partition, clock);
    return 0;
}

static void job_add(struct job *job, enum aml_type type, enum aml_mode mode, uint64_t rows) {
    struct table_spec *spec = &job->tables[job->table_count];
    *spec = (struct table_spec){.name = "t",
                                .type = type,
                                .mode = mode,
                                .width = WIDTH,
                                .row_bytes = WIDTH * (uint32_t)aml_type_size(type),
                                .rows = rows};
    job->shapes[job->table_count++] = table_shape(spec);
}

static void world_close(void *context) {
    FREED struct world *world = context;
    assert_int_equal(world->heard.failures, 0);
    for (unsigned s = 0; s < SERVERS; s++) {
        server_close(&world->servers[s]);
        message_close(&world->heard.replicas[s].message);
        message_close(&world->heard.written[s].message);
        message_close(&world->heard.accused[s].message);
        for (unsigned o = 0; o < ORIGINS; o++) {
            message_close(&world->heard.pushed[o][s].message);
        }
    }
    fake_io_forget(&world->network.io);
    partition_close(world->reference);
}

static struct world *world_open(void) {
    struct world *world = memory_zeroed(1, sizeof *world);
    at_end(world_close, world);
    fake_io_open(&world->network.io);
    world->network.io.now_us = 1;
    job_add(&world->job, AML_INT64, AML_ADD, ROWS);
    job_add(&world->job, AML_FLOAT32, AML_ADD, 0);
    job_add(&world->job, AML_FLOAT64, AML_PUT, ROWS);
    world->job.staleness = 2;
    struct server_hooks hooks = {.write = hook_write, .read = hook_read, .context = world};
    for (unsigned s = 0; s < SERVERS; s++) {
        fake_io_join(&world->ios[s], &world->network.io, server_id(s));
        server_init(&world->servers[s], &world->ios[s].io, server_id(s), &world->job, &hooks);
    }
    world->reference = partition_open(&world->job, 0, 1, NULL);
    assert_non_null(world->reference);
    const struct wire_assignment assignments[] = {
        {.origin = origins[0], .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1},
        {.origin = origins[1], .from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1}};
    partition_expect(world->reference, assignments, ORIGINS);
    world->plan.epoch = 1;
    world->resume = "";
    return world;
}

static actor_id named(int s) {
    return s == NEVER ? ACTOR_NONE : server_id((unsigned)s);
}

static void place(struct world *world, int server, int backup, int next_server, int next_backup) {
    world->plan.placement = (struct wire_placement){.server = named(server),
                                                    .backup = named(backup),
                                                    .next_server = named(next_server),
                                                    .next_backup = named(next_backup)};
}

/* The present plan as a new version; both origins work in all clocks, or the second joins later. */
static struct message make_plan(struct world *world, uint64_t from_clock, uint32_t commit_every) {
    struct message plan = {.type = MESSAGE_PLAN, .epoch = world->plan.epoch, .frame_count = 5};
    plan.plan = (struct message_plan){.version = ++world->plan.version,
                                      .restore = world->plan.restore,
                                      .from_clock = from_clock,
                                      .commit_every = commit_every,
                                      .next_commit_every = commit_every,
                                      .window = 16,
                                      .partitions = 1,
                                      .shards = ORIGINS,
                                      .final = world->plan.final,
                                      .recoverable = !world->plan.traditional,
                                      .transient = world->plan.transient};
    memcpy(plan.plan.resume, world->resume, strlen(world->resume) + 1);
    struct wire_node nodes[SERVERS + ORIGINS + 1] = {{0}};
    struct wire_assignment assignments[ORIGINS] = {{0}};
    uint32_t shards[ORIGINS];
    for (unsigned s = 0; s < SERVERS; s++) {
        nodes[s] = (struct wire_node){.actor = actor_node(server_id(s)),
                                      .tier = world->plan.reliable[s] ? TIER_RELIABLE : TIER_TRANSIENT};
    }
    for (uint32_t o = 0; o < ORIGINS; o++) {
        nodes[SERVERS + o].actor = origins[o];
        assignments[o] = (struct wire_assignment){.origin = origins[o],
                                                  .from_clock = world->plan.restore + 1,
                                                  .until_clock = WIRE_CLOCK_NEVER,
                                                  .first = o,
                                                  .count = 1};
        shards[o] = o;
    }
    assignments[1].from_clock = world->plan.joins != 0 ? world->plan.joins : assignments[1].from_clock;
    nodes[SERVERS + ORIGINS].actor = world->plan.guest != ACTOR_NONE ? world->plan.guest : origins[0];
    plan.frames[0] = buffer_copy(nodes, sizeof nodes);
    plan.frames[1] = buffer_copy(&world->plan.placement, sizeof world->plan.placement);
    plan.frames[2] = buffer_copy(assignments, sizeof assignments);
    plan.frames[3] = buffer_copy(shards, sizeof shards);
    plan.frames[4] = buffer_new(0);
    return plan;
}

static void tell_plan(struct world *world, unsigned s, struct message *plan) {
    server_receive(&world->servers[s], actor_node(server_id(s)), plan);
}

/* Sends a new plan to all running servers. */
static void new_plan(struct world *world, uint64_t from_clock, uint32_t commit_every) {
    struct message plan = make_plan(world, from_clock, commit_every);
    for (unsigned s = 0; s < SERVERS; s++) {
        if (!world->down[s]) {
            tell_plan(world, s, &plan);
        }
    }
    message_close(&plan);
    settle(world);
}

/* Sends a plan with these replicas, which commits each clock and names no clock of a change. */
static void plan_placed(struct world *world, int server, int backup, int next_server, int next_backup) {
    place(world, server, backup, next_server, next_backup);
    new_plan(world, WIRE_CLOCK_NEVER, 1);
}

static void fence(struct world *world) {
    struct message message = {.type = MESSAGE_FENCE, .epoch = ++world->plan.epoch};
    for (unsigned s = 0; s < SERVERS; s++) {
        if (!world->down[s]) {
            server_receive(&world->servers[s], actor_node(server_id(s)), &message);
        }
    }
    settle(world);
}

/* An origin's flush of a clock, the same each time. Floats round, and a row to overwrite has one writer. */
static struct message make_flush(struct world *world, unsigned origin, uint64_t clock) {
    struct message flush = {.type = MESSAGE_FLUSH, .epoch = world->plan.epoch, .frame_count = 1};
    struct wire_directory_entry directory[TABLES];
    unsigned tables = 0;
    flush.flush.origin = origins[origin];
    flush.flush.clock = clock;
    for (unsigned t = 0; t < TABLES; t++) {
        uint64_t keys[KEYS];
        int64_t whole[KEYS * WIDTH];
        float real[KEYS * WIDTH];
        double wide[KEYS * WIDTH];
        uint32_t count = 0;
        for (uint64_t key = 0; key < KEYS; key++) {
            uint64_t random = hash_mix(clock * 1000 + t * 100 + key);
            if (t == 2 ? (key + clock / 4) % ORIGINS != origin || random % 3 == 0 : (random >> origin) % 2 == 0) {
                continue;
            }
            for (unsigned e = 0; e < WIDTH; e++) {
                int64_t value = (int64_t)(hash_mix(random + origin * 10 + e) % 2000001) - 1000000;
                whole[count * WIDTH + e] = value;
                real[count * WIDTH + e] = (float)value / 999.0F;
                wide[count * WIDTH + e] = (double)value / 999.0;
            }
            keys[count++] = key;
        }
        if (count > 0) {
            const void *values = t == 0 ? (const void *)whole : t == 1 ? (const void *)real : (const void *)wide;
            directory[tables++] = (struct wire_directory_entry){.table = t, .rows = count};
            flush.frames[flush.frame_count++] = buffer_copy(keys, count * sizeof keys[0]);
            flush.frames[flush.frame_count++] = buffer_copy(values, (size_t)count * world->job.tables[t].row_bytes);
        }
    }
    assert_true(tables > 0);
    flush.frames[0] = buffer_copy(directory, tables * sizeof directory[0]);
    return flush;
}

static void send_flush(struct world *world, unsigned s, unsigned origin, uint64_t clock, uint64_t committed) {
    struct message flush = make_flush(world, origin, clock);
    flush.flush.committed = committed;
    server_receive(&world->servers[s], origins[origin], &flush);
    message_close(&flush);
    settle(world);
}

static struct image image_of(struct partition *partition) {
    struct image image;
    memset(&image, 0, sizeof image);
    for (unsigned t = 0; t < TABLES; t++) {
        for (uint64_t key = 0; key < KEYS; key++) {
            int64_t slot = table_slot(&partition->tables[t], key);
            assert_true(slot >= 0);
            memcpy(image.rows[t][key], partition_row(partition, t, (uint32_t)slot),
                   partition->job->tables[t].row_bytes);
        }
    }
    return image;
}

/* The reference's image at a clock. */
static const struct image *image_at(struct world *world, uint64_t clock) {
    assert_true(clock <= CLOCKS);
    while (world->reference->clock < clock) {
        uint64_t next = world->reference->clock + 1;
        world->images[world->reference->clock] = image_of(world->reference);
        for (unsigned o = 0; o < ORIGINS; o++) {
            CLOSED_BY(message_close) struct message flush = make_flush(world, o, next);
            struct rows_view views[WIRE_TABLES_MAX];
            int count = rows_check(&flush, world->job.shapes, TABLES, views, NULL);
            assert_int_equal(
                partition_flush(world->reference, origins[o], next, 0, false, views, (unsigned)count, NULL),
                FLUSH_TAKEN);
        }
        assert_true(partition_advance(world->reference));
        world->images[next] = image_of(world->reference);
    }
    return &world->images[clock];
}

static struct partition *partition_at(struct world *world, unsigned s) {
    assert_non_null(world->servers[s].replicas);
    return world->servers[s].replicas[0].partition;
}

/* Checks that the replica's rows are those of `clock`. */
static void assert_state(struct world *world, unsigned s, uint64_t clock) {
    struct partition *partition = partition_at(world, s);
    assert_non_null(partition);
    assert_int_equal(partition->clock, clock);
    struct image image = image_of(partition);
    assert_memory_equal(&image, image_at(world, clock), sizeof image);
}

/* Flushes clocks `first` to `last` to server `s`. */
static void run_clocks(struct world *world, unsigned s, uint64_t first, uint64_t last, uint64_t committed) {
    for (uint64_t c = first; c <= last; c++) {
        for (unsigned o = 0; o < ORIGINS; o++) {
            send_flush(world, s, o, c, committed);
        }
    }
}

static void send_subscribe(struct world *world, unsigned s, unsigned origin, uint64_t request, uint64_t known,
                           bool again) {
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .epoch = world->plan.epoch, .frame_count = 1 + TABLES};
    struct wire_directory_entry directory[TABLES];
    uint64_t keys[KEYS];
    for (uint64_t key = 0; key < KEYS; key++) {
        keys[key] = key;
    }
    for (unsigned t = 0; t < TABLES; t++) {
        directory[t] = (struct wire_directory_entry){.table = t, .rows = KEYS};
        subscribe.frames[1 + t] = buffer_copy(keys, sizeof keys);
    }
    subscribe.frames[0] = buffer_copy(directory, sizeof directory);
    subscribe.subscribe.request = request;
    subscribe.subscribe.known = known;
    subscribe.subscribe.again = again;
    server_receive(&world->servers[s], origins[origin], &subscribe);
    message_close(&subscribe);
    settle(world);
}

static const struct message_push *last_push(const struct world *world, unsigned origin, unsigned s) {
    assert_true(world->heard.pushed[origin][s].any);
    return &world->heard.pushed[origin][s].message.push;
}

static uint64_t durable(const struct world *world, unsigned s) {
    return world->servers[s].replicas[0].durable;
}

static uint64_t durable_from(const struct world *world, unsigned s) {
    return world->servers[s].replicas[0].durable_from;
}

static bool in_step(const struct world *world, unsigned s) {
    return world->heard.replicas[s].any && world->heard.replicas[s].message.replicas.version == world->plan.version &&
           world->heard.replicas[s].message.replicas.in_step;
}

/* ---- Following ---- */

/* Sends a piece of a flush: the rows of one of its tables. The last table's rows are the last piece. */
static void send_piece(struct world *world, unsigned s, unsigned origin, uint64_t clock, uint32_t piece) {
    struct message flush = make_flush(world, origin, clock);
    const struct wire_directory_entry *directory = (const void *)flush.frames[0]->data;
    uint32_t pieces = (flush.frame_count - 1) / 2;
    assert_true(piece < pieces);
    struct message part = {.type = MESSAGE_FLUSH, .epoch = flush.epoch, .flush = flush.flush, .frame_count = 3};
    part.flush.piece = piece;
    part.flush.more = piece + 1 < pieces;
    part.frames[0] = buffer_copy(&directory[piece], sizeof *directory);
    part.frames[1] = buffer_hold(flush.frames[1 + 2 * piece]);
    part.frames[2] = buffer_hold(flush.frames[2 + 2 * piece]);
    server_receive(&world->servers[s], origins[origin], &part);
    message_close(&part);
    message_close(&flush);
    settle(world);
}

/* The number of pieces that the server has of the origin's next flush. */
static uint32_t pieces_at(struct world *world, unsigned s, unsigned origin) {
    struct message pull = {.type = MESSAGE_PULL, .epoch = world->plan.epoch, .pull = {.number = 1}};
    server_receive(&world->servers[s], origins[origin], &pull);
    settle(world);
    return last_push(world, origin, s)->pieces;
}

TEST(pieces_of_flushes) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    plan_placed(world, 0, 1, 0, 1);
    send_subscribe(world, 0, 0, 1, 0, false);
    send_piece(world, 0, 0, 1, 0);
    send_piece(world, 0, 0, 1, 0);
    assert_int_equal(pieces_at(world, 0, 0), 1);
    send_flush(world, 0, 1, 1, 0);
    assert_int_equal(partition_at(world, 0)->clock, 0);
    send_piece(world, 0, 0, 1, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 1); /* a plan without a new epoch drops nothing */
    assert_int_equal(pieces_at(world, 0, 0), 2);
    send_piece(world, 0, 0, 1, 2);
    assert_int_equal(pieces_at(world, 0, 0), 0);
    assert_int_equal(last_push(world, 0, 0)->received, 1);
    assert_state(world, 0, 1);
    /* A recovery: either all pieces of a clock count or none. */
    send_piece(world, 0, 0, 2, 0);
    send_piece(world, 0, 0, 2, 1);
    fence(world);
    world->plan.restore = 1;
    new_plan(world, 0, 1);
    send_subscribe(world, 0, 0, 2, 1, false);
    assert_int_equal(pieces_at(world, 0, 0), 0);
    send_piece(world, 0, 0, 2, 2); /* only the last piece */
    send_flush(world, 0, 1, 2, 0);
    assert_int_equal(partition_at(world, 0)->clock, 1);
    for (uint32_t piece = 0; piece < TABLES; piece++) {
        send_piece(world, 0, 0, 2, piece);
    }
    assert_state(world, 0, 2);
    run_clocks(world, 0, 3, 3, 2);
    assert_state(world, 1, 2); /* the follower has the sums */
}

TEST(a_backup_follows) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    place(world, 0, 1, 0, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_true(in_step(world, 0) && in_step(world, 1) && in_step(world, 2));
    assert_true(server_serves(&world->servers[0], 0, 1));
    assert_false(server_serves(&world->servers[1], 0, 1));
    assert_null(partition_at(world, 2));
    send_subscribe(world, 0, 0, 1, 0, false);
    run_clocks(world, 0, 1, 4, 0);
    assert_state(world, 0, 4);
    assert_state(world, 1, 0); /* nothing is committed */
    assert_int_equal(partition_reached(partition_at(world, 1)), 4);
    assert_int_equal(durable(world, 0), 4);
    assert_int_equal(last_push(world, 0, 0)->clock, 4);
    assert_int_equal(last_push(world, 0, 0)->durable, 4); /* pushed although the clock did not advance */
    assert_int_equal(last_push(world, 0, 0)->from_clock, 4);
    run_clocks(world, 0, 5, 5, 2);
    assert_int_equal(last_push(world, 0, 0)->durable, 4); /* not a commit point */
    assert_int_equal(world->servers[1].committed, 0);
    run_clocks(world, 0, 6, 6, 4);
    assert_state(world, 1, 4); /* the update contains the committed clock */
    assert_int_equal(world->servers[0].replicas[0].followers[0].update_count, 0);
    /* Only restore points that may be needed are kept. */
    assert_int_equal(partition_at(world, 0)->points[0].clock, 4);
}

static int fail_steps(const struct aml_steps *steps, const void *parameters) {
    snprintf(steps->error, steps->error_bytes, "no");
    return AML_ESTOP; /* outside an optimizer: a user ended the node */
}

/* Rows that a failed optimizer leaves are not a state of the model: no follower, node or checkpoint gets them. */
TEST(rows_of_a_failed_optimizer_go_nowhere) {
    struct world *world = world_open();
    world->job.tables[0].apply_rows = fail_steps;
    world->plan.reliable[1] = true;
    plan_placed(world, 0, 1, 0, 1);
    send_subscribe(world, 0, 0, 1, 0, false);
    unsigned updates = world->network.sent[MESSAGE_UPDATE], pushes = world->network.sent[MESSAGE_PUSH];
    for (uint64_t clock = 1; clock <= 3; clock++) {
        run_clocks(world, 0, clock, clock, 0);
        assert_int_equal(partition_at(world, 0)->clock, 1);
        assert_int_equal(world->network.sent[MESSAGE_UPDATE], updates);
        assert_int_equal(world->network.sent[MESSAGE_PUSH], pushes);
    }
    assert_int_equal(world->heard.failures, 1);
    assert_int_equal(world->heard.failure, AML_EFAIL);
    world->heard.failures = 0;
}

TEST(a_new_replica_is_copied_while_flushes_come) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 5, 4);
    assert_int_equal(durable(world, 0), 5);
    place(world, 0, NEVER, 2, 0);
    struct message plan = make_plan(world, WIRE_CLOCK_NEVER, 3);
    /* server 2 requests its copy without success, as server 0 does not have this plan yet */
    tell_plan(world, 2, &plan);
    settle(world);
    assert_false(in_step(world, 2));
    tell_plan(world, 0, &plan);
    tell_plan(world, 1, &plan);
    world->network.lose = MESSAGE_UPDATE;
    world->network.lose_count = 1;
    pass(world, SERVER_FOLLOW_RETRY_MAX_US);
    message_close(&plan);
    assert_false(in_step(world, 2)); /* 5 is not a commit point of this plan: the final update comes at 6 */
    run_clocks(world, 0, 6, 6, 5);
    assert_true(in_step(world, 2));
    assert_state(world, 2, 6);
    assert_false(server_serves(&world->servers[2], 0, 7));
    run_clocks(world, 0, 7, 9, 9);
    run_clocks(world, 0, 10, 12, 9);
    assert_int_equal(partition_reached(partition_at(world, 2)), 12);
    assert_state(world, 2, 9);
}

/* Receives a FOLLOW or a PULL, and counts the rows of the answer. */
static unsigned rows_sent(struct world *world, actor_id from, struct message *message, struct message *answer) {
    struct rows_view views[WIRE_TABLES_MAX];
    unsigned rows = 0;
    message->epoch = world->plan.epoch;
    assert_int_equal(world->network.io.count, 0);
    server_receive(&world->servers[0], from, message);
    assert_int_equal(world->network.io.count, 1);
    *answer = world->network.io.sent[0].message; /* the queue still owns its frames */
    int count = rows_check(answer, world->job.shapes, TABLES, views, NULL);
    assert_true(count >= 0);
    while (count-- > 0) {
        rows += views[count].count;
    }
    fake_io_forget(&world->network.io);
    return rows;
}

/* Messages may be under way for a long time: rows are sent again only if the receiver reports them lost. */
TEST(repeats_are_small) {
    struct world *world = world_open();
    struct message answer;
    world->plan.reliable[1] = true;
    plan_placed(world, 0, 1, 0, 1);
    send_subscribe(world, 0, 0, 1, 0, false);
    world->down[1] = true;
    run_clocks(world, 0, 1, 3, 0);
    struct message pull = {.type = MESSAGE_PULL, .pull = {.number = 7, .clock = 1}};
    assert_int_equal(rows_sent(world, origins[0], &pull, &answer), 0);
    assert_int_equal(answer.push.from_clock, 3); /* rows were sent up to this clock */
    assert_int_equal(answer.push.clock, 3);
    assert_int_equal(answer.push.received, 3);
    assert_int_equal(answer.push.pull, 7);
    pull.pull.again = 1;
    assert_true(rows_sent(world, origins[0], &pull, &answer) > 0);
    assert_int_equal(answer.push.from_clock, 1);
    assert_int_equal(answer.push.clock, 3);
    pull.pull.number = 8;
    /* a worker without a subscription only learns that the server is there */
    assert_int_equal(rows_sent(world, origins[1], &pull, &answer), 0);
    assert_int_equal(answer.push.pull, 8);
    struct message follow = {.type = MESSAGE_FOLLOW, .follow = {.number = 9, .caught_up = 1, .clock = 2}};
    follow.epoch = world->plan.epoch;
    server_receive(&world->servers[0], server_id(1), &follow); /* an acknowledgement: no answer */
    settle(world);
    assert_int_equal(durable(world, 0), 2);
    assert_int_equal(rows_sent(world, server_id(1), &follow, &answer), 0);
    assert_int_equal(answer.update.follow, 9);
    assert_int_equal(answer.update.piece, 0);
    assert_int_equal(answer.update.from_clock, 2);
    assert_int_equal(answer.update.clock, 3);
    follow.follow.again = 1;
    assert_true(rows_sent(world, server_id(1), &follow, &answer) > 0);
    assert_int_equal(answer.update.follow, 0);
    assert_int_equal(answer.update.from_clock, 2);
    assert_int_equal(answer.update.clock, 3);
}

/* The same for the pieces of a copy, and for the update that completes it. */
TEST(repeats_of_a_copy_are_small) {
    struct world *world = world_open();
    struct message answer;
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 5, 4);
    place(world, 0, NEVER, 2, 0);
    world->down[2] = true;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    struct message follow = {.type = MESSAGE_FOLLOW, .follow = {.number = 1}};
    assert_true(rows_sent(world, server_id(2), &follow, &answer) > 0);
    assert_int_equal(answer.update.follow, 0);
    assert_int_equal(rows_sent(world, server_id(2), &follow, &answer), 0);
    assert_int_equal(answer.update.follow, 1);
    assert_int_equal(answer.update.piece, 1);
    assert_int_equal(answer.update.from_clock, 5);
    assert_int_equal(answer.update.cursor, 0);
    follow.follow.again = 1;
    assert_true(rows_sent(world, server_id(2), &follow, &answer) > 0);
    assert_int_equal(answer.update.piece, 1);
    /* The follower has all pieces. The changes since 5 are empty, but the update with them may be lost like any
     * other. */
    follow.follow = (struct message_follow){.number = 3, .clock = 5, .cursor = UINT64_MAX};
    assert_int_equal(rows_sent(world, server_id(2), &follow, &answer), 0);
    assert_int_equal(answer.update.follow, 0);
    assert_int_equal(rows_sent(world, server_id(2), &follow, &answer), 0);
    assert_int_equal(answer.update.follow, 3);
    assert_int_equal(answer.update.piece, 0);
    assert_int_equal(answer.update.from_clock, 5);
    follow.follow.again = 1;
    rows_sent(world, server_id(2), &follow, &answer);
    assert_int_equal(answer.update.follow, 0);
    assert_int_equal(answer.update.clock, 5);
}

/* A follower gets an answer that lists what was sent to it. */
TEST(a_follower_asks_again_once) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    plan_placed(world, 0, 1, 0, 1);
    run_clocks(world, 0, 1, 2, 0);
    world->down[0] = true;
    pass(world, 3 * SERVER_FOLLOW_RETRY_US);
    struct message sent = {.type = MESSAGE_UPDATE, .epoch = 1, .update = {.from_clock = 1, .clock = 2}};
    sent.update.follow = world->servers[1].replicas[0].following.number;
    world->network.sent[MESSAGE_FOLLOW] = 0;
    server_receive(&world->servers[1], server_id(0), &sent); /* the follower has this update */
    settle(world);
    assert_int_equal(world->network.sent[MESSAGE_FOLLOW], 0);
    sent.update.clock = 4;
    for (unsigned i = 0; i < 2; i++) {
        server_receive(&world->servers[1], server_id(0), &sent);
    }
    assert_int_equal(world->network.io.count, 1);
    assert_int_equal(world->network.io.sent[0].message.follow.again, 1);
    assert_int_equal(world->network.io.sent[0].message.follow.clock, 2);
    settle(world);
    pass(world, SERVER_FOLLOW_RETRY_MAX_US); /* the request is lost */
    sent.update.follow = world->servers[1].replicas[0].following.number;
    server_receive(&world->servers[1], server_id(0), &sent);
    assert_int_equal(world->network.io.count, 1);
    assert_int_equal(world->network.io.sent[0].message.follow.again, 1);
    settle(world);
    world->down[0] = false;
}

TEST(a_lost_update_is_sent_again) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    plan_placed(world, 0, 1, 0, 1);
    run_clocks(world, 0, 1, 1, 0);
    world->network.lose = MESSAGE_UPDATE;
    world->network.lose_count = 1;
    run_clocks(world, 0, 2, 4, 0);
    assert_int_equal(partition_reached(partition_at(world, 1)), 1);
    assert_int_equal(durable(world, 0), 1);
    assert_false(in_step(world, 1)); /* it knows of clock 4 */
    pass(world, SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(partition_reached(partition_at(world, 1)), 4);
    assert_true(in_step(world, 1));
    assert_int_equal(durable(world, 0), 4);
    world->network.lose = MESSAGE_FOLLOW;
    world->network.lose_count = 1;
    run_clocks(world, 0, 5, 5, 4);
    assert_int_equal(durable(world, 0), 4);
    pass(world, SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(durable(world, 0), 5);
    assert_state(world, 1, 4);
}

/* ---- Impossible messages ---- */

/* Server `s` has just received an impossible message from the node of `sender`. It reports this once, and no failure
 * of its own. */
static void expect_accused(struct world *world, unsigned s, actor_id sender, const char *what) {
    assert_int_equal(world->heard.accusations, 1);
    assert_int_equal(world->heard.failures, 0);
    assert_int_equal(world->heard.accused[s].message.accuse.accused, actor_node(sender));
    assert_int_equal(world->heard.accused[s].message.epoch, world->plan.epoch);
    assert_string_equal(world->heard.accused[s].message.accuse.text, what);
    world->heard.accusations = 0;
    world->servers[s].accused = false; /* allows another accusation, as in a new epoch */
}

/* Server 0 receives the message from the node, twice. */
static void give(struct world *world, actor_id from, struct message *message) {
    message->epoch = world->plan.epoch;
    server_receive(&world->servers[0], from, message);
    server_receive(&world->servers[0], from, message);
    message_close(message);
    settle(world);
}

/* Only the node itself may deliver its worker's flush. */
TEST(a_flush_in_the_name_of_another_changes_nothing) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message forged = make_flush(world, 0, 1);
    give(world, origins[1], &forged);
    expect_accused(world, 0, origins[1], "FLUSH: partition 0, in the name of another node");
    assert_int_equal(partition_received(partition_at(world, 0), origins[0]), 0);
    run_clocks(world, 0, 1, 5, 4);
    assert_state(world, 0, 5);
}

/* Overwritten rows are kept until the clock is complete; the rows of thousands of pieces would be too many. */
TEST(only_the_last_piece_puts) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message piece = make_flush(world, 0, 1);
    piece.flush.more = 1;
    give(world, origins[0], &piece);
    expect_accused(world, 0, origins[0],
                   "FLUSH: partition 0, table t: rows are put by a piece that is not the last one");
    run_clocks(world, 0, 1, 5, 4);
    assert_state(world, 0, 5);
}

/* Clocks without work come with the flush of the next one. Those that have come before are not taken again. */
TEST(clocks_without_work_come_in_one_flush) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 2, 1);
    struct message before = make_flush(world, 0, 3);
    give(world, origins[0], &before);
    for (unsigned o = 0; o < ORIGINS; o++) {
        for (unsigned times = 0; times < 2; times++) {
            struct message flush = make_flush(world, o, 6);
            flush.flush.idle = 3;
            give(world, origins[o], &flush);
        }
        assert_int_equal(partition_received(partition_at(world, 0), origins[o]), 6);
        assert_int_equal(partition_at(world, 0)->clock, o + 1 < ORIGINS ? 2 : 6);
    }
    struct message forged = make_flush(world, 0, 7);
    forged.flush.idle = 7;
    give(world, origins[0], &forged);
    expect_accused(world, 0, origins[0], "FLUSH: partition 0, with 7 clocks before clock 7");
}

/* A flush with one bad row in its last table is dropped as a whole: not even its other rows are made. The same flush
 * without the bad row is accepted. */
TEST(a_bad_flush_is_its_senders) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    const struct partition *partition = partition_at(world, 0);
    uint32_t rows = partition->tables[0].count + partition->tables[1].count + partition->tables[2].count;
    struct message flush = make_flush(world, 0, 1);
    unsigned last = flush.frame_count - 1;
    uint64_t *keys = (uint64_t *)(void *)flush.frames[last - 1]->data;
    keys[flush.frames[last - 1]->size / sizeof *keys - 1] = UINT64_MAX - 1; /* key of a row in a dense table */
    give(world, origins[0], &flush);
    expect_accused(world, 0, origins[0],
                   "FLUSH: partition 0, table t: key 18446744073709551614 is not a row of partition 0");
    flush = make_flush(world, 0, 1);
    flush.frames[flush.frame_count - 1]->size--;
    give(world, origins[0], &flush);
    assert_int_equal(world->heard.accusations, 1);
    world->servers[0].accused = false;
    world->heard.accusations = 0;
    flush = make_flush(world, 0, 1);
    ((struct wire_directory_entry *)(void *)flush.frames[0]->data)->encoding = WIRE_SPARSE;
    give(world, origins[0], &flush);
    expect_accused(world, 0, origins[0], "FLUSH: partition 0, table 0: encoding 2 is not allowed here");
    assert_int_equal(partition->tables[0].count + partition->tables[1].count + partition->tables[2].count, rows);
    assert_int_equal(partition_received(partition_at(world, 0), origins[0]), 0);
    run_clocks(world, 0, 1, 5, 4);
    assert_state(world, 0, 5);
    assert_int_equal(world->heard.accusations, 0);
}

/* The values of table `t` in a flush, which must contain the table. */
static unsigned char *flushed_values(const struct message *flush, unsigned t) {
    const struct wire_directory_entry *directory = (const void *)flush->frames[0]->data;
    unsigned v = 0;
    while (directory[v].table != t) {
        v++;
    }
    return flush->frames[2 + 2 * v]->data;
}

/* Only in jobs that reject NaNs, and only in floating point tables. */
TEST(numbers_that_are_none_are_the_senders_failure) {
    static const float infinite = INFINITY;
    static const double none = NAN;
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    world->job.reject_nan = true;
    struct message flush = make_flush(world, 0, 1);
    memcpy(flushed_values(&flush, 1) + sizeof infinite, &infinite, sizeof infinite);
    give(world, origins[0], &flush);
    assert_int_equal(world->heard.accusations, 1);
    assert_non_null(strstr(world->heard.accused[0].message.accuse.text, "has a NaN or an infinity"));
    world->heard.accusations = 0;
    world->servers[0].accused = false;
    flush = make_flush(world, 0, 1);
    memcpy(flushed_values(&flush, 2), &none, sizeof none);
    give(world, origins[0], &flush);
    assert_int_equal(world->heard.accusations, 1);
    assert_int_equal(partition_received(partition_at(world, 0), origins[0]), 0);
    flush = make_flush(world, 0, 1);
    memset(flushed_values(&flush, 0), 0xFF, sizeof(int64_t)); /* in a table of whole numbers */
    give(world, origins[0], &flush);
    assert_int_equal(world->heard.accusations, 1);
    assert_int_equal(partition_received(partition_at(world, 0), origins[0]), 1);
    world->job.reject_nan = false;
    flush = make_flush(world, 0, 2);
    memcpy(flushed_values(&flush, 2), &none, sizeof none);
    give(world, origins[0], &flush);
    assert_int_equal(partition_received(partition_at(world, 0), origins[0]), 2);
}

TEST(a_bad_subscription_is_its_senders) {
    static const struct wire_directory_entry entry = {.table = 2, .rows = 1};
    static const uint64_t key = UINT64_MAX - 1;
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .subscribe.request = 1, .frame_count = 2};
    subscribe.frames[0] = buffer_copy(&entry, sizeof entry);
    subscribe.frames[1] = buffer_copy(&key, sizeof key);
    give(world, origins[0], &subscribe);
    expect_accused(world, 0, origins[0],
                   "SUBSCRIBE: partition 0, table t: key 18446744073709551614 is not a row of partition 0");
    assert_null(partition_subscription(partition_at(world, 0), origins[0]));
    send_subscribe(world, 0, 0, 1, 0, false);
    assert_int_equal(last_push(world, 0, 0)->request, 1);
}

/* A node can't multiply its subscriptions by the parts of its process: only its worker subscribes. */
TEST(only_workers_subscribe) {
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .subscribe.request = 1};
    give(world, actor_of_part(origins[0], 9), &subscribe);
    expect_accused(world, 0, origins[0], "SUBSCRIBE: partition 0, a subscription of part 9, which is no worker");
    assert_int_equal(partition_at(world, 0)->subscription_count, 0);
}

/* What comes before its plan is kept up to a number of bytes; the senders repeat the rest. */
TEST(what_comes_too_early_is_kept_within_bounds) {
    enum { MESSAGES = 12, BYTES = SERVER_EARLY_BYTES_MAX / 8 };
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message early = {.type = MESSAGE_FLUSH, .epoch = world->plan.epoch + 1, .frame_count = 1};
    early.frames[0] = buffer_new(BYTES); /* shared, so that this test takes little memory */
    for (unsigned m = 0; m < MESSAGES; m++) {
        server_receive(&world->servers[0], origins[0], &early);
    }
    assert_int_equal(world->servers[0].early_count, 8);
    struct message fence = {.type = MESSAGE_FENCE, .epoch = world->plan.epoch + 2};
    server_receive(&world->servers[0], actor_node(server_id(0)), &fence);
    assert_int_equal(world->servers[0].early_count, 0);
    assert_int_equal(world->servers[0].early_bytes, 0);
    message_close(&early);
}

/* A follower drops a bad update, and accepts the right update later. */
TEST(a_bad_update_is_its_senders) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 1, 0, 1, 0);
    struct message flush = make_flush(world, 0, 1);
    struct message update = {.type = MESSAGE_UPDATE, .frame_count = flush.frame_count};
    memcpy(update.frames, flush.frames, sizeof flush.frames);
    update.update.clock = 1;
    unsigned last = update.frame_count - 1;
    *(uint64_t *)(void *)update.frames[last - 1]->data = UINT64_MAX - 1;
    give(world, server_id(1), &update);
    expect_accused(world, 0, server_id(1),
                   "UPDATE: partition 0, table t: key 18446744073709551614 is not a row of partition 0");
    assert_int_equal(partition_reached(partition_at(world, 0)), 0);
    run_clocks(world, 1, 1, 5, 4);
    assert_int_equal(partition_reached(partition_at(world, 0)), 5);
    assert_int_equal(world->heard.accusations, 0);
}

/* A sender that is not in the plan learns at most that the server is there, and is not accused. */
TEST(strangers_get_nothing) {
    const actor_id stranger = (actor_id)77 << ACTOR_PART_BITS;
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 3, 0);
    struct message scan = {.type = MESSAGE_SCAN, .scan = {.table = 0}};
    give(world, stranger, &scan);
    scan.scan.min_clock = 9;
    give(world, stranger, &scan);
    struct message follow = {.type = MESSAGE_FOLLOW, .follow.number = 1};
    give(world, stranger, &follow);
    struct message flush = {.type = MESSAGE_FLUSH, .flush = {.origin = stranger, .clock = 4, .committed = 3}};
    give(world, stranger, &flush);
    flush.flush.origin = origins[0];
    give(world, stranger, &flush);
    assert_int_equal(world->heard.scanned, 0);
    assert_int_equal(world->servers[0].scan_count, 0);
    assert_int_equal(world->servers[0].committed, 0);
    assert_int_equal(world->heard.accusations, 0);
    scan.scan.min_clock = 0;
    give(world, origins[0], &scan);
    assert_int_equal(world->heard.scanned, 2);
    for (unsigned n = 0; n < 3; n++) { /* messages of an epoch whose plan has not arrived */
        struct message early = {.type = MESSAGE_SCAN, .epoch = world->plan.epoch + 1};
        server_receive(&world->servers[0], n < 2 ? stranger : origins[0], &early);
    }
    assert_int_equal(world->servers[0].early_count, 1);
}

/* A server believes a worker's committed clock only as far as the server knows it to be possible. */
TEST(a_clock_is_not_committed_before_it_is_durable) {
    struct world *world = world_open();
    place(world, 0, 1, 0, 1);
    world->plan.reliable[1] = true;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    world->down[1] = true;
    for (uint64_t c = 1; c <= 5; c++) {
        send_flush(world, 0, 0, c, WIRE_CLOCK_NEVER);
        send_flush(world, 0, 1, c, c);
    }
    assert_int_equal(world->servers[0].committed, 0);
    world->down[1] = false;
    pass(world, SERVER_FOLLOW_RETRY_MAX_US);
    send_flush(world, 0, 0, 6, WIRE_CLOCK_NEVER);
    assert_int_equal(world->servers[0].committed, 5);
}

/* A follower that does not answer costs a bounded number of updates, and later gets one update for all. */
TEST(a_deaf_follower_is_caught_up) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, 1, 0, 1);
    world->down[1] = true;
    for (uint64_t c = 1; c <= 3 * SERVER_UPDATES_MAX; c++) {
        for (unsigned o = 0; o < ORIGINS; o++) {
            struct message flush = {.type = MESSAGE_FLUSH, .epoch = 1};
            flush.flush.origin = origins[o];
            flush.flush.clock = c;
            server_receive(&world->servers[0], origins[o], &flush);
            settle(world);
        }
        assert_true(world->servers[0].replicas[0].followers[0].update_count <= SERVER_UPDATES_MAX);
    }
    world->down[1] = false;
    world->network.sent[MESSAGE_UPDATE] = 0;
    pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(partition_reached(partition_at(world, 1)), 3 * SERVER_UPDATES_MAX);
    assert_true(world->network.sent[MESSAGE_UPDATE] <= 2 * SERVER_UPDATES_MAX);
}

/* ---- Changes of the server at a clock ---- */

TEST(another_server_takes_over) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    send_subscribe(world, 0, 0, 1, 0, false);
    run_clocks(world, 0, 1, 5, 4);
    place(world, 0, NEVER, 2, 0); /* from stage 1 to 2: the old server becomes the backup */
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    assert_true(in_step(world, 2));
    send_subscribe(world, 2, 0, 7, 5, false);
    assert_int_equal(last_push(world, 0, 2)->clock, 0); /* no state to push yet */
    assert_int_equal(last_push(world, 0, 2)->request, 7);
    assert_int_equal(world->heard.pushed[0][2].rows, 0);
    run_clocks(world, 0, 6, 7, 6);
    struct message plan = make_plan(world, 9, 4);
    tell_plan(world, 2, &plan);
    settle(world);
    send_flush(world, 2, 1, 9, 6); /* early */
    assert_true(server_serves(&world->servers[2], 0, 9));
    assert_false(server_serves(&world->servers[2], 0, 8));
    struct message pull = {.type = MESSAGE_PULL, .epoch = 1};
    pull.pull.clock = 5;
    server_receive(&world->servers[2], origins[0], &pull);
    settle(world);
    assert_int_equal(last_push(world, 0, 2)->clock, 5); /* the server is there */
    tell_plan(world, 0, &plan);
    tell_plan(world, 1, &plan);
    message_close(&plan);
    settle(world);
    assert_false(server_serves(&world->servers[0], 0, 9));
    send_flush(world, 0, 0, 9, 6); /* not accepted */
    run_clocks(world, 0, 8, 8, 6);
    assert_state(world, 0, 8);
    assert_state(world, 2, 8); /* a serving replica has this clock */
    assert_int_equal(world->servers[2].replicas[0].state, REPLICA_SERVING);
    assert_int_not_equal(world->servers[0].replicas[0].state, REPLICA_SERVING);
    assert_int_equal(last_push(world, 0, 0)->clock, 8);
    assert_int_equal(durable(world, 2), 8); /* the old server has it, and has reported it */
    send_flush(world, 2, 0, 9, 8);
    assert_state(world, 2, 9);
    assert_int_equal(last_push(world, 0, 2)->clock, 9);
    assert_true(world->heard.pushed[0][2].rows > 0);
    assert_int_equal(durable(world, 2), 9); /* the clock of the switch is a commit point */
    assert_state(world, 0, 8);
    run_clocks(world, 2, 10, 13, 9);
    assert_state(world, 0, 9);
    assert_int_equal(partition_reached(partition_at(world, 0)), 12);
    pull.pull.again = 1;
    server_receive(&world->servers[2], origins[0], &pull); /* for a clock before it served */
    settle(world);
    assert_int_equal(last_push(world, 0, 2)->from_clock, 5);
    assert_int_equal(last_push(world, 0, 2)->clock, 13);
    place(world, 2, 0, 2, 0);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    assert_true(in_step(world, 0) && in_step(world, 2));
    run_clocks(world, 2, 14, 16, 12);
    assert_state(world, 0, 12);
    assert_int_equal(partition_reached(partition_at(world, 0)), 16);
}

/* The clock of the switch is set when the partition has already reached it. */
TEST(a_boundary_that_is_reached_already) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    place(world, 0, 1, 0, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    run_clocks(world, 0, 1, 6, 0);
    place(world, 0, 1, 2, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    run_clocks(world, 0, 7, 10, 4);
    assert_true(in_step(world, 2));
    new_plan(world, 11, 4);
    assert_state(world, 2, 10); /* clock 10 became a commit point */
    assert_int_equal(partition_reached(partition_at(world, 1)), 10);
    assert_int_equal(durable(world, 0), 10);
    assert_int_equal(durable(world, 2), 10);
    run_clocks(world, 2, 11, 11, 4);
    assert_int_equal(durable(world, 2), 11);
    assert_state(world, 0, 10); /* the old server has no role after the switch */
    assert_true(in_step(world, 0));
    place(world, 2, 1, 2, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    assert_null(partition_at(world, 0));
    /* The new server can undo uncommitted clocks, even back to clock 8, which it had only as a follower. */
    fence(world);
    world->plan.restore = 8;
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    assert_state(world, 2, 8);
    assert_int_equal(partition_reached(partition_at(world, 1)), 8);
    run_clocks(world, 2, 9, 12, 8);
    assert_state(world, 2, 12);
}

/* ---- Failures ---- */

static void assert_restore_points(const struct world *world, unsigned s, const uint64_t *clocks, unsigned count) {
    const struct message *message = &world->heard.replicas[s].message;
    assert_true(message->replicas.fenced);
    assert_int_equal(message->epoch, world->plan.epoch);
    const struct wire_restore_point *restore_points = (const void *)message->frames[0]->data;
    assert_int_equal(message->frames[0]->size, count * sizeof *restore_points);
    for (unsigned c = 0; c < count; c++) {
        assert_int_equal(restore_points[c].server, server_id(s));
        assert_int_equal(restore_points[c].partition, 0);
        assert_int_equal(restore_points[c].clock, clocks[c]);
        assert_int_equal(restore_points[c].cache, 0);
    }
}

static struct world *fenced_world(void) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    place(world, 0, 1, 0, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    send_subscribe(world, 0, 0, 1, 0, false);
    run_clocks(world, 0, 1, 3, 0);
    run_clocks(world, 0, 4, 7, 2);
    send_flush(world, 0, 0, 8, 2); /* waits for the second origin */
    fence(world);
    assert_restore_points(world, 0, (const uint64_t[]){2, 4, 6, 7}, 4);
    assert_restore_points(world, 1, (const uint64_t[]){2, 4, 6}, 3);
    assert_false(server_serves(&world->servers[0], 0, 8));
    return world;
}

TEST(the_server_goes_back) {
    struct world *world = fenced_world();
    struct message old = make_flush(world, 1, 8);
    old.epoch = world->plan.epoch - 1;
    server_receive(&world->servers[0], origins[1], &old);
    message_close(&old);
    assert_state(world, 0, 7); /* the fenced server does not advance */
    world->plan.restore = 4;
    send_flush(world, 0, 1, 5, 2); /* a flush of the new epoch, before its plan: waits */
    send_subscribe(world, 0, 1, 1, 4, false);
    assert_int_equal(last_push(world, 1, 0)->request, 0); /* only shows that the server is there */
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_state(world, 0, 4);
    assert_state(world, 1, 2);
    assert_int_equal(partition_reached(partition_at(world, 1)), 4);
    assert_int_equal(last_push(world, 1, 0)->clock, 4);
    assert_int_equal(last_push(world, 1, 0)->received, 5);
    assert_int_equal(world->heard.pushed[1][0].rows, 0); /* the worker knows all of clock 4 */
    assert_null(partition_subscription(partition_at(world, 0), origins[0]));
    send_flush(world, 0, 0, 5, 2);
    run_clocks(world, 0, 6, 9, 2);
    assert_state(world, 0, 9);
    assert_int_equal(durable(world, 0), 8);
    run_clocks(world, 0, 10, 10, 8);
    assert_state(world, 1, 8);
}

/* A node was alone, so no restore points were kept. From the plan with a second node on, its server can restore
 * clocks, but none before that plan. */
TEST(the_server_goes_back_after_it_was_alone) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    world->plan.traditional = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 3, 2);
    assert_int_equal(partition_at(world, 0)->point_count, 0);
    world->plan.traditional = false;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    run_clocks(world, 0, 4, 5, 2);
    assert_int_equal(durable(world, 0), 5);
    fence(world);
    assert_restore_points(world, 0, (const uint64_t[]){3, 4, 5}, 3);
    world->plan.restore = 3;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    assert_state(world, 0, 3);
    run_clocks(world, 0, 4, 6, 5);
    assert_state(world, 0, 6);
    world->plan.traditional = true;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    assert_int_equal(partition_at(world, 0)->point_count, 0);
    run_clocks(world, 0, 7, 8, 7);
    assert_int_equal(durable(world, 0), 8);
    fence(world);
    assert_restore_points(world, 0, (const uint64_t[]){8}, 1);
}

/* An UPDATE as the server's agent makes it from its cache: with all rows of server 0's replica except `missing` rows
 * of table 0. */
static struct message make_given(struct world *world, uint64_t clock, uint32_t missing) {
    struct message update = {.type = MESSAGE_UPDATE, .epoch = world->plan.epoch, .update = {.clock = clock}};
    for (unsigned t = 0; t < TABLES; t++) {
        struct partition *partition = partition_at(world, 0);
        const struct table *table = &partition->tables[t];
        uint32_t count = table->count - (t == 0 ? missing : 0);
        struct buffer *keys = buffer_new(count * sizeof(uint64_t));
        partition_settle(partition, t);
        for (uint32_t slot = 0; slot < count; slot++) {
            ((uint64_t *)(void *)keys->data)[slot] = table_key(table, slot);
        }
        rows_append(&update, t, WIRE_FULL, keys, buffer_copy(table_row(table, 0), count * table->spec->row_bytes));
    }
    return update;
}

static void give_third(struct world *world, actor_id from, struct message *update) {
    server_receive(&world->servers[2], from, update);
    message_close(update);
}

/* Both copies are lost, and the cache of the third server's node has clock 7. */
TEST(a_lost_partition_is_served_from_the_cache) {
    struct world *world = fenced_world();
    struct message other = make_given(world, 6, 0); /* not of the restored clock */
    struct message given = make_given(world, 7, 0);
    world->down[0] = world->down[1] = true;
    world->plan.restore = 7;
    place(world, 2, NEVER, 2, NEVER);
    give_third(world, actor_node(server_id(2)), &other);
    give_third(world, actor_node(server_id(2)), &given);
    assert_null(world->servers[2].replicas[0].partition);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_int_equal(world->servers[2].replicas[0].state, REPLICA_SERVING);
    assert_state(world, 2, 7);
    assert_int_equal(world->servers[2].given_count, 0);
    run_clocks(world, 2, 8, 9, 2);
    assert_state(world, 2, 9);
    fence(world);
    assert_restore_points(world, 2, (const uint64_t[]){7, 8, 9}, 3);
    world->plan.restore = 7;
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_state(world, 2, 7); /* the state from the cache is a restore point */
}

/* The server accepts only a complete partition, only from its own agent, and only for the epoch in which it was
 * sent. */
TEST(what_a_cache_must_not_give) {
    for (unsigned c = 0; c < 4; c++) {
        struct world *world = fenced_world();
        struct message given = make_given(world, 7, c == 0 ? 1 : 0);
        given.epoch = c == 2 ? given.epoch - 1 : given.epoch;
        world->down[0] = world->down[1] = true;
        world->plan.restore = c == 3 ? 6 : 7;
        place(world, 2, NEVER, 2, NEVER);
        give_third(world, actor_node(server_id(c == 1 ? 1 : 2)), &given);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        assert_int_equal(world->heard.failures, 1); /* no state to serve */
        assert_null(world->servers[2].replicas[0].partition);
        world->heard.failures = 0;
    }
}

/* A partition from the cache is dropped when its epoch ends. */
TEST(what_was_given_ends_with_its_epoch) {
    struct world *world = fenced_world();
    struct message given = make_given(world, 7, 0);
    give_third(world, actor_node(server_id(2)), &given);
    assert_int_equal(world->servers[2].given_count, 1);
    fence(world);
    assert_int_equal(world->servers[2].given_count, 0);
}

TEST(the_backup_serves_when_the_server_is_lost) {
    struct world *world = fenced_world();
    world->down[0] = true;
    world->plan.restore = 6;
    place(world, 1, NEVER, 1, NEVER);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_state(world, 1, 6);
    assert_int_equal(world->servers[1].replicas[0].state, REPLICA_SERVING);
    run_clocks(world, 1, 7, 8, 2);
    assert_state(world, 1, 8);
    assert_int_equal(durable(world, 1), 8); /* durable, as the server itself is reliable */
    /* the next fence comes before any commit: all points can still be restored */
    fence(world);
    assert_restore_points(world, 1, (const uint64_t[]){2, 4, 6, 8}, 4);
    world->plan.restore = 4;
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_state(world, 1, 4);
    run_clocks(world, 1, 5, 5, 4);
    assert_state(world, 1, 5);
}

TEST(a_replica_that_can_not_be_put_there_follows_from_before) {
    struct world *world = fenced_world();
    world->plan.restore = 7;
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    assert_state(world, 0, 7);
    assert_state(world, 1, 2); /* restored to 6, but updates not committed are only held */
    assert_int_equal(partition_reached(partition_at(world, 1)), 7); /* 7 is a commit point of the new epoch */
    assert_true(in_step(world, 1));
    run_clocks(world, 0, 8, 8, 7);
    assert_state(world, 0, 8);
    run_clocks(world, 0, 9, 10, 7);
    assert_state(world, 1, 7);
    assert_int_equal(durable(world, 0), 10);
}

TEST(old_epochs_and_strangers_are_not_heard) {
    struct world *world = world_open();
    place(world, 0, NEVER, 0, NEVER);
    struct message plan = make_plan(world, WIRE_CLOCK_NEVER, 1);
    server_receive(&world->servers[0], actor_node(server_id(1)), &plan); /* not from its own agent */
    assert_int_equal(world->servers[0].partition_count, 0);
    send_flush(world, 0, 0, 1, 0); /* waits for the plan */
    tell_plan(world, 0, &plan);
    plan.plan.version--;
    world->plan.placement.server = server_id(1);
    tell_plan(world, 0, &plan); /* an older plan */
    message_close(&plan);
    settle(world);
    struct message stranger = {.type = MESSAGE_FENCE, .epoch = 5};
    server_receive(&world->servers[0], server_id(1), &stranger);
    send_flush(world, 0, 1, 1, 0);
    assert_state(world, 0, 1);
}

/* ---- Durable clocks ---- */

TEST(what_is_durable) {
    static const struct {
        bool traditional, reliable; /* of the server */
        int backup;
        uint64_t durable;                  /* after clock 3, with commit points every 2 clocks */
    } cases[] = {{false, true, NEVER, 2},  /* other replicas could not restore clock 3 */
                 {false, true, 1, 2},      /* stage transient */
                 {false, false, NEVER, 2}, /* no reliable node has it */
                 {false, false, 1, 2},
                 {true, false, NEVER, 3}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct world *world = world_open();
        world->plan.traditional = cases[c].traditional;
        world->plan.reliable[0] = cases[c].reliable;
        world->plan.reliable[1] = true;
        place(world, 0, cases[c].backup, 0, cases[c].backup);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        run_clocks(world, 0, 1, 3, 0);
        assert_int_equal(durable(world, 0), cases[c].durable);
        world->down[1] = true;
        run_clocks(world, 0, 4, 5, 0);
        bool waits = cases[c].backup != NEVER;
        uint64_t own = cases[c].traditional ? 5 : waits ? cases[c].durable : 4;
        assert_int_equal(durable(world, 0), own);
        assert_int_equal(partition_at(world, 0)->point_count > 0, !cases[c].traditional);
    }
}

/* A server without a backup is to be the next server's backup: clocks that the next server has are durable. */
TEST(durable_where_the_server_becomes_the_backup) {
    struct world *world = world_open();
    place(world, 0, NEVER, 1, 0);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    run_clocks(world, 0, 1, 3, 0);
    assert_int_equal(durable(world, 0), 2);
}

/* The present server, without a backup, becomes the next server's backup. The next server may have to wait for that
 * copy but never for its own, however late the committed clock is. */
TEST(a_next_server_does_not_wait_for_its_own_copy) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 1, 0);
    run_clocks(world, 0, 1, 39, 0);
    new_plan(world, 40, 1);
    pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
    run_clocks(world, 1, 40, 41, 0);
    assert_int_equal(partition_at(world, 1)->clock, 41);
}

/* Stage transient: a change removes the backups. A reliable next server that was not the backup can't confirm clocks
 * before the switch; the present server and its backup must have them. */
TEST(a_next_server_without_a_backup_waits_for_the_present_one) {
    for (int backup = 1; backup <= 2; backup++) {
        struct world *world = world_open();
        world->plan.reliable[0] = world->plan.reliable[2] = true;
        plan_placed(world, 0, backup, 2, NEVER);
        run_clocks(world, 0, 1, 2, 0);
        assert_int_equal(durable(world, 0), 2);
        world->down[1] = true;
        run_clocks(world, 0, 3, 3, 0);
        new_plan(world, 4, 1);
        assert_int_equal(world->servers[2].replicas[0].state, REPLICA_SERVING);
        assert_int_equal(durable(world, 2), backup == 2 ? 3 : 0);
        world->down[1] = false;
        pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
        assert_int_equal(durable(world, 0), 3);
        run_clocks(world, 2, 4, 4, 0);
        assert_int_equal(durable(world, 2), 4);
    }
}

/* A plan may make the present clock the last one after its state was pushed. The clock is then durable, and workers
 * are told. */
TEST(a_plan_that_makes_the_present_clock_durable_is_told_of) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    place(world, 0, NEVER, 0, NEVER);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    send_subscribe(world, 0, 0, 1, 0, false);
    run_clocks(world, 0, 1, 7, 4);
    assert_int_equal(last_push(world, 0, 0)->clock, 7);
    assert_int_equal(last_push(world, 0, 0)->durable, 4);
    world->plan.final = 7;
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    assert_int_equal(last_push(world, 0, 0)->durable, 7);
}

TEST(the_new_backup_counts_beyond_the_boundary) {
    struct world *world = world_open();
    world->plan.reliable[1] = world->plan.reliable[2] = true;
    plan_placed(world, 0, 1, 0, 2);
    run_clocks(world, 0, 1, 3, 0);
    assert_int_equal(durable(world, 0), 3);
    world->down[2] = true;
    run_clocks(world, 0, 4, 4, 0);
    assert_int_equal(durable(world, 0), 4); /* by the old backup */
    new_plan(world, 6, 1);
    run_clocks(world, 0, 5, 7, 0);
    assert_int_equal(durable(world, 0), 5); /* the old backup gets no later clocks */
    assert_int_equal(partition_reached(partition_at(world, 1)), 5);
    world->down[2] = false;
    pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(durable(world, 0), 7);
}

/* Commit points that a backup never had, or not one by one, are not durable. */
TEST(a_late_backup_can_be_put_at_what_it_got) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    world->down[1] = true;
    plan_placed(world, 0, NEVER, 0, 1);
    run_clocks(world, 0, 1, 3, 0);
    world->down[1] = false;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(durable(world, 0), 3);
    assert_int_equal(durable_from(world, 0), 3);
    run_clocks(world, 0, 4, 5, 0);
    assert_int_equal(durable(world, 0), 5);
    assert_int_equal(durable_from(world, 0), 3);
    world->down[1] = true; /* for longer than updates are kept */
    run_clocks(world, 0, 6, 6 + SERVER_UPDATES_MAX, 0);
    world->down[1] = false;
    pass(world, 4 * SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(durable(world, 0), 6 + SERVER_UPDATES_MAX);
    assert_int_equal(durable_from(world, 0), 6 + SERVER_UPDATES_MAX);
}

/* Where workers keep pushes, these include rows that the worker knows; elsewhere such rows are left out. */
TEST(pushes_are_whole_where_they_are_kept) {
    for (unsigned c = 0; c < 3; c++) {
        struct world *world = world_open();
        for (unsigned t = 0; t < TABLES; t++) {
            world->job.tables[t].whole = c != 1;
            world->job.tables[t].mode = AML_ADD;
        }
        world->plan.transient = c != 2;
        place(world, 0, NEVER, 0, NEVER);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        assert_int_equal(partition_at(world, 0)->pushes_all, c == 0);
    }
}

/* Stage transient: the only copy counts as durable until a backup has caught up. That holds when consecutive plans
 * name different backups, and between two commit points. */
TEST(an_only_copy_counts_while_a_backup_is_made) {
    for (int transient = 0; transient < 2; transient++) {
        struct world *world = world_open();
        world->plan.transient = transient != 0;
        place(world, 0, NEVER, 0, NEVER);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        run_clocks(world, 0, 1, 2, 0);
        assert_int_equal(durable(world, 0), 2);
        world->down[1] = world->down[2] = true;
        place(world, 0, NEVER, 0, 1);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        run_clocks(world, 0, 3, 5, 2);
        place(world, 0, NEVER, 0, 2);
        new_plan(world, WIRE_CLOCK_NEVER, 2);
        assert_int_equal(durable(world, 0), transient != 0 ? 4 : 2);
    }
}

/* A first backup makes clocks durable before the switch too, as the server has no other backup. */
TEST(a_first_backup_counts_at_once) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    plan_placed(world, 0, NEVER, 0, 1);
    world->down[1] = true;
    run_clocks(world, 0, 1, 2, 0);
    assert_int_equal(durable(world, 0), 0);
    world->down[1] = false;
    pass(world, 2 * SERVER_FOLLOW_RETRY_MAX_US);
    assert_int_equal(durable(world, 0), 2);
    assert_int_equal(durable_from(world, 0), 0); /* the backup existed from the start */
    run_clocks(world, 0, 3, 4, 0);
    assert_int_equal(durable(world, 0), 4);
    new_plan(world, 6, 1);
    run_clocks(world, 0, 5, 7, 0);
    assert_int_equal(durable(world, 0), 7);
}

/* ---- Checkpoints ---- */

static void ask_checkpoint_again(struct world *world, unsigned s, uint64_t number, uint64_t clock) {
    uint32_t partition = 0;
    struct message message = {.type = MESSAGE_CHECKPOINT, .epoch = world->plan.epoch, .frame_count = 1};
    message.checkpoint.number = number;
    message.checkpoint.clock = clock;
    message.checkpoint.committed = world->plan.checkpoint_committed;
    memcpy(message.checkpoint.path, "/checkpoint", sizeof "/checkpoint");
    message.frames[0] = buffer_copy(&partition, sizeof partition);
    world->heard.written[s].any = false;
    server_receive(&world->servers[s], actor_node(server_id(s)), &message);
    message_close(&message);
    settle(world);
    assert_true(world->heard.written[s].any); /* a request is always answered */
    assert_int_equal(world->heard.written[s].message.written.number, number);
}

/* Requests a new attempt. */
static void ask_checkpoint(struct world *world, unsigned s, uint64_t clock) {
    ask_checkpoint_again(world, s, ++world->plan.checkpoint_number, clock);
}

static void expect_written(const struct world *world, unsigned s, enum written_state state) {
    assert_int_equal(world->heard.written[s].message.written.state, state);
}

static void finish_write(struct world *world, unsigned s) {
    struct message_written written = {.number = world->write.number, .clock = world->write.clock, .bytes = 77};
    server_written(&world->servers[s], &written);
    settle(world);
    assert_int_equal(world->heard.written[s].message.written.bytes, 77);
    expect_written(world, s, WRITTEN_DONE);
}

TEST(a_follower_is_written_in_place) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    place(world, 0, 1, 0, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 2);
    ask_checkpoint(world, 1, 4);
    expect_written(world, 1, WRITTEN_PROMISED);
    ask_checkpoint_again(world, 1, 1, 4);
    expect_written(world, 1, WRITTEN_PROMISED);
    run_clocks(world, 0, 1, 8, 2);
    assert_int_equal(world->write.count, 0);
    run_clocks(world, 0, 9, 10, 8); /* passes 4, but only after writing it */
    assert_int_equal(world->write.count, 1);
    assert_int_equal(world->write.clock, 4);
    assert_false(world->write.copy);
    assert_ptr_equal(world->write.partition, partition_at(world, 1));
    assert_state(world, 1, 4);
    struct message plan = make_plan(world, WIRE_CLOCK_NEVER, 2); /* waits too */
    tell_plan(world, 1, &plan);
    message_close(&plan);
    settle(world);
    run_clocks(world, 0, 11, 12, 10);
    assert_state(world, 1, 4);
    assert_false(in_step(world, 1));
    ask_checkpoint(world, 1, 12); /* during the writing of the first */
    expect_written(world, 1, WRITTEN_REFUSED);
    finish_write(world, 1);
    assert_state(world, 1, 10);
    assert_true(in_step(world, 1));
    ask_checkpoint_again(world, 1, 1, 4); /* the answer was lost */
    expect_written(world, 1, WRITTEN_DONE);
    assert_int_equal(world->heard.written[1].message.written.bytes, 77);
    ask_checkpoint(world, 1, 4); /* a new attempt for a clock that is over */
    expect_written(world, 1, WRITTEN_REFUSED);
    ask_checkpoint(world, 1, 6); /* over */
    expect_written(world, 1, WRITTEN_REFUSED);
    ask_checkpoint(world, 1, 13); /* never a commit point */
    run_clocks(world, 0, 13, 16, 12);
    run_clocks(world, 0, 17, 18, 16);
    assert_int_equal(world->heard.written[1].message.written.clock, 13);
    assert_int_equal(world->heard.written[1].message.written.state, WRITTEN_REFUSED);
    assert_state(world, 1, 16);
    ask_checkpoint(world, 2, 20); /* no replica */
    assert_int_equal(world->heard.written[2].message.written.state, WRITTEN_REFUSED);
    assert_int_equal(world->write.count, 1);
}

/* After the last clock no flush brings the committed clock to a follower: the request for the checkpoint does. */
TEST(a_follower_is_written_at_the_last_clock) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    place(world, 0, 1, 0, 1);
    world->plan.final = 7;
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    run_clocks(world, 0, 1, 7, 4);
    assert_int_equal(durable(world, 0), 7); /* no multiple of 4, but the last clock */
    assert_state(world, 1, 4);
    world->plan.checkpoint_committed = 7;
    ask_checkpoint(world, 1, 7);
    assert_int_equal(world->write.count, 1);
    assert_int_equal(world->write.clock, 7);
    assert_state(world, 1, 7);
    finish_write(world, 1);
}

TEST(a_serving_replica_writes_a_copy) {
    struct world *world = world_open();
    world->plan.reliable[0] = true;
    plan_placed(world, 0, NEVER, 0, NEVER);
    ask_checkpoint(world, 0, 3);
    run_clocks(world, 0, 1, 5, 0);
    assert_int_equal(world->write.count, 1);
    assert_true(world->write.copy);
    struct image image = image_of(world->write.partition);
    assert_memory_equal(&image, image_at(world, 3), sizeof image);
    assert_state(world, 0, 5);
    partition_close(world->write.partition);
    finish_write(world, 0);
    ask_checkpoint(world, 0, 9);
    fence(world);
    world->plan.restore = 5;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    assert_int_equal(world->heard.written[0].message.written.clock, 9); /* the refused request was of a past epoch */
    expect_written(world, 0, WRITTEN_REFUSED);
}

TEST(a_job_goes_on_from_a_checkpoint) {
    struct world *world = world_open();
    world->plan.reliable[1] = true;
    image_at(world, 6);
    world->resume = "/resume";
    world->plan.restore = 6;
    place(world, 0, 1, 0, 1);
    new_plan(world, WIRE_CLOCK_NEVER, 4);
    assert_state(world, 0, 6);
    assert_state(world, 1, 6);
    assert_true(in_step(world, 1));
    run_clocks(world, 0, 7, 8, 6);
    assert_state(world, 0, 8);
    assert_int_equal(durable(world, 0), 8);
}

/* ---- Workers ---- */

/* A stranger may have a later plan than the server: it learns that the server is there, and repeats its request. */
TEST(subscriptions_of_who_left_are_dropped) {
    const actor_id guest = (actor_id)77 << ACTOR_PART_BITS;
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    send_subscribe(world, 0, 0, 1, 0, false);
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .epoch = 1};
    subscribe.subscribe.request = 1;
    server_receive(&world->servers[0], guest, &subscribe);
    assert_int_equal(world->network.io.count, 1);
    assert_int_equal(world->network.io.sent[0].message.type, MESSAGE_PUSH);
    assert_int_equal(world->network.io.sent[0].message.push.request, 0);
    assert_int_equal(world->network.io.sent[0].message.frame_count, 0);
    fake_io_forget(&world->network.io); /* drops the answer */
    assert_null(partition_subscription(partition_at(world, 0), guest));
    world->plan.guest = guest;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    server_receive(&world->servers[0], guest, &subscribe);
    fake_io_forget(&world->network.io);
    assert_int_equal(partition_subscription(partition_at(world, 0), guest)->needs_from, WIRE_CLOCK_NEVER);
    world->plan.guest = ACTOR_NONE;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    assert_null(partition_subscription(partition_at(world, 0), guest));
    assert_non_null(partition_subscription(partition_at(world, 0), origins[0]));
    assert_int_equal(partition_subscription(partition_at(world, 0), origins[0])->needs_from, 1);
}

/* A joining node has the state of its subscription, and gets the changes when its first clock comes next. */
TEST(a_node_that_gets_ready_is_left_alone) {
    struct world *world = world_open();
    struct message answer;
    place(world, 0, NEVER, 0, NEVER);
    world->plan.joins = WIRE_CLOCK_NEVER;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    run_clocks(world, 0, 1, 3, 0);
    send_subscribe(world, 0, 0, 1, 0, false);
    send_subscribe(world, 0, 1, 1, 0, false);
    assert_int_equal(last_push(world, 1, 0)->clock, 3);
    world->heard.pushed[1][0].rows = 0;
    run_clocks(world, 0, 4, 5, 0);
    assert_int_equal(last_push(world, 0, 0)->clock, 5);
    assert_int_equal(last_push(world, 1, 0)->clock, 3);
    struct message pull = {.type = MESSAGE_PULL, .pull = {.number = 1, .clock = 3}};
    assert_int_equal(rows_sent(world, origins[1], &pull, &answer), 0);
    assert_int_equal(answer.push.clock, 3);
    assert_int_equal(answer.push.subscribed, 1);
    world->plan.joins = 8;
    new_plan(world, 8, 1);
    run_clocks(world, 0, 6, 6, 0);
    assert_int_equal(last_push(world, 1, 0)->clock, 3);
    run_clocks(world, 0, 7, 7, 0);
    assert_int_equal(last_push(world, 1, 0)->from_clock, 3);
    assert_int_equal(last_push(world, 1, 0)->clock, 7);
    assert_true(world->heard.pushed[1][0].rows > 0);
    run_clocks(world, 0, 8, 8, 0);
    assert_int_equal(last_push(world, 1, 0)->clock, 8);
}

/* The plan with the node's first clock arrives when that clock comes next already. */
TEST(a_node_that_begins_at_once_is_told_at_once) {
    struct world *world = world_open();
    place(world, 0, NEVER, 0, NEVER);
    world->plan.joins = WIRE_CLOCK_NEVER;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    send_subscribe(world, 0, 1, 1, 0, false);
    run_clocks(world, 0, 1, 3, 0);
    assert_int_equal(last_push(world, 1, 0)->clock, 0);
    world->plan.joins = 4;
    new_plan(world, 4, 1);
    assert_int_equal(last_push(world, 1, 0)->from_clock, 0);
    assert_int_equal(last_push(world, 1, 0)->clock, 3);
}

TEST(who_serves_the_first_clock_pushes_what_came_before) {
    struct world *world = world_open();
    place(world, 0, NEVER, 1, NEVER);
    world->plan.joins = WIRE_CLOCK_NEVER;
    new_plan(world, WIRE_CLOCK_NEVER, 1);
    run_clocks(world, 0, 1, 3, 0);
    send_flush(world, 0, 0, 3, 3);
    struct message committed = {.type = MESSAGE_UPDATE, .epoch = 1, .update.committed = 3};
    server_receive(&world->servers[1], server_id(0), &committed);
    settle(world);
    send_subscribe(world, 0, 0, 1, 0, false);
    send_subscribe(world, 1, 0, 2, 3, false);
    assert_int_equal(last_push(world, 0, 1)->clock, 0); /* a working node gets its state from the present server */
    send_subscribe(world, 1, 1, 1, 0, false);
    assert_int_equal(last_push(world, 1, 1)->clock, 3); /* from the copy */
    assert_int_equal(world->heard.pushed[1][1].rows, TABLES * KEYS);
    world->heard.pushed[1][1].rows = 0;
    world->plan.joins = 6;
    new_plan(world, 6, 1);
    run_clocks(world, 0, 4, 5, 0);
    assert_int_equal(last_push(world, 0, 0)->clock, 5);
    assert_int_equal(last_push(world, 0, 1)->from_clock, 5); /* only the durable clock */
    assert_int_equal(last_push(world, 0, 1)->durable, 5);
    assert_false(world->heard.pushed[1][0].any);
    assert_int_equal(last_push(world, 1, 1)->from_clock, 3);
    assert_int_equal(last_push(world, 1, 1)->clock, 5);
    assert_true(world->heard.pushed[1][1].rows > 0);
    run_clocks(world, 1, 6, 6, 0);
    for (unsigned o = 0; o < ORIGINS; o++) {
        assert_int_equal(last_push(world, o, 1)->from_clock, 5);
        assert_int_equal(last_push(world, o, 1)->clock, 6);
    }
}

/* A replica that was dropped and opened again does not rely on the worker's view of the subscription. */
TEST(a_forgotten_subscription_is_told) {
    struct world *world = world_open();
    struct message answer;
    plan_placed(world, 0, NEVER, 0, NEVER);
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .subscribe = {.request = 5, .after = 4}};
    assert_int_equal(rows_sent(world, origins[0], &subscribe, &answer), 0);
    assert_int_equal(answer.push.request, 0);
    assert_null(partition_subscription(partition_at(world, 0), origins[0]));
    struct message pull = {.type = MESSAGE_PULL, .pull = {.number = 1}};
    assert_int_equal(rows_sent(world, origins[0], &pull, &answer), 0);
    assert_int_equal(answer.push.pull, 1);
    assert_int_equal(answer.push.subscribed, 0);
    send_subscribe(world, 0, 0, 6, 0, false);
    assert_int_equal(partition_subscription(partition_at(world, 0), origins[0])->request, 6);
}

/* Rows that a worker has given up are no longer pushed, and rows that it keeps are not sent again. */
TEST(rows_that_are_given_up_are_not_pushed) {
    struct world *world = world_open();
    struct message answer;
    plan_placed(world, 0, NEVER, 0, NEVER);
    send_subscribe(world, 0, 0, 1, 0, false);
    run_clocks(world, 0, 1, 2, 0);
    assert_true(world->heard.pushed[0][0].rows > TABLES * KEYS);
    struct message only = {.type = MESSAGE_SUBSCRIBE, .subscribe = {.request = 2, .after = 1, .known = 1, .only = 1}};
    assert_int_equal(rows_sent(world, origins[0], &only, &answer), 0);
    assert_int_equal(answer.push.request, 2);
    assert_int_equal(answer.push.clock, 2);
    world->heard.pushed[0][0].rows = 0;
    run_clocks(world, 0, 3, 4, 0);
    assert_int_equal(last_push(world, 0, 0)->clock, 4);
    assert_int_equal(world->heard.pushed[0][0].rows, 0);
}

TEST(rows_are_asked_for_again) {
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 0, NEVER);
    run_clocks(world, 0, 1, 3, 0);
    send_subscribe(world, 0, 0, 1, 0, false);
    assert_int_equal(world->heard.pushed[0][0].rows, TABLES * KEYS);
    send_subscribe(world, 0, 0, 2, 0, true);
    assert_int_equal(world->heard.pushed[0][0].rows, 2 * TABLES * KEYS);
    assert_int_equal(last_push(world, 0, 0)->request, 2);
    assert_int_equal(partition_subscription(partition_at(world, 0), origins[0])->lists[0].count, KEYS);
    world->heard.pushed[0][0].rows = 0;
    send_subscribe(world, 0, 0, 3, 2, true);
    assert_in_range(world->heard.pushed[0][0].rows, 1, TABLES * KEYS - 1);
}

/* The answer shows only that the server is there. */
static void expect_presence(struct world *world, unsigned s) {
    struct heard *heard = &world->heard.pushed[0][s];
    assert_true(heard->any);
    assert_int_equal(heard->message.epoch, world->plan.epoch);
    assert_int_equal(heard->message.push.partition, 0);
    assert_int_equal(heard->message.push.clock, 0);
    assert_int_equal(heard->message.push.durable, 0);
    assert_int_equal(heard->message.push.request, 0);
    assert_int_equal(heard->message.push.pull, 0);
    assert_int_equal(heard->rows, 0);
    heard->any = false;
}

/* Without a controller, a worker may for a long time have a plan that a server lacks. The server must answer its
 * requests, or the worker would take it for dead. */
TEST(who_asks_too_early_hears_that_we_are_there) {
    struct world *world = world_open();
    place(world, 0, 1, 0, 1);
    world->plan.reliable[1] = true;
    new_plan(world, 0, 1); /* server 1 follows, and server 2 has no role; in the worker's plan both serve next */
    run_clocks(world, 0, 1, 2, 0);
    for (unsigned s = 1; s < SERVERS; s++) {
        world->heard.pushed[0][s].any = false;
        send_subscribe(world, s, 0, 1, 0, false);
        expect_presence(world, s);
        struct message pull = {.type = MESSAGE_PULL, .epoch = world->plan.epoch, .pull = {.number = 5, .clock = 2}};
        server_receive(&world->servers[s], origins[0], &pull);
        settle(world);
        expect_presence(world, s);
    }
    assert_null(partition_subscription(partition_at(world, 1), origins[0]));
    world->plan.epoch++; /* the same for a plan of the next epoch */
    send_subscribe(world, 1, 0, 2, 0, false);
    expect_presence(world, 1);
}

/* A subscription at a replica that is about to be dropped would be lost without the worker's knowledge. */
TEST(who_subscribes_for_the_plan_after_next_is_not_forgotten) {
    struct world *world = world_open();
    plan_placed(world, 0, NEVER, 2, NEVER);
    place(world, 0, NEVER, 2, NEVER);
    new_plan(world, 4, 1);
    run_clocks(world, 0, 1, 3, 0);
    run_clocks(world, 2, 4, 5, 0);
    assert_int_equal(world->servers[0].replicas[0].state, REPLICA_HANDED_OVER);
    send_subscribe(world, 0, 0, 9, 5, false); /* in the worker's plan the server serves again */
    expect_presence(world, 0);
    assert_null(partition_subscription(partition_at(world, 0), origins[0]));
    place(world, 2, NEVER, 2, NEVER);
    new_plan(world, 0, 1);
    assert_null(partition_at(world, 0));
    plan_placed(world, 2, NEVER, 0, NEVER);
    send_subscribe(world, 0, 0, 9, 5, false);
    assert_int_equal(last_push(world, 0, 0)->request, 9);
    assert_non_null(partition_subscription(partition_at(world, 0), origins[0]));
}
