/* Transforms of an app (agileml.h, struct aml_transform), with real processes. Their results do not depend on the
 * processes that run them, on the number of threads, or on nodes that die. Forbidden calls in a transform are refused.
 * */
#include "tests/cluster/shell.h"
#include "tests/test.h"

/* Whether choices by measured times are checked: not in sanitized programs, which are slower. */
static bool times_count(void) {
    return !sanitized();
}

/* Returns the number of iterations: fewer where choices by measured times are not checked. */
static int iterations(int many, int few) {
    return times_count() ? many : few;
}

#define TRANSFORMS "$tests/transform_app --iterations 40 --clocks-per-iteration 1"

TEST(the_same_outputs_whoever_makes_them) {
    run_well("$run -- " TRANSFORMS " && grep '^sums ' out >one && test $(wc -l <one) = 1");
    assert_true(summary("items_processed") == 40.0 * 4500);
    double tests;
    assert_true(whole_metric("report", 40, "tests", &tests) && tests > 0);
    run_well("$run --threads 2 --reliable 3 -- " TRANSFORMS " && grep '^sums ' out >three && cmp one three");
    double same;
    assert_true(whole_metric("report", 40, "tests", &same) && same == tests);
    run_well(
        "printf 'iteration 5 kill node-3\\niteration 12 join transient 1\\niteration 20 evict node-2\\n' >events && "
        "$run --reliable 1 --transient 3 --stage 2 --events events -- " TRANSFORMS
        " && grep '^sums ' out >killed && cmp one killed");
    assert_true(summary("failures") == 1);
}

/* Items of different sizes have the same results as items of one size: in memory and on disk, with feeders, and on
 * nodes that take over others' items. */
PLAIN_TEST(items_of_different_sizes) {
    run_well("$run -- " TRANSFORMS " && grep '^sums ' out >one");
    double tests;
    double same;
    assert_true(whole_metric("report", 40, "tests", &tests));
    run_well("$run --threads 2 --reliable 2 -- " TRANSFORMS
             " --varied 700 && grep '^sums ' out >varied && cmp one varied");
    assert_true(whole_metric("report", 40, "tests", &same) && same == tests);
    run_well("mkdir -p spill && $run -- " TRANSFORMS " --varied 3000 --memory 1M --spill spill --log-level info && "
             "grep '^sums ' out >disk && cmp one disk");
    assert_text("err", "are more than --memory allows");
    assert_true(whole_metric("report", 40, "tests", &same) && same == tests);
    static const char app[] = "$tests/transform_app --items 1000 --sleep-us 300 --iterations 40";
    run_well("$run -- %s && grep '^sums ' out >none", app);
    run_well("printf 'iteration 10 kill feeder all\niteration 14 join feeder 1\niteration 20 kill node-2\n"
             "iteration 30 join transient 1\n' >events && "
             "$run --reliable 1 --transient 1 --stage 1 --feeders 2 --events events -- %s "
             "--varied 2000 && grep '^sums ' out >fed && cmp none fed",
             app);
    assert_true(summary("items_fed") > 0 && summary("failures") >= 1);
}

/* With feeders the sums are the same, also when feeders are killed and join. */
TEST(the_same_outputs_from_feeders) {
    static const char app[] = "$tests/transform_app --items 1000 --sleep-us 300 --iterations 40";
    run_well("$run --reliable 1 --transient 1 --stage 1 -- %s && grep '^sums ' out >none", app);
    run_well("$run --reliable 1 --transient 1 --stage 1 --feeders 2 -- %s && grep '^sums ' out >fed && cmp none fed",
             app);
    assert_true(summary("items_fed") > 0);
    run_well("printf 'iteration 20 kill feeder all\niteration 24 join feeder 1\niteration 32 kill node-2\n' >events && "
             "$run --reliable 1 --transient 1 --stage 1 --feeders 2 --events events -- %s && "
             "grep '^sums ' out >killed && cmp none killed",
             app);
    assert_true(summary("items_fed") > 0);
    /* Transforms that take no time are not worth a request, once their time is known. */
    run_well("$run --reliable 1 --feeders 1 -- $tests/transform_app --iterations 5 && grep -q '^sums ' out");
    if (!times_count()) {
        return;
    }
    /* The second transform makes much output of little input in no time. The node measures that, and runs the transform
     * itself. */
    static const char wide[] = "$tests/transform_app --items 60 --sleep-us 300 --widen 900000 --iterations 120";
    run_well("$run -- %s && grep '^sums ' out >none", wide);
    run_well("printf 'iteration 20 kill feeder all\niteration 30 join feeder 1\n' >events && "
             "$run --feeders 2 --events events -- %s --log-level info && grep '^sums ' out >cut && cmp none cut",
             wide);
    assert_true(summary("items_fed") > 0);
    assert_text("err", "feeders run the transforms up to 'tag' for this node, not up to 'widen'");
}

/* The job chooses its feeders; a resumed job chooses again. */
PLAIN_TEST(a_job_chooses_its_feeders) {
    static const char app[] = "$tests/transform_app --items 300 --clocks-per-iteration 1";
    const int all = iterations(90, 30);
    run_well("$run --reliable 1 -- %s --iterations %d && grep '^sums ' out >none", app, all);
    run_well("$run --reliable 1 --feeders auto:1 --checkpoint saved -- %s --sleep-us 2000 --iterations %d", app,
             iterations(55, 20));
    if (times_count()) {
        assert_true(summary("items_fed") > 0);
        assert_text("report", "\"event\":\"add-feeder\"");
    }
    run_well("$run --reliable 1 --feeders auto:1 --resume saved -- %s --sleep-us 2000 --iterations %d && "
             "grep '^sums ' out >resumed && cmp none resumed",
             app, all);
    if (times_count()) {
        assert_text("report", "\"event\":\"add-feeder\"");
    }
    /* A job without transforms worth feeding has no feeders. */
    run_well("$run --reliable 1 --feeders auto -- $tests/transform_app --iterations 5");
    assert_true(summary("feeders_wanted") == 0);
}

