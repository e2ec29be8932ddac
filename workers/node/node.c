/* The node agent's life: the messages that it receives and sends, and its timer. See node.h. */
#include "agileml/base/memory.h"
#include "agileml/net/links.h"
#include "agileml/wire/plan_pack.h"
#include "agileml/wire/records.h"
#include "workers/node/feed/node_feed.h"
#include "workers/node/fetch/node_fetch.h"
#include "workers/node/gossip/node_gossip.h"
#include "workers/node/lots/node_lots.h"
#include "workers/node/node_private.h"
#include "workers/node/parts/node_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void state_become(struct node *node, enum node_state state) {
    static const unsigned legal[] = {[NODE_REGISTERING] = 1 << NODE_LOADING,
                                     [NODE_LOADING] = 1 << NODE_LOADED | 1 << NODE_STARTED,
                                     [NODE_LOADED] = 1 << NODE_LOADED | 1 << NODE_STARTED,
                                     [NODE_STARTED] = 1 << NODE_FINISHED,
                                     [NODE_FINISHED] = 1 << NODE_STARTED};
    assert((legal[node->state] >> state & 1) != 0);
    node->state = state;
}

static void save_become(struct node *node, enum node_save_state state) {
    static const unsigned legal[] = {[SAVE_NONE] = 1 << SAVE_REQUESTED,
                                     [SAVE_REQUESTED] = 1 << SAVE_RUNNING,
                                     [SAVE_RUNNING] = 1 << SAVE_OVER,
                                     [SAVE_OVER] = 1 << SAVE_REQUESTED};
    assert(state == SAVE_NONE || (legal[node->save.state] >> state & 1) != 0);
    node->save.state = state;
}

/* The services, a line each. */
static const struct node_service *const SERVICE_TABLE[SERVICES] = {
    [SERVICE_FETCH] = &NODE_FETCH,   /* data shards from other nodes */
    [SERVICE_PARTS] = &NODE_PARTS,   /* an input that is divided */
    [SERVICE_LOTS] = &NODE_LOTS,     /* parts of other nodes' work */
    [SERVICE_FEED] = &NODE_FEED,     /* batches from feeders, and for others */
    [SERVICE_GOSSIP] = &NODE_GOSSIP, /* averages between local steps */
};

void node_init(struct node *node, struct io *io, const struct node_options *options, const struct job *job) {
    *node = (struct node){.io = io, .options = *options, .job = job, .contact.timeout_ms = options->timeout_ms};
    const struct job_terms *terms = &options->registration.job;
    node->barrier.clock = WIRE_CLOCK_NEVER;
    node_reports_open(node);
    node->final = terms->iterations * terms->clocks_per_iteration; /* unless the controller names an earlier one */
    memcpy(node->name, options->registration.name, sizeof node->name);
    node->servers = memory_zeroed(options->server_count + 1U, sizeof *node->servers);
    node->services = SERVICE_TABLE;
    for (unsigned s = 0; s < SERVICES; s++) {
        node->service_states[s] = memory_zeroed(1, SERVICE_TABLE[s]->state_bytes);
    }
    client_init(&node->client, io, options->self, job, &node->cache);
    io->connect(io, ACTOR_CONTROLLER, options->controller);
}

void node_close(struct node *node) {
    node_reports_close(node);
    for (unsigned s = 0; s < node->options.server_count; s++) {
        buffer_drop(node->servers[s].restore_points);
    }
    free(node->servers);
    FOR_SERVICES (node, service, close) {
        service->close(node);
    }
    for (unsigned s = 0; s < SERVICES; s++) {
        free(node->service_states[s]);
    }
    node_work_close(node);
    free(node->checkpoint.written);
    buffer_drop(node->input.shards);
    buffer_drop(node->input.files);
    buffer_drop(node->input.ranges);
    plan_close(&node->plan);
    client_close(&node->client);
    cache_close(&node->cache);
    memset(node, 0, sizeof *node);
}

bool node_crashed(struct node *node, const struct message_crashed *facts) {
    bool takes_part = !node->ended && node->contact.heartbeat_ms != 0;
    struct message crashed = {.type = MESSAGE_CRASHED, .crashed = *facts};
    if (takes_part) {
        node_send(node, &crashed);
    }
    node_stop(node);
    return takes_part;
}

/* ---- Messages to the controller ---- */

