/* A partition's clocks: flushes, commit points, updates. See partition.h. */
#include "agileml/ps/partition_private.h"
#include "agileml/ps/steps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct partition *partition_new(const struct job *job, uint32_t id) {
    struct partition *partition = memory_zeroed(1, sizeof *partition);
    partition->job = job;
    partition->id = id;
    partition->ring = memory_zeroed(partition_ahead(job), sizeof *partition->ring);
    return partition;
}

/* Makes each table whose steps need states and the table of these states partners. */
static void pair_tables(struct partition *partition) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        unsigned state = partition->job->tables[t].state;
        if (state != 0 && table_stepped(&partition->job->tables[t])) {
            assert(state > t && state < partition->job->table_count);
            table_pair(&partition->tables[t], &partition->tables[state]);
        }
    }
}

struct partition *partition_open(const struct job *job, uint32_t id, uint32_t partitions, struct error *error) {
    struct partition *partition = partition_new(job, id);
    for (unsigned t = 0; t < job->table_count; t++) {
        if (table_open(&partition->tables[t], &job->tables[t], id, partitions, error) != 0) {
            partition_close(partition);
            return NULL;
        }
    }
    pair_tables(partition);
    return partition;
}

struct partition *partition_copy(struct partition *partition, struct error *error) {
    struct partition *copy = partition_new(partition->job, partition->id);
    copy->clock = partition->clock;
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        partition_settle(partition, t);
        if (table_copy(&copy->tables[t], &partition->tables[t], error) != 0) {
            partition_close(copy);
            return NULL;
        }
    }
    pair_tables(copy);
    return copy;
}

/* Call it where rows change other than by partition_advance: the next message encodes the rows anew. */
static void forget_encoded(struct partition *partition) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        buffer_drop(partition->encoded[t].values);
        partition->encoded[t].values = NULL;
    }
}

void partition_loaded(struct partition *partition, uint64_t clock) {
    assert(partition->held_count == 0 && partition->point_count == 0 && clock >= partition->clock);
    partition->clock = clock;
    partition->mixed_clock = clock;
    forget_encoded(partition);
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

static void pending_table_forget_sums(struct pending_table *pending) {
    const uint32_t *slots = (const uint32_t *)(const void *)pending->slots.base;
    for (uint32_t i = 0; i < pending->summed; i++) {
        pending->marks.base[slots[i]] = 0;
    }
    pending->summed = 0;
}

static void pending_close(const struct partition *partition, struct pending *pending) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct pending_table *table = &pending->tables[t];
        pending_table_release(table);
        free(table->waiting);
        arena_close(&table->sums);
        arena_close(&table->marks);
        arena_close(&table->slots);
    }
    free(pending->delivered);
    free(pending->pieces);
    free(pending);
}

static void points_forget(struct partition *partition, unsigned first, unsigned count) {
    assert(first + count <= partition->point_count);
    for (unsigned p = first; p < first + count; p++) {
        struct commit_point *point = &partition->points[p];
        for (unsigned s = 0; s < point->saved_count; s++) {
            free(point->saved[s].slots);
            free(point->saved[s].values);
            buffer_drop(point->saved[s].deltas);
        }
        free(point->saved);
    }
    partition->point_count -= count;
    memmove(partition->points + first, partition->points + first + count,
            (partition->point_count - first) * sizeof *partition->points);
}

void partition_unsubscribe(struct partition *partition, bool (*keep)(void *context, actor_id subscriber),
                           void *context) {
    unsigned kept = 0;
    index_map_close(&partition->subscription_index);
    for (unsigned s = 0; s < partition->subscription_count; s++) {
        struct subscription *subscription = &partition->subscriptions[s];
        if (keep != NULL && keep(context, subscription->subscriber)) {
            index_map_add(&partition->subscription_index, subscription->subscriber, kept);
            partition->subscriptions[kept++] = *subscription;
            continue;
        }
        for (unsigned t = 0; t < partition->job->table_count; t++) {
            free(subscription->lists[t].slots);
        }
    }
    partition->subscription_count = kept;
    assert(partition->subscription_index.count == kept);
}

void partition_close(struct partition *partition) {
    if (partition == NULL) {
        return;
    }
    partition_unsubscribe(partition, NULL, NULL);
    if (partition->point_count > 0) {
        points_forget(partition, 0, partition->point_count);
    }
    for (unsigned h = 0; h < partition->held_count; h++) {
        message_close(&partition->held[h]);
    }
    forget_encoded(partition);
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        free(partition->encoded[t].places);
        table_close(&partition->tables[t]);
        for (unsigned i = 0; i < partition->late[t].count; i++) {
            contribution_close(&partition->late[t].list[i]);
        }
        free(partition->late[t].list);
    }
    for (unsigned r = 0; r < partition_ahead(partition->job); r++) {
        if (partition->ring[r] != NULL) {
            pending_close(partition, partition->ring[r]);
        }
    }
    for (unsigned s = 0; s < partition->spare_count; s++) {
        pending_close(partition, partition->spare[s]);
    }
    for (unsigned o = 0; o < partition->origin_count; o++) {
        free(partition->origins[o].ranges);
    }
    index_map_close(&partition->origin_index);
    free(partition->origins);
    free(partition->points);
    free(partition->held);
    free(partition->subscriptions);
    free(partition->scratch);
    free(partition->ring);
    free(partition->spare);
    free(partition);
}

/* ---- Origins ---- */

int partition_origin(const struct partition *partition, actor_id actor) {
    return (int)index_map_find(&partition->origin_index, actor);
}

static bool origin_expected(const struct origin *origin, uint64_t clock) {
    for (unsigned r = 0; r < origin->range_count; r++) {
        if (clock >= origin->ranges[r].from && clock <= origin->ranges[r].until) {
            return true;
        }
    }
    return false;
}

/* Adds clocks in which the origin is expected. Assignments often overlap or follow one another: merges their ranges. */
static void origin_add_range(struct origin *origin, uint64_t from, uint64_t until) {
    for (unsigned r = 0; r < origin->range_count; r++) {
        struct clock_range *range = &origin->ranges[r];
        if (from <= range->until + 1 && range->from <= until + 1) {
            range->from = from < range->from ? from : range->from;
            range->until = until > range->until ? until : range->until;
            return;
        }
    }
    origin->ranges = memory_resized(origin->ranges, origin->range_count + 1, sizeof *origin->ranges);
    origin->ranges[origin->range_count++] = (struct clock_range){.from = from, .until = until};
}

