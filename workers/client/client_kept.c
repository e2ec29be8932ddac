/* Keeps the pushes since the last committed clock (struct client_kept), so that this node can give a partition's rows
 * when all of the partition's replicas are lost. */
#include "workers/client/client_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- The rows of a partition ---- */

/* How many rows of the table, which is dense, the partition has. */
static uint32_t rows_of(const struct client *client, uint32_t number, unsigned t) {
    return (uint32_t)table_dense_rows(&client->job->tables[t], number, client->partition_count);
}

static uint64_t all_rows(const struct client *client, uint32_t number) {
    uint64_t rows = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        rows += rows_of(client, number, t);
    }
    return rows;
}

static unsigned char *kept_row(const struct client *client, const struct client_kept *kept, unsigned t,
                               uint32_t place) {
    return kept->values[t] + (size_t)place * client->job->tables[t].row_bytes;
}

static bool has_values(const struct client_kept *kept) {
    return kept->clocks[0] != NULL;
}

static void drop_values(const struct client *client, struct client_kept *kept) {
    for (unsigned t = 0; t < client->job->table_count; t++) {
        free(kept->values[t]);
        free(kept->clocks[t]);
        kept->values[t] = NULL;
        kept->clocks[t] = NULL;
    }
}

/* Makes room for the rows, all of which are missing. */
static void open_values(const struct client *client, uint32_t number, struct client_kept *kept) {
    assert(!has_values(kept));
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t rows = rows_of(client, number, t);
        kept->values[t] = memory_zeroed(rows + 1U, client->job->tables[t].row_bytes);
        kept->clocks[t] = memory_resized(NULL, rows + 1U, sizeof *kept->clocks[t]);
        memset(kept->clocks[t], 0xff, (rows + 1U) * sizeof *kept->clocks[t]); /* CACHE_CLOCK_VOID */
    }
}

/* Checks what is kept between two messages: `values` end before the first push and `newest` is the last one; without
 * `values` all rows are missing or none is. */
static void check_kept(const struct client *client, uint32_t number) {
    const struct client_kept *kept = &client->partitions[number].kept;
    const struct client_kept_push *pushes = kept->pushes;
    uint64_t all = all_rows(client, number);
    assert(kept->missing <= all && (has_values(kept) || kept->missing == 0 || kept->missing == all));
    assert(kept->clock <= kept->newest);
    assert(kept->push_count == 0 || (pushes[0].message.push.clock >= kept->clock &&
                                     pushes[kept->push_count - 1].message.push.clock == kept->newest));
}

/* Drops the pushes first..until - 1. */
static void drop_pushes(struct client_kept *kept, unsigned first, unsigned until) {
    assert(first <= until && until <= kept->push_count);
    if (first == until) {
        return;
    }
    for (unsigned i = first; i < until; i++) {
        message_close(&kept->pushes[i].message);
    }
    memmove(kept->pushes + first, kept->pushes + until, (kept->push_count - until) * sizeof *kept->pushes);
    kept->push_count -= until - first;
}

/* Forgets everything: every row is missing. */
static void forget_all(const struct client *client, uint32_t number, struct client_kept *kept) {
    drop_values(client, kept);
    drop_pushes(kept, 0, kept->push_count);
    kept->missing = all_rows(client, number);
    kept->since = 0;
}

/* Makes views of a message whose rows were checked. */
static unsigned views_of(const struct client *client, const struct message *message, struct rows_view *views) {
    unsigned count = 0;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        count += rows_find(message, t, &views[count]) ? 1 : 0;
    }
    return count;
}

/* Whether all rows of a message are the partition's. */
static bool rows_are_ours(const struct client *client, uint32_t number, const struct message *message) {
    struct rows_view views[WIRE_TABLES_MAX];
    unsigned count = views_of(client, message, views);
    for (unsigned v = 0; v < count; v++) {
        const struct table_spec *spec = &client->job->tables[views[v].table];
        for (uint32_t i = 0; i < views[v].count; i++) {
            uint64_t key = views[v].keys[i];
            if (key >= spec->rows || table_partition(spec, key, client->partition_count) != number) {
                return false;
            }
        }
    }
    return true;
}

/* Writes rows of a message into `values`: with `missing` only rows that are missing there, else only rows that have an
 * older state there. */
