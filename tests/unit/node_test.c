/* The node agent against a controller and servers played by the test: plans, data sets, the order of work, barriers,
 * fences, retries, and the end. */
#include "agileml/base/hash.h"
#include "agileml/wire/plan_pack.h"
#include "agileml/wire/records.h"
#include "tests/fake_io.h"
#include "tests/test.h"
#include "workers/node/feed/node_feed.h"
#include "workers/node/fetch/node_fetch.h"
#include "workers/node/gossip/node_gossip.h"
#include "workers/node/lots/node_lots.h"
#include "workers/node/node.h"
#include "workers/node/parts/node_parts.h"

#include <math.h>

enum { SENT_MAX = 256, ASSIGNMENTS_MAX = 6, SHARDS_MAX = 32, SERVERS = 2, LOG_MAX = 32, TIMEOUT_MS = 1000 };

static const actor_id SELF = UINT64_C(0x10000);
static const actor_id OTHER = UINT64_C(0x20000);
static const actor_id THIRD = UINT64_C(0x30000);
static const actor_id REMOTE = UINT64_C(0x20001); /* serves the only partition */
static const actor_id THIRD_SERVER = UINT64_C(0x30001);

/* Calls of the process's hooks. */
struct fake_asked {
    unsigned preparing; /* number of the set; 0: none */
    uint32_t prepared_shards;
    unsigned released[LOG_MAX];
    unsigned released_count;
    unsigned set;                   /* set of the clock in progress */
    uint64_t computing, evaluating; /* clock numbers; 0: none */
    bool again;                     /* the evaluation repeats that of an earlier clock */
    unsigned saves, unsaves, ends, rejoins;
    bool has[SHARDS_MAX];       /* shards in memory */
    uint32_t part, parts;       /* part of the input to read; parts 0: none */
    bool pieces[4][SHARDS_MAX]; /* pieces taken, by part and shard */
    bool settled;
    /* how often the clock was resumed; gathered; how often another node's lot was computed */
    unsigned lots, gathers, helped;
    unsigned batches_taken;    /* number of batches that feed_take got */
    unsigned feed_transforms;  /* number of transforms for feeders; 0: 2 */
    unsigned batch_transforms; /* transforms in the last feed_make or feed_take */
    bool batches_are_bad;      /* feed_take refuses all batches */
    uint64_t dropped_below;    /* clock in the last feed_drop */
    unsigned batches_own;      /* how many of the batches taken the process made itself */
    struct feed_made making;   /* batches to be made; clock 0: none */
    bool on_disk;              /* feed_make is refused, as the data is not in memory */
    int end_code;
    char end_text[ERROR_TEXT_MAX];
};

/* The next plan to be sent. */
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
    struct fake_io io;
    struct fake *before; /* next open fake */
    struct job job;
    struct wire_endpoint servers[SERVERS];
    struct node node;
    struct fake_asked asked;
    struct fake_plan next;
};

static struct fake *open_fakes; /* closed by the test, or by close_all after it */

/* ---- The io and the hooks ---- */

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

/* A packed shard: 10 bytes of its number, and 2 bytes of twice its number. */
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
    return 2;
}

static unsigned hook_feed_transforms(void *context) {
    struct fake *fake = context;
    return fake->asked.feed_transforms > 0 ? fake->asked.feed_transforms : 2;
}

static bool hook_feed_make(void *context, unsigned set, uint64_t clock, unsigned transforms, const uint32_t *shards,
                           unsigned count) {
    struct fake *fake = context;
    fake->asked.batch_transforms = transforms;
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

static bool hook_feed_take(void *context, unsigned set, uint32_t shard, uint64_t clock, unsigned transforms,
                           const void *bytes, size_t size, bool own) {
    struct fake *fake = context;
    fake->asked.batch_transforms = transforms;
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

/* The packed pieces of at most two shards, a byte each. */
static struct buffer *hook_pack_pieces(void *context, const uint32_t *shards, uint32_t count, size_t limit) {
    struct buffer *bytes = buffer_new(count < 2 ? count : 2);
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

/* ---- Messages from and to the node ---- */

static unsigned told(const struct fake *fake, enum message_type type, struct message *last) {
    return fake_io_sent(&fake->io, ACTOR_CONTROLLER, type, last);
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

/* Assigns `count` shards from number `shard` on, in descending order. */
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
    plan.epoch = fake->next.epoch;
    CLOSED_BY(plan_close) struct plan_view view = plan_open(&plan);
    struct message packed = plan_pack(&view, plan_is_there(&fake->node.plan) ? &fake->node.plan : NULL);
    message_close(&plan);
    give(fake, ACTOR_CONTROLLER, &packed);
}

/* The remote server answers all SUBSCRIBEs with the state of `clock`. */
static void answer_subscribes(struct fake *fake, uint64_t clock) {
    uint64_t requests[SENT_MAX];
    unsigned count = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        if (fake->io.sent[m].message.type == MESSAGE_SUBSCRIBE) {
            assert_int_equal(fake->io.sent[m].to, REMOTE);
            requests[count++] = fake->io.sent[m].message.subscribe.request;
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
    fake->io.now_us += ms * 1000;
    node_timer(&fake->node);
}

/* ---- Opening ---- */

static struct fake *fake_new_as(actor_id self, uint32_t staleness, uint64_t clocks) {
    static const struct wire_metric metric = {.name = "loss"};
    struct fake *fake = calloc(1, sizeof *fake);
    assert_non_null(fake);
    fake->before = open_fakes;
    open_fakes = fake;
    fake_io_open(&fake->io);
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
                  .feed_transforms = hook_feed_transforms,
                  .feed_make = hook_feed_make,
                  .feed_take = hook_feed_take,
                  .feed_drop = hook_feed_drop,
                  .context = fake},
    };
    options.registration.job = (struct job_terms){.iterations = clocks, .clocks_per_iteration = 1, .local_steps = 1};
    options.registration.threads = 1;
    node_init(&fake->node, &fake->io.io, &options, &fake->job);
    node_start(&fake->node);
    return fake;
}

static struct fake *fake_new(uint32_t staleness, uint64_t clocks) {
    return fake_new_as(SELF, staleness, clocks);
}

static void fake_close(struct fake *fake) {
    struct fake **place = &open_fakes;
    while (*place != fake) {
        place = &(*place)->before;
    }
    *place = fake->before;
    fake_io_forget(&fake->io);
    node_close(&fake->node);
    free(fake);
}

/* Starts the job. From clock 1 on, node `self` works with set 1 on the first `shards` of eight shards, and OTHER
 * works on the others. */
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

/* A node that works with set 1 on shards 0 to 3 from clock 1 on, beside OTHER; clock 1 is being computed. Both nodes
 * have lots; set 2 is OTHER's lot. */
static struct fake *fake_open_lots(void) {
    struct fake *fake = fake_new(0, 3);
    fake->node.options.lots = 1;
    start_beside_other(fake, SELF, 4);
    assert_int_equal(fake->asked.prepared_shards, 2);
    prepared(fake, 2, 15);
    answer_subscribes(fake, 0);
    assert_int_equal(fake->asked.computing, 1);
    fake_io_forget(&fake->io);
    return fake;
}

/* A node that works with set 1 on shards 0 to 3 from clock 1 on, beside OTHER; clock 1 is being computed. */
static struct fake *fake_open(uint32_t staleness, uint64_t clocks) {
    struct fake *fake = fake_new(staleness, clocks);
    start_beside_other(fake, SELF, 4);
    assert_int_equal(fake->asked.computing, 1);
    fake_io_forget(&fake->io);
    return fake;
}

/* ---- The beginning ---- */

TEST(the_beginning_of_a_job) {
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
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_PLAN, NULL), 1);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 2, MESSAGE_PLAN, NULL), 1);
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
    fake_io_forget(&fake->io);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 1); /* repeated until START */
    assert_int_equal(fake->asked.computing, 0);
    give_plan(fake); /* a node was lost before the start: LOADED is sent for the new plan, too */
    assert_int_equal(told(fake, MESSAGE_LOADED, &message), 2);
    assert_int_equal(message.loaded.version, 2);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.total_items, 70);
    fake_io_forget(&fake->io);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 0);
}

/* A heartbeat's answer with the number of the node's last reading that the controller has compared. */
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
    const struct wire_input_range range = {.end = 1234, .hash = hash, .part = 1};
    node_read(&fake->node, buffer_copy(shards, sizeof shards), (struct wire_input_shard){.items = 3},
              buffer_copy(&file, sizeof file), buffer_copy(&range, sizeof range));
}

/* A node is not loaded, and begins no clock, until the controller has found its input equal to the job's. */
TEST(no_clock_begins_on_input_that_was_not_compared) {
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
    assert_int_equal(message.frames[2]->size, sizeof(struct wire_input_range));
    prepared(fake, 1, 30);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 1, true);
    wait_ms(fake, TIMEOUT_MS); /* INPUT is repeated until it is answered */
    assert_true(told(fake, MESSAGE_INPUT, NULL) >= 2);
    assert_int_equal(told(fake, MESSAGE_LOADED, NULL), 0);
    assert_int_equal(fake->node.ready, 0);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 0);
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 2); /* no such reading */
    assert_int_equal(fake->asked.computing, 0);
    give_compared(fake, 1);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(fake->node.ready, 1);
    fake_io_forget(&fake->io);
    wait_ms(fake, TIMEOUT_MS);
    assert_int_equal(told(fake, MESSAGE_INPUT, NULL), 0);
}

/* A node reads its input again for data that it did not keep, and finds it changed. It goes on with its present
 * data. */
TEST(input_that_has_changed_is_compared_anew) {
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
    fake_io_forget(&fake->io);
    has_read(fake, 78);
    assert_int_equal(told(fake, MESSAGE_INPUT, &message), 1);
    assert_int_equal(message.input.reading, 2);
    prepared(fake, 2, 80);
    answer_subscribes(fake, 0);
    replicas(fake, 0, 2, true);
    give_compared(fake, 1); /* the earlier reading */
    assert_int_equal(fake->node.ready, 1);
    give_compared(fake, 2);
    assert_int_equal(fake->node.ready, 2);
}

TEST(a_node_without_assignments_is_loaded_at_once) {
    struct fake *fake = fake_new(1, 0);
    give_welcome(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    struct message message = {0};
    double totals[WIRE_TOTALS];
    assert_int_equal(told(fake, MESSAGE_LOADED, &message), 1);
    memcpy(totals, message.frames[0]->data, sizeof totals);
    for (unsigned t = 0; t < WIRE_TOTALS; t++) { /* a maximum of 0 would hide other nodes' negative maxima */
        assert_true(t < WIRE_TOTALS / 2 ? totals[t] == 0 : totals[t] == -HUGE_VAL);
    }
    replicas(fake, 0, 1, true);
    assert_int_equal(fake->node.ready, 1);
    give_start(fake);
    assert_int_equal(fake->asked.computing, 0);
}

TEST(who_joins_starts_at_once_and_works_from_its_clock) {
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
    assert_int_equal(fake->asked.preparing, 0); /* the data is the same */
    assert_int_equal(fake->asked.computing, 0);
    push(fake, 20, 30);
    computed(fake, 1, 31);
    assert_int_equal(fake->node.work.begun, 31);
}

/* ---- Clocks ---- */

TEST(clocks_are_computed_evaluated_and_reported) {
    struct fake *fake = fake_open(1, 3);
    struct message message = {0};
    computed(fake, 1, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_int_equal(message.progress.origin, SELF);
    assert_int_equal(message.progress.clock, 1);
    assert_int_equal(message.progress.items, 10);
    computed(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* staleness 1: waits for the state of clock 1 */
    push(fake, 0, 1);
    evaluated(fake, 2);
    computed(fake, 1, 3);
    push(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* the last clock waits for its full state */
    push(fake, 2, 3);
    evaluated(fake, 3);
    assert_int_equal(fake->asked.computing, 0);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 2});
    fake_io_forget(&fake->io);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_int_equal(message.progress.clock, 3);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 3});
    assert_int_equal(fake->node.reports.count, 0);
}

