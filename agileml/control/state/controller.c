/* See controller.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/crash_signals.h"
#include "agileml/base/hash.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_options(const struct controller_options *options, struct error *error) {
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
    if (options->answer_ms < options->timeout_ms) {
        return error_set(error, AML_EINPUT, "%u ms for an answer, expected at least the timeout of %u ms",
                         options->answer_ms, options->timeout_ms);
    }
    if (options->feeders_max > WIRE_NODES_MAX) {
        return error_set(error, AML_EINPUT, "%u feeders, expected at most %d", options->feeders_max, WIRE_NODES_MAX);
    }
    if (options->commit_every > WIRE_COMMIT_EVERY_MAX) {
        return error_set(error, AML_EINPUT, "a commit every %u clocks, expected at most %d", options->commit_every,
                         WIRE_COMMIT_EVERY_MAX);
    }
    return 0;
}

/* Continues the job from the state that was read from the store. */
static void controller_take_up(struct controller *controller) {
    uint64_t now = controller_now(controller);
    controller->recovery.lost_us = now;
    controller_admit_members(controller);
    checkpoints_take_up(controller);
    if (controller->member_count > 0) {
        progress_open(controller);
    }
    if (controller->phase >= PHASE_LEAVE) {
        if (controller->phase == PHASE_ENDED) {
            controller_set_phase(controller, PHASE_LEAVE); /* the end is sent again */
        }
        controller->end.told = true;
        controller->end.observers_us = controller->end.members_us = now + IO_RECONNECT_US + CONTROLLER_END_WAIT_US;
    }
    if (controller->phase >= PHASE_TRAIN) {
        controller->times.started_us = now;
    }
    if (controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE) {
        controller->change.due = true;
        change_build(controller);
        if (controller->change.state != CHANGE_RECOVER) {
            change_publish(controller); /* also names nodes that have registered since the last version */
        }
    }
}

uint32_t controller_shards(unsigned nodes) {
    uint64_t fine = (uint64_t)nodes * CONTROLLER_SHARDS_PER_NODE;
    uint64_t least = (uint64_t)nodes * CONTROLLER_SHARDS_PER_NODE_MIN;
    uint64_t shards = fine < CONTROLLER_SHARDS_FINE_MAX ? fine : CONTROLLER_SHARDS_FINE_MAX;
    shards = shards < least ? least : shards;
    shards = shards < CONTROLLER_SHARDS_DEFAULT ? CONTROLLER_SHARDS_DEFAULT : shards;
    return shards < WIRE_SHARDS_MAX ? (uint32_t)shards : WIRE_SHARDS_MAX;
}

int controller_init(struct controller *controller, struct io *io, const struct controller_options *options,
                    struct error *error) {
    *controller = (struct controller){.io = io, .options = *options};
    controller->options.checkpoint_at_end = options->checkpoint_at_end && options->checkpoint != NULL;
    if (check_options(options, error) != 0) {
        return AML_EINPUT;
    }
    monitor_init(&controller->clocks.monitor, options->window_short, options->window_long);
    barrier_lift(controller);
    controller->times.began_us = controller_now(controller);
    int found = persist_load(controller, error);
    int result = found == 0 ? checkpoints_open(controller, error) : found < 0 ? found : 0;
    if (result != 0) {
        controller_close(controller);
        return result;
    }
    features_open(controller);
    if (found > 0) {
        controller_take_up(controller);
    }
    controller_tick_at(controller, controller->times.began_us + options->heartbeat_ms * UINT64_C(500));
    return 0;
}

void controller_close(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        buffer_drop(controller->members[m].endpoints);
        buffer_drop(controller->members[m].fence.restore_points);
    }
    free(controller->members);
    free(controller->expected.machines);
    free(controller->expected.since_us);
    nodes_close(controller);
    monitor_close(&controller->clocks.monitor);
    progress_close(controller);
    lost_close(&controller->lost);
    checkpoints_close(controller);
    for (size_t l = controller->report.first; l < controller->report.count; l++) {
        free(controller->report.lines[l - controller->report.first]);
    }
    free(controller->report.lines);
    free(controller->plan.placement);
    free(controller->plan.previous);
    schedule_close(&controller->plan.schedule);
    plan_close(&controller->plan.view);
    plan_close(&controller->plan.before);
    message_close(&controller->plan.whole);
    message_close(&controller->plan.changed);
    job_input_close(&controller->input.job);
    job_ranges_close(&controller->input.ranges);
    buffer_drop(controller->job.settings);
    memset(controller, 0, sizeof *controller);
}

/* ---- Registration ---- */

static bool job_terms_equal(const struct job_terms *a, const struct job_terms *b) {
    return strcmp(a->app, b->app) == 0 && a->digest == b->digest && a->staleness == b->staleness &&
           a->clocks_per_iteration == b->clocks_per_iteration && a->phases == b->phases &&
           a->local_steps == b->local_steps && a->strategy == b->strategy && a->ssgd_iterations == b->ssgd_iterations &&
           a->iterations == b->iterations && a->seconds == b->seconds && a->tolerance == b->tolerance &&
           a->tolerance_iterations == b->tolerance_iterations;
}

