/* A controller, a partition server or a node alone in the middle of a job, for tests of what it takes from whom: what
 * it sends is dropped, and time stands still. The job has three nodes, FORGE_PARTITIONS partitions, FORGE_SHARDS shards
 * and one table with rows of 8 bytes (forge.h). Nodes 0 and 1 work and have a server each, node 2 does neither. */
#ifndef TESTS_ACTORS_H
#define TESTS_ACTORS_H

#include "agileml/control/controller.h"
#include "agileml/ps/server.h"
#include "tests/forge.h"
#include "workers/node.h"

enum { ACTORS_NODES = 3, ACTORS_EPOCH = 1 };

enum actors_kind {
    ACTORS_CONTROLLER, /* it has completed some clocks */
    ACTORS_SERVER,     /* of node 0: serves partitions 0 and 2, follows node 1's replica of partition 1 */
    ACTORS_NODE,       /* node 0, which computes clock 2 */
    ACTORS_KINDS
};

struct actors {
    struct io io; /* first, as its functions are given the io alone */
    bool fed;     /* the node's app has stages for feeders */
    enum actors_kind kind;
    struct job job;
    uint64_t now_us;
    unsigned ended; /* calls of the end and rejoin hooks */
    struct wire_endpoint endpoint;
    union {
        struct controller controller;
        struct server server;
        struct node node;
    };
};

actor_id actors_node(unsigned number);
actor_id actors_server(unsigned number); /* of a node; node 2 is a feeder */

void actors_open(struct actors *actors, enum actors_kind kind);
void actors_close(struct actors *actors);

/* The message's epoch is set, but its frames stay the caller's. */
void actors_receive(struct actors *actors, actor_id from, struct message *message);
void actors_pass(struct actors *actors, uint64_t us); /* and calls the timer */

/* A hash of the state that messages can change: not of when somebody was heard, and not of whom the actor accuses. */
uint64_t actors_digest(struct actors *actors);

#endif
