/* Checks what config.c's tables of keys can't express: whether the values fit each other, and the files that they
 * name. */
#include "agileml/base/options.h"
#include "agileml/cloud/service_endpoint.h"
#include "agileml/net/endpoint.h"
#include "agileml/net/key.h"
#include "bidbrain/cloud/aws/ec2.h"
#include "bidbrain/daemon/config.h"
#include "bidbrain/policy/policy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHECK_WHERE_MAX = 128, CHECK_HOST_MAX = 300 };

/* ---- Names ---- */

static bool is_of_nodes(const char *argument, const char *name) {
    size_t length = strlen(name);
    return strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, length) == 0 &&
           (argument[2 + length] == '\0' || argument[2 + length] == '=');
}

static void check_arguments(const struct config_node *node, struct findings *findings) {
    static const char *const of_nodes[] = {"controller", "tier",    "name",     "group",
                                           "key",        "threads", "insecure", "supervised"};
    for (size_t a = 0; node->arguments[a] != NULL; a++) {
        for (size_t n = 0; n < sizeof of_nodes / sizeof *of_nodes; n++) {
            if (is_of_nodes(node->arguments[a], of_nodes[n])) {
                findings_error(findings, "node.arguments", "--%s is bidbrain's to give, for each node", of_nodes[n]);
            }
        }
    }
}

static void check_lengths(const struct config *config, struct findings *findings) {
    const struct {
        const char *key;
        const char *const *texts;
    } lists[] = {{"markets.types", config->markets.types},
                 {"markets.zones", config->markets.zones},
                 {"on_demand.type", (const char *const[]){config->reliable.type, NULL}},
                 {"on_demand.zone", (const char *const[]){config->reliable.zone, NULL}},
                 {"markets.product", (const char *const[]){config->markets.product, NULL}},
                 {"region", (const char *const[]){config->region, NULL}}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (size_t i = 0; lists[l].texts[i] != NULL; i++) {
            if (strlen(lists[l].texts[i]) >= MARKET_TEXT_MAX) {
                findings_error(findings, lists[l].key, "'%.60s' is too long", lists[l].texts[i]);
            }
        }
    }
}

