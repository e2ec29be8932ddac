/* What one machine costs by the rules of its market model (docs/bidbrain.md; EC2's documentation). Amounts are whole
 * units of money.h: nothing is rounded. Pure functions.
 *
 *   ec2-2016  spot: whole hours from the start, each at the price that holds when the hour begins; an hour that EC2
 *             cuts short is free, one that we cut short is paid. On demand: whole hours.
 *   ec2       spot: by the second, at the price that holds at the start of each of the machine's hours, at least 60 s;
 *             interrupted by EC2 within the first hour: free. On demand: by the second, at least 60 s. */
#ifndef BIDBRAIN_MARKET_BILLING_H
#define BIDBRAIN_MARKET_BILLING_H

#include "bidbrain/market/market.h"
#include "bidbrain/market/market_rules.h"

enum { BILLING_SECONDS_MIN = 60 };

enum billing_end {
    BILLING_RELEASED, /* we gave it back */
    BILLING_EVICTED,  /* EC2 took it */
    BILLING_SHARED,   /* our job has ended and a following job uses the rest of the hour: only used seconds are paid, as
                         in the paper's section 6.3 */
};

struct bill {
    int64_t amount;       /* in units of money.h */
    int64_t paid_seconds; /* seconds that the machine ran and we pay */
    int64_t free_seconds; /* seconds that the machine ran and we do not pay */
};

/* A spot machine of `market` that ran start..end, start <= end, with a price known at `start`. */
struct bill billing_spot(const struct market_rules *rules, const struct market *market, int64_t start, int64_t end,
                         enum billing_end how);
/* A machine on demand at `price`; `how` is not BILLING_EVICTED. */
struct bill billing_on_demand(const struct market_rules *rules, int64_t price, int64_t start, int64_t end,
                              enum billing_end how);
/* The end of the billing hour that contains `now`; of the first hour if the machine starts after `now`. */
int64_t billing_hour_end(int64_t start, int64_t now);
/* *total += count x one */
void bill_add(struct bill *total, struct bill one, int64_t count);

#endif
