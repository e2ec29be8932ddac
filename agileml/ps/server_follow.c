/* Replicas that follow one another: updates, copies, and what they make durable. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdlib.h>
#include <string.h>

static bool is_follower(const struct server *server, uint32_t number, actor_id actor) {
    return actor != ACTOR_NONE && plan_has_role(&server->plan, number, actor);
}

/* It has a part in the clock after `clock`, so it is to have the state of that one too. */
static bool follows_beyond(const struct server *server, uint32_t number, actor_id actor, uint64_t clock) {
    const struct wire_placement *placement = server_placement(server, number);
    return clock + 1 < server->plan.terms.from_clock || actor == placement->next_server ||
           actor == placement->next_backup;
}

/* ---- The side that serves ---- */

static struct server_follower *follower_find(const struct server_replica *replica, actor_id actor) {
    for (unsigned f = 0; f < replica->follower_count; f++) {
        if (replica->followers[f].actor == actor) {
            return &replica->followers[f];
        }
    }
    return NULL;
}

static struct server_follower *follower_make(struct server_replica *replica, actor_id actor) {
    struct server_follower *found = follower_find(replica, actor);
    if (found != NULL) {
        return found;
    }
    replica->followers = memory_resized(replica->followers, replica->follower_count + 1, sizeof *replica->followers);
    replica->followers[replica->follower_count] = (struct server_follower){.actor = actor};
    return &replica->followers[replica->follower_count++];
}

/* Forgets the oldest updates, up to `clock`. */
static void updates_drop(struct server_follower *follower, uint64_t clock) {
    unsigned dropped = 0;
    while (dropped < follower->update_count && follower->updates[dropped].update.clock <= clock) {
        message_close(&follower->updates[dropped++]);
    }
    if (dropped > 0) {
        follower->update_count -= dropped;
        memmove(follower->updates, follower->updates + dropped, follower->update_count * sizeof *follower->updates);
    }
}

void server_prune_followers(const struct server *server, struct server_replica *replica, bool all) {
    unsigned kept = 0;
    for (unsigned f = 0; f < replica->follower_count; f++) {
        struct server_follower *follower = &replica->followers[f];
        if (!all && is_follower(server, replica->partition->id, follower->actor)) {
            replica->followers[kept++] = *follower;
        } else {
            updates_drop(follower, UINT64_MAX);
            free(follower->updates);
        }
    }
    replica->follower_count = kept;
}

static void send_update(struct server *server, const struct server_follower *follower, const struct message *update) {
    struct message copy = message_share(update);
    copy.update.committed = server->committed;
    server->io->send(server->io, follower->actor, &copy);
}

/* What changed since the last update to this follower: shared with another one who gets the same. */
static int build_update(struct server *server, struct server_replica *replica, uint64_t from_clock,
                        struct message *update) {
    for (unsigned f = 0; f < replica->follower_count; f++) {
        const struct server_follower *other = &replica->followers[f];
        const struct message *last = other->update_count > 0 ? &other->updates[other->update_count - 1] : NULL;
        if (last != NULL && last->update.from_clock == from_clock && last->update.clock == replica->partition->clock) {
            *update = message_share(last);
            return 0;
        }
    }
    struct error error = {0};
    *update = (struct message){.type = MESSAGE_UPDATE, .epoch = server->epoch};
    update->update.partition = replica->partition->id;
    update->update.from_clock = from_clock;
    update->update.clock = replica->partition->clock;
    int result = partition_changed(replica->partition, from_clock, update, &error);
    if (result != 0) {
        server_fail(server, &error);
    }
    return result;
}

/* Who makes clocks durable before the boundary: where there is no backup yet, the one to come. */
static actor_id backup_now(const struct wire_placement *placement) {
    return placement->backup != ACTOR_NONE ? placement->backup : placement->next_backup;
}

/* Whether a follower is to have the state of this commit point. A follower that only gets ready for the plan's next
 * half has the commit points of that half alone: each of them takes the links that others work with. */
static bool follower_needs(const struct server *server, uint32_t number, actor_id follower, uint64_t clock) {
    const struct message_plan *plan = &server->plan.terms;
    bool of_next = clock % plan->next_commit_every == 0 || clock + 1 == plan->from_clock || clock == plan->from_clock ||
                   clock == plan->final;
    return of_next || backup_now(server_placement(server, number)) == follower;
}

