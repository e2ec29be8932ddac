/* bidbrain/daemon/footprint: decisions on made-up states and markets. */

#include "bidbrain/daemon/footprint.h"
#include "tests/test.h"

#include <math.h>

#define NOW INT64_C(1456790400) /* 2016-03-01 */
enum { MACHINES = 16, LAUNCHES = 4, LEAD = 120 };

static const struct catalog_price TYPES[2] = {{"us-east-1", "cheap.large", 100000, 4, 8192},
                                              {"us-east-1", "dear.large", 200000, 4, 8192}};
static const struct catalog_price RELIABLE = {"us-east-1", "own.large", 120000, 4, 8192};

/* Two spot markets, and the cheap type on demand. */
struct world {
    struct markets prices;
    struct portfolio_market markets[3];
    struct interruptions interruptions;
    struct eviction eviction;
    struct eviction_table table;
    struct ledger_machine machines[MACHINES];
    struct ledger_launch launches[LAUNCHES];
    const struct ledger_machine *machine_rows[MACHINES];
    const struct ledger_launch *launch_rows[LAUNCHES];
    int64_t release_at[MACHINES];
    struct footprint f;
    struct portfolio_plan plan;
};

static void world_open(struct world *w, const struct market_rules *rules, int64_t cheap, int64_t dear) {
    static const int64_t on_demand[] = {100000, 200000};
    *w = (struct world){0};
    assert_int_equal(markets_add(&w->prices, "cheap.large", "us-east-1a", "p",
                                 (struct market_point){NOW - 30 * INT64_C(86400), cheap}, NULL),
                     0);
    assert_int_equal(markets_add(&w->prices, "dear.large", "us-east-1a", "p",
                                 (struct market_point){NOW - 30 * INT64_C(86400), dear}, NULL),
                     0);
    markets_finish(&w->prices);
    for (int i = 0; i < MACHINES; i++) {
        w->machine_rows[i] = &w->machines[i];
    }
    for (int l = 0; l < LAUNCHES; l++) {
        w->launch_rows[l] = &w->launches[l];
    }
    for (int m = 0; m < 2; m++) {
        w->markets[m] = (struct portfolio_market){.prices = w->prices.list[m], .type = &TYPES[m], .zone = "us-east-1a"};
    }
    w->markets[2] = (struct portfolio_market){.type = &TYPES[0], .zone = "us-east-1a"};
    eviction_open(&w->eviction, &w->prices, on_demand);
    eviction_advance(&w->eviction, NOW);
    eviction_table_open(&w->table, &w->eviction, EVICTION_CHOSEN, NOW);
    assert_int_equal(interruptions_open(&w->interruptions, "none", &w->prices, NULL), 0);
    w->f = (struct footprint){
        .known = {.rules = rules,
                  .now = NOW,
                  .lead = LEAD,
                  .markets = w->markets,
                  .market_count = 3,
                  .reference = &RELIABLE,
                  .table = &w->table,
                  .by_regime = true,
                  .interruptions = &w->interruptions,
                  .reliable = 1,
                  .reliable_type = &RELIABLE,
                  .app = {.phi = 1, .sigma = 0.005, .lambda = 0.01},
                  .limits = {.most_machines = 100, .most_vcpus = 40, .most_dollars_per_hour = 1000, .least_markets = 1},
                  .additions = {.joint = true}},
        .decision_seconds = 120,
        .notice_seconds = 120,
        .launches = w->launch_rows,
        .machines = w->machine_rows,
        .budget_micro = INT64_MAX};
}

static void world_close(struct world *w) {
    eviction_table_close(&w->table);
    eviction_close(&w->eviction);
    interruptions_close(&w->interruptions);
    markets_close(&w->prices);
}

