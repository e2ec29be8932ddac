/* Local files as storage (storage.h). */
#include "agileml/cloud/storage_kind.h"

#include "agileml/base/memory.h"
#include "agileml/base/new_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_MODE = 0755 };

struct file_written {
    struct storage_file file;
    struct new_file new;
};

struct file_read {
    struct storage_reader reader;
    int descriptor;
    char path[NEW_FILE_PATH_MAX];
};

static int failed(const char *path, const char *doing, struct error *error) {
    return error_set(error, AML_EFAIL, "%s: can't %s it: %s", path, doing, strerror(errno));
}

/* ---- Writing ---- */

static int files_create(struct storage_file **file, const char *path, bool sweep, struct error *error) {
    (void)sweep;
    struct file_written *written = memory_zeroed(1, sizeof *written);
    written->file.kind = &storage_files;
    int code = new_file_open(&written->new, path, error);
    if (code != 0) {
        free(written);
        return code;
    }
    *file = &written->file;
    return 0;
}

static int files_write(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    return new_file_write(&((struct file_written *)file)->new, bytes, size, error);
}

static int files_rewrite(struct storage_file *file, const void *bytes, size_t size, struct error *error) {
    struct file_written *written = (struct file_written *)file;
    if (lseek(written->new.descriptor, 0, SEEK_SET) != 0) {
        return failed(written->new.path, "write", error);
    }
    return new_file_write(&written->new, bytes, size, error);
}

static int files_commit(struct storage_file *file, struct error *error) {
    struct file_written *written = (struct file_written *)file;
    int code = new_file_commit(&written->new, error);
    free(written);
    return code;
}

static void files_discard(struct storage_file *file) {
    struct file_written *written = (struct file_written *)file;
    new_file_discard(&written->new);
    free(written);
}

/* ---- Reading ---- */

static int files_open(struct storage_reader **reader, const char *path, uint64_t *bytes, struct error *error) {
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not block */
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        int code = error_set(error, AML_EINPUT, "%s: can't read it: %s", path, strerror(errno));
        if (descriptor >= 0) {
            close(descriptor);
        }
        return code;
    }
    if (!S_ISREG(status.st_mode)) {
        close(descriptor);
        return error_set(error, AML_EINPUT, "%s: not a regular file: expected one", path);
    }
    struct file_read *opened = memory_zeroed(1, sizeof *opened);
    opened->reader.kind = &storage_files;
    opened->descriptor = descriptor;
    snprintf(opened->path, sizeof opened->path, "%s", path);
    *bytes = (uint64_t)status.st_size;
    *reader = &opened->reader;
    return 0;
}

static int files_read(struct storage_reader *reader, void *bytes, size_t size, size_t *got, struct error *error) {
    const struct file_read *file = (struct file_read *)reader;
    *got = 0;
    while (*got < size) {
        ssize_t step = read(file->descriptor, (char *)bytes + *got, size - *got);
        if (step < 0 && errno != EINTR) {
            return failed(file->path, "read", error);
        }
        if (step == 0) {
            break;
        }
        *got += step > 0 ? (size_t)step : 0;
    }
    return 0;
}

static void files_close(struct storage_reader *reader) {
    close(((struct file_read *)reader)->descriptor);
    free(reader);
}

/* ---- Folders ---- */

static int visit(const char *folder, const char *name,
                 int (*each)(void *context, const char *folder, const struct storage_entry *entry, struct error *error),
                 void *context, struct error *error) {
    struct stat status = {0};
    char path[2 * NEW_FILE_PATH_MAX];
    struct storage_entry entry = {.name = name};
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return 0;
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool there = stat(path, &status) == 0;
    entry.folder = there && S_ISDIR(status.st_mode);
    entry.file = there && S_ISREG(status.st_mode);
    entry.bytes = entry.file ? (uint64_t)status.st_size : 0;
    return each(context, folder, &entry, error);
}

static int files_list(const char *folder, int unreadable,
                      int (*each)(void *context, const char *folder, const struct storage_entry *entry,
                                  struct error *error),
                      void *context, struct error *error) {
    struct dirent **names;
    int count = scandir(folder, &names, NULL, NULL);
    if (count < 0) {
        return error_set(error, unreadable, "%s: can't read this folder: %s", folder, strerror(errno));
    }
    int code = 0;
    for (int i = 0; i < count; i++) {
        code = code != 0 ? code : visit(folder, names[i]->d_name, each, context, error);
        free(names[i]);
    }
    free(names);
    return code;
}

static int files_has(const char *path, struct error *error) {
    if (access(path, F_OK) == 0) {
        return 1;
    }
    return errno == ENOENT || errno == ENOTDIR ? 0 : failed(path, "read", error);
}

static int files_make_folder(const char *path, struct error *error) {
    return mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST ? 0 : failed(path, "make", error);
}

static int join(char path[NEW_FILE_PATH_MAX], const char *folder, const char *name, struct error *error) {
    int length = snprintf(path, NEW_FILE_PATH_MAX, "%s/%s", folder, name);
    return length < NEW_FILE_PATH_MAX
               ? 0
               : error_set(error, AML_EINPUT, "%s: the path is longer than %d bytes", folder, NEW_FILE_PATH_MAX - 1);
}

/* Which files to remove. */
struct removal {
    bool (*wanted)(const char *name);
};

static int remove_one(void *context, const char *folder, const struct storage_entry *entry, struct error *error) {
    const struct removal *removal = context;
    char path[NEW_FILE_PATH_MAX];
    if (!removal->wanted(entry->name)) {
        return 0;
    }
    int code = join(path, folder, entry->name, error);
    return code == 0 && unlink(path) != 0 ? failed(path, "remove", error) : code;
}

static int files_remove_folder(const char *folder, const char *first, bool (*wanted)(const char *name),
                               struct error *error) {
    char path[NEW_FILE_PATH_MAX];
    struct removal removal = {.wanted = wanted};
    int code = join(path, folder, first, error);
    if (code == 0 && unlink(path) == 0) {
        code = folder_sync(folder, error);
    } else if (code == 0 && errno != ENOENT) {
        code = failed(path, "remove", error);
    }
    code = code != 0 ? code : files_list(folder, AML_EFAIL, remove_one, &removal, error);
    if (code == 0 && rmdir(folder) != 0 && errno != ENOTEMPTY && errno != ENOENT) {
        code = failed(folder, "remove", error);
    }
    return code;
}

static int files_sweep(const char *prefix, struct error *error) {
    (void)prefix;
    (void)error;
    return 0;
}

const struct storage_kind storage_files = {
    .check = new_file_check,
    .create = files_create,
    .write = files_write,
    .rewrite = files_rewrite,
    .commit = files_commit,
    .discard = files_discard,
    .open = files_open,
    .read = files_read,
    .close = files_close,
    .list = files_list,
    .has = files_has,
    .make_folder = files_make_folder,
    .remove_folder = files_remove_folder,
    .sync_folder = folder_sync,
    .sweep = files_sweep,
};