static void write_rows(const struct client *client, struct client_kept *kept, const struct rows_view *view,
                       uint64_t clock, bool missing) {
    const struct cache_table *table = &client->cache->tables[view->table];
    const struct rows_codec *codec = rows_codec(view->encoding);
    const unsigned char *value = view->values;
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t place = table_dense_slot(view->keys[i], client->partition_count);
        uint32_t *row_clock = &kept->clocks[view->table][place];
        bool is_missing = *row_clock == CACHE_CLOCK_VOID;
        /* Pushes bring all changes of a row only once our request for the row was answered. Its slot is its key. */
        bool known = view->keys[i] < table->count && cache_stamps(table)[view->keys[i]] != 0;
        if (is_missing != missing || !known || (!missing && *row_clock > clock)) {
            value += codec->bytes(table->shape, value);
            continue;
        }
        value += codec->copy(table->shape, kept_row(client, kept, view->table, place), value, 1);
        assert(!missing || kept->missing > 0);
        *row_clock = (uint32_t)clock;
        kept->missing -= missing ? 1 : 0;
        kept->since = clock > kept->since ? clock : kept->since;
    }
}

static void write_message(const struct client *client, struct client_kept *kept, const struct message *message,
                          bool missing) {
    struct rows_view views[WIRE_TABLES_MAX];
    unsigned count = views_of(client, message, views);
    for (unsigned v = 0; v < count; v++) {
        write_rows(client, kept, &views[v], message->push.clock, missing);
    }
}

/* ---- Pushes ---- */

/* Whether a push has every row of the partition, in the order of keys, and the cache has a state of each. */
static bool covers(const struct client *client, uint32_t number, const struct message *push) {
    struct rows_view view;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        uint32_t rows = rows_of(client, number, t);
        uint32_t same = 0;
        if (client->partitions[number].filled[t] == rows && rows > 0 && rows_find(push, t, &view) &&
            view.count == rows) {
            while (same < rows && view.keys[same] == table_dense_key(same, number, client->partition_count)) {
                same++;
            }
        }
        if (same < rows) {
            return false;
        }
    }
    return true;
}

/* Call before keeping a push with every row: drops the latest pushes, which it replaces. They are not committed and are
 * no commit points, so no recovery restores their clocks. */
static void drop_covered(const struct client *client, struct client_kept *kept) {
    unsigned first = kept->push_count;
    while (first > 0 && !kept->pushes[first - 1].point &&
           kept->pushes[first - 1].message.push.clock > client->committed) {
        first--;
    }
    drop_pushes(kept, first, kept->push_count);
}

/* Keeps the next push of changes. `waits`: the epoch has ended before the push was applied to the cache. Such a push
 * may be undone, so it does not replace earlier pushes. */
static void keep_push(const struct client *client, uint32_t number, const struct message *push, bool waits) {
    struct client_kept *kept = &client->partitions[number].kept;
    if (push->push.clock <= kept->newest || push->push.from_clock > kept->newest) {
        return; /* client_kept_fence has kept the push already, or a push before it is missing */
    }
    kept->newest = push->push.clock;
    bool useless = push->push.left_out != 0 || !rows_are_ours(client, number, push);
    bool all = !useless && covers(client, number, push);
    if (useless || (all && kept->missing > 0)) {
        forget_all(client, number, kept); /* what was kept before can't be continued, or is not needed */
        kept->clock = kept->newest;
    }
    if (useless) {
        return;
    }
    if (all) {
        if (!waits) {
            drop_covered(client, kept);
        }
        kept->missing = 0;
    } else if (kept->missing > 0) {
        if (!has_values(kept)) {
            open_values(client, number, kept);
        }
        write_message(client, kept, push, true);
    }
    kept->pushes = memory_resized(kept->pushes, kept->push_count + 1, sizeof *kept->pushes);
    kept->pushes[kept->push_count++] = (struct client_kept_push){
        .message = message_share(push), .whole = all, .point = plan_is_commit_point(&client->plan, push->push.clock)};
}

void client_kept_take(const struct client *client, uint32_t number, const struct message *message,
                      enum rows_wanted wanted) {
    struct client_kept *kept = &client->partitions[number].kept;
    if (!kept->on) {
        return;
    }
    if (wanted == ROWS_ALL) {
        keep_push(client, number, message, false);
    } else if (kept->missing > 0 && rows_are_ours(client, number, message)) {
        if (!has_values(kept)) {
            open_values(client, number, kept);
        }
        write_message(client, kept, message, true);
    }
    check_kept(client, number);
}

void client_kept_begin(struct client_partition *partition, uint64_t clock) {
    assert(partition->kept.push_count == 0);
    partition->kept.newest = partition->kept.clock = clock;
}

