/* The table of all messages, and the encoder and decoder that walk it. See message.h. */
#include "agileml/wire/layout.h"
#include "agileml/wire/plan.h"
#include "agileml/wire/records.h"
#include "agileml/wire/rows.h"

#include <math.h>
#include <string.h>

/* The head frame starts with: magic (2 bytes), version, type, frame count (4), epoch (8). */
enum { HEAD_BYTES = 16, HEAD_MAGIC = 0x4C41 /* "AL" */ };

#define TEXT_MESSAGE(title)                                                                                            \
    {                                                                                                                  \
        title, NO_FRAMES, {                                                                                            \
            I32(text.code), TEXT(text.text)                                                                            \
        }                                                                                                              \
    }
#define EMPTY_MESSAGE(title)                                                                                           \
    {                                                                                                                  \
        title, NO_FRAMES, {                                                                                            \
            U8(empty.unused, 0)                                                                                        \
        }                                                                                                              \
    }

static int evaluate_check(const struct message *message, struct error *error) {
    const uint32_t *shards = (const void *)message->frames[0]->data;
    size_t count = message->frames[0]->size / sizeof *shards;
    for (size_t s = 1; s < count; s++) {
        if (shards[s - 1] >= shards[s]) {
            return error_set(error, AML_EPROTOCOL, "EVALUATE: shard %u after shard %u, expected ascending numbers",
                             shards[s], shards[s - 1]);
        }
    }
    return count > 0 && shards[count - 1] < WIRE_SHARDS_MAX
               ? 0
               : error_set(error, AML_EPROTOCOL, "EVALUATE: no shards, or a number above %d", WIRE_SHARDS_MAX - 1);
}

static int flush_check(const struct message *message, struct error *error) {
    const struct message_flush *flush = &message->flush;
    if (flush->ring != 0 && (flush->piece != 0 || flush->more != 0)) {
        return error_set(error, AML_EPROTOCOL, "FLUSH: a piece that travels by a ring");
    }
    return flush->more != 0 && flush->piece == WIRE_PIECES_MAX - 1
               ? error_set(error, AML_EPROTOCOL, "FLUSH: more than %d pieces", WIRE_PIECES_MAX)
               : 0;
}

static int input_check(const struct message *message, struct error *error) {
    size_t count;
    const struct wire_input_range *ranges = input_ranges(message, &count);
    for (size_t r = 0; r < count; r++) {
        if (ranges[r].first >= ranges[r].end || ranges[r].part >= WIRE_NODES_MAX ||
            ranges[r].file >= WIRE_INPUT_FILES_MAX || ranges[r].sampled > 1) {
            return error_set(error, AML_EPROTOCOL, "INPUT: range %zu has no bytes, or there is no such part or file",
                             r);
        }
    }
    return 0;
}

static int allocation_check(const struct message *message, struct error *error) {
    const struct wire_machine *machines = (const void *)message->frames[0]->data;
    for (size_t m = 0; m < message->frames[0]->size / sizeof *machines; m++) {
        if (machines[m].name[0] == '\0' || machines[m].tier > TIER_FEEDER) {
            return error_set(error, AML_EPROTOCOL, "ALLOCATION: machine %zu has no name, or unknown tier %u", m,
                             machines[m].tier);
        }
    }
    return 0;
}

