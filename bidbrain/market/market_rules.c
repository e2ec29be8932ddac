/* See market_rules.h. */
#include "bidbrain/market/market_rules.h"

#include <string.h>

const struct market_rules MARKET_EC2_2016 = {
    .name = "ec2-2016", .year = CATALOG_2016, .bids = true, .whole_hours = true, .later_hours_free = true};
const struct market_rules MARKET_EC2 = {.name = "ec2", .year = CATALOG_2017, .cooldown_seconds = 600};

int market_rules_read(const struct market_rules **rules, const char *option, const char *name, struct error *error) {
    *rules = strcmp(name, MARKET_EC2.name) == 0 ? &MARKET_EC2 : &MARKET_EC2_2016;
    return strcmp(name, (*rules)->name) == 0
               ? 0
               : error_set(error, AML_EINPUT, "--%s: expected ec2-2016 or ec2, got '%.60s'", option, name);
}