TEST(clocks_without_a_assignment_are_skipped) {
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
    fake_io_forget(&fake->io);
    push(fake, 1, 10);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, NULL), 0);
    computed(fake, 1, 11);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, NULL), 1);
}

TEST(a_hold_is_kept_until_it_is_lifted) {
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
    give_ack(fake, (struct message_heartbeat_ack){.final = 5}); /* from an earlier barrier */
    assert_int_equal(fake->node.final, 10);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 2, .barrier_clock = WIRE_CLOCK_NEVER, .final = 10});
    computed(fake, 1, 2);
    evaluated(fake, 2);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 3, .barrier_clock = 3});
    computed(fake, 1, 3);
    push(fake, 1, 2);
    assert_int_equal(fake->asked.evaluating, 0); /* clock 3 may be the last */
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 4, .barrier_clock = WIRE_CLOCK_NEVER, .final = 4});
    evaluated(fake, 3);
    computed(fake, 1, 4);
    push(fake, 2, 4);
    evaluated(fake, 4);
    assert_int_equal(fake->node.state, NODE_FINISHED);
}

/* ---- Sets ---- */

TEST(data_is_changed_in_the_background) {
    struct fake *fake = fake_open(3, 0);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 2);
    assert_int_equal(fake->asked.prepared_shards, 8);
    computed(fake, 1, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2); /* meanwhile clock 2 is computed */
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
    assert_int_equal(fake->asked.released_count, 0); /* clock 2 still uses the set */
    computed(fake, 1, 2);
    assert_int_equal(fake->asked.released_count, 0);
    evaluated(fake, 2);
    assert_int_equal(fake->asked.released_count, 1);
    assert_int_equal(fake->asked.released[0], 1);
    assert_int_equal(fake->asked.computing, 0); /* values that others overwrote last must be seen first */
    push(fake, 0, 2);
    computed(fake, 2, 3);
}

TEST(a_set_that_is_not_needed_any_more_is_released_when_it_is_there) {
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
}

TEST(ready_needs_the_servers) {
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    give_plan(fake);
    replicas(fake, 0, 1, true); /* for an earlier plan */
    replicas(fake, 0, 2, false);
    assert_int_equal(fake->node.ready, 1);
    fake_io_forget(&fake->io);
    replicas(fake, 0, 2, true);
    assert_int_equal(told(fake, MESSAGE_HEARTBEAT, &message), 1);
    assert_int_equal(message.heartbeat.ready, 2);
    assert_int_equal(message.heartbeat.version, 2);
    fake->next.placement.next_backup = SELF + 2; /* the second server gets a partition too */
    give_plan(fake);
    replicas(fake, 0, 3, true);
    assert_int_equal(fake->node.ready, 2);
    replicas(fake, 1, 3, true);
    assert_int_equal(fake->node.ready, 3);
}

TEST(nodes_that_are_gone_are_forgotten) {
    struct fake *fake = fake_open(1, 0);
    /* connected to the controller and the other node's server, but not to its own servers */
    assert_int_equal(fake->io.connected_count, 2);
    assert_int_equal(fake->io.connected[1], REMOTE);
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD + 1;
    give_plan(fake);
    fake->next.endpoint_count--;
    assert_int_equal(fake->io.forgotten_count, 0);
    give_plan(fake);
    assert_int_equal(fake->io.forgotten_count, 1);
    assert_int_equal(fake->io.forgotten[0], THIRD + 1);
}

TEST(old_plans_change_nothing) {
    struct fake *fake = fake_open(1, 0);
    no_assignments(fake);
    fake->next.plan.version = 0;
    give_plan(fake);
    assert_int_equal(fake->node.work.assignment_count, 1);
    fake->next.epoch = 2;
    fake->next.plan.version = 0;
    give_plan(fake);
    assert_int_equal(fake->node.work.assignment_count, 1); /* version numbers increase across epochs */
    assert_int_equal(fake->node.client.epoch, 1);
}

TEST(origins_are_counted_by_node) {
    struct fake *fake = fake_open(1, 0);
    add_assignment(fake, origin_catch_up(OTHER, 1), 1, 3, 0, 1);
    add_assignment(fake, THIRD, 3, WIRE_CLOCK_NEVER, 0, 1);
    give_plan(fake);
    assert_int_equal(node_origins(&fake->node, 2), 2);
    assert_int_equal(node_origins(&fake->node, 3), 3);
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

TEST(a_fence_is_answered_when_all_servers_stand_still) {
    struct fake *fake = fake_open(3, 0);
    struct message message = {0};
    give_fence(fake, 2);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_FENCE, &message), 1);
    assert_int_equal(message.epoch, 2);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 2, MESSAGE_FENCE, NULL), 1);
    fenced(fake, 0, 2, 4, 5);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 0);
    fenced(fake, 1, 1, 9, 9); /* an answer of the old epoch */
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
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_FENCE, NULL), 1);
    give_fence(fake, 3); /* another node failed */
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 2);
    fenced(fake, 0, 3, 4, 5);
    fenced(fake, 1, 3, 4, 5);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 3);
    give_fence(fake, 1);
    assert_int_equal(told(fake, MESSAGE_FENCED, NULL), 3);
}

/* A fenced node with servers 0 and 1, whose cache has the state of the committed clock 1. The job has no tables. */
static struct fake *fake_open_caches(void) {
    struct fake *fake = fake_new(0, 0);
    fake->job.table_count = 0;
    fake->next.plan.transient = 1;
    start_beside_other(fake, SELF, 4);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    fake_io_forget(&fake->io);
    give_fence(fake, 2);
    return fake;
}

/* The position of the first message of a type among all messages sent, if it went to `to`; -1: none. */
static int first_sent(const struct fake *fake, actor_id to, enum message_type type) {
    for (unsigned m = 0; m < fake->io.count; m++) {
        if (fake->io.sent[m].to == to && fake->io.sent[m].message.type == type) {
            return (int)m;
        }
    }
    return -1;
}

TEST(a_fenced_node_tells_what_its_cache_has) {
    for (uint64_t reach = 0; reach < 2; reach++) { /* the servers' replicas lack clock 1, or one of them has it */
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

/* The rows reach the server before the plan that needs them. A server with a replica gets no rows. */
TEST(a_server_gets_what_was_lost_before_the_plan) {
    for (uint64_t reach = 0; reach < 2; reach++) {
        struct fake *fake = fake_open_caches();
        fenced(fake, 0, 2, 0, reach);
        fenced(fake, 1, 2, 0, 0);
        fake_io_forget(&fake->io);
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
            assert_int_equal(fake->io.sent[update].message.epoch, 2);
            assert_int_equal(fake->io.sent[update].message.update.clock, 1);
        }
        fake_close(fake);
    }
}

TEST(no_clock_begins_between_fence_and_plan) {
    struct fake *fake = fake_open(3, 0);
    give_fence(fake, 2);
    fake_io_forget(&fake->io);
    computed(fake, 1, 1); /* the clock in progress is completed */
    assert_int_equal(fake->asked.evaluating, 0);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, NULL), 0);
    give_plan(fake); /* a plan of the old epoch */
    assert_int_equal(fake->node.plan.terms.version, 1);
    fake->next.epoch = 2;
    give_plan(fake);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_int_equal(message.epoch, 2);
    answer_subscribes(fake, 0);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2);
    fake_io_forget(&fake->io);
    give_fence(fake, 2); /* the fence is over */
    assert_int_equal(fake->io.count, 0);
}

/* A node dies at clock 4, while clocks after 2 are not committed. We get its shards in the clocks after the restored
 * clock. */
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
    computed(fake, 1, 5); /* not evaluated, as it waits for clock 4 */
    give_fence(fake, 2);
    fake->next.epoch = 2;
    fake->next.plan.restore = restore;
    no_assignments(fake);
    add_assignment(fake, SELF, 1, 5, 0, 4);
    add_assignment(fake, SELF, 6, WIRE_CLOCK_NEVER, 0, 8);
    add_assignment(fake, origin_catch_up(SELF, 2), restore + 1, 5, 4, 4);
    fake_io_forget(&fake->io);
    give_plan(fake);
    answer_subscribes(fake, restore);
    return fake;
}

static struct fake *fake_recover(void) {
    return fake_recover_to(2, AML_ADD);
}

TEST(catch_ups_come_first) {
    struct fake *fake = fake_recover();
    actor_id origin = origin_catch_up(SELF, 2);
    struct message message = {0};
    assert_int_equal(fake->asked.preparing, 3); /* the catch-up's set first, as all nodes wait for it */
    assert_int_equal(fake->asked.prepared_shards, 4);
    prepared(fake, 3, 40);
    assert_int_equal(fake->asked.preparing, 2);
    evaluated(fake, 5); /* evaluated now, as the state that it waited for needs the catch-up */
    fake_io_forget(&fake->io);
    computed(fake, 3, 3);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_int_equal(message.flush.origin, origin);
    evaluated(fake, 3); /* without a wait */
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
    computed(fake, 2, 6); /* our own assignment, of all shards */
    assert_int_equal(fake->node.work.evaluated, 5);
}

/* The dead node's clock 3 is not committed, so it may be repeated. Values that we overwrite in later clocks would
 * then stay. */
TEST(a_catch_up_waits_for_the_commit_of_what_it_goes_on_from) {
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
    computed(fake, 2, 6); /* with all shards, a repetition of clocks 4 and 5 would be our own */
}

TEST(sums_need_no_commit) {
    struct fake *fake = fake_recover_to(3, AML_ADD);
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    computed(fake, 3, 4);
}

TEST(catch_ups_are_acknowledged_apart) {
    struct fake *fake = fake_recover();
    prepared(fake, 3, 40);
    evaluated(fake, 5);
    computed(fake, 3, 3);
    evaluated(fake, 3);
    assert_int_equal(fake->node.reports.count, 6); /* clocks 1 to 5, and the catch-up's 3 */
    give_ack(fake, (struct message_heartbeat_ack){.progress = 5});
    assert_int_equal(fake->node.reports.count, 1);
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK, .epoch = 1, .heartbeat_ack = {.catch_up = 3}};
    give(fake, ACTOR_CONTROLLER, &ack); /* for an epoch with another catch-up */
    assert_int_equal(fake->node.reports.count, 1);
    give_ack(fake, (struct message_heartbeat_ack){.catch_up = 3});
    assert_int_equal(fake->node.reports.count, 0);
}

TEST(an_earlier_catch_up_goes_on_through_the_next_failure) {
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
    fake_io_forget(&fake->io);
    give_plan(fake);
    struct message message = {0};
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &message),
                     5); /* clocks 3 to 5, and the catch-up's 3 and 4 */
    answer_subscribes(fake, 3);
    computed(fake, 3, 5);
    evaluated(fake, 5);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 4, .catch_up = 9});
    assert_int_equal(fake->node.reports.count, 2); /* both reports of clock 5 */
    give_ack(fake, (struct message_heartbeat_ack){.progress = 5});
    assert_int_equal(fake->node.reports.count, 0);
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

/* The PROGRESS of this clock was lost, but that of a catch-up arrived. The node sends the lost PROGRESS again,
 * before that of later clocks, which the controller can't complete without it. */
static void expect_sent_again_in_order(struct fake *fake, actor_id origin, uint64_t clock) {
    give_ack(fake, (struct message_heartbeat_ack){.progress = clock - 1, .catch_up = clock + 1});
    fake_io_forget(&fake->io);
    wait_ms(fake, 1000);
    uint64_t before = 0;
    bool found = false;
    for (unsigned m = 0; m < fake->io.count; m++) {
        const struct message *message = &fake->io.sent[m].message;
        if (message->type == MESSAGE_PROGRESS) {
            assert_true(message->progress.clock >= before);
            before = message->progress.clock;
            found =
                found || (message->progress.origin == origin && before == clock && message->progress.evaluation == 1);
        }
    }
    assert_true(found);
}

