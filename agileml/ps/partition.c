/* See partition.h. */
#include "agileml/ps/partition.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error) {
    struct partition *partition = memory_zeroed(1, sizeof *partition);
    partition->job = job;
    partition->id = id;
    partition->ring = memory_zeroed(job->staleness + 1, sizeof *partition->ring);
    for (unsigned t = 0; t < job->table_count; t++) {
        if (table_open(&partition->tables[t], &job->tables[t], id, partitions, error) != 0) {
            partition_close(partition);
            return NULL;
        }
    }
    return partition;
}

static void contribution_close(struct contribution *contribution) {
    buffer_drop(contribution->values);
    free(contribution->slots);
}

static void pending_table_release(struct pending_table *pending) {
    for (unsigned i = 0; i < pending->waiting_count; i++) {
        contribution_close(&pending->waiting[i]);
    }
    pending->waiting_count = 0;
}

void partition_close(struct partition *partition) {
    if (partition == NULL) {
        return;
    }
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        table_close(&partition->tables[t]);
        for (unsigned i = 0; i < partition->late[t].count; i++) {
            contribution_close(&partition->late[t].list[i]);
        }
        free(partition->late[t].list);
        for (unsigned r = 0; r <= partition->job->staleness; r++) {
            struct pending_table *pending = &partition->ring[r].tables[t];
            pending_table_release(pending);
            free(pending->waiting);
            arena_close(&pending->sums);
            arena_close(&pending->marks);
            arena_close(&pending->slots);
        }
    }
    for (unsigned r = 0; r <= partition->job->staleness; r++) {
        free(partition->ring[r].delivered);
    }
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        for (unsigned t = 0; t < partition->job->table_count; t++) {
            free(partition->subscriptions[s].lists[t].slots);
        }
    }
    free(partition->subscriptions);
    free(partition->origins);
    free(partition->scratch);
    free(partition->ring);
    free(partition);
}

/* ---- Origins ---- */

static int origin_find(const struct partition *partition, actor_id actor) {
    for (unsigned i = 0; i < partition->origin_count; i++) {
        if (partition->origins[i].actor == actor) {
            return (int)i;
        }
    }
    return -1;
}

static bool origin_expected(const struct origin *origin, uint64_t clock) {
    return clock >= origin->from_clock && clock <= origin->until_clock;
}

void partition_expect(struct partition *partition, const actor_id *origins, unsigned count, uint64_t from_clock) {
    for (unsigned i = 0; i < partition->origin_count; i++) {
        struct origin *origin = &partition->origins[i];
        if (origin->until_clock >= from_clock) {
            origin->until_clock = from_clock - 1;
        }
    }
    unsigned before = partition->origin_count;
    for (unsigned i = 0; i < count; i++) {
        int found = origin_find(partition, origins[i]);
        if (found >= 0) {
            partition->origins[found].until_clock = UINT64_MAX;
            continue;
        }
        partition->origins =
            memory_resized(partition->origins, partition->origin_count + 1, sizeof *partition->origins);
        partition->origins[partition->origin_count++] = (struct origin){
            .actor = origins[i], .from_clock = from_clock, .until_clock = UINT64_MAX, .received = from_clock - 1};
    }
    for (unsigned r = 0; r <= partition->job->staleness; r++) {
        struct pending *pending = &partition->ring[r];
        pending->delivered = memory_resized(pending->delivered, partition->origin_count, 1);
        memset(pending->delivered + before, 0, partition->origin_count - before);
    }
}

uint64_t partition_received(const struct partition *partition, actor_id origin) {
    int found = origin_find(partition, origin);
    return found >= 0 ? partition->origins[found].received : partition->clock;
}

/* ---- Flushes into pending clocks ---- */

static struct pending *partition_pending(struct partition *partition, uint64_t clock) {
    return &partition->ring[clock % (partition->job->staleness + 1)];
}

/* The length of the run of consecutive slots that starts at slots[0]. */
static uint32_t run_length(const uint32_t *slots, uint32_t count) {
    uint32_t run = 1;
    while (run < count && slots[run] == slots[0] + run) {
        run++;
    }
    return run;
}

