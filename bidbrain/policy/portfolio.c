/* See portfolio.h. */
#include "bidbrain/policy/portfolio.h"

#include "agileml/base/memory.h"
#include "bidbrain/policy/speeds.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_SLACK 1e-9 /* relative; allows for rounding in sums of prices */

int portfolio_markets(struct portfolio_market **list, const struct markets *markets, const struct catalog *catalog,
                      struct error *error) {
    char first[MARKET_TEXT_MAX];
    char region[MARKET_TEXT_MAX];
    *list = memory_zeroed(markets->count + 1, sizeof **list);
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        market_region(market->zone, m == 0 ? first : region);
        if (m > 0 && strcmp(region, first) != 0) {
            return error_set(error, AML_EINPUT,
                             "prices of several regions, %s and %s: expected one, chosen with --zone", first, region);
        }
        (*list)[m] = (struct portfolio_market){.prices = market, .type = catalog_find(catalog, market->type, first)};
        memcpy((*list)[m].zone, market->zone, sizeof market->zone);
    }
    return 0;
}

/* ---- Offers ---- */

static bool is_on_demand(const struct portfolio *p, size_t m) {
    return p->markets[m].prices == NULL;
}

int64_t portfolio_price(const struct portfolio *p, size_t m) {
    const struct portfolio_market *market = &p->markets[m];
    return market->prices != NULL ? market_price(market->prices, p->now) : market->type->price;
}

static double speed_or_one(double speed) {
    return speed > 0 ? speed : 1;
}

double portfolio_nu(const struct portfolio_market *market) {
    return market->type->vcpus * speed_or_one(market->speed);
}

/* Returns the most that a machine may cost: its on-demand price, but per work not more than the reference machines on
 * demand. Without this ceiling an idle footprint, whose cost per work is infinite, would pay any price. */
static int64_t ceiling_of(const struct portfolio *p, const struct portfolio_market *market) {
    double work = p->reference->vcpus * speed_or_one(p->reference_speed);
    int64_t alike = (int64_t)((double)p->reference->price * portfolio_nu(market) / work);
    return market->type->price < alike ? market->type->price : alike;
}

static unsigned regime_of(const struct portfolio *p, size_t m) {
    const struct portfolio_market *market = &p->markets[m];
    return p->by_regime ? eviction_regime(market->prices, market->type->price, p->now) : EVICTION_ANY;
}

/* Fills in a candidate for each bid delta of the grid. */
static void offer_bids(const struct portfolio *p, size_t m, struct policy_offer *offer) {
    unsigned regime = regime_of(p, m);
    offer->deltas = EVICTION_DELTAS;
    for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
        struct eviction_estimate estimate = eviction_estimate(p->table, m, regime, EVICTION_DELTA[d], HOUR);
        offer->delta[d] = price_dollars(EVICTION_DELTA[d]);
        offer->beta[d] = estimate.probability;
        offer->median[d] = estimate.median / HOUR;
    }
}

struct policy_offer portfolio_offer(const struct portfolio *p, size_t m) {
    const struct portfolio_market *market = &p->markets[m];
    const struct catalog_price *type = market->type;
    int64_t price = portfolio_price(p, m);
    struct policy_offer offer = {.nu = portfolio_nu(market), .vcpus = type->vcpus, .on_demand = is_on_demand(p, m)};
    if (price == PRICE_UNKNOWN) {
        return offer;
    }
    offer.P = price_dollars(price);
    if (offer.on_demand) {
        offer.ceiling = offer.P;
        offer.deltas = 1;
        return offer;
    }
    offer.ceiling = price_dollars(ceiling_of(p, market));
    offer.open = p->now >= market->closed_until;
    if (p->rules->bids) {
        offer_bids(p, m, &offer);
    } else { /* one candidate, capped at the on-demand price */
        offer.deltas = 1;
        offer.delta[0] = price_dollars(type->price - price);
        offer.beta[0] = interruption_probability(p->interruptions, m, 0, 1);
        offer.median[0] = 0.5;
    }
    return offer;
}

/* Returns the market that stands for the group: the market itself if spot, else the spot market of the same type and
 * zone. */
static size_t group_of(const struct portfolio *p, size_t m) {
    for (size_t spot = 0; is_on_demand(p, m) && spot < p->market_count; spot++) {
        if (strcmp(p->markets[spot].type->type, p->markets[m].type->type) == 0 &&
            strcmp(p->markets[spot].zone, p->markets[m].zone) == 0) {
            return spot;
        }
    }
    return m;
}

