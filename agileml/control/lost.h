/* What the controller knows of clocks whose work stands although nodes that did it were lost: the sums that the lost
 * nodes had reported, how much they had not reported, and which origins evaluate in their place. Kept until the clock
 * is completed. Pure data. */
#ifndef AGILEML_CONTROL_LOST_H
#define AGILEML_CONTROL_LOST_H

#include "agileml/wire/message.h"

/* What origins reported of a clock, or of several. */
struct clock_sums {
    uint64_t items;
    uint64_t lasted_us;   /* as the nodes measured it: reports that waited for a controller come all at once */
    uint64_t missing;     /* data shards, summed over clocks, whose work stands and was not reported */
    uint64_t unevaluated; /* data shards that nobody evaluated for the metrics of the latest clock */
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

/* What lost nodes had reported of a clock. */
struct lost_sums {
    uint64_t clock;
    uint64_t items;
    struct wire_metric_sum metrics[WIRE_METRICS_MAX];
};

/* In each of these clocks, lost nodes worked on `shards` data shards and had not reported that. */
struct lost_range {
    uint64_t from_clock, until_clock;
    uint64_t shards;
};

/* `origin`, of a node that took these data shards over, is to evaluate them for `clock`. */
struct lost_evaluation {
    actor_id origin; /* ACTOR_NONE: the origin has evaluated them and was lost afterwards: its report is in `sums` */
    uint64_t clock;
    uint32_t *shards; /* ascending */
    uint32_t count;
};

struct lost {
    struct lost_sums *sums; /* each of another clock */
    unsigned sums_count;
    struct lost_range *ranges; /* may overlap */
    unsigned range_count;
    struct lost_evaluation *evaluations;
    unsigned evaluation_count;
};

void lost_close(struct lost *lost);

/* The clock's entry, made when there is none. */
struct lost_sums *lost_sums_at(struct lost *lost, uint64_t clock);
void lost_add_shards(struct lost *lost, uint64_t clock, uint64_t shards);
/* Takes over `shards`. */
void lost_add_evaluation(struct lost *lost, actor_id origin, uint64_t clock, uint32_t *shards, uint32_t count);
void lost_drop_evaluation(struct lost *lost, unsigned index);

/* NULL: lost nodes reported nothing. */
const struct lost_sums *lost_sums_of(const struct lost *lost, uint64_t clock);
uint64_t lost_shards(const struct lost *lost, uint64_t clock);
/* Whether any origin evaluates or has evaluated the clock; with `origin` not ACTOR_NONE, whether that origin does. */
bool lost_is_evaluated(const struct lost *lost, uint64_t clock, actor_id origin);
/* Whether the node evaluates any clock. */
bool lost_evaluates(const struct lost *lost, actor_id node);
/* The highest clock of which anything is known; 0: none. */
uint64_t lost_latest(const struct lost *lost);

/* Forgets clocks up to `clock`, which are completed. */
void lost_forget(struct lost *lost, uint64_t clock);
/* Forgets clocks beyond `clock`, which are done again. */
void lost_undo(struct lost *lost, uint64_t clock);

#endif
