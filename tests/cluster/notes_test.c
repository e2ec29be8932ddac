/* Notes of an app (aml_note), in jobs of real processes. Each text is shown once for the job, in the report and to the
 * user, whichever processes and functions note it, and also if the controller is restarted. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include "agileml.h"

#define SUM  "$tests/sum_app --data ratings.csv"
#define NOTE "\"type\":\"note\""

static unsigned times_in(const char *name, const char *text) {
    FREED char *all = read_text(name);
    unsigned count = 0;
    for (const char *at = strstr(all, text); at != NULL; at = strstr(at + 1, text)) {
        count++;
    }
    return count;
}

/* The notes of every process in configure and read, and of the saving node in finish, just before the job's end. */
static void assert_said_once(const char *report) {
    assert_int_equal(times_in(report, "\"text\":\"configure: line 1\""), 1);
    assert_int_equal(times_in(report, "\"text\":\"configure: line 2\""), 1);
    assert_int_equal(times_in(report, "\"text\":\"read: ?[2J ratings.csv \""), 1);
    assert_int_equal(times_in(report, "\"text\":\"finish: 000"), 1);
    assert_int_equal(times_in(report, "\"text\":\"finish: all is right\""), 1);
    assert_int_equal(times_in(report, NOTE), 5);
    FREED char *text = read_text(report);
    assert_true(strstr(text, "finish: all is right") < strstr(text, "\"type\":\"summary\""));
}

TEST(four_nodes_say_the_same) {
    run_well("$run --reliable 2 --transient 2 -- " SUM " --notes 2 --iterations 3");
    assert_said_once("report");
    assert_int_equal(times_in("out", "note: configure: line 2\n"), 1);
    assert_int_equal(times_in("out", "note: read: ?[2J ratings.csv \n"), 1);
    assert_int_equal(times_in("out", "note: finish: all is right\n"), 1);
    assert_int_equal(times_in("out", "note: "), 5);
    assert_text("err", "");
    /* The long note is cut and marked. */
    run_well("grep -o 'finish: 00*[.]*' report | tr -d '\\n' | wc -c");
    char length[16];
    snprintf(length, sizeof length, "%d\n", AML_NOTE_BYTES_MAX);
    assert_text("out", length);
}

/* On one processor: the first that this process may use. */
TEST(many_nodes_on_one_processor) {
    run_well("taskset -c $(taskset -pc $$ | sed 's/.*: //; s/[-,].*//') $run --reliable 17 -- " SUM " --iterations 1");
    assert_text("err", "proteus: warning: 17 nodes share this machine's 1 processor: they take turns");
    run_well("taskset -c $(taskset -pc $$ | sed 's/.*: //; s/[-,].*//') $run --reliable 16 -- " SUM " --iterations 1");
    assert_text("err", "");
}

TEST(a_job_that_says_nothing) {
    run_well("$run --transient 1 -- " SUM " --iterations 2");
    assert_no_text("report", NOTE);
    assert_no_text("out", "note: ");
}

TEST(of_many_notes_some_are_left_out) {
    run_well("$run --transient 2 -- " SUM " --notes 200 --iterations 2");
    assert_int_equal(times_in("report", NOTE), AML_NOTES_MAX + 1);
    assert_int_equal(times_in("report", "the app has said 64 different lines: further ones are left out"), 1);
    assert_int_equal(times_in("report", "configure: line 1\""), 1);
}

/* The controller is killed and restarted while nodes work. Notes that the report has are not repeated, and notes to the
 * new controller are in the report. */
TEST(the_controller_is_started_again) {
    run_well("printf 'iteration 3 kill controller\\nseconds 1 start controller\\n"
             "iteration 12 join transient 1\\n' >events; "
             "$run --stage 2 --transient 2 --events events -- " SUM " --notes 2 --slow-us 20000 --iterations 40");
    assert_text("out", "event: seconds 1 start controller");
    assert_said_once("report");
}

/* Nodes started by hand: the controller shows their notes. With --log-level info their own logs do, too. */
TEST(nodes_by_hand) {
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

TEST(the_logs) {
    run_well("$run --progress none --log-level info --transient 1 -- " SUM " --notes 1 --iterations 2");
    assert_text("out", "");
    assert_int_equal(times_in("err", "proteus: info: note: configure: line 1\n"), 1);
}

/* The check before a job prints no notes; the nodes do. */
TEST(the_check) {
    run_well(SUM " --check --notes 3 --log-level info");
    assert_text("out", "");
    assert_text("err", "");
}

int main(void) {
    return tests_run(shell_open_with_ratings, files_close);
}
