/* Tests of whole training runs with real processes: sums that are exact on any cluster, the documentation's example,
 * models that are written and read again, stopping criteria, and the accuracy of matrix factorization where the real
 * ratings are available. Nothing here depends on time. */
#include <math.h>
#include <unistd.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { USERS = 120, ITEMS = 60 };

/* ---- The tests ---- */

/* Sanitized, each cluster has one or two of the jobs, and each job at least one cluster. */
TEST(sums_are_exact) {
    const char *const clusters[] = {"--reliable 1",
                                    "--reliable 1 --threads 3",
                                    "--reliable 2 --transient 2 --threads 2",
                                    "--reliable 1 --transient 2 --stage traditional --partitions 3",
                                    "--reliable 1 --transient 3 --stage 2",
                                    "--reliable 2 --transient 3 --stage 3 --commit-every 3 --partitions 5"};
    const char *const jobs[] = {"", "--staleness 3 --clocks-per-iteration 4",
                                "--staleness 1 --server-threads 2 --clocks-per-iteration 3 --compress bf16"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        for (size_t j = sanitized() ? c % 3 : 0; j < sizeof jobs / sizeof jobs[0]; j += sanitized() ? 3 : 1) {
            int status = run("$bin/proteus run %s --report report -- $tests/sum_app --data ratings --iterations 6 %s",
                             clusters[c], jobs[j]);
            if (status != 0) {
                fail_msg("%s %s: status %d: %s", clusters[c], jobs[j], status, read_text("err"));
            }
            assert_true(summary("items_processed") == 6.0 * USERS * ITEMS / 2);
        }
    }
}

PLAIN_TEST(a_wrong_sum_is_found) {
    assert_int_equal(run("$bin/proteus run --reliable 2 -- $tests/sum_app --data ratings --miscount"), 1);
    FREED char *error = read_text("err");
    assert_non_null(strstr(error, "table 1"));
}

TEST(varied_sums_are_exact) {
    const char *const clusters[] = {"--reliable 1 --threads 3", "--reliable 2 --transient 2 --threads 2",
                                    "--reliable 1 --transient 2 --stage traditional --partitions 3",
                                    "--reliable 2 --transient 3 --stage 3 --commit-every 3 --partitions 5 --threads 2"};
    const char *const jobs[] = {"",
                                "--alone",
                                "--staleness 3 --clocks-per-iteration 4",
                                "--alone --staleness 1 --server-threads 2 --clocks-per-iteration 3",
                                "--samples --clocks-per-iteration 3",
                                "--samples --alone --staleness 1",
                                "--given --alone --clocks-per-iteration 2",
                                "--given --staleness 2"};
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        for (size_t j = sanitized() ? c : 0; j < sizeof jobs / sizeof jobs[0]; j += sanitized() ? 4 : 1) {
            int status =
                run("$bin/proteus run %s --report report -- $tests/varied_app --documents 700 --iterations 6 %s",
                    clusters[c], jobs[j]);
            if (status != 0) {
                fail_msg("%s %s: status %d: %s", clusters[c], jobs[j], status, read_text("err"));
            }
            assert_true(summary("items_processed") == 6.0 * 600);
        }
    }
    assert_int_equal(run("$bin/proteus run --reliable 2 -- $tests/varied_app --miscount"), 1);
    FREED char *error = read_text("err");
    assert_non_null(strstr(error, "table 1"));
}

/* After kills an iteration's sums are the same as in any other, or its line says that they are of a part. */
TEST(sums_after_kills_are_of_all_items) {
    enum { ITERATIONS = 200, TRAIN = 600, TESTS = 100 };
    const char *const jobs[] = {"--slow-us 300", "--alone --slow-us 300 --staleness 2 --clocks-per-iteration 3"};
    for (size_t j = only_threads() ? 1 : 0; j < sizeof jobs / sizeof jobs[0]; j++) { /* the second has more states */
        run_well("printf 'iteration 20 kill node-3\niteration 60 kill transient 2\niteration 100 join transient 2\n"
                 "iteration 140 kill transient all\n' >events; $bin/proteus run --report report --reliable 2 "
                 "--transient 4 --events events -- $tests/varied_app --documents 700 "
                 "--iterations %d %s",
                 ITERATIONS, jobs[j]);
        unsigned partial = check_iterations(TRAIN);
        unsigned whole = 0;
        double tokens;
        double value;
        assert_true(whole_metric("report", 1, "tokens", &tokens));
        for (unsigned i = 1; i <= ITERATIONS; i++) {
            if (whole_metric("report", i, "tokens", &value)) {
                assert_true(value == tokens);
                assert_true(whole_metric("report", i, "tested", &value) && value == TESTS);
                whole++;
            }
        }
        assert_int_equal(whole + partial, ITERATIONS);
        print_message("%u of %d iterations partial\n", partial, ITERATIONS);
    }
}