static const struct layout LAYOUTS[] = {
    [MESSAGE_REGISTER] = {"REGISTER",
                          FRAMES_RECORDS,
                          3,
                          {sizeof(struct wire_endpoint), sizeof(struct wire_metric), sizeof(struct wire_option)},
                          {WIRE_SERVERS_MAX + 1, WIRE_METRICS_MAX, WIRE_OPTIONS_MAX},
                          NULL,
                          {TEXT(registration.name),
                           TEXT(registration.host),
                           TEXT(registration.group),
                           TEXT(registration.key),
                           U64(registration.process_id, ANY),
                           U8(registration.tier, TIER_FEEDER),
                           U32(registration.threads, 65535),
                           U32(registration.threads_max, 65535),
                           U64(registration.slice, ANY),
                           TEXT(registration.job.app),
                           ID(registration.job.digest),
                           U32(registration.job.staleness, WIRE_STALENESS_MAX),
                           U32(registration.job.clocks_per_iteration, 1U << 20),
                           U32(registration.job.phases, WIRE_PHASES_MAX),
                           U32(registration.job.local_steps, WIRE_LOCAL_STEPS_MAX),
                           U8(registration.job.strategy, STRATEGY_AUTO),
                           U32(registration.job.ssgd_iterations, 1U << 20),
                           U64(registration.job.iterations, CLOCK),
                           F64(registration.job.seconds),
                           F64(registration.job.tolerance),
                           U32(registration.job.tolerance_iterations, 1U << 20)}},
    [MESSAGE_WELCOME] = {"WELCOME",
                         NO_FRAMES,
                         {TEXT(welcome.name), U32(welcome.heartbeat_ms, 1U << 30), U32(welcome.timeout_ms, 1U << 30),
                          U32(welcome.probe_ms, 1U << 30)}},
    [MESSAGE_PLAN] = {"PLAN",
                      FRAMES_RECORDS,
                      PLAN_FRAMES,
                      {sizeof(struct wire_node), sizeof(struct wire_placement), sizeof(struct wire_assignment),
                       sizeof(uint32_t), sizeof(struct wire_endpoint)},
                      {WIRE_NODES_MAX, WIRE_PARTITIONS_MAX, WIRE_ASSIGNMENTS_MAX, WIRE_ASSIGNMENT_SHARDS_MAX,
                       WIRE_NODES_MAX *(WIRE_SERVERS_MAX + 1)},
                      plan_check,
                      {U64(plan.version, ANY), U64(plan.restore, CLOCK), U64(plan.from_clock, CLOCK),
                       U32(plan.commit_every, WIRE_COMMIT_EVERY_MAX),
                       U32(plan.next_commit_every, WIRE_COMMIT_EVERY_MAX), U32(plan.window, WIRE_WINDOW_MAX),
                       U32(plan.partitions, WIRE_PARTITIONS_MAX), U32(plan.shards, WIRE_SHARDS_MAX),
                       U64(plan.final, CLOCK), U8(plan.recoverable, 1), U8(plan.transient, 1),
                       U8(plan.strategy, STRATEGY_ADPSGD), U8(plan.next_strategy, STRATEGY_ADPSGD),
                       U64(plan.strategy_from, CLOCK), TEXT(plan.resume)}},
    [MESSAGE_PACKED_PLAN] = {"PACKED_PLAN",
                             RECORDS(1, WIRE_PLAN_MAX),
                             {U64(packed_plan.version, ANY), U64(packed_plan.base, ANY),
                              U64(packed_plan.bytes, WIRE_PLAN_MAX)}},
    [MESSAGE_INPUT] = {"INPUT",
                       FRAMES_RECORDS,
                       3,
                       {sizeof(struct wire_input_shard), sizeof(struct wire_input_file),
                        sizeof(struct wire_input_range)},
                       {WIRE_SHARDS_MAX, WIRE_INPUT_FILES_MAX, WIRE_INPUT_RANGES_MAX},
                       input_check,
                       {U64(input.reading, ANY), U64(input.own.items, ANY), U64(input.own.hash, ANY)}},
    [MESSAGE_LOADED] = {"LOADED",
                        RECORDS(sizeof(double), WIRE_TOTALS),
                        {U64(loaded.version, ANY), U64(loaded.items, ITEMS)}},
    [MESSAGE_START] = {"START", RECORDS(sizeof(double), WIRE_TOTALS), {U64(start.items, ANY)}},
    [MESSAGE_PROGRESS] = {"PROGRESS",
                          RECORDS(sizeof(struct wire_metric_sum), WIRE_METRICS_MAX),
                          {
                              ID(progress.origin),
                              U64(progress.clock, CLOCK),
                              U32(progress.idle, WIRE_LOCAL_STEPS_MAX),
                              U8(progress.evaluation, 1),
                              U8(progress.last, 1),
                              U64(progress.items, ITEMS),
                              U64(progress.helped, ITEMS),
                              U64(progress.committed, CLOCK),
                              U64(progress.compute_us, TIME),
                              U64(progress.clock_us, TIME),
                              U64(progress.evaluate_us, TIME),
                              U64(progress.items_fed, ITEMS),
                              U64(progress.feed_wait_us, TIME),
                              U64(progress.transforms_us, TIME),
#define NUMBER(types, kind, name, field, most, label, meaning) U64(progress.numbers.field, most),
#include "agileml/wire/report_keys.def"
                          }},
    [MESSAGE_HEARTBEAT] = {"HEARTBEAT",
                           NO_FRAMES,
                           {
                               U8(heartbeat.state, NODE_FINISHED),
                               U64(heartbeat.clock, CLOCK),
                               U64(heartbeat.barrier, ANY),
                               U64(heartbeat.version, ANY),
                               U64(heartbeat.ready, ANY),
                               U64(heartbeat.committed, CLOCK),
                               ID(heartbeat.silent),
                               U8(heartbeat.waits, NODE_WAITS - 1),
                               ID(heartbeat.waits_on),
#define NUMBER(types, kind, name, field, most, label, meaning) U64(heartbeat.numbers.field, most),
#include "agileml/wire/report_keys.def"
                           }},
    [MESSAGE_HEARTBEAT_ACK] = {"HEARTBEAT_ACK",
                               NO_FRAMES,
                               {U64(heartbeat_ack.progress, CLOCK), U64(heartbeat_ack.catch_up, CLOCK),
                                U64(heartbeat_ack.barrier, ANY), U64(heartbeat_ack.barrier_clock, CLOCK),
                                U64(heartbeat_ack.final, CLOCK), U64(heartbeat_ack.input, ANY),
                                U32(heartbeat_ack.feed_threads, 65535)}},
    [MESSAGE_SAVE] = {"SAVE", RECORDS(sizeof(double), WIRE_METRICS_MAX), {U32(save.attempt, ANY)}},
    [MESSAGE_SAVED] = {"SAVED", NO_FRAMES, {U32(saved.attempt, ANY), I32(saved.code), TEXT(saved.text)}},
    [MESSAGE_DONE] = EMPTY_MESSAGE("DONE"),
    [MESSAGE_LEAVE] = EMPTY_MESSAGE("LEAVE"),
    [MESSAGE_FAIL] = TEXT_MESSAGE("FAIL"),
    [MESSAGE_ABORT] = TEXT_MESSAGE("ABORT"),
    [MESSAGE_FENCE] = EMPTY_MESSAGE("FENCE"),
    [MESSAGE_EVICT] = {"EVICT",
                       RECORDS(WIRE_NAME_MAX, WIRE_NODES_MAX),
                       {U64(evict.request, ANY), U32(evict.notice_ms, UINT32_MAX)}},
    [MESSAGE_GONE] = {"GONE",
                      RECORDS(WIRE_NAME_MAX, WIRE_NODES_MAX),
                      {U64(gone.request, ANY), U32(gone.signal, WIRE_SIGNAL_MAX)}},
    [MESSAGE_ALLOCATION] = {"ALLOCATION",
                            RECORDS_CHECKED(sizeof(struct wire_machine), WIRE_NODES_MAX, allocation_check),
                            {U64(allocation.request, ANY)}},
    [MESSAGE_NOTE] = {"NOTE", RECORDS(1, WIRE_NOTE_MAX), {U64(note.request, ANY)}},
    [MESSAGE_REVOKE] = {"REVOKE", NO_FRAMES, {U64(revoke.request, ANY), ID(revoke.serial)}},
    [MESSAGE_APP_NOTE] = {"APP_NOTE", NO_FRAMES, {U64(app_note.request, ANY), TEXT(app_note.text)}},
    [MESSAGE_OUTCOME] = {"OUTCOME", NO_FRAMES, {U64(outcome.request, ANY), I32(outcome.code), TEXT(outcome.text)}},
    [MESSAGE_STATUS] = {"STATUS", RECORDS(1, WIRE_STATUS_MAX), {U64(status.request, ANY)}},
    [MESSAGE_FENCED] = {"FENCED",
                        RECORDS(sizeof(struct wire_restore_point), WIRE_RESTORE_POINTS_MAX),
                        {U64(fenced.begun, CLOCK), U64(fenced.committed, CLOCK)}},
    [MESSAGE_REJOIN] = EMPTY_MESSAGE("REJOIN"),
    [MESSAGE_CHECKPOINT] = {"CHECKPOINT",
                            RECORDS(sizeof(uint32_t), WIRE_PARTITIONS_MAX),
                            {U64(checkpoint.number, ANY), U64(checkpoint.clock, CLOCK),
                             U64(checkpoint.committed, CLOCK), TEXT(checkpoint.path)}},
    [MESSAGE_WRITTEN] = {"WRITTEN",
                         NO_FRAMES,
                         {U64(written.number, ANY), U32(written.partition, WIRE_PARTITIONS_MAX - 1),
                          U8(written.state, WRITTEN_FAILED), U64(written.clock, CLOCK), U64(written.bytes, ANY),
                          U32(written.checksum, UINT32_MAX), TEXT(written.text)}},
    [MESSAGE_CHECKPOINT_NOW] = {"CHECKPOINT_NOW", NO_FRAMES, {U64(checkpoint_now.request, ANY)}},
    [MESSAGE_REPLICAS] = {"REPLICAS",
                          RECORDS(sizeof(struct wire_restore_point), WIRE_RESTORE_POINTS_MAX),
                          {U64(replicas.version, ANY), U8(replicas.fenced, 1), U8(replicas.in_step, 1),
                           U64(replicas.committed, CLOCK)}},
    [MESSAGE_CRASHED] = {"CRASHED",
                         NO_FRAMES,
                         {U32(crashed.signal, WIRE_SIGNAL_MAX), I32(crashed.status), U64(crashed.clock, CLOCK),
                          TEXT(crashed.function)}},
    [MESSAGE_WAITS] = {"WAITS",
                       RECORDS(sizeof(struct wire_server_wait), WIRE_NODES_MAX),
                       {U64(waits.version, ANY), U64(waits.clocks, CLOCK)}},
    [MESSAGE_ACCUSE] = {"ACCUSE", NO_FRAMES, {ID(accuse.accused), TEXT(accuse.text)}},
    [MESSAGE_OBSERVE] = {"OBSERVE", NO_FRAMES, {U64(observe.from, ANY)}},
    [MESSAGE_REPORT] = {"REPORT", RECORDS(1, WIRE_JSON_MAX), {U64(report.number, ANY), U64(report.oldest, ANY)}},
    [MESSAGE_STOP] = TEXT_MESSAGE("STOP"),
    [MESSAGE_SUBSCRIBE] =
        {"SUBSCRIBE",
         ROWS,
         {U32(subscribe.partition, WIRE_PARTITIONS_MAX - 1), U64(subscribe.request, ANY), U64(subscribe.after, ANY),
          U64(subscribe.known, CLOCK), U8(subscribe.again, 1), U8(subscribe.only, 1)}},
    [MESSAGE_PULL] = {"PULL",
                      NO_FRAMES,
                      {U32(pull.partition, WIRE_PARTITIONS_MAX - 1), U64(pull.number, ANY), U64(pull.clock, CLOCK),
                       U8(pull.again, 1)}},
    [MESSAGE_PUSH] =
        {"PUSH",
         ROWS,
         {U32(push.partition, WIRE_PARTITIONS_MAX - 1), U64(push.from_clock, CLOCK), U64(push.clock, CLOCK),
          U64(push.durable, CLOCK), U64(push.durable_from, CLOCK), U64(push.received, CLOCK),
          U32(push.pieces, WIRE_PIECES_MAX), U64(push.request, ANY), U64(push.pull, ANY), U64(push.subscribed, ANY),
          U8(push.left_out, 1), U64(push.ring, ANY)}},
    [MESSAGE_FLUSH] = {"FLUSH",
                       ROWS_CHECKED(flush_check),
                       {U32(flush.partition, WIRE_PARTITIONS_MAX - 1), ID(flush.origin), U64(flush.clock, CLOCK),
                        U32(flush.idle, WIRE_LOCAL_STEPS_MAX), U32(flush.piece, WIRE_PIECES_MAX - 1), U8(flush.more, 1),
                        U64(flush.ring, ANY), U64(flush.committed, CLOCK)}},
    [MESSAGE_SCAN] = {"SCAN",
                      NO_FRAMES,
                      {U32(scan.partition, WIRE_PARTITIONS_MAX - 1), U32(scan.table, WIRE_TABLES_MAX - 1),
                       U64(scan.cursor, ANY), U64(scan.min_clock, CLOCK)}},
    [MESSAGE_ROWS] =
        {"ROWS",
         ROWS,
         {U32(rows.partition, WIRE_PARTITIONS_MAX - 1), U32(rows.table, WIRE_TABLES_MAX - 1), U64(rows.cursor, ANY),
          U64(rows.next, ANY)}},
    [MESSAGE_FOLLOW] = {"FOLLOW",
                        NO_FRAMES,
                        {U32(follow.partition, WIRE_PARTITIONS_MAX - 1), U64(follow.number, ANY), U8(follow.again, 1),
                         U8(follow.caught_up, 1), U64(follow.clock, CLOCK), U64(follow.cursor, ANY)}},
    [MESSAGE_UPDATE] =
        {"UPDATE",
         ROWS,
         {U32(update.partition, WIRE_PARTITIONS_MAX - 1), U8(update.piece, 1), U64(update.from_clock, CLOCK),
          U64(update.clock, CLOCK), U64(update.committed, CLOCK), U64(update.cursor, ANY), U64(update.next, ANY),
          U64(update.follow, ANY)}},
    [MESSAGE_EVALUATE] = {"EVALUATE",
                          RECORDS_CHECKED(sizeof(uint32_t), WIRE_SHARDS_MAX, evaluate_check),
                          {ID(evaluate.origin), U64(evaluate.clock, CLOCK)}},
    [MESSAGE_PEER] = {"PEER",
                      NO_FRAMES,
                      {U8(peer.service, ANY), U8(peer.kind, ANY), ID(peer.receiver), ID(peer.sender)}},
    [MESSAGE_PULSE] = {"PULSE", NO_FRAMES, {U8(pulse.kind, PULSE_SUSPECT), U64(pulse.number, ANY), ID(pulse.suspect)}},
};

