/* The wire: every message is decoded as it was sent. Messages that exceed a limit, are cut short or have a wrong
 * shape are refused. Rows are found in their frames. */
#include "agileml/wire/plan_pack.h"
#include "agileml/wire/records.h"
#include "agileml/wire/rows.h"
#include "agileml/wire/sparse.h"
#include "tests/test.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <math.h>

static uint64_t wire_random_state = 1;

static uint64_t wire_random(void) {
    return hash_mix(wire_random_state++);
}

enum field_kind { WHOLE, SIGNED, REAL, TEXT };

/* The number of a kind of PEER in wire_types and wire_fields. */
#define PEER(service, kind) (PEER_FIRST + (service)*PEER_KINDS_MAX + (kind))
enum { PEER_FIRST = 256 };

/* All fields of all messages, as in message.h and peer.h; a decoder must restore each. Fields of a PEER's kind belong
 * to all kinds of the service, and those of MESSAGE_PEER to all PEER. */
static const struct wire_field {
    unsigned type;
    enum field_kind kind;
    size_t offset, bytes;
    uint64_t limit, least;
} wire_fields[] = {
#define FIELD(number, kind, member, limit) FIELD_FROM(number, kind, member, limit, 0)
#define FIELD_FROM(number, kind, member, limit, least)                                                                 \
    { number, kind, offsetof(struct message, member), sizeof(((struct message *)0)->member), limit, least }
#define CLOCK UINT64_C(0xFFFFFFF0)
#define ANY   UINT64_MAX
#define TIME  (UINT64_C(1) << 48)
    FIELD(MESSAGE_REGISTER, TEXT, registration.name, 0),
    FIELD(MESSAGE_REGISTER, TEXT, registration.host, 0),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.process_id, UINT64_MAX),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.tier, TIER_FEEDER),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.threads, 65535),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.threads_max, 65535),
    FIELD(MESSAGE_REGISTER, TEXT, registration.job.app, 0),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.digest, UINT64_MAX),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.staleness, WIRE_STALENESS_MAX),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.clocks_per_iteration, 1U << 20),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.phases, WIRE_PHASES_MAX),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.local_steps, WIRE_LOCAL_STEPS_MAX),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.strategy, STRATEGY_AUTO),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.ssgd_iterations, 1U << 20),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.iterations, CLOCK),
    FIELD(MESSAGE_REGISTER, REAL, registration.job.seconds, 0),
    FIELD(MESSAGE_REGISTER, REAL, registration.job.tolerance, 0),
    FIELD(MESSAGE_REGISTER, WHOLE, registration.job.tolerance_iterations, 1U << 20),
    FIELD(MESSAGE_WELCOME, TEXT, welcome.name, 0),
    FIELD(MESSAGE_WELCOME, WHOLE, welcome.heartbeat_ms, 1U << 30),
    FIELD(MESSAGE_WELCOME, WHOLE, welcome.timeout_ms, 1U << 30),
    FIELD(MESSAGE_WELCOME, WHOLE, welcome.probe_ms, 1U << 30),
    FIELD(MESSAGE_PLAN, WHOLE, plan.version, UINT64_MAX),
    FIELD(MESSAGE_PLAN, WHOLE, plan.restore, CLOCK),
    FIELD(MESSAGE_PLAN, WHOLE, plan.from_clock, CLOCK),
    FIELD_FROM(MESSAGE_PLAN, WHOLE, plan.commit_every, WIRE_COMMIT_EVERY_MAX, 1),
    FIELD_FROM(MESSAGE_PLAN, WHOLE, plan.next_commit_every, WIRE_COMMIT_EVERY_MAX, 1),
    FIELD(MESSAGE_PLAN, WHOLE, plan.window, WIRE_WINDOW_MAX),
    FIELD(MESSAGE_PLAN, WHOLE, plan.final, CLOCK),
    FIELD(MESSAGE_PLAN, WHOLE, plan.recoverable, 1),
    FIELD(MESSAGE_PLAN, WHOLE, plan.strategy, STRATEGY_ADPSGD),
    FIELD(MESSAGE_PLAN, WHOLE, plan.next_strategy, STRATEGY_ADPSGD),
    FIELD(MESSAGE_PLAN, WHOLE, plan.strategy_from, CLOCK),
    FIELD(MESSAGE_PLAN, TEXT, plan.resume, 0),
    FIELD(MESSAGE_PACKED_PLAN, WHOLE, packed_plan.version, UINT64_MAX),
    FIELD(MESSAGE_PACKED_PLAN, WHOLE, packed_plan.base, UINT64_MAX),
    FIELD(MESSAGE_PACKED_PLAN, WHOLE, packed_plan.bytes, WIRE_PLAN_MAX),
    FIELD(MESSAGE_INPUT, WHOLE, input.reading, UINT64_MAX),
    FIELD(MESSAGE_INPUT, WHOLE, input.own.items, UINT64_MAX),
    FIELD(MESSAGE_INPUT, WHOLE, input.own.hash, UINT64_MAX),
    FIELD(MESSAGE_LOADED, WHOLE, loaded.version, UINT64_MAX),
    FIELD(MESSAGE_LOADED, WHOLE, loaded.items, UINT64_C(1) << 40),
    FIELD(MESSAGE_START, WHOLE, start.items, UINT64_MAX),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.origin, UINT64_MAX),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.clock, CLOCK),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.idle, WIRE_LOCAL_STEPS_MAX),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.evaluation, 1),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.last, 1),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.items, UINT64_C(1) << 40),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.helped, UINT64_C(1) << 40),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.committed, CLOCK),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.compute_us, UINT64_C(1) << 48),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.clock_us, UINT64_C(1) << 48),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.evaluate_us, UINT64_C(1) << 48),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.items_fed, UINT64_C(1) << 40),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.feed_wait_us, UINT64_C(1) << 48),
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.transforms_us, UINT64_C(1) << 48),
#define NUMBER(types, kind, name, field, most, label, meaning)                                                         \
    FIELD(MESSAGE_PROGRESS, WHOLE, progress.numbers.field, most),                                                      \
        FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.numbers.field, most),
