/* See plan.h. */
#include "agileml/control/decide/plan.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <assert.h>
#include <stdlib.h>

const char *plan_stage_name(enum stage stage) {
    static const char *const names[] = {[STAGE_AUTO] = "auto",
                                        [STAGE_1] = "1",
                                        [STAGE_2] = "2",
                                        [STAGE_3] = "3",
                                        [STAGE_TRADITIONAL] = "traditional",
                                        [STAGE_TRANSIENT] = "transient"};
    return names[stage];
}

/* ---- Shares: how many items (partitions or data shards) an actor has, and is to have ---- */

struct share {
    actor_id actor;
    uint64_t weight;
    uint64_t near;      /* items that the actor has or had last: it can take these without a transfer */
    uint64_t quota;     /* items that the actor is to have */
    uint64_t remainder; /* of the division by which quotas are made */
    int64_t room;       /* quota minus the items that the actor has, or has been dealt */
};

/* Orders shares for the items that the division leaves over: first the largest remainders, then actors that could keep
 * one more item, so that less moves, then the longest running. */
static int share_compare(const void *left, const void *right) {
    const struct share *a = *(const struct share *const *)left;
    const struct share *b = *(const struct share *const *)right;
    if (a->remainder != b->remainder) {
        return a->remainder > b->remainder ? -1 : 1;
    }
    bool a_keeps = a->near > a->quota;
    bool b_keeps = b->near > b->quota;
    if (a_keeps != b_keeps) {
        return a_keeps ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

/* Sets the quotas of `items` in proportion to the weights, which must not all be 0. */
static void shares_apportion(struct share *shares, unsigned count, uint64_t items) {
    uint64_t weights = 0;
    for (unsigned i = 0; i < count; i++) {
        weights += shares[i].weight;
    }
    assert(weights > 0);
    struct share **order = memory_zeroed(count, sizeof *order);
    uint64_t left = items;
    for (unsigned i = 0; i < count; i++) {
        assert(shares[i].weight == 0 || items <= UINT64_MAX / shares[i].weight);
        shares[i].quota = items * shares[i].weight / weights;
        shares[i].remainder = items * shares[i].weight % weights;
        left -= shares[i].quota;
        order[i] = &shares[i];
    }
    assert(left < count);
    qsort(order, count, sizeof(struct share *), share_compare);
    for (uint64_t i = 0; i < left; i++) {
        order[i]->quota++;
    }
    free(order);
}

/* ---- Dealing items to shares ---- */

struct deal {
    struct share *shares;
    unsigned share_count;
    struct index_map index; /* actor -> share */
    uint32_t items;
    const actor_id *present;  /* [items], or NULL */
    const actor_id *previous; /* [items], or NULL */
};

static void deal_open(struct deal *deal, unsigned shares_max) {
    deal->shares = memory_zeroed(shares_max, sizeof *deal->shares);
}

static void deal_close(struct deal *deal) {
    free(deal->shares);
    index_map_close(&deal->index);
}

static void deal_add(struct deal *deal, actor_id actor, uint64_t weight) {
    assert(index_map_find(&deal->index, actor) == INDEX_NONE);
    index_map_add(&deal->index, actor, deal->share_count);
    deal->shares[deal->share_count++] = (struct share){.actor = actor, .weight = weight};
}

/* Returns the share of an item's actor, or NULL. */
static struct share *deal_find(const struct deal *deal, const actor_id *actors, uint32_t item) {
    int64_t found = actors != NULL ? index_map_find(&deal->index, actors[item]) : INDEX_NONE;
    return found != INDEX_NONE ? &deal->shares[found] : NULL;
}

/* Counts the items that each share has, before quotas are made. */
static void deal_count(const struct deal *deal) {
    for (uint32_t item = 0; item < deal->items; item++) {
        struct share *present = deal_find(deal, deal->present, item);
        struct share *nearest = present != NULL ? present : deal_find(deal, deal->previous, item);
        if (present != NULL) {
            present->room--;
        }
        if (nearest != NULL) {
            nearest->near++;
        }
    }
}

/* Deals the remaining items to shares with room, in turn, up to `run` items at a time. */
static void deal_rest(const struct deal *deal, uint64_t run, actor_id *result) {
    struct share **open = memory_zeroed(deal->share_count, sizeof *open);
    unsigned count = 0;
    for (unsigned i = 0; i < deal->share_count; i++) {
        if (deal->shares[i].room > 0) {
            open[count++] = &deal->shares[i];
        }
    }
    unsigned turn = 0, still = 0;
    uint64_t taken = 0;
    for (uint32_t item = 0; item < deal->items; item++) {
        if (result[item] != ACTOR_NONE) {
            continue;
        }
        assert(turn < count); /* the quotas are of all items */
        struct share *share = open[turn];
        result[item] = share->actor;
        share->room--;
        taken++;
        if (share->room == 0 || taken == run) {
            if (share->room > 0) {
                open[still++] = share;
            }
            taken = 0;
            turn++;
        }
        if (turn == count) {
            count = still;
            turn = still = 0;
        }
    }
    free(open);
}

/* Deals all items, after quotas are made. An actor keeps its items up to its quota. Other items return to their
 * previous actor if that has room; the rest go to any share with room. */
static void deal_items(const struct deal *deal, uint64_t run, actor_id *result) {
    for (unsigned i = 0; i < deal->share_count; i++) {
        deal->shares[i].room += (int64_t)deal->shares[i].quota;
    }
    for (uint32_t item = 0; item < deal->items; item++) {
        struct share *present = deal_find(deal, deal->present, item);
        struct share *previous = deal_find(deal, deal->previous, item);
        result[item] = ACTOR_NONE;
        if ((present == NULL || present->room < 0) && previous != NULL && previous->room > 0) {
            result[item] = previous->actor;
            previous->room--;
            if (present != NULL) {
                present->room++;
            }
        }
    }
    for (uint32_t item = 0; item < deal->items; item++) {
        struct share *present = result[item] == ACTOR_NONE ? deal_find(deal, deal->present, item) : NULL;
        if (present != NULL && present->room < 0) {
            present->room++;
        } else if (present != NULL) {
            result[item] = present->actor;
        }
    }
    deal_rest(deal, run, result);
    for (unsigned i = 0; i < deal->share_count; i++) {
        assert(deal->shares[i].room == 0);
    }
}

/* ---- Roles ---- */

enum role { ROLE_SERVES = 1, ROLE_BACKS_UP = 2, ROLE_WORKS = 4 };

static unsigned roles_of_server(const struct plan_node *node, enum stage stage, unsigned *active_left) {
    bool reliable = node->tier == TIER_RELIABLE;
    if (node->servers == 0) {
        return 0;
    }
    if (plan_all_serve(stage) || (stage == STAGE_1 && reliable)) {
        return ROLE_SERVES;
    }
    if (stage == STAGE_1) {
        return 0;
    }
    if (reliable) {
        return ROLE_BACKS_UP;
    }
    if (*active_left == 0) {
        return 0;
    }
    *active_left -= 1;
    return ROLE_SERVES;
}

/* Sets each node's roles. Returns the set of roles that at least one node has. */
static unsigned roles_choose(const struct plan_node *nodes, unsigned node_count, enum stage stage, unsigned *roles) {
    unsigned transient_servers = 0;
    bool transient_works = false;
    for (unsigned n = 0; n < node_count; n++) {
        if (nodes[n].tier == TIER_TRANSIENT) {
            transient_servers += nodes[n].servers > 0;
            transient_works |= nodes[n].threads > 0;
        }
    }
    unsigned active_left = (transient_servers + 1) / 2;
    bool transient_only = stage == STAGE_3 && transient_works;
    unsigned any = 0;
    for (unsigned n = 0; n < node_count; n++) {
        if (nodes[n].tier == TIER_FEEDER) {
            continue;
        }
        roles[n] = roles_of_server(&nodes[n], stage, &active_left);
        if (nodes[n].threads > 0 && (nodes[n].tier == TIER_TRANSIENT || !transient_only)) {
            roles[n] |= ROLE_WORKS;
        }
        any |= roles[n];
    }
    return any;
}

/* ---- The plan ---- */

/* Deals the partitions to the server threads of the nodes with this role: to nodes by their weights, and evenly to each
 * node's threads. */
static void plan_placement(const struct plan_node *nodes, unsigned node_count, const unsigned *roles, enum role role,
                           struct deal *deal, uint64_t run, actor_id *result) {
    struct share *over_nodes = memory_zeroed(node_count, sizeof *over_nodes);
    unsigned threads = 0;
    for (unsigned n = 0; n < node_count; n++) {
        uint32_t weight = nodes[n].serve_weight > 0 ? nodes[n].serve_weight : PLAN_SERVE_EVEN;
        over_nodes[n].weight = (roles[n] & role) != 0 ? weight : 0;
        threads += nodes[n].servers;
    }
    deal_open(deal, threads);
    for (unsigned n = 0; n < node_count; n++) {
        for (uint32_t part = 1; over_nodes[n].weight > 0 && part <= nodes[n].servers; part++) {
            deal_add(deal, actor_of_part(nodes[n].actor, part), 1);
        }
    }
    deal_count(deal);
    struct share *of_node = deal->shares;
    for (unsigned n = 0; n < node_count; n++) {
        for (uint32_t part = 0; over_nodes[n].weight > 0 && part < nodes[n].servers; part++) {
            over_nodes[n].near += of_node++->near;
        }
    }
    assert(of_node == deal->shares + deal->share_count);
    shares_apportion(over_nodes, node_count, deal->items);
    of_node = deal->shares;
    for (unsigned n = 0; n < node_count; n++) {
        if (over_nodes[n].weight > 0) {
            shares_apportion(of_node, nodes[n].servers, over_nodes[n].quota);
            of_node += nodes[n].servers;
        }
    }
    deal_items(deal, run, result);
    deal_close(deal);
    free(over_nodes);
}

static void plan_owners(const struct plan_node *nodes, unsigned node_count, const unsigned *roles, struct deal *deal,
                        actor_id *result) {
    uint64_t weights = 0;
    uint64_t threads = 0; /* worker threads of nodes with weights */
    for (unsigned n = 0; n < node_count; n++) {
        bool weighted = (roles[n] & ROLE_WORKS) != 0 && nodes[n].weight > 0;
        weights += weighted ? nodes[n].weight : 0;
        threads += weighted ? nodes[n].threads : 0;
    }
    deal_open(deal, node_count);
    for (unsigned n = 0; n < node_count; n++) {
        if ((roles[n] & ROLE_WORKS) != 0) {
            uint64_t weight = threads == 0          ? nodes[n].threads
                              : nodes[n].weight > 0 ? nodes[n].weight * threads
                                                    : nodes[n].threads * weights;
            deal_add(deal, nodes[n].actor, weight);
        }
    }
    deal_count(deal);
    shares_apportion(deal->shares, deal->share_count, deal->items);
    deal_items(deal, UINT64_MAX, result);
    deal_close(deal);
}

/* ---- Followers of stage transient ---- */

/* A server thread that may follow. */
struct candidate {
    actor_id server;
    const struct plan_node *node;
    uint64_t weight;  /* the thread's part of the node's serve_weight */
    uint64_t follows; /* partitions that it follows */
};

struct candidates {
    struct candidate *list;
    unsigned count;
    struct index_map index; /* server -> candidate */
};

static struct candidate *candidate_find(const struct candidates *candidates, const actor_id *servers, uint32_t p) {
    int64_t at = servers != NULL ? index_map_find(&candidates->index, servers[p]) : INDEX_NONE;
    return at == INDEX_NONE ? NULL : &candidates->list[at];
}

/* Whether `left` with one more partition follows fewer, relative to its weight, than `right` with `more` more. */
static bool follows_less(const struct candidate *left, const struct candidate *right, unsigned more) {
    return (left->follows + 1) * right->weight < (right->follows + more) * left->weight;
}

/* Returns how far apart two servers are: 2: in different groups, 1: on different nodes of a group, 0: on one node. */
static int apart(const struct candidate *left, const struct candidate *right) {
    return left == NULL || right == NULL || left->node == right->node ? 0
           : left->node->group == right->node->group                  ? 1
                                                                      : 2;
}

/* Returns the candidate farthest apart from the server; of several, that with the least to follow. NULL: all are on the
 * server's node. */
static struct candidate *best_follower(const struct candidates *candidates, const struct candidate *server) {
    struct candidate *best = NULL;
    for (unsigned c = 0; c < candidates->count; c++) {
        struct candidate *candidate = &candidates->list[c];
        int here = apart(candidate, server);
        int there = apart(best, server);
        if (here > there || (here > 0 && here == there && follows_less(candidate, best, 1))) {
            best = candidate;
        }
    }
    assert(best == NULL || best->node != server->node);
    return best;
}

static void candidates_open(struct candidates *candidates, const struct plan_node *nodes, unsigned node_count) {
    *candidates = (struct candidates){0};
    for (unsigned n = 0; n < node_count; n++) {
        uint64_t weight = nodes[n].serve_weight > 0 ? nodes[n].serve_weight : PLAN_SERVE_EVEN;
        for (uint32_t part = 1; part <= nodes[n].servers && nodes[n].tier != TIER_FEEDER; part++) {
            actor_id server = actor_of_part(nodes[n].actor, part);
            candidates->list = memory_resized(candidates->list, candidates->count + 1, sizeof *candidates->list);
            candidates->list[candidates->count] =
                (struct candidate){.server = server, .node = &nodes[n], .weight = (weight << 16) / nodes[n].servers};
            index_map_add(&candidates->index, server, candidates->count++);
        }
    }
}

static void follow(struct candidate *candidate, actor_id *backup) {
    *backup = candidate->server;
    candidate->follows++;
}

/* Checks that the candidates follow as many partitions as have a follower. */
static void check_follows(const struct candidates *candidates, uint32_t partitions, const actor_id *backups) {
    uint64_t follows = 0;
    for (unsigned c = 0; c < candidates->count; c++) {
        follows += candidates->list[c].follows;
    }
    for (uint32_t p = 0; p < partitions; p++) {
        follows -= backups[p] != ACTOR_NONE ? 1 : 0;
    }
    assert(follows == 0);
}

void plan_followers(const struct plan_node *nodes, unsigned node_count, uint32_t partitions,
                    const struct plan_present *present, const actor_id *servers, actor_id *backups) {
    struct candidates candidates;
    candidates_open(&candidates, nodes, node_count);
    for (uint32_t p = 0; p < partitions; p++) { /* first the followers that need no copy */
        const struct candidate *server = candidate_find(&candidates, servers, p);
        struct candidate *near[] = {candidate_find(&candidates, present->backups, p),
                                    candidate_find(&candidates, present->servers, p)};
        const struct candidate *best = best_follower(&candidates, server);
        backups[p] = ACTOR_NONE;
        for (unsigned i = 0; i < sizeof near / sizeof *near && best != NULL && backups[p] == ACTOR_NONE; i++) {
            if (apart(near[i], server) == apart(best, server)) {
                follow(near[i], &backups[p]);
            }
        }
    }
    for (uint32_t p = 0; p < partitions; p++) {
        struct candidate *best =
            backups[p] == ACTOR_NONE ? best_follower(&candidates, candidate_find(&candidates, servers, p)) : NULL;
        if (best != NULL) {
            follow(best, &backups[p]);
        }
    }
    /* Moves partitions from followers with too many until that makes nothing more even. So planning again changes
     * nothing. */
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t p = 0; p < partitions; p++) {
            struct candidate *has = candidate_find(&candidates, backups, p);
            struct candidate *best = best_follower(&candidates, candidate_find(&candidates, servers, p));
            if (has != NULL && best != NULL && follows_less(best, has, 0)) {
                assert(has->follows > 0);
                has->follows--;
                follow(best, &backups[p]);
                moved = true;
            }
        }
    }
    check_follows(&candidates, partitions, backups);
    free(candidates.list);
    index_map_close(&candidates.index);
}

