/* `bidbrain advise`: prints one decision on the newest prices of a history, and the numbers behind it. Buys nothing. */
#include "agileml/base/clock.h"
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/billing.h"
#include "bidbrain/market/command.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/policy/portfolio.h"
#include "bidbrain/study/command.h"
#include "bidbrain/study/profile.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ADVICE_TOP = 10 /* candidates in the printed table, at most one of each market */ };

enum { ADVISE_BOOT_S = 120 /* time from buying a machine to its first work */ };

struct advise {
    const char *prices, *app, *at, *model_name, *product, *catalog, *interruptions, *zone, *speeds;
    struct type_speed *speed_list;
    size_t speed_count;
    bool greedy, json, help;
    const struct market_rules *rules;
    struct profile profile;
    /* State at `now`: */
    struct markets markets;
    struct catalog known;
    struct portfolio_market *places; /* in the order of markets.list */
    int64_t now;
    const struct catalog_price *reliable;
    struct interruptions risks;
    struct eviction eviction;
    struct eviction_table table;
    struct policy_offer *offers;
    struct policy_view view;
    struct portfolio_plan plan;
    uint64_t decision_us;
};

/* The best bid in a market if it were bought first, with only the on-demand machines beside it. */
struct advice {
    size_t market;
    unsigned delta;
    double count, cost, work, cost_per_work;
};

static bool advise_wants(const void *context, const struct market *market) {
    const struct advise *advise = context;
    char region[MARKET_TEXT_MAX];
    market_region(market->zone, region);
    const struct catalog_price *type = catalog_find(&advise->known, market->type, region);
    return catalog_fits(type, advise->profile.vcpus_min, advise->profile.memory_min) &&
           market->points[0].time <= advise->now &&
           (advise->zone == NULL || strncmp(market->zone, advise->zone, strlen(advise->zone)) == 0);
}

static int advise_speeds(struct advise *advise, struct error *error) {
    const char *region = advise->places[0].type->region;
    for (size_t s = 0; s < advise->speed_count; s++) {
        if (catalog_find(&advise->known, advise->speed_list[s].type, region) == NULL) {
            return error_set(error, AML_EINPUT, "--speeds: '%s' has no price in %s: expected a type of the catalog",
                             advise->speed_list[s].type, region);
        }
    }
    for (size_t m = 0; m < advise->markets.count; m++) {
        advise->places[m].speed = type_speed_of(advise->speed_list, advise->speed_count, advise->places[m].type->type);
    }
    return 0;
}

static int advise_markets(struct advise *advise, struct error *error) {
    int64_t first;
    int64_t last;
    (void)markets_span(&advise->markets, &first, &last);
    advise->now = last;
    if (advise->at != NULL && (!instant_parse(advise->at, &advise->now) || advise->now < first || advise->now > last)) {
        char begin[INSTANT_TEXT_MAX];
        char end[INSTANT_TEXT_MAX];
        instant_format(first, begin);
        instant_format(last, end);
        return error_set(error, AML_EINPUT, "--at: expected a time from %s to %s, got '%.60s'", begin, end, advise->at);
    }
    markets_keep(&advise->markets, advise_wants, advise);
    if (advise->markets.count == 0) {
        return error_set(error, AML_EINPUT,
                         "no market to buy in: expected prices of a type that the catalog knows, large "
                         "enough for the profile");
    }
    int code = portfolio_markets(&advise->places, &advise->markets, &advise->known, error);
    if (code != 0) {
        return code;
    }
    advise->reliable = catalog_find(&advise->known, advise->profile.reliable_type, advise->places[0].type->region);
    if (advise->reliable == NULL) {
        return error_set(error, AML_EINPUT, "%s: reliable_type: '%s' has no price in %s", advise->app,
                         advise->profile.reliable_type, advise->places[0].type->region);
    }
    return advise_speeds(advise, error);
}

