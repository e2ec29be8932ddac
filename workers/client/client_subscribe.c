/* The client's subscriptions: which servers push which rows of the cache. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void client_open_subscription(const struct client *client, struct client_subscription *subscription, actor_id server) {
    *subscription = (struct client_subscription){.server = server, .heard_us = client_now(client)};
    if (server != ACTOR_NONE) {
        subscription->asked = memory_zeroed(client->job->table_count, sizeof *subscription->asked);
        subscription->answered = memory_zeroed(client->job->table_count, sizeof *subscription->answered);
    }
}

void client_close_subscription(struct client_subscription *subscription) {
    free(subscription->asked);
    free(subscription->answered);
    memset(subscription, 0, sizeof *subscription);
}

int client_rows_fit(const struct client *client, unsigned table, uint32_t partition, uint64_t rows,
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
    assert(first <= last && last <= list->count);
    struct buffer *keys = buffer_new((last - first) * sizeof(uint64_t));
    for (uint32_t i = first; i < last; i++) {
        ((uint64_t *)(void *)keys->data)[i - first] = cache_key(&client->cache->tables[t], list->slots[i]);
    }
    return keys;
}

void client_send_subscribe(struct client *client, actor_id server, const struct message_subscribe *subscribe,
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

void client_send_request(struct client *client, uint32_t number, struct client_subscription *subscription) {
    assert(subscription->open && subscription->server != ACTOR_NONE && !client->fenced);
    struct buffer *keys[WIRE_TABLES_MAX];
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t first = subscription->only ? 0 : subscription->answered[t];
        keys[t] = keys_between(client, number, t, first, subscription->asked[t]);
    }
    subscription->pull = client->partitions[number].pulls;
    client_send_subscribe(client, subscription->server,
                          &(struct message_subscribe){.partition = number,
                                                      .request = subscription->request,
                                                      .after = subscription->agreed,
                                                      .known = subscription->since,
                                                      .only = subscription->only},
                          keys);
}

size_t client_room(const struct client *client) {
    return client->asking.bytes / client->partition_count;
}

uint32_t client_portion(const struct client *client, unsigned table, uint32_t rows, bool least, size_t *room) {
    const size_t row_bytes = sizeof(uint64_t) + client->job->tables[table].row_bytes;
    size_t fit = *room / row_bytes;
    uint32_t portion = fit < rows ? (uint32_t)fit : rows;
    portion = portion == 0 && rows > 0 && least ? 1 : portion;
    size_t bytes = portion * row_bytes;
    *room -= bytes < *room ? bytes : *room;
    return portion;
}

/* Subscribes to rows with one server, one request at a time. The first request names the rows whose state we have, and
 * requests their changes since. Later requests name new rows, by portions. The next request follows after the answer,
 * also for rows that are added meanwhile. */
static int subscription_ask(struct client *client, uint32_t number, struct client_subscription *subscription,
                            struct error *error) {
    struct client_partition *partition = &client->partitions[number];
    bool first = !subscription->known; /* every worker follows every partition's clock, even without rows of it */
    bool ask = first;
    size_t room = client_room(client);
    if (subscription->server == ACTOR_NONE || subscription->open) {
        return 0;
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t count = cache_list(client->cache, number, t)->count;
        assert(subscription->answered[t] <= subscription->asked[t] && subscription->asked[t] <= count);
        assert(partition->filled[t] <= count);
        if (client_rows_fit(client, t, number, count, error) != 0) {
            return AML_ELIMIT;
        }
        uint32_t more = 0;
        if (first && partition->subscribed) {
            subscription->asked[t] = partition->filled[t];
        } else {
            more = client_portion(client, t, count - subscription->asked[t], !ask, &room);
            subscription->asked[t] += more;
        }
        ask = ask || more > 0;
    }
    if (ask) {
        subscription->request = ++client->requests;
        assert(subscription->request > subscription->agreed);
        subscription->since = first && partition->subscribed ? client_arrived(partition) : 0;
        subscription->open = true;
        client_wait(client, partition);
        subscription->heard_us = client_now(client);
        client_send_request(client, number, subscription);
    }
    return 0;
}

bool client_skips_now(const struct client *client, const struct client_partition *partition) {
    return client->joins && partition->next.server != ACTOR_NONE && !partition->restoring;
}

int client_ask(struct client *client, uint32_t number, struct error *error) {
    struct client_partition *partition = &client->partitions[number];
    int result = client_skips_now(client, partition) ? 0 : subscription_ask(client, number, &partition->now, error);
    return result != 0 ? result : subscription_ask(client, number, &partition->next, error);
}

int client_subscribe(struct client *client, struct error *error) {
    client->asking.on = true;
    for (uint32_t p = 0; p < client->partition_count && !client->fenced; p++) {
        if (client_ask(client, p, error) != 0) {
            return AML_ELIMIT;
        }
    }
    return 0;
}

bool client_covers(const struct client *client, const struct client_partition *partition,
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
        bool skips = client_skips_now(client, partition);
        if ((!skips && !client_covers(client, partition, &partition->now)) ||
            (partition->next.server != ACTOR_NONE && !client_covers(client, partition, &partition->next))) {
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

/* Unsubscribes from rows. Until the server has the request, its pushes still bring the forgotten rows, which are
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
        now->since = client_arrived(partition);
        now->open = now->only = true;
        client_wait(client, partition);
        now->heard_us = client_now(client);
        client_send_request(client, number, now);
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

/* Replaces the present server by the next one, which serves from now on. Requests again the rows that have no state
 * yet, though the next server has answered the request. */
static void subscription_promote(const struct client *client, struct client_partition *partition) {
    assert(partition->next.server != ACTOR_NONE);
    client_close_subscription(&partition->now);
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

void client_place(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    /* At the job's end there is no next server: a replica that gets ready may stay at an earlier clock. */
    bool ended = client->last != 0;
    actor_id now = client_server(client, number, ended ? client->last : client_arrived(partition) + 1);
    actor_id next = client_server(client, number, ended ? client->last : WIRE_CLOCK_NEVER);
    if (partition->now.server != now && partition->next.server == now) {
        subscription_promote(client, partition);
    } else if (partition->now.server != now) {
        client_close_subscription(&partition->now);
        client_open_subscription(client, &partition->now, now);
    }
    next = next == now ? ACTOR_NONE : next;
    if (partition->next.server != next) {
        client_close_subscription(&partition->next);
        client_open_subscription(client, &partition->next, next);
    }
    assert(partition->now.server != partition->next.server);
}
