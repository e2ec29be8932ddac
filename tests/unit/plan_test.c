/* plan(): where partitions and data shards belong in example clusters, and rules for any cluster. Shares are fair,
 * few items move, and roles follow the stage. */
#include "agileml/control/decide/plan.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

enum { NODES_MAX = 6, ITEMS_MAX = 8, SERVERS = 10 };

#define RELIABLE(threads, servers)                                                                                     \
    { 0, TIER_RELIABLE, threads, servers }
#define TRANSIENT(threads, servers)                                                                                    \
    { 0, TIER_TRANSIENT, threads, servers }

#define FEEDER(threads, servers)                                                                                       \
    { 0, TIER_FEEDER, threads, servers }

#define WEIGHED(threads, weight)                                                                                       \
    { 0, TIER_TRANSIENT, threads, 0, weight }

/* Node n is actor (n + 1) << 16. Server threads are written as node * SERVERS + part and owners as node + 1; 0:
 * none. Numbers beyond node_count stand for nodes that have gone. */
static const struct example {
    const char *name;
    unsigned node_count;
    struct plan_node nodes[NODES_MAX];
    struct plan_policy policy;
    unsigned present_servers[ITEMS_MAX], present_backups[ITEMS_MAX], present_owners[ITEMS_MAX], previous[ITEMS_MAX];
    const char *error; /* part of the error; NULL: no error */
    unsigned servers[ITEMS_MAX], backups[ITEMS_MAX], owners[ITEMS_MAX];
} examples[] = {
    {.name = "one node does all",
     .node_count = 1,
     .nodes = {RELIABLE(2, 1)},
     .policy = {STAGE_1, 3, 4},
     .servers = {1, 1, 1},
     .owners = {1, 1, 1, 1}},
    {.name = "stage 1 serves on the reliable node only",
     .node_count = 3,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_1, 4, 6},
     .servers = {1, 1, 1, 1},
     .owners = {1, 1, 2, 2, 3, 3}},
    {.name = "feeders have no part in stage 3, and do not count as transient nodes",
     .node_count = 4,
     .nodes = {FEEDER(8, 2), RELIABLE(1, 1), TRANSIENT(1, 1), FEEDER(8, 2)},
     .policy = {STAGE_3, 4, 3},
     .servers = {21, 21, 21, 21},
     .backups = {11, 11, 11, 11},
     .owners = {3, 3, 3}},
    {.name = "feeders have no part in stage traditional",
     .node_count = 2,
     .nodes = {FEEDER(8, 2), TRANSIENT(1, 1)},
     .policy = {STAGE_TRADITIONAL, 2, 2},
     .servers = {11, 11},
     .owners = {2, 2}},
    {.name = "feeders alone make no job",
     .node_count = 1,
     .nodes = {FEEDER(8, 2)},
     .policy = {STAGE_TRADITIONAL, 2, 2},
     .error = "no node may serve the parameters"},
    {.name = "traditional serves on all",
     .node_count = 3,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_TRADITIONAL, 4, 3},
     .servers = {1, 11, 21, 1},
     .owners = {1, 2, 3}},
    {.name = "partitions are even over nodes, then over their server threads",
     .node_count = 2,
     .nodes = {RELIABLE(1, 2), RELIABLE(1, 3)},
     .policy = {STAGE_1, 8, 2},
     .servers = {1, 2, 11, 12, 13, 1, 2, 11},
     .owners = {1, 2}},
    {.name = "shards go by threads",
     .node_count = 2,
     .nodes = {RELIABLE(1, 1), TRANSIENT(3, 0)},
     .policy = {STAGE_1, 1, 8},
     .servers = {1},
     .owners = {1, 1, 2, 2, 2, 2, 2, 2}},
    {.name = "shards go by weights where there are any",
     .node_count = 3,
     .nodes = {RELIABLE(2, 1), WEIGHED(4, 96), WEIGHED(1, 32)},
     .policy = {STAGE_1, 1, 8},
     .servers = {1},
     .owners = {1, 1, 2, 2, 2, 2, 3, 3}}, /* the first node gets as much for each thread as the nodes with weights */
    {.name = "a node without threads works on nothing",
     .node_count = 2,
     .nodes = {RELIABLE(0, 1), TRANSIENT(2, 1)},
     .policy = {STAGE_1, 2, 2},
     .servers = {1, 1},
     .owners = {2, 2}},
    {.name = "fewer shards than nodes: those that run longest work",
     .node_count = 3,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_1, 1, 2},
     .servers = {1},
     .owners = {1, 2}},
    {.name = "a reliable node without servers serves nothing",
     .node_count = 2,
     .nodes = {RELIABLE(1, 0), RELIABLE(1, 1)},
     .policy = {STAGE_1, 2, 2},
     .servers = {11, 11},
     .owners = {1, 2}},
    {.name = "stage 2 serves on the older half of the transient nodes that can, rounded up",
     .node_count = 5,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 0), TRANSIENT(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_2, 4, 5},
     .servers = {21, 21, 31, 31},
     .backups = {1, 1, 1, 1},
     .owners = {1, 2, 3, 4, 5}},
    {.name = "one ActivePS's partitions are backed up on all reliable nodes",
     .node_count = 5,
     .nodes = {RELIABLE(0, 1), RELIABLE(0, 1), TRANSIENT(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_2, 4, 3},
     .servers = {21, 21, 31, 31},
     .backups = {1, 11, 1, 11},
     .owners = {3, 4, 5}},
    {.name = "in stage 3 reliable nodes do not work",
     .node_count = 3,
     .nodes = {RELIABLE(4, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_3, 2, 4},
     .servers = {11, 11},
     .backups = {1, 1},
     .owners = {2, 2, 3, 3}},
    {.name = "in stage 3 reliable nodes work if nobody else can",
     .node_count = 2,
     .nodes = {RELIABLE(4, 1), TRANSIENT(0, 1)},
     .policy = {STAGE_3, 2, 2},
     .servers = {11, 11},
     .backups = {1, 1},
     .owners = {1, 1}},
    {.name = "from stage 1 to 2 the servers become the backups",
     .node_count = 4,
     .nodes = {RELIABLE(1, 1), RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_2, 5, 4},
     .present_servers = {11, 1, 11, 1, 11},
     .present_owners = {4, 3, 2, 1},
     .servers = {21, 21, 21, 21, 21},
     .backups = {11, 1, 11, 1, 11},
     .owners = {4, 3, 2, 1}},
    {.name = "from stage 2 to 1 the backups serve",
     .node_count = 4,
     .nodes = {RELIABLE(1, 1), RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_1, 5, 4},
     .present_servers = {21, 21, 21, 21, 21},
     .present_backups = {11, 1, 11, 1, 11},
     .present_owners = {4, 3, 2, 1},
     .servers = {11, 1, 11, 1, 11},
     .owners = {4, 3, 2, 1}},
    {.name = "after a failure in stage 2 the backup that serves follows again",
     .node_count = 4,
     .nodes = {RELIABLE(1, 1), RELIABLE(1, 1), TRANSIENT(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_2, 4, 2},
     .present_servers = {11, 1, 21, 21},
     .present_backups = {0, 0, 1, 11},
     .present_owners = {9, 2},
     .servers = {21, 21, 21, 21},
     .backups = {11, 1, 1, 11},
     .owners = {1, 2}},
    {.name = "a new node takes its share and no more",
     .node_count = 3,
     .nodes = {RELIABLE(1, 1), RELIABLE(1, 1), RELIABLE(1, 1)},
     .policy = {STAGE_1, 6, 6},
     .present_servers = {1, 11, 1, 11, 1, 11},
     .present_owners = {1, 1, 1, 2, 2, 2},
     .servers = {21, 21, 1, 11, 1, 11},
     .owners = {3, 1, 1, 3, 2, 2}},
    {.name = "who has most keeps the odd one",
     .node_count = 2,
     .nodes = {RELIABLE(1, 1), RELIABLE(1, 1)},
     .policy = {STAGE_1, 3, 3},
     .present_servers = {11, 11, 1},
     .present_owners = {2, 1, 2},
     .servers = {11, 11, 1},
     .owners = {2, 1, 2}},
    {.name = "what a node leaves behind goes back to who had it before",
     .node_count = 2,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_1, 1, 6},
     .present_owners = {1, 3, 1, 3, 2, 2},
     .previous = {0, 2, 0, 1, 0, 0},
     .servers = {1},
     .owners = {1, 2, 1, 1, 2, 2}},
    {.name = "of what is too much, that goes which the other had before",
     .node_count = 2,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 1)},
     .policy = {STAGE_1, 1, 4},
     .present_owners = {2, 2, 2, 2},
     .previous = {0, 1, 0, 1},
     .servers = {1},
     .owners = {2, 1, 2, 1}},
    {.name = "stage 1 needs a reliable node",
     .node_count = 1,
     .nodes = {TRANSIENT(1, 1)},
     .policy = {STAGE_1, 1, 1},
     .error = "reliable"},
    {.name = "stage 2 needs a transient node",
     .node_count = 2,
     .nodes = {RELIABLE(1, 1), TRANSIENT(1, 0)},
     .policy = {STAGE_2, 1, 1},
     .error = "transient"},
    {.name = "stage 3 needs a reliable node",
     .node_count = 2,
     .nodes = {RELIABLE(1, 0), TRANSIENT(1, 1)},
     .policy = {STAGE_3, 1, 1},
     .error = "back up"},
    {.name = "somebody must serve",
     .node_count = 1,
     .nodes = {RELIABLE(1, 0)},
     .policy = {STAGE_TRADITIONAL, 1, 1},
     .error = "serve"},
    {.name = "somebody must work",
     .node_count = 1,
     .nodes = {RELIABLE(0, 1)},
     .policy = {STAGE_1, 1, 1},
     .error = "threads"},
    {.name = "nobody is no cluster", .node_count = 0, .policy = {STAGE_1, 1, 1}, .error = "serve"},
};