/* A forbidden use of the API ends the job with one line that says so. */
PLAIN_TEST(wrong_items_are_refused) {
    static const struct {
        const char *mistake;
        int status;
        const char *line;
    } cases[] = {
        {"emit", 2, "aml_emit: item_varied of app varied is 1: expected aml_emit_varied"},
        {"table", 2, "aml_emit_varied: item 77: table 3, the app has 3 (0 to 2)"},
        {"key", 2, "aml_emit_varied: table topics: row 64, expected 0 to 63"},
        {"runs", 2, "item 77: 17 runs of rows and 0 bytes, expected at most 16 and 1048576"},
        {"rows", 2, "item 77: 1048578 rows, expected at most 1048576"},
        {"bytes", 2, "item 77: 1 runs of rows and 1048577 bytes, expected at most 16 and 1048576"},
        {"parallel", 2, "aml_parallel: called in clock: expected in begin or finish, or with clock_alone"},
        {"nested --alone", 2, "aml_parallel: called in a part of aml_parallel: expected in clock itself"},
        {"put", 2, "table documents: changes_given 1: expected mode AML_ADD and type AML_INT32 or AML_INT64"},
        {"columns --given", 2, "aml_give_changes: 2 columns of table words: expected ascending ones below 2"},
        {"width --given", 2, "aml_give_changes: 2 columns of table words: expected ascending ones below 2"},
        {"give --given", 2, "aml_give_changes: 1 columns of table documents: expected ascending ones below 2"},
        {"touch --given", 2, "table words: rows are marked as touched (aml_row): expected aml_give_changes alone"},
        {"x --samples --alone", 0, ""},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int status = run("$bin/proteus run --threads 2 -- $tests/varied_app --mistake %s", cases[c].mistake);
        FREED char *error = read_text("err");
        if (status != cases[c].status || strstr(error, cases[c].line) == NULL ||
            (status != 0 && strchr(error, '\n') != error + strlen(error) - 1)) {
            fail_msg("%s: status %d, '%s', expected %d and one line with '%s'", cases[c].mistake, status, error,
                     cases[c].status, cases[c].line);
        }
    }
}

PLAIN_TEST(the_example_learns_averages) {
    run_well("$bin/proteus run --reliable 2 --report report -- $examples/average --data ratings --iterations 30");
    assert_true(summary("objective") < 1.0); /* ratings spread by about 0.8 around their items' averages */
    assert_true(summary("objective") > 0.5);
    assert_true(summary("items_processed") == 30.0 * USERS * ITEMS / 2);
    assert_int_equal(run("$bin/proteus run -- $examples/average"), 2);
}

/* Every item's average is in the file, on whichever node it was learned. */
PLAIN_TEST(the_example_saves_its_result) {
    run_well("for u in $(seq 50); do for i in 1 2 3 4 5 6; do echo $u $i $((i %% 5 + 1)); done; done >equal && "
             "$bin/proteus run --reliable 3 -- $examples/average --data equal --iterations 20 --out averages && "
             "sort averages >sorted && "
             "for i in 1 2 3 4 5 6; do printf '%%s\\t%%s.0000\\n' $i $((i %% 5 + 1)); done | diff - sorted");
    run_refused("$bin/proteus run -- $examples/average --data equal --out missing/averages",
                "--out missing/averages: No such file or directory");
}

PLAIN_TEST(the_readme_shows_the_example) {
    const char *source = getenv("PROTEUS_SOURCE");
    char path[512];
    FREED char *resolved = realpath(source, NULL);
    assert_non_null(resolved);
    snprintf(path, sizeof path, "%s", resolved);
    run_well("sed -n '/^```c$/,/^```$/p' %s/README.md | sed '1d;$d' >shown", path);
    run_well("test -s shown && ! grep -vxFf %s/examples/average.c shown", path);
}

