/* See controller.h. */
#include "agileml/control/controller.h"

#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "agileml/control/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t controller_now(const struct controller *controller) {
    return controller->io->now_us(controller->io);
}

static void controller_tick_at(struct controller *controller, uint64_t at_us) {
    controller->tick_us = at_us;
    controller->io->set_timer(controller->io, at_us);
}

int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error) {
    *controller = (struct controller){.io = io, .options = *options};
    if (options->reliable + options->transient > WIRE_NODES_MAX || options->reliable + options->transient == 0) {
        return error_set(error, AML_EINPUT, "%u nodes, expected 1 to %d", options->reliable + options->transient,
                         WIRE_NODES_MAX);
    }
    if (options->policy.partitions == 0 || options->policy.partitions > WIRE_PARTITIONS_MAX ||
        options->policy.shards == 0 || options->policy.shards > WIRE_SHARDS_MAX) {
        return error_set(error, AML_EINPUT, "%u partitions and %u shards, expected 1 to %d and 1 to %d",
                         options->policy.partitions, options->policy.shards, WIRE_PARTITIONS_MAX, WIRE_SHARDS_MAX);
    }
    if (options->heartbeat_ms == 0 || options->timeout_ms <= options->heartbeat_ms) {
        return error_set(error, AML_EINPUT, "a heartbeat every %u ms and a timeout of %u ms, which must be longer",
                         options->heartbeat_ms, options->timeout_ms);
    }
    controller->began_us = controller_now(controller);
    controller_tick_at(controller, controller->began_us + options->heartbeat_ms * UINT64_C(500));
    return 0;
}

void controller_close(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        buffer_drop(controller->members[m].endpoints);
    }
    free(controller->members);
    free(controller->window);
    free(controller->values);
    for (size_t l = controller->first_line; l < controller->line_count; l++) {
        free(controller->lines[l - controller->first_line]);
    }
    free(controller->lines);
    message_close(&controller->plan);
    memset(controller, 0, sizeof *controller);
}

/* ---- Sending ---- */

static void controller_send(struct controller *controller, actor_id to, struct message *message) {
    message->epoch = controller->plan.epoch;
    controller->io->send(controller->io, to, message);
}

static void send_ack(struct controller *controller, const struct member *member) {
    struct message ack = {.type = MESSAGE_HEARTBEAT_ACK};
    ack.heartbeat_ack.progress = member->progress;
    ack.heartbeat_ack.hold = controller->hold;
    ack.heartbeat_ack.final = controller->final;
    controller_send(controller, member->node.actor, &ack);
}

static void send_acks(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        send_ack(controller, &controller->members[m]);
    }
}

static void send_welcome(struct controller *controller, actor_id to, const char *name) {
    struct message welcome = {.type = MESSAGE_WELCOME};
    memcpy(welcome.welcome.name, name, sizeof welcome.welcome.name);
    welcome.welcome.heartbeat_ms = controller->options.heartbeat_ms;
    welcome.welcome.timeout_ms = controller->options.timeout_ms;
    controller_send(controller, to, &welcome);
}

static void send_plan(struct controller *controller, const struct member *member) {
    struct message copy = message_share(&controller->plan);
    controller_send(controller, member->node.actor, &copy);
}

static void send_start(struct controller *controller, const struct member *member) {
    struct message start = {.type = MESSAGE_START, .frame_count = 1};
    start.start.items = controller->items;
    start.frames[0] = buffer_copy(controller->totals, sizeof controller->totals);
    controller_send(controller, member->node.actor, &start);
}

static void send_empty(struct controller *controller, actor_id to, enum message_type type) {
    struct message message = {.type = type};
    controller_send(controller, to, &message);
}

static void send_abort(struct controller *controller, actor_id to, int code, const char *text) {
    struct message abort_message = {.type = MESSAGE_ABORT};
    abort_message.text.code = code;
    snprintf(abort_message.text.text, sizeof abort_message.text.text, "%s", text);
    controller_send(controller, to, &abort_message);
}

/* ---- The report ---- */

const char *controller_line(const struct controller *controller, size_t number) {
    bool there = number >= controller->first_line && number < controller->line_count;
    return there ? controller->lines[number - controller->first_line] : NULL;
}

