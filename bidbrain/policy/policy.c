/* See policy.h. */
#include "bidbrain/policy/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Equations ---- */

double policy_omega(double beta, double median, double t_r) {
    return (1 - beta) * t_r + beta * median;
}

double policy_cost(const struct policy_allocation *x) {
    /* without a refund the expected running time is paid: omega */
    return x->refund ? (1 - x->beta) * x->P * x->k * x->t_r : x->P * x->k * x->omega;
}

double policy_any_eviction(const struct policy_allocation *x, size_t count) {
    double keep = 1;
    for (size_t j = 0; j < count; j++) {
        keep *= 1 - x[j].beta;
    }
    return 1 - keep;
}

double policy_useful_time(const struct policy_allocation *x, double any_eviction, const struct policy_app *app,
                          bool changed) {
    return x->omega - any_eviction * app->lambda - (changed ? app->sigma : 0);
}

/* Returns the phi of (3) for a footprint that can do `rate` work per hour. */
static double policy_scaling(const struct policy_app *app, double rate) {
    if (app->reference <= 0) {
        return app->phi;
    }
    return rate <= app->reference ? 1 : (app->reference + app->phi * (rate - app->reference)) / rate;
}

double policy_work(const struct policy_allocation *x, size_t count, const struct policy_app *app, bool changed) {
    double any_eviction = policy_any_eviction(x, count);
    double work = 0;
    double rate = 0;
    for (size_t i = 0; i < count; i++) {
        work += x[i].k * policy_useful_time(&x[i], any_eviction, app, changed) * x[i].nu;
        rate += x[i].k * x[i].nu;
    }
    return work * policy_scaling(app, rate);
}

double policy_cost_per_work(const struct policy_allocation *x, size_t count, const struct policy_app *app,
                            bool changed) {
    double cost = 0;
    for (size_t i = 0; i < count; i++) {
        cost += policy_cost(&x[i]);
    }
    double work = policy_work(x, count, app, changed);
    return work > 0 ? cost / work : INFINITY;
}

struct policy_sum policy_sum_add(struct policy_sum sum, const struct policy_allocation *x) {
    sum.cost += policy_cost(x);
    sum.keep *= 1 - x->beta;
    sum.omega += x->k * x->nu * x->omega;
    sum.rate += x->k * x->nu;
    return sum;
}

/* `lost`: hours lost to evictions. */
static double sum_cost_per_work(struct policy_sum sum, const struct policy_app *app, double lost, bool changed) {
    double useful = sum.omega - sum.rate * (lost + (changed ? app->sigma : 0));
    double work = useful * policy_scaling(app, sum.rate);
    return work > 0 ? sum.cost / work : INFINITY;
}

double policy_sum_cost_per_work(struct policy_sum sum, const struct policy_app *app, bool changed) {
    return sum_cost_per_work(sum, app, (1 - sum.keep) * app->lambda, changed);
}

/* ---- Groups ---- */

/* Returns the probability to survive, never 0, so that it has a logarithm. */
static double group_keep(const struct policy_group *group) {
    return fmax(1e-9, 1 - group->beta);
}

static double any_group_lost(const struct policy_group *groups, size_t count) {
    double keep = 1;
    for (size_t g = 0; g < count; g++) {
        keep *= 1 - groups[g].beta;
    }
    return 1 - keep;
}

double policy_state_lost(const struct policy_group *groups, size_t count, const struct policy_copies *copies) {
    double hours = count == POLICY_GROUPS_LEAST ? copies->replaced : copies->copied;
    double all = 0; /* logarithm of the probability that all groups survive these hours */
    double lost = 0;
    if (count == 1) {
        return groups[0].beta;
    }
    for (size_t g = 0; g < count; g++) {
        all += hours * log(group_keep(&groups[g]));
    }
    for (size_t g = 0; g < count; g++) {
        lost += groups[g].beta * (1 - exp(all - hours * log(group_keep(&groups[g]))));
    }
    return fmin(1, lost);
}

