/* One ZeroMQ socket: its options, and messages to and from its frames. Knows nothing of the loop that it is
 * used in. See zmq_private.h. */
#include "agileml/base/clock.h"
#include "agileml/base/memory.h"
#include "agileml/base/sanitizers.h"
#include "agileml/net/zmq_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

/* libzmq's own thread uses a frame only after this thread has handed the frame over. ThreadSanitizer does not see that
 * order, as libzmq is not compiled with it. */
#if WITH_TSAN
#include <sanitizer/tsan_interface.h>
#define LINK_HANDS_OVER(frame) __tsan_release(frame)
#define LINK_TAKES_OVER(frame) __tsan_acquire(frame)
#else
#define LINK_HANDS_OVER(frame) ((void)0)
#define LINK_TAKES_OVER(frame) ((void)0)
#endif

enum {
    FRAME_COPY_MAX = 512, /* frames up to this are copied, which costs less than sharing them between threads */
    LINK_PIECE_BYTES = 128 << 10,
    LINK_PIECE_SLACK = 64, /* at least the bytes that CURVE adds to a part */
    FRAME_ALIGNMENT = sizeof(uint64_t),
    LINK_LINGER_MS = 1000,   /* how long the last messages may take to leave */
    LINK_CONNECT_MS = 2000,  /* for one attempt: the kernel repeats a lost SYN once in that time */
    LINK_SILENCE_MS = 20000, /* a peer that acknowledges nothing for so long is disconnected */
    LINK_KEEPALIVE_IDLE_S = 10,
    LINK_KEEPALIVE_STEP_S = 5,
    LINK_KEEPALIVE_STEPS = 2,
    LINK_BACKLOG = 1024 /* the nodes of a whole job connect at once */
};

/* ---- Life cycle ---- */

/* `peer_key`: the public key of the process that a DEALER connects to. */
static int link_set_key(void *socket, const struct net *net, const char *peer_key, bool listens) {
    int server = listens;
    const char *domain = "agileml"; /* with a domain libzmq asks the door (ZAP) */
    if (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &server, sizeof server) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, net->own_public, NET_KEY_TEXT) != 0 ||
        zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, net->own_secret, NET_KEY_TEXT) != 0) {
        return -1;
    }
    return listens ? zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, strlen(domain))
                   : zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, peer_key, NET_KEY_TEXT);
}

/* Sets the name that this side gives to the listener. The nonce is new for each socket, so only one listener learns
 * it. */
static int link_set_routing(const struct link *link, const struct net *net, actor_id self) {
    struct routing routing = {.size = ROUTING_ACTOR_BYTES, .bytes = {'A'}};
    memcpy(routing.bytes + 1, &self, sizeof self);
    if (net->secure) {
        if (getrandom(routing.bytes + routing.size, ROUTING_NONCE_BYTES, 0) != ROUTING_NONCE_BYTES) {
            return -1;
        }
        routing.size += ROUTING_NONCE_BYTES;
    }
    if (net->secure && !link->to_node) {
        memcpy(routing.bytes + routing.size, net->key.token, NET_TOKEN_BYTES);
        routing.size += NET_TOKEN_BYTES;
    }
    return zmq_setsockopt(link->socket, ZMQ_ROUTING_ID, routing.bytes, routing.size);
}

