/* See rebalance.h. */
#include "agileml/control/state/rebalance.h"

#include "agileml/control/state/controller_private.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOOK_US = 500 * 1000 /* shortest time between two calls of the policy */ };

/* The members that work on data, what the policy sees of them, and its answer. */
struct workers {
    struct aml_balance_view view;
    struct aml_balance_node *nodes;
    struct aml_balance_action *actions;
    struct member **members;
    bool may_replace;
};

static void open(struct controller *controller) {
    controller->features.rebalance.pending_seconds = REBALANCE_PENDING_S;
}

bool rebalance_may(const struct controller *controller) {
    return controller->options.balance != NULL && controller->phase == PHASE_TRAIN && controller->plan.steady &&
           controller->change.state == CHANGE_NONE && !controller->change.due && !controller->job.stopping &&
           !stages_tries(controller);
}

/* ---- What the policy sees ---- */

/* Returns how long the job is expected to go on. Without --iterations and --seconds: as long as it has lasted. */
static double seconds_left(const struct controller *controller) {
    const struct job_terms *terms = &controller->job.terms;
    const struct controller_progress *progress = &controller->progress;
    double past = controller_seconds(controller);
    uint64_t clocks = progress->completed - progress->first;
    uint64_t last = terms->iterations * terms->clocks_per_iteration;
    double left = past;
    if (terms->seconds > 0) {
        left = fmax(terms->seconds - past, 0);
    }
    if (last > 0 && clocks > 0) {
        double by_clocks =
            last > progress->completed ? past / (double)clocks * (double)(last - progress->completed) : 0;
        left = terms->seconds > 0 ? fmin(left, by_clocks) : by_clocks;
    }
    return left;
}

/* Returns whether a transient node may be replaced now: there is another transient node, and no node is leaving.
 * Reliable nodes keep state, and are never replaced. */
static bool may_replace(const struct controller *controller) {
    unsigned transient = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        const struct member *member = &controller->members[m];
        transient += member->node.tier == TIER_TRANSIENT ? 1 : 0;
        if (member->stay != MEMBER_STAYS) {
            return false;
        }
    }
    return transient > 1 && controller->options.replacements > controller->progress.rebalance.replacements &&
           controller->progress.rebalance.replacing == REPLACING_NOBODY && controller->plan.stage != STAGE_TRADITIONAL;
}

/* Converts a speed for the policy. `items` is the mean number of items of the node's present shards in a clock; the
 * window may also have clocks with earlier shards. */
static struct aml_balance_speed speed_of(const struct monitor_speed *speed, double slowness, double items) {
    return (struct aml_balance_speed){.clocks = speed->clocks,
                                      .seconds = speed->whole_seconds,
                                      .clock_seconds = speed->clock_seconds,
                                      .fixed_seconds = speed->fixed_seconds,
                                      .slice_seconds = speed->slice_seconds,
                                      .shard_seconds = speed->item_seconds * items,
                                      .error = speed->error,
                                      .slowness = isnan(slowness) ? 0 : slowness};
}

static unsigned partitions_of(const struct controller *controller, actor_id node) {
    unsigned partitions = 0;
    for (uint32_t p = 0; controller->plan.placement != NULL && p < controller->options.policy.partitions; p++) {
        partitions += actor_node(controller->plan.placement[p].server) == node ? 1 : 0;
    }
    return partitions;
}

static void see(const struct controller *controller, struct workers *workers, struct member *member, double shards) {
    struct aml_balance_node *node = &workers->nodes[workers->view.count];
    assert(workers->view.count < controller->member_count && shards > 0);
    static_assert(sizeof member->name <= sizeof node->name, "a member's name fits");
    workers->actions[workers->view.count].weight = node->weight = member->node.weight;
    workers->actions[workers->view.count].serve_weight = node->serve_weight = member->node.serve_weight;
    workers->members[workers->view.count++] = member;
    snprintf(node->name, sizeof node->name, "%s", member->name);
    node->threads = member->node.threads;
    node->partitions = partitions_of(controller, member->node.actor);
    node->shards = shards;
    node->transient = member->node.tier == TIER_TRANSIENT;
    node->replaceable = workers->may_replace && node->transient && controller_enough_without(controller, member);
}

