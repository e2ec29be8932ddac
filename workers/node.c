/* See node.h. */
#include "workers/node.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t node_now(const struct node *node) {
    return node->io->now_us(node->io);
}

static void node_send(struct node *node, struct message *message) {
    message->epoch = node->client.epoch;
    node->io->send(node->io, ACTOR_CONTROLLER, message);
}

void node_init(struct node *node, struct io *io, const struct node_options *options, const struct job *job) {
    *node = (struct node){.io = io, .options = *options, .job = job, .timeout_ms = options->timeout_ms};
    const struct job_terms *terms = &options->registration.job;
    node->final = terms->iterations * terms->clocks_per_iteration; /* unless the controller names an earlier one */
    memcpy(node->name, options->registration.name, sizeof node->name);
    client_init(&node->client, io, options->self, job, &node->cache);
    io->connect(io, ACTOR_CONTROLLER, options->controller);
}

void node_close(struct node *node) {
    for (unsigned i = 0; i < node->progress_count; i++) {
        message_close(&node->progress[i]);
    }
    free(node->progress);
    message_close(&node->plan);
    client_close(&node->client);
    cache_close(&node->cache);
    memset(node, 0, sizeof *node);
}

static void node_end(struct node *node, int code, const char *text) {
    if (!node->ended) {
        node->ended = true;
        node->io->set_timer(node->io, 0);
        node->options.hooks.end(node->options.hooks.context, code, text);
    }
}

void node_fail(struct node *node, int code, const char *text) {
    if (node->ended) {
        return;
    }
    struct message fail = {.type = MESSAGE_FAIL};
    fail.text.code = code;
    snprintf(fail.text.text, sizeof fail.text.text, "%s", text);
    node_send(node, &fail);
    node_end(node, code, text);
}

/* ---- What the controller is told ---- */

static void send_registration(struct node *node) {
    struct message message = {.type = MESSAGE_REGISTER, .registration = node->options.registration, .frame_count = 2};
    message.frames[0] = buffer_copy(node->options.servers, node->options.server_count * sizeof(struct wire_endpoint));
    message.frames[1] = buffer_copy(node->options.metrics, node->options.metric_count * sizeof(struct wire_metric));
    node_send(node, &message);
}

static void send_loaded(struct node *node) {
    struct message message = {.type = MESSAGE_LOADED, .frame_count = 1};
    message.loaded.items = node->loaded_items;
    message.frames[0] = buffer_copy(node->totals, sizeof node->totals);
    node_send(node, &message);
}

static void send_heartbeat(struct node *node) {
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat.state = (uint8_t)node->state;
    message.heartbeat.clock = node->client.begun;
    message.heartbeat.held = node->hold;
    node_send(node, &message);
    node->heartbeat_us = node_now(node) + node->heartbeat_ms * UINT64_C(1000);
}

static void send_leave(struct node *node) {
    struct message message = {.type = MESSAGE_LEAVE};
    node_send(node, &message);
}

static void send_progress(struct node *node, unsigned index) {
    struct message copy = message_share(&node->progress[index]);
    node_send(node, &copy);
}

/* The oldest that are not acknowledged, again. */
static void send_progress_again(struct node *node) {
    unsigned count = node->progress_count < NODE_PROGRESS_BURST ? node->progress_count : NODE_PROGRESS_BURST;
    for (unsigned i = 0; i < count; i++) {
        send_progress(node, i);
    }
    node->progress_again = count > 0 ? node->progress[count - 1].progress.clock : 0;
}