static void observer_send(struct controller *controller, const struct observer *observer) {
    size_t first = observer->read > controller->first_line ? observer->read : controller->first_line;
    for (size_t l = first; l < controller->line_count && l < first + CONTROLLER_BURST_MAX; l++) {
        const char *line = controller_line(controller, l);
        struct message report = {.type = MESSAGE_REPORT, .frame_count = 1};
        report.report.number = l;
        report.report.oldest = controller->first_line;
        report.frames[0] = buffer_copy(line, strlen(line));
        controller_send(controller, observer->actor, &report);
    }
}

/* Takes over `line`, from malloc. */
static void controller_report(struct controller *controller, char *line) {
    size_t kept = controller->line_count - controller->first_line;
    if (kept == CONTROLLER_LINES_MAX) {
        size_t dropped = CONTROLLER_LINES_MAX / 4; /* some at a time, so that moving the others costs little */
        for (size_t l = 0; l < dropped; l++) {
            free(controller->lines[l]);
        }
        kept -= dropped;
        memmove(controller->lines, controller->lines + dropped, kept * sizeof *controller->lines);
        controller->first_line += dropped;
    }
    controller->lines = memory_resized(controller->lines, kept + 1, sizeof *controller->lines);
    controller->lines[kept] = line;
    controller->line_count++;
    for (unsigned o = 0; o < controller->observer_count; o++) {
        struct observer at_end = {.actor = controller->observers[o].actor, .read = controller->line_count - 1};
        observer_send(controller, &at_end);
    }
}

static double seconds_since(const struct controller *controller, uint64_t start_us) {
    return start_us == 0 ? 0.0 : (double)(controller_now(controller) - start_us) / 1e6;
}

/* ---- The end ---- */

static void controller_finish(struct controller *controller, int code, const char *text) {
    controller->phase = PHASE_LEAVE;
    controller->code = code;
    snprintf(controller->text, sizeof controller->text, "%s", text);
    controller_report(controller, report_summary(controller, seconds_since(controller, controller->started_us)));
    uint64_t now = controller_now(controller);
    uint64_t timeout_us = controller->options.timeout_ms * UINT64_C(1000);
    controller->end_us = controller->leave_us = now + CONTROLLER_END_WAIT_US;
    if (code == 0 && timeout_us > CONTROLLER_END_WAIT_US) {
        controller->leave_us = now + timeout_us; /* nobody may come to think that it failed */
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (code == 0) {
            send_empty(controller, controller->members[m].node.actor, MESSAGE_DONE);
        } else {
            send_abort(controller, controller->members[m].node.actor, code, text);
        }
    }
}

void controller_abort(struct controller *controller, int code, const char *text) {
    if (controller->phase < PHASE_LEAVE) {
        controller_finish(controller, code, text);
    }
}

static void controller_try_end(struct controller *controller) {
    if (controller->phase != PHASE_LEAVE) {
        return;
    }
    uint64_t now = controller_now(controller);
    bool waiting = false;
    for (unsigned m = 0; m < controller->member_count && now < controller->leave_us; m++) {
        waiting = waiting || !controller->members[m].left;
    }
    for (unsigned o = 0; o < controller->observer_count && now < controller->end_us; o++) {
        waiting = waiting || controller->observers[o].read < controller->line_count;
    }
    if (!waiting) {
        controller->phase = PHASE_ENDED;
        controller->io->set_timer(controller->io, 0);
        controller->options.end(controller->options.context, controller->code, controller->text);
    }
}

/* A node's failure ends the job. `name` may be NULL: `text` tells. */
static void controller_fail(struct controller *controller, const char *name, int code, const char *text) {
    if (controller->phase < PHASE_LEAVE) {
        controller->failures++;
        controller_report(controller, report_event(controller, "failure", name, text));
        controller_abort(controller, code, text);
    }
}

/* ---- Taking nodes in ---- */

static struct member *member_find(struct controller *controller, actor_id actor) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].node.actor == actor) {
            return &controller->members[m];
        }
    }
    return NULL;
}

static unsigned members_of_tier(const struct controller *controller, unsigned tier) {
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        count += controller->members[m].node.tier == tier ? 1 : 0;
    }
    return count;
}

