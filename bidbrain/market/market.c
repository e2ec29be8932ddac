/* See market.h. The maxima over 16, 256, ... points make "the first price above" a walk up and down a tree. */
#include "bidbrain/market/market.h"

#include "agileml/base/memory.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t market_key(const char *type, const char *zone, const char *product) {
    const char *const parts[3] = {type, zone, product};
    uint64_t key = 0xCBF29CE484222325U; /* FNV-1a */
    for (int p = 0; p < 3; p++) {
        const char *c = parts[p];
        do {
            key = (key ^ (unsigned char)*c) * 0x100000001B3U;
        } while (*c++ != '\0');
    }
    return key;
}

static bool market_is(const struct market *market, const char *type, const char *zone, const char *product) {
    return strcmp(market->type, type) == 0 && strcmp(market->zone, zone) == 0 && strcmp(market->product, product) == 0;
}

/* Returns the index of a market in the list, or INDEX_NONE. *key is the key of its entry, or a free key if INDEX_NONE.
 * Keys are hashes: two names may have the same one. */
static int64_t markets_index(const struct markets *markets, const char *type, const char *zone, const char *product,
                             uint64_t *key) {
    for (*key = market_key(type, zone, product);; (*key)++) {
        int64_t found = index_map_find(&markets->by_name, *key);
        if (found == INDEX_NONE || market_is(markets->list[found], type, zone, product)) {
            return found;
        }
    }
}

static int markets_new(struct markets *markets, const char *type, const char *zone, const char *product, uint64_t key,
                       struct error *error) {
    if (strlen(type) >= MARKET_TEXT_MAX || strlen(zone) >= MARKET_TEXT_MAX || strlen(product) >= MARKET_TEXT_MAX) {
        return error_set(error, AML_ELIMIT, "a type, zone or product of %d bytes or more: '%.60s', '%.60s', '%.60s'",
                         MARKET_TEXT_MAX, type, zone, product);
    }
    if (markets->count >= MARKETS_MAX) {
        return error_set(error, AML_ELIMIT, "more than %d markets", MARKETS_MAX);
    }
    markets->list = memory_extended(markets->list, markets->count, &markets->capacity, sizeof *markets->list);
    struct market *market = memory_zeroed(1, sizeof *market);
    strcpy(market->type, type);
    strcpy(market->zone, zone);
    strcpy(market->product, product);
    index_map_add(&markets->by_name, key, (uint32_t)markets->count);
    markets->list[markets->count++] = market;
    markets->last = market;
    return 0;
}

int markets_add(struct markets *markets, const char *type, const char *zone, const char *product,
                struct market_point point, struct error *error) {
    assert(point.price > 0 && point.price < PRICE_MAX);
    struct market *market = markets->last;
    if (market == NULL || !market_is(market, type, zone, product)) {
        uint64_t key;
        int64_t found = markets_index(markets, type, zone, product, &key);
        if (found == INDEX_NONE) {
            int code = markets_new(markets, type, zone, product, key, error);
            if (code != 0) {
                return code;
            }
        } else {
            markets->last = markets->list[found];
        }
        market = markets->last;
    }
    market->points = memory_extended(market->points, market->count, &market->capacity, sizeof *market->points);
    market->points[market->count++] = point;
    markets->points++;
    return 0;
}

static int point_compare(const void *a, const void *b) {
    const struct market_point *x = a;
    const struct market_point *y = b;
    if (x->time != y->time) {
        return x->time < y->time ? -1 : 1;
    }
    return x->price < y->price ? -1 : x->price > y->price;
}

/* Sorts the points, which files hold oldest or newest first. Returns how many break the direction of the majority. */
static uint64_t market_sort(struct market *market) {
    uint64_t rises = 0;
    uint64_t falls = 0;
    for (size_t i = 1; i < market->count; i++) {
        rises += market->points[i].time > market->points[i - 1].time;
        falls += market->points[i].time < market->points[i - 1].time;
    }
    if (falls > 0 && rises == 0) {
        for (size_t i = 0, j = market->count - 1; i < j; i++, j--) {
            struct market_point point = market->points[i];
            market->points[i] = market->points[j];
            market->points[j] = point;
        }
    }
    if (falls > 0 && rises > 0) {
        qsort(market->points, market->count, sizeof *market->points, point_compare);
    }
    return rises < falls ? rises : falls;
}

/* Keeps one point for each time. */
static void market_unique(struct market *market, struct markets *markets) {
    size_t kept = 0;
    for (size_t i = 0; i < market->count; i++) {
        struct market_point point = market->points[i];
        if (kept > 0 && market->points[kept - 1].time == point.time) {
            int64_t *price = &market->points[kept - 1].price;
            markets->duplicates += *price == point.price;
            markets->conflicts += *price != point.price;
            *price = *price > point.price ? *price : point.price;
        } else {
            market->points[kept++] = point;
        }
    }
    market->count = kept;
}

/* Updates the maxima above point `at`. The first point under an entry sets it, later points raise it. */
static void market_raise(struct market *market, size_t at) {
    int64_t price = market->points[at].price;
    for (int level = 0; level < MARKET_LEVELS; level++) {
        size_t span = (size_t)1 << (4 * (level + 1));
        size_t entry = at / span;
        if (entry >= market->top_capacity[level]) {
            market->top_capacity[level] = market->top_capacity[level] == 0 ? 4 : 2 * market->top_capacity[level];
            market->tops[level] =
                memory_resized(market->tops[level], market->top_capacity[level], sizeof *market->tops[level]);
        }
        int64_t *top = &market->tops[level][entry];
        *top = at % span == 0 || price > *top ? price : *top;
    }
}

