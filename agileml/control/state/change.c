/* The elasticity controller's plans, and the steps of an announced change: prepare, set a barrier, switch, end
 * (docs/design.md, "Plans"). See controller_private.h. */
#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"
#include "agileml/base/trial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The PLAN message ---- */

uint32_t change_commit_every(const struct controller *controller, bool next) {
    bool reliable = true;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        reliable =
            reliable && controller_actor_tier(controller, next ? place->next_server : place->server) == TIER_RELIABLE;
    }
    enum stage stage = next ? controller->change.next_stage : controller->plan.stage;
    if (stage == STAGE_TRADITIONAL || (reliable && stage != STAGE_TRANSIENT)) {
        return 1; /* each completed clock is durable at once */
    }
    uint32_t each = controller->job.terms.clocks_per_iteration;
    uint32_t chosen = each < CONTROLLER_COMMIT_EVERY ? each : CONTROLLER_COMMIT_EVERY;
    chosen = controller->commit.chosen > chosen ? controller->commit.chosen : chosen;
    chosen = controller->options.commit_every > 0 ? controller->options.commit_every : chosen;
    assert(chosen > 0 && chosen <= WIRE_COMMIT_EVERY_MAX);
    return chosen;
}

/* Whether commit points are to become rarer than in the present plan. */
static bool commit_grows(const struct controller *controller) {
    bool chosen = controller->options.commit_every == 0 && controller->plan.stage != STAGE_TRADITIONAL;
    return chosen && controller->commit.chosen > controller->plan.commit_every &&
           change_commit_every(controller, false) > controller->plan.commit_every;
}

/* Whether the job wants another strategy than the plan's last one, and can change to it. A plan names only two
 * strategies. A third one must wait until the last change is committed: before that, a recovery may go back to clocks
 * of the first strategy. */
static bool strategy_changes(const struct controller *controller) {
    return controller->change.strategy != controller->plan.next_strategy &&
           controller->commit.clock + 1 >= controller->plan.strategy_from;
}

void controller_want_strategy(struct controller *controller, enum strategy strategy) {
    controller->change.strategy = strategy;
    controller->change.due = controller->change.due || strategy_changes(controller);
}

/* Returns the endpoints of the members that controller_plan_nodes returns without dismissed members. */
static struct buffer *plan_endpoints(const struct controller *controller) {
    size_t bytes = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        bytes += controller->members[m].endpoints->size;
    }
    struct buffer *endpoints = buffer_new(bytes);
    endpoints->size = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct buffer *own = controller->members[m].endpoints;
        if (own->size > 0 && controller->members[m].stay != MEMBER_DISMISSED) {
            memcpy(endpoints->data + endpoints->size, own->data, own->size);
            endpoints->size += own->size;
        }
    }
    assert(endpoints->size <= bytes && endpoints->size % sizeof(struct wire_endpoint) == 0);
    return endpoints;
}

/* Whether the job goes on after the loss of a node. When a plan's only node is lost, nothing is left to recover from.
 * In stage transient old states are kept even then: workers' caches keep states by the same commit points. */
static bool is_recoverable(const struct controller *controller, size_t nodes) {
    enum stage stage = controller->plan.stage;
    return stage == STAGE_TRANSIENT || (stage != STAGE_TRADITIONAL && nodes > 1);
}

void change_build(struct controller *controller) {
    const struct plan_policy *policy = &controller->options.policy;
    uint32_t most = controller->plan.commit_every > controller->change.next_commit_every
                        ? controller->plan.commit_every
                        : controller->change.next_commit_every;
    struct message_plan terms = {.version = controller->plan.version,
                                 .restore = controller->plan.restore,
                                 .from_clock = controller->plan.from_clock,
                                 .commit_every = controller->plan.commit_every,
                                 .next_commit_every = controller->change.next_commit_every,
                                 .window = most * CONTROLLER_WINDOW_POINTS,
                                 .partitions = policy->partitions,
                                 .shards = policy->shards,
                                 .strategy = (uint8_t)controller->plan.strategy,
                                 .next_strategy = (uint8_t)controller->plan.next_strategy,
                                 .strategy_from = controller->plan.strategy_from,
                                 .final = controller->options.checkpoint_at_end ? controller->job.final : 0,
                                 .transient = controller->plan.stage == STAGE_TRANSIENT};
    memcpy(terms.resume, controller->job.resume, sizeof terms.resume);
    struct buffer *frames[PLAN_FRAMES];
    frames[PLAN_NODES] = controller_plan_nodes(controller, false);
    terms.recoverable = is_recoverable(controller, frames[PLAN_NODES]->size / sizeof(struct wire_node));
    frames[PLAN_PLACEMENT] =
        buffer_copy(controller->plan.placement, policy->partitions * sizeof *controller->plan.placement);
    schedule_assignments(&controller->plan.schedule, &frames[PLAN_ASSIGNMENTS], &frames[PLAN_SHARDS]);
    frames[PLAN_ENDPOINTS] = plan_endpoints(controller);
    message_close(&controller->plan.whole);
    message_close(&controller->plan.changed);
    plan_close(&controller->plan.before);
    controller->plan.before = controller->plan.view;
    controller->plan.view = plan_of_frames(controller->plan.epoch, &terms, frames);
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].named = true;
    }
    controller->plan.names_absent = false;
}