static struct ledger_machine *add_machine(struct world *w, const char *type, enum provider_kind kind, int64_t age) {
    struct ledger_machine *machine = &w->machines[w->f.machine_count];
    *machine = (struct ledger_machine){
        .machine = {.kind = kind, .zone = "us-east-1a", .state = MACHINE_RUNNING, .launched = NOW - age},
        .bid = kind == PROVIDER_SPOT ? 90000 : 0,
        .running = NOW - age};
    snprintf(machine->machine.id, sizeof machine->machine.id, "i-%zu", w->f.machine_count);
    snprintf(machine->machine.token, sizeof machine->machine.token, "t-%s-%lld", type, (long long)age);
    snprintf(machine->machine.type, sizeof machine->machine.type, "%s", type);
    w->f.machine_count++;
    return machine;
}

static void decide(struct world *w) {
    memset(w->release_at, 0, sizeof w->release_at);
    footprint_decide(&w->f, &w->plan, w->release_at);
}

static int64_t next_look(const struct world *w) {
    int64_t next = MARKET_NEVER;
    for (size_t i = 0; i < w->f.machine_count; i++) {
        int64_t look = footprint_look(&w->machines[i], NOW, LEAD);
        next = look < next ? look : next;
    }
    return next;
}

static unsigned bought(const struct world *w) {
    unsigned count = 0;
    for (size_t b = 0; b < w->plan.buy_count; b++) {
        count += w->plan.buys[b].count;
    }
    return count;
}

TEST(buys_the_cheapest_up_to_the_limits) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    decide(&w);
    assert_int_equal(bought(&w), 10); /* up to 40 vCPUs */
    assert_int_equal(w.plan.buys[0].market, 0);
    assert_true(w.plan.buys[0].bid > 20000);
    assert_true(isinf(w.plan.cost_per_work)); /* no machine worked before */
    w.f.known.limits.most_machines = 3;
    decide(&w);
    assert_int_equal(bought(&w), 3);
    w.f.known.limits.most_machines = 100;
    w.f.known.limits.most_dollars_per_hour = 0.12 + 0.1; /* the reliable machine, and five at 0.02 */
    decide(&w);
    assert_int_equal(bought(&w), 5);
    w.f.known.limits.most_dollars_per_hour = 1000;
    w.f.known.limits.least_markets = 2;
    decide(&w);
    assert_int_equal(w.plan.buys[0].count, 5);
    w.f.known.limits.least_markets = 1;
    w.markets[0].closed_until = NOW + 1; /* the cheap market cools down: buy in the other */
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 1);
    w.markets[0].closed_until = NOW;
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 0);
}

TEST(measured_speeds_count) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 30000);
    w.markets[0].speed = 0.5; /* 0.01 for an hour's work of a vCPU; the other market costs 0.0075 */
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 1);
    assert_int_equal(bought(&w), 10); /* up to 40 vCPUs */
    w.markets[1].speed = 0.5;
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 0);
    assert_int_equal(bought(&w), 10);
    w.markets[0].speed = w.markets[1].speed = 0.1; /* work costs more than on machines on demand */
    decide(&w);
    assert_int_equal(bought(&w), 0);
    w.f.known.reference_speed = 0.1; /* machines on demand are as slow */
    decide(&w);
    assert_int_equal(bought(&w), 10);
}

TEST(types_of_unknown_speed_are_probed) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 30000);
    w.f.known.probes = 4;
    w.f.known.limits.most_vcpus = 128; /* 32 machines, an eighth of which may be probes */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 2);
    assert_int_equal(w.plan.buys[0].market, 0);
    assert_int_equal(w.plan.buys[0].count, 30); /* together with the probe as expensive as 32 */
    assert_false(w.plan.buys[0].probe);
    assert_int_equal(w.plan.buys[1].market, 1);
    assert_int_equal(w.plan.buys[1].count, 1);
    assert_true(w.plan.buys[1].probe);
    w.markets[0].speed = 2; /* even at the assumed highest speed, 2, the other type can't do work for less */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1);
    w.markets[0].speed = 0;
    w.markets[1].speed = 1; /* a known speed needs no probe */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1);
    w.markets[1].speed = 0;
    w.f.known.limits.most_vcpus = 40; /* an eighth of ten machines is too little */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1);
    w.f.known.limits.most_vcpus = 128;
    w.f.known.end = (struct policy_end){.work = 20, .deadline = INFINITY}; /* nearly done */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1);
    w.f.known.end.work = 0;
    add_machine(&w, "dear.large", PROVIDER_SPOT, 600); /* a machine of the other type runs already */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1);
    assert_int_equal(w.plan.buys[0].market, 0);
}

