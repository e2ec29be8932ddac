/* Cuts a file into extents, without reading all of it. An extent is a range of a file's bytes that can be decoded by
 * itself:
 *
 *     plain   ranges of one size
 *     gzip    members, where they can be found without inflating: bgzip's, by a FILE.gzi beside it or the sizes in the
 *             members' headers. Other files are one extent.
 *     zstd    frames, found by the table at the end (the seekable format) or by the headers of frames and blocks
 *
 * Small members and frames are joined up to about the size of a plain extent. Extents depend only on the file's bytes,
 * so they are the same in every process. They cover the file without gaps, so a wrong index can't hide bytes: the
 * decoder finds out when an extent does not begin and end with members or frames. */
#ifndef AGILEML_INPUT_EXTENTS_H
#define AGILEML_INPUT_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "agileml/base/text_input.h"
#include "agileml/input/list.h"

enum {
    EXTENT_MIN = 1 << 18,  /* least bytes of an extent, except a file's last */
    EXTENT_MAX = 1 << 26,  /* bytes of a plain extent */
    EXTENTS_OF_FILE = 256, /* an extent's size is the file's size divided by this, within the limits */
    EXTENTS_MAX = 1 << 20
};

struct extent {
    uint64_t offset;
    uint64_t length; /* SOURCE_TO_END: the file is one extent, and its size may not be known */
};

/* Gets the bytes of extents, as they are stored in the file, while their lines are read (input_lines_open): each
 * extent's own bytes in order, not those that a line or group has in following extents. */
struct extent_watch {
    void (*bytes)(void *context, uint64_t offset, const unsigned char *bytes, size_t size);
    void *context;
};

/* A file's extents. Does not change once made, so any threads may read it. */
struct extents {
    const char *path;       /* as the caller has named the file; for messages */
    struct input_list list; /* the file alone: extents_file */
    enum text_form form;
    struct extent *at;                /* [count], in the order of their bytes */
    uint32_t count;                   /* at least 1, even for an empty file */
    const struct extent_watch *watch; /* in copies of this struct that the one thread that watches reads by; else
                                         NULL */
};

/* As `size`: the file is neither cut nor examined, as it may have any format. Its form is unknown. */
#define EXTENT_WHOLE UINT64_MAX

/* Cuts the file, which may be a pipe. `size` is the target size of an extent in bytes; 0: extent_size of the file.
 * `path` must stay valid as long as the extents. Returns 0, and extents_close must follow. Returns AML_EINPUT when the
 * file can't be read, has a rejected format, or has an index that does not match; AML_ELIMIT for too many extents. */
int extents_make(struct extents *extents, const char *path, uint64_t size, struct error *error);
void extents_close(struct extents *extents); /* zeros are allowed */

/* Returns the size of the extents of a file of `bytes` bytes: a power of two. */
uint64_t extent_size(uint64_t bytes);

static inline const struct input_name *extents_file(const struct extents *extents) {
    return &extents->list.names[0];
}

/* Some of a file's extents, one behind the other; may be none. */
struct extent_range {
    uint32_t first, end;
};

static inline struct extent_range extents_all(const struct extents *extents) {
    return (struct extent_range){.end = extents->count};
}

/* The bytes of the file that these extents have; 0 when that is not known, as of a pipe. */
uint64_t extents_bytes(const struct extents *extents, struct extent_range range);

#endif
