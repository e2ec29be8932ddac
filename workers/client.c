/* See client.h. */
#include "workers/client.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which rows of a message are for the cache: those that have a state; those whose first state it is; those that were
 * asked for again. */
enum rows_wanted { ROWS_ALL, ROWS_NEW, ROWS_VOID };

static uint64_t client_now(const struct client *client) {
    return client->io->now_us(client->io);
}

/* Clocks whose pushes wait at most: servers can't be further ahead of an origin; those of a node without assignments
 * can. */
static unsigned waiting_entries(const struct client *client) {
    return client->job->staleness + 2;
}

/* A server has sent what can't be, which has had no effect. `format` begins with the message's name. */
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

/* ---- What the plan says ---- */

actor_id client_server(const struct client *client, uint32_t partition, uint64_t clock) {
    return plan_server_at(&client->plan, clock, partition);
}

/* Returns the clock that must be committed before the next one begins: one not too far behind it, and before an
 * assignment's first clock also the one that another origin did last (node.c). The last clock of a job with a
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
        /* Its replica can be put at no earlier commit point: the other partitions have to reach this one. */
        uint64_t from = client->partitions[p].durable_from;
        wanted = from > wanted ? from : wanted;
    }
    return wanted;
}

/* Which state our next clock wants, and, before our first one, which clock counts as flushed. */
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

/* ---- Waiting and asking again ---- */

/* The clock of the state that has arrived, be it in the cache or waiting. */
static uint64_t partition_arrived(const struct client_partition *partition) {
    for (unsigned w = partition->waiting_count; w > 0; w--) {
        if (partition->waiting[w - 1].message.push.request == 0) {
            return partition->waiting[w - 1].message.push.clock;
        }
    }
    return partition->clock;
}

/* We wait for the state after our own flushes, for that before our next clock, or for the commit without which it can't
 * begin. */
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
    uint64_t row_bytes = spec->row_bytes + (spec->sparse ? sizeof(uint32_t) : 0); /* its count */
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

/* Takes over `keys`, of each table; empty ones leave no trace. */
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

/* Names the rows that the open request is about: those between answered and asked, or all. */
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

/* Asks a server for what it was not told of yet: at first the rows whose state we have, and what changed since; then
 * new ones. One request at a time; what is new follows when it is answered. */
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

/* Who joins goes by the server that it begins with, and leaves in peace the one that serves until then. */
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

/* The server pushes every row whose state we have: only then its pushes are all that we miss. */
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

/* Nothing is being asked for, and every row in the cache is pushed, by one server. */
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

/* Until the server knows, its pushes bring the other rows too; they are passed over. */
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

/* Once the server of the next clock's state is another, that is whom we go by; rows of which it could not tell the
 * state, and the server before it did not either, are asked for anew. */
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

