/* See cluster.h. Machine 0 is the controller's. Machine 1 is the operator's, from which nodes are evicted. The nodes'
 * machines follow. */
#include "bench/scale/cluster.h"

#include "agileml/base/memory.h"
#include "agileml/control/state/controller.h"
#include "agileml/ps/server.h"
#include "agileml/wire/report_line.h"
#include "bench/measure.h"
#include "workers/node/node.h"
#include "workers/process/pulse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONTROLLER_MACHINE = 0,
    OPERATOR_MACHINE = 1,
    FIRST_MACHINE = 2,
    HEARTBEAT_MS = 100,
    TIMEOUT_MS = 600 * 1000, /* long, as queues may be; pulses detect losses */
    NOTICE_MS = 120 * 1000,
    LOSS_EVERY = 6 /* iterations from a recovery to the next loss, so that the new nodes take part */
};
static const char CONTROLLER_ENDPOINT[] = "tcp://controller:7000";
static const actor_id OPERATOR = UINT64_C(0xFFFF) << ACTOR_PART_BITS;

struct scale_node {
    struct scale *scale;
    unsigned number; /* number of the node, from 0 */
    struct node node;
    struct server server;
    struct wire_endpoint endpoint;
    struct pulse pulse;
    struct wire_endpoint pulse_endpoint;
    enum node_tier tier;
    bool serves; /* has a server thread */
    struct model_set *sets;
    unsigned set_count;
    struct node_set *preparing; /* a copy of the set; NULL: none */
    unsigned at_set;            /* index of the set that it works on */
    uint64_t clock, began_us;
    unsigned layers; /* layers whose rows are not flushed yet, with options.layers */
    double layer_us; /* time to compute a layer */
    bool opened, ended;
};

/* A loss and the recovery from it. */
struct scale_loss {
    enum loss_state { LOSS_NONE, LOSS_LOST, LOSS_NOTICED, LOSS_PLANNED } state;
    uint64_t lost_us;
    uint64_t failures; /* failures reported before the loss */
    uint64_t clock;    /* last clock completed before the loss */
    struct cluster_recovery recovery;
    unsigned next_iteration; /* first iteration in which the next loss may be */
};

/* The change that is under way, and the sums when it began. */
struct scale_change {
    unsigned number; /* in result->changes; CLUSTER_CHANGES: all are over */
    bool under_way;
    uint64_t began_us, version;
    double sent_bytes, ack_bytes, cpu_s;
    double *told_bytes; /* by machine */
    unsigned members;   /* that there are to be */
    unsigned leaving, leaves; /* the node that is evicted next, and how many more are */
};

struct scale {
    const struct cluster_options *options;
    struct cluster_result *result;
    struct sim *sim;
    struct machines machines;
    struct controller controller;
    struct io *controller_io, *operator_io;
    struct scale_node *nodes;
    unsigned node_count; /* nodes opened so far */
    uint32_t shards;
    size_t line_next; /* next line of the report to handle */
    double seconds;   /* time of the last iteration's end */
    double bytes;     /* sent by all links until the last iteration's end */
    struct scale_loss loss;
    struct scale_change change;
    double controller_s; /* CPU time of the controller */
    bool ended;
    int code;
    char text[ERROR_TEXT_MAX];
};

static void at_later(struct scale_node *node, double after_us, void (*function)(void *context)) {
    struct sim *sim = node->scale->sim;
    sim_schedule(sim, FIRST_MACHINE + node->number, sim_now(sim) + (uint64_t)after_us, function, node);
}

static void scale_fail(struct scale *scale, const char *text) {
    if (scale->code == 0) {
        scale->code = AML_EFAIL;
        snprintf(scale->text, sizeof scale->text, "%s", text);
    }
    scale->ended = true;
}

/* ---- The app, in place of a process's threads ---- */

