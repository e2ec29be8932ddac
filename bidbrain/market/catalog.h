/* The vCPUs, memory and on-demand price of instance types. The types of the usual traces are built in; a JSON file adds
 * and overrides types: {"c9.large": {"vcpus": 2, "memory_gib": 4, "on_demand": {"us-east-1": 0.1}}, ...}. */
#ifndef BIDBRAIN_MARKET_CATALOG_H
#define BIDBRAIN_MARKET_CATALOG_H

#include "agileml/base/error.h"
#include "bidbrain/market/money.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CATALOG_NAME_MAX = 48, CATALOG_PRICES_MAX = 100000 };

struct catalog_price {
    char region[CATALOG_NAME_MAX];
    char type[CATALOG_NAME_MAX];
    int64_t price; /* micro-dollars per hour, on demand, Linux; PRICE_UNKNOWN */
    uint32_t vcpus, memory_mib;
};

/* Sorted by type, then region. A zeroed struct is empty. */
struct catalog {
    struct catalog_price *prices;
    size_t count, capacity;
};

enum catalog_year { CATALOG_2016, CATALOG_2017 }; /* built-in on-demand prices: before or after December 2016 */

void catalog_open(struct catalog *catalog, enum catalog_year year);
/* Adds a file's types. Returns AML_EINPUT with one line that names the file, the line or type, and what was
 * expected. */
int catalog_read(struct catalog *catalog, const char *path, struct error *error);
void catalog_close(struct catalog *catalog);
/* Whether a type may use its vCPUs fully only for a while (t1, t2, t3, ...), so that its work can't be counted on. */
bool catalog_burstable(const char *type);
/* Whether machines of a type are bought for work: the type is known (not NULL), not burstable, and large enough.
 * `memory_min` is in GiB. */
bool catalog_fits(const struct catalog_price *type, int64_t vcpus_min, double memory_min);
/* Returns NULL when the type has no known price in that region. */
const struct catalog_price *catalog_find(const struct catalog *catalog, const char *type, const char *region);

/* A file's entry for the speed of a type's vCPUs. */
struct type_speed {
    char type[CATALOG_NAME_MAX];
    double speed;
};

/* Returns the speed in a list; 0: the type is not in it. */
double type_speed_of(const struct type_speed *list, size_t count, const char *type);

#endif
