/* The daemon's prices, and what can be bought. */
#include "bidbrain/daemon/daemon_private.h"

#include "agileml/base/instant.h"
#include "agileml/base/log.h"
#include "agileml/base/memory.h"
#include "bidbrain/market/market_read.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What is wanted ---- */

static bool in_list(const char *const *list, const char *text) {
    for (size_t i = 0; list[i] != NULL; i++) {
        if (strcmp(list[i], text) == 0) {
            return true;
        }
    }
    return list[0] == NULL;
}

bool daemon_wants(const struct daemon *daemon, const char *type, const char *zone, const char *product) {
    const struct config *config = daemon->config;
    char region[MARKET_TEXT_MAX];
    market_region(zone, region);
    const struct catalog_price *known = catalog_find(&daemon->config->known, type, region);
    return strcmp(region, daemon->region) == 0 && strcmp(product, config->markets.product) == 0 &&
           in_list(config->markets.types, type) && in_list(config->markets.zones, zone) &&
           catalog_fits(known, config->markets.vcpus_min, config->markets.memory_min);
}

/* ---- Prices ---- */

void daemon_take_price(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    struct daemon *daemon = context;
    struct error error = {0};
    if (!daemon_wants(daemon, type, zone, product)) {
        unwanted_add(&daemon->market.unwanted, type, zone, product);
        return;
    }
    if (point.price <= 0 || point.price >= PRICE_MAX) {
        return;
    }
    daemon->market.points++;
    daemon->market.newest = point.time > daemon->market.newest ? point.time : daemon->market.newest;
    if (markets_add(&daemon->market.fresh, type, zone, product, point, &error) != 0) {
        daemon_fail(daemon, &error);
    }
}

static void take_fresh(struct daemon *daemon) {
    struct error error = {0};
    int code = 0;
    markets_finish(&daemon->market.fresh);
    for (size_t m = 0; m < daemon->market.fresh.count && code == 0; m++) {
        const struct market *market = daemon->market.fresh.list[m];
        for (size_t p = 0; p < market->count && code == 0; p++) {
            code = markets_add(&daemon->market.markets, market->type, market->zone, market->product, market->points[p],
                               &error);
        }
    }
    markets_finish(&daemon->market.markets);
    if (code == 0 && daemon->market.store != NULL && daemon->market.fresh.count > 0) {
        code = market_store_append(daemon->market.store, &daemon->market.fresh, &error);
    }
    markets_close(&daemon->market.fresh);
    if (code != 0 && daemon->loop.phase == DAEMON_RUN) { /* no prices are needed to give machines back */
        daemon_fail(daemon, &error);
    }
}

static double cost_of_work(const struct daemon *daemon, const struct catalog_price *type) {
    const struct portfolio_market market = {.type = type, .speed = daemon_speed(daemon, type->type)};
    return (double)type->price / portfolio_nu(&market);
}

/* Returns the one on-demand type bought in place of spot machines: the cheapest for its work. */
static const struct catalog_price *fallback_type(const struct daemon *daemon) {
    const struct catalog_price *best = NULL;
    for (size_t m = 0; m < daemon->market.markets.count; m++) {
        const struct catalog_price *type = daemon_type(daemon, daemon->market.markets.list[m]->type);
        if (best == NULL || cost_of_work(daemon, type) < cost_of_work(daemon, best)) {
            best = type;
        }
    }
    return best;
}

static void add_on_demand(struct daemon *daemon, const struct catalog_price *price, const char *zone) {
    const struct footprint known = {
        .known = {.markets = daemon->market.buyable, .market_count = daemon->market.buyable_count}};
    if (price == NULL || footprint_find(&known, PROVIDER_ON_DEMAND, price->type, zone) != MARKET_NONE) {
        return;
    }
    daemon->market.buyable =
        memory_resized(daemon->market.buyable, daemon->market.buyable_count + 1, sizeof *daemon->market.buyable);
    struct portfolio_market *market = &daemon->market.buyable[daemon->market.buyable_count++];
    *market = (struct portfolio_market){.type = price};
    snprintf(market->zone, sizeof market->zone, "%s", zone);
}

