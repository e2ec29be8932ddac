/* Code that the apps share: checks of options before a job begins, the choice of test data, and errors. */
#ifndef APPS_APP_H
#define APPS_APP_H

#include "agileml.h"
#include "agileml/base/error.h"
#include "agileml/input/list.h"

#include <stdbool.h>

struct app_file {
    const char *option; /* without "--" */
    const char *path;   /* the option's value; NULL: the option is not given */
    bool folders;       /* the path may be a folder */
    /* Used instead of `path` for an option that names several files (agileml/input/list.h). */
    const struct aml_strings *values;
};

/* aml_app.evaluate_every of apps whose clocks are short: test data is evaluated after each iteration alone. */
enum { APP_EVALUATE_EVERY = 1 << 20 };

/* Lists the files of an option's values. Returns 0, and input_list_close must follow; or the code of input_list_add.
 * `jobs`: rejects pipes, as every process of a job reads the files. */
int app_list_files(const char *option, const struct aml_strings *values, bool jobs, struct input_list *list,
                   struct error *error);

/* Checks the input files and --model-out in `configure`, so that a wrong path is reported before training. Returns 0
 * when each of files[count] is a regular file that can be read (or a folder, where allowed), and a new file can be
 * put at `model_out` (NULL: not given) without overwriting an input. Otherwise returns AML_EINPUT after aml_error.
 * Changes no file. */
int app_check_files(aml_worker *worker, const struct app_file files[], size_t count, const char *model_out);

/* Checks in `configure` that --data is given, and at most one of --test and --test-fraction. Returns 0, or
 * AML_EINPUT after aml_error. `what` names the data in the message, such as "ratings". */
int app_check_data(aml_worker *worker, const char *what, const char *data, const char *test, double test_fraction);

/* Reports the given files as the job's input (aml_input_file). For `read`. */
void app_name_files(aml_worker *worker, const struct app_file files[], size_t count);

/* Returns the index of `value` in `names`, whose last element is NULL. If it is not there, returns AML_EINPUT with
 * the expected names in *error. `option` is without "--". */
int app_choice(const char *option, const char *value, const char *const names[], struct error *error);

/* Returns whether --test-fraction holds an item out as a test item. `hash` depends only on the item's contents, so
 * that every process decides alike. */
bool app_held_out(uint64_t hash, double test_fraction);

/* Returns `result`, after aml_error with the text of *error. An empty *error means that nothing failed, or that the
 * failed function has called aml_error itself. */
static inline int app_result(aml_worker *worker, int result, const struct error *error) {
    return error->code == 0 ? result : aml_error(worker, result, "%s", error->text);
}

#endif
