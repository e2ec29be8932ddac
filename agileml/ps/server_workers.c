/* Workers' requests to a server (SUBSCRIBE, PULL, FLUSH, SCAN), and the pushes to workers. See server_private.h. */
#include "agileml/ps/server_private.h"

#include <stdlib.h>

static void push_head(const struct server *server, const struct server_replica *replica, actor_id to,
                      uint64_t from_clock, struct message *push) {
    *push = (struct message){.type = MESSAGE_PUSH, .epoch = server->epoch};
    push->push.partition = replica->partition->id;
    push->push.from_clock = from_clock;
    push->push.clock = replica->partition->clock;
    push->push.durable = replica_answers(replica) ? replica->durable : server->committed;
    push->push.durable_from = replica_answers(replica) ? replica->durable_from : 0;
    push->push.received = partition_received(replica->partition, to);
    push->push.pieces = partition_pieces(replica->partition, to, push->push.received + 1);
}

/* Whether a subscriber is to get pushes now. A node that gets ready gets none, until the next clock is its first. Then
 * the server of that clock pushes what has changed since the subscription. */
static bool push_is_due(const struct server *server, const struct partition *partition,
                        const struct subscription *subscription) {
    uint64_t from = subscription->needs_from;
    return partition->clock + 1 >= from &&
           (from < server->plan.terms.from_clock || plan_server_at(&server->plan, from, partition->id) == server->self);
}

/* Sets *chain to the partition's chain at the clock. Returns false when the clock has no ring. */
static bool chain_at(struct server *server, uint32_t partition, uint64_t clock, struct ring_chain *chain) {
    const struct ring *ring = rings_at(&server->rings, server->job, &server->plan, clock);
    if (ring != NULL) {
        *chain = ring_chain(ring, partition, plan_server_at(&server->plan, clock, partition));
    }
    return ring != NULL;
}

static bool has_all_rows(const struct partition *partition, const struct subscription *subscription) {
    unsigned t = 0;
    while (t < partition->job->table_count &&
           (table_hidden(&partition->job->tables[t]) || subscription->lists[t].count == partition->tables[t].count)) {
        t++;
    }
    return t == partition->job->table_count;
}

/* Whether one push is right for all nodes of the chain: all are subscribed to all rows, and were sent the same
 * clock. */
static bool chain_is_even(const struct server *server, struct partition *partition, const struct ring_chain *chain) {
    const struct subscription *first = partition_subscription(partition, ring_node(chain, 0));
    for (unsigned place = 0; place < chain->length; place++) {
        const struct subscription *subscription = partition_subscription(partition, ring_node(chain, place));
        if (subscription == NULL || !push_is_due(server, partition, subscription) ||
            !has_all_rows(partition, subscription) || subscription->sent_clock != first->sent_clock) {
            return false;
        }
    }
    return true;
}

/* Sends the first node of the clock's chain a push that the nodes pass on. Returns false when that is not possible, or
 * when the clock's flushes have not arrived by the ring. */
static bool push_by_ring(struct server *server, struct server_replica *replica) {
    struct partition *partition = replica->partition;
    struct ring_chain chain;
    struct message push;
    if (replica->sum_clock < partition->clock || !chain_at(server, partition->id, partition->clock, &chain) ||
        plan_server_at(&server->plan, partition->clock, partition->id) != server->self ||
        !chain_is_even(server, partition, &chain)) {
        return false;
    }
    const struct subscription *first = partition_subscription(partition, ring_node(&chain, 0));
    push_head(server, replica, first->subscriber, first->sent_clock, &push);
    push.push.received = partition->clock; /* all nodes of the chain have delivered it */
    push.push.pieces = 0;
    push.push.ring = chain.digest;
    if (first->sent_clock < partition->clock) {
        partition_changes(partition, first, first->sent_clock, NULL, NULL, &push);
    }
    for (unsigned place = 0; place < chain.length; place++) {
        struct subscription *subscription = partition_subscription(partition, ring_node(&chain, place));
        subscription->sent_clock = partition->clock;
        subscription->by_ring = true;
    }
    server_relay_send(server, ring_relay(&chain, 0), &push);
    return true;
}

