/* What EC2's actions share: filters, pages, tags, client tokens, and XML of machines and requests. See
 * api_private.h. */
#include "agileml/base/instant.h"
#include "agileml/base/memory.h"
#include "spotmarket/api_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_FIRST_MAX = 999999999 }; /* largest number of nine digits */

bool api_ready(struct api *api) {
    bool dry = parameters_flag(&api->parameters, "DryRun");
    if (!parameters_end(&api->parameters)) {
        return false;
    }
    if (dry) {
        api_error_set(&api->error, 412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.");
    }
    return !dry;
}

/* ---- Filters ---- */

bool api_name_known(const char *const *known, const char *name) {
    while (*known != NULL && strcmp(*known, name) != 0) {
        known++;
    }
    return *known != NULL;
}

void api_filters(struct api *api, struct filters *filters, const char *const *known, bool tags) {
    filters->count = 0;
    const char *name;
    while ((name = parameters_text(&api->parameters, "Filter.%zu.Name", filters->count + 1)) != NULL) {
        if (filters->count == API_FILTERS_MAX) {
            api_error_set(&api->error, 400, "FilterLimitExceeded", "More than %d filters", API_FILTERS_MAX);
            return;
        }
        struct filter *filter = &filters->list[filters->count++];
        *filter = (struct filter){.name = name};
        if (!api_name_known(known, name) &&
            !(tags && (strncmp(name, "tag:", 4) == 0 || strcmp(name, "tag-key") == 0))) {
            api_error_set(&api->error, 400, "InvalidParameterValue", "The filter '%.100s' is invalid", name);
        }
        const char *value;
        while ((value = parameters_text(&api->parameters, "Filter.%zu.Value.%zu", filters->count,
                                        filter->value_count + 1)) != NULL) {
            if (filter->value_count == API_FILTER_VALUES_MAX) {
                api_error_set(&api->error, 400, "FilterLimitExceeded", "More than %d values of a filter",
                              API_FILTER_VALUES_MAX);
                return;
            }
            filter->values[filter->value_count++] = value;
        }
        if (filter->value_count == 0) {
            api_error_set(&api->error, 400, "InvalidParameterValue", "The filter '%.100s' has no value", name);
        }
    }
}

/* '*' matches any characters, '?' one character; '\' makes the next character literal. */
static bool wildcard_match(const char *pattern, const char *text) {
    const char *star = NULL;
    const char *retry = NULL;
    while (*text != '\0') {
        bool literal = pattern[0] == '\\' && pattern[1] != '\0';
        if (*pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if ((!literal && (*pattern == '?' || (*pattern != '\0' && *pattern == *text))) ||
                   (literal && pattern[1] == *text)) {
            pattern += literal ? 2 : 1;
            text++;
        } else if (star != NULL) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

static bool filter_takes(const struct filter *filter, const char *value) {
    for (size_t v = 0; value != NULL && v < filter->value_count; v++) {
        if (wildcard_match(filter->values[v], value)) {
            return true;
        }
    }
    return false;
}

static bool filter_takes_key(const struct filter *filter, const struct cloud_tags *tags) {
    for (size_t t = 0; t < tags->count; t++) {
        if (filter_takes(filter, tags->list[t].key)) {
            return true;
        }
    }
    return false;
}

bool filters_match(const struct filters *filters, const struct cloud_tags *tags,
                   const char *(*value)(const void *context, const char *name), const void *context) {
    for (size_t f = 0; f < filters->count; f++) {
        const struct filter *filter = &filters->list[f];
        bool match;
        if (strncmp(filter->name, "tag:", 4) == 0) {
            match = filter_takes(filter, cloud_tags_get(tags, filter->name + 4));
        } else if (strcmp(filter->name, "tag-key") == 0) {
            match = filter_takes_key(filter, tags);
        } else {
            match = filter_takes(filter, value(context, filter->name));
        }
        if (!match) {
            return false;
        }
    }
    return true;
}

/* ---- Pages ---- */

/* Parses a token made by api_page_next. Its time must not be in the future. */
static bool page_parse(const char *token, struct page *page, int64_t now) {
    int end = 0;
    return strlen(token) < 60 && strspn(token, "page-0123456789") == strlen(token) &&
           sscanf(token, "page-%9zu-%15" SCNd64 "%n", &page->first, &page->moment, &end) == 2 && token[end] == '\0' &&
           page->first <= PAGE_FIRST_MAX && page->moment >= 0 && page->moment <= now;
}

struct page api_page(struct api *api, int64_t least, int64_t most, int64_t otherwise, bool ids) {
    int64_t asked = parameters_integer(&api->parameters, "MaxResults", least, most, 0);
    const char *token = parameters_text(&api->parameters, "NextToken");
    struct page page = {.moment = api->cloud->now, .most = (size_t)(asked > 0 ? asked : otherwise)};
    if (asked > 0 && ids) {
        api_error_set(&api->error, 400, "InvalidParameterCombination",
                      "The parameter MaxResults cannot be used with ids in the same request");
    }
    if (api->state->page > 0 && page.most > (size_t)api->state->page) {
        page.most = (size_t)api->state->page;
    }
    if (token != NULL && token[0] != '\0' && !page_parse(token, &page, api->cloud->now)) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "The token '%.60s' is invalid", token);
    }
    return page;
}

void api_page_next(struct api *api, const struct page *page, size_t next) {
    text_format(&api->body, "<nextToken>page-%zu-%" PRId64 "</nextToken>", next, page->moment);
}

/* ---- Tags ---- */

void api_tag_check(struct api *api, const char *key, const char *value) {
    if (key[0] == '\0' || strlen(key) > API_TAG_KEY_MAX || strncmp(key, "aws:", 4) == 0) {
        api_error_set(&api->error, 400, "InvalidParameterValue",
                      "Tag key '%.60s': expected 1 to %d bytes that do not "
                      "begin with aws:",
                      key, API_TAG_KEY_MAX);
    }
    if (!text_is_clean(key) || !text_is_clean(value)) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "A tag is not UTF-8 text");
    }
    if (strlen(value) > API_TAG_VALUE_MAX) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "The value of tag '%.60s' is longer than %d bytes",
                      key, API_TAG_VALUE_MAX);
    }
}

