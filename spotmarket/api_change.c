/* EC2's actions that launch machines, end them, and tag them. See api_private.h. */
#include "spotmarket/api_private.h"

#include <string.h>

static const char *const LAUNCH_TAGGED[] = {"instance", "volume", "network-interface", "spot-instances-request", NULL};

/* ---- What launches share ---- */

struct launch {
    const char *token;
    bool spot, persistent;
    int64_t bid; /* PRICE_UNKNOWN: on demand */
    int64_t least, most;
    struct launch_spec *spec;
    struct cloud_tags tags, request_tags;
};

static void launch_close(struct launch *launch) {
    launch_spec_drop(launch->spec);
    cloud_tags_close(&launch->tags);
    cloud_tags_close(&launch->request_tags);
}

/* Returns whether the type is "persistent". Rejects any other type but "one-time". */
static bool launch_persistent(struct api *api, const char *type) {
    if (type != NULL && strcmp(type, "one-time") != 0 && strcmp(type, "persistent") != 0) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid spot instance type '%.40s'", type);
    }
    return type != NULL && strcmp(type, "persistent") == 0;
}

/* Rejects a specification without an image or a type, or with resources that do not exist. */
static void launch_complete(struct api *api, const struct launch_spec *spec) {
    if (spec->image == NULL) {
        api_error_set(&api->error, 400, "MissingParameter", "The request must contain the parameter ImageId");
    }
    if (spec->type == NULL) {
        api_error_set(&api->error, 400, "MissingParameter", "The request must contain the parameter InstanceType");
    }
    (void)resources_allow(&api->state->resources, api->cloud, spec, &api->error);
}

void api_launch_limit(struct api *api) {
    api_error_set(&api->error, 500, "InternalError",
                  "This spotmarket has reached its limit of %d launches: start it anew", CLOUD_RECORDS_MAX);
}

/* ---- RunInstances ---- */

static void run_market_options(struct api *api, struct launch *launch) {
    struct parameters *p = &api->parameters;
    const char *market = parameters_text(p, "InstanceMarketOptions.MarketType");
    launch->spot = market != NULL && strcmp(market, "spot") == 0;
    if (market != NULL && !launch->spot) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid market type '%.40s'", market);
    }
    if (!launch->spot && parameters_has(p, "InstanceMarketOptions.SpotOptions.")) {
        api_error_set(&api->error, 400, "InvalidParameterCombination",
                      "SpotOptions need InstanceMarketOptions.MarketType=spot");
    }
    launch->bid = parameters_price(p, "InstanceMarketOptions.SpotOptions.MaxPrice");
    launch->persistent =
        launch_persistent(api, parameters_text(p, "InstanceMarketOptions.SpotOptions.SpotInstanceType"));
    api_interruption_behavior(api, "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior");
    /* checked, but without effect: the request is fulfilled at once */
    (void)parameters_time(p, "InstanceMarketOptions.SpotOptions.ValidUntil", 0);
}

static void run_read(struct api *api, struct launch *launch) {
    struct parameters *p = &api->parameters;
    const struct launch_template *template = NULL;
    size_t version = 0;
    bool from_template = api_template(api, "LaunchTemplate.", &template, &version);
    api_tag_specifications(api, "TagSpecification", LAUNCH_TAGGED, "instance", &launch->tags);
    api_tag_specifications(api, "TagSpecification", LAUNCH_TAGGED, "spot-instances-request", &launch->request_tags);
    launch->spec = api_spec(api, "", from_template ? template->versions[version - 1] : NULL);
    if (from_template && launch->tags.count == 0) {
        cloud_tags_copy(&launch->tags, &template->tags[version - 1]);
    }
    run_market_options(api, launch);
    (void)parameters_required(p, "MinCount");
    (void)parameters_required(p, "MaxCount");
    launch->least = parameters_integer(p, "MinCount", 1, CLOUD_LAUNCH_MAX, 1);
    launch->most = parameters_integer(p, "MaxCount", 1, CLOUD_LAUNCH_MAX, 1);
    if (launch->most < launch->least) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "MaxCount is less than MinCount");
    }
    launch_complete(api, launch->spec);
    if (launch->spot && launch->bid == PRICE_UNKNOWN && launch->spec->type != NULL) {
        launch->bid = launch->spec->type->price;
    }
}

static void run_write(struct api *api, size_t first, size_t count) {
    const struct instance *one = api->cloud->instances[first];
    xml_text(&api->body, "reservationId", one->reservation);
    text_add(&api->body, "<ownerId>000000000000</ownerId><groupSet/><instancesSet>");
    for (size_t i = first; i < first + count; i++) {
        if (instance_shown(api->cloud->instances[i])) {
            api_write_instance(api, api->cloud->instances[i]);
        }
    }
    text_add(&api->body, "</instancesSet>");
}