/* Adds a contribution to the sums: rows that are new there are copied, the others added. */
static int pending_sum(struct pending_table *pending, const struct table *table, const uint32_t *slots, uint32_t count,
                       const unsigned char *values) {
    const struct table_spec *spec = table->spec;
    int result = arena_grow(&pending->sums, (size_t)table->count * spec->row_bytes);
    result = result != 0 ? result : arena_grow(&pending->marks, table->count);
    result = result != 0 ? result : arena_grow(&pending->slots, table->count * sizeof(uint32_t));
    if (result != 0) {
        return result;
    }
    unsigned char *marks = pending->marks.base;
    uint32_t *summed = (uint32_t *)(void *)pending->slots.base;
    for (uint32_t i = 0; i < count;) {
        uint32_t slot = slots[i];
        unsigned char mark = marks[slot];
        uint32_t run = 1;
        while (i + run < count && slots[i + run] == slot + run && marks[slot + run] == mark) {
            run++;
        }
        unsigned char *sum = pending->sums.base + (size_t)slot * spec->row_bytes;
        const unsigned char *value = values + (size_t)i * spec->row_bytes;
        if (mark != 0) {
            table_add(spec->type, sum, value, (size_t)run * spec->width);
        } else {
            memcpy(sum, value, (size_t)run * spec->row_bytes);
            memset(marks + slot, 1, run);
            for (uint32_t r = 0; r < run; r++) {
                summed[pending->summed++] = slot + r;
            }
        }
        i += run;
    }
    return 0;
}

/* Takes over `slots` on success. */
static int pending_take(struct pending_table *pending, const struct table *table, struct contribution *new) {
    if (table->spec->mode == AML_PUT || (pending->waiting_count == 0 && pending->summed == 0)) {
        pending->waiting = memory_resized(pending->waiting, pending->waiting_count + 1, sizeof *pending->waiting);
        buffer_hold(new->values);
        pending->waiting[pending->waiting_count++] = *new;
        return 0;
    }
    int result = 0;
    if (pending->waiting_count == 1) {
        const struct contribution *first = &pending->waiting[0];
        result = pending_sum(pending, table, first->slots, first->count, first->values->data);
        if (result != 0) {
            return result;
        }
        pending_table_release(pending);
    }
    result = pending_sum(pending, table, new->slots, new->count, new->values->data);
    if (result == 0) {
        free(new->slots);
    }
    return result;
}

/* Slots of a view's keys, made where new; NULL on error. A worker's flushes come in the order of its subscription, so
 * the next key is usually further on in `list`, which is quicker to see than to look up; NULL when there is none. */
static uint32_t *view_slots(struct table *table, const struct rows_view *view, const struct slot_list *list,
                            struct error *error) {
    uint32_t *slots = memory_resized(NULL, view->count, sizeof *slots);
    uint32_t listed = list != NULL ? list->count : 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        while (at < listed && table_key(table, list->slots[at]) != view->keys[i]) {
            at++;
        }
        if (at < listed) {
            slots[i] = list->slots[at++];
            continue;
        }
        int64_t slot = table_slot(table, view->keys[i]);
        if (slot < 0) {
            error_set(error, (int)slot, "table %s: key %llu is not a row of partition %u", table->spec->name,
                      (unsigned long long)view->keys[i], table->partition);
            free(slots);
            return NULL;
        }
        slots[i] = (uint32_t)slot;
    }
    return slots;
}

int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, const struct message *message,
                    const struct rows_view *views, unsigned view_count, struct error *error) {
    int found = origin_find(partition, origin);
    if (found < 0 || !origin_expected(&partition->origins[found], clock)) {
        return FLUSH_UNEXPECTED;
    }
    if (clock <= partition->clock) {
        return FLUSH_REPEATED;
    }
    if (clock > partition->clock + 1 + partition->job->staleness) {
        return FLUSH_UNEXPECTED; /* no worker may be so far ahead */
    }
    struct pending *pending = partition_pending(partition, clock);
    if (pending->clock == clock && pending->delivered[found]) {
        return FLUSH_REPEATED;
    }
    struct contribution new[WIRE_TABLES_MAX];
    const struct subscription *subscription = partition_subscription(partition, origin);
    for (unsigned v = 0; v < view_count; v++) {
        new[v] = (struct contribution){
            .values = message->frames[2 + 2 * v],
            .slots = view_slots(&partition->tables[views[v].table], &views[v],
                                subscription != NULL ? &subscription->lists[views[v].table] : NULL, error),
            .count = views[v].count,
            .writer = (uint32_t)found};
        if (new[v].slots == NULL) {
            while (v-- > 0) {
                free(new[v].slots);
            }
            return error->code;
        }
    }
    for (unsigned v = 0; v < view_count; v++) {
        struct table *table = &partition->tables[views[v].table];
        if (pending_take(&pending->tables[views[v].table], table, &new[v]) != 0) {
            return error_set(error, AML_ENOMEM, "table %s: no memory for a clock's sums", table->spec->name);
        }
    }
    pending->clock = clock;
    pending->delivered[found] = 1;
    pending->delivered_count++;
    struct origin *from = &partition->origins[found];
    while (from->received < clock + partition->job->staleness) {
        const struct pending *next = partition_pending(partition, from->received + 1);
        if (next->clock != from->received + 1 || !next->delivered[found]) {
            break;
        }
        from->received++;
    }
    return FLUSH_TAKEN;
}