static const struct layout *layout_of(unsigned type) {
    if (type >= sizeof LAYOUTS / sizeof LAYOUTS[0] || LAYOUTS[type].name == NULL) {
        return NULL;
    }
    return &LAYOUTS[type];
}

/* What a PEER's head has after these fields; NULL: the message is no PEER, or of no kind that exists. */
static const struct layout *inner_layout(const struct message *message) {
    return message->type == MESSAGE_PEER ? peer_layout(&message->peer) : NULL;
}

static const char *const TIER_TEXTS[TIERS] = {"reliable", "transient", "feeder"};

const char *tier_name(enum node_tier tier) {
    return TIER_TEXTS[tier];
}

bool tier_of_name(const char *name, enum node_tier *tier) {
    for (unsigned t = 0; t < TIERS; t++) {
        if (strcmp(name, TIER_TEXTS[t]) == 0) {
            *tier = (enum node_tier)t;
            return true;
        }
    }
    return false;
}

const char *message_name(unsigned type) {
    const struct layout *layout = layout_of(type);
    return layout != NULL ? layout->name : "unknown";
}

unsigned message_roles(const struct message *message) {
    switch (message->type) {
    case MESSAGE_OBSERVE:
    case MESSAGE_STATUS:
        return ROLE_OBSERVER | ROLE_OPERATOR;
    case MESSAGE_STOP:
    case MESSAGE_GONE:
    case MESSAGE_ALLOCATION:
    case MESSAGE_NOTE:
    case MESSAGE_CHECKPOINT_NOW:
        return ROLE_OPERATOR;
    case MESSAGE_REVOKE:
        return ROLE_OWNER;
    case MESSAGE_EVICT: /* a node that leaves by itself sends no name */
        return message->frames[0]->size == 0 ? ROLE_NODE : ROLE_OPERATOR;
    case MESSAGE_WELCOME:
    case MESSAGE_PLAN:
    case MESSAGE_PACKED_PLAN:
    case MESSAGE_START:
    case MESSAGE_HEARTBEAT_ACK:
    case MESSAGE_SAVE:
    case MESSAGE_DONE:
    case MESSAGE_ABORT:
    case MESSAGE_FENCE:
    case MESSAGE_REPORT:
    case MESSAGE_OUTCOME:
    case MESSAGE_REJOIN:
    case MESSAGE_CHECKPOINT:
    case MESSAGE_EVALUATE:
    case MESSAGE_REPLICAS:
        return 0;
    case MESSAGE_REGISTER:
    case MESSAGE_LOADED:
    case MESSAGE_INPUT:
    case MESSAGE_PROGRESS:
    case MESSAGE_HEARTBEAT:
    case MESSAGE_FENCED:
    case MESSAGE_SAVED:
    case MESSAGE_WRITTEN:
    case MESSAGE_ACCUSE:
    case MESSAGE_WAITS:
    case MESSAGE_APP_NOTE:
    case MESSAGE_CRASHED:
    case MESSAGE_LEAVE:
    case MESSAGE_FAIL:
    case MESSAGE_SUBSCRIBE:
    case MESSAGE_PULL:
    case MESSAGE_PUSH:
    case MESSAGE_FLUSH:
    case MESSAGE_SCAN:
    case MESSAGE_ROWS:
    case MESSAGE_FOLLOW:
    case MESSAGE_UPDATE:
    case MESSAGE_PEER:
    case MESSAGE_PULSE:
        return ROLE_NODE;
    }
    return 0;
}

