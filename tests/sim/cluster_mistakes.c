/* Deliberate mistakes in a simulated run, which the checks must find. See cluster_private.h. */
#include "agileml/ps/server_private.h"
#include "agileml/wire/plan_pack.h"
#include "tests/sim/cluster_private.h"

#include <stdlib.h>
#include <string.h>

const char *const mistake_names[MISTAKES] = {
    [MISTAKE_NONE] = "none",
    [MISTAKE_FLUSH_WITHOUT_ROWS] = "flush-without-rows",
    [MISTAKE_FLUSH_TWICE] = "flush-twice",
    [MISTAKE_PUSH_WITHOUT_ROWS] = "push-without-rows",
    [MISTAKE_STALE_WORKER] = "stale-worker",
    [MISTAKE_TWO_OWNERS] = "two-owners",
    [MISTAKE_TWO_SERVERS] = "two-servers",
    [MISTAKE_DEAF_SERVER] = "deaf-server",
    [MISTAKE_PROGRESS_TWICE] = "progress-twice",
    [MISTAKE_FLUSH_LOST_IN_RESTORE] = "flush-lost-in-restore",
    [MISTAKE_CATCH_UP_SKIPPED] = "catch-up-skipped",
    [MISTAKE_UNDO_SKIPPED] = "undo-skipped",
    [MISTAKE_COMMIT_TOO_EARLY] = "commit-too-early",
    [MISTAKE_TWO_SERVERS_FENCED] = "two-servers-after-a-fence",
    [MISTAKE_NOT_FENCED] = "node-not-fenced",
    [MISTAKE_STORE_WRITE_LOST] = "store-write-lost",
    [MISTAKE_ROW_GIVEN_UP] = "row-given-up",
    [MISTAKE_INPUT_CONCEALED] = "input-concealed",
    [MISTAKE_LOSS_CONCEALED] = "loss-concealed",
    [MISTAKE_LAST_UNSAID] = "last-unsaid",
    [MISTAKE_TOPICS_FORGOTTEN] = "topics-forgotten",
    [MISTAKE_IMPATIENT_RESTART] = "impatient-restart",
    [MISTAKE_CHECKPOINT_NOT_HELD] = "checkpoint-not-held",
    [MISTAKE_ANSWER_AWAITED] = "answer-awaited",
    [MISTAKE_LIE_BELIEVED] = "lie-believed",
    [MISTAKE_WAITING_COUNTED] = "waiting-counted",
    [MISTAKE_SPEED_REVERSED] = "speed-reversed",
    [MISTAKE_WEIGHTS_LOST] = "weights-lost",
    [MISTAKE_TWO_REPLACED] = "two-replaced",
    [MISTAKE_WAITS_UNTOLD] = "waits-untold",
    [MISTAKE_LOT_TWICE] = "lot-twice",
    [MISTAKE_SHARD_MIXED] = "shard-mixed",
    [MISTAKE_BATCH_OF_OTHER_CLOCK] = "batch-of-other-clock",
    [MISTAKE_BATCH_TWICE] = "batch-twice",
    [MISTAKE_CREDIT_LOST] = "credit-lost",
    [MISTAKE_FEEDER_COUNTS] = "feeder-counts",
    [MISTAKE_PIECE_TWICE] = "piece-twice",
    [MISTAKE_PIECE_LEFT_OUT] = "piece-left-out",
    [MISTAKE_STEP_TWICE] = "step-twice",
    [MISTAKE_SUSPICION_BELIEVED] = "suspicion-believed",
    [MISTAKE_SUSPICION_IGNORED] = "suspicion-ignored",
    [MISTAKE_WOKEN_ACCUSES] = "woken-accuses",
    [MISTAKE_STATE_KEPT] = "state-kept",
    [MISTAKE_RING_TWICE] = "ring-twice",
    [MISTAKE_RING_OVERLAPS] = "ring-overlaps",
    [MISTAKE_RING_KEPT] = "ring-kept",
    [MISTAKE_RING_MIXED] = "ring-mixed",
    [MISTAKE_STRATEGY_KEPT] = "strategy-kept",
    [MISTAKE_GOSSIP_LATE] = "gossip-late",
    [MISTAKE_REPLICA_APART] = "replica-apart",
    [MISTAKE_FLUSH_PIECE_WHOLE] = "flush-piece-whole",
    [MISTAKE_FLUSH_PIECE_TWICE] = "flush-piece-twice",
    [MISTAKE_CACHE_OTHER_CLOCK] = "cache-other-clock",
    [MISTAKE_CACHE_UNFINISHED] = "cache-unfinished",
    [MISTAKE_CACHE_LACKS_ROW] = "cache-lacks-row",
    [MISTAKE_CACHES_IGNORED] = "caches-ignored",
    [MISTAKE_PHASE_AGAIN] = "phase-again",
};

