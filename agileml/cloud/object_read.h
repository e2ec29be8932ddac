/* Reads a range of an object as a stream, a few requests ahead: ranges are fetched beside each other and handed out in
 * order. The first range is small, for those who read only a header. An object that is not the version that was
 * expected is an error. One thread at a time. */
#ifndef AGILEML_CLOUD_OBJECT_READ_H
#define AGILEML_CLOUD_OBJECT_READ_H

#include "agileml/cloud/objects.h"

enum {
    OBJECT_READ_FIRST = 1 << 16, /* bytes of the first request; each one after it asks for twice as many, up to ... */
    OBJECT_READ_BYTES = 1 << 21, /* ... so many */
    OBJECT_READ_AHEAD = 4,       /* requests under way or waiting to be read: the memory is so many times as much */
};

struct object_reader;

/* Opens bytes [offset, offset + length) of an object of `total` bytes, or from `offset` to its end when length is
 * UINT64_MAX. `tag` is the version's, "" when any will do; `total` UINT64_MAX when it is not known. Sends nothing yet.
 * The reader has a client of its own. */
int object_reader_open(struct object_reader **reader, const char *path, uint64_t total, const char *tag,
                       uint64_t offset, uint64_t length, const struct objects_options *options, struct error *error);
/* Reads the next `size` bytes, or fewer at the range's end alone. Returns 0, or what objects.h says. */
int object_reader_read(struct object_reader *reader, void *bytes, size_t size, size_t *got, struct error *error);
/* Fetches the first bytes, and finds out the object's size, without reading anything. */
int object_reader_begin(struct object_reader *reader, struct error *error);
/* Skips bytes, as far as they are in the range. What was fetched of them is dropped. */
void object_reader_skip(struct object_reader *reader, uint64_t bytes);
/* The object's bytes, once something was read; UINT64_MAX before. */
uint64_t object_reader_total(const struct object_reader *reader);
/* NULL is allowed. */
void object_reader_close(struct object_reader *reader);

#endif
