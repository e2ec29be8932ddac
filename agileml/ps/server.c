/* A server's plans, the states of its replicas, and the dispatch of messages. See server.h. */
#include "agileml/net/links.h"
#include "agileml/ps/server_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void server_init(struct server *server, struct io *io, actor_id self, const struct job *job,
                 const struct server_hooks *hooks) {
    *server = (struct server){.io = io, .self = self, .job = job};
    if (hooks != NULL) {
        server->hooks = *hooks;
    }
}

static void replica_close(struct server *server, struct server_replica *replica) {
    if (replica->partition != NULL) {
        server_prune_followers(server, replica, true);
        partition_close(replica->partition);
    }
    free(replica->followers);
    free(replica->checkpoint.asked);
    free(replica->checkpoint.written);
    memset(replica, 0, sizeof *replica);
}

static void members_close(struct plan_members *members) {
    index_map_close(&members->index);
    free(members->needs_from);
}

/* Drops the rows that this node's worker has given for epochs up to `epoch`. */
static void given_drop(struct server *server, uint64_t epoch) {
    unsigned kept = 0;
    for (unsigned g = 0; g < server->given_count; g++) {
        if (server->given[g].epoch > epoch) {
            server->given[kept++] = server->given[g];
        } else {
            message_close(&server->given[g]);
        }
    }
    server->given_count = kept;
}

void server_close(struct server *server) {
    for (uint32_t p = 0; p < server->partition_count; p++) {
        replica_close(server, &server->replicas[p]);
    }
    for (unsigned e = 0; e < server->early_count; e++) {
        message_close(&server->early[e].message);
    }
    given_drop(server, UINT64_MAX);
    free(server->given);
    plan_close(&server->plan);
    plan_close(&server->later_plan);
    members_close(&server->members);
    server_forget_relayed(server);
    rings_close(&server->rings);
    free(server->replicas);
    free(server->early);
    free(server->scans);
    memset(server, 0, sizeof *server);
}

/* ---- Reports to the agent ---- */

/* Returns a frame with the restore points of all replicas. A replica that is still being copied has none. */
static struct buffer *server_restore_points(const struct server *server) {
    struct wire_restore_point *restore_points = NULL;
    size_t count = 0;
    for (uint32_t p = 0; p < server->partition_count; p++) {
        const struct server_replica *replica = &server->replicas[p];
        if (replica->partition == NULL || replica->state == REPLICA_COPYING) {
            continue;
        }
        uint64_t *clocks;
        unsigned found = partition_restore_points(replica->partition, &clocks);
        restore_points = memory_resized(restore_points, count + found, sizeof *restore_points);
        for (unsigned c = 0; c < found; c++) {
            restore_points[count++] =
                (struct wire_restore_point){.server = server->self, .partition = p, .clock = clocks[c]};
        }
        free(clocks);
    }
    struct buffer *frame = buffer_copy(restore_points, count * sizeof *restore_points);
    free(restore_points);
    return frame;
}

static void server_report(struct server *server) {
    struct message replicas = {.type = MESSAGE_REPLICAS, .epoch = server->epoch};
    server->in_step = server->lagging == 0 && !server->fenced;
    replicas.replicas.version = server->plan.terms.version;
    replicas.replicas.fenced = server->fenced;
    replicas.replicas.in_step = server->in_step;
    replicas.replicas.committed = server->committed;
    message_add(&replicas, server->fenced ? server_restore_points(server) : buffer_new(0));
    server->io->send(server->io, server_agent(server), &replicas);
}

/* Counts whether the replica is in step, without a report. */
static void replica_set_step(struct server *server, struct server_replica *replica, bool in_step) {
    if (replica->in_step != in_step) {
        assert(in_step ? server->lagging > 0 : server->lagging < server->partition_count);
        server->lagging = in_step ? server->lagging - 1 : server->lagging + 1;
        replica->in_step = in_step;
    }
}

/* Whether the replica is in step (struct server_replica). */
static bool replica_is_in_step(const struct server *server, const struct server_replica *replica) {
    return replica->state == REPLICA_SERVING ||
           (replica->state != REPLICA_COPYING && replica_follows_closely(server, replica));
}

