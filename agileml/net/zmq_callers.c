/* Callers: the processes that have connected to a listener of a job with a key, and what each may send. CURVE proves
 * that a caller has the secret of its public key. The list of nodes says for which actors that key may speak. A caller
 * of the controller that is not in the list shows a token, as a part of its name. See zmq_private.h. */
#include "agileml/base/memory.h"
#include "agileml/net/zmq_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLERS_OTHERS_MAX = 1024 /* callers that are not in the list of nodes: operators, observers, new nodes */ };

struct caller {
    actor_id actor;
    char key[NET_KEY_TEXT];
    unsigned roles;    /* enum wire_role */
    unsigned tiers;    /* in which its token lets it join, as in struct net_token_terms */
    uint64_t serial;   /* of its token; 0: it has none */
    bool has_place;    /* is in the job or may join: counts towards the nodes that its token allows */
    uint64_t heard_us; /* when its latest message arrived */
    int descriptor;    /* over which it arrived; -1: not known */
    struct routing routing;
};

struct callers {
    struct net *net;
    uint64_t nodes_version; /* of the list of nodes with which the callers were compared last */
    struct caller *callers; /* ordered by actor */
    size_t count;
    uint64_t full_serial; /* of the last token that was reported to have no place left */
};

/* The silence after which a caller that is not in the list of nodes loses its place. */
static const uint64_t CALLER_PLACE_US = UINT64_C(10000000);

actor_id routing_actor(const struct routing *routing) {
    actor_id actor = ACTOR_NONE;
    if (routing->size >= ROUTING_ACTOR_BYTES && routing->bytes[0] == 'A') {
        memcpy(&actor, routing->bytes + 1, sizeof actor);
    }
    return actor;
}

struct callers *callers_open(struct net *net) {
    struct callers *callers = memory_zeroed(1, sizeof *callers);
    callers->net = net;
    return callers;
}

void callers_close(struct callers *callers) {
    if (callers != NULL) {
        free(callers->callers);
        free(callers);
    }
}

