/* Tests of agileml/base/new_file: what is refused before anything is written; checking changes no file. */
#include "agileml/base/new_file.h"
#include "tests/files.h"
#include "tests/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, SKIPPED = 77 };

static int set_up(void **state) {
    return files_open(state) != 0 || chmod(".", 0755) != 0 ? -1 : 0;
}

/* The message follows the path. */
static void assert_refused(const char *path, const char *message) {
    struct error error = {0};
    char expected[ERROR_TEXT_MAX];
    snprintf(expected, sizeof expected, "%s%s", path, message);
    assert_int_equal(new_file_check(path, &error), AML_EINPUT);
    assert_string_equal(error.text, expected);
}

TEST(checking_changes_nothing) {
    struct error error = {0};
    char text[16] = "";
    assert_int_equal(new_file_check("model", &error), 0);
    assert_int_equal(files_in("."), 0);
    write_text("model", "old");
    assert_int_equal(new_file_check("model", &error), 0);
    assert_int_equal(files_in("."), 1);
    FILE *file = fopen("model", "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "old");
    fclose(file);
    assert_int_equal(unlink("model"), 0);
}

TEST(paths_that_no_file_can_have) {
    assert_refused("", "the path is empty: expected that of a file");
    assert_refused(".", ": a folder: expected the path of a file");
    assert_refused("none/", ": a folder: expected the path of a file");
    assert_refused("/dev/null", ": a device or pipe: expected the path of a file");
    assert_refused("none/model", ": can't write it: No such file or directory");
    write_text("file", "x");
    assert_refused("file/model", ": can't write it: Not a directory");
    assert_int_equal(unlink("file"), 0);
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

/* Runs `check` in a child process; false if the child can't be set up. */
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
    bool right = check_says("kept", "kept: can't write to it: Permission denied") &&
                 check_says("closed/model", "closed/model: can't write it: Permission denied");
    return right ? 0 : 1;
}

TEST(missing_rights) {
    write_text("kept", "x");
    assert_int_equal(chmod("kept", 0444), 0);
    assert_int_equal(mkdir("closed", 0555), 0);
    if (!run_apart(check_rights)) {
        print_message("skipped: no process without root's rights can be made here\n");
        skip();
    }
    assert_int_equal(unlink("kept"), 0);
    assert_int_equal(files_in("."), 1);
    assert_int_equal(rmdir("closed"), 0);
}

static int check_read_only(void) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
        return SKIPPED;
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "disk", "tmpfs", MS_RDONLY, NULL) != 0) {
        return SKIPPED;
    }
    return check_says("disk/model", "disk/model: can't write it: Read-only file system") ? 0 : 1;
}

TEST(a_read_only_file_system) {
    assert_int_equal(mkdir("disk", 0755), 0);
    bool done = run_apart(check_read_only);
    assert_int_equal(rmdir("disk"), 0);
    if (!done) {
        print_message("skipped: no read-only file system can be mounted here\n");
        skip();
    }
}

TEST(a_new_file_takes_its_place_at_the_end) {
    struct new_file file;
    struct error error = {0};
    char text[16] = "";
    write_text("model", "old");
    assert_int_equal(new_file_open(&file, "model", &error), 0);
    assert_int_equal(new_file_write(&file, "new", 3, &error), 0);
    assert_int_equal(files_in("."), 2);
    assert_int_equal(new_file_commit(&file, &error), 0);
    assert_int_equal(files_in("."), 1);
    FILE *stream = fopen("model", "re");
    assert_non_null(stream);
    assert_non_null(fgets(text, sizeof text, stream));
    assert_string_equal(text, "new");
    fclose(stream);
    assert_int_equal(new_file_open(&file, "/dev/null", &error), AML_EINPUT);
    assert_int_equal(unlink("model"), 0);
}

int main(void) {
    return tests_run(set_up, files_close);
}
