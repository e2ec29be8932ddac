/* The simulated cluster's controller process, its store, and the operator. The controller may die and restart at any
 * moment, even during a write to its store. The operator requests evictions and reports machines that ended. See
 * cluster_private.h. */
#include "tests/sim/cluster_private.h"

#include <stdlib.h>
#include <string.h>

static const char CONTROLLER_ENDPOINT[] = "tcp://controller:7000";

enum { OPERATOR_REPEAT_US = 300 * 1000, OPERATOR_CHECKPOINT_ONE_IN = 20, LINE_BYTES_MAX = 1 << 17 };

/* ---- The store ---- */

static struct stored *store_place(struct cluster_store *store, const char *key, bool *found) {
    unsigned at = 0;
    while (at < store->count && strcmp(store->entries[at].key, key) < 0) {
        at++;
    }
    *found = at < store->count && strcmp(store->entries[at].key, key) == 0;
    return &store->entries[at];
}

static void store_remove(struct cluster_store *store, const char *key) {
    bool found;
    struct stored *stored = store_place(store, key, &found);
    if (found) {
        free(stored->bytes);
        size_t behind = (size_t)(store->entries + store->count - (stored + 1));
        memmove(stored, stored + 1, behind * sizeof *stored);
        store->count--;
    }
}

static void store_put(struct cluster_store *store, const struct store_entry *entry) {
    store_remove(store, entry->key);
    if (entry->bytes == NULL) {
        return;
    }
    store->entries = memory_resized(store->entries, store->count + 1, sizeof *store->entries);
    bool found;
    struct stored *stored = store_place(store, entry->key, &found);
    memmove(stored + 1, stored, (size_t)(store->entries + store->count - stored) * sizeof *stored);
    store->count++;
    *stored = (struct stored){.size = entry->size, .bytes = memory_zeroed(entry->size + 1, 1)};
    memcpy(stored->key, entry->key, strlen(entry->key) + 1);
    memcpy(stored->bytes, entry->bytes, entry->size);
}

static int store_write(struct store *self, const struct store_entry *entries, unsigned count, struct error *error) {
    struct cluster_store *store = (struct cluster_store *)(void *)self;
    struct cluster_controller *control = &store->cluster->control;
    if (control->crashed) {
        return 0; /* the controller's process has crashed: nothing is written */
    }
    store->forgets = store->forgets || cluster_mistake_due(store->cluster, MISTAKE_STORE_WRITE_LOST);
    if (store->forgets) {
        return 0;
    }
    enum store_fault fault = STORE_WORKS;
    if (store->fault != STORE_WORKS && store->writes_left-- == 0) {
        fault = store->fault;
        store->fault = STORE_WORKS;
    }
    if (fault == STORE_FAILS) {
        store->cluster->faults.may_fail = true;
        return error_set(error, AML_EFAIL, CLUSTER_STORE_FULL);
    }
    for (unsigned e = 0; e < count && fault != STORE_CRASH_BEFORE; e++) {
        if (strlen(entries[e].key) >= STORE_KEY_MAX) {
            cluster_violation(store->cluster, "app", "the store's key %s is too long", entries[e].key);
            return 0;
        }
        store_put(store, &entries[e]);
    }
    control->crashed = fault != STORE_WORKS;
    return 0;
}

static int store_read(struct store *self,
                      int (*each)(void *context, const char *key, const void *bytes, size_t size, struct error *error),
                      void *context, struct error *error) {
    struct cluster_store *store = (struct cluster_store *)(void *)self;
    int result = 0;
    for (unsigned e = 0; e < store->count && result == 0; e++) {
        result = each(context, store->entries[e].key, store->entries[e].bytes, store->entries[e].size, error);
    }
    return result;
}

static void store_nothing(struct store *self) {
    (void)self;
}

/* ---- The controller's io ---- */

static struct cluster_controller *io_control(struct io *io) {
    return (struct cluster_controller *)(void *)io;
}

static uint64_t control_now(struct io *io) {
    struct io *network = io_control(io)->network;
    return network->now_us(network);
}

static uint64_t control_random(struct io *io) {
    struct io *network = io_control(io)->network;
    return network->random(network);
}

/* Kills the controller after its store lost a write, so that the next controller lacks the write. */
static void kill_forgetful(void *context) {
    struct cluster *cluster = context;
    cluster_control_kill(cluster, cluster->drawn.timeout_ms * UINT64_C(100));
}

