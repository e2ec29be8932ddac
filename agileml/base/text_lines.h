/* The lines of a text file (text_input.h), one after the other, with their numbers. A line ends in LF, CR LF or CR; a
 * file may mix them, and its last line may lack its end. One thread at a time. */
#ifndef AGILEML_BASE_TEXT_LINES_H
#define AGILEML_BASE_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agileml/base/error.h"
#include "agileml/base/text_input.h"

/* The bytes that lines are searched for. */
enum text_mark { TEXT_MARK_LF = 0, TEXT_MARK_CR, TEXT_MARK_ZERO, TEXT_MARKS };

struct text_lines {
    const char *path; /* belongs to the caller */
    uint64_t number;  /* number of the last line taken, from 1 */
    uint64_t start;   /* number of bytes of the text before the last line taken */
    char *bytes;      /* the next `held` bytes of the file, see text_lines_fill */
    size_t held;
    /* Only text_lines.c uses the fields below. */
    struct text_input *input;
    size_t longest; /* most bytes of a line, without its end */
    char *buffer;
    uint64_t taken;           /* bytes of the text before `bytes` */
    size_t capacity, end;     /* the bytes of the buffer from `bytes` to `end` are not taken yet */
    size_t marks[TEXT_MARKS]; /* the buffer has no such mark from `bytes` up to this place, which is at most `end` */
    bool ended;               /* the file has no more bytes */
};

/* Opens a file whose lines have at most `longest` bytes. Returns 0, and text_lines_close must follow. On an error of
 * text_input_open nothing is open. */
int text_lines_open(struct text_lines *lines, const char *path, size_t longest, struct error *error);
/* Takes over an input that text_input_open_source has opened with the name `path`; text_lines_close closes it. */
void text_lines_take(struct text_lines *lines, const char *path, struct text_input *input, size_t longest);

/* Takes the next line. *line is its text without its end, with a final 0; the caller may change it until the next
 * call. At the file's end *line is NULL. Returns 0 or an error of text_input_read. Returns AML_EINPUT when a line is
 * too long or has a zero byte, or the file is tar or idx. */
int text_lines_next(struct text_lines *lines, char **line, size_t *length, struct error *error);

/* For data that is not text: reads until `held` is at least `size` or the file ends. Returns what text_input_read
 * returns. */
int text_lines_fill(struct text_lines *lines, size_t size, struct error *error);
/* Takes `size` of the held bytes. */
void text_lines_skip(struct text_lines *lines, size_t size);

/* Closes the file. A zeroed struct is allowed. */
void text_lines_close(struct text_lines *lines);

#endif