void change_set(struct controller *controller, enum change to) {
    static const bool legal[CHANGE_RECOVER + 1][CHANGE_RECOVER + 1] = {
        [CHANGE_NONE] = {[CHANGE_PREPARE] = true, [CHANGE_RECOVER] = true},
        [CHANGE_PREPARE] =
            {[CHANGE_NONE] = true, [CHANGE_PREPARE] = true, [CHANGE_BARRIER] = true, [CHANGE_RECOVER] = true},
        [CHANGE_BARRIER] =
            {[CHANGE_PREPARE] = true, [CHANGE_BARRIER] = true, [CHANGE_SWITCH] = true, [CHANGE_RECOVER] = true},
        [CHANGE_SWITCH] = {[CHANGE_NONE] = true, [CHANGE_RECOVER] = true},
        [CHANGE_RECOVER] = {[CHANGE_NONE] = true, [CHANGE_RECOVER] = true},
    };
    assert(legal[controller->change.state][to]);
    controller->change.state = to;
}

/* Checks that each partition has a server, and its copy on another node. Without a change under way, the `next_` half
 * is the present one. */
static void check_placement(const struct controller *controller) {
    bool changes = controller->change.state != CHANGE_NONE;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        assert(place->server != ACTOR_NONE && actor_node(place->backup) != actor_node(place->server));
        assert(place->next_server != ACTOR_NONE && actor_node(place->next_backup) != actor_node(place->next_server));
        assert(changes || (place->next_server == place->server && place->next_backup == place->backup));
    }
}

void change_publish(struct controller *controller) {
    if (controller->phase >= PHASE_LEAVE) {
        return; /* the store may have failed and ended the job: a plan that is not stored must not be sent */
    }
    assert(controller_change_fits(controller) && controller->change.state != CHANGE_RECOVER);
    check_placement(controller);
    controller->plan.version++;
    controller->plan.published_us = controller_now(controller);
    controller->plan.steady = false;
    change_build(controller);
    if (!persist_all(controller)) {
        return;
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].stay != MEMBER_DISMISSED) {
            controller_send_plan(controller, &controller->members[m]);
        }
    }
}

/* ---- The desired plan ---- */

struct desired {
    enum stage stage;
    struct plan_result result;
};

static void desired_close(struct desired *desired) {
    free(desired->result.servers);
    free(desired->result.backups);
    free(desired->result.owners);
}

static enum stage desired_stage(const struct controller *controller, const unsigned count[TIERS]) {
    enum stage policy = controller->options.policy.stage;
    if (policy == STAGE_TRADITIONAL || policy == STAGE_TRANSIENT) {
        return policy;
    }
    if (count[TIER_RELIABLE] == 0) {
        return policy == STAGE_AUTO ? STAGE_TRANSIENT : STAGE_TRADITIONAL;
    }
    if (count[TIER_TRANSIENT] == 0) {
        return STAGE_1;
    }
    features_plan(controller, count, &policy);
    return policy;
}

static bool may_keep(const struct controller *controller, const struct member *member) {
    return member->node.servers > 0 && !controller_feeds(member) &&
           (plan_all_serve(controller->plan.stage) || member->node.tier == TIER_RELIABLE);
}

/* Marks the members that are to have a part in the next plan. While a node is leaving, new nodes wait for the plan
 * after the next one. So the leaving node need not wait until new nodes have loaded their data. */
