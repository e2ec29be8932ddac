/* Tests of agileml/base/new_file: what is refused before anything is written, and that checking changes nothing. */
#include "agileml/base/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOBODY = 65534, SKIPPED = 77, PATH_SIZE = 128 };

static char folder[] = "/tmp/new_file_test.XXXXXX";

static int open_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL || chmod(folder, 0755) != 0 ? -1 : 0;
}

static int close_folder(void **state) {
    (void)state;
    char command[PATH_SIZE];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *path_of(const char *name) {
    static char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static unsigned files_in(const char *path) {
    DIR *entries = opendir(path);
    unsigned count = 0;
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        count += entry->d_name[0] != '.';
    }
    closedir(entries);
    return count;
}

/* The message follows the path. */
static void assert_refused(const char *path, const char *message) {
    struct error error = {0};
    char expected[ERROR_TEXT_MAX];
    snprintf(expected, sizeof expected, "%s%s", path, message);
    assert_int_equal(new_file_check(path, &error), AML_EINPUT);
    assert_string_equal(error.text, expected);
}

static void test_checking_changes_nothing(void **state) {
    (void)state;
    struct error error = {0};
    char text[16] = "";
    assert_int_equal(new_file_check(path_of("model"), &error), 0);
    assert_int_equal(files_in(folder), 0);
    write_text(path_of("model"), "old");
    assert_int_equal(new_file_check(path_of("model"), &error), 0);
    assert_int_equal(files_in(folder), 1);
    FILE *file = fopen(path_of("model"), "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "old");
    fclose(file);
    assert_int_equal(unlink(path_of("model")), 0);
}

static void test_paths_that_no_file_can_have(void **state) {
    (void)state;
    assert_refused("", "the path is empty: expected that of a file");
    assert_refused(folder, ": a folder: expected the path of a file");
    assert_refused(path_of("none/"), ": a folder: expected the path of a file");
    assert_refused("/dev/null", ": a device or pipe: expected the path of a file");
    assert_refused(path_of("none/model"), ": can't write it: No such file or directory");
    write_text(path_of("file"), "x");
    assert_refused(path_of("file/model"), ": can't write it: Not a directory");
    assert_int_equal(unlink(path_of("file")), 0);
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_refused(name, ": can't write it: File name too long");
    char path[NEW_FILE_PATH_MAX + 1];
    memset(path, '/', sizeof path - 1);
    path[sizeof path - 2] = 'n';
    path[sizeof path - 1] = '\0';
    struct error error = {0};
    assert_int_equal(new_file_check(path, &error), AML_EINPUT);
    assert_non_null(strstr(error.text, "the path is longer than 511 bytes"));
}

static bool check_says(const char *path, const char *part) {
    struct error error = {0};
    return new_file_check(path, &error) == AML_EINPUT && strstr(error.text, part) != NULL;
}

/* Runs `check` in a process of its own; false when it can't be set up there. */
static bool run_apart(int (*check)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(check());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

static int check_rights(void) {
    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) {
        return SKIPPED;
    }
    bool right = check_says(path_of("kept"), "kept: can't write to it: Permission denied") &&
                 check_says(path_of("closed/model"), "closed/model: can't write it: Permission denied");
    return right ? 0 : 1;
}

static void test_missing_rights(void **state) {
    (void)state;
    write_text(path_of("kept"), "x");
    assert_int_equal(chmod(path_of("kept"), 0444), 0);
    assert_int_equal(mkdir(path_of("closed"), 0555), 0);
    if (!run_apart(check_rights)) {
        print_message("skipped: no process without root's rights can be made here\n");
        skip();
    }
    assert_int_equal(unlink(path_of("kept")), 0);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(rmdir(path_of("closed")), 0);
}

static int check_read_only(void) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        return SKIPPED;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", path_of("disk"), "tmpfs", MS_RDONLY, NULL) != 0) {
        return SKIPPED;
    }
    return check_says(path_of("disk/model"), "disk/model: can't write it: Read-only file system") ? 0 : 1;
}

static void test_a_read_only_file_system(void **state) {
    (void)state;
    assert_int_equal(mkdir(path_of("disk"), 0755), 0);
    bool done = run_apart(check_read_only);
    assert_int_equal(rmdir(path_of("disk")), 0);
    if (!done) {
        print_message("skipped: no read-only file system can be mounted here\n");
        skip();
    }
}

static void test_a_new_file_takes_its_place_at_the_end(void **state) {
    (void)state;
    struct new_file file;
    struct error error = {0};
    char text[16] = "";
    write_text(path_of("model"), "old");
    assert_int_equal(new_file_open(&file, path_of("model"), &error), 0);
    assert_int_equal(new_file_write(&file, "new", 3, &error), 0);
    assert_int_equal(files_in(folder), 2);
    assert_int_equal(new_file_commit(&file, &error), 0);
    assert_int_equal(files_in(folder), 1);
    FILE *stream = fopen(path_of("model"), "re");
    assert_non_null(stream);
    assert_non_null(fgets(text, sizeof text, stream));
    assert_string_equal(text, "new");
    fclose(stream);
    assert_int_equal(new_file_open(&file, "/dev/null", &error), AML_EINPUT);
    assert_int_equal(unlink(path_of("model")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checking_changes_nothing),
        cmocka_unit_test(test_paths_that_no_file_can_have),
        cmocka_unit_test(test_missing_rights),
        cmocka_unit_test(test_a_read_only_file_system),
        cmocka_unit_test(test_a_new_file_takes_its_place_at_the_end),
    };
    return cmocka_run_group_tests_name("new_file", tests, open_folder, close_folder);
}
