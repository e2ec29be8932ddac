/* The rules of a market model, each under its name. A program chooses a model once, by its name; whoever acts by a rule
 * looks at the rule and never at which model it is. Constants; any thread. */
#ifndef BIDBRAIN_MARKET_MARKET_RULES_H
#define BIDBRAIN_MARKET_MARKET_RULES_H

#include "bidbrain/market/catalog.h"

struct market_rules {
    const char *name;
    enum catalog_year year; /* of the on-demand prices */
    bool bids;        /* a bid decides when a machine is taken: prices tell how likely that is, and a policy chooses
                                 among bid deltas. Otherwise interruptions tell, and the on-demand price is bid */
    bool whole_hours; /* an hour that has begun is paid whole; otherwise by the second */
    bool later_hours_free;    /* each hour that EC2 cuts short is free; otherwise a machine's first one alone */
    int64_t cooldown_seconds; /* without a bid for a market after it has taken machines, unless configured */
};

extern const struct market_rules MARKET_EC2_2016; /* "ec2-2016": until 2017 */
extern const struct market_rules MARKET_EC2;      /* "ec2": today's */

/* The rules of that name. AML_EINPUT with one line, which names the option, when there are none. */
int market_rules_read(const struct market_rules **rules, const char *option, const char *name, struct error *error);

#endif