/* Returns the endpoints of this node's servers and of its pulse. */
static struct buffer *own_endpoints(const struct node *node) {
    size_t size = node->options.server_count * sizeof(struct wire_endpoint);
    bool pulse = node->options.pulse != NULL;
    struct buffer *endpoints = buffer_new(size + (pulse ? sizeof *node->options.pulse : 0));
    if (size > 0) {
        memcpy(endpoints->data, node->options.servers, size);
    }
    if (pulse) {
        memcpy(endpoints->data + size, node->options.pulse, sizeof *node->options.pulse);
    }
    return endpoints;
}

/* Passes a message of the controller on to this process's pulse. */
static void send_pulse(struct node *node, const struct message *message) {
    if (node->options.pulse != NULL) {
        struct message copy = message_share(message);
        node->io->send(node->io, node->options.pulse->actor, &copy);
    }
}

static void send_registration(struct node *node) {
    struct message message = {.type = MESSAGE_REGISTER, .registration = node->options.registration};
    const struct buffer *settings = node->options.settings;
    message_add(&message, own_endpoints(node));
    message_add_copy(&message, node->options.metrics, node->options.metric_count * sizeof(struct wire_metric));
    message_add(&message, settings != NULL ? buffer_copy(settings->data, settings->size) : buffer_new(0));
    node_send(node, &message);
}

/* The node whose server has not answered for longer than the timeout, or ACTOR_NONE. */
static actor_id silent_node(const struct node *node) {
    uint64_t since_us = 0;
    actor_id server = client_silent(&node->client, &since_us);
    bool long_enough = node_now(node) > since_us + node->contact.timeout_ms * UINT64_C(1000);
    return server != ACTOR_NONE && long_enough ? actor_node(server) : ACTOR_NONE;
}

static void send_heartbeat(struct node *node) {
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat.state = (uint8_t)node->state;
    message.heartbeat.clock = node->work.begun;
    message.heartbeat.barrier = node->barrier.number;
    message.heartbeat.version = node->plan.terms.version;
    message.heartbeat.ready = node->ready;
    message.heartbeat.committed = node->contact.told_committed = node->client.committed;
    message.heartbeat.silent = silent_node(node);
    message.heartbeat.waits = (uint8_t)node_work_waits(node, &message.heartbeat.waits_on);
    node_reports_count(node, &message.heartbeat.numbers);
    node_send(node, &message);
}

/* Sets when the node calls `repeat` next. A heartbeat that answers a message of the controller does not put that off:
 * otherwise a controller that sends one message after the other would never get what it lacks. */
static void repeat_later(struct node *node) {
    node->contact.heartbeat_us = node_now(node) + node->contact.heartbeat_ms * UINT64_C(1000);
}

static void send_input(struct node *node) {
    struct message message = {.type = MESSAGE_INPUT, .input.reading = node->input.reading};
    message.input.own = node->input.own;
    message_add(&message, buffer_hold(node->input.shards));
    message_add(&message, buffer_hold(node->input.files));
    message_add(&message, buffer_hold(node->input.ranges));
    node->input.sent_us = node_now(node);
    node_send(node, &message);
}

/* Repeats INPUT, but not with each heartbeat: the message may be large, and the last one may still be on its way. */
static void send_input_again(struct node *node) {
    if (!node_input_is_compared(node) &&
        node_now(node) >= node->input.sent_us + node->contact.timeout_ms * UINT64_C(250)) {
        send_input(node);
    }
}

static void send_evict(struct node *node) {
    uint64_t now = node_now(node);
    struct message message = {.type = MESSAGE_EVICT};
    message.evict.request = NODE_EVICT_REQUEST;
    message.evict.notice_ms = node->departure.until_us > now ? (uint32_t)((node->departure.until_us - now) / 1000) : 0;
    message_add(&message, buffer_new(0));
    node_send(node, &message);
}

static void send_accusation(struct node *node) {
    if (node->accusation.accused != ACTOR_NONE) {
        struct message accuse = {.type = MESSAGE_ACCUSE, .accuse = node->accusation};
        node_send(node, &accuse);
    }
}

/* Accuses a node, once in an epoch: the controller answers by beginning the next epoch. */
static void node_accuse(struct node *node, actor_id accused, const char *text) {
    if (node->accusation.accused == ACTOR_NONE && !node->client.fenced) {
        node->accusation.accused = accused;
        snprintf(node->accusation.text, sizeof node->accusation.text, "%s", text);
        send_accusation(node);
    }
}

static void send_leave(struct node *node) {
    struct message message = {.type = MESSAGE_LEAVE};
    node_send(node, &message);
}

/* ---- Reports of loading, readiness and commits ---- */

