/* Spot prices in an SQLite file. A daemon appends the prices that it reads, and queries the history. Times and prices
 * are those of market.h. Any number of processes may read while one writes. A store object belongs to one thread. */
#ifndef BIDBRAIN_MARKET_MARKET_STORE_H
#define BIDBRAIN_MARKET_MARKET_STORE_H

#include "bidbrain/market/market.h"

struct market_store;

/* Opens the store at `path`, or creates it. Returns AML_EINPUT with one line when `path` is another kind of file. */
int market_store_open(struct market_store **store, const char *path, struct error *error);
void market_store_close(struct market_store *store); /* NULL is allowed */
/* Adds all points in one transaction. Replaces the price of a known point (same market and time). */
int market_store_append(struct market_store *store, const struct markets *markets, struct error *error);
/* Visits the points of first..last of all markets in time order; at the same time, markets by name. Stops when `visit`
 * returns a value other than 0, and returns that value. Texts live until `visit` returns. */
int market_store_iterate(struct market_store *store, int64_t first, int64_t last,
                         int (*visit)(void *context, const char *type, const char *zone, const char *product,
                                      struct market_point point),
                         void *context, struct error *error);
/* Adds to `markets` all points from `first` on, and for each market the point that holds at `first`. Call
 * markets_finish afterwards. */
int market_store_load(struct market_store *store, int64_t first, struct markets *markets, struct error *error);

#endif