static void find_buyable(struct daemon *daemon) {
    free(daemon->market.buyable);
    daemon->market.buyable = memory_zeroed(daemon->market.markets.count + 1, sizeof *daemon->market.buyable);
    daemon->market.buyable_count = 0;
    for (size_t m = 0; m < daemon->market.markets.count; m++) {
        const struct market *market = daemon->market.markets.list[m];
        struct portfolio_market *buyable = &daemon->market.buyable[daemon->market.buyable_count++];
        *buyable = (struct portfolio_market){.prices = market, .type = daemon_type(daemon, market->type)};
        snprintf(buyable->zone, sizeof buyable->zone, "%s", market->zone);
    }
    for (size_t i = 0; i < daemon->fleet.machine_count; i++) { /* may be of an earlier configuration */
        const struct provider_machine *machine = &daemon->fleet.machines[i].row.machine;
        if (daemon->fleet.machines[i].row.fallback) {
            add_on_demand(daemon, daemon_type(daemon, machine->type), machine->zone);
        }
    }
    if (daemon->config->on_demand_fallback && daemon->market.markets.count > 0) {
        const char *zone = daemon->config->reliable.zone;
        add_on_demand(daemon, fallback_type(daemon), zone != NULL ? zone : daemon->market.markets.list[0]->zone);
    }
}

/* Learns from new prices. When there are new markets, learns everything anew, since markets are known by index. */
static void learn(struct daemon *daemon) {
    struct error error = {0};
    bool by_price = daemon->config->rules->bids;
    size_t count = daemon->market.markets.count;
    if (daemon->market.learned != count) {
        int64_t *on_demand = memory_zeroed(count + 1, sizeof *on_demand);
        for (size_t m = 0; m < count; m++) {
            on_demand[m] = daemon_type(daemon, daemon->market.markets.list[m]->type)->price;
        }
        if (daemon->market.learned > 0 && by_price) {
            eviction_close(&daemon->market.eviction);
        } else if (daemon->market.learned > 0) {
            interruptions_close(&daemon->market.interruptions);
        }
        daemon->market.learned = count;
        if (by_price) {
            eviction_open(&daemon->market.eviction, &daemon->market.markets, on_demand);
        } else if (interruptions_open(&daemon->market.interruptions, daemon->config->interruptions,
                                      &daemon->market.markets, &error) != 0) {
            daemon->market.learned = 0;
            daemon_fail(daemon, &error);
        }
        free(on_demand);
    }
    if (by_price && count > 0) {
        eviction_advance(&daemon->market.eviction, daemon_now(daemon));
    }
}

/* Stores why no market can be bought in, for `bidbrain status`. Warns when the reason is new. */
static void note_unwanted(struct daemon *daemon) {
    struct error error = {0};
    char text[UNWANTED_TEXT] = "";
    if (daemon->market.markets.count == 0) {
        unwanted_text(&daemon->market.unwanted, &daemon->config->markets, text);
    }
    if (strcmp(text, daemon->market.unwanted_said) == 0) {
        return;
    }
    strcpy(daemon->market.unwanted_said, text);
    if (text[0] != '\0') {
        log_warn("no market can be bought in: %s", text);
    }
    if (ledger_put_text(daemon->ledger, "unwanted-prices", text, &error) != 0 && daemon->loop.phase == DAEMON_RUN) {
        daemon_fail(daemon, &error);
    }
}

void daemon_prices_end(void *context, bool whole) {
    struct daemon *daemon = context;
    take_fresh(daemon);
    daemon->market.pricing = false;
    daemon_answered(daemon, whole);
    if (whole) {
        daemon->market.priced_to = daemon->market.priced_from;
        if (!daemon->market.priced) {
            daemon_say(daemon, "prices of %zu markets are known", daemon->market.markets.count);
        }
        daemon->market.priced = true;
        note_unwanted(daemon);
    }
    find_buyable(daemon);
    learn(daemon);
}

void daemon_ask_prices(struct daemon *daemon) {
    int64_t now = daemon_now(daemon);
    int64_t since = daemon->market.priced_to > 0 ? daemon->market.priced_to - DAEMON_OVERLAP_S
                                                 : now - DAEMON_HISTORY_DAYS * INT64_C(86400);
    daemon->loop.next_prices = (double)(now + daemon->config->periods.price_seconds);
    if (daemon->market.pricing) {
        return;
    }
    daemon->market.pricing = true;
    daemon->market.priced_from = now;
    provider_prices(daemon->provider, since);
}

