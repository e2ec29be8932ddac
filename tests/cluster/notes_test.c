/* Lines that an app says (aml_note), in jobs of real processes: each is shown once for the job, in the report and to
 * people, whichever processes say it, in whatever function, and whatever becomes of the controller. */
#include "tests/cluster/shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agileml.h"

#define SUM  "$tests/sum_app --data ratings.csv"
#define NOTE "\"type\":\"note\""

static int set_up(void **state) {
    (void)state;
    if (shell_open("notes_test") != 0) {
        return -1;
    }
    run_well("for u in 1 2 3 4 5; do for i in 1 2 3 4; do echo $u,$i,$(((u * i) %% 5 + 1)); done; done >ratings.csv");
    return 0;
}

static unsigned times_in(const char *name, const char *text) {
    char *all = read_text(name);
    unsigned count = 0;
    for (const char *at = strstr(all, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    free(all);
    return count;
}

/* What every process says in configure and read, and the one that saves in finish, just before the job's end. */
static void assert_said_once(const char *report) {
    assert_int_equal(times_in(report, "\"text\":\"configure: line 1\""), 1);
    assert_int_equal(times_in(report, "\"text\":\"configure: line 2\""), 1);
    assert_int_equal(times_in(report, "\"text\":\"read: ?[2J ratings.csv \""), 1);
    assert_int_equal(times_in(report, "\"text\":\"finish: 000"), 1);
    assert_int_equal(times_in(report, "\"text\":\"finish: all is right\""), 1);
    assert_int_equal(times_in(report, NOTE), 5);
    char *text = read_text(report);
    assert_true(strstr(text, "finish: all is right") < strstr(text, "\"type\":\"summary\""));
    free(text);
}

static void test_four_nodes_say_the_same(void **state) {
    (void)state;
    run_well("$run --reliable 2 --transient 2 -- " SUM " --notes 2 --iterations 3");
    assert_said_once("report");
    assert_int_equal(times_in("out", "note: configure: line 2\n"), 1);
    assert_int_equal(times_in("out", "note: read: ?[2J ratings.csv \n"), 1);
    assert_int_equal(times_in("out", "note: finish: all is right\n"), 1);
    assert_int_equal(times_in("out", "note: "), 5);
    assert_text("err", "");
    /* The long one is cut, and says so. */
    run_well("grep -o 'finish: 00*[.]*' report | tr -d '\\n' | wc -c");
    char length[16];
    snprintf(length, sizeof length, "%d\n", AML_NOTE_BYTES_MAX);
    assert_text("out", length);
}

static void test_a_job_that_says_nothing(void **state) {
    (void)state;
    run_well("$run --transient 1 -- " SUM " --iterations 2");
    assert_no_text("report", NOTE);
    assert_no_text("out", "note: ");
}

static void test_of_many_notes_some_are_left_out(void **state) {
    (void)state;
    run_well("$run --transient 2 -- " SUM " --notes 200 --iterations 2");
    assert_int_equal(times_in("report", NOTE), AML_NOTES_MAX + 1);
    assert_int_equal(times_in("report", "the app has said 64 different lines: further ones are left out"), 1);
    assert_int_equal(times_in("report", "configure: line 1\""), 1);
}

/* The controller is killed and started anew while nodes work: what the report has it does not get again, and what the
 * app says to the new controller is there. */
static void test_the_controller_is_started_again(void **state) {
    (void)state;
    run_well("printf 'iteration 3 kill controller\\nseconds 1 start controller\\n"
             "iteration 12 join transient 1\\n' >events; "
             "$run --stage 2 --transient 2 --events events -- " SUM " --notes 2 --slow-us 20000 --iterations 40");
    assert_text("out", "event: seconds 1 start controller");
    assert_said_once("report");
}

/* Nodes that are started by hand: the controller shows what they say. With --log-level info their logs have it too. */
static void test_nodes_by_hand(void **state) {
    (void)state;
    run_well("{ $bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 2 --report report "
             ">says 2>log & } && while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; "
             "{ " SUM " --notes 2 --iterations 2 --controller=$at 2>one & } && " SUM " --notes 2 --iterations 2 "
             "--controller=$at --log-level info 2>two; wait");
    assert_said_once("report");
    assert_int_equal(times_in("says", "note: configure: line 2\n"), 1);
    assert_int_equal(times_in("says", "note: finish: all is right\n"), 1);
    assert_text("one", "");
    assert_int_equal(times_in("two", "note: configure: line 2\n"), 1);
}

static void test_the_logs(void **state) {
    (void)state;
    run_well("$run --progress none --log-level info --transient 1 -- " SUM " --notes 1 --iterations 2");
    assert_text("out", "");
    assert_int_equal(times_in("err", "proteus: info: note: configure: line 1\n"), 1);
}

/* The check before a job says nothing: the nodes do. */
static void test_the_check(void **state) {
    (void)state;
    run_well(SUM " --check --notes 3 --log-level info");
    assert_text("out", "");
    assert_text("err", "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_nodes_say_the_same),
        cmocka_unit_test(test_a_job_that_says_nothing),
        cmocka_unit_test(test_of_many_notes_some_are_left_out),
        cmocka_unit_test(test_the_controller_is_started_again),
        cmocka_unit_test(test_nodes_by_hand),
        cmocka_unit_test(test_the_logs),
        cmocka_unit_test(test_the_check),
    };
    return cmocka_run_group_tests_name("notes", tests, set_up, shell_close);
}
