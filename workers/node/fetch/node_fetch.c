/* Asks other nodes for data shards, and gives them. See node_fetch.h and node_private.h. */
#include "workers/node/fetch/node_fetch.h"

#include "agileml/base/memory.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct message fetch_message(enum fetch_kind kind, uint64_t claim) {
    return (struct message){.type = MESSAGE_PEER,
                            .peer = {.service = SERVICE_FETCH, .kind = (uint8_t)kind, .fetch.claim = claim}};
}

/* ---- The node that gives ---- */

static struct buffer *packed_shard(struct node *node, uint32_t shard) {
    struct node_fetch *fetch = node_fetch(node);
    const struct node_hooks *hooks = &node->options.hooks;
    for (unsigned p = 0; p < NODE_FETCH_PACKED; p++) {
        if (fetch->packed[p].bytes != NULL && fetch->packed[p].shard == shard) {
            return fetch->packed[p].bytes;
        }
    }
    struct buffer *bytes = hooks->pack(hooks->context, shard);
    if (bytes != NULL) {
        struct fetch_packed *place = &fetch->packed[fetch->packed_next++ % NODE_FETCH_PACKED];
        buffer_drop(place->bytes);
        *place = (struct fetch_packed){.shard = shard, .bytes = bytes};
    }
    return bytes;
}

static void packed_drop(struct node *node, uint32_t shard) {
    for (unsigned p = 0; p < NODE_FETCH_PACKED; p++) {
        struct fetch_packed *place = &node_fetch(node)->packed[p];
        if (place->bytes != NULL && place->shard == shard) {
            buffer_drop(place->bytes);
            place->bytes = NULL;
        }
    }
}

/* Returns whether this node may give its shards: its input was compared with the job's and found equal. */
static bool may_give(const struct node *node) {
    return node->options.fetches && node_input_is_compared(node);
}

static void answer_holdings(struct node *node, actor_id server, const struct message *question) {
    const struct node_hooks *hooks = &node->options.hooks;
    size_t count;
    const uint32_t *shards = peer_shards(question, &count);
    struct buffer *has = buffer_new(count * sizeof *shards);
    has->size = 0;
    for (size_t s = 0; s < count && may_give(node); s++) {
        if (shards[s] < node->plan.terms.shards && hooks->has(hooks->context, shards[s])) {
            memcpy(has->data + has->size, &shards[s], sizeof shards[s]);
            has->size += sizeof shards[s];
        }
    }
    struct message answer = fetch_message(FETCH_HOLDINGS, question->peer.fetch.claim);
    message_add(&answer, has);
    node_send_by(node, server, question->peer.sender, &answer);
}

static size_t piece_bytes(const struct node *node) {
    return node->options.fetch_piece != 0 ? node->options.fetch_piece : WIRE_SHARD_PIECE_MAX;
}

bool node_add_piece(const struct node *node, const struct buffer *bytes, uint64_t offset, struct message *answer) {
    assert(offset < bytes->size);
    size_t left = bytes->size - offset;
    size_t piece = piece_bytes(node);
    message_add_copy(answer, bytes->data + offset, left < piece ? left : piece);
    return left <= piece;
}

static void answer_ask(struct node *node, actor_id server, const struct message *question) {
    const struct peer_fetch *asked = &question->peer.fetch;
    struct buffer *bytes =
        may_give(node) && asked->shard < node->plan.terms.shards ? packed_shard(node, asked->shard) : NULL;
    bool there = bytes != NULL && asked->offset < bytes->size;
    struct message answer = fetch_message(there ? FETCH_PIECE : FETCH_GONE, asked->claim);
    answer.peer.fetch.shard = asked->shard;
    answer.peer.fetch.offset = asked->offset;
    answer.peer.fetch.size = there ? bytes->size : 0;
    if (there && node_add_piece(node, bytes, asked->offset, &answer)) {
        node_fetch(node)->given++;
        packed_drop(node, asked->shard);
    }
    node_send_by(node, server, question->peer.sender, &answer);
}

/* ---- The node that asks ---- */

/* When the answer to a question is overdue. */
static uint64_t overdue_us(const struct node *node, uint64_t asked_us) {
    return asked_us + node_timeout_us(node);
}

static void way_end(struct fetch_way *way) {
    free(way->bytes);
    *way = (struct fetch_way){0};
}

