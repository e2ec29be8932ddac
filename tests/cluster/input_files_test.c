/* Tests of input in several files, with the programs themselves: folders, patterns, lists and repeated options, with
 * plain, gzip and zstd parts, give the same as one file. */
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "agileml.h"
#include "tests/cluster/shell.h"
#include "tests/test.h"

enum { LINES = 600, PARTS = 6, LINE = 64 };

/* Makes line `i` of a kind of file. */
typedef void make_line(char line[LINE], int i);

static void rating_line(char line[LINE], int i) {
    snprintf(line, LINE, "%d,%d,%d.5,96498%d\n", i % 47 + 1, i % 31 + 1, (i % 12 + i % 7) % 5, 1000 + i);
}

static void sample_line(char line[LINE], int i) {
    snprintf(line, LINE, "%d 1:%d 2:0.%d 3:%d\n", i % 2, i % 2 + 1, i, i % 3 + 1);
}

static void document_line(char line[LINE], int i) {
    snprintf(line, LINE, i % 2 == 0 ? "apple pear plum apple word%c\n" : "wolf bear deer bear word%c\n", 'a' + i % 26);
}

/* Writes a part. Its number chooses the form: plain, gzip of two members or zstd of two frames. */
static void write_part(const char *path, int part, const char *text, size_t size) {
    if (part % 3 == 0) {
        FILE *file = open_file(path, "w");
        assert_int_equal(fwrite(text, 1, size, file), size);
        fclose(file);
        return;
    }
    for (int half = 0; half < 2; half++) {
        const char *from = text + (half == 0 ? 0 : size / 2);
        size_t length = half == 0 ? size / 2 : size - size / 2;
        if (part % 3 == 1) {
            FILE *file = open_file(path, half == 0 ? "w" : "a");
            gzFile gzip = gzdopen(dup(fileno(file)), "wb");
            assert_int_equal(gzwrite(gzip, from, (unsigned)length), length);
            gzclose(gzip);
            fclose(file);
        } else {
            char made[8192];
            FILE *file = open_file(path, half == 0 ? "w" : "a");
            size_t bytes = ZSTD_compress(made, sizeof made, from, length, 3);
            assert_false(ZSTD_isError(bytes));
            assert_int_equal(fwrite(made, 1, bytes, file), bytes);
            fclose(file);
        }
    }
}

/* Writes the lines to the file `name`, and to PARTS parts in the folder `name`-parts. */
static void make_files(const char *name, make_line *make) {
    char text[LINES / PARTS * LINE];
    char line[LINE];
    char path[64];
    FILE *whole = open_file(name, "w");
    run_well("mkdir %s-parts", name);
    for (int part = 0; part < PARTS; part++) {
        size_t size = 0;
        for (int i = 0; i < LINES / PARTS; i++) {
            make(line, part * (LINES / PARTS) + i);
            size_t length = strlen(line);
            memcpy(text + size, line, length);
            size += length;
        }
        fwrite(text, 1, size, whole);
        size -= part % 2 == 1; /* the last line has no end */
        snprintf(path, sizeof path, "%s-parts/part-%d", name, part);
        write_part(path, part, text, size);
    }
    fclose(whole);
}

/* One file first, then all ways to name the parts. */
static const char *const NAMES[] = {
    "--data %s",
    "--data %s-parts",
    "--data '%s-parts/part-*'",
    "--data '%s-parts/part-[0-2],'%s-parts/part-3,%s-parts/part-4 --data=%s-parts/part-5",
};
enum { NAME_COUNT = sizeof NAMES / sizeof NAMES[0] };

/* Trains with one thread and a fixed order, so that the models have the same bytes. */
static void assert_same_models(const char *app, const char *data, const char *options) {
    for (size_t n = 0; n < NAME_COUNT; n++) {
        char names[256];
        snprintf(names, sizeof names, NAMES[n], data, data, data, data);
        run_well("$run --threads 1 -- %s %s --iterations 2 --model-out model-%zu %s", app, names, n, options);
        if (n > 0) {
            run_well("cmp model-0 model-%zu", n);
        }
    }
}