static struct origin *origin_make(struct partition *partition, actor_id actor, uint64_t from_clock) {
    int found = partition_origin(partition, actor);
    if (found >= 0) {
        return &partition->origins[found];
    }
    partition->origins = memory_resized(partition->origins, partition->origin_count + 1, sizeof *partition->origins);
    struct origin *origin = &partition->origins[partition->origin_count];
    *origin = (struct origin){.actor = actor, .received = from_clock - 1};
    index_map_add(&partition->origin_index, actor, partition->origin_count++);
    return origin;
}

/* Counts the origins that are expected in the clock, and those of them that have delivered it. */
static void pending_count(const struct partition *partition, struct pending *pending) {
    pending->expected = 0;
    pending->delivered_count = 0;
    for (unsigned o = 0; o < partition->origin_count; o++) {
        if (origin_expected(&partition->origins[o], pending->clock)) {
            pending->expected++;
            pending->delivered_count += pending->delivered[o];
        }
    }
    assert(pending->delivered_count <= pending->expected);
}

static void pending_more_origins(const struct partition *partition, struct pending *pending, unsigned before) {
    pending->delivered = memory_resized(pending->delivered, partition->origin_count, 1);
    memset(pending->delivered + before, 0, partition->origin_count - before);
    pending->pieces = memory_resized(pending->pieces, partition->origin_count, sizeof *pending->pieces);
    memset(pending->pieces + before, 0, (partition->origin_count - before) * sizeof *pending->pieces);
}

/* Whether a flush of the origin has arrived of a clock that is not complete, or pieces of one. */
static bool origin_has_delivered(const struct partition *partition, unsigned origin) {
    for (unsigned r = 0; r < partition_ahead(partition->job); r++) {
        const struct pending *pending = partition->ring[r];
        if (pending != NULL && (pending->delivered[origin] != 0 || pending->pieces[origin] > 0)) {
            return true;
        }
    }
    return false;
}

static void pending_renumber(struct pending *pending, const uint32_t *places, unsigned before, unsigned table_count) {
    for (unsigned o = 0; o < before; o++) {
        if (places[o] > 0) { /* never above o + 1 */
            pending->delivered[places[o] - 1] = pending->delivered[o];
            pending->pieces[places[o] - 1] = pending->pieces[o];
        }
    }
    pending->last = pending->last < before && places[pending->last] > 0 ? places[pending->last] - 1 : 0;
    for (unsigned t = 0; t < table_count; t++) {
        for (unsigned w = 0; w < pending->tables[t].waiting_count; w++) {
            struct contribution *one = &pending->tables[t].waiting[w];
            one->writer = one->writer > 0 ? places[one->writer - 1] : 0;
        }
    }
}

/* Forgets the origins that are gone: no flush is expected, and none waits. Gives the others new indexes. A row that an
 * origin had written that is gone has no known writer. */
static void origins_forget_gone(struct partition *partition) {
    unsigned before = partition->origin_count;
    uint32_t *places = memory_zeroed(before + 1U, sizeof *places); /* 1 + the new index; 0: gone */
    index_map_close(&partition->origin_index);
    partition->origin_count = 0;
    for (unsigned o = 0; o < before; o++) {
        if (partition->origins[o].range_count == 0 && !origin_has_delivered(partition, o)) {
            free(partition->origins[o].ranges);
            continue;
        }
        index_map_add(&partition->origin_index, partition->origins[o].actor, partition->origin_count);
        partition->origins[partition->origin_count++] = partition->origins[o];
        places[o] = partition->origin_count;
    }
    for (unsigned r = 0; r < partition_ahead(partition->job); r++) {
        if (partition->ring[r] != NULL) {
            pending_renumber(partition->ring[r], places, before, partition->job->table_count);
        }
    }
    partition->alone = partition->alone > 0 ? places[partition->alone - 1] : 0;
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct table *table = &partition->tables[t];
        uint32_t *writers = table_writers(table);
        for (uint32_t slot = 0; table->spec->mode == AML_PUT && slot < table->count; slot++) {
            writers[slot] = writers[slot] > 0 ? places[writers[slot] - 1] : 0;
        }
    }
    free(places);
}

void partition_expect(struct partition *partition, const struct wire_assignment *assignments, unsigned count) {
    unsigned before = partition->origin_count;
    for (unsigned o = 0; o < before; o++) {
        partition->origins[o].range_count = 0;
    }
    for (unsigned d = 0; d < count; d++) {
        if (assignments[d].from_clock == WIRE_CLOCK_NEVER) {
            continue;
        }
        struct origin *origin = origin_make(partition, assignments[d].origin, assignments[d].from_clock);
        if (origin >= partition->origins + before && origin->received >= assignments[d].from_clock) {
            origin->received = assignments[d].from_clock - 1; /* a new origin has delivered nothing yet */
        }
        origin_add_range(origin, assignments[d].from_clock, assignments[d].until_clock);
    }
    for (unsigned s = 0; s < partition->spare_count; s++) {
        pending_more_origins(partition, partition->spare[s], before);
    }
    unsigned gone = 0;
    for (unsigned o = 0; o < partition->origin_count; o++) {
        gone += partition->origins[o].range_count == 0 ? 1 : 0;
    }
    for (unsigned r = 0; r < partition_ahead(partition->job); r++) {
        if (partition->ring[r] != NULL) {
            pending_more_origins(partition, partition->ring[r], before);
            pending_count(partition, partition->ring[r]);
        }
    }
    if (gone > PARTITION_ORIGINS_GONE_MAX) {
        origins_forget_gone(partition);
    }
}

/* ---- Flushes into pending clocks ---- */

static struct pending **ring_entry(const struct partition *partition, uint64_t clock) {
    return &partition->ring[clock % partition_ahead(partition->job)];
}

/* Returns what has arrived of `clock`; NULL: nothing. */
static struct pending *partition_pending(const struct partition *partition, uint64_t clock) {
    struct pending *pending = *ring_entry(partition, clock);
    return pending != NULL && pending->clock == clock ? pending : NULL;
}

/* Empties the entry and keeps its memory for another clock. */
static void pending_release(struct partition *partition, struct pending **entry) {
    struct pending *pending = *entry;
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        pending_table_release(&pending->tables[t]);
        pending_table_forget_sums(&pending->tables[t]);
    }
    memset(pending->delivered, 0, partition->origin_count);
    memset(pending->pieces, 0, partition->origin_count * sizeof *pending->pieces);
    partition->spare = memory_resized(partition->spare, partition->spare_count + 1, sizeof *partition->spare);
    partition->spare[partition->spare_count++] = pending;
    *entry = NULL;
}

