/* EC2's actions that describe what launches refer to: images, subnets, security groups. See api_private.h,
 * resources.h. */
#include "spotmarket/api_private.h"

#include <stdio.h>
#include <string.h>

enum { PLACE_TEXT_MAX = MARKET_TEXT_MAX + 16 };

/* The ids of the request; if it has none, all ids in the file of resources. */
struct resource_list {
    const char *ids[PARAMETERS_LIST_MAX];
    size_t count;
    bool named; /* the request has ids */
};

static void list_add(struct resource_list *list, const char *id) {
    if (list->count < PARAMETERS_LIST_MAX) {
        list->ids[list->count++] = id;
    }
}

/* Reads NAME.N. If absent, takes the ids of that kind in the file of resources. */
static void list_read(struct api *api, struct resource_list *list, const char *name, const char *kind) {
    const json_t *known = resources_of(&api->state->resources, kind);
    const char *id;
    json_t *entry;
    size_t i;
    list->count = parameters_list(&api->parameters, name, list->ids);
    list->named = list->count > 0;
    if (list->named) {
        return;
    }
    json_array_foreach((json_t *)known, i, entry) {
        list_add(list, json_string_value(entry));
    }
    json_object_foreach((json_t *)known, id, entry) {
        list_add(list, id);
    }
}

/* Rejects ids that do not begin with `prefix`. */
static void list_check_form(struct api *api, const struct resource_list *list, const char *prefix, const char *code) {
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->ids[i], prefix, strlen(prefix)) != 0) {
            api_error_set(&api->error, 400, code, "Invalid id: \"%.60s\" (expecting \"%s...\")", list->ids[i], prefix);
        }
    }
}

/* ---- DescribeImages ---- */

static const char *image_value(const void *context, const char *name) {
    return strcmp(name, "image-id") == 0       ? (const char *)context
           : strcmp(name, "state") == 0        ? "available"
           : strcmp(name, "architecture") == 0 ? "x86_64"
                                               : NULL;
}

