/* The flushes of a clock: gathered from the cache, retained until they are committed, sent. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void client_close_flush(const struct client *client, struct retained_flush *flush) {
    message_close(&flush->message);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        free(flush->slots[t]);
    }
    memset(flush, 0, sizeof *flush);
}

void client_send_flush(struct client *client, uint32_t number, struct retained_flush *flush, bool first) {
    assert(!client->fenced && flush->message.type == MESSAGE_FLUSH && flush->message.flush.clock == flush->clock);
    struct message copy = message_share(&flush->message);
    actor_id relay = ACTOR_NONE;
    bool whole = copy.flush.piece == 0 && copy.flush.more == 0 && copy.flush.idle == 0;
    copy.epoch = client->epoch;
    copy.flush.committed = client->committed;
    if (first && whole && flush->origin == client->self) {
        relay = client_ring_relay(client, number, flush->clock, &copy.flush.ring);
    }
    copy.flush.ring = relay != ACTOR_NONE ? copy.flush.ring : 0;
    flush->pull = client->partitions[number].pulls;
    flush->lost_us = flush->ring_us != 0 && !first ? flush->ring_us : flush->lost_us;
    flush->ring_us = relay != ACTOR_NONE ? client_now(client) : 0;
    flush->sent = true;
    client->io->send(client->io, relay != ACTOR_NONE ? relay : client_server(client, number, flush->clock), &copy);
}

void client_settle_flushed(const struct client *client, const struct client_partition *partition) {
    for (unsigned r = 0; r < partition->retained_count; r++) {
        const struct retained_flush *flush = &partition->retained[r];
        for (unsigned t = 0; t < client->job->table_count && flush->clock > partition->clock; t++) {
            const struct cache_table *table = &client->cache->tables[t];
            bool behind = cache_based(table) && !rows_rounded(table->shape->encoding);
            for (uint32_t i = 0; i < flush->counts[t] && behind; i++) {
                uint32_t slot = flush->slots[t][i];
                memcpy(cache_base(table, slot), cache_row(table, slot), table->spec->row_bytes);
            }
        }
    }
}

/* Encodes a row's sum of updates, and leaves in the sum what a rounding encoding has left out of it. `zeros` is a row
 * of zeros, which stays such. Returns the bytes written. */
static size_t gather_sum(const struct row_shape *shape, unsigned char *value, unsigned char *sum,
                         unsigned char *zeros) {
    const struct rows_codec *codec = rows_codec(shape->encoding);
    size_t bytes = codec->delta(shape, value, sum, zeros, ROWS_AFTER_UNCHANGED);
    if (codec->unsent != NULL) {
        codec->unsent(shape, sum, zeros); /* `zeros` holds what was sent */
        memset(zeros, 0, shape->row_bytes);
    } else {
        memset(sum, 0, shape->row_bytes);
    }
    return bytes;
}

#define SCALE_CHANGES(type)                                                                                            \
    do {                                                                                                               \
        type *values = (type *)(void *)row;                                                                            \
        const type *old = (const type *)(const void *)base;                                                            \
        for (uint32_t e = 0; e < width; e++) {                                                                         \
            values[e] = old[e] + (type)share * (values[e] - old[e]);                                                   \
        }                                                                                                              \
    } while (0)

/* Scales a row's changes. By this origin's share of the data: the servers' sum of all origins' changes is then the mean
 * of their rows, weighted by shares. */
static void scale_changes(enum aml_type type, uint32_t width, unsigned char *row, const unsigned char *base,
                          double share) {
    if (type == AML_FLOAT32) {
        SCALE_CHANGES(float);
    } else {
        SCALE_CHANGES(double);
    }
}

/* Scales a row's changes by the shares that the app has set (aml_rows.shares). */
static void scale_by_shares(const struct cache_table *table, uint32_t slot, const float *shares) {
    const size_t element = aml_type_size(table->shape->type);
    const uint32_t count = table->spec->shares;
    const uint32_t first = table->shape->width - (count - 1); /* elements of the first share */
    for (uint32_t s = 0; s < count; s++) {
        size_t at = s == 0 ? 0 : (first + s - 1) * element;
        if (shares[s] != 0 && shares[s] != 1) {
            scale_changes(table->shape->type, s == 0 ? first : 1, cache_row(table, slot) + at,
                          cache_base(table, slot) + at, (double)shares[s]);
        }
    }
}

