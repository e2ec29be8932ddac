/* A partition's subscriptions, and its rows as they go into messages. See partition.h. */
#include "agileml/ps/partition_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Subscriptions ---- */

/* Adds the rows to the list; with `only`, replaces the list. Takes over `slots`. */
static void list_rows(struct slot_list *list, uint32_t *slots, uint32_t count, bool only) {
    if (only || list->count == 0) {
        free(list->slots);
        *list = (struct slot_list){.slots = slots, .count = count, .capacity = count};
        return;
    }
    if (count > list->capacity - list->count) { /* grow by more than needed: subscribers send their rows in portions */
        uint32_t wanted = list->count + count;
        list->capacity = wanted > list->count + list->count / 4 ? wanted : list->count + list->count / 4;
        list->slots = memory_resized(list->slots, list->capacity, sizeof *list->slots);
    }
    memcpy(list->slots + list->count, slots, count * sizeof *list->slots);
    list->count += count;
    assert(list->count <= list->capacity);
    free(slots);
}

/* Keeps each of the table's rows once. */
static void list_drop_repeats(struct slot_list *list, uint32_t rows) {
    unsigned char *listed = memory_zeroed(rows, 1);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t slot = list->slots[i];
        list->slots[kept] = slot;
        kept += listed[slot] == 0 ? 1 : 0;
        listed[slot] = 1;
    }
    list->count = list->capacity = kept;
    list->slots = memory_resized(list->slots, kept, sizeof *list->slots);
    free(listed);
}

int partition_subscribe(struct partition *partition, actor_id subscriber, uint64_t request, bool only,
                        const struct rows_view *views, unsigned view_count, struct error *error) {
    struct subscription *subscription = partition_subscription(partition, subscriber);
    if (subscription == NULL) {
        partition->subscriptions =
            memory_resized(partition->subscriptions, partition->subscription_count + 1, sizeof *subscription);
        index_map_add(&partition->subscription_index, subscriber, partition->subscription_count);
        subscription = &partition->subscriptions[partition->subscription_count++];
        *subscription = (struct subscription){.subscriber = subscriber, .sent_clock = partition->clock};
    }
    if (request <= subscription->request) {
        return 0;
    }
    uint32_t *slots[WIRE_TABLES_MAX];
    for (unsigned v = 0; v < view_count; v++) {
        slots[v] = partition_view_slots(&partition->tables[views[v].table], &views[v], error);
        if (slots[v] == NULL) {
            while (v-- > 0) {
                free(slots[v]);
            }
            return error->code;
        }
    }
    for (unsigned t = 0; t < partition->job->table_count && only; t++) {
        list_rows(&subscription->lists[t], NULL, 0, true);
    }
    for (unsigned v = 0; v < view_count; v++) {
        struct slot_list *list = &subscription->lists[views[v].table];
        const uint32_t rows = partition->tables[views[v].table].count;
        list_rows(list, slots[v], views[v].count, only);
        if (list->count > (uint64_t)PARTITION_REPEATS_MAX * rows) {
            list_drop_repeats(list, rows);
        }
    }
    subscription->request = request;
    return 0;
}

/* ---- Rows into messages ---- */

/* Makes `values` the message that others of the present clock copy rows of. */
static void keep_encoded(struct partition *partition, unsigned t, struct buffer *values) {
    struct encoded_rows *encoded = &partition->encoded[t];
    const uint32_t count = partition->tables[t].count;
    if (encoded->count < count) {
        encoded->places = memory_resized(encoded->places, count, sizeof *encoded->places);
        encoded->count = count;
    }
    memset(encoded->places, 0, encoded->count * sizeof *encoded->places);
    buffer_drop(encoded->values);
    encoded->values = buffer_hold(values);
    encoded->clock = partition->clock;
}