double policy_sum_cost_in_groups(struct policy_sum sum, const struct policy_group *groups, size_t count,
                                 const struct policy_app *app, bool changed) {
    double again = policy_state_lost(groups, count, &app->copies) * app->copies.lost;
    return (1 + again) * sum_cost_per_work(sum, app, any_group_lost(groups, count) * app->lambda, changed);
}

/* ---- Candidates ---- */

struct policy_allocation policy_candidate(const struct policy_offer *offer, unsigned delta, double count) {
    return (struct policy_allocation){.k = count,
                                      .P = offer->P,
                                      .beta = offer->beta[delta],
                                      .omega = policy_omega(offer->beta[delta], offer->median[delta], 1),
                                      .t_r = 1,
                                      .nu = offer->nu,
                                      .refund = true}; /* in both market models a first hour cut short by EC2 is free */
}

#define GROUP_ON_DEMAND SIZE_MAX /* group of the on-demand machines that are never released */

struct choice {
    size_t offer;
    unsigned delta;
    double count;
};

enum {
    PLAN_GROUPS_MAX = 2 * POLICY_HELD_MAX + POLICY_JOINT_MAX + 2 /* held, coming, chosen; on demand, a candidate */
};

/* A footprint under construction: its sums for the equations, and its totals for the limits. */
struct plan {
    const struct policy_view *view;
    struct policy_sum sum;
    double machines, vcpus, dollars; /* machines and vcpus: spot only; dollars: all machines */
    double kept[POLICY_HELD_MAX];    /* number of machines of each held allocation that stay */
    /* with copies.spread: groups of the machines that stay, come, or are bought */
    struct policy_group groups[PLAN_GROUPS_MAX];
    size_t group_count;
    bool end;       /* the result of policy_is_end */
    double dearest; /* at the end: dollars per unit of work on demand */
    double sure;    /* at the end: work per hour that on-demand machines could do; 0: none are offered */
    struct choice choices[POLICY_JOINT_MAX];
    size_t choice_count;
};

static const struct policy_allocation *held_next(const struct policy_held *held) {
    return held->expiring ? &held->renewed : &held->now;
}

/* Returns the machines of a held allocation that stay in the plan, for their next hour. */
static struct policy_allocation plan_kept(const struct plan *plan, size_t h) {
    struct policy_allocation x = *held_next(&plan->view->held[h]);
    x.k = plan->kept[h];
    x.beta = x.k > 0 ? x.beta : 0;
    return x;
}

static double plan_market_machines(const struct plan *plan, size_t market) {
    double machines = plan->view->offers[market].held + plan->view->offers[market].coming;
    for (size_t h = 0; h < plan->view->held_count; h++) {
        const struct policy_held *held = &plan->view->held[h];
        machines -= held->market == market ? held->now.k - plan->kept[h] : 0;
    }
    for (size_t c = 0; c < plan->choice_count; c++) {
        machines += plan->choices[c].offer == market ? plan->choices[c].count : 0;
    }
    return machines;
}

static double plan_market_vcpus(const struct plan *plan, size_t market) {
    return plan_market_machines(plan, market) * plan->view->offers[market].vcpus;
}

/* Returns how many machines of an offer its share of the limits still allows when groups share them. */
static double plan_share(const struct plan *plan, size_t market) {
    const struct policy_limits *limits = &plan->view->limits;
    const struct policy_offer *offer = &plan->view->offers[market];
    double room =
        fmin(limits->most_machines, fmin(limits->most_vcpus / offer->vcpus, limits->most_dollars_per_hour / offer->P));
    return fmax(1, floor(room / POLICY_GROUPS_LEAST)) - plan_market_machines(plan, market);
}

