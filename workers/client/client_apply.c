/* Applies the rows of a server's PUSH to the cache, and our own later updates to these rows. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Finds the cache slots of a view's rows. Servers push in the order of our list, so the next row is usually further on
 * in the list; the new rows of an answer stand behind the rows that have a state. NULL when a key is not in the cache:
 * the server must not push a row that we did not request. */
static uint32_t *view_cache_slots(const struct client *client, uint32_t number, const struct rows_view *view,
                                  enum rows_wanted wanted) {
    const struct cache_table *table = &client->cache->tables[view->table];
    const struct cache_list *list = cache_list(client->cache, number, view->table);
    uint32_t *slots = memory_resized(NULL, view->count, sizeof *slots);
    uint32_t at = wanted == ROWS_NEW ? client->partitions[number].filled[view->table] : 0;
    assert(at <= list->count);
    for (uint32_t i = 0; i < view->count; i++) {
        while (at < list->count && cache_key(table, list->slots[at]) != view->keys[i]) {
            at++;
        }
        if (at < list->count) {
            slots[i] = list->slots[at++];
            continue;
        }
        int64_t found = cache_find(client->cache, view->table, view->keys[i]);
        if (found == INDEX_NONE) {
            free(slots);
            return NULL;
        }
        slots[i] = (uint32_t)found;
    }
    return slots;
}

/* Adds our updates of clocks after `clock`, from the retained flushes, to the pushed rows, which lack them. With a
 * rounding encoding, to the base. */
static void reapply_own(const struct client *client, const struct client_partition *partition, unsigned t,
                        uint64_t clock) {
    const struct cache_table *table = &client->cache->tables[t];
    const uint32_t *stamps = cache_stamps(table);
    const struct rows_codec *codec = rows_codec(table->shape->encoding);
    const bool put = table->spec->mode == AML_PUT;
    const bool rounded = rows_rounded(table->shape->encoding);
    if (table_stepped(table->spec)) {
        return; /* what the server makes of our updates is not known here: rows are as they were pushed */
    }
    for (unsigned r = 0; r < partition->retained_count; r++) {
        const struct retained_flush *flush = &partition->retained[r];
        struct rows_view view;
        if (flush->clock <= clock || !rows_find(&flush->message, t, &view)) {
            continue;
        }
        assert(view.count == flush->counts[t]);
        const unsigned char *value = view.values;
        for (uint32_t i = 0; i < view.count; i++) {
            uint32_t slot = flush->slots[t][i];
            if (stamps[slot] != client->stamp) {
                value += codec->bytes(table->shape, value);
                continue;
            }
            unsigned char *row = rounded ? cache_base(table, slot) : cache_row(table, slot);
            value += (put ? codec->copy : codec->add)(table->shape, row, value, 1);
        }
    }
}

/* Whether a row of a message is to be applied. A row gets its first state only from the answer to its request. Pushes
 * that bring the row before that, or after it was forgotten, are not applied to it. Neither is a push that came before
 * the row was forgotten and requested again, if the row has a later state by now. */
static bool row_wanted(enum rows_wanted wanted, uint32_t stamp, uint32_t row_clock, uint64_t clock) {
    bool lacks = row_clock == CACHE_CLOCK_VOID;
    return wanted == ROWS_NEW ? stamp == 0 : stamp != 0 && (lacks || (wanted == ROWS_ALL && row_clock <= clock));
}

/* Decodes a pushed row into the row, and into the base unless own updates will be added (settle_row). With a rounding
 * encoding only the base gets the pushed row; the row then holds its unsent difference until settle_row. Returns the
 * bytes of the encoded row. */
static size_t apply_row(const struct cache_table *table, uint32_t slot, const unsigned char *value,
                        const struct rows_codec *codec, bool own_later) {
    const struct row_shape *shape = table->shape;
    unsigned char *row = cache_row(table, slot);
    if (rows_rounded(shape->encoding) && !table_stepped(table->spec)) {
        rows_codec(shape->encoding)->unsent(shape, row, cache_base(table, slot));
        return codec->copy(shape, cache_base(table, slot), value, 1);
    }
    size_t bytes = codec->copy(shape, row, value, 1);
    if (cache_based(table) && !own_later) {
        memcpy(cache_base(table, slot), row, shape->row_bytes);
    }
    return bytes;
}

