/* What bidbrain's and spotmarket's commands share: how they read options, prices with the catalog, and speeds. */
#ifndef BIDBRAIN_MARKET_COMMAND_H
#define BIDBRAIN_MARKET_COMMAND_H

#include "agileml/base/options.h"
#include "bidbrain/market/catalog.h"
#include "bidbrain/market/market.h"

/* Reads options, and acts on --help; `usage` is the text after "usage: ". Returns 0 to go on, 1 after printing help,
 * else the code of *error. */
int command_options(const struct aml_option *options, const char *usage, int argc, char **argv, struct error *error);
/* Ends a command: logs the error if the code is not 0. Returns the exit status. */
int command_end(int code, const struct error *error);
/* Reads and finishes the prices of `product` in `prices`: a file, a folder, or an SQLite store, whose name ends in .db.
 * Opens the catalog, with the types of the file `extra` unless NULL. Logs warnings about flaws of the data. After
 * success the caller closes both. */
int command_prices(const char *prices, const char *product, const char *extra, enum catalog_year year,
                   struct markets *markets, struct catalog *catalog, struct error *error);
/* Reads --speeds FILE, such as {"m1.large": 0.5}: the speeds of types' vCPUs, each above 0. The caller frees *list,
 * also after an error. Returns AML_EINPUT with one line. */
int command_speeds(const char *path, struct type_speed **list, size_t *count, struct error *error);

#endif
