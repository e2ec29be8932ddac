/* Turns the ledger's rows into the policy's portfolio and budget, and its plan into machines to give back. Pure
 * functions: no clock, no network, no ledger.
 *
 * Machines that have not started, launches without an answer and open spot requests are pending. Machines that leave
 * (after a notice, or to be given back) do not count. */
#ifndef BIDBRAIN_DAEMON_FOOTPRINT_H
#define BIDBRAIN_DAEMON_FOOTPRINT_H

#include "bidbrain/daemon/ledger.h"
#include "bidbrain/policy/portfolio.h"

struct footprint {
    /* the caller fills in all but holdings, coming and pending machines, and the money, which footprint.c computes */
    struct portfolio known;
    int64_t decision_seconds; /* time between two decisions */
    int64_t notice_seconds;   /* time that machines have to leave the job */
    const struct ledger_launch *const *launches;
    size_t launch_count;
    const struct ledger_machine *const *machines;
    size_t machine_count;
    int64_t budget_micro; /* micro-dollars; INT64_MAX: none */
};

/* Decides what to buy (*plan) and what to give back. `release_at` has an entry for each machine, zeroed by the caller:
 * the time by which the machine is given back; 0: it is kept. */
void footprint_decide(const struct footprint *footprint, struct portfolio_plan *plan, int64_t *release_at);
/* Returns the number of groups (policy.h) of all running and coming machines and those that the plan buys. Reliable
 * machines are one group. Sets *market to the market of the last group counted. */
size_t footprint_groups(const struct footprint *footprint, const struct portfolio_plan *plan, size_t *market);
/* Why nothing is bought although nothing is held. A spot market counts under the first reason that applies. */
enum footprint_reason {
    REASON_UNPRICED, /* no price at present */
    REASON_CLOSED,   /* cooling down, or it has refused */
    REASON_CEILING,  /* above the price of as many vCPUs of the reliable type */
    REASON_VCPUS,    /* its type has more vCPUs than most_vcpus */
    REASON_SHARE,    /* its type has more vCPUs than one market may have: most_vcpus / least_markets */
    REASON_RATE,     /* most_dollars_per_hour leaves too little */
    REASON_BUDGET,   /* the budget leaves too little */
    REASON_WORTH,    /* it would not lower the cost of work */
    REASONS
};
struct footprint_reasons {
    unsigned markets[REASONS];
    size_t cheapest;       /* REASON_CEILING: the market nearest to its ceiling */
    double price, ceiling; /* price and ceiling of `cheapest`, in dollars per machine-hour */
    double rate, budget;   /* dollars left per hour, and in total */
    int64_t opens;         /* REASON_CLOSED: market time at which the first market opens; MARKET_NEVER: none */
};
/* Returns false if something is held or under way, or there is no spot market. */
bool footprint_reasons(const struct footprint *footprint, struct footprint_reasons *reasons);
/* Writes a line such as "of 3 markets 2 are above their ceiling (nearest: ...), 1 is closed (until ...)". */
enum { FOOTPRINT_REASONS_TEXT = 1024 };
void footprint_reasons_text(const struct footprint *footprint, const struct footprint_reasons *reasons,
                            char text[FOOTPRINT_REASONS_TEXT]);
/* Like footprint_decide, but gives back only what the budget requires. For times when nothing can be decided but money
 * is still spent. */
void footprint_keep_budget(const struct footprint *footprint, struct portfolio_plan *plan, int64_t *release_at);
/* Returns how many more reliable machines the limit on dollars per hour and the budget allow besides the `held` ones,
 * at most `wanted`. While none is held, returns `wanted` or 0: the job does not start with fewer. */
unsigned footprint_reliable_room(const struct footprint *footprint, unsigned held, unsigned wanted);
/* Returns when to decide about the renewal of a machine's paid hour; MARKET_NEVER: never. */
int64_t footprint_look(const struct ledger_machine *machine, int64_t now, int64_t lead);

/* Returns the cost of a machine from its start until its end, or until now if it runs (ec2-2016: until the end of its
 * hour). */
struct bill footprint_bill(const struct footprint *footprint, const struct ledger_machine *machine);
/* Returns what the same machine would have cost on demand, paid by the second. An amount as in money.h. */
int64_t footprint_on_demand(const struct footprint *footprint, const struct ledger_machine *machine);
/* Totals over all machines. */
struct footprint_spend {
    struct bill spot, on_demand;
    int64_t alike; /* cost of the same machines on demand */
    size_t evictions;
};
struct footprint_spend footprint_spend(const struct footprint *footprint);

/* Returns the market's index; MARKET_NONE: not found. */
size_t footprint_find(const struct footprint *footprint, enum provider_kind kind, const char *type, const char *zone);

#endif
