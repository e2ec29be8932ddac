/* The daemon's decisions, and the messages about them. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *cost_json(double cost) {
    return isfinite(cost) ? json_real(cost) : json_null();
}

static void report_plan(struct daemon *daemon, const struct footprint *footprint, const struct portfolio_plan *plan) {
    json_t *buys = json_array();
    for (size_t b = 0; b < plan->buy_count; b++) {
        const struct portfolio_buy *buy = &plan->buys[b];
        const struct portfolio_market *market = &footprint->known.markets[buy->market];
        bool spot = market->prices != NULL;
        bool measured = market->speed > 0;
        double speed = measured ? market->speed : 1;
        char how[40] = "";
        if (measured) {
            snprintf(how, sizeof how, "; measured speed %.2f", speed);
        } else if (buy->probe) {
            snprintf(how, sizeof how, "; to measure its speed");
        }
        json_array_append_new(buys,
                              json_pack("{s:s,s:s,s:s,s:i,s:f,s:f,s:o,s:f,s:b,s:b}", "kind",
                                        spot ? "spot" : "on-demand", "instance_type", market->type->type, "zone",
                                        market->zone, "count", (int)buy->count, "price", buy->price, "bid",
                                        price_dollars(buy->bid), "cost_per_work", cost_json(buy->cost_per_work),
                                        "speed", speed, "speed_measured", (int)measured, "probe", (int)buy->probe));
        daemon_say(daemon, "decision: %u x %s/%s %s at $%.4f%s%.4f, $%.5f per vCPU-hour with it%s", buy->count,
                   market->type->type, market->zone, spot ? "spot" : "on demand", buy->price, spot ? ", bid $" : " = $",
                   spot ? price_dollars(buy->bid) : buy->price, buy->cost_per_work, how);
    }
    if (plan->released > 0) {
        daemon_say(daemon, "decision: %zu allocations are given back%s", plan->released,
                   plan->over_budget ? " (the budget)" : "");
    }
    daemon_report(daemon, "decision",
                  json_pack("{s:o,s:o,s:i,s:i,s:b,s:f,s:f,s:f,s:f,s:o}", "cost_per_work",
                            cost_json(plan->cost_per_work), "buys", buys, "renewed", (int)plan->renewed, "released",
                            (int)plan->released, "over_budget", (int)plan->over_budget, "phi", footprint->known.app.phi,
                            "sigma_seconds", footprint->known.app.sigma * HOUR, "lambda_seconds",
                            footprint->known.app.lambda * HOUR, "items_per_vcpu_second", daemon->job.throughput,
                            "speeds", daemon_speeds_json(daemon)));
}

/* Logs why no market is bought in: at first, and when the reasons change. */
static void say_why(struct daemon *daemon, const struct footprint *footprint, const struct portfolio_plan *plan) {
    struct footprint_reasons reasons;
    char text[FOOTPRINT_REASONS_TEXT];
    if (strcmp(daemon->market.unwanted_reason_said, daemon->market.unwanted_said) != 0) {
        strcpy(daemon->market.unwanted_reason_said, daemon->market.unwanted_said);
        if (daemon->market.unwanted_said[0] != '\0') {
            daemon_say(daemon, "nothing is bought: %s", daemon->market.unwanted_said);
        }
    }
    if (plan->buy_count > 0 || !footprint_reasons(footprint, &reasons)) {
        memset(daemon->market.reasons_said, 0, sizeof daemon->market.reasons_said);
    } else if (memcmp(daemon->market.reasons_said, reasons.markets, sizeof reasons.markets) != 0) {
        memcpy(daemon->market.reasons_said, reasons.markets, sizeof reasons.markets);
        footprint_reasons_text(footprint, &reasons, text);
        daemon_say(daemon, "nothing is bought: %s", text);
    }
}

