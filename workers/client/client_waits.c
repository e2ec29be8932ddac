/* How long this node waits for the state of each server after its own flush. All servers wait for the slowest worker,
 * so the time of the earliest server is subtracted: the rest is a server's own delay. See struct client_waits. */
#include "workers/client/client_private.h"

#include "agileml/base/memory.h"
#include "agileml/wire/records.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WAITS_SETTLING = 2 /* the first clocks after a change of plan, which don't count */ };

void client_waits_close(struct client *client) {
    free(client->waits.arrived_us);
    free(client->waits.servers);
    free(client->waits.server_of);
    client->waits = (struct client_waits){.ring = client->waits.ring};
}

void client_waits_plan(struct client *client) {
    struct client_waits *waits = &client->waits;
    client_waits_close(client);
    waits->settling = WAITS_SETTLING;
    waits->arrived_us = memory_zeroed(client->partition_count, sizeof *waits->arrived_us);
    waits->server_of = memory_zeroed(client->partition_count, sizeof *waits->server_of);
    waits->servers = memory_zeroed(client->partition_count, sizeof *waits->servers);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct wire_placement *place = &client->plan.placement[p];
        actor_id node = actor_node(place->server);
        unsigned s = 0;
        while (s < waits->server_count && waits->servers[s].node != node) {
            s++;
        }
        waits->servers[s].node = node;
        waits->server_count += s == waits->server_count ? 1 : 0;
        waits->server_of[p] = s;
        waits->moves = waits->moves || place->next_server != place->server;
    }
}

/* Whether the present clock can be measured after its flush. From the switch's clock on `servers` is outdated, until
 * the plan that follows the switch. */
static bool is_measured(struct client *client) {
    const struct client_waits *waits = &client->waits;
    bool moved = waits->moves && client->clock >= client->plan.terms.from_clock;
    /* On a ring, one late node delays the states of the servers behind it, which says nothing of these servers. */
    bool by_ring = client_ring_there(client, client->clock);
    return waits->clock == 0 && !client->part.alone && !client->fenced && !moved && !by_ring;
}

bool client_waits_descends(struct client *client) {
    return is_measured(client) ? !client->waits.descending : client->waits.descending;
}

void client_waits_begin(struct client *client) {
    struct client_waits *waits = &client->waits;
    if (!is_measured(client)) {
        return;
    }
    waits->descending = !waits->descending;
    waits->clock = client->clock;
    waits->flushed_us = client_now(client);
    waits->missing = client->partition_count;
    memset(waits->arrived_us, 0xFF, client->partition_count * sizeof *waits->arrived_us);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        waits->missing -= client->partitions[p].subscribed ? 0 : 1;
    }
    assert(waits->missing > 0); /* a clock begins only with a state */
}

/* Adds the measured clock to the sums: a server is as late as the latest of its partitions. */
static void sum_up(struct client *client) {
    struct client_waits *waits = &client->waits;
    assert(waits->missing == 1 && waits->clock != 0);
    uint64_t *latest = memory_zeroed(waits->server_count, sizeof *latest);
    uint64_t earliest = UINT64_MAX;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        uint64_t *mine = &latest[waits->server_of[p]];
        bool came = waits->arrived_us[p] != UINT64_MAX;
        *mine = came && waits->arrived_us[p] + 1 > *mine ? waits->arrived_us[p] + 1 : *mine;
    }
    for (unsigned s = 0; s < waits->server_count; s++) {
        earliest = latest[s] > 0 && latest[s] < earliest ? latest[s] : earliest;
    }
    assert(earliest != UINT64_MAX);
    for (unsigned s = 0; s < waits->server_count; s++) {
        waits->servers[s].wait_us += latest[s] > 0 ? latest[s] - earliest : 0;
    }
    waits->clocks++;
    free(latest);
}

void client_waits_arrived(struct client *client, uint32_t number) {
    struct client_waits *waits = &client->waits;
    const struct client_partition *partition = &client->partitions[number];
    if (waits->clock == 0 || !partition->subscribed || waits->arrived_us[number] != UINT64_MAX ||
        client_arrived(partition) < waits->clock) {
        return;
    }
    assert(waits->missing > 0 && waits->missing <= client->partition_count);
    assert(client_now(client) >= waits->flushed_us);
    waits->arrived_us[number] = client_now(client) - waits->flushed_us;
    if (waits->missing > 1) {
        waits->missing--;
        return;
    }
    if (waits->settling > 0) {
        waits->settling--;
    } else {
        sum_up(client);
    }
    waits->clock = 0;
}

bool client_take_waits(struct client *client, struct message *message) {
    struct client_waits *waits = &client->waits;
    if (waits->clocks == 0) {
        return false;
    }
    message->waits.version = client->plan.terms.version;
    message->waits.clocks = waits->clocks;
    message_add_copy(message, waits->servers, waits->server_count * sizeof *waits->servers);
    for (unsigned s = 0; s < waits->server_count; s++) {
        waits->servers[s].wait_us = 0;
    }
    waits->clocks = 0;
    return true;
}
