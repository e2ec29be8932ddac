/* The embedded cloud's state in virtual time: prices above bids, ends of hours, waiting requests, limits, and bills
 * against sums computed by hand. No clock is read. */

#include "spotmarket/service.h"
#include "tests/files.h"
#include "tests/test.h"

#include <unistd.h>

#define START INT64_C(1456790400) /* 2016-03-01 */
#define CENT  INT64_C(10000)      /* micro-dollars */

static struct markets markets;
static struct catalog catalog;
static struct cloud cloud;
static const struct cloud_tags NO_TAGS;
static char heard[4096]; /* the listener's calls: "+0" instance 0 started, "-0" stopped */

static void hear(const char *what, const struct instance *instance) {
    size_t length = strlen(heard);
    snprintf(heard + length, sizeof heard - length, "%s%zu ", what, instance->number);
}

static void on_start(void *context, const struct instance *instance) {
    hear("+", instance);
}

static void on_stop(void *context, const struct instance *instance) {
    hear("-", instance);
}

static void point(const char *type, const char *zone, int64_t second, int64_t cents) {
    struct market_point one = {START + second, cents * CENT};
    assert_int_equal(markets_add(&markets, type, zone, "Linux/UNIX", one, NULL), 0);
}

/* m3.large in a: 2 cents, 5 from 5000 s, 40 from 9000 s, 3 from 12000 s; in b: 3 cents. c3.xlarge in a from 100 s
 * on. */
static int set_up(void **unused) {
    heard[0] = '\0';
    point("m3.large", "us-east-1a", -1000, 2);
    point("m3.large", "us-east-1a", 5000, 5);
    point("m3.large", "us-east-1a", 9000, 40);
    point("m3.large", "us-east-1a", 12000, 3);
    point("m3.large", "us-east-1b", -1000, 3);
    point("c3.xlarge", "us-east-1a", 100, 4);
    markets_finish(&markets);
    catalog_open(&catalog, CATALOG_2016);
    return 0;
}

static int tear_down(void **unused) {
    cloud_close(&cloud);
    markets_close(&markets);
    catalog_close(&catalog);
    return 0;
}

static struct cloud_options defaults(void) {
    return (struct cloud_options){
        .shown = CLOUD_SHOWN_SECONDS,
        .markets = &markets,
        .catalog = &catalog,
        .rules = &MARKET_EC2_2016,
        .region = "us-east-1",
        .notice = 120,
        .seed = 1,
        .listener = {.start = on_start, .stop = on_stop},
    };
}

static void begin(struct cloud_options options) {
    cloud_open(&cloud, &options, START);
}

static void at(int64_t second) {
    cloud_advance(&cloud, START + second);
}

static const struct catalog_price *type_of(const char *name) {
    const struct catalog_price *type = catalog_find(&catalog, name, "us-east-1");
    assert_non_null(type);
    return type;
}

static struct launch_spec *spec_in(const char *type, const char *zone) {
    struct launch_spec *spec = launch_spec_new(type_of(type));
    snprintf(spec->zone, sizeof spec->zone, "%s", zone);
    return spec;
}

static struct instance *launch(const char *type, const char *zone, int64_t bid) {
    struct launch_spec *spec = spec_in(type, zone);
    struct instance *instance = cloud_launch(&cloud, spec, zone, bid, false, "r-1", "token", &NO_TAGS);
    launch_spec_drop(spec);
    assert_non_null(instance);
    return instance;
}

static struct spot_request *request(const char *zone, int64_t bid, bool persistent, int64_t from, int64_t until) {
    struct launch_spec *spec = spec_in("m3.large", zone);
    struct spot_request *made = cloud_request(&cloud, spec, bid, persistent, from, until, "", &NO_TAGS);
    launch_spec_drop(spec);
    assert_non_null(made);
    return made;
}

static void assert_bill(const struct instance *instance, const struct market_rules *rules, int64_t cent_seconds,
                        int64_t paid, int64_t unpaid) {
    struct bill bill = cloud_bill(&cloud, instance, rules);
    assert_int_equal(bill.amount, cent_seconds * CENT);
    assert_int_equal(bill.paid_seconds, paid);
    assert_int_equal(bill.free_seconds, unpaid);
}

/* ---- Evictions ---- */

