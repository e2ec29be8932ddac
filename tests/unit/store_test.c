/* The controller's store: entries are written all or none, also when the process is killed at any moment or the disk is
 * full, and one file has one controller. */
#include "agileml/control/store.h"

#include "agileml/base/hash.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

enum { PATH_BYTES = 128, TEXT_BYTES = 512, KEYS = 5, KILLS = 120, ACKNOWLEDGED_MAX = 40, VALUE_MAX = 20000 };

struct fixture {
    char folder[PATH_BYTES / 2];
    char path[PATH_BYTES];
};

static int setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/store_test.XXXXXX");
    if (mkdtemp(fixture->folder) == NULL) {
        return -1;
    }
    snprintf(fixture->path, sizeof fixture->path, "%s/store", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state) {
    struct fixture *fixture = *state;
    static const char *const suffixes[] = {"", "-wal", "-journal", "-shm"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char path[PATH_BYTES + 16];
        snprintf(path, sizeof path, "%s%s", fixture->path, suffixes[i]);
        unlink(path);
    }
    int result = rmdir(fixture->folder); /* a file that should not be there stays, and fails the test */
    free(fixture);
    return result;
}

static struct store *open_store(const struct fixture *fixture) {
    struct store *store = NULL;
    struct error error = {0};
    int code = store_open(&store, fixture->path, &error);
    if (code != 0) {
        fail_msg("%s", error.text);
    }
    return store;
}

static void write_text(struct store *store, const char *key, const char *text) {
    struct store_entry entry = {key, text, text != NULL ? strlen(text) : 0};
    assert_int_equal(store->write(store, &entry, 1, NULL), 0);
}

/* Appends "key=bytes " to the text. */
static int append_entry(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    char *text = context;
    (void)error;
    size_t length = strlen(text);
    snprintf(text + length, TEXT_BYTES - length, "%s=%.*s ", key, (int)size, (const char *)bytes);
    return 0;
}

static void assert_content(struct store *store, const char *expected) {
    char text[TEXT_BYTES] = "";
    assert_int_equal(store->read(store, append_entry, text, NULL), 0);
    assert_string_equal(text, expected);
}

static void test_entries(void **state) {
    struct store *store = open_store(*state);
    assert_content(store, "");
    write_text(store, "plan", "one");
    write_text(store, "job", "");
    write_text(store, "plan", "two");
    struct store_entry several[] = {{"node-2", "b", 1}, {"job", NULL, 0}, {"node-1", "a", 1}, {"missing", NULL, 0}};
    assert_int_equal(store->write(store, several, 4, NULL), 0);
    assert_int_equal(store->write(store, NULL, 0, NULL), 0);
    assert_content(store, "node-1=a node-2=b plan=two ");
    store->close(store);
    store = open_store(*state);
    assert_content(store, "node-1=a node-2=b plan=two ");
    write_text(store, "node-2", NULL);
    write_text(store, "empty", "");
    assert_content(store, "empty= node-1=a plan=two ");
    store->close(store);
}

static int stop_at_second(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    unsigned *seen = context;
    (void)bytes;
    (void)size;
    return ++*seen == 2 ? error_set(error, AML_ELIMIT, "stopped at %s", key) : 0;
}

static void test_read_ends_early(void **state) {
    struct store *store = open_store(*state);
    struct error error = {0};
    unsigned seen = 0;
    write_text(store, "a", "1");
    write_text(store, "b", "2");
    write_text(store, "c", "3");
    assert_int_equal(store->read(store, stop_at_second, &seen, &error), AML_ELIMIT);
    assert_string_equal(error.text, "stopped at b");
    assert_int_equal(seen, 2);
    assert_content(store, "a=1 b=2 c=3 ");
    write_text(store, "a", "4");
    store->close(store);
}

static void test_bad_keys_change_nothing(void **state) {
    struct store *store = open_store(*state);
    char longest[STORE_KEY_MAX + 1];
    memset(longest, 'k', sizeof longest);
    longest[STORE_KEY_MAX] = '\0';
    const char *const bad[] = {"", longest};
    write_text(store, "a", "1");
    for (size_t i = 0; i < 2; i++) {
        struct store_entry entries[] = {{"a", "2", 1}, {bad[i], "3", 1}};
        struct error error = {0};
        assert_int_equal(store->write(store, entries, 2, &error), AML_ELIMIT);
        assert_non_null(strstr(error.text, "key"));
    }
    assert_content(store, "a=1 ");
    write_text(store, longest + 1, "1");
    store->close(store);
}

static void assert_refused(const char *path, const char *reason) {
    struct store *store = NULL;
    struct error error = {0};
    assert_int_equal(store_open(&store, path, &error), AML_EINPUT);
    assert_null(store);
    if (strstr(error.text, reason) == NULL || strstr(error.text, path) == NULL) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", error.text, path, reason);
    }
}

