/* EC2's actions that only read. See api_private.h. */
#include "agileml/base/instant.h"
#include "spotmarket/api_private.h"

#include <stdio.h>
#include <string.h>

enum { HISTORY_SECONDS = 90 * 24 * HOUR };

/* ---- DescribeSpotPriceHistory ---- */

struct history {
    const char *types[PARAMETERS_LIST_MAX], *products[PARAMETERS_LIST_MAX];
    size_t type_count, product_count;
    const char *zone;
    struct filters filters;
    int64_t start, end;
    struct page page;
};

static bool list_has(const char *const *list, size_t count, const char *value) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], value) == 0) {
            return true;
        }
    }
    return count == 0;
}

static const char *history_value(const void *context, const char *name) {
    const struct market *market = context;
    return strcmp(name, "instance-type") == 0         ? market->type
           : strcmp(name, "availability-zone") == 0   ? market->zone
           : strcmp(name, "product-description") == 0 ? market->product
                                                      : NULL;
}

/* Returns whether the request includes the market's product, with or without " (Amazon VPC)". */
static bool history_has_product(const struct history *history, const struct market *market) {
    char vpc[MARKET_TEXT_MAX + 16];
    snprintf(vpc, sizeof vpc, "%s (Amazon VPC)", market->product);
    return list_has(history->products, history->product_count, market->product) ||
           list_has(history->products, history->product_count, vpc);
}

static bool history_wants(const struct history *history, const struct market *market) {
    static const struct cloud_tags none;
    return list_has(history->types, history->type_count, market->type) && history_has_product(history, market) &&
           (history->zone == NULL || strcmp(history->zone, market->zone) == 0) &&
           filters_match(&history->filters, &none, history_value, market);
}

static void history_write(struct api *api, const struct market *market, struct market_point point) {
    char price[PRICE_TEXT_MAX];
    price_format(point.price, price);
    text_add(&api->body, "<item>");
    xml_text(&api->body, "instanceType", market->type);
    xml_text(&api->body, "productDescription", market->product);
    xml_text(&api->body, "spotPrice", price);
    xml_time(&api->body, "timestamp", point.time);
    xml_text(&api->body, "availabilityZone", market->zone);
    text_add(&api->body, "</item>");
}

/* Sets [*first, *last) to the market's points in the history: the price at the history's start, then all changes up to
 * its end. */
static void history_range(const struct history *history, const struct market *market, size_t *first, size_t *last) {
    size_t begin = market_index(market, history->start);
    size_t end = market_index(market, history->end);
    *first = begin == MARKET_NONE ? 0 : begin;
    *last = end == MARKET_NONE ? 0 : end + 1;
}

void api_describe_spot_price_history(struct api *api) {
    static const char *const filters[] = {"instance-type", "availability-zone", "product-description", NULL};
    struct history history;
    history.type_count = parameters_list(&api->parameters, "InstanceType", history.types);
    history.product_count = parameters_list(&api->parameters, "ProductDescription", history.products);
    history.zone = parameters_text(&api->parameters, "AvailabilityZone");
    api_filters(api, &history.filters, filters, false);
    history.page = api_page(api, 1, API_PAGE_MAX, API_PAGE_MAX, false);
    history.end = parameters_time(&api->parameters, "EndTime", history.page.moment);
    /* future prices must not be shown */
    history.end = history.end < history.page.moment ? history.end : history.page.moment;
    history.start = parameters_time(&api->parameters, "StartTime", INSTANT_MIN);
    if (history.start < history.page.moment - HISTORY_SECONDS) {
        history.start = history.page.moment - HISTORY_SECONDS;
    }
    if (!api_ready(api)) {
        return;
    }
    size_t at = 0; /* index among all wanted points: market by market, newest first */
    size_t end = history.page.first + history.page.most;
    text_add(&api->body, "<spotPriceHistorySet>");
    for (size_t m = 0; m < api->cloud->options.markets->count && at <= end; m++) {
        const struct market *market = api->cloud->options.markets->list[m];
        size_t first, last;
        if (!history_wants(&history, market)) {
            continue;
        }
        history_range(&history, market, &first, &last);
        size_t count = last > first ? last - first : 0;
        for (size_t i = at < history.page.first ? history.page.first - at : 0; i < count && at + i < end; i++) {
            history_write(api, market, market->points[last - 1 - i]);
        }
        at += count;
    }
    text_add(&api->body, "</spotPriceHistorySet>");
    if (at > end) {
        api_page_next(api, &history.page, end);
    } else {
        text_add(&api->body, "<nextToken/>");
    }
}