/* Whether a job with the terms `new` can resume a checkpoint with the terms `old`. Strategy and stopping criteria may
 * differ; all other terms must be equal. */
static bool job_terms_resumable(const struct job_terms *new, const struct job_terms *old) {
    struct job_terms same = *old;
    same.strategy = new->strategy;
    same.local_steps = new->local_steps;
    same.ssgd_iterations = new->ssgd_iterations;
    same.iterations = new->iterations;
    same.seconds = new->seconds;
    same.tolerance = new->tolerance;
    same.tolerance_iterations = new->tolerance_iterations;
    return job_terms_equal(new, &same);
}

/* Whether the checkpoint is of a clock within a group of local steps, and the new job would have other groups. Then
 * some parts would be worked on twice, or left out. */
static bool group_is_cut(const struct controller *controller, const struct job_terms *new) {
    const struct strategy_clocks *clocks = &controller->job.resumed_clocks;
    uint64_t next = controller->plan.restore + 1;
    bool begins_group = strategy_boundary(clocks, next) == next;
    bool other_steps = clocks->local_steps != new->local_steps;
    return controller->job.resumed_strategy != STRATEGY_SSGD && other_steps && !begins_group;
}

enum { DIFFERENCES_MAX = 240 /* bytes */ };

/* Writes how a node's options differ from the job's. If the options are equal, returns false and writes what else may
 * be the difference. */
static bool settings_differ(const struct controller *controller, const struct message *message,
                            enum settings_compared compared, const char *whose, char differences[DIFFERENCES_MAX]) {
    char was[WIRE_NAME_MAX + 8];
    snprintf(was, sizeof was, compared == SETTINGS_ALL ? "%s has" : "%s", whose);
    if (job_settings_differ(controller->job.settings, message->frames[REGISTER_OPTIONS], compared, was, differences,
                            DIFFERENCES_MAX)) {
        return true;
    }
    snprintf(differences, DIFFERENCES_MAX, "tables, metrics, items or phases differ, as between versions of the app");
    return false;
}

/* Writes the reason why a node can't take part; an empty text when it can. Returns whether the reason is a different
 * input of the node. */
static bool registration_refusal(const struct controller *controller, const struct message *message, char *reason,
                                 size_t size) {
    const struct message_register *new = &message->registration;
    bool known = controller->member_count > 0 || controller->options.resume != NULL;
    const struct member *first = controller->member_count > 0 ? &controller->members[0] : NULL;
    char differences[DIFFERENCES_MAX] = "";
    reason[0] = '\0';
    if (controller->member_count == WIRE_NODES_MAX) {
        snprintf(reason, size, "the job has %d nodes, the most there can be", WIRE_NODES_MAX);
    } else if (controller_member_named(controller, new->name) != NULL) {
        snprintf(reason, size, "another node is called %s", new->name);
    } else if (known && strcmp(new->job.app, controller->job.terms.app) != 0) {
        snprintf(reason, size, "this is a job of %s, not of %s", controller->job.terms.app, new->job.app);
    } else if (first != NULL && job_marks_differ(controller->job.settings, message->frames[REGISTER_OPTIONS],
                                                 differences, sizeof differences)) {
        snprintf(reason, size,
                 "the input differs: %s%s%s on %s has found other %.160s than %s on %s: give all nodes the same files",
                 new->job.app, new->name[0] != '\0' ? " " : "", new->name, new->host, differences, first->name,
                 first->host);
        return true;
    } else if (first != NULL && (settings_differ(controller, message, SETTINGS_ALL, first->name, differences) ||
                                 !job_terms_equal(&new->job, &controller->job.terms))) {
        snprintf(
            reason, size,
            "%s on %s was started with other options than %s on %s: %.200s: all nodes of a job need the same options",
            new->job.app, new->host, first->name, first->host, differences);
    } else if (known && first == NULL &&
               (settings_differ(controller, message, SETTINGS_FIXED, "was", differences) ||
                !job_terms_resumable(&new->job, &controller->job.terms))) {
        snprintf(reason, size, "%s was started with other options than the job of the checkpoint in %.160s: %.200s",
                 new->job.app, controller->job.resume, differences);
    } else if (known && first == NULL && group_is_cut(controller, &new->job)) {
        snprintf(reason, size,
                 "the checkpoint in %.160s is of clock %llu, within a group of %u local steps: expected --strategy sma "
                 "or auto with --local-steps %u, got %u",
                 controller->job.resume, (unsigned long long)controller->plan.restore,
                 controller->job.resumed_clocks.local_steps, controller->job.resumed_clocks.local_steps,
                 new->job.local_steps);
    } else if (new->job.clocks_per_iteration == 0) {
        snprintf(reason, size, "an iteration of 0 clocks");
    } else if (new->job.clocks_per_iteration % job_phases(&new->job) != 0) {
        snprintf(reason, size, "an iteration of %u clocks in %u phases: expected a multiple of the phases",
                 new->job.clocks_per_iteration, new->job.phases);
    } else if (new->job.local_steps == 0) {
        snprintf(reason, size, "clocks of 0 local steps");
    } else if (new->job.iterations > WIRE_CLOCK_MAX / new->job.clocks_per_iteration) {
        snprintf(reason, size, "%llu iterations of %u clocks, more than the %llu clocks that a job may have",
                 (unsigned long long)new->job.iterations, new->job.clocks_per_iteration,
                 (unsigned long long)WIRE_CLOCK_MAX);
    }
    return false;
}

