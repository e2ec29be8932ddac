/* What the files of a node share. A file calls only those below it. Each callback ends with node_step in node.c, which
 * does what follows. So node_work_computed is node_computed without that step, node_lots_helped is node_helped without
 * it, and so on.
 *
 *   node.c            the node's life, the messages to it, the answers to its hooks
 *   node_work.c       its assignments, clocks and evaluations
 *   node_feed.c       batches from feeders
 *   node_feeding.c    batches for others
 *   node_lots.c       lots
 *   node_gossip.c     averages between local steps
 *   node_sets.c       the data of its assignments
 *   node_parts.c      an input that is divided
 *   node_fetch.c      data from other nodes
 *   node_reports.c    what it reports to the controller, and how it ends
 *   node_cached.c     partitions out of its cache */
#ifndef AGILEML_WORKERS_NODE_PRIVATE_H
#define AGILEML_WORKERS_NODE_PRIVATE_H

#include "agileml/wire/records.h"
#include "workers/node/node.h"

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

/* Sends a message to another node's agent, by way of that node's server. */
static inline void node_send_by(struct node *node, actor_id server, actor_id receiver, struct message *message) {
    message->epoch = node->client.epoch;
    message->passed = (struct message_passed){.receiver = receiver, .sender = node->options.self};
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
/* Receives HOLDINGS or SHARD; `from` is the server that has passed it on. */
void node_sets_receive(struct node *node, actor_id from, const struct message *message);
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

/* Returns false if the process goes on with the clock at once. */
bool node_work_computed(struct node *node, uint64_t items, uint64_t compute_us);
void node_work_gathered(struct node *node);
void node_work_evaluated(struct node *node, const struct wire_metric_sum *metrics);
void node_work_close(struct node *node);
/* Takes this node's assignments from the plan. A set of the same shards keeps its data, even for other clocks. */
void node_work_take_assignments(struct node *node);
/* Begins one thing that can begin now. True when there was one. */
bool node_work_advance(struct node *node);
/* Whether this node has done all its clocks and has the last clock's state, which shows that its flushes arrived. */
bool node_work_is_through(const struct node *node);
void node_work_receive_evaluate(struct node *node, const struct message *message);
/* Drops the evaluations that were requested for these clocks, both included. */
void node_work_drop_evaluations(struct node *node, uint64_t from, uint64_t until);
/* Voids evaluations when a new epoch begins. Clocks beyond the restored clock are completed again, and evaluated by the
 * nodes that compute them, so requested evaluations of such clocks are dropped. If the last clock is among them, it
 * must be evaluated again in its new state. */
void node_work_undo_evaluations(struct node *node);

/* ---- node_lots.c ---- */

void node_lots_close(struct node *node);
/* Makes the lots of the clock that begins. */
void node_lots_begin(struct node *node);
/* Takes the results that have come of the clock's lots, and takes overdue lots back. Has the process go on with the
 * clock when it can. True when it did. */
bool node_lots_advance(struct node *node);
/* When a lot that was given away is overdue; UINT64_MAX: none is awaited. */
uint64_t node_lots_due_us(const struct node *node);
/* Finds, by the plan, the lots of other nodes that this node may do. */
void node_lots_find_helped(struct node *node);
/* Asks for another node's lot if this node waits for others. */
void node_lots_seek(struct node *node);
/* Ends a request for a lot, as this node has work of its own: an answer now comes too late. */
void node_lots_end_asking(struct node *node);
void node_lots_helped(struct node *node, uint64_t items, const struct wire_metric_sum *metrics);
/* Receives LOT or LOT_METRICS; `from` is the server that has passed it on. */
void node_lots_receive(struct node *node, actor_id from, struct message *message);

/* ---- node_gossip.c ---- */

void node_gossip_close(struct node *node);
/* Call it when a clock begins. */
void node_gossip_begin(struct node *node);
/* Call it when a local step of a clock is computed: begins the next step, or gathers. */
void node_gossip_computed(struct node *node);
/* Receives GOSSIP; `from` is the server that has passed it on. */
void node_gossip_receive(struct node *node, actor_id from, const struct message *message);

/* ---- node_fetch.c ---- */

void node_fetch_close(struct node *node);
/* Completes `answer`, a SHARD that has the question's `offset` and the kind for when there is nothing to send. Adds the
 * packed bytes from the offset on, as many as fit a piece. `bytes` may be NULL. Returns whether this is the last
 * piece. */
bool node_add_piece(const struct node *node, const struct buffer *bytes, struct message *answer);
/* Asks other nodes for the shards of the set that the process lacks. False when it lacks none, or no node can have
 * them. */
bool node_fetch_begin(struct node *node, const struct node_set *set);
/* Ends the fetching for the set with this number, which is not needed any more. */
void node_fetch_give_up(struct node *node, unsigned set);
/* Goes on with what has come, or did not come in time. Returns the number of the set for which no more will come; 0:
 * fetching goes on. */
unsigned node_fetch_advance(struct node *node);
/* When an answer is overdue; UINT64_MAX: none is awaited. */
uint64_t node_fetch_due_us(const struct node *node);
/* Answers HOLDINGS or SHARD; `server` is the server of this node that has passed the question on. */
void node_fetch_answer(struct node *node, actor_id server, const struct message *question);
/* Receives an answer to HOLDINGS or SHARD. */
void node_fetch_receive(struct node *node, const struct message *message);

/* ---- node_feed.c ---- */

void node_feed_open(struct node *node);
void node_feed_close(struct node *node);
/* Takes a new plan's feeders. */
void node_feed_plan(struct node *node, bool new_epoch);
/* Forgets batches of clocks or data that are not this node's any more. Called before sets of data are released. */
void node_feed_check(struct node *node);
/* Requests batches of the coming clocks from feeders. */
void node_feed_advance(struct node *node);
/* When an answer is overdue; UINT64_MAX: none is awaited. */
uint64_t node_feed_due_us(const struct node *node);
/* Whether this node's own clock, which could begin otherwise, waits for batches. The process makes some meanwhile. */
bool node_feed_waits(struct node *node, uint64_t clock);
/* Call it when a clock begins. */
void node_feed_begin(struct node *node);
/* Call it when this node's own clock is computed. */
void node_feed_end(struct node *node);
/* Returns how long this process, for the clock, ran stages that feeders could have run. */
static inline uint64_t node_feed_stages_us(const struct node *node) {
    return node_feed_is_worth(&node->feed) ? node->work.stages_us : 0;
}
void node_feed_take_made(struct node *node, const struct feed_made *made);
/* Receives FEED_ASK or FEED; `from` is the server that has passed it on. */
void node_feed_receive(struct node *node, actor_id from, const struct message *message);

/* ---- node_feeding.c ---- */

void node_feeding_close(struct node *node);
/* Drops all questions. */
void node_feeding_drop(struct node *node);
/* Returns how many of the app's first stages feeders may run. */
unsigned node_feeding_stages(const struct node *node);
/* Returns how many batches a feeder with so many threads makes at once. `batch_us`: the time of one thread for one
 * batch. */
unsigned node_feeding_at_once(unsigned threads, uint64_t batch_us);
/* Takes the batches that the process has made. */
void node_feeding_made(struct node *node, const struct feed_made *made);
/* Returns how long the process has made batches for others. */
uint64_t node_feeding_us(const struct node *node);
/* Begins what a feeder can do now. True when it began something. */
bool node_feeding_advance(struct node *node);
/* Receives FEED_ASK; `server` is the server of this node that has passed it on. */
void node_feeding_receive(struct node *node, actor_id server, const struct message *message);

/* ---- node_parts.c ---- */

/* Divides the input by the job's first plan. */
void node_parts_plan(struct node *node);
void node_parts_close(struct node *node);
/* Has the process read this node's part if it has not read it, and takes what the set lacks from the readers of the
 * other parts. False when it lacks nothing, or the input is not divided. */
bool node_parts_begin(struct node *node, const struct node_set *set);
void node_parts_read(struct node *node, bool divided);
/* Ends the taking for the set with this number, which is not needed any more. */
void node_parts_give_up(struct node *node, unsigned set);
/* Goes on with what has come, and returns as node_fetch_advance does. */
unsigned node_parts_advance(struct node *node);
/* When an answer is overdue, or a question is to be repeated; UINT64_MAX: none is. */
uint64_t node_parts_due_us(const struct node *node);
/* Answers SHARD_ASK_PART; `server` is the server of this node that has passed the question on. */
void node_parts_answer(struct node *node, actor_id server, const struct message *question);
/* Receives the answer to SHARD_ASK_PART. */
void node_parts_receive(struct node *node, const struct message *message);

/* ---- node_reports.c ---- */

/* Ends the node's part without a call of hooks.end. */
void node_stop(struct node *node);
/* Ends the node's part, if it has not ended. */
void node_end(struct node *node, int code, const char *text);
void node_reports_open(struct node *node);
void node_reports_close(struct node *node);
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
