/* See billing.h. */
#include "bidbrain/market/billing.h"

#include <assert.h>

/* Returns the seconds to pay of a machine's last hour, of which it ran `used` seconds (0..3600). `first`: this is its
 * first hour too, which begins even if the machine ran no second. */
static int64_t billing_last_hour(const struct market_rules *rules, int64_t used, bool first, enum billing_end how) {
    if (how == BILLING_SHARED || (used == 0 && !first)) {
        return used;
    }
    if (how == BILLING_EVICTED) {
        return used == HOUR || (!first && !rules->later_hours_free) ? used : 0;
    }
    if (rules->whole_hours) {
        return HOUR;
    }
    return first && used < BILLING_SECONDS_MIN ? BILLING_SECONDS_MIN : used;
}

/* Bills each hour at the market's price when the hour begins, or at `price` if `market` is NULL. */
static struct bill billing(const struct market_rules *rules, const struct market *market, int64_t price, int64_t start,
                           int64_t end, enum billing_end how) {
    assert(start <= end);
    struct bill bill = {0};
    int64_t hour = start;
    do {
        int64_t used = end - hour < HOUR ? end - hour : HOUR;
        int64_t paid = used == HOUR ? HOUR : billing_last_hour(rules, used, hour == start, how);
        if (market != NULL && paid > 0) {
            price = market_price(market, hour);
            assert(price > 0);
        }
        bill.amount += price * paid;
        bill.paid_seconds += paid > 0 ? used : 0;
        bill.free_seconds += paid > 0 ? 0 : used;
        hour += HOUR;
    } while (hour < end);
    return bill;
}

struct bill billing_spot(const struct market_rules *rules, const struct market *market, int64_t start, int64_t end,
                         enum billing_end how) {
    return billing(rules, market, PRICE_UNKNOWN, start, end, how);
}

struct bill billing_on_demand(const struct market_rules *rules, int64_t price, int64_t start, int64_t end,
                              enum billing_end how) {
    assert(how != BILLING_EVICTED);
    return billing(rules, NULL, price, start, end, how);
}

int64_t billing_hour_end(int64_t start, int64_t now) {
    return start > now ? start + HOUR : start + ((now - start) / HOUR + 1) * HOUR;
}

void bill_add(struct bill *total, struct bill one, int64_t count) {
    total->amount += one.amount * count;
    total->paid_seconds += one.paid_seconds * count;
    total->free_seconds += one.free_seconds * count;
}
