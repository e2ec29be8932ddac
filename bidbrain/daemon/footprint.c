/* See footprint.h. */
#include "bidbrain/daemon/footprint.h"

#include "agileml/base/instant.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    FOOTPRINT_LATE_SHARE =
        4 /* part of the lead: if the hour ends sooner, it is renewed, as there is no time to decide */
};

struct groups {
    /* running machines that stay, grouped by launch; `of` is the launch's token */
    struct portfolio_holding list[POLICY_HELD_MAX];
    size_t count;
    /* pending machines, as far as there is room and their price is known */
    struct portfolio_holding coming[POLICY_HELD_MAX];
    size_t coming_count;
    double pending_vcpus, pending_machines, pending_dollars;
};

size_t footprint_find(const struct footprint *f, enum provider_kind kind, const char *type, const char *zone) {
    for (size_t m = 0; m < f->known.market_count; m++) {
        const struct portfolio_market *market = &f->known.markets[m];
        if ((market->prices != NULL) == (kind == PROVIDER_SPOT) && strcmp(market->type->type, type) == 0 &&
            strcmp(market->zone, zone) == 0) {
            return m;
        }
    }
    return MARKET_NONE;
}

static int64_t market_now(const struct footprint *f, size_t m) {
    return portfolio_price(&f->known, m);
}

/* ---- Bills ---- */

static int64_t machine_end(const struct footprint *f, const struct ledger_machine *machine) {
    int64_t end = machine->ended != 0 ? machine->ended : f->known.now;
    return end > machine->machine.launched ? end : machine->machine.launched;
}

/* A machine on demand costs what the catalog says for its type, in every zone. */
static int64_t on_demand_price(const struct footprint *f, const struct ledger_machine *machine) {
    if (machine->reliable) {
        return f->known.reliable_type->price;
    }
    for (size_t m = 0; m < f->known.market_count; m++) {
        if (strcmp(f->known.markets[m].type->type, machine->machine.type) == 0) {
            return f->known.markets[m].type->price;
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
        return billing_on_demand(f->known.rules, on_demand_price(f, machine), start, machine_end(f, machine),
                                 BILLING_RELEASED);
    }
    size_t m = footprint_find(f, PROVIDER_SPOT, machine->machine.type, machine->machine.zone);
    if (m != MARKET_NONE && market_price(f->known.markets[m].prices, start) != PRICE_UNKNOWN) {
        return billing_spot(f->known.rules, f->known.markets[m].prices, start, machine_end(f, machine), how);
    }
    /* Without prices of its market, the machine costs at most its bid. */
    return billing_on_demand(f->known.rules, machine->bid, start, machine_end(f, machine), BILLING_RELEASED);
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
        const struct ledger_machine *machine = f->machines[i];
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
            (struct portfolio_holding){.market = market, .count = count, .start = f->known.now, .bid = bid};
    }
    groups->pending_machines += count;
    groups->pending_vcpus += count * f->known.markets[market].type->vcpus;
    groups->pending_dollars += count * (price != PRICE_UNKNOWN ? price_dollars(price) : 0);
}

static void add_running(const struct footprint *f, struct groups *groups, const struct ledger_machine *machine,
                        size_t market) {
    for (size_t g = 0; g < groups->count; g++) {
        struct portfolio_holding *group = &groups->list[g];
        if (strcmp(group->of, machine->machine.token) == 0) {
            group->count++;
            group->start = machine->machine.launched < group->start ? machine->machine.launched : group->start;
            return;
        }
    }
    if (groups->count == POLICY_HELD_MAX) { /* portfolio.c then buys nothing more */
        add_pending(f, groups, market, 1, machine->bid);
        return;
    }
    groups->list[groups->count++] = (struct portfolio_holding){.of = machine->machine.token,
                                                               .market = market,
                                                               .count = 1,
                                                               .start = machine->machine.launched,
                                                               .bid = machine->bid};
}