#include "agileml/wire/report_keys.def"
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.state, NODE_FINISHED),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.clock, CLOCK),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.barrier, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.version, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.ready, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.committed, CLOCK),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.silent, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.waits, NODE_WAITS - 1),
    FIELD(MESSAGE_HEARTBEAT, WHOLE, heartbeat.waits_on, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.progress, CLOCK),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.catch_up, CLOCK),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.barrier, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.barrier_clock, CLOCK),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.final, CLOCK),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.input, UINT64_MAX),
    FIELD(MESSAGE_HEARTBEAT_ACK, WHOLE, heartbeat_ack.feed_threads, 65535),
    FIELD(MESSAGE_SAVE, WHOLE, save.attempt, UINT32_MAX),
    FIELD(MESSAGE_SAVED, WHOLE, saved.attempt, UINT32_MAX),
    FIELD(MESSAGE_SAVED, SIGNED, saved.code, 0),
    FIELD(MESSAGE_SAVED, TEXT, saved.text, 0),
    FIELD(MESSAGE_DONE, WHOLE, empty.unused, 0),
    FIELD(MESSAGE_LEAVE, WHOLE, empty.unused, 0),
    FIELD(MESSAGE_FAIL, SIGNED, text.code, 0),
    FIELD(MESSAGE_FAIL, TEXT, text.text, 0),
    FIELD(MESSAGE_ABORT, SIGNED, text.code, 0),
    FIELD(MESSAGE_ABORT, TEXT, text.text, 0),
    FIELD(MESSAGE_FENCE, WHOLE, empty.unused, 0),
    FIELD(MESSAGE_EVICT, WHOLE, evict.request, UINT64_MAX),
    FIELD(MESSAGE_EVICT, WHOLE, evict.notice_ms, UINT32_MAX),
    FIELD(MESSAGE_GONE, WHOLE, gone.request, UINT64_MAX),
    FIELD(MESSAGE_GONE, WHOLE, gone.signal, WIRE_SIGNAL_MAX),
    FIELD(MESSAGE_ALLOCATION, WHOLE, allocation.request, UINT64_MAX),
    FIELD(MESSAGE_NOTE, WHOLE, note.request, UINT64_MAX),
    FIELD(MESSAGE_REVOKE, WHOLE, revoke.request, UINT64_MAX),
    FIELD(MESSAGE_REVOKE, WHOLE, revoke.serial, UINT64_MAX),
    FIELD(MESSAGE_APP_NOTE, WHOLE, app_note.request, UINT64_MAX),
    FIELD(MESSAGE_APP_NOTE, TEXT, app_note.text, 0),
    FIELD(MESSAGE_OUTCOME, WHOLE, outcome.request, UINT64_MAX),
    FIELD(MESSAGE_OUTCOME, SIGNED, outcome.code, 0),
    FIELD(MESSAGE_OUTCOME, TEXT, outcome.text, 0),
    FIELD(MESSAGE_STATUS, WHOLE, status.request, UINT64_MAX),
    FIELD(MESSAGE_FENCED, WHOLE, fenced.begun, CLOCK),
    FIELD(MESSAGE_FENCED, WHOLE, fenced.committed, CLOCK),
    FIELD(MESSAGE_REJOIN, WHOLE, empty.unused, 0),
    FIELD(MESSAGE_CHECKPOINT, WHOLE, checkpoint.number, UINT64_MAX),
    FIELD(MESSAGE_CHECKPOINT, WHOLE, checkpoint.clock, CLOCK),
    FIELD(MESSAGE_CHECKPOINT, WHOLE, checkpoint.committed, CLOCK),
    FIELD(MESSAGE_CHECKPOINT, TEXT, checkpoint.path, 0),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.number, UINT64_MAX),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.clock, CLOCK),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.bytes, UINT64_MAX),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.checksum, UINT32_MAX),
    FIELD(MESSAGE_WRITTEN, WHOLE, written.state, WRITTEN_FAILED),
    FIELD(MESSAGE_WRITTEN, TEXT, written.text, 0),
    FIELD(MESSAGE_CHECKPOINT_NOW, WHOLE, checkpoint_now.request, UINT64_MAX),
    FIELD(MESSAGE_REPLICAS, WHOLE, replicas.version, UINT64_MAX),
    FIELD(MESSAGE_REPLICAS, WHOLE, replicas.fenced, 1),
    FIELD(MESSAGE_REPLICAS, WHOLE, replicas.in_step, 1),
    FIELD(MESSAGE_REPLICAS, WHOLE, replicas.committed, CLOCK),
    FIELD(MESSAGE_CRASHED, WHOLE, crashed.signal, WIRE_SIGNAL_MAX),
    FIELD(MESSAGE_CRASHED, SIGNED, crashed.status, 0),
    FIELD(MESSAGE_CRASHED, WHOLE, crashed.clock, CLOCK),
    FIELD(MESSAGE_CRASHED, TEXT, crashed.function, 0),
    FIELD(MESSAGE_ACCUSE, WHOLE, accuse.accused, UINT64_MAX),
    FIELD(MESSAGE_ACCUSE, TEXT, accuse.text, 0),
    FIELD(MESSAGE_WAITS, WHOLE, waits.version, UINT64_MAX),
    FIELD(MESSAGE_WAITS, WHOLE, waits.clocks, CLOCK),
    FIELD(MESSAGE_OBSERVE, WHOLE, observe.from, UINT64_MAX),
    FIELD(MESSAGE_REPORT, WHOLE, report.number, UINT64_MAX),
    FIELD(MESSAGE_REPORT, WHOLE, report.oldest, UINT64_MAX),
    FIELD(MESSAGE_STOP, SIGNED, text.code, 0),
    FIELD(MESSAGE_STOP, TEXT, text.text, 0),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.request, UINT64_MAX),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.after, UINT64_MAX),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.known, CLOCK),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.again, 1),
    FIELD(MESSAGE_SUBSCRIBE, WHOLE, subscribe.only, 1),
    FIELD(MESSAGE_PULL, WHOLE, pull.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_PULL, WHOLE, pull.number, UINT64_MAX),
    FIELD(MESSAGE_PULL, WHOLE, pull.clock, CLOCK),
    FIELD(MESSAGE_PULL, WHOLE, pull.again, 1),
    FIELD(MESSAGE_PUSH, WHOLE, push.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_PUSH, WHOLE, push.from_clock, CLOCK),
    FIELD(MESSAGE_PUSH, WHOLE, push.clock, CLOCK),
    FIELD(MESSAGE_PUSH, WHOLE, push.durable, CLOCK),
    FIELD(MESSAGE_PUSH, WHOLE, push.durable_from, CLOCK),
    FIELD(MESSAGE_PUSH, WHOLE, push.received, CLOCK),
    FIELD(MESSAGE_PUSH, WHOLE, push.pieces, WIRE_PIECES_MAX),
    FIELD(MESSAGE_PUSH, WHOLE, push.request, UINT64_MAX),
    FIELD(MESSAGE_PUSH, WHOLE, push.pull, UINT64_MAX),
    FIELD(MESSAGE_PUSH, WHOLE, push.subscribed, UINT64_MAX),
    FIELD(MESSAGE_FLUSH, WHOLE, flush.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_FLUSH, WHOLE, flush.origin, UINT64_MAX),
    FIELD(MESSAGE_FLUSH, WHOLE, flush.clock, CLOCK),
    FIELD(MESSAGE_FLUSH, WHOLE, flush.idle, WIRE_LOCAL_STEPS_MAX),
    FIELD(MESSAGE_FLUSH, WHOLE, flush.committed, CLOCK),
    FIELD(MESSAGE_SCAN, WHOLE, scan.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_SCAN, WHOLE, scan.table, WIRE_TABLES_MAX - 1),
    FIELD(MESSAGE_SCAN, WHOLE, scan.cursor, UINT64_MAX),
    FIELD(MESSAGE_SCAN, WHOLE, scan.min_clock, CLOCK),
    FIELD(MESSAGE_ROWS, WHOLE, rows.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_ROWS, WHOLE, rows.table, WIRE_TABLES_MAX - 1),
    FIELD(MESSAGE_ROWS, WHOLE, rows.cursor, UINT64_MAX),
    FIELD(MESSAGE_ROWS, WHOLE, rows.next, UINT64_MAX),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.number, UINT64_MAX),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.again, 1),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.caught_up, 1),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.clock, CLOCK),
    FIELD(MESSAGE_FOLLOW, WHOLE, follow.cursor, UINT64_MAX),
    FIELD(MESSAGE_UPDATE, WHOLE, update.partition, WIRE_PARTITIONS_MAX - 1),
    FIELD(MESSAGE_UPDATE, WHOLE, update.piece, 1),
    FIELD(MESSAGE_UPDATE, WHOLE, update.from_clock, CLOCK),
    FIELD(MESSAGE_UPDATE, WHOLE, update.clock, CLOCK),
    FIELD(MESSAGE_UPDATE, WHOLE, update.committed, CLOCK),
    FIELD(MESSAGE_UPDATE, WHOLE, update.cursor, UINT64_MAX),
    FIELD(MESSAGE_UPDATE, WHOLE, update.next, UINT64_MAX),
    FIELD(MESSAGE_UPDATE, WHOLE, update.follow, UINT64_MAX),
    FIELD(MESSAGE_EVALUATE, WHOLE, evaluate.origin, UINT64_MAX),
    FIELD(MESSAGE_EVALUATE, WHOLE, evaluate.clock, CLOCK),
    FIELD(MESSAGE_PEER, WHOLE, peer.receiver, UINT64_MAX),
    FIELD(MESSAGE_PEER, WHOLE, peer.sender, UINT64_MAX),
    FIELD(PEER(SERVICE_FETCH, FETCH_ASK), WHOLE, peer.fetch.claim, UINT64_MAX),
    FIELD(PEER(SERVICE_FETCH, FETCH_ASK), WHOLE, peer.fetch.shard, WIRE_SHARDS_MAX - 1),
    FIELD(PEER(SERVICE_FETCH, FETCH_ASK), WHOLE, peer.fetch.offset, UINT64_MAX),
    FIELD(PEER(SERVICE_FETCH, FETCH_ASK), WHOLE, peer.fetch.size, UINT64_MAX),
    FIELD(PEER(SERVICE_PARTS, PARTS_LATER), WHOLE, peer.parts.claim, UINT64_MAX),
    FIELD(PEER(SERVICE_PARTS, PARTS_LATER), WHOLE, peer.parts.part, WIRE_NODES_MAX),
    FIELD(PEER(SERVICE_PARTS, PARTS_LATER), WHOLE, peer.parts.parts, WIRE_NODES_MAX),
    FIELD(PEER(SERVICE_PARTS, PARTS_LATER), WHOLE, peer.parts.offset, UINT64_MAX),
    FIELD(PEER(SERVICE_PARTS, PARTS_LATER), WHOLE, peer.parts.size, UINT64_MAX),
    FIELD(PEER(SERVICE_LOTS, LOT_ASK), WHOLE, peer.lot.lot, WIRE_LOTS_MAX - 1),
    FIELD(PEER(SERVICE_LOTS, LOT_ASK), WHOLE, peer.lot.clock, CLOCK),
    FIELD(PEER(SERVICE_LOTS, LOT_ASK), WHOLE, peer.lot.claim, UINT64_MAX),
    FIELD(PEER(SERVICE_LOTS, LOT_ASK), WHOLE, peer.lot.digest, UINT64_MAX),
    FIELD(PEER(SERVICE_LOTS, LOT_ASK), WHOLE, peer.lot.items, UINT64_C(1) << 40),
    FIELD(PEER(SERVICE_FEED, FEED_ASK), WHOLE, peer.feed.transforms, WIRE_TRANSFORMS_MAX),
    FIELD(PEER(SERVICE_FEED, FEED_ASK), WHOLE, peer.feed.clock, WIRE_CLOCK_MAX),
    FIELD(PEER(SERVICE_FEED, FEED_ASK), WHOLE, peer.feed.claim, UINT64_MAX),
    FIELD(PEER(SERVICE_FEED, FEED_ASK), WHOLE, peer.feed.begun, WIRE_CLOCK_MAX),
    FIELD(PEER(SERVICE_GOSSIP, GOSSIP_OFFER), WHOLE, peer.gossip.clock, CLOCK),
    FIELD(PEER(SERVICE_GOSSIP, GOSSIP_OFFER), WHOLE, peer.gossip.claim, UINT64_MAX),
    FIELD(MESSAGE_PULSE, WHOLE, pulse.kind, PULSE_SUSPECT),
    FIELD(MESSAGE_PULSE, WHOLE, pulse.number, UINT64_MAX),
    FIELD(MESSAGE_PULSE, WHOLE, pulse.suspect, UINT64_MAX),
};
enum { WIRE_FIELDS = sizeof wire_fields / sizeof wire_fields[0] };

