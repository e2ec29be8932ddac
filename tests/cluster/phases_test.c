/* Phases of an app (aml_app.phases), with real processes. Each phase sees what the phase before has made of all items:
 * the app checks its tables to the last bit. The report counts an item once an iteration. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { VERTICES = 600, ITERATIONS = 24 };

/* Runs a job and checks its report. Returns in how many iterations metrics are of a part of the items, as nodes were
 * lost before they reported. */
__attribute__((format(printf, 2, 3))) static unsigned work(const char *before, const char *format, ...) {
    char options[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(options, sizeof options, format, arguments);
    va_end(arguments);
    run_well("%s $run %s --iterations %d", before, options, ITERATIONS);
    assert_true(summary("items_processed") == (double)ITERATIONS * VERTICES);
    return check_iterations(VERTICES);
}

static void assert_metric(const char *key, double expected) {
    double value;
    assert_true(whole_metric("report", ITERATIONS, key, &value) && value == expected);
}

TEST(each_phase_works_on_all_items) {
    assert_int_equal(work("", "-- $tests/phases_app"), 0);
    assert_true(summary("clocks") == 3.0 * ITERATIONS);
    assert_metric("worked", 3.0 * VERTICES);
    assert_metric("evaluated", 1);
    assert_int_equal(work("", "--threads 2 --reliable 3 -- $tests/phases_app --clocks-per-iteration 6"), 0);
    assert_true(summary("clocks") == 6.0 * ITERATIONS);
    assert_metric("worked", 3.0 * VERTICES);
    assert_int_equal(work("PROTEUS_CHECK=1", "--threads 2 --reliable 2 -- $tests/phases_app --phases 5"), 0);
    assert_true(summary("clocks") == 5.0 * ITERATIONS);
    assert_metric("worked", 5.0 * VERTICES);
    run_refused("$run -- $tests/phases_app --iterations 3 --miscount", "its sum is wrong by 1");
}

TEST(nodes_are_lost_and_join) {
    static const char *const stages[] = {"1", "2", "3"};
    run_well("printf 'iteration 4 kill node-3\\niteration 8 join transient 1\\niteration 12 kill node-4\\n' "
             ">events");
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        for (int parts = 1; parts <= 2; parts++) {
            work("",
                 "--reliable 2 --transient 2 --stage %s --events events -- $tests/phases_app --slow-us 5000 "
                 "--clocks-per-iteration %d",
                 stages[s], 3 * parts);
            assert_true(summary("failures") == 2);
        }
    }
}

TEST(lots_are_done_by_others) {
    static const char app[] = "$tests/phases_app --slow-us 3000 --uneven-us 20000 --lots 3";
    work("", "--reliable 4 -- %s --clocks-per-iteration 6", app);
    assert_true(summary("items_helped") > 0);
    run_well("printf 'iteration 4 kill node-2\\niteration 8 kill node-4\\n' >events");
    work("", "--reliable 1 --transient 3 --stage 2 --events events -- %s", app);
    assert_true(summary("failures") == 2);
}

TEST(items_on_disk) {
    work("", "-- $tests/phases_app --payload 5000 --clocks-per-iteration 12 --memory 1M --spill . --log-level info");
    assert_text("err", "are more than --memory allows");
    assert_true(summary("disk_bytes") > 1e6);
    run_well("printf 'iteration 5 kill node-2\\niteration 9 join transient 1\\n' >events");
    work("", "--reliable 1 --transient 1 --events events -- $tests/phases_app --payload 5000 --memory 1M --spill . "
             "--slow-us 2000");
    assert_true(summary("failures") == 1);
}

TEST(a_job_resumes_with_its_phases) {
    work("", "--checkpoint saved --checkpoint-every 10 -- $tests/phases_app --slow-us 5000");
    run_well("rm -r saved/clock-%d && $run --resume saved -- $tests/phases_app --iterations %d", 3 * ITERATIONS,
             ITERATIONS);
    const unsigned before = (unsigned)summary("resumed_clock") / 3; /* iterations whose items count */
    assert_true(summary("resumed_clock") > 0 && summary("items_before") == (double)before * VERTICES);
    assert_true(summary("items_processed") == (double)(ITERATIONS - before) * VERTICES);
    run_refused("$run --resume saved -- $tests/phases_app --phases 4", "--phases 4, was 3");
}

TEST(what_excludes_phases) {
    run_refused("$run -- $tests/phases_app --clocks-per-iteration 4",
                "--clocks-per-iteration 4: expected a multiple of 3, as phases works on each part in 3 phases");
    run_refused("$run -- $tests/phases_app --strategy sma", "--strategy sma: expected ssgd, since phases works in 3 "
                                                            "phases");
}

int main(void) {
    return tests_run(shell_open, files_close);
}
