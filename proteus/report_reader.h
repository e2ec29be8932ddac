/* Reads the file of a job's report (docs/proteus.md, "The report"), plain or gzip, and checks that each line is one.
 * The job may still run, and may have been killed while it wrote its last line. */
#ifndef PROTEUS_REPORT_READER_H
#define PROTEUS_REPORT_READER_H

#include "agileml/base/error.h"

#include <jansson.h>
#include <stddef.h>

enum { REPORT_LINE_MAX = 1 << 20 }; /* bytes */

/* Takes a line: `line` is its object, `text` the same as it stands in the file, `size` bytes without their end, with a
 * 0 behind. Both are the reader's. Returns 0, or a code with *error set, which ends the reading. */
typedef int report_taker(void *context, const json_t *line, const char *text, size_t size, struct error *error);

/* Calls `take` for each line, in order. A last line without its end that is no JSON was cut off by a kill: it is left
 * out, with a warning on standard error. Returns 0, what `take` returned, or AML_EINPUT with the file and line: the
 * file can't be read, has no line, or has one that is no object of JSON with a type. */
int report_read(const char *path, report_taker *take, void *context, struct error *error);

#endif
