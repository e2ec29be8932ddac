/* The messages of servers: PUSH, the answers to SUBSCRIBE and PULL among them, and ROWS. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void client_accuse(struct client *client, actor_id server, const char *format, ...) {
    if (client->accusation.accused != ACTOR_NONE || server == ACTOR_NONE) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->accusation.text, sizeof client->accusation.text, format, arguments);
    va_end(arguments);
    client->accusation.accused = actor_node(server);
}

/* The most pushes of a partition that wait. Servers can't be further ahead of an origin; a node without assignments
 * drops the rest, and requests it later. */
static unsigned waiting_entries(const struct client *client) {
    return client->job->staleness + client->job->clocks.local_steps + 2;
}

/* Sets the clock of the partition's state in the cache. */
static void came_to(struct client *client, uint32_t number, uint64_t clock) {
    struct client_partition *partition = &client->partitions[number];
    assert(clock >= partition->clock && !client->fenced);
    partition->clock = clock;
    partition->ring_us = 0;
    client_release(client, partition);
    assert(!partition->kept.on || partition->kept.newest >= clock);
    client_kept_commit(client, number);
    if (client->row_state != NULL) {
        client->row_state(client->context, number, clock);
    }
}

/* Applies the rows of a message that `from` has sent, or accuses it (ACTOR_NONE: nobody). */
static bool apply(struct client *client, uint32_t number, actor_id from, const struct message *message,
                  enum rows_wanted wanted) {
    struct error error = {0};
    if (client_apply(client, number, message, wanted, &error) != 0) {
        client_accuse(client, from, "PUSH: partition %u, %s", number, error.text);
        return false;
    }
    client_kept_take(client, number, message, wanted);
    return true;
}

/* Whether a push was relayed by other nodes, which may have changed it. */
static bool is_relayed(const struct message_push *push) {
    return push->ring != 0 && push->pull == 0;
}

/* Applies the next push, or the answer to `restore_request`. A fault in a relayed push accuses nobody, as any relay may
 * have caused it. What the push should have brought is requested instead. */
static void apply_push(struct client *client, uint32_t number, actor_id from, const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (is_relayed(&message->push)) {
        from = ACTOR_NONE;
    }
    if (message->push.request != 0) {
        apply(client, number, from, message, ROWS_VOID);
        partition->restore_request = 0; /* client_restore_step requests the next portion */
    } else if (message->push.clock > partition->clock && message->push.from_clock <= partition->clock &&
               apply(client, number, from, message, ROWS_ALL)) {
        came_to(client, number, message->push.clock);
    } else if (from == ACTOR_NONE) {
        client_wait(client, partition);
    }
}

/* Applies a push, or keeps it until the app does not use the cache any more. */
static void take_push(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (!client->working && !client->frozen) {
        assert(partition->waiting_count == 0);
        apply_push(client, number, from, message);
        return;
    }
    assert(message->push.request != 0 ||
           (message->push.clock > client_arrived(partition) && message->push.from_clock <= client_arrived(partition)));
    partition->waiting = memory_resized(partition->waiting, partition->waiting_count + 1, sizeof *partition->waiting);
    partition->waiting[partition->waiting_count++] = (struct waiting_push){.from = from, .message = *message};
    message->frame_count = 0;                                        /* the waiting push owns the frames */
    assert(partition->waiting_count <= waiting_entries(client) + 1); /* 1: the answer to `restore_request` */
}

void client_apply_waiting(struct client *client) {
    assert(!client->working && !client->frozen);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned w = 0; w < partition->waiting_count; w++) {
            apply_push(client, p, partition->waiting[w].from, &partition->waiting[w].message);
        }
        client_drop_waiting(partition);
        client_restore_step(client, p);
    }
}

/* Whether a push can be applied, or can wait. */
static bool push_has_room(const struct client *client, const struct client_partition *partition) {
    return (!client->working && !client->frozen) || partition->waiting_count < waiting_entries(client);
}

/* Takes the next push, which may bring us to the plan's switch. */
static void go_on(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    take_push(client, number, from, message);
    if (client_server(client, number, client_arrived(partition) + 1) != partition->now.server) {
        client_place(client, number);
        client_ask(client, number, NULL);
    }
    if (!partition->now.open && !partition->next.open) {
        client_waited(client, partition);
        partition->retry_us = 0; /* the silence is over. A push does not answer an open request, though */
    }
    if (client_awaited(client, partition)) {
        client_wait(client, partition);
    }
}

