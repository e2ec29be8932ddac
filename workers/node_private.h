/* What the parts of a node share: node.c (the node's life and the messages to it), node_work.c (its assignments,
 * clocks and evaluations), node_sets.c (their data), node_fetch.c (data from other nodes), node_parts.c (an input
 * that is divided), node_lots.c (lots), node_gossip.c (averages between local steps), node_feed.c and node_feeding.c
 * (batches of stages), node_reports.c (its PROGRESS), node_notes.c (what the app says), node_cached.c (partitions out
 * of its cache). */
#ifndef AGILEML_WORKERS_NODE_PRIVATE_H
#define AGILEML_WORKERS_NODE_PRIVATE_H

#include "agileml/wire/records.h"
#include "workers/node.h"

static inline uint64_t node_now(const struct node *node) {
    return node->io->now_us(node->io);
}

/* The job's failure timeout. */
static inline uint64_t node_timeout_us(const struct node *node) {
    return node->contact.timeout_ms * UINT64_C(1000);
}

enum { NODE_ASK_SOON = 128 /* a question that was not answered is repeated first after this part of the timeout */ };

/* When to repeat a question that was asked first at `asked_us` and has just been sent: the wait doubles each time. */
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

/* A server of another node, by way of which messages reach its agent: any does. ACTOR_NONE: the plan names none. */
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

/* Whether the clock is at or beyond the barrier: the clock after it must not begin. */
static inline bool node_held_at(const struct node *node, uint64_t clock) {
    return clock >= node->barrier.clock;
}

/* ---- node.c ---- */

/* Begins all that can begin now, and reports to the controller what has changed. */
void node_step(struct node *node);

/* ---- node_cached.c ---- */

/* Returns the restore points that our cache adds to those of our servers, of which all are fenced. Each names the
 * server that is to serve the partition if no replica is left. The caller drops the frame. */
struct buffer *node_cache_points(const struct node *node);
/* Gives our servers, before the first plan of an epoch, the partitions that they are to serve and have no replica of:
 * all copies were lost, and the controller has chosen what our cache has. */
void node_give_cached(struct node *node, const struct plan_view *plan);

/* ---- node_sets.c ---- */

/* Returns the index of the set of these shards, and makes the set if there is none. Takes over `shards`. */
unsigned node_set_of_shards(struct node *node, uint32_t *shards, uint32_t count);
int node_compare_shards(const void *one, const void *other); /* uint32_t, ascending, for qsort */
/* How many shards are in both sets. */
uint32_t node_set_common(const struct node_set *one, const struct node_set *other);
/* Drops the sets that no assignment or evaluation needs. */
void node_sets_release(struct node *node);
/* Unsubscribes from the rows that no set names any more, when the client can. */
void node_sets_forget_rows(struct node *node);
/* Requests one set from the process, unless one is being prepared: that of the most urgent assignment without data, or
 * else that of an evaluation, whose data has mostly been read before. True when it requested one. */
bool node_sets_prepare_next(struct node *node);
/* Has the process prepare the set with this number, whose data was looked for at other nodes. */
void node_sets_prepare(struct node *node, unsigned number);
/* Moves all sets from PREPARED to READY if the client's rows and the input's comparison are there. */
void node_sets_fill(struct node *node);

/* ---- node_work.c ---- */

int node_compare_numbers(const void *one, const void *other); /* uint64_t, ascending, for qsort */
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
/* Voids evaluations when a new epoch begins. Clocks beyond the restored one are completed again, and evaluated by the
 * nodes that compute them; so requested evaluations of them are dropped. If the last clock is one of them, its state
 * will be another, and it must be evaluated again. */
void node_work_undo_evaluations(struct node *node);

/* ---- node_lots.c ---- */

void node_lots_close(struct node *node);
/* Makes the lots of the clock that begins. */
void node_lots_begin(struct node *node);
/* Takes what has come of the clock's lots, and takes back what does not come; has the process go on with the clock.
 * True when it did. */
bool node_lots_advance(struct node *node);
/* When a lot that was given away is overdue; UINT64_MAX: none is awaited. */
uint64_t node_lots_due_us(const struct node *node);
/* Finds, by the plan, the lots of other nodes that this node may do. */
void node_lots_find_helped(struct node *node);
/* Asks for another node's lot if this node waits for others. */
void node_lots_seek(struct node *node);
/* This node has work of its own: an answer that comes now is too late. */
void node_lots_end_asking(struct node *node);
/* Receives LOT or LOT_METRICS; `from` is the server that has passed it on. */
void node_lots_receive(struct node *node, actor_id from, struct message *message);

