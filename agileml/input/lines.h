/* The lines of an extent (extents.h), as a text. A line that crosses extents belongs to the extent in which it begins.
 * To be precise, it belongs to the extent with the last byte of the line end before it; a file's first line belongs to
 * the file's first extent. So the lines of all extents, in order, are the lines of the files, each once. Lines end in
 * LF, CR LF or CR, in any mixture. */
#ifndef AGILEML_INPUT_LINES_H
#define AGILEML_INPUT_LINES_H

#include "agileml/input/extents.h"

/* Opens the text of the lines of extent `index`: everything after the extent's first line end (in a file's first
 * extent, everything) up to the end of the extent's last line, which may be in a following extent. The text may be
 * empty. A byte order mark at the file's beginning is skipped. text_lines_take takes the input over, or
 * text_input_close closes it. The extents must stay valid until then. Different threads may work on different extents,
 * each with an input of its own.
 *
 * Returns 0; AML_EINPUT or AML_ENOMEM. Reading ends with AML_EINPUT when a file has changed since it was listed. */
int input_lines_open(struct text_input **input, const struct extents *extents, uint32_t index, struct error *error);
/* Like input_lines_open, for the first lines of an extent: the first request for an object is small. */
int input_lines_peek(struct text_input **input, const struct extents *extents, uint32_t index, struct error *error);

#endif
