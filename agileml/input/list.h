/* The files that an option such as --data names, in the same order in every process. A value is a file, a glob, a
 * folder (its regular files, except names that begin with a dot), an address (source.h), or several of these
 * separated by commas. Does not read the files. */
#ifndef AGILEML_INPUT_LIST_H
#define AGILEML_INPUT_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "agileml/input/source.h"

enum { INPUT_FILES_MAX = 1 << 16 /* files of a list */ };

struct input_name {
    char *path;
    struct source_identity identity;
};

struct input_list {
    struct input_name *names; /* [count] */
    size_t count;
    size_t capacity; /* used by list.c */
};

/* Adds the files that `value` names. If a file, folder or object has the whole value as its name, whatever its
 * characters, the value names only that. Otherwise a value with '*', '?' or '[' is a glob as in the shell, if it
 * matches something; otherwise commas separate several names. In an address, only a comma before another address
 * separates. Files come in the order of the names, and within a glob or folder in the order of their bytes. Globs
 * and folders skip indexes (`.gzi`), which are not data.
 *
 * Returns 0, AML_EINPUT, or AML_ELIMIT for more than INPUT_FILES_MAX files. AML_EINPUT means: the name doesn't
 * exist, a glob matches nothing, a folder has no files, a folder or glob contains a folder, or a file can't be read
 * or is already in the list. A pipe or device must be named itself. The list keeps what was added before an error,
 * and input_list_close must follow. A zeroed list is empty. */
int input_list_add(struct input_list *list, const char *value, struct error *error);

/* Removes empty files from a list in which other files have bytes: empty parts of an output. */
void input_list_drop_empty(struct input_list *list);

void input_list_close(struct input_list *list);

#endif
