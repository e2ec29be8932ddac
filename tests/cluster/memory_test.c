/* Jobs whose data does not fit --memory, with real processes. They have the same losses as jobs in memory, also when
 * nodes come and go, and with lda's put table on disk. A killed job leaves no file, and can be resumed. A full disk
 * (see small_disk_test, too) or an unwritable folder ends the job with one line. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { DOCUMENTS = 3000, WORDS = 2000, WORDS_EACH = 40 };
enum { SAMPLES = 6000, FEATURES = 60, MARK_EACH = 8 };

TEST(the_same_losses_with_data_on_disk) {
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

TEST(nodes_come_and_go_with_data_on_disk) {
    run_well("printf 'iteration 3 join transient 1\\niteration 6 kill node-3\\n' >events");
    run_well("$run --reliable 2 --events events -- mlr --data train.libsvm --iterations 12 "
             "--layout dense");
    double loss = summary("loss");
    run_well("$run --reliable 2 --events events -- mlr --data train.libsvm --iterations 12 "
             "--layout dense --memory 1M --spill spill --log-level info");
    assert_text("err", "are more than --memory allows");
    assert_true(summary("loss") < 1.001 * loss && summary("loss") > 0.999 * loss);
    assert_true(summary("items_processed") >= 12.0 * SAMPLES);
    run_well("[ -z \"$(ls spill)\" ]");
}

/* lda's documents, and their rows, which are in a put table. */
TEST(documents_on_disk) {
    run_well("$run -- lda --data documents --topics 20 --iterations 3 --clocks-per-iteration 5");
    double likelihood = summary("log_likelihood_per_token");
    run_well("$run -- lda --data documents --topics 20 --iterations 3 --clocks-per-iteration 5 --memory 1M --spill "
             "spill --log-level info");
    assert_text("err", "are more than --memory allows");
    assert_true(summary("log_likelihood_per_token") == likelihood);
    assert_true(summary("disk_bytes") > 1e6);
    run_well("[ -z \"$(ls spill)\" ]");
}

/* Kills the job at a later iteration if no checkpoint was complete in time. It has enough iterations left, as the kill
 * may come late on a busy machine. */
TEST(a_killed_job_leaves_no_file_and_resumes) {
    enum { LEFT = 300 };
    unsigned at = 20;
    int lacking = 1;
    for (; lacking != 0 && at < 20000; at *= 3) {
        assert_true(run("printf 'iteration %u kill node-1\\n' >events; $run --events events --checkpoint saved "
                        "--checkpoint-every 1 -- mlr --data train.libsvm --iterations %u --memory 1M --spill spill",
                        at, at + LEFT) != 0);
        run_well("[ -z \"$(ls spill)\" ]");
        lacking = run("ls saved/clock-*/manifest.json");
    }
    unsigned iterations = at / 3 + LEFT;
    run_well("$run --resume saved -- mlr --data train.libsvm --iterations %u --memory 1M --spill spill", iterations);
    assert_true(summary("resumed_iteration") >= 1);
    double loss = summary("loss");
    run_well("[ -z \"$(ls spill)\" ]");
    run_well("$run -- mlr --data train.libsvm --iterations %u --memory 1M --spill spill", iterations);
    assert_true(summary("loss") == loss);
}

TEST(a_disk_that_is_full_or_not_there) {
    assert_int_equal(run("ulimit -f 1000; $run -- mlr --data train.libsvm --memory 1M --spill spill"), 1);
    assert_text("err", "error: spill: can't write");
    assert_text("err", "free space, name another folder by --spill, or use more nodes or memory");
    run_refused("$run -- mlr --data train.libsvm --memory 1g --spill nowhere",
                "error: nowhere: can't make a file for the data that does not fit --memory: No such file");
    run_refused("$run -- mlr --data train.libsvm --memory 1X", "--memory '1X': expected a size");
    run_refused("$run -- mlr --data train.libsvm --spill ''", "--spill ''");
}

/* Writes samples of two classes that differ in the mean of some features. */
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

/* Writes a bag of words in UCI's format. */
static void write_documents(const char *name) {
    FILE *file = open_file(name, "we");
    fprintf(file, "%d\n%d\n%d\n", DOCUMENTS, WORDS, DOCUMENTS * WORDS_EACH);
    for (unsigned d = 1; d <= DOCUMENTS; d++) {
        for (unsigned w = 0; w < WORDS_EACH; w++) {
            unsigned word = (d * 31 % 20) * (WORDS / 20) + (w * 7 + d) % (WORDS / 20);
            fprintf(file, "%u %u %u\n", d, 1 + word, 1 + (d + w) % 3);
        }
    }
    fclose(file);
}

static int set_up(void **state) {
    int result = shell_open(state);
    if (result == 0) {
        write_samples("train.libsvm");
        write_documents("documents");
        run_well("mkdir spill");
    }
    return result;
}

int main(void) {
    return tests_run(set_up, files_close);
}
