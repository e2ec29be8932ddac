/* Flushes in pieces: the updates of a clock that are complete are sent before the clock ends. See client.h. */
#include "workers/client/client_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

bool client_may_piece(struct client *client) {
    return client->working && client->origin == client->self && !client->part.alone && !client->lot.under_way &&
           plan_strategy_at(&client->plan, client->clock) == STRATEGY_SSGD && !job_steps_locally(client->job) &&
           !client_ring_there(client, client->clock);
}

/* Lists the touched slots of the partition in a range. In a replicated table slots are keys, and keys are dealt to
 * partitions in turn. */
static uint32_t *find_touched(const struct client *client, uint32_t number, const struct client_range *range,
                              uint32_t *slots, uint32_t *count) {
    const struct cache_table *table = &client->cache->tables[range->table];
    const uint64_t step = client->partition_count;
    const uint64_t end = range->first + range->count;
    uint64_t key = range->first + (number + step - range->first % step) % step;
    assert(table->spec->whole && table->spec->mode == AML_ADD && !table->spec->given && end <= table->count);
    assert(key >= end || table_partition(table->spec, key, client->partition_count) == number);
    slots = memory_resized(slots, *count + range->count / step + 1, sizeof *slots);
    for (; key < end; key += step) {
        if (table->touched.base[key] != 0) {
            slots[(*count)++] = (uint32_t)key;
        }
    }
    return slots;
}

bool client_gather_piece(const struct client *client, uint32_t number, const struct client_range *ranges,
                         unsigned range_count, struct retained_flush *piece) {
    uint32_t counts[WIRE_TABLES_MAX] = {0};
    uint32_t *touched[WIRE_TABLES_MAX] = {NULL};
    bool some = false;
    for (unsigned r = 0; r < range_count; r++) {
        unsigned t = ranges[r].table;
        touched[t] = find_touched(client, number, &ranges[r], touched[t], &counts[t]);
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        some = some || counts[t] > 0;
        if (counts[t] == 0) {
            free(touched[t]);
        }
    }
    *piece = (struct retained_flush){.origin = client->origin, .clock = client->clock};
    piece->message = (struct message){.type = MESSAGE_FLUSH};
    piece->message.flush.partition = number;
    piece->message.flush.origin = client->origin;
    piece->message.flush.clock = client->clock;
    piece->message.flush.more = 1;
    client_gather_rows(client, piece, touched, counts, 1);
    return some;
}

void client_add_piece(struct client *client, uint32_t number, struct retained_flush *piece) {
    struct client_partition *partition = &client->partitions[number];
    assert(client->working && piece->clock == client->clock && piece->origin == client->origin);
    assert(partition->pieces.count < WIRE_PIECES_MAX - 1);
    piece->message.flush.piece = partition->pieces.count++;
    client_retain(partition, piece);
}

void client_drop_piece(const struct client *client, struct retained_flush *piece) {
    client_close_flush(client, piece);
}

/* Sends the partition's next piece, with a PULL behind it. False: there is none. */
static bool send_next(struct client *client, uint32_t number) {
    struct client_partition *partition = &client->partitions[number];
    unsigned r = 0;
    while (r < partition->retained_count &&
           (partition->retained[r].sent || !flush_is_unfinished(client, &partition->retained[r]))) {
        r++;
    }
    if (r == partition->retained_count) {
        return false;
    }
    struct retained_flush *piece = &partition->retained[r];
    assert(partition->pieces.pull == 0 && piece->message.flush.more != 0);
    client_send_flush(client, number, piece, true);
    client_pull(client, number, client_server(client, number, piece->clock), false);
    partition->pieces.pull = partition->pulls;
    client_wait(client, partition);
    return true;
}

void client_send_pieces(struct client *client) {
    const struct client_waits *waits = &client->waits;
    if (client->fenced || client->partition_count == 0) {
        return;
    }
    bool *busy = memory_zeroed(waits->server_count, sizeof *busy);
    bool descends = client_waits_descends(client);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        busy[waits->server_of[p]] = busy[waits->server_of[p]] || client->partitions[p].pieces.pull != 0;
    }
    for (uint32_t i = 0; i < client->partition_count; i++) {
        uint32_t p = descends ? client->partition_count - 1 - i : i;
        busy[waits->server_of[p]] = busy[waits->server_of[p]] || send_next(client, p);
    }
    free(busy);
}

void client_pieces_answered(struct client *client, uint32_t number, uint64_t pull) {
    struct client_partition *partition = &client->partitions[number];
    if (partition->pieces.pull != 0 && pull >= partition->pieces.pull) {
        partition->pieces.pull = 0;
        client_send_pieces(client);
    }
}