/* A job that chooses its feeders gives the first feeder more threads before it adds another, also after its controller
 * has restarted. A feeder with --threads keeps that number. */
TEST(a_feeder_gets_threads) {
    static const char app[] = "$tests/transform_app --items 300 --clocks-per-iteration 1";
    const int all = iterations(100, 30);
    const int killed = iterations(60, 20);
    run_well("$run -- %s --iterations %d && grep '^sums ' out >none", app, all);
    run_well("printf 'iteration %d kill controller\niteration %d start controller\n' >events && "
             "$run --feeders auto:2 --events events -- %s --sleep-us 2000 --iterations %d && "
             "grep '^sums ' out >threads && cmp none threads",
             killed, killed + 1, app, all);
    if (times_count()) {
        run_well("grep '\"event\":\"[a-z-]*feeder[a-z-]*\"' report | sed -n 2p >second");
        assert_text("second", "\"event\":\"feeder-threads\"");
        assert_text("second", "\"feeders\":1,\"threads\":2,");
        run_well("grep '\"tier\":\"feeder\",\"host\":\"[^\"]*\",\"threads\":2' report");
        assert_text("report", "\"feeder_threads_max\":");
    }
    run_well("$run --threads 1 --feeders auto:2 -- %s --sleep-us 2000 --iterations 20", app);
    run_well("! grep 'feeder-threads\\|feeder_threads' report");
}

PLAIN_TEST(threads_that_nobody_chooses) {
    run_refused("$tests/transform_app --controller tcp://127.0.0.1:1 --threads-max 2",
                "--threads-max: expected it with --tier feeder and without --threads");
    run_refused("$tests/transform_app --controller tcp://127.0.0.1:1 --tier feeder --threads 2 --threads-max 2",
                "--threads-max: expected it with --tier feeder and without --threads");
}

PLAIN_TEST(feeders_that_nobody_can_add) {
    run_refused("$bin/proteus run --feeders some -- " TRANSFORMS,
                "--feeders some: expected a number from 0 to 4096, auto, or auto:MAX");
    run_refused("$bin/proteus run --feeders auto:0 -- " TRANSFORMS, "--feeders auto:0: expected");
    run_refused("$bin/proteus run --feeders auto --market . -- " TRANSFORMS,
                "--feeders auto: not with --market, which buys no feeders");
    run_refused("$bin/proteus controller --listen tcp://127.0.0.1:0 --feeders auto",
                "--feeders auto: a controller starts no nodes: start feeders as APP --tier feeder, or use proteus run");
}

PLAIN_TEST(what_a_transform_must_not_do) {
    run_refused("timeout 60 $bin/proteus run -- " TRANSFORMS " --mistake read",
                "aml_read_param: called in a transform: expected in begin, clock, evaluate, finish or a transform with "
                "AML_TRANSFORM_STATE");
    run_refused("timeout 60 $bin/proteus run -- " TRANSFORMS " --mistake update",
                "aml_update_param: called in a transform: expected in clock");
    run_refused("timeout 60 $bin/proteus run -- " TRANSFORMS " --mistake total",
                "aml_total: called in a transform: expected in");
    run_refused("timeout 60 $bin/proteus run -- " TRANSFORMS " --mistake fail", "the transform has had enough");
    run_refused("timeout 60 $bin/proteus run --feeders 1 -- $tests/transform_app --items 300 --sleep-us 1000 "
                "--mistake fail-at-feeder",
                "proteus: error: the transform has had enough");
    run_refused("timeout 60 $bin/proteus run -- " TRANSFORMS " --varied 9 --mistake rows",
                "aml_emit_varied: item 0: 1 runs of rows, expected none: the app has transforms");
}

/* A feeder that can't read the input on its machine leaves; the job goes on. */
PLAIN_TEST(a_feeder_that_cannot_read) {
    run_well("rm -f report; $bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 1 --transient 0 "
             "--report report >says & controller=$!; "
             "while ! grep -q nodes says; do sleep 0.05; done; read -r listening on at more <says; "
             "node() { $tests/transform_app --controller $at --tier $1 --items 300 --sleep-us 2000 --iterations 40 "
             "--clocks-per-iteration 1 --mistake read-at-feeder; }; "
             "node reliable >sums & while ! grep -qs '\"event\":\"start\"' report; do sleep 0.02; done; "
             "node feeder 2>feeder; test $? = 2 && wait $controller && grep '^sums ' sums");
    assert_text("feeder", "numbers: no such file");
    assert_text("report", "\"reason\":\"numbers: no such file\"");
    /* The same with a feeder that the launcher started. */
    run_well("$run --feeders 1 -- $tests/transform_app --items 300 --sleep-us 2000 --iterations 8 "
             "--clocks-per-iteration 1 --mistake read-at-feeder");
    assert_text("report", "\"reason\":\"numbers: no such file\"");
}

int main(void) {
    return tests_run(shell_open, files_close);
}
