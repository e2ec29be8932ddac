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
    NET_HANDSHAKE_MS = 2000     /* a peer whose handshake takes longer is disconnected */
};

/* ---- zmq_directory.c ---- */

/* An actor of this process: an entry of the directory. */
struct net_actor {
    actor_id actor;
    struct mailbox *mailbox;
    struct net_io *io;
};

struct net {
    void *context;
    int io_threads;     /* ZeroMQ's threads, without the thread for ios that are apart */
    bool secure;        /* has a key */
    bool insecure;      /* may use addresses other than loopback without a key */
    struct net_key key; /* the job's, or a token */
    bool controller;    /* is the controller's process: admits peers by tokens, not by the list of nodes */
    char own_public[NET_KEY_TEXT], own_secret[NET_KEY_TEXT];
    struct door *door;
    pthread_rwlock_t nodes_lock; /* guards `nodes`, `node_count` and what is said below */
    struct admitted {
        actor_id node; /* actor_compare expects it first */
        char key[NET_KEY_TEXT];
    } * nodes; /* ordered by node */
    size_t node_count;
    _Atomic uint64_t nodes_version; /* counts calls of net_set_nodes */
    uint64_t *revoked;              /* serial numbers of tokens; guarded by nodes_lock, as the next */
    size_t revoked_count;
    pthread_rwlock_t directory_lock; /* guards what follows. A thread that uses an entry's mailbox or io holds it, so
                                        that neither is closed meanwhile. */
    size_t directory_count;
    struct net_actor directory[NET_ACTORS_MAX];
};

/* Adds an actor to the directory. Returns 0; AML_ELIMIT when the directory is full; AML_EINPUT when the actor is in it
 * already. */
int net_register(struct net *net, actor_id actor, struct mailbox *mailbox, struct net_io *io, struct error *error);
void net_unregister(struct net *net, actor_id actor);
bool net_is_local(struct net *net, actor_id actor);

enum net_delivery { NET_DELIVERED, NET_FULL, NET_NOT_HERE };
/* Puts the message into the mailbox of an actor of this process, and takes over its frames when it returns
 * NET_DELIVERED; net_wake must follow. NET_NOT_HERE: the actor is in another process. */
enum net_delivery net_deliver(struct net *net, actor_id to, actor_id from, const struct message *message);
/* Wakes the actor, if it is in this process, for the messages that were delivered to it. */
void net_wake(struct net *net, actor_id actor);
/* The actor's entry; NULL: the actor is in another process. The caller holds directory_lock. */
struct net_actor *net_find(struct net *net, actor_id actor);

/* Takes the list of the job's nodes with their keys. Only in a process with a key. */
void net_set_nodes(struct net *net, const struct wire_node *nodes, size_t count);
/* Copies the key of the actor's node into `key`. Returns false if the list has no such node; `key` is then the
 * controller's. */
bool net_key_of(struct net *net, actor_id actor, char key[NET_KEY_TEXT]);
/* Whether a node of the list has this key. */
bool net_key_admitted(struct net *net, const char *key);

/* Takes the list of revoked tokens. */
void net_set_revoked(struct net *net, const uint64_t *serials, size_t count);
bool net_is_revoked(struct net *net, uint64_t serial);

/* Parses an endpoint (endpoint_parse). Returns 0, or AML_EINPUT when it is malformed, or is not on this machine while
 * the process has neither a key nor `insecure`. */
int net_endpoint_check(const struct net *net, struct endpoint *endpoint, const char *text, bool to_bind,
                       struct error *error);

/* ---- zmq_door.c ---- */

enum {
    DOOR_EVENTS = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED |
                  ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL
};

/* Reports to an actor of this process that a connection has ended: one that its listener had accepted, with this
 * descriptor. Does nothing if the actor is in another process. */
typedef void net_broken_call(struct net *net, actor_id actor, int descriptor);
/* Has the actor, if it is in this process, report a warning in its own thread (net_io_options.warning). */
typedef void net_warn_call(struct net *net, actor_id actor, const char *text);

/* Returns how often the actor's listener has had no whole message left; 0 if the actor is in another process. With
 * `look` the actor soon looks for messages again. */
typedef uint64_t net_drained_call(struct net *net, actor_id actor, bool look);

struct door_calls {
    net_broken_call *broken;
    net_warn_call *warn;
    net_drained_call *drained;
};

/* Starts the door's thread. Returns 0 or AML_EFAIL. */
int door_open(struct door **door, struct net *net, const struct door_calls *calls, struct error *error);
/* To be called after every listener is closed. NULL is allowed. */
void door_close(struct door *door);
/* Has the thread look again at handshakes that wait for a new list of nodes. Called when the list has changed. */
void door_admit(struct door *door);
/* Takes over the monitor of this actor's listener, which reports DOOR_EVENTS. The door closes the monitor when the
 * listener's socket is no longer monitored. A connection over which more than `message_bytes` of one message come is
 * cut off. */
void door_watch(struct door *door, void *monitor, actor_id actor, const char *endpoint, uint64_t message_bytes);
/* Notes that a whole message has come over the connection with this descriptor; -1: it is not known. Any thread. */
void door_heard(struct door *door, int descriptor);
/* Has the connection with this descriptor cut off soon, when what was sent over it has left. If it ends before, another
 * connection with the descriptor may be cut off in its place, which its peer then makes again. Any thread. */
void door_cut(struct door *door, int descriptor);

/* Returns a monitor's next event, a ZMQ_EVENT_..., and sets *value; 0: no event is left. */
int monitor_next_event(void *monitor, uint32_t *value);

/* ---- zmq_callers.c ---- */