/* Whether all other nodes would be refused like this one: a launcher started all nodes with the same options, and none
 * has registered. */
static bool is_refused_for_all(const struct controller *controller) {
    return controller->options.observed && controller->phase == PHASE_GATHER && controller->member_count == 0;
}

/* Sets the strategy with which the job begins: the requested one, after the iterations that begin with S-SGD; for
 * `auto` S-SGD, or the checkpoint's strategy. If the checkpoint's clock is within a group of local steps, the rest of
 * the group keeps the checkpoint's strategy. If groups now have another length, S-SGD is used until the next group
 * begins (group_is_cut). */
static void take_strategy(struct controller *controller) {
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    enum strategy asked = (enum strategy)controller->job.terms.strategy;
    enum strategy before = controller->job.resumed_strategy;
    bool same = controller->job.resumed_clocks.local_steps == clocks.local_steps;
    controller->plan.strategy = same ? before : STRATEGY_SSGD;
    controller->plan.next_strategy = asked != STRATEGY_AUTO ? asked : before;
    uint64_t from = (uint64_t)controller->job.terms.ssgd_iterations * clocks.per_iteration + 1;
    from = from > controller->plan.restore + 1 ? from : controller->plan.restore + 1;
    controller->plan.strategy_from = strategy_boundary(&clocks, from);
    controller->change.strategy = controller->plan.next_strategy;
}

/* Takes the terms of the first registered node as the job's. */
static void take_terms(struct controller *controller, const struct message *message) {
    const struct job_terms *job = &message->registration.job;
    progress_close(controller); /* open if earlier nodes have registered and left again */
    checkpoints_resumed(controller, message->frames[REGISTER_OPTIONS]);
    buffer_drop(controller->job.settings);
    controller->job.settings = buffer_hold(message->frames[REGISTER_OPTIONS]);
    controller->job.terms = *job;
    size_t count;
    const struct wire_metric *metrics = register_metrics(message, &count);
    controller->job.metric_count = (unsigned)count;
    memcpy(controller->job.metrics, metrics, count * sizeof *metrics);
    controller->job.final = job->iterations * job->clocks_per_iteration;
    take_strategy(controller);
    progress_open(controller);
}

/* Returns how many of the endpoints are servers'. */
static uint32_t count_servers(const struct message *message) {
    const struct wire_endpoint *endpoints = (const void *)message->frames[REGISTER_ENDPOINTS]->data;
    uint32_t count = 0;
    for (size_t e = 0; e < message->frames[REGISTER_ENDPOINTS]->size / sizeof *endpoints; e++) {
        count += actor_is_pulse(endpoints[e].actor) ? 0 : 1;
    }
    return count;
}

/* Adds a member, and names it if it has no name. A launcher that observes names its own nodes node-1 and so on, even
 * those that it starts later. So other nodes do not get these names. */
static struct member *member_add(struct controller *controller, actor_id from, const struct message *message) {
    const struct message_register *new = &message->registration;
    controller->members =
        memory_resized(controller->members, controller->member_count + 1, sizeof *controller->members);
    struct member *member = &controller->members[controller->member_count];
    *member = (struct member){
        .node = {.actor = from, .tier = new->tier, .threads = new->threads, .servers = count_servers(message)},
        .process_id = new->process_id,
        .pass.token = controller->io->token_of != NULL ? controller->io->token_of(controller->io, from) : 0,
        .slice = new->slice,
        .threads_max = new->tier == TIER_FEEDER ? new->threads_max : 0,
        .endpoints = buffer_hold(message->frames[REGISTER_ENDPOINTS]),
        .reported = {.catch_up = controller->plan.restore, .catch_up_stored = controller->plan.restore},
        .joined_us = controller_now(controller),
        .fence.answered = true, /* a recovery under way does not wait for this member */
        .usage.worked_us = controller_trained_us(controller),
    };
    memcpy(member->host, new->host, sizeof member->host);
    memcpy(member->group, new->group, sizeof member->group);
    const char *group = new->group[0] != '\0' ? new->group : new->host;
    member->node.group = hash_bytes((const unsigned char *)group, strlen(group), 0);
    memcpy(member->pass.key, new->key, sizeof member->pass.key);
    snprintf(member->name, sizeof member->name, "%s", new->name);
    for (unsigned n = controller->member_count + 1; member->name[0] == '\0'; n++) {
        char name[WIRE_NAME_MAX] = {0}; /* zeroed, as messages carry all of its bytes */
        snprintf(name, sizeof name, "%s-%u", controller->options.observed ? "guest" : "node", n);
        if (controller_member_named(controller, name) == NULL) {
            memcpy(member->name, name, sizeof name);
        }
    }
    controller->member_count++;
    controller_admit_members(controller);
    expected_joined(controller, member->name);
    controller_report(controller, report_event(controller, "join", member->name, NULL));
    if (!controller_feeds(member)) {
        controller->change.due = true;
        expected_replan(controller);
    }
    features_joined(controller, member);
    return member;
}

