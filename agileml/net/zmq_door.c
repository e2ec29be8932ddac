/* The door: a thread that decides which public keys may connect to the process's listeners. It also limits how many
 * connections may wait for admission and what they may send, and cuts off connections over which a message without end
 * comes, so that they can't exhaust memory or descriptors: libzmq limits neither. libzmq's monitors report the
 * descriptors of accepted connections; TCP_INFO shows how far each handshake is, and how many bytes have come. Without
 * a key every peer that speaks ZMTP is admitted. See zmq_private.h. */
#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <errno.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

enum {
    DOOR_TICK_MS = 10, /* between two checks of connections that are not admitted yet */
    DOOR_KNOCKS_MAX = 256,
    DOOR_ADDRESS_KNOCKS_MAX = 128, /* from one address */
    DOOR_KNOCK_BYTES_MAX = 4096,   /* a handshake takes some 800 */
    DOOR_SPARE_DESCRIPTORS = 128,  /* reserved for files; at most a quarter of all descriptors */
    DOOR_ASKERS_MAX = 64,
    DOOR_ASKER_MS = 1000, /* how long a handshake waits for a list of nodes with its key; below NET_HANDSHAKE_MS */
    DOOR_LOOK_MS = 500,   /* between two looks at how much has come over each connection */
    DOOR_TRANSIT_BYTES = 16 << 20, /* at least what the kernel and libzmq hold of a connection before it is a message */
    DOOR_CUT_MS = 1000,            /* until a connection is cut off, so that its peer gets the reason */
    DOOR_GUESTS_MAX = 1 << 20,     /* descriptors above this are not accepted */
    DOOR_ADDRESS_BYTES = 16,
    DOOR_NETWORK_BYTES = 8, /* IPv6 peers are counted by /64 network: one peer can use every address of its network */
};

/* Bytes that this side sends before it has admitted a peer: the greeting, and with CURVE the WELCOME (RFC 23 and 26).
 * Then it sends READY, or an ERROR, which is shorter. */
enum { GREETING_BYTES = 64, WELCOME_BYTES = 2 + 168, REFUSAL_BYTES = 14 };

enum { PUBLIC_KEY_BYTES = 32, ZAP_PART_BYTES = 256, EVENT_BYTES = 6 };

/* The parts of ZeroMQ's authentication request. */
enum {
    ZAP_ROUTING,
    ZAP_DELIMITER,
    ZAP_VERSION,
    ZAP_ID,
    ZAP_DOMAIN,
    ZAP_ADDRESS,
    ZAP_IDENTITY,
    ZAP_MECHANISM,
    ZAP_CREDENTIALS, /* the peer's public key */
    ZAP_PARTS
};

struct zap_request {
    unsigned parts; /* received; those beyond ZAP_PARTS are not kept */
    struct {
        size_t size;
        unsigned char bytes[ZAP_PART_BYTES];
    } part[ZAP_PARTS];
};

/* A peer whose key is not in the list of nodes, but may be in the next list: lists do not reach all nodes at once. */
struct asker {
    uint64_t since_us;
    char key[NET_KEY_TEXT];
    struct zap_request request;
};

/* A connection that libzmq has accepted, and that is not admitted yet as far as the door knows. */
struct knock {
    int descriptor; /* belongs to libzmq, which may close it at any time; a descriptor used anew has another inode */
    ino_t inode;
    uint64_t since_us;
    unsigned char address[DOOR_ADDRESS_BYTES];
};

/* An accepted connection. Its place in the list of guests is its descriptor. libzmq keeps the parts of a message that
 * is not complete, without a limit, and shows nothing of them: but what has come since the last whole message and is no
 * message although the listener has looked, is part of one. */
struct guest {
    ino_t inode; /* 0: the place is free */
    actor_id listener;
    uint64_t message_bytes; /* most bytes of a message */
    uint64_t heard_bytes;   /* had come when the last whole message was noted */
    uint64_t drained;       /* the listener's count (net_drained_call) when it was asked to look */
    bool asked;             /* it was asked to look, and no whole message has come since */
    uint64_t cut_us;        /* when the connection is to be cut off; 0: it is not */
};

struct listener {
    void *monitor;
    actor_id actor;
    uint64_t message_bytes;
    char endpoint[WIRE_ENDPOINT_MAX];
};