enum {
    ROUTING_ACTOR_BYTES = 1 + sizeof(actor_id), /* 'A', then the actor; ids that libzmq chooses begin with a 0 byte */
    ROUTING_NONCE_BYTES = 8,
    ROUTING_MAX = ROUTING_ACTOR_BYTES + ROUTING_NONCE_BYTES + NET_TOKEN_BYTES
};

/* A caller's name: the ZeroMQ routing id that a caller gives to a listener with each connection. The listener sends to
 * the caller by this name, which begins with the caller's actor. With a key a nonce follows, which only this listener
 * learns, so nobody else can give the same name and take the connection over. A name for the controller ends in the
 * caller's token. */
struct routing {
    size_t size;
    unsigned char bytes[ROUTING_MAX];
};
/* Returns the actor in a name, or ACTOR_NONE when the name is malformed. */
actor_id routing_actor(const struct routing *routing);

/* The callers of a listener of a process with a key. Used by the one thread that runs the listener's loop. */
struct callers;
struct callers *callers_open(struct net *net);
void callers_close(struct callers *callers);

enum caller_verdict {
    CALLER_MAY,
    CALLER_MAY_NOT, /* `error` says why, for the caller too */
    CALLER_IGNORED  /* the caller gets no answer. `error` has a warning for this process; empty: reported before */
};
/* Judges whether the process with this public key may send the message under this name, over the connection with this
 * descriptor. Remembers the caller if the name and the key belong together. */
enum caller_verdict callers_judge(struct callers *callers, const struct routing *routing, const char *key,
                                  const struct message *message, int descriptor, uint64_t now_us, struct error *error);
/* Forgets the callers whose tokens are revoked, and cuts them off. */
void callers_cut_revoked(struct callers *callers);
/* Returns the serial number of the actor's token; 0: it has shown none, or has not called. */
uint64_t callers_token(const struct callers *callers, actor_id actor);
/* Returns the name by which to send to the actor, or NULL when the actor has not called. */
const struct routing *callers_find(const struct callers *callers, actor_id actor);

/* ---- zmq_link.c ---- */

/* What an epoll event's data points to. */
struct source {
    enum source_kind { SOURCE_MAILBOX, SOURCE_LINK, SOURCE_WATCH, SOURCE_DIAL } kind;
    void *owner; /* net_io, link, watch, dial */
};

enum link_state {
    LINK_CONNECTING, /* not connected yet: messages wait in the socket */
    LINK_UP,
    LINK_DOWN /* the peer has disconnected or does not answer: messages to it are dropped */
};

struct link {
    struct source source;
    void *socket;                     /* NULL: no message was sent to the peer yet, or no socket could be opened */
    void *monitor;                    /* NULL for a ROUTER: the door has taken it over */
    actor_id peer;                    /* the actor that a DEALER reaches; ACTOR_NONE: a ROUTER, which listens */
    char endpoint[WIRE_ENDPOINT_MAX]; /* where a DEALER's peer listens, or where a ROUTER is bound */
    struct callers *callers;          /* of a ROUTER in a process with a key; else NULL */
    bool to_node;                     /* the DEALER's peer must have the key of its node in the list of nodes */
    enum link_state state;            /* of a DEALER */
    uint64_t stopped_us;              /* when libzmq has disconnected; 0 once libzmq reports that it tries again */
    size_t piece_bytes;               /* frames of so many bytes and more are sent in pieces; see link_send */
    unsigned handshakes_failed;       /* in a row */
    bool was_up;                      /* a handshake has succeeded, so the keys of both sides fit */
    bool refused;                     /* a refusal by the peer has been reported */
    uint64_t message_bytes;           /* the most bytes of a message's frames */
    int descriptor;                   /* of a ROUTER: of the connection that the last message came over; -1: unknown */
    bool active;                      /* may have messages: is in the io's list `active` */
    bool retired;                     /* to be closed at the turn's end: is in the io's list `retired` */
};

/* Opens a link to `peer`, without a socket, or for ACTOR_NONE one that listens, with its socket. */
int link_open(struct link **link, struct net *net, const struct net_io_options *options, actor_id peer,
              const char *endpoint, struct error *error);
void link_close(struct link *link);
/* Open and close the socket alone: for the first message to a peer, or to replace a link's socket. */
int link_open_socket(struct link *link, struct net *net, const struct net_io_options *options, struct error *error);
void link_close_socket(struct link *link);

/* Returns the descriptor to wait on for one of the link's sockets. The descriptor signals changes only: after opening
 * the socket or sending on it, receive until no message is left before waiting. */
int link_descriptor(void *socket);

/* Sends without waiting. Returns the bytes on the wire, or -1 if the message was lost. Only a ROUTER uses `to`. The
 * caller keeps its references to the frames; large frames are held until libzmq has sent them.
 *
 * With a key a frame is sent in pieces of piece_bytes, each a part of the ZeroMQ message. The last piece is smaller,
 * perhaps empty. So a listener can refuse larger parts from everybody, also before it has admitted the peer. */
int64_t link_send(struct link *link, actor_id to, const struct message *message);

enum link_result { LINK_RECEIVED, LINK_EMPTY, LINK_BAD };
/* Receives a message, and sets *bytes to its bytes on the wire. LINK_EMPTY: there is none. LINK_BAD: the message is
 * malformed, or its sender may not send it. `error` has the reason, or is empty if that was reported before. */
enum link_result link_receive(struct link *link, actor_id *from, struct message *message, uint64_t *bytes,
                              struct error *error);

/* ---- zmq_io.c: what the door calls ---- */

net_broken_call net_broken;
net_warn_call net_warn;
net_drained_call net_drained;

#endif
