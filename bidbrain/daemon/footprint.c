/* See footprint.h. */
#include "bidbrain/daemon/footprint.h"

#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "bidbrain/offer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FOOTPRINT_LEAST_SHARE = 32, /* of most_work: a smaller allocation is not worth a change (as in the cost study) */
    FOOTPRINT_LATE_SHARE = 4,   /* of the lead: an hour that ends sooner is left to its renewal */
};

#define FOOTPRINT_RATE_SLACK 1e-9 /* sums of prices are rounded */

/* Machines of one launch that run and stay. */
struct group {
    const char *token;
    size_t market;
    unsigned count;
    int64_t launched, bid;
};

struct groups {
    struct group list[POLICY_HELD_MAX];
    size_t count;
    struct group coming[POLICY_HELD_MAX]; /* what is pending, as far as there is room and a price */
    size_t coming_count;
    double pending_work, pending_machines, pending_dollars;
};

size_t footprint_find(const struct footprint *f, enum provider_kind kind, const char *type, const char *zone) {
    for (size_t m = 0; m < f->market_count; m++) {
        const struct footprint_market *market = &f->markets[m];
        if (market->kind == kind && strcmp(market->price->type, type) == 0 && strcmp(market->zone, zone) == 0) {
            return m;
        }
    }
    return MARKET_NONE;
}

static int64_t market_now(const struct footprint *f, size_t m) {
    const struct footprint_market *market = &f->markets[m];
    return market->kind == PROVIDER_SPOT ? market_price(market->prices, f->now) : market->price->price;
}

static double vcpus_of(const struct footprint *f, size_t m) {
    return f->markets[m].price->vcpus;
}

int64_t footprint_hour_end(const struct ledger_machine *machine, int64_t now) {
    int64_t start = machine->machine.launched;
    return start > now ? start + HOUR : start + ((now - start) / HOUR + 1) * HOUR;
}

/* ---- Bills ---- */

static int64_t machine_end(const struct footprint *f, const struct ledger_machine *machine) {
    int64_t end = machine->ended != 0 ? machine->ended : f->now;
    return end > machine->machine.launched ? end : machine->machine.launched;
}

/* A machine on demand costs what the catalog says of its type, whatever the zone. */
static int64_t on_demand_price(const struct footprint *f, const struct ledger_machine *machine) {
    if (machine->reliable) {
        return f->reliable_price->price;
    }
    for (size_t m = 0; m < f->market_count; m++) {
        if (strcmp(f->markets[m].price->type, machine->machine.type) == 0) {
            return f->markets[m].price->price;
        }
    }
    return 0;
}

struct bill footprint_bill(const struct footprint *f, const struct ledger_machine *machine) {
    int64_t start = machine->machine.launched;
    enum billing_end how = machine->how == LEDGER_EVICTED ? BILLING_EVICTED : BILLING_RELEASED;
    if (start == 0 || (machine->running == 0 && machine->ended == 0)) {
        return (struct bill){0};
    }
    if (machine->machine.kind == PROVIDER_ON_DEMAND) {
        return billing_on_demand(f->rules, on_demand_price(f, machine), start, machine_end(f, machine),
                                 BILLING_RELEASED);
    }
    size_t m = footprint_find(f, PROVIDER_SPOT, machine->machine.type, machine->machine.zone);
    if (m != MARKET_NONE && market_price(f->markets[m].prices, start) != PRICE_UNKNOWN) {
        return billing_spot(f->rules, f->markets[m].prices, start, machine_end(f, machine), how);
    }
    /* No prices of it: at its bid, which it can't have cost more than. */
    return billing_on_demand(f->rules, machine->bid, start, machine_end(f, machine), BILLING_RELEASED);
}

int64_t footprint_on_demand(const struct footprint *f, const struct ledger_machine *machine) {
    int64_t start = machine->machine.launched;
    if (start == 0 || (machine->running == 0 && machine->ended == 0)) {
        return 0;
    }
    return billing_on_demand(&MARKET_EC2, on_demand_price(f, machine), start, machine_end(f, machine), BILLING_RELEASED)
        .amount;
}

