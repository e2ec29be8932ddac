/* Tests of jobs without a reliable node, with real processes that are killed. In stage transient each partition has a
 * copy on another node, in another group if there is one. Also tests jobs that exchange by a ring. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { RATINGS = 6000, ITERATIONS = 60 };

/* An app that checks at its end that each item was counted once in each iteration. */
#define SUMS      "$tests/sum_app --data ratings --iterations 60"
#define TRANSIENT "--events events --reliable 0"

/* Runs a node's program in group "even" or "odd", by the number in its name. */
#define GROUPS "$PWD/group "

TEST(nodes_lost_one_by_one) {
    run_well("printf 'iteration 10 kill node-2\\niteration 25 kill node-4\\niteration 40 kill node-1\\n' >events; "
             "$run " TRANSIENT " --transient 5 -- " SUMS " --slow-us 4000");
    assert_true(summary("items_processed") == (double)RATINGS * ITERATIONS);
    assert_true(summary("failures") == 3);
    assert_text("report", "\"stage\":\"transient\"");
}

/* Nodes join and leave, too; reliable nodes count like others. */
TEST(nodes_that_come_and_go) {
    run_well("printf 'iteration 5 join transient 2\\niteration 20 evict node-1\\niteration 30 kill node-3\\n"
             "iteration 40 join reliable 1\\n' >events; "
             "$run " TRANSIENT " --transient 3 --stage transient -- " SUMS " --slow-us 6000");
    assert_true(summary("items_processed") == (double)RATINGS * ITERATIONS);
    assert_true(summary("failures") == 1 && summary("evictions") == 1);
    assert_no_text("report", "\"stage\":1");
}

/* Without --stage the first reliable node that joins gets the tables. */
TEST(auto_uses_a_reliable_node_that_joins) {
    run_well("printf 'iteration 5 join reliable 1\\n' >events; "
             "$run " TRANSIENT " --transient 1 -- " SUMS " --slow-us 30000"); /* the node must join before the end */
    assert_text("report", "\"stage\":\"transient\"");
    assert_text("report", "\"reason\":\"stage 1\"");
    assert_true(summary("items_processed") == (double)RATINGS * ITERATIONS);
}

/* All nodes of one group, half of the job, are lost at once. */
TEST(a_group_that_is_lost) {
    run_well("printf 'iteration 20 kill node-1 node-3 node-5\\n' >events; "
             "$run " TRANSIENT " --transient 6 -- " GROUPS SUMS " --slow-us 4000");
    assert_true(summary("items_processed") == (double)RATINGS * ITERATIONS);
    assert_true(summary("failures") == 3);
    assert_text("report", "\"group\":\"odd\"");
    assert_text("report", "\"group\":\"even\"");
}

/* All nodes but one are lost at once, twice. The last node's cache has every row without a copy, as this app's tables
 * are replicated. The app checks its sums. */
TEST(one_node_is_left) {
    static const char *const exchanges[] = {"direct", "ring --staleness 2"};
    for (size_t e = 0; e < sizeof exchanges / sizeof *exchanges; e++) {
        run_well("printf 'iteration 10 kill node-1 node-2 node-3 node-4\\niteration 12 join transient 3\\n"
                 "iteration 240 kill node-5 node-6 node-8\\n' >events; "
                 "$run " TRANSIENT " --transient 5 -- $tests/ring_app --iterations 280 --slow-us 6000 --exchange %s",
                 exchanges[e]);
        assert_true(summary("failures") == 7);
        assert_true(summary("iterations") == 280);
        assert_text("report", "\"partitions_from_caches\"");
        assert_text("report", "out of workers' caches, as all copies were lost");
    }
}

/* Both copies are lost at once: the job ends with an error, and resumes from its checkpoint. */
TEST(both_groups_lost) {
    assert_int_equal(run("printf 'iteration 40 kill node-1 node-2 node-3\\n' >events; "
                         "$run " TRANSIENT " --transient 4 --checkpoint saved --checkpoint-every 5 -- " GROUPS SUMS
                         " --slow-us 4000"),
                     1);
    assert_text("err", "proteus: error: all copies of partition ");
    assert_text("err", " were lost with their nodes, and no node's cache has it; go on from the last checkpoint with "
                       "--resume /");
    run_well("$run --reliable 0 --transient 2 --resume saved -- " SUMS);
    assert_text("report", "\"stage\":\"transient\"");
    run_well("$run --reliable 0 --transient 1 --resume saved -- " SUMS); /* a single copy */
}

