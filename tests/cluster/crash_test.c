/* Tests of apps that crash, with real processes. The job ends after the second node died in the same way at the same
 * clock, with one line that names nodes, signal, clock and function. Each node prints where it was, in addresses that
 * addr2line resolves. Cores are dumped as the shell's limit says. Sanitizers handle most signals themselves: under them
 * the apps only abort or exit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cluster/shell.h"

enum { FRAMES_MAX = 64, COMMAND_BYTES = 1024 };

/* Only transient nodes work on the data, so that only they crash at an item. */
static const char stage_3[] = "--reliable 1 --transient 3 --stage 3";

static bool sanitized(void) {
    return getenv("PROTEUS_SANITIZED") != NULL;
}

static unsigned count(const char *text, const char *part) {
    unsigned found = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        found++;
    }
    return found;
}

/* The job ended with status 1 and a line of proteus that has all three parts. */
static void assert_ended_by_crash(const char *what, int status, const char *nodes, const char *cause,
                                  const char *place) {
    char *error = read_text("err");
    char *line = strstr(error, "proteus: error: ");
    char *end = line != NULL ? strchr(line, '\n') : NULL;
    if (end != NULL) {
        *end = '\0';
    }
    if (status != 1 || end == NULL || strstr(line, nodes) == NULL || strstr(line, cause) == NULL ||
        strstr(line, place) == NULL) {
        fail_msg("%s: status %d, '%s'; expected 1 and a line with '%s', '%s' and '%s'", what, status, error, nodes,
                 cause, place);
    }
    *end = '\n';
    assert_int_equal(count(error, "proteus: error: "), 1);
    assert_null(strstr(error, "the only copy of partition"));
    free(error);
    char *report = read_text("report");
    const char *summary_line = strstr(report, "\"type\":\"summary\"");
    assert_non_null(summary_line);
    assert_non_null(strstr(summary_line, cause));
    free(report);
}

static int run_crash(const char *cluster, const char *options) {
    return run("$bin/proteus run %s --report report -- $tests/crash_app %s", cluster, options);
}

/* ---- The tests ---- */

static void test_a_crash_on_an_item_ends_the_job_with_the_second_node(void **state) {
    (void)state;
    static const struct {
        const char *how, *cause, *said;
        bool handled; /* by sanitizers */
    } ways[] = {
        {"abort", "died of signal 6 (Aborted)", "error: signal 6 (SIGABRT) in the app's function clock, clock 3",
         false},
        {"segv", "died of signal 11 (Segmentation fault)",
         "error: signal 11 (SIGSEGV) at address 0x0 in the app's function clock, clock 3", true},
        {"fpe", "died of signal 8 (Floating point exception)", "error: signal 8 (SIGFPE)", true},
        {"overflow", "died of signal 11 (Segmentation fault)", "error: signal 11 (SIGSEGV)", true},
        {"thread", "died of signal 6 (Aborted)",
         "error: signal 6 (SIGABRT); the app's function entered last: clock, clock 3", false},
        {"exit", "called exit(3)", "error: the app called exit(3) in the app's function clock, clock 3", false},
        {"exits", "called exit(3)", "error: the app called exit(3); the app's function entered last: clock, clock 3",
         false},
    };
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        char options[64];
        if (ways[w].handled && sanitized()) {
            continue;
        }
        snprintf(options, sizeof options, "--in clock --how %s", ways[w].how);
        int status = run_crash(stage_3, options);
        assert_ended_by_crash(ways[w].how, status, " and then node-", ways[w].cause,
                              " in the app's function clock, at clock 3");
        char *error = read_text("err");
        assert_int_equal(count(error, ways[w].said), 2); /* nobody else */
        assert_true(count(error, "backtrace; ") > 0);
        free(error);
    }
}