static const unsigned wire_types[] = {MESSAGE_REGISTER,
                                      MESSAGE_WELCOME,
                                      MESSAGE_PLAN,
                                      MESSAGE_PACKED_PLAN,
                                      MESSAGE_LOADED,
                                      MESSAGE_START,
                                      MESSAGE_PROGRESS,
                                      MESSAGE_HEARTBEAT,
                                      MESSAGE_HEARTBEAT_ACK,
                                      MESSAGE_SAVE,
                                      MESSAGE_SAVED,
                                      MESSAGE_DONE,
                                      MESSAGE_LEAVE,
                                      MESSAGE_FAIL,
                                      MESSAGE_ABORT,
                                      MESSAGE_FENCE,
                                      MESSAGE_OBSERVE,
                                      MESSAGE_REPORT,
                                      MESSAGE_STOP,
                                      MESSAGE_EVICT,
                                      MESSAGE_GONE,
                                      MESSAGE_OUTCOME,
                                      MESSAGE_STATUS,
                                      MESSAGE_FENCED,
                                      MESSAGE_REJOIN,
                                      MESSAGE_REPLICAS,
                                      MESSAGE_WRITTEN,
                                      MESSAGE_PULL,
                                      MESSAGE_PUSH,
                                      MESSAGE_CHECKPOINT,
                                      MESSAGE_SUBSCRIBE,
                                      MESSAGE_FLUSH,
                                      MESSAGE_SCAN,
                                      MESSAGE_ROWS,
                                      MESSAGE_FOLLOW,
                                      MESSAGE_UPDATE,
                                      MESSAGE_ALLOCATION,
                                      MESSAGE_CRASHED,
                                      MESSAGE_INPUT,
                                      MESSAGE_CHECKPOINT_NOW,
                                      MESSAGE_EVALUATE,
                                      MESSAGE_ACCUSE,
                                      MESSAGE_NOTE,
                                      MESSAGE_REVOKE,
                                      MESSAGE_WAITS,
                                      MESSAGE_PULSE,
                                      MESSAGE_APP_NOTE,
                                      PEER(SERVICE_FETCH, FETCH_ASK_HOLDINGS),
                                      PEER(SERVICE_FETCH, FETCH_HOLDINGS),
                                      PEER(SERVICE_FETCH, FETCH_ASK),
                                      PEER(SERVICE_FETCH, FETCH_PIECE),
                                      PEER(SERVICE_FETCH, FETCH_GONE),
                                      PEER(SERVICE_PARTS, PARTS_ASK),
                                      PEER(SERVICE_PARTS, PARTS_PIECE),
                                      PEER(SERVICE_PARTS, PARTS_GONE),
                                      PEER(SERVICE_PARTS, PARTS_LATER),
                                      PEER(SERVICE_LOTS, LOT_ASK),
                                      PEER(SERVICE_LOTS, LOT_GIVE),
                                      PEER(SERVICE_LOTS, LOT_KEEP),
                                      PEER(SERVICE_LOTS, LOT_DONE),
                                      PEER(SERVICE_LOTS, LOT_LEFT),
                                      PEER(SERVICE_FEED, FEED_ASK),
                                      PEER(SERVICE_FEED, FEED_DONE),
                                      PEER(SERVICE_FEED, FEED_GONE),
                                      PEER(SERVICE_GOSSIP, GOSSIP_OFFER),
                                      PEER(SERVICE_GOSSIP, GOSSIP_ANSWER)};
enum { WIRE_TYPES = sizeof wire_types / sizeof wire_types[0] };

/* Appends a zeroed frame of `size` bytes. */
static void add_frame(struct message *message, size_t size) {
    struct buffer *frame = buffer_new(size);
    memset(frame->data, 0, size);
    message->frames[message->frame_count++] = frame;
}

static void set_whole(struct message *message, const struct wire_field *field, uint64_t value) {
    memcpy((unsigned char *)message + field->offset, &value, field->bytes); /* as on a little-endian machine */
}

/* Two consecutive assignments with their shards. */
static void add_assignments(struct message *message) {
    struct wire_assignment assignments[] = {
        {.origin = 1 << ACTOR_PART_BITS, .from_clock = 1, .until_clock = 4, .count = 2},
        {.origin = 2 << ACTOR_PART_BITS, .from_clock = 5, .until_clock = WIRE_CLOCK_NEVER, .first = 1, .count = 2}};
    uint32_t shards[3];
    for (unsigned s = 0; s < 3; s++) {
        shards[s] = (uint32_t)(wire_random() % message->plan.shards);
    }
    message->frames[message->frame_count++] = buffer_copy(assignments, sizeof assignments);
    message->frames[message->frame_count++] = buffer_copy(shards, sizeof shards);
}

static void add_ranges(struct message *message) {
    const struct wire_input_range ranges[] = {{.end = 9, .hash = 1, .part = 1},
                                              {.end = 9, .hash = 1, .part = 1, .file = 1, .sampled = 1}};
    message_add_copy(message, ranges, sizeof ranges);
}

/* A message with the payload frames that its type needs; fields are 0 or their least value. */
static struct message new_message(unsigned type) {
    struct message message;
    memset(&message, 0, sizeof message);
    message.type = type < PEER_FIRST ? type : MESSAGE_PEER;
    message.epoch = wire_random();
    if (type >= PEER_FIRST) {
        message.peer.service = (uint8_t)((type - PEER_FIRST) / PEER_KINDS_MAX);
        message.peer.kind = (uint8_t)((type - PEER_FIRST) % PEER_KINDS_MAX);
    }
    switch (type) {
    case MESSAGE_REGISTER:
        add_frame(&message, 2 * sizeof(struct wire_endpoint));
        add_frame(&message, sizeof(struct wire_metric));
        add_frame(&message, 2 * sizeof(struct wire_option));
        break;
    case MESSAGE_PLAN:
        message.plan.partitions = 1 + (uint32_t)(wire_random() % WIRE_PARTITIONS_MAX);
        message.plan.shards = 1 + (uint32_t)(wire_random() % WIRE_SHARDS_MAX);
        add_frame(&message, 3 * sizeof(struct wire_node));
        add_frame(&message, message.plan.partitions * sizeof(struct wire_placement));
        memset(message.frames[1]->data, 1, message.frames[1]->size);
        add_assignments(&message);
        message.plan.commit_every = message.plan.next_commit_every = 1;
        add_frame(&message, 3 * sizeof(struct wire_endpoint));
        break;
    case MESSAGE_INPUT:
        add_frame(&message, 4 * sizeof(struct wire_input_shard));
        add_frame(&message, 2 * sizeof(struct wire_input_file));
        add_ranges(&message);
        break;
    case MESSAGE_LOADED:
    case MESSAGE_START:
        add_frame(&message, WIRE_TOTALS * sizeof(double));
        break;
    case MESSAGE_SAVE:
        add_frame(&message, 2 * sizeof(double));
        break;
    case MESSAGE_PROGRESS:
    case PEER(SERVICE_LOTS, LOT_DONE): /* without rows */
        add_frame(&message, 2 * sizeof(struct wire_metric_sum));
        break;
    case MESSAGE_WAITS:
        add_frame(&message, 2 * sizeof(struct wire_server_wait));
        break;
    case PEER(SERVICE_FETCH, FETCH_ASK_HOLDINGS):
    case PEER(SERVICE_FETCH, FETCH_HOLDINGS):
    case PEER(SERVICE_PARTS, PARTS_ASK):
        add_frame(&message, 5 * sizeof(uint32_t));
        break;
    case PEER(SERVICE_FETCH, FETCH_PIECE):
    case PEER(SERVICE_PARTS, PARTS_PIECE):
        add_frame(&message, 17);
        break;
    case PEER(SERVICE_FEED, FEED_ASK):
        add_frame(&message, 2 * sizeof(uint32_t));
        ((uint32_t *)(void *)message.frames[0]->data)[1] = 7;
        break;
    case PEER(SERVICE_FEED, FEED_DONE):
    case PEER(SERVICE_FEED, FEED_GONE):
        add_frame(&message, 2 * sizeof(struct wire_batch));
        ((struct wire_batch *)(void *)message.frames[0]->data)[1] = (struct wire_batch){.shard = 7};
        add_frame(&message, 0);
        break;
    case MESSAGE_EVALUATE:
        add_frame(&message, 2 * sizeof(uint32_t));
        ((uint32_t *)(void *)message.frames[0]->data)[1] = 7;
        break;
    case MESSAGE_REPORT:
    case MESSAGE_STATUS:
    case MESSAGE_NOTE:
    case MESSAGE_PACKED_PLAN:
        add_frame(&message, 17);
        break;
    case MESSAGE_EVICT:
    case MESSAGE_GONE:
        add_frame(&message, (size_t)2 * WIRE_NAME_MAX);
        break;
    case MESSAGE_ALLOCATION:
        add_frame(&message, 2 * sizeof(struct wire_machine));
        ((struct wire_machine *)(void *)message.frames[0]->data)[0] = (struct wire_machine){"i-1", TIER_RELIABLE};
        ((struct wire_machine *)(void *)message.frames[0]->data)[1] = (struct wire_machine){"i-2", TIER_TRANSIENT};
        break;
    case MESSAGE_FENCED:
    case MESSAGE_REPLICAS:
        add_frame(&message, 2 * sizeof(struct wire_restore_point));
        break;
    case MESSAGE_CHECKPOINT:
        add_frame(&message, 2 * sizeof(uint32_t));
        break;
    default:
        break;
    }
    return message;
}

static int decode(const struct message *sent, const unsigned char *head, size_t size, struct message *got) {
    memset(got, 0, sizeof *got);
    got->frame_count = sent->frame_count;
    memcpy(got->frames, sent->frames, sizeof got->frames);
    struct error error = {0};
    int result = message_decode_head(got, head, size, &error);
    assert_int_equal(result, error.code);
    return result;
}

static int pass(const struct message *sent, struct message *got) {
    unsigned char head[WIRE_HEAD_MAX];
    size_t size = message_encode_head(sent, head);
    assert_true(size <= WIRE_HEAD_MAX);
    return decode(sent, head, size, got);
}

static bool is_of(const struct wire_field *field, const struct message *message) {
    unsigned service = field->type >= PEER_FIRST ? (field->type - PEER_FIRST) / PEER_KINDS_MAX : SERVICES;
    return field->type == (unsigned)message->type ||
           (message->type == MESSAGE_PEER && message->peer.service == service);
}