static int market_compare(const void *a, const void *b) {
    const struct market *x = *(struct market *const *)a;
    const struct market *y = *(struct market *const *)b;
    int order = strcmp(x->type, y->type);
    order = order != 0 ? order : strcmp(x->zone, y->zone);
    return order != 0 ? order : strcmp(x->product, y->product);
}

/* Appends new points that follow the finished ones; otherwise sorts the whole series again. */
static void market_finish(struct market *market, struct markets *markets) {
    if (market->finished == market->count) {
        return;
    }
    bool follows = market->finished > 0;
    for (size_t i = market->finished; i < market->count && follows; i++) {
        follows = market->points[i].time > market->points[i - 1].time;
    }
    if (!follows) {
        markets->unordered += market_sort(market);
        market_unique(market, markets);
        market->finished = 0;
    }
    while (market->finished < market->count) {
        market_raise(market, market->finished++);
    }
}

void markets_finish(struct markets *markets) {
    for (size_t m = 0; m < markets->count; m++) {
        market_finish(markets->list[m], markets);
    }
    if (markets->count > 1) {
        qsort(markets->list, markets->count, sizeof *markets->list, market_compare);
    }
    index_map_close(&markets->by_name);
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        uint64_t key;
        int64_t found = markets_index(markets, market->type, market->zone, market->product, &key);
        assert(found == INDEX_NONE);
        (void)found;
        index_map_add(&markets->by_name, key, (uint32_t)m);
    }
}

static void market_free(struct market *market) {
    for (int level = 0; level < MARKET_LEVELS; level++) {
        free(market->tops[level]);
    }
    free(market->points);
    free(market);
}

void markets_keep(struct markets *markets, bool (*keep)(const void *context, const struct market *market),
                  const void *context) {
    size_t kept = 0;
    for (size_t m = 0; m < markets->count; m++) {
        if (keep(context, markets->list[m])) {
            markets->list[kept++] = markets->list[m];
        } else {
            market_free(markets->list[m]);
        }
    }
    markets->count = kept;
    markets->last = NULL;
    markets_finish(markets);
}

void markets_close(struct markets *markets) {
    for (size_t m = 0; m < markets->count; m++) {
        market_free(markets->list[m]);
    }
    free(markets->list);
    index_map_close(&markets->by_name);
    memset(markets, 0, sizeof *markets);
}

bool markets_span(const struct markets *markets, int64_t *first, int64_t *last) {
    bool any = false;
    for (size_t m = 0; m < markets->count; m++) {
        const struct market *market = markets->list[m];
        int64_t begin = market->points[0].time;
        int64_t end = market->points[market->count - 1].time;
        *first = any && *first < begin ? *first : begin;
        *last = any && *last > end ? *last : end;
        any = true;
    }
    return any;
}

void market_name(const struct market *market, char name[MARKET_NAME_MAX]) {
    snprintf(name, MARKET_NAME_MAX, "%s/%s", market->type, market->zone);
}

void market_region(const char *zone, char region[MARKET_TEXT_MAX]) {
    snprintf(region, MARKET_TEXT_MAX, "%s", zone);
    size_t length = strlen(region);
    if (length > 1 && islower((unsigned char)region[length - 1]) && isdigit((unsigned char)region[length - 2])) {
        region[length - 1] = '\0';
    }
}

size_t market_index(const struct market *market, int64_t time) {
    size_t low = 0;
    size_t high = market->finished; /* the first point after `time` is in low..high */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (market->points[middle].time <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? MARKET_NONE : low - 1;
}

int64_t market_price(const struct market *market, int64_t time) {
    size_t index = market_index(market, time);
    return index == MARKET_NONE ? PRICE_UNKNOWN : market->points[index].price;
}

/* Returns the first point at or after `at` whose price is above `price`; market->finished if there is none. Walks up
 * while an entry's maximum is too low, then down into the first entry whose maximum is above `price`. */
static size_t market_index_above(const struct market *market, size_t at, int64_t price) {
    int level = -1;
    while (at < market->finished) {
        int64_t top = level < 0 ? market->points[at].price : market->tops[level][at >> (4 * (level + 1))];
        if (price_passes(top, price)) {
            if (level < 0) {
                return at;
            }
            level--;
            continue;
        }
        at += (size_t)1 << (4 * (level + 1));
        while (level + 1 < MARKET_LEVELS && at % ((size_t)1 << (4 * (level + 2))) == 0) {
            level++;
        }
    }
    return market->finished;
}

int64_t market_first_above(const struct market *market, int64_t time, int64_t price) {
    size_t index = market_index(market, time);
    if (index != MARKET_NONE && price_passes(market->points[index].price, price)) {
        return time;
    }
    index = market_index_above(market, index == MARKET_NONE ? 0 : index + 1, price);
    return index < market->finished ? market->points[index].time : MARKET_NEVER;
}

int64_t market_highest(const struct market *market, int64_t first, int64_t last) {
    size_t at = market_index(market, first);
    size_t end = market_index(market, last);
    if (end == MARKET_NONE) {
        return PRICE_UNKNOWN;
    }
    at = at == MARKET_NONE ? 0 : at;
    int64_t highest = market->points[at].price;
    while (at <= end) { /* the widest entry that begins here and ends in the range */
        int level = -1;
        while (level + 1 < MARKET_LEVELS && at % ((size_t)1 << (4 * (level + 2))) == 0 &&
               at + ((size_t)1 << (4 * (level + 2))) - 1 <= end) {
            level++;
        }
        int64_t top = level < 0 ? market->points[at].price : market->tops[level][at >> (4 * (level + 1))];
        highest = top > highest ? top : highest;
        at += (size_t)1 << (4 * (level + 1));
    }
    return highest;
}
