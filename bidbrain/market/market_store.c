/* See market_store.h. */
#include "bidbrain/market/market_store.h"

#include "agileml/base/memory.h"
#include "agileml/base/private_file.h"

#include <sqlite3.h>
#include <stdlib.h>

/* In the file's header, to distinguish a store from other SQLite files; repeated in store_create. */
enum { STORE_APPLICATION = 0x42424D4B /* "BBMK" */, STORE_VERSION = 1 };

static const char store_create[] =
    "PRAGMA application_id = 0x42424D4B; PRAGMA user_version = 1;"
    "CREATE TABLE market (id INTEGER PRIMARY KEY, type TEXT NOT NULL, zone TEXT NOT NULL, product TEXT NOT NULL,"
    " UNIQUE (type, zone, product));"
    "CREATE TABLE point (market INTEGER NOT NULL REFERENCES market, time INTEGER NOT NULL, price INTEGER NOT NULL,"
    " PRIMARY KEY (market, time)) WITHOUT ROWID;"
    "CREATE INDEX point_time ON point (time, market, price)";

enum statement { STORE_MARKET_ADD, STORE_MARKET, STORE_POINT_ADD, STORE_RANGE, STORE_SINCE, STORE_STATEMENTS };

static const char *const store_sql[STORE_STATEMENTS] = {
    [STORE_MARKET_ADD] = "INSERT OR IGNORE INTO market (type, zone, product) VALUES (?1, ?2, ?3)",
    [STORE_MARKET] = "SELECT id FROM market WHERE type = ?1 AND zone = ?2 AND product = ?3",
    [STORE_POINT_ADD] = "INSERT INTO point (market, time, price) VALUES (?1, ?2, ?3)"
                        " ON CONFLICT (market, time) DO UPDATE SET price = ?3",
    [STORE_RANGE] = "SELECT type, zone, product, time, price FROM point JOIN market ON market.id = point.market"
                    " WHERE time BETWEEN ?1 AND ?2 ORDER BY time, type, zone, product",
    [STORE_SINCE] =
        "SELECT type, zone, product, time, price FROM market JOIN point ON point.market = market.id"
        " WHERE time >= coalesce((SELECT max(time) FROM point WHERE market = market.id AND time <= ?1), ?1)",
};

struct market_store {
    sqlite3 *database;
    char *path;
    sqlite3_stmt *statements[STORE_STATEMENTS];
};

static int store_failed(const struct market_store *store, struct error *error) {
    int code = sqlite3_errcode(store->database) & 0xFF;
    bool input = code == SQLITE_NOTADB || code == SQLITE_CANTOPEN || code == SQLITE_PERM || code == SQLITE_READONLY;
    return error_set(error, input ? AML_EINPUT : AML_EFAIL, "%s: store of spot prices: %s", store->path,
                     sqlite3_errmsg(store->database));
}

static int store_execute(struct market_store *store, const char *sql, struct error *error) {
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_failed(store, error);
}

static int store_number(struct market_store *store, const char *sql, int64_t *number, struct error *error) {
    sqlite3_stmt *statement = NULL;
    int code = 0;
    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        code = store_failed(store, error);
    } else {
        *number = sqlite3_column_int64(statement, 0);
    }
    sqlite3_finalize(statement);
    return code;
}

/* Accepts a store, and turns an empty file into one. Rejects any other file unchanged. */
static int store_identify(struct market_store *store, struct error *error) {
    int64_t application = 0;
    int64_t version = 0;
    int64_t objects = 0;
    int code = store_execute(store, "BEGIN IMMEDIATE", error);
    code = code != 0 ? code : store_number(store, "PRAGMA application_id", &application, error);
    code = code != 0 ? code : store_number(store, "PRAGMA user_version", &version, error);
    code = code != 0 ? code : store_number(store, "SELECT count(*) FROM sqlite_master", &objects, error);
    if (code == 0 && application == 0 && objects == 0) {
        code = store_execute(store, store_create, error);
    } else if (code == 0 && (application != STORE_APPLICATION || version != STORE_VERSION)) {
        code = error_set(error, AML_EINPUT, "%s: expected spot prices of version %d, found another SQLite file",
                         store->path, STORE_VERSION);
    }
    return code != 0 ? code : store_execute(store, "COMMIT", error);
}