static int link_set_options(struct link *link, struct net *net, const struct net_io_options *options, bool ipv6) {
    bool listens = link->peer == ACTOR_NONE;
    int high_water = options->message_high_water > 0 ? options->message_high_water : NET_HIGH_WATER_DEFAULT;
    const struct {
        int name, value;
    } numbers[] = {
        {ZMQ_LINGER, LINK_LINGER_MS},
        {ZMQ_SNDHWM, high_water},
        {ZMQ_RCVHWM, high_water},
        {ZMQ_IPV6, ipv6},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, LINK_KEEPALIVE_IDLE_S},
        {ZMQ_TCP_KEEPALIVE_INTVL, LINK_KEEPALIVE_STEP_S},
        {ZMQ_TCP_KEEPALIVE_CNT, LINK_KEEPALIVE_STEPS},
        {ZMQ_TCP_MAXRT, LINK_SILENCE_MS},
        {ZMQ_HANDSHAKE_IVL, NET_HANDSHAKE_MS},
        {ZMQ_CONNECT_TIMEOUT, LINK_CONNECT_MS},
        {ZMQ_RECONNECT_IVL, NET_RECONNECT_MS},
        {ZMQ_RECONNECT_IVL_MAX, NET_RECONNECT_MAX_MS},
        {ZMQ_BACKLOG, LINK_BACKLOG},
        /* Only for a ROUTER: sending to an unknown peer is an error, and a peer that connects anew keeps its name. */
        {ZMQ_ROUTER_MANDATORY, 1},
        {ZMQ_ROUTER_HANDOVER, 1},
    };
    size_t count = sizeof numbers / sizeof numbers[0] - (listens ? 0 : 2);
    for (size_t i = 0; i < count; i++) {
        if (zmq_setsockopt(link->socket, numbers[i].name, &numbers[i].value, sizeof numbers[i].value) != 0) {
            return -1;
        }
    }
    uint64_t apart = UINT64_C(1) << net->io_threads; /* a set of I/O threads */
    uint64_t threads = options->apart ? apart : apart - 1;
    int64_t frame_max = net->secure ? LINK_PIECE_BYTES + LINK_PIECE_SLACK : (int64_t)WIRE_FRAME_BYTES_MAX;
    char peer_key[NET_KEY_TEXT] = "";
    link->to_node = net->secure && !listens && net_key_of(net, link->peer, peer_key);
    if (zmq_setsockopt(link->socket, ZMQ_AFFINITY, &threads, sizeof threads) != 0 ||
        zmq_setsockopt(link->socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof frame_max) != 0 ||
        (!listens && link_set_routing(link, net, options->self) != 0)) {
        return -1;
    }
    return net->secure ? link_set_key(link->socket, net, peer_key, listens) : 0;
}

/* Opens the socket's monitor, which reports connections and failed handshakes: libzmq otherwise hides them. */
static int link_open_monitor(struct link *link, const struct net *net) {
    int events = link->peer == ACTOR_NONE ? DOOR_EVENTS
                                          : ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                                ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                                ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED;
    char name[64];
    int none = 0;
    snprintf(name, sizeof name, "inproc://monitor-%" PRIxPTR, (uintptr_t)link->socket);
    link->monitor = zmq_socket(net->context, ZMQ_PAIR);
    /* No high water mark: with one, an actor that is busy for long would block libzmq's own thread. */
    return link->monitor == NULL || zmq_setsockopt(link->monitor, ZMQ_LINGER, &none, sizeof none) != 0 ||
                   zmq_setsockopt(link->monitor, ZMQ_RCVHWM, &none, sizeof none) != 0 ||
                   zmq_socket_monitor(link->socket, name, events) != 0 || zmq_connect(link->monitor, name) != 0
               ? -1
               : 0;
}

/* Binds to a numeric address: libzmq does not resolve names to bind to. */
static int link_bind(struct link *link, const char *numeric, struct error *error) {
    if (zmq_bind(link->socket, numeric) != 0) {
        return error_set(error, AML_EINPUT, "%s: %s", link->endpoint,
                         errno == EADDRINUSE      ? "address already in use"
                         : errno == EADDRNOTAVAIL ? "not an address of this machine"
                                                  : zmq_strerror(errno));
    }
    size_t size = sizeof link->endpoint;
    if (zmq_getsockopt(link->socket, ZMQ_LAST_ENDPOINT, link->endpoint, &size) != 0) {
        return error_set(error, AML_EFAIL, "%s: %s", link->endpoint, zmq_strerror(errno));
    }
    return 0;
}

int link_open_socket(struct link *link, struct net *net, const struct net_io_options *options, struct error *error) {
    bool listens = link->peer == ACTOR_NONE;
    struct endpoint checked;
    int result = net_endpoint_check(net, &checked, link->endpoint, listens, error);
    if (result != 0) {
        return result;
    }
    link->piece_bytes = net->secure ? LINK_PIECE_BYTES : SIZE_MAX;
    link->socket = zmq_socket(net->context, listens ? ZMQ_ROUTER : ZMQ_DEALER);
    if (link->socket == NULL || link_set_options(link, net, options, checked.ipv6) != 0 ||
        link_open_monitor(link, net) != 0) {
        result = error_set(error, AML_EFAIL, "%s: can't open a socket: %s", link->endpoint, zmq_strerror(errno));
    } else if (listens) {
        result = link_bind(link, checked.numeric, error);
    } else if (zmq_connect(link->socket, link->endpoint) != 0) {
        result = error_set(error, AML_EINPUT, "%s: %s", link->endpoint, zmq_strerror(errno));
    }
    if (result != 0) {
        link_close_socket(link);
    } else if (listens) {
        door_watch(net->door, link->monitor, options->self, link->endpoint, link->message_bytes);
        link->monitor = NULL;
    }
    return result;
}

