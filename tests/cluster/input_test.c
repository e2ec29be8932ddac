/* Tests of the apps' input and output as a new user meets them, with the programs themselves: files written by
 * spreadsheets, Windows and old Macs, data without labels or ratings, models that can't be written, and help. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

static const struct { const char *name, *data; } APPS[] = {{"mf", "ratings"}, {"mlr", "samples"}, {"lda", "documents"}};

enum { APP_COUNT = sizeof APPS / sizeof APPS[0] };

/* ---- --model-out ---- */

TEST(a_model_that_cannot_be_written_is_refused_before_training) {
    static const struct {
        const char *path, *message;
    } cases[] = {
        {"folder", "--model-out: folder: a folder: expected the path of a file"},
        {"folder/", "--model-out: folder/: a folder: expected the path of a file"},
        {"missing/model", "--model-out: missing/model: can't write it: No such file or directory"},
        {"ratings/model", "--model-out: ratings/model: can't write it: Not a directory"},
        {"/dev/full", "--model-out: /dev/full: a device or pipe: expected the path of a file"},
        {"''", "--model-out: the path is empty: expected that of a file"},
    };
    run_well("mkdir -p folder");
    for (size_t a = 0; a < APP_COUNT; a++) {
        char command[256];
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
            snprintf(command, sizeof command, "$run -- %s --data %s --model-out %s", APPS[a].name, APPS[a].data,
                     cases[c].path);
            run_refused(command, cases[c].message);
            FREED char *out = read_text("out");
            assert_string_equal(out, ""); /* no controller, no iteration was started */
        }
        snprintf(command, sizeof command, "$run -- %s --data ./%s --model-out %s", APPS[a].name, APPS[a].data,
                 APPS[a].data);
        run_refused(command, "this is an input file of the job: expected another path");
    }
    assert_int_equal(run("test -z \"$(ls folder)\" && test -c /dev/full && ls ratings samples documents"), 0);
}

/* A failed job keeps an existing model. */
TEST(an_existing_model_is_not_truncated) {
    for (size_t a = 0; a < APP_COUNT; a++) {
        run_well("echo old >model");
        assert_int_equal(run("$run -- %s --data %s --model-out model --check-nothing", APPS[a].name, APPS[a].data), 2);
        run_well("test \"$(cat model)\" = old");
        assert_int_equal(run("$run -- %s --data missing --model-out model", APPS[a].name), 2);
        run_well("test \"$(cat model)\" = old");
        run_well("$run -- %s --data %s --iterations 1 --model-out model && test $(wc -c <model) -gt 40", APPS[a].name,
                 APPS[a].data);
    }
}

/* ---- Text ---- */

/* Trains on the file that `make` writes to "new". The result must be the same as with the app's own file. */
static void assert_alike(const char *app, const char *data, const char *metric, const char *make, const char *options) {
    run_well("$run -- %s --data %s --iterations 3", app, data);
    double expected = summary(metric);
    double items = summary("items_processed");
    run_well("%s; $run -- %s --data new --iterations 3 %s", make, app, options);
    if (summary(metric) != expected || summary("items_processed") != items) {
        fail_msg("%s: %s %.17g, expected %.17g", make, metric, summary(metric), expected);
    }
}

/* A line from a user's report: `4.0,964982495 \r\n`. */
TEST(trailing_spaces_and_mixed_line_ends) {
    static const char *const ways[] = {
        "sed 's/$/ \\r/' %s >new", /* "... \r\n" */
        "tr '\\n' '\\r' <%s >new", /* old Macs */
        ("awk 'NR %% 3 == 0 {printf \"%%s\\r\", $0; next} {printf \"%%s \\t%%s\", $0, NR %% 3 == 1 ? \"\\n\" : "
         "\"\\r\\n\"}' %s >new"),                           /* all three */
        "printf '\\357\\273\\277' >new; cat %s >>new",      /* a byte order mark */
        "(head -n -1 %s; tail -n 1 %s | tr -d '\\n') >new", /* no end of the last line */
        "sed 's/$/ \\r/' %s | gzip -c >new",
    };
    static const char *const metrics[APP_COUNT] = {"train_rmse", "loss", "log_likelihood_per_token"};
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
        for (size_t a = 0; a < APP_COUNT; a++) {
            char make[256];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
            snprintf(make, sizeof make, ways[w], APPS[a].data, APPS[a].data);
#pragma GCC diagnostic pop
            assert_alike(APPS[a].name, APPS[a].data, metrics[a], make, "");
        }
    }
}

