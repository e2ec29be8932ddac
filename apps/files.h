/* What apps check of the files named in their options, before the job begins. */
#ifndef APPS_FILES_H
#define APPS_FILES_H

#include "agileml.h"

#include <stdbool.h>

/* 0 when `path`, the value of --`option`, is a regular file that can be read, or with `folders` a folder; else
 * AML_EINPUT, with a line by aml_error. In `configure`. */
int check_readable(aml_worker *worker, const char *option, const char *path, bool folders);

/* 0 when a file can be put at `path`, the value of --model-out, and is none of inputs[count], which the job reads
 * (NULL among them: an option that is not given); else AML_EINPUT, with a line by aml_error. Changes no file. In
 * `configure`: a user hears of a wrong path before training, not after it. NULL as path is no error. */
int check_model_out(aml_worker *worker, const char *path, const char *const inputs[], size_t count);

#endif
