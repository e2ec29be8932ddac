/* The bytes of a text file as a stream: plain, gzip (of one or more members) or zstd (of one or more frames). A UTF-8
 * byte order mark at its start is skipped. Other formats are rejected by name (text_foreign.h), also inside of gzip and
 * zstd. One thread at a time. */
#ifndef AGILEML_BASE_TEXT_INPUT_H
#define AGILEML_BASE_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "agileml/base/error.h"
#include "agileml/base/text_foreign.h"

enum {
    TEXT_INPUT_NAME_MAX = 240,            /* last bytes of the path that messages show, so that the rest has room */
    TEXT_FORM_BYTES = TEXT_FOREIGN_BYTES, /* of a file's first bytes decide its form */
    TEXT_INPUT_READ_MIN = 16              /* bytes that the first read asks for at least */
};

/* How a file's bytes hold its text. */
enum text_form { TEXT_FORM_UNKNOWN = 0, TEXT_FORM_PLAIN, TEXT_FORM_GZIP, TEXT_FORM_ZSTD };

struct text_input;

/* Returns the part of a path that messages show, a pointer into `path`. */
const char *text_input_name(const char *path);

/* A source of an input's bytes: reads `size` bytes, or fewer at the end; *got < size means that the source has ended.
 * Returns 0, or a code with *error set. */
typedef int text_source(void *context, void *bytes, size_t size, size_t *got, struct error *error);

/* Finds the form of a file that begins with bytes[size]: its first TEXT_FORM_BYTES, or all that it has. Returns 0, or
 * AML_EINPUT when the format is rejected. */
int text_form_detect(const char *name, const void *bytes, size_t size, enum text_form *form, struct error *error);
/* Rejects tar and idx, for readers of lines: by the text's first TEXT_FORM_BYTES, or all that it has. Returns 0 or
 * AML_EINPUT. */
int text_input_check_lines(const char *name, const void *bytes, size_t size, struct error *error);

/* Opens the file at `path`, which may be a pipe. Returns 0, and text_input_close must follow. Returns AML_EINPUT (the
 * file can't be opened or read, or has a rejected format) or AML_ENOMEM, and *input is NULL. */
int text_input_open(struct text_input **input, const char *path, struct error *error);
/* Opens an input that reads from `source`, such as a member of an archive. `name` is for messages and must remain
 * valid. */
int text_input_open_source(struct text_input **input, const char *name, text_source *source, void *context,
                           struct error *error);

/* Where a piece of a text comes from. */
struct text_piece {
    const char *name;    /* for messages; must remain valid */
    enum text_form form; /* of the source's bytes, which are whole members or frames; unknown: the first bytes decide */
    bool first;          /* the text's beginning, where a byte order mark is skipped */
    bool lines;          /* the text is read by lines, so that it is no tar and no idx data */
    bool checked;        /* text_form_detect has seen the beginning of this text */
    text_source *source;
    void *context;                /* the source's */
    void (*close)(void *context); /* called once, when the input is closed or can't be opened; NULL: nothing to do */
};
/* Opens a piece of a text, and reads nothing yet if its form is known. Returns what text_input_open returns. */
int text_input_open_piece(struct text_input **input, const struct text_piece *piece, struct error *error);

/* Reads `size` bytes (at most 2^30, the first time at least TEXT_INPUT_READ_MIN), or fewer if the input ends;
 * *got < size means that it has ended. A first read of fewer than TEXT_FORM_BYTES sees less of a foreign format inside
 * of compressed data. Returns 0; AML_EINPUT (the file can't be read, compressed data is damaged, cut short or of a
 * foreign format inside) or AML_ENOMEM. */
int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error);

/* Reads a whole file of at most `most` bytes into *text, with a 0 behind it, for the caller to free. Returns what
 * text_input_open and text_input_read return, and AML_EINPUT when the file has more bytes. */
int text_input_load(const char *path, size_t most, char **text, size_t *size, struct error *error);

/* NULL is allowed. */
void text_input_close(struct text_input *input);

#endif