TEST(what_a_lost_node_had_done_is_evaluated_when_asked) {
    struct fake *fake = fake_recover();
    actor_id origin = origin_catch_up(SELF, 2);
    struct message message = {0};
    give_evaluate(fake, origin, 3, 4, 4);                    /* after the restored clock */
    give_evaluate(fake, origin, 2, 6, 3);                    /* shard 8, of 8 shards */
    give_evaluate(fake, origin_catch_up(OTHER, 2), 2, 4, 4); /* another node's catch-up */
    assert_int_equal(fake->node.work.evaluation_count, 0);
    give_evaluate(fake, origin, 2, 4, 3);
    give_evaluate(fake, origin, 2, 4, 3); /* a repeat */
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
    fake_io_forget(&fake->io);
    evaluated(fake, 5);
    assert_int_equal(fake->asked.set, 4);
    assert_true(fake->asked.again);
    evaluated(fake, 2); /* before the next clock */
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 2);
    assert_true(message.progress.origin == origin && message.progress.clock == 2 && message.progress.items == 0);
    assert_true(message.progress.evaluation == 1 && message.progress.last == 0);
    expect_sent_again_in_order(fake, origin, 2);
    push(fake, 4, 5);
    assert_int_equal(fake->asked.computing, 6);
    assert_false(fake->asked.evaluating);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 2, .catch_up = 2});
    assert_int_equal(fake->node.work.evaluation_count, 0);
}

/* A later failure restores an earlier clock: the nodes that repeat the clock evaluate it. */
TEST(an_evaluation_for_a_clock_that_is_done_again_is_void) {
    struct fake *fake = fake_recover();
    give_evaluate(fake, origin_catch_up(SELF, 2), 2, 4, 3);
    assert_int_equal(fake->node.work.evaluation_count, 1);
    give_fence(fake, 3);
    fake->next.epoch = 3;
    fake->next.plan.restore = 1;
    give_plan(fake);
    assert_int_equal(fake->node.work.evaluation_count, 0);
}

/* `proteus stop` makes a clock the last one after its evaluation. */
TEST(a_clock_that_becomes_the_last_is_evaluated_again) {
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    evaluated(fake, 1);
    computed(fake, 1, 2);
    push(fake, 0, 1);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 1, .barrier_clock = 2});
    evaluated(fake, 2); /* evaluated with the state of clock 1, as staleness allows */
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 2);
    assert_int_equal(message.progress.last, 0);
    fake_io_forget(&fake->io);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 2, .barrier_clock = WIRE_CLOCK_NEVER, .final = 2});
    assert_int_equal(fake->asked.evaluating, 0); /* the state of clock 2 has not arrived */
    push(fake, 1, 2);
    assert_true(fake->asked.again);
    evaluated(fake, 2);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_true(message.progress.evaluation == 1 && message.progress.last == 1 && message.progress.items == 0);
    assert_int_equal(fake->asked.evaluating, 0); /* only once */
    assert_int_equal(fake->node.state, NODE_FINISHED);
}

/* ---- The end ---- */

static struct fake *fake_finish(void) {
    struct fake *fake = fake_open(0, 1);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(fake->node.state, NODE_FINISHED);
    fake_io_forget(&fake->io);
    return fake;
}

TEST(the_model_is_saved_when_asked) {
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
}

/* Each attempt calls `finish` once. */
TEST(a_failed_saving_is_tried_again_when_asked) {
    struct message saved;
    struct fake *fake = fake_finish();
    give_save(fake, 0, 1);
    give_save(fake, 0, 2); /* the first attempt is still running and counts for both requests */
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
}

TEST(a_failure_while_saving_puts_the_node_back_to_work) {
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
    assert_int_equal(fake->asked.computing, 0); /* the app is still saving */
    give_save(fake, 1, 1);                      /* a request of the old epoch */
    node_saved(&fake->node, AML_ESTOP, "stopped");
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 0);
    computed(fake, 3, 1);
    evaluated(fake, 1);
    push(fake, 0, 1);
    evaluated(fake, 1); /* again, with the last clock's state */
    prepared(fake, 2, 10);
    evaluated(fake, 1); /* again, as the state differs from that before the failure */
    assert_int_equal(fake->node.state, NODE_FINISHED);
    assert_int_equal(fake->asked.saves, 1);
    give_save(fake, 0, 1);
    assert_int_equal(fake->asked.saves, 2);
    node_saved(&fake->node, 0, "");
    assert_int_equal(told(fake, MESSAGE_SAVED, NULL), 1);
}

/* ---- Notes ---- */

static void answer_note(struct fake *fake, uint64_t request) {
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome = {.request = request}};
    give(fake, ACTOR_CONTROLLER, &outcome);
}

/* A note is repeated until it is answered, and sent only after the job has welcomed the node. */
TEST(a_note_is_said_until_it_is_answered) {
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
    fake_io_forget(&fake->io);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), 2);
    fake_io_forget(&fake->io);
    answer_note(fake, first.app_note.request);
    answer_note(fake, first.app_note.request); /* the controller got the note twice */
    node_connected(&fake->node, ACTOR_CONTROLLER);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &first), 1);
    assert_int_equal(first.app_note.request, second.app_note.request);
    fake_io_forget(&fake->io);
    answer_note(fake, second.app_note.request);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), 0);
}

/* The answer to a note does not answer the node's request to leave. */
TEST(a_noted_node_still_leaves) {
    struct message note = {0};
    struct fake *fake = fake_open(0, 2);
    node_note(&fake->node, "a");
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, &note), 1);
    node_leave_soon(&fake->node, 1000);
    answer_note(fake, note.app_note.request);
    assert_true(fake->node.departure.requested);
    assert_int_equal(fake->asked.ends, 0);
}

TEST(too_many_notes_are_left_out) {
    struct fake *fake = fake_open(0, 1);
    for (unsigned n = 0; n < NODE_NOTES_MAX + 5; n++) {
        node_note(&fake->node, "a");
    }
    assert_int_equal(told(fake, MESSAGE_APP_NOTE, NULL), NODE_NOTES_MAX);
}

/* Notes of the last clock, and of `finish`, arrive before the job can end. */
TEST(the_end_waits_for_notes) {
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
    fake_io_forget(&fake->io);
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
}

/* ---- The end, after failures ---- */

TEST(saving_again_waits_for_the_abandoned_one) {
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
}

TEST(leaving_is_asked_for_until_answered) {
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    node_leave_soon(&fake->node, 5000);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 1);
    assert_int_equal(message.evict.notice_ms, 5000);
    assert_int_equal(message.frame_count, 1);
    assert_int_equal(message.frames[0]->size, 0);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 2);
    assert_int_equal(message.evict.notice_ms, 4800); /* the remaining time */
    struct message outcome = {.type = MESSAGE_OUTCOME, .outcome = {.request = message.evict.request}};
    give(fake, ACTOR_CONTROLLER, &outcome);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, NULL), 2);
    assert_int_equal(fake->asked.computing, 1); /* works until DONE */
    give_empty(fake, MESSAGE_DONE, 0);
    assert_int_equal(fake->asked.ends, 1);
}

/* The process is about to die: neither messages nor timers make the node do anything. */
TEST(a_node_whose_app_crashes_says_so_and_stands_still) {
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
    assert_false(node_crashed(&fake->node, &facts)); /* the node has left the job */
    assert_int_equal(told(fake, MESSAGE_CRASHED, NULL), 0);
}

/* A signal, the cloud and BidBrain may each give a warning; the shortest time counts. */
TEST(a_shorter_warning_counts) {
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
    assert_int_equal(told(fake, MESSAGE_EVICT, &message), 3); /* repeated until the shorter warning is answered */
    assert_int_equal(message.evict.notice_ms, 2800);
    give(fake, ACTOR_CONTROLLER, &outcome);
    wait_ms(fake, 200);
    assert_int_equal(told(fake, MESSAGE_EVICT, NULL), 3);
}

TEST(who_can_not_leave_fails) {
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
}

TEST(who_was_given_up_starts_anew) {
    struct fake *fake = fake_open(1, 0);
    give_empty(fake, MESSAGE_REJOIN, 0);
    give_empty(fake, MESSAGE_REJOIN, 0);
    assert_int_equal(fake->asked.rejoins, 1);
    assert_int_equal(fake->asked.ends, 0);
    assert_int_equal(fake->io.timer_us, 0);
}

/* ---- Silence ---- */

TEST(the_controller_may_be_gone_for_a_while) {
    struct fake *fake = fake_open(1, 0);
    for (unsigned i = 0; i < 199; i++) {
        wait_ms(fake, 100);
        fake_io_forget(&fake->io);
    }
    assert_int_equal(fake->asked.ends, 0);
    wait_ms(fake, 200);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_EFAIL);
}

TEST(before_the_welcome_patience_is_short) {
    struct fake *fake = fake_new(1, 0);
    for (unsigned i = 0; i < 50; i++) {
        wait_ms(fake, 100);
        fake_io_forget(&fake->io);
    }
    assert_int_equal(fake->asked.ends, 0);
    wait_ms(fake, 100);
    assert_int_equal(fake->asked.ends, 1);
}

/* Unacknowledged reports are sent again, in batches that double each time a whole batch was acknowledged. Thousands
 * of clocks may have to be reported after a time without a controller. */
TEST(more_is_reported_again_when_it_arrives) {
    enum { CLOCKS = 150 };
    struct fake *fake = fake_open(0, CLOCKS);
    for (uint64_t c = 1; c <= CLOCKS; c++) {
        computed(fake, 1, c);
        push(fake, c - 1, c);
        evaluated(fake, c);
        fake_io_forget(&fake->io);
    }
    assert_int_equal(fake->node.reports.count, CLOCKS);
    wait_ms(fake, 150);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 16);
    fake_io_forget(&fake->io);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 16});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 32);
    fake_io_forget(&fake->io);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 40});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 0);
    give_ack(fake, (struct message_heartbeat_ack){.progress = 48});
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 64);
    for (unsigned b = 0; b < 10; b++) { /* no acknowledgement arrives */
        fake_io_forget(&fake->io);
        wait_ms(fake, 150);
    }
    assert_int_equal(told(fake, MESSAGE_PROGRESS, NULL), 16);
}

TEST(a_silent_server_is_reported) {
    struct fake *fake = fake_open(0, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    fake_io_forget(&fake->io);
    for (unsigned i = 0; i < 10; i++) {
        wait_ms(fake, 100);
    }
    assert_true(told(fake, MESSAGE_HEARTBEAT, &message) > 0);
    assert_int_equal(message.heartbeat.silent, ACTOR_NONE);
    wait_ms(fake, 100);
    told(fake, MESSAGE_HEARTBEAT, &message);
    assert_int_equal(message.heartbeat.silent, OTHER);
    assert_int_equal(fake->asked.ends, 0);
}

TEST(who_was_stopped_itself_accuses_nobody) {
    struct fake *fake = fake_open(0, 0);
    struct message message = {0};
    computed(fake, 1, 1);
    fake_io_forget(&fake->io);
    wait_ms(fake, 100 * 1000);
    assert_true(told(fake, MESSAGE_HEARTBEAT, &message) > 0);
    assert_int_equal(message.heartbeat.silent, ACTOR_NONE);
    assert_int_equal(fake->asked.ends, 0);
}

/* ---- Our servers ---- */

static void give_checkpoint(struct fake *fake, uint64_t number) {
    static const uint32_t partitions[] = {0, 3}; /* this node does not serve the second partition */
    struct message message = {
        .type = MESSAGE_CHECKPOINT, .checkpoint = {.number = number, .clock = 8}, .frame_count = 1};
    message.frames[0] = buffer_copy(partitions, sizeof partitions);
    give(fake, ACTOR_CONTROLLER, &message);
}

TEST(checkpoints_are_passed_on_and_answered) {
    struct fake *fake = fake_open(1, 0);
    struct message message = {0};
    give_checkpoint(fake, 1);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_CHECKPOINT, &message), 1);
    assert_int_equal(message.frames[0]->size, sizeof(uint32_t));
    assert_int_equal(fake_io_sent(&fake->io, SELF + 2, MESSAGE_CHECKPOINT, NULL), 0);
    struct message written = {.type = MESSAGE_WRITTEN,
                              .written = {.number = 1, .state = WRITTEN_PROMISED, .clock = 8, .checksum = 77}};
    give(fake, SELF + 1, &written);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, &message), 1);
    assert_int_equal(message.written.state, WRITTEN_PROMISED);
    give_checkpoint(fake, 1); /* asks again whether the file is written */
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_CHECKPOINT, NULL), 2);
    written.written.state = WRITTEN_DONE;
    fake_io_forget(&fake->io);
    give(fake, SELF + 1, &written);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, &message), 1);
    assert_int_equal(message.written.checksum, 77);
    give_checkpoint(fake, 1); /* the answer was lost */
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 2);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_CHECKPOINT, NULL), 0);
    give_checkpoint(fake, 2); /* another attempt */
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_CHECKPOINT, NULL), 1);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 2);
}

