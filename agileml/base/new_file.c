/* See new_file.h. */
#include "agileml/base/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NEW_FILE_MODE = 0644 };

static int new_file_failed(const struct new_file *file, struct error *error) {
    return error_set(error, AML_EFAIL, "%s: can't write it: %s", file->path, strerror(errno));
}

/* Rejects a path that rename can't replace, or where a rename would replace a device. */
static int new_file_check_place(const char *path, bool *exists, struct error *error) {
    struct stat status;
    *exists = stat(path, &status) == 0;
    if (*path == '\0') {
        return error_set(error, AML_EINPUT, "the path is empty: expected that of a file");
    }
    if ((*exists && S_ISDIR(status.st_mode)) || path[strlen(path) - 1] == '/') {
        return error_set(error, AML_EINPUT, "%s: a folder: expected the path of a file", path);
    }
    if (*exists && !S_ISREG(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: a device or pipe: expected the path of a file", path);
    }
    return 0;
}

int new_file_check(const char *path, struct error *error) {
    struct new_file file;
    struct error reason = {0};
    bool exists;
    int code = new_file_check_place(path, &exists, error);
    if (code != 0) {
        return code;
    }
    if (exists) { /* a rename would replace even a file that its owner has made read-only */
        int old = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (old < 0) {
            return error_set(error, AML_EINPUT, "%s: can't write to it: %s", path, strerror(errno));
        }
        close(old);
    }
    code = new_file_open(&file, path, &reason);
    if (code != 0) {
        return error_set(error, AML_EINPUT, "%s", reason.text);
    }
    new_file_discard(&file);
    return 0;
}

int new_file_open(struct new_file *file, const char *path, struct error *error) {
    bool exists;
    if (strlen(path) >= sizeof file->path) {
        return error_set(error, AML_ELIMIT, "%.200s...: the path is longer than %d bytes", path, NEW_FILE_PATH_MAX - 1);
    }
    int code = new_file_check_place(path, &exists, error);
    if (code != 0) {
        return code;
    }
    file->mode = NEW_FILE_MODE;
    snprintf(file->path, sizeof file->path, "%s", path);
    snprintf(file->temporary, sizeof file->temporary, "%s.XXXXXX", path);
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    return file->descriptor >= 0 ? 0 : new_file_failed(file, error);
}

int new_file_write(struct new_file *file, const void *bytes, size_t size, struct error *error) {
    const unsigned char *from = bytes;
    while (size > 0) {
        ssize_t written = write(file->descriptor, from, size);
        if (written < 0 && errno != EINTR) {
            return new_file_failed(file, error);
        }
        size_t step = written > 0 ? (size_t)written : 0;
        from += step;
        size -= step;
    }
    return 0;
}

void new_file_discard(struct new_file *file) {
    close(file->descriptor);
    unlink(file->temporary);
}

int folder_sync(const char *path, struct error *error) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = 0;
    if (folder < 0 || fsync(folder) != 0) {
        code = error_set(error, AML_EFAIL, "%s: can't sync this folder: %s", path, strerror(errno));
    }
    if (folder >= 0) {
        close(folder);
    }
    return code;
}

/* Syncs the folder that the file is in: the part of the path before the last slash. */
static int new_file_sync_folder(const struct new_file *file, struct error *error) {
    char folder[NEW_FILE_PATH_MAX] = ".";
    const char *slash = strrchr(file->path, '/');
    if (slash != NULL) {
        size_t length = slash > file->path ? (size_t)(slash - file->path) : 1;
        memcpy(folder, file->path, length);
        folder[length] = '\0';
    }
    return folder_sync(folder, error);
}

int new_file_commit(struct new_file *file, struct error *error) {
    if (fchmod(file->descriptor, file->mode) != 0 || fsync(file->descriptor) != 0 ||
        rename(file->temporary, file->path) != 0) {
        new_file_failed(file, error);
        new_file_discard(file);
        return AML_EFAIL;
    }
    close(file->descriptor);
    return new_file_sync_folder(file, error);
}
