/* plan(): examples of clusters and where partitions and data shards belong. */
#include "agileml/control/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NODES_MAX = 4, SERVERS = 10 };

/* Node n is actor (n + 1) << 16; expected placements are node * SERVERS + server part, shards are nodes. */
static const struct example {
    const char *name;
    unsigned node_count;
    struct plan_node nodes[NODES_MAX];
    struct plan_policy policy;
    const char *error; /* part of the refusal; NULL: none */
    unsigned placement[8];
    unsigned shards[8];
} examples[] = {
    {"one node does all", 1, {{0, TIER_RELIABLE, 2, 1}}, {STAGE_1, 3, 4}, NULL, {1, 1, 1}, {0, 0, 0, 0}},
    {"stage 1 serves on the reliable node only",
     3,
     {{0, TIER_RELIABLE, 1, 1}, {0, TIER_TRANSIENT, 1, 1}, {0, TIER_TRANSIENT, 1, 1}},
     {STAGE_1, 4, 6},
     NULL,
     {1, 1, 1, 1},
     {0, 0, 1, 1, 2, 2}},
    {"traditional serves on all",
     3,
     {{0, TIER_RELIABLE, 1, 1}, {0, TIER_TRANSIENT, 1, 1}, {0, TIER_TRANSIENT, 1, 1}},
     {STAGE_TRADITIONAL, 4, 3},
     NULL,
     {1, 11, 21, 1},
     {0, 1, 2}},
    {"partitions are dealt over server threads too",
     2,
     {{0, TIER_RELIABLE, 1, 2}, {0, TIER_RELIABLE, 1, 3}},
     {STAGE_1, 8, 2},
     NULL,
     {1, 11, 2, 12, 1, 13, 2, 11},
     {0, 1}},
    {"shards go by threads",
     2,
     {{0, TIER_RELIABLE, 1, 1}, {0, TIER_TRANSIENT, 3, 0}},
     {STAGE_1, 1, 8},
     NULL,
     {1},
     {0, 0, 1, 1, 1, 1, 1, 1}},
    {"a node without threads works on nothing",
     2,
     {{0, TIER_RELIABLE, 0, 1}, {0, TIER_TRANSIENT, 2, 1}},
     {STAGE_1, 2, 2},
     NULL,
     {1, 1},
     {1, 1}},
    {"fewer shards than nodes",
     3,
     {{0, TIER_RELIABLE, 1, 1}, {0, TIER_TRANSIENT, 1, 1}, {0, TIER_TRANSIENT, 1, 1}},
     {STAGE_1, 1, 2},
     NULL,
     {1},
     {1, 2}},
    {"a reliable node without servers serves nothing",
     2,
     {{0, TIER_RELIABLE, 1, 0}, {0, TIER_RELIABLE, 1, 1}},
     {STAGE_1, 2, 2},
     NULL,
     {11, 11},
     {0, 1}},
    {"stage 1 needs a reliable node", 1, {{0, TIER_TRANSIENT, 1, 1}}, {STAGE_1, 1, 1}, "reliable", {0}, {0}},
    {"somebody must serve", 1, {{0, TIER_RELIABLE, 1, 0}}, {STAGE_TRADITIONAL, 1, 1}, "serve", {0}, {0}},
    {"somebody must work", 1, {{0, TIER_RELIABLE, 0, 1}}, {STAGE_1, 1, 1}, "threads", {0}, {0}},
};

static actor_id node_actor(unsigned node) {
    return (actor_id)(node + 1) << ACTOR_PART_BITS;
}

static void test_examples(void **state) {
    (void)state;
    for (size_t e = 0; e < sizeof examples / sizeof examples[0]; e++) {
        const struct example *example = &examples[e];
        struct plan_node nodes[NODES_MAX];
        actor_id placement[8] = {0};
        actor_id shards[8] = {0};
        struct error error = {0};
        for (unsigned n = 0; n < example->node_count; n++) {
            nodes[n] = example->nodes[n];
            nodes[n].actor = node_actor(n);
        }
        print_message("%s\n", example->name);
        int result = plan(nodes, example->node_count, &example->policy, placement, shards, &error);
        if (example->error != NULL) {
            assert_int_equal(result, AML_EINPUT);
            assert_non_null(strstr(error.text, example->error));
            continue;
        }
        assert_int_equal(result, 0);
        for (unsigned p = 0; p < example->policy.partitions; p++) {
            unsigned expected = example->placement[p];
            assert_int_equal(placement[p], actor_of_part(node_actor(expected / SERVERS), expected % SERVERS));
        }
        for (unsigned s = 0; s < example->policy.shards; s++) {
            assert_int_equal(shards[s], node_actor(example->shards[s]));
        }
    }
}

/* Loads differ by at most one partition and one shard's worth of threads. */
static void test_large_clusters_are_even(void **state) {
    (void)state;
    enum { COUNT = 64, PARTITIONS = 100, SHARDS = 1000 };
    struct plan_node nodes[COUNT];
    actor_id placement[PARTITIONS];
    actor_id shards[SHARDS];
    unsigned served[COUNT] = {0};
    unsigned owned[COUNT] = {0};
    for (unsigned n = 0; n < COUNT; n++) {
        nodes[n] = (struct plan_node){.actor = node_actor(n), .tier = n < 4 ? 0 : 1, .threads = 2, .servers = 1};
    }
    struct plan_policy policy = {.stage = STAGE_TRADITIONAL, .partitions = PARTITIONS, .shards = SHARDS};
    assert_int_equal(plan(nodes, COUNT, &policy, placement, shards, NULL), 0);
    for (unsigned p = 0; p < PARTITIONS; p++) {
        served[(placement[p] >> ACTOR_PART_BITS) - 1]++;
    }
    for (unsigned s = 0; s < SHARDS; s++) {
        owned[(shards[s] >> ACTOR_PART_BITS) - 1]++;
    }
    for (unsigned n = 0; n < COUNT; n++) {
        assert_in_range(served[n], PARTITIONS / COUNT, PARTITIONS / COUNT + 1);
        assert_in_range(owned[n], SHARDS / COUNT, SHARDS / COUNT + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_large_clusters_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