static struct pending *pending_open(struct partition *partition, uint64_t clock) {
    struct pending **entry = ring_entry(partition, clock);
    if (*entry != NULL && (*entry)->clock == clock) {
        return *entry;
    }
    if (*entry != NULL) {
        pending_release(partition, entry); /* of an older clock, which updates have brought meanwhile */
    }
    if (partition->spare_count > 0) {
        *entry = partition->spare[--partition->spare_count];
    } else {
        *entry = memory_zeroed(1, sizeof **entry);
        pending_more_origins(partition, *entry, 0);
    }
    assert(clock > partition->clock && clock <= partition_reached(partition) + partition_ahead(partition->job));
    (*entry)->clock = clock;
    pending_count(partition, *entry);
    return *entry;
}

/* Adds a contribution to the sums. Copies rows that have no sum yet, adds the others. */
static int pending_sum(struct pending_table *pending, const struct table *table, const struct contribution *one) {
    const struct table_spec *spec = table->spec;
    const uint32_t *slots = one->slots;
    const uint32_t count = one->count;
    const struct rows_codec *codec = rows_codec(one->encoding);
    int result = arena_grow(&pending->sums, (size_t)table->count * spec->row_bytes);
    result = result != 0 ? result : arena_grow(&pending->marks, table->count);
    result = result != 0 ? result : arena_grow(&pending->slots, table->count * sizeof(uint32_t));
    if (result != 0) {
        return result;
    }
    const unsigned char *value = one->values->data;
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
        if (mark != 0) {
            value += codec->add(&table->shape, sum, value, run);
        } else {
            value += codec->copy(&table->shape, sum, value, run);
            memset(marks + slot, 1, run);
            for (uint32_t r = 0; r < run; r++) {
                summed[pending->summed++] = slot + r;
            }
        }
        i += run;
    }
    return 0;
}

static bool is_sparse(const struct contribution *one) {
    return rows_codec(one->encoding)->varies;
}

/* Checks what has arrived of a clock: either contributions wait, or all are summed. Of adds that are not sparse one
 * waits at most. */
static void check_pending(const struct pending_table *pending, const struct table *table) {
    assert(pending->summed <= table->count && (pending->summed == 0 || pending->waiting_count == 0));
    assert(table->spec->mode == AML_PUT ? pending->summed == 0
                                        : pending->waiting_count <= 1 || is_sparse(&pending->waiting[0]));
}

/* Whether a contribution is to wait beside those that wait. */
static bool waits_beside(const struct pending_table *pending, const struct table *table,
                         const struct contribution *new) {
    uint64_t bytes = new->values->size;
    bool sparse = is_sparse(new) && !table_stepped(table->spec);
    if (table->spec->mode == AML_PUT || (pending->waiting_count == 0 && pending->summed == 0)) {
        return true;
    }
    for (unsigned i = 0; i < pending->waiting_count; i++) {
        sparse = sparse && is_sparse(&pending->waiting[i]);
        bytes += pending->waiting[i].values->size;
    }
    return sparse && pending->summed == 0 && bytes <= (uint64_t)table->count * table->spec->row_bytes;
}

/* Takes over `slots` on success. */
static int pending_take(struct pending_table *pending, const struct table *table, struct contribution *new) {
    if (waits_beside(pending, table, new)) {
        pending->waiting = memory_resized(pending->waiting, pending->waiting_count + 1, sizeof *pending->waiting);
        buffer_hold(new->values);
        pending->waiting[pending->waiting_count++] = *new;
        return 0;
    }
    int result = 0;
    for (unsigned i = 0; i < pending->waiting_count && result == 0; i++) {
        result = pending_sum(pending, table, &pending->waiting[i]);
    }
    if (result != 0) {
        return result;
    }
    pending_table_release(pending);
    result = pending_sum(pending, table, new);
    if (result == 0) {
        free(new->slots);
    }
    return result;
}

static const uint32_t SLOT_NEW = UINT32_MAX; /* a row that does not exist yet; above TABLE_SLOTS_MAX */

static void wrong_key(const struct table *table, uint64_t key, struct error *error) {
    error_set(error, AML_EPROTOCOL, "table %s: key %llu is not a row of partition %u", table->spec->name,
              (unsigned long long)key, table->partition);
}

/* Computes the slots of a dense table's rows. Returns false when a key is not of this partition. */
static bool view_find_dense(const struct table *table, const struct rows_view *view, uint32_t *slots,
                            struct error *error) {
    for (uint32_t i = 0; i < view->count; i++) {
        uint64_t slot = view->keys[i] / table->partitions;
        if (slot >= table->count || table_key(table, (uint32_t)slot) != view->keys[i]) {
            wrong_key(table, view->keys[i], error);
            return false;
        }
        slots[i] = (uint32_t)slot;
    }
    return true;
}

/* Finds the slots of a sparse table's rows; SLOT_NEW for a row that does not exist. Returns false when a key is not of
 * this partition. `list` has the rows to which the sender is subscribed, or is NULL. A worker sends its rows in the
 * order of its subscription, so the next key is usually found soon in `list`, without a look-up. */
static bool view_find_sparse(const struct table *table, const struct rows_view *view, const struct slot_list *list,
                             uint32_t *slots, struct error *error) {
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
        if (!table_holds(table, view->keys[i])) {
            wrong_key(table, view->keys[i], error);
            return false;
        }
        int64_t slot = table_find(table, view->keys[i]);
        slots[i] = slot == INDEX_NONE ? SLOT_NEW : (uint32_t)slot;
    }
    return true;
}

/* Returns the slots of a view's keys, or SLOT_NEW; the caller frees them. NULL when a key is not of this partition.
 * `list`: see view_find_sparse. */
static uint32_t *view_find(const struct table *table, const struct rows_view *view, const struct slot_list *list,
                           struct error *error) {
    uint32_t *slots = memory_resized(NULL, view->count, sizeof *slots);
    bool good = table->spec->rows > 0 ? view_find_dense(table, view, slots, error)
                                      : view_find_sparse(table, view, list, slots, error);
    if (!good) {
        free(slots);
        return NULL;
    }
    return slots;
}

