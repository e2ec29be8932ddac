/* Tests of agileml/input/list: the forms of --data, the order of files, and what is refused. */
#include "agileml/input/list.h"
#include "tests/files.h"
#include "tests/test.h"

#include <sys/stat.h>
#include <unistd.h>

/* Lists the values (up to NULL), and checks the paths, each followed by a blank. */
static void assert_files(const char *const values[], const char *expected) {
    CLOSED_BY(input_list_close) struct input_list list = {0};
    struct error error = {0};
    char got[512] = "";
    for (size_t v = 0; values[v] != NULL; v++) {
        int code = input_list_add(&list, values[v], &error);
        assert_string_equal(error.text, "");
        assert_int_equal(code, 0);
    }
    for (size_t n = 0; n < list.count; n++) {
        size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s ", list.names[n].path);
        assert_true(list.names[n].identity.bytes == SOURCE_TO_END || list.names[n].identity.bytes < 100);
    }
    assert_string_equal(got, expected);
}

static void assert_refused(const char *const values[], const char *message) {
    CLOSED_BY(input_list_close) struct input_list list = {0};
    struct error error = {0};
    int code = 0;
    for (size_t v = 0; values[v] != NULL && code == 0; v++) {
        code = input_list_add(&list, values[v], &error);
    }
    assert_string_equal(error.text, message);
    assert_int_equal(code, AML_EINPUT);
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(files_folders_globs_and_lists) {
    assert_files(VALUES("b.tsv"), "b.tsv ");
    assert_files(VALUES("b.tsv", "a.tsv"), "b.tsv a.tsv ");
    assert_files(VALUES("b.tsv,a.tsv"), "b.tsv a.tsv ");
    assert_files(VALUES("parts"), "parts/part-10 parts/part-9.gz parts/x ");
    assert_files(VALUES("parts/"), "parts/part-10 parts/part-9.gz parts/x ");
    assert_files(VALUES("parts/part-*"), "parts/part-10 parts/part-9.gz ");
    assert_files(VALUES("parts/[!p]"), "parts/x ");
    assert_files(VALUES("./parts/../parts/part-?.gz"), "./parts/../parts/part-9.gz ");
    assert_files(VALUES("?.tsv,parts/x", "parts/part-1*"), "a.tsv b.tsv parts/x parts/part-10 ");
    assert_files(VALUES("*/part-1?"), "parts/part-10 ");
}

/* A file with exactly the given name is taken, even if the name has special characters. */
TEST(names_with_special_characters) {
    write_text("c,d", "c,d");
    write_text("[x]*", "[x]*");
    write_text("a b\n", "a b\n");
    assert_files(VALUES("c,d"), "c,d ");
    assert_files(VALUES("c,[d]"), "c,d ");
    assert_files(VALUES("[x]*"), "[x]* ");
    assert_files(VALUES("a b\n"), "a b\n ");
    assert_refused(VALUES("c,d,a.tsv"), "c: cannot open: No such file or directory");
    unlink("c,d");
    unlink("[x]*");
    unlink("a b\n");
}

TEST(pipes_by_name_alone) {
    assert_int_equal(mkfifo("parts/fifo", 0600), 0);
    assert_files(VALUES("parts/fifo"), "parts/fifo ");
    assert_refused(VALUES("parts"), "parts/fifo: no regular file: expected files alone");
    assert_refused(VALUES("parts/f*"), "parts/fifo: no regular file: expected files alone");
    unlink("parts/fifo");
}

TEST(what_is_refused) {
    assert_refused(VALUES("none"), "none: cannot open: No such file or directory");
    assert_refused(VALUES("a.tsv,none"), "none: cannot open: No such file or directory");
    assert_refused(VALUES("none*"), "none*: no file matches: expected data");
    assert_refused(VALUES("a.tsv,none*"), "none*: no file matches: expected data");
    assert_refused(VALUES("none/*"), "none/*: no file matches: expected data");
    assert_refused(VALUES(""), "an empty name: expected a file, a folder or a pattern");
    assert_refused(VALUES("a.tsv,,b.tsv"), "an empty name: expected a file, a folder or a pattern");
    assert_refused(VALUES("a.tsv,"), "an empty name: expected a file, a folder or a pattern");
    assert_refused(VALUES("a.tsv", "a.tsv"), "a.tsv: named twice: expected each file once");
    assert_refused(VALUES("a.tsv,?.tsv"), "a.tsv: named twice: expected each file once");
    assert_refused(VALUES("a.tsv", "./a.tsv"), "a.tsv and ./a.tsv: the same file: expected each file once");
    assert_int_equal(symlink("../a.tsv", "parts/link"), 0);
    assert_refused(VALUES("a.tsv", "parts"), "a.tsv and parts/link: the same file: expected each file once");
    unlink("parts/link");
    assert_int_equal(symlink("nowhere", "parts/link"), 0);
    assert_refused(VALUES("parts"), "parts/link: cannot open: No such file or directory");
    unlink("parts/link");
    assert_int_equal(mkdir("empty", 0700), 0);
    assert_refused(VALUES("empty"), "empty: a folder without files: expected data in it");
    assert_int_equal(mkdir("empty/inner", 0700), 0);
    assert_refused(VALUES("empty"), "empty/inner: a folder within the input: expected files alone");
    assert_refused(VALUES("empty/*"), "empty/inner: a folder within the input: expected files alone");
    rmdir("empty/inner");
    rmdir("empty");
    assert_refused(VALUES("gopher://host/x"),
                   "gopher://host/x: an address of a kind that is not known: expected a file's path, "
                   "s3://BUCKET/KEY or https://HOST/PATH");
    if (geteuid() != 0) {
        assert_int_equal(chmod("a.tsv", 0), 0);
        assert_refused(VALUES("a.tsv"), "a.tsv: cannot open: Permission denied");
        assert_int_equal(chmod("a.tsv", 0600), 0);
    }
}

TEST(empty_files_are_dropped) {
    struct input_list list = {0};
    struct error error = {0};
    fclose(fopen("none", "w"));
    fclose(fopen("nothing", "w"));
    assert_int_equal(input_list_add(&list, "none,nothing", &error), 0);
    input_list_drop_empty(&list);
    assert_int_equal(list.count, 2); /* the other files are dropped */
    assert_int_equal(input_list_add(&list, "a.tsv", &error), 0);
    input_list_drop_empty(&list);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.names[0].path, "a.tsv");
    input_list_close(&list);
    unlink("none");
    unlink("nothing");
}

TEST(too_many_files) {
    struct input_list list = {.count = INPUT_FILES_MAX, .capacity = INPUT_FILES_MAX};
    struct error error = {0};
    assert_int_equal(input_list_add(&list, "a.tsv", &error), AML_ELIMIT);
    assert_string_equal(error.text, "a.tsv: expected at most 65536 input files");
}

static int make_folder(void **state) {
    if (files_open(state) != 0) {
        return -1;
    }
    static const char *const names[] = {
        "a.tsv", "b.tsv", "parts/x", "parts/part-9.gz", "parts/part-9.gz.gzi", "parts/part-10", "parts/.hidden"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        write_text(names[n], names[n]);
    }
    return 0;
}

int main(void) {
    return tests_run(make_folder, files_close);
}
