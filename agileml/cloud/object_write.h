/* Writes an object from a stream. The object becomes visible as a whole when it is complete, or not at all. Up to
 * OBJECT_PART_BYTES are sent by one request, more by a multipart upload whose parts are sent in parallel. S3 only.
 * Blocks; one thread at a time. */
#ifndef AGILEML_CLOUD_OBJECT_WRITE_H
#define AGILEML_CLOUD_OBJECT_WRITE_H

#include "agileml/cloud/objects.h"

enum {
    OBJECT_PART_BYTES = 8 << 20,       /* bytes of the first parts; S3 requires at least 5 MiB */
    OBJECT_PART_BYTES_MAX = 512 << 20, /* the size doubles every OBJECT_PARTS_EACH parts, so 10000 are enough */
    OBJECT_PARTS_EACH = 1000,
    OBJECT_PARTS_MAX = 10000,
    OBJECT_PARTS_AHEAD = 3, /* parts uploaded in parallel */
};

struct object_writer;

/* Begins an object. `sweep` aborts unfinished uploads of the same key, which killed processes left behind. Returns
 * 0, or AML_EINPUT for an address that can't be written. */
int object_writer_open(struct object_writer **writer, const char *path, bool sweep,
                       const struct objects_options *options, struct error *error);
int object_writer_write(struct object_writer *writer, const void *bytes, size_t size, struct error *error);
/* Replaces the object's first bytes, at most OBJECT_PART_BYTES. They must have been written before. */
void object_writer_rewrite(struct object_writer *writer, const void *bytes, size_t size);
/* Completes the object, and always frees the writer. After a failure the old object is unchanged. */
int object_writer_commit(struct object_writer *writer, struct error *error);
void object_writer_discard(struct object_writer *writer);

/* Checks whether the credentials allow writing an object at `path`: begins an upload, and aborts it. */
int object_write_check(const char *path, struct error *error);

#endif
