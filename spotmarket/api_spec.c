/* Launch specifications of EC2's actions, and launch templates. See api_private.h. */
#include "agileml/base/memory.h"
#include "spotmarket/api_private.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_NAME_MIN = 3, TEMPLATE_NAME_MAX = 128, BASE64_MAX = (CLOUD_USER_DATA_MAX + 2) / 3 * 4 };

/* ---- Specifications ---- */

static const char *spec_text(struct api *api, const char *prefix, const char *name) {
    return parameters_text(&api->parameters, "%s%s", prefix, name);
}

static void spec_set(char **field, const char *value) {
    if (value != NULL) {
        free(*field);
        *field = memory_string(value);
    }
}

static char *copy_of(const char *text) {
    return text != NULL ? memory_string(text) : NULL;
}

static struct launch_spec *spec_copy(const struct launch_spec *base) {
    struct launch_spec *spec = launch_spec_new(base->type);
    memcpy(spec->zone, base->zone, sizeof spec->zone);
    spec->image = copy_of(base->image);
    spec->key_name = copy_of(base->key_name);
    spec->profile = copy_of(base->profile);
    spec->subnet = copy_of(base->subnet);
    for (; spec->group_count < base->group_count; spec->group_count++) {
        spec->groups[spec->group_count] = memory_string(base->groups[spec->group_count]);
    }
    if (base->user_data != NULL) {
        spec->user_data = memory_zeroed(base->user_data_size + 1, 1);
        memcpy(spec->user_data, base->user_data, base->user_data_size);
        spec->user_data_size = base->user_data_size;
    }
    spec->terminate_on_shutdown = base->terminate_on_shutdown;
    return spec;
}

static void spec_user_data(struct api *api, struct launch_spec *spec, const char *base64) {
    size_t length = strlen(base64);
    if (length > BASE64_MAX) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "User data is limited to %d bytes",
                      CLOUD_USER_DATA_MAX);
        return;
    }
    char *data = memory_zeroed(length / 4 * 3 + 4, 1);
    size_t padding = length > 0 && base64[length - 1] == '=' ? (length > 1 && base64[length - 2] == '=' ? 2 : 1) : 0;
    int size =
        length % 4 == 0 ? EVP_DecodeBlock((unsigned char *)data, (const unsigned char *)base64, (int)length) : -1;
    if (size < (int)padding) {
        api_error_set(&api->error, 400, "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.");
        free(data);
        return;
    }
    free(spec->user_data);
    spec->user_data = data;
    spec->user_data_size = (size_t)size - padding;
    data[spec->user_data_size] = '\0';
}

void api_spec_place(struct api *api, const char *subnet, const char *zone, char place[MARKET_TEXT_MAX]) {
    const char *vpc;
    const char *there = subnet != NULL ? resources_subnet(&api->state->resources, api->cloud, subnet, &vpc) : NULL;
    if (there != NULL) {
        snprintf(place, MARKET_TEXT_MAX, "%s", there);
    } else if (subnet != NULL) {
        bool listed = resources_of(&api->state->resources, "subnets") != NULL;
        api_error_set(&api->error, 400, "InvalidSubnetID.NotFound", "The subnet ID '%.60s' does not exist%s", subnet,
                      listed ? "" : ": here they are subnet-ZONE");
    }
    if (zone == NULL) {
        return;
    }
    if (!cloud_zone_known(api->cloud, zone)) {
        api_error_set(&api->error, 400, "InvalidParameterValue", "Invalid availability zone: [%.60s]", zone);
    } else if (subnet != NULL && strcmp(place, zone) != 0) {
        api_error_set(&api->error, 400, "InvalidParameterCombination",
                      "The subnet and the availability zone are not the same place");
    } else {
        snprintf(place, MARKET_TEXT_MAX, "%s", zone);
    }
}