static void control_send(struct io *io, actor_id to, struct message *message) {
    struct cluster_controller *control = io_control(io);
    if (control->crashed) {
        message_close(message);
        return;
    }
    if (message->type == MESSAGE_PACKED_PLAN) {
        struct cluster *cluster = control->cluster;
        if (cluster->store.forgets && message->packed_plan.version > cluster->seen.plan.terms.version) {
            sim_schedule(cluster->sim, CLUSTER_OPERATOR, sim_now(cluster->sim) + 20 * 1000, kill_forgetful, cluster);
        }
        cluster_check_plan(cluster);
    }
    control->network->send(control->network, to, message);
}

static void control_set_timer(struct io *io, uint64_t at_us) {
    struct cluster_controller *control = io_control(io);
    if (!control->crashed) {
        control->network->set_timer(control->network, at_us);
    }
}

static void control_admit(struct io *io, const struct wire_node *nodes, size_t count) {
    struct cluster_controller *control = (struct cluster_controller *)(void *)io;
    control->network->admit(control->network, nodes, count);
}

static void control_connect(struct io *io, actor_id actor, const char *endpoint) {
    struct cluster_controller *control = io_control(io);
    if (!control->crashed) {
        control->network->connect(control->network, actor, endpoint);
    }
}

static void control_dial(struct io *io, actor_id actor, const char *endpoint) {
    struct cluster_controller *control = io_control(io);
    if (!control->crashed) {
        control->network->dial(control->network, actor, endpoint);
    }
}

/* ---- The controller's process ---- */

static void control_start(void *context);

static void control_trace(const struct cluster *cluster, const char *what) {
    if (cluster->options.trace != NULL) {
        fprintf(cluster->options.trace, "%12.6f controller %s\n", (double)sim_now(cluster->sim) / 1e6, what);
    }
}

static void control_end(void *context, int code, const char *text) {
    struct cluster *cluster = context;
    struct cluster_controller *control = &cluster->control;
    if (control->crashed) {
        return;
    }
    /* Over before the operator was heard, so that the controller did not wait for it: the lines are read here. */
    const char *line = NULL;
    while (control->controller.report.observer_count == 0 &&
           (line = controller_line(&control->controller, cluster->report.lines_read)) != NULL) {
        cluster->report.lines_read++;
        cluster_check_line(cluster, line);
    }
    control->ended = true;
    control_trace(cluster, "has ended");
    control->ended_us = sim_now(cluster->sim);
    control->code = code;
    memcpy(control->text, text, strnlen(text, sizeof control->text - 1));
}

void cluster_control_kill(struct cluster *cluster, uint64_t restart_us) {
    struct cluster_controller *control = &cluster->control;
    if (!control->running || control->ended) {
        return;
    }
    control->running = false;
    control_trace(cluster, "is killed");
    control->network->set_timer(control->network, 0);
    controller_close(&control->controller);
    uint64_t at_us = sim_now(cluster->sim) + restart_us;
    cluster->faults.stunned_us = at_us > cluster->faults.stunned_us ? at_us : cluster->faults.stunned_us;
    sim_restart(cluster->sim, CLUSTER_CONTROLLER, at_us);
    cluster_not_calm(cluster, at_us + IO_RECONNECT_US);
    sim_schedule(cluster->sim, CLUSTER_CONTROLLER, at_us, control_start, cluster);
}

/* After each step of the controller, in which it may have crashed. */
static void control_stepped(struct cluster *cluster) {
    struct cluster_controller *control = &cluster->control;
    cluster_lines_written(cluster);
    if (control->crashed) {
        cluster->feed.members = 0; /* these were the members of the controller before */
        cluster_control_kill(cluster, control->restart_us);
        return;
    }
    cluster_uneven_stepped(cluster);
    cluster_feed_check_control(cluster);
    cluster_feed_control(cluster);
    cluster_strategy_control(cluster);
    cluster_pulse_check_control(cluster);
    cluster_feed_mistake_control(cluster);
}

static void control_start(void *context) {
    struct cluster *cluster = context;
    struct cluster_controller *control = &cluster->control;
    struct error error = {0};
    struct controller_options options = {
        .reliable = cluster->drawn.initial_reliable,
        .transient = cluster->drawn.initial_transient,
        .policy = cluster->policy,
        .thresholds = cluster->drawn.thresholds,
        .commit_every = cluster->drawn.commit_every,
        .heartbeat_ms = cluster->drawn.heartbeat_ms,
        .timeout_ms = cluster->drawn.timeout_ms,
        .answer_ms = cluster->options.mistake == MISTAKE_ANSWER_AWAITED ? UINT32_MAX : 3 * cluster->drawn.timeout_ms,
        .probe_ms = cluster->drawn.probe_ms,
        .start_timeout_ms = 2 * cluster->drawn.timeout_ms,
        .checkpoint = cluster->run.disk[0] != '\0' ? cluster->run.disk : NULL,
        .checkpoint_every = cluster->drawn.checkpoint_every,
        .checkpoint_at_end = cluster->run.checkpoint_at_end,
        .resume = cluster->drawn.resume[0] != '\0' ? cluster->drawn.resume : NULL,
        .store = &cluster->store.store,
        .end = control_end,
        .context = cluster};
    cluster_uneven_options(cluster, &options);
    cluster_feed_options(cluster, &options);
    cluster->result->counts.controller_restarts += control->started ? 1 : 0;
    control->started = true;
    control->running = true;
    control_trace(cluster, "starts");
    control->crashed = cluster->store.forgets = false;
    int result = controller_init(&control->controller, &control->io, &options, &error);
    if (result != 0 && !control->crashed) {
        cluster_violation(cluster, "app", "controller_init: %s", error.text);
        control->running = false; /* a forged checkpoint may be impossible to resume */
        return;
    }
    cluster_mistake_restart(cluster);
    cluster_uneven_restarted(cluster);
    control_stepped(cluster);
}

