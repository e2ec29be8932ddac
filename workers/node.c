/* See node.h. */
#include "workers/node.h"

#include "agileml/net/links.h"
#include "agileml/wire/records.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_EVICT_REQUEST = 1 }; /* this node asks for one thing only: to leave */

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
    node->hold.clock = WIRE_CLOCK_NEVER;
    node->progress_burst = NODE_PROGRESS_BURST;
    node->final = terms->iterations * terms->clocks_per_iteration; /* unless the controller names an earlier one */
    memcpy(node->name, options->registration.name, sizeof node->name);
    node->servers = memory_zeroed(options->server_count + 1U, sizeof *node->servers);
    client_init(&node->client, io, options->self, job, &node->cache);
    io->connect(io, ACTOR_CONTROLLER, options->controller);
}

void node_close(struct node *node) {
    for (unsigned i = 0; i < node->progress_count; i++) {
        message_close(&node->progress[i]);
    }
    for (unsigned s = 0; s < node->options.server_count; s++) {
        buffer_drop(node->servers[s].reaches);
    }
    for (unsigned s = 0; s < node->set_count; s++) {
        free(node->sets[s].shards);
    }
    free(node->progress);
    free(node->servers);
    free(node->sets);
    free(node->duties);
    free(node->evaluations);
    free(node->checkpoint.written);
    buffer_drop(node->input.shards);
    buffer_drop(node->input.files);
    plan_close(&node->plan);
    client_close(&node->client);
    cache_close(&node->cache);
    memset(node, 0, sizeof *node);
}

static void node_stop(struct node *node) {
    node->ended = true;
    node->io->set_timer(node->io, 0);
}