static void tag_specification(struct api *api, const char *prefix, size_t n, struct cloud_tags *tags) {
    const char *key;
    for (size_t t = 1; (key = parameters_text(&api->parameters, "%s.%zu.Tag.%zu.Key", prefix, n, t)) != NULL; t++) {
        const char *value = parameters_text(&api->parameters, "%s.%zu.Tag.%zu.Value", prefix, n, t);
        value = value != NULL ? value : "";
        api_tag_check(api, key, value);
        if (tags != NULL && !cloud_tags_set(tags, key, value)) {
            api_error_set(&api->error, 400, "TagLimitExceeded", "More than %d tags", CLOUD_TAGS_MAX);
            return;
        }
    }
}

void api_tag_specifications(struct api *api, const char *prefix, const char *const *known, const char *type,
                            struct cloud_tags *tags) {
    const char *resource;
    *tags = (struct cloud_tags){0};
    for (size_t n = 1; (resource = parameters_text(&api->parameters, "%s.%zu.ResourceType", prefix, n)) != NULL; n++) {
        if (!api_name_known(known, resource)) {
            api_error_set(&api->error, 400, "InvalidParameterValue",
                          "'%.60s' is not a valid taggable resource type here", resource);
        }
        tag_specification(api, prefix, n, strcmp(resource, type) == 0 ? tags : NULL);
    }
}

void api_interruption_behavior(struct api *api, const char *name) {
    const char *behavior = parameters_text(&api->parameters, "%s", name);
    if (behavior != NULL && strcmp(behavior, "terminate") != 0) {
        api_error_set(&api->error, 400, "UnsupportedOperation",
                      "InstanceInterruptionBehavior: spotmarket supports terminate alone, got '%.40s'", behavior);
    }
}

static void write_tags(struct api *api, const struct cloud_tags *tags) {
    text_add(&api->body, "<tagSet>");
    for (size_t t = 0; t < tags->count; t++) {
        text_add(&api->body, "<item>");
        xml_text(&api->body, "key", tags->list[t].key);
        xml_text(&api->body, "value", tags->list[t].value);
        text_add(&api->body, "</item>");
    }
    text_add(&api->body, "</tagSet>");
}