static void fill(struct message *message) {
    for (unsigned f = 0; f < WIRE_FIELDS; f++) {
        const struct wire_field *field = &wire_fields[f];
        unsigned char *at = (unsigned char *)message + field->offset;
        if (!is_of(field, message)) {
            continue;
        }
        if (field->kind == WHOLE) {
            uint64_t value = wire_random();
            value = field->limit == UINT64_MAX ? value : field->least + value % (field->limit + 1 - field->least);
            set_whole(message, field, value);
        } else if (field->kind == REAL) {
            double value = ldexp((double)(wire_random() >> 11), (int)(wire_random() % 200) - 100);
            memcpy(at, &value, sizeof value);
        } else if (field->kind == SIGNED) {
            uint64_t value = wire_random();
            memcpy(at, &value, field->bytes);
        } else {
            size_t length = wire_random() % field->bytes;
            for (size_t i = 0; i < length; i++) {
                at[i] = (unsigned char)(1 + wire_random() % 255);
            }
        }
    }
}

TEST(every_message_comes_back) {
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned t = 0; t < WIRE_TYPES; t++) {
            CLOSED_BY(message_close) struct message sent = new_message(wire_types[t]);
            struct message got;
            fill(&sent);
            assert_int_equal(pass(&sent, &got), 0);
            assert_memory_equal(&got, &sent, sizeof sent); /* a field that the decoder forgot would be 0 here */
        }
    }
}

TEST(every_limit_is_kept) {
    for (unsigned f = 0; f < WIRE_FIELDS; f++) {
        const struct wire_field *field = &wire_fields[f];
        CLOSED_BY(message_close) struct message sent = new_message(field->type);
        struct message got;
        unsigned char *at = (unsigned char *)&sent + field->offset;
        bool whole = field->kind == WHOLE;
        bool every_value = whole && field->limit == UINT64_MAX >> (64 - 8 * field->bytes);
        if (whole && !every_value) {
            set_whole(&sent, field, field->limit);
            assert_int_equal(pass(&sent, &got), 0);
            set_whole(&sent, field, field->limit + 1);
            assert_int_equal(pass(&sent, &got), AML_EPROTOCOL);
            set_whole(&sent, field, field->least);
            assert_int_equal(pass(&sent, &got), 0);
            set_whole(&sent, field, field->least - 1);
            assert_int_equal(pass(&sent, &got), AML_EPROTOCOL);
        } else if (field->kind == REAL) {
            static const double bad[] = {INFINITY, -INFINITY, NAN};
            for (unsigned b = 0; b < 3; b++) {
                memcpy(at, &bad[b], sizeof bad[b]);
                assert_int_equal(pass(&sent, &got), AML_EPROTOCOL);
            }
        } else if (field->kind == TEXT) {
            memset(at, 'x', field->bytes - 1);
            assert_int_equal(pass(&sent, &got), 0);
            memset(at, 'x', field->bytes);
            assert_int_equal(pass(&sent, &got), AML_EPROTOCOL);
        }
    }
}

TEST(heads_of_another_size_are_refused) {
    for (unsigned t = 0; t < WIRE_TYPES; t++) {
        CLOSED_BY(message_close) struct message sent = new_message(wire_types[t]);
        struct message got;
        unsigned char head[WIRE_HEAD_MAX + 1] = {0};
        size_t size = message_encode_head(&sent, head);
        for (size_t cut = 0; cut < size; cut++) {
            /* of the exact size, so that a sanitizer sees reads beyond it */
            unsigned char *exact = malloc(cut > 0 ? cut : 1);
            assert_non_null(exact);
            memcpy(exact, head, cut);
            assert_int_equal(decode(&sent, exact, cut, &got), AML_EPROTOCOL);
            free(exact);
        }
        assert_int_equal(decode(&sent, head, size + 1, &got), AML_EPROTOCOL);
        assert_int_equal(decode(&sent, head, WIRE_HEAD_MAX + 1, &got), AML_EPROTOCOL);
        for (unsigned byte = 0; byte < 8; byte++) { /* magic, version, type, frame count */
            head[byte] ^= 0x80;
            assert_int_equal(decode(&sent, head, size, &got), AML_EPROTOCOL);
            head[byte] ^= 0x80;
        }
        assert_int_equal(decode(&sent, head, size, &got), 0);
    }
}

TEST(names) {
    unsigned known = 0;
    for (unsigned type = 0; type < 256; type++) {
        known += strcmp(message_name(type), "unknown") != 0 && type != MESSAGE_PEER ? 1 : 0;
    }
    for (unsigned peer = 0; peer <= UINT16_MAX; peer++) {
        known += strcmp(peer_name(peer / 256, peer % 256), "unknown") != 0 ? 1 : 0;
    }
    assert_int_equal(known, WIRE_TYPES);
    assert_string_equal(peer_name(SERVICE_LOTS, LOT_ASK), "LOT_ASK");
    assert_string_equal(message_name(MESSAGE_FLUSH), "FLUSH");
    assert_string_equal(message_name(1U << 31), "unknown");
}

/* A PEER whose service or kind does not exist is refused, whatever follows. */
TEST(unknown_services_and_kinds_are_refused) {
    struct message sent = new_message(PEER(SERVICE_FETCH, FETCH_ASK));
    unsigned char head[WIRE_HEAD_MAX];
    struct message got;
    size_t size = message_encode_head(&sent, head);
    for (unsigned number = 0; number <= UINT16_MAX; number++) {
        head[16] = (unsigned char)(number / 256);
        head[17] = (unsigned char)(number % 256);
        bool fits = number == SERVICE_FETCH * 256 + FETCH_ASK || number == SERVICE_FETCH * 256 + FETCH_GONE;
        assert_int_equal(decode(&sent, head, size, &got), fits ? 0 : AML_EPROTOCOL);
    }
}

static void expect_refused(struct message *message) {
    struct message got;
    assert_int_equal(pass(message, &got), AML_EPROTOCOL);
    message_close(message);
}

TEST(payload_frames_are_checked) {
    struct message message;
    for (unsigned t = 0; t < WIRE_TYPES; t++) { /* a frame too many; PUSH and similar types need a directory */
        message = new_message(wire_types[t]);
        add_frame(&message, 1);
        expect_refused(&message);
    }
    static const enum message_type with_frames[] = {
        MESSAGE_REGISTER,   MESSAGE_PLAN,   MESSAGE_LOADED,   MESSAGE_START,  MESSAGE_PROGRESS,   MESSAGE_EVICT,
        MESSAGE_GONE,       MESSAGE_FENCED, MESSAGE_REPLICAS, MESSAGE_STATUS, MESSAGE_REPORT,     MESSAGE_CHECKPOINT,
        MESSAGE_ALLOCATION, MESSAGE_INPUT,  MESSAGE_EVALUATE, MESSAGE_NOTE,   MESSAGE_PACKED_PLAN};
    for (unsigned t = 0; t < sizeof with_frames / sizeof with_frames[0]; t++) { /* a frame too few */
        message = new_message(with_frames[t]);
        buffer_drop(message.frames[--message.frame_count]);
        expect_refused(&message);
    }
    for (unsigned t = 0; t < sizeof with_frames / sizeof with_frames[0]; t++) { /* an incomplete record */
        message = new_message(with_frames[t]);
        message.frames[0]->size -= 1;
        if (with_frames[t] == MESSAGE_REPORT || with_frames[t] == MESSAGE_STATUS || with_frames[t] == MESSAGE_NOTE ||
            with_frames[t] == MESSAGE_PACKED_PLAN) {
            message_close(&message); /* texts and packed bytes may have any length */
        } else {
            expect_refused(&message);
        }
    }
    message = new_message(MESSAGE_REPORT); /* longer than a line may be */
    buffer_drop(message.frames[0]);
    message.frames[0] = buffer_new(WIRE_JSON_MAX + 1);
    expect_refused(&message);
    message = new_message(MESSAGE_EVALUATE); /* shards must ascend, */
    ((uint32_t *)(void *)message.frames[0]->data)[1] = 0;
    expect_refused(&message);
    message = new_message(MESSAGE_EVALUATE); /* must exist, */
    ((uint32_t *)(void *)message.frames[0]->data)[1] = WIRE_SHARDS_MAX;
    expect_refused(&message);
    message = new_message(MESSAGE_EVALUATE); /* must be at least one */
    message.frames[0]->size = 0;
    expect_refused(&message);
    static const struct wire_input_range impossible[] = {{.first = 5, .end = 5},
                                                         {.first = 6, .end = 5},
                                                         {.end = 1, .part = WIRE_NODES_MAX},
                                                         {.end = 1, .file = WIRE_INPUT_FILES_MAX},
                                                         {.end = 1, .sampled = 2}};
    for (size_t s = 0; s < sizeof impossible / sizeof *impossible; s++) {
        message = new_message(MESSAGE_INPUT);
        memcpy(message.frames[INPUT_RANGES]->data + sizeof *impossible, &impossible[s], sizeof *impossible);
        expect_refused(&message);
    }
    message = new_message(MESSAGE_LOADED); /* totals must be complete */
    message.frames[0]->size -= sizeof(double);
    expect_refused(&message);
    static const struct {
        enum message_type type;
        unsigned frame;
        size_t from, size; /* 0: to the frame's end */
    } endless[] = {{MESSAGE_REGISTER, 0, 0, 0},
                   {MESSAGE_REGISTER, 1, 0, 0},
                   {MESSAGE_REGISTER, 2, 0, WIRE_OPTION_MAX},
                   {MESSAGE_REGISTER, 2, WIRE_OPTION_MAX, WIRE_OPTION_MAX},
                   {MESSAGE_INPUT, 1, 0, 0},
                   {MESSAGE_PLAN, 0, 0, 0},
                   {MESSAGE_PLAN, 4, 0, 0}};
    for (unsigned t = 0; t < sizeof endless / sizeof *endless; t++) { /* texts in records must end */
        message = new_message(endless[t].type);
        struct buffer *frame = message.frames[endless[t].frame];
        memset(frame->data + endless[t].from, 'x', endless[t].size > 0 ? endless[t].size : frame->size);
        expect_refused(&message);
    }
    static const enum message_type with_names[] = {MESSAGE_EVICT, MESSAGE_GONE};
    for (unsigned t = 0; t < 2; t++) {
        struct message got;
        message = new_message(with_names[t]);
        memset(message.frames[0]->data + WIRE_NAME_MAX, 'x', WIRE_NAME_MAX - 1); /* the longest name */
        assert_int_equal(pass(&message, &got), 0);
        memset(message.frames[0]->data + WIRE_NAME_MAX, 'x', WIRE_NAME_MAX); /* the second name has no end */
        expect_refused(&message);
        message = new_message(with_names[t]); /* no names are allowed: the sender means itself */
        message.frames[0]->size = 0;
        assert_int_equal(pass(&message, &got), 0);
        message_close(&message);
    }
}

