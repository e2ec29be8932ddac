/* `bidbrain calibrate`: compares predicted evictions with those that followed, per decile of the prediction. */
#include "agileml/base/memory.h"
#include "bidbrain/market/command.h"
#include "bidbrain/market/market_read.h"
#include "bidbrain/policy/eviction.h"
#include "bidbrain/study/command.h"

#include <stdlib.h>
#include <string.h>

struct calibrate {
    const char *prices, *product, *catalog_file, *memory_name;
    enum eviction_memory memory;
    double train;
    int64_t every_seconds;
    bool fixed, help;
    struct markets markets;
    struct catalog catalog;
    int64_t *on_demand;
    struct calibration by_regime, average;
};

static bool calibrate_wants(const void *context, const struct market *market) {
    const struct calibrate *calibrate = context;
    char region[MARKET_TEXT_MAX];
    market_region(market->zone, region);
    return catalog_find(&calibrate->catalog, market->type, region) != NULL;
}

/* Adds the predictions for all bid deltas at one moment, each for a whole hour or a part of one. */
static void calibrate_market(struct calibrate *calibrate, const struct eviction_table *table, size_t m, int64_t now) {
    static const int64_t left[3] = {HOUR, 2400, 1000};
    const struct market *market = calibrate->markets.list[m];
    int64_t price = market_price(market, now);
    if (price == PRICE_UNKNOWN || market->points[market->count - 1].time < now + HOUR) {
        return;
    }
    unsigned regime = eviction_regime(market, calibrate->on_demand[m], now);
    for (unsigned d = 0; d < EVICTION_DELTAS; d++) {
        int64_t seconds = left[d % 3];
        int64_t above = market_first_above(market, now, price + EVICTION_DELTA[d]);
        bool evicted = above != MARKET_NEVER && above <= now + seconds;
        calibration_add(&calibrate->by_regime,
                        eviction_estimate(table, m, regime, EVICTION_DELTA[d], seconds).probability, evicted);
        calibration_add(&calibrate->average,
                        eviction_estimate(table, m, EVICTION_ANY, EVICTION_DELTA[d], seconds).probability, evicted);
    }
}

static void calibrate_run(struct calibrate *calibrate) {
    enum { DAY = 24 * HOUR };
    int64_t first;
    int64_t last;
    struct eviction eviction;
    struct eviction_table table;
    (void)markets_span(&calibrate->markets, &first, &last);
    int64_t split = first + (int64_t)((double)(last - first) * calibrate->train);
    int64_t day = split / DAY;
    eviction_open(&eviction, &calibrate->markets, calibrate->on_demand);
    eviction_advance(&eviction, split);
    eviction_table_open(&table, &eviction, calibrate->memory, split);
    for (int64_t now = split; now < last - HOUR; now += calibrate->every_seconds) {
        if (now / DAY != day && !calibrate->fixed) {
            day = now / DAY;
            eviction_table_close(&table);
            eviction_advance(&eviction, now);
            eviction_table_open(&table, &eviction, calibrate->memory, now);
        }
        for (size_t m = 0; m < calibrate->markets.count; m++) {
            calibrate_market(calibrate, &table, m, now);
        }
    }
    eviction_table_close(&table);
    eviction_close(&eviction);
}

static const char *const MEMORIES[EVICTION_MEMORIES] = {
    [EVICTION_ALL] = "all", [EVICTION_RECENT] = "recent", [EVICTION_CHOSEN] = "chosen"};

static int parse_memory(struct calibrate *calibrate, struct error *error) {
    for (unsigned k = 0; k < EVICTION_MEMORIES; k++) {
        if (strcmp(calibrate->memory_name, MEMORIES[k]) == 0) {
            calibrate->memory = (enum eviction_memory)k;
            return 0;
        }
    }
    return error_set(error, AML_EINPUT, "--memory: expected all, recent or chosen, got '%.60s'",
                     calibrate->memory_name);
}

static int calibrate(struct calibrate *calibrate, struct error *error) {
    int code = parse_memory(calibrate, error);
    if (code != 0) {
        return code;
    }
    code = command_prices(calibrate->prices, calibrate->product, calibrate->catalog_file, CATALOG_2016,
                          &calibrate->markets, &calibrate->catalog, error);
    if (code != 0) {
        return code;
    }
    markets_keep(&calibrate->markets, calibrate_wants, calibrate);
    size_t count = calibrate->markets.count;
    if (count == 0) {
        code = error_set(error, AML_EINPUT, "%s: no market of a type in the catalog: add types with --catalog",
                         calibrate->prices);
    } else {
        calibrate->on_demand = memory_zeroed(count, sizeof *calibrate->on_demand);
        for (size_t m = 0; m < count; m++) {
            char region[MARKET_TEXT_MAX];
            market_region(calibrate->markets.list[m]->zone, region);
            calibrate->on_demand[m] =
                catalog_find(&calibrate->catalog, calibrate->markets.list[m]->type, region)->price;
        }
        calibrate_run(calibrate);
        if (calibrate->average.cases == 0) {
            code = error_set(error, AML_EINPUT,
                             "%s: no hour of prices after the training part: expected a smaller --train",
                             calibrate->prices);
        }
        free(calibrate->on_demand);
    }
    if (code == 0) {
        printf("%zu markets; %s; memory: %s\nby regime:\n", count,
               calibrate->fixed ? "learned once" : "learning every day", calibrate->memory_name);
        calibration_print(stdout, &calibrate->by_regime);
        printf("average of the market:\n");
        calibration_print(stdout, &calibrate->average);
    }
    markets_close(&calibrate->markets);
    catalog_close(&calibrate->catalog);
    return code;
}

int command_calibrate(int argc, char **argv) {
    struct calibrate c = {
        .product = MARKET_PRODUCT, .train = 0.5, .every_seconds = 1800, .memory_name = MEMORIES[EVICTION_CHOSEN]};
    const struct aml_option options[] = {
        {"prices", "PATH", AML_OPTION_STRING, &c.prices, 0, 0, "files of spot prices: a file, a folder, a store (.db)"},
        {"train", "SHARE", AML_OPTION_REAL, &c.train, 0.01, 0.99, "share of the prices' span used for learning only"},
        {"every-seconds", "S", AML_OPTION_INTEGER, &c.every_seconds, 60, 1e6, "time from one prediction to the next"},
        {"fixed", NULL, AML_OPTION_FLAG, &c.fixed, 0, 0, "stop learning after the training part"},
        {"memory", "KIND", AML_OPTION_STRING, &c.memory_name, 0, 0,
         "weight of history: all alike, recent days more, or chosen per market by the best predictions: all, recent, "
         "chosen"},
        {"product", "TEXT", AML_OPTION_STRING, &c.product, 0, 0, "product description"},
        {"catalog", "FILE", AML_OPTION_STRING, &c.catalog_file, 0, 0,
         "JSON of more instance types, see docs/bidbrain.md"},
        {"help", NULL, AML_OPTION_FLAG, &c.help, 0, 0, "print this"},
        {NULL, NULL, AML_OPTION_FLAG, NULL, 0, 0, NULL},
    };
    struct error error = {0};
    int code = command_options(options, "usage: bidbrain calibrate --prices PATH [OPTIONS]", argc, argv, &error);
    if (code == 1) {
        return 0;
    }
    return command_end(code != 0 ? code : calibrate(&c, &error), &error);
}
