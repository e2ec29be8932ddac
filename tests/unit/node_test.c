/* The node agent against a controller and servers played by the test: plans, data sets, the order of work, holds,
 * fences, what is said again, and how it ends. */
#include "agileml/base/hash.h"
#include "agileml/wire/records.h"
#include "workers/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SENT_MAX = 256, ASSIGNMENTS_MAX = 6, SHARDS_MAX = 32, SERVERS = 2, LOG_MAX = 32, TIMEOUT_MS = 1000 };

static const actor_id SELF = UINT64_C(0x10000);
static const actor_id OTHER = UINT64_C(0x20000);
static const actor_id THIRD = UINT64_C(0x30000);
static const actor_id REMOTE = UINT64_C(0x20001); /* serves the only partition */
static const actor_id THIRD_SERVER = UINT64_C(0x30001);

/* An io that keeps what is sent, and a process whose hooks only note what they are asked. */
/* What the process's hooks were asked for. */
struct fake_asked {
    unsigned preparing; /* number of the set; 0: none */
    uint32_t prepared_shards;
    unsigned released[LOG_MAX];
    unsigned released_count;
    unsigned set;                   /* of the clock at work on */
    uint64_t computing, evaluating; /* clocks; 0: none */
    bool again;                     /* evaluating what was not just computed */
    unsigned saves, unsaves, ends, rejoins;
    bool has[SHARDS_MAX];       /* shards in memory */
    uint32_t part, parts;       /* that it is to read; parts 0: none */
    bool pieces[4][SHARDS_MAX]; /* of parts and shards that it has taken */
    bool settled;
    unsigned lots, gathers, helped; /* times that the clock was gone on with; gathered; a lot's set was worked on */
    unsigned batches_taken;         /* by feed_take */
    unsigned feed_stages;           /* that feeders are to run; 0: 2 */
    unsigned batch_stages;          /* of the last feed_make or feed_take */
    bool batches_are_bad;           /* feed_take refuses them */
    uint64_t dropped_below;         /* by the last feed_drop */
    unsigned batches_own;           /* of them, those that the process has made */
    struct feed_made making;        /* the batches that are to be made; clock 0: none are */
    bool on_disk;                   /* feed_make can't: the data is not in memory */
    int end_code;
    char end_text[ERROR_TEXT_MAX];
};

/* The next plan to be given. */
struct fake_plan {
    struct message_plan plan;
    uint64_t epoch;
    struct wire_placement placement;
    struct wire_assignment assignments[ASSIGNMENTS_MAX];
    unsigned assignment_count;
    uint32_t shards[SHARDS_MAX];
    uint32_t shard_count;
    actor_id endpoints[4];
    unsigned endpoint_count;
    struct wire_node nodes[2];
    unsigned node_count;
};

struct fake {
    struct io io;
    uint64_t now_us, timer_us;
    struct {
        actor_id to;
        struct message message;
    } sent[SENT_MAX];
    unsigned count;
    actor_id connected[LOG_MAX], forgotten[LOG_MAX];
    unsigned connected_count, forgotten_count;
    struct job job;
    struct wire_endpoint servers[SERVERS];
    struct node node;
    struct fake_asked asked;
    struct fake_plan next;
};

/* ---- The io and the hooks ---- */

static uint64_t fake_now(struct io *io) {
    return ((struct fake *)(void *)io)->now_us;
}

static void fake_send(struct io *io, actor_id to, struct message *message) {
    struct fake *fake = (struct fake *)(void *)io;
    assert_true(fake->count < SENT_MAX);
    fake->sent[fake->count].to = to;
    fake->sent[fake->count++].message = *message;
}

static void fake_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    (void)io;
    (void)nodes;
    (void)count;
}

static void fake_set_timer(struct io *io, uint64_t at_us) {
    ((struct fake *)(void *)io)->timer_us = at_us;
}

static void fake_connect(struct io *io, actor_id actor, const char *endpoint) {
    struct fake *fake = (struct fake *)(void *)io;
    if (endpoint != NULL) {
        fake->connected[fake->connected_count++ % LOG_MAX] = actor;
    } else {
        fake->forgotten[fake->forgotten_count++ % LOG_MAX] = actor;
    }
}

static void hook_prepare(void *context, const struct node_set *set) {
    struct fake *fake = context;
    assert_int_equal(fake->asked.preparing, 0);
    fake->asked.preparing = set->number;
    fake->asked.prepared_shards = set->count;
    for (uint32_t s = 1; s < set->count; s++) {
        assert_true(set->shards[s - 1] < set->shards[s]);
    }
}

static uint32_t hook_lacks(void *context, const struct node_set *set, uint32_t *lacking) {
    const struct fake *fake = context;
    uint32_t count = 0;
    assert_int_equal(fake->asked.preparing, 0);
    for (uint32_t s = 0; s < set->count; s++) {
        lacking[count] = set->shards[s];
        count += fake->asked.has[set->shards[s]] ? 0 : 1;
    }
    return count;
}

static bool hook_has(void *context, uint32_t shard) {
    return ((const struct fake *)context)->asked.has[shard];
}

/* A packed shard: 10 bytes with its number, and 2 with the number's double. */
static struct buffer *hook_pack(void *context, uint32_t shard) {
    struct buffer *bytes = buffer_new(12);
    memset(bytes->data, (int)shard, 10);
    memset(bytes->data + 10, 2 * (int)shard, 2);
    if (!hook_has(context, shard)) {
        buffer_drop(bytes);
        return NULL;
    }
    return bytes;
}

static bool hook_unpack(void *context, uint32_t shard, const unsigned char *bytes, size_t size) {
    struct fake *fake = context;
    fake->asked.has[shard] = size == 12 && bytes[0] == shard && bytes[9] == shard && bytes[11] == 2 * shard;
    return fake->asked.has[shard];
}

static unsigned hook_feeds(void *context) {
    (void)context;
    return 2;
}

static unsigned hook_feed_stages(void *context) {
    struct fake *fake = context;
    return fake->asked.feed_stages > 0 ? fake->asked.feed_stages : 2;
}

static bool hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned stages, const uint32_t *shards,
                           unsigned count) {
    struct fake *fake = context;
    fake->asked.batch_stages = stages;
    assert_int_equal(fake->asked.making.clock, 0);
    assert_int_equal(fake->asked.computing, 0);
    assert_true(set == 1 || set == 2);
    if (fake->asked.on_disk) {
        return false;
    }
    fake->asked.making.clock = clock;
    fake->asked.making.count = count;
    memcpy(fake->asked.making.shards, shards, count * sizeof *shards);
    return true;
}

static bool hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned stages,
                           const void *bytes, size_t size, bool own) {
    struct fake *fake = context;
    fake->asked.batch_stages = stages;
    fake->asked.batches_own += own ? 1 : 0;
    assert_true(set == 1 || set == 2);
    assert_int_equal(size, 4 + shard);
    assert_int_equal(*(const unsigned char *)bytes, clock);
    fake->asked.batches_taken++;
    return !fake->asked.batches_are_bad;
}

static void hook_feed_drop(void *context, uint64_t clock_below) {
    ((struct fake *)context)->asked.dropped_below = clock_below;
}

static void hook_read_part(void *context, uint32_t index, uint32_t count) {
    struct fake *fake = context;
    assert_true(fake->asked.preparing == 0 && fake->asked.parts == 0);
    fake->asked.part = index;
    fake->asked.parts = count;
}

static uint32_t hook_lacks_pieces(void *context, const struct node_set *set, uint32_t part, uint32_t *lacking) {
    const struct fake *fake = context;
    uint32_t count = 0;
    for (uint32_t s = 0; s < set->count; s++) {
        lacking[count] = set->shards[s];
        count += fake->asked.pieces[part][set->shards[s]] ? 0 : 1;
    }
    return count;
}

/* The packed pieces of two shards: a byte each. */
static struct buffer *hook_pack_pieces(void *context, const uint32_t *shards, uint32_t count, size_t limit) {
    struct buffer *bytes = buffer_new(count < 2 ? count : 2);
    (void)context;
    (void)limit;
    for (size_t s = 0; s < bytes->size; s++) {
        bytes->data[s] = (unsigned char)(100 + shards[s]);
    }
    return bytes;
}

static bool hook_take_pieces(void *context, uint32_t part, const uint32_t *shards, uint32_t count,
                             const unsigned char *bytes, size_t size) {
    struct fake *fake = context;
    bool good = size <= count;
    for (size_t s = 0; s < size && good; s++) {
        good = bytes[s] == 100 + shards[s];
        fake->asked.pieces[part][shards[s]] = fake->asked.pieces[part][shards[s]] || good;
    }
    return good;
}

static void hook_settle(void *context) {
    ((struct fake *)context)->asked.settled = true;
}

static void hook_release(void *context, unsigned set) {
    struct fake *fake = context;
    assert_true(set != fake->asked.preparing &&
                !((fake->asked.computing != 0 || fake->asked.evaluating != 0) && set == fake->asked.set));
    fake->asked.released[fake->asked.released_count++] = set;
}

static void hook_compute(void *context, unsigned set, uint64_t clock) {
    struct fake *fake = context;
    assert_true(fake->asked.computing == 0 && fake->asked.evaluating == 0);
    fake->asked.set = set;
    fake->asked.computing = clock;
}

static void hook_compute_lots(void *context, unsigned set, uint64_t clock) {
    struct fake *fake = context;
    assert_true(set == fake->asked.set && clock == fake->node.client.clock);
    fake->asked.lots++;
}

static void hook_gather(void *context) {
    ((struct fake *)context)->asked.gathers++;
}

static void hook_help(void *context, unsigned set, uint64_t clock) {
    struct fake *fake = context;
    assert_true(fake->asked.helped == 0 && clock <= fake->node.client.flushed);
    fake->asked.helped = set;
}

static void hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    struct fake *fake = context;
    assert_true(fake->asked.computing == 0 && fake->asked.evaluating == 0);
    assert_true(again || set == fake->asked.set);
    fake->asked.set = set;
    fake->asked.again = again;
    fake->asked.evaluating = clock;
}

static void hook_save(void *context) {
    ((struct fake *)context)->asked.saves++;
}

static void hook_unsave(void *context) {
    ((struct fake *)context)->asked.unsaves++;
}

static void hook_end(void *context, int code, const char *text) {
    struct fake *fake = context;
    fake->asked.ends++;
    fake->asked.end_code = code;
    snprintf(fake->asked.end_text, sizeof fake->asked.end_text, "%s", text);
}

static void hook_rejoin(void *context, const char *why) {
    struct fake *fake = context;
    assert_non_null(why);
    fake->asked.rejoins++;
}

/* ---- What the test sees and says ---- */

static unsigned sent(const struct fake *fake, actor_id to, enum message_type type, struct message *last) {
    unsigned found = 0;
    for (unsigned m = 0; m < fake->count; m++) {
        if (fake->sent[m].message.type == type && fake->sent[m].to == to) {
            found++;
            if (last != NULL) {
                *last = fake->sent[m].message;
            }
        }
    }
    return found;
}

static unsigned told(const struct fake *fake, enum message_type type, struct message *last) {
    return sent(fake, ACTOR_CONTROLLER, type, last);
}

static void forget(struct fake *fake) {
    for (unsigned m = 0; m < fake->count; m++) {
        message_close(&fake->sent[m].message);
    }
    fake->count = 0;
}

static void give(struct fake *fake, actor_id from, struct message *message) {
    message->epoch = message->epoch != 0 ? message->epoch : fake->next.epoch;
    node_receive(&fake->node, from, message);
    message_close(message);
}

static void give_empty(struct fake *fake, enum message_type type, uint64_t epoch) {
    struct message message = {.type = type, .epoch = epoch};
    give(fake, ACTOR_CONTROLLER, &message);
}

static void give_save(struct fake *fake, uint64_t epoch, uint32_t attempt) {
    struct message message = {.type = MESSAGE_SAVE, .epoch = epoch, .save = {.attempt = attempt}, .frame_count = 1};
    const double metrics[] = {0.5, 2};
    message.frames[0] = buffer_copy(metrics, sizeof metrics);
    give(fake, ACTOR_CONTROLLER, &message);
}

static void give_welcome(struct fake *fake) {
    struct message message = {.type = MESSAGE_WELCOME, .welcome = {.name = "n", .heartbeat_ms = 100}};
    message.welcome.timeout_ms = TIMEOUT_MS;
    give(fake, ACTOR_CONTROLLER, &message);
}

static void give_start(struct fake *fake) {
    double totals[WIRE_TOTALS] = {7};
    struct message message = {.type = MESSAGE_START, .start = {.items = 70}, .frame_count = 1};
    message.frames[0] = buffer_copy(totals, sizeof totals);
    give(fake, ACTOR_CONTROLLER, &message);
}

static void give_ack(struct fake *fake, struct message_heartbeat_ack ack) {
    struct message message = {.type = MESSAGE_HEARTBEAT_ACK, .heartbeat_ack = ack};
    give(fake, ACTOR_CONTROLLER, &message);
}

static void no_assignments(struct fake *fake) {
    fake->next.assignment_count = 0;
    fake->next.shard_count = 0;
}

/* `count` shards from number `shard` on, in falling order. */
static void add_assignment(struct fake *fake, actor_id origin, uint64_t from, uint64_t until, uint32_t shard,
                           uint32_t count) {
    fake->next.assignments[fake->next.assignment_count++] = (struct wire_assignment){
        .origin = origin, .from_clock = from, .until_clock = until, .first = fake->next.shard_count, .count = count};
    for (uint32_t s = 0; s < count; s++) {
        fake->next.shards[fake->next.shard_count++] = shard + count - 1 - s;
    }
}

static void give_plan(struct fake *fake) {
    struct message plan = {.type = MESSAGE_PLAN, .plan = fake->next.plan, .frame_count = 5};
    struct wire_endpoint endpoints[4];
    memset(endpoints, 0, sizeof endpoints);
    for (unsigned e = 0; e < fake->next.endpoint_count; e++) {
        endpoints[e].actor = fake->next.endpoints[e];
        snprintf(endpoints[e].endpoint, sizeof endpoints[e].endpoint, "tcp://%u", e);
    }
    plan.plan.version = ++fake->next.plan.version;
    plan.frames[0] = buffer_copy(fake->next.nodes, fake->next.node_count * sizeof fake->next.nodes[0]);
    plan.frames[1] = buffer_copy(&fake->next.placement, sizeof fake->next.placement);
    plan.frames[2] =
        buffer_copy(fake->next.assignments, fake->next.assignment_count * sizeof fake->next.assignments[0]);
    plan.frames[3] = buffer_copy(fake->next.shards, fake->next.shard_count * sizeof fake->next.shards[0]);
    plan.frames[4] = buffer_copy(endpoints, fake->next.endpoint_count * sizeof endpoints[0]);
    give(fake, ACTOR_CONTROLLER, &plan);
}

/* The remote server answers every SUBSCRIBE that was sent to it, at `clock`, and all is forgotten. */
static void answer_subscribes(struct fake *fake, uint64_t clock) {
    uint64_t requests[SENT_MAX];
    unsigned count = 0;
    for (unsigned m = 0; m < fake->count; m++) {
        if (fake->sent[m].message.type == MESSAGE_SUBSCRIBE) {
            assert_int_equal(fake->sent[m].to, REMOTE);
            requests[count++] = fake->sent[m].message.subscribe.request;
        }
    }
    for (unsigned r = 0; r < count; r++) {
        struct message push = {.type = MESSAGE_PUSH, .push = {.clock = clock, .request = requests[r]}};
        give(fake, REMOTE, &push);
    }
}

static void push_durable(struct fake *fake, uint64_t from, uint64_t to, uint64_t durable) {
    struct message message = {.type = MESSAGE_PUSH, .push = {.from_clock = from, .clock = to, .durable = durable}};
    give(fake, REMOTE, &message);
}

static void push(struct fake *fake, uint64_t from, uint64_t to) {
    push_durable(fake, from, to, to);
}

static void prepared(struct fake *fake, unsigned set, uint64_t items) {
    double totals[WIRE_TOTALS] = {[0] = (double)items, [WIRE_TOTALS - 1] = -(double)items};
    assert_int_equal(fake->asked.preparing, set);
    fake->asked.preparing = 0;
    node_prepared(&fake->node, set, items, totals);
}

