/* Divides the input among the first plan's nodes, and takes and gives pieces of shards. See node_parts.h and
 * node_private.h. */
#include "workers/node/parts/node_parts.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "workers/node/fetch/node_fetch.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- The division ---- */

static void add_reader(struct node_parts *parts, actor_id node, actor_id server) {
    for (uint32_t r = 0; r < parts->count; r++) {
        if (parts->readers[r].node == node) {
            return;
        }
    }
    parts->readers[parts->count++] = (struct parts_reader){.node = node, .server = server};
}

/* The first plan of a job is the same for all its nodes. A node that gets another plan first has no part. */
static void parts_plan(struct node *node, bool new_epoch) {
    struct node_parts *parts = node_parts(node);
    const struct plan_view *plan = &node->plan;
    bool own = false;
    (void)new_epoch;
    if (plan->terms.version != 1 || !node->options.fetches) {
        return;
    }
    parts->readers = memory_zeroed(plan->assignment_count + 1, sizeof *parts->readers);
    for (size_t a = 0; a < plan->assignment_count; a++) {
        actor_id reader = actor_node(plan->assignments[a].origin);
        if (plan->assignments[a].from_clock == plan->terms.restore + 1) {
            add_reader(parts, reader, node_server_of(node, reader));
        }
    }
    for (uint32_t r = 0; r < parts->count; r++) {
        if (parts->readers[r].node == node->options.self) {
            own = true;
            parts->index = r;
        }
    }
    parts->count = own && parts->count > 1 ? parts->count : 0;
    assert(parts->count == 0 || parts->readers[parts->index].node == node->options.self);
}

static void way_end(struct parts_way *way) {
    free(way->shards);
    free(way->bytes);
    *way = (struct parts_way){0};
}

static void parts_close(struct node *node) {
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        way_end(&node_parts(node)->ways[w]);
    }
    for (unsigned p = 0; p < NODE_PARTS_PACKED; p++) {
        buffer_drop(node_parts(node)->packed[p].bytes);
    }
    free(node_parts(node)->readers);
}

/* ---- The node that gives ---- */

static struct buffer *packed_pieces(struct node *node, actor_id asker, const struct message *question) {
    struct node_parts *parts = node_parts(node);
    const struct node_hooks *hooks = &node->options.hooks;
    size_t count;
    const uint32_t *shards = peer_shards(question, &count);
    uint64_t digest = hash_bytes((const unsigned char *)shards, count * sizeof *shards, count * sizeof *shards);
    bool good = count > 0;
    for (unsigned p = 0; p < NODE_PARTS_PACKED && question->peer.parts.offset > 0; p++) {
        if (parts->packed[p].bytes != NULL && parts->packed[p].node == asker && parts->packed[p].digest == digest) {
            return parts->packed[p].bytes;
        }
    }
    for (size_t s = 0; s < count; s++) {
        good = good && shards[s] < node->plan.terms.shards;
    }
    struct buffer *bytes =
        good ? hooks->pack_pieces(hooks->context, shards, (uint32_t)count, NODE_PARTS_PACKED_BYTES) : NULL;
    if (bytes != NULL) {
        struct parts_packed *place = &parts->packed[parts->packed_next++ % NODE_PARTS_PACKED];
        buffer_drop(place->bytes);
        *place = (struct parts_packed){.node = asker, .digest = digest, .bytes = bytes};
    }
    return bytes;
}

static void packed_drop(struct node_parts *parts, const struct buffer *bytes) {
    for (unsigned p = 0; p < NODE_PARTS_PACKED; p++) {
        if (parts->packed[p].bytes == bytes) {
            buffer_drop(parts->packed[p].bytes);
            parts->packed[p] = (struct parts_packed){0};
        }
    }
}

static void answer_ask(struct node *node, actor_id server, const struct message *question) {
    struct node_parts *parts = node_parts(node);
    const struct peer_parts *asked = &question->peer.parts;
    bool ours = parts->count > 0 && asked->parts == parts->count && asked->part == parts->index;
    struct buffer *bytes = ours && parts->read ? packed_pieces(node, question->peer.sender, question) : NULL;
    bool there = bytes != NULL && asked->offset < bytes->size;
    struct message answer = {.type = MESSAGE_PEER, .peer = {.service = SERVICE_PARTS, .parts = *asked}};
    answer.peer.kind = there ? PARTS_PIECE : ours && !parts->read ? PARTS_LATER : PARTS_GONE;
    answer.peer.parts.size = there ? bytes->size : 0;
    if (there && node_add_piece(node, bytes, asked->offset, &answer)) {
        packed_drop(parts, bytes);
    }
    node_send_by(node, server, question->peer.sender, &answer);
}

/* ---- The node that asks ---- */

