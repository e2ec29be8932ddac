/* Checks an app's description (struct aml_app) before anything starts. Every error is one line that names the field,
 * its value and what is possible. Calls none of the app's functions and changes nothing. For the app's calls of the
 * library, while it runs, see check.h. */
#ifndef AGILEML_WORKERS_DESCRIBE_H
#define AGILEML_WORKERS_DESCRIBE_H

#include "agileml.h"
#include "agileml/base/error.h"

enum {
    DESCRIBE_ITERATIONS_MAX = 1000000000, /* of --iterations and --evaluate-every */
    DESCRIBE_CLOCKS_MAX = 1 << 20         /* of --clocks-per-iteration */
};

/* Checks the fields that parsing the command line needs, before `configure`: the name, the options, the numbers of
 * tables and metrics. `common` are the library's own options, whose names the app's options may not have. 0 or
 * AML_EINPUT. */
int describe_check_first(const struct aml_app *app, const struct aml_option *common, struct error *error);

/* Checks all other fields, and the numbers once more, after `configure`, which may change tables and items. 0 or
 * AML_EINPUT. */
int describe_check(const struct aml_app *app, struct error *error);

#endif
