/* A server thread as its node's relay in the ring (ring.h). It adds its node's flush to the sum from the node before,
 * and sends the new sum to the next node. It also passes pushes on. A relay does not know what servers have received.
 * If it drops or loses a flush, the origin sends the flush directly after a while (client.h). A server takes each
 * origin's flush only once.
 *
 * For each partition a relay keeps at most 2 (staleness + 1) clocks of the present epoch, each with its node's flush
 * and the sum of the nodes before. */
#include "agileml/ps/server_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- What waits ---- */

static void entry_close(struct relay_entry *entry) {
    message_close(&entry->own);
    message_close(&entry->sum);
}

void server_forget_relayed(struct server *server) {
    for (uint32_t p = 0; p < server->relay.partition_count; p++) {
        struct relay_partition *partition = &server->relay.partitions[p];
        for (unsigned e = 0; e < partition->count; e++) {
            entry_close(&partition->entries[e]);
        }
        free(partition->entries);
    }
    free(server->relay.partitions);
    server->relay.partitions = NULL;
    server->relay.partition_count = 0;
}

static void entry_remove(struct relay_partition *partition, unsigned e) {
    entry_close(&partition->entries[e]);
    memmove(&partition->entries[e], &partition->entries[e + 1], (--partition->count - e) * sizeof *partition->entries);
}

/* Makes room for our node's flush of `clock`. That flush shows that clocks more than the staleness before it are
 * complete, and that no node can have begun clocks more than the staleness after it. Drops the entries of these
 * clocks. */
static void forget_others(struct server *server, uint32_t number, uint64_t clock) {
    uint64_t apart = server->job->staleness + UINT64_C(1);
    struct relay_partition *partition = &server->relay.partitions[number];
    for (unsigned e = partition->count; e-- > 0;) {
        uint64_t other = partition->entries[e].clock;
        if (other + apart <= clock || other > clock + apart) {
            entry_remove(partition, e);
        }
    }
}

/* Drops a partition's sent entries up to `clock`, the clock of a PUSH: these clocks are complete. Keeps entries that
 * wait, as the clock in a PUSH may be wrong. */
static void forget_sent(struct server *server, uint32_t number, uint64_t clock) {
    struct relay_partition *partition = &server->relay.partitions[number];
    for (unsigned e = partition->count; e-- > 0;) {
        if (partition->entries[e].clock <= clock && partition->entries[e].sent) {
            entry_remove(partition, e);
        }
    }
}

void server_relay_plan(struct server *server) {
    for (uint32_t p = 0; p < server->relay.partition_count; p++) {
        struct relay_partition *partition = &server->relay.partitions[p];
        for (unsigned e = partition->count; e-- > 0;) {
            uint64_t clock = partition->entries[e].clock;
            if (clock <= server->committed || rings_at(&server->rings, server->job, &server->plan, clock) == NULL) {
                entry_remove(partition, e);
            }
        }
    }
}

/* Returns the entry of a clock, made when new. NULL: there is no room, and the clock is older than all kept clocks.
 * This happens only for sums (forget_others). */
static struct relay_entry *entry_of(struct server *server, uint32_t number, uint64_t clock) {
    if (server->relay.partitions == NULL) {
        server->relay.partition_count = server->partition_count;
        server->relay.partitions = memory_zeroed(server->partition_count, sizeof *server->relay.partitions);
    }
    struct relay_partition *partition = &server->relay.partitions[number];
    unsigned oldest = 0;
    for (unsigned e = 0; e < partition->count; e++) {
        if (partition->entries[e].clock == clock) {
            return &partition->entries[e];
        }
        oldest = partition->entries[e].clock < partition->entries[oldest].clock ? e : oldest;
    }
    if (partition->count >= 2 * (server->job->staleness + 1)) { /* workers can't be further apart */
        if (partition->entries[oldest].clock > clock) {
            return NULL;
        }
        entry_remove(partition, oldest);
    }
    partition->entries = memory_resized(partition->entries, partition->count + 1, sizeof *partition->entries);
    partition->entries[partition->count] = (struct relay_entry){.clock = clock};
    assert(partition->count < 2 * (server->job->staleness + 1));
    return &partition->entries[partition->count++];
}

