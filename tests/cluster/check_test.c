/* Checks of how apps use the library (workers/process/check.c). Each mistake of misuse_app.c ends the job with exit
 * status 2 and one line that names the call. The apps that come with Proteus make no such mistake, also with
 * PROTEUS_CHECK=1. */
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { RATINGS = 400, FEATURES = 9 };

struct mistake {
    const char *name, *line;
};

/* Runs the app with the mistake, in a process of two threads unless the options have others. */
static void assert_found(const char *environment, const char *options, const struct mistake *mistake) {
    int status = run("%s timeout 60 $bin/proteus run --threads 2 %s -- $tests/misuse_app --data ratings --mistake %s",
                     environment, options, mistake->name);
    FREED char *error = read_text("err");
    if (status != 2 || strstr(error, mistake->line) == NULL || strchr(error, '\n') != error + strlen(error) - 1) {
        fail_msg("%s %s: status %d, '%s', expected 2 and one line with '%s'", environment, mistake->name, status, error,
                 mistake->line);
    }
}

TEST(what_is_always_found) {
    static const struct mistake mistakes[] = {
        {"metric", "aml_metric_add: metric 3, the app has 2 (0 to 1)"},
        {"metric-evaluated", "aml_metric_add: metric tested: called in clock, but its `evaluated` is 1"},
        {"metric-in-evaluate", "aml_metric_add: metric loss: called in evaluate, but its `evaluated` is 0"},
        {"metric-in-begin", "aml_metric_add: called in begin: expected in clock or evaluate"},
        {"metric-in-finish", "aml_metric_add: called in finish: expected in clock or evaluate"},
        {"table", "aml_table_rows: table 7, the app has 6 (0 to 5)"},
        {"read-table", "aml_read_param: table 6, the app has 6 (0 to 5)"},
        {"read-values", "aml_read_param: table dense: values are NULL"},
        {"read-keys", "aml_read_params: table dense: keys are NULL"},
        {"update-keys", "aml_update_params: table dense: keys are NULL"},
        {"read-key", "aml_read_param: table dense: row 10, expected 0 to 9"},
        {"update-table", "aml_update_param: table 6, the app has 6 (0 to 5)"},
        {"update-delta", "aml_update_param: table dense: deltas are NULL"},
        {"update-in-begin", "aml_update_param: called in begin: expected in clock"},
        {"update-in-evaluate", "aml_update_param: called in evaluate: expected in clock"},
        {"give-table", "aml_give_changes: table 9, the app has 6 (0 to 5)"},
        {"give-slot", "aml_give_changes: slot 1073741824: table given has 10 rows in this process"},
        {"give-columns", "aml_give_changes: 1 columns of table given: expected ascending ones below 4"},
        {"keys", "aml_emit: keys are NULL, item_rows is 1"},
        {"bytes", "aml_emit: bytes are NULL, item_bytes is 4"},
        {"emit-numbered", "aml_emit_numbered: item_rows is 1, expected 0"},
        {"group", "aml_read_groups: group is NULL"},
        {"groups-each", "aml_read_groups: each is NULL"},
        {"use", "aml_emit: use 5: expected AML_TRAIN or AML_TEST"},
        {"emit-in-clock", "aml_emit: called in clock: expected in read"},
        {"emit-thread", "aml_emit: called with the worker of another thread"},
        {"path", "aml_read_ratings: path is NULL"},
        {"input-file", "aml_input_file: path is NULL"},
        {"mark", "aml_input_mark: what is NULL: expected 1 to 31 bytes"},
        {"mark-twice", "aml_input_mark: labels: called twice: expected one hash"},
        {"marks", "aml_input_mark: i: expected at most 8 marks"},
        {"mark-in-read", "aml_input_mark: called in read: expected in configure"},
        {"each", "aml_read_ratings: each is NULL"},
        {"outer-worker", "aml_emit: called with the worker of read within aml_read_ratings"},
        {"each-positive",
         "the function passed to aml_read_ratings returned 1: expected 0, or a negative aml_error_code"},
        {"read-positive", "read returned 3: expected 0, or a negative aml_error_code"},
        {"begin-positive", "begin returned 1: expected 0, or a negative aml_error_code"},
        {"clock-positive", "clock returned 1: expected 0, or a negative aml_error_code"},
        {"finish-positive", "finish returned 2: expected 0, or a negative aml_error_code"},
        {"error", "aml_error: code 4: expected a negative aml_error_code, for 'the file ends'"},
        {"total-add", "aml_total_add: index 8: 0 to 7 are possible"},
        {"total-raise", "aml_total_raise: index 9: 0 to 7 are possible"},
        {"total", "aml_total_maximum: index 8: 0 to 7 are possible"},
        {"total-early", "aml_total: called in read: expected in begin, clock, evaluate or finish"},
        {"items", "aml_items: count is NULL"},
        {"scan", "aml_scan: each is NULL"},
        {"scan-table", "aml_scan: table 6, the app has 6 (0 to 5)"},
        {"scan-in-clock", "aml_scan: called in clock: expected in finish"},
        {"kept-worker", "aml_metric_add: called with a worker that was kept"},
        {"part", "aml_parallel: part is NULL"},
        {"thread-in-part", "aml_thread: called in a part of aml_parallel: expected in begin itself"},
        {"slot", "aml_row: slot 2000: table sums has 2000 rows in this process"},
        {"slot-read", "aml_row_read: slot 4294967295: table dense has 10 rows in this process"},
        {"touch", "aml_touch: slot 10: table dense has 10 rows in this process"},
        {"stepped-row",
         "aml_row: table stepped has an optimizer: expected aml_row_read to read and aml_row_sum to update"},
        {"stepped-touch",
         "aml_touch: table stepped has an optimizer: expected aml_row_read to read and aml_row_sum to update"},
        {"row-sum", "aml_row_sum: table dense has no optimizer: expected aml_row"},
        {"row-sum-slot", "aml_row_sum: slot 10: table stepped has 10 rows in this process"},
        {"done-table", "aml_rows_done: table sums: expected a table that is whole, with AML_ADD"},
        {"done-given", "aml_rows_done: table given: expected a table that is whole, with AML_ADD and without "
                       "changes_given"},
        {"done-rows", "aml_rows_done: 6 rows of table dense from 5 on: expected rows 0 to 9"},
    };
    for (size_t m = 0; m < sizeof mistakes / sizeof mistakes[0]; m++) {
        assert_found("", "", &mistakes[m]);
    }
}

