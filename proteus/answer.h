/* What a job's controller answers to commands, as JSON: its status, and lines of its report, of which the last is the
 * summary. */
#ifndef PROTEUS_ANSWER_H
#define PROTEUS_ANSWER_H

#include "agileml/base/error.h"
#include "agileml/wire/message.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Returns the status that a STATUS has, which is the caller's; NULL: it is not JSON. */
json_t *answer_status(const struct message *message);
/* Whether the job of a status (or of NULL) has ended: its controller only waits until its report has been read. */
bool answer_job_is_over(const json_t *status);

/* Returns 0 if the summary (or NULL) says that the job has ended well; else the job's error: AML_EINPUT for bad input,
 * AML_EFAIL for anything else. */
int answer_result(const json_t *summary, struct error *error);

/* Prints a status or a line of the report as one line. It is ASCII: a name must not control the terminal. */
void answer_print(FILE *stream, const json_t *answer);

#endif