static actor_id node_actor(unsigned node) {
    return (actor_id)(node + 1) << ACTOR_PART_BITS;
}

static actor_id server_actor(unsigned server) {
    return server > 0 ? actor_of_part(node_actor(server / SERVERS), server % SERVERS) : ACTOR_NONE;
}

static actor_id owner_actor(unsigned owner) {
    return owner > 0 ? node_actor(owner - 1) : ACTOR_NONE;
}

static void check_example(const struct example *example) {
    struct plan_node nodes[NODES_MAX];
    actor_id had[4][ITEMS_MAX];
    actor_id got[3][ITEMS_MAX];
    struct error error = {0};
    for (unsigned n = 0; n < example->node_count; n++) {
        nodes[n] = example->nodes[n];
        nodes[n].actor = node_actor(n);
    }
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        had[0][i] = server_actor(example->present_servers[i]);
        had[1][i] = server_actor(example->present_backups[i]);
        had[2][i] = owner_actor(example->present_owners[i]);
        had[3][i] = owner_actor(example->previous[i]);
    }
    struct plan_present present = {had[0], had[1], had[2], had[3]};
    struct plan_result result = {got[0], got[1], got[2]};
    print_message("%s\n", example->name);
    int code = plan(nodes, example->node_count, &example->policy, &present, &result, &error);
    if (example->error != NULL) {
        assert_int_equal(code, AML_EINPUT);
        assert_non_null(strstr(error.text, example->error));
        return;
    }
    assert_int_equal(code, 0);
    for (unsigned p = 0; p < example->policy.partitions; p++) {
        assert_int_equal(got[0][p], server_actor(example->servers[p]));
        assert_int_equal(got[1][p], server_actor(example->backups[p]));
    }
    for (unsigned s = 0; s < example->policy.shards; s++) {
        assert_int_equal(got[2][s], owner_actor(example->owners[s]));
    }
}

