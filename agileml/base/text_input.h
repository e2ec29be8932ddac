/* The bytes of a text file as a stream: plain, gzip (of one or more members) or zstd (of one or more frames). A
 * UTF-8 byte order mark at its start is skipped. Other formats are rejected with a message that names them
 * (text_foreign.h), also inside gzip and zstd. One thread at a time. */
#ifndef AGILEML_BASE_TEXT_INPUT_H
#define AGILEML_BASE_TEXT_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "agileml/base/error.h"
#include "agileml/base/text_foreign.h"

enum {
    TEXT_INPUT_NAME_MAX = 240,            /* last bytes of the path that messages show, so that the rest has room */
    TEXT_FORM_BYTES = TEXT_FOREIGN_BYTES, /* number of a file's first bytes that decide its form */
    TEXT_INPUT_READ_MIN = 16              /* least number of bytes that the first read requests */
};

/* How a file's bytes hold its text. */
enum text_form { TEXT_FORM_UNKNOWN = 0, TEXT_FORM_PLAIN, TEXT_FORM_GZIP, TEXT_FORM_ZSTD };

struct text_input;

/* Returns the part of a path that messages show. It points into `path`. */
const char *text_input_name(const char *path);

/* A source of an input's bytes. Reads `size` bytes, or fewer at the end: *got < size means that the source has
 * ended. Returns 0, or a code with *error set. */
typedef int text_source(void *context, void *bytes, size_t size, size_t *got, struct error *error);

/* Detects the form of a file by bytes[size]: its first TEXT_FORM_BYTES, or all its bytes. Returns 0, or AML_EINPUT
 * when the format is rejected. */
int text_form_detect(const char *name, const void *bytes, size_t size, enum text_form *form, struct error *error);
/* Rejects tar and idx, for readers of lines, by bytes[size]: the text's first TEXT_FORM_BYTES, or all its bytes.
 * Returns 0 or AML_EINPUT. */
int text_input_check_lines(const char *name, const void *bytes, size_t size, struct error *error);

/* Opens the file at `path`, which may be a pipe. Returns 0, and text_input_close must follow. On failure *input is
 * NULL: returns AML_EINPUT (the file can't be opened or read, or has a rejected format) or AML_ENOMEM. */
int text_input_open(struct text_input **input, const char *path, struct error *error);
/* Opens an input that reads from `source`, such as a member of an archive. `name` is for messages and must remain
 * valid. */
int text_input_open_source(struct text_input **input, const char *name, text_source *source, void *context,
                           struct error *error);

/* A part of a text, and where its bytes come from. */
struct text_piece {
    const char *name;    /* name for messages; must remain valid */
    enum text_form form; /* form of the source's bytes, whole members or frames; unknown: the first bytes decide */
    bool first;          /* the text's beginning, where a byte order mark is skipped */
    bool lines;          /* the text is read line by line, so tar and idx data are rejected */
    bool checked;        /* text_form_detect has seen the beginning of this text */
    text_source *source;
    void *context;                /* context of `source` */
    void (*close)(void *context); /* called once, when the input is closed or can't be opened; NULL: nothing to do */
};
/* Opens a piece of a text. Reads nothing yet if the piece's form is known. Returns what text_input_open returns. */
int text_input_open_piece(struct text_input **input, const struct text_piece *piece, struct error *error);

/* Reads `size` bytes (at most 2^30), or fewer if the input ends: *got < size means that it has ended. The first read
 * must request at least TEXT_INPUT_READ_MIN bytes; with fewer than TEXT_FORM_BYTES it recognizes fewer foreign
 * formats inside compressed data. Returns 0 or AML_ENOMEM. Returns AML_EINPUT when the file can't be read, or
 * compressed data is damaged, truncated, or contains a foreign format. */
int text_input_read(struct text_input *input, char *bytes, size_t size, size_t *got, struct error *error);

/* Reads a whole file of at most `most` bytes into *text, with a final 0. The caller frees it. Returns what
 * text_input_open and text_input_read return, and AML_EINPUT when the file is larger. */
int text_input_load(const char *path, size_t most, char **text, size_t *size, struct error *error);

/* Closes an input; NULL is allowed. */
void text_input_close(struct text_input *input);

#endif