/* Completes a pushed row after own updates were added: with a rounding encoding the row is the base plus the unsent
 * difference, otherwise the base is the row. */
static void settle_row(const struct cache_table *table, uint32_t slot) {
    const struct row_shape *shape = table->shape;
    if (rows_rounded(shape->encoding) && !table_stepped(table->spec)) {
        rows_codec(WIRE_FULL)->add(shape, cache_row(table, slot), cache_base(table, slot), 1);
    } else if (cache_based(table)) {
        memcpy(cache_base(table, slot), cache_row(table, slot), shape->row_bytes);
    }
}

static void apply_rows(struct client *client, uint32_t number, uint64_t clock, const struct rows_view *view,
                       const uint32_t *slots, enum rows_wanted wanted) {
    const struct client_partition *partition = &client->partitions[number];
    struct cache_table *table = &client->cache->tables[view->table];
    uint32_t *stamps = cache_stamps(table);
    uint32_t *clocks = cache_clocks(table);
    const struct rows_codec *codec = rows_codec(view->encoding);
    const unsigned char *value = view->values;
    bool own_later = /* we have own updates that the pushed rows lack */
        partition->retained_count > 0 && partition->retained[partition->retained_count - 1].clock > clock;
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t slot = slots[i];
        cache_prefetch(table, slots, i, view->count);
        if (!row_wanted(wanted, stamps[slot], clocks[slot], clock)) {
            value += codec->bytes(table->shape, value);
            continue;
        }
        value += apply_row(table, slot, value, codec, own_later);
        stamps[slot] = client->stamp;
        clocks[slot] = (uint32_t)clock;
    }
    assert((size_t)(value - view->values) == view->value_frame->size);
    if (own_later) {
        reapply_own(client, partition, view->table, clock);
    }
    for (uint32_t i = 0; (own_later || rows_rounded(table->shape->encoding)) && i < view->count; i++) {
        if (stamps[slots[i]] == client->stamp) {
            settle_row(table, slots[i]);
        }
    }
    for (uint32_t i = 0; wanted == ROWS_NEW && i < view->count; i++) {
        if (stamps[slots[i]] == client->stamp) {
            cache_set_arrived(table, slots[i], true);
        }
    }
}

/* Numbers the next push. When the numbers are used up, all rows with a state get the stamp 1: stamps must differ only
 * from that of the present push, and 0 stands for no state. */
static void stamp_next(struct client *client) {
    for (unsigned t = 0; t < client->job->table_count && client->stamp == UINT32_MAX; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        for (uint32_t slot = 0; slot < table->count; slot++) {
            cache_stamps(table)[slot] = cache_stamps(table)[slot] != 0 ? 1 : 0;
        }
    }
    client->stamp = client->stamp == UINT32_MAX ? 2 : client->stamp + 1;
}

int client_apply(struct client *client, uint32_t number, const struct message *message, enum rows_wanted wanted,
                 struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    uint32_t *slots[WIRE_TABLES_MAX];
    assert(wanted == ROWS_NEW || (!client->working && !client->frozen)); /* the app may use rows with a state */
    int count = rows_check(message, client->job->shapes, client->job->table_count, views, error);
    for (int v = 0; v < count; v++) {
        slots[v] = view_cache_slots(client, number, &views[v], wanted);
        if (slots[v] == NULL) {
            const char *name = client->job->tables[views[v].table].name;
            while (v-- > 0) {
                free(slots[v]);
            }
            return error_set(error, AML_EPROTOCOL, "table %s: a row that was not asked for", name);
        }
    }
    stamp_next(client);
    for (int v = 0; v < count; v++) {
        apply_rows(client, number, message->push.clock, &views[v], slots[v], wanted);
        free(slots[v]);
    }
    return count < 0 ? count : 0;
}

void client_put_later(struct client *client, const struct client_partition *partition,
                      const struct retained_flush *flush) {
    stamp_next(client);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct cache_table *table = &client->cache->tables[t];
        uint32_t *stamps = cache_stamps(table);
        for (uint32_t i = 0; i < flush->counts[t] && table->spec->mode == AML_PUT; i++) {
            stamps[flush->slots[t][i]] = client->stamp;
        }
        reapply_own(client, partition, t, flush->clock);
    }
}