static void control_receive(void *self, actor_id from, struct message *message) {
    struct cluster *cluster = self;
    if (!cluster->control.running || cluster->control.ended) {
        return;
    }
    cluster_schedule_see(cluster, NULL, from, message);
    if (!cluster->control.running) {
        return;
    }
    struct cluster_node *node = cluster_node_of(cluster, from);
    if (message->type == MESSAGE_FENCED && node != NULL && message->epoch > node->fate.fenced) {
        node->fate.fenced = message->epoch;
    }
    cluster_mistake_controller(cluster, from, message);
    cluster_pulse_see(cluster, message);
    cluster_check_accusation(cluster, node, message);
    cluster_mad_controller(cluster, from, message);
    cluster_check_written(cluster, message);
    controller_receive(&cluster->control.controller, from, message);
    control_stepped(cluster);
}

static void control_timer(void *self) {
    struct cluster *cluster = self;
    if (cluster->control.running && !cluster->control.ended) {
        controller_timer(&cluster->control.controller);
        control_stepped(cluster);
    }
}

static void control_broken(void *self, actor_id peer) {
    struct cluster *cluster = self;
    bool ignored = cluster->options.mistake == MISTAKE_SUSPICION_IGNORED && cluster->result->mistaken;
    if (cluster->control.running && !cluster->control.ended && !ignored) {
        controller_broken(&cluster->control.controller, peer);
        control_stepped(cluster);
    }
}

static void control_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    struct cluster *cluster = self;
    if (cluster->control.running && !cluster->control.ended) {
        controller_dialed(&cluster->control.controller, actor, began_us, listens);
        control_stepped(cluster);
    }
}

/* ---- The operator ---- */

static void operator_send(struct cluster *cluster, const struct operator_request *request) {
    struct message message = {.type = request->type, .frame_count = 1};
    if (request->type == MESSAGE_ALLOCATION) {
        message.allocation.request = request->number;
    } else if (request->type == MESSAGE_GONE) {
        message.gone = (struct message_gone){.request = request->number, .signal = request->detail};
    } else {
        message.evict = (struct message_evict){.request = request->number, .notice_ms = request->detail};
    }
    message.frames[0] = buffer_hold(request->frame);
    cluster->operator.io->send(cluster->operator.io, ACTOR_CONTROLLER, &message);
}

static void operator_observe(struct cluster *cluster) {
    struct message message = {.type = MESSAGE_OBSERVE, .observe = {.from = cluster->report.lines_read}};
    cluster->operator.io->send(cluster->operator.io, ACTOR_CONTROLLER, &message);
}

static void operator_timer(void *self) {
    struct cluster *cluster = self;
    operator_observe(cluster);
    for (unsigned r = 0; r < cluster->operator.request_count; r++) {
        if (cluster->operator.requests[r].type != 0) {
            operator_send(cluster, &cluster->operator.requests[r]);
        }
    }
    if (cluster->run.disk[0] != '\0' && cluster_one_in(cluster, OPERATOR_CHECKPOINT_ONE_IN)) {
        struct message now = {.type = MESSAGE_CHECKPOINT_NOW,
                              .checkpoint_now = {.request = CLUSTER_REQUESTS_MAX + 1 + cluster_draw(cluster) % 100}};
        cluster->operator.io->send(cluster->operator.io, ACTOR_CONTROLLER, &now);
    }
    cluster->operator.io->set_timer(cluster->operator.io, sim_now(cluster->sim) + OPERATOR_REPEAT_US);
}

/* Reads a line of the report if it is the next line. Lines may be repeated; lines after a lost one are requested
 * again. */
