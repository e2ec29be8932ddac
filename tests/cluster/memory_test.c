/* Jobs whose data does not fit --memory, with real processes: they have the same losses as those in memory, also with
 * nodes that come and go; a job that is killed leaves no file, and resumes; a full disk and a folder that can't be
 * written to end the job with one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cluster/shell.h"

enum { SAMPLES = 6000, FEATURES = 60, MARK_EACH = 8 };

static void test_the_same_losses_with_data_on_disk(void **state) {
    (void)state;
    static const char *const layouts[] = {"dense", "sparse"};
    for (int l = 0; l < 2; l++) {
        run_well("$run -- mlr --data train.libsvm --test-fraction 0.2 --iterations 4 --layout %s", layouts[l]);
        double loss = summary("loss");
        double test_loss = summary("test_loss");
        assert_true(summary("disk_bytes") == 0);
        run_well("$run -- mlr --data train.libsvm --test-fraction 0.2 --iterations 4 --layout %s --memory 1M "
                 "--spill spill --log-level info",
                 layouts[l]);
        assert_text("err", "are more than --memory allows: they are read from spill in each iteration");
        assert_true(summary("loss") == loss);
        assert_true(summary("test_loss") == test_loss);
        assert_true(summary("disk_bytes") > 1e6);
        run_well("[ -z \"$(ls spill)\" ]");
    }
}

static void test_nodes_come_and_go_with_data_on_disk(void **state) {
    (void)state;
    run_well("printf 'iteration 3 join transient 1\\niteration 6 kill node-3\\n' >events");
    run_well("$run --reliable 2 --events events --failure-timeout 3 -- mlr --data train.libsvm --iterations 12 "
             "--layout dense");
    double loss = summary("loss");
    run_well("$run --reliable 2 --events events --failure-timeout 3 -- mlr --data train.libsvm --iterations 12 "
             "--layout dense --memory 1M --spill spill --log-level info");
    assert_text("err", "are more than --memory allows");
    assert_true(summary("loss") < 1.001 * loss && summary("loss") > 0.999 * loss);
    assert_true(summary("items_processed") >= 12.0 * SAMPLES);
    run_well("[ -z \"$(ls spill)\" ]");
}

static void test_a_killed_job_leaves_no_file_and_resumes(void **state) {
    (void)state;
    run_well("$run -- mlr --data train.libsvm --iterations 40 --memory 1M --spill spill");
    double loss = summary("loss");
    assert_true(run("printf 'iteration 30 kill node-1\\n' >events; $run --events events --checkpoint saved "
                    "--checkpoint-every 1 -- mlr --data train.libsvm --iterations 40 --memory 1M --spill spill") != 0);
    run_well("[ -z \"$(ls spill)\" ]");
    run_well("$run --resume saved -- mlr --data train.libsvm --iterations 40 --memory 1M --spill spill");
    assert_true(summary("resumed_iteration") >= 1);
    assert_true(summary("loss") == loss);
    run_well("[ -z \"$(ls spill)\" ]");
}

static void test_a_disk_that_is_full_or_not_there(void **state) {
    (void)state;
    assert_int_equal(run("ulimit -f 1000; $run -- mlr --data train.libsvm --memory 1M --spill spill"), 1);
    assert_text("err", "error: spill: can't write");
    assert_text("err", "free space, name another folder by --spill, or use more nodes or memory");
    assert_int_equal(run("$run -- mlr --data train.libsvm --memory 1M --spill nowhere"), 1);
    assert_text("err", "error: nowhere: can't make a file for the data that does not fit --memory: No such file");
    run_refused("$run -- mlr --data train.libsvm --memory 1X", "--memory '1X': expected a size");
    run_refused("$run -- mlr --data train.libsvm --spill ''", "--spill ''");
}

/* Samples of two classes that differ in the mean of some features. */
static void write_samples(const char *name) {
    FILE *file = open_file(name, "we");
    unsigned random = 1;
    for (unsigned s = 0; s < SAMPLES; s++) {
        unsigned label = s * 7919 % 2;
        fprintf(file, "%u", label);
        for (unsigned f = 1; f <= FEATURES; f++) {
            random = random * 1103515245U + 12345U;
            unsigned value = (random >> 16) % 100 + (f % MARK_EACH == 0 ? 20 * label : 0);
            if (value % 4 != 0) {
                fprintf(file, " %u:%.2f", f, value / 100.0);
            }
        }
        fputc('\n', file);
    }
    fclose(file);
}

static int set_up(void **state) {
    (void)state;
    int result = shell_open("memory_test");
    if (result == 0) {
        write_samples("train.libsvm");
        run_well("mkdir spill");
    }
    return result;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_same_losses_with_data_on_disk),
        cmocka_unit_test(test_nodes_come_and_go_with_data_on_disk),
        cmocka_unit_test(test_a_killed_job_leaves_no_file_and_resumes),
        cmocka_unit_test(test_a_disk_that_is_full_or_not_there),
    };
    return cmocka_run_group_tests(tests, set_up, shell_close);
}