/* ---- Machines and requests ---- */

static void write_groups(struct api *api, const struct launch_spec *spec) {
    text_add(&api->body, "<groupSet>");
    for (size_t g = 0; g < spec->group_count; g++) {
        text_add(&api->body, "<item>");
        xml_text(&api->body, "groupId", spec->groups[g]);
        xml_text(&api->body, "groupName", spec->groups[g]);
        text_add(&api->body, "</item>");
    }
    text_add(&api->body, "</groupSet>");
}

void api_write_state(struct text *body, const char *name, enum instance_state state) {
    text_format(body, "<%s>", name);
    xml_number(body, "code", state);
    xml_text(body, "name", instance_state_name(state));
    text_format(body, "</%s>", name);
}

/* Writes the reason as EC2 does: with the time if the user ended the machine, without it if EC2 did. */
static void write_reason(struct text *body, const struct instance *instance) {
    char reason[64] = "";
    if (instance->ended != MARKET_NEVER && !instance_lives(instance) && !instance->evicted) {
        char ended[INSTANT_TEXT_MAX];
        instant_format(instance->ended, ended);
        snprintf(reason, sizeof reason, "User initiated (%.10s %.8s GMT)", ended, ended + 11);
    }
    xml_text(body, "reason", reason[0] != '\0' ? reason : instance->reason_code);
}

void api_write_instance(struct api *api, const struct instance *instance) {
    struct text *body = &api->body;
    const struct launch_spec *spec = instance->spec;
    text_add(body, "<item>");
    xml_text(body, "instanceId", instance->id);
    xml_text(body, "imageId", spec->image);
    api_write_state(body, "instanceState", instance->state);
    write_reason(body, instance);
    xml_text(body, "keyName", spec->key_name);
    text_add(body, "<amiLaunchIndex>0</amiLaunchIndex>");
    xml_text(body, "instanceType", instance->type->type);
    xml_time(body, "launchTime", instance->launched);
    text_add(body, "<placement>");
    xml_text(body, "availabilityZone", instance->zone);
    text_add(body,
             "<groupName/><tenancy>default</tenancy></placement><monitoring><state>disabled</state></monitoring>");
    xml_text(body, "subnetId", spec->subnet);
    if (instance_lives(instance)) {
        text_add(body, "<privateIpAddress>127.0.0.1</privateIpAddress>");
    }
    if (instance->reason_code[0] != '\0') {
        text_add(body, "<stateReason>");
        xml_text(body, "code", instance->reason_code);
        xml_text(body, "message", instance->reason);
        text_add(body, "</stateReason>");
    }
    text_add(body, "<architecture>x86_64</architecture>");
    if (instance->spot) {
        text_add(body, "<instanceLifecycle>spot</instanceLifecycle>");
        xml_text(body, "spotInstanceRequestId", api->cloud->requests[instance->request]->id);
    }
    xml_text(body, "clientToken", instance->token);
    write_tags(api, &instance->tags);
    write_groups(api, spec);
    text_add(body, "</item>");
}

static void write_launch_specification(struct api *api, const struct launch_spec *spec) {
    text_add(&api->body, "<launchSpecification>");
    xml_text(&api->body, "imageId", spec->image);
    xml_text(&api->body, "keyName", spec->key_name);
    write_groups(api, spec);
    xml_text(&api->body, "instanceType", spec->type->type);
    if (spec->zone[0] != '\0') {
        text_add(&api->body, "<placement>");
        xml_text(&api->body, "availabilityZone", spec->zone);
        text_add(&api->body, "</placement>");
    }
    xml_text(&api->body, "subnetId", spec->subnet);
    text_add(&api->body, "<monitoring><enabled>false</enabled></monitoring></launchSpecification>");
}

