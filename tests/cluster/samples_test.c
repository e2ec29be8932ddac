/* Tests of samples as people have them, with real jobs of mlr and net: files that are read correctly without an option,
 * and files that are refused with the line and a reason. The files in ../shared/cases are examples; the others are made
 * here. */
#include <math.h>

#include "tests/cluster/shell.h"
#include "tests/test.h"

/* Sets $cases; skips the test without the folder. */
static void find_cases(void) {
    char path[512];
    const char *source = getenv("PROTEUS_SOURCE");
    snprintf(path, sizeof path, "%s/../shared/cases/files", source);
    FREED char *resolved = realpath(path, NULL);
    if (resolved == NULL) {
        print_message("skipped: the files are not at hand in ../shared/cases\n");
        skip();
    }
    setenv("cases", resolved, 1);
}

/* ---- Labels ---- */

TEST(missing_labels_are_refused_or_left_out) {
    static const char *const words[] = {"nan", "NA", "?", "null", "-inf", "None", "\\\\N", "#N/A"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w += sanitized() ? 3 : 1) {
        char command[512];
        snprintf(command, sizeof command,
                 "(for i in 1 2 3 4 5; do printf 'a,%%d,1\\nb,0,%%d\\n%s,0,0\\n' $i $i; done) >f.csv; $run -- mlr "
                 "--iterations 1 --data f.csv",
                 words[w]);
        run_refused(command, "f.csv:3: the label is missing, got '");
        run_well("$run -- mlr --iterations 1 --data f.csv --missing-labels skip");
        assert_true(summary("items_processed") == 10);
        assert_text("out", "f.csv: 10 samples of 2 features, csv (the label is column 1), 2 classes: a 5, b 5; 5 lines "
                           "without a label left out\n");
        run_well("$run -- net --iterations 1 --data f.csv --missing-labels keep");
        assert_true(summary("items_processed") == 15);
    }
    run_refused("printf '1 1:1\\n2 2:1\\n? 2:1\\n' >f.svm; printf '1 1:1\\n2 2:1\\n' >g.svm; $run -- mlr --data g.svm "
                "--test f.svm",
                "f.svm:3: the label is missing, got '?'");
    run_refused("$run -- mlr --data f.csv --missing-labels drop",
                "--missing-labels: expected refuse, skip or keep, got 'drop'");
}

TEST(quantities_are_no_classes) {
    run_refused("seq 1 60 | awk '{print $1 * 1.25 \",\" $1 % 7 \",\" $1 / 7}' >f.csv; $run -- mlr --data f.csv",
                "f.csv: the labels are 60 different numbers with fractions, 1.25 to 75: a quantity, expected classes");
    run_refused("seq 1 60 | awk '{print $1 \",\" $1 % 7 \",\" $1 / 7}' >f.csv; $run -- net --data f.csv",
                "f.csv: 60 different labels of 60 samples, such as 1 and 60, are a quantity or names");
    run_refused("seq 1 60 | awk '{print $1 \",\" $1 % 7 \",\" $1 % 3}' >f.csv; $run -- net --data f.csv",
                "f.csv:1: columns 1 and 3 could both be the label");
    run_refused("echo 'label\n1\n2' >f.csv; $run -- mlr --data f.csv", "f.csv: no sample has a feature");
    run_refused("seq 1 60 | awk '{print \"name\" $1 \" 1:\" $1}' >f.svm; $run -- mlr --data f.svm",
                "f.svm: 60 different labels of 60 samples");
    run_well("seq 1 200 | awk '{print $1 %% 50 \",\" $1 %% 50 \",\" $1 / 3}' >f.csv; $run -- mlr --data f.csv "
             "--iterations 1");
}

/* Classes keep the names in the file, and whole numbers are never rounded. */
TEST(labels_come_back_as_they_stood) {
    run_well("(for i in 1 2 3 4 5 6; do printf '1.0,9,0\\n+2,0,9\\n1,9,1\\n007,-9,-9\\n'; done) >f.csv; $run -- mlr "
             "--data f.csv --model-out model --iterations 60; $bin/mlr --predict model --data f.csv --out said");
    run_well("cut -f2 said | sort | uniq -c | tr -s ' ' >got");
    assert_text("got", " 6 +2\n 6 007\n 12 1.0\n");
    run_well("(for i in 1 2 3 4 5 6; do printf '9007199254740993,9,0\\n9007199254740992,0,9\\n'; done) >f.csv; "
             "$run --reliable 2 -- net --data f.csv --model-out model --iterations 30; $bin/net --predict model --data "
             "f.csv --out said; cut -f2 said | sort -u >got");
    assert_text("got", "9007199254740992\n9007199254740993\n");
}