/* Returns how many machines of an offer the limits still allow. */
static double plan_room(const struct plan *plan, size_t market) {
    const struct policy_view *view = plan->view;
    const struct policy_offer *offer = &view->offers[market];
    double room =
        fmin(view->limits.most_machines - plan->machines, (view->limits.most_vcpus - plan->vcpus) / offer->vcpus);
    room = fmin(room, (view->limits.most_dollars_per_hour - plan->dollars) / offer->P);
    if (offer->on_demand) { /* shares of markets limit only machines that can be evicted */
        return floor(room + 1e-9);
    }
    if (view->app.copies.spread) {
        room = fmin(room, plan_share(plan, market));
    }
    if (view->limits.least_markets > 1) {
        double share = view->limits.most_vcpus / view->limits.least_markets;
        room = fmin(room, (share - plan_market_vcpus(plan, market)) / offer->vcpus);
    }
    if (view->additions.diverse && view->correlated != NULL) {
        double together = plan_market_vcpus(plan, market);
        for (size_t m = 0; m < view->offer_count; m++) {
            together += m != market && view->correlated(view->context, market, m) ? plan_market_vcpus(plan, m) : 0;
        }
        room = fmin(room, (view->limits.most_vcpus / 2 - together) / offer->vcpus);
    }
    return floor(room + 1e-9);
}

/* Adds machines of an offer to the groups. One price takes a whole group: the highest beta of its allocations
 * counts. */
static void groups_add(const struct plan *plan, struct policy_group *groups, size_t *count, size_t id, double beta) {
    size_t g = 0;
    if (!plan->view->app.copies.spread) {
        return;
    }
    while (g < *count && groups[g].id != id) {
        g++;
    }
    if (g == *count) {
        assert(*count < PLAN_GROUPS_MAX);
        groups[(*count)++] = (struct policy_group){.id = id};
    }
    groups[g].beta = fmax(groups[g].beta, beta);
}

static void plan_add_group(struct plan *plan, size_t market, double beta) {
    groups_add(plan, plan->groups, &plan->group_count, plan->view->offers[market].group, beta);
}

/* Returns the number of the plan's groups that may stay: those that cost no more than their ceiling. */
static size_t plan_lasting_groups(const struct plan *plan) {
    size_t count = 0;
    for (size_t g = 0; g < plan->group_count; g++) {
        size_t id = plan->groups[g].id;
        count += id == GROUP_ON_DEMAND || plan->view->offers[id].P <= plan->view->offers[id].ceiling;
    }
    return count;
}

static bool plan_has_group(const struct plan *plan, size_t id) {
    for (size_t g = 0; g < plan->group_count; g++) {
        if (plan->groups[g].id == id) {
            return true;
        }
    }
    return false;
}

static void plan_add(struct plan *plan, struct choice choice) {
    const struct policy_offer *offer = &plan->view->offers[choice.offer];
    struct policy_allocation x = policy_candidate(offer, choice.delta, choice.count);
    plan_add_group(plan, choice.offer, x.beta);
    plan->sum = policy_sum_add(plan->sum, &x);
    plan->machines += choice.count;
    plan->vcpus += choice.count * offer->vcpus;
    plan->dollars += choice.count * offer->P;
    plan->choices[plan->choice_count++] = choice;
}

/* ---- The end of the job ---- */

bool policy_is_end(const struct policy_view *view) {
    const struct policy_end *end = &view->end;
    return end->work > 0 && (isfinite(end->deadline) || end->work <= POLICY_END_HOURS * view->limits.most_vcpus);
}

/* Sums that determine when a footprint ends the job. Rates are units of work per hour. */
struct finish {
    double rate, new_rate; /* work of all machines; of the machines that must boot first */
    double keep;           /* probability that no machine is evicted within an hour */
    double again;          /* how many times each hour of work is done, by policy_state_lost; at least 1 */
};

static double allocation_rate(const struct policy_allocation *x) {
    return x->t_r > 0 ? x->k * x->nu * x->omega / x->t_r : 0;
}

