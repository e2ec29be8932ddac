/* Tests of what people see of a job: the modes of --progress, the live line and `proteus top` in a terminal. Uses real
 * processes. A test waits for what must appear, never for a time. */
#include "tests/cluster/pty.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

/* An app that runs until it is stopped or has done its iterations. */
#define SUMS "$tests/sum_app --data ratings --slow-us 1000 --iterations"

/* ---- --progress ---- */

/* Standard output is the report, byte for byte. */
TEST(json_is_the_report) {
    run_well("printf 'seconds 3600 kill node-2\\n' >events && "
             "$run --reliable 2 --events events --progress json -- mf --data ratings --iterations 5 >lines 2>notes && "
             "cmp lines report && grep -q '^controller at tcp:' notes && tail -n 1 lines");
    assert_text("out", "{\"type\":\"summary\"");
    assert_text("lines", "\"event\":\"missed\"");
    run_well(
        "{ $bin/proteus controller --listen tcp://127.0.0.1:0 --report report --progress json >lines 2>notes & } && "
        "while ! grep -q nodes notes; do sleep 0.05; done; read -r listening on at more <notes; "
        "mf=$bin/mf; $mf --data ratings --iterations 5 --controller=$at --tier=reliable && wait && cmp lines report");
    assert_text("lines", "\"iterations\":5");
}

/* `proteus follow` prints the report from its beginning and ends with the job. */
TEST(the_report_is_followed) {
    static const char begin[] = "rm -f report notes followed; { $bin/proteus controller --listen tcp://127.0.0.1:0 "
                                "--report report --progress json >lines 2>notes & } && "
                                "while ! grep -q nodes notes; do sleep 0.05; done; read -r listening on at more <notes";
    run_well("%s; $bin/proteus follow --controller $at >followed & follows=$!; "
             "$bin/mf --data ratings --iterations 500 --controller=$at --tier=reliable && "
             "wait $follows && wait && cmp followed report",
             begin);
    run_well("%s; " SUMS " 1000000 --controller=$at --tier=reliable 2>node & "
             "while ! grep -qs '\"type\":\"iteration' report; do sleep 0.05; done; "
             "$bin/proteus follow --controller $at >followed 2>said & follows=$!; "
             "while ! grep -qs '\"type\":\"iteration' followed; do sleep 0.05; done; "
             "$bin/proteus stop --now --controller $at; ! wait $follows && wait; cmp followed report",
             begin);
    assert_text("said", "proteus: error: stopped by 'proteus stop'");
}

/* Without a terminal: the first and the last iteration, and at most one other iteration a second. */
TEST(plain_lines_are_few) {
    run_well("printf 'iteration 200 join transient 1\\n' >events && "
             "$run --events events -- mf --data ratings --iterations 3000 >lines && grep -c items/s lines");
    FREED char *count = read_text("out");
    assert_true(atof(count) >= 2);
    assert_true(atof(count) <= summary("seconds") + 2);
    assert_text("lines", "\niteration 1 ");
    assert_text("lines", "\niteration 3000 ");
    assert_text("lines", " join node-2\n");
    assert_text("lines", "\niterations     3000\n");
    assert_no_text("lines", "\033");
}

TEST(no_progress) {
    run_well("$run --progress none -- mf --data ratings --iterations 5");
    assert_text("report", "\"ok\":true");
    FREED char *out = read_text("out");
    FREED char *err = read_text("err");
    assert_string_equal(out, "");
    assert_string_equal(err, "");
    run_refused("$run --progress lines -- mf --data ratings --iterations 5",
                "--progress: expected auto, line, plain, json or none, got 'lines'");
    run_refused("$run --quiet --progress json -- mf --data ratings --iterations 5", "--quiet and --progress json");
    run_refused("$bin/proteus controller --listen tcp://127.0.0.1:0 --progress '' ", "--progress: expected auto");
}

static void check_live_line(int columns) {
    char command[512];
    struct pty pty;
    run_well("printf 'iteration 40 join transient 1\\n' >events && echo $PWD $bin/proteus $tests/sum_app");
    FREED char *paths = read_text("out");
    char *rest = NULL;
    const char *folder = strtok_r(paths, " \n", &rest);
    const char *proteus = strtok_r(NULL, " \n", &rest);
    const char *app = strtok_r(NULL, " \n", &rest);
    snprintf(
        command, sizeof command,
        "cd %s && exec %s run --events events --report report -- %s --data ratings --slow-us 2000 --iterations 200",
        folder, proteus, app);
    pty_open(&pty, 20, columns, (const char *const[]){"sh", "-c", command, NULL});
    assert_true(pty_wait_for(&pty, "of 200"));
    assert_int_equal(pty_shows(&pty, "▕"), columns >= 50);
    assert_true(pty_wait_for(&pty, " left  iteration"));
    assert_true(pty_wait_for(&pty, " join node-2"));
    assert_true(pty_wait_for(&pty, "iterations     200"));
    assert_int_equal(pty_close(&pty), 0);
    assert_false(pty_shows(&pty, " left ")); /* the live line, never longer than a row, was removed */
    assert_true(pty_shows(&pty, "controller at tcp://"));
    assert_true(pty_shows(&pty, " join node-2"));
}

