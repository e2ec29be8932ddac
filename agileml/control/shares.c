/* The elasticity controller's use of balance.h: collects what the monitor knows, gives members their weights, and has a
 * plan made. See controller_private.h. */
#include "agileml/control/controller_private.h"

#include "agileml/base/memory.h"

#include <stdio.h>
#include <stdlib.h>

bool shares_may_change(const struct controller *controller) {
    return controller->options.balance && controller->phase == PHASE_TRAIN && controller->plan.steady &&
           controller->change.state == CHANGE_NONE && !controller->change.due && !controller->job.stopping &&
           (controller->options.policy.stage != STAGE_AUTO || controller->tuner.trial == STAGE_AUTO);
}

/* Collects the members that work. Returns how many; 0: a member's speed is not known. */
static size_t collect(const struct controller *controller, struct balance_node *nodes, struct member **members) {
    const struct monitor *monitor = &controller->clocks.monitor;
    uint64_t now = controller_now(controller);
    size_t count = 0;
    for (unsigned m = 0; m < controller->member_count; m++) {
        struct member *member = &controller->members[m];
        uint32_t shards =
            schedule_count(&controller->plan.schedule, member->node.actor, controller->progress.completed + 1);
        if (shards == 0) {
            continue;
        }
        if (member->stay != MEMBER_STAYS || monitor_find(monitor, member->node.actor) == SIZE_MAX) {
            return 0;
        }
        members[count] = member;
        for (unsigned span = 0; span < MONITOR_SPANS; span++) {
            nodes[count].speeds[span] = monitor_speed(monitor, member->node.actor, (enum monitor_span)span, now);
        }
        nodes[count].shards = shards;
        nodes[count].items = nodes[count].speeds[MONITOR_SHORT].items;
        count++;
    }
    return count;
}

static void change_weights(struct controller *controller, const struct balance_node *nodes,
                           struct member *const *members, size_t count, double gain) {
    size_t least = 0;
    size_t most = 0;
    double weights = 0;
    char text[ERROR_TEXT_MAX];
    for (size_t n = 0; n < count; n++) {
        members[n]->node.weight = nodes[n].weight;
        weights += nodes[n].weight;
        least = nodes[n].weight < nodes[least].weight ? n : least;
        most = nodes[n].weight > nodes[most].weight ? n : most;
    }
    double mean = weights / (double)count;
    snprintf(text, sizeof text, "shares of %.2f (%.63s) to %.2f (%.63s) of the mean are to make clocks %.0f %% shorter",
             nodes[least].weight / mean, members[least]->name, nodes[most].weight / mean, members[most]->name,
             100 * gain);
    controller_report(controller, report_event(controller, "balance", NULL, text));
    controller->change.due = true;
}

void shares_step(struct controller *controller) {
    struct controller_clocks *clocks = &controller->clocks;
    uint64_t now = controller_now(controller);
    if (!shares_may_change(controller) || now < clocks->balanced_us + SHARES_STEP_US) {
        return;
    }
    clocks->balanced_us = now;
    double gain = 0;
    struct balance_node *nodes = memory_zeroed(controller->member_count, sizeof *nodes);
    struct member **members = memory_zeroed(controller->member_count, sizeof(struct member *));
    size_t count = collect(controller, nodes, members);
    if (balance_decide(&clocks->balance, nodes, count, clocks->monitor.seconds[MONITOR_LONG], now, &gain)) {
        change_weights(controller, nodes, members, count, gain);
    }
    free(nodes);
    free(members);
}