struct door {
    struct net *net;
    struct door_calls calls;
    void *zap; /* the socket on which libzmq asks about keys; NULL: there is no key */
    pthread_t thread;
    int wake_fd;
    pthread_mutex_t lock;
    bool closing;               /* under `lock` */
    struct listener *newcomers; /* under `lock`: listeners that the thread has not taken over yet */
    size_t newcomer_count;
    int *cuts; /* under `lock`: descriptors of connections that are to be cut off */
    size_t cut_count;
    _Atomic unsigned char *heard; /* by descriptor: whether a whole message has come since the last look; any thread */
    /* The fields below are used by the thread alone. */
    struct listener *listeners;
    size_t listener_count;
    struct knock knocks[DOOR_KNOCKS_MAX + 1]; /* the oldest first */
    unsigned knock_count;
    struct asker askers[DOOR_ASKERS_MAX + 1]; /* the oldest first */
    unsigned asker_count;
    struct guest *guests; /* by descriptor */
    int guest_most;       /* the places from here on are free */
    uint64_t looked_us;   /* when the guests were looked at last */
    int descriptor_max;   /* accepted connections must have lower descriptors */
};

/* ---- Which keys may connect: ZeroMQ asks by its Authentication Protocol (RFC 27) ---- */

static bool zap_receive(void *socket, struct zap_request *request) {
    int more = 1;
    size_t option_size = sizeof more;
    for (request->parts = 0; more; request->parts++) {
        unsigned char rest[ZAP_PART_BYTES];
        unsigned char *bytes = request->parts < ZAP_PARTS ? request->part[request->parts].bytes : rest;
        int size = zmq_recv(socket, bytes, ZAP_PART_BYTES, ZMQ_DONTWAIT); /* returns the size before truncation */
        if (size < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option_size) != 0) {
            return false;
        }
        if (request->parts < ZAP_PARTS) {
            request->part[request->parts].size = (size_t)size < ZAP_PART_BYTES ? (size_t)size : ZAP_PART_BYTES;
        }
    }
    return true;
}

