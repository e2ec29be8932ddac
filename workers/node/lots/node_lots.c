/* Lots: this node's own, and those of other nodes that it may do. See node_lots.h and node_private.h. */
#include "workers/node/lots/node_lots.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/wire/rows.h"
#include "workers/data/lots.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool lot_move(struct node_lot *lot, enum node_lot_state from, enum node_lot_state to) {
    unsigned char expected = (unsigned char)from;
    return atomic_compare_exchange_strong(&lot->state, &expected, (unsigned char)to);
}

int node_lot_take(const struct node *node) {
    struct own_lots *lots = &node_lots(node)->own;
    for (unsigned l = 0; l < lots->count; l++) {
        if (lot_move(&lots->lots[l], LOT_FREE, LOT_OURS)) {
            return (int)l;
        }
    }
    return -1;
}

static struct message lot_message(enum lot_kind kind, const struct peer_lot *lot) {
    return (struct message){.type = MESSAGE_PEER,
                            .peer = {.service = SERVICE_LOTS, .kind = (uint8_t)kind, .lot = *lot}};
}

/* Drops the result of a lot, if it has come. */
static void drop_result(struct node_lot *lot) {
    if (lot->changes.type != 0) {
        message_close(&lot->changes);
        lot->changes = (struct message){0};
    }
}

static void lots_close(struct node *node) {
    for (unsigned l = 0; l < WIRE_LOTS_MAX; l++) {
        drop_result(&node_lots(node)->own.lots[l]);
    }
    free(node_lots(node)->help.list);
}

static uint64_t lot_digest(const struct node_set *set, unsigned lots, unsigned lot) {
    uint32_t first = lots_slice_first(set->count, lots, 1 + lot);
    uint32_t end = lots_slice_first(set->count, lots, 2 + lot);
    return hash_bytes((const unsigned char *)(set->shards + first), (end - first) * sizeof *set->shards, 0);
}

/* Changes the state of a request for a lot as drawn in node_lots.h. */
static void help_become(struct node_help *help, enum node_help_state state) {
    static const unsigned legal[] = {[HELP_NONE] = 1 << HELP_ASKED,
                                     [HELP_ASKED] = 1 << HELP_NONE | 1 << HELP_RUNNING,
                                     [HELP_RUNNING] = 1 << HELP_NONE};
    assert((legal[help->state] >> state & 1) != 0);
    help->state = state;
}

/* ---- The owner ---- */

/* Ends a request for a lot, as this node has work of its own: an answer now comes too late. */
static void end_asking(struct node *node) {
    if (node_lots(node)->help.state == HELP_ASKED) {
        help_become(&node_lots(node)->help, HELP_NONE);
    }
}

static void lots_begin(struct node *node) {
    struct own_lots *lots = &node_lots(node)->own;
    const struct node_set *set = &node->work.sets[node->work.assignment.set];
    bool own = node->work.assignment.origin == node->options.self && !node->client.part.alone;
    lots->count = own ? lots_count(set->count, node->options.lots) : 0;
    lots->computed = false;
    end_asking(node);
    for (unsigned l = 0; l < WIRE_LOTS_MAX; l++) {
        drop_result(&lots->lots[l]);
        memset(lots->lots[l].metrics, 0, sizeof lots->lots[l].metrics);
        atomic_store(&lots->lots[l].state, LOT_FREE);
    }
}

static uint64_t lots_due_us(const struct node *node) {
    const struct own_lots *lots = &node_lots(node)->own;
    bool waits = node->work.activity == NODE_COMPUTING && lots->count > 0 && lots->computed;
    return waits ? lots->computed_us + NODE_LOTS_WAIT_US + node->work.compute_us / 2 : UINT64_MAX;
}

/* Returns whether this node takes back a lot that it gave away: the result is late, or of another epoch. */
static bool is_overdue(const struct node *node, const struct node_lot *lot) {
    return lot->epoch != node->client.epoch || node->client.fenced || node_now(node) >= lots_due_us(node);
}