/* Whether the node was removed before: then its REGISTER is late or repeated, and its process may be gone. */
static bool was_removed(const struct controller *controller, actor_id actor) {
    for (unsigned r = 0; r < controller->removed.count && r < CONTROLLER_REMOVED_MAX; r++) {
        if (controller->removed.last[r] == actor) {
            return true;
        }
    }
    return false;
}

/* Stores all members, then sends WELCOME to those that have just registered. */
static bool store_members(struct controller *controller) {
    controller->stored.registered_us = controller->phase > PHASE_GATHER ? controller_now(controller) : 0;
    if (!persist_all(controller)) {
        return false;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (member->welcome_due) {
            member->welcome_due = false;
            controller_send_welcome(controller, member->node.actor, member->name);
        }
    }
    return true;
}

static bool welcomes_due(const struct controller *controller) {
    for (unsigned m = controller->member_count; m-- > 0;) { /* the newest members come last */
        if (controller->members[m].welcome_due) {
            return true;
        }
    }
    return false;
}

static void receive_register(struct controller *controller, actor_id from, const struct message *message) {
    const struct message_register *new = &message->registration;
    if (actor_part(from) != 0) {
        return; /* the sender is not a node's agent */
    }
    struct member *member = controller_find_member(controller, from);
    if (member == NULL && controller->phase < PHASE_LEAVE && was_removed(controller, from)) {
        controller_send_empty(controller, from, MESSAGE_REJOIN); /* a process that still runs registers as a new node */
        return;
    }
    char refusal[ERROR_TEXT_MAX] = "";
    bool other_input = member == NULL && controller->phase < PHASE_LEAVE &&
                       registration_refusal(controller, message, refusal, sizeof refusal);
    if (refusal[0] != '\0' && is_refused_for_all(controller)) {
        verdict_end(controller, AML_EINPUT, refusal);
    }
    if (member == NULL && controller->phase >= PHASE_LEAVE) {
        /* The job is over. After WELCOME the node knows that the reason was reported already; ABORT names the
         * reason. */
        controller_send_welcome(controller, from, new->name);
        controller_send_abort(controller, from, controller->end.code != 0 ? controller->end.code : AML_ESTOP,
                              controller->end.code != 0 ? controller->end.text : "the job is over");
        return;
    }
    if (other_input && controller->phase >= PHASE_TRAIN && new->name[0] != '\0') { /* the job goes on without it */
        controller_report(controller, report_event(controller, "refused", new->name, refusal));
        if (!persist_all(controller)) {
            return;
        }
    }
    if (refusal[0] != '\0') {
        controller_send_abort(controller, from, AML_EINPUT, refusal);
        return;
    }
    if (member == NULL) {
        if (controller->member_count == 0) {
            take_terms(controller, message);
        }
        member = member_add(controller, from, message);
        member->welcome_due = true;
        uint64_t next_us = controller->stored.registered_us + CONTROLLER_STORE_US;
        bool wait = controller->stored.registered_us != 0 && controller_now(controller) < next_us;
        if (!wait && !store_members(controller)) {
            return;
        }
    } else if (!member->welcome_due) {
        controller_send_welcome(controller, from, member->name);
    }
    features_receive(controller, from, member, message);
    recover_ask(controller, member);
}

static void receive_loaded(struct controller *controller, struct member *member, const struct message *message) {
    size_t count;
    const double *totals = records_totals(message, &count);
    if (controller_feeds(member) || member->loaded || controller->phase != PHASE_LOAD ||
        message->loaded.version != controller->plan.version || controller_recovers(controller)) {
        return; /* repeated, of another plan, or void; the node gets what it lacks with the next heartbeat */
    }
    bool first = true;
    for (unsigned m = 0; m < controller->member_count; m++) {
        first = first && !controller->members[m].loaded;
    }
    member->loaded = true;
    controller->job.items = first ? message->loaded.items : controller->job.items + message->loaded.items;
    for (unsigned t = 0; t < WIRE_TOTALS; t++) {
        double *total = &controller->job.totals[t];
        *total = first ? totals[t] : t < WIRE_TOTALS / 2 ? *total + totals[t] : fmax(*total, totals[t]);
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *other = &controller->members[m];
        if (!other->loaded &&
            schedule_count(&controller->plan.schedule, other->node.actor, controller->plan.restore + 1) > 0) {
            return;
        }
    }
    if (controller->job.items == 0) {
        verdict_end(controller, AML_EINPUT, "the data has no training items");
        return;
    }
    controller_set_phase(controller, PHASE_TRAIN);
    controller->times.started_us = controller_now(controller);
    controller->change.due = true;
    controller_report(controller, report_start(controller));
    if (!persist_all(controller)) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller_send_start(controller, &controller->members[m]);
    }
}