/* ---- Sums ---- */

/* Whether every key is of the partition, and the keys ascend, so that no key is there twice. */
static bool keys_fit(const struct server *server, uint32_t number, const struct rows_view *view) {
    const struct table_spec *spec = &server->job->tables[view->table];
    for (uint32_t i = 0; i < view->count; i++) {
        uint64_t key = view->keys[i];
        if (key >= spec->rows || table_partition(spec, key, server->partition_count) != number ||
            (i > 0 && key <= view->keys[i - 1])) {
            return false;
        }
    }
    return true;
}

/* Checks that all rows of the message are of the partition. Returns 0 or AML_EPROTOCOL. */
static int rows_fit(const struct server *server, uint32_t number, const struct message *message, struct error *error) {
    struct rows_view views[WIRE_TABLES_MAX];
    int count = rows_check(message, server->job->shapes, server->job->table_count, views, error);
    for (int v = 0; v < count; v++) {
        if (!keys_fit(server, number, &views[v])) {
            return error_set(error, AML_EPROTOCOL, "table %s: not rows of the partition in order",
                             server->job->tables[views[v].table].name);
        }
    }
    return count < 0 ? count : 0;
}

/* Appends the sums of two lists of rows, each ascending. A row in both lists becomes one + other. */
static void add_rows(struct message *sum, const struct row_shape *shape, const struct rows_view *one,
                     const struct rows_view *other) {
    const struct rows_codec *codec = rows_codec(WIRE_FULL);
    const size_t row_bytes = shape->row_bytes;
    size_t most = (size_t)one->count + other->count;
    bool same = one->count == other->count && memcmp(one->keys, other->keys, one->count * sizeof *one->keys) == 0;
    if (same) {
        struct buffer *values = buffer_copy(one->values, one->count * row_bytes);
        codec->add(shape, values->data, other->values, other->count);
        rows_append(sum, one->table, WIRE_FULL, buffer_hold(one->key_frame), values);
        return;
    }
    struct buffer *keys = buffer_new(most * sizeof(uint64_t));
    struct buffer *values = buffer_new(most * row_bytes);
    uint64_t *key = (uint64_t *)(void *)keys->data;
    uint32_t count = 0;
    for (uint32_t i = 0, k = 0; i < one->count || k < other->count; count++) {
        bool first = k == other->count || (i < one->count && one->keys[i] <= other->keys[k]);
        bool both = first && k < other->count && one->keys[i] == other->keys[k];
        unsigned char *value = values->data + count * row_bytes;
        key[count] = first ? one->keys[i] : other->keys[k];
        memcpy(value, first ? one->values + i * row_bytes : other->values + k * row_bytes, row_bytes);
        if (both) {
            codec->add(shape, value, other->values + k * row_bytes, 1);
        }
        i += first;
        k += both || !first;
    }
    assert(count <= most && count >= one->count && count >= other->count);
    keys->size = count * sizeof(uint64_t);
    values->size = count * row_bytes;
    rows_append(sum, one->table, WIRE_FULL, keys, values);
}

/* Adds our node's flush to the sum of the nodes before it. The order matters: floats must be added in the chain's order
 * everywhere. */
static void add_flushes(const struct server *server, struct message *sum, const struct message *before,
                        const struct message *own) {
    for (unsigned t = 0; t < server->job->table_count; t++) {
        struct rows_view one;
        struct rows_view other;
        bool in_one = rows_find(before, t, &one);
        bool in_other = rows_find(own, t, &other);
        if (in_one && in_other) {
            add_rows(sum, &server->job->shapes[t], &one, &other);
        } else if (in_one || in_other) {
            const struct rows_view *only = in_one ? &one : &other;
            rows_append(sum, t, WIRE_FULL, buffer_hold(only->key_frame), buffer_hold(only->value_frame));
        }
    }
}

/* ---- FLUSH ---- */

