/* Tests with real processes of what depends on the nodes' speeds: the stage that a job chooses, shares, a replaced
 * straggler, a slow server, lots done by other nodes. Sums stay exact in all of them. Runs alone, as other load on the
 * machine would change the speeds. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { USERS = 120, ITEMS = 30, RATINGS = USERS * ITEMS };

/* ---- The tests ---- */

/* With three transient nodes per reliable node the job begins in stage 2 and tries stage 1. Then it returns to stage 2,
 * or learns a threshold above this ratio. */
TEST(the_trial_of_a_stage_ends) {
    run_well(
        "rm -f report; $bin/proteus run --reliable 1 --transient 3 --report report -- $tests/sum_app --data ratings "
        "--slow-us 500 --iterations 100000000 >job & job=$!; "
        "stages() { grep '\"event\":\"stage\"' report | grep -o 'stage [12]\"'; }; "
        "learned() { $bin/proteus status --json --controller $at | grep -Eq '\"threshold_2\":([3-9]|[1-9][0-9])'; }; "
        "for i in $(seq 600); do [ -n \"$(stages)\" ] && break; sleep 0.1; done; "
        "stages | head -1 | grep -q 'stage 1' || exit 91; "
        "at=$(sed -n 's/^controller at //p' job); "
        "for i in $(seq 600); do { stages | tail -1 | grep -q 'stage 2' || learned; } && break; sleep 0.1; done; "
        "[ $i -lt 600 ] || exit 92; $bin/proteus stop --controller $at && wait $job");
}

/* A user's policy changes the shares all the time; sums stay right (sum_app checks them). */
TEST(shares_that_change_all_the_time) {
    run_well("POLICY=shake $bin/proteus run --reliable 1 --transient 4 --stage 2 --balance $tests/libbalance_policy.so "
             "--report report -- $tests/sum_app --data ratings --item-us 20 --seconds 5 --staleness 1");
    FREED char *report = read_text("report");
    unsigned changes = 0;
    for (const char *at = report; (at = strstr(at, "\"event\":\"balance\"")) != NULL; at++) {
        changes++;
    }
    assert_true(changes >= 3);
    assert_non_null(strstr(report, "\"reason\":\"call "));
}

TEST(policies_that_are_wrong) {
    static const char *const cases[][2] = {{"overweight", " the weight 65537, expected at most 65536"},
                                           {"replace-all", " replaced, which may not be replaced now"},
                                           {"crash", "(Aborted), perhaps in the policy of --balance "}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int status =
            run("POLICY=%s $bin/proteus run --reliable 1 --transient 1 --balance $tests/libbalance_policy.so -- "
                "$tests/sum_app --data ratings --item-us 5 --seconds 60",
                cases[c][0]);
        FREED char *error = read_text("err");
        assert_int_equal(status, 1);
        assert_non_null(strstr(error, cases[c][1]));
    }
    static const char *const options[][2] = {
        {"fair", "--balance: expected none, shares, nd, dd or a FILE.so, got 'fair'"},
        {"./none.so", "--balance ./none.so: No such file or directory"},
        {"$bin/proteus", "--balance: "}};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        assert_int_equal(run("$bin/proteus run --balance %s -- mf --data ratings", options[o][0]), 2);
        FREED char *error = read_text("err");
        assert_non_null(strstr(error, options[o][1]));
    }
}

/* With the default of --balance, one node computes at a fourth of the others' speed. It is evicted and replaced, and
 * the sums stay complete. */
TEST(a_straggler_is_replaced) {
    run_well(
        "rm -f report; SUM_SLOW=node-3:4:0:0:0 $bin/proteus run --reliable 1 --transient 3 --stage 2 "
        "--window-short 0.5 --window-long 2 --report report -- $tests/sum_app --data ratings "
        "--item-us 20 --seconds 300 >job & job=$!; "
        "for i in $(seq 1200); do grep -q '\"evicted\".*node-3' report && grep -q '\"join\".*node-5' report && break; "
        "sleep 0.1; done; [ $i -lt 1200 ] || exit 91; "
        "$bin/proteus stop --controller $(sed -n 's/^controller at //p' job) && wait $job");
    FREED char *report = read_text("report");
    const char *replaced = strstr(report, "\"event\":\"replace\"");
    assert_non_null(replaced);
    const char *end = strchr(replaced, '\n');
    const char *node = strstr(replaced, "\"nodes\":[\"node-3\"]");
    assert_true(node != NULL && node < end);
    assert_non_null(strstr(end, "\"event\":\"evict\""));
    const char *join = strstr(end, "\"event\":\"join\"");
    assert_non_null(join);
    assert_non_null(strstr(join, "\"nodes\":[\"node-5\"]"));
}

/* All nodes wait for one node's servers. Their partitions move away, and the sums stay complete. */
TEST(a_slow_server_is_relieved) {
    run_well("rm -f report; SUM_SLOW_SERVER=node-2:40000:0:0 $bin/proteus run --reliable 3 --transient 1 --stage 1 "
             "--balance shares --window-short 0.5 --window-long 2 --report report -- $tests/sum_app --data ratings "
             "--item-us 20 --seconds 300 >job & job=$!; "
             "for i in $(seq 1200); do grep -q '\"balance\".*partitions leave 1 of .*node-2' report && break; "
             "sleep 0.1; done; [ $i -lt 1200 ] || exit 91; "
             "$bin/proteus stop --controller $(sed -n 's/^controller at //p' job) && wait $job");
}

/* One node is late in each clock. Other nodes do some of its lots, also while nodes are lost, and the sums are
 * exact. */
TEST(lots_are_done_by_others) {
    run_well("printf 'iteration 3 kill node-2\\niteration 6 join transient 1\\niteration 9 kill node-4\\n' > faults");
    static const char *const jobs[][2] = {{"", "--lots 4"},
                                          {"--threads 2", "--lots 2 --staleness 2 --clocks-per-iteration 3"},
                                          {"--threads 2 --events faults", "--lots 3"}};
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        run_well("PROTEUS_CHECK=%u SUM_SLOW='node-3:1:30000:0:0' $bin/proteus run --reliable 1 --transient 3 "
                 "--stage 2 --report report %s -- $tests/sum_app --data ratings --item-us 10 --iterations 15 %s",
                 j > 0, jobs[j][0], jobs[j][1]);
        assert_true(summary("items_processed") == 15.0 * RATINGS);
        assert_true(summary("items_helped") > 0);
    }
    static const char *const wrong[][2] = {
        {"lda --data ratings --format text --lots 2", "--lots 2: expected 0, since lda can't be used with lots"},
        {"mf --data ratings --lots 9", "--lots"},
        {"mf --data ratings --lots 2 --compress bf16", "--lots 2: expected 0 with --compress bf16"}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        assert_int_equal(run("$bin/proteus run -- %s", wrong[w][0]), 2);
        FREED char *error = read_text("err");
        assert_non_null(strstr(error, wrong[w][1]));
    }
}

/* ---- The group ---- */

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "we");
    for (int r = 0; r < RATINGS; r++) {
        fprintf(ratings, "%d\t%d\t%d\n", 1 + r / ITEMS, 1 + r % ITEMS, 1 + r % 5);
    }
    return fclose(ratings) == 0 ? 0 : -1;
}

int main(void) {
    return tests_run(set_up, files_close);
}