static struct wire_machine *second_machine(const struct message *message) {
    return (struct wire_machine *)(void *)message->frames[0]->data + 1;
}

static int decoded(struct message *message) {
    unsigned char head[WIRE_HEAD_MAX];
    struct message back = *message;
    struct error error = {0};
    size_t size = message_encode_head(message, head);
    return message_decode_head(&back, head, size, &error);
}

TEST(pieces_of_flushes_are_checked) {
    static const struct {
        uint32_t piece;
        uint8_t more;
        uint64_t ring;
        bool right;
    } cases[] = {{0, 0, 0, true},
                 {0, 0, 7, true},
                 {0, 1, 0, true},
                 {WIRE_PIECES_MAX - 1, 0, 0, true},
                 {WIRE_PIECES_MAX - 1, 1, 0, false}, /* a piece more than allowed */
                 {WIRE_PIECES_MAX, 0, 0, false},
                 {1, 2, 0, false},
                 {1, 0, 7, false}, /* no pieces by a ring */
                 {0, 1, 7, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct message message = new_message(MESSAGE_FLUSH);
        struct message got;
        message.flush.piece = cases[c].piece;
        message.flush.more = cases[c].more;
        message.flush.ring = cases[c].ring;
        if (!cases[c].right) {
            expect_refused(&message);
            continue;
        }
        assert_int_equal(pass(&message, &got), 0);
        assert_int_equal(got.flush.piece, cases[c].piece);
        assert_int_equal(got.flush.more, cases[c].more);
        message_close(&got);
    }
}

TEST(questions_for_batches_are_in_order) {
    static const struct {
        uint32_t shards[3];
        unsigned count;
        int result;
    } cases[] = {{{1, 5, 9}, 3, 0},
                 {{0}, 0, 0},
                 {{1, 1, 2}, 3, AML_EPROTOCOL},
                 {{2, 1}, 2, AML_EPROTOCOL},
                 {{1, WIRE_SHARDS_MAX}, 2, AML_EPROTOCOL}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        CLOSED_BY(message_close)
        struct message message = {
            .type = MESSAGE_PEER, .frame_count = 1, .peer = {.service = SERVICE_FEED, .kind = FEED_ASK}};
        message.frames[0] = buffer_copy(cases[c].shards, cases[c].count * sizeof(uint32_t));
        assert_int_equal(decoded(&message), cases[c].result);
    }
}

TEST(batches_fit_their_bytes) {
    static const struct {
        struct wire_batch batches[2];
        unsigned count, bytes;
        enum feed_kind kind;
        int result;
    } cases[] = {{{{1, 5, 0}, {7, 3, 0}}, 2, 8, FEED_DONE, 0},
                 {{{1, 0, 0}}, 1, 0, FEED_GONE, 0},
                 {{{1, 0, 0}}, 0, 0, FEED_DONE, AML_EPROTOCOL},
                 {{{1, 5, 0}, {7, 4, 0}}, 2, 8, FEED_DONE, AML_EPROTOCOL},
                 {{{1, 5, 0}}, 1, 6, FEED_DONE, AML_EPROTOCOL},
                 {{{1, 5, 0}}, 1, 5, FEED_GONE, AML_EPROTOCOL},
                 {{{WIRE_SHARDS_MAX, 5, 0}}, 1, 5, FEED_DONE, AML_EPROTOCOL},
                 {{{1, WIRE_BATCH_BYTES_MAX + 1, 0}}, 1, 5, FEED_DONE, AML_EPROTOCOL}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        CLOSED_BY(message_close)
        struct message message = {
            .type = MESSAGE_PEER, .frame_count = 2, .peer = {.service = SERVICE_FEED, .kind = (uint8_t)cases[c].kind}};
        message.frames[0] = buffer_copy(cases[c].batches, cases[c].count * sizeof(struct wire_batch));
        message.frames[1] = buffer_copy("12345678", cases[c].bytes);
        assert_int_equal(decoded(&message), cases[c].result);
    }
}

TEST(allocated_machines_have_names_and_tiers) {
    struct message got;
    CLOSED_BY(message_close) struct message message = new_message(MESSAGE_ALLOCATION);
    memset(second_machine(&message)->name, 'x', WIRE_NAME_MAX - 1); /* the longest name */
    assert_int_equal(pass(&message, &got), 0);
    memset(second_machine(&message)->name, 'x', WIRE_NAME_MAX);
    expect_refused(&message);
    message = new_message(MESSAGE_ALLOCATION);
    second_machine(&message)->name[0] = '\0';
    expect_refused(&message);
    message = new_message(MESSAGE_ALLOCATION);
    second_machine(&message)->tier = TIERS;
    expect_refused(&message);
    message = new_message(MESSAGE_ALLOCATION); /* more machines than nodes allowed */
    buffer_drop(message.frames[0]);
    message.frames[0] = buffer_new((WIRE_NODES_MAX + 1) * sizeof(struct wire_machine));
    for (unsigned m = 0; m <= WIRE_NODES_MAX; m++) {
        ((struct wire_machine *)(void *)message.frames[0]->data)[m] = (struct wire_machine){"i-1", TIER_RELIABLE};
    }
    expect_refused(&message);
    message = new_message(MESSAGE_ALLOCATION); /* no machine is expected any more */
    message.frames[0]->size = 0;
    assert_int_equal(pass(&message, &got), 0);
}

/* ---- Plans ---- */

static struct wire_assignment *plan_assignment(const struct message *plan, unsigned number) {
    return (struct wire_assignment *)(void *)plan->frames[2]->data + number;
}

TEST(plans_fit_themselves) {
    struct message got;
    struct message plan = new_message(MESSAGE_PLAN); /* prepared, without a clock yet */
    plan_assignment(&plan, 1)->from_clock = WIRE_CLOCK_NEVER;
    assert_int_equal(pass(&plan, &got), 0);
    message_close(&plan);
    plan = new_message(MESSAGE_PLAN); /* no assignments and no endpoints */
    for (unsigned f = 2; f < 5; f++) {
        plan.frames[f]->size = 0;
    }
    assert_int_equal(pass(&plan, &got), 0);
    message_close(&plan);

    plan = new_message(MESSAGE_PLAN); /* a partition without a placement */
    plan.frames[1]->size -= sizeof(struct wire_placement);
    expect_refused(&plan);
    for (int next = 0; next < 2; next++) { /* a partition without a server, before or after the switch */
        plan = new_message(MESSAGE_PLAN);
        struct wire_placement *placement = (void *)plan.frames[1]->data;
        *(next == 1 ? &placement->next_server : &placement->server) = ACTOR_NONE;
        expect_refused(&plan);
    }
    plan = new_message(MESSAGE_PLAN); /* no partitions */
    plan.plan.partitions = 0;
    plan.frames[1]->size = 0;
    expect_refused(&plan);
    plan = new_message(MESSAGE_PLAN);
    plan.plan.shards = 0;
    plan.frames[2]->size = plan.frames[3]->size = 0;
    expect_refused(&plan);
    plan = new_message(MESSAGE_PLAN);
    plan.plan.shards = WIRE_SHARDS_MAX + 1;
    expect_refused(&plan);
    plan = new_message(MESSAGE_PLAN); /* a shard that does not exist */
    ((uint32_t *)(void *)plan.frames[3]->data)[2] = plan.plan.shards;
    expect_refused(&plan);
}

TEST(assignments_name_clocks_and_shards_that_there_are) {
    static const struct wire_assignment bad[] = {
        {.from_clock = 1, .until_clock = 4, .first = 0, .count = 0}, /* no shards */
        {.from_clock = 1, .until_clock = 4, .first = 0, .count = 4}, /* more shards than listed */
        /* after the last listed shard */
        {.from_clock = 1, .until_clock = 4, .first = 3, .count = 1},
        /* a sum that would wrap around */
        {.from_clock = 1, .until_clock = 4, .first = UINT32_MAX, .count = 2},
        {.from_clock = 0, .until_clock = 4, .first = 0, .count = 1}, /* clocks count from 1 */
        {.from_clock = 5, .until_clock = 4, .first = 0, .count = 1}, /* ends before it begins */
        /* later than WIRE_CLOCK_NEVER */
        {.from_clock = 1, .until_clock = WIRE_CLOCK_NEVER + 1, .first = 0, .count = 1},
        {.from_clock = UINT64_MAX, .until_clock = UINT64_MAX, .first = 0, .count = 1},
    };
    for (unsigned b = 0; b < sizeof bad / sizeof bad[0]; b++) {
        struct message plan = new_message(MESSAGE_PLAN);
        *plan_assignment(&plan, 1) = bad[b];
        expect_refused(&plan);
    }
}

TEST(commit_points) {
    const struct wire_assignment assignments[] = {{.from_clock = 3, .until_clock = 9},
                                                  {.from_clock = 7, .until_clock = 7}};
    const struct plan_view plan = {
        .terms = {.from_clock = 10, .commit_every = 4, .next_commit_every = 3, .restore = 2, .final = 17},
        .assignments = assignments,
        .assignment_count = 2};
    static const uint64_t points[] = {2, 4, 6, 8, 9, 10, 12, 15, 17, 18};
    unsigned found = 0;
    for (uint64_t clock = 1; clock <= 18; clock++) {
        assert_int_equal(plan_next_commit_point(&plan, clock), points[found]);
        if (plan_is_commit_point(&plan, clock)) {
            assert_int_equal(points[found++], clock);
        }
    }
    assert_int_equal(found, sizeof points / sizeof points[0]);
}

TEST(what_a_plan_says) {
    const actor_id node = UINT64_C(0x70000);
    const struct wire_placement placement[] = {
        {.server = node | 1, .backup = ACTOR_NONE, .next_server = node | 2, .next_backup = node | 3}};
    const struct wire_assignment assignments[] = {{.origin = 8, .from_clock = 1, .until_clock = 9},
                                                  {.origin = 9, .from_clock = 5, .until_clock = WIRE_CLOCK_NEVER}};
    const struct wire_endpoint endpoint = {.actor = node | 1, .endpoint = "tcp://host:1"};
    const struct plan_view plan = {.terms = {.from_clock = 10, .partitions = 1},
                                   .placement = placement,
                                   .assignments = assignments,
                                   .assignment_count = 2,
                                   .endpoints = &endpoint,
                                   .endpoint_count = 1};
    assert_int_equal(plan_server_at(&plan, 9, 0), node | 1);
    assert_int_equal(plan_server_at(&plan, 10, 0), node | 2);
    assert_true(plan_serves(&plan, 0, node | 1) && plan_serves(&plan, 0, node | 2));
    assert_false(plan_serves(&plan, 0, node | 3));
    assert_true(plan_has_role(&plan, 0, node | 3));
    assert_false(plan_has_role(&plan, 0, node | 4));
    assert_true(placement_names_node(placement, node));
    assert_false(placement_names_node(placement, UINT64_C(0x80000)));
    assert_string_equal(plan_endpoint(&plan, node | 1), "tcp://host:1");
    assert_null(plan_endpoint(&plan, node | 2));
    bool alone;
    assert_true(plan_origin_works(&plan, 8, 4, &alone) && alone);
    assert_true(plan_origin_works(&plan, 8, 5, &alone) && !alone);
    assert_false(plan_origin_works(&plan, 8, 10, &alone));
    assert_true(plan_origin_works(&plan, 9, 10, &alone) && alone);
}

/* ---- Packed plans ---- */

/* A plan of `nodes` nodes, of which `without` has left: each works on 16 shards, and is to work on them from `clock`
 * on. */
static struct plan_view plan_of_nodes(uint64_t version, unsigned nodes, unsigned without, uint64_t clock) {
    const unsigned each = 16;
    struct message message = {.type = MESSAGE_PLAN,
                              .epoch = 3,
                              .plan = {.version = version,
                                       .partitions = 32,
                                       .shards = each * nodes,
                                       .from_clock = clock,
                                       .commit_every = 1,
                                       .next_commit_every = 1}};
    struct wire_node *names = memory_zeroed(nodes, sizeof *names);
    struct wire_placement places[32];
    struct wire_assignment *assignments = memory_zeroed(2 * (size_t)nodes, sizeof *assignments);
    uint32_t *shards = memory_zeroed(2 * (size_t)nodes * each, sizeof *shards);
    struct wire_endpoint *endpoints = memory_zeroed(2 * (size_t)nodes, sizeof *endpoints);
    unsigned there = 0, assigned = 0, listed = 0;
    for (unsigned n = 0; n < nodes; n++) {
        actor_id actor = (actor_id)(n + 1) << ACTOR_PART_BITS;
        if (n == without) {
            continue;
        }
        names[there] = (struct wire_node){.actor = actor, .group = hash_mix(n), .tier = TIER_TRANSIENT, .threads = 1};
        snprintf(names[there].name, sizeof names[there].name, "node-%u", n);
        for (unsigned c = 0; c < 40; c++) {
            names[there].key[c] = (char)('a' + hash_mix(n * 40 + c) % 64 % 26);
        }
        for (unsigned e = 0; e < 2; e++) {
            endpoints[2 * there + e].actor = actor | (e + 1);
            snprintf(endpoints[2 * there + e].endpoint, WIRE_ENDPOINT_MAX, "tcp://10.0.%u.%u:%u", n / 250, n % 250,
                     (unsigned)(hash_mix(2 * n + e) % 65536));
        }
        there++;
    }
    for (unsigned part = 0; part < 2; part++) { /* the shards of who left go to the others, one each */
        for (unsigned n = 0; n < nodes; n++) {
            bool left = n == without && part == 1;
            unsigned more = part == 1 && without < nodes && (n + nodes - without) % nodes - 1 < each;
            uint32_t first = listed;
            for (unsigned s = 0; s < each && !left; s++) {
                shards[listed++] = n + s * nodes;
            }
            if (more > 0) {
                shards[listed++] = without + ((n + nodes - without) % nodes - 1) * nodes;
            }
            if (!left) {
                struct wire_assignment *assignment = &assignments[assigned++];
                assignment->origin = (actor_id)(n + 1) << ACTOR_PART_BITS;
                assignment->from_clock = part == 0 ? 1 : clock;
                assignment->until_clock = part == 0 ? clock - 1 : WIRE_CLOCK_NEVER;
                assignment->first = first;
                assignment->count = listed - first;
            }
        }
    }
    for (unsigned p = 0; p < 32; p++) {
        actor_id server = ((actor_id)(p % nodes + 1) << ACTOR_PART_BITS) | 1;
        places[p] = (struct wire_placement){server, ACTOR_NONE, server, ACTOR_NONE};
    }
    message_add_copy(&message, names, there * sizeof *names);
    message_add_copy(&message, places, sizeof places);
    message_add_copy(&message, assignments, assigned * sizeof *assignments);
    message_add_copy(&message, shards, listed * sizeof *shards);
    message_add_copy(&message, endpoints, 2 * (size_t)there * sizeof *endpoints);
    free(names);
    free(assignments);
    free(shards);
    free(endpoints);
    struct error error = {0};
    assert_int_equal(plan_check(&message, &error), 0);
    struct plan_view plan = plan_open(&message);
    message_close(&message);
    return plan;
}

static void expect_plan(const struct plan_view *plan, const struct plan_view *expected) {
    assert_int_equal(plan->epoch, expected->epoch);
    assert_memory_equal(&plan->terms, &expected->terms, sizeof plan->terms);
    for (unsigned f = 0; f < PLAN_FRAMES; f++) {
        assert_int_equal(plan->frames[f]->size, expected->frames[f]->size);
        assert_memory_equal(plan->frames[f]->data, expected->frames[f]->data, plan->frames[f]->size);
    }
}

/* Packs and unpacks the plan for someone who has `now`. Returns the packed bytes. */
static size_t repack(const struct plan_view *plan, const struct plan_view *now) {
    struct message packed = plan_pack(plan, now), got;
    struct error error = {0};
    assert_int_equal(pass(&packed, &got), 0);
    assert_true(now == NULL || plan_unpacks(&got, now));
    struct plan_view back;
    assert_int_equal(plan_unpack(&got, now, &back, &error), 0);
    expect_plan(&back, plan);
    size_t bytes = got.frames[0]->size;
    plan_close(&back);
    message_close(&packed);
    return bytes;
}

/* What a change costs does not grow with the nodes, as the plan does. */
TEST(packed_plans) {
    static const unsigned counts[] = {2, 16, 64, 256, 1024};
    size_t change_before = SIZE_MAX;
    for (unsigned c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        unsigned nodes = counts[c];
        CLOSED_BY(plan_close) struct plan_view now = plan_of_nodes(7, nodes, nodes, 40);
        CLOSED_BY(plan_close) struct plan_view prepared = plan_of_nodes(8, nodes, nodes / 3, WIRE_CLOCK_NEVER);
        CLOSED_BY(plan_close) struct plan_view named = plan_of_nodes(9, nodes, nodes / 3, 57);
        size_t whole = 0;
        for (unsigned f = 0; f < PLAN_FRAMES; f++) {
            whole += now.frames[f]->size;
        }
        size_t packed = repack(&now, NULL), changed = repack(&prepared, &now), again = repack(&named, &prepared);
        print_message("%4u nodes: %zu bytes, packed %zu, a node leaves: %zu, then %zu\n", nodes, whole, packed, changed,
                      again);
        assert_true(packed < whole / 2 || nodes < 16);
        assert_true(changed < change_before + 1024 && again < 256);
        change_before = changed;
    }
}

static void expect_damaged(struct message *packed, const struct plan_view *now) {
    struct plan_view plan;
    struct error error = {0};
    assert_int_equal(plan_unpack(packed, now, &plan, &error), AML_EPROTOCOL);
    assert_non_null(strstr(error.text, "PLAN"));
}

TEST(damaged_packed_plans_are_refused) {
    CLOSED_BY(plan_close) struct plan_view now = plan_of_nodes(7, 16, 16, 40);
    CLOSED_BY(plan_close) struct plan_view next = plan_of_nodes(8, 16, 3, 40);
    CLOSED_BY(plan_close) struct plan_view other = plan_of_nodes(7, 16, 4, 40); /* of the same version */
    const struct plan_view none = {0};
    for (int whole = 0; whole < 2; whole++) {
        struct message packed = plan_pack(&next, whole ? NULL : &now);
        const struct message good = packed;
        struct buffer *frame = packed.frames[0];
        assert_true(plan_unpacks(&packed, &now) && plan_unpacks(&packed, &none) == (whole == 1));
        assert_true(plan_unpacks(&packed, &next) == (whole == 1)); /* it has come twice */
        if (!whole) {
            expect_damaged(&packed, &other);
        }
        const size_t size = frame->size;
        for (size_t at = 0; at < size; at++) { /* cut, and with one byte changed */
            frame->size = at;
            expect_damaged(&packed, &now);
            frame->size = size;
            frame->data[at] ^= 0x10;
            struct plan_view plan;
            struct error error = {0};
            if (plan_unpack(&packed, &now, &plan, &error) == 0) { /* a bit without a meaning */
                expect_plan(&plan, &next);
                plan_close(&plan);
            }
            frame->data[at] ^= 0x10;
        }
        packed.packed_plan.bytes++;
        expect_damaged(&packed, &now);
        packed.packed_plan.bytes -= 2;
        expect_damaged(&packed, &now);
        packed = good;
        packed.packed_plan.version++;
        expect_damaged(&packed, &now);
        packed = good;
        packed.epoch++;
        expect_damaged(&packed, &now);
        packed = good;
        message_close(&packed);
    }
    struct plan_view bad = plan_share(&next); /* packed well, but with a shard that does not exist */
    buffer_drop(bad.frames[PLAN_SHARDS]);
    bad.frames[PLAN_SHARDS] = buffer_copy(next.shards, next.shard_count * sizeof *next.shards);
    bad.shards = (const void *)bad.frames[PLAN_SHARDS]->data;
    ((uint32_t *)(void *)bad.frames[PLAN_SHARDS]->data)[5] = next.terms.shards;
    struct message packed = plan_pack(&bad, &now);
    expect_damaged(&packed, &now);
    message_close(&packed);
    plan_close(&bad);
}

/* A repeated or older plan is ignored, as is a plan of a past epoch. */
TEST(which_plan_replaces) {
    struct message message = new_message(MESSAGE_PLAN);
    struct plan_view none = {0};
    struct plan_view now = plan_open(&message);
    struct plan_view come = plan_share(&now);
    assert_false(plan_is_there(&none));
    assert_true(plan_is_there(&now));
    assert_true(plan_replaces(&none, &come, come.epoch));
    assert_false(plan_replaces(&none, &come, come.epoch + 1));
    now.terms.version = 3;
    const struct {
        uint64_t version;
        uint32_t partitions_more;
        bool replaces;
    } cases[] = {{2, 0, false}, {3, 0, false}, {4, 0, true}, {4, 1, false}};
    for (unsigned c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        come.terms.version = cases[c].version;
        come.terms.partitions = now.terms.partitions + cases[c].partitions_more;
        assert_int_equal(plan_replaces(&now, &come, now.epoch), cases[c].replaces);
    }
    struct message again = plan_message(&now);
    assert_int_equal(again.plan.version, 3);
    assert_int_equal(again.frame_count, message.frame_count);
    message_close(&again);
    plan_close(&come);
    plan_close(&now);
    message_close(&message);
    assert_false(plan_is_there(&now));
}

/* ---- Rows ---- */

static const struct row_shape shapes[] = {
    {.width = 2, .row_bytes = 8}, {.width = 6, .row_bytes = 24, .encoding = WIRE_BF16}, {.width = 1, .row_bytes = 4}};

/* A message with `rows` rows in each of `tables`; keys count from 0. */
static struct message rows_message(enum message_type type, const unsigned *tables, unsigned table_count,
                                   uint32_t rows) {
    struct message message = {.type = type};
    struct wire_directory_entry directory[WIRE_TABLES_MAX];
    for (unsigned t = 0; t < table_count; t++) {
        directory[t] = (struct wire_directory_entry){.table = tables[t], .rows = rows};
    }
    message.frames[message.frame_count++] = buffer_copy(directory, table_count * sizeof directory[0]);
    for (unsigned t = 0; t < table_count; t++) {
        add_frame(&message, rows * sizeof(uint64_t));
        for (uint32_t r = 0; r < rows; r++) {
            ((uint64_t *)(void *)message.frames[message.frame_count - 1]->data)[r] = r;
        }
        if (type != MESSAGE_SUBSCRIBE) {
            add_frame(&message, (size_t)rows * shapes[tables[t] % 3].row_bytes);
        }
    }
    return message;
}

static int check_rows(const struct message *message, struct rows_view *views) {
    return rows_check(message, shapes, 3, views, NULL);
}

TEST(rows_are_found) {
    static const unsigned tables[] = {2, 0, 1};
    static const enum message_type types[] = {MESSAGE_SUBSCRIBE, MESSAGE_PUSH, MESSAGE_FLUSH, MESSAGE_ROWS,
                                              MESSAGE_UPDATE};
    for (unsigned t = 0; t < sizeof types / sizeof types[0]; t++) {
        struct message message = rows_message(types[t], tables, 3, 7);
        struct message got;
        struct rows_view views[WIRE_TABLES_MAX];
        assert_int_equal(pass(&message, &got), 0);
        assert_int_equal(check_rows(&got, views), 3);
        for (unsigned v = 0; v < 3; v++) {
            assert_int_equal(views[v].table, tables[v]);
            assert_int_equal(views[v].count, 7);
            assert_int_equal(views[v].keys[6], 6);
            assert_true((views[v].values == NULL) == (types[t] == MESSAGE_SUBSCRIBE));
        }
        message_close(&message);
        struct message none = {.type = types[t]};
        assert_int_equal(pass(&none, &got), 0);
        assert_int_equal(check_rows(&none, views), 0);
    }
}

TEST(rows_of_the_wrong_shape_are_refused) {
    static const unsigned repeated[] = {1, 1};
    static const unsigned unknown[] = {3};
    static const unsigned far_away[] = {35}; /* a shift by this number would be undefined */
    static const unsigned one[] = {1};
    struct rows_view views[WIRE_TABLES_MAX];
    struct message got;
    struct message message = rows_message(MESSAGE_FLUSH, repeated, 2, 3);
    assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    message_close(&message);
    message = rows_message(MESSAGE_FLUSH, unknown, 1, 3);
    assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    message_close(&message);
    message = rows_message(MESSAGE_FLUSH, far_away, 1, 3);
    assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    message_close(&message);
    message = rows_message(MESSAGE_FLUSH, one, 1, 0);
    assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    message_close(&message);
    for (unsigned f = 1; f <= 2; f++) { /* keys, then values, are a byte short */
        message = rows_message(MESSAGE_FLUSH, one, 1, 3);
        message.frames[f]->size -= 1;
        assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
        message_close(&message);
    }
    message = rows_message(MESSAGE_FLUSH, one, 1, 3); /* a row count that would wrap around */
    ((struct wire_directory_entry *)(void *)message.frames[0]->data)->rows = (UINT32_MAX >> 3) + 4;
    assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    message_close(&message);
    message = rows_message(MESSAGE_FLUSH, one, 1, 3); /* a directory of two tables with frames for one */
    buffer_drop(message.frames[0]);
    message.frames[0] = buffer_new(2 * sizeof(struct wire_directory_entry));
    memset(message.frames[0]->data, 0, message.frames[0]->size);
    assert_int_equal(pass(&message, &got), AML_EPROTOCOL);
    message.frames[0]->size = 0;
    assert_int_equal(pass(&message, &got), AML_EPROTOCOL);
    message.frames[0]->size = 4;
    assert_int_equal(pass(&message, &got), AML_EPROTOCOL);
    message_close(&message);
}

static struct wire_directory_entry *directory_of(const struct message *message) {
    return (struct wire_directory_entry *)(void *)message->frames[0]->data;
}

TEST(encodings_have_their_messages_and_tables) {
    static const unsigned tables[] = {2, 1, 0};
    static const enum message_type types[] = {MESSAGE_PUSH, MESSAGE_FLUSH, MESSAGE_ROWS, MESSAGE_UPDATE,
                                              MESSAGE_SUBSCRIBE};
    struct rows_view views[WIRE_TABLES_MAX];
    for (unsigned t = 0; t < sizeof types / sizeof types[0]; t++) {
        CLOSED_BY(message_close) struct message message = rows_message(types[t], tables, 3, 7);
        struct wire_directory_entry *directory = directory_of(&message);
        bool may = t < 2;
        directory[1].encoding = WIRE_BF16;
        assert_int_equal(check_rows(&message, views), AML_EPROTOCOL); /* the values are not compressed */
        if (types[t] != MESSAGE_SUBSCRIBE) {
            message.frames[4]->size = (size_t)7 * 12;
            assert_int_equal(check_rows(&message, views), may ? 3 : AML_EPROTOCOL);
        }
        for (unsigned v = 0; v < 3 && may; v++) {
            assert_int_equal(views[v].encoding, v == 1 ? WIRE_BF16 : WIRE_FULL);
        }
        directory[1].encoding = WIRE_FULL;
        assert_int_equal(check_rows(&message, views), types[t] == MESSAGE_SUBSCRIBE ? 3 : AML_EPROTOCOL);
    }
    static const unsigned plain[] = {0}, allowed[] = {1};
    struct message message = rows_message(MESSAGE_PUSH, plain, 1, 7);
    directory_of(&message)->encoding = WIRE_BF16; /* a table that does not allow this encoding */
    for (size_t size = 0; size <= message.frames[2]->size; size += 7 * 4) {
        struct buffer *values = message.frames[2];
        size_t whole = values->size;
        values->size = size;
        assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
        values->size = whole;
    }
    message_close(&message);
    message = rows_message(MESSAGE_PUSH, allowed, 1, 7);
    message.frames[2]->size = (size_t)7 * 12;
    directory_of(&message)->encoding = WIRE_BF16;
    assert_int_equal(check_rows(&message, views), 1);
    /* encodings of other tables, and an unknown encoding */
    for (uint32_t e = WIRE_BF16 + 1; e <= WIRE_ENCODINGS; e++) {
        directory_of(&message)->encoding = e;
        assert_int_equal(check_rows(&message, views), AML_EPROTOCOL);
    }
    message_close(&message);
}

/* A message with one row of table 0 in WIRE_SPARSE, of `count` words. */
static struct message sparse_message(enum message_type type, const uint32_t *words, size_t count) {
    static const unsigned one[] = {0};
    struct message message = rows_message(type, one, 1, 1);
    directory_of(&message)->encoding = WIRE_SPARSE;
    buffer_drop(message.frames[2]);
    message.frames[2] = buffer_copy(words, count * sizeof *words);
    return message;
}

TEST(sparse_rows_are_checked) {
    enum { WORDS_MAX = 8 };
    static const struct {
        uint32_t element;
        size_t count;
        uint32_t words[WORDS_MAX];
        bool good;
    } cases[] = {
        {4, 1, {0}, true},                      /* no changes */
        {4, 5, {2, 1, 7, 3, 8}, true},          /* columns 1 and 3 of 4 */
        {4, 5, {SPARSE_ALL, 1, 2, 3, 4}, true}, /* all four */
        {4, 5, {2, 3, 7, 1, 8}, false},         /* descending */
        {4, 5, {2, 1, 7, 1, 8}, false},         /* the same column twice */
        {4, 5, {2, 1, 7, 4, 8}, false},         /* no such column */
        {4, 4, {2, 1, 7, 3}, false},            /* cut short */
        {4, 6, {2, 1, 7, 3, 8, 0}, false},      /* longer than a row */
        {4, 4, {SPARSE_ALL, 1, 2, 3}, false},   /* cut short */
        {4, 3, {5, 0, 0}, false},               /* more changes than columns */
        {4, 3, {SPARSE_ALL - 1, 0, 0}, false},  /* also more than columns */
        {4, 0, {0}, false},                     /* no row */
        {8, 4, {1, 1, 7, 0}, true},             /* column 1 of 2, each of 8 bytes */
        {8, 3, {1, 1, 7}, false},               /* half of column 1 */
        {8, 5, {SPARSE_ALL, 1, 0, 2, 0}, true},
        {8, 4, {1, 2, 7, 0}, false},
        {0, 5, {SPARSE_ALL, 1, 2, 3, 4}, false}, /* a table that does not allow this encoding */
    };
    struct rows_view views[WIRE_TABLES_MAX];
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const struct row_shape shape = {.type = cases[c].element == 8 ? AML_INT64 : AML_INT32,
                                        .width = cases[c].element == 8 ? 2 : 4,
                                        .row_bytes = 16,
                                        .encoding = cases[c].element > 0 ? WIRE_SPARSE : WIRE_FULL};
        CLOSED_BY(message_close) struct message message = sparse_message(MESSAGE_FLUSH, cases[c].words, cases[c].count);
        assert_int_equal(rows_check(&message, &shape, 1, views, NULL), cases[c].good ? 1 : AML_EPROTOCOL);
        if (cases[c].good) {
            assert_int_equal(views[0].encoding, WIRE_SPARSE);
            assert_ptr_equal(views[0].values, message.frames[2]->data);
        }
    }
    /* ROWS brings whole states as in memory. */
    const struct row_shape shape = {.type = AML_INT32, .width = 4, .row_bytes = 16, .encoding = WIRE_SPARSE};
    CLOSED_BY(message_close) struct message message = sparse_message(MESSAGE_ROWS, cases[2].words, cases[2].count);
    assert_int_equal(rows_check(&message, &shape, 1, views, NULL), AML_EPROTOCOL);
}