/* Whether the assignment begins with the first clock of the plan's epoch. */
static bool assignment_is_first(const struct node *node, const struct node_assignment *assignment) {
    return assignment->from_clock == node->plan.terms.restore + 1;
}

static void send_loaded(struct node *node) {
    struct message message = {.type = MESSAGE_LOADED};
    double totals[WIRE_TOTALS] = {0}; /* sums, then maxima */
    for (unsigned t = WIRE_TOTALS / 2; t < WIRE_TOTALS; t++) {
        totals[t] = -HUGE_VAL;
    }
    message.loaded.version = node->loaded;
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        const struct node_set *set = &node->work.sets[node->work.assignments[d].set];
        if (!assignment_is_first(node, &node->work.assignments[d])) {
            continue;
        }
        for (unsigned t = 0; t < WIRE_TOTALS; t++) {
            totals[t] = t < WIRE_TOTALS / 2 ? totals[t] + set->totals[t] : fmax(totals[t], set->totals[t]);
        }
        message.loaded.items += set->items;
    }
    message_add_copy(&message, totals, sizeof totals);
    node_send(node, &message);
}

/* Sends LOADED once for each plan, until START. */
static void tell_loaded(struct node *node) {
    if ((node->state != NODE_LOADING && node->state != NODE_LOADED) || node->loaded == node->plan.terms.version) {
        return;
    }
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        if (assignment_is_first(node, &node->work.assignments[d]) &&
            node->work.sets[node->work.assignments[d].set].state != SET_READY) {
            return;
        }
    }
    state_become(node, NODE_LOADED);
    node->loaded = node->plan.terms.version;
    send_loaded(node);
}

static bool node_is_ready(const struct node *node) {
    if (!plan_is_there(&node->plan) || node->client.fenced) {
        return false;
    }
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct node_server *server = &node->servers[s];
        if (server->has_role && (server->version < node->plan.terms.version || !server->in_step)) {
            return false;
        }
    }
    for (unsigned d = 0; d < node->work.assignment_count; d++) {
        if (node->work.sets[node->work.assignments[d].set].state != SET_READY) {
            return false;
        }
    }
    return node->work.assignment_count == 0 || client_subscribed(&node->client);
}

/* Whether the clock is committed, but no heartbeat has reported that yet. */
static bool commit_passes(const struct node *node, uint64_t clock) {
    return clock != 0 && node->client.committed >= clock && node->contact.told_committed < clock;
}

/* Sends a heartbeat at once when it brings what the controller waits for: this node is ready, or the clocks up to the
 * plan's from_clock or the job's last clock are committed. */
static void tell_ready(struct node *node) {
    bool over = commit_passes(node, node->plan.terms.from_clock) || commit_passes(node, node->plan.terms.final);
    bool ready = node->ready != node->plan.terms.version && node_is_ready(node);
    if (ready) {
        node->ready = node->plan.terms.version;
    }
    if (ready || over) {
        send_heartbeat(node);
    }
}

/* ---- One step ---- */

/* Reports by a heartbeat that this node has done all its clocks, or has more to do. The job's end follows, so the
 * controller must have the app's notes first. */
static void tell_finished(struct node *node) {
    bool through = node_work_is_through(node);
    bool finishes = node->state == NODE_STARTED && through && node_notes_arrived(node);
    if (finishes || (node->state == NODE_FINISHED && !through)) {
        state_become(node, finishes ? NODE_FINISHED : NODE_STARTED);
        send_heartbeat(node);
    }
}

/* Begins a requested save once this node's cache has the last clock's state, which the app's finish function may read.
 * When SAVE comes, the servers have that state. Pushes of it to this node may still be on their way. */
static void begin_save(struct node *node) {
    if (node->save.state == SAVE_REQUESTED && !node->save.unsaving && !node->work.occupied && node->final != 0 &&
        client_want_last(&node->client, node->final)) {
        save_become(node, SAVE_RUNNING);
        node->options.hooks.save(node->options.hooks.context);
    }
}

static uint64_t earlier(uint64_t one, uint64_t other) {
    return one < other ? one : other;
}

static void set_timer(struct node *node) {
    uint64_t pull_us = client_timer(&node->client);
    uint64_t next = earlier(node->contact.heartbeat_us, pull_us != 0 ? pull_us : UINT64_MAX);
    next = earlier(next, node_reports_due_us(node));
    FOR_SERVICES (node, service, due_us) {
        next = earlier(next, service->due_us(node));
    }
    if (next != node->timer_us) {
        node->timer_us = next;
        node->io->set_timer(node->io, next);
    }
}

