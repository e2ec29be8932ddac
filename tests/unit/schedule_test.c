/* The schedule of duties: parts that follow each other, catch-ups after failures, and at random that every shard has
 * exactly one duty at each clock that is still to be done (I6), whatever happened. */
#include "agileml/control/schedule.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SHARDS = 24, NODES = 7, CLOCKS = 64 };

static actor_id node_of(unsigned number) {
    return (actor_id)(number + 2) << ACTOR_PART_BITS;
}

static void deal(actor_id *owners, unsigned nodes) {
    for (unsigned s = 0; s < SHARDS; s++) {
        owners[s] = node_of(s % nodes);
    }
}

struct duties {
    struct buffer *records, *shards;
};

static struct duties duties_of(const struct schedule *schedule) {
    struct duties duties;
    schedule_duties(schedule, &duties.records, &duties.shards);
    return duties;
}

static void duties_close(struct duties *duties) {
    buffer_drop(duties->records);
    buffer_drop(duties->shards);
}

/* The origin on duty for a shard at a clock; *count is how many there are. */
static actor_id on_duty(const struct duties *duties, uint32_t shard, uint64_t clock, unsigned *count) {
    const struct wire_duty *duty = (const void *)duties->records->data;
    const uint32_t *shards = (const void *)duties->shards->data;
    actor_id found = ACTOR_NONE;
    *count = 0;
    for (size_t d = 0; d < duties->records->size / sizeof *duty; d++) {
        for (uint32_t i = duty[d].first; i < duty[d].first + duty[d].count; i++) {
            if (shards[i] == shard && clock >= duty[d].from_clock && clock <= duty[d].until_clock) {
                found = duty[d].origin;
                (*count)++;
            }
        }
    }
    return found;
}

static void check_one_duty(const struct schedule *schedule, uint64_t after, uint64_t until) {
    struct duties duties = duties_of(schedule);
    for (uint64_t clock = after + 1; clock <= until; clock++) {
        actor_id *origins = NULL;
        unsigned capacity = 0;
        unsigned known = schedule_origins(schedule, clock, &origins, &capacity);
        for (uint32_t s = 0; s < SHARDS; s++) {
            unsigned count;
            actor_id origin = on_duty(&duties, s, clock, &count);
            assert_int_equal(count, 1);
            unsigned o = 0;
            while (o < known && origins[o] != origin) {
                o++;
            }
            assert_true(o < known);
        }
        free(origins);
    }
    duties_close(&duties);
}

static bool is_dead(const void *context, actor_id node) {
    const bool *dead = context;
    return dead[(node >> ACTOR_PART_BITS) - 2];
}

static void parts_follow_each_other(void **state) {
    (void)state;
    struct schedule schedule;
    actor_id owners[SHARDS];
    unsigned count;
    deal(owners, 3);
    schedule_open(&schedule, SHARDS, owners, 1);
    deal(owners, 5);
    schedule_prepare(&schedule, owners);
    struct duties duties = duties_of(&schedule);
    assert_int_equal(on_duty(&duties, 3, 1000, &count), node_of(0)); /* not named: the old ones go on */
    assert_int_equal(on_duty(&duties, 3, WIRE_CLOCK_NEVER, &count), node_of(3));
    duties_close(&duties);
    schedule_name(&schedule, 10);
    assert_int_equal(schedule_named(&schedule), 10);
    check_one_duty(&schedule, 0, 20);
    duties = duties_of(&schedule);
    assert_int_equal(on_duty(&duties, 3, 9, &count), node_of(0));
    assert_int_equal(on_duty(&duties, 3, 10, &count), node_of(3));
    duties_close(&duties);
    assert_int_equal(schedule_count(&schedule, node_of(3), 9), 0);
    assert_int_equal(schedule_count(&schedule, node_of(3), 10), 5);
    schedule_forget(&schedule, 8);
    assert_int_equal(schedule.part_count, 2);
    schedule_forget(&schedule, 9);
    assert_int_equal(schedule.part_count, 1);
    schedule_prepare(&schedule, owners);
    schedule_cancel(&schedule);
    assert_int_equal(schedule.part_count, 1);
    schedule_close(&schedule);
}

