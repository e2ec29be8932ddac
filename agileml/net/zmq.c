/* What the actors of one process share: the ZeroMQ context, the thread that decides who may connect, and the
 * directory of local mailboxes. See zmq.h. */
#include "agileml/net/zmq.h"

#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <zmq.h>

/* ---- Who may connect: ZeroMQ asks by its Authentication Protocol (RFC 27) ---- */

enum { ZAP_PARTS = 7, ZAP_PART_BYTES = 256 };

struct zap_request {
    unsigned parts; /* received; those beyond ZAP_PARTS are not kept */
    struct {
        size_t size;
        unsigned char bytes[ZAP_PART_BYTES];
    } part[ZAP_PARTS]; /* version, request id, domain, address, identity, mechanism, client's public key */
};

static bool zap_receive(void *socket, struct zap_request *request) {
    int more = 1;
    size_t option_size = sizeof more;
    for (request->parts = 0; more; request->parts++) {
        unsigned char rest[ZAP_PART_BYTES];
        unsigned char *bytes = request->parts < ZAP_PARTS ? request->part[request->parts].bytes : rest;
        int size = zmq_recv(socket, bytes, ZAP_PART_BYTES, 0); /* the size before truncation */
        if (size < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &option_size) != 0) {
            return false;
        }
        if (request->parts < ZAP_PARTS) {
            request->part[request->parts].size = (size_t)size < ZAP_PART_BYTES ? (size_t)size : ZAP_PART_BYTES;
        }
    }
    return true;
}

static bool zap_part_is(const struct zap_request *request, unsigned part, const void *expected, size_t size) {
    return request->part[part].size == size && memcmp(request->part[part].bytes, expected, size) == 0;
}

static void *zap_run(void *context) {
    struct net *net = context;
    struct zap_request request;
    for (;;) {
        if (!zap_receive(net->zap, &request)) {
            if (errno == EINTR) {
                continue;
            }
            break; /* ETERM: the net closes */
        }
        bool admitted = request.parts == ZAP_PARTS && zap_part_is(&request, 5, "CURVE", 5) &&
                        zap_part_is(&request, 6, net->public_key, NET_PUBLIC_KEY_BYTES);
        zmq_send(net->zap, "1.0", 3, ZMQ_SNDMORE);
        zmq_send(net->zap, request.part[1].bytes, request.parts > 1 ? request.part[1].size : 0, ZMQ_SNDMORE);
        zmq_send(net->zap, admitted ? "200" : "400", 3, ZMQ_SNDMORE);
        zmq_send(net->zap, "", 0, ZMQ_SNDMORE); /* status text */
        zmq_send(net->zap, "", 0, ZMQ_SNDMORE); /* user id */
        zmq_send(net->zap, "", 0, 0);           /* metadata */
    }
    zmq_close(net->zap);
    return NULL;
}

/* ---- Life cycle ---- */

/* Every connection takes about five descriptors, and the usual soft limit of 1024 is there for programs that use
 * select. Failing to raise it shows later, when it is reached. */
static void net_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* libzmq starts its threads with the first socket. */
static int net_start_threads(struct net *net, struct error *error) {
    int linger = 0;
    void *socket = zmq_socket(net->context, ZMQ_REP);
    if (socket == NULL) {
        return error_set(error, AML_EFAIL, "can't start ZeroMQ: %s", zmq_strerror(errno));
    }
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (!net->secure) {
        zmq_close(socket);
        return 0;
    }
    int result = 0;
    net->zap = socket;
    if (zmq_bind(socket, "inproc://zeromq.zap.01") != 0) {
        result = error_set(error, AML_EFAIL, "can't start ZeroMQ's authentication: %s", zmq_strerror(errno));
    } else if ((errno = pthread_create(&net->zap_thread, NULL, zap_run, net)) != 0) {
        result = error_set(error, AML_EFAIL, "can't start a thread: %s", strerror(errno));
    }
    if (result != 0) {
        zmq_close(socket);
        net->secure = false; /* there is no thread to join */
    }
    return result;
}

