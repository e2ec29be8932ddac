/* bidbrain/policy/policy: the equations by hand, sums against the equations, and decisions. The cheapest work wins,
 * limits hold, on-demand machines are never released, expiring allocations are renewed or released, additions work
 * as specified. */

#include "agileml/base/hash.h"
#include "bidbrain/policy/policy.h"
#include "tests/test.h"

#include <math.h>

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-9 * fmax(1, fabs(b)))) {
        fail_msg("%.12g is not %.12g", a, b);
    }
}

static const struct policy_app APP = {.phi = 0.9, .sigma = 0.05, .lambda = 0.1};

/* 64 machines of 8 cores at 0.1 dollars with half an hour left, evicted with probability 0.2; and an allocation that
 * only costs. */
static const struct policy_allocation SPOT = {
    .k = 64, .P = 0.1, .beta = 0.2, .omega = 0.45, .t_r = 0.5, .nu = 8, .refund = true};
static const struct policy_allocation RELIABLE = {.k = 3, .P = 0.209, .omega = 1, .t_r = 1};

TEST(equations_by_hand) {
    const struct policy_allocation both[] = {SPOT, RELIABLE};
    assert_near(policy_cost(&SPOT), 0.8 * 0.1 * 64 * 0.5); /* (1) */
    assert_near(policy_cost(&RELIABLE), 3 * 0.209);
    assert_near(policy_any_eviction(both, 2), 0.2);
    assert_near(policy_useful_time(&SPOT, 0.2, &APP, true), 0.45 - 0.2 * 0.1 - 0.05); /* (2) */
    assert_near(policy_useful_time(&SPOT, 0.2, &APP, false), 0.45 - 0.2 * 0.1);
    assert_near(policy_work(both, 2, &APP, true), 64 * 0.38 * 8 * 0.9); /* (3) */
    assert_near(policy_cost_per_work(both, 2, &APP, true), (2.56 + 0.627) / (64 * 0.38 * 8 * 0.9));
    assert_true(isinf(policy_cost_per_work(&RELIABLE, 1, &APP, false)));
    const struct policy_allocation two[] = {SPOT, SPOT};
    assert_near(policy_any_eviction(two, 2), 1 - 0.8 * 0.8);
    struct policy_allocation paid = SPOT;
    paid.refund = false;
    assert_near(policy_cost(&paid), 0.1 * 64 * 0.45);
    /* The paper's figure 6: phase 1 has an on-demand allocation without work and a spot allocation. A second spot
     * allocation raises the cost but lowers the cost per work, as more work shares the on-demand part. */
    const struct policy_allocation phase1[] = {RELIABLE, SPOT};
    const struct policy_allocation phase2[] = {RELIABLE, SPOT, SPOT};
    const struct policy_app smooth = {.phi = 1};
    assert_true(policy_cost_per_work(phase2, 3, &smooth, false) < policy_cost_per_work(phase1, 2, &smooth, false));
}

static double random_unit(uint64_t *seed) {
    *seed = hash_mix(*seed);
    return (double)(*seed >> 11) / 9007199254740992.0;
}

TEST(sums_agree_with_the_equations) {
    uint64_t seed = 3;
    for (int i = 0; i < 2000; i++) {
        struct policy_allocation x[6];
        struct policy_sum sum = POLICY_SUM_NONE;
        size_t count = 1 + (size_t)(random_unit(&seed) * 5);
        struct policy_app app = {.phi = random_unit(&seed),
                                 .sigma = 0.1 * random_unit(&seed),
                                 .lambda = 0.1 * random_unit(&seed),
                                 .reference = i % 2 == 0 ? 0 : 300};
        for (size_t a = 0; a < count; a++) {
            double t_r = random_unit(&seed);
            double beta = random_unit(&seed);
            x[a] = (struct policy_allocation){.k = 1 + floor(64 * random_unit(&seed)),
                                              .P = random_unit(&seed),
                                              .beta = beta,
                                              .omega = policy_omega(beta, t_r * random_unit(&seed), t_r),
                                              .t_r = t_r,
                                              .nu = floor(16 * random_unit(&seed)),
                                              .refund = i % 3 != 0};
            sum = policy_sum_add(sum, &x[a]);
        }
        double direct = policy_cost_per_work(x, count, &app, i % 5 == 0);
        double summed = policy_sum_cost_per_work(sum, &app, i % 5 == 0);
        assert_true(isinf(direct) ? isinf(summed) : fabs(direct - summed) <= 1e-9 * fabs(direct));
    }
}