TEST(quoted_fields_and_semicolons) {
    assert_alike(
        "mf", "ratings", "train_rmse",
        "(echo '\"userId\",\"movie\",\"rating\",\"time, or \"\"date\"\"\"'; sed 's/[^,]*/\"&\"/g' ratings) >new", "");
    assert_alike("mf", "ratings", "train_rmse", "(echo 'user;item;rating;time'; tr , ';' <ratings) >new", "");
    run_well("awk '{print $1 \",\" substr($2, 3) \",\" substr($3, 3) \",\" substr($4, 3)}' samples >table");
    assert_alike("mlr", "table --label-column 1", "loss", "(echo '\"kind\";\"a\";\"b\";\"c\"'; tr , ';' <table) >new",
                 "--label-column 1");
    assert_alike("mlr", "table --label-column 1", "loss", "sed 's/[^,]*/ \"&\" /g' table >new", "--label-column 1");
}

/* The words of a corpus as numbers, with a vocabulary as Windows writes it. */
TEST(vocabularies_of_other_systems) {
    static const char *const vocabularies[] = {"apple\\npear\\nplum\\nwolf\\n",
                                               "\\357\\273\\277apple\\r\\npear \\r\\nplum\\r\\nwolf",
                                               "apple\\r pear\\rplum\\rwolf\\r\\r"};
    run_well("printf '2 0:3 1:1\\r\\n2 2:2 3:2\\r\\n' >counts");
    for (size_t v = 0; v < sizeof vocabularies / sizeof vocabularies[0]; v++) {
        run_well(
            "printf '%s' >words; $run -- lda --data counts --vocabulary words --topics 2 --iterations 3 --model-out "
            "model; tr -c a-z ' ' <model | tr -s ' '",
            vocabularies[v]);
        assert_text("out", "apple pear plum wolf");
    }
    run_refused("printf 'one\\r\\rtwo\\r' >words; $run -- lda --data counts --vocabulary words",
                "words:2: expected one word of 1 to 128 bytes");
}

TEST(messages_name_the_line_with_every_line_end) {
    static const char *const ends[] = {"\\n", "\\r\\n", "\\r"};
    for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++) {
        char command[256];
        snprintf(command, sizeof command, "printf 'u,i,r%s1,2,3%s%s1,2,x%s' >bad; $run -- mf --data bad", ends[e],
                 ends[e], ends[e], ends[e]);
        run_refused(command, "bad:4: expected a finite decimal number (float32) as rating");
        snprintf(command, sizeof command, "printf '1 1:2%s2 1:3%s%s1 1:x%s' >bad; $run -- mlr --data bad", ends[e],
                 ends[e], ends[e], ends[e]);
        run_refused(command, "bad:4: expected a finite number");
        snprintf(command, sizeof command, "printf '1 1:2%s1 2:3%s1 1:x%s' >bad; $run -- lda --data bad", ends[e],
                 ends[e], ends[e]);
        run_refused(command, "bad:3: expected 'word:count'");
    }
    for (size_t a = 0; a < APP_COUNT; a++) {
        char command[256];
        snprintf(command, sizeof command, "printf '\\050\\265\\057\\375...' >bad; $run -- %s --data bad", APPS[a].name);
        run_refused(command, "bad: truncated zstd data: the file ends too early");
        snprintf(command, sizeof command, "printf 'BZh91AY&SY' >bad; $run -- %s --data bad", APPS[a].name);
        run_refused(command, "bad: bzip2 data: expected plain text, gzip or zstd");
        snprintf(command, sizeof command, "printf '\\377\\3761' >bad; $run -- %s --data bad", APPS[a].name);
        run_refused(command, "bad: text in UTF-16: expected UTF-8");
    }
}