TEST(examples) {
    for (size_t e = 0; e < sizeof examples / sizeof examples[0]; e++) {
        check_example(&examples[e]);
    }
}

/* ---- Any cluster ---- */

enum { CLUSTER_MAX = 40, ACTORS_MAX = 4096, PARTITIONS_MAX = 100, SHARDS_MAX = 700, STEPS = 60, WALKS = 60 };

/* A cluster with nodes that come and go, and its last plan. */
struct cluster {
    struct plan_node nodes[CLUSTER_MAX];
    unsigned node_count, actors;
    bool alike;   /* all nodes have the same threads, and one server */
    bool weighed; /* some nodes have weights */
    unsigned groups;
    struct plan_policy policy;
    actor_id servers[PARTITIONS_MAX], backups[PARTITIONS_MAX], owners[SHARDS_MAX], previous[SHARDS_MAX];
};

static uint64_t random_state = 1;

static unsigned random_below(unsigned limit) {
    return (unsigned)(hash_mix(random_state++) % limit);
}

static void cluster_join(struct cluster *cluster, enum node_tier tier) {
    bool first = cluster->node_count == 0;
    cluster->nodes[cluster->node_count++] = (struct plan_node){
        .actor = node_actor(cluster->actors++),
        .tier = tier,
        .threads = cluster->alike ? 2 : random_below(5) + first,
        .servers = cluster->alike ? 1 : random_below(4) + first,
        .weight = cluster->weighed ? random_below(3) * (1 + random_below(256)) : 0,
        .serve_weight = cluster->weighed ? random_below(3) * (1 + random_below(128)) : 0,
        .group = random_below(cluster->groups),
    };
    assert_true(cluster->actors < ACTORS_MAX);
}

