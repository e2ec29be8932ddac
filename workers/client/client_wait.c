/* What the client waits for, and since when: PULL requests what may have been lost, after growing times of silence. */
#include "workers/client/client_private.h"

#include <assert.h>

enum { USUAL_FALLS = 16 /* the usual wait falls by this part with each state that comes sooner */ };

uint64_t client_arrived(const struct client_partition *partition) {
    for (unsigned w = partition->waiting_count; w > 0; w--) {
        if (partition->waiting[w - 1].message.push.request == 0) {
            return partition->waiting[w - 1].message.push.clock;
        }
    }
    return partition->clock;
}

void client_drop_waiting(struct client_partition *partition) {
    for (unsigned w = 0; w < partition->waiting_count; w++) {
        message_close(&partition->waiting[w].message);
    }
    partition->waiting_count = 0;
}

/* Returns the clock that must be committed before the next clock may begin. The plan's window requires a clock. In jobs
 * with put tables, an assignment's first clock also requires the clock before it (node_work.c). The last clock of a job
 * with a checkpoint at its end must be committed too, though no clock follows. */
static uint64_t durable_wanted(const struct client *client) {
    const struct wire_assignment *assignments = client->plan.assignments;
    uint64_t ahead = (uint64_t)client->job->staleness + client->plan.terms.window;
    uint64_t wanted = client->wanted > ahead ? client->wanted - ahead : 0;
    wanted = wanted > client->plan.terms.restore ? wanted : 0; /* client_settled */
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

void client_find_durable_wanted(struct client *client) {
    client->durable_wanted = durable_wanted(client);
}

void client_find_wanted(struct client *client) {
    const struct wire_assignment *assignments = client->plan.assignments;
    uint64_t done = client->clock > 0 ? client->flushed : 0;
    uint64_t next = WIRE_CLOCK_NEVER;
    uint64_t catch_up = 0;
    bool shared_anew = false; /* an assignment begins at a clock that is not decided yet */
    bool stays = false;       /* our origin works from that clock on, too */
    client->joins = client->plan.terms.from_clock != 0;
    for (size_t d = 0; d < client->plan.assignment_count; d++) {
        uint64_t from = assignments[d].from_clock;
        bool ours = actor_node(assignments[d].origin) == actor_node(client->self);
        shared_anew = shared_anew || from == WIRE_CLOCK_NEVER;
        stays = stays || (from == WIRE_CLOCK_NEVER && assignments[d].origin == client->self);
        client->joins = client->joins && !(ours && from < client->plan.terms.from_clock);
        if (assignments[d].origin == client->self) {
            from = from > done ? from : done + 1;
            next = from <= assignments[d].until_clock && from < next ? from : next;
        } else if (ours && from > catch_up) {
            catch_up = from;
        }
    }
    /* When we leave, other nodes may learn the clock before we do, and go on without us. */
    bool leaves = shared_anew && !stays;
    client->possible = next != WIRE_CLOCK_NEVER && !leaves ? next - 1 : WIRE_CLOCK_NEVER;
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
    assert(client->wanted >= client->flushed && client->wanted < WIRE_CLOCK_NEVER);
    client_find_durable_wanted(client);
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

/* Whether we wait for the partition: for the state after our flushes, the state or the commit that our next clock
 * needs, or the answer behind a piece of a flush. */
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
        const struct client_asking *asking = &client->asking;
        uint64_t wait_us = 2 * asking->usual_us < asking->patience_us ? 2 * asking->usual_us : asking->patience_us;
        bool asked = partition->now.open || partition->next.open || partition->restoring; /* answers come soon */
        partition->since_us = now;
        partition->retry_wait_us = asked || wait_us < CLIENT_RETRY_MIN_US ? CLIENT_RETRY_MIN_US : wait_us;
        partition->retry_us = now + partition->retry_wait_us;
        partition->now.heard_us = partition->next.heard_us = now;
    }
}

void client_waited(struct client *client, const struct client_partition *partition) {
    uint64_t waited_us = partition->retry_us != 0 ? client_now(client) - partition->since_us : 0;
    uint64_t *usual_us = &client->asking.usual_us;
    *usual_us = waited_us > *usual_us ? waited_us : *usual_us - *usual_us / USUAL_FALLS;
}

void client_pull(struct client *client, uint32_t number, actor_id server, bool again) {
    struct client_partition *partition = &client->partitions[number];
    assert(server != ACTOR_NONE);
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

enum node_waits client_waits_on(const struct client *client, actor_id *server) {
    enum node_waits waits = NODE_WAITS_NOT;
    for (uint32_t p = 0; p < client->partition_count && waits != NODE_WAITS_ROWS; p++) {
        const struct client_partition *partition = &client->partitions[p];
        bool rows = partition->now.open || partition->restoring || partition->pieces.pull != 0 ||
                    client_arrived(partition) < client->wanted;
        if (client_awaited(client, partition)) {
            waits = rows || partition->next.open ? NODE_WAITS_ROWS : NODE_WAITS_COMMIT;
            *server = !rows && partition->next.open ? partition->next.server : partition->now.server;
        }
    }
    return waits;
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
