/* See text_lines.h. */
#include "agileml/base/text_lines.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agileml/base/memory.h"

enum { STEP = 1 << 18 /* bytes of one read */ };

void text_lines_take(struct text_lines *lines, const char *path, struct text_input *input, size_t longest) {
    *lines = (struct text_lines){.path = path, .longest = longest, .input = input, .capacity = STEP + 1};
    lines->buffer = memory_zeroed(lines->capacity, 1);
    lines->bytes = lines->buffer;
}

int text_lines_open(struct text_lines *lines, const char *path, size_t longest, struct error *error) {
    struct text_input *input;
    int code = text_input_open(&input, path, error);
    *lines = (struct text_lines){.path = path};
    if (code == 0) {
        text_lines_take(lines, path, input, longest);
    }
    return code;
}

void text_lines_close(struct text_lines *lines) {
    text_input_close(lines->input);
    free(lines->buffer);
    *lines = (struct text_lines){0};
}

/* Moves the held bytes to the buffer's beginning. */
static void move_to_front(struct text_lines *lines) {
    size_t start = (size_t)(lines->bytes - lines->buffer);
    memmove(lines->buffer, lines->bytes, lines->held);
    lines->bytes = lines->buffer;
    lines->end -= start;
    for (unsigned m = 0; m < TEXT_MARKS; m++) {
        lines->marks[m] = lines->marks[m] > start ? lines->marks[m] - start : 0;
    }
}

int text_lines_fill(struct text_lines *lines, size_t size, struct error *error) {
    while (lines->held < size && !lines->ended) {
        move_to_front(lines);
        if (lines->capacity < lines->end + STEP + 1) { /* 1: room for a 0 after the last line */
            lines->capacity = 2 * lines->end + STEP + 1;
            lines->buffer = memory_resized(lines->buffer, lines->capacity, 1);
            lines->bytes = lines->buffer;
        }
        size_t got;
        int code = text_input_read(lines->input, lines->buffer + lines->end, STEP, &got, error);
        if (code != 0) {
            return code;
        }
        lines->end += got;
        lines->held += got;
        lines->ended = got < STEP;
    }
    return 0;
}

void text_lines_skip(struct text_lines *lines, size_t size) {
    assert(size <= lines->held);
    lines->bytes += size;
    lines->held -= size;
    lines->taken += size;
}

/* Returns the number of held bytes before the next mark; all held bytes when there is none. */
static size_t find_mark(struct text_lines *lines, enum text_mark mark) {
    static const char values[TEXT_MARKS] = {[TEXT_MARK_LF] = '\n', [TEXT_MARK_CR] = '\r', [TEXT_MARK_ZERO] = '\0'};
    size_t start = (size_t)(lines->bytes - lines->buffer);
    size_t at = lines->marks[mark] > start ? lines->marks[mark] : start;
    if (at < lines->end && lines->buffer[at] != values[mark]) {
        const char *found = memchr(lines->buffer + at, values[mark], lines->end - at);
        at = found != NULL ? (size_t)(found - lines->buffer) : lines->end;
    }
    lines->marks[mark] = at;
    return at - start;
}

/* Sets *length to the next line's length and *end to the length of its end, which is 0 when the file ends without one.
 * Reads more of the file as needed. */
static int find_line(struct text_lines *lines, size_t *length, size_t *end, struct error *error) {
    for (;;) {
        size_t lf = find_mark(lines, TEXT_MARK_LF);
        size_t cr = find_mark(lines, TEXT_MARK_CR);
        *length = lf < cr ? lf : cr;
        if (*length > lines->longest) {
            return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected a line of at most %zu bytes",
                             text_input_name(lines->path), lines->number, lines->longest);
        }
        bool found = *length < lines->held && (cr > lf || cr + 1 < lines->held || lines->ended);
        if (found || lines->ended) {
            *end = !found ? 0 : cr + 1 == lf && lf < lines->held ? 2 : 1;
            return 0;
        }
        int code = text_lines_fill(lines, lines->held + 1, error);
        if (code != 0) {
            return code;
        }
    }
}

/* Takes the next line if it ends in LF and contains no CR or zero byte, as most lines do. Otherwise, or if the known
 * marks don't show this, returns false. */
static inline bool take_plain_line(struct text_lines *lines, char **line, size_t *length) {
    size_t start = (size_t)(lines->bytes - lines->buffer);
    const size_t *marks = lines->marks;
    size_t limit = marks[TEXT_MARK_CR] < marks[TEXT_MARK_ZERO] ? marks[TEXT_MARK_CR] : marks[TEXT_MARK_ZERO];
    char *end = limit > start ? memchr(lines->bytes, '\n', limit - start) : NULL;
    if (end == NULL || (size_t)(end - lines->bytes) > lines->longest) {
        return false;
    }
    *line = lines->bytes;
    *length = (size_t)(end - *line);
    *end = '\0';
    lines->number++;
    lines->start = lines->taken;
    lines->taken += *length + 1;
    lines->bytes = end + 1;
    lines->held -= *length + 1;
    return true;
}

static int check_first(struct text_lines *lines, struct error *error) {
    int code = text_lines_fill(lines, TEXT_FORM_BYTES, error);
    return code == 0 ? text_input_check_lines(text_input_name(lines->path), lines->bytes, lines->held, error) : code;
}

int text_lines_next(struct text_lines *lines, char **line, size_t *length, struct error *error) {
    size_t end = 0;
    if (take_plain_line(lines, line, length)) {
        return 0;
    }
    *line = NULL;
    *length = 0;
    int code = lines->number == 0 ? check_first(lines, error) : 0;
    lines->number++;
    code = code == 0 ? find_line(lines, length, &end, error) : code;
    if (code != 0) {
        return code;
    }
    if (*length + end == 0) {
        lines->number--;
        return 0;
    }
    if (find_mark(lines, TEXT_MARK_ZERO) < *length) {
        return error_set(error, AML_EINPUT, "%s:%" PRIu64 ": expected text, got a zero byte",
                         text_input_name(lines->path), lines->number);
    }
    *line = lines->bytes;
    lines->start = lines->taken;
    text_lines_skip(lines, *length + end);
    (*line)[*length] = '\0'; /* overwrites the line end, or uses the extra byte that text_lines_fill reserves */
    return 0;
}