static struct policy_offer offer(double P, double nu, double beta, double median) {
    struct policy_offer result = {.P = P, .ceiling = 10, .nu = nu, .vcpus = nu, .open = true, .deltas = 2};
    result.delta[0] = 0.001;
    result.delta[1] = 0.1;
    result.beta[0] = result.beta[1] = beta;
    result.median[0] = result.median[1] = median;
    return result;
}

static struct policy_view view_of(const struct policy_offer *offers, size_t count) {
    return (struct policy_view){
        .app = {.phi = 1, .sigma = 0.01, .lambda = 0.02},
        .limits = {.most_machines = 1000, .most_vcpus = 512, .most_dollars_per_hour = 1000, .least_markets = 1},
        .on_demand = RELIABLE,
        .offers = offers,
        .offer_count = count};
}

TEST(the_cheapest_work_is_bought) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(0.3, 16, 0, 0.5), offer(0.01, 8, 0, 0.5)};
    offers[2].open = false; /* cooling down */
    struct policy_view view = view_of(offers, 3);
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_true(isinf(e));
    assert_int_equal(actions[0].kind, POLICY_ACQUIRE);
    assert_int_equal(actions[0].index, 1);
    assert_near(actions[0].count, 32);
    assert_near(actions[0].cost_per_work, (0.3 * 32 + 0.627) / (512 * (1 - 0.01)));
}

/* Work is measured by nu, limits by vCPUs. */
TEST(slow_machines_fill_the_limits_like_fast_ones) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.1, 8, 0, 0.5), offer(0.15, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 2);
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].index, 0);
    offers[0].nu = 4; /* half the speed per vCPU: the dearer machines cost less for their work */
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].index, 1);
    assert_near(actions[0].count, 64);
    offers[1].open = false;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].index, 0);
    assert_near(actions[0].count, 64);
    assert_near(actions[0].cost_per_work, (0.1 * 64 + 0.627) / (256 * (1 - 0.01)));
    view.limits.least_markets = 4;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_near(actions[0].count, 16);
}

TEST(a_lower_bid_is_taken_for_free_computing_unless_evictions_cost_more) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5)};
    offers[0].beta[0] = 0.6;
    struct policy_view view = view_of(offers, 1);
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].delta, 0);
    view.app.lambda = 1; /* each eviction loses an hour */
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].delta, 1);
}

static struct policy_held held_in(size_t market, const struct policy_offer *from, double count, double t_r) {
    struct policy_allocation x = policy_candidate(from, 0, count);
    struct policy_held held = {.market = market, .now = x, .renewed = x};
    held.now.t_r = t_r;
    held.now.omega = policy_omega(x.beta, fmin(0.5, t_r / 2), t_r);
    return held;
}

TEST(limits_hold) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(0.21, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 2);
    view.limits.most_machines = 10;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_near(actions[0].count, 10);
    view = view_of(offers, 2);
    view.limits.most_dollars_per_hour = 0.627 + 1.05; /* the on-demand machines count */
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_near(actions[0].count, 5);
    view = view_of(offers, 2);
    view.limits.least_markets = 2;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_near(actions[0].count, 32);
    struct policy_held held = held_in(actions[0].index, &offers[actions[0].index], 32, 1);
    offers[actions[0].index].held = 32;
    size_t first = actions[0].index;
    view.held = &held;
    view.held_count = 1;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_true(actions[0].index != first);
    view.limits.most_vcpus = 256;
    assert_int_equal(policy_decide(&view, actions, &e), 0);
}