/* Finds out by the plan whom to go by, now and after the switch. What was agreed with a server that stays, stays. */
static void partition_place(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    /* At the job's end there is no next one: a replica that gets ready may be at an earlier clock for good. */
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

/* In a new epoch nobody knows us. We go on from `restore` at most, and may not go by what we have seen beyond it. */
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

/* Asks for the rows beyond the restored state, once the server knows us again; pushes may bring them first. */
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
    /* When an epoch went by without us, the others may have been put at a clock below this restore, and gone on from
     * there: but not if they could not have done so without our flushes. */
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
    client->last = restored ? 0 : client->last; /* it may have to be done again */
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
            partition_wait(client,
                           &client->partitions[p]); /* an assignment may begin with a state whose push was lost */
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

/* Without staleness the rows of a flush are what deltas are taken against only when they are pushed (gather_rows). When
 * a clock begins before that, under another origin, they are it now. Those that are rounded are it already. */
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

/* Encodes the deltas (add) or values (put) of the touched slots, and sees to what the next deltas are taken against.
 * With staleness that is the rows as they are. Without, every one of these rows is pushed before the next clock begins,
 * and nothing needs to be done (but see settle_flushed). A worker that is alone gets no rows back and makes its own
 * what the server's will be: not the rows as they are, but the old ones plus the delta, rounded alike. An encoding that
 * rounds: the old ones plus what is sent of the delta, always; the rest stays the difference between the two, through
 * pushes and restores (apply_rows), until the row is flushed again. */
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
    struct buffer *shorter = buffer_copy(values->data, size); /* it may be retained for long */
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

/* How many rows of each table of a partition there are to flush: counts[table]. */
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

/* The cache slots of a view's rows. Servers push in the order of our list, so the next row is usually further on in it;
 * the new rows of an answer stand behind the rows that have a state. NULL when a key is not in the cache (the server
 * may not push what we did not ask for). */
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

/* Own updates of clocks after `clock` that stand in retained flushes are not in the pushed rows: add them again, in
 * tables that are rounded to what deltas are taken against. */
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

/* A row's first state is what was asked for: a push that brings it before that, or after it is not wanted any more, is
 * not for the cache; nor is one that has waited since before it was given up, when that state is later. */
static bool row_wanted(enum rows_wanted wanted, uint32_t stamp, uint32_t row_clock, uint64_t clock) {
    bool lacks = row_clock == CACHE_CLOCK_VOID;
    return wanted == ROWS_NEW ? stamp == 0 : stamp != 0 && (lacks || (wanted == ROWS_ALL && row_clock <= clock));
}

/* A pushed row: what the app sees, and what deltas are taken against unless own updates come on top (settle_row). Of
 * tables that are rounded only the latter; the row holds meanwhile what of it has not been sent. */
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

/* Own updates have been added to a pushed row. */
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
    bool own_later = /* else the pushed rows are the rows */
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

/* Puts a PUSH's rows into the cache. False, with nothing changed, when they can't be. */
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

/* Forgets flushes that are committed, and in the state that the cache has. */
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

/* Every partition is durable as far as our next clock wants, but not all can be put at one commit point up to there.
 * Waits for a later commit point. Servers whose report of it was lost are asked again. */
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
            await_later_commit(client); /* this partition can't be put at `committed` */
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

/* The partition's state has come to `clock`. */
static void partition_came_to(struct client *client, uint32_t number, uint64_t clock) {
    struct client_partition *partition = &client->partitions[number];
    partition->clock = clock;
    release_committed(client, partition);
    if (client->row_state != NULL) {
        client->row_state(client->context, number, clock);
    }
}

/* Applies a push whose turn it is, or the answer to `restore_request`. */
static void apply_push(struct client *client, uint32_t number, actor_id from, const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (message->push.request != 0) {
        apply_message(client, number, from, message, ROWS_VOID);
    } else if (message->push.clock > partition->clock && message->push.from_clock <= partition->clock &&
               apply_message(client, number, from, message, ROWS_ALL)) {
        partition_came_to(client, number, message->push.clock);
    }
}

/* Applies a push, or keeps it until the app is through with the cache. */
static void take_push(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (!client->working && !client->frozen) {
        apply_push(client, number, from, message);
        return;
    }
    partition->waiting = memory_resized(partition->waiting, partition->waiting_count + 1, sizeof *partition->waiting);
    partition->waiting[partition->waiting_count++] = (struct waiting_push){.from = from, .message = *message};
    message->frame_count = 0; /* ours now */
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

/* ---- What servers say ---- */

/* There is room for another push. */
static bool push_has_room(const struct client *client, const struct client_partition *partition) {
    return (!client->working && !client->frozen) || partition->waiting_count < waiting_entries(client);
}

/* Takes a push that fits. It may bring us to the switch. */
static void go_on(struct client *client, uint32_t number, actor_id from, struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    take_push(client, number, from, message);
    if (client_server(client, number, partition_arrived(partition) + 1) != partition->now.server) {
        partition_place(client, number);
        partition_ask(client, number, NULL);
    }
    if (!partition->now.open && !partition->next.open) {
        partition->retry_us = 0; /* the silence is over; another may begin. Pushes don't answer what was asked */
    }
    if (partition_awaited(client, partition)) {
        partition_wait(client, partition);
    }
}

/* False when the push can't be taken now: nobody waits for us, or one before it was lost. That one is sent again once,
 * however many pushes tell so before it comes; by the server of the next clock's state, for what another one has pushed
 * before the switch is lost only when that one says so. But who joins gets nothing from that one. */
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

/* Rows without a state are among those that the open request names. */
static bool request_names_new(const struct client *client, const struct client_partition *partition,
                              const struct client_subscription *subscription) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (subscription->asked[t] > partition->filled[t]) {
            return true;
        }
    }
    return false;
}

/* First state of rows that the app has not seen, so it need not wait. Not where the answer lacks rows before them. */
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

/* The answer to an open SUBSCRIBE. One that names all rows at once is also a push of what changed since `since`. */
static void receive_answer(struct client *client, uint32_t number, struct client_subscription *subscription,
                           struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    bool now = subscription == &partition->now;
    bool serves = message->push.clock > 0 || message->frame_count > 0;
    bool news = request_names_new(client, partition, subscription);
    bool lags = partition->subscribed && message->push.clock < partition_arrived(partition);
    bool awaited = (news && now) || partition_skips(client, partition);
    if ((awaited && !serves) || (serves && lags)) {
        return; /* it has not got so far, or not even the plan: asked again */
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
    partition_ask(client, number, NULL); /* rows added meanwhile */
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

/* A server has answered a PULL, with a replica that knows nothing of what was agreed: it had given the partition up,
 * and has got it back by another plan. */
static void subscribe_anew(struct client *client, uint32_t number, actor_id server, const struct message_push *push) {
    struct client_subscription *subscription = subscription_with(&client->partitions[number], server);
    if (subscription != NULL && push->subscribed < subscription->agreed) {
        subscription_close(subscription);
        subscription_open(client, subscription, server);
        partition_ask(client, number, NULL);
    }
}

/* A server has answered a PULL: sends it again what was sent before that and has not come, or whose answer has not. */
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

/* A server can't be beyond the clock before the next one of our own assignment: it waits for our flush of that one. */
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
    /* Where nothing is kept for undoing, nothing is waited for either. */
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
        partition_wait(client, partition); /* asked for later */
    } else if (!partition_awaited(client, partition)) {
        partition->retry_us = 0;
    }
}

/* The next piece of a table, of its rows alone: false when ROWS is anything else. */
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

/* Keeps what was gathered until it is committed. */
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

/* A catch-up may come after later clocks of ours: rows that both have put are what the later clock made them. */
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

/* Asks the server of the next clock's state, and the plan's other one. */
static void partition_pull(struct client *client, uint32_t number) {
    const struct wire_placement *placement = &client->plan.placement[number];
    actor_id now = client->partitions[number].now.server;
    actor_id other = placement->server == now ? placement->next_server : placement->server;
    bool ended = client->last != 0; /* without an assignment to come nothing is pushed by itself */
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