static size_t field_bytes(const struct field *field) {
    switch (field->kind) {
    case FIELD_U8:
        return 1;
    case FIELD_I32:
    case FIELD_U32:
        return 4;
    case FIELD_U64:
    case FIELD_ID:
    case FIELD_F64:
        return 8;
    case FIELD_TEXT:
        return (size_t)field->maximum;
    case FIELD_END:
        break;
    }
    return 0;
}

/* Writes the fields to `to`, and returns their bytes. */
static size_t fields_encode(const struct message *message, const struct layout *layout, unsigned char *to) {
    size_t at = 0;
    for (const struct field *field = layout->fields; field->kind != FIELD_END; field++) {
        size_t bytes = field_bytes(field);
        memcpy(to + at, (const unsigned char *)message + field->offset, bytes);
        at += bytes;
    }
    return at;
}

size_t message_encode_head(const struct message *message, unsigned char *head) {
    const struct layout *inner = inner_layout(message);
    uint16_t magic = HEAD_MAGIC;
    uint32_t frames = message->frame_count;
    memcpy(head, &magic, 2);
    head[2] = WIRE_VERSION;
    head[3] = (unsigned char)message->type;
    memcpy(head + 4, &frames, 4);
    memcpy(head + 8, &message->epoch, 8);
    size_t at = HEAD_BYTES + fields_encode(message, layout_of(message->type), head + HEAD_BYTES);
    return inner != NULL ? at + fields_encode(message, inner, head + at) : at;
}

