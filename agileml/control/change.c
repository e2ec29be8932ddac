/* The elasticity controller's plans, and the steps of an announced change: prepare, set a barrier, switch, settle
 * (docs/design.md, "Plans"). See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The PLAN message ---- */

enum node_tier change_actor_tier(const struct controller *controller, actor_id actor) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        if (controller->members[m].node.actor == actor_node(actor)) {
            return controller->members[m].node.tier;
        }
    }
    return TIER_TRANSIENT;
}

uint32_t change_commit_every(const struct controller *controller, bool next) {
    bool reliable = true;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        reliable =
            reliable && change_actor_tier(controller, next ? place->next_server : place->server) == TIER_RELIABLE;
    }
    enum stage stage = next ? controller->change.next_stage : controller->plan.stage;
    if (stage == STAGE_TRADITIONAL || (reliable && stage != STAGE_TRANSIENT)) {
        return 1; /* a completed clock is durable at once */
    }
    uint32_t each = controller->job.terms.clocks_per_iteration;
    uint32_t chosen = each < CONTROLLER_COMMIT_EVERY ? each : CONTROLLER_COMMIT_EVERY;
    chosen = controller->commit.chosen > chosen ? controller->commit.chosen : chosen;
    return controller->options.commit_every > 0 ? controller->options.commit_every : chosen;
}

/* Whether commit points are to be rarer than in the present plan. */
static bool commit_grows(const struct controller *controller) {
    bool chosen = controller->options.commit_every == 0 && controller->plan.stage != STAGE_TRADITIONAL;
    return chosen && controller->commit.chosen > controller->plan.commit_every &&
           change_commit_every(controller, false) > controller->plan.commit_every;
}

/* Whether the job is to go on by another strategy than the plan's last one, and can. A plan names two strategies. A
 * third one must wait until the last change is committed: before that, a recovery may go back to clocks of the
 * first. */
static bool strategy_changes(const struct controller *controller) {
    return controller->change.strategy != controller->plan.next_strategy &&
           controller->commit.clock + 1 >= controller->plan.strategy_from;
}

void controller_want_strategy(struct controller *controller, enum strategy strategy) {
    controller->change.strategy = strategy;
    controller->change.due = controller->change.due || strategy_changes(controller);
}

struct buffer *change_plan_nodes(const struct controller *controller, bool dismissed) {
    struct buffer *records = buffer_new(controller->member_count * sizeof(struct wire_node));
    records->size = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->stay == MEMBER_DISMISSED && !dismissed) {
            continue;
        }
        struct wire_node *record = (struct wire_node *)(void *)(records->data + records->size);
        *record = (struct wire_node){.actor = member->node.actor,
                                     .group = member->node.group,
                                     .tier = member->node.tier,
                                     .threads = member->node.threads};
        memcpy(record->name, member->name, sizeof record->name);
        memcpy(record->key, member->key, sizeof record->key);
        records->size += sizeof *record;
    }
    return records;
}

/* Returns the endpoints of the members that change_plan_nodes returns without dismissed members. */
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
    return endpoints;
}

/* Whether the job goes on after the loss of a node. When a plan's only node is lost nothing is left to recover from.
 * Stage transient keeps old states all the same: workers' caches keep theirs by the same commit points. */
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
    memcpy(terms.resume, controller->resume, sizeof terms.resume);
    struct buffer *frames[PLAN_FRAMES];
    frames[PLAN_NODES] = change_plan_nodes(controller, false);
    terms.recoverable = is_recoverable(controller, frames[PLAN_NODES]->size / sizeof(struct wire_node));
    frames[PLAN_PLACEMENT] =
        buffer_copy(controller->plan.placement, policy->partitions * sizeof *controller->plan.placement);
    schedule_assignments(&controller->plan.schedule, &frames[PLAN_ASSIGNMENTS], &frames[PLAN_SHARDS]);
    frames[PLAN_ENDPOINTS] = plan_endpoints(controller);
    plan_close(&controller->plan.view);
    controller->plan.view = plan_of_frames(controller->plan.epoch, &terms, frames);
    for (unsigned m = 0; m < controller->member_count; m++) {
        controller->members[m].named = true;
    }
    controller->plan.names_absent = false;
}

