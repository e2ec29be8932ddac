/* Who serves and follows which partition, and who works on which data shard: a pure function of the cluster, what
 * there is already, and the policy (docs/design.md, "Plans"; the paper's sections 3.2 and 3.3). No sockets, no clocks,
 * no memory between calls. */
#ifndef AGILEML_CONTROL_PLAN_H
#define AGILEML_CONTROL_PLAN_H

#include "agileml/wire/message.h"

enum stage { STAGE_AUTO = 0, STAGE_1 = 1, STAGE_2 = 2, STAGE_3 = 3, STAGE_TRADITIONAL = 4 };

struct plan_node {
    actor_id actor;
    enum node_tier tier;
    uint32_t threads; /* worker threads; its share of the data shards is in proportion; 0: none */
    uint32_t servers; /* server threads, parts 1..servers of the actor */
};

/* Transient nodes per reliable one above which a stage gives way to the next. */
struct plan_thresholds {
    double to_2, to_3;
};
#define PLAN_THRESHOLD_2 1.0
#define PLAN_THRESHOLD_3 15.0

struct plan_policy {
    enum stage stage; /* any but STAGE_AUTO */
    uint32_t partitions;
    uint32_t shards;
};

/* What there is: kept where it fits, so that little moves. Entries may name nodes that are not among `nodes` (they are
 * leaving), or ACTOR_NONE. */
struct plan_present {
    const actor_id *servers, *backups; /* [partitions]: server threads; NULL: nothing yet */
    const actor_id *owners;            /* [shards] */
    const actor_id *previous;          /* [shards]: who had it before, and has it in memory; NULL: nobody */
};

struct plan_result {
    actor_id *servers, *backups; /* [partitions]; backups ACTOR_NONE where nobody follows */
    actor_id *owners;            /* [shards]: the owning node's origin (part 0) */
};

/* The stage that the ratio of transient to reliable nodes asks for; `present` stays unless the ratio is beyond the
 * threshold by PLAN_HYSTERESIS. Without transient nodes stage 1, without reliable ones traditional. */
#define PLAN_HYSTERESIS 0.1
enum stage plan_stage(unsigned reliable, unsigned transient, const struct plan_thresholds *thresholds,
                      enum stage present);

/* Fills `result`, which shares no memory with `present`. Nodes come longest running first. Stages 2 and 3 need
 * transient nodes, stages 1 to 3 reliable ones; where those with worker threads are missing in stage 3 the reliable
 * ones work too. Partitions are even over nodes, to within one, and on each over its server threads; shards are in
 * proportion to threads, to within one. AML_EINPUT when no node may serve or none may work. */
int plan(const struct plan_node *nodes, unsigned node_count, const struct plan_policy *policy,
         const struct plan_present *present, const struct plan_result *result, struct error *error);

#endif
