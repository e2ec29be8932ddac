/* From what the daemon knows to what the policy sees, and from the policy's actions to launches and releases. Pure
 * functions: no clock, no network, no ledger.
 *
 * An allocation of the policy is what one launch brought: machines of one market at one bid. What runs works; what is
 * pending (machines that have not started, launches without an answer, open spot requests) works not, but takes its
 * part of every limit, so that it isn't bought twice. What is leaving (noticed, or to be given back) is not there any
 * more. */
#ifndef BIDBRAIN_DAEMON_FOOTPRINT_H
#define BIDBRAIN_DAEMON_FOOTPRINT_H

#include "bidbrain/billing.h"
#include "bidbrain/catalog.h"
#include "bidbrain/daemon/ledger.h"
#include "bidbrain/interruption.h"
#include "bidbrain/policy.h"

/* What can be bought. The spot markets come first, as in the table and the interruptions. */
struct footprint_market {
    enum provider_kind kind;
    const struct market *prices;       /* PROVIDER_SPOT */
    const struct catalog_price *price; /* on demand, and what the type is */
    char zone[MARKET_TEXT_MAX];
    int64_t closed_until; /* market time: it is cooling down, or has refused */
};

struct footprint {
    const struct market_rules *rules;
    int64_t now;              /* market time, seconds */
    int64_t lead;             /* so long before a paid hour's end it is decided whether another follows */
    int64_t decision_seconds; /* between decisions */
    int64_t notice_seconds;   /* that machines are given to leave the job */
    const struct footprint_market *markets;
    size_t market_count;
    const struct eviction_table *table;         /* ec2-2016 */
    const struct interruptions *interruptions;  /* ec2 */
    const struct catalog_price *reliable_price; /* of a reliable machine: the yardstick of what a vCPU may cost */
    unsigned reliable;                          /* machines of it */
    const struct ledger_launch *launches;
    size_t launch_count;
    const struct ledger_machine *machines;
    size_t machine_count;
    struct policy_app app;
    struct policy_limits limits;
    struct policy_end end;
    bool fallback;        /* on demand when no spot market is below the ceiling, or a deadline asks for it */
    int64_t budget_micro; /* micro-dollars; INT64_MAX: none */
};

struct footprint_buy {
    size_t market;
    unsigned count;
    int64_t bid;          /* micro-dollars; 0 on demand */
    double price;         /* dollars per machine-hour now */
    double cost_per_work; /* E_A with it */
};

struct footprint_plan {
    struct footprint_buy buys[POLICY_JOINT_MAX];
    size_t buy_count;
    double cost_per_work;     /* E_A as it was: dollars per vCPU-hour; infinite when nothing works */
    size_t renewed, released; /* allocations; of which only a part is renewed: both */
    double hours_left;        /* to the job's end, if its work is known and something works; else INFINITY */
    bool over_budget;         /* something was not bought, or is given back, for the budget's sake */
};

/* A zeroed list of machines' release times goes in (one for each machine), 0 for those that are kept; what was decided
 * comes out there and in *plan. */
void footprint_decide(const struct footprint *footprint, struct footprint_plan *plan, int64_t *release_at);
/* Why nothing is bought though nothing is held: how many of the spot markets each reason keeps out, the first that
 * applies. */
enum footprint_reason {
    REASON_UNPRICED, /* no price now */
    REASON_CLOSED,   /* cooling down, or it has refused */
    REASON_CEILING,  /* above the price of the reliable machines' vCPUs */
    REASON_VCPUS,    /* its type has more vCPUs than most_vcpus */
    REASON_SHARE,    /* ... than a market's part of them, by least_markets */
    REASON_RATE,     /* dearer than most_dollars_per_hour leaves */
    REASON_BUDGET,   /* dearer than the budget leaves */
    REASON_WORTH,    /* it would not lower the cost of work */
    REASONS
};
struct footprint_reasons {
    unsigned markets[REASONS];
    size_t cheapest;       /* of REASON_CEILING the one nearest to its ceiling */
    double price, ceiling; /* its, dollars per machine-hour */
    double rate, budget;   /* dollars that are left: an hour, in all */
    int64_t opens;         /* REASON_CLOSED: when the first one opens, market time; MARKET_NEVER: none */
};
/* False: something is held or under way, or there is no spot market. */
bool footprint_reasons(const struct footprint *footprint, struct footprint_reasons *reasons);
/* One line: "of 3 markets 2 are above their ceiling (nearest: ...), 1 is closed (until ...)". */
enum { FOOTPRINT_REASONS_TEXT = 1024 };
void footprint_reasons_text(const struct footprint *footprint, const struct footprint_reasons *reasons,
                            char text[FOOTPRINT_REASONS_TEXT]);
/* Only what the budget asks to be given back, likewise: while nothing can be decided, money is spent all the same. */
void footprint_keep_budget(const struct footprint *footprint, struct footprint_plan *plan, int64_t *release_at);
/* How many reliable machines the rate's limit and the budget allow to buy, beside `held` that there are: at most
 * `wanted`; at first, while none is held, either all that are wanted or none, as the job does not begin with fewer. */
unsigned footprint_reliable_room(const struct footprint *footprint, unsigned held, unsigned wanted);
/* The next moment at which a paid hour's renewal has to be decided; MARKET_NEVER. */
int64_t footprint_next_renewal(const struct footprint *footprint);

/* What a machine costs from its start until it ended, or until now if it runs (ec2-2016: its whole hour). */
struct bill footprint_bill(const struct footprint *footprint, const struct ledger_machine *machine);
/* The same machine on demand, by the second. Amount as in money.h. */
int64_t footprint_on_demand(const struct footprint *footprint, const struct ledger_machine *machine);
/* All machines. */
struct footprint_spend {
    struct bill spot, on_demand;
    int64_t alike; /* what the same machines would have cost on demand */
    size_t evictions;
};
struct footprint_spend footprint_spend(const struct footprint *footprint);

/* The end of the billing hour that is under way. */
int64_t footprint_hour_end(const struct ledger_machine *machine, int64_t now);
size_t footprint_find(const struct footprint *footprint, enum provider_kind kind, const char *type, const char *zone);

#endif