/* ---- Advancing the clock ---- */

/* Adds packed rows to the table, row i of `values` or, `by_slot`, at its slot's place. */
static void table_apply(struct table *table, const uint32_t *slots, uint32_t count, const unsigned char *values,
                        bool by_slot) {
    const struct table_spec *spec = table->spec;
    for (uint32_t i = 0; i < count;) {
        uint32_t run = run_length(slots + i, count - i);
        const unsigned char *from = values + (size_t)(by_slot ? slots[i] : i) * spec->row_bytes;
        table_add(spec->type, table_row(table, slots[i]), from, (size_t)run * spec->width);
        i += run;
    }
}

static void table_stamp(struct table *table, const uint32_t *slots, uint32_t count, uint64_t clock) {
    uint32_t *clocks = table_clocks(table);
    for (uint32_t i = 0; i < count; i++) {
        clocks[slots[i]] = (uint32_t)clock;
    }
}

void partition_settle(struct partition *partition, unsigned t) {
    struct late_puts *late = &partition->late[t];
    const struct table *table = &partition->tables[t];
    const size_t row_bytes = table->spec->row_bytes;
    for (unsigned c = 0; c < late->count; c++) {
        const struct contribution *put = &late->list[c];
        for (uint32_t i = 0; i < put->count;) {
            uint32_t run = run_length(put->slots + i, put->count - i);
            memcpy(table_row(table, put->slots[i]), put->values->data + i * row_bytes, run * row_bytes);
            i += run;
        }
        contribution_close(&late->list[c]);
    }
    late->count = 0;
    late->rows = 0;
}

const unsigned char *partition_row(const struct partition *partition, unsigned t, uint32_t slot) {
    const struct late_puts *late = &partition->late[t];
    for (unsigned c = late->count; c > 0; c--) {
        const struct contribution *put = &late->list[c - 1];
        for (uint32_t i = put->count; i > 0; i--) {
            if (put->slots[i - 1] == slot) {
                return put->values->data + (size_t)(i - 1) * partition->tables[t].spec->row_bytes;
            }
        }
    }
    return table_row(&partition->tables[t], slot);
}

/* Takes over a put: it replaces an earlier one of the same rows, or waits beside the others. */
static void late_put(struct partition *partition, unsigned t, const struct contribution *put) {
    struct late_puts *late = &partition->late[t];
    for (unsigned c = 0; c < late->count; c++) {
        struct contribution *earlier = &late->list[c];
        if (earlier->count == put->count && memcmp(earlier->slots, put->slots, put->count * sizeof *put->slots) == 0) {
            late->rows -= earlier->count;
            contribution_close(earlier);
            memmove(earlier, earlier + 1, (--late->count - c) * sizeof *earlier);
            break;
        }
    }
    if (late->count == PARTITION_LATE_MAX || late->rows + put->count > partition->tables[t].count) {
        partition_settle(partition, t);
    }
    late->list = memory_resized(late->list, late->count + 1, sizeof *late->list);
    late->list[late->count++] = *put;
    late->rows += put->count;
}

static void pending_apply(struct partition *partition, struct pending *pending) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct table *table = &partition->tables[t];
        struct pending_table *sum = &pending->tables[t];
        for (unsigned i = 0; i < sum->waiting_count; i++) {
            struct contribution *one = &sum->waiting[i];
            table_stamp(table, one->slots, one->count, pending->clock);
            if (table->spec->mode == AML_ADD) {
                table_apply(table, one->slots, one->count, one->values->data, false);
                contribution_close(one);
            } else {
                for (uint32_t r = 0; r < one->count; r++) {
                    table_writers(table)[one->slots[r]] = one->writer;
                }
                late_put(partition, t, one);
            }
        }
        sum->waiting_count = 0;
        if (sum->summed > 0) {
            const uint32_t *slots = (const uint32_t *)(const void *)sum->slots.base;
            table_stamp(table, slots, sum->summed, pending->clock);
            table_apply(table, slots, sum->summed, sum->sums.base, true);
            for (uint32_t i = 0; i < sum->summed; i++) {
                sum->marks.base[slots[i]] = 0;
            }
            sum->summed = 0;
        }
    }
    pending->clock = 0;
    pending->delivered_count = 0;
    memset(pending->delivered, 0, partition->origin_count);
}