/* Answers a request. `user` becomes the User-Id of the peer's messages: the peer's public key. */
static void zap_answer(void *socket, const struct zap_request *request, const char *status, const char *user) {
    for (unsigned part = ZAP_ROUTING; part <= ZAP_ID; part++) {
        zmq_send(socket, request->part[part].bytes, request->part[part].size, ZMQ_SNDMORE);
    }
    zmq_send(socket, status, 3, ZMQ_SNDMORE);
    zmq_send(socket, "", 0, ZMQ_SNDMORE); /* status text */
    zmq_send(socket, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(socket, "", 0, 0); /* metadata */
}

/* Answers the request. Without `late`, returns false and gives no answer while the key may still come with the next
 * list of nodes. After the answer 300 the peer's libzmq tries again; after 400 it would not. The controller admits
 * every key, and judges callers by their tokens (zmq_callers.c). */
static bool asker_answer(const struct door *door, const struct asker *asker, bool late) {
    bool admitted = door->net->controller || net_key_admitted(door->net, asker->key);
    if (!admitted && !late) {
        return false;
    }
    zap_answer(door->zap, &asker->request, admitted ? "200" : "300", admitted ? asker->key : "");
    return true;
}

static void asker_forget(struct door *door, unsigned a) {
    door->asker_count--;
    memmove(&door->askers[a], &door->askers[a + 1], (door->asker_count - a) * sizeof door->askers[0]);
}

static void take_askers(struct door *door) {
    struct zap_request request;
    while (zap_receive(door->zap, &request)) {
        struct asker *asker = &door->askers[door->asker_count];
        if (request.parts != ZAP_PARTS || request.part[ZAP_CREDENTIALS].size != PUBLIC_KEY_BYTES ||
            request.part[ZAP_MECHANISM].size != 5 || memcmp(request.part[ZAP_MECHANISM].bytes, "CURVE", 5) != 0) {
            if (request.parts > ZAP_ID) {
                zap_answer(door->zap, &request, "400", "");
            }
            continue;
        }
        asker->request = request;
        asker->since_us = monotonic_us();
        zmq_z85_encode(asker->key, request.part[ZAP_CREDENTIALS].bytes, PUBLIC_KEY_BYTES);
        if (!asker_answer(door, asker, false) && ++door->asker_count > DOOR_ASKERS_MAX) {
            asker_answer(door, &door->askers[0], true);
            asker_forget(door, 0);
        }
    }
}

static void look_at_askers(struct door *door) {
    uint64_t now_us = monotonic_us();
    for (unsigned a = door->asker_count; a-- > 0;) {
        if (asker_answer(door, &door->askers[a], now_us - door->askers[a].since_us > DOOR_ASKER_MS * UINT64_C(1000))) {
            asker_forget(door, a);
        }
    }
}

/* ---- Connections that are not admitted yet ---- */

enum knock_state {
    KNOCK_WAITS,
    KNOCK_ADMITTED, /* or TCP_INFO is not available: then libzmq's own time limit has to do */
    KNOCK_GONE,
    KNOCK_TALKS /* has sent more than a handshake takes */
};

static enum knock_state knock_state(const struct door *door, const struct knock *knock) {
    struct tcp_info info;
    struct stat status;
    socklen_t size = sizeof info;
    uint64_t before = GREETING_BYTES + (door->zap != NULL ? WELCOME_BYTES : 0) + REFUSAL_BYTES;
    if (fstat(knock->descriptor, &status) != 0 || status.st_ino != knock->inode) {
        return KNOCK_GONE;
    }
    if (getsockopt(knock->descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
        info.tcpi_bytes_acked > before) {
        return KNOCK_ADMITTED;
    }
    return info.tcpi_bytes_received > DOOR_KNOCK_BYTES_MAX ? KNOCK_TALKS : KNOCK_WAITS;
}

/* Returns how many bytes have come over the connection; UINT64_MAX: it is not known. */
static uint64_t received_bytes(int descriptor) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    bool known = getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                 size >= offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
    return known ? info.tcpi_bytes_received : UINT64_MAX;
}

static void knock_forget(struct door *door, unsigned k) {
    door->knock_count--;
    memmove(&door->knocks[k], &door->knocks[k + 1], (door->knock_count - k) * sizeof door->knocks[0]);
}

/* Shuts the connection down; libzmq then closes it. */
static void knock_refuse(struct door *door, unsigned k) {
    shutdown(door->knocks[k].descriptor, SHUT_RDWR);
    knock_forget(door, k);
}

static bool knock_address(int descriptor, unsigned char address[DOOR_ADDRESS_BYTES]) {
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    memset(address, 0, DOOR_ADDRESS_BYTES);
    if (getpeername(descriptor, (struct sockaddr *)&peer, &size) != 0) {
        return false;
    }
    if (peer.ss_family == AF_INET) {
        memcpy(address, &((const struct sockaddr_in *)&peer)->sin_addr, sizeof(struct in_addr));
        return true;
    }
    const struct in6_addr *long_address = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    bool short_one = IN6_IS_ADDR_V4MAPPED(long_address);
    memcpy(address, long_address->s6_addr + (short_one ? DOOR_ADDRESS_BYTES - sizeof(struct in_addr) : 0),
           short_one ? sizeof(struct in_addr) : DOOR_NETWORK_BYTES);
    return peer.ss_family == AF_INET6;
}

/* Refuses the oldest knocks until at most `count_max` of `count` are left; with `address`, only knocks from there
 * count. Forgets knocks that are admitted or gone, which makes room as well. A peer of the job has usually finished its
 * handshake before its knock is the oldest. */
static void make_room(struct door *door, const unsigned char *address, unsigned count, unsigned count_max) {
    for (unsigned k = 0; k < door->knock_count && count > count_max;) {
        if (address != NULL && memcmp(door->knocks[k].address, address, DOOR_ADDRESS_BYTES) != 0) {
            k++;
            continue;
        }
        enum knock_state state = knock_state(door, &door->knocks[k]);
        if (state == KNOCK_ADMITTED || state == KNOCK_GONE) {
            knock_forget(door, k);
        } else {
            knock_refuse(door, k);
        }
        count--;
    }
}

static void take_knock(struct door *door, const struct listener *listener, int descriptor) {
    struct stat status;
    struct knock knock = {.descriptor = descriptor, .since_us = monotonic_us()};
    if (fstat(descriptor, &status) != 0 || !knock_address(descriptor, knock.address)) {
        return; /* the connection is closed already */
    }
    if (descriptor >= door->descriptor_max) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s: refused a connection: %d descriptors are in use, the rest is kept for files",
                 listener->endpoint, door->descriptor_max);
        shutdown(descriptor, SHUT_RDWR);
        door->calls.warn(door->net, listener->actor, text);
        return;
    }
    knock.inode = status.st_ino;
    if (descriptor >= door->guest_most) {
        door->guests = memory_resized(door->guests, (size_t)descriptor + 1, sizeof *door->guests);
        memset(&door->guests[door->guest_most], 0, (size_t)(descriptor - door->guest_most) * sizeof *door->guests);
        door->guest_most = descriptor + 1;
    }
    door->guests[descriptor] =
        (struct guest){.inode = status.st_ino, .listener = listener->actor, .message_bytes = listener->message_bytes};
    door->knocks[door->knock_count++] = knock;
    unsigned from_there = 0;
    for (unsigned k = 0; k < door->knock_count; k++) {
        from_there += memcmp(door->knocks[k].address, knock.address, DOOR_ADDRESS_BYTES) == 0 ? 1 : 0;
    }
    make_room(door, knock.address, from_there, DOOR_ADDRESS_KNOCKS_MAX);
    make_room(door, NULL, door->knock_count, DOOR_KNOCKS_MAX);
}

