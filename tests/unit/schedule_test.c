/* The schedule of assignments: periods that follow each other, and catch-ups after failures. In random sequences of
 * events every shard has exactly one assignment at each outstanding clock (I6). */
#include "agileml/control/decide/schedule.h"
#include "tests/test.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <stdlib.h>

enum { SHARDS = 24, NODES = 7, CLOCKS = 64 };

static actor_id node_of(unsigned number) {
    return (actor_id)(number + 2) << ACTOR_PART_BITS;
}

static void deal(actor_id *owners, unsigned nodes) {
    for (unsigned s = 0; s < SHARDS; s++) {
        owners[s] = node_of(s % nodes);
    }
}

struct assignments {
    struct buffer *records, *shards;
};

static struct assignments assignments_of(const struct schedule *schedule) {
    struct assignments assignments;
    schedule_assignments(schedule, &assignments.records, &assignments.shards);
    return assignments;
}

static void assignments_close(struct assignments *assignments) {
    buffer_drop(assignments->records);
    buffer_drop(assignments->shards);
}

/* The origin assigned to a shard at a clock; *count gets the number of such assignments. */
static actor_id on_assignment(const struct assignments *assignments, uint32_t shard, uint64_t clock, unsigned *count) {
    const struct wire_assignment *assignment = (const void *)assignments->records->data;
    const uint32_t *shards = (const void *)assignments->shards->data;
    actor_id found = ACTOR_NONE;
    *count = 0;
    for (size_t d = 0; d < assignments->records->size / sizeof *assignment; d++) {
        for (uint32_t i = assignment[d].first; i < assignment[d].first + assignment[d].count; i++) {
            if (shards[i] == shard && clock >= assignment[d].from_clock && clock <= assignment[d].until_clock) {
                found = assignment[d].origin;
                (*count)++;
            }
        }
    }
    return found;
}

static void check_one_assignment(const struct schedule *schedule, uint64_t after, uint64_t until) {
    CLOSED_BY(assignments_close) struct assignments assignments = assignments_of(schedule);
    for (uint64_t clock = after + 1; clock <= until; clock++) {
        FREED actor_id *origins = NULL;
        unsigned capacity = 0;
        unsigned known = schedule_origins(schedule, clock, &origins, &capacity);
        for (uint32_t s = 0; s < SHARDS; s++) {
            unsigned count;
            actor_id origin = on_assignment(&assignments, s, clock, &count);
            assert_int_equal(count, 1);
            unsigned o = 0;
            while (o < known && origins[o] != origin) {
                o++;
            }
            assert_true(o < known);
        }
    }
}

static bool is_dead(const void *context, actor_id node) {
    const bool *dead = context;
    return dead[(node >> ACTOR_PART_BITS) - 2];
}

TEST(parts_follow_each_other) {
    CLOSED_BY(schedule_close) struct schedule schedule;
    actor_id owners[SHARDS];
    unsigned count;
    deal(owners, 3);
    schedule_open(&schedule, SHARDS, owners, 1);
    deal(owners, 5);
    schedule_prepare(&schedule, owners);
    struct assignments assignments = assignments_of(&schedule);
    /* the switch's clock is not set yet: the old assignments go on */
    assert_int_equal(on_assignment(&assignments, 3, 1000, &count), node_of(0));
    assert_int_equal(on_assignment(&assignments, 3, WIRE_CLOCK_NEVER, &count), node_of(3));
    assignments_close(&assignments);
    schedule_name(&schedule, 10);
    assert_int_equal(schedule_named(&schedule), 10);
    check_one_assignment(&schedule, 0, 20);
    assignments = assignments_of(&schedule);
    assert_int_equal(on_assignment(&assignments, 3, 9, &count), node_of(0));
    assert_int_equal(on_assignment(&assignments, 3, 10, &count), node_of(3));
    assignments_close(&assignments);
    assert_int_equal(schedule_count(&schedule, node_of(3), 9), 0);
    assert_int_equal(schedule_count(&schedule, node_of(3), 10), 5);
    schedule_forget(&schedule, 8);
    assert_int_equal(schedule.part_count, 2);
    schedule_forget(&schedule, 9);
    assert_int_equal(schedule.part_count, 1);
    schedule_prepare(&schedule, owners);
    schedule_cancel(&schedule);
    assert_int_equal(schedule.part_count, 1);
}