/* Returns the probability that an allocation survives an hour, derived from its probability to survive t_r. */
static double allocation_keep(const struct policy_allocation *x) {
    return x->t_r > 0 ? pow(1 - x->beta, 1 / x->t_r) : 1;
}

static void finish_add(struct finish *finish, const struct policy_allocation *x, bool boots) {
    finish->rate += allocation_rate(x);
    finish->new_rate += boots ? allocation_rate(x) : 0;
    finish->keep *= allocation_keep(x);
}

/* Returns the hours to the end by (2), with the time lost to evictions spread evenly over the hours. */
static double finish_hours(const struct finish *finish, const struct policy_view *view, bool changed) {
    double lost = fmin(0.95, (1 - finish->keep) * view->app.lambda);
    double scale = policy_scaling(&view->app, finish->rate) * (1 - lost) / finish->again;
    double hours = (view->end.work / scale + finish->new_rate * view->end.boot) / finish->rate;
    return hours + (changed ? view->app.sigma : 0);
}

/* Adds the cost of an allocation until `hours` from now, of which `paid` hours are already paid. *whole: all its
 * machines are kept for the last hour. *part: only the machines needed are kept for that hour, and the job ends with
 * it, at *until. An hour that begins now is paid whole. */
static void finish_cost(const struct policy_view *view, const struct policy_allocation *x, double paid, double hours,
                        double *whole, double *part, double *until) {
    double dollars = x->P * x->k * (x->refund ? allocation_keep(x) : 1);
    double more = fmax(0, hours - paid);
    double count = view->end.whole_hours ? ceil(more - 1e-9) : more;
    *whole += dollars * count;
    *part += dollars * (view->end.whole_hours && more > 0 && paid <= 0 ? fmax(1, more) : more);
    *until = fmax(*until, more > 0 ? paid + count : hours);
}

/* Returns the dollars that the deadline adds to a footprint that needs `hours` to the end. */
static double late_cost(const struct plan *plan, double hours) {
    enum { TOO_LATE_DOLLARS = 1000000 };
    const struct policy_end *end = &plan->view->end;
    if (hours <= end->deadline) {
        return 0;
    }
    double rate = end->work / hours;
    double left = fmax(0, end->deadline);
    double dollars = (end->work * 1.2 - rate * left) * plan->dearest; /* being late costs a fifth of the work */
    double first = fmin(1, left);
    double rest = fmax(0, left - first - end->boot);
    bool possible = fmax(0, left - end->boot) * plan->sure >= end->work;
    double missing = end->work - rate * first - rest * plan->sure;
    return possible && missing > 0 ? dollars + TOO_LATE_DOLLARS * (1 + missing) : dollars;
}

/* The allocations of a plan, in the order: held, chosen, `extra` (NULL: none). */
struct allocations {
    struct policy_allocation list[POLICY_HELD_MAX + POLICY_JOINT_MAX + 1];
    size_t market[POLICY_HELD_MAX + POLICY_JOINT_MAX + 1];
    size_t held, count;
};

/* A candidate to add to a plan. */
struct candidate {
    struct policy_allocation x;
    size_t market;
};

static void plan_allocations(const struct plan *plan, const struct candidate *extra, struct allocations *all) {
    const struct policy_view *view = plan->view;
    all->count = all->held = view->held_count;
    for (size_t h = 0; h < view->held_count; h++) {
        all->list[h] = plan_kept(plan, h);
        all->market[h] = view->held[h].market;
    }
    for (size_t c = 0; c < plan->choice_count; c++) {
        const struct choice *choice = &plan->choices[c];
        all->market[all->count] = choice->offer;
        all->list[all->count++] = policy_candidate(&view->offers[choice->offer], choice->delta, choice->count);
    }
    if (extra != NULL) {
        all->market[all->count] = extra->market;
        all->list[all->count++] = extra->x;
    }
}