TEST(an_epoch_makes_checkpoints_void) {
    struct fake *fake = fake_open(1, 0);
    give_checkpoint(fake, 1);
    struct message written = {.type = MESSAGE_WRITTEN, .written = {.number = 1, .clock = 8}};
    give(fake, SELF + 1, &written);
    fake->next.epoch = 2;
    give_plan(fake);
    fake_io_forget(&fake->io);
    give_checkpoint(fake, 1);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 0);
    assert_int_equal(fake_io_sent(&fake->io, SELF + 1, MESSAGE_CHECKPOINT, NULL), 1);
    struct message late = {.type = MESSAGE_WRITTEN, .epoch = 1, .written = {.number = 1, .clock = 8}};
    give(fake, SELF + 1, &late);
    assert_int_equal(told(fake, MESSAGE_WRITTEN, NULL), 0);
}

TEST(a_server_that_fails_fails_the_node) {
    struct fake *fake = fake_open(1, 0);
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT}};
    give(fake, REMOTE, &fail); /* from another node's server */
    assert_int_equal(fake->asked.ends, 0);
    struct message own = {.type = MESSAGE_FAIL, .text = {.code = AML_ELIMIT}};
    give(fake, SELF + 2, &own);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_int_equal(told(fake, MESSAGE_FAIL, NULL), 1);
}

TEST(a_pulse_that_fails_fails_the_node) {
    struct fake *fake = fake_open(1, 0);
    struct message fail = {.type = MESSAGE_FAIL, .text = {.code = AML_EFAIL}};
    give(fake, actor_pulse(REMOTE), &fail); /* from another node's pulse */
    assert_int_equal(fake->asked.ends, 0);
    struct message own = {.type = MESSAGE_FAIL, .text = {.code = AML_EFAIL}};
    give(fake, actor_pulse(SELF), &own);
    assert_int_equal(fake->asked.end_code, AML_EFAIL);
    assert_int_equal(told(fake, MESSAGE_FAIL, NULL), 1);
}

/* The accusation is sent at once, and with each heartbeat until the epoch ends. Then the next node may be accused. */
TEST(an_accusation_is_repeated_in_its_epoch) {
    struct fake *fake = fake_open(1, 0);
    struct message heard = {0};
    struct message foreign = {.type = MESSAGE_ACCUSE, .accuse = {.accused = actor_node(REMOTE), .text = "foreign"}};
    give(fake, REMOTE, &foreign); /* not from this node's server */
    assert_int_equal(told(fake, MESSAGE_ACCUSE, NULL), 0);
    struct message own = {.type = MESSAGE_ACCUSE, .accuse = {.accused = actor_node(REMOTE), .text = "own"}};
    give(fake, SELF + 1, &own);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_int_equal(heard.accuse.accused, actor_node(REMOTE));
    assert_string_equal(heard.accuse.text, "own");
    struct message impossible = {.type = MESSAGE_PUSH, .push = {.clock = 1000}};
    give(fake, REMOTE, &impossible); /* only one accusation at a time */
    fake_io_forget(&fake->io);
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_string_equal(heard.accuse.text, "own");
    fake->next.epoch = 2;
    fake_io_forget(&fake->io);
    give_fence(fake, 2);
    give(fake, SELF + 1, &(struct message){.type = MESSAGE_ACCUSE, .epoch = 1, .accuse = {.text = "late"}});
    wait_ms(fake, 100);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, NULL), 0);
    give_plan(fake);
    impossible = (struct message){.type = MESSAGE_PUSH, .push = {.clock = 1000}};
    give(fake, REMOTE, &impossible);
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &heard), 1);
    assert_string_equal(heard.accuse.text, "PUSH: clock 1000, at most 0 is possible");
}

/* ---- Other nodes ---- */

enum { ANY_KIND = PEER_KINDS_MAX };

static struct message peer_of(enum service service, unsigned kind, actor_id sender) {
    return (struct message){.type = MESSAGE_PEER,
                            .peer = {.service = (uint8_t)service, .kind = (uint8_t)kind, .sender = sender}};
}

static bool is_peer(const struct message *message, enum service service, unsigned kind) {
    return message->type == MESSAGE_PEER && message->peer.service == service &&
           (kind == ANY_KIND || message->peer.kind == kind);
}

/* As fake_io_sent, of a service's messages of a kind. */
static unsigned peers_sent(const struct fake *fake, actor_id to, enum service service, unsigned kind,
                           struct message *last) {
    unsigned found = 0;
    for (unsigned m = 0; m < fake->io.count; m++) {
        if (fake->io.sent[m].to == to && is_peer(&fake->io.sent[m].message, service, kind)) {
            found++;
            if (last != NULL) {
                *last = fake->io.sent[m].message;
            }
        }
    }
    return found;
}

/* ---- Lots ---- */

static uint64_t digest_of(uint32_t first, uint32_t second) {
    const uint32_t shards[2] = {first, second};
    return hash_bytes((const unsigned char *)shards, sizeof shards, 0);
}

/* OTHER's message about this node's lot, passed on by this node's server. */
static void give_lot(struct fake *fake, enum lot_kind kind, uint64_t clock, uint64_t claim, uint64_t digest) {
    struct message message = peer_of(SERVICE_LOTS, kind, OTHER);
    message.peer.lot = (struct peer_lot){.clock = clock, .claim = claim, .digest = digest, .items = 5};
    if (kind == LOT_DONE) {
        const struct wire_metric_sum sums[WIRE_METRICS_MAX] = {{0}};
        message_add_copy(&message, sums, fake->node.options.metric_count * sizeof *sums);
    }
    give(fake, SELF + 1, &message);
}

static unsigned lots_sent(const struct fake *fake, actor_id to, enum lot_kind kind) {
    return peers_sent(fake, to, SERVICE_LOTS, kind, NULL);
}

static void gathered(struct fake *fake) {
    assert_int_equal(fake->asked.gathers, 1);
    fake->asked.gathers = 0;
    fake->asked.computing = 0;
    assert_int_equal(client_gather(&fake->node.client, 0, NULL), 0);
    node_gathered(&fake->node);
}

TEST(a_lot_is_given_away_once_and_awaited) {
    struct fake *fake = fake_open_lots();
    struct message progress = {0};
    give_lot(fake, LOT_ASK, 1, 7, digest_of(6, 7)); /* not this node's lot */
    give_lot(fake, LOT_ASK, 2, 8, digest_of(2, 3)); /* not the present clock */
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_KEEP), 2);
    give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_GIVE), 1);
    give_lot(fake, LOT_ASK, 1, 10, digest_of(2, 3));
    assert_int_equal(lots_sent(fake, SELF + 1, LOT_KEEP), 3);
    assert_int_equal(node_lot_take(&fake->node), -1);
    node_computed(&fake->node, 5, 1000);
    assert_int_equal(fake->asked.gathers, 0);
    give_lot(fake, LOT_DONE, 1, 10, 0); /* for a refused request */
    assert_int_equal(fake->asked.gathers, 0);
    give_lot(fake, LOT_DONE, 1, 9, 0);
    gathered(fake);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items, 10);
    assert_int_equal(progress.progress.compute_us, 2000); /* estimated as without help */
}

/* A lot is computed here if its result is lost, or the helper leaves it. */
TEST(a_lot_that_does_not_come_back_is_done_here) {
    for (unsigned left = 0; left < 2; left++) {
        struct fake *fake = fake_open_lots();
        give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
        node_computed(&fake->node, 5, 1000);
        if (left == 1) {
            give_lot(fake, LOT_LEFT, 1, 9, 0);
            assert_int_equal(fake->asked.lots, 1);
        }
        wait_ms(fake, 10);
        assert_int_equal(fake->asked.lots, 1);
        fake_close(fake);
    }
}

TEST(a_lot_that_comes_back_too_late_is_dropped) {
    struct fake *fake = fake_open_lots();
    struct message progress = {0};
    give_lot(fake, LOT_ASK, 1, 9, digest_of(2, 3));
    node_computed(&fake->node, 5, 1000);
    assert_true(fake->io.timer_us <= fake->io.now_us + 10 * 1000);
    wait_ms(fake, 10);
    assert_int_equal(fake->asked.lots, 1);
    assert_int_equal(node_lot_take(&fake->node), 0);
    give_lot(fake, LOT_DONE, 1, 9, 0); /* too late */
    node_computed(&fake->node, 5, 1000);
    gathered(fake);
    push(fake, 0, 1);
    evaluated(fake, 1);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items, 10);
    assert_int_equal(fake->asked.computing, 2);
    give_lot(fake, LOT_ASK, 2, 11, digest_of(2, 3));
    give_fence(fake, 2); /* the helper may be the lost node */
    node_computed(&fake->node, 5, 1000);
    assert_int_equal(fake->asked.lots, 2);
}

TEST(a_node_that_waits_asks_for_a_lot) {
    struct fake *fake = fake_open_lots();
    static const struct wire_metric_sum sum = {.sum = 3, .weight = 5};
    struct message message = {0};
    assert_int_equal(node_lot_take(&fake->node), 0);
    node_computed(&fake->node, 10, 5000);
    gathered(fake);
    assert_int_equal(lots_sent(fake, REMOTE, LOT_ASK), 1);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_LOTS, LOT_ASK, &message), 1);
    assert_true(message.peer.receiver == OTHER && message.peer.lot.clock == 1 &&
                message.peer.lot.digest == digest_of(6, 7));
    struct message give_it = peer_of(SERVICE_LOTS, LOT_GIVE, OTHER);
    give_it.peer.lot = message.peer.lot;
    give(fake, REMOTE, &give_it);
    assert_int_equal(fake->asked.helped, 2);
    push(fake, 0, 1); /* the owner did the lot itself */
    assert_int_equal(fake->asked.computing, 0);
    fake->asked.helped = 0;
    node_helped(&fake->node, 5, &sum);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_LOTS, LOT_DONE, &message), 1);
    assert_true(message.peer.receiver == OTHER && message.peer.lot.claim == 1 && message.peer.lot.items == 5);
    assert_memory_equal(message.frames[message.frame_count - 1]->data, &sum, sizeof sum);
    evaluated(fake, 1);
    assert_int_equal(fake->asked.computing, 2);
}

TEST(an_answer_that_comes_too_late_is_declined) {
    struct fake *fake = fake_open_lots();
    struct message message = {0};
    assert_int_equal(node_lot_take(&fake->node), 0);
    node_computed(&fake->node, 10, 5000);
    gathered(fake);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_LOTS, LOT_ASK, &message), 1);
    struct message give_it = peer_of(SERVICE_LOTS, LOT_GIVE, OTHER);
    give_it.peer.lot = message.peer.lot;
    push(fake, 0, 1);
    evaluated(fake, 1);
    give(fake, REMOTE, &give_it);
    assert_int_equal(fake->asked.helped, 0);
    assert_int_equal(lots_sent(fake, REMOTE, LOT_LEFT), 1);
}

/* ---- Clocks without work ---- */

