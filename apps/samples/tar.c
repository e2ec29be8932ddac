/* See tar.h. */
#include "apps/samples/tar.h"

#include "agileml/base/text_input.h"
#include "agileml/input/source.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 15, BLOCK = 512 };

struct tar {
    const char *path;
    struct archive *archive;
    struct source *source;
    uint64_t left;                /* bytes of the source not read yet; SOURCE_TO_END: not known */
    uint64_t given;               /* bytes of the source passed to libarchive */
    bool ended;                   /* the source has ended */
    struct error error;           /* first error of the source */
    struct tar_entry at;          /* the present entry; without a name: none. libarchive owns the name */
    char last[TAR_SHOWN_MAX + 1]; /* name of the present or latest entry, for messages; "": none yet */
    char bytes[READ_BYTES];
};

/* ---- libarchive's callbacks ---- */

static la_ssize_t read_source(struct archive *archive, void *context, const void **bytes) {
    struct tar *tar = context;
    size_t got = 0;
    *bytes = tar->bytes;
    if (tar->left > 0 && source_read(tar->source, tar->bytes, READ_BYTES, &got, &tar->error) != 0) {
        archive_set_error(archive, EIO, "%s", tar->error.text);
        return ARCHIVE_FATAL;
    }
    enum text_form form;
    if (tar->given == 0 && text_form_detect(text_input_name(tar->path), tar->bytes, got, &form, &tar->error) != 0) {
        archive_set_error(archive, EINVAL, "%s", tar->error.text);
        return ARCHIVE_FATAL;
    }
    tar->left -= tar->left == SOURCE_TO_END ? 0 : got;
    tar->given += got;
    tar->ended = got == 0;
    return (la_ssize_t)got;
}

/* Skips bytes that need not be read. Only for a plain file, as libarchive reads all of a compressed one. */
static la_int64_t skip_source(struct archive *archive, void *context, la_int64_t wanted) {
    struct tar *tar = context;
    if (tar->source->scheme->skip == NULL || tar->left == SOURCE_TO_END || wanted <= READ_BYTES) {
        return 0; /* not skipped: libarchive then reads the bytes */
    }
    uint64_t bytes = (uint64_t)wanted < tar->left ? (uint64_t)wanted : tar->left;
    if (tar->source->scheme->skip(tar->source, bytes, &tar->error) != 0) {
        archive_set_error(archive, EIO, "%s", tar->error.text);
        return ARCHIVE_FATAL;
    }
    tar->left -= bytes;
    tar->given += bytes;
    return (la_int64_t)bytes;
}

/* ---- */

/* Reports the error of the source or of libarchive. */
static int refuse(struct tar *tar, struct error *error) {
    const char *text = archive_error_string(tar->archive);
    if (tar->error.code != 0) {
        return error_set(error, tar->error.code, "%s", tar->error.text);
    }
    if (archive_errno(tar->archive) == ENOMEM) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", text_input_name(tar->path));
    }
    text = text != NULL ? text : "it is damaged";
    return tar->last[0] == '\0'
               ? error_set(error, AML_EINPUT, "%s: expected a tar file: %s", text_input_name(tar->path), text)
               : error_set(error, AML_EINPUT, "%s: the tar file is damaged at or behind %s: %s",
                           text_input_name(tar->path), tar->last, text);
}

/* Sets up libarchive. */
static bool begin_archive(struct tar *tar) {
    tar->archive = archive_read_new();
    return tar->archive != NULL && archive_read_support_filter_none(tar->archive) == ARCHIVE_OK &&
           archive_read_support_filter_gzip(tar->archive) == ARCHIVE_OK &&
           archive_read_support_filter_zstd(tar->archive) == ARCHIVE_OK &&
           archive_read_support_format_tar(tar->archive) == ARCHIVE_OK &&
           archive_read_support_format_empty(tar->archive) == ARCHIVE_OK &&
           /* otherwise libarchive ignores everything after the first end mark */
           archive_read_set_format_option(tar->archive, "tar", "read_concatenated_archives", "1") == ARCHIVE_OK &&
           archive_read_set_read_callback(tar->archive, read_source) == ARCHIVE_OK &&
           archive_read_set_skip_callback(tar->archive, skip_source) == ARCHIVE_OK &&
           archive_read_set_callback_data(tar->archive, tar) == ARCHIVE_OK;
}

