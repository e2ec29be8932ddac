/* The real io: actors exchange messages by TCP through ZeroMQ, and inside a process through mailboxes. Without a key
 * only loopback addresses are allowed. With one every TCP connection is encrypted (CURVE), and each process has a key
 * pair of its own, made by net_open:
 *   - the controller's process uses the job's key as its own. It admits every process that shows a token of the job, in
 *     the token's roles;
 *   - every other process admits the processes of the nodes that io.admit named last, each under the ids of its own
 *     actors only.
 * Decides which peer may send which type of message (message_roles), but does not interpret messages. */
#ifndef AGILEML_NET_ZMQ_H
#define AGILEML_NET_ZMQ_H

#include "agileml/net/io.h"
#include "agileml/net/key.h"

enum {
    NET_ACTORS_MAX = 128,    /* open net_io objects of one process */
    NET_PEERS_MAX = 1 << 14, /* peers that one net_io connects to */
    NET_WATCHES_MAX = 16,    /* descriptors that one net_io watches */
    NET_IO_THREADS_MAX = 16,
    NET_HIGH_WATER_DEFAULT = 1024, /* messages queued in each direction of each connection; further ones are dropped and
                                      must be sent again. The protocol has a few messages per partition on the way, so
                                      this is enough for hundreds of partitions */
    NET_HIGH_WATER_MAX = 1 << 20
};

/* ---- What the actors of one process share ---- */

struct net;

struct net_options {
    const struct net_key *key; /* the job's, or a token; NULL: none. Copied */
    bool controller;           /* the controller is in this process: the key, if any, must be the job's */
    bool insecure;             /* allow addresses other than loopback without a key */
    int io_threads;            /* ZeroMQ's threads; 0: one, which fills about 10 Gbit/s. See net_io_options.apart */
};

/* Opens the net. Its threads have all signals blocked. 0, AML_EINPUT (a bad key) or AML_EFAIL. */
int net_open(struct net **net, const struct net_options *options, struct error *error);
/* The same with the key or token in the file `key_path` in place of options.key; NULL: without one. */
int net_open_by_file(struct net **net, const char *key_path, struct net_options options, struct error *error);
/* To be called after every net_io is closed. Waits up to about a second until their last messages are sent. */
void net_close(struct net *net);

/* Leaves this process's key pair to the program that it is about to execute in its place (execv), whose net_open takes
 * the pair. So a node that was given up and joins again is known by the same key. If leaving the pair fails, the
 * program makes a new one. */
void net_leave_key(const struct net *net);

/* This process's public key, as in struct wire_node; "" without a key. Valid until net_close. */
const char *net_public_key(const struct net *net);

/* A random actor id for a process that takes no part in the job, and only talks with its controller. */
actor_id net_observer_id(void);

/* ---- One actor's io: a loop, used by the one thread that runs it; see loop.h ---- */

struct net_io;

struct net_io_options {
    actor_id self;
    const char *bind;       /* the endpoint to listen at, see endpoint.h; NULL: none */
    const char *advertise;  /* the HOST or HOST:PORT at which others reach the port of `bind`; NULL: `bind` */
    struct actor actor;     /* `timer` may be NULL if set_timer isn't used */
    int message_high_water; /* 0: NET_HIGH_WATER_DEFAULT */
    /* The most bytes of a message that this actor may receive; 0: WIRE_MESSAGE_BYTES_MAX. Who connects to `bind` and
     * sends more, even of a message that never ends, is cut off. */
    uint64_t message_bytes;
    /* An enum message_type; 0: none. Small messages of this type may be received while this actor's thread sleeps: the
     * actor of this process that has sent them borrows the loop. */
    unsigned lent_for;
    /* The io's connections have an I/O thread of their own, beside net_options.io_threads. Traffic of the process's
     * other actors does not delay them. */
    bool apart;
    /* Called once for each endpoint whose peer refuses the connection. NULL: a warning. */
    void (*refused)(void *self, const char *endpoint, const char *why);
    /* Called whenever a connection to a peer that io.connect named has come about. May be NULL. */
    void (*connected)(void *self, actor_id peer);
    /* Called with one line for the log, at most NET_WARNINGS_MAX times. NULL: stderr. */
    void (*warning)(void *self, const char *text);
};

enum { NET_WARNINGS_MAX = 16 };

/* Opens an actor's io. The process's other actors reach the actor at once. Returns 0, AML_EINPUT (address), AML_ELIMIT
 * or AML_EFAIL. */
int net_io_open(struct net_io **io, struct net *net, const struct net_io_options *options, struct error *error);
/* Closes the io. Messages that it has not received are lost; messages that it has sent leave until net_close. */
void net_io_close(struct net_io *io);

/* Returns the endpoint where others reach the io, with the chosen port; "" if it does not listen. */
const char *net_io_endpoint(const struct net_io *io);
struct io *net_io_of(struct net_io *io);

/* Does what io.connect does, but returns 0, AML_EINPUT (address) or AML_ELIMIT instead of a warning. An actor of this
 * process needs no connection and gets none. A NULL endpoint forgets the actor.
 *
 * The first message to the peer connects. Messages wait for the first connection, up to the high water mark. Once a
 * peer has disconnected or did not answer, messages to it are dropped until a connection stands again. libzmq tries
 * again until the peer is forgotten. */
int net_io_connect(struct net_io *io, actor_id actor, const char *endpoint, struct error *error);

/* Calls `ready` whenever `fd` is readable; NULL ends that (before the fd is closed). 0, AML_ELIMIT or AML_EFAIL. */
int net_io_watch(struct net_io *io, int fd, void (*ready)(void *context), void *context);

/* Dispatches messages, the timer and watched descriptors until net_io_stop. 0 or AML_EFAIL. May be called again. */
int net_io_run(struct net_io *io, struct error *error);
/* Borrows the loop for another thread of the process: calls `ready` as for a readable descriptor, then dispatches what
 * follows until nothing is left or `enough` returns true. The rest is left to the owner. Returns false, without a call,
 * if the owner does not sleep. */
bool net_io_borrow(struct net_io *io, void (*ready)(void *context), bool (*enough)(const void *context), void *context);
/* Called from a callback of the loop: no other callback follows, and net_io_run returns. */
void net_io_stop(struct net_io *io);

/* Any thread. Counts bytes over TCP in frames and their headers, without TCP's and encryption's overhead, and messages
 * that were dropped because the peer was unknown or its queue was full. Any pointer may be NULL. */
void net_io_count(const struct net_io *io, uint64_t *bytes_sent, uint64_t *bytes_received, uint64_t *dropped);

#endif