/* Checks that the client's state fits the node's activity, and that the sets in use exist. */
static void assert_fits(const struct node *node) {
    const struct node_work *work = &node->work;
    const struct client *client = &node->client;
    assert(client->working == (work->activity == NODE_COMPUTING || client->lot.under_way));
    assert(!work->occupied || (work->activity != NODE_COMPUTING && work->activity != NODE_EVALUATING));
    assert(client->frozen == (work->activity == NODE_EVALUATING));
    assert(work->activity == NODE_IDLE || work->assignment.set < work->set_count);
    assert(work->activity != NODE_COMPUTING || work->clock <= work->begun);
    assert(work->evaluated <= work->begun && work->evaluation_count <= NODE_EVALUATIONS_MAX);
    assert(client->plan.terms.version == node->plan.terms.version && node->plan.epoch <= client->epoch);
    assert(node->ready <= node->plan.terms.version && node->loaded <= node->plan.terms.version);
    assert(node->input.compared <= node->input.reading && node->contact.told_committed <= client->committed);
    assert(node->save.state == SAVE_NONE || node->save.attempt > 0);
}

/* Begins all that can begin now, and reports to the controller what has changed. Each callback ends with it. */
static void node_step(struct node *node) {
    if (node->stepping || node->ended) {
        return; /* stepping: a hook has answered at once, inside the loop below */
    }
    node->stepping = true;
    while (node_work_advance(node)) {
    }
    node->stepping = false;
    assert_fits(node);
    if (node->client.accusation.accused != ACTOR_NONE) {
        node_accuse(node, node->client.accusation.accused, node->client.accusation.text);
        node->client.accusation.accused = ACTOR_NONE;
    }
    if (!node->ended) {
        tell_loaded(node);
        tell_ready(node);
        tell_finished(node);
        begin_save(node);
        set_timer(node);
    }
}

void node_wake(struct node *node) {
    node_step(node);
}

void node_start(struct node *node) {
    node->contact.heard_us = node_now(node);
    node->contact.heartbeat_us = node->contact.heard_us + NODE_REGISTER_RETRY_US;
    send_registration(node);
    set_timer(node);
}

/* ---- The hooks' answers ---- */

void node_read(struct node *node, struct buffer *shards, struct wire_input_shard own, struct buffer *files,
               struct buffer *ranges) {
    buffer_drop(node->input.shards);
    buffer_drop(node->input.files);
    buffer_drop(node->input.ranges);
    node->input.shards = shards;
    node->input.files = files;
    node->input.ranges = ranges;
    node->input.own = own;
    node->input.reading++;
    if (!node->ended) {
        send_input(node);
    }
}

void node_prepared(struct node *node, unsigned set, uint64_t items, const double totals[WIRE_TOTALS]) {
    node_sets_prepared(node, set, items, totals);
    node_step(node);
}

void node_computed(struct node *node, uint64_t items, uint64_t compute_us) {
    node_work_computed(node, items, compute_us);
    node_step(node);
}

void node_gathered(struct node *node) {
    node_work_gathered(node);
    node_step(node);
}

void node_evaluated(struct node *node, const struct wire_metric_sum *metrics) {
    node_work_evaluated(node, metrics);
    node_step(node);
}

/* Sends SAVED, but not before the controller has the app's notes, as the job ends with SAVED. */
static void send_saved(struct node *node) {
    struct message saved = {.type = MESSAGE_SAVED, .saved = node->save.outcome};
    if (node_notes_arrived(node)) {
        node_send(node, &saved);
    }
}

void node_saved(struct node *node, int code, const char *text) {
    if (node->ended) {
        return;
    }
    if (node->save.unsaving) {
        node->save.unsaving = false;
        node_step(node);
        return;
    }
    save_become(node, SAVE_OVER);
    node->save.outcome.attempt = node->save.attempt;
    node->save.outcome.code = code;
    snprintf(node->save.outcome.text, sizeof node->save.outcome.text, "%s", text);
    send_saved(node);
}

void node_leave_soon(struct node *node, uint32_t notice_ms) {
    if (node->ended) {
        return;
    }
    uint64_t leave_us = node_now(node) + notice_ms * UINT64_C(1000);
    if (node->departure.until_us != 0 && node->departure.until_us <= leave_us) {
        return; /* an earlier warning left no more time than this */
    }
    node->departure.requested = true;
    node->departure.until_us = leave_us;
    if (node->contact.heartbeat_ms != 0) {
        send_evict(node);
    }
}

/* ---- Plans ---- */

