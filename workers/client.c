/* The worker's side of the parameter server protocol. See client.h. */
#include "workers/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which rows of a message to apply to the cache. */
enum rows_wanted {
    ROWS_ALL, /* those that have a state */
    ROWS_NEW, /* those without a state */
    ROWS_VOID /* those whose state is void (CACHE_CLOCK_VOID) */
};

static uint64_t client_now(const struct client *client) {
    return client->io->now_us(client->io);
}

/* The most pushes of a partition that wait. Servers can't be further ahead of an origin; a node without assignments
 * drops the rest, and requests it later. */
static unsigned waiting_entries(const struct client *client) {
    return client->job->staleness + 2;
}

/* Accuses a server of an impossible message, which must have had no effect. `format` begins with the message's name. */
__attribute__((format(printf, 3, 4))) static void accuse(struct client *client, actor_id server, const char *format,
                                                         ...) {
    if (client->accused != ACTOR_NONE) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(client->accusation, sizeof client->accusation, format, arguments);
    va_end(arguments);
    client->accused = actor_node(server);
}

/* ---- Opening and closing ---- */

void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache) {
    *client = (struct client){.io = io, .self = self, .job = job, .cache = cache};
}

static void flush_close(const struct client *client, struct retained_flush *flush) {
    message_close(&flush->message);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        free(flush->slots[t]);
    }
    memset(flush, 0, sizeof *flush);
}

static void subscription_open(const struct client *client, struct client_subscription *subscription, actor_id server) {
    *subscription = (struct client_subscription){.server = server, .heard_us = client_now(client)};
    if (server != ACTOR_NONE) {
        subscription->asked = memory_zeroed(client->job->table_count, sizeof *subscription->asked);
        subscription->answered = memory_zeroed(client->job->table_count, sizeof *subscription->answered);
    }
}

static void subscription_close(struct client_subscription *subscription) {
    free(subscription->asked);
    free(subscription->answered);
    memset(subscription, 0, sizeof *subscription);
}

static void waiting_drop(struct client_partition *partition) {
    for (unsigned w = 0; w < partition->waiting_count; w++) {
        message_close(&partition->waiting[w].message);
    }
    partition->waiting_count = 0;
}

static void partitions_open(struct client *client) {
    client->partition_count = client->plan.terms.partitions;
    client->partitions = memory_zeroed(client->partition_count, sizeof *client->partitions);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        partition->filled = memory_zeroed(client->job->table_count, sizeof *partition->filled);
    }
}

void client_close(struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        flush_close(client, &partition->gathered);
        for (unsigned r = 0; r < partition->retained_count; r++) {
            flush_close(client, &partition->retained[r]);
        }
        waiting_drop(partition);
        subscription_close(&partition->now);
        subscription_close(&partition->next);
        free(partition->retained);
        free(partition->waiting);
        free(partition->filled);
    }
    free(client->partitions);
    plan_close(&client->plan);
    memset(client, 0, sizeof *client);
}

/* ---- What follows from the plan ---- */

actor_id client_server(const struct client *client, uint32_t partition, uint64_t clock) {
    return plan_server_at(&client->plan, clock, partition);
}

/* Returns the clock that must be committed before the next one may begin: by the plan's window; before an assignment's
 * first clock, in jobs with put tables, also the clock before that (node_work.c). The last clock of a job with a
 * checkpoint at its end must be committed too, though no clock follows. */
static uint64_t durable_wanted(const struct client *client) {
    const struct wire_assignment *assignments = client->plan.assignments;
    uint64_t ahead = (uint64_t)client->job->staleness + client->plan.terms.window;
    uint64_t wanted = client->wanted > ahead ? client->wanted - ahead : 0;
    for (size_t d = 0; d < client->plan.assignment_count && job_has_put_tables(client->job); d++) {
        bool ours = actor_node(assignments[d].origin) == actor_node(client->self);
        uint64_t before = assignments[d].from_clock - 1;
        wanted = ours && before <= client->wanted && before > wanted ? before : wanted;
    }
    uint64_t final = client->plan.terms.final;
    wanted = final != 0 && client->wanted >= final && final > wanted ? final : wanted;
    for (uint32_t p = 0; p < client->partition_count && wanted > client->committed; p++) {
        /* This partition has no earlier restore point, so the other partitions must reach this one too. */
        uint64_t from = client->partitions[p].durable_from;
        wanted = from > wanted ? from : wanted;
    }
    return wanted;
}

/* Sets, by the plan, the state that our next clock waits for, and what else depends on our assignments. */
static void find_wanted(struct client *client) {
    const struct wire_assignment *assignments = client->plan.assignments;
    uint64_t done = client->clock > 0 ? client->flushed : 0;
    uint64_t next = WIRE_CLOCK_NEVER;
    uint64_t catch_up = 0;
    client->joins = client->plan.terms.from_clock != 0;
    for (size_t d = 0; d < client->plan.assignment_count; d++) {
        uint64_t from = assignments[d].from_clock;
        bool ours = actor_node(assignments[d].origin) == actor_node(client->self);
        client->joins = client->joins && !(ours && from < client->plan.terms.from_clock);
        if (assignments[d].origin == client->self) {
            from = from > done ? from : done + 1;
            next = from <= assignments[d].until_clock && from < next ? from : next;
        } else if (ours && from > catch_up) {
            catch_up = from;
        }
    }
    client->possible = next != WIRE_CLOCK_NEVER ? next - 1 : WIRE_CLOCK_NEVER;
    client->wanted = next != WIRE_CLOCK_NEVER ? next - 1 : client->flushed;
    if (client->clock == 0) {
        client->flushed = client->wanted;
    }
    if (catch_up > client->wanted) {
        client->wanted = catch_up - 1;
    }
    if (client->last > client->wanted) {
        client->wanted = client->last;
    }
    client->durable_wanted = durable_wanted(client);
}

/* ---- Waiting, PULL and repeats ---- */

/* The clock of the newest state that has arrived, in the cache or in a waiting push. */
static uint64_t partition_arrived(const struct client_partition *partition) {
    for (unsigned w = partition->waiting_count; w > 0; w--) {
        if (partition->waiting[w - 1].message.push.request == 0) {
            return partition->waiting[w - 1].message.push.clock;
        }
    }
    return partition->clock;
}