void change_publish(struct controller *controller) {
    if (controller->phase >= PHASE_LEAVE) {
        return; /* the store has just failed and ended the job: a plan that is not stored must not be sent */
    }
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

uint64_t change_sent_us(const struct controller *controller) {
    return controller->plan.published_us + controller->member_count * (uint64_t)CONTROLLER_PLAN_SEND_US;
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
    return policy != STAGE_AUTO
               ? policy
               : tuner_stage(&controller->tuner, count[TIER_RELIABLE], count[TIER_TRANSIENT], controller->plan.stage);
}

static bool may_keep(const struct controller *controller, const struct member *member) {
    return member->node.servers > 0 && !controller_feeds(member) &&
           (plan_all_serve(controller->plan.stage) || member->node.tier == TIER_RELIABLE);
}

/* Marks the members that are to have a part in the next plan. While a node is leaving, nodes that have just joined wait
 * for the plan after the next, so that the leaving node need not wait until they have loaded their data. */
static void choose_planned(struct controller *controller) {
    bool hurry = false;
    bool kept = false;
    bool work = false;    /* a settled member that stays can work */
    unsigned keepers = 0; /* settled members that stay and can keep the parameters */
    unsigned keepers_least = controller->plan.stage == STAGE_TRANSIENT ? 2 : 1; /* so that newcomers may wait */
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
    for (unsigned m = 0; m < controller->member_count && !kept; m++) { /* leaving members wait for new ones */
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

/* Makes the placement's next half the present one. */
static void placement_settle(struct controller *controller) {
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
    if (!make_desired(controller, &desired, &error)) {
        desired_close(&desired);
        controller_abort(controller, error.code, error.text);
        return;
    }
    controller->plan.placement = memory_zeroed(policy->partitions, sizeof *controller->plan.placement);
    controller->plan.previous = memory_zeroed(policy->shards, sizeof *controller->plan.previous);
    controller->change.next_stage = desired.stage;
    desired_place(controller, &desired);
    controller->change.next_commit_every = change_commit_every(controller, true);
    placement_settle(controller);
    controller->plan.epoch = 1;
    schedule_open(&controller->plan.schedule, policy->shards, desired.result.owners, controller->plan.restore + 1);
    desired_close(&desired);
    controller->phase = PHASE_LOAD;
    change_publish(controller);
}

/* ---- Prepare ---- */

static void report_stage(struct controller *controller) {
    char text[64];
    const char *name = plan_stage_name(controller->plan.stage);
    snprintf(text, sizeof text, "%s%s", name[1] == '\0' ? "stage " : "", name);
    controller_report(controller, report_event(controller, "stage", NULL, text));
}

/* Returns the highest clock for which no origin is needed any more, neither to work on it again nor to report it. */
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

/* Whether the plan names the node for a partition, for data or for a catch-up. With `coming` the change that has no
 * clock yet counts, too. */
static bool plan_names(const struct controller *controller, actor_id node, bool coming) {
    bool named = false;
    for (uint32_t p = 0; p < controller->options.policy.partitions && !named; p++) {
        const struct wire_placement *place = &controller->plan.placement[p];
        const struct wire_placement now = {.server = place->server, .backup = place->backup};
        named = placement_names_node(coming ? place : &now, node);
    }
    for (unsigned i = 0; i < controller->plan.schedule.part_count && !named; i++) {
        uint64_t from_clock = controller->plan.schedule.parts[i].from_clock;
        named = (coming || from_clock != WIRE_CLOCK_NEVER) &&
                schedule_count(&controller->plan.schedule, node, from_clock) > 0;
    }
    for (unsigned c = 0; c < controller->plan.schedule.catch_up_count && !named; c++) {
        named = actor_node(controller->plan.schedule.catch_ups[c].origin) == node;
    }
    return named;
}

bool change_has_part(const struct controller *controller, const struct member *member) {
    bool coming = controller->change.state == CHANGE_BARRIER || controller->plan.from_clock != WIRE_CLOCK_NEVER;
    return plan_names(controller, member->node.actor, coming);
}

/* Sends DONE to the members that were dismissed, once that is stored. */
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
            member->stay = MEMBER_DISMISSED;
            more = true;
        }
    }
    if (more) {
        controller->plan.names_absent = true;
        send_dismissals(controller);
    }
}

