/* Opens texts and their lines by path or address (source.h), for callers that read a whole file. Like
 * text_input_open and text_lines_open, with the same results. */
#ifndef AGILEML_INPUT_SOURCE_TEXT_H
#define AGILEML_INPUT_SOURCE_TEXT_H

#include "agileml/base/text_lines.h"

/* Opens the text's lines, which have at most `longest` bytes. */
int source_lines_open(struct text_lines *lines, const char *path, size_t longest, struct error *error);

#endif