static void test_one_controller(void **state) {
    const struct fixture *fixture = *state;
    struct store *store = open_store(fixture);
    write_text(store, "a", "1");
    assert_refused(fixture->path, "another controller");
    pid_t child = fork();
    if (child == 0) {
        struct store *second = NULL;
        struct error error = {0};
        int code = store_open(&second, fixture->path, &error);
        _exit(code == AML_EINPUT && strstr(error.text, "another controller") != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    write_text(store, "a", "2");
    assert_content(store, "a=2 ");
    store->close(store);
    store = open_store(fixture);
    store->close(store);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_file(const char *path, const char *expected) {
    static char text[VALUE_MAX];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = '\0';
    fclose(file);
    assert_string_equal(text, expected);
}

/* Whatever else it is, it is refused, and stays as it is. */
static void test_other_files(void **state) {
    const struct fixture *fixture = *state;
    static char long_text[VALUE_MAX];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *const texts[] = {"x", "SQLite format 3", "This is a list of things to do.\n", long_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(fixture->path, texts[i]);
        assert_refused(fixture->path, "not a controller's store");
        assert_file(fixture->path, texts[i]);
        unlink(fixture->path);
    }
    sqlite3 *other;
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_refused(fixture->path, "another SQLite file");
    unlink(fixture->path);
    struct store *store = open_store(fixture);
    store->close(store);
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "PRAGMA user_version = 2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_refused(fixture->path, "version 2, expected 1");
    assert_refused(fixture->folder, "can't open");
    assert_refused("/nowhere/at/all", "can't open");
    assert_refused("", "path");
    assert_refused(":memory:", "path");
}

static void test_empty_file_becomes_a_store(void **state) {
    const struct fixture *fixture = *state;
    write_file(fixture->path, "");
    struct store *store = open_store(fixture);
    write_text(store, "a", "1");
    assert_content(store, "a=1 ");
    store->close(store);
}

/* ---- A process that is killed ---- */

static uint64_t random_state = 5;

static unsigned random_below(unsigned limit) {
    return (unsigned)(hash_mix(random_state++) % limit);
}

static const char *const kill_keys[KEYS] = {"a", "b", "c", "d", "e"};

/* The child: each transaction writes its number at the start of every entry, and is then acknowledged. */
static _Noreturn void write_until_killed(const char *path, unsigned from, int pipe_end) {
    static unsigned char value[VALUE_MAX];
    struct store *store = NULL;
    if (store_open(&store, path, NULL) != 0) {
        _exit(1);
    }
    for (unsigned number = from;; number++) {
        struct store_entry entries[KEYS];
        memcpy(value, &number, sizeof number);
        for (unsigned k = 0; k < KEYS; k++) {
            entries[k] = (struct store_entry){kill_keys[k], value, sizeof number + random_below(VALUE_MAX - 8)};
        }
        if (store->write(store, entries, KEYS, NULL) != 0 ||
            write(pipe_end, &number, sizeof number) != (ssize_t)sizeof number) {
            _exit(1);
        }
    }
}

struct found {
    unsigned count, number;
};

static int check_found(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    struct found *found = context;
    unsigned number;
    (void)error;
    assert_string_equal(key, kill_keys[found->count]);
    assert_true(size >= sizeof number);
    memcpy(&number, bytes, sizeof number);
    assert_true(found->count == 0 || number == found->number);
    found->number = number;
    found->count++;
    return 0;
}

/* One child's life; the number of the last transaction in the store. */
static unsigned kill_one(const struct fixture *fixture, unsigned last) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    random_state += 1000;
    unsigned wanted = random_below(ACKNOWLEDGED_MAX);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        write_until_killed(fixture->path, last + 1, ends[1]);
    }
    close(ends[1]);
    unsigned acknowledged = last;
    for (unsigned i = 0; i < wanted; i++) {
        assert_int_equal(read(ends[0], &acknowledged, sizeof acknowledged), sizeof acknowledged);
    }
    for (volatile unsigned spin = random_below(1000000); spin > 0; spin--) {
    }
    kill(child, SIGKILL);
    while (read(ends[0], &acknowledged, sizeof acknowledged) == (ssize_t)sizeof acknowledged) {
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    struct store *store = open_store(fixture);
    struct found found = {0, last};
    assert_int_equal(store->read(store, check_found, &found, NULL), 0);
    assert_true(found.count == KEYS || (found.count == 0 && acknowledged == 0));
    assert_in_range(found.number, acknowledged, acknowledged + 1);
    store->close(store);
    return found.number;
}

static void test_killed_at_any_moment(void **state) {
    unsigned last = 0;
    for (unsigned i = 0; i < KILLS; i++) {
        last = kill_one(*state, last);
    }
    assert_true(last > 0);
}

/* ---- A disk that is full ---- */

static void test_full_disk(void **state) {
    const struct fixture *fixture = *state;
    static unsigned char large[40 * VALUE_MAX];
    struct rlimit before;
    struct store *store = open_store(fixture);
    write_text(store, "a", "1");
    write_text(store, "b", "1");
    memset(large, 'x', sizeof large);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 4096; limit < sizeof large; limit += 50000) {
        struct rlimit small = {limit, before.rlim_max};
        struct store_entry entries[] = {{"a", "2", 1}, {"b", NULL, 0}, {"c", large, sizeof large}};
        struct error error = {0};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        int code = store->write(store, entries, 3, &error);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(code, AML_EFAIL);
        assert_int_equal(error.code, AML_EFAIL);
        assert_non_null(strstr(error.text, fixture->path));
        assert_content(store, "a=1 b=1 ");
    }
    write_text(store, "b", "2");
    assert_content(store, "a=1 b=2 ");
    store->close(store);
    store = open_store(fixture);
    assert_content(store, "a=1 b=2 ");
    store->close(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(test_read_ends_early, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_keys_change_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_controller, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_file_becomes_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