/* Admits the nodes and connects to the servers of a new plan, and drops the connections to nodes that left. */
static void connect_servers(struct node *node, const struct plan_view *plan) {
    node->io->admit(node->io, plan->nodes, plan->node_count);
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        actor_id actor = plan->endpoints[e].actor;
        if (actor_node(actor) != node->options.self && !actor_is_pulse(actor)) {
            node->io->connect(node->io, plan->endpoints[e].actor, plan->endpoints[e].endpoint);
        }
    }
    links_forget_absent(node->io, node->options.self, &node->plan, plan);
}

/* Finds out which of our servers have a replica by the plan. */
static void find_roles(struct node *node) {
    for (unsigned s = 0; s < node->options.server_count; s++) {
        actor_id actor = node->options.servers[s].actor;
        node->servers[s].has_role = false;
        for (uint32_t p = 0; p < node->plan.terms.partitions && !node->servers[s].has_role; p++) {
            node->servers[s].has_role = plan_has_role(&node->plan, p, actor);
        }
    }
}

static void checkpoint_drop(struct node *node) {
    free(node->checkpoint.written);
    memset(&node->checkpoint, 0, sizeof node->checkpoint);
}

/* Voids the save of the epoch before. */
static void save_drop(struct node *node) {
    if (node->save.state == SAVE_RUNNING) {
        node->save.unsaving = true;
        node->options.hooks.unsave(node->options.hooks.context);
    }
    save_become(node, SAVE_NONE);
    node->save.attempt = 0;
}

static void send_servers(struct node *node, const struct message *message) {
    for (unsigned s = 0; s < node->options.server_count; s++) {
        struct message copy = message_share(message);
        node->io->send(node->io, node->options.servers[s].actor, &copy);
    }
}

/* Unpacks a plan that replaces ours. False: it does not, or starts from another plan than ours; our HEARTBEAT shows
 * that, and the controller then sends the whole plan. */
static bool unpack_plan(struct node *node, const struct message *packed, struct plan_view *plan) {
    struct error error = {0};
    if (!plan_unpacks(packed, &node->plan)) {
        return false; /* we have another plan than the controller thinks */
    }
    if (plan_unpack(packed, &node->plan, plan, &error) != 0) {
        if (packed->packed_plan.base == 0) {
            node_fail(node, error.code, error.text);
        }
        return false;
    }
    if (!plan_replaces(&node->plan, plan, node->client.epoch)) {
        plan_close(plan);
        return false;
    }
    return true;
}

static void receive_plan(struct node *node, const struct message *packed) {
    struct plan_view plan;
    bool first = !plan_is_there(&node->plan);
    if (!unpack_plan(node, packed, &plan)) {
        return;
    }
    bool new_epoch = !first && plan.epoch > node->plan.epoch;
    if (first) {
        cache_open(&node->cache, node->job, plan.terms.partitions);
        state_become(node, NODE_LOADING);
    }
    connect_servers(node, &plan);
    if (new_epoch) {
        node_give_cached(node, &plan);
    }
    struct message message = plan_message(&plan);
    send_servers(node, &message);
    send_pulse(node, &message);
    message_close(&message);
    client_plan(&node->client, &plan);
    plan_close(&node->plan);
    node->plan = plan;
    find_roles(node);
    node_work_take_assignments(node);
    FOR_SERVICES (node, service, plan) {
        service->plan(node, new_epoch);
    }
    if (new_epoch) {
        node->accusation.accused = ACTOR_NONE;
        node_work_undo_evaluations(node);
        checkpoint_drop(node);
        save_drop(node);
    }
    send_heartbeat(node);
}

/* ---- Failures of others ---- */

/* Sends FENCED once all of our servers are fenced. */
static void send_fenced(struct node *node) {
    struct message message = {.type = MESSAGE_FENCED};
    size_t size = 0;
    message.fenced.begun = node->work.begun;
    message.fenced.committed = node->client.committed;
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct node_server *server = &node->servers[s];
        if (!server->fenced) {
            return;
        }
        size += server->restore_points->size;
        if (server->committed > message.fenced.committed) {
            message.fenced.committed = server->committed;
        }
    }
    struct buffer *cached = node_cache_points(node);
    struct buffer *restore_points = buffer_new(size + cached->size);
    size = 0;
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct buffer *own = node->servers[s].restore_points;
        memcpy(restore_points->data + size, own->data, own->size);
        size += own->size;
    }
    assert(size + cached->size == restore_points->size);
    memcpy(restore_points->data + size, cached->data, cached->size);
    buffer_drop(cached);
    message_add(&message, restore_points);
    node_send(node, &message);
}

