/* Decides what to buy and what to give back. Has equations (1) to (4) of the paper's section 4 as pure functions with
 * the paper's symbols, and makes the decisions of section 4.2 by them. Uses no clock, network or history: all knowledge
 * is in `struct policy_view`, so that a decision can't use the future. Times are hours, money is dollars. Any
 * thread. */
#ifndef BIDBRAIN_POLICY_POLICY_H
#define BIDBRAIN_POLICY_POLICY_H

#include "bidbrain/policy/eviction.h"

/* An allocation: machines of one type bought at one time at one bid. */
struct policy_allocation {
    double k;     /* number of machines */
    double P;     /* dollars per machine-hour */
    double beta;  /* probability that it is evicted within t_r */
    double omega; /* hours of t_r in which it is expected to compute */
    double t_r;   /* hours left of its billing hour, or of the hour to look ahead */
    double nu;    /* work of one machine in an hour; 0 for a machine that only holds state */
    bool refund;  /* true: t_r is free if it is evicted within t_r; false: the time until its eviction is paid */
};

/* A job without reliable machines (stage transient): each part of its state is on two machines of different *groups*. A
 * group is what one price takes at once: the machines of one type in one zone. */
struct policy_copies {
    bool spread; /* if false, reliable machines have the state, and the other fields do not count */
    double lost; /* hours of work to redo when both copies of a part are lost: the work since the checkpoint */
    /* Hours from the loss of a group until its state is copied again. `copied`: onto other groups. `replaced`: onto a
     * new group, bought first, when only one other group is left. */
    double copied, replaced;
};

/* The application (Table 2). */
struct policy_app {
    double phi;    /* scaling efficiency, 0..1 */
    double sigma;  /* hours without progress when machines are added or removed */
    double lambda; /* hours without progress when machines are evicted */
    /* 0: phi scales all work, as in (3). Otherwise phi scales only the work beyond `reference` per hour: the
     * first-order expansion of the scalability curve around the size at which phi was measured. */
    double reference;
    struct policy_copies copies;
};

struct policy_group {
    size_t id;
    double beta; /* probability that the group is lost within the hour */
};

/* Returns the probability that some part of the state loses both copies: a second group is lost before the first
 * group's state is copied again. A single group has both copies. */
double policy_state_lost(const struct policy_group *groups, size_t count, const struct policy_copies *copies);

/* (1) C_A[x_i] = (1 - beta) P k t_r + beta 0 k t_r */
double policy_cost(const struct policy_allocation *x);
/* 1 - prod(1 - beta_j) */
double policy_any_eviction(const struct policy_allocation *x, size_t count);
/* (2) dt_i = omega_i - (1 - prod(1 - beta_j)) lambda - sigma. sigma counts only when the footprint changes. The result
 * may be negative. */
double policy_useful_time(const struct policy_allocation *x, double any_eviction, const struct policy_app *app,
                          bool changed);
/* (3) W_A = (sum k_i dt_i nu_i) phi */
double policy_work(const struct policy_allocation *x, size_t count, const struct policy_app *app, bool changed);
/* (4) E_A = C_A / W_A; infinite when no work is expected. */
double policy_cost_per_work(const struct policy_allocation *x, size_t count, const struct policy_app *app,
                            bool changed);

/* The sums for (1) to (4), so that adding an allocation takes O(1). Zeroed but with keep = 1: no allocations. */
struct policy_sum {
    double cost;  /* C_A */
    double keep;  /* prod(1 - beta_j) */
    double omega; /* sum k nu omega */
    double rate;  /* sum k nu */
};
#define POLICY_SUM_NONE ((struct policy_sum){.keep = 1})
struct policy_sum policy_sum_add(struct policy_sum sum, const struct policy_allocation *x);
double policy_sum_cost_per_work(struct policy_sum sum, const struct policy_app *app, bool changed);
/* (4) by groups. In (2) a group is lost as a whole, with 1 - prod(1 - beta_g), and costs lambda. Each hour of work is
 * done 1 + P x copies.lost times, with P of policy_state_lost. */
double policy_sum_cost_in_groups(struct policy_sum sum, const struct policy_group *groups, size_t count,
                                 const struct policy_app *app, bool changed);

/* ---- Decisions ---- */

enum {
    POLICY_GROUPS_LEAST = 2, /* fewest groups of a job without reliable machines */
    POLICY_COPIES_SHARE = 4, /* each of the last groups keeps at least 1/4 of an allocation's machines */
    POLICY_RENEW_STEPS = 16, /* steps in which shares of an allocation are renewed at the end */
    POLICY_END_HOURS = 2,    /* the end of a job begins when so many hours of work at full size are left */
    POLICY_HELD_MAX = 256,   /* allocations held at once */
    POLICY_JOINT_MAX = 4,    /* acquisitions chosen together */
    POLICY_ACTIONS_MAX = POLICY_HELD_MAX + POLICY_JOINT_MAX, /* most actions of one decision */
    /* rounds of exchanging one chosen candidate for a better one */
    POLICY_JOINT_ROUNDS = 3,
    POLICY_COUNTS = 3,     /* sizes of candidates: all machines that the limits leave, a half, a quarter */
    POLICY_END_COUNTS = 3, /* more sizes at the end: enough machines to finish within one, two, three hours */
};