/* Every origin expected at `clock` has delivered it. Tells the index of one of them, and how many there are. */
static bool clock_complete(const struct partition *partition, const struct pending *pending, uint64_t clock,
                           unsigned *origin, unsigned *expected) {
    if (pending->clock != clock) {
        return false;
    }
    *expected = 0;
    for (unsigned i = 0; i < partition->origin_count; i++) {
        if (origin_expected(&partition->origins[i], clock)) {
            *origin = i;
            (*expected)++;
        }
    }
    return *expected > 0 && pending->delivered_count == *expected;
}

bool partition_advance(struct partition *partition) {
    bool advanced = false;
    unsigned origin = 0;
    unsigned expected;
    for (;;) {
        struct pending *pending = partition_pending(partition, partition->clock + 1);
        if (!clock_complete(partition, pending, partition->clock + 1, &origin, &expected)) {
            return advanced;
        }
        pending_apply(partition, pending);
        if (expected > 1) {
            partition->alone = 0;
            partition->mixed_clock = partition->clock + 1;
        } else if (partition->alone != origin + 1) {
            partition->alone = origin + 1;
            partition->mixed_clock = partition->clock;
        }
        partition->clock++;
        advanced = true;
    }
}

/* ---- Subscriptions ---- */

struct subscription *partition_subscription(struct partition *partition, actor_id subscriber) {
    for (unsigned i = 0; i < partition->subscription_count; i++) {
        if (partition->subscriptions[i].subscriber == subscriber) {
            return &partition->subscriptions[i];
        }
    }
    return NULL;
}

int partition_subscribe(struct partition *partition, actor_id subscriber, uint64_t request,
                        const struct rows_view *views, unsigned view_count, struct error *error) {
    struct subscription *subscription = partition_subscription(partition, subscriber);
    if (subscription == NULL) {
        partition->subscriptions =
            memory_resized(partition->subscriptions, partition->subscription_count + 1, sizeof *subscription);
        subscription = &partition->subscriptions[partition->subscription_count++];
        *subscription = (struct subscription){.subscriber = subscriber, .sent_clock = partition->clock};
    }
    if (request <= subscription->request) {
        return 0;
    }
    uint32_t *slots[WIRE_TABLES_MAX];
    for (unsigned v = 0; v < view_count; v++) {
        slots[v] = view_slots(&partition->tables[views[v].table], &views[v], NULL, error);
        if (slots[v] == NULL) {
            while (v-- > 0) {
                free(slots[v]);
            }
            return error->code;
        }
    }
    for (unsigned v = 0; v < view_count; v++) {
        struct slot_list *list = &subscription->lists[views[v].table];
        list->slots = memory_resized(list->slots, (size_t)list->count + views[v].count, sizeof *list->slots);
        memcpy(list->slots + list->count, slots[v], views[v].count * sizeof *list->slots);
        list->count += views[v].count;
        free(slots[v]);
    }
    subscription->request = request;
    return 0;
}

/* Appends keys and values of `slots` to a message whose frame 0 is the directory. */
static void message_append_rows(struct message *message, struct partition *partition, unsigned t, const uint32_t *slots,
                                uint32_t count) {
    partition_settle(partition, t);
    const struct table *table = &partition->tables[t];
    const size_t row_bytes = table->spec->row_bytes;
    struct buffer *keys = buffer_new(count * sizeof(uint64_t));
    struct buffer *values = buffer_new(count * row_bytes);
    uint64_t *key = (uint64_t *)(void *)keys->data;
    for (uint32_t i = 0; i < count; i++) {
        key[i] = table_key(table, slots[i]);
    }
    for (uint32_t i = 0; i < count;) {
        uint32_t run = run_length(slots + i, count - i);
        memcpy(values->data + i * row_bytes, table_row(table, slots[i]), run * row_bytes);
        i += run;
    }
    message->frames[message->frame_count++] = keys;
    message->frames[message->frame_count++] = values;
}