static void receive_fence(struct node *node, const struct message *fence) {
    if (fence->epoch < node->client.epoch || (fence->epoch == node->client.epoch && !node->client.fenced)) {
        return; /* the plan that ends this fence has come already */
    }
    if (fence->epoch > node->client.epoch) {
        client_fence(&node->client, fence->epoch);
        node->accusation.accused = ACTOR_NONE;
        checkpoint_drop(node);
        for (unsigned s = 0; s < node->options.server_count; s++) {
            node->servers[s].fenced = false;
        }
    }
    for (unsigned s = 0; s < node->options.server_count; s++) {
        if (!node->servers[s].fenced) {
            struct message copy = message_share(fence);
            node->io->send(node->io, node->options.servers[s].actor, &copy);
        }
    }
    send_fenced(node);
}

/* ---- Messages from our servers ---- */

static void receive_replicas(struct node *node, struct node_server *server, const struct message *message) {
    if (message->epoch != node->client.epoch) {
        return;
    }
    server->version = message->replicas.version;
    server->in_step = message->replicas.in_step != 0;
    server->committed = message->replicas.committed;
    if (message->replicas.fenced != 0 && node->client.fenced) {
        server->fenced = true;
        buffer_drop(server->restore_points);
        server->restore_points = buffer_hold(message->frames[RECORDS_FRAME]);
        send_fenced(node);
    }
}

static void receive_written(struct node *node, const struct message *message) {
    if (message->epoch != node->client.epoch) {
        return;
    }
    if (message->written.number == node->checkpoint.number && message->written.state == WRITTEN_DONE) {
        unsigned count = node->checkpoint.count++;
        node->checkpoint.written =
            memory_resized(node->checkpoint.written, count + 1U, sizeof *node->checkpoint.written);
        node->checkpoint.written[count] = message->written;
    }
    struct message copy = message_share(message);
    node_send(node, &copy);
}

static void receive_server(struct node *node, struct node_server *server, const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_FAIL:
        node_fail(node, message->text.code, message->text.text);
        break;
    case MESSAGE_ACCUSE:
        if (message->epoch == node->client.epoch) {
            node_accuse(node, message->accuse.accused, message->accuse.text);
        }
        break;
    case MESSAGE_REPLICAS:
        receive_replicas(node, server, message);
        break;
    case MESSAGE_WRITTEN:
        receive_written(node, message);
        break;
    default:
        break;
    }
}

static struct node_server *own_server(const struct node *node, actor_id actor) {
    for (unsigned s = 0; s < node->options.server_count; s++) {
        if (node->options.servers[s].actor == actor) {
            return &node->servers[s];
        }
    }
    return NULL;
}

/* ---- Messages from the controller ---- */

static void hear(struct node *node, const struct message *message) {
    FOR_SERVICES (node, service, hear) {
        service->hear(node, message);
    }
}

static void receive_welcome(struct node *node, const struct message *message) {
    const struct message_welcome *welcome = &message->welcome;
    if (node->contact.heartbeat_ms != 0) {
        return;
    }
    memcpy(node->name, welcome->name, sizeof node->name);
    node->contact.heartbeat_ms = welcome->heartbeat_ms;
    node->contact.timeout_ms = welcome->timeout_ms;
    node->client.asking.patience_us = welcome->timeout_ms * UINT64_C(250);
    send_pulse(node, message);
    hear(node, message);
    if (node->ended) {
        return;
    }
    node_notes_send(node);
    send_heartbeat(node);
    repeat_later(node);
    if (node->departure.requested) {
        send_evict(node);
    }
}

static void receive_start(struct node *node, const struct message *start) {
    if (node->state != NODE_LOADING && node->state != NODE_LOADED) {
        return;
    }
    size_t count;
    memcpy(node->totals, records_totals(start, &count), sizeof node->totals);
    node->total_items = start->start.items;
    state_become(node, NODE_STARTED);
    hear(node, start);
    send_heartbeat(node);
}

static void receive_ack(struct node *node, const struct message *message) {
    const struct message_heartbeat_ack *ack = &message->heartbeat_ack;
    node_reports_acknowledged(node, message);
    node_work_drop_evaluations(node, 0, ack->progress);
    if (ack->input > node->input.compared && ack->input <= node->input.reading) {
        node->input.compared = ack->input;
    }
    if (ack->barrier < node->barrier.number) {
        return; /* the barrier's number never falls, so this message is old */
    }
    node->final = ack->final != 0 ? ack->final : node->final;
    hear(node, message);
    if (ack->barrier > node->barrier.number) {
        node->barrier.number = ack->barrier;
        node->barrier.clock = ack->barrier_clock;
        send_heartbeat(node);
    }
}

