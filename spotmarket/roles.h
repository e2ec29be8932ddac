/* The actions that are allowed to machines' roles and to users: the file of --roles, a JSON object of lists of actions.
 * '*' at the end of an action matches any rest:
 *
 *     {"proteus-bidbrain": ["Describe*", "RunInstances"], "proteus-node": [], "user/guest": ["Describe*"]}
 *
 * IAM's resources and conditions are not supported. A role that is not in the file may do nothing; a user that is not
 * in the file may do everything. */
#ifndef SPOTMARKET_ROLES_H
#define SPOTMARKET_ROLES_H

#include "agileml/base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct roles {
    json_t *actions; /* lists by role and by "user/NAME"; NULL: no file */
};

/* Returns 0, or AML_EINPUT with one line: what is wrong, what was expected. */
int roles_read(struct roles *roles, const char *path, struct error *error);
void roles_close(struct roles *roles);
bool roles_allow(const struct roles *roles, const char *role, const char *action);
bool roles_allow_user(const struct roles *roles, const char *user, const char *action);

#endif