TEST(cases_of_labels) {
    find_cases();
    run_refused("$run -- mlr --data $cases/L1.svm", "L1.svm:1: the label is missing, got 'nan'");
    run_refused("$run -- mlr --data $cases/L2.csv", "L2.csv:2: the label is missing, got 'NaN'");
    run_well("$run -- mlr --data $cases/L7.csv --model-out model --iterations 1; "
             "grep -ao '900719925474099[23]' model >got");
    assert_text("got", "9007199254740992\n9007199254740993\n");
}

/* ---- Columns ---- */

/* Makes f.csv, a table of three classes with the columns a, b, class and, first, the line's number. */
static void make_table(void) {
    run_well("(echo ,a,b,class; for i in 1 2 3 4 5 6 7 8; do printf '%%d,9,%%d,x\n%%d,-9,%%d,y\n%%d,%%d,9,z\n' "
             "$((3 * i)) $i $((3 * i + 1)) $i $((3 * i + 2)) $i; done) >f.csv; test -s f.csv");
}

/* The label in any place, an index column, and test data in another order or without a header give the same losses. */
TEST(columns_by_their_names) {
    make_table();
    run_well("$run -- mlr --data f.csv --test f.csv --iterations 5");
    double loss = summary("test_loss");
    run_well("cut -d, -f2- f.csv | awk -F, '{print $3 \",\" $2 \",more,\" $1}' | sed 's/more/1/; 1s/1/more/' >g.csv; "
             "sed 1d f.csv | cut -d, -f2- >h.csv; awk -F, '{print $4 \",\" $2 \",\" $3}' f.csv | tail -n +2 >i.csv; "
             "$run --reliable 2 -- mlr --data f.csv --test g.csv --iterations 5");
    assert_true(fabs(summary("test_loss") - loss) < 1e-4 * loss);
    run_well("$run -- mlr --data h.csv --test h.csv --label-column -1 --iterations 5");
    assert_true(fabs(summary("test_loss") - loss) < 1e-4 * loss);
    run_well("$run -- mlr --data i.csv --test i.csv --iterations 5");
    assert_true(fabs(summary("test_loss") - loss) < 1e-4 * loss);
    run_well("$run -- mlr --data f.csv,g.csv --test f.csv --label-column class --iterations 5");
    assert_true(summary("items_processed") == 5 * 48);
    assert_text("report",
                "f.csv and 1 other file: 48 samples of 2 features, csv (line 1 is a header, column 1 ('') numbers "
                "the rows and is left out, the label is column 4 ('class')), 3 classes: x 16, y 16, z 16\"");
    run_refused("sed 's/class/kind/' f.csv >k.csv; $run -- mlr --data f.csv --test k.csv",
                "k.csv:1: no column 'class', the label of the training data; the header has: , a, b, kind");
    run_refused("cut -d, -f1,2,4 f.csv >k.csv; $run -- net --data f.csv --test k.csv",
                "k.csv:1: no column 'b', a feature of the training data");
    run_refused("$run -- mlr --data f.csv --label-column kind",
                "f.csv:1: --label-column kind: no such name in the header: , a, b, class");
}

TEST(cases_of_columns) {
    static const char *const cases[] = {"H7.csv", "N5.csv", "S4.csv"};
    find_cases();
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        run_well("$run -- mlr --data $cases/%s --iterations 1", cases[c]);
        assert_true(summary("items_processed") == 120);
    }
}

/* ---- libsvm ---- */

TEST(cases_of_libsvm) {
    find_cases();
    run_well("$run -- mlr --data $cases/N8.svm --iterations 1");
    assert_text("out", "24 samples of 4 features, libsvm (indexes from 1), 2 classes: 1 12, 2 12");
    run_well("$run -- mlr --data $cases/N10.svm --iterations 10 --model-out model && $bin/mlr --predict model --data "
             "$cases/N10.svm");
    assert_text("out", "samples 24  unknown_labels 0  accuracy 1.000000");
    run_well("$run -- mlr --data $cases/N17.svm --iterations 30");
    assert_text("out", "16 samples of 5 features, libsvm (indexes alone, from 1), 2 classes: 1 8, 2 8");
    assert_true(summary("train_accuracy") == 1);
}

