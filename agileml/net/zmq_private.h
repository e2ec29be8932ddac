/* What the files of the ZeroMQ io share: the process's net, and a link, which is one ZeroMQ socket with its
 * monitor. Included by agileml/net/zmq*.c only. */
#ifndef AGILEML_NET_ZMQ_PRIVATE_H
#define AGILEML_NET_ZMQ_PRIVATE_H

#include "agileml/net/endpoint.h"
#include "agileml/net/loop.h"
#include "agileml/net/mailbox.h"
#include "agileml/net/zmq.h"

#include <zmq.h>

enum {
    NET_RECONNECT_MS = 50,      /* the first wait before connecting again; doubles up to NET_RECONNECT_MAX_MS */
    NET_RECONNECT_MAX_MS = 200, /* well below the shortest failure timeout; see IO_RECONNECT_MS */
    NET_HANDSHAKE_MS = 2000     /* a peer that has not shown its key by then is disconnected */
};

/* ---- zmq.c: what the actors of one process share ---- */

/* An actor of this process: an entry of the directory. */
struct net_actor {
    actor_id actor;
    struct mailbox *mailbox;
    struct net_io *io;
};

struct net {
    void *context;
    bool secure;        /* has a key */
    bool insecure;      /* may leave the machine without one */
    struct net_key key; /* the job's, or a token */
    bool controller;    /* admits by tokens, not by the list of nodes */
    char own_public[NET_KEY_TEXT], own_secret[NET_KEY_TEXT];
    struct door *door;
    pthread_rwlock_t nodes_lock; /* guards what follows, up to node_count */
    struct admitted {
        actor_id node; /* first, for actor_compare */
        char key[NET_KEY_TEXT];
    } * nodes; /* ordered by node */
    size_t node_count;
    _Atomic uint64_t nodes_version;  /* counts calls of net_admit */
    pthread_rwlock_t directory_lock; /* guards what follows; held while a mailbox is put to, so that none closes then */
    size_t directory_count;
    struct net_actor directory[NET_ACTORS_MAX];
};

/* Makes an actor's mailbox known to the process. 0; AML_ELIMIT; AML_EINPUT when the actor is there already. */
int net_register(struct net *net, actor_id actor, struct mailbox *mailbox, struct net_io *io, struct error *error);
void net_unregister(struct net *net, actor_id actor);
bool net_is_local(struct net *net, actor_id actor);

enum net_delivery { NET_DELIVERED, NET_FULL, NET_NOT_HERE };
/* Takes over the message's frames if delivered; net_wake must follow. */
enum net_delivery net_deliver(struct net *net, actor_id to, actor_id from, const struct message *message);
/* Wakes the actor, if it is here, for what was delivered to it. */
void net_wake(struct net *net, actor_id actor);
/* Borrows the actor's loop, as net_io_lend does. Returns its io, or NULL. */
struct net_io *net_borrow(struct net *net, actor_id actor);
/* Has the actor, if it is here, give a warning in its own thread. */
void net_warn(struct net *net, actor_id actor, const char *text);

/* ---- zmq_io.c: for net_borrow and net_warn, which keep the io from being closed meanwhile ---- */

/* Lends the loop to the calling thread (loop.h) if the owner sleeps, and the first message of the mailbox, for which
 * the owner has not been woken, is of the type `lent_for` (net_io_options). */
bool net_io_lend(struct net_io *io);
void net_io_warn_later(struct net_io *io, const char *text);

/* See io.admit. */
void net_admit(struct net *net, const struct wire_node *nodes, size_t count);
/* Copies the key of the actor's node. False: the node is not in the list, and `key` is the controller's. */
bool net_key_of(struct net *net, actor_id actor, char key[NET_KEY_TEXT]);
/* Whether the list has a node with this key. */
bool net_key_admitted(struct net *net, const char *key);

/* Checks an endpoint and whether it may be used without a key. 0 or AML_EINPUT. */
int net_endpoint_check(const struct net *net, struct endpoint *endpoint, const char *text, bool to_bind,
                       struct error *error);

/* ---- zmq_door.c ---- */

enum {
    DOOR_EVENTS = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_MONITOR_STOPPED | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                  ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
};

/* Starts the thread. 0 or AML_EFAIL. */
int door_open(struct door **door, struct net *net, struct error *error);
/* After every listener is closed. NULL is fine. */
void door_close(struct door *door);
/* The list of nodes has changed: looks again at the handshakes that wait for that. */
void door_admit(struct door *door);
/* Takes over the monitor of this actor's listener, which reports DOOR_EVENTS; it is closed when the socket's
 * monitoring ends. */
void door_watch(struct door *door, void *monitor, actor_id actor, const char *endpoint);

/* ---- zmq_callers.c ---- */

