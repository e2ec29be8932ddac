/* The files of the client (client.h), each with one concern. A function's comment stands here if other files of the
 * client call it.
 *
 *   client.c            opening and closing, plans, fences, which clock may begin, commits, the end of a clock
 *   client_subscribe.c  which servers push which rows: SUBSCRIBE
 *   client_wait.c       what is awaited, since when, and PULL, which requests what may have been lost
 *   client_ring.c       the ring by which flushes and pushes may travel, and when these count as lost
 *   client_gather.c     a clock's flushes: gathered from the cache, sent, retained until they are committed
 *   client_pieces.c     flushes in pieces, before the clock ends
 *   client_lot.c        lots: moves another node's changes out of the cache, adds changes made for us to it
 *   client_waits.c      how long the states of each server are waited for
 *   client_push.c       messages of servers: which PUSH is next, which must wait, which was lost; ROWS
 *   client_apply.c      the rows of a PUSH, and our own later updates, into the cache
 *   client_steps.c      steps of optimizers on this process's own rows
 *   client_kept.c       what is kept of pushes, to restore partitions whose copies are all lost
 *   client_restore.c    a new epoch: rows beyond its restore point are void and requested again */
#ifndef AGILEML_WORKERS_CLIENT_PRIVATE_H
#define AGILEML_WORKERS_CLIENT_PRIVATE_H

#include "workers/client/client.h"

/* Which rows of a message to apply to the cache. */
enum rows_wanted {
    ROWS_ALL, /* those that have a state */
    ROWS_NEW, /* those without a state */
    ROWS_VOID /* those whose state is void (CACHE_CLOCK_VOID) */
};

static inline uint64_t client_now(const struct client *client) {
    return client->io->now_us(client->io);
}

/* ---- client_subscribe.c ---- */

void client_open_subscription(const struct client *client, struct client_subscription *subscription, actor_id server);
void client_close_subscription(struct client_subscription *subscription);
/* Subscribes to those rows of the partition that have no subscription yet, at both of the partition's servers. Returns
 * AML_ELIMIT like client_subscribe. */
int client_ask(struct client *client, uint32_t number, struct error *error);
/* Sends the open request: for the rows between `answered` and `asked`, or, with `only`, for all. */
void client_send_request(struct client *client, uint32_t number, struct client_subscription *subscription);
/* Sends SUBSCRIBE for the keys of each table. Takes over the buffers in `keys`. */
void client_send_subscribe(struct client *client, actor_id server, const struct message_subscribe *subscribe,
                           struct buffer **keys);
/* AML_ELIMIT if so many rows of a table's partition do not fit one message. */
int client_rows_fit(const struct client *client, unsigned table, uint32_t partition, uint64_t rows,
                    struct error *error);
/* How many of the next `rows` rows of a table to request: as many as *room allows, and at least one if `least`. Takes
 * their bytes out of *room. */
uint32_t client_portion(const struct client *client, unsigned table, uint32_t rows, bool least, size_t *room);
/* The bytes of the rows of a partition that may be requested at a time. */
size_t client_room(const struct client *client);
/* Whether to leave out the present server: a node that joins subscribes only with the server of its first clock. */
bool client_skips_now(const struct client *client, const struct client_partition *partition);
/* Whether the subscription has every row whose state we have. Only then its pushes bring all that changes. */
bool client_covers(const struct client *client, const struct client_partition *partition,
                   const struct client_subscription *subscription);
/* Sets the present server, and the server after the switch, by the plan. Keeps the subscription with a server that
 * stays. */
void client_place(struct client *client, uint32_t number);

/* ---- client_wait.c ---- */

/* The clock of the newest state that has arrived, in the cache or in a waiting push. */
uint64_t client_arrived(const struct client_partition *partition);
/* Drops the pushes that wait. */
void client_drop_waiting(struct client_partition *partition);
/* Sets, by the plan, `wanted`, `possible` and `joins`. */
void client_find_wanted(struct client *client);
/* Returns the clock from which the plan's window counts: the committed clock that this node knows, or the clock at
 * which the epoch began, `restore`, if that is later. Every node has the state of `restore`, so nodes that know
 * different committed clocks can all come equally far. Otherwise this node might stop before the others, and they would
 * wait for its flushes, without which no clock is committed. */
static inline uint64_t client_settled(const struct client *client) {
    uint64_t restore = client->plan.terms.restore;
    return client->committed > restore ? client->committed : restore;
}

/* Sets the clock that must be committed before our next clock. A partition without a restore point there raises it. */
void client_find_durable_wanted(struct client *client);
/* Whether an answer or a push is to come from the partition's servers. */
bool client_awaited(const struct client *client, const struct client_partition *partition);
/* Call it when what was awaited has come. */
void client_waited(struct client *client, const struct client_partition *partition);
/* Begins to wait for the partition's servers, unless we wait already. */
void client_wait(const struct client *client, struct client_partition *partition);
/* Sends PULL. With `again` the server repeats the pushes after the state that has arrived. */
void client_pull(struct client *client, uint32_t number, actor_id server, bool again);

/* ---- client_ring.c ---- */

/* The server thread of our node by which a flush of ours travels; ACTOR_NONE: it is sent directly. */
actor_id client_ring_relay(struct client *client, uint32_t number, uint64_t clock, uint64_t *digest);
/* Whether a missing message counts as lost, by the answer to a PULL. The message was sent by a ring at `since_us`, and
 * is of `clock` or of clocks up to it. */