static void test_price_above_bid(void **unused) {
    begin(defaults());
    struct instance *low = launch("m3.large", "us-east-1a", 4 * CENT);   /* evicted at 5000 s */
    struct instance *equal = launch("m3.large", "us-east-1a", 5 * CENT); /* a price equal to the bid does not evict */
    const struct spot_request *of_low = cloud.requests[low->request];
    assert_int_equal(low->state, INSTANCE_PENDING);
    at(0);
    assert_int_equal(low->state, INSTANCE_RUNNING);
    assert_string_equal(of_low->status, "fulfilled");
    at(4999);
    assert_true(low->noticed == MARKET_NEVER);
    at(5000);
    assert_int_equal(low->noticed, START + 5000);
    assert_int_equal(low->ended, START + 5120);
    assert_int_equal(low->state, INSTANCE_RUNNING);
    assert_int_equal(of_low->state, REQUEST_ACTIVE);
    assert_string_equal(of_low->status, "marked-for-termination");
    at(5119);
    assert_int_equal(low->state, INSTANCE_RUNNING);
    at(5120);
    assert_int_equal(low->state, INSTANCE_TERMINATED);
    assert_true(low->evicted);
    assert_string_equal(low->reason_code, "Server.SpotInstanceTermination");
    assert_int_equal(of_low->state, REQUEST_CLOSED);
    assert_string_equal(of_low->status, "instance-terminated-by-price");
    assert_int_equal(equal->state, INSTANCE_RUNNING);
    at(9120);
    assert_int_equal(equal->state, INSTANCE_TERMINATED);
    assert_string_equal(heard, "+0 +1 -0 -1 ");
    /* low: the first hour cost 2 cents; the second hour began at 3600 s (2 cents) and was cut short after 1520 s. */
    assert_bill(low, &MARKET_EC2_2016, 2 * 3600, 3600, 1520);
    assert_bill(low, &MARKET_EC2, 2 * 3600 + 2 * 1520, 5120, 0);
    /* equal: hours at 2, 2 and, from 7200 s on, 5 cents; the third hour was cut short after 1920 s. */
    assert_bill(equal, &MARKET_EC2_2016, 2 * 7200, 7200, 1920);
    assert_bill(equal, &MARKET_EC2, 2 * 7200 + 5 * 1920, 9120, 0);
}

static void test_first_hour_cut_short_is_free(void **unused) {
    begin(defaults());
    at(4000);
    struct instance *instance = launch("m3.large", "us-east-1a", 3 * CENT);
    at(20000);
    assert_bill(instance, &MARKET_EC2_2016, 0, 0, 1120);
    assert_bill(instance, &MARKET_EC2, 0, 0, 1120);
}

static void test_given_back_in_notice_is_paid(void **unused) {
    begin(defaults());
    at(4000);
    struct instance *instance = launch("m3.large", "us-east-1a", 3 * CENT);
    at(5060);
    cloud_shut_down(&cloud, instance->number);
    assert_false(instance->evicted);
    assert_string_equal(cloud.requests[0]->status, "instance-terminated-by-user");
    at(20000);
    assert_bill(instance, &MARKET_EC2_2016, 2 * 3600, 1060, 0);
    assert_bill(instance, &MARKET_EC2, 2 * 1060, 1060, 0);
}

static void test_schedule_and_hint(void **unused) {
    struct cloud_event events[] = {{START + 700, 1, 30}, {START + 600, 1, 0}};
    struct cloud_options options = defaults();
    options.events = events;
    options.event_count = 2;
    options.rebalance = 50;
    begin(options);
    assert_int_equal(cloud_market(&cloud, "m3.large", "us-east-1a"), 1);
    struct instance *instance = launch("m3.large", "us-east-1a", 50 * CENT);
    struct instance *other = launch("m3.large", "us-east-1b", 50 * CENT);
    at(549);
    assert_true(instance->recommended == MARKET_NEVER);
    at(550);
    assert_int_equal(instance->recommended, START + 550);
    at(600); /* the earlier event gives no notice */
    assert_int_equal(instance->state, INSTANCE_TERMINATED);
    assert_string_equal(cloud.requests[0]->status, "instance-terminated-no-capacity");
    struct instance *next = launch("m3.large", "us-east-1a", 50 * CENT);
    at(601);
    assert_int_equal(next->state, INSTANCE_TERMINATED); /* it was launched in the second of the event */
    struct instance *third = launch("m3.large", "us-east-1a", 50 * CENT);
    at(700);
    assert_int_equal(third->ended, START + 730);
    at(730);
    assert_int_equal(third->state, INSTANCE_TERMINATED);
    assert_int_equal(other->state, INSTANCE_RUNNING);
}

