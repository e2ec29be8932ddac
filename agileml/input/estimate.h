/* Estimates how many lines a text file has from its size and its first MiB, for files that are too long to be read
 * only to count lines. */
#ifndef AGILEML_INPUT_ESTIMATE_H
#define AGILEML_INPUT_ESTIMATE_H

#include <stdint.h>

#include "agileml/base/error.h"

enum { ESTIMATE_SAMPLE = 1 << 20 /* bytes of text that are read */ };

/* Sets *lines, at least 1. Files shorter than the sample are counted exactly. For others the sample's lines are
 * scaled by the part of the stored file that the sample takes. So the estimate depends only on the file. `path` may
 * be an address (source.h). Returns 0, or an error of source_open or text_input_read. */
int estimate_lines(const char *path, uint64_t *lines, struct error *error);

#endif
