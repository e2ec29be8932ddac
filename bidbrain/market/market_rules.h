/* The rules of a market model, each as a named value. A program chooses a model once, by its name. Code that depends on
 * a rule reads that rule, not the model's name. Constants; any thread. */
#ifndef BIDBRAIN_MARKET_MARKET_RULES_H
#define BIDBRAIN_MARKET_MARKET_RULES_H

#include "bidbrain/market/catalog.h"

struct market_rules {
    const char *name;
    enum catalog_year year; /* year of the on-demand prices */
    /* EC2 takes a machine when the price passes its bid: evictions are estimated from prices, and the policy chooses
     * among bid deltas. Otherwise evictions follow interruption.h, and the on-demand price is bid. */
    bool bids;
    bool whole_hours;         /* an hour that has begun is paid whole; otherwise by the second */
    bool later_hours_free;    /* each hour that EC2 cuts short is free; if false, only a machine's first hour */
    int64_t cooldown_seconds; /* default of how long a market gets no bids after it has taken machines */
};

extern const struct market_rules MARKET_EC2_2016; /* "ec2-2016": until 2017 */
extern const struct market_rules MARKET_EC2;      /* "ec2": today's */

/* Finds the rules called `name`. For an unknown name returns AML_EINPUT with one line, which names the option. */
int market_rules_read(const struct market_rules **rules, const char *option, const char *name, struct error *error);

#endif