static void report_progress(struct node *node, const struct wire_metric_sum *metrics) {
    const struct node_hooks *hooks = &node->options.hooks;
    struct message message = {.type = MESSAGE_PROGRESS, .frame_count = 1};
    struct message_progress *progress = &message.progress;
    progress->clock = node->evaluated;
    progress->items = node->items;
    progress->compute_us = node->compute_us;
    progress->clock_us = node_now(node) - node->clock_began_us;
    if (hooks->memory_bytes != NULL) {
        progress->memory_bytes = hooks->memory_bytes(hooks->context);
    }
    if (hooks->bytes != NULL) {
        hooks->bytes(hooks->context, &progress->bytes_sent, &progress->bytes_received);
    }
    message.frames[0] = buffer_copy(metrics, node->options.metric_count * sizeof *metrics);
    assert(node->progress_count < NODE_PROGRESS_MAX); /* node_advance sees to it */
    node->progress = memory_resized(node->progress, node->progress_count + 1, sizeof *node->progress);
    node->progress[node->progress_count++] = message;
    send_progress(node, node->progress_count - 1);
}

/* ---- Going on ---- */

/* The clock that may turn out to be the last: its evaluation waits for the full state. While there is a hold
 * without a `final`, it is the hold. */
static uint64_t last_clock(const struct node *node) {
    return node->final != 0 ? node->final : node->hold;
}

/* Begins what can begin now. True when that was something. */
static bool node_advance(struct node *node) {
    struct client *client = &node->client;
    const struct node_hooks *hooks = &node->options.hooks;
    if (node->ended || node->busy) {
        return false;
    }
    if (node->state == NODE_LOADING && node->load_done && client_subscribed(client)) {
        node->state = NODE_LOADED;
        send_loaded(node);
        return false;
    }
    if (node->state != NODE_STARTED) {
        return false;
    }
    uint64_t done = client->flushed;
    uint64_t last = last_clock(node);
    bool beyond = node->final != 0 && done > node->final; /* without data, nobody waits for us to hold */
    if (node->evaluated < done && !beyond) {
        if (done == last ? client_has_state(client, done) : client_may_begin(client, done + 1)) {
            node->busy = true;
            client_freeze(client);
            hooks->evaluate(hooks->context, done);
            return true;
        }
        return false;
    }
    if (node->final != 0 && done >= node->final) {
        if (!client_has_state(client, node->final)) {
            return false; /* our flushes may have to be sent again */
        }
        node->state = NODE_FINISHED;
        send_heartbeat(node);
        return false;
    }
    if ((last != 0 && done + 1 > last) || node->progress_count == NODE_PROGRESS_MAX ||
        !client_may_begin(client, done + 1)) {
        return false;
    }
    client_begin(client, done + 1);
    node->clock_began_us = node_now(node);
    node->busy = true;
    hooks->compute(hooks->context, client->begun);
    return true;
}

static void node_set_timer(struct node *node) {
    if (node->ended) {
        return;
    }
    uint64_t next = client_timer(&node->client);
    if (next == 0 || node->heartbeat_us < next) {
        next = node->heartbeat_us;
    }
    if (next != node->timer_us) {
        node->timer_us = next;
        node->io->set_timer(node->io, next);
    }
}

static void node_step(struct node *node) {
    if (node->stepping) {
        return; /* a hook that answered at once: the loop below goes on */
    }
    node->stepping = true;
    while (node_advance(node)) {
    }
    node->stepping = false;
    if (node->client.error.code != 0) {
        node_fail(node, node->client.error.code, node->client.error.text);
    }
    node_set_timer(node);
}

void node_wake(struct node *node) {
    node_step(node);
}

void node_start(struct node *node) {
    node->started_us = node->heard_us = node_now(node);
    node->heartbeat_us = node->heard_us + NODE_REGISTER_RETRY_US;
    send_registration(node);
    node_set_timer(node);
}

void node_loaded(struct node *node, uint64_t items, const double totals[WIRE_TOTALS]) {
    struct error error = {0};
    if (node->ended) {
        return;
    }
    node->loaded_items = items;
    memcpy(node->totals, totals, sizeof node->totals);
    node->load_done = true;
    if (client_subscribe(&node->client, &error) != 0) {
        node_fail(node, error.code, error.text);
        return;
    }
    node_step(node);
}