void replica_push(struct server *server, struct server_replica *replica, bool missed) {
    struct partition *partition = replica->partition;
    struct message model = {0};
    const struct subscription *model_subscription = NULL;
    bool by_ring = !missed && push_by_ring(server, replica);
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        struct subscription *subscription = &partition->subscriptions[s];
        struct message push;
        if (by_ring && subscription->by_ring) {
            continue;
        }
        subscription->by_ring = false;
        if (!push_is_due(server, partition, subscription) || (missed && subscription->sent_clock == partition->clock)) {
            continue;
        }
        push_head(server, replica, subscription->subscriber, subscription->sent_clock, &push);
        bool share = model_subscription != NULL && model.push.from_clock == subscription->sent_clock;
        if (subscription->sent_clock < partition->clock) {
            partition_changes(partition, subscription, subscription->sent_clock, share ? model_subscription : NULL,
                              share ? &model : NULL, &push);
        }
        subscription->sent_clock = partition->clock;
        message_close(&model);
        model = message_share(&push);
        model_subscription = subscription;
        server->io->send(server->io, subscription->subscriber, &push);
    }
    message_close(&model);
}

/* Whether the replica can answer a SUBSCRIBE of `from` with state. A node that gets ready gets state from the server of
 * its first clock, as soon as that server has a copy. The present server may have a newer state. */
static bool replica_tells(const struct server *server, const struct server_replica *replica, actor_id from) {
    uint64_t needs_from = server_needs_from(server, from);
    bool joins = needs_from >= server->plan.terms.from_clock && replica->partition->clock + 1 < needs_from &&
                 plan_server_at(&server->plan, needs_from, replica->partition->id) == server->self;
    return replica_answers(replica) || (joins && replica->state != REPLICA_COPYING && !replica->checkpoint.in_place);
}

void server_receive_subscribe(struct server *server, struct server_replica *replica, actor_id from,
                              const struct message *message) {
    const struct message_subscribe *subscribe = &message->subscribe;
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    /* We handed this partition over, but the sender's newer plan makes us its server again. Let the sender retry: this
     * replica may be closed before that plan comes. */
    bool behind = replica->state == REPLICA_HANDED_OVER && replica->partition->clock < subscribe->known;
    if (!replica_may_serve(server, replica) || behind) {
        server_answer_later(server, from, message);
        return;
    }
    int count = partition_views(replica->partition, message, views, &error);
    if (count >= 0 && actor_part(from) != 0) {
        count = error_set(&error, AML_EPROTOCOL, "a subscription of part %u, which is no worker", actor_part(from));
    }
    if (count < 0) {
        server_accuse(server, from, message, &error);
        return;
    }
    int result = 0;
    const struct subscription *before = partition_subscription(replica->partition, from);
    bool first = before == NULL;
    bool tells = replica_tells(server, replica, from);
    if ((first ? 0 : before->request) < subscribe->after) {
        /* An earlier SUBSCRIBE of this worker is missing here. The answer to the worker's next PULL shows which. */
        server_answer_later(server, from, message);
        return;
    }
    if (!subscribe->again) {
        result = partition_subscribe(replica->partition, from, subscribe->request, subscribe->only, views,
                                     (unsigned)count, &error);
    }
    struct subscription *subscription = partition_subscription(replica->partition, from);
    if (first && subscription != NULL) {
        subscription->needs_from = server_needs_from(server, from);
        subscription->sent_clock = tells ? replica->partition->clock : subscribe->known;
    }
    struct message push;
    push_head(server, replica, from, subscribe->known, &push);
    push.push.request = subscribe->request;
    if (result == 0 && subscribe->only) {
        push.push.from_clock = push.push.clock; /* the worker has these rows' state, or it is on its way */
    } else if (result == 0 && tells) {
        result = partition_rows(replica->partition, views, (unsigned)count, subscribe->known, &push, &error);
    } else {
        push.push.from_clock = 0;
        push.push.clock = 0; /* no state to read yet */
    }
    if (result != 0) {
        server_fail(server, &error);
        return;
    }
    server->io->send(server->io, from, &push);
}

void server_receive_pull(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message *pull) {
    struct partition *partition = replica->partition;
    struct subscription *subscription = partition_subscription(partition, from);
    if (!replica_may_serve(server, replica)) {
        server_answer_later(server, from, pull);
        return;
    }
    uint64_t from_clock = pull->pull.clock;
    bool answers = subscription != NULL && replica_answers(replica) &&
                   (pull->pull.again || push_is_due(server, partition, subscription));
    if (answers && !pull->pull.again && subscription->sent_clock > from_clock) {
        from_clock = subscription->sent_clock; /* everything up to there was sent, even if it was lost on the way */
    }
    struct message push;
    push_head(server, replica, from, from_clock, &push);
    push.push.pull = pull->pull.number;
    push.push.subscribed = subscription != NULL ? subscription->request : 0;
    if (answers && from_clock < partition->clock) {
        subscription->by_ring = false;
        partition_changes(partition, subscription, from_clock, NULL, NULL, &push);
        subscription->sent_clock = partition->clock;
    } else {
        push.push.clock = from_clock; /* nothing new, but the answer shows that we are alive */
        push.push.ring = answers && subscription->by_ring ? 1 : 0;
    }
    server->io->send(server->io, from, &push);
}

