/* The files of a folder and of the folders in it. */
#ifndef AGILEML_BASE_FOLDER_H
#define AGILEML_BASE_FOLDER_H

#include "agileml/base/error.h"

#include <stdbool.h>

enum { FOLDER_DEEPEST = 8 /* folders in each other */ };

/* Calls `visit` for `path` when it is no folder. For a folder, calls it for each file below that `wanted` takes by its
 * name, in the order of names, so that results do not depend on the file system; names that begin with a point are
 * passed over. Ends with the first code of `visit` that is not 0; AML_EINPUT when something can't be read or folders
 * are nested more than FOLDER_DEEPEST deep. */
int folder_walk(const char *path, bool (*wanted)(const char *name),
                int (*visit)(void *context, const char *path, struct error *error), void *context, struct error *error);

#endif
