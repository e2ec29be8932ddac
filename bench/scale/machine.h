/* Machines for the simulator (tests/sim/sim.h), which itself knows latency but here gives every link infinite speed:
 * a link of so many bytes a second each way, and for each actor a thread whose time messages take. Actors are put
 * between sim's io and themselves; what they are is not known here.
 *
 * A machine's messages to several others share its link in turn, as connections do, in pieces of MACHINE_PIECE_BYTES;
 * pieces that come in wait for one another. What goes between a node and the controller, or between pulses, does not
 * wait for others' bytes at the node: a few packets among many connections. */
#ifndef BENCH_SCALE_MACHINE_H
#define BENCH_SCALE_MACHINE_H

#include "agileml/base/hash.h"
#include "tests/sim/sim.h"

enum {
    MACHINE_PIECE_BYTES = 128 << 10,
    MACHINE_HEAD_BYTES = 128 /* of a message, TCP's and ZeroMQ's headers included */
};

struct machine_costs {
    double bytes_per_second; /* of a link, each way */
    double latency_us;
    double message_us;    /* of a thread, to send or to receive a message ... */
    double byte_ns;       /* ... and for each of its bytes */
    double values_factor; /* a byte of rows' values stands for so many */
};

/* Entries that pass in order. */
struct passing {
    struct passing *next;
    struct part *part; /* whose message it is: the sender's, then the receiver's */
    actor_id peer;
    double bytes, left; /* not yet on the link */
    struct message message;
};
struct passing_queue {
    struct passing *first, *last;
};

/* What a machine has to send to another. */
struct flow {
    struct flow *next; /* whose turn it is after this one */
    struct machine *to;
    struct passing_queue queue;
};

struct machine {
    struct machines *machines;
    unsigned number;
    struct flow **flows; /* by machine; NULL: nothing so far */
    struct flow *first, *last;
    bool sending;
    double out_free_us, in_free_us;
    double out_busy_us, in_busy_us; /* in all */
    struct passing_queue arriving;  /* the last piece is on its way through the link */
    struct part *parts;
};

/* An actor and its thread. */
struct part {
    struct io io; /* first: the actor's io is this */
    struct io *network;
    struct part *next; /* of its machine */
    struct machine *machine;
    struct actor actor;
    struct passing_queue received;
    bool working;   /* on the first of them */
    double free_us; /* what it has begun is done then */
    double busy_us; /* in all */
};

struct machines {
    struct sim *sim;
    struct machine_costs costs;
    struct machine *list;
    unsigned count;
    struct index_map index; /* node bits of an actor -> machine */
};

void machines_open(struct machines *machines, struct sim *sim, unsigned count, const struct machine_costs *costs);
/* Before sim_close. */
void machines_close(struct machines *machines);

/* As sim_actor, on a machine with a link and a thread. */
void machine_actor(struct machines *machines, unsigned machine, actor_id id, const char *endpoint, struct actor actor,
                   struct io **io);

#endif