TEST(mf) {
    assert_same_models("mf", "ratings", "--test-fraction 0.2");
    run_well(
        "$bin/mf --predict model-0 --data ratings --out whole && $bin/mf --predict model-0 --data ratings-parts --out "
        "parts && cmp whole parts");
    /* A pipe is a single file. */
    run_well("cat ratings | $bin/mf --predict model-0 --data /dev/stdin --out parts && cmp whole parts");
}

TEST(mlr) {
    assert_same_models("mlr", "samples", "--test-fraction 0.2 --layout sparse");
    run_well("$bin/mlr --predict model-0 --data samples --out whole && $bin/mlr --predict model-0 --data samples-parts "
             "--out parts && cmp whole parts");
    run_well("mkdir -p images; printf '\\000\\000\\010\\001\\000\\000\\000\\001\\001' | tee images/a >images/b");
    run_refused("$run -- mlr --data images", "images/a: idx data: expected one file, got 2");
}

TEST(lda) {
    run_well("$run --threads 1 -- lda --topics 4 --iterations 2 --data documents --model-out model-0");
    for (size_t n = 2; n < NAME_COUNT; n++) { /* for lda, a folder would be one of documents */
        char names[256];
        snprintf(names, sizeof names, NAMES[n], "documents", "documents", "documents", "documents");
        run_well("$run --threads 1 -- lda --topics 4 --iterations 2 %s --model-out model-1 && cmp model-0 model-1",
                 names);
    }
    run_well("$bin/lda --infer model-0 --data documents --out whole && $bin/lda --infer model-0 --data "
             "'documents-parts/*' --out parts && cmp whole parts");
}

/* The parts of the input on two nodes do not depend on the files. */
TEST(several_nodes) {
    run_well("$run --reliable 2 -- mf --data ratings-parts --iterations 2");
    assert_int_equal((int)summary("items_processed"), 2 * LINES);
}

TEST(what_is_refused) {
    run_well("mkdir -p empty");
    run_refused("$run -- mf --data 'ratings-parts/none*'",
                "--data: ratings-parts/none*: no file matches: expected data");
    run_refused("$run -- mf --data empty", "--data: empty: a folder without files: expected data in it");
    run_refused("$run -- mf --data ratings --data ./ratings", "--data: ratings and ./ratings: the same file");
    run_refused("$run -- mf --data ratings,missing", "--data: missing: cannot open: No such file or directory");
    run_refused("$run -- mf --data ratings-parts --model-out ratings-parts/part-2",
                "--model-out: ratings-parts/part-2: this is an input file of the job");
    /* A wrong line, then damaged data, in one of the parts. */
    run_well("cp -r ratings-parts bad; echo 1,2,x >bad/part-3a");
    run_refused("$run -- mf --data bad", "bad/part-3a:1: expected a finite decimal number (float32) as rating");
    run_well("rm bad/part-3a; head -c 100 ratings-parts/part-2 >bad/part-2");
    run_refused("$run -- mf --data bad", "bad/part-2: truncated zstd data: the file ends too early");
    /* An empty file is no part. */
    run_well("cp ratings-parts/part-2 bad/part-2; : >bad/_SUCCESS; : >samples-parts/0; "
             "$bin/mlr --check --data samples-parts; $run -- mf --data bad --iterations 1");
    assert_int_equal((int)summary("items_processed"), LINES);
}

static int set_up(void **state) {
    assert_int_equal(shell_open(state), 0);
    make_files("ratings", rating_line);
    make_files("samples", sample_line);
    make_files("documents", document_line);
    return 0;
}

/* Too many files are refused before any is read: mlr's survey would take a while. */
TEST(too_many_files) {
    run_well("mkdir many");
    for (int n = 0; n < AML_READ_FILES_MAX + 1; n++) {
        char path[32];
        snprintf(path, sizeof path, "many/%d", n);
        FILE *file = open_file(path, "w");
        fputs(n == 0 ? "no sample" : "1 2 3\n", file);
        fclose(file);
    }
    run_refused("$run -- mlr --data many", "--data, --test: 32768 files, expected at most 32767");
    run_refused("$run -- mf --data many", "many: 32768 files, expected at most 32767 in all");
    run_refused("rm many/1; $run -- mlr --data many --test samples",
                "--data, --test: 32768 files, expected at most 32767");
}

int main(void) {
    return tests_run(set_up, files_close);
}