/* ---- node_gossip.c ---- */

void node_gossip_close(struct node *node);
/* A clock begins. */
void node_gossip_begin(struct node *node);
/* A local step of a clock with steps of their own is computed: goes on with the next one, or gathers. */
void node_gossip_computed(struct node *node);
/* Receives GOSSIP; `from` is the server that has passed it on. */
void node_gossip_receive(struct node *node, actor_id from, const struct message *message);

/* ---- node_fetch.c ---- */

void node_fetch_close(struct node *node);
/* Completes SHARD, an answer that has the question's `offset` and, for when there is nothing to send, its kind: adds
 * the packed bytes from there on, as many as fit a piece. `bytes` may be NULL. Returns whether this is the last
 * piece. */
bool node_add_piece(const struct node *node, const struct buffer *bytes, struct message *answer);
/* Asks other nodes for the shards of the set that the process lacks. False when it lacks none, or nobody can have
 * them. */
bool node_fetch_begin(struct node *node, const struct node_set *set);
/* Nobody needs the set with this number any more. */
void node_fetch_give_up(struct node *node, unsigned set);
/* Goes on with what has come, or did not come in time; at the end has the process prepare the set. True when it did. */
bool node_fetch_advance(struct node *node);
/* When an answer is overdue; UINT64_MAX: none is awaited. */
uint64_t node_fetch_due_us(const struct node *node);
/* Receives HOLDINGS or SHARD; `from` is the server that has passed it on. */
void node_fetch_receive(struct node *node, actor_id from, const struct message *message);

/* ---- node_feed.c ---- */

void node_feed_open(struct node *node);
void node_feed_close(struct node *node);
/* Returns how many of the app's first stages feeders may run. */
unsigned node_feed_app_feeds(const struct node *node);
/* Takes a new plan's feeders. */
void node_feed_plan(struct node *node, bool new_epoch);
/* Forgets batches of clocks or data that are not this node's any more. Called before sets of data are released. */
void node_feed_check(struct node *node);
/* Asks feeders for batches of the coming clocks. */
void node_feed_advance(struct node *node);
/* When an answer is overdue; UINT64_MAX: none is awaited. */
uint64_t node_feed_due_us(struct node *node);
/* Whether this node's own clock, which could begin, waits for batches. The process makes some meanwhile. */
bool node_feed_waits(struct node *node, uint64_t clock);
/* A clock begins. */
void node_feed_begin(struct node *node);
/* This node's own clock is computed. */
void node_feed_end(struct node *node);
/* Returns how long this process ran stages for the clock that feeders would be asked to run. */
uint64_t node_feed_stages_us(const struct node *node);
/* Receives FEED_ASK or FEED; `from` is the server that has passed it on. */
void node_feed_receive(struct node *node, actor_id from, const struct message *message);

/* ---- node_feeding.c ---- */

void node_feeding_close(struct node *node);
/* Drops all questions. */
void node_feeding_drop(struct node *node);
/* Returns how many batches a feeder with so many threads makes at once, if one takes a thread so long. */
unsigned node_feed_at_once(unsigned threads, uint64_t batch_us);
/* The process has made batches. */
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
/* Has the process read this node's part, if it has not, and takes what the set lacks from the readers of the other
 * parts. False when it lacks nothing, or the input is not divided. */
bool node_parts_begin(struct node *node, const struct node_set *set);
/* Nobody needs the set with this number any more. */
void node_parts_give_up(struct node *node, unsigned set);
/* Goes on with what has come, or did not come in time; at the end has the process prepare the set. True when it did. */
bool node_parts_advance(struct node *node);
/* When an answer is overdue, or a question is to be repeated; UINT64_MAX: none is. */
uint64_t node_parts_due_us(const struct node *node);
/* Answers SHARD_ASK_PART; `server` is the sender's, which has passed it on. */
void node_parts_answer(struct node *node, actor_id server, const struct message *question);
/* Receives the answer to it. */
void node_parts_receive(struct node *node, const struct message *message);

/* ---- node_notes.c ---- */

void node_notes_close(struct node *node);
/* Sends the notes that the controller has not answered, once the node is welcomed. */
void node_notes_send(struct node *node);
/* The controller has answered a note, if `request` is one. */
void node_notes_answered(struct node *node, uint64_t request);
/* Whether the controller has all notes. */
static inline bool node_notes_arrived(const struct node *node) {
    return node->notes.count == 0;
}

/* ---- node_reports.c ---- */

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

#endif