/* Makes 240 lines of words w, 1 to 59, in order. near.svm has w itself as index. far.svm has `index`, which ascends
 * with w, followed by `value`. */
static void make_words(const char *index, const char *value) {
    run_well("awk 'BEGIN {for (i = 0; i < 240; i++) {near = far = i %% 3; for (w = 1; w < 60; w++) "
             "if ((w + i) %% 13 == 0 || ((7 * w + 5 * i) %% 11 < 3 && w %% 3 == i %% 3)) {near = near \" \" w %s; "
             "far = far \" \" %s %s} print near >\"near.svm\"; print far >\"far.svm\"}}'",
             value, index, value);
}

/* Indexes that are far apart give the same model as small numbers, on any number of nodes. */
TEST(indexes_far_apart) {
    static const struct {
        const char *index, *value;
    } words[] = {{"w * 35791393", "\":\" (1 + w % 2)"},           /* to 2111692187 */
                 {"(w < 58 ? w - 1 : 2147483588 + w)", "\":1\""}, /* from 0 to 2147483647 */
                 {"w * w * w * 10007", "\"\""}};                  /* indexes without values */
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        make_words(words[i].index, words[i].value);
        for (unsigned nodes = sanitized() ? 3 : 1; nodes <= 3; nodes += 2) {
            static const char *const files[] = {"near", "far"};
            double losses[2];
            for (unsigned f = 0; f < 2; f++) {
                run_well("$run --reliable %u -- mlr --data %s.svm --test %s.svm --iterations 10 --model-out model; "
                         "$bin/mlr --predict model --data %s.svm --out %s.lines",
                         nodes, files[f], files[f], files[f], files[f]);
                losses[f] = summary("test_loss");
                assert_true(summary("test_accuracy") > 0.95);
            }
            assert_true(fabs(losses[0] - losses[1]) < 1e-3 * losses[0]);
            run_well("test $(wc -c <model) -lt 2500; for f in near far; do cut -f1,2 $f.lines >$f.classes; done; "
                     "cmp near.classes far.classes");
        }
    }
}

TEST(the_largest_index) {
    run_well("for i in 1 2 3 4 5 6; do printf 'a 2147483647:1\nb 5:2\n'; done >f.svm; $run -- mlr --data f.svm "
             "--model-out model --iterations 20");
    assert_text("out",
                "f.svm: 12 samples of 2 features, libsvm (indexes from 1 to 2147483647, of which the features are "
                "those that occur), 2 classes: a 6, b 6");
    assert_true(summary("train_accuracy") == 1);
    run_well("printf 'b 4:7 5:2 6:1 2147483646:9\na 3:1 2147483647:1\n' >g.svm; $bin/mlr --predict model --data g.svm");
    assert_text("out", "samples 2  unknown_labels 0  accuracy 1.000000");
    run_well(
        "for i in 1 2 3 4 5 6; do printf 'a 2147483647:1\nb\n'; done >f.svm; $run --reliable 2 -- mlr --data f.svm "
        "--test f.svm --iterations 20");
    assert_true(summary("test_accuracy") == 1);
    run_well("for i in 1 2 3 4 5 6; do printf 'a 0:3 2147483647:1\nb 0:1\n'; done >f.svm; $run -- mlr --data f.svm "
             "--layout dense --scale max --model-out model --iterations 50; $bin/mlr --predict model --data f.svm");
    assert_text("out", "samples 12  unknown_labels 0  accuracy 1.000000");
    run_well("for i in 1 2 3 4 5 6; do printf 'a 7 9 2147483647\nb 7 8 1000\n'; done >f.svm; $run -- mlr --data f.svm "
             "--model-out model --iterations 20; head -n 2 f.svm >g.svm; $bin/mlr --predict model --data g.svm");
    assert_text("out", "samples 2  unknown_labels 0  accuracy 1.000000");
    run_refused("printf 'a 1:1\nb 2147483648:1\n' >f.svm; $run -- mlr --data f.svm",
                "f.svm:2: expected index:value with an index up to 2147483647, got '2147483648:1'");
    run_refused("printf 'a 1:1\nb 99999999999999999999:1\n' >f.svm; $bin/mlr --predict model --data f.svm",
                "f.svm:2: expected index:value with an index up to 2147483647, got '99999999999999999999:1'");
    run_refused(
        "printf 'a 1:1\nb 2147483647:1\n' >f.svm; $run -- net --data f.svm",
        "f.svm:2: expected indexes up to 67108864, as samples are dense, of all features up to the largest; mlr "
        "takes those that occur");
    run_refused("printf 'a 1:1\nb 300000:1\n' >f.svm; $run -- net --data f.svm",
                "f.svm: expected at most 262143 features, got 300000: samples are dense here; mlr takes sparse ones");
}