static void computed(struct fake *fake, unsigned set, uint64_t clock) {
    assert_int_equal(fake->asked.computing, clock);
    assert_int_equal(fake->asked.set, set);
    fake->asked.computing = 0;
    assert_int_equal(client_gather(&fake->node.client, 0, NULL), 0);
    node_computed(&fake->node, 10, 1000);
}

static void evaluated(struct fake *fake, uint64_t clock) {
    static const struct wire_metric_sum sum = {.sum = 1, .weight = 2};
    assert_int_equal(fake->asked.evaluating, clock);
    fake->asked.evaluating = 0;
    node_evaluated(&fake->node, &sum);
}

static void replicas(struct fake *fake, unsigned server, uint64_t version, bool in_step) {
    struct message message = {.type = MESSAGE_REPLICAS, .frame_count = 1};
    message.replicas = (struct message_replicas){.version = version, .in_step = in_step};
    message.frames[0] = buffer_new(0);
    give(fake, fake->servers[server].actor, &message);
}

static void wait_ms(struct fake *fake, uint64_t ms) {
    fake->now_us += ms * 1000;
    node_timer(&fake->node);
}

/* ---- Opening ---- */

static struct fake *fake_new_as(actor_id self, uint32_t staleness, uint64_t clocks) {
    static const struct wire_metric metric = {.name = "loss"};
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->io = (struct io){.now_us = fake_now,
                           .send = fake_send,
                           .set_timer = fake_set_timer,
                           .connect = fake_connect,
                           .admit = fake_admit};
    fake->now_us = 1000 * 1000;
    fake->next.epoch = 1;
    fake->job = (struct job){.table_count = 1, .staleness = staleness};
    fake->job.tables[0] = (struct table_spec){.name = "t", .type = AML_INT64, .width = 1, .row_bytes = 8, .rows = 10};
    fake->job.shapes[0] = table_shape(&fake->job.tables[0]);
    fake->next.plan = (struct message_plan){
        .commit_every = 1, .next_commit_every = 1, .window = 8, .partitions = 1, .shards = 8, .recoverable = 1};
    fake->next.placement =
        (struct wire_placement){.server = REMOTE, .next_server = REMOTE, .backup = SELF + 1, .next_backup = SELF + 1};
    for (unsigned s = 0; s < SERVERS; s++) {
        fake->servers[s].actor = self + 1 + s;
    }
    fake->next.endpoints[fake->next.endpoint_count++] = SELF + 1;
    fake->next.endpoints[fake->next.endpoint_count++] = REMOTE;
    struct node_options options = {
        .self = self,
        .controller = "tcp://controller",
        .servers = fake->servers,
        .server_count = SERVERS,
        .metrics = &metric,
        .metric_count = 1,
        .timeout_ms = 5 * TIMEOUT_MS,
        .patience_ms = 20 * TIMEOUT_MS,
        .hooks = {.lacks = hook_lacks,
                  .has = hook_has,
                  .pack = hook_pack,
                  .unpack = hook_unpack,
                  .read_part = hook_read_part,
                  .lacks_pieces = hook_lacks_pieces,
                  .pack_pieces = hook_pack_pieces,
                  .take_pieces = hook_take_pieces,
                  .settle = hook_settle,
                  .prepare = hook_prepare,
                  .release = hook_release,
                  .compute = hook_compute,
                  .compute_lots = hook_compute_lots,
                  .gather = hook_gather,
                  .help = hook_help,
                  .evaluate = hook_evaluate,
                  .save = hook_save,
                  .unsave = hook_unsave,
                  .end = hook_end,
                  .rejoin = hook_rejoin,
                  .feeds = hook_feeds,
                  .feed_stages = hook_feed_stages,
                  .feed_make = hook_feed_make,
                  .feed_take = hook_feed_take,
                  .feed_drop = hook_feed_drop,
                  .context = fake},
    };
    options.registration.job = (struct job_terms){.iterations = clocks, .clocks_per_iteration = 1, .local_steps = 1};
    options.registration.threads = 1;
    node_init(&fake->node, &fake->io, &options, &fake->job);
    node_start(&fake->node);
    return fake;
}

static struct fake *fake_new(uint32_t staleness, uint64_t clocks) {
    return fake_new_as(SELF, staleness, clocks);
}

static void fake_close(struct fake *fake) {
    forget(fake);
    node_close(&fake->node);
    free(fake);
}

/* The job starts: from clock 1 on the node, `self`, works with set 1 on the first `shards` shards of eight, OTHER on
 * the others. */
static void start_beside_other(struct fake *fake, actor_id self, uint32_t shards) {
    give_welcome(fake);
    add_assignment(fake, self, 1, WIRE_CLOCK_NEVER, 0, shards);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, shards, 8 - shards);
    give_plan(fake);
    prepared(fake, 1, 30);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 1, true);
    give_start(fake);
}

/* A node that works with set 1 on shards 0 to 3 from clock 1 on, beside OTHER, with a lot each; clock 1 is being
 * computed. Set 2 is OTHER's lot. */
static struct fake *fake_open_lots(void) {
    struct fake *fake = fake_new(0, 3);
    fake->node.options.lots = 1;
    start_beside_other(fake, SELF, 4);
    assert_int_equal(fake->asked.prepared_shards, 2);
    prepared(fake, 2, 15);
    answer_subscribes(fake, 0);
    assert_int_equal(fake->asked.computing, 1);
    forget(fake);
    return fake;
}

/* A node that works with set 1 on shards 0 to 3 from clock 1 on, beside OTHER; clock 1 is being computed. */
static struct fake *fake_open(uint32_t staleness, uint64_t clocks) {
    struct fake *fake = fake_new(staleness, clocks);
    start_beside_other(fake, SELF, 4);
    assert_int_equal(fake->asked.computing, 1);
    forget(fake);
    return fake;
}

/* ---- The beginning ---- */

static void test_the_beginning_of_a_job(void **state) {
    (void)state;
    struct fake *fake = fake_new(1, 0);
    struct message message = {0};
    assert_int_equal(told(fake, MESSAGE_REGISTER, NULL), 1);
    wait_ms(fake, 250);
    assert_int_equal(told(fake, MESSAGE_REGISTER, NULL), 2);
    give_welcome(fake);
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, NULL), 1);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 3, 5);
    give_plan(fake);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_PLAN, NULL), 1);
    assert_int_equal(sent(fake, SELF + 2, MESSAGE_PLAN, NULL), 1);
    assert_int_equal(fake->asked.prepared_shards, 3);
    prepared(fake, 1, 30);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 0);
    answer_subscribes(fake, 0);
    assert_int_equal(told(fake, MESSAGE_LOADED, &message), 1);
    assert_int_equal(message.loaded.version, 1);
    assert_int_equal(message.loaded.items, 30);
    double totals[WIRE_TOTALS];
    memcpy(totals, message.frames[0]->data, sizeof totals);
    assert_true(totals[0] == 30 && totals[WIRE_TOTALS - 1] == -30);
    forget(fake);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 1); /* until START */
    assert_int_equal(fake->asked.computing, 0);
    give_plan(fake); /* a node was lost before the start: a new version, loaded for that as well */
    assert_int_equal(told(fake, MESSAGE_LOADED, &message), 2);
    assert_int_equal(message.loaded.version, 2);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.total_items, 70);
    forget(fake);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 0);
    fake_close(fake);
}

/* An answer to a heartbeat that says which of the node's readings the controller has compared. */
static void give_compared(struct fake *fake, uint64_t reading) {
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK};
    ack.heartbeat_ack.barrier = fake->node.barrier.number;
    ack.heartbeat_ack.barrier_clock = fake->node.barrier.clock;
    ack.heartbeat_ack.input = reading;
    give(fake, ACTOR_CONTROLLER, &ack);
}

static void has_read(struct fake *fake, uint64_t hash) {
    struct wire_input_shard shards[8] = {{.items = 30, .hash = hash}};
    const struct wire_input_file file = {.path = "ratings.csv", .bytes = 1234};
    node_read(&fake->node, buffer_copy(shards, sizeof shards), (struct wire_input_shard){.items = 3},
              buffer_copy(&file, sizeof file));
}

/* A node is not loaded, and begins no clock, before the controller has found its input equal to the job's. */
static void test_no_clock_begins_on_input_that_was_not_compared(void **state) {
    (void)state;
    struct fake *fake = fake_new(1, 0);
    struct message message = {0};
    give_welcome(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 3, 5);
    give_plan(fake);
    has_read(fake, 77);
    assert_int_equal(told(fake, MESSAGE_INPUT, &message), 1);
    assert_int_equal(message.input.reading, 1);
    assert_int_equal(message.frames[0]->size, 8 * sizeof(struct wire_input_shard));
    assert_int_equal(message.frames[1]->size, sizeof(struct wire_input_file));
    prepared(fake, 1, 30);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 1, true);
    wait_ms(fake, TIMEOUT_MS); /* it says so again until it has an answer */
    assert_true(told(fake, MESSAGE_INPUT, NULL) >= 2);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 0);
    assert_int_equal(fake->node.ready, 0);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 0);
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 2); /* of a reading that there was not */
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 1);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.ready, 1);
    forget(fake);
    wait_ms(fake, TIMEOUT_MS);
    assert_int_equal(told(fake, MESSAGE_INPUT, NULL), 0);
    fake_close(fake);
}

/* A node reads its input again for data that it did not keep, and finds it changed: it goes on with what it has. */
static void test_input_that_has_changed_is_compared_anew(void **state) {
    (void)state;
    struct fake *fake = fake_new(1, 0);
    struct message message = {0};
    give_welcome(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 3, 5);
    give_plan(fake);
    has_read(fake, 77);
    prepared(fake, 1, 30);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 1, true);
    give_compared(fake, 1);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 1);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    forget(fake);
    has_read(fake, 78);
    assert_int_equal(told(fake, MESSAGE_INPUT, &message), 1);
    assert_int_equal(message.input.reading, 2);
    prepared(fake, 2, 80);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 2, true);
    give_compared(fake, 1); /* the earlier one */
    assert_int_equal(fake->node.ready, 1);
    give_compared(fake, 2);
    assert_int_equal(fake->node.ready, 2);
    fake_close(fake);
}

static void test_a_node_without_assignments_is_loaded_at_once(void **state) {
    (void)state;
    struct fake *fake = fake_new(1, 0);
    give_welcome(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    struct message message = {0};
    double totals[WIRE_TOTALS];
    assert_int_equal(told(fake, MESSAGE_LOADED, &message), 1);
    memcpy(totals, message.frames[0]->data, sizeof totals);
    for (unsigned t = 0; t < WIRE_TOTALS; t++) { /* a maximum of 0 would hide others' that are below */
        assert_true(t < WIRE_TOTALS / 2 ? totals[t] == 0 : totals[t] == -HUGE_VAL);
    }
    replicas(fake, 0, 1, true);
    assert_int_equal(fake->node.ready, 1);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 0);
    fake_close(fake);
}

static void test_who_joins_starts_at_once_and_works_from_its_clock(void **state) {
    (void)state;
    struct fake *fake = fake_new(0, 0);
    give_welcome(fake);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    give_start(fake);
    struct message message = {0};
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, &message), 3);
    assert_int_equal(message.heartbeat.state, NODE_STARTED);
    prepared(fake, 1, 30);
    replicas(fake, 0, 1, true);
    assert_int_equal(fake->node.ready, 0);
    answer_subscribes(fake, 20);
    assert_int_equal(fake->node.ready, 1);
    no_assignments(fake);
    add_assignment(fake, SELF, 31, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 0); /* the same data */
    assert_int_equal(fake->asked.computing, 0);
    push(fake, 20, 30);
    computed(fake, 1, 31);
    assert_int_equal(fake->node.work.begun, 31);
    fake_close(fake);
}

/* ---- Clocks ---- */

static void test_clocks_are_computed_evaluated_and_reported(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 3);
    struct message message = {0};
    computed(fake, 1, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_int_equal(message.progress.origin, SELF);
    assert_int_equal(message.progress.clock, 1);
    assert_int_equal(message.progress.items, 10);
    computed(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* staleness 1: waits for clock 1 */
    push(fake, 0, 1);
    evaluated(fake, 2);
    computed(fake, 1, 3);
    push(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* the last one waits for the full state */
    push(fake, 2, 3);
    evaluated(fake, 3);
    assert_int_equal(fake->asked.computing, 0);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 2});
    forget(fake);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_int_equal(message.progress.clock, 3);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 3});
    assert_int_equal(fake->node.reports.count, 0);
    fake_close(fake);
}

static void test_clocks_without_a_assignment_are_skipped(void **state) {
    (void)state;
    struct fake *fake = fake_open(0, 20);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, 1, 0, 4);
    add_assignment(fake, SELF, 11, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 4, 4);
    give_plan(fake);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 0);
    forget(fake);
    push(fake, 1, 10);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, NULL), 0);
    computed(fake, 1, 11);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, NULL), 1);
    fake_close(fake);
}

static void test_a_hold_is_kept_until_it_is_lifted(void **state) {
    (void)state;
    struct fake *fake = fake_open(3, 10);
    struct message message = {0};
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 1, .barrier_clock = 1, .final = 10});
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, &message), 1); /* at once */
    assert_int_equal(message.heartbeat.barrier, 1);
    assert_int_equal(message.heartbeat.clock, 1);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 0);
    give_ack(fake, (struct message_heartbeat_ack){.final = 5}); /* an old one */
    assert_int_equal(fake->node.final, 10);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 2, .barrier_clock = WIRE_CLOCK_NEVER, .final = 10});
    computed(fake, 1, 2);
    evaluated(fake, 2);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 3, .barrier_clock = 3});
    computed(fake, 1, 3);
    push(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* it may be the last */
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 4, .barrier_clock = WIRE_CLOCK_NEVER, .final = 4});
    evaluated(fake, 3);
    computed(fake, 1, 4);
    push(fake, 2, 4);
    evaluated(fake, 4);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    fake_close(fake);
}

/* ---- Sets ---- */

static void test_data_is_changed_in_the_background(void **state) {
    (void)state;
    struct fake *fake = fake_open(3, 0);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 2);
    assert_int_equal(fake->asked.prepared_shards, 8);
    computed(fake, 1, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2); /* goes on meanwhile */
    replicas(fake, 0, 2, true);
    assert_int_equal(fake->node.ready, 1);
    prepared(fake, 2, 60);
    assert_int_equal(fake->node.ready, 2);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, 2, 0, 4);
    add_assignment(fake, SELF, 3, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 0);
    no_assignments(fake);
    add_assignment(fake, SELF, 3, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.released_count, 0); /* clock 2 is at work on it */
    computed(fake, 1, 2);
    assert_int_equal(fake->asked.released_count, 0);
    evaluated(fake, 2);
    assert_int_equal(fake->asked.released_count, 1);
    assert_int_equal(fake->asked.released[0], 1);
    assert_int_equal(fake->asked.computing, 0); /* what another put into these rows last must be seen first */
    push(fake, 0, 2);
    computed(fake, 2, 3);
    fake_close(fake);
}

static void test_a_set_that_is_not_needed_any_more_is_released_when_it_is_there(void **state) {
    (void)state;
    struct fake *fake = fake_open(3, 0);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 4, 2);
    give_plan(fake);
    fake->next.assignment_count--;
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 4, 1);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 2);
    assert_int_equal(fake->asked.released_count, 0);
    prepared(fake, 2, 1);
    assert_int_equal(fake->asked.released_count, 1);
    assert_int_equal(fake->asked.released[0], 2);
    prepared(fake, 3, 1);
    fake_close(fake);
}

static void test_ready_needs_the_servers(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    give_plan(fake);
    replicas(fake, 0, 1, true); /* about the plan before */
    replicas(fake, 0, 2, false);
    assert_int_equal(fake->node.ready, 1);
    forget(fake);
    replicas(fake, 0, 2, true);
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, &message), 1);
    assert_int_equal(message.heartbeat.ready, 2);
    assert_int_equal(message.heartbeat.version, 2);
    fake->next.placement.next_backup = SELF + 2; /* now the other one has a part too */
    give_plan(fake);
    replicas(fake, 0, 3, true);
    assert_int_equal(fake->node.ready, 2);
    replicas(fake, 1, 3, true);
    assert_int_equal(fake->node.ready, 3);
    fake_close(fake);
}