void api_describe_images(struct api *api) {
    static const char *const known[] = {"image-id", "state", "architecture", NULL};
    static const struct cloud_tags none;
    struct resource_list list;
    struct filters filters;
    list_read(api, &list, "ImageId", "images");
    api_filters(api, &filters, known, false);
    parameters_ignore(&api->parameters, "Owner.");
    parameters_ignore(&api->parameters, "IncludeDeprecated");
    list_check_form(api, &list, "ami-", "InvalidAMIID.Malformed");
    for (size_t i = 0; i < list.count; i++) {
        if (!resources_have(&api->state->resources, "images", list.ids[i])) {
            api_error_set(&api->error, 400, "InvalidAMIID.NotFound", "The image id '[%.60s]' does not exist",
                          list.ids[i]);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<imagesSet>");
    for (size_t i = 0; i < list.count; i++) {
        if (filters_match(&filters, &none, image_value, list.ids[i])) {
            text_add(&api->body, "<item>");
            xml_text(&api->body, "imageId", list.ids[i]);
            text_add(&api->body, "<imageState>available</imageState><imageOwnerId>000000000000</imageOwnerId>"
                                 "<isPublic>false</isPublic><architecture>x86_64</architecture>"
                                 "<imageType>machine</imageType><virtualizationType>hvm</virtualizationType></item>");
        }
    }
    text_add(&api->body, "</imagesSet>");
}

/* ---- DescribeSubnets ---- */

struct described_subnet {
    const char *id, *zone, *vpc;
};

static const char *subnet_value(const void *context, const char *name) {
    const struct described_subnet *subnet = context;
    return strcmp(name, "subnet-id") == 0           ? subnet->id
           : strcmp(name, "availability-zone") == 0 ? subnet->zone
           : strcmp(name, "vpc-id") == 0            ? subnet->vpc
           : strcmp(name, "state") == 0             ? "available"
                                                    : NULL;
}

static void write_subnet(struct api *api, const struct filters *filters, const char *id) {
    static const struct cloud_tags none;
    struct described_subnet subnet = {.id = id};
    subnet.zone = resources_subnet(&api->state->resources, api->cloud, id, &subnet.vpc);
    if (!filters_match(filters, &none, subnet_value, &subnet)) {
        return;
    }
    text_add(&api->body, "<item>");
    xml_text(&api->body, "subnetId", subnet.id);
    text_add(&api->body, "<state>available</state>");
    xml_text(&api->body, "vpcId", subnet.vpc);
    text_add(&api->body, "<availableIpAddressCount>251</availableIpAddressCount>");
    xml_text(&api->body, "availabilityZone", subnet.zone);
    text_add(&api->body, "<defaultForAz>false</defaultForAz><mapPublicIpOnLaunch>false</mapPublicIpOnLaunch></item>");
}

/* Writes the subnet subnet-ZONE of each zone. */
static void write_zone_subnets(struct api *api, const struct filters *filters) {
    const struct markets *markets = api->cloud->options.markets;
    for (size_t m = 0; m < markets->count; m++) {
        char id[PLACE_TEXT_MAX];
        if (cloud_first_of_zone(api->cloud, m)) {
            snprintf(id, sizeof id, "subnet-%s", markets->list[m]->zone);
            write_subnet(api, filters, id);
        }
    }
}

void api_describe_subnets(struct api *api) {
    static const char *const known[] = {"subnet-id", "availability-zone", "vpc-id", "state", NULL};
    struct resource_list list;
    struct filters filters;
    const char *vpc;
    list_read(api, &list, "SubnetId", "subnets");
    api_filters(api, &filters, known, false);
    for (size_t i = 0; i < list.count; i++) {
        if (resources_subnet(&api->state->resources, api->cloud, list.ids[i], &vpc) == NULL) {
            api_error_set(&api->error, 400, "InvalidSubnetID.NotFound", "The subnet ID '%.60s' does not exist",
                          list.ids[i]);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<subnetSet>");
    if (!list.named && resources_of(&api->state->resources, "subnets") == NULL) {
        write_zone_subnets(api, &filters);
    }
    for (size_t i = 0; i < list.count; i++) {
        write_subnet(api, &filters, list.ids[i]);
    }
    text_add(&api->body, "</subnetSet>");
}

/* ---- DescribeSecurityGroups ---- */

struct described_group {
    const char *id, *vpc;
};

static const char *group_value(const void *context, const char *name) {
    const struct described_group *group = context;
    return strcmp(name, "group-id") == 0 || strcmp(name, "group-name") == 0 ? group->id
           : strcmp(name, "vpc-id") == 0                                    ? group->vpc
                                                                            : NULL;
}

void api_describe_security_groups(struct api *api) {
    static const char *const known[] = {"group-id", "group-name", "vpc-id", NULL};
    static const struct cloud_tags none;
    struct resource_list list;
    struct filters filters;
    list_read(api, &list, "GroupId", "security_groups");
    api_filters(api, &filters, known, false);
    list_check_form(api, &list, "sg-", "InvalidGroupId.Malformed");
    for (size_t i = 0; i < list.count; i++) {
        if (resources_group(&api->state->resources, list.ids[i]) == NULL) {
            api_error_set(&api->error, 400, "InvalidGroup.NotFound", "The security group '%.60s' does not exist",
                          list.ids[i]);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    text_add(&api->body, "<securityGroupInfo>");
    for (size_t i = 0; i < list.count; i++) {
        struct described_group group = {list.ids[i], resources_group(&api->state->resources, list.ids[i])};
        if (filters_match(&filters, &none, group_value, &group)) {
            text_add(&api->body, "<item><ownerId>000000000000</ownerId>");
            xml_text(&api->body, "groupId", group.id);
            xml_text(&api->body, "groupName", group.id);
            xml_text(&api->body, "vpcId", group.vpc);
            text_add(&api->body, "<ipPermissions/><ipPermissionsEgress/></item>");
        }
    }
    text_add(&api->body, "</securityGroupInfo>");
}