static bool name_taken(const struct controller *controller, const char *name) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (strcmp(controller->members[m].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static bool job_terms_equal(const struct job_terms *a, const struct job_terms *b) {
    return strcmp(a->app, b->app) == 0 && a->digest == b->digest && a->staleness == b->staleness &&
           a->clocks_per_iteration == b->clocks_per_iteration && a->iterations == b->iterations &&
           a->seconds == b->seconds && a->tolerance == b->tolerance &&
           a->tolerance_iterations == b->tolerance_iterations;
}

/* The reason why a node can't take part; empty when it can. */
static void registration_refusal(const struct controller *controller, const struct message *message, char *reason,
                                 size_t size) {
    const struct message_register *new = &message->registration;
    const char *tier = new->tier == TIER_RELIABLE ? "reliable" : "transient";
    unsigned expected = new->tier == TIER_RELIABLE ? controller->options.reliable : controller->options.transient;
    reason[0] = '\0';
    if (controller->phase != PHASE_GATHER || members_of_tier(controller, new->tier) >= expected) {
        snprintf(reason, size, "the job has all of its %u %s nodes", expected, tier);
    } else if (name_taken(controller, new->name)) {
        snprintf(reason, size, "another node is called %s", new->name);
    } else if (controller->member_count > 0 && strcmp(new->job.app, controller->job.app) != 0) {
        snprintf(reason, size, "this is a job of %s, not of %s", controller->job.app, new->job.app);
    } else if (controller->member_count > 0 && !job_terms_equal(&new->job, &controller->job)) {
        snprintf(reason, size,
                 "%s on %s was started with other options than %s on %s: a job's nodes need the same ones",
                 new->job.app, new->host, controller->members[0].name, controller->members[0].host);
    } else if (new->job.clocks_per_iteration == 0) {
        snprintf(reason, size, "an iteration of 0 clocks");
    } else if (new->job.iterations > WIRE_CLOCK_MAX / new->job.clocks_per_iteration) {
        snprintf(reason, size, "%llu iterations of %u clocks, more than the %llu clocks that a job may have",
                 (unsigned long long)new->job.iterations, new->job.clocks_per_iteration,
                 (unsigned long long)WIRE_CLOCK_MAX);
    }
}

static unsigned window_entries(const struct controller *controller) {
    return controller->job.staleness + 2 + CONTROLLER_AHEAD_MAX;
}

static void controller_make_plan(struct controller *controller) {
    struct plan_policy *policy = &controller->options.policy;
    struct error error = {0};
    struct message *message = &controller->plan;
    unsigned count = controller->member_count;
    struct plan_node *nodes = memory_zeroed(count, sizeof *nodes);
    struct buffer *records = buffer_new(count * sizeof(struct wire_node));
    struct buffer *placement = buffer_new(policy->partitions * sizeof(actor_id));
    struct buffer *shards = buffer_new(policy->shards * sizeof(actor_id));
    size_t endpoint_bytes = 0;
    for (unsigned m = 0; m < count; m++) {
        const struct member *member = &controller->members[m];
        struct wire_node *record = (struct wire_node *)(void *)records->data + m;
        nodes[m] = member->node;
        *record =
            (struct wire_node){.actor = member->node.actor, .tier = member->node.tier, .threads = member->node.threads};
        memcpy(record->name, member->name, sizeof record->name);
        endpoint_bytes += member->endpoints->size;
    }
    struct buffer *endpoints = buffer_new(endpoint_bytes);
    endpoint_bytes = 0;
    for (unsigned m = 0; m < count; m++) {
        const struct buffer *own = controller->members[m].endpoints;
        if (own->size > 0) {
            memcpy(endpoints->data + endpoint_bytes, own->data, own->size);
        }
        endpoint_bytes += own->size;
    }
    *message = (struct message){.type = MESSAGE_PLAN, .epoch = 1, .frame_count = 4};
    message->plan.from_clock = 1;
    message->plan.partitions = policy->partitions;
    message->plan.shards = policy->shards;
    message->frames[0] = records;
    message->frames[1] = placement;
    message->frames[2] = shards;
    message->frames[3] = endpoints;
    actor_id *owners = (actor_id *)(void *)shards->data;
    int result = plan(nodes, count, policy, (actor_id *)(void *)placement->data, owners, &error);
    free(nodes);
    if (result != 0) {
        controller_abort(controller, error.code, error.text);
        return;
    }
    for (uint32_t s = 0; s < policy->shards; s++) {
        struct member *owner = member_find(controller, owners[s]);
        controller->origin_count += owner->origin ? 0 : 1;
        owner->origin = true;
    }
    controller->phase = PHASE_LOAD;
    for (unsigned m = 0; m < count; m++) {
        send_plan(controller, &controller->members[m]);
    }
}

static void receive_register(struct controller *controller, actor_id from, const struct message *message) {
    const struct message_register *new = &message->registration;
    struct member *member = member_find(controller, from);
    if (member == NULL && controller->phase >= PHASE_LEAVE) {
        /* Too late: taken in, so that it knows the reason was told, and sent away for the job's reason. */
        send_welcome(controller, from, new->name);
        send_abort(controller, from, controller->code != 0 ? controller->code : AML_ESTOP,
                   controller->code != 0 ? controller->text : "the job is over");
        return;
    }
    if (member == NULL) {
        char reason[ERROR_TEXT_MAX];
        registration_refusal(controller, message, reason, sizeof reason);
        if (reason[0] != '\0') {
            send_abort(controller, from, AML_EINPUT, reason);
            return;
        }
        if (controller->member_count == 0) {
            controller->job = new->job;
            for (unsigned t = WIRE_TOTALS / 2; t < WIRE_TOTALS; t++) {
                controller->totals[t] = -INFINITY;
            }
            controller->metric_count = (unsigned)(message->frames[1]->size / sizeof(struct wire_metric));
            memcpy(controller->metrics, message->frames[1]->data, message->frames[1]->size);
            controller->values = memory_zeroed(WIRE_METRICS_MAX, sizeof(double));
            controller->window = memory_zeroed(window_entries(controller), sizeof *controller->window);
            controller->final = new->job.iterations *new->job.clocks_per_iteration;
        }
        controller->members =
            memory_resized(controller->members, controller->member_count + 1, sizeof *controller->members);
        member = &controller->members[controller->member_count];
        *member = (struct member){
            .node = {.actor = from,
                     .tier = new->tier,
                     .threads = new->threads,
                     .servers = (uint32_t)(message->frames[0]->size / sizeof(struct wire_endpoint))},
            .process_id = new->process_id,
            .endpoints = buffer_hold(message->frames[0]),
        };
        snprintf(member->name, sizeof member->name, "%s", new->name);
        for (unsigned n = controller->member_count + 1; member->name[0] == '\0'; n++) {
            char name[WIRE_NAME_MAX] = {0}; /* goes out whole */
            snprintf(name, sizeof name, "node-%u", n);
            if (!name_taken(controller, name)) {
                memcpy(member->name, name, sizeof name);
            }
        }
        memcpy(member->host, new->host, sizeof member->host);
        controller->member_count++;
        controller_report(controller, report_event(controller, "join", member->name, NULL));
    }
    member->heard_us = controller_now(controller);
    send_welcome(controller, from, member->name);
    if (controller->phase == PHASE_GATHER &&
        controller->member_count == controller->options.reliable + controller->options.transient) {
        controller_make_plan(controller);
    }
}

static void receive_loaded(struct controller *controller, struct member *member, const struct message *message) {
    const double *totals = (const void *)message->frames[0]->data;
    if (member->loaded || controller->phase != PHASE_LOAD) {
        return; /* said before; the heartbeat gets it what it lacks */
    }
    member->loaded = true;
    controller->items += message->loaded.items;
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        double *total = &controller->totals[t];
        *total = t < WIRE_TOTALS / 2 ? *total + totals[t] : fmax(*total, totals[t]);
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (!controller->members[m].loaded) {
            return;
        }
    }
    if (controller->items == 0) {
        controller_abort(controller, AML_EINPUT, "the data holds no training items");
        return;
    }
    controller->phase = PHASE_TRAIN;
    controller->started_us = controller->iteration_us = controller_now(controller);
    controller_report(controller, report_event(controller, "start", NULL, NULL));
    for (unsigned m = 0; m < controller->member_count; m++) {
        send_start(controller, &controller->members[m]);
    }
}

/* ---- Progress ---- */

static void sums_add(struct clock_sums *sums, const struct clock_sums *more, const struct wire_metric *metrics,
                     unsigned metric_count) {
    sums->items += more->items;
    for (unsigned i = 0; i < metric_count; i++) {
        if (metrics[i].evaluated != 0) {
            sums->metrics[i] = more->metrics[i];
        } else {
            sums->metrics[i].sum += more->metrics[i].sum;
            sums->metrics[i].weight += more->metrics[i].weight;
        }
    }
}

/* The node that runs the app's finish function: the first reliable one, so that the model is where people keep it. */
static struct member *controller_saver(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].node.tier == TIER_RELIABLE) {
            return &controller->members[m];
        }
    }
    return &controller->members[0];
}

