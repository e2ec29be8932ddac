/* The files of a folder and of the folders in it. */
#ifndef AGILEML_BASE_FOLDER_H
#define AGILEML_BASE_FOLDER_H

#include "agileml/base/error.h"

#include <dirent.h>
#include <stdbool.h>

enum { FOLDER_DEEPEST = 8 /* levels of nested folders */ };

/* Calls `visit` for `path` if it is not a folder. For a folder, calls `visit` for each file below whose name `wanted`
 * accepts, in the order of names, so that results do not depend on the file system. Skips names that begin with a dot.
 * Stops at the first code of `visit` that is not 0, and returns it. Returns AML_EINPUT when a file or folder can't be
 * read, or folders are nested more than FOLDER_DEEPEST deep. */
int folder_walk(const char *path, bool (*wanted)(const char *name),
                int (*visit)(void *context, const char *path, struct error *error), void *context, struct error *error);

/* Lists a folder's entries in the order of names, without those that begin with a dot. Returns their number; the
 * caller frees each entry and the list. On failure returns -1 with errno. */
int folder_list(const char *path, struct dirent ***entries);

#endif
