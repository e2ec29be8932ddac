/* AD-PSGD between the local steps of a clock (docs/design.md, "Strategies"). After each step the nodes are paired at
 * random. One node of a pair offers its copy of the model, which consists of the averaged tables, to the other, and
 * both move to their mean. No node waits: what does not come in time is not averaged. Only the copies change, so the
 * flush at the clock's end, plans, commits and recoveries don't depend on averages. */
#ifndef AGILEML_WORKERS_NODE_GOSSIP_H
#define AGILEML_WORKERS_NODE_GOSSIP_H

#include "workers/node/node_service.h"

/* Of the clock under way, by work.steps and work.step:
 *
 * NONE --begin--> STEPPING --the last step is done--> GATHERING --node_gathered--> NONE
 *
 * Peers can average with the copy while STEPPING, from the second step on. */
struct node_gossip {
    struct message model; /* this node's copy after the step before; type 0: there is none yet */
    struct message moves; /* how averages have moved the rows since `model` was copied; type 0: not at all */
    actor_id peer;        /* the node whose answer to our offer is awaited; ACTOR_NONE: none */
    uint64_t claim;       /* number of the last offer */
    uint64_t epoch;       /* epoch of the last offer */
    uint64_t averaged;    /* in all clocks: averages with other nodes that have moved this node's rows */
};

extern const struct node_service NODE_GOSSIP;

static inline struct node_gossip *node_gossip(const struct node *node) {
    return node_service_state(node, SERVICE_GOSSIP);
}

#endif