static void prepare_done(void *context) {
    struct scale_node *node = context;
    const struct node_set *wanted = node->preparing;
    node->sets = memory_resized(node->sets, node->set_count + 1, sizeof *node->sets);
    struct model_set *set = &node->sets[node->set_count++];
    if (!model_set_open(node->scale->options->model, wanted->number, wanted->shards, wanted->count, node->scale->shards,
                        &node->node.cache, set)) {
        scale_fail(node->scale, "a node's cache is full");
    }
    const double totals[WIRE_TOTALS] = {set->ratings};
    free(node->preparing->shards);
    free(node->preparing);
    node->preparing = NULL;
    node_prepared(&node->node, set->number, (uint64_t)set->ratings, totals);
}

static void hook_prepare(void *context, const struct node_set *set) {
    struct scale_node *node = context;
    const struct model *model = node->scale->options->model;
    double ratings = model->ratings * set->count / node->scale->shards;
    node->preparing = memory_zeroed(1, sizeof *node->preparing);
    *node->preparing = (struct node_set){.number = set->number, .count = set->count};
    node->preparing->shards = memory_resized(NULL, set->count, sizeof *set->shards);
    memcpy(node->preparing->shards, set->shards, set->count * sizeof *set->shards);
    at_later(node, model_load_us(model, ratings), prepare_done);
}

static struct model_set *set_find(struct scale_node *node, unsigned number) {
    unsigned s = 0;
    while (s + 1 < node->set_count && node->sets[s].number != number) {
        s++;
    }
    return &node->sets[s];
}

static void hook_release(void *context, unsigned number) {
    struct scale_node *node = context;
    struct model_set *set = set_find(node, number);
    model_set_close(set);
    *set = node->sets[--node->set_count];
}

static void compute_done(void *context) {
    struct scale_node *node = context;
    struct scale *scale = node->scale;
    struct error error = {0};
    for (uint32_t p = 0; p < node->node.client.partition_count; p++) {
        if (client_gather(&node->node.client, p, &error) != 0) {
            scale_fail(scale, error.text);
        }
    }
    node_computed(&node->node, model_items(scale->options->model, set_find(node, node->at_set)),
                  sim_now(scale->sim) - node->began_us);
}

/* The last layer that is not flushed has been computed. Flushes its rows; the first layer's rows are flushed at the
 * end. */
static void layer_done(void *context) {
    struct scale_node *node = context;
    struct client *client = &node->node.client;
    const struct cluster_options *options = node->scale->options;
    const uint64_t rows = options->model->items;
    const uint64_t first = rows * --node->layers / options->layers;
    const struct client_range range = {
        .table = MODEL_ITEMS, .first = first, .count = rows * (node->layers + 1) / options->layers - first};
    for (uint32_t p = 0; p < client->partition_count; p++) {
        struct retained_flush piece;
        if (client_gather_piece(client, p, &range, 1, &piece)) {
            client_add_piece(client, p, &piece);
        }
    }
    client_send_pieces(client);
    node_wake(&node->node);
    at_later(node, node->layer_us, node->layers > 1 ? layer_done : compute_done);
}

static void hook_compute(void *context, unsigned set, uint64_t clock) {
    struct scale_node *node = context;
    struct scale *scale = node->scale;
    double chance = (double)(sim_random(scale->sim) >> 11) * 0x1p-53;
    node->at_set = set;
    node->began_us = sim_now(scale->sim);
    double us = model_compute(scale->options->model, set_find(node, set), clock, &node->node.cache, chance);
    node->layers = scale->options->layers;
    if (node->layers > 1 && client_may_piece(&node->node.client)) {
        node->layer_us = us * scale->options->layers_share / node->layers;
        at_later(node, us * (1 - scale->options->layers_share) + node->layer_us, layer_done);
        return;
    }
    at_later(node, us, compute_done);
}

static void evaluate_done(void *context) {
    struct scale_node *node = context;
    const struct wire_metric_sum sum = {.sum = 1, .weight = 1};
    node_evaluated(&node->node, &sum);
}

static void hook_evaluate(void *context, unsigned set, uint64_t clock, bool again) {
    (void)set;
    (void)clock;
    (void)again;
    at_later(context, 0, evaluate_done);
}

static void save_done(void *context) {
    node_saved(&((struct scale_node *)context)->node, 0, "");
}

static void hook_save(void *context) {
    at_later(context, 0, save_done);
}

static void hook_unsave(void *context) {
    (void)context; /* a checkpoint is complete at once */
}

