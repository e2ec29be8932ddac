/* The entries of a tar file, plain, gzip or zstd, from a file or an address (agileml/input/source.h), in their
 * order: as a stream in the calling thread, by libarchive. A file may be several concatenated tars. Neither writes
 * files nor opens paths of entries, so no name can do harm. */
#ifndef APPS_SAMPLES_TAR_H
#define APPS_SAMPLES_TAR_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_SHOWN_MAX = 160 /* bytes of a name in a message */ };

enum tar_kind {
    TAR_FILE,
    TAR_LINK,   /* hard or symbolic */
    TAR_SPARSE, /* a file with holes */
    TAR_OTHER   /* a folder or device */
};

struct tar_entry {
    const char *name; /* the whole path, as stored in the tar */
    enum tar_kind kind;
    uint64_t bytes; /* size of a file */
};

struct tar;

/* Opens the file at `path`, which must stay valid. Returns 0, and tar_close must follow; or AML_EINPUT, AML_EFAIL,
 * AML_ENOMEM with the path in *error. */
int tar_open(struct tar **tar, const char *path, struct error *error);
/* Moves to the next entry, which is valid until the next call. *found is false at the end. Returns AML_EINPUT when
 * the file is damaged, not a tar, ends without an end mark, or has other bytes after its end. */
int tar_next(struct tar *tar, struct tar_entry *entry, bool *found, struct error *error);
/* Reads the first `size` bytes of the present entry, which must have that many. At most once for each entry. */
int tar_read(struct tar *tar, void *bytes, size_t size, struct error *error);
void tar_close(struct tar *tar); /* NULL is allowed */

/* Returns the end of a long name, for messages. */
const char *tar_shown(const char *name);

#endif