static void look_at_knocks(struct door *door) {
    uint64_t now_us = monotonic_us();
    for (unsigned k = door->knock_count; k-- > 0;) {
        enum knock_state state = knock_state(door, &door->knocks[k]);
        bool late = now_us - door->knocks[k].since_us > NET_HANDSHAKE_MS * UINT64_C(1000);
        if (state == KNOCK_TALKS || (state == KNOCK_WAITS && late)) {
            knock_refuse(door, k);
        } else if (state != KNOCK_WAITS) {
            knock_forget(door, k);
        }
    }
}

/* ---- Connections over which too much comes, or whose peers are not wanted any more ---- */

/* Writes the address and port of the connection's peer. */
static void peer_text(int descriptor, char *text, size_t size) {
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    char host[NI_MAXHOST] = "?";
    char port[NI_MAXSERV] = "?";
    if (getpeername(descriptor, (struct sockaddr *)&peer, &length) == 0) {
        getnameinfo((const struct sockaddr *)&peer, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    }
    snprintf(text, size, "%.100s:%.20s", host, port);
}

static void guest_cut(struct guest *guest, int descriptor) {
    shutdown(descriptor, SHUT_RDWR);
    guest->inode = 0;
}

/* Whether more of one message has come than may. If it seems so, first has the listener look whether whole messages
 * wait. */
static bool guest_exceeds(const struct door *door, struct guest *guest, int descriptor) {
    uint64_t bytes = received_bytes(descriptor);
    bool heard = atomic_exchange_explicit(&door->heard[descriptor], 0, memory_order_relaxed) != 0;
    if (heard || bytes == UINT64_MAX || bytes < guest->heard_bytes + guest->message_bytes + DOOR_TRANSIT_BYTES) {
        guest->heard_bytes = heard && bytes != UINT64_MAX ? bytes : guest->heard_bytes;
        guest->asked = false;
        return false;
    }
    uint64_t drained = door->calls.drained(door->net, guest->listener, !guest->asked);
    if (!guest->asked) {
        guest->asked = true;
        guest->drained = drained;
    }
    return drained != guest->drained;
}

static void look_at_guests(struct door *door) {
    uint64_t now_us = monotonic_us();
    if (now_us < door->looked_us + DOOR_LOOK_MS * UINT64_C(1000)) {
        return;
    }
    door->looked_us = now_us;
    int most = 0;
    for (int descriptor = 0; descriptor < door->guest_most; descriptor++) {
        struct guest *guest = &door->guests[descriptor];
        struct stat status;
        if (guest->inode == 0) {
            continue;
        }
        if (fstat(descriptor, &status) != 0 || status.st_ino != guest->inode) {
            guest->inode = 0; /* the connection has ended */
        } else if (guest->cut_us != 0 && now_us >= guest->cut_us) {
            guest_cut(guest, descriptor);
        } else if (guest_exceeds(door, guest, descriptor)) {
            char peer[128];
            char text[ERROR_TEXT_MAX];
            peer_text(descriptor, peer, sizeof peer);
            snprintf(text, sizeof text,
                     "cut off the process at %s: more than %llu bytes of one message have come from it", peer,
                     (unsigned long long)guest->message_bytes);
            guest_cut(guest, descriptor);
            door->calls.warn(door->net, guest->listener, text);
        }
        most = guest->inode != 0 ? descriptor + 1 : most;
    }
    door->guest_most = most;
}

void door_heard(struct door *door, int descriptor) {
    if (descriptor >= 0 && descriptor < door->descriptor_max) {
        atomic_store_explicit(&door->heard[descriptor], 1, memory_order_relaxed);
    }
}

void door_cut(struct door *door, int descriptor) {
    if (descriptor < 0) {
        return;
    }
    pthread_mutex_lock(&door->lock);
    door->cuts = memory_resized(door->cuts, door->cut_count + 1, sizeof *door->cuts);
    door->cuts[door->cut_count++] = descriptor;
    pthread_mutex_unlock(&door->lock);
    eventfd_write(door->wake_fd, 1);
}

/* Takes over what door_cut has left, under the lock. */
static void take_cuts(struct door *door) {
    uint64_t cut_us = monotonic_us() + DOOR_CUT_MS * UINT64_C(1000);
    while (door->cut_count > 0) {
        int descriptor = door->cuts[--door->cut_count];
        if (descriptor < door->guest_most) {
            door->guests[descriptor].cut_us = cut_us;
        }
    }
}

/* ---- Listeners ---- */

int monitor_next_event(void *monitor, uint32_t *value) {
    unsigned char bytes[EVENT_BYTES]; /* 16 bits of event, 32 bits of value; the next part is an address */
    uint16_t event;
    if (zmq_recv(monitor, bytes, sizeof bytes, ZMQ_DONTWAIT) != EVENT_BYTES) {
        return 0;
    }
    zmq_recv(monitor, NULL, 0, ZMQ_DONTWAIT);
    memcpy(&event, bytes, sizeof event);
    memcpy(value, bytes + sizeof event, sizeof *value);
    return event;
}

static void report_refusal(const struct door *door, const struct listener *listener, int event, uint32_t value) {
    const char *why = NULL;
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
        (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && value == ZMQ_PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)) {
        why = "an unknown key";
    } else if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH) {
        why = door->zap != NULL ? "no key" : "a key, and this process has none";
    }
    if (why != NULL) {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s: refused a connection with %s", listener->endpoint, why);
        door->calls.warn(door->net, listener->actor, text);
    }
}