TEST(pending_is_not_bought_twice_and_does_not_work) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    w.launches[0] = (struct ledger_launch){
        .launch = {.token = "t", .type = "cheap.large", .zone = "us-east-1a", .count = 6}, .stage = LEDGER_PLANNED};
    w.f.launch_count = 1;
    decide(&w);
    assert_int_equal(bought(&w), 4);
    assert_true(isinf(w.plan.cost_per_work));
    static const enum ledger_stage stages[] = {LEDGER_SENT, LEDGER_WAITING};
    for (int s = 0; s < 2; s++) {
        w.launches[0].stage = stages[s];
        decide(&w);
        assert_int_equal(bought(&w), 4);
    }
    /* Two of the launch's machines are known, but do not run yet: still six in all. */
    for (int i = 0; i < 2; i++) {
        struct ledger_machine *machine = add_machine(&w, "cheap.large", PROVIDER_SPOT, 10);
        strcpy(machine->machine.token, "t");
        machine->running = 0;
        machine->machine.state = MACHINE_PENDING;
    }
    decide(&w);
    assert_int_equal(bought(&w), 4);
    assert_true(isinf(w.plan.cost_per_work));
    w.launches[0].stage = LEDGER_FILLED; /* filled, with no more machines */
    decide(&w);
    assert_int_equal(bought(&w), 8);
    w.machines[0].running = w.machines[1].running = NOW - 5;
    decide(&w);
    assert_int_equal(bought(&w), 8);
    assert_true(isfinite(w.plan.cost_per_work) != 0);
    w.machines[0].machine.noticed = true; /* a machine with a notice no longer takes a place */
    decide(&w);
    assert_int_equal(bought(&w), 9);
    w.machines[1].release_at = NOW + 60;
    decide(&w);
    assert_int_equal(bought(&w), 10);
    w.launches[0].stage = LEDGER_REFUSED;
    decide(&w);
    assert_int_equal(bought(&w), 10);
}

static unsigned released(const struct world *w) {
    unsigned count = 0;
    for (size_t i = 0; i < w->f.machine_count; i++) {
        count += w->release_at[i] != 0;
    }
    return count;
}

/* Only some of a launch's machines get another hour for the rest of the job; the others are released at their hour's
 * end. */
TEST(the_end_keeps_what_it_needs) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    for (int i = 0; i < 10; i++) {
        strcpy(add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100)->machine.token, "t");
    }
    w.f.known.end = (struct policy_end){.work = 12, .deadline = INFINITY, .boot = 0.03, .whole_hours = true};
    decide(&w); /* 12 vCPU-hours of work; ten machines give 40 */
    assert_int_equal(w.plan.renewed, 1);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.plan.buy_count, 0);
    assert_in_range(released(&w), 5, 7);
    assert_true(w.plan.hours_left > 0.6 && w.plan.hours_left <= 1);
    w.f.known.end.deadline = 0.5; /* the deadline needs all but a few machines */
    decide(&w);
    assert_in_range(released(&w), 1, 4);
    assert_true(w.plan.hours_left <= 0.5);
    w.f.known.end.work = 400; /* not near the end: the paper's rule applies */
    w.f.known.end.deadline = INFINITY;
    decide(&w);
    assert_int_equal(released(&w), 0);
}

/* Pending machines count as work for the end of the job. */
TEST(the_end_waits_for_what_is_under_way) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    w.f.known.end = (struct policy_end){.work = 12, .deadline = INFINITY, .boot = 0.03, .whole_hours = true};
    decide(&w);
    assert_in_range(bought(&w), 2, 4); /* not ten */
    w.launches[0] = (struct ledger_launch){
        .launch = {.token = "t", .type = "cheap.large", .zone = "us-east-1a", .count = 4, .bid = 90000},
        .stage = LEDGER_SENT};
    w.f.launch_count = 1;
    decide(&w);
    assert_int_equal(bought(&w), 0);
    w.f.known.end.work = 400;
    decide(&w);
    assert_int_equal(bought(&w), 6);
}

