/* Who serves which partition and who works on which data shard: a pure function of the cluster and the policy
 * (DESIGN section 2). No sockets, no clocks, no memory between calls. */
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

struct plan_policy {
    enum stage stage; /* STAGE_1 or STAGE_TRADITIONAL */
    uint32_t partitions;
    uint32_t shards;
};

/* Fills placement[partitions] (the serving server thread) and shards[shards] (the owning origin). Nodes come longest
 * running first. Stage 1 puts the ParamServs on the reliable nodes (the paper's section 3.2), traditional on all.
 * AML_EINPUT when no node may serve or none may work. */
int plan(const struct plan_node *nodes, unsigned node_count, const struct plan_policy *policy, actor_id *placement,
         actor_id *shards, struct error *error);

#endif