struct footprint_spend footprint_spend(const struct footprint *f) {
    struct footprint_spend spend = {0};
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct ledger_machine *machine = &f->machines[i];
        bill_add(machine->machine.kind == PROVIDER_SPOT ? &spend.spot : &spend.on_demand, footprint_bill(f, machine),
                 1);
        spend.alike += footprint_on_demand(f, machine);
        spend.evictions += machine->how == LEDGER_EVICTED;
    }
    return spend;
}

/* ---- What is held ---- */

static bool machine_leaves(const struct ledger_machine *machine) {
    return machine->ended != 0 || machine->release_at != 0 || machine->machine.noticed || machine->machine.evicted ||
           machine->machine.state == MACHINE_STOPPING || machine->machine.state == MACHINE_GONE;
}

static void add_pending(const struct footprint *f, struct groups *groups, size_t market, unsigned count, int64_t bid) {
    int64_t price = market_now(f, market);
    if (groups->coming_count < POLICY_HELD_MAX && price != PRICE_UNKNOWN) {
        groups->coming[groups->coming_count++] =
            (struct group){.token = "", .market = market, .count = count, .launched = f->now, .bid = bid};
    }
    groups->pending_machines += count;
    groups->pending_work += count * vcpus_of(f, market);
    groups->pending_dollars += count * (price != PRICE_UNKNOWN ? price_dollars(price) : 0);
}

static void add_running(const struct footprint *f, struct groups *groups, const struct ledger_machine *machine,
                        size_t market) {
    for (size_t g = 0; g < groups->count; g++) {
        struct group *group = &groups->list[g];
        if (strcmp(group->token, machine->machine.token) == 0) {
            group->count++;
            group->launched = machine->machine.launched < group->launched ? machine->machine.launched : group->launched;
            return;
        }
    }
    if (groups->count == POLICY_HELD_MAX) { /* no more are bought then, see decide_buys */
        add_pending(f, groups, market, 1, machine->bid);
        return;
    }
    groups->list[groups->count++] = (struct group){.token = machine->machine.token,
                                                   .market = market,
                                                   .count = 1,
                                                   .launched = machine->machine.launched,
                                                   .bid = machine->bid};
}

/* Of a launch without its last answer: what it may still bring. */
static unsigned launch_pending(const struct footprint *f, const struct ledger_launch *launch) {
    unsigned known = 0;
    if (launch->stage > LEDGER_WAITING) {
        return 0;
    }
    for (size_t i = 0; i < f->machine_count; i++) {
        known += strcmp(f->machines[i].machine.token, launch->launch.token) == 0;
    }
    return known < launch->launch.count ? launch->launch.count - known : 0;
}

static void find_groups(const struct footprint *f, struct groups *groups) {
    *groups = (struct groups){0};
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct ledger_machine *machine = &f->machines[i];
        const struct provider_machine *told = &machine->machine;
        size_t market = footprint_find(f, told->kind, told->type, told->zone);
        if (machine->reliable || machine_leaves(machine) || market == MARKET_NONE) {
            continue;
        }
        if (machine->running != 0) {
            add_running(f, groups, machine, market);
        } else {
            add_pending(f, groups, market, 1, machine->bid);
        }
    }
    for (size_t l = 0; l < f->launch_count; l++) {
        const struct provider_launch *launch = &f->launches[l].launch;
        unsigned count = launch->reliable ? 0 : launch_pending(f, &f->launches[l]);
        size_t market = count > 0 ? footprint_find(f, launch->kind, launch->type, launch->zone) : MARKET_NONE;
        if (market != MARKET_NONE) {
            add_pending(f, groups, market, count, launch->bid);
        }
    }
}

/* ---- The policy's view ---- */