/* Computes by groups what evictions within an hour cost. */
static void finish_in_groups(struct finish *finish, const struct allocations *all, const struct plan *plan) {
    struct policy_group groups[PLAN_GROUPS_MAX];
    const struct policy_view *view = plan->view;
    size_t count = 0;
    if (view->on_demand.k > 0) {
        groups_add(plan, groups, &count, GROUP_ON_DEMAND, 0);
    }
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].k > 0) {
            groups_add(plan, groups, &count, view->offers[all->market[i]].group, 1 - allocation_keep(&all->list[i]));
        }
    }
    finish->keep = 1 - any_group_lost(groups, count);
    finish->again = 1 + policy_state_lost(groups, count, &view->app.copies) * view->app.copies.lost;
}

static double allocations_hours(const struct allocations *all, const struct plan *plan, bool changed) {
    struct finish finish = {.keep = 1, .again = 1};
    for (size_t i = 0; i < all->count; i++) {
        finish_add(&finish, &all->list[i], i >= all->held);
    }
    if (plan->view->app.copies.spread) {
        finish_in_groups(&finish, all, plan);
    }
    return finish.rate > 0 ? finish_hours(&finish, plan->view, changed) : INFINITY;
}

/* Returns the expected dollars from now to the end, divided by the work left. `extra` is bought as well. */
static double plan_finish(const struct plan *plan, const struct candidate *extra, bool changed) {
    const struct policy_view *view = plan->view;
    struct allocations all;
    plan_allocations(plan, extra, &all);
    double hours = allocations_hours(&all, plan, changed);
    if (isinf(hours)) {
        return INFINITY;
    }
    double whole = 0;
    double part = 0;
    double until = hours;
    for (size_t i = 0; i < all.count; i++) {
        bool paid = i < all.held && !view->held[i].expiring && view->end.whole_hours;
        finish_cost(view, &all.list[i], paid ? all.list[i].t_r : 0, hours, &whole, &part, &until);
    }
    double fixed = view->on_demand.k * view->on_demand.P + view->end.hour_worth;
    whole += fixed * hours + late_cost(plan, hours);
    part += fixed * until + late_cost(plan, until);
    return fmin(whole, part) / view->end.work;
}

/* Returns E_A with `extra` bought as well. */
static double plan_cost_per_work(const struct plan *plan, const struct candidate *extra, bool changed) {
    const struct policy_view *view = plan->view;
    struct policy_sum sum = extra != NULL ? policy_sum_add(plan->sum, &extra->x) : plan->sum;
    if (!view->app.copies.spread) {
        return policy_sum_cost_per_work(sum, &view->app, changed);
    }
    struct policy_group groups[PLAN_GROUPS_MAX];
    size_t count = plan->group_count;
    memcpy(groups, plan->groups, count * sizeof *groups);
    if (extra != NULL) {
        groups_add(plan, groups, &count, view->offers[extra->market].group, extra->x.beta);
    }
    return policy_sum_cost_in_groups(sum, groups, count, &view->app, changed);
}

/* Returns the value that decisions minimize, for a plan with `extra` bought as well (NULL: nothing). It is E_A, or near
 * the job's end that of plan_finish. */
static double plan_value(const struct plan *plan, const struct candidate *extra, bool changed) {
    return plan->end ? plan_finish(plan, extra, changed) : plan_cost_per_work(plan, extra, changed);
}

/* Returns the fewest machines of an offer, at its highest bid, that end the job within `hours` together with the plan.
 * Leaves a fiftieth of the time as reserve, since ending a second late costs one more hour. Returns 0 if even `room`
 * machines are too few. */
static double plan_enough(const struct plan *plan, size_t market, double room, double hours) {
    const struct policy_offer *offer = &plan->view->offers[market];
    struct allocations all;
    double low = 0;
    double high = room + 1;
    while (high - low > 1) {
        double count = floor((low + high) / 2);
        const struct candidate x = {policy_candidate(offer, offer->deltas - 1, count), market};
        plan_allocations(plan, &x, &all);
        bool enough = allocations_hours(&all, plan, true) <= 0.98 * hours;
        high = enough ? count : high;
        low = enough ? low : count;
    }
    return high <= room ? high : 0;
}

