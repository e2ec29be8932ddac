/* What the parts of a server share: server.c (plans, and a replica's life), server_workers.c (workers' requests),
 * server_follow.c (replicas that follow one another), server_relay.c (its node's part in a ring), server_checkpoint.c
 * (writing checkpoints). */
#ifndef AGILEML_PS_SERVER_PRIVATE_H
#define AGILEML_PS_SERVER_PRIVATE_H

#include "agileml/ps/server.h"
#include "agileml/wire/records.h"

/* The cursor in the FOLLOW of a replica that has every piece of its copy. */
#define FOLLOW_COPIED UINT64_MAX

static inline const struct wire_placement *server_placement(const struct server *server, uint32_t number) {
    return &server->plan.placement[number];
}

/* Whether the plan names this server as the replica's server for some clocks. */
static inline bool replica_may_serve(const struct server *server, const struct server_replica *replica) {
    return plan_serves(&server->plan, replica->partition->id, server->self);
}

/* Whether workers may read the replica's rows. */
static inline bool replica_answers(const struct server_replica *replica) {
    return replica->state == REPLICA_SERVING || replica->state == REPLICA_HANDED_OVER;
}

/* The first clock that the plan assigns to the actor's node; WIRE_CLOCK_NEVER: none. */
static inline uint64_t server_needs_from(const struct server *server, actor_id actor) {
    int64_t found = index_map_find(&server->members.index, actor_node(actor));
    return found != INDEX_NONE ? server->members.needs_from[found] : WIRE_CLOCK_NEVER;
}

/* ---- server.c ---- */

/* Puts a newly received plan in force, unless it is older than the present one. Takes ownership of it. */
void server_take_plan(struct server *server, struct plan_view *plan);

/* Reports a failure of this server to its agent. The failure ends the job. */
void server_fail(struct server *server, const struct error *error);

/* Whether the plan names the actor's node. The server sends no rows to other nodes and takes nothing from them. */
bool server_knows(const struct server *server, actor_id actor);

/* Reports to the agent, at most once an epoch, that `from` has sent an impossible message, for the reason in `error`.
 * Call it only for a message that has had no effect. */
void server_accuse(struct server *server, actor_id from, const struct message *message, const struct error *error);

/* Promotes the replica or hands it over where the plan says so, and applies the clocks that are complete. */
void replica_step(struct server *server, struct server_replica *replica);

/* Raises the committed clock of the server, if `committed` is higher, and of all its replicas. */
void server_commit(struct server *server, uint64_t committed);
/* Applies the held updates up to the committed clock and frees what was kept for going back behind it. */
void replica_commit(struct server *server, struct server_replica *replica);

/* Counts whether the replica is in step (struct server_replica). Reports to the agent when the server as a whole comes
 * into step or falls out of it. */
void replica_count_step(struct server *server, struct server_replica *replica);

/* Answers a worker's SUBSCRIBE or PULL without state, as the plans of worker and server differ. The worker thus knows
 * that this server lives, and repeats its request. Does nothing for other messages. */
void server_answer_later(struct server *server, actor_id from, const struct message *message);

/* ---- server_workers.c ---- */

void server_receive_subscribe(struct server *server, struct server_replica *replica, actor_id from,
                              const struct message *message);
void server_receive_pull(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message *pull);
void server_receive_flush(struct server *server, struct server_replica *replica, actor_id from,
                          const struct message *message);
/* A flush that travels by a ring: for the partition's server, or for our relay. */
void server_receive_ring_flush(struct server *server, actor_id from, const struct message *message);
void server_receive_scan(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_scan *scan);

/* Pushes the changed rows to the subscribers that need them: the nodes that work already, and those that begin with the
 * next clock if this server serves that. A subscriber that was sent the present clock before gets a PUSH without rows,
 * for the durable clock; with `missed` it gets none. */
void replica_push(struct server *server, struct server_replica *replica, bool missed);
/* Answers the SCANs that waited for the replica's clock. */
void replica_scans(struct server *server, const struct server_replica *replica);

/* ---- server_follow.c ---- */

void server_receive_follow(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow);
void server_receive_update(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message *update);

/* At a commit point, sends the followers what changed. */
void replica_update(struct server *server, struct server_replica *replica);
/* Forgets the followers that the plan does not name, or `all`. */
void server_prune_followers(const struct server *server, struct server_replica *replica, bool all);
/* Reports the replica's clock to the server that it follows, if it follows one, until that server answers. */
void replica_follow(struct server *server, struct server_replica *replica);
/* Whether the replica has the newest update that it heard of, or is at most one commit interval behind. */
bool replica_follows_closely(const struct server *server, const struct server_replica *replica);
/* Recomputes from the followers' states what is durable. True when the durable clock rose. */
bool replica_raise_durable(const struct server *server, struct server_replica *replica);
/* Whether the replica must not advance, so that the backup being copied from it can catch up, which it can do only at a
 * commit point. True at the last commit point that workers can reach before more is committed. */
bool replica_waits_for_copy(const struct server *server, const struct server_replica *replica);

/* ---- server_relay.c ---- */

/* Takes our node's flush, or the sum of the nodes before it in the chain. When both are here, sends the sum on. */
void server_relay_flush(struct server *server, actor_id from, const struct message *message,
                        const struct ring_chain *chain);
/* A plan is in force: forgets what waits for clocks that are committed, or have no ring any more. */
void server_relay_plan(struct server *server);
/* Hands a push that has come by a ring to our node's client, and passes it on. */
void server_relay_push(struct server *server, actor_id from, const struct message *message);
/* Sends to a server of another node, which this one may not have connected to yet. Takes over the message's frames. */
void server_relay_send(struct server *server, actor_id to, struct message *message);
/* Forgets all that waits: the epoch is over. */
void server_forget_relayed(struct server *server);

/* ---- server_checkpoint.c ---- */

void server_receive_checkpoint(struct server *server, const struct message *message);
/* Starts to write the requested checkpoint if the replica is at its clock; refuses it if the replica has passed it. */
void replica_checkpoint(struct server *server, struct server_replica *replica);
/* Refuses the requested checkpoint, if there is one that is not being written. */
void replica_no_checkpoint(struct server *server, struct server_replica *replica, const char *why);

#endif
