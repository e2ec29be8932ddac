/* See billing.h. */
#include "bidbrain/billing.h"

#include <assert.h>
#include <string.h>

bool market_model_parse(const char *name, enum market_model *model) {
    *model = strcmp(name, "ec2") == 0 ? MODEL_EC2 : MODEL_EC2_2016;
    return strcmp(name, market_model_name(*model)) == 0;
}

const char *market_model_name(enum market_model model) {
    return model == MODEL_EC2 ? "ec2" : "ec2-2016";
}

/* The seconds to pay of the hour that a machine ended in `used` seconds (0..3600) after it began. `first` tells the
 * first hour, which begins even if the machine ran no second. */
static int64_t billing_last_hour(enum market_model model, int64_t used, bool first, enum billing_end how) {
    if (how == BILLING_SHARED || (used == 0 && !first)) {
        return used;
    }
    if (how == BILLING_EVICTED) {
        return used == HOUR || (model == MODEL_EC2 && !first) ? used : 0;
    }
    if (model == MODEL_EC2_2016) {
        return HOUR;
    }
    return first && used < BILLING_SECONDS_MIN ? BILLING_SECONDS_MIN : used;
}

/* `market` NULL: at `price`. */
static struct bill billing(enum market_model model, const struct market *market, int64_t price, int64_t start,
                           int64_t end, enum billing_end how) {
    assert(start <= end);
    struct bill bill = {0};
    int64_t hour = start;
    do {
        int64_t used = end - hour < HOUR ? end - hour : HOUR;
        int64_t paid = used == HOUR ? HOUR : billing_last_hour(model, used, hour == start, how);
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

struct bill billing_spot(enum market_model model, const struct market *market, int64_t start, int64_t end,
                         enum billing_end how) {
    return billing(model, market, PRICE_UNKNOWN, start, end, how);
}

struct bill billing_on_demand(enum market_model model, int64_t price, int64_t start, int64_t end,
                              enum billing_end how) {
    assert(how != BILLING_EVICTED);
    return billing(model, NULL, price, start, end, how);
}

void bill_add(struct bill *total, struct bill one, int64_t count) {
    total->amount += one.amount * count;
    total->paid_seconds += one.paid_seconds * count;
    total->free_seconds += one.free_seconds * count;
}