/* ---- DescribeInstances ---- */

struct described {
    const struct cloud *cloud;
    const struct instance *instance;
    char *number;
};

static const char *instance_value(const void *context, const char *name) {
    const struct described *described = context;
    const struct instance *instance = described->instance;
    const struct launch_spec *spec = instance->spec;
    if (strcmp(name, "instance-state-code") == 0) {
        snprintf(described->number, 16, "%d", (int)instance->state);
        return described->number;
    }
    if (strcmp(name, "spot-instance-request-id") == 0) {
        return instance->spot ? described->cloud->requests[instance->request]->id : NULL;
    }
    return strcmp(name, "instance-id") == 0           ? instance->id
           : strcmp(name, "instance-state-name") == 0 ? instance_state_name(instance->state)
           : strcmp(name, "instance-type") == 0       ? instance->type->type
           : strcmp(name, "availability-zone") == 0   ? instance->zone
           : strcmp(name, "client-token") == 0        ? instance->token
           : strcmp(name, "instance-lifecycle") == 0  ? (instance->spot ? "spot" : NULL)
           : strcmp(name, "image-id") == 0            ? spec->image
           : strcmp(name, "subnet-id") == 0           ? spec->subnet
           : strcmp(name, "key-name") == 0            ? spec->key_name
           : strcmp(name, "reservation-id") == 0      ? instance->reservation
                                                      : NULL;
}

static bool instance_wanted(const struct api *api, const struct filters *filters, const char *const *ids, size_t count,
                            const struct instance *instance) {
    char number[16];
    struct described described = {api->cloud, instance, number};
    return instance_shown(instance) && list_has(ids, count, instance->id) &&
           filters_match(filters, &instance->tags, instance_value, &described);
}

void api_describe_instances(struct api *api) {
    static const char *const known[] = {"instance-id",
                                        "instance-state-name",
                                        "instance-state-code",
                                        "instance-type",
                                        "availability-zone",
                                        "client-token",
                                        "instance-lifecycle",
                                        "image-id",
                                        "subnet-id",
                                        "key-name",
                                        "reservation-id",
                                        "spot-instance-request-id",
                                        NULL};
    const char *ids[PARAMETERS_LIST_MAX];
    struct filters filters;
    size_t count = parameters_list(&api->parameters, "InstanceId", ids);
    api_filters(api, &filters, known, true);
    struct page page = api_page(api, 5, API_PAGE_MAX, CLOUD_RECORDS_MAX, count > 0);
    for (size_t n = 0; n < count; n++) {
        (void)api_find_instance(api, ids[n]);
    }
    if (!api_ready(api)) {
        return;
    }
    const char *reservation = NULL;
    size_t written = 0;
    size_t i = page.first;
    text_add(&api->body, "<reservationSet>");
    for (; i < api->cloud->instance_count && written < page.most; i++) {
        const struct instance *instance = api->cloud->instances[i];
        if (!instance_wanted(api, &filters, ids, count, instance)) {
            continue;
        }
        if (reservation == NULL || strcmp(reservation, instance->reservation) != 0) {
            text_add(&api->body, reservation != NULL ? "</instancesSet></item><item>" : "<item>");
            xml_text(&api->body, "reservationId", instance->reservation);
            text_add(&api->body, "<ownerId>000000000000</ownerId><groupSet/><instancesSet>");
            reservation = instance->reservation;
        }
        api_write_instance(api, instance);
        written++;
    }
    text_add(&api->body, reservation != NULL ? "</instancesSet></item></reservationSet>" : "</reservationSet>");
    if (i < api->cloud->instance_count) {
        api_page_next(api, &page, i);
    }
}

/* ---- DescribeSpotInstanceRequests ---- */

struct asked {
    const struct cloud *cloud;
    const struct spot_request *request;
};