/* Logs whether the job is expected to meet its deadline, each time that this changes. */
static void say_deadline(struct daemon *daemon, const struct footprint *footprint, const struct portfolio_plan *plan) {
    if (daemon->config->limits.deadline == 0 || footprint->known.end.work <= 0 || isinf(plan->hours_left)) {
        return;
    }
    bool late = plan->hours_left > footprint->known.end.deadline;
    if (daemon->market.late_said == (int)late || (daemon->market.late_said < 0 && !late)) {
        return;
    }
    char deadline[INSTANT_TEXT_MAX];
    char end[INSTANT_TEXT_MAX];
    instant_format(daemon->config->limits.deadline, deadline);
    instant_format(footprint->known.now + (int64_t)(fmin(plan->hours_left, 1e6) * HOUR), end);
    daemon->market.late_said = late;
    if (late) {
        log_warn("the job is expected to end at %s, after its deadline %s: limits and markets allow no more machines",
                 end, deadline);
    } else {
        daemon_say(daemon, "the job is expected to end at %s, within its deadline %s", end, deadline);
    }
}

/* Warns while a rise of one price can take all copies of the job's state: at first, and when that changes. */
static void say_groups(struct daemon *daemon, const struct footprint *footprint, const struct portfolio_plan *plan) {
    size_t market = MARKET_NONE;
    size_t groups = footprint_groups(footprint, plan, &market);
    bool few = footprint->known.app.copies.spread && groups > 0 && groups < POLICY_GROUPS_LEAST;
    if (few && daemon->market.groups_said != groups + 1) {
        const struct portfolio_market *only = &footprint->known.markets[market];
        log_warn(
            "no other market than %s/%s is offered below its ceiling: its price can take all machines at once, and "
            "the job would go on only from its last checkpoint",
            only->type->type, only->zone);
    } else if (!few && daemon->market.groups_said > 0 && groups >= POLICY_GROUPS_LEAST) {
        daemon_say(daemon, "machines of %zu markets: no single price can take the job's state", groups);
    }
    daemon->market.groups_said = few ? (unsigned)groups + 1 : groups > 0 ? 0 : daemon->market.groups_said;
}

static void release_decided(struct daemon *daemon, const int64_t *release_at, size_t count) {
    bool hold = daemon->config->rules->whole_hours;
    for (size_t i = 0; i < count; i++) {
        if (release_at[i] != 0) {
            daemon_release(daemon, i, release_at[i],
                           hold && daemon->fleet.machines[i].row.machine.kind == PROVIDER_SPOT);
        }
    }
}

void daemon_keep_budget(struct daemon *daemon) {
    struct daemon_view view;
    struct portfolio_plan plan;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    int64_t *release_at = memory_zeroed(daemon->fleet.machine_count + 1, sizeof *release_at);
    footprint_keep_budget(footprint, &plan, release_at);
    if (plan.released > 0) {
        report_plan(daemon, footprint, &plan);
        release_decided(daemon, release_at, footprint->machine_count);
    }
    free(release_at);
    daemon_view_close(&view);
}

void daemon_decide(struct daemon *daemon) {
    struct daemon_view view;
    struct portfolio_plan plan;
    const struct footprint *footprint = daemon_view_open(daemon, &view);
    int64_t *release_at = memory_zeroed(daemon->fleet.machine_count + 1, sizeof *release_at);
    footprint_decide(footprint, &plan, release_at);
    if (daemon->options->dry_run) {
        daemon_keep_reliable(daemon);
    }
    report_plan(daemon, footprint, &plan);
    say_why(daemon, footprint, &plan);
    say_deadline(daemon, footprint, &plan);
    say_groups(daemon, footprint, &plan);
    if (daemon->options->dry_run) {
        if (plan.buy_count == 0 && plan.released == 0 && footprint->machine_count > 0) {
            daemon_say(daemon, "decision: nothing is bought");
        }
    } else {
        release_decided(daemon, release_at, footprint->machine_count);
        daemon_store_measured(daemon);
        for (size_t b = 0; b < plan.buy_count && daemon->error.code == 0; b++) {
            daemon_launch(daemon, &plan.buys[b]);
        }
    }
    free(release_at);
    daemon_view_close(&view);
}