TEST(expiring_allocations_are_renewed_unless_too_dear) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(0.2, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 2);
    struct policy_held held[2] = {held_in(0, &offers[0], 32, 0.9), held_in(1, &offers[1], 32, 0.03)};
    offers[0].held = offers[1].held = 32;
    held[1].expiring = true;
    view.held = held;
    view.held_count = 2;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    assert_int_equal(actions[0].index, 1);
    offers[1].P = held[1].renewed.P = 2; /* the price has risen tenfold, still below our bid */
    size_t count = policy_decide(&view, actions, &e);
    assert_true(count >= 1);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
    assert_int_equal(actions[0].index, 1);
    /* The only allocation that works: the paper's rule keeps it at any price, a joint choice replaces it. */
    view.held = &held[1];
    view.held_count = 1;
    offers[0].held = 0;
    assert_true(policy_decide(&view, actions, &e) >= 1);
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    view.additions.joint = true;
    count = policy_decide(&view, actions, &e);
    assert_int_equal(count, 2);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
    assert_int_equal(actions[1].kind, POLICY_ACQUIRE);
    assert_int_equal(actions[1].index, 0);
}

/* An allocation dearer than on demand is released even if nothing else works. */
TEST(no_more_than_on_demand_is_paid) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 1);
    offers[0].ceiling = 0.2;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    offers[0].ceiling = 0.1999;
    assert_int_equal(policy_decide(&view, actions, &e), 0);
    struct policy_held held = held_in(0, &offers[0], 10, 0.03);
    held.expiring = true;
    offers[0].held = 10;
    view.held = &held;
    view.held_count = 1;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
}

/* How many machines of an allocation are renewed; 0: it is released. */
static double renewed(const struct policy_view *view) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    assert_true(policy_decide(view, actions, &e) >= 1);
    assert_true(actions[0].kind == POLICY_RENEW || actions[0].kind == POLICY_RELEASE);
    return actions[0].kind == POLICY_RENEW ? actions[0].count : 0;
}

static const struct policy_end END = {.deadline = INFINITY, .whole_hours = true};

/* The hours of 64 machines of 8 vCPUs end; fewer machines are enough for the rest of the job. */
TEST(no_more_is_renewed_than_the_job_needs) {
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 1);
    struct policy_held held = held_in(0, &offers[0], 64, 0.03);
    held.expiring = true;
    offers[0].held = 64;
    view.held = &held;
    view.held_count = 1;
    view.end = END;
    view.end.work = 64 * 8 * 10; /* ten hours of work: not near the end */
    assert_false(policy_is_end(&view));
    assert_near(renewed(&view), 64);
    view.end.work = 64 * 8 * 0.2; /* a fifth of an hour for all machines; an hour for 13, or 14 with sigma */
    assert_true(policy_is_end(&view));
    assert_near(renewed(&view), 16); /* a quarter: the next of POLICY_RENEW_STEPS */
    view.end.work = 64 * 8 * 0.01;
    assert_near(renewed(&view), 4);
    /* A saved hour is worth more than the machines cost: all are renewed. */
    view.end.work = 64 * 8 * 0.2;
    view.end.hour_worth = 100;
    assert_near(renewed(&view), 64);
    /* Billed by the second, all machines together cost as much as a few for a longer time; sigma decides for all. */
    view.end.hour_worth = 0;
    view.end.whole_hours = false;
    assert_near(renewed(&view), 64);
    /* With a deadline in half an hour, just enough machines are renewed. */
    view.end.whole_hours = true;
    view.end.deadline = 0.5;
    assert_near(renewed(&view), 28); /* with a margin of a twentieth */
}