/* ---- Heartbeats ---- */

/* Takes the state that a heartbeat reports, and sends what the node lacks again. */
static void receive_heartbeat(struct controller *controller, struct member *member, const struct message *message) {
    const struct message_heartbeat *beat = &message->heartbeat;
    member->goes_by.epoch = message->epoch;
    member->goes_by.told_us =
        beat->version > member->goes_by.version ? controller_now(controller) : member->goes_by.told_us;
    member->goes_by.version = beat->version;
    member->goes_by.ready = beat->ready;
    member->state = beat->state;
    member->usage.numbers = beat->numbers;
    member->reported.clock = beat->clock > member->reported.clock ? beat->clock : member->reported.clock;
    member->goes_by.barrier = beat->barrier;
    if (!controller_feeds(member)) { /* a feeder has no clocks */
        progress_committed(controller, message->epoch == controller->plan.epoch ? beat->committed : 0);
    }
    if (controller->phase == PHASE_LEAVE || member->stay == MEMBER_DISMISSED) {
        controller_send_end(controller, member->node.actor);
        return;
    }
    if (controller->change.state == CHANGE_RECOVER) {
        recover_ask(controller, member);
    } else if (controller->phase >= PHASE_LOAD && member->goes_by.version < controller->plan.version &&
               controller_now(controller) - member->goes_by.plan_us >= controller->options.timeout_ms * UINT64_C(250)) {
        /* not with each heartbeat: a whole plan is large, and may still be on its way */
        controller_send_plan(controller, member);
    }
    if (controller->phase >= PHASE_TRAIN && member->state < NODE_STARTED) {
        controller_send_start(controller, member);
    }
    save_send(controller, member);
    checkpoints_send(controller, member);
    if (controller->change.state != CHANGE_RECOVER && member->goes_by.epoch == controller->plan.epoch) {
        progress_ask(controller, member);
    }
    controller_send_ack(controller, member);
}

/* ---- Operators' requests ---- */

/* Evicts the chosen members. `unknown` is the answer's text about unknown names; "" when there are none. */
static void evict(struct controller *controller, actor_id from, const struct message *message, unsigned char *chosen,
                  const char *unknown) {
    char why[128];
    unsigned new = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        new += chosen[m] != 0 && member->stay == MEMBER_STAYS && !controller_feeds(member) ? 1 : 0;
    }
    if (controller->phase >= PHASE_LEAVE) {
        controller_send_outcome(controller, from, message->evict.request, AML_EINPUT, "the job is over");
        return;
    }
    /* In stage transient a market may evict all nodes at once. The job goes on until other nodes join, or all are
     * gone. */
    bool notice = controller->plan.stage == STAGE_TRANSIENT && controller->member_count > 1 &&
                  controller_find_member(controller, from) != NULL;
    if (new > 0 && !notice && !controller_enough_without_these(controller, chosen, why, sizeof why)) {
        controller_send_outcome(controller, from, message->evict.request, AML_EINPUT, why);
        return;
    }
    controller_give_notice(controller, chosen, message->evict.notice_ms * UINT64_C(1000));
    if (persist_all(controller)) {
        controller_send_outcome(controller, from, message->evict.request, 0, unknown);
    }
}

/* Evicts the named nodes, or the sender if no node is named. Skips names of nodes that have left meanwhile. */
static void receive_evict(struct controller *controller, actor_id from, const struct message *message) {
    size_t count;
    const struct wire_name *names = records_names(message, &count);
    struct member *self = controller_find_member(controller, from);
    unsigned char *chosen = memory_zeroed(controller->member_count + 1, 1);
    unsigned chosen_count = 0;
    char unknown[ERROR_TEXT_MAX] = "";
    if (count == 0 && self != NULL) {
        chosen[self - controller->members] = 1;
        chosen_count = 1;
    }
    for (size_t n = 0; n < count; n++) {
        const struct member *member = controller_member_named(controller, names[n].name);
        if (member == NULL) {
            size_t used = strlen(unknown);
            snprintf(unknown + used, sizeof unknown - used, used > 0 ? ", '%s'" : "no node of the job is called '%s'",
                     names[n].name);
            continue;
        }
        chosen_count += chosen[member - controller->members] == 0 ? 1 : 0;
        chosen[member - controller->members] = 1;
    }
    if (count == 0 && self == NULL) {
        controller_send_empty(controller, from, MESSAGE_DONE); /* the node was given up and removed before */
    } else if (chosen_count > 0) {
        evict(controller, from, message, chosen, unknown);
    } else {
        controller_send_outcome(controller, from, message->evict.request, AML_EINPUT,
                                unknown[0] != '\0' ? unknown : "no node is named");
    }
    free(chosen);
}

static bool any_verdict(const struct controller_verdicts *verdicts) {
    return verdicts->end || verdicts->fence || verdicts->cancel;
}

