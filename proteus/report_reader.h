/* Reads the file of a job's report (docs/proteus.md, "The report"), plain or gzip, and checks each line. The job may
 * still run, or may have been killed while it wrote its last line. */
#ifndef PROTEUS_REPORT_READER_H
#define PROTEUS_REPORT_READER_H

#include "agileml/wire/report_line.h"

enum { REPORT_LINE_MAX = 1 << 20 }; /* bytes */

/* Takes a line, and its text as it is in the file: `size` bytes without the line end. They belong to the reader. */
typedef void report_taker(void *context, const struct report_line *line, const char *text, size_t size);

/* Calls `take` for each line, in order. A last line that has no end and is no JSON was cut off by a kill: it is skipped
 * with a warning on standard error. Returns 0, or AML_EINPUT with the file and line: the file can't be read, has no
 * line, or has a line that is not a JSON object with a type. */
int report_read(const char *path, report_taker *take, void *context, struct error *error);

#endif