/* A group for `seconds` more at `price`. */
static struct policy_allocation expected(const struct footprint *f, const struct group *group, int64_t price,
                                         int64_t seconds) {
    const struct footprint_market *market = &f->markets[group->market];
    struct policy_allocation x = {
        .k = group->count, .P = price_dollars(price), .t_r = (double)seconds / HOUR, .nu = vcpus_of(f, group->market)};
    double median = x.t_r / 2;
    if (market->kind == PROVIDER_SPOT && !f->rules->bids) {
        double age = (double)(f->now - group->launched) / HOUR;
        x.beta = interruption_probability(f->interruptions, group->market, fmax(0, age), x.t_r);
    } else if (market->kind == PROVIDER_SPOT) {
        unsigned regime = eviction_regime(market->prices, market->price->price, f->now);
        int64_t delta = group->bid - market_now(f, group->market);
        struct eviction_estimate estimate = eviction_estimate(f->table, group->market, regime, delta, seconds);
        x.beta = estimate.probability;
        median = estimate.median / HOUR;
        x.refund = true;
    }
    x.omega = policy_omega(x.beta, median, x.t_r);
    return x;
}

static int64_t group_hour_end(const struct footprint *f, const struct group *group) {
    struct ledger_machine machine = {.machine = {.launched = group->launched}};
    return footprint_hour_end(&machine, f->now);
}

static bool pays_by_the_hour(const struct footprint *f) {
    return f->rules->whole_hours;
}

static struct policy_held held_of(const struct footprint *f, const struct group *group) {
    int64_t end = group_hour_end(f, group);
    int64_t left = end - f->now;
    int64_t price = market_now(f, group->market);
    const struct footprint_market *market = &f->markets[group->market];
    struct policy_held held = {.market = group->market,
                               .expiring = left <= f->lead && left > f->lead / FOOTPRINT_LATE_SHARE};
    if (!pays_by_the_hour(f)) { /* the hour ahead counts */
        held.expiring = held.expiring || market->kind == PROVIDER_ON_DEMAND;
        held.now = expected(f, group, price, HOUR);
    } else {
        int64_t paid = market->kind == PROVIDER_SPOT ? market_price(market->prices, end - HOUR) : price;
        held.now = expected(f, group, paid != PRICE_UNKNOWN ? paid : price, left);
    }
    if (held.expiring) {
        held.renewed = expected(f, group, price, HOUR);
    }
    return held;
}

static struct policy_offer offer_of(const struct footprint *f, size_t m) {
    const struct footprint_market *market = &f->markets[m];
    double vcpus = vcpus_of(f, m);
    int64_t on_demand = market->price->price;
    int64_t price = market_now(f, m);
    struct policy_offer offer = {.nu = vcpus};
    if (market->kind == PROVIDER_ON_DEMAND) {
        offer = (struct policy_offer){.P = price_dollars(on_demand),
                                      .ceiling = price_dollars(on_demand),
                                      .nu = vcpus,
                                      .deltas = 1,
                                      .on_demand = true};
        offer.median[0] = 0.5;
        return offer; /* opened when nothing else is open */
    }
    if (price == PRICE_UNKNOWN) {
        return offer;
    }
    int64_t ceiling = offer_ceiling(on_demand, vcpus, f->reliable_price);
    if (!f->rules->bids) {
        offer = offer_of_today(f->interruptions, m, price, on_demand, ceiling, vcpus);
    } else {
        unsigned regime = eviction_regime(market->prices, on_demand, f->now);
        offer = offer_of_2016(f->table, m, regime, price, ceiling, vcpus);
    }
    offer.open = f->now >= market->closed_until;
    return offer;
}

static void find_offers(const struct footprint *f, struct policy_offer *offers) {
    bool any = false;
    for (size_t m = 0; m < f->market_count; m++) {
        offers[m] = offer_of(f, m);
        any = any || (offers[m].open && offers[m].P <= offers[m].ceiling);
    }
    for (size_t m = 0; m < f->market_count; m++) {
        if (f->markets[m].kind == PROVIDER_ON_DEMAND) {
            bool wanted = !any || (f->end.work > 0 && isfinite(f->end.deadline));
            offers[m].open = f->fallback && wanted && f->now >= f->markets[m].closed_until;
        }
    }
}

