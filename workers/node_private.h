/* What the parts of a node share: node.c (the node's life, and what it hears), node_work.c (what it works on and
 * evaluates), node_sets.c (the data for that), node_reports.c (what it reports of its clocks). */
#ifndef AGILEML_WORKERS_NODE_PRIVATE_H
#define AGILEML_WORKERS_NODE_PRIVATE_H

#include "agileml/wire/records.h"
#include "workers/node.h"

static inline uint64_t node_now(const struct node *node) {
    return node->io->now_us(node->io);
}

/* Sends a message to the controller. */
static inline void node_send(struct node *node, struct message *message) {
    message->epoch = node->client.epoch;
    node->io->send(node->io, ACTOR_CONTROLLER, message);
}

/* Whether what was read has been compared with what the others read, and is the same. */
static inline bool node_input_is_compared(const struct node *node) {
    return node->input.compared == node->input.reading;
}

/* Whether the clock is at or behind the one that members are asked not to pass. */
static inline bool node_held_at(const struct node *node, uint64_t clock) {
    return clock >= node->barrier.clock;
}

/* ---- node.c ---- */

/* Does all that can be done now, and reports what follows from it. */
void node_step(struct node *node);

/* ---- node_sets.c ---- */

/* The index of the set of these shards, which is made when it is new. Takes over `shards`. */
unsigned node_set_of_shards(struct node *node, uint32_t *shards, uint32_t count);
/* How many shards both sets have. */
uint32_t node_set_common(const struct node_set *one, const struct node_set *other);
/* Drops the sets that nobody needs any more. */
void node_sets_release(struct node *node);
/* Unsubscribes from the rows that no set names any more, as soon as that can be. */
void node_sets_forget_rows(struct node *node);
/* Has the data of the most urgent assignment prepared that lacks it; when no assignment does, that of an evaluation,
 * which was mostly read for an assignment before. One set at a time. True when there was one. */
bool node_sets_prepare_next(struct node *node);
/* Finds out which sets are ready. */
void node_sets_fill(struct node *node);

/* ---- node_work.c ---- */

void node_work_close(struct node *node);
/* Takes our part of the plan's assignments. Data that is there stays, whatever the clocks. */
void node_work_take_assignments(struct node *node);
/* Begins what can begin now. True when that was something. */
bool node_work_advance(struct node *node);
/* Whether everything up to the last clock is done, and that clock's state is here: our flushes have arrived. */
bool node_work_is_through(const struct node *node);
void node_work_receive_evaluate(struct node *node, const struct message *message);
/* Drops the evaluations that were requested for these clocks, both included. */
void node_work_drop_evaluations(struct node *node, uint64_t from, uint64_t until);
/* A new epoch has begun: clocks beyond the restored one are done again, by whoever did them. Nothing is evaluated there
 * in a lost node's place, and the last clock's state, when it is one of these, will be another. */
void node_work_undo_evaluations(struct node *node);

/* ---- node_reports.c ---- */

void node_reports_open(struct node *node);
void node_reports_close(struct node *node);
/* Reports the clock that was evaluated. */
void node_reports_add(struct node *node, const struct wire_metric_sum *metrics);
/* Sends what was not sent yet. */
void node_reports_send(struct node *node);
/* When what was not sent yet is to be sent; UINT64_MAX: all was sent. */
uint64_t node_reports_due_us(const struct node *node);
/* Sends the oldest again that are not acknowledged; called with each heartbeat. */
void node_reports_repeat(struct node *node);
/* What was evaluated as the job's last clock does not count as that any more. */
void node_reports_undo_last(struct node *node);
/* Drops what a HEARTBEAT_ACK acknowledges. */
void node_reports_acknowledged(struct node *node, const struct message *ack);

#endif
