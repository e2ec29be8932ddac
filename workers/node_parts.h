/* An input that is parsed once (docs/design.md, "An input is parsed once"). The n nodes that the job's first plan gives
 * data divide the input: each reads one part and keeps it for all, and takes from the others what their parts have of
 * its own shards. What a node does not get that way its process reads. Nobody else relies on it. */
#ifndef AGILEML_WORKERS_NODE_PARTS_H
#define AGILEML_WORKERS_NODE_PARTS_H

#include "agileml/wire/message.h"

#include <stdbool.h>

enum {
    NODE_PARTS_WAYS = 4,               /* parts that are asked at once */
    NODE_PARTS_ASKS = 4,               /* how often a node that has answered once is asked within the failure timeout */
    NODE_PARTS_PACKED = 4,             /* packed pieces that a node keeps for those who have asked for a part of them */
    NODE_PARTS_PACKED_BYTES = 1 << 20, /* about the size of what is packed at once */
    NODE_PARTS_LATER_US = 20 * 1000,   /* until a node that has not read its part yet is asked again */
    NODE_PARTS_PATIENCE_US = 60 * 1000 * 1000, /* how long a part is waited for, at least; */
    NODE_PARTS_PATIENCE_TIMES = 16             /* or so many times as long as our own part took */
};

/* NONE --node_parts_begin--> READING --node_part_read--> TAKING --nothing is lacking, or nobody gives it--> NONE
 * NONE --node_parts_begin, the own part is read--> TAKING */
enum node_parts_state {
    PARTS_NONE,
    PARTS_READING, /* the process reads this node's part */
    PARTS_TAKING,
};

/* The node that reads a part. */
struct parts_reader {
    actor_id node;
    actor_id server; /* of that node, which passes messages on */
    bool heard;      /* has answered: it has a plan, and knows us */
    bool failed;     /* for the present set */
};

/* Pieces of shards that come from a reader. */
struct parts_way {
    bool busy;
    bool later; /* the reader has not read its part yet; due_us is when to ask again */
    uint32_t part;
    uint64_t claim;            /* of the question */
    uint64_t asked_us;         /* when this question was sent first */
    uint64_t due_us, since_us; /* when to ask again; when the reader was asked first */
    uint32_t *shards;          /* that were asked for */
    uint32_t count;
    unsigned char *bytes;
    uint64_t got;
};

/* Packed pieces, kept while a node asks for the rest of them. */
struct parts_packed {
    actor_id node;
    uint64_t digest;      /* of the list of shards that it has asked for */
    struct buffer *bytes; /* NULL: the place is free */
};

struct node_parts {
    enum node_parts_state state;
    uint32_t count, index;        /* of the parts, and this node's; count 0: the input is not divided */
    struct parts_reader *readers; /* [count] */
    bool read;                    /* the process has read this node's part */
    unsigned set;                 /* the number of the set that lacks pieces; 0: none */
    uint64_t began_us, read_us;   /* when the reading of our part began, and how long it took */
    struct parts_way ways[NODE_PARTS_WAYS];
    struct parts_packed packed[NODE_PARTS_PACKED];
    unsigned packed_next; /* the place that is used next */
};

#endif