void link_close_socket(struct link *link) {
    if (link->socket != NULL) {
        zmq_socket_monitor(link->socket, NULL, 0); /* the door sees a listener's monitor stop, and closes it */
    }
    if (link->monitor != NULL) {
        zmq_close(link->monitor);
    }
    if (link->socket != NULL) {
        zmq_close(link->socket);
    }
    link->socket = NULL;
    link->monitor = NULL;
}

int link_open(struct link **opened, struct net *net, const struct net_io_options *options, actor_id peer,
              const char *endpoint, struct error *error) {
    if (strnlen(endpoint, WIRE_ENDPOINT_MAX) == WIRE_ENDPOINT_MAX) {
        return error_set(error, AML_EINPUT, "an endpoint has more than %d characters", WIRE_ENDPOINT_MAX - 1);
    }
    struct link *link = memory_zeroed(1, sizeof *link);
    link->source = (struct source){.kind = SOURCE_LINK, .owner = link};
    link->peer = peer;
    strcpy(link->endpoint, endpoint);
    link->message_bytes = options->message_bytes > 0 ? options->message_bytes : WIRE_MESSAGE_BYTES_MAX;
    link->callers = net->secure && peer == ACTOR_NONE ? callers_open(net) : NULL;
    struct endpoint checked;
    int result = peer == ACTOR_NONE ? link_open_socket(link, net, options, error)
                                    : net_endpoint_check(net, &checked, link->endpoint, false, error);
    if (result != 0) {
        link_close(link);
        return result;
    }
    *opened = link;
    return 0;
}

void link_close(struct link *link) {
    link_close_socket(link);
    callers_close(link->callers);
    free(link);
}

int link_descriptor(void *socket) {
    int fd = -1;
    size_t size = sizeof fd;
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    return fd;
}

/* ---- Sending ---- */

/* Returns a frame's size on the wire: ZMTP puts flags and a length of one or eight bytes before it. */
static uint64_t link_wire_bytes(size_t size) {
    return size + (size > 255 ? 9 : 2);
}

static void link_drop_frame(void *data, void *hint) {
    (void)data;
    LINK_TAKES_OVER(hint);
    buffer_drop(hint);
}

static int link_send_part(void *socket, zmq_msg_t *part, bool more) {
    int sent = zmq_msg_send(part, socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0));
    if (sent < 0) {
        zmq_msg_close(part);
    }
    return sent;
}

static int link_send_bytes(void *socket, const void *bytes, size_t size, bool more) {
    zmq_msg_t part;
    if (zmq_msg_init_size(&part, size) != 0) {
        return -1;
    }
    memcpy(zmq_msg_data(&part), bytes, size);
    return link_send_part(socket, &part, more);
}

static int link_send_piece(void *socket, struct buffer *frame, size_t offset, size_t size, bool more) {
    if (size <= FRAME_COPY_MAX) {
        return link_send_bytes(socket, frame->data + offset, size, more);
    }
    zmq_msg_t part;
    LINK_HANDS_OVER(frame);
    if (zmq_msg_init_data(&part, frame->data + offset, size, link_drop_frame, buffer_hold(frame)) != 0) {
        buffer_drop(frame);
        return -1;
    }
    return link_send_part(socket, &part, more);
}

/* Returns the bytes on the wire. Sets *lost when a part could not be sent, as when a connection breaks within a
 * message. libzmq then drops the parts that follow, but must be given all of them. */
static uint64_t link_send_frame(const struct link *link, struct buffer *frame, bool more, bool *lost) {
    uint64_t bytes = 0;
    size_t offset = 0;
    size_t size;
    do {
        size_t left = frame->size - offset;
        size = left < link->piece_bytes ? left : link->piece_bytes;
        *lost |= link_send_piece(link->socket, frame, offset, size, more || size == link->piece_bytes) < 0;
        bytes += link_wire_bytes(size);
        offset += size;
    } while (size == link->piece_bytes);
    return bytes;
}

static int64_t link_send_to(const struct link *link, const struct routing *routing, const struct message *message) {
    assert(message->frame_count <= MESSAGE_FRAMES_MAX);
    if (routing != NULL && link_send_bytes(link->socket, routing->bytes, routing->size, true) < 0) {
        return -1;
    }
    unsigned char head[WIRE_HEAD_MAX];
    size_t size = message_encode_head(message, head);
    if (link_send_bytes(link->socket, head, size, message->frame_count > 0) < 0) {
        return -1;
    }
    uint64_t bytes = link_wire_bytes(size);
    bool lost = false;
    for (unsigned i = 0; i < message->frame_count; i++) {
        bytes += link_send_frame(link, message->frames[i], i + 1 < message->frame_count, &lost);
    }
    return lost ? -1 : (int64_t)bytes;
}

