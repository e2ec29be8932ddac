/* Data shards from other nodes (docs/design.md, "Shards from other nodes"). A node that lacks shards of its data asks
 * all other nodes which of them they have. It takes the shards from these nodes instead of reading the whole input.
 * Shards that no node gives are read from the input. No other node relies on these messages: a lost message only costs
 * time. */
#ifndef AGILEML_WORKERS_NODE_FETCH_H
#define AGILEML_WORKERS_NODE_FETCH_H

#include "workers/node/node_service.h"

enum {
    NODE_FETCH_HOLDERS = 4, /* nodes that are asked for shards at once */
    NODE_FETCH_WAYS = 64,   /* shards on their way at once */
    NODE_FETCH_AHEAD = 4,   /* pieces whose bytes may be on their way at once from one node, to a node that has no work
                               yet */
    NODE_FETCH_PACKED = 4   /* packed shards that a node keeps while others ask for their pieces */
};

/* NONE --fetch--> TAKING --nothing is lacking, or no node can give the lacking shards--> NONE */
enum node_fetch_state { FETCH_NONE, FETCH_TAKING };

/* A node that may have some of the shards. */
struct fetch_holder {
    actor_id node;
    actor_id server; /* a server of that node, which passes messages on to it */
    bool answered;
    struct buffer *has; /* the node's shards, uint32_t each; NULL: none, or the node did not give what it offered */
    size_t next;        /* the entries of `has` before this index are not lacking */
    unsigned asked;     /* shards on their way from this node */
    uint64_t largest;   /* bytes of the largest shard that has come from this node; 0: none has */
};

/* A shard that comes from a holder, piece by piece. Several shards of at most one piece come at once; otherwise each
 * would take the time of a question and its answer. */
struct fetch_way {
    bool busy;
    uint32_t shard;
    unsigned holder;   /* index in node_fetch.holders */
    uint64_t claim;    /* the number of the question for the next piece */
    uint64_t asked_us; /* when the question was sent */
    unsigned char *bytes;
    uint64_t got; /* bytes that have come */
};

/* A packed shard, kept while others ask for its pieces. */
struct fetch_packed {
    uint32_t shard;
    struct buffer *bytes; /* NULL: the place is free */
};

struct node_fetch {
    enum node_fetch_state state;
    unsigned set;         /* the number of the set that lacks shards */
    unsigned char *lacks; /* by shard; 1: the set needs it, and it is neither here nor on its way */
    struct fetch_holder *holders;
    unsigned holder_count;
    uint64_t claim;    /* the number of the last question */
    uint64_t asked;    /* the claim of the question which nodes have which shards */
    uint64_t asked_us; /* when that question was sent first */
    uint64_t again_us; /* when that question is repeated; the wait doubles, so that the last repetition comes before the
                          timeout */
    struct fetch_way ways[NODE_FETCH_WAYS];
    struct fetch_packed packed[NODE_FETCH_PACKED];
    unsigned packed_next;  /* the place in `packed` that is used next */
    uint64_t taken, given; /* numbers of shards since the process began */
};

extern const struct node_service NODE_FETCH;

static inline struct node_fetch *node_fetch(const struct node *node) {
    return node_service_state(node, SERVICE_FETCH);
}

/* Adds the packed bytes from the offset on, as many as fit a piece. Returns whether this is the last piece. */
bool node_add_piece(const struct node *node, const struct buffer *bytes, uint64_t offset, struct message *answer);

#endif
