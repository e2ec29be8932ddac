/* Actors: who speaks. An actor is one part of one process, as long as the process runs. The upper 48 bits are random,
 * chosen when the process starts: they name the node's incarnation. The lower 16 bits name the part: 0 is the worker
 * runtime and the node agent, 1.. are the server threads. */
#ifndef AGILEML_WIRE_ACTOR_H
#define AGILEML_WIRE_ACTOR_H

#include <stdint.h>

typedef uint64_t actor_id;
enum { ACTOR_PART_BITS = 16, ACTOR_PART_MAX = 0xFFFF };
static const actor_id ACTOR_NONE = 0;
static const actor_id ACTOR_CONTROLLER = 1; /* node bits 0, which no node has */

static inline actor_id actor_of_part(actor_id node, unsigned part) {
    return (node & ~(actor_id)ACTOR_PART_MAX) | part;
}
static inline actor_id actor_node(actor_id actor) {
    return actor & ~(actor_id)ACTOR_PART_MAX;
}
static inline unsigned actor_part(actor_id actor) {
    return (unsigned)(actor & ACTOR_PART_MAX);
}

/* A process's *pulse*: the part that answers as long as the process runs, whatever its other parts do. */
enum { ACTOR_PART_PULSE = 0x7FFF };
static inline actor_id actor_pulse(actor_id node) {
    return actor_of_part(node, ACTOR_PART_PULSE);
}
static inline int actor_is_pulse(actor_id actor) {
    return actor_part(actor) == ACTOR_PART_PULSE;
}

/* Compares two actors, or two records that begin with an actor, for qsort and bsearch. */
static inline int actor_compare(const void *one, const void *other) {
    actor_id a = *(const actor_id *)one;
    actor_id b = *(const actor_id *)other;
    return a < b ? -1 : a > b;
}

/* An *origin* delivers flushes. It is a node's worker runtime (part 0), or that runtime's catch-up origin of an epoch.
 * Under its catch-up origin the runtime does the work that lost nodes have left undone. */
enum { ACTOR_PART_CATCH_UP = 0x8000 };
static inline actor_id origin_catch_up(actor_id node, uint64_t epoch) {
    return actor_of_part(node, ACTOR_PART_CATCH_UP | (unsigned)(epoch & (ACTOR_PART_CATCH_UP - 1)));
}
static inline int origin_is_catch_up(actor_id origin) {
    return (actor_part(origin) & ACTOR_PART_CATCH_UP) != 0;
}

#endif