static void plan_try(const struct plan *plan, size_t market, double count, double *lowest, struct choice *best) {
    const struct policy_offer *offer = &plan->view->offers[market];
    for (unsigned d = 0; d < offer->deltas; d++) {
        const struct candidate x = {policy_candidate(offer, d, count), market};
        double e = plan_value(plan, &x, true);
        if (e < *lowest) {
            *lowest = e;
            *best = (struct choice){market, d, count};
        }
    }
}

/* Finds the candidate with the lowest cost per work beside the plan. `other`: only in groups that the plan does not
 * have. */
static double plan_lowest(const struct plan *plan, bool other, struct choice *best) {
    const struct policy_view *view = plan->view;
    double lowest = INFINITY;
    double least = plan->end ? 0 : view->limits.least_vcpus;
    for (size_t m = 0; m < view->offer_count; m++) {
        const struct policy_offer *offer = &view->offers[m];
        bool wanted = offer->open && offer->P <= offer->ceiling && !(other && plan_has_group(plan, offer->group));
        double room = wanted ? plan_room(plan, m) : 0;
        double count = room;
        for (int size = 0; size < POLICY_COUNTS && count >= 1 && count * offer->vcpus >= least;
             size++, count = floor(count / 2)) {
            plan_try(plan, m, count, &lowest, best);
        }
        for (int hours = 1; plan->end && hours <= POLICY_END_COUNTS && room >= 1; hours++) {
            double enough = plan_enough(plan, m, room, hours);
            if (enough >= 1) {
                plan_try(plan, m, enough, &lowest, best);
            }
        }
    }
    return lowest;
}

/* Like plan_lowest, but only if the cost is below `bound` or the plan needs another group. */
static double plan_best(const struct plan *plan, double bound, struct choice *best) {
    const struct policy_limits *limits = &plan->view->limits;
    if (limits->most_vcpus - plan->vcpus < 1 || limits->most_machines - plan->machines < 1) {
        return INFINITY;
    }
    size_t groups = plan_lasting_groups(plan);
    bool needed = plan->view->app.copies.spread && plan->group_count > 0 && groups < POLICY_GROUPS_LEAST;
    double lowest = needed ? plan_lowest(plan, true, best) : INFINITY;
    if (isinf(lowest)) {
        lowest = plan_lowest(plan, false, best);
        lowest = lowest < bound ? lowest : INFINITY;
    }
    return lowest;
}

/* ---- Decisions ---- */

/* Sets `dearest`, the highest ceiling per unit of work, and `sure`, 95 % of the work an hour that on-demand machines
 * can do within the limits. */
static void plan_on_demand(struct plan *plan) {
    const struct policy_limits *limits = &plan->view->limits;
    for (size_t m = 0; m < plan->view->offer_count; m++) {
        const struct policy_offer *offer = &plan->view->offers[m];
        plan->dearest = offer->nu > 0 ? fmax(plan->dearest, offer->ceiling / offer->nu) : plan->dearest;
        if (offer->on_demand && offer->open) {
            double count =
                fmin(limits->most_machines, fmin(limits->most_vcpus / offer->vcpus,
                                                 (limits->most_dollars_per_hour - plan->dollars) / offer->P));
            double scale = policy_scaling(&plan->view->app, floor(count) * offer->nu);
            plan->sure = fmax(plan->sure, 0.95 * scale * floor(count) * offer->nu);
        }
    }
}