/* Reads the history from a file: from the price that holds at `since` to now. */
static int read_history(struct daemon *daemon, int64_t since, struct error *error) {
    struct markets all = {0};
    int64_t now = daemon_now(daemon);
    int code = market_read(&all, daemon->config->prices, NULL, error);
    markets_finish(&all);
    for (size_t m = 0; m < all.count && code == 0; m++) {
        const struct market *market = all.list[m];
        size_t first = market_index(market, since);
        for (size_t p = first == MARKET_NONE ? 0 : first; p < market->count && market->points[p].time <= now; p++) {
            daemon_take_price(daemon, market->type, market->zone, market->product, market->points[p]);
        }
    }
    markets_close(&all);
    return code != 0 ? code : daemon->error.code;
}

int daemon_read_recorded(struct daemon *daemon, struct error *error) {
    daemon->market.priced_from = daemon_now(daemon);
    int code = read_history(daemon, daemon->market.priced_from - DAEMON_HISTORY_DAYS * INT64_C(86400), error);
    if (code == 0) {
        daemon_prices_end(daemon, true);
    }
    return code;
}

struct stored {
    struct daemon *daemon;
    int64_t last;
};

static int take_stored(void *context, const char *type, const char *zone, const char *product,
                       struct market_point point) {
    struct stored *stored = context;
    if (daemon_wants(stored->daemon, type, zone, product)) {
        stored->last = point.time > stored->last ? point.time : stored->last;
        return markets_add(&stored->daemon->market.markets, type, zone, product, point, NULL);
    }
    return 0;
}

/* Notes the newest wanted price, for a store that has none of the last DAEMON_HISTORY_DAYS. */
static int take_age(void *context, const char *type, const char *zone, const char *product, struct market_point point) {
    struct daemon *daemon = context;
    bool newer = point.time > daemon->market.newest && daemon_wants(daemon, type, zone, product);
    daemon->market.newest = newer ? point.time : daemon->market.newest;
    return 0;
}

char *daemon_price_path(const char *state) {
    size_t length = strlen(state);
    size_t stem = length > 3 && strcmp(state + length - 3, ".db") == 0 ? length - 3 : length;
    char *path = memory_zeroed(stem + sizeof "-prices.db", 1);
    memcpy(path, state, stem);
    strcpy(path + stem, "-prices.db");
    return path;
}

static int open_store(struct daemon *daemon, struct error *error) {
    char *path = daemon->market.store_path != NULL ? memory_string(daemon->market.store_path)
                                                   : daemon_price_path(daemon->config->state);
    int64_t now = daemon_now(daemon);
    struct stored stored = {.daemon = daemon};
    if (daemon->options->dry_run && access(path, F_OK) != 0) {
        free(path);
        return 0;
    }
    int code = market_store_open(&daemon->market.store, path, error);
    free(path);
    if (code == 0) {
        code = market_store_iterate(daemon->market.store, now - DAEMON_HISTORY_DAYS * INT64_C(86400), now, take_stored,
                                    &stored, error);
    }
    daemon->market.newest = stored.last;
    if (code == 0 && stored.last == 0) {
        code = market_store_iterate(daemon->market.store, INSTANT_MIN, now, take_age, daemon, error);
    }
    markets_finish(&daemon->market.markets);
    daemon->market.priced_to = stored.last;
    if (daemon->options->dry_run) {
        market_store_close(daemon->market.store);
        daemon->market.store = NULL;
    }
    return code;
}

int daemon_market_open(struct daemon *daemon, struct error *error) {
    const struct config *config = daemon->config;
    daemon->market.reliable_price = catalog_find(&config->known, config->reliable.type, daemon->region);
    int code = open_store(daemon, error);
    if (code == 0 && config->provider == CONFIG_EC2 && config->prices != NULL) {
        code = read_history(daemon, INSTANT_MIN, error);
    }
    take_fresh(daemon);
    find_buyable(daemon);
    learn(daemon);
    return code != 0 ? code : daemon->error.code;
}

void daemon_market_close(struct daemon *daemon) {
    if (daemon->market.learned > 0 && daemon->config->rules->bids) {
        eviction_close(&daemon->market.eviction);
    } else if (daemon->market.learned > 0) {
        interruptions_close(&daemon->market.interruptions);
    }
    market_store_close(daemon->market.store);
    json_decref(daemon->market.money_noted);
    markets_close(&daemon->market.markets);
    markets_close(&daemon->market.fresh);
    free(daemon->market.buyable);
}