static bool lots_advance(struct node *node) {
    struct own_lots *lots = &node_lots(node)->own;
    const struct node_hooks *hooks = &node->options.hooks;
    unsigned left = 0;
    unsigned out = 0;
    assert(node->client.lot.under_way == (node_lots(node)->help.state == HELP_RUNNING));
    assert(lots->count <= WIRE_LOTS_MAX && lots->done <= lots->given);
    if (node->work.activity != NODE_COMPUTING || lots->count == 0 || !lots->computed) {
        return false;
    }
    for (unsigned l = 0; l < lots->count; l++) {
        struct node_lot *lot = &lots->lots[l];
        if (atomic_load(&lot->state) == LOT_GIVEN && lot->changes.type != 0) {
            bool added = client_add_lot(&node->client, &lot->changes);
            node->work.helped += added ? lot->changes.peer.lot.items : 0;
            lots->done += added ? 1 : 0;
            atomic_store(&lot->state, added ? LOT_THEIRS : LOT_FREE);
            drop_result(lot);
        } else if (atomic_load(&lot->state) == LOT_GIVEN && is_overdue(node, lot)) {
            atomic_store(&lot->state, LOT_FREE);
        }
        left += atomic_load(&lot->state) == LOT_FREE ? 1 : 0;
        out += atomic_load(&lot->state) == LOT_GIVEN ? 1 : 0;
    }
    if (left > 0) {
        lots->computed = false;
        hooks->compute_lots(hooks->context, node->work.sets[node->work.assignment.set].number, node->work.clock);
        return true;
    }
    if (out > 0) {
        return false;
    }
    assert(node->work.helped == 0 || lots->done > 0);
    lots->count = 0; /* no lot can be asked for any more */
    hooks->gather(hooks->context);
    return true;
}

static bool lots_computed(struct node *node) {
    struct own_lots *lots = &node_lots(node)->own;
    lots->computed = lots->count > 0;
    lots->computed_us = node_now(node);
    return lots->computed;
}

void node_lots_add_metrics(const struct node *node, struct wire_metric_sum *sums) {
    for (unsigned l = 0; l < WIRE_LOTS_MAX; l++) {
        const struct node_lot *lot = &node_lots(node)->own.lots[l];
        for (unsigned m = 0; m < node->options.metric_count && atomic_load(&lot->state) == LOT_THEIRS; m++) {
            sums[m].sum += lot->metrics[m].sum;
            sums[m].weight += lot->metrics[m].weight;
        }
    }
}

static bool may_give(const struct node *node, const struct peer_lot *asked) {
    const struct own_lots *lots = &node_lots(node)->own;
    const struct node_set *set = &node->work.sets[node->work.assignment.set];
    return node->work.activity == NODE_COMPUTING && asked->lot < lots->count && asked->clock == node->work.clock &&
           asked->digest == lot_digest(set, lots_count(set->count, node->options.lots), asked->lot);
}

static void receive_ask(struct node *node, actor_id server, const struct message *question) {
    const struct peer_lot *asked = &question->peer.lot;
    struct node_lot *lot = &node_lots(node)->own.lots[asked->lot];
    bool given = may_give(node, asked) && lot_move(lot, LOT_FREE, LOT_GIVEN);
    if (given) {
        drop_result(lot);
        lot->helper = question->peer.sender;
        lot->claim = asked->claim;
        lot->epoch = node->client.epoch;
        node_lots(node)->own.given++;
    }
    struct message answer = lot_message(given ? LOT_GIVE : LOT_KEEP, asked);
    node_send_by(node, server, question->peer.sender, &answer);
}

/* Returns the lot that was given to the helper for this claim and was not taken back; NULL: there is none. */
static struct node_lot *lot_of_claim(struct node *node, actor_id helper, uint64_t claim) {
    for (unsigned l = 0; l < node_lots(node)->own.count; l++) {
        struct node_lot *lot = &node_lots(node)->own.lots[l];
        if (atomic_load(&lot->state) == LOT_GIVEN && lot->helper == helper && lot->claim == claim) {
            return lot;
        }
    }
    return NULL;
}

static void receive_left(struct node *node, const struct message *message) {
    struct node_lot *lot = lot_of_claim(node, message->peer.sender, message->peer.lot.claim);
    if (lot != NULL && lot->changes.type == 0) {
        atomic_store(&lot->state, LOT_FREE);
    }
}

static void receive_done(struct node *node, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    struct error error = {0};
    struct node_lot *lot = lot_of_claim(node, message->peer.sender, message->peer.lot.claim);
    if (lot == NULL || lot->changes.type != 0) {
        return;
    }
    size_t count;
    const struct wire_metric_sum *metrics = lot_metrics(message, &count);
    memcpy(lot->metrics, metrics, count * sizeof *metrics);
    lot->changes = message_share(message);
    buffer_drop(lot->changes.frames[--lot->changes.frame_count]); /* the metrics: the rest is rows */
    if (rows_check(&lot->changes, node->job->shapes, node->job->table_count, views, &error) < 0) {
        drop_result(lot);
        atomic_store(&lot->state, LOT_FREE);
        client_accuse(&node->client, message->peer.sender, "LOT_DONE: %s", error.text);
    }
}

