/* The ring by which FLUSH and PUSH travel (docs/design.md, "Ring"): its members and their order. Pure functions of the
 * job, the plan and the clock, so that all nodes with that plan find the same ring. Sends nothing: server_relay.c does.
 *
 * A partition's chain is the ring, cut before the node after the partition's server. With the nodes A B C D and D as
 * server:
 *
 *   FLUSH   A --A--> B --A+B--> C --A+B+C--> D      D's own node sends its flush to it directly
 *   PUSH    A <----------------------------- D
 *           A -----> B -------> C                   D's own node gets its push directly */
#ifndef AGILEML_PS_RING_H
#define AGILEML_PS_RING_H

#include "agileml/ps/table.h"
#include "agileml/wire/plan.h"

enum {
    RING_NODES_MIN = 3, /* with fewer nodes there is nothing to add on the way */
    RINGS_KEPT = 4      /* rings of different clocks that a process remembers */
};

struct ring_member {
    actor_id node;    /* part 0; also its origin */
    uint64_t group;   /* of the plan's node */
    uint32_t servers; /* server threads, parts 1.. */
};

/* The ring of one clock. */
struct ring {
    uint64_t epoch, version, clock; /* the plan and the clock for which the ring was found */
    uint64_t digest;                /* of the members in their order; 0: this clock has no ring */
    struct ring_member *members;    /* ordered by group; within a group in the plan's order */
    unsigned count;
};

/* A cache of the rings of the last few clocks. Zeros: empty. */
struct rings {
    struct ring kept[RINGS_KEPT];
};

/* A partition's chain: members from `first` on, `length` of them. */
struct ring_chain {
    const struct ring *ring;
    uint32_t partition;
    unsigned first, length;
    uint64_t digest; /* of the ring and the server; messages that travel by the chain carry it */
};

/* Returns the number of the first table that can't use the ring; table_count: all tables can. All nodes must send and
 * get the same rows. So every table of the app must be an add table, cached whole everywhere, and flushed and pushed as
 * in memory. */
unsigned ring_unfit_table(const struct job *job);

/* Returns the ring of `clock`; NULL: the clock's flushes and pushes travel directly. A clock has a ring if the job uses
 * rings and no catch-up origin works in the clock. At least RING_NODES_MIN nodes must work in it, and all of them must
 * have servers. The ring is valid until the next call. */
const struct ring *rings_at(struct rings *rings, const struct job *job, const struct plan_view *plan, uint64_t clock);
void rings_close(struct rings *rings);

/* Returns the partition's chain. `server` serves the partition at the ring's clock. */
struct ring_chain ring_chain(const struct ring *ring, uint32_t partition, actor_id server);

/* Return the node at a place of the chain, and that node's server thread that relays the partition's messages. */
actor_id ring_node(const struct ring_chain *chain, unsigned place);
actor_id ring_relay(const struct ring_chain *chain, unsigned place);
/* Returns the place of the actor's node in the chain, or -1. */
int ring_place(const struct ring_chain *chain, actor_id actor);

/* ---- Which way is better ---- */

/* The numbers from which `auto` decides. In a clock each node sends `bytes` to all partitions together, and gets as
 * many. */
struct ring_job {
    double bytes;        /* M: of all rows */
    unsigned nodes;      /* N: that work */
    unsigned serving;    /* of these nodes, those that serve partitions */
    unsigned groups;     /* Z: of the nodes that work */
    unsigned partitions; /* all together */
};

/* Returns the bytes of a clock that cross between groups of equal size: directly 2MN(Z-1)/Z, by the ring 2MZ(N-1)/N. */
double ring_crossing_bytes(const struct ring_job *job, bool ring);
/* Whether the ring costs less than direct messages: dollars for waiting nodes and for bytes that cross. */
bool ring_is_cheaper(const struct ring_job *job);

#endif
