/* The actions that machines' roles and users are allowed: the file of --roles, a JSON object of lists of actions. '*'
 * at an action's end matches any rest:
 *
 *     {"proteus-bidbrain": ["Describe*", "RunInstances"], "proteus-node": [], "user/guest": ["Describe*"]}
 *
 * IAM's resources and conditions are not supported. A role that the file does not name may do nothing, a user
 * everything. */
#ifndef SPOTMARKET_ROLES_H
#define SPOTMARKET_ROLES_H

#include "agileml/base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct roles {
    json_t *actions; /* by role and "user/NAME"; NULL: there are none */
};

/* AML_EINPUT with one line: what is wrong, what was expected. */
int roles_read(struct roles *roles, const char *path, struct error *error);
void roles_close(struct roles *roles);
bool roles_allow(const struct roles *roles, const char *role, const char *action);
bool roles_allow_user(const struct roles *roles, const char *user, const char *action);

#endif
