/* The lines of a file, plain or gzip, one after the other, with their numbers. */
#ifndef APPS_LDA_LINES_H
#define APPS_LDA_LINES_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { LINES_LENGTH_MAX = 1 << 26 /* bytes of a line */ };

struct lines {
    const char *path; /* the caller's */
    /* The line that lines_next found, without its end (LF or CR LF), with a 0 behind it; valid until the next call. */
    const char *text;
    size_t length;
    unsigned long long number; /* from 1 */
    void *file;                /* gzFile */
    char *buffer;
    size_t capacity, start, end; /* buffer[start..end) was read and not used yet */
    bool at_end;                 /* of the file */
};

/* 0, and lines_close must follow; or AML_EINPUT when there is no such file or it is none. */
int lines_open(struct lines *lines, const char *path, struct error *error);
/* 1 and a line, 0 at the end, or AML_EINPUT (a line is too long, gzip data is damaged or cut short), AML_EFAIL. */
int lines_next(struct lines *lines, struct error *error);
void lines_close(struct lines *lines);

#endif