/* Returns the plan that keeps `kept` machines of each held allocation. Expiring allocations count as renewed. */
static struct plan plan_held(const struct policy_view *view, const double *kept) {
    struct plan plan = {.view = view, .sum = POLICY_SUM_NONE, .end = policy_is_end(view)};
    plan.sum = policy_sum_add(plan.sum, &view->on_demand);
    plan.machines = view->limits.coming_machines;
    plan.vcpus = view->limits.coming_vcpus;
    plan.dollars = view->limits.coming_dollars_per_hour + view->on_demand.k * view->on_demand.P;
    if (view->on_demand.k > 0) {
        groups_add(&plan, plan.groups, &plan.group_count, GROUP_ON_DEMAND, 0);
    }
    for (size_t m = 0; view->app.copies.spread && m < view->offer_count; m++) {
        if (view->offers[m].coming > 0) {
            plan_add_group(&plan, m, view->offers[m].coming_beta);
        }
    }
    if (plan.end) {
        plan_on_demand(&plan);
    }
    for (size_t h = 0; h < view->held_count; h++) {
        plan.kept[h] = kept[h];
        struct policy_allocation x = plan_kept(&plan, h);
        if (x.k > 0) {
            plan_add_group(&plan, view->held[h].market, x.beta);
            plan.sum = policy_sum_add(plan.sum, &x);
            plan.machines += x.k;
            plan.vcpus += x.k * view->offers[view->held[h].market].vcpus;
            plan.dollars += x.k * x.P;
        }
    }
    return plan;
}

/* Rebuilds a plan without its choice `without`. */
static struct plan plan_again(const struct plan *plan, size_t without) {
    struct plan again = plan_held(plan->view, plan->kept);
    for (size_t c = 0; c < plan->choice_count; c++) {
        if (c != without) {
            plan_add(&again, plan->choices[c]);
        }
    }
    return again;
}

/* Adds candidates while they lower the cost per work below `e`, then exchanges single candidates for better ones.
 * Returns the minimized value. */
static double plan_fill(struct plan *plan, double e, size_t most) {
    struct choice best;
    while (plan->choice_count < most) {
        /* Near the end values are estimates: a gain of less than a hundredth is no reason to buy. */
        double lower = plan_best(plan, plan->end ? e * 0.99 : e, &best);
        if (isinf(lower)) {
            break;
        }
        plan_add(plan, best);
        e = lower;
    }
    for (int round = 0; round < POLICY_JOINT_ROUNDS && plan->choice_count > 1; round++) {
        bool better = false;
        for (size_t c = 0; c < plan->choice_count; c++) {
            struct plan without = plan_again(plan, c);
            double lower = plan_best(&without, e * (1 - 1e-9), &best);
            if (lower < e * (1 - 1e-9)) {
                plan_add(&without, best);
                *plan = without;
                e = lower;
                better = true;
            }
        }
        if (!better) {
            break;
        }
    }
    return e;
}

/* Whether machines of a held allocation must stay: without them fewer than POLICY_GROUPS_LEAST running groups would be
 * left. */
static bool is_needed(const struct policy_view *view, const double *kept, size_t h) {
    struct plan plan = {.view = view};
    size_t own = view->offers[view->held[h].market].group;
    if (!view->app.copies.spread) {
        return false;
    }
    if (view->on_demand.k > 0) {
        groups_add(&plan, plan.groups, &plan.group_count, GROUP_ON_DEMAND, 0);
    }
    for (size_t other = 0; other < view->held_count; other++) {
        if (other != h && kept[other] > 0 && !view->held[other].coming) {
            plan_add_group(&plan, view->held[other].market, 0);
        }
    }
    return !plan_has_group(&plan, own) && plan.group_count < POLICY_GROUPS_LEAST;
}

/* Section 4.2: an allocation is not renewed if the other allocations alone cost less per work. By this rule the only
 * working allocation would be renewed at any price; the ceiling prevents this. At the end a share of the machines may
 * be renewed. */