bool cluster_mistake_due(struct cluster *cluster, enum mistake mistake) {
    if (cluster->options.mistake != mistake || cluster->result->mistaken) {
        return false;
    }
    if (cluster->schedule.mistake_left > 0) {
        cluster->schedule.mistake_left--;
        return false;
    }
    cluster->result->mistaken = true;
    return true;
}

bool cluster_mistake_lasts(struct cluster *cluster, enum mistake mistake) {
    return cluster->options.mistake == mistake && (cluster->result->mistaken || cluster_mistake_due(cluster, mistake));
}

static bool has_changes(const struct message *message) {
    for (unsigned f = 2; f < message->frame_count; f += 2) {
        for (size_t b = 0; b < message->frames[f]->size; b++) {
            if (message->frames[f]->data[b] != 0) {
                return true;
            }
        }
    }
    return false;
}

/* Replaces a frame, which others may share, by a copy. Returns the copy's bytes. */
static void *frame_own(struct message *message, unsigned frame) {
    struct buffer *copy = buffer_copy(message->frames[frame]->data, message->frames[frame]->size);
    buffer_drop(message->frames[frame]);
    message->frames[frame] = copy;
    return copy->data;
}

/* ---- What reaches a server ---- */

/* Doubles the whole numbers of the first table. */
static bool flush_double(struct cluster *cluster, struct message *message, enum mistake mistake) {
    const struct wire_directory_entry *directory = (const void *)message->frames[0]->data;
    bool changes = false;
    for (size_t b = 0; directory->table == 0 && b < message->frames[2]->size; b++) {
        changes = changes || message->frames[2]->data[b] != 0;
    }
    if (!changes || !cluster_mistake_due(cluster, mistake)) {
        return false;
    }
    int64_t *values = frame_own(message, 2);
    for (size_t v = 0; v < message->frames[2]->size / sizeof *values; v++) {
        values[v] *= 2;
    }
    return true;
}

/* Makes a server forget that an origin in a ring's sum has delivered the clock directly. */
static void forget_delivered(struct cluster *cluster, struct partition *partition, const struct message_flush *flush,
                             const struct ring_chain *chain) {
    struct pending *pending = partition->ring[flush->clock % partition_ahead(partition->job)];
    if (pending == NULL || pending->clock != flush->clock) {
        return;
    }
    bool overlaps = false;
    for (unsigned place = 0; place < chain->length; place++) {
        int64_t origin = index_map_find(&partition->origin_index, ring_node(chain, place));
        overlaps = overlaps || (origin != INDEX_NONE && pending->delivered[origin] != 0);
    }
    bool forgets = overlaps && cluster_mistake_due(cluster, MISTAKE_RING_OVERLAPS);
    for (unsigned place = 0; forgets && place < chain->length; place++) {
        int64_t origin = index_map_find(&partition->origin_index, ring_node(chain, place));
        if (origin != INDEX_NONE) {
            pending->delivered_count -= pending->delivered[origin];
            pending->delivered[origin] = 0;
        }
    }
}

