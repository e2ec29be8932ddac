/* Reads a range of an object as a stream, a few requests ahead. Requests run in parallel; their bytes are returned
 * in order. The first request is small, for callers that read only a header. Fails if the object's version is not
 * the expected one. One thread at a time. */
#ifndef AGILEML_CLOUD_OBJECT_READ_H
#define AGILEML_CLOUD_OBJECT_READ_H

#include "agileml/cloud/objects.h"

enum {
    OBJECT_READ_FIRST = 1 << 16, /* bytes of the first request; each further one doubles, up to OBJECT_READ_BYTES */
    OBJECT_READ_BYTES = 1 << 21, /* bytes of the largest request */
    OBJECT_READ_AHEAD = 4,       /* requests under way or waiting to be read, of OBJECT_READ_BYTES at most */
};

struct object_reader;

/* Opens bytes [offset, offset + length) of an object of `total` bytes, or from `offset` to its end when length is
 * UINT64_MAX. `tag` is that of the expected version, or "" for any. `total` is UINT64_MAX when it is not known.
 * Sends no request yet. The reader has a client of its own. */
int object_reader_open(struct object_reader **reader, const char *path, uint64_t total, const char *tag,
                       uint64_t offset, uint64_t length, const struct objects_options *options, struct error *error);
/* Reads the next `size` bytes, or fewer only at the range's end. Returns 0, or an error as in objects.h. */
int object_reader_read(struct object_reader *reader, void *bytes, size_t size, size_t *got, struct error *error);
/* Fetches the first bytes, and so learns the object's size, without returning any bytes. */
int object_reader_begin(struct object_reader *reader, struct error *error);
/* Returns the object's bytes, after the first read; UINT64_MAX before. */
uint64_t object_reader_total(const struct object_reader *reader);
/* Closes a reader; NULL is allowed. */
void object_reader_close(struct object_reader *reader);

#endif
