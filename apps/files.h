/* What apps check of the files named in their options, before the job begins. */
#ifndef APPS_FILES_H
#define APPS_FILES_H

#include "agileml.h"

#include <stdbool.h>

/* 0 when `path`, the value of --`option`, is a regular file that can be read, or with `folders` a folder; else
 * AML_EINPUT, with a line by aml_error. In `configure`. */
int check_readable(aml_worker *worker, const char *option, const char *path, bool folders);

#endif