int64_t link_send(struct link *link, actor_id to, const struct message *message) {
    if (link->peer != ACTOR_NONE) {
        return link_send_to(link, NULL, message);
    }
    if (link->callers != NULL) {
        const struct routing *routing = callers_find(link->callers, to);
        return routing != NULL ? link_send_to(link, routing, message) : -1;
    }
    struct routing routing = {.size = ROUTING_ACTOR_BYTES, .bytes = {'A'}};
    memcpy(routing.bytes + 1, &to, sizeof to);
    return link_send_to(link, &routing, message);
}

/* ---- Receiving ---- */

/* A received part that is used as a buffer without a copy. */
struct received_frame {
    struct buffer buffer;
    zmq_msg_t part;
};

static void link_release_frame(struct buffer *buffer) {
    struct received_frame *frame = (struct received_frame *)(void *)buffer; /* its first member */
    zmq_msg_close(&frame->part);
    free(frame);
}

/* Returns a buffer with the part's bytes, and closes the part. Copies small parts and parts at unaligned addresses:
 * libzmq packs small parts one behind the other, and a copy lets go of the block in which they arrived. */
static struct buffer *link_wrap(zmq_msg_t *part) {
    size_t size = zmq_msg_size(part);
    if (size <= FRAME_COPY_MAX || (uintptr_t)zmq_msg_data(part) % FRAME_ALIGNMENT != 0) {
        struct buffer *copy = buffer_copy(zmq_msg_data(part), size);
        zmq_msg_close(part);
        return copy;
    }
    struct received_frame *frame = memory_resized(NULL, 1, sizeof *frame);
    zmq_msg_init(&frame->part);
    zmq_msg_move(&frame->part, part);
    zmq_msg_close(part);
    atomic_init(&frame->buffer.references, 1);
    frame->buffer.size = size;
    frame->buffer.data = zmq_msg_data(&frame->part);
    frame->buffer.release = link_release_frame;
    return &frame->buffer;
}

/* The pieces of a frame that have arrived so far, the latest first. */
struct pieces {
    struct piece {
        struct piece *before;
        zmq_msg_t part;
    } * last;
    size_t bytes;
};

/* Adds a piece, and closes the part. */
static void pieces_add(struct pieces *pieces, zmq_msg_t *part) {
    struct piece *piece = memory_resized(NULL, 1, sizeof *piece);
    piece->before = pieces->last;
    pieces->last = piece;
    pieces->bytes += zmq_msg_size(part);
    zmq_msg_init(&piece->part);
    zmq_msg_move(&piece->part, part);
    zmq_msg_close(part);
}

/* Empties the list, and copies its bytes to `whole` unless that is NULL. */
static void pieces_take(struct pieces *pieces, struct buffer *whole) {
    while (pieces->last != NULL) {
        struct piece *piece = pieces->last;
        pieces->bytes -= zmq_msg_size(&piece->part);
        if (whole != NULL) {
            memcpy(whole->data + pieces->bytes, zmq_msg_data(&piece->part), zmq_msg_size(&piece->part));
        }
        pieces->last = piece->before;
        zmq_msg_close(&piece->part);
        free(piece);
    }
}

/* Returns a frame of the pieces so far and its last part, and closes the part. */
static struct buffer *link_frame(struct pieces *pieces, zmq_msg_t *part) {
    if (pieces->last == NULL) {
        return link_wrap(part);
    }
    pieces_add(pieces, part);
    struct buffer *frame = buffer_new(pieces->bytes);
    pieces_take(pieces, frame);
    return frame;
}