/* Whether we wait for a push: with the state after our flushes, with the state for our next clock, or with the commit
 * without which that can't begin. */
static bool partition_behind(const struct client *client, const struct client_partition *partition) {
    uint64_t arrived = partition_arrived(partition);
    return partition->subscribed &&
           (arrived < client->wanted || partition->durable < client->durable_wanted ||
            (partition->retained_count > 0 && partition->retained[partition->retained_count - 1].clock > arrived));
}

static bool now_awaited(const struct client *client, const struct client_partition *partition) {
    return partition->now.open || partition->restoring || partition_behind(client, partition);
}

static bool partition_awaited(const struct client *client, const struct client_partition *partition) {
    return partition->next.open || now_awaited(client, partition);
}

static void partition_wait(const struct client *client, struct client_partition *partition) {
    if (partition->retry_us == 0) {
        uint64_t now = client_now(client);
        partition->retry_wait_us = CLIENT_RETRY_MIN_US;
        partition->retry_us = now + partition->retry_wait_us;
        partition->now.heard_us = partition->next.heard_us = now;
    }
}

static void send_pull(struct client *client, uint32_t number, actor_id server, bool again) {
    struct client_partition *partition = &client->partitions[number];
    struct message pull = {.type = MESSAGE_PULL, .epoch = client->epoch};
    pull.pull.partition = number;
    pull.pull.number = ++partition->pulls;
    pull.pull.clock = partition_arrived(partition);
    pull.pull.again = again;
    client->io->send(client->io, server, &pull);
}

static void send_flush(struct client *client, uint32_t number, struct retained_flush *flush) {
    struct message copy = message_share(&flush->message);
    flush->pull = client->partitions[number].pulls;
    copy.epoch = client->epoch;
    copy.flush.committed = client->committed;
    client->io->send(client->io, client_server(client, number, flush->clock), &copy);
}

/* ---- Subscribing ---- */

static int rows_fit(const struct client *client, unsigned table, uint32_t partition, uint64_t rows,
                    struct error *error) {
    const struct table_spec *spec = &client->job->tables[table];
    uint64_t row_bytes = spec->row_bytes + (spec->sparse ? sizeof(uint32_t) : 0); /* WIRE_SPARSE has a count */
    row_bytes = row_bytes > sizeof(uint64_t) ? row_bytes : sizeof(uint64_t);
    if (rows > WIRE_FRAME_BYTES_MAX / row_bytes) {
        return error_set(error, AML_ELIMIT,
                         "table %s: partition %u has %llu rows of %u bytes, more than one message of %llu bytes holds: "
                         "use more --partitions",
                         spec->name, partition, (unsigned long long)rows, spec->row_bytes,
                         (unsigned long long)WIRE_FRAME_BYTES_MAX);
    }
    return 0;
}

static struct buffer *keys_between(const struct client *client, uint32_t number, unsigned t, uint32_t first,
                                   uint32_t last) {
    const struct cache_list *list = cache_list(client->cache, number, t);
    struct buffer *keys = buffer_new((last - first) * sizeof(uint64_t));
    for (uint32_t i = first; i < last; i++) {
        ((uint64_t *)(void *)keys->data)[i - first] = cache_key(&client->cache->tables[t], list->slots[i]);
    }
    return keys;
}

static struct buffer *keys_void(const struct client *client, uint32_t number, unsigned t) {
    const struct cache_table *table = &client->cache->tables[t];
    const struct cache_list *list = cache_list(client->cache, number, t);
    uint32_t filled = client->partitions[number].filled[t];
    struct buffer *keys = buffer_new(filled * sizeof(uint64_t));
    keys->size = 0;
    for (uint32_t i = 0; i < filled; i++) {
        if (cache_clocks(table)[list->slots[i]] == CACHE_CLOCK_VOID) {
            uint64_t key = cache_key(table, list->slots[i]);
            memcpy(keys->data + keys->size, &key, sizeof key);
            keys->size += sizeof key;
        }
    }
    return keys;
}

/* Sends SUBSCRIBE for the keys of each table. Takes over the buffers in `keys`. */
static void send_subscribe(struct client *client, actor_id server, const struct message_subscribe *subscribe,
                           struct buffer **keys) {
    struct message message = {.type = MESSAGE_SUBSCRIBE, .epoch = client->epoch, .subscribe = *subscribe};
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (keys[t]->size > 0) {
            rows_append(&message, t, WIRE_FULL, keys[t], NULL);
        } else {
            buffer_drop(keys[t]);
        }
    }
    client->io->send(client->io, server, &message);
}

/* Sends the open request: for the rows between `answered` and `asked`, or, with `only`, for all. */
static void send_request(struct client *client, uint32_t number, struct client_subscription *subscription) {
    struct buffer *keys[WIRE_TABLES_MAX];
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t first = subscription->only ? 0 : subscription->answered[t];
        keys[t] = keys_between(client, number, t, first, subscription->asked[t]);
    }
    subscription->pull = client->partitions[number].pulls;
    send_subscribe(client, subscription->server,
                   &(struct message_subscribe){.partition = number,
                                               .request = subscription->request,
                                               .after = subscription->agreed,
                                               .known = subscription->since,
                                               .only = subscription->only},
                   keys);
}

static void send_restore(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    struct buffer *keys[WIRE_TABLES_MAX];
    for (unsigned t = 0; t < client->job->table_count; t++) {
        keys[t] = keys_void(client, number, t);
    }
    partition->restore_pull = partition->pulls;
    send_subscribe(client, partition->now.server,
                   &(struct message_subscribe){.partition = number, .request = partition->restore_request, .again = 1},
                   keys);
}

/* Subscribes to rows with one server, one request at a time. The first request names the rows whose state we have, and
 * is for what has changed since; later ones name new rows. Rows that are added meanwhile follow after the answer. */