/* Launches up to `most` machines in `zone`. Returns their number, and sets *first to the index of the first. */
static size_t launch_in(struct api *api, const struct launch *launch, const char *zone, size_t most, size_t *first) {
    struct cloud *cloud = api->cloud;
    char reservation[CLOUD_ID_TEXT];
    size_t count = 0;
    *first = cloud->instance_count;
    cloud_new_id(cloud, "r-", reservation);
    for (; count < most; count++) {
        struct instance *instance = cloud_launch(cloud, launch->spec, zone, launch->bid, launch->persistent,
                                                 reservation, launch->token, &launch->tags);
        if (instance == NULL) {
            break;
        }
        if (instance->spot) {
            cloud_tags_copy(&cloud->requests[instance->request]->tags, &launch->request_tags);
        }
    }
    return count;
}

static void run_launch(struct api *api, const struct launch *launch) {
    const struct launch_spec *spec = launch->spec;
    const char *zone = spec->zone[0] != '\0' ? spec->zone : cloud_zone(api->cloud, spec->type, launch->bid);
    struct cloud_room room = {.code = "Unsupported", .message = "The requested instance type is in no zone here"};
    if (api->no_capacity) {
        room = (struct cloud_room){.code = "InsufficientInstanceCapacity", .message = "There is not enough capacity"};
    } else if (zone != NULL) {
        room = cloud_room(api->cloud, spec->type, zone, launch->bid);
    }
    size_t most = (size_t)launch->most < room.machines ? (size_t)launch->most : room.machines;
    if (room.machines < (size_t)launch->least) {
        bool capacity = strcmp(room.code, "InsufficientInstanceCapacity") == 0;
        api_error_set(&api->error, capacity ? 500 : 400, room.code, "%s", room.message);
        return;
    }
    if (api->cloud->instance_count + most > CLOUD_RECORDS_MAX || api->cloud->request_count + most > CLOUD_RECORDS_MAX ||
        api->cloud->attempt_count == CLOUD_RECORDS_MAX) { /* the call could not be remembered with its token */
        api_launch_limit(api);
        return;
    }
    size_t first;
    size_t count = launch_in(api, launch, zone, most, &first);
    api_remember(api, launch->token, first, count, NULL);
    run_write(api, first, count);
}

void api_run_instances(struct api *api) {
    struct launch launch = {.token = api_token(api), .bid = PRICE_UNKNOWN};
    struct attempt *attempt;
    run_read(api, &launch);
    if (api_ready(api)) {
        if (!api_repeated(api, launch.token, &attempt)) {
            run_launch(api, &launch);
        } else if (api->error.status == 0) {
            run_write(api, attempt->first, attempt->count);
        }
    }
    launch_close(&launch);
}

/* ---- RequestSpotInstances ---- */

static void request_write(struct api *api, size_t first, size_t count) {
    text_add(&api->body, "<spotInstanceRequestSet>");
    for (size_t i = first; i < first + count; i++) {
        if (request_shown(api->cloud->requests[i])) {
            api_write_request(api, api->cloud->requests[i]);
        }
    }
    text_add(&api->body, "</spotInstanceRequestSet>");
}

static void request_make(struct api *api, const struct launch *launch, int64_t from, int64_t until) {
    struct cloud *cloud = api->cloud;
    int64_t vcpus = cloud_vcpus(cloud, true) + launch->most * launch->spec->type->vcpus;
    if (cloud->options.spot_quota > 0 && vcpus > cloud->options.spot_quota) {
        api_error_set(&api->error, 400, "MaxSpotInstanceCountExceeded", "Max spot instance count exceeded");
        return;
    }
    if (cloud->request_count + (size_t)launch->most > CLOUD_RECORDS_MAX || cloud->attempt_count == CLOUD_RECORDS_MAX) {
        api_launch_limit(api);
        return;
    }
    size_t first = cloud->request_count;
    for (int64_t i = 0; i < launch->most; i++) {
        struct spot_request *request = cloud_request(cloud, launch->spec, launch->bid, launch->persistent, from, until,
                                                     launch->token, &launch->request_tags);
        if (api->no_capacity) {
            cloud_defer(cloud, request);
        }
    }
    api_remember(api, launch->token, first, (size_t)launch->most, NULL);
    request_write(api, first, (size_t)launch->most);
}