/* Machines on demand never fail but cost more. They are bought for a deadline that spot machines can't meet, and
 * only if allowed. */
TEST(a_deadline_may_pay_for_on_demand) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    w.f.known.end = (struct policy_end){.work = 38, .deadline = 1.2, .boot = 0.03, .whole_hours = true};
    w.markets[0].closed_until = w.markets[1].closed_until = NOW + HOUR;
    decide(&w);
    assert_int_equal(bought(&w), 0);
    w.f.known.fallback = FALLBACK_ALWAYS;
    decide(&w);
    assert_in_range(bought(&w), 9, 10);
    assert_null(w.f.known.markets[w.plan.buys[0].market].prices);
    w.markets[0].closed_until = NOW; /* spot is cheaper, and in time */
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 0);
}

TEST(hours_are_renewed_or_end) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    for (int i = 0; i < 10; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100);
    }
    decide(&w); /* 100 s before the hour's end, nothing better is offered */
    assert_int_equal(w.plan.renewed, 1);
    assert_int_equal(w.plan.released, 0);
    assert_int_equal(w.plan.buy_count, 0);
    assert_int_equal(next_look(&w), NOW + 100 - LEAD + HOUR);
    /* The dear market's machines are released at their hour's end when the cheap market is open again. */
    for (size_t i = 0; i < w.f.machine_count; i++) {
        strcpy(w.machines[i].machine.type, "dear.large");
    }
    decide(&w);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.release_at[0], NOW + 100);
    assert_int_equal(w.release_at[9], NOW + 100);
    assert_int_equal(w.plan.buys[0].market, 0);
    assert_int_equal(bought(&w), 10);
    /* In the middle of their hour machines are kept. */
    for (size_t i = 0; i < w.f.machine_count; i++) {
        w.machines[i].machine.launched = NOW - 1000;
    }
    decide(&w);
    assert_int_equal(w.plan.released + w.plan.renewed + w.plan.buy_count, (size_t)0);
    assert_int_equal(next_look(&w), NOW - 1000 + HOUR - LEAD);
}

/* An hour is renewed up to the cap on dollars an hour, not beyond. */
TEST(renewals_keep_the_rate) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    for (int i = 0; i < 10; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100);
    }
    double rate = w.f.known.reliable * price_dollars(w.f.known.reliable_type->price) + 10 * 0.02;
    w.f.known.limits.most_dollars_per_hour = rate;
    decide(&w);
    assert_int_equal(w.plan.renewed, 1);
    assert_int_equal(w.plan.released, 0);
    w.f.known.limits.most_dollars_per_hour = rate - 0.0001;
    decide(&w);
    assert_int_equal(w.plan.renewed, 0);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.release_at[9], NOW + 100);
}

TEST(on_demand_stands_in_and_goes_again) {
    struct world w;
    world_open(&w, &MARKET_EC2, 150000, 250000); /* both spot prices are above on demand */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 0);
    w.f.known.fallback = FALLBACK_ALWAYS;
    decide(&w);
    assert_int_equal(w.plan.buys[0].market, 2);
    assert_int_equal(w.plan.buys[0].bid, 0);
    assert_int_equal(bought(&w), 10);
    for (int i = 0; i < 10; i++) {
        add_machine(&w, "cheap.large", PROVIDER_ON_DEMAND, 1000)->fallback = true;
    }
    decide(&w); /* reconsidered at each decision; kept while nothing is cheaper */
    assert_int_equal(w.plan.renewed, 1);
    assert_int_equal(w.plan.buy_count, 0);
    world_close(&w);
    struct ledger_machine machines[MACHINES];
    memcpy(machines, w.machines, sizeof machines);
    world_open(&w, &MARKET_EC2, 20000, 250000);
    memcpy(w.machines, machines, sizeof machines);
    w.f.machine_count = 10;
    w.f.known.fallback = FALLBACK_ALWAYS;
    decide(&w);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.release_at[0], NOW + 120); /* billed by the second: released after the notice */
    assert_int_equal(w.plan.buys[0].market, 0);
    world_close(&w);
}