static int subscription_ask(struct client *client, uint32_t number, struct client_subscription *subscription,
                            struct error *error) {
    struct client_partition *partition = &client->partitions[number];
    bool first = !subscription->known; /* every worker follows every partition's clock, rows or not */
    bool ask = first;
    if (subscription->server == ACTOR_NONE || subscription->open) {
        return 0;
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t count = cache_list(client->cache, number, t)->count;
        if (rows_fit(client, t, number, count, error) != 0) {
            return AML_ELIMIT;
        }
        count = first && partition->subscribed ? partition->filled[t] : count;
        ask = ask || count > subscription->asked[t];
        subscription->asked[t] = count;
    }
    if (ask) {
        subscription->request = ++client->requests;
        subscription->since = first && partition->subscribed ? partition_arrived(partition) : 0;
        subscription->open = true;
        partition_wait(client, partition);
        subscription->heard_us = client_now(client);
        send_request(client, number, subscription);
    }
    return 0;
}

/* Whether to leave out the present server: a node that joins subscribes only with the server of its first clock. */
static bool partition_skips(const struct client *client, const struct client_partition *partition) {
    return client->joins && partition->next.server != ACTOR_NONE && !partition->restoring;
}

static int partition_ask(struct client *client, uint32_t number, struct error *error) {
    struct client_partition *partition = &client->partitions[number];
    int result = partition_skips(client, partition) ? 0 : subscription_ask(client, number, &partition->now, error);
    return result != 0 ? result : subscription_ask(client, number, &partition->next, error);
}

int client_subscribe(struct client *client, struct error *error) {
    client->subscribing = true;
    for (uint32_t p = 0; p < client->partition_count && !client->fenced; p++) {
        if (partition_ask(client, p, error) != 0) {
            return AML_ELIMIT;
        }
    }
    return 0;
}

/* Whether the subscription has every row whose state we have. Only then its pushes bring all that changes. */
static bool subscription_covers(const struct client *client, const struct client_partition *partition,
                                const struct client_subscription *subscription) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->answered[t] < partition->filled[t]) {
            return false;
        }
    }
    return subscription->known;
}

bool client_filled(const struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        for (unsigned t = 0; t < client->job->table_count; t++) {
            if (partition->filled[t] < cache_list(client->cache, p, t)->count) {
                return false;
            }
        }
        if (!partition->subscribed) {
            return false;
        }
    }
    return client->partition_count > 0;
}

bool client_subscribed(const struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        bool skips = partition_skips(client, partition);
        if ((!skips && !subscription_covers(client, partition, &partition->now)) ||
            (partition->next.server != ACTOR_NONE && !subscription_covers(client, partition, &partition->next))) {
            return false;
        }
    }
    return client_filled(client);
}

/* Whether no request is open, and every row in the cache is subscribed to, with one server alone. */
static bool partition_rests(const struct client *client, uint32_t number) {
    const struct client_partition *partition = &client->partitions[number];
    const struct client_subscription *now = &partition->now;
    bool rests = partition->subscribed && !partition->restoring && now->known && !now->open &&
                 partition->next.server == ACTOR_NONE;
    for (unsigned t = 0; t < client->job->table_count && rests; t++) {
        uint32_t count = cache_list(client->cache, number, t)->count;
        rests = partition->filled[t] == count && now->answered[t] == count;
    }
    return rests;
}

/* Unsubscribes from rows. Until the server has the request, its pushes bring the forgotten rows too; these are
 * ignored. */
static void partition_forget(struct client *client, uint32_t number, uint32_t oldest) {
    struct client_partition *partition = &client->partitions[number];
    struct client_subscription *now = &partition->now;
    uint32_t forgotten = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        forgotten += cache_forget(client->cache, number, t, oldest);
        partition->filled[t] = now->asked[t] = now->answered[t] = cache_list(client->cache, number, t)->count;
    }
    if (forgotten > 0) {
        now->request = ++client->requests;
        now->since = partition_arrived(partition);
        now->open = now->only = true;
        partition_wait(client, partition);
        now->heard_us = client_now(client);
        send_request(client, number, now);
    }
}

bool client_forget(struct client *client, uint32_t oldest) {
    if (client->working || client->frozen || client->fenced) {
        return false;
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (!partition_rests(client, p)) {
            return false;
        }
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        partition_forget(client, p, oldest);
    }
    return true;
}

/* Replaces the present server by the next one, which serves from now on. Rows are requested anew that neither the next
 * server nor the one before it could answer with a state. */
static void subscription_promote(const struct client *client, struct client_partition *partition) {
    subscription_close(&partition->now);
    partition->now = partition->next;
    memset(&partition->next, 0, sizeof partition->next);
    struct client_subscription *now = &partition->now;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (now->answered[t] > partition->filled[t]) {
            now->answered[t] = now->asked[t] = partition->filled[t];
            now->open = false;
        }
    }
}

/* Sets, by the plan, the servers of now and after the switch. A subscription with a server that stays is kept. */
static void partition_place(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    /* At the job's end there is no next server: a replica that gets ready may stay at an earlier clock. */
    bool ended = client->last != 0;
    actor_id now = client_server(client, number, ended ? client->last : partition_arrived(partition) + 1);
    actor_id next = client_server(client, number, ended ? client->last : WIRE_CLOCK_NEVER);
    if (partition->now.server != now && partition->next.server == now) {
        subscription_promote(client, partition);
    } else if (partition->now.server != now) {
        subscription_close(&partition->now);
        subscription_open(client, &partition->now, now);
    }
    next = next == now ? ACTOR_NONE : next;
    if (partition->next.server != next) {
        subscription_close(&partition->next);
        subscription_open(client, &partition->next, next);
    }
}

/* ---- Plans and epochs ---- */

/* Begins a new epoch for a partition. No server has our subscriptions any more. Our state is at most that of `restore`,
 * and the rows that we have seen beyond it are void. */
static void partition_restore(const struct client *client, uint32_t number, uint64_t restore) {
    struct client_partition *partition = &client->partitions[number];
    waiting_drop(partition);
    subscription_close(&partition->now);
    subscription_close(&partition->next);
    partition->retry_us = 0;
    partition->restore_request = 0;
    partition->durable = partition->durable < client->committed ? partition->durable : client->committed;
    partition->durable_from = 0;
    partition->clock = partition->clock < restore ? partition->clock : restore;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_list *list = cache_list(client->cache, number, t);
        uint32_t *clocks = cache_clocks(&client->cache->tables[t]);
        for (uint32_t i = 0; i < partition->filled[t]; i++) {
            if (clocks[list->slots[i]] > restore) {
                clocks[list->slots[i]] = CACHE_CLOCK_VOID;
                partition->restoring = true;
            }
        }
    }
}