/* ---- The helper ---- */

/* Returns whether an assignment's owner may give lots away: it is a node's own assignment, for all clocks to come. */
static bool has_lots(const struct wire_assignment *assignment) {
    return !origin_is_catch_up(assignment->origin) && assignment->from_clock != WIRE_CLOCK_NEVER &&
           assignment->until_clock == WIRE_CLOCK_NEVER;
}

static int compare_owners(const void *one, const void *other) {
    const struct wire_assignment *a = *(const struct wire_assignment *const *)one;
    const struct wire_assignment *b = *(const struct wire_assignment *const *)other;
    return a->origin < b->origin ? -1 : a->origin > b->origin;
}

static void add_helped(struct node *node, const struct wire_assignment *owner, unsigned lot) {
    unsigned lots = lots_count(owner->count, node->options.lots);
    uint32_t *all = memory_resized(NULL, owner->count, sizeof *all);
    memcpy(all, node->plan.shards + owner->first, owner->count * sizeof *all);
    qsort(all, owner->count, sizeof *all, node_compare_shards);
    uint32_t first = lots_slice_first(owner->count, lots, 1 + lot);
    uint32_t count = lots_slice_first(owner->count, lots, 2 + lot) - first;
    assert(count > 0 && first + count <= owner->count);
    uint32_t *shards = memory_resized(NULL, count, sizeof *shards);
    memcpy(shards, all + first, count * sizeof *shards);
    free(all);
    struct node_helped helped = {.owner = owner->origin, .lot = lot, .from_clock = owner->from_clock};
    helped.digest = hash_bytes((const unsigned char *)shards, count * sizeof *shards, 0);
    unsigned set = node_set_of_shards(node, shards, count);
    helped.set = node->work.sets[set].number;
    node_lots(node)->help.list =
        memory_resized(node_lots(node)->help.list, node_lots(node)->help.count + 1, sizeof *node_lots(node)->help.list);
    node_lots(node)->help.list[node_lots(node)->help.count++] = helped;
}

/* Finds the lots of other nodes that this node may do. The nodes that work form a ring; lot L of a node is for the node
 * L + 1 places further. */
static void find_helped(struct node *node) {
    const struct plan_view *plan = &node->plan;
    const struct wire_assignment **owners = memory_zeroed(plan->assignment_count + 1, sizeof *owners);
    size_t count = 0;
    size_t self = SIZE_MAX;
    node_lots(node)->help.count = 0;
    end_asking(node); /* the set of the lot that was asked for may be dropped */
    for (size_t d = 0; d < plan->assignment_count && node->options.lots > 0; d++) {
        if (has_lots(&plan->assignments[d])) {
            owners[count++] = &plan->assignments[d];
        }
    }
    qsort(owners, count, sizeof(const struct wire_assignment *), compare_owners);
    for (size_t n = 0; n < count; n++) {
        self = owners[n]->origin == node->options.self ? n : self;
    }
    for (unsigned lot = 0; self != SIZE_MAX && lot < node->options.lots && lot + 1 < count; lot++) {
        const struct wire_assignment *owner = owners[(self + count - 1 - lot) % count];
        if (lot < lots_count(owner->count, node->options.lots)) {
            add_helped(node, owner, lot);
        }
    }
    assert(node_lots(node)->help.count <= node->options.lots);
    free(owners);
}

/* Before the job has started, nodes load their own data only. */
static void lots_plan(struct node *node, bool new_epoch) {
    (void)new_epoch;
    if (node->state >= NODE_STARTED) {
        find_helped(node);
    }
}

static void lots_hear(struct node *node, const struct message *message) {
    if (message->type == MESSAGE_START) {
        find_helped(node);
    }
}

/* Returns the first clock that other nodes have not completed, as far as this node knows. */
static uint64_t awaited_clock(const struct node *node) {
    const struct client *client = &node->client;
    uint64_t least = UINT64_MAX - 1;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        least = client->partitions[p].clock < least ? client->partitions[p].clock : least;
    }
    return least + 1;
}

/* Returns whether this node has done the awaited clock and waits for others. */
static bool waits_for_others(const struct node *node) {
    return (node->work.activity == NODE_IDLE || node->work.activity == NODE_COMPUTED) && !node->client.fenced &&
           !node->save.unsaving && node->save.state != SAVE_RUNNING && awaited_clock(node) <= node->client.flushed &&
           node->work.assignment.origin == node->options.self;
}

