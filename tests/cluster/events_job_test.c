/* Tests of events of a job's nodes, with real processes: --events that happen or never do, the README's example, silent
 * nodes, Ctrl-C, and a model taken out of a checkpoint. A test waits for lines of the report, never for a time. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#include <unistd.h>

/* Waits until the report has `count` lines with `text`, for three minutes at most. */
#define WAIT_FOR_LINES                                                                                                 \
    "rm -f report; lines() { for i in $(seq 1800); do [ $(grep -c \"$1\" report) -ge $2 ] && return; sleep 0.1; "      \
    "done; exit 99; }; "

/* An app that checks at its end that each item was counted once in each iteration. It trains until it is stopped. */
#define SUMS "$tests/sum_app --data ratings --slow-us 3000 --iterations 100000000"

/* Stops the job in the background, which must end well. */
#define STOP_IT                                                                                                        \
    "$bin/proteus stop --controller $(sed -n 's/^controller at //p' job) >stopped && wait $pid || exit 98; cat job"

TEST(events_that_never_came_are_listed) {
    run_well("printf 'iteration 2 pause node-1\\niteration 2 resume node-1\\n\\nseconds 3600 kill node-2\\n"
             "iteration 900 evict node-1\\n' >events && "
             "$run --reliable 2 --events events -- mf --data ratings --iterations 8");
    assert_text("err",
                "proteus: warning: the job ended before this event came: events:4: seconds 3600 kill node-2\n"
                "proteus: warning: the job ended before this event came: events:5: iteration 900 evict node-1\n");
    run_well("grep -c '\"event\":\"missed\"' report && tail -3 report");
    assert_text("out", "2\n{\"type\":\"event\",\"event\":\"missed\",\"nodes\":[],\"iteration\":8,");
    assert_text("out", "\"reason\":\"events:4: seconds 3600 kill node-2\"}\n{\"type\":\"event\"");
    assert_text("out", "\"reason\":\"events:5: iteration 900 evict node-1\"}\n{\"type\":\"summary\"");
}

/* Standard error then has one line: why the job failed. */
TEST(a_failed_job_lists_them_in_its_report_alone) {
    assert_int_equal(run("printf 'iteration 2 kill node-2\\nseconds 3600 kill node-1\\n' >events && "
                         "$run --reliable 2 --stage traditional --failure-timeout 1 --events events -- "
                         "mf --data ratings --iterations 100000000"),
                     1);
    FREED char *said = read_text("err");
    assert_ptr_equal(strchr(said, '\n'), strrchr(said, '\n'));
    assert_text("err", "proteus: error: ");
    assert_text("err", "node-2");
    assert_text("report", "\"reason\":\"events:2: seconds 3600 kill node-1\"}\n{\"type\":\"summary\"");
}

/* node-3 was given up, so the controller no longer knows it, although its process exists. */
TEST(a_missing_node_does_not_cancel_evict_transient_all) {
    run_well(WAIT_FOR_LINES
             "printf 'iteration 2 pause node-3\\niteration 40 evict transient all notice 60s\\n' >events; "
             "$run --reliable 1 --transient 3 --failure-timeout 3 --events events -- " SUMS " >job & pid=$!; "
             "lines '\"event\":\"evicted\"' 2; " STOP_IT);
    assert_text("out", "no node of the job is called 'node-3': evicting the others");
    assert_text("report", "\"event\":\"failure\"");
    assert_true(summary("evictions") == 2);
    assert_true(summary("failures") == 1);
}

/* Processes that are starting at the time of the event are evicted once they have joined. */
TEST(nodes_that_have_not_joined_are_evicted_when_they_do) {
    run_well(WAIT_FOR_LINES
             "printf 'iteration 1 join transient 3\\niteration 1 evict transient all notice 60s\\n' >events; "
             "$run --reliable 1 --events events -- " SUMS " >job & pid=$!; "
             "lines '\"event\":\"evicted\"' 3; " STOP_IT);
    assert_no_text("out", "refuses");
    assert_true(summary("evictions") == 3);
    assert_true(summary("failures") == 0);
}

TEST(a_silent_node_is_told_before_it_is_given_up) {
    run_well(WAIT_FOR_LINES "printf 'iteration 2 pause node-3\\n' >events; "
                            "$run --reliable 1 --transient 2 --failure-timeout 2 --events events -- " SUMS
                            " >job & pid=$!; lines '\"event\":\"recover\"' 1; " STOP_IT
                            "; grep -n '\"silent\"\\|\"failure\"' report");
    assert_text("out", "  node-3 silent for 1.");
    assert_text("out", " s, given up in ");
    assert_text("out", "failure node-3: no heartbeat for 2.");
    assert_text("report", "\"nodes\":[\"node-3\"],\"silent_seconds\":1.");
}

/* A job whose model's folder is missing when it is stopped. */
#define FOLDERLESS                                                                                                     \
    WAIT_FOR_LINES "mkdir -p models; $run --reliable 2 -- mf --data ratings --iterations 100000000 --model-out "       \
                   "models/m >job & pid=$!; lines '\"event\":\"start\"' 1; rmdir models; "                             \
                   "$bin/proteus stop --controller $(sed -n 's/^controller at //p' job) >stopped 2>&1 & "