static void choose_planned(struct controller *controller) {
    bool hurry = false;
    bool kept = false;
    bool work = false;    /* a settled member that stays can work */
    unsigned keepers = 0; /* settled members that stay and can keep the parameters */
    unsigned keepers_least = controller->plan.stage == STAGE_TRANSIENT ? 2 : 1; /* with fewer, new nodes can't wait */
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        hurry = hurry || (member->stay == MEMBER_LEAVING && !controller_feeds(member));
        bool stays = member->settled && member->stay == MEMBER_STAYS;
        keepers += stays && may_keep(controller, member) ? 1 : 0;
        work = work || (stays && member->node.threads > 0);
    }
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        member->planned = member->stay == MEMBER_STAYS && !controller_feeds(member) &&
                          (member->settled || !hurry || keepers < keepers_least || !work);
        kept = kept || (member->planned && may_keep(controller, member));
    }
    for (unsigned m = 0; m < controller->member_count && !kept; m++) { /* leaving members keep parameters */
        struct member *member = &controller->members[m];
        member->planned = member->planned || (may_keep(controller, member) && member->stay != MEMBER_DISMISSED);
    }
}

/* Makes the plan for the chosen members. Returns false and an error when these members can't run the job. */
static bool make_desired(struct controller *controller, struct desired *desired, struct error *error) {
    struct plan_policy policy = controller->options.policy;
    unsigned count[TIERS] = {0};
    unsigned used = 0;
    choose_planned(controller);
    desired->result = (struct plan_result){.servers = memory_zeroed(policy.partitions, sizeof(actor_id)),
                                           .backups = memory_zeroed(policy.partitions, sizeof(actor_id)),
                                           .owners = memory_zeroed(policy.shards, sizeof(actor_id))};
    struct plan_node *nodes = memory_zeroed(controller->member_count, sizeof *nodes);
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].planned) {
            assert(controller->members[m].stay != MEMBER_DISMISSED && !controller_feeds(&controller->members[m]));
            count[controller->members[m].node.tier]++;
            nodes[used++] = controller->members[m].node;
        }
    }
    desired->stage = policy.stage = desired_stage(controller, count);
    actor_id *servers = memory_zeroed(policy.partitions, sizeof *servers);
    actor_id *backups = memory_zeroed(policy.partitions, sizeof *backups);
    struct plan_present present = {0};
    if (controller->plan.placement != NULL) {
        for (uint32_t p = 0; p < policy.partitions; p++) {
            servers[p] = controller->plan.placement[p].server;
            backups[p] = controller->plan.placement[p].backup;
        }
        present = (struct plan_present){.servers = servers,
                                        .backups = backups,
                                        .owners = schedule_present(&controller->plan.schedule),
                                        .previous = controller->plan.previous};
    }
    int result = plan(nodes, used, &policy, &present, &desired->result, error);
    free(servers);
    free(backups);
    free(nodes);
    return result == 0;
}

static bool desired_is_present(const struct controller *controller, const struct desired *desired) {
    const struct plan_policy *policy = &controller->options.policy;
    for (uint32_t p = 0; p < policy->partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        if (place->server != desired->result.servers[p] || place->backup != desired->result.backups[p]) {
            return false;
        }
    }
    return desired->stage == controller->plan.stage &&
           memcmp(schedule_present(&controller->plan.schedule), desired->result.owners,
                  policy->shards * sizeof(actor_id)) == 0;
}

static void desired_place(struct controller *controller, const struct desired *desired) {
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        controller->plan.placement[p].next_server = desired->result.servers[p];
        controller->plan.placement[p].next_backup = desired->result.backups[p];
    }
}

/* Makes the placement's `next_` half the present one. */
static void placement_take_next(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].settled = controller->members[m].settled || controller->members[m].planned;
    }
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        struct wire_placement *place = &controller->plan.placement[p];
        place->server = place->next_server;
        place->backup = place->next_backup;
    }
    controller->plan.stage = controller->change.next_stage;
    controller->plan.commit_every = controller->change.next_commit_every;
}