/* Counts whether the replica is in step. Reports to the agent when the whole server comes into step or falls behind. */
static void replica_count_step(struct server *server, struct server_replica *replica) {
    replica_set_step(server, replica, replica_is_in_step(server, replica));
    if (server->in_step != (server->lagging == 0)) {
        server_report(server);
    }
}

/* ---- A replica serves ---- */

/* Makes the replica the partition's server (ParamServ or ActivePS); it has followed up to the first clock that it is to
 * serve. Applies the held updates, but keeps what is needed to undo them. */
static void replica_promote(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    struct error error = {0};
    partition_keep(partition, server->plan.terms.recoverable);
    while (partition->held_count > 0) {
        if (partition_apply(partition, &error) != 0) {
            server_fail(server, &error);
            return;
        }
        replica_checkpoint(server, replica);
    }
    partition_point(partition);
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        struct subscription *subscription = &partition->subscriptions[s];
        if (subscription->needs_from <= partition->clock) {
            /* The server before us has pushed this state to these nodes, but not to nodes that begin later. */
            subscription->sent_clock = partition->clock;
        }
    }
    uint64_t committed = server->committed < partition->clock ? server->committed : partition->clock;
    if (committed > replica->durable) {
        replica->durable = committed;
        replica->durable_from = 0;
    }
    replica->promoted = partition->clock;
    replica_set(replica, REPLICA_SERVING);
    assert(partition_reached(partition) == partition->clock && replica->durable <= partition->clock);
}

/* At the clock of a serving replica, sends the updates, sets the commit point and writes the checkpoint that are
 * due. */
static void replica_at_clock(struct server *server, struct server_replica *replica) {
    if (plan_is_commit_point(&server->plan, replica->partition->clock)) {
        replica_update(server, replica);
        partition_point(replica->partition);
        replica_raise_durable(server, replica);
    }
    replica_checkpoint(server, replica);
}

/* Stops serving if another server serves the next clock. Then follows that server if the plan says so. */
static void replica_hand_over(struct server *server, struct server_replica *replica) {
    if (replica->state == REPLICA_SERVING &&
        plan_server_at(&server->plan, replica->partition->clock + 1, replica->partition->id) != server->self) {
        replica_set(replica, REPLICA_HANDED_OVER);
        replica->following.heard = 0;
        replica_follow(server, replica);
    }
}

/* Promotes the replica or hands it over where the plan says so, and applies the clocks that are complete. */
static void replica_step(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    bool failed = partition->step_error.code != 0; /* after an optimizer's failure the rows are wrong: send none */
    if (failed || replica->checkpoint.in_place || replica->state == REPLICA_COPYING) {
        return;
    }
    bool promoted = replica->state != REPLICA_SERVING &&
                    plan_server_at(&server->plan, partition_reached(partition) + 1, partition->id) == server->self;
    if (promoted) {
        replica_promote(server, replica);
    }
    bool advanced = false;
    bool pushed = false; /* whether the partition's present clock has been pushed */
    while (replica->state == REPLICA_SERVING &&
           plan_server_at(&server->plan, partition->clock + 1, partition->id) == server->self &&
           !replica_waits_for_copy(server, replica) && partition_advance(partition)) {
        if (partition->step_error.code != 0) {
            server_fail(server, &partition->step_error);
            return;
        }
        advanced = true;
        replica_at_clock(server, replica);
        /* A lost partition may have to be restored to this clock from a worker's cache, even if the next clock is
         * complete, too. */
        pushed = partition->pushes_all && plan_is_commit_point(&server->plan, partition->clock);
        if (pushed) {
            replica_push(server, replica, false);
        }
    }
    if (replica->state == REPLICA_SERVING && (replica_raise_durable(server, replica) || (advanced && !pushed))) {
        replica_push(server, replica, false);
    } else if (promoted) {
        replica_push(server, replica, true);
    }
    if (advanced) {
        replica_scans(server, replica);
    }
    replica_hand_over(server, replica);
}

/* ---- Plans ---- */

