/* Tests of agileml/base/folder: which files a walk visits, in which order, and what ends it. */
#include "agileml/base/folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char root[] = "/tmp/folder_test.XXXXXX";

static void shell(const char *format) {
    char command[1024];
    snprintf(command, sizeof command, "cd %s && %s", root, format);
    assert_int_equal(system(command), 0); /* NOLINT: our own text */
}

static int set_up(void **state) {
    (void)state;
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    shell("rm -r \"$PWD\"");
    return 0;
}

static bool is_text(const char *name) {
    return strstr(name, ".txt") != NULL;
}

/* Notes the path behind the root; ends the walk at a file "end.txt". */
static int note(void *context, const char *path, struct error *error) {
    char *notes = context;
    strcat(strcat(notes, path + strlen(root)), " ");
    return strstr(path, "end.txt") != NULL ? error_set(error, AML_EFAIL, "the end") : 0;
}

static void test_files_in_the_order_of_names(void **state) {
    (void)state;
    char notes[512] = "";
    char path[64];
    struct error error = {0};
    shell("mkdir b empty .hidden && touch c.txt a.txt B.txt b/2.txt b/10.txt b/x.csv .a.txt .hidden/a.txt");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), 0);
    assert_string_equal(notes, "/B.txt /a.txt /b/10.txt /b/2.txt /c.txt ");
    notes[0] = '\0';
    snprintf(path, sizeof path, "%s/b/x.csv", root); /* a file that is named is visited, whatever its name */
    assert_int_equal(folder_walk(path, is_text, note, notes, &error), 0);
    assert_string_equal(notes, "/b/x.csv ");
}

static void test_a_failure_ends_the_walk(void **state) {
    (void)state;
    char notes[512] = "";
    struct error error = {0};
    shell("rm -r * && mkdir b && touch a.txt b/end.txt b/f.txt c.txt");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), AML_EFAIL);
    assert_string_equal(error.text, "the end");
    assert_string_equal(notes, "/a.txt /b/end.txt ");
}

static void test_what_cannot_be_walked(void **state) {
    (void)state;
    char notes[512] = "";
    struct error error = {0};
    assert_int_equal(folder_walk("/nonexistent/a", is_text, note, notes, &error), AML_EINPUT);
    assert_string_equal(error.text, "/nonexistent/a: No such file or directory");
    error = (struct error){0};
    shell("rm -r * && mkdir -p 1/2/3/4/5/6/7/8 && touch 1/2/3/4/5/6/7/8/deep.txt");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), 0);
    assert_string_equal(notes, "/1/2/3/4/5/6/7/8/deep.txt ");
    shell("mkdir 1/2/3/4/5/6/7/8/9");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "/9: folders nested more than 8 deep"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_in_the_order_of_names),
        cmocka_unit_test(test_a_failure_ends_the_walk),
        cmocka_unit_test(test_what_cannot_be_walked),
    };
    return cmocka_run_group_tests_name("folder", tests, set_up, tear_down);
}
