/* bidbrain/market/billing: the rules of both market models as tables of examples, in a market whose price changes. */

#include "bidbrain/market/billing.h"
#include "tests/test.h"

#define DOLLAR PRICE_DOLLAR

/* The price is $1 an hour from 0 on, $2 from 2:30 and $4 from 3:00. */
static struct markets markets;

static int set_up(void **state) {
    static const struct market_point points[] = {
        {1000000, 1 * DOLLAR}, {1000000 + 9000, 2 * DOLLAR}, {1000000 + 10800, 4 * DOLLAR}};
    for (size_t i = 0; i < 3; i++) {
        if (markets_add(&markets, "t", "z", "p", points[i], NULL) != 0) {
            return -1;
        }
    }
    markets_finish(&markets);
    return 0;
}

static int tear_down(void **state) {
    markets_close(&markets);
    return 0;
}

struct example {
    int64_t start, end; /* seconds after the market's first point */
    enum billing_end how;
    int64_t amount; /* price x seconds */
    int64_t paid, free;
};

static void check(const struct market_rules *rules, const struct example *examples, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct example *e = &examples[i];
        struct bill bill = billing_spot(rules, markets.list[0], 1000000 + e->start, 1000000 + e->end, e->how);
        if (bill.amount != e->amount || bill.paid_seconds != e->paid || bill.free_seconds != e->free) {
            fail_msg("example %zu: %lld paid %lld free %lld", i, (long long)bill.amount, (long long)bill.paid_seconds,
                     (long long)bill.free_seconds);
        }
    }
}

TEST(spot_of_2016) {
    const int64_t hour = 3600 * DOLLAR;
    const struct example examples[] = {
        {0, 3600, BILLING_RELEASED, hour, 3600, 0},     /* exactly an hour: no second hour */
        {0, 3601, BILLING_RELEASED, 2 * hour, 3601, 0}, /* a begun hour is paid in full */
        {0, 1, BILLING_RELEASED, hour, 1, 0},
        {0, 0, BILLING_RELEASED, hour, 0, 0}, /* the first hour is begun at the launch */
        {0, 0, BILLING_EVICTED, 0, 0, 0},
        {0, 1800, BILLING_EVICTED, 0, 0, 1800},    /* the hour was cut short by EC2: free */
        {0, 3600, BILLING_EVICTED, hour, 3600, 0}, /* no hour was cut short */
        {0, 3600 + 3599, BILLING_EVICTED, hour, 3600, 3599},
        {0, 9600, BILLING_RELEASED, 3 * hour, 9600, 0}, /* the price of 2:30 does not apply to the hour of 2:00 */
        {7200, 12000, BILLING_RELEASED, hour + 4 * hour, 4800, 0},
        {7201, 12000, BILLING_RELEASED, hour + 4 * hour, 4799, 0},
        {7199, 12000, BILLING_RELEASED, hour + 2 * hour, 4801, 0}, /* the second hour begins a second before 3:00 */
        {7200, 12000, BILLING_EVICTED, hour, 3600, 1200},
        {7200, 12000, BILLING_SHARED, hour + 4 * 1200 * DOLLAR, 4800, 0},
        {0, 600, BILLING_SHARED, 600 * DOLLAR, 600, 0},
        {0, 0, BILLING_SHARED, 0, 0, 0},
    };
    check(&MARKET_EC2_2016, examples, sizeof examples / sizeof *examples);
}

