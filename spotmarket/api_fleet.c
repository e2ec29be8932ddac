/* CreateFleet of type instant: machines from many pools at once. The answer lists the pools' errors. See
 * api_private.h. */
#include "agileml/base/memory.h"
#include "spotmarket/api_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLEET_POOLS_MAX = 300, FLEET_WEIGHT_MAX = 999 };

/* One override of a launch template: a type in a zone. */
struct fleet_pool {
    struct launch_spec *spec;
    const struct cloud_tags *template_tags;
    char zone[MARKET_TEXT_MAX];
    int64_t bid; /* bid for spot machines */
    int64_t weight;
    size_t order;
    int64_t price;          /* present price of a unit, by which pools are sorted */
    size_t spot, on_demand; /* machines launched so far */
    size_t first_spot, first_on_demand;
};

struct fleet {
    const char *token;
    struct fleet_pool pools[FLEET_POOLS_MAX];
    size_t count;
    int64_t spot, on_demand; /* wanted units */
    int64_t least;           /* least spot units: with room for fewer, launches none */
    bool diversified;
    struct cloud_tags tags;
    struct text errors;
};

/* ---- Reading ---- */

static void fleet_pool_add(struct api *api, struct fleet *fleet, struct launch_spec *spec,
                           const struct cloud_tags *tags, const char *zone, int64_t bid, int64_t weight) {
    if (fleet->count == FLEET_POOLS_MAX) {
        api_error_set(&api->error, 400, "InvalidFleetConfig", "More than %d overrides", FLEET_POOLS_MAX);
        launch_spec_drop(spec);
        return;
    }
    if (spec->type == NULL) {
        api_error_set(&api->error, 400, "InvalidFleetConfig",
                      "Neither the launch template nor an override has an "
                      "InstanceType");
    }
    struct fleet_pool *pool = &fleet->pools[fleet->count];
    *pool =
        (struct fleet_pool){.spec = spec, .template_tags = tags, .bid = bid, .weight = weight, .order = fleet->count};
    snprintf(pool->zone, sizeof pool->zone, "%s", zone);
    fleet->count++;
}

static void fleet_override(struct api *api, struct fleet *fleet, const char *prefix, const struct launch_spec *base,
                           const struct cloud_tags *tags) {
    struct parameters *p = &api->parameters;
    char name[PARAMETERS_NAME_MAX];
    char zone[MARKET_TEXT_MAX];
    struct launch_spec *spec = api_spec(api, prefix, base);
    snprintf(zone, sizeof zone, "%s", spec->zone);
    api_spec_place(api, NULL, parameters_text(p, "%sAvailabilityZone", prefix), zone);
    snprintf(name, sizeof name, "%sMaxPrice", prefix);
    int64_t bid = parameters_price(p, name);
    snprintf(name, sizeof name, "%sWeightedCapacity", prefix);
    int64_t weight = parameters_integer(p, name, 1, FLEET_WEIGHT_MAX, 1);
    (void)parameters_text(p, "%sPriority", prefix);
    fleet_pool_add(api, fleet, spec, tags, zone, bid, weight);
}

static void fleet_configs(struct api *api, struct fleet *fleet) {
    char prefix[PARAMETERS_NAME_MAX];
    for (unsigned c = 1; api->error.status == 0; c++) {
        const struct launch_template *template;
        size_t version;
        snprintf(prefix, sizeof prefix, "LaunchTemplateConfigs.%u.", c);
        if (!parameters_has(&api->parameters, prefix)) {
            break;
        }
        snprintf(prefix, sizeof prefix, "LaunchTemplateConfigs.%u.LaunchTemplateSpecification.", c);
        if (!api_template(api, prefix, &template, &version)) {
            api_error_set(&api->error, 400, "MissingParameter", "%sLaunchTemplateId is missing", prefix);
            return;
        }
        const struct launch_spec *base = template->versions[version - 1];
        const struct cloud_tags *tags = &template->tags[version - 1];
        unsigned o = 1;
        for (; api->error.status == 0; o++) {
            snprintf(prefix, sizeof prefix, "LaunchTemplateConfigs.%u.Overrides.%u.", c, o);
            if (!parameters_has(&api->parameters, prefix)) {
                break;
            }
            fleet_override(api, fleet, prefix, base, tags);
        }
        if (o == 1 && api->error.status == 0) { /* without overrides: the template as it is */
            fleet_override(api, fleet, prefix, base, tags);
        }
    }
    if (fleet->count == 0) {
        api_error_set(&api->error, 400, "MissingParameter", "The request must contain LaunchTemplateConfigs");
    }
}

