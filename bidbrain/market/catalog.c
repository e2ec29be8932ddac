/* See catalog.h. */
#include "bidbrain/market/catalog.h"

#include "agileml/base/memory.h"
#include "bidbrain/market/catalog_types.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int catalog_compare(const void *a, const void *b) {
    const struct catalog_price *x = a;
    const struct catalog_price *y = b;
    int order = strcmp(x->type, y->type);
    return order != 0 ? order : strcmp(x->region, y->region);
}

bool catalog_fits(const struct catalog_price *type, int64_t vcpus_min, double memory_min) {
    return type != NULL && !catalog_burstable(type->type) && type->vcpus >= (uint64_t)vcpus_min &&
           type->memory_mib >= 1024 * memory_min;
}

const struct catalog_price *catalog_find(const struct catalog *catalog, const char *type, const char *region) {
    struct catalog_price key = {0};
    if (catalog->count == 0 || strlen(type) >= sizeof key.type || strlen(region) >= sizeof key.region) {
        return NULL;
    }
    strcpy(key.type, type);
    strcpy(key.region, region);
    return bsearch(&key, catalog->prices, catalog->count, sizeof key, catalog_compare);
}

bool catalog_burstable(const char *type) {
    return type[0] == 't' && type[1] >= '0' && type[1] <= '9';
}

static void catalog_sort(struct catalog *catalog) {
    if (catalog->count > 1) {
        qsort(catalog->prices, catalog->count, sizeof *catalog->prices, catalog_compare);
    }
}

static struct catalog_price *catalog_new(struct catalog *catalog) {
    catalog->prices = memory_extended(catalog->prices, catalog->count, &catalog->capacity, sizeof *catalog->prices);
    struct catalog_price *price = &catalog->prices[catalog->count++];
    memset(price, 0, sizeof *price);
    return price;
}

void catalog_open(struct catalog *catalog, enum catalog_year year) {
    memset(catalog, 0, sizeof *catalog);
    for (size_t t = 0; t < CATALOG_TYPE_COUNT; t++) {
        const struct catalog_type *type = &CATALOG_TYPES[t];
        for (size_t r = 0; r < CATALOG_REGION_COUNT; r++) {
            if (type->prices[r] == 0) {
                continue;
            }
            struct catalog_price *price = catalog_new(catalog);
            snprintf(price->type, sizeof price->type, "%s", type->name);
            snprintf(price->region, sizeof price->region, "%s", CATALOG_REGIONS[r]);
            price->price = type->prices[r];
            price->vcpus = type->vcpus;
            price->memory_mib = type->memory_mib;
        }
    }
    catalog_sort(catalog);
    for (size_t o = 0; o < CATALOG_OLD_PRICE_COUNT && year == CATALOG_2016; o++) {
        const struct catalog_price *found = catalog_find(catalog, CATALOG_OLD_PRICES[o].name, CATALOG_REGIONS[0]);
        if (found != NULL) {
            catalog->prices[found - catalog->prices].price = CATALOG_OLD_PRICES[o].price;
        }
    }
}

void catalog_close(struct catalog *catalog) {
    free(catalog->prices);
    memset(catalog, 0, sizeof *catalog);
}

/* Inserts one price in order, or replaces the older price of that type and region. */
static void catalog_put(struct catalog *catalog, const struct catalog_price *price) {
    const struct catalog_price *found = catalog_find(catalog, price->type, price->region);
    if (found != NULL) {
        catalog->prices[found - catalog->prices] = *price;
        return;
    }
    (void)catalog_new(catalog);
    size_t at = catalog->count - 1;
    for (; at > 0 && catalog_compare(&catalog->prices[at - 1], price) > 0; at--) {
        catalog->prices[at] = catalog->prices[at - 1];
    }
    catalog->prices[at] = *price;
}

static int catalog_type_read(struct catalog *catalog, const char *path, const char *name, const json_t *type,
                             struct error *error) {
    const json_t *vcpus = json_object_get(type, "vcpus");
    const json_t *memory = json_object_get(type, "memory_gib");
    json_t *prices = json_object_get(type, "on_demand");
    double cores = json_number_value(vcpus);
    double gib = json_number_value(memory);
    if (strlen(name) >= CATALOG_NAME_MAX || name[0] == '\0') {
        return error_set(error, AML_EINPUT, "%s: type '%.60s': expected a name of 1 to %d bytes", path, name,
                         CATALOG_NAME_MAX - 1);
    }
    if (!json_is_integer(vcpus) || cores < 1 || cores > 100000) {
        return error_set(error, AML_EINPUT, "%s: %s: vcpus: expected a whole number from 1 to 100000", path, name);
    }
    if (!json_is_number(memory) || !(gib > 0 && gib <= 1e6)) {
        return error_set(error, AML_EINPUT, "%s: %s: memory_gib: expected a number above 0, at most 1e6", path, name);
    }
    if (!json_is_object(prices)) {
        return error_set(error, AML_EINPUT, "%s: %s: on_demand: expected an object of dollars per hour by region", path,
                         name);
    }
    const char *region;
    const json_t *dollars;
    json_object_foreach(prices, region, dollars) {
        struct catalog_price price = {.vcpus = (uint32_t)cores, .memory_mib = (uint32_t)lround(gib * 1024)};
        double value = json_number_value(dollars);
        if (!json_is_number(dollars) || !(value >= 1e-6 && value < price_dollars(PRICE_MAX)) ||
            strlen(region) >= CATALOG_NAME_MAX || catalog->count >= CATALOG_PRICES_MAX) {
            return error_set(error, AML_EINPUT, "%s: %s: on_demand of '%.60s': expected dollars per hour above 0", path,
                             name, region);
        }
        snprintf(price.type, sizeof price.type, "%s", name);
        snprintf(price.region, sizeof price.region, "%s", region);
        price.price = (int64_t)llround(value * (double)PRICE_DOLLAR);
        catalog_put(catalog, &price);
    }
    return 0;
}

int catalog_read(struct catalog *catalog, const char *path, struct error *error) {
    json_error_t wrong;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (root == NULL) {
        return wrong.line > 0 ? error_set(error, AML_EINPUT, "%s:%d: %s", path, wrong.line, wrong.text)
                              : error_set(error, AML_EINPUT, "%s: %s", path, wrong.text);
    }
    int code = 0;
    if (!json_is_object(root)) {
        code = error_set(error, AML_EINPUT, "%s: expected an object of instance types", path);
    }
    const char *name;
    const json_t *type;
    json_object_foreach(root, name, type) {
        code = code != 0 ? code : catalog_type_read(catalog, path, name, type, error);
    }
    json_decref(root);
    return code;
}

double type_speed_of(const struct type_speed *list, size_t count, const char *type) {
    for (size_t s = 0; s < count; s++) {
        if (strcmp(list[s].type, type) == 0) {
            return list[s].speed;
        }
    }
    return 0;
}
