/* Decides what to buy and what to give back: equations (1) to (4) of the paper's section 4 as pure functions under the
 * paper's symbols, and the decisions of section 4.2 made with them. Uses no clock, network or history: all knowledge
 * comes in `struct policy_view`, so a decision can't use the future. Times are hours, money is dollars. Any thread. */
#ifndef BIDBRAIN_POLICY_POLICY_H
#define BIDBRAIN_POLICY_POLICY_H

#include "bidbrain/policy/eviction.h"

/* An allocation: machines of one type bought at one time at one bid. */
struct policy_allocation {
    double k;     /* machines */
    double P;     /* dollars per machine-hour */
    double beta;  /* probability that it is evicted within t_r */
    double omega; /* hours of t_r that it is expected to compute */
    double t_r;   /* hours left of its billing hour, or of the hour that is looked ahead */
    double nu;    /* work of one machine in an hour; 0 for a machine that only holds state */
    bool refund;  /* true: t_r is free if it is evicted within t_r; false: the time that it ran is paid even then */
};

/* A job without reliable machines (stage transient): each part of its state is on two machines of different
 * *groups*. A group is what one price takes at once: the machines of one type in one zone. */
struct policy_copies {
    bool spread; /* false: reliable machines have the state, and the rest of this does not count */
    double lost; /* hours of work to do again when both copies of a part are lost: what was done since the checkpoint */
    /* Hours from the loss of a group until what it had is copied again: onto other groups; where only one other is
     * left, onto a new one, which is bought first. */
    double copied, replaced;
};

/* The application (Table 2). */
struct policy_app {
    double phi;    /* how efficiently it scales, 0..1 */
    double sigma;  /* hours without progress when machines are added or removed */
    double lambda; /* hours without progress when machines are evicted */
    /* 0: phi scales all work, as in (3). Otherwise phi scales only the work beyond this much per hour: the first-order
     * expansion of the scalability curve around the size at which phi was measured. */
    double reference;
    struct policy_copies copies;
};

struct policy_group {
    size_t id;
    double beta; /* probability that the group is lost within the hour */
};

/* The probability that some part of the state loses both copies: that a second group is lost before what the first one
 * had is copied again. A single group has both copies. */
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

/* The sums that (1) to (4) need, so that one more allocation costs O(1). A zeroed struct with keep = 1 is no
 * allocation. */
struct policy_sum {
    double cost;  /* C_A */
    double keep;  /* prod(1 - beta_j) */
    double omega; /* sum k nu omega */
    double rate;  /* sum k nu */
};
#define POLICY_SUM_NONE ((struct policy_sum){.keep = 1})
struct policy_sum policy_sum_add(struct policy_sum sum, const struct policy_allocation *x);
double policy_sum_cost_per_work(struct policy_sum sum, const struct policy_app *app, bool changed);
/* (4) by groups: in (2) a group is lost as a whole, 1 - prod(1 - beta_g), and costs lambda; and each hour of work is
 * done 1 + P x copies.lost times, with P of policy_state_lost. */
double policy_sum_cost_in_groups(struct policy_sum sum, const struct policy_group *groups, size_t count,
                                 const struct policy_app *app, bool changed);

/* ---- Decisions ---- */

enum {
    POLICY_GROUPS_LEAST = 2, /* that a job without reliable machines is spread over */
    POLICY_COPIES_SHARE = 4, /* one of the last groups keeps at least 1/4 of an allocation's machines */
    POLICY_RENEW_STEPS = 16, /* shares of an allocation that may be renewed at the end */
    POLICY_END_HOURS = 2,    /* the end of a job begins with this many hours of work at full size left */
    POLICY_HELD_MAX = 256,   /* allocations that are held at once */
    POLICY_JOINT_MAX = 4,    /* acquisitions that are chosen together */
    POLICY_ACTIONS_MAX = POLICY_HELD_MAX + POLICY_JOINT_MAX, /* of one decision */
    POLICY_JOINT_ROUNDS = 3,                                 /* of exchanging one chosen candidate for a better one */
    POLICY_COUNTS = 3,     /* sizes of candidates: all machines that the limits leave, a half, a quarter */
    POLICY_END_COUNTS = 3, /* more sizes at the end: enough machines to finish within one, two, three hours */
};