static struct policy_allocation reliable_allocation(const struct footprint *f) {
    return (struct policy_allocation){
        .k = f->reliable, .P = price_dollars(f->reliable_price->price), .omega = 1, .t_r = 1};
}

/* ---- The budget ---- */

/* Micro-dollars that may still be bound; what runs is paid to the end of its hour (ec2-2016), or an hour ahead. */
static double budget_left(const struct footprint *f, const struct groups *groups) {
    if (f->budget_micro == INT64_MAX) {
        return INFINITY;
    }
    struct footprint_spend spend = footprint_spend(f);
    double left = (double)f->budget_micro - (double)(spend.spot.amount + spend.on_demand.amount) / HOUR;
    left -= (double)f->reliable * (double)f->reliable_price->price; /* their next hour */
    left -= groups->pending_dollars * (double)PRICE_DOLLAR;
    for (size_t g = 0; !pays_by_the_hour(f) && g < groups->count; g++) {
        left -= (double)groups->list[g].count * (double)market_now(f, groups->list[g].market);
    }
    return left;
}

/* By the second nothing ends by itself: everything transient goes while there is money for two more decisions and the
 * notice. */
static bool budget_reached(const struct footprint *f, const struct groups *groups) {
    if (f->budget_micro == INT64_MAX || pays_by_the_hour(f)) {
        return false;
    }
    struct footprint_spend spend = footprint_spend(f);
    double rate = (double)f->reliable * (double)f->reliable_price->price + groups->pending_dollars * PRICE_DOLLAR;
    for (size_t g = 0; g < groups->count; g++) {
        rate += (double)groups->list[g].count * (double)market_now(f, groups->list[g].market);
    }
    double seconds = (double)(2 * f->decision_seconds + f->notice_seconds);
    double spent = (double)(spend.spot.amount + spend.on_demand.amount) / HOUR;
    return spent + rate * seconds / HOUR >= (double)f->budget_micro;
}

unsigned footprint_reliable_room(const struct footprint *f, unsigned held, unsigned wanted) {
    struct groups groups;
    find_groups(f, &groups);
    struct footprint without = *f;
    without.reliable = held;
    double price = price_dollars(f->reliable_price->price);
    double rate = held * price + groups.pending_dollars;
    for (size_t g = 0; g < groups.count; g++) {
        rate += (double)groups.list[g].count * price_dollars(market_now(f, groups.list[g].market));
    }
    double dollars =
        fmin(f->limits.most_dollars_per_hour - rate, budget_left(&without, &groups) / (double)PRICE_DOLLAR);
    double room = floor(dollars / price + 1e-9);
    unsigned most = room < 1 ? 0 : room < wanted ? (unsigned)room : wanted;
    return held == 0 && most < wanted ? 0 : most;
}

/* ---- Decisions ---- */

/* Machines given back run to the end of the hour that is paid; by the second they leave at once. */
static void release_group(const struct footprint *f, const struct group *group, unsigned count, int64_t *release_at) {
    for (size_t i = 0; i < f->machine_count && count > 0; i++) {
        const struct ledger_machine *machine = &f->machines[i];
        if (machine->running != 0 && !machine_leaves(machine) && strcmp(machine->machine.token, group->token) == 0) {
            release_at[i] = pays_by_the_hour(f) ? footprint_hour_end(machine, f->now) : f->now + f->notice_seconds;
            count--;
        }
    }
}

/* Machines that an earlier configuration bought where this one wants none: no decision would ever be about them. */
static void release_unwanted(const struct footprint *f, struct footprint_plan *plan, int64_t *release_at) {
    for (size_t i = 0; i < f->machine_count && f->market_count > 0; i++) {
        const struct ledger_machine *machine = &f->machines[i];
        const struct provider_machine *told = &machine->machine;
        if (!machine->reliable && machine->running != 0 && !machine_leaves(machine) &&
            footprint_find(f, told->kind, told->type, told->zone) == MARKET_NONE) {
            release_at[i] = pays_by_the_hour(f) ? footprint_hour_end(machine, f->now) : f->now + f->notice_seconds;
            plan->released++;
        }
    }
}

