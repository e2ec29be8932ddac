/* The files of the client (client.h), each with one concern. A function's comment stands here if other files of the
 * client call it.
 *
 *   client.c            opening and closing, plans, fences, which clock may begin, commits, the end of a clock
 *   client_subscribe.c  which servers push which rows: SUBSCRIBE
 *   client_wait.c       what is awaited, since when, and PULL, which requests what may have been lost
 *   client_ring.c       the ring by which flushes and pushes may travel, and when these count as lost
 *   client_gather.c     a clock's flushes: gathered from the cache, sent, retained until they are committed
 *   client_pieces.c     flushes in pieces, before the clock ends
 *   client_lot.c        another node's lot: its changes are taken out of the cache; ours, from another node, into it
 *   client_waits.c      how long the states of each server are waited for
 *   client_push.c       messages of servers: which PUSH is next, which must wait, which was lost; ROWS
 *   client_apply.c      the rows of a PUSH, and our own later updates, into the cache
 *   client_kept.c       what is kept of pushes, to restore partitions whose copies are all lost
 *   client_restore.c    a new epoch: rows beyond its restore point are void and requested again
 */
#ifndef AGILEML_WORKERS_CLIENT_PRIVATE_H
#define AGILEML_WORKERS_CLIENT_PRIVATE_H

#include "workers/client.h"

/* Which rows of a message to apply to the cache. */
enum rows_wanted {
    ROWS_ALL, /* those that have a state */
    ROWS_NEW, /* those without a state */
    ROWS_VOID /* those whose state is void (CACHE_CLOCK_VOID) */
};

/* ---- client.c ---- */

/* Sets `committed` to the newest clock at which every partition is durable and has a restore point. */
void client_find_committed(struct client *client);

/* ---- client_subscribe.c ---- */

void client_open_subscription(const struct client *client, struct client_subscription *subscription, actor_id server);
void client_close_subscription(struct client_subscription *subscription);
/* Subscribes to the partition's rows that are not subscribed to, with both its servers. AML_ELIMIT as
 * client_subscribe. */
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
/* Sets, by the plan, the servers of now and after the switch. A subscription with a server that stays is kept. */
void client_place(struct client *client, uint32_t number);

/* ---- client_wait.c ---- */

uint64_t client_now(const struct client *client);
/* The clock of the newest state that has arrived, in the cache or in a waiting push. */
uint64_t client_arrived(const struct client_partition *partition);
/* Whether an answer or a push is to come from the partition's servers. */
bool client_awaited(const struct client *client, const struct client_partition *partition);
/* Begins to wait for the partition's servers, unless we wait already. */
void client_wait(const struct client *client, struct client_partition *partition);
/* Sends PULL. With `again` the server repeats the pushes after the state that has arrived. */
void client_pull(struct client *client, uint32_t number, actor_id server, bool again);

/* ---- client_ring.c ---- */

/* The server thread of our node by which a flush of ours travels; ACTOR_NONE: it is sent directly. */
actor_id client_ring_relay(struct client *client, uint32_t number, uint64_t clock, uint64_t *digest);
/* Whether `clock` has a ring, even if we don't use it after losses. */
bool client_ring_there(struct client *client, uint64_t clock);
/* Whether what was sent by a ring at `since_us`, of or up to `clock`, counts as lost when the answer to a PULL shows it
 * to be missing. */
bool client_ring_lost(struct client *client, uint64_t since_us, uint64_t clock);
/* A newer state of the partition has arrived: measures how long that took. */
void client_ring_came(struct client *client, const struct client_partition *partition);
/* A push that was on its way by a ring counts as lost: so do the exchanges of which it is part. */
void client_ring_give_up(struct client_partition *partition);
/* A clock under `self` is to be flushed. */
void client_ring_begin(struct client *client);
/* Another plan is in force: losses before it say nothing. */
void client_ring_plan(struct client *client);

/* ---- client_gather.c ---- */

/* For jobs without staleness: makes rows whose flush was not pushed back yet the base of deltas. gather_rows leaves
 * that to the push, but a clock under another origin of this node may begin before it. With a rounding encoding the
 * base is right already. */
