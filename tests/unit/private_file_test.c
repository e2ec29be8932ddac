/* agileml/base/private_file: new files are their owner's alone, and in a folder that others can write to nobody else
 * chooses what we write to. */
#include "agileml/base/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { NOBODY = 65534, PATH_BYTES = 128 };

static char folder[] = "/tmp/private_file_test.XXXXXX";

static int set_up(void **state) {
    (void)state;
    strcpy(strrchr(folder, '.'), ".XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int tear_down(void **state) {
    char command[PATH_BYTES];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char paths[2][PATH_BYTES];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

static void make_file(const char *name) {
    int descriptor = open(in_folder(name), O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_true(descriptor >= 0);
    close(descriptor);
}

static void assert_opens(const char *name) {
    const char *reason;
    int descriptor = private_file_open(in_folder(name), O_WRONLY | O_APPEND, &reason);
    if (descriptor < 0) {
        fail_msg("%s: %s", name, reason);
    }
    assert_int_equal(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(descriptor, "x", 1), 1);
    close(descriptor);
    assert_true(private_store_make(in_folder(name), &reason));
}

static void assert_refuses(const char *name, const char *expected) {
    const char *reason;
    assert_int_equal(private_file_open(in_folder(name), O_WRONLY | O_APPEND, &reason), -1);
    assert_non_null(strstr(reason, expected));
    reason = NULL;
    assert_false(private_store_make(in_folder(name), &reason));
    assert_non_null(strstr(reason, expected));
}

static mode_t mode_of(const char *name) {
    struct stat status;
    assert_int_equal(stat(in_folder(name), &status), 0);
    return status.st_mode & 07777;
}

static void test_new_files_are_their_owners_alone(void **state) {
    (void)state;
    const char *reason;
    mode_t mask = umask(0);
    for (int shared = 0; shared < 2; shared++) {
        assert_int_equal(chmod(folder, shared != 0 ? 01777 : 0755), 0);
        assert_opens(shared != 0 ? "one" : "two");
        assert_true(private_store_make(in_folder(shared != 0 ? "three" : "four"), &reason));
    }
    umask(mask);
    assert_int_equal(mode_of("one"), 0600);
    assert_int_equal(mode_of("two"), 0600);
    assert_int_equal(mode_of("three"), 0600);
    assert_int_equal(mode_of("four"), 0600);
    make_file("old");
    assert_opens("old");
    assert_int_equal(mode_of("old"), 0644); /* as its owner wants it */
}

static void test_links_are_followed_in_our_own_folders_only(void **state) {
    (void)state;
    make_file("target");
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(symlink("new", in_folder("dangling")), 0);
    assert_opens("link");
    assert_int_equal(chmod(folder, 01777), 0);
    assert_refuses("link", "a symbolic link");
    assert_refuses("dangling", "a symbolic link");
    assert_int_equal(access(in_folder("new"), F_OK), -1);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_opens("dangling");
    assert_int_equal(mode_of("new"), 0600);
}

static void test_what_is_there_is_cut_when_asked_for(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        const char *reason;
        struct stat status;
        assert_int_equal(chmod(folder, shared != 0 ? 01777 : 0755), 0);
        assert_opens("log");
        int descriptor = private_file_open(in_folder("log"), O_WRONLY | O_TRUNC, &reason);
        assert_true(descriptor >= 0);
        assert_int_equal(fstat(descriptor, &status), 0);
        assert_int_equal(status.st_size, 0);
        close(descriptor);
    }
}

static void test_a_second_name_is_refused_in_a_shared_folder(void **state) {
    (void)state;
    char other[PATH_BYTES];
    make_file("precious");
    snprintf(other, sizeof other, "%s", in_folder("precious"));
    assert_int_equal(link(other, in_folder("report")), 0);
    assert_opens("report");
    assert_int_equal(chmod(folder, 01777), 0);
    assert_refuses("report", "several names");
}

static void test_a_store_needs_its_other_files_to_be_its_own(void **state) {
    (void)state;
    const char *reason;
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(symlink("elsewhere", in_folder("store-wal")), 0);
    assert_false(private_store_make(in_folder("store"), &reason));
    assert_non_null(strstr(reason, "a symbolic link"));
    assert_int_equal(access(in_folder("store"), F_OK), -1);
}

static void test_files_and_folders_of_others(void **state) {
    (void)state;
    if (geteuid() != 0) {
        skip(); /* only root can give files away */
    }
    make_file("theirs");
    make_file("ours");
    assert_int_equal(chown(in_folder("theirs"), NOBODY, NOBODY), 0);
    assert_opens("theirs"); /* nobody but we can have put it there */
    assert_int_equal(chmod(folder, 01777), 0);
    assert_refuses("theirs", "belongs to another user");
    assert_opens("ours");
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
    assert_refuses("theirs", "belongs to another user");
    assert_opens("ours");
    assert_opens("made");
    assert_int_equal(symlink("ours", in_folder("link")), 0);
    assert_refuses("link", "a symbolic link");
}

static void test_what_can_not_be_made_is_said(void **state) {
    (void)state;
    assert_refuses("no such folder/file", strerror(ENOENT));
    assert_int_equal(chmod(folder, 01777), 0);
    assert_refuses("no such folder/file", strerror(ENOENT));
    const char *reason;
    char longer[8192];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    longer[0] = '/';
    assert_int_equal(private_file_open(longer, O_WRONLY, &reason), -1);
    assert_string_equal(reason, strerror(ENAMETOOLONG));
    longer[5000] = '/';
    assert_false(private_store_make(longer, &reason));
    int descriptor = private_file_open("/dev/null", O_WRONLY | O_APPEND, &reason);
    assert_true(descriptor >= 0);
    close(descriptor);
    int target = open(in_folder("target"), O_WRONLY | O_CREAT | O_EXCL, 0600);
    char link[32];
    snprintf(link, sizeof link, "/dev/fd/%d", target); /* as /dev/stdout is: the link is nobody else's */
    descriptor = private_file_open(link, O_WRONLY | O_APPEND, &reason);
    assert_true(descriptor >= 0);
    close(descriptor);
    close(target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_new_files_are_their_owners_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_are_followed_in_our_own_folders_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_there_is_cut_when_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_second_name_is_refused_in_a_shared_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_store_needs_its_other_files_to_be_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_and_folders_of_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_can_not_be_made_is_said, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