static void spec_groups(struct api *api, const char *prefix, struct launch_spec *spec) {
    const char *group;
    char name[PARAMETERS_NAME_MAX];
    for (size_t n = 1; (group = parameters_text(&api->parameters, "%sSecurityGroupId.%zu", prefix, n)) != NULL; n++) {
        if (strncmp(group, "sg-", 3) != 0) {
            api_error_set(&api->error, 400, "InvalidGroupId.Malformed", "Invalid id: \"%.60s\" (expecting \"sg-...\")",
                          group);
        }
        if (n == 1) { /* replaces the template's groups */
            while (spec->group_count > 0) {
                free(spec->groups[--spec->group_count]);
            }
        }
        if (spec->group_count == CLOUD_GROUPS_MAX) {
            api_error_set(&api->error, 400, "SecurityGroupsPerInstanceLimitExceeded", "More than %d security groups",
                          CLOUD_GROUPS_MAX);
            return;
        }
        spec->groups[spec->group_count++] = memory_string(group);
    }
    snprintf(name, sizeof name, "%sSecurityGroup.", prefix);
    parameters_ignore(&api->parameters, name);
}

/* Ignores parameters that EC2 has and that have no effect here. */
static void spec_ignore(struct api *api, const char *prefix) {
    static const char *const names[] = {"BlockDeviceMapping.",   "Monitoring.",           "EbsOptimized",
                                        "MetadataOptions.",      "DisableApiTermination", "CreditSpecification.",
                                        "PrivateDnsNameOptions."};
    char name[PARAMETERS_NAME_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, names[i]);
        parameters_ignore(&api->parameters, name);
    }
}

struct launch_spec *api_spec(struct api *api, const char *prefix, const struct launch_spec *base) {
    struct launch_spec *spec = base != NULL ? spec_copy(base) : launch_spec_new(NULL);
    const char *image = spec_text(api, prefix, "ImageId");
    const char *type = spec_text(api, prefix, "InstanceType");
    const char *user_data = spec_text(api, prefix, "UserData");
    const char *subnet = spec_text(api, prefix, "SubnetId");
    const char *behavior = spec_text(api, prefix, "InstanceInitiatedShutdownBehavior");
    const char *role = spec_text(api, prefix, "IamInstanceProfile.Name");
    const char *arn = spec_text(api, prefix, "IamInstanceProfile.Arn");
    if (image != NULL && strncmp(image, "ami-", 4) != 0) {
        api_error_set(&api->error, 400, "InvalidAMIID.Malformed", "Invalid id: \"%.60s\" (expecting \"ami-...\")",
                      image);
    }
    if (behavior != NULL && strcmp(behavior, "stop") != 0 && strcmp(behavior, "terminate") != 0) {
        api_error_set(&api->error, 400, "InvalidParameterValue",
                      "InstanceInitiatedShutdownBehavior: expected stop or terminate, got '%.40s'", behavior);
    }
    spec->type = type != NULL ? api_type(api, type) : spec->type;
    spec->terminate_on_shutdown = behavior != NULL ? strcmp(behavior, "terminate") == 0 : spec->terminate_on_shutdown;
    spec_set(&spec->image, image);
    spec_set(&spec->key_name, spec_text(api, prefix, "KeyName"));
    spec_set(&spec->profile, arn != NULL && strrchr(arn, '/') != NULL ? strrchr(arn, '/') + 1 : role);
    spec_set(&spec->subnet, subnet);
    if (user_data != NULL) {
        spec_user_data(api, spec, user_data);
    }
    api_spec_place(api, subnet, spec_text(api, prefix, "Placement.AvailabilityZone"), spec->zone);
    spec_groups(api, prefix, spec);
    spec_ignore(api, prefix);
    return spec;
}

/* ---- Launch templates ---- */

static struct launch_template *template_find(const struct api *api, const char *id, const char *name) {
    for (size_t t = 0; t < api->state->template_count; t++) {
        struct launch_template *template = &api->state->templates[t];
        if ((id != NULL && strcmp(template->id, id) == 0) || (name != NULL && strcmp(template->name, name) == 0)) {
            return template;
        }
    }
    return NULL;
}