/* At a commit point, sends a follower what it lacks. */
static void follower_update(struct server *server, struct server_replica *replica, struct server_follower *follower) {
    uint64_t clock = replica->partition->clock;
    bool catches_up = follower->state == FOLLOWER_COPIED && follower->update_count == 0;
    if (follower->state == FOLLOWER_COPYING || !(follower->sent < clock || catches_up) ||
        !plan_is_commit_point(&server->plan, clock) ||
        !(catches_up || follower_needs(server, replica->partition->id, follower->actor, clock)) ||
        !follows_beyond(server, replica->partition->id, follower->actor, clock - (clock > 0))) {
        return;
    }
    if (follower->update_count == SERVER_UPDATES_MAX) {
        updates_drop(follower, UINT64_MAX);
        follower->sent = follower->state == FOLLOWER_CAUGHT_UP ? follower->reached : follower->copied_from;
    }
    struct message update;
    if (build_update(server, replica, follower->sent, &update) != 0) {
        return;
    }
    follower->updates = memory_resized(follower->updates, follower->update_count + 1, sizeof *follower->updates);
    follower->updates[follower->update_count++] = update;
    follower->sent = clock;
    send_update(server, follower, &update);
}

void replica_update(struct server *server, struct server_replica *replica) {
    for (unsigned f = 0; f < replica->follower_count; f++) {
        follower_update(server, replica, &replica->followers[f]);
    }
}

static void send_piece(struct server *server, struct server_replica *replica, struct server_follower *follower,
                       uint64_t cursor) {
    struct message piece = {.type = MESSAGE_UPDATE, .epoch = server->epoch};
    piece.update.partition = replica->partition->id;
    piece.update.piece = 1;
    piece.update.from_clock = follower->copied_from;
    piece.update.clock = replica->partition->clock;
    piece.update.committed = server->committed;
    piece.update.cursor = cursor;
    piece.update.next = partition_piece(replica->partition, cursor, SERVER_SCAN_BYTES, &piece);
    follower->cursor = cursor;
    server->io->send(server->io, follower->actor, &piece);
}

static void send_updates_again(struct server *server, const struct server_follower *follower) {
    for (unsigned u = 0; u < follower->update_count; u++) {
        send_update(server, follower, &follower->updates[u]);
    }
}

/* What it asks for, if there is any, was sent before: that is on its way, or else it asks for it `again`. */
static void send_sent(struct server *server, const struct server_replica *replica,
                      const struct server_follower *follower, uint64_t number) {
    struct message sent = {.type = MESSAGE_UPDATE, .epoch = server->epoch};
    sent.update.partition = replica->partition->id;
    sent.update.committed = server->committed;
    sent.update.follow = number;
    if (follower->update_count > 0) {
        sent.update.from_clock = follower->updates[0].update.from_clock;
        sent.update.clock = follower->sent;
    } else if (follower->cursor != FOLLOW_COPIED) {
        sent.update.piece = 1;
        sent.update.from_clock = follower->copied_from;
        sent.update.clock = replica->partition->clock;
        sent.update.cursor = follower->cursor;
    } else {
        return;
    }
    server->io->send(server->io, follower->actor, &sent);
}

/* A follower that has not caught up requests a piece of the copy, or what changed since the copy began. However often
 * it begins anew, what changed since the first time lets it catch up. */
static void follow_copying(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow) {
    struct server_follower *follower = follower_find(replica, from);
    uint64_t cursor = follow->cursor;
    if (follower == NULL || follower->state == FOLLOWER_CAUGHT_UP) {
        follower = follower_make(replica, from);
        updates_drop(follower, UINT64_MAX);
        *follower = (struct server_follower){.actor = from,
                                             .state = FOLLOWER_COPYING,
                                             .copied_from = replica->partition->clock,
                                             .cursor = FOLLOW_COPIED,
                                             .updates = follower->updates};
        cursor = 0;
    } else if (cursor != 0 && follow->clock != follower->copied_from) {
        cursor = 0; /* it is at a copy that we know nothing of */
    }
    if (cursor == FOLLOW_COPIED && follower->state == FOLLOWER_COPYING) {
        follower->state = FOLLOWER_COPIED;
        follower->cursor = FOLLOW_COPIED;
        follower->sent = follower->copied_from;
        follower_update(server, replica, follower);
    } else if (cursor != FOLLOW_COPIED && (cursor != follower->cursor || follow->again)) {
        follower->state = FOLLOWER_COPYING;
        updates_drop(follower, UINT64_MAX);
        send_piece(server, replica, follower, cursor);
    } else if (follow->again) {
        send_updates_again(server, follower);
    } else {
        send_sent(server, replica, follower, follow->number);
    }
}

/* An update that spans a commit point leaves nothing that could be put at it. */
static bool points_between(const struct server *server, uint64_t after, uint64_t before) {
    uint64_t clock = after + 1;
    while (clock < before && !plan_is_commit_point(&server->plan, clock)) {
        clock++;
    }
    return clock < before;
}