/* Goes on to saving the model once every node is through with the last clock and has seen its state, so that every
 * partition has reached it. */
static void controller_check_final(struct controller *controller) {
    if (controller->phase != PHASE_TRAIN || controller->final == 0 || controller->completed < controller->final) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].state != NODE_FINISHED) {
            return;
        }
    }
    controller->phase = PHASE_SAVE;
    send_acks(controller);
    send_empty(controller, controller_saver(controller)->node.actor, MESSAGE_SAVE);
}

/* Names a clock that no origin has passed, where an iteration ends, to be the last one. */
static void controller_hold(struct controller *controller) {
    uint64_t reached = controller->completed;
    for (unsigned m = 0; m < controller->member_count; m++) {
        reached = controller->members[m].clock > reached ? controller->members[m].clock : reached;
    }
    uint64_t each = controller->job.clocks_per_iteration;
    controller->hold = (reached + each - 1) / each * each;
    if (controller->hold == 0) {
        controller->hold = each;
    }
    send_acks(controller);
}

static void controller_check_held(struct controller *controller) {
    if (controller->hold == 0 || controller->final != 0) {
        return;
    }
    bool passed = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->origin && member->held < controller->hold) {
            return;
        }
        passed = passed || member->clock > controller->hold;
    }
    if (passed) {
        controller_hold(controller);
        return;
    }
    controller->final = controller->hold;
    send_acks(controller);
}