void node_computed(struct node *node, uint64_t items, uint64_t compute_us) {
    if (node->ended) {
        return;
    }
    node->items = items;
    node->compute_us = compute_us;
    node->busy = false;
    client_flush(&node->client);
    node_step(node);
}

void node_evaluated(struct node *node, const struct wire_metric_sum *metrics) {
    if (node->ended) {
        return;
    }
    client_thaw(&node->client);
    node->evaluated = node->client.flushed;
    node->busy = false;
    report_progress(node, metrics);
    node_step(node);
}

static void send_saved(struct node *node) {
    struct message saved = {.type = MESSAGE_SAVED, .text = node->save_outcome};
    node_send(node, &saved);
}

void node_saved(struct node *node, int code, const char *text) {
    if (node->ended) {
        return;
    }
    node->saved = true;
    node->save_outcome.code = code;
    snprintf(node->save_outcome.text, sizeof node->save_outcome.text, "%s", text);
    send_saved(node);
}

/* ---- What the controller says ---- */

static void receive_plan(struct node *node, const struct message *plan) {
    if (plan->epoch <= node->client.epoch) {
        return;
    }
    if (node->cache.job == NULL) {
        cache_open(&node->cache, node->job, plan->plan.partitions);
    }
    const struct wire_endpoint *endpoints = (const void *)plan->frames[3]->data;
    for (size_t e = 0; e < plan->frames[3]->size / sizeof *endpoints; e++) {
        if (actor_node(endpoints[e].actor) != actor_node(node->options.self)) {
            node->io->connect(node->io, endpoints[e].actor, endpoints[e].endpoint);
        }
    }
    for (unsigned s = 0; s < node->options.server_count; s++) {
        struct message copy = message_share(plan);
        node->io->send(node->io, node->options.servers[s].actor, &copy);
    }
    bool first = node->client.epoch == 0;
    client_plan(&node->client, plan);
    message_close(&node->plan);
    node->plan = message_share(plan);
    if (first) {
        node->state = NODE_LOADING;
        node->options.hooks.load(node->options.hooks.context, &node->plan);
    }
    send_heartbeat(node);
}

static void receive_start(struct node *node, const struct message *start) {
    if (node->state != NODE_LOADED) {
        return;
    }
    memcpy(node->totals, start->frames[0]->data, sizeof node->totals);
    node->total_items = start->start.items;
    node->state = NODE_STARTED;
    send_heartbeat(node);
}

static void receive_ack(struct node *node, const struct message_heartbeat_ack *ack) {
    unsigned acknowledged = 0;
    while (acknowledged < node->progress_count && node->progress[acknowledged].progress.clock <= ack->progress) {
        message_close(&node->progress[acknowledged++]);
    }
    if (acknowledged > 0) {
        node->progress_count -= acknowledged;
        memmove(node->progress, node->progress + acknowledged, node->progress_count * sizeof *node->progress);
    }
    if (acknowledged > 0 && node->progress_again != 0 && ack->progress >= node->progress_again) {
        send_progress_again(node);
    }
    /* The controller's hold never falls, so an ack with a lower one is old; and a hold takes the place of the final
     * clock that was known before. */
    if (ack->hold > node->hold) {
        node->hold = ack->hold;
        node->final = ack->final;
        send_heartbeat(node);
    } else if (ack->hold == node->hold && ack->final != 0) {
        node->final = ack->final;
    }
}

