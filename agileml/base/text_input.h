/* The bytes of a text file, plain or gzip (of one or more members), as a stream. A UTF-8 byte order mark at its start
 * is skipped. Other formats are rejected by name: zstd, xz, bzip2, zip, UTF-16. One thread at a time. */
#ifndef AGILEML_BASE_TEXT_INPUT_H
#define AGILEML_BASE_TEXT_INPUT_H

#include <stddef.h>

#include "agileml/base/error.h"

enum {
    TEXT_INPUT_NAME_MAX = 240, /* last bytes of the path that messages show, so that the rest has room */
    TEXT_INPUT_READ_MIN = 16   /* bytes that the first read asks for at least */
};

struct text_input;

/* Returns the part of a path that messages show, a pointer into `path`. */
const char *text_input_name(const char *path);

/* A source of an input's bytes: reads `size` bytes, or fewer at the end; *got < size means that the source has ended.
 * Returns 0, or a code with *error set. */
typedef int text_source(void *context, void *bytes, size_t size, size_t *got, struct error *error);

/* Opens the file at `path`, which may be a pipe. Returns 0, and text_input_close must follow. Returns AML_EINPUT (the
 * file can't be opened or read, or has a rejected format) or AML_ENOMEM, and *input is NULL. */
int text_input_open(struct text_input **input, const char *path, struct error *error);
/* Opens an input that reads from `source`, such as a member of an archive. `name` is for messages and must remain
 * valid. */
int text_input_open_source(struct text_input **input, const char *name, text_source *source, void *context,
                           struct error *error);

/* Reads `size` bytes (at most 2^30, the first time at least TEXT_INPUT_READ_MIN), or fewer if the input ends;
 * *got < size means that it has ended. Returns 0; AML_EINPUT (the file can't be read, gzip data is damaged or cut
 * short) or AML_ENOMEM. */
int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error);

/* Reads a whole file of at most `most` bytes into *text, with a 0 behind it, for the caller to free. Returns what
 * text_input_open and text_input_read return, and AML_EINPUT when the file has more bytes. */
int text_input_load(const char *path, size_t most, char **text, size_t *size, struct error *error);

/* NULL is allowed. */
void text_input_close(struct text_input *input);

#endif