void change_first(struct controller *controller) {
    const struct plan_policy *policy = &controller->options.policy;
    struct desired desired = {0};
    struct error error = {0};
    assert(controller->phase == PHASE_GATHER && controller->plan.epoch == 0 && controller->plan.placement == NULL);
    if (!make_desired(controller, &desired, &error)) {
        desired_close(&desired);
        verdict_end(controller, error.code, error.text);
        return;
    }
    controller->plan.placement = memory_zeroed(policy->partitions, sizeof *controller->plan.placement);
    controller->plan.previous = memory_zeroed(policy->shards, sizeof *controller->plan.previous);
    controller->change.next_stage = desired.stage;
    desired_place(controller, &desired);
    controller->change.next_commit_every = change_commit_every(controller, true);
    placement_take_next(controller);
    controller->plan.epoch = 1;
    assert(controller->plan.restore == controller->progress.completed);
    schedule_open(&controller->plan.schedule, policy->shards, desired.result.owners, controller->plan.restore + 1);
    desired_close(&desired);
    controller_set_phase(controller, PHASE_LOAD);
    change_publish(controller);
}

/* ---- Prepare ---- */

static void report_stage(struct controller *controller) {
    char text[64];
    const char *name = plan_stage_name(controller->plan.stage);
    snprintf(text, sizeof text, "%s%s", name[1] == '\0' ? "stage " : "", name);
    controller_report(controller, report_event(controller, "stage", NULL, text));
}

/* Returns the highest clock that no origin has to work on again or to report any more. */
static uint64_t clock_over(struct controller *controller) {
    uint64_t over = controller->commit.clock < controller->stored.completed ? controller->commit.clock
                                                                            : controller->stored.completed;
    for (unsigned c = 0; c < controller->plan.schedule.catch_up_count; c++) {
        actor_id origin = controller->plan.schedule.catch_ups[c].origin;
        const struct member *member = controller_find_member(controller, actor_node(origin));
        bool reports = member != NULL && origin == origin_catch_up(member->node.actor, controller->plan.epoch);
        over = reports && member->reported.catch_up_stored < over ? member->reported.catch_up_stored : over;
    }
    return over;
}

/* Stores the state, then sends DONE to the dismissed members. */
static void send_dismissals(struct controller *controller) {
    bool stored = persist_all(controller);
    for (unsigned m = 0; stored && m < controller->member_count; m++) {
        if (controller->members[m].stay == MEMBER_DISMISSED) {
            controller_send_empty(controller, controller->members[m].node.actor, MESSAGE_DONE);
        }
    }
}

/* Dismisses leaving feeders at once, whatever else changes: no plan has a part for them. */
static void dismiss_feeders(struct controller *controller) {
    bool more = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (member->stay == MEMBER_LEAVING && controller_feeds(member)) {
            member_set_stay(member, MEMBER_DISMISSED);
            more = true;
        }
    }
    if (more) {
        controller->plan.names_absent = true;
        send_dismissals(controller);
    }
}

/* Whether the plan's list of nodes is out of date: some were dismissed or lost, or a feeder has joined. Other new nodes
 * are named by the plan that has a part for them. */
static bool names_are_old(const struct controller *controller) {
    bool old = controller->plan.names_absent;
    for (unsigned m = 0; m < controller->member_count && !old; m++) {
        const struct member *member = &controller->members[m];
        old = controller_feeds(member) && !member->named && !member->welcome_due && member->stay == MEMBER_STAYS;
    }
    return old;
}

/* Dismisses leaving members that have no part in the plan any more. */
static void dismiss(struct controller *controller) {
    bool more = false;
    assert(controller->change.state == CHANGE_NONE); /* a change may need a leaving member up to its switch */
    schedule_forget(&controller->plan.schedule, clock_over(controller));
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (member->stay != MEMBER_LEAVING) {
            continue;
        }
        bool part = controller_plan_names(controller, member->node.actor, true) ||
                    lost_evaluates(&controller->lost, member->node.actor);
        if (!part) {
            member_set_stay(member, MEMBER_DISMISSED);
            more = true;
        }
    }
    if (!more) {
        return;
    }
    controller->change.due = true; /* new nodes may get a part now */
    controller->plan.names_absent = true;
    checkpoints_check_writers(controller);
    send_dismissals(controller);
}

void change_cancel(struct controller *controller) {
    if (controller->change.state != CHANGE_PREPARE) {
        return;
    }
    schedule_cancel(&controller->plan.schedule);
    change_set(controller, CHANGE_NONE);
    controller->plan.from_clock = 0;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        struct wire_placement *place = &controller->plan.placement[p];
        place->next_server = place->server;
        place->next_backup = place->backup;
    }
    controller->change.next_commit_every = controller->plan.commit_every;
    change_publish(controller);
}