/* Starts the row frames of a message: a directory with room for every table, filled as tables are appended. */
static void message_begin_rows(struct message *message) {
    struct buffer *directory = buffer_new(WIRE_TABLES_MAX * sizeof(struct wire_directory_entry));
    directory->size = 0;
    message->frames[0] = directory;
    message->frame_count = 1;
}

static void message_directory_add(struct message *message, uint32_t table, uint32_t count) {
    struct buffer *directory = message->frames[0];
    struct wire_directory_entry *entry = (struct wire_directory_entry *)(void *)(directory->data + directory->size);
    *entry = (struct wire_directory_entry){.table = table, .rows = count};
    directory->size += sizeof *entry;
}

/* A directory without tables is no rows at all. */
static void message_end_rows(struct message *message) {
    if (message->frames[0]->size == 0) {
        message_close(message);
    }
}

static bool share_rows(struct message *push, const struct message *model, uint32_t table) {
    const struct wire_directory_entry *entry = (const void *)model->frames[0]->data;
    for (unsigned v = 0; v < model->frames[0]->size / sizeof *entry; v++) {
        if (entry[v].table == table) {
            message_directory_add(push, table, entry[v].rows);
            push->frames[push->frame_count++] = buffer_hold(model->frames[1 + 2 * v]);
            push->frames[push->frame_count++] = buffer_hold(model->frames[2 + 2 * v]);
            return true;
        }
    }
    return false;
}

void partition_changes(struct partition *partition, const struct subscription *subscription, uint64_t from_clock,
                       const struct subscription *model_subscription, const struct message *model,
                       struct message *push) {
    int writer = origin_find(partition, subscription->subscriber);
    if (writer >= 0 && partition->alone == (unsigned)writer + 1 && from_clock >= partition->mixed_clock) {
        return;
    }
    message_begin_rows(push);
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        const struct table *table = &partition->tables[t];
        const struct slot_list *list = &subscription->lists[t];
        bool put = table->spec->mode == AML_PUT;
        if (list->count == 0) {
            continue;
        }
        if (!put && model != NULL && model->frame_count > 0) {
            const struct slot_list *other = &model_subscription->lists[t];
            if (other->count == list->count && memcmp(other->slots, list->slots, list->count * sizeof(uint32_t)) == 0) {
                share_rows(push, model, t); /* where the model has none, nothing changed */
                continue;
            }
        }
        if (list->count > partition->scratch_capacity) {
            partition->scratch = memory_resized(partition->scratch, list->count, sizeof(uint32_t));
            partition->scratch_capacity = list->count;
        }
        const uint32_t *clocks = table_clocks(table);
        const uint32_t *writers = table_writers(table);
        uint32_t count = 0;
        for (uint32_t i = 0; i < list->count; i++) {
            uint32_t slot = list->slots[i];
            if (clocks[slot] > from_clock && !(put && writer >= 0 && writers[slot] == (uint32_t)writer)) {
                partition->scratch[count++] = slot;
            }
        }
        if (count > 0) {
            message_directory_add(push, t, count);
            message_append_rows(push, partition, t, partition->scratch, count);
        }
    }
    message_end_rows(push);
}

void partition_rows(struct partition *partition, const struct rows_view *views, unsigned view_count,
                    struct message *push) {
    message_begin_rows(push);
    for (unsigned v = 0; v < view_count; v++) {
        struct table *table = &partition->tables[views[v].table];
        uint32_t *slots = view_slots(table, &views[v], NULL, NULL);
        assert(slots != NULL); /* the SUBSCRIBE was taken, so its keys are fine */
        message_directory_add(push, views[v].table, views[v].count);
        message_append_rows(push, partition, views[v].table, slots, views[v].count);
        free(slots);
    }
    message_end_rows(push);
}

uint64_t partition_scan(struct partition *partition, uint32_t table_number, uint64_t cursor, size_t bytes,
                        struct message *message) {
    const struct table *table = &partition->tables[table_number];
    uint64_t most = bytes / table->spec->row_bytes + 1;
    uint64_t left = cursor < table->count ? table->count - cursor : 0;
    uint32_t count = (uint32_t)(left < most ? left : most);
    message_begin_rows(message);
    if (count > 0) {
        uint32_t *slots = memory_resized(NULL, count, sizeof *slots);
        for (uint32_t i = 0; i < count; i++) {
            slots[i] = (uint32_t)cursor + i;
        }
        message_directory_add(message, table_number, count);
        message_append_rows(message, partition, table_number, slots, count);
        free(slots);
    }
    message_end_rows(message);
    return count < left ? cursor + count : 0;
}