static void cluster_leave(struct cluster *cluster, unsigned node) {
    cluster->node_count--;
    memmove(&cluster->nodes[node], &cluster->nodes[node + 1], (cluster->node_count - node) * sizeof cluster->nodes[0]);
}

/* The node of an actor; NULL if it has gone. */
static const struct plan_node *cluster_node(const struct cluster *cluster, actor_id actor) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        if (cluster->nodes[n].actor == actor_node(actor)) {
            return &cluster->nodes[n];
        }
    }
    return NULL;
}

/* The number of items of an actor or, with `of_node`, of its node. */
static unsigned count_of(actor_id actor, const actor_id *actors, unsigned count, bool of_node) {
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        found += (of_node ? actor_node(actors[i]) : actors[i]) == actor;
    }
    return found;
}

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Checks that items are in proportion to the nodes' `weights`, within one item. */
static void check_fair(const struct cluster *cluster, const unsigned *weights, const actor_id *got, unsigned items) {
    unsigned all = 0;
    unsigned found = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        all += weights[n];
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        unsigned count = count_of(cluster->nodes[n].actor, got, items, true);
        unsigned floor = items * weights[n] / all;
        assert_in_range(count, floor, floor + (items * weights[n] % all > 0));
        found += count;
    }
    assert_int_equal(found, items);
}

static void check_threads_even(const struct cluster *cluster, const actor_id *got, unsigned partitions) {
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct plan_node *node = &cluster->nodes[n];
        unsigned all = count_of(node->actor, got, partitions, true);
        unsigned found = 0;
        for (unsigned part = 1; part <= node->servers; part++) {
            unsigned count = count_of(actor_of_part(node->actor, part), got, partitions, false);
            assert_in_range(count, all / node->servers, (all + node->servers - 1) / node->servers);
            found += count;
        }
        assert_int_equal(found, all);
    }
}

/* Every actor keeps as many items as its share allows. Where all shares are equal, as many items as possible stay
 * where they were, or return to where they were before. */
static void check_least_moves(const struct cluster *cluster, const unsigned *weights, const actor_id *had,
                              const actor_id *previous, const actor_id *got, unsigned items) {
    unsigned kept = 0;
    unsigned known = 0;
    unsigned at_most = 0;
    unsigned weighing = 0;
    unsigned near[CLUSTER_MAX] = {0};
    for (unsigned i = 0; i < items; i++) {
        kept += got[i] == had[i];
        known += got[i] == had[i] || got[i] == previous[i];
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        for (unsigned part = 0; part <= cluster->nodes[n].servers; part++) {
            actor_id actor = actor_of_part(cluster->nodes[n].actor, part);
            at_most += least(count_of(actor, had, items, false), count_of(actor, got, items, false));
        }
        weighing += weights[n] > 0;
    }
    assert_int_equal(kept, at_most);
    assert_in_range(known, at_most, items);
    for (unsigned i = 0; i < items && cluster->alike; i++) {
        const struct plan_node *node = cluster_node(cluster, had[i]);
        node = node != NULL && weights[node - cluster->nodes] > 0 ? node : cluster_node(cluster, previous[i]);
        near[node != NULL ? node - cluster->nodes : 0] += node != NULL;
    }
    unsigned odd = items % weighing;
    unsigned best = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        unsigned before = weights[n] > 0 ? near[n] : 0;
        best += least(before, items / weighing);
        if (before > items / weighing && odd > 0) {
            best++;
            odd--;
        }
    }
    assert_in_range(known, best, items);
}

