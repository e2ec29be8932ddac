/* What the files of a node share. A file calls only those below it; services call any. Each callback ends with
 * node_step in node.c, which does what follows. So node_work_computed is node_computed without that step, and so on.
 *
 *   fetch/            a service: data from other nodes
 *   parts/            a service: an input that is divided
 *   lots/             a service: lots
 *   feed/             a service: batches from feeders; node_feeding.c: batches for others
 *   gossip/           a service: averages between local steps
 *
 *   node.c            the node's life, the messages to it, the answers to its hooks, the table of services
 *   node_work.c       its assignments, clocks and evaluations
 *   node_sets.c       the data of its assignments
 *   node_reports.c    what it reports to the controller, and how it ends
 *   node_cached.c     partitions out of its cache */
#ifndef AGILEML_WORKERS_NODE_PRIVATE_H
#define AGILEML_WORKERS_NODE_PRIVATE_H

#include "agileml/wire/records.h"
#include "workers/node/node_service.h"

static inline uint64_t node_now(const struct node *node) {
    return node->io->now_us(node->io);
}

/* The job's failure timeout. WELCOME brings the timeout, perhaps after the first plan. Until then this is the patience
 * with the controller, which is much longer. So compute the end of a wait when it is checked, not when the wait
 * begins. */
static inline uint64_t node_timeout_us(const struct node *node) {
    return node->contact.timeout_ms * UINT64_C(1000);
}

enum { NODE_ASK_SOON = 128 /* the part of the timeout after which an unanswered question is repeated first */ };

/* Returns when to repeat a question that was first asked at `asked_us` and has just been sent. The wait doubles each
 * time. */
static inline uint64_t node_ask_again_us(const struct node *node, uint64_t asked_us) {
    uint64_t now_us = node_now(node);
    return now_us + (now_us - asked_us) + node_timeout_us(node) / NODE_ASK_SOON;
}

/* The numbers of this node's requests that OUTCOME answers. */
enum {
    NODE_EVICT_REQUEST = 1, /* EVICT */
    NODE_NOTE_REQUEST = 2   /* the first APP_NOTE; the next ones count on */
};

/* Sends a message to the controller. */
static inline void node_send(struct node *node, struct message *message) {
    message->epoch = node->client.epoch;
    node->io->send(node->io, ACTOR_CONTROLLER, message);
}

/* Sends a PEER to another node's agent, by way of that node's server. */
static inline void node_send_by(struct node *node, actor_id server, actor_id receiver, struct message *message) {
    message->epoch = node->client.epoch;
    message->peer.receiver = receiver;
    message->peer.sender = node->options.self;
    node->io->send(node->io, server, message);
}

/* Returns a server of another node, which passes messages on to that node's agent. ACTOR_NONE: the plan names none. */
static inline actor_id node_server_of(const struct node *node, actor_id other) {
    for (size_t e = 0; e < node->plan.endpoint_count; e++) {
        if (actor_node(node->plan.endpoints[e].actor) == other && !actor_is_pulse(node->plan.endpoints[e].actor)) {
            return node->plan.endpoints[e].actor;
        }
    }
    return ACTOR_NONE;
}

/* Whether the controller has compared the input that this node read, and found it equal to the job's. */
static inline bool node_input_is_compared(const struct node *node) {
    return node->input.compared == node->input.reading;
}

/* Whether the clock is at or beyond the barrier; if so, the next clock must not begin. */
static inline bool node_held_at(const struct node *node, uint64_t clock) {
    return clock >= node->barrier.clock;
}

/* ---- node_cached.c ---- */

/* Returns the restore points that our cache adds to those of our servers. All our servers must be fenced. Each point
 * names the server that is to serve the partition if no replica is left. The caller drops the frame. */
struct buffer *node_cache_points(const struct node *node);
/* Gives our servers the partitions that they are to serve and of which all replicas were lost. The controller has
 * chosen the clocks that our cache has. Called before the first plan of an epoch. */
void node_give_cached(struct node *node, const struct plan_view *plan);