static void fleet_capacity(struct api *api, struct fleet *fleet) {
    struct parameters *p = &api->parameters;
    static const char prefix[] = "TargetCapacitySpecification.";
    char name[PARAMETERS_NAME_MAX];
    snprintf(name, sizeof name, "%sTotalTargetCapacity", prefix);
    (void)parameters_required(p, name);
    int64_t total = parameters_integer(p, name, 0, CLOUD_LAUNCH_MAX, 0);
    snprintf(name, sizeof name, "%sSpotTargetCapacity", prefix);
    int64_t spot = parameters_integer(p, name, 0, CLOUD_LAUNCH_MAX, -1);
    snprintf(name, sizeof name, "%sOnDemandTargetCapacity", prefix);
    int64_t on_demand = parameters_integer(p, name, 0, CLOUD_LAUNCH_MAX, -1);
    const char *kind = parameters_text(p, "%sDefaultTargetCapacityType", prefix);
    const char *unit = parameters_text(p, "%sTargetCapacityUnitType", prefix);
    bool spot_default = kind != NULL && strcmp(kind, "spot") == 0;
    if (kind != NULL && !spot_default && strcmp(kind, "on-demand") != 0) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid DefaultTargetCapacityType '%.40s'", kind);
    }
    if (unit != NULL && strcmp(unit, "units") != 0) {
        api_error_set(&api->error, 400, "UnsupportedOperation",
                      "TargetCapacityUnitType: spotmarket supports units alone");
    }
    if (spot < 0 && on_demand < 0) {
        spot = spot_default ? total : 0;
    } else if (spot < 0) {
        spot = total - on_demand;
    }
    on_demand = on_demand < 0 ? total - spot : on_demand;
    if (spot < 0 || on_demand < 0 || spot + on_demand > total) {
        api_error_set(&api->error, 400, "InvalidTargetCapacitySpecification",
                      "The capacities of spot and on demand do not add up to the total");
    }
    fleet->spot = spot;
    fleet->on_demand = on_demand;
}

static void fleet_strategies(struct api *api, struct fleet *fleet) {
    static const char *const known[] = {"lowest-price",
                                        "lowestPrice",
                                        "diversified",
                                        "capacity-optimized",
                                        "capacity-optimized-prioritized",
                                        "price-capacity-optimized",
                                        "prioritized",
                                        NULL};
    struct parameters *p = &api->parameters;
    const char *strategy = parameters_text(p, "SpotOptions.AllocationStrategy");
    if (strategy != NULL && !api_name_known(known, strategy)) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid AllocationStrategy '%.60s'", strategy);
    }
    fleet->diversified = strategy != NULL && strcmp(strategy, "diversified") == 0;
    fleet->least = parameters_integer(p, "SpotOptions.MinTargetCapacity", 0, CLOUD_LAUNCH_MAX, 0);
    parameters_ignore(p, "SpotOptions.SingleInstanceType");
    parameters_ignore(p, "SpotOptions.SingleAvailabilityZone");
    parameters_ignore(p, "OnDemandOptions.");
    parameters_ignore(p, "ExcessCapacityTerminationPolicy");
    parameters_ignore(p, "ReplaceUnhealthyInstances");
    api_interruption_behavior(api, "SpotOptions.InstanceInterruptionBehavior");
}

static void fleet_read(struct api *api, struct fleet *fleet) {
    static const char *const tagged[] = {"fleet", "instance", "volume", "network-interface", NULL};
    const char *type = parameters_text(&api->parameters, "Type");
    if (type == NULL || strcmp(type, "instant") != 0) {
        api_error_set(&api->error, 400, "UnsupportedOperation", "CreateFleet: spotmarket supports Type=instant alone");
    }
    api_tag_specifications(api, "TagSpecification", tagged, "instance", &fleet->tags);
    fleet_strategies(api, fleet);
    fleet_capacity(api, fleet);
    fleet_configs(api, fleet);
}

/* ---- Launching ---- */