static void test_nodes_that_are_gone_are_forgotten(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    assert_int_equal(fake->connected_count, 2); /* the controller, and the other's server; not our own */
    assert_int_equal(fake->connected[1], REMOTE);
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD + 1;
    give_plan(fake);
    fake->next.endpoint_count--;
    assert_int_equal(fake->forgotten_count, 0);
    give_plan(fake);
    assert_int_equal(fake->forgotten_count, 1);
    assert_int_equal(fake->forgotten[0], THIRD + 1);
    fake_close(fake);
}

static void test_old_plans_change_nothing(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    no_assignments(fake);
    fake->next.plan.version = 0;
    give_plan(fake);
    assert_int_equal(fake->node.work.assignment_count, 1);
    fake->next.epoch = 2;
    fake->next.plan.version = 0;
    give_plan(fake);
    assert_int_equal(fake->node.work.assignment_count, 1); /* versions grow over all epochs */
    assert_int_equal(fake->node.client.epoch, 1);
    fake_close(fake);
}

static void test_origins_are_counted_by_node(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    add_assignment(fake, origin_catch_up(OTHER, 1), 1, 3, 0, 1);
    add_assignment(fake, THIRD, 3, WIRE_CLOCK_NEVER, 0, 1);
    give_plan(fake);
    assert_int_equal(node_origins(&fake->node, 2), 2);
    assert_int_equal(node_origins(&fake->node, 3), 3);
    fake_close(fake);
}

/* ---- Failures ---- */

static void give_fence(struct fake *fake, uint64_t epoch) {
    give_empty(fake, MESSAGE_FENCE, epoch);
}

static void fenced(struct fake *fake, unsigned server, uint64_t epoch, uint64_t committed, uint64_t reach) {
    struct wire_restore_point record = {.server = fake->servers[server].actor, .clock = reach};
    struct message message = {.type = MESSAGE_REPLICAS, .epoch = epoch, .frame_count = 1};
    message.replicas = (struct message_replicas){.fenced = 1, .committed = committed};
    message.frames[0] = buffer_copy(&record, sizeof record);
    give(fake, fake->servers[server].actor, &message);
}

static void test_a_fence_is_answered_when_all_servers_stand_still(void **state) {
    (void)state;
    struct fake *fake = fake_open(3, 0);
    struct message message = {0};
    give_fence(fake, 2);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FENCE, &message), 1);
    assert_int_equal(message.epoch, 2);
    assert_int_equal(sent(fake, SELF + 2, MESSAGE_FENCE, NULL), 1);
    fenced(fake, 0, 2, 4, 5);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 0);
    fenced(fake, 1, 1, 9, 9); /* of the old epoch */
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 0);
    fenced(fake, 1, 2, 3, 6);
    assert_int_equal(told(fake, MESSAGE_FENCED, &message), 1);
    assert_int_equal(message.epoch, 2);
    assert_int_equal(message.fenced.begun, 1);
    assert_int_equal(message.fenced.committed, 4);
    struct wire_restore_point restore_points[2];
    assert_int_equal(message.frames[0]->size, sizeof restore_points);
    memcpy(restore_points, message.frames[0]->data, sizeof restore_points);
    assert_int_equal(restore_points[0].clock, 5);
    assert_int_equal(restore_points[1].clock, 6);
    give_fence(fake, 2); /* the answer was lost */
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 2);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FENCE, NULL), 1);
    give_fence(fake, 3); /* one more failed */
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 2);
    fenced(fake, 0, 3, 4, 5);
    fenced(fake, 1, 3, 4, 5);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 3);
    give_fence(fake, 1);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 3);
    fake_close(fake);
}

/* A node with servers 0 and 1, which has the state of the committed clock 1 in its cache. The job has no tables. */
static struct fake *fake_open_caches(void) {
    struct fake *fake = fake_new(0, 0);
    fake->job.table_count = 0;
    fake->next.plan.transient = 1;
    start_beside_other(fake, SELF, 4);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    forget(fake);
    give_fence(fake, 2);
    return fake;
}

/* Where in the order of what was sent to the server the first message of a type is; -1: there is none. */
static int first_sent(const struct fake *fake, actor_id to, enum message_type type) {
    for (unsigned m = 0; m < fake->count; m++) {
        if (fake->sent[m].to == to && fake->sent[m].message.type == type) {
            return (int)m;
        }
    }
    return -1;
}

static void test_a_fenced_node_tells_what_its_cache_has(void **state) {
    (void)state;
    for (uint64_t reach = 0; reach < 2; reach++) { /* the servers' replicas are behind, or have that clock */
        struct fake *fake = fake_open_caches();
        struct message message = {0};
        fenced(fake, 0, 2, 0, 0);
        fenced(fake, 1, 2, 0, reach);
        assert_int_equal(told(fake, MESSAGE_FENCED, &message), 1);
        const struct wire_restore_point *points = (const void *)message.frames[0]->data;
        assert_int_equal(message.frames[0]->size / sizeof *points, reach == 0 ? 3 : 2);
        assert_int_equal(points[0].cache, 0);
        assert_int_equal(points[1].cache, 0);
        if (reach == 0) {
            assert_int_equal(points[2].cache, 1);
            assert_int_equal(points[2].clock, 1);
            assert_int_equal(points[2].partition, 0);
            assert_int_equal(points[2].server, SELF + 1);
        }
        fake_close(fake);
    }
}

/* The rows are at the server before the plan that needs them; a server that has a replica needs none. */
static void test_a_server_gets_what_was_lost_before_the_plan(void **state) {
    (void)state;
    for (uint64_t reach = 0; reach < 2; reach++) {
        struct fake *fake = fake_open_caches();
        fenced(fake, 0, 2, 0, reach);
        fenced(fake, 1, 2, 0, 0);
        forget(fake);
        fake->next.epoch = 2;
        fake->next.plan.restore = 1;
        fake->next.placement.server = fake->next.placement.next_server = SELF + 1;
        fake->next.placement.backup = fake->next.placement.next_backup = ACTOR_NONE;
        give_plan(fake);
        int update = first_sent(fake, SELF + 1, MESSAGE_UPDATE);
        int plan = first_sent(fake, SELF + 1, MESSAGE_PLAN);
        assert_true(plan >= 0);
        assert_true(reach == 0 ? update >= 0 && update < plan : update < 0);
        assert_int_equal(first_sent(fake, SELF + 2, MESSAGE_UPDATE), -1);
        if (reach == 0) {
            assert_int_equal(fake->sent[update].message.epoch, 2);
            assert_int_equal(fake->sent[update].message.update.clock, 1);
        }
        fake_close(fake);
    }
}

static void test_no_clock_begins_between_fence_and_plan(void **state) {
    (void)state;
    struct fake *fake = fake_open(3, 0);
    give_fence(fake, 2);
    forget(fake);
    computed(fake, 1, 1); /* what was under way goes on */
    assert_int_equal(fake->asked.evaluating, 0);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, NULL), 0);
    give_plan(fake); /* of the old epoch */
    assert_int_equal(fake->node.plan.terms.version, 1);
    fake->next.epoch = 2;
    give_plan(fake);
    struct message message = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_int_equal(message.epoch, 2);
    answer_subscribes(fake, 0);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2);
    forget(fake);
    give_fence(fake, 2); /* late: over */
    assert_int_equal(fake->count, 0);
    fake_close(fake);
}

/* At clock 4 with nothing committed beyond 2, a node dies: what it left of the clocks after the restored one comes to
 * us. */
static struct fake *fake_recover_to(uint64_t restore, enum aml_mode mode) {
    struct fake *fake = fake_open(1, 0);
    fake->job.tables[0].mode = mode;
    for (uint64_t c = 1; c <= 4; c++) {
        computed(fake, 1, c);
        if (c < 4) {
            push_durable(fake, c - 1, c, c < 2 ? c : 2);
            evaluated(fake, c);
        }
    }
    assert_int_equal(fake->asked.evaluating, 4);
    evaluated(fake, 4);
    assert_int_equal(fake->asked.computing, 5);
    computed(fake, 1, 5); /* not evaluated: waits for clock 4 */
    give_fence(fake, 2);
    fake->next.epoch = 2;
    fake->next.plan.restore = restore;
    no_assignments(fake);
    add_assignment(fake, SELF, 1, 5, 0, 4);
    add_assignment(fake, SELF, 6, WIRE_CLOCK_NEVER, 0, 8);
    add_assignment(fake, origin_catch_up(SELF, 2), restore + 1, 5, 4, 4);
    forget(fake);
    give_plan(fake);
    answer_subscribes(fake, restore);
    return fake;
}

static struct fake *fake_recover(void) {
    return fake_recover_to(2, AML_ADD);
}

static void test_catch_ups_come_first(void **state) {
    (void)state;
    struct fake *fake = fake_recover();
    actor_id origin = origin_catch_up(SELF, 2);
    struct message message = {0};
    assert_int_equal(fake->asked.preparing, 3); /* of the catch-up: everyone waits for it */
    assert_int_equal(fake->asked.prepared_shards, 4);
    prepared(fake, 3, 40);
    assert_int_equal(fake->asked.preparing, 2);
    evaluated(fake, 5); /* now, since the state that it waited for needs what comes now */
    forget(fake);
    computed(fake, 3, 3);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_int_equal(message.flush.origin, origin);
    evaluated(fake, 3); /* at once */
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_int_equal(message.progress.origin, origin);
    assert_int_equal(message.progress.clock, 3);
    prepared(fake, 2, 70);
    computed(fake, 3, 4);
    evaluated(fake, 4);
    assert_int_equal(fake->asked.computing, 0);
    push(fake, 2, 4);
    computed(fake, 3, 5);
    evaluated(fake, 5);
    assert_int_equal(fake->asked.computing, 0);
    push(fake, 4, 5);
    computed(fake, 2, 6); /* our own, with all shards */
    assert_int_equal(fake->node.work.evaluated, 5);
    fake_close(fake);
}

/* The dead node's clock 3 is not committed: it may yet be done again, and what we put after it would stand. */
static void test_a_catch_up_waits_for_the_commit_of_what_it_goes_on_from(void **state) {
    (void)state;
    struct fake *fake = fake_recover_to(3, AML_PUT);
    prepared(fake, 3, 40);
    prepared(fake, 2, 70);
    assert_true(fake->asked.computing == 0 && fake->asked.evaluating == 0);
    push_durable(fake, 3, 3, 3);
    evaluated(fake, 5);
    computed(fake, 3, 4);
    evaluated(fake, 4);
    computed(fake, 3, 5);
    evaluated(fake, 5);
    push_durable(fake, 3, 5, 3);
    computed(fake, 2, 6); /* all shards: whatever is done again of clocks 4 and 5 is our own */
    fake_close(fake);
}

static void test_sums_need_no_commit(void **state) {
    (void)state;
    struct fake *fake = fake_recover_to(3, AML_ADD);
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    computed(fake, 3, 4);
    fake_close(fake);
}

static void test_catch_ups_are_acknowledged_apart(void **state) {
    (void)state;
    struct fake *fake = fake_recover();
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    computed(fake, 3, 3);
    evaluated(fake, 3);
    assert_int_equal(fake->node.reports.count, 6); /* 1 to 5, and 3 of the catch-up */
    give_ack(fake, (struct message_heartbeat_ack){.progress = 5});
    assert_int_equal(fake->node.reports.count, 1);
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK, .epoch = 1, .heartbeat_ack = {.catch_up = 3}};
    give(fake, ACTOR_CONTROLLER, &ack); /* of an epoch in which it meant another */
    assert_int_equal(fake->node.reports.count, 1);
    give_ack(fake, (struct message_heartbeat_ack){.catch_up = 3});
    assert_int_equal(fake->node.reports.count, 0);
    fake_close(fake);
}

static void test_an_earlier_catch_up_goes_on_through_the_next_failure(void **state) {
    (void)state;
    struct fake *fake = fake_recover();
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    computed(fake, 3, 3);
    evaluated(fake, 3);
    prepared(fake, 2, 70);
    computed(fake, 3, 4);
    evaluated(fake, 4);
    assert_int_equal(fake->asked.computing, 0);
    give_fence(fake, 3);
    fake->next.epoch = 3;
    forget(fake);
    give_plan(fake);
    struct message message = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, &message), 5); /* 3 to 5, and the catch-up's 3 and 4 */
    answer_subscribes(fake, 3);
    computed(fake, 3, 5);
    evaluated(fake, 5);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 4, .catch_up = 9});
    assert_int_equal(fake->node.reports.count, 2); /* both of clock 5 */
    give_ack(fake, (struct message_heartbeat_ack){.progress = 5});
    assert_int_equal(fake->node.reports.count, 0);
    fake_close(fake);
}

/* ---- Evaluation in place of a lost node, and of the last clock ---- */

static void give_evaluate(struct fake *fake, actor_id origin, uint64_t clock, uint32_t shard, uint32_t count) {
    struct message message = {.type = MESSAGE_EVALUATE, .evaluate = {.origin = origin, .clock = clock}};
    uint32_t shards[8];
    for (uint32_t s = 0; s < count; s++) {
        shards[s] = shard + s;
    }
    message.frames[message.frame_count++] = buffer_copy(shards, count * sizeof *shards);
    give(fake, ACTOR_CONTROLLER, &message);
}

/* The PROGRESS of this clock was lost on the way; that of its catch-ups arrived and does not replace it. The node
 * sends it again before PROGRESS of later clocks, as the controller can complete none of these without it. */
static void expect_sent_again_in_order(struct fake *fake, actor_id origin, uint64_t clock) {
    give_ack(fake, (struct message_heartbeat_ack){.progress = clock - 1, .catch_up = clock + 1});
    forget(fake);
    wait_ms(fake, 1000);
    uint64_t before = 0;
    bool found = false;
    for (unsigned m = 0; m < fake->count; m++) {
        const struct message *message = &fake->sent[m].message;
        if (message->type == MESSAGE_PROGRESS) {
            assert_true(message->progress.clock >= before);
            before = message->progress.clock;
            found =
                found || (message->progress.origin == origin && before == clock && message->progress.evaluation == 1);
        }
    }
    assert_true(found);
}

static void test_what_a_lost_node_had_done_is_evaluated_when_asked(void **state) {
    (void)state;
    struct fake *fake = fake_recover();
    actor_id origin = origin_catch_up(SELF, 2);
    struct message message = {0};
    give_evaluate(fake, origin, 3, 4, 4);                    /* beyond the restored clock */
    give_evaluate(fake, origin, 2, 6, 3);                    /* shard 8 of 8 */
    give_evaluate(fake, origin_catch_up(OTHER, 2), 2, 4, 4); /* somebody else's */
    assert_int_equal(fake->node.work.evaluation_count, 0);
    give_evaluate(fake, origin, 2, 4, 3);
    give_evaluate(fake, origin, 2, 4, 3); /* again */
    assert_int_equal(fake->node.work.evaluation_count, 1);
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    prepared(fake, 2, 70);
    prepared(fake, 4, 30); /* assignments come first */
    for (uint64_t c = 3; c <= 5; c++) {
        computed(fake, 3, c);
        if (c < 5) {
            evaluated(fake, c);
            push(fake, c - 1, c);
        }
    }
    forget(fake);
    evaluated(fake, 5);
    assert_int_equal(fake->asked.set, 4);
    assert_true(fake->asked.again);
    evaluated(fake, 2); /* before the node goes on */
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 2);
    assert_true(message.progress.origin == origin && message.progress.clock == 2 && message.progress.items == 0);
    assert_true(message.progress.evaluation == 1 && message.progress.last == 0);
    expect_sent_again_in_order(fake, origin, 2);
    push(fake, 4, 5);
    assert_int_equal(fake->asked.computing, 6);
    assert_false(fake->asked.evaluating);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 2, .catch_up = 2});
    assert_int_equal(fake->node.work.evaluation_count, 0);
    fake_close(fake);
}

/* A later failure leads back behind the clock: whoever does it again evaluates it. */
static void test_an_evaluation_for_a_clock_that_is_done_again_is_void(void **state) {
    (void)state;
    struct fake *fake = fake_recover();
    give_evaluate(fake, origin_catch_up(SELF, 2), 2, 4, 3);
    assert_int_equal(fake->node.work.evaluation_count, 1);
    give_fence(fake, 3);
    fake->next.epoch = 3;
    fake->next.plan.restore = 1;
    give_plan(fake);
    assert_int_equal(fake->node.work.evaluation_count, 0);
    fake_close(fake);
}