enum { SPARSE_WIDTH_MAX = 70 };

/* sparse_write of the changed columns, and the delta as a row, give sparse_delta's bytes; sparse_write of all columns
 * gives a delta that adds up to the row. */
static void check_written_row(uint32_t element, uint32_t width, const void *before, const void *row) {
    enum { ROOM = 4 + 8 * SPARSE_WIDTH_MAX };
    uint32_t columns[SPARSE_WIDTH_MAX];
    unsigned char values[ROOM], bytes[ROOM], expected[ROOM], base[ROOM], all[ROOM];
    uint32_t count = 0;
    memcpy(base, before, (size_t)width * element);
    for (uint32_t i = 0; i < width; i++) {
        uint64_t old = 0;
        uint64_t new = 0;
        memcpy(&old, (const unsigned char *)before + (size_t)i * element, element);
        memcpy(&new, (const unsigned char *)row + (size_t)i * element, element);
        new -= old;
        memcpy(all + (size_t)i * element, &new, element);
        memcpy(values + (size_t)count * element, &new, element);
        columns[count] = i;
        count += old + new != old ? 1 : 0;
    }
    size_t size = sparse_delta(element, expected, row, base, width, false);
    assert_int_equal(sparse_write(element, bytes, width, count, columns, values), size);
    assert_memory_equal(bytes, expected, size);
    assert_int_equal(sparse_delta(element, bytes, all, NULL, width, false), size); /* the delta as a row */
    assert_memory_equal(bytes, expected, size);
    memset(values, 0xFF, sizeof values);
    assert_int_equal(sparse_copy(element, values, bytes, width), size);
    assert_memory_equal(values, all, (size_t)width * element);
    for (uint32_t i = 0; i < width; i++) {
        columns[i] = i;
    }
    size = sparse_write(element, bytes, width, width, columns, all);
    assert_int_equal(sparse_check(element, bytes, size, width), size);
    sparse_add(element, base, bytes, width);
    assert_memory_equal(base, row, (size_t)width * element);
}

