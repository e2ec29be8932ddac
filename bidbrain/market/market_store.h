/* Spot prices in an SQLite file: a daemon appends the prices that it reads, and queries the history. Times and prices
 * are those of market.h. Any number of processes may read while one writes; a store object belongs to one thread. */
#ifndef BIDBRAIN_MARKET_MARKET_STORE_H
#define BIDBRAIN_MARKET_MARKET_STORE_H

#include "bidbrain/market/market.h"

struct market_store;

/* Opens the store at `path`, or creates it. AML_EINPUT with one line when `path` is some other file. */
int market_store_open(struct market_store **store, const char *path, struct error *error);
void market_store_close(struct market_store *store); /* NULL is allowed */
/* Adds all points in one transaction: all or none. The price of a known point (same market and time) is replaced. */
int market_store_append(struct market_store *store, const struct markets *markets, struct error *error);
/* Visits the points of first..last of all markets in time order, markets of one moment by name. Stops when `visit` does
 * not return 0 and returns that. The texts live until `visit` returns. */
int market_store_iterate(struct market_store *store, int64_t first, int64_t last,
                         int (*visit)(void *context, const char *type, const char *zone, const char *product,
                                      struct market_point point),
                         void *context, struct error *error);
/* Adds to `markets` all points from `first` on, and for each market the point that holds at `first`. Call
 * markets_finish after it. */
int market_store_load(struct market_store *store, int64_t first, struct markets *markets, struct error *error);

#endif