bool client_ring_lost(struct client *client, uint64_t since_us, uint64_t clock);
/* Call when a newer state of the partition has arrived: measures how long the exchange by the ring took. */
void client_ring_came(struct client *client, const struct client_partition *partition);
/* Call when a push on the ring counts as lost: the flushes of its exchange then count as lost, too. */
void client_ring_give_up(struct client_partition *partition);
/* Call before a clock under `self` is flushed: ends a watch that succeeded, and begins the next. */
void client_ring_begin(struct client *client);
/* Forgets losses, as another plan is in force. */
void client_ring_plan(struct client *client);

/* ---- client_gather.c ---- */

/* For jobs without staleness: sets the base of rows whose flush was not pushed back yet. gather_rows leaves that to the
 * push, but a clock under another origin of this node may begin first. With a rounding encoding the base is right
 * already. */
void client_settle_flushed(const struct client *client, const struct client_partition *partition);
/* Retains a gathered flush, or a piece, until it is committed. Takes it over. */
struct retained_flush *client_retain(struct client_partition *partition, struct retained_flush *new);
/* Whether no further piece of the same flush follows. */
static inline bool flush_is_last(const struct retained_flush *flush) {
    return flush->message.flush.more == 0;
}
/* Whether the flush is a piece of a clock that has not ended. */
static inline bool flush_is_unfinished(const struct client *client, const struct retained_flush *flush) {
    return client->working && !client->lot.under_way && flush->clock == client->clock &&
           flush->origin == client->origin;
}
/* Adds the rows touched[table][counts[table]] to the flush, and takes over the arrays in `touched`. `share` is the
 * factor of changes of averaged tables. */
void client_gather_rows(const struct client *client, struct retained_flush *flush, uint32_t **touched,
                        const uint32_t *counts, double share);
/* Sends the flush to the partition's server. With `first`, its first sending in this epoch, a ring of the clock is
 * used. */
void client_send_flush(struct client *client, uint32_t number, struct retained_flush *flush, bool first);
/* Frees the flushes that are committed and are part of the state in the cache. */
void client_release(const struct client *client, struct client_partition *partition);
void client_close_flush(const struct client *client, struct retained_flush *flush);

/* ---- client_pieces.c ---- */

/* Sends the pieces that waited for the answer to this PULL. */
void client_pieces_answered(struct client *client, uint32_t number, uint64_t pull);

/* ---- client_push.c ---- */

/* Applies the pushes that waited while the app used the cache. */
void client_apply_waiting(struct client *client);

/* ---- client_apply.c ---- */

/* Applies the rows of a PUSH to the cache. AML_EPROTOCOL, with nothing changed, when the message is impossible. */
int client_apply(struct client *client, uint32_t number, const struct message *message, enum rows_wanted wanted,
                 struct error *error);
/* Applies the puts of later clocks again. A catch-up may flush a clock after later clocks of ours; rows that both have
 * put must have the later clock's value. */
void client_put_later(struct client *client, const struct client_partition *partition,
                      const struct retained_flush *flush);

/* ---- client_waits.c ---- */

void client_waits_close(struct client *client);
/* Discards what was measured under the plan before. */
void client_waits_plan(struct client *client);
/* Whether the present clock's flushes will be sent from the last partition to the first one. */
bool client_waits_descends(struct client *client);
/* Begins to measure, if possible: a clock of our own has been flushed. */
void client_waits_begin(struct client *client);
/* Notes that a push for the partition has come. */
void client_waits_arrived(struct client *client, uint32_t number);

/* ---- client_kept.c ---- */

/* Begins or ends keeping by the plan in force, and marks the kept pushes that are commit points by it. */
void client_kept_plan(struct client *client);
void client_kept_close(const struct client *client, struct client_partition *partition);
/* Keeps the rows of a message that have been applied to the cache: a push of changes (ROWS_ALL), or an answer. */
void client_kept_take(const struct client *client, uint32_t number, const struct message *message,
                      enum rows_wanted wanted);
/* Sets the clock of the partition's first state, which arrives. */
void client_kept_begin(struct client_partition *partition, uint64_t clock);
/* Keeps the waiting pushes that are next in order, before the end of the epoch drops them. */
void client_kept_fence(const struct client *client, uint32_t number);
/* Moves pushes up to the committed clock into `values`, or drops them if a later push has every row. */
void client_kept_commit(const struct client *client, uint32_t number);
/* Forgets what was pushed after `restore`, before the cache does. */
void client_kept_restore(const struct client *client, uint32_t number, uint64_t restore);

/* ---- client_restore.c ---- */

/* Begins a new epoch: what is known of the servers is forgotten, and the rows seen beyond the plan's `restore` are
 * void. With `missed` an epoch between was missed, and every row is void. */
void client_restore_rows(struct client *client, bool missed);
/* Requests the void rows by portions, once the server has our subscription again. Ends restoring when no row is void;
 * pushes restore void rows, too. */
void client_restore_step(struct client *client, uint32_t number);
/* Sends the open request for void rows: a portion of those that are void now. */
void client_send_restore(struct client *client, uint32_t number);
/* Sends the flushes beyond the plan's `restore` again. */
void client_send_again(struct client *client);

#endif
