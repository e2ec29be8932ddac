/* The controller's store: a transaction writes all of its entries or none, even if the process is killed at any
 * moment or the disk is full. A file has only one controller. */
#include "agileml/control/state/store.h"
#include "tests/files.h"
#include "tests/test.h"

#include "agileml/base/hash.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

enum { TEXT_BYTES = 512, KEYS = 5, KILLS = 120, ACKNOWLEDGED_MAX = 40, VALUE_MAX = 20000 };

static const char path[] = "store";

static int teardown(void **state) {
    static const char *const suffixes[] = {"", "-wal", "-journal", "-shm"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    return files_close_one(state); /* fails the test if an unexpected file is left */
}

static struct store *open_store(void) {
    struct store *store = NULL;
    struct error error = {0};
    int code = store_open(&store, path, &error);
    if (code != 0) {
        fail_msg("%s", error.text);
    }
    return store;
}

static void put(struct store *store, const char *key, const char *text) {
    struct store_entry entry = {key, text, text != NULL ? strlen(text) : 0};
    assert_int_equal(store->write(store, &entry, 1, NULL), 0);
}

/* Appends "key=bytes " to the text. */
static int append_entry(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    char *text = context;
    size_t length = strlen(text);
    snprintf(text + length, TEXT_BYTES - length, "%s=%.*s ", key, (int)size, (const char *)bytes);
    return 0;
}

static void assert_content(struct store *store, const char *expected) {
    char text[TEXT_BYTES] = "";
    assert_int_equal(store->read(store, append_entry, text, NULL), 0);
    assert_string_equal(text, expected);
}

TEST(entries) {
    struct store *store = open_store();
    assert_content(store, "");
    put(store, "plan", "one");
    put(store, "job", "");
    put(store, "plan", "two");
    struct store_entry several[] = {{"node-2", "b", 1}, {"job", NULL, 0}, {"node-1", "a", 1}, {"missing", NULL, 0}};
    assert_int_equal(store->write(store, several, 4, NULL), 0);
    assert_int_equal(store->write(store, NULL, 0, NULL), 0);
    assert_content(store, "node-1=a node-2=b plan=two ");
    store->close(store);
    store = open_store();
    assert_content(store, "node-1=a node-2=b plan=two ");
    put(store, "node-2", NULL);
    put(store, "empty", "");
    assert_content(store, "empty= node-1=a plan=two ");
    store->close(store);
}

static int stop_at_second(void *context, const char *key, const void *bytes, size_t size, struct error *error) {
    unsigned *seen = context;
    return ++*seen == 2 ? error_set(error, AML_ELIMIT, "stopped at %s", key) : 0;
}

TEST(read_ends_early) {
    struct store *store = open_store();
    struct error error = {0};
    unsigned seen = 0;
    put(store, "a", "1");
    put(store, "b", "2");
    put(store, "c", "3");
    assert_int_equal(store->read(store, stop_at_second, &seen, &error), AML_ELIMIT);
    assert_string_equal(error.text, "stopped at b");
    assert_int_equal(seen, 2);
    assert_content(store, "a=1 b=2 c=3 ");
    put(store, "a", "4");
    store->close(store);
}

TEST(bad_keys_change_nothing) {
    struct store *store = open_store();
    char longest[STORE_KEY_MAX + 1];
    memset(longest, 'k', sizeof longest);
    longest[STORE_KEY_MAX] = '\0';
    const char *const bad[] = {"", longest};
    put(store, "a", "1");
    for (size_t i = 0; i < 2; i++) {
        struct store_entry entries[] = {{"a", "2", 1}, {bad[i], "3", 1}};
        struct error error = {0};
        assert_int_equal(store->write(store, entries, 2, &error), AML_ELIMIT);
        assert_non_null(strstr(error.text, "key"));
    }
    assert_content(store, "a=1 ");
    put(store, longest + 1, "1");
    store->close(store);
}

static void assert_refused(const char *name, const char *reason) {
    struct store *store = NULL;
    struct error error = {0};
    assert_int_equal(store_open(&store, name, &error), AML_EINPUT);
    assert_null(store);
    if (strstr(error.text, reason) == NULL || strstr(error.text, name) == NULL) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", error.text, name, reason);
    }
}