/* The present offer of a market. */
struct policy_offer {
    double P;                       /* dollars per machine-hour */
    double ceiling;                 /* highest P to pay for a candidate or a renewal */
    double nu;                      /* work per machine-hour */
    double vcpus;                   /* vCPUs of a machine, for the limits */
    bool open;                      /* not cooling down, and with a price now */
    bool on_demand;                 /* the cloud never takes these machines */
    size_t group;                   /* index of the first offer of the same type and zone */
    double held;                    /* machines held in this market */
    double coming;                  /* machines that have not started yet and are not in the list `held` */
    double coming_beta;             /* the highest beta of their allocations */
    unsigned deltas;                /* entries of the following arrays */
    double delta[EVICTION_DELTAS];  /* dollars above P, increasing */
    double beta[EVICTION_DELTAS];   /* probability of an eviction within a full hour */
    double median[EVICTION_DELTAS]; /* hours to eviction, of evictions within the hour */
};

/* A held allocation. */
struct policy_held {
    struct policy_allocation now; /* the allocation for the rest of its hour */
    size_t market;
    bool coming;                      /* its machines have not started yet */
    bool expiring;                    /* its hour is about to end: it has to be renewed or released */
    struct policy_allocation renewed; /* if expiring: for the next hour at the present price */
};

struct policy_limits {
    double most_machines;
    double most_vcpus;            /* limit for all but reliable machines */
    double least_vcpus;           /* smaller allocations are not worth a change; 0: no minimum */
    double most_dollars_per_hour; /* limit for all machines at present prices */
    unsigned least_markets;       /* no market gets more than 1/least_markets of most_vcpus */
    /* Machines that have not started yet. They count against the limits above. */
    double coming_machines, coming_vcpus, coming_dollars_per_hour;
};

/* Additions to the paper, each with its switch. Two more are the caller's: estimates by regime and measured
 * characteristics change the values in the view. */
struct policy_additions {
    bool joint;   /* choose several acquisitions together, count sigma once, and replace expiring allocations */
    bool diverse; /* markets whose spikes come together share half of most_vcpus */
};

/* The job's end, as far as it is known. Decisions use (4) alone while `work` is 0 (unknown). They also do so while
 * there is no deadline and more than POLICY_END_HOURS of work at full size are left. Otherwise they minimize the
 * expected dollars from now to the end, divided by the work left. With `whole_hours` an hour already paid costs
 * nothing.
 *
 * Work left at the deadline costs its on-demand price; being late costs another fifth of the work left. A footprint is
 * rejected if the offered on-demand machines can meet the deadline now, but could not after another hour of this
 * footprint. */
struct policy_end {
    double work;       /* work left, in hours of nu = 1; 0: unknown */
    double deadline;   /* hours from now; INFINITY: none */
    double hour_worth; /* dollars saved by each hour that the job ends earlier */
    double boot;       /* hours from buying a machine to its first work */
    bool whole_hours;  /* machines are paid to the end of their hours; if false, until the job ends */
};

/* With app.copies.spread no market gets more than 1/POLICY_GROUPS_LEAST of any limit. While there are fewer groups,
 * another group is bought at prices up to the ceiling, whatever the cost of work. A group is given back whole only if
 * POLICY_GROUPS_LEAST running groups are left. If no other group is offered, one group has to do. */
struct policy_view {
    struct policy_app app;
    struct policy_end end;
    struct policy_limits limits;
    struct policy_additions additions;
    struct policy_allocation on_demand; /* never released; k = 0: none */
    const struct policy_held *held;
    size_t held_count; /* at most POLICY_HELD_MAX */
    const struct policy_offer *offers;
    size_t offer_count;
    /* used by `diverse`; NULL: no markets are correlated */
    bool (*correlated)(const void *context, size_t a, size_t b);
    const void *context;
};

struct policy_action {
    enum { POLICY_ACQUIRE, POLICY_RELEASE, POLICY_RENEW } kind;
    size_t index;   /* POLICY_ACQUIRE: of the offer; otherwise of the held allocation */
    unsigned delta; /* POLICY_ACQUIRE: index in the offer's arrays */
    double count;   /* whole machines; POLICY_RELEASE: all of them; POLICY_RENEW: those that are kept */
    /* E_A after this acquisition and the actions before it; for other actions: after all of them */
    double cost_per_work;
};

/* Whether decisions minimize the dollars to the job's end instead of (4). */
bool policy_is_end(const struct policy_view *view);
/* Returns the expected hours to the end of the job after the actions of policy_decide; INFINITY if no machine works.
 * Requires a known view->end.work. */
double policy_hours_left(const struct policy_view *view, const struct policy_action *actions, size_t count);
/* Writes one POLICY_RENEW or POLICY_RELEASE for each expiring allocation, then the acquisitions. Returns the number of
 * actions, at most POLICY_ACTIONS_MAX. Sets *cost_per_work to E_A of the footprint before the decision. */
size_t policy_decide(const struct policy_view *view, struct policy_action actions[POLICY_ACTIONS_MAX],
                     double *cost_per_work);

/* Returns an offer's candidate as an allocation for a full hour, with `refund` set. */
struct policy_allocation policy_candidate(const struct policy_offer *offer, unsigned delta, double count);
/* Returns omega: all of t_r without an eviction, else the median time to eviction. */
double policy_omega(double beta, double median, double t_r);

#endif