TEST(the_budget_holds) {
    struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    /* an hour of the reliable machine, and three and a half hours of spot machines */
    w.f.budget_micro = 120000 + 70000;
    decide(&w);
    assert_int_equal(bought(&w), 3);
    assert_true(w.plan.over_budget);
    for (int i = 0; i < 3; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100);
    }
    decide(&w); /* 60000 are spent; not enough is left for another hour of all three */
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.plan.buy_count, 0);
    assert_true(w.plan.over_budget);
    w.f.budget_micro = 1000000;
    w.f.known.limits.most_vcpus = 12;
    decide(&w);
    assert_int_equal(w.plan.renewed, 1);
    world_close(&w);
    world_open(&w, &MARKET_EC2, 20000, 60000);
    for (int i = 0; i < 10; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, 1800); /* half an hour: 100000 in all */
    }
    w.f.budget_micro = 1000000;
    decide(&w);
    assert_int_equal(w.plan.released, 0);
    w.f.budget_micro = 110000; /* reached within the next decisions */
    decide(&w);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.release_at[9], NOW + 120);
    assert_int_equal(w.plan.buy_count, 0);
    world_close(&w);
}

TEST(the_reasons_for_buying_nothing) {
    static const struct {
        int64_t cheap, dear;
        double vcpus, rate, budget;
        unsigned least_markets;
        bool closed;
        const char *text;
    } cases[] = {
        {20000, 60000, 3, 1000, 1000, 1, false, "of 2 markets 2 with more vCPUs a machine than limits.most_vcpus (3)"},
        {20000, 60000, 8, 1000, 1000, 3, false,
         "of 2 markets 2 with more vCPUs a machine than limits.most_vcpus / least_markets (8 / 3)"},
        {20000, 60000, 8, 0.15, 1000, 1, false,
         "of 2 markets 1 dearer than limits.most_dollars_per_hour leaves beside the reliable machines ($0.0300), 1 "
         "that "
         "would not lower the cost of work"},
        {20000, 60000, 8, 0.1, 0.1, 1, false,
         "of 2 markets 2 dearer than limits.most_dollars_per_hour leaves beside the reliable machines ($0.0000)"},
        {20000, 60000, 8, 1000, 0.125, 1, false, "of 2 markets 2 dearer than limits.budget_dollars leaves ($0.0050)"},
        {150000, 140000, 8, 1000, 1000, 1, false,
         "of 2 markets 2 above the ceiling (nearest: dear.large/us-east-1a at $0.1400, ceiling $0.1200)"},
        {20000, 140000, 8, 1000, 1000, 1, true,
         "of 2 markets 1 closed after a refusal or an eviction, at least until 2016-03-01T00:10:00Z, 1 above the "
         "ceiling (nearest: dear.large/us-east-1a at $0.1400, ceiling $0.1200)"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        CLOSED_BY(world_close) struct world w;
        struct footprint_reasons reasons;
        char text[FOOTPRINT_REASONS_TEXT];
        world_open(&w, &MARKET_EC2_2016, cases[c].cheap, cases[c].dear);
        w.f.known.limits.most_vcpus = cases[c].vcpus;
        w.f.known.limits.most_dollars_per_hour = cases[c].rate;
        w.f.known.limits.least_markets = cases[c].least_markets;
        w.f.budget_micro = (int64_t)(cases[c].budget * (double)PRICE_DOLLAR);
        w.markets[0].closed_until = cases[c].closed ? NOW + 600 : 0;
        assert_true(footprint_reasons(&w.f, &reasons));
        footprint_reasons_text(&w.f, &reasons, text);
        assert_string_equal(text, cases[c].text);
        if (strstr(text, "would not") == NULL) {
            decide(&w);
            assert_int_equal(bought(&w), 0);
        }
        add_machine(&w, "cheap.large", PROVIDER_SPOT, 60);
        assert_false(footprint_reasons(&w.f, &reasons));
    }
}

/* A reliable machine costs 0.12 dollars an hour. */
TEST(caps_hold_for_reliable_machines) {
    static const struct {
        double rate, budget;
        unsigned held, wanted, room;
        int64_t age; /* age of a machine on demand at 0.1 dollars an hour; 0: no such machine */
    } cases[] = {{1000, 1000, 0, 3, 3, 0},  {0.2, 1000, 0, 1, 1, 0},  {0.2, 1000, 0, 2, 0, 0},
                 {0.2, 1000, 1, 2, 0, 0},   {0.24, 1000, 1, 1, 1, 0}, {0.5, 1000, 2, 3, 2, 0},
                 {1000, 0, 0, 1, 0, 0},     {1000, 0.3, 0, 2, 2, 0},  {1000, 0.3, 0, 3, 0, 0},
                 {1000, 0.3, 1, 3, 1, 0},   {0.2, 1000, 0, 1, 0, 60}, {0.22, 1000, 0, 1, 1, 60},
                 {1000, 0.3, 0, 1, 0, HOUR}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        CLOSED_BY(world_close) struct world w;
        world_open(&w, &MARKET_EC2, 20000, 60000);
        w.f.known.limits.most_dollars_per_hour = cases[c].rate;
        w.f.budget_micro = (int64_t)(cases[c].budget * (double)PRICE_DOLLAR);
        if (cases[c].age != 0) {
            add_machine(&w, "cheap.large", PROVIDER_ON_DEMAND, cases[c].age);
        }
        unsigned room = footprint_reliable_room(&w.f, cases[c].held, cases[c].wanted);
        if (room != cases[c].room) {
            fail_msg("case %zu: room for %u, expected %u", c, room, cases[c].room);
        }
    }
}

TEST(what_is_not_configured_any_more_goes) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2, 20000, 60000);
    add_machine(&w, "cheap.large", PROVIDER_SPOT, 1800);
    add_machine(&w, "former.large", PROVIDER_SPOT, 1800);
    add_machine(&w, "former.large", PROVIDER_ON_DEMAND, 1800)->reliable = true;
    decide(&w);
    assert_int_equal(w.release_at[0], 0);
    assert_int_equal(w.release_at[1], NOW + 120);
    assert_int_equal(w.release_at[2], 0);
    assert_int_equal(w.plan.released, 1);
}

