/* See store.h. */
#include "agileml/control/state/store.h"

#include "agileml/base/hash.h"
#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The application id and version in the file's header, which distinguish a store from other SQLite files. The SQL below
 * must contain the same numbers. */
enum { STORE_APPLICATION = 0x41474D4C /* "AGML" */, STORE_VERSION = 2, STORE_PAGE_MIN = 512 };

static const char store_create[] =
    "PRAGMA application_id = 0x41474D4C; PRAGMA user_version = 2;"
    "CREATE TABLE entry (key TEXT PRIMARY KEY NOT NULL, bytes BLOB NOT NULL, hash INTEGER NOT NULL)";

enum store_statement { STORE_BEGIN, STORE_COMMIT, STORE_PUT, STORE_REMOVE, STORE_READ, STORE_STATEMENTS };

static const char *const store_sql[STORE_STATEMENTS] = {
    [STORE_BEGIN] = "BEGIN IMMEDIATE",
    [STORE_COMMIT] = "COMMIT",
    [STORE_PUT] = "INSERT OR REPLACE INTO entry (key, bytes, hash) VALUES (?1, ?2, ?3)",
    [STORE_REMOVE] = "DELETE FROM entry WHERE key = ?1",
    [STORE_READ] = "SELECT key, bytes, hash FROM entry ORDER BY key",
};

struct file_store {
    struct store store; /* must be the first field: callers have a pointer to it */
    char *path;
    sqlite3 *database;
    sqlite3_stmt *statements[STORE_STATEMENTS];
};

static struct file_store *file_store_of(struct store *store) {
    return (struct file_store *)(void *)store;
}

/* Sets `error` to SQLite's last failure. */
static int store_failed(const struct file_store *store, const char *doing, struct error *error) {
    const char *reason = sqlite3_errmsg(store->database);
    switch (sqlite3_errcode(store->database) & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(error, AML_EINPUT, "%s: another controller has this store open", store->path);
    case SQLITE_NOTADB:
        return error_set(error, AML_EINPUT, "%s: is not a controller's store but some other file", store->path);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_READONLY:
        return error_set(error, AML_EINPUT, "%s: can't %s the controller's store: %s", store->path, doing, reason);
    case SQLITE_NOMEM:
        return error_set(error, AML_ENOMEM, "%s: no memory to %s the controller's store", store->path, doing);
    case SQLITE_TOOBIG:
        return error_set(error, AML_ELIMIT, "%s: an entry is too large for the controller's store", store->path);
    default:
        return error_set(error, AML_EFAIL, "%s: can't %s the controller's store: %s", store->path, doing, reason);
    }
}

/* Rejects files of less than a page: SQLite takes such a file for an empty one, and would overwrite it. */
static bool store_too_short(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 && status.st_size < STORE_PAGE_MIN;
}

static int store_execute(const struct file_store *store, const char *sql, struct error *error) {
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_failed(store, "open", error);
}

/* Reads the single whole number that `sql` returns. */
static int store_number(const struct file_store *store, const char *sql, int64_t *number, struct error *error) {
    sqlite3_stmt *statement = NULL;
    int code = 0;
    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        code = store_failed(store, "open", error);
    } else {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code;
}

/* Accepts a store, makes an empty file a store, and rejects any other file. Called under the exclusive lock. */
static int store_identify(const struct file_store *store, struct error *error) {
    int64_t application = 0;
    int64_t version = 0;
    int64_t objects = 0;
    int code = store_number(store, "PRAGMA application_id", &application, error);
    code = code != 0 ? code : store_number(store, "PRAGMA user_version", &version, error);
    code = code != 0 ? code : store_number(store, "SELECT count(*) FROM sqlite_master", &objects, error);
    if (code != 0) {
        return code;
    }
    if (application == 0 && version == 0 && objects == 0) {
        return store_execute(store, store_create, error);
    }
    if (application != STORE_APPLICATION) {
        return error_set(error, AML_EINPUT, "%s: is not a controller's store but another SQLite file", store->path);
    }
    if (version != STORE_VERSION) {
        return error_set(error, AML_EINPUT, "%s: is a store of version %lld, expected %d", store->path,
                         (long long)version, STORE_VERSION);
    }
    return 0;
}

/* Locks the database until the store is closed (locking_mode EXCLUSIVE). A commit writes only to the file system's
 * cache, which survives when the process is killed. Checkpoints of the log are synced (synchronous NORMAL). */