static void node_end(struct node *node, int code, const char *text) {
    if (!node->ended) {
        node_stop(node);
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

bool node_crashed(struct node *node, const struct message_crashed *facts) {
    bool takes_part = !node->ended && node->heartbeat_ms != 0;
    struct message crashed = {.type = MESSAGE_CRASHED, .crashed = *facts};
    if (takes_part) {
        node_send(node, &crashed);
    }
    node_stop(node);
    return takes_part;
}

/* ---- What the controller is told ---- */

static void send_registration(struct node *node) {
    struct message message = {.type = MESSAGE_REGISTER, .registration = node->options.registration};
    const struct buffer *settings = node->options.settings;
    message_add_copy(&message, node->options.servers, node->options.server_count * sizeof(struct wire_endpoint));
    message_add_copy(&message, node->options.metrics, node->options.metric_count * sizeof(struct wire_metric));
    message_add(&message, settings != NULL ? buffer_copy(settings->data, settings->size) : buffer_new(0));
    node_send(node, &message);
}

/* The node whose server we have waited for longer than the timeout. */
static actor_id silent_node(const struct node *node) {
    uint64_t since_us = 0;
    actor_id server = client_silent(&node->client, &since_us);
    bool long_enough = node_now(node) > since_us + node->timeout_ms * UINT64_C(1000);
    return server != ACTOR_NONE && long_enough ? actor_node(server) : ACTOR_NONE;
}

static void send_heartbeat(struct node *node) {
    struct message message = {.type = MESSAGE_HEARTBEAT};
    message.heartbeat.state = (uint8_t)node->state;
    message.heartbeat.clock = node->begun;
    message.heartbeat.hold = node->hold.number;
    message.heartbeat.version = node->plan.terms.version;
    message.heartbeat.ready = node->ready;
    message.heartbeat.committed = node->told_committed = node->client.committed;
    message.heartbeat.silent = silent_node(node);
    node_send(node, &message);
    node->heartbeat_us = node_now(node) + node->heartbeat_ms * UINT64_C(1000);
}

/* What was read has been compared with what the others read, and is the same. */
static bool input_is_compared(const struct node *node) {
    return node->input.compared == node->input.reading;
}

static void send_input(struct node *node) {
    struct message message = {.type = MESSAGE_INPUT, .input.reading = node->input.reading};
    message_add(&message, buffer_hold(node->input.shards));
    message_add(&message, buffer_hold(node->input.files));
    node->input.sent_us = node_now(node);
    node_send(node, &message);
}

/* Sends INPUT again: it may be large, and what was sent before may be on its way, so not with each heartbeat. */
static void send_input_again(struct node *node) {
    if (!input_is_compared(node) && node_now(node) >= node->input.sent_us + node->timeout_ms * UINT64_C(250)) {
        send_input(node);
    }
}

static void send_evict(struct node *node) {
    uint64_t now = node_now(node);
    struct message message = {.type = MESSAGE_EVICT};
    message.evict.request = NODE_EVICT_REQUEST;
    message.evict.notice_ms = node->leave_us > now ? (uint32_t)((node->leave_us - now) / 1000) : 0;
    message_add(&message, buffer_new(0));
    node_send(node, &message);
}

static void send_accusation(struct node *node) {
    if (node->accusation.accused != ACTOR_NONE) {
        struct message accuse = {.type = MESSAGE_ACCUSE, .accuse = node->accusation};
        node_send(node, &accuse);
    }
}

/* One in an epoch: the controller answers with the next epoch. */
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

static bool held_at(const struct node *node, uint64_t clock) {
    return clock >= node->hold.clock;
}

static void send_progress(struct node *node, unsigned index) {
    struct message copy = message_share(&node->progress[index]);
    node_send(node, &copy);
}

static void send_progress_new(struct node *node) {
    for (; node->progress_sent < node->progress_count; node->progress_sent++) {
        send_progress(node, node->progress_sent);
    }
    node->progress_us = node_now(node);
}

/* A message to the network costs as much as a short clock: such clocks are told of together. What the controller waits
 * for is not kept back: an iteration's end, where it may name the last clock or write a checkpoint. */
static bool progress_is_due(const struct node *node) {
    uint64_t clock = node->at_clock;
    return clock % node->options.registration.job.clocks_per_iteration == 0 || held_at(node, clock) ||
           node_now(node) >= node->progress_us + NODE_PROGRESS_US;
}

/* The oldest that are not acknowledged, again. */
static void send_progress_again(struct node *node) {
    unsigned count = node->progress_count < node->progress_burst ? node->progress_count : node->progress_burst;
    for (unsigned i = 0; i < count; i++) {
        send_progress(node, i);
    }
    node->progress_again = count;
}

/* Keeps a PROGRESS in the order of clocks, in which the controller completes them: what it waits for is among the
 * first, which are sent again. One that goes before others that were sent is sent at once. */
static void keep_progress(struct node *node, struct message message) {
    unsigned place = node->progress_count;
    while (place > 0 && node->progress[place - 1].progress.clock > message.progress.clock) {
        place--;
    }
    assert(node->progress_count < WIRE_PROGRESS_MAX); /* begin_clock sees to it */
    node->progress = memory_resized(node->progress, node->progress_count + 1, sizeof *node->progress);
    memmove(&node->progress[place + 1], &node->progress[place],
            (node->progress_count - place) * sizeof *node->progress);
    node->progress[place] = message;
    node->progress_count++;
    node->progress_again += place < node->progress_again ? 1 : 0;
    if (place < node->progress_sent) {
        node->progress_sent++;
        send_progress(node, place);
    }
}

static void report_progress(struct node *node, const struct wire_metric_sum *metrics) {
    const struct node_hooks *hooks = &node->options.hooks;
    struct message message = {.type = MESSAGE_PROGRESS};
    struct message_progress *progress = &message.progress;
    progress->origin = node->at.origin;
    progress->clock = node->at_clock;
    progress->evaluation = node->again ? 1 : 0;
    progress->last = node->last ? 1 : 0;
    progress->items = node->again ? 0 : node->items;
    progress->committed = node->client.committed;
    progress->compute_us = node->compute_us;
    progress->clock_us = node->again ? 0 : node_now(node) - node->clock_began_us;
    if (hooks->memory_bytes != NULL) {
        progress->memory_bytes = hooks->memory_bytes(hooks->context);
    }
    if (hooks->bytes != NULL) {
        hooks->bytes(hooks->context, &progress->bytes_sent, &progress->bytes_received);
    }
    message_add_copy(&message, metrics, node->options.metric_count * sizeof *metrics);
    keep_progress(node, message);
    if (progress_is_due(node)) {
        send_progress_new(node);
    }
}

/* ---- Data of the duties ---- */

/* The set's data is being prepared, or at work. */
static bool set_in_use(const struct node *node, unsigned index) {
    const struct node_set *set = &node->sets[index];
    return (set->asked && !set->prepared) || ((node->busy || node->unevaluated) && node->at.set == index);
}

static bool set_needed(const struct node *node, unsigned index) {
    for (unsigned d = 0; d < node->duty_count; d++) {
        if (node->duties[d].set == index) {
            return true;
        }
    }
    for (unsigned e = 0; e < node->evaluation_count; e++) {
        if (node->evaluations[e].set == index) {
            return true;
        }
    }
    return false;
}

static void set_remove(struct node *node, unsigned index) {
    struct node_set old = node->sets[index];
    node->set_count--;
    memmove(node->sets + index, node->sets + index + 1, (node->set_count - index) * sizeof *node->sets);
    for (unsigned d = 0; d < node->duty_count; d++) {
        node->duties[d].set -= node->duties[d].set > index ? 1 : 0;
    }
    for (unsigned e = 0; e < node->evaluation_count; e++) {
        node->evaluations[e].set -= node->evaluations[e].set > index ? 1 : 0;
    }
    node->at.set -= node->at.set > index ? 1 : 0;
    free(old.shards);
    if (old.asked) {
        node->options.hooks.release(node->options.hooks.context, old.number);
        node->set_dropped = true;
    }
}

static void release_sets(struct node *node) {
    for (unsigned s = node->set_count; s > 0; s--) {
        if (!set_needed(node, s - 1) && !set_in_use(node, s - 1)) {
            set_remove(node, s - 1);
        }
    }
}

/* Has what no set names any more pushed no more, as soon as that can be. */
static void forget_rows(struct node *node) {
    uint32_t oldest = CACHE_NAMED_ALWAYS;
    for (unsigned s = 0; s < node->set_count; s++) {
        oldest = node->sets[s].number < oldest ? node->sets[s].number : oldest;
    }
    node->set_dropped = node->set_dropped && !client_forget(&node->client, oldest);
}

/* What a dead node has left undone comes first: everyone waits for it. Then what begins first. */
static bool duty_before(const struct node_duty *one, const struct node_duty *other) {
    bool catch_up = origin_is_catch_up(one->origin);
    return catch_up != (bool)origin_is_catch_up(other->origin) ? catch_up : one->from_clock < other->from_clock;
}

/* Asks for the data of the most urgent duty that lacks it; when no duty does, for that of an evaluation, which has
 * mostly been read for a duty by then. True when there was one. */
static bool prepare_next(struct node *node) {
    const struct node_duty *first = NULL;
    unsigned next = node->set_count;
    for (unsigned s = 0; s < node->set_count; s++) {
        if (node->sets[s].asked && !node->sets[s].prepared) {
            return false; /* one at a time */
        }
    }
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_duty *duty = &node->duties[d];
        if (!node->sets[duty->set].asked && (first == NULL || duty_before(duty, first))) {
            first = duty;
        }
    }
    for (unsigned e = 0; e < node->evaluation_count; e++) {
        next = !node->sets[node->evaluations[e].set].asked ? node->evaluations[e].set : next;
    }
    next = first != NULL ? first->set : next;
    if (next == node->set_count) {
        return false;
    }
    node->sets[next].asked = true;
    node->options.hooks.prepare(node->options.hooks.context, &node->sets[next]);
    return true;
}

static void fill_sets(struct node *node) {
    bool lacking = false;
    for (unsigned s = 0; s < node->set_count; s++) {
        lacking = lacking || (node->sets[s].prepared && !node->sets[s].filled);
    }
    bool filled = lacking && input_is_compared(node) && client_filled(&node->client);
    for (unsigned s = 0; s < node->set_count && filled; s++) {
        node->sets[s].filled = node->sets[s].prepared;
    }
}

/* ---- How far the node is ---- */

/* A duty from the job's first clock on. */
static bool duty_is_first(const struct node *node, const struct node_duty *duty) {
    return duty->from_clock == node->plan.terms.restore + 1;
}

static void send_loaded(struct node *node) {
    struct message message = {.type = MESSAGE_LOADED};
    double totals[WIRE_TOTALS] = {0}; /* sums, then maxima, which nobody has raised yet */
    for (unsigned t = WIRE_TOTALS / 2; t < WIRE_TOTALS; t++) {
        totals[t] = -HUGE_VAL;
    }
    message.loaded.version = node->loaded;
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_set *set = &node->sets[node->duties[d].set];
        if (!duty_is_first(node, &node->duties[d])) {
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

/* LOADED once for each plan, until START. */
static void tell_loaded(struct node *node) {
    if ((node->state != NODE_LOADING && node->state != NODE_LOADED) || node->loaded == node->plan.terms.version) {
        return;
    }
    for (unsigned d = 0; d < node->duty_count; d++) {
        if (duty_is_first(node, &node->duties[d]) && !node->sets[node->duties[d].set].filled) {
            return;
        }
    }
    node->state = NODE_LOADED;
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
    for (unsigned d = 0; d < node->duty_count; d++) {
        if (!node->sets[node->duties[d].set].filled) {
            return false;
        }
    }
    return node->duty_count == 0 || client_subscribed(&node->client);
}

/* The clock is committed, and the controller has not been told so. */
static bool commit_passes(const struct node *node, uint64_t clock) {
    return clock != 0 && node->client.committed >= clock && node->told_committed < clock;
}

/* Tells the controller at once what it waits for: that we are ready, and that the clocks up to a boundary, or all of
 * the job's, are committed. */
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

/* ---- Going on ---- */

/* The next clock of a duty that has its clock; WIRE_CLOCK_NEVER when there is none. */
static uint64_t duty_next(const struct node *node, const struct node_duty *duty) {
    uint64_t done = duty->origin == node->options.self ? node->client.flushed : duty->done;
    uint64_t next = duty->from_clock > done ? duty->from_clock : done + 1;
    return next <= duty->until_clock ? next : WIRE_CLOCK_NEVER;
}

/* How many shards both have. */
static uint32_t common_shards(const struct node_set *one, const struct node_set *other) {
    uint32_t at = 0;
    uint32_t common = 0;
    for (uint32_t i = 0; i < other->count; i++) {
        while (at < one->count && one->shards[at] < other->shards[i]) {
            at++;
        }
        common += at < one->count && one->shards[at] == other->shards[i] ? 1 : 0;
    }
    return common;
}

static bool set_contains(const struct node_set *set, const struct node_set *part) {
    return common_shards(set, part) == part->count;
}

/* In the duty's first clock, shards that were another origin's just before: what that one put last must be seen,
 * whatever the staleness, or our puts would undo it. */
static bool shards_are_new(const struct node *node, const struct node_duty *duty, uint64_t clock) {
    if (clock != duty->from_clock) {
        return false;
    }
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_duty *before = &node->duties[d];
        if (before->origin == duty->origin && before->until_clock + 1 == clock &&
            set_contains(&node->sets[before->set], &node->sets[duty->set])) {
            return false;
        }
    }
    return true;
}

/* Whether all of the set's shards are in duties of this node in `clock`. */
static bool worked_by_us(const struct node *node, const struct node_set *set, uint64_t clock) {
    uint32_t found = 0;
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_duty *duty = &node->duties[d];
        if (duty->from_clock <= clock && clock <= duty->until_clock) {
            found += common_shards(&node->sets[duty->set], set);
        }
    }
    return found == set->count;
}

/* In the duty's first clock, shards that were another node's just before: that node's work must be committed. Else it
 * might be lost with the node and done again, with other results, while ours, which goes on from what the node had put,
 * is kept. (The clock before a duty's first one is a commit point.) */
static bool may_be_done_again(const struct node *node, const struct node_duty *duty, uint64_t clock) {
    return clock == duty->from_clock && node->client.committed < clock - 1 && job_has_put_tables(node->job) &&
           !worked_by_us(node, &node->sets[duty->set], clock - 1);
}

static bool duty_may_begin(const struct node *node, const struct node_duty *duty, uint64_t clock) {
    return clock != WIRE_CLOCK_NEVER && !held_at(node, clock - 1) && (node->final == 0 || clock <= node->final) &&
           node->sets[duty->set].filled && client_may_begin(&node->client, clock) &&
           (!shards_are_new(node, duty, clock) || client_has_state(&node->client, clock - 1)) &&
           !may_be_done_again(node, duty, clock);
}

/* A catch-up that ends before `clock` is not done: what it puts must not come after what our own duty puts. */
static bool catches_up_before(const struct node *node, uint64_t clock) {
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_duty *duty = &node->duties[d];
        if (origin_is_catch_up(duty->origin) && duty->until_clock < clock &&
            duty_next(node, duty) != WIRE_CLOCK_NEVER) {
            return true;
        }
    }
    return false;
}