/* Makes the rows for which view_find has set SLOT_NEW. */
static int view_make(struct table *table, const struct rows_view *view, uint32_t *slots, struct error *error) {
    for (uint32_t i = 0; i < view->count; i++) {
        int64_t slot = slots[i] != SLOT_NEW ? slots[i] : table_slot(table, view->keys[i]);
        if (slot < 0) {
            return error_set(error, (int)slot, "table %s: no room for row %llu in partition %u", table->spec->name,
                             (unsigned long long)view->keys[i], table->partition);
        }
        slots[i] = (uint32_t)slot;
    }
    return 0;
}

uint32_t *partition_view_slots(struct table *table, const struct rows_view *view, struct error *error) {
    uint32_t *slots = view_find(table, view, NULL, error);
    if (slots != NULL && view_make(table, view, slots, error) != 0) {
        free(slots);
        return NULL;
    }
    return slots;
}

/* In a checked job, returns an error when a row is put twice in one clock. */
static int check_put(const struct partition *partition, unsigned t, const struct pending *pending_clock,
                     const struct contribution *new, struct error *error) {
    const struct table *table = &partition->tables[t];
    if (!partition->job->checked || table->spec->mode != AML_PUT || pending_clock == NULL) {
        return 0;
    }
    const struct pending_table *pending = &pending_clock->tables[t];
    unsigned char *put = memory_zeroed(table->count, 1);
    for (unsigned w = 0; w < pending->waiting_count; w++) {
        for (uint32_t i = 0; i < pending->waiting[w].count; i++) {
            put[pending->waiting[w].slots[i]] = 1;
        }
    }
    uint32_t twice = 0; /* index in `new` of the first row that was put already */
    while (twice < new->count && put[new->slots[twice]] == 0) {
        twice++;
    }
    free(put);
    return twice == new->count
               ? 0
               : error_set(
                     error, AML_EINPUT,
                     "clock: table %s: row %llu was put by two nodes in clock %llu: expected one writer at a time "
                     "(AML_PUT)",
                     table->spec->name, (unsigned long long)table_key(table, new->slots[twice]),
                     (unsigned long long)new->clock);
}

static void slots_free(struct contribution *contributions, unsigned count) {
    for (unsigned c = 0; c < count; c++) {
        free(contributions[c].slots);
    }
}

/* Makes contributions from a flush's rows. Checks all rows before it makes new ones, so that a flush with a bad row
 * leaves nothing behind. The caller frees the slots, also after an error. */
static int flush_contributions(struct partition *partition, unsigned origin, uint64_t clock,
                               const struct rows_view *views, unsigned view_count, struct contribution *new,
                               struct error *error) {
    const struct subscription *subscription = partition_subscription(partition, partition->origins[origin].actor);
    int result = 0;
    for (unsigned v = 0; v < view_count; v++) {
        const struct slot_list *list = subscription != NULL ? &subscription->lists[views[v].table] : NULL;
        new[v] = (struct contribution){.values = views[v].value_frame,
                                       .encoding = views[v].encoding,
                                       .count = views[v].count,
                                       .writer = origin + 1,
                                       .clock = clock};
        if (result == 0) {
            new[v].slots = view_find(&partition->tables[views[v].table], &views[v], list, error);
            result = new[v].slots == NULL ? AML_EPROTOCOL : 0;
        }
    }
    for (unsigned v = 0; v < view_count && result == 0; v++) {
        result = view_make(&partition->tables[views[v].table], &views[v], new[v].slots, error);
    }
    return result;
}

/* A flush, a piece of one, or the sum of several origins' flushes. */
struct flush {
    const actor_id *origins;
    unsigned origin_count;
    uint64_t clock;
    uint32_t piece;
    bool more;
};

/* Returns whether a flush counts, as a flush_result. */
static int flush_counts(const struct partition *partition, const struct flush *flush) {
    const struct pending *pending = partition_pending(partition, flush->clock);
    uint64_t reached = partition_reached(partition);
    unsigned delivered = 0;
    uint32_t pieces = 0; /* that have arrived of incomplete flushes */
    for (unsigned o = 0; o < flush->origin_count; o++) {
        int found = partition_origin(partition, flush->origins[o]);
        if (found < 0 || !origin_expected(&partition->origins[found], flush->clock)) {
            return FLUSH_UNEXPECTED;
        }
        delivered += flush->clock <= reached || (pending != NULL && pending->delivered[found] != 0);
        pieces += pending != NULL ? pending->pieces[found] : 0;
    }
    if (delivered > 0) {
        return delivered == flush->origin_count ? FLUSH_REPEATED : FLUSH_OVERLAPS;
    }
    if (flush->clock > reached + partition_ahead(partition->job)) {
        return FLUSH_UNEXPECTED;
    }
    if (flush->origin_count > 1) {
        return pieces > 0 ? FLUSH_OVERLAPS : FLUSH_TAKEN;
    }
    return flush->piece < pieces   ? FLUSH_REPEATED
           : flush->piece > pieces ? FLUSH_GAP
           : flush->more           ? FLUSH_TAKEN_PIECE
                                   : FLUSH_TAKEN;
}

/* Notes that the origins have delivered the clock, or that one origin has delivered a piece. */
static void pending_deliver(const struct partition *partition, struct pending *pending, const struct flush *flush) {
    for (unsigned o = 0; o < flush->origin_count; o++) {
        unsigned origin = (unsigned)partition_origin(partition, flush->origins[o]);
        assert(origin < partition->origin_count && pending->delivered[origin] == 0);
        if (flush->more) {
            pending->pieces[origin]++;
        } else {
            pending->last = origin;
            pending->delivered[origin] = 1;
            pending->pieces[origin] = 0;
            pending->delivered_count++;
        }
    }
    assert(pending->delivered_count <= pending->expected);
}