static void receive_save(struct node *node, const struct message *message) {
    if (message->epoch != node->client.epoch || node->client.fenced) {
        return; /* the message's epoch is over */
    }
    bool goes_on = node->save.state == SAVE_REQUESTED || node->save.state == SAVE_RUNNING;
    if (!goes_on && message->save.attempt > node->save.attempt) {
        size_t count;
        const double *metrics = save_metrics(message, &count);
        for (size_t m = 0; m < WIRE_METRICS_MAX; m++) {
            node->save.metrics[m] = m < count ? metrics[m] : NAN;
        }
        node->save.attempt = message->save.attempt;
        save_become(node, SAVE_REQUESTED);
        node_step(node);
    } else if (node->save.state == SAVE_OVER && message->save.attempt == node->save.attempt) {
        send_saved(node);
    }
}

static bool checkpoint_has(const struct node *node, uint32_t partition) {
    for (unsigned w = 0; w < node->checkpoint.count; w++) {
        if (node->checkpoint.written[w].partition == partition) {
            return true;
        }
    }
    return false;
}

/* Passes CHECKPOINT on to one of our servers, with the partitions that the server has by the plan and has not written
 * yet. */
static void send_checkpoint(struct node *node, actor_id server, const struct message *checkpoint) {
    size_t count;
    const uint32_t *partitions = checkpoint_partitions(checkpoint, &count);
    struct buffer *list = buffer_new(count * sizeof *partitions);
    list->size = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t p = partitions[i];
        if (p < node->plan.terms.partitions && !checkpoint_has(node, p) && plan_has_role(&node->plan, p, server)) {
            memcpy(list->data + list->size, &p, sizeof p);
            list->size += sizeof p;
        }
    }
    if (list->size == 0) {
        buffer_drop(list);
        return;
    }
    struct message message = {
        .type = MESSAGE_CHECKPOINT, .epoch = checkpoint->epoch, .checkpoint = checkpoint->checkpoint};
    message_add(&message, list);
    node->io->send(node->io, server, &message);
}

static void receive_checkpoint(struct node *node, const struct message *message) {
    if (message->epoch != node->client.epoch || node->client.fenced || !plan_is_there(&node->plan)) {
        return;
    }
    if (message->checkpoint.number != node->checkpoint.number) {
        checkpoint_drop(node);
        node->checkpoint.number = message->checkpoint.number;
    }
    for (unsigned w = 0; w < node->checkpoint.count; w++) {
        struct message written = {.type = MESSAGE_WRITTEN, .written = node->checkpoint.written[w]};
        node_send(node, &written);
    }
    for (unsigned s = 0; s < node->options.server_count; s++) {
        send_checkpoint(node, node->options.servers[s].actor, message);
    }
}

static void receive_outcome(struct node *node, const struct message_outcome *outcome) {
    if (outcome->request >= NODE_NOTE_REQUEST) {
        bool arrived = node_notes_arrived(node);
        node_notes_answered(node, outcome->request);
        if (!arrived && node->save.state == SAVE_OVER) {
            send_saved(node);
        }
        return;
    }
    if (!node->departure.requested || outcome->request != NODE_EVICT_REQUEST) {
        return;
    }
    node->departure.requested = false;
    if (outcome->code != 0) {
        node_fail(node, outcome->code, outcome->text);
    }
}

static void receive_controller(struct node *node, const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_WELCOME:
        receive_welcome(node, message);
        break;
    case MESSAGE_PACKED_PLAN:
        receive_plan(node, message);
        break;
    case MESSAGE_START:
        receive_start(node, message);
        break;
    case MESSAGE_HEARTBEAT_ACK:
        receive_ack(node, message);
        break;
    case MESSAGE_FENCE:
        receive_fence(node, message);
        break;
    case MESSAGE_CHECKPOINT:
        receive_checkpoint(node, message);
        break;
    case MESSAGE_SAVE:
        receive_save(node, message);
        break;
    case MESSAGE_EVALUATE:
        node_work_receive_evaluate(node, message);
        break;
    case MESSAGE_OUTCOME:
        receive_outcome(node, &message->outcome);
        break;
    case MESSAGE_REJOIN:
        node_stop(node);
        node->options.hooks.rejoin(node->options.hooks.context, "the controller gave this node up");
        break;
    case MESSAGE_DONE:
        send_leave(node);
        node_end(node, 0, "");
        break;
    case MESSAGE_ABORT:
        send_leave(node);
        node_end(node, message->text.code, message->text.text);
        break;
    default:
        break;
    }
}

