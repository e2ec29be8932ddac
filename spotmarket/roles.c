/* See roles.h. */
#include "spotmarket/roles.h"

#include "spotmarket/api.h"
#include "spotmarket/users.h"

#include <stdio.h>
#include <string.h>

/* Returns whether the action exists, or is the beginning of an action's name with '*'. */
static bool action_is_good(const char *action) {
    const char *star = action != NULL ? strchr(action, '*') : NULL;
    return action != NULL && (star != NULL ? star[1] == '\0' : api_known(action));
}

static int roles_check(const struct roles *roles, const char *path, struct error *error) {
    const char *role;
    json_t *actions, *action;
    size_t i;
    if (!json_is_object(roles->actions)) {
        return error_set(error, AML_EINPUT, "%s: expected {\"ROLE\": [\"ACTION\", ...], ...}", path);
    }
    json_object_foreach(roles->actions, role, actions) {
        if (!json_is_array(actions)) {
            return error_set(error, AML_EINPUT, "%s: role '%.60s': expected a list of actions", path, role);
        }
        json_array_foreach(actions, i, action) {
            if (!action_is_good(json_string_value(action))) {
                return error_set(error, AML_EINPUT,
                                 "%s: role '%.60s': '%.60s' is no action, expected one such as \"RunInstances\" or "
                                 "\"Describe*\"",
                                 path, role, json_is_string(action) ? json_string_value(action) : "?");
            }
        }
    }
    return 0;
}

int roles_read(struct roles *roles, const char *path, struct error *error) {
    json_error_t wrong;
    roles->actions = json_load_file(path, JSON_REJECT_DUPLICATES, &wrong);
    int code = roles->actions == NULL ? error_set(error, AML_EINPUT, "%s:%d: %s", path, wrong.line, wrong.text)
                                      : roles_check(roles, path, error);
    if (code != 0) {
        roles_close(roles);
    }
    return code;
}

void roles_close(struct roles *roles) {
    json_decref(roles->actions);
    *roles = (struct roles){0};
}

bool roles_allow(const struct roles *roles, const char *role, const char *action) {
    json_t *allowed;
    size_t i;
    json_array_foreach(json_object_get(roles->actions, role), i, allowed) {
        const char *text = json_string_value(allowed);
        size_t length = strcspn(text, "*");
        if (strncmp(action, text, length) == 0 && (text[length] == '*' || action[length] == '\0')) {
            return true;
        }
    }
    return false;
}

bool roles_allow_user(const struct roles *roles, const char *user, const char *action) {
    char name[sizeof "user/" + USER_NAME_MAX];
    snprintf(name, sizeof name, "user/%s", user);
    return json_object_get(roles->actions, name) == NULL || roles_allow(roles, name, action);
}