static int take_flush(struct partition *partition, const struct flush *flush, const struct rows_view *views,
                      unsigned view_count, struct error *error) {
    assert(flush->origin_count > 0);
    int counts = flush_counts(partition, flush);
    if (counts != FLUSH_TAKEN && counts != FLUSH_TAKEN_PIECE) {
        return counts;
    }
    struct pending *pending = partition_pending(partition, flush->clock);
    struct contribution new[WIRE_TABLES_MAX];
    unsigned writer = (unsigned)partition_origin(partition, flush->origins[0]);
    int result = flush_contributions(partition, writer, flush->clock, views, view_count, new, error);
    for (unsigned v = 0; v < view_count && result == 0; v++) {
        result = check_put(partition, views[v].table, pending, &new[v], error);
    }
    if (result != 0) {
        slots_free(new, view_count);
        return result;
    }
    assert(flush->clock > partition_reached(partition)); /* a clock that has come takes no flush any more */
    pending = pending_open(partition, flush->clock);
    for (unsigned v = 0; v < view_count; v++) {
        struct table *table = &partition->tables[views[v].table];
        if (pending_take(&pending->tables[views[v].table], table, &new[v]) != 0) {
            return error_set(error, AML_ENOMEM, "table %s: no memory for a clock's sums", table->spec->name);
        }
        check_pending(&pending->tables[views[v].table], table);
    }
    pending_deliver(partition, pending, flush);
    return counts;
}

int partition_flush(struct partition *partition, actor_id origin, uint64_t clock, uint32_t piece, bool more,
                    const struct rows_view *views, unsigned view_count, struct error *error) {
    return take_flush(
        partition, &(struct flush){.origins = &origin, .origin_count = 1, .clock = clock, .piece = piece, .more = more},
        views, view_count, error);
}

int partition_flush_sum(struct partition *partition, const actor_id *origins, unsigned origin_count, uint64_t clock,
                        const struct rows_view *views, unsigned view_count, struct error *error) {
    return take_flush(partition, &(struct flush){.origins = origins, .origin_count = origin_count, .clock = clock},
                      views, view_count, error);
}

uint32_t partition_pieces(const struct partition *partition, actor_id actor, uint64_t clock) {
    int found = partition_origin(partition, actor);
    const struct pending *pending = partition_pending(partition, clock);
    return found >= 0 && pending != NULL ? pending->pieces[found] : 0;
}

uint64_t partition_received(struct partition *partition, actor_id actor) {
    int found = partition_origin(partition, actor);
    uint64_t reached = partition_reached(partition);
    if (found < 0) {
        return reached;
    }
    struct origin *origin = &partition->origins[found];
    origin->received = origin->received > reached ? origin->received : reached;
    for (;;) {
        const struct pending *next = partition_pending(partition, origin->received + 1);
        if (next == NULL || !next->delivered[found]) {
            return origin->received;
        }
        origin->received++;
    }
}

/* ---- Rows of a clock into the tables ---- */

/* Returns the last commit point; 0: nothing is kept. */
static uint64_t last_point(const struct partition *partition) {
    return partition->point_count > 0 ? partition->points[partition->point_count - 1].clock : 0;
}

/* Saves the present values of rows, to go back to `point`: those of rows that have not changed since `point`, or of
 * `all` rows. */
static void rows_save(const struct partition *partition, struct commit_point *point, unsigned t, const uint32_t *slots,
                      uint32_t count, bool all) {
    const struct table *table = &partition->tables[t];
    const size_t row_bytes = table->spec->row_bytes;
    const uint32_t *clocks = table_clocks(table);
    struct saved_rows saved = {.table = t};
    for (uint32_t i = 0; i < count; i++) {
        saved.count += all || clocks[slots[i]] <= point->clock;
    }
    if (saved.count == 0) {
        return;
    }
    saved.slots = memory_resized(NULL, saved.count, sizeof *saved.slots);
    saved.values = memory_resized(NULL, saved.count, row_bytes);
    for (uint32_t i = 0, n = 0; i < count; i++) {
        if (all || clocks[slots[i]] <= point->clock) {
            saved.slots[n++] = slots[i];
        }
    }
    for (uint32_t i = 0; i < saved.count;) {
        uint32_t run = slots_run(saved.slots + i, saved.count - i);
        memcpy(saved.values + i * row_bytes, table_row(table, saved.slots[i]), run * row_bytes);
        i += run;
    }
    point->saved = memory_resized(point->saved, point->saved_count + 1, sizeof *point->saved);
    point->saved[point->saved_count++] = saved;
}

/* Saves rows of an add table before they change. A row that has changed since the commit point was saved then, unless
 * only its delta was kept. So if the point has any deltas of the table, all rows are saved. */
static void rows_keep(struct partition *partition, unsigned t, const uint32_t *slots, uint32_t count) {
    if (partition->point_count > 0) {
        struct commit_point *point = &partition->points[partition->point_count - 1];
        bool all = false;
        for (unsigned s = 0; s < point->saved_count && !all; s++) {
            all = point->saved[s].table == t && point->saved[s].deltas != NULL;
        }
        rows_save(partition, point, t, slots, count, all);
    }
}

/* Copies encoded rows into the table. */
static void table_put(const struct table *table, const uint32_t *slots, uint32_t count, enum wire_encoding encoding,
                      const unsigned char *values) {
    for (uint32_t i = 0; i < count;) {
        uint32_t run = slots_run(slots + i, count - i);
        values += rows_codec(encoding)->copy(&table->shape, table_row(table, slots[i]), values, run);
        i += run;
    }
}

/* Before rows change, keeps the rounding errors of their pushes. */
static void table_feed(const struct table *table, uint32_t slot, uint32_t rows) {
    const struct rows_codec *codec = rows_codec(table->shape.encoding);
    if (codec->feed != NULL) {
        codec->feed(&table->shape, table_errors(table, slot), table_row(table, slot), rows);
    }
}

/* Adds encoded rows to the table. */
static void table_add(const struct table *table, const struct contribution *one) {
    const struct rows_codec *codec = rows_codec(one->encoding);
    const unsigned char *value = one->values->data;
    for (uint32_t i = 0; i < one->count;) {
        uint32_t run = slots_run(one->slots + i, one->count - i);
        table_feed(table, one->slots[i], run);
        value += codec->add(&table->shape, table_row(table, one->slots[i]), value, run);
        i += run;
    }
}

/* Subtracts deltas that were added. */
static void table_undo(const struct table *table, const struct saved_rows *saved) {
    const struct rows_codec *codec = rows_codec(saved->encoding);
    const unsigned char *delta = saved->deltas->data;
    for (uint32_t i = 0; i < saved->count; i++) {
        delta += codec->subtract(&table->shape, table_row(table, saved->slots[i]), delta, 1);
    }
}

/* Adds sums to the table. `sums` is indexed by slot. */
static void table_add_sums(const struct table *table, const uint32_t *slots, uint32_t count,
                           const unsigned char *sums) {
    const struct rows_codec *codec = rows_codec(WIRE_FULL);
    for (uint32_t i = 0; i < count;) {
        uint32_t run = slots_run(slots + i, count - i);
        table_feed(table, slots[i], run);
        codec->add(&table->shape, table_row(table, slots[i]), sums + (size_t)slots[i] * table->shape.row_bytes, run);
        i += run;
    }
}

