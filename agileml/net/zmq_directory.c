/* What a process knows of actors: the mailboxes of its own actors, and the nodes of the job with their keys. See
 * zmq_private.h. */
#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- The directory ---- */

struct net_actor *net_find(struct net *net, actor_id actor) {
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

/* ---- The nodes of the job ---- */

void net_set_nodes(struct net *net, const struct wire_node *nodes, size_t count) {
    struct admitted *admitted = memory_zeroed(count + 1, sizeof *admitted);
    for (size_t n = 0; n < count; n++) {
        admitted[n].node = actor_node(nodes[n].actor);
        memcpy(admitted[n].key, nodes[n].key, NET_KEY_TEXT - 1);
    }
    qsort(admitted, count, sizeof *admitted, actor_compare);
    pthread_rwlock_wrlock(&net->nodes_lock);
    struct admitted *old = net->nodes;
    net->nodes = admitted;
    net->node_count = count;
    net->nodes_version++;
    pthread_rwlock_unlock(&net->nodes_lock);
    free(old);
}

bool net_key_of(struct net *net, actor_id actor, char key[NET_KEY_TEXT]) {
    struct admitted wanted = {.node = actor_node(actor)};
    pthread_rwlock_rdlock(&net->nodes_lock);
    const struct admitted *found =
        net->node_count == 0 ? NULL : bsearch(&wanted, net->nodes, net->node_count, sizeof wanted, actor_compare);
    memcpy(key, found != NULL ? found->key : net->key.public_text, NET_KEY_TEXT);
    pthread_rwlock_unlock(&net->nodes_lock);
    return found != NULL;
}

bool net_key_admitted(struct net *net, const char *key) {
    bool found = false;
    pthread_rwlock_rdlock(&net->nodes_lock);
    for (size_t n = 0; n < net->node_count && !found; n++) {
        found = strcmp(net->nodes[n].key, key) == 0;
    }
    pthread_rwlock_unlock(&net->nodes_lock);
    return found;
}

/* ---- Revoked tokens ---- */

void net_set_revoked(struct net *net, const uint64_t *serials, size_t count) {
    pthread_rwlock_wrlock(&net->nodes_lock);
    net->revoked = memory_resized(net->revoked, count + 1, sizeof *net->revoked);
    if (count > 0) {
        memcpy(net->revoked, serials, count * sizeof *serials);
    }
    net->revoked_count = count;
    pthread_rwlock_unlock(&net->nodes_lock);
}

bool net_is_revoked(struct net *net, uint64_t serial) {
    bool found = false;
    pthread_rwlock_rdlock(&net->nodes_lock);
    for (size_t r = 0; r < net->revoked_count && !found; r++) {
        found = net->revoked[r] == serial;
    }
    pthread_rwlock_unlock(&net->nodes_lock);
    return found;
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