TEST(what_is_found_when_asked_for) {
    static const struct mistake mistakes[] = {
        {"unmarked",
         "clock: table dense: row 3 was changed, but not marked as changed: expected aml_row, not aml_row_read"},
        {"write-in-begin", "begin: table dense: row 0 was changed: expected in clock only"},
        {"write-in-evaluate", "evaluate: table dense: row 0 was changed: expected in clock only"},
        {"row-in-evaluate", "aml_row: called in evaluate: expected in clock"},
        {"touched-in-evaluate", "evaluate: table dense: row 0 was marked as changed: expected in clock only"},
        {"two-threads", "clock: table dense: row 3 was changed by threads 0 and 1 at once: expected one thread, or "
                        "aml_update_param in all"},
        {"two-threads-touched", "clock: table dense: row 3 was changed by threads 0 and 1 at once"},
        {"two-threads-put", "clock: table puts: row 5 was changed by threads 0 and 1 at once: expected one thread"},
        {"two-threads-mixed", "clock: table dense: row 3 was changed by threads 0 and 1 at once"},
        {"behind", "clock: table sums: what lies behind row"},
        {"kept-rows", "aml_row: rows of table dense that were kept"},
        {"given-row", "aml_row: table given has changes_given: expected aml_row_read and aml_give_changes"},
        {"given", "aml_give_changes: table given: row 2: element 1 is "},
        {"stepped-in-place",
         "clock: table stepped: row 3 was changed in place, but the table has an optimizer: expected "
         "aml_row_sum or aml_update_param"},
        {"row-sum-threads", "clock: table stepped: row 3 was changed by threads 0 and 1 at once"},
        {"clock-thread", "aml_read_param: called with the worker of another thread"},
        {"start-impure", "start of table dense: made another value when it was called again"},
        {"start-behind", "start of table dense: wrote behind the row: its width is 4"},
        {"slot", "aml_row: slot 2000: table sums has 2000 rows in this process"},
    };
    for (size_t m = 0; m < sizeof mistakes / sizeof mistakes[0]; m++) {
        assert_found("PROTEUS_CHECK=1", "", &mistakes[m]);
    }
    static const struct mistake nodes = {"two-nodes-put", "clock: table puts: row 5 was put by two nodes in clock "};
    assert_found("PROTEUS_CHECK=1", "--reliable 2", &nodes);
}

/* Another node takes over items. Slots kept from the first `begin` then name its rows. One node: another that registers
 * just as the job fails would print the error, too. */
TEST(slots_kept_over_begin) {
    static const struct mistake mistake = {"kept-slots --iterations 100000",
                                           "since the last begin: expected slots of the present items"};
    FILE *events = open_file("events", "w");
    fputs("iteration 3 join transient 1\n", events);
    fclose(events);
    assert_found("PROTEUS_CHECK=1", "--threads 1 --events events", &mistake);
}

TEST(numbers_that_are_none) {
    static const struct mistake mistake = {
        "nan --reject-nan",
        "clock: table dense: the update of row 3 in clock 3 on node-1 has a NaN or an infinity (--reject-nan)"};
    assert_found("", "", &mistake);
    run_well("$bin/proteus run -- $tests/misuse_app --mistake nan");
    run_well("$bin/proteus run -- $tests/misuse_app --mistake none --reject-nan");
}