/* Lets the optimizer step the `rows` rows from `slot` on; their sums follow each other in `sums`. */
static void table_step(const struct table *table, struct steps *steps, uint32_t slot, uint32_t rows,
                       const unsigned char *sums) {
    table_feed(table, slot, rows);
    steps_add(steps, slot, rows, sums, table->spec->row_bytes);
}

static void table_stamp(struct table *table, const uint32_t *slots, uint32_t count, uint64_t clock, uint32_t writer) {
    assert(clock <= UINT32_MAX); /* a row's clock has 32 bits */
    uint32_t *clocks = table_clocks(table);
    uint32_t *writers = table_writers(table);
    for (uint32_t i = 0; i < count; i++) {
        clocks[slots[i]] = (uint32_t)clock;
    }
    for (uint32_t i = 0; i < count && table->spec->mode == AML_PUT; i++) {
        writers[slots[i]] = writer;
    }
}

/* Returns the last commit point before `clock`; NULL: none is kept. */
static struct commit_point *point_before(struct partition *partition, uint64_t clock) {
    unsigned p = partition->point_count;
    while (p > 0 && partition->points[p - 1].clock >= clock) {
        p--;
    }
    return p > 0 ? &partition->points[p - 1] : NULL;
}

void partition_settle(struct partition *partition, unsigned t) {
    struct late_puts *late = &partition->late[t];
    uint64_t rows = 0;
    for (unsigned c = 0; c < late->count; c++) {
        struct contribution *put = &late->list[c];
        rows += put->count;
        struct commit_point *point = point_before(partition, put->clock);
        if (point != NULL) {
            rows_save(partition, point, t, put->slots, put->count, true);
        }
        table_put(&partition->tables[t], put->slots, put->count, put->encoding, put->values->data);
        late->settled = put->clock;
        contribution_close(put);
    }
    assert(rows == late->rows);
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

static void late_remove(struct late_puts *late, unsigned c) {
    assert(late->rows >= late->list[c].count);
    late->rows -= late->list[c].count;
    contribution_close(&late->list[c]);
    memmove(&late->list[c], &late->list[c + 1], (--late->count - c) * sizeof *late->list);
}

static bool same_rows(const struct contribution *one, const struct contribution *other) {
    return one->count == other->count && memcmp(one->slots, other->slots, one->count * sizeof *one->slots) == 0;
}

/* Takes over a put. The put replaces an earlier put of the same rows after the last commit point; otherwise it is
 * added. If the table's rows are in a file, because memory is short, the put is copied there at once. */
static void late_put(struct partition *partition, unsigned t, const struct contribution *put) {
    struct late_puts *late = &partition->late[t];
    uint64_t point = last_point(partition);
    assert(late->count == 0 || late->list[late->count - 1].clock <= put->clock);
    for (unsigned c = late->count; c > 0 && late->list[c - 1].clock > point; c--) {
        if (same_rows(&late->list[c - 1], put)) {
            late_remove(late, c - 1);
            break;
        }
    }
    uint64_t intervals = partition->point_count + UINT64_C(1);
    if (late->count >= PARTITION_LATE_MAX * intervals ||
        late->rows + put->count > partition->tables[t].count * intervals) {
        partition_settle(partition, t);
    }
    late->list = memory_resized(late->list, late->count + 1, sizeof *late->list);
    late->list[late->count++] = *put;
    late->rows += put->count;
    if (partition->tables[t].rows.filed) {
        partition_settle(partition, t);
    }
}

/* Drops puts up to `clock` that a later put up to `clock` replaces. Puts up to `since` have been compared with each
 * other before. */
static void late_compact(struct late_puts *late, uint64_t since, uint64_t clock) {
    for (unsigned c = 0; c < late->count && late->list[c].clock <= clock; c++) {
        for (unsigned e = 0; e < c && late->list[c].clock > since; e++) {
            if (same_rows(&late->list[e], &late->list[c])) {
                late_remove(late, e);
                c--;
                break;
            }
        }
    }
}

/* Whether to keep the deltas instead of the old values, to go back. They must be exactly subtractable, and much smaller
 * than the rows, those of all `count` contributions of the clock together: otherwise the deltas of many clocks would
 * take more memory than the values. */
static bool deltas_kept(const struct partition *partition, const struct table *table, const struct contribution *one,
                        unsigned count) {
    return partition->point_count > 0 && one->writer != 0 && !table_stepped(table->spec) &&
           rows_codec(one->encoding)->subtract != NULL &&
           one->values->size * count <= (size_t)one->count * table->shape.row_bytes / PARTITION_SPARSE_KEPT;
}

/* Before a clock's steps, keeps the old rows and states, and sets their clocks. */
static void prepare_steps(struct partition *partition, unsigned t, const uint32_t *slots, uint32_t count,
                          uint64_t clock) {
    const unsigned both[] = {t, partition->job->tables[t].state};
    for (unsigned i = 0; i < (both[1] != 0 ? 2U : 1U); i++) {
        rows_keep(partition, both[i], slots, count);
        table_stamp(&partition->tables[both[i]], slots, count, clock, 0);
    }
}

/* Makes the steps of a clock in which only one flush has rows of the table. Takes over the contribution. */
static void contribution_step(struct partition *partition, unsigned t, struct contribution *one) {
    const struct table *table = &partition->tables[t];
    const struct rows_codec *codec = rows_codec(one->encoding);
    const unsigned char *value = one->values->data;
    unsigned char *sum = one->encoding == WIRE_FULL ? NULL : memory_resized(NULL, table->spec->row_bytes, 1);
    const struct steps_place place = steps_of_table(table);
    struct steps steps;
    prepare_steps(partition, t, one->slots, one->count, one->clock);
    steps_open(&steps, &place, one->clock, one->count, &partition->step_error);
    for (uint32_t i = 0; i < one->count;) {
        uint32_t run = sum == NULL ? slots_run(one->slots + i, one->count - i) : 1;
        if (sum == NULL) {
            table_step(table, &steps, one->slots[i], run, value);
            value += (size_t)run * table->spec->row_bytes;
        } else {
            value += codec->copy(&table->shape, sum, value, 1);
            table_step(table, &steps, one->slots[i], 1, sum);
        }
        i += run;
    }
    steps_close(&steps);
    free(sum);
    contribution_close(one);
}

/* Makes the steps of a clock. `sums` is indexed by slot. */
static void sums_step(struct partition *partition, unsigned t, const uint32_t *slots, uint32_t count,
                      const unsigned char *sums, uint64_t clock) {
    const struct table *table = &partition->tables[t];
    const struct steps_place place = steps_of_table(table);
    struct steps steps;
    prepare_steps(partition, t, slots, count, clock);
    steps_open(&steps, &place, clock, count, &partition->step_error);
    for (uint32_t i = 0; i < count;) {
        uint32_t run = slots_run(slots + i, count - i);
        table_step(table, &steps, slots[i], run, sums + (size_t)slots[i] * table->spec->row_bytes);
        i += run;
    }
    steps_close(&steps);
}

/* Applies one of `count` contributions of a clock to the table and takes it over. */
static void contribution_apply(struct partition *partition, unsigned t, struct contribution *one, unsigned count) {
    struct table *table = &partition->tables[t];
    if (table_stepped(table->spec) && one->writer != 0) {
        contribution_step(partition, t, one);
        return;
    }
    const bool kept = deltas_kept(partition, table, one, count);
    if (table->spec->mode == AML_ADD && !kept) {
        rows_keep(partition, t, one->slots, one->count);
    }
    table_stamp(table, one->slots, one->count, one->clock, one->writer);
    if (table->spec->mode == AML_PUT) {
        late_put(partition, t, one);
        return;
    }
    if (one->writer != 0) {
        table_add(table, one);
    } else {
        table_put(table, one->slots, one->count, one->encoding, one->values->data);
    }
    if (!kept) {
        contribution_close(one);
        return;
    }
    struct commit_point *point = &partition->points[partition->point_count - 1];
    point->saved = memory_resized(point->saved, point->saved_count + 1, sizeof *point->saved);
    point->saved[point->saved_count++] = (struct saved_rows){
        .table = t, .count = one->count, .slots = one->slots, .deltas = one->values, .encoding = one->encoding};
}

static void pending_apply(struct partition *partition, struct pending *pending) {
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct pending_table *sum = &pending->tables[t];
        check_pending(sum, &partition->tables[t]);
        for (unsigned i = 0; i < sum->waiting_count; i++) {
            contribution_apply(partition, t, &sum->waiting[i], sum->waiting_count);
        }
        sum->waiting_count = 0;
        const uint32_t *slots = (const uint32_t *)(const void *)sum->slots.base;
        if (sum->summed > 0 && table_stepped(&partition->job->tables[t])) {
            sums_step(partition, t, slots, sum->summed, sum->sums.base, pending->clock);
        } else if (sum->summed > 0) {
            rows_keep(partition, t, slots, sum->summed);
            table_stamp(&partition->tables[t], slots, sum->summed, pending->clock, 0);
            table_add_sums(&partition->tables[t], slots, sum->summed, sum->sums.base);
        }
    }
}