static void decide_buy(const struct footprint *f, const struct policy_view *view, const struct policy_action *action,
                       double *left, struct footprint_plan *plan) {
    const struct policy_offer *offer = &view->offers[action->index];
    double price = offer->P * (double)PRICE_DOLLAR;
    double count = fmin(action->count, PROVIDER_COUNT_MAX);
    if (count * price > *left) {
        plan->over_budget = true;
        count = floor(fmax(0, *left) / price);
    }
    if (count < 1 || view->held_count + plan->buy_count >= POLICY_HELD_MAX) {
        return;
    }
    *left -= count * price;
    bool spot = f->markets[action->index].kind == PROVIDER_SPOT;
    double bid = (offer->P + offer->delta[action->delta]) * (double)PRICE_DOLLAR;
    plan->buys[plan->buy_count++] = (struct footprint_buy){.market = action->index,
                                                           .count = (unsigned)count,
                                                           .bid = spot ? (int64_t)llround(bid) : 0,
                                                           .price = offer->P,
                                                           .cost_per_work = action->cost_per_work};
}

/* Dollars an hour of all that is held and pending, at the prices of the hours that are paid. */
static double rate_now(const struct footprint *f, const struct groups *groups, const struct policy_view *view) {
    double rate = f->reliable * price_dollars(f->reliable_price->price) + groups->pending_dollars;
    for (size_t g = 0; g < groups->count; g++) {
        rate += groups->list[g].count * view->held[g].now.P;
    }
    return rate;
}

static void carry_out(const struct footprint *f, const struct groups *groups, const struct policy_view *view,
                      const struct policy_action *actions, size_t count, struct footprint_plan *plan,
                      int64_t *release_at) {
    double left = budget_left(f, groups);
    double rate = rate_now(f, groups, view);
    for (size_t a = 0; a < count; a++) {
        const struct policy_action *action = &actions[a];
        if (action->kind == POLICY_ACQUIRE) {
            decide_buy(f, view, action, &left, plan);
            continue;
        }
        const struct group *group = &groups->list[action->index];
        unsigned kept = action->kind == POLICY_RENEW ? (unsigned)action->count : 0;
        double price = (double)kept * (double)market_now(f, group->market);
        double renewed_rate = rate + price_dollars((int64_t)price) - group->count * view->held[action->index].now.P;
        if (kept > 0 && renewed_rate > f->limits.most_dollars_per_hour * (1 + FOOTPRINT_RATE_SLACK)) {
            kept = 0; /* its price has risen since it was bought */
        } else if (kept > 0) {
            rate = renewed_rate;
        }
        if (kept > 0 && pays_by_the_hour(f) && price > left) {
            plan->over_budget = true;
            kept = 0;
        } else if (kept > 0 && pays_by_the_hour(f)) {
            left -= price;
        }
        plan->renewed += kept > 0;
        plan->released += kept < group->count;
        release_group(f, group, group->count - kept, release_at);
    }
}

static struct policy_limits limits_left(const struct footprint *f, const struct groups *groups) {
    struct policy_limits limits = f->limits;
    limits.least_work = f->limits.most_work / FOOTPRINT_LEAST_SHARE;
    limits.most_machines = fmax(0, limits.most_machines - groups->pending_machines);
    limits.most_work = fmax(0, limits.most_work - groups->pending_work);
    limits.most_dollars_per_hour = fmax(0, limits.most_dollars_per_hour - groups->pending_dollars);
    return limits;
}

/* At the end of the job: adds pending machines to what is held, as if their first hour began now. They may be all that
 * the job still needs. */
static void count_coming(const struct footprint *f, const struct groups *groups, struct policy_view *view,
                         struct policy_held *held, struct policy_offer *offers) {
    view->limits = f->limits;
    for (size_t g = 0; g < groups->coming_count && view->held_count < POLICY_HELD_MAX; g++) {
        const struct group *group = &groups->coming[g];
        held[view->held_count] = (struct policy_held){.market = group->market,
                                                      .now = expected(f, group, market_now(f, group->market), HOUR)};
        offers[group->market].held += group->count;
        view->held_count++;
    }
}