static const char *request_value(const void *context, const char *name) {
    const struct asked *asked = context;
    const struct spot_request *request = asked->request;
    const struct instance *instance =
        request->instance != MARKET_NONE ? asked->cloud->instances[request->instance] : NULL;
    return strcmp(name, "spot-instance-request-id") == 0     ? request->id
           : strcmp(name, "state") == 0                      ? request_state_name(request->state)
           : strcmp(name, "status-code") == 0                ? request->status
           : strcmp(name, "type") == 0                       ? (request->persistent ? "persistent" : "one-time")
           : strcmp(name, "instance-id") == 0                ? (instance != NULL ? instance->id : NULL)
           : strcmp(name, "launched-availability-zone") == 0 ? (instance != NULL ? instance->zone : NULL)
           : strcmp(name, "launch.instance-type") == 0       ? request->spec->type->type
           : strcmp(name, "availability-zone") == 0          ? request->spec->zone
                                                             : NULL;
}

void api_describe_spot_instance_requests(struct api *api) {
    static const char *const known[] = {"spot-instance-request-id",
                                        "state",
                                        "status-code",
                                        "type",
                                        "instance-id",
                                        "launched-availability-zone",
                                        "launch.instance-type",
                                        "availability-zone",
                                        NULL};
    const char *ids[PARAMETERS_LIST_MAX];
    struct filters filters;
    size_t count = parameters_list(&api->parameters, "SpotInstanceRequestId", ids);
    api_filters(api, &filters, known, true);
    struct page page = api_page(api, 5, API_PAGE_MAX, CLOUD_RECORDS_MAX, count > 0);
    for (size_t i = 0; i < count; i++) {
        (void)api_find_request(api, ids[i]);
    }
    if (!api_ready(api)) {
        return;
    }
    size_t written = 0;
    size_t i = page.first;
    text_add(&api->body, "<spotInstanceRequestSet>");
    for (; i < api->cloud->request_count && written < page.most; i++) {
        struct asked asked = {api->cloud, api->cloud->requests[i]};
        if (request_shown(asked.request) && list_has(ids, count, asked.request->id) &&
            filters_match(&filters, &asked.request->tags, request_value, &asked)) {
            api_write_request(api, asked.request);
            written++;
        }
    }
    text_add(&api->body, "</spotInstanceRequestSet>");
    if (i < api->cloud->request_count) {
        api_page_next(api, &page, i);
    }
}

/* ---- What machines there are ---- */

static void write_type(struct text *body, const struct catalog_price *type) {
    text_add(body, "<item>");
    xml_text(body, "instanceType", type->type);
    text_add(body, "<currentGeneration>true</currentGeneration><supportedUsageClasses><item>on-demand</item>"
                   "<item>spot</item></supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item>"
                   "</supportedArchitectures></processorInfo><vCpuInfo>");
    xml_number(body, "defaultVCpus", type->vcpus);
    text_add(body, "</vCpuInfo><memoryInfo>");
    xml_number(body, "sizeInMiB", type->memory_mib);
    text_format(body, "</memoryInfo><burstablePerformanceSupported>%s</burstablePerformanceSupported></item>",
                catalog_burstable(type->type) ? "true" : "false");
}

static const char *type_value(const void *context, const char *name) {
    const struct catalog_price *type = context;
    return strcmp(name, "instance-type") == 0 ? type->type : NULL;
}

