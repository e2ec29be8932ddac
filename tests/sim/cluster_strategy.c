/* Synchronization strategies in a simulated run (agileml/collective/strategy.h). See cluster_private.h. */
#include "tests/sim/cluster_private.h"

enum { LOCAL_STEPS_MAX = 5, MOMENT_US = 100 * 1000 };

bool cluster_strategy_is_drawn(const struct cluster *cluster) {
    return cluster->terms.local_steps > 1;
}

void cluster_strategy_draw(struct cluster *cluster) {
    uint64_t drawn = hash_mix(cluster->options.seed ^ 0x57A7);
    enum campaign campaign = cluster->options.campaign;
    bool possible = cluster->options.app == APP_ADDER && campaign != CAMPAIGN_UNEVEN && campaign != CAMPAIGN_MISSING;
    bool wanted = cluster->options.mistake == MISTAKE_STRATEGY_KEPT ||
                  (cluster->options.mistake == MISTAKE_NONE && drawn % 3 == 0);
    if (!possible || !wanted) {
        return;
    }
    cluster->terms.strategy = (uint8_t)(drawn / 3 % (STRATEGY_AUTO + 1));
    cluster->terms.strategy =
        cluster->options.mistake == MISTAKE_STRATEGY_KEPT ? STRATEGY_AUTO : cluster->terms.strategy;
    cluster->terms.local_steps = 2 + (uint32_t)(drawn / 16 % (LOCAL_STEPS_MAX - 1));
    cluster->terms.clocks_per_iteration *= 1 + (uint32_t)(drawn / 64 % 3);
}

void cluster_strategy_control(struct cluster *cluster) {
    struct cluster_controller *control = &cluster->control;
    uint64_t moment = sim_now(cluster->sim) / MOMENT_US;
    if (cluster_strategy_is_drawn(cluster) && cluster->terms.strategy == STRATEGY_AUTO && control->running &&
        control->controller.phase == PHASE_TRAIN && moment != control->strategy_moment) {
        control->strategy_moment = moment;
        uint64_t drawn = hash_mix(cluster->options.seed ^ hash_mix(moment));
        if (drawn % 4 == 0) {
            controller_want_strategy(&control->controller, (enum strategy)(drawn / 4 % STRATEGY_AUTO));
        }
    }
}

unsigned cluster_strategy_parts(struct cluster_node *node, uint64_t clock) {
    struct cluster *cluster = node->cluster;
    const struct plan_view *plan = &node->node.plan;
    const struct strategy_clocks *clocks = &cluster->app.job.clocks;
    enum strategy strategy = plan_strategy_at(plan, clock);
    unsigned parts = strategy_parts(strategy, clocks, clock);
    unsigned before = strategy_parts((enum strategy)plan->terms.strategy, clocks, clock);
    if (clock == plan->terms.strategy_from && before != parts && cluster->drawn.first_clock + 1 < clock &&
        cluster_mistake_due(cluster, MISTAKE_STRATEGY_KEPT)) {
        parts = before;
    }
    bool counts = node->node.client.epoch == cluster->seen.plan.epoch; /* else what it does is void */
    if (counts && !app_set_parts(&cluster->app, clock, parts) && !cluster->run.forged) {
        cluster_violation(cluster, "S5", "%s works on %u parts in clock %llu by %s, another one on others",
                          node->node.name, parts, (unsigned long long)clock, strategy_name(strategy));
    }
    return parts;
}

uint64_t cluster_strategy_idle(const struct cluster_node *node, uint64_t clock) {
    const struct plan_view *plan = &node->node.client.plan;
    return strategy_idle(plan_strategy_at(plan, clock), &node->cluster->app.job.clocks, clock);
}