static void field_print(FILE *out, const struct field *field, const unsigned char *value) {
    uint64_t number = 0;
    int32_t code;
    double real;
    fprintf(out, " %s ", strrchr(field->name, '.') + 1);
    switch (field->kind) {
    case FIELD_U8:
    case FIELD_U32:
    case FIELD_U64:
        memcpy(&number, value, field_bytes(field));
        fprintf(out, "%llu", (unsigned long long)number);
        break;
    case FIELD_ID:
        memcpy(&number, value, sizeof number);
        fprintf(out, "%llx", (unsigned long long)number);
        break;
    case FIELD_I32:
        memcpy(&code, value, sizeof code);
        fprintf(out, "%d", code);
        break;
    case FIELD_F64:
        memcpy(&real, value, sizeof real);
        fprintf(out, "%g", real);
        break;
    case FIELD_TEXT:
        fprintf(out, "'%.*s'", (int)field->maximum, (const char *)value);
        break;
    case FIELD_END:
        break;
    }
}

static void fields_print(FILE *out, const struct message *message, const struct layout *layout) {
    for (const struct field *field = layout->fields; field->kind != FIELD_END; field++) {
        field_print(out, field, (const unsigned char *)message + field->offset);
    }
}

void message_print(FILE *out, const struct message *message) {
    const struct layout *inner = inner_layout(message);
    fprintf(out, "%s epoch %llu", inner != NULL ? inner->name : message_name(message->type),
            (unsigned long long)message->epoch);
    fields_print(out, message, layout_of(message->type));
    if (inner != NULL) {
        fields_print(out, message, inner);
    }
}