/* Files of other formats are named, with every app and option, also within compressed data. */
TEST(foreign_formats_are_named) {
    run_well("printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:4d7a\\nsize 12\\n' >pointer; "
             "gzip -c pointer >pointer.gz; printf '\\223NUMPY\\001\\000v\\000{' >array; gzip -c array >array.csv.gz; "
             "printf '\\n<!DOCTYPE HTML>\\n<title>403</title>\\n' >page; cp pointer pointer.tar; "
             "printf '1 1:2\\n2 1:3\\n' >two; printf 'a b c\\nb c d\\n' >words");
    for (size_t a = 0; a < APP_COUNT; a++) {
        static const struct {
            const char *file, *message;
        } files[] = {
            {"pointer", "pointer: a Git LFS pointer, not the data itself: run 'git lfs pull'"},
            {"pointer.gz", "pointer.gz: a Git LFS pointer, not the data itself: run 'git lfs pull'"},
            {"pointer.tar", "pointer.tar: a Git LFS pointer, not the data itself: run 'git lfs pull'"},
            {"array.csv.gz", "array.csv.gz: an npy file of numpy: expected text"},
            {"page", "page: an HTML page, not the data itself"},
        };
        for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
            char command[256];
            snprintf(command, sizeof command, "$run -- %s --data %s", APPS[a].name, files[f].file);
            run_refused(command, files[f].message);
        }
    }
    run_refused("$run -- mlr --data two --test pointer.gz", "pointer.gz: a Git LFS pointer");
    run_refused("$run -- lda --data words --stop-words page", "page: an HTML page");
    run_refused("$run -- lda --data words --vocabulary array", "array: an npy file");
    run_refused("$run -- mf --data 'pointer*'", "pointer: a Git LFS pointer");
    run_well("tar cf packed.tar two words; gzip -c packed.tar >packed.tgz");
    run_refused("$run -- mf --data packed.tar", "packed.tar: a tar archive: expected a text file");
    run_refused("$run -- mf --data packed.tgz", "packed.tgz: a tar archive: expected a text file");
    run_refused("$run -- lda --data packed.tgz", "packed.tgz: a tar archive: expected a text file");
    run_refused("$run -- mlr --data packed.tgz", "packed.tgz: no images");
}

/* Text of other formats is named from its first line. */
TEST(foreign_lines_are_named) {
    static const struct {
        const char *line, *message;
    } lines[] = {
        {"1 |ns a:1 b:2", "foreign:1: Vowpal Wabbit data"},
        {"{\"user\": 1, \"item\": 2}", "foreign:1: JSON: expected plain text"},
        {"@RELATION iris", "foreign:1: an ARFF file"},
        {"1|24|3", "foreign:1: fields separated by '|'"},
    };
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        run_well("echo '%s' >foreign", lines[l].line);
        run_refused("$run -- mf --data foreign", lines[l].message);
        run_refused("$run -- mlr --data foreign", lines[l].message);
    }
    run_well("echo '-- MySQL dump 10.13' >foreign");
    run_refused("$run -- lda --data foreign", "foreign:1: an SQL dump");
    run_well("printf '__label__a b c\\n__label__b c d\\n' >foreign");
    run_refused("$run -- lda --data foreign", "foreign:1: fastText data");
    run_well("printf '%%%%%%%%MatrixMarket matrix coordinate real general\\n1 1 1\\n1 1 1\\n' >foreign");
    run_refused("$run -- mlr --data foreign", "foreign:1: a MatrixMarket matrix");
}

/* ---- Data without ratings or labels ---- */

TEST(mf_predict_takes_user_item_lines) {
    run_well("$run -- mf --data ratings --model-out model; cut -d, -f1,2 ratings >pairs");
    run_well("$bin/mf --predict model --data ratings --out expected");
    assert_text("out", "ratings 60  rmse ");
    run_well("$bin/mf --predict model --data pairs | cmp - expected");
    run_well(
        "(echo 'user;item'; tr , ';' <pairs) >new; $bin/mf --predict model --data new --out got; cmp got expected");
    assert_text("out", "predictions 60\n");
    run_well("$bin/mf --predict model --data /dev/stdin <pairs | cmp - expected");
    run_refused("printf '1,2\\n1\\n' >new; $bin/mf --predict model --data new",
                "new:2: expected 'user item [rating [time]]' separated by comma, got '1'");
    run_refused("$run -- mf --data pairs", "pairs:1: expected 'user item rating [time]' separated by comma, got '1,1'");
    run_refused("$bin/mf --predict model",
                "--data FILE is missing: expected lines of 'user item', or ratings to compare with");
    assert_int_equal(run("$bin/mf --predict model --data pairs >/dev/full"), 1);
    assert_text("err", "standard output: No space left on device");
}

