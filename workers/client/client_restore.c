/* A new epoch for the client: rows seen beyond its restore point are void and requested again, and flushes beyond it
 * are sent again. */
#include "workers/client/client_private.h"

#include <assert.h>

static uint32_t count_void(const struct client *client, uint32_t number, unsigned t) {
    const struct cache_list *list = cache_list(client->cache, number, t);
    const uint32_t *clocks = cache_clocks(&client->cache->tables[t]);
    uint32_t count = 0;
    for (uint32_t i = 0; i < client->partitions[number].filled[t]; i++) {
        count += clocks[list->slots[i]] == CACHE_CLOCK_VOID;
    }
    return count;
}

/* Lists the keys of the first `count` void rows. */
static struct buffer *keys_void(const struct client *client, uint32_t number, unsigned t, uint32_t count) {
    const struct cache_table *table = &client->cache->tables[t];
    const struct cache_list *list = cache_list(client->cache, number, t);
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    for (uint32_t i = 0, listed = 0; listed < count; i++) {
        if (cache_clocks(table)[list->slots[i]] == CACHE_CLOCK_VOID) {
            ((uint64_t *)(void *)keys->data)[listed++] = cache_key(table, list->slots[i]);
        }
    }
    return keys;
}

void client_send_restore(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    assert(partition->restoring && partition->restore_request != 0 && !client->fenced);
    struct buffer *keys[WIRE_TABLES_MAX];
    size_t room = client_room(client);
    bool some = false;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t count = client_portion(client, t, count_void(client, number, t), !some, &room);
        keys[t] = keys_void(client, number, t, count);
        some = some || count > 0;
    }
    partition->restore_pull = partition->pulls;
    client_send_subscribe(
        client, partition->now.server,
        &(struct message_subscribe){.partition = number, .request = partition->restore_request, .again = 1}, keys);
}

/* Begins a new epoch for a partition. No server has our subscriptions any more. Our state is at most that of `restore`,
 * and the rows that we have seen beyond it are void. */
static void partition_restore(const struct client *client, uint32_t number, uint64_t restore) {
    struct client_partition *partition = &client->partitions[number];
    client_drop_waiting(partition);
    client_kept_restore(client, number, restore);
    client_close_subscription(&partition->now);
    client_close_subscription(&partition->next);
    partition->retry_us = 0;
    partition->restore_request = 0;
    partition->durable = partition->durable < client->committed ? partition->durable : client->committed;
    partition->durable_from = 0;
    partition->durable_asked = 0;
    partition->ring_us = 0;
    partition->pieces.pull = 0;
    partition->clock = partition->clock < restore ? partition->clock : restore;
    assert(partition->waiting_count == 0 && partition->durable <= client->committed);
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
        if (count_void(client, number, t) > 0) {
            return true;
        }
    }
    return false;
}

void client_restore_step(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    if (!partition->restoring || !partition->now.known) {
        return;
    }
    if (!rows_void(client, number)) {
        partition->restoring = false;
        partition->restore_request = 0;
    } else if (partition->restore_request == 0) {
        partition->restore_request = ++client->requests;
        client_wait(client, partition);
        client_send_restore(client, number);
    }
}

void client_restore_rows(struct client *client, bool missed) {
    uint64_t restore = missed ? 0 : client->plan.terms.restore;
    assert(!client->fenced && client->epoch == client->plan.epoch);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        partition_restore(client, p, restore);
    }
}

void client_send_again(struct client *client) {
    assert(!client->fenced);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        for (unsigned r = 0; r < partition->retained_count; r++) {
            struct retained_flush *flush = &partition->retained[r];
            flush->sent = false;
            if (flush->clock > client->plan.terms.restore && !flush_is_unfinished(client, flush)) {
                client_send_flush(client, p, flush, true);
            }
        }
    }
    client_send_pieces(client);
}
