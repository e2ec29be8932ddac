/* Tests of what people see of a job: the modes of --progress, the live line and `proteus top` in a terminal. With real
 * processes; a test waits for what is to be seen, never for a time. */
#include "tests/cluster/pty.h"
#include "tests/cluster/shell.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An app that has no end of its own. */
#define SUMS "$tests/sum_app --data ratings --slow-us 1000 --iterations"

/* ---- --progress ---- */

/* Standard output has the lines of the report, to the byte, and nothing else. */
static void test_json_is_the_report(void **state) {
    (void)state;
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

/* Without a terminal: the first and the last iteration, and at most one a second of the others. */
static void test_plain_lines_are_few(void **state) {
    (void)state;
    run_well("printf 'iteration 200 join transient 1\\n' >events && "
             "$run --events events -- mf --data ratings --iterations 3000 >lines && grep -c items/s lines");
    char *count = read_text("out");
    assert_true(atof(count) >= 2);
    assert_true(atof(count) <= summary("seconds") + 2);
    free(count);
    assert_text("lines", "\niteration 1 ");
    assert_text("lines", "\niteration 3000 ");
    assert_text("lines", " join node-2\n");
    assert_text("lines", "\niterations     3000\n");
    assert_no_text("lines", "\033");
}

static void test_no_progress(void **state) {
    (void)state;
    run_well("$run --progress none -- mf --data ratings --iterations 5");
    assert_text("report", "\"ok\":true");
    char *out = read_text("out");
    char *err = read_text("err");
    assert_string_equal(out, "");
    assert_string_equal(err, "");
    free(out);
    free(err);
    run_refused("$run --progress lines -- mf --data ratings --iterations 5",
                "--progress: expected auto, line, plain, json or none, got 'lines'");
    run_refused("$run --quiet --progress json -- mf --data ratings --iterations 5", "--quiet and --progress json");
    run_refused("$bin/proteus controller --listen tcp://127.0.0.1:0 --progress '' ", "--progress: expected auto");
}

static void test_a_live_line(void **state) {
    (void)state;
    char command[512];
    struct pty pty;
    run_well("printf 'iteration 40 join transient 1\\n' >events && echo $PWD $bin/proteus $tests/sum_app");
    char *paths = read_text("out");
    char *rest = NULL;
    const char *folder = strtok_r(paths, " \n", &rest);
    const char *proteus = strtok_r(NULL, " \n", &rest);
    const char *app = strtok_r(NULL, " \n", &rest);
    snprintf(
        command, sizeof command,
        "cd %s && exec %s run --events events --report report -- %s --data ratings --slow-us 2000 --iterations 200",
        folder, proteus, app);
    pty_open(&pty, 20, 70, (const char *const[]){"sh", "-c", command, NULL});
    assert_true(pty_wait_for(&pty, "of 200"));
    assert_true(pty_shows(&pty, "▕"));
    assert_true(pty_wait_for(&pty, " left  iteration"));
    assert_true(pty_wait_for(&pty, " join node-2"));
    pty_resize(&pty, 20, 40);
    assert_true(pty_wait_for(&pty, "iterations     200"));
    assert_int_equal(pty_close(&pty), 0);
    assert_false(pty_shows(&pty, "▕")); /* the live line, which never took two rows, has made way for the summary */
    assert_true(pty_shows(&pty, "controller at tcp://"));
    assert_true(pty_shows(&pty, " join node-2"));
    free(paths);
}

static int set_up(void **state) {
    (void)state;
    if (shell_open("watch") != 0) {
        return -1;
    }
    FILE *ratings = open_file("ratings", "w");
    for (int u = 0; u < 200; u++) {
        for (int r = 0; r < 10; r++) {
            fprintf(ratings, "%d\t%d\t%d\n", u, (u * 7 + r * 13) % 50, 1 + (u + r) % 5);
        }
    }
    return fclose(ratings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_is_the_report),
        cmocka_unit_test(test_plain_lines_are_few),
        cmocka_unit_test(test_no_progress),
        cmocka_unit_test(test_a_live_line),
    };
    return cmocka_run_group_tests(tests, set_up, shell_close);
}
