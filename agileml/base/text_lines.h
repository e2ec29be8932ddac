/* The lines of a text file (text_input.h), one after the other, with their numbers. A line ends in LF, CR LF or CR,
 * whichever come, also mixed; the last one may lack its end. One thread at a time. */
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
    const char *path; /* the caller's */
    uint64_t number;  /* of the last line taken, from 1 */
    char *bytes;      /* the next `held` bytes of the file, see text_lines_fill */
    size_t held;
    /* The fields below are text_lines.c's own. */
    struct text_input *input;
    size_t longest; /* bytes of a line, without its end */
    char *buffer;
    size_t capacity, end;     /* buffer[bytes - buffer..end) is not taken yet */
    size_t marks[TEXT_MARKS]; /* where in the buffer each mark comes next, as far as was searched; at most `end` */
    bool ended;               /* nothing follows in the file */
};

/* Opens a file whose lines have at most `longest` bytes. 0, and text_lines_close must follow; or what text_input_open
 * returns, and there is nothing to close. */
int text_lines_open(struct text_lines *lines, const char *path, size_t longest, struct error *error);
/* The same for an input that text_input_open_source opened under the name `path`; it is closed with the lines. */
void text_lines_take(struct text_lines *lines, const char *path, struct text_input *input, size_t longest);

/* Takes the next line: *line is its text without its end, with a 0 behind it, the caller's to change until the next
 * call; NULL at the file's end. 0; AML_EINPUT (a line is too long or has a zero byte; what text_input_read finds). */
int text_lines_next(struct text_lines *lines, char **line, size_t *length, struct error *error);

/* For data that is not text: reads until `held` is at least `size` or the file ends. Codes as text_input_read. */
int text_lines_fill(struct text_lines *lines, size_t size, struct error *error);
/* Takes `size` of the bytes that are held. */
void text_lines_skip(struct text_lines *lines, size_t size);

/* A zeroed struct is allowed. */
void text_lines_close(struct text_lines *lines);

#endif