void server_relay_send(struct server *server, actor_id to, struct message *message) {
    const char *endpoint = plan_endpoint(&server->plan, to);
    if (endpoint != NULL && actor_node(to) != actor_node(server->self)) {
        server->io->connect(server->io, to, endpoint);
    }
    server->io->send(server->io, to, message);
}

static void send_sum(struct server *server, const struct ring_chain *chain, unsigned place, struct message *sum) {
    bool last = place + 1 == chain->length;
    actor_id to =
        last ? plan_server_at(&server->plan, sum->flush.clock, chain->partition) : ring_relay(chain, place + 1);
    server_relay_send(server, to, sum);
}

/* Sends an entry's sum if the entry is complete. The entry stays, without its rows, so that a repeated message is
 * recognized. */
static void entry_step(struct server *server, const struct ring_chain *chain, unsigned place,
                       struct relay_entry *entry) {
    if (entry->sent || !entry->has_own || (!entry->has_sum && place > 0)) {
        return;
    }
    struct message sum = {.type = MESSAGE_FLUSH, .epoch = server->epoch, .flush = entry->own.flush};
    if (place == 0) {
        sum = message_share(&entry->own);
    } else {
        add_flushes(server, &sum, &entry->sum, &entry->own);
    }
    entry_close(entry);
    assert(sum.flush.clock == entry->clock && sum.flush.partition == chain->partition);
    entry->sent = true;
    send_sum(server, chain, place, &sum);
}

void server_relay_flush(struct server *server, actor_id from, const struct message *message,
                        const struct ring_chain *chain) {
    const struct message_flush *flush = &message->flush;
    struct error error = {0};
    int place = ring_place(chain, server->self);
    bool own = actor_node(from) == actor_node(server->self);
    int before = own ? place : place - 1;
    if (place < 0 || before < 0 || ring_relay(chain, (unsigned)place) != server->self ||
        actor_node(from) != ring_node(chain, (unsigned)before) || flush->origin != ring_node(chain, (unsigned)before)) {
        return; /* the sender uses another ring */
    }
    if (rows_fit(server, flush->partition, message, &error) != 0) {
        server_accuse(server, from, message, &error);
        return;
    }
    if (own && flush->partition < server->relay.partition_count) {
        forget_others(server, flush->partition, flush->clock);
    }
    struct relay_entry *entry = entry_of(server, flush->partition, flush->clock);
    if (entry == NULL || entry->sent || (own ? entry->has_own : entry->has_sum)) {
        return;
    }
    if (own) {
        entry->own = message_share(message);
        entry->has_own = true;
    } else {
        entry->sum = message_share(message);
        entry->has_sum = true;
    }
    entry_step(server, chain, (unsigned)place, entry);
}

/* ---- PUSH ---- */

void server_relay_push(struct server *server, actor_id from, const struct message *message) {
    const struct message_push *push = &message->push;
    struct error error = {0};
    const struct ring *ring = rings_at(&server->rings, server->job, &server->plan, push->clock);
    if (push->partition >= server->partition_count || ring == NULL || push->request != 0 || push->pull != 0) {
        return;
    }
    actor_id leader = plan_server_at(&server->plan, push->clock, push->partition);
    struct ring_chain chain = ring_chain(ring, push->partition, leader);
    if (chain.digest != push->ring) {
        return;
    }
    int place = ring_place(&chain, server->self);
    if (place < 0 || ring_relay(&chain, (unsigned)place) != server->self ||
        from != (place == 0 ? leader : ring_relay(&chain, (unsigned)place - 1))) {
        return;
    }
    if (rows_fit(server, push->partition, message, &error) != 0) {
        server_accuse(server, from, message, &error);
        return;
    }
    if (push->partition < server->relay.partition_count) {
        forget_sent(server, push->partition, push->clock);
    }
    if ((unsigned)place + 1 < chain.length) {
        struct message copy = message_share(message);
        server_relay_send(server, ring_relay(&chain, (unsigned)place + 1), &copy);
    }
    struct message copy = message_share(message);
    server->io->send(server->io, actor_of_part(server->self, 0), &copy);
}
