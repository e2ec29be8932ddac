/* The table of all PEER, and what is checked of their records. See peer.h. */
#include "agileml/wire/layout.h"
#include "agileml/wire/records.h"

static int feed_ask_check(const struct message *message, struct error *error) {
    size_t count;
    const uint32_t *shards = peer_shards(message, &count);
    for (size_t s = 0; s < count; s++) {
        if (shards[s] >= WIRE_SHARDS_MAX || (s > 0 && shards[s] <= shards[s - 1])) {
            return error_set(error, AML_EPROTOCOL, "FEED_ASK: shard %u out of range or out of order", shards[s]);
        }
    }
    return 0;
}

/* Checks that the batches' sizes add up to the frame of their bytes. */
static int feed_check(const struct message *message, struct error *error) {
    size_t count;
    const struct wire_batch *batches = feed_batches(message, &count);
    uint64_t bytes = 0;
    for (size_t b = 0; b < count; b++) {
        if (batches[b].shard >= WIRE_SHARDS_MAX || batches[b].bytes > WIRE_BATCH_BYTES_MAX ||
            (message->peer.kind == FEED_GONE && batches[b].bytes != 0)) {
            return error_set(error, AML_EPROTOCOL, "FEED: a batch of shard %u with %u bytes", batches[b].shard,
                             batches[b].bytes);
        }
        bytes += batches[b].bytes;
    }
    if (count == 0 || bytes != message->frames[FEED_BYTES]->size) {
        return error_set(error, AML_EPROTOCOL, "FEED: %zu batches of %llu bytes in all, but %zu bytes arrived", count,
                         (unsigned long long)bytes, message->frames[FEED_BYTES]->size);
    }
    return 0;
}

#define SHARDS(most) RECORDS(sizeof(uint32_t), most)
#define PIECE        RECORDS(1, WIRE_SHARD_PIECE_MAX)
#define BATCHES                                                                                                        \
    FRAMES_RECORDS, 2, {sizeof(struct wire_batch), 1}, {WIRE_FEED_SHARDS_MAX, WIRE_FEED_BYTES_MAX}, feed_check
#define METRICS FRAMES_ROWS_AND_RECORDS, 1, {sizeof(struct wire_metric_sum)}, {WIRE_METRICS_MAX}, NULL

#define FETCH                                                                                                          \
    {                                                                                                                  \
        U64(peer.fetch.claim, ANY), U32(peer.fetch.shard, WIRE_SHARDS_MAX - 1), U64(peer.fetch.offset, ANY),           \
            U64(peer.fetch.size, ANY)                                                                                  \
    }
#define PARTS                                                                                                          \
    {                                                                                                                  \
        U64(peer.parts.claim, ANY), U32(peer.parts.part, WIRE_NODES_MAX), U32(peer.parts.parts, WIRE_NODES_MAX),       \
            U64(peer.parts.offset, ANY), U64(peer.parts.size, ANY)                                                     \
    }
#define LOT                                                                                                            \
    {                                                                                                                  \
        U32(peer.lot.lot, WIRE_LOTS_MAX - 1), U64(peer.lot.clock, CLOCK), U64(peer.lot.claim, ANY),                    \
            U64(peer.lot.digest, ANY), U64(peer.lot.items, ITEMS)                                                      \
    }
#define FEED                                                                                                           \
    {                                                                                                                  \
        U64(peer.feed.clock, CLOCK), U64(peer.feed.claim, ANY), U64(peer.feed.begun, CLOCK),                           \
            U8(peer.feed.transforms, WIRE_TRANSFORMS_MAX)                                                              \
    }
#define GOSSIP                                                                                                         \
    { U64(peer.gossip.clock, CLOCK), U64(peer.gossip.claim, ANY) }

static const struct layout LAYOUTS[SERVICES][PEER_KINDS_MAX] = {
    [SERVICE_FETCH] = {[FETCH_ASK_HOLDINGS] = {"FETCH_ASK_HOLDINGS", SHARDS(WIRE_SHARDS_MAX), FETCH},
                       [FETCH_HOLDINGS] = {"FETCH_HOLDINGS", SHARDS(WIRE_SHARDS_MAX), FETCH},
                       [FETCH_ASK] = {"FETCH_ASK", NO_FRAMES, FETCH},
                       [FETCH_PIECE] = {"FETCH_PIECE", PIECE, FETCH},
                       [FETCH_GONE] = {"FETCH_GONE", NO_FRAMES, FETCH}},
    [SERVICE_PARTS] = {[PARTS_ASK] = {"PARTS_ASK", SHARDS(WIRE_SHARDS_MAX), PARTS},
                       [PARTS_PIECE] = {"PARTS_PIECE", PIECE, PARTS},
                       [PARTS_GONE] = {"PARTS_GONE", NO_FRAMES, PARTS},
                       [PARTS_LATER] = {"PARTS_LATER", NO_FRAMES, PARTS}},
    [SERVICE_LOTS] = {[LOT_ASK] = {"LOT_ASK", NO_FRAMES, LOT},
                      [LOT_GIVE] = {"LOT_GIVE", NO_FRAMES, LOT},
                      [LOT_KEEP] = {"LOT_KEEP", NO_FRAMES, LOT},
                      [LOT_DONE] = {"LOT_DONE", METRICS, LOT},
                      [LOT_LEFT] = {"LOT_LEFT", NO_FRAMES, LOT}},
    [SERVICE_FEED] = {[FEED_ASK] = {"FEED_ASK", RECORDS_CHECKED(sizeof(uint32_t), WIRE_FEED_SHARDS_MAX, feed_ask_check),
                                    FEED},
                      [FEED_DONE] = {"FEED_DONE", BATCHES, FEED},
                      [FEED_GONE] = {"FEED_GONE", BATCHES, FEED}},
    [SERVICE_GOSSIP] =
        {[GOSSIP_OFFER] = {"GOSSIP_OFFER", ROWS, GOSSIP}, [GOSSIP_ANSWER] = {"GOSSIP_ANSWER", ROWS, GOSSIP}},
};

const struct layout *peer_layout(const struct message_peer *peer) {
    bool there =
        peer->service < SERVICES && peer->kind < PEER_KINDS_MAX && LAYOUTS[peer->service][peer->kind].name != NULL;
    return there ? &LAYOUTS[peer->service][peer->kind] : NULL;
}

const char *peer_name(unsigned service, unsigned kind) {
    const struct message_peer peer = {.service = (uint8_t)service, .kind = (uint8_t)kind};
    const struct layout *layout = service <= UINT8_MAX && kind <= UINT8_MAX ? peer_layout(&peer) : NULL;
    return layout != NULL ? layout->name : "unknown";
}
