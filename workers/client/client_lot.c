/* Lots (node_lots.h) and the cache. Work on another node's lot moves its changes into a message, and restores the rows
 * in the cache. The changes that a helper made for this node are added to the cache, and so to this node's flush. */
#include "workers/client/client_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- For another node ---- */

/* Copies the rows of a put table that the set's items may name: a put table has no base from which to restore them. A
 * row's `named` is the newest set that names it, so rows of newer sets are copied, too. */
static void save_rows(struct client *client, unsigned t, uint32_t set) {
    const struct cache_table *table = &client->cache->tables[t];
    struct client_saved *saved = &client->lot.saved[t];
    const size_t bytes = table->spec->row_bytes;
    for (uint32_t slot = 0; slot < table->count; slot++) {
        saved->count += cache_named(table)[slot] >= set ? 1 : 0;
    }
    saved->slots = memory_resized(NULL, saved->count, sizeof *saved->slots);
    saved->rows = memory_resized(NULL, saved->count, bytes);
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < table->count; slot++) {
        if (cache_named(table)[slot] >= set) {
            memcpy(saved->rows + count * bytes, cache_row(table, slot), bytes);
            saved->slots[count++] = slot;
        }
    }
    assert(count == saved->count);
}

void client_begin_lot(struct client *client, uint32_t set) {
    assert(!client->working && !client->frozen && !client->lot.under_way);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        client_settle_flushed(client, &client->partitions[p]); /* makes each row equal to its base */
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (client->job->tables[t].mode == AML_PUT) {
            save_rows(client, t, set);
        }
    }
    client->lot.under_way = true;
    client->working = true;
}

static int compare_slots(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one;
    uint32_t b = *(const uint32_t *)other;
    return a < b ? -1 : a > b;
}

/* Writes a put row to `value`, and restores the saved row. Returns the bytes written; 0: the row was not saved. */
static size_t take_put(struct client *client, unsigned t, uint32_t slot, unsigned char *value) {
    const struct cache_table *table = &client->cache->tables[t];
    const struct client_saved *saved = &client->lot.saved[t];
    const size_t bytes = table->spec->row_bytes;
    const uint32_t *found =
        saved->count > 0 ? bsearch(&slot, saved->slots, saved->count, sizeof slot, compare_slots) : NULL;
    if (found == NULL) {
        return 0;
    }
    size_t size = rows_codec(WIRE_FULL)->write(table->shape, value, cache_row(table, slot), NULL, 1);
    memcpy(cache_row(table, slot), saved->rows + (size_t)(found - saved->slots) * bytes, bytes);
    return size;
}

/* Writes an added row's change to `value`, and restores the row from its base. Returns the bytes written. */
static size_t take_added(const struct cache_table *table, uint32_t slot, unsigned char *value) {
    if (cache_summed(table)) {
        memcpy(value, cache_sum(table, slot), table->spec->row_bytes);
        memset(cache_sum(table, slot), 0, table->spec->row_bytes);
        return table->spec->row_bytes;
    }
    size_t size =
        rows_codec(table->shape->encoding)
            ->delta(table->shape, value, cache_row(table, slot), cache_base(table, slot), ROWS_AFTER_UNCHANGED);
    memcpy(cache_row(table, slot), cache_base(table, slot), table->spec->row_bytes);
    return size;
}

/* Moves a table's changes from the cache into the message. */
static int take_table(struct client *client, unsigned t, struct message *message, struct error *error) {
    const struct cache_table *table = &client->cache->tables[t];
    const bool put = table->spec->mode == AML_PUT;
    const enum wire_encoding encoding = put || cache_summed(table) ? WIRE_FULL : table->shape->encoding;
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < table->count; slot++) {
        count += table->touched.base[slot];
    }
    if (count == 0) {
        return 0;
    }
    assert(!table->spec->given); /* given changes are not moved: jobs with such tables have no lots */
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    struct buffer *values = buffer_new(count * rows_codec(encoding)->bytes_max(table->shape));
    unsigned char *value = values->data;
    uint32_t taken = 0;
    for (uint32_t slot = 0; slot < table->count; slot++) {
        if (table->touched.base[slot] == 0) {
            continue;
        }
        size_t size = put ? take_put(client, t, slot, value) : take_added(table, slot, value);
        if (size == 0) {
            buffer_drop(keys);
            buffer_drop(values);
            return error_set(error, AML_EINPUT,
                             "clock: table %s: row %llu was put for an item that does not name it: expected rows of "
                             "the items alone (--lots)",
                             table->spec->name, (unsigned long long)cache_key(table, slot));
        }
        table->touched.base[slot] = 0;
        ((uint64_t *)(void *)keys->data)[taken++] = cache_key(table, slot);
        value += size;
    }
    assert(taken == count && (size_t)(value - values->data) <= values->size);
    struct buffer *shorter = buffer_copy(values->data, (size_t)(value - values->data));
    buffer_drop(values);
    rows_append(message, t, encoding, keys, shorter);
    return 0;
}

int client_end_lot(struct client *client, struct message *message, struct error *error) {
    assert(client->working && client->lot.under_way);
    int result = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        result = result != 0 ? result : take_table(client, t, message, error);
        free(client->lot.saved[t].slots);
        free(client->lot.saved[t].rows);
        client->lot.saved[t] = (struct client_saved){0};
    }
    client->lot.under_way = false;
    client->working = false;
    client_apply_waiting(client);
    return result;
}

/* ---- From another node ---- */

/* Returns whether the cache has all rows of the view, and their state has come. */
static bool has_rows(const struct client *client, const struct rows_view *view) {
    for (uint32_t i = 0; i < view->count; i++) {
        int64_t slot = cache_find(client->cache, view->table, view->keys[i]);
        if (slot == INDEX_NONE || !cache_arrived(&client->cache->tables[view->table], (uint32_t)slot)) {
            return false;
        }
    }
    return true;
}

bool client_add_lot(struct client *client, const struct message *message) {
    struct rows_view view;
    assert(client->working && !client->lot.under_way);
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (rows_find(message, t, &view) && !has_rows(client, &view)) {
            return false;
        }
    }
    for (unsigned t = 0; t < client->job->table_count; t++) {
        if (!rows_find(message, t, &view)) {
            continue;
        }
        const struct cache_table *table = &client->cache->tables[t];
        const struct rows_codec *codec = rows_codec(view.encoding);
        const unsigned char *value = view.values;
        for (uint32_t i = 0; i < view.count; i++) {
            uint32_t slot = (uint32_t)cache_find(client->cache, t, view.keys[i]);
            unsigned char *to = cache_summed(table) ? cache_sum(table, slot) : cache_row(table, slot);
            value += (table->spec->mode == AML_PUT ? codec->copy : codec->add)(table->shape, to, value, 1);
            table->touched.base[slot] = 1;
        }
    }
    return true;
}
