/* AD-PSGD between the local steps of a clock (docs/design.md, "Strategies"): after each step the nodes are paired at
 * random. One of a pair offers its copy of the model, which are the averaged tables, to the other one, and both move to
 * their mean. Nobody waits: what does not come in time is not averaged. Only the copies change, so the flush at the
 * clock's end, plans, commits and recoveries know nothing of it. */
#ifndef AGILEML_WORKERS_NODE_GOSSIP_H
#define AGILEML_WORKERS_NODE_GOSSIP_H

#include "agileml/wire/message.h"

/* Of the clock under way: NONE --begin--> STEPPING --the last step is done--> GATHERING --node_gathered--> NONE
 * Peers can average with the copy while STEPPING, from the second step on. */
struct node_gossip {
    uint32_t steps;       /* local steps of the clock; 0: it has none, or its steps are one `compute` */
    uint32_t step;        /* under way; `steps`: GATHERING */
    struct message model; /* this node's copy after the step before; type 0: there is none yet */
    struct message moves; /* how averages have moved the rows since; type 0: not at all */
    actor_id peer;        /* whose answer to our offer has not come; ACTOR_NONE: none is awaited */
    uint64_t claim;       /* number of the last offer */
    uint64_t epoch;       /* in which it was made */
    uint64_t averaged;    /* in all clocks: averages with other nodes that have moved this node's rows */
};

#endif