/* They begin and end with the next clock, as far as a barrier allows. */
TEST(clocks_without_work_end_with_the_next) {
    struct fake *fake = fake_new_as(SELF, 0, 8);
    struct message message = {0};
    fake->job.clocks = (struct strategy_clocks){.per_iteration = 8, .local_steps = 4};
    fake->next.plan.strategy = fake->next.plan.next_strategy = STRATEGY_SMA;
    fake->next.plan.strategy_from = 1;
    start_beside_other(fake, SELF, 4);
    assert_int_equal(fake->node.work.begun, 4);
    computed(fake, 1, 4);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_true(message.flush.clock == 4 && message.flush.idle == 3);
    push(fake, 0, 4);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 1, .barrier_clock = 6});
    fake_io_forget(&fake->io);
    evaluated(fake, 4);
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &message), 1);
    assert_true(message.progress.clock == 4 && message.progress.idle == 3 && message.progress.items == 10);
    assert_int_equal(fake->node.reports.clocks, 4);
    computed(fake, 1, 6); /* both without work */
    push(fake, 4, 6);
    evaluated(fake, 6);
    assert_int_equal(fake->asked.computing, 0);
    give_ack(fake, (struct message_heartbeat_ack){.barrier = 2, .barrier_clock = WIRE_CLOCK_NEVER, .progress = 4});
    assert_int_equal(fake->node.reports.clocks, 2);
    fake_io_forget(&fake->io);
    computed(fake, 1, 8);
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &message), 1);
    assert_true(message.flush.clock == 8 && message.flush.idle == 1);
}

/* ---- Averages between local steps ---- */

enum { MODEL_ROWS = 3, MODEL_WIDTH = 2, MODEL_ELEMENTS = MODEL_ROWS * MODEL_WIDTH, STEPS = 4 };

/* fake_open with an averaged table of floats and AD-PSGD; the first of STEPS local steps is being computed. OTHER
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
    assert_int_equal(fake->asked.computing, STEPS);
    assert_int_equal(fake->node.work.steps, STEPS);
    assert_int_equal(cache_add(&fake->node.cache, 0, 0), 0); /* the table is replicated, so this adds all rows */
    fake_io_forget(&fake->io);
    return fake;
}

static float *model_row(struct fake *fake, unsigned row) {
    return (float *)(void *)cache_row(&fake->node.cache.tables[0], row);
}

/* A step of the app that adds `change` to every element. */
static void step(struct fake *fake, float change) {
    for (unsigned r = 0; r < MODEL_ROWS; r++) {
        for (unsigned e = 0; e < MODEL_WIDTH; e++) {
            model_row(fake, r)[e] += change;
        }
        fake->node.cache.tables[0].touched.base[r] = 1;
    }
    assert_int_equal(fake->asked.computing, STEPS);
    fake->asked.computing = 0;
    node_computed(&fake->node, 10, 1000);
}

static struct message gossip(enum gossip_kind kind, uint64_t clock, uint64_t claim, uint32_t rows, float value) {
    struct message message = peer_of(SERVICE_GOSSIP, kind, OTHER);
    struct buffer *keys = buffer_new(rows * sizeof(uint64_t));
    struct buffer *values = buffer_new(rows * MODEL_WIDTH * sizeof value);
    for (uint32_t r = 0; r < rows; r++) {
        ((uint64_t *)(void *)keys->data)[r] = r;
        for (unsigned e = 0; e < MODEL_WIDTH; e++) {
            ((float *)(void *)values->data)[r * MODEL_WIDTH + e] = value;
        }
    }
    rows_append(&message, 0, WIRE_FULL, keys, values);
    message.peer.gossip = (struct peer_gossip){.clock = clock, .claim = claim};
    return message;
}

static void give_offer(struct fake *fake, uint64_t clock, uint32_t rows, float value) {
    struct message message = gossip(GOSSIP_OFFER, clock, 5, rows, value);
    give(fake, SELF + 1, &message);
}

static void give_answer(struct fake *fake, uint64_t claim, float move) {
    struct message message = gossip(GOSSIP_ANSWER, STEPS, claim, MODEL_ROWS, move);
    give(fake, REMOTE, &message);
}

/* Checks that one GOSSIP of this kind was sent, whose elements are all `value` (NAN: without rows), and forgets all
 * messages. */
static void expect_gossip(struct fake *fake, actor_id to, enum gossip_kind kind, float value) {
    struct message message = {0};
    struct rows_view view;
    assert_int_equal(peers_sent(fake, to, SERVICE_GOSSIP, ANY_KIND, &message), 1);
    assert_int_equal(message.peer.kind, kind);
    assert_true(message.peer.receiver == OTHER && message.peer.gossip.clock == STEPS);
    assert_int_equal(rows_find(&message, 0, &view), !isnan(value));
    for (unsigned e = 0; !isnan(value) && e < MODEL_ELEMENTS; e++) {
        assert_true(fabsf(((const float *)(const void *)view.values)[e] - value) < 1e-6F);
    }
    fake_io_forget(&fake->io);
}

static void expect_rows(struct fake *fake, float value) {
    for (unsigned e = 0; e < MODEL_ELEMENTS; e++) {
        assert_true(fabsf(model_row(fake, e / MODEL_WIDTH)[e % MODEL_WIDTH] - value) < 1e-6F);
    }
}

/* The peer declines the node's offer. */
static void give_refusal(struct fake *fake, uint64_t claim) {
    struct message message = peer_of(SERVICE_GOSSIP, GOSSIP_ANSWER, OTHER);
    message.peer.gossip = (struct peer_gossip){.clock = STEPS, .claim = claim};
    give(fake, REMOTE, &message);
}

TEST(steps_are_averaged) {
    struct fake *fake = fake_open_gossip(SELF);
    step(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1);
    give_answer(fake, 1, 0.5F);
    expect_rows(fake, 1); /* waits, as the app works on the rows */
    step(fake, 1);
    expect_rows(fake, 2.5F);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 2.5F);
    give_answer(fake, 2, -0.5F);
    /* OTHER's share of the mean is 1/4: our rows gain 1 and OTHER's lose 3, which keeps the weighted sum. */
    give_offer(fake, STEPS, MODEL_ROWS, 6);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, -3);
    give_offer(fake, STEPS, MODEL_ROWS, 7); /* our rows have reached 3 */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, -3);
    step(fake, 0);
    expect_rows(fake, 4);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 4);
    give_refusal(fake, 3);
    step(fake, 0); /* the last step */
    expect_rows(fake, 4);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_GOSSIP, ANY_KIND, NULL), 0);
    give_offer(fake, STEPS, MODEL_ROWS, 8); /* the clock's changes are already being gathered */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    assert_int_equal(fake->asked.gathers, 1);
    gathered(fake);
    struct message flush = {0};
    struct rows_view view;
    assert_int_equal(fake_io_sent(&fake->io, REMOTE, MESSAGE_FLUSH, &flush), 1);
    assert_true(rows_find(&flush, 0, &view) && view.count == MODEL_ROWS);
    assert_true(((const float *)(const void *)view.values)[0] == 3); /* 4 times our share */
    assert_int_equal(fake->node.work.items, 40);
    assert_int_equal(node_gossip(&fake->node)->averaged, 4);
}

/* Messages that change nothing: late or repeated, from a wrong sender, of another clock, epoch or shape, or with
 * NaNs. */
TEST(what_is_not_averaged) {
    struct fake *fake = fake_open_gossip(SELF);
    give_offer(fake, STEPS, MODEL_ROWS, 5); /* before the first step all copies of the model are equal */
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    step(fake, 1);
    fake_io_forget(&fake->io);
    give_refusal(fake, 1);
    struct message message = gossip(GOSSIP_OFFER, STEPS + 1, 5, MODEL_ROWS, 5);
    give(fake, SELF + 1, &message);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_GOSSIP, ANY_KIND, &message), 1);
    assert_int_equal(message.frame_count, 0);
    fake_io_forget(&fake->io);
    give_offer(fake, STEPS, MODEL_ROWS - 1, 5);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    give_offer(fake, STEPS, MODEL_ROWS, INFINITY);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    message = gossip(GOSSIP_OFFER, STEPS, 5, MODEL_ROWS, 5);
    message.peer.sender = 0x70000; /* not a node of the job */
    give(fake, SELF + 1, &message);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_GOSSIP, ANY_KIND, &message), 1);
    assert_int_equal(message.frame_count, 0);
    fake_io_forget(&fake->io);
    message = gossip(GOSSIP_OFFER, STEPS, 5, MODEL_ROWS, 5);
    message.epoch = 7;
    give(fake, SELF + 1, &message);
    message = gossip(GOSSIP_OFFER, STEPS, 5, MODEL_ROWS, 5); /* not from a server of this node */
    give(fake, REMOTE, &message);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_GOSSIP, ANY_KIND, NULL), 0);
    message = gossip(GOSSIP_OFFER, STEPS, 5, MODEL_ROWS, 5);
    message.frames[2]->size--;
    give(fake, SELF + 1, &message);
    struct message accusation = {0};
    assert_int_equal(told(fake, MESSAGE_ACCUSE, &accusation), 1);
    assert_true(accusation.accuse.accused == OTHER);
    fake_io_forget(&fake->io);
    step(fake, 0);
    expect_rows(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1); /* the second offer */
    give_answer(fake, 3, 1);                      /* no such offer */
    message = gossip(GOSSIP_ANSWER, STEPS, 2, MODEL_ROWS, NAN);
    give(fake, REMOTE, &message);
    give_answer(fake, 2, 1); /* a second answer */
    step(fake, 0);
    expect_rows(fake, 1);
    assert_int_equal(node_gossip(&fake->node)->averaged, 0);
}

/* However long an answer takes, only one offer is open, and no other average is made meanwhile. If the peer leaves
 * the clock, another peer gets an offer. */
TEST(an_offer_is_awaited) {
    struct fake *fake = fake_open_gossip(SELF);
    step(fake, 1);
    expect_gossip(fake, REMOTE, GOSSIP_OFFER, 1);
    fake->io.now_us += UINT64_C(3600) * 1000 * 1000;
    step(fake, 1);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_GOSSIP, ANY_KIND, NULL), 0);
    give_offer(fake, STEPS, MODEL_ROWS, 6);
    expect_gossip(fake, SELF + 1, GOSSIP_ANSWER, NAN);
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 6);
    add_assignment(fake, THIRD, 1, WIRE_CLOCK_NEVER, 6, 2);
    give_plan(fake);
    step(fake, 1);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_GOSSIP, ANY_KIND, NULL), 1);
    give_answer(fake, 1, 1); /* from the peer that left */
    step(fake, 1);
    expect_rows(fake, 4);
}

/* Delivers the first GOSSIP of `from` to `to`; false: none was sent. Each of the two takes the other for OTHER. */
static bool carry(struct fake *from, struct fake *to) {
    for (unsigned m = 0; m < from->io.count; m++) {
        struct message message = from->io.sent[m].message;
        if (message.type == MESSAGE_PEER) {
            memmove(from->io.sent + m, from->io.sent + m + 1, (--from->io.count - m) * sizeof from->io.sent[0]);
            message.peer.sender = OTHER;
            give(to, message.peer.kind == GOSSIP_OFFER ? to->node.options.self + 1 : REMOTE, &message);
            return true;
        }
    }
    return false;
}

/* In a pair only the node with the lower number makes offers. Both get the mean. */
TEST(one_of_a_pair_offers) {
    struct fake *low = fake_open_gossip(SELF);
    struct fake *high = fake_open_gossip(THIRD);
    step(low, 0);
    step(high, 4);
    assert_false(carry(high, low));
    assert_true(carry(low, high) && carry(high, low));
    assert_false(carry(high, low) || carry(low, high));
    assert_true(node_gossip(&low->node)->averaged == 1 && node_gossip(&high->node)->averaged == 1);
    step(low, 0);
    step(high, 0);
    expect_rows(low, 3); /* both nodes take the other's share for 1/4; the answering node's weights count */
    expect_rows(high, 3);
    fake_close(low);
    fake_close(high);
}

/* ---- Shards from other nodes ---- */

enum { PIECE = 8, PACKED = 12 /* bytes of a packed shard */ };

/* ---- Batches ---- */

static void add_feeder(struct fake *fake, actor_id feeder) {
    fake->next.nodes[fake->next.node_count++] = (struct wire_node){.actor = feeder, .tier = TIER_FEEDER};
    fake->next.endpoints[fake->next.endpoint_count++] = feeder + 1;
}

/* A node with work as in fake_open and with THIRD as a feeder; it could begin clock 1. */
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

/* The last request for a clock's batches to the server. */
static struct message feed_question(const struct fake *fake, actor_id server, uint64_t clock) {
    struct message found = {0};
    for (unsigned s = 0; s < fake->io.count; s++) {
        const struct message *message = &fake->io.sent[s].message;
        if (fake->io.sent[s].to == server && is_peer(message, SERVICE_FEED, FEED_ASK) &&
            message->peer.feed.clock == clock) {
            found = *message;
        }
    }
    assert_int_equal(found.type, MESSAGE_PEER);
    return found;
}