/* Changes the state as drawn in node_parts.h. */
static void parts_become(struct node_parts *parts, enum node_parts_state state) {
    static const unsigned legal[] = {[PARTS_NONE] = 1 << PARTS_READING | 1 << PARTS_TAKING,
                                     [PARTS_READING] = 1 << PARTS_TAKING | 1 << PARTS_NONE,
                                     [PARTS_TAKING] = 1 << PARTS_NONE};
    assert((legal[parts->state] >> state & 1) != 0);
    parts->state = state;
}

/* Ends the taking for the present set. */
static void give_up(struct node_parts *parts) {
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        way_end(&parts->ways[w]);
    }
    parts->set = 0;
    if (parts->state == PARTS_TAKING) {
        parts_become(parts, PARTS_NONE);
    }
}

static bool parts_fetch(struct node *node, const struct node_set *set) {
    struct node_parts *parts = node_parts(node);
    const struct node_hooks *hooks = &node->options.hooks;
    assert(parts->state == PARTS_NONE || (parts->state == PARTS_TAKING && node_set_find(node, parts->set) == NULL));
    give_up(parts);
    if (parts->count == 0) {
        return false;
    }
    uint32_t *lacking = memory_resized(NULL, set->count, sizeof *lacking);
    uint32_t count = hooks->lacks(hooks->context, set, lacking);
    free(lacking);
    if (count == 0) {
        return false;
    }
    assert(set->number != 0 && parts->index < parts->count);
    parts->set = set->number;
    parts_become(parts, parts->read ? PARTS_TAKING : PARTS_READING);
    for (uint32_t r = 0; r < parts->count; r++) {
        parts->readers[r].failed = r == parts->index;
    }
    parts->left = parts->count - 1;
    if (!parts->read) {
        parts->began_us = node_now(node);
        node->work.reading = true;
        hooks->read_part(hooks->context, parts->index, parts->count);
    }
    return true;
}

void node_part_read(struct node *node, bool divided) {
    struct node_parts *parts = node_parts(node);
    if (node->ended) {
        return;
    }
    assert(parts->state == PARTS_READING && !parts->read);
    node->work.reading = false;
    parts->read = true;
    parts->count = divided ? parts->count : 0;
    parts->read_us = node_now(node) - parts->began_us;
    parts_become(parts, parts->set != 0 ? PARTS_TAKING : PARTS_NONE);
    node_wake(node);
}

/* Asks for the pieces that the way lacks, or for the rest of pieces that have begun to come. `repeats`: sends the same
 * question again, as a node without a plan, at the beginning of a job, answers nothing. */
static void ask(struct node *node, struct parts_way *way, bool repeats) {
    struct node_parts *parts = node_parts(node);
    assert(way->busy && way->count > 0 && way->part < parts->count && way->part != parts->index);
    const struct parts_reader *reader = &parts->readers[way->part];
    struct message question = {.type = MESSAGE_PEER, .peer = {.service = SERVICE_PARTS, .kind = PARTS_ASK}};
    if (!repeats) {
        way->claim = ++parts->claim;
        way->asked_us = node_now(node);
    }
    way->later = false;
    way->due_us = reader->heard ? node_now(node) + node_timeout_us(node) / NODE_PARTS_ASKS
                                : node_ask_again_us(node, way->asked_us);
    question.peer.parts =
        (struct peer_parts){.claim = way->claim, .part = way->part, .parts = parts->count, .offset = way->got};
    message_add_copy(&question, way->shards, way->count * sizeof *way->shards);
    node_send_by(node, reader->server, reader->node, &question);
}

/* Asks the reader of the part no more for this set. */
static void reader_leave(struct node_parts *parts, uint32_t part) {
    assert(!parts->readers[part].failed && parts->left > 0);
    parts->readers[part].failed = true;
    parts->left--;
}

/* Gives up the way. Our own process then reads what its reader has. */
static void way_fail(struct node_parts *parts, struct parts_way *way) {
    reader_leave(parts, way->part);
    way_end(way);
}

static bool part_is_asked(const struct node_parts *parts, uint32_t part) {
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        if (parts->ways[w].busy && parts->ways[w].part == part) {
            return true;
        }
    }
    return false;
}

/* Begins to ask the reader of a part, if the set lacks something of it. */
static void way_begin(struct node *node, struct parts_way *way, const struct node_set *set, uint32_t part) {
    const struct node_hooks *hooks = &node->options.hooks;
    uint32_t *shards = memory_resized(NULL, set->count, sizeof *shards);
    uint32_t count = hooks->lacks_pieces(hooks->context, set, part, shards);
    if (count == 0) {
        free(shards);
        reader_leave(node_parts(node), part); /* nothing more is wanted of it */
        return;
    }
    *way = (struct parts_way){.busy = true, .part = part, .shards = shards, .count = count};
    way->since_us = node_now(node);
    ask(node, way, false);
}

/* Asks idle readers, beginning with the one after us, so that not all nodes ask the same reader. False: nothing is on
 * its way. */