static bool rows_void(const struct client *client, uint32_t number) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_list *list = cache_list(client->cache, number, t);
        const uint32_t *clocks = cache_clocks(&client->cache->tables[t]);
        for (uint32_t i = 0; i < client->partitions[number].filled[t]; i++) {
            if (clocks[list->slots[i]] == CACHE_CLOCK_VOID) {
                return true;
            }
        }
    }
    return false;
}

/* Requests the void rows, once the server has our subscription again. Ends restoring when there are none left: pushes
 * bring them too. */
static void restore_step(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    if (!partition->restoring || !partition->now.known) {
        return;
    }
    if (!rows_void(client, number)) {
        partition->restoring = false;
        partition->restore_request = 0;
    } else if (partition->restore_request == 0) {
        partition->restore_request = ++client->requests;
        partition_wait(client, partition);
        send_restore(client, number);
    }
}

static void epoch_begin(struct client *client, bool missed) {
    uint64_t restore = missed ? 0 : client->plan.terms.restore;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        partition_restore(client, p, restore);
    }
}

static void epoch_send_again(struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned r = 0; r < partition->retained_count; r++) {
            if (partition->retained[r].clock > client->plan.terms.restore) {
                send_flush(client, p, &partition->retained[r]);
            }
        }
    }
}

void client_plan(struct client *client, const struct plan_view *plan) {
    bool first = !plan_is_there(&client->plan);
    if (!plan_replaces(&client->plan, plan, client->epoch)) {
        return;
    }
    /* If we have missed an epoch, the servers may have been restored at a clock below this `restore`, and may have gone
     * on from there. But they can't have, if they would have needed our flushes. */
    bool alone;
    bool restored = !first && plan->epoch > client->plan.epoch;
    bool missed = restored && plan->epoch > client->plan.epoch + 1 &&
                  !plan_origin_works(&client->plan, client->self, plan->terms.restore, &alone);
    plan_close(&client->plan);
    client->plan = plan_share(plan);
    client->epoch = plan->epoch;
    client->fenced = false;
    if (first) {
        partitions_open(client);
    }
    client->last = restored ? 0 : client->last; /* the last clock may have to be done again */
    find_wanted(client);
    if (restored) {
        epoch_begin(client, missed);
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        partition_place(client, p);
    }
    if (client->subscribing) {
        client_subscribe(client, NULL);
    }
    if (restored) {
        epoch_send_again(client);
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (partition_awaited(client, &client->partitions[p])) {
            /* An assignment may begin with a state whose push was lost. */
            partition_wait(client, &client->partitions[p]);
        }
    }
}

void client_fence(struct client *client, uint64_t epoch) {
    if (epoch <= client->epoch) {
        return;
    }
    client->epoch = epoch;
    client->fenced = true;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        waiting_drop(&client->partitions[p]);
        client->partitions[p].retry_us = 0;
    }
}

/* ---- Clocks ---- */

bool client_has_state(const struct client *client, uint64_t clock) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        if (!partition->subscribed || partition->restoring || partition->clock < clock) {
            return false;
        }
    }
    return client->partition_count > 0;
}

bool client_want_last(struct client *client, uint64_t clock) {
    bool there = true;
    client->wanted = client->wanted < clock ? clock : client->wanted;
    client->last = clock;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        partition_place(client, p);
        if (partition->subscribed && (partition->restoring || partition->clock < clock)) {
            partition_ask(client, p, NULL);
            partition_wait(client, partition);
            there = false;
        }
    }
    return there;
}

bool client_may_begin(const struct client *client, uint64_t clock) {
    uint64_t lag = 1 + (uint64_t)client->job->staleness;
    return !client->fenced && client->partition_count > 0 &&
           clock <= client->committed + lag + client->plan.terms.window &&
           client_has_state(client, clock > lag ? clock - lag : 0);
}

/* Makes flushed rows the base of deltas. Without staleness that is left to the push of these rows (gather_rows). But a
 * clock under another origin may begin before the push. With a rounding encoding the base is right already. */
static void settle_flushed(const struct client *client, const struct client_partition *partition) {
    for (unsigned r = 0; r < partition->retained_count; r++) {
        const struct retained_flush *flush = &partition->retained[r];
        for (unsigned t = 0; t < client->job->table_count && flush->clock > partition->clock; t++) {
            const struct cache_table *table = &client->cache->tables[t];
            bool behind = cache_based(table) && !rows_rounded(table->shape->flushed);
            for (uint32_t i = 0; i < flush->counts[t] && behind; i++) {
                uint32_t slot = flush->slots[t][i];
                memcpy(cache_base(table, slot), cache_row(table, slot), table->spec->row_bytes);
            }
        }
    }
}

void client_begin(struct client *client, actor_id origin, uint64_t clock) {
    assert(!client->working && !client->frozen && (origin != client->self || clock > client->flushed));
    assert(client_may_begin(client, clock)); /* I3 */
    for (uint32_t p = 0; p < client->partition_count && client->job->staleness == 0; p++) {
        settle_flushed(client, &client->partitions[p]);
    }
    client->origin = origin;
    client->clock = clock;
    client->working = true;
    plan_origin_works(&client->plan, origin, clock, &client->alone);
}

/* Encodes the deltas (add) or values (put) of the touched slots, and sets the base for the next deltas:
 *
 *   with staleness       the base becomes the row
 *   without staleness    nothing is to be done, as every such row is pushed before the next clock begins (but see
 *                        settle_flushed)
 *   alone                no rows are pushed back. Base and row become what the server's row will be, the old base plus
 *                        the delta, rounded alike; that may differ from the row in the last bits
 *   rounding encoding    the base always becomes the old base plus what is sent of the delta. The rest stays the
 *                        difference between row and base, through pushes and restores (apply_rows), until the row is
 *                        flushed again */