static void decide_renewal(const struct policy_view *view, double *kept, size_t h, size_t most) {
    double all = kept[h];
    double lowest = INFINITY;
    double best = 0;
    bool needed = is_needed(view, kept, h);
    if (view->held[h].renewed.P > view->offers[view->held[h].market].ceiling) {
        kept[h] = needed ? ceil(all / POLICY_COPIES_SHARE) : 0;
        return;
    }
    int steps = policy_is_end(view) ? POLICY_RENEW_STEPS : needed ? POLICY_COPIES_SHARE : 1;
    for (int step = steps; step >= (needed ? steps / POLICY_COPIES_SHARE : 0); step--) {
        kept[h] = ceil(all * step / steps);
        struct plan plan = plan_held(view, kept);
        double e = plan_value(&plan, NULL, kept[h] < all);
        if (view->additions.joint && (step == steps || step == 0)) {
            e = plan_fill(&plan, e, most); /* beyond the paper: the best candidates are bought, too */
        }
        if (e < lowest || step == steps) {
            lowest = e;
            best = kept[h];
        }
    }
    kept[h] = best;
}

size_t policy_decide(const struct policy_view *view, struct policy_action actions[POLICY_ACTIONS_MAX],
                     double *cost_per_work) {
    double kept[POLICY_HELD_MAX] = {0};
    assert(view->held_count <= POLICY_HELD_MAX);
    size_t count = 0;
    size_t most = view->additions.joint ? POLICY_JOINT_MAX : view->app.copies.spread ? POLICY_GROUPS_LEAST : 1;
    for (size_t h = 0; h < view->held_count; h++) {
        kept[h] = held_next(&view->held[h])->k;
    }
    struct plan held = plan_held(view, kept);
    *cost_per_work = plan_cost_per_work(&held, NULL, false);
    bool changed = false;
    for (size_t h = 0; h < view->held_count; h++) {
        if (view->held[h].expiring) {
            double all = kept[h];
            decide_renewal(view, kept, h, most);
            changed = changed || kept[h] < all;
            actions[count++] = (struct policy_action){
                .kind = kept[h] > 0 ? POLICY_RENEW : POLICY_RELEASE, .index = h, .count = kept[h] > 0 ? kept[h] : all};
        }
    }
    struct plan plan = plan_held(view, kept);
    double e = plan_value(&plan, NULL, changed);
    for (size_t a = 0; a < count; a++) {
        actions[a].cost_per_work = plan_cost_per_work(&plan, NULL, changed);
    }
    (void)plan_fill(&plan, e, most);
    struct plan so_far = plan_held(view, kept);
    for (size_t c = 0; c < plan.choice_count; c++) {
        plan_add(&so_far, plan.choices[c]);
        actions[count++] = (struct policy_action){.kind = POLICY_ACQUIRE,
                                                  .index = plan.choices[c].offer,
                                                  .delta = plan.choices[c].delta,
                                                  .count = plan.choices[c].count,
                                                  .cost_per_work = plan_cost_per_work(&so_far, NULL, true)};
    }
    return count;
}

double policy_hours_left(const struct policy_view *view, const struct policy_action *actions, size_t count) {
    double kept[POLICY_HELD_MAX];
    struct allocations all;
    bool changed = false;
    for (size_t h = 0; h < view->held_count; h++) {
        kept[h] = held_next(&view->held[h])->k;
    }
    for (size_t a = 0; a < count; a++) {
        if (actions[a].kind != POLICY_ACQUIRE) {
            double stays = actions[a].kind == POLICY_RENEW ? actions[a].count : 0;
            changed = changed || stays < kept[actions[a].index];
            kept[actions[a].index] = stays;
        }
    }
    struct plan plan = plan_held(view, kept);
    for (size_t a = 0; a < count; a++) {
        if (actions[a].kind == POLICY_ACQUIRE) {
            plan_add(&plan, (struct choice){actions[a].index, actions[a].delta, actions[a].count});
            changed = true;
        }
    }
    plan_allocations(&plan, NULL, &all);
    return allocations_hours(&all, &plan, changed);
}