/* Checks that each partition has a server, and its copy on another node, and that each shard has an owner. */
static void check_result(const struct plan_policy *policy, bool tiered, const struct plan_result *result) {
    for (uint32_t p = 0; p < policy->partitions; p++) {
        assert(result->servers[p] != ACTOR_NONE && (!tiered || result->backups[p] != ACTOR_NONE));
        assert(actor_node(result->servers[p]) != actor_node(result->backups[p]));
    }
    for (uint32_t s = 0; s < policy->shards; s++) {
        assert(result->owners[s] != ACTOR_NONE);
    }
}

int plan(const struct plan_node *nodes, unsigned node_count, const struct plan_policy *policy,
         const struct plan_present *present, const struct plan_result *result, struct error *error) {
    bool tiered = policy->stage == STAGE_2 || policy->stage == STAGE_3;
    unsigned *roles = memory_zeroed(node_count, sizeof *roles);
    unsigned any = roles_choose(nodes, node_count, policy->stage, roles);
    int code = 0;
    if ((any & ROLE_SERVES) == 0) {
        code = error_set(error, AML_EINPUT,
                         "no node may serve the parameters: stage 1 needs a reliable node, "
                         "stages 2 and 3 a transient one, stages transient and traditional any");
    } else if (tiered && (any & ROLE_BACKS_UP) == 0) {
        code = error_set(error, AML_EINPUT, "no node may back up the parameters: stages 2 and 3 need a reliable node");
    } else if ((any & ROLE_WORKS) == 0) {
        code = error_set(error, AML_EINPUT, "no node works on the data: every node has 0 worker threads");
    }
    if (code == 0) {
        /* A replica may change its role without a copy: a ParamServ of stage 1 becomes a BackupPS in stage 2, and the
         * reverse. Partitions are dealt to reliable nodes one by one, to transient nodes in runs. So the BackupPSs of
         * one ActivePS's partitions are spread over all reliable nodes. */
        struct deal servers = {.items = policy->partitions, .present = present->servers, .previous = present->backups};
        struct deal backups = {.items = policy->partitions, .present = present->backups, .previous = present->servers};
        struct deal shards = {.items = policy->shards, .present = present->owners, .previous = present->previous};
        plan_placement(nodes, node_count, roles, ROLE_SERVES, &servers, tiered ? UINT64_MAX : 1, result->servers);
        if (tiered) {
            plan_placement(nodes, node_count, roles, ROLE_BACKS_UP, &backups, 1, result->backups);
        }
        for (uint32_t p = 0; !tiered && p < policy->partitions; p++) {
            result->backups[p] = ACTOR_NONE;
        }
        if (policy->stage == STAGE_TRANSIENT) {
            plan_followers(nodes, node_count, policy->partitions, present, result->servers, result->backups);
        }
        plan_owners(nodes, node_count, roles, &shards, result->owners);
        check_result(policy, tiered, result);
    }
    free(roles);
    return code;
}

/* Whether the ratio is above a threshold, with hysteresis in favour of the present stage. */
static bool stage_above(double ratio, double threshold, enum stage present, enum stage upper) {
    if (present < STAGE_1 || present > STAGE_3) {
        return ratio > threshold;
    }
    return present >= upper ? ratio >= threshold * (1.0 - PLAN_HYSTERESIS)
                            : ratio > threshold * (1.0 + PLAN_HYSTERESIS);
}

enum stage plan_stage(unsigned reliable, unsigned transient, const struct plan_thresholds *thresholds,
                      enum stage present) {
    if (transient == 0) {
        return STAGE_1;
    }
    if (reliable == 0) {
        return STAGE_TRANSIENT;
    }
    double ratio = (double)transient / reliable;
    if (stage_above(ratio, thresholds->to_3, present, STAGE_3)) {
        return STAGE_3;
    }
    return stage_above(ratio, thresholds->to_2, present, STAGE_2) ? STAGE_2 : STAGE_1;
}