static struct buffer *gather_rows(const struct client *client, const struct cache_table *table, const uint32_t *slots,
                                  uint32_t count, uint64_t *keys) {
    const struct row_shape *shape = table->shape;
    const struct rows_codec *codec = rows_codec(shape->flushed);
    const enum rows_after after = client->alone                ? ROWS_AFTER_SUM
                                  : client->job->staleness > 0 ? ROWS_AFTER_ROW
                                                               : ROWS_AFTER_UNCHANGED;
    const bool put = table->spec->mode == AML_PUT;
    struct buffer *values = buffer_new(count * codec->bytes_max(shape));
    unsigned char *value = values->data;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = slots[i];
        keys[i] = cache_key(table, slot);
        table->touched.base[slot] = 0;
        value += put ? codec->write(shape, value, cache_row(table, slot), NULL, 1)
                     : codec->delta(shape, value, cache_row(table, slot), cache_base(table, slot), after);
    }
    size_t size = (size_t)(value - values->data);
    if (size == values->size) {
        return values;
    }
    struct buffer *shorter = buffer_copy(values->data, size); /* without unused memory, as it may be kept for long */
    buffer_drop(values);
    return shorter;
}

/* ---- A clock's flush ---- */

static uint32_t count_touched(const struct cache_table *table, const struct cache_list *list) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        count += table->touched.base[list->slots[i]];
    }
    return count;
}

static void find_touched(const struct cache_table *table, const struct cache_list *list, uint32_t *slots) {
    for (uint32_t i = 0, count = 0; i < list->count; i++) {
        if (table->touched.base[list->slots[i]] != 0) {
            slots[count++] = list->slots[i];
        }
    }
}

/* Counts the rows of each table of a partition that are to be flushed, into counts[table]. */
static int count_changed(const struct client *client, uint32_t number, uint32_t *counts, struct error *error) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        uint32_t touched = count_touched(table, cache_list(client->cache, number, t));
        counts[t] = table->spec->given ? cache_changes(client->cache, number, t)->slots : touched;
        if (table->spec->given && touched > 0) {
            return error_set(error, AML_EINPUT,
                             "table %s: rows are marked as touched (aml_row): expected aml_give_changes alone",
                             table->spec->name);
        }
        if (rows_fit(client, t, number, counts[t], error) != 0) {
            return AML_ELIMIT;
        }
    }
    return 0;
}

int client_gather(struct client *client, uint32_t number, struct error *error) {
    struct retained_flush *flush = &client->partitions[number].gathered;
    uint32_t counts[WIRE_TABLES_MAX];
    assert(client->working && flush->clock == 0);
    int result = count_changed(client, number, counts, error);
    if (result != 0) {
        return result;
    }
    flush->origin = client->origin;
    flush->clock = client->clock;
    flush->message = (struct message){.type = MESSAGE_FLUSH};
    flush->message.flush.partition = number;
    flush->message.flush.origin = client->origin;
    flush->message.flush.clock = client->clock;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        const struct table_spec *spec = table->spec;
        const uint32_t count = counts[t];
        if (count == 0) {
            continue;
        }
        uint32_t *slots = memory_resized(NULL, count, sizeof *slots);
        struct buffer *keys = buffer_new(count * sizeof(uint64_t));
        struct buffer *values;
        if (spec->given) {
            values = cache_take_changes(client->cache, number, t, slots);
            for (uint32_t i = 0; i < count; i++) {
                ((uint64_t *)(void *)keys->data)[i] = cache_key(table, slots[i]);
            }
        } else {
            find_touched(table, cache_list(client->cache, number, t), slots);
            values = gather_rows(client, table, slots, count, (uint64_t *)(void *)keys->data);
        }
        flush->slots[t] = slots;
        flush->counts[t] = count;
        rows_append(&flush->message, t, table->shape->flushed, keys, values);
    }
    return 0;
}

int client_check_numbers(const struct client *client, uint32_t number, const char *node, struct error *error) {
    const struct message *flush = &client->partitions[number].gathered.message;
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(flush, client->job->shapes, client->job->table_count, views, error);
    for (int v = 0; v < count; v++) {
        const struct table_spec *spec = &client->job->tables[views[v].table];
        size_t bad = rows_not_finite(&client->job->shapes[views[v].table], &views[v]);
        if (bad < views[v].count) {
            return error_set(error, AML_EINPUT,
                             "clock: table %s: the update of row %llu in clock %llu on %s has a NaN or an infinity "
                             "(--reject-nan)",
                             spec->name, (unsigned long long)views[v].keys[bad], (unsigned long long)flush->flush.clock,
                             node);
        }
    }
    return count < 0 ? count : 0;
}

/* ---- Pushes into the cache ---- */

/* Finds the cache slots of a view's rows. Servers push in the order of our list, so the next row is usually further on
 * in the list; the new rows of an answer stand behind the rows that have a state. NULL when a key is not in the cache:
 * the server must not push a row that we did not request. */
static uint32_t *view_cache_slots(const struct client *client, uint32_t number, const struct rows_view *view,
                                  enum rows_wanted wanted) {
    const struct cache_table *table = &client->cache->tables[view->table];
    const struct cache_list *list = cache_list(client->cache, number, view->table);
    uint32_t *slots = memory_resized(NULL, view->count, sizeof *slots);
    uint32_t at = wanted == ROWS_NEW ? client->partitions[number].filled[view->table] : 0;
    for (uint32_t i = 0; i < view->count; i++) {
        while (at < list->count && cache_key(table, list->slots[at]) != view->keys[i]) {
            at++;
        }
        if (at < list->count) {
            slots[i] = list->slots[at++];
            continue;
        }
        int64_t found = cache_find(client->cache, view->table, view->keys[i]);
        if (found == INDEX_NONE) {
            free(slots);
            return NULL;
        }
        slots[i] = (uint32_t)found;
    }
    return slots;
}

/* Adds our updates of clocks after `clock`, which stand in retained flushes, to the pushed rows, which lack them; with
 * a rounding encoding to the base. */