/* For a flush that arrives by a ring, at a relay or at the partition's server. */
static void mistake_ring_flush(struct cluster_server *server, struct message *message) {
    struct cluster *cluster = server->node->cluster;
    const struct message_flush *flush = &message->flush;
    struct server *mine = &server->server;
    const struct ring *ring = flush->partition < mine->partition_count && message->epoch == mine->epoch && !mine->fenced
                                  ? rings_at(&mine->rings, mine->job, &mine->plan, flush->clock)
                                  : NULL;
    if (ring == NULL || !has_changes(message)) {
        return;
    }
    actor_id leader = plan_server_at(&mine->plan, flush->clock, flush->partition);
    struct ring_chain chain = ring_chain(ring, flush->partition, leader);
    if (chain.digest != flush->ring) {
        return;
    }
    struct partition *partition = mine->replicas[flush->partition].partition;
    if (leader == mine->self && partition != NULL && partition->clock + 1 == flush->clock) {
        forget_delivered(cluster, partition, flush, &chain);
    } else if (leader != mine->self && flush->origin != actor_node(mine->self)) {
        flush_double(cluster, message, MISTAKE_RING_TWICE);
    }
}

/* Makes the server take the first piece of a flush for the whole flush. */
static void mistake_piece(struct cluster *cluster, const struct partition *partition, struct message *message) {
    struct message_flush *flush = &message->flush;
    bool first = flush->piece == 0 && partition_pieces(partition, flush->origin, flush->clock) == 0;
    if (flush->more != 0 && first && cluster_mistake_due(cluster, MISTAKE_FLUSH_PIECE_WHOLE)) {
        flush->more = 0;
    }
}

bool cluster_mistake_again(struct cluster_server *server, const struct message *message) {
    const struct message_flush *flush = &message->flush;
    if (server->node->cluster->options.mistake != MISTAKE_FLUSH_PIECE_TWICE || message->type != MESSAGE_FLUSH ||
        flush->more == 0 || !has_changes(message)) {
        return false;
    }
    const struct partition *partition = server->server.replicas[flush->partition].partition;
    if (!cluster_mistake_due(server->node->cluster, MISTAKE_FLUSH_PIECE_TWICE)) {
        return false;
    }
    struct pending *pending = partition->ring[flush->clock % partition_ahead(partition->job)];
    pending->pieces[index_map_find(&partition->origin_index, flush->origin)]--;
    return true;
}

static bool mistake_flush(struct cluster_server *server, struct message *message) {
    struct cluster *cluster = server->node->cluster;
    const struct message_flush *flush = &message->flush;
    if (flush->ring != 0) {
        mistake_ring_flush(server, message);
    }
    const struct partition *partition =
        flush->partition < server->server.partition_count ? server->server.replicas[flush->partition].partition : NULL;
    bool taken = partition != NULL && message->epoch == server->server.epoch && !server->server.fenced &&
                 flush->clock == partition->clock + 1 && has_changes(message) &&
                 server_serves(&server->server, flush->partition, flush->clock);
    bool again = message->epoch > cluster->seen.first_epoch && flush->clock > cluster->seen.plan.terms.restore &&
                 flush->clock <= cluster->seen.recovery_begun;
    if (taken && (cluster_mistake_due(cluster, MISTAKE_FLUSH_WITHOUT_ROWS) ||
                  (again && cluster_mistake_due(cluster, MISTAKE_FLUSH_LOST_IN_RESTORE)))) {
        message_close(message);
    } else if (taken) {
        flush_double(cluster, message, MISTAKE_FLUSH_TWICE);
        mistake_piece(cluster, partition, message);
    }
    return !cluster_mistake_lasts(cluster, MISTAKE_DEAF_SERVER);
}

/* Leaves one row out of the list of rows that a worker still wants. */
static void mistake_subscribe(struct cluster *cluster, struct message *message) {
    const struct wire_directory_entry *first = message->frame_count > 0 ? (const void *)message->frames[0]->data : NULL;
    if (message->subscribe.only && first != NULL && first->rows > 1 &&
        cluster_mistake_due(cluster, MISTAKE_ROW_GIVEN_UP)) {
        struct wire_directory_entry *directory = frame_own(message, 0);
        frame_own(message, 1);
        directory->rows--;
        message->frames[1]->size -= sizeof(uint64_t);
    }
}

