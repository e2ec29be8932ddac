/* The file of --report: one JSON object a line, as they come. Remembers the first failure to write and
 * goes on, so that a full disk doesn't end a job; what the lines mean is not its business. */
#ifndef PROTEUS_REPORT_FILE_H
#define PROTEUS_REPORT_FILE_H

#include "agileml/base/error.h"

#include <stdbool.h>
#include <stdio.h>

struct report_file {
    FILE *file; /* NULL: no report is wanted */
    const char *path;
    bool begun;  /* an earlier report of that name is gone */
    int failure; /* errno of the first write that failed */
};

/* A NULL path: no report. 0, or AML_EINPUT when the file can't be created. What it holds already stays until the first
 * line is written. */
int report_file_open(struct report_file *report, const char *path, struct error *error);
/* `line` without its newline. */
void report_file_write(struct report_file *report, const char *line, size_t size);
/* 0, or AML_EFAIL when something could not be written. A second call does nothing. */
int report_file_close(struct report_file *report, struct error *error);

#endif
