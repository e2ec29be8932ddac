/* The narrow door between protocol code and the world (DESIGN section 3): the partition server, the
 * worker's client, the node agent and the controller are state machines that take a message or a timer and
 * hand out messages through a struct io. Behind it stand ZeroMQ (zmq.h) and a simulated cluster (sim.h).
 *
 * Delivery promises little: a message arrives whole or not at all, perhaps twice, and may overtake another after a
 * reconnect. The protocol retains and identifies what must not be lost. */
#ifndef AGILEML_NET_IO_H
#define AGILEML_NET_IO_H

#include "agileml/wire/message.h"

/* A broken connection is up again at most this long after both ends and the network between them work: the wait
 * between two attempts, or the kernel's first repetition of a lost SYN, and the handshakes. */
enum { IO_RECONNECT_MS = 1500 };
static const uint64_t IO_RECONNECT_US = IO_RECONNECT_MS * UINT64_C(1000);

/* Returns from when on the silence of a peer counts that was last heard at `heard_us`, when the listener itself stood
 * still for `late_us` since: so much later, but no later than `latest_us`. */
static inline uint64_t io_excused(uint64_t heard_us, uint64_t late_us, uint64_t latest_us) {
    uint64_t left_us = latest_us > heard_us ? latest_us - heard_us : 0;
    return heard_us + (late_us < left_us ? late_us : left_us);
}

/* One actor's io. Used by the one thread that runs the actor. */
struct io {
    /* Microseconds on a clock that never goes back. */
    uint64_t (*now_us)(struct io *io);
    /* 64 random bits. */
    uint64_t (*random)(struct io *io);
    /* Sends to `to`, never blocks. Takes over the message's frames (message_close is not to be called).
     * What can't be sent now (no such peer, its queue is full) is dropped. */
    void (*send)(struct io *io, actor_id to, struct message *message);
    /* Asks for one call of the actor's timer at or after `at_us`; replaces the request before it; 0 cancels. */
    void (*set_timer)(struct io *io, uint64_t at_us);
    /* Tells where an actor listens, so that send reaches it. Repeating it is harmless. A NULL endpoint forgets the
     * actor: what is connected to it is closed. */
    void (*connect)(struct io *io, actor_id actor, const char *endpoint);
    /* Names all nodes of the job, in place of those named before. Their processes may send to this process's actors,
     * each under the ids of its own actors. To be called before connect names an actor of any of them. */
    void (*admit)(struct io *io, const struct wire_node *nodes, size_t count);
};

/* What an io calls. Both on the io's thread. */
struct actor {
    /* `message` stays the io's: it closes it afterwards; hold frames (buffer_hold) to keep them. */
    void (*receive)(void *self, actor_id from, struct message *message);
    void (*timer)(void *self);
    void *self;
};

#endif