/* What we did not send it, or not point by point, it has only at the end. */
static void follower_find_caught_up_from(const struct server *server, struct server_follower *follower,
                                         uint64_t clock) {
    uint64_t at = follower->reached;
    for (unsigned u = 0; u < follower->update_count && follower->updates[u].update.clock <= clock; u++) {
        uint64_t next = follower->updates[u].update.clock;
        if (points_between(server, at, next)) {
            follower->caught_up_from = next;
        }
        at = next;
    }
    if (follower->state != FOLLOWER_CAUGHT_UP || at != clock) {
        follower->caught_up_from = clock;
    }
}

/* Its state is that of `clock`: updates up to there need not be kept. */
static void follower_came_to(const struct server *server, struct server_follower *follower, uint64_t clock) {
    follower_find_caught_up_from(server, follower, clock);
    updates_drop(follower, clock);
    follower->state = FOLLOWER_CAUGHT_UP;
    follower->cursor = FOLLOW_COPIED;
    follower->reached = clock;
    if (follower->sent < clock || follower->update_count == 0) {
        updates_drop(follower, UINT64_MAX);
        follower->sent = clock;
    }
}

static void follow_caught_up(struct server *server, struct server_replica *replica, actor_id from,
                             const struct message_follow *follow) {
    struct server_follower *follower = follower_find(replica, from);
    if (follower == NULL && !replica_answers(replica)) {
        return;
    }
    follower = follower_make(replica, from);
    if (follower->state == FOLLOWER_CAUGHT_UP && follow->clock < follower->reached) {
        return;
    }
    bool news = follower->state != FOLLOWER_CAUGHT_UP || follow->clock > follower->reached;
    if (news) {
        follower_came_to(server, follower, follow->clock);
    }
    if (follow->again) {
        send_updates_again(server, follower);
    } else if (!news) {
        send_sent(server, replica, follower, follow->number);
    }
    if (news && replica_answers(replica)) {
        follower_update(server, replica, follower);
        if (replica_raise_durable(server, replica)) {
            replica_push(server, replica, false);
        }
    }
}

void server_receive_follow(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow) {
    if (replica->state == REPLICA_COPYING || from == server->self ||
        !is_follower(server, replica->partition->id, from)) {
        return;
    }
    if (!follow->caught_up && replica_answers(replica)) {
        follow_copying(server, replica, from, follow);
    } else if (follow->caught_up && follow->clock <= replica->partition->clock) {
        follow_caught_up(server, replica, from, follow);
        replica_step(server, replica); /* it may have waited for this */
    }
}

/* ---- What is durable ---- */

/* From where to where a reliable machine has the state at every commit point; nothing: 0 to 0. */
struct durable {
    uint64_t from, until;
};

/* What a follower has, up to `most`. */
static struct durable follower_has(const struct server_replica *replica, actor_id actor, uint64_t most) {
    const struct server_follower *follower = follower_find(replica, actor);
    struct durable has = {0, 0};
    if (follower != NULL && follower->state == FOLLOWER_CAUGHT_UP) {
        has.from = follower->caught_up_from;
        has.until = follower->reached < most ? follower->reached : most;
    }
    return has.from <= has.until ? has : (struct durable){0, 0};
}

/* What a transient server's backups make durable: of clocks below the boundary the old one or the new one, if that has
 * come as far as the boundary; of the others only the new one. */
static struct durable backups_have(const struct server *server, const struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    uint64_t boundary = server->plan.terms.from_clock - 1;
    struct durable below = {0, 0};
    if (placement->server == server->self) {
        below = follower_has(replica, backup_now(placement), boundary);
    }
    struct durable above = follower_has(replica, placement->next_backup, WIRE_CLOCK_NEVER);
    return above.until >= boundary && above.until > below.until ? above : below;
}

/* What is durable by itself, also where the plan names no backup, having found no reliable machine (one may have come
 * since): then there is nothing to wait for. Commit points only: other partitions can't be put at another clock, if
 * that became the least of all. */
static struct durable own_has(const struct server *server, const struct server_replica *replica) {
    const struct partition *partition = replica->partition;
    struct durable has = {.until = partition->clock};
    if (!server->plan.terms.recoverable) {
        return has;
    }
    if (!plan_is_commit_point(&server->plan, partition->clock)) {
        return (struct durable){0, 0};
    }
    has.from = partition->clock;
    for (unsigned p = partition->point_count;
         p > 0 && !points_between(server, partition->points[p - 1].clock, has.from); p--) {
        has.from = partition->points[p - 1].clock;
    }
    return has;
}

