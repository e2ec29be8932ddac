/* Tests of mf on tables of ratings as people have them, with real jobs on one and four nodes: columns by a header's
 * names or by --columns, ids that are texts, dates, MatrixMarket. Also mf --predict, which answers each line. A table
 * must give the same as its ratings in plain lines. */

#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { USERS = 40, ITEMS = 30, COUNT = 600 };

static const char CASES[] = "\"$PROTEUS_SOURCE\"/../shared/cases/files";

/* Trains on the file "table" that `make` writes, on one node. All predictions must be those after training on
 * "ratings". */
static void assert_like_plain(const char *make, const char *options) {
    run_well("%s; $run -- mf --data table %s --iterations 5 --model-out model >said", make, options);
    assert_true(summary("items_processed") == 5.0 * COUNT);
    run_well("$bin/mf --predict model --data pairs >got && cmp got expected");
}

TEST(columns_of_a_header) {
    static const char *const tables[] = {
        "awk -F, 'BEGIN { print \",userId,movieId,rating\" } { print NR - 1 \",\" $0 }' ratings >table",
        "awk -F, 'BEGIN { print \"timestamp,user_id,item_id,rating\" } { print 964980000 + 37 * NR \",\" $0 }' ratings "
        ">table",
        "awk -F, 'BEGIN { print \"item_id,user_id,rating\" } { print $2 \",\" $1 \",\" $3 }' ratings >table",
        "awk -F, 'BEGIN { print \"user,item,rating,date\" } { print $0 \",2005-09-\" 10 + NR % 20 }' ratings >table",
        "awk -F, 'BEGIN { print \"Book-Rating;ISBN;title;User-ID\" } { print $3 \";\" $2 \";\\\"a; "
        "\\\"\\\"b\\\"\\\"\\\";\" $1 }' "
        "ratings | gzip >table",
        "awk -F, 'BEGIN { print \"user id\\tbusiness id\\tstars\\tcool\" } { print $1 \".0\\t\" $2 \"\\t\" $3 "
        "\"\\t\\t\" }' ratings >table",
        "awk -F, 'BEGIN { print \"%%MatrixMarket matrix coordinate real general\\n40 30 600\" } { print $1, $2, $3 "
        "}' ratings >table",
    };
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        assert_like_plain(tables[t], "");
        assert_text("said", t + 1 < sizeof tables / sizeof tables[0] ? "note: table: line 1 is taken as a header"
                                                                     : "note: table: a MatrixMarket matrix");
    }
}

TEST(columns_by_the_option) {
    assert_like_plain("awk -F, '{ print $3 \",\" $1 \",x,\" $2 }' ratings >table", "--columns user=2,item=4,rating=1");
    assert_like_plain("awk -F, 'BEGIN { print \"a,b,rating,c\" } { print $1 \",\" $2 \",0,\" $3 }' ratings >table",
                      "--columns user=a,item=b,rating=c");
    assert_like_plain("awk -F, '{ print $2 \",\" $1 \",\" $3 }' ratings >table", "--columns item=1,user=2");
    run_well(
        "$bin/mf --predict model --data table --columns item=1,user=2 --out lines; cut -f1,2 lines | tr '\\t' , >got; "
        "cut -d, -f1,2 ratings | cmp - got");
}

/* Each file has its own columns. On four nodes each file is read by another node. */
TEST(files_with_different_headers) {
    const char *const clusters[] = {"", "--reliable 4"};
    run_well(
        "split -n l/4 -d ratings part; mv part00 a; (echo rating,item,user; awk -F, '{ print $3 \",\" $2 \",\" $1 }' "
        "part01) "
        ">b; (echo 'date\tstars\tmovie\tuser'; awk -F, '{ print \"-\\t\" $3 \"\\t\" $2 \"\\t\" $1 }' part02) >c; (echo "
        "'%%%%MatrixMarket matrix coordinate integer general'; echo 40 30 $(wc -l <part03); tr , ' ' <part03) >d");
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        run_well("$run %s -- mf --data a,b,c,d --iterations 5 --model-out model", clusters[c]);
        assert_true(summary("items_processed") == 5.0 * COUNT);
        assert_text("out", "note: b: line 1 is taken as a header: user \"user\" (column 3)");
        assert_text("out", "note: d: a MatrixMarket matrix");
        assert_no_text("out", "note: a:");
        run_well("$bin/mf --predict model --data a,b,c,d --out lines >said && ! grep -q unknown lines && test $(wc -l "
                 "<lines) = %d "
                 "&& cut -f1,2 lines >got && cut -d, -f1,2 --output-delimiter '\t' ratings | cmp - got",
                 COUNT);
        run_well("awk '$1 == \"ratings\" { exit !($4 < 0.75) }' said");
    }
}

