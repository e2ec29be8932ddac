/* Collects what is known now, for a decision or a bill. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>

/* Returns the cost of losing both copies of a part of the state: half of the time between checkpoints, or all work
 * since the start if there is no checkpoint yet. */
static struct policy_copies copies_of(const struct daemon *daemon) {
    const struct daemon_job *job = &daemon->job;
    double boot = job->boot_seconds / HOUR;
    double lost = (double)(daemon_now(daemon) - job->begun) / HOUR;
    if (daemon->config->application.checkpoint_seconds > 0) {
        lost = daemon->config->application.checkpoint_seconds / HOUR / 2;
    } else if (job->checkpoint_gaps > 0) {
        lost = job->checkpoint_gaps_sum / job->checkpoint_gaps * daemon->clock.speed / HOUR / 2;
    }
    return (struct policy_copies){.spread = job->transient,
                                  .lost = lost + boot + job->app.lambda,
                                  .copied = job->app.lambda,
                                  .replaced = job->app.lambda + boot};
}

const struct footprint *daemon_view_open(struct daemon *daemon, struct daemon_view *view) {
    const struct config *config = daemon->config;
    int64_t now = daemon_now(daemon);
    bool by_price = config->rules->bids && daemon->market.learned > 0;
    for (size_t m = 0; m < daemon->market.buyable_count; m++) {
        struct portfolio_market *market = &daemon->market.buyable[m];
        enum provider_kind kind = market->prices != NULL ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
        market->closed_until = daemon_closed_until(daemon, kind, market->type->type, market->zone);
        market->speed = daemon_speed(daemon, market->type->type);
    }
    struct daemon_fleet *fleet = &daemon->fleet;
    *view = (struct daemon_view){.launches = memory_zeroed(fleet->launch_count + 1, sizeof *view->launches),
                                 .machines = memory_zeroed(fleet->machine_count + 1, sizeof *view->machines)};
    for (size_t l = 0; l < fleet->launch_count; l++) {
        view->launches[l] = &fleet->launches[l].row;
    }
    for (size_t i = 0; i < fleet->machine_count; i++) {
        view->machines[i] = &fleet->machines[i].row;
    }
    if (by_price) {
        eviction_advance(&daemon->market.eviction, now);
        eviction_table_open(&view->table, &daemon->market.eviction, EVICTION_CHOSEN, now);
    }
    double budget = config->limits.budget_dollars * (double)PRICE_DOLLAR;
    view->footprint = (struct footprint){
        .known = {.rules = config->rules,
                  .now = now,
                  .lead = (int64_t)daemon_lead(daemon),
                  .markets = daemon->market.buyable,
                  .market_count = daemon->market.buyable_count,
                  .reference = daemon->market.reliable_price,
                  .reference_speed = daemon_speed(daemon, config->reliable.type),
                  .table = by_price ? &view->table : NULL,
                  .by_regime = true,
                  .interruptions = &daemon->market.interruptions,
                  .fallback = config->on_demand_fallback ? FALLBACK_ALWAYS : FALLBACK_NEVER,
                  .reliable = (unsigned)config->reliable.count,
                  .reliable_type = daemon->market.reliable_price,
                  .app = daemon->job.app,
                  .end = {.work = daemon->job.work_left,
                          .deadline =
                              config->limits.deadline != 0 ? (double)(config->limits.deadline - now) / HOUR : INFINITY,
                          .hour_worth = config->limits.hour_worth,
                          .boot = daemon->job.boot_seconds / HOUR,
                          .whole_hours = config->rules->whole_hours},
                  .limits = {.most_machines = (double)config->limits.most_machines,
                             .most_vcpus = config->limits.most_vcpus,
                             .most_dollars_per_hour = config->limits.most_dollars_per_hour,
                             .least_markets = (unsigned)config->limits.least_markets},
                  .additions = {.joint = true},
                  .probes = config->application.measure_speeds ? (unsigned)config->application.probe_types : 0},
        .decision_seconds = config->periods.decision_seconds,
        .notice_seconds = config->periods.notice_seconds,
        .launches = view->launches,
        .launch_count = daemon->fleet.launch_count,
        .machines = view->machines,
        .machine_count = daemon->fleet.machine_count,
        .budget_micro = isinf(budget) ? INT64_MAX : (int64_t)budget};
    view->footprint.known.app.copies = copies_of(daemon);
    return &view->footprint;
}

void daemon_view_close(struct daemon_view *view) {
    if (view->table.markets != NULL) {
        eviction_table_close(&view->table);
    }
    free(view->launches);
    free(view->machines);
}
