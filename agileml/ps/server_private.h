/* What the parts of a server share: server.c (plans, and a replica's life), server_workers.c (what workers ask),
 * server_follow.c (replicas that follow one another), server_checkpoint.c. */
#ifndef AGILEML_PS_SERVER_PRIVATE_H
#define AGILEML_PS_SERVER_PRIVATE_H

#include "agileml/ps/server.h"
#include "agileml/wire/records.h"

/* The cursor in the FOLLOW of a replica that has every piece of its copy. */
#define FOLLOW_COPIED UINT64_MAX

static inline const struct wire_placement *server_placement(const struct server *server, uint32_t number) {
    return &server->plan.placement[number];
}

/* It serves some clocks of this plan, sooner or later. */
static inline bool replica_may_serve(const struct server *server, const struct server_replica *replica) {
    return plan_serves(&server->plan, replica->partition->id, server->self);
}

/* Its rows are the state that workers are to see. */
static inline bool replica_answers(const struct server_replica *replica) {
    return replica->state == REPLICA_SERVING || replica->state == REPLICA_HANDED_OVER;
}

/* The first clock for which the node of `actor` needs the state, by the plan. */
static inline uint64_t server_needs_from(const struct server *server, actor_id actor) {
    int64_t found = index_map_find(&server->members.index, actor_node(actor));
    return found != INDEX_NONE ? server->members.needs_from[found] : WIRE_CLOCK_NEVER;
}

/* ---- server.c ---- */

/* Goes by a plan that has come, unless it is older than ours; takes it over. */
void server_take_plan(struct server *server, struct plan_view *plan);

/* A failure of this server ends the job: its own node's agent tells the controller. */
void server_fail(struct server *server, const struct error *error);

/* Whether the plan names the actor's node. Nobody else is given rows, and nothing is taken from anybody else. */
bool server_knows(const struct server *server, actor_id actor);

/* `from` has sent a message that can't be, for the reason in `error`; the message has had no effect. The node's agent
 * reports that to the controller, once in an epoch. */
void server_accuse(struct server *server, actor_id from, const struct message *message, const struct error *error);

/* Serves or follows, as the plan says, and applies the clocks that are complete. */
void replica_step(struct server *server, struct server_replica *replica);

/* Raises what is known to be committed. */
void server_commit(struct server *server, uint64_t committed);
/* Applies and forgets what the commit allows. */
void replica_commit(struct server *server, struct server_replica *replica);

/* Counts whether the replica is in step with the plan; tells the agent when that changes something. */
void replica_count_step(struct server *server, struct server_replica *replica);

/* A worker asks what we can't answer yet, as our plan is older than its own, or the other way round: it is to know that
 * we are here, and asks again. */
void server_answer_later(struct server *server, actor_id from, const struct message *message);

/* ---- server_workers.c ---- */

void server_receive_subscribe(struct server *server, struct server_replica *replica, actor_id from,
                              const struct message *message);
void server_receive_pull(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message *pull);
void server_receive_flush(struct server *server, struct server_replica *replica, actor_id from,
                          const struct message *message);
void server_receive_scan(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_scan *scan);

/* Pushes what changed to the subscribers that need it: whose nodes have worked, or begin with the next clock if that is
 * ours. Nothing but how far it is durable where nothing changed, or, `missed`, nothing at all. */
void replica_push(struct server *server, struct server_replica *replica, bool missed);
/* Answers the scans that waited for the replica's clock. */
void replica_scans(struct server *server, const struct server_replica *replica);

/* ---- server_follow.c ---- */

void server_receive_follow(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow);
void server_receive_update(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message *update);

/* Sends what changed to the followers, at a commit point. */
void replica_update(struct server *server, struct server_replica *replica);
/* Drops what is known of followers that the plan does not name; of all when it is another epoch's. */
void server_prune_followers(const struct server *server, struct server_replica *replica, bool all);
/* Says how far it is, if it follows, and again when nothing is heard. */
void replica_follow(struct server *server, struct server_replica *replica);
/* It has followed as far as it has to, or nearly. */
bool replica_follows_closely(const struct server *server, const struct server_replica *replica);
/* Takes the present state of its followers into account. True when more became durable. */
bool replica_raise_durable(const struct server *server, struct server_replica *replica);
/* It stands at the last commit point that workers can come to before more is committed, and the backup that is to make
 * it durable is still being copied: that can only catch up at a commit point, so here. */
bool replica_waits_for_copy(const struct server *server, const struct server_replica *replica);

/* ---- server_checkpoint.c ---- */

void server_receive_checkpoint(struct server *server, const struct message *message);
/* Has the checkpoint written that was asked for if this is its clock; says so if it can't be any more. */
void replica_checkpoint(struct server *server, struct server_replica *replica);
/* Says that the checkpoint that was asked for, if any, will not be written. */
void replica_no_checkpoint(struct server *server, struct server_replica *replica, const char *why);

#endif