static void advise_learn(struct advise *advise) {
    size_t count = advise->markets.count;
    int64_t *on_demand = memory_zeroed(count, sizeof *on_demand);
    for (size_t m = 0; m < count; m++) {
        on_demand[m] = advise->places[m].type->price;
    }
    eviction_open(&advise->eviction, &advise->markets, on_demand);
    eviction_advance(&advise->eviction, advise->now);
    eviction_table_open(&advise->table, &advise->eviction, EVICTION_CHOSEN, advise->now);
    free(on_demand);
}

static void advise_decide(struct advise *advise) {
    const struct profile *profile = &advise->profile;
    const struct portfolio portfolio = {
        .rules = advise->rules,
        .now = advise->now,
        .markets = advise->places,
        .market_count = advise->markets.count,
        .reference = advise->reliable,
        .reference_speed = type_speed_of(advise->speed_list, advise->speed_count, advise->reliable->type),
        .table = &advise->table,
        .by_regime = true,
        .interruptions = &advise->risks,
        .reliable = (unsigned)profile->reliable,
        .reliable_type = advise->reliable,
        .app = {.phi = profile->phi,
                .sigma = profile->sigma_seconds / HOUR,
                .lambda = profile->lambda_seconds / HOUR,
                .copies = {.spread = profile->reliable == 0,
                           .lost = (profile->checkpoint_seconds / 2 + profile->lambda_seconds) / HOUR,
                           .copied = profile->lambda_seconds / HOUR,
                           .replaced = (profile->lambda_seconds + ADVISE_BOOT_S) / HOUR}},
        .limits = {.most_machines = (double)profile->most_machines,
                   .most_vcpus = profile->most_vcpus,
                   .most_dollars_per_hour = profile->most_dollars_per_hour,
                   .least_markets = (unsigned)profile->least_markets},
        .additions = {.joint = !advise->greedy},
        .money = INFINITY,
        .renewed_rate = INFINITY,
        .most_at_once = UINT_MAX};
    uint64_t began_us = monotonic_us();
    portfolio_decide(&portfolio, &advise->plan);
    advise->decision_us = monotonic_us() - began_us;
    advise->offers = memory_zeroed(advise->markets.count, sizeof *advise->offers);
    advise->view = portfolio_view(&portfolio, advise->offers, NULL);
}

/* ---- Printing ---- */

static int advice_compare(const void *a, const void *b) {
    const struct advice *x = a;
    const struct advice *y = b;
    return x->cost_per_work < y->cost_per_work ? -1 : x->cost_per_work > y->cost_per_work;
}

static size_t advise_candidates(const struct advise *advise, struct advice *best) {
    const struct policy_view *view = &advise->view;
    size_t count = 0;
    for (size_t m = 0; m < view->offer_count; m++) {
        const struct policy_offer *offer = &view->offers[m];
        double machines = floor(fmin(view->limits.most_vcpus / offer->vcpus, view->limits.most_machines));
        struct advice advice = {.market = m, .cost_per_work = INFINITY};
        for (unsigned d = 0; d < offer->deltas && offer->P <= offer->ceiling && machines >= 1; d++) {
            const struct policy_allocation x[2] = {view->on_demand, policy_candidate(offer, d, machines)};
            double e = policy_cost_per_work(x, 2, &view->app, true);
            if (e < advice.cost_per_work) {
                advice = (struct advice){.market = m,
                                         .delta = d,
                                         .count = machines,
                                         .cost = policy_cost(&x[0]) + policy_cost(&x[1]),
                                         .work = policy_work(x, 2, &view->app, true),
                                         .cost_per_work = e};
            }
        }
        if (!isinf(advice.cost_per_work)) {
            best[count++] = advice;
        }
    }
    if (count > 1) {
        qsort(best, count, sizeof *best, advice_compare);
    }
    return count;
}

/* Computes the decision's expected price per work, and the vCPUs that it buys with their work per hour. */
static void advise_expect(const struct advise *advise, double *cost_per_work, double *vcpus, double *work) {
    *cost_per_work = INFINITY;
    *vcpus = *work = 0;
    for (size_t b = 0; b < advise->plan.buy_count; b++) {
        *cost_per_work = advise->plan.buys[b].cost_per_work;
        *vcpus += advise->plan.buys[b].count * advise->offers[advise->plan.buys[b].market].vcpus;
        *work += advise->plan.buys[b].count * advise->offers[advise->plan.buys[b].market].nu;
    }
}