/* Raises the committed clock to what a worker reports, as far as this server can confirm it. Each partition served here
 * must be durable at that clock, or have been handed over to us at a later clock. A server that serves nothing can't
 * check the report; it learns the committed clock from the servers that it follows. */
static void take_committed(struct server *server, uint64_t committed) {
    bool serves = false;
    for (uint32_t p = 0; p < server->partition_count && committed > server->committed; p++) {
        const struct server_replica *replica = &server->replicas[p];
        if (replica->partition != NULL && replica->state == REPLICA_SERVING) {
            uint64_t most = replica->durable > replica->promoted ? replica->durable : replica->promoted;
            committed = committed < most ? committed : most;
            serves = true;
        }
    }
    if (serves) {
        server_commit(server, committed);
    }
}

/* Rejects rows with a NaN or an infinity if the job wants that. Returns `count` or AML_EPROTOCOL. */
static int check_numbers(const struct job *job, const struct rows_view *views, int count, struct error *error) {
    for (int v = 0; v < count && job->reject_nan; v++) {
        const struct table_spec *spec = &job->tables[views[v].table];
        size_t bad = rows_not_finite(&job->shapes[views[v].table], &views[v]);
        if (bad < views[v].count) {
            return error_set(error, AML_EPROTOCOL, "table %s: row %llu has a NaN or an infinity", spec->name,
                             (unsigned long long)views[v].keys[bad]);
        }
    }
    return count;
}

/* Rejects a piece that puts rows, unless it is the last piece of its flush. Put rows are kept as they came until the
 * clock is complete, so thousands of such pieces would take the memory of as many flushes. Returns `count` or
 * AML_EPROTOCOL. */
static int check_piece(const struct server *server, const struct message_flush *flush, const struct rows_view *views,
                       int count, struct error *error) {
    for (int v = 0; v < count && flush->more != 0; v++) {
        const struct table_spec *table = &server->job->tables[views[v].table];
        if (table->mode == AML_PUT) {
            return error_set(error, AML_EPROTOCOL, "table %s: rows are put by a piece that is not the last one",
                             table->name);
        }
    }
    return count;
}

/* Rejects a flush of several clocks that is a piece, travels by a ring, or has clocks before the first. Returns `count`
 * or AML_EPROTOCOL. */
static int check_idle(const struct message_flush *flush, int count, struct error *error) {
    bool whole = flush->piece == 0 && flush->more == 0 && flush->ring == 0;
    if (count >= 0 && flush->idle > 0 && (!whole || flush->idle >= flush->clock)) {
        return error_set(error, AML_EPROTOCOL, "with %lu clocks before clock %llu", (unsigned long)flush->idle,
                         (unsigned long long)flush->clock);
    }
    return count;
}

/* Takes a whole flush or a piece, and then the clocks without work before it. Returns as partition_flush. */
static int take_clocks(struct server *server, struct partition *partition, const struct message_flush *flush,
                       const struct rows_view *views, unsigned count, struct error *error) {
    int result =
        partition_flush(partition, flush->origin, flush->clock, flush->piece, flush->more != 0, views, count, error);
    for (uint64_t clock = flush->clock - flush->idle; clock < flush->clock && result >= 0; clock++) {
        int idle = server_serves(server, flush->partition, clock)
                       ? partition_flush(partition, flush->origin, clock, 0, false, NULL, 0, error)
                       : FLUSH_UNEXPECTED;
        result = idle < 0 || idle == FLUSH_TAKEN ? idle : result;
    }
    return result;
}

/* Takes a FLUSH; with `chain`, one that travels by a ring. Returns a flush_result; AML_EPROTOCOL, with nothing changed;
 * or another error of partition_flush. */
