/* The daemon's prices, what can be bought, and its decisions. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/market_read.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What is wanted ---- */

static bool in_list(const char *const *list, const char *text) {
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], text) == 0) {
            return true;
        }
    }
    return list[0] == NULL;
}

bool daemon_wants(const struct daemon *daemon, const char *type, const char *zone, const char *product) {
    const struct config *config = daemon->config;
    char region[MARKET_TEXT_MAX];
    market_region(zone, region);
    const struct catalog_price *known = catalog_find(&daemon->config->known, type, region);
    return strcmp(region, daemon->region) == 0 && strcmp(product, config->product) == 0 &&
           in_list(config->types, type) && in_list(config->zones, zone) &&
           catalog_fits(known, config->vcpus_min, config->memory_min);
}

/* ---- Prices ---- */

void daemon_take_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    struct daemon *daemon = context;
    struct error error = {0};
    if (!daemon_wants(daemon, type, zone, product)) {
        unwanted_add(&daemon->market.unwanted, type, zone, product);
        return;
    }
    if (point.price <= 0 || point.price >= PRICE_MAX) {
        return;
    }
    daemon->market.points++;
    daemon->market.newest = point.time > daemon->market.newest ? point.time : daemon->market.newest;
    if (markets_add(&daemon->market.fresh, type, zone, product, point, &error) != 0) {
        daemon_fail(daemon, &error);
    }
}

static void take_fresh(struct daemon *daemon) {
    struct error error = {0};
    int code = 0;
    markets_finish(&daemon->market.fresh);
    for (size_t m = 0; m < daemon->market.fresh.count && code == 0; m++) {
        const struct market *market = daemon->market.fresh.list[m];
        for (size_t p = 0; p < market->count && code == 0; p++) {
            code = markets_add(&daemon->market.markets, market->type, market->zone, market->product, market->points[p],
                               &error);
        }
    }
    markets_finish(&daemon->market.markets);
    if (code == 0 && daemon->market.store != NULL && daemon->market.fresh.count > 0) {
        code = market_store_append(daemon->market.store, &daemon->market.fresh, &error);
    }
    markets_close(&daemon->market.fresh);
    if (code != 0 && daemon->loop.phase == DAEMON_RUN) { /* no prices are needed to give machines back */
        daemon_fail(daemon, &error);
    }
}

static double cost_of_work(const struct daemon *daemon, const struct catalog_price *type) {
    const struct portfolio_market market = {.type = type, .speed = daemon_speed(daemon, type->type)};
    return (double)type->price / portfolio_nu(&market);
}

/* One on-demand type in place of spot machines: the one that costs least for its work. */
static const struct catalog_price *fallback_type(const struct daemon *daemon) {
    const struct catalog_price *best = NULL;
    for (size_t m = 0; m < daemon->market.markets.count; m++) {
        const struct catalog_price *type =
            catalog_find(&daemon->config->known, daemon->market.markets.list[m]->type, daemon->region);
        if (best == NULL || cost_of_work(daemon, type) < cost_of_work(daemon, best)) {
            best = type;
        }
    }
    return best;
}

static void add_on_demand(struct daemon *daemon, const struct catalog_price *price, const char *zone) {
    const struct footprint known = {
        .known = {.markets = daemon->market.buyable, .market_count = daemon->market.buyable_count}};
    if (price == NULL || footprint_find(&known, PROVIDER_ON_DEMAND, price->type, zone) != MARKET_NONE) {
        return;
    }
    daemon->market.buyable =
        memory_resized(daemon->market.buyable, daemon->market.buyable_count + 1, sizeof *daemon->market.buyable);
    struct portfolio_market *market = &daemon->market.buyable[daemon->market.buyable_count++];
    *market = (struct portfolio_market){.type = price};
    snprintf(market->zone, sizeof market->zone, "%s", zone);
}

