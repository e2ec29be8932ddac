/* See input.h. zlib reads plain files as they are. */
#include "apps/mlr/input.h"

#include "agileml/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT_STEP = 1 << 18 /* bytes asked of zlib at once */ };

int input_open(struct input *input, const char *path, struct error *error) {
    *input = (struct input){.path = path};
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (file < 0 || fstat(file, &status) != 0) {
        int failed = errno;
        if (file >= 0) {
            close(file);
        }
        return error_set(error, AML_EINPUT, "%s: %s", path, strerror(failed));
    }
    if (!S_ISREG(status.st_mode)) {
        close(file);
        return error_set(error, AML_EINPUT, "%s: not a regular file, and every process of the job reads it", path);
    }
    input->file = gzdopen(file, "rb");
    if (input->file == NULL) {
        close(file);
        return error_set(error, AML_ENOMEM, "%s: out of memory", path);
    }
    gzbuffer(input->file, INPUT_STEP);
    input->capacity = INPUT_STEP + 1;
    input->buffer = memory_zeroed(input->capacity, 1);
    return 0;
}

static int input_failed(const struct input *input, struct error *error) {
    int code;
    const char *text = gzerror(input->file, &code);
    if (code == Z_ERRNO) {
        return error_set(error, AML_EINPUT, "%s: %s", input->path, strerror(errno));
    }
    if (code == Z_MEM_ERROR) {
        return error_set(error, AML_ENOMEM, "%s: out of memory", input->path);
    }
    if (code == Z_BUF_ERROR) {
        return error_set(error, AML_EINPUT, "%s: truncated gzip data: the file ends too early", input->path);
    }
    return error_set(error, AML_EINPUT, "%s: damaged gzip data: %s", input->path, text);
}

int input_fill(struct input *input, size_t size, struct error *error) {
    while (input->end - input->start < size && !input->ended) {
        if (input->start > 0) {
            memmove(input->buffer, input->buffer + input->start, input->end - input->start);
            input->end -= input->start;
            input->start = 0;
        }
        if (input->capacity < input->end + INPUT_STEP + 1) { /* room for a 0 behind the last line */
            input->capacity = 2 * input->end + INPUT_STEP + 1;
            input->buffer = memory_resized(input->buffer, input->capacity, 1);
        }
        int got = gzread(input->file, input->buffer + input->end, INPUT_STEP);
        int code = Z_OK;
        if (got >= 0) {
            (void)gzerror(input->file, &code);
        }
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            return input_failed(input, error);
        }
        input->end += (size_t)got;
        input->ended = got == 0;
    }
    return 0;
}

static int too_long(const struct input *input, size_t longest, struct error *error) {
    return error_set(error, AML_EINPUT, "%s:%llu: expected a line of at most %zu bytes", input->path,
                     (unsigned long long)input->line, longest);
}

/* The LF at or after `from` bytes of what is not taken yet, reading on as needed; NULL: the file has none. */
static int find_line_end(struct input *input, size_t longest, char **found, struct error *error) {
    size_t searched = 0;
    for (;;) {
        size_t held = input->end - input->start;
        char *text = input->buffer + input->start;
        *found = held > searched ? memchr(text + searched, '\n', held - searched) : NULL;
        size_t length = *found != NULL ? (size_t)(*found - text) : held;
        if (length > longest + 1) { /* a CR may stand before the LF */
            return too_long(input, longest, error);
        }
        if (*found != NULL || input->ended) {
            return 0;
        }
        searched = held;
        int code = input_fill(input, held + 1, error);
        if (code != 0) {
            return code;
        }
    }
}

int input_line(struct input *input, size_t longest, char **line, size_t *length, struct error *error) {
    char *end;
    input->line++;
    int code = find_line_end(input, longest, &end, error);
    *line = NULL;
    *length = 0;
    if (code != 0) {
        return code;
    }
    if (end == NULL && input->start == input->end) {
        return 0;
    }
    char *text = input->buffer + input->start;
    size_t taken = end != NULL ? (size_t)(end - text) + 1 : input->end - input->start;
    *length = end != NULL ? taken - 1 : taken;
    input->start += taken;
    *length -= *length > 0 && text[*length - 1] == '\r';
    if (*length > longest) {
        return too_long(input, longest, error);
    }
    text[*length] = '\0'; /* for the last line of a file, the room that input_fill leaves */
    if (memchr(text, '\0', *length) != NULL) {
        return error_set(error, AML_EINPUT, "%s:%llu: expected text, got a zero byte", input->path,
                         (unsigned long long)input->line);
    }
    *line = text;
    return 0;
}

void input_close(struct input *input) {
    if (input->file != NULL) {
        gzclose(input->file);
    }
    free(input->buffer);
    *input = (struct input){0};
}