int market_store_open(struct market_store **opened, const char *path, struct error *error) {
    struct market_store *store = memory_zeroed(1, sizeof *store);
    store->path = memory_string(path);
    const char *reason;
    int code = 0;
    if (!private_store_make(path, &reason)) {
        code = error_set(error, AML_EINPUT, "%s: store of spot prices: %s", path, reason);
    } else if (sqlite3_open_v2(path, &store->database, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        code = store_failed(store, error);
    } else {
        sqlite3_busy_timeout(store->database, 10000);
        code = store_identify(store, error);
    }
    code = code != 0 ? code : store_execute(store, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", error);
    for (int s = 0; s < STORE_STATEMENTS && code == 0; s++) {
        if (sqlite3_prepare_v3(store->database, store_sql[s], -1, SQLITE_PREPARE_PERSISTENT, &store->statements[s],
                               NULL) != SQLITE_OK) {
            code = store_failed(store, error);
        }
    }
    if (code != 0) {
        market_store_close(store);
        return code;
    }
    *opened = store;
    return 0;
}

void market_store_close(struct market_store *store) {
    if (store == NULL) {
        return;
    }
    for (int s = 0; s < STORE_STATEMENTS; s++) {
        sqlite3_finalize(store->statements[s]);
    }
    sqlite3_close(store->database);
    free(store->path);
    free(store);
}

static sqlite3_stmt *store_named(struct market_store *store, enum statement which, const char *type, const char *zone,
                                 const char *product) {
    sqlite3_stmt *statement = store->statements[which];
    sqlite3_reset(statement);
    sqlite3_bind_text(statement, 1, type, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 2, zone, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 3, product, -1, SQLITE_TRANSIENT);
    return statement;
}

static int store_market(struct market_store *store, const struct market *market, int64_t *id, struct error *error) {
    sqlite3_stmt *add = store_named(store, STORE_MARKET_ADD, market->type, market->zone, market->product);
    if (sqlite3_step(add) != SQLITE_DONE) {
        return store_failed(store, error);
    }
    sqlite3_stmt *find = store_named(store, STORE_MARKET, market->type, market->zone, market->product);
    int code = sqlite3_step(find) == SQLITE_ROW ? 0 : store_failed(store, error);
    *id = code == 0 ? sqlite3_column_int64(find, 0) : 0;
    sqlite3_reset(find);
    return code;
}

static int store_points(struct market_store *store, const struct market *market, struct error *error) {
    int64_t id = 0;
    int code = store_market(store, market, &id, error);
    sqlite3_stmt *add = store->statements[STORE_POINT_ADD];
    for (size_t i = 0; i < market->count && code == 0; i++) {
        sqlite3_reset(add);
        sqlite3_bind_int64(add, 1, id);
        sqlite3_bind_int64(add, 2, market->points[i].time);
        sqlite3_bind_int64(add, 3, market->points[i].price);
        if (sqlite3_step(add) != SQLITE_DONE) {
            code = store_failed(store, error);
        }
    }
    sqlite3_reset(add);
    return code;
}

int market_store_append(struct market_store *store, const struct markets *markets, struct error *error) {
    int code = store_execute(store, "BEGIN IMMEDIATE", error);
    if (code != 0) {
        return code;
    }
    for (size_t m = 0; m < markets->count && code == 0; m++) {
        code = store_points(store, markets->list[m], error);
    }
    code = code != 0 ? code : store_execute(store, "COMMIT", error);
    if (code != 0) {
        (void)store_execute(store, "ROLLBACK", NULL);
    }
    return code;
}

static int store_visit(struct market_store *store, sqlite3_stmt *statement,
                       int (*visit)(void *context, const char *type, const char *zone, const char *product,
                                    struct market_point point),
                       void *context, struct error *error) {
    int code = 0;
    int step = sqlite3_step(statement);
    for (; step == SQLITE_ROW && code == 0; step = code == 0 ? sqlite3_step(statement) : step) {
        struct market_point point = {sqlite3_column_int64(statement, 3), sqlite3_column_int64(statement, 4)};
        if (point.price <= 0 || point.price >= PRICE_MAX) {
            code = error_set(error, AML_EINPUT, "%s: a price of %lld micro-dollars: expected more than 0", store->path,
                             (long long)point.price);
            break;
        }
        code = visit(context, (const char *)sqlite3_column_text(statement, 0),
                     (const char *)sqlite3_column_text(statement, 1), (const char *)sqlite3_column_text(statement, 2),
                     point);
    }
    if (code == 0 && step != SQLITE_DONE) {
        code = store_failed(store, error);
    }
    sqlite3_reset(statement);
    return code;
}

int market_store_iterate(struct market_store *store, int64_t first, int64_t last,
                         int (*visit)(void *context, const char *type, const char *zone, const char *product,
                                      struct market_point point),
                         void *context, struct error *error) {
    sqlite3_stmt *statement = store->statements[STORE_RANGE];
    sqlite3_reset(statement);
    sqlite3_bind_int64(statement, 1, first);
    sqlite3_bind_int64(statement, 2, last);
    return store_visit(store, statement, visit, context, error);
}

struct store_load {
    struct markets *markets;
    struct error *error;
};

static int store_load_point(void *context, const char *type, const char *zone, const char *product,
                            struct market_point point) {
    const struct store_load *load = context;
    return markets_add(load->markets, type, zone, product, point, load->error);
}

int market_store_load(struct market_store *store, int64_t first, struct markets *markets, struct error *error) {
    sqlite3_stmt *statement = store->statements[STORE_SINCE];
    struct store_load load = {markets, error};
    sqlite3_reset(statement);
    sqlite3_bind_int64(statement, 1, first);
    return store_visit(store, statement, store_load_point, &load, error);
}