static void find_offers(const struct portfolio *p, struct policy_offer *offers) {
    size_t open = 0;
    for (size_t m = 0; m < p->market_count; m++) {
        offers[m] = portfolio_offer(p, m);
        offers[m].group = group_of(p, m);
        open += offers[m].open && offers[m].P <= offers[m].ceiling;
    }
    bool any = open >= (p->app.copies.spread ? POLICY_GROUPS_LEAST : 1);
    bool late = p->fallback != FALLBACK_NEVER && p->end.work > 0 && isfinite(p->end.deadline);
    bool wanted = late || (p->fallback == FALLBACK_ALWAYS && !any);
    for (size_t m = 0; m < p->market_count; m++) {
        if (is_on_demand(p, m)) {
            offers[m].open = wanted && p->now >= p->markets[m].closed_until;
        }
    }
}

/* ---- Holdings ---- */

/* Returns a holding as an allocation for the next `seconds` at `price`. */
static struct policy_allocation expected(const struct portfolio *p, const struct portfolio_holding *holding,
                                         int64_t price, int64_t seconds) {
    size_t m = holding->market;
    struct policy_allocation x = {.k = holding->count,
                                  .P = price_dollars(price),
                                  .t_r = (double)seconds / HOUR,
                                  .nu = portfolio_nu(&p->markets[m])};
    double median = x.t_r / 2;
    if (!is_on_demand(p, m) && p->rules->bids) {
        int64_t delta = holding->bid - portfolio_price(p, m);
        struct eviction_estimate estimate = eviction_estimate(p->table, m, regime_of(p, m), delta, seconds);
        x.beta = estimate.probability;
        median = estimate.median / HOUR;
        x.refund = p->rules->later_hours_free;
    } else if (!is_on_demand(p, m)) {
        double age = (double)(p->now - holding->start) / HOUR;
        x.beta = interruption_probability(p->interruptions, m, fmax(0, age), x.t_r);
    }
    x.omega = policy_omega(x.beta, median, x.t_r);
    return x;
}

bool portfolio_expires(const struct portfolio *p, int64_t start) {
    int64_t left = billing_hour_end(start, p->now) - p->now;
    return left <= p->lead && left > p->late;
}

static struct policy_held held_of(const struct portfolio *p, const struct portfolio_holding *holding) {
    const struct portfolio_market *market = &p->markets[holding->market];
    int64_t end = billing_hour_end(holding->start, p->now);
    int64_t price = portfolio_price(p, holding->market);
    struct policy_held held = {.market = holding->market, .expiring = portfolio_expires(p, holding->start)};
    if (p->rules->whole_hours) {
        int64_t paid = market->prices != NULL ? market_price(market->prices, end - HOUR) : price;
        held.now = expected(p, holding, paid != PRICE_UNKNOWN ? paid : price, end - p->now);
    } else { /* paid by the second: looks one hour ahead */
        held.expiring = held.expiring || (p->review_on_demand && market->prices == NULL);
        held.now = expected(p, holding, price, HOUR);
    }
    if (held.expiring) {
        held.renewed = expected(p, holding, price, HOUR);
    }
    return held;
}

/* Counts the coming machines in their markets' offers. */
static void note_coming(const struct portfolio *p, struct policy_view *view, struct policy_offer *offers) {
    for (size_t c = 0; c < p->coming_count; c++) {
        const struct portfolio_holding *coming = &p->coming[c];
        double beta = expected(p, coming, portfolio_price(p, coming->market), HOUR).beta;
        offers[coming->market].coming += coming->count;
        offers[coming->market].coming_beta = fmax(offers[coming->market].coming_beta, beta);
    }
    view->limits.least_vcpus = portfolio_least_vcpus(p);
    view->limits.coming_machines = p->pending.machines;
    view->limits.coming_vcpus = p->pending.vcpus;
    view->limits.coming_dollars_per_hour = p->pending.dollars;
}

/* At the end of the job, counts coming machines as held, as if their first hour began now: they may be all that the job
 * still needs. */
static void count_coming(const struct portfolio *p, struct policy_view *view, struct policy_offer *offers,
                         struct policy_held *held) {
    for (size_t c = 0; c < p->coming_count && view->held_count < POLICY_HELD_MAX; c++) {
        const struct portfolio_holding *coming = &p->coming[c];
        held[view->held_count++] =
            (struct policy_held){.market = coming->market,
                                 .coming = true,
                                 .now = expected(p, coming, portfolio_price(p, coming->market), HOUR)};
        offers[coming->market].held += coming->count;
    }
}