static void fleet_error(struct fleet *fleet, const struct fleet_pool *pool, bool spot, const char *code,
                        const char *message) {
    text_add(&fleet->errors, "<item><launchTemplateAndOverrides><overrides>");
    xml_text(&fleet->errors, "instanceType", pool->spec->type->type);
    xml_text(&fleet->errors, "availabilityZone", pool->zone);
    text_format(&fleet->errors, "</overrides></launchTemplateAndOverrides><lifecycle>%s</lifecycle>",
                spot ? "spot" : "on-demand");
    xml_text(&fleet->errors, "errorCode", code);
    xml_text(&fleet->errors, "errorMessage", message);
    text_add(&fleet->errors, "</item>");
}

/* Launches up to `most` machines of a pool. Returns their number. */
static size_t fleet_launch(struct api *api, struct fleet *fleet, struct fleet_pool *pool, bool spot, size_t most) {
    int64_t bid = !spot ? PRICE_UNKNOWN : pool->bid != PRICE_UNKNOWN ? pool->bid : pool->spec->type->price;
    struct cloud_room room = {.code = "InsufficientInstanceCapacity", .message = "There is not enough capacity"};
    struct api_error missing = {0};
    if (!resources_allow(&api->state->resources, api->cloud, pool->spec, &missing)) {
        fleet_error(fleet, pool, spot, missing.code, missing.message);
        return 0;
    }
    if (!api->no_capacity) {
        room = cloud_room(api->cloud, pool->spec->type, pool->zone, bid);
    }
    if (room.machines == 0) {
        fleet_error(fleet, pool, spot, room.code, room.message);
        return 0;
    }
    char reservation[CLOUD_ID_TEXT];
    struct cloud_tags tags = {0};
    cloud_tags_copy(&tags, pool->template_tags);
    cloud_tags_copy(&tags, &fleet->tags);
    cloud_new_id(api->cloud, "r-", reservation);
    size_t count = 0;
    *(spot ? &pool->first_spot : &pool->first_on_demand) = api->cloud->instance_count;
    while (count < most && count < room.machines &&
           cloud_launch(api->cloud, pool->spec, pool->zone, bid, false, reservation, fleet->token, &tags) != NULL) {
        count++;
    }
    if (count < most) {
        fleet_error(fleet, pool, spot, room.code, room.message);
    }
    cloud_tags_close(&tags);
    return count;
}

static int fleet_pool_compare(const void *a, const void *b) {
    const struct fleet_pool *x = a;
    const struct fleet_pool *y = b;
    return x->price != y->price ? (x->price < y->price ? -1 : 1) : x->order < y->order ? -1 : 1;
}

/* Sorts the pools by their price per unit, cheapest first. */
static void fleet_sort(struct api *api, struct fleet *fleet, bool spot) {
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_pool *pool = &fleet->pools[i];
        size_t m = cloud_market(api->cloud, pool->spec->type->type, pool->zone);
        int64_t price = spot && m != MARKET_NONE ? market_price(api->cloud->options.markets->list[m], api->cloud->now)
                                                 : pool->spec->type->price;
        pool->price = price == PRICE_UNKNOWN ? INT64_MAX : price / pool->weight;
    }
    qsort(fleet->pools, fleet->count, sizeof *fleet->pools, fleet_pool_compare);
}

/* Returns the units that all pools could provide now. */
static int64_t fleet_room(struct api *api, const struct fleet *fleet) {
    int64_t units = 0;
    for (size_t i = 0; i < fleet->count && !api->no_capacity && units < fleet->least; i++) {
        const struct fleet_pool *pool = &fleet->pools[i];
        int64_t bid = pool->bid != PRICE_UNKNOWN ? pool->bid : pool->spec->type->price;
        size_t machines = cloud_room(api->cloud, pool->spec->type, pool->zone, bid).machines;
        units += (machines < CLOUD_LAUNCH_MAX ? (int64_t)machines : CLOUD_LAUNCH_MAX) * pool->weight;
    }
    return units;
}

