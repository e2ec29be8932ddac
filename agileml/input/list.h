/* The files that an option such as --data names, in an order that is the same in every process: a file, a glob, a
 * folder (its regular files; names that begin with a dot are skipped), an address (source.h), or several of these with
 * commas between them. Does not read the files. */
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
    size_t capacity; /* list.c's */
};

/* Adds the files that `value` names. What exists under the whole value is one file or folder, whatever characters it
 * has; likewise an object. Otherwise a value with '*', '?' or '[' is a glob as in the shell, if it matches something;
 * otherwise commas separate several names (addresses: a comma before another address). Files come in the order of the
 * names, and within a glob or folder in that of their bytes. Indexes (`.gzi`) are no data: globs and folders skip them.
 *
 * Returns 0; or AML_EINPUT with a line: nothing there, a glob that matches nothing, a folder without files, a folder
 * within a folder or glob, a file that can't be read or is in the list already; AML_ELIMIT for more than
 * INPUT_FILES_MAX files. A pipe or device may be named by itself. The list keeps what was added before an error, and
 * input_list_close must follow. A zeroed list is empty. */
int input_list_add(struct input_list *list, const char *value, struct error *error);

/* Drops the files of no bytes from a list in which others have some: parts that hold nothing. */
void input_list_drop_empty(struct input_list *list);

void input_list_close(struct input_list *list);

#endif