/* The catch-up, or else the duty of our own, that comes next; NULL when none may begin. */
static struct node_duty *duty_to_begin(struct node *node, bool catch_up) {
    struct node_duty *first = NULL;
    for (unsigned d = 0; d < node->duty_count; d++) {
        struct node_duty *duty = &node->duties[d];
        if ((bool)origin_is_catch_up(duty->origin) == catch_up &&
            (first == NULL || duty_next(node, duty) < duty_next(node, first))) {
            first = duty;
        }
    }
    bool waits = first == NULL || (!catch_up && catches_up_before(node, duty_next(node, first)));
    return !waits && duty_may_begin(node, first, duty_next(node, first)) ? first : NULL;
}

static void begin_clock(struct node *node, const struct node_duty *duty) {
    const struct node_hooks *hooks = &node->options.hooks;
    uint64_t clock = duty_next(node, duty);
    client_begin(&node->client, duty->origin, clock);
    node->at = *duty;
    node->at_clock = clock;
    node->again = false;
    node->begun = clock > node->begun ? clock : node->begun;
    node->clock_began_us = node_now(node);
    node->busy = true;
    hooks->compute(hooks->context, node->sets[duty->set].number, clock);
}

static bool is_last(const struct node *node, uint64_t clock) {
    return node->final != 0 && clock == node->final && client_has_state(&node->client, clock);
}