/* Writes rows in an encoding in which they have different sizes. Returns the bytes of all. */
static size_t write_varied(struct partition *partition, unsigned t, const uint32_t *slots, uint32_t count,
                           const struct rows_codec *codec, struct buffer *values) {
    const struct table *table = &partition->tables[t];
    struct encoded_rows *encoded = &partition->encoded[t];
    unsigned char *to = values->data;
    assert(codec == rows_codec(table->shape.encoding) && values->size < UINT32_MAX);
    if (encoded->values == NULL || encoded->clock != partition->clock) {
        keep_encoded(partition, t, values);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = slots[i] < encoded->count ? encoded->places[slots[i]] : 0;
        size_t bytes;
        if (place > 0) {
            const unsigned char *row = encoded->values->data + place - 1;
            bytes = codec->bytes(&table->shape, row);
            memcpy(to, row, bytes);
        } else {
            bytes = codec->write(&table->shape, to, table_row(table, slots[i]), table_errors(table, slots[i]), 1);
        }
        if (encoded->values == values) {
            encoded->places[slots[i]] = (uint32_t)(to - values->data) + 1;
        }
        to += bytes;
    }
    return (size_t)(to - values->data);
}

/* Writes rows in an encoding in which all have the same size. Returns the bytes of all. */
static size_t write_alike(const struct table *table, const uint32_t *slots, uint32_t count,
                          const struct rows_codec *codec, struct buffer *values) {
    unsigned char *value = values->data;
    for (uint32_t i = 0; i < count;) {
        uint32_t run = slots_run(slots + i, count - i);
        value += codec->write(&table->shape, value, table_row(table, slots[i]), table_errors(table, slots[i]), run);
        i += run;
    }
    return (size_t)(value - values->data);
}

/* Appends the keys and values of `slots`, if there are any. */
static void message_add_slots(struct message *message, struct partition *partition, unsigned t, const uint32_t *slots,
                              uint32_t count, enum wire_encoding encoding) {
    if (count == 0) {
        return;
    }
    partition_settle(partition, t);
    const struct table *table = &partition->tables[t];
    const struct rows_codec *codec = rows_codec(encoding);
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    struct buffer *values = buffer_new(count * codec->bytes_max(&table->shape));
    uint64_t *key = (uint64_t *)(void *)keys->data;
    for (uint32_t i = 0; i < count; i++) {
        key[i] = table_key(table, slots[i]);
    }
    size_t size = codec->varies ? write_varied(partition, t, slots, count, codec, values)
                                : write_alike(table, slots, count, codec, values);
    assert(size <= values->size);
    values->size = size;
    rows_append(message, t, encoding, keys, values);
}

static uint32_t *partition_scratch(struct partition *partition, uint32_t count) {
    if (count > partition->scratch_capacity) {
        partition->scratch = memory_resized(partition->scratch, count, sizeof(uint32_t));
        partition->scratch_capacity = count;
    }
    return partition->scratch;
}

static void share_rows(struct message *push, const struct message *model, uint32_t table) {
    struct rows_view view;
    if (rows_find(model, table, &view)) {
        rows_append(push, table, view.encoding, buffer_hold(view.key_frame), buffer_hold(view.value_frame));
    }
}

/* Whether the only origin since `from_clock` has the rows bit for bit. If pushes round, it must have been the only
 * origin from the start: otherwise it may have rounded rows, and must get the same rows as other workers. */
static bool alone_knows(const struct partition *partition, uint64_t from_clock) {
    bool rounded = false;
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        rounded = rounded || rows_rounded(partition->tables[t].shape.encoding);
    }
    return rounded ? partition->mixed_clock == 0 : from_clock >= partition->mixed_clock;
}

/* Whether a subscriber was the only origin since `from_clock`, and so has the rows already. */
static bool subscriber_knows(const struct partition *partition, const struct subscription *subscription,
                             uint64_t from_clock) {
    int origin = partition_origin(partition, subscription->subscriber);
    return !partition->pushes_all && origin >= 0 && partition->alone == (unsigned)origin + 1 &&
           alone_knows(partition, from_clock);
}