/* ---- node_sets.c ---- */

/* Returns the index of the set of these shards, and makes the set if there is none. Takes over `shards`. */
unsigned node_set_of_shards(struct node *node, uint32_t *shards, uint32_t count);
int node_compare_shards(const void *one, const void *other); /* uint32_t, ascending, for qsort */
/* How many shards are in both sets. */
uint32_t node_set_common(const struct node_set *one, const struct node_set *other);
int node_compare_numbers(const void *one, const void *other); /* uint64_t, ascending, for qsort */
/* Drops sets and rows that nothing needs, has the next set prepared, and goes on with sets that are on their way. True
 * when there may be more to do. */
bool node_sets_advance(struct node *node);
void node_sets_prepared(struct node *node, unsigned number, uint64_t items, const double totals[WIRE_TOTALS]);
/* The set with this number, or NULL. */
static inline struct node_set *node_set_find(const struct node *node, unsigned number) {
    for (unsigned s = 0; s < node->work.set_count; s++) {
        if (node->work.sets[s].number == number) {
            return &node->work.sets[s];
        }
    }
    return NULL;
}

/* ---- node_work.c ---- */

void node_work_computed(struct node *node, uint64_t items, uint64_t compute_us);
void node_work_gathered(struct node *node);
void node_work_evaluated(struct node *node, const struct wire_metric_sum *metrics);
void node_work_close(struct node *node);
/* Takes this node's assignments from the plan. A set of the same shards keeps its data, even for other clocks. */
void node_work_take_assignments(struct node *node);
/* Begins one thing that can begin now. True when there was one. */
bool node_work_advance(struct node *node);
/* What the node waits for before it can begin its next work. *on: of which node; ACTOR_NONE: of no certain one. */
enum node_waits node_work_waits(const struct node *node, actor_id *on);
/* Whether this node has done all its clocks and has the last clock's state, which shows that its flushes arrived. */
bool node_work_is_through(const struct node *node);
void node_work_receive_evaluate(struct node *node, const struct message *message);
/* Drops the evaluations that were requested for these clocks, both included. */
void node_work_drop_evaluations(struct node *node, uint64_t from, uint64_t until);
/* Voids evaluations when a new epoch begins. Clocks beyond the restored clock are completed again, and evaluated by the
 * nodes that compute them, so requested evaluations of such clocks are dropped. If the last clock is among them, it
 * must be evaluated again in its new state. */
void node_work_undo_evaluations(struct node *node);

/* ---- node_reports.c ---- */

/* Ends the node's part without a call of hooks.end. */
void node_stop(struct node *node);
/* Ends the node's part, if it has not ended. */
void node_end(struct node *node, int code, const char *text);
void node_reports_open(struct node *node);
void node_reports_close(struct node *node);
/* Fills in the node's numbers, which are 0 at first. */
void node_reports_count(const struct node *node, struct node_numbers *numbers);
/* Adds a PROGRESS for the clock that was evaluated, and sends it if it is due. */
void node_reports_add(struct node *node, const struct wire_metric_sum *metrics);
/* Sends the collected messages. */
void node_reports_send(struct node *node);
/* When the collected messages are due; UINT64_MAX: there are none. */
uint64_t node_reports_due_us(const struct node *node);
/* Repeats the oldest unacknowledged messages; called with each heartbeat. */
void node_reports_repeat(struct node *node);
/* Clears `last` in all messages: they do not report the job's last clock any more. */
void node_reports_undo_last(struct node *node);
/* Drops the messages that a HEARTBEAT_ACK acknowledges. */
void node_reports_acknowledged(struct node *node, const struct message *ack);
/* Sends the notes that the controller has not answered, once the node is welcomed. */
void node_notes_send(struct node *node);
/* Drops the note that the controller has answered, if `request` is the number of a note. */
void node_notes_answered(struct node *node, uint64_t request);
/* Whether the controller has all notes. */
static inline bool node_notes_arrived(const struct node *node) {
    return node->notes.count == 0;
}

#endif