/* Whether the nodes that the plan names are others than the members: some were dismissed or lost, or a feeder has
 * joined. Other nodes that join are named by the plan that has a part for them. */
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
    schedule_forget(&controller->plan.schedule, clock_over(controller));
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        if (member->stay != MEMBER_LEAVING) {
            continue;
        }
        bool part =
            plan_names(controller, member->node.actor, true) || lost_evaluates(&controller->lost, member->node.actor);
        member->stay = part ? MEMBER_LEAVING : MEMBER_DISMISSED;
        more = more || !part;
    }
    if (!more) {
        return;
    }
    controller->change.due = true; /* nodes that have joined meanwhile may get a part now */
    controller->plan.names_absent = true;
    checkpoints_check_writers(controller);
    send_dismissals(controller);
}

void change_cancel(struct controller *controller) {
    if (controller->change.state != CHANGE_PREPARE) {
        return;
    }
    schedule_cancel(&controller->plan.schedule);
    controller->change.state = CHANGE_NONE;
    controller->plan.from_clock = 0;
    for (uint32_t p = 0; p < controller->options.policy.partitions; p++) {
        struct wire_placement *place = &controller->plan.placement[p];
        place->next_server = place->server;
        place->next_backup = place->backup;
    }
    controller->change.next_commit_every = controller->plan.commit_every;
    change_publish(controller);
}

/* Whether a member that the next plan has no part for waits to be dismissed. */
static bool any_leaves(const struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->stay == MEMBER_LEAVING && !member->planned && !controller_feeds(member)) {
            return true;
        }
    }
    return false;
}

/* Prepares the next plan if it is another one, or if the strategy changes. As a change for which a node leaves does not
 * wait for a clock at which the strategy can change (barrier_for_switch), the strategy alone is no reason meanwhile. */
static void prepare(struct controller *controller) {
    struct desired desired = {0};
    struct error error = {0};
    controller->change.due = false;
    if (!make_desired(controller, &desired, &error)) {
        /* The job could not go on without the leaving members: they stay until they are lost or others join. */
    } else if (desired_is_present(controller, &desired) && !commit_grows(controller) &&
               (!strategy_changes(controller) || any_leaves(controller))) {
        change_cancel(controller);
        dismiss(controller);
    } else {
        if (controller->change.state == CHANGE_NONE) {
            controller->change.began_us = controller_now(controller);
        }
        controller->change.state = CHANGE_PREPARE;
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
        uint32_t twice = 2 * controller->plan.commit_every;
        controller->commit.late = 0;
        controller->commit.chosen = twice < WIRE_COMMIT_EVERY_MAX ? twice : WIRE_COMMIT_EVERY_MAX;
        controller->change.due = controller->change.due || commit_grows(controller);
    }
}

/* The tuner may want another stage under the same members: for a trial, or after one. Another strategy may be wanted,
 * too. */
void change_check_stage(struct controller *controller) {
    unsigned count[TIERS];
    controller_count_members(controller, count);
    bool other = controller->change.state == CHANGE_NONE && controller->plan.steady &&
                 desired_stage(controller, count) != controller->plan.stage;
    controller->change.due = controller->change.due || other || strategy_changes(controller);
}

/* ---- Barriers ---- */

void change_barrier_lift(struct controller *controller) {
    controller->barrier = (struct barrier){.number = controller->barrier.number + 1, .clock = WIRE_CLOCK_NEVER};
}

uint64_t change_clock_reached(const struct controller *controller) {
    uint64_t reached = schedule_named(&controller->plan.schedule) - 1; /* the schedule's last part begins there */
    reached = controller->progress.completed > reached ? controller->progress.completed : reached;
    for (unsigned m = 0; m < controller->member_count; m++) {
        reached = controller->members[m].reported.clock > reached ? controller->members[m].reported.clock : reached;
    }
    return reached;
}