static bool take_more(struct node *node, const struct node_set *set) {
    struct node_parts *parts = node_parts(node);
    uint32_t busy = 0;
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        busy += parts->ways[w].busy ? 1 : 0;
    }
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        struct parts_way *way = &parts->ways[w];
        for (uint32_t r = 1; r < parts->count && !way->busy && parts->left > busy; r++) {
            uint32_t part = (parts->index + r) % parts->count;
            if (!parts->readers[part].failed && !part_is_asked(parts, part)) {
                way_begin(node, way, set, part);
                busy += way->busy ? 1 : 0;
            }
        }
    }
    return busy > 0;
}

/* Ends ways to nodes that are lost, silent, or too late. Repeats questions to nodes that had not read their part
 * yet. */
static void look_after_ways(struct node *node) {
    struct node_parts *parts = node_parts(node);
    uint64_t now = node_now(node);
    uint64_t patience_us = parts->read_us * NODE_PARTS_PATIENCE_TIMES;
    patience_us = patience_us < NODE_PARTS_PATIENCE_US ? NODE_PARTS_PATIENCE_US : patience_us;
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        struct parts_way *way = &parts->ways[w];
        if (!way->busy) {
            continue;
        }
        bool planned = way->version == node->plan.terms.version; /* then its reader was found in this plan */
        bool lost = !planned && node_server_of(node, parts->readers[way->part].node) == ACTOR_NONE;
        way->version = node->plan.terms.version;
        bool late = way->later ? now - way->since_us >= patience_us : now - way->asked_us >= node_timeout_us(node);
        if (lost || late) {
            way_fail(parts, way);
        } else if (now >= way->due_us) {
            ask(node, way, !way->later);
        }
    }
}

static uint64_t parts_due_us(const struct node *node) {
    uint64_t due_us = UINT64_MAX;
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        const struct parts_way *way = &node_parts(node)->ways[w];
        due_us = way->busy && way->due_us < due_us ? way->due_us : due_us;
    }
    return due_us;
}

static unsigned parts_fetched(struct node *node) {
    struct node_parts *parts = node_parts(node);
    const struct node_set *set = node_set_find(node, parts->set);
    if (set == NULL) {
        give_up(parts);
    }
    if (parts->state != PARTS_TAKING) {
        return 0;
    }
    look_after_ways(node);
    if (take_more(node, set)) {
        return 0;
    }
    give_up(parts);
    return set->number;
}

/* Adds the bytes that have come, and hands them over when they are complete. False: the reader's answer is
 * impossible. */
static bool take(struct node *node, struct parts_way *way, const struct message *message) {
    const struct node_hooks *hooks = &node->options.hooks;
    const struct peer_parts *piece = &message->peer.parts;
    size_t size = message->peer.kind == PARTS_PIECE ? message->frames[RECORDS_FRAME]->size : 0;
    if (message->peer.kind == PARTS_LATER) {
        way->later = true;
        way->due_us = node_now(node) + NODE_PARTS_LATER_US;
        return true;
    }
    if (piece->part != way->part || piece->offset != way->got || size == 0 || size > piece->size ||
        way->got > piece->size - size) {
        return false;
    }
    way->bytes = memory_resized(way->bytes, way->got + size, 1);
    memcpy(way->bytes + way->got, message->frames[RECORDS_FRAME]->data, size);
    way->got += size;
    if (way->got < piece->size) {
        ask(node, way, false);
        return true;
    }
    if (!hooks->take_pieces(hooks->context, way->part, way->shards, way->count, way->bytes, way->got)) {
        return false;
    }
    way_end(way); /* take_more asks for what is still lacking */
    return true;
}

static void receive_pieces(struct node *node, const struct message *message) {
    struct node_parts *parts = node_parts(node);
    for (unsigned w = 0; w < NODE_PARTS_WAYS; w++) {
        struct parts_way *way = &parts->ways[w];
        if (way->busy && !way->later && way->claim == message->peer.parts.claim &&
            parts->readers[way->part].node == message->peer.sender) {
            parts->readers[way->part].heard = true;
            if (!take(node, way, message)) {
                way_fail(parts, way);
            }
        }
    }
}

static void parts_receive(struct node *node, actor_id from, bool answer, struct message *message) {
    if (answer && message->peer.kind != PARTS_ASK) {
        receive_pieces(node, message);
    } else if (!answer && message->peer.kind == PARTS_ASK) {
        answer_ask(node, from, message);
    }
}

/* All nodes have their data: the process keeps its part only if it has room. */
static void parts_hear(struct node *node, const struct message *message) {
    if (message->type == MESSAGE_START && node_parts(node)->count > 0) {
        node->options.hooks.settle(node->options.hooks.context);
    }
}

const struct node_service NODE_PARTS = {.state_bytes = sizeof(struct node_parts),
                                        .any_epoch = true,
                                        .close = parts_close,
                                        .plan = parts_plan,
                                        .due_us = parts_due_us,
                                        .receive = parts_receive,
                                        .hear = parts_hear,
                                        .fetch = parts_fetch,
                                        .fetched = parts_fetched};