static void find_buyable(struct daemon *daemon) {
    free(daemon->market.buyable);
    daemon->market.buyable = memory_zeroed(daemon->market.markets.count + 1, sizeof *daemon->market.buyable);
    daemon->market.buyable_count = 0;
    for (size_t m = 0; m < daemon->market.markets.count; m++) {
        const struct market *market = daemon->market.markets.list[m];
        struct portfolio_market *buyable = &daemon->market.buyable[daemon->market.buyable_count++];
        *buyable = (struct portfolio_market){
            .prices = market, .type = catalog_find(&daemon->config->known, market->type, daemon->region)};
        snprintf(buyable->zone, sizeof buyable->zone, "%s", market->zone);
    }
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) { /* of an earlier configuration too */
        const struct provider_machine *machine = &daemon->fleet.machines[i].row.machine;
        if (daemon->fleet.machines[i].row.fallback) {
            add_on_demand(daemon, catalog_find(&daemon->config->known, machine->type, daemon->region), machine->zone);
        }
    }
    if (daemon->config->on_demand_fallback && daemon->market.markets.count > 0) {
        const char *zone = daemon->config->reliable_zone;
        add_on_demand(daemon, fallback_type(daemon), zone != NULL ? zone : daemon->market.markets.list[0]->zone);
    }
}

/* Learns from new prices. When there are new markets, learns everything anew, as markets are known by index. */
static void learn(struct daemon *daemon) {
    struct error error = {0};
    bool by_price = daemon->config->rules->bids;
    size_t count = daemon->market.markets.count;
    if (daemon->market.learned != count) {
        int64_t *on_demand = memory_zeroed(count + 1, sizeof *on_demand);
        for (size_t m = 0; m < count; m++) {
            on_demand[m] =
                catalog_find(&daemon->config->known, daemon->market.markets.list[m]->type, daemon->region)->price;
        }
        if (daemon->market.learned > 0 && by_price) {
            eviction_close(&daemon->market.eviction);
        } else if (daemon->market.learned > 0) {
            interruptions_close(&daemon->market.interruptions);
        }
        daemon->market.learned = count;
        if (by_price) {
            eviction_open(&daemon->market.eviction, &daemon->market.markets, on_demand);
        } else if (interruptions_open(&daemon->market.interruptions, daemon->config->interruptions,
                                      &daemon->market.markets, &error) != 0) {
            daemon->market.learned = 0;
            daemon_fail(daemon, &error);
        }
        free(on_demand);
    }
    if (by_price && count > 0) {
        eviction_advance(&daemon->market.eviction, daemon_now(daemon));
    }
}

/* Stores for `bidbrain status` why no market can be bought in, and warns when the reason is new. */
static void note_unwanted(struct daemon *daemon) {
    struct error error = {0};
    char text[UNWANTED_TEXT] = "";
    if (daemon->market.markets.count == 0) {
        unwanted_text(&daemon->market.unwanted, daemon->config, text);
    }
    if (strcmp(text, daemon->market.unwanted_said) == 0) {
        return;
    }
    strcpy(daemon->market.unwanted_said, text);
    if (text[0] != '\0') {
        log_warn("no market can be bought in: %s", text);
    }
    if (ledger_put_text(daemon->ledger, "unwanted-prices", text, &error) != 0 && daemon->loop.phase == DAEMON_RUN) {
        daemon_fail(daemon, &error);
    }
}

void daemon_prices_end(void *context, bool whole) {
    struct daemon *daemon = context;
    take_fresh(daemon);
    daemon->market.pricing = false;
    daemon_answered(daemon, whole);
    if (whole) {
        daemon->market.priced_to = daemon->market.priced_from;
        if (!daemon->market.priced) {
            daemon_say(daemon, "prices of %zu markets are known", daemon->market.markets.count);
        }
        daemon->market.priced = true;
        note_unwanted(daemon);
    }
    find_buyable(daemon);
    learn(daemon);
}

void daemon_ask_prices(struct daemon *daemon) {
    int64_t now = daemon_now(daemon);
    int64_t since = daemon->market.priced_to > 0 ? daemon->market.priced_to - DAEMON_OVERLAP_S
                                                 : now - DAEMON_HISTORY_DAYS * INT64_C(86400);
    daemon->loop.next_prices = (double)(now + daemon->config->price_seconds);
    if (daemon->market.pricing) {
        return;
    }
    daemon->market.pricing = true;
    daemon->market.priced_from = now;
    provider_prices(daemon->provider, since);
}