void client_settle_flushed(const struct client *client, const struct client_partition *partition);
/* Retains a gathered flush, or a piece, until it is committed. Takes it over. */
struct retained_flush *client_retain(struct client_partition *partition, struct retained_flush *new);
/* Whether the flush is complete: it is no piece that others of its clock follow. */
static inline bool flush_is_last(const struct retained_flush *flush) {
    return flush->message.flush.more == 0;
}
/* Whether it is a piece of the flush of a clock that has not ended. */
static inline bool flush_is_unfinished(const struct client *client, const struct retained_flush *flush) {
    return client->working && !client->lot.under_way && flush->clock == client->clock &&
           flush->origin == client->origin;
}
/* Adds the rows of the slots in touched[table], counts[table] of them, to the flush, and takes them over. `share` is
 * the factor of changes of averaged tables. */
void client_gather_rows(const struct client *client, struct retained_flush *flush, uint32_t **touched,
                        const uint32_t *counts, double share);
/* Sends it to the partition's server; or, with `first` in this epoch, by the ring if its clock has one. */
void client_send_flush(struct client *client, uint32_t number, struct retained_flush *flush, bool first);
/* Frees the flushes that are committed and are part of the state in the cache. */
void client_release(const struct client *client, struct client_partition *partition);
void client_close_flush(const struct client *client, struct retained_flush *flush);

/* ---- client_pieces.c ---- */

/* An answer to PULL has come: sends what has waited for it. */
void client_pieces_answered(struct client *client, uint32_t number, uint64_t pull);

/* ---- client_push.c ---- */

/* Applies the pushes that waited while the app used the cache. */
void client_apply_waiting(struct client *client);
void client_drop_waiting(struct client_partition *partition);

/* ---- client_apply.c ---- */

/* Applies the rows of a PUSH to the cache. False, with nothing changed, when the message is impossible; `from` is then
 * accused, unless it is ACTOR_NONE. */
bool client_apply(struct client *client, uint32_t number, actor_id from, const struct message *message,
                  enum rows_wanted wanted);
/* Applies the puts of later clocks again. A catch-up may flush a clock after later clocks of ours; rows that both have
 * put must have the later clock's value. */
void client_put_later(struct client *client, const struct client_partition *partition,
                      const struct retained_flush *flush);

/* ---- client_waits.c ---- */

void client_waits_close(struct client *client);
/* Another plan: what was measured does not count any more. */
void client_waits_plan(struct client *client);
/* Whether the present clock's flushes will be sent from the last partition to the first one. */
bool client_waits_descends(struct client *client);
/* A clock of our own has been flushed. */
void client_waits_begin(struct client *client);
/* A push for the partition has come. */
void client_waits_arrived(struct client *client, uint32_t number);

/* ---- client_kept.c ---- */

/* By the plan in force: begins or ends keeping; a clock whose state has come before may be a commit point now. */
void client_kept_plan(struct client *client);
void client_kept_close(const struct client *client, struct client_partition *partition);
/* Rows of a message have been applied to the cache: of a push of changes (ROWS_ALL), or of the answer to a request. */
void client_kept_take(const struct client *client, uint32_t number, const struct message *message,
                      enum rows_wanted wanted);
/* The partition's first state, of this clock, comes. */
void client_kept_begin(struct client_partition *partition, uint64_t clock);
/* The epoch ends, and the pushes that wait will be dropped: keeps those that come next. */
void client_kept_fence(const struct client *client, uint32_t number);
/* Forgets what is behind the committed clock. */
void client_kept_commit(const struct client *client, uint32_t number);
/* Forgets what was pushed after `restore`, before the cache does. */
void client_kept_restore(const struct client *client, uint32_t number, uint64_t restore);

/* ---- client_restore.c ---- */

/* Begins a new epoch: what is known of the servers is forgotten, and the rows seen beyond the plan's `restore` are
 * void. With `missed` an epoch between was missed, and every row is void. */
void client_restore_rows(struct client *client, bool missed);
/* Requests the void rows by portions, once the server has our subscription again. Ends restoring when there are none
 * left: pushes bring them too. */
void client_restore_step(struct client *client, uint32_t number);
/* Sends the open request for void rows: for a portion of those that are void now. */
void client_send_restore(struct client *client, uint32_t number);
/* Sends the flushes beyond the plan's `restore` again. */
void client_send_again(struct client *client);

#endif
