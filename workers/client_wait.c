/* What the client waits for, and since when: PULL requests what may have been lost, after growing times of silence. */
#include "workers/client_private.h"

uint64_t client_now(const struct client *client) {
    return client->io->now_us(client->io);
}

uint64_t client_arrived(const struct client_partition *partition) {
    for (unsigned w = partition->waiting_count; w > 0; w--) {
        if (partition->waiting[w - 1].message.push.request == 0) {
            return partition->waiting[w - 1].message.push.clock;
        }
    }
    return partition->clock;
}

/* The last clock of which the whole flush is retained; 0: none. */
static uint64_t last_flushed(const struct client_partition *partition) {
    for (unsigned r = partition->retained_count; r > 0; r--) {
        if (flush_is_last(&partition->retained[r - 1])) {
            return partition->retained[r - 1].clock;
        }
    }
    return 0;
}

/* Whether we wait for a push: with the state after our flushes, with the state for our next clock, or with the commit
 * without which that can't begin; or for the answer behind a piece of a flush. */
static bool partition_behind(const struct client *client, const struct client_partition *partition) {
    uint64_t arrived = client_arrived(partition);
    return partition->subscribed && (arrived < client->wanted || partition->durable < client->durable_wanted ||
                                     partition->pieces.pull != 0 || last_flushed(partition) > arrived);
}

static bool now_awaited(const struct client *client, const struct client_partition *partition) {
    return partition->now.open || partition->restoring || partition_behind(client, partition);
}

bool client_awaited(const struct client *client, const struct client_partition *partition) {
    return partition->next.open || now_awaited(client, partition);
}

void client_wait(const struct client *client, struct client_partition *partition) {
    if (partition->retry_us == 0) {
        uint64_t now = client_now(client);
        partition->retry_wait_us = CLIENT_RETRY_MIN_US;
        partition->retry_us = now + partition->retry_wait_us;
        partition->now.heard_us = partition->next.heard_us = now;
    }
}

void client_pull(struct client *client, uint32_t number, actor_id server, bool again) {
    struct client_partition *partition = &client->partitions[number];
    struct message pull = {.type = MESSAGE_PULL, .epoch = client->epoch};
    pull.pull.partition = number;
    pull.pull.number = ++partition->pulls;
    pull.pull.clock = client_arrived(partition);
    pull.pull.again = again;
    client->io->send(client->io, server, &pull);
}

/* Sends PULL to the server of the next clock, and to the plan's other server of the partition. */
static void partition_pull(struct client *client, uint32_t number) {
    const struct wire_placement *placement = &client->plan.placement[number];
    actor_id now = client->partitions[number].now.server;
    actor_id other = placement->server == now ? placement->next_server : placement->server;
    bool ended = client->last != 0; /* then no assignment follows, and servers push nothing by themselves */
    client_pull(client, number, now, ended && client_arrived(&client->partitions[number]) < client->last);
    if (other != now && other != ACTOR_NONE && !ended) {
        client_pull(client, number, other, false);
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