/* Handles the listener's events. Returns false when the listener is closed. */
static bool take_events(struct door *door, const struct listener *listener) {
    uint32_t value;
    int event;
    while ((event = monitor_next_event(listener->monitor, &value)) != 0) {
        if (event == ZMQ_EVENT_MONITOR_STOPPED) {
            return false;
        }
        if (event == ZMQ_EVENT_ACCEPTED) {
            take_knock(door, listener, (int)value);
        } else if (event == ZMQ_EVENT_DISCONNECTED) {
            door->calls.broken(door->net, listener->actor, (int)value);
        } else {
            report_refusal(door, listener, event, value);
        }
    }
    return true;
}

/* Takes over new listeners. Returns false when the door is to close. */
static bool take_newcomers(struct door *door) {
    eventfd_t count;
    eventfd_read(door->wake_fd, &count);
    pthread_mutex_lock(&door->lock);
    size_t listeners = door->listener_count + door->newcomer_count;
    door->listeners = memory_resized(door->listeners, listeners + 1, sizeof *door->listeners);
    while (door->newcomer_count > 0) {
        door->listeners[door->listener_count++] = door->newcomers[--door->newcomer_count];
    }
    take_cuts(door);
    bool closing = door->closing;
    pthread_mutex_unlock(&door->lock);
    return !closing;
}

static void *door_run(void *context) {
    struct door *door = context;
    zmq_pollitem_t *items = NULL;
    bool open = true;
    while (open) {
        size_t count = 1;
        items = memory_resized(items, door->listener_count + 2, sizeof *items);
        items[0] = (zmq_pollitem_t){.fd = door->wake_fd, .events = ZMQ_POLLIN};
        for (size_t l = 0; l < door->listener_count; l++) {
            items[count++] = (zmq_pollitem_t){.socket = door->listeners[l].monitor, .events = ZMQ_POLLIN};
        }
        if (door->zap != NULL) {
            items[count++] = (zmq_pollitem_t){.socket = door->zap, .events = ZMQ_POLLIN};
        }
        zmq_poll(items, (int)count,
                 door->knock_count + door->asker_count > 0 ? DOOR_TICK_MS
                 : door->guest_most > 0                    ? DOOR_LOOK_MS
                                                           : -1);
        for (size_t l = door->listener_count; l-- > 0;) {
            if (items[1 + l].revents != 0 && !take_events(door, &door->listeners[l])) {
                zmq_close(door->listeners[l].monitor);
                door->listeners[l] = door->listeners[--door->listener_count];
            }
        }
        if (door->zap != NULL) {
            take_askers(door);
            look_at_askers(door);
        }
        look_at_knocks(door);
        look_at_guests(door);
        open = items[0].revents == 0 || take_newcomers(door);
    }
    for (size_t l = 0; l < door->listener_count; l++) {
        zmq_close(door->listeners[l].monitor);
    }
    if (door->zap != NULL) {
        zmq_close(door->zap);
    }
    free(items);
    return NULL;
}