TEST(spot_of_today) {
    const int64_t hour = 3600 * DOLLAR;
    const struct example examples[] = {
        {0, 3600, BILLING_RELEASED, hour, 3600, 0},
        {0, 3601, BILLING_RELEASED, 3601 * DOLLAR, 3601, 0},
        {0, 59, BILLING_RELEASED, 60 * DOLLAR, 59, 0},
        {0, 60, BILLING_RELEASED, 60 * DOLLAR, 60, 0},
        {0, 61, BILLING_RELEASED, 61 * DOLLAR, 61, 0},
        {0, 0, BILLING_RELEASED, 60 * DOLLAR, 0, 0},
        {0, 3599, BILLING_EVICTED, 0, 0, 3599},
        {0, 3600, BILLING_EVICTED, hour, 3600, 0},
        {0, 3630, BILLING_EVICTED, 3630 * DOLLAR, 3630, 0},
        {7200, 12000, BILLING_RELEASED, hour + 4 * 1200 * DOLLAR, 4800, 0},
        {7200, 12000, BILLING_EVICTED, hour + 4 * 1200 * DOLLAR, 4800, 0},
        {7199, 10799, BILLING_RELEASED, hour, 3600, 0},
        {0, 30, BILLING_SHARED, 30 * DOLLAR, 30, 0},
    };
    check(&MARKET_EC2, examples, sizeof examples / sizeof *examples);
}

/* An amount rounded as in bills: to whole cents, half a cent up. */
static int64_t amount_cents(int64_t amount) {
    return (amount + AMOUNT_DOLLAR / 200) / (AMOUNT_DOLLAR / 100);
}

TEST(on_demand) {
    static const struct {
        const struct market_rules *rules;
        int64_t seconds;
        enum billing_end how;
        int64_t cents; /* at $0.36 an hour */
    } examples[] = {{&MARKET_EC2_2016, 1, BILLING_RELEASED, 36},    {&MARKET_EC2_2016, 3600, BILLING_RELEASED, 36},
                    {&MARKET_EC2_2016, 3601, BILLING_RELEASED, 72}, {&MARKET_EC2_2016, 1800, BILLING_SHARED, 18},
                    {&MARKET_EC2, 100, BILLING_RELEASED, 1},        {&MARKET_EC2, 1, BILLING_RELEASED, 1},
                    {&MARKET_EC2, 5000, BILLING_RELEASED, 50},      {&MARKET_EC2, 5000, BILLING_SHARED, 50}};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        struct bill bill = billing_on_demand(examples[i].rules, 360000, 77, 77 + examples[i].seconds, examples[i].how);
        assert_int_equal(amount_cents(bill.amount), examples[i].cents);
        assert_int_equal(bill.paid_seconds, examples[i].seconds);
    }
}

TEST(cents_are_rounded_once) {
    struct bill total = {0};
    struct bill one = billing_on_demand(&MARKET_EC2, 1, 0, 3600, BILLING_RELEASED); /* one micro-dollar an hour */
    bill_add(&total, one, 4999);
    assert_int_equal(amount_cents(total.amount), 0);
    bill_add(&total, one, 1);
    assert_int_equal(amount_cents(total.amount), 1);
    assert_int_equal(total.paid_seconds, 5000 * 3600);
}

/* At any price, the parts of a stay that is divided at whole hours cost as much as the stay. */
TEST(hours_add_up) {
    for (int64_t start = 0; start < 4000; start += 77) {
        for (int64_t hours = 1; hours < 3; hours++) {
            for (int model = 0; model < 2; model++) {
                const struct market_rules *rules = model == 0 ? &MARKET_EC2_2016 : &MARKET_EC2;
                const struct market *market = markets.list[0];
                int64_t begin = 1000000 + start;
                int64_t cut = begin + hours * HOUR;
                struct bill whole = billing_spot(rules, market, begin, cut + 700, BILLING_SHARED);
                struct bill first = billing_spot(rules, market, begin, cut, BILLING_RELEASED);
                struct bill rest = billing_spot(rules, market, cut, cut + 700, BILLING_SHARED);
                assert_int_equal(whole.amount, first.amount + rest.amount);
            }
        }
    }
}

TEST(models_have_names) {
    const struct market_rules *rules;
    struct error error = {0};
    assert_true(market_rules_read(&rules, "model", "ec2", &error) == 0 && rules == &MARKET_EC2);
    assert_true(market_rules_read(&rules, "model", "ec2-2016", &error) == 0 && rules == &MARKET_EC2_2016);
    assert_int_equal(market_rules_read(&rules, "model", "ec3", &error), AML_EINPUT);
    assert_int_equal(market_rules_read(&rules, "model", "", &error), AML_EINPUT);
}

int main(void) {
    return tests_run(set_up, tear_down);
}