/* Checks the order of the clocks: commit points up to `clock`, then held updates. Also that the only origin since
 * `mixed_clock` exists. */
static void check_clocks(const struct partition *partition) {
    assert(partition->point_count == 0 || partition->points[0].clock <= last_point(partition));
    assert(last_point(partition) <= partition->clock && partition->mixed_clock <= partition->clock);
    assert(partition->held_count == 0 || (partition->held[0].update.clock > partition->clock &&
                                          partition->held[0].update.clock <= partition_reached(partition)));
    assert(partition->alone <= partition->origin_count);
    assert(partition->origin_index.count == partition->origin_count);
}

bool partition_advance(struct partition *partition) {
    uint64_t clock = partition->clock + 1;
    struct pending *pending = partition_pending(partition, clock);
    if (pending == NULL || pending->expected == 0 || pending->delivered_count < pending->expected) {
        return false;
    }
    check_clocks(partition);
    assert(partition->held_count == 0 && pending->delivered_count == pending->expected);
    pending_apply(partition, pending);
    if (pending->expected > 1) {
        partition->alone = 0;
        partition->mixed_clock = clock;
    } else if (partition->alone != pending->last + 1) {
        partition->alone = pending->last + 1;
        partition->mixed_clock = partition->clock;
    }
    pending_release(partition, ring_entry(partition, clock));
    partition->clock = clock;
    check_clocks(partition);
    return true;
}

/* ---- Commit points ---- */

void partition_keep(struct partition *partition, bool keep) {
    if (!keep && partition->point_count > 0) {
        points_forget(partition, 0, partition->point_count);
    } else if (keep && partition->point_count == 0) {
        partition->points = memory_resized(partition->points, 1, sizeof *partition->points);
        partition->points[partition->point_count++] = (struct commit_point){.clock = partition->clock};
    }
}

void partition_point(struct partition *partition) {
    if (partition->point_count == 0 || last_point(partition) == partition->clock) {
        return;
    }
    assert(last_point(partition) < partition->clock);
    partition->points = memory_resized(partition->points, partition->point_count + 1, sizeof *partition->points);
    partition->points[partition->point_count++] = (struct commit_point){.clock = partition->clock};
}

int partition_commit(struct partition *partition, uint64_t committed, struct error *error) {
    check_clocks(partition);
    while (partition->held_count > 0 && partition->held[0].update.clock <= committed) {
        partition_keep(partition, false);
        int result = partition_apply(partition, error);
        if (result != 0) {
            return result;
        }
    }
    unsigned passed = 0;
    while (passed + 1 < partition->point_count && partition->points[passed + 1].clock <= committed) {
        passed++;
    }
    if (passed > 0) {
        uint64_t since = partition->points[0].clock;
        points_forget(partition, 0, passed);
        for (unsigned t = 0; t < partition->job->table_count; t++) {
            late_compact(&partition->late[t], since, partition->points[0].clock);
        }
    }
    assert(partition->held_count == 0 || partition->held[0].update.clock > committed);
    check_clocks(partition);
    return 0;
}

unsigned partition_restore_points(const struct partition *partition, uint64_t **clocks) {
    uint64_t *list = memory_resized(NULL, partition->point_count + partition->held_count + 1, sizeof *list);
    unsigned count = 0;
    for (unsigned p = 0; p < partition->point_count; p++) {
        list[count++] = partition->points[p].clock;
    }
    if (count == 0 || list[count - 1] != partition->clock) {
        list[count++] = partition->clock;
    }
    for (unsigned h = 0; h < partition->held_count; h++) {
        list[count++] = partition->held[h].update.clock;
    }
    *clocks = list;
    return count;
}