static void test_drawn_lifetimes(void **unused) {
    CLOSED_BY(interruptions_close) struct interruptions interruptions;
    struct cloud_options options = defaults();
    write_text("hours", "1.5 1\n"); /* every machine lives for an hour and a half */
    assert_int_equal(interruptions_open(&interruptions, "lifetimes:hours", &markets, NULL), 0);
    options.interruptions = &interruptions;
    options.rules = &MARKET_EC2;
    begin(options);
    struct instance *instance = launch("m3.large", "us-east-1b", 4 * CENT);
    struct instance *on_demand = launch("m3.large", "us-east-1b", PRICE_UNKNOWN);
    at(5399);
    assert_true(instance->noticed == MARKET_NEVER);
    at(5400 + 120);
    assert_true(instance->evicted);
    assert_string_equal(cloud.requests[0]->status, "instance-terminated-no-capacity");
    assert_bill(instance, &MARKET_EC2, 3 * 5520, 5520, 0);
    at(50000);
    assert_true(instance_lives(on_demand));
}

/* ---- Requests ---- */

static void test_requests_wait_for_the_price(void **unused) {
    begin(defaults());
    at(9000); /* a costs 40 cents */
    struct spot_request *waiting = request("us-east-1a", 4 * CENT, true, START + 9000, MARKET_NEVER);
    struct spot_request *expiring = request("us-east-1a", 4 * CENT, false, START + 9000, START + 10000);
    struct spot_request *later = request("us-east-1b", 4 * CENT, false, START + 11000, MARKET_NEVER);
    assert_string_equal(waiting->status, "pending-evaluation");
    assert_string_equal(later->status, "not-scheduled-yet");
    at(9000);
    assert_int_equal(waiting->state, REQUEST_OPEN);
    assert_string_equal(waiting->status, "price-too-low");
    assert_true(waiting->instance == MARKET_NONE);
    at(10000);
    assert_int_equal(expiring->state, REQUEST_CLOSED);
    assert_string_equal(expiring->status, "schedule-expired");
    at(11000);
    assert_int_equal(later->state, REQUEST_ACTIVE);
    at(11999);
    assert_int_equal(waiting->state, REQUEST_OPEN);
    at(12000);
    assert_int_equal(waiting->state, REQUEST_ACTIVE);
    struct instance *instance = cloud.instances[waiting->instance];
    assert_int_equal(instance->launched, START + 12000);
    /* A persistent request is open again when its machine has ended, unless it is cancelled first. */
    cloud_terminate(&cloud, instance);
    assert_int_equal(waiting->state, REQUEST_OPEN);
    at(12001);
    assert_int_equal(waiting->state, REQUEST_ACTIVE);
    struct instance *ghost = cloud.instances[waiting->instance];
    assert_ptr_not_equal(ghost, instance);
    cloud_cancel(&cloud, waiting);
    assert_string_equal(waiting->status, "request-canceled-and-instance-running");
    assert_true(instance_lives(ghost));
    cloud_terminate(&cloud, ghost);
    at(13000);
    assert_int_equal(waiting->state, REQUEST_CANCELLED);
    assert_int_equal(cloud.instance_count, 3);
}

/* An event evicts all machines running at its moment, without notice. A machine that the request gets later is not
 * evicted. */
static void test_persistent_request_outlives_an_event(void **unused) {
    const struct cloud_event event = {.time = START + 100, .market = 1, .notice = 0};
    struct cloud_options options = defaults();
    options.events = &event;
    options.event_count = 1;
    begin(options);
    assert_string_equal(markets.list[event.market]->type, "m3.large");
    struct spot_request *persistent = request(markets.list[event.market]->zone, 50 * CENT, true, START, MARKET_NEVER);
    at(100);
    assert_int_equal(cloud.instance_count, 1);
    assert_true(cloud.instances[0]->evicted);
    assert_int_equal(persistent->state, REQUEST_OPEN);
    at(200);
    assert_int_equal(cloud.instance_count, 2);
    assert_true(instance_lives(cloud.instances[1]));
    assert_int_equal(cloud.instances[1]->launched, START + 101);
}

static void test_requests_choose_the_cheapest_zone(void **unused) {
    begin(defaults());
    struct spot_request *early = request("", 50 * CENT, false, START, MARKET_NEVER);
    at(6000);
    struct spot_request *late = request("", 50 * CENT, false, START, MARKET_NEVER);
    at(6000);
    assert_string_equal(cloud.instances[early->instance]->zone, "us-east-1a");
    assert_string_equal(cloud.instances[late->instance]->zone, "us-east-1b");
}