static int field_check(const struct field *field, const unsigned char *value) {
    uint64_t number = 0;
    double real;
    switch (field->kind) {
    case FIELD_U8:
    case FIELD_U32:
    case FIELD_U64:
        memcpy(&number, value, field_bytes(field));
        return number <= field->maximum;
    case FIELD_F64:
        memcpy(&real, value, sizeof real);
        return isfinite(real);
    case FIELD_TEXT:
        return memchr(value, '\0', (size_t)field->maximum) != NULL;
    case FIELD_ID:
    case FIELD_I32:
    case FIELD_END:
        break;
    }
    return 1;
}

static int records_frame_check(const struct message *message, const struct layout *layout, unsigned frame,
                               unsigned number, struct error *error) {
    size_t size = message->frames[frame]->size;
    if (size % layout->record_bytes[number] != 0 || size / layout->record_bytes[number] > layout->record_max[number]) {
        return error_set(error, AML_EPROTOCOL, "%s: frame %u has %zu bytes, expected up to %u records of %u",
                         layout->name, frame, size, layout->record_max[number], layout->record_bytes[number]);
    }
    return 0;
}

static int frames_check(const struct message *message, const struct layout *layout, struct error *error) {
    bool rows = layout->frames == FRAMES_ROWS || layout->frames == FRAMES_ROWS_AND_RECORDS;
    for (unsigned i = 0; i < message->frame_count; i++) {
        if (message->frames[i]->size > WIRE_FRAME_BYTES_MAX) {
            return error_set(error, AML_EPROTOCOL, "%s: frame %u has %zu bytes, more than %llu", layout->name, i,
                             message->frames[i]->size, (unsigned long long)WIRE_FRAME_BYTES_MAX);
        }
    }
    if (rows ? message->frame_count < layout->frame_count : message->frame_count != layout->frame_count) {
        return error_set(error, AML_EPROTOCOL, "%s: %u payload frames, expected %u", layout->name, message->frame_count,
                         layout->frame_count);
    }
    unsigned first = message->frame_count - layout->frame_count; /* of the records; those before have rows */
    int result = 0;
    for (unsigned i = 0; i < layout->frame_count && result == 0; i++) {
        result = records_frame_check(message, layout, first + i, i, error);
    }
    return result == 0 && rows ? rows_frames_check(message, first, layout->name, error) : result;
}