void api_request_spot_instances(struct api *api) {
    static const char *const tagged[] = {"spot-instances-request", NULL};
    struct parameters *p = &api->parameters;
    struct launch launch = {.token = api_token(api), .spot = true};
    struct attempt *attempt;
    api_tag_specifications(api, "TagSpecification", tagged, tagged[0], &launch.request_tags);
    launch.spec = api_spec(api, "LaunchSpecification.", NULL);
    launch_complete(api, launch.spec);
    launch.most = parameters_integer(p, "InstanceCount", 1, CLOUD_LAUNCH_MAX, 1);
    launch.bid = parameters_price(p, "SpotPrice");
    launch.persistent = launch_persistent(api, parameters_text(p, "Type"));
    api_interruption_behavior(api, "InstanceInterruptionBehavior");
    int64_t from = parameters_time(p, "ValidFrom", api->cloud->now);
    int64_t until = parameters_time(p, "ValidUntil", MARKET_NEVER);
    if (launch.bid == PRICE_UNKNOWN && launch.spec->type != NULL) {
        launch.bid = launch.spec->type->price;
    }
    if (until <= from || (until <= api->cloud->now)) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "ValidUntil is not in the future and after ValidFrom");
    }
    if (api_ready(api)) {
        if (!api_repeated(api, launch.token, &attempt)) {
            request_make(api, &launch, from, until);
        } else if (api->error.status == 0) {
            request_write(api, attempt->first, attempt->count);
        }
    }
    launch_close(&launch);
}

/* ---- Ends ---- */

void api_terminate_instances(struct api *api) {
    const char *ids[PARAMETERS_LIST_MAX];
    size_t count = parameters_list(&api->parameters, "InstanceId", ids);
    if (count == 0) {
        (void)parameters_required(&api->parameters, "InstanceId");
    }
    for (size_t i = 0; i < count; i++) {
        (void)api_find_instance(api, ids[i]);
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<instancesSet>");
    for (size_t i = 0; i < count; i++) {
        struct instance *instance = cloud_find_instance(api->cloud, ids[i]);
        enum instance_state before = instance->state;
        cloud_terminate(api->cloud, instance);
        text_add(&api->body, "<item>");
        xml_text(&api->body, "instanceId", instance->id);
        api_write_state(&api->body, "currentState", instance->state);
        api_write_state(&api->body, "previousState", before);
        text_add(&api->body, "</item>");
    }
    text_add(&api->body, "</instancesSet>");
}

void api_cancel_spot_instance_requests(struct api *api) {
    const char *ids[PARAMETERS_LIST_MAX];
    size_t count = parameters_list(&api->parameters, "SpotInstanceRequestId", ids);
    if (count == 0) {
        (void)parameters_required(&api->parameters, "SpotInstanceRequestId");
    }
    for (size_t i = 0; i < count; i++) {
        (void)api_find_request(api, ids[i]);
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<spotInstanceRequestSet>");
    for (size_t i = 0; i < count; i++) {
        struct spot_request *request = cloud_find_request(api->cloud, ids[i]);
        cloud_cancel(api->cloud, request);
        text_add(&api->body, "<item>");
        xml_text(&api->body, "spotInstanceRequestId", request->id);
        xml_text(&api->body, "state", request_state_name(request->state));
        text_add(&api->body, "</item>");
    }
    text_add(&api->body, "</spotInstanceRequestSet>");
}

/* ---- CreateTags ---- */

/* Returns the tags of the instance or request with that id; NULL with an error when there is none. */
static struct cloud_tags *tags_of(struct api *api, const char *id) {
    if (strncmp(id, "sir-", 4) == 0) {
        struct spot_request *request = api_find_request(api, id);
        return request != NULL ? &request->tags : NULL;
    }
    struct instance *instance = api_find_instance(api, id);
    return instance != NULL ? &instance->tags : NULL;
}

void api_create_tags(struct api *api) {
    const char *ids[PARAMETERS_LIST_MAX];
    struct cloud_tags tags = {0};
    const char *key;
    size_t count = parameters_list(&api->parameters, "ResourceId", ids);
    for (size_t t = 1; (key = parameters_text(&api->parameters, "Tag.%zu.Key", t)) != NULL; t++) {
        const char *value = parameters_text(&api->parameters, "Tag.%zu.Value", t);
        api_tag_check(api, key, value != NULL ? value : "");
        if (!cloud_tags_set(&tags, key, value != NULL ? value : "")) {
            api_error_set(&api->error, 400, "TagLimitExceeded", "More than %d tags", CLOUD_TAGS_MAX);
            break;
        }
    }
    if (count == 0 || tags.count == 0) {
        (void)parameters_required(&api->parameters, count == 0 ? "ResourceId.1" : "Tag.1.Key");
    }
    for (size_t i = 0; i < count; i++) {
        const struct cloud_tags *old = tags_of(api, ids[i]);
        if (old != NULL && old->count + tags.count > CLOUD_TAGS_MAX) {
            api_error_set(&api->error, 400, "TagLimitExceeded", "More than %d tags on %.60s", CLOUD_TAGS_MAX, ids[i]);
        }
    }
    if (api_ready(api)) {
        for (size_t i = 0; i < count; i++) {
            cloud_tags_copy(tags_of(api, ids[i]), &tags);
        }
        api->cloud->changes++;
        text_add(&api->body, "<return>true</return>");
    }
    cloud_tags_close(&tags);
}