/* `proteus stop`: the clock that was evaluated turns out to be the last one. */
static void test_a_clock_that_becomes_the_last_is_evaluated_again(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    evaluated(fake, 1);
    computed(fake, 1, 2);
    push(fake, 0, 1);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 1, .barrier_clock = 2});
    evaluated(fake, 2); /* in state 1, as any clock */
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 2);
    assert_int_equal(message.progress.last, 0);
    forget(fake);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 2, .barrier_clock = WIRE_CLOCK_NEVER, .final = 2});
    assert_int_equal(fake->asked.evaluating, 0); /* its state is not here yet */
    push(fake, 1, 2);
    assert_true(fake->asked.again);
    evaluated(fake, 2);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_true(message.progress.evaluation == 1 && message.progress.last == 1 && message.progress.items == 0);
    assert_int_equal(fake->asked.evaluating, 0); /* once */
    assert_int_equal(fake->node.state, NODE_FINISHED);
    fake_close(fake);
}

/* ---- The end ---- */

static struct fake *fake_finish(void) {
    struct fake *fake = fake_open(0, 1);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    forget(fake);
    return fake;
}

static void test_the_model_is_saved_when_asked(void **state) {
    (void)state;
    struct fake *fake = fake_finish();
    give_save(fake, 0, 1);
    give_save(fake, 0, 1);
    assert_int_equal(fake->asked.saves, 1);
    node_saved(&fake->node, 0, "");
    give_save(fake, 0, 1); /* SAVED was lost */
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 2);
    give_empty(fake, MESSAGE_DONE, 0);
    assert_int_equal(told(fake, MESSAGE_LEAVE, NULL), 1);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, 0);
    fake_close(fake);
}

/* Each attempt calls finish once. */
static void test_a_failed_saving_is_tried_again_when_asked(void **state) {
    (void)state;
    struct message saved;
    struct fake *fake = fake_finish();
    give_save(fake, 0, 1);
    give_save(fake, 0, 2); /* the first is not through: it counts */
    assert_int_equal(fake->asked.saves, 1);
    node_saved(&fake->node, AML_EFAIL, "Too many open files");
    assert_int_equal(told(fake, MESSAGE_SAVED, &saved), 1);
    assert_true(saved.saved.attempt == 1 && saved.saved.code == AML_EFAIL);
    give_save(fake, 0, 2);
    give_save(fake, 0, 1); /* late */
    assert_int_equal(fake->asked.saves, 2);
    node_saved(&fake->node, 0, "");
    assert_int_equal(told(fake, MESSAGE_SAVED, &saved), 2);
    assert_true(saved.saved.attempt == 2 && saved.saved.code == 0);
    give_save(fake, 0, 1);
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 2);
    fake_close(fake);
}

static void test_a_failure_while_saving_puts_the_node_back_to_work(void **state) {
    (void)state;
    struct fake *fake = fake_finish();
    give_save(fake, 0, 1);
    give_fence(fake, 2);
    fake->next.epoch = 2;
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 8);
    add_assignment(fake, origin_catch_up(SELF, 2), 1, 1, 4, 4);
    give_plan(fake);
    assert_int_equal(fake->asked.unsaves, 1);
    assert_int_equal(fake->node.state, NODE_STARTED);
    answer_subscribes(fake, 0);
    prepared(fake, 3, 10);
    assert_int_equal(fake->asked.computing, 0); /* the app still saves */
    give_save(fake, 1, 1);                      /* of the old epoch */
    node_saved(&fake->node, AML_ESTOP, "stopped");
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 0);
    computed(fake, 3, 1);
    evaluated(fake, 1);
    push(fake, 0, 1);
    evaluated(fake, 1); /* now in the last clock's state */
    prepared(fake, 2, 10);
    evaluated(fake, 1); /* the state is another than before the failure */
    assert_int_equal(fake->node.state, NODE_FINISHED);
    assert_int_equal(fake->asked.saves, 1);
    give_save(fake, 0, 1);
    assert_int_equal(fake->asked.saves, 2);
    node_saved(&fake->node, 0, "");
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 1);
    fake_close(fake);
}

/* ---- Notes ---- */

static void answer_note(struct fake *fake, uint64_t request) {
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome = {.request = request}};
    give(fake, ACTOR_CONTROLLER, &outcome);
}

/* A note is repeated until it is answered, and only in a job that has welcomed the node. */
static void test_a_note_is_said_until_it_is_answered(void **state) {
    (void)state;
    struct message first = {0};
    struct message second = {0};
    struct fake *fake = fake_new_as(SELF, 0, 1);
    node_note(&fake->node, "line 1 is a header");
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), 0);
    give_welcome(fake);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &first), 1);
    assert_string_equal(first.app_note.text, "line 1 is a header");
    node_note(&fake->node, "no better than a constant");
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &second), 2);
    assert_int_not_equal(first.app_note.request, second.app_note.request);
    forget(fake);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), 2);
    forget(fake);
    answer_note(fake, first.app_note.request);
    answer_note(fake, first.app_note.request); /* the controller has got it twice */
    node_connected(&fake->node, ACTOR_CONTROLLER);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &first), 1);
    assert_int_equal(first.app_note.request, second.app_note.request);
    forget(fake);
    answer_note(fake, second.app_note.request);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), 0);
    fake_close(fake);
}

/* The answer to a note is none to the node's wish to leave. */
static void test_a_noted_node_still_leaves(void **state) {
    (void)state;
    struct message note = {0};
    struct fake *fake = fake_open(0, 2);
    node_note(&fake->node, "a");
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &note), 1);
    node_leave_soon(&fake->node, 1000);
    answer_note(fake, note.app_note.request);
    assert_true(fake->node.departure.requested);
    assert_int_equal(fake->asked.ends, 0);
    fake_close(fake);
}

static void test_too_many_notes_are_left_out(void **state) {
    (void)state;
    struct fake *fake = fake_open(0, 1);
    for (unsigned n = 0; n < NODE_NOTES_MAX + 5; n++) {
        node_note(&fake->node, "a");
    }
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), NODE_NOTES_MAX);
    fake_close(fake);
}

/* What the app says of the last clock, and in `finish`, arrives before the job can end. */
static void test_the_end_waits_for_notes(void **state) {
    (void)state;
    struct message note = {0};
    struct fake *fake = fake_open(0, 1);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    node_note(&fake->node, "no better than a constant");
    evaluated(fake, 1);
    assert_int_equal(fake->node.state, NODE_STARTED);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &note), 1);
    answer_note(fake, note.app_note.request);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    forget(fake);
    give_save(fake, 0, 1);
    node_note(&fake->node, "the model has 3 rows");
    node_saved(&fake->node, 0, "");
    give_save(fake, 0, 1);
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 0);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &note), 1);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    answer_note(fake, note.app_note.request);
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 1);
    answer_note(fake, note.app_note.request);
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 1);
    fake_close(fake);
}

/* ---- The end, after failures ---- */

static void test_saving_again_waits_for_the_abandoned_one(void **state) {
    (void)state;
    struct fake *fake = fake_finish();
    give_save(fake, 0, 1);
    fake->next.epoch = 2;
    fake->next.plan.restore = 1;
    give_plan(fake);
    answer_subscribes(fake, 1);
    give_save(fake, 0, 1);
    assert_int_equal(fake->asked.saves, 1);
    node_saved(&fake->node, AML_ESTOP, "stopped");
    assert_int_equal(fake->asked.saves, 2);
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 0);
    node_saved(&fake->node, 0, "");
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 1);
    fake_close(fake);
}

static void test_leaving_is_asked_for_until_answered(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    node_leave_soon(&fake->node, 5000);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 1);
    assert_int_equal(message.evict.notice_ms, 5000);
    assert_int_equal(message.frame_count, 1);
    assert_int_equal(message.frames[0]->size, 0);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 2);
    assert_int_equal(message.evict.notice_ms, 4800); /* what is left of it */
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome = {.request = message.evict.request}};
    give(fake, ACTOR_CONTROLLER, &outcome);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, NULL), 2);
    assert_int_equal(fake->asked.computing, 1); /* until DONE */
    give_empty(fake, MESSAGE_DONE, 0);
    assert_int_equal(fake->asked.ends, 1);
    fake_close(fake);
}

/* The process is about to die: no message and no timer makes the node do anything. */
static void test_a_node_whose_app_crashes_says_so_and_stands_still(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    const struct message_crashed facts = {.signal = 11, .clock = 7, .function = "clock"};
    assert_true(node_crashed(&fake->node, &facts));
    assert_int_equal(told(fake, MESSAGE_CRASHED, &message), 1);
    assert_int_equal(message.crashed.signal, 11);
    assert_int_equal(message.crashed.clock, 7);
    assert_string_equal(message.crashed.function, "clock");
    unsigned heartbeats = told(fake, MESSAGE_HEARTBEAT, NULL);
    give_empty(fake, MESSAGE_REJOIN, 0);
    give_empty(fake, MESSAGE_DONE, 0);
    wait_ms(fake, 1000);
    assert_int_equal(fake->asked.ends, 0);
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, NULL), heartbeats);
    assert_int_equal(told(fake, MESSAGE_LEAVE, NULL), 0);
    fake_close(fake);
    fake = fake_open(1, 0);
    give_empty(fake, MESSAGE_DONE, 0);
    assert_false(node_crashed(&fake->node, &facts)); /* it takes no part any more */
    assert_int_equal(told(fake, MESSAGE_CRASHED, NULL), 0);
    fake_close(fake);
}

/* A signal, the cloud, BidBrain: several may warn, and the least time counts. */
static void test_a_shorter_warning_counts(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    node_leave_soon(&fake->node, 60000);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 1);
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome = {.request = message.evict.request}};
    give(fake, ACTOR_CONTROLLER, &outcome);
    node_leave_soon(&fake->node, 120000);
    assert_int_equal(told(fake, MESSAGE_EVICT, NULL), 1);
    node_leave_soon(&fake->node, 3000);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 2);
    assert_int_equal(message.evict.notice_ms, 3000);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 3); /* until that is answered too */
    assert_int_equal(message.evict.notice_ms, 2800);
    give(fake, ACTOR_CONTROLLER, &outcome);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, NULL), 3);
    fake_close(fake);
}

static void test_who_can_not_leave_fails(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    node_leave_soon(&fake->node, 5000);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 1);
    struct message outcome = {.type = MESSAGE_OUTCOME};
    outcome.outcome.request = message.evict.request;
    outcome.outcome.code = AML_EINPUT;
    snprintf(outcome.outcome.text, sizeof outcome.outcome.text, "the last node");
    give(fake, ACTOR_CONTROLLER, &outcome);
    assert_int_equal(told(fake, MESSAGE_FAIL, NULL), 1);
    assert_int_equal(fake->asked.end_code, AML_EINPUT);
    assert_string_equal(fake->asked.end_text, "the last node");
    fake_close(fake);
}

static void test_who_was_given_up_starts_anew(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    give_empty(fake, MESSAGE_REJOIN, 0);
    give_empty(fake, MESSAGE_REJOIN, 0);
    assert_int_equal(fake->asked.rejoins, 1);
    assert_int_equal(fake->asked.ends, 0);
    assert_int_equal(fake->timer_us, 0);
    fake_close(fake);
}

/* ---- Silence ---- */

static void test_the_controller_may_be_gone_for_a_while(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    for (unsigned i = 0; i < 199; i++) {
        wait_ms(fake, 100);
        forget(fake);
    }
    assert_int_equal(fake->asked.ends, 0);
    wait_ms(fake, 200);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_EFAIL);
    fake_close(fake);
}

static void test_before_the_welcome_patience_is_short(void **state) {
    (void)state;
    struct fake *fake = fake_new(1, 0);
    for (unsigned i = 0; i < 50; i++) {
        wait_ms(fake, 100);
        forget(fake);
    }
    assert_int_equal(fake->asked.ends, 0);
    wait_ms(fake, 100);
    assert_int_equal(fake->asked.ends, 1);
    fake_close(fake);
}

/* What was not acknowledged is sent again, twice as much each time that all of it has arrived: after a while without a
 * controller thousands of clocks are to be told of. */
static void test_more_is_reported_again_when_it_arrives(void **state) {
    (void)state;
    enum { CLOCKS = 150 };
    struct fake *fake = fake_open(0, CLOCKS);
    for (uint64_t c = 1; c <= CLOCKS; c++) {
        computed(fake, 1, c);
        push(fake, c - 1, c);
        evaluated(fake, c);
        forget(fake);
    }
    assert_int_equal(fake->node.reports.count, CLOCKS);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 16);
    forget(fake);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 16});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 32);
    forget(fake);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 40});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 0);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 48});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 64);
    for (unsigned b = 0; b < 10; b++) { /* nothing arrives any more */
        forget(fake);
        wait_ms(fake, 150);
    }
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 16);
    fake_close(fake);
}

static void test_a_silent_server_is_reported(void **state) {
    (void)state;
    struct fake *fake = fake_open(0, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    forget(fake);
    for (unsigned i = 0; i < 10; i++) {
        wait_ms(fake, 100);
    }
    assert_true(told(fake, MESSAGE_HEARTBEAT, &message) > 0);
    assert_int_equal(message.heartbeat.silent, ACTOR_NONE);
    wait_ms(fake, 100);
    told(fake, MESSAGE_HEARTBEAT, &message);
    assert_int_equal(message.heartbeat.silent, OTHER);
    assert_int_equal(fake->asked.ends, 0);
    fake_close(fake);
}

static void test_who_was_stopped_itself_accuses_nobody(void **state) {
    (void)state;
    struct fake *fake = fake_open(0, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    forget(fake);
    wait_ms(fake, 100 * 1000);
    assert_true(told(fake, MESSAGE_HEARTBEAT, &message) > 0);
    assert_int_equal(message.heartbeat.silent, ACTOR_NONE);
    assert_int_equal(fake->asked.ends, 0);
    fake_close(fake);
}

/* ---- Our servers ---- */

static void give_checkpoint(struct fake *fake, uint64_t number) {
    static const uint32_t partitions[] = {0, 3}; /* the second is none of ours */
    struct message message = {
        .type = MESSAGE_CHECKPOINT, .checkpoint = {.number = number, .clock = 8}, .frame_count = 1};
    message.frames[0] = buffer_copy(partitions, sizeof partitions);
    give(fake, ACTOR_CONTROLLER, &message);
}

static void test_checkpoints_are_passed_on_and_answered(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    give_checkpoint(fake, 1);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_CHECKPOINT, &message), 1);
    assert_int_equal(message.frames[0]->size, sizeof(uint32_t));
    assert_int_equal(sent(fake, SELF + 2, MESSAGE_CHECKPOINT, NULL), 0);
    struct message written = {.type = MESSAGE_WRITTEN,
                              .written = {.number = 1, .state = WRITTEN_PROMISED, .clock = 8, .checksum = 77}};
    give(fake, SELF + 1, &written);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, &message), 1);
    assert_int_equal(message.written.state, WRITTEN_PROMISED);
    give_checkpoint(fake, 1); /* is it written yet? */
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_CHECKPOINT, NULL), 2);
    written.written.state = WRITTEN_DONE;
    forget(fake);
    give(fake, SELF + 1, &written);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, &message), 1);
    assert_int_equal(message.written.checksum, 77);
    give_checkpoint(fake, 1); /* the answer was lost */
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 2);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_CHECKPOINT, NULL), 0);
    give_checkpoint(fake, 2); /* another attempt */
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_CHECKPOINT, NULL), 1);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 2);
    fake_close(fake);
}

static void test_an_epoch_makes_checkpoints_void(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    give_checkpoint(fake, 1);
    struct message written = {.type = MESSAGE_WRITTEN, .written = {.number = 1, .clock = 8}};
    give(fake, SELF + 1, &written);
    fake->next.epoch = 2;
    give_plan(fake);
    forget(fake);
    give_checkpoint(fake, 1);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 0);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_CHECKPOINT, NULL), 1);
    struct message late = {.type = MESSAGE_WRITTEN, .epoch = 1, .written = {.number = 1, .clock = 8}};
    give(fake, SELF + 1, &late);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 0);
    fake_close(fake);
}

static void test_a_server_that_fails_fails_the_node(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT}};
    give(fake, REMOTE, &fail); /* not ours */
    assert_int_equal(fake->asked.ends, 0);
    struct message own = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT}};
    give(fake, SELF + 2, &own);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_int_equal(told(fake, MESSAGE_FAIL, NULL), 1);
    fake_close(fake);
}