/* Machines whose hours are paid can finish the job: no others are bought or renewed. */
TEST(paid_hours_are_used_first) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(0.01, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 2);
    struct policy_held held[2] = {held_in(0, &offers[0], 32, 0.9), held_in(0, &offers[0], 10, 0.03)};
    held[1].expiring = true;
    offers[0].held = 42;
    view.held = held;
    view.held_count = 2;
    view.end = END;
    view.end.work = 32 * 8 * 0.5;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
    /* The rest takes half an hour more than is paid: some machines must go on. */
    view.end.work = 32 * 8 * 1.4;
    size_t count = policy_decide(&view, actions, &e);
    assert_true(count > 1 || actions[0].kind == POLICY_RENEW);
}

/* A new job takes a little more than an hour on all machines: half of them for two hours cost half. */
TEST(as_many_are_bought_as_end_within_whole_hours) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 1);
    view.end = END;
    view.end.work = 512 * 1.07;
    view.end.boot = 0.03;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].kind, POLICY_ACQUIRE);
    double bought = actions[0].count;
    double hours = view.end.work / (bought * 8) + view.end.boot + view.app.sigma;
    assert_true(bought < 40 && hours <= 2);
    /* Half of the machines would miss this deadline: more are bought. */
    view.end.deadline = 1.5;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    hours = view.end.work / (actions[0].count * 8) + view.end.boot + view.app.sigma;
    assert_true(actions[0].count > bought && hours <= 1.5);
}

/* A dear offer without evictions is bought only for a deadline. */
TEST(a_deadline_pays_for_on_demand) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(1, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 2);
    view.end = END;
    view.end.work = 512 * 3;
    view.end.deadline = 20;
    size_t count = policy_decide(&view, actions, &e);
    assert_int_equal(count, 1);
    assert_int_equal(actions[0].index, 0);
    offers[0].open = false; /* no spot machine can be had */
    view.end.deadline = 4;
    count = policy_decide(&view, actions, &e);
    assert_int_equal(count, 1);
    assert_int_equal(actions[0].index, 1);
    assert_true(actions[0].count * 8 * 4 >= view.end.work);
}

static bool first_two(const void *context, size_t a, size_t b) {
    return a + b == 1;
}

TEST(diversity_bounds_correlated_markets_together) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.2, 8, 0, 0.5), offer(0.201, 8, 0, 0.5), offer(0.21, 8, 0, 0.5)};
    struct policy_view view = view_of(offers, 3);
    view.additions.joint = view.additions.diverse = true;
    view.correlated = first_two;
    size_t count = policy_decide(&view, actions, &e);
    double by_market[3] = {0};
    for (size_t a = 0; a < count; a++) {
        assert_int_equal(actions[a].kind, POLICY_ACQUIRE);
        by_market[actions[a].index] += actions[a].count;
    }
    assert_near(by_market[0] + by_market[1] + by_market[2], 64);
    assert_near(by_market[0] + by_market[1], 32);
}

/* In any market, decisions keep the limits and never raise the cost per work above that of no change. A joint choice
 * is never worse than a single step. */