TEST(unlabelled_data_is_predicted) {
    run_well("$run -- mlr --data samples --model-out model; $bin/mlr --predict model --data samples --out all; "
             "cut -f2,3 all >expected; cut -d' ' -f2- samples >new");
    run_well("$bin/mlr --predict model --data new | cmp - expected");
    run_well("$bin/mlr --predict model --data new --out got; cmp got expected");
    assert_text("out", "predictions 60\n");
    run_well("(echo a,b,c; sed 's/[123]://g; s/ /,/g' new) >new.csv; $bin/mlr --predict model --data new.csv | cmp - "
             "expected");
    run_well("sed 's/[123]://g' new >new.txt; $bin/mlr --predict model --data new.txt | cmp - expected");
    run_refused("echo 1,2 >new.csv; $bin/mlr --predict model --data new.csv",
                "new.csv:1: expected 3 features, and perhaps a label, got 2 fields");
    run_refused("printf '1:2\\n\\n1:3\\n' >new; $bin/mlr --predict model --data new",
                "new:2: an empty line between samples without labels");
    run_refused("printf '1:2\\n2:3\\n' >new; $run -- mlr --data new",
                "new:1: expected one label, then index:value, got '1:2'");
    assert_int_equal(run("cut -d' ' -f2- samples >new; $bin/mlr --predict model --data new >/dev/full"), 1);
    assert_text("err", "standard output: No space left on device");
}

/* Images of 2 bytes, in MNIST's format. */
TEST(unlabelled_images_are_predicted) {
    run_well("printf '\\0\\0\\10\\2\\0\\0\\0\\4\\0\\0\\0\\2\\1\\377\\2\\376\\377\\1\\375\\2' >images; "
             "printf '\\0\\0\\10\\1\\0\\0\\0\\4\\7\\7\\10\\10' >labels; "
             "$run -- mlr --data images --labels labels --batch 4 --iterations 200 --rate 1 --model-out model");
    run_well("$bin/mlr --predict model --data images | cut -f1 | tr '\\n' ' '");
    assert_text("out", "7 7 8 8 ");
    run_refused("$run -- mlr --data images", "the labels of idx data are in another file");
}

/* ---- Help ---- */

TEST(help_of_predict_and_infer) {
    static const struct {
        const char *app, *option, *usage;
    } tools[] = {
        {"mf", "predict", "usage: mf --predict MODEL --data FILE [--out FILE]"},
        {"mlr", "predict", "usage: mlr --predict MODEL --data FILE [--labels FILE] [--probabilities] [--out FILE]"},
        {"lda", "infer", "usage: lda --infer MODEL --data FILE [--out FILE]"}};
    static const char *const ways[] = {"--%s --help", "--%s model --help", "--help --%s", "-h --%s=model"};
    for (size_t t = 0; t < sizeof tools / sizeof tools[0]; t++) {
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            char arguments[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(arguments, sizeof arguments, ways[w], tools[t].option);
#pragma GCC diagnostic pop
            run_well("$bin/%s %s", tools[t].app, arguments);
            assert_text("out", tools[t].usage);
            run_well("$run -- %s %s", tools[t].app, arguments);
            assert_text("out", tools[t].usage);
        }
        char line[64];
        run_well("$bin/%s --help", tools[t].app);
        snprintf(line, sizeof line, "  --%s MODEL", tools[t].option);
        assert_text("out", line);
        snprintf(line, sizeof line, "see %s --%s --help", tools[t].app, tools[t].option);
        assert_text("out", line);
    }
}

TEST(proteus_run_mf_predict_says_what_to_do) {
    run_refused("$run -- mf --predict model --data ratings",
                "--predict needs no job: run 'mf --predict ...' itself, without 'proteus run --'");
    run_refused("$run -- mlr --data samples --predict=model", "run 'mlr --predict ...' itself, without 'proteus run");
    run_refused("$run -- lda --infer model", "run 'lda --infer ...' itself, without 'proteus run --'");
    run_refused("$bin/mf --controller tcp://127.0.0.1:1 --predict model", "run 'mf --predict ...' itself");
}

/* ---- The group ---- */

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "we");
    FILE *samples = open_file("samples", "we");
    FILE *documents = open_file("documents", "we");
    for (int i = 0; i < 60; i++) {
        fprintf(ratings, "%d,%d,%d.5,96498%d\n", i % 12 + 1, i % 7 + 1, (i % 12 + i % 7) % 5, 1000 + i);
        fprintf(samples, "%d 1:%d 2:0.%d 3:%d\n", i % 2, i % 2 + 1, i, i % 3 + 1);
        fprintf(documents, i % 2 == 0 ? "apple pear plum apple\n" : "wolf bear deer bear\n");
    }
    return fclose(ratings) == 0 && fclose(samples) == 0 && fclose(documents) == 0 ? 0 : -1;
}

int main(void) {
    return tests_run(set_up, files_close);
}