PLAIN_TEST(a_model_is_written_and_read) {
    run_well("$bin/proteus run --reliable 2 --report report -- mf --data ratings --test other --model-out model");
    double trained = summary("test_rmse");
    run_well("$bin/mf --predict model --data other --out predictions");
    char *text = read_text("out");
    double rmse = 0;
    assert_int_equal(sscanf(text, "ratings %*d rmse %lf", &rmse), 1);
    assert_true(rmse <= trained + 1e-6); /* the same predictions, clipped to the range of ratings */
    assert_true(rmse > trained - 0.05);
    free(text);
    text = read_text("predictions");
    unsigned lines = 0;
    for (const char *c = text; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    assert_int_equal(lines, USERS);
    free(text);
    assert_int_equal(run("head -c 100 model > damaged && $bin/mf --predict damaged --data other"), 2);
    assert_int_equal(run("$bin/mf --predict model --data missing"), 2);
    assert_int_equal(run("$bin/mf --predict model"), 2);
    assert_int_equal(run("$bin/mf --predict model --data other --out /dev/full"), 1);
}

TEST(one_seed_one_result) {
    const char *command =
        "$bin/proteus run --threads 2 --report report -- mf --data ratings --test-fraction 0.2 --seed 7";
    run_well("%s", command);
    double first = summary("test_rmse");
    run_well("%s", command);
    assert_true(summary("test_rmse") == first);
    run_well("$bin/proteus run --report report -- mf --data ratings --test-fraction 0.2 --seed 8");
    assert_true(summary("test_rmse") != first);
}

PLAIN_TEST(criteria_to_stop) {
    run_well("$bin/proteus run --reliable 2 --report report -- mf --data ratings --tolerance 0.02 --staleness 2");
    double iterations = summary("iterations");
    assert_true(iterations > 3);
    assert_true(summary("items_processed") == iterations * USERS * ITEMS / 2);
    run_well("$bin/proteus run --reliable 2 --report report -- mf --data ratings --seconds 0.3 --staleness 2");
    iterations = summary("iterations");
    assert_true(iterations >= 1 && summary("items_processed") == iterations * USERS * ITEMS / 2);
    run_well("$bin/proteus run --report report -- mf --data ratings --seconds 3600 --iterations 3");
    assert_true(summary("iterations") == 3);
    assert_int_equal(run("$bin/proteus run -- mf --data ratings --iterations 0"), 2);
    assert_int_equal(run("$bin/proteus run --reliable 2 -- mf --data ratings --rate 9"), 1); /* diverges */
}

/* Nodes whose options differ from the first node's are refused. */
PLAIN_TEST(nodes_must_agree) {
    run_well(
        "$bin/proteus controller --listen tcp://127.0.0.1:0 --reliable 2 --transient 0 --start-timeout 30 > endpoint & "
        "controller=$!; while ! grep -q tcp endpoint; do sleep 0.05; done; "
        "e=$(sed 's/.*\\(tcp:[^ ]*\\).*/\\1/;q' endpoint); "
        "$bin/mf --controller $e --data ratings --rank 8 & first=$!; sleep 0.5; "
        "$bin/mf --controller $e --data ratings --rank 9 2>second; test $? = 2 || exit 91; "
        "grep -q 'other options' second || exit 92; "
        "$bin/mf --controller $e --data ratings --rank 8 --compress bf16 2>third; test $? = 2 || exit 95; "
        "grep -q 'other options' third || exit 96; "
        "$bin/mf --controller $e --data ratings --rank 8 || exit 93; wait $first || exit 94; wait $controller");
}

/* The servers' steps are the same on any number of nodes, with kills and without. Only the order in which floats are
 * added differs. */
PLAIN_TEST(adagrad_is_the_same_on_any_cluster) {
    static const char *const clusters[] = {"--threads 1", "--reliable 3 --threads 2",
                                           "--reliable 1 --transient 3 --stage 3 --partitions 3",
                                           "--reliable 1 --transient 3 --stage 3 --events events"};
    double rmse = 0;
    run_well("printf 'iteration 20 kill node-3\\niteration 40 join transient 2\\n' >events");
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        run_well("$run %s -- mf --data ratings --rank 8 --optimizer adagrad --clocks-per-iteration 4 --iterations 80",
                 clusters[c]);
        rmse = c == 0 ? summary("train_rmse") : rmse;
        assert_true(fabs(summary("train_rmse") - rmse) < 1e-3 * rmse);
    }
    run_refused("$run -- mf --data ratings --optimizer adagrad --item-limit 0",
                "--item-limit: expected --optimizer sgd, got adagrad");
    run_refused("$run -- mf --data ratings --item-rate 0.2", "--item-rate: expected --optimizer adagrad, got sgd");
    run_refused("$run -- mf --data ratings --optimizer adam", "--optimizer: expected sgd or adagrad, got 'adam'");
}

/* Compressed updates need fewer bytes and have the same errors: also when nodes die and leave, and on a node that is
 * left alone. */
