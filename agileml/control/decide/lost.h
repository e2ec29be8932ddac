/* The work of lost nodes on uncompleted clocks, as far as it remains valid. For each clock: the sums that the lost
 * nodes had reported, how much they had not reported, and which origins evaluate in their place. A clock's entries are
 * kept until the clock is completed. Pure data. */
#ifndef AGILEML_CONTROL_LOST_H
#define AGILEML_CONTROL_LOST_H

#include "agileml/wire/message.h"

/* Sums of what origins reported of one or several clocks. */
struct clock_sums {
    uint64_t items;       /* that count (job_counts_items) */
    uint64_t worked;      /* items, once for each clock that worked on them */
    uint64_t lasted_us;   /* as nodes measured it: reports may arrive much later */
    uint64_t missing;     /* data shards, summed over clocks, with valid work that was not reported */
    uint64_t unevaluated; /* data shards that no node evaluated for the latest clock's metrics */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

/* Sums of what lost nodes had reported of a clock. */
struct lost_sums {
    uint64_t clock;
    uint64_t items;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

/* A range of clocks: in each, lost nodes worked on `shards` data shards without reporting it. */
struct lost_range {
    uint64_t from_clock, until_clock;
    uint64_t shards;
};

/* An evaluation in place of a lost node: `origin`, whose node took these shards over, evaluates them for `clock`. */
struct lost_evaluation {
    actor_id origin; /* ACTOR_NONE: the origin reported the evaluation, then was lost; its report is in `sums` */
    uint64_t clock;
    uint32_t *shards; /* ascending */
    uint32_t count;
};

struct lost {
    struct lost_sums *sums; /* at most one for each clock */
    unsigned sums_count;
    struct lost_range *ranges; /* may overlap */
    unsigned range_count;
    struct lost_evaluation *evaluations;
    unsigned evaluation_count;
};

void lost_close(struct lost *lost);

/* Returns the clock's sums, made when new. */
struct lost_sums *lost_sums_at(struct lost *lost, uint64_t clock);
void lost_add_shards(struct lost *lost, uint64_t clock, uint64_t shards);
/* Adds an evaluation. Takes over `shards`, which is from malloc. */
void lost_add_evaluation(struct lost *lost, actor_id origin, uint64_t clock, uint32_t *shards, uint32_t count);
void lost_drop_evaluation(struct lost *lost, unsigned index);

/* Returns the clock's sums; NULL when lost nodes reported nothing. */
const struct lost_sums *lost_sums_of(const struct lost *lost, uint64_t clock);
uint64_t lost_shards(const struct lost *lost, uint64_t clock);
/* Whether any origin evaluates or has evaluated the clock; with `origin` not ACTOR_NONE, whether that origin does. */
bool lost_is_evaluated(const struct lost *lost, uint64_t clock, actor_id origin);
/* Whether the node evaluates any clock. */
bool lost_evaluates(const struct lost *lost, actor_id node);
/* Returns the highest clock that has sums or a range; 0: none. */
uint64_t lost_latest(const struct lost *lost);

/* Forgets the clocks up to `clock`, as they are completed. */
void lost_forget(struct lost *lost, uint64_t clock);
/* Forgets the clocks beyond `clock`, as they are done again. */
void lost_undo(struct lost *lost, uint64_t clock);

#endif