/* Encodes the deltas (add) or values (put) of the touched slots, and sets the base for the next deltas:
 *
 *   with staleness       the base becomes the row
 *   without staleness    nothing is to be done, as every such row is pushed before the next clock begins (but see
 *                        client_settle_flushed)
 *   alone                no rows are pushed back. Base and row become what the server's row will be, the old base plus
 *                        the delta, rounded alike; that may differ from the row in the last bits
 *   rounding encoding    the base always becomes the old base plus what is sent of the delta. The rest stays the
 *                        difference between row and base, through pushes and restores (client_apply), until the row is
 *                        flushed again
 *
 * Changes of averaged tables, and of tables with shares, are first scaled, in the cache too, so that row - base remains
 * what is flushed. (With a rounding encoding and shares, what was left unsent is scaled once more.)
 *
 * Where the servers make an optimizer's steps, the sums of updates are encoded (gather_sum): there is no base. */
static struct buffer *gather_rows(const struct client *client, const struct cache_table *table, const uint32_t *slots,
                                  uint32_t count, double share, uint64_t *keys) {
    const struct row_shape *shape = table->shape;
    const struct rows_codec *codec = rows_codec(shape->encoding);
    const enum rows_after after = client->part.alone           ? ROWS_AFTER_SUM
                                  : client->job->staleness > 0 ? ROWS_AFTER_ROW
                                                               : ROWS_AFTER_UNCHANGED;
    const bool put = table->spec->mode == AML_PUT;
    const bool mean = client->part.averages || table->spec->states || table_optimized(table->spec);
    const bool scales = share != 1 && table->spec->averaged && mean;
    const float *shares = client->part.alone ? NULL : (const float *)(const void *)table->shares.base;
    unsigned char *zeros = table_stepped(table->spec) ? memory_zeroed(1, shape->row_bytes) : NULL;
    struct buffer *values = buffer_new(count * codec->bytes_max(shape));
    unsigned char *value = values->data;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t slot = slots[i];
        cache_prefetch(table, slots, i, count);
        keys[i] = cache_key(table, slot);
        table->touched.base[slot] = 0;
        if (scales) {
            scale_changes(shape->type, shape->width, cache_row(table, slot), cache_base(table, slot), share);
        } else if (shares != NULL) {
            scale_by_shares(table, slot, shares + (size_t)slot * table->spec->shares);
        }
        if (zeros != NULL) {
            value += gather_sum(shape, value, cache_sum(table, slot), zeros);
        } else {
            value += put ? codec->write(shape, value, cache_row(table, slot), NULL, 1)
                         : codec->delta(shape, value, cache_row(table, slot), cache_base(table, slot), after);
        }
    }
    free(zeros);
    size_t size = (size_t)(value - values->data);
    assert(size <= values->size);
    if (size == values->size) {
        return values;
    }
    struct buffer *shorter = buffer_copy(values->data, size); /* without unused memory, as it may be kept for long */
    buffer_drop(values);
    return shorter;
}

/* Lists the touched slots of `list`, in its order. The caller frees the list; NULL: there are none. */
static uint32_t *find_touched(const struct cache_table *table, const struct cache_list *list, uint32_t *touched) {
    uint32_t *slots = memory_resized(NULL, list->count + 1U, sizeof *slots); /* room for one more than there are */
    uint32_t count = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        slots[count] = list->slots[i];
        count += table->touched.base[list->slots[i]] != 0 ? 1 : 0;
    }
    *touched = count;
    if (count == 0) {
        free(slots);
        return NULL;
    }
    /* The list may be kept for long: it becomes shorter if at most half of it is used. */
    return count > list->count / 2 ? slots : memory_resized(slots, count, sizeof *slots);
}

/* Finds the touched rows of each table of a partition, and counts those that are to be flushed. The caller frees
 * touched[table], also on errors. */
static int find_changed(const struct client *client, uint32_t number, uint32_t **touched, uint32_t *counts,
                        struct error *error) {
    int result = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        touched[t] = find_touched(table, cache_list(client->cache, number, t), &counts[t]);
        if (table->spec->given && counts[t] > 0 && result == 0) {
            result = error_set(error, AML_EINPUT,
                               "table %s: rows are marked as touched (aml_row): expected aml_give_changes alone",
                               table->spec->name);
        }
        counts[t] = table->spec->given ? cache_changes(client->cache, number, t)->slots : counts[t];
        if (result == 0 && client_rows_fit(client, t, number, counts[t], error) != 0) {
            result = AML_ELIMIT;
        }
    }
    return result;
}

