/* See profile.h. */
#include "bidbrain/study/profile.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct member {
    const char *name;
    double *real; /* target of a number; NULL: the member is an integer */
    int64_t *integer;
    double minimum, maximum;
    bool given, needed;
};

static int member_read(struct member *member, const char *path, const json_t *value, struct error *error) {
    double number = json_number_value(value);
    bool good = member->integer != NULL ? json_is_integer(value) : json_is_number(value);
    if (!good || !(number >= member->minimum && number <= member->maximum)) {
        return error_set(error, AML_EINPUT, "%s: %s: expected a%s number from %g to %g", path, member->name,
                         member->integer != NULL ? " whole" : "", member->minimum, member->maximum);
    }
    if (member->integer != NULL) {
        *member->integer = json_integer_value(value);
    } else {
        *member->real = number;
    }
    member->given = true;
    return 0;
}

static int type_read(struct profile *profile, const char *path, const json_t *value, struct error *error) {
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) >= PROFILE_TYPE_MAX) {
        return error_set(error, AML_EINPUT, "%s: reliable_type: expected an instance type", path);
    }
    snprintf(profile->reliable_type, sizeof profile->reliable_type, "%s", text);
    return 0;
}

static int members_read(struct profile *profile, struct member *members, size_t count, const char *path, json_t *root,
                        struct error *error) {
    const char *name;
    json_t *value;
    int code = 0;
    json_object_foreach(root, name, value) {
        struct member *member = NULL;
        for (size_t m = 0; m < count; m++) {
            member = strcmp(members[m].name, name) == 0 ? &members[m] : member;
        }
        if (code == 0 && strcmp(name, "reliable_type") == 0) {
            code = type_read(profile, path, value, error);
        } else if (code == 0 && member != NULL) {
            code = member_read(member, path, value, error);
        } else if (code == 0) {
            code = error_set(error, AML_EINPUT, "%s: unknown member '%.60s'", path, name);
        }
    }
    for (size_t m = 0; m < count && code == 0; m++) {
        if (members[m].needed && !members[m].given) {
            code = error_set(error, AML_EINPUT, "%s: %s is missing: expected a number", path, members[m].name);
        }
    }
    return code;
}

int profile_read(struct profile *profile, const char *path, struct error *error) {
    *profile = (struct profile){.phi = 1,
                                .sigma_seconds = 30,
                                .lambda_seconds = 60,
                                .checkpoint_seconds = 3600,
                                .reliable_type = "c4.2xlarge",
                                .reliable = 1,
                                .most_machines = 1000000,
                                .least_markets = 1,
                                .most_dollars_per_hour = 1e9,
                                .vcpus_min = 2,
                                .memory_min = 3};
    struct member members[] = {
        {.name = "work_vcpu_hours",
         .real = &profile->work_vcpu_hours,
         .minimum = 1e-3,
         .maximum = 1e12,
         .needed = true},
        {.name = "most_vcpus", .real = &profile->most_vcpus, .minimum = 1, .maximum = 1e9, .needed = true},
        {.name = "phi", .real = &profile->phi, .minimum = 1e-3, .maximum = 1},
        {.name = "sigma_seconds", .real = &profile->sigma_seconds, .maximum = 1e5},
        {.name = "lambda_seconds", .real = &profile->lambda_seconds, .maximum = 1e5},
        {.name = "checkpoint_seconds", .real = &profile->checkpoint_seconds, .maximum = 1e7},
        {.name = "reliable", .integer = &profile->reliable, .maximum = 1e6},
        {.name = "most_machines", .integer = &profile->most_machines, .minimum = 1, .maximum = 1e6},
        {.name = "least_markets", .integer = &profile->least_markets, .minimum = 1, .maximum = 1000},
        {.name = "most_dollars_per_hour", .real = &profile->most_dollars_per_hour, .maximum = 1e9},
        {.name = "vcpus_min", .integer = &profile->vcpus_min, .minimum = 1, .maximum = 1000},
        {.name = "memory_min", .real = &profile->memory_min, .maximum = 1e5},
    };
    json_error_t wrong;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    if (root == NULL) {
        return wrong.line > 0 ? error_set(error, AML_EINPUT, "%s:%d: %s", path, wrong.line, wrong.text)
                              : error_set(error, AML_EINPUT, "%s: %s", path, wrong.text);
    }
    int code = !json_is_object(root)
                   ? error_set(error, AML_EINPUT, "%s: expected a JSON object", path)
                   : members_read(profile, members, sizeof members / sizeof *members, path, root, error);
    json_decref(root);
    return code;
}