static void hook_end(void *context, int code, const char *text) {
    struct scale_node *node = context;
    node->ended = true;
    if (code != 0) {
        scale_fail(node->scale, text);
    }
    sim_remove(node->scale->sim, FIRST_MACHINE + node->number);
}

static void hook_rejoin(void *context, const char *why) {
    scale_fail(((struct scale_node *)context)->scale, why);
}

/* ---- Nodes ---- */

static void node_begin(void *context) {
    node_start(&((struct scale_node *)context)->node);
}

static void open_pulse(struct scale_node *node, actor_id id) {
    struct wire_endpoint *endpoint = &node->pulse_endpoint;
    struct io *io;
    endpoint->actor = actor_pulse(id);
    snprintf(endpoint->endpoint, sizeof endpoint->endpoint, "tcp://node-%u:7002", node->number + 1);
    machine_actor(
        &node->scale->machines, FIRST_MACHINE + node->number, endpoint->actor, endpoint->endpoint,
        (struct actor){.receive = pulse_receive, .timer = pulse_timer, .broken = pulse_broken, .self = &node->pulse},
        &io);
    pulse_init(&node->pulse, io, endpoint->actor, CONTROLLER_ENDPOINT);
}

static void node_open(struct scale *scale, enum node_tier tier, bool serves) {
    static const struct wire_metric metric = {.name = "objective", .kind = 1};
    struct scale_node *node = &scale->nodes[scale->node_count];
    const struct model *model = scale->options->model;
    unsigned machine = FIRST_MACHINE + scale->node_count;
    actor_id id = ((actor_id)scale->node_count + 1) << ACTOR_PART_BITS;
    struct io *io;
    *node = (struct scale_node){.scale = scale, .number = scale->node_count++, .tier = tier, .serves = serves};
    node->endpoint.actor = actor_of_part(id, 1);
    snprintf(node->endpoint.endpoint, sizeof node->endpoint.endpoint, "tcp://node-%u:7001", node->number + 1);
    machine_actor(&scale->machines, machine, node->endpoint.actor, node->endpoint.endpoint,
                  (struct actor){.receive = server_receive, .timer = server_timer, .self = &node->server}, &io);
    server_init(&node->server, io, node->endpoint.actor, &model->job, NULL);
    bool pulse = scale->options->losses.probe_ms > 0;
    if (pulse) {
        open_pulse(node, id);
    }
    struct node_options options = {.self = id,
                                   .controller = CONTROLLER_ENDPOINT,
                                   .registration = {.tier = (uint8_t)tier, .threads = model->threads},
                                   .servers = &node->endpoint,
                                   .server_count = serves ? 1 : 0,
                                   .pulse = pulse ? &node->pulse_endpoint : NULL,
                                   .metrics = &metric,
                                   .metric_count = 1,
                                   .timeout_ms = TIMEOUT_MS,
                                   .patience_ms = TIMEOUT_MS,
                                   .hooks = {.prepare = hook_prepare,
                                             .release = hook_release,
                                             .compute = hook_compute,
                                             .evaluate = hook_evaluate,
                                             .save = hook_save,
                                             .unsave = hook_unsave,
                                             .end = hook_end,
                                             .rejoin = hook_rejoin,
                                             .context = node}};
    options.registration.job = (struct job_terms){.app = "mf",
                                                  .staleness = model->staleness,
                                                  .clocks_per_iteration = model->clocks,
                                                  .local_steps = 1,
                                                  .iterations = scale->options->iterations};
    snprintf(options.registration.name, sizeof options.registration.name, "node-%u", node->number + 1);
    machine_actor(&scale->machines, machine, id, "",
                  (struct actor){.receive = node_receive, .timer = node_timer, .self = &node->node}, &io);
    node_init(&node->node, io, &options, &model->job);
    node->opened = true;
    at_later(node, 0, node_begin);
}

static void node_shut(struct scale_node *node) {
    if (node->preparing != NULL) {
        free(node->preparing->shards);
        free(node->preparing);
    }
    for (unsigned s = 0; s < node->set_count; s++) {
        model_set_close(&node->sets[s]);
    }
    free(node->sets);
    pulse_close(&node->pulse);
    server_close(&node->server);
    node_close(&node->node);
}