static void check_names(const struct config *config, struct findings *findings) {
    size_t length = strlen(config->job);
    if (length > CONFIG_JOB_MAX ||
        strspn(config->job, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != length) {
        findings_error(findings, "job", "expected at most %d letters, digits, points, dashes, underscores",
                       CONFIG_JOB_MAX);
    }
    check_arguments(&config->node, findings);
    check_lengths(config, findings);
}

/* ---- Places ---- */

const char *config_subnet(const void *context, const char *zone) {
    const struct config *config = context;
    return json_string_value(json_object_get(config->launch.subnets, zone));
}

void config_region(const struct config *config, char region[MARKET_TEXT_MAX]) {
    region[0] = '\0';
    if (config->region != NULL) {
        snprintf(region, MARKET_TEXT_MAX, "%s", config->region);
    } else if (config->reliable.zone != NULL) {
        market_region(config->reliable.zone, region);
    }
}

static bool is_zone_of(const char *zone, const char *region) {
    size_t length = strlen(region);
    return strncmp(zone, region, length) == 0 && zone[length] >= 'a' && zone[length] <= 'z' && zone[length + 1] == '\0';
}

static void check_zone(const char *zone, const char *region, const char *where, struct findings *findings) {
    if (!is_zone_of(zone, region)) {
        findings_error(findings, where, "'%.60s' is no zone of region %.60s: expected one such as %.60sa", zone, region,
                       region);
    }
}

/* Whether the zones may be in "region": a zone's name shows this region, or none. */
static bool region_agrees(const struct config *config) {
    char region[MARKET_TEXT_MAX];
    bool any = config->reliable.zone == NULL;
    for (size_t z = 0; config->markets.zones[z] != NULL && !any; z++) {
        market_region(config->markets.zones[z], region);
        any = config->region == NULL || strcmp(region, config->region) == 0;
    }
    if (!any) {
        market_region(config->reliable.zone, region);
        any = config->region == NULL || strcmp(region, config->region) == 0;
    }
    return any;
}

static void check_subnets(const struct config *config, const char *region, struct findings *findings) {
    char where[CHECK_WHERE_MAX];
    const char *zone;
    json_t *id;
    json_object_foreach((json_t *)config->launch.subnets, zone, id) {
        snprintf(where, sizeof where, "launch.subnets.%.60s", zone);
        check_zone(zone, region, where, findings);
    }
    for (size_t z = 0; config->markets.zones[z] != NULL && config->launch.subnets != NULL; z++) {
        if (is_zone_of(config->markets.zones[z], region) && config_subnet(config, config->markets.zones[z]) == NULL) {
            findings_warning(findings, "launch.subnets",
                             "none for %.60s of markets.zones: machines there start in the zone's default subnet",
                             config->markets.zones[z]);
        }
    }
}

static void check_zones(const struct config *config, struct findings *findings) {
    char region[MARKET_TEXT_MAX];
    char where[CHECK_WHERE_MAX];
    config_region(config, region);
    if (!region_agrees(config)) {
        market_region(config->reliable.zone, region);
        findings_error(findings, "region", "'%.60s', but the zones are of %.60s: expected the region of the zones",
                       config->region, region);
        return;
    }
    for (size_t z = 0; config->markets.zones[z] != NULL; z++) {
        snprintf(where, sizeof where, "markets.zones[%zu]", z);
        check_zone(config->markets.zones[z], region, where, findings);
    }
    if (config->reliable.zone != NULL && config->reliable.zone != config->markets.zones[0]) {
        check_zone(config->reliable.zone, region, "on_demand.zone", findings);
    }
    check_subnets(config, region, findings);
}

static bool binary_is_remote(const char *binary) {
    return strncmp(binary, "s3://", 5) == 0 || strncmp(binary, "https://", 8) == 0;
}

static void check_places(const struct config *config, struct findings *findings) {
    if (config->reliable.zone == NULL && config->region == NULL) {
        findings_error(findings, "region", "is missing, and no zone is given either");
        return;
    }
    if (config->reliable.count > 0 && config->reliable.zone == NULL) {
        findings_error(findings, "on_demand.zone", "is missing: expected the zone of the reliable machines");
    }
    check_zones(config, findings);
    if (!binary_is_remote(config->node.binary) && config->node.binary[0] != '/') {
        findings_error(findings, "node.binary", "expected s3://..., https://... or an absolute path");
    }
    if (strncmp(config->controller, "tcp://", 6) != 0) {
        findings_error(findings, "controller", "expected tcp://HOST:PORT");
    }
}

/* ---- Launches ---- */

static void check_id(const char *id, const char *prefix, const char *where, const char *what,
                     struct findings *findings) {
    if (id != NULL && strncmp(id, prefix, strlen(prefix)) != 0) {
        findings_error(findings, where, "'%.60s': expected the id of %s (%s...)", id, what, prefix);
    }
}

static void check_ids(const struct config_launch *launch, struct findings *findings) {
    char where[CHECK_WHERE_MAX];
    const char *zone;
    json_t *id;
    check_id(launch->image, "ami-", "launch.image", "an image", findings);
    for (size_t g = 0; launch->security_groups[g] != NULL; g++) {
        snprintf(where, sizeof where, "launch.security_groups[%zu]", g);
        check_id(launch->security_groups[g], "sg-", where, "a security group", findings);
    }
    json_object_foreach((json_t *)launch->subnets, zone, id) {
        snprintf(where, sizeof where, "launch.subnets.%.60s", zone);
        check_id(json_string_value(id), "subnet-", where, "a subnet", findings);
    }
}

static void check_ec2(const struct config *config, struct findings *findings) {
    char host[CHECK_HOST_MAX];
    struct error error = {0};
    bool by_fleet = config->launch.call == PROVIDER_CREATE_FLEET;
    if (config->clock.start != 0) {
        findings_error(findings, "clock", "expected a URL: only provider local can be given a start and a speed");
    }
    if (by_fleet && config->launch.launch_template == NULL) {
        findings_error(findings, "launch.launch_template", "is missing: create-fleet needs one");
    }
    if (config->launch.image == NULL && (!by_fleet || config->reliable.count > 0)) {
        findings_error(findings, "launch.image", "is missing: expected an image's id (ami-...)");
    }
    if (config->markets.types[0] == NULL) {
        findings_error(findings, "markets.types", "is missing: expected the instance types to choose from");
    }
    if (config->endpoint != NULL && service_endpoint_host(config->endpoint, host, sizeof host, false, &error) != 0) {
        findings_error(findings, "endpoint", "%.300s", error.text);
    }
    check_ids(&config->launch, findings);
}

static void check_local(const struct config *config, struct findings *findings) {
    if (config->prices == NULL) {
        findings_error(findings, "prices", "is missing: the prices that provider local offers");
    }
    if (binary_is_remote(config->node.binary)) {
        findings_error(findings, "node.binary", "expected an absolute path: provider local fetches nothing");
    }
}

/* Only warns, as the operator may run reliable nodes. `markets`: 0: unknown. */
static void check_groups(const struct config *config, size_t markets, struct findings *findings) {
    if (config->reliable.count > 0) {
        return;
    }
    if (markets == 1) {
        findings_warning(
            findings, "markets",
            "only %.60s in %.60s, and on_demand.count 0: where no node is reliable, its price can take both "
            "copies of the job's state: expected 2 markets, of another type or zone",
            config->markets.types[0], config->markets.zones[0]);
    }
    if (config->limits.most_machines < POLICY_GROUPS_LEAST) {
        findings_warning(findings, "limits.most_machines",
                         "%" PRId64 ", and on_demand.count 0: where no node is reliable, one machine has the only copy "
                         "of the job's state: expected 2 or more",
                         config->limits.most_machines);
    }
}

static void check_limits(const struct config *config, struct findings *findings) {
    size_t types = 0;
    size_t zones = 0;
    while (config->markets.types[types] != NULL) {
        types++;
    }
    while (config->markets.zones[zones] != NULL) {
        zones++;
    }
    if (types * zones > 0 && (uint64_t)config->limits.least_markets > types * zones) {
        findings_error(findings, "limits.least_markets",
                       "%" PRId64 ", but markets has %zu (%zu types in %zu zones): expected at most that",
                       config->limits.least_markets, types * zones, types, zones);
    }
    check_groups(config, types * zones, findings);
}

void config_check(const struct config *config, struct findings *findings) {
    check_names(config, findings);
    check_places(config, findings);
    check_limits(config, findings);
    if (config->rules->bids && strcmp(config->interruptions, "none") != 0) {
        findings_error(findings, "interruptions", "only with \"model\": \"ec2\"; in ec2-2016 prices tell");
    }
    if (config->provider == CONFIG_LOCAL) {
        check_local(config, findings);
    } else {
        check_ec2(config, findings);
    }
}

/* ---- Files ---- */

static bool check_file(const char *file, const char *where, struct findings *findings) {
    if (file != NULL && access(file, R_OK) != 0) {
        findings_error(findings, where, "%.200s: %s", file, strerror(errno));
        return false;
    }
    return true;
}

/* Machines' tokens can be made only from the job's key. */
static void check_key(const struct config *config, struct findings *findings) {
    struct net_key key;
    struct error error = {0};
    if (config->key == NULL) {
        return;
    }
    if (net_key_load(config->key, &key, &error) != 0) {
        findings_error(findings, "key", "%.300s", error.text);
        return;
    }
    if (net_key_is_token(&key)) {
        findings_error(findings, "key", "%.200s: a token, expected the job's key", config->key);
    }
    explicit_bzero(&key, sizeof key);
}

static void check_controller(const struct config *config, struct findings *findings) {
    struct endpoint endpoint;
    struct error error = {0};
    if (strncmp(config->controller, "tcp://", 6) != 0) {
        return; /* already reported */
    }
    if (endpoint_parse(&endpoint, config->controller, false, &error) != 0) {
        findings_error(findings, "controller", "%.200s", error.text);
    } else if (!endpoint.loopback && config->key == NULL && !config->insecure) {
        findings_error(findings, "key",
                       "is missing: the controller is on another machine: expected a key file, or \"insecure\": true");
    }
}

/* ---- Types ---- */

/* Returns the known type with the most similar name; NULL: none is similar. */
static const char *similar_type(const struct config *config, const char *type, const char *region) {
    const char *best = NULL;
    size_t least = OPTIONS_SUGGESTION_DISTANCE + 1;
    size_t length = strlen(type);
    for (size_t t = 0; t < config->known.count && length < OPTIONS_NAME_MAX; t++) {
        const struct catalog_price *known = &config->known.prices[t];
        size_t distance = strcmp(known->region, region) == 0
                              ? options_distance(type, length, known->type, strlen(known->type))
                              : least;
        if (distance < least) {
            least = distance;
            best = known->type;
        }
    }
    return best;
}

static const struct catalog_price *find_type(const struct config *config, const char *type, const char *region,
                                             const char *where, struct findings *findings) {
    const struct catalog_price *known = catalog_find(&config->known, type, region);
    const char *similar = known == NULL ? similar_type(config, type, region) : NULL;
    if (known == NULL) {
        findings_error(findings, where,
                       "'%.60s' has no on-demand price in %s: expected a type that is built in, or one of "
                       "\"catalog\"%s%s%s",
                       type, region, similar != NULL ? "; did you mean " : "", similar != NULL ? similar : "",
                       similar != NULL ? "?" : "");
    }
    return known;
}

/* Whether the type can ever be bought. Adds an error if it can't. */
static bool type_is_wanted(const struct config *config, const struct catalog_price *type, const char *where,
                           struct findings *findings) {
    double gib = type->memory_mib / 1024.0;
    if (catalog_burstable(type->type)) {
        findings_error(findings, where,
                       "'%.60s' is never bought: it is burstable, its vCPUs are shares of processors: expected "
                       "another type",
                       type->type);
        return false;
    }
    if (type->vcpus < (uint64_t)config->markets.vcpus_min || gib < config->markets.memory_min) {
        findings_error(findings, where,
                       "'%.60s' is never bought: it has %" PRIu32 " vCPUs and %g GiB, limits.vcpus_min is %" PRId64
                       " and limits.memory_min is %g",
                       type->type, type->vcpus, gib, config->markets.vcpus_min, config->markets.memory_min);
        return false;
    }
    return true;
}

static void check_types(const struct config *config, const char *region, struct findings *findings) {
    char where[CHECK_WHERE_MAX];
    const struct catalog_price *smallest = NULL;
    for (size_t t = 0; config->markets.types[t] != NULL; t++) {
        snprintf(where, sizeof where, "markets.types[%zu]", t);
        const struct catalog_price *type = find_type(config, config->markets.types[t], region, where, findings);
        if (type != NULL && type_is_wanted(config, type, where, findings) &&
            (smallest == NULL || type->vcpus < smallest->vcpus)) {
            smallest = type;
        }
    }
    double share = config->limits.most_vcpus / (double)config->limits.least_markets;
    if (smallest != NULL && smallest->vcpus > share) {
        findings_error(findings, "limits.most_vcpus",
                       "%g in at least %" PRId64 " markets is less than the %" PRIu32
                       " vCPUs of %s, the smallest of markets.types: nothing could be bought",
                       config->limits.most_vcpus, config->limits.least_markets, smallest->vcpus, smallest->type);
    } else if (smallest != NULL && config->reliable.count == 0 &&
               smallest->vcpus * POLICY_GROUPS_LEAST > config->limits.most_vcpus) {
        findings_warning(
            findings, "limits.most_vcpus",
            "%g, and on_demand.count 0: where no node is reliable, machines of 2 markets are needed, with %d "
            "vCPUs each (%s is the smallest of markets.types)",
            config->limits.most_vcpus, (int)smallest->vcpus, smallest->type);
    }
}

static bool region_is_known(const struct config *config, const char *region) {
    for (size_t t = 0; t < config->known.count; t++) {
        if (strcmp(config->known.prices[t].region, region) == 0) {
            return true;
        }
    }
    return false;
}

static const char *similar_region(const struct config *config, const char *region) {
    const char *best = NULL;
    size_t least = OPTIONS_SUGGESTION_DISTANCE + 1;
    for (size_t t = 0; t < config->known.count && strlen(region) < OPTIONS_NAME_MAX; t++) {
        const char *known = config->known.prices[t].region;
        size_t distance = options_distance(region, strlen(region), known, strlen(known));
        if (distance < least) {
            least = distance;
            best = known;
        }
    }
    return best;
}

static void check_catalog(struct config *config, struct findings *findings) {
    char region[MARKET_TEXT_MAX];
    struct error error = {0};
    catalog_open(&config->known, config->rules->year);
    if (!check_file(config->catalog, "catalog", findings)) {
        return;
    }
    if (config->catalog != NULL && catalog_read(&config->known, config->catalog, &error) != 0) {
        findings_error(findings, "catalog", "%.350s", error.text);
        return;
    }
    config_region(config, region);
    if (region[0] == '\0' || !region_agrees(config)) {
        return; /* already reported */
    }
    if (!region_is_known(config, region)) {
        const char *similar = similar_region(config, region);
        findings_error(findings, "region",
                       "'%s': no on-demand price of any type is known there: expected a region that is built in, or "
                       "one of \"catalog\"%s%s%s",
                       region, similar != NULL ? "; did you mean " : "", similar != NULL ? similar : "",
                       similar != NULL ? "?" : "");
        return;
    }
    find_type(config, config->reliable.type, region, "on_demand.type", findings);
    check_types(config, region, findings);
}

void config_check_files(struct config *config, struct findings *findings) {
    check_file(config->prices, "prices", findings);
    check_key(config, findings);
    check_file(config->launch.user_data, "launch.user_data", findings);
    if (config->provider == CONFIG_LOCAL && config->node.binary[0] == '/' && access(config->node.binary, X_OK) != 0) {
        findings_error(findings, "node.binary", "%.200s: %s", config->node.binary, strerror(errno));
    }
    check_controller(config, findings);
    check_catalog(config, findings);
}