/* Rows of every width with every number of changes: written deltas are accepted, add up to the row, and can be
 * subtracted again. */
TEST(sparse_rows_are_exact) {
    uint64_t random = 1;
    for (uint32_t element = 4; element <= 8; element += 4) {
        for (uint32_t width = 1; width <= SPARSE_WIDTH_MAX; width++) {
            for (uint32_t changes = 0; changes <= width; changes += 1 + changes / 4) {
                uint64_t row[SPARSE_WIDTH_MAX], base[SPARSE_WIDTH_MAX], before[SPARSE_WIDTH_MAX], sum[SPARSE_WIDTH_MAX];
                unsigned char bytes[4 + 8 * SPARSE_WIDTH_MAX];
                for (uint32_t i = 0; i < SPARSE_WIDTH_MAX; i++) {
                    random = random * UINT64_C(6364136223846793005) + 1;
                    base[i] = row[i] = random;
                }
                for (uint32_t i = 0; i < changes; i++) {
                    random = random * UINT64_C(6364136223846793005) + 1;
                    size_t byte = (size_t)(random >> 33) % ((size_t)width * element);
                    ((unsigned char *)row)[byte] ^= (unsigned char)(1 + i % 255);
                }
                memcpy(before, base, sizeof base);
                memcpy(sum, base, sizeof base);
                size_t size = sparse_delta(element, bytes, row, base, width, false);
                assert_memory_equal(base, before, sizeof base);
                assert_true(size <= sparse_most(width, element));
                assert_int_equal(sparse_check(element, bytes, size, width), size);
                assert_int_equal(sparse_check(element, bytes, size - 1, width), 0);
                assert_int_equal(sparse_bytes(element, bytes, width), size);
                assert_int_equal(sparse_add(element, sum, bytes, width), size);
                assert_memory_equal(sum, row, (size_t)width * element);
                assert_int_equal(sparse_subtract(element, sum, bytes, width), size);
                assert_memory_equal(sum, before, sizeof sum);
                assert_int_equal(sparse_delta(element, bytes, row, base, width, true), size);
                assert_memory_equal(base, row, (size_t)width * element);
                assert_int_equal(sparse_delta(element, bytes, row, base, width, true), 4);
                check_written_row(element, width, before, row);
            }
        }
    }
}