static void fetch_end(struct node_fetch *fetch) {
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        way_end(&fetch->ways[w]);
    }
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        buffer_drop(fetch->holders[h].has);
    }
    free(fetch->holders);
    free(fetch->lacks);
    fetch->holders = NULL;
    fetch->holder_count = 0;
    fetch->lacks = NULL;
    fetch->state = FETCH_NONE;
}

static void fetch_close(struct node *node) {
    fetch_end(node_fetch(node));
    for (unsigned p = 0; p < NODE_FETCH_PACKED; p++) {
        buffer_drop(node_fetch(node)->packed[p].bytes);
    }
}

/* Lists the other nodes of the plan that have a server. */
static void find_holders(struct node *node) {
    struct node_fetch *fetch = node_fetch(node);
    const struct plan_view *plan = &node->plan;
    fetch->holders = memory_zeroed(plan->endpoint_count + 1, sizeof *fetch->holders);
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        actor_id server = plan->endpoints[e].actor;
        bool known = actor_node(server) == node->options.self || actor_is_pulse(server);
        for (unsigned h = 0; h < fetch->holder_count && !known; h++) {
            known = fetch->holders[h].node == actor_node(server);
        }
        if (!known) {
            fetch->holders[fetch->holder_count++] = (struct fetch_holder){.node = actor_node(server), .server = server};
        }
    }
}

/* Returns whether another node may have data in memory: it has work by this plan, and this is not the first plan. */
static bool others_may_have_data(const struct node *node) {
    for (size_t d = 0; d < node->plan.assignment_count; d++) {
        const struct wire_assignment *assignment = &node->plan.assignments[d];
        if (actor_node(assignment->origin) != node->options.self && assignment->from_clock != WIRE_CLOCK_NEVER) {
            return node->plan.terms.version > 1;
        }
    }
    return false;
}

/* Asks the holders that have not answered which of the lacking shards they have. A server passes nothing on to or from
 * a node that is not in its plan yet, so the question is repeated. */
static void ask_for_holdings(struct node *node) {
    struct node_fetch *fetch = node_fetch(node);
    uint32_t *lacking = memory_resized(NULL, node->plan.terms.shards + NODE_FETCH_WAYS, sizeof *lacking);
    uint32_t count = 0;
    for (uint32_t s = 0; s < node->plan.terms.shards; s++) {
        lacking[count] = s;
        count += fetch->lacks[s] != 0 ? 1 : 0;
    }
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) { /* they may have to be taken from another holder */
        lacking[count] = fetch->ways[w].shard;
        count += fetch->ways[w].busy ? 1 : 0;
    }
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        if (!fetch->holders[h].answered) {
            struct message question = fetch_message(FETCH_ASK_HOLDINGS, fetch->asked);
            message_add_copy(&question, lacking, count * sizeof *lacking);
            node_send_by(node, fetch->holders[h].server, fetch->holders[h].node, &question);
        }
    }
    free(lacking);
    fetch->again_us = node_ask_again_us(node, fetch->asked_us);
}

/* Checks that each holder's number of shards on their way is that of its ways. */
static void check_ways(const struct node_fetch *fetch) {
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        unsigned asked = 0;
        for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
            asked += fetch->ways[w].busy && fetch->ways[w].holder == h ? 1 : 0;
        }
        assert(asked == fetch->holders[h].asked);
    }
}

static bool fetch_begin(struct node *node, const struct node_set *set) {
    struct node_fetch *fetch = node_fetch(node);
    const struct node_hooks *hooks = &node->options.hooks;
    assert(fetch->state == FETCH_NONE || node_set_find(node, fetch->set) == NULL);
    fetch_end(fetch);
    if (!node->options.fetches || !others_may_have_data(node)) {
        return false;
    }
    uint32_t *lacking = memory_resized(NULL, set->count, sizeof *lacking);
    uint32_t count = hooks->lacks(hooks->context, set, lacking);
    if (count > 0) {
        find_holders(node);
        fetch->state = FETCH_TAKING;
        fetch->set = set->number;
        fetch->lacks = memory_zeroed(node->plan.terms.shards, 1);
        for (uint32_t l = 0; l < count; l++) {
            fetch->lacks[lacking[l]] = 1;
        }
        fetch->asked = ++fetch->claim;
        fetch->asked_us = node_now(node);
        ask_for_holdings(node);
    }
    free(lacking);
    return count > 0;
}

static void ask_for_piece(struct node *node, struct fetch_way *way) {
    assert(way->busy && way->holder < node_fetch(node)->holder_count);
    const struct fetch_holder *holder = &node_fetch(node)->holders[way->holder];
    way->claim = ++node_fetch(node)->claim;
    way->asked_us = node_now(node);
    struct message question = fetch_message(FETCH_ASK, way->claim);
    question.peer.fetch.shard = way->shard;
    question.peer.fetch.offset = way->got;
    node_send_by(node, holder->server, holder->node, &question);
}