/* Returns the template given by LaunchTemplateId or LaunchTemplateName after `prefix`. */
static struct launch_template *template_named(struct api *api, const char *prefix) {
    const char *id = spec_text(api, prefix, "LaunchTemplateId");
    const char *name = spec_text(api, prefix, "LaunchTemplateName");
    if ((id == NULL) == (name == NULL)) {
        api_error_set(&api->error, 400, id == NULL ? "MissingParameter" : "InvalidParameterCombination",
                      "Exactly one of LaunchTemplateId and LaunchTemplateName must be there");
        return NULL;
    }
    struct launch_template *template = template_find(api, id, name);
    if (template == NULL) {
        api_error_set(&api->error, 400,
                      id != NULL ? "InvalidLaunchTemplateId.NotFound" : "InvalidLaunchTemplateName.NotFoundException",
                      "The specified launch template, %.60s, does not exist.", id != NULL ? id : name);
    }
    return template;
}

bool api_template(struct api *api, const char *prefix, const struct launch_template **found, size_t *version) {
    if (!parameters_has(&api->parameters, prefix)) {
        return false;
    }
    const struct launch_template *template = template_named(api, prefix);
    const char *wanted = spec_text(api, prefix, "Version");
    if (template == NULL) {
        return false;
    }
    *found = template;
    *version = template->version_count; /* $Latest, and the default version, which nobody has set */
    if (wanted != NULL && strcmp(wanted, "$Latest") != 0 && strcmp(wanted, "$Default") != 0) {
        char *end;
        unsigned long number = strtoul(wanted, &end, 10);
        if (wanted[0] < '1' || wanted[0] > '9' || *end != '\0' || number > template->version_count) {
            api_error_set(&api->error, 400, "InvalidLaunchTemplateId.VersionNotFound",
                          "Could not find launch template version %.40s", wanted);
            return false;
        }
        *version = number;
    } else if (wanted == NULL || strcmp(wanted, "$Default") == 0) {
        *version = 1; /* the default stays the first version, as in EC2 until it is changed */
    }
    return true;
}

static void write_template(struct api *api, const struct launch_template *template) {
    xml_text(&api->body, "launchTemplateId", template->id);
    xml_text(&api->body, "launchTemplateName", template->name);
    xml_time(&api->body, "createTime", template->created);
    text_add(&api->body, "<defaultVersionNumber>1</defaultVersionNumber>");
    xml_number(&api->body, "latestVersionNumber", (int64_t) template->version_count);
}

static void template_add(struct launch_template *template, struct launch_spec *spec, const struct cloud_tags *tags) {
    size_t v = template->version_count++;
    template->versions = memory_resized(template->versions, template->version_count, sizeof *template->versions);
    template->tags = memory_resized(template->tags, template->version_count, sizeof *template->tags);
    template->versions[v] = launch_spec_hold(spec);
    template->tags[v] = (struct cloud_tags){0};
    cloud_tags_copy(&template->tags[v], tags);
}

/* Reads LaunchTemplateData. The caller drops the result and closes the tags. */
static struct launch_spec *template_data(struct api *api, struct cloud_tags *tags) {
    static const char *const kinds[] = {"instance", "volume", "network-interface", "spot-instances-request", NULL};
    api_tag_specifications(api, "LaunchTemplateData.TagSpecification", kinds, "instance", tags);
    return api_spec(api, "LaunchTemplateData.", NULL);
}

static bool template_name_good(const char *name) {
    size_t length = strlen(name);
    return length >= TEMPLATE_NAME_MIN && length <= TEMPLATE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_().@/ ") == length;
}

void api_create_launch_template(struct api *api) {
    struct cloud_tags tags;
    const char *name = parameters_required(&api->parameters, "LaunchTemplateName");
    struct launch_spec *spec = template_data(api, &tags);
    (void)api_token(api);
    (void)parameters_text(&api->parameters, "VersionDescription");
    parameters_ignore(&api->parameters, "TagSpecification.");
    if (!template_name_good(name)) {
        api_error_set(&api->error, 400, "InvalidLaunchTemplateName.MalformedException",
                      "Launch template names have %d to %d letters, digits and ( ) . - / _", TEMPLATE_NAME_MIN,
                      TEMPLATE_NAME_MAX);
    } else if (template_find(api, NULL, name) != NULL) {
        api_error_set(&api->error, 400, "InvalidLaunchTemplateName.AlreadyExistsException",
                      "Launch template name already in use.");
    } else if (api->state->template_count == API_TEMPLATES_MAX) {
        api_error_set(&api->error, 400, "LaunchTemplateLimitExceeded", "More than %d launch templates",
                      API_TEMPLATES_MAX);
    }
    if (api_ready(api)) {
        struct api_state *state = api->state;
        state->templates = memory_resized(state->templates, state->template_count + 1, sizeof *state->templates);
        struct launch_template *template = &state->templates[state->template_count++];
        *template = (struct launch_template){.name = memory_string(name), .created = api->cloud->now};
        cloud_new_id(api->cloud, "lt-", template->id);
        template_add(template, spec, &tags);
        text_add(&api->body, "<launchTemplate>");
        write_template(api, template);
        text_add(&api->body, "</launchTemplate>");
    }
    launch_spec_drop(spec);
    cloud_tags_close(&tags);
}