static void test_a_pulse_that_fails_fails_the_node(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_EFAIL}};
    give(fake, actor_pulse(REMOTE), &fail); /* not ours */
    assert_int_equal(fake->asked.ends, 0);
    struct message own = {.type = MESSAGE_FAIL, .text = {.code = AML_EFAIL}};
    give(fake, actor_pulse(SELF), &own);
    assert_int_equal(fake->asked.end_code, AML_EFAIL);
    assert_int_equal(told(fake, MESSAGE_FAIL, NULL), 1);
    fake_close(fake);
}

/* The controller hears of it at once, and with each heartbeat, until the epoch is over; then the next one may be
 * accused. */
static void test_an_accusation_is_repeated_in_its_epoch(void **state) {
    (void)state;
    struct fake *fake = fake_open(1, 0);
    struct message heard = {0};
    struct message foreign = {.type = MESSAGE_ACCUSE, .accuse = {.accused = actor_node(REMOTE), .text = "foreign"}};
    give(fake, REMOTE, &foreign); /* not of our server */
    assert_int_equal(told(fake, MESSAGE_ACCUSE, NULL), 0);
    struct message own = {.type = MESSAGE_ACCUSE, .accuse = {.accused = actor_node(REMOTE), .text = "own"}};
    give(fake, SELF + 1, &own);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_int_equal(heard.accuse.accused, actor_node(REMOTE));
    assert_string_equal(heard.accuse.text, "own");
    struct message impossible = {.type = MESSAGE_PUSH, .push = {.clock = 1000}};
    give(fake, REMOTE, &impossible); /* one at a time */
    forget(fake);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_string_equal(heard.accuse.text, "own");
    fake->next.epoch = 2;
    forget(fake);
    give_fence(fake, 2);
    give(fake, SELF + 1, &(struct message){.type = MESSAGE_ACCUSE, .epoch = 1, .accuse = {.text = "late"}});
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, NULL), 0);
    give_plan(fake);
    impossible = (struct message){.type = MESSAGE_PUSH, .push = {.clock = 1000}};
    give(fake, REMOTE, &impossible);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_string_equal(heard.accuse.text, "PUSH: clock 1000, at most 0 is possible");
    fake_close(fake);
}

/* ---- Lots ---- */

static uint64_t digest_of(uint32_t first, uint32_t second) {
    const uint32_t shards[2] = {first, second};
    return hash_bytes((const unsigned char *)shards, sizeof shards, 0);
}

/* OTHER's message about the node's lot, as the node's server passes it on. */
static void give_lot(struct fake *fake, enum lot_kind kind, uint64_t clock, uint64_t claim, uint64_t digest) {
    struct message message = {.type = MESSAGE_LOT};
    message.lot = (struct message_lot){
        .kind = (uint8_t)kind, .clock = clock, .claim = claim, .digest = digest, .items = 5, .passed.sender = OTHER};
    give(fake, SELF + 1, &message);
}

static void give_lot_metrics(struct fake *fake, uint64_t claim) {
    struct message message = {.type = MESSAGE_LOT_METRICS, .lot_metrics = {.claim = claim, .passed.sender = OTHER}};
    const struct wire_metric_sum sums[WIRE_METRICS_MAX] = {{0}};
    message_add_copy(&message, sums, fake->node.options.metric_count * sizeof *sums);
    give(fake, SELF + 1, &message);
}

static unsigned lots_sent(const struct fake *fake, actor_id to, enum lot_kind kind) {
    unsigned found = 0;
    for (unsigned m = 0; m < fake->count; m++) {
        const struct message *message = &fake->sent[m].message;
        found += message->type == MESSAGE_LOT && message->lot.kind == kind && fake->sent[m].to == to ? 1 : 0;
    }
    return found;
}

static void gathered(struct fake *fake) {
    assert_int_equal(fake->asked.gathers, 1);
    fake->asked.gathers = 0;
    fake->asked.computing = 0;
    assert_int_equal(client_gather(&fake->node.client, 0, NULL), 0);
    node_gathered(&fake->node);
}

static void test_a_lot_is_given_away_once_and_awaited(void **state) {
    (void)state;
    struct fake *fake = fake_open_lots();
    struct message progress = {0};
    give_lot(fake, LOT_ASK, 1, 7, digest_of(6, 7)); /* not our lot */
    give_lot(fake, LOT_ASK, 2, 8, digest_of(2, 3)); /* not our clock */
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_KEEP), 2);
    give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_GIVE), 1);
    give_lot(fake, LOT_ASK, 1, 10, digest_of(2, 3));
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_KEEP), 3);
    assert_int_equal(node_lot_take(&fake->node.work.lots), -1);
    node_computed(&fake->node, 5, 1000);
    assert_int_equal(fake->asked.gathers, 0);
    give_lot(fake, LOT_DONE, 1, 10, 0); /* another claim */
    assert_int_equal(fake->asked.gathers, 0);
    give_lot(fake, LOT_DONE, 1, 9, 0);
    assert_int_equal(fake->asked.gathers, 0); /* its metrics have not come */
    give_lot_metrics(fake, 9);
    gathered(fake);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items, 10);
    assert_int_equal(progress.progress.compute_us, 2000); /* as without help */
    fake_close(fake);
}

/* It has not come back either if its metrics, or only they, are lost. */
static void test_a_lot_that_does_not_come_back_is_done_here(void **state) {
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        struct fake *fake = fake_open_lots();
        give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
        node_computed(&fake->node, 5, 1000);
        if (way == 1) {
            give_lot(fake, LOT_DONE, 1, 9, 0);
        } else if (way == 2) {
            give_lot_metrics(fake, 9);
        }
        wait_ms(fake, 10);
        assert_int_equal(fake->asked.lots, 1);
        fake_close(fake);
    }
}

static void test_a_lot_that_comes_back_too_late_is_dropped(void **state) {
    (void)state;
    struct fake *fake = fake_open_lots();
    struct message progress = {0};
    give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
    node_computed(&fake->node, 5, 1000);
    assert_true(fake->timer_us <= fake->now_us + 10 * 1000);
    wait_ms(fake, 10);
    assert_int_equal(fake->asked.lots, 1);
    assert_int_equal(node_lot_take(&fake->node.work.lots), 0);
    give_lot_metrics(fake, 9);
    give_lot(fake, LOT_DONE, 1, 9, 0); /* too late */
    node_computed(&fake->node, 5, 1000);
    gathered(fake);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items, 10);
    assert_int_equal(fake->asked.computing, 2);
    give_lot(fake, LOT_ASK, 2, 11, digest_of(2, 3));
    give_fence(fake, 2); /* the helper may be the one that is gone */
    node_computed(&fake->node, 5, 1000);
    assert_int_equal(fake->asked.lots, 2);
    fake_close(fake);
}

static void test_a_node_that_waits_asks_for_a_lot(void **state) {
    (void)state;
    struct fake *fake = fake_open_lots();
    static const struct wire_metric_sum sum = {.sum = 3, .weight = 5};
    struct message message = {0};
    assert_int_equal(node_lot_take(&fake->node.work.lots), 0);
    node_computed(&fake->node, 10, 5000);
    gathered(fake);
    assert_int_equal(lots_sent(fake, REMOTE, LOT_ASK), 1);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_LOT, &message), 1);
    assert_true(message.lot.passed.receiver == OTHER && message.lot.clock == 1 &&
                message.lot.digest == digest_of(6, 7));
    struct message give_it = {.type = MESSAGE_LOT, .lot = message.lot};
    give_it.lot.kind = LOT_GIVE;
    give_it.lot.passed.sender = OTHER;
    give(fake, REMOTE, &give_it);
    assert_int_equal(fake->asked.helped, 2);
    push(fake, 0, 1); /* the owner did not wait */
    assert_int_equal(fake->asked.computing, 0);
    fake->asked.helped = 0;
    node_helped(&fake->node, 5, &sum);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_LOT_METRICS, &message), 1);
    assert_true(message.lot_metrics.passed.receiver == OTHER && message.lot_metrics.claim == 1);
    assert_int_equal(lots_sent(fake, REMOTE, LOT_DONE), 1);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2);
    fake_close(fake);
}

static void test_an_answer_that_comes_too_late_is_declined(void **state) {
    (void)state;
    struct fake *fake = fake_open_lots();
    struct message message = {0};
    assert_int_equal(node_lot_take(&fake->node.work.lots), 0);
    node_computed(&fake->node, 10, 5000);
    gathered(fake);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_LOT, &message), 1);
    struct message give_it = {.type = MESSAGE_LOT, .lot = message.lot};
    give_it.lot.kind = LOT_GIVE;
    give_it.lot.passed.sender = OTHER;
    push(fake, 0, 1);
    evaluated(fake, 1);
    give(fake, REMOTE, &give_it);
    assert_int_equal(fake->asked.helped, 0);
    assert_int_equal(lots_sent(fake, REMOTE, LOT_LEFT), 1);
    fake_close(fake);
}

/* ---- Averages between local steps ---- */

enum { MODEL_ROWS = 3, MODEL_WIDTH = 2, MODEL_ELEMENTS = MODEL_ROWS * MODEL_WIDTH, STEPS = 4 };

/* As fake_open, with a table of floats that is averaged, by AD-PSGD; the first of STEPS local steps is computed. OTHER
 * has a third as many shards. */
static struct fake *fake_open_gossip(actor_id self) {
    struct fake *fake = fake_new_as(self, 0, 8);
    fake->job.tables[0] = (struct table_spec){.name = "t",
                                              .type = AML_FLOAT32,
                                              .width = MODEL_WIDTH,
                                              .row_bytes = 4 * MODEL_WIDTH,
                                              .rows = MODEL_ROWS,
                                              .whole = true,
                                              .averaged = true};
    fake->job.shapes[0] = table_shape(&fake->job.tables[0]);
    fake->job.clocks = (struct strategy_clocks){.per_iteration = STEPS, .local_steps = STEPS};
    fake->next.plan.strategy = fake->next.plan.next_strategy = STRATEGY_ADPSGD;
    fake->next.plan.strategy_from = 1;
    start_beside_other(fake, self, 6);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.work.gossip.steps, STEPS);
    assert_int_equal(cache_add(&fake->node.cache, 0, 0), 0); /* with all other rows */
    forget(fake);
    return fake;
}

static float *model_row(struct fake *fake, unsigned row) {
    return (float *)(void *)cache_row(&fake->node.cache.tables[0], row);
}

/* The app's step changes every element by this. */
static void step(struct fake *fake, float change) {
    for (unsigned r = 0; r < MODEL_ROWS; r++) {
        for (unsigned e = 0; e < MODEL_WIDTH; e++) {
            model_row(fake, r)[e] += change;
        }
        fake->node.cache.tables[0].touched.base[r] = 1;
    }
    assert_int_equal(fake->asked.computing, 1);
    fake->asked.computing = 0;
    node_computed(&fake->node, 10, 1000);
}

static struct message gossip(enum gossip_kind kind, uint64_t clock, uint64_t claim, uint32_t rows, float value) {
    struct message message = {.type = MESSAGE_GOSSIP};
    struct buffer *keys = buffer_new(rows * sizeof(uint64_t));
    struct buffer *values = buffer_new(rows * MODEL_WIDTH * sizeof value);
    for (uint32_t r = 0; r < rows; r++) {
        ((uint64_t *)(void *)keys->data)[r] = r;
        for (unsigned e = 0; e < MODEL_WIDTH; e++) {
            ((float *)(void *)values->data)[r * MODEL_WIDTH + e] = value;
        }
    }
    rows_append(&message, 0, WIRE_FULL, keys, values);
    message.gossip =
        (struct message_gossip){.kind = (uint8_t)kind, .clock = clock, .claim = claim, .passed.sender = OTHER};
    return message;
}

static void give_offer(struct fake *fake, uint64_t clock, uint32_t rows, float value) {
    struct message message = gossip(GOSSIP_OFFER, clock, 5, rows, value);
    give(fake, SELF + 1, &message);
}

static void give_answer(struct fake *fake, uint64_t claim, float move) {
    struct message message = gossip(GOSSIP_ANSWER, 1, claim, MODEL_ROWS, move);
    give(fake, REMOTE, &message);
}

/* Expects one GOSSIP of this kind, whose elements are all `value`, and forgets it; NAN: it has no rows. */
static void expect_gossip(struct fake *fake, actor_id to, enum gossip_kind kind, float value) {
    struct message message = {0};
    struct rows_view view;
    assert_int_equal(sent(fake, to, MESSAGE_GOSSIP, &message), 1);
    assert_int_equal(message.gossip.kind, kind);
    assert_true(message.gossip.passed.receiver == OTHER && message.gossip.clock == 1);
    assert_int_equal(rows_find(&message, 0, &view), !isnan(value));
    for (unsigned e = 0; !isnan(value) && e < MODEL_ELEMENTS; e++) {
        assert_true(fabsf(((const float *)(const void *)view.values)[e] - value) < 1e-6F);
    }
    forget(fake);
}

static void expect_rows(struct fake *fake, float value) {
    for (unsigned e = 0; e < MODEL_ELEMENTS; e++) {
        assert_true(fabsf(model_row(fake, e / MODEL_WIDTH)[e % MODEL_WIDTH] - value) < 1e-6F);
    }
}

/* The peer declines the node's offer. */
static void give_refusal(struct fake *fake, uint64_t claim) {
    struct message message = {.type = MESSAGE_GOSSIP};
    message.gossip = (struct message_gossip){.kind = GOSSIP_ANSWER, .clock = 1, .claim = claim, .passed.sender = OTHER};
    give(fake, REMOTE, &message);
}

static void test_steps_are_averaged(void **state) {
    (void)state;
    struct fake *fake = fake_open_gossip(SELF);
    step(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1);
    give_answer(fake, 1, 0.5F);
    expect_rows(fake, 1); /* the app works on it */
    step(fake, 1);
    expect_rows(fake, 2.5F);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 2.5F);
    give_answer(fake, 2, -0.5F);
    /* OTHER's mean has a weight of 1/4: what ours gains, times 6, is what OTHER's loses, times 2. */
    give_offer(fake, 1, MODEL_ROWS, 6);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, -3);
    give_offer(fake, 1, MODEL_ROWS, 7); /* ours is 3 now */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, -3);
    step(fake, 0);
    expect_rows(fake, 4);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 4);
    give_refusal(fake, 3);
    step(fake, 0); /* the last one */
    expect_rows(fake, 4);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_GOSSIP, NULL), 0);
    give_offer(fake, 1, MODEL_ROWS, 8); /* the clock's changes are being gathered */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    assert_int_equal(fake->asked.gathers, 1);
    gathered(fake);
    struct message flush = {0};
    struct rows_view view;
    assert_int_equal(sent(fake, REMOTE, MESSAGE_FLUSH, &flush), 1);
    assert_true(rows_find(&flush, 0, &view) && view.count == MODEL_ROWS);
    assert_true(((const float *)(const void *)view.values)[0] == 3); /* of 4, times the share */
    assert_int_equal(fake->node.work.items, 40);
    assert_int_equal(fake->node.work.gossip.averaged, 4);
    fake_close(fake);
}

/* What comes late, twice, from elsewhere, of another clock, epoch or shape, or is no number, moves nothing. */
static void test_what_is_not_averaged(void **state) {
    (void)state;
    struct fake *fake = fake_open_gossip(SELF);
    give_offer(fake, 1, MODEL_ROWS, 5); /* all copies of the model are equal before the first step */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    step(fake, 1);
    forget(fake);
    give_refusal(fake, 1);
    struct message message = gossip(GOSSIP_OFFER, 2, 5, MODEL_ROWS, 5);
    give(fake, SELF + 1, &message);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_GOSSIP, &message), 1);
    assert_int_equal(message.frame_count, 0);
    forget(fake);
    give_offer(fake, 1, MODEL_ROWS - 1, 5);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    give_offer(fake, 1, MODEL_ROWS, INFINITY);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    message = gossip(GOSSIP_OFFER, 1, 5, MODEL_ROWS, 5);
    message.gossip.passed.sender = 0x70000; /* no node of the job */
    give(fake, SELF + 1, &message);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_GOSSIP, &message), 1);
    assert_int_equal(message.frame_count, 0);
    forget(fake);
    message = gossip(GOSSIP_OFFER, 1, 5, MODEL_ROWS, 5);
    message.epoch = 7;
    give(fake, SELF + 1, &message);
    message = gossip(GOSSIP_OFFER, 1, 5, MODEL_ROWS, 5); /* not by a server of this node */
    give(fake, REMOTE, &message);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_GOSSIP, NULL), 0);
    message = gossip(GOSSIP_OFFER, 1, 5, MODEL_ROWS, 5);
    message.frames[2]->size--;
    give(fake, SELF + 1, &message);
    struct message accusation = {0};
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &accusation), 1);
    assert_true(accusation.accuse.accused == OTHER);
    forget(fake);
    step(fake, 0);
    expect_rows(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1); /* the second offer */
    give_answer(fake, 3, 1);                      /* an offer that was not made */
    message = gossip(GOSSIP_ANSWER, 1, 2, MODEL_ROWS, NAN);
    give(fake, REMOTE, &message);
    give_answer(fake, 2, 1); /* a second answer */
    step(fake, 0);
    expect_rows(fake, 1);
    assert_int_equal(fake->node.work.gossip.averaged, 0);
    fake_close(fake);
}