static void test_the_function_is_named(void **state) {
    (void)state;
    static const struct {
        const char *cluster, *options, *place;
    } places[] = {
        {stage_3, "--in begin --from 0", " in the app's function begin, at clock 1"},
        {"--reliable 1 --transient 3 --stage 3 --threads 2", "--in parallel",
         " in the app's function begin, at clock 1"},
        {"--reliable 1 --transient 3 --stage 3 --threads 3", "--in clock --staleness 2",
         " in the app's function clock, at clock 3"},
        {stage_3, "--in evaluate --item 500", " in the app's function evaluate, at clock "},
        {stage_3, "--in read", " in the app's function read"},
        {"--reliable 2 --transient 2 --stage 3", "--in finish", " in the app's function finish, at clock 20"},
        {"--reliable 2 --transient 1 --stage 1", "--in clock", " in the app's function clock, at clock 3"},
    };
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        char options[128];
        snprintf(options, sizeof options, "--how abort %s", places[p].options);
        int status = run_crash(places[p].cluster, options);
        assert_ended_by_crash(places[p].options, status, "node-", "died of signal 6 (Aborted)", places[p].place);
    }
}

/* Where nobody is left to take over, the reason is the crash. */
static void test_never_with_the_only_copy_was_lost(void **state) {
    (void)state;
    static const char *const clusters[] = {"--reliable 1", "--reliable 2", "--reliable 2 --stage traditional",
                                           "--reliable 1 --stage traditional", "--reliable 2 --transient 1 --stage 1"};
    static const char *const functions[] = {"clock", "read"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
            char options[64];
            snprintf(options, sizeof options, "--how abort --in %s", functions[f]);
            int status = run_crash(clusters[c], options);
            assert_ended_by_crash(clusters[c], status, "node-", "died of signal 6 (Aborted)", functions[f]);
        }
    }
}

/* The app has removed the library's handler: the launcher knows the signal from the process's end. */
static void test_a_crash_that_nothing_is_said_of(void **state) {
    (void)state;
    int status = run_crash(stage_3, "--in clock --how default");
    assert_ended_by_crash("default", status, " and then node-", "died of signal 11 (Segmentation fault)",
                          " about clock 3");
}

/* SIGKILL is somebody else's doing: the job goes on while it can. */
static void test_a_killed_node_is_no_crash(void **state) {
    (void)state;
    assert_int_equal(run_crash(stage_3, "--in clock --how kill --on-transient"), 0); /* the reliable node ends it */
    assert_true(summary("failures") == 3);
}

/* A process that the app has forked is no node: its end is the app's business. */
static void test_the_end_of_a_forked_process_is_no_crash(void **state) {
    (void)state;
    if (sanitized()) {
        print_message(
            "skipped: a sanitizer's check at exit waits for ever in a child that one of several threads forked\n");
        skip();
    }
    static const char *const ways[] = {"--in read --how child-exit", "--in clock --how child-exit",
                                       "--in clock --how child-abort"};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        int status = run_crash("--reliable 1", ways[w]);
        char *error = read_text("err");
        if (status != 0 || strstr(error, "error: ") != NULL) {
            fail_msg("%s: status %d, '%s'; expected 0 and no error", ways[w], status, error);
        }
        free(error);
    }
}

/* A node joins while others train, and crashes before it has a part in the training. */
static void test_joining_nodes_that_crash_in_read_end_nothing(void **state) {
    (void)state;
    FILE *events = open_file("events", "we");
    fputs("iteration 3 join transient 1\niteration 6 join transient 1\n", events);
    fclose(events);
    run_well(
        "$bin/proteus run --reliable 1 --stage 1 --events events --report report -- $tests/crash_app --in read --how "
        "abort --on-transient --slow-us 100000 --iterations 20");
    char *report = read_text("report");
    assert_int_equal(count(report, "died of signal 6 (Aborted) in the app's function read"), 2);
    free(report);
}