/* Limits the rows' clocks to `clock`, to which the rows go back. When such a row last changed before `clock`, and its
 * writer, are not known. */
static void table_clamp(const struct table *table, uint64_t clock) {
    uint32_t *clocks = table_clocks(table);
    uint32_t *writers = table_writers(table);
    for (uint32_t slot = 0; slot < table->count; slot++) {
        if (clocks[slot] > clock) {
            clocks[slot] = (uint32_t)clock;
            if (table->spec->mode == AML_PUT) {
                writers[slot] = 0;
            }
        }
    }
}

/* Goes back to points[to]. */
static void partition_undo(struct partition *partition, unsigned to) {
    uint64_t clock = partition->points[to].clock;
    assert(to < partition->point_count && clock < partition->clock && partition->held_count == 0);
    for (unsigned t = 0; t < partition->job->table_count; t++) {
        struct late_puts *late = &partition->late[t];
        while (late->count > 0 && late->list[late->count - 1].clock > clock) {
            late_remove(late, late->count - 1);
        }
        late->settled = clock; /* after table_clamp, clocks do not show a row's put */
        table_clamp(&partition->tables[t], clock);
    }
    for (unsigned p = partition->point_count; p-- > to;) {
        struct commit_point *point = &partition->points[p];
        for (unsigned s = point->saved_count; s-- > 0;) {
            const struct saved_rows *saved = &point->saved[s];
            const struct table *table = &partition->tables[saved->table];
            if (saved->deltas != NULL) {
                table_undo(table, saved);
            } else {
                table_put(table, saved->slots, saved->count, WIRE_FULL, saved->values);
            }
        }
    }
    points_forget(partition, to, partition->point_count - to);
    partition->clock = clock;
    partition->points[partition->point_count++] = (struct commit_point){.clock = clock};
}

bool partition_restore(struct partition *partition, uint64_t clock) {
    unsigned point = 0;
    unsigned held = 0;
    while (point < partition->point_count && partition->points[point].clock != clock) {
        point++;
    }
    while (held < partition->held_count && partition->held[held].update.clock <= clock) {
        held++;
    }
    forget_encoded(partition);
    bool holds = clock == partition->clock || (held > 0 && partition->held[held - 1].update.clock == clock);
    if (!holds && point == partition->point_count) {
        return false;
    }
    while (partition->held_count > held) {
        message_close(&partition->held[--partition->held_count]);
    }
    if (clock < partition->clock) {
        partition_undo(partition, point);
    }
    partition->alone = 0;
    partition->mixed_clock = partition->clock;
    for (unsigned r = 0; r < partition_ahead(partition->job); r++) {
        if (partition->ring[r] != NULL) {
            pending_release(partition, &partition->ring[r]);
        }
    }
    for (unsigned o = 0; o < partition->origin_count; o++) {
        struct origin *origin = &partition->origins[o];
        origin->received = origin->received < clock ? origin->received : clock;
    }
    assert(partition_reached(partition) == clock);
    check_clocks(partition);
    return true;
}

/* ---- Following ---- */

int partition_views(const struct partition *partition, const struct message *message, struct rows_view *views,
                    struct error *error) {
    int count = rows_check(message, partition->job->shapes, partition->job->table_count, views, error);
    for (int v = 0; v < count; v++) {
        const struct table *table = &partition->tables[views[v].table];
        for (uint32_t i = 0; i < views[v].count; i++) {
            if (!table_holds(table, views[v].keys[i])) {
                return error_set(error, AML_EPROTOCOL, "table %s: key %llu is not a row of partition %u",
                                 table->spec->name, (unsigned long long)views[v].keys[i], partition->id);
            }
        }
    }
    return count;
}

uint64_t partition_reached(const struct partition *partition) {
    return partition->held_count > 0 ? partition->held[partition->held_count - 1].update.clock : partition->clock;
}

int partition_hold(struct partition *partition, const struct message *update, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    int count = partition_views(partition, update, views, error);
    if (count < 0) {
        return count;
    }
    assert(!update->update.piece && update->update.from_clock <= partition_reached(partition) &&
           update->update.clock > partition_reached(partition));
    partition->held = memory_resized(partition->held, partition->held_count + 1, sizeof *partition->held);
    partition->held[partition->held_count++] = message_share(update);
    return 0;
}

int partition_apply(struct partition *partition, struct error *error) {
    struct message *update = &partition->held[0];
    forget_encoded(partition);
    check_clocks(partition);
    assert(partition->held_count > 0 && update->update.from_clock <= partition->clock);
    struct rows_view views[WIRE_TABLES_MAX];
    int count = partition_views(partition, update, views, error);
    for (int v = 0; v < count; v++) {
        struct contribution rows = {.values = buffer_hold(views[v].value_frame),
                                    .slots = partition_view_slots(&partition->tables[views[v].table], &views[v], error),
                                    .count = views[v].count,
                                    .clock = update->update.clock,
                                    .encoding = views[v].encoding};
        if (rows.slots == NULL) {
            contribution_close(&rows);
            return error->code;
        }
        contribution_apply(partition, views[v].table, &rows, 1);
    }
    if (count < 0) {
        return count;
    }
    partition->clock = update->update.clock;
    partition->alone = 0;
    partition->mixed_clock = partition->clock;
    message_close(update);
    memmove(partition->held, partition->held + 1, --partition->held_count * sizeof *partition->held);
    partition_point(partition);
    check_clocks(partition);
    return 0;
}

int partition_fill(struct partition *partition, const struct message *update, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    assert(partition->held_count == 0 && partition->point_count == 0); /* nothing can be undone or applied later */
    forget_encoded(partition);
    int count = partition_views(partition, update, views, error);
    for (int v = 0; v < count; v++) {
        struct table *table = &partition->tables[views[v].table];
        uint32_t *slots = partition_view_slots(table, &views[v], error);
        if (slots == NULL) {
            return error->code;
        }
        table_stamp(table, slots, views[v].count, update->update.clock, 0);
        table_put(table, slots, views[v].count, views[v].encoding, views[v].values);
        free(slots);
    }
    if (count >= 0 && !update->update.piece) {
        partition->clock = update->update.clock;
        partition->mixed_clock = partition->clock;
    }
    return count < 0 ? count : 0;
}