/* What a market offers now. */
struct policy_offer {
    double P;                       /* dollars per machine-hour */
    double ceiling;                 /* the highest P that is paid for a candidate or a renewal */
    double nu;                      /* work per machine-hour */
    double vcpus;                   /* of a machine, for the limits */
    bool open;                      /* not cooling down, and with a price now */
    bool on_demand;                 /* never taken away */
    size_t group;                   /* index of the first offer of the same type and zone */
    double held;                    /* machines that are held in this market */
    double coming;                  /* machines that have not started yet, and that are not in the list `held` */
    double coming_beta;             /* beta of the allocation of these machines that is lost first */
    unsigned deltas;                /* entries of the following arrays */
    double delta[EVICTION_DELTAS];  /* dollars above P, increasing */
    double beta[EVICTION_DELTAS];   /* for a full hour */
    double median[EVICTION_DELTAS]; /* hours to eviction, of evictions within the hour */
};

/* An allocation that is held. */
struct policy_held {
    struct policy_allocation now; /* for what is left of its hour */
    size_t market;
    bool coming;                      /* its machines have not started yet */
    bool expiring;                    /* its hour is about to end: it has to be renewed or released */
    struct policy_allocation renewed; /* if expiring: for the next hour at the present price */
};

struct policy_limits {
    double most_machines;
    double most_vcpus;            /* of all machines but the reliable ones */
    double least_vcpus;           /* a smaller allocation is not worth a change; 0: any is */
    double most_dollars_per_hour; /* of all machines, at the prices now */
    unsigned least_markets;       /* no market gets more than 1/least_markets of most_vcpus */
    /* Of machines that have not started yet: they count against the limits above. */
    double coming_machines, coming_vcpus, coming_dollars_per_hour;
};

/* Additions to the paper, each with its switch. Two more, estimates by regime and measured characteristics, are the
 * caller's: they change the values in the view. */
struct policy_additions {
    bool joint;   /* choose several acquisitions together, count sigma once, and replace expiring allocations */
    bool diverse; /* markets whose spikes come together share half of most_vcpus */
};

/* The job's end, as far as it is known. Decisions use (4) alone while `work` is 0 (not known), or while no deadline is
 * set and more than POLICY_END_HOURS of work at full size are left. Otherwise they minimize the expected dollars from
 * now to the end, divided by the work left. With `whole_hours` an hour that is paid already costs nothing.
 *
 * Work that is not done by the deadline costs its on-demand price; being late at all costs as much as a fifth of the
 * work left. A footprint is rejected if the offered on-demand machines can meet the deadline now, but could not after
 * another hour of this footprint. */
struct policy_end {
    double work;       /* left, in hours of nu = 1; 0: not known */
    double deadline;   /* hours from now; INFINITY: none */
    double hour_worth; /* dollars that ending an hour sooner is worth */
    double boot;       /* hours from buying a machine to its first work */
    bool whole_hours;  /* machines are paid to the end of their hours; else until the job ends */
};

/* With app.copies.spread no market gets more than 1/POLICY_GROUPS_LEAST of any limit; while there are fewer groups, at
 * prices up to the ceiling, another one is bought in whatever it does to the cost of work; and no group is given back
 * whole unless POLICY_GROUPS_LEAST that run are left. Where no other group is offered, one has to do. */
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
    bool (*correlated)(const void *context, size_t a, size_t b); /* for `diverse`; NULL: no markets are correlated */
    const void *context;
};

struct policy_action {
    enum { POLICY_ACQUIRE, POLICY_RELEASE, POLICY_RENEW } kind;
    size_t index;         /* POLICY_ACQUIRE: of the offer; otherwise of the held allocation */
    unsigned delta;       /* POLICY_ACQUIRE: index in the offer's arrays */
    double count;         /* whole machines; POLICY_RELEASE: all of them; POLICY_RENEW: the others are released */
    double cost_per_work; /* E_A: after this acquisition and the actions before it; otherwise after all of these */
};

/* Whether decisions minimize the dollars to the job's end. */
bool policy_is_end(const struct policy_view *view);
/* Expected hours to the end of the job if the actions of policy_decide are carried out; INFINITY if no machine works.
 * Requires that view->end.work is known. */
double policy_hours_left(const struct policy_view *view, const struct policy_action *actions, size_t count);
/* Decides: writes one POLICY_RENEW or POLICY_RELEASE for each expiring allocation, then the acquisitions. Returns the
 * number of actions, at most POLICY_ACTIONS_MAX. *cost_per_work is E_A of the footprint before the decision. */
size_t policy_decide(const struct policy_view *view, struct policy_action actions[POLICY_ACTIONS_MAX],
                     double *cost_per_work);

/* An offer's candidate as an allocation for a full hour; `refund` as in struct policy_allocation. */
struct policy_allocation policy_candidate(const struct policy_offer *offer, unsigned delta, double count);
/* omega: all of t_r without an eviction, else the median time to eviction. */
double policy_omega(double beta, double median, double t_r);

#endif
