/* See marketplace.h: options and prices. */
#include "proteus/marketplace.h"

#include "agileml/base/instant.h"
#include "bidbrain/cloud/embedded.h"
#include "bidbrain/market/market_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DAY = 86400, LEAST_VCPUS = 2, LEAST_MEMORY_MIB = 3 * 1024, RELIABLE_VCPUS = 4 };
#define RELIABLE_TYPE "c4.xlarge"

/* ---- Where ---- */

/* Chooses the region with most of the markets; the first by name of several. */
static void choose_region(struct marketplace *place, const struct markets *markets) {
    size_t most = 0;
    for (size_t m = 0; m < markets->count; m++) {
        char region[MARKET_TEXT_MAX];
        size_t count = 0;
        market_region(markets->list[m]->zone, region);
        for (size_t o = 0; o < markets->count; o++) {
            char other[MARKET_TEXT_MAX];
            market_region(markets->list[o]->zone, other);
            count += strcmp(region, other) == 0 ? 1 : 0;
        }
        if (count > most || (count == most && strcmp(region, place->region) < 0)) {
            most = count;
            memcpy(place->region, region, sizeof region);
        }
    }
}

static bool is_wanted(const struct marketplace *place, const char *type) {
    const char *name = place->options.types;
    while (name != NULL && name[0] != '\0') {
        size_t length = strcspn(name, ",");
        if (strlen(type) == length && strncmp(type, name, length) == 0) {
            return true;
        }
        name += length + (name[length] == ',' ? 1 : 0);
    }
    return place->options.types == NULL;
}

static bool is_fit(const struct marketplace *place, const char *type) {
    const struct catalog_price *known = catalog_find(&place->catalog, type, place->region);
    return known != NULL && known->price != PRICE_UNKNOWN && known->vcpus >= LEAST_VCPUS &&
           known->memory_mib >= LEAST_MEMORY_MIB && !catalog_burstable(type);
}

static bool has_type(const struct marketplace *place, const char *type) {
    for (size_t t = 0; t < place->type_count; t++) {
        if (strcmp(place->types[t], type) == 0) {
            return true;
        }
    }
    return false;
}

static int choose_types(struct marketplace *place, const struct markets *markets, struct error *error) {
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        char region[MARKET_TEXT_MAX];
        market_region(market->zone, region);
        if (strcmp(region, place->region) != 0 || !is_wanted(place, market->type) || !is_fit(place, market->type) ||
            has_type(place, market->type)) {
            continue;
        }
        if (place->type_count == MARKETPLACE_TYPES_MAX) {
            return error_set(error, AML_ELIMIT, "%.200s: more than %d instance types: choose some by --market-types",
                             place->prices, MARKETPLACE_TYPES_MAX);
        }
        memcpy(place->types[place->type_count++], market->type, sizeof market->type);
        if (place->reliable_zone[0] == '\0' || strcmp(market->zone, place->reliable_zone) < 0) {
            memcpy(place->reliable_zone, market->zone, sizeof market->zone);
        }
    }
    return place->type_count > 0 ? 0
                                 : error_set(error, AML_EINPUT,
                                             "--market %.200s: no prices in %s of %s with 2 vCPUs or more and an "
                                             "on-demand price",
                                             place->options.prices, place->region,
                                             place->options.types != NULL ? "the types in --market-types"
                                                                          : "an instance type that is known");
}

/* Chooses the paper's type if available; else the cheapest type on demand with as many vCPUs. */
static int choose_reliable(struct marketplace *place, struct error *error) {
    int64_t least = 0;
    if (is_fit(place, RELIABLE_TYPE)) {
        strcpy(place->reliable_type, RELIABLE_TYPE);
        return 0;
    }
    for (size_t p = 0; p < place->catalog.count; p++) {
        const struct catalog_price *price = &place->catalog.prices[p];
        bool fit =
            strcmp(price->region, place->region) == 0 && price->vcpus == RELIABLE_VCPUS && is_fit(place, price->type);
        if (fit && (least == 0 || price->price < least)) {
            least = price->price;
            memcpy(place->reliable_type, price->type, sizeof place->reliable_type);
        }
    }
    return least > 0 ? 0
                     : error_set(error, AML_EINPUT, "--market %.200s: no on-demand prices are known for region %s",
                                 place->options.prices, place->region);
}

/* ---- When ---- */

static int choose_start(struct marketplace *place, const struct markets *markets, struct error *error) {
    int64_t first = 0;
    int64_t last = 0;
    char from[INSTANT_TEXT_MAX];
    char until[INSTANT_TEXT_MAX];
    markets_span(markets, &first, &last);
    int64_t history = (last - first) / 2;
    history = history < MARKETPLACE_HISTORY_DAYS * DAY ? history : MARKETPLACE_HISTORY_DAYS * DAY;
    place->start = first + history;
    instant_format(first, from);
    instant_format(last, until);
    if (place->options.start != NULL &&
        (!instant_parse(place->options.start, &place->start) || place->start < first || place->start > last)) {
        return error_set(error, AML_EINPUT, "--market-start: expected a time from %s to %s, got '%.60s'", from, until,
                         place->options.start);
    }
    return 0;
}

static int check_options(struct marketplace *place, struct error *error) {
    if (market_rules_read(&place->rules, "market-model", place->options.model, error) != 0) {
        return AML_EINPUT;
    }
    if (realpath(place->options.prices, place->prices) == NULL) {
        return error_set(error, AML_EINPUT, "--market %.200s: %s", place->options.prices, strerror(errno));
    }
    place->notice = embedded_notice(place->options.speed);
    return 0;
}

int marketplace_open(struct marketplace *place, const struct marketplace_options *options, struct error *error) {
    struct markets markets = {0};
    *place = (struct marketplace){.options = *options};
    int result = check_options(place, error);
    if (result != 0) {
        return result;
    }
    catalog_open(&place->catalog, place->rules->year);
    result = market_read(&markets, place->prices, MARKET_PRODUCT, error);
    markets_finish(&markets);
    if (result == 0 && markets.count == 0) {
        result = error_set(error, AML_EINPUT, "--market %.200s: no prices of product '%s'", place->options.prices,
                           MARKET_PRODUCT);
    }
    if (result == 0) {
        choose_region(place, &markets);
        result = choose_types(place, &markets, error);
    }
    result = result == 0 ? choose_reliable(place, error) : result;
    result = result == 0 ? choose_start(place, &markets, error) : result;
    markets_close(&markets);
    return result;
}

void marketplace_close(struct marketplace *place) {
    catalog_close(&place->catalog);
}