/* Returns how many machines an unfinished launch may still bring. */
static unsigned launch_pending(const struct footprint *f, const struct ledger_launch *launch) {
    unsigned known = 0;
    if (launch->stage > LEDGER_WAITING) {
        return 0;
    }
    for (size_t i = 0; i < f->machine_count; i++) {
        known += strcmp(f->machines[i]->machine.token, launch->launch.token) == 0;
    }
    return known < launch->launch.count ? launch->launch.count - known : 0;
}

static void find_groups(const struct footprint *f, struct groups *groups) {
    *groups = (struct groups){0};
    for (size_t i = 0; i < f->machine_count; i++) {
        const struct ledger_machine *machine = f->machines[i];
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
        const struct provider_launch *launch = &f->launches[l]->launch;
        unsigned count = launch->reliable ? 0 : launch_pending(f, f->launches[l]);
        size_t market = count > 0 ? footprint_find(f, launch->kind, launch->type, launch->zone) : MARKET_NONE;
        if (market != MARKET_NONE) {
            add_pending(f, groups, market, count, launch->bid);
        }
    }
}

static bool pays_by_the_hour(const struct footprint *f) {
    return f->known.rules->whole_hours;
}

/* ---- The budget ---- */

/* Returns the micro-dollars that may still be committed. A running machine counts to the end of its hour (ec2-2016), or
 * one hour ahead. */
static double budget_left(const struct footprint *f, const struct groups *groups) {
    if (f->budget_micro == INT64_MAX) {
        return INFINITY;
    }
    struct footprint_spend spend = footprint_spend(f);
    double left = (double)f->budget_micro - (double)(spend.spot.amount + spend.on_demand.amount) / HOUR;
    /* the next hour of the reliable machines */
    left -= (double)f->known.reliable * (double)f->known.reliable_type->price;
    left -= groups->pending_dollars * (double)PRICE_DOLLAR;
    for (size_t g = 0; !pays_by_the_hour(f) && g < groups->count; g++) {
        left -= (double)groups->list[g].count * (double)market_now(f, groups->list[g].market);
    }
    return left;
}

/* Whether the budget requires that all transient machines go now. Machines paid by the second have no paid hour that
 * ends. They go when the money left pays only for two more decisions and the notice. */
static bool budget_reached(const struct footprint *f, const struct groups *groups) {
    if (f->budget_micro == INT64_MAX || pays_by_the_hour(f)) {
        return false;
    }
    struct footprint_spend spend = footprint_spend(f);
    double rate =
        (double)f->known.reliable * (double)f->known.reliable_type->price + groups->pending_dollars * PRICE_DOLLAR;
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
    without.known.reliable = held;
    double price = price_dollars(f->known.reliable_type->price);
    double rate = held * price + groups.pending_dollars;
    for (size_t g = 0; g < groups.count; g++) {
        rate += (double)groups.list[g].count * price_dollars(market_now(f, groups.list[g].market));
    }
    double dollars =
        fmin(f->known.limits.most_dollars_per_hour - rate, budget_left(&without, &groups) / (double)PRICE_DOLLAR);
    double room = floor(dollars / price + 1e-9);
    unsigned most = room < 1 ? 0 : room < wanted ? (unsigned)room : wanted;
    return held == 0 && most < wanted ? 0 : most;
}

/* ---- Decisions ---- */

/* Gives machines back: at the end of their paid hour, or at once if they are paid by the second. */
static void release_group(const struct footprint *f, const struct portfolio_holding *group, unsigned count,
                          int64_t *release_at) {
    for (size_t i = 0; i < f->machine_count && count > 0; i++) {
        const struct ledger_machine *machine = f->machines[i];
        if (machine->running != 0 && !machine_leaves(machine) && strcmp(machine->machine.token, group->of) == 0) {
            release_at[i] = pays_by_the_hour(f) ? billing_hour_end(machine->machine.launched, f->known.now)
                                                : f->known.now + f->notice_seconds;
            count--;
        }
    }
}

