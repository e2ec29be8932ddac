/* The controller and revoked tokens: who came by one is cut off, and the list outlives the controller. */
#include "tests/unit/controller_fixture.h"

static const uint64_t SPOT = 0x5507; /* the token of nodes 2 and 3 and of the observer */
static const uint64_t OWN = 0x1111;  /* of all others */

static struct {
    uint64_t serials[REVOKED_MAX];
    size_t count;
} listed; /* what the io refuses */

static uint64_t token_of(struct io *io, actor_id actor) {
    bool spot = actor == node(2) || actor == node(3) || actor == node(OBSERVER);
    return spot ? SPOT : OWN;
}

static void list(struct io *io, const uint64_t *serials, size_t count) {
    assert_true(count <= REVOKED_MAX);
    if (((struct fake_io *)(void *)io)->mute) { /* the process is killed */
        return;
    }
    memcpy(listed.serials, serials, count * sizeof *serials);
    listed.count = count;
}

static struct fake *with_tokens(struct fake *fake) {
    fake->io.io.token_of = token_of;
    fake->io.io.revoke = list;
    listed.count = 0;
    return fake;
}

static void revoke(struct fake *fake, uint64_t serial) {
    struct message message = {.type = MESSAGE_REVOKE, .revoke = {.request = 17, .serial = serial}};
    give(fake, OPERATOR, &message);
}

/* The io lets the holders of revoked tokens no longer speak. */
static void cut(struct fake *fake) {
    for (unsigned n = 0; n < PLAYERS_MAX; n++) {
        bool gone = listed.count > 0 && listed.serials[0] == token_of(NULL, node(n));
        fake->players[n].there = fake->players[n].there && !gone;
    }
}

TEST(who_came_by_a_revoked_token_is_cut_off) {
    struct fake *fake = with_tokens(cluster_new(STAGE_2, 20));
    struct message told;
    cluster_open(fake, 1, 3);
    play_to(fake, 5);
    unsigned observers = fake->controller.report.observer_count;
    forget(fake);
    revoke(fake, SPOT);
    assert_int_equal(sent(fake, node(2), MESSAGE_ABORT, &told), 1);
    assert_int_equal(told.text.code, AML_EINPUT);
    assert_non_null(strstr(told.text.text, "its --key, the token 0000000000005507, was revoked"));
    assert_int_equal(sent(fake, node(3), MESSAGE_ABORT, NULL), 1);
    assert_int_equal(sent(fake, node(1), MESSAGE_ABORT, NULL), 0);
    assert_true(sent(fake, node(1), MESSAGE_FENCE, NULL) > 0); /* the epoch is over: what they have sent is void */
    assert_int_equal(sent(fake, node(OBSERVER), MESSAGE_ABORT, NULL), observers > 0 ? 1 : 0);
    assert_int_equal(fake->controller.report.observer_count, 0);
    assert_int_equal(fake->controller.member_count, 2);
    assert_int_equal(listed.count, 1);
    assert_true(listed.serials[0] == SPOT);
    expect_outcome(fake, OPERATOR, 0, observers > 0 ? "cut off 2 nodes and 1 observer" : "cut off 2 nodes");
    revoke(fake, SPOT); /* a repeat */
    expect_outcome(fake, OPERATOR, 0, "nobody in the job came by it");
    assert_int_equal(listed.count, 1);
    cut(fake);
    play_to_end(fake);
    assert_int_equal(fake->end.code, 0);
    assert_int_equal(lines_with(fake, "\"event\":\"revoke\""), 1);
    assert_int_equal(lines_with(fake, "came by the token 0000000000005507, which was revoked"), 2);
}

/* Wherever the controller is killed: once it has answered, the token is void for its successor, too. */
TEST(a_revoked_token_outlives_the_controller) {
    static const enum kill kills[] = {KILL_AFTER_CALL, KILL_BEFORE_WRITE, KILL_AFTER_WRITE};
    for (unsigned k = 0; k < 3; k++) {
        bool killed = true;
        for (unsigned at = 1; killed; at++) {
            struct fake *fake = with_tokens(stored_cluster(STAGE_2, 12));
            fake->kill.where = kills[k];
            fake->kill.at = at;
            cluster_open(fake, 1, 3);
            play_to(fake, 5);
            for (unsigned a = 0; a < 3 && listed.count == 0; a++) { /* a killed controller may not have received it */
                revoke(fake, SPOT);
            }
            cut(fake);
            deliver(fake);
            play_to(fake, 8);
            assert_int_equal(fake->controller.features.revoked.count, 1);
            assert_int_equal(listed.count, 1);
            play_to_end(fake);
            assert_int_equal(fake->end.code, 0);
            assert_int_equal(fake->clock, 24);
            assert_int_equal(lines_with(fake, "\"event\":\"revoke\""), 1);
            expect_report(fake, 12, false);
            killed = fake->kill.count > 0;
        }
    }
}

TEST(what_can_not_be_revoked) {
    struct fake *fake = fake_open((struct job_terms){.clocks_per_iteration = 1, .iterations = 10});
    begin(fake);
    forget(fake);
    revoke(fake, SPOT);
    expect_outcome(fake, OPERATOR, AML_EINPUT, "this job has no key, and so no tokens");
    with_tokens(fake);
    revoke(fake, 0);
    expect_outcome(fake, OPERATOR, AML_EINPUT, "the job's key can't be revoked");
    for (uint64_t serial = 1; serial <= REVOKED_MAX; serial++) {
        revoke(fake, SPOT + serial);
        expect_outcome(fake, OPERATOR, 0, "revoked");
    }
    revoke(fake, SPOT);
    expect_outcome(fake, OPERATOR, AML_ELIMIT, "1024 tokens of this job are revoked already");
    assert_int_equal(listed.count, REVOKED_MAX);
    revoke(fake, SPOT + 1);
    expect_outcome(fake, OPERATOR, 0, "revoked");
    controller_abort(&fake->controller, AML_EFAIL, "over");
    revoke(fake, SPOT + 1);
    expect_outcome(fake, OPERATOR, AML_EINPUT, "the job is over");
}
