/* From what is offered and what is held to the policy's view, and from the policy's actions to what is bought and what
 * stays. The daemon, which spends money, the cost study and `bidbrain advise` all decide by this module. Pure
 * functions: no clock, no network, no ledger. Times are seconds of the market, prices micro-dollars per machine-hour.
 *
 * A holding is what one launch brought: machines of one market at one bid. What is coming (machines that have not
 * started, launches without an answer) does no work yet, but takes its part of every limit, so that it is not bought
 * twice. */
#ifndef BIDBRAIN_POLICY_PORTFOLIO_H
#define BIDBRAIN_POLICY_PORTFOLIO_H

#include "bidbrain/market/billing.h"
#include "bidbrain/market/interruption.h"
#include "bidbrain/policy/policy.h"

enum { PORTFOLIO_LEAST_SHARE = 32 /* of limits.most_work: a smaller allocation is not worth a change */ };

/* What can be bought. The spot markets come first, as in the table and the interruptions. */
struct portfolio_market {
    const struct market *prices;      /* of spot machines; NULL: on demand, at the type's price */
    const struct catalog_price *type; /* with its price on demand */
    char zone[MARKET_TEXT_MAX];
    int64_t closed_until; /* it is cooling down, has refused, or has no machines now */
};

struct portfolio_holding {
    size_t market;
    unsigned count;
    int64_t start, bid; /* of the first billing hour; on demand the bid has no meaning */
    const void *of;     /* the caller's */
};

/* When machines on demand are offered. */
enum portfolio_fallback {
    FALLBACK_NEVER,
    FALLBACK_DEADLINE, /* while the job has work left and a deadline */
    FALLBACK_ALWAYS,   /* then, and while no spot market is open below its ceiling */
};

/* Of all that is coming, also beyond portfolio.coming_count; work and dollars an hour. */
struct portfolio_pending {
    double machines, work, dollars;
};

struct portfolio {
    const struct market_rules *rules;
    int64_t now;
    /* It is decided whether another hour follows when a paid hour has at most `lead` left, and more than `late`: an
     * hour that ends sooner is left to its renewal. `review_on_demand`: by the second, machines on demand may be given
     * back at each decision. */
    int64_t lead, late;
    bool review_on_demand;
    const struct portfolio_market *markets;
    size_t market_count;
    const struct catalog_price *reference; /* no vCPU may cost more than one of this type on demand */
    /* What is known of evictions: the table where rules->bids, by regime or as the market's average; else the
     * interruptions. */
    const struct eviction_table *table;
    bool by_regime;
    const struct interruptions *interruptions;
    enum portfolio_fallback fallback;
    unsigned reliable; /* machines of reliable_type on demand, which are never given back */
    const struct catalog_price *reliable_type;
    struct policy_app app;
    struct policy_end end;
    struct policy_limits limits; /* of what is held and what is coming together */
    struct policy_additions additions;
    bool (*correlated)(const void *context, size_t a, size_t b);
    const void *context;

    const struct portfolio_holding *held, *coming;
    size_t held_count, coming_count; /* each at most POLICY_HELD_MAX; */
    struct portfolio_pending pending;

    double money;          /* that may still be bound; INFINITY: no budget */
    double renewed_rate;   /* dollars an hour of all machines that a renewal may bring about; INFINITY: any */
    unsigned most_at_once; /* machines of one acquisition */
};

struct portfolio_buy {
    size_t market;
    unsigned count;
    int64_t bid;          /* 0 on demand */
    double price;         /* dollars per machine-hour now */
    double cost_per_work; /* E_A with it */
};

struct portfolio_plan {
    struct portfolio_buy buys[POLICY_JOINT_MAX];
    size_t buy_count;
    unsigned kept[POLICY_HELD_MAX]; /* of each holding: machines that stay */
    double cost_per_work;           /* E_A as it was: dollars per vCPU-hour; infinite when nothing works */
    size_t renewed, released;       /* holdings; of which only a part is renewed: both */
    double hours_left;              /* to the job's end, if its work is known and something works; else INFINITY */
    bool over_budget;               /* something was not bought, or is given back, for the money's sake */
};

/* A list of what these markets sell, with room for one more behind them, from malloc. AML_EINPUT: they are of several
 * regions, and machines of a job talk to each other; *list is there all the same. */
int portfolio_markets(struct portfolio_market **list, const struct markets *markets, const struct catalog *catalog,
                      struct error *error);

void portfolio_decide(const struct portfolio *portfolio, struct portfolio_plan *plan);

/* Work per hour below which an allocation is not worth a change. */
static inline double portfolio_least_work(const struct portfolio *portfolio) {
    return portfolio->limits.most_work / PORTFOLIO_LEAST_SHARE;
}

/* What the policy is given: the offers of all markets (as many as market_count) and the holdings. */
struct policy_view portfolio_view(const struct portfolio *portfolio, struct policy_offer *offers,
                                  struct policy_held held[POLICY_HELD_MAX]);
/* The offer of one market; on demand it is open only in a view. */
struct policy_offer portfolio_offer(const struct portfolio *portfolio, size_t market);
/* What a machine of the market costs now; PRICE_UNKNOWN. */
int64_t portfolio_price(const struct portfolio *portfolio, size_t market);
/* Whether another hour of a machine has to be decided now, by the hours that it has begun since `start`. */
bool portfolio_expires(const struct portfolio *portfolio, int64_t start);

#endif