/* Adds a market's group to `groups` unless it is among the first `count`. Returns the new count. */
static size_t add_group(const struct footprint *f, size_t *groups, size_t count, size_t market) {
    const struct portfolio_market *added = &f->known.markets[market];
    for (size_t g = 0; g < count; g++) {
        const struct portfolio_market *known = &f->known.markets[groups[g]];
        if (strcmp(known->type->type, added->type->type) == 0 && strcmp(known->zone, added->zone) == 0) {
            return count;
        }
    }
    groups[count] = market;
    return count + 1;
}

size_t footprint_groups(const struct footprint *f, const struct portfolio_plan *plan, size_t *market) {
    struct groups held;
    size_t groups[2 * POLICY_HELD_MAX + POLICY_JOINT_MAX + PORTFOLIO_PROBES_MAX];
    size_t count = 0;
    find_groups(f, &held);
    for (size_t h = 0; h < held.count; h++) {
        count = plan->kept[h] > 0 ? add_group(f, groups, count, held.list[h].market) : count;
    }
    for (size_t c = 0; c < held.coming_count; c++) {
        count = add_group(f, groups, count, held.coming[c].market);
    }
    for (size_t b = 0; b < plan->buy_count; b++) {
        count = add_group(f, groups, count, plan->buys[b].market);
    }
    *market = count > 0 ? groups[count - 1] : MARKET_NONE;
    return count > 0 && f->known.reliable > 0 ? count + 1 : count;
}

/* Whether the machines that stay, of configured markets, are in as many groups as a job without reliable machines
 * needs. */
static bool enough_groups(const struct footprint *f, const struct portfolio_plan *plan, const struct groups *held) {
    size_t groups[POLICY_HELD_MAX];
    size_t count = 0;
    for (size_t h = 0; h < held->count; h++) {
        count = plan->kept[h] > 0 ? add_group(f, groups, count, held->list[h].market) : count;
    }
    return !f->known.app.copies.spread || count + (f->known.reliable > 0) >= POLICY_GROUPS_LEAST;
}

/* Gives back machines of markets that the present configuration does not have: no decision would consider them. */
static void release_unwanted(const struct footprint *f, struct portfolio_plan *plan, int64_t *release_at) {
    for (size_t i = 0; i < f->machine_count && f->known.market_count > 0; i++) {
        const struct ledger_machine *machine = f->machines[i];
        const struct provider_machine *told = &machine->machine;
        if (!machine->reliable && machine->running != 0 && !machine_leaves(machine) &&
            footprint_find(f, told->kind, told->type, told->zone) == MARKET_NONE) {
            release_at[i] = pays_by_the_hour(f) ? billing_hour_end(machine->machine.launched, f->known.now)
                                                : f->known.now + f->notice_seconds;
            plan->released++;
        }
    }
}

static struct portfolio portfolio_of(const struct footprint *f, const struct groups *groups) {
    struct portfolio all = f->known;
    all.late = all.lead / FOOTPRINT_LATE_SHARE;
    all.review_on_demand = true;
    all.held = groups->list;
    all.held_count = groups->count;
    all.coming = groups->coming;
    all.coming_count = groups->coming_count;
    all.pending.machines = groups->pending_machines;
    all.pending.vcpus = groups->pending_vcpus;
    all.pending.dollars = groups->pending_dollars;
    all.money = budget_left(f, groups);
    all.renewed_rate = all.limits.most_dollars_per_hour;
    all.most_at_once = PROVIDER_COUNT_MAX;
    return all;
}

void footprint_decide(const struct footprint *f, struct portfolio_plan *plan, int64_t *release_at) {
    struct groups groups;
    find_groups(f, &groups);
    const struct portfolio all = portfolio_of(f, &groups);
    if (budget_reached(f, &groups)) {
        *plan = (struct portfolio_plan){.hours_left = INFINITY, .over_budget = true, .released = groups.count};
    } else {
        portfolio_decide(&all, plan);
    }
    for (size_t g = 0; g < groups.count; g++) {
        assert(plan->kept[g] <= groups.list[g].count);
        release_group(f, &groups.list[g], groups.list[g].count - plan->kept[g], release_at);
    }
    if (enough_groups(f, plan, &groups)) {
        release_unwanted(f, plan, release_at);
    }
}

