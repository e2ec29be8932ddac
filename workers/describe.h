/* Checks what an app says of itself (struct aml_app) before anything starts: every error is one line that names the
 * field, its value and what is possible. Calls none of the app's functions and changes nothing. How an app uses the
 * library once it runs is check.h's. */
#ifndef AGILEML_WORKERS_DESCRIBE_H
#define AGILEML_WORKERS_DESCRIBE_H

#include "agileml.h"
#include "agileml/base/error.h"

enum {
    DESCRIBE_ITERATIONS_MAX = 1000000000, /* of --iterations and --evaluate-every */
    DESCRIBE_CLOCKS_MAX = 1 << 20         /* of --clocks-per-iteration */
};

/* What must be right before the command line is parsed and `configure` runs: the name, the options, how many tables and
 * metrics there are. `common` are the library's own options, whose names an app's may not have. 0 or AML_EINPUT. */
int describe_check_first(const struct aml_app *app, const struct aml_option *common, struct error *error);

/* Everything else, and the counts once more: after `configure`, which may change tables and items. 0 or AML_EINPUT. */
int describe_check(const struct aml_app *app, struct error *error);

#endif