/* ---- Predictions ---- */

static unsigned lines_of(const char *name) {
    FREED char *text = read_text(name);
    unsigned lines = 0;
    for (const char *p = text; *p != '\0'; p++) {
        lines += *p == '\n';
    }
    return lines;
}

/* Each sample has a line, whatever its label. The accuracy is of samples with a known label. */
TEST(every_sample_has_a_prediction) {
    static const char *const apps[] = {"mlr", "net"};
    make_table();
    for (size_t a = 0; a < 2; a++) {
        run_well("$run -- %s --data f.csv --iterations 40 --model-out model && cut -d, -f2- f.csv | sed "
                 "'2s/x/NA/; 3s/y//; 4s/z/unheard/' >g.csv; $bin/%s --predict model --data g.csv --out lines",
                 apps[a], apps[a]);
        assert_text("out", "samples 24  unknown_labels 3  accuracy 1.000000");
        assert_int_equal(lines_of("lines"), 24);
        run_well("head -n 3 lines | cut -f1,2 >got");
        assert_text("got", "NA\tx\n\ty\nunheard\tz\n");
        run_well("$bin/%s --predict model --data g.csv --probabilities --out lines", apps[a]);
        assert_int_equal(lines_of("lines"), 25);
        run_well("head -n 1 lines >got; awk -F'\\t' 'NR > 1 && ($4 + $5 + $6 < 0.999 || NF != 6) {print}' lines >bad");
        assert_text("got", "label\tprediction\tprobability\tx\ty\tz\n");
        assert_int_equal(lines_of("bad"), 0);
        run_well("cut -d, -f1,2 g.csv >h.csv; $bin/%s --predict model --data h.csv --probabilities >lines; "
                 "head -n 1 lines >got",
                 apps[a]);
        assert_text("got", "prediction\tprobability\tx\ty\tz\n");
        /* Columns by the model's names, in any order, with unknown columns. */
        run_well(
            "awk -F, '{print $2 \",\" NR \",\" $3 \",\" $1}' g.csv | sed '1s/,1,/,more,/' >h.csv; "
            "$bin/%s --predict model --data g.csv --out lines; $bin/%s --predict model --data h.csv --out more 2>said; "
            "cmp lines more",
            apps[a], apps[a]);
        assert_text("said",
                    "note: h.csv: line 1 is a header, columns are put into the order of the training data, column 2 "
                    "('more') is not in the training data and is left out, the label is column 3 ('class')");
        char command[256];
        snprintf(command, sizeof command, "cut -d, -f1,3 g.csv >h.csv; $bin/%s --predict model --data h.csv", apps[a]);
        run_refused(command, "h.csv:1: no column 'b', a feature of the training data; the header has: a, class");
        snprintf(command, sizeof command, "sed '5s/,[0-9]*,/,,/' g.csv >h.csv; $bin/%s --predict model --data h.csv",
                 apps[a]);
        run_refused(command, "h.csv:5: column 2 ('b'): expected a finite number, got '': a missing value");
    }
}

/* What other programs read has names. */
/* A line with only a label is a sample of zeros, also as the first line. */
TEST(samples_of_zeros) {
    run_well("for i in 1 2 3 4 5 6; do printf '0\n1 1:2 2:1\n'; done >zeros; $run -- mlr --data zeros --model-out "
             "model && $bin/mlr --predict model --data zeros");
    assert_text("out", "samples 12  unknown_labels 0  accuracy 1.000000");
}

TEST(foreign_lines) {
    static const char *const lines[][2] = {{"1 |f a:1 b:2", "Vowpal Wabbit"},
                                           {"%%%%MatrixMarket matrix coordinate real general", "MatrixMarket"},
                                           {"@relation iris", "ARFF"},
                                           {"{\"label\": 1}", "JSON"}};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        char command[256];
        snprintf(command, sizeof command, "printf '%s\n1 1 2\n' >foreign; $run -- mlr --data foreign", lines[l][0]);
        run_refused(command, lines[l][1]);
    }
}

int main(void) {
    return tests_run(shell_open, files_close);
}