/* Makes the server's plan say that it serves a partition of which it has, or is to have, another replica. */
static void mistake_plan(struct cluster_server *server, struct message *message) {
    struct cluster *cluster = server->node->cluster;
    enum mistake mistake = cluster->options.mistake;
    bool fenced = message->epoch > cluster->seen.first_epoch;
    for (uint32_t p = 0; p < message->plan.partitions; p++) {
        const struct wire_placement *placement =
            (const struct wire_placement *)(const void *)message->frames[1]->data + p;
        actor_id self = server->server.self;
        bool other = placement->server != self && placement->next_server != self &&
                     (!fenced || placement->backup == self || placement->next_backup == self);
        if (other && cluster_mistake_due(cluster, mistake)) {
            struct wire_placement *wrong = frame_own(message, 1);
            wrong[p].server = wrong[p].next_server = self;
            return;
        }
    }
}

/* Changes the groups in one node's plan, and so the ring's order. */
static void mistake_groups(const struct cluster_node *node, struct message *message) {
    struct cluster *cluster = node->cluster;
    struct plan_view plan = {0};
    struct error error = {0};
    if (cluster->options.mistake != MISTAKE_RING_MIXED || !plan_unpacks(message, &node->node.plan) ||
        plan_unpack(message, &node->node.plan, &plan, &error) != 0) {
        return;
    }
    if (cluster->app.ring && plan.node_count > RING_NODES_MIN && plan.terms.restore > 0 &&
        cluster_mistake_due(cluster, MISTAKE_RING_MIXED)) {
        struct wire_node *nodes = (struct wire_node *)(void *)plan.frames[PLAN_NODES]->data;
        for (size_t n = 0; n < plan.node_count; n++) {
            nodes[n].group = plan.node_count - n;
        }
        message_close(message);
        *message = plan_pack(&plan, NULL);
    }
    plan_close(&plan);
}

void cluster_mistake_keep_relayed(struct cluster_server *server, const struct message *message, struct relay *kept) {
    struct server *mine = &server->server;
    bool waits = false;
    *kept = (struct relay){0};
    for (uint32_t p = 0; p < mine->relay.partition_count; p++) {
        for (unsigned e = 0; e < mine->relay.partitions[p].count; e++) {
            waits = waits || !mine->relay.partitions[p].entries[e].sent;
        }
    }
    if (message->type == MESSAGE_PLAN && mine->fenced && message->epoch >= mine->epoch && waits &&
        cluster_mistake_due(server->node->cluster, MISTAKE_RING_KEPT)) {
        *kept = mine->relay;
        mine->relay = (struct relay){0};
    }
}

void cluster_mistake_put_relayed(struct cluster_server *server, struct relay *kept) {
    if (kept->partitions != NULL) {
        server_forget_relayed(&server->server);
        server->server.relay = *kept;
    }
}

/* From row *place of the table on, finds a row that the mistake changes. The new value is from `other`, from the node's
 * cache, or the start value, as `mistake` says. Returns the new value; NULL: no row changes. */
static const unsigned char *other_row(const struct cluster_node *node, enum mistake mistake,
                                      const struct rows_view *rows, const struct message *other, unsigned char *start,
                                      uint32_t *place) {
    const struct table_spec *spec = &node->node.job->tables[rows->table];
    struct rows_view view;
    for (; *place < rows->count; (*place)++) {
        const unsigned char *instead = start;
        if (mistake == MISTAKE_CACHE_OTHER_CLOCK) {
            instead = rows_find(other, rows->table, &view) ? view.values + (size_t)*place * spec->row_bytes : NULL;
        } else if (mistake == MISTAKE_CACHE_UNFINISHED) {
            instead = cache_row(&node->node.cache.tables[rows->table], (uint32_t)rows->keys[*place]);
        } else {
            memset(start, 0, spec->row_bytes);
            if (spec->start != NULL) {
                spec->start(spec->context, rows->keys[*place], start);
            }
        }
        if (instead != NULL && memcmp(instead, rows->values + (size_t)*place * spec->row_bytes, spec->row_bytes) != 0) {
            return instead;
        }
    }
    return NULL;
}