TEST(actors) {
    actor_id server = actor_of_part(UINT64_C(0x123456789ABC0000), 7);
    assert_int_equal(server, UINT64_C(0x123456789ABC0007));
    assert_int_equal(actor_node(server), UINT64_C(0x123456789ABC0000));
    assert_int_equal(actor_part(server), 7);
    assert_int_equal(actor_of_part(server, 0), actor_node(server));
    actor_id late = origin_catch_up(server, 3);
    assert_int_equal(actor_node(late), actor_node(server));
    assert_true(origin_is_catch_up(late));
    assert_false(origin_is_catch_up(server));
    assert_true(late != origin_catch_up(server, 4)); /* each epoch has an origin of its own */
    assert_true(origin_is_catch_up(origin_catch_up(server, ACTOR_PART_CATCH_UP)));
}

static void check_print(const struct message *message, const char *expected) {
    FREED char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    message_print(out, message);
    fclose(out);
    assert_string_equal(text, expected);
}

TEST(print_names_every_field) {
    struct message flush = {
        .type = MESSAGE_FLUSH,
        .epoch = 3,
        .flush = {.partition = 5, .origin = 0xAB00, .clock = 17, .piece = 3, .more = 1, .committed = 12}};
    struct message outcome = {.type = MESSAGE_OUTCOME,
                              .outcome = {.request = UINT64_MAX, .code = -4, .text = "no such node"}};
    check_print(&flush, "FLUSH epoch 3 partition 5 origin ab00 clock 17 idle 0 piece 3 more 1 ring 0 committed 12");
    check_print(&outcome, "OUTCOME epoch 0 request 18446744073709551615 code -4 text 'no such node'");
}