/* Takes a push of changes. False when it can't be taken now: there is no room, the server lacks some of our rows, or a
 * push before it was lost. Requests a lost push once, from the server of the next clock. A push of another server can't
 * show the loss, as the missing push may still come from the next clock's server. But a joining node gets pushes only
 * from the server of its first clock, and requests them there. */
static bool receive_changes(struct client *client, uint32_t number, struct client_subscription *subscription,
                            struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    uint64_t arrived = client_arrived(partition);
    if (!partition->subscribed || message->push.clock <= arrived) {
        return true;
    }
    if (subscription == NULL || !client_covers(client, partition, subscription) || !push_has_room(client, partition)) {
        return false;
    }
    if (message->push.from_clock > arrived) {
        if (message->push.pull != 0 && message->push.ring != 0) {
            /* The answer has come directly: the push that it reports may still be on its way by the ring. */
            partition->ring_us = partition->ring_us != 0 ? partition->ring_us : client_now(client);
            if (!client_ring_lost(client, partition->ring_us, message->push.clock)) {
                return false;
            }
            client_ring_give_up(partition);
        }
        if ((subscription == &partition->now || client->joins) && subscription->again == 0) {
            client_pull(client, number, subscription->server, true);
            subscription->again = partition->pulls;
        }
        return false;
    }
    go_on(client, number, subscription->server, message);
    return true;
}

/* Whether the open request names rows without a state. */
static bool request_names_new(const struct client *client, const struct client_partition *partition,
                              const struct client_subscription *subscription) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->asked[t] > partition->filled[t]) {
            return true;
        }
    }
    return false;
}

/* Applies the first state of new rows at once, even during a clock, since the app does not use them yet. Applies
 * nothing if rows before these still lack their state: `filled` counts from the list's beginning. */
static bool fill_rows(struct client *client, uint32_t number, const struct client_subscription *subscription,
                      const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->answered[t] > partition->filled[t]) {
            return true;
        }
    }
    if (!apply(client, number, subscription->server, message, ROWS_NEW)) {
        return false;
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->asked[t] > partition->filled[t]) {
            partition->filled[t] = subscription->asked[t];
        }
    }
    return true;
}

/* Takes the answer to an open SUBSCRIBE. If the first SUBSCRIBE named all rows, its answer is also a push of the
 * changes since `since`. */
static void receive_answer(struct client *client, uint32_t number, struct client_subscription *subscription,
                           struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    bool now = subscription == &partition->now;
    bool serves = message->push.clock > 0 || message->frame_count > 0;
    bool news = request_names_new(client, partition, subscription);
    bool lags = partition->subscribed && message->push.clock < client_arrived(partition);
    bool awaited = (news && now) || client_skips_now(client, partition);
    if ((awaited && !serves) || (serves && lags)) {
        return; /* the server lacks that state, or the plan, so far: the request is repeated */
    }
    if (news && serves && !fill_rows(client, number, subscription, message)) {
        return;
    }
    bool first = !subscription->known;
    subscription->open = false;
    subscription->only = false;
    subscription->known = true;
    subscription->agreed = subscription->request;
    memcpy(subscription->answered, subscription->asked, client->job->table_count * sizeof *subscription->answered);
    if (!partition->subscribed) {
        if (now || serves) {
            partition->subscribed = true;
            client_kept_begin(partition, message->push.clock);
            came_to(client, number, message->push.clock);
            client_place(client, number);
        }
    } else if (first && message->push.clock > client_arrived(partition) &&
               client_covers(client, partition, subscription)) {
        message->push.request = 0;
        message->push.from_clock = subscription->since;
        if (subscription->since <= client_arrived(partition) && push_has_room(client, partition)) {
            go_on(client, number, subscription->server, message);
        }
    }
    client_ask(client, number, NULL); /* for rows that were added meanwhile */
}

static bool restored_waits(const struct client_partition *partition) {
    for (unsigned w = 0; w < partition->waiting_count; w++) {
        if (partition->waiting[w].message.push.request != 0) {
            return true;
        }
    }
    return false;
}

