/* About how many lines a text file has, by its size and its first MiB: for files that are too long to be read just to
 * be counted. */
#ifndef AGILEML_INPUT_ESTIMATE_H
#define AGILEML_INPUT_ESTIMATE_H

#include <stdint.h>

#include "agileml/base/error.h"

enum { ESTIMATE_SAMPLE = 1 << 20 /* bytes of the text that are read */ };

/* Sets *lines, at least 1: exactly the number of a shorter file's lines, else the lines of the first MiB by the part of
 * the file, as it is stored, that they take. So the estimate depends on nothing but the file. `path` may be an address
 * (source.h). Returns 0, or an error of source_open or text_input_read. */
int estimate_lines(const char *path, uint64_t *lines, struct error *error);

#endif