struct policy_view portfolio_view(const struct portfolio *p, struct policy_offer *offers,
                                  struct policy_held held[POLICY_HELD_MAX]) {
    assert(p->held_count <= POLICY_HELD_MAX);
    find_offers(p, offers);
    for (size_t h = 0; h < p->held_count; h++) {
        held[h] = held_of(p, &p->held[h]);
        offers[held[h].market].held += p->held[h].count;
    }
    struct policy_view view = {
        .app = p->app,
        .end = p->end,
        .limits = p->limits,
        .additions = p->additions,
        .on_demand = {.k = p->reliable, .P = price_dollars(p->reliable_type->price), .omega = 1, .t_r = 1},
        .held = held,
        .held_count = p->held_count,
        .offers = offers,
        .offer_count = p->market_count,
        .correlated = p->correlated,
        .context = p->context};
    if (policy_is_end(&view)) {
        count_coming(p, &view, offers, held);
    } else {
        note_coming(p, &view, offers);
    }
    return view;
}

/* ---- Decisions ---- */

/* The money and the rate that are left while actions are carried out. */
struct purse {
    double money; /* micro-dollars left */
    double rate;  /* dollars per hour of all held and coming machines, at the prices of their paid hours */
};

static void buy(const struct portfolio *p, const struct policy_view *view, const struct policy_action *action,
                struct purse *purse, struct portfolio_plan *plan) {
    const struct policy_offer *offer = &view->offers[action->index];
    double price = offer->P * (double)PRICE_DOLLAR;
    double count = fmin(action->count, p->most_at_once);
    double money = p->app.copies.spread ? fmin(purse->money, p->money / POLICY_GROUPS_LEAST) : purse->money;
    if (count * price > money) {
        plan->over_budget = true;
        count = floor(fmax(0, money) / price);
    }
    if (count < 1 || view->held_count + plan->buy_count >= POLICY_HELD_MAX) {
        return;
    }
    purse->money -= count * price;
    double bid = (offer->P + offer->delta[action->delta]) * (double)PRICE_DOLLAR;
    plan->buys[plan->buy_count++] = (struct portfolio_buy){.market = action->index,
                                                           .count = (unsigned)count,
                                                           .bid = offer->on_demand ? 0 : (int64_t)llround(bid),
                                                           .price = offer->P,
                                                           .cost_per_work = action->cost_per_work};
}

/* Renews `kept` machines of a holding whose hour ends, if money and rate allow it. */
static void renew(const struct portfolio *p, const struct policy_view *view, size_t h, unsigned kept,
                  struct purse *purse, struct portfolio_plan *plan) {
    const struct portfolio_holding *holding = &p->held[h];
    double price = (double)kept * (double)portfolio_price(p, holding->market);
    double rate = purse->rate + price_dollars((int64_t)price) - holding->count * view->held[h].now.P;
    if (kept > 0 && rate > p->renewed_rate * (1 + RATE_SLACK)) {
        kept = 0; /* the price has risen since the last hour was paid */
    } else if (kept > 0) {
        purse->rate = rate;
    }
    if (kept > 0 && p->rules->whole_hours && price > purse->money) {
        plan->over_budget = true;
        kept = 0;
    } else if (kept > 0 && p->rules->whole_hours) {
        purse->money -= price;
    }
    plan->kept[h] = kept;
    plan->renewed += kept > 0;
    plan->released += kept < holding->count;
}

/* ---- Probes ---- */

static bool is_type(const struct portfolio *p, size_t m, const struct catalog_price *type) {
    return strcmp(p->markets[m].type->type, type->type) == 0;
}

/* Whether machines of the type are held, coming, or about to be bought. */
static bool is_here(const struct portfolio *p, const struct portfolio_plan *plan, const struct catalog_price *type) {
    bool here = false;
    for (size_t h = 0; h < p->held_count; h++) {
        here = here || (is_type(p, p->held[h].market, type) && plan->kept[h] > 0);
    }
    for (size_t c = 0; c < p->coming_count; c++) {
        here = here || is_type(p, p->coming[c].market, type);
    }
    for (size_t b = 0; b < plan->buy_count; b++) {
        here = here || is_type(p, plan->buys[b].market, type);
    }
    return here;
}