static void see_speeds(const struct controller *controller, struct workers *workers) {
    const struct monitor *monitor = &controller->clocks.monitor;
    uint64_t now = controller_now(controller);
    double *slowness = memory_zeroed(monitor->count + 1, sizeof *slowness);
    for (unsigned span = 0; span < MONITOR_SPANS; span++) {
        monitor_slowness(monitor, (enum monitor_span)span, now, slowness);
        for (size_t n = 0; n < workers->view.count; n++) {
            struct aml_balance_node *node = &workers->nodes[n];
            actor_id actor = workers->members[n]->node.actor;
            size_t place = monitor_find(monitor, actor);
            struct monitor_speed speed = monitor_speed(monitor, actor, (enum monitor_span)span, now);
            struct monitor_speed present = monitor_speed(monitor, actor, MONITOR_SHORT, now);
            if (workers->members[n]->slice > 0 && present.items > 0) {
                node->slice_shards = (double)workers->members[n]->slice * node->shards / present.items;
            }
            struct monitor_wait wait = monitor_wait(monitor, actor, (enum monitor_span)span, now);
            node->waits[span] =
                (struct aml_balance_wait){.clocks = wait.clocks, .seconds = wait.seconds, .error = wait.error};
            node->speeds[span] =
                speed_of(&speed, place == SIZE_MAX ? NAN : slowness[place], present.items / node->shards);
        }
    }
    free(slowness);
}

static struct workers look(const struct controller *controller) {
    static_assert((int)MONITOR_SPANS == (int)AML_BALANCE_SPANS && (int)MONITOR_LONG == (int)AML_BALANCE_LONG, "spans");
    struct workers workers = {.nodes = memory_zeroed(controller->member_count, sizeof *workers.nodes),
                              .actions = memory_zeroed(controller->member_count, sizeof *workers.actions),
                              .members = memory_zeroed(controller->member_count, sizeof(struct member *)),
                              .may_replace = may_replace(controller)};
    uint64_t next = controller->progress.completed + 1;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        uint32_t shards = schedule_count(&controller->plan.schedule, member->node.actor, next);
        if (shards > 0) {
            see(controller, &workers, member, shards);
        }
    }
    see_speeds(controller, &workers);
    workers.view.nodes = workers.nodes;
    workers.view.now = controller_seconds(controller);
    workers.view.windows[AML_BALANCE_SHORT] = controller->clocks.monitor.seconds[MONITOR_SHORT];
    workers.view.windows[AML_BALANCE_LONG] = controller->clocks.monitor.seconds[MONITOR_LONG];
    workers.view.seconds_left = seconds_left(controller);
    workers.view.pending_seconds = controller->features.rebalance.pending_seconds;
    return workers;
}

static void workers_close(struct workers *workers) {
    free(workers->nodes);
    free(workers->actions);
    free(workers->members);
}

/* ---- What it answers ---- */

/* Checks the answer, since a user may have written the policy. Ends the job and returns false if the answer is
 * impossible. */
static bool is_possible(struct controller *controller, const struct workers *workers) {
    char text[ERROR_TEXT_MAX] = "";
    unsigned replaced = 0;
    for (size_t n = 0; n < workers->view.count && text[0] == '\0'; n++) {
        const struct aml_balance_action *action = &workers->actions[n];
        const char *name = workers->nodes[n].name;
        replaced += action->replace ? 1 : 0;
        if (action->weight > AML_BALANCE_WEIGHT_MAX || action->serve_weight > AML_BALANCE_WEIGHT_MAX) {
            snprintf(text, sizeof text, "--balance: the policy gives %s the weight %u, expected at most %d", name,
                     action->weight > AML_BALANCE_WEIGHT_MAX ? action->weight : action->serve_weight,
                     AML_BALANCE_WEIGHT_MAX);
        } else if (action->replace && (!workers->nodes[n].replaceable || replaced > 1)) {
            snprintf(text, sizeof text, "--balance: the policy has %s replaced, which may not be replaced now", name);
        }
    }
    if (text[0] != '\0') {
        verdict_end(controller, AML_EFAIL, text);
    }
    return text[0] == '\0';
}

