/* Files that only their owner may use, such as reports and stores, also in folders where other users can make files.
 *
 * New files get mode 0600. A folder is shared when all users may write to it (/tmp) or when it belongs to another
 * user, except root. In a shared folder an existing file must belong to this process's user and have no second hard
 * link. Otherwise another user could redirect writes by a link, or read the file that was written. In other folders
 * links are followed and existing files are accepted. */
#ifndef AGILEML_BASE_PRIVATE_FILE_H
#define AGILEML_BASE_PRIVATE_FILE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Opens `path` as open(2) does with `flags` (O_WRONLY or O_RDWR, perhaps O_APPEND or O_TRUNC), and makes the file if
 * there is none. Returns a close-on-exec descriptor; or -1 and the reason, a static text, in *reason. */
int private_file_open(const char *path, int flags, const char **reason);
/* Opens `path` as private_file_open does, and locks it (flock) until the descriptor is closed. Waits up to two
 * seconds for a process that is just ending. Returns the descriptor; or -1 and the reason in *reason. *reason NULL:
 * another process holds the lock. */
int private_file_lock(const char *path, const char **reason);
/* Locks the folder `path` like private_file_lock. */
int private_folder_lock(const char *path, const char **reason);
/* Whether another process holds such a lock on the file or folder. A file that exists but can't be opened counts as
 * locked; one that doesn't exist does not. */
bool private_file_is_locked(const char *path);
/* Makes an empty file at `path` for SQLite, if there is none. SQLite gives its other files the same mode. Returns
 * false and *reason as private_file_open does. In a shared folder SQLite's other files are checked too, as SQLite
 * would use another user's journal. An existing file is not opened, as closing it would end this process's locks on
 * it. */
bool private_store_make(const char *path, const char **reason);

/* Checks that only its owner may use an open file with secrets. Call it before reading. Returns 0 or AML_EINPUT. */
int private_file_check(const char *path, const struct stat *status, struct error *error);

#endif