/* Returns the price of work if the market's type had the highest speed that counts. */
static double best_case(const struct policy_offer *offer) {
    return offer->P / (offer->vcpus * SPEEDS_HIGHEST);
}

/* Returns how many machines of `main` have at least as many vCPUs, and cost at least as much, as one machine of the
 * offer. */
static double machines_instead(const struct policy_offer *main, const struct policy_offer *offer) {
    return ceil(fmax(offer->vcpus / main->vcpus, offer->P / main->P));
}

/* Returns the market whose type was never measured and may do work for the least money. It must be cheaper than `main`,
 * and replace at most `spare` machines of `main`. SIZE_MAX: there is none. */
static size_t find_probe(const struct portfolio *p, const struct policy_view *view, const struct portfolio_plan *plan,
                         const struct policy_offer *main, double spare) {
    size_t best = SIZE_MAX;
    double bound = main->P / main->nu;
    for (size_t m = 0; m < p->market_count; m++) {
        const struct policy_offer *offer = &view->offers[m];
        bool wanted = p->markets[m].speed <= 0 && !offer->on_demand && offer->open && offer->P <= offer->ceiling;
        bool fits = wanted && machines_instead(main, offer) <= spare;
        if (fits && best_case(offer) < bound && !is_here(p, plan, p->markets[m].type)) {
            best = m;
            bound = best_case(offer);
        }
    }
    return best;
}

/* Buys one machine each of some types that were never measured, in place of machines of the largest purchase. Thus no
 * limit is passed, and the footprint changes only once. */
static void buy_probes(const struct portfolio *p, const struct policy_view *view, struct purse *purse,
                       struct portfolio_plan *plan) {
    struct portfolio_buy *largest = NULL;
    double vcpus = 0;
    for (size_t b = 0; b < plan->buy_count; b++) {
        double size = plan->buys[b].count * view->offers[plan->buys[b].market].vcpus;
        largest = size > vcpus ? &plan->buys[b] : largest;
        vcpus = fmax(vcpus, size);
    }
    if (largest == NULL || plan->hours_left < PORTFOLIO_PROBES_HOURS) {
        return;
    }
    const struct policy_offer *main = &view->offers[largest->market];
    double spare = floor((double)largest->count / PORTFOLIO_PROBES_SHARE);
    for (unsigned n = 0; n < p->probes && view->held_count + plan->buy_count < POLICY_HELD_MAX; n++) {
        size_t m = find_probe(p, view, plan, main, spare);
        if (m == SIZE_MAX) {
            return;
        }
        const struct policy_offer *offer = &view->offers[m];
        double instead = machines_instead(main, offer);
        spare -= instead;
        largest->count -= (unsigned)instead;
        purse->money += instead * main->P * (double)PRICE_DOLLAR;
        const struct policy_action probe = {.kind = POLICY_ACQUIRE,
                                            .index = m,
                                            .delta = offer->deltas - 1, /* the least likely to be evicted */
                                            .count = 1,
                                            .cost_per_work = largest->cost_per_work};
        size_t before = plan->buy_count;
        buy(p, view, &probe, purse, plan);
        plan->buys[before].probe = plan->buy_count > before;
    }
}

void portfolio_decide(const struct portfolio *p, struct portfolio_plan *plan) {
    struct policy_held held[POLICY_HELD_MAX];
    struct policy_action actions[POLICY_ACTIONS_MAX];
    struct policy_offer *offers = memory_zeroed(p->market_count + 1, sizeof *offers);
    struct policy_view view = portfolio_view(p, offers, held);
    struct purse purse = {.money = p->money, .rate = view.on_demand.k * view.on_demand.P + p->pending.dollars};
    *plan = (struct portfolio_plan){.hours_left = INFINITY};
    for (size_t h = 0; h < p->held_count; h++) {
        plan->kept[h] = p->held[h].count;
        purse.rate += p->held[h].count * held[h].now.P;
    }
    size_t count = policy_decide(&view, actions, &plan->cost_per_work);
    for (size_t a = 0; a < count; a++) {
        const struct policy_action *action = &actions[a];
        if (action->kind == POLICY_ACQUIRE) {
            buy(p, &view, action, &purse, plan);
        } else {
            renew(p, &view, action->index, action->kind == POLICY_RENEW ? (unsigned)action->count : 0, &purse, plan);
        }
    }
    if (p->end.work > 0) {
        plan->hours_left = policy_hours_left(&view, actions, count);
    }
    buy_probes(p, &view, &purse, plan);
    free(offers);
}
