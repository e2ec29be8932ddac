/* See ledger.h. Uses WAL with synchronous=FULL: a put that has returned survives a kill and a power failure. The lock
 * is flock(2) on a separate file beside the state: closing any descriptor of the database itself would drop SQLite's
 * own locks. */
#include "bidbrain/daemon/ledger.h"

#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the file's header, and repeated in ledger_create. */
enum { LEDGER_APPLICATION = 0x42424C44 /* "BBLD" */, LEDGER_VERSION = 2 };

static const char ledger_create[] =
    "PRAGMA application_id = 0x42424C44; PRAGMA user_version = 2;"
    "CREATE TABLE job (name TEXT NOT NULL);"
    "CREATE TABLE launch (number INTEGER PRIMARY KEY, token TEXT NOT NULL UNIQUE, kind INTEGER NOT NULL,"
    " type TEXT NOT NULL, zone TEXT NOT NULL, product TEXT NOT NULL, count INTEGER NOT NULL, bid INTEGER NOT NULL,"
    " reliable INTEGER NOT NULL, stage INTEGER NOT NULL, fallback INTEGER NOT NULL, planned INTEGER NOT NULL,"
    " answered INTEGER NOT NULL, machines INTEGER NOT NULL, code TEXT NOT NULL, text TEXT NOT NULL,"
    " join_until INTEGER NOT NULL);"
    "CREATE TABLE machine (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, token TEXT NOT NULL,"
    " kind INTEGER NOT NULL, type TEXT NOT NULL, zone TEXT NOT NULL, state INTEGER NOT NULL, launched INTEGER NOT NULL,"
    " noticed INTEGER NOT NULL, evicted INTEGER NOT NULL, reason TEXT NOT NULL, reliable INTEGER NOT NULL,"
    " fallback INTEGER NOT NULL, bid INTEGER NOT NULL, running INTEGER NOT NULL, release_at INTEGER NOT NULL,"
    " ended INTEGER NOT NULL, how INTEGER NOT NULL);"
    "CREATE TABLE market (number INTEGER PRIMARY KEY, kind INTEGER NOT NULL, type TEXT NOT NULL, zone TEXT NOT NULL,"
    " closed_until INTEGER NOT NULL, failures INTEGER NOT NULL, UNIQUE (kind, type, zone));"
    "CREATE TABLE value (name TEXT PRIMARY KEY, value REAL NOT NULL)";

struct ledger {
    sqlite3 *database;
    char *path;
    int lock; /* -1: none */
};

static int ledger_failed(const struct ledger *ledger, struct error *error) {
    int code = sqlite3_errcode(ledger->database) & 0xFF;
    const char *text = sqlite3_errmsg(ledger->database);
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
        return error_set(
            error, AML_EINPUT,
            "%.250s: damaged, or not a state file of bidbrain (%s): move it away; machines of the job that "
            "run are then orphans",
            ledger->path, text);
    }
    bool input = code == SQLITE_CANTOPEN || code == SQLITE_PERM || code == SQLITE_READONLY;
    return error_set(error, input ? AML_EINPUT : AML_EFAIL, "%.250s: state: %s", ledger->path, text);
}