static bool replica_wanted(const struct server *server, uint32_t number) {
    return plan_has_role(&server->plan, number, server->self);
}

static void replica_drop(struct server *server, struct server_replica *replica) {
    replica_no_checkpoint(server, replica, "the replica is not here any more");
    replica_set_step(server, replica, true);
    replica_close(server, replica);
}

/* Returns the UPDATE with the partition's rows that this node's worker has given for the plan in force; NULL: none. */
static const struct message *given_find(const struct server *server, uint32_t number) {
    for (unsigned g = 0; g < server->given_count; g++) {
        const struct message *given = &server->given[g];
        if (given->epoch == server->plan.epoch && given->update.partition == number &&
            given->update.clock == server->plan.terms.restore) {
            return given;
        }
    }
    return NULL;
}

/* Fills a newly opened replica from the node's cache. Returns AML_EPROTOCOL when the cache has not given every row. */
static int replica_fill(struct server_replica *replica, const struct message *given, struct error *error) {
    struct partition *partition = replica->partition;
    struct rows_view view;
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        uint32_t rows = partition->tables[t].count;
        uint32_t there = rows_find(given, t, &view) ? view.count : 0;
        bool dense = partition->job->tables[t].rows > 0; /* how many rows a sparse table has is not known */
        if (dense && there != rows) {
            return error_set(error, AML_EPROTOCOL,
                             "partition %u is to be restored from this node's cache, which has %u of the %u rows of "
                             "table %s",
                             partition->id, there, rows, partition->job->tables[t].name);
        }
    }
    int result = partition_fill(partition, given, error);
    replica_set(replica, REPLICA_FOLLOWING);
    return result;
}

/* Keeps the rows of a partition, from our node's cache, until the plan of a new epoch comes. */
static void server_take_given(struct server *server, const struct message *update) {
    if (update->epoch < server->epoch || (update->epoch == server->epoch && !server->fenced)) {
        return; /* that epoch's plan is in force, or the epoch is over */
    }
    server->given = memory_resized(server->given, server->given_count + 1, sizeof *server->given);
    server->given[server->given_count++] = message_share(update);
}

/* Opens a replica. In the job's first plan every replica begins with the state of clock 0. In an epoch's first plan the
 * partition's server may read the replica from a checkpoint, or get it from its node's cache. Any other replica is
 * copied from its server. */
static int replica_open(struct server *server, uint32_t number, bool new_epoch, struct error *error) {
    const struct message_plan *plan = &server->plan.terms;
    struct server_replica *replica = &server->replicas[number];
    replica->partition = partition_open(server->job, number, plan->partitions, error);
    replica->in_step = true; /* not counted yet */
    if (replica->partition == NULL) {
        return error->code;
    }
    if (plan->version == 1 && plan->resume[0] == '\0') {
        replica_set(replica, REPLICA_FOLLOWING); /* the job begins with the start values of the rows */
        return 0;
    }
    if (!new_epoch || plan_server_at(&server->plan, plan->restore + 1, number) != server->self) {
        return 0;
    }
    const struct message *given = given_find(server, number);
    if (given != NULL) {
        return replica_fill(replica, given, error);
    }
    if (plan->resume[0] != '\0') {
        if (server->hooks.read == NULL) {
            return error_set(error, AML_EINPUT, "this server reads no checkpoints");
        }
        int result = server->hooks.read(server->hooks.context, replica->partition, plan->resume, plan->restore, error);
        if (result != 0) {
            return result;
        }
    } else if (plan->restore > 0) {
        return error_set(error, AML_EPROTOCOL, "partition %u is to be served from clock %llu on by a server without it",
                         number, (unsigned long long)plan->restore);
    }
    replica_set(replica, REPLICA_FOLLOWING);
    return 0;
}

/* Restores the replica at clock `restore`. A follower without that restore point is restored at its newest earlier
 * restore point, and follows from there: up to `restore` all replicas have the same history. */
