/* An input that is parsed once (docs/design.md, "An input is parsed once"). The n nodes that get data by the job's
 * first plan divide the input. Each node reads one part and keeps it for all nodes. For its own shards, it takes what
 * the other parts have of them. What a node does not get this way its own process reads, so a lost message only costs
 * time. */
#ifndef AGILEML_WORKERS_NODE_PARTS_H
#define AGILEML_WORKERS_NODE_PARTS_H

#include "workers/node/node_service.h"

enum {
    NODE_PARTS_WAYS = 4,               /* parts that are requested at once */
    NODE_PARTS_ASKS = 4,               /* how often, within the failure timeout, a question is sent to a node that has
                                          answered before */
    NODE_PARTS_PACKED = 4,             /* packed pieces that a node keeps for nodes that have taken only some of them */
    NODE_PARTS_PACKED_BYTES = 1 << 20, /* about the size of what is packed at once */
    NODE_PARTS_LATER_US = 20 * 1000,   /* the wait before a node that has not read its part yet is asked again */
    NODE_PARTS_PATIENCE_US = 60 * 1000 * 1000, /* the shortest time for which a part is waited for */
    NODE_PARTS_PATIENCE_TIMES = 16             /* a part is waited for so many times as long as our own part took, if
                                                  that is longer */
};

/* NONE --fetch--> READING --node_part_read--> TAKING --nothing is lacking, or no node gives it--> NONE
 * NONE --fetch, the own part is read--> TAKING */
enum node_parts_state {
    PARTS_NONE,
    PARTS_READING, /* the process reads this node's part */
    PARTS_TAKING,
};

/* The node that reads a part. */
struct parts_reader {
    actor_id node;
    actor_id server; /* a server of that node, which passes messages on */
    bool heard;      /* the node has answered, so it has a plan and knows us */
    bool failed;     /* this part's pieces are not taken from the node for the present set */
};

/* Pieces of shards that come from a reader. */
struct parts_way {
    bool busy;
    bool later; /* the reader has not read its part yet; due_us is when to ask again */
    uint32_t part;
    uint64_t claim;    /* number of the question */
    uint64_t asked_us; /* when the question was sent first */
    uint64_t due_us;   /* when to ask again */
    uint64_t since_us; /* when the reader was asked for these shards first */
    uint64_t version;  /* of the plan in which the reader was last looked for */
    uint32_t *shards;  /* the shards that were requested */
    uint32_t count;
    unsigned char *bytes;
    uint64_t got;
};

/* Packed pieces, kept while a node asks for the rest of them. */
struct parts_packed {
    actor_id node;
    uint64_t digest;      /* of the list of shards that the node has requested */
    struct buffer *bytes; /* NULL: the place is free */
};

struct node_parts {
    enum node_parts_state state;
    uint32_t count, index;        /* number of parts, and this node's part; count 0: the input is not divided */
    struct parts_reader *readers; /* [count] */
    bool read;                    /* the process has read this node's part */
    unsigned set;                 /* the number of the set that lacks pieces; 0: none */
    uint32_t left;                /* readers, but for this node, that have not failed */
    uint64_t claim;               /* number of the last question */
    uint64_t began_us, read_us;   /* when the reading of our part began, and how long it took */
    struct parts_way ways[NODE_PARTS_WAYS];
    struct parts_packed packed[NODE_PARTS_PACKED];
    unsigned packed_next; /* the place in `packed` that is used next */
};

extern const struct node_service NODE_PARTS;

static inline struct node_parts *node_parts(const struct node *node) {
    return node_service_state(node, SERVICE_PARTS);
}

/* The process reports that this node's part is read. Not `divided`: `read` came to no file that the library divides, so
 * the process has read all of the input. */
void node_part_read(struct node *node, bool divided);

#endif