/* Of node->at and node->at_clock. */
static void evaluate(struct node *node) {
    const struct node_hooks *hooks = &node->options.hooks;
    node->unevaluated = false;
    node->busy = true;
    node->last = is_last(node, node->at_clock);
    client_freeze(&node->client);
    hooks->evaluate(hooks->context, node->sets[node->at.set].number, node->at_clock, node->again);
}

static void evaluate_again(struct node *node, actor_id origin, unsigned set, uint64_t clock) {
    node->at = (struct node_duty){.origin = origin, .set = set};
    node->at_clock = clock;
    node->again = true;
    evaluate(node);
}

/* The clock that was flushed is evaluated when the next one may begin; one that may turn out to be the last waits for
 * the full state. Nothing waits while a catch-up can go on, of which that state may need more. */
static bool evaluation_due(const struct node *node, bool catch_up) {
    uint64_t clock = node->at_clock;
    bool last = clock == node->final || held_at(node, clock);
    return catch_up || origin_is_catch_up(node->at.origin) ||
           (last ? client_has_state(&node->client, clock) : client_may_begin(&node->client, clock + 1));
}

/* Evaluates what the controller has asked for. The node goes on meanwhile if the data for it is not there yet. */
static bool evaluate_asked(struct node *node) {
    for (unsigned e = 0; e < node->evaluation_count && !node->client.fenced; e++) {
        const struct node_evaluation *evaluation = &node->evaluations[e];
        bool again = is_last(node, evaluation->clock) && evaluation->last != evaluation->clock;
        if ((!evaluation->done || again) && node->sets[evaluation->set].filled &&
            client_has_state(&node->client, evaluation->clock)) {
            evaluate_again(node, evaluation->origin, evaluation->set, evaluation->clock);
            return true;
        }
    }
    return false;
}

/* A clock that was named the last one only after it had been evaluated, or was evaluated in another state than its own,
 * is evaluated once more. */
static bool evaluate_last(struct node *node) {
    for (unsigned d = 0; d < node->duty_count && is_last(node, node->final) && !node->client.fenced; d++) {
        const struct node_duty *duty = &node->duties[d];
        uint64_t next = duty_next(node, duty);
        if (duty->from_clock <= node->final && node->final <= duty->until_clock && next > node->final &&
            duty->last != node->final && node->sets[duty->set].filled) {
            evaluate_again(node, duty->origin, duty->set, node->final);
            return true;
        }
    }
    return false;
}

/* Begins what can begin now. True when that was something. */
static bool node_advance(struct node *node) {
    if (node->ended) {
        return false;
    }
    release_sets(node);
    forget_rows(node);
    if (prepare_next(node)) {
        return true;
    }
    fill_sets(node);
    if (node->state < NODE_STARTED || node->busy || node->unsaving) {
        return false;
    }
    const struct node_duty *catch_up = duty_to_begin(node, true);
    if (node->unevaluated) {
        bool due = evaluation_due(node, catch_up != NULL);
        if (due) {
            evaluate(node);
        }
        return due;
    }
    if (node->progress_count == WIRE_PROGRESS_MAX) {
        return false;
    }
    if (catch_up == NULL && evaluate_asked(node)) {
        return true;
    }
    const struct node_duty *duty = catch_up != NULL ? catch_up : duty_to_begin(node, false);
    if (duty == NULL) {
        return evaluate_last(node);
    }
    begin_clock(node, duty);
    return true;
}

