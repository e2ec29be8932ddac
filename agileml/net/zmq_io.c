/* One actor's loop: waits on its sockets, its mailbox, its timer and watched descriptors, and calls the actor.
 * See zmq.h. */
#include "agileml/base/clock.h"
#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/net/dial.h"
#include "agileml/net/ends.h"
#include "agileml/net/zmq_private.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

enum {
    TURN_EVENTS = 64,           /* descriptors looked at in one turn of the loop */
    TURN_MESSAGES = 16,         /* messages taken from one socket, or from the mailbox, in one turn */
    BORROWED_TURNS = 8,         /* the most turns of a borrower in net_io_borrow */
    SLEEPERS_MAX = 16,          /* actors of this process that are woken together */
    SLEEPERS_MESSAGES = 64,     /* messages for them after which they are woken before the turn's end */
    SLEEPERS_BYTES = 1 << 20,   /* bytes for them after which they are woken before the turn's end */
    DIALS_MAX = WIRE_NODES_MAX, /* attempts under way; a further attempt ends the oldest */
    DIAL_OLD_US = 1000 * 1000,  /* an attempt of this age is ended by a further one for the same actor */
    BROKEN_MAX = 1024,          /* ended connections that are not reported to the actor yet */
    HANDSHAKES_FAILED_MAX = 3   /* failed handshakes in a row that count as a refusal, if no handshake with the peer has
                                   ever succeeded. A peer that dies during a handshake causes one failure */
};

struct watch {
    struct source source;
    int fd;
    void (*ready)(void *context); /* NULL: free */
    void *context;
};

/* An attempt to connect, for io.dial. */
struct dial {
    struct source source;
    int fd;       /* -1: free */
    bool refused; /* the answer was there at once */
    bool ready;   /* the answer is there */
    actor_id actor;
    uint64_t began_us;
};

/* The ends of connections that our listener had accepted. */
struct net_broken {
    struct ends ends; /* which actors speak over which connections */
    bool due;         /* `reported` may not be empty */
    pthread_mutex_t lock;
    int reported[BROKEN_MAX]; /* under `lock`: descriptors of connections that have ended, by the door */
    unsigned reported_count;  /* under `lock` */
};

/* Actors to which messages were delivered in this turn. */
struct net_sleepers {
    actor_id actors[SLEEPERS_MAX];
    unsigned count, messages;
    size_t bytes;
};

struct net_warnings {
    unsigned count;
    char last[ERROR_TEXT_MAX]; /* the latest warning, which is not repeated: a peer may try again and again */
    pthread_mutex_t lock;
    char requested[ERROR_TEXT_MAX]; /* under `lock`: a warning that the door has to give; "": none */
};

/* What the door (zmq_door.c) knows of the router, and asks. */
struct net_watched {
    _Atomic uint64_t drained; /* how often the router has had no whole message left */
    _Atomic bool look;        /* the door wants to know whether it has one left */
};

struct net_io {
    struct io io; /* first: its address is ours */
    struct net *net;
    struct net_io_options options;
    int epoll;
    struct mailbox mailbox;
    struct source mailbox_source;
    struct loop loop;             /* the thread that runs the loop may use the fields below, except where a comment says
                            otherwise */
    bool mailbox_active;          /* there may be messages that the mailbox's descriptor does not announce */
    struct net_sleepers sleepers; /* woken at each turn's end */
    struct link *router;          /* NULL: the io does not listen */
    char endpoint[WIRE_ENDPOINT_MAX]; /* where others reach the router; "": it does not listen */
    struct link **peers;              /* ordered by their actors */
    size_t peer_count;
    struct link **active; /* links that may have messages */
    size_t active_count;
    size_t link_capacity;  /* of `peers`, `active` and `retired` */
    struct link **retired; /* to be closed at the turn's end by the owner, who may still hold events of these links */
    size_t retired_count;
    size_t stopped_count; /* peers whose stopped_us is not 0 */
    struct watch watches[NET_WATCHES_MAX];
    struct dial *dials; /* DIALS_MAX of them, allocated for the first attempt; NULL: none yet */
    bool dials_due;     /* some may be ready */
    struct net_broken broken;
    uint64_t timer_us; /* 0: none */
    uint64_t random_state;
    struct net_warnings warnings;
    _Atomic uint64_t bytes_sent, bytes_received, dropped; /* written by the thread that runs the loop, read by any
                                                             thread */
    struct net_watched watched;
};

static void net_io_warn(struct net_io *io, const char *text) {
    if (io->warnings.count == NET_WARNINGS_MAX || strncmp(io->warnings.last, text, sizeof io->warnings.last - 1) == 0) {
        return;
    }
    io->warnings.count++;
    snprintf(io->warnings.last, sizeof io->warnings.last, "%s", text);
    if (io->options.warning != NULL) {
        io->options.warning(io->options.actor.self, text);
    } else {
        fprintf(stderr, "warning: %s\n", text);
    }
}

