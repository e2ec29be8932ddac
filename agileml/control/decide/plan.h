/* Makes the elasticity controller's plan: which servers serve and follow each partition, and which node works on which
 * data shard (docs/design.md, "Plans"; Proteus (EuroSys 2017), sections 3.2 and 3.3). A pure function of the cluster,
 * the present plan and the policy: no sockets, no clocks, no state between calls. */
#ifndef AGILEML_CONTROL_PLAN_H
#define AGILEML_CONTROL_PLAN_H

#include "agileml/wire/message.h"

enum { PLAN_SERVE_EVEN = 64 /* the usual serve_weight */ };

enum stage { STAGE_AUTO = 0, STAGE_1 = 1, STAGE_2 = 2, STAGE_3 = 3, STAGE_TRADITIONAL = 4, STAGE_TRANSIENT = 5 };

/* Returns "auto", "1", "2", "3", "traditional" or "transient". */
const char *plan_stage_name(enum stage stage);

/* Whether nodes of any tier keep the parameters in the stage. */
static inline bool plan_all_serve(enum stage stage) {
    return stage == STAGE_TRADITIONAL || stage == STAGE_TRANSIENT;
}

struct plan_node {
    actor_id actor;
    enum node_tier tier;
    uint32_t threads; /* worker threads */
    uint32_t servers; /* server threads: parts 1..servers of the actor */
    /* The node's share of the data shards is in proportion to this weight. 0: each of its worker threads counts as the
     * mean thread of the nodes with weights. */
    uint32_t weight;
    /* The node's share of the partitions, to serve or to follow, is in proportion to this weight. 0:
     * PLAN_SERVE_EVEN. */
    uint32_t serve_weight;
    uint64_t group; /* nodes that may fail together have the same number (Spotnik (SoCC 2020), section 4.1) */
};

/* Ratios of transient to reliable nodes above which stage 1 changes to stage 2, and stage 2 to stage 3. */
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

/* The present plan, which the new plan keeps where possible, so that little moves. Entries may be ACTOR_NONE, or nodes
 * that are not in `nodes` because they are leaving. */
struct plan_present {
    const actor_id *servers, *backups; /* [partitions]: server threads; NULL: no plan yet */
    const actor_id *owners;            /* [shards] */
    const actor_id *previous; /* [shards]: the previous owner, which may still have the shard in memory; NULL: none */
};

struct plan_result {
    actor_id *servers, *backups; /* [partitions]; `backups` is ACTOR_NONE where no server follows */
    actor_id *owners;            /* [shards]: the owning node's origin (part 0) */
};

/* Returns the stage for the ratio of transient to reliable nodes. Keeps the stage `present` unless the ratio is beyond
 * a threshold by more than PLAN_HYSTERESIS. Without transient nodes: stage 1. Without reliable nodes: transient. */
#define PLAN_HYSTERESIS 0.1
enum stage plan_stage(unsigned reliable, unsigned transient, const struct plan_thresholds *thresholds,
                      enum stage present);

/* Fills `result`, which shares no memory with `present`. `nodes` begins with the longest running node. Stages 1 to 3
 * need reliable nodes, stages 2 and 3 also transient nodes. In stage 3 the reliable nodes also work if no transient
 * node has worker threads. In stage transient nodes of all tiers serve, follow (plan_followers) and work.
 *
 * A node's partitions are in proportion to its serve_weight, to within one; its server threads get equal numbers, to
 * within one. Its data shards are in proportion to its weight, to within one, or to its worker threads if no node has a
 * weight. Returns AML_EINPUT when no node may serve, follow (stages 2 and 3) or work. */
int plan(const struct plan_node *nodes, unsigned node_count, const struct plan_policy *policy,
         const struct plan_present *present, const struct plan_result *result, struct error *error);

/* Stage transient: chooses for each partition, served by `servers`, the server that follows it. The follower is on
 * another node than the server, if possible in another group; ACTOR_NONE: there is no other node. If these rules allow,
 * it is the follower or else the server in `present`. Other followers go where the fewest are in proportion to
 * serve_weight. present->servers and present->backups may be NULL; other fields of `present` do not matter. */
void plan_followers(const struct plan_node *nodes, unsigned node_count, uint32_t partitions,
                    const struct plan_present *present, const actor_id *servers, actor_id *backups);

#endif
