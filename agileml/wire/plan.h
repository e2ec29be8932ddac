/* A decoded PLAN (struct message_plan; docs/design.md, "Plans"), and functions that read it. message_decode_head has
 * checked a PLAN that was received. */
#ifndef AGILEML_WIRE_PLAN_H
#define AGILEML_WIRE_PLAN_H

#include "agileml/wire/message.h"

/* The payload frames of a PLAN. */
enum plan_frame { PLAN_NODES, PLAN_PLACEMENT, PLAN_ASSIGNMENTS, PLAN_SHARDS, PLAN_ENDPOINTS, PLAN_FRAMES };

struct plan_view {
    uint64_t epoch;
    struct message_plan terms;
    const struct wire_node *nodes;
    size_t node_count;
    const struct wire_placement *placement; /* by partition, terms.partitions of them */
    const struct wire_assignment *assignments;
    size_t assignment_count;
    const uint32_t *shards; /* an assignment's shards are shards[first], `count` of them */
    size_t shard_count;
    const struct wire_endpoint *endpoints; /* of every server thread and pulse */
    size_t endpoint_count;
    struct buffer *frames[PLAN_FRAMES]; /* references; the arrays above point into them; NULL: no plan yet */
};

/* Decodes a PLAN and holds its frames. */
struct plan_view plan_open(const struct message *message);

/* Makes a plan from `frames`. Takes over the references to the frames. */
struct plan_view plan_of_frames(uint64_t epoch, const struct message_plan *terms, struct buffer *frames[PLAN_FRAMES]);

/* Returns a copy of the plan with references of its own to the frames. */
struct plan_view plan_share(const struct plan_view *plan);

/* Drops the frames. The plan is then empty and may be used again. */
void plan_close(struct plan_view *plan);

/* Returns the plan as a message with references of its own to the frames. */
struct message plan_message(const struct plan_view *plan);

/* Checks that the plan's numbers are consistent. The frames must hold whole records. Returns 0 or AML_EPROTOCOL. */
int plan_check(const struct message *message, struct error *error);

static inline bool plan_is_there(const struct plan_view *plan) {
    return plan->frames[PLAN_NODES] != NULL;
}

/* Whether the received plan `come` replaces the plan `now`. It must be newer, of `epoch` or a later epoch, and have the
 * same number of partitions, which never changes. */
bool plan_replaces(const struct plan_view *now, const struct plan_view *come, uint64_t epoch);

/* Returns the server thread that serves the partition at `clock`. */
static inline actor_id plan_server_at(const struct plan_view *plan, uint64_t clock, uint32_t partition) {
    const struct wire_placement *placement = &plan->placement[partition];
    return clock < plan->terms.from_clock ? placement->server : placement->next_server;
}

/* Whether the server thread serves the partition in some clocks of this plan. */
static inline bool plan_serves(const struct plan_view *plan, uint32_t partition, actor_id server) {
    const struct wire_placement *placement = &plan->placement[partition];
    return server == placement->server || server == placement->next_server;
}

/* Whether the server thread serves the partition or follows it, before from_clock or from then on. */
bool plan_has_role(const struct plan_view *plan, uint32_t partition, actor_id server);

/* Whether one of the node's server threads has a role in this placement of a partition. */
bool placement_names_node(const struct wire_placement *placement, actor_id node);

/* Returns the endpoint of a server thread; NULL: the plan has none. */
const char *plan_endpoint(const struct plan_view *plan, actor_id server);

static inline bool assignment_covers(const struct wire_assignment *assignment, uint64_t clock) {
    return clock >= assignment->from_clock && clock <= assignment->until_clock;
}

/* Returns the strategy that holds in the clock. */
static inline enum strategy plan_strategy_at(const struct plan_view *plan, uint64_t clock) {
    return (enum strategy)(clock < plan->terms.strategy_from ? plan->terms.strategy : plan->terms.next_strategy);
}

/* Returns the origin's share of all data shards in the clock, 0 to 1. The shares of a clock's origins, catch-up origins
 * included, add up to 1. */
double plan_origin_share(const struct plan_view *plan, actor_id origin, uint64_t clock);

/* Whether `origin` works in `clock`. Sets *alone to whether no other origin works in that clock. */
bool plan_origin_works(const struct plan_view *plan, actor_id origin, uint64_t clock, bool *alone);

/* Whether the clock is a commit point: every partition can be restored to it until a later commit point is committed.
 * Commit points are every `commit_every` clocks, where the epoch or the plan's `next_` half begins, before each
 * assignment's first clock, and at the job's last clock. */
bool plan_is_commit_point(const struct plan_view *plan, uint64_t clock);

/* Returns the first commit point from `clock` on. */
uint64_t plan_next_commit_point(const struct plan_view *plan, uint64_t clock);

#endif