/* Carries out the verdicts in their order, until none is left. */
static void carry_out(struct controller *controller) {
    do {
        const struct controller_verdicts due = controller->verdicts;
        controller->verdicts = (struct controller_verdicts){0};
        if (due.end) {
            end_announce(controller);
        }
        if (controller->phase >= PHASE_LEAVE) {
            return;
        }
        if (due.fence) {
            recover_fence(controller);
        }
        if (due.cancel) {
            change_cancel(controller);
        }
        recover_step(controller);
    } while (any_verdict(&controller->verdicts));
}

/* Recovers at once from the loss of nodes whose processes have ended, without waiting for the timeout. */
static void receive_gone(struct controller *controller, actor_id from, const struct message *message) {
    size_t count;
    const struct wire_name *names = records_names(message, &count);
    for (size_t n = 0; n < count; n++) {
        struct member *member = controller_member_named(controller, names[n].name);
        if (member != NULL && controller->phase >= PHASE_LEAVE) {
            member->left = true;
        } else if (member != NULL && member->stay != MEMBER_DISMISSED && signal_is_crash((int)message->gone.signal)) {
            crashes_died(controller, member, message->gone.signal);
        } else if (signal_is_crash((int)message->gone.signal)) {
            crashes_told_late(controller, names[n].name, message->gone.signal);
        } else if (member != NULL) {
            char text[ERROR_TEXT_MAX];
            snprintf(text, sizeof text, "the process of %s (%s, pid %llu) has ended", member->name, member->host,
                     (unsigned long long)member->process_id);
            controller_lose(controller, member, text);
        }
    }
    if (controller->verdicts.end || controller->verdicts.cancel) {
        carry_out(controller); /* nodes are informed before the sender */
    }
    controller_send_outcome(controller, from, message->gone.request, 0, "");
}

static void receive_revoke(struct controller *controller, actor_id from, const struct message_revoke *revoke) {
    char text[ERROR_TEXT_MAX];
    int code = revoked_add(controller, revoke->serial, text, sizeof text);
    if (code == 0) {
        carry_out(controller); /* nodes that came by the token are fenced off first */
        if (controller->phase < PHASE_LEAVE && !persist_all(controller)) {
            return;
        }
        revoked_cut(controller);
    }
    controller_send_outcome(controller, from, revoke->request, code, text);
}

/* Adds a line to the report for the process that buys machines. */
static void receive_note(struct controller *controller, actor_id from, const struct message *message) {
    struct controller_report *report = &controller->report;
    uint64_t request = message->note.request;
    size_t size;
    const char *text = records_text(message, &size);
    if (controller->phase >= PHASE_LEAVE) {
        controller_send_outcome(controller, from, request, AML_EINPUT, "the job is over");
    } else if (report->noted.actor == from && request <= report->noted.request) {
        controller_send_outcome(controller, from, request, 0, ""); /* the answer was lost */
    } else {
        char *line = report_note(controller, text, size);
        if (line != NULL) {
            report->noted.actor = from;
            report->noted.request = request;
            controller_report(controller, line);
        }
        controller_send_outcome(controller, from, request, line != NULL ? 0 : AML_EINPUT,
                                line != NULL ? "" : "not a JSON object of type money or decision");
    }
}

static void receive_status(struct controller *controller, actor_id from, const struct message *message) {
    struct message status = {.type = MESSAGE_STATUS};
    char *text = report_status(controller);
    status.status.request = message->status.request;
    message_add_copy(&status, text, strlen(text));
    free(text);
    controller_send(controller, from, &status);
}

static void receive_stop(struct controller *controller, const struct message *message) {
    if (message->text.code == AML_EFAIL) {
        controller_fail(controller, NULL, message->text.code, message->text.text); /* a node ended too early */
    } else if (message->text.code != 0) {
        verdict_end(controller, message->text.code, message->text.text);
    } else if (controller->phase < PHASE_TRAIN) {
        verdict_end(controller, AML_ESTOP, "stopped before training began");
    } else if (controller->phase == PHASE_TRAIN) {
        controller->job.stopping = true;
    }
}

static void receive_fail(struct controller *controller, struct member *member, const struct message *message) {
    bool may_go = controller->plan.stage != STAGE_TRADITIONAL && controller->phase > PHASE_GATHER;
    /* The job goes on without a feeder, unless the feeder has found an error in the input (AML_EINPUT), for example an
     * image that can't be decoded. Other nodes would find it too. */
    bool alone = controller_feeds(member) && controller->phase >= PHASE_TRAIN && message->text.code != AML_EINPUT;
    controller_send_abort(controller, member->node.actor, message->text.code, ""); /* its process waits for this */
    if (controller->phase < PHASE_LEAVE && (alone || (message->text.code == AML_ESTOP && may_go))) {
        controller_lose(controller, member, message->text.text); /* a user ended this node, not the job */
        return;
    }
    member->left = member->left || controller->phase < PHASE_LEAVE;
    controller_fail(controller, member->name, message->text.code, message->text.text);
}

