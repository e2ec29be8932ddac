/* Files and objects under one interface, for models and checkpoints: a path is a local one or s3://BUCKET/KEY (reading
 * also https://). A new file replaces what is at its path as a whole, when it is complete. All functions block; they
 * may be called by any thread, each open file by one at a time. Messages name the path. */
#ifndef AGILEML_CLOUD_STORAGE_H
#define AGILEML_CLOUD_STORAGE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the path is that of an object: there are no folders to make, and nothing can be renamed. */
bool storage_is_object(const char *path);

/* ---- Writing ---- */

struct storage_file;

/* Checks whether a file could be put at `path` now, and changes nothing there. Returns 0, or AML_EINPUT with the
 * reason. */
int storage_check(const char *path, struct error *error);
/* Begins a new file. After success storage_commit or storage_discard must follow. With `sweep` uploads to the same path
 * are aborted that others have left unfinished. Returns AML_EINPUT when `path` can't be a file's, AML_ELIMIT when it is
 * too long, AML_EFAIL when the file can't be made. */
int storage_create(struct storage_file **file, const char *path, bool sweep, struct error *error);
int storage_write(struct storage_file *file, const void *bytes, size_t size, struct error *error);
/* Replaces the first `size` bytes, which have been written; 1 MiB at most. Only storage_commit may follow. */
int storage_rewrite(struct storage_file *file, const void *bytes, size_t size, struct error *error);
/* Completes the file, which is then at its path, also after a crash. Ends its use; after a failure it is discarded. */
int storage_commit(struct storage_file *file, struct error *error);
void storage_discard(struct storage_file *file);

/* ---- Reading ---- */

struct storage_reader;

/* Opens what is at `path`, and tells its size. Returns AML_EINPUT when it isn't there, is no file or can't be read. */
int storage_open(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error);
/* Reads the next `size` bytes, or fewer at the end. */
int storage_read(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error);
void storage_close(struct storage_reader *reader); /* NULL is allowed */

/* ---- Folders; of objects: what begins with the path and a '/' ---- */

struct storage_entry {
    const char *name; /* in the folder */
    bool folder, file;
    uint64_t bytes; /* of a file */
};

/* Calls `each` for what is in the folder, in any order, until one fails. Returns `unreadable` if it can't be read. */
int storage_list(const char *folder, int unreadable,
                 int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error),
                 void *context, struct error *error);
/* Whether there is a file: 1 or 0; a negative code when that can't be found out. */
int storage_has(const char *path, struct error *error);
/* Makes a folder, but not its parents; it may be there. Nothing to do for objects. */
int storage_make_folder(const char *path, struct error *error);
/* Removes the folder's files whose names `wanted` accepts: `first` before all others, so that without it the others
 * count for nothing. Then removes the folder if it is empty. */
int storage_remove_folder(const char *folder, const char *first, bool (*wanted)(const char *name), struct error *error);
/* Renames a folder, of files alone. */
int storage_rename_folder(const char *from, const char *to, struct error *error);
/* Has what was made, removed and renamed in the folder survive a crash. Objects do at once. */
int storage_sync_folder(const char *folder, struct error *error);
/* Aborts unfinished uploads of objects whose paths begin with `prefix`. Nothing to do for files. */
int storage_sweep(const char *prefix, struct error *error);

#endif