void partition_changes(struct partition *partition, const struct subscription *subscription, uint64_t from_clock,
                       const struct subscription *model_subscription, const struct message *model,
                       struct message *push) {
    int found = partition_origin(partition, subscription->subscriber);
    uint32_t writer = found >= 0 ? (uint32_t)found + 1 : UINT32_MAX;
    bool knows = subscriber_knows(partition, subscription, from_clock);
    bool model_lacks = model != NULL && subscriber_knows(partition, model_subscription, from_clock);
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        const struct table *table = &partition->tables[t];
        const struct slot_list *list = &subscription->lists[t];
        bool put = table->spec->mode == AML_PUT;
        if (list->count == 0 || (knows && !table_stepped(table->spec))) {
            push->push.left_out |= list->count > 0;
            continue;
        }
        bool lacking = model_lacks && !table_stepped(table->spec); /* the model lacks the table's rows */
        if (!put && model != NULL && model->frame_count > 0 && !lacking) {
            const struct slot_list *other = &model_subscription->lists[t];
            if (other->count == list->count && memcmp(other->slots, list->slots, list->count * sizeof(uint32_t)) == 0) {
                share_rows(push, model, t); /* if the model has no rows of the table, none changed */
                continue;
            }
        }
        uint32_t *slots = partition_scratch(partition, list->count);
        const uint32_t *clocks = table_clocks(table);
        const uint32_t *writers = table_writers(table);
        uint32_t count = 0;
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t slot = list->slots[i];
            if (clocks[slot] > from_clock && !(put && writers[slot] == writer)) {
                slots[count++] = slot;
            }
        }
        message_add_slots(push, partition, t, slots, count, table->shape.encoding);
    }
}

int partition_rows(struct partition *partition, const struct rows_view *views, unsigned view_count, uint64_t known,
                   struct message *push, struct error *error) {
    for (unsigned v = 0; v < view_count; v++) {
        struct table *table = &partition->tables[views[v].table];
        uint32_t *slots = partition_view_slots(table, &views[v], error);
        if (slots == NULL) {
            message_close(push);
            return error->code;
        }
        const uint32_t *clocks = table_clocks(table);
        uint32_t count = 0;
        for (uint32_t i = 0; i < views[v].count; i++) {
            if (known == 0 || clocks[slots[i]] > known) {
                slots[count++] = slots[i];
            }
        }
        message_add_slots(push, partition, views[v].table, slots, count, rows_exact(&table->shape));
        free(slots);
    }
    return 0;
}

/* Writes the slots of rows that changed after `from_clock` into the scratch: from `slot` on, at most `most`. Sets
 * *count and returns the next slot. */
static uint32_t changed_slots(struct partition *partition, unsigned t, uint32_t slot, uint64_t from_clock,
                              uint64_t most, uint32_t *count) {
    const struct table *table = &partition->tables[t];
    const uint32_t *clocks = table_clocks(table);
    uint32_t left = table->count - slot;
    uint32_t *slots = partition_scratch(partition, most < left ? (uint32_t)most : left);
    *count = 0;
    for (; slot < table->count && *count < most; slot++) {
        if (clocks[slot] > from_clock) {
            slots[(*count)++] = slot;
        }
    }
    return slot;
}

uint64_t partition_scan(struct partition *partition, uint32_t table_number, uint64_t cursor, size_t bytes,
                        struct message *message) {
    const struct table *table = &partition->tables[table_number];
    uint64_t most = bytes / table->spec->row_bytes + 1;
    uint64_t left = cursor < table->count ? table->count - cursor : 0;
    uint32_t count = (uint32_t)(left < most ? left : most);
    uint32_t *slots = partition_scratch(partition, count);
    for (uint32_t i = 0; i < count; i++) {
        slots[i] = (uint32_t)cursor + i;
    }
    message_add_slots(message, partition, table_number, slots, count, WIRE_FULL);
    return count < left ? cursor + count : 0;
}

/* ---- Rows for a follower ---- */