/* The nodes' weights for serving, following and working by the rules of the stage. Returns false if the stage is
 * impossible. */
static bool expected_weights(const struct cluster *cluster, unsigned *serves, unsigned *backs, unsigned *works) {
    enum stage stage = cluster->policy.stage;
    unsigned able = 0;
    unsigned transient_threads = 0;
    unsigned sums[3] = {0};
    unsigned weights = 0;
    unsigned weighed_threads = 0; /* threads of nodes with weights */
    for (unsigned n = 0; n < cluster->node_count; n++) {
        bool transient = cluster->nodes[n].tier == TIER_TRANSIENT;
        able += transient && cluster->nodes[n].servers > 0;
        transient_threads += transient ? cluster->nodes[n].threads : 0;
    }
    unsigned active = 0;
    for (unsigned n = 0; n < cluster->node_count; n++) {
        const struct plan_node *node = &cluster->nodes[n];
        bool can = node->servers > 0;
        bool transient = node->tier == TIER_TRANSIENT;
        bool tiered = stage == STAGE_2 || stage == STAGE_3;
        bool is_active = transient && can && 2 * active < able;
        active += is_active;
        serves[n] = can && (plan_all_serve(stage) || (stage == STAGE_1 && !transient) || (tiered && is_active));
        backs[n] = can && tiered && !transient;
        works[n] = stage == STAGE_3 && !transient && transient_threads > 0 ? 0 : node->threads;
        weights += works[n] > 0 ? node->weight : 0;
        weighed_threads += works[n] > 0 && node->weight > 0 ? node->threads : 0;
        sums[0] += serves[n];
        sums[1] += backs[n] + !tiered;
        sums[2] += works[n];
    }
    for (unsigned n = 0; n < cluster->node_count && weighed_threads > 0; n++) {
        const struct plan_node *node = &cluster->nodes[n];
        unsigned weight = node->weight > 0 ? node->weight * weighed_threads : node->threads * weights;
        works[n] = works[n] > 0 ? weight : 0;
    }
    for (unsigned n = 0; n < cluster->node_count; n++) {
        unsigned weight = cluster->nodes[n].serve_weight > 0 ? cluster->nodes[n].serve_weight : PLAN_SERVE_EVEN;
        serves[n] *= weight;
        backs[n] *= weight;
    }
    return sums[0] > 0 && sums[1] > 0 && sums[2] > 0;
}

/* The distance of two copies: 2 in different groups, 1 on different nodes, 0 on the same node. */
static unsigned apart(const struct plan_node *left, const struct plan_node *right) {
    return left == right ? 0 : left->group == right->group ? 1 : 2;
}

/* Stage transient: each follower is as far from its server as possible. No other node at that distance could take
 * the partition and still follow fewer, by weight. */
static void check_followers(const struct cluster *cluster, const actor_id *servers, const actor_id *backups) {
    unsigned partitions = cluster->policy.partitions;
    for (unsigned p = 0; p < partitions; p++) {
        const struct plan_node *server = cluster_node(cluster, servers[p]);
        const struct plan_node *backup = backups[p] != ACTOR_NONE ? cluster_node(cluster, backups[p]) : server;
        unsigned follows = count_of(backups[p], backups, partitions, false);
        double weight = backup->serve_weight > 0 ? backup->serve_weight : PLAN_SERVE_EVEN;
        for (unsigned n = 0; n < cluster->node_count; n++) {
            const struct plan_node *other = &cluster->nodes[n];
            double others = other->serve_weight > 0 ? other->serve_weight : PLAN_SERVE_EVEN;
            assert_true(other->servers == 0 || apart(other, server) <= apart(backup, server));
            for (unsigned part = 1; part <= other->servers && apart(other, server) > 0; part++) {
                unsigned has = count_of(actor_of_part(other->actor, part), backups, partitions, false);
                bool less = (has + 1) * other->servers / others < 0.999 * follows * backup->servers / weight;
                assert_false(less && apart(other, server) == apart(backup, server));
            }
        }
    }
}

