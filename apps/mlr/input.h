/* A file, plain or gzip, as bytes or as lines. */
#ifndef APPS_MLR_INPUT_H
#define APPS_MLR_INPUT_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

struct input {
    const char *path; /* the caller's */
    gzFile file;
    char *buffer;
    size_t capacity, start, end; /* buffer[start..end) is not taken yet */
    bool ended;                  /* nothing follows in the file */
    uint64_t line;               /* number of the last line taken, from 1 */
};

/* Opens a regular file. 0, or AML_EINPUT or AML_ENOMEM; then there is nothing to close. */
int input_open(struct input *input, const char *path, struct error *error);
/* Has at least `size` bytes at buffer + start, or all that the file still has. 0, AML_EINPUT (reading failed, damaged
 * gzip) or AML_ENOMEM. */
int input_fill(struct input *input, size_t size, struct error *error);
/* Takes the next line: *line is text without its end, with a 0 behind it, in the input's memory until the next call;
 * NULL at the file's end. AML_EINPUT also for a line longer than `longest`, or with a zero byte. */
int input_line(struct input *input, size_t longest, char **line, size_t *length, struct error *error);
void input_close(struct input *input);

#endif
