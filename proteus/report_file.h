/* The file of --report: one JSON object per line, in the order of arrival. After a failure to write, remembers it and
 * goes on, so that a full disk doesn't end a job. */
#ifndef PROTEUS_REPORT_FILE_H
#define PROTEUS_REPORT_FILE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdio.h>

struct report_file {
    FILE *file; /* NULL: no report */
    const char *path;
    bool begun;  /* the first line was written, and earlier contents were removed */
    int failure; /* errno of the first failed write */
};

/* Opens a report; `path` NULL: none. Returns 0, or AML_EINPUT when the file can't be created. Earlier contents stay
 * until the first line is written. */
int report_file_open(struct report_file *report, const char *path, struct error *error);
/* Writes a line, given without its newline. */
void report_file_write(struct report_file *report, const char *line, size_t size);
/* Returns 0, or AML_EFAIL when a write failed. A second call does nothing. */
int report_file_close(struct report_file *report, struct error *error);

#endif