/* The feeder's answer for `count` shards from `first` on. The batch of shard S has 4 + S bytes with the clock's
 * number. */
static void give_feed(struct fake *fake, actor_id feeder, const struct message *question, enum feed_kind kind,
                      uint32_t first, uint32_t count, bool hashed) {
    struct message message = peer_of(SERVICE_FEED, kind, feeder);
    struct wire_batch batches[SHARDS_MAX];
    unsigned char bytes[256];
    size_t size = 0;
    memset(bytes, (int)question->peer.feed.clock, sizeof bytes);
    for (uint32_t b = 0; b < count; b++) {
        uint32_t each = kind == FEED_DONE ? 4 + first + b : 0;
        batches[b] = (struct wire_batch){
            .shard = first + b, .bytes = each, .hash = hash_bytes(bytes, each, 0) + (hashed ? 0 : 1)};
        size += each;
    }
    message.peer.feed.clock = question->peer.feed.clock;
    message.peer.feed.claim = question->peer.feed.claim;
    message_add_copy(&message, batches, count * sizeof batches[0]);
    message_add_copy(&message, bytes, size);
    give(fake, feeder + 1, &message);
}

/* The process has made these batches of a clock, in 0.9 ms each. The batch of shard S has 4 + S bytes with the
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

TEST(a_clock_uses_the_batches_that_have_come) {
    struct fake *fake = fake_open_fed(0);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    assert_int_equal(first.peer.receiver, THIRD);
    assert_int_equal(first.frames[0]->size, 4 * sizeof(uint32_t));
    assert_int_equal(first.peer.feed.transforms, 2);
    fake->asked.feed_transforms = 1; /* for clocks requested from now on */
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FEED, FEED_ASK, NULL), 3); /* for all three clocks */
    assert_int_equal(node_feed(&fake->node)->used, 12 * NODE_FEED_GUESS);
    fake->io.now_us += 5000;
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 2, true);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 2, true); /* a repeat */
    give_feed(fake, OTHER, &first, FEED_DONE, 2, 1, true); /* not requested from OTHER */
    assert_int_equal(fake->asked.batches_taken, 2);
    assert_int_equal(fake->asked.batch_transforms, 2);
    assert_int_equal(node_feed(&fake->node)->used, 10 * NODE_FEED_GUESS + 4 + 5);
    make_own_one(fake, 1, 3); /* the last batch; that of shard 2 is expected soon */
    assert_int_equal(fake->asked.batch_transforms, 2);
    assert_int_equal(fake->asked.batch_transforms, 2);
    assert_int_equal(fake->asked.batches_taken, 3);
    assert_int_equal(fake->asked.making.clock, 0);
    assert_int_equal(fake->asked.computing, 0);
    fake->io.now_us += 2000;
    give_feed(fake, THIRD, &first, FEED_GONE, 2, 2, true);
    assert_int_equal(fake->asked.computing, 1); /* the app makes the missing batches */
    assert_int_equal(node_feed(&fake->node)->wait_us, 2000);
    give_feed(fake, THIRD, &first, FEED_DONE, 2, 2, true); /* too late */
    assert_int_equal(fake->asked.batches_taken, 3);
    assert_int_equal(fake->asked.batches_own, 1);
    node_fed(&fake->node, 6);
    node_feed_made_here(&fake->node, 1, 800);
    computed(fake, 1, 1);
    assert_int_equal(fake->asked.dropped_below, 2);
    assert_int_equal(node_feed(&fake->node)->used, 8 * NODE_FEED_GUESS);
    push(fake, 0, 1);
    evaluated(fake, 1);
    struct message progress = {0};
    assert_int_equal(told(fake, MESSAGE_PROGRESS, &progress), 1);
    assert_int_equal(progress.progress.items_fed, 6);
    assert_int_equal(progress.progress.feed_wait_us, 2000);
    assert_int_equal(progress.progress.transforms_us, 5000 + 800); /* while waiting, and within the clock */
}

/* A waiting node makes the batches that would arrive last, as many as take 2 ms. Its feeder need not make these any
 * more. */
TEST(a_node_that_waits_makes_what_would_come_last) {
    struct fake *fake = fake_open_fed(0);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    struct message second = feed_question(fake, THIRD_SERVER, 2);
    struct message report = {0};
    make_own_one(fake, 1, 3);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 4, true); /* two of these batches are there already */
    assert_int_equal(fake->asked.computing, 0);
    make_own_one(fake, 1, 2);
    assert_int_equal(fake->asked.batches_taken, 4);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FEED, FEED_ASK, &report), 4);
    assert_int_equal(report.peer.feed.begun, 1);
    assert_int_equal(report.frames[0]->size, 0);
    computed(fake, 1, 1);
    push(fake, 0, 1);
    evaluated(fake, 1);
    make_own(fake, 2, (const uint32_t[]){3, 2}, 2);
    give_feed(fake, THIRD, &second, FEED_DONE, 0, 1, true);
    wait_ms(fake, 5); /* the batch of shard 1 takes too long */
    make_own_one(fake, 2, 1);
    assert_int_equal(fake->asked.batches_taken, 8);
    assert_int_equal(fake->asked.computing, 2);
}

/* A node makes no batches of data on disk, whether or not it knows how long a batch takes. */
TEST(a_node_makes_no_batches_of_data_on_disk) {
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
        node_feed(&fake->node)->local_us = known * 10000;
        node_feed(&fake->node)->clock_us = known * 40000;
        give_start(fake);
        assert_int_equal(fake->asked.computing, 1); /* the clock makes all batches itself */
        assert_int_equal(node_feed(&fake->node)->used, 8 * NODE_FEED_GUESS);
        fake_close(fake);
    }
}

/* A feeder without data gets rarer and rarer requests. */
TEST(a_feeder_without_data_is_left_in_peace) {
    struct fake *fake = fake_open_fed(0);
    unsigned times = 0;
    for (unsigned ms = 0; ms < 4000; ms++) {
        struct message question = {0};
        if (peers_sent(fake, THIRD_SERVER, SERVICE_FEED, FEED_ASK, &question) > 0 && question.frames[0]->size > 0) {
            struct message asked = feed_question(fake, THIRD_SERVER, 1);
            times++;
            fake_io_forget(&fake->io);
            give_feed(fake, THIRD, &asked, FEED_GONE, 0, 1, true);
        }
        fake_io_forget(&fake->io);
        wait_ms(fake, 1);
    }
    assert_in_range(times, 5, 15);
}

TEST(what_does_not_come_is_asked_elsewhere_then_made_here) {
    struct fake *fake = fake_open_fed(0);
    struct message late = feed_question(fake, THIRD_SERVER, 1);
    add_feeder(fake, OTHER);
    give_plan(fake);
    wait_ms(fake, NODE_FEED_LATE_US / 1000);
    struct message second = feed_question(fake, OTHER + 1, 1); /* another feeder is asked, once */
    assert_int_equal(fake->asked.computing, 0);
    give_feed(fake, THIRD, &late, FEED_DONE, 0, 4, true); /* ignored, as the other feeder was asked */
    assert_int_equal(fake->asked.batches_taken, 0);
    give_feed(fake, OTHER, &second, FEED_DONE, 0, 1, true);
    assert_int_equal(fake->asked.batches_taken, 1);
    make_own_one(fake, 1, 3);
    make_own_one(fake, 1, 2);
    assert_int_equal(fake->asked.computing, 0);
    wait_ms(fake, 5);
    make_own_one(fake, 1, 1);
    assert_int_equal(fake->asked.computing, 1);
    assert_true(node_feed(&fake->node)->late >= 3);
}

TEST(a_feeder_that_is_gone_is_not_waited_for) {
    struct fake *fake = fake_open_fed(0);
    fake->next.node_count = 0;
    give_plan(fake);
    assert_int_equal(fake->asked.computing, 0);
    make_own_one(fake, 1, 3);
    assert_int_equal(fake->asked.computing, 1);
    assert_int_equal(node_feed(&fake->node)->used, 4 + 3);
}

TEST(batches_are_asked_for_by_credit) {
    struct fake *fake = fake_open_fed(2 * NODE_FEED_GUESS + 10);
    struct message first = feed_question(fake, THIRD_SERVER, 1);
    assert_int_equal(first.frames[0]->size, 2 * sizeof(uint32_t)); /* as many batches as the credit allows */
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FEED, FEED_ASK, NULL), 1);
    give_feed(fake, THIRD, &first, FEED_DONE, 0, 1, true);
    /* the batch was smaller than expected */
    assert_true(peers_sent(fake, THIRD_SERVER, SERVICE_FEED, FEED_ASK, NULL) > 1);
    assert_true(node_feed(&fake->node)->used <= 2 * NODE_FEED_GUESS + 10);
    make_own_one(fake, 1, 1);
    assert_true(node_feed(&fake->node)->used <= 2 * NODE_FEED_GUESS + 10);
}

TEST(batches_that_can_not_be_are_reported) {
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
        assert_int_equal(fake->asked.computing, 1); /* the process makes the batches itself */
        fake_close(fake);
    }
}

/* When the data changes, and in a new epoch, all batches are dropped, but not while a clock uses them. */
TEST(batches_of_other_data_are_forgotten) {
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
    assert_int_equal(node_feed(&fake->node)->used, 0);
}

TEST(a_forgotten_batch_that_the_process_makes_is_not_taken) {
    struct fake *fake = fake_open_fed(0);
    no_assignments(fake);
    add_assignment(fake, SELF, 1, WIRE_CLOCK_NEVER, 0, 3);
    give_plan(fake);
    assert_true(fake->asked.dropped_below == UINT64_MAX);
    prepared(fake, 2, 20);
    answer_subscribes(fake, 0);
    assert_int_equal(fake->asked.computing, 0); /* the threads are still making a batch */
    make_own_one(fake, 1, 3);
    assert_int_equal(fake->asked.batches_taken, 0);
    make_own_one(fake, 1, 2); /* a batch of the new data */
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
    struct message message = peer_of(SERVICE_FEED, FEED_ASK, OTHER);
    message.epoch = 1;
    uint32_t shards[SHARDS_MAX] = {0};
    for (uint32_t s = 0; s < count; s++) {
        shards[s] = first + s;
    }
    message.peer.feed.transforms = count > 0 ? (uint8_t)hook_feed_transforms(fake) : 0;
    message.peer.feed.clock = clock;
    message.peer.feed.claim = claim;
    message.peer.feed.begun = begun;
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

/* A request states the number of transforms; a number that feeders may not run is refused. */
TEST(a_feeder_runs_the_transforms_that_it_is_asked_for) {
    struct fake *fake = fake_open_feeder();
    struct message answer = {0};
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    fake->asked.feed_transforms = 1;
    give_feed_ask(fake, 1, 2, 2, 1, 0);
    make(fake, 2, 1, 10);
    assert_int_equal(fake->asked.batch_transforms, 1);
    fake_io_forget(&fake->io);
    fake->asked.feed_transforms = 3;
    give_feed_ask(fake, 1, 3, 2, 1, 0);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 1);
    assert_int_equal(answer.peer.kind, FEED_GONE);
    assert_int_equal(fake->asked.making.clock, 0);
}