/* The stopping criteria after an iteration. */
static void controller_check_stop(struct controller *controller, double objective_before) {
    if (controller->hold != 0 || (controller->final != 0 && controller->completed >= controller->final)) {
        return;
    }
    double change = fabs(controller->objective - objective_before) / fmax(fabs(objective_before), 1e-300);
    bool first = controller->completed == controller->job.clocks_per_iteration;
    controller->calm = !first && change < controller->job.tolerance ? controller->calm + 1 : 0;
    bool converged = controller->job.tolerance > 0 && controller->calm >= controller->job.tolerance_iterations;
    bool late =
        controller->job.seconds > 0 && seconds_since(controller, controller->started_us) >= controller->job.seconds;
    if (converged || late) {
        controller->final = 0; /* the limit of iterations gives way to the earlier end */
        controller_hold(controller);
    }
}

static void complete_iteration(struct controller *controller) {
    uint64_t iteration = controller->completed / controller->job.clocks_per_iteration;
    double before = controller->objective;
    for (unsigned i = 0; i < controller->metric_count; i++) {
        controller->values[i] = report_metric(&controller->metrics[i], &controller->iteration.metrics[i]);
    }
    controller->objective = controller->metric_count > 0 ? controller->values[0] : 0.0;
    controller_report(controller,
                      report_iteration(controller, iteration, seconds_since(controller, controller->started_us),
                                       seconds_since(controller, controller->iteration_us)));
    controller->iteration = (struct clock_sums){0};
    controller->iteration_us = controller_now(controller);
    if (!isfinite(controller->objective)) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text,
                 "the objective %s is not a number after iteration %llu: training diverged, try a lower learning rate",
                 controller->metrics[0].name, (unsigned long long)iteration);
        controller_abort(controller, AML_EFAIL, text);
        return;
    }
    controller_check_stop(controller, before);
}

