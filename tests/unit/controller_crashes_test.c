/* The controller and apps that crash. */
#include "tests/unit/controller_fixture.h"

/* The nodes report a loss, and all recover from it. */
static void recover_all(struct fake *fake) {
    play(fake);
    play_recovery(fake);
}

static void expect_crash_end(struct fake *fake, const char *text) {
    assert_true(fake->controller.phase >= PHASE_LEAVE);
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    if (strstr(fake->end.text, text) == NULL || strstr(fake->end.text, "the only copy") != NULL) {
        fail_msg("'%s', expected '%s'", fake->end.text, text);
    }
}

/* The app crashes at clock 12 on a node, then on the node that repeats that clock. The controller is killed between
 * the crashes. */
TEST(the_second_crash_at_the_same_clock_ends_the_job) {
    for (unsigned killed = 0; killed < 2; killed++) {
        struct fake *fake = stored_cluster(STAGE_1, 20);
        cluster_open(fake, 1, 4);
        play_to(fake, 11);
        crash(fake, 2, 11, "clock", 12);
        assert_true(sent(fake, node(2), MESSAGE_DONE, NULL) > 0); /* the crashed process may end */
        recover_all(fake);
        assert_int_equal(lines_with(fake,
                                    "n2 (host, pid 1) died of signal 11 (Segmentation fault) in the app's function "
                                    "clock, at clock 12"),
                         1);
        if (killed > 0) {
            kill_controller(fake);
        }
        crash(fake, 3, 11, "clock", 12);
        expect_crash_end(fake,
                         "n2 (host, pid 1) and then n3 (host, pid 1) died of signal 11 (Segmentation fault) in the "
                         "app's function clock, at clock 12");
    }
}

/* At any point of the storing of a crash the controller is killed; the next controller recovers from it. */
TEST(a_controller_that_is_killed_when_it_hears_of_a_crash) {
    static const enum kill kills[] = {KILL_BEFORE_WRITE, KILL_AFTER_WRITE, KILL_AFTER_CALL};
    for (unsigned run = 0; run < 9; run++) {
        struct fake *fake = stored_cluster(STAGE_1, 20);
        cluster_open(fake, 1, 3);
        play_to(fake, 11);
        fake->kill.where = kills[run % 3];
        fake->kill.at = (run % 3 < 2 ? fake->store.writes : fake->kill.calls) + 1 + run / 3;
        crash(fake, 2, 11, "clock", 12);
        recover_all(fake);
        play_to_end(fake);
        assert_int_equal(fake->kill.count, 1);
        assert_int_equal(fake->end.code, 0);
        assert_int_equal(fake->clock, 2 * 20);
        expect_report(fake, 20, false); /* the report lacks progress that was not stored */
    }
}

TEST(other_crashes_are_failures_like_any) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 5, 11);
    crash(fake, 5, 11, "clock", 12);
    recover_all(fake);
    crash(fake, 4, 6, "clock", 12); /* another signal */
    recover_all(fake);
    play_to(fake, 20);
    crash(fake, 3, 11, "clock", 21); /* another clock */
    recover_all(fake);
    crash(fake, 2, 11, "read", 0); /* at no clock */
    expect_good_end(fake, 20);
    assert_int_equal(fake->controller.progress.failures, 4);
}

TEST(which_crashes_are_the_same) {
    static const struct {
        const char *function;
        uint64_t clocks[2];
    } cases[] = {{"clock", {12, 12}},    {"begin", {12, 12}}, {"evaluate", {11, 12}},
                 {"evaluate", {10, 12}}, {"read", {0, 0}},    {"", {12, 12}}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct fake *fake = cluster_at(STAGE_1, 20, 1, 3, 11);
        crash(fake, 1, 6, cases[c].function, cases[c].clocks[0]);
        recover_all(fake);
        crash(fake, 2, 6, cases[c].function, cases[c].clocks[1]);
        expect_crash_end(fake, "n1 (host, pid 1) and then n2 (host, pid 1) died of signal 6 (Aborted)");
    }
}

/* CRASHED messages of two processes are lost, or come after their ends: the signals alone are known. */
TEST(crashes_known_by_the_signal_alone) {
    for (unsigned late = 0; late < 2; late++) {
        struct fake *fake = cluster_at(STAGE_1, 20, 1, 3, 11);
        die(fake, 1, 8);
        if (late > 0) {
            crash(fake, 1, 8, "clock", 13);
            assert_true(sent(fake, node(1), MESSAGE_DONE, NULL) > 0);
        }
        recover_all(fake);
        if (late > 0) {
            crash(fake, 2, 8, "clock", 13);
        } else {
            die(fake, 2, 8);
        }
        expect_crash_end(fake,
                         "n1 (host, pid 1) and then n2 (host, pid 1) died of signal 8 (Floating point exception)");
    }
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 3, 11);
    die(fake, 1, 9); /* killed by others */
    recover_all(fake);
    die(fake, 2, 9);
    expect_good_end(fake, 20);
}

/* The job's error names the crash, not its consequences. */
TEST(a_crash_that_the_job_does_not_survive) {
    static const enum stage stages[] = {STAGE_1, STAGE_TRADITIONAL};
    for (unsigned s = 0; s < 2; s++) {
        struct fake *fake = cluster_new(stages[s], 20);
        cluster_open(fake, 2, 1);
        play_to(fake, 11);
        crash(fake, 0, 6, "clock", 12);
        for (unsigned r = 0; r < 10 && fake->controller.phase < PHASE_LEAVE; r++) {
            play(fake);
        }
        expect_crash_end(fake, "n0 (host, pid 1) died of signal 6 (Aborted) in the app's function clock, at clock 12");
    }
}

/* A transient node's crash is not blamed for state lost with a killed reliable node. */
TEST(a_crash_is_not_blamed_for_what_others_had) {
    struct fake *fake = cluster_at(STAGE_1, 20, 2, 2, 11);
    crash(fake, 2, 6, "clock", 12);
    die(fake, 0, 9);
    for (unsigned r = 0; r < 10 && fake->controller.phase < PHASE_LEAVE; r++) {
        play(fake);
    }
    play_to_end(fake);
    assert_int_equal(fake->end.code, AML_EFAIL);
    assert_non_null(strstr(fake->end.text, "the only copy of partition"));
}

TEST(nodes_that_crash_before_they_take_part) {
    struct fake *fake = cluster_at(STAGE_1, 20, 1, 2, 5);
    for (unsigned n = 3; n < 5; n++) {
        enter(fake, n, TIER_TRANSIENT);
        play_rounds(fake, 1);
        assert_int_equal(fake->controller.member_count, 4);
        crash(fake, n, 11, "read", 0);
        recover_all(fake);
    }
    expect_good_end(fake, 20);
}