static void test_cancelled_before_fulfilment(void **unused) {
    begin(defaults());
    struct spot_request *made = request("us-east-1a", 1 * CENT, false, START, MARKET_NEVER);
    at(10);
    cloud_cancel(&cloud, made);
    assert_int_equal(made->state, REQUEST_CANCELLED);
    assert_string_equal(made->status, "canceled-before-fulfillment");
    at(20000);
    assert_int_equal(cloud.instance_count, 0);
}

/* ---- Limits ---- */

static void test_capacity(void **unused) {
    struct cloud_options options = defaults();
    options.capacity = 2;
    begin(options);
    const struct catalog_price *type = type_of("m3.large");
    assert_int_equal(cloud_room(&cloud, type, "us-east-1a", 4 * CENT).machines, 2);
    struct instance *one = launch("m3.large", "us-east-1a", 4 * CENT);
    (void)launch("m3.large", "us-east-1a", PRICE_UNKNOWN);
    struct cloud_room full = cloud_room(&cloud, type, "us-east-1a", 4 * CENT);
    assert_int_equal(full.machines, 0);
    assert_string_equal(full.code, "InsufficientInstanceCapacity");
    assert_int_equal(cloud_room(&cloud, type, "us-east-1b", 4 * CENT).machines, 2);
    struct spot_request *waiting = request("us-east-1a", 4 * CENT, false, START, MARKET_NEVER);
    at(10);
    assert_string_equal(waiting->status, "capacity-not-available");
    cloud_terminate(&cloud, one);
    at(60);
    assert_int_equal(waiting->state, REQUEST_ACTIVE);
}

static void test_quotas(void **unused) {
    struct cloud_options options = defaults();
    options.spot_quota = 5; /* m3.large has 2 vCPUs */
    options.on_demand_quota = 2;
    begin(options);
    const struct catalog_price *type = type_of("m3.large");
    assert_int_equal(cloud_room(&cloud, type, "us-east-1a", 4 * CENT).machines, 2);
    (void)request("us-east-1a", 1 * CENT, false, START, MARKET_NEVER); /* open requests count */
    assert_int_equal(cloud_room(&cloud, type, "us-east-1a", 4 * CENT).machines, 1);
    (void)launch("m3.large", "us-east-1a", 4 * CENT);
    assert_string_equal(cloud_room(&cloud, type, "us-east-1a", 4 * CENT).code, "MaxSpotInstanceCountExceeded");
    (void)launch("m3.large", "us-east-1a", PRICE_UNKNOWN);
    assert_string_equal(cloud_room(&cloud, type, "us-east-1a", PRICE_UNKNOWN).code, "VcpuLimitExceeded");
}

static void test_prices_that_refuse(void **unused) {
    begin(defaults());
    assert_string_equal(cloud_room(&cloud, type_of("m3.large"), "us-east-1a", CENT).code, "SpotMaxPriceTooLow");
    assert_int_equal(cloud_room(&cloud, type_of("m3.large"), "us-east-1a", 2 * CENT).machines, SIZE_MAX);
    assert_string_equal(cloud_room(&cloud, type_of("c3.xlarge"), "us-east-1b", CENT).code, "Unsupported");
    assert_string_equal(cloud_room(&cloud, type_of("c3.xlarge"), "us-east-1a", 9 * CENT).code,
                        "InsufficientInstanceCapacity"); /* no price yet */
    at(100);
    assert_int_equal(cloud_room(&cloud, type_of("c3.xlarge"), "us-east-1a", 9 * CENT).machines, SIZE_MAX);
}

/* ---- Machines ---- */