int net_open(struct net **opened, const struct net_options *options, struct error *error) {
    *opened = NULL;
    if (options->io_threads < 0 || options->io_threads > NET_IO_THREADS_MAX) {
        return error_set(error, AML_EINPUT, "%d network threads, expected 0 to %d", options->io_threads,
                         NET_IO_THREADS_MAX);
    }
    struct net *net = memory_zeroed(1, sizeof *net);
    net->insecure = options->insecure;
    if (options->key != NULL) {
        net->secure = true;
        net->key = *options->key;
        if (strnlen(net->key.public_text, NET_KEY_TEXT) != NET_KEY_TEXT - 1 ||
            strnlen(net->key.secret_text, NET_KEY_TEXT) != NET_KEY_TEXT - 1 ||
            zmq_z85_decode(net->public_key, net->key.public_text) == NULL) {
            explicit_bzero(net, sizeof *net);
            free(net);
            return error_set(error, AML_EINPUT, "the job's key is malformed (see 'proteus keygen')");
        }
    }
    net_raise_descriptor_limit();
    net->context = zmq_ctx_new();
    if (net->context == NULL) {
        free(net);
        return error_set(error, AML_EFAIL, "can't start ZeroMQ: %s", zmq_strerror(errno));
    }
    pthread_rwlock_init(&net->directory_lock, NULL);
    zmq_ctx_set(net->context, ZMQ_IO_THREADS, options->io_threads > 0 ? options->io_threads : 1);
    zmq_ctx_set(net->context, ZMQ_MAX_SOCKETS, zmq_ctx_get(net->context, ZMQ_SOCKET_LIMIT));
    /* New threads inherit the mask: signals stay with the threads that wait for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = net_start_threads(net, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        net_close(net);
        return result;
    }
    *opened = net;
    return 0;
}

void net_close(struct net *net) {
    if (net == NULL) {
        return;
    }
    assert(net->directory_count == 0);
    if (net->secure) {
        zmq_ctx_shutdown(net->context); /* ends the ZAP thread; closed sockets still linger */
        pthread_join(net->zap_thread, NULL);
    }
    while (zmq_ctx_term(net->context) != 0 && errno == EINTR) {
    }
    pthread_rwlock_destroy(&net->directory_lock);
    explicit_bzero(&net->key, sizeof net->key);
    free(net);
}

/* ---- The directory ---- */

static struct mailbox *net_find(const struct net *net, actor_id actor) {
    for (size_t i = 0; i < net->directory_count; i++) {
        if (net->directory[i].actor == actor) {
            return net->directory[i].mailbox;
        }
    }
    return NULL;
}

int net_register(struct net *net, actor_id actor, struct mailbox *mailbox, struct net_io *io, struct error *error) {
    int result = 0;
    pthread_rwlock_wrlock(&net->directory_lock);
    if (net_find(net, actor) != NULL) {
        result = error_set(error, AML_EINPUT, "actor %llx is in this process already", (unsigned long long)actor);
    } else if (net->directory_count == NET_ACTORS_MAX) {
        result = error_set(error, AML_ELIMIT, "more than %d actors in one process", NET_ACTORS_MAX);
    } else {
        net->directory[net->directory_count].actor = actor;
        net->directory[net->directory_count].mailbox = mailbox;
        net->directory[net->directory_count].io = io;
        net->directory_count++;
    }
    pthread_rwlock_unlock(&net->directory_lock);
    return result;
}

void net_unregister(struct net *net, actor_id actor) {
    pthread_rwlock_wrlock(&net->directory_lock);
    for (size_t i = 0; i < net->directory_count; i++) {
        if (net->directory[i].actor == actor) {
            net->directory[i] = net->directory[--net->directory_count];
            break;
        }
    }
    pthread_rwlock_unlock(&net->directory_lock);
}

bool net_is_local(struct net *net, actor_id actor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    bool found = net_find(net, actor) != NULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return found;
}

enum net_delivery net_deliver(struct net *net, actor_id to, actor_id from, const struct message *message) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct mailbox *mailbox = net_find(net, to);
    enum net_delivery delivery = mailbox == NULL                       ? NET_NOT_HERE
                                 : mailbox_put(mailbox, from, message) ? NET_DELIVERED
                                                                       : NET_FULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return delivery;
}

void net_wake(struct net *net, actor_id actor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct mailbox *mailbox = net_find(net, actor);
    if (mailbox != NULL) {
        mailbox_wake(mailbox);
    }
    pthread_rwlock_unlock(&net->directory_lock);
}

struct net_io *net_borrow(struct net *net, actor_id actor) {
    struct net_io *io = NULL;
    pthread_rwlock_rdlock(&net->directory_lock);
    for (size_t i = 0; i < net->directory_count && io == NULL; i++) {
        io = net->directory[i].actor == actor ? net->directory[i].io : NULL;
    }
    io = io != NULL && net_io_lend(io) ? io : NULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return io;
}

/* ---- Endpoints ---- */

int net_endpoint_check(const struct net *net, struct endpoint *endpoint, const char *text, bool to_bind,
                       struct error *error) {
    int result = endpoint_parse(endpoint, text, to_bind, error);
    if (result == 0 && !endpoint->loopback && !net->secure && !net->insecure) {
        result = error_set(error, AML_EINPUT,
                           "%s is not a loopback address: give --key FILE (see 'proteus keygen') or --insecure", text);
    }
    return result;
}