TEST(a_feeder_makes_what_it_is_asked_for) {
    struct fake *fake = fake_open_feeder();
    struct message answer = {0};
    give_feed_ask(fake, 1, 1, 2, 2, 0); /* the feeder has no data yet */
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 1);
    assert_int_equal(answer.peer.kind, FEED_GONE);
    assert_int_equal(answer.peer.receiver, OTHER);
    assert_int_equal(fake->asked.prepared_shards, 2);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    fake_io_forget(&fake->io);
    give_feed_ask(fake, 3, 2, 2, 2, 0);
    give_feed_ask(fake, 3, 2, 2, 2, 0); /* a repeat */
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    make(fake, 2, 3, 10);
    make(fake, 2, 2, 10); /* a batch of the earlier clock comes first */
    make(fake, 3, 2, 20);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer),
                     1); /* one message with both batches */
    assert_true(answer.peer.kind == FEED_DONE && answer.peer.feed.clock == 2 && answer.peer.feed.claim == 3);
    const struct wire_batch *batches = (const void *)answer.frames[FEED_BATCHES]->data;
    assert_int_equal(answer.frames[FEED_BATCHES]->size, 2 * sizeof *batches);
    assert_true(batches[0].shard == 2 && batches[0].bytes == 10 && batches[1].shard == 3 && batches[1].bytes == 20);
    fake->io.now_us += 1000 * 1000; /* the next heartbeat is due */
    make(fake, 3, 3, 20);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 2);
    assert_int_equal(fake->asked.batch_transforms, 2);
    assert_int_equal(fake->asked.making.clock, 0);
    node_timer(&fake->node);
    struct message beat = {0};
    assert_true(told(fake, MESSAGE_HEARTBEAT, &beat) > 0);
    assert_int_equal(beat.heartbeat.numbers.feed_us, 1000 * 1000);
}

/* A feeder makes several batches at once with the number of threads that the controller sets, up to its limit. It
 * reports the number. */
TEST(a_feeder_makes_batches_with_several_threads) {
    struct fake *fake = fake_open_feeder();
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK, .epoch = 1, .heartbeat_ack.feed_threads = 3};
    struct message beat = {0};
    struct message answer = {0};
    fake->node.options.registration.threads_max = 2;
    give_feed_ask(fake, 1, 1, 0, 4, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    fake_io_forget(&fake->io);
    give_feed_ask(fake, 2, 2, 0, 4, 0);
    assert_int_equal(fake->asked.making.count, 1);
    assert_int_equal(node_feeding_threads(&fake->node), 1);
    give(fake, ACTOR_CONTROLLER, &ack);
    assert_int_equal(node_feeding_threads(&fake->node), 2);
    make(fake, 0, 2, 10); /* the batch that was being made */
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
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 1);
    const struct wire_batch *batches = (const void *)answer.frames[FEED_BATCHES]->data;
    assert_int_equal(answer.frames[FEED_BATCHES]->size, 4 * sizeof *batches);
    for (uint32_t b = 0; b < 4; b++) { /* each batch once, in order */
        assert_true(batches[b].shard == b && batches[b].bytes == 10 + b);
    }
    fake->io.now_us += 1000 * 1000;
    node_timer(&fake->node);
    assert_true(told(fake, MESSAGE_HEARTBEAT, &beat) > 0);
    assert_int_equal(beat.heartbeat.numbers.feed_threads, 2);
}

/* A feeder with data and without requests. */
static struct fake *fake_open_feeder_with_data(void) {
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    fake_io_forget(&fake->io);
    return fake;
}

TEST(a_feeder_answers_after_a_while_and_in_order) {
    struct fake *fake = fake_open_feeder_with_data();
    struct message answer = {0};
    give_feed_ask(fake, 1, 2, 2, 1, 0);
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    give_feed_ask(fake, 2, 4, 3, 1, 0);
    make(fake, 2, 1, 10);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 1);
    fake->io.now_us += NODE_FEED_FUSED_US;
    make(fake, 2, 2, 10);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer),
                     2); /* does not wait for the other batch */
    assert_int_equal(answer.peer.feed.claim, 3);
    make(fake, 3, 2, 10);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 3);
    assert_int_equal(answer.peer.feed.claim, 3);
    make(fake, 3, 2, 10);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 4);
    assert_int_equal(answer.peer.feed.claim, 4);
}

TEST(a_feeder_makes_nothing_for_clocks_that_have_begun) {
    struct fake *fake = fake_open_feeder_with_data();
    struct message answer = {0};
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    give_feed_ask(fake, 2, 3, 2, 2, 0);
    give_feed_ask(fake, 3, 4, 2, 1, 1);
    make(fake, 2, 1, 10); /* was begun before */
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, NULL), 0);
    give_feed_ask(fake, 2, 5, 0, 0, 2); /* requests no batch */
    make(fake, 2, 2, 10);
    make(fake, 2, 3, 10);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, &answer), 1);
    assert_int_equal(answer.peer.feed.claim, 4);
    assert_int_equal(fake->asked.making.clock, 0);
}

TEST(a_feeder_whose_data_is_not_in_memory_ends) {
    struct fake *fake = fake_open_feeder_with_data();
    fake->asked.on_disk = true;
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "more than --memory allows"));
}

TEST(a_feeder_forgets_questions_of_an_old_epoch) {
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    assert_int_equal(fake->asked.making.clock, 1);
    fake->next.epoch = 2;
    give_plan(fake);
    assert_int_equal(node_feed(&fake->node)->feeding.count, 0);
    fake_io_forget(&fake->io);
    make(fake, 2, 1, 10); /* the request belongs to the old epoch */
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FEED, ANY_KIND, NULL), 0);
    assert_int_equal(fake->asked.making.clock, 0);
}

TEST(a_batch_that_is_too_large_ends_the_feeder) {
    struct fake *fake = fake_open_feeder();
    give_feed_ask(fake, 1, 1, 2, 2, 0);
    prepared(fake, 1, 10);
    answer_subscribes(fake, 0);
    give_feed_ask(fake, 1, 2, 2, 2, 0);
    make(fake, 2, 1, (size_t)WIRE_BATCH_BYTES_MAX + 1);
    assert_int_equal(fake->asked.ends, 1);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "a batch of data shard 2 has 67108865 bytes, at most 67108864"));
}

TEST(a_feeder_needs_an_app_with_transforms) {
    struct fake *fake = fake_new(0, 3);
    fake->node.options.registration.tier = TIER_FEEDER;
    fake->node.options.hooks.feeds = NULL;
    give_welcome(fake);
    assert_int_equal(fake->asked.end_code, AML_ELIMIT);
    assert_non_null(strstr(fake->asked.end_text, "a feeder has nothing to do: the app has no transforms"));
}

/* ---- Shards of other nodes ---- */

/* A node that lacks three shards, which OTHER and THIRD may have. `welcomed`: WELCOME arrives before the plan. */
static struct fake *fake_open_fetching_if(bool welcomed) {
    struct fake *fake = fake_new(0, 0);
    fake->node.options.fetches = true;
    fake->node.options.fetch_piece = PIECE;
    fake->asked.has[0] = true;
    fake->next.endpoints[fake->next.endpoint_count++] = THIRD_SERVER;
    fake->next.plan.version = 5;
    if (welcomed) {
        give_welcome(fake);
    }
    add_assignment(fake, SELF, WIRE_CLOCK_NEVER, WIRE_CLOCK_NEVER, 0, 4);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.preparing, 0);
    return fake;
}

static struct fake *fake_open_fetching(void) {
    return fake_open_fetching_if(true);
}

static void give_holdings(struct fake *fake, actor_id server, uint64_t claim, uint32_t first, uint32_t count) {
    struct message message = peer_of(SERVICE_FETCH, FETCH_HOLDINGS, actor_node(server));
    message.peer.fetch.claim = claim;
    uint32_t shards[SHARDS_MAX] = {0};
    for (uint32_t s = 0; s < count; s++) {
        shards[s] = first + s;
    }
    message_add_copy(&message, shards, count * sizeof shards[0]);
    give(fake, server, &message);
}

/* The server answers a request for a piece, by this kind of answer. */
static void answer_piece(struct fake *fake, actor_id server, const struct peer_fetch *question, enum fetch_kind kind) {
    struct message answer = peer_of(SERVICE_FETCH, kind, actor_node(server));
    answer.peer.fetch = *question;
    unsigned char bytes[PACKED];
    memset(bytes, (int)question->shard, 10);
    memset(bytes + 10, 2 * (int)question->shard, 2);
    size_t left = sizeof bytes - question->offset;
    size_t piece = fake->node.options.fetch_piece;
    answer.peer.fetch.size = sizeof bytes;
    if (kind == FETCH_PIECE) {
        message_add_copy(&answer, bytes + question->offset, left < piece ? left : piece);
    }
    give(fake, server, &answer);
}

/* The server answers the newest request for a piece. */
static void give_piece(struct fake *fake, actor_id server, enum fetch_kind kind) {
    struct message question = {0};
    assert_true(peers_sent(fake, server, SERVICE_FETCH, FETCH_ASK, &question) > 0);
    answer_piece(fake, server, &question.peer.fetch, kind);
}

TEST(shards_are_taken_from_those_who_have_them) {
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
    assert_true(question.peer.receiver == OTHER);
    assert_int_equal(question.frames[0]->size, 3 * sizeof(uint32_t));
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.peer.fetch.claim + 1, 1, 3); /* to another request */
    give_holdings(fake, REMOTE, question.peer.fetch.claim, 1, 2);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 1); /* at once, but only one request */
    give_holdings(fake, THIRD_SERVER, question.peer.fetch.claim, 2, 2);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 1);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FETCH, FETCH_ASK, NULL),
                     1); /* one request to each holder */
    for (unsigned piece = 0; piece < 2; piece++) {
        give_piece(fake, REMOTE, FETCH_PIECE);
        give_piece(fake, THIRD_SERVER, FETCH_PIECE);
    }
    assert_true(fake->asked.has[1] && fake->asked.has[2]);
    assert_int_equal(fake->asked.preparing, 0);
    give_piece(fake, THIRD_SERVER, FETCH_PIECE);
    give_piece(fake, THIRD_SERVER, FETCH_PIECE);
    assert_true(fake->asked.has[3]);
    assert_int_equal(fake->asked.preparing, 1);
    assert_int_equal(node_fetch(&fake->node)->taken, 3);
}

/* A node with work requests small shards of up to a piece's size in all from one node at a time; a node without work
 * several times as much. The first shard shows their size. */
TEST(small_shards_come_several_at_once) {
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
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
        give_holdings(fake, REMOTE, question.peer.fetch.claim, 0, 16);
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 1);
        give_piece(fake, REMOTE, FETCH_PIECE);
        unsigned ahead = joins != 0 ? 2 * NODE_FETCH_AHEAD : 2;
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 1 + ahead);
        give_piece(fake, REMOTE, FETCH_PIECE);
        /* another request replaces the answered one */
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 2 + ahead);
        assert_int_equal(node_fetch(&fake->node)->taken, 2);
        give_piece(fake, REMOTE, FETCH_GONE); /* all shards requested from REMOTE must come from another node */
        assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FETCH, FETCH_ASK, NULL), 0);
        give_holdings(fake, THIRD_SERVER, question.peer.fetch.claim, 0, 16);
        for (unsigned m = 0; m < fake->io.count; m++) { /* the loop also answers requests sent meanwhile */
            if (is_peer(&fake->io.sent[m].message, SERVICE_FETCH, FETCH_ASK) && fake->io.sent[m].to == THIRD_SERVER) {
                const struct peer_fetch asked = fake->io.sent[m].message.peer.fetch;
                answer_piece(fake, THIRD_SERVER, &asked, FETCH_PIECE);
            }
        }
        assert_int_equal(node_fetch(&fake->node)->taken, 16);
        assert_int_equal(fake->asked.preparing, 1);
        fake_close(fake);
    }
}

TEST(what_nobody_has_is_read) {
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.peer.fetch.claim, 0, 0);
    assert_int_equal(fake->asked.preparing, 0);
    assert_true(fake->io.timer_us <= fake->io.now_us + fake->node.contact.timeout_ms * UINT64_C(1000));
    wait_ms(fake, fake->node.contact.timeout_ms); /* THIRD does not answer */
    assert_int_equal(fake->asked.preparing, 1);
}

/* WELCOME was lost, or the plan arrived first: the node requests shards before it knows the job's timeout. */
TEST(what_was_asked_before_welcome_is_overdue_by_the_jobs_timeout) {
    for (unsigned gives = 0; gives < 2; gives++) {
        struct fake *fake = fake_open_fetching_if(false);
        struct message question = {0};
        assert_true(fake->node.contact.timeout_ms > TIMEOUT_MS);
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
        give_holdings(fake, REMOTE, question.peer.fetch.claim, 1, gives != 0 ? 3 : 0); /* THIRD does not answer */
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), gives);
        give_welcome(fake);
        wait_ms(fake, TIMEOUT_MS);
        assert_int_equal(fake->asked.preparing, 1);
        fake_close(fake);
    }
}

