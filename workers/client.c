/* See client.h. */
#include "workers/client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache) {
    *client = (struct client){.io = io, .self = self, .job = job, .cache = cache};
}

static unsigned retained_entries(const struct client *client) {
    return client->job->staleness + 2;
}

/* Servers can't be further ahead of an origin; those of one without data can. */
static unsigned waiting_entries(const struct client *client) {
    return client->job->staleness + 2;
}

static void retained_close(const struct client *client, struct retained_flush *flush) {
    message_close(&flush->message);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        free(flush->slots[t]);
    }
    memset(flush, 0, sizeof *flush);
}

void client_close(struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned r = 0; r < retained_entries(client); r++) {
            retained_close(client, &partition->retained[r]);
        }
        for (unsigned w = 0; w < partition->waiting_count; w++) {
            message_close(&partition->waiting[w]);
        }
        free(partition->retained);
        free(partition->waiting);
        free(partition->asked);
        free(partition->answered);
    }
    free(client->partitions);
    memset(client, 0, sizeof *client);
}

void client_plan(struct client *client, const struct message *plan) {
    if (plan->epoch <= client->epoch) {
        return;
    }
    if (client->partitions != NULL && plan->plan.partitions != client->partition_count) {
        return; /* the number of partitions is fixed at start */
    }
    client->epoch = plan->epoch;
    if (client->partitions == NULL) {
        client->partition_count = plan->plan.partitions;
        client->partitions = memory_zeroed(plan->plan.partitions, sizeof *client->partitions);
        for (uint32_t p = 0; p < plan->plan.partitions; p++) {
            struct client_partition *partition = &client->partitions[p];
            partition->retained = memory_zeroed(retained_entries(client), sizeof *partition->retained);
            partition->asked = memory_zeroed(client->job->table_count, sizeof *partition->asked);
            partition->answered = memory_zeroed(client->job->table_count, sizeof *partition->answered);
        }
    }
    const actor_id *placement = (const void *)plan->frames[1]->data;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        client->partitions[p].server = placement[p];
    }
    const actor_id *owners = (const void *)plan->frames[2]->data;
    client->alone = true;
    for (uint32_t s = 0; s < plan->plan.shards; s++) {
        client->alone = client->alone && owners[s] == client->self;
    }
}

/* ---- Waiting and asking again ---- */

static void partition_wait(struct client *client, struct client_partition *partition) {
    uint64_t now = client->io->now_us(client->io);
    if (partition->retry_us == 0) {
        partition->retry_wait_us = CLIENT_RETRY_MIN_US;
        partition->heard_us = now;
        partition->retry_us = now + partition->retry_wait_us;
    }
}

/* The clock of the state that has arrived, be it in the cache or waiting. */
static uint64_t partition_arrived(const struct client_partition *partition) {
    unsigned count = partition->waiting_count;
    return count > 0 ? partition->waiting[count - 1].push.clock : partition->clock;
}

/* We wait for a partition while its rows' first state or our own flushes' outcome is missing. */
static bool partition_awaited(const struct client *client, const struct client_partition *partition) {
    return partition->request_open || (partition->subscribed && partition_arrived(partition) < client->flushed);
}

static void send_pull(struct client *client, uint32_t number) {
    struct message pull = {.type = MESSAGE_PULL, .epoch = client->epoch};
    pull.pull.partition = number;
    pull.pull.clock = partition_arrived(&client->partitions[number]);
    client->io->send(client->io, client->partitions[number].server, &pull);
}

static void send_retained(struct client *client, const struct client_partition *partition,
                          const struct retained_flush *flush) {
    struct message copy = message_share(&flush->message);
    copy.epoch = client->epoch;
    client->io->send(client->io, partition->server, &copy);
}

/* ---- Subscribing ---- */

