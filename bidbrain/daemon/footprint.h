/* Turns the ledger's rows into the policy's portfolio and budget, and its plan into machines to give back. Pure
 * functions: no clock, no network, no ledger.  Machines that have not started, launches without an answer and open spot
 * requests are pending. Machines that are leaving (after a notice, or to be given back) do not count. */
#ifndef BIDBRAIN_DAEMON_FOOTPRINT_H
#define BIDBRAIN_DAEMON_FOOTPRINT_H

#include "bidbrain/daemon/ledger.h"
#include "bidbrain/policy/portfolio.h"

struct footprint {
    struct portfolio known;   /* all but what is held, coming and pending, and the money, which footprint.c fills in */
    int64_t decision_seconds; /* between decisions */
    int64_t notice_seconds;   /* that machines are given to leave the job */
    const struct ledger_launch *const *launches;
    size_t launch_count;
    const struct ledger_machine *const *machines;
    size_t machine_count;
    int64_t budget_micro; /* micro-dollars; INT64_MAX: none */
};

/* Decides what to buy (*plan) and what to give back: `release_at` has an entry for each machine, zeroed by the caller,
 * and gets the time by which the machine is given back; 0: it is kept. */
void footprint_decide(const struct footprint *footprint, struct portfolio_plan *plan, int64_t *release_at);
/* Returns of how many groups (policy.h) machines are, run or come, or are bought by the plan; reliable ones are one.
 * *market: the market of the last one counted. */
size_t footprint_groups(const struct footprint *footprint, const struct portfolio_plan *plan, size_t *market);
/* Why nothing is bought although nothing is held. Each spot market counts for the first reason that keeps it out. */
enum footprint_reason {
    REASON_UNPRICED, /* no price now */
    REASON_CLOSED,   /* cooling down, or it has refused */
    REASON_CEILING,  /* above the price of the reliable machines' vCPUs */
    REASON_VCPUS,    /* its type has more vCPUs than most_vcpus */
    REASON_SHARE,    /* its type has more vCPUs than one market may have: most_vcpus / least_markets */
    REASON_RATE,     /* dearer than most_dollars_per_hour leaves */
    REASON_BUDGET,   /* dearer than the budget leaves */
    REASON_WORTH,    /* it would not lower the cost of work */
    REASONS
};
struct footprint_reasons {
    unsigned markets[REASONS];
    size_t cheapest;       /* of REASON_CEILING the one nearest to its ceiling */
    double price, ceiling; /* of `cheapest`, dollars per machine-hour */
    double rate, budget;   /* dollars that are left: an hour, in all */
    int64_t opens;         /* REASON_CLOSED: when the first one opens, market time; MARKET_NEVER: none */
};
/* False: something is held or under way, or there is no spot market. */
bool footprint_reasons(const struct footprint *footprint, struct footprint_reasons *reasons);
/* One line: "of 3 markets 2 are above their ceiling (nearest: ...), 1 is closed (until ...)". */
enum { FOOTPRINT_REASONS_TEXT = 1024 };
void footprint_reasons_text(const struct footprint *footprint, const struct footprint_reasons *reasons,
                            char text[FOOTPRINT_REASONS_TEXT]);
/* As footprint_decide, but gives back only what the budget requires: for times when nothing can be decided but money is
 * spent all the same. */
void footprint_keep_budget(const struct footprint *footprint, struct portfolio_plan *plan, int64_t *release_at);
/* Returns how many more reliable machines the limit on dollars per hour and the budget allow, beside the `held` ones:
 * at most `wanted`. While none is held it is all that are wanted or none, as the job does not begin with fewer. */
unsigned footprint_reliable_room(const struct footprint *footprint, unsigned held, unsigned wanted);
/* Returns when the renewal of a machine's paid hour has to be decided next; MARKET_NEVER: not at all. */
int64_t footprint_look(const struct ledger_machine *machine, int64_t now, int64_t lead);

/* Returns what a machine has cost from its start until its end, or until now if it runs (ec2-2016: to the end of its
 * hour). */
struct bill footprint_bill(const struct footprint *footprint, const struct ledger_machine *machine);
/* Returns what the same machine would have cost on demand, by the second. An amount as in money.h. */
int64_t footprint_on_demand(const struct footprint *footprint, const struct ledger_machine *machine);
/* All machines. */
struct footprint_spend {
    struct bill spot, on_demand;
    int64_t alike; /* what the same machines would have cost on demand */
    size_t evictions;
};
struct footprint_spend footprint_spend(const struct footprint *footprint);

/* Returns the market's index; MARKET_NONE: it is not there. */
size_t footprint_find(const struct footprint *footprint, enum provider_kind kind, const char *type, const char *zone);

#endif