static struct client_subscription *subscription_with(struct client_partition *partition, actor_id server) {
    if (server == partition->now.server) {
        return &partition->now;
    }
    return server == partition->next.server ? &partition->next : NULL;
}

/* Subscribes anew if the answer to a PULL shows that the server's replica lacks our subscription: the server had given
 * the partition up and got it back by a later plan. */
static void subscribe_anew(struct client *client, uint32_t number, actor_id server, const struct message_push *push) {
    struct client_subscription *subscription = subscription_with(&client->partitions[number], server);
    if (subscription != NULL && push->subscribed < subscription->agreed) {
        client_close_subscription(subscription);
        client_open_subscription(client, subscription, server);
        client_ask(client, number, NULL);
    }
}

/* Sends lost messages again to a server that has answered a PULL: flushes that it has not received, and requests that
 * it has not answered. Both were sent before that PULL. */
static void send_lost(struct client *client, uint32_t number, actor_id server, const struct message_push *push) {
    struct client_partition *partition = &client->partitions[number];
    struct client_subscription *subscription = subscription_with(partition, server);
    uint64_t arrived = client_arrived(partition);
    for (unsigned r = 0; r < partition->retained_count; r++) {
        struct retained_flush *flush = &partition->retained[r];
        bool ours = flush->origin == client->self;
        bool arrived_piece = ours && flush->clock == push->received + 1 && flush->message.flush.piece < push->pieces;
        bool missing = flush->sent && flush->pull < push->pull && flush->clock > (ours ? push->received : arrived) &&
                       !arrived_piece && client_server(client, number, flush->clock) == server;
        if (missing && (flush->ring_us == 0 || client_ring_lost(client, flush->ring_us, flush->clock))) {
            client_send_flush(client, number, flush, false);
        }
    }
    if (subscription != NULL && subscription->open && subscription->pull < push->pull) {
        client_send_request(client, number, subscription);
    }
    if (subscription == &partition->now && partition->restore_request != 0 && partition->restore_pull < push->pull &&
        !restored_waits(partition)) {
        client_send_restore(client, number);
    }
}

/* Waits for a later commit point. Every partition is durable as far as our next clock needs, but they have no common
 * restore point up to there. Sends PULL later, as a server's report of that commit point may have been lost. */
static void await_later_commit(struct client *client) {
    client_find_durable_wanted(client);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (client_awaited(client, &client->partitions[p])) {
            client_wait(client, &client->partitions[p]);
        }
    }
}

/* Sets `committed` to the newest clock at which every partition is durable and has a restore point. */
static void find_committed(struct client *client) {
    uint64_t committed = UINT64_MAX;
    for (uint32_t p = 0; p < client->partition_count && committed > client->committed; p++) {
        uint64_t durable = client->partitions[p].subscribed ? client->partitions[p].durable : 0;
        committed = durable < committed ? durable : committed;
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (client->partitions[p].durable_from > committed) {
            await_later_commit(client); /* this partition has no restore point at `committed` */
            return;
        }
    }
    if (committed > client->committed) {
        client->committed = committed;
        for (uint32_t p = 0; p < client->partition_count; p++) {
            client_release(client, &client->partitions[p]);
            client_kept_commit(client, p);
        }
    }
}

/* Whether a server can have the clocks in a PUSH. No server can be beyond the clock before our assignment's next one,
 * for which it waits for our flush. Accuses the server if its clocks are impossible. */
static bool push_is_possible(struct client *client, actor_id from, const struct message_push *push) {
    const struct {
        const char *name;
        uint64_t clock;
    } clocks[] = {{"clock", push->clock}, {"durable clock", push->durable}, {"received clock", push->received}};
    for (unsigned c = 0; c < sizeof clocks / sizeof *clocks; c++) {
        if (clocks[c].clock > client->possible) {
            client_accuse(client, from, "PUSH: %s %llu, at most %llu is possible", clocks[c].name,
                          (unsigned long long)clocks[c].clock, (unsigned long long)client->possible);
            return false;
        }
    }
    return true;
}

/* Whether a server can have these clocks. Accuses nobody, as relays may have changed the push. */
static bool relayed_is_possible(const struct client *client, const struct message_push *push) {
    return push->clock <= client->possible && push->durable <= client->possible && push->received <= client->possible;
}

