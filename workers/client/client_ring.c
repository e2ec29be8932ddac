/* The client's part in a ring: see struct client_ring. */
#include "workers/client/client_private.h"

#include <assert.h>

/* Whether our flushes of a clock go by its ring. Those of a clock without work do not, as they are empty. After
 * losses in several clocks in a row only every 2nd, 4th, 8th... clock goes by its ring. All nodes try the same
 * clocks, since a ring needs all of its nodes. */
static bool is_tried(const struct client *client, uint64_t clock) {
    unsigned losses = client->waits.ring.losses;
    assert(losses <= CLIENT_RING_LOSSES_MAX);
    if (strategy_parts(plan_strategy_at(&client->plan, clock), &client->job->clocks, clock) == 0) {
        return false;
    }
    return losses < 2 || clock % (UINT64_C(1) << (losses - 1)) == 0;
}

bool client_ring_there(struct client *client, uint64_t clock) {
    return rings_at(&client->waits.ring.rings, client->job, &client->plan, clock) != NULL;
}

actor_id client_ring_relay(struct client *client, uint32_t number, uint64_t clock, uint64_t *digest) {
    const struct ring *ring = rings_at(&client->waits.ring.rings, client->job, &client->plan, clock);
    if (ring == NULL || !is_tried(client, clock)) {
        return ACTOR_NONE;
    }
    struct ring_chain chain = ring_chain(ring, number, client_server(client, number, clock));
    int place = ring_place(&chain, client->self);
    *digest = chain.digest;
    return place >= 0 ? ring_relay(&chain, (unsigned)place) : ACTOR_NONE;
}

bool client_ring_lost(struct client *client, uint64_t since_us, uint64_t clock) {
    struct client_ring *ring = &client->waits.ring;
    uint64_t patience_us = CLIENT_RING_FACTOR * ring->exchange_us;
    patience_us = patience_us > CLIENT_RING_MIN_US ? patience_us : CLIENT_RING_MIN_US;
    patience_us = patience_us < CLIENT_RING_MAX_US ? patience_us : CLIENT_RING_MAX_US;
    assert(client_now(client) >= since_us);
    bool lost = client_now(client) - since_us >= patience_us;
    if (lost && ring->watched != 0 && clock >= ring->watched) {
        ring->watched = 0;
        ring->losses += ring->losses < CLIENT_RING_LOSSES_MAX ? 1 : 0;
    }
    return lost;
}

void client_ring_came(struct client *client, const struct client_partition *partition) {
    uint64_t clock = client_arrived(partition);
    for (unsigned r = 0; r < partition->retained_count; r++) {
        const struct retained_flush *flush = &partition->retained[r];
        bool lost = flush->lost_us != 0;
        uint64_t since_us = lost ? flush->lost_us : flush->ring_us;
        if (flush->clock == clock && since_us != 0) {
            uint64_t took_us = (client_now(client) - since_us) / (lost ? 2 : 1);
            struct client_ring *ring = &client->waits.ring;
            ring->exchange_us = took_us > ring->exchange_us ? took_us : ring->exchange_us;
        }
    }
}

void client_ring_begin(struct client *client) {
    struct client_ring *ring = &client->waits.ring;
    bool came = true;
    assert(ring->watched <= client->flushed);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        came = came && (!partition->subscribed || client_arrived(partition) >= ring->watched);
    }
    if (came && ring->watched != 0) {
        ring->watched = 0;
        ring->losses = 0;
    }
    if (ring->watched == 0 && client_ring_there(client, client->flushed) && is_tried(client, client->flushed)) {
        ring->watched = client->flushed;
    }
    ring->exchange_us -= is_tried(client, client->flushed) ? ring->exchange_us / 8 : 0;
}

void client_ring_give_up(struct client_partition *partition) {
    for (unsigned r = 0; r < partition->retained_count; r++) {
        struct retained_flush *flush = &partition->retained[r];
        flush->lost_us = flush->ring_us != 0 ? flush->ring_us : flush->lost_us;
    }
}

void client_ring_plan(struct client *client) {
    client->waits.ring.losses = 0;
    client->waits.ring.watched = 0;
}
