/* Files that only their owner may use, such as reports and stores, also in folders where other users can make files.
 *
 * New files get mode 0600. A folder is shared when all users may write to it (/tmp) or when it belongs to another user,
 * except root. In a shared folder an existing file must belong to this process's user and have one name only. Otherwise
 * another user could redirect writes by a link, or read the file that was written. In other folders links are followed
 * and existing files are accepted. */
#ifndef AGILEML_BASE_PRIVATE_FILE_H
#define AGILEML_BASE_PRIVATE_FILE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Opens `path` as open(2) does with `flags` (O_WRONLY or O_RDWR, perhaps O_APPEND or O_TRUNC); makes the file if there
 * is none. Returns the descriptor, which closes on exec; or -1 and the reason in *reason, a static text. */
int private_file_open(const char *path, int flags, const char **reason);
/* Opens `path` so, and locks it (flock) until the descriptor is closed. Waits up to two seconds for a process that is
 * just ending. Returns the descriptor; or -1 and the reason in *reason, NULL: another process holds the lock. */
int private_file_lock(const char *path, const char **reason);
/* Locks the folder `path` so. */
int private_folder_lock(const char *path, const char **reason);
/* Whether another process holds such a lock on the file or folder. One that is there and can't be opened counts as
 * locked, one that is not there does not. */
bool private_file_is_locked(const char *path);
/* Makes an empty file at `path` if there is none, for SQLite, which gives its other files the same mode. Returns false
 * and *reason as private_file_open does. In a shared folder SQLite's other files are checked, too, as SQLite would use
 * a foreign journal. An existing file is not opened, as closing it would end this process's locks on it. */
bool private_store_make(const char *path, const char **reason);

/* Checks, before reading, that only its owner may use an open file with secrets. Returns 0 or AML_EINPUT. */
int private_file_check(const char *path, const struct stat *status, struct error *error);

#endif