/* Falsifies the partition that a node's cache restores at its server: one row, or all rows of another clock. */
static void mistake_given(struct cluster_server *server, struct message *update) {
    struct cluster_node *node = server->node;
    const enum mistake mistake = node->cluster->options.mistake;
    const struct client *client = &node->node.client;
    struct message other = {0};
    uint64_t *clocks;
    unsigned count = client_kept_clocks(client, update->update.partition, &clocks);
    if (mistake == MISTAKE_CACHE_OTHER_CLOCK && count > 0) {
        client_kept_state(client, update->update.partition, clocks[0], &other);
    }
    free(clocks);
    bool made = false;
    for (unsigned t = 0; t < node->node.job->table_count; t++) {
        size_t size = node->node.job->tables[t].row_bytes;
        unsigned char *start = memory_zeroed(1, size);
        struct rows_view rows;
        const unsigned char *instead = NULL;
        for (uint32_t place = 0; rows_find(update, t, &rows) && place < rows.count; place++) {
            instead = other_row(node, mistake, &rows, &other, start, &place);
            made = made || (instead != NULL && cluster_mistake_due(node->cluster, mistake));
            if (instead != NULL && made) {
                memcpy(rows.value_frame->data + (size_t)place * size, instead, size);
            }
        }
        free(start);
    }
    message_close(&other);
}

bool cluster_mistake_server(struct cluster_server *server, actor_id from, struct message *message) {
    struct cluster *cluster = server->node->cluster;
    enum mistake mistake = cluster->options.mistake;
    if (mistake == MISTAKE_NONE) {
        return true;
    }
    if (message->type == MESSAGE_FLUSH) {
        return mistake_flush(server, message);
    }
    if (message->type == MESSAGE_SUBSCRIBE) {
        mistake_subscribe(cluster, message);
    }
    bool caches = mistake == MISTAKE_CACHE_OTHER_CLOCK || mistake == MISTAKE_CACHE_UNFINISHED ||
                  mistake == MISTAKE_CACHE_LACKS_ROW;
    if (message->type == MESSAGE_UPDATE && caches && from == server->node->id) {
        mistake_given(server, message);
    }
    bool fenced = message->epoch > cluster->seen.first_epoch;
    if (message->type == MESSAGE_PLAN && ((mistake == MISTAKE_TWO_SERVERS && cluster->node_count > 1) ||
                                          (mistake == MISTAKE_TWO_SERVERS_FENCED && fenced))) {
        mistake_plan(server, message);
    }
    return true;
}

void cluster_mistake_keep_row(struct cluster_server *server, const struct message *message, struct undo_skipped *kept) {
    struct cluster *cluster = server->node->cluster;
    const struct job *job = &cluster->app.job;
    const unsigned t = cluster->options.mistake == MISTAKE_STATE_KEPT ? job_app_tables(job) : 0; /* of states or rows */
    *kept = (struct undo_skipped){0};
    if ((cluster->options.mistake != MISTAKE_UNDO_SKIPPED && cluster->options.mistake != MISTAKE_STATE_KEPT) ||
        t == job->table_count || message->type != MESSAGE_PLAN || message->epoch <= cluster->seen.first_epoch ||
        cluster->result->mistaken) {
        return;
    }
    const uint64_t *state = app_state(&cluster->app, message->plan.restore);
    char text[256];
    for (uint32_t p = 0; p < server->server.partition_count; p++) {
        struct partition *partition = server->server.replicas[p].partition;
        for (uint32_t slot = 0;
             partition != NULL && partition->clock > message->plan.restore && slot < partition->tables[t].count;
             slot++) {
            int64_t row = app_find(&cluster->app, t, table_key(&partition->tables[t], slot));
            if (row >= 0 && !app_averages(&cluster->app, (unsigned)row) &&
                !app_equal(&cluster->app, (unsigned)row, state, partition_row(partition, t, slot), text, sizeof text)) {
                size_t size = job->tables[t].row_bytes;
                *kept = (struct undo_skipped){
                    .partition = partition, .table = t, .slot = slot, .row = memory_zeroed(1, size)};
                memcpy(kept->row, partition_row(partition, t, slot), size);
                return;
            }
        }
    }
}