/* ---- Losses ---- */

static void lose_one(struct scale_node *node) {
    unsigned machine = FIRST_MACHINE + node->number;
    node->ended = true;
    if (node->scale->options->losses.silent) {
        sim_remove(node->scale->sim, machine);
    } else {
        sim_end(node->scale->sim, machine);
    }
}

static void lose_some(void *context) {
    struct scale *scale = context;
    scale->loss.state = LOSS_LOST;
    scale->loss.lost_us = sim_now(scale->sim);
    scale->loss.failures = scale->controller.progress.failures;
    scale->loss.clock = scale->controller.progress.completed;
    for (unsigned n = 0; n < scale->options->losses.at_once;) {
        struct scale_node *node = &scale->nodes[sim_random(scale->sim) % scale->node_count];
        if (node->tier == TIER_TRANSIENT && !node->ended) {
            lose_one(node);
            n++;
        }
    }
}

/* Draws the time of the next loss at the start of an iteration, if a loss is due in it. Assumes that the iteration
 * takes as long as the one before, `iteration_seconds`. */
static void plan_loss(struct scale *scale, double iteration_seconds) {
    const struct cluster_losses *losses = &scale->options->losses;
    struct scale_loss *loss = &scale->loss;
    if (scale->result->recovery_count < losses->times && loss->state == LOSS_NONE &&
        scale->result->count >= loss->next_iteration) {
        loss->next_iteration = UINT32_MAX;
        sim_schedule(scale->sim, OPERATOR_MACHINE,
                     sim_now(scale->sim) + sim_random(scale->sim) % (uint64_t)(iteration_seconds * 1e6 + 1), lose_some,
                     scale);
    }
}

static void recovered(struct scale *scale) {
    struct scale_loss *loss = &scale->loss;
    struct cluster_result *result = scale->result;
    result->recoveries = memory_resized(result->recoveries, result->recovery_count + 1, sizeof *result->recoveries);
    result->recoveries[result->recovery_count++] = loss->recovery;
    *loss = (struct scale_loss){.next_iteration = result->count + LOSS_EVERY};
    for (unsigned n = 0; n < scale->options->losses.at_once; n++) {
        node_open(scale, TIER_TRANSIENT, true);
    }
    scale->ended = result->recovery_count == scale->options->losses.times;
}

/* Called after each step of the controller: records the progress of the recovery from a loss. */
static void watch_loss(struct scale *scale) {
    const struct controller *controller = &scale->controller;
    struct scale_loss *loss = &scale->loss;
    double seconds = (double)(sim_now(scale->sim) - loss->lost_us) / 1e6;
    if (loss->state == LOSS_LOST && controller->progress.failures >= loss->failures + scale->options->losses.at_once) {
        loss->state = LOSS_NOTICED;
        loss->recovery.noticed = seconds;
    }
    if (loss->state == LOSS_NOTICED && !controller->verdicts.fence && controller->change.state != CHANGE_RECOVER) {
        loss->state = LOSS_PLANNED;
        loss->recovery.planned = seconds;
    }
    if (loss->state == LOSS_PLANNED && controller->progress.completed > loss->clock &&
        controller->progress.completed > controller->plan.restore) {
        loss->recovery.completed = seconds;
        recovered(scale);
    }
}

/* ---- Evictions ---- */

/* Evicts `count` nodes. */
static void evict(struct scale *scale, const struct scale_node *nodes, unsigned count) {
    struct message message = {.type = MESSAGE_EVICT, .frame_count = 1};
    message.evict.request = 1;
    message.evict.notice_ms = NOTICE_MS;
    message.frames[0] = buffer_new(count * (size_t)WIRE_NAME_MAX);
    memset(message.frames[0]->data, 0, message.frames[0]->size);
    for (unsigned n = 0; n < count; n++) {
        memcpy(message.frames[0]->data + n * (size_t)WIRE_NAME_MAX, nodes[n].node.name, WIRE_NAME_MAX);
    }
    scale->operator_io->send(scale->operator_io, ACTOR_CONTROLLER, &message);
}

