/* Files for their owner alone, such as reports and stores, that may be in a folder where others can put files too.
 *
 * New ones get mode 0600. A folder is shared when all may write to it (/tmp) or when it is another user's, root's
 * excepted. In a shared folder what is at the path must be a file of our own under one name only: a link or a file
 * that somebody put there would have us write where they want, or let them read what we write. Elsewhere links are
 * followed, and what is there is taken as it is. */
#ifndef AGILEML_BASE_PRIVATE_FILE_H
#define AGILEML_BASE_PRIVATE_FILE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Opens `path` as open(2) does with `flags` (O_WRONLY or O_RDWR, perhaps O_APPEND or O_TRUNC), makes it if it isn't
 * there. Returns the descriptor, which closes on exec; or -1 and why in *reason, a text that stays. */
int private_file_open(const char *path, int flags, const char **reason);
/* Makes `path`, empty, if it isn't there, for SQLite, which gives its other files the same mode. False, with *reason as
 * above; in a shared folder SQLite's other files are judged too, as it would take a journal for the store's own. A file
 * that is there isn't opened: to close it would end the locks that this process holds on it. */
bool private_store_make(const char *path, const char **reason);

/* Checks the mode of an open file that holds secrets, before it is read: only its owner may use it. 0 or AML_EINPUT. */
int private_file_check(const char *path, const struct stat *status, struct error *error);

#endif
