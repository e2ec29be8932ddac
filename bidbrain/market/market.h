/* Price series per market (instance type, zone, product) with step semantics: a price holds from its point's time until
 * the next point. Reading files is market_read.h's task, keeping prices in a database market_store.h's.
 *
 * Times are seconds since 1970 UTC, prices micro-dollars per machine-hour. Queries take O(log points) and may run in
 * parallel while nobody adds. Zeroed structs are empty; markets_close frees everything. */
#ifndef BIDBRAIN_MARKET_MARKET_H
#define BIDBRAIN_MARKET_MARKET_H

#include "agileml/base/error.h"
#include "agileml/base/hash.h"
#include "bidbrain/market/money.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MARKET_TEXT_MAX = 48,  /* bytes of a type, a zone or a product with the NUL */
    MARKET_NAME_MAX = 100, /* bytes of "type/zone" with the NUL */
    MARKET_LEVELS = 8,     /* each has maxima of 16 entries of the one below; 16^8 points are more than memory holds */
    MARKETS_MAX = 100000,  /* markets that are kept at once */
};
#define MARKET_NEVER INT64_MAX
#define MARKET_NONE  SIZE_MAX

struct market_point {
    int64_t time;
    int64_t price;
};

struct market {
    char type[MARKET_TEXT_MAX];
    char zone[MARKET_TEXT_MAX];
    char product[MARKET_TEXT_MAX];
    struct market_point *points; /* after markets_finish: times strictly increasing */
    size_t count, capacity;
    size_t finished;              /* points in order and covered by the maxima; the others wait for markets_finish */
    int64_t *tops[MARKET_LEVELS]; /* tops[l][i]: the highest price of points i*16^(l+1) .. (i+1)*16^(l+1)-1 */
    size_t top_capacity[MARKET_LEVELS];
};

struct markets {
    struct market **list; /* in the order of insertion until markets_finish, which sorts by name */
    size_t count, capacity;
    struct index_map by_name;
    struct market *last; /* market of the last added point: files mostly hold one market after another */
    /* Counts about the data; market_read_warn prints one warning for each of the last four. */
    uint64_t files, points, skipped, duplicates, conflicts, unordered;
};

/* Adds a point, in any order. Returns AML_ELIMIT when there are too many markets or a text is too long. */
int markets_add(struct markets *markets, const char *type, const char *zone, const char *product,
                struct market_point point, struct error *error);
/* Sorts all points. Call it after markets_add and before any query, and again after adding more points. Of points with
 * the same time and price one stays (counted in `duplicates`). Of different prices at one time the highest stays
 * (counted in `conflicts`). */
void markets_finish(struct markets *markets);
/* Frees the markets for which `keep` returns false. The markets are finished. */
void markets_keep(struct markets *markets, bool (*keep)(const void *context, const struct market *market),
                  const void *context);
void markets_close(struct markets *markets);
/* Finds the first and the last time of all points. Returns false when there are no points. */
bool markets_span(const struct markets *markets, int64_t *first, int64_t *last);

/* Whether the market refuses launches at `bid` and takes running machines of that bid. A price that equals the bid does
 * not pass it. */
static inline bool price_passes(int64_t price, int64_t bid) {
    return price > bid;
}
/* Writes "type/zone". */
void market_name(const struct market *market, char name[MARKET_NAME_MAX]);
/* Writes the region of a zone: "us-east-1a" gives "us-east-1". A name that does not end in such a letter is its own
 * region. */
void market_region(const char *zone, char region[MARKET_TEXT_MAX]);
/* Returns the index of the point whose price holds at `time`; MARKET_NONE before the first point. */
size_t market_index(const struct market *market, int64_t time);
/* Returns the price that holds at `time`; PRICE_UNKNOWN before the first point. */
int64_t market_price(const struct market *market, int64_t time);
/* Returns the first time at or after `time` at which the price is above `price`; MARKET_NEVER if there is none. */
int64_t market_first_above(const struct market *market, int64_t time, int64_t price);
/* Returns the highest price that holds at any time in first..last; PRICE_UNKNOWN if `last` is before the first
 * point. */
int64_t market_highest(const struct market *market, int64_t first, int64_t last);

#endif