/* Without a controller no purchase is decided, but the budget still holds. */
TEST(the_budget_holds_without_decisions) {
    struct world w;
    world_open(&w, &MARKET_EC2, 20000, 60000);
    for (int i = 0; i < 10; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, 1800); /* half an hour: 100000 in all */
    }
    memset(w.release_at, 0, sizeof w.release_at);
    w.f.budget_micro = 1000000;
    footprint_keep_budget(&w.f, &w.plan, w.release_at);
    assert_int_equal(w.plan.released, 0);
    assert_int_equal(w.release_at[0], 0);
    w.f.budget_micro = 110000;
    footprint_keep_budget(&w.f, &w.plan, w.release_at);
    assert_int_equal(w.plan.released, 1);
    assert_true(w.plan.over_budget);
    assert_int_equal(w.release_at[9], NOW + 120);
    world_close(&w);
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100);
    memset(w.release_at, 0, sizeof w.release_at);
    w.f.budget_micro = 160000; /* the paid hour, the next hour of the reliable machine, and another spot hour */
    footprint_keep_budget(&w.f, &w.plan, w.release_at);
    assert_int_equal(w.plan.released, 0);
    w.f.budget_micro = 159999;
    footprint_keep_budget(&w.f, &w.plan, w.release_at);
    assert_int_equal(w.plan.released, 1);
    assert_int_equal(w.release_at[0], NOW + 100);
    world_close(&w);
}