TEST(ids_that_are_texts) {
    const char *const clusters[] = {"", "--reliable 4", "--reliable 2 --transient 2 --threads 2"};
    run_well("awk -F, 'BEGIN { print \"reviewerID,asin,overall\" } { printf \"A%%05dZ,\\\"The \\\"\\\"%%d\\\"\\\", "
             "part %%d\\\",%%s\\n\", "
             "$1, $2, $2, $3 }' ratings >table; tail -n +2 table | cut -d, -f1 >users; "
             "awk -F, '{ print \"The \\\"\" $2 \"\\\", part \" $2 }' ratings >items");
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++) {
        run_well("$run %s -- mf --data table --iterations 5 --model-out model", clusters[c]);
        assert_true(summary("items_processed") == 5.0 * COUNT);
        run_well("$bin/mf --predict model --data table --out lines >said; ! grep -q unknown lines; cut -f1 lines | cmp "
                 "- users && cut "
                 "-f2 lines | cmp - items");
        run_well("awk '$1 == \"ratings\" { exit !($4 < 0.75) }' said");
        run_well("grep -a -q 'The \"7\", part 7' model && grep -a -q A00007Z model");
    }
    /* The same text has the same key in each file. */
    run_well("tail -n +2 table | cut -d, -f1-3 >pairs.csv; $bin/mf --predict model --data "
             "pairs.csv >again; cmp "
             "again lines");
    /* Zeros in front are part of a text. */
    run_well("awk -F, '{ printf \"%%04d,%%05d,%%s\\n\", $1, $2, $3 }' ratings >table; $run -- mf --data table "
             "--model-out model; "
             "$bin/mf --predict model --data table --out lines; ! grep -q unknown lines; $bin/mf --predict model "
             "--data ratings "
             "--out lines; ! grep -q -v 'unknown user and item' lines");
}

/* A quoted text is an id, in the model and in predictions, also if it would be a missing value without quotes. */
TEST(ids_that_look_missing) {
    run_well(
        "awk -F, 'BEGIN { print \"user,item,rating\" } { print ($1 == 7 ? \"\\\"NA\\\"\" : \"u\" $1) \",\" $2 \",\" $3 "
        "}' ratings >table; $run -- mf --data table --iterations 2 --model-out model && $bin/mf --predict model "
        "--data table --out lines >said; ! grep -q unknown lines; tail -n +2 table | cut -d, -f1 >users; cut -f1 "
        "lines | cmp - users && grep -q '\"NA\"' lines");
}

/* Entries without a rating are still entries. */
TEST(missing_ratings_of_a_matrix) {
    run_well(
        "(echo '%%%%MatrixMarket matrix coordinate real general'; echo 40 30 $(wc -l <ratings); tr , ' ' <ratings | "
        "sed '5s/ [^ ]*$/ nan/') >matrix; $run -- mf --data matrix --missing-ratings skip --iterations 2");
    assert_true(summary("items_processed") == 2.0 * (COUNT - 1));
    run_refused("$run -- mf --data matrix --iterations 2", "matrix:7: ");
}