static int rows_fit(const struct client *client, unsigned table, uint32_t partition, uint64_t rows,
                    struct error *error) {
    const struct table_spec *spec = &client->job->tables[table];
    uint64_t row_bytes = spec->row_bytes > sizeof(uint64_t) ? spec->row_bytes : sizeof(uint64_t);
    if (rows > WIRE_FRAME_BYTES_MAX / row_bytes) {
        return error_set(error, AML_ELIMIT,
                         "table %s: partition %u has %llu rows of %u bytes, more than one message of %llu bytes holds: "
                         "use more --partitions",
                         spec->name, partition, (unsigned long long)rows, spec->row_bytes,
                         (unsigned long long)WIRE_FRAME_BYTES_MAX);
    }
    return 0;
}

/* Names the rows that the open request is about: those between answered and asked. */
static void send_subscribe(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    struct message subscribe = {.type = MESSAGE_SUBSCRIBE, .epoch = client->epoch};
    subscribe.subscribe.partition = number;
    subscribe.subscribe.request = partition->request;
    struct wire_directory_entry directory[WIRE_TABLES_MAX];
    unsigned tables = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_list *list = cache_list(client->cache, number, t);
        uint32_t first = partition->answered[t];
        uint32_t count = partition->asked[t] - first;
        if (count == 0) {
            continue;
        }
        struct buffer *keys = buffer_new(count * sizeof(uint64_t));
        for (uint32_t i = 0; i < count; i++) {
            ((uint64_t *)(void *)keys->data)[i] = cache_key(&client->cache->tables[t], list->slots[first + i]);
        }
        directory[tables++] = (struct wire_directory_entry){.table = t, .rows = count};
        subscribe.frames[tables] = keys;
    }
    if (tables > 0) {
        subscribe.frames[0] = buffer_copy(directory, tables * sizeof directory[0]);
        subscribe.frame_count = 1 + tables;
    }
    client->io->send(client->io, partition->server, &subscribe);
}

int client_subscribe(struct client *client, struct error *error) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        if (partition->request_open) {
            continue; /* one at a time; what is new follows when it is answered */
        }
        bool new_rows = !partition->subscribed; /* every worker follows every partition's clock, rows or not */
        for (unsigned t = 0; t < client->job->table_count; t++) {
            uint32_t count = cache_list(client->cache, p, t)->count;
            if (rows_fit(client, t, p, count, error) != 0) {
                return AML_ELIMIT;
            }
            new_rows = new_rows || count > partition->asked[t];
            partition->asked[t] = count;
        }
        if (new_rows) {
            partition->request++;
            partition->request_open = true;
            partition_wait(client, partition);
            send_subscribe(client, p);
        }
    }
    return 0;
}

bool client_subscribed(const struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        if (!partition->subscribed) {
            return false;
        }
        for (unsigned t = 0; t < client->job->table_count; t++) {
            if (partition->answered[t] < cache_list(client->cache, p, t)->count) {
                return false;
            }
        }
    }
    return true;
}

/* ---- Clocks ---- */

bool client_has_state(const struct client *client, uint64_t clock) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (!client->partitions[p].subscribed || client->partitions[p].clock < clock) {
            return false;
        }
    }
    return client->partition_count > 0;
}

bool client_may_begin(const struct client *client, uint64_t clock) {
    uint64_t lag = 1 + (uint64_t)client->job->staleness;
    return client_has_state(client, clock > lag ? clock - lag : 0);
}

void client_begin(struct client *client, uint64_t clock) {
    assert(!client->working && clock == client->begun + 1 && client->flushed == client->begun);
    assert(client_may_begin(client, clock)); /* I3 */
    client->begun = clock;
    client->working = true;
}

/* Copies the deltas (add) or values (put) of the touched slots into `values`, and sees to what the next deltas are taken
 * against. With staleness that is the rows as they are. Without, every one of these rows is pushed before the next
 * clock begins, and nothing needs to be done. A worker that is alone gets no rows back and makes its own what the
 * server's will be: not the rows as they are, but the old ones plus the delta, rounded alike. */