static void check_step(struct cluster *cluster) {
    static actor_id servers[PARTITIONS_MAX], backups[PARTITIONS_MAX], owners[SHARDS_MAX];
    unsigned serves[CLUSTER_MAX], backs[CLUSTER_MAX], works[CLUSTER_MAX];
    unsigned partitions = cluster->policy.partitions;
    unsigned shards = cluster->policy.shards;
    struct plan_present present = {cluster->servers, cluster->backups, cluster->owners, cluster->previous};
    struct plan_result result = {servers, backups, owners};
    struct error error = {0};
    int code = plan(cluster->nodes, cluster->node_count, &cluster->policy, &present, &result, &error);
    if (!expected_weights(cluster, serves, backs, works)) {
        assert_int_equal(code, AML_EINPUT);
        assert_int_equal(error.code, AML_EINPUT);
        return;
    }
    assert_int_equal(code, 0);
    check_fair(cluster, serves, servers, partitions);
    check_threads_even(cluster, servers, partitions);
    check_least_moves(cluster, serves, cluster->servers, cluster->backups, servers, partitions);
    if (cluster->policy.stage == STAGE_2 || cluster->policy.stage == STAGE_3) {
        check_fair(cluster, backs, backups, partitions);
        check_threads_even(cluster, backups, partitions);
        check_least_moves(cluster, backs, cluster->backups, cluster->servers, backups, partitions);
        for (unsigned p = 0; p < partitions; p++) {
            assert_int_equal(cluster_node(cluster, servers[p])->tier, TIER_TRANSIENT);
            assert_int_equal(cluster_node(cluster, backups[p])->tier, TIER_RELIABLE);
        }
    } else if (cluster->policy.stage == STAGE_TRANSIENT) {
        check_followers(cluster, servers, backups);
    } else {
        assert_int_equal(count_of(ACTOR_NONE, backups, partitions, false), partitions);
    }
    check_fair(cluster, works, owners, shards);
    check_least_moves(cluster, works, cluster->owners, cluster->previous, owners, shards);
    for (unsigned s = 0; s < shards; s++) {
        if (owners[s] != cluster->owners[s]) {
            cluster->previous[s] = cluster->owners[s];
        }
    }
    memcpy(cluster->servers, servers, sizeof servers);
    memcpy(cluster->backups, backups, sizeof backups);
    memcpy(cluster->owners, owners, sizeof owners);
    /* Without a change nothing moves. */
    assert_int_equal(plan(cluster->nodes, cluster->node_count, &cluster->policy, &present, &result, &error), 0);
    assert_memory_equal(cluster->servers, servers, partitions * sizeof servers[0]);
    assert_memory_equal(cluster->backups, backups, partitions * sizeof backups[0]);
    assert_memory_equal(cluster->owners, owners, shards * sizeof owners[0]);
}

static void walk(bool alike, bool weighed) {
    static const enum stage stages[] = {STAGE_1, STAGE_2, STAGE_3, STAGE_TRADITIONAL, STAGE_TRANSIENT, STAGE_TRANSIENT};
    struct cluster cluster = {.alike = alike, .weighed = weighed, .groups = 1 + random_below(4)};
    cluster.policy = (struct plan_policy){
        .stage = STAGE_1, .partitions = 1 + random_below(PARTITIONS_MAX), .shards = 1 + random_below(SHARDS_MAX)};
    cluster_join(&cluster, TIER_RELIABLE);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned changes = random_below(4);
        while (changes-- > 0) {
            if (cluster.node_count < CLUSTER_MAX && random_below(5) < 3) {
                cluster_join(&cluster, random_below(4) == 0 ? TIER_RELIABLE : TIER_TRANSIENT);
            } else if (cluster.node_count > 1) {
                cluster_leave(&cluster, 1 + random_below(cluster.node_count - 1));
            }
        }
        if (random_below(3) == 0) {
            cluster.policy.stage = stages[random_below(6)];
        }
        check_step(&cluster);
    }
}

TEST(any_cluster) {
    for (unsigned w = 0; w < WALKS; w++) {
        walk(w % 3 == 0, w % 3 == 1);
    }
}

