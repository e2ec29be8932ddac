/* How a replica follows a server's replica: first by a copy of the rows, then by updates. Also computes the durable
 * clock from what followers have. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdlib.h>
#include <string.h>

static bool is_follower(const struct server *server, uint32_t number, actor_id actor) {
    return actor != ACTOR_NONE && plan_has_role(&server->plan, number, actor);
}

/* Whether the follower has a role in the clock after `clock`, and so needs the state at that clock too. */
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

/* Changes the follower's state as drawn in server.h. */
static void follower_become(struct server_follower *follower, enum follower_state state) {
    static const unsigned legal[] = {
        [FOLLOWER_COPYING] = 1 << FOLLOWER_COPYING | 1 << FOLLOWER_COPIED | 1 << FOLLOWER_CAUGHT_UP,
        [FOLLOWER_COPIED] = 1 << FOLLOWER_COPYING | 1 << FOLLOWER_CAUGHT_UP,
        [FOLLOWER_CAUGHT_UP] = 1 << FOLLOWER_COPYING | 1 << FOLLOWER_CAUGHT_UP,
    };
    assert((legal[follower->state] >> state & 1) != 0);
    follower->state = state;
}

/* Checks what must hold of a follower between two messages: it was sent nothing beyond our clock, its unanswered
 * updates end with what was sent last, and only a follower that copies has a piece outstanding. */
static void check_follower(const struct server_replica *replica, const struct server_follower *follower) {
    const struct message *updates = follower->updates;
    unsigned count = follower->update_count;
    assert(count <= SERVER_UPDATES_MAX && follower->sent <= replica->partition->clock);
    assert(count == 0 || (updates[0].update.clock <= updates[count - 1].update.clock &&
                          updates[count - 1].update.clock == follower->sent));
    if (follower->state == FOLLOWER_COPYING) {
        assert(count == 0 && follower->copied_from <= replica->partition->clock);
    } else {
        assert(follower->cursor == FOLLOW_COPIED);
    }
    if (follower->state == FOLLOWER_CAUGHT_UP) {
        assert(follower->caught_up_from <= follower->reached && follower->reached <= follower->sent);
        assert(count == 0 || updates[0].update.clock > follower->reached);
    }
}

/* Drops the oldest updates, up to `clock`. */
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

/* Builds the update from `from_clock` to the replica's clock. Shares the frames of another follower's last update if
 * that covers the same clocks. */
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

/* Returns the follower that makes clocks below from_clock durable: the present BackupPS. If there is none yet, it is
 * the next BackupPS. If that will be on the present server's node, it is the next server. */
static actor_id backup_now(const struct wire_placement *placement) {
    if (placement->backup != ACTOR_NONE) {
        return placement->backup;
    }
    bool becomes_backup = actor_node(placement->next_backup) == actor_node(placement->server);
    return becomes_backup ? placement->next_server : placement->next_backup;
}

/* Whether a follower needs the state at this commit point. A follower that only gets ready for the plan's `next_` half
 * gets only the commit points of that half: each update takes bandwidth that the workers need. */
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
    check_follower(replica, follower);
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

/* Answers a FOLLOW with a description, without rows, of what was sent before. The rows may still be on their way; if
 * they were lost, the follower requests them `again`. Sends nothing if nothing is outstanding. */
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

/* Handles a FOLLOW from a follower that has not caught up. It requests a piece of the copy, or the rows that changed
 * since the copy began. If a copy begins again, `copied_from` stays: the rows changed since the first beginning include
 * all that the follower lacks. */
static void follow_copying(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow) {
    struct server_follower *follower = follower_find(replica, from);
    uint64_t cursor = follow->cursor;
    if (follower == NULL || follower->state == FOLLOWER_CAUGHT_UP) {
        follower = follower_make(replica, from);
        updates_drop(follower, UINT64_MAX);
        follower_become(follower, FOLLOWER_COPYING);
        *follower = (struct server_follower){.actor = from,
                                             .state = follower->state,
                                             .copied_from = replica->partition->clock,
                                             .cursor = FOLLOW_COPIED,
                                             .updates = follower->updates};
        cursor = 0;
    } else if (cursor != 0 && follow->clock != follower->copied_from) {
        cursor = 0; /* the follower has pieces of a copy that we do not know */
    }
    if (cursor == FOLLOW_COPIED && follower->state == FOLLOWER_COPYING) {
        follower_become(follower, FOLLOWER_COPIED);
        follower->cursor = FOLLOW_COPIED;
        follower->sent = follower->copied_from;
        follower_update(server, replica, follower);
    } else if (cursor != FOLLOW_COPIED && (cursor != follower->cursor || follow->again)) {
        follower_become(follower, FOLLOWER_COPYING);
        updates_drop(follower, UINT64_MAX);
        send_piece(server, replica, follower, cursor);
    } else if (follow->again) {
        send_updates_again(server, follower);
    } else {
        send_sent(server, replica, follower, follow->number);
    }
    check_follower(replica, follower);
}