/* However long an answer takes, there is one offer at a time, and no other average beside it; and when the peer leaves
 * the clock, another one is asked. */
static void test_an_offer_is_awaited(void **state) {
    (void)state;
    struct fake *fake = fake_open_gossip(SELF);
    step(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1);
    fake->now_us += UINT64_C(3600) * 1000 * 1000;
    step(fake, 1);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_GOSSIP, NULL), 0);
    give_offer(fake, 1, MODEL_ROWS, 6);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 6);
    add_assignment(fake, THIRD, 1, WIRE_CLOCK_NEVER, 6, 2);
    give_plan(fake);
    step(fake, 1);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_GOSSIP, NULL), 1);
    give_answer(fake, 1, 1); /* of the peer that has left */
    step(fake, 1);
    expect_rows(fake, 4);
    fake_close(fake);
}

/* Brings the other one the first GOSSIP that the one has sent; false: there is none. Each takes the other for OTHER. */
static bool carry(struct fake *from, struct fake *to) {
    for (unsigned m = 0; m < from->count; m++) {
        struct message message = from->sent[m].message;
        if (message.type == MESSAGE_GOSSIP) {
            memmove(from->sent + m, from->sent + m + 1, (--from->count - m) * sizeof from->sent[0]);
            message.gossip.passed.sender = OTHER;
            give(to, message.gossip.kind == GOSSIP_OFFER ? to->node.options.self + 1 : REMOTE, &message);
            return true;
        }
    }
    return false;
}

/* Of a pair only the node with the lower number makes an offer. Both get the mean. */
static void test_one_of_a_pair_offers(void **state) {
    (void)state;
    struct fake *low = fake_open_gossip(SELF);
    struct fake *high = fake_open_gossip(THIRD);
    step(low, 0);
    step(high, 4);
    assert_false(carry(high, low));
    assert_true(carry(low, high) && carry(high, low));
    assert_false(carry(high, low) || carry(low, high));
    assert_true(low->node.work.gossip.averaged == 1 && high->node.work.gossip.averaged == 1);
    step(low, 0);
    step(high, 0);
    expect_rows(low, 3); /* for either the other one's weight is 1/4, but the one that answers tells */
    expect_rows(high, 3);
    fake_close(low);
    fake_close(high);
}

/* ---- Shards from other nodes ---- */

enum { PIECE = 8, PACKED = 12 /* bytes of a packed shard */ };

/* A node that is to work on shards 0 to 3, of which it lacks 1 to 3, in a job where OTHER and THIRD work. */
/* ---- Batches ---- */

static void add_feeder(struct fake *fake, actor_id feeder) {
    fake->next.nodes[fake->next.node_count++] = (struct wire_node){.actor = feeder, .tier = TIER_FEEDER};
    fake->next.endpoints[fake->next.endpoint_count++] = feeder + 1;
}

/* A node that has work as fake_open's has, and THIRD as a feeder; it could begin clock 1. */
static struct fake *fake_open_fed(uint64_t credit) {
    struct fake *fake = fake_new(0, 3);
    fake->node.options.feed_credit = credit;
    give_welcome(fake);
    add_feeder(fake, THIRD);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 4);
    give_plan(fake);
    prepared(fake, 1, 30);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 1, true);
    give_start(fake);
    return fake;
}

/* The question for a clock's batches that was sent to the server last. */
static struct message feed_question(const struct fake *fake, actor_id server, uint64_t clock) {
    struct message found = {0};
    for (unsigned s = 0; s < fake->count; s++) {
        const struct message *message = &fake->sent[s].message;
        if (fake->sent[s].to == server && message->type == MESSAGE_FEED_ASK && message->feed_ask.clock == clock) {
            found = *message;
        }
    }
    assert_int_equal(found.type, MESSAGE_FEED_ASK);
    return found;
}

/* The feeder's answer about some shards: of shard S 4 + S bytes with the clock's number. */
static void give_feed(struct fake *fake, actor_id feeder, const struct message *question, enum feed_kind kind,
                      uint32_t first, uint32_t count, bool hashed) {
    struct message message = {.type = MESSAGE_FEED, .passed.sender = feeder};
    struct wire_batch batches[SHARDS_MAX];
    unsigned char bytes[256];
    size_t size = 0;
    memset(bytes, (int)question->feed_ask.clock, sizeof bytes);
    for (uint32_t b = 0; b < count; b++) {
        uint32_t each = kind == FEED_DONE ? 4 + first + b : 0;
        batches[b] = (struct wire_batch){
            .shard = first + b, .bytes = each, .hash = hash_bytes(bytes, each, 0) + (hashed ? 0 : 1)};
        size += each;
    }
    message.feed.kind = (uint8_t)kind;
    message.feed.clock = question->feed_ask.clock;
    message.feed.claim = question->feed_ask.claim;
    message_add_copy(&message, batches, count * sizeof batches[0]);
    message_add_copy(&message, bytes, size);
    give(fake, feeder + 1, &message);
}

/* The process has made these batches of a clock, which took 0.9 ms each. That of shard S is 4 + S bytes with the
 * clock's number. */
static void make_own(struct fake *fake, uint64_t clock, const uint32_t *shards, unsigned count) {
    struct feed_made made = fake->asked.making;
    assert_int_equal(made.clock, clock);
    assert_int_equal(made.count, count);
    for (unsigned b = 0; b < count; b++) {
        assert_int_equal(made.shards[b], shards[b]);
        made.bytes[b] = buffer_new(4 + shards[b]);
        memset(made.bytes[b]->data, (int)clock, made.bytes[b]->size);
    }
    made.us = count * UINT64_C(900);
    fake->asked.making.clock = 0;
    node_feed_made(&fake->node, &made);
}

static void make_own_one(struct fake *fake, uint64_t clock, uint32_t shard) {
    make_own(fake, clock, &shard, 1);
}

static void test_a_clock_uses_the_batches_that_have_come(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    assert_int_equal(first.passed.receiver, THIRD);
    assert_int_equal(first.frames[0]->size, 4 * sizeof(uint32_t));
    assert_int_equal(first.feed_ask.stages, 2);
    fake->asked.feed_stages = 1; /* of clocks that are asked for from now on */
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_FEED_ASK, NULL), 3); /* of all three clocks */
    assert_int_equal(fake->node.feed.used, 12 * NODE_FEED_GUESS);
    fake->now_us += 5000;
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 2, true);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 2, true); /* a repeat */
    give_feed(fake, OTHER, &first, FEED_DONE, 2, 1, true); /* was not asked */
    assert_int_equal(fake->asked.batches_taken, 2);
    assert_int_equal(fake->asked.batch_stages, 2);
    assert_int_equal(fake->node.feed.used, 10 * NODE_FEED_GUESS + 4 + 5);
    make_own_one(fake, 1, 3); /* the last one; shard 2's is expected soon */
    assert_int_equal(fake->asked.batch_stages, 2);
    assert_int_equal(fake->asked.batch_stages, 2);
    assert_int_equal(fake->asked.batches_taken, 3);
    assert_int_equal(fake->asked.making.clock, 0);
    assert_int_equal(fake->asked.computing, 0);
    fake->now_us += 2000;
    give_feed(fake, THIRD, &first, FEED_GONE, 2, 2, true);
    assert_int_equal(fake->asked.computing, 1); /* the process makes what lacks */
    assert_int_equal(fake->node.work.feed_wait_us, 2000);
    give_feed(fake, THIRD, &first, FEED_DONE, 2, 2, true); /* too late */
    assert_int_equal(fake->asked.batches_taken, 3);
    assert_int_equal(fake->asked.batches_own, 1);
    node_fed(&fake->node, 6);
    node_feed_made_here(&fake->node, 1, 800);
    computed(fake, 1, 1);
    assert_int_equal(fake->asked.dropped_below, 2);
    assert_int_equal(fake->node.feed.used, 8 * NODE_FEED_GUESS);
    push(fake, 0, 1);
    evaluated(fake, 1);
    struct message progress = {0};
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items_fed, 6);
    assert_int_equal(progress.progress.feed_wait_us, 2000);
    assert_int_equal(progress.progress.stages_us, 5000 + 800); /* while it waited, and in the clock */
    fake_close(fake);
}

/* A node that waits makes what would come last, as much as takes 2 ms. Its feeder need not make that any more. */
static void test_a_node_that_waits_makes_what_would_come_last(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    struct message second = feed_question(fake, THIRD_SERVER, 2);
    struct message report = {0};
    make_own_one(fake, 1, 3);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 4, true); /* two of them are repeats */
    assert_int_equal(fake->asked.computing, 0);
    make_own_one(fake, 1, 2);
    assert_int_equal(fake->asked.batches_taken, 4);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_FEED_ASK, &report), 4);
    assert_int_equal(report.feed_ask.begun, 1);
    assert_int_equal(report.frames[0]->size, 0);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    make_own(fake, 2, (const uint32_t[]){3, 2}, 2);
    give_feed(fake, THIRD, &second, FEED_DONE, 0, 1, true);
    wait_ms(fake, 5); /* shard 1's takes too long */
    make_own_one(fake, 2, 1);
    assert_int_equal(fake->asked.batches_taken, 8);
    assert_int_equal(fake->asked.computing, 2);
    fake_close(fake);
}

/* ... whether it knows how long a batch takes, and so leaves some to a feeder, or not. */
static void test_a_node_makes_no_batches_of_data_on_disk(void **state) {
    (void)state;
    for (unsigned known = 0; known < 2; known++) {
        struct fake *fake = fake_new(0, 3);
        give_welcome(fake);
        add_feeder(fake, THIRD);
        add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 4);
        give_plan(fake);
        prepared(fake, 1, 30);
        answer_subscribes(fake, 0);
        replicas(fake, 0, 1, true);
        fake->asked.on_disk = true;
        fake->node.feed.local_us = known * 10000;
        fake->node.feed.clock_us = known * 40000;
        give_start(fake);
        assert_int_equal(fake->asked.computing, 1); /* the clock makes them all */
        assert_int_equal(fake->node.feed.used, 8 * NODE_FEED_GUESS);
        fake_close(fake);
    }
}

/* A feeder that has no data yet is asked more and more rarely. */
static void test_a_feeder_without_data_is_left_in_peace(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    unsigned times = 0;
    for (unsigned ms = 0; ms < 4000; ms++) {
        struct message question = {0};
        if (sent(fake, THIRD_SERVER, MESSAGE_FEED_ASK, &question) > 0 && question.frames[0]->size > 0) {
            struct message asked = feed_question(fake, THIRD_SERVER, 1);
            times++;
            forget(fake);
            give_feed(fake, THIRD, &asked, FEED_GONE, 0, 1, true);
        }
        forget(fake);
        wait_ms(fake, 1);
    }
    assert_in_range(times, 5, 15);
    fake_close(fake);
}

static void test_what_does_not_come_is_asked_elsewhere_then_made_here(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    struct message late = feed_question(fake, THIRD_SERVER, 1);
    add_feeder(fake, OTHER);
    give_plan(fake);
    wait_ms(fake, NODE_FEED_LATE_US / 1000);
    struct message second = feed_question(fake, OTHER + 1, 1); /* elsewhere, once */
    assert_int_equal(fake->asked.computing, 0);
    give_feed(fake, THIRD, &late, FEED_DONE, 0, 4, true); /* by now another one is asked */
    assert_int_equal(fake->asked.batches_taken, 0);
    give_feed(fake, OTHER, &second, FEED_DONE, 0, 1, true);
    assert_int_equal(fake->asked.batches_taken, 1);
    make_own_one(fake, 1, 3);
    make_own_one(fake, 1, 2);
    assert_int_equal(fake->asked.computing, 0);
    wait_ms(fake, 5);
    make_own_one(fake, 1, 1);
    assert_int_equal(fake->asked.computing, 1);
    assert_true(fake->node.feed.late >= 3);
    fake_close(fake);
}

static void test_a_feeder_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    fake->next.node_count = 0;
    give_plan(fake);
    assert_int_equal(fake->asked.computing, 0);
    make_own_one(fake, 1, 3);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.feed.used, 4 + 3);
    fake_close(fake);
}

static void test_batches_are_asked_for_by_credit(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(2 * NODE_FEED_GUESS + 10);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    assert_int_equal(first.frames[0]->size, 2 * sizeof(uint32_t)); /* as much as there is credit for */
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_FEED_ASK, NULL), 1);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 1, true);
    assert_true(sent(fake, THIRD_SERVER, MESSAGE_FEED_ASK, NULL) > 1); /* it was smaller than expected */
    assert_true(fake->node.feed.used <= 2 * NODE_FEED_GUESS + 10);
    make_own_one(fake, 1, 1);
    assert_true(fake->node.feed.used <= 2 * NODE_FEED_GUESS + 10);
    fake_close(fake);
}

static void test_batches_that_can_not_be_are_reported(void **state) {
    (void)state;
    for (unsigned bad = 0; bad < 2; bad++) {
        struct fake *fake = fake_open_fed(0);
        struct message first = feed_question(fake, THIRD_SERVER, 1);
        struct message accuse = {0};
        fake->asked.batches_are_bad = bad == 0;
        give_feed(fake, THIRD, &first, FEED_DONE, 0, 4, bad == 0);
        assert_true(told(fake, MESSAGE_ACCUSE, &accuse) > 0);
        assert_int_equal(accuse.accuse.accused, THIRD);
        assert_non_null(strstr(accuse.accuse.text, "no batch of shard 0 in clock 1"));
        make_own_one(fake, 1, 3);
        assert_int_equal(fake->asked.computing, 1); /* with what the process makes itself */
        fake_close(fake);
    }
}

/* When the data changes, and in a new epoch, all batches are forgotten, but not while a clock works with them. */
static void test_batches_of_other_data_are_forgotten(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    struct message second = feed_question(fake, THIRD_SERVER, 2);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    give_feed(fake, THIRD, &second, FEED_DONE, 0, 4, true);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 4, true);
    make_own_one(fake, 1, 3);
    assert_int_equal(fake->asked.computing, 1);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, 1, 0, 4);
    add_assignment(fake, SELF, 2, WIRE_CLOCK_NEVER, 0, 3);
    give_plan(fake);
    assert_int_equal(fake->asked.dropped_below, 0);
    computed(fake, 1, 1);
    assert_true(fake->asked.dropped_below == UINT64_MAX);
    assert_int_equal(fake->node.feed.used, 0);
    fake_close(fake);
}

static void test_a_forgotten_batch_that_the_process_makes_is_not_taken(void **state) {
    (void)state;
    struct fake *fake = fake_open_fed(0);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    give_plan(fake);
    assert_true(fake->asked.dropped_below == UINT64_MAX);
    prepared(fake, 2, 20);
    answer_subscribes(fake, 0);
    assert_int_equal(fake->asked.computing, 0); /* the threads are busy */
    make_own_one(fake, 1, 3);
    assert_int_equal(fake->asked.batches_taken, 0);
    make_own_one(fake, 1, 2); /* of the new data */
    fake_close(fake);
}