/* The end of a process is noticed at once, and with probes a stopped process, too: a failure timeout of 60 s would end
 * the test. Healthy nodes stay. */
TEST(losses_are_noticed_at_once) {
    run_well("printf 'iteration 10 kill node-2\\niteration 25 pause node-4\\n' >events; "
             "$run --failure-timeout 60 --probe 50 --events events --reliable 0 --transient 5 -- " SUMS
             " --slow-us 4000");
    assert_true(summary("items_processed") == (double)RATINGS * ITERATIONS);
    assert_true(summary("failures") == 2);
    assert_text("report", "\"nodes\":[\"node-2\"],\"reason\":\"the process of node-2 (");
    assert_text("report", "\"nodes\":[\"node-4\"],\"reason\":\"node-4 (");
    assert_text("report", "does not answer other nodes");
}

TEST(bad_groups) {
    run_refused("$run --reliable 0 --transient 2 -- " SUMS " --group ''", "--group '': expected a name of 1 to ");
    run_refused("$run --reliable 0 --transient 2 --stage 2 -- " SUMS,
                "--reliable 0: expected at least 1, since in stage 2 reliable nodes keep the tables");
}

/* Nodes are killed, get notices and join while updates go around the ring. The app checks its sums. */
TEST(ring) {
    run_well("printf 'iteration 5 join transient 2\\niteration 15 evict node-1\\niteration 35 kill node-2\\n"
             "iteration 50 kill node-4\\n' >events; "
             "$run " TRANSIENT " --transient 5 -- $tests/ring_app --iterations 80 --slow-us 6000 --exchange ring");
    assert_true(summary("failures") >= 2);
    run_well("printf 'iteration 10 kill node-3\\niteration 20 join transient 1\\n' >events; "
             "$run --events events --stage 1 --reliable 2 --transient 2 -- $tests/ring_app "
             "--iterations 40 --slow-us 4000 --exchange ring --staleness 2");
    run_well("$run --reliable 4 -- $tests/ring_app --iterations 20 --exchange auto");
    run_well("$run --reliable 2 -- " SUMS " --exchange auto"); /* direct: this app's tables are not fit for a ring */
    run_refused("$run --reliable 2 -- " SUMS " --exchange ring",
                "--exchange ring: table users can't travel by a ring: expected tables that every node has as a whole");
    run_refused("$run --reliable 2 -- " SUMS " --exchange around", "--exchange: expected direct, ring or auto");
}

/* Nodes are killed, get notices and join while updates are flushed in pieces. The app checks its sums. */
TEST(flushes_in_pieces) {
    static const char *const options[] = {"--reliable 0 --transient 5 -- $tests/ring_app",
                                          "--reliable 0 --transient 5 --threads 2 -- $tests/ring_app --staleness 2",
                                          "--reliable 2 --transient 3 --stage 3 -- $tests/ring_app --staleness 1"};
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        run_well("printf 'iteration 5 join transient 1\niteration 12 kill node-3\niteration 22 evict node-5\n"
                 "iteration 30 kill node-4\n' >events; "
                 "PROTEUS_LOG_LEVEL=info $run --events events --partitions 4 %s --iterations 50 "
                 "--slow-us 8000 --rows 20000 --all --flush-early",
                 options[o]);
        assert_true(summary("failures") == 2);
        assert_text("err", " times before a clock's end (--flush-early)");
    }
    run_well("PROTEUS_LOG_LEVEL=info $run --reliable 4 -- $tests/ring_app --iterations 20 --rows 20000 --all "
             "--exchange ring --flush-early");
    assert_no_text("err", "before a clock's end"); /* a ring has no pieces */
}

static int open_folder(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "we");
    for (unsigned r = 0; r < RATINGS; r++) {
        fprintf(ratings, "%u %u %u\n", r % 97, r % 89, 1 + r % 5);
    }
    fclose(ratings);
    FILE *group = open_file("group", "we");
    fputs("#!/bin/sh\n"
          "app=$1\n"
          "shift\n"
          "for argument in \"$@\"; do\n"
          "    case $argument in\n"
          "    --name=node-[02468]) group=even ;;\n"
          "    --name=node-*) group=odd ;;\n"
          "    esac\n"
          "done\n"
          "exec \"$app\" \"$@\" ${group:+--group \"$group\"}\n",
          group);
    fclose(group);
    run_well("chmod +x group");
    return 0;
}

int main(void) {
    return tests_run(open_folder, files_close);
}
