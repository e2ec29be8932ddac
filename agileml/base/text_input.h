/* The bytes of a text file, plain or gzip (of one or more members), as a stream. A UTF-8 byte order mark at its start
 * is not passed on. What is neither plain nor gzip is refused by name: zstd, xz, bzip2, zip, UTF-16. One thread at a
 * time. */
#ifndef AGILEML_BASE_TEXT_INPUT_H
#define AGILEML_BASE_TEXT_INPUT_H

#include <stddef.h>

#include "agileml/base/error.h"

enum {
    TEXT_INPUT_NAME_MAX = 240, /* last bytes of the path that messages show, so that the rest has room */
    TEXT_INPUT_READ_MIN = 16   /* bytes that a read asks for at least */
};

struct text_input;

/* The part of a path that messages show: within `path`. */
const char *text_input_name(const char *path);

/* Opens the file at `path`, which may be a pipe. 0, and text_input_close must follow; or AML_EINPUT (it can't be opened
 * or read, or is of a kind that is refused) or AML_ENOMEM, and *input is NULL. */
int text_input_open(struct text_input **input, const char *path, struct error *error);

/* Reads until `size` (TEXT_INPUT_READ_MIN to 2^30) bytes are there or the input ends; *got < size means that it ended.
 * 0; AML_EINPUT (the file can't be read, gzip data is damaged or cut short) or AML_ENOMEM. */
int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error);

/* NULL is allowed. */
void text_input_close(struct text_input *input);

#endif