enum {
    ROUTING_ACTOR_BYTES = 1 + sizeof(actor_id), /* 'A', then the actor; ids that libzmq makes up start with a 0 */
    ROUTING_NONCE_BYTES = 8,
    ROUTING_MAX = ROUTING_ACTOR_BYTES + ROUTING_NONCE_BYTES + NET_TOKEN_BYTES
};

/* A caller's name: the ZeroMQ routing id that it gives to a listener with each connection, and that the listener
 * addresses it by. It begins with the actor. With a key a nonce follows that only this listener learns: nobody else can
 * give the same name and take the connection over. To the controller the token follows, too. */
struct routing {
    size_t size;
    unsigned char bytes[ROUTING_MAX];
};
/* The actor in a name; ACTOR_NONE for a name of another form. */
actor_id routing_actor(const struct routing *routing);

/* The callers of a listener of a process with a key. Used by the one thread that runs the listener's loop. */
struct callers;
struct callers *callers_open(struct net *net);
void callers_close(struct callers *callers);

enum caller_verdict {
    CALLER_MAY,
    CALLER_MAY_NOT, /* `error` says why, for the caller too */
    CALLER_IGNORED  /* `error` says why, as a warning for us; empty if that has been said */
};
/* Whether the process with this public key may send the message under this name. Remembers the caller if its name and
 * key are in order. */
enum caller_verdict callers_judge(struct callers *callers, const struct routing *routing, const char *key,
                                  const struct message *message, uint64_t now_us, struct error *error);
/* The name to address the actor by; NULL: it has not called. */
const struct routing *callers_find(const struct callers *callers, actor_id actor);

/* ---- zmq_link.c ---- */

/* The next event of a monitor: one ZMQ_EVENT_..., or 0. */
int monitor_next_event(void *monitor, uint32_t *value);

/* What an epoll event points at. */
struct source {
    enum source_kind { SOURCE_MAILBOX, SOURCE_LINK, SOURCE_WATCH } kind;
    void *owner; /* net_io, link, watch */
};

enum link_state {
    LINK_CONNECTING, /* not connected yet: messages wait in the socket */
    LINK_UP,
    LINK_DOWN /* the peer went away or doesn't answer */
};

struct link {
    struct source source;
    void *socket;
    void *monitor;                    /* NULL: of the ROUTER, whose monitor is the door's */
    actor_id peer;                    /* whom a DEALER reaches; ACTOR_NONE: the ROUTER that listens */
    char endpoint[WIRE_ENDPOINT_MAX]; /* the DEALER's peer's, or where the ROUTER is bound */
    struct callers *callers;          /* of a ROUTER in a process with a key */
    bool to_node;                     /* the DEALER connects to a node of the list, and only with its key */
    enum link_state state;            /* of a DEALER */
    uint64_t stopped_us;              /* when libzmq disconnected; 0 once it says that it tries again */
    size_t piece_bytes;               /* frames of so many bytes and more go in pieces; see link_send */
    unsigned handshakes_failed;       /* in a row */
    bool was_up;                      /* a handshake has succeeded: the peer's key, or lack of one, is ours */
    bool refused;                     /* has been reported */
    bool active;                      /* may have messages: is in the io's list */
    bool retired;                     /* to be closed at the turn's end */
};

/* A link to `peer`, or with ACTOR_NONE one that listens; opens its socket too. */
int link_open(struct link **link, struct net *net, const struct net_io_options *options, actor_id peer,
              const char *endpoint, struct error *error);
void link_close(struct link *link);
/* The two halves, for a link whose socket is to be replaced. */
int link_open_socket(struct link *link, struct net *net, const struct net_io_options *options, struct error *error);
void link_close_socket(struct link *link);

/* The descriptor to wait on for one of the link's sockets. It signals changes only: after opening the socket or sending
 * on it, receive until nothing is there before waiting. */
int link_descriptor(void *socket);

/* Sends without waiting and returns the bytes, or -1 if nothing was sent. `to` is used by a ROUTER only. Frames stay
 * the caller's: large ones are held until libzmq has sent them.
 *
 * With a key a frame goes in pieces of piece_bytes, each a part of ZeroMQ's message; the last one is smaller, perhaps
 * empty. So a listener need not let anyone send larger parts, also not a peer that it has not admitted yet. */
int64_t link_send(struct link *link, actor_id to, const struct message *message);

enum link_result { LINK_RECEIVED, LINK_EMPTY, LINK_BAD };
/* Receives a message. LINK_BAD: it is malformed, or its sender may not send it; `error` says why, or is empty
 * if that has been said before. `bytes` is set except at LINK_EMPTY. */
enum link_result link_receive(struct link *link, actor_id *from, struct message *message, uint64_t *bytes,
                              struct error *error);

#endif