static void reapply_own(const struct client *client, const struct client_partition *partition, unsigned t,
                        uint64_t clock) {
    const struct cache_table *table = &client->cache->tables[t];
    const uint32_t *stamps = cache_stamps(table);
    const struct rows_codec *codec = rows_codec(table->shape->flushed);
    const bool put = table->spec->mode == AML_PUT;
    const bool rounded = rows_rounded(table->shape->flushed);
    for (unsigned r = 0; r < partition->retained_count; r++) {
        const struct retained_flush *flush = &partition->retained[r];
        struct rows_view view;
        if (flush->clock <= clock || !rows_find(&flush->message, t, &view)) {
            continue;
        }
        const unsigned char *value = view.values;
        for (uint32_t i = 0; i < view.count; i++) {
            uint32_t slot = flush->slots[t][i];
            if (stamps[slot] != client->stamp) {
                value += codec->bytes(table->shape, value);
                continue;
            }
            unsigned char *row = rounded ? cache_base(table, slot) : cache_row(table, slot);
            value += (put ? codec->copy : codec->add)(table->shape, row, value, 1);
        }
    }
}

/* Whether a row of a message is to be applied. A row gets its first state by the answer to its request alone. A push
 * may bring it before that, or after the row was forgotten; neither is applied. Nor is a push that has waited since
 * before the row was forgotten, if the row has a later state by now. */
static bool row_wanted(enum rows_wanted wanted, uint32_t stamp, uint32_t row_clock, uint64_t clock) {
    bool lacks = row_clock == CACHE_CLOCK_VOID;
    return wanted == ROWS_NEW ? stamp == 0 : stamp != 0 && (lacks || (wanted == ROWS_ALL && row_clock <= clock));
}

/* Copies a pushed row into the row, and into the base unless own updates will be added (settle_row). With a rounding
 * encoding only the base gets the pushed row; the row then holds its unsent difference until settle_row. */
static void apply_row(const struct cache_table *table, uint32_t slot, const unsigned char *value,
                      enum wire_encoding encoding, bool own_later) {
    const struct row_shape *shape = table->shape;
    const struct rows_codec *codec = rows_codec(encoding);
    if (rows_rounded(shape->flushed)) {
        rows_codec(shape->flushed)->unsent(shape, cache_row(table, slot), cache_base(table, slot));
        codec->copy(shape, cache_base(table, slot), value, 1);
        return;
    }
    codec->copy(shape, cache_row(table, slot), value, 1);
    if (cache_based(table) && !own_later) {
        codec->copy(shape, cache_base(table, slot), value, 1);
    }
}

/* Completes a pushed row after own updates were added: with a rounding encoding the row is the base plus the unsent
 * difference, otherwise the base is the row. */
static void settle_row(const struct cache_table *table, uint32_t slot) {
    const struct row_shape *shape = table->shape;
    if (rows_rounded(shape->flushed)) {
        rows_codec(WIRE_FULL)->add(shape, cache_row(table, slot), cache_base(table, slot), 1);
    } else if (cache_based(table)) {
        memcpy(cache_base(table, slot), cache_row(table, slot), shape->row_bytes);
    }
}

static void apply_rows(struct client *client, uint32_t number, uint64_t clock, const struct rows_view *view,
                       const uint32_t *slots, enum rows_wanted wanted) {
    const struct client_partition *partition = &client->partitions[number];
    struct cache_table *table = &client->cache->tables[view->table];
    uint32_t *stamps = cache_stamps(table);
    uint32_t *clocks = cache_clocks(table);
    const struct rows_codec *codec = rows_codec(view->encoding);
    const unsigned char *value = view->values;
    bool own_later = /* we have own updates that the pushed rows lack */
        partition->retained_count > 0 && partition->retained[partition->retained_count - 1].clock > clock;
    for (uint32_t i = 0; i < view->count; i++, value += codec->bytes(table->shape, value)) {
        uint32_t slot = slots[i];
        if (!row_wanted(wanted, stamps[slot], clocks[slot], clock)) {
            continue;
        }
        apply_row(table, slot, value, view->encoding, own_later);
        stamps[slot] = client->stamp;
        clocks[slot] = (uint32_t)clock;
    }
    if (own_later) {
        reapply_own(client, partition, view->table, clock);
    }
    for (uint32_t i = 0; (own_later || rows_rounded(table->shape->flushed)) && i < view->count; i++) {
        if (stamps[slots[i]] == client->stamp) {
            settle_row(table, slots[i]);
        }
    }
    for (uint32_t i = 0; wanted == ROWS_NEW && i < view->count; i++) {
        if (stamps[slots[i]] == client->stamp) {
            cache_set_arrived(table, slots[i], true);
        }
    }
}

/* Applies the rows of a PUSH to the cache. False, with nothing changed, when the message is impossible. */
static bool apply_message(struct client *client, uint32_t number, actor_id from, const struct message *message,
                          enum rows_wanted wanted) {
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    uint32_t *slots[WIRE_TABLES_MAX];
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, &error);
    if (count < 0) {
        accuse(client, from, "PUSH: partition %u, %s", number, error.text);
    }
    for (int v = 0; v < count; v++) {
        slots[v] = view_cache_slots(client, number, &views[v], wanted);
        if (slots[v] == NULL) {
            accuse(client, from, "PUSH: partition %u, table %s: a row that was not asked for", number,
                   client->job->tables[views[v].table].name);
            while (v-- > 0) {
                free(slots[v]);
            }
            return false;
        }
    }
    client->stamp++;
    for (int v = 0; v < count; v++) {
        apply_rows(client, number, message->push.clock, &views[v], slots[v], wanted);
        free(slots[v]);
    }
    return count >= 0;
}

/* Frees the flushes that are committed and are part of the state in the cache. */
static void release_committed(const struct client *client, struct client_partition *partition) {
    uint64_t released = client->committed < partition->clock ? client->committed : partition->clock;
    unsigned count = 0;
    while (count < partition->retained_count && partition->retained[count].clock <= released) {
        flush_close(client, &partition->retained[count++]);
    }
    if (count > 0) {
        partition->retained_count -= count;
        memmove(partition->retained, partition->retained + count,
                partition->retained_count * sizeof *partition->retained);
    }
}

/* Waits for a later commit point. Every partition is durable as far as our next clock needs, but they have no common
 * restore point up to there. Sends PULL later, as a server's report of that commit point may have been lost. */
static void await_later_commit(struct client *client) {
    client->durable_wanted = durable_wanted(client);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (partition_awaited(client, &client->partitions[p])) {
            partition_wait(client, &client->partitions[p]);
        }
    }
}

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
            release_committed(client, &client->partitions[p]);
        }
    }
}

