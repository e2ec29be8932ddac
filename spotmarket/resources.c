/* See resources.h. */
#include "spotmarket/resources.h"

#include <string.h>

static const char *const LISTS[] = {"images", "key_pairs", "instance_profiles"};
static const char *const OBJECTS[] = {"security_groups", "subnets"};

static bool is_one_of(const char *name, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static bool entry_is_good(const char *kind, const json_t *entry) {
    return strcmp(kind, "subnets") == 0
               ? json_is_string(json_object_get(entry, "zone")) && json_is_string(json_object_get(entry, "vpc"))
               : json_is_string(entry);
}

static int resources_check(const struct resources *resources, const char *path, struct error *error) {
    const char *kind, *name;
    json_t *all, *entry;
    size_t i;
    if (!json_is_object(resources->root)) {
        return error_set(error, AML_EINPUT, "%s: expected an object, {\"images\": [...], ...}", path);
    }
    json_object_foreach(resources->root, kind, all) {
        bool list = is_one_of(kind, LISTS, sizeof LISTS / sizeof *LISTS);
        bool object = is_one_of(kind, OBJECTS, sizeof OBJECTS / sizeof *OBJECTS);
        if (!(list && json_is_array(all)) && !(object && json_is_object(all))) {
            return error_set(error, AML_EINPUT,
                             "%s: '%.60s': expected lists \"images\", \"key_pairs\", \"instance_profiles\", objects "
                             "\"security_groups\", \"subnets\"",
                             path, kind);
        }
        bool good = true;
        json_array_foreach(all, i, entry) {
            good = good && entry_is_good(kind, entry);
        }
        json_object_foreach(all, name, entry) {
            good = good && entry_is_good(kind, entry);
        }
        if (!good) {
            return error_set(error, AML_EINPUT, "%s: '%.60s': expected %s", path, kind,
                             list                           ? "names"
                             : strcmp(kind, "subnets") == 0 ? "{\"zone\": ZONE, \"vpc\": VPC} of each id"
                                                            : "the VPC of each id");
        }
    }
    return 0;
}

int resources_read(struct resources *resources, const char *path, struct error *error) {
    json_error_t wrong;
    resources->root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    int code = resources->root == NULL ? error_set(error, AML_EINPUT, "%s:%d: %s", path, wrong.line, wrong.text)
                                       : resources_check(resources, path, error);
    if (code != 0) {
        resources_close(resources);
    }
    return code;
}

void resources_close(struct resources *resources) {
    json_decref(resources->root);
    *resources = (struct resources){0};
}

const json_t *resources_of(const struct resources *resources, const char *kind) {
    return json_object_get(resources->root, kind);
}

bool resources_have(const struct resources *resources, const char *kind, const char *name) {
    const json_t *list = resources_of(resources, kind);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(json_string_value(json_array_get(list, i)), name) == 0) {
            return true;
        }
    }
    return list == NULL;
}

const char *resources_group(const struct resources *resources, const char *id) {
    const json_t *groups = resources_of(resources, "security_groups");
    return groups == NULL ? RESOURCES_VPC : json_string_value(json_object_get(groups, id));
}

const char *resources_subnet(const struct resources *resources, const struct cloud *cloud, const char *id,
                             const char **vpc) {
    static const char prefix[] = "subnet-";
    const json_t *subnets = resources_of(resources, "subnets");
    if (subnets != NULL) {
        const json_t *subnet = json_object_get(subnets, id);
        *vpc = json_string_value(json_object_get(subnet, "vpc"));
        return json_string_value(json_object_get(subnet, "zone"));
    }
    *vpc = RESOURCES_VPC;
    const char *zone = id + sizeof prefix - 1;
    return strncmp(id, prefix, sizeof prefix - 1) == 0 && cloud_zone_known(cloud, zone) ? zone : NULL;
}

bool resources_allow(const struct resources *resources, const struct cloud *cloud, const struct launch_spec *spec,
                     struct api_error *error) {
    const char *network = NULL;
    if (spec->image != NULL && !resources_have(resources, "images", spec->image)) {
        api_error_set(error, 400, "InvalidAMIID.NotFound", "The image id '[%.60s]' does not exist", spec->image);
    }
    if (spec->subnet != NULL) {
        (void)resources_subnet(resources, cloud, spec->subnet, &network);
    }
    for (size_t g = 0; g < spec->group_count; g++) {
        const char *vpc = resources_group(resources, spec->groups[g]);
        if (vpc == NULL) {
            api_error_set(error, 400, "InvalidGroup.NotFound", "The security group '%.60s' does not exist",
                          spec->groups[g]);
        } else if (network != NULL && strcmp(vpc, network) != 0) {
            api_error_set(error, 400, "InvalidParameter",
                          "Security group %.60s and subnet %.60s belong to different networks.", spec->groups[g],
                          spec->subnet);
        }
    }
    if (spec->key_name != NULL && !resources_have(resources, "key_pairs", spec->key_name)) {
        api_error_set(error, 400, "InvalidKeyPair.NotFound", "The key pair '%.60s' does not exist", spec->key_name);
    }
    if (spec->profile != NULL && !resources_have(resources, "instance_profiles", spec->profile)) {
        api_error_set(error, 400, "InvalidParameterValue",
                      "Value (%.60s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile "
                      "name",
                      spec->profile);
    }
    return error->status == 0;
}