void footprint_decide(const struct footprint *f, struct footprint_plan *plan, int64_t *release_at) {
    struct policy_held held[POLICY_HELD_MAX];
    struct policy_action actions[POLICY_ACTIONS_MAX];
    struct groups groups;
    *plan = (struct footprint_plan){.hours_left = INFINITY};
    find_groups(f, &groups);
    struct policy_offer *offers = memory_zeroed(f->market_count + 1, sizeof *offers);
    find_offers(f, offers);
    for (size_t g = 0; g < groups.count; g++) {
        held[g] = held_of(f, &groups.list[g]);
        offers[held[g].market].held += groups.list[g].count;
    }
    struct policy_view view = {.app = f->app,
                               .end = f->end,
                               .limits = limits_left(f, &groups),
                               .additions = {.joint = true},
                               .on_demand = reliable_allocation(f),
                               .held = held,
                               .held_count = groups.count,
                               .offers = offers,
                               .offer_count = f->market_count};
    if (budget_reached(f, &groups)) {
        plan->over_budget = true;
        plan->released = groups.count;
        for (size_t g = 0; g < groups.count; g++) {
            release_group(f, &groups.list[g], groups.list[g].count, release_at);
        }
    } else {
        if (policy_is_end(&view)) {
            count_coming(f, &groups, &view, held, offers);
        }
        size_t count = policy_decide(&view, actions, &plan->cost_per_work);
        carry_out(f, &groups, &view, actions, count, plan, release_at);
        if (f->end.work > 0) {
            plan->hours_left = policy_hours_left(&view, actions, count);
        }
    }
    release_unwanted(f, plan, release_at);
    free(offers);
}

/* ---- Why nothing is bought ---- */

static enum footprint_reason reason_of(const struct footprint *f, const struct policy_limits *limits, size_t m,
                                       const struct policy_offer *offer, const struct footprint_reasons *reasons) {
    const double each[] = {[REASON_VCPUS] = limits->most_work / offer->nu,
                           [REASON_SHARE] = limits->most_work / (limits->least_markets * offer->nu),
                           [REASON_RATE] = reasons->rate / offer->P,
                           [REASON_BUDGET] = reasons->budget / offer->P};
    if (offer->P <= 0) {
        return REASON_UNPRICED;
    }
    if (f->now < f->markets[m].closed_until) {
        return REASON_CLOSED;
    }
    if (offer->P > offer->ceiling) {
        return REASON_CEILING;
    }
    enum footprint_reason reason = REASON_VCPUS;
    while (reason < REASON_WORTH && each[reason] >= 1) {
        reason++;
    }
    return reason;
}

bool footprint_reasons(const struct footprint *f, struct footprint_reasons *reasons) {
    struct groups groups;
    find_groups(f, &groups);
    *reasons = (struct footprint_reasons){.opens = MARKET_NEVER};
    if (groups.count > 0 || groups.pending_machines > 0 || f->market_count == 0) {
        return false;
    }
    const struct policy_allocation reliable = reliable_allocation(f);
    reasons->rate = f->limits.most_dollars_per_hour - reliable.k * reliable.P;
    reasons->budget = budget_left(f, &groups) / (double)PRICE_DOLLAR;
    double nearest = INFINITY;
    bool any = false;
    for (size_t m = 0; m < f->market_count; m++) {
        if (f->markets[m].kind == PROVIDER_ON_DEMAND) {
            continue;
        }
        const struct policy_offer offer = offer_of(f, m);
        enum footprint_reason reason = reason_of(f, &f->limits, m, &offer, reasons);
        any = true;
        reasons->markets[reason]++;
        if (reason == REASON_CEILING && offer.P / offer.ceiling < nearest) {
            nearest = offer.P / offer.ceiling;
            reasons->cheapest = m;
            reasons->price = offer.P;
            reasons->ceiling = offer.ceiling;
        } else if (reason == REASON_CLOSED && f->markets[m].closed_until < reasons->opens) {
            reasons->opens = f->markets[m].closed_until;
        }
    }
    return any;
}