static void net_io_warn_later(struct net_io *io, const char *text) {
    pthread_mutex_lock(&io->warnings.lock);
    snprintf(io->warnings.requested, sizeof io->warnings.requested, "%s", text);
    pthread_mutex_unlock(&io->warnings.lock);
    mailbox_raise(&io->mailbox);
}

void net_warn(struct net *net, actor_id actor, const char *text) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        net_io_warn_later(found->io, text);
    }
    pthread_rwlock_unlock(&net->directory_lock);
}

static void net_io_warn_requested(struct net_io *io) {
    char text[ERROR_TEXT_MAX];
    pthread_mutex_lock(&io->warnings.lock);
    memcpy(text, io->warnings.requested, sizeof text);
    io->warnings.requested[0] = '\0';
    pthread_mutex_unlock(&io->warnings.lock);
    if (text[0] != '\0') {
        net_io_warn(io, text);
    }
}

/* ---- Connections that end ---- */

static void net_io_broken_later(struct net_io *io, int descriptor) {
    struct net_broken *broken = &io->broken;
    if (io->options.actor.broken == NULL) {
        return;
    }
    pthread_mutex_lock(&broken->lock);
    if (broken->reported_count < BROKEN_MAX) { /* a connection left out is noticed by its peer's silence */
        broken->reported[broken->reported_count++] = descriptor;
    }
    pthread_mutex_unlock(&broken->lock);
    mailbox_raise(&io->mailbox);
}

void net_broken(struct net *net, actor_id actor, int descriptor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        net_io_broken_later(found->io, descriptor);
    }
    pthread_rwlock_unlock(&net->directory_lock);
}

uint64_t net_drained(struct net *net, actor_id actor, bool look) {
    uint64_t drained = 0;
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        drained = atomic_load_explicit(&found->io->watched.drained, memory_order_relaxed);
    }
    if (found != NULL && look) {
        atomic_store_explicit(&found->io->watched.look, true, memory_order_relaxed);
        mailbox_raise(&found->io->mailbox);
    }
    pthread_rwlock_unlock(&net->directory_lock);
    return drained;
}

static void net_io_tell_broken(struct net_io *io, actor_id actor) {
    if (actor != ACTOR_NONE && !loop_is_stopping(&io->loop)) {
        io->options.actor.broken(io->options.actor.self, actor);
    }
}

/* Notes which actor speaks over the connection of the link's last message. */
static void net_io_note_descriptor(struct net_io *io, const struct link *link, actor_id actor) {
    if (link == io->router && io->options.actor.broken != NULL) {
        net_io_tell_broken(io, ends_note(&io->broken.ends, link->descriptor, actor));
    }
}

static void net_io_take_broken(struct net_io *io) {
    struct net_broken *broken = &io->broken;
    int ended[BROKEN_MAX];
    if (!broken->due) {
        return;
    }
    broken->due = false;
    pthread_mutex_lock(&broken->lock);
    unsigned count = broken->reported_count;
    memcpy(ended, broken->reported, count * sizeof *ended);
    broken->reported_count = 0;
    pthread_mutex_unlock(&broken->lock);
    for (unsigned e = 0; e < count; e++) {
        net_io_tell_broken(io, ends_take(&broken->ends, ended[e]));
    }
}