static void test_boot_and_ends(void **unused) {
    struct cloud_options options = defaults();
    options.boot = 90;
    begin(options);
    struct instance *booting = launch("m3.large", "us-east-1a", 4 * CENT);
    struct instance *stopping = launch("m3.large", "us-east-1a", PRICE_UNKNOWN);
    at(89);
    assert_int_equal(booting->state, INSTANCE_PENDING);
    assert_string_equal(heard, "");
    at(90);
    assert_int_equal(booting->state, INSTANCE_RUNNING);
    assert_string_equal(heard, "+0 +1 ");
    at(3700);
    cloud_terminate(&cloud, booting);
    cloud_terminate(&cloud, booting); /* a second termination has no effect */
    assert_int_equal(booting->state, INSTANCE_SHUTTING_DOWN);
    cloud_shut_down(&cloud, stopping->number);
    assert_int_equal(stopping->state, INSTANCE_STOPPED);
    assert_string_equal(heard, "+0 +1 -0 -1 ");
    at(3701);
    assert_int_equal(booting->state, INSTANCE_TERMINATED);
    assert_int_equal(booting->ended, START + 3700);
    assert_ptr_equal(cloud_find_instance(&cloud, booting->id), booting);
    at(3700 + CLOUD_SHOWN_SECONDS);
    assert_null(cloud_find_instance(&cloud, booting->id));
    assert_non_null(cloud_find_instance(&cloud, stopping->id));
    /* Terminated in its second hour: paid whole by the rules of 2016, by the second by the present rules. */
    assert_bill(booting, &MARKET_EC2_2016, 2 * 7200, 3700, 0);
    assert_bill(booting, &MARKET_EC2, 2 * 3700, 3700, 0);
    int64_t price = type_of("m3.large")->price;
    assert_int_equal(cloud_bill(&cloud, stopping, &MARKET_EC2_2016).amount, price * 7200);
    assert_int_equal(cloud_bill(&cloud, stopping, &MARKET_EC2).amount, price * 3700);
}

static void test_end_of_everything(void **unused) {
    begin(defaults());
    (void)launch("m3.large", "us-east-1a", 4 * CENT);
    (void)request("us-east-1a", 1 * CENT, true, START, MARKET_NEVER);
    at(5);
    cloud_end(&cloud);
    assert_string_equal(heard, "+0 -0 ");
    assert_int_equal(cloud.requests[1]->state, REQUEST_CANCELLED);
    assert_bill(cloud.instances[0], &MARKET_EC2, 2 * 60, 5, 0); /* at least a minute is billed */
}

/* The same calls lead to the same bill whether time advances in a single leap or second by second. */
static void run_calls(bool leap, char **bill) {
    uint64_t state = 7;
    struct cloud_options options = defaults();
    options.capacity = 3;
    options.boot = 45;
    begin(options);
    int64_t second = 0;
    for (int call = 0; call < 300; call++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        int64_t next = second + (int64_t)(state >> 40) % 120;
        for (int64_t t = second; t <= next && !leap; t++) {
            at(t);
        }
        at(next);
        second = next;
        const char *zone = (state >> 33) % 2 == 0 ? "us-east-1a" : "us-east-1b";
        int64_t bid = (int64_t)(1 + (state >> 34) % 6) * CENT;
        if ((state >> 37) % 3 == 0) {
            (void)request(zone, bid, (state >> 38) % 2 == 0, START + second, START + second + 2000);
        } else if (cloud_room(&cloud, type_of("m3.large"), zone, bid).machines > 0) {
            (void)launch("m3.large", zone, bid);
        } else if (cloud.instance_count > 0) {
            cloud_terminate(&cloud, cloud.instances[(state >> 35) % cloud.instance_count]);
        }
    }
    *bill = service_bill(&cloud);
    cloud_close(&cloud);
}

static void test_leaps(void **unused) {
    FREED char *stepped;
    FREED char *leapt;
    run_calls(false, &stepped);
    run_calls(true, &leapt);
    assert_non_null(strstr(leapt, "\"evicted\""));
    assert_string_equal(leapt, stepped);
}

static void test_tags(void **unused) {
    CLOSED_BY(cloud_tags_close) struct cloud_tags tags = {0};
    char key[16];
    for (int i = 0; i < CLOUD_TAGS_MAX; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_true(cloud_tags_set(&tags, key, "v"));
    }
    assert_false(cloud_tags_set(&tags, "one more", "v"));
    assert_true(cloud_tags_set(&tags, "k3", "other"));
    assert_string_equal(cloud_tags_get(&tags, "k3"), "other");
    assert_null(cloud_tags_get(&tags, "one more"));
}

int main(void) {
#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        EACH(test_price_above_bid),
        EACH(test_first_hour_cut_short_is_free),
        EACH(test_given_back_in_notice_is_paid),
        EACH(test_schedule_and_hint),
        EACH(test_drawn_lifetimes),
        EACH(test_requests_wait_for_the_price),
        EACH(test_persistent_request_outlives_an_event),
        EACH(test_requests_choose_the_cheapest_zone),
        EACH(test_cancelled_before_fulfilment),
        EACH(test_capacity),
        EACH(test_quotas),
        EACH(test_prices_that_refuse),
        EACH(test_boot_and_ends),
        EACH(test_end_of_everything),
        EACH(test_leaps),
        EACH(test_tags),
    };
    return cmocka_run_group_tests(tests, files_open, files_close);
}