void cluster_mistake_put_row(struct cluster_server *server, struct undo_skipped *kept) {
    struct cluster *cluster = server->node->cluster;
    for (uint32_t p = 0; kept->row != NULL && p < server->server.partition_count; p++) {
        struct partition *partition = server->server.replicas[p].partition;
        if (partition == kept->partition && partition->clock == cluster->seen.plan.terms.restore &&
            cluster_mistake_due(cluster, cluster->options.mistake)) {
            memcpy(table_row(&partition->tables[kept->table], kept->slot), kept->row,
                   cluster->app.job.tables[kept->table].row_bytes);
        }
    }
    free(kept->row);
}

/* ---- What reaches a node ---- */

/* Hides a checkpoint's barrier from the node, although the node acknowledges it. */
static void mistake_hold(struct cluster_node *node, struct message *message) {
    struct cluster *cluster = node->cluster;
    const struct barrier *barrier = &cluster->control.controller.barrier;
    bool for_checkpoint = cluster->control.running && barrier->purpose == BARRIER_CHECKPOINT &&
                          barrier->number == message->heartbeat_ack.barrier && barrier->clock != WIRE_CLOCK_NEVER;
    bool near = for_checkpoint && node->node.work.begun + 1 >= barrier->clock; /* earlier it has no effect */
    if (for_checkpoint && (near || cluster->result->mistaken) &&
        cluster_mistake_lasts(cluster, MISTAKE_CHECKPOINT_NOT_HELD)) {
        message->heartbeat_ack.barrier_clock = WIRE_CLOCK_NEVER;
    }
}

void cluster_mistake_node(struct cluster_node *node, struct message *message) {
    struct cluster *cluster = node->cluster;
    const struct client *client = &node->node.client;
    if (message->type == MESSAGE_PACKED_PLAN) {
        mistake_groups(node, message);
    }
    if (message->type == MESSAGE_HEARTBEAT_ACK) {
        mistake_hold(node, message);
    }
    if (cluster->options.mistake == MISTAKE_NONE || message->type != MESSAGE_PUSH ||
        message->push.partition >= client->partition_count || message->epoch != client->epoch) {
        return;
    }
    uint64_t known = client->partitions[message->push.partition].clock;
    if (message->push.request == 0 && has_changes(message) && message->push.from_clock <= known &&
        message->push.clock > known && cluster_mistake_due(cluster, MISTAKE_PUSH_WITHOUT_ROWS)) {
        message_close(message);
    }
    if (message->push.durable < message->push.clock && cluster_mistake_lasts(cluster, MISTAKE_COMMIT_TOO_EARLY)) {
        message->push.durable = message->push.clock;
    }
}

/* ---- What reaches the controller ---- */

/* Whether the node would begin another clock if it were not fenced. */
static bool could_begin(struct cluster_node *node) {
    struct client *client = &node->node.client;
    bool fenced = client->fenced;
    client->fenced = false;
    bool could = (node->node.work.activity == NODE_IDLE || node->node.work.activity == NODE_COMPUTED) &&
                 node->node.work.assignment_count > 0 && client_may_begin(client, client->flushed + 1);
    client->fenced = fenced;
    return could;
}

