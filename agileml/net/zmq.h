/* The real io: actors exchange messages by TCP through ZeroMQ, and inside a process through mailboxes. Without a key
 * only loopback addresses are allowed. With one every TCP connection is encrypted (CURVE), and each process has a key
 * pair of its own, made by net_open:
 *   - the controller's process uses the job's key as its own. It lets in whoever shows a token of the job, in the
 *     token's role;
 *   - every other process lets in the processes of the nodes that io.admit named last, each under the ids of its own
 *     actors only.
 * Decides who may send which type of message (message_roles), and nothing about what messages mean. */
#ifndef AGILEML_NET_ZMQ_H
#define AGILEML_NET_ZMQ_H

#include "agileml/net/io.h"
#include "agileml/net/key.h"

enum {
    NET_ACTORS_MAX = 128,    /* open net_ios of one process */
    NET_PEERS_MAX = 1 << 14, /* peers that one net_io connects to */
    NET_WATCHES_MAX = 16,    /* descriptors that one net_io watches */
    NET_IO_THREADS_MAX = 16,
    NET_HIGH_WATER_DEFAULT = 1024, /* messages queued in each direction of each connection. The protocol has a few
                                      messages per partition on the way (a clock's flush, its push); what doesn't fit is
                                      dropped and must be sent again, so this leaves room for hundreds of partitions */
    NET_HIGH_WATER_MAX = 1 << 20
};

/* ---- What the actors of one process share ---- */

struct net;

struct net_options {
    const struct net_key *key; /* the job's, or a token; NULL: none. Copied */
    bool controller;           /* the controller is in this process: the key, if any, must be the job's */
    bool insecure;             /* allow addresses other than loopback without a key */
    int io_threads;            /* ZeroMQ's threads; 0: one, which fills about 10 Gbit/s */
};

/* All signals are blocked in the threads it starts. 0, AML_EINPUT (a bad key) or AML_EFAIL. */
int net_open(struct net **net, const struct net_options *options, struct error *error);
/* The same with the key or token in the file `key_path` in place of options.key; NULL: without one. */
int net_open_by_file(struct net **net, const char *key_path, struct net_options options, struct error *error);
/* After every net_io is closed. Waits up to about a second for what they sent last to leave. */
void net_close(struct net *net);

/* Leaves this process's key pair to the program that it is about to execute in its place (execv), whose net_open takes
 * it: a node that was given up, and joins anew, is known by it. If that fails the program gets a pair of its own. */
void net_leave_key(const struct net *net);

/* This process's public key, as in struct wire_node; "" without a key. Valid until net_close. */
const char *net_public_key(const struct net *net);

/* A random actor id for a process that takes no part in the job, and only talks with its controller. */
actor_id net_observer_id(void);

/* ---- One actor's io: a loop, used by the one thread that runs it (but see lent_for and net_io_stand_in) ---- */

struct net_io;

struct net_io_options {
    actor_id self;
    const char *bind;       /* listen here, see endpoint.h; NULL: don't */
    struct actor actor;     /* `timer` may be NULL if set_timer isn't used */
    int message_high_water; /* 0: NET_HIGH_WATER_DEFAULT */
    /* An enum message_type; 0: none. While this actor's thread sleeps, the thread of another actor of this process that
     * sends it a few small messages of this type receives them itself: waking the sleeper would cost more. */
    unsigned lent_for;
    /* A peer that io.connect names is there but no connection comes about: told once per endpoint. NULL: a warning. */
    void (*refused)(void *self, const char *endpoint, const char *why);
    /* The first or a later connection to this peer, which io.connect named, has come about. May be NULL. */
    void (*connected)(void *self, actor_id peer);
    /* One line for the log; at most NET_WARNINGS_MAX in all. NULL: stderr. */
    void (*warning)(void *self, const char *text);
};

enum { NET_WARNINGS_MAX = 16 };

/* The actor is at once within reach of the process's other actors. 0, AML_EINPUT (address), AML_ELIMIT or AML_EFAIL. */
int net_io_open(struct net_io **io, struct net *net, const struct net_io_options *options, struct error *error);
/* Messages it hasn't received are lost; those it has sent leave until net_close. */
void net_io_close(struct net_io *io);

/* Where it listens, the chosen port filled in; "" if it doesn't. */
const char *net_io_endpoint(const struct net_io *io);
struct io *net_io_of(struct net_io *io);

/* io.connect with an answer: 0, AML_EINPUT (address), AML_ELIMIT or AML_EFAIL. io.connect makes a warning of an error.
 * An actor of this process needs no connection and gets none. A NULL endpoint forgets the actor.
 *
 * What is sent before the first connection comes about waits for it, up to the high water mark. While a peer that
 * was connected, or didn't answer, is away, messages to it are dropped; libzmq tries again until it is forgotten. */
int net_io_connect(struct net_io *io, actor_id actor, const char *endpoint, struct error *error);

/* Calls `ready` whenever `fd` is readable; NULL ends that (before the fd is closed). 0, AML_ELIMIT or AML_EFAIL. */
int net_io_watch(struct net_io *io, int fd, void (*ready)(void *context), void *context);

/* Dispatches messages, the timer and watched descriptors until net_io_stop. 0 or AML_EFAIL. May be called again. */
int net_io_run(struct net_io *io, struct error *error);
/* From another thread of the process: while the loop's own thread sleeps, calls `ready` in its place, as it would for a
 * descriptor, and dispatches what comes of that, until nothing more is there or `enough` says so; the rest is left to
 * the loop's thread. To wake that and to be woken by it costs more than a little work. False: it does not sleep, and
 * nothing was called. */
bool net_io_stand_in(struct net_io *io, void (*ready)(void *context), bool (*enough)(const void *context),
                     void *context);
/* From a callback of the loop: no callback follows, net_io_run returns. */
void net_io_stop(struct net_io *io);

/* Any thread. Bytes over TCP in frames and their headers (not TCP's, nor encryption's); messages dropped instead of
 * sent, because there was no such peer or its queue was full. Any pointer may be NULL. */
void net_io_count(const struct net_io *io, uint64_t *bytes_sent, uint64_t *bytes_received, uint64_t *dropped);

#endif