uint64_t change_clock_ahead(const struct controller *controller) {
    uint64_t reached = change_clock_reached(controller);
    uint64_t done = controller->progress.completed - controller->progress.first;
    uint64_t trained_us = controller_trained_us(controller);
    uint64_t ahead = 1;
    if (trained_us > 0 && done > 0) {
        ahead += CONTROLLER_HOLD_AHEAD_MS * UINT64_C(1000) * done / trained_us;
    }
    ahead = ahead < CONTROLLER_HOLD_AHEAD_MAX ? ahead : CONTROLLER_HOLD_AHEAD_MAX;
    uint64_t limit =
        controller->commit.clock + 1 + controller->job.terms.staleness + controller->plan.view.terms.window;
    uint64_t clock = reached + ahead < limit ? reached + ahead : limit;
    return clock > reached ? clock : reached;
}

/* Stores the barrier, then sends it to every member. Stored first, so that a barrier's number is never used again. */
static void barrier_tell(struct controller *controller) {
    if (persist_all(controller)) {
        controller_send_acks(controller);
    }
}

void change_barrier_none(struct controller *controller) {
    change_barrier_lift(controller);
    barrier_tell(controller);
}

void change_barrier_at(struct controller *controller, uint64_t clock, enum barrier_purpose purpose) {
    controller->barrier =
        (struct barrier){.number = controller->barrier.number + 1, .clock = clock, .purpose = purpose};
    barrier_tell(controller);
}

bool change_all_held(const struct controller *controller, bool *passed) {
    *passed = false;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        if (member->goes_by.barrier != controller->barrier.number && member->stay != MEMBER_DISMISSED &&
            !controller_is_outside(controller, member)) {
            return false;
        }
        *passed = *passed || member->reported.clock > controller->barrier.clock;
    }
    return true;
}

/* ---- Switch and settle ---- */

/* Returns the clock after which the plan is to change: the clock under way, if no origin is beyond it and it will
 * probably last long enough for all to learn of the barrier; else a later clock. An origin that has passed it all the
 * same only has the barrier set anew. */
static uint64_t clock_to_switch(const struct controller *controller) {
    uint64_t under_way = controller->progress.completed + 1;
    uint64_t over_us = controller->clocks.completed_us + controller->clocks.lasted_us;
    bool early = controller_now(controller) + CONTROLLER_HOLD_AHEAD_MS * UINT64_C(1000) < over_us;
    return early && change_clock_reached(controller) == under_way ? under_way : change_clock_ahead(controller);
}

/* Sets the barrier after which the plan changes. Where the strategy changes, too, the barrier is at the end of a
 * group of clocks, and is set only when that is near: once the clock is named, a node that is asked to leave would
 * have to wait for it. While a node leaves, the barrier does not wait for a group's end, and a later change brings
 * the strategy. */
static void barrier_for_switch(struct controller *controller) {
    uint64_t clock = clock_to_switch(controller);
    uint64_t near = clock + (clock - controller->progress.completed);
    if (strategy_changes(controller) && !any_leaves(controller)) {
        const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
        clock = strategy_boundary(&clocks, clock + 1) - 1;
    }
    bool ends = controller->job.final != 0 && clock >= controller->job.final; /* the job ends before the change */
    if (ends || clock > near) {
        if (controller->change.state == CHANGE_BARRIER) {
            controller->change.state = CHANGE_PREPARE;
            change_barrier_none(controller);
        }
        return;
    }
    controller->change.state = CHANGE_BARRIER;
    checkpoints_put_off_beyond(controller, clock);
    change_barrier_at(controller, clock, BARRIER_SWITCH);
}

/* Changes the strategy with the plan, if a group of clocks begins at the switch. It need not: the strategy may have
 * been wanted only after the barrier was set. */
static void name_strategy(struct controller *controller) {
    const struct strategy_clocks clocks = job_clocks(&controller->job.terms);
    uint64_t from = controller->plan.from_clock;
    if (strategy_changes(controller) && strategy_boundary(&clocks, from) == from) {
        controller->plan.strategy = controller->plan.next_strategy;
        controller->plan.next_strategy = controller->change.strategy;
        controller->plan.strategy_from = from;
        controller_report(controller,
                          report_event(controller, "strategy", NULL, strategy_name(controller->plan.next_strategy)));
    }
}