/* ---- Changes, one after the other ---- */

static const struct part *controller_part(const struct scale *scale) {
    return scale->machines.list[CONTROLLER_MACHINE].parts;
}

static void leave_one(void *context) {
    struct scale *scale = context;
    struct scale_change *change = &scale->change;
    evict(scale, &scale->nodes[change->leaving++], 1);
    if (--change->leaves > 0) {
        sim_schedule(scale->sim, OPERATOR_MACHINE, sim_now(scale->sim) + CLUSTER_LEAVES_EACH_MS * UINT64_C(1000),
                     leave_one, scale);
    }
}

static void change_begin(struct scale *scale) {
    struct scale_change *change = &scale->change;
    change->under_way = true;
    change->began_us = sim_now(scale->sim);
    change->version = scale->controller.plan.version;
    change->sent_bytes = controller_part(scale)->sent_bytes;
    change->ack_bytes = controller_part(scale)->ack_bytes;
    change->cpu_s = scale->controller_s;
    for (unsigned m = FIRST_MACHINE; m < scale->machines.count; m++) {
        change->told_bytes[m] = scale->machines.list[m].told_bytes;
    }
    change->members = scale->controller.member_count;
    if (change->number == 0) {
        change->members++;
        node_open(scale, TIER_TRANSIENT, true);
    } else if (change->number == 1) {
        change->members--;
        evict(scale, &scale->nodes[scale->options->reliable], 1);
    } else if (change->number == 2) {
        change->members--;
        scale->nodes[scale->options->reliable + 1].ended = true;
        sim_end(scale->sim, FIRST_MACHINE + scale->options->reliable + 1);
    } else {
        change->leaving = scale->options->reliable + 2;
        change->leaves = change->members / 2;
        change->members -= change->leaves;
        leave_one(scale);
    }
}

static void change_over(struct scale *scale) {
    struct scale_change *change = &scale->change;
    struct cluster_change *result = &scale->result->changes[change->number];
    const struct part *part = controller_part(scale);
    *result = (struct cluster_change){.seconds = (double)(sim_now(scale->sim) - change->began_us) / 1e6,
                                      .plans = (double)(scale->controller.plan.version - change->version),
                                      .sent_bytes = part->sent_bytes - change->sent_bytes,
                                      .ack_bytes = part->ack_bytes - change->ack_bytes,
                                      .cpu_ms = 1e3 * (scale->controller_s - change->cpu_s)};
    for (unsigned m = FIRST_MACHINE; m < scale->machines.count; m++) {
        double told_bytes = scale->machines.list[m].told_bytes - change->told_bytes[m];
        bool joined = change->number == 0 && m == FIRST_MACHINE + scale->node_count - 1;
        double *most = joined ? &result->new_bytes : &result->most_bytes;
        *most = told_bytes > *most ? told_bytes : *most;
    }
    change->under_way = false;
    scale->ended = ++change->number == CLUSTER_CHANGES;
}

/* Called after each step of the controller: begins a change when nothing else is under way, and ends it then. */
static void watch_change(struct scale *scale) {
    const struct controller *controller = &scale->controller;
    bool settled = controller->phase == PHASE_TRAIN && controller->change.state == CHANGE_NONE &&
                   !controller->change.due && !controller->verdicts.fence && !controller->plan.names_absent &&
                   controller->progress.completed > controller->plan.restore + 1;
    for (unsigned m = 0; m < controller->member_count && settled; m++) {
        settled = controller->members[m].settled && controller->members[m].stay == MEMBER_STAYS &&
                  controller->members[m].goes_by.version == controller->plan.version;
    }
    if (!scale->options->changes || scale->ended || !settled) {
        return;
    }
    if (!scale->change.under_way) {
        uint64_t rest_us = controller->member_count * (uint64_t)CONTROLLER_CHANGE_GAP_US;
        if (sim_now(scale->sim) > controller->plan.published_us + rest_us) { /* no change waits for another */
            change_begin(scale);
        }
    } else if (controller->member_count == scale->change.members && controller->plan.version > scale->change.version) {
        change_over(scale);
    }
}

