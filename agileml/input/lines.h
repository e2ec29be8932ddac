/* The lines of a split (split.h), as a text. A line that crosses a split's border belongs to the split in which it
 * begins; to be precise, to the one that has the last byte of the line end before it, and a file's first line to the
 * file's first split. So the lines of all splits together, in order, are the lines of the files, each once. Lines end
 * in LF, CR LF or CR, in any mixture. */
#ifndef AGILEML_INPUT_LINES_H
#define AGILEML_INPUT_LINES_H

#include "agileml/input/split.h"

/* Opens the text of the lines of split `index`: it skips to behind the split's first line end, unless the split is its
 * file's first, and reads on into the following splits up to the end of its last line. It may be empty. A byte order
 * mark is skipped at the file's beginning. text_lines_take takes the input over, or text_input_close closes it. The
 * splits must remain until then. Different threads may work on different splits, each with an input of its own.
 *
 * Returns 0; AML_EINPUT or AML_ENOMEM. Reading ends with AML_EINPUT when a file has changed since it was listed. */
int input_lines_open(struct text_input **input, const struct input_splits *splits, size_t index, struct error *error);
/* The same for the first lines of a split: asks for few bytes of an object at first. */
int input_lines_peek(struct text_input **input, const struct input_splits *splits, size_t index, struct error *error);

/* Counts the lines of the file that are before those of split `index`, so that a message can name a line by its number
 * in the file. Reads the file up to there: for errors. */
int input_lines_before(const struct input_splits *splits, size_t index, uint64_t *count, struct error *error);

#endif