TEST(a_dead_nodes_clocks_become_catch_ups) {
    CLOSED_BY(schedule_close) struct schedule schedule;
    actor_id owners[SHARDS];
    actor_id takeover[SHARDS];
    bool dead[NODES] = {false, true};
    unsigned count;
    deal(owners, 3);
    for (unsigned s = 0; s < SHARDS; s++) {
        takeover[s] = node_of(s < SHARDS / 2 ? 0 : 2);
    }
    schedule_open(&schedule, SHARDS, owners, 1);
    assert_int_equal(schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){5, 5, 7, 2}), 7);
    check_one_assignment(&schedule, 5, 20);
    CLOSED_BY(assignments_close) struct assignments assignments = assignments_of(&schedule);
    assert_int_equal(on_assignment(&assignments, 1, 6, &count), origin_catch_up(node_of(0), 2));
    assert_int_equal(on_assignment(&assignments, 1, 7, &count), origin_catch_up(node_of(0), 2));
    /* from then on the node's own assignment */
    assert_int_equal(on_assignment(&assignments, 1, 8, &count), node_of(0));
    assert_int_equal(on_assignment(&assignments, 0, 6, &count), node_of(0)); /* a survivor keeps its own clocks */
}

TEST(goes_back_behind_what_dead_nodes_did) {
    CLOSED_BY(schedule_close) struct schedule schedule;
    actor_id owners[SHARDS];
    actor_id takeover[SHARDS];
    bool dead[NODES] = {false, true};
    unsigned count;
    deal(owners, 3);
    for (unsigned s = 0; s < SHARDS; s++) {
        takeover[s] = node_of(0);
    }
    schedule_open(&schedule, SHARDS, owners, 1);
    schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){3, 7, 7, 2});
    check_one_assignment(&schedule, 7, 20);
    schedule_forget(&schedule, 4);
    dead[2] = true;
    schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){4, 5, 9, 3});
    check_one_assignment(&schedule, 5, 20);
    struct assignments assignments = assignments_of(&schedule);
    assert_int_equal(on_assignment(&assignments, 1, 6, &count),
                     origin_catch_up(node_of(0), 3)); /* the clock was done, and is undone */
    assert_int_equal(on_assignment(&assignments, 2, 9, &count), origin_catch_up(node_of(0), 3));
    assert_int_equal(on_assignment(&assignments, 1, 8, &count), node_of(0)); /* its earlier clocks remain its own */
    assignments_close(&assignments);
    schedule_forget(&schedule, 9);
    assert_int_equal(schedule.catch_up_count, 0);
}

TEST(takes_over_what_was_taken_over) {
    CLOSED_BY(schedule_close) struct schedule schedule;
    actor_id owners[SHARDS];
    actor_id takeover[SHARDS];
    bool dead[NODES] = {false, true};
    unsigned count;
    deal(owners, 3);
    for (unsigned s = 0; s < SHARDS; s++) {
        takeover[s] = node_of(0);
    }
    schedule_open(&schedule, SHARDS, owners, 1);
    schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){5, 5, 9, 2});
    dead[0] = true;
    for (unsigned s = 0; s < SHARDS; s++) {
        takeover[s] = node_of(2);
    }
    assert_int_equal(schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){6, 6, 7, 3}), 9);
    check_one_assignment(&schedule, 6, 20);
    CLOSED_BY(assignments_close) struct assignments assignments = assignments_of(&schedule);
    assert_int_equal(on_assignment(&assignments, 0, 7, &count), origin_catch_up(node_of(2), 3));
    assert_int_equal(on_assignment(&assignments, 1, 9, &count), origin_catch_up(node_of(2), 3));
    assert_int_equal(on_assignment(&assignments, 2, 9, &count), node_of(2));
    assert_int_equal(on_assignment(&assignments, 1, 10, &count), node_of(2));
}

