/* Tests of agileml/input/list: what --data may name, the order of files, and what is refused. */
#include "agileml/input/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/input_list_test.XXXXXX";

static void make_file(const char *name) {
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(name, file);
    fclose(file);
}

/* Lists values (up to NULL), and asserts the paths: each with a blank behind it. */
static void assert_files(const char *const values[], const char *expected) {
    struct input_list list = {0};
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
    input_list_close(&list);
}

static void assert_refused(const char *const values[], const char *message) {
    struct input_list list = {0};
    struct error error = {0};
    int code = 0;
    for (size_t v = 0; values[v] != NULL && code == 0; v++) {
        code = input_list_add(&list, values[v], &error);
    }
    assert_string_equal(error.text, message);
    assert_int_equal(code, AML_EINPUT);
    input_list_close(&list);
}

#define VALUES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_files_folders_globs_and_lists(void **state) {
    (void)state;
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

/* What is there under the whole name is that, whatever the name has in it. */
static void test_names_with_special_characters(void **state) {
    (void)state;
    make_file("c,d");
    make_file("[x]*");
    make_file("a b\n");
    assert_files(VALUES("c,d"), "c,d ");
    assert_files(VALUES("c,[d]"), "c,d ");
    assert_files(VALUES("[x]*"), "[x]* ");
    assert_files(VALUES("a b\n"), "a b\n ");
    assert_refused(VALUES("c,d,a.tsv"), "c: cannot open: No such file or directory");
    unlink("c,d");
    unlink("[x]*");
    unlink("a b\n");
}

static void test_pipes_by_name_alone(void **state) {
    (void)state;
    assert_int_equal(mkfifo("parts/fifo", 0600), 0);
    assert_files(VALUES("parts/fifo"), "parts/fifo ");
    assert_refused(VALUES("parts"), "parts/fifo: no regular file: expected files alone");
    assert_refused(VALUES("parts/f*"), "parts/fifo: no regular file: expected files alone");
    unlink("parts/fifo");
}

static void test_what_is_refused(void **state) {
    (void)state;
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

static void test_empty_files_are_dropped(void **state) {
    (void)state;
    struct input_list list = {0};
    struct error error = {0};
    fclose(fopen("none", "w"));
    fclose(fopen("nothing", "w"));
    assert_int_equal(input_list_add(&list, "none,nothing", &error), 0);
    input_list_drop_empty(&list);
    assert_int_equal(list.count, 2); /* nothing else is there */
    assert_int_equal(input_list_add(&list, "a.tsv", &error), 0);
    input_list_drop_empty(&list);
    assert_int_equal(list.count, 1);
    assert_string_equal(list.names[0].path, "a.tsv");
    input_list_close(&list);
    unlink("none");
    unlink("nothing");
}

static void test_too_many_files(void **state) {
    (void)state;
    struct input_list list = {.count = INPUT_FILES_MAX, .capacity = INPUT_FILES_MAX};
    struct error error = {0};
    assert_int_equal(input_list_add(&list, "a.tsv", &error), AML_ELIMIT);
    assert_string_equal(error.text, "a.tsv: expected at most 65536 input files");
}

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL || chdir(folder) != 0 || mkdir("parts", 0700) != 0) {
        return -1;
    }
    static const char *const names[] = {
        "a.tsv", "b.tsv", "parts/x", "parts/part-9.gz", "parts/part-9.gz.gzi", "parts/part-10", "parts/.hidden"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        make_file(names[n]);
    }
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return chdir("/") != 0 || system(command) != 0; /* the path is mkdtemp's */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_folders_globs_and_lists), cmocka_unit_test(test_names_with_special_characters),
        cmocka_unit_test(test_pipes_by_name_alone),           cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_empty_files_are_dropped),       cmocka_unit_test(test_too_many_files),
    };
    return cmocka_run_group_tests_name("input_list", tests, make_folder, remove_folder);
}