void node_receive(void *self, actor_id from, struct message *message) {
    struct node *node = self;
    if (node->ended) {
        return;
    }
    if (from != ACTOR_CONTROLLER) {
        if (message->type == MESSAGE_FAIL && actor_node(from) == actor_node(node->options.self)) {
            node_fail(node, message->text.code, message->text.text); /* one of our own servers */
            return;
        }
        client_receive(&node->client, from, message);
        node_step(node);
        return;
    }
    node->heard_us = node_now(node);
    switch ((unsigned)message->type) {
    case MESSAGE_WELCOME:
        if (node->heartbeat_ms == 0) {
            memcpy(node->name, message->welcome.name, sizeof node->name);
            node->heartbeat_ms = message->welcome.heartbeat_ms;
            node->timeout_ms = message->welcome.timeout_ms;
            send_heartbeat(node);
        }
        break;
    case MESSAGE_PLAN:
        receive_plan(node, message);
        break;
    case MESSAGE_START:
        receive_start(node, message);
        break;
    case MESSAGE_HEARTBEAT_ACK:
        receive_ack(node, &message->heartbeat_ack);
        break;
    case MESSAGE_SAVE:
        if (!node->saving) {
            node->saving = true;
            node->options.hooks.save(node->options.hooks.context);
        } else if (node->saved) {
            send_saved(node);
        }
        break;
    case MESSAGE_DONE:
        send_leave(node);
        node_end(node, 0, "");
        return;
    case MESSAGE_ABORT:
        send_leave(node);
        node_end(node, message->text.code, message->text.text);
        return;
    default:
        break;
    }
    node_step(node);
}

/* The name and endpoint of a server for people. */
static void describe_server(const struct node *node, actor_id server, char *text, size_t size) {
    const struct wire_node *nodes = (const void *)node->plan.frames[0]->data;
    const struct wire_endpoint *endpoints = (const void *)node->plan.frames[3]->data;
    const char *name = "a server";
    const char *endpoint = "?";
    for (size_t n = 0; n < node->plan.frames[0]->size / sizeof *nodes; n++) {
        name = actor_node(nodes[n].actor) == actor_node(server) ? nodes[n].name : name;
    }
    for (size_t e = 0; e < node->plan.frames[3]->size / sizeof *endpoints; e++) {
        endpoint = endpoints[e].actor == server ? endpoints[e].endpoint : endpoint;
    }
    snprintf(text, size, "%s (%s)", name, endpoint);
}

static bool node_check_silence(struct node *node, uint64_t now) {
    uint64_t timeout_us = node->timeout_ms * UINT64_C(1000);
    char text[ERROR_TEXT_MAX];
    if (now - node->heard_us > timeout_us) {
        snprintf(text, sizeof text, "the controller at %s has not answered for %.1f s", node->options.controller,
                 (double)(now - node->heard_us) / 1e6);
        node_fail(node, AML_EFAIL, text);
        return true;
    }
    uint64_t since_us = 0;
    actor_id silent = client_silent(&node->client, &since_us);
    /* The controller, which sees more, gets the first chance to name who is missing. */
    if (silent != ACTOR_NONE && now - since_us > timeout_us + timeout_us / 2) {
        char server[256];
        describe_server(node, silent, server, sizeof server);
        snprintf(text, sizeof text, "%s: %s has not answered for %.1f s", node->name, server,
                 (double)(now - since_us) / 1e6);
        node_fail(node, AML_EFAIL, text);
        return true;
    }
    return false;
}

void node_timer(void *self) {
    struct node *node = self;
    uint64_t now = node_now(node);
    if (node->ended) {
        return;
    }
    if (node->timer_us != 0 && now > node->timer_us + node->timeout_ms * UINT64_C(500)) {
        /* We were stopped ourselves (a debugger, a laptop's lid): what we did not hear proves nothing. */
        node->heard_us = now;
        for (uint32_t p = 0; p < node->client.partition_count; p++) {
            node->client.partitions[p].heard_us = now;
        }
    }
    node->timer_us = 0;
    if (node_check_silence(node, now)) {
        return;
    }
    if (now >= node->heartbeat_us) {
        if (node->heartbeat_ms == 0) {
            send_registration(node);
            node->heartbeat_us = now + NODE_REGISTER_RETRY_US;
        } else {
            send_heartbeat(node);
            if (node->state == NODE_LOADED) {
                send_loaded(node);
            }
            send_progress_again(node);
        }
    }
    node_step(node);
}
