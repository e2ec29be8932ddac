/* Builds the policy's view from markets and holdings, and turns the policy's actions into purchases and renewals. The
 * daemon, which spends money, the cost study and `bidbrain advise` all decide by this module. Pure functions: no clock,
 * no network, no ledger. Times are seconds of the market, prices micro-dollars per machine-hour.
 *
 * A holding is the result of one launch: machines of one market at one bid. Coming machines (not started yet, or of
 * launches without an answer) do no work yet, but count against every limit, so that nothing is bought twice. */
#ifndef BIDBRAIN_POLICY_PORTFOLIO_H
#define BIDBRAIN_POLICY_PORTFOLIO_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/interruption.h"
#include "bidbrain/policy/policy.h"

enum {
    PORTFOLIO_LEAST_SHARE = 32, /* the smallest new allocation is 1/32 of most_vcpus */
    PORTFOLIO_PROBES_MAX = 8,
    PORTFOLIO_PROBES_DEFAULT = 4,
    PORTFOLIO_PROBES_SHARE = 8, /* probes take at most 1/8 of a purchase */
};
#define PORTFOLIO_PROBES_HOURS 0.5 /* no probes for a job that ends sooner */

/* A market to buy in. Spot markets come first, in the order of the eviction table and of the interruptions. */
struct portfolio_market {
    const struct market *prices;      /* prices of spot machines; NULL: on demand, at the type's price */
    const struct catalog_price *type; /* the machines' type and on-demand price */
    char zone[MARKET_TEXT_MAX];
    double speed;         /* work per hour of one of its vCPUs (speeds.h); 0: not measured, counts as 1 */
    int64_t closed_until; /* if later than now: it is cooling down, has refused a launch, or has no machines */
};

struct portfolio_holding {
    size_t market;
    unsigned count;
    int64_t start;  /* start of the first billing hour */
    int64_t bid;    /* bid of spot machines */
    const void *of; /* for the caller's use */
};

/* When machines on demand are offered. */
enum portfolio_fallback {
    FALLBACK_NEVER,
    FALLBACK_DEADLINE, /* while the job has work left and a deadline */
    /* As FALLBACK_DEADLINE, and also while no spot market is open below its ceiling. With app.copies.spread: also while
     * fewer than POLICY_GROUPS_LEAST groups are open. */
    FALLBACK_ALWAYS,
};

/* The totals of all coming machines, also of those beyond portfolio.coming_count; dollars are per hour. */
struct portfolio_pending {
    double machines, vcpus, dollars;
};

struct portfolio {
    const struct market_rules *rules;
    int64_t now;
    /* A renewal is decided when at most `lead` and more than `late` seconds of the paid hour are left. With `late` or
     * less the hour is renewed without a decision. */
    int64_t lead, late;
    bool review_on_demand; /* where machines are paid by the second: on-demand ones expire at each decision */
    const struct portfolio_market *markets;
    size_t market_count;
    const struct catalog_price *reference; /* work may not cost more than with this type on demand */
    double reference_speed;                /* speed of its vCPUs; 0: not measured, counts as 1 */
    /* If rules->bids, evictions are estimated by the table, by regime or as the market's average; otherwise by the
     * interruptions. */
    const struct eviction_table *table;
    bool by_regime;
    const struct interruptions *interruptions;
    enum portfolio_fallback fallback;
    unsigned reliable; /* on-demand machines of reliable_type, which are never given back */
    const struct catalog_price *reliable_type;
    struct policy_app app;
    struct policy_end end;
    struct policy_limits limits; /* limits for held and coming machines together */
    struct policy_additions additions;
    bool (*correlated)(const void *context, size_t a, size_t b);
    const void *context;

    const struct portfolio_holding *held, *coming;
    size_t held_count, coming_count; /* each at most POLICY_HELD_MAX */
    struct portfolio_pending pending;

    double money;          /* micro-dollars that may still be spent; INFINITY: no budget */
    double renewed_rate;   /* most dollars per hour of all machines after a renewal; INFINITY: no limit */
    unsigned most_at_once; /* most machines of one acquisition */
    /* Probes: single machines of types without a measured speed, bought in place of a part of a purchase, to compare
     * the types. This is the limit of such types, at most PORTFOLIO_PROBES_MAX. 0: no probes. */
    unsigned probes;
};

struct portfolio_buy {
    size_t market;
    unsigned count;
    int64_t bid;          /* bid of spot machines; 0 on demand */
    double price;         /* present price in dollars per machine-hour */
    double cost_per_work; /* E_A after the purchase */
    bool probe;           /* one machine, to measure its type's speed */
};

struct portfolio_plan {
    struct portfolio_buy buys[POLICY_JOINT_MAX + PORTFOLIO_PROBES_MAX];
    size_t buy_count;
    unsigned kept[POLICY_HELD_MAX]; /* machines of each holding that stay */
    double cost_per_work; /* E_A before the decision: dollars per work, in vCPU-hours; infinite if no machine works */
    size_t renewed, released; /* holdings; a holding that is renewed in part counts in both */
    double hours_left;        /* expected hours to the job's end; INFINITY if its work is unknown or no machine works */
    bool over_budget;         /* lack of money prevented a purchase or a renewal */
};

/* Allocates a list of these markets with room for one more entry. The caller frees it, also after an error. Returns
 * AML_EINPUT if the markets are of several regions: machines of one job need one region. */
int portfolio_markets(struct portfolio_market **list, const struct markets *markets, const struct catalog *catalog,
                      struct error *error);

void portfolio_decide(const struct portfolio *portfolio, struct portfolio_plan *plan);

/* Returns the vCPUs below which an allocation is not worth a change. */
static inline double portfolio_least_vcpus(const struct portfolio *portfolio) {
    return portfolio->limits.most_vcpus / PORTFOLIO_LEAST_SHARE;
}

/* Returns nu, the work of one machine of the market per hour. */
double portfolio_nu(const struct portfolio_market *market);
/* Builds the policy's view: fills the offers of all `market_count` markets, and the holdings. */
struct policy_view portfolio_view(const struct portfolio *portfolio, struct policy_offer *offers,
                                  struct policy_held held[POLICY_HELD_MAX]);
/* Returns the offer of one market. An on-demand offer is open only in a view. */
struct policy_offer portfolio_offer(const struct portfolio *portfolio, size_t market);
/* Returns the present price of a machine in the market, or PRICE_UNKNOWN. */
int64_t portfolio_price(const struct portfolio *portfolio, size_t market);
/* Whether the renewal of a machine that started at `start` has to be decided now. */
bool portfolio_expires(const struct portfolio *portfolio, int64_t start);

#endif
