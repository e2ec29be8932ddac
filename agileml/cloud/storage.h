/* Files and objects under one interface, for models and checkpoints. A path is local or s3://BUCKET/KEY; https://
 * can be read too. A new file replaces the old one as a whole when it is complete. All functions block. Any thread
 * may call them, but only one at a time for each open file. Messages name the path. */
#ifndef AGILEML_CLOUD_STORAGE_H
#define AGILEML_CLOUD_STORAGE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the path is an object's. Objects have no folders to make, and can't be renamed. */
bool storage_is_object(const char *path);

/* ---- Writing ---- */

struct storage_file;

/* Checks whether a file could be put at `path` now, without changing anything there. Returns 0, or AML_EINPUT with
 * the reason. */
int storage_check(const char *path, struct error *error);
/* Begins a new file. After success storage_commit or storage_discard must follow. `sweep` aborts unfinished uploads
 * of other processes to the same path. Returns AML_EINPUT when there can't be a file at `path`, AML_ELIMIT when the
 * path is too long, AML_EFAIL when the file can't be made. */
int storage_create(struct storage_file **file, const char *path, bool sweep, struct error *error);
int storage_write(struct storage_file *file, const void *bytes, size_t size, struct error *error);
/* Replaces the first `size` bytes, at most 1 MiB, which must have been written. Only storage_commit may follow. */
int storage_rewrite(struct storage_file *file, const void *bytes, size_t size, struct error *error);
/* Completes the file, so that it is at its path even after a crash. Ends the file's use; a failure discards it. */
int storage_commit(struct storage_file *file, struct error *error);
void storage_discard(struct storage_file *file);

/* ---- Reading ---- */

struct storage_reader;

/* Opens the file at `path`, and sets *bytes to its size. Returns AML_EINPUT when it doesn't exist, is not a file or
 * can't be read. */
int storage_open(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error);
/* Reads the next `size` bytes, or fewer at the end. */
int storage_read(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error);
void storage_close(struct storage_reader *reader); /* NULL is allowed */

/* ---- Folders; for objects: all keys that begin with the path and a '/' ---- */

struct storage_entry {
    const char *name; /* name within the folder */
    bool folder, file;
    uint64_t bytes; /* size of a file */
};

/* Calls `each` for each entry of the folder, in any order, until a call fails. Returns `unreadable` if the folder
 * can't be read. */
int storage_list(const char *folder, int unreadable,
                 int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error),
                 void *context, struct error *error);
/* Returns whether there is a file: 1 or 0; a negative code when that can't be determined. */
int storage_has(const char *path, struct error *error);
/* Makes a folder, but not its parents. An existing folder is fine. Does nothing for objects. */
int storage_make_folder(const char *path, struct error *error);
/* Removes the folder's files whose names `wanted` accepts. Removes `first` before all others: without that file, the
 * others are ignored. Then removes the folder if it is empty. */
int storage_remove_folder(const char *folder, const char *first, bool (*wanted)(const char *name), struct error *error);
/* Renames a folder, which must contain only files. */
int storage_rename_folder(const char *from, const char *to, struct error *error);
/* Makes changes in the folder (new, removed and renamed files) survive a crash. Objects do so at once. */
int storage_sync_folder(const char *folder, struct error *error);
/* Aborts unfinished uploads of objects whose paths begin with `prefix`. Does nothing for files. */
int storage_sweep(const char *prefix, struct error *error);

#endif