static struct fake *fake_open_feeder(void) {
    struct fake *fake = fake_new(0, 3);
    fake->node.options.registration.tier = TIER_FEEDER;
    give_welcome(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    give_start(fake);
    assert_int_equal(fake->asked.ends, 0);
    return fake;
}

static void give_feed_ask(struct fake *fake, uint64_t clock, uint64_t claim, uint32_t first, uint32_t count,
                          uint64_t begun) {
    struct message message = {.type = MESSAGE_FEED_ASK, .epoch = 1, .passed.sender = OTHER};
    uint32_t shards[SHARDS_MAX] = {0};
    for (uint32_t s = 0; s < count; s++) {
        shards[s] = first + s;
    }
    message.feed_ask.stages = count > 0 ? (uint8_t)hook_feed_stages(fake) : 0;
    message.feed_ask.clock = clock;
    message.feed_ask.claim = claim;
    message.feed_ask.begun = begun;
    message_add_copy(&message, shards, count * sizeof shards[0]);
    give(fake, SELF + 1, &message);
}

static void make(struct fake *fake, uint32_t shard, uint64_t clock, size_t bytes) {
    struct feed_made made = fake->asked.making;
    assert_int_equal(made.clock, clock);
    assert_int_equal(made.shards[0], shard);
    made.bytes[0] = buffer_new(bytes);
    fake->asked.making.clock = 0;
    node_feed_made(&fake->node, &made);
}

/* A question tells which stages; more than feeders may run are refused. */
static void test_a_feeder_runs_the_stages_that_it_is_asked_for(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder();
    struct message answer = {0};
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    fake->asked.feed_stages = 1;
    give_feed_ask(fake, 1, 2, 2, 1, 0);
    make(fake, 2, 1, 10);
    assert_int_equal(fake->asked.batch_stages, 1);
    forget(fake);
    fake->asked.feed_stages = 3;
    give_feed_ask(fake, 1, 3, 2, 1, 0);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1);
    assert_int_equal(answer.feed.kind, FEED_GONE);
    assert_int_equal(fake->asked.making.clock, 0);
    fake_close(fake);
}

static void test_a_feeder_makes_what_it_is_asked_for(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder();
    struct message answer = {0};
    give_feed_ask(fake, 1, 1, 2, 2, 0); /* it has no data yet */
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1);
    assert_int_equal(answer.feed.kind, FEED_GONE);
    assert_int_equal(answer.passed.receiver, OTHER);
    assert_int_equal(fake->asked.prepared_shards, 2);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    forget(fake);
    give_feed_ask(fake, 3, 2, 2, 2, 0);
    give_feed_ask(fake, 3, 2, 2, 2, 0); /* a repeat */
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    make(fake, 2, 3, 10);
    make(fake, 2, 2, 10); /* the earlier clock goes first */
    make(fake, 3, 2, 20);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1); /* both in one */
    assert_true(answer.feed.kind == FEED_DONE && answer.feed.clock == 2 && answer.feed.claim == 3);
    const struct wire_batch *batches = (const void *)answer.frames[FEED_BATCHES]->data;
    assert_int_equal(answer.frames[FEED_BATCHES]->size, 2 * sizeof *batches);
    assert_true(batches[0].shard == 2 && batches[0].bytes == 10 && batches[1].shard == 3 && batches[1].bytes == 20);
    fake->now_us += 1000 * 1000; /* the next heartbeat is due */
    make(fake, 3, 3, 20);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 2);
    assert_int_equal(fake->asked.batch_stages, 2);
    assert_int_equal(fake->asked.making.clock, 0);
    node_timer(&fake->node);
    struct message beat = {0};
    assert_true(told(fake, MESSAGE_HEARTBEAT, &beat) > 0);
    assert_int_equal(beat.heartbeat.feed_us, 1000 * 1000);
    fake_close(fake);
}

/* A feeder that is told so makes several batches at once, with as many threads as it may have; and says so. */
static void test_a_feeder_makes_batches_with_several_threads(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder();
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK, .epoch = 1, .heartbeat_ack.feed_threads = 3};
    struct message beat = {0};
    struct message answer = {0};
    fake->node.options.registration.threads_max = 2;
    give_feed_ask(fake, 1, 1, 0, 4, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    forget(fake);
    give_feed_ask(fake, 2, 2, 0, 4, 0);
    assert_int_equal(fake->asked.making.count, 1);
    assert_int_equal(node_feeding_threads(&fake->node), 1);
    give(fake, ACTOR_CONTROLLER, &ack);
    assert_int_equal(node_feeding_threads(&fake->node), 2);
    make(fake, 0, 2, 10); /* the one that was under way */
    for (uint32_t shard = 1; shard < 4; shard += 2) {
        struct feed_made made = fake->asked.making;
        unsigned count = shard < 3 ? 2 : 1;
        assert_int_equal(made.count, count);
        for (unsigned b = 0; b < count; b++) {
            assert_int_equal(made.shards[b], shard + b);
            made.bytes[b] = buffer_new(10 + shard + b);
        }
        fake->asked.making.clock = 0;
        node_feed_made(&fake->node, &made);
    }
    assert_int_equal(fake->asked.making.clock, 0);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1);
    const struct wire_batch *batches = (const void *)answer.frames[FEED_BATCHES]->data;
    assert_int_equal(answer.frames[FEED_BATCHES]->size, 4 * sizeof *batches);
    for (uint32_t b = 0; b < 4; b++) { /* each once, in order */
        assert_true(batches[b].shard == b && batches[b].bytes == 10 + b);
    }
    fake->now_us += 1000 * 1000;
    node_timer(&fake->node);
    assert_true(told(fake, MESSAGE_HEARTBEAT, &beat) > 0);
    assert_int_equal(beat.heartbeat.feed_threads, 2);
    fake_close(fake);
}

/* A feeder that has data and no questions. */
static struct fake *fake_open_feeder_with_data(void) {
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    forget(fake);
    return fake;
}

static void test_a_feeder_answers_after_a_while_and_in_order(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder_with_data();
    struct message answer = {0};
    give_feed_ask(fake, 1, 2, 2, 1, 0);
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    give_feed_ask(fake, 2, 4, 3, 1, 0);
    make(fake, 2, 1, 10);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1);
    fake->now_us += NODE_FEED_FUSED_US;
    make(fake, 2, 2, 10);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 2); /* without waiting for the other one */
    assert_int_equal(answer.feed.claim, 3);
    make(fake, 3, 2, 10);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 3);
    assert_int_equal(answer.feed.claim, 3);
    make(fake, 3, 2, 10);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 4);
    assert_int_equal(answer.feed.claim, 4);
    fake_close(fake);
}

static void test_a_feeder_makes_nothing_for_clocks_that_have_begun(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder_with_data();
    struct message answer = {0};
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    give_feed_ask(fake, 3, 4, 2, 1, 1);
    make(fake, 2, 1, 10); /* was begun */
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, NULL), 0);
    give_feed_ask(fake, 2, 5, 0, 0, 2); /* asks for nothing */
    make(fake, 2, 2, 10);
    make(fake, 2, 3, 10);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, &answer), 1);
    assert_int_equal(answer.feed.claim, 4);
    assert_int_equal(fake->asked.making.clock, 0);
    fake_close(fake);
}

static void test_a_feeder_whose_data_is_not_in_memory_ends(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder_with_data();
    fake->asked.on_disk = true;
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "more than --memory allows"));
    fake_close(fake);
}

static void test_a_feeder_forgets_questions_of_an_old_epoch(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    assert_int_equal(fake->asked.making.clock, 1);
    fake->next.epoch = 2;
    give_plan(fake);
    assert_int_equal(fake->node.feed.feeding.count, 0);
    forget(fake);
    make(fake, 2, 1, 10); /* nobody asks any more */
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_FEED, NULL), 0);
    assert_int_equal(fake->asked.making.clock, 0);
    fake_close(fake);
}

static void test_a_batch_that_is_too_large_ends_the_feeder(void **state) {
    (void)state;
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    make(fake, 2, 1, (size_t)WIRE_BATCH_BYTES_MAX + 1);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "a batch of data shard 2 has 67108865 bytes, at most 67108864"));
    fake_close(fake);
}

static void test_a_feeder_needs_an_app_with_stages(void **state) {
    (void)state;
    struct fake *fake = fake_new(0, 3);
    fake->node.options.registration.tier = TIER_FEEDER;
    fake->node.options.hooks.feeds = NULL;
    give_welcome(fake);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "a feeder has nothing to do: the app has no stages"));
    fake_close(fake);
}

/* ---- Shards of other nodes ---- */

static struct fake *fake_open_fetching(void) {
    struct fake *fake = fake_new(0, 0);
    fake->node.options.fetches = true;
    fake->node.options.fetch_piece = PIECE;
    fake->asked.has[0] = true;
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
    fake->next.plan.version = 5;
    give_welcome(fake);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 0);
    return fake;
}

static void give_holdings(struct fake *fake, actor_id server, uint64_t claim, uint32_t first, uint32_t count) {
    struct message message = {.type = MESSAGE_HOLDINGS, .holdings = {.answer = 1, .claim = claim}};
    uint32_t shards[SHARDS_MAX] = {0};
    for (uint32_t s = 0; s < count; s++) {
        shards[s] = first + s;
    }
    message.passed.sender = actor_node(server);
    message_add_copy(&message, shards, count * sizeof shards[0]);
    give(fake, server, &message);
}

/* Answers a question for a piece that was sent to this server, with the kind of answer. */
static void answer_piece(struct fake *fake, actor_id server, const struct message_shard *question,
                         enum shard_kind kind) {
    struct message answer = {.type = MESSAGE_SHARD, .shard = *question};
    unsigned char bytes[PACKED];
    memset(bytes, (int)question->shard, 10);
    memset(bytes + 10, 2 * (int)question->shard, 2);
    size_t left = sizeof bytes - question->offset;
    size_t piece = fake->node.options.fetch_piece;
    assert_int_equal(question->kind, SHARD_ASK);
    answer.shard.kind = (uint8_t)kind;
    answer.shard.size = sizeof bytes;
    answer.passed.sender = actor_node(server);
    message_add_copy(&answer, bytes + question->offset, kind == SHARD_GONE ? 0 : left < piece ? left : piece);
    give(fake, server, &answer);
}

/* Answers the newest such question. */
static void give_piece(struct fake *fake, actor_id server, enum shard_kind kind) {
    struct message question = {0};
    assert_true(sent(fake, server, MESSAGE_SHARD, &question) > 0);
    answer_piece(fake, server, &question.shard, kind);
}

static void test_shards_are_taken_from_those_who_have_them(void **state) {
    (void)state;
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_HOLDINGS, &question), 1);
    assert_true(question.holdings.answer == 0 && question.passed.receiver == OTHER);
    assert_int_equal(question.frames[0]->size, 3 * sizeof(uint32_t));
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.holdings.claim + 1, 1, 3); /* to another question */
    give_holdings(fake, REMOTE, question.holdings.claim, 1, 2);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 1); /* at once, but one only */
    give_holdings(fake, THIRD_SERVER, question.holdings.claim, 2, 2);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 1);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, NULL), 1); /* one from each */
    for (unsigned piece = 0; piece < 2; piece++) {
        give_piece(fake, REMOTE, SHARD_PIECE);
        give_piece(fake, THIRD_SERVER, SHARD_PIECE);
    }
    assert_true(fake->asked.has[1] && fake->asked.has[2]);
    assert_int_equal(fake->asked.preparing, 0);
    give_piece(fake, THIRD_SERVER, SHARD_PIECE);
    give_piece(fake, THIRD_SERVER, SHARD_PIECE);
    assert_true(fake->asked.has[3]);
    assert_int_equal(fake->asked.preparing, 1);
    assert_int_equal(fake->node.fetch.taken, 3);
    fake_close(fake);
}

/* A node with work has a piece's bytes of small shards on their way from one node, a node without work several pieces'.
 * How small they are shows the first. */
static void test_small_shards_come_several_at_once(void **state) {
    (void)state;
    for (unsigned joins = 0; joins < 2; joins++) {
        struct fake *fake = fake_new(0, 0);
        struct message question = {0};
        fake->node.options.fetches = true;
        fake->node.options.fetch_piece = 2 * PACKED;
        fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
        fake->next.plan.version = 5;
        fake->next.plan.shards = 16;
        fake->next.plan.from_clock = joins != 0 ? WIRE_CLOCK_NEVER : 0;
        give_welcome(fake);
        add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 16);
        add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 16);
        give_plan(fake);
        assert_int_equal(sent(fake, REMOTE, MESSAGE_HOLDINGS, &question), 1);
        give_holdings(fake, REMOTE, question.holdings.claim, 0, 16);
        assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 1);
        give_piece(fake, REMOTE, SHARD_PIECE);
        unsigned ahead = joins != 0 ? 2 * NODE_FETCH_AHEAD : 2;
        assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 1 + ahead);
        give_piece(fake, REMOTE, SHARD_PIECE);
        assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 2 + ahead); /* another in its place */
        assert_int_equal(fake->node.fetch.taken, 2);
        give_piece(fake, REMOTE, SHARD_GONE); /* all that were on their way from there come from elsewhere */
        assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, NULL), 0);
        give_holdings(fake, THIRD_SERVER, question.holdings.claim, 0, 16);
        for (unsigned m = 0; m < fake->count; m++) { /* more questions are sent meanwhile */
            if (fake->sent[m].message.type == MESSAGE_SHARD && fake->sent[m].to == THIRD_SERVER) {
                const struct message_shard asked = fake->sent[m].message.shard;
                answer_piece(fake, THIRD_SERVER, &asked, SHARD_PIECE);
            }
        }
        assert_int_equal(fake->node.fetch.taken, 16);
        assert_int_equal(fake->asked.preparing, 1);
        fake_close(fake);
    }
}

static void test_what_nobody_has_is_read(void **state) {
    (void)state;
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.holdings.claim, 0, 0);
    assert_int_equal(fake->asked.preparing, 0);
    assert_true(fake->timer_us <= fake->now_us + fake->node.contact.timeout_ms * UINT64_C(1000));
    wait_ms(fake, fake->node.contact.timeout_ms); /* THIRD says nothing */
    assert_int_equal(fake->asked.preparing, 1);
    fake_close(fake);
}

/* How often this server is asked until the failure timeout after the first question; `other`: how often that one is. */
static unsigned times_asked(struct fake *fake, actor_id server, enum message_type type, actor_id other,
                            unsigned *others) {
    unsigned times = 0;
    for (uint32_t ms = 0; ms < fake->node.contact.timeout_ms - 1; ms++) {
        forget(fake);
        wait_ms(fake, 1);
        times += (unsigned)sent(fake, server, type, NULL);
        *others += (unsigned)sent(fake, other, type, NULL);
        assert_true(times > 0 || ms <= fake->node.contact.timeout_ms / 64); /* soon */
    }
    return times;
}

/* The first question is lost when a server that passes it on does not have the plan yet. */
static void test_the_question_for_shards_is_repeated(void **state) {
    (void)state;
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    unsigned others = 0;
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_HOLDINGS, &question), 1);
    give_holdings(fake, THIRD_SERVER, question.holdings.claim, 0, 0);
    unsigned times = times_asked(fake, REMOTE, MESSAGE_HOLDINGS, THIRD_SERVER, &others);
    assert_true(times >= 5 && times <= 7); /* seldomer each time */
    assert_int_equal(others, 0);
    assert_int_equal(fake->asked.preparing, 0);
    give_holdings(fake, REMOTE, question.holdings.claim, 1, 3); /* the answer to any of them counts */
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, NULL), 1);
    fake_close(fake);
}

/* Who has let a shard down is asked for no other, and the shard is taken from who else has it. */
static void test_a_holder_that_does_not_give(void **state) {
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        struct fake *fake = fake_open_fetching();
        struct message question = {0};
        assert_int_equal(sent(fake, REMOTE, MESSAGE_HOLDINGS, &question), 1);
        give_holdings(fake, REMOTE, question.holdings.claim, 1, 3);
        give_holdings(fake, THIRD_SERVER, question.holdings.claim, 1, way < 2 ? 3 : 0);
        struct message wrong = {.type = MESSAGE_SHARD};
        switch (way) {
        case 0:
            give_piece(fake, REMOTE, SHARD_GONE);
            break;
        case 1:
            wait_ms(fake, fake->node.contact.timeout_ms);
            break;
        default: /* a piece that can't be; the last one makes a shard that is none */
            assert_true(sent(fake, REMOTE, MESSAGE_SHARD, &question) == 1);
            wrong.shard = question.shard;
            wrong.shard.kind = SHARD_PIECE;
            wrong.shard.size = way == 2 ? 3 : 4;
            wrong.passed.sender = OTHER;
            message_add_copy(&wrong, "abcd", 4);
            give(fake, REMOTE, &wrong);
        }
        for (unsigned piece = 0; piece < 6 && way == 0; piece++) {
            give_piece(fake, THIRD_SERVER, SHARD_PIECE);
        }
        assert_true(way != 0 || (fake->asked.has[1] && fake->asked.has[2] && fake->asked.has[3]));
        assert_int_equal(fake->asked.preparing, 1);
        fake_close(fake);
    }
}