static void a_dead_nodes_clocks_become_catch_ups(void **state) {
    (void)state;
    struct schedule schedule;
    actor_id owners[SHARDS];
    actor_id takeover[SHARDS];
    bool dead[NODES] = {false, true};
    unsigned count;
    deal(owners, 3);
    for (unsigned s = 0; s < SHARDS; s++) {
        takeover[s] = node_of(s < SHARDS / 2 ? 0 : 2);
    }
    schedule_open(&schedule, SHARDS, owners, 1);
    assert_int_equal(
        schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){5, 5, 7, 2}), 7);
    check_one_duty(&schedule, 5, 20);
    struct duties duties = duties_of(&schedule);
    assert_int_equal(on_duty(&duties, 1, 6, &count), origin_catch_up(node_of(0), 2));
    assert_int_equal(on_duty(&duties, 1, 7, &count), origin_catch_up(node_of(0), 2));
    assert_int_equal(on_duty(&duties, 1, 8, &count), node_of(0)); /* with its own from then on */
    assert_int_equal(on_duty(&duties, 0, 6, &count), node_of(0)); /* a survivor's stay its own */
    duties_close(&duties);
    schedule_close(&schedule);
}

static void goes_back_behind_what_dead_nodes_did(void **state) {
    (void)state;
    struct schedule schedule;
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
    check_one_duty(&schedule, 7, 20);
    schedule_forget(&schedule, 4);
    dead[2] = true;
    schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){4, 5, 9, 3});
    check_one_duty(&schedule, 5, 20);
    struct duties duties = duties_of(&schedule);
    assert_int_equal(on_duty(&duties, 1, 6, &count), origin_catch_up(node_of(0), 3)); /* it was done, and is undone */
    assert_int_equal(on_duty(&duties, 2, 9, &count), origin_catch_up(node_of(0), 3));
    assert_int_equal(on_duty(&duties, 1, 8, &count), node_of(0)); /* what was its own before stays that */
    duties_close(&duties);
    schedule_forget(&schedule, 9);
    assert_int_equal(schedule.catch_up_count, 0);
    schedule_close(&schedule);
}

static void takes_over_what_was_taken_over(void **state) {
    (void)state;
    struct schedule schedule;
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
    assert_int_equal(
        schedule_recover(&schedule, is_dead, dead, takeover, &(struct schedule_restore){6, 6, 7, 3}), 9);
    check_one_duty(&schedule, 6, 20);
    struct duties duties = duties_of(&schedule);
    assert_int_equal(on_duty(&duties, 0, 7, &count), origin_catch_up(node_of(2), 3));
    assert_int_equal(on_duty(&duties, 1, 9, &count), origin_catch_up(node_of(2), 3));
    assert_int_equal(on_duty(&duties, 2, 9, &count), node_of(2));
    assert_int_equal(on_duty(&duties, 1, 10, &count), node_of(2));
    duties_close(&duties);
    schedule_close(&schedule);
}

/* An origin's duties are of different clocks: servers tell its flushes apart by the clock alone. */
static void check_disjoint(const struct schedule *schedule) {
    struct duties duties = duties_of(schedule);
    const struct wire_duty *duty = (const void *)duties.records->data;
    size_t count = duties.records->size / sizeof *duty;
    for (size_t a = 0; a < count; a++) {
        for (size_t b = a + 1; b < count; b++) {
            bool apart = duty[a].until_clock < duty[b].from_clock || duty[b].until_clock < duty[a].from_clock;
            bool prepared = duty[a].from_clock == WIRE_CLOCK_NEVER || duty[b].from_clock == WIRE_CLOCK_NEVER;
            assert_true(duty[a].origin != duty[b].origin || apart || prepared);
        }
    }
    duties_close(&duties);
}

static void every_shard_has_one_duty_whatever_happens(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct schedule schedule;
        actor_id owners[SHARDS];
        bool dead[NODES] = {false};
        uint64_t random = seed << 20;
        uint64_t restore = 0; /* beyond it everyone who has a duty is alive */
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
                restore = committed + hash_mix(random++) % (reached - committed + 1); /* even behind the last one */
                uint64_t end = schedule_recover(&schedule, is_dead, dead, owners,
                                                &(struct schedule_restore){committed, restore, reached, 2 + step});
                assert_true(end >= reached);
                reached = end;
            }
            check_one_duty(&schedule, restore, CLOCKS);
            check_disjoint(&schedule);
            struct duties duties = duties_of(&schedule);
            for (uint32_t s = 0; s < SHARDS; s++) {
                unsigned count;
                for (uint64_t clock = restore + 1; clock < CLOCKS; clock++) {
                    assert_false(is_dead(dead, actor_node(on_duty(&duties, s, clock, &count))));
                }
            }
            duties_close(&duties);
        }
        schedule_close(&schedule);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_each_other),
        cmocka_unit_test(a_dead_nodes_clocks_become_catch_ups),
        cmocka_unit_test(goes_back_behind_what_dead_nodes_did),
        cmocka_unit_test(takes_over_what_was_taken_over),
        cmocka_unit_test(every_shard_has_one_duty_whatever_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