void client_kept_fence(const struct client *client, uint32_t number) {
    const struct client_partition *partition = &client->partitions[number];
    struct error error = {0};
    struct rows_view views[WIRE_TABLES_MAX];
    for (unsigned w = 0; partition->kept.on && w < partition->waiting_count; w++) {
        const struct message *push = &partition->waiting[w].message;
        if (push->push.request == 0 && partition->subscribed &&
            rows_check(push, client->job->shapes, client->job->table_count, views, &error) >= 0) {
            keep_push(client, number, push, true);
        }
    }
}

/* Moves the oldest pushes into `values`. */
static void write_pushes(const struct client *client, uint32_t number, struct client_kept *kept, unsigned count) {
    assert(count > 0 && count <= kept->push_count);
    if (!has_values(kept)) {
        open_values(client, number, kept);
        kept->missing = all_rows(client, number);
    }
    for (unsigned i = 0; i < count; i++) {
        const struct message *push = &kept->pushes[i].message;
        write_message(client, kept, push, false);
        if (kept->pushes[i].whole) {
            write_message(client, kept, push, true);
        }
        kept->clock = push->push.clock;
    }
    drop_pushes(kept, 0, count);
}

void client_kept_commit(const struct client *client, uint32_t number) {
    struct client_kept *kept = &client->partitions[number].kept;
    unsigned count = 0;   /* pushes up to the committed clock */
    unsigned covered = 0; /* pushes before the last of these that has every row */
    for (; kept->on && count < kept->push_count && kept->pushes[count].message.push.clock <= client->committed;
         count++) {
        covered = kept->pushes[count].whole ? count : covered;
    }
    if (count > 0 && kept->pushes[covered].whole) {
        drop_values(client, kept);
        drop_pushes(kept, 0, covered);
        count -= covered;
    }
    if (count > (has_values(kept) || kept->missing > 0 ? 0 : 1)) {
        write_pushes(client, number, kept, count);
    }
    if (kept->on) {
        check_kept(client, number);
    }
}

/* ---- The epoch's restore point ---- */

/* A kept row has no state any more. */
static void undo_row(struct client_kept *kept, unsigned t, uint32_t place) {
    kept->missing += kept->clocks[t][place] != CACHE_CLOCK_VOID ? 1 : 0;
    kept->clocks[t][place] = CACHE_CLOCK_VOID;
}

static void undo_rows_of(const struct client *client, struct client_kept *kept, const struct message *push) {
    struct rows_view views[WIRE_TABLES_MAX];
    unsigned count = views_of(client, push, views);
    for (unsigned v = 0; v < count; v++) {
        for (uint32_t i = 0; i < views[v].count; i++) {
            undo_row(kept, views[v].table, table_dense_slot(views[v].keys[i], client->partition_count));
        }
    }
}

/* Begins anew at `clock`, the cache's clock, for which no push was kept: the push of that clock was dropped as
 * replaced, or a push led beyond it. All but the first `stay` pushes are undone, and the rows that they changed count
 * as missing. These rows are void in the cache too, so servers send them again. */
static void restart_at(const struct client *client, uint32_t number, unsigned stay, uint64_t clock) {
    assert(stay <= client->partitions[number].kept.push_count && clock <= client->partitions[number].clock);
    const struct client_partition *partition = &client->partitions[number];
    struct client_kept *kept = &client->partitions[number].kept;
    if (stay > 0) {
        write_pushes(client, number, kept, stay);
    }
    for (unsigned i = 0; i < kept->push_count; i++) {
        if (kept->pushes[i].message.push.clock <= partition->clock) { /* later pushes never came to the cache */
            undo_rows_of(client, kept, &kept->pushes[i].message);
        }
    }
    drop_pushes(kept, 0, kept->push_count);
    kept->newest = kept->clock = kept->since = clock;
}

void client_kept_restore(const struct client *client, uint32_t number, uint64_t restore) {
    const struct client_partition *partition = &client->partitions[number];
    struct client_kept *kept = &client->partitions[number].kept;
    uint64_t clock = partition->clock < restore ? partition->clock : restore; /* the cache's clock from now on */
    unsigned stay = 0;
    if (!kept->on) {
        return;
    }
    while (stay < kept->push_count && kept->pushes[stay].message.push.clock <= restore) {
        stay++;
    }
    if (!has_values(kept) && !(stay > 0 && kept->pushes[0].whole)) {
        forget_all(client, number, kept);
        kept->newest = kept->clock = clock;
        return;
    }
    for (unsigned t = 0; t < client->job->table_count && has_values(kept); t++) {
        uint32_t rows = rows_of(client, number, t);
        for (uint32_t place = 0; place < rows; place++) {
            if (kept->clocks[t][place] > restore) {
                undo_row(kept, t, place);
            }
        }
    }
    kept->clock = kept->clock < restore ? kept->clock : restore;
    kept->since = kept->since < restore ? kept->since : restore;
    kept->newest = stay > 0 ? kept->pushes[stay - 1].message.push.clock : kept->clock;
    if (kept->newest < clock) {
        restart_at(client, number, stay, clock);
    } else {
        drop_pushes(kept, stay, kept->push_count);
    }
    check_kept(client, number);
}