static void lots_idle(struct node *node) {
    struct node_help *help = &node_lots(node)->help;
    uint64_t clock = awaited_clock(node);
    if (help->state != HELP_NONE || !waits_for_others(node) || node->work.compute_us < NODE_LOTS_WORTH_US) {
        return;
    }
    for (unsigned h = 0; h < help->count; h++) {
        struct node_helped *helped = &help->list[h];
        actor_id way = node_server_of(node, helped->owner);
        if (helped->asked >= clock || clock < helped->from_clock || way == ACTOR_NONE ||
            node_set_find(node, helped->set)->state != SET_READY) {
            continue;
        }
        helped->asked = clock;
        help_become(help, HELP_ASKED);
        help->present = *helped;
        help->clock = clock;
        help->epoch = node->client.epoch;
        const struct peer_lot asked = {
            .lot = helped->lot, .clock = help->clock, .claim = ++help->claim, .digest = helped->digest};
        struct message ask = lot_message(LOT_ASK, &asked);
        node_send_by(node, way, helped->owner, &ask);
        return;
    }
}

static void receive_answer(struct node *node, actor_id server, const struct message *message) {
    const struct peer_lot *answer = &message->peer.lot;
    struct node_help *help = &node_lots(node)->help;
    const struct node_hooks *hooks = &node->options.hooks;
    bool asked =
        help->state == HELP_ASKED && answer->claim == help->claim && message->peer.sender == help->present.owner;
    bool begins = asked && message->peer.kind == LOT_GIVE && help->clock == awaited_clock(node) &&
                  waits_for_others(node) && !node->work.occupied &&
                  node_set_find(node, help->present.set)->state == SET_READY;
    if (asked) {
        help_become(help, begins ? HELP_RUNNING : HELP_NONE);
    }
    if (message->peer.kind == LOT_KEEP) {
        return;
    }
    if (begins) {
        node->work.occupied = true;
        client_begin_lot(&node->client, help->present.set);
        hooks->help(hooks->context, help->present.set, help->clock);
        return;
    }
    struct message left = lot_message(LOT_LEFT, answer);
    node_send_by(node, server, message->peer.sender, &left);
}

void node_helped(struct node *node, uint64_t items, const struct wire_metric_sum *metrics) {
    struct node_help *help = &node_lots(node)->help;
    struct message done = {.type = MESSAGE_PEER};
    struct error error = {0};
    if (node->ended) {
        return;
    }
    assert(help->state == HELP_RUNNING && node->work.occupied);
    help_become(help, HELP_NONE);
    node->work.occupied = false;
    int result = client_end_lot(&node->client, &done, &error);
    actor_id way = node_server_of(node, help->present.owner);
    if (result != 0) {
        message_close(&done);
        node_fail(node, result, error.text);
        return;
    }
    if (help->epoch != node->client.epoch || way == ACTOR_NONE) {
        message_close(&done); /* the owner is gone, or has taken the lot back with the new epoch */
    } else {
        message_add_copy(&done, metrics, node->options.metric_count * sizeof *metrics);
        done.peer = (struct message_peer){.service = SERVICE_LOTS, .kind = LOT_DONE};
        done.peer.lot =
            (struct peer_lot){.lot = help->present.lot, .clock = help->clock, .claim = help->claim, .items = items};
        node_send_by(node, way, help->present.owner, &done);
    }
    node_wake(node);
}

static bool lots_uses(const struct node *node, unsigned set) {
    const struct node_help *help = &node_lots(node)->help;
    bool uses = help->state == HELP_RUNNING && help->present.set == set;
    for (unsigned h = 0; h < help->count && !uses; h++) {
        uses = help->list[h].set == set;
    }
    return uses;
}

static void lots_receive(struct node *node, actor_id from, bool answer, struct message *message) {
    if (answer != (message->peer.kind == LOT_GIVE || message->peer.kind == LOT_KEEP)) {
        return;
    }
    switch ((enum lot_kind)message->peer.kind) {
    case LOT_ASK:
        receive_ask(node, from, message);
        break;
    case LOT_GIVE:
    case LOT_KEEP:
        receive_answer(node, from, message);
        break;
    case LOT_DONE:
        receive_done(node, message);
        break;
    case LOT_LEFT:
        receive_left(node, message);
        break;
    }
}

const struct node_service NODE_LOTS = {.state_bytes = sizeof(struct node_lots),
                                       .close = lots_close,
                                       .plan = lots_plan,
                                       .advance = lots_advance,
                                       .due_us = lots_due_us,
                                       .receive = lots_receive,
                                       .hear = lots_hear,
                                       .begin = lots_begin,
                                       .computed = lots_computed,
                                       .idle = lots_idle,
                                       .uses = lots_uses};
