/* Writes an object from a stream. It appears whole, when it is complete, or not at all: up to OBJECT_PART_BYTES by one
 * request, more by a multipart upload, whose parts are sent beside each other. S3 alone. Blocks; one thread at a
 * time. */
#ifndef AGILEML_CLOUD_OBJECT_WRITE_H
#define AGILEML_CLOUD_OBJECT_WRITE_H

#include "agileml/cloud/objects.h"

enum {
    OBJECT_PART_BYTES = 8 << 20,       /* of the first parts; S3 wants at least 5 MiB */
    OBJECT_PART_BYTES_MAX = 512 << 20, /* parts double each OBJECT_PARTS_EACH, so that 10000 are enough */
    OBJECT_PARTS_EACH = 1000,
    OBJECT_PARTS_MAX = 10000,
    OBJECT_PARTS_AHEAD = 3, /* parts under way */
};

struct object_writer;

/* Begins an object. With `sweep` aborts unfinished uploads of the same key, of processes that were killed. Returns 0;
 * AML_EINPUT for an address that can't be written to. */
int object_writer_open(struct object_writer **writer, const char *path, bool sweep,
                       const struct objects_options *options, struct error *error);
int object_writer_write(struct object_writer *writer, const void *bytes, size_t size, struct error *error);
/* Replaces the object's first bytes, which have been written (OBJECT_PART_BYTES at most). */
void object_writer_rewrite(struct object_writer *writer, const void *bytes, size_t size);
/* Completes the object, and frees the writer in any case. After a failure the object is as it was before. */
int object_writer_commit(struct object_writer *writer, struct error *error);
void object_writer_discard(struct object_writer *writer);

/* Checks whether the credentials allow an object to be written there: begins an upload, and aborts it. */
int object_write_check(const char *path, struct error *error);

#endif
