/* See policy.h. */
#include "bidbrain/policy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- Equations ---- */

double policy_omega(double beta, double median, double t_r) {
    return (1 - beta) * t_r + beta * median;
}

double policy_cost(const struct policy_allocation *x) {
    /* Without a refund what it is expected to run is paid: omega. */
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

/* phi of (3) for an application that has `rate` work an hour at hand. */
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

double policy_sum_cost_per_work(struct policy_sum sum, const struct policy_app *app, bool changed) {
    double lost = (1 - sum.keep) * app->lambda + (changed ? app->sigma : 0);
    double work = (sum.omega - sum.rate * lost) * policy_scaling(app, sum.rate);
    return work > 0 ? sum.cost / work : INFINITY;
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

struct choice {
    size_t offer;
    unsigned delta;
    double count;
};

/* A footprint that is being put together: its sums for the equations, and what the limits look at. */
struct plan {
    const struct policy_view *view;
    struct policy_sum sum;
    double machines, work, dollars; /* of spot machines; dollars of all */
    bool released[POLICY_HELD_MAX];
    struct choice choices[POLICY_JOINT_MAX];
    size_t choice_count;
};

static double plan_market_work(const struct plan *plan, size_t market) {
    double work = plan->view->offers[market].held * plan->view->offers[market].nu;
    for (size_t h = 0; h < plan->view->held_count; h++) {
        const struct policy_held *held = &plan->view->held[h];
        work -= plan->released[h] && held->market == market ? held->now.k * held->now.nu : 0;
    }
    for (size_t c = 0; c < plan->choice_count; c++) {
        const struct choice *choice = &plan->choices[c];
        work += choice->offer == market ? choice->count * plan->view->offers[market].nu : 0;
    }
    return work;
}

/* Machines of an offer that the limits leave room for. */
static double plan_room(const struct plan *plan, size_t market) {
    const struct policy_view *view = plan->view;
    const struct policy_offer *offer = &view->offers[market];
    double room = fmin(view->limits.most_machines - plan->machines, (view->limits.most_work - plan->work) / offer->nu);
    room = fmin(room, (view->limits.most_dollars_per_hour - plan->dollars) / offer->P);
    if (view->limits.least_markets > 1) {
        double share = view->limits.most_work / view->limits.least_markets;
        room = fmin(room, (share - plan_market_work(plan, market)) / offer->nu);
    }
    if (view->additions.diverse && view->correlated != NULL) {
        double together = plan_market_work(plan, market);
        for (size_t m = 0; m < view->offer_count; m++) {
            together += m != market && view->correlated(view->context, market, m) ? plan_market_work(plan, m) : 0;
        }
        room = fmin(room, (view->limits.most_work / 2 - together) / offer->nu);
    }
    return floor(room + 1e-9);
}

static void plan_add(struct plan *plan, struct choice choice) {
    const struct policy_offer *offer = &plan->view->offers[choice.offer];
    struct policy_allocation x = policy_candidate(offer, choice.delta, choice.count);
    plan->sum = policy_sum_add(plan->sum, &x);
    plan->machines += choice.count;
    plan->work += choice.count * offer->nu;
    plan->dollars += choice.count * offer->P;
    plan->choices[plan->choice_count++] = choice;
}

/* The candidate with the lowest cost per work beside the plan, if it is below `bound`. */
static double plan_best(const struct plan *plan, double bound, struct choice *best) {
    const struct policy_view *view = plan->view;
    if (view->limits.most_work - plan->work < 1 || view->limits.most_machines - plan->machines < 1) {
        return INFINITY;
    }
    double lowest = INFINITY;
    for (size_t m = 0; m < view->offer_count; m++) {
        const struct policy_offer *offer = &view->offers[m];
        double room = offer->open && offer->P <= offer->ceiling ? plan_room(plan, m) : 0;
        double count = room;
        for (int size = 0; size < POLICY_COUNTS && count >= 1 && count * offer->nu >= view->limits.least_work;
             size++, count = floor(count / 2)) {
            for (unsigned d = 0; d < offer->deltas; d++) {
                struct policy_allocation x = policy_candidate(offer, d, count);
                double e = policy_sum_cost_per_work(policy_sum_add(plan->sum, &x), &view->app, true);
                if (e < lowest) {
                    lowest = e;
                    *best = (struct choice){m, d, count};
                }
            }
        }
    }
    return lowest < bound ? lowest : INFINITY;
}

/* ---- Decisions ---- */

/* The plan of what is held, but for the allocations in `released`; expiring ones count as renewed. */
static struct plan plan_held(const struct policy_view *view, const bool *released) {
    struct plan plan = {.view = view, .sum = POLICY_SUM_NONE};
    plan.sum = policy_sum_add(plan.sum, &view->on_demand);
    plan.dollars = view->on_demand.k * view->on_demand.P;
    for (size_t h = 0; h < view->held_count; h++) {
        const struct policy_held *held = &view->held[h];
        if (released[h]) {
            plan.released[h] = true;
            continue;
        }
        const struct policy_allocation *x = held->expiring ? &held->renewed : &held->now;
        plan.sum = policy_sum_add(plan.sum, x);
        plan.machines += x->k;
        plan.work += x->k * x->nu;
        plan.dollars += x->k * x->P;
    }
    return plan;
}

/* The same plan from the start, without its choice `without` (SIZE_MAX: with all). */
static struct plan plan_again(const struct plan *plan, size_t without) {
    struct plan again = plan_held(plan->view, plan->released);
    for (size_t c = 0; c < plan->choice_count; c++) {
        if (c != without) {
            plan_add(&again, plan->choices[c]);
        }
    }
    return again;
}

/* Adds candidates while they lower the cost per work below `e`, then exchanges single ones for better ones. Returns
 * E_A. */
static double plan_fill(struct plan *plan, double e, size_t most) {
    struct choice best;
    while (plan->choice_count < most) {
        double lower = plan_best(plan, e, &best);
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
            if (!isinf(lower)) {
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

/* Section 4.2: an allocation is not renewed if the rest alone costs less per work. By that rule alone the only
 * allocation that works would be renewed at any price: hence the ceiling. */
static bool decide_release(const struct policy_view *view, bool *released, size_t h, size_t most) {
    if (view->held[h].renewed.P > view->offers[view->held[h].market].ceiling) {
        released[h] = true;
        return true;
    }
    struct plan with = plan_held(view, released);
    double e_with = policy_sum_cost_per_work(with.sum, &view->app, false);
    released[h] = true;
    struct plan without = plan_held(view, released);
    double e_without = policy_sum_cost_per_work(without.sum, &view->app, true);
    if (view->additions.joint) { /* beyond the paper: each with the best that could be bought beside it */
        e_with = plan_fill(&with, e_with, most);
        e_without = plan_fill(&without, e_without, most);
    }
    bool release = e_without < e_with;
    released[h] = release;
    return release;
}

size_t policy_decide(const struct policy_view *view, struct policy_action actions[POLICY_ACTIONS_MAX],
                     double *cost_per_work) {
    bool released[POLICY_HELD_MAX] = {false};
    assert(view->held_count <= POLICY_HELD_MAX);
    size_t count = 0;
    size_t most = view->additions.joint ? POLICY_JOINT_MAX : 1;
    struct plan held = plan_held(view, released);
    *cost_per_work = policy_sum_cost_per_work(held.sum, &view->app, false);
    bool changed = false;
    for (size_t h = 0; h < view->held_count; h++) {
        if (view->held[h].expiring) {
            bool release = decide_release(view, released, h, most);
            changed = changed || release;
            actions[count++] = (struct policy_action){.kind = release ? POLICY_RELEASE : POLICY_RENEW, .index = h};
        }
    }
    struct plan plan = plan_held(view, released);
    double e = policy_sum_cost_per_work(plan.sum, &view->app, changed);
    for (size_t a = 0; a < count; a++) {
        actions[a].cost_per_work = e;
    }
    (void)plan_fill(&plan, e, most);
    struct plan so_far = plan_held(view, released);
    for (size_t c = 0; c < plan.choice_count; c++) {
        plan_add(&so_far, plan.choices[c]);
        actions[count++] =
            (struct policy_action){.kind = POLICY_ACQUIRE,
                                   .index = plan.choices[c].offer,
                                   .delta = plan.choices[c].delta,
                                   .count = plan.choices[c].count,
                                   .cost_per_work = policy_sum_cost_per_work(so_far.sum, &view->app, true)};
    }
    return count;
}