bool replica_raise_durable(const struct server *server, struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    bool followed = placement->backup != ACTOR_NONE || placement->next_backup != ACTOR_NONE;
    bool own = server->reliable || !server->plan.terms.recoverable || !followed;
    struct durable has = own ? own_has(server, replica) : backups_have(server, replica);
    if (has.until <= replica->durable) {
        return false;
    }
    replica->durable = has.until;
    replica->durable_from = has.from;
    return true;
}

bool replica_waits_for_copy(const struct server *server, const struct server_replica *replica) {
    const struct message_plan *plan = &server->plan.terms;
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    uint64_t clock = replica->partition->clock;
    actor_id backup = clock < plan->from_clock ? backup_now(placement) : placement->next_backup;
    const struct server_follower *follower = follower_find(replica, backup);
    if (server->reliable || !plan->recoverable || backup == ACTOR_NONE ||
        (follower != NULL && follower->state == FOLLOWER_CAUGHT_UP) || !plan_is_commit_point(&server->plan, clock)) {
        return false;
    }
    uint64_t next = plan_next_commit_point(&server->plan, clock + 1);
    return next > server->committed + 1 + server->job->staleness + plan->window;
}

/* ---- The side that follows ---- */

/* Whom it is to follow now; ACTOR_NONE: nobody, or not any more. */
static actor_id replica_leader(const struct server *server, const struct server_replica *replica) {
    uint32_t number = replica->partition->id;
    const struct wire_placement *placement = server_placement(server, number);
    uint64_t reached = partition_reached(replica->partition);
    actor_id leader = placement->server;
    if (replica->state != REPLICA_COPYING) {
        leader = follows_beyond(server, number, server->self, reached)
                     ? plan_server_at(&server->plan, reached + 1, number)
                     : ACTOR_NONE;
    } else if (server->plan.terms.from_clock != WIRE_CLOCK_NEVER && placement->next_server != server->self) {
        leader = placement->next_server;
    }
    return replica->state == REPLICA_SERVING || leader == server->self ? ACTOR_NONE : leader;
}

bool replica_follows_closely(const struct server *server, const struct server_replica *replica) {
    const struct message_plan *plan = &server->plan.terms;
    uint32_t every = plan->commit_every > plan->next_commit_every ? plan->commit_every : plan->next_commit_every;
    return replica_leader(server, replica) == ACTOR_NONE ||
           partition_reached(replica->partition) + every >= replica->following.heard;
}

/* Followers connect to those whom they follow; these answer. */
static void connect_leader(const struct server *server, actor_id leader) {
    const char *endpoint = plan_endpoint(&server->plan, leader);
    if (endpoint != NULL && actor_node(leader) != actor_node(server->self)) {
        server->io->connect(server->io, leader, endpoint);
    }
}

static void send_follow(struct server *server, struct server_replica *replica, actor_id leader, bool again) {
    connect_leader(server, leader);
    struct message follow = {.type = MESSAGE_FOLLOW, .epoch = server->epoch};
    follow.follow.partition = replica->partition->id;
    follow.follow.number = ++replica->following.number;
    follow.follow.again = again;
    bool caught_up = replica->state != REPLICA_COPYING;
    follow.follow.caught_up = caught_up;
    follow.follow.clock = caught_up ? partition_reached(replica->partition) : replica->following.copy_from;
    follow.follow.cursor = caught_up ? 0 : replica->following.cursor;
    server->io->send(server->io, leader, &follow);
}

static void follow_later(struct server *server, struct server_replica *replica, uint64_t wait_us) {
    replica->following.retry_wait_us = wait_us < SERVER_FOLLOW_RETRY_MAX_US ? wait_us : SERVER_FOLLOW_RETRY_MAX_US;
    replica->following.retry_us = server->io->now_us(server->io) + replica->following.retry_wait_us;
    if (server->timer_us == 0 || replica->following.retry_us < server->timer_us) {
        server->timer_us = replica->following.retry_us;
        server->io->set_timer(server->io, server->timer_us);
    }
}

/* Says how far it is to `answer`, who sent an update, and to the one it is to follow. */
static void follow_tell(struct server *server, struct server_replica *replica, actor_id answer) {
    actor_id leader = replica_leader(server, replica);
    replica->following.retry_us = 0;
    if (answer != ACTOR_NONE) {
        send_follow(server, replica, answer, false);
    }
    if (leader != ACTOR_NONE) {
        if (leader != answer) {
            send_follow(server, replica, leader, false);
        }
        follow_later(server, replica, SERVER_FOLLOW_RETRY_US);
    }
}