static void fleet_fill(struct api *api, struct fleet *fleet, bool spot, int64_t units) {
    fleet_sort(api, fleet, spot);
    if (spot && fleet_room(api, fleet) < fleet->least) {
        fleet_error(fleet, &fleet->pools[0], true, "InsufficientInstanceCapacity",
                    "There is no capacity for MinTargetCapacity");
        return;
    }
    for (size_t i = 0; i < fleet->count && units > 0; i++) {
        struct fleet_pool *pool = &fleet->pools[i];
        int64_t share = spot && fleet->diversified
                            ? (units + (int64_t)(fleet->count - i) - 1) / (int64_t)(fleet->count - i)
                            : units;
        size_t most = (size_t)((share + pool->weight - 1) / pool->weight);
        size_t count = fleet_launch(api, fleet, pool, spot, most);
        *(spot ? &pool->spot : &pool->on_demand) = count;
        units -= (int64_t)count * pool->weight;
    }
}

static void fleet_write_pool(struct api *api, const struct fleet_pool *pool, bool spot, size_t first, size_t count) {
    if (count == 0) {
        return;
    }
    text_add(&api->body, "<item><launchTemplateAndOverrides><overrides>");
    xml_text(&api->body, "instanceType", pool->spec->type->type);
    xml_text(&api->body, "availabilityZone", pool->zone);
    text_format(&api->body, "</overrides></launchTemplateAndOverrides><lifecycle>%s</lifecycle>",
                spot ? "spot" : "on-demand");
    xml_text(&api->body, "instanceType", pool->spec->type->type);
    text_add(&api->body, "<instanceIds>");
    for (size_t i = first; i < first + count; i++) {
        xml_text(&api->body, "item", api->cloud->instances[i]->id);
    }
    text_add(&api->body, "</instanceIds></item>");
}

static void fleet_write(struct api *api, const struct fleet *fleet) {
    char id[CLOUD_ID_TEXT];
    cloud_new_id(api->cloud, "fleet-", id);
    xml_text(&api->body, "fleetId", id);
    text_add(&api->body, "<fleetInstanceSet>");
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_pool *pool = &fleet->pools[i];
        fleet_write_pool(api, pool, true, pool->first_spot, pool->spot);
        fleet_write_pool(api, pool, false, pool->first_on_demand, pool->on_demand);
    }
    text_format(&api->body, "</fleetInstanceSet><errorSet>%s</errorSet>",
                fleet->errors.data != NULL ? fleet->errors.data : "");
}

/* Chooses zones by price for pools that have none. */
static void fleet_zones(struct api *api, struct fleet *fleet) {
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_pool *pool = &fleet->pools[i];
        int64_t bid = pool->bid != PRICE_UNKNOWN ? pool->bid : pool->spec->type->price;
        const char *zone = pool->zone[0] != '\0' ? pool->zone : cloud_zone(api->cloud, pool->spec->type, bid);
        zone =
            /* no spot prices: launches on demand, in the first market's zone */
            zone != NULL ? zone : api->cloud->options.markets->list[0]->zone;
        if (zone != pool->zone) {
            snprintf(pool->zone, sizeof pool->zone, "%s", zone);
        }
    }
}

static void fleet_make(struct api *api, struct fleet *fleet) {
    if (api->cloud->instance_count + 2 * CLOUD_LAUNCH_MAX > CLOUD_RECORDS_MAX ||
        api->cloud->attempt_count == CLOUD_RECORDS_MAX) {
        api_launch_limit(api);
        return;
    }
    fleet_zones(api, fleet);
    if (fleet->on_demand > 0) {
        fleet_fill(api, fleet, false, fleet->on_demand);
    }
    if (fleet->spot > 0) {
        fleet_fill(api, fleet, true, fleet->spot);
    }
    fleet_write(api, fleet);
    api_remember(api, fleet->token, 0, 0, api->body.data);
}

void api_create_fleet(struct api *api) {
    struct fleet *fleet = memory_zeroed(1, sizeof *fleet);
    struct attempt *attempt;
    fleet->token = api_token(api);
    fleet_read(api, fleet);
    if (api_ready(api)) {
        if (!api_repeated(api, fleet->token, &attempt)) {
            fleet_make(api, fleet);
        } else if (api->error.status == 0) {
            text_add(&api->body, attempt->answer);
        }
    }
    for (size_t i = 0; i < fleet->count; i++) {
        launch_spec_drop(fleet->pools[i].spec);
    }
    cloud_tags_close(&fleet->tags);
    text_close(&fleet->errors);
    free(fleet);
}
