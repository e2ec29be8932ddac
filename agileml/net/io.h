/* The interface between protocol code and network, clock and timers (docs/design.md, "Who is who"). The partition
 * server, the worker's client, the node agent and the elasticity controller are state machines: they receive messages
 * and timer calls, and send messages through a struct io. It is implemented with ZeroMQ (zmq.h) and by a simulated
 * cluster (tests/sim).
 *
 * Delivery is not reliable: a message arrives whole or not at all, perhaps twice, and after a reconnect may overtake
 * another. The protocol itself identifies messages that must not be lost and keeps them for a retry. */
#ifndef AGILEML_NET_IO_H
#define AGILEML_NET_IO_H

#include "agileml/wire/message.h"

/* The longest time until a broken connection stands again, once both ends and the network work: the wait between two
 * attempts, or the kernel's first repetition of a lost SYN, plus the handshakes. */
enum { IO_RECONNECT_MS = 1500 };
static const uint64_t IO_RECONNECT_US = IO_RECONNECT_MS * UINT64_C(1000);

/* Returns the time from which a peer's silence counts. The peer was last heard at `heard_us`; the listener itself was
 * stopped for `late_us` since. So this time is `late_us` later, but no later than `latest_us`. */
static inline uint64_t io_excused(uint64_t heard_us, uint64_t late_us, uint64_t latest_us) {
    uint64_t left_us = latest_us > heard_us ? latest_us - heard_us : 0;
    return heard_us + (late_us < left_us ? late_us : left_us);
}

/* One actor's io. Used by the one thread that runs the actor. */
struct io {
    /* Returns microseconds on a clock that never goes back. */
    uint64_t (*now_us)(struct io *io);
    /* Returns 64 random bits. */
    uint64_t (*random)(struct io *io);
    /* Sends a message without blocking. Takes over the message's frames: the caller must not call message_close. Drops
     * the message if it can't be sent now, as the peer is unknown or its queue is full. */
    void (*send)(struct io *io, actor_id to, struct message *message);
    /* Sets the actor's timer: one call at or after `at_us`. Replaces an earlier setting; 0 cancels it. */
    void (*set_timer)(struct io *io, uint64_t at_us);
    /* Says at which endpoint an actor listens, so that send reaches the actor: the first message connects. May be
     * repeated. A NULL endpoint forgets the actor and closes its connection. */
    void (*connect)(struct io *io, actor_id actor, const char *endpoint);
    /* Sets the list of all nodes of the job, in place of the list before. Their processes may send to this process's
     * actors, each under the ids of its own actors. Must be called before connect names an actor of any of them. */
    void (*admit)(struct io *io, const struct wire_node *nodes, size_t count);
    /* Finds out by a new connection, which is closed at once, whether a process listens where the actor does. The
     * answer is a call of actor.dialed. Does nothing while an attempt for the same actor is under way. NULL: this io
     * can't. */
    void (*dial)(struct io *io, actor_id actor, const char *endpoint);
    /* Returns the serial number of the token by which the actor's process was let in; 0: none, or not known. NULL: this
     * job has no tokens. */
    uint64_t (*token_of)(struct io *io, actor_id actor);
    /* Sets the list of revoked tokens, by their serial numbers, in place of the list before. Who shows one of them is
     * refused, and who has shown one is cut off soon after what was sent to him. NULL: as for token_of. */
    void (*revoke)(struct io *io, const uint64_t *serials, size_t count);
};

/* The callbacks of an actor. The io calls both on its thread. */
struct actor {
    /* The io closes `message` afterwards; the callback keeps a frame by buffer_hold. */
    void (*receive)(void *self, actor_id from, struct message *message);
    void (*timer)(void *self);
    void *self;
    /* A connection with this peer has ended: the peer's process has ended, or the network has failed. Called once for
     * each connection, after the messages that came over it. NULL: not wanted. */
    void (*broken)(void *self, actor_id peer);
    /* The answer to io.dial, if there is one: a process listens there, or the peer's machine reports that none does.
     * `began_us`: when the attempt began. Called after the messages that had arrived by then. */
    void (*dialed)(void *self, actor_id actor, uint64_t began_us, bool listens);
};

#endif