void api_describe_instance_types(struct api *api) {
    static const char *const known[] = {"instance-type", NULL};
    static const struct cloud_tags none;
    const struct catalog *catalog = api->cloud->options.catalog;
    const char *names[PARAMETERS_LIST_MAX];
    struct filters filters;
    size_t count = parameters_list(&api->parameters, "InstanceType", names);
    api_filters(api, &filters, known, false);
    struct page page = api_page(api, 5, 100, 100, count > 0);
    for (size_t i = 0; i < count; i++) {
        if (catalog_find(catalog, names[i], api->cloud->options.region) == NULL) {
            api_error_set(&api->error, 400, "InvalidInstanceType",
                          "The following supplied instance types do not exist: [%.60s]", names[i]);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    size_t written = 0;
    size_t i = page.first;
    text_add(&api->body, "<instanceTypeSet>");
    for (; i < catalog->count && written < page.most; i++) {
        const struct catalog_price *type = &catalog->prices[i];
        if (strcmp(type->region, api->cloud->options.region) == 0 && list_has(names, count, type->type) &&
            filters_match(&filters, &none, type_value, type)) {
            write_type(&api->body, type);
            written++;
        }
    }
    text_add(&api->body, "</instanceTypeSet>");
    if (i < catalog->count) {
        api_page_next(api, &page, i);
    }
}

static const char *zone_value(const void *context, const char *name) {
    const char *zone = context;
    return strcmp(name, "zone-name") == 0 ? zone : strcmp(name, "state") == 0 ? "available" : NULL;
}

void api_describe_availability_zones(struct api *api) {
    static const char *const known[] = {"zone-name", "state", NULL};
    static const struct cloud_tags none;
    const char *names[PARAMETERS_LIST_MAX];
    struct filters filters;
    size_t count = parameters_list(&api->parameters, "ZoneName", names);
    api_filters(api, &filters, known, false);
    (void)parameters_flag(&api->parameters, "AllAvailabilityZones");
    for (size_t i = 0; i < count; i++) {
        if (!cloud_zone_known(api->cloud, names[i])) {
            api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid availability zone: [%.60s]", names[i]);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<availabilityZoneInfo>");
    for (size_t m = 0; m < api->cloud->options.markets->count; m++) {
        const char *zone = api->cloud->options.markets->list[m]->zone;
        if (cloud_first_of_zone(api->cloud, m) && list_has(names, count, zone) &&
            filters_match(&filters, &none, zone_value, zone)) {
            text_add(&api->body, "<item>");
            xml_text(&api->body, "zoneName", zone);
            text_add(&api->body, "<zoneState>available</zoneState>");
            xml_text(&api->body, "regionName", api->cloud->options.region);
            text_add(&api->body, "<messageSet/></item>");
        }
    }
    text_add(&api->body, "</availabilityZoneInfo>");
}

/* ---- DescribeTags ---- */

struct tagged {
    const char *id, *type;
    const struct cloud_tag *tag;
};

static const char *tag_value(const void *context, const char *name) {
    const struct tagged *tagged = context;
    return strcmp(name, "resource-id") == 0     ? tagged->id
           : strcmp(name, "resource-type") == 0 ? tagged->type
           : strcmp(name, "key") == 0           ? tagged->tag->key
           : strcmp(name, "value") == 0         ? tagged->tag->value
                                                : NULL;
}

static void write_tags_of(struct api *api, const struct filters *filters, const char *id, const char *type,
                          const struct cloud_tags *tags) {
    static const struct cloud_tags none;
    for (size_t t = 0; t < tags->count; t++) {
        struct tagged tagged = {id, type, &tags->list[t]};
        if (filters_match(filters, &none, tag_value, &tagged)) {
            text_add(&api->body, "<item>");
            xml_text(&api->body, "resourceId", id);
            xml_text(&api->body, "resourceType", type);
            xml_text(&api->body, "key", tags->list[t].key);
            xml_text(&api->body, "value", tags->list[t].value);
            text_add(&api->body, "</item>");
        }
    }
}

void api_describe_tags(struct api *api) {
    static const char *const known[] = {"resource-id", "resource-type", "key", "value", NULL};
    struct filters filters;
    api_filters(api, &filters, known, false);
    /* pages list machines, then requests */
    struct page page = api_page(api, 5, API_PAGE_MAX, CLOUD_RECORDS_MAX, false);
    if (!api_ready(api)) {
        return;
    }
    size_t instances = api->cloud->instance_count;
    size_t all = instances + api->cloud->request_count;
    size_t i = page.first;
    text_add(&api->body, "<tagSet>");
    for (; i < all && i - page.first < page.most; i++) {
        if (i < instances && instance_shown(api->cloud->instances[i])) {
            const struct instance *instance = api->cloud->instances[i];
            write_tags_of(api, &filters, instance->id, "instance", &instance->tags);
        } else if (i >= instances && request_shown(api->cloud->requests[i - instances])) {
            const struct spot_request *request = api->cloud->requests[i - instances];
            write_tags_of(api, &filters, request->id, "spot-instances-request", &request->tags);
        }
    }
    text_add(&api->body, "</tagSet>");
    if (i < all) {
        api_page_next(api, &page, i);
    }
}
