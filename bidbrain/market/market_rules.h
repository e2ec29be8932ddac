/* The rules of a market model, each under its own name. A program chooses a model once, by name; code that depends on a
 * rule reads the rule, never the model's name. Constants; any thread. */
#ifndef BIDBRAIN_MARKET_MARKET_RULES_H
#define BIDBRAIN_MARKET_MARKET_RULES_H

#include "bidbrain/market/catalog.h"

struct market_rules {
    const char *name;
    enum catalog_year year; /* of the on-demand prices */
    /* EC2 takes a machine when the price passes its bid: evictions are estimated from prices, and the policy chooses
     * among bid deltas. Otherwise evictions follow interruption.h, and the on-demand price is bid. */
    bool bids;
    bool whole_hours;         /* an hour that has begun is paid whole; otherwise by the second */
    bool later_hours_free;    /* each hour that EC2 cuts short is free; otherwise only a machine's first hour */
    int64_t cooldown_seconds; /* default time without bids for a market after it has taken machines */
};

extern const struct market_rules MARKET_EC2_2016; /* "ec2-2016": until 2017 */
extern const struct market_rules MARKET_EC2;      /* "ec2": today's */

/* Finds the rules of that name. AML_EINPUT with one line, which names the option, if the name is unknown. */
int market_rules_read(const struct market_rules **rules, const char *option, const char *name, struct error *error);

#endif
