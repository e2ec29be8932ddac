/* See forge.h. */
#include "tests/forge.h"

#include "agileml/base/hash.h"
#include "agileml/wire/rows.h"

#include <string.h>

enum { HEADER_BYTES = 16, CHANGES_MAX = 4, TRIES = 16 };

static uint64_t draw(uint64_t *random) {
    return hash_mix((*random)++);
}

/* Replaces the number of `bytes` bytes at `at` by a limit, a neighbour of the present value, or a random number. */
static void change_number(unsigned char *at, size_t bytes, uint64_t *random) {
    uint64_t number = 0;
    memcpy(&number, at, bytes);
    const uint64_t numbers[] = {
        0,
        1,
        2,
        number + 1,
        number - 1,
        number * 2,
        number + 100,
        WIRE_CLOCK_MAX,
        WIRE_CLOCK_MAX - 1,
        UINT64_MAX,
        UINT64_MAX - 1,
        UINT64_C(1) << 31,
        draw(random),
        draw(random) % 64,
    };
    number = numbers[draw(random) % (sizeof numbers / sizeof *numbers)];
    memcpy(at, &number, bytes);
}

static void change_bytes(unsigned char *data, size_t size, uint64_t *random) {
    static const size_t widths[] = {1, 4, 8};
    size_t bytes = widths[draw(random) % 3];
    if (bytes <= size) {
        size_t at = draw(random) % (size - bytes + 1);
        change_number(data + at, bytes, random);
    }
}

/* Whether the decoder accepts the message with this head. If so, `message` becomes the decoded one. */
static bool decodes(struct message *message, const unsigned char *head, size_t size) {
    struct message decoded;
    struct error error = {0};
    memset(&decoded, 0, sizeof decoded);
    decoded.frame_count = message->frame_count;
    memcpy(decoded.frames, message->frames, sizeof decoded.frames);
    if (message_decode_head(&decoded, head, size, &error) != 0) {
        return false;
    }
    *message = decoded;
    return true;
}

static void change_head(struct message *message, uint64_t *random) {
    unsigned char head[WIRE_HEAD_MAX];
    size_t size = message_encode_head(message, head);
    change_bytes(head + HEADER_BYTES, size - HEADER_BYTES, random);
    decodes(message, head, size);
}

/* Changes bytes of a frame, or cuts off its end. */
static void change_frame(struct message *message, uint64_t *random) {
    unsigned char head[WIRE_HEAD_MAX];
    unsigned f = (unsigned)(draw(random) % message->frame_count);
    struct buffer *before = message->frames[f];
    struct buffer *copy = buffer_copy(before->data, before->size);
    if (draw(random) % 4 == 0) {
        copy->size = draw(random) % (copy->size + 1);
    } else {
        change_bytes(copy->data, copy->size, random);
    }
    message->frames[f] = copy;
    bool taken = decodes(message, head, message_encode_head(message, head));
    message->frames[f] = taken ? copy : before;
    buffer_drop(taken ? before : copy);
}

void forge_change(struct message *message, uint64_t *random) {
    unsigned changes = 1 + (unsigned)(draw(random) % CHANGES_MAX);
    for (unsigned c = 0; c < changes; c++) {
        uint64_t what = draw(random) % 8;
        if (what == 0) {
            message->epoch += draw(random) % 3 - 1;
        } else if (what < 4 && message->frame_count > 0) {
            change_frame(message, random);
        } else {
            change_head(message, random);
        }
    }
}

static void add_frame(struct message *message, size_t size) {
    struct buffer *frame = buffer_new(size);
    memset(frame->data, 0, size);
    message->frames[message->frame_count++] = frame;
}

/* Adds row 0 of table 0, which has 8 bytes. */
static void add_row(struct message *message) {
    static const struct wire_directory_entry entry = {.table = 0, .rows = 1};
    message->frames[message->frame_count++] = buffer_copy(&entry, sizeof entry);
    add_frame(message, sizeof(uint64_t));
    if (message->type != MESSAGE_SUBSCRIBE) {
        add_frame(message, sizeof(uint64_t));
    }
}

static void add_plan(struct message *message) {
    static const struct wire_assignment assignment = {.from_clock = 1, .until_clock = WIRE_CLOCK_NEVER, .count = 1};
    message->plan = (struct message_plan){.version = 1,
                                          .commit_every = 1,
                                          .next_commit_every = 1,
                                          .partitions = FORGE_PARTITIONS,
                                          .shards = FORGE_SHARDS,
                                          .recoverable = 1};
    add_frame(message, sizeof(struct wire_node));
    add_frame(message, FORGE_PARTITIONS * sizeof(struct wire_placement));
    memset(message->frames[1]->data, 1, message->frames[1]->size); /* each partition has a server */
    message->frames[message->frame_count++] = buffer_copy(&assignment, sizeof assignment);
    add_frame(message, sizeof(uint32_t));
    add_frame(message, sizeof(struct wire_endpoint));
}

