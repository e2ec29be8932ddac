/* What the files of a server share. Each file calls only those listed after it:
 *
 *   server.c             plans, a replica's states, the dispatch of messages
 *   server_follow.c      replicas that follow one another
 *   server_workers.c     workers' requests
 *   server_relay.c       the node's part in a ring
 *   server_checkpoint.c  commits, and writing checkpoints
 *   server_answers.c     reports to the agent, and answers to requests that come too early */
#ifndef AGILEML_PS_SERVER_PRIVATE_H
#define AGILEML_PS_SERVER_PRIVATE_H

#include "agileml/ps/server.h"
#include "agileml/wire/records.h"

#include <assert.h>

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

/* Changes the replica's state as drawn in server.h. */
static inline void replica_set(struct server_replica *replica, enum replica_state to) {
    static const unsigned legal[] = {
        [REPLICA_COPYING] = 1 << REPLICA_COPYING | 1 << REPLICA_FOLLOWING,
        [REPLICA_FOLLOWING] = 1 << REPLICA_FOLLOWING | 1 << REPLICA_SERVING,
        [REPLICA_SERVING] = 1 << REPLICA_FOLLOWING | 1 << REPLICA_HANDED_OVER,
        [REPLICA_HANDED_OVER] = 1 << REPLICA_FOLLOWING | 1 << REPLICA_SERVING,
    };
    assert((legal[replica->state] >> to & 1) != 0);
    replica->state = to;
}

/* Returns the first clock that the plan assigns to the actor's node; WIRE_CLOCK_NEVER: none. */
static inline uint64_t server_needs_from(const struct server *server, actor_id actor) {
    int64_t found = index_map_find(&server->members.index, actor_node(actor));
    return found != INDEX_NONE ? server->members.needs_from[found] : WIRE_CLOCK_NEVER;
}

static inline actor_id server_agent(const struct server *server) {
    return actor_of_part(server->self, 0);
}

/* Whether the plan names the actor's node. To and from unnamed nodes the server sends and takes no rows. */
static inline bool server_knows(const struct server *server, actor_id actor) {
    return index_map_find(&server->members.index, actor_node(actor)) != INDEX_NONE;
}

static inline struct server_replica *server_replica_of(const struct server *server, uint32_t number) {
    return number < server->partition_count && server->replicas[number].partition != NULL ? &server->replicas[number]
                                                                                          : NULL;
}

/* ---- server_answers.c ---- */

/* Reports a failure of this server to its agent. The failure ends the job. */
void server_fail(struct server *server, const struct error *error);

/* Returns the partition that the message is about; UINT32_MAX: the message has no partition. */
uint32_t server_partition_of(const struct message *message);

/* Reports to the agent, at most once an epoch, that `from` has sent an impossible message. `error` has the reason. Call
 * it only for a message that has had no effect. */
void server_accuse(struct server *server, actor_id from, const struct message *message, const struct error *error);

/* Answers a worker's SUBSCRIBE or PULL without state, for example when the plans of worker and server differ. So the
 * worker knows that this server is alive, and repeats its request. Does nothing for other messages. */
void server_answer_later(struct server *server, actor_id from, const struct message *message);

/* ---- server_workers.c ---- */

void server_receive_subscribe(struct server *server, struct server_replica *replica, actor_id from,
                              const struct message *message);
void server_receive_pull(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message *pull);
/* Returns true when the replica may be able to advance: the caller then calls replica_step. */
bool server_receive_flush(struct server *server, struct server_replica *replica, actor_id from,
                          const struct message *message);
/* Takes a flush that travels by a ring, as the partition's server or as our node's relay. Returns true when the
 * partition's replica may be able to advance. */
bool server_receive_ring_flush(struct server *server, actor_id from, const struct message *message);
void server_receive_scan(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_scan *scan);

/* Pushes the changed rows to the subscribers that need them: the nodes that work already, and those that begin with the
 * next clock, if this server serves that clock. A subscriber that has been sent the present clock gets a PUSH without
 * rows, which reports the durable clock. With `missed` such a subscriber gets no PUSH. */
void replica_push(struct server *server, struct server_replica *replica, bool missed);
/* Answers the SCANs that waited for the replica's clock. */
void replica_scans(struct server *server, const struct server_replica *replica);

/* ---- server_follow.c ---- */

/* Both return true when the replica may be able to advance. */
bool server_receive_follow(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow);
bool server_receive_update(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message *update);

/* At a commit point, sends the followers what changed. */
void replica_update(struct server *server, struct server_replica *replica);
/* Forgets the followers that the plan does not name, or `all`. */
void server_prune_followers(const struct server *server, struct server_replica *replica, bool all);
/* If the replica follows a server, reports the replica's clock to that server until it answers. */
void replica_follow(struct server *server, struct server_replica *replica);
/* Whether the replica is at most one commit interval behind the newest update that it heard of, or follows no
 * server. */
bool replica_follows_closely(const struct server *server, const struct server_replica *replica);
/* Recomputes the durable clock from the followers' states. Returns true when it rose. */
bool replica_raise_durable(const struct server *server, struct server_replica *replica);
/* Whether the replica must not advance, so that the backup that is copied from it can catch up. The backup can catch up
 * only at a commit point. So this returns true at the last commit point that workers can reach before more is
 * committed. */
bool replica_waits_for_copy(const struct server *server, const struct server_replica *replica);

/* ---- server_relay.c ---- */

/* Takes our node's flush, or the sum of the nodes before it in the chain. When both have arrived, sends their sum to
 * the next node. */
void server_relay_flush(struct server *server, actor_id from, const struct message *message,
                        const struct ring_chain *chain);
/* To be called when a plan comes into force. Drops what waits for clocks that are committed or have no ring any
 * more. */
void server_relay_plan(struct server *server);
/* Takes a push that travels by a ring: sends it to our node's client and to the next node. */
void server_relay_push(struct server *server, actor_id from, const struct message *message);
/* Sends to a server of another node, and connects to it first if necessary. Takes over the message's frames. */
void server_relay_send(struct server *server, actor_id to, struct message *message);
/* Drops everything that waits at the relay, as the epoch is over. */
void server_forget_relayed(struct server *server);

/* ---- server_checkpoint.c ---- */

/* Raises the committed clock of the server, if `committed` is higher, and of all its replicas. */
void server_commit(struct server *server, uint64_t committed);
/* Applies the held updates up to the committed clock. Frees what was kept to go back to earlier clocks. */
void replica_commit(struct server *server, struct server_replica *replica);

void server_receive_checkpoint(struct server *server, const struct message *message);
/* Starts to write the requested checkpoint if the replica is at the checkpoint's clock. Refuses the request if the
 * replica has passed that clock. */
void replica_checkpoint(struct server *server, struct server_replica *replica);
/* Refuses the requested checkpoint, unless there is none or it is being written. */
void replica_no_checkpoint(struct server *server, struct server_replica *replica, const char *why);
/* Reports the result of a checkpoint's file, and commits what waited for it. See server_written. */
void server_checkpoint_written(struct server *server, const struct message_written *written);

#endif
