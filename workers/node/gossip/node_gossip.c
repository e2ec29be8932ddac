/* Averages with other nodes between local steps. See node_gossip.h and node_private.h. */
#include "workers/node/gossip/node_gossip.h"

#include "agileml/base/memory.h"
#include "workers/node/node_private.h"

#include <assert.h>
#include <stdlib.h>

static void drop(struct message *message) {
    if (message->type != 0) {
        message_close(message);
        *message = (struct message){0};
    }
}

static void gossip_close(struct node *node) {
    drop(&node_gossip(node)->model);
    drop(&node_gossip(node)->moves);
}

static void gossip_begin(struct node *node) {
    struct node_gossip *gossip = node_gossip(node);
    enum strategy strategy = plan_strategy_at(&node->plan, node->work.clock);
    uint32_t parts = strategy_parts(strategy, &node->job->clocks, node->work.clock);
    bool own = node->work.assignment.origin == node->options.self && !node->client.part.alone;
    gossip_close(node);
    gossip->peer = ACTOR_NONE;
    node->work.steps = strategy == STRATEGY_ADPSGD && own && parts > 1 ? parts : 0;
}

/* ---- Offers ---- */

/* Returns the node with which this one is paired after the step; ACTOR_NONE: none. All nodes draw the same pairs of
 * those that work on the clock. So nodes in step do not ask each other in a circle. */
static actor_id find_partner(const struct node *node) {
    const struct plan_view *plan = &node->plan;
    uint64_t step = node->work.clock * WIRE_LOCAL_STEPS_MAX + node->work.step;
    uint64_t *origins = memory_zeroed(plan->assignment_count + 1, sizeof *origins);
    size_t count = 0;
    for (size_t a = 0; a < plan->assignment_count; a++) {
        const struct wire_assignment *assignment = &plan->assignments[a];
        if (assignment_covers(assignment, node->work.clock) && assignment->count > 0 &&
            !origin_is_catch_up(assignment->origin)) {
            origins[count++] = assignment->origin;
        }
    }
    actor_id partner = strategy_partner(origins, count, node->options.self, step);
    free(origins);
    return partner;
}

static double share_of(const struct node *node, actor_id origin) {
    return plan_origin_share(&node->plan, origin, node->work.clock);
}

/* Whether our offer's answer can still come. A lost answer is awaited until the clock ends or the peer leaves it. So
 * offers do not pile up on a slow network before the first one has arrived. */
static bool is_offered(const struct node *node) {
    const struct node_gossip *gossip = node_gossip(node);
    return gossip->peer != ACTOR_NONE && gossip->epoch == node->client.epoch && share_of(node, gossip->peer) > 0;
}

/* Offers the copy of the model to this step's partner, unless an earlier offer is still under way. The node of the pair
 * with the lower number makes the offer. */
static void offer(struct node *node) {
    struct node_gossip *gossip = node_gossip(node);
    if (node->client.fenced || is_offered(node)) {
        return;
    }
    actor_id peer = find_partner(node);
    actor_id server = peer > node->options.self ? node_server_of(node, peer) : ACTOR_NONE;
    if (server == ACTOR_NONE) {
        return;
    }
    struct message message = message_share(&gossip->model);
    gossip->peer = peer;
    gossip->epoch = node->client.epoch;
    message.peer = (struct message_peer){.service = SERVICE_GOSSIP,
                                         .kind = GOSSIP_OFFER,
                                         .gossip = {.claim = ++gossip->claim, .clock = node->work.clock}};
    node_send_by(node, server, peer, &message);
}

/* ---- Steps ---- */

/* Applies what averages have moved since the last step's end. No thread works on the rows now. */
static void apply_moves(struct node *node) {
    struct node_gossip *gossip = node_gossip(node);
    if (gossip->moves.type != 0) {
        assert(node->work.activity == NODE_COMPUTING); /* moves of an earlier clock were dropped */
        client_move(&node->client, &gossip->moves);
        drop(&gossip->moves);
    }
}