/* Whether a commit point lies between the two clocks. If so, an update from `after` to `before` skips that point, and
 * the receiver can't be restored to it. */
static bool points_between(const struct server *server, uint64_t after, uint64_t before) {
    uint64_t clock = after + 1;
    while (clock < before && !plan_is_commit_point(&server->plan, clock)) {
        clock++;
    }
    return clock < before;
}

/* Sets `caught_up_from` of a follower that reports the state at `clock`. Below the end of an update that we did not
 * send, or that skips a commit point, the follower may lack commit points. */
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

/* Handles a follower's report that it has the state at `clock`. Drops the updates up to there. */
static void follower_came_to(const struct server *server, struct server_follower *follower, uint64_t clock) {
    follower_find_caught_up_from(server, follower, clock);
    updates_drop(follower, clock);
    follower_become(follower, FOLLOWER_CAUGHT_UP);
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
        check_follower(replica, follower);
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

bool server_receive_follow(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message_follow *follow) {
    if (replica->state == REPLICA_COPYING || from == server->self ||
        !is_follower(server, replica->partition->id, from)) {
        return false;
    }
    if (!follow->caught_up && replica_answers(replica)) {
        follow_copying(server, replica, from, follow);
    } else if (follow->caught_up && follow->clock <= replica->partition->clock) {
        follow_caught_up(server, replica, from, follow);
        return true; /* replica_waits_for_copy may have kept the replica from advancing */
    }
    return false;
}

/* ---- What is durable ---- */

/* A range of clocks: a reliable machine has the state at every commit point in it. Empty: 0 to 0. */
struct durable {
    uint64_t from, until;
};

/* Returns the range that a follower has, up to `most`. */
static struct durable follower_has(const struct server_replica *replica, actor_id actor, uint64_t most) {
    const struct server_follower *follower = follower_find(replica, actor);
    struct durable has = {0, 0};
    if (follower != NULL && follower->state == FOLLOWER_CAUGHT_UP) {
        has.from = follower->caught_up_from;
        has.until = follower->reached < most ? follower->reached : most;
    }
    return has.from <= has.until ? has : (struct durable){0, 0};
}

/* Returns the range that the BackupPSs of an ActivePS (a server on a transient machine) have. The present backup counts
 * up to the boundary, the clock before from_clock. The next backup counts for all clocks once it has reached the
 * boundary. */
static struct durable backups_have(const struct server *server, const struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    uint64_t boundary = server->plan.terms.from_clock - 1;
    struct durable below = {0, 0};
    if (placement->server == server->self) {
        below = follower_has(replica, backup_now(placement), boundary);
    }
    struct durable above = {0, 0};
    /* A backup on our own node is no second copy. The next server, on another node, will count that backup. */
    if (actor_node(placement->next_backup) != actor_node(server->self)) {
        above = follower_has(replica, placement->next_backup, WIRE_CLOCK_NEVER);
    }
    return above.until >= boundary && above.until > below.until ? above : below;
}

/* Returns the range that is durable without a backup: our server is on a reliable machine (ParamServ), or there was no
 * machine for a backup. Counts only commit points. The least durable clock of all partitions becomes the committed
 * clock, and other partitions can be restored only to commit points. */
static struct durable own_has(const struct server *server, const struct server_replica *replica) {
    const struct partition *partition = replica->partition;
    struct durable has = {.until = partition->clock};
    if (!server->plan.terms.recoverable) {
        return has;
    }
    if (!plan_is_commit_point(&server->plan, partition->clock)) {
        has.until = partition->point_count > 0 ? partition->points[partition->point_count - 1].clock : 0;
        if (!plan_is_commit_point(&server->plan, has.until)) {
            return (struct durable){0, 0};
        }
    }
    has.from = has.until;
    for (unsigned p = partition->point_count;
         p > 0 && !points_between(server, partition->points[p - 1].clock, has.from); p--) {
        has.from = partition->points[p - 1].clock;
    }
    return has;
}

/* Whether our own copy is durable. Our server must be on a reliable machine, and either have no backup now or be the
 * present backup itself. (Servers on reliable nodes have backups only in stage transient. The present backup may be the
 * server of the plan's next half.) A server of the next half that is not the backup does not count for clocks below
 * from_clock: the present server and its backup make these durable. */
static bool is_paramserv(const struct server *server, const struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    bool below = replica->partition->clock < server->plan.terms.from_clock;
    actor_id backup = below ? placement->backup : placement->next_backup;
    return server->reliable && (backup == ACTOR_NONE || backup == server->self);
}

/* Whether, in stage transient, our copy is the only one, as the backup of the plan's next half has not caught up yet.
 * Then our clocks count as durable, as no other machine has more. Otherwise workers could reach the end of their window
 * between two commit points. A new plan with another backup would then wait for ever, as a copy catches up only at a
 * commit point. */
static bool is_only_copy(const struct server *server, const struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    const struct server_follower *follower = follower_find(replica, backup_now(placement));
    return server->plan.terms.transient != 0 && placement->server == server->self && placement->backup == ACTOR_NONE &&
           replica->partition->clock < server->plan.terms.from_clock &&
           (follower == NULL || follower->state != FOLLOWER_CAUGHT_UP);
}

bool replica_raise_durable(const struct server *server, struct server_replica *replica) {
    const struct wire_placement *placement = server_placement(server, replica->partition->id);
    bool followed = placement->backup != ACTOR_NONE || placement->next_backup != ACTOR_NONE;
    bool own =
        is_paramserv(server, replica) || !server->plan.terms.recoverable || !followed || is_only_copy(server, replica);
    struct durable has = own ? own_has(server, replica) : backups_have(server, replica);
    bool alone = placement->next_server == server->self && placement->next_backup == ACTOR_NONE;
    if (!own && alone && replica->partition->clock >= server->plan.terms.from_clock) { /* the backup leaves */
        has = own_has(server, replica);
    }
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
    /* Before from_clock the next half's server may serve already. The present half's backup may then be our own
     * replica, so the next half's backup counts. */
    bool below = clock < plan->from_clock && placement->server == server->self;
    actor_id backup = below ? backup_now(placement) : placement->next_backup;
    const struct server_follower *follower = follower_find(replica, backup);
    if (is_paramserv(server, replica) || !plan->recoverable || backup == ACTOR_NONE ||
        (follower != NULL && follower->state == FOLLOWER_CAUGHT_UP) || !plan_is_commit_point(&server->plan, clock)) {
        return false;
    }
    uint64_t next = plan_next_commit_point(&server->plan, clock + 1);
    return next > server->committed + 1 + server->job->staleness + plan->window;
}

/* ---- The side that follows ---- */

/* Returns the server that the replica is to follow now; ACTOR_NONE: none. */
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

/* Connects to the server to follow. Only the follower connects: the server only answers. */
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

/* Sends FOLLOW, with the replica's clock, to the server to follow. Also sends it to `answer`, the server that has just
 * sent an update, unless that is ACTOR_NONE. */
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

/* Handles the result of applying an update. Accuses the sender of a bad update; reports other errors as our own
 * failure. Returns true when there was no error. */
static bool update_taken(struct server *server, actor_id from, const struct message *update, int result,
                         const struct error *error) {
    if (result == AML_EPROTOCOL) {
        server_accuse(server, from, update, error);
    } else if (result != 0) {
        server_fail(server, error);
    }
    return result == 0;
}

/* Takes a piece of a copy: the requested piece, or the first piece of another copy. Returns true when it was taken. */
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

/* Takes an update: the update after a copy, with which the replica catches up, or else the next update. Returns true
 * when it was taken. */
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
        replica_set(replica, result == 0 ? REPLICA_FOLLOWING : REPLICA_COPYING);
    } else {
        uint64_t reached = partition_reached(replica->partition);
        if (update->clock <= reached || update->from_clock > reached) {
            return false; /* repeated, or an earlier update is missing, which our next FOLLOW shows */
        }
        result = partition_hold(replica->partition, message, &error);
    }
    return update_taken(server, from, message, result, &error);
}

/* Whether the update that the server describes in `sent` was lost. Connections keep order, so an update arrives before
 * its description. If we would still take the update, it was lost. */
static bool update_lost(const struct server_replica *replica, const struct message_update *sent) {
    if (replica->state != REPLICA_COPYING) {
        return !sent->piece && sent->clock > partition_reached(replica->partition);
    }
    if (!sent->piece) {
        return replica->following.cursor == FOLLOW_COPIED && sent->from_clock <= replica->following.copy_from;
    }
    return sent->cursor == (sent->from_clock == replica->following.copy_from ? replica->following.cursor : 0);
}

/* Requests a lost update again, once. Only the answer to a later FOLLOW can lead to another request. */
static void receive_sent(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_update *sent) {
    if (sent->follow > replica->following.again && update_lost(replica, sent)) {
        send_follow(server, replica, from, true);
        replica->following.again = replica->following.number;
    }
}

bool server_receive_update(struct server *server, struct server_replica *replica, actor_id from,
                           const struct message *update) {
    if (replica->state == REPLICA_SERVING || !plan_serves(&server->plan, update->update.partition, from)) {
        return false;
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
    }
    return taken;
}