TEST(every_line_has_its_prediction) {
    run_well("$run -- mf --data ratings --iterations 5 --model-out model");
    run_well("printf '1,1\\n1,777\\nbob,1\\nbob,ann\\n1.0,1\\n' >new; $bin/mf --predict model --data new >lines; cut "
             "-f1,2,4 lines >got; "
             "printf '1\\t1\\n1\\t777\\tunknown item\\nbob\\t1\\tunknown user\\nbob\\tann\\tunknown user and "
             "item\\n1.0\\t1\\n' | cmp - got");
    run_well("printf 'item,rating,user\\n1,4,1\\n1,,2\\n1,NA,3\\n2,5,3\\n' >new; $bin/mf --predict model --data new "
             "--out lines; "
             "cut -f1,2 lines >got; printf '1\\t1\\n2\\t1\\n3\\t1\\n3\\t2\\n' | cmp - got");
    assert_text("out", "ratings 2  rmse ");
    assert_text("out", "  without rating 2\n");
    run_well("$bin/mf --predict model --data new");
    assert_text("out", "  without rating 2 (--out FILE writes their predictions)\n");
    run_well(
        "(head -1 new; tail -n +3 new) >gaps; $bin/mf --predict model --data gaps >lines; test $(wc -l <lines) = 3");
    run_well("printf '%%%%%%%%MatrixMarket matrix coordinate pattern general\\n9 9 2\\n1 2\\n3 4\\n' >new; $bin/mf "
             "--predict model "
             "--data new >lines; test $(wc -l <lines) = 2");
}

TEST(what_is_refused) {
    run_refused("printf 'user,rating,time\\n1,2,3\\n' >bad; $run -- mf --data bad",
                "bad:1: the header names no item: it has \"user\"");
    run_refused("(echo user,item,rating; cat ratings; echo 1,2,NA) >bad; $run --reliable 4 -- mf --data bad",
                "bad:602: expected a rating, got 'NA'; --missing-ratings skip leaves out such lines");
    run_well("$run -- mf --data bad --missing-ratings skip --iterations 1");
    assert_true(summary("items_processed") == COUNT);
    run_refused("$run -- mf --data ratings --columns user=x", "ratings:1: --columns: no column is named x");
    run_refused("$run -- mf --data ratings --columns users=1", "--columns users=1: expected user=COLUMN,item=COLUMN");
    run_refused("$run -- mf --data ratings --missing-ratings drop", "--missing-ratings");
    run_refused("printf '%%%%MatrixMarket matrix coordinate real general\\n9 9 3\\n1 2 3\\n3 4 5\\n' >bad; $run "
                "--reliable 4 -- mf --data "
                "bad",
                "bad: the MatrixMarket file is truncated: it has 2 entries, and its size line says 3");
    run_refused("printf '5 |user 28 |item 4\\n' >bad; $run -- mf --data bad", "bad:1: Vowpal Wabbit");
}

/* Files that people have sent. Skipped without the folder. */
TEST(the_cases) {
    static const char *const files[] = {"H1.csv", "H3.csv", "H4.csv", "N1.csv", "N3.csv"};
    if (run("test -d %s", CASES) != 0) {
        print_message("no %s\n", CASES);
        skip();
    }
    for (size_t f = 0; f < sizeof files / sizeof files[0]; f++) {
        for (int nodes = 1; nodes <= 4; nodes += 3) {
            run_well("$run --reliable %d -- mf --data %s/%s --test-fraction 0.1", nodes, CASES, files[f]);
            assert_true(summary("test_rmse") < 0.6);
        }
    }
}

static int open_all(void **state) {
    assert_int_equal(shell_open(state), 0);
    FILE *ratings = open_file("ratings", "w");
    FILE *pairs = open_file("pairs", "w");
    for (int i = 0; i < COUNT; i++) {
        int user = i * 7 % USERS + 1;
        int item = (i * 7 / USERS + i * 11) % ITEMS + 1;
        fprintf(ratings, "%d,%d,%d.5\n", user, item, 1 + (user % 3 + item % 2) % 4);
    }
    for (int i = 0; i < USERS * ITEMS; i++) {
        fprintf(pairs, "%d,%d\n", i / ITEMS + 1, i % ITEMS + 1);
    }
    bool written = fclose(ratings) == 0 && fclose(pairs) == 0;
    run_well(
        "$run -- mf --data ratings --iterations 5 --model-out plain && $bin/mf --predict plain --data pairs >expected");
    return written ? 0 : -1;
}

int main(void) {
    return tests_run(open_all, files_close);
}