void api_create_launch_template_version(struct api *api) {
    struct cloud_tags tags;
    struct launch_template *template = template_named(api, "");
    struct launch_spec *spec = template_data(api, &tags);
    (void)api_token(api);
    (void)parameters_text(&api->parameters, "VersionDescription");
    if (template != NULL && template->version_count == API_TEMPLATE_VERSIONS_MAX) {
        api_error_set(&api->error, 400, "LaunchTemplateVersionLimitExceeded", "More than %d versions",
                      API_TEMPLATE_VERSIONS_MAX);
    }
    if (api_ready(api) && template != NULL) {
        template_add(template, spec, &tags);
        text_add(&api->body, "<launchTemplateVersion>");
        xml_text(&api->body, "launchTemplateId", template->id);
        xml_text(&api->body, "launchTemplateName", template->name);
        xml_number(&api->body, "versionNumber", (int64_t) template->version_count);
        text_format(&api->body, "<defaultVersion>false</defaultVersion></launchTemplateVersion>");
    }
    launch_spec_drop(spec);
    cloud_tags_close(&tags);
}

void api_describe_launch_templates(struct api *api) {
    const char *ids[PARAMETERS_LIST_MAX], *names[PARAMETERS_LIST_MAX];
    size_t id_count = parameters_list(&api->parameters, "LaunchTemplateId", ids);
    size_t name_count = parameters_list(&api->parameters, "LaunchTemplateName", names);
    struct page page = api_page(api, 1, 200, 200, id_count + name_count > 0);
    for (size_t i = 0; i < id_count + name_count; i++) {
        const char *name = i < id_count ? ids[i] : names[i - id_count];
        if (template_find(api, i < id_count ? name : NULL, i < id_count ? NULL : name) == NULL) {
            api_error_set(&api->error, 400,
                          i < id_count ? "InvalidLaunchTemplateId.NotFound"
                                       : "InvalidLaunchTemplateName.NotFoundException",
                          "The specified launch template, %.60s, does not exist.", name);
        }
    }
    if (!api_ready(api)) {
        return;
    }
    size_t all = id_count + name_count > 0 ? id_count + name_count : api->state->template_count;
    size_t i = page.first;
    text_add(&api->body, "<launchTemplates>");
    for (; i < all && i - page.first < page.most; i++) {
        const struct launch_template *template = id_count + name_count == 0 ? &api->state->templates[i]
                                                 : i < id_count             ? template_find(api, ids[i], NULL)
                                                                : template_find(api, NULL, names[i - id_count]);
        text_add(&api->body, "<item>");
        write_template(api, template);
        text_add(&api->body, "</item>");
    }
    text_add(&api->body, "</launchTemplates>");
    if (i < all) {
        api_page_next(api, &page, i);
    }
}

void launch_template_close(struct launch_template *template) {
    for (size_t v = 0; v < template->version_count; v++) {
        launch_spec_drop(template->versions[v]);
        cloud_tags_close(&template->tags[v]);
    }
    free(template->versions);
    free(template->tags);
    free(template->name);
}

void api_delete_launch_template(struct api *api) {
    struct launch_template *template = template_named(api, "");
    if (!api_ready(api) || template == NULL) {
        return;
    }
    text_add(&api->body, "<launchTemplate>");
    write_template(api, template);
    text_add(&api->body, "</launchTemplate>");
    launch_template_close(template);
    size_t place = (size_t)(template - api->state->templates);
    size_t behind = --api->state->template_count - place;
    memmove(template, template + 1, behind * sizeof *template);
}