/* An origin's assignments have disjoint clocks, as servers identify its flushes by the clock alone. */
static void check_disjoint(const struct schedule *schedule) {
    CLOSED_BY(assignments_close) struct assignments assignments = assignments_of(schedule);
    const struct wire_assignment *assignment = (const void *)assignments.records->data;
    size_t count = assignments.records->size / sizeof *assignment;
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a + 1; b < count; b++) {
            bool apart = assignment[a].until_clock < assignment[b].from_clock ||
                         assignment[b].until_clock < assignment[a].from_clock;
            bool prepared =
                assignment[a].from_clock == WIRE_CLOCK_NEVER || assignment[b].from_clock == WIRE_CLOCK_NEVER;
            assert_true(assignment[a].origin != assignment[b].origin || apart || prepared);
        }
    }
}

TEST(every_shard_has_one_assignment_whatever_happens) {
    const uint64_t seeds = getenv("PROTEUS_SANITIZED") != NULL ? 400 : 2000;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        CLOSED_BY(schedule_close) struct schedule schedule;
        actor_id owners[SHARDS];
        bool dead[NODES] = {false};
        uint64_t random = seed << 20;
        uint64_t restore = 0; /* all nodes with an assignment after this clock are alive */
        uint64_t committed = 0;
        uint64_t reached = 0;
        unsigned alive = NODES;
        for (unsigned s = 0; s < SHARDS; s++) {
            owners[s] = node_of((unsigned)(hash_mix(random++) % NODES));
        }
        schedule_open(&schedule, SHARDS, owners, 1);
        for (unsigned step = 0; step < 8 && reached < CLOCKS - 8; step++) {
            unsigned kind = (unsigned)(hash_mix(random++) % 3);
            for (unsigned s = 0; s < SHARDS; s++) {
                unsigned n = (unsigned)(hash_mix(random++) % NODES);
                while (dead[n]) {
                    n = (n + 1) % NODES;
                }
                owners[s] = node_of(n);
            }
            if (kind == 0) {
                schedule_prepare(&schedule, owners);
                uint64_t named = reached + 1 + hash_mix(random++) % 3;
                for (unsigned p = 0; p + 1 < schedule.part_count; p++) {
                    named = schedule.parts[p].from_clock > named ? schedule.parts[p].from_clock : named;
                }
                schedule_name(&schedule, named);
            } else if (kind == 1) {
                reached += 1 + hash_mix(random++) % 4;
                committed += hash_mix(random++) % (reached - committed + 1);
                schedule_forget(&schedule, committed);
                restore = committed > restore ? committed : restore;
            } else if (alive > 1) {
                unsigned victim = (unsigned)(hash_mix(random++) % NODES);
                alive -= dead[victim] || alive == 1 ? 0 : 1;
                dead[victim] = true;
                for (unsigned s = 0; s < SHARDS; s++) {
                    unsigned n = (unsigned)((owners[s] >> ACTOR_PART_BITS) - 2);
                    while (dead[n]) {
                        n = (n + 1) % NODES;
                    }
                    owners[s] = node_of(n);
                }
                schedule_cancel(&schedule);
                /* even before the previous restore */
                restore = committed + hash_mix(random++) % (reached - committed + 1);
                uint64_t end = schedule_recover(&schedule, is_dead, dead, owners,
                                                &(struct schedule_restore){committed, restore, reached, 2 + step});
                assert_true(end >= reached);
                reached = end;
            }
            check_one_assignment(&schedule, restore, CLOCKS);
            check_disjoint(&schedule);
            CLOSED_BY(assignments_close) struct assignments assignments = assignments_of(&schedule);
            for (uint32_t s = 0; s < SHARDS; s++) {
                unsigned count;
                for (uint64_t clock = restore + 1; clock < CLOCKS; clock++) {
                    assert_false(is_dead(dead, actor_node(on_assignment(&assignments, s, clock, &count))));
                }
            }
        }
    }
}