/* History from a file: from the price that holds at `since` to now. */
static int read_history(struct daemon *daemon, int64_t since, struct error *error) {
    struct markets all = {0};
    int64_t now = daemon_now(daemon);
    int code = market_read(&all, daemon->config->prices, NULL, error);
    markets_finish(&all);
    for (size_t m = 0; m < all.count && code == 0; m++) {
        const struct market *market = all.list[m];
        size_t first = market_index(market, since);
        for (size_t p = first == MARKET_NONE ? 0 : first; p < market->count && market->points[p].time <= now; p++) {
            daemon_take_price(daemon, market->type, market->zone, market->product, market->points[p]);
        }
    }
    markets_close(&all);
    return code != 0 ? code : daemon->error.code;
}

int daemon_read_recorded(struct daemon *daemon, struct error *error) {
    daemon->market.priced_from = daemon_now(daemon);
    int code = read_history(daemon, daemon->market.priced_from - DAEMON_HISTORY_DAYS * INT64_C(86400), error);
    if (code == 0) {
        daemon_prices_end(daemon, true);
    }
    return code;
}

struct stored {
    struct daemon *daemon;
    int64_t last;
};

static int take_stored(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    struct stored *stored = context;
    if (daemon_wants(stored->daemon, type, zone, product)) {
        stored->last = point.time > stored->last ? point.time : stored->last;
        return markets_add(&stored->daemon->market.markets, type, zone, product, point, NULL);
    }
    return 0;
}

/* Notes the newest wanted price, for a store that has none of the last DAEMON_HISTORY_DAYS. */
static int take_age(void *context, const char *type, const char *zone, const char *product, struct market_point point) {
    struct daemon *daemon = context;
    bool newer = point.time > daemon->market.newest && daemon_wants(daemon, type, zone, product);
    daemon->market.newest = newer ? point.time : daemon->market.newest;
    return 0;
}

static int open_store(struct daemon *daemon, struct error *error) {
    char *path = daemon->market.store_path != NULL ? memory_string(daemon->market.store_path)
                                                   : daemon_price_path(daemon->config->state);
    int64_t now = daemon_now(daemon);
    struct stored stored = {.daemon = daemon};
    if (daemon->options->dry_run && access(path, F_OK) != 0) {
        free(path);
        return 0;
    }
    int code = market_store_open(&daemon->market.store, path, error);
    free(path);
    if (code == 0) {
        code = market_store_iterate(daemon->market.store, now - DAEMON_HISTORY_DAYS * INT64_C(86400), now, take_stored,
                                    &stored, error);
    }
    daemon->market.newest = stored.last;
    if (code == 0 && stored.last == 0) {
        code = market_store_iterate(daemon->market.store, INSTANT_MIN, now, take_age, daemon, error);
    }
    markets_finish(&daemon->market.markets);
    daemon->market.priced_to = stored.last;
    if (daemon->options->dry_run) {
        market_store_close(daemon->market.store);
        daemon->market.store = NULL;
    }
    return code;
}

int daemon_market_open(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    daemon->market.reliable_price = catalog_find(&config->known, config->reliable_type, daemon->region);
    int code = open_store(daemon, error);
    if (code == 0 && config->provider == CONFIG_EC2 && config->prices != NULL) {
        code = read_history(daemon, INSTANT_MIN, error);
    }
    take_fresh(daemon);
    find_buyable(daemon);
    learn(daemon);
    return code != 0 ? code : daemon->error.code;
}

void daemon_market_close(struct daemon *daemon) {
    if (daemon->market.learned > 0 && daemon->config->rules->bids) {
        eviction_close(&daemon->market.eviction);
    } else if (daemon->market.learned > 0) {
        interruptions_close(&daemon->market.interruptions);
    }
    market_store_close(daemon->market.store);
    json_decref(daemon->market.money_noted);
    markets_close(&daemon->market.markets);
    markets_close(&daemon->market.fresh);
    free(daemon->market.buyable);
}