/* Returns the index of the first caller whose actor is not below `actor`. */
static size_t callers_index(const struct callers *callers, actor_id actor) {
    size_t low = 0;
    size_t high = callers->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (callers->callers[middle].actor < actor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct caller *callers_get(const struct callers *callers, actor_id actor) {
    size_t index = callers_index(callers, actor);
    return index < callers->count && callers->callers[index].actor == actor ? &callers->callers[index] : NULL;
}

const struct routing *callers_find(const struct callers *callers, actor_id actor) {
    const struct caller *caller = callers_get(callers, actor);
    return caller != NULL ? &caller->routing : NULL;
}

static bool caller_is_listed(const struct callers *callers, const struct caller *caller) {
    char key[NET_KEY_TEXT];
    return net_key_of(callers->net, caller->actor, key) && strcmp(key, caller->key) == 0;
}

static void callers_remove(struct callers *callers, size_t index) {
    callers->count--;
    memmove(&callers->callers[index], &callers->callers[index + 1],
            (callers->count - index) * sizeof *callers->callers);
}

void callers_cut_revoked(struct callers *callers) {
    for (size_t c = callers->count; c-- > 0;) {
        const struct caller *caller = &callers->callers[c];
        if (caller->serial != 0 && net_is_revoked(callers->net, caller->serial)) {
            door_cut(callers->net->door, caller->descriptor);
            callers_remove(callers, c);
        }
    }
}

uint64_t callers_token(const struct callers *callers, actor_id actor) {
    const struct caller *caller = callers_get(callers, actor);
    return caller != NULL ? caller->serial : 0;
}

/* Forgets the nodes that have left the job, so that their next message is refused. */
static void callers_drop_absent(struct callers *callers) {
    for (size_t c = callers->count; c-- > 0;) {
        if (!caller_is_listed(callers, &callers->callers[c])) {
            callers_remove(callers, c);
        }
    }
}

/* Makes room for one more caller. When too many callers are not in the list of nodes, forgets the one of them that was
 * heard longest ago. */
static void callers_make_room(struct callers *callers) {
    size_t others = 0;
    size_t oldest = 0;
    for (size_t c = 0; c < callers->count; c++) {
        if (!caller_is_listed(callers, &callers->callers[c])) {
            oldest = others == 0 || callers->callers[c].heard_us < callers->callers[oldest].heard_us ? c : oldest;
            others++;
        }
    }
    if (others >= CALLERS_OTHERS_MAX) {
        callers_remove(callers, oldest);
    }
}

static struct caller *callers_put(struct callers *callers, const struct caller *new) {
    struct caller *caller = callers_get(callers, new->actor);
    if (caller == NULL) {
        callers_make_room(callers);
        size_t index = callers_index(callers, new->actor);
        callers->callers = memory_resized(callers->callers, callers->count + 1, sizeof *callers->callers);
        caller = &callers->callers[index];
        memmove(caller + 1, caller, (callers->count - index) * sizeof *caller);
        callers->count++;
    }
    *caller = *new;
    return caller;
}

/* ---- Tokens ---- */

/* Returns the token in a name, or NULL when the name has none. */
static const unsigned char *routing_token(const struct routing *routing) {
    return routing->size == ROUTING_MAX ? routing->bytes + ROUTING_MAX - NET_TOKEN_BYTES : NULL;
}

/* Whether a node with this key was let in before, perhaps under another actor's id. */
static bool callers_know_node(const struct callers *callers, const char *key) {
    for (size_t c = 0; c < callers->count; c++) {
        if (callers->callers[c].has_place && strcmp(callers->callers[c].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks whether a genuine token admits a process with this key. Returns 0, or AML_EINPUT with the reason. */
static int token_check_time(const struct callers *callers, const struct net_token_terms *terms, const char *key,
                            struct error *error) {
    bool over = terms->expires != 0 && (uint64_t)time(NULL) >= terms->expires;
    if (over && !callers_know_node(callers, key)) {
        char title[NET_TOKEN_TITLE_MAX];
        net_token_title(terms, title);
        return error_set(error, AML_EINPUT, "its --key, a token %s, has expired", title);
    }
    return 0;
}

static int token_check_revoked(const struct callers *callers, const struct net_token_terms *terms,
                               struct error *error) {
    if (terms->serial != 0 && net_is_revoked(callers->net, terms->serial)) {
        char title[NET_TOKEN_TITLE_MAX];
        net_token_title(terms, title);
        return error_set(error, AML_EINPUT, "its --key, a token %s, was revoked", title);
    }
    return 0;
}

/* Whether the caller may join: fewer than `nodes` others have a place by its token. 0: any number may. */
static bool callers_have_place(const struct callers *callers, const struct caller *caller, uint32_t nodes,
                               uint64_t now_us) {
    uint32_t taken = 0;
    for (size_t c = 0; c < callers->count && nodes != 0; c++) {
        const struct caller *other = &callers->callers[c];
        taken += other->has_place && other->serial == caller->serial && strcmp(other->key, caller->key) != 0 &&
                         (now_us - other->heard_us < CALLER_PLACE_US || caller_is_listed(callers, other))
                     ? 1
                     : 0;
    }
    return nodes == 0 || taken < nodes;
}

/* ---- Judging ---- */

/* Identifies a caller under a new name. Returns 0, or AML_EINPUT with the reason for which the caller is refused. */
static int caller_identify(const struct callers *callers, const struct routing *routing, const char *key,
                           struct caller *caller, struct error *error) {
    *caller = (struct caller){.actor = routing_actor(routing), .routing = *routing, .descriptor = -1};
    snprintf(caller->key, sizeof caller->key, "%s", key);
    if (actor_part(caller->actor) > WIRE_SERVERS_MAX && !actor_is_pulse(caller->actor)) {
        return error_set(error, AML_EINPUT, "no process has a part %u", actor_part(caller->actor));
    }
    const struct caller *present = callers_get(callers, caller->actor);
    char expected[NET_KEY_TEXT];
    bool listed = net_key_of(callers->net, caller->actor, expected);
    if (present != NULL && strcmp(present->key, key) == 0) {
        caller->has_place = present->has_place;
    }
    if (listed ? strcmp(expected, key) != 0 : present != NULL && strcmp(present->key, key) != 0) {
        return error_set(error, AML_EINPUT, "its actor id is that of a process with another key");
    }
    if (!callers->net->controller) {
        caller->roles = ROLE_NODE;
        return listed ? 0 : error_set(error, AML_EINPUT, "it is not in the job's plan");
    }
    const unsigned char *token = routing_token(routing);
    bool genuine = token != NULL && net_token_genuine(token, &callers->net->key);
    struct net_token_terms terms = genuine ? net_token_terms(token) : (struct net_token_terms){0};
    caller->roles = terms.roles;
    caller->tiers = terms.tiers;
    caller->serial = terms.serial;
    if (token_check_revoked(callers, &terms, error) != 0) {
        return AML_EINPUT;
    }
    if (listed) { /* perhaps the controller was started again, and the token has expired since */
        caller->roles |= ROLE_NODE;
        caller->has_place = caller->actor == actor_node(caller->actor); /* a process counts once: its pulse has no place
                                                                           of its own */
        return 0;
    }
    return genuine ? token_check_time(callers, &terms, key, error)
                   : error_set(error, AML_EINPUT, "its --key is not of this job");
}

/* Only the controller sends a caller the reason. Nodes learn of each other from plans; a refused node tries again. */
static enum caller_verdict callers_refuse(const struct callers *callers) {
    return callers->net->controller ? CALLER_MAY_NOT : CALLER_IGNORED;
}

/* Sets the error that the caller's key does not allow `what`. */
static int key_lacks(const struct routing *routing, const char *what, struct error *error) {
    const unsigned char *token = routing_token(routing);
    if (token == NULL) {
        return error_set(error, AML_EINPUT, "a node may not send %s", what);
    }
    struct net_token_terms terms = net_token_terms(token);
    char title[NET_TOKEN_TITLE_MAX];
    net_token_title(&terms, title);
    return error_set(error, AML_EINPUT, "its --key, a token %s, does not allow %s", title, what);
}

/* Whether a node may join by its token in this tier. */
static enum caller_verdict callers_judge_register(struct callers *callers, struct caller *caller, unsigned tier,
                                                  struct error *error) {
    if (caller->tiers != 0 && (caller->tiers >> tier & 1) == 0) {
        static const char *const joining[TIERS] = {"joining as a reliable node", "joining as a transient node",
                                                   "joining as a feeder"};
        key_lacks(&caller->routing, joining[tier], error);
        return CALLER_MAY_NOT;
    }
    if (caller->has_place) {
        return CALLER_MAY;
    }
    struct net_token_terms terms = net_token_terms(routing_token(&caller->routing));
    if (callers_have_place(callers, caller, terms.nodes, caller->heard_us)) {
        caller->has_place = true;
        return CALLER_MAY;
    }
    if (callers->full_serial != terms.serial) {
        callers->full_serial = terms.serial;
        error_set(error, AML_EINPUT, "all %" PRIu32 " places of this node's token are taken: the node waits for one",
                  terms.nodes);
    }
    return CALLER_IGNORED;
}

enum caller_verdict callers_judge(struct callers *callers, const struct routing *routing, const char *key,
                                  const struct message *message, int descriptor, uint64_t now_us, struct error *error) {
    uint64_t version = callers->net->nodes_version;
    if (callers->nodes_version != version && !callers->net->controller) {
        callers->nodes_version = version;
        callers_drop_absent(callers);
    }
    struct caller *caller = callers_get(callers, routing_actor(routing));
    if (caller == NULL || caller->routing.size != routing->size ||
        memcmp(caller->routing.bytes, routing->bytes, routing->size) != 0) {
        struct caller new;
        if (caller_identify(callers, routing, key != NULL ? key : "", &new, error) != 0) {
            return callers_refuse(callers);
        }
        caller = callers_put(callers, &new);
    }
    caller->heard_us = now_us;
    caller->descriptor = descriptor;
    if ((caller->roles & message_roles(message)) == 0) {
        key_lacks(routing, message_name(message->type), error);
        return callers_refuse(callers);
    }
    return message->type == MESSAGE_REGISTER && callers->net->controller
               ? callers_judge_register(callers, caller, message->registration.tier, error)
               : CALLER_MAY;
}