static void name_switch(struct controller *controller) {
    const actor_id *before = schedule_present(&controller->plan.schedule);
    const actor_id *after = controller->plan.schedule.parts[controller->plan.schedule.part_count - 1].owners;
    for (uint32_t s = 0; s < controller->options.policy.shards; s++) {
        controller->plan.previous[s] = before[s] != after[s] ? before[s] : controller->plan.previous[s];
    }
    controller->change.state = CHANGE_SWITCH;
    controller->plan.from_clock = controller->barrier.clock + 1;
    name_strategy(controller);
    schedule_name(&controller->plan.schedule, controller->plan.from_clock);
    change_publish(controller);
}

/* How fast a node was that has no data any more must not count with those that have. */
static void forget_idle(struct controller *controller) {
    for (unsigned m = 0; m < controller->member_count; m++) {
        actor_id actor = controller->members[m].node.actor;
        if (schedule_count(&controller->plan.schedule, actor, controller->progress.completed + 1) == 0) {
            monitor_forget(&controller->clocks.monitor, actor);
        }
    }
}

/* Reports the nodes that have a part for the first time. Where a controller that was restarted does not know how long
 * all phases took, the line is left out: the lines `nodes` have what the nodes do. */
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

static void settle(struct controller *controller) {
    bool staged = controller->plan.stage != controller->change.next_stage;
    report_newcomers(controller);
    schedule_forget(&controller->plan.schedule, clock_over(controller));
    placement_settle(controller);
    forget_idle(controller);
    controller->change.state = CHANGE_NONE;
    controller->plan.from_clock = 0;
    controller->change.due = true; /* nodes may have joined or been evicted meanwhile */
    if (staged) {
        report_stage(controller);
    }
    dismiss(controller); /* before change_publish, as the new plan does not name dismissed members */
    change_publish(controller);
}

/* ---- The last clock ---- */

/* Returns a clock that can become the last one: an iteration ends there, and the clock is neither completed nor has
 * work of lost nodes, so it can still be evaluated as the last clock. */
static uint64_t clock_to_stop(const struct controller *controller) {
    uint64_t each = controller->job.terms.clocks_per_iteration;
    uint64_t lost = lost_latest(&controller->lost);
    uint64_t after = controller->progress.completed > lost ? controller->progress.completed : lost;
    uint64_t reached = change_clock_reached(controller);
    uint64_t least = reached > after + 1 ? reached : after + 1;
    return (least + each - 1) / each * each;
}

/* Decides the last clock: one at an iteration's end that no origin has passed. */
static void step_stop(struct controller *controller) {
    bool held = controller->barrier.purpose == BARRIER_STOP && controller->barrier.clock != WIRE_CLOCK_NEVER;
    bool passed = false;
    if (held && !change_all_held(controller, &passed)) {
        return;
    }
    if (!held || passed) {
        change_barrier_at(controller, clock_to_stop(controller), BARRIER_STOP);
        return;
    }
    if (controller->job.final == 0 || controller->barrier.clock < controller->job.final) {
        controller->job.final = controller->barrier.clock;
    }
    controller->job.stopping = false;
    checkpoints_put_off_beyond(controller, controller->job.final);
    change_barrier_lift(controller);
    if (controller->options.checkpoint_at_end) {
        change_publish(controller); /* the last clock is to be a commit point */
    }
    barrier_tell(controller);
    progress_step(controller); /* completes that clock if it was reported meanwhile */
}

/* ---- One step ---- */

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
            dismiss(controller); /* the clocks for which a leaving member was needed may be committed by now */
            if (!names_are_old(controller)) {
                break;
            }
            if (controller_now(controller) >= change_sent_us(controller)) {
                change_publish(controller);
            } else {
                controller_tick_before(controller, change_sent_us(controller));
            }
        } else if (controller->change.state == CHANGE_PREPARE && all_ready(controller)) {
            controller->change.ready_us = controller_now(controller);
            barrier_for_switch(controller);
        }
        break;
    case CHANGE_BARRIER:
        if (!change_all_held(controller, &passed)) {
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
            if (all_ready(controller)) { /* every server knows that the clock is a commit point */
                controller->change.named_us = controller_now(controller);
                change_barrier_none(controller);
            }
        } else if (controller->commit.clock >= controller->plan.from_clock &&
                   controller->stored.completed + 1 >=
                       controller->plan.from_clock) { /* so late that most leaving members can be dismissed */
            settle(controller);
        }
        break;
    case CHANGE_RECOVER:
        break;
    }
}