TEST(decisions_are_sound) {
    uint64_t seed = 9;
    for (int i = 0; i < 500; i++) {
        struct policy_offer offers[8];
        struct policy_held held[3];
        size_t held_count = (size_t)(random_unit(&seed) * 4);
        for (size_t m = 0; m < 8; m++) {
            offers[m] = offer(0.01 + random_unit(&seed), 1 + floor(16 * random_unit(&seed)), random_unit(&seed),
                              random_unit(&seed));
            offers[m].beta[1] *= 0.3;
            offers[m].open = random_unit(&seed) < 0.8;
        }
        struct policy_view view = view_of(offers, 8);
        double work = 0;
        for (size_t h = 0; h < held_count; h++) {
            size_t market = (size_t)(random_unit(&seed) * 8);
            double count = floor(10 * random_unit(&seed)) + 1;
            held[h] = held_in(market, &offers[market], count, random_unit(&seed));
            held[h].expiring = random_unit(&seed) < 0.3;
            offers[market].held += count;
            work += count * offers[market].nu;
        }
        view.held = held;
        view.held_count = held_count;
        double reached[2] = {0, 0};
        for (int joint = 0; joint < 2; joint++) {
            struct policy_action actions[POLICY_ACTIONS_MAX];
            double e;
            view.additions.joint = joint == 1;
            size_t count = policy_decide(&view, actions, &e);
            double after = work;
            size_t answered = 0;
            for (size_t a = 0; a < count; a++) {
                if (actions[a].kind == POLICY_ACQUIRE) {
                    assert_true(offers[actions[a].index].open && actions[a].count >= 1);
                    after += actions[a].count * offers[actions[a].index].nu;
                } else {
                    assert_true(held[actions[a].index].expiring);
                    answered++;
                    after -= actions[a].kind == POLICY_RELEASE
                                 ? held[actions[a].index].now.k * held[actions[a].index].now.nu
                                 : 0;
                }
            }
            for (size_t h = 0; h < held_count; h++) {
                answered -= held[h].expiring;
            }
            assert_int_equal(answered, 0);
            assert_true(after <= 512 + 1e-6 || after <= work);
            reached[joint] = count > 0 ? actions[count - 1].cost_per_work : e;
            assert_true(reached[joint] <= e * (1 + 1e-9));
        }
        if (held_count == 0) {
            assert_true(reached[1] <= reached[0] * (1 + 1e-9));
        }
    }
}

TEST(every_expiring_allocation_is_answered) {
    struct policy_offer offers[1] = {offer(0.02, 4, 0.1, 0.1)};
    struct policy_held held[POLICY_HELD_MAX];
    struct policy_action actions[POLICY_ACTIONS_MAX];
    bool answered[POLICY_HELD_MAX] = {false};
    struct policy_view view = view_of(offers, 1);
    double e;
    for (size_t h = 0; h < POLICY_HELD_MAX; h++) {
        held[h] = held_in(0, &offers[0], 1, 0.03);
        held[h].expiring = true;
        offers[0].held += 1;
    }
    view.held = held;
    view.held_count = POLICY_HELD_MAX;
    size_t count = policy_decide(&view, actions, &e);
    assert_in_range(count, POLICY_HELD_MAX, POLICY_ACTIONS_MAX);
    for (size_t a = 0; a < POLICY_HELD_MAX; a++) {
        assert_true(actions[a].kind != POLICY_ACQUIRE && !answered[actions[a].index]);
        answered[actions[a].index] = true;
    }
}

/* ---- Without reliable machines ---- */

static const struct policy_copies COPIES = {.spread = true, .lost = 2, .copied = 0.02, .replaced = 0.1};

TEST(groups_by_hand) {
    const struct policy_group groups[] = {{0, 0.2}, {1, 0.1}, {2, 0}};
    assert_near(policy_state_lost(groups, 0, &COPIES), 0);
    assert_near(policy_state_lost(groups, 1, &COPIES), 0.2); /* the only group has both copies */
    /* Both groups are lost if the second goes within a tenth of an hour after the first, in either order. */
    assert_near(policy_state_lost(groups, 2, &COPIES), 0.2 * (1 - pow(0.9, 0.1)) + 0.1 * (1 - pow(0.8, 0.1)));
    /* With a third group, copies are remade on the two that are left. A third group that is never lost has no other
     * effect. */
    assert_near(policy_state_lost(groups, 3, &COPIES), 0.2 * (1 - pow(0.9, 0.02)) + 0.1 * (1 - pow(0.8, 0.02)));
    const struct policy_group sure[] = {{0, 1}, {1, 1}};
    assert_near(policy_state_lost(sure, 2, &COPIES), 1);
    struct policy_app transient = APP;
    transient.copies = COPIES;
    struct policy_sum sum = policy_sum_add(POLICY_SUM_NONE, &SPOT);
    sum = policy_sum_add(sum, &SPOT);
    /* A price spike evicts both allocations of a group: one recovery. */
    double once = sum.omega - sum.rate * 0.2 * APP.lambda;
    assert_near(policy_sum_cost_in_groups(sum, groups, 1, &transient, false),
                sum.cost * (1 + 0.2 * 2) / (once * APP.phi));
    transient.copies.lost = 0; /* a checkpoint each clock */
    assert_true(policy_sum_cost_in_groups(sum, groups, 1, &transient, false) <
                policy_sum_cost_per_work(sum, &APP, false));
}