static void test_a_set_that_is_not_needed_any_more_is_not_fetched(void **state) {
    (void)state;
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.holdings.claim, 1, 3);
    give_holdings(fake, THIRD_SERVER, question.holdings.claim, 1, 3);
    no_assignments(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.released_count, 1);
    assert_int_equal(fake->asked.preparing, 0);
    assert_true(fake->node.fetch.state == FETCH_NONE);
    give_piece(fake, REMOTE, SHARD_PIECE); /* changes nothing */
    fake_close(fake);
}

/* A node gives what it has, by pieces, once its own input was compared. */
static void test_a_node_gives_its_shards(void **state) {
    (void)state;
    struct fake *fake = fake_open(0, 3);
    struct message message = {.type = MESSAGE_HOLDINGS, .holdings = {.claim = 9}};
    static const uint32_t wanted[] = {0, 2, 5, 1000};
    fake->node.options.fetches = true;
    fake->node.options.fetch_piece = PIECE;
    fake->asked.has[2] = true;
    message.passed.sender = OTHER;
    message_add_copy(&message, wanted, sizeof wanted);
    give(fake, SELF + 1, &message);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_HOLDINGS, &message), 1);
    assert_true(message.holdings.answer == 1 && message.holdings.claim == 9 && message.passed.receiver == OTHER);
    assert_int_equal(message.frames[0]->size, sizeof(uint32_t));
    assert_int_equal(((const uint32_t *)(const void *)message.frames[0]->data)[0], 2);
    static const size_t pieces[] = {PIECE, 12 - PIECE, 0};
    for (unsigned piece = 0; piece < 3; piece++) {
        struct message ask = {.type = MESSAGE_SHARD, .shard = {.shard = 2, .claim = piece, .offset = piece * PIECE}};
        ask.passed.sender = OTHER;
        message_add(&ask, buffer_new(0));
        forget(fake);
        give(fake, SELF + 1, &ask);
        assert_int_equal(sent(fake, SELF + 1, MESSAGE_SHARD, &message), 1);
        assert_int_equal(message.shard.kind, piece < 2 ? SHARD_PIECE : SHARD_GONE);
        assert_int_equal(message.frames[0]->size, pieces[piece]);
        assert_int_equal(message.shard.claim, piece);
    }
    forget(fake);
    struct message ask = {.type = MESSAGE_SHARD, .shard = {.shard = 3}};
    ask.passed.sender = OTHER;
    message_add(&ask, buffer_new(0));
    give(fake, SELF + 1, &ask);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_SHARD, &message), 1);
    assert_int_equal(message.shard.kind, SHARD_GONE);
    fake->node.input.reading = fake->node.input.compared + 1; /* it may be other input than the job's */
    forget(fake);
    ask = (struct message){.type = MESSAGE_SHARD, .shard = {.shard = 2}};
    ask.passed.sender = OTHER;
    message_add(&ask, buffer_new(0));
    give(fake, SELF + 1, &ask);
    assert_int_equal(sent(fake, SELF + 1, MESSAGE_SHARD, &message), 1);
    assert_int_equal(message.shard.kind, SHARD_GONE);
    fake->node.input.reading = fake->node.input.compared;
    fake_close(fake);
}

/* ---- An input that is read in parts ---- */

/* A node that is to work on shards 0 to 2 in a job whose first plan has OTHER before it and THIRD behind it. */
static struct fake *fake_open_parts(void) {
    struct fake *fake = fake_new(0, 0);
    fake->node.options.fetches = true;
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
    fake->next.plan.version = 0;
    give_welcome(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 3, 2);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    add_assignment(fake, THIRD, 1, WIRE_CLOCK_NEVER, 5, 3);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 0);
    assert_int_equal(fake->asked.parts, 3);
    assert_int_equal(fake->asked.part, 1);
    return fake;
}

/* Answers the newest question for pieces that was sent to this server; how many shards it was about. */
static size_t give_pieces(struct fake *fake, actor_id server, uint32_t part, enum shard_kind kind) {
    struct message question = {0};
    assert_true(sent(fake, server, MESSAGE_SHARD, &question) > 0);
    assert_true(question.shard.kind == SHARD_ASK_PART && question.shard.part == part && question.shard.parts == 3);
    const uint32_t *shards = (const void *)question.frames[0]->data;
    size_t count = question.frames[0]->size / sizeof *shards;
    struct message answer = {.type = MESSAGE_SHARD, .shard = question.shard};
    answer.shard.kind = (uint8_t)kind;
    answer.passed.sender = actor_node(server);
    struct buffer *bytes = hook_pack_pieces(fake, shards, (uint32_t)count, 0);
    answer.shard.size = bytes->size;
    message_add_copy(&answer, bytes->data, kind == SHARD_PIECE ? bytes->size : 0);
    buffer_drop(bytes);
    forget(fake);
    give(fake, server, &answer);
    return count;
}

static void test_parts_are_taken_from_their_readers(void **state) {
    (void)state;
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, &message), 0);
    node_part_read(&fake->node, true);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, &message), 1);
    assert_int_equal(give_pieces(fake, THIRD_SERVER, 2, SHARD_PIECE), 3);
    assert_int_equal(give_pieces(fake, THIRD_SERVER, 2, SHARD_PIECE), 1); /* for two shards in each answer */
    assert_int_equal(fake->asked.preparing, 0);
    fake_close(fake);
}

static void test_the_question_for_a_part_is_repeated(void **state) {
    (void)state;
    struct fake *fake = fake_open_parts();
    unsigned others = 0;
    node_part_read(&fake->node, true);
    give_pieces(fake, THIRD_SERVER, 2, SHARD_PIECE); /* it knows us, and is asked for the last shard */
    unsigned times = times_asked(fake, REMOTE, MESSAGE_SHARD, THIRD_SERVER, &others);
    assert_true(times >= 5 && times <= 7);
    assert_int_equal(others, NODE_PARTS_ASKS - 1);
    assert_int_equal(fake->asked.preparing, 0);
    fake_close(fake);
}

/* Who has not read its part yet is asked again, who does not give it is not. */
static void test_a_reader_that_is_late_or_has_nothing(void **state) {
    (void)state;
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    node_part_read(&fake->node, true);
    struct message question = {0};
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, &question), 1);
    struct message later = {.type = MESSAGE_SHARD, .shard = question.shard};
    later.shard.kind = SHARD_GONE;
    later.passed.sender = OTHER;
    message_add(&later, buffer_new(0));
    struct message third = {0};
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, &third), 1);
    give_pieces(fake, THIRD_SERVER, 2, SHARD_LATER);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, &message), 0);
    wait_ms(fake, NODE_PARTS_LATER_US / 1000 + 1);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, &message), 1);
    give(fake, REMOTE, &later);
    give_pieces(fake, THIRD_SERVER, 2, SHARD_PIECE);
    give_pieces(fake, THIRD_SERVER, 2, SHARD_PIECE);
    assert_int_equal(fake->asked.preparing, 1); /* the process reads part 0 itself */
    fake_close(fake);
}

static void test_a_node_gives_of_its_part_once_it_has_read_it(void **state) {
    (void)state;
    struct fake *fake = fake_open_parts();
    static const uint32_t wanted[] = {6, 7, 5};
    static const uint32_t wrong[] = {6, 70000};
    for (unsigned round = 0; round < 4; round++) {
        struct message message = {0};
        struct message ask = {.type = MESSAGE_SHARD,
                              .shard = {.kind = SHARD_ASK_PART, .part = round == 2 ? 2 : 1, .parts = 3, .claim = 4}};
        ask.passed.sender = OTHER;
        message_add_copy(&ask, round == 3 ? wrong : wanted, round == 3 ? sizeof wrong : sizeof wanted);
        forget(fake);
        give(fake, SELF + 1, &ask);
        assert_int_equal(sent(fake, SELF + 1, MESSAGE_SHARD, &message), 1);
        assert_int_equal(message.shard.kind, round == 0 ? SHARD_LATER : round == 1 ? SHARD_PIECE : SHARD_GONE);
        assert_int_equal(message.frames[0]->size, round == 1 ? 2 : 0);
        assert_true(message.shard.claim == 4 && message.passed.receiver == OTHER);
        if (round == 0) {
            node_part_read(&fake->node, true);
        }
    }
    fake_close(fake);
}

/* An app whose `read` emits all items itself reads all of the input as its part: there are no pieces, now or later. */
static void test_an_input_that_is_not_divided_has_no_pieces(void **state) {
    (void)state;
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    node_part_read(&fake->node, false);
    assert_int_equal(sent(fake, REMOTE, MESSAGE_SHARD, &message), 0);
    assert_int_equal(sent(fake, THIRD_SERVER, MESSAGE_SHARD, &message), 0);
    assert_int_equal(fake->asked.preparing, 1);
    assert_int_equal(fake->node.parts.count, 0);
    fake_close(fake);
}

/* A node whose first plan is a later one has no part. */
static void test_who_comes_later_has_no_part(void **state) {
    (void)state;
    struct fake *fake = fake_open_fetching();
    assert_int_equal(fake->node.parts.count, 0);
    assert_int_equal(fake->asked.parts, 0);
    fake_close(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clock_uses_the_batches_that_have_come),
        cmocka_unit_test(test_what_does_not_come_is_asked_elsewhere_then_made_here),
        cmocka_unit_test(test_a_node_that_waits_makes_what_would_come_last),
        cmocka_unit_test(test_a_node_makes_no_batches_of_data_on_disk),
        cmocka_unit_test(test_a_forgotten_batch_that_the_process_makes_is_not_taken),
        cmocka_unit_test(test_a_feeder_answers_after_a_while_and_in_order),
        cmocka_unit_test(test_a_feeder_makes_nothing_for_clocks_that_have_begun),
        cmocka_unit_test(test_a_feeder_whose_data_is_not_in_memory_ends),
        cmocka_unit_test(test_a_feeder_that_is_gone_is_not_waited_for),
        cmocka_unit_test(test_a_feeder_without_data_is_left_in_peace),
        cmocka_unit_test(test_batches_are_asked_for_by_credit),
        cmocka_unit_test(test_batches_that_can_not_be_are_reported),
        cmocka_unit_test(test_batches_of_other_data_are_forgotten),
        cmocka_unit_test(test_a_feeder_makes_what_it_is_asked_for),
        cmocka_unit_test(test_a_feeder_makes_batches_with_several_threads),
        cmocka_unit_test(test_a_feeder_runs_the_stages_that_it_is_asked_for),
        cmocka_unit_test(test_a_feeder_forgets_questions_of_an_old_epoch),
        cmocka_unit_test(test_a_batch_that_is_too_large_ends_the_feeder),
        cmocka_unit_test(test_a_feeder_needs_an_app_with_stages),
        cmocka_unit_test(test_shards_are_taken_from_those_who_have_them),
        cmocka_unit_test(test_what_nobody_has_is_read),
        cmocka_unit_test(test_the_question_for_shards_is_repeated),
        cmocka_unit_test(test_small_shards_come_several_at_once),
        cmocka_unit_test(test_a_holder_that_does_not_give),
        cmocka_unit_test(test_a_set_that_is_not_needed_any_more_is_not_fetched),
        cmocka_unit_test(test_a_node_gives_its_shards),
        cmocka_unit_test(test_parts_are_taken_from_their_readers),
        cmocka_unit_test(test_the_question_for_a_part_is_repeated),
        cmocka_unit_test(test_a_reader_that_is_late_or_has_nothing),
        cmocka_unit_test(test_a_node_gives_of_its_part_once_it_has_read_it),
        cmocka_unit_test(test_an_input_that_is_not_divided_has_no_pieces),
        cmocka_unit_test(test_who_comes_later_has_no_part),
        cmocka_unit_test(test_a_lot_is_given_away_once_and_awaited),
        cmocka_unit_test(test_a_lot_that_does_not_come_back_is_done_here),
        cmocka_unit_test(test_a_lot_that_comes_back_too_late_is_dropped),
        cmocka_unit_test(test_a_node_that_waits_asks_for_a_lot),
        cmocka_unit_test(test_an_answer_that_comes_too_late_is_declined),
        cmocka_unit_test(test_steps_are_averaged),
        cmocka_unit_test(test_what_is_not_averaged),
        cmocka_unit_test(test_an_offer_is_awaited),
        cmocka_unit_test(test_one_of_a_pair_offers),
        cmocka_unit_test(test_the_beginning_of_a_job),
        cmocka_unit_test(test_an_accusation_is_repeated_in_its_epoch),
        cmocka_unit_test(test_no_clock_begins_on_input_that_was_not_compared),
        cmocka_unit_test(test_input_that_has_changed_is_compared_anew),
        cmocka_unit_test(test_a_node_without_assignments_is_loaded_at_once),
        cmocka_unit_test(test_who_joins_starts_at_once_and_works_from_its_clock),
        cmocka_unit_test(test_clocks_are_computed_evaluated_and_reported),
        cmocka_unit_test(test_clocks_without_a_assignment_are_skipped),
        cmocka_unit_test(test_a_hold_is_kept_until_it_is_lifted),
        cmocka_unit_test(test_data_is_changed_in_the_background),
        cmocka_unit_test(test_a_set_that_is_not_needed_any_more_is_released_when_it_is_there),
        cmocka_unit_test(test_ready_needs_the_servers),
        cmocka_unit_test(test_nodes_that_are_gone_are_forgotten),
        cmocka_unit_test(test_old_plans_change_nothing),
        cmocka_unit_test(test_origins_are_counted_by_node),
        cmocka_unit_test(test_a_fence_is_answered_when_all_servers_stand_still),
        cmocka_unit_test(test_a_fenced_node_tells_what_its_cache_has),
        cmocka_unit_test(test_a_server_gets_what_was_lost_before_the_plan),
        cmocka_unit_test(test_no_clock_begins_between_fence_and_plan),
        cmocka_unit_test(test_catch_ups_come_first),
        cmocka_unit_test(test_a_catch_up_waits_for_the_commit_of_what_it_goes_on_from),
        cmocka_unit_test(test_sums_need_no_commit),
        cmocka_unit_test(test_catch_ups_are_acknowledged_apart),
        cmocka_unit_test(test_an_earlier_catch_up_goes_on_through_the_next_failure),
        cmocka_unit_test(test_the_model_is_saved_when_asked),
        cmocka_unit_test(test_what_a_lost_node_had_done_is_evaluated_when_asked),
        cmocka_unit_test(test_an_evaluation_for_a_clock_that_is_done_again_is_void),
        cmocka_unit_test(test_a_clock_that_becomes_the_last_is_evaluated_again),
        cmocka_unit_test(test_a_failed_saving_is_tried_again_when_asked),
        cmocka_unit_test(test_a_failure_while_saving_puts_the_node_back_to_work),
        cmocka_unit_test(test_a_note_is_said_until_it_is_answered),
        cmocka_unit_test(test_a_noted_node_still_leaves),
        cmocka_unit_test(test_too_many_notes_are_left_out),
        cmocka_unit_test(test_the_end_waits_for_notes),
        cmocka_unit_test(test_saving_again_waits_for_the_abandoned_one),
        cmocka_unit_test(test_leaving_is_asked_for_until_answered),
        cmocka_unit_test(test_a_node_whose_app_crashes_says_so_and_stands_still),
        cmocka_unit_test(test_a_shorter_warning_counts),
        cmocka_unit_test(test_who_can_not_leave_fails),
        cmocka_unit_test(test_who_was_given_up_starts_anew),
        cmocka_unit_test(test_the_controller_may_be_gone_for_a_while),
        cmocka_unit_test(test_before_the_welcome_patience_is_short),
        cmocka_unit_test(test_more_is_reported_again_when_it_arrives),
        cmocka_unit_test(test_a_silent_server_is_reported),
        cmocka_unit_test(test_who_was_stopped_itself_accuses_nobody),
        cmocka_unit_test(test_checkpoints_are_passed_on_and_answered),
        cmocka_unit_test(test_an_epoch_makes_checkpoints_void),
        cmocka_unit_test(test_a_server_that_fails_fails_the_node),
        cmocka_unit_test(test_a_pulse_that_fails_fails_the_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