static void gather_rows(const struct client *client, const struct cache_table *table, const uint32_t *slots,
                        uint32_t count, uint64_t *keys, unsigned char *values) {
    const struct table_spec *spec = table->spec;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = slots[i];
        unsigned char *row = cache_row(table, slot);
        unsigned char *value = values + (size_t)i * spec->row_bytes;
        keys[i] = cache_key(table, slot);
        table->touched.base[slot] = 0;
        if (spec->mode == AML_PUT) {
            memcpy(value, row, spec->row_bytes);
            continue;
        }
        unsigned char *base = cache_base(table, slot);
        table_delta(spec->type, value, row, base, spec->width);
        if (client->alone) {
            table_add(spec->type, base, value, spec->width);
            memcpy(row, base, spec->row_bytes);
        } else if (client->job->staleness > 0) {
            memcpy(base, row, spec->row_bytes);
        }
    }
}

int client_gather(struct client *client, uint32_t number, struct error *error) {
    struct client_partition *partition = &client->partitions[number];
    struct retained_flush *flush = &partition->retained[client->begun % retained_entries(client)];
    assert(client->working && flush->clock == 0); /* what was there is committed: the window is staleness + 1 clocks */
    flush->clock = client->begun;
    flush->message = (struct message){.type = MESSAGE_FLUSH, .epoch = client->epoch};
    flush->message.flush.partition = number;
    flush->message.flush.origin = client->self;
    flush->message.flush.clock = client->begun;
    struct wire_directory_entry directory[WIRE_TABLES_MAX];
    unsigned tables = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        const struct cache_list *list = cache_list(client->cache, number, t);
        uint32_t count = 0;
        for (uint32_t i = 0; i < list->count; i++) {
            count += table->touched.base[list->slots[i]];
        }
        if (count == 0) {
            continue;
        }
        if (rows_fit(client, t, number, count, error) != 0) {
            return AML_ELIMIT;
        }
        uint32_t *slots = memory_resized(NULL, count, sizeof *slots);
        for (uint32_t i = 0, n = 0; i < list->count; i++) {
            if (table->touched.base[list->slots[i]] != 0) {
                slots[n++] = list->slots[i];
            }
        }
        struct buffer *keys = buffer_new(count * sizeof(uint64_t));
        struct buffer *values = buffer_new((size_t)count * table->spec->row_bytes);
        gather_rows(client, table, slots, count, (uint64_t *)(void *)keys->data, values->data);
        flush->slots[t] = slots;
        flush->counts[t] = count;
        directory[tables] = (struct wire_directory_entry){.table = t, .rows = count};
        flush->message.frames[1 + 2 * tables] = keys;
        flush->message.frames[2 + 2 * tables] = values;
        tables++;
    }
    if (tables > 0) {
        flush->message.frames[0] = buffer_copy(directory, tables * sizeof directory[0]);
        flush->message.frame_count = 1 + 2 * tables;
    }
    return 0;
}

/* ---- Pushes into the cache ---- */

/* The cache slots of a view's rows. Servers push in the order of our list, so the next one is usually further on
 * in it. NULL when a key is not in the cache (the server may not push what we did not ask for). */
static uint32_t *view_cache_slots(const struct client *client, uint32_t number, const struct rows_view *view) {
    const struct cache_table *table = &client->cache->tables[view->table];
    const struct cache_list *list = cache_list(client->cache, number, view->table);
    uint32_t *slots = memory_resized(NULL, view->count, sizeof *slots);
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        while (at < list->count && cache_key(table, list->slots[at]) != view->keys[i]) {
            at++;
        }
        if (at < list->count) {
            slots[i] = list->slots[at++];
            continue;
        }
        int64_t found = index_map_find(&table->index, view->keys[i]);
        if (found == INDEX_NONE) {
            free(slots);
            return NULL;
        }
        slots[i] = (uint32_t)found;
    }
    return slots;
}