static struct policy_view transient_view(const struct policy_offer *offers, size_t count) {
    struct policy_view view = view_of(offers, count);
    view.on_demand = (struct policy_allocation){0};
    view.app.copies = COPIES;
    return view;
}

/* One market may have half of each limit; a second market is bought in, however dear its work is. */
TEST(without_reliable_machines_two_markets_are_bought) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.1, 8, 0.1, 0.5), offer(0.9, 8, 0.1, 0.5), offer(2, 8, 0, 0.5)};
    for (size_t m = 0; m < 3; m++) {
        offers[m].group = m;
    }
    offers[2].ceiling = 1;
    for (int joint = 0; joint < 2; joint++) {
        struct policy_view view = transient_view(offers, 3);
        view.additions.joint = joint == 1;
        assert_int_equal(policy_decide(&view, actions, &e), 2);
        assert_int_equal(actions[0].index, 0);
        assert_near(actions[0].count, 32); /* half of 64 */
        assert_int_equal(actions[1].index, 1);
        view.limits.most_machines = 4;
        assert_int_equal(policy_decide(&view, actions, &e), 2);
        assert_near(actions[0].count, 2);
        view.limits.most_machines = 1; /* no room for a second machine */
        assert_int_equal(policy_decide(&view, actions, &e), 1);
        view.limits.most_machines = 1000;
        view.limits.most_dollars_per_hour = 2;
        assert_int_equal(policy_decide(&view, actions, &e), 2);
        assert_near(actions[0].count, 10);
        assert_near(actions[1].count, 1);
    }
    struct policy_view view = transient_view(offers, 3);
    offers[1].ceiling = 0.5; /* no second market can be had */
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_near(actions[0].count, 32);
    offers[1].ceiling = 10;
    offers[1].group = 0; /* the other offer has the same type and zone */
    view.additions.joint = true;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    offers[1].group = 1;
    offers[1].coming = 4; /* machines of the other market are pending */
    offers[1].coming_beta = 0.1;
    view.limits.coming_machines = 4;
    view.limits.coming_vcpus = 32;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].index, 0);
    view.on_demand = RELIABLE; /* machines that are never lost are a group */
    offers[1].coming = 0;
    assert_int_equal(policy_decide(&view, actions, &e), 1);
}

TEST(the_last_two_markets_are_kept) {
    struct policy_action actions[POLICY_ACTIONS_MAX];
    double e;
    struct policy_offer offers[] = {offer(0.1, 8, 0, 0.5), offer(0.9, 8, 0, 0.5), offer(0.8, 8, 0, 0.5)};
    struct policy_held held[3];
    for (size_t m = 0; m < 3; m++) {
        offers[m].group = m;
        offers[m].held = 16;
        held[m] = held_in(m, &offers[m], 16, 0.9);
    }
    held[1].expiring = true;
    struct policy_view view = transient_view(offers, 2);
    view.held = held;
    view.held_count = 2;
    offers[0].open = offers[2].open = false;
    assert_true(policy_decide(&view, actions, &e) >= 1);
    /* as few as are allowed, since their work costs nine times as much */
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    assert_near(actions[0].count, 4);
    offers[1].ceiling = 0.5; /* even at a price that is otherwise never paid */
    assert_int_equal(policy_decide(&view, actions, &e), 1);
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    assert_near(actions[0].count, 4);
    offers[2].open = true; /* another market opens: machines there are bought at once */
    offers[2].held = 0;
    view.offer_count = 3;
    assert_int_equal(policy_decide(&view, actions, &e), 2);
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    assert_int_equal(actions[1].kind, POLICY_ACQUIRE);
    assert_int_equal(actions[1].index, 2);
    view.held_count = 3; /* when they run, the dear machines are released */
    offers[2].held = 16;
    assert_true(policy_decide(&view, actions, &e) >= 1);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
    held[2].coming = true; /* but not while they are pending */
    assert_true(policy_decide(&view, actions, &e) >= 1);
    assert_int_equal(actions[0].kind, POLICY_RENEW);
    held[2].coming = false;
    view.app.copies.spread = false;
    view.held_count = 2;
    assert_true(policy_decide(&view, actions, &e) >= 1);
    assert_int_equal(actions[0].kind, POLICY_RELEASE);
}

