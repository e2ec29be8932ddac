/* See command.h. */
#include "bidbrain/market/command.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/market/market_store.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

enum { SPEED_MAX = 100 };

int command_options(const struct aml_option *options, const char *usage, int argc, char **argv, struct error *error) {
    int operand = argc;
    int code = options_help(usage, &options, 1, argc, argv, error);
    code = code != 0 ? code : options_parse(&options, 1, argc, argv, &operand, error);
    if (code == 0 && operand < argc) {
        code = error_set(error, AML_EINPUT, "unexpected argument '%.100s': expected options only", argv[operand]);
    }
    return code;
}

int command_end(int code, const struct error *error) {
    if (code != 0) {
        log_error("%s", error->text);
    }
    return error_exit_status(code);
}

static bool has_product(const void *product, const struct market *market) {
    return strcmp(market->product, product) == 0;
}

/* Does not create a store: the name may be mistyped. */
static int prices_of_store(struct markets *markets, const char *path, const char *product, struct error *error) {
    struct market_store *store;
    if (access(path, F_OK) != 0) {
        return error_set(error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    int code = market_store_open(&store, path, error);
    if (code != 0) {
        return code;
    }
    code = market_store_load(store, INSTANT_MIN, markets, error);
    market_store_close(store);
    if (code == 0 && markets->count == 0) {
        code = error_set(error, AML_EINPUT, "%s: no prices in this store", path);
    }
    if (code == 0) {
        markets_finish(markets);
        markets_keep(markets, has_product, product);
    }
    return code;
}

int command_prices(const char *prices, const char *product, const char *extra, enum catalog_year year,
                   struct markets *markets, struct catalog *catalog, struct error *error) {
    if (prices == NULL) {
        return error_set(error, AML_EINPUT, "--prices PATH is missing: files of spot prices");
    }
    size_t length = strlen(prices);
    bool store = length > 3 && strcmp(prices + length - 3, ".db") == 0;
    catalog_open(catalog, year);
    int code = extra != NULL ? catalog_read(catalog, extra, error) : 0;
    if (code == 0) {
        code = store ? prices_of_store(markets, prices, product, error) : market_read(markets, prices, product, error);
    }
    if (code == 0) {
        markets_finish(markets);
        market_read_warn(markets);
        if (markets->count == 0) {
            code = error_set(error, AML_EINPUT, "%s: no prices of product '%s'", prices, product);
        }
    }
    if (code != 0) {
        catalog_close(catalog);
        markets_close(markets);
    }
    return code;
}

int command_speeds(const char *path, struct type_speed **list, size_t *count, struct error *error) {
    json_error_t wrong;
    const char *type;
    json_t *value;
    int code = 0;
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    *list = memory_zeroed(json_object_size(object) + 1, sizeof **list);
    if (json_object_size(object) == 0) {
        code = error_set(error, AML_EINPUT, "--speeds: %.200s: %.200s: expected an object such as {\"m1.large\": 0.5}",
                         path, object == NULL ? wrong.text : "no types");
    }
    json_object_foreach(object, type, value) {
        double speed = json_number_value(value);
        if (strlen(type) >= CATALOG_NAME_MAX || !(speed > 0 && speed <= SPEED_MAX)) {
            code = error_set(error, AML_EINPUT, "--speeds: %.200s: '%.60s': expected a number above 0, at most %d",
                             path, type, SPEED_MAX);
            break;
        }
        strcpy((*list)[*count].type, type);
        (*list)[(*count)++].speed = speed;
    }
    json_decref(object);
    return code;
}