static void receive_member(struct controller *controller, struct member *member, struct message *message) {
    if (!possible_check(controller, member, message)) {
        return;
    }
    features_receive(controller, member->node.actor, member, message);
    switch ((unsigned)message->type) {
    case MESSAGE_INPUT:
        input_receive(controller, member, message);
        break;
    case MESSAGE_LOADED:
        receive_loaded(controller, member, message);
        break;
    case MESSAGE_PROGRESS:
        if (controller->phase < PHASE_LEAVE) {
            progress_receive(controller, member, message);
            if (controller->stored.completed > member->reported.acknowledged ||
                message->progress.clock <= controller->stored.completed) {
                controller_send_ack(controller, member); /* more is stored than was acknowledged to the member */
            }
        }
        break;
    case MESSAGE_HEARTBEAT:
        receive_heartbeat(controller, member, message);
        break;
    case MESSAGE_FENCED:
        recover_receive_fenced(controller, member, message);
        break;
    case MESSAGE_WRITTEN:
        checkpoints_receive_written(controller, member, message);
        break;
    case MESSAGE_SAVED:
        save_receive(controller, member, message);
        break;
    case MESSAGE_LEAVE:
        member->left = true;
        if (controller->phase < PHASE_LEAVE && member->stay == MEMBER_DISMISSED) {
            controller_remove_member(controller, member);
            persist_all(controller);
        }
        break;
    case MESSAGE_FAIL:
        receive_fail(controller, member, message);
        break;
    default:
        break;
    }
}

/* Checks what must hold of each member: it reports nothing that the controller has not sent (possible.c). */
static void assert_members(const struct controller *controller) {
    assert(controller->member_count <= WIRE_NODES_MAX);
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        assert(member->goes_by.epoch <= controller->plan.epoch);
        assert(member->goes_by.ready <= member->goes_by.version && member->goes_by.version <= controller->plan.version);
        assert(member->goes_by.barrier <= controller->barrier.number);
        assert(member->reported.acknowledged <= controller->stored.completed);
        assert(member->reported.catch_up_stored <= member->reported.catch_up);
        assert(member->silence.lively_us <= member->silence.heard_us);
        assert(member->fence.restore_points == NULL || member->fence.answered);
    }
}

/* Checks what must hold between two callbacks. */
static void assert_invariants(const struct controller *controller) {
    bool runs = controller->phase > PHASE_GATHER && controller->phase < PHASE_LEAVE;
    bool barrier = controller->barrier.clock != WIRE_CLOCK_NEVER;
    assert(!any_verdict(&controller->verdicts));
    assert(controller->phase < PHASE_LEAVE || controller->end.told);
    assert(!runs || (controller->plan.placement != NULL && controller_change_fits(controller)));
    assert(!runs || (controller->plan.epoch > 0 && controller->plan.version > 0 && controller->plan.commit_every > 0));
    assert(controller->progress.first <= controller->progress.completed);
    assert(controller->progress.first <= controller->commit.clock);
    assert(lost_latest(&controller->lost) == 0 || lost_latest(&controller->lost) > controller->progress.completed);
    assert(controller->report.stored <= controller->report.count);
    assert(controller->stored.completed <= controller->progress.completed);
    assert(!runs || controller->job.final == 0 || controller->progress.completed <= controller->job.final ||
           controller->progress.completed == controller->progress.first); /* a checkpoint may be of a later clock */
    assert(!runs || controller->change.state != CHANGE_NONE ||
           controller->change.next_commit_every == controller->plan.commit_every);
    assert(!runs || controller->change.state == CHANGE_RECOVER ||
           schedule_is_prepared(&controller->plan.schedule) == (controller->plan.from_clock == WIRE_CLOCK_NEVER));
    assert(!runs || controller->plan.next_strategy < STRATEGY_AUTO);
    assert(controller->checkpoint.state == CHECKPOINT_NONE || controller->checkpoint.files != NULL);
    assert(controller->checkpoint.tasks <= CONTROLLER_FOLDER_TASKS_MAX);
    assert(!runs || controller->change.state != CHANGE_RECOVER || !barrier);
    assert(!runs || controller->change.state != CHANGE_BARRIER ||
           (barrier && controller->barrier.purpose == BARRIER_SWITCH));
    assert(!runs || !checkpoints_hold(controller) || controller->checkpoint.state == CHECKPOINT_BARRIER ||
           controller->checkpoint.state == CHECKPOINT_ASK);
}

/* Carries out the verdicts that the callback has recorded, and takes every step that has become possible. */
static void settle(struct controller *controller) {
    do {
        carry_out(controller);
        if (controller->phase == PHASE_GATHER && controller->member_count > 0 &&
            controller_members_of_tier(controller, TIER_RELIABLE) >= controller->options.reliable &&
            controller_members_of_tier(controller, TIER_TRANSIENT) >= controller->options.transient) {
            change_first(controller);
        }
        checkpoints_step(controller);
        bool decides = controller->job.stopping;
        change_step(controller);
        if (decides && !controller->job.stopping) {
            progress_step(controller); /* the last clock may have been reported before it was decided */
        }
        save_step(controller);
    } while (any_verdict(&controller->verdicts));
    nodes_step(controller);
    end_try(controller);
    assert_invariants(controller);
    if (controller->phase < PHASE_LEAVE) {
        assert_members(controller);
    }
}