/* Drops a holder that has not answered in time, or has answered wrongly. Another holder then gives its shard. */
static void holder_drop(struct node *node, unsigned number) {
    struct node_fetch *fetch = node_fetch(node);
    struct fetch_holder *holder = &fetch->holders[number];
    buffer_drop(holder->has);
    holder->has = NULL;
    holder->answered = true;
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        if (fetch->ways[w].busy && fetch->ways[w].holder == number) {
            assert(holder->asked > 0);
            fetch->lacks[fetch->ways[w].shard] = 1;
            holder->asked--;
            way_end(&fetch->ways[w]);
            for (unsigned h = 0; h < fetch->holder_count; h++) {
                fetch->holders[h].next = 0;
            }
        }
    }
    check_ways(fetch);
}

/* Returns whether to ask the holder for a further shard. A node with work asks for at most a piece's bytes at once, as
 * a PUSH to it may have to wait for them. A larger shard comes alone: its holder keeps few packed shards. */
static bool holder_has_room(const struct node *node, const struct fetch_holder *holder) {
    uint64_t piece = piece_bytes(node);
    uint64_t most = node->client.joins ? NODE_FETCH_AHEAD * piece : piece;
    bool small = holder->largest > 0 && holder->largest <= piece;
    return holder->asked == 0 || (small && (holder->asked + UINT64_C(1)) * holder->largest <= most);
}

/* Finds a shard that is lacking and that the holder has. */
static bool find_lacking(const struct node *node, struct fetch_holder *holder, uint32_t *shard) {
    size_t count = holder->has != NULL ? holder->has->size / sizeof *shard : 0;
    for (; holder->next < count; holder->next++) {
        memcpy(shard, holder->has->data + holder->next * sizeof *shard, sizeof *shard);
        if (*shard < node->plan.terms.shards && node_fetch(node)->lacks[*shard] != 0) {
            return true;
        }
    }
    return false;
}

/* Finds a holder with the fewest shards on their way, and a lacking shard to request from it. */
static bool find_holder(const struct node *node, unsigned *holder, uint32_t *shard) {
    const struct node_fetch *fetch = node_fetch(node);
    unsigned asked = 0; /* holders */
    bool found = false;
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        asked += fetch->holders[h].asked > 0 ? 1 : 0;
    }
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        struct fetch_holder *other = &fetch->holders[h];
        bool may = other->asked > 0 || asked < NODE_FETCH_HOLDERS;
        uint32_t lacking;
        if (may && (!found || other->asked < fetch->holders[*holder].asked) && holder_has_room(node, other) &&
            find_lacking(node, other, &lacking)) {
            found = true;
            *holder = h;
            *shard = lacking;
        }
    }
    return found;
}

/* Asks holders for shards that are lacking. Returns whether any shard is on its way. */
static bool take_more(struct node *node) {
    struct node_fetch *fetch = node_fetch(node);
    bool busy = false;
    bool more = true;
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        struct fetch_way *way = &fetch->ways[w];
        unsigned holder = 0;
        uint32_t shard = 0;
        more = more && (way->busy || find_holder(node, &holder, &shard));
        if (more && !way->busy) {
            *way = (struct fetch_way){.busy = true, .holder = holder, .shard = shard};
            assert(fetch->lacks[shard] == 1);
            fetch->holders[holder].asked++;
            fetch->lacks[shard] = 0;
            ask_for_piece(node, way);
        }
        busy = busy || way->busy;
    }
    return busy;
}

/* Returns whether to wait for holders that have not answered yet, since they may have a lacking shard. A busy node
 * answers late, so the wait is as long as for a piece. Reading the whole input would take longer. */
static bool waits_for_answers(const struct node *node) {
    const struct node_fetch *fetch = node_fetch(node);
    if (fetch->state == FETCH_NONE || node_now(node) >= overdue_us(node, fetch->asked_us) ||
        memchr(fetch->lacks, 1, node->plan.terms.shards) == NULL) {
        return false;
    }
    for (unsigned h = 0; h < fetch->holder_count; h++) {
        if (!fetch->holders[h].answered) {
            return true;
        }
    }
    return false;
}