/* Everything up to the last clock is done, and of that one we have the state: our flushes have arrived. */
static bool node_is_through(const struct node *node) {
    if (node->final == 0 || node->busy || node->unevaluated) {
        return false;
    }
    bool had_final = false;
    for (unsigned d = 0; d < node->duty_count; d++) {
        const struct node_duty *duty = &node->duties[d];
        if (duty_next(node, duty) <= node->final) {
            return false;
        }
        had_final = had_final || (duty->from_clock <= node->final && duty->until_clock >= node->final);
    }
    return !had_final || client_has_state(&node->client, node->final);
}

static void tell_finished(struct node *node) {
    if (node->state >= NODE_STARTED && node_is_through(node) != (node->state == NODE_FINISHED)) {
        node->state = node->state == NODE_STARTED ? NODE_FINISHED : NODE_STARTED;
        send_heartbeat(node);
    }
}

static void node_set_timer(struct node *node) {
    if (node->ended) {
        return;
    }
    uint64_t next = client_timer(&node->client);
    if (next == 0 || node->heartbeat_us < next) {
        next = node->heartbeat_us;
    }
    if (node->progress_sent < node->progress_count && node->progress_us + NODE_PROGRESS_US < next) {
        next = node->progress_us + NODE_PROGRESS_US;
    }
    if (next != node->timer_us) {
        node->timer_us = next;
        node->io->set_timer(node->io, next);
    }
}

/* The last clock's state is at the servers; what this node's cache has of it may still be on the way, if the node had
 * no part in that clock. The app's finish function may read it. */
