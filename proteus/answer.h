/* What commands make of a controller's answers: of a status, and of a report's lines, of which the last is the
 * summary. */
#ifndef PROTEUS_ANSWER_H
#define PROTEUS_ANSWER_H

#include "agileml/wire/report_line.h"

#include <stdio.h>

/* Whether the job of a status (or NULL) has ended, and its controller only waits until its report has been read. */
bool answer_job_is_over(const struct report_line *status);

/* Returns 0 if the job ended well by its summary (or NULL). Else returns the job's error: AML_EINPUT for bad input,
 * AML_EFAIL for anything else. */
int answer_result(const struct report_line *summary, struct error *error);

/* Prints a status or a line of the report as one line. Prints only ASCII, so that names can't control the terminal. */
void answer_print(FILE *stream, const struct report_line *answer);

#endif