/* What follows the number of markets. */
static void reason_text(const struct footprint *f, const struct footprint_reasons *reasons,
                        enum footprint_reason reason, char *text, size_t size) {
    const struct footprint_market *cheapest = &f->markets[reasons->cheapest];
    char opens[INSTANT_TEXT_MAX] = "bidbrain is started again";
    if (reasons->opens != MARKET_NEVER) {
        instant_format(reasons->opens, opens);
    }
    switch (reason) {
    case REASON_UNPRICED:
        snprintf(text, size, "without a price");
        break;
    case REASON_CLOSED:
        snprintf(text, size, "closed after a refusal or an eviction, at least until %s", opens);
        break;
    case REASON_CEILING:
        snprintf(text, size, "above the ceiling (nearest: %s/%s at $%.4f, ceiling $%.4f)", cheapest->price->type,
                 cheapest->zone, reasons->price, reasons->ceiling);
        break;
    case REASON_VCPUS:
        snprintf(text, size, "with more vCPUs a machine than limits.most_vcpus (%g)", f->limits.most_work);
        break;
    case REASON_SHARE:
        snprintf(text, size, "with more vCPUs a machine than limits.most_vcpus / least_markets (%g / %u)",
                 f->limits.most_work, f->limits.least_markets);
        break;
    case REASON_RATE:
        snprintf(text, size, "dearer than limits.most_dollars_per_hour leaves beside the reliable machines ($%.4f)",
                 fmax(0, reasons->rate));
        break;
    case REASON_BUDGET:
        snprintf(text, size, "dearer than limits.budget_dollars leaves ($%.4f)", fmax(0, reasons->budget));
        break;
    default:
        snprintf(text, size, "that would not lower the cost of work");
        break;
    }
}

void footprint_reasons_text(const struct footprint *f, const struct footprint_reasons *reasons,
                            char text[FOOTPRINT_REASONS_TEXT]) {
    unsigned all = 0;
    for (unsigned r = 0; r < REASONS; r++) {
        all += reasons->markets[r];
    }
    size_t used = (size_t)snprintf(text, FOOTPRINT_REASONS_TEXT, "of %u market%s", all, all == 1 ? "" : "s");
    const char *comma = "";
    for (unsigned r = 0; r < REASONS; r++) {
        char one[FOOTPRINT_REASONS_TEXT];
        if (reasons->markets[r] > 0 && used < FOOTPRINT_REASONS_TEXT) {
            reason_text(f, reasons, (enum footprint_reason)r, one, sizeof one);
            used += (size_t)snprintf(text + used, FOOTPRINT_REASONS_TEXT - used, "%s %u %s", comma, reasons->markets[r],
                                     one);
            comma = ",";
        }
    }
}

void footprint_keep_budget(const struct footprint *f, struct footprint_plan *plan, int64_t *release_at) {
    struct groups groups;
    *plan = (struct footprint_plan){0};
    find_groups(f, &groups);
    double left = budget_left(f, &groups);
    bool reached = budget_reached(f, &groups);
    for (size_t g = 0; g < groups.count; g++) {
        const struct group *group = &groups.list[g];
        int64_t ahead = group_hour_end(f, group) - f->now;
        bool renews = pays_by_the_hour(f) && ahead <= f->lead && ahead > f->lead / FOOTPRINT_LATE_SHARE;
        double price = (double)group->count * (double)market_now(f, group->market);
        if (reached || (renews && price > left)) {
            release_group(f, group, group->count, release_at);
            plan->over_budget = true;
            plan->released++;
        } else if (renews) {
            left -= price;
        }
    }
}

int64_t footprint_next_renewal(const struct footprint *f) {
    int64_t next = MARKET_NEVER;
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct ledger_machine *machine = &f->machines[i];
        if (machine->reliable || machine->running == 0 || machine_leaves(machine)) {
            continue;
        }
        int64_t look = footprint_hour_end(machine, f->now) - f->lead;
        look = look > f->now ? look : look + HOUR;
        next = look < next ? look : next;
    }
    return next;
}