/* The addresses of the first backtrace, resolved: the app's function with its file is among them. */
static void assert_backtrace_resolves(const char *error) {
    bool found = false;
    const char *at = strstr(error, "  #0 ");
    assert_non_null(at);
    assert_non_null(strstr(error, "backtrace; 'addr2line -Cfpie MODULE ADDRESS' prints function and line of a frame:"));
    for (unsigned f = 0; f < FRAMES_MAX && at != NULL && !found; f++) {
        char module[256];
        unsigned long address;
        unsigned number;
        if (sscanf(at, "  #%u %255s 0x%lx", &number, module, &address) != 3 || number != f) {
            break;
        }
        assert_int_equal(module[0], '/');
        run_well("addr2line -Cfpie %s 0x%lx", module, address);
        char *resolved = read_text("out");
        found = strstr(resolved, "crash_here at ") != NULL && strstr(resolved, "crash_app.c:") != NULL;
        free(resolved);
        at = strstr(at + 1, "  #");
    }
    if (!found) {
        fail_msg("no frame is resolved to crash_here in crash_app.c: %s", error);
    }
}

static void test_the_backtrace_is_resolved_by_addr2line(void **state) {
    (void)state;
    static const char *const ways[] = {"abort", "exit", "segv", "fpe"};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0] - (sanitized() ? 2 : 0); w++) {
        char options[64];
        snprintf(options, sizeof options, "--in clock --how %s", ways[w]);
        assert_int_equal(run_crash("--reliable 1", options), 1);
        char *error = read_text("err");
        assert_backtrace_resolves(error);
        free(error);
    }
}

/* Nodes that no launcher has started tell the controller themselves, and end with the signal's status. */
static void test_nodes_started_by_hand(void **state) {
    (void)state;
    int status =
        run("$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 2 --stage 3 --report report "
            ">says & "
            "controller=$!; while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; "
            "node() { $tests/crash_app --controller=$at --tier=$1 --name=$2 --in clock --how abort; }; "
            "node reliable r & node transient a & one=$!; node transient b & two=$!; "
            "wait $one; echo status $?; wait $two; echo status $?; wait $controller");
    assert_ended_by_crash("by hand", status, " and then ", "died of signal 6 (Aborted)",
                          " in the app's function clock, at clock 3");
    char *out = read_text("out");
    assert_int_equal(count(out, "status 134"), 2);
    free(out);
}

static unsigned cores(void) {
    run_well("ls | grep -c '^core' || true");
    char *out = read_text("out");
    unsigned number = (unsigned)strtoul(out, NULL, 10);
    free(out);
    run_well("rm -f core*");
    return number;
}

static void test_cores_are_dumped_as_the_shell_says(void **state) {
    (void)state;
    run("ulimit -c unlimited; sh -c 'kill -ABRT $$'");
    if (sanitized() || cores() == 0) {
        skip(); /* the system takes cores elsewhere, or there are none */
    }
    assert_int_equal(run("ulimit -c unlimited; $run --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_int_equal(cores(), 1);
    assert_int_equal(run("ulimit -c 0; $run --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_int_equal(cores(), 0);
    run_well("$bin/proteus keygen job.key"); /* which a dump would hold */
    assert_int_equal(run("ulimit -c unlimited; $run --key job.key --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_text("err", "backtrace");
    assert_int_equal(cores(), 0);
}

static int set_up(void **state) {
    (void)state;
    return shell_open("crash_test");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_crash_on_an_item_ends_the_job_with_the_second_node),
        cmocka_unit_test(test_the_function_is_named),
        cmocka_unit_test(test_never_with_the_only_copy_was_lost),
        cmocka_unit_test(test_a_crash_that_nothing_is_said_of),
        cmocka_unit_test(test_a_killed_node_is_no_crash),
        cmocka_unit_test(test_the_end_of_a_forked_process_is_no_crash),
        cmocka_unit_test(test_joining_nodes_that_crash_in_read_end_nothing),
        cmocka_unit_test(test_the_backtrace_is_resolved_by_addr2line),
        cmocka_unit_test(test_nodes_started_by_hand),
        cmocka_unit_test(test_cores_are_dumped_as_the_shell_says),
    };
    return cmocka_run_group_tests(tests, set_up, shell_close);
}
