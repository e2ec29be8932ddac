/* A file that takes its place whole or not at all: written under another name beside it, synced, then renamed, so that
 * a crash at any moment leaves what was there before or all of the new one. Blocking. */
#ifndef AGILEML_BASE_NEW_FILE_H
#define AGILEML_BASE_NEW_FILE_H

#include "agileml/base/error.h"

#include <stddef.h>

enum {
    NEW_FILE_PATH_MAX = 512,
    NEW_FILE_SUFFIX = 7 /* bytes that the other name has more: a point and six letters or digits */
};

struct new_file {
    int descriptor;
    char path[NEW_FILE_PATH_MAX];
    char temporary[NEW_FILE_PATH_MAX + NEW_FILE_SUFFIX];
};

/* 0 when new_file_open and new_file_commit could put a file at `path` now; else AML_EINPUT with what is in the way: a
 * folder, a device, rights, a file system that is read-only. Makes a file beside `path` and removes it again; what is
 * at `path` stays as it is. */
int new_file_check(const char *path, struct error *error);
/* After success new_file_commit or new_file_discard must follow. AML_EINPUT when a folder or device is at `path`,
 * AML_EFAIL when the file can't be made. */
int new_file_open(struct new_file *file, const char *path, struct error *error);
int new_file_write(struct new_file *file, const void *bytes, size_t size, struct error *error);
/* On disk, in its place, and the place on disk too. Ends the file's use, also when it fails: then it is discarded. */
int new_file_commit(struct new_file *file, struct error *error);
void new_file_discard(struct new_file *file);

/* Syncs a folder, so that names made or removed in it stay so. */
int folder_sync(const char *path, struct error *error);

#endif
