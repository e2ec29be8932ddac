/* A single controller, partition server or node in the middle of a job, for tests of which messages it accepts from
 * which sender. What it sends is dropped, and time stands still. The job has three nodes, FORGE_PARTITIONS partitions,
 * FORGE_SHARDS shards and one table with rows of 8 bytes (forge.h). Nodes 0 and 1 work and have a server each. Node 2
 * has neither work nor a server. */
#ifndef TESTS_ACTORS_H
#define TESTS_ACTORS_H

#include "agileml/control/state/controller.h"
#include "agileml/ps/server.h"
#include "tests/fake_io.h"
#include "tests/forge.h"
#include "workers/node/node.h"

enum { ACTORS_NODES = 3, ACTORS_EPOCH = 1 };

enum actors_kind {
    ACTORS_CONTROLLER, /* some clocks are completed */
    ACTORS_SERVER,     /* node 0's: serves partitions 0 and 2, follows node 1's replica of partition 1 */
    ACTORS_NODE,       /* node 0, computing clock 2 */
    ACTORS_KINDS
};

struct actors {
    struct fake_io io;
    bool fed; /* the node's app has transforms for feeders */
    enum actors_kind kind;
    struct job job;
    unsigned ended; /* calls of the end and rejoin hooks */
    struct wire_endpoint endpoint;
    union {
        struct controller controller;
        struct server server;
        struct node node;
    };
};

actor_id actors_node(unsigned number);
actor_id actors_server(unsigned number); /* the server of node `number`; node 2 is a feeder */

void actors_open(struct actors *actors, enum actors_kind kind);
void actors_close(struct actors *actors);

/* Delivers the message. Sets its epoch; its frames stay the caller's. */
void actors_receive(struct actors *actors, actor_id from, struct message *message);
void actors_pass(struct actors *actors, uint64_t us); /* lets time pass and calls the timer */

/* Returns a hash of the state that messages can change, except when an actor was last heard and whom this actor
 * accuses. */
uint64_t actors_digest(struct actors *actors);

#endif