TEST(bills_are_those_of_the_model) {
    CLOSED_BY(world_close) struct world w;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    struct ledger_machine *spot = add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR + 10);
    assert_int_equal(footprint_bill(&w.f, spot).amount, INT64_C(2) * 20000 * HOUR);
    spot->ended = NOW;
    spot->how = LEDGER_EVICTED;
    assert_int_equal(footprint_bill(&w.f, spot).amount, INT64_C(20000) * HOUR); /* the second hour is free */
    assert_int_equal(footprint_bill(&w.f, spot).free_seconds, 10);
    assert_int_equal(footprint_on_demand(&w.f, spot), INT64_C(100000) * (HOUR + 10));
    struct ledger_machine *own = add_machine(&w, "own.large", PROVIDER_ON_DEMAND, 100);
    own->reliable = true;
    assert_int_equal(footprint_bill(&w.f, own).amount, INT64_C(120000) * HOUR);
    w.f.known.rules = &MARKET_EC2;
    assert_int_equal(footprint_bill(&w.f, own).amount, INT64_C(120000) * 100);
    struct footprint_spend spend = footprint_spend(&w.f);
    assert_int_equal(spend.on_demand.amount, INT64_C(120000) * 100);
    assert_int_equal(spend.evictions, 1);
    struct ledger_machine *never = add_machine(&w, "cheap.large", PROVIDER_SPOT, 50);
    never->running = 0; /* a pending machine costs nothing yet */
    assert_int_equal(footprint_bill(&w.f, never).amount, 0);
}

/* Without reliable machines, machines of two markets are kept, and of one market only if no other can be had. */
TEST(without_reliable_machines_two_groups_stay) {
    CLOSED_BY(world_close) struct world w;
    size_t market;
    world_open(&w, &MARKET_EC2_2016, 20000, 60000);
    w.f.known.reliable = 0;
    w.f.known.app.copies = (struct policy_copies){.spread = true, .lost = 1, .copied = 0.02, .replaced = 0.05};
    w.f.known.reference = &TYPES[1]; /* raises the price ceiling */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 2);
    assert_int_equal(w.plan.buys[0].market, 0);
    assert_int_equal(w.plan.buys[0].count, 5); /* half of 40 vCPUs */
    assert_int_equal(w.plan.buys[1].market, 1);
    assert_int_equal(footprint_groups(&w.f, &w.plan, &market), 2);
    w.f.budget_micro = 300000; /* no purchase takes more than half of the money */
    decide(&w);
    assert_int_equal(w.plan.buy_count, 2);
    w.f.budget_micro = INT64_MAX;
    w.markets[1].closed_until = NOW + 1;
    decide(&w);
    assert_int_equal(w.plan.buy_count, 1); /* one market must do */
    assert_int_equal(w.plan.buys[0].count, 5);
    assert_int_equal(footprint_groups(&w.f, &w.plan, &market), 1);
    assert_int_equal(market, 0);
    /* on-demand machines of the same type and zone would not spread the copies either */
    w.f.known.fallback = FALLBACK_ALWAYS;
    decide(&w);
    assert_int_equal(footprint_groups(&w.f, &w.plan, &market), 1);
    w.f.known.fallback = FALLBACK_NEVER;
    w.markets[1].closed_until = NOW;

    /* A sole market's machines stay although their hour ends and others cost less. Machines of a market that is no
     * longer configured stay too, until another market's machines run. */
    /* less than these machines do */
    w.f.known.end = (struct policy_end){.work = 1, .deadline = INFINITY, .whole_hours = true};
    for (int i = 0; i < 4; i++) {
        add_machine(&w, "cheap.large", PROVIDER_SPOT, HOUR - 100);
        add_machine(&w, "gone.large", PROVIDER_SPOT, HOUR - 100);
    }
    decide(&w);
    assert_int_equal(w.plan.kept[0], 1); /* the fewest allowed */
    assert_int_equal(w.release_at[1], 0);
    assert_true(w.plan.buy_count >= 1 && w.plan.buys[0].market == 1);
    add_machine(&w, "dear.large", PROVIDER_SPOT, 1800);
    decide(&w);
    assert_int_equal(w.release_at[1], NOW + 100);
    w.f.known.app.copies.spread = false;
    w.f.machine_count--;
    decide(&w);
    assert_int_equal(w.release_at[1], NOW + 100);
}
