/* Tests of apps that crash, with real processes. The job ends once a second node died in the same way at the same
 * clock, with one line that names nodes, signal, clock and function. Each node prints a backtrace whose addresses
 * addr2line resolves. Cores are dumped as the shell's limit says. Sanitizers handle most signals themselves, so with
 * them the apps only abort or exit. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { FRAMES_MAX = 64, COMMAND_BYTES = 1024 };

/* Only transient nodes work on the data, so only they crash at an item. */
static const char stage_3[] = "--reliable 1 --transient 3 --stage 3";

static unsigned count(const char *text, const char *part) {
    unsigned found = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        found++;
    }
    return found;
}

/* The job ended with status 1 and a line of proteus that contains nodes, cause and place. */
static void assert_ended_by_crash(const char *what, int status, const char *nodes, const char *cause,
                                  const char *place) {
    FREED char *error = read_text("err");
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
    FREED char *report = read_text("report");
    const char *summary_line = strstr(report, "\"type\":\"summary\"");
    assert_non_null(summary_line);
    assert_non_null(strstr(summary_line, cause));
}

static int run_crash(const char *cluster, const char *options) {
    return run("$bin/proteus run %s --report report -- $tests/crash_app %s", cluster, options);
}

/* ---- The tests ---- */

TEST(a_crash_on_an_item_ends_the_job_with_the_second_node) {
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
        FREED char *error = read_text("err");
        assert_int_equal(count(error, ways[w].said), 2); /* no other node */
        assert_true(count(error, "backtrace; ") > 0);
    }
}

TEST(the_function_is_named) {
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

/* If no node is left to take over, the crash is the reason for the job's end. */
TEST(never_with_the_only_copy_was_lost) {
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

/* The app has removed the library's handler: the launcher reports the signal from the process's end. */
TEST(a_crash_that_nothing_is_said_of) {
    int status = run_crash(stage_3, "--in clock --how default");
    assert_ended_by_crash("default", status, " and then node-", "died of signal 11 (Segmentation fault)",
                          " about clock 3");
}

/* SIGKILL does not count as the app's crash: the job goes on while it can. */
TEST(a_killed_node_is_no_crash) {
    assert_int_equal(run_crash(stage_3, "--in clock --how kill --on-transient"), 0); /* by the reliable node */
    assert_true(summary("failures") == 3);
}

/* The end of a process that the app forked is not a node's crash. */
TEST(the_end_of_a_forked_process_is_no_crash) {
    if (sanitized()) {
        print_message(
            "skipped: a sanitizer's check at exit waits for ever in a child that one of several threads forked\n");
        skip();
    }
    static const char *const ways[] = {"--in read --how child-exit", "--in clock --how child-exit",
                                       "--in clock --how child-abort"};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        int status = run_crash("--reliable 1", ways[w]);
        FREED char *error = read_text("err");
        if (status != 0 || strstr(error, "error: ") != NULL) {
            fail_msg("%s: status %d, '%s'; expected 0 and no error", ways[w], status, error);
        }
    }
}

/* A node joins during training and crashes before it takes part. */
TEST(joining_nodes_that_crash_in_read_end_nothing) {
    FILE *events = open_file("events", "we");
    fputs("iteration 3 join transient 1\niteration 6 join transient 1\n", events);
    fclose(events);
    run_well(
        "$bin/proteus run --reliable 1 --stage 1 --events events --report report -- $tests/crash_app --in read --how "
        "abort --on-transient --slow-us 100000 --iterations 20");
    FREED char *report = read_text("report");
    assert_int_equal(count(report, "died of signal 6 (Aborted) in the app's function read"), 2);
}

/* Among the first backtrace's resolved addresses is the app's function with its file. */
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
        FREED char *resolved = read_text("out");
        found = strstr(resolved, "crash_here at ") != NULL && strstr(resolved, "crash_app.c:") != NULL;
        at = strstr(at + 1, "  #");
    }
    if (!found) {
        fail_msg("no frame is resolved to crash_here in crash_app.c: %s", error);
    }
}

TEST(the_backtrace_is_resolved_by_addr2line) {
    static const char *const ways[] = {"abort", "exit", "segv", "fpe"};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0] - (sanitized() ? 2 : 0); w++) {
        char options[64];
        snprintf(options, sizeof options, "--in clock --how %s", ways[w]);
        assert_int_equal(run_crash("--reliable 1", options), 1);
        FREED char *error = read_text("err");
        assert_backtrace_resolves(error);
    }
}

/* Nodes without a launcher report their crash to the controller themselves and end with the signal's status. */
TEST(nodes_started_by_hand) {
    int status =
        run("$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 2 --stage 3 --report report "
            ">says & "
            "controller=$!; while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; "
            "node() { $tests/crash_app --controller=$at --tier=$1 --name=$2 --in clock --how abort; }; "
            "node reliable r & node transient a & one=$!; node transient b & two=$!; "
            "wait $one; echo status $?; wait $two; echo status $?; wait $controller");
    assert_ended_by_crash("by hand", status, " and then ", "died of signal 6 (Aborted)",
                          " in the app's function clock, at clock 3");
    FREED char *out = read_text("out");
    assert_int_equal(count(out, "status 134"), 2);
}

static unsigned cores(void) {
    run_well("ls | grep -c '^core' || true");
    FREED char *out = read_text("out");
    unsigned number = (unsigned)strtoul(out, NULL, 10);
    run_well("rm -f core*");
    return number;
}

TEST(cores_are_dumped_as_the_shell_says) {
    run("ulimit -c unlimited; sh -c 'kill -ABRT $$'");
    if (sanitized() || cores() == 0) {
        skip(); /* cores are off, or the system takes them elsewhere */
    }
    assert_int_equal(run("ulimit -c unlimited; $run --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_int_equal(cores(), 1);
    assert_int_equal(run("ulimit -c 0; $run --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_int_equal(cores(), 0);
    run_well("$bin/proteus keygen job.key"); /* a core dump would contain the key */
    assert_int_equal(run("ulimit -c unlimited; $run --key job.key --reliable 1 -- $tests/crash_app --in clock"), 1);
    assert_text("err", "backtrace");
    assert_int_equal(cores(), 0);
}

int main(void) {
    return tests_run(shell_open, files_close);
}