/* ---- Why nothing is bought ---- */

static enum footprint_reason reason_of(const struct footprint *f, const struct policy_limits *limits, size_t m,
                                       const struct policy_offer *offer, const struct footprint_reasons *reasons) {
    const double each[] = {[REASON_VCPUS] = limits->most_vcpus / offer->vcpus,
                           [REASON_SHARE] = limits->most_vcpus / (limits->least_markets * offer->vcpus),
                           [REASON_RATE] = reasons->rate / offer->P,
                           [REASON_BUDGET] = reasons->budget / offer->P};
    if (offer->P <= 0) {
        return REASON_UNPRICED;
    }
    if (f->known.now < f->known.markets[m].closed_until) {
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
    if (groups.count > 0 || groups.pending_machines > 0 || f->known.market_count == 0) {
        return false;
    }
    reasons->rate =
        f->known.limits.most_dollars_per_hour - f->known.reliable * price_dollars(f->known.reliable_type->price);
    reasons->budget = budget_left(f, &groups) / (double)PRICE_DOLLAR;
    double nearest = INFINITY;
    bool any = false;
    for (size_t m = 0; m < f->known.market_count; m++) {
        if (f->known.markets[m].prices == NULL) {
            continue;
        }
        const struct policy_offer offer = portfolio_offer(&f->known, m);
        enum footprint_reason reason = reason_of(f, &f->known.limits, m, &offer, reasons);
        any = true;
        reasons->markets[reason]++;
        if (reason == REASON_CEILING && offer.P / offer.ceiling < nearest) {
            nearest = offer.P / offer.ceiling;
            reasons->cheapest = m;
            reasons->price = offer.P;
            reasons->ceiling = offer.ceiling;
        } else if (reason == REASON_CLOSED && f->known.markets[m].closed_until < reasons->opens) {
            reasons->opens = f->known.markets[m].closed_until;
        }
    }
    return any;
}

/* Appends the reason that keeps these markets out; the caller has written their number. */
static void reason_text(const struct footprint *f, const struct footprint_reasons *reasons,
                        enum footprint_reason reason, char *text, size_t size) {
    const struct portfolio_market *cheapest = &f->known.markets[reasons->cheapest];
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
        snprintf(text, size, "above the ceiling (nearest: %s/%s at $%.4f, ceiling $%.4f)", cheapest->type->type,
                 cheapest->zone, reasons->price, reasons->ceiling);
        break;
    case REASON_VCPUS:
        snprintf(text, size, "with more vCPUs a machine than limits.most_vcpus (%g)", f->known.limits.most_vcpus);
        break;
    case REASON_SHARE:
        snprintf(text, size, "with more vCPUs a machine than limits.most_vcpus / least_markets (%g / %u)",
                 f->known.limits.most_vcpus, f->known.limits.least_markets);
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

void footprint_keep_budget(const struct footprint *f, struct portfolio_plan *plan, int64_t *release_at) {
    struct groups groups;
    *plan = (struct portfolio_plan){0};
    find_groups(f, &groups);
    const struct portfolio all = portfolio_of(f, &groups);
    double left = all.money;
    bool reached = budget_reached(f, &groups);
    for (size_t g = 0; g < groups.count; g++) {
        const struct portfolio_holding *group = &groups.list[g];
        bool renews = pays_by_the_hour(f) && portfolio_expires(&all, group->start);
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

int64_t footprint_look(const struct ledger_machine *machine, int64_t now, int64_t lead) {
    if (machine->reliable || machine->running == 0 || machine_leaves(machine)) {
        return MARKET_NEVER;
    }
    int64_t look = billing_hour_end(machine->machine.launched, now) - lead;
    return look > now ? look : look + HOUR;
}