/* Hides from the controller what caches can restore. */
static void mistake_caches_ignored(struct cluster *cluster, struct message *fenced) {
    struct buffer *frame = fenced->frames[RECORDS_FRAME];
    const struct wire_restore_point *points = (const void *)frame->data;
    size_t count = frame->size / sizeof *points;
    size_t kept = 0;
    struct buffer *replicas = buffer_new(frame->size);
    for (size_t r = 0; r < count; r++) {
        if (points[r].cache == 0 || !cluster_mistake_lasts(cluster, MISTAKE_CACHES_IGNORED)) {
            ((struct wire_restore_point *)(void *)replicas->data)[kept++] = points[r];
        }
    }
    replicas->size = kept * sizeof *points;
    buffer_drop(frame);
    fenced->frames[RECORDS_FRAME] = replicas;
}

void cluster_mistake_controller(struct cluster *cluster, actor_id from, struct message *message) {
    struct cluster_node *node = cluster_node_of(cluster, from);
    struct controller *controller = &cluster->control.controller;
    if (controller->lost.range_count > 0 && cluster_mistake_due(cluster, MISTAKE_LOSS_CONCEALED)) {
        controller->lost.range_count = 0;
    }
    if (message->type == MESSAGE_PROGRESS && message->progress.last == 0 &&
        (message->progress.clock == controller->job.final ||
         (controller->barrier.purpose == BARRIER_STOP && message->progress.clock >= controller->barrier.clock)) &&
        cluster_mistake_lasts(cluster, MISTAKE_LAST_UNSAID)) {
        message->progress.last = 1;
    }
    if (message->type == MESSAGE_WAITS && cluster_mistake_lasts(cluster, MISTAKE_WAITS_UNTOLD)) {
        message->waits.version = 0;
    }
    if (message->type == MESSAGE_PROGRESS && message->progress.items > 0 &&
        message->progress.clock > cluster->control.controller.progress.completed &&
        cluster_mistake_due(cluster, MISTAKE_PROGRESS_TWICE)) {
        message->progress.items *= 2;
    }
    if (message->type == MESSAGE_FENCED && cluster->options.mistake == MISTAKE_CACHES_IGNORED) {
        mistake_caches_ignored(cluster, message);
    }
    if (message->type == MESSAGE_FENCED && node != NULL && !node->fate.gone && could_begin(node) &&
        cluster_mistake_due(cluster, MISTAKE_NOT_FENCED)) {
        node->node.client.fenced = false;
        node_wake(&node->node);
    }
}

void cluster_mistake_replace(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    if (cluster->uneven.replacing && cluster_mistake_lasts(cluster, MISTAKE_TWO_REPLACED)) {
        controller->progress.rebalance.replacing = REPLACING_NOBODY;
    }
}

uint64_t cluster_mistake_compute(struct cluster_node *node, uint64_t compute_us) {
    struct cluster *cluster = node->cluster;
    uint64_t now_us = sim_now(cluster->sim);
    uint64_t whole_us = now_us - node->speed.computed_us;
    bool first = node->speed.computed_us == 0;
    node->speed.computed_us = now_us;
    if (!first && cluster_mistake_lasts(cluster, MISTAKE_WAITING_COUNTED)) {
        return whole_us;
    }
    return cluster_mistake_lasts(cluster, MISTAKE_SPEED_REVERSED) ? (UINT64_C(1) << 34) / (compute_us + 1) : compute_us;
}

static void weights_lost(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].node.weight > 0 && cluster_mistake_lasts(cluster, MISTAKE_WEIGHTS_LOST)) {
            controller->members[m].node.weight = 0;
        }
    }
}

/* Makes a restarted controller count silence from its start, when it can't hear nodes yet, and ask no node again. */
void cluster_mistake_restart(struct cluster *cluster) {
    struct controller *controller = &cluster->control.controller;
    uint64_t now_us = sim_now(cluster->sim);
    bool restarted = cluster->result->counts.controller_restarts > 0 && controller->phase == PHASE_TRAIN;
    weights_lost(cluster);
    if (!restarted || !cluster_mistake_lasts(cluster, MISTAKE_IMPATIENT_RESTART)) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].silence.heard_us = now_us;
    }
    controller->features.silence.doubt_until_us = 1;
}