static int take_flush(struct server *server, struct server_replica *replica, actor_id from,
                      const struct message *message, const struct ring_chain *chain, struct error *error) {
    const struct message_flush *flush = &message->flush;
    struct rows_view views[WIRE_TABLES_MAX];
    if (actor_node(flush->origin) != actor_node(from)) {
        return error_set(error, AML_EPROTOCOL, "in the name of another node");
    }
    if (!server_serves(server, flush->partition, flush->clock)) {
        return FLUSH_UNEXPECTED;
    }
    int count = rows_check(message, server->job->shapes, server->job->table_count, views, error);
    count = check_numbers(server->job, views, count, error);
    count = check_piece(server, flush, views, count, error);
    count = check_idle(flush, count, error);
    if (count < 0 && chain != NULL) {
        return FLUSH_UNEXPECTED; /* which origin is wrong shows when each sends its own flush */
    }
    if (count < 0 || chain == NULL) {
        return count < 0 ? count : take_clocks(server, replica->partition, flush, views, (unsigned)count, error);
    }
    actor_id *origins = memory_resized(NULL, chain->length, sizeof *origins);
    for (unsigned place = 0; place < chain->length; place++) {
        origins[place] = ring_node(chain, place);
    }
    int result =
        partition_flush_sum(replica->partition, origins, chain->length, flush->clock, views, (unsigned)count, error);
    free(origins);
    if (result == FLUSH_TAKEN) {
        replica->sum_clock = flush->clock > replica->sum_clock ? flush->clock : replica->sum_clock;
        server->relay.sums_taken++;
    }
    server->relay.sums_overlapped += result == FLUSH_OVERLAPS;
    return result;
}

static bool receive_flush(struct server *server, struct server_replica *replica, actor_id from,
                          const struct message *message, const struct ring_chain *chain) {
    struct error error = {0};
    int result = take_flush(server, replica, from, message, chain, &error);
    if (result == AML_EPROTOCOL) {
        server_accuse(server, from, message, &error);
    } else if (result < 0) {
        server_fail(server, &error);
    } else if (result != FLUSH_UNEXPECTED) {
        take_committed(server, message->flush.committed);
    }
    return result == FLUSH_TAKEN;
}

bool server_receive_flush(struct server *server, struct server_replica *replica, actor_id from,
                          const struct message *message) {
    return receive_flush(server, replica, from, message, NULL);
}

bool server_receive_ring_flush(struct server *server, actor_id from, const struct message *message) {
    const struct message_flush *flush = &message->flush;
    struct ring_chain chain;
    if (flush->partition >= server->partition_count || !server_knows(server, from) ||
        !chain_at(server, flush->partition, flush->clock, &chain) || chain.digest != flush->ring) {
        return false;
    }
    struct server_replica *replica = &server->replicas[flush->partition];
    bool ends = flush->origin == ring_node(&chain, chain.length - 1) && from == ring_relay(&chain, chain.length - 1);
    if (plan_server_at(&server->plan, flush->clock, flush->partition) != server->self || !ends) {
        server_relay_flush(server, from, message, &chain);
        return false;
    }
    return replica->partition != NULL && receive_flush(server, replica, from, message, &chain);
}

static void send_rows(struct server *server, struct partition *partition, actor_id to,
                      const struct message_scan *scan) {
    struct message rows = {.type = MESSAGE_ROWS, .epoch = server->epoch};
    rows.rows.partition = scan->partition;
    rows.rows.table = scan->table;
    rows.rows.cursor = scan->cursor;
    rows.rows.next = partition_scan(partition, scan->table, scan->cursor, SERVER_SCAN_BYTES, &rows);
    server->io->send(server->io, to, &rows);
}

void server_receive_scan(struct server *server, struct server_replica *replica, actor_id from,
                         const struct message_scan *scan) {
    if (scan->table >= server->job->table_count || table_hidden(&server->job->tables[scan->table]) ||
        !replica_may_serve(server, replica)) {
        return;
    }
    if (replica->state == REPLICA_SERVING && replica->partition->clock >= scan->min_clock) {
        send_rows(server, replica->partition, from, scan);
    } else if (server->scan_count < SERVER_SCANS_MAX) { /* else the reader repeats SCAN */
        server->scans = memory_resized(server->scans, server->scan_count + 1, sizeof *server->scans);
        server->scans[server->scan_count++] = (struct scan_request){.from = from, .scan = *scan};
    }
}

void replica_scans(struct server *server, const struct server_replica *replica) {
    struct partition *partition = replica->partition;
    for (unsigned i = 0; i < server->scan_count;) {
        struct scan_request *request = &server->scans[i];
        if (request->scan.partition == partition->id && partition->clock >= request->scan.min_clock) {
            send_rows(server, partition, request->from, &request->scan);
            server->scans[i] = server->scans[--server->scan_count];
        } else {
            i++;
        }
    }
}