/* Receives the payload parts. Returns 0 or AML_EPROTOCOL. Either way the socket has no part of this message left. */
static int link_receive_frames(const struct link *link, bool more, struct message *message, uint64_t *bytes,
                               struct error *error) {
    struct pieces pieces = {0};
    uint64_t total = 0;
    int result = 0;
    while (more) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, link->socket, ZMQ_DONTWAIT) < 0) { /* unexpected: a message comes whole or not at all */
            zmq_msg_close(&part);
            pieces_take(&pieces, NULL);
            return error_set(error, AML_EPROTOCOL, "the message is incomplete: %s", zmq_strerror(errno));
        }
        more = zmq_msg_more(&part) != 0;
        *bytes += link_wire_bytes(zmq_msg_size(&part));
        total += zmq_msg_size(&part);
        if (result == 0 && message->frame_count == MESSAGE_FRAMES_MAX) {
            result = error_set(error, AML_EPROTOCOL, "more than %d payload frames", MESSAGE_FRAMES_MAX);
        } else if (result == 0 && pieces.bytes > WIRE_FRAME_BYTES_MAX) {
            result = error_set(error, AML_EPROTOCOL, "a payload frame of more than %llu bytes",
                               (unsigned long long)WIRE_FRAME_BYTES_MAX);
        } else if (result == 0 && total > link->message_bytes) {
            result = error_set(error, AML_EPROTOCOL, "a message of more than %llu bytes",
                               (unsigned long long)link->message_bytes);
        }
        if (result != 0) {
            zmq_msg_close(&part);
            continue;
        }
        if (zmq_msg_size(&part) == link->piece_bytes) {
            pieces_add(&pieces, &part);
            continue;
        }
        message->frames[message->frame_count++] = link_frame(&pieces, &part);
    }
    if (result == 0 && pieces.last != NULL) {
        result = error_set(error, AML_EPROTOCOL, "a payload frame lacks its last piece");
    }
    pieces_take(&pieces, NULL);
    return result;
}

/* Receives the part that a ROUTER puts before a message. Returns false when there is none. */
static bool link_receive_routing(const struct link *link, struct routing *routing) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    bool received = zmq_msg_recv(&part, link->socket, ZMQ_DONTWAIT) >= 0;
    routing->size = zmq_msg_size(&part) <= ROUTING_MAX ? zmq_msg_size(&part) : 0;
    memcpy(routing->bytes, zmq_msg_data(&part), routing->size);
    zmq_msg_close(&part);
    return received;
}

/* Checks that the sender may send this message. Returns 0 or AML_EPROTOCOL. Sends a refused caller ABORT. */
static int link_judge(const struct link *link, const struct routing *routing, const char *key,
                      const struct message *message, struct error *error) {
    if (link->to_node && (message_roles(message) & ROLE_NODE) == 0) {
        return error_set(error, AML_EPROTOCOL, "%s from a node", message_name(message->type));
    }
    if (link->callers == NULL) {
        return 0;
    }
    enum caller_verdict verdict =
        callers_judge(link->callers, routing, key, message, link->descriptor, monotonic_us(), error);
    if (verdict == CALLER_MAY_NOT) {
        struct message refusal = {.type = MESSAGE_ABORT, .text = {.code = AML_EINPUT}};
        snprintf(refusal.text.text, sizeof refusal.text.text, "the controller refused this process: %.300s",
                 error->text);
        link_send_to(link, routing, &refusal);
    }
    return verdict == CALLER_MAY ? 0 : AML_EPROTOCOL;
}

enum link_result link_receive(struct link *link, actor_id *from, struct message *message, uint64_t *bytes,
                              struct error *error) {
    zmq_msg_t part;
    struct routing routing = {0};
    *from = link->peer;
    *bytes = 0;
    message->frame_count = 0;
    if (link->peer == ACTOR_NONE) {
        if (!link_receive_routing(link, &routing)) {
            return LINK_EMPTY;
        }
        *from = routing_actor(&routing);
    }
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, link->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&part);
        return LINK_EMPTY;
    }
    *bytes = link_wire_bytes(zmq_msg_size(&part));
    link->descriptor = link->peer == ACTOR_NONE ? zmq_msg_get(&part, ZMQ_SRCFD) : -1;
    int result = link_receive_frames(link, zmq_msg_more(&part) != 0, message, bytes, error);
    if (result == 0 && *from == ACTOR_NONE) {
        result = error_set(error, AML_EPROTOCOL, "the peer's routing id names no actor");
    }
    if (result == 0) {
        result = message_decode_head(message, zmq_msg_data(&part), zmq_msg_size(&part), error);
    }
    if (result == 0) {
        result = link_judge(link, &routing, zmq_msg_gets(&part, "User-Id"), message, error);
    }
    if (result != 0 && error->text[0] != '\0') {
        const char *address = zmq_msg_gets(&part, "Peer-Address");
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%.300s", error->text);
        error->code = 0;
        error_set(error, result, "dropped a message from %s (actor %" PRIx64 "): %s",
                  address != NULL ? address : link->endpoint, *from, text);
    }
    if (result != 0) {
        message_close(message);
    }
    zmq_msg_close(&part);
    return result == 0 ? LINK_RECEIVED : LINK_BAD;
}
