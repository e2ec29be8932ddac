/* --balance: finds a policy for uneven machines (agileml/balance.h) by its name, or in a shared library. */
#ifndef PROTEUS_BALANCE_OPTION_H
#define PROTEUS_BALANCE_OPTION_H

#include "agileml/balance.h"
#include "agileml/base/error.h"

/* Sets *policy, NULL for "none". A library stays open until the process ends. Returns AML_EINPUT for an unknown policy,
 * or a file that is no such library. */
int balance_option(const char *how, aml_balance_policy **policy, struct error *error);

/* Returns whether `how` names a shared library rather than a built-in policy. */
bool balance_option_is_library(const char *how);

#endif