/* Whether a member without a part in the next plan waits to be dismissed. */
static bool any_leaves(const struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->stay == MEMBER_LEAVING && !member->planned && !controller_feeds(member)) {
            return true;
        }
    }
    return false;
}

/* Prepares the next plan if it differs from the present plan, or if the strategy changes. While a node leaves, the
 * strategy alone is no reason: such a change does not wait for a clock at which the strategy can change
 * (barrier_for_switch). */
static void prepare(struct controller *controller) {
    struct desired desired = {0};
    struct error error = {0};
    assert(controller->change.state == CHANGE_NONE || controller->change.state == CHANGE_PREPARE);
    controller->change.due = false;
    if (!make_desired(controller, &desired, &error)) {
        /* The job can't go on without the leaving members: they stay until they are lost or other nodes join. */
    } else if (desired_is_present(controller, &desired) && !commit_grows(controller) &&
               (!strategy_changes(controller) || any_leaves(controller))) {
        change_cancel(controller);
        dismiss(controller);
    } else {
        if (controller->change.state == CHANGE_NONE) {
            controller->change.began_us = controller_now(controller);
        }
        change_set(controller, CHANGE_PREPARE);
        controller->change.next_stage = desired.stage;
        controller->plan.from_clock = WIRE_CLOCK_NEVER;
        desired_place(controller, &desired);
        controller->change.next_commit_every = change_commit_every(controller, true);
        schedule_prepare(&controller->plan.schedule, desired.result.owners);
        change_publish(controller);
    }
    desired_close(&desired);
}

static bool all_ready(const struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        bool part = (member->planned || member->settled) && member->stay != MEMBER_DISMISSED;
        if (part && (member->goes_by.ready < controller->plan.version || member->state < NODE_STARTED)) {
            return false;
        }
    }
    return true;
}

void change_check_commit(struct controller *controller) {
    uint64_t committed = controller->commit.clock;
    uint64_t behind = controller->progress.completed > committed ? controller->progress.completed - committed : 0;
    bool late = controller->change.state == CHANGE_NONE && controller->plan.steady &&
                behind > 2 * (uint64_t)controller->plan.commit_every + controller->job.terms.staleness;
    controller->commit.late = late ? controller->commit.late + 1 : 0;
    if (controller->commit.late >= CONTROLLER_COMMIT_LATE && controller->plan.commit_every < WIRE_COMMIT_EVERY_MAX) {
        controller->commit.late = 0;
        assert(controller->plan.commit_every > 0);
        controller->commit.chosen = (uint32_t)trial_longer(controller->plan.commit_every, 1, WIRE_COMMIT_EVERY_MAX);
        assert(controller->commit.chosen > controller->plan.commit_every);
        controller->change.due = controller->change.due || commit_grows(controller);
    }
}

void change_check_stage(struct controller *controller) {
    unsigned count[TIERS];
    controller_count_members(controller, count);
    bool other = controller->change.state == CHANGE_NONE && controller->plan.steady &&
                 desired_stage(controller, count) != controller->plan.stage;
    controller->change.due = controller->change.due || other || strategy_changes(controller);
}

/* ---- Switch ---- */

/* Returns the clock after which the plan is to change. It is the clock under way, if no origin is beyond it and it will
 * probably last until all nodes know the barrier; else a later clock. If an origin has passed the clock nevertheless, a
 * new barrier is set. */
static uint64_t clock_to_switch(const struct controller *controller) {
    uint64_t under_way = controller->progress.completed + 1;
    uint64_t over_us = controller->clocks.completed_us + controller->clocks.lasted_us;
    bool early = controller_now(controller) + CONTROLLER_HOLD_AHEAD_MS * UINT64_C(1000) < over_us;
    return early && barrier_clock_reached(controller) == under_way ? under_way : barrier_clock_ahead(controller);
}

/* Sets the barrier after which the plan changes. If the strategy also changes, the barrier must be at the end of a
 * group of clocks, and is set only when that clock is near: once the clock is named, a leaving node would have to wait
 * for it. While a node leaves, the barrier does not wait for the end of a group, and a later change brings the
 * strategy. */