static void print_text(const struct advise *advise, const struct advice *best, size_t count) {
    char name[MARKET_NAME_MAX];
    char time[INSTANT_TEXT_MAX];
    double e;
    double vcpus;
    double work;
    instant_format(advise->now, time);
    printf("%s, %zu markets at %s\n\n", advise->rules->name, advise->markets.count, time);
    printf("best bid of each market, with %" PRId64 " x %s on demand:\n", advise->profile.reliable,
           advise->profile.reliable_type);
    printf("  %-28s %5s %9s %9s %7s %7s %9s %9s %11s\n", "market", "k", "P", "bid delta", "beta", "omega", "C_A $",
           "W_A", "E_A $/vCPUh");
    for (size_t i = 0; i < count && i < ADVICE_TOP; i++) {
        const struct advice *x = &best[i];
        const struct policy_offer *offer = &advise->offers[x->market];
        market_name(advise->markets.list[x->market], name);
        printf("  %-28s %5.0f %9.4f %9.4f %7.3f %7.3f %9.3f %9.1f %11.6f\n", name, x->count, offer->P,
               offer->delta[x->delta], offer->beta[x->delta],
               policy_omega(offer->beta[x->delta], offer->median[x->delta], 1), x->cost, x->work, x->cost_per_work);
    }
    printf("\nbuy:\n");
    for (size_t b = 0; b < advise->plan.buy_count; b++) {
        const struct portfolio_buy *buy = &advise->plan.buys[b];
        market_name(advise->markets.list[buy->market], name);
        printf("  %u x %s, bid $%.4f (price $%.4f): E_A $%.6f per vCPU-hour with it\n", buy->count, name,
               price_dollars(buy->bid), buy->price, buy->cost_per_work);
    }
    advise_expect(advise, &e, &vcpus, &work);
    if (advise->plan.buy_count == 0) {
        printf("  nothing: no candidate within the limits is expected to do work\n");
        return;
    }
    printf("\nexpected: $%.2f for %.6g vCPU-hours in about %.2f h on %.0f vCPUs; decided in %.2f ms\n",
           e * advise->profile.work_vcpu_hours, advise->profile.work_vcpu_hours,
           advise->profile.work_vcpu_hours / (work * advise->profile.phi), vcpus, (double)advise->decision_us / 1e3);
}

static void print_json(const struct advise *advise, const struct advice *best, size_t count) {
    char name[MARKET_NAME_MAX];
    char time[INSTANT_TEXT_MAX];
    double e;
    double vcpus;
    double work;
    json_t *candidates = json_array();
    json_t *actions = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct policy_offer *offer = &advise->offers[best[i].market];
        market_name(advise->markets.list[best[i].market], name);
        json_array_append_new(
            candidates,
            json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "market", name, "count", best[i].count, "price",
                      offer->P, "bid_delta", offer->delta[best[i].delta], "beta", offer->beta[best[i].delta], "omega",
                      policy_omega(offer->beta[best[i].delta], offer->median[best[i].delta], 1), "cost", best[i].cost,
                      "work", best[i].work, "cost_per_work", best[i].cost_per_work));
    }
    for (size_t b = 0; b < advise->plan.buy_count; b++) {
        const struct portfolio_buy *buy = &advise->plan.buys[b];
        market_name(advise->markets.list[buy->market], name);
        json_array_append_new(actions, json_pack("{s:s,s:s,s:f,s:f,s:f,s:f}", "action", "acquire", "market", name,
                                                 "count", (double)buy->count, "bid", price_dollars(buy->bid), "price",
                                                 buy->price, "cost_per_work", buy->cost_per_work));
    }
    advise_expect(advise, &e, &vcpus, &work);
    instant_format(advise->now, time);
    json_t *root = json_pack("{s:s,s:s,s:o,s:o,s:o,s:f,s:f,s:f}", "time", time, "model", advise->rules->name,
                             "candidates", candidates, "actions", actions, "expected_cost",
                             advise->plan.buy_count > 0 ? json_real(e * advise->profile.work_vcpu_hours) : json_null(),
                             "vcpus", vcpus, "work_per_hour", work, "decision_ms", (double)advise->decision_us / 1e3);
    json_dumpf(root, stdout, JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
}