/* Checks the contents of records. Every text must end, as texts are used in place. Some messages have a check of their
 * own. */
static int records_check(const struct message *message, const struct layout *layout, struct error *error) {
    struct {
        unsigned type, frame;
        size_t record, offset, bytes;
    } const texts[] = {
        {MESSAGE_REGISTER, 0, sizeof(struct wire_endpoint), offsetof(struct wire_endpoint, endpoint),
         WIRE_ENDPOINT_MAX},
        {MESSAGE_REGISTER, 1, sizeof(struct wire_metric), offsetof(struct wire_metric, name), WIRE_NAME_MAX},
        {MESSAGE_REGISTER, 2, sizeof(struct wire_option), offsetof(struct wire_option, name), WIRE_OPTION_MAX},
        {MESSAGE_REGISTER, 2, sizeof(struct wire_option), offsetof(struct wire_option, value), WIRE_OPTION_MAX},
        {MESSAGE_PLAN, PLAN_NODES, sizeof(struct wire_node), offsetof(struct wire_node, name), WIRE_NAME_MAX},
        {MESSAGE_PLAN, PLAN_NODES, sizeof(struct wire_node), offsetof(struct wire_node, key), WIRE_KEY_MAX},
        {MESSAGE_PLAN, PLAN_ENDPOINTS, sizeof(struct wire_endpoint), offsetof(struct wire_endpoint, endpoint),
         WIRE_ENDPOINT_MAX},
        {MESSAGE_EVICT, 0, WIRE_NAME_MAX, 0, WIRE_NAME_MAX},
        {MESSAGE_GONE, 0, WIRE_NAME_MAX, 0, WIRE_NAME_MAX},
        {MESSAGE_INPUT, 1, sizeof(struct wire_input_file), offsetof(struct wire_input_file, path), WIRE_PATH_MAX},
        {MESSAGE_ALLOCATION, 0, sizeof(struct wire_machine), offsetof(struct wire_machine, name), WIRE_NAME_MAX},
    };
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        if (texts[t].type != (unsigned)message->type) {
            continue;
        }
        const struct buffer *frame = message->frames[texts[t].frame];
        for (size_t at = 0; at < frame->size; at += texts[t].record) {
            if (memchr(frame->data + at + texts[t].offset, '\0', texts[t].bytes) == NULL) {
                return error_set(error, AML_EPROTOCOL, "%s: a text in frame %u has no end", layout->name,
                                 texts[t].frame);
            }
        }
    }
    if ((message->type == MESSAGE_LOADED || message->type == MESSAGE_START) &&
        message->frames[0]->size != WIRE_TOTALS * sizeof(double)) {
        return error_set(error, AML_EPROTOCOL, "%s: %zu bytes of totals, expected %d totals", layout->name,
                         message->frames[0]->size, WIRE_TOTALS);
    }
    return layout->check != NULL ? layout->check(message, error) : 0;
}