TEST(one_controller) {
    struct store *store = open_store();
    put(store, "a", "1");
    assert_refused(path, "another controller");
    pid_t child = fork();
    if (child == 0) {
        struct store *second = NULL;
        struct error error = {0};
        int code = store_open(&second, path, &error);
        _exit(code == AML_EINPUT && strstr(error.text, "another controller") != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    put(store, "a", "2");
    assert_content(store, "a=2 ");
    store->close(store);
    store = open_store();
    store->close(store);
}

/* Any other file is refused and stays unchanged. */
TEST(other_files) {
    static char long_text[VALUE_MAX];
    memset(long_text, 'x', sizeof long_text - 1);
    const char *const texts[] = {"x", "SQLite format 3", "This is a list of things to do.\n", long_text};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_text(path, texts[i]);
        assert_refused(path, "not a controller's store");
        assert_file(path, texts[i]);
        unlink(path);
    }
    sqlite3 *other;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "CREATE TABLE t (x)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_refused(path, "another SQLite file");
    unlink(path);
    struct store *store = open_store();
    store->close(store);
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "PRAGMA user_version = 1", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_refused(path, "version 1, expected 2");
    assert_refused(".", "can't open");
    assert_refused("/nowhere/at/all", "can't open");
    assert_refused("", "path");
    assert_refused(":memory:", "path");
}

/* A byte that has changed on the disk, in a key or in the bytes of an entry, is noticed. */
TEST(a_damaged_entry) {
    static const char *const changes[] = {"UPDATE entry SET bytes = CAST('fact' AS BLOB) WHERE key = 'plan'",
                                          "UPDATE entry SET key = 'plam' WHERE key = 'plan'"};
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        struct store *store = open_store();
        put(store, "plan", "face");
        store->close(store);
        sqlite3 *file;
        assert_int_equal(sqlite3_open(path, &file), SQLITE_OK);
        assert_int_equal(sqlite3_exec(file, changes[c], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(file);
        store = open_store();
        char text[TEXT_BYTES] = "";
        struct error error = {0};
        assert_int_equal(store->read(store, append_entry, text, &error), AML_EINPUT);
        assert_non_null(strstr(error.text, "the store is damaged: entry pla"));
        put(store, "plan", NULL);
        put(store, "plam", NULL);
        store->close(store);
    }
}

TEST(empty_file_becomes_a_store) {
    write_text(path, "");
    struct store *store = open_store();
    put(store, "a", "1");
    assert_content(store, "a=1 ");
    store->close(store);
}

/* ---- Killed processes ---- */

static uint64_t random_state = 5;

static unsigned random_below(unsigned limit) {
    return (unsigned)(hash_mix(random_state++) % limit);
}

static const char *const kill_keys[KEYS] = {"a", "b", "c", "d", "e"};

/* Each transaction of the child writes its number at the start of every entry, and is then acknowledged. */
static _Noreturn void write_until_killed(unsigned from, int pipe_end) {
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
    assert_string_equal(key, kill_keys[found->count]);
    assert_true(size >= sizeof number);
    memcpy(&number, bytes, sizeof number);
    assert_true(found->count == 0 || number == found->number);
    found->number = number;
    found->count++;
    return 0;
}

/* Runs and kills one child. Returns the number of the last transaction in the store. */
static unsigned kill_one(unsigned last) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    random_state += 1000;
    unsigned wanted = random_below(ACKNOWLEDGED_MAX);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        write_until_killed(last + 1, ends[1]);
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
    struct store *store = open_store();
    struct found found = {0, last};
    assert_int_equal(store->read(store, check_found, &found, NULL), 0);
    assert_true(found.count == KEYS || (found.count == 0 && acknowledged == 0));
    assert_in_range(found.number, acknowledged, acknowledged + 1);
    store->close(store);
    return found.number;
}

TEST(killed_at_any_moment) {
    unsigned last = 0;
    for (unsigned i = 0; i < KILLS; i++) {
        last = kill_one(last);
    }
    assert_true(last > 0);
}

/* ---- Full disks ---- */

TEST(full_disk) {
    static unsigned char large[40 * VALUE_MAX];
    struct rlimit before;
    struct store *store = open_store();
    put(store, "a", "1");
    put(store, "b", "1");
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
        assert_non_null(strstr(error.text, path));
        assert_content(store, "a=1 b=1 ");
    }
    put(store, "b", "2");
    assert_content(store, "a=1 b=2 ");
    store->close(store);
    store = open_store();
    assert_content(store, "a=1 b=2 ");
    store->close(store);
}

int main(void) {
    return tests_run_each(files_open, teardown);
}
