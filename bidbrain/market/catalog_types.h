/* The built-in tables of catalog.c. Constant data only. */
#ifndef BIDBRAIN_MARKET_CATALOG_TYPES_H
#define BIDBRAIN_MARKET_CATALOG_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum { CATALOG_REGION_COUNT = 6 };

struct catalog_type {
    const char *name;
    uint32_t vcpus;
    uint32_t memory_mib;
    int64_t prices[CATALOG_REGION_COUNT];
};

struct catalog_old_price {
    const char *name;
    int64_t price;
};

extern const char *const CATALOG_REGIONS[CATALOG_REGION_COUNT];
extern const struct catalog_type CATALOG_TYPES[];
extern const size_t CATALOG_TYPE_COUNT;
extern const struct catalog_old_price CATALOG_OLD_PRICES[];
extern const size_t CATALOG_OLD_PRICE_COUNT;

#endif