/* Own updates of clocks after `clock` that stand in retained flushes are not in the pushed rows: add them again. */
static void reapply_own(const struct client *client, const struct client_partition *partition, unsigned t,
                        uint64_t clock) {
    const struct cache_table *table = &client->cache->tables[t];
    const uint32_t *stamps = (const uint32_t *)(const void *)table->stamps.base;
    for (uint64_t later = clock + 1; later <= client->flushed; later++) {
        const struct retained_flush *flush = &partition->retained[later % retained_entries(client)];
        if (flush->clock != later || flush->counts[t] == 0) {
            continue;
        }
        unsigned v = 0;
        const struct wire_directory_entry *directory = (const void *)flush->message.frames[0]->data;
        while (directory[v].table != t) {
            v++;
        }
        const unsigned char *values = flush->message.frames[2 + 2 * v]->data;
        for (uint32_t i = 0; i < flush->counts[t]; i++) {
            uint32_t slot = flush->slots[t][i];
            if (stamps[slot] != client->stamp) {
                continue;
            }
            const unsigned char *value = values + (size_t)i * table->spec->row_bytes;
            if (table->spec->mode == AML_PUT) {
                memcpy(cache_row(table, slot), value, table->spec->row_bytes);
            } else {
                table_add(table->spec->type, cache_row(table, slot), value, table->spec->width);
            }
        }
    }
}

static void apply_rows(struct client *client, uint32_t number, uint64_t clock, const struct rows_view *view,
                       const uint32_t *slots) {
    struct cache_table *table = &client->cache->tables[view->table];
    uint32_t *stamps = (uint32_t *)(void *)table->stamps.base;
    size_t row_bytes = table->spec->row_bytes;
    bool add = table->spec->mode == AML_ADD;
    bool own_later = client->flushed > clock; /* else the pushed rows are the rows */
    for (uint32_t i = 0; i < view->count; i++) {
        const unsigned char *value = view->values + i * row_bytes;
        memcpy(cache_row(table, slots[i]), value, row_bytes);
        if (add && !own_later) {
            memcpy(cache_base(table, slots[i]), value, row_bytes);
        }
        stamps[slots[i]] = client->stamp;
    }
    if (own_later) {
        reapply_own(client, &client->partitions[number], view->table, clock);
        for (uint32_t i = 0; add && i < view->count; i++) {
            memcpy(cache_base(table, slots[i]), cache_row(table, slots[i]), row_bytes);
        }
    }
}

static void release_committed(struct client *client, struct client_partition *partition) {
    for (unsigned r = 0; r < retained_entries(client); r++) {
        struct retained_flush *flush = &partition->retained[r];
        if (flush->clock != 0 && flush->clock <= partition->committed && flush->clock <= client->flushed) {
            retained_close(client, flush);
        }
    }
}

/* Applies a PUSH whose turn it is. False when it breaks the protocol. */
static bool push_apply(struct client *client, uint32_t number, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    uint32_t *slots[WIRE_TABLES_MAX];
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, &client->error);
    for (int v = 0; v < count; v++) {
        slots[v] = view_cache_slots(client, number, &views[v]);
        if (slots[v] == NULL) {
            error_set(&client->error, AML_EPROTOCOL, "PUSH: partition %u, table %s: a row that was not asked for",
                      number, client->job->tables[views[v].table].name);
            while (v-- > 0) {
                free(slots[v]);
            }
            return false;
        }
    }
    client->stamp++;
    for (int v = 0; v < count; v++) {
        apply_rows(client, number, message->push.clock, &views[v], slots[v]);
        free(slots[v]);
    }
    return count >= 0;
}

/* The answer to a SUBSCRIBE: first state of rows that the app has not seen, so it need not wait. */
static void receive_subscribed(struct client *client, uint32_t number, const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (!partition->request_open || message->push.request != partition->request ||
        !push_apply(client, number, message)) {
        return;
    }
    partition->request_open = false;
    memcpy(partition->answered, partition->asked, client->job->table_count * sizeof *partition->answered);
    if (!partition->subscribed) {
        partition->subscribed = true;
        partition->clock = message->push.clock;
        if (client->row_state != NULL) {
            client->row_state(client->context, number, partition->clock);
        }
    }
    client_subscribe(client, NULL); /* rows added meanwhile */
}