static bool restore_replica_at(const struct server *server, const struct server_replica *replica, uint64_t restore) {
    uint64_t *clocks;
    if (partition_restore(replica->partition, restore)) {
        return true;
    }
    if (plan_server_at(&server->plan, restore + 1, replica->partition->id) == server->self) {
        return false;
    }
    unsigned count = partition_restore_points(replica->partition, &clocks);
    while (count > 0 && clocks[count - 1] > restore) {
        count--;
    }
    bool put = count > 0 && partition_restore(replica->partition, clocks[count - 1]);
    free(clocks);
    return put;
}

/* Restores a replica of the previous epoch for the new epoch. Closes it if it has no suitable restore point. */
static void replica_restore(struct server *server, struct server_replica *replica) {
    uint64_t restore = server->plan.terms.restore;
    if (replica->state == REPLICA_COPYING || !restore_replica_at(server, replica, restore)) {
        replica_drop(server, replica);
        return;
    }
    replica_no_checkpoint(server, replica, "the epoch is over");
    if (replica->checkpoint.written != NULL && replica->checkpoint.written->clock > restore) {
        free(replica->checkpoint.written);
        replica->checkpoint.written = NULL;
    }
    partition_unsubscribe(replica->partition, NULL, NULL);
    server_prune_followers(server, replica, true);
    replica_set(replica, REPLICA_FOLLOWING);
    replica->following.heard = 0;
    replica->durable = server->committed < restore ? server->committed : restore;
    replica->durable_from = 0;
    replica->sum_clock = 0;
}

static void member_needs(struct plan_members *members, actor_id node, uint64_t from_clock) {
    int64_t found = index_map_find(&members->index, node);
    if (found == INDEX_NONE) {
        found = members->count;
        index_map_add(&members->index, node, members->count++);
        members->needs_from[found] = from_clock;
    }
    members->needs_from[found] = from_clock < members->needs_from[found] ? from_clock : members->needs_from[found];
}

static struct plan_members members_open(const struct plan_view *plan) {
    size_t most = plan->node_count + plan->assignment_count;
    struct plan_members members = {.needs_from = memory_zeroed(most, sizeof *members.needs_from)};
    for (size_t d = 0; d < plan->assignment_count; d++) {
        member_needs(&members, actor_node(plan->assignments[d].origin), plan->assignments[d].from_clock);
    }
    for (size_t n = 0; n < plan->node_count; n++) {
        member_needs(&members, plan->nodes[n].actor, WIRE_CLOCK_NEVER);
    }
    return members;
}

/* Checks what must hold of all replicas while a plan is in force: only those of the plan are here, each of its own
 * partition; `lagging` counts those that are not in step; a served state is durable only up to its clock. */
static void check_replicas(const struct server *server) {
    unsigned lagging = 0;
    assert(server->partition_count == server->plan.terms.partitions && server->epoch == server->plan.epoch);
    for (uint32_t p = 0; p < server->partition_count; p++) {
        const struct server_replica *replica = &server->replicas[p];
        if (replica->partition == NULL) {
            assert(replica->follower_count == 0 && replica->checkpoint.asked == NULL);
            continue;
        }
        lagging += replica->in_step ? 0 : 1;
        assert(replica->partition->id == p && plan_has_role(&server->plan, p, server->self));
        assert(replica->durable_from <= replica->durable);
        assert(replica->state != REPLICA_SERVING ||
               (replica->partition->held_count == 0 && replica->promoted <= replica->partition->clock &&
                replica->durable <= replica->partition->clock));
    }
    assert(lagging == server->lagging);
}

static bool member_stays(void *server, actor_id subscriber) {
    return server_knows(server, subscriber);
}

