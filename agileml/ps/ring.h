/* The ring by which FLUSH and PUSH travel (docs/design.md, "Ring"): who is in it, and in which order. Pure functions of
 * the job, the plan and the clock, so that all nodes with that plan find the same ring. Sends nothing: server_relay.c
 * does.
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
    RING_NODES_MIN = 3, /* with fewer there is nothing to add on the way */
    RINGS_KEPT = 4      /* rings of different clocks that a process remembers */
};

struct ring_member {
    actor_id node;    /* part 0; also its origin */
    uint64_t group;   /* of the plan's node */
    uint32_t servers; /* server threads, parts 1.. */
};

/* The ring of one clock. */
struct ring {
    uint64_t epoch, version, clock; /* of the plan, and the clock, for which it was found */
    uint64_t digest;                /* of the members in their order; 0: this clock has no ring */
    struct ring_member *members;    /* ordered by group, those of a group as the plan names them */
    unsigned count;
};

/* The rings of the last few clocks, so that each is found once. Zeros: none yet. */
struct rings {
    struct ring kept[RINGS_KEPT];
};

/* A partition's chain: members from `first` on, `length` of them. */
struct ring_chain {
    const struct ring *ring;
    uint32_t partition;
    unsigned first, length;
    uint64_t digest; /* of the ring and the server: what travels by the chain carries it */
};

/* The number of the first table for which the ring is not made; table_count: the ring can be used. Every table must be
 * cached whole everywhere, add, and be flushed and pushed as in memory: so all nodes send and get the same rows. */
unsigned ring_unfit_table(const struct job *job);

/* Returns the ring of `clock`; NULL: its flushes and pushes go directly. A clock has a ring if the job has one, if at
 * least RING_NODES_MIN nodes with servers work in it, and if no catch-up origin does. The ring is valid until the next
 * call. */
const struct ring *rings_at(struct rings *rings, const struct job *job, const struct plan_view *plan, uint64_t clock);
void rings_close(struct rings *rings);

/* Returns the chain of a partition whose flushes of the ring's clock `server` takes. */
struct ring_chain ring_chain(const struct ring *ring, uint32_t partition, actor_id server);

/* The node at a place of the chain, and its server thread that relays the partition's messages. */
actor_id ring_node(const struct ring_chain *chain, unsigned place);
actor_id ring_relay(const struct ring_chain *chain, unsigned place);
/* The place of the actor's node in the chain, or -1. */
int ring_place(const struct ring_chain *chain, actor_id actor);

/* ---- Which way is better ---- */

/* What `auto` compares. Each node adds `bytes` to all partitions in a clock, and gets as many. */
struct ring_job {
    double bytes;        /* M: of all rows */
    unsigned nodes;      /* N: that work */
    unsigned serving;    /* of them, those that serve partitions */
    unsigned groups;     /* Z: of the nodes that work */
    unsigned partitions; /* all together */
};

/* The bytes of a clock that cross from one group to another, if groups are of one size: directly 2MN(Z-1)/Z, by the
 * ring 2MZ(N-1)/N. */
double ring_crossing_bytes(const struct ring_job *job, bool ring);
/* The time of a clock's exchange: latencies, and what goes over the link that has most to carry. */
double ring_seconds(const struct ring_job *job, bool ring);
/* Whether the ring costs less, in dollars: nodes that wait, and bytes that cross. */
bool ring_is_cheaper(const struct ring_job *job);

#endif