static void operator_read(struct cluster *cluster, const struct message *message) {
    char line[LINE_BYTES_MAX];
    size_t size = message->frames[0]->size;
    if (message->report.number != cluster->report.lines_read) {
        return;
    }
    if (size >= sizeof line) {
        cluster_violation(cluster, "report", "a line of %zu bytes", size);
        return;
    }
    memcpy(line, message->frames[0]->data, size);
    line[size] = '\0';
    cluster->report.lines_read++;
    cluster_check_line(cluster, line);
    if (cluster->report.summed_up || cluster->report.lines_read % (CONTROLLER_BURST_MAX / 2) == 0) {
        operator_observe(cluster);
    }
}

static void operator_receive(void *self, actor_id from, struct message *message) {
    struct cluster *cluster = self;
    (void)from;
    if (message->type == MESSAGE_REPORT) {
        operator_read(cluster, message);
    }
    for (unsigned r = 0; r < cluster->operator.request_count && message->type == MESSAGE_OUTCOME; r++) {
        if (cluster->operator.requests[r].number == message->outcome.request) {
            cluster->operator.requests[r].type = 0;
        }
    }
}

/* Returns NULL when there are too many requests. */
static struct operator_request *request_add(struct cluster *cluster, enum message_type type, size_t frame_bytes) {
    if (cluster->operator.request_count == CLUSTER_REQUESTS_MAX || frame_bytes == 0) {
        return NULL;
    }
    struct operator_request *request = &cluster->operator.requests[cluster->operator.request_count++];
    *request = (struct operator_request){
        .number = cluster->operator.request_count, .type = type, .frame = buffer_new(frame_bytes)};
    return request;
}

void cluster_operator_ask(struct cluster *cluster, enum message_type type, struct cluster_node *const *nodes,
                          unsigned count, uint32_t detail) {
    struct operator_request *request = request_add(cluster, type, count * (size_t)WIRE_NAME_MAX);
    if (request == NULL) {
        return;
    }
    request->detail = detail;
    for (unsigned n = 0; n < count; n++) {
        memcpy(request->frame->data + n * (size_t)WIRE_NAME_MAX, nodes[n]->node.name, WIRE_NAME_MAX);
    }
    operator_send(cluster, request);
}

void cluster_operator_announce(struct cluster *cluster, struct cluster_node *const *nodes, unsigned count) {
    struct operator_request *request = request_add(cluster, MESSAGE_ALLOCATION, count * sizeof(struct wire_machine));
    if (request == NULL) {
        return;
    }
    for (unsigned n = 0; n < count; n++) {
        struct wire_machine *machine = (struct wire_machine *)(void *)request->frame->data + n;
        *machine = (struct wire_machine){.tier = nodes[n]->tier};
        const char *name = nodes[n]->node.name;
        snprintf(machine->name, sizeof machine->name, "%s", name[0] != '\0' ? name : "never-comes");
    }
    operator_send(cluster, request);
}

/* ---- Construction ---- */

void cluster_control_open(struct cluster *cluster) {
    struct cluster_controller *control = &cluster->control;
    *control = (struct cluster_controller){.cluster = cluster,
                                           .io = {.now_us = control_now,
                                                  .random = control_random,
                                                  .send = control_send,
                                                  .set_timer = control_set_timer,
                                                  .connect = control_connect,
                                                  .admit = control_admit,
                                                  .dial = control_dial}};
    cluster->store = (struct cluster_store){.store = {.write = store_write, .read = store_read, .close = store_nothing},
                                            .cluster = cluster};
    sim_actor(cluster->sim, CLUSTER_CONTROLLER, ACTOR_CONTROLLER, CONTROLLER_ENDPOINT,
              (struct actor){.receive = control_receive,
                             .timer = control_timer,
                             .self = cluster,
                             .broken = control_broken,
                             .dialed = control_dialed},
              &control->network);
    actor_id operator_id = UINT64_C(0xBEEF) << ACTOR_PART_BITS;
    sim_actor(cluster->sim, CLUSTER_OPERATOR, operator_id, "",
              (struct actor){.receive = operator_receive, .timer = operator_timer, .self = cluster},
              &cluster->operator.io);
    cluster->operator.io->connect(cluster->operator.io, ACTOR_CONTROLLER, CONTROLLER_ENDPOINT);
    control_start(cluster);
    operator_timer(cluster);
}

void cluster_control_close(struct cluster *cluster) {
    if (cluster->control.running) {
        controller_close(&cluster->control.controller);
    }
    for (unsigned e = 0; e < cluster->store.count; e++) {
        free(cluster->store.entries[e].bytes);
    }
    free(cluster->store.entries);
    for (unsigned r = 0; r < cluster->operator.request_count; r++) {
        buffer_drop(cluster->operator.requests[r].frame);
    }
    cluster->operator.request_count = 0;
}