TEST(compressed_updates) {
    const char *const more[] = {"", "--staleness 2", "--clocks-per-iteration 2"};
    for (size_t m = sanitized() ? 1 : 0; m < (sanitized() ? 2 : sizeof more / sizeof more[0]); m++) {
        double bytes[2], rmse[2];
        for (int compress = 0; compress < 2; compress++) {
            const char *how = compress == 1 ? "bf16" : "none --strategy ssgd"; /* bf16 has no other */
            assert_int_equal(run("$bin/proteus run --reliable 3 --report report -- mf --data ratings --test other "
                                 "--rank 64 --iterations 30 --compress %s %s",
                                 how, more[m]),
                             0);
            bytes[compress] = summary("bytes_sent");
            rmse[compress] = summary("test_rmse");
        }
        if (fabs(rmse[1] - rmse[0]) > 0.003 || bytes[1] > 0.75 * bytes[0]) {
            fail_msg("'%s': test RMSE %f and %f, bytes %.0f and %.0f", more[m], rmse[0], rmse[1], bytes[0], bytes[1]);
        }
    }
    const int iterations = sanitized() ? 150 : 600;
    run_well("$bin/proteus run --reliable 1 --report report -- mf --data ratings --test other --iterations %d",
             iterations);
    double undisturbed = summary("test_rmse");
    run_well("printf 'iteration 5 kill node-4\niteration 20 evict node-3 notice 60s\n"
             "iteration 30 evict node-2 notice 60s\n' > events; "
             "$bin/proteus run --reliable 1 --transient 3 --stage 2 --events events --report report "
             "-- mf --data ratings --test other --iterations %d --compress bf16",
             iterations);
    assert_true(summary("failures") == 1 && summary("evictions") == 2);
    if (fabs(summary("test_rmse") - undisturbed) > 0.02) {
        fail_msg("test RMSE %f, undisturbed and by one node %f", summary("test_rmse"), undisturbed);
    }
    assert_int_equal(run("$bin/proteus run -- mf --data ratings --compress fp8"), 2);
    FREED char *error = read_text("err");
    assert_string_equal(error, "mf: error: --compress: expected none or bf16, got 'fp8'\n");
}

/* Without options that steer the training. On four nodes the error is at most 0.004 higher. */
PLAIN_TEST(accuracy_on_movielens) {
    const struct {
        const char *data, *cluster, *options;
        double test_rmse;
    } cases[] = {
        {"ratings-ml-100k/u.data.gz", "", "", 0.905},
        {"ratings-ml-100k/u.data.gz", "--reliable 4", "", 0.9},
        {"ratings-ml-100k/u.data.gz", "--threads 2", "--staleness 3", 0.905},
        {"ratings-ml-100k/u.data.gz", "", "--optimizer adagrad", 0.91},
        {"ratings-ml-1m/ratings.tsv.gz", "", "", 0.843},
        {"ratings-ml-1m/ratings.tsv.gz", "--reliable 4", "", 0.8465},
        {"ratings-ml-1m/ratings.tsv.gz", "--reliable 2", "--rank 64 --staleness 3", 0.843},
        {"ratings-anime/anime_ratings.dat.gz", "", "", 1.2}, /* a constant has 1.58 */
    };
    const char *source = getenv("PROTEUS_SOURCE");
    char shared[512];
    snprintf(shared, sizeof shared, "%s/../shared/data", source);
    if (access(shared, R_OK) != 0) {
        print_message("skipped: the ratings are not at hand in ../shared/data\n");
        skip();
    }
    size_t count = sanitized() ? 3 : sizeof cases / sizeof cases[0];
    for (size_t c = 0; c < count; c++) {
        int status = run("$bin/proteus run %s --report report -- mf --data %s/%s %s --test-fraction 0.1 "
                         "--evaluate-every 1000000",
                         cases[c].cluster, shared, cases[c].data, cases[c].options);
        assert_int_equal(status, 0);
        if (summary("test_rmse") > cases[c].test_rmse) {
            fail_msg("%s %s %s: test RMSE %f, expected at most %f", cases[c].data, cases[c].cluster, cases[c].options,
                     summary("test_rmse"), cases[c].test_rmse);
        }
    }
}

/* ---- The group ---- */

/* Every user rates half of the items: the item's average plus the user's taste. */
static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "we");
    FILE *other = open_file("other", "we");
    for (int u = 0; u < USERS; u++) {
        for (int i = u % 2; i < ITEMS; i += 2) {
            double value = 3 + sin(i) + 1.2 * sin(u * 0.7) * cos(i * 1.3);
            fprintf(i / 2 == u % (ITEMS / 2) ? other : ratings, "%d\t%d\t%.1f\n", u * 7 + 1, i * 3 + 1,
                    round(2 * value) / 2);
        }
    }
    /* The training file has all test ratings, too, so that counts above are of whole halves. */
    for (int u = 0; u < USERS; u++) {
        int i = 2 * (u % (ITEMS / 2)) + u % 2;
        fprintf(ratings, "%d\t%d\t%.1f\n", u * 7 + 1, i * 3 + 1, round(2 * (3 + sin(i))) / 2);
    }
    return fclose(ratings) == 0 && fclose(other) == 0 ? 0 : -1;
}

int main(void) {
    return tests_run(set_up, files_close);
}