static int store_prepare(struct file_store *store, struct error *error) {
    int code = store_execute(store, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE", error);
    code = code != 0 ? code : store_identify(store, error);
    code = code != 0 ? code
                     : store_execute(store, "COMMIT; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", error);
    for (unsigned s = 0; s < STORE_STATEMENTS && code == 0; s++) {
        if (sqlite3_prepare_v3(store->database, store_sql[s], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[s],
                               NULL) != SQLITE_OK) {
            code = store_failed(store, "open", error);
        }
    }
    return code;
}

/* Runs a statement that returns no rows. */
static int store_run(const struct file_store *store, enum store_statement which, struct error *error) {
    sqlite3_stmt *statement = store->statements[which];
    int code = sqlite3_step(statement) == SQLITE_DONE ? 0 : store_failed(store, "write", error);
    sqlite3_reset(statement);
    return code;
}

/* SQLite does not notice bytes that a disk has changed. */
static int64_t entry_hash(const char *key, const void *bytes, size_t size) {
    uint64_t hash = hash_bytes((const unsigned char *)key, strlen(key), 0);
    return (int64_t)hash_bytes(bytes, size, hash);
}

static int store_put(const struct file_store *store, const struct store_entry *entry, struct error *error) {
    enum store_statement which = entry->bytes != NULL ? STORE_PUT : STORE_REMOVE;
    sqlite3_stmt *statement = store->statements[which];
    if (entry->key[0] == '\0' || strlen(entry->key) >= STORE_KEY_MAX) {
        return error_set(error, AML_ELIMIT, "%s: \"%.80s\" is no key of 1 to %d bytes", store->path, entry->key,
                         STORE_KEY_MAX - 1);
    }
    if (sqlite3_bind_text(statement, 1, entry->key, -1, SQLITE_STATIC) != SQLITE_OK ||
        (which == STORE_PUT &&
         (sqlite3_bind_blob64(statement, 2, entry->bytes, entry->size, SQLITE_STATIC) != SQLITE_OK ||
          sqlite3_bind_int64(statement, 3, entry_hash(entry->key, entry->bytes, entry->size)) != SQLITE_OK))) {
        return store_failed(store, "write", error);
    }
    int code = store_run(store, which, error);
    sqlite3_clear_bindings(statement);
    return code;
}

static int file_store_write(struct store *base, const struct store_entry *entries, unsigned count,
                            struct error *error) {
    const struct file_store *store = file_store_of(base);
    int code = store_run(store, STORE_BEGIN, error);
    for (unsigned i = 0; i < count && code == 0; i++) {
        code = store_put(store, &entries[i], error);
    }
    code = code != 0 ? code : store_run(store, STORE_COMMIT, error);
    if (code != 0 && sqlite3_get_autocommit(store->database) == 0) {
        sqlite3_exec(store->database, "ROLLBACK", NULL, NULL, NULL); /* needs no space; `error` is set already */
    }
    return code;
}

static int file_store_read(struct store *base,
                           int (*each)(void *context, const char *key, const void *bytes, size_t size,
                                       struct error *error),
                           void *context, struct error *error) {
    const struct file_store *store = file_store_of(base);
    sqlite3_stmt *statement = store->statements[STORE_READ];
    int code = 0;
    int step = SQLITE_ROW;
    while (code == 0 && (step = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(statement, 0);
        const void *bytes = sqlite3_column_blob(statement, 1); /* NULL when there are no bytes */
        size_t size = (size_t)sqlite3_column_bytes(statement, 1);
        bytes = bytes != NULL || size > 0 ? bytes : "";
        if (key == NULL || bytes == NULL) {
            code = store_failed(store, "read", error);
        } else if (sqlite3_column_int64(statement, 2) != entry_hash(key, bytes, size)) {
            code = error_set(error, AML_EINPUT, "%s: the store is damaged: entry %.80s", store->path, key);
        } else {
            code = each(context, key, bytes, size, error);
        }
    }
    if (step != SQLITE_ROW && step != SQLITE_DONE) {
        code = store_failed(store, "read", error);
    }
    sqlite3_reset(statement);
    return code;
}

static void file_store_close(struct store *base) {
    struct file_store *store = file_store_of(base);
    for (unsigned s = 0; s < STORE_STATEMENTS; s++) {
        sqlite3_finalize(store->statements[s]);
    }
    sqlite3_close(store->database);
    free(store->path);
    free(store);
}

int store_open(struct store **opened, const char *path, struct error *error) {
    struct file_store *store = memory_zeroed(1, sizeof *store);
    store->store = (struct store){file_store_write, file_store_read, file_store_close};
    store->path = memory_string(path);
    const char *reason;
    int code = 0;
    if (path[0] == '\0' || path[0] == ':') {
        code = error_set(error, AML_EINPUT, "\"%s\" can't name the controller's store: expected a path", path);
    } else if (!private_store_make(path, &reason)) {
        code = error_set(error, AML_EINPUT, "%s: can't open the controller's store: %s", path, reason);
    } else if (store_too_short(path)) {
        code = error_set(error, AML_EINPUT, "%s: is not a controller's store but some other file", path);
    } else if (sqlite3_open_v2(path, &store->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
               SQLITE_OK) {
        code = store_failed(store, "open", error);
    } else {
        code = store_prepare(store, error);
    }
    if (code != 0) {
        file_store_close(&store->store);
        return code;
    }
    *opened = &store->store;
    return 0;
}