/* Takes the durable clock of a push. A relayed push may be wrong and make us drop flushes that are needed, so its
 * server is asked by PULL. */
static void take_durable(struct client *client, uint32_t number, actor_id from, const struct message_push *push) {
    struct client_partition *partition = &client->partitions[number];
    /* Under a plan that can't recover, every state counts as durable. */
    uint64_t durable = client->plan.terms.recoverable != 0 ? push->durable : push->clock;
    if (durable <= partition->durable) {
        return;
    }
    if (!is_relayed(push)) {
        partition->durable = durable;
        partition->durable_from = client->plan.terms.recoverable != 0 ? push->durable_from : 0;
    } else if (durable > partition->durable_asked) {
        partition->durable_asked = durable;
        client_pull(client, number, from, false);
    }
}

static void receive_push(struct client *client, actor_id from, struct message *message) {
    uint32_t number = message->push.partition;
    struct client_partition *partition = &client->partitions[number];
    struct client_subscription *subscription = subscription_with(partition, from);
    const struct message_push push = message->push;
    const uint64_t arrived = client_arrived(partition);
    assert(partition->restore_pull <= partition->pulls && partition->pieces.pull <= partition->pulls);
    assert(subscription == NULL || (subscription->again <= partition->pulls && subscription->pull <= partition->pulls));
    if (subscription != NULL && !is_relayed(&push)) {
        subscription->heard_us = client_now(client);
        subscription->again = push.pull >= subscription->again ? 0 : subscription->again;
    }
    bool lacking = false;
    if (push.request == 0) {
        lacking = !receive_changes(client, number, subscription, message);
    } else if (partition->restoring && push.request == partition->restore_request) {
        if (message->frame_count > 0 && !restored_waits(partition)) {
            take_push(client, number, from, message);
        }
    } else if (subscription != NULL && subscription->open && push.request == subscription->request) {
        receive_answer(client, number, subscription, message);
    }
    if (client->accusation.accused != ACTOR_NONE) {
        return;
    }
    if (client_arrived(partition) > arrived) {
        client_ring_came(client, partition);
    }
    client_waits_arrived(client, number);
    take_durable(client, number, from, &push);
    find_committed(client);
    client_restore_step(client, number);
    if (push.pull != 0) {
        subscribe_anew(client, number, from, &push);
        send_lost(client, number, from, &push);
        client_pieces_answered(client, number, push.pull);
    }
    if (lacking) {
        client_wait(client, partition); /* PULL follows later */
    } else if (!client_awaited(client, partition)) {
        partition->retry_us = 0;
    }
}

/* Whether a ROWS message is possible: it has only rows of its own table, and the next piece begins behind it. Accuses
 * the server if not. */
static bool rows_are_possible(struct client *client, actor_id from, const struct message *message) {
    const struct message_rows *rows = &message->rows;
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, &error);
    bool others = count > 1 || (count == 1 && views[0].table != rows->table);
    bool ascends = rows->next == 0 || rows->next > rows->cursor;
    if (count < 0 || others || !ascends) {
        client_accuse(client, from, "ROWS: %s",
                      count < 0 ? error.text
                      : others  ? "rows of another table than was asked for"
                                : "the next piece is not behind this one");
    }
    return count >= 0 && !others && ascends;
}

void client_receive(struct client *client, actor_id from, struct message *message) {
    bool push = message->type == MESSAGE_PUSH;
    uint32_t number = push ? message->push.partition : message->rows.partition;
    if ((!push && message->type != MESSAGE_ROWS) || client->fenced || message->epoch != client->epoch ||
        number >= client->partition_count) {
        return;
    }
    if (push && message->push.ring != 0 && message->push.pull == 0 && actor_node(from) == client->self) {
        if (relayed_is_possible(client, &message->push)) {
            receive_push(client, client_server(client, number, message->push.clock), message);
        }
        return;
    }
    if (!plan_serves(&client->plan, number, from)) {
        return;
    }
    if (push) {
        message->push.ring = message->push.pull != 0 ? message->push.ring : 0; /* an answer to PULL comes directly, not
                                                                                  by a ring */
        if (push_is_possible(client, from, &message->push)) {
            receive_push(client, from, message);
        }
    } else if (client->rows != NULL && rows_are_possible(client, from, message)) {
        client->rows(client->context, message);
    }
}