/* In any market, near the end or not: a decision never reduces two or more groups to fewer than two, and buys in an
 * available second group. */
TEST(no_decision_leaves_one_market) {
    uint64_t seed = 21;
    for (int i = 0; i < 1000; i++) {
        struct policy_offer offers[6];
        struct policy_held held[5];
        size_t held_count = (size_t)(random_unit(&seed) * 6);
        for (size_t m = 0; m < 6; m++) {
            offers[m] = offer(0.01 + random_unit(&seed), 4, random_unit(&seed), random_unit(&seed));
            offers[m].ceiling = 0.7;
            offers[m].open = random_unit(&seed) < 0.6;
            offers[m].group = m < 5 ? m : 4;
        }
        struct policy_view view = transient_view(offers, 6);
        for (size_t h = 0; h < held_count; h++) {
            size_t market = (size_t)(random_unit(&seed) * 6);
            held[h] = held_in(market, &offers[market], 1 + floor(8 * random_unit(&seed)), random_unit(&seed));
            held[h].expiring = random_unit(&seed) < 0.6;
            offers[market].held += held[h].now.k;
        }
        view.held = held;
        view.held_count = held_count;
        view.additions.joint = i % 2 == 0;
        if (i % 3 == 0) {
            view.end = (struct policy_end){.work = 1 + 500 * random_unit(&seed), .deadline = INFINITY, .boot = 0.03};
        }
        struct policy_action actions[POLICY_ACTIONS_MAX];
        double e;
        size_t count = policy_decide(&view, actions, &e);
        bool before[6] = {false};
        bool after[6] = {false};
        bool lasting[6] = {false};
        bool offered[6] = {false};
        double stays[5];
        for (size_t h = 0; h < held_count; h++) {
            stays[h] = held[h].now.k;
        }
        for (size_t a = 0; a < count; a++) {
            if (actions[a].kind == POLICY_ACQUIRE) {
                lasting[offers[actions[a].index].group] = true;
            } else {
                stays[actions[a].index] = actions[a].kind == POLICY_RENEW ? actions[a].count : 0;
            }
        }
        for (size_t h = 0; h < held_count; h++) {
            size_t group = offers[held[h].market].group;
            before[group] = true;
            after[group] = after[group] || stays[h] > 0;
            lasting[group] = lasting[group] || (stays[h] > 0 && offers[group].P <= offers[group].ceiling);
        }
        for (size_t m = 0; m < 6; m++) {
            offered[offers[m].group] = offered[offers[m].group] || (offers[m].open && offers[m].P <= offers[m].ceiling);
        }
        size_t were = 0;
        size_t are = 0;
        size_t last = 0;
        size_t more = 0; /* groups that are missing and could be bought */
        for (size_t g = 0; g < 6; g++) {
            were += before[g];
            are += after[g];
            last += lasting[g];
            more += offered[g] && !lasting[g] && !after[g];
        }
        assert_true(are >= (were < 2 ? were : 2));
        assert_true(last >= 2 || more == 0 || (view.end.work > 0 && count == 0));
    }
}