/* Returns the number of requests to the server before the failure timeout; adds those to `other` to `others`. */
static unsigned times_asked(struct fake *fake, actor_id server, enum service service, unsigned kind, actor_id other,
                            unsigned *others) {
    unsigned times = 0;
    for (uint32_t ms = 0; ms < fake->node.contact.timeout_ms - 1; ms++) {
        fake_io_forget(&fake->io);
        wait_ms(fake, 1);
        times += peers_sent(fake, server, service, kind, NULL);
        *others += peers_sent(fake, other, service, kind, NULL);
        assert_true(times > 0 || ms <= fake->node.contact.timeout_ms / 64); /* the first repeat comes soon */
    }
    return times;
}

/* The first request is lost if a server on its way does not have the plan yet. */
TEST(the_question_for_shards_is_repeated) {
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    unsigned others = 0;
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
    give_holdings(fake, THIRD_SERVER, question.peer.fetch.claim, 0, 0);
    unsigned times = times_asked(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, THIRD_SERVER, &others);
    assert_true(times >= 5 && times <= 7); /* less often each time */
    assert_int_equal(others, 0);
    assert_int_equal(fake->asked.preparing, 0);
    give_holdings(fake, REMOTE, question.peer.fetch.claim, 1, 3); /* an answer to any of the requests counts */
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, NULL), 1);
}

/* A holder that failed to give a shard gets no other requests, and the shards come from another holder. */
TEST(a_holder_that_does_not_give) {
    for (unsigned way = 0; way < 4; way++) {
        struct fake *fake = fake_open_fetching();
        struct message question = {0};
        assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
        give_holdings(fake, REMOTE, question.peer.fetch.claim, 1, 3);
        give_holdings(fake, THIRD_SERVER, question.peer.fetch.claim, 1, way < 2 ? 3 : 0);
        struct message wrong = peer_of(SERVICE_FETCH, FETCH_PIECE, OTHER);
        switch (way) {
        case 0:
            give_piece(fake, REMOTE, FETCH_GONE);
            break;
        case 1:
            wait_ms(fake, fake->node.contact.timeout_ms);
            break;
        default: /* an impossible piece; in the last case it completes a wrong shard */
            assert_true(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK, &question) == 1);
            wrong.peer.fetch = question.peer.fetch;
            wrong.peer.fetch.size = way == 2 ? 3 : 4;
            message_add_copy(&wrong, "abcd", 4);
            give(fake, REMOTE, &wrong);
        }
        for (unsigned piece = 0; piece < 6 && way == 0; piece++) {
            give_piece(fake, THIRD_SERVER, FETCH_PIECE);
        }
        assert_true(way != 0 || (fake->asked.has[1] && fake->asked.has[2] && fake->asked.has[3]));
        assert_int_equal(fake->asked.preparing, 1);
        fake_close(fake);
    }
}

TEST(a_set_that_is_not_needed_any_more_is_not_fetched) {
    struct fake *fake = fake_open_fetching();
    struct message question = {0};
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_FETCH, FETCH_ASK_HOLDINGS, &question), 1);
    give_holdings(fake, REMOTE, question.peer.fetch.claim, 1, 3);
    give_holdings(fake, THIRD_SERVER, question.peer.fetch.claim, 1, 3);
    no_assignments(fake);
    add_assignment(fake, OTHER, 1, WIRE_CLOCK_NEVER, 0, 8);
    give_plan(fake);
    assert_int_equal(fake->asked.released_count, 1);
    assert_int_equal(fake->asked.preparing, 0);
    assert_true(node_fetch(&fake->node)->state == FETCH_NONE);
    give_piece(fake, REMOTE, FETCH_PIECE); /* changes nothing */
}

/* A node gives its shards by pieces, once its input has been compared. */
TEST(a_node_gives_its_shards) {
    struct fake *fake = fake_open(0, 3);
    struct message message = peer_of(SERVICE_FETCH, FETCH_ASK_HOLDINGS, OTHER);
    static const uint32_t wanted[] = {0, 2, 5, 1000};
    fake->node.options.fetches = true;
    fake->node.options.fetch_piece = PIECE;
    fake->asked.has[2] = true;
    message.peer.fetch.claim = 9;
    message_add_copy(&message, wanted, sizeof wanted);
    give(fake, SELF + 1, &message);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FETCH, FETCH_HOLDINGS, &message), 1);
    assert_true(message.peer.fetch.claim == 9 && message.peer.receiver == OTHER);
    assert_int_equal(message.frames[0]->size, sizeof(uint32_t));
    assert_int_equal(((const uint32_t *)(const void *)message.frames[0]->data)[0], 2);
    static const size_t pieces[] = {PIECE, 12 - PIECE, 0};
    for (unsigned piece = 0; piece < 3; piece++) {
        struct message ask = peer_of(SERVICE_FETCH, FETCH_ASK, OTHER);
        ask.peer.fetch = (struct peer_fetch){.shard = 2, .claim = piece, .offset = piece * PIECE};
        fake_io_forget(&fake->io);
        give(fake, SELF + 1, &ask);
        assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FETCH, ANY_KIND, &message), 1);
        assert_int_equal(message.peer.kind, piece < 2 ? FETCH_PIECE : FETCH_GONE);
        assert_int_equal(message.frame_count > 0 ? message.frames[0]->size : 0, pieces[piece]);
        assert_int_equal(message.peer.fetch.claim, piece);
    }
    fake_io_forget(&fake->io);
    struct message ask = peer_of(SERVICE_FETCH, FETCH_ASK, OTHER);
    ask.peer.fetch.shard = 3;
    give(fake, SELF + 1, &ask);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FETCH, ANY_KIND, &message), 1);
    assert_int_equal(message.peer.kind, FETCH_GONE);
    fake->node.input.reading = fake->node.input.compared + 1; /* this input may differ from the job's */
    fake_io_forget(&fake->io);
    ask = peer_of(SERVICE_FETCH, FETCH_ASK, OTHER);
    ask.peer.fetch.shard = 2;
    give(fake, SELF + 1, &ask);
    assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_FETCH, ANY_KIND, &message), 1);
    assert_int_equal(message.peer.kind, FETCH_GONE);
    fake->node.input.reading = fake->node.input.compared;
}

/* ---- An input that is read in parts ---- */

/* A node that is to work on shards 0 to 2. In the job's first plan OTHER stands before it and THIRD after it. */
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

/* The server answers the newest request for pieces. Returns the number of shards requested. */
static size_t give_pieces(struct fake *fake, actor_id server, uint32_t part, enum parts_kind kind) {
    struct message question = {0};
    assert_true(peers_sent(fake, server, SERVICE_PARTS, PARTS_ASK, &question) > 0);
    assert_true(question.peer.parts.part == part && question.peer.parts.parts == 3);
    const uint32_t *shards = (const void *)question.frames[0]->data;
    size_t count = question.frames[0]->size / sizeof *shards;
    struct message answer = peer_of(SERVICE_PARTS, kind, actor_node(server));
    answer.peer.parts = question.peer.parts;
    struct buffer *bytes = hook_pack_pieces(fake, shards, (uint32_t)count, 0);
    answer.peer.parts.size = bytes->size;
    if (kind == PARTS_PIECE) {
        message_add_copy(&answer, bytes->data, bytes->size);
    }
    buffer_drop(bytes);
    fake_io_forget(&fake->io);
    give(fake, server, &answer);
    return count;
}

TEST(parts_are_taken_from_their_readers) {
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_PARTS, PARTS_ASK, &message), 0);
    node_part_read(&fake->node, true);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_PARTS, PARTS_ASK, &message), 1);
    assert_int_equal(give_pieces(fake, THIRD_SERVER, 2, PARTS_PIECE), 3);
    assert_int_equal(give_pieces(fake, THIRD_SERVER, 2, PARTS_PIECE), 1); /* each answer has two shards' pieces */
    assert_int_equal(fake->asked.preparing, 0);
}

TEST(the_question_for_a_part_is_repeated) {
    struct fake *fake = fake_open_parts();
    unsigned others = 0;
    node_part_read(&fake->node, true);
    give_pieces(fake, THIRD_SERVER, 2, PARTS_PIECE); /* the first answer arrived, and the last shard is requested */
    unsigned times = times_asked(fake, REMOTE, SERVICE_PARTS, PARTS_ASK, THIRD_SERVER, &others);
    assert_true(times >= 5 && times <= 7);
    assert_int_equal(others, NODE_PARTS_ASKS - 1);
    assert_int_equal(fake->asked.preparing, 0);
}

/* A reader that is not ready is asked again; a reader without the part is not. */
TEST(a_reader_that_is_late_or_has_nothing) {
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    node_part_read(&fake->node, true);
    struct message question = {0};
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_PARTS, PARTS_ASK, &question), 1);
    struct message gone = peer_of(SERVICE_PARTS, PARTS_GONE, OTHER);
    gone.peer.parts = question.peer.parts;
    struct message third = {0};
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_PARTS, PARTS_ASK, &third), 1);
    give_pieces(fake, THIRD_SERVER, 2, PARTS_LATER);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_PARTS, PARTS_ASK, &message), 0);
    wait_ms(fake, NODE_PARTS_LATER_US / 1000 + 1);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_PARTS, PARTS_ASK, &message), 1);
    give(fake, REMOTE, &gone);
    give_pieces(fake, THIRD_SERVER, 2, PARTS_PIECE);
    give_pieces(fake, THIRD_SERVER, 2, PARTS_PIECE);
    assert_int_equal(fake->asked.preparing, 1); /* the process reads part 0 itself */
}

TEST(a_node_gives_of_its_part_once_it_has_read_it) {
    struct fake *fake = fake_open_parts();
    static const uint32_t wanted[] = {6, 7, 5};
    static const uint32_t wrong[] = {6, 70000};
    for (unsigned round = 0; round < 4; round++) {
        struct message message = {0};
        struct message ask = peer_of(SERVICE_PARTS, PARTS_ASK, OTHER);
        ask.peer.parts = (struct peer_parts){.part = round == 2 ? 2 : 1, .parts = 3, .claim = 4};
        message_add_copy(&ask, round == 3 ? wrong : wanted, round == 3 ? sizeof wrong : sizeof wanted);
        fake_io_forget(&fake->io);
        give(fake, SELF + 1, &ask);
        assert_int_equal(peers_sent(fake, SELF + 1, SERVICE_PARTS, ANY_KIND, &message), 1);
        assert_int_equal(message.peer.kind, round == 0 ? PARTS_LATER : round == 1 ? PARTS_PIECE : PARTS_GONE);
        assert_int_equal(message.frame_count > 0 ? message.frames[0]->size : 0, round == 1 ? 2 : 0);
        assert_true(message.peer.parts.claim == 4 && message.peer.receiver == OTHER);
        if (round == 0) {
            node_part_read(&fake->node, true);
        }
    }
}

/* An app whose `read` emits all items itself reads the whole input as its part. There are no pieces, now or later. */
TEST(an_input_that_is_not_divided_has_no_pieces) {
    struct fake *fake = fake_open_parts();
    struct message message = {0};
    node_part_read(&fake->node, false);
    assert_int_equal(peers_sent(fake, REMOTE, SERVICE_PARTS, PARTS_ASK, &message), 0);
    assert_int_equal(peers_sent(fake, THIRD_SERVER, SERVICE_PARTS, PARTS_ASK, &message), 0);
    assert_int_equal(fake->asked.preparing, 1);
    assert_int_equal(node_parts(&fake->node)->count, 0);
}

/* A node that joins after the first plan has no part. */
TEST(who_comes_later_has_no_part) {
    struct fake *fake = fake_open_fetching();
    assert_int_equal(node_parts(&fake->node)->count, 0);
    assert_int_equal(fake->asked.parts, 0);
}

static int close_all(void **state) {
    while (open_fakes != NULL) {
        fake_close(open_fakes);
    }
    return 0;
}

int main(void) {
    return tests_run_each(NULL, close_all);
}