/* ---- Decisions ---- */

double daemon_margin(const struct daemon *daemon) {
    return fmax(DAEMON_MARGIN_S, daemon->clock.speed * DAEMON_MARGIN_MS / 1e3);
}

double daemon_lead(const struct daemon *daemon) {
    double least = daemon_margin(daemon) + daemon->clock.speed * DAEMON_LEAD_MS / 1e3;
    return fmin(HOUR / 2, fmax((double)daemon->config->decision_seconds, least));
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
    double budget = config->budget_dollars * (double)PRICE_DOLLAR;
    view->footprint = (struct footprint){
        .known = {.rules = config->rules,
                  .now = now,
                  .lead = (int64_t)daemon_lead(daemon),
                  .markets = daemon->market.buyable,
                  .market_count = daemon->market.buyable_count,
                  .reference = daemon->market.reliable_price,
                  .reference_speed = daemon_speed(daemon, config->reliable_type),
                  .table = by_price ? &view->table : NULL,
                  .by_regime = true,
                  .interruptions = &daemon->market.interruptions,
                  .fallback = config->on_demand_fallback ? FALLBACK_ALWAYS : FALLBACK_NEVER,
                  .reliable = (unsigned)config->reliable,
                  .reliable_type = daemon->market.reliable_price,
                  .app = daemon->job.app,
                  .end = {.work = daemon->job.work_left,
                          .deadline = config->deadline != 0 ? (double)(config->deadline - now) / HOUR : INFINITY,
                          .hour_worth = config->hour_worth,
                          .boot = daemon->job.boot_seconds / HOUR,
                          .whole_hours = config->rules->whole_hours},
                  .limits = {.most_machines = (double)config->most_machines,
                             .most_vcpus = config->most_vcpus,
                             .most_dollars_per_hour = config->most_dollars_per_hour,
                             .least_markets = (unsigned)config->least_markets},
                  .additions = {.joint = true},
                  .probes = config->measure_speeds ? (unsigned)config->probe_types : 0},
        .decision_seconds = config->decision_seconds,
        .notice_seconds = config->notice_seconds,
        .launches = view->launches,
        .launch_count = daemon->fleet.launch_count,
        .machines = view->machines,
        .machine_count = daemon->fleet.machine_count,
        .budget_micro = isinf(budget) ? INT64_MAX : (int64_t)budget};
    view->footprint.known.app.copies = daemon_copies(daemon);
    return &view->footprint;
}

void daemon_view_close(struct daemon_view *view) {
    if (view->table.markets != NULL) {
        eviction_table_close(&view->table);
    }
    free(view->launches);
    free(view->machines);
}

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

/* Says why markets are kept out: at first, and when the reasons change. */
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

/* Reports whether the job is expected to meet its deadline, each time that this changes. */
static void say_deadline(struct daemon *daemon, const struct footprint *footprint, const struct portfolio_plan *plan) {
    if (daemon->config->deadline == 0 || footprint->known.end.work <= 0 || isinf(plan->hours_left)) {
        return;
    }
    bool late = plan->hours_left > footprint->known.end.deadline;
    if (daemon->market.late_said == (int)late || (daemon->market.late_said < 0 && !late)) {
        return;
    }
    char deadline[INSTANT_TEXT_MAX];
    char end[INSTANT_TEXT_MAX];
    instant_format(daemon->config->deadline, deadline);
    instant_format(footprint->known.now + (int64_t)(fmin(plan->hours_left, 1e6) * HOUR), end);
    daemon->market.late_said = late;
    if (late) {
        log_warn("the job is expected to end at %s, after its deadline %s: limits and markets allow no more machines",
                 end, deadline);
    } else {
        daemon_say(daemon, "the job is expected to end at %s, within its deadline %s", end, deadline);
    }
}

/* Warns while one price can take all copies of the job's state: at first, and when that changes. */
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