static void net_io_add(_Atomic uint64_t *counter, uint64_t amount) {
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

/* ---- Descriptors ---- */

static int net_io_wait_on(struct net_io *io, int fd, struct source *source, struct error *error) {
    uint32_t more = source->kind == SOURCE_MAILBOX ? EPOLLET : source->kind == SOURCE_DIAL ? EPOLLOUT : 0;
    struct epoll_event event = {.events = EPOLLIN | more, .data.ptr = source};
    if (epoll_ctl(io->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        return error_set(error, AML_EFAIL, "can't wait on a descriptor: %s", strerror(errno));
    }
    return 0;
}

static void net_io_wait_no_more(struct net_io *io, int fd) {
    epoll_ctl(io->epoll, EPOLL_CTL_DEL, fd, NULL);
}

int net_io_watch(struct net_io *io, int fd, void (*ready)(void *context), void *context) {
    struct watch *free_watch = NULL;
    for (size_t i = 0; i < NET_WATCHES_MAX; i++) {
        struct watch *watch = &io->watches[i];
        if (watch->ready == NULL) {
            free_watch = free_watch != NULL ? free_watch : watch;
        } else if (watch->fd == fd) {
            watch->ready = ready;
            watch->context = context;
            if (ready == NULL) {
                net_io_wait_no_more(io, fd);
            }
            return 0;
        }
    }
    if (ready == NULL) {
        return 0;
    }
    if (free_watch == NULL) {
        return AML_ELIMIT;
    }
    *free_watch = (struct watch){.source = {SOURCE_WATCH, free_watch}, .fd = fd};
    int result = net_io_wait_on(io, fd, &free_watch->source, NULL);
    if (result == 0) {
        free_watch->ready = ready;
        free_watch->context = context;
    }
    return result;
}

/* ---- Dialing ---- */

static void dial_close(struct net_io *io, struct dial *dial) {
    net_io_wait_no_more(io, dial->fd);
    close(dial->fd);
    dial->fd = -1;
}

/* Returns the place for a further attempt: that of an old one for the same actor, a free one, or the oldest. NULL: an
 * attempt for the actor is under way. */
static struct dial *dial_place(struct net_io *io, actor_id actor, uint64_t now_us) {
    struct dial *place = &io->dials[0];
    for (size_t k = 0; k < DIALS_MAX; k++) {
        struct dial *dial = &io->dials[k];
        if (dial->fd >= 0 && dial->actor == actor) {
            return now_us >= dial->began_us + DIAL_OLD_US ? dial : NULL;
        }
        place = place->fd >= 0 && (dial->fd < 0 || dial->began_us < place->began_us) ? dial : place;
    }
    return place;
}

static void net_io_dial(struct io *base, actor_id actor, const char *endpoint) {
    struct net_io *io = (struct net_io *)base;
    if (io->dials == NULL) {
        io->dials = memory_zeroed(DIALS_MAX, sizeof *io->dials);
        for (size_t k = 0; k < DIALS_MAX; k++) {
            io->dials[k].fd = -1;
        }
    }
    uint64_t now_us = monotonic_us();
    struct dial *dial = dial_place(io, actor, now_us);
    if (dial == NULL) {
        return;
    }
    if (dial->fd >= 0) {
        dial_close(io, dial);
    }
    bool refused;
    int fd = dial_begin(endpoint, &refused);
    if (fd < 0) {
        return;
    }
    *dial =
        (struct dial){.source = {SOURCE_DIAL, dial}, .fd = fd, .refused = refused, .actor = actor, .began_us = now_us};
    if (net_io_wait_on(io, fd, &dial->source, NULL) != 0) {
        close(fd);
        dial->fd = -1;
    }
}

static void net_io_dialed(struct net_io *io, struct dial *dial) {
    enum dial_result result = dial->refused ? DIAL_REFUSED : dial_end(dial->fd);
    dial_close(io, dial);
    if (result != DIAL_UNKNOWN && io->options.actor.dialed != NULL) {
        io->options.actor.dialed(io->options.actor.self, dial->actor, dial->began_us, result == DIAL_LISTENS);
    }
}

static void net_io_take_dials(struct net_io *io) {
    if (!io->dials_due) {
        return;
    }
    io->dials_due = false;
    for (size_t k = 0; k < DIALS_MAX && !loop_is_stopping(&io->loop); k++) {
        if (io->dials[k].fd >= 0 && io->dials[k].ready) {
            net_io_dialed(io, &io->dials[k]);
        }
    }
}

/* ---- Links ---- */

static void net_io_activate(struct net_io *io, struct link *link) {
    if (!link->active && !link->retired) {
        link->active = true;
        io->active[io->active_count++] = link;
    }
}

/* Makes room for one more link in every list. */
static void net_io_reserve(struct net_io *io) {
    size_t links = io->peer_count + io->retired_count + 2; /* the router and the new one */
    if (links > io->link_capacity) {
        io->link_capacity = 2 * links;
        io->peers = memory_resized(io->peers, io->link_capacity, sizeof *io->peers);
        io->active = memory_resized(io->active, io->link_capacity, sizeof *io->active);
        io->retired = memory_resized(io->retired, io->link_capacity, sizeof *io->retired);
    }
}

static int net_io_attach(struct net_io *io, struct link *link, struct error *error) {
    int result = net_io_wait_on(io, link_descriptor(link->socket), &link->source, error);
    if (result == 0 && link->monitor != NULL) {
        result = net_io_wait_on(io, link_descriptor(link->monitor), &link->source, error);
    }
    net_io_activate(io, link); /* a ZeroMQ socket's descriptor signals nothing before the first receive */
    return result;
}

static void net_io_detach(struct net_io *io, const struct link *link) {
    net_io_wait_no_more(io, link_descriptor(link->socket));
    net_io_wait_no_more(io, link_descriptor(link->monitor));
}

static void net_io_set_stopped(struct net_io *io, struct link *link, uint64_t stopped_us) {
    io->stopped_count += (stopped_us != 0) - (size_t)(link->stopped_us != 0);
    link->stopped_us = stopped_us;
}

/* Returns the index of the first peer whose actor is not below `actor`. */
static size_t net_io_place(const struct net_io *io, actor_id actor) {
    size_t low = 0;
    size_t high = io->peer_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (io->peers[middle]->peer < actor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct link *net_io_find(const struct net_io *io, actor_id actor) {
    size_t place = net_io_place(io, actor);
    return place < io->peer_count && io->peers[place]->peer == actor ? io->peers[place] : NULL;
}

/* Retires a link, which is closed only at the turn's end, as this may run in a callback of the link. */
static void net_io_retire(struct net_io *io, struct link *link) {
    size_t place = net_io_place(io, link->peer);
    io->peer_count--;
    memmove(&io->peers[place], &io->peers[place + 1], (io->peer_count - place) * sizeof io->peers[0]);
    net_io_set_stopped(io, link, 0);
    if (link->socket != NULL) {
        net_io_detach(io, link);
    }
    link->retired = true;
    io->retired[io->retired_count++] = link;
}

int net_io_connect(struct net_io *io, actor_id actor, const char *endpoint, struct error *error) {
    struct link *link = net_io_find(io, actor);
    if (actor == ACTOR_NONE || (link != NULL && endpoint != NULL && strcmp(link->endpoint, endpoint) == 0)) {
        return 0;
    }
    struct link *fresh = NULL;
    if (endpoint != NULL && !net_is_local(io->net, actor)) {
        if (link == NULL && io->peer_count == NET_PEERS_MAX) {
            return error_set(error, AML_ELIMIT, "more than %d peers", NET_PEERS_MAX);
        }
        int result = link_open(&fresh, io->net, &io->options, actor, endpoint, error);
        if (result != 0) {
            return result;
        }
    }
    if (link != NULL) {
        net_io_retire(io, link);
    }
    if (fresh == NULL) {
        return 0;
    }
    net_io_reserve(io);
    size_t place = net_io_place(io, actor);
    memmove(&io->peers[place + 1], &io->peers[place], (io->peer_count - place) * sizeof io->peers[0]);
    io->peers[place] = fresh;
    io->peer_count++;
    return 0;
}

/* Opens a link's socket, which connects by itself. After a failure it is tried again after a while. */
static void net_io_open_socket(struct net_io *io, struct link *link, uint64_t now_us) {
    struct error error = {0};
    if (link_open_socket(link, io->net, &io->options, &error) == 0 && net_io_attach(io, link, &error) == 0) {
        net_io_set_stopped(io, link, 0);
    } else {
        net_io_set_stopped(io, link, now_us);
        net_io_warn(io, error.text);
    }
}

static void net_io_forget_active(struct net_io *io, size_t index) {
    io->active[index]->active = false;
    io->active[index] = io->active[--io->active_count];
}

static void net_io_close_retired(struct net_io *io) {
    if (io->retired_count == 0) {
        return;
    }
    for (size_t i = io->active_count; i-- > 0;) {
        if (io->active[i]->retired) {
            net_io_forget_active(io, i);
        }
    }
    while (io->retired_count > 0) {
        link_close(io->retired[--io->retired_count]);
    }
}

/* Opens the sockets of stopped links anew. libzmq gives a connection up for good after a refused handshake or a
 * malformed frame, but another process that fits may take the peer's place. */
static void net_io_revive_stopped(struct net_io *io, uint64_t now_us) {
    for (size_t i = 0; io->stopped_count > 0 && i < io->peer_count; i++) {
        struct link *link = io->peers[i];
        if (link->stopped_us == 0 || now_us < link->stopped_us + NET_RECONNECT_MAX_MS * UINT64_C(1000)) {
            continue;
        }
        if (link->socket != NULL) {
            net_io_detach(io, link);
            link_close_socket(link);
        }
        net_io_open_socket(io, link, now_us);
    }
}

/* ---- Events of monitors ---- */

static void net_io_refused(struct net_io *io, struct link *link, const char *why) {
    if (link->refused) {
        return;
    }
    link->refused = true;
    if (io->options.refused != NULL) {
        io->options.refused(io->options.actor.self, link->endpoint, why);
    } else {
        char text[ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s: %s", link->endpoint, why);
        net_io_warn(io, text);
    }
}

/* Describes a refusal for which the peer gives no reason. Without a key the peer may be no peer at all, or it requires
 * a key and hung up first. */
static const char *refusal(const struct net *net) {
    return net->secure ? "the peer refused the handshake: is it the same --key?"
                       : "the peer refused the handshake, or hung up: is the address right, and does the peer expect a "
                         "--key?";
}

/* Handles an event of a DEALER. For a failed handshake libzmq 4.3.4 reports ZMQ_EVENT_HANDSHAKE_FAILED_...
 *   when the server key given here is not the listener's:  PROTOCOL (cryptographic) at the listener; NO_DETAIL, again
 *                                                          and again, here
 *   when the listener does not admit our key:              AUTH on both sides
 *   when only one side has a key:                          PROTOCOL (mechanism mismatch) on both sides */
static void net_io_peer_event(struct net_io *io, struct link *link, int event, uint32_t value) {
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        link->state = LINK_UP;
        link->was_up = true;
        link->handshakes_failed = 0;
        link->refused = false;
        net_io_set_stopped(io, link, 0);
        if (io->options.connected != NULL) {
            io->options.connected(io->options.actor.self, link->peer);
        }
        break;
    case ZMQ_EVENT_DISCONNECTED:
        link->state = LINK_DOWN;
        net_io_set_stopped(io, link, io->io.now_us(&io->io));
        if (io->options.actor.broken != NULL) {
            io->options.actor.broken(io->options.actor.self, link->peer);
        }
        break;
    case ZMQ_EVENT_CONNECT_RETRIED:
        link->state = LINK_DOWN;
        net_io_set_stopped(io, link, 0);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        net_io_refused(io, link, refusal(io->net));
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        net_io_refused(io, link,
                       value != ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
                           ? "the peer doesn't speak this protocol: is it the right address?"
                       : io->net->secure ? "the peer refused the handshake: it runs without a --key"
                                         : "the peer refused the handshake: it runs with a --key, give the same");
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        if (value == EAGAIN) { /* the peer was silent for NET_HANDSHAKE_MS: it is stopped, or very busy */
            break;
        }
        if (++link->handshakes_failed == HANDSHAKES_FAILED_MAX && !link->was_up) {
            net_io_refused(io, link, refusal(io->net));
        }
        break;
    default:
        break;
    }
}

/* Handles the monitor's events. Returns false when none are left. */
static bool net_io_take_events(struct net_io *io, struct link *link) {
    while (link->monitor != NULL && !loop_is_stopping(&io->loop) && !link->retired) {
        uint32_t value;
        int event = monitor_next_event(link->monitor, &value);
        if (event == 0) {
            return false;
        }
        net_io_peer_event(io, link, event, value);
    }
    return link->monitor != NULL;
}

/* ---- The io interface ---- */

static uint64_t net_io_now_us(struct io *io) {
    (void)io;
    return monotonic_us();
}

static uint64_t net_io_random(struct io *base) {
    struct net_io *io = (struct net_io *)base;
    io->random_state += 0x9E3779B97F4A7C15U;
    return hash_mix(io->random_state); /* splitmix64 */
}

static void net_io_set_timer(struct io *base, uint64_t at_us) {
    ((struct net_io *)base)->timer_us = at_us;
}

/* Sends over TCP. Returns the bytes sent, or -1. */
static int64_t net_io_send_remote(struct net_io *io, actor_id to, const struct message *message) {
    struct link *link = net_io_find(io, to);
    if (link == NULL || link->state == LINK_DOWN) {
        link = io->router; /* perhaps the peer has connected to us */
    } else if (link->socket == NULL && link->stopped_us == 0) {
        net_io_open_socket(io, link, io->io.now_us(&io->io));
    }
    if (link == NULL || link->socket == NULL || to == ACTOR_NONE) {
        return -1;
    }
    int64_t bytes = link_send(link, to, message);
    net_io_activate(io, link); /* sending may have consumed the descriptor's edge */
    return bytes;
}

static void net_io_receive(struct net_io *io, actor_id from, struct message *message) {
    io->options.actor.receive(io->options.actor.self, from, message);
    message_close(message);
}

static void net_io_forget_sleepers(struct net_io *io) {
    io->sleepers.count = io->sleepers.messages = 0;
    io->sleepers.bytes = 0;
}

/* ---- Borrowing a loop (loop.h) ---- */

/* Lends the loop to the calling thread (loop.h). That needs a sleeping owner that was not woken for the mailbox's first
 * message, and the message must be of the type `lent_for` (net_io_options). */
static bool net_io_lend(struct net_io *io) {
    return io->options.lent_for != 0 && mailbox_unheard(&io->mailbox) == io->options.lent_for && loop_borrow(&io->loop);
}

/* Borrows the actor's loop, as net_io_lend does, if the actor is in this process. Returns its io, or NULL. */
static struct net_io *net_borrow(struct net *net, actor_id actor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    struct net_io *io = found != NULL && net_io_lend(found->io) ? found->io : NULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return io;
}

/* Gives the loop back to its owner, and wakes the owner if work is left. */
static void net_io_give_back(struct net_io *io) {
    if (io->mailbox_active || io->active_count > 0 || io->retired_count > 0 || io->stopped_count > 0 ||
        io->sleepers.count > 0 || loop_is_stopping(&io->loop) || loop_oversleeps(&io->loop, io->timer_us)) {
        mailbox_raise(&io->mailbox);
    } else {
        mailbox_wake(&io->mailbox);
    }
    loop_give_back(&io->loop);
}

/* Receives the messages for which a loop is lent, and gives the loop back. `borrower` takes the answers without being
 * woken for them. */
static void net_io_receive_lent(struct net_io *io, struct net_io *borrower) {
    struct message message;
    actor_id from;
    while (!loop_is_stopping(&io->loop) && mailbox_unheard(&io->mailbox) == io->options.lent_for &&
           mailbox_take(&io->mailbox, &from, &message)) {
        net_io_receive(io, from, &message);
    }
    for (unsigned s = 0; s < io->sleepers.count; s++) {
        if (io->sleepers.actors[s] == borrower->options.self) {
            borrower->mailbox_active = true;
        } else {
            net_wake(io->net, io->sleepers.actors[s]);
        }
    }
    net_io_forget_sleepers(io);
    net_io_give_back(io);
}

/* Wakes the actors to which messages were delivered. An actor that lends its loop is not woken for fewer messages than
 * SLEEPERS_MESSAGES with fewer bytes than SLEEPERS_BYTES: this thread receives them in the actor's place. */
static void net_io_wake(struct net_io *io) {
    bool light = io->sleepers.messages < SLEEPERS_MESSAGES && io->sleepers.bytes < SLEEPERS_BYTES;
    unsigned count = io->sleepers.count;
    actor_id sleepers[SLEEPERS_MAX];
    memcpy(sleepers, io->sleepers.actors, count * sizeof *sleepers);
    net_io_forget_sleepers(io);
    for (unsigned s = 0; s < count; s++) {
        struct net_io *lent = light && loop_is_running(&io->loop) ? net_borrow(io->net, sleepers[s]) : NULL;
        if (lent != NULL) {
            net_io_receive_lent(lent, io);
        } else {
            net_wake(io->net, sleepers[s]);
        }
    }
}

/* Notes that a message of so many bytes was delivered to `actor`, which is woken at the turn's end at the latest. */
static void net_io_delivered(struct net_io *io, actor_id actor, size_t bytes) {
    unsigned s = 0;
    while (s < io->sleepers.count && io->sleepers.actors[s] != actor) {
        s++;
    }
    if (s == io->sleepers.count) {
        io->sleepers.actors[io->sleepers.count++] = actor;
    }
    io->sleepers.messages++;
    io->sleepers.bytes += bytes;
    if (!loop_is_running(&io->loop) || io->sleepers.count == SLEEPERS_MAX ||
        io->sleepers.messages >= SLEEPERS_MESSAGES || io->sleepers.bytes >= SLEEPERS_BYTES) {
        net_io_wake(io);
    }
}

static void net_io_send(struct io *base, actor_id to, struct message *message) {
    struct net_io *io = (struct net_io *)base;
    size_t payload = message_frame_bytes(message); /* its frames may be gone afterwards */
    enum net_delivery delivery = net_deliver(io->net, to, io->options.self, message);
    if (delivery == NET_DELIVERED) {
        net_io_delivered(io, to, payload);
        message->frame_count = 0; /* the frames have gone with the message */
        return;
    }
    int64_t bytes = delivery == NET_NOT_HERE ? net_io_send_remote(io, to, message) : -1;
    if (bytes < 0) {
        net_io_add(&io->dropped, 1);
    } else {
        net_io_add(&io->bytes_sent, (uint64_t)bytes);
    }
    message_close(message);
}

static void net_io_connect_or_warn(struct io *base, actor_id actor, const char *endpoint) {
    struct net_io *io = (struct net_io *)base;
    struct error error = {0};
    if (net_io_connect(io, actor, endpoint, &error) != 0) {
        net_io_warn(io, error.text);
    }
}

static void net_io_admit(struct io *base, const struct wire_node *nodes, size_t count) {
    struct net *net = ((struct net_io *)base)->net;
    if (net->secure) {
        net_set_nodes(net, nodes, count);
        door_admit(net->door);
    }
}

static uint64_t net_io_token_of(struct io *base, actor_id actor) {
    const struct net_io *io = (const struct net_io *)base;
    return io->router != NULL ? callers_token(io->router->callers, actor) : 0;
}

static void net_io_revoke(struct io *base, const uint64_t *serials, size_t count) {
    const struct net_io *io = (const struct net_io *)base;
    net_set_revoked(io->net, serials, count);
    if (io->router != NULL) {
        callers_cut_revoked(io->router->callers);
    }
}

/* ---- The loop ---- */

static void net_io_run_timer(struct net_io *io) {
    if (io->timer_us != 0 && !loop_is_stopping(&io->loop) && monotonic_us() >= io->timer_us) {
        io->timer_us = 0;
        io->options.actor.timer(io->options.actor.self);
    }
}

static void net_io_take_mail(struct net_io *io) {
    struct message message;
    actor_id from;
    for (int i = 0; i < TURN_MESSAGES && io->mailbox_active && !loop_is_stopping(&io->loop); i++) {
        if (mailbox_take(&io->mailbox, &from, &message)) {
            net_io_receive(io, from, &message);
        } else {
            io->mailbox_active = false;
        }
    }
}

/* Receives up to TURN_MESSAGES messages. Returns false when none are left. */
static bool net_io_take_messages(struct net_io *io, struct link *link) {
    for (int i = 0; i < TURN_MESSAGES && !loop_is_stopping(&io->loop) && !link->retired; i++) {
        struct message message;
        struct error error = {0};
        actor_id from;
        uint64_t bytes;
        enum link_result result = link_receive(link, &from, &message, &bytes, &error);
        if (result == LINK_EMPTY) {
            net_io_add(&io->watched.drained, link == io->router ? 1 : 0);
            return false;
        }
        door_heard(io->net->door, link->descriptor);
        net_io_add(&io->bytes_received, bytes);
        if (result == LINK_BAD) {
            if (error.text[0] != '\0') {
                net_io_warn(io, error.text);
            }
            continue;
        }
        if (link->state != LINK_UP) {
            link->state = LINK_UP; /* the monitor reports it too, perhaps after the answer was sent */
        }
        net_io_note_descriptor(io, link, from);
        net_io_receive(io, from, &message);
    }
    return true;
}

static void net_io_take_active(struct net_io *io) {
    /* Backwards: links that become active meanwhile wait for the next turn. */
    for (size_t i = io->active_count; i-- > 0 && !loop_is_stopping(&io->loop);) {
        struct link *link = io->active[i];
        link->active = false;
        io->active[i] = io->active[--io->active_count];
        if (link->socket != NULL) {
            bool more_events = net_io_take_events(io, link);
            bool more_messages = net_io_take_messages(io, link);
            if (more_events || more_messages) {
                net_io_activate(io, link);
            }
        }
        net_io_run_timer(io);
    }
}

/* Returns the wait in milliseconds, rounded up, so that a timer is never early. */
static int net_io_wait_ms(const struct net_io *io) {
    if (io->mailbox_active || io->active_count > 0) {
        return 0;
    }
    uint64_t wait_ms = io->stopped_count > 0 ? NET_RECONNECT_MAX_MS : INT_MAX;
    if (io->timer_us != 0) {
        uint64_t now_us = monotonic_us();
        uint64_t timer_ms = now_us >= io->timer_us ? 0 : (io->timer_us - now_us) / 1000 + 1;
        wait_ms = timer_ms < wait_ms ? timer_ms : wait_ms;
    }
    return wait_ms < INT_MAX ? (int)wait_ms : io->timer_us != 0 ? INT_MAX : -1;
}

static void net_io_ready(struct net_io *io, const struct source *source) {
    struct watch *watch = source->owner;
    struct dial *dial = source->owner;
    switch (source->kind) {
    case SOURCE_MAILBOX:
        io->mailbox_active = io->broken.due = true;
        net_io_warn_requested(io);
        if (io->router != NULL && atomic_exchange_explicit(&io->watched.look, false, memory_order_relaxed)) {
            net_io_activate(io, io->router);
        }
        break;
    case SOURCE_LINK:
        net_io_activate(io, source->owner);
        break;
    case SOURCE_WATCH:
        if (watch->ready != NULL && !loop_is_stopping(&io->loop)) {
            watch->ready(watch->context);
        }
        break;
    case SOURCE_DIAL:
        dial->ready = io->dials_due = true;
        break;
    }
}

static void net_io_turn(struct net_io *io) {
    net_io_run_timer(io);
    net_io_take_mail(io);
    net_io_take_active(io);
    net_io_take_dials(io);
    net_io_take_broken(io);
}

bool net_io_borrow(struct net_io *io, void (*ready)(void *context), bool (*enough)(const void *context),
                   void *context) {
    if (!loop_borrow(&io->loop)) {
        return false;
    }
    ready(context);
    for (int turn = 0; turn < BORROWED_TURNS && !loop_is_stopping(&io->loop) && !enough(context) &&
                       (io->mailbox_active || io->active_count > 0 || io->sleepers.count > 0);
         turn++) {
        net_io_wake(io);
        net_io_turn(io);
    }
    net_io_give_back(io);
    return true;
}

int net_io_run(struct net_io *io, struct error *error) {
    struct epoll_event events[TURN_EVENTS];
    int result = 0;
    loop_begin(&io->loop);
    while (!loop_is_stopping(&io->loop)) {
        net_io_wake(io);
        int wait_ms = net_io_wait_ms(io);
        loop_sleep(&io->loop, io->timer_us);
        int count = epoll_wait(io->epoll, events, TURN_EVENTS, wait_ms);
        int code = errno;
        loop_resume(&io->loop);
        if (count < 0 && code != EINTR) {
            result = error_set(error, AML_EFAIL, "can't wait for messages: %s", strerror(code));
            break;
        }
        for (int i = 0; i < count; i++) {
            net_io_ready(io, events[i].data.ptr);
        }
        net_io_turn(io);
        net_io_close_retired(io);
        if (io->stopped_count > 0) {
            net_io_revive_stopped(io, monotonic_us());
        }
    }
    loop_end(&io->loop);
    net_io_wake(io);
    return result;
}

void net_io_stop(struct net_io *io) {
    loop_stop(&io->loop);
}

/* ---- Life cycle ---- */

static int net_io_open_parts(struct net_io *io, struct error *error) {
    io->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (io->epoll < 0) {
        return error_set(error, AML_EFAIL, "can't make an epoll: %s", strerror(errno));
    }
    int result = net_io_wait_on(io, io->mailbox.event_fd, &io->mailbox_source, error);
    if (result == 0 && io->options.bind != NULL) {
        result = link_open(&io->router, io->net, &io->options, ACTOR_NONE, io->options.bind, error);
        if (result == 0) {
            result = net_io_attach(io, io->router, error);
            strcpy(io->endpoint, io->router->endpoint);
        }
    }
    if (result == 0 && io->router != NULL && io->options.advertise != NULL) {
        result = endpoint_advertise(io->endpoint, io->router->endpoint, io->options.advertise, error);
    }
    if (result == 0) {
        result = net_register(io->net, io->options.self, &io->mailbox, io, error);
    }
    return result;
}

static void net_io_close_parts(struct net_io *io) {
    while (io->peer_count > 0) {
        net_io_retire(io, io->peers[io->peer_count - 1]);
    }
    net_io_close_retired(io);
    if (io->router != NULL) {
        link_close(io->router);
    }
    mailbox_close(&io->mailbox);
    loop_close(&io->loop);
    pthread_mutex_destroy(&io->warnings.lock);
    pthread_mutex_destroy(&io->broken.lock);
    for (size_t k = 0; io->dials != NULL && k < DIALS_MAX; k++) {
        if (io->dials[k].fd >= 0) {
            dial_close(io, &io->dials[k]);
        }
    }
    free(io->dials);
    ends_close(&io->broken.ends);
    if (io->epoll >= 0) {
        close(io->epoll);
    }
    free(io->peers);
    free(io->active);
    free(io->retired);
    free(io);
}

int net_io_open(struct net_io **opened, struct net *net, const struct net_io_options *options, struct error *error) {
    *opened = NULL;
    assert(options->self != ACTOR_NONE && options->actor.receive != NULL);
    if (options->message_high_water < 0 || options->message_high_water > NET_HIGH_WATER_MAX) {
        return error_set(error, AML_EINPUT, "a queue of %d messages, expected 1 to %d", options->message_high_water,
                         NET_HIGH_WATER_MAX);
    }
    struct net_io *io = memory_zeroed(1, sizeof *io);
    io->io = (struct io){.now_us = net_io_now_us,
                         .random = net_io_random,
                         .send = net_io_send,
                         .set_timer = net_io_set_timer,
                         .connect = net_io_connect_or_warn,
                         .admit = net_io_admit,
                         .dial = net_io_dial,
                         .token_of = net->secure ? net_io_token_of : NULL,
                         .revoke = net->secure ? net_io_revoke : NULL};
    io->net = net;
    io->options = *options;
    io->epoll = -1;
    loop_open(&io->loop);
    pthread_mutex_init(&io->warnings.lock, NULL);
    pthread_mutex_init(&io->broken.lock, NULL);
    io->mailbox_source = (struct source){.kind = SOURCE_MAILBOX, .owner = io};
    int result = mailbox_open(&io->mailbox, error);
    if (result != 0) {
        free(io);
        return result;
    }
    if (getrandom(&io->random_state, sizeof io->random_state, 0) != sizeof io->random_state) {
        io->random_state = monotonic_us() ^ options->self; /* does not happen: Linux returns 8 bytes whole */
    }
    net_io_reserve(io);
    result = net_io_open_parts(io, error);
    io->options.bind = io->options.advertise = NULL; /* the texts may not outlive this call */
    if (result != 0) {
        net_io_close_parts(io);
        return result;
    }
    *opened = io;
    return 0;
}

void net_io_close(struct net_io *io) {
    if (io == NULL) {
        return;
    }
    net_unregister(io->net, io->options.self);
    net_io_close_parts(io);
}

const char *net_io_endpoint(const struct net_io *io) {
    return io->endpoint;
}

struct io *net_io_of(struct net_io *io) {
    return &io->io;
}

void net_io_count(const struct net_io *io, uint64_t *bytes_sent, uint64_t *bytes_received, uint64_t *dropped) {
    if (bytes_sent != NULL) {
        *bytes_sent = atomic_load_explicit(&io->bytes_sent, memory_order_relaxed);
    }
    if (bytes_received != NULL) {
        *bytes_received = atomic_load_explicit(&io->bytes_received, memory_order_relaxed);
    }
    if (dropped != NULL) {
        *dropped = atomic_load_explicit(&io->dropped, memory_order_relaxed);
    }
}
