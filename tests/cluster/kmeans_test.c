/* Tests of the example k-means. docs/api.md promises the same bits on any number of nodes and after kills to an app
 * whose clocks read only values that no clock changes any more. Also tests what the example refuses. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

#define KMEANS "$examples/kmeans --data points --centers 5"

TEST(the_same_centers_on_any_number_of_nodes) {
    run_well("$run -- " KMEANS " --iterations 60 --out one && test $(wc -l <one) = 5");
    assert_true(summary("items_processed") == 60.0 * 4000);
    assert_true(summary("squared_distance") < 400); /* five groups, with points less than 20 from their centre */
    run_well("$run --threads 2 --reliable 3 -- " KMEANS " --iterations 60 --out three && cmp one three");
    run_well("$run --reliable 1 --transient 3 --stage 3 -- " KMEANS " --iterations 60 --out four && cmp one four");
    run_well("$run -- " KMEANS " --iterations 60 --clocks-per-iteration 3 --out parts && cmp one parts");
}

/* Other nodes repeat the dead node's work, with their own later changes in their caches. */
TEST(the_same_centers_after_nodes_were_killed) {
    static const char *const stages[] = {"1", "2", "3"};
    run_well("$run -- " KMEANS " --iterations 400 --seed 9 --out whole");
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        run_well(
            "printf 'iteration 5 kill node-3\\niteration 40 kill node-5\\niteration 60 join transient 2\\n' >events && "
            "$run --reliable 1 --transient 4 --stage %s --events events -- " KMEANS
            " --iterations 400 --seed 9 --clocks-per-iteration 2 --out killed && cmp whole killed",
            stages[s]);
        assert_true(summary("failures") == 2);
    }
}

TEST(what_it_refuses) {
    run_refused("$bin/proteus run -- $examples/kmeans", "--data FILE is missing");
    run_refused("$bin/proteus run -- $examples/kmeans --data missing", "--data missing: No such file or directory");
    run_refused("$bin/proteus run -- " KMEANS " --staleness 1", "--staleness 1: expected 0");
    run_refused("printf '1 2\\n3\\n' >bad; $bin/proteus run -- $examples/kmeans --data bad",
                "bad:2: expected 2 numbers, with spaces, tabs or commas between");
    run_refused("printf '1 nan\\n' >bad; $bin/proteus run -- $examples/kmeans --data bad", "bad:1: expected 2 numbers");
    run_refused("printf '1 2 3\\n' >bad; $bin/proteus run -- $examples/kmeans --data bad", "bad:1: expected 2 numbers");
}

/* Whole numbers, whose sums are exact in any order. */
static int write_points(void **state) {
    static const int middles[5][2] = {{100, 100}, {500, 80}, {300, 400}, {80, 600}, {600, 620}};
    uint32_t random = 5;
    assert_int_equal(shell_open(state), 0);
    FILE *file = open_file("points", "we");
    for (unsigned p = 0; p < 4000; p++) {
        random = random * 1664525 + 1013904223;
        fprintf(file, "%d,%d\n", middles[p % 5][0] + (int)(random >> 28), middles[p % 5][1] + (int)(random >> 24 & 15));
    }
    return fclose(file);
}

int main(void) {
    return tests_run(write_points, files_close);
}
