/* What the actors of one process share: the ZeroMQ context, the door (zmq_door.c), and the directory of local
 * mailboxes. See zmq.h. */
#include "agileml/net/zmq.h"

#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* ---- Life cycle ---- */

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
    int result = door_open(&net->door, net, error);
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
    door_close(net->door);
    while (zmq_ctx_term(net->context) != 0 && errno == EINTR) {
    }
    pthread_rwlock_destroy(&net->directory_lock);
    explicit_bzero(&net->key, sizeof net->key);
    free(net);
}

/* ---- The directory ---- */

static struct net_actor *net_find(struct net *net, actor_id actor) {
    for (size_t i = 0; i < net->directory_count; i++) {
        if (net->directory[i].actor == actor) {
            return &net->directory[i];
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
        net->directory[net->directory_count++] = (struct net_actor){actor, mailbox, io};
    }
    pthread_rwlock_unlock(&net->directory_lock);
    return result;
}

void net_unregister(struct net *net, actor_id actor) {
    pthread_rwlock_wrlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        *found = net->directory[--net->directory_count];
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
    struct net_actor *found = net_find(net, to);
    enum net_delivery delivery = found == NULL                                ? NET_NOT_HERE
                                 : mailbox_put(found->mailbox, from, message) ? NET_DELIVERED
                                                                              : NET_FULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return delivery;
}

void net_wake(struct net *net, actor_id actor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        mailbox_wake(found->mailbox);
    }
    pthread_rwlock_unlock(&net->directory_lock);
}

struct net_io *net_borrow(struct net *net, actor_id actor) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    struct net_io *io = found != NULL && net_io_lend(found->io) ? found->io : NULL;
    pthread_rwlock_unlock(&net->directory_lock);
    return io;
}

void net_warn(struct net *net, actor_id actor, const char *text) {
    pthread_rwlock_rdlock(&net->directory_lock);
    struct net_actor *found = net_find(net, actor);
    if (found != NULL) {
        net_io_warn_later(found->io, text);
    }
    pthread_rwlock_unlock(&net->directory_lock);
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
