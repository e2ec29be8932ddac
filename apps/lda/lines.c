/* See lines.h. */
#include "apps/lda/lines.h"

#include "agileml/base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { BUFFER_SIZE = 1 << 18 };

int lines_open(struct lines *lines, const char *path, struct error *error) {
    struct stat status;
    *lines = (struct lines){.path = path};
    if (stat(path, &status) != 0) {
        return error_set(error, AML_EINPUT, "%s: %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return error_set(error, AML_EINPUT, "%s: not a regular file", path);
    }
    gzFile file = gzopen(path, "rbe");
    if (file == NULL) {
        return error_set(error, AML_EINPUT, "%s: %s", path, strerror(errno != 0 ? errno : ENOMEM));
    }
    gzbuffer(file, BUFFER_SIZE);
    lines->file = file;
    lines->capacity = BUFFER_SIZE;
    lines->buffer = memory_zeroed(lines->capacity, 1);
    return 0;
}

void lines_close(struct lines *lines) {
    gzclose(lines->file);
    free(lines->buffer);
    *lines = (struct lines){0};
}

/* Reads more behind what is there. */
static int lines_fill(struct lines *lines, struct error *error) {
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    if (lines->end + 1 >= lines->capacity) { /* a place is kept for the last line's 0 */
        if (lines->capacity > LINES_LENGTH_MAX) {
            return error_set(error, AML_EINPUT, "%s: line %llu: longer than %d bytes", lines->path, lines->number + 1,
                             LINES_LENGTH_MAX);
        }
        lines->capacity *= 2;
        lines->buffer = memory_resized(lines->buffer, lines->capacity, 1);
    }
    int got = gzread(lines->file, lines->buffer + lines->end, (unsigned)(lines->capacity - lines->end - 1));
    int code = Z_OK;
    const char *text = gzerror(lines->file, &code);
    if (got < 0 || code == Z_BUF_ERROR) {
        if (code == Z_ERRNO) {
            return error_set(error, AML_EFAIL, "%s: %s", lines->path, strerror(errno));
        }
        return error_set(error, AML_EINPUT, "%s: line %llu: the gzip data is damaged or cut short (%.100s)",
                         lines->path, lines->number + 1, code == Z_BUF_ERROR ? "unexpected end" : text);
    }
    lines->end += (size_t)got;
    lines->at_end = got == 0;
    return 0;
}

int lines_next(struct lines *lines, struct error *error) {
    size_t searched = 0;
    char *newline;
    for (;;) {
        char *from = lines->buffer + lines->start;
        newline = memchr(from + searched, '\n', lines->end - lines->start - searched);
        if (newline != NULL || lines->at_end) {
            break;
        }
        searched = lines->end - lines->start;
        int result = lines_fill(lines, error);
        if (result != 0) {
            return result;
        }
    }
    char *line = lines->buffer + lines->start;
    char *end = newline != NULL ? newline : lines->buffer + lines->end;
    if (newline == NULL && line == end) {
        return 0;
    }
    lines->start = (size_t)(end - lines->buffer) + (newline != NULL ? 1 : 0);
    if (end > line && end[-1] == '\r') {
        end--;
    }
    *end = '\0';
    lines->text = line;
    lines->length = (size_t)(end - line);
    lines->number++;
    return 1;
}