static bool gossip_computed(struct node *node) {
    struct node_gossip *gossip = node_gossip(node);
    const struct node_hooks *hooks = &node->options.hooks;
    if (node->work.steps == 0) {
        return false;
    }
    assert(node->work.step < node->work.steps);
    apply_moves(node);
    node->work.step++;
    if (node->work.step == node->work.steps) {
        drop(&gossip->model);
        hooks->gather(hooks->context);
        return true;
    }
    struct message before = gossip->model;
    gossip->model = client_model(&node->client, &before);
    drop(&before);
    offer(node);
    hooks->compute(hooks->context, node->work.sets[node->work.assignment.set].number, node->work.clock);
    return true;
}

/* ---- Messages ---- */

/* Whether our copy of the model, as it is between two steps of this clock, can be averaged with. */
static bool is_open(const struct node *node, uint64_t clock) {
    return node->work.activity == NODE_COMPUTING && node_gossip(node)->model.type != 0 && node->work.clock == clock;
}

/* Returns the weight of a peer's copy in the mean with ours, as in the mean at the clock's end. So the mean of all
 * copies, weighted by their shares, stays what it is. 0: the peer does not work on this clock. */
static double weight_of(const struct node *node, actor_id peer) {
    double theirs = share_of(node, peer);
    double ours = share_of(node, node->options.self);
    return theirs > 0 && ours > 0 ? theirs / (theirs + ours) : 0;
}

/* Returns whether the message's rows are a copy of the model, or moves, of the same rows as ours. Reports rows that no
 * node of this job sends. */
static bool rows_fit(struct node *node, const struct message *message) {
    struct error error = {0};
    bool fits = false;
    if (client_model_check(&node->client, message, &fits, &error) != 0) {
        client_accuse(&node->client, message->peer.sender, "GOSSIP: %s", error.text);
        return false;
    }
    return fits;
}

static struct message *moves_of(struct node *node) {
    struct message *moves = &node_gossip(node)->moves;
    if (moves->type == 0) {
        *moves = client_no_moves(&node->client, &node_gossip(node)->model);
    }
    return moves;
}

static void receive_offer(struct node *node, actor_id server, const struct message *message) {
    struct message answer = {.type = MESSAGE_PEER};
    actor_id peer = message->peer.sender;
    /* Two averages with the same rows would move them twice. */
    bool wanted = is_open(node, message->peer.gossip.clock) && !is_offered(node);
    double weight = wanted ? weight_of(node, peer) : 0;
    if (weight > 0 && rows_fit(node, message)) {
        answer = client_average(&node->client, &node_gossip(node)->model, message, weight, moves_of(node));
        node_gossip(node)->averaged++;
    }
    answer.peer =
        (struct message_peer){.service = SERVICE_GOSSIP, .kind = GOSSIP_ANSWER, .gossip = message->peer.gossip};
    node_send_by(node, server, peer, &answer);
}

static void receive_answer(struct node *node, const struct message *message) {
    struct node_gossip *gossip = node_gossip(node);
    if (gossip->peer != message->peer.sender || gossip->claim != message->peer.gossip.claim) {
        return; /* a repeated answer, or one that came too late */
    }
    gossip->peer = ACTOR_NONE;
    if (message->frame_count > 0 && rows_fit(node, message) && is_open(node, message->peer.gossip.clock)) {
        client_add_moves(&node->client, moves_of(node), message);
        gossip->averaged++;
    }
}

static void gossip_receive(struct node *node, actor_id from, bool answer, struct message *message) {
    if (message->peer.kind == GOSSIP_OFFER && !answer) {
        receive_offer(node, from, message);
    } else if (message->peer.kind == GOSSIP_ANSWER && answer) {
        receive_answer(node, message);
    }
}

const struct node_service NODE_GOSSIP = {.state_bytes = sizeof(struct node_gossip),
                                         .close = gossip_close,
                                         .receive = gossip_receive,
                                         .begin = gossip_begin,
                                         .computed = gossip_computed};