static int ledger_execute(struct ledger *ledger, const char *sql, struct error *error) {
    return sqlite3_exec(ledger->database, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : ledger_failed(ledger, error);
}

/* Reads the first column of the first row. `text` NULL: reads it as a number. */
static int ledger_ask(struct ledger *ledger, const char *sql, int64_t *number, char *text, size_t size,
                      struct error *error) {
    sqlite3_stmt *statement = NULL;
    int code = 0;
    if (sqlite3_prepare_v2(ledger->database, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        code = ledger_failed(ledger, error);
    } else if (text != NULL) {
        const unsigned char *value = sqlite3_column_text(statement, 0);
        snprintf(text, size, "%s", value != NULL ? (const char *)value : "");
    } else {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code;
}

/* ---- Opening ---- */

static int ledger_lock(struct ledger *ledger, struct error *error) {
    size_t size = strlen(ledger->path) + sizeof "-lock";
    char *path = memory_zeroed(size, 1);
    int code = 0;
    const char *reason;
    snprintf(path, size, "%s-lock", ledger->path);
    ledger->lock = private_file_lock(path, &reason);
    if (ledger->lock < 0 && reason != NULL) {
        code = error_set(error, AML_EINPUT, "state: %.300s: %s", path, reason);
    } else if (ledger->lock < 0) {
        code = error_set(error, AML_EINPUT, "%.300s: another bidbrain works with this state", ledger->path);
    }
    free(path);
    return code;
}

static int ledger_new(struct ledger *ledger, const char *job, struct error *error) {
    int code = ledger_execute(ledger, ledger_create, error);
    sqlite3_stmt *statement = NULL;
    if (code == 0 &&
        (sqlite3_prepare_v2(ledger->database, "INSERT INTO job VALUES (?1)", -1, &statement, NULL) != SQLITE_OK ||
         sqlite3_bind_text(statement, 1, job, -1, SQLITE_STATIC) != SQLITE_OK ||
         sqlite3_step(statement) != SQLITE_DONE)) {
        code = ledger_failed(ledger, error);
    }
    sqlite3_finalize(statement);
    return code;
}

/* Accepts a state file, and initializes an empty file. Does not change any other file. */
static int ledger_identify(struct ledger *ledger, const char *job, struct error *error) {
    int64_t application = 0;
    int64_t version = 0;
    int64_t objects = 0;
    char name[256];
    int code = ledger_ask(ledger, "PRAGMA application_id", &application, NULL, 0, error);
    code = code != 0 ? code : ledger_ask(ledger, "PRAGMA user_version", &version, NULL, 0, error);
    code = code != 0 ? code : ledger_ask(ledger, "SELECT count(*) FROM sqlite_master", &objects, NULL, 0, error);
    if (code == 0 && application == 0 && objects == 0) {
        return ledger_new(ledger, job, error);
    }
    if (code == 0 && application != LEDGER_APPLICATION) {
        return error_set(error, AML_EINPUT, "%.250s: not a state file of bidbrain but another SQLite file",
                         ledger->path);
    }
    if (code == 0 && version != LEDGER_VERSION) {
        return error_set(error, AML_EINPUT, "%.250s: a state file of version %lld, expected version %d", ledger->path,
                         (long long)version, LEDGER_VERSION);
    }
    code = code != 0 ? code : ledger_ask(ledger, "PRAGMA quick_check(1)", NULL, name, sizeof name, error);
    if (code == 0 && strcmp(name, "ok") != 0) {
        return error_set(error, AML_EINPUT,
                         "%.250s: damaged (%.100s): move it away; machines of the job that run are then orphans",
                         ledger->path, name);
    }
    code = code != 0 ? code : ledger_ask(ledger, "SELECT name FROM job", NULL, name, sizeof name, error);
    if (code == 0 && strcmp(name, job) != 0) {
        code =
            error_set(error, AML_EINPUT, "%.250s: the state of job '%.60s', not of '%.60s': expected a file of its own",
                      ledger->path, name, job);
    }
    return code;
}

static int ledger_open_file(struct ledger *ledger, const char *path, int flags, struct error *error) {
    int code = sqlite3_open_v2(path, &ledger->database, flags, NULL) == SQLITE_OK ? 0 : ledger_failed(ledger, error);
    sqlite3_busy_timeout(ledger->database, 10000);
    return code;
}

/* Reads the file, if there is one, into a database in memory. */
static int ledger_copy(struct ledger *ledger, struct error *error) {
    struct ledger source = {.path = ledger->path, .lock = -1};
    int code = ledger_open_file(ledger, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
    if (code != 0 || access(ledger->path, F_OK) != 0) {
        return code;
    }
    code = ledger_open_file(&source, ledger->path, SQLITE_OPEN_READONLY, error);
    if (code == 0) {
        sqlite3_backup *backup = sqlite3_backup_init(ledger->database, "main", source.database, "main");
        if (backup != NULL) {
            (void)sqlite3_backup_step(backup, -1);
        }
        code = backup != NULL && sqlite3_backup_finish(backup) == SQLITE_OK ? 0 : ledger_failed(ledger, error);
    }
    sqlite3_close(source.database);
    return code;
}

int ledger_open(struct ledger **opened, const char *path, const char *job, enum ledger_mode mode, struct error *error) {
    struct ledger *ledger = memory_zeroed(1, sizeof *ledger);
    ledger->path = memory_string(path);
    ledger->lock = -1;
    int code = 0;
    if (mode == LEDGER_COPY) {
        code = ledger_copy(ledger, error);
    } else if (mode == LEDGER_READ) {
        code = access(path, F_OK) != 0 ? error_set(error, AML_EINPUT, "%.300s: %s", path, strerror(errno)) : 0;
        /* writable, because of the WAL */
        code = code != 0 ? code : ledger_open_file(ledger, path, SQLITE_OPEN_READWRITE, error);
    } else {
        const char *reason;
        code = ledger_lock(ledger, error);
        if (code == 0 && !private_store_make(path, &reason)) {
            code = error_set(error, AML_EINPUT, "%.300s: %s", path, reason);
        }
        code = code != 0 ? code : ledger_open_file(ledger, path, SQLITE_OPEN_READWRITE, error);
    }
    if (code == 0 && mode == LEDGER_WRITE) {
        code = ledger_execute(ledger, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN IMMEDIATE", error);
    }
    code = code != 0 ? code : ledger_identify(ledger, job, error);
    if (code == 0 && mode == LEDGER_WRITE) {
        code = ledger_execute(ledger, "COMMIT", error);
    }
    if (code != 0) {
        ledger_close(ledger);
        return code;
    }
    *opened = ledger;
    return 0;
}

void ledger_close(struct ledger *ledger) {
    if (ledger == NULL) {
        return;
    }
    sqlite3_close(ledger->database);
    if (ledger->lock >= 0) {
        close(ledger->lock);
    }
    free(ledger->path);
    free(ledger);
}

/* ---- Rows ---- */

/* A row's values are bound and read in the same order. */
struct row {
    sqlite3_stmt *statement;
    int next;
};

static int row_begin(struct ledger *ledger, struct row *row, const char *sql, struct error *error) {
    *row = (struct row){0};
    return sqlite3_prepare_v2(ledger->database, sql, -1, &row->statement, NULL) == SQLITE_OK
               ? 0
               : ledger_failed(ledger, error);
}

static void row_number(struct row *row, int64_t number) {
    sqlite3_bind_int64(row->statement, ++row->next, number);
}

static void row_text(struct row *row, const char *text) {
    sqlite3_bind_text(row->statement, ++row->next, text, -1, SQLITE_TRANSIENT);
}

static int row_put(struct ledger *ledger, struct row *row, struct error *error) {
    int code = sqlite3_step(row->statement) == SQLITE_DONE ? 0 : ledger_failed(ledger, error);
    sqlite3_finalize(row->statement);
    return code;
}

static int64_t row_get(struct row *row) {
    return sqlite3_column_int64(row->statement, row->next++);
}

static void row_get_text(struct row *row, char *text, size_t size) {
    const unsigned char *value = sqlite3_column_text(row->statement, row->next++);
    snprintf(text, size, "%s", value != NULL ? (const char *)value : "");
}

/* Steps to the next row. Returns false at the end, where it closes the statement. */
static bool row_step(struct ledger *ledger, struct row *row, int *code, struct error *error) {
    int step = sqlite3_step(row->statement);
    row->next = 0;
    if (step == SQLITE_ROW) {
        return true;
    }
    *code = step == SQLITE_DONE ? 0 : ledger_failed(ledger, error);
    sqlite3_finalize(row->statement);
    return false;
}

int ledger_put_launch(struct ledger *ledger, const struct ledger_launch *l, struct error *error) {
    struct row row;
    int code = row_begin(ledger, &row,
                         "INSERT INTO launch (token, kind, type, zone, product, count, bid, reliable, stage, fallback,"
                         " planned, answered, machines, code, text, join_until) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,"
                         "?11,?12,?13,?14,?15,?16) ON CONFLICT (token) DO UPDATE SET stage = ?9, answered = ?12,"
                         " machines = ?13, code = ?14, text = ?15",
                         error);
    if (code != 0) {
        return code;
    }
    row_text(&row, l->launch.token);
    row_number(&row, l->launch.kind);
    row_text(&row, l->launch.type);
    row_text(&row, l->launch.zone);
    row_text(&row, l->launch.product);
    row_number(&row, l->launch.count);
    row_number(&row, l->launch.bid);
    row_number(&row, l->launch.reliable);
    row_number(&row, l->stage);
    row_number(&row, l->fallback);
    row_number(&row, l->planned);
    row_number(&row, l->answered);
    row_number(&row, l->machines);
    row_text(&row, l->code);
    row_text(&row, l->text);
    row_number(&row, l->launch.join_until);
    return row_put(ledger, &row, error);
}

int ledger_launches(struct ledger *ledger, void (*visit)(void *context, const struct ledger_launch *launch),
                    void *context, struct error *error) {
    struct row row;
    int code = row_begin(ledger, &row,
                         "SELECT token, kind, type, zone, product, count, bid, reliable, stage, fallback, planned,"
                         " answered, machines, code, text, join_until FROM launch ORDER BY number",
                         error);
    while (code == 0 && row_step(ledger, &row, &code, error)) {
        struct ledger_launch l = {0};
        row_get_text(&row, l.launch.token, sizeof l.launch.token);
        l.launch.kind = row_get(&row) == PROVIDER_SPOT ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
        row_get_text(&row, l.launch.type, sizeof l.launch.type);
        row_get_text(&row, l.launch.zone, sizeof l.launch.zone);
        row_get_text(&row, l.launch.product, sizeof l.launch.product);
        l.launch.count = (unsigned)row_get(&row);
        l.launch.bid = row_get(&row);
        l.launch.reliable = row_get(&row) != 0;
        int64_t stage = row_get(&row);
        l.stage = stage >= LEDGER_PLANNED && stage <= LEDGER_CLOSED ? (enum ledger_stage)stage : LEDGER_CLOSED;
        l.fallback = row_get(&row) != 0;
        l.planned = row_get(&row);
        l.answered = row_get(&row);
        l.machines = (unsigned)row_get(&row);
        row_get_text(&row, l.code, sizeof l.code);
        row_get_text(&row, l.text, sizeof l.text);
        l.launch.join_until = row_get(&row);
        visit(context, &l);
    }
    return code;
}

int ledger_put_machine(struct ledger *ledger, const struct ledger_machine *m, struct error *error) {
    struct row row;
    int code =
        row_begin(ledger, &row,
                  "INSERT INTO machine (id, token, kind, type, zone, state, launched, noticed, evicted, reason,"
                  " reliable, fallback, bid, running, release_at, ended, how) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,"
                  "?10,?11,?12,?13,?14,?15,?16,?17) ON CONFLICT (id) DO UPDATE SET token = ?2, state = ?6,"
                  " launched = ?7, noticed = ?8, evicted = ?9, reason = ?10, running = ?14, release_at = ?15,"
                  " ended = ?16, how = ?17",
                  error);
    if (code != 0) {
        return code;
    }
    row_text(&row, m->machine.id);
    row_text(&row, m->machine.token);
    row_number(&row, m->machine.kind);
    row_text(&row, m->machine.type);
    row_text(&row, m->machine.zone);
    row_number(&row, m->machine.state);
    row_number(&row, m->machine.launched);
    row_number(&row, m->machine.noticed);
    row_number(&row, m->machine.evicted);
    row_text(&row, m->machine.reason);
    row_number(&row, m->reliable);
    row_number(&row, m->fallback);
    row_number(&row, m->bid);
    row_number(&row, m->running);
    row_number(&row, m->release_at);
    row_number(&row, m->ended);
    row_number(&row, m->how);
    return row_put(ledger, &row, error);
}

int ledger_machines(struct ledger *ledger, void (*visit)(void *context, const struct ledger_machine *machine),
                    void *context, struct error *error) {
    struct row row;
    int code = row_begin(ledger, &row,
                         "SELECT id, token, kind, type, zone, state, launched, noticed, evicted, reason, reliable,"
                         " fallback, bid, running, release_at, ended, how FROM machine ORDER BY number",
                         error);
    while (code == 0 && row_step(ledger, &row, &code, error)) {
        struct ledger_machine m = {0};
        row_get_text(&row, m.machine.id, sizeof m.machine.id);
        row_get_text(&row, m.machine.token, sizeof m.machine.token);
        m.machine.kind = row_get(&row) == PROVIDER_SPOT ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
        row_get_text(&row, m.machine.type, sizeof m.machine.type);
        row_get_text(&row, m.machine.zone, sizeof m.machine.zone);
        int64_t state = row_get(&row);
        m.machine.state =
            state >= MACHINE_PENDING && state <= MACHINE_GONE ? (enum machine_state)state : MACHINE_RUNNING;
        m.machine.launched = row_get(&row);
        m.machine.noticed = row_get(&row) != 0;
        m.machine.evicted = row_get(&row) != 0;
        row_get_text(&row, m.machine.reason, sizeof m.machine.reason);
        m.reliable = row_get(&row) != 0;
        m.fallback = row_get(&row) != 0;
        m.bid = row_get(&row);
        m.running = row_get(&row);
        m.release_at = row_get(&row);
        m.ended = row_get(&row);
        int64_t how = row_get(&row);
        m.how = m.ended == 0                                 ? LEDGER_RUNS
                : how > LEDGER_RUNS && how < LEDGER_VANISHED ? (enum ledger_end)how
                                                             : LEDGER_VANISHED;
        visit(context, &m);
    }
    return code;
}

int ledger_put_market(struct ledger *ledger, const struct ledger_market *market, struct error *error) {
    struct row row;
    int code = row_begin(ledger, &row,
                         "INSERT INTO market (kind, type, zone, closed_until, failures) VALUES (?1,?2,?3,?4,?5)"
                         " ON CONFLICT (kind, type, zone) DO UPDATE SET closed_until = ?4, failures = ?5",
                         error);
    if (code != 0) {
        return code;
    }
    row_number(&row, market->kind);
    row_text(&row, market->type);
    row_text(&row, market->zone);
    row_number(&row, market->closed_until);
    row_number(&row, market->failures);
    return row_put(ledger, &row, error);
}

int ledger_markets(struct ledger *ledger, void (*visit)(void *context, const struct ledger_market *market),
                   void *context, struct error *error) {
    struct row row;
    int code =
        row_begin(ledger, &row, "SELECT kind, type, zone, closed_until, failures FROM market ORDER BY number", error);
    while (code == 0 && row_step(ledger, &row, &code, error)) {
        struct ledger_market market = {0};
        market.kind = row_get(&row) == PROVIDER_SPOT ? PROVIDER_SPOT : PROVIDER_ON_DEMAND;
        row_get_text(&row, market.type, sizeof market.type);
        row_get_text(&row, market.zone, sizeof market.zone);
        market.closed_until = row_get(&row);
        market.failures = (unsigned)row_get(&row);
        visit(context, &market);
    }
    return code;
}

/* ---- Named values ---- */

/* Begins a statement about the value called `name`. */
static int value_begin(struct ledger *ledger, struct row *row, const char *text, const char *name,
                       struct error *error) {
    int code = row_begin(ledger, row, text, error);
    if (code == 0) {
        row_text(row, name);
    }
    return code;
}

static const char VALUE_PUT[] =
    "INSERT INTO value (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2";
static const char VALUE_GET[] = "SELECT value FROM value WHERE name = ?1";

int ledger_put_text(struct ledger *ledger, const char *name, const char *text, struct error *error) {
    struct row row;
    int code = value_begin(ledger, &row, VALUE_PUT, name, error);
    if (code != 0) {
        return code;
    }
    row_text(&row, text);
    return row_put(ledger, &row, error);
}

int ledger_put_value(struct ledger *ledger, const char *name, double value, struct error *error) {
    struct row row;
    int code = value_begin(ledger, &row, VALUE_PUT, name, error);
    if (code != 0) {
        return code;
    }
    sqlite3_bind_double(row.statement, 2, value);
    return row_put(ledger, &row, error);
}

int ledger_text(struct ledger *ledger, const char *name, char *text, size_t size, struct error *error) {
    struct row row;
    text[0] = '\0';
    int code = value_begin(ledger, &row, VALUE_GET, name, error);
    while (code == 0 && row_step(ledger, &row, &code, error)) {
        row.next = 0;
        row_get_text(&row, text, size);
    }
    return code;
}

int ledger_value(struct ledger *ledger, const char *name, double *value, struct error *error) {
    struct row row;
    int code = value_begin(ledger, &row, VALUE_GET, name, error);
    while (code == 0 && row_step(ledger, &row, &code, error)) {
        *value = sqlite3_column_double(row.statement, 0);
    }
    return code;
}
