/* See private_file.h. */
#include "agileml/base/private_file.h"

#include "agileml/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum {
    PRIVATE_FILE_MODE = 0600,
    PRIVATE_FILE_ATTEMPTS = 8, /* attempts while other processes make and remove the file */
    PRIVATE_FILE_LOCK_MS = 2000,
    PRIVATE_FILE_POLL_MS = 20,
};

/* Whether other users can put files at `path`. */
static bool is_in_shared_folder(const char *path) {
    char folder[PATH_MAX] = ".";
    struct stat status;
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : slash != NULL ? (size_t)(slash - path) : 0;
    if (length >= sizeof folder) {
        return false; /* the path is too long to be opened anyway */
    }
    if (slash != NULL) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    bool known = stat(folder, &status) == 0;
    return known && ((status.st_mode & S_IWOTH) != 0 || (status.st_uid != geteuid() && status.st_uid != 0));
}

/* Returns the reason not to write to a file of a shared folder, or NULL when writing is safe. */
static const char *refusal_of(const struct stat *status) {
    if (S_ISLNK(status->st_mode)) {
        return "a symbolic link in a folder that others can write to: expected a file";
    }
    if (status->st_uid != geteuid()) {
        return "belongs to another user, in a folder that others can write to: expected a file of our own";
    }
    if (S_ISREG(status->st_mode) && status->st_nlink > 1) {
        return "has several names (hard links), in a folder that others can write to: expected a file with one";
    }
    return NULL;
}

/* Checks what is at `path`, and sets *exists. Returns false with *reason when writing there is not safe or the check
 * fails. */
static bool look(const char *path, bool *exists, const char **reason) {
    struct stat status;
    *exists = lstat(path, &status) == 0;
    *reason = *exists ? refusal_of(&status) : errno == ENOENT ? NULL : strerror(errno);
    return *reason == NULL;
}

static int make(const char *path, int flags) {
    return open(path, flags | O_CREAT | O_EXCL | O_CLOEXEC, PRIVATE_FILE_MODE);
}

/* Opens an existing file, and checks it again before truncating it: another user may have replaced it since `look`. */
static int open_own(const char *path, int flags, const char **reason) {
    struct stat status;
    int descriptor = open(path, (flags & ~O_TRUNC) | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0 && (fstat(descriptor, &status) != 0 || (*reason = refusal_of(&status)) != NULL ||
                            ((flags & O_TRUNC) != 0 && ftruncate(descriptor, 0) != 0))) {
        int cause = *reason == NULL ? errno : EPERM;
        close(descriptor);
        descriptor = -1;
        errno = cause;
    }
    return descriptor;
}

int private_file_open(const char *path, int flags, const char **reason) {
    bool shared = is_in_shared_folder(path);
    int descriptor = -1;
    *reason = NULL;
    if (!shared) {
        descriptor = open(path, flags | O_CREAT | O_CLOEXEC, PRIVATE_FILE_MODE);
    }
    for (unsigned attempt = 0; shared && descriptor < 0 && attempt < PRIVATE_FILE_ATTEMPTS; attempt++) {
        bool exists;
        if (!look(path, &exists, reason)) {
            return -1;
        }
        descriptor = exists ? open_own(path, flags, reason) : make(path, flags);
        if (descriptor < 0 && errno != ENOENT && errno != EEXIST) {
            break;
        }
    }
    if (descriptor < 0 && *reason == NULL) {
        *reason = strerror(errno);
    }
    return descriptor;
}

/* Checks the store and the files that SQLite keeps beside it, as `look` does. */
static bool look_at_store(const char *path, bool *exists, const char **reason) {
    static const char *const suffixes[] = {"-journal", "-wal", "-shm"};
    char beside[PATH_MAX];
    bool there;
    bool good = look(path, exists, reason);
    for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes && good; s++) {
        int length = snprintf(beside, sizeof beside, "%s%s", path, suffixes[s]);
        good = length >= (int)sizeof beside || look(beside, &there, reason);
    }
    return good;
}

/* Locks the descriptor and returns it. Closes it and returns -1 if it can't be locked. Returns -1 for -1. */
static int lock_opened(int descriptor, const char **reason) {
    for (int waited = 0; descriptor >= 0 && flock(descriptor, LOCK_EX | LOCK_NB) != 0; waited += PRIVATE_FILE_POLL_MS) {
        if (errno == EWOULDBLOCK && waited < PRIVATE_FILE_LOCK_MS) {
            clock_pause_ms(PRIVATE_FILE_POLL_MS);
            continue;
        }
        *reason = errno == EWOULDBLOCK ? NULL : strerror(errno);
        close(descriptor);
        descriptor = -1;
    }
    return descriptor;
}

int private_file_lock(const char *path, const char **reason) {
    return lock_opened(private_file_open(path, O_RDWR, reason), reason);
}

int private_folder_lock(const char *path, const char **reason) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *reason = descriptor < 0 ? strerror(errno) : NULL;
    return lock_opened(descriptor, reason);
}

bool private_file_is_locked(const char *path) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool locked = descriptor < 0 ? errno != ENOENT : flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return locked;
}

bool private_store_make(const char *path, const char **reason) {
    bool exists = false;
    *reason = NULL;
    if (!is_in_shared_folder(path)) {
        exists = access(path, F_OK) == 0; /* false for a link whose target doesn't exist; opening makes the target */
    } else if (!look_at_store(path, &exists, reason)) {
        return false;
    }
    int descriptor = exists ? -1 : private_file_open(path, O_WRONLY, reason);
    if (descriptor >= 0) {
        close(descriptor);
    }
    return exists || descriptor >= 0;
}

int private_file_check(const char *path, const struct stat *status, struct error *error) {
    if ((status->st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return error_set(error, AML_EINPUT, "%s: group or others may use this file (mode %04o), expected mode 0600",
                         path, (unsigned)status->st_mode & 07777);
    }
    return 0;
}