/* Makes a PEER of this service and kind; false: there is none. */
static bool forge_peer(unsigned service, unsigned kind, struct message *message) {
    static const struct wire_batch batch = {.shard = 0, .bytes = 2};
    message->type = MESSAGE_PEER;
    message->peer.service = (uint8_t)service;
    message->peer.kind = (uint8_t)kind;
    switch (service * PEER_KINDS_MAX + kind) {
    case SERVICE_FETCH *PEER_KINDS_MAX + FETCH_ASK_HOLDINGS:
    case SERVICE_FETCH *PEER_KINDS_MAX + FETCH_HOLDINGS:
    case SERVICE_PARTS *PEER_KINDS_MAX + PARTS_ASK:
        add_frame(message, sizeof(uint32_t));
        break;
    case SERVICE_FETCH *PEER_KINDS_MAX + FETCH_PIECE:
    case SERVICE_PARTS *PEER_KINDS_MAX + PARTS_PIECE:
        add_frame(message, 2);
        break;
    case SERVICE_LOTS *PEER_KINDS_MAX + LOT_DONE:
        add_row(message);
        add_frame(message, sizeof(struct wire_metric_sum));
        break;
    case SERVICE_FEED *PEER_KINDS_MAX + FEED_ASK:
        message->peer.feed.transforms = 1;
        add_frame(message, sizeof(uint32_t));
        break;
    case SERVICE_FEED *PEER_KINDS_MAX + FEED_DONE:
        message->frames[message->frame_count++] = buffer_copy(&batch, sizeof batch);
        add_frame(message, batch.bytes);
        break;
    case SERVICE_FEED *PEER_KINDS_MAX + FEED_GONE:
        add_frame(message, sizeof(struct wire_batch));
        add_frame(message, 0);
        break;
    case SERVICE_GOSSIP *PEER_KINDS_MAX + GOSSIP_OFFER:
    case SERVICE_GOSSIP *PEER_KINDS_MAX + GOSSIP_ANSWER:
        add_row(message);
        break;
    default:
        break;
    }
    return strcmp(peer_name(service, kind), "unknown") != 0;
}

bool forge_message(unsigned type, struct message *message) {
    static const struct wire_machine machine = {.name = "i-0"};
    static const struct wire_input_range range = {.end = 1};
    memset(message, 0, sizeof *message);
    if (type >= FORGE_PEER) {
        return forge_peer((type - FORGE_PEER) / PEER_KINDS_MAX, (type - FORGE_PEER) % PEER_KINDS_MAX, message);
    }
    message->type = (enum message_type)type;
    switch (type) {
    case MESSAGE_REGISTER:
        message->registration.job.clocks_per_iteration = 1;
        message->registration.job.local_steps = 1;
        add_frame(message, sizeof(struct wire_endpoint));
        add_frame(message, sizeof(struct wire_metric));
        add_frame(message, 0);
        break;
    case MESSAGE_PLAN:
        add_plan(message);
        break;
    case MESSAGE_INPUT:
        add_frame(message, FORGE_SHARDS * sizeof(struct wire_input_shard));
        add_frame(message, 0);
        message->frames[message->frame_count++] = buffer_copy(&range, sizeof range);
        break;
    case MESSAGE_LOADED:
    case MESSAGE_START:
        add_frame(message, WIRE_TOTALS * sizeof(double));
        break;
    case MESSAGE_SAVE:
        add_frame(message, sizeof(double));
        break;
    case MESSAGE_PROGRESS:
        add_frame(message, sizeof(struct wire_metric_sum));
        break;
    case MESSAGE_WAITS:
        add_frame(message, sizeof(struct wire_server_wait));
        break;
    case MESSAGE_EVALUATE:
    case MESSAGE_CHECKPOINT:
        add_frame(message, sizeof(uint32_t));
        break;
    case MESSAGE_REPORT:
    case MESSAGE_STATUS:
    case MESSAGE_NOTE:
    case MESSAGE_PACKED_PLAN:
        add_frame(message, 2);
        break;
    case MESSAGE_EVICT:
    case MESSAGE_GONE:
        add_frame(message, WIRE_NAME_MAX);
        break;
    case MESSAGE_ALLOCATION:
        message->frames[message->frame_count++] = buffer_copy(&machine, sizeof machine);
        break;
    case MESSAGE_FENCED:
    case MESSAGE_REPLICAS:
        add_frame(message, sizeof(struct wire_restore_point));
        break;
    case MESSAGE_SUBSCRIBE:
    case MESSAGE_PUSH:
    case MESSAGE_FLUSH:
    case MESSAGE_ROWS:
    case MESSAGE_UPDATE:
        add_row(message);
        break;
    default:
        break;
    }
    return type != MESSAGE_PEER && strcmp(message_name(type), "unknown") != 0;
}