static uint64_t fetch_due_us(const struct node *node) {
    const struct node_fetch *fetch = node_fetch(node);
    uint64_t due_us = UINT64_MAX;
    if (waits_for_answers(node)) {
        due_us = overdue_us(node, fetch->asked_us);
        due_us = fetch->again_us < due_us ? fetch->again_us : due_us;
    }
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        uint64_t way_us = fetch->ways[w].busy ? overdue_us(node, fetch->ways[w].asked_us) : UINT64_MAX;
        due_us = way_us < due_us ? way_us : due_us;
    }
    return due_us;
}

static unsigned fetched(struct node *node) {
    struct node_fetch *fetch = node_fetch(node);
    uint64_t now = node_now(node);
    if (fetch->state == FETCH_NONE) {
        return 0;
    }
    if (node_set_find(node, fetch->set) == NULL) {
        fetch_end(fetch);
        return 0;
    }
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        if (fetch->ways[w].busy && now >= overdue_us(node, fetch->ways[w].asked_us)) {
            holder_drop(node, fetch->ways[w].holder);
        }
    }
    bool busy = take_more(node);
    bool waits = waits_for_answers(node);
    if (waits && now >= fetch->again_us) {
        ask_for_holdings(node);
    }
    if (busy || waits) {
        return 0;
    }
    unsigned number = fetch->set;
    fetch_end(fetch);
    return number;
}

/* Adds a piece, and unpacks the shard when it is whole. Returns false if the holder's answer is impossible. */
static bool take_piece(struct node *node, struct fetch_way *way, const struct message *message) {
    const struct node_hooks *hooks = &node->options.hooks;
    const struct peer_fetch *piece = &message->peer.fetch;
    size_t size = message->peer.kind == FETCH_PIECE ? message->frames[RECORDS_FRAME]->size : 0;
    if (piece->shard != way->shard || piece->offset != way->got || size == 0 || size > piece->size ||
        way->got > piece->size - size) {
        return false;
    }
    way->bytes = memory_resized(way->bytes, way->got + size, 1);
    memcpy(way->bytes + way->got, message->frames[RECORDS_FRAME]->data, size);
    way->got += size;
    if (way->got < piece->size) {
        ask_for_piece(node, way);
        return true;
    }
    if (!hooks->unpack(hooks->context, way->shard, way->bytes, way->got)) {
        return false;
    }
    struct fetch_holder *holder = &node_fetch(node)->holders[way->holder];
    assert(holder->asked > 0);
    holder->largest = way->got > holder->largest ? way->got : holder->largest;
    holder->asked--;
    node_fetch(node)->taken++;
    way_end(way);
    return true;
}

static void receive_piece(struct node *node, const struct message *message) {
    struct node_fetch *fetch = node_fetch(node);
    for (unsigned w = 0; w < NODE_FETCH_WAYS; w++) {
        struct fetch_way *way = &fetch->ways[w];
        if (way->busy && way->claim == message->peer.fetch.claim &&
            fetch->holders[way->holder].node == message->peer.sender && !take_piece(node, way, message)) {
            holder_drop(node, way->holder);
        }
    }
}

static void receive_holdings(struct node *node, const struct message *message) {
    struct node_fetch *fetch = node_fetch(node);
    for (unsigned h = 0; h < fetch->holder_count && message->peer.fetch.claim == fetch->asked; h++) {
        struct fetch_holder *holder = &fetch->holders[h];
        if (holder->node == message->peer.sender && !holder->answered) {
            holder->answered = true;
            holder->has = buffer_hold(message->frames[RECORDS_FRAME]);
        }
    }
}

static void fetch_receive(struct node *node, actor_id from, bool answer, struct message *message) {
    enum fetch_kind kind = message->peer.kind;
    if (!answer && kind == FETCH_ASK_HOLDINGS) {
        answer_holdings(node, from, message);
    } else if (!answer && kind == FETCH_ASK) {
        answer_ask(node, from, message);
    } else if (answer && kind == FETCH_HOLDINGS) {
        receive_holdings(node, message);
    } else if (answer && (kind == FETCH_PIECE || kind == FETCH_GONE)) {
        receive_piece(node, message);
    }
}

static void fetch_report(const struct node *node, struct node_numbers *numbers) {
    numbers->shards_taken = node_fetch(node)->taken;
}

const struct node_service NODE_FETCH = {.state_bytes = sizeof(struct node_fetch),
                                        .any_epoch = true,
                                        .close = fetch_close,
                                        .due_us = fetch_due_us,
                                        .receive = fetch_receive,
                                        .report = fetch_report,
                                        .fetch = fetch_begin,
                                        .fetched = fetched};