/* Gives a message of another node to its service. An answer comes from the server that our question was sent to, which
 * passes on its own node's messages only. */
static void receive_peer(struct node *node, actor_id from, struct message *message) {
    const struct node_service *service = node->services[message->peer.service];
    bool answer = actor_node(from) != node->options.self;
    bool in_epoch = message->epoch == node->client.epoch && !node->client.fenced;
    if (plan_is_there(&node->plan) && (in_epoch || service->any_epoch) &&
        (!answer || message->peer.sender == actor_node(from))) {
        service->receive(node, from, answer, message);
    }
}

void node_receive(void *self, actor_id from, struct message *message) {
    struct node *node = self;
    if (node->ended) {
        return;
    }
    if (from == ACTOR_CONTROLLER) {
        node->contact.heard_us = node_now(node);
        receive_controller(node, message);
    } else if (message->type == MESSAGE_PEER) {
        receive_peer(node, from, message);
    } else {
        struct node_server *server = own_server(node, from);
        if (server != NULL) {
            receive_server(node, server, message);
        } else if (message->type == MESSAGE_FAIL && from == actor_pulse(node->options.self)) {
            node_fail(node, message->text.code, message->text.text);
        }
        client_receive(&node->client, from, message);
    }
    node_step(node);
}

/* ---- Time ---- */

static uint32_t node_patience_ms(const struct node *node) {
    if (node->contact.heartbeat_ms != 0) {
        return node->options.patience_ms;
    }
    return node->departure.requested && node->contact.timeout_ms > NODE_LEAVE_MS ? NODE_LEAVE_MS
                                                                                 : node->contact.timeout_ms;
}

/* Fails the node when the controller has been silent for too long. Until then training goes on without it. */
static bool node_check_silence(struct node *node, uint64_t now) {
    uint32_t patience_ms = node_patience_ms(node);
    assert(now >= node->contact.heard_us);
    if (now - node->contact.heard_us <= patience_ms * UINT64_C(1000)) {
        return false;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "the controller at %s has not answered for %.1f s", node->options.controller,
             (double)(now - node->contact.heard_us) / 1e6);
    node_fail(node, AML_EFAIL, text);
    return true;
}

/* Discounts time in which this process itself stood still (a debugger, a laptop's lid, a busy machine) from the silence
 * of others. After a long stop connections may be broken, so servers also get the time to reconnect. */
static void discount_stop(struct node *node, uint64_t now) {
    uint64_t late_us = node->timer_us != 0 && now > node->timer_us ? now - node->timer_us : 0;
    if (late_us > node->contact.timeout_ms * UINT64_C(500)) {
        node->contact.heard_us = now;
        client_excuse(&node->client, UINT64_MAX, now + IO_RECONNECT_US);
        return;
    }
    if (late_us > node->contact.heartbeat_ms * UINT64_C(1000)) {
        node->contact.heard_us = io_excused(node->contact.heard_us, late_us, now);
        client_excuse(&node->client, late_us, now);
    }
}

/* Sends, with each heartbeat, all that the controller has not answered yet. */
static void repeat(struct node *node) {
    node_notes_send(node);
    send_heartbeat(node);
    repeat_later(node);
    send_accusation(node);
    send_input_again(node);
    if (node->state == NODE_LOADED && node->loaded == node->plan.terms.version) {
        send_loaded(node);
    }
    if (node->departure.requested) {
        send_evict(node);
    }
    node_reports_repeat(node);
}

void node_connected(struct node *node, actor_id peer) {
    if (peer == ACTOR_CONTROLLER && node->contact.heartbeat_ms != 0 && !node->ended) {
        repeat(node);
        node_step(node);
    }
}

void node_timer(void *self) {
    struct node *node = self;
    uint64_t now = node_now(node);
    if (node->ended) {
        return;
    }
    discount_stop(node, now);
    node->timer_us = 0;
    if (node_check_silence(node, now)) {
        return;
    }
    if (now >= node_reports_due_us(node)) {
        node_reports_send(node);
    }
    if (now >= node->contact.heartbeat_us) {
        if (node->contact.heartbeat_ms == 0) {
            send_registration(node);
            node->contact.heartbeat_us = now + NODE_REGISTER_RETRY_US;
        } else {
            repeat(node);
        }
    }
    node_step(node);
}
