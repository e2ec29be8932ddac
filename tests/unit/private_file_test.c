/* agileml/base/private_file: new files are private to their owner. In a folder that others can write to, no other
 * user can choose the file that is written. */
#include "agileml/base/private_file.h"
#include "tests/files.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static void assert_opens(const char *name) {
    const char *reason;
    int descriptor = private_file_open(name, O_WRONLY | O_APPEND, &reason);
    if (descriptor < 0) {
        fail_msg("%s: %s", name, reason);
    }
    assert_int_equal(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(write(descriptor, "x", 1), 1);
    close(descriptor);
    assert_true(private_store_make(name, &reason));
}

static void assert_refuses(const char *name, const char *expected) {
    const char *reason;
    assert_int_equal(private_file_open(name, O_WRONLY | O_APPEND, &reason), -1);
    assert_non_null(strstr(reason, expected));
    reason = NULL;
    assert_false(private_store_make(name, &reason));
    assert_non_null(strstr(reason, expected));
}

static mode_t mode_of(const char *name) {
    struct stat status;
    assert_int_equal(stat(name, &status), 0);
    return status.st_mode & 07777;
}

TEST(new_files_are_their_owners_alone) {
    const char *reason;
    mode_t mask = umask(0);
    for (int shared = 0; shared < 2; shared++) {
        assert_int_equal(chmod(".", shared != 0 ? 01777 : 0755), 0);
        assert_opens(shared != 0 ? "one" : "two");
        assert_true(private_store_make(shared != 0 ? "three" : "four", &reason));
    }
    umask(mask);
    assert_int_equal(mode_of("one"), 0600);
    assert_int_equal(mode_of("two"), 0600);
    assert_int_equal(mode_of("three"), 0600);
    assert_int_equal(mode_of("four"), 0600);
    write_text("old", "");
    assert_opens("old");
    assert_int_equal(mode_of("old"), 0644); /* keeps the owner's mode */
}

TEST(links_are_followed_in_our_own_folders_only) {
    write_text("target", "");
    assert_int_equal(symlink("target", "link"), 0);
    assert_int_equal(symlink("new", "dangling"), 0);
    assert_opens("link");
    assert_int_equal(chmod(".", 01777), 0);
    assert_refuses("link", "a symbolic link");
    assert_refuses("dangling", "a symbolic link");
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(chmod(".", 0755), 0);
    assert_opens("dangling");
    assert_int_equal(mode_of("new"), 0600);
}

TEST(what_is_there_is_cut_when_asked_for) {
    for (int shared = 0; shared < 2; shared++) {
        const char *reason;
        struct stat status;
        assert_int_equal(chmod(".", shared != 0 ? 01777 : 0755), 0);
        assert_opens("log");
        int descriptor = private_file_open("log", O_WRONLY | O_TRUNC, &reason);
        assert_true(descriptor >= 0);
        assert_int_equal(fstat(descriptor, &status), 0);
        assert_int_equal(status.st_size, 0);
        close(descriptor);
    }
}

TEST(a_second_name_is_refused_in_a_shared_folder) {
    write_text("precious", "");
    assert_int_equal(link("precious", "report"), 0);
    assert_opens("report");
    assert_int_equal(chmod(".", 01777), 0);
    assert_refuses("report", "several names");
}

TEST(a_store_needs_its_other_files_to_be_its_own) {
    const char *reason;
    assert_int_equal(chmod(".", 01777), 0);
    assert_int_equal(symlink("elsewhere", "store-wal"), 0);
    assert_false(private_store_make("store", &reason));
    assert_non_null(strstr(reason, "a symbolic link"));
    assert_int_equal(access("store", F_OK), -1);
}

TEST(files_and_folders_of_others) {
    if (geteuid() != 0) {
        skip(); /* only root can give files to others */
    }
    write_text("theirs", "");
    write_text("ours", "");
    assert_int_equal(chown("theirs", NOBODY, NOBODY), 0);
    assert_opens("theirs"); /* in a private folder only we can have placed it */
    assert_int_equal(chmod(".", 01777), 0);
    assert_refuses("theirs", "belongs to another user");
    assert_opens("ours");
    assert_int_equal(chmod(".", 0755), 0);
    assert_int_equal(chown(".", NOBODY, NOBODY), 0);
    assert_refuses("theirs", "belongs to another user");
    assert_opens("ours");
    assert_opens("made");
    assert_int_equal(symlink("ours", "link"), 0);
    assert_refuses("link", "a symbolic link");
}

TEST(what_can_not_be_made_is_said) {
    assert_refuses("no such folder/file", strerror(ENOENT));
    assert_int_equal(chmod(".", 01777), 0);
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
    int target = open("target", O_WRONLY | O_CREAT | O_EXCL, 0600);
    char link[32];
    snprintf(link, sizeof link, "/dev/fd/%d", target); /* like /dev/stdout, a link that others can't have made */
    descriptor = private_file_open(link, O_WRONLY | O_APPEND, &reason);
    assert_true(descriptor >= 0);
    close(descriptor);
    close(target);
}

int main(void) {
    return tests_run_each(files_open, files_close);
}