static void begin_save(struct node *node) {
    if (node->saving && !node->save_asked && !node->unsaving && node->final != 0 &&
        client_want_last(&node->client, node->final)) {
        node->save_asked = true;
        node->options.hooks.save(node->options.hooks.context);
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
    if (node->client.accused != ACTOR_NONE) {
        node_accuse(node, node->client.accused, node->client.accusation);
        node->client.accused = ACTOR_NONE;
    }
    if (!node->ended) {
        tell_loaded(node);
        tell_ready(node);
        tell_finished(node);
        begin_save(node);
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

/* ---- The hooks' answers ---- */

void node_read(struct node *node, struct buffer *shards, struct buffer *files) {
    buffer_drop(node->input.shards);
    buffer_drop(node->input.files);
    node->input.shards = shards;
    node->input.files = files;
    node->input.reading++;
    if (!node->ended) {
        send_input(node);
    }
}

void node_prepared(struct node *node, unsigned number, uint64_t items, const double totals[WIRE_TOTALS]) {
    struct error error = {0};
    if (node->ended) {
        return;
    }
    for (unsigned s = 0; s < node->set_count; s++) {
        struct node_set *set = &node->sets[s];
        if (set->number == number) {
            set->prepared = true;
            set->items = items;
            memcpy(set->totals, totals, sizeof set->totals);
        }
    }
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
    node->unevaluated = true;
    for (unsigned d = 0; d < node->duty_count; d++) {
        if (node->duties[d].origin == node->at.origin) {
            node->duties[d].done = node->client.clock;
        }
    }
    client_flush(&node->client);
    node_step(node);
}

/* Notes what is evaluated now. */
static void note_evaluated(struct node *node) {
    if (node->at.origin == node->options.self && !node->again) {
        node->evaluated = node->at_clock;
    }
    for (unsigned d = 0; d < node->duty_count && node->last; d++) {
        if (node->duties[d].origin == node->at.origin) {
            node->duties[d].last = node->at_clock;
        }
    }
    for (unsigned e = 0; e < node->evaluation_count && node->again; e++) {
        struct node_evaluation *evaluation = &node->evaluations[e];
        if (evaluation->origin == node->at.origin && evaluation->clock == node->at_clock) {
            evaluation->done = true;
            evaluation->last = node->last ? node->at_clock : evaluation->last;
        }
    }
}

void node_evaluated(struct node *node, const struct wire_metric_sum *metrics) {
    if (node->ended) {
        return;
    }
    client_thaw(&node->client);
    node->busy = false;
    note_evaluated(node);
    report_progress(node, metrics);
    node_step(node);
}

static void send_saved(struct node *node) {
    struct message saved = {.type = MESSAGE_SAVED, .saved = node->save_outcome};
    node_send(node, &saved);
}

void node_saved(struct node *node, int code, const char *text) {
    if (node->ended) {
        return;
    }
    if (node->unsaving) {
        node->unsaving = false;
        node_step(node);
        return;
    }
    node->saved = true;
    node->save_outcome.attempt = node->save_attempt;
    node->save_outcome.code = code;
    snprintf(node->save_outcome.text, sizeof node->save_outcome.text, "%s", text);
    send_saved(node);
}

void node_leave_soon(struct node *node, uint32_t notice_ms) {
    if (node->ended) {
        return;
    }
    uint64_t leave_us = node_now(node) + notice_ms * UINT64_C(1000);
    if (node->leave_us != 0 && node->leave_us <= leave_us) {
        return; /* an earlier warning left no more time than this */
    }
    node->leaving = true;
    node->leave_us = leave_us;
    if (node->heartbeat_ms != 0) {
        send_evict(node);
    }
}

/* ---- Plans ---- */

static int compare_numbers(const void *one, const void *other) {
    uint64_t a;
    uint64_t b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return a < b ? -1 : a > b;
}

static int compare_shards(const void *one, const void *other) {
    uint32_t a;
    uint32_t b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return a < b ? -1 : a > b;
}

/* Makes the nodes and servers of a new plan known to the io, and has it forget those that left. */
static void connect_servers(struct node *node, const struct plan_view *plan) {
    node->io->admit(node->io, plan->nodes, plan->node_count);
    for (size_t e = 0; e < plan->endpoint_count; e++) {
        if (actor_node(plan->endpoints[e].actor) != node->options.self) {
            node->io->connect(node->io, plan->endpoints[e].actor, plan->endpoints[e].endpoint);
        }
    }
    links_forget_absent(node->io, node->options.self, &node->plan, plan);
}

/* The set of these shards, made when new. Takes over `shards`. */
static unsigned set_of_shards(struct node *node, uint32_t *shards, uint32_t count) {
    qsort(shards, count, sizeof *shards, compare_shards);
    for (unsigned s = 0; s < node->set_count; s++) {
        const struct node_set *set = &node->sets[s];
        if (set->count == count && memcmp(set->shards, shards, count * sizeof *shards) == 0) {
            free(shards);
            return s;
        }
    }
    node->sets = memory_resized(node->sets, node->set_count + 1, sizeof *node->sets);
    node->sets[node->set_count] = (struct node_set){.number = ++node->sets_made, .shards = shards, .count = count};
    return node->set_count++;
}

/* What the duty's origin has done by the old plan. */
static void take_done(const struct node *node, struct node_duty *duty) {
    for (unsigned d = 0; d < node->duty_count; d++) {
        if (node->duties[d].origin == duty->origin) {
            duty->done = node->duties[d].done;
            duty->last = node->duties[d].last;
            return;
        }
    }
}

/* Our part of the plan's duties. Data that is there stays, whatever the clocks. */
static void take_duties(struct node *node) {
    const struct wire_duty *planned = node->plan.duties;
    struct node_duty *duties = memory_zeroed(node->plan.duty_count + 1, sizeof *duties);
    unsigned count = 0;
    for (size_t d = 0; d < node->plan.duty_count; d++) {
        if (actor_node(planned[d].origin) != node->options.self) {
            continue;
        }
        uint32_t *shards = memory_resized(NULL, planned[d].count, sizeof *shards);
        memcpy(shards, node->plan.shards + planned[d].first, planned[d].count * sizeof *shards);
        duties[count] = (struct node_duty){.origin = planned[d].origin,
                                           .from_clock = planned[d].from_clock,
                                           .until_clock = planned[d].until_clock,
                                           .set = set_of_shards(node, shards, planned[d].count)};
        take_done(node, &duties[count++]);
    }
    free(node->duties);
    node->duties = duties;
    node->duty_count = count;
}

static void drop_evaluations(struct node *node, uint64_t from, uint64_t until) {
    unsigned kept = 0;
    for (unsigned e = 0; e < node->evaluation_count; e++) {
        if (node->evaluations[e].clock < from || node->evaluations[e].clock > until) {
            node->evaluations[kept++] = node->evaluations[e];
        }
    }
    node->evaluation_count = kept;
}

/* Clocks beyond the restored one are done again, by whoever did them: nothing is evaluated there in a lost node's
 * place, and the last clock's state, when it is one of these, will be another. */
static void undo_evaluations(struct node *node) {
    uint64_t restore = node->plan.terms.restore;
    drop_evaluations(node, restore + 1, WIRE_CLOCK_NEVER);
    if (node->final == 0 || node->final <= restore) {
        return;
    }
    node->last = false;
    for (unsigned d = 0; d < node->duty_count; d++) {
        node->duties[d].last = 0;
    }
    for (unsigned i = 0; i < node->progress_count; i++) {
        node->progress[i].progress.last = 0;
    }
}

/* Which of our servers have a part in the plan. */
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

/* What was done for the old epoch's end of the job is void. */
static void save_drop(struct node *node) {
    if (node->save_asked && !node->saved) {
        node->unsaving = true;
        node->options.hooks.unsave(node->options.hooks.context);
    }
    node->saving = node->save_asked = node->saved = false;
    node->save_attempt = 0;
}

static void send_servers(struct node *node, const struct message *message) {
    for (unsigned s = 0; s < node->options.server_count; s++) {
        struct message copy = message_share(message);
        node->io->send(node->io, node->options.servers[s].actor, &copy);
    }
}

static void receive_plan(struct node *node, const struct message *message) {
    struct plan_view plan = plan_open(message);
    bool first = !plan_is_there(&node->plan);
    if (!plan_replaces(&node->plan, &plan, node->client.epoch)) {
        plan_close(&plan);
        return;
    }
    bool new_epoch = !first && plan.epoch > node->plan.epoch;
    if (first) {
        cache_open(&node->cache, node->job, plan.terms.partitions);
        node->state = NODE_LOADING;
    }
    connect_servers(node, &plan);
    send_servers(node, message);
    client_plan(&node->client, &plan);
    plan_close(&node->plan);
    node->plan = plan;
    find_roles(node);
    take_duties(node);
    if (new_epoch) {
        node->accusation.accused = ACTOR_NONE;
        undo_evaluations(node);
        checkpoint_drop(node);
        save_drop(node);
    }
    send_heartbeat(node);
}

unsigned node_origins(const struct node *node, uint64_t clock) {
    actor_id *nodes = memory_resized(NULL, node->plan.duty_count + 1, sizeof *nodes);
    size_t at_work = 0;
    for (size_t d = 0; d < node->plan.duty_count; d++) {
        if (duty_covers(&node->plan.duties[d], clock)) {
            nodes[at_work++] = actor_node(node->plan.duties[d].origin);
        }
    }
    qsort(nodes, at_work, sizeof *nodes, compare_numbers);
    unsigned different = 0;
    for (size_t n = 0; n < at_work; n++) {
        different += n == 0 || nodes[n] != nodes[n - 1] ? 1 : 0;
    }
    free(nodes);
    return different;
}

/* ---- Failures of others ---- */

/* Once all of our servers stand still. */
static void send_fenced(struct node *node) {
    struct message message = {.type = MESSAGE_FENCED};
    size_t size = 0;
    message.fenced.begun = node->begun;
    message.fenced.committed = node->client.committed;
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct node_server *server = &node->servers[s];
        if (!server->fenced) {
            return;
        }
        size += server->reaches->size;
        if (server->committed > message.fenced.committed) {
            message.fenced.committed = server->committed;
        }
    }
    struct buffer *reaches = buffer_new(size);
    size = 0;
    for (unsigned s = 0; s < node->options.server_count; s++) {
        const struct buffer *own = node->servers[s].reaches;
        memcpy(reaches->data + size, own->data, own->size);
        size += own->size;
    }
    message_add(&message, reaches);
    node_send(node, &message);
}

static void receive_fence(struct node *node, const struct message *fence) {
    if (fence->epoch < node->client.epoch || (fence->epoch == node->client.epoch && !node->client.fenced)) {
        return; /* the plan that ends it has come */
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

/* ---- What our servers say ---- */

static void receive_replicas(struct node *node, struct node_server *server, const struct message *message) {
    if (message->epoch != node->client.epoch) {
        return;
    }
    server->version = message->replicas.version;
    server->in_step = message->replicas.in_step != 0;
    server->committed = message->replicas.committed;
    if (message->replicas.fenced != 0 && node->client.fenced) {
        server->fenced = true;
        buffer_drop(server->reaches);
        server->reaches = buffer_hold(message->frames[RECORDS_FRAME]);
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

/* ---- What the controller says ---- */

static void receive_welcome(struct node *node, const struct message_welcome *welcome) {
    if (node->heartbeat_ms != 0) {
        return;
    }
    memcpy(node->name, welcome->name, sizeof node->name);
    node->heartbeat_ms = welcome->heartbeat_ms;
    node->timeout_ms = welcome->timeout_ms;
    send_heartbeat(node);
    if (node->leaving) {
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
    node->state = NODE_STARTED;
    send_heartbeat(node);
}

/* The controller has this PROGRESS. What a catch-up of an earlier epoch has left to report is a part of its clock's,
 * and so is an evaluation in a lost node's place: its clock was restored, which the count of the catch-up begins
 * behind. */
static bool progress_arrived(const struct node *node, const struct message_progress *progress,
                             const struct message *ack) {
    bool present =
        ack->epoch == node->plan.epoch && progress->origin == origin_catch_up(node->options.self, ack->epoch) &&
        progress->evaluation == 0;
    return progress->clock <= (present ? ack->heartbeat_ack.catch_up : ack->heartbeat_ack.progress);
}

static void drop_arrived(struct node *node, const struct message *ack) {
    unsigned kept = 0;
    unsigned again = node->progress_again;
    unsigned sent = node->progress_sent;
    for (unsigned i = 0; i < node->progress_count; i++) {
        if (!progress_arrived(node, &node->progress[i].progress, ack)) {
            node->progress[kept++] = node->progress[i];
            continue;
        }
        message_close(&node->progress[i]);
        node->progress_again -= i < again ? 1 : 0;
        sent -= i < node->progress_sent ? 1 : 0;
    }
    node->progress_still = kept < node->progress_count ? 0 : node->progress_still;
    node->progress_count = kept;
    node->progress_sent = sent;
    if (again > 0 && node->progress_again == 0) {
        unsigned more = 2 * node->progress_burst;
        node->progress_burst = more < NODE_PROGRESS_BURST_MAX ? more : NODE_PROGRESS_BURST_MAX;
        send_progress_again(node);
    }
}

static void receive_ack(struct node *node, const struct message *message) {
    const struct message_heartbeat_ack *ack = &message->heartbeat_ack;
    drop_arrived(node, message);
    drop_evaluations(node, 0, ack->progress);
    if (ack->input > node->input.compared && ack->input <= node->input.reading) {
        node->input.compared = ack->input;
    }
    if (ack->hold < node->hold.number) {
        return; /* the number never falls: this one is old */
    }
    node->final = ack->final != 0 ? ack->final : node->final;
    if (ack->hold > node->hold.number) {
        node->hold.number = ack->hold;
        node->hold.clock = ack->hold_clock;
        send_heartbeat(node);
    }
}

static void receive_save(struct node *node, const struct message *message) {
    if (message->epoch != node->client.epoch || node->client.fenced) {
        return; /* of an epoch that is over */
    }
    bool goes_on = node->saving && !node->saved;
    if (!goes_on && message->save.attempt > node->save_attempt) {
        node->save_attempt = message->save.attempt;
        node->saving = true;
        node->save_asked = node->saved = false;
        node_step(node);
    } else if (node->saved && message->save.attempt == node->save_attempt) {
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

/* Passes on to one of our servers what it is to write, by the plan, and has not written yet. */
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

static void receive_evaluate(struct node *node, const struct message *message) {
    const struct message_evaluate *asked = &message->evaluate;
    size_t count;
    const uint32_t *listed = evaluate_shards(message, &count);
    if (message->epoch != node->client.epoch || node->client.fenced || !plan_is_there(&node->plan) ||
        actor_node(asked->origin) != node->options.self || asked->clock > node->plan.terms.restore ||
        listed[count - 1] >= node->plan.terms.shards || node->evaluation_count == NODE_EVALUATIONS_MAX) {
        return;
    }
    for (unsigned e = 0; e < node->evaluation_count; e++) {
        if (node->evaluations[e].origin == asked->origin && node->evaluations[e].clock == asked->clock) {
            return;
        }
    }
    uint32_t *shards = memory_resized(NULL, count, sizeof *shards);
    memcpy(shards, listed, count * sizeof *shards);
    node->evaluations = memory_resized(node->evaluations, node->evaluation_count + 1, sizeof *node->evaluations);
    unsigned set = set_of_shards(node, shards, (uint32_t)count);
    node->evaluations[node->evaluation_count++] =
        (struct node_evaluation){.origin = asked->origin, .clock = asked->clock, .set = set};
}

static void receive_outcome(struct node *node, const struct message_outcome *outcome) {
    if (!node->leaving || outcome->request != NODE_EVICT_REQUEST) {
        return;
    }
    node->leaving = false;
    if (outcome->code != 0) {
        node_fail(node, outcome->code, outcome->text);
    }
}

static void receive_controller(struct node *node, const struct message *message) {
    switch ((unsigned)message->type) {
    case MESSAGE_WELCOME:
        receive_welcome(node, &message->welcome);
        break;
    case MESSAGE_PLAN:
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
        receive_evaluate(node, message);
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

void node_receive(void *self, actor_id from, struct message *message) {
    struct node *node = self;
    if (node->ended) {
        return;
    }
    if (from == ACTOR_CONTROLLER) {
        node->heard_us = node_now(node);
        receive_controller(node, message);
    } else {
        struct node_server *server = own_server(node, from);
        if (server != NULL) {
            receive_server(node, server, message);
        }
        client_receive(&node->client, from, message);
    }
    if (!node->ended) {
        node_step(node);
    }
}

/* ---- Time ---- */

static uint32_t node_patience_ms(const struct node *node) {
    if (node->heartbeat_ms != 0) {
        return node->options.patience_ms;
    }
    return node->leaving && node->timeout_ms > NODE_LEAVE_MS ? NODE_LEAVE_MS : node->timeout_ms;
}

/* Training goes on without a controller: but not for ever. */
static bool node_check_silence(struct node *node, uint64_t now) {
    uint32_t patience_ms = node_patience_ms(node);
    if (now - node->heard_us <= patience_ms * UINT64_C(1000)) {
        return false;
    }
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "the controller at %s has not answered for %.1f s", node->options.controller,
             (double)(now - node->heard_us) / 1e6);
    node_fail(node, AML_EFAIL, text);
    return true;
}

/* Time in which this process itself stood still (a debugger, a laptop's lid, a busy machine) counts as nobody's
 * silence. After a long stop connections may be broken: servers get the time that new ones take, too. */
static void discount_stop(struct node *node, uint64_t now) {
    uint64_t late_us = node->timer_us != 0 && now > node->timer_us ? now - node->timer_us : 0;
    if (late_us > node->timeout_ms * UINT64_C(500)) {
        node->heard_us = now;
        client_excuse(&node->client, UINT64_MAX, now + IO_RECONNECT_US);
        return;
    }
    if (late_us > node->heartbeat_ms * UINT64_C(1000)) {
        node->heard_us = io_excused(node->heard_us, late_us, now);
        client_excuse(&node->client, late_us, now);
    }
}

/* What the controller is told each time, until it answers. */
static void repeat(struct node *node) {
    send_heartbeat(node);
    send_accusation(node);
    send_input_again(node);
    if (node->state == NODE_LOADED && node->loaded == node->plan.terms.version) {
        send_loaded(node);
    }
    if (node->leaving) {
        send_evict(node);
    }
    if (++node->progress_still > NODE_PROGRESS_STILL_MAX) { /* the controller is away, or the network is full */
        node->progress_burst = NODE_PROGRESS_BURST;
    }
    send_progress_again(node);
}

void node_connected(struct node *node, actor_id peer) {
    if (peer == ACTOR_CONTROLLER && node->heartbeat_ms != 0 && !node->ended) {
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
    if (node->progress_sent < node->progress_count && now >= node->progress_us + NODE_PROGRESS_US) {
        send_progress_new(node);
    }
    if (now >= node->heartbeat_us) {
        if (node->heartbeat_ms == 0) {
            send_registration(node);
            node->heartbeat_us = now + NODE_REGISTER_RETRY_US;
        } else {
            repeat(node);
        }
    }
    node_step(node);
}
