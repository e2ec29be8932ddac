/* The client's part in a ring: see struct client_ring. */
#include "workers/client_private.h"

actor_id client_ring_relay(struct client *client, uint32_t number, uint64_t clock, uint64_t *digest) {
    const struct ring *ring = rings_at(&client->waits.ring.rings, client->job, &client->plan, clock);
    if (ring == NULL) {
        return ACTOR_NONE;
    }
    struct ring_chain chain = ring_chain(ring, number, client_server(client, number, clock));
    int place = ring_place(&chain, client->self);
    *digest = ring->digest;
    return place >= 0 ? ring_relay(&chain, (unsigned)place) : ACTOR_NONE;
}

bool client_ring_lost(struct client *client, uint64_t since_us) {
    uint64_t patience_us = CLIENT_RING_FACTOR * client->waits.ring.exchange_us;
    patience_us = patience_us > CLIENT_RING_MIN_US ? patience_us : CLIENT_RING_MIN_US;
    patience_us = patience_us < CLIENT_RING_MAX_US ? patience_us : CLIENT_RING_MAX_US;
    bool lost = client_now(client) - since_us >= patience_us;
    if (lost && !client->waits.ring.lost) {
        client->waits.ring.lost = true;
        /* If it was not lost but slow, the next ones have more time. */
        client->waits.ring.exchange_us = 2 * patience_us / CLIENT_RING_FACTOR;
    }
    return lost;
}

void client_ring_came(struct client *client, uint64_t clock) {
    if (clock == client->flushed && client->waits.ring.flushed_us != 0 && !client->waits.ring.lost) {
        uint64_t took_us = client_now(client) - client->waits.ring.flushed_us;
        client->waits.ring.exchange_us =
            took_us > client->waits.ring.exchange_us ? took_us : client->waits.ring.exchange_us;
    }
}

void client_ring_begin(struct client *client) {
    client->waits.ring.flushed_us = client_now(client);
    client->waits.ring.exchange_us -= client->waits.ring.exchange_us / 8;
    client->waits.ring.lost = false;
}
