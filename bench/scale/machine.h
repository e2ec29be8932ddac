/* Machines for the simulator (tests/sim/sim.h). The simulator itself knows latency; here it gives every link infinite
 * speed. A machine adds a link of limited speed each way, and for each actor a thread that takes time for each message.
 * This layer is between the simulator's io and any actor.
 *
 * A machine's messages to several others share its link in turn, as connections do, in pieces of MACHINE_PIECE_BYTES.
 * Arriving pieces wait for one another. Messages between a node and the controller, and between pulses, do not wait for
 * others' bytes at the node: they are a few packets among many connections. */
#ifndef BENCH_SCALE_MACHINE_H
#define BENCH_SCALE_MACHINE_H

#include "agileml/base/hash.h"
#include "tests/sim/sim.h"

enum {
    MACHINE_PIECE_BYTES = 128 << 10,
    MACHINE_HEAD_BYTES = 128 /* bytes that each message has in addition, with the headers of TCP and ZeroMQ */
};

struct machine_costs {
    double bytes_per_second; /* speed of a link, each way */
    double latency_us;
    double message_us;    /* time of a thread to send or to receive a message */
    double byte_ns;       /* time of a thread for each byte of a message */
    double values_factor; /* bytes that a byte of rows' values stands for */
};

/* A message on its way, in a queue. */
struct passing {
    struct passing *next;
    struct part *part; /* its actor: the sender's, then the receiver's */
    actor_id peer;
    double bytes, left; /* left: not yet on the link */
    struct message message;
};
struct passing_queue {
    struct passing *first, *last;
};

/* The messages from a machine to another. */
struct flow {
    struct flow *next; /* next flow in turn */
    struct machine *to;
    struct passing_queue queue;
};

struct machine {
    struct machines *machines;
    unsigned number;
    struct flow **flows; /* by destination machine; NULL: no messages to it so far */
    struct flow *first, *last;
    bool sending;
    double out_free_us, in_free_us;
    double out_busy_us, in_busy_us; /* sums since the start */
    double told_bytes;              /* from the controller, without answers to heartbeats */
    struct passing_queue arriving;  /* messages whose last piece is on the link */
    struct part *parts;
};

/* An actor and its thread. */
struct part {
    struct io io; /* first, so that the actor's io is this part */
    struct io *network;
    struct part *next; /* next part on the same machine */
    struct machine *machine;
    struct actor actor;
    struct passing_queue received;
    bool working;   /* the thread works on the first received message */
    double free_us; /* when the work begun so far will be done */
    double busy_us; /* sum since the start */
    bool timed;     /* measure the simulation's own time for sending */
    double send_s;
    double sent_bytes, ack_bytes; /* over the link, without answers to heartbeats, and these alone */
};

struct machines {
    struct sim *sim;
    struct machine_costs costs;
    struct machine *list;
    unsigned count;
    struct index_map index; /* node bits of an actor -> machine */
};

void machines_open(struct machines *machines, struct sim *sim, unsigned count, const struct machine_costs *costs);
/* Call it before sim_close. */
void machines_close(struct machines *machines);

/* Like sim_actor, but on a machine, with a link and a thread. */
void machine_actor(struct machines *machines, unsigned machine, actor_id id, const char *endpoint, struct actor actor,
                   struct io **io);

#endif