TEST(a_model_that_can_never_be_written_fails_the_job) {
    assert_int_equal(run(FOLDERLESS "wait $pid"), 1);
    assert_text("report", "\"event\":\"save-failed\"");
    assert_text("report", "node-2 tries again"); /* after two attempts of node-1 */
    assert_text("err", "proteus: error: models/m: can't write it: No such file or directory\n");
}

TEST(a_model_that_can_not_be_written_is_written_later) {
    run_well(FOLDERLESS "lines '\"event\":\"save-failed\"' 1; mkdir models; wait $pid && cat job && ls models");
    assert_text("out", ": models/m: can't write it: No such file or directory; node-");
    assert_text("out", " tries again\n");
    assert_text("out", "\nm\n");
}

/* Runs the commands of the README's chapter as they are. */
TEST(the_readme_example_of_events) {
    const char *source = getenv("PROTEUS_SOURCE");
    char path[512];
    assert_non_null(realpath(source, path));
    run_well("sed -n '/^## Machines that come and go/,/^On a running\\|^plays/p' %s/README.md | grep '^    ' "
             "| sed 's,build/bin/,$bin/,; s,^,set -e; ,' >example && grep -c . example && grep -q 'events' example && "
             "cp ratings ratings.csv && export bin && sh example",
             path);
    assert_text("out", "2\ncontroller at ");
    assert_text("out", "event: seconds 2 join transient 6\n");
    assert_text("out", "event: seconds 4 kill node-5\n");
    assert_text("out", "  evicted node-8");
    assert_text("out", " evictions, ");
    assert_no_text("err", "before this event came");
}

TEST(ctrl_c_names_proteus_stop) {
    assert_int_equal(run(WAIT_FOR_LINES "$run -- mf --data ratings --iterations 100000000 >job 2>said & pid=$!; "
                                        "lines '\"type\":\"iteration\"' 3; kill -INT $pid; wait $pid"),
                     1);
    assert_text("said",
                "proteus: error: interrupted by SIGINT, the model is not saved; to end a job well: proteus stop "
                "--controller tcp://127.0.0.1:");
    run_well("grep -qF \"$(sed -n 's/^controller at //p' job)\" said && [ $(wc -l <said) = 1 ]");
}

/* With a key: 'proteus stop' needs it, too. */
TEST(ctrl_c_names_the_key) {
    assert_int_equal(run(WAIT_FOR_LINES "$bin/proteus keygen job.key >/dev/null && "
                                        "$run --key job.key -- mf --data ratings --iterations 100000000 >job & pid=$!; "
                                        "lines '\"type\":\"iteration\"' 3; kill -INT $pid; wait $pid"),
                     1);
    assert_text("err", " --key job.key\n");
}

/* A controller started by hand prints the same. */
TEST(ctrl_c_of_a_controller_names_proteus_stop) {
    assert_int_equal(run(WAIT_FOR_LINES
                         "$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 "
                         "--report report >job 2>said & pid=$!; "
                         "until grep -q listening job; do sleep 0.1; done; "
                         "at=$(sed -n 's/^listening on \\([^ ]*\\) .*/\\1/p' job); "
                         "$bin/mf --controller $at --tier reliable --data ratings --iterations 100000000 "
                         "2>/dev/null & "
                         "lines '\"type\":\"iteration\"' 3; kill -INT $pid; wait $pid"),
                     1);
    assert_text("said", "proteus: error: stopped by SIGINT, the model is not saved; to end a job well: proteus stop "
                        "--controller tcp://127.0.0.1:");
}

/* A job resumed without iterations left to train saves the checkpoint's model, on any number of nodes. */
TEST(a_model_is_taken_out_of_a_checkpoint) {
    run_well(WAIT_FOR_LINES "rm -rf saved; $run --reliable 2 --checkpoint saved -- mf --data ratings --rank 4 "
                            "--iterations 100000000 >job & pid=$!; lines '\"event\":\"checkpoint\"' 1; " STOP_IT);
    run_well("for n in 1 3; do $run --reliable $n --transient 1 --resume saved -- mf --data ratings --rank 4 "
             "--iterations 1 --model-out model-$n || exit 1; done; cmp model-1 model-3 && "
             "$bin/mf --predict model-1 --data ratings");
    assert_no_text("report", "\"type\":\"iteration\"");
    FREED char *out = read_text("out");
    const char *rmse = strstr(out, "rmse ");
    assert_non_null(rmse);
    double error = strtod(rmse + strlen("rmse "), NULL);
    assert_true(error > 0 && error < 0.6); /* ratings differ by about 1.3 from their mean */
}

static int write_ratings(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *file = open_file("ratings", "we");
    for (unsigned user = 1; user <= 120; user++) {
        for (unsigned item = 1 + user % 3; item <= 80; item += 3) {
            fprintf(file, "%u %u %u\n", user, item, 1 + (user % 5) * (item % 5) / 4);
        }
    }
    return fclose(file);
}

int main(void) {
    return tests_run(write_ratings, files_close);
}