uint64_t partition_piece(struct partition *partition, uint64_t cursor, size_t bytes, struct message *update) {
    uint32_t slot = (uint32_t)cursor;
    uint64_t next = 0;
    for (uint64_t t = cursor >> 32; t < partition->job->table_count; t++, slot = 0) {
        const struct table *table = &partition->tables[t];
        uint32_t count = 0;
        if (slot < table->count) {
            slot = changed_slots(partition, (unsigned)t, slot, 0, bytes / table->spec->row_bytes + 1, &count);
        }
        if (count > 0) {
            message_add_slots(update, partition, (unsigned)t, partition->scratch, count, rows_exact(&table->shape));
            next = slot < table->count ? t << 32 | slot : t + 1 < partition->job->table_count ? (t + 1) << 32 : 0;
            break;
        }
    }
    return next;
}

static int rows_fit(const struct partition *partition, unsigned t, uint64_t count, struct error *error) {
    const struct table_spec *spec = partition->tables[t].spec;
    const struct row_shape *shape = &partition->tables[t].shape;
    uint64_t row_bytes = rows_codec(rows_exact(shape))->bytes_max(shape);
    row_bytes = row_bytes > sizeof(uint64_t) ? row_bytes : sizeof(uint64_t);
    if (count > WIRE_FRAME_BYTES_MAX / row_bytes) {
        return error_set(
            error, AML_ELIMIT,
            "table %s: %llu rows of %u bytes of partition %u changed between two commit points, more than one "
            "message of %llu bytes holds: use more --partitions",
            spec->name, (unsigned long long)count, spec->row_bytes, partition->id,
            (unsigned long long)WIRE_FRAME_BYTES_MAX);
    }
    return 0;
}

/* Whether row i of a late put is the row's present value. */
static bool put_stands(const struct table *table, const struct contribution *put, uint32_t i) {
    return table_clocks(table)[put->slots[i]] == put->clock;
}

/* Appends the rows of a put table that changed after `from_clock`, straight from the frames of their flushes. None of
 * these changes may have been settled. */
static int add_late_rows(const struct partition *partition, unsigned t, uint64_t from_clock, struct message *update,
                         struct error *error) {
    const struct table *table = &partition->tables[t];
    const struct late_puts *late = &partition->late[t];
    const size_t row_bytes = table->spec->row_bytes;
    uint64_t count = 0;
    unsigned first = late->count;
    while (first > 0 && late->list[first - 1].clock > from_clock) {
        const struct contribution *put = &late->list[--first];
        for (uint32_t i = 0; i < put->count; i++) {
            count += put_stands(table, put, i);
        }
    }
    if (rows_fit(partition, t, count, error) != 0 || count == 0) {
        return count == 0 ? 0 : AML_ELIMIT;
    }
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    struct buffer *values = buffer_new(count * row_bytes);
    uint64_t *key = (uint64_t *)(void *)keys->data;
    unsigned char *value = values->data;
    for (; first < late->count; first++) {
        const struct contribution *put = &late->list[first];
        for (uint32_t i = 0; i < put->count; i++) {
            if (put_stands(table, put, i)) {
                *key++ = table_key(table, put->slots[i]);
                memcpy(value, put->values->data + i * row_bytes, row_bytes);
                value += row_bytes;
            }
        }
    }
    assert((size_t)(value - values->data) == values->size); /* both loops have found the same rows */
    rows_append(update, t, WIRE_FULL, keys, values);
    return 0;
}

int partition_changed(struct partition *partition, uint64_t from_clock, struct message *update, struct error *error) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        int result = 0;
        if (partition->tables[t].spec->mode == AML_PUT && partition->late[t].settled <= from_clock) {
            result = add_late_rows(partition, t, from_clock, update, error);
        } else {
            uint32_t count;
            changed_slots(partition, t, 0, from_clock, UINT32_MAX, &count);
            result = rows_fit(partition, t, count, error);
            if (result == 0) {
                message_add_slots(update, partition, t, partition->scratch, count,
                                  rows_exact(&partition->tables[t].shape));
            }
        }
        if (result != 0) {
            message_close(update);
            return result;
        }
    }
    return 0;
}