void replica_follow(struct server *server, struct server_replica *replica) {
    follow_tell(server, replica, ACTOR_NONE);
}

void server_timer(void *self) {
    struct server *server = self;
    uint64_t now = server->io->now_us(server->io);
    server->timer_us = 0;
    for (uint32_t p = 0; p < server->partition_count && !server->fenced; p++) {
        struct server_replica *replica = &server->replicas[p];
        actor_id leader = replica->partition != NULL && replica->following.retry_us != 0
                              ? replica_leader(server, replica)
                              : ACTOR_NONE;
        if (leader == ACTOR_NONE) {
            continue;
        }
        if (replica->following.retry_us <= now) {
            send_follow(server, replica, leader, false);
            follow_later(server, replica, 2 * replica->following.retry_wait_us);
        } else if (server->timer_us == 0 || replica->following.retry_us < server->timer_us) {
            server->timer_us = replica->following.retry_us;
        }
    }
    if (server->timer_us != 0) {
        server->io->set_timer(server->io, server->timer_us);
    }
}

/* An update has been taken with this result. True when that went well; a bad update is its sender's failure. */
static bool update_taken(struct server *server, actor_id from, const struct message *update, int result,
                         const struct error *error) {
    if (result == AML_EPROTOCOL) {
        server_accuse(server, from, update, error);
    } else if (result != 0) {
        server_fail(server, error);
    }
    return result == 0;
}

/* Of a copy, the piece asked for, or the first one of another copy. Taken: true. */
static bool take_piece(struct server *server, struct server_replica *replica, actor_id from,
                       const struct message *message) {
    const struct message_update *update = &message->update;
    struct error error = {0};
    bool expected = update->cursor == replica->following.cursor && update->from_clock == replica->following.copy_from;
    if (replica->state != REPLICA_COPYING || !(expected || update->cursor == 0)) {
        return false;
    }
    int result = partition_fill(replica->partition, message, &error);
    if (!update_taken(server, from, message, result, &error)) {
        return false;
    }
    replica->following.copy_from = update->from_clock;
    replica->following.cursor = update->next != 0 ? update->next : FOLLOW_COPIED;
    return true;
}

/* Takes what changed since the copy began, so that it catches up, or the next update. False: it is not taken. */
static bool take_update(struct server *server, struct server_replica *replica, actor_id from,
                        const struct message *message) {
    const struct message_update *update = &message->update;
    struct error error = {0};
    int result;
    replica->following.heard = update->clock > replica->following.heard ? update->clock : replica->following.heard;
    if (replica->state == REPLICA_COPYING) {
        if (replica->following.cursor != FOLLOW_COPIED || update->from_clock > replica->following.copy_from) {
            return false;
        }
        result = partition_fill(replica->partition, message, &error);
        replica->state = result == 0 ? REPLICA_FOLLOWING : REPLICA_COPYING;
    } else {
        uint64_t reached = partition_reached(replica->partition);
        if (update->clock <= reached || update->from_clock > reached) {
            return false; /* a repeat, or one before it is missing: our next FOLLOW tells */
        }
        result = partition_hold(replica->partition, message, &error);
    }
    return update_taken(server, from, message, result, &error);
}

/* What was sent, as the answer to a FOLLOW tells, would be taken if it came now, and should have come before that. */
static bool update_lost(const struct server_replica *replica, const struct message_update *sent) {
    if (replica->state != REPLICA_COPYING) {
        return !sent->piece && sent->clock > partition_reached(replica->partition);
    }
    if (!sent->piece) {
        return replica->following.cursor == FOLLOW_COPIED && sent->from_clock <= replica->following.copy_from;
    }
    return sent->cursor == (sent->from_clock == replica->following.copy_from ? replica->following.cursor : 0);
}

/* Has sent again what was lost, once, however many answers tell so before it comes. */
static void receive_sent(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_update *sent) {
    if (sent->follow > replica->following.again && update_lost(replica, sent)) {
        send_follow(server, replica, from, true);
        replica->following.again = replica->following.number;
    }
}

void server_receive_update(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message *update) {
    if (replica->state == REPLICA_SERVING || !plan_serves(&server->plan, update->update.partition, from)) {
        return;
    }
    bool taken = false;
    if (update->update.follow != 0) {
        receive_sent(server, replica, from, &update->update);
    } else {
        taken = (update->update.piece ? take_piece : take_update)(server, replica, from, update);
    }
    server_commit(server, update->update.committed);
    if (taken) {
        replica_commit(server, replica);
        follow_tell(server, replica, from);
        replica_step(server, replica);
    }
    replica_count_step(server, replica);
}
