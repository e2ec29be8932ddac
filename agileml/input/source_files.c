/* Local files as sources (source.h). */
#include "agileml/input/source.h"

#include "agileml/base/text_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_source {
    struct source source;
    const char *path;
    struct source_identity identity;
    int file;
    uint64_t left; /* bytes of the range not read yet; SOURCE_TO_END: the range ends with the file */
};

static void identity_of(const struct stat *status, struct source_identity *identity) {
    *identity = (struct source_identity){.bytes = SOURCE_TO_END};
    if (S_ISREG(status->st_mode)) {
        identity->bytes = (uint64_t)status->st_size;
        snprintf(identity->version, sizeof identity->version, "%llx-%llx-%lld.%09ld",
                 (unsigned long long)status->st_dev, (unsigned long long)status->st_ino,
                 (long long)status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
    }
}

static int files_identify(const char *path, struct source_identity *identity, struct error *error) {
    struct stat status;
    const char *name = text_input_name(path);
    if (stat(path, &status) != 0) {
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", name, strerror(errno));
    }
    if (S_ISDIR(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: cannot read: %s", name, strerror(EISDIR));
    }
    identity_of(&status, identity);
    return 0;
}

static int check_unchanged(const struct file_source *source, struct error *error) {
    struct stat status;
    struct source_identity now;
    if (fstat(source->file, &status) != 0) {
        return error_set(error, AML_EINPUT, "%s: cannot read: %s", text_input_name(source->path), strerror(errno));
    }
    identity_of(&status, &now);
    bool same = now.bytes == source->identity.bytes && strcmp(now.version, source->identity.version) == 0;
    return same ? 0 : source_changed(source->path, error);
}

static void files_close(struct source *source) {
    struct file_source *file = (struct file_source *)source;
    close(file->file);
    free(file);
}

static int files_open(struct source **opened, const char *path, const struct source_identity *identity, uint64_t offset,
                      uint64_t length, struct error *error) {
    const char *name = text_input_name(path);
    struct file_source *source = calloc(1, sizeof *source);
    if (source == NULL) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", name);
    }
    *source = (struct file_source){.source = {&source_files}, .path = path, .identity = *identity, .left = length};
    source->file = open(path, O_RDONLY | O_CLOEXEC);
    if (source->file < 0) {
        free(source);
        return error_set(error, AML_EINPUT, "%s: cannot open: %s", name, strerror(errno));
    }
    int code = check_unchanged(source, error);
    if (code == 0 && offset > 0 && lseek(source->file, (off_t)offset, SEEK_SET) < 0) {
        code = error_set(error, AML_EINPUT, "%s: cannot read at byte %llu: %s", name, (unsigned long long)offset,
                         strerror(errno));
    }
    if (code != 0) {
        files_close(&source->source);
        return code;
    }
    *opened = &source->source;
    return 0;
}

static int files_read(void *context, void *bytes, size_t size, size_t *got, struct error *error) {
    struct file_source *source = context;
    size_t wanted = source->left < size ? (size_t)source->left : size;
    *got = 0;
    while (*got < wanted) {
        ssize_t n = read(source->file, (char *)bytes + *got, wanted - *got);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            *got += (size_t)n;
        } else if (errno != EINTR) {
            return error_set(error, AML_EINPUT, "%s: cannot read: %s", text_input_name(source->path), strerror(errno));
        }
    }
    bool to_end = source->left == SOURCE_TO_END;
    source->left -= to_end ? 0 : *got;
    if (!to_end && *got < wanted) {
        return source_changed(source->path, error);
    }
    return source->left == 0 || *got < size ? check_unchanged(source, error) : 0;
}

static int files_skip(struct source *context, uint64_t bytes, struct error *error) {
    struct file_source *source = (struct file_source *)context;
    if (lseek(source->file, (off_t)bytes, SEEK_CUR) < 0) {
        return error_set(error, AML_EINPUT, "%s: cannot read: %s", text_input_name(source->path), strerror(errno));
    }
    source->left -= bytes;
    return 0;
}

const struct source_scheme source_files = {
    .prefix = "",
    .identify = files_identify,
    .open = files_open,
    .read = files_read,
    .skip = files_skip,
    .close = files_close,
};