/* Takes the fields from the head, where `*at` is, and moves on. */
static int fields_decode(struct message *message, const struct layout *layout, const unsigned char *head, size_t size,
                         size_t *at, struct error *error) {
    for (const struct field *field = layout->fields; field->kind != FIELD_END; field++) {
        size_t wanted = field_bytes(field);
        if (size - *at < wanted) {
            return error_set(error, AML_EPROTOCOL, "%s: a head frame of %zu bytes is too short", layout->name, size);
        }
        if (!field_check(field, head + *at)) {
            return error_set(error, AML_EPROTOCOL, "%s: the field at byte %zu is out of its range", layout->name, *at);
        }
        memcpy((unsigned char *)message + field->offset, head + *at, wanted);
        *at += wanted;
    }
    return 0;
}

int message_decode_head(struct message *message, const void *head, size_t size, struct error *error) {
    const unsigned char *bytes = head;
    uint16_t magic;
    uint32_t frames;
    if (size < HEAD_BYTES || size > WIRE_HEAD_MAX) {
        return error_set(error, AML_EPROTOCOL, "a head frame of %zu bytes, expected %d to %d", size, HEAD_BYTES,
                         WIRE_HEAD_MAX);
    }
    memcpy(&magic, bytes, 2);
    memcpy(&frames, bytes + 4, 4);
    if (magic != HEAD_MAGIC) {
        return error_set(error, AML_EPROTOCOL, "not an AgileML message");
    }
    if (bytes[2] != WIRE_VERSION) {
        return error_set(error, AML_EPROTOCOL, "a message of wire version %u, expected %u", bytes[2], WIRE_VERSION);
    }
    const struct layout *layout = layout_of(bytes[3]);
    if (layout == NULL) {
        return error_set(error, AML_EPROTOCOL, "a message of unknown type %u", bytes[3]);
    }
    if (frames != message->frame_count) {
        return error_set(error, AML_EPROTOCOL, "%s: its head announces %u payload frames, %u arrived", layout->name,
                         frames, message->frame_count);
    }
    message->type = bytes[3];
    memcpy(&message->epoch, bytes + 8, 8);
    size_t at = HEAD_BYTES;
    int result = fields_decode(message, layout, bytes, size, &at, error);
    if (result == 0 && message->type == MESSAGE_PEER) {
        layout = inner_layout(message);
        result = layout != NULL ? fields_decode(message, layout, bytes, size, &at, error)
                                : error_set(error, AML_EPROTOCOL, "PEER: unknown service %u, or its unknown kind %u",
                                            message->peer.service, message->peer.kind);
    }
    if (result == 0 && at != size) {
        return error_set(error, AML_EPROTOCOL, "%s: a head frame of %zu bytes, expected %zu", layout->name, size, at);
    }
    result = result != 0 ? result : frames_check(message, layout, error);
    return result != 0 ? result : records_check(message, layout, error);
}

struct message message_share(const struct message *message) {
    struct message shared = *message;
    for (unsigned f = 0; f < shared.frame_count; f++) {
        buffer_hold(shared.frames[f]);
    }
    return shared;
}

size_t message_frame_bytes(const struct message *message) {
    size_t bytes = 0;
    for (unsigned f = 0; f < message->frame_count; f++) {
        bytes += message->frames[f]->size;
    }
    return bytes;
}

void message_close(struct message *message) {
    for (unsigned i = 0; i < message->frame_count; i++) {
        buffer_drop(message->frames[i]);
    }
    message->frame_count = 0;
}