static void apply_push(struct client *client, uint32_t number, const struct message *message) {
    struct client_partition *partition = &client->partitions[number];
    if (message->push.clock > partition->clock && message->push.from_clock <= partition->clock &&
        push_apply(client, number, message)) {
        partition->clock = message->push.clock;
        partition->committed = message->push.committed;
        release_committed(client, partition);
        if (client->row_state != NULL) {
            client->row_state(client->context, number, partition->clock);
        }
    }
}

static void receive_push(struct client *client, actor_id from, struct message *message) {
    uint32_t number = message->push.partition;
    if (number >= client->partition_count || from != client->partitions[number].server ||
        message->epoch != client->epoch) {
        return;
    }
    struct client_partition *partition = &client->partitions[number];
    partition->heard_us = client->io->now_us(client->io);
    if (message->push.request != 0) {
        receive_subscribed(client, number, message);
    } else if (partition->subscribed && message->push.clock > partition_arrived(partition)) {
        bool later = client->working || client->frozen;
        if (message->push.from_clock > partition_arrived(partition) ||
            (later && partition->waiting_count == waiting_entries(client))) {
            partition_wait(client, partition); /* one before it was lost, or nobody waits for us: ask for it later */
            return;
        }
        if (later) {
            partition->waiting =
                memory_resized(partition->waiting, partition->waiting_count + 1, sizeof *partition->waiting);
            partition->waiting[partition->waiting_count++] = *message;
            message->frame_count = 0; /* ours now */
        } else {
            apply_push(client, number, message);
        }
        partition->retry_us = 0; /* the silence is over; another may begin */
        if (partition_awaited(client, partition)) {
            partition_wait(client, partition);
        }
    } else if (partition->subscribed) {
        /* Nothing new there: an answer to our PULL. Send again what has not arrived. */
        for (uint64_t c = message->push.received + 1; c <= client->flushed; c++) {
            const struct retained_flush *flush = &partition->retained[c % retained_entries(client)];
            if (flush->clock == c) {
                send_retained(client, partition, flush);
            }
        }
    }
    if (!partition_awaited(client, partition)) {
        partition->retry_us = 0;
    }
}

static void apply_waiting(struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned w = 0; w < partition->waiting_count; w++) {
            apply_push(client, p, &partition->waiting[w]);
            message_close(&partition->waiting[w]);
        }
        partition->waiting_count = 0;
    }
}

void client_freeze(struct client *client) {
    assert(!client->working && !client->frozen);
    client->frozen = true;
}

void client_thaw(struct client *client) {
    assert(client->frozen);
    client->frozen = false;
    apply_waiting(client);
}

void client_flush(struct client *client) {
    assert(client->working && !client->frozen);
    client->working = false;
    client->flushed = client->begun;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        partition_wait(client, partition);
        send_retained(client, partition, &partition->retained[client->begun % retained_entries(client)]);
        release_committed(client, partition); /* when nobody waited for this flush: we own no data */
    }
    apply_waiting(client);
}

void client_receive(struct client *client, actor_id from, struct message *message) {
    if (message->type == MESSAGE_PUSH) {
        receive_push(client, from, message);
    } else if (message->type == MESSAGE_ROWS && client->rows != NULL &&
               message->rows.partition < client->partition_count &&
               client->partitions[message->rows.partition].server == from) {
        client->rows(client->context, message);
    }
}

uint64_t client_timer(struct client *client) {
    uint64_t now = client->io->now_us(client->io);
    uint64_t next = 0;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        if (partition->retry_us == 0) {
            continue;
        }
        if (partition->retry_us <= now) {
            if (partition->request_open) {
                send_subscribe(client, p);
            }
            if (partition->subscribed) {
                send_pull(client, p);
            }
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
        if (partition->retry_us != 0 && (silent == ACTOR_NONE || partition->heard_us < *since_us)) {
            silent = partition->server;
            *since_us = partition->heard_us;
        }
    }
    return silent;
}
