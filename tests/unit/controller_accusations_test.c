/* The controller and accusations of nodes by others. */
#include "tests/unit/controller_fixture.h"

/* Four nodes in training at clock 4: one reliable, the others transient, each a process of its own. */
static struct fake *begin_with_four(void) {
    static const char *const names[] = {"one", "two", "three", "four"};
    struct fake *fake = fake_new((struct job_terms){.clocks_per_iteration = 1, .iterations = 100});
    fake->options.transient = 3;
    fake_start(fake);
    for (unsigned n = 0; n < 4; n++) {
        join(fake, n, names[n], n == 0 ? TIER_RELIABLE : TIER_TRANSIENT, &fake->terms);
        fake->controller.members[n].process_id = 11 + n;
    }
    for (unsigned n = 0; n < 4; n++) {
        heartbeat(fake, n, NODE_LOADED, 0);
        loaded(fake, n, 1, SHARDS / 4 * SHARD_ITEMS);
    }
    assert_int_equal(fake->controller.phase, PHASE_TRAIN);
    return fake;
}

/* The remaining nodes answer the fence, and the job goes on. */
static void recover_from_clock_0(struct fake *fake) {
    assert_int_equal(fake->controller.change.state, CHANGE_RECOVER);
    for (unsigned n = 0; n < 4; n++) {
        if (controller_find_member(&fake->controller, node(n)) != NULL) {
            answer_fence(fake, n, 0, 0);
        }
    }
    assert_true(fake->controller.change.state != CHANGE_RECOVER);
}

static bool takes_part(struct fake *fake, unsigned number) {
    return controller_find_member(&fake->controller, node(number)) != NULL;
}

/* A node that sends an impossible message is removed, once. An accusation from an earlier epoch has no effect. */
TEST(who_sends_what_can_not_be_is_given_up) {
    struct fake *fake = begin_with_four();
    uint64_t epoch = fake->controller.plan.epoch;
    accuse(fake, 2, 1, epoch - 1);
    accuse(fake, 2, 5, epoch); /* no node of the job */
    accuse(fake, 5, 1, epoch); /* an accusation by an unknown node */
    assert_int_equal(fake->controller.member_count, 4);
    accuse(fake, 2, 1, epoch);
    accuse(fake, 2, 1, epoch);
    assert_int_equal(
        lines_with(
            fake,
            "three (host) says that two (host, pid 12) sent it what can't be: FLUSH: bad rows: two is given up\""),
        1);
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 3, 2, epoch); /* an accusation of the old epoch */
    assert_int_equal(fake->controller.member_count, 3);
    accuse(fake, 2, 2, fake->controller.plan.epoch); /* a node's worker accuses its own server */
    assert_false(takes_part(fake, 2));
}

/* A node that accuses one node after another costs one node beside itself. */
TEST(a_false_accuser_costs_one_other_node) {
    struct fake *fake = begin_with_four();
    accuse(fake, 2, 1, fake->controller.plan.epoch);
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 2, 3, fake->controller.plan.epoch);
    assert_true(takes_part(fake, 3));
    assert_false(takes_part(fake, 2));
    assert_int_equal(lines_with(fake, "FLUSH: bad rows: not believed, three is given up"), 1);
}

/* A restarted process that repeats an impossible message does not make its accuser less credible. */
TEST(a_process_that_starts_anew_is_the_same) {
    for (unsigned keyed = 0; keyed < 2; keyed++) {
        struct fake *fake = begin_with_four();
        struct member *two = controller_find_member(&fake->controller, node(1));
        struct member *four = controller_find_member(&fake->controller, node(3));
        memset(two->pass.key, keyed > 0 ? 'k' : 0, sizeof two->pass.key - 1);
        memset(four->pass.key, keyed > 0 ? 'k' : 0, sizeof four->pass.key - 1);
        /* with keys, the process number that a node reports is ignored */
        four->process_id = keyed > 0 ? 99 : two->process_id;
        accuse(fake, 2, 1, fake->controller.plan.epoch);
        recover_from_clock_0(fake);
        accuse(fake, 2, 3, fake->controller.plan.epoch);
        assert_true(takes_part(fake, 2));
        assert_false(takes_part(fake, 3));
    }
}

/* A single transient node's accusation is not enough against a reliable node. */
TEST(a_reliable_node_is_believed) {
    struct fake *fake = begin_with_four();
    accuse(fake, 1, 0, fake->controller.plan.epoch);
    assert_true(takes_part(fake, 0));
    assert_false(takes_part(fake, 1));
    recover_from_clock_0(fake);
    accuse(fake, 2, 0, fake->controller.plan.epoch);
    assert_false(takes_part(fake, 0));
    assert_true(takes_part(fake, 2));
    fake = begin_with_four();
    for (unsigned n = 1; n < 4; n++) {
        accuse(fake, 0, n, fake->controller.plan.epoch);
        assert_false(takes_part(fake, n));
        recover_from_clock_0(fake);
    }
}

/* Followers that fall behind make the controller double the distance of commit points, up to a plan's limit. The
 * distance stays when followers catch up. */
TEST(late_commits_make_commit_points_rarer) {
    static const struct {
        uint64_t lag;
        uint32_t every;
    } cases[] = {{9, 6}, {150, WIRE_COMMIT_EVERY_MAX}}; /* 9 clocks are less than two distances of 6 */
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct fake *fake = stored_cluster(STAGE_3, 100000);
        fake->terms.clocks_per_iteration = 3;
        cluster_open(fake, 1, 3);
        play_to(fake, 2);
        assert_int_equal(fake->controller.plan.commit_every, 3);
        fake->times.lag = cases[c].lag;
        play_rounds(fake, 950);
        fake->times.lag = 0;
        play_rounds(fake, 100);
        assert_int_equal(fake->controller.plan.commit_every, cases[c].every);
        assert_int_equal(fake->controller.plan.view.terms.commit_every, cases[c].every);
        kill_controller(fake);
        play_rounds(fake, 50);
        assert_int_equal(fake->controller.plan.commit_every, cases[c].every);
    }
}