static void barrier_for_switch(struct controller *controller) {
    uint64_t clock = clock_to_switch(controller);
    assert(clock >= controller->progress.completed);
    uint64_t near = clock + (clock - controller->progress.completed);
    if (strategy_changes(controller) && !any_leaves(controller)) {
        const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
        clock = strategy_boundary(&clocks, clock + 1) - 1;
    }
    bool ends = controller->job.final != 0 && clock >= controller->job.final; /* the job ends before the change */
    if (ends || clock > near) {
        if (controller->change.state == CHANGE_BARRIER) {
            change_set(controller, CHANGE_PREPARE);
            barrier_none(controller);
        }
        return;
    }
    change_set(controller, CHANGE_BARRIER);
    checkpoints_put_off_beyond(controller, clock);
    barrier_at(controller, clock, BARRIER_SWITCH);
}

/* Changes the strategy with the plan, if a group of clocks begins at the switch. Maybe none does, if the strategy was
 * requested only after the barrier was set. */
static void name_strategy(struct controller *controller) {
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    uint64_t from = controller->plan.from_clock;
    if (strategy_changes(controller) && strategy_boundary(&clocks, from) == from) {
        assert(from >= controller->plan.strategy_from); /* the last change is committed */
        controller->plan.strategy = controller->plan.next_strategy;
        controller->plan.next_strategy = controller->change.strategy;
        controller->plan.strategy_from = from;
        controller_report(controller,
                          report_event(controller, "strategy", NULL, strategy_name(controller->plan.next_strategy)));
    }
}

static void name_switch(struct controller *controller) {
    assert(schedule_is_prepared(&controller->plan.schedule));
    const actor_id *before = schedule_present(&controller->plan.schedule);
    const actor_id *after = controller->plan.schedule.parts[controller->plan.schedule.part_count - 1].owners;
    for (uint32_t s = 0; s < controller->options.policy.shards; s++) {
        controller->plan.previous[s] = before[s] != after[s] ? before[s] : controller->plan.previous[s];
    }
    assert(controller->barrier.clock != WIRE_CLOCK_NEVER && controller->barrier.purpose == BARRIER_SWITCH);
    change_set(controller, CHANGE_SWITCH);
    controller->plan.from_clock = controller->barrier.clock + 1;
    assert(controller->plan.from_clock > controller->progress.completed);
    name_strategy(controller);
    schedule_name(&controller->plan.schedule, controller->plan.from_clock);
    assert(schedule_named(&controller->plan.schedule) == controller->plan.from_clock);
    change_publish(controller);
}

/* Drops the measured speeds of nodes that have no data any more, as they must not count for the other nodes. */
static void forget_idle(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        actor_id actor = controller->members[m].node.actor;
        if (schedule_count(&controller->plan.schedule, actor, controller->progress.completed + 1) == 0) {
            monitor_forget(&controller->clocks.monitor, actor);
        }
    }
}

/* Reports the nodes that have a part for the first time. Writes no line if a restarted controller does not know how
 * long the phases took; the lines `nodes` still show what the nodes do. */
static void report_newcomers(struct controller *controller) {
    const struct controller_change *change = &controller->change;
    const char **names = memory_zeroed(controller->member_count, sizeof *names);
    unsigned count = 0;
    uint64_t joined_us = change->began_us;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->planned && !member->settled) {
            names[count++] = member->name;
            joined_us = member->joined_us < joined_us ? member->joined_us : joined_us;
        }
    }
    if (count > 0 && change->began_us > 0 && change->ready_us >= change->began_us &&
        change->named_us >= change->ready_us) {
        const struct report_phases phases = {.gather = (double)(change->began_us - joined_us) / 1e6,
                                             .prepare = (double)(change->ready_us - change->began_us) / 1e6,
                                             .change = (double)(change->named_us - change->ready_us) / 1e6};
        controller_report(controller, report_take_part(controller, names, count, controller->plan.from_clock, &phases));
    }
    free(names);
}

static void end_switch(struct controller *controller) {
    assert(controller->change.state == CHANGE_SWITCH && controller->progress.completed >= controller->plan.from_clock);
    bool staged = controller->plan.stage != controller->change.next_stage;
    report_newcomers(controller);
    schedule_forget(&controller->plan.schedule, clock_over(controller));
    placement_take_next(controller);
    forget_idle(controller);
    change_set(controller, CHANGE_NONE);
    controller->plan.from_clock = 0;
    controller->change.due = true; /* nodes may have joined or been evicted meanwhile */
    if (staged) {
        report_stage(controller);
    }
    dismiss(controller); /* before change_publish, as the new plan does not name dismissed members */
    change_publish(controller);
}

