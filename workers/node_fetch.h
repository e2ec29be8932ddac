/* Data shards from other nodes (docs/design.md, "Shards from other nodes"). A node that is to work on shards that it
 * does not have asks all others who has them, then has them sent, instead of reading the whole input. What it does not
 * get that way it reads. Nobody else relies on it: a question or an answer that is lost costs time alone. */
#ifndef AGILEML_WORKERS_NODE_FETCH_H
#define AGILEML_WORKERS_NODE_FETCH_H

#include "agileml/wire/message.h"

#include <stdbool.h>

enum {
    NODE_FETCH_WAYS = 4,  /* shards that are on their way at once, each from another node */
    NODE_FETCH_PACKED = 4 /* packed shards that a node keeps for those who have asked for a piece */
};

/* NONE --node_fetch_begin--> TAKING --nothing is lacking, or nobody can give what is--> NONE */
enum node_fetch_state { FETCH_NONE, FETCH_TAKING };

/* A node that may have some of the shards. */
struct fetch_holder {
    actor_id node;
    actor_id server; /* of that node, which passes messages on */
    bool answered;
    struct buffer *has; /* the shards that it has, uint32_t each; NULL: none, or it has let us down */
    size_t next;        /* those before are not lacking */
};

/* A shard that comes from a holder, piece by piece. */
struct fetch_way {
    bool busy;
    uint32_t shard;
    unsigned holder; /* index */
    uint64_t claim;  /* of the question for the next piece */
    uint64_t due_us; /* when its answer is overdue */
    unsigned char *bytes;
    uint64_t got;
};

/* A packed shard, kept while others ask for its pieces. */
struct fetch_packed {
    uint32_t shard;
    struct buffer *bytes; /* NULL: the place is free */
};

struct node_fetch {
    enum node_fetch_state state;
    unsigned set;         /* the number of the set that lacks shards */
    unsigned char *lacks; /* by shard; 1: it is neither here nor on its way */
    struct fetch_holder *holders;
    unsigned holder_count;
    uint64_t claim;  /* of the last question */
    uint64_t asked;  /* the claim of the question who has the shards */
    uint64_t due_us; /* when the answers to that question are overdue */
    struct fetch_way ways[NODE_FETCH_WAYS];
    struct fetch_packed packed[NODE_FETCH_PACKED];
    unsigned packed_next;  /* the place that is used next */
    uint64_t taken, given; /* shards, since the process began */
};

#endif