TEST(a_live_line) {
    check_live_line(70);
    check_live_line(40);
}

/* ---- proteus top ---- */

/* Starts such a job of 2 + 6 nodes in the background; $at is the controller's endpoint. */
#define JOB                                                                                                            \
    "$run --reliable 2 --transient 6 -- " SUMS " 100000000 >job 2>said & job=$!; "                                     \
    "while ! grep -qs '\"type\":\"iteration\"' report; do kill -0 $job || exit 1; sleep 0.05; done; "                  \
    "at=$(sed -n 's/^controller at //p' job); "
#define STOP "$bin/proteus stop --controller $at >stopped && wait $job"

TEST(top_once) {
    run_well("rm -f report; " JOB "$bin/proteus top --controller $at --once --interval 0.3 >table && "
             "timeout 20 $bin/proteus top --controller $at --interval 0.1 </dev/null | "
             "awk '/^name/ && ++tables == 3 { print \"three\"; exit }' >tables; " STOP);
    assert_text("table", "sum: training, ");
    assert_text("table", "2 reliable and 6 transient nodes;");
    assert_text("table", "\nname   tier      state   role ");
    assert_text("table", "\nnode-8 transient started ");
    assert_no_text("table", "\033");
    assert_text("tables", "three");
    run_well("grep -c '^node-' table");
    assert_text("out", "8\n");
    run_refused("$bin/proteus top", "--controller tcp://HOST:PORT is missing");
    run_refused("$bin/proteus top --controller tcp://127.0.0.1:1 --interval 0", "--interval");
}

/* The controller's last moments are too short to be seen. */
TEST(top_ends_with_the_job) {
    run_well("rm -f report; $run --reliable 1 --transient 1 -- " SUMS " 2000 >job 2>said & job=$!; "
             "while ! grep -qs '\"type\":\"iteration\"' report; do kill -0 $job || exit 1; sleep 0.05; done; "
             "$bin/proteus top --controller $(sed -n 's/^controller at //p' job) --interval 0.1 && wait $job");
    assert_text("out", "sum: training, stage ");
    FREED char *out = read_text("out");
    char *last = strrchr(out, '\n');
    assert_non_null(last);
    *last = '\0';
    last = strrchr(out, '\n');
    assert_non_null(last);
    assert_true(strcmp(last, "\nthe job has ended") == 0 ||
                strcmp(last, "\nthe controller does not answer any more; the job was at its end") == 0);
}

TEST(top_on_a_screen) {
    char row[PTY_COLUMNS_MAX * PTY_CELL];
    struct pty pty;
    run_well("rm -f report; (" JOB "echo $at >started; wait) & "
             "while [ ! -s started ]; do sleep 0.05; done; cat started; echo $bin/proteus");
    FREED char *words = read_text("out");
    char *rest = NULL;
    const char *endpoint = strtok_r(words, " \n", &rest);
    const char *proteus = strtok_r(NULL, " \n", &rest);
    pty_open(&pty, 11, 90, (const char *const[]){proteus, "top", "--controller", endpoint, "--interval", "0.2", NULL});
    assert_true(pty_wait_for(&pty, "1-5 of 8"));
    assert_true(pty_wait_for(&pty, "sum: training, stage ")); /* at first the stage may change */
    assert_true(pty.alternate && pty.hidden);
    pty_row(&pty, 0, row);
    assert_memory_equal(row, "sum: training, stage ", strlen("sum: training, stage "));
    pty_row(&pty, 5, row);
    assert_memory_equal(row, "node-1 reliable", strlen("node-1 reliable"));
    pty_type(&pty, "n"); /* reverses the order */
    assert_true(pty_wait_for(&pty, "node-8 transient"));
    pty_type(&pty, "j");
    assert_true(pty_wait_for(&pty, "2-6 of 8"));
    pty_row(&pty, 5, row);
    assert_memory_equal(row, "node-7 transient", strlen("node-7 transient"));
    pty_type(&pty, "\033[6~");
    assert_true(pty_wait_for(&pty, "4-8 of 8"));
    pty_type(&pty, "\033[A");
    assert_true(pty_wait_for(&pty, "3-7 of 8"));
    pty_resize(&pty, 30, 60);
    assert_true(pty_wait_for(&pty, "1-8 of 8"));
    pty_type(&pty, "q");
    assert_int_equal(pty_close(&pty), 0);
    assert_false(pty.alternate || pty.hidden);
    /* Ctrl-C also leaves the terminal as it was. */
    pty_open(&pty, 20, 90, (const char *const[]){proteus, "top", "--controller", endpoint, NULL});
    assert_true(pty_wait_for(&pty, "1-8 of 8"));
    assert_true(pty.alternate);
    pty_type(&pty, "\003");
    assert_int_equal(pty_close(&pty), 0);
    assert_false(pty.alternate || pty.hidden);
    run_well("$bin/proteus stop --controller $(cat started)");
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "w");
    for (int u = 0; u < 200; u++) {
        for (int r = 0; r < 10; r++) {
            fprintf(ratings, "%d\t%d\t%d\n", u, (u * 7 + r * 13) % 50, 1 + (u + r) % 5);
        }
    }
    return fclose(ratings);
}

int main(void) {
    return tests_run(set_up, files_close);
}
