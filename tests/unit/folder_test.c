/* Tests of agileml/base/folder: the files that a walk visits, their order, and what ends the walk. */
#include "agileml/base/folder.h"
#include "tests/files.h"
#include "tests/test.h"

static const char root[] = ".";

static void shell(const char *command) {
    assert_int_equal(system(command), 0); /* NOLINT: the text is our own */
}

static bool is_text(const char *name) {
    return strstr(name, ".txt") != NULL;
}

/* Notes the path below the root; the file "end.txt" ends the walk. */
static int note(void *context, const char *path, struct error *error) {
    char *notes = context;
    strcat(strcat(notes, path + strlen(root)), " ");
    return strstr(path, "end.txt") != NULL ? error_set(error, AML_EFAIL, "the end") : 0;
}

TEST(files_in_the_order_of_names) {
    char notes[512] = "";
    char path[64];
    struct error error = {0};
    shell("mkdir b empty .hidden && touch c.txt a.txt B.txt b/2.txt b/10.txt b/x.csv .a.txt .hidden/a.txt");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), 0);
    assert_string_equal(notes, "/B.txt /a.txt /b/10.txt /b/2.txt /c.txt ");
    notes[0] = '\0';
    snprintf(path, sizeof path, "%s/b/x.csv", root); /* a path of a file is visited under any name */
    assert_int_equal(folder_walk(path, is_text, note, notes, &error), 0);
    assert_string_equal(notes, "/b/x.csv ");
}

TEST(a_failure_ends_the_walk) {
    char notes[512] = "";
    struct error error = {0};
    shell("rm -r * && mkdir b && touch a.txt b/end.txt b/f.txt c.txt");
    assert_int_equal(folder_walk(root, is_text, note, notes, &error), AML_EFAIL);
    assert_string_equal(error.text, "the end");
    assert_string_equal(notes, "/a.txt /b/end.txt ");
}

TEST(what_cannot_be_walked) {
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
    return tests_run(files_open, files_close);
}
