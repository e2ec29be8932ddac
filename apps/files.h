/* What apps check of the files named in their options, before the job begins. */
#ifndef APPS_FILES_H
#define APPS_FILES_H

#include "agileml.h"

#include <stdbool.h>

struct app_file {
    const char *option; /* without "--" */
    const char *path;   /* its value; NULL: it is not given */
    bool folders;       /* a folder will do */
};

/* 0 when each of files[count] is a regular file that can be read, or a folder where one will do, and a file can be put
 * at `model_out`, the value of --model-out (NULL: it is not given), which is none of them; else AML_EINPUT, with a line
 * by aml_error. Changes no file. In `configure`: a user hears of a wrong path before training, not after it. */
int files_check(aml_worker *worker, const struct app_file files[], size_t count, const char *model_out);

/* 0 when there is data, and one way at most to choose what to test on; else AML_EINPUT, with a line by aml_error.
 * `what` the data consists of, such as "ratings". In `configure`. */
int files_check_data(aml_worker *worker, const char *what, const char *data, const char *test, double test_fraction);

#endif