static void replica_plan(struct server *server, uint32_t number, bool new_epoch) {
    struct server_replica *replica = &server->replicas[number];
    struct error error = {0};
    if (new_epoch && replica->partition != NULL) {
        replica_restore(server, replica);
    }
    if (!replica_wanted(server, number)) {
        if (replica->partition != NULL) {
            replica_drop(server, replica);
        }
        return;
    }
    if (replica->partition == NULL && replica_open(server, number, new_epoch, &error) != 0) {
        server_fail(server, &error);
        replica_close(server, replica);
        return;
    }
    replica->partition->pushes_all = job_is_kept(server->job, &server->plan.terms);
    partition_expect(replica->partition, server->plan.assignments, (unsigned)server->plan.assignment_count);
    partition_unsubscribe(replica->partition, member_stays, server);
    for (unsigned i = 0; i < replica->partition->subscription_count; i++) {
        struct subscription *subscription = &replica->partition->subscriptions[i];
        subscription->needs_from = server_needs_from(server, subscription->subscriber);
    }
    server_prune_followers(server, replica, false);
    if (replica->state == REPLICA_SERVING || !server->plan.terms.recoverable) {
        partition_keep(replica->partition, server->plan.terms.recoverable);
    }
    if (replica->state == REPLICA_SERVING) {
        uint64_t before = replica->durable;
        /* The new plan may make this clock a commit point. Then more may be durable, which all subscribers must know.
         * The plan may also name a node that begins with the next clock: that node lacks the present state. */
        replica_at_clock(server, replica);
        replica_push(server, replica, replica->durable == before);
    }
    replica_step(server, replica);
    replica_follow(server, replica);
    replica_set_step(server, replica, replica_is_in_step(server, replica));
}

static bool writing_in_place(const struct server *server) {
    for (uint32_t p = 0; p < server->partition_count; p++) {
        if (server->replicas[p].checkpoint.in_place) {
            return true;
        }
    }
    return false;
}

/* Receives the messages that have waited for a plan. Keeps those that are still too early. */
static void server_take_early(struct server *server) {
    struct early_message *early = server->early;
    unsigned count = server->early_count;
    server->early = NULL;
    server->early_count = 0;
    server->early_bytes = 0;
    for (unsigned e = 0; e < count; e++) {
        server_receive(server, early[e].from, &early[e].message);
        message_close(&early[e].message);
    }
    free(early);
}

/* Whether the plan names our node as reliable. */
static bool is_reliable(const struct server *server) {
    for (size_t n = 0; n < server->plan.node_count; n++) {
        const struct wire_node *node = &server->plan.nodes[n];
        if (node->tier == TIER_RELIABLE && node->actor == server_agent(server)) {
            return true;
        }
    }
    return false;
}

/* Puts a newly received plan in force, unless it is older than the present plan. Takes ownership of the plan. */
static void server_take_plan(struct server *server, struct plan_view *plan) {
    bool first = !plan_is_there(&server->plan);
    if (!plan_replaces(&server->plan, plan, server->epoch)) {
        plan_close(plan);
        return;
    }
    if (writing_in_place(server)) {
        plan_close(&server->later_plan);
        server->later_plan = *plan;
        return;
    }
    bool new_epoch = first || server->fenced || plan->epoch > server->epoch;
    members_close(&server->members);
    server->members = members_open(plan);
    links_forget_absent(server->io, server->self, &server->plan, plan);
    plan_close(&server->plan);
    server->plan = *plan;
    server->epoch = plan->epoch;
    server->fenced = false;
    if (first) {
        server->partition_count = plan->terms.partitions;
        server->replicas = memory_zeroed(server->partition_count, sizeof *server->replicas);
    }
    server->reliable = is_reliable(server);
    if (new_epoch) {
        server->scan_count = 0;
        server->accused = false;
        server_forget_relayed(server);
    }
    server_relay_plan(server);
    for (uint32_t p = 0; p < server->partition_count; p++) {
        replica_plan(server, p, new_epoch);
    }
    given_drop(server, server->epoch);
    check_replicas(server);
    server_report(server);
    server_take_early(server);
}

static void server_fence(struct server *server, uint64_t epoch) {
    if (epoch > server->epoch) {
        server->epoch = epoch;
        server->fenced = true;
        server->scan_count = 0;
        if (plan_is_there(&server->later_plan) && server->later_plan.epoch < epoch) {
            plan_close(&server->later_plan);
        }
        given_drop(server, epoch - 1);
        server_take_early(server); /* drops the messages of older epochs */
    }
    if (epoch == server->epoch && server->fenced) {
        server_report(server);
    }
}

