/* The life of what the actors of one process share: the ZeroMQ context, the process's key, the door (zmq_door.c), and
 * the directory (zmq_directory.c). See zmq.h. */
#include "agileml/net/zmq.h"

#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>
#include <zmq.h>

/* ---- Life cycle ---- */

/* An environment variable: the descriptor from which net_inherit_key reads the key pair. */
#define KEY_DESCRIPTOR "AGILEML_KEY_DESCRIPTOR"

void net_leave_key(const struct net *net) {
    char number[16];
    int fd = net->secure ? memfd_create("agileml-key", 0) : -1;
    if (fd < 0) {
        return;
    }
    snprintf(number, sizeof number, "%d", fd);
    if (write(fd, net->own_public, NET_KEY_TEXT) != NET_KEY_TEXT ||
        write(fd, net->own_secret, NET_KEY_TEXT) != NET_KEY_TEXT || setenv(KEY_DESCRIPTOR, number, 1) != 0) {
        close(fd);
    }
}

/* Takes the key pair that this process's earlier program has left (net_leave_key). Returns false if it has left
 * none. */
static bool net_inherit_key(struct net *net) {
    const char *number = getenv(KEY_DESCRIPTOR);
    char derived[NET_KEY_TEXT];
    if (number == NULL) {
        return false;
    }
    int fd = atoi(number);
    bool good = pread(fd, net->own_public, NET_KEY_TEXT, 0) == NET_KEY_TEXT &&
                pread(fd, net->own_secret, NET_KEY_TEXT, NET_KEY_TEXT) == NET_KEY_TEXT &&
                net->own_public[NET_KEY_TEXT - 1] == '\0' && net->own_secret[NET_KEY_TEXT - 1] == '\0' &&
                zmq_curve_public(derived, net->own_secret) == 0 && strcmp(derived, net->own_public) == 0;
    unsetenv(KEY_DESCRIPTOR);
    if (good) {
        close(fd);
    }
    return good;
}

/* Takes the job's key or a token. The process's own key pair is the job's at the controller; elsewhere it is the pair
 * that net_leave_key has left, or a new one. */
static int net_take_key(struct net *net, const struct net_key *key, struct error *error) {
    unsigned char decoded[NET_KEY_TEXT];
    bool job = !net_key_is_token(key);
    if (strnlen(key->public_text, NET_KEY_TEXT) != NET_KEY_TEXT - 1 ||
        zmq_z85_decode(decoded, key->public_text) == NULL ||
        (job && strnlen(key->secret_text, NET_KEY_TEXT) != NET_KEY_TEXT - 1)) {
        return error_set(error, AML_EINPUT, "the job's key is malformed (see 'proteus keygen')");
    }
    if (net->controller && !job) {
        return error_set(error, AML_EINPUT, "the controller needs the job's key: a token was given");
    }
    net->secure = true;
    net->key = *key;
    if (net->controller) {
        memcpy(net->own_public, key->public_text, NET_KEY_TEXT);
        memcpy(net->own_secret, key->secret_text, NET_KEY_TEXT);
    } else if (!net_inherit_key(net) && zmq_curve_keypair(net->own_public, net->own_secret) != 0) {
        return error_set(error, AML_EFAIL, "can't make a key: %s", zmq_strerror(errno));
    }
    return 0;
}

static void net_free(struct net *net) {
    free(net->nodes);
    free(net->revoked);
    explicit_bzero(net, sizeof *net);
    free(net);
}

int net_open(struct net **opened, const struct net_options *options, struct error *error) {
    *opened = NULL;
    if (options->io_threads < 0 || options->io_threads > NET_IO_THREADS_MAX) {
        return error_set(error, AML_EINPUT, "%d network threads, expected 0 to %d", options->io_threads,
                         NET_IO_THREADS_MAX);
    }
    struct net *net = memory_zeroed(1, sizeof *net);
    net->insecure = options->insecure;
    net->controller = options->controller;
    int result = options->key != NULL ? net_take_key(net, options->key, error) : 0;
    if (result != 0) {
        net_free(net);
        return result;
    }
    net->context = zmq_ctx_new();
    if (net->context == NULL) {
        net_free(net);
        return error_set(error, AML_EFAIL, "can't start ZeroMQ: %s", zmq_strerror(errno));
    }
    pthread_rwlock_init(&net->directory_lock, NULL);
    pthread_rwlock_init(&net->nodes_lock, NULL);
    net->io_threads = options->io_threads > 0 ? options->io_threads : 1;
    zmq_ctx_set(net->context, ZMQ_IO_THREADS, net->io_threads + 1);
    zmq_ctx_set(net->context, ZMQ_MAX_SOCKETS, zmq_ctx_get(net->context, ZMQ_SOCKET_LIMIT));
    /* New threads inherit the mask, so that signals reach only the threads that wait for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const struct door_calls calls = {.broken = net_broken, .warn = net_warn, .drained = net_drained};
    result = door_open(&net->door, net, &calls, error);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (result != 0) {
        net_close(net);
        return result;
    }
    *opened = net;
    return 0;
}

int net_open_by_file(struct net **net, const char *key_path, struct net_options options, struct error *error) {
    struct net_key key;
    if (key_path != NULL) {
        int result = net_key_load(key_path, &key, error);
        if (result != 0) {
            return result;
        }
        options.key = &key;
    }
    int result = net_open(net, &options, error);
    explicit_bzero(&key, sizeof key);
    return result;
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
    pthread_rwlock_destroy(&net->nodes_lock);
    net_free(net);
}

actor_id net_observer_id(void) {
    actor_id actor = 0;
    while (actor_node(actor) == 0) {
        if (getrandom(&actor, sizeof actor, 0) != sizeof actor) {
            actor = (actor_id)getpid() << ACTOR_PART_BITS;
        }
    }
    return actor_of_part(actor, 0);
}

const char *net_public_key(const struct net *net) {
    return net->own_public;
}