static int advise_all(struct advise *advise, struct error *error) {
    int code = advise_markets(advise, error);
    code = code != 0 ? code : interruptions_open(&advise->risks, advise->interruptions, &advise->markets, error);
    if (code != 0) {
        return code;
    }
    advise_learn(advise);
    advise_decide(advise);
    struct advice *best = memory_zeroed(advise->markets.count, sizeof *best);
    size_t count = advise_candidates(advise, best);
    if (advise->json) {
        print_json(advise, best, count);
    } else {
        print_text(advise, best, count);
    }
    free(best);
    free(advise->offers);
    eviction_table_close(&advise->table);
    eviction_close(&advise->eviction);
    interruptions_close(&advise->risks);
    return 0;
}

static int advise(struct advise *advise, struct error *error) {
    if (advise->app == NULL) {
        return error_set(error, AML_EINPUT, "--app FILE is missing: the application's profile");
    }
    int code = market_rules_read(&advise->rules, "model", advise->model_name, error);
    if (code != 0) {
        return code;
    }
    if (advise->rules->bids && strcmp(advise->interruptions, "none") != 0) {
        return error_set(error, AML_EINPUT,
                         "--interruptions: works with --model ec2 only; with ec2-2016 prices decide evictions");
    }
    code = profile_read(&advise->profile, advise->app, error);
    if (code == 0 && advise->speeds != NULL) {
        code = command_speeds(advise->speeds, &advise->speed_list, &advise->speed_count, error);
    }
    code = code != 0 ? code
                     : command_prices(advise->prices, advise->product, advise->catalog, advise->rules->year,
                                      &advise->markets, &advise->known, error);
    if (code != 0) {
        return code;
    }
    code = advise_all(advise, error);
    free(advise->places);
    markets_close(&advise->markets);
    catalog_close(&advise->known);
    return code;
}

int command_advise(int argc, char **argv) {
    struct advise a = {.product = MARKET_PRODUCT, .model_name = "ec2-2016", .interruptions = "none"};
    const struct aml_option options[] = {
        {"prices", "PATH", AML_OPTION_STRING, &a.prices, 0, 0,
         "history of spot prices: a file, a folder, a store (.db)"},
        {"app", "FILE", AML_OPTION_STRING, &a.app, 0, 0, "the application's profile, JSON, see docs/bidbrain.md"},
        {"at", "TIME", AML_OPTION_STRING, &a.at, 0, 0, "as of this moment (not given: the newest price)"},
        {"model", "MODEL", AML_OPTION_STRING, &a.model_name, 0, 0, "market model: ec2-2016 or ec2"},
        {"zone", "ZONE", AML_OPTION_STRING, &a.zone, 0, 0, "only markets whose zone begins with this"},
        {"product", "TEXT", AML_OPTION_STRING, &a.product, 0, 0, "product description"},
        {"catalog", "FILE", AML_OPTION_STRING, &a.catalog, 0, 0, "JSON of more instance types, see docs/bidbrain.md"},
        {"interruptions", "SPEC", AML_OPTION_STRING, &a.interruptions, 0, 0,
         "for ec2: none, advisor:FILE, lifetimes:FILE, replay:PATH"},
        {"speeds", "FILE", AML_OPTION_STRING, &a.speeds, 0, 0,
         "JSON of measured speeds of types' vCPUs, {\"m1.large\": 0.5}; others count by their vCPUs"},
        {"greedy", NULL, AML_OPTION_FLAG, &a.greedy, 0, 0,
         "one acquisition, as the paper; else several chosen jointly"},
        {"json", NULL, AML_OPTION_FLAG, &a.json, 0, 0, "print JSON"},
        {"help", NULL, AML_OPTION_FLAG, &a.help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code =
        command_options(options, "usage: bidbrain advise --prices PATH --app FILE [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    code = code != 0 ? code : advise(&a, &error);
    free(a.speed_list);
    return command_end(code, &error);
}