/* ---- The controller and what it reports ---- */

/* Returns the bytes sent by all links since the run began. */
static double bytes_sent(const struct scale *scale) {
    double busy_us = 0;
    for (unsigned m = FIRST_MACHINE; m < scale->machines.count; m++) {
        busy_us += scale->machines.list[m].out_busy_us;
    }
    return busy_us / 1e6 * scale->machines.costs.bytes_per_second;
}

static void iteration_ended(struct scale *scale, const struct report_line *line) {
    struct cluster_result *result = scale->result;
    const struct cluster_options *options = scale->options;
    double seconds = line->seconds;
    const double bytes = bytes_sent(scale);
    result->iterations = memory_resized(result->iterations, result->count + 1, sizeof *result->iterations);
    result->iterations[result->count++] =
        (struct cluster_iteration){.seconds = seconds - scale->seconds,
                                   .bytes = bytes - scale->bytes,
                                   .stage = line->stage.number > 0 ? (unsigned)line->stage.number : 0,
                                   .nodes = (unsigned)(line->reliable + line->transient)};
    plan_loss(scale, seconds - scale->seconds);
    scale->seconds = seconds;
    scale->bytes = bytes;
    if (options->join > 0 && result->count + 1 == options->join_iteration) {
        for (unsigned n = 0; n < options->join; n++) {
            node_open(scale, TIER_TRANSIENT, true);
        }
    }
    if (options->join > 0 && result->count + 1 == options->evict_iteration) {
        evict(scale, &scale->nodes[scale->node_count - options->join], options->join);
    }
}

static void read_report(struct scale *scale) {
    const char *text;
    while ((text = controller_line(&scale->controller, scale->line_next)) != NULL) {
        scale->line_next++;
        if (scale->options->report != NULL) {
            fprintf(scale->options->report, "%s\n", text);
        }
        struct report_line *line = report_line_read(text, strlen(text), NULL);
        if (line->is == REPORT_ITERATION) {
            iteration_ended(scale, line);
        } else if (line->is == REPORT_SUMMARY) {
            scale->result->items_redone = (uint64_t)line->items_redone;
        }
        report_line_drop(line);
    }
}

static void control_stepped(struct scale *scale) {
    watch_loss(scale);
    watch_change(scale);
    read_report(scale);
}

/* CPU time so far, but for what the simulation takes to send the controller's messages. */
static double own_seconds(const struct scale *scale) {
    return scale->options->changes ? measure_thread_cpu() - controller_part(scale)->send_s : 0;
}

static void control_receive(void *self, actor_id from, struct message *message) {
    struct scale *scale = self;
    double start = own_seconds(scale);
    controller_receive(&scale->controller, from, message);
    scale->controller_s += own_seconds(scale) - start;
    control_stepped(scale);
}

static void control_timer(void *self) {
    struct scale *scale = self;
    double start = own_seconds(scale);
    controller_timer(&scale->controller);
    scale->controller_s += own_seconds(scale) - start;
    control_stepped(scale);
}

static void control_broken(void *self, actor_id peer) {
    struct scale *scale = self;
    controller_broken(&scale->controller, peer);
    control_stepped(scale);
}

static void control_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    struct scale *scale = self;
    controller_dialed(&scale->controller, actor, began_us, listens);
    control_stepped(scale);
}

static void control_end(void *context, int code, const char *text) {
    struct scale *scale = context;
    read_report(scale);
    if (code != 0) {
        scale_fail(scale, text);
    }
    scale->ended = true;
}

static void operator_receive(void *self, actor_id from, struct message *message) {
    struct scale *scale = self;
    (void)from;
    if (message->type == MESSAGE_OUTCOME && message->outcome.code != 0) {
        scale_fail(scale, message->outcome.text);
    }
}

static void operator_timer(void *self) {
    (void)self;
}