void server_written(struct server *server, const struct message_written *written) {
    server_checkpoint_written(server, written);
    if (plan_is_there(&server->later_plan)) {
        struct plan_view plan = server->later_plan;
        server->later_plan = (struct plan_view){0};
        server_take_plan(server, &plan);
    }
}

/* ---- Messages ---- */

static void server_keep_early(struct server *server, actor_id from, const struct message *message) {
    bool stranger = plan_is_there(&server->plan) && !server_knows(server, from);
    bool ours = server_partition_of(message) != UINT32_MAX ||
                (message->type == MESSAGE_CHECKPOINT && from == server_agent(server));
    bool room = server->early_count < SERVER_EARLY_MAX && server->early_bytes < SERVER_EARLY_BYTES_MAX;
    if (ours && !stranger && room) { /* else the sender repeats the message */
        server->early_bytes += message_frame_bytes(message);
        server->early = memory_resized(server->early, server->early_count + 1, sizeof *server->early);
        server->early[server->early_count++] = (struct early_message){.from = from, .message = message_share(message)};
    }
}

/* Passes on a message between agents: from our agent to the server or node that it names, or from another node to our
 * agent. */
static void server_pass_on(struct server *server, actor_id from, const struct message *message) {
    struct message copy = message_share(message);
    bool outwards = from == server_agent(server);
    actor_id receiver = outwards ? message->peer.receiver : server_agent(server);
    if (!outwards) {
        copy.peer.sender = actor_node(from);
    }
    if (server_knows(server, outwards ? receiver : from)) {
        server->io->send(server->io, receiver, &copy);
    } else {
        message_close(&copy);
    }
}

void server_receive(void *self, actor_id from, struct message *message) {
    struct server *server = self;
    bool agent = from == server_agent(server); /* only our agent may send PLAN, FENCE and CHECKPOINT */
    if (message->type == MESSAGE_PEER) {
        server_pass_on(server, from, message);
        return;
    }
    if (message->type == MESSAGE_PLAN || message->type == MESSAGE_FENCE) {
        if (agent && message->type == MESSAGE_PLAN) {
            struct plan_view plan = plan_open(message);
            server_take_plan(server, &plan);
        } else if (agent) {
            server_fence(server, message->epoch);
        }
        return;
    }
    if (message->type == MESSAGE_UPDATE && agent) {
        server_take_given(server, message);
        return;
    }
    if (message->epoch < server->epoch) {
        return;
    }
    if (message->epoch > server->epoch || server->fenced) {
        server_keep_early(server, from, message);
        server_answer_later(server, from, message);
        return;
    }
    if (message->type == MESSAGE_CHECKPOINT && agent) {
        server_commit(server, message->checkpoint.committed);
        server_receive_checkpoint(server, message);
        return;
    }
    if (message->type == MESSAGE_FLUSH && message->flush.ring != 0) {
        if (server_receive_ring_flush(server, from, message)) {
            replica_step(server, &server->replicas[message->flush.partition]);
        }
        return;
    }
    if (message->type == MESSAGE_PUSH) {
        server_relay_push(server, from, message);
        return;
    }
    struct server_replica *replica = server_replica_of(server, server_partition_of(message));
    if (replica == NULL || !server_knows(server, from)) {
        server_answer_later(server, from, message);
        return;
    }
    bool steps = false;
    switch ((unsigned)message->type) {
    case MESSAGE_SUBSCRIBE:
        server_receive_subscribe(server, replica, from, message);
        break;
    case MESSAGE_PULL:
        server_receive_pull(server, replica, from, message);
        break;
    case MESSAGE_FLUSH:
        steps = server_receive_flush(server, replica, from, message);
        break;
    case MESSAGE_SCAN:
        server_receive_scan(server, replica, from, &message->scan);
        break;
    case MESSAGE_FOLLOW:
        steps = server_receive_follow(server, replica, from, &message->follow);
        break;
    default:
        steps = server_receive_update(server, replica, from, message);
        break;
    }
    if (steps) {
        replica_step(server, replica);
    }
    if (message->type == MESSAGE_UPDATE) {
        replica_count_step(server, replica);
    }
}