static void carry_out(struct controller *controller, const struct workers *workers, const char *reason) {
    bool shares = false;
    struct member *replaced = NULL;
    for (size_t n = 0; n < workers->view.count; n++) {
        struct member *member = workers->members[n];
        shares = shares || member->node.weight != workers->actions[n].weight ||
                 member->node.serve_weight != workers->actions[n].serve_weight;
        member->node.weight = workers->actions[n].weight;
        member->node.serve_weight = workers->actions[n].serve_weight;
        replaced = workers->actions[n].replace ? member : replaced;
    }
    if (shares) {
        controller_report(controller, report_event(controller, "balance", NULL, reason));
        controller->change.due = true;
    }
    if (replaced != NULL) {
        controller_report(controller, report_event(controller, "replace", replaced->name, reason));
        controller->progress.rebalance.replacements++;
        controller->progress.rebalance.replacing = REPLACING_WAITED_FOR;
        controller->features.rebalance.asked_us = controller_now(controller);
        controller_evict(controller, replaced);
    }
}

/* Receives WAITS: how long a member has waited for each server. */
static void receive(struct controller *controller, actor_id from, struct member *member,
                    const struct message *message) {
    size_t count;
    (void)from;
    if (member == NULL || message->type != MESSAGE_WAITS) {
        return;
    }
    const struct wire_server_wait *waits = waits_servers(message, &count);
    for (size_t w = 0; w < count && message->waits.version == controller->plan.version; w++) {
        if (controller_find_member(controller, waits[w].node) != NULL) {
            monitor_add_wait(&controller->clocks.monitor, waits[w].node, message->waits.clocks, waits[w].wait_us,
                             controller_now(controller));
        }
    }
}

/* ---- The node in a straggler's place ---- */

static void joined(struct controller *controller, struct member *member) {
    if (!controller_feeds(member) && controller->progress.rebalance.replacing == REPLACING_WAITED_FOR) {
        controller->progress.rebalance.replacing = REPLACING_JOINED;
    }
}

void rebalance_pending(struct controller *controller, double seconds) {
    struct rebalance *balance = &controller->features.rebalance;
    balance->pending_seconds = balance->asked_us == 0 ? seconds : balance->pending_seconds;
}

/* Ends the replacement when all nodes' speeds are known. */
static void end_replacement(struct controller *controller, const struct workers *workers) {
    bool known = controller->progress.rebalance.replacing == REPLACING_JOINED;
    for (size_t n = 0; n < workers->view.count; n++) {
        known = known && workers->nodes[n].speeds[AML_BALANCE_SHORT].clocks >= MONITOR_CLOCKS;
    }
    if (known) {
        controller->progress.rebalance.replacing = REPLACING_NOBODY;
        if (controller->features.rebalance.asked_us !=
            0) { /* known: the controller was not restarted since the eviction */
            controller->features.rebalance.pending_seconds =
                (double)(controller_now(controller) - controller->features.rebalance.asked_us) / 1e6;
        }
    }
}

/* Asks the policy. */
static void iteration(struct controller *controller, const struct iteration_measure *measure) {
    (void)measure;
    struct rebalance *balance = &controller->features.rebalance;
    uint64_t now = controller_now(controller);
    if (!rebalance_may(controller) || now < balance->looked_us + LOOK_US) {
        return;
    }
    balance->looked_us = now;
    char reason[AML_BALANCE_REASON] = "";
    struct workers workers = look(controller);
    end_replacement(controller, &workers);
    if (controller->options.balance(&workers.view, balance->memory, workers.actions, reason) &&
        is_possible(controller, &workers)) {
        reason[sizeof reason - 1] = '\0';
        carry_out(controller, &workers, reason);
    }
    workers_close(&workers);
}

const struct feature rebalance_feature = {.open = open, .joined = joined, .receive = receive, .iteration = iteration};
