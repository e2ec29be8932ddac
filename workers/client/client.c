/* The worker's client: opening and closing, plans and epochs, which clock may begin, and the end of a clock. See
 * client.h; client_private.h lists the files of the client. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void client_init(struct client *client, struct io *io, actor_id self, const struct job *job, struct cache *cache) {
    *client =
        (struct client){.io = io, .self = self, .job = job, .cache = cache, .asking = {.bytes = CLIENT_ASK_BYTES}};
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
        client_close_flush(client, &partition->gathered);
        for (unsigned r = 0; r < partition->retained_count; r++) {
            client_close_flush(client, &partition->retained[r]);
        }
        client_drop_waiting(partition);
        client_kept_close(client, partition);
        client_close_subscription(&partition->now);
        client_close_subscription(&partition->next);
        free(partition->retained);
        free(partition->waiting);
        free(partition->filled);
    }
    for (unsigned t = 0; t < WIRE_TABLES_MAX; t++) { /* a lot may be under way */
        free(client->lot.saved[t].slots);
        free(client->lot.saved[t].rows);
    }
    rings_close(&client->waits.ring.rings);
    client_waits_close(client);
    free(client->partitions);
    plan_close(&client->plan);
    memset(client, 0, sizeof *client);
}

void client_plan(struct client *client, const struct plan_view *plan) {
    bool first = !plan_is_there(&client->plan);
    if (!plan_replaces(&client->plan, plan, client->epoch)) {
        return;
    }
    /* If we have missed an epoch, the servers may have been restored at a clock below this `restore`, and have gone on
     * from there. That can't be if they needed our flushes to go on. */
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
    client_waits_plan(client);
    client_ring_plan(client);
    client->last = restored ? 0 : client->last; /* the last clock may have to be done again */
    client_find_wanted(client);
    client_kept_plan(client);
    assert(client->plan.epoch == client->epoch && client->plan.terms.partitions == client->partition_count);
    if (restored) {
        client_restore_rows(client, missed);
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        client_place(client, p);
    }
    if (client->asking.on) {
        client_subscribe(client, NULL);
    }
    if (restored) {
        client_send_again(client);
    }
    for (uint32_t p = 0; p < client->partition_count; p++) {
        if (client_awaited(client, &client->partitions[p])) {
            /* An assignment may begin with a state whose push was lost. */
            client_wait(client, &client->partitions[p]);
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
        client_kept_fence(client, p);
        client_drop_waiting(&client->partitions[p]);
        client->partitions[p].retry_us = 0;
        assert(client->partitions[p].waiting_count == 0);
    }
}

bool client_has_state(const struct client *client, uint64_t clock) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        const struct client_partition *partition = &client->partitions[p];
        if (!partition->subscribed || partition->restoring || partition->clock < clock) {
            return false;
        }
    }
    return client->partition_count > 0;
}

uint64_t client_lag(const struct client *client, uint64_t clock) {
    assert(clock > 0);
    uint64_t oldest = clock - 1;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        uint64_t there = client->partitions[p].clock;
        oldest = there < oldest ? there : oldest;
    }
    return clock - 1 - oldest;
}

bool client_want_last(struct client *client, uint64_t clock) {
    bool there = true;
    client->wanted = client->wanted < clock ? clock : client->wanted;
    client->last = clock;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        client_place(client, p);
        if (partition->subscribed && (partition->restoring || partition->clock < clock)) {
            client_ask(client, p, NULL);
            client_wait(client, partition);
            there = false;
        }
    }
    return there;
}

bool client_may_begin(const struct client *client, uint64_t clock) {
    /* The state before the clocks without work is as good as that just before `clock`. */
    uint64_t idle = strategy_idle(plan_strategy_at(&client->plan, clock), &client->job->clocks, clock);
    uint64_t staleness = client->job->staleness;
    uint64_t lag = 1 + (idle > staleness ? idle : staleness);
    uint64_t window = idle + client->plan.terms.window;
    window = window < WIRE_WINDOW_MAX ? window : WIRE_WINDOW_MAX;
    return !client->fenced && client->partition_count > 0 && clock <= client_settled(client) + 1 + staleness + window &&
           client_has_state(client, clock > lag ? clock - lag : 0);
}

/* Checks what must hold while the app does not use the cache: no push waits, and every gathered flush was taken. */
static void check_idle(const struct client *client) {
    for (uint32_t p = 0; p < client->partition_count; p++) {
        assert(client->partitions[p].waiting_count == 0 && client->partitions[p].gathered.clock == 0);
    }
}

void client_begin_clocks(struct client *client, actor_id origin, uint64_t clock, uint32_t idle) {
    assert(!client->working && !client->frozen && (origin != client->self || clock > client->flushed));
    assert(client_may_begin(client, clock)); /* I3 */
    check_idle(client);
    for (uint32_t p = 0; p < client->partition_count && client->job->staleness == 0; p++) {
        client_settle_flushed(client, &client->partitions[p]);
    }
    client->origin = origin;
    client->clock = clock;
    client->part.idle = idle;
    client->working = true;
    for (uint32_t p = 0; p < client->partition_count; p++) {
        client->partitions[p].pieces.count = 0;
    }
    bool works = plan_origin_works(&client->plan, origin, clock, &client->part.alone);
    assert(works);
    client->part.averages = plan_strategy_at(&client->plan, clock) != STRATEGY_SSGD;
    bool means = client->part.averages || job_steps_locally(client->job);
    client->part.share = means ? plan_origin_share(&client->plan, origin, clock) : 1;
    assert(client->part.share >= 0 && client->part.share <= 1);
}

void client_freeze(struct client *client) {
    assert(!client->working && !client->frozen);
    client->frozen = true;
}

void client_thaw(struct client *client) {
    assert(client->frozen);
    client->frozen = false;
    client_apply_waiting(client);
}

/* Sends the flush of the clock that has ended, and the pieces before it that were not sent. */
static void send_flushed(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    client_wait(client, partition);
    for (unsigned r = 0; r < partition->retained_count; r++) {
        struct retained_flush *flush = &partition->retained[r];
        if (flush->clock == client->clock && flush->origin == client->origin && !flush->sent) {
            client_send_flush(client, number, flush, true);
        }
    }
}

void client_flush(struct client *client) {
    assert(client->working && !client->frozen);
    client->working = false;
    if (client->origin == client->self) {
        client->flushed = client->clock;
        client_find_wanted(client);
        client_waits_begin(client);
        client_ring_begin(client);
    }
    for (uint32_t i = 0; i < client->partition_count; i++) {
        uint32_t p = client->waits.descending ? client->partition_count - 1 - i : i;
        struct client_partition *partition = &client->partitions[p];
        assert(partition->gathered.clock == client->clock);
        partition->gathered.message.flush.piece = partition->pieces.count;
        struct retained_flush *flush = client_retain(partition, &partition->gathered);
        if (partition->retained[partition->retained_count - 1].clock > flush->clock) {
            client_put_later(client, partition, flush);
        }
        if (!client->fenced) {
            send_flushed(client, p);
        }
    }
    client_apply_waiting(client);
    check_idle(client);
}