int tar_open(struct tar **opened, const char *path, struct error *error) {
    struct source_identity identity;
    struct tar *tar = malloc(sizeof *tar);
    if (tar == NULL) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", text_input_name(path));
    }
    tar->path = path;
    tar->archive = NULL;
    tar->source = NULL;
    tar->given = 0;
    tar->ended = false;
    tar->error = (struct error){0};
    tar->at = (struct tar_entry){.name = NULL};
    tar->last[0] = '\0';
    int result = source_identify(path, &identity, error);
    result = result == 0 ? source_open(&tar->source, path, &identity, 0, identity.bytes, error) : result;
    tar->left = result == 0 ? identity.bytes : 0;
    if (result == 0 && !begin_archive(tar)) {
        result =
            error_set(error, AML_EFAIL, "%s: libarchive can't read tar files of all forms here", text_input_name(path));
    }
    if (result == 0 && archive_read_open1(tar->archive) != ARCHIVE_OK) {
        result = refuse(tar, error);
    }
    if (result != 0) {
        tar_close(tar);
        tar = NULL;
    }
    *opened = tar;
    return result;
}

static enum tar_kind kind_of(struct archive_entry *entry) {
    if (archive_entry_hardlink(entry) != NULL || archive_entry_symlink(entry) != NULL) {
        return TAR_LINK;
    }
    if (archive_entry_filetype(entry) != AE_IFREG) {
        return archive_entry_filetype(entry) == AE_IFLNK ? TAR_LINK : TAR_OTHER;
    }
    return archive_entry_sparse_count(entry) > 0 ? TAR_SPARSE : TAR_FILE;
}

/* Skips the rest of the present entry, so that a header is read next. */
static int end_entry(struct tar *tar, struct error *error) {
    return tar->at.name == NULL || archive_read_data_skip(tar->archive) == ARCHIVE_OK ? 0 : refuse(tar, error);
}

/* Checks the bytes after the last entry. */
static int check_end(struct tar *tar, la_int64_t before, struct error *error) {
    /* libarchive accepts a file that ends without the block of zeros that ends a tar. */
    if (archive_filter_bytes(tar->archive, 0) < before + BLOCK) {
        return error_set(error, AML_EINPUT, "%s: the tar file ends too early: expected a block of zeros%s%s",
                         text_input_name(tar->path), tar->last[0] != '\0' ? " or an entry behind " : "", tar->last);
    }
    /* libarchive ends a gzip file without an error where the following bytes are not gzip. */
    uint64_t used = (uint64_t)archive_filter_bytes(tar->archive, -1);
    const void *bytes;
    if (used == tar->given && !tar->ended && read_source(tar->archive, tar, &bytes) < 0) {
        return refuse(tar, error);
    }
    if (used != tar->given) {
        return error_set(error, AML_EINPUT,
                         "%s: the file has bytes behind its end: expected none, or more of such a tar",
                         text_input_name(tar->path));
    }
    return 0;
}

int tar_next(struct tar *tar, struct tar_entry *entry, bool *found, struct error *error) {
    struct archive_entry *header = NULL;
    *found = false;
    int result = end_entry(tar, error);
    if (result != 0) {
        return result;
    }
    tar->at.name = NULL;
    la_int64_t before = archive_filter_bytes(tar->archive, 0);
    int status = archive_read_next_header(tar->archive, &header);
    if (status == ARCHIVE_EOF) {
        return check_end(tar, before, error);
    }
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
        return refuse(tar, error);
    }
    const char *name = archive_entry_pathname(header);
    name = name != NULL ? name : archive_entry_pathname_utf8(header);
    if (name == NULL) {
        return refuse(tar, error);
    }
    la_int64_t bytes = archive_entry_size(header);
    tar->at = (struct tar_entry){.name = name, .kind = kind_of(header), .bytes = bytes > 0 ? (uint64_t)bytes : 0};
    snprintf(tar->last, sizeof tar->last, "%s", tar_shown(name));
    *entry = tar->at;
    *found = true;
    return 0;
}

int tar_read(struct tar *tar, void *bytes, size_t size, struct error *error) {
    size_t got = 0;
    while (got < size) {
        la_ssize_t n = archive_read_data(tar->archive, (char *)bytes + got, size - got);
        if (n < 0) {
            return refuse(tar, error);
        }
        if (n == 0) {
            return error_set(error, AML_EINPUT, "%s: %s ends after %zu bytes: expected %zu", text_input_name(tar->path),
                             tar->last, got, size);
        }
        got += (size_t)n;
    }
    return 0;
}

void tar_close(struct tar *tar) {
    if (tar != NULL) {
        archive_read_free(tar->archive); /* NULL is fine */
        source_close(tar->source);
        free(tar);
    }
}

const char *tar_shown(const char *name) {
    size_t length = strlen(name);
    return length > TAR_SHOWN_MAX ? name + length - TAR_SHOWN_MAX : name;
}