/* An app updates rows that it has declared done. Without checks this is found only after the rows were flushed. */
TEST(updates_of_rows_that_are_done) {
    static const struct mistake checked[] = {
        {"done-row", "aml_row: table dense: row 3 was declared done (aml_rows_done): expected no update of the row"},
        {"done-update", "aml_update_param: table dense: row 3 was declared done (aml_rows_done)"},
        {"done-kept", "clock: table dense: row 3 was updated in clock 1 after aml_rows_done had declared it done"},
    };
    for (size_t m = 0; m < sizeof checked / sizeof checked[0]; m++) {
        assert_found("PROTEUS_CHECK=1", "--threads 1", &checked[m]);
    }
    static const struct mistake early[] = {
        {"done-row --flush-early",
         "clock: table dense: row 3 was updated in clock 1 after aml_rows_done had declared it done"},
        {"done-update --flush-early",
         "clock: table dense: row 3 was updated in clock 1 after aml_rows_done had declared it done"},
        {"done-nan --flush-early --reject-nan", "clock: table dense: the update of row 3 in clock 3 on node-"},
    };
    for (size_t m = 0; m < sizeof early / sizeof early[0]; m++) {
        assert_found("", "--threads 1 --reliable 2 --partitions 2", &early[m]);
    }
    run_well("$bin/proteus run --reliable 2 --partitions 2 -- $tests/misuse_app --mistake done-well --flush-early");
    run_well("$bin/proteus run --reliable 2 --partitions 2 -- $tests/misuse_app --mistake done-few --flush-early");
    run_well("$bin/proteus run -- $tests/misuse_app --mistake done-row"); /* nothing is flushed early */
    run_well("PROTEUS_CHECK=1 $bin/proteus run -- $tests/misuse_app --mistake done-well --flush-early");
}

TEST(what_is_allowed) {
    static const char *const uses[] = {"none", "two-threads-well", "given-well", "row-sum-well"};
    for (size_t u = 0; u < sizeof uses / sizeof uses[0]; u++) {
        run_well("PROTEUS_CHECK=1 $bin/proteus run --reliable 2 --threads 2 -- $tests/misuse_app --mistake %s",
                 uses[u]);
    }
    run_well("PROTEUS_CHECK=0 $bin/proteus run -- $tests/misuse_app --mistake unmarked");
}

TEST(the_apps_make_no_mistake) {
    static const char *const apps[] = {
        "mf --data ratings --test-fraction 0.2 --rank 7",
        "mf --data ratings --staleness 2 --compress bf16",
        "mlr --data samples --layout dense --test-fraction 0.2",
        "mlr --data samples --layout dense --momentum 0.5",
        "mlr --data samples --layout sparse --staleness 1",
        "net --data samples --layers 'dense 5, dropout 0.1, dense 4'",
        "net --data samples --optimizer sgd --test-fraction 0.2 --flush-early",
        "lda --data documents --topics 5 --test-fraction 0.2 --likelihood-every 1",
        "lda --data documents --topics 5 --staleness 1 --optimize-alpha",
        "$examples/average --data ratings",
        "$examples/kmeans --data points --centers 3",
        "$tests/sum_app --data ratings",
        "$tests/varied_app --given --alone",
        "$tests/varied_app --samples --staleness 1",
    };
    static const char *const clusters[] = {"--threads 1", "--threads 2", "--reliable 2 --threads 2"};
    for (size_t a = 0; a < sizeof apps / sizeof apps[0]; a++) {
        for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
            run_well("PROTEUS_CHECK=1 $bin/proteus run %s -- %s --iterations 6", clusters[c], apps[a]);
        }
    }
    FILE *events = open_file("events", "w");
    fputs("iteration 3 join transient 1\niteration 9 evict transient all notice 60s\n", events);
    fclose(events);
    run_well("PROTEUS_CHECK=1 $bin/proteus run --threads 2 --events events -- mf --data ratings --iterations 30");
    run_well("PROTEUS_CHECK=1 $bin/proteus run --threads 2 --events events -- lda --data documents --iterations 30");
}

/* ---- The group ---- */

/* Makes ratings, samples of a few classes, and documents in lda's format uci. */
static int make_data(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "w");
    FILE *samples = open_file("samples", "w");
    FILE *documents = open_file("documents", "w");
    FILE *points = open_file("points", "w");
    fprintf(documents, "%d\n%d\n%d\n", RATINGS / 4, FEATURES, RATINGS / 4 * FEATURES);
    for (int i = 0; i < RATINGS; i++) {
        fprintf(ratings, "%d\t%d\t%d\n", i % 37 + 1, i * 7 % 53 + 1, i % 5 + 1);
        fprintf(points, "%d %d\n", i % 3 * 10 + i % 7, i % 3 * 5 - i % 4);
        fprintf(samples, "%d", i % 3);
        for (int f = 1; f <= FEATURES; f++) {
            fprintf(samples, " %d:%d", f, (i * f + i % 3) % 11);
            if (i < RATINGS / 4) {
                fprintf(documents, "%d %d %d\n", i + 1, f, 1 + (i + f) % 4);
            }
        }
        fputc('\n', samples);
    }
    fclose(ratings);
    fclose(samples);
    fclose(documents);
    fclose(points);
    return 0;
}

int main(void) {
    return tests_run(make_data, files_close);
}