void door_watch(struct door *door, void *monitor, actor_id actor, const char *endpoint, uint64_t message_bytes) {
    pthread_mutex_lock(&door->lock);
    door->newcomers = memory_resized(door->newcomers, door->newcomer_count + 1, sizeof *door->newcomers);
    struct listener *newcomer = &door->newcomers[door->newcomer_count++];
    newcomer->monitor = monitor;
    newcomer->actor = actor;
    newcomer->message_bytes = message_bytes;
    snprintf(newcomer->endpoint, sizeof newcomer->endpoint, "%s", endpoint);
    pthread_mutex_unlock(&door->lock);
    eventfd_write(door->wake_fd, 1);
}

void door_admit(struct door *door) {
    eventfd_write(door->wake_fd, 1);
}

/* ---- Life cycle ---- */

/* Raises the soft limit of open files to the hard limit: every connection takes about five descriptors, and the usual
 * soft limit of 1024 only protects programs that use select. A failure to raise it shows when the limit is reached.
 * Returns the lowest descriptor that an accepted connection must not have. */
static int raise_descriptor_limit(void) {
    struct rlimit limit = {.rlim_cur = 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    int most = limit.rlim_cur < DOOR_GUESTS_MAX ? (int)limit.rlim_cur : DOOR_GUESTS_MAX;
    return most - (most / 4 < DOOR_SPARE_DESCRIPTORS ? most / 4 : DOOR_SPARE_DESCRIPTORS);
}

int door_open(struct door **opened, struct net *net, const struct door_calls *calls, struct error *error) {
    struct door *door = memory_zeroed(1, sizeof *door);
    int linger = 0;
    int result = 0;
    door->net = net;
    door->calls = *calls;
    door->descriptor_max = raise_descriptor_limit();
    door->heard = memory_zeroed((size_t)door->descriptor_max, sizeof *door->heard);
    door->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    void *socket = zmq_socket(net->context, ZMQ_ROUTER); /* libzmq starts its threads with the first socket */
    if (door->wake_fd < 0 || socket == NULL || zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) != 0) {
        result = error_set(error, AML_EFAIL, "can't start ZeroMQ: %s", zmq_strerror(errno));
    } else if (net->secure && zmq_bind(socket, "inproc://zeromq.zap.01") != 0) {
        result = error_set(error, AML_EFAIL, "can't start ZeroMQ's authentication: %s", zmq_strerror(errno));
    }
    if (result == 0 && net->secure) {
        door->zap = socket;
    } else if (socket != NULL) {
        zmq_close(socket);
    }
    pthread_mutex_init(&door->lock, NULL);
    if (result == 0 && (errno = pthread_create(&door->thread, NULL, door_run, door)) != 0) {
        result = error_set(error, AML_EFAIL, "can't start a thread: %s", strerror(errno));
        if (door->zap != NULL) {
            zmq_close(door->zap);
        }
    }
    if (result != 0) {
        pthread_mutex_destroy(&door->lock);
        if (door->wake_fd >= 0) {
            close(door->wake_fd);
        }
        free(door->heard);
        free(door);
        return result;
    }
    *opened = door;
    return 0;
}

void door_close(struct door *door) {
    if (door == NULL) {
        return;
    }
    pthread_mutex_lock(&door->lock);
    door->closing = true;
    pthread_mutex_unlock(&door->lock);
    eventfd_write(door->wake_fd, 1);
    pthread_join(door->thread, NULL);
    pthread_mutex_destroy(&door->lock);
    close(door->wake_fd);
    free(door->newcomers);
    free(door->listeners);
    free(door->cuts);
    free(door->heard);
    free(door->guests);
    free(door);
}