static void complete_clocks(struct controller *controller) {
    for (;;) {
        uint64_t clock = controller->completed + 1;
        struct clock_sums *sums = &controller->window[clock % window_entries(controller)];
        if (sums->reported < controller->origin_count || controller->phase != PHASE_TRAIN) {
            return;
        }
        controller->completed = clock;
        controller->items_processed += sums->items;
        sums_add(&controller->iteration, sums, controller->metrics, controller->metric_count);
        if (controller->job.clocks_per_iteration > 1) {
            controller_report(controller,
                              report_clock(controller, sums, seconds_since(controller, controller->started_us)));
        }
        *sums = (struct clock_sums){0};
        if (clock % controller->job.clocks_per_iteration == 0) {
            complete_iteration(controller);
        }
        controller_check_final(controller);
    }
}

static void fail_for_metrics(struct controller *controller, const struct member *member, size_t count) {
    char text[ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "%s (%s, pid %llu) sent %zu metrics, expected %u: is it another version of %s?",
             member->name, member->host, (unsigned long long)member->process_id, count, controller->metric_count,
             controller->job.app);
    controller_fail(controller, member->name, AML_EPROTOCOL, text);
}

static void receive_progress(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_progress *progress = &message->progress;
    const struct wire_metric_sum *metrics = (const void *)message->frames[0]->data;
    if (progress->clock == member->progress + 1 && member->origin &&
        progress->clock <= controller->completed + window_entries(controller)) {
        if (message->frames[0]->size != controller->metric_count * sizeof *metrics) {
            fail_for_metrics(controller, member, message->frames[0]->size / sizeof *metrics);
            return;
        }
        struct clock_sums *sums = &controller->window[progress->clock % window_entries(controller)];
        member->progress = progress->clock;
        member->clock = progress->clock > member->clock ? progress->clock : member->clock;
        member->bytes_sent = progress->bytes_sent;
        member->bytes_received = progress->bytes_received;
        member->memory_bytes = progress->memory_bytes;
        sums->reported++;
        sums->items += progress->items;
        for (unsigned i = 0; i < controller->metric_count; i++) {
            sums->metrics[i].sum += metrics[i].sum;
            sums->metrics[i].weight += metrics[i].weight;
        }
        complete_clocks(controller);
    } else if (!member->origin) {
        member->progress = progress->clock;
    }
    send_ack(controller, member);
}

/* ---- Heartbeats ---- */

/* A heartbeat says what a node knows; what it lacks is sent again. */
static void receive_heartbeat(struct controller *controller, struct member *member, const struct message *message) {
    member->epoch = message->epoch;
    member->state = message->heartbeat.state;
    member->clock = message->heartbeat.clock > member->clock ? message->heartbeat.clock : member->clock;
    member->held = message->heartbeat.held;
    if (controller->phase == PHASE_LEAVE) {
        if (controller->code == 0) {
            send_empty(controller, member->node.actor, MESSAGE_DONE);
        } else {
            send_abort(controller, member->node.actor, controller->code, controller->text);
        }
        return;
    }
    if (controller->phase >= PHASE_LOAD && member->epoch < controller->plan.epoch) {
        send_plan(controller, member);
    }
    if (controller->phase >= PHASE_TRAIN && member->state == NODE_LOADED) {
        send_start(controller, member);
    }
    if (controller->phase == PHASE_SAVE && member == controller_saver(controller)) {
        send_empty(controller, member->node.actor, MESSAGE_SAVE);
    }
    send_ack(controller, member);
    controller_check_held(controller);
    controller_check_final(controller);
}

static void receive_observe(struct controller *controller, actor_id from, uint64_t read) {
    struct observer *observer = NULL;
    for (unsigned o = 0; o < controller->observer_count; o++) {
        observer = controller->observers[o].actor == from ? &controller->observers[o] : observer;
    }
    if (observer == NULL) {
        if (controller->observer_count == CONTROLLER_OBSERVERS_MAX) {
            return;
        }
        observer = &controller->observers[controller->observer_count++];
        observer->actor = from;
    }
    observer->read = read < controller->line_count ? (size_t)read : controller->line_count;
    observer_send(controller, observer);
    controller_try_end(controller);
}

