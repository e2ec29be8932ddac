/* See run_folder.h. A run locks the file RUN_LOCK in its folder. The file gets this name after it is locked. If
 * RUN_LOCK can be locked, its run has therefore ended. */
#include "proteus/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_FOLDER_PREFIX "proteus-"
#define RUN_LOCK          "proteus-run.lock"
#define RUN_LOCK_DRAFT    "proteus-run.lock.new"

enum {
    RUN_FOLDER_RANDOM = 6, /* letters and digits after the prefix */
    RUN_FOLDERS_OPEN = 16  /* most descriptors of nftw */
};

static int remove_entry(const char *path, const struct stat *file, int kind, struct FTW *place) {
    (void)file;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

static void remove_tree(const char *path) {
    nftw(path, remove_entry, RUN_FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
}

/* ---- What earlier runs have left ---- */

static bool is_ours(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && status.st_uid == geteuid();
}

/* Takes the lock of the run that made the folder. Returns -1 if that run has not ended, or the folder is not of a run
 * of our user. */
static int take_over(int parent, const char *name) {
    int lock = -1;
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0 && is_ours(folder)) {
        lock = openat(folder, RUN_LOCK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    }
    if (folder >= 0) {
        close(folder);
    }
    if (lock >= 0 && (!is_ours(lock) || flock(lock, LOCK_EX | LOCK_NB) != 0)) {
        close(lock);
        lock = -1;
    }
    return lock;
}

static void sweep(const char *parent) {
    char path[PATH_MAX];
    DIR *folder = opendir(parent);
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        size_t prefix = strlen(RUN_FOLDER_PREFIX);
        bool named = strncmp(entry->d_name, RUN_FOLDER_PREFIX, prefix) == 0 &&
                     strlen(entry->d_name) == prefix + RUN_FOLDER_RANDOM;
        int length = snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        int lock = named && length < (int)sizeof path ? take_over(dirfd(folder), entry->d_name) : -1;
        if (lock >= 0) {
            remove_tree(path);
            close(lock);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* ---- Our own ---- */

/* Locks the folder. On a file system without locks there is no RUN_LOCK, and the folder stays after a SIGKILL. */
static int lock_folder(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = folder >= 0 ? openat(folder, RUN_LOCK_DRAFT, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
        renameat(folder, RUN_LOCK_DRAFT, folder, RUN_LOCK);
    }
    if (folder >= 0) {
        close(folder);
    }
    return lock;
}

int run_folder_make(struct run_folder *folder, struct error *error) {
    const char *parent = getenv("TMPDIR");
    parent = parent != NULL && parent[0] != '\0' ? parent : "/tmp";
    sweep(parent);
    int length = snprintf(folder->path, sizeof folder->path, "%s/" RUN_FOLDER_PREFIX "XXXXXX", parent);
    if (length >= (int)sizeof folder->path || mkdtemp(folder->path) == NULL) {
        folder->path[0] = '\0';
        return error_set(error, AML_EFAIL, "can't make a folder in %.200s: %s", parent, strerror(errno));
    }
    folder->lock = lock_folder(folder->path);
    return 0;
}

void run_folder_remove(struct run_folder *folder) {
    if (folder->path[0] != '\0') {
        remove_tree(folder->path);
    }
    if (folder->lock >= 0) {
        close(folder->lock);
    }
    *folder = RUN_FOLDER_NONE;
}