void client_gather_rows(const struct client *client, struct retained_flush *flush, uint32_t **touched,
                        const uint32_t *counts, double share) {
    const uint32_t number = flush->message.flush.partition;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        const struct table_spec *spec = table->spec;
        const uint32_t count = counts[t];
        if (count == 0) {
            continue;
        }
        uint32_t *slots = spec->given ? memory_resized(NULL, count, sizeof *slots) : touched[t];
        struct buffer *keys = buffer_new(count * sizeof(uint64_t));
        struct buffer *values;
        assert(!spec->given || cache_changes(client->cache, number, t)->slots == count);
        if (spec->given) {
            values = cache_take_changes(client->cache, number, t, slots);
            for (uint32_t i = 0; i < count; i++) {
                ((uint64_t *)(void *)keys->data)[i] = cache_key(table, slots[i]);
            }
        } else {
            values = gather_rows(client, table, slots, count, share, (uint64_t *)(void *)keys->data);
        }
        flush->slots[t] = slots;
        flush->counts[t] = count;
        rows_append(&flush->message, t, table->shape->encoding, keys, values);
    }
}

int client_gather(struct client *client, uint32_t number, struct error *error) {
    struct retained_flush *flush = &client->partitions[number].gathered;
    uint32_t counts[WIRE_TABLES_MAX];
    uint32_t *touched[WIRE_TABLES_MAX];
    assert(client->working && flush->clock == 0);
    int result = find_changed(client, number, touched, counts, error);
    if (result != 0) {
        for (unsigned t = 0; t < client->job->table_count; t++) {
            free(touched[t]);
        }
        return result;
    }
    flush->origin = client->origin;
    flush->clock = client->clock;
    flush->message = (struct message){.type = MESSAGE_FLUSH};
    flush->message.flush.partition = number;
    flush->message.flush.origin = client->origin;
    flush->message.flush.clock = client->clock;
    flush->message.flush.idle = client->part.idle;
    client_gather_rows(client, flush, touched, counts, client->part.share);
    return 0;
}

int client_check_numbers(const struct client *client, const struct retained_flush *gathered, const char *node,
                         struct error *error) {
    const struct message *flush = &gathered->message;
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(flush, client->job->shapes, client->job->table_count, views, error);
    for (int v = 0; v < count; v++) {
        const struct table_spec *spec = &client->job->tables[views[v].table];
        size_t bad = rows_not_finite(&client->job->shapes[views[v].table], &views[v]);
        if (bad < views[v].count) {
            return error_set(error, AML_EINPUT,
                             "clock: table %s: the update of row %llu in clock %llu on %s has a NaN or an infinity "
                             "(--reject-nan)",
                             spec->name, (unsigned long long)views[v].keys[bad], (unsigned long long)flush->flush.clock,
                             node);
        }
    }
    return count < 0 ? count : 0;
}

void client_release(const struct client *client, struct client_partition *partition) {
    uint64_t released = client->committed < partition->clock ? client->committed : partition->clock;
    unsigned count = 0;
    while (count < partition->retained_count && partition->retained[count].clock <= released) {
        client_close_flush(client, &partition->retained[count++]);
    }
    if (count > 0) {
        partition->retained_count -= count;
        memmove(partition->retained, partition->retained + count,
                partition->retained_count * sizeof *partition->retained);
    }
    assert(partition->retained_count == 0 || partition->retained[0].clock > released);
}

/* Whether `one` stands before `other` in `retained`. */
static bool stands_before(const struct retained_flush *one, const struct retained_flush *other) {
    if (one->clock != other->clock) {
        return one->clock < other->clock;
    }
    return one->origin != other->origin ? one->origin < other->origin
                                        : one->message.flush.piece < other->message.flush.piece;
}

struct retained_flush *client_retain(struct client_partition *partition, struct retained_flush *new) {
    partition->retained =
        memory_resized(partition->retained, partition->retained_count + 1, sizeof *partition->retained);
    unsigned at = partition->retained_count++;
    for (; at > 0; at--) {
        const struct retained_flush *before = &partition->retained[at - 1];
        if (stands_before(before, new)) {
            break;
        }
        partition->retained[at] = *before;
    }
    partition->retained[at] = *new;
    assert(at + 1 == partition->retained_count || stands_before(new, &partition->retained[at + 1]));
    memset(new, 0, sizeof *new);
    return &partition->retained[at];
}
