/* Files that are replaced as a whole: a new file is written under another name in the same folder, synced, then
 * renamed. So a crash at any moment leaves either the old file or the complete new one. All functions block. */
#ifndef AGILEML_BASE_NEW_FILE_H
#define AGILEML_BASE_NEW_FILE_H

#include "agileml/base/error.h"

#include <stddef.h>

enum {
    NEW_FILE_PATH_MAX = 512,
    NEW_FILE_SUFFIX = 7 /* length of the temporary name's suffix: a dot and six letters or digits */
};

struct new_file {
    int descriptor;
    unsigned mode; /* permissions of the complete file: 0644, or what the caller sets after new_file_open */
    char path[NEW_FILE_PATH_MAX];
    char temporary[NEW_FILE_PATH_MAX + NEW_FILE_SUFFIX];
};

/* Checks whether new_file_open and new_file_commit could put a file at `path` now. Returns 0, or AML_EINPUT with the
 * reason: a folder or device at `path`, missing rights, a read-only file system. Makes a file in the same folder and
 * removes it again; does not change a file at `path`. */
int new_file_check(const char *path, struct error *error);
/* Begins a new file. After success new_file_commit or new_file_discard must follow. Returns AML_EINPUT when a folder or
 * device is at `path`, AML_EFAIL when the file can't be made. */
int new_file_open(struct new_file *file, const char *path, struct error *error);
int new_file_write(struct new_file *file, const void *bytes, size_t size, struct error *error);
/* Syncs the file, renames it to `path`, and syncs the folder. A failure discards the file. *file is closed in either
 * case. */
int new_file_commit(struct new_file *file, struct error *error);
void new_file_discard(struct new_file *file);

/* Syncs a folder, so that files made or removed in it remain so after a crash. */
int folder_sync(const char *path, struct error *error);

#endif