/* Sets the clock of the partition's state. */
static void partition_came_to(struct client *client, uint32_t number, uint64_t clock) {
    struct client_partition *partition = &client->partitions[number];
    partition->clock = clock;
    release_committed(client, partition);
    if (client->row_state != NULL) {
        client->row_state(client->context, number, clock);
    }
}

/* Applies the next push, or the answer to `restore_request`. */
static void apply_push(struct client *client, uint32_t number, actor_id from, const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (message->push.request != 0) {
        apply_message(client, number, from, message, ROWS_VOID);
    } else if (message->push.clock > partition->clock && message->push.from_clock <= partition->clock &&
               apply_message(client, number, from, message, ROWS_ALL)) {
        partition_came_to(client, number, message->push.clock);
    }
}

/* Applies a push, or keeps it until the app does not use the cache any more. */
static void take_push(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (!client->working && !client->frozen) {
        apply_push(client, number, from, message);
        return;
    }
    partition->waiting = memory_resized(partition->waiting, partition->waiting_count + 1, sizeof *partition->waiting);
    partition->waiting[partition->waiting_count++] = (struct waiting_push){.from = from, .message = *message};
    message->frame_count = 0; /* the waiting push owns the frames */
}

static void apply_waiting(struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned w = 0; w < partition->waiting_count; w++) {
            apply_push(client, p, partition->waiting[w].from, &partition->waiting[w].message);
        }
        waiting_drop(partition);
        restore_step(client, p);
    }
}

/* ---- Messages of servers ---- */

/* Whether a push can be applied, or can wait. */
static bool push_has_room(const struct client *client, const struct client_partition *partition) {
    return (!client->working && !client->frozen) || partition->waiting_count < waiting_entries(client);
}

/* Takes the next push, which may bring us to the plan's switch. */
static void go_on(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    take_push(client, number, from, message);
    if (client_server(client, number, partition_arrived(partition) + 1) != partition->now.server) {
        partition_place(client, number);
        partition_ask(client, number, NULL);
    }
    if (!partition->now.open && !partition->next.open) {
        partition->retry_us = 0; /* the silence is over. A push does not answer an open request, though */
    }
    if (partition_awaited(client, partition)) {
        partition_wait(client, partition);
    }
}

/* Takes a push of changes. False when it can't be taken now: there is no room, the server lacks some of our rows, or a
 * push before it was lost. Requests a lost push once, from the server of the next clock. A push of another server can't
 * show the loss: the missing push may still come from the first one. But a joining node gets pushes only from the
 * server of its first clock, and requests them there. */
static bool receive_changes(struct client *client, uint32_t number, struct client_subscription *subscription,
                            struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    uint64_t arrived = partition_arrived(partition);
    if (!partition->subscribed || message->push.clock <= arrived) {
        return true;
    }
    if (subscription == NULL || !subscription_covers(client, partition, subscription) ||
        !push_has_room(client, partition)) {
        return false;
    }
    if (message->push.from_clock > arrived) {
        if ((subscription == &partition->now || client->joins) && subscription->again == 0) {
            send_pull(client, number, subscription->server, true);
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
    if (!apply_message(client, number, subscription->server, message, ROWS_NEW)) {
        return false;
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->asked[t] > partition->filled[t]) {
            partition->filled[t] = subscription->asked[t];
        }
    }
    return true;
}

/* Takes the answer to an open SUBSCRIBE. If the first one has named all rows, its answer is also a push of the
 * changes since `since`. */
static void receive_answer(struct client *client, uint32_t number, struct client_subscription *subscription,
                           struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    bool now = subscription == &partition->now;
    bool serves = message->push.clock > 0 || message->frame_count > 0;
    bool news = request_names_new(client, partition, subscription);
    bool lags = partition->subscribed && message->push.clock < partition_arrived(partition);
    bool awaited = (news && now) || partition_skips(client, partition);
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
            partition_came_to(client, number, message->push.clock);
            partition_place(client, number);
        }
    } else if (first && message->push.clock > partition_arrived(partition) &&
               subscription_covers(client, partition, subscription)) {
        message->push.request = 0;
        message->push.from_clock = subscription->since;
        if (subscription->since <= partition_arrived(partition) && push_has_room(client, partition)) {
            go_on(client, number, subscription->server, message);
        }
    }
    partition_ask(client, number, NULL); /* for rows that were added meanwhile */
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
        subscription_close(subscription);
        subscription_open(client, subscription, server);
        partition_ask(client, number, NULL);
    }
}

/* Repeats to a server that has answered a PULL what was sent before that PULL and was lost: flushes that it has not
 * received, and requests that it has not answered. */
static void send_lost(struct client *client, uint32_t number, actor_id server, const struct message_push *push) {
    struct client_partition *partition = &client->partitions[number];
    struct client_subscription *subscription = subscription_with(partition, server);
    uint64_t arrived = partition_arrived(partition);
    for (unsigned r = 0; r < partition->retained_count; r++) {
        struct retained_flush *flush = &partition->retained[r];
        if (flush->pull < push->pull && flush->clock > (flush->origin == client->self ? push->received : arrived) &&
            client_server(client, number, flush->clock) == server) {
            send_flush(client, number, flush);
        }
    }
    if (subscription != NULL && subscription->open && subscription->pull < push->pull) {
        send_request(client, number, subscription);
    }
    if (subscription == &partition->now && partition->restore_request != 0 && partition->restore_pull < push->pull &&
        !restored_waits(partition)) {
        send_restore(client, number);
    }
}

/* Whether a server can have the clocks in a PUSH. It can't be beyond the clock before our assignment's next one, for
 * which it waits for our flush. Accuses the server if not. */
static bool push_is_possible(struct client *client, actor_id from, const struct message_push *push) {
    const struct {
        const char *name;
        uint64_t clock;
    } clocks[] = {{"clock", push->clock}, {"durable clock", push->durable}, {"received clock", push->received}};
    for (unsigned c = 0; c < sizeof clocks / sizeof *clocks; c++) {
        if (clocks[c].clock > client->possible) {
            accuse(client, from, "PUSH: %s %llu, at most %llu is possible", clocks[c].name,
                   (unsigned long long)clocks[c].clock, (unsigned long long)client->possible);
            return false;
        }
    }
    return true;
}