/* ---- The last clock ---- */

/* Returns a clock that can become the job's last clock. An iteration ends there. The clock is not completed and has no
 * work of lost nodes, so it can still be evaluated as the last clock. */
static uint64_t clock_to_stop(const struct controller *controller) {
    uint64_t each = controller->job.terms.clocks_per_iteration;
    uint64_t lost = lost_latest(&controller->lost);
    uint64_t after = controller->progress.completed > lost ? controller->progress.completed : lost;
    uint64_t reached = barrier_clock_reached(controller);
    uint64_t least = reached > after + 1 ? reached : after + 1;
    return (least + each - 1) / each * each;
}

/* Decides the job's last clock: the end of an iteration that no origin has passed. */
static void step_stop(struct controller *controller) {
    assert(controller->change.state == CHANGE_NONE || controller->change.state == CHANGE_PREPARE);
    bool held = controller->barrier.purpose == BARRIER_STOP && controller->barrier.clock != WIRE_CLOCK_NEVER;
    bool passed = false;
    if (held && !barrier_is_held(controller, &passed)) {
        return;
    }
    if (!held || passed) {
        barrier_at(controller, clock_to_stop(controller), BARRIER_STOP);
        return;
    }
    if (controller->job.final == 0 || controller->barrier.clock < controller->job.final) {
        controller->job.final = controller->barrier.clock;
        assert(controller->job.final > controller->progress.completed);
        assert(controller->job.final % controller->job.terms.clocks_per_iteration == 0);
    }
    controller->job.stopping = false;
    checkpoints_put_off_beyond(controller, controller->job.final);
    barrier_lift(controller);
    if (controller->options.checkpoint_at_end) {
        change_publish(controller); /* the last clock is to be a commit point */
    }
    barrier_tell(controller);
}

/* ---- One step ---- */

uint64_t change_due_us(const struct controller *controller, uint64_t now_us) {
    bool change = controller->change.due && controller->change.due_us > now_us;
    uint64_t change_us = change ? controller->change.due_us : UINT64_MAX;
    uint64_t sent_us = controller_plan_sent_us(controller);
    return controller->plan.names_absent && sent_us > now_us && sent_us < change_us ? sent_us : change_us;
}

void change_step(struct controller *controller) {
    bool passed = false;
    if (controller->phase == PHASE_TRAIN) {
        dismiss_feeders(controller);
    }
    if (controller->phase != PHASE_TRAIN || checkpoints_hold(controller)) {
        return;
    }
    if (controller->job.stopping &&
        (controller->change.state == CHANGE_NONE || controller->change.state == CHANGE_PREPARE)) {
        step_stop(controller);
        return;
    }
    switch (controller->change.state) {
    case CHANGE_NONE:
    case CHANGE_PREPARE:
        if (controller->change.due && controller_now(controller) >= controller->change.due_us) {
            prepare(controller);
            break;
        }
        if (controller->change.due) {
            controller_tick_before(controller, controller->change.due_us);
        }
        if (controller->change.state == CHANGE_NONE) {
            dismiss(controller); /* clocks that needed a leaving member may be committed by now */
            if (!names_are_old(controller)) {
                break;
            }
            if (controller_now(controller) >= controller_plan_sent_us(controller)) {
                change_publish(controller);
            } else {
                controller_tick_before(controller, controller_plan_sent_us(controller));
            }
        } else if (controller->change.state == CHANGE_PREPARE && all_ready(controller)) {
            controller->change.ready_us = controller_now(controller);
            barrier_for_switch(controller);
        }
        break;
    case CHANGE_BARRIER:
        if (!barrier_is_held(controller, &passed)) {
            break;
        }
        if (passed) {
            barrier_for_switch(controller);
        } else {
            name_switch(controller);
        }
        break;
    case CHANGE_SWITCH:
        if (controller->barrier.clock != WIRE_CLOCK_NEVER) {
            if (all_ready(controller)) { /* now every server knows that this clock is a commit point */
                controller->change.named_us = controller_now(controller);
                barrier_none(controller);
            }
        } else if (controller->commit.clock >= controller->plan.from_clock &&
                   controller->stored.completed + 1 >=
                       controller->plan.from_clock) { /* only now most leaving members can be dismissed */
            end_switch(controller);
        }
        break;
    case CHANGE_RECOVER:
        break;
    }
}