static void receive_member(struct controller *controller, struct member *member, struct message *message) {
    member->heard_us = controller_now(controller);
    switch ((unsigned)message->type) {
    case MESSAGE_LOADED:
        receive_loaded(controller, member, message);
        break;
    case MESSAGE_PROGRESS:
        receive_progress(controller, member, message);
        break;
    case MESSAGE_HEARTBEAT:
        receive_heartbeat(controller, member, message);
        break;
    case MESSAGE_SAVED:
        if (controller->phase == PHASE_SAVE) {
            controller_finish(controller, message->text.code, message->text.text);
        }
        break;
    case MESSAGE_LEAVE:
        member->left = true;
        controller_try_end(controller);
        break;
    case MESSAGE_FAIL:
        member->left = member->left || controller->phase < PHASE_LEAVE;
        controller_fail(controller, member->name, message->text.code, message->text.text);
        break;
    default:
        break;
    }
}

void controller_receive(void *self, actor_id from, struct message *message) {
    struct controller *controller = self;
    if (controller->phase == PHASE_ENDED) {
        return;
    }
    struct member *member = member_find(controller, from);
    if (message->type == MESSAGE_REGISTER) {
        receive_register(controller, from, message);
    } else if (message->type == MESSAGE_OBSERVE) {
        receive_observe(controller, from, message->observe.from);
    } else if (message->type == MESSAGE_STOP && message->text.code == AML_EFAIL) {
        controller_fail(controller, NULL, message->text.code, message->text.text); /* a node ended before its time */
    } else if (message->type == MESSAGE_STOP) {
        controller_abort(controller, message->text.code, message->text.text);
    } else if (member != NULL) {
        receive_member(controller, member, message);
    }
}

/* ---- Time ---- */

static void check_gathering(struct controller *controller, uint64_t now) {
    if (controller->phase != PHASE_GATHER ||
        now - controller->began_us <= controller->options.start_timeout_ms * UINT64_C(1000)) {
        return;
    }
    char text[ERROR_TEXT_MAX];
    char joined[ERROR_TEXT_MAX / 2] = "";
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        size_t used = strlen(joined);
        snprintf(joined + used, sizeof joined - used, "%s%s (%s)", m > 0 ? ", " : ": ", member->name, member->host);
    }
    snprintf(text, sizeof text, "after %.0f s %u of %u reliable and %u of %u transient nodes have registered%s",
             (double)(now - controller->began_us) / 1e6, members_of_tier(controller, TIER_RELIABLE),
             controller->options.reliable, members_of_tier(controller, TIER_TRANSIENT), controller->options.transient,
             joined);
    controller_abort(controller, AML_EFAIL, text);
}

static void check_silence(struct controller *controller, uint64_t now) {
    char missing[ERROR_TEXT_MAX / 2] = "";
    double longest = 0;
    unsigned count = 0;
    for (unsigned m = 0; m < controller->member_count && controller->phase < PHASE_LEAVE; m++) {
        const struct member *member = &controller->members[m];
        if (now - member->heard_us <= controller->options.timeout_ms * UINT64_C(1000)) {
            continue;
        }
        size_t used = strlen(missing);
        snprintf(missing + used, sizeof missing - used, "%s%s (%s, pid %llu)", count > 0 ? ", " : "", member->name,
                 member->host, (unsigned long long)member->process_id);
        longest = fmax(longest, (double)(now - member->heard_us) / 1e6);
        count++;
        controller->failures++;
        controller->members[m].left = true;
        controller_report(controller, report_event(controller, "failure", member->name, "no heartbeat"));
    }
    if (count > 0) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "no heartbeat for %.1f s from %s", longest, missing);
        controller_abort(controller, AML_EFAIL, text);
    }
}

void controller_timer(void *self) {
    struct controller *controller = self;
    uint64_t now = controller_now(controller);
    if (now > controller->tick_us + controller->options.timeout_ms * UINT64_C(500)) {
        /* We were stopped ourselves (Ctrl-Z, a debugger): silence meanwhile proves nothing. */
        for (unsigned m = 0; m < controller->member_count; m++) {
            controller->members[m].heard_us = now;
        }
        controller->began_us += now - controller->tick_us;
    }
    check_gathering(controller, now);
    check_silence(controller, now);
    if (controller->hold != 0 && controller->final == 0) {
        send_acks(controller);
    }
    controller_try_end(controller);
    if (controller->phase != PHASE_ENDED) {
        controller_tick_at(controller, now + controller->options.heartbeat_ms * UINT64_C(500));
    }
}