static int control_open(struct scale *scale, struct error *error) {
    const struct cluster_options *options = scale->options;
    const struct controller_options control = {
        .reliable = options->reliable,
        .transient = options->transient,
        .policy = {.stage = options->stage, .partitions = options->partitions, .shards = scale->shards},
        .commit_every = options->commit_every,
        .heartbeat_ms = HEARTBEAT_MS,
        .timeout_ms = TIMEOUT_MS,
        .answer_ms = 3 * TIMEOUT_MS,
        .start_timeout_ms = TIMEOUT_MS,
        .probe_ms = options->losses.probe_ms,
        .end = control_end,
        .context = scale};
    machine_actor(&scale->machines, CONTROLLER_MACHINE, ACTOR_CONTROLLER, CONTROLLER_ENDPOINT,
                  (struct actor){.receive = control_receive,
                                 .timer = control_timer,
                                 .broken = control_broken,
                                 .dialed = control_dialed,
                                 .self = scale},
                  &scale->controller_io);
    machine_actor(&scale->machines, OPERATOR_MACHINE, OPERATOR, "",
                  (struct actor){.receive = operator_receive, .timer = operator_timer, .self = scale},
                  &scale->operator_io);
    scale->machines.list[CONTROLLER_MACHINE].parts->timed = options->changes;
    scale->operator_io->connect(scale->operator_io, ACTOR_CONTROLLER, CONTROLLER_ENDPOINT);
    return controller_init(&scale->controller, scale->controller_io, &control, error);
}

/* ---- The run ---- */

static void scale_open(struct scale *scale) {
    const struct cluster_options *options = scale->options;
    unsigned nodes = options->reliable + options->transient + options->join;
    unsigned machines = nodes + options->losses.times * options->losses.at_once + (options->changes ? 1 : 0);
    const struct sim_config network = {.nodes = FIRST_MACHINE + machines,
                                       .latency_min_us = (uint64_t)options->costs.latency_us,
                                       .latency_max_us = (uint64_t)options->costs.latency_us,
                                       /* machine.h simulates links instead */
                                       .bytes_per_second_min = UINT64_C(1) << 50,
                                       .bytes_per_second_max = UINT64_C(1) << 50,
                                       .hold_max_us = 1,
                                       .reconnect_max_us = 1};
    scale->shards = controller_shards(nodes);
    scale->nodes = memory_zeroed(machines, sizeof *scale->nodes);
    scale->loss.next_iteration = LOSS_EVERY;
    scale->sim = sim_open(options->seed, &network);
    machines_open(&scale->machines, scale->sim, network.nodes, &options->costs);
    scale->change.told_bytes = memory_zeroed(network.nodes, sizeof *scale->change.told_bytes);
}

static void scale_close(struct scale *scale) {
    for (unsigned n = 0; n < scale->node_count; n++) {
        node_shut(&scale->nodes[n]);
    }
    controller_close(&scale->controller);
    machines_close(&scale->machines);
    sim_close(scale->sim);
    free(scale->nodes);
    free(scale->change.told_bytes);
}

static double busiest_share(const struct scale *scale) {
    double most_us = 0;
    for (unsigned m = FIRST_MACHINE; m < scale->machines.count; m++) {
        const struct machine *machine = &scale->machines.list[m];
        most_us = machine->out_busy_us > most_us ? machine->out_busy_us : most_us;
        most_us = machine->in_busy_us > most_us ? machine->in_busy_us : most_us;
    }
    return most_us / (double)sim_now(scale->sim);
}

int cluster_run(const struct cluster_options *options, struct cluster_result *result, struct error *error) {
    struct scale scale = {.options = options, .result = result};
    *result = (struct cluster_result){0};
    scale_open(&scale);
    int code = control_open(&scale, error);
    for (unsigned n = 0; n < options->reliable + options->transient && code == 0; n++) {
        bool transient = n >= options->reliable;
        node_open(&scale, transient ? TIER_TRANSIENT : TIER_RELIABLE,
                  !transient || options->active == 0 || n < options->reliable + options->active);
    }
    while (code == 0 && !scale.ended) {
        if (!sim_step(scale.sim)) {
            scale_fail(&scale, "the simulated job stands still");
        }
    }
    if (code == 0 && scale.code != 0) {
        code = error_set(error, scale.code, "%s", scale.text);
    }
    result->link_share = busiest_share(&scale);
    result->events = sim_statistics(scale.sim)->events;
    scale_close(&scale);
    return code;
}