/* ---- Plans ---- */

void client_kept_close(const struct client *client, struct client_partition *partition) {
    drop_values(client, &partition->kept);
    drop_pushes(&partition->kept, 0, partition->kept.push_count);
    free(partition->kept.pushes);
    memset(&partition->kept, 0, sizeof partition->kept);
}

void client_kept_plan(struct client *client) {
    bool on = job_is_kept(client->job, &client->plan.terms);
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct client_partition *partition = &client->partitions[p];
        struct client_kept *kept = &partition->kept;
        for (unsigned i = 0; i < kept->push_count; i++) {
            struct client_kept_push *push = &kept->pushes[i];
            push->point = push->point || plan_is_commit_point(&client->plan, push->message.push.clock);
        }
        if (on != kept->on) {
            client_kept_close(client, partition);
            kept->on = on;
            kept->missing = all_rows(client, p); /* a row is kept from its next push on */
            kept->newest = kept->clock = partition->clock;
        }
    }
}

/* ---- What this client can give ---- */

unsigned client_kept_clocks(const struct client *client, uint32_t number, uint64_t **clocks) {
    const struct client_kept *kept = &client->partitions[number].kept;
    uint64_t *list = memory_resized(NULL, kept->push_count + 1, sizeof *list);
    unsigned count = 0;
    *clocks = list;
    if (!kept->on || kept->missing > 0 || !client->partitions[number].subscribed) {
        return 0;
    }
    if ((has_values(kept) || all_rows(client, number) == 0) && kept->clock >= kept->since) {
        list[count++] = kept->clock;
    }
    for (unsigned i = 0; i < kept->push_count; i++) {
        uint64_t clock = kept->pushes[i].message.push.clock;
        /* Replicas can be restored only at commit points and at their present clock, that of the last push. */
        bool asked = kept->pushes[i].point || i + 1 == kept->push_count;
        if (asked && clock >= kept->since && (count == 0 || clock > list[count - 1])) {
            list[count++] = clock;
        }
    }
    return count;
}

void client_kept_state(const struct client *client, uint32_t number, uint64_t clock, struct message *update) {
    const struct client_kept *kept = &client->partitions[number].kept;
    assert(kept->on && kept->missing == 0 && clock >= kept->since && clock <= kept->newest);
    *update = (struct message){.type = MESSAGE_UPDATE, .epoch = client->epoch};
    update->update.partition = number;
    update->update.clock = clock;
    update->update.committed = client->committed;
    for (unsigned t = 0; t < client->job->table_count; t++) {
        const struct row_shape *shape = &client->job->shapes[t];
        uint32_t rows = rows_of(client, number, t);
        struct buffer *keys = buffer_new(rows * sizeof(uint64_t));
        struct buffer *values = buffer_new((size_t)rows * shape->row_bytes);
        for (uint32_t place = 0; place < rows; place++) {
            ((uint64_t *)(void *)keys->data)[place] = table_dense_key(place, number, client->partition_count);
        }
        if (has_values(kept)) {
            memcpy(values->data, kept->values[t], values->size);
        }
        for (unsigned i = 0; i < kept->push_count && kept->pushes[i].message.push.clock <= clock; i++) {
            const struct message *push = &kept->pushes[i].message;
            struct rows_view view;
            bool some = rows_find(push, t, &view);
            const unsigned char *value = some ? view.values : NULL;
            for (uint32_t r = 0; some && r < view.count; r++) {
                uint32_t place = table_dense_slot(view.keys[r], client->partition_count);
                bool newer = !has_values(kept) || kept->clocks[t][place] <= push->push.clock;
                unsigned char *row = values->data + (size_t)place * shape->row_bytes;
                value += newer ? rows_codec(view.encoding)->copy(shape, row, value, 1)
                               : rows_codec(view.encoding)->bytes(shape, value);
            }
        }
        if (rows > 0) {
            rows_append(update, t, WIRE_FULL, keys, values);
        } else {
            buffer_drop(keys);
            buffer_drop(values);
        }
    }
}
