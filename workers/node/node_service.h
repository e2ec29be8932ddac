/* The services of a node: what nodes do for each other beside their clocks, by messages that servers pass on. A service
 * has a number, a state of its own, and the functions below, which the node's other files call for each service in the
 * order of the numbers. They know no service; node.c alone lists them. A service may be absent, slow or wrong at other
 * nodes: clocks, plans, commits and recoveries don't depend on it.
 *
 * A function that is NULL has nothing to do. All run on the io's thread. */
#ifndef AGILEML_WORKERS_NODE_SERVICE_H
#define AGILEML_WORKERS_NODE_SERVICE_H

#include "workers/node/node.h"

struct node_service {
    size_t state_bytes; /* of the state, which is zero at first */
    bool any_epoch;     /* takes messages of other epochs than the node's, too */

    /* ---- Its life ---- */

    void (*close)(struct node *node);
    /* A new plan is in force, and this node has its assignments. */
    void (*plan)(struct node *node, bool new_epoch);
    /* Goes on with what can go on now. True when there may be more to do. */
    bool (*advance)(struct node *node);
    /* Returns when to call `advance` if nothing comes before; UINT64_MAX: never. */
    uint64_t (*due_us)(const struct node *node);

    /* ---- Messages ---- */

    /* Receives a message from another node's agent. `from` is the server that has passed it on. A server of this node
     * passes on what other nodes send to us; `answer`: a server of the sender's node, as that node answers through the
     * server by which we have asked. */
    void (*receive)(struct node *node, actor_id from, bool answer, struct message *message);
    /* Hears a WELCOME, START or HEARTBEAT_ACK of the controller. */
    void (*hear)(struct node *node, const struct message *message);
    /* Adds this service's numbers: the rows NUMBER in agileml/wire/report_keys.def. */
    void (*report)(const struct node *node, struct node_numbers *numbers);

    /* ---- Clocks ---- */

    /* Whether the node's own `clock`, which could begin otherwise, waits for this service. */
    bool (*waits)(struct node *node, uint64_t clock);
    /* A clock begins: the node's own, or one of its catch-up origin. */
    void (*begin)(struct node *node);
    /* The process has computed what it began to compute. True: the service goes on with the clock, and calls
     * hooks.gather at last. Otherwise the clock ends. */
    bool (*computed)(struct node *node);
    /* The clock is reported: adds what this service has measured of it. */
    void (*measure)(const struct node *node, struct message_progress *progress);
    /* The node's own clock ends. */
    void (*end)(struct node *node);
    /* The node waits for others: nothing of its own can begin now. */
    void (*idle)(struct node *node);

    /* ---- Sets of data ---- */

    /* Whether the service uses the set with this number. The process prepares such a set when no other is urgent. */
    bool (*uses)(const struct node *node, unsigned set);
    /* Begins to take what the process lacks of the set from other nodes. False: there is nothing to take. At most one
     * set is taken at a time; it may be dropped meanwhile. */
    bool (*fetch)(struct node *node, const struct node_set *set);
    /* Goes on with that. Returns the number of the set for which no more will come; 0: there is none. */
    unsigned (*fetched)(struct node *node);
};

/* for (each service that has this function) */
#define FOR_SERVICES(node, service, function)                                                                          \
    for (const struct node_service *const *service##_at = (node)->services, *service;                                  \
         service##_at < (node)->services + SERVICES && (service = *service##_at, true); service##_at++)                \
        if (service->function == NULL) {                                                                               \
        } else

/* Returns a service's state. */
static inline void *node_service_state(const struct node *node, enum service number) {
    return node->service_states[number];
}

#endif