static void receive_push(struct client *client, actor_id from, struct message *message) {
    uint32_t number = message->push.partition;
    if (!push_is_possible(client, from, &message->push)) {
        return;
    }
    struct client_partition *partition = &client->partitions[number];
    struct client_subscription *subscription = subscription_with(partition, from);
    const struct message_push push = message->push;
    if (subscription != NULL) {
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
    if (client->accused != ACTOR_NONE) {
        return;
    }
    /* In a job that can't recover, every state counts as durable. */
    uint64_t durable = client->plan.terms.recoverable != 0 ? push.durable : push.clock;
    if (durable > partition->durable) {
        partition->durable = durable;
        partition->durable_from = client->plan.terms.recoverable != 0 ? push.durable_from : 0;
    }
    find_committed(client);
    restore_step(client, number);
    if (push.pull != 0) {
        subscribe_anew(client, number, from, &push);
        send_lost(client, number, from, &push);
    }
    if (lacking) {
        partition_wait(client, partition); /* PULL follows later */
    } else if (!partition_awaited(client, partition)) {
        partition->retry_us = 0;
    }
}

/* Whether a ROWS message is possible: it has rows of its own table alone, and the next piece is behind it. Accuses the
 * server if not. */
static bool rows_are_possible(struct client *client, actor_id from, const struct message *message) {
    const struct message_rows *rows = &message->rows;
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, &error);
    bool others = count > 1 || (count == 1 && views[0].table != rows->table);
    bool ascends = rows->next == 0 || rows->next > rows->cursor;
    if (count < 0 || others || !ascends) {
        accuse(client, from, "ROWS: %s",
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
    if (!plan_serves(&client->plan, number, from)) {
        return;
    }
    if (push) {
        receive_push(client, from, message);
    } else if (client->rows != NULL && rows_are_possible(client, from, message)) {
        client->rows(client->context, message);
    }
}

/* ---- The end of a clock ---- */

void client_freeze(struct client *client) {
    assert(!client->working && !client->frozen);
    client->frozen = true;
}

void client_thaw(struct client *client) {
    assert(client->frozen);
    client->frozen = false;
    apply_waiting(client);
}

/* Retains the gathered flush until it is committed. */
static struct retained_flush *retain(struct client_partition *partition) {
    partition->retained =
        memory_resized(partition->retained, partition->retained_count + 1, sizeof *partition->retained);
    const struct retained_flush *new = &partition->gathered;
    unsigned at = partition->retained_count++;
    for (; at > 0; at--) {
        const struct retained_flush *before = &partition->retained[at - 1];
        if (before->clock < new->clock || (before->clock == new->clock && before->origin < new->origin)) {
            break;
        }
        partition->retained[at] = *before;
    }
    partition->retained[at] = *new;
    memset(&partition->gathered, 0, sizeof partition->gathered);
    return &partition->retained[at];
}

/* Applies the puts of later clocks again. A catch-up may flush a clock after later clocks of ours; rows that both have
 * put must have the later clock's value. */
static void put_later(struct client *client, const struct client_partition *partition,
                      const struct retained_flush *flush) {
    client->stamp++;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        uint32_t *stamps = cache_stamps(table);
        for (uint32_t i = 0; i < flush->counts[t] && table->spec->mode == AML_PUT; i++) {
            stamps[flush->slots[t][i]] = client->stamp;
        }
        reapply_own(client, partition, t, flush->clock);
    }
}

void client_flush(struct client *client) {
    assert(client->working && !client->frozen);
    client->working = false;
    if (client->origin == client->self) {
        client->flushed = client->clock;
        find_wanted(client);
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        assert(partition->gathered.clock == client->clock);
        struct retained_flush *flush = retain(partition);
        if (partition->retained[partition->retained_count - 1].clock > flush->clock) {
            put_later(client, partition, flush);
        }
        if (!client->fenced) {
            partition_wait(client, partition);
            send_flush(client, p, flush);
        }
    }
    apply_waiting(client);
}

/* ---- Time ---- */

/* Sends PULL to the server of the next clock, and to the plan's other server of the partition. */
static void partition_pull(struct client *client, uint32_t number) {
    const struct wire_placement *placement = &client->plan.placement[number];
    actor_id now = client->partitions[number].now.server;
    actor_id other = placement->server == now ? placement->next_server : placement->server;
    bool ended = client->last != 0; /* then no assignment follows, and servers push nothing by themselves */
    send_pull(client, number, now, ended && partition_arrived(&client->partitions[number]) < client->last);
    if (other != now && other != ACTOR_NONE && !ended) {
        send_pull(client, number, other, false);
    }
}

uint64_t client_timer(struct client *client) {
    uint64_t now = client_now(client);
    uint64_t next = 0;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        if (partition->retry_us == 0) {
            continue;
        }
        if (partition->retry_us <= now) {
            partition_pull(client, p);
            partition->retry_wait_us *= 2;
            if (partition->retry_wait_us > CLIENT_RETRY_MAX_US) {
                partition->retry_wait_us = CLIENT_RETRY_MAX_US;
            }
            partition->retry_us = now + partition->retry_wait_us;
        }
        next = next == 0 || partition->retry_us < next ? partition->retry_us : next;
    }
    return next;
}

actor_id client_silent(const struct client *client, uint64_t *since_us) {
    actor_id silent = ACTOR_NONE;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        const struct client_subscription *awaited[2] = {
            now_awaited(client, partition) ? &partition->now : NULL,
            partition->next.open ? &partition->next : NULL,
        };
        for (unsigned a = 0; a < 2 && partition->retry_us != 0; a++) {
            if (awaited[a] != NULL && (silent == ACTOR_NONE || awaited[a]->heard_us < *since_us)) {
                silent = awaited[a]->server;
                *since_us = awaited[a]->heard_us;
            }
        }
    }
    return silent;
}

void client_excuse(struct client *client, uint64_t late_us, uint64_t latest_us) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        partition->now.heard_us = io_excused(partition->now.heard_us, late_us, latest_us);
        partition->next.heard_us = io_excused(partition->next.heard_us, late_us, latest_us);
    }
}