void controller_abort(struct controller *controller, int code, const char *text) {
    verdict_end(controller, code, text);
    settle(controller);
}

void controller_folder_done(struct controller *controller, struct folder_task *task) {
    checkpoints_take_task(controller, task);
    if (controller->phase != PHASE_ENDED) {
        settle(controller);
    }
}

void controller_receive(void *self, actor_id from, struct message *message) {
    struct controller *controller = self;
    if (controller->phase == PHASE_ENDED) {
        return;
    }
    struct member *member = controller_find_member(controller, from);
    if ((message_roles(message) & ROLE_NODE) == 0 && controller_find_member(controller, actor_node(from)) != NULL) {
        return; /* a node may not send messages of this type */
    }
    switch ((unsigned)message->type) {
    case MESSAGE_REGISTER:
        receive_register(controller, from, message);
        break;
    case MESSAGE_STOP:
        receive_stop(controller, message);
        break;
    case MESSAGE_EVICT:
        receive_evict(controller, from, message);
        break;
    case MESSAGE_GONE:
        receive_gone(controller, from, message);
        break;
    case MESSAGE_CRASHED:
        crashes_receive(controller, from, message);
        carry_out(controller); /* stores the crash, together with the fence, before the answer ends the process */
        controller_send_empty(controller, from, MESSAGE_DONE);
        break;
    case MESSAGE_ALLOCATION:
        expected_receive(controller, from, message);
        break;
    case MESSAGE_OBSERVE:
    case MESSAGE_PULSE:
        features_receive(controller, from, NULL, message);
        break;
    case MESSAGE_NOTE:
        receive_note(controller, from, message);
        break;
    case MESSAGE_REVOKE:
        receive_revoke(controller, from, &message->revoke);
        break;
    case MESSAGE_STATUS:
        receive_status(controller, from, message);
        break;
    case MESSAGE_CHECKPOINT_NOW:
        checkpoints_receive_now(controller, from, message);
        break;
    default:
        if (member != NULL) {
            receive_member(controller, member, message);
        } else if (message->type == MESSAGE_HEARTBEAT) {
            /* The node was given up, or belongs to a job that this controller does not know: its work is void. */
            if (controller->phase < PHASE_LEAVE) {
                controller_send_empty(controller, from, MESSAGE_REJOIN);
            } else {
                controller_send_end(controller, from);
            }
        }
        break;
    }
    settle(controller);
}

void controller_broken(void *self, actor_id peer) {
    struct controller *controller = self;
    features_broke(controller, peer); /* only sends questions, so there is nothing to settle */
}

void controller_dialed(void *self, actor_id actor, uint64_t began_us, bool listens) {
    struct controller *controller = self;
    if (features_dialed(controller, actor, began_us, listens)) {
        settle(controller);
    }
}

/* ---- Time ---- */

static void check_gathering(struct controller *controller, uint64_t now) {
    if (controller->phase != PHASE_GATHER ||
        now - controller->times.began_us <= controller->options.start_timeout_ms * UINT64_C(1000)) {
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
             (double)(now - controller->times.began_us) / 1e6, controller_members_of_tier(controller, TIER_RELIABLE),
             controller->options.reliable, controller_members_of_tier(controller, TIER_TRANSIENT),
             controller->options.transient, joined);
    verdict_end(controller, AML_EFAIL, text);
}

void controller_timer(void *self) {
    struct controller *controller = self;
    uint64_t now = controller_now(controller);
    features_check(controller, now);
    check_gathering(controller, now);
    progress_step(controller); /* if all nodes that could report were lost, only the timer completes clocks */
    bool welcomes = welcomes_due(controller) && !controller->verdicts.fence; /* losses are stored with the fence */
    if (controller->phase < PHASE_LEAVE && (controller->stored.due || welcomes) && now >= controller->stored.due_us) {
        if (welcomes ? store_members(controller) : persist_progress(controller)) {
            controller_send_acks(controller);
        }
    }
    if (controller->phase < PHASE_LEAVE) {
        recover_repeat(controller);
    }
    if (controller->barrier.clock != WIRE_CLOCK_NEVER && controller->phase == PHASE_TRAIN) {
        controller_send_acks(controller);
    }
    settle(controller);
    if (controller->phase != PHASE_ENDED) {
        static uint64_t (*const deadlines[])(const struct controller *, uint64_t now_us) = {
            persist_due_us, checkpoints_due_us, change_due_us, features_due_us};
        uint64_t next = now + controller->options.heartbeat_ms * UINT64_C(500);
        for (size_t d = 0; d < sizeof deadlines / sizeof *deadlines; d++) {
            uint64_t due_us = deadlines[d](controller, now);
            next = due_us < next ? due_us : next;
        }
        controller_tick_at(controller, next);
    }
}