void api_write_request(struct api *api, const struct spot_request *request) {
    struct text *body = &api->body;
    char price[PRICE_TEXT_MAX];
    price_format(request->bid, price);
    text_add(body, "<item>");
    xml_text(body, "spotInstanceRequestId", request->id);
    xml_text(body, "spotPrice", price);
    xml_text(body, "type", request->persistent ? "persistent" : "one-time");
    xml_text(body, "state", request_state_name(request->state));
    text_add(body, "<status>");
    xml_text(body, "code", request->status);
    xml_time(body, "updateTime", request->updated);
    xml_text(body, "message", request->message);
    text_add(body, "</status>");
    write_launch_specification(api, request->spec);
    if (request->instance != MARKET_NONE && request->state != REQUEST_OPEN) {
        xml_text(body, "instanceId", api->cloud->instances[request->instance]->id);
        xml_text(body, "launchedAvailabilityZone", api->cloud->instances[request->instance]->zone);
    }
    xml_time(body, "createTime", request->created);
    if (request->valid_until != MARKET_NEVER) {
        xml_time(body, "validUntil", request->valid_until);
    }
    text_add(body, "<productDescription>Linux/UNIX</productDescription>");
    write_tags(api, &request->tags);
    text_add(body, "<instanceInterruptionBehavior>terminate</instanceInterruptionBehavior></item>");
}

const struct catalog_price *api_type(struct api *api, const char *name) {
    const struct catalog_price *type = catalog_find(api->cloud->options.catalog, name, api->cloud->options.region);
    if (type == NULL) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid value '%.60s' for InstanceType.", name);
    }
    return type;
}

struct instance *api_find_instance(struct api *api, const char *id) {
    struct instance *instance = cloud_find_instance(api->cloud, id);
    if (strncmp(id, "i-", 2) != 0) {
        api_error_set(&api->error, 400, "InvalidInstanceID.Malformed", "Invalid id: \"%.60s\"", id);
    } else if (instance == NULL) {
        api_error_set(&api->error, 400, "InvalidInstanceID.NotFound", "The instance ID '%.60s' does not exist", id);
    }
    return instance;
}

struct spot_request *api_find_request(struct api *api, const char *id) {
    struct spot_request *request = cloud_find_request(api->cloud, id);
    if (strncmp(id, "sir-", 4) != 0) {
        api_error_set(&api->error, 400, "InvalidSpotInstanceRequestID.Malformed", "Invalid id: \"%.60s\"", id);
    } else if (request == NULL) {
        api_error_set(&api->error, 400, "InvalidSpotInstanceRequestID.NotFound",
                      "The spot instance request ID '%.60s' does not exist", id);
    }
    return request;
}

/* ---- Tokens ---- */

const char *api_token(struct api *api) {
    const char *token = parameters_text(&api->parameters, "ClientToken");
    token = token != NULL ? token : "";
    bool good = strlen(token) < CLOUD_TOKEN_TEXT;
    for (const char *c = token; good && *c != '\0'; c++) {
        good = *c >= ' ' && *c <= '~';
    }
    if (!good) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "ClientToken: expected at most %d ASCII characters",
                      CLOUD_TOKEN_TEXT - 1);
    }
    return token;
}

/* Returns all parameters as one text, from malloc. */
static char *api_arguments(const struct api *api) {
    struct text text = {0};
    text_add(&text, "");
    for (size_t i = 0; i < api->parameters.count; i++) {
        text_format(&text, "%s=%s\n", api->parameters.list[i].name, api->parameters.list[i].value);
    }
    return text.data;
}

bool api_repeated(struct api *api, const char *token, struct attempt **attempt) {
    *attempt = token[0] != '\0' ? cloud_attempt(api->cloud, api->action, token) : NULL;
    if (*attempt == NULL) {
        return false;
    }
    char *arguments = api_arguments(api);
    if (strcmp(arguments, (*attempt)->arguments) != 0) {
        api_error_set(
            &api->error, 400, "IdempotentParameterMismatch",
            "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).");
    }
    free(arguments);
    return true;
}

void api_remember(struct api *api, const char *token, size_t first, size_t count, const char *answer) {
    if (token[0] == '\0') {
        return;
    }
    struct attempt attempt = {.arguments = api_arguments(api),
                              .first = first,
                              .count = count,
                              .answer = answer != NULL ? memory_string(answer) : NULL};
    snprintf(attempt.token, sizeof attempt.token, "%s", token);
    cloud_remember(api->cloud, api->action, &attempt);
}