/* A change of stage moves no replica that can take the other role. */
TEST(stages_reuse_replicas) {
    enum { RELIABLE_NODES = 3, TRANSIENT_NODES = 9, PARTITIONS = 64 };
    struct cluster cluster = {.alike = true, .groups = 1, .policy = {STAGE_1, PARTITIONS, 1}};
    actor_id before[PARTITIONS];
    for (unsigned n = 0; n < RELIABLE_NODES + TRANSIENT_NODES; n++) {
        cluster_join(&cluster, n < RELIABLE_NODES ? TIER_RELIABLE : TIER_TRANSIENT);
    }
    check_step(&cluster);
    memcpy(before, cluster.servers, sizeof before);
    cluster.policy.stage = STAGE_2;
    check_step(&cluster);
    assert_memory_equal(before, cluster.backups, sizeof before);
    cluster.policy.stage = STAGE_3;
    check_step(&cluster);
    assert_memory_equal(before, cluster.backups, sizeof before);
    cluster.policy.stage = STAGE_1;
    check_step(&cluster);
    assert_memory_equal(before, cluster.servers, sizeof before);
}

/* The largest clusters allowed. */
TEST(limits) {
    enum { COUNT = 4096, BUSY = 500 };
    FREED struct plan_node *nodes = calloc(COUNT, sizeof *nodes);
    actor_id *actors[3] = {calloc(WIRE_PARTITIONS_MAX, sizeof(actor_id)), calloc(WIRE_PARTITIONS_MAX, sizeof(actor_id)),
                           calloc(WIRE_SHARDS_MAX, sizeof(actor_id))};
    for (unsigned n = 0; n < COUNT; n++) {
        nodes[n] = (struct plan_node){.actor = node_actor(n),
                                      .tier = n < BUSY ? TIER_RELIABLE : TIER_TRANSIENT,
                                      .threads = UINT32_MAX,
                                      .servers = 1};
    }
    struct plan_policy policy = {STAGE_2, WIRE_PARTITIONS_MAX, WIRE_SHARDS_MAX};
    struct plan_result result = {actors[0], actors[1], actors[2]};
    assert_int_equal(plan(nodes, COUNT, &policy, &(struct plan_present){0}, &result, NULL), 0);
    for (unsigned n = 0; n < COUNT; n += 97) {
        assert_int_equal(count_of(nodes[n].actor, actors[2], WIRE_SHARDS_MAX, true), WIRE_SHARDS_MAX / COUNT);
    }
    for (unsigned i = 0; i < 3; i++) {
        free(actors[i]);
    }
}

TEST(stage) {
    static const struct {
        unsigned reliable, transient;
        enum stage present, expected;
    } cases[] = {
        {4, 0, STAGE_AUTO, STAGE_1},
        {4, 0, STAGE_3, STAGE_1},
        {0, 4, STAGE_2, STAGE_TRANSIENT},
        {0, 0, STAGE_AUTO, STAGE_1},
        {4, 4, STAGE_AUTO, STAGE_1},
        {4, 5, STAGE_AUTO, STAGE_2},
        {1, 15, STAGE_AUTO, STAGE_2},
        {1, 16, STAGE_AUTO, STAGE_3},
        {1, 16, STAGE_TRADITIONAL, STAGE_3},
        /* near a threshold the present stage is kept */
        {20, 21, STAGE_1, STAGE_1},
        {20, 22, STAGE_1, STAGE_1},
        {20, 23, STAGE_1, STAGE_2},
        {20, 19, STAGE_2, STAGE_2},
        {20, 17, STAGE_2, STAGE_1},
        {1, 16, STAGE_2, STAGE_2},
        {1, 17, STAGE_2, STAGE_3},
        {1, 14, STAGE_3, STAGE_3},
        {1, 13, STAGE_3, STAGE_2},
        {1, 100, STAGE_1, STAGE_3},
        {10, 1, STAGE_3, STAGE_1},
    };
    struct plan_thresholds thresholds = {PLAN_THRESHOLD_2, PLAN_THRESHOLD_3};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        print_message("%u reliable, %u transient\n", cases[c].reliable, cases[c].transient);
        assert_int_equal(plan_stage(cases[c].reliable, cases[c].transient, &thresholds, cases[c].present),
                         cases[c].expected);
    }
}
